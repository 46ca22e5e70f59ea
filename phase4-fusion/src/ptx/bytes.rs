//! 8-bit weights to f16: by casts, or by bits.

use bench::ladder::{Cost, Step};
use common::check::Tolerance;
use common::prelude::*;

use super::{Pair, Problem, Size, Version, Wanted};

/// The pair.
pub const PAIR: Pair = Pair {
    name: "bytes",
    question: "How do 8-bit weights become f16 without a conversion?",
    versions: &[CASTS, PTX],
    telling: &["I2F", "I2FP", "PRMT", "LOP3", "HADD2", "HMUL2", "SGXT"],
    problem,
    cost,
    simulated: Size::Values(1 << 16),
    measured: &[Size::Values(1 << 24), Size::Values(1 << 28)],
};

/// CUDA C.
pub const CASTS: Step<Version> = Step {
    number: 1,
    name: "C, casts",
    idea: "four conversions per word",
    source: kernel_source!("ptx_06_bytes_casts"),
    method: WORDS,
};

/// PTX, `lop3` and `prmt`.
pub const PTX: Step<Version> = Step {
    number: 2,
    name: "PTX, prmt",
    idea: "bytes into the lower halves of 1024, minus 1152",
    source: kernel_source!("ptx_06_bytes_ptx"),
    method: WORDS,
};

/// One thread more than there are words, for the remainder.
const WORDS: Version = Version { kernel: "bytes", threads: |size| size.len() / 4 + 1, block: 256 };

/// Every byte occurs. A product of 8 by 11 bits fits f64, and f32, so that the only rounding, to f16, is that of the kernel: no
/// difference is allowed.
fn problem(size: Size) -> Result<Problem> {
    let n = size.len();
    let values = Tensor::random(&[n], 6).into_vec()?;
    let q: Vec<i8> = values.iter().map(|value| (128.0 * value).floor() as i8).collect();
    let scale = half::f16::from_f32(0.0123);
    let wanted =
        Wanted::new(n, 1, Tolerance::exact(), |i| half::f16::from_f32(f32::from(q[i]) * scale.to_f32()).to_f64());
    let inputs = vec![Tensor::of(&[n], q)?, Tensor::of(&[1], vec![scale])?];
    Ok(Problem { size, inputs, output: (vec![n], ElementType::F16), wanted })
}

fn cost(size: Size) -> Cost {
    let n = size.len() as f64;
    Cost { flops: n, bytes: 3.0 * n, values: n }
}
