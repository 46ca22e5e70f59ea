//! The tensor crate: devices, tensors, compilation, kernels' sources, references and checks. On it stand `bench` (measuring, tables,
//! records) and `ranks` (several processes and hosts).
//!
//! | module | what it holds |
//! | --- | --- |
//! | [`device`] | [`Device`]: a CUDA GPU or the simulator behind one interface; streams, buffers, events, launches |
//! | [`compile`] | from a `.cu` file to a loaded kernel: NVRTC, the disk cache, the PTX shipped beside the source |
//! | [`probe`] | which of NVIDIA's libraries this machine has, and what to do about those it lacks |
//! | [`tensor`] | [`Tensor`]: a shape and its values, of any element type, on the host or on a device |
//! | [`reference`](mod@reference) | CPU references that accumulate in f64, and naive f32 baselines |
//! | [`cpu`] | the same layers, optimised for the CPU |
//! | [`check`] | comparisons that NaN cannot pass, with derived tolerances |
//! | [`files`] | files that a user names, read with a limit |
//! | [`lifeline`] | processes that end with the one that started them |
//! | [`limits`] | sizes that fit the 32 bits in which kernels count |
//! | [`text`] | names from outside, made safe to print |
//! | [`replace`](mod@replace) | files that are replaced whole or not at all |
//! | [`secret`] | secrets between the processes of one reader |
//! | [`provenance`] | where and when a run was made |
//! | [`console`] | lines on standard error |
//! | [`progress`] | a progress bar for long work |
//! | [`testing`] | for tests: one body run on both devices ([`device_test!`]) or on several of each ([`group_test!`]), kernels with planted bugs |
//!
//! The host side of a lesson reads like code with cudarc, and runs on either device:
//!
//! ```
//! use common::prelude::*;
//!
//! fn main() -> common::Result<()> {
//!     let device = Device::open(DeviceChoice::Sim)?;
//!     let stream = device.stream();
//!     let x = stream.clone_htod(&[1.0f32, 2.0, 3.0])?;
//!     let mut y = stream.alloc_poisoned::<f32>(3)?;
//!     stream.memcpy_dtod(&x, &mut y)?;
//!     assert_eq!(stream.clone_dtoh(&y)?, [1.0, 2.0, 3.0]);
//!     Ok(())
//! }
//! ```

pub mod check;
pub mod compile;
pub mod console;
pub mod cpu;
pub mod device;
mod element;
pub mod error;
pub mod files;
pub mod lifeline;
pub mod limits;
mod parallel;
pub mod probe;
pub mod progress;
pub mod provenance;
pub mod reference;
pub mod replace;
pub mod secret;
pub mod tensor;
pub mod testing;
pub mod text;

pub use device::Device;
pub use error::{Error, Result, ShapeError};
/// The simulator itself.
pub use ptx_sim;
pub use tensor::Tensor;

/// The names that nearly every lesson uses.
pub mod prelude {
    pub use crate::compile::KernelSource;
    pub use crate::device::{
        Buffer, Device, DeviceArgs, DeviceChoice, DeviceElement, DeviceGroup, DeviceSlice, DeviceSliceMut, Event,
        Graph, GraphExec, Kernel, LaunchConfig, Peers, PinnedBuffer, Stream,
    };
    pub use crate::error::{Error, Result, ShapeError};
    pub use crate::kernel_source;
    pub use crate::tensor::{ElementType, MemoryFormat, Tensor};
}

/// Used by this crate's macros; not a public interface.
#[doc(hidden)]
pub mod private {
    pub use crate::testing::{cuda_for_test, gpus_for_test, sim_for_test, sims_for_test};
    pub use kernel_headers::{kernel_headers, kernel_text};
    pub use pastey::paste;
}
