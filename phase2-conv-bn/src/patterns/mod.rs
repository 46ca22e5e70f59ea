//! Classic patterns beyond the networks of this course. Each is a short ladder on one problem, measured against the time that its
//! bytes take to pass through memory once.
//!
//! | pattern | kernels | what it computes |
//! | --- | --- | --- |
//! | [`reduction`] | `reduce_01_atomic.cu` … | the sum of a list |
//! | [`scan`] | `scan_01_levels.cu` … | the sums of all beginnings of a list |
//! | [`transpose`] | `transpose_01_naive.cu` … | the transpose of a matrix |
//! | [`stencil`] | `stencil_01_naive.cu` … | a step of heat in a box |
//! | [`histogram`] | `histogram_01_global.cu` … | how often each of 256 bytes occurs |
//! | [`radix_sort`] | `radix_01_scatter.cu` … | pairs of a key and a value, sorted by key |
//! | [`top_k`] | `topk_01_select.cu` | the k largest of a list's keys |
//! | [`sparse`] | `spmv_01_scalar.cu` … | a sparse matrix times a vector |
//!
//! A pattern is a file here, with its ladder, and a line of [`PATTERNS`]: the command, its tests and phase 5's table follow.

pub mod histogram;
pub mod radix_sort;
pub mod reduction;
pub mod scan;
pub mod sparse;
pub mod stencil;
pub mod top_k;
pub mod transpose;

use bench::ladder::{self, Cost, StepRun};
use bench::timing::Bench;
use common::check::{Mismatch, Report, Tolerance, compare};
use common::prelude::*;

use crate::Step;

/// All patterns, in the order in which they are read.
pub static PATTERNS: &[Pattern] = &[
    reduction::PATTERN,
    scan::PATTERN,
    transpose::PATTERN,
    stencil::PATTERN,
    histogram::PATTERN,
    radix_sort::PATTERN,
    top_k::PATTERN,
    sparse::PATTERN,
];

/// The kernel files of all patterns.
pub fn sources() -> impl Iterator<Item = &'static KernelSource> {
    let reduction = reduction::LADDER.iter().map(|step| &step.source);
    let scan = scan::LADDER.iter().map(|step| &step.source);
    let transpose = transpose::LADDER.iter().map(|step| &step.source);
    let stencil = stencil::LADDER.iter().map(|step| &step.source);
    let histogram = histogram::LADDER.iter().map(|step| &step.source);
    let radix_sort = radix_sort::LADDER.iter().map(|step| &step.source);
    let top_k = top_k::LADDER.iter().map(|step| &step.source);
    let sparse = sparse::LADDER.iter().map(|step| &step.source);
    let moving = reduction.chain(scan).chain(transpose).chain(stencil);
    moving.chain(histogram).chain(radix_sort).chain(top_k).chain(sparse)
}

/// Number of blocks of `threads` threads that share a list of any length: as many as the device holds at once, but at most
/// `most`, since blocks beyond that would run as a second wave. On the simulator, `most`.
///
/// # Errors
/// Errors of the driver.
fn sharing_blocks(kernel: &Kernel, threads: u32, most: u32) -> Result<u32> {
    Ok(kernel.resident_blocks(threads, 0)?.map_or(most, |fit| fit.clamp(1, most)))
}

/// A pattern, for commands and tables.
#[derive(Clone, Copy, Debug)]
pub struct Pattern {
    /// Name on the command line.
    pub name: &'static str,
    /// Description of its result, in a few words.
    pub about: &'static str,
    /// Runs every step on the problem of the device's size: [`Trial`] has the inputs of a step.
    pub run: fn(&Trial<'_>) -> Result<Vec<PatternRun>>,
}

/// A step of a pattern, run on one problem.
#[derive(Debug)]
pub struct PatternRun {
    /// The problem's size in tables: `2²⁰ values`.
    pub size: String,
    /// `3 shuffles`.
    pub step: String,
    /// Minimum memory traffic of the problem: the bytes that every step must read and write.
    pub cost: Cost,
    /// Whether it was right, and its time.
    pub run: StepRun,
}

/// Where and how a pattern's steps are run.
pub struct Trial<'a> {
    /// Where.
    pub device: &'a Device,
    /// Timing settings.
    pub bench: &'a Bench,
    /// Called with the title of each step before it runs.
    pub announce: &'a dyn Fn(&str),
}

impl Trial<'_> {
    /// The first size on the simulator, where a step must take well under a second; the second on a GPU, where no cache may hold
    /// the problem.
    pub fn size<T>(&self, simulator: T, gpu: T) -> T {
        if self.device.is_sim() { simulator } else { gpu }
    }

    /// Runs a step: fills `output` with poison, lets `launch` fill it, compares it with `expected`, then times `launch`. Other
    /// memory that `launch` writes, such as a workspace, is not checked.
    ///
    /// # Errors
    /// Errors of the device.
    pub fn run<M, T, E>(
        &self,
        step: &Step<M>,
        output: &mut Buffer<T>,
        expected: &Answer<E>,
        mut launch: impl FnMut(&Stream, &mut Buffer<T>) -> Result<()>,
    ) -> Result<StepRun>
    where
        M: Clone,
        T: DeviceElement + Into<f64>,
        E: Copy + Into<f64>,
    {
        (self.announce)(&step.title());
        let stream = self.device.stream();
        StepRun::profiled(self.device, || {
            stream.poison(output)?;
            ladder::run_with(
                &stream,
                self.bench,
                output,
                |output| launch(&stream, output),
                |output| Ok(expected.check(&stream.clone_dtoh(output)?)),
            )
        })
    }
}

/// Expected values of an output.
#[derive(Clone, Debug)]
pub struct Answer<T> {
    /// In order.
    pub values: Vec<T>,
    /// Maximum deviation.
    pub tolerance: Tolerance,
}

impl<T: Copy + Into<f64>> Answer<T> {
    /// Compares an output with the expected values.
    ///
    /// # Errors
    /// [`Mismatch`].
    pub fn check<A: Copy + Into<f64>>(&self, output: &[A]) -> Result<Report, Mismatch> {
        compare(output, &self.values, self.tolerance)
    }
}

/// A number of values for tables: `2²⁶`, or `1000003`.
pub(crate) fn count(n: usize) -> String {
    const DIGITS: [char; 10] = ['⁰', '¹', '²', '³', '⁴', '⁵', '⁶', '⁷', '⁸', '⁹'];
    if n < 1024 || !n.is_power_of_two() {
        return n.to_string();
    }
    let exponent = n.ilog2().to_string();
    std::iter::once('2').chain(exponent.bytes().map(|digit| DIGITS[usize::from(digit - b'0')])).collect()
}

/// `n` values in an order that depends on all bits, the same on every machine.
pub fn random_u32(n: usize, seed: u64) -> Vec<u32> {
    // SplitMix64's finaliser: a bijection of 64 bits, of which the upper half is kept (Steele, Lea & Flood 2014).
    let mixed = |i: u64| {
        let mut x = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15).wrapping_add(i.wrapping_mul(0x9E37_79B9_7F4A_7C15));
        x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        x ^ (x >> 31)
    };
    (1..=n as u64).map(|i| (mixed(i) >> 32) as u32).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn powers_of_two_are_called_so() {
        assert_eq!([0, 7, 1000, 1024, 1 << 26, 1_000_003].map(count), ["0", "7", "1000", "2¹⁰", "2²⁶", "1000003"]);
    }

    #[test]
    fn random_values_use_every_bit() {
        let values = random_u32(1000, 3);
        let ones = |bit: u32| values.iter().filter(|&&value| value >> bit & 1 == 1).count();
        assert!((0..32).all(|bit| (400..600).contains(&ones(bit))));
        assert_ne!(values, random_u32(1000, 4));
    }
}
