//! The sum of a list of 32-bit integers, modulo 2³², in three steps. Any order of additions gives the same bits, so every step is
//! checked exactly; what f32 adds to it is in [`crate::norm::statistics`].

use bench::ladder::{self, Cost};
use common::check::Tolerance;
use common::limits::fits_i32;
use common::prelude::*;

use super::{Answer, Pattern, PatternRun, Trial, count, random_u32, sharing_blocks};
use crate::Step;

/// All steps, in the order in which they are read.
pub static LADDER: &[Step<Method>] = &[ATOMIC, SHARED, VECTORS];

/// Entry in the registry of patterns.
pub const PATTERN: Pattern = Pattern { name: "reduction", about: "the sum of a list of integers", run };

/// Step 1. Hypothesis: one addition per value in memory, all of them to the same address, queue up there. Change: none, this is the
/// first version.
pub const ATOMIC: Step<Method> = Step {
    number: 1,
    name: "atomic",
    idea: "each thread adds its value to the sum in memory",
    source: kernel_source!("reduce_01_atomic"),
    method: Method::ThreadPerValue,
};

/// Step 2. Hypothesis: with a tree in each block's shared memory, a 256th of the atomics reach memory, and reading is what is left.
/// Change: the tree.
pub const SHARED: Step<Method> = Step {
    number: 2,
    name: "shared tree",
    idea: "a tree of sums in each block's shared memory",
    source: kernel_source!("reduce_02_shared"),
    method: Method::ThreadPerValue,
};

/// Step 3. Hypothesis: eight barriers for 1024 bytes keep a block from loading; one barrier for a long share of the list, and four
/// 16-byte loads of a thread in flight, run at the memory's speed. Change: a grid as large as the GPU, vectors, shuffles.
pub const VECTORS: Step<Method> = Step {
    number: 3,
    name: "vectors and shuffles",
    idea: "a long share for each block, 16-byte loads, shuffles",
    source: kernel_source!("reduce_03_shuffle_vectors"),
    method: Method::Shares,
};

/// Host side that a step's kernel needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// One thread per value.
    ThreadPerValue,
    /// Blocks that stride through the list.
    Shares,
}

impl ladder::Method for Method {
    type Loaded = Reduction;

    /// Loads the kernel.
    ///
    /// # Errors
    /// Same as [`Device::kernel`].
    fn load(step: &Step<Self>, device: &Device) -> Result<Reduction> {
        let module = device.load(&step.source)?;
        let (kernel, threads) = (module.kernel("reduce")?, module.constant("THREADS")? as u32);
        let most_blocks = match step.method {
            Method::ThreadPerValue => None,
            Method::Shares => Some(sharing_blocks(&kernel, threads, module.constant("BLOCKS")? as u32)?),
        };
        // A block of the last step takes this many values a round.
        let per_thread = module.find_constant("PER_THREAD").map_or(1, |values| values.unsigned_abs() as u32);
        Ok(Reduction { kernel, threads, per_thread, most_blocks })
    }
}

/// A step, loaded on a device. It takes every list of up to 2³¹ − 1 values.
#[derive(Clone, Debug)]
pub struct Reduction {
    kernel: Kernel,
    threads: u32,
    per_thread: u32,
    most_blocks: Option<u32>,
}

impl Reduction {
    /// Queues the sum of all of `x` into the one value of `sum`. Both are on the stream's device.
    ///
    /// # Errors
    /// [`Error::Shape`] if there are too many values, or `sum` does not have length 1; [`Error::WrongDevice`].
    pub fn launch(&self, stream: &Stream, x: &Buffer<u32>, sum: &mut Buffer<u32>) -> Result<()> {
        let n = fits_i32("reduction", "the number of values", Some(x.len()))?.unsigned_abs();
        if sum.len() != 1 {
            return Err(Error::shape(
                "reduction",
                format!("the sum is one value, and there is room for {}", sum.len()),
            ));
        }
        stream.memset_zeros(sum)?;
        if n == 0 {
            return Ok(());
        }
        let blocks = n.div_ceil(self.threads * self.per_thread);
        let blocks = self.most_blocks.map_or(blocks, |most| blocks.min(most));
        let mut launch = stream.launch_builder(&self.kernel);
        launch.arg(x).arg(sum).arg(&n);
        let config = LaunchConfig { grid_dim: (blocks, 1, 1), ..LaunchConfig::linear(0, self.threads) };
        // SAFETY: the kernel reads x[i] for i < n, and adds to the one value of `sum`.
        unsafe { launch.launch(config) }
    }
}

/// The sum, which must be exact.
pub fn reference(x: &[u32]) -> Answer<u32> {
    Answer { values: vec![x.iter().fold(0, |sum: u32, &value| sum.wrapping_add(value))], tolerance: Tolerance::exact() }
}

fn run(trial: &Trial<'_>) -> Result<Vec<PatternRun>> {
    let n = trial.size(1 << 18, 1 << 28);
    let values = random_u32(n, 1);
    let expected = reference(&values);
    let stream = trial.device.stream();
    let x = stream.clone_htod(&values)?;
    let mut sum = stream.alloc_uninit::<u32>(1)?;
    let runs = LADDER.iter().map(|step| {
        let reduction = step.load(trial.device)?;
        let run = trial.run(step, &mut sum, &expected, |stream, sum| reduction.launch(stream, &x, sum))?;
        let cost = Cost { bytes: 4.0 * n as f64, values: n as f64, ..Cost::default() };
        Ok(PatternRun { size: format!("{} values", count(n)), step: step.title(), cost, run })
    });
    runs.collect()
}
