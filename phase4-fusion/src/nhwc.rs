//! What lies between convolutions channels last: conversions, max pooling, means. Compute capability 9.0 and up, as the
//! convolutions that they stand between.
//!
//! | kernel | the idea |
//! | --- | --- |
//! | `nhwc_01_convert.cu` | to channels last, with zeros up to a number of channels, and back to f32 planes |
//! | `nhwc_02_max_pool.cu` | a thread has 16 bytes of neighbouring channels |
//! | `nhwc_03_average_pool.cu` | means of whole images, to f32 |
//!
//! All of them wait for earlier launches themselves, so that they can be queued as dependent ones.

use bytemuck::{Pod, Zeroable};
use common::limits::fits_i32;
use common::prelude::*;
use common::reference::MaxPool2d;
use common::tensor::Element;
use half::f16;

/// The kernel files.
pub static SOURCES: [KernelSource; 3] =
    [kernel_source!("nhwc_01_convert"), kernel_source!("nhwc_02_max_pool"), kernel_source!("nhwc_03_average_pool")];

const FORMAT: MemoryFormat = MemoryFormat::Nhwc;
const THREADS: u32 = 256;
/// Bytes of a thread's vector.
const VECTOR: usize = 16;

/// A kernel for each type that channels-last images have.
#[derive(Clone, Debug)]
struct Kernels {
    f16: Kernel,
    f32: Kernel,
}

impl Kernels {
    fn load(device: &Device, source: &KernelSource, name: &str) -> Result<Kernels> {
        let module = device.load(source)?;
        Ok(Kernels { f16: module.kernel(&format!("{name}_f16"))?, f32: module.kernel(&format!("{name}_f32"))? })
    }

    fn of<T: Element>(&self) -> &Kernel {
        if T::TYPE == ElementType::F16 { &self.f16 } else { &self.f32 }
    }
}

/// `$queue` for f16 or, in its place, f32.
macro_rules! by_type {
    ($element:expr, $queue:ident($($argument:expr),*)) => {
        match $element {
            ElementType::F16 => $queue::<f16>($($argument),*),
            _ => $queue::<f32>($($argument),*),
        }
    };
}

/// A count of values, which the kernels keep in 31 bits.
fn count(what: &str, values: usize) -> Result<i32> {
    fits_i32("a layer channels last", what, Some(values))
}

/// The vectors of a pixel with this many channels.
fn vectors(what: &str, channels: usize, element: ElementType) -> Result<usize> {
    let bytes = channels * element.size();
    if !bytes.is_multiple_of(VECTOR) {
        let detail = format!("a pixel of {channels} channels in {element} is no multiple of {VECTOR} bytes");
        return Err(Error::shape(what, detail));
    }
    Ok(bytes / VECTOR)
}

/// `Image` of `nhwc_01_convert.cu`.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct Planes {
    pixels: u32,
    channels: u32,
    padded: u32,
}

impl Planes {
    /// Of an f32 image \[N, C, H, W\] and one channels last \[N, C' ≥ C, H, W\].
    fn of(what: &str, planes: &Tensor, last: &Tensor) -> Result<Planes> {
        let ([n, channels, h, w], [_, padded, ..]) = (planes.dims4()?, last.dims4()?);
        last.expect_shape(what, &[n, padded.max(channels), h, w])?;
        let [pixels, channels, padded] = [h * w, channels, padded].map(|size| count("a size", size));
        Ok(Planes {
            pixels: pixels?.unsigned_abs(),
            channels: channels?.unsigned_abs(),
            padded: padded?.unsigned_abs(),
        })
    }
}

/// From f32 planes to channels last and back.
#[derive(Clone, Debug)]
pub struct Convert {
    to_last: Kernels,
    to_first: Kernels,
}

impl Convert {
    /// Loads the kernels.
    ///
    /// # Errors
    /// As [`Device::kernel`].
    pub fn load(device: &Device) -> Result<Convert> {
        Convert::load_from(device, &SOURCES[0])
    }

    /// The same from another text, such as a kernel with a mistake that a check must find.
    ///
    /// # Errors
    /// As [`Device::kernel`].
    pub fn load_from(device: &Device, source: &KernelSource) -> Result<Convert> {
        Ok(Convert {
            to_last: Kernels::load(device, source, "to_channels_last")?,
            to_first: Kernels::load(device, source, "to_channels_first")?,
        })
    }

    /// Queues `x` \[N, C, H, W\], f32 in NCHW, into `y` \[N, C', H, W\] in NHWC, f16 or f32; channels from C on become zeros.
    ///
    /// # Errors
    /// [`Error::Shape`] if the shapes do not fit one another; [`Error::ElementType`], [`Error::MemoryFormat`],
    /// [`Error::Invalid`] if a tensor is on the host, [`Error::WrongDevice`].
    pub fn to_channels_last(&self, stream: &Stream, x: &Tensor, y: &mut Tensor) -> Result<()> {
        fn queue<T: Element>(
            kernels: &Kernels,
            stream: &Stream,
            x: &Tensor,
            planes: Planes,
            y: &mut Tensor,
        ) -> Result<()> {
            let values = count("the number of values", y.len())?.unsigned_abs();
            let each = (VECTOR / T::TYPE.size()) as u32;
            let mut launch = stream.launch_builder(kernels.of::<T>());
            launch.arg(x.buffer()?).arg(y.buffer_of_mut::<T>(FORMAT)?).arg(&values);
            launch.arg_bytes(bytemuck::bytes_of(&planes)).dependent();
            // SAFETY: the kernel waits for earlier launches, writes y[i] for i < values and reads the value of x that belongs there.
            unsafe { launch.launch(LaunchConfig::linear(values.div_ceil(each), THREADS)) }
        }
        let planes = Planes::of("an image channels last", x, y)?;
        if y.is_empty() {
            return Ok(());
        }
        by_type!(y.element_type(), queue(&self.to_last, stream, x, planes, y))
    }

    /// Queues the first C channels of `x` \[N, C', H, W\] in NHWC, f16 or f32, into `y` \[N, C, H, W\], f32 in NCHW.
    ///
    /// # Errors
    /// As [`Convert::to_channels_last`].
    pub fn to_channels_first(&self, stream: &Stream, x: &Tensor, y: &mut Tensor) -> Result<()> {
        fn queue<T: Element>(
            kernels: &Kernels,
            stream: &Stream,
            x: &Tensor,
            planes: Planes,
            y: &mut Tensor,
        ) -> Result<()> {
            let values = count("the number of values", y.len())?.unsigned_abs();
            count("the number of values", x.len())?;
            let mut launch = stream.launch_builder(kernels.of::<T>());
            launch.arg(x.buffer_of::<T>(FORMAT)?).arg(y.buffer_mut()?).arg(&values);
            launch.arg_bytes(bytemuck::bytes_of(&planes)).dependent();
            // SAFETY: the kernel waits for earlier launches, writes y[i] for i < values and reads the value of x that belongs there.
            unsafe { launch.launch(LaunchConfig::linear(values, THREADS)) }
        }
        let planes = Planes::of("an image channels last", y, x)?;
        if y.is_empty() {
            return Ok(());
        }
        by_type!(x.element_type(), queue(&self.to_first, stream, x, planes, y))
    }
}

/// `Pool` of `nhwc_02_max_pool.cu`.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct Pooling {
    input: [i32; 2],
    output: [i32; 2],
    window: i32,
    stride: i32,
    padding: i32,
    vectors: i32,
}

/// Max pooling channels last.
#[derive(Clone, Debug)]
pub struct MaxPool {
    kernels: Kernels,
    pool: MaxPool2d,
}

impl MaxPool {
    /// Loads the kernels.
    ///
    /// # Errors
    /// As [`Device::kernel`].
    pub fn load(device: &Device, pool: MaxPool2d) -> Result<MaxPool> {
        MaxPool::load_from(device, &SOURCES[1], pool)
    }

    /// As [`Convert::load_from`].
    ///
    /// # Errors
    /// As [`Device::kernel`].
    pub fn load_from(device: &Device, source: &KernelSource, pool: MaxPool2d) -> Result<MaxPool> {
        Ok(MaxPool { kernels: Kernels::load(device, source, "max_pool")?, pool })
    }

    /// Queues the pooling of `x` \[N, C, H, W\] into `y` of [`MaxPool2d::output_shape`], both in NHWC and of one type, f16 or f32,
    /// with pixels of whole vectors of 16 bytes.
    ///
    /// # Errors
    /// As [`Convert::to_channels_last`].
    pub fn launch(&self, stream: &Stream, x: &Tensor, y: &mut Tensor) -> Result<()> {
        const WHAT: &str = "max pooling channels last";
        fn queue<T: Element>(
            kernels: &Kernels,
            stream: &Stream,
            x: &Tensor,
            pooling: Pooling,
            y: &mut Tensor,
        ) -> Result<()> {
            let outputs = (y.num_bytes() / VECTOR) as u32;
            let mut launch = stream.launch_builder(kernels.of::<T>());
            launch.arg(x.buffer_of::<T>(FORMAT)?).arg(y.buffer_of_mut::<T>(FORMAT)?).arg(&outputs);
            launch.arg_bytes(bytemuck::bytes_of(&pooling)).dependent();
            // SAFETY: the kernel waits for earlier launches, writes the vectors of y and reads those of x that lie in the image.
            unsafe { launch.launch(LaunchConfig::linear(outputs, THREADS)) }
        }
        let shape @ [_, channels, out_height, out_width] = self.pool.output_shape(x)?;
        y.expect_shape(WHAT, &shape)?;
        let [.., height, width] = x.dims4()?;
        let MaxPool2d { window, stride, padding } = self.pool;
        let size = |size| count("a size", size);
        let pooling = Pooling {
            input: [size(height)?, size(width)?],
            output: [size(out_height)?, size(out_width)?],
            window: size(window)?,
            stride: size(stride)?,
            padding: size(padding)?,
            vectors: size(vectors(WHAT, channels, x.element_type())?)?,
        };
        count("the number of values", x.len().max(y.len()))?;
        if y.is_empty() {
            return Ok(());
        }
        by_type!(x.element_type(), queue(&self.kernels, stream, x, pooling, y))
    }
}

/// `Image` of `nhwc_03_average_pool.cu`.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct Averaged {
    pixels: i32,
    channels: i32,
    vectors: i32,
}

/// Means of whole images channels last.
#[derive(Clone, Debug)]
pub struct AveragePool {
    kernels: Kernels,
    /// Vectors of a pixel per block.
    lanes: usize,
    threads: u32,
}

impl AveragePool {
    /// Loads the kernels.
    ///
    /// # Errors
    /// As [`Device::kernel`].
    pub fn load(device: &Device) -> Result<AveragePool> {
        AveragePool::load_from(device, &SOURCES[2])
    }

    /// As [`Convert::load_from`].
    ///
    /// # Errors
    /// As [`Device::kernel`].
    pub fn load_from(device: &Device, source: &KernelSource) -> Result<AveragePool> {
        let module = device.load(source)?;
        Ok(AveragePool {
            kernels: Kernels::load(device, source, "average_pool")?,
            lanes: module.constant("LANES")?,
            threads: module.constant("THREADS")? as u32,
        })
    }

    /// Queues the means of the first C channels of `x` \[N, C', H, W\] in NHWC, f16 or f32, into `y` \[N, C, 1, 1\], f32 in NCHW.
    ///
    /// # Errors
    /// As [`Convert::to_channels_last`]; [`Error::Shape`] if the images have no pixel.
    pub fn launch(&self, stream: &Stream, x: &Tensor, y: &mut Tensor) -> Result<()> {
        const WHAT: &str = "means channels last";
        fn queue<T: Element>(
            pool: &AveragePool,
            stream: &Stream,
            x: &Tensor,
            image: Averaged,
            y: &mut Tensor,
        ) -> Result<()> {
            let blocks = (image.vectors as u32).div_ceil(pool.lanes as u32);
            let config = LaunchConfig {
                grid_dim: (blocks, y.shape()[0] as u32, 1),
                block_dim: (pool.threads, 1, 1),
                shared_mem_bytes: 0,
            };
            let mut launch = stream.launch_builder(pool.kernels.of::<T>());
            launch
                .arg(x.buffer_of::<T>(FORMAT)?)
                .arg(y.buffer_mut()?)
                .arg_bytes(bytemuck::bytes_of(&image))
                .dependent();
            // SAFETY: the kernel waits for earlier launches, writes y [N, C] and reads x [N, H · W, C'] with C ≤ C'.
            unsafe { launch.launch(config) }
        }
        let ([n, padded, height, width], [_, channels, ..]) = (x.dims4()?, y.dims4()?);
        y.expect_shape(WHAT, &[n, channels.min(padded), 1, 1])?;
        if height * width == 0 {
            return Err(Error::shape(WHAT, format!("an image of {height}×{width} has no mean")));
        }
        let image = Averaged {
            pixels: count("the number of pixels", height * width)?,
            channels: count("the number of channels", channels)?,
            vectors: count("the number of channels", vectors(WHAT, padded, x.element_type())?)?,
        };
        count("the number of values", x.len())?;
        if y.is_empty() {
            return Ok(());
        }
        by_type!(x.element_type(), queue(self, stream, x, image, y))
    }
}
