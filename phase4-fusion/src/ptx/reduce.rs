//! Sum and maximum of each row of integers: ten shuffles, or two instructions.

use bench::ladder::{Cost, Step};
use common::check::Tolerance;
use common::prelude::*;

use super::{Pair, Problem, Size, Version, Wanted};

/// The pair.
pub const PAIR: Pair = Pair {
    name: "reduce",
    question: "What is left of a warp's reduction when one instruction does it?",
    versions: &[SHUFFLE, INTRINSIC, PTX],
    telling: &["SHFL", "REDUX"],
    problem,
    cost,
    simulated: Size::Rows(2048, 32),
    measured: &[Size::Rows(1 << 21, 32), Size::Rows(1 << 16, 1024)],
};

/// CUDA C, by shuffles.
pub const SHUFFLE: Step<Version> = Step {
    number: 1,
    name: "C, shuffles",
    idea: "five __shfl_xor_sync for the sum, five for the maximum",
    source: kernel_source!("ptx_02_reduce_shuffle"),
    method: ROWS,
};

/// CUDA C, by the functions that are one instruction.
pub const INTRINSIC: Step<Version> = Step {
    number: 2,
    name: "C, __reduce",
    idea: "__reduce_add_sync and __reduce_max_sync",
    source: kernel_source!("ptx_02_reduce_intrinsic"),
    method: ROWS,
};

/// PTX.
pub const PTX: Step<Version> = Step {
    number: 3,
    name: "PTX, redux",
    idea: "redux.sync.add.s32 and redux.sync.max.s32",
    source: kernel_source!("ptx_02_reduce_ptx"),
    method: ROWS,
};

/// A warp per row.
const ROWS: Version = Version { kernel: "reduce", threads: |size| 32 * rows_of(size), block: 256 };

fn rows_of(size: Size) -> usize {
    match size {
        Size::Rows(rows, _) => rows,
        Size::Values(n) => n,
    }
}

/// Integers within ±8192, so that the sum of 1024 is an f32 too.
fn problem(size: Size) -> Result<Problem> {
    let rows = rows_of(size);
    let columns = size.len() / rows.max(1);
    let values = Tensor::random(&[rows, columns], 2).into_vec()?;
    let x: Vec<i32> = values.iter().map(|value| (8192.0 * value) as i32).collect();
    let wanted = Wanted::new(2 * rows, columns, Tolerance::exact(), |i| {
        let row = x[i / 2 * columns..][..columns].iter();
        match i % 2 {
            0 => f64::from(row.sum::<i32>()),
            _ => f64::from(row.copied().max().unwrap_or(i32::MIN)),
        }
    });
    let inputs = vec![Tensor::of(&[rows, columns], x)?];
    Ok(Problem { size, inputs, output: (vec![rows, 2], ElementType::I32), wanted })
}

fn cost(size: Size) -> Cost {
    let n = size.len() as f64;
    Cost { flops: 2.0 * n, bytes: 4.0 * n + 8.0 * rows_of(size) as f64, values: n }
}
