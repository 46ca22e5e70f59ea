//! The sum of buffers of several devices, which all of them receive: a ladder of methods over memory that the devices can access
//! on each other.
//!
//! | step | kernel | the idea |
//! | --- | --- | --- |
//! | [`step01_gather`] | `all_reduce_01_gather.cu` | one device reads all and adds up; the others copy its sums |
//! | [`step02_ring`] | `all_reduce_02_ring.cu` | parts go round, from neighbour to neighbour |
//! | [`step03_one_shot`] | `all_reduce_03_one_shot.cu` | every device reads all |
//! | [`step04_two_shot`] | `all_reduce_04_two_shot.cu` | each adds up a part for all |
//! | [`step05_flags`] | `all_reduce_05_flags.cu` | one shot, meetings by flags in memory instead of events |
//! | [`step06_two_shot_flags`] | `all_reduce_06_two_shot_flags.cu` | two shots in one kernel |
//! | [`step07_resident`] | `all_reduce_07_resident.cu` | one meeting per sum, by staging memory; in place too |
//! | [`step08_flags_in_data`] | `all_reduce_08_flags_in_data.cu` | values pushed with a flag in every 8 bytes |
//!
//! [`step09_tuned`] chooses by size, and models use [`Resident`]. The cost of a sum is a number of hand-overs, each with its
//! latency, and the bytes received by the device that receives most, at the bandwidth of a link. [`measured`] compares with NCCL.

use bench::ladder;
use common::device::Module;
use common::prelude::*;
use half::f16;

pub mod flags;
pub mod measured;
pub mod operands;
pub mod resident;
pub mod staged;
pub mod step01_gather;
pub mod step02_ring;
pub mod step03_one_shot;
pub mod step04_two_shot;
pub mod step05_flags;
pub mod step06_two_shot_flags;
pub mod step07_resident;
pub mod step08_flags_in_data;
pub mod step09_tuned;

pub use operands::{Asked, Operands};
pub use resident::Resident;

/// All steps, in the order in which they are read.
pub static LADDER: &[Step] = &[
    step01_gather::STEP,
    step02_ring::STEP,
    step03_one_shot::STEP,
    step04_two_shot::STEP,
    step05_flags::STEP,
    step06_two_shot_flags::STEP,
    step07_resident::STEP,
    step08_flags_in_data::STEP,
    step09_tuned::STEP,
];

/// A step of the ladder.
pub type Step = ladder::Step<Method>;

/// Prepares a step for sums of up to a number of values on the devices of a group, with kernels of this source.
#[derive(Clone, Debug)]
pub struct Method(pub fn(&KernelSource, &DeviceGroup, usize) -> Result<Box<dyn AllReduce>>);

/// A method of adding up, ready to be queued any number of times.
pub trait AllReduce {
    /// Queues the sum of all ranks' values into each rank's sums. When the work queued on a device's stream has finished, its
    /// sums are complete, and its values and sums may be overwritten.
    ///
    /// # Errors
    /// Errors of copies and launches.
    fn queue(&mut self, operands: &mut Operands) -> Result<()>;
}

/// Maximum number of devices whose addresses fit the kernels.
pub const MOST_RANKS: usize = 16;

/// Bytes of a load. The buffers of [`Operands`] are padded to a multiple of it.
pub const VECTOR: usize = 16;

/// Values of f32 per vector.
const PER_VECTOR: usize = VECTOR / size_of::<f32>();

/// A kernel on each device of a group.
///
/// # Errors
/// Same as [`Device::kernel`].
fn kernels(source: &KernelSource, group: &DeviceGroup, name: &str) -> Result<Vec<Kernel>> {
    group.devices().iter().map(|device| device.kernel(source, name)).collect()
}

/// Enough blocks for one vector per thread, but not more than run at the same time.
fn vectors_config(device: &Device, vectors: usize, threads: usize, most_blocks: usize) -> LaunchConfig {
    let processors = device.properties().multiprocessors.map_or(most_blocks, |count| count as usize);
    let blocks = vectors.div_ceil(threads).clamp(1, most_blocks.min(processors));
    LaunchConfig { grid_dim: (blocks as u32, 1, 1), block_dim: (threads as u32, 1, 1), shared_mem_bytes: 0 }
}

/// Vectors of a rank's part; the last ranks may have fewer.
fn part(vectors: usize, ranks: usize) -> usize {
    vectors.div_ceil(ranks)
}

/// A type of values that the kernels add up, in f32.
pub trait Summand: DeviceElement {
    /// The kernel for it.
    #[doc(hidden)]
    fn among(kernels: &Kernels) -> &Kernel;
}

/// A kernel for each type of values.
#[doc(hidden)]
#[derive(Debug)]
pub struct Kernels {
    f32: Kernel,
    f16: Kernel,
}

impl Kernels {
    /// The kernels whose names are `name` and the type.
    fn new(module: &Module, name: &str) -> Result<Kernels> {
        let kernel = |element: &str| module.kernel(&format!("{name}_{element}"));
        Ok(Kernels { f32: kernel("f32")?, f16: kernel("f16")? })
    }
}

impl Summand for f32 {
    fn among(kernels: &Kernels) -> &Kernel {
        &kernels.f32
    }
}

impl Summand for f16 {
    fn among(kernels: &Kernels) -> &Kernel {
        &kernels.f16
    }
}
