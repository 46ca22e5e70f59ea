//! Conversion from one type to another, channels last: between two layers that compute with different formats. Compute capability
//! 9.0 and up, as [`nhwc`](crate::nhwc).

use bytemuck::{Pod, Zeroable};
use common::limits::fits_i32;
use common::prelude::*;
use common::tensor::{Element, F8E4M3};
use half::f16;

use crate::gemm::matrix;

/// The kernel file.
pub static SOURCE: KernelSource = kernel_source!("nhwc_07_recast");

const WHAT: &str = "a change of type";
/// Channels per thread.
const CHANNELS: usize = 8;
const THREADS: u32 = 256;

/// `Pixels` of the kernel.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct Pixels {
    threads: u32,
    from: u32,
    groups: u32,
    times: f32,
}

/// The kernels on a device.
#[derive(Clone, Debug)]
pub struct Recast(Vec<((ElementType, ElementType), Kernel)>);

impl Recast {
    /// The pairs of types that it has kernels for, from and to.
    pub const PAIRS: [(ElementType, ElementType); 6] = [
        (ElementType::F16, ElementType::F32),
        (ElementType::F32, ElementType::F16),
        (ElementType::F16, ElementType::I8),
        (ElementType::F32, ElementType::I8),
        (ElementType::F16, ElementType::F8E4M3),
        (ElementType::F32, ElementType::F8E4M3),
    ];

    /// Loads the kernels.
    ///
    /// # Errors
    /// Same as [`Device::kernel`].
    pub fn load(device: &Device) -> Result<Recast> {
        Recast::load_from(device, &SOURCE)
    }

    /// The same from another text, such as a kernel with a mistake that a check must find.
    ///
    /// # Errors
    /// Same as [`Device::kernel`].
    pub fn load_from(device: &Device, source: &KernelSource) -> Result<Recast> {
        let module = device.load(source)?;
        let kernel = |pair: (ElementType, ElementType)| {
            let name = format!("recast_{}_{}", suffix(pair.0), suffix(pair.1));
            Ok((pair, module.kernel(&name)?))
        };
        Ok(Recast(Recast::PAIRS.into_iter().map(kernel).collect::<Result<_>>()?))
    }

    /// Queues y = x · `times`, rounded to y's type and clamped to its largest value where it has no infinity. Both are images
    /// channels last, or rows, with as many pixels or rows; the numbers of channels are multiples of 8, and additional channels
    /// of y become 0.
    ///
    /// # Errors
    /// [`Error::Shape`] if the shapes do not fit; [`Error::Unsupported`] for another pair of types; [`Error::Invalid`] if a tensor is on
    /// the host, [`Error::WrongDevice`].
    pub fn launch(&self, stream: &Stream, x: &Tensor, times: f32, y: &mut Tensor) -> Result<()> {
        let ([rows, from], [rows_of_y, to]) = (matrix(WHAT, x)?, matrix(WHAT, y)?);
        if rows != rows_of_y || [from, to].iter().any(|channels| !channels.is_multiple_of(CHANNELS)) {
            let detail = format!(
                "{rows} × {from} values into {rows_of_y} × {to}, whose channels are no multiples of {CHANNELS}"
            );
            return Err(Error::shape(WHAT, detail));
        }
        let groups = to / CHANNELS;
        fits_i32(WHAT, "the number of values", rows.checked_mul(from.max(to)))?;
        let pixels = Pixels { threads: (rows * groups) as u32, from: from as u32, groups: groups as u32, times };
        if pixels.threads == 0 {
            return Ok(());
        }
        let pair = (x.element_type(), y.element_type());
        let kernel = self.0.iter().find(|(of, _)| *of == pair).map(|(_, kernel)| kernel);
        let kernel = kernel.ok_or_else(|| Error::Unsupported {
            what: format!("{WHAT} from {} to {}", pair.0, pair.1),
            device: stream.device().short_name(),
            reason: "there is no kernel for it".to_owned(),
        })?;
        match pair {
            (ElementType::F16, ElementType::F32) => queue::<f16, f32>(stream, kernel, x, pixels, y),
            (ElementType::F32, ElementType::F16) => queue::<f32, f16>(stream, kernel, x, pixels, y),
            (ElementType::F16, ElementType::I8) => queue::<f16, i8>(stream, kernel, x, pixels, y),
            (ElementType::F32, ElementType::I8) => queue::<f32, i8>(stream, kernel, x, pixels, y),
            (ElementType::F16, _) => queue::<f16, F8E4M3>(stream, kernel, x, pixels, y),
            _ => queue::<f32, F8E4M3>(stream, kernel, x, pixels, y),
        }
    }
}

fn suffix(element: ElementType) -> &'static str {
    match element {
        ElementType::F16 => "f16",
        ElementType::I8 => "s8",
        ElementType::F8E4M3 => "e4m3",
        _ => "f32",
    }
}

fn queue<X: Element, Y: Element>(
    stream: &Stream,
    kernel: &Kernel,
    x: &Tensor,
    pixels: Pixels,
    y: &mut Tensor,
) -> Result<()> {
    let format = y.format();
    let mut launch = stream.launch_builder(kernel);
    launch.arg(x.buffer_of::<X>(x.format())?).arg(y.buffer_of_mut::<Y>(format)?);
    launch.arg_bytes(bytemuck::bytes_of(&pixels)).dependent();
    // SAFETY: the kernel waits for earlier launches; its threads write 8 values of y each, and read those of x that belong there, if x
    // has as many channels.
    unsafe { launch.launch(LaunchConfig::linear(pixels.threads, THREADS)) }
}
