//! A graph whose independent parts may run at the same time.

use common::check::{F32_ROUND_OFF, Tolerance, compare};
use common::device::{Graph, SimOptions};
use common::prelude::*;

use super::Verdict;
use crate::step04_vector_add;
use crate::step07_streams::{self, iterate_reference};

/// Rounds of [`crate::step07_streams::iterate`].
pub const ROUNDS: u32 = 4;
/// Values of a buffer: ragged.
const LEN: usize = 1001;
/// `iterate` for each part, two sums of pairs, their sum.
const KERNELS: usize = 7;
/// A part, a pair, the total.
const DEPTH: usize = 3;

/// Kernels of the exercise.
pub struct Kernels {
    /// For [`crate::step07_streams::iterate`], in place.
    pub iterate: Kernel,
    /// For [`crate::step04_vector_add::vector_add`].
    pub add: Kernel,
}

/// Memory of the exercise, on the device.
pub struct Memory {
    /// Inputs, on which `iterate` works in place.
    pub parts: [Buffer<f32>; 4],
    /// For sums of two parts.
    pub pairs: [Buffer<f32>; 2],
    /// For the sum of all.
    pub total: Buffer<f32>,
}

/// Launches the answer's graph three times, with new inputs in the same buffers, on a simulated device that sanitises. The graph has to
/// leave the sum of the four iterated parts in `total`, in seven kernels, of which no more than three wait for each other.
///
/// # Errors
/// Errors of the device outside of the answer.
pub fn judge(answer: impl FnOnce(&Stream, &Kernels, &mut Memory) -> Result<Graph>) -> Result<Verdict> {
    let device = Device::sim_with(SimOptions { sanitize: true, ..SimOptions::default() });
    let stream = device.stream();
    let kernels = Kernels {
        iterate: device.kernel(&step07_streams::SOURCE, "iterate")?,
        add: device.kernel(&step04_vector_add::SOURCE, "vector_add")?,
    };
    let poisoned = || stream.alloc_poisoned::<f32>(LEN);
    let mut memory = Memory {
        parts: [poisoned()?, poisoned()?, poisoned()?, poisoned()?],
        pairs: [poisoned()?, poisoned()?],
        total: poisoned()?,
    };
    let graph = match answer(&stream, &kernels, &mut memory) {
        Ok(graph) => graph,
        Err(error) => return Ok(Verdict::wrong(String::new(), error)),
    };
    let seen = format!("{} kernels, at most {} one after another\n\n", graph.kernels(), graph.depth());
    let exec = graph.instantiate()?;
    // Each part's result is at most 1 and off by at most 2u (`iterate_tolerance`); three sums of at most 2, 2 and 4 are rounded.
    let tolerance = Tolerance::absolute((4.0 * 2.0 + 2.0 + 2.0 + 4.0) * F32_ROUND_OFF);
    for round in 0..3 {
        let mut expected = vec![0.0; LEN];
        for (part, seed) in memory.parts.iter_mut().zip(4 * round..) {
            let input = Tensor::random(&[LEN], seed);
            stream.memcpy_htod(input.as_slice()?, part)?;
            for (sum, value) in expected.iter_mut().zip(iterate_reference(input.as_slice()?, ROUNDS)) {
                *sum += value;
            }
        }
        memory.pairs.iter_mut().chain([&mut memory.total]).try_for_each(|sums| stream.poison(sums))?;
        if let Err(error) = exec.launch(&stream) {
            return Ok(Verdict::wrong(seen, error));
        }
        if let Err(mismatch) = compare(&stream.clone_dtoh(&memory.total)?, &expected, tolerance) {
            return Ok(Verdict::wrong(seen, format!("Launch {} leaves a wrong total: {mismatch}", round + 1)));
        }
    }
    Ok(match (graph.kernels(), graph.depth()) {
        (KERNELS, DEPTH) => Verdict::right(seen),
        (KERNELS, depth) => Verdict::wrong(
            seen,
            format!("The totals are right, but {depth} kernels wait for each other where {DEPTH} have to."),
        ),
        (kernels, _) => {
            Verdict::wrong(seen, format!("The totals are right, but {KERNELS} kernels suffice: these are {kernels}."))
        }
    })
}
