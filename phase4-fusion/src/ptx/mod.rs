//! PTX by hand: instructions that CUDA C can express, and others that it cannot.
//!
//! A pair is one small kernel in two or three versions, the first in CUDA C and the last with its inner lines in PTX. All
//! versions of a pair take the same arguments and compute the same, so that a table can compare them.
//!
//! | pair | question |
//! | --- | --- |
//! | [`loads`] | do 16-byte loads and cache hints help a kernel that memory limits? |
//! | [`reduce`] | what is left of a warp's reduction when one instruction does it? |
//! | [`branch`] | who decides between a branch and a predicate? |
//! | [`series`] | is f16 arithmetic faster before two values share a register? |
//! | [`softmax`] | what does a power cost, and can it cost less? |
//! | [`bytes`] | how do 8-bit weights become f16 without a conversion? |
//! | [`markov`] | what does knowing a fragment's layout save? |
//! | [`copies`] | what do copies save that no register sees? |
//! | [`stages`] | what does a barrier that counts bytes save over one that all threads reach? |
//!
//! [`bench::sass`] lists the machine code of each version from ptxas.

pub mod branch;
pub mod bytes;
pub mod copies;
pub mod loads;
pub mod markov;
mod problem;
pub mod reduce;
pub mod series;
pub mod softmax;
pub mod stages;

use bench::ladder::{self, Cost, Method, Step, StepResult, StepRun, if_supported};
use bench::timing::Bench;
use common::limits::fits_i32;
use common::prelude::*;

pub use problem::{Problem, Wanted};

/// All pairs, in the order in which they are read.
pub static PAIRS: &[Pair] = &[
    loads::PAIR,
    reduce::PAIR,
    branch::PAIR,
    series::PAIR,
    softmax::PAIR,
    bytes::PAIR,
    markov::PAIR,
    copies::PAIR,
    stages::PAIR,
];

/// A kernel in CUDA C and in PTX.
#[derive(Debug)]
pub struct Pair {
    /// Name in tables.
    pub name: &'static str,
    /// Question that it answers, in a sentence.
    pub question: &'static str,
    /// CUDA C first, PTX last.
    pub versions: &'static [Step<Version>],
    /// Mnemonics of SASS, without modifiers, that distinguish the versions.
    pub telling: &'static [&'static str],
    /// A problem of a size: distinct inputs, and their expected outputs.
    pub problem: fn(Size) -> Result<Problem>,
    /// Cost of a problem of a size.
    pub cost: fn(Size) -> Cost,
    /// Size for the simulator, which counts.
    pub simulated: Size,
    /// Sizes for a GPU, which has times.
    pub measured: &'static [Size],
}

/// The size of a problem, as the kernels take it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Size {
    /// This many values, or matrices.
    Values(usize),
    /// Rows of this many columns.
    Rows(usize, usize),
}

impl Size {
    /// As tables show it: `2^20`, `2^16×32`.
    pub fn label(self) -> String {
        let short = |n: usize| match n {
            1024.. if n.is_power_of_two() => format!("2^{}", n.trailing_zeros()),
            _ => n.to_string(),
        };
        match self {
            Size::Values(n) => short(n),
            Size::Rows(rows, columns) => format!("{}×{}", short(rows), short(columns)),
        }
    }

    /// Number of values; for matrices, number of matrices.
    pub fn len(self) -> usize {
        match self {
            Size::Values(n) => n,
            Size::Rows(rows, columns) => rows * columns,
        }
    }

    /// Whether there are none.
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }
}

/// How a version is launched.
#[derive(Clone, Copy, Debug)]
pub struct Version {
    /// The kernel's name.
    pub kernel: &'static str,
    /// Total number of threads, for a size.
    pub threads: fn(Size) -> usize,
    /// Threads per block.
    pub block: u32,
}

impl Method for Version {
    type Loaded = LoadedVersion;

    fn load(step: &Step<Self>, device: &Device) -> Result<LoadedVersion> {
        Ok(LoadedVersion { kernel: device.kernel(&step.source, step.method.kernel)?, version: step.method })
    }
}

/// A version on a device.
#[derive(Debug)]
pub struct LoadedVersion {
    kernel: Kernel,
    version: Version,
}

impl LoadedVersion {
    /// Queues the kernel. Only a [`Problem`] calls this, whose tensors have the size's shapes.
    fn launch(&self, stream: &Stream, size: Size, inputs: &[Tensor], output: &mut Tensor) -> Result<()> {
        let what = self.kernel.name();
        let number = |value: usize| Ok(fits_i32(what, "a count", Some(value))?.unsigned_abs());
        let counts = match size {
            Size::Values(n) => vec![number(n)?],
            Size::Rows(rows, columns) => vec![number(rows)?, number(columns)?],
        };
        let threads = (self.version.threads)(size);
        let blocks = fits_i32(what, "the number of blocks", Some(threads.div_ceil(self.version.block as usize)))?;
        let mut launch = stream.launch_builder(&self.kernel);
        for input in inputs {
            match input.element_type() {
                ElementType::F32 => launch.arg(input.buffer()?),
                ElementType::F16 => launch.arg(input.buffer_of::<half::f16>(MemoryFormat::Nchw)?),
                ElementType::I8 => launch.arg(input.buffer_of::<i8>(MemoryFormat::Nchw)?),
                ElementType::I32 => launch.arg(input.buffer_of::<i32>(MemoryFormat::Nchw)?),
                other => return Err(Error::Invalid(format!("{what} takes no {other}"))),
            };
        }
        match output.element_type() {
            ElementType::F32 => launch.arg(output.buffer_mut()?),
            ElementType::F16 => launch.arg(output.buffer_of_mut::<half::f16>(MemoryFormat::Nchw)?),
            ElementType::I32 => launch.arg(output.buffer_of_mut::<i32>(MemoryFormat::Nchw)?),
            other => return Err(Error::Invalid(format!("{what} makes no {other}"))),
        };
        counts.iter().for_each(|count| {
            launch.arg(count);
        });
        let config = LaunchConfig {
            grid_dim: (blocks.unsigned_abs().max(1), 1, 1),
            block_dim: (self.version.block, 1, 1),
            shared_mem_bytes: 0,
        };
        // SAFETY: every kernel of a pair takes its inputs, its output and the size, and touches only what a problem of that size
        // has: `Pair::problem` makes the tensors for it, and every kernel guards its ragged end.
        unsafe { launch.launch(config) }
    }
}

impl Pair {
    /// Runs each version on a problem, checked before it is counted or timed, and calls `before` with its title.
    ///
    /// # Errors
    /// Errors of the device, unless a version needs another device: that is its result.
    pub fn run(
        &self,
        device: &Device,
        bench: &Bench,
        size: Size,
        mut before: impl FnMut(&str),
    ) -> Result<Vec<(String, StepRun)>> {
        let problem = (self.problem)(size)?;
        let placed = problem.on(device)?;
        let mut output = problem.output_on(device)?;
        let stream = device.stream();
        let mut runs = Vec::new();
        for step in self.versions {
            before(&step.title());
            let run = match if_supported(step.load(device))? {
                Ok(loaded) => StepRun::profiled(device, || {
                    problem.poison(&stream, &mut output)?;
                    ladder::run_with(
                        &stream,
                        bench,
                        &mut output,
                        |output| loaded.launch(&stream, size, &placed, output),
                        |output| problem.check(output),
                    )
                })?,
                Err(reason) => StepResult::LeftOut(reason).into(),
            };
            runs.push((step.title(), run));
        }
        Ok(runs)
    }
}
