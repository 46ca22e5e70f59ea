//! The sum of buffers of several devices, which all of them get.

pub mod resident;

pub use resident::Resident;

use common::device::Module;
use common::prelude::*;
use half::f16;

/// Devices whose addresses the kernels have room for.
pub const MOST_RANKS: usize = 16;

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
    /// Those whose names are `name` and the type.
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
