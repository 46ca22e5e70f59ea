//! Softmax of rows: powers by `expf`, by `__expf`, and by `ex2.approx` with log₂ e folded in.

use bench::ladder::{Cost, Step};
use common::check::Tolerance;
use common::prelude::*;

use super::{Pair, Problem, Size, Version, Wanted};

/// The pair.
pub const PAIR: Pair = Pair {
    name: "softmax",
    question: "What does a power cost, and can it cost less?",
    versions: &[C, INTRINSIC, PTX],
    telling: &["MUFU", "FFMA", "FMUL", "FADD"],
    problem,
    cost,
    simulated: Size::Rows(256, 256),
    measured: &[Size::Rows(1 << 17, 512)],
};

/// CUDA C, `expf`.
pub const C: Step<Version> = Step {
    number: 1,
    name: "C, expf",
    idea: "right to 2 units in the last place",
    source: kernel_source!("ptx_05_exp_c"),
    method: ROWS,
};

/// CUDA C, `__expf`.
pub const INTRINSIC: Step<Version> = Step {
    number: 2,
    name: "C, __expf",
    idea: "a product, and ex2.approx",
    source: kernel_source!("ptx_05_exp_intrinsic"),
    method: ROWS,
};

/// PTX, `ex2.approx.ftz`.
pub const PTX: Step<Version> = Step {
    number: 3,
    name: "PTX, ex2",
    idea: "one multiply-add with the maximum, and ex2.approx.ftz",
    source: kernel_source!("ptx_05_exp_ptx"),
    method: ROWS,
};

/// A warp per row.
const ROWS: Version = Version { kernel: "softmax", threads: |size| 32 * shape(size)[0], block: 256 };

fn shape(size: Size) -> [usize; 2] {
    match size {
        Size::Rows(rows, columns) => [rows, columns],
        Size::Values(n) => [1, n],
    }
}

/// Values within ±4, so that none is more than 8 below its row's maximum.
///
/// The power of the last version takes x·L − max·L, where L is f32's log₂ e. L is off by one u, the multiply-add rounds once: that
/// is 2u times a distance of at most 8·log₂ e, of which ln 2 counts, so 16u. What max·L was rounded by is common to a row and
/// cancels. `ex2.approx` is off by 2⁻²² or 4u. The others round x − max (8u at most), multiply (`__expf`: 16u with L's error), and
/// are off by as much. So a power is off by at most 28u; numerator and sum by as much each, the sum by `columns` roundings more,
/// the reciprocal and the product by two: γ(columns + 58).
fn problem(size: Size) -> Result<Problem> {
    let [rows, columns] = shape(size);
    let values = Tensor::random(&[rows, columns], 5).into_vec()?;
    let input = Tensor::from_vec(&[rows, columns], values.iter().map(|value| 4.0 * value).collect())?;
    let x = input.as_slice()?;
    let tolerance = Tolerance::relative(Tolerance::elementwise(columns + 58, 1.0).absolute);
    let wanted = Wanted::new(rows * columns, columns, tolerance, |i| {
        let row = &x[i / columns * columns..][..columns];
        let most = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let power = |x: f32| (f64::from(x) - f64::from(most)).exp();
        power(x[i]) / row.iter().map(|&x| power(x)).sum::<f64>()
    });
    Ok(Problem { size, output: (vec![rows, columns], ElementType::F32), inputs: vec![input], wanted })
}

fn cost(size: Size) -> Cost {
    let n = size.len() as f64;
    Cost { flops: 5.0 * n, bytes: 8.0 * n, values: n }
}
