//! Operations limited only by memory: BatchNorm, ReLU, and the statistics that BatchNorm needs in training.
//!
//! | step | kernel | the idea |
//! | --- | --- | --- |
//! | [`batch_norm`] 1 | `norm_01_batch_norm.cu` | one thread normalises one element |
//! | 2 | `norm_02_scale_shift.cu` | two parameters per channel computed beforehand, a grid over the planes |
//! | 3 | `norm_03_vectorised.cu` | 16-byte vectors, four loads in flight a thread |
//! | [`relu`] 1 | `relu_01_naive.cu` | one thread clips one element, in place |
//! | 2 | `relu_02_vectorised.cu` | 16-byte vectors, four loads in flight a thread |
//! | [`statistics`] 1 | `stats_01_naive.cu` | one thread per channel |
//! | 2 | `stats_02_shared.cu` | one block per channel, a tree of sums in shared memory |
//! | 3 | `stats_03_shuffle.cu` | many blocks per channel, vectors, warp shuffles, a second stage |
//! | 4 | `stats_04_welford.cu` | means and squared distances merged in place of sums |
//!
//! [`ladders`] runs them all.

pub mod batch_norm;
pub mod ladders;
pub mod relu;
pub mod statistics;

use common::limits::fits_i32;
use common::prelude::*;

/// A loaded kernel of `in_flight.cuh`, with the number of values that its blocks take.
#[derive(Clone, Debug)]
pub struct VectorKernel {
    kernel: Kernel,
    threads: u32,
    /// Values that a thread has in flight: vectors of four.
    values_each: u32,
}

impl VectorKernel {
    /// The kernel `name` of `source`.
    ///
    /// # Errors
    /// Same as [`Device::kernel`], and [`Error::NoSuchConstant`] if the file does not include `in_flight.cuh`.
    pub fn load(device: &Device, source: &KernelSource, name: &str) -> Result<VectorKernel> {
        let module = device.load(source)?;
        Ok(VectorKernel {
            kernel: module.kernel(name)?,
            threads: module.constant("THREADS")? as u32,
            values_each: 4 * module.constant("VECTORS")? as u32,
        })
    }

    /// The kernel itself, for a launch with arguments of its own.
    pub fn kernel(&self) -> &Kernel {
        &self.kernel
    }

    /// The launch for `n` values: threads for all vectors of them.
    pub fn config(&self, n: u32) -> LaunchConfig {
        LaunchConfig::linear(n.div_ceil(self.values_each), self.threads)
    }

    /// Queues the kernel, which computes each value of `output` from one of `input`, both of one shape.
    ///
    /// # Errors
    /// [`Error::Shape`], naming the `operation`, if the shapes differ or have too many values; [`Error::Invalid`] if a tensor is on
    /// the host, [`Error::WrongDevice`].
    ///
    /// # Safety
    /// The kernel takes (x, y, n), and only reads x\[i\] and writes y\[i\] for i < n.
    pub unsafe fn launch(&self, operation: &str, stream: &Stream, input: &Tensor, output: &mut Tensor) -> Result<()> {
        output.expect_shape(&format!("{operation}'s output"), input.shape())?;
        let n = fits_i32(operation, "the number of values", Some(input.len()))?.unsigned_abs();
        let mut launch = stream.launch_builder(&self.kernel);
        launch.arg(input.buffer()?).arg(output.buffer_mut()?).arg(&n);
        // SAFETY: the caller's promise; both hold n values.
        unsafe { launch.launch(self.config(n)) }
    }

    /// The same over the values of `x`.
    ///
    /// # Errors
    /// Same as [`VectorKernel::launch`].
    ///
    /// # Safety
    /// Same as [`VectorKernel::launch`]; and a thread writes only what it has read itself.
    pub unsafe fn launch_in_place(&self, operation: &str, stream: &Stream, x: &mut Tensor) -> Result<()> {
        let n = fits_i32(operation, "the number of values", Some(x.len()))?.unsigned_abs();
        let mut launch = stream.launch_builder(&self.kernel);
        launch.arg(x.buffer_mut()?).arg_again(0).arg(&n);
        // SAFETY: the caller's promise; `x` holds n values.
        unsafe { launch.launch(self.config(n)) }
    }
}
