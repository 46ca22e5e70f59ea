//! Activations, and additions to whole planes.

use common::limits::fits_i32;
use common::prelude::*;
use phase2_conv_bn::norm::VectorKernel;

/// Exact GELU, 0.5·x·(1 + erf(x/√2)), `gelu_01.cu`: 16-byte vectors.
#[derive(Clone, Debug)]
pub struct Gelu {
    kernel: VectorKernel,
}

impl Gelu {
    /// The kernel file.
    pub const SOURCE: KernelSource = kernel_source!("gelu_01");

    /// Loads the kernel.
    ///
    /// # Errors
    /// Same as [`Device::kernel`].
    pub fn load(device: &Device) -> Result<Gelu> {
        Gelu::load_from(device, &Gelu::SOURCE)
    }

    /// The same from another text, such as a kernel with a mistake that a check must find.
    ///
    /// # Errors
    /// Same as [`Device::kernel`].
    pub fn load_from(device: &Device, source: &KernelSource) -> Result<Gelu> {
        Ok(Gelu { kernel: VectorKernel::load(device, source, "gelu")? })
    }

    /// Queues GELU of `input` into `output` of the same shape, both on the stream's device.
    ///
    /// # Errors
    /// [`Error::Shape`] if the shapes differ or have too many values, [`Error::Invalid`] if a tensor is on the host,
    /// [`Error::WrongDevice`].
    pub fn launch(&self, stream: &Stream, input: &Tensor, output: &mut Tensor) -> Result<()> {
        // SAFETY: the kernel takes x, y and n, and a thread writes only what it has read itself.
        unsafe { self.kernel.launch("gelu", stream, input, output) }
    }

    /// Queues GELU over the values of `x`, which is on the stream's device.
    ///
    /// # Errors
    /// Same as [`Gelu::launch`].
    pub fn launch_in_place(&self, stream: &Stream, x: &mut Tensor) -> Result<()> {
        // SAFETY: the kernel takes x, y and n, and a thread writes only what it has read itself.
        unsafe { self.kernel.launch_in_place("gelu", stream, x) }
    }
}

/// SiLU, x/(1 + e^(−x)), `silu_01.cu`: 16-byte vectors.
#[derive(Clone, Debug)]
pub struct Silu {
    kernel: VectorKernel,
}

impl Silu {
    /// The kernel file.
    pub const SOURCE: KernelSource = kernel_source!("silu_01");

    /// Loads the kernel.
    ///
    /// # Errors
    /// Same as [`Device::kernel`].
    pub fn load(device: &Device) -> Result<Silu> {
        Silu::load_from(device, &Silu::SOURCE)
    }

    /// Same as [`Gelu::load_from`].
    ///
    /// # Errors
    /// Same as [`Device::kernel`].
    pub fn load_from(device: &Device, source: &KernelSource) -> Result<Silu> {
        Ok(Silu { kernel: VectorKernel::load(device, source, "silu")? })
    }

    /// Queues SiLU of `input` into `output` of the same shape, both on the stream's device.
    ///
    /// # Errors
    /// Same as [`Gelu::launch`].
    pub fn launch(&self, stream: &Stream, input: &Tensor, output: &mut Tensor) -> Result<()> {
        // SAFETY: the kernel takes x, y and n, and a thread writes only what it has read itself.
        unsafe { self.kernel.launch("silu", stream, input, output) }
    }

    /// Queues SiLU over the values of `x`, which is on the stream's device.
    ///
    /// # Errors
    /// Same as [`Gelu::launch`].
    pub fn launch_in_place(&self, stream: &Stream, x: &mut Tensor) -> Result<()> {
        // SAFETY: the kernel takes x, y and n, and a thread writes only what it has read itself.
        unsafe { self.kernel.launch_in_place("silu", stream, x) }
    }
}

/// silu(a + b·c), `silu_sum_01.cu`: three tensors in, one out.
#[derive(Clone, Debug)]
pub struct SiluSum {
    kernel: Kernel,
}

impl SiluSum {
    /// The kernel file.
    pub const SOURCE: KernelSource = kernel_source!("silu_sum_01");
    /// Values per thread: two vectors of four.
    const VALUES: u32 = 8;

    /// Loads the kernel.
    ///
    /// # Errors
    /// Same as [`Device::kernel`].
    pub fn load(device: &Device) -> Result<SiluSum> {
        SiluSum::load_from(device, &SiluSum::SOURCE)
    }

    /// Same as [`Gelu::load_from`].
    ///
    /// # Errors
    /// Same as [`Device::kernel`].
    pub fn load_from(device: &Device, source: &KernelSource) -> Result<SiluSum> {
        Ok(SiluSum { kernel: device.kernel(source, "silu_sum")? })
    }

    /// Queues silu(`a` + `b`·`c`) into `output`, all of one shape and on the stream's device.
    ///
    /// # Errors
    /// Same as [`Gelu::launch`].
    pub fn launch(&self, stream: &Stream, a: &Tensor, b: &Tensor, c: &Tensor, output: &mut Tensor) -> Result<()> {
        b.expect_shape("silu(a + b·c)'s b", a.shape())?;
        c.expect_shape("silu(a + b·c)'s c", a.shape())?;
        output.expect_shape("silu(a + b·c)'s output", a.shape())?;
        let n = fits_i32("silu(a + b·c)", "the number of values", Some(a.len()))?.unsigned_abs();
        let mut launch = stream.launch_builder(&self.kernel);
        launch.arg(a.buffer()?).arg(b.buffer()?).arg(c.buffer()?).arg(output.buffer_mut()?).arg(&n);
        // SAFETY: the kernel reads [i] of the three and writes y[i] for i < n, which all hold.
        unsafe { launch.launch(LaunchConfig::for_threads(n.div_ceil(SiluSum::VALUES))) }
    }
}

/// One value per channel added in place, y\[n, c, h, w\] += v\[n, c\], `add_channel_01.cu`. One IEEE addition per value: the bits are the
/// CPU's.
#[derive(Clone, Debug)]
pub struct AddChannel {
    kernel: VectorKernel,
}

impl AddChannel {
    /// The kernel file.
    pub const SOURCE: KernelSource = kernel_source!("add_channel_01");

    /// Loads the kernel.
    ///
    /// # Errors
    /// Same as [`Device::kernel`].
    pub fn load(device: &Device) -> Result<AddChannel> {
        AddChannel::load_from(device, &AddChannel::SOURCE)
    }

    /// Same as [`Gelu::load_from`].
    ///
    /// # Errors
    /// Same as [`Device::kernel`].
    pub fn load_from(device: &Device, source: &KernelSource) -> Result<AddChannel> {
        Ok(AddChannel { kernel: VectorKernel::load(device, source, "add_channel")? })
    }

    /// Queues `y` \[N, C, H, W\] += `v` \[N, C\], both on the stream's device.
    ///
    /// # Errors
    /// [`Error::Shape`] if images or channels differ or there are too many values, [`Error::Invalid`] if a tensor is on the host,
    /// [`Error::WrongDevice`].
    pub fn launch(&self, stream: &Stream, y: &mut Tensor, v: &Tensor) -> Result<()> {
        const WHAT: &str = "adding to channels";
        let [n, c, height, width] = y.dims4()?;
        v.expect_shape("what is added to channels", &[n, c])?;
        let values = fits_i32(WHAT, "the number of values", Some(y.len()))?.unsigned_abs();
        let plane = fits_i32(WHAT, "the number of values of a plane", height.checked_mul(width))?.unsigned_abs();
        let mut launch = stream.launch_builder(self.kernel.kernel());
        launch.arg(y.buffer_mut()?).arg(v.buffer()?).arg(&plane).arg(&values);
        // SAFETY: the kernel reads and writes y[i] for i < n and reads v[i / plane] of those, which it holds.
        unsafe { launch.launch(self.kernel.config(values)) }
    }
}
