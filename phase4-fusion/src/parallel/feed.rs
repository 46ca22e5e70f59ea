//! How the inputs of a replica come from the host: unchanged, or as the bytes of pixels, a quarter of the size.

use common::limits::fits_i32;
use common::prelude::*;
use media::photo::{MEAN, STANDARD_DEVIATION};

/// `kernels/images_01_normalise.cu`.
pub const NORMALISE: KernelSource = kernel_source!("images_01_normalise");

/// Values of each thread of the kernel.
const EACH: u32 = 4;

/// Values in pinned memory for an input of f32 in planes.
pub trait Feed: DeviceElement {
    /// State of a place on its device for an input.
    type Way: std::fmt::Debug;

    /// Makes the state for an input of this shape.
    ///
    /// # Errors
    /// Errors of allocations and of [`Device::kernel`]; [`Error::Shape`] if an input cannot come this way.
    fn way(device: &Device, shape: &[usize]) -> Result<Self::Way>;

    /// Queues the copy from the host, and the conversion to the input.
    ///
    /// # Errors
    /// Errors of copies and launches.
    fn copy(way: &mut Self::Way, stream: &Stream, from: &PinnedBuffer<Self>, input: &mut Tensor) -> Result<()>;
}

impl Feed for f32 {
    type Way = ();

    fn way(_: &Device, _: &[usize]) -> Result<()> {
        Ok(())
    }

    fn copy((): &mut (), stream: &Stream, from: &PinnedBuffer<f32>, input: &mut Tensor) -> Result<()> {
        stream.memcpy_htod(from, input.buffer_mut()?)
    }
}

/// Scale and shift of each channel.
#[repr(C)]
#[derive(Clone, Copy, Debug, bytemuck::Pod, bytemuck::Zeroable)]
struct Channels {
    scale: [f32; 3],
    shift: [f32; 3],
}

impl Channels {
    /// (b / 255 − mean) / standard deviation of ImageNet's photos, as torchvision's models expect.
    const IMAGENET: Channels = {
        let mut channels = Channels { scale: [0.0; 3], shift: [0.0; 3] };
        let mut c = 0;
        while c < 3 {
            channels.scale[c] = 1.0 / (255.0 * STANDARD_DEVIATION[c]);
            channels.shift[c] = -MEAN[c] / STANDARD_DEVIATION[c];
            c += 1;
        }
        channels
    };
}

/// Network input for these pixels \[N, 3, H, W\], on the host: the same roundings as the kernel's.
///
/// # Errors
/// [`Error::Shape`] if the number of pixels differs, or there are not three channels.
pub fn normalised(shape: &[usize], pixels: &[u8]) -> Result<Tensor> {
    let plane = plane(shape)?;
    let Channels { scale, shift } = Channels::IMAGENET;
    let value = |(at, pixel): (usize, &u8)| {
        let c = at / plane.max(1) % 3;
        f32::from(*pixel).mul_add(scale[c], shift[c])
    };
    Tensor::from_vec(shape, pixels.iter().enumerate().map(value).collect())
}

/// Number of pixels of a plane.
fn plane(shape: &[usize]) -> Result<usize> {
    match *shape {
        [_, 3, height, width] => Ok(height * width),
        _ => Err(Error::shape("pixels", ShapeError::mismatch("[N, 3, H, W]", shape))),
    }
}

/// Pixels on a device, and the kernel that converts them to an input.
#[derive(Debug)]
pub struct Pixels {
    kernel: Kernel,
    bytes: Buffer<u8>,
    plane: u32,
    count: u32,
    threads: u32,
}

impl Feed for u8 {
    type Way = Pixels;

    fn way(device: &Device, shape: &[usize]) -> Result<Pixels> {
        const OPERATION: &str = "pixels";
        let (module, plane, count) = (device.load(&NORMALISE)?, plane(shape)?, shape.iter().product());
        let number = |what, value| fits_i32(OPERATION, what, Some(value)).map(|value| value as u32);
        Ok(Pixels {
            kernel: module.kernel("normalise")?,
            bytes: device.stream().alloc_poisoned(count)?,
            plane: number("a plane", plane)?,
            count: number("their number", count)?,
            threads: module.constant("THREADS")? as u32,
        })
    }

    fn copy(way: &mut Pixels, stream: &Stream, from: &PinnedBuffer<u8>, input: &mut Tensor) -> Result<()> {
        stream.memcpy_htod(from, &mut way.bytes)?;
        let Pixels { kernel, bytes, plane, count, threads } = way;
        let config = LaunchConfig::linear(count.div_ceil(EACH), *threads);
        let mut launch = stream.launch_builder(kernel);
        launch.arg(&*bytes).arg(input.buffer_mut()?).arg(&*plane).arg(&*count).arg(&Channels::IMAGENET);
        // SAFETY: both buffers have `count` values, with which the kernel compares its index; a plane of a multiple of four pixels makes
        // `count` one, and buffers begin at multiples of 256 bytes.
        unsafe { launch.launch(config) }
    }
}
