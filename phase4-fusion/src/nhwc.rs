//! Kernels between products, channels last: conversions, pooling, sums, joined images, LayerNorm. Compute capability 9.0 and up, as the
//! convolutions that they stand between.
//!
//! | kernel | the idea |
//! | --- | --- |
//! | `nhwc_01_convert.cu` | to channels last, with zeros up to a number of channels, and back to f32 planes |
//! | `nhwc_02_max_pool.cu` | a thread has 16 bytes of neighbouring channels |
//! | `nhwc_03_average_pool.cu` | means of whole images, to f32 |
//! | `nhwc_04_pointwise.cu` | scale, shift, activation, and what is added to each value |
//! | `nhwc_05_join.cu` | two images joined, and one enlarged |
//! | `nhwc_06_layer_norm.cu` | as many lanes as hold a pixel normalise it |
//!
//! All of them wait for earlier launches themselves, so that they can be queued as dependent ones.

use bytemuck::{Pod, Zeroable};
use common::device::LaunchArgs;
use common::limits::fits_i32;
use common::prelude::*;
use common::reference::MaxPool2d;
use half::f16;

pub use crate::gemm::Columns;
use crate::gemm::{Activation, activation_number};

/// Conversions to channels last and back.
pub const CONVERT: KernelSource = kernel_source!("nhwc_01_convert");
/// Max pooling.
pub const MAX_POOL: KernelSource = kernel_source!("nhwc_02_max_pool");
/// Means of whole images.
pub const AVERAGE_POOL: KernelSource = kernel_source!("nhwc_03_average_pool");
/// Scale, shift, activation and sums.
pub const POINTWISE: KernelSource = kernel_source!("nhwc_04_pointwise");
/// Joined and enlarged images.
pub const JOIN: KernelSource = kernel_source!("nhwc_05_join");
/// LayerNorm of pixels.
pub const LAYER_NORM: KernelSource = kernel_source!("nhwc_06_layer_norm");

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

    /// A launch over images of this type.
    fn launch<'a>(&'a self, stream: &'a Stream, element: ElementType) -> Launch<'a> {
        let kernel = if element == ElementType::F16 { &self.f16 } else { &self.f32 };
        Launch { arguments: stream.launch_builder(kernel), element }
    }
}

/// The arguments of a launch whose images channels last are of one type.
struct Launch<'a> {
    arguments: LaunchArgs<'a>,
    element: ElementType,
}

impl<'a> Launch<'a> {
    /// An image channels last, to read; `None` is a null pointer.
    fn image(&mut self, x: impl Into<Option<&'a Tensor>>) -> Result<&mut Self> {
        let x = x.into();
        match self.element {
            ElementType::F16 => self.arguments.arg(x.map(|x| x.buffer_of::<f16>(FORMAT)).transpose()?),
            _ => self.arguments.arg(x.map(|x| x.buffer_of::<f32>(FORMAT)).transpose()?),
        };
        Ok(self)
    }

    /// An image channels last, to write.
    fn image_mut(&mut self, y: &'a mut Tensor) -> Result<&mut Self> {
        match self.element {
            ElementType::F16 => self.arguments.arg(y.buffer_of_mut::<f16>(FORMAT)?),
            _ => self.arguments.arg(y.buffer_of_mut::<f32>(FORMAT)?),
        };
        Ok(self)
    }

    /// f32 in planes or vectors, to read; `None` is a null pointer.
    fn planes(&mut self, x: impl Into<Option<&'a Tensor>>) -> Result<&mut Self> {
        self.arguments.arg(x.into().map(Tensor::buffer).transpose()?);
        Ok(self)
    }

    /// f32 in planes, to write.
    fn planes_mut(&mut self, y: &'a mut Tensor) -> Result<&mut Self> {
        self.arguments.arg(y.buffer_mut()?);
        Ok(self)
    }

    /// A number, or a struct of numbers.
    fn value(&mut self, value: impl Pod) -> &mut Self {
        self.arguments.arg_bytes(bytemuck::bytes_of(&value));
        self
    }

    /// Queues it as a dependent launch.
    ///
    /// # Safety
    /// As [`LaunchArgs::launch`]; the kernel waits for earlier launches before it touches memory.
    unsafe fn queue(&mut self, config: LaunchConfig) -> Result<()> {
        // SAFETY: as the caller promises.
        unsafe { self.arguments.dependent().launch(config) }
    }
}

/// A count of values, which the kernels keep in 31 bits.
fn count(what: &str, values: usize) -> Result<u32> {
    Ok(fits_i32("a layer channels last", what, Some(values))?.unsigned_abs())
}

/// A length, a number of vectors or a factor.
fn size(size: usize) -> Result<u32> {
    count("a size", size)
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

/// The vectors of an image, whose values were counted.
fn vectors_of(image: &Tensor) -> u32 {
    (image.num_bytes() / VECTOR) as u32
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
    /// Sizes of an f32 image \[N, C, H, W\], or rows \[…, C\] of its pixels, and one channels last \[N, C' ≥ C, H, W\].
    fn of(what: &str, planes: &Tensor, last: &Tensor) -> Result<Planes> {
        let [n, padded, h, w] = last.dims4()?;
        let ([images, channels, ..], [h, w]) = match *planes.shape() {
            [images, tokens, channels] => {
                ([images * tokens, channels, 1, 1], [1, n * h * w / (images * tokens).max(1)])
            }
            [rows, channels] => ([rows, channels, 1, 1], [1, n * h * w / rows.max(1)]),
            _ => {
                let image @ [n, channels, h, w] = planes.dims4()?;
                last.expect_shape(what, &[n, padded.max(channels), h, w])?;
                (image, [h, w])
            }
        };
        if padded < channels || images * h * w != last.len() / padded.max(1) {
            return Err(Error::shape(
                what,
                ShapeError::mismatch(format!("that of {:?}", planes.shape()), last.shape()),
            ));
        }
        Ok(Planes { pixels: size(h * w)?, channels: size(channels)?, padded: size(padded)? })
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
    /// Same as [`Device::kernel`].
    pub fn load(device: &Device) -> Result<Convert> {
        Convert::load_from(device, &CONVERT)
    }

    /// The same from another text, such as a kernel with a mistake that a check must find.
    ///
    /// # Errors
    /// Same as [`Device::kernel`].
    pub fn load_from(device: &Device, source: &KernelSource) -> Result<Convert> {
        Ok(Convert {
            to_last: Kernels::load(device, source, "to_channels_last")?,
            to_first: Kernels::load(device, source, "to_channels_first")?,
        })
    }

    /// Queues `x` \[N, C, H, W\], f32 in NCHW, or the rows \[…, C\] of its pixels, into `y` \[N, C', H, W\] in NHWC, f16 or f32;
    /// channels from C on become zeros.
    ///
    /// # Errors
    /// [`Error::Shape`] if the shapes do not fit one another; [`Error::ElementType`], [`Error::MemoryFormat`],
    /// [`Error::Invalid`] if a tensor is on the host, [`Error::WrongDevice`].
    pub fn to_channels_last(&self, stream: &Stream, x: &Tensor, y: &mut Tensor) -> Result<()> {
        let planes = Planes::of("an image channels last", x, y)?;
        if y.is_empty() {
            return Ok(());
        }
        let (element, values) = (y.element_type(), count("the number of values", y.len())?);
        let config = LaunchConfig::linear(values.div_ceil((VECTOR / element.size()) as u32), THREADS);
        let mut launch = self.to_last.launch(stream, element);
        launch.planes(x)?.image_mut(y)?.value(values).value(planes);
        // SAFETY: the kernel writes y[i] for i < values and reads the value of x that belongs there.
        unsafe { launch.queue(config) }
    }

    /// Queues the first C channels of `x` \[N, C', H, W\] in NHWC, f16 or f32, into `y` \[N, C, H, W\], f32 in NCHW, or
    /// into the rows \[…, C\] of its pixels.
    ///
    /// # Errors
    /// As [`Convert::to_channels_last`].
    pub fn to_channels_first(&self, stream: &Stream, x: &Tensor, y: &mut Tensor) -> Result<()> {
        let planes = Planes::of("an image channels last", y, x)?;
        if y.is_empty() {
            return Ok(());
        }
        count("the number of values", x.len())?;
        let values = count("the number of values", y.len())?;
        let mut launch = self.to_first.launch(stream, x.element_type());
        launch.image(x)?.planes_mut(y)?.value(values).value(planes);
        // SAFETY: the kernel writes y[i] for i < values and reads the value of x that belongs there.
        unsafe { launch.queue(LaunchConfig::linear(values, THREADS)) }
    }
}

/// `Pool` of `nhwc_02_max_pool.cu`.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct Pooling {
    input: [u32; 2],
    output: [u32; 2],
    window: u32,
    stride: u32,
    padding: u32,
    vectors: u32,
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
    /// Same as [`Device::kernel`].
    pub fn load(device: &Device, pool: MaxPool2d) -> Result<MaxPool> {
        MaxPool::load_from(device, &MAX_POOL, pool)
    }

    /// As [`Convert::load_from`].
    ///
    /// # Errors
    /// Same as [`Device::kernel`].
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
        let shape @ [_, channels, out_height, out_width] = self.pool.output_shape(x)?;
        y.expect_shape(WHAT, &shape)?;
        let [.., height, width] = x.dims4()?;
        let MaxPool2d { window, stride, padding } = self.pool;
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
        let outputs = vectors_of(y);
        let mut launch = self.kernels.launch(stream, x.element_type());
        launch.image(x)?.image_mut(y)?.value(outputs).value(pooling);
        // SAFETY: the kernel writes the vectors of y and reads those of x that lie in the image.
        unsafe { launch.queue(LaunchConfig::linear(outputs, THREADS)) }
    }
}

/// `Image` of `nhwc_03_average_pool.cu`.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct Averaged {
    pixels: u32,
    channels: u32,
    vectors: u32,
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
    /// Same as [`Device::kernel`].
    pub fn load(device: &Device) -> Result<AveragePool> {
        AveragePool::load_from(device, &AVERAGE_POOL)
    }

    /// As [`Convert::load_from`].
    ///
    /// # Errors
    /// Same as [`Device::kernel`].
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
        let config = LaunchConfig {
            grid_dim: (image.vectors.div_ceil(self.lanes as u32), n as u32, 1),
            block_dim: (self.threads, 1, 1),
            shared_mem_bytes: 0,
        };
        let mut launch = self.kernels.launch(stream, x.element_type());
        launch.image(x)?.planes_mut(y)?.value(image);
        // SAFETY: the kernel writes y [N, C] and reads x [N, H · W, C'] with C ≤ C'.
        unsafe { launch.queue(config) }
    }
}

/// Operations on each value, in this order.
#[derive(Clone, Copy, Debug, Default)]
pub struct Terms<'a> {
    /// \[C'\] of f32, times each channel.
    pub scale: Option<&'a Tensor>,
    /// \[C'\] of f32, added to each channel.
    pub shift: Option<&'a Tensor>,
    /// Applied to the result so far.
    pub activation: Activation,
    /// Added to each pixel of an image's channel.
    pub channels: Option<Columns<'a>>,
    /// An image of x's shape, type and format, added.
    pub image: Option<&'a Tensor>,
}

/// y = activation(scale · x + shift) + e + r, channels last.
#[derive(Clone, Debug)]
pub struct Pointwise {
    kernels: Kernels,
}

impl Pointwise {
    /// Loads the kernels.
    ///
    /// # Errors
    /// Same as [`Device::kernel`].
    pub fn load(device: &Device) -> Result<Pointwise> {
        Pointwise::load_from(device, &POINTWISE)
    }

    /// As [`Convert::load_from`].
    ///
    /// # Errors
    /// Same as [`Device::kernel`].
    pub fn load_from(device: &Device, source: &KernelSource) -> Result<Pointwise> {
        Ok(Pointwise { kernels: Kernels::load(device, source, "pointwise")? })
    }

    /// Queues it for `x` \[N, C', H, W\] into `y` of its shape, type and format, f16 or f32 in NHWC, with pixels of whole vectors of
    /// 16 bytes.
    ///
    /// # Errors
    /// As [`Convert::to_channels_last`].
    pub fn launch(&self, stream: &Stream, x: &Tensor, terms: &Terms<'_>, y: &mut Tensor) -> Result<()> {
        const WHAT: &str = "sums channels last";
        let [n, channels, height, width] = x.dims4()?;
        y.expect_shape(WHAT, x.shape())?;
        let vectors = count("the number of channels", vectors(WHAT, channels, x.element_type())?)?;
        for vector in [terms.scale, terms.shift].into_iter().flatten() {
            vector.expect_shape(WHAT, &[channels])?;
        }
        terms.image.map_or(Ok(()), |image| image.expect_shape(WHAT, x.shape()))?;
        count("the number of values", x.len())?;
        if y.is_empty() {
            return Ok(());
        }
        let (outputs, pixels) = (vectors_of(y), count("the number of pixels", height * width)?);
        let [first, pitch] = terms.channels.map_or(Ok([0; 2]), |columns| columns.place(WHAT, [n, channels]))?;
        let of_e = terms.channels.map_or(0, |columns| columns.count.min(channels) as u32);
        let e = terms.channels.map(|columns| columns.values);
        let mut launch = self.kernels.launch(stream, x.element_type());
        launch.image(x)?.image_mut(y)?.value(outputs);
        launch.planes(terms.scale)?.planes(terms.shift)?.planes(e)?;
        launch.image(terms.image)?.value(pixels).value(vectors).value(of_e).value(first).value(pitch);
        launch.value(activation_number(terms.activation));
        // SAFETY: the kernel writes the vectors of y and reads those of x and of the image of its shape, scale and shift [C'] and
        // columns first … first + of_e of e [N, pitch].
        unsafe { launch.queue(LaunchConfig::linear(outputs, THREADS)) }
    }
}

/// `Joined` of `nhwc_05_join.cu`.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct Joined {
    a: u32,
    b: u32,
    a_pitch: u32,
    b_pitch: u32,
    pitch: u32,
}

/// Two images channels last, joined over their channels.
#[derive(Clone, Debug)]
pub struct Concatenate {
    kernels: Kernels,
    channels: [usize; 2],
}

impl Concatenate {
    /// Loads the kernels, for images whose first `channels` are joined; those behind are zeros.
    ///
    /// # Errors
    /// Same as [`Device::kernel`].
    pub fn load(device: &Device, channels: [usize; 2]) -> Result<Concatenate> {
        Concatenate::load_from(device, &JOIN, channels)
    }

    /// As [`Convert::load_from`].
    ///
    /// # Errors
    /// Same as [`Device::kernel`].
    pub fn load_from(device: &Device, source: &KernelSource, channels: [usize; 2]) -> Result<Concatenate> {
        Ok(Concatenate { kernels: Kernels::load(device, source, "concatenate")?, channels })
    }

    /// Queues `a` \[N, A' ≥ A, H, W\] and `b` \[N, B' ≥ B, H, W\] into `y` \[N, C' ≥ A + B, H, W\], whose last channels become zeros;
    /// all in NHWC and of one type, f16 or f32, with A, B and pixels of whole vectors of 16 bytes.
    ///
    /// # Errors
    /// As [`Convert::to_channels_last`].
    pub fn launch(&self, stream: &Stream, a: &Tensor, b: &Tensor, y: &mut Tensor) -> Result<()> {
        const WHAT: &str = "joining images channels last";
        let ([n, of_a, h, w], [_, of_b, ..], [_, of_y, ..]) = (a.dims4()?, b.dims4()?, y.dims4()?);
        let [first, second] = self.channels;
        a.expect_shape(WHAT, &[n, of_a.max(first), h, w])?;
        b.expect_shape(WHAT, &[n, of_b.max(second), h, w])?;
        y.expect_shape(WHAT, &[n, of_y.max(first + second), h, w])?;
        let pixel = |channels| size(vectors(WHAT, channels, a.element_type())?);
        let joined = Joined {
            a: pixel(first)?,
            b: pixel(second)?,
            a_pitch: pixel(of_a)?,
            b_pitch: pixel(of_b)?,
            pitch: pixel(of_y)?,
        };
        count("the number of values", y.len())?;
        if y.is_empty() {
            return Ok(());
        }
        let outputs = vectors_of(y);
        let mut launch = self.kernels.launch(stream, a.element_type());
        launch.image(a)?.image(b)?.image_mut(y)?.value(outputs).value(joined);
        // SAFETY: the kernel writes the vectors of y and reads those of a's and b's pixels, which are as many.
        unsafe { launch.queue(LaunchConfig::linear(outputs, THREADS)) }
    }
}

/// `Enlarged` of `nhwc_05_join.cu`.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct Enlarged {
    height: u32,
    width: u32,
    factor: u32,
    vectors: u32,
}

/// Nearest upsampling channels last.
#[derive(Clone, Debug)]
pub struct Upsample {
    kernels: Kernels,
    factor: usize,
}

impl Upsample {
    /// Loads the kernels.
    ///
    /// # Errors
    /// Same as [`Device::kernel`].
    pub fn load(device: &Device, factor: usize) -> Result<Upsample> {
        Upsample::load_from(device, &JOIN, factor)
    }

    /// As [`Convert::load_from`].
    ///
    /// # Errors
    /// Same as [`Device::kernel`].
    pub fn load_from(device: &Device, source: &KernelSource, factor: usize) -> Result<Upsample> {
        Ok(Upsample { kernels: Kernels::load(device, source, "upsample")?, factor })
    }

    /// Queues `x` \[N, C', H, W\] into `y` \[N, C', H·factor, W·factor\], both in NHWC and of one type, f16 or f32, with pixels of whole
    /// vectors of 16 bytes.
    ///
    /// # Errors
    /// As [`Convert::to_channels_last`].
    pub fn launch(&self, stream: &Stream, x: &Tensor, y: &mut Tensor) -> Result<()> {
        const WHAT: &str = "upsampling channels last";
        let [n, channels, height, width] = x.dims4()?;
        let sides = [height, width].map(|side| side.checked_mul(self.factor));
        let [Some(height), Some(width)] = sides else {
            return Err(Error::shape(WHAT, ShapeError::Overflow(x.shape().to_vec())));
        };
        y.expect_shape(WHAT, &[n, channels, height, width])?;
        let enlarged = Enlarged {
            height: size(height)?,
            width: size(width)?,
            factor: size(self.factor)?,
            vectors: size(vectors(WHAT, channels, x.element_type())?)?,
        };
        count("the number of values", y.len())?;
        if y.is_empty() {
            return Ok(());
        }
        let outputs = vectors_of(y);
        let mut launch = self.kernels.launch(stream, x.element_type());
        launch.image(x)?.image_mut(y)?.value(outputs).value(enlarged);
        // SAFETY: the kernel writes the vectors of y and reads those of x, whose sides are a factor-th of y's.
        unsafe { launch.queue(LaunchConfig::linear(outputs, THREADS)) }
    }
}

/// `Pixels` of `nhwc_06_layer_norm.cu`.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct Pixels {
    count: u32,
    channels: u32,
    vectors: u32,
    eps: f32,
}

/// LayerNorm of pixels channels last.
#[derive(Clone, Debug)]
pub struct LayerNorm {
    /// For each of [`HELD`].
    whole: Vec<Kernels>,
    /// For channels that were filled up.
    any: Kernels,
    /// Threads of a block.
    threads: u32,
}

/// Lanes that share a pixel, and how many of its vectors each of them holds: of those that hold all, the first is the best.
const HELD: [(usize, usize); 4] = [(8, 5), (16, 5), (32, 5), (32, 10)];
/// Lanes and vectors of the kernel for channels that were filled up.
const ANY: (usize, usize) = HELD[HELD.len() - 1];

impl LayerNorm {
    /// Loads the kernels.
    ///
    /// # Errors
    /// Same as [`Device::kernel`].
    pub fn load(device: &Device) -> Result<LayerNorm> {
        LayerNorm::load_from(device, &LAYER_NORM)
    }

    /// As [`Convert::load_from`].
    ///
    /// # Errors
    /// Same as [`Device::kernel`].
    pub fn load_from(device: &Device, source: &KernelSource) -> Result<LayerNorm> {
        let threads: usize = device.load(source)?.constant("THREADS")?;
        let load = |name: &str| Kernels::load(device, source, &format!("layer_norm_{name}"));
        let whole = HELD.iter().map(|(lanes, held)| load(&format!("{lanes}x{held}"))).collect::<Result<_>>()?;
        Ok(LayerNorm { whole, any: load("any")?, threads: threads as u32 })
    }

    /// The kernels for pixels of this many vectors, whole or with zeros among them, and how many lanes share one.
    fn kernels(&self, pixels: &Pixels, of_a_vector: usize) -> (&Kernels, u32) {
        let vectors = pixels.vectors as usize;
        let whole = vectors * of_a_vector == pixels.channels as usize;
        let fits = |((lanes, held), _): &(&(usize, usize), &Kernels)| lanes * held >= vectors;
        match HELD.iter().zip(&self.whole).find(fits).filter(|_| whole) {
            Some(((lanes, _), kernels)) => (kernels, *lanes as u32),
            None => (&self.any, ANY.0 as u32),
        }
    }

    /// Why it does not take pixels of this many channels, with those that are zeros, if it does not.
    pub fn refuses(&self, channels: usize, element: ElementType) -> Option<String> {
        let most = ANY.0 * ANY.1 * VECTOR / element.size();
        (channels > most).then(|| format!("a warp holds up to {most} channels of {element}"))
    }

    /// Queues the LayerNorm of the first C channels of each pixel of `x` \[N, C', H, W\], with `weight` and `bias` \[C\] of f32, into `y`
    /// of its shape, whose other channels become zeros; both in NHWC and of one type, f16 or f32, with pixels of whole vectors of
    /// 16 bytes.
    ///
    /// # Errors
    /// As [`Convert::to_channels_last`]; [`Error::Unsupported`] if there are more channels than a warp holds.
    pub fn launch(
        &self,
        stream: &Stream,
        x: &Tensor,
        [weight, bias]: [&Tensor; 2],
        eps: f32,
        y: &mut Tensor,
    ) -> Result<()> {
        const WHAT: &str = "LayerNorm channels last";
        let ([n, padded, height, width], channels) = (x.dims4()?, weight.len());
        y.expect_shape(WHAT, x.shape())?;
        weight.expect_shape(WHAT, &[channels.min(padded)])?;
        bias.expect_shape(WHAT, &[channels])?;
        if let Some(reason) = self.refuses(padded, x.element_type()) {
            let (what, device) = (format!("{WHAT} of {:?}", x.shape()), stream.device().short_name());
            return Err(Error::Unsupported { what, device, reason });
        }
        let pixels = Pixels {
            count: size(n * height * width)?,
            channels: size(channels)?,
            vectors: size(vectors(WHAT, padded, x.element_type())?)?,
            eps,
        };
        count("the number of values", x.len())?;
        if y.is_empty() {
            return Ok(());
        }
        let (kernels, lanes) = self.kernels(&pixels, VECTOR / x.element_type().size());
        let config = LaunchConfig {
            grid_dim: (pixels.count.div_ceil(self.threads / lanes), 1, 1),
            block_dim: (self.threads, 1, 1),
            shared_mem_bytes: 0,
        };
        let mut launch = kernels.launch(stream, x.element_type());
        launch.image(x)?.planes(weight)?.planes(bias)?.image_mut(y)?.value(pixels);
        // SAFETY: the kernel writes y and reads x [pixels, vectors], and weight and bias [channels] with no more channels than the
        // vectors have.
        unsafe { launch.queue(config) }
    }
}
