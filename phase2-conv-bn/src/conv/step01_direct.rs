//! Step 1: direct convolution, one thread per output element.
//!
//! Hypothesis: the device has tens of thousands of lanes, so giving each output its own thread and writing the loops down is
//! already far faster than a CPU core. Change: none, this is where the ladder begins.
//!
//! Measured in `book/pages/phase2/index.md`.

use common::prelude::*;

use super::{Algorithm, Call, Load, Step};

/// The step. It takes every shape.
pub const STEP: Step = Step {
    number: 1,
    name: "direct",
    idea: "one thread computes one output element",
    source: kernel_source!("conv_01_direct"),
    method: Load(|device, source| Ok(Box::new(Direct { kernel: device.kernel(source, "conv_direct")? }))),
};

#[derive(Debug)]
struct Direct {
    kernel: Kernel,
}

impl Algorithm for Direct {
    fn queue(&self, call: Call<'_>) -> Result<()> {
        let geometry = call.geometry;
        let mut launch = call.launch_builder(&self.kernel);
        // SAFETY: the kernel writes output[i] for i < outputs, which `output` holds; the geometry was derived from the shapes
        // of the tensors given, and rows and columns outside the image are skipped.
        unsafe { launch.launch(LaunchConfig::for_threads(geometry.outputs)) }
    }
}
