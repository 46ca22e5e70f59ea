//! How often each byte occurs as the lowest one of a list's keys, in four steps. Counts are whole numbers, so every step is checked
//! exactly.

use bench::ladder::{self, Cost};
use common::check::Tolerance;
use common::limits::fits_i32;
use common::prelude::*;

use super::{Answer, Pattern, PatternRun, Trial, count, random_u32, sharing_blocks};
use crate::Step;

/// All steps, in the order in which they are read.
pub static LADDER: &[Step<Method>] = &[GLOBAL, SHARED, COPIES, VECTORS];

/// Entry in the registry of patterns.
pub const PATTERN: Pattern = Pattern { name: "histogram", about: "how often each of 256 bytes occurs", run };

/// Number of counters.
pub const BINS: usize = 256;

/// Step 1. Hypothesis: one addition per key in memory, to one of 256 addresses, queues up in the L2 cache; all the more if some bytes
/// are frequent. Change: none, this is the first version.
pub const GLOBAL: Step<Method> = Step {
    number: 1,
    name: "global",
    idea: "each thread adds to a counter in memory",
    source: kernel_source!("histogram_01_global"),
    method: Method::ThreadPerKey,
};

/// Step 2. Hypothesis: with counters in each block's shared memory, only 256 additions per block reach memory. What stays are lanes
/// of a warp that meet at a counter. Change: the block's own counters.
pub const SHARED: Step<Method> = Step {
    number: 2,
    name: "shared",
    idea: "counters of each block's own in shared memory",
    source: kernel_source!("histogram_02_shared"),
    method: Method::Shares,
};

/// Step 3. Hypothesis: with a copy of the counters for each lane, no two lanes of a warp meet, so skewed keys cost what random ones
/// cost. Change: 32 copies, one per bank.
pub const COPIES: Step<Method> = Step {
    number: 3,
    name: "copies",
    idea: "a copy of the counters for each lane",
    source: kernel_source!("histogram_03_copies"),
    method: Method::Shares,
};

/// Step 4. Hypothesis: 4 bytes in flight per thread are too few for the memory's speed; 64 are enough. Change: four 16-byte loads
/// before the first count.
pub const VECTORS: Step<Method> = Step {
    number: 4,
    name: "vectors",
    idea: "four 16-byte loads of a thread in flight",
    source: kernel_source!("histogram_04_vectors"),
    method: Method::Shares,
};

/// Host side that a step's kernel needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// One thread per key.
    ThreadPerKey,
    /// Blocks that stride through the list.
    Shares,
}

impl ladder::Method for Method {
    type Loaded = Histogram;

    /// Loads the kernel.
    ///
    /// # Errors
    /// Same as [`Device::kernel`].
    fn load(step: &Step<Self>, device: &Device) -> Result<Histogram> {
        let module = device.load(&step.source)?;
        module.expect_constant("BINS", BINS)?;
        let (kernel, threads) = (module.kernel("histogram")?, module.constant("THREADS")? as u32);
        let most_blocks = match step.method {
            Method::ThreadPerKey => None,
            Method::Shares => Some(sharing_blocks(&kernel, threads, module.constant("BLOCKS")? as u32)?),
        };
        Ok(Histogram { kernel, threads, most_blocks })
    }
}

/// A step, loaded on a device. It takes every list of up to 2³¹ − 1 keys.
#[derive(Clone, Debug)]
pub struct Histogram {
    kernel: Kernel,
    threads: u32,
    most_blocks: Option<u32>,
}

impl Histogram {
    /// Keys that justify a thread where blocks stride: below that, clearing and adding up its block's counters costs more than
    /// counting.
    const SHARE: u32 = 16;

    /// Queues the count of each byte among the lowest ones of `keys` into `counts`, \[256\]. Both are on the stream's device.
    ///
    /// # Errors
    /// [`Error::Shape`] if there are too many keys, or `counts` has another length; [`Error::WrongDevice`].
    pub fn launch(&self, stream: &Stream, keys: &Buffer<u32>, counts: &mut Buffer<u32>) -> Result<()> {
        let n = fits_i32("histogram", "the number of keys", Some(keys.len()))?.unsigned_abs();
        if counts.len() != BINS {
            let detail = format!("there are {BINS} counts, and room for {}", counts.len());
            return Err(Error::shape("histogram", detail));
        }
        stream.memset_zeros(counts)?;
        if n == 0 {
            return Ok(());
        }
        let blocks = match self.most_blocks {
            None => n.div_ceil(self.threads),
            Some(most) => n.div_ceil(self.threads * Self::SHARE).min(most),
        };
        let mut launch = stream.launch_builder(&self.kernel);
        launch.arg(keys).arg(counts).arg(&n);
        let config = LaunchConfig { grid_dim: (blocks, 1, 1), ..LaunchConfig::linear(0, self.threads) };
        // SAFETY: the kernels read keys[i] for i < n, and add to counts[b] for b < 256.
        unsafe { launch.launch(config) }
    }
}

/// The counts, which must be exact.
pub fn reference(keys: &[u32]) -> Answer<u32> {
    let mut values = vec![0; BINS];
    for &key in keys {
        values[key as usize % BINS] += 1;
    }
    Answer { values, tolerance: Tolerance::exact() }
}

/// `n` keys of which seven in eight end in the byte 0, like the pixels of a picture with a dark background.
pub fn skewed_keys(n: usize, seed: u64) -> Vec<u32> {
    // The upper bits decide, so that what remains of the lowest byte is random.
    random_u32(n, seed).into_iter().map(|key| if key >> 29 == 0 { key } else { key & !0xff }).collect()
}

fn run(trial: &Trial<'_>) -> Result<Vec<PatternRun>> {
    let n = trial.size(1 << 18, 1 << 27);
    let stream = trial.device.stream();
    let mut counts = stream.alloc_uninit::<u32>(BINS)?;
    let mut runs = Vec::new();
    for (kind, values) in [("random", random_u32(n, 2)), ("skewed", skewed_keys(n, 2))] {
        let expected = reference(&values);
        let keys = stream.clone_htod(&values)?;
        for step in LADDER {
            let histogram = step.load(trial.device)?;
            let run =
                trial.run(step, &mut counts, &expected, |stream, counts| histogram.launch(stream, &keys, counts))?;
            let cost = Cost { bytes: 4.0 * n as f64, values: n as f64, ..Cost::default() };
            runs.push(PatternRun {
                size: format!("{} keys", count(n)),
                step: format!("{}, {kind}", step.title()),
                cost,
                run,
            });
        }
    }
    Ok(runs)
}
