//! Operations between convolutions in planes of f32: an activation and the sums that follow it, in one pass.
//! `planes_01_pointwise.cu`.

use bytemuck::{Pod, Zeroable};
use common::limits::fits_i32;
use common::prelude::*;

use crate::gemm::{Activation, Columns, activation_number};

/// The kernel file.
pub static SOURCE: KernelSource = kernel_source!("planes_01_pointwise");

const THREADS: u32 = 256;
/// Values per thread, where planes are multiples of it.
const VECTOR: usize = 4;

/// Operations on each value, in this order.
#[derive(Clone, Copy, Debug, Default)]
pub struct Terms<'a> {
    /// Applied to x.
    pub activation: Activation,
    /// Added to each plane.
    pub channels: Option<Columns<'a>>,
    /// An image of x's shape, added.
    pub image: Option<&'a Tensor>,
}

/// `Planes` of the kernel file.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct Planes {
    count: u32,
    plane: u32,
    channels: u32,
    first: u32,
    pitch: u32,
    activation: i32,
}

/// y = activation(x) + e + r in planes of f32.
#[derive(Clone, Debug)]
pub struct Pointwise {
    vectors: Kernel,
    any: Kernel,
}

impl Pointwise {
    /// Loads the kernels.
    ///
    /// # Errors
    /// Same as [`Device::kernel`].
    pub fn load(device: &Device) -> Result<Pointwise> {
        Pointwise::load_from(device, &SOURCE)
    }

    /// The same from another text, such as one with a mistake that a check must find.
    ///
    /// # Errors
    /// Same as [`Device::kernel`].
    pub fn load_from(device: &Device, source: &KernelSource) -> Result<Pointwise> {
        let module = device.load(source)?;
        Ok(Pointwise { vectors: module.kernel("pointwise_4")?, any: module.kernel("pointwise_1")? })
    }

    /// Queues it for `x` \[N, C, H, W\] into `y` of its shape.
    ///
    /// # Errors
    /// [`Error::Shape`] if the shapes do not match or there are 2³¹ values; [`Error::Invalid`] if a tensor is on the host,
    /// [`Error::WrongDevice`].
    pub fn launch(&self, stream: &Stream, x: &Tensor, terms: &Terms<'_>, y: &mut Tensor) -> Result<()> {
        const WHAT: &str = "sums in planes";
        let [n, channels, height, width] = x.dims4()?;
        y.expect_shape(WHAT, x.shape())?;
        terms.image.map_or(Ok(()), |image| image.expect_shape(WHAT, x.shape()))?;
        let [first, pitch] = terms.channels.map_or(Ok([0; 2]), |columns| columns.place(WHAT, [n, channels]))?;
        let size = |size| Ok::<_, Error>(fits_i32(WHAT, "a size", Some(size))?.unsigned_abs());
        let (plane, count) = (size(height * width)?, size(x.len())?);
        if count == 0 {
            return Ok(());
        }
        let channels = size(channels)?;
        let planes = Planes { count, plane, channels, first, pitch, activation: activation_number(terms.activation) };
        let whole = (plane as usize).is_multiple_of(VECTOR);
        let (kernel, each) = if whole { (&self.vectors, VECTOR as u32) } else { (&self.any, 1) };
        let e = terms.channels.map(|columns| columns.values.buffer()).transpose()?;
        let r = terms.image.map(Tensor::buffer).transpose()?;
        let mut launch = stream.launch_builder(kernel);
        launch.arg(x.buffer()?).arg(e).arg(r).arg(y.buffer_mut()?).arg_bytes(bytemuck::bytes_of(&planes));
        // SAFETY: the kernel writes y[i] for i < count and reads those of x and r, of its shape, and of e [N, pitch] the columns of all
        // channels; with vectors, planes are multiples of them.
        unsafe { launch.launch(LaunchConfig::linear(count / each, THREADS)) }
    }
}
