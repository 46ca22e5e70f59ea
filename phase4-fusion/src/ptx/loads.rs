//! y = 2.5·x: loads of 4 bytes, of 16, and of 16 with hints for the caches.

use bench::ladder::{Cost, Step};
use common::check::{F32_ROUND_OFF, Tolerance};
use common::prelude::*;

use super::{Pair, Problem, Size, Version, Wanted};

/// The pair.
pub const PAIR: Pair = Pair {
    name: "loads",
    question: "Do 16-byte loads and cache hints help a kernel that memory limits?",
    versions: &[SCALAR, FLOAT4, PTX],
    telling: &["LDG", "STG"],
    problem,
    cost,
    simulated: Size::Values(1 << 16),
    measured: &[
        Size::Values(1 << 20),
        Size::Values(1 << 22),
        Size::Values(1 << 24),
        Size::Values(1 << 26),
        Size::Values(1 << 28),
    ],
};

/// CUDA C, a float per thread.
pub const SCALAR: Step<Version> = Step {
    number: 1,
    name: "C, float",
    idea: "one thread per float",
    source: kernel_source!("ptx_01_loads_scalar"),
    method: Version { kernel: "loads", threads: Size::len, block: 256 },
};

/// CUDA C, a `float4` per thread.
pub const FLOAT4: Step<Version> = Step {
    number: 2,
    name: "C, float4",
    idea: "one thread per 16 bytes",
    source: kernel_source!("ptx_01_loads_float4"),
    method: VECTORS,
};

/// PTX, with hints.
pub const PTX: Step<Version> = Step {
    number: 3,
    name: "PTX, hints",
    idea: "read-only path, past L1, 256 bytes into L2, evict first",
    source: kernel_source!("ptx_01_loads_ptx"),
    method: VECTORS,
};

/// One thread more than there are vectors, for the remainder.
const VECTORS: Version = Version { kernel: "loads", threads: |size| size.len() / 4 + 1, block: 256 };

/// One rounding per value.
fn problem(size: Size) -> Result<Problem> {
    let n = size.len();
    let input = Tensor::random(&[n], 1);
    let x = input.as_slice()?;
    let wanted = Wanted::new(n, 1, Tolerance::relative(F32_ROUND_OFF), |i| 2.5 * f64::from(x[i]));
    Ok(Problem { size, inputs: vec![input], output: (vec![n], ElementType::F32), wanted })
}

fn cost(size: Size) -> Cost {
    let n = size.len() as f64;
    Cost { flops: n, bytes: 8.0 * n, values: n }
}
