//! Step 3: ReLU in place, one thread an element.
//!
//! Hypothesis: the arithmetic is nothing, so it costs what reading and writing the tensor costs. Change: none, this is the
//! first version. Measured: the `layers` table of `cargo run -p phase5-bench`.

use common::prelude::*;

use crate::limits::fits_i32;

/// `kernels/03_relu.cu`.
pub const SOURCE: KernelSource = kernel_source!("03_relu");

/// The kernel, loaded. It takes every shape of up to 2³¹ − 1 values.
#[derive(Clone, Debug)]
pub struct Relu {
    kernel: Kernel,
}

impl Relu {
    /// Loads the kernel.
    ///
    /// # Errors
    /// As [`Device::kernel`].
    pub fn load(device: &Device) -> Result<Relu> {
        Ok(Relu { kernel: device.kernel(&SOURCE, "relu")? })
    }

    /// Queues max(x, 0) over the values of `x`, which is on the stream's device; NaN stays NaN.
    ///
    /// # Errors
    /// [`Error::Shape`] if there are too many, [`Error::Invalid`] if `x` is on the host, [`Error::WrongDevice`].
    pub fn launch(&self, stream: &Stream, x: &mut Tensor) -> Result<()> {
        let n = fits_i32("relu", "the number of values", Some(x.len()))?.unsigned_abs();
        let mut launch = stream.launch_builder(&self.kernel);
        launch.arg(x.buffer_mut()?).arg(&n);
        // SAFETY: the kernel touches x[i] for i < n, which `x` holds.
        unsafe { launch.launch(LaunchConfig::for_num_elems(n)) }
    }
}
