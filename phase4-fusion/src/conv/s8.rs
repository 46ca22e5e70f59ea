//! Convolutions of 8-bit integers, separate from the ladder: they have steps of values, not only types. Compute capability 9.0
//! and up.
//!
//! Hypothesis: bytes are half of f16's, and tensor cores multiply twice as many of them per cycle; sums in i32 lose nothing. Change:
//! `conv_05_s8.cu`, products by `mma.sync` whose epilogue makes bytes of the sums again, so that a network stays in bytes.

use bytemuck::{Pod, Zeroable};
use common::kernel_source;
use common::prelude::*;
use common::reference::Conv2dParams;
use common::tensor::Element;
use half::f16;

use super::{LARGEST, Size};
use crate::tile::processors;

/// `kernels/conv_05_s8.cu`.
pub static SOURCE: KernelSource = kernel_source!("conv_05_s8");

const FORMAT: MemoryFormat = MemoryFormat::Nhwc;
/// Channels of a copy of 16 bytes.
pub const CHANNELS: usize = 16;
/// Blocks per SM from which the larger tile pays.
const BUSY: f64 = 0.7;

/// Epilogue of each sum: activation(scale · sum + shift + residual_scale · residual).
#[derive(Clone, Copy, Debug)]
pub struct Finish<'a> {
    /// \[K\] of f32, factor of each channel.
    pub scale: &'a Tensor,
    /// \[K\] of f32, added to each channel.
    pub shift: &'a Tensor,
    /// \[N, K, P, Q\] of i8 in NHWC, and its factor.
    pub residual: Option<(&'a Tensor, f32)>,
    /// Whether negative values become 0.
    pub relu: bool,
}

/// `Layer` of the kernel.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct Sizes {
    input: [i32; 3],
    output: [i32; 2],
    filter_x: i32,
    stride: i32,
    padding: i32,
    product: [i32; 3],
    relu: i32,
    residual_scale: f32,
}

/// A tile with its kernels.
#[derive(Clone, Debug)]
struct Tile {
    name: &'static str,
    sizes: [usize; 2],
    threads: u32,
    shared: u32,
    to_i8: Kernel,
    to_f16: Kernel,
}

/// The kernels on a device.
#[derive(Clone, Debug)]
pub struct ConvS8 {
    /// The larger first.
    tiles: Vec<Tile>,
    quantize: Kernel,
    processors: usize,
}

impl ConvS8 {
    /// Loads the kernels.
    ///
    /// # Errors
    /// Same as [`Device::kernel`]; [`Error::Unsupported`] before compute capability 9.0.
    pub fn load(device: &Device) -> Result<ConvS8> {
        ConvS8::load_from(device, &SOURCE)
    }

    /// The same from another text, such as a kernel with a mistake that a check must find.
    ///
    /// # Errors
    /// Same as [`ConvS8::load`].
    pub fn load_from(device: &Device, source: &KernelSource) -> Result<ConvS8> {
        let module = device.load(source)?;
        let tile = |(name, suffix): (&'static str, &str)| {
            let of_shape = |constant: &str| module.constant(&format!("{name}::{constant}"));
            let derived = |constant: &str| module.constant(&format!("Geometry<{name}>::{constant}"));
            Ok(Tile {
                name,
                sizes: [of_shape("BM")?, of_shape("BN")?],
                threads: derived("THREADS")? as u32,
                shared: derived("SHARED")? as u32,
                to_i8: module.kernel(&format!("conv_s8_{suffix}"))?,
                to_f16: module.kernel(&format!("conv_s8_f16_{suffix}"))?,
            })
        };
        let tiles = [("Large", "128x128"), ("Small", "64x64")].into_iter().map(tile).collect::<Result<_>>()?;
        Ok(ConvS8 { tiles, quantize: module.kernel("quantize_f16")?, processors: processors(device) })
    }

    /// The same with only one of its tiles; `None` if it does not have that tile.
    pub fn with_tile(&self, name: &str) -> Option<ConvS8> {
        let tile = self.tiles.iter().find(|tile| tile.name == name)?.clone();
        Some(ConvS8 { tiles: vec![tile], ..self.clone() })
    }

    /// The names of its tiles in the kernel file.
    pub fn tiles(&self) -> impl Iterator<Item = &'static str> {
        self.tiles.iter().map(|tile| tile.name)
    }

    fn choose(&self, layer: &Size) -> Option<&Tile> {
        let blocks = |tile: &Tile| grid(tile, layer).iter().product::<usize>() as f64 / self.processors as f64;
        // Half of the larger tile would be nobody's.
        let filled = |tile: &Tile| tile.sizes[1] <= layer.filter[0].next_multiple_of(64);
        self.tiles.iter().find(|tile| blocks(tile) >= BUSY && filled(tile)).or(self.tiles.last())
    }

    /// The tile for a layer, such as `128×128`, or why no kernel takes it.
    ///
    /// # Errors
    /// The reason, in words.
    pub fn explain(&self, layer: &Size, params: Conv2dParams) -> Result<String, String> {
        refusal(layer, params).map_or(Ok(()), Err)?;
        let tile = self.choose(layer).ok_or_else(|| "it has no tile".to_owned())?;
        Ok(format!("{}×{}", tile.sizes[0], tile.sizes[1]))
    }

    /// Queues the convolution of `x` \[N, C, H, W\] with `w` \[K, C, R, S\], both of i8, with this finish, into `y` \[N, K, P,
    /// Q\] of i8, rounded to the nearest even and clamped to −128 and 127, or of f16; all in NHWC on the stream's device.
    ///
    /// # Errors
    /// [`Error::Shape`] if the shapes do not match; [`Error::Unsupported`] with the reason, such as channels that are not a
    /// multiple of 16; [`Error::ElementType`], [`Error::MemoryFormat`], [`Error::Invalid`] if a tensor is on the host,
    /// [`Error::WrongDevice`].
    pub fn launch(
        &self,
        stream: &Stream,
        [x, w]: [&Tensor; 2],
        params: Conv2dParams,
        finish: &Finish<'_>,
        y: &mut Tensor,
    ) -> Result<()> {
        let layer = Size::new(x.dims4()?, w.dims4()?, params)?;
        let output = layer.output;
        y.expect_shape("conv's y", &output)?;
        finish.scale.expect_shape("conv's scale", &[output[1]])?;
        finish.shift.expect_shape("conv's shift", &[output[1]])?;
        finish.residual.map_or(Ok(()), |(residual, _)| residual.expect_shape("conv's residual", &output))?;
        if let Some(reason) = refusal(&layer, params) {
            let what = format!("convolution in i8 of {}", layer.name());
            return Err(Error::Unsupported { what, device: stream.device().short_name(), reason });
        }
        let tile = self.choose(&layer).filter(|_| layer.pixels() > 0 && output[1] > 0);
        let Some(tile) = tile else { return Ok(()) };
        match y.element_type() {
            ElementType::F16 => queue::<f16>(stream, [x, w], finish, &layer, (tile, &tile.to_f16), y),
            _ => queue::<i8>(stream, [x, w], finish, &layer, (tile, &tile.to_i8), y),
        }
    }

    /// Queues `x` of f16, in units of `step`, into `y` of i8 and its shape, rounded to the nearest even and clamped to −128 and
    /// 127; both in NHWC with a multiple of 16 channels.
    ///
    /// # Errors
    /// Same as [`ConvS8::launch`].
    pub fn quantize(&self, stream: &Stream, x: &Tensor, step: f32, y: &mut Tensor) -> Result<()> {
        const WHAT: &str = "quantisation";
        const THREADS: u32 = 256;
        y.expect_shape(WHAT, x.shape())?;
        let [_, channels, ..] = x.dims4()?;
        if !channels.is_multiple_of(CHANNELS) || x.len() > LARGEST {
            let what = format!("{WHAT} of {:?}", x.shape());
            let reason = format!("a thread has {CHANNELS} channels, and counts to {LARGEST}");
            return Err(Error::Unsupported { what, device: stream.device().short_name(), reason });
        }
        let vectors = (x.len() / CHANNELS) as u32;
        if vectors == 0 {
            return Ok(());
        }
        let times = 1.0 / step;
        let mut launch = stream.launch_builder(&self.quantize);
        launch
            .arg(x.buffer_of::<f16>(FORMAT)?)
            .arg(y.buffer_of_mut::<i8>(FORMAT)?)
            .arg(&times)
            .arg(&vectors)
            .dependent();
        // SAFETY: the kernel waits for earlier launches; its threads write 16 values of y each and read those of x, both of which have
        // as many vectors.
        unsafe { launch.launch(LaunchConfig::linear(vectors, THREADS)) }
    }
}

/// Blocks down and across.
fn grid(tile: &Tile, layer: &Size) -> [usize; 2] {
    [layer.pixels().div_ceil(tile.sizes[0]), layer.filter[0].div_ceil(tile.sizes[1])]
}

/// Why no kernel supports a layer, if so.
fn refusal(layer: &Size, params: Conv2dParams) -> Option<String> {
    let Size { input: [n, c, h, w], filter: [k, _, r, s], stride, padding, .. } = *layer;
    if params.groups != 1 || params.dilation != [1, 1] {
        return Some("the kernels have one group and no dilation".to_owned());
    }
    if params.stride != [stride; 2] || params.padding != [padding; 2] {
        return Some("the kernels have one stride and one padding for x and y".to_owned());
    }
    if !c.is_multiple_of(CHANNELS) || !k.is_multiple_of(CHANNELS) {
        return Some(format!("a copy of 16 bytes is of one pixel, so C and K must be multiples of {CHANNELS}"));
    }
    if c * r * s == 0 {
        return Some("it has no product".to_owned());
    }
    let all = [n.checked_mul(c * h * w), layer.pixels().checked_mul(k), k.checked_mul(layer.depth())];
    let largest = all.into_iter().map(|size| size.unwrap_or(usize::MAX)).max();
    (largest > Some(LARGEST) || stride.max(padding).max(r).max(s) > 128)
        .then(|| format!("the kernels count to {LARGEST}, and to 128 in a window"))
}

fn queue<T: Element>(
    stream: &Stream,
    [x, w]: [&Tensor; 2],
    finish: &Finish<'_>,
    layer: &Size,
    (tile, kernel): (&Tile, &Kernel),
    y: &mut Tensor,
) -> Result<()> {
    let Size { input: [_, c, h, wide], filter: [k, _, _, s], output: [_, _, p, q], stride, padding } = *layer;
    let int = |size: usize| size as i32; // up to LARGEST
    let sizes = Sizes {
        input: [int(h), int(wide), int(c)],
        output: [int(p), int(q)],
        filter_x: int(s),
        stride: int(stride),
        padding: int(padding),
        product: [int(layer.pixels()), int(k), int(layer.depth())],
        relu: i32::from(finish.relu),
        residual_scale: finish.residual.map_or(0.0, |(_, scale)| scale),
    };
    let residual = finish.residual.map(|(residual, _)| residual.buffer_of::<i8>(FORMAT)).transpose()?;
    let [down, across] = grid(tile, layer);
    let config = LaunchConfig {
        grid_dim: (down as u32, across as u32, 1),
        block_dim: (tile.threads, 1, 1),
        shared_mem_bytes: tile.shared,
    };
    let mut launch = stream.launch_builder(kernel);
    launch.arg(x.buffer_of::<i8>(FORMAT)?).arg(w.buffer_of::<i8>(FORMAT)?).arg(y.buffer_of_mut::<T>(FORMAT)?);
    launch.arg(finish.scale.buffer()?).arg(finish.shift.buffer()?).arg(residual);
    launch.arg_bytes(bytemuck::bytes_of(&sizes)).dependent();
    // SAFETY: the kernel waits for earlier launches before it touches memory; it writes y [N, P, Q, K] and reads x, w, scale and shift
    // [K] and the residual [N, P, Q, K] alone, whose shapes and types were compared, for a layer that it takes.
    unsafe { launch.launch(config) }
}
