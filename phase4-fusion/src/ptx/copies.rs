//! A signal, smoothed tile by tile: copies through registers, and copies that no register sees.

use bench::ladder::{Cost, Step};
use common::check::Tolerance;
use common::prelude::*;

use super::{Pair, Problem, Size, Version, Wanted};

/// The pair.
pub const PAIR: Pair = Pair {
    name: "copies",
    question: "What do copies save that no register sees?",
    versions: &[STAGED, PIPELINE, PTX],
    telling: &["LDG", "STS", "LDGSTS", "LDGDEPBAR", "DEPBAR", "BAR"],
    problem,
    cost,
    simulated: Size::Values(1 << 16),
    measured: &[Size::Values(1 << 26)],
};

/// CUDA C, through registers.
pub const STAGED: Step<Version> = Step {
    number: 1,
    name: "C, registers",
    idea: "loaded before, stored after the tile is computed",
    source: kernel_source!("ptx_08_copies_staged"),
    method: TILES,
};

/// CUDA C, `__pipeline_memcpy_async`.
pub const PIPELINE: Step<Version> = Step {
    number: 2,
    name: "C, pipeline",
    idea: "__pipeline_memcpy_async",
    source: kernel_source!("ptx_08_copies_pipeline"),
    method: TILES,
};

/// PTX, `cp.async`.
pub const PTX: Step<Version> = Step {
    number: 3,
    name: "PTX, cp.async",
    idea: "cp.async.cg with zeros beyond the ends",
    source: kernel_source!("ptx_08_copies_ptx"),
    method: TILES,
};

/// 256 threads for 8 tiles.
const TILES: Version = Version { kernel: "smooth", threads: |size| blocks(size) * 256, block: 256 };

/// Values of a tile, as in the kernels.
const TILE: usize = 1024;
/// Tiles of a block, as in the kernels.
const TILES_EACH: usize = 8;

/// Blocks for a signal.
pub(super) fn blocks(size: Size) -> usize {
    size.len().div_ceil(TILE * TILES_EACH)
}

/// Binomial coefficients of order 8, over 256: exact, and 1 together.
const WEIGHTS: [f64; 9] = [1.0, 8.0, 28.0, 56.0, 70.0, 56.0, 28.0, 8.0, 1.0];

/// A signal whose outputs are sums of nine products of values below 1.
pub(super) fn problem(size: Size) -> Result<Problem> {
    let n = size.len();
    let input = Tensor::random(&[n], 9);
    let x = input.as_slice()?;
    let wanted = Wanted::new(n, WEIGHTS.len(), Tolerance::dot(WEIGHTS.len(), 1.0), |i| {
        let at = |j: usize| (i + j).checked_sub(4).and_then(|at| x.get(at)).map_or(0.0, |&x| f64::from(x));
        WEIGHTS.iter().enumerate().map(|(j, weight)| weight / 256.0 * at(j)).sum()
    });
    Ok(Problem { size, inputs: vec![input], output: (vec![n], ElementType::F32), wanted })
}

pub(super) fn cost(size: Size) -> Cost {
    let n = size.len() as f64;
    Cost { flops: 18.0 * n, bytes: 8.0 * n, values: n }
}
