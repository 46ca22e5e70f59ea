//! A benchmark of one's own, on GPUs whose kernels take a time that is known.

use std::fmt::Write;

use super::Verdict;

/// Number of inputs that a kernel can be launched with.
pub const INPUTS: usize = 8;
/// Inputs that the L2 cache holds: the last ones used.
const CACHED: usize = 3;
// Time of the host in µs: to queue a launch, to queue a mark, to notice that the GPU is done.
const LAUNCH: f64 = 3.0;
const MARK: f64 = 0.5;
const WAKE: f64 = 5.0;
/// Accepted error.
const TOLERANCE: f64 = 0.02;

/// A GPU that is made up, with what makes real ones hard to measure: launches are queued, clocks rise with work, the L2 keeps the last
/// inputs, and now and then something else gets in the way.
#[derive(Debug)]
pub struct PretendGpu {
    /// Time of a launch in µs, with its input in memory and the clocks up.
    kernel: f64,
    /// Host's clock, and when the GPU will have done all that is queued.
    now: f64,
    idle_at: f64,
    launches: usize,
    /// The last inputs, the newest last.
    recent: Vec<usize>,
    random: u64,
    inputs: [bool; INPUTS],
    read_too_early: bool,
}

/// A mark in the GPU's queue.
#[derive(Clone, Copy, Debug)]
pub struct Mark {
    reached: f64,
}

impl PretendGpu {
    fn new(kernel: f64, seed: u64) -> PretendGpu {
        PretendGpu {
            kernel,
            now: 0.0,
            idle_at: 0.0,
            launches: 0,
            recent: Vec::new(),
            random: seed,
            inputs: [false; INPUTS],
            read_too_early: false,
        }
    }

    /// Queues the kernel, on input 0 to 7; from 8 it begins again.
    pub fn launch(&mut self, input: usize) {
        let input = input % INPUTS;
        self.now += LAUNCH;
        let clocks = 1.0 + 0.8 * 0.7_f64.powi(self.launches as i32);
        let cache = if self.recent.contains(&input) { 0.6 } else { 1.0 };
        let disturbance = if self.next() < 0.125 { 1.6 } else { 1.0 };
        let jitter = 0.99 + 0.02 * self.next();
        self.idle_at = self.idle_at.max(self.now) + self.kernel * clocks * cache * disturbance * jitter;
        self.launches += 1;
        self.inputs[input] = true;
        self.recent.retain(|&recent| recent != input);
        self.recent.push(input);
        if self.recent.len() > CACHED {
            self.recent.remove(0);
        }
    }

    /// Queues a mark.
    pub fn record_event(&mut self) -> Mark {
        self.now += MARK;
        self.idle_at = self.idle_at.max(self.now);
        Mark { reached: self.idle_at }
    }

    /// Waits until the GPU has done all that is queued.
    pub fn synchronize(&mut self) {
        self.now = self.now.max(self.idle_at) + WAKE;
    }

    /// Microseconds on the host's clock.
    pub fn now_us(&self) -> f64 {
        self.now
    }

    /// Microseconds on the GPU's clock from one mark to another; NaN if the GPU has not reached them yet.
    pub fn elapsed_us(&mut self, from: Mark, to: Mark) -> f64 {
        if from.reached.max(to.reached) > self.now {
            self.read_too_early = true;
            return f64::NAN;
        }
        to.reached - from.reached
    }

    /// The next of a fixed sequence of numbers in [0, 1): Knuth's MMIX generator, its upper bits.
    fn next(&mut self) -> f64 {
        self.random = self.random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.random >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// Compares the answer with the true time of three kernels. The answer returns the microseconds that a launch takes if its input comes
/// from memory, to 2 %.
pub fn judge(mut answer: impl FnMut(&mut PretendGpu) -> f64) -> Verdict {
    let mut seen = String::new();
    let mut missing = String::new();
    for (kernel, seed) in [(12.5, 1), (41.0, 2), (173.0, 3)] {
        let mut gpu = PretendGpu::new(kernel, seed);
        let measured = answer(&mut gpu);
        let inputs = gpu.inputs.iter().filter(|&&used| used).count();
        let _ = writeln!(
            seen,
            "true {kernel:6.1} µs, measured {measured:6.1} µs, {:.2} times as long; launches: {}, inputs: {inputs}",
            measured / kernel,
            gpu.launches
        );
        let right = (measured / kernel - 1.0).abs() <= TOLERANCE; // NaN is not
        if missing.is_empty() && !right {
            missing = format!("The {kernel} µs have to come out to {:.0} %.", TOLERANCE * 100.0);
            if gpu.read_too_early {
                missing += " A time between two marks was asked for before the GPU had reached them.";
            }
        }
    }
    seen.push('\n');
    if missing.is_empty() { Verdict::right(seen) } else { Verdict::wrong(seen, missing) }
}
