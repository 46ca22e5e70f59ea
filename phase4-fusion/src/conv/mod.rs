//! Convolutions on tensor cores, channels last: y = activation(scale · (alpha · x ∗ w) + shift + residual).
//!
//! They are the products of [`gemm`](crate::gemm) with another source of tiles: TMA gathers the windows. Compute capability 9.0
//! and up.
//!
//! | step | kernel | the idea |
//! | --- | --- | --- |
//! | `step01_gather` | `conv_01_gather.cu` | TMA gathers a tap's pixels; the rest is the main loop of the products |
//! | `step02_tuned` | `conv_02_tuned.cu` | the tile that fits the layer |
//! | `step03_slices` | `conv_03_slices.cu` | few tiles: the blocks of a cluster share one, each for a part of K |
//! | `step04_few_channels` | `conv_04_few_channels.cu` | K is rows of windows; threads pick A's fragments out of the image's rows |
//!
//! The first three take whole steps of channels, the last one takes few. [`Tuned`] chooses among their tiles by layer. Bytes have
//! their own kernel, [`s8`].

use bench::ladder;
use common::device::{Swizzle, TensorMapConfig, TensorWindow};
use common::prelude::*;
use common::reference::Conv2dParams;
use common::tensor::Element;

mod few_channels;
mod tiles;

use crate::gemm::{Epilogue, LARGEST, OUT_ROWS, Precision, ROW_BYTES, Scales, boxes, in_maps};
use crate::tile::{ChosenTile, LoadedTile, TileShape, Tiles, Work};
use few_channels::FewChannels;

pub mod problem;
pub mod s8;
mod step01_gather;
mod step02_tuned;
mod step03_slices;
mod step04_few_channels;

/// All steps, in the order in which they are read.
pub static LADDER: &[Step] = &[step01_gather::STEP, step02_tuned::STEP, step03_slices::STEP, step04_few_channels::STEP];

/// The types that the kernels convolve.
pub const PRECISIONS: [Precision; 2] = [Precision::F16, Precision::Tf32];

/// A step of the ladder.
pub type Step = ladder::Step<Method>;

/// Operands of a step's kernels.
#[derive(Clone, Copy, Debug)]
pub enum Method {
    /// Whole steps of channels of a tap: the tiles that the step chooses from.
    Tiles(&'static [TileShape]),
    /// Few channels.
    FewChannels,
}

impl Method {
    /// The tiles that the step chooses from.
    pub fn shapes(&self) -> &'static [TileShape] {
        match self {
            Method::Tiles(shapes) => shapes,
            Method::FewChannels => &[],
        }
    }
}

impl ladder::Method for Method {
    type Loaded = Conv;

    /// Loads the kernels.
    ///
    /// # Errors
    /// Same as [`Device::kernel`]; [`Error::Unsupported`] before compute capability 9.0; [`Error::NoSuchConstant`] if the
    /// kernel file does not name its tiles' sizes.
    fn load(step: &Step, device: &Device) -> Result<Conv> {
        let module = device.load(&step.source)?;
        let name = |precision: Precision| format!("conv_{precision}");
        let tiles = Tiles::load(device, &module, step.method.shapes(), "F16", &PRECISIONS, name)?;
        let few_channels = match step.method {
            Method::Tiles(_) => None,
            Method::FewChannels => Some(FewChannels::load(&module)?),
        };
        Ok(Conv { name: step.name, tiles, few_channels })
    }
}

/// A step, or the choice among all, loaded on a device.
#[derive(Clone, Debug)]
pub struct Conv {
    name: &'static str,
    tiles: Tiles<Precision>,
    few_channels: Option<FewChannels>,
}

/// The choice among the tiles of all steps.
#[derive(Clone, Debug)]
pub struct Tuned(Conv);

impl Tuned {
    /// The kernel files of the steps that it chooses from, for [`Device::load_ahead`].
    pub fn sources() -> impl Iterator<Item = &'static KernelSource> {
        static STEPS: &[Step] = &[step02_tuned::STEP, step03_slices::STEP, step04_few_channels::STEP];
        STEPS.iter().map(|step| &step.source)
    }

    /// Loads the steps that it chooses from.
    ///
    /// # Errors
    /// Same as [`Step::load`].
    pub fn load(device: &Device) -> Result<Tuned> {
        device.load_ahead(Tuned::sources());
        let (whole, cut) = (step02_tuned::STEP.load(device)?, step03_slices::STEP.load(device)?);
        let tiles = whole.tiles.join(&cut.tiles);
        let few_channels = step04_few_channels::STEP.load(device)?.few_channels;
        Ok(Tuned(Conv { name: "tuned", tiles, few_channels }))
    }

    /// The tile chosen for a layer on a GPU with this many SMs.
    pub fn choice(&self, layer: &Size, precision: Precision, processors: usize) -> Option<ChosenTile> {
        self.0.tiles.choose_for(&layer.work(precision), precision, processors).map(LoadedTile::chosen)
    }

    /// Choice of [`Tuned::launch`] for a layer on its device, or why no kernel supports it.
    ///
    /// # Errors
    /// The reason, in words.
    pub fn explain(&self, layer: &Size, params: Conv2dParams, precision: Precision) -> Result<Choice, String> {
        self.0.plan(layer, params, precision).map(|plan| plan.choice(layer))
    }

    /// [`Conv::launch`] with the tile that fits.
    ///
    /// # Errors
    /// Same as [`Conv::launch`].
    pub fn launch(
        &self,
        stream: &Stream,
        x: &Tensor,
        w: &Tensor,
        params: Conv2dParams,
        epilogue: &Epilogue<'_>,
        y: &mut Tensor,
    ) -> Result<()> {
        self.0.launch(stream, x, w, params, epilogue, y)
    }
}

/// The sizes of a convolution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// \[N, C, H, W\].
    pub input: [usize; 4],
    /// \[K, C, R, S\].
    pub filter: [usize; 4],
    /// \[N, K, P, Q\].
    pub output: [usize; 4],
    /// Stride and padding, in both dimensions.
    pub stride: usize,
    /// Same as above.
    pub padding: usize,
}

impl Size {
    /// The convolution of an image \[N, C, H, W\] with a filter \[K, C, R, S\].
    ///
    /// # Errors
    /// [`Error::Shape`] if they do not fit.
    pub fn new(input: [usize; 4], filter: [usize; 4], params: Conv2dParams) -> Result<Size> {
        let output = params.output_shape(&Tensor::shape_only(&input), &Tensor::shape_only(&filter))?;
        Ok(Size { input, filter, output, stride: params.stride[0], padding: params.padding[0] })
    }

    /// Pixels of the output: rows of the product.
    fn pixels(&self) -> usize {
        let [n, _, p, q] = self.output;
        n * p * q
    }

    /// Number of input values per pixel of the output: R · S · C.
    fn depth(&self) -> usize {
        let [_, c, r, s] = self.filter;
        c * r * s
    }

    fn name(&self) -> String {
        let Size { input: [n, c, h, w], filter: [k, _, r, s], stride, padding, .. } = self;
        format!("{c}→{k}, {r}×{s} with stride {stride} and padding {padding}, over {n} images of {h}×{w}")
    }
}

impl Conv {
    /// The same with only one of its tiles, whatever the layer; `None` if it does not have that tile.
    pub fn with_tile(&self, name: &str) -> Option<Conv> {
        Some(Conv { tiles: self.tiles.only(name)?, few_channels: None, ..*self })
    }

    /// The same with its tiles shared out among this number of SMs.
    #[must_use]
    pub fn for_processors(mut self, processors: usize) -> Conv {
        self.tiles.processors = processors;
        self
    }

    /// The names of its tiles in the kernel file.
    pub fn tiles(&self) -> impl Iterator<Item = &'static str> {
        self.tiles.names()
    }

    /// Queues y = activation(scale · (alpha · x ∗ w) + shift + residual) with `x` \[N, C, H, W\], `w` \[K, C, R, S\] and `y` \[N, K,
    /// P, Q\], all in NHWC and of one type, f16 or f32 (multiplied as tf32), on the stream's device. The epilogue's scale and
    /// shift are \[K\] of f32, its residual and later image are \[N, K, P, Q\] of y's type in NHWC.
    ///
    /// # Errors
    /// [`Error::Shape`] if the shapes do not match; [`Error::Unsupported`] with the reason if the kernels do not support this
    /// type, this number of channels, groups, dilation, or different strides or paddings in x and y; [`Error::ElementType`],
    /// [`Error::MemoryFormat`], [`Error::Invalid`] if a tensor is on the host, [`Error::WrongDevice`].
    pub fn launch(
        &self,
        stream: &Stream,
        x: &Tensor,
        w: &Tensor,
        params: Conv2dParams,
        epilogue: &Epilogue<'_>,
        y: &mut Tensor,
    ) -> Result<()> {
        let layer = Size::new(x.dims4()?, w.dims4()?, params)?;
        let output @ [_, out_channels, ..] = layer.output;
        y.expect_shape("conv's y", &output)?;
        for (what, tensor) in [("conv's scale", epilogue.scale), ("conv's shift", epilogue.shift)] {
            tensor.map_or(Ok(()), |tensor| tensor.expect_shape(what, &[out_channels]))?;
        }
        for (what, tensor) in [("conv's residual", epilogue.residual), ("conv's later image", epilogue.later.image)] {
            tensor.map_or(Ok(()), |tensor| tensor.expect_shape(what, &output))?;
        }
        let refuse = |reason: String| Error::Unsupported {
            what: format!("convolution `{}` of {}", self.name, layer.name()),
            device: stream.device().short_name(),
            reason,
        };
        if epilogue.blocks.is_some() {
            return Err(refuse(Scales::FOR_PRODUCTS.to_owned()));
        }
        let precision = PRECISIONS.into_iter().find(|precision| precision.input() == x.element_type());
        let precision = precision.ok_or_else(|| refuse(format!("it has no kernel for {}", x.element_type())))?;
        let plan = self.plan(&layer, params, precision).map_err(refuse)?;
        if epilogue.adds_later() && matches!(plan, Plan::FewChannels(_)) {
            return Err(refuse("with few channels nothing is added after the activation".to_owned()));
        }
        if layer.pixels() == 0 || out_channels == 0 {
            return Ok(());
        }
        let operands = Operands { stream, x, w, epilogue, layer };
        match precision {
            Precision::Tf32 => self.queue::<f32>(&operands, &plan, precision, y),
            _ => self.queue::<half::f16>(&operands, &plan, precision, y),
        }
    }

    /// The kernel for a layer, or why there is none.
    fn plan(&self, layer: &Size, params: Conv2dParams, precision: Precision) -> Result<Plan<'_>, String> {
        refusal(layer, params, precision).map_or(Ok(()), Err)?;
        let whole_steps = refusal_of_tiles(layer, precision);
        if let (Some(few_channels), true) = (&self.few_channels, self.tiles.is_empty() || whole_steps.is_some()) {
            return few_channels.refusal(layer, precision).map_or(Ok(Plan::FewChannels(few_channels)), Err);
        }
        whole_steps.map_or(Ok(()), Err)?;
        let work = layer.work(precision);
        let tile = self
            .tiles
            .choose(&work, precision)
            .ok_or_else(|| "it has fewer steps along K than a cluster has blocks".to_owned())?;
        let blocks = self.tiles.grid(tile, &work);
        Ok(Plan::Tile { work, tile, blocks: blocks.ok_or_else(|| "it has too many tiles to count".to_owned())? })
    }

    fn queue<T: Element>(
        &self,
        operands: &Operands<'_>,
        plan: &Plan<'_>,
        precision: Precision,
        y: &mut Tensor,
    ) -> Result<()> {
        match plan {
            Plan::Tile { work, tile, blocks } => operands.launch::<T>(work, tile, *blocks, precision, y),
            Plan::FewChannels(kernels) => kernels.launch::<T>(operands, precision, self.tiles.processors, y),
        }
    }
}

/// Kernel that computes a layer.
enum Plan<'t> {
    Tile { work: Work, tile: &'t LoadedTile<Precision>, blocks: usize },
    FewChannels(&'t FewChannels),
}

/// The name of the kernel for few channels, which adds nothing after an activation.
const FEW_CHANNELS: &str = "few channels";

/// A layer's kernel, in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    /// `64×128` or, with slices, `64×64/8`.
    pub kernel: String,
    /// Property of the layer that led to it.
    pub why: String,
}

impl Choice {
    /// Whether its epilogue adds something after the activation.
    pub fn adds_after_activation(&self) -> bool {
        self.kernel != FEW_CHANNELS
    }
}

impl Plan<'_> {
    fn choice(&self, layer: &Size) -> Choice {
        match self {
            Plan::Tile { work, tile, .. } => Choice {
                kernel: tile.geometry.name(),
                why: format!("{}×{} sums, {} steps", work.rows, work.columns, work.steps),
            },
            Plan::FewChannels(_) => {
                Choice { kernel: FEW_CHANNELS.to_owned(), why: format!("{} channels: whole rows", layer.filter[1]) }
            }
        }
    }
}

/// Why no kernel supports a layer, if so.
fn refusal(layer: &Size, params: Conv2dParams, precision: Precision) -> Option<String> {
    let Size { input: [.., h, w], filter: [k, _, r, s], stride, padding, .. } = *layer;
    let rows_of_output = 16 / precision.output().size();
    if params.groups != 1 || params.dilation != [1, 1] {
        return Some("the kernels have one group and no dilation".to_owned());
    }
    if params.stride != [stride; 2] || params.padding != [padding; 2] {
        return Some("the kernels have one stride and one padding for x and y".to_owned());
    }
    if !k.is_multiple_of(rows_of_output) {
        return Some(format!("a pixel of y must begin at 16 bytes, so K must be a multiple of {rows_of_output}"));
    }
    // What a tensor map can say of a window.
    if stride > 8 || padding > 128 || r.max(s) > 128 {
        return Some("a tensor map has strides to 8, and windows and paddings to 128".to_owned());
    }
    let sizes = [layer.pixels(), layer.depth(), k, h, w];
    (sizes.into_iter().max() > Some(LARGEST)).then(|| format!("the kernels count to {LARGEST}"))
}

/// Why the steps that take whole steps of channels do not support a layer, if they do not.
fn refusal_of_tiles(layer: &Size, precision: Precision) -> Option<String> {
    let [_, c, r, s] = layer.filter;
    let columns = ROW_BYTES / precision.input().size();
    (!c.is_multiple_of(columns) || c * r * s == 0)
        .then(|| format!("a step takes {columns} channels of a tap, so C must be a multiple of {columns}"))
}

/// Inputs of a launch.
struct Operands<'a> {
    stream: &'a Stream,
    x: &'a Tensor,
    w: &'a Tensor,
    epilogue: &'a Epilogue<'a>,
    layer: Size,
}

impl Operands<'_> {
    fn launch<T: Element>(
        &self,
        work: &Work,
        tile: &LoadedTile<Precision>,
        blocks: usize,
        precision: Precision,
        y: &mut Tensor,
    ) -> Result<()> {
        const FORMAT: MemoryFormat = MemoryFormat::Nhwc;
        let Operands { stream, epilogue, layer, .. } = *self;
        let Size { output: [_, _, p, q], filter: [_, c, _, s], stride, padding, .. } = layer;
        let (x, w, y) = (self.x.buffer_of::<T>(FORMAT)?, self.w.buffer_of::<T>(FORMAT)?, y.buffer_of_mut::<T>(FORMAT)?);
        let scale = epilogue.scale.map(Tensor::buffer).transpose()?;
        let shift = epilogue.shift.map(Tensor::buffer).transpose()?;
        let residual = epilogue.residual.map(|tensor| tensor.buffer_of::<T>(FORMAT)).transpose()?;
        let along_k = ROW_BYTES / T::TYPE.size();
        let [rows, columns] = tile.geometry.tile;
        let pixels = stream.tensor_map(x, &windows(&layer, T::TYPE, along_k, rows))?;
        let filters = stream.tensor_map(w, &boxes(T::TYPE, [work.columns, layer.depth()], [columns, along_k]))?;
        let [m, n, k] = [work.rows, work.columns, layer.depth()].map(|size| size as i32); // up to LARGEST
        let window = [p, q, stride, padding, s, c / along_k].map(|size| size as i32);
        let geometry = &tile.geometry;
        let config = LaunchConfig {
            grid_dim: (blocks as u32, 1, 1),
            block_dim: (geometry.threads, 1, 1),
            shared_mem_bytes: geometry.shared_bytes,
        };
        let activation = epilogue.activation_number();
        let mut launch = stream.launch_builder(tile.kernel(precision)?);
        launch.arg(&pixels).arg(&filters);
        let mut boxes_of_y;
        if geometry.slices > 1 {
            launch.arg(y);
        } else {
            let of_y = [OUT_ROWS, geometry.out_row / T::TYPE.size()];
            boxes_of_y = stream.tensor_map_mut(y, &boxes(T::TYPE, [work.rows, work.columns], of_y))?;
            launch.arg(&mut boxes_of_y);
        }
        launch.arg(scale).arg(shift).arg(residual).arg(&m).arg(&n).arg(&k).arg(&epilogue.alpha).arg(&activation);
        launch.arg_bytes(bytemuck::cast_slice(&window));
        let Size { output: [images, channels, ..], .. } = layer;
        let place = epilogue.later.channels.map_or(Ok([0; 2]), |columns| columns.place("conv", [images, channels]))?;
        let columns = epilogue.later.channels.map_or(0, |columns| columns.count.min(channels));
        let (columns, pixels, [first, pitch]) = (columns as i32, (p * q) as i32, place.map(u32::cast_signed));
        let image = epilogue.later.image.map(|tensor| tensor.buffer_of::<T>(FORMAT)).transpose()?;
        let e = epilogue.later.channels.map(|columns| columns.values.buffer()).transpose()?;
        launch.arg(image).arg(e).arg(&pixels).arg(&columns).arg(&first).arg(&pitch).dependent();
        // SAFETY: the kernel waits for earlier launches before it touches memory; it writes y [N, P, Q, K] and reads x, w, scale and
        // shift [K], the residual and the later image [N, P, Q, K] and columns of e [N, pitch] alone, whose shapes and types were
        // compared, for a layer that it takes; there is one cluster for each tile, or the grid shares them out.
        unsafe { launch.launch(config) }
    }
}

/// The windows of `layer`: `channels` of each of `pixels`, a tap at a time.
pub(crate) fn windows(layer: &Size, element: ElementType, channels: usize, pixels: usize) -> TensorMapConfig {
    let Size { input: [n, c, h, w], filter: [_, _, r, s], stride, padding, .. } = *layer;
    let bytes = element.size() as u64;
    let [n, c, h, w] = [n, c, h, w].map(|size| size as u64);
    let padding = padding as i32;
    TensorMapConfig {
        strides: vec![c * bytes, w * c * bytes, h * w * c * bytes],
        window: TensorWindow::Im2col {
            lower: vec![-padding, -padding],
            upper: vec![padding - (s as i32 - 1), padding - (r as i32 - 1)],
            channels: channels as u32,
            pixels: pixels as u32,
        },
        element_strides: vec![1, stride as u32, stride as u32, 1],
        swizzle: Swizzle::Bytes128,
        ..TensorMapConfig::tiled(in_maps(element), &[c, w, h, n], &[channels as u32, 1, 1, 1])
    }
}
