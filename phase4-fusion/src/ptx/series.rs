//! A polynomial in f16: one value per instruction, or two.

use bench::ladder::{Cost, Step};
use common::check::Tolerance;
use common::prelude::*;

use super::{Pair, Problem, Size, Version, Wanted};

/// The pair.
pub const PAIR: Pair = Pair {
    name: "series",
    question: "Is f16 arithmetic faster before two values share a register?",
    versions: &[SCALAR, SPLIT, PAIRS, PTX],
    telling: &["HFMA2", "PRMT", "LDG"],
    problem,
    cost,
    simulated: Size::Values(1 << 15),
    measured: &[Size::Values(1 << 27)],
};

/// CUDA C, `__hfma`, a value per thread.
pub const SCALAR: Step<Version> = Step {
    number: 1,
    name: "C, __half",
    idea: "one value per thread",
    source: kernel_source!("ptx_04_half_scalar"),
    method: Version { kernel: "series", threads: Size::len, block: 256 },
};

/// CUDA C, `__hfma` for both halves of a register.
pub const SPLIT: Step<Version> = Step {
    number: 2,
    name: "C, eight",
    idea: "eight values per thread, a multiply-add for each",
    source: kernel_source!("ptx_04_half_split"),
    method: EIGHTS,
};

/// CUDA C, `__hfma2`.
pub const PAIRS: Step<Version> = Step {
    number: 3,
    name: "C, __half2",
    idea: "a multiply-add per pair, by __hfma2",
    source: kernel_source!("ptx_04_half_pairs"),
    method: EIGHTS,
};

/// PTX, `fma.rn.f16x2`.
pub const PTX: Step<Version> = Step {
    number: 4,
    name: "PTX, f16x2",
    idea: "a multiply-add per pair, by fma.rn.f16x2",
    source: kernel_source!("ptx_04_half_ptx"),
    method: EIGHTS,
};

/// One thread more than there are vectors of 16 bytes, for the remainder.
const EIGHTS: Version = Version { kernel: "series", threads: |size| size.len() / 8 + 1, block: 256 };

/// Multiply-adds per value, as in the kernel.
const TERMS: i32 = 64;

/// Half the distance from 1 to the next f16.
const F16_ROUND_OFF: f64 = 1.0 / 2048.0;

/// Values within ±½, where no partial sum exceeds 2. Each step rounds once, by at most u times its result, and multiplies what
/// came before by at most ½: the error stays below 2u·(1 + u) / (1 − ½).
fn problem(size: Size) -> Result<Problem> {
    let n = size.len();
    let values = Tensor::random(&[n], 4).into_vec()?;
    let input = Tensor::from_vec(&[n], values.iter().map(|value| value / 2.0).collect())?.to_type(ElementType::F16)?;
    let x: &[half::f16] = input.values(MemoryFormat::Nchw)?;
    let tolerance = Tolerance::absolute(4.0 * F16_ROUND_OFF * (1.0 + F16_ROUND_OFF));
    let wanted = Wanted::new(n, 1, tolerance, |i| {
        let x = x[i].to_f64();
        (1.0 - x.powi(TERMS + 1)) / (1.0 - x)
    });
    Ok(Problem { size, inputs: vec![input], output: (vec![n], ElementType::F16), wanted })
}

fn cost(size: Size) -> Cost {
    let n = size.len() as f64;
    Cost { flops: 2.0 * f64::from(TERMS) * n, bytes: 4.0 * n, values: n }
}
