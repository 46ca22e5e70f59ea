//! A chain of products of 16×16 matrices on tensor cores: by `nvcuda::wmma`, or by `mma.sync` with fragments by hand.

use bench::ladder::{Cost, Step};
use common::check::Tolerance;
use common::prelude::*;

use super::{Pair, Problem, Size, Version, Wanted};

/// The pair.
pub const PAIR: Pair = Pair {
    name: "markov",
    question: "What does knowing a fragment's layout save?",
    versions: &[WMMA, PTX],
    telling: &["HMMA", "LDS", "STS", "LDSM", "F2FP"],
    problem,
    cost,
    simulated: Size::Values(64),
    measured: &[Size::Values(1 << 17)],
};

/// CUDA C, `nvcuda::wmma`.
pub const WMMA: Step<Version> = Step {
    number: 1,
    name: "C, wmma",
    idea: "sums go through shared memory to become factors",
    source: kernel_source!("ptx_07_mma_wmma"),
    method: CHAINS,
};

/// PTX, `mma.sync`.
pub const PTX: Step<Version> = Step {
    number: 2,
    name: "PTX, mma",
    idea: "sums become factors where they are",
    source: kernel_source!("ptx_07_mma_ptx"),
    method: CHAINS,
};

/// A warp per chain.
const CHAINS: Version = Version { kernel: "markov", threads: |size| 32 * size.len(), block: 128 };

/// Rows and columns, as in the kernels.
const SIZE: usize = 16;
/// Products, as in the kernels.
const STEPS: usize = 16;

/// Distributions, and transitions that mostly stay where they are: after 16 steps rows still differ.
///
/// No number is negative, so that relative errors do not grow when numbers are added. A step adds 16 products, which tensor cores
/// may truncate (2⁻²² each at most), and all but the last round to f16: 16·(2⁻¹¹ + 16·2⁻²²), with 2 % for terms of second order.
fn problem(size: Size) -> Result<Problem> {
    let chains = size.len();
    let shape = [chains, SIZE, SIZE];
    let positive = |seed| -> Result<Vec<f32>> {
        Ok(Tensor::random(&shape, seed).into_vec()?.into_iter().map(|value| 1.05 + value).collect())
    };
    let [mut x, mut p] = [positive(7)?, positive(8)?];
    for row in x.chunks_mut(SIZE) {
        let sum: f32 = row.iter().sum();
        row.iter_mut().for_each(|value| *value /= sum);
    }
    // Transposed: the 16 values in a column of `p`, which lie together, are the ways that lead to one state.
    for chain in p.chunks_mut(SIZE * SIZE) {
        for from in 0..SIZE {
            let sum: f32 = (0..SIZE).map(|to| chain[to * SIZE + from]).sum();
            for to in 0..SIZE {
                let stays = if to == from { 0.95 } else { 0.0 };
                chain[to * SIZE + from] = stays + 0.05 * chain[to * SIZE + from] / sum;
            }
        }
    }
    let halves = |values: Vec<f32>| Tensor::from_vec(&shape, values)?.to_type(ElementType::F16);
    let inputs = vec![halves(x)?, halves(p)?];
    let [x, p]: [&[half::f16]; 2] = [inputs[0].values(MemoryFormat::Nchw)?, inputs[1].values(MemoryFormat::Nchw)?];
    let steps = STEPS as f64;
    let tolerance = Tolerance::relative(1.02 * steps * (2f64.powi(-11) + 16.0 * 2f64.powi(-22)));
    let wanted = Wanted::new(chains * SIZE * SIZE, STEPS * SIZE * SIZE, tolerance, |i| {
        let p = &p[i / (SIZE * SIZE) * SIZE * SIZE..][..SIZE * SIZE];
        let mut row: [f64; SIZE] = std::array::from_fn(|k| x[i / SIZE * SIZE + k].to_f64());
        for _ in 0..STEPS {
            row = std::array::from_fn(|to| (0..SIZE).map(|from| row[from] * p[to * SIZE + from].to_f64()).sum());
        }
        row[i % SIZE]
    });
    Ok(Problem { size, output: (shape.to_vec(), ElementType::F32), inputs, wanted })
}

fn cost(size: Size) -> Cost {
    let values = (size.len() * SIZE * SIZE) as f64;
    Cost { flops: values * 2.0 * (SIZE * STEPS) as f64, bytes: 8.0 * values, values }
}
