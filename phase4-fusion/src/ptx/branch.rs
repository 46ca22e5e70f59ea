//! Leaky ReLU by `if`, by a branch and by a predicate.

use bench::ladder::{Cost, Step};
use common::check::Tolerance;
use common::prelude::*;

use super::{Pair, Problem, Size, Version, Wanted};

/// The pair.
pub const PAIR: Pair = Pair {
    name: "branch",
    question: "Who decides between a branch and a predicate?",
    versions: &[IF, BRA, PREDICATE],
    telling: &["FSETP", "FSEL", "FMUL", "BRA", "BSSY", "BSYNC"],
    problem,
    cost,
    simulated: Size::Values(1 << 16),
    measured: &[Size::Values(1 << 26)],
};

/// CUDA C.
pub const IF: Step<Version> = Step {
    number: 1,
    name: "C, if",
    idea: "an if around one multiplication",
    source: kernel_source!("ptx_03_branch_if"),
    method: EACH,
};

/// PTX with a branch.
pub const BRA: Step<Version> = Step {
    number: 2,
    name: "PTX, bra",
    idea: "lanes with x ≥ 0 jump over it",
    source: kernel_source!("ptx_03_branch_bra"),
    method: EACH,
};

/// PTX with a predicate.
pub const PREDICATE: Step<Version> = Step {
    number: 3,
    name: "PTX, @p",
    idea: "lanes with x < 0 take part in it",
    source: kernel_source!("ptx_03_branch_predicate"),
    method: EACH,
};

const EACH: Version = Version { kernel: "branch", threads: Size::len, block: 256 };

/// An eighth is exact.
fn problem(size: Size) -> Result<Problem> {
    let n = size.len();
    let input = Tensor::random(&[n], 3);
    let x = input.as_slice()?;
    let wanted = Wanted::new(n, 1, Tolerance::exact(), |i| {
        let x = f64::from(x[i]);
        if x < 0.0 { 0.125 * x } else { x }
    });
    Ok(Problem { size, inputs: vec![input], output: (vec![n], ElementType::F32), wanted })
}

fn cost(size: Size) -> Cost {
    let n = size.len() as f64;
    Cost { flops: n, bytes: 8.0 * n, values: n }
}
