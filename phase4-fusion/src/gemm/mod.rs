//! The GEMM ladder on tensor cores: C = activation(scale · (alpha · A·B) + shift + residual), from one warp per fragment to a
//! persistent grid of clusters.
//!
//! Each step is a kernel file and, here, its purpose. [`Gemm::launch`] launches all of them; tile sizes are read from the
//! compiled kernel, so that only the `.cu` states them.
//!
//! | step | kernel | the idea |
//! | --- | --- | --- |
//! | `step01_wmma` | `gemm_01_wmma.cu` | a warp multiplies 16 × 16 × 16, straight from global memory |
//! | `step02_shared_tiles` | `gemm_02_shared_tiles.cu` | tiles in shared memory; zeros beyond the edges |
//! | `step03_ldmatrix` | `gemm_03_ldmatrix.cu` | fragments by hand: ldmatrix and mma.sync |
//! | `step04_stages` | `gemm_04_stages.cu` | tiles of four steps, by cp.async |
//! | `step05_swizzle` | `gemm_05_swizzle.cu` | pieces of 16 bytes change places, in place of padding |
//! | `step06_fragments_ahead` | `gemm_06_fragments_ahead.cu` | the next fragments are loaded while these are multiplied |
//! | `step07_wgmma` | `gemm_07_wgmma.cu` | products of a warpgroup, from tiles in shared memory |
//! | `step08_tma` | `gemm_08_tma.cu` | boxes that the copy engine fetches |
//! | `step09_roles` | `gemm_09_roles.cu` | a warp copies, two warpgroups multiply |
//! | `step10_persistent` | `gemm_10_persistent.cu` | a grid that stays, and stores C under the next products |
//! | `step11_clusters` | `gemm_11_clusters.cu` | two blocks share B's tile by multicast |
//! | `step12_tuned` | `gemm_12_tuned.cu` | the tile that fits the size; tf32, 8-bit floats and integers |
//! | `step13_slices` | `gemm_13_slices.cu` | few tiles: the blocks of a cluster share one, each for a part of K |
//! | `step14_tensor_memory` | `gemm_14_tensor_memory.cu` | Blackwell, on the simulator: one thread multiplies, sums in tensor memory |
//! | `step15_pairs` | `gemm_15_pairs.cu` | the same: two blocks multiply as one, and take the place of others |
//!
//! [`Tuned`] chooses among them by type and size of the product.

use bench::ladder;
use common::device::{Swizzle, TensorMapConfig};
use common::prelude::*;
use common::tensor::Element;
pub use phase2_conv_bn::gemm::Layout;

mod epilogue;
mod precision;
mod scaled;
mod tiles;

pub(crate) use epilogue::activation_number;
pub use epilogue::{Activation, Columns, Epilogue, Later};
pub use precision::Precision;
pub use scaled::{BLOCK, Scaled, Scales};

use crate::tile::{self, ChosenTile, Geometry, Kernels, LoadedTile, TileShape, Work};
pub(crate) use precision::in_maps;
use tiles::Kind;

mod step01_wmma;
mod step02_shared_tiles;
mod step03_ldmatrix;
mod step04_stages;
mod step05_swizzle;
pub(crate) mod step06_fragments_ahead;
mod step07_wgmma;
mod step08_tma;
mod step09_roles;
mod step10_persistent;
mod step11_clusters;
mod step12_tuned;
mod step13_slices;
mod step14_tensor_memory;
mod step15_pairs;

/// All steps, in the order in which they are read.
pub static LADDER: &[Step] = &[
    step01_wmma::STEP,
    step02_shared_tiles::STEP,
    step03_ldmatrix::STEP,
    step04_stages::STEP,
    step05_swizzle::STEP,
    step06_fragments_ahead::STEP,
    step07_wgmma::STEP,
    step08_tma::STEP,
    step09_roles::STEP,
    step10_persistent::STEP,
    step11_clusters::STEP,
    step12_tuned::STEP,
    step13_slices::STEP,
];

/// The last steps for types of other than 16 bits.
pub static OTHERS: &[Step] =
    &[step12_tuned::TF32, step12_tuned::E4M3, step12_tuned::SCALED_E4M3, step12_tuned::S8, step13_slices::TF32];

/// Steps for Blackwell, which no record has: they run on the simulator, by the manual.
pub static BLACKWELL: &[Step] = &[step14_tensor_memory::STEP, step15_pairs::STEP];

/// Maximum of M, N and K: the kernels' sums of an index and a tile's size then fit 31 bits.
pub const LARGEST: usize = 1 << 30;

/// A step of the ladder.
pub type Step = ladder::Step<Tiling>;

/// How a step's kernels share out C, and their requirements on a product.
#[derive(Clone, Copy, Debug)]
pub enum Tiling {
    /// Whole fragments: M, N and K are multiples of 16.
    Fragments,
    /// Every product.
    Any,
    /// Rows of A and B that begin at multiples of 16 bytes.
    Rows,
    /// The same, with A and B as tensor maps.
    Maps,
    /// The same with C as a tensor map too, and a persistent grid.
    Persistent,
    /// The same by the main loop of `gemm_hopper.cuh`: the shapes of tile that it chooses from by the size of the product, and
    /// the types of its kernels. Or slices share a tile, and each writes its part of C, which is no tensor map.
    Shapes(&'static [TileShape], &'static [Precision]),
}

impl Tiling {
    /// The types that the step multiplies.
    pub fn precisions(self) -> &'static [Precision] {
        match self {
            Tiling::Shapes(_, precisions) => precisions,
            Tiling::Fragments | Tiling::Any | Tiling::Rows | Tiling::Maps | Tiling::Persistent => Precision::HALVES,
        }
    }
}

impl ladder::Method for Tiling {
    type Loaded = Gemm;

    /// Loads the kernels.
    ///
    /// # Errors
    /// Same as [`Device::kernel`]; [`Error::Unsupported`] if the step needs another GPU; [`Error::Geometry`] if the tile of the
    /// kernel file differs from the step's, [`Error::NoSuchConstant`] if it does not name its tile's sizes.
    fn load(step: &Step, device: &Device) -> Result<Gemm> {
        let module = device.load(&step.source)?;
        let precisions = step.method.precisions();
        let kinds = tiles::kinds(precisions);
        let one = |along_k| -> Result<Tiles> {
            let kernels = Kernels::load(&module, kinds.iter().copied(), tiles::name)?;
            Ok(Tiles::One(Geometry::of_file(&module)?, kernels, along_k))
        };
        let tiles = match step.method {
            Tiling::Shapes(shapes, _) => {
                let class = precisions[0].class();
                Tiles::Chosen(tile::Tiles::load(device, &module, shapes, class, &kinds, tiles::name)?)
            }
            Tiling::Persistent => Tiles::Chosen(tile::Tiles::of_file(device, &module, &kinds, tiles::name)?),
            Tiling::Maps => one(Some(module.constant("BK")?))?,
            Tiling::Fragments | Tiling::Any | Tiling::Rows => one(None)?,
        };
        Ok(Gemm { name: step.name, method: step.method, tiles })
    }
}

#[derive(Clone, Debug)]
enum Tiles {
    /// One block per tile; with the step along K of tensor maps, if the kernels use them.
    One(Geometry, Kernels<Kind>, Option<usize>),
    /// The one of several tiles that fits.
    Chosen(tile::Tiles<Kind>),
}

/// A step, loaded on a device.
#[derive(Clone, Debug)]
pub struct Gemm {
    name: &'static str,
    method: Tiling,
    tiles: Tiles,
}

/// The best step for each type and size of product.
///
/// Types of 16 bits can be multiplied in every size: where the last step does not support a product, or the GPU is not a Hopper,
/// step 6 handles it, and step 2 the rest.
#[derive(Clone, Debug)]
pub struct Tuned {
    /// Present where the GPU supports them.
    tiles: Vec<Gemm>,
    rows: Gemm,
    any: Gemm,
}

/// The steps of Hopper GPUs, by type.
static HOPPER: [&[Step]; 5] = [
    &[step12_tuned::STEP, step13_slices::STEP],
    &[step12_tuned::TF32, step13_slices::TF32],
    &[step12_tuned::E4M3],
    &[step12_tuned::SCALED_E4M3],
    &[step12_tuned::S8],
];

impl Tuned {
    /// The kernel files of the steps that it chooses from, for [`Device::load_ahead`].
    pub fn sources() -> impl Iterator<Item = &'static KernelSource> {
        static WITHOUT: &[Step] = &[step02_shared_tiles::STEP, step06_fragments_ahead::STEP];
        WITHOUT.iter().chain(HOPPER.into_iter().flatten()).map(|step| &step.source)
    }

    /// Loads the steps that it chooses from.
    ///
    /// # Errors
    /// Same as [`Step::load`]; [`Error::Unsupported`] on GPUs before compute capability 8.0.
    pub fn load(device: &Device) -> Result<Tuned> {
        device.load_ahead(Tuned::sources());
        let mut tiles = Vec::new();
        for steps in HOPPER {
            match Gemm::choice(steps, device) {
                Ok(gemm) => tiles.push(gemm),
                Err(error) if error.is_unsupported() => {}
                Err(error) => return Err(error),
            }
        }
        let (rows, any) = (step06_fragments_ahead::STEP.load(device)?, step02_shared_tiles::STEP.load(device)?);
        Ok(Tuned { tiles, rows, any })
    }

    /// The tile that [`Tuned::launch`] chooses for C \[M, N\] of A \[M, K\] and B in this layout, or why no step for Hopper
    /// supports it.
    ///
    /// # Errors
    /// The reason, in words.
    pub fn explain(&self, [m, n, k]: [usize; 3], precision: Precision, layout: Layout) -> Result<String, String> {
        let (size, epilogue) = (Size { m, n, k }, Epilogue::default());
        let gemm = self.tiles.iter().find(|gemm| gemm.precisions().contains(&precision));
        let gemm = gemm.ok_or_else(|| format!("this GPU has no kernels for {precision}"))?;
        gemm.refusal(size, precision, layout, &epilogue).map_or(Ok(()), Err)?;
        let plan = gemm.plan(size, precision, layout);
        plan.map(|plan| plan.geometry.name()).ok_or_else(|| "it has too few steps or too many tiles".to_owned())
    }

    /// The tile chosen for C \[M, N\] of A \[M, K\] and B in this layout on a GPU with this many SMs.
    pub fn choice(
        &self,
        [m, n, k]: [usize; 3],
        precision: Precision,
        layout: Layout,
        processors: usize,
    ) -> Option<ChosenTile> {
        let gemm = self.tiles.iter().find(|gemm| gemm.precisions().contains(&precision))?;
        let work = Size { m, n, k }.work(precision);
        gemm.chosen()?.choose_for(&work, (precision, layout), processors).map(LoadedTile::chosen)
    }

    /// [`Gemm::launch`] of the step for this type and size.
    ///
    /// # Errors
    /// Same as [`Gemm::launch`].
    pub fn launch(
        &self,
        stream: &Stream,
        a: &Tensor,
        b: &Tensor,
        layout: Layout,
        epilogue: &Epilogue<'_>,
        c: &mut Tensor,
    ) -> Result<()> {
        let size = Size::of(a, b, layout, epilogue, c)?;
        let precision = Precision::of(a.element_type(), c.element_type());
        let of_type = |gemm: &&Gemm| precision.is_some_and(|precision| gemm.precisions().contains(&precision));
        let takes = |gemm: &&Gemm| precision.is_some_and(|of| gemm.refusal(size, of, layout, epilogue).is_none());
        let mut all = self.tiles.iter().chain([&self.rows, &self.any]).filter(of_type);
        // Where none takes it, the last one of the type says why.
        let gemm = all.clone().find(takes).or(all.next_back()).unwrap_or(&self.any);
        gemm.launch(stream, a, b, layout, epilogue, c)
    }
}

/// The size of a product.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Size {
    m: usize,
    n: usize,
    k: usize,
}

/// How a product is launched.
struct Plan<'a> {
    kernel: &'a Kernel,
    geometry: Geometry,
    blocks: usize,
    maps: Maps,
}

/// Which operands are tensor maps.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Maps {
    None,
    /// A and B, in boxes with this number of values along K.
    Inputs(usize),
    /// C too.
    All(usize),
}

/// Bytes of a box's rows, which one swizzle spans.
pub(crate) const ROW_BYTES: usize = 128;
/// Rows of a box of C.
pub(crate) const OUT_ROWS: usize = 64;

/// `$body` with the types of A's and C's values.
macro_rules! with_types {
    ($precision:expr, $A:ident, $C:ident => $body:expr) => {
        match $precision {
            Precision::F16 => with_types!(@ half::f16, half::f16, $A, $C => $body),
            Precision::Bf16 => with_types!(@ half::bf16, half::bf16, $A, $C => $body),
            Precision::Tf32 => with_types!(@ f32, f32, $A, $C => $body),
            Precision::E4M3 => with_types!(@ common::tensor::F8E4M3, half::f16, $A, $C => $body),
            Precision::ScaledE4M3 => with_types!(@ common::tensor::F8E4M3, half::bf16, $A, $C => $body),
            Precision::S8 => with_types!(@ i8, i32, $A, $C => $body),
        }
    };
    (@ $a:ty, $c:ty, $A:ident, $C:ident => $body:expr) => {{
        type $A = $a;
        type $C = $c;
        $body
    }};
}

/// The operands of a launch.
struct Operands<'a> {
    stream: &'a Stream,
    a: &'a Tensor,
    b: &'a Tensor,
    layout: Layout,
    epilogue: &'a Epilogue<'a>,
    size: Size,
    /// Whether the kernels wait for earlier launches themselves.
    dependent: bool,
}

impl Gemm {
    /// The types that it multiplies.
    pub fn precisions(&self) -> &'static [Precision] {
        self.method.precisions()
    }

    /// The choice among the tiles of several steps for one type.
    fn choice(steps: &[Step], device: &Device) -> Result<Gemm> {
        let loaded = steps.iter().map(|step| step.load(device)).collect::<Result<Vec<_>>>()?;
        let chosen = loaded.iter().filter_map(Gemm::chosen).cloned();
        let tiles = chosen.reduce(|all, others| all.join(&others));
        let (first, tiles) =
            loaded.first().zip(tiles).ok_or_else(|| Error::Invalid("a choice among no steps".to_owned()))?;
        Ok(Gemm { name: "tuned", method: first.method, tiles: Tiles::Chosen(tiles) })
    }

    /// The tiles that it chooses from, if it does.
    fn chosen(&self) -> Option<&tile::Tiles<Kind>> {
        match &self.tiles {
            Tiles::Chosen(tiles) => Some(tiles),
            Tiles::One(..) => None,
        }
    }

    /// The names in the kernel file of the tiles that it chooses from; none if there is no choice.
    pub fn tiles(&self) -> impl Iterator<Item = &'static str> {
        self.chosen().into_iter().flat_map(tile::Tiles::names)
    }

    /// The same with only one of its tiles, whatever the size of the product; `None` if the step has no choice of tiles.
    pub fn with_tile(&self, name: &str) -> Option<Gemm> {
        Some(Gemm { tiles: Tiles::Chosen(self.chosen()?.only(name)?), ..self.clone() })
    }

    /// Queues C = activation(scale · (alpha · A·B) + shift + residual) with `a` \[M, K\], `b` in `layout` and `c` \[M, N\], all
    /// on the stream's device. The types of A and C determine the precision. A, C and the residual may be images channels last:
    /// their pixels are the rows.
    ///
    /// # Errors
    /// [`Error::Shape`] if the shapes do not match, [`Error::Unsupported`] with the reason if the step does not support this type
    /// or size, [`Error::ElementType`] if B's or the epilogue's type differs, [`Error::Invalid`] if a tensor is on the host,
    /// [`Error::WrongDevice`].
    pub fn launch(
        &self,
        stream: &Stream,
        a: &Tensor,
        b: &Tensor,
        layout: Layout,
        epilogue: &Epilogue<'_>,
        c: &mut Tensor,
    ) -> Result<()> {
        let size = Size::of(a, b, layout, epilogue, c)?;
        let refused = |reason: String| Error::Unsupported {
            what: format!(
                "GEMM `{}` of {}, M = {}, N = {}, K = {}, {}",
                self.name,
                a.element_type(),
                size.m,
                size.n,
                size.k,
                layout.suffix()
            ),
            device: stream.device().short_name(),
            reason,
        };
        let precision = Precision::of(a.element_type(), c.element_type())
            .filter(|precision| self.precisions().contains(precision))
            .ok_or_else(|| refused(format!("it has no kernel for {} to {}", a.element_type(), c.element_type())))?;
        if let Some(reason) = self.refusal(size, precision, layout, epilogue) {
            return Err(refused(reason));
        }
        let plan = self.plan(size, precision, layout);
        let plan = plan
            .ok_or_else(|| refused("it has no kernel for this layout, that many tiles or that few steps".to_owned()))?;
        if plan.blocks == 0 {
            return Ok(());
        }
        let dependent = matches!(self.method, Tiling::Persistent | Tiling::Shapes(..));
        let operands = Operands { stream, a, b, layout, epilogue, size, dependent };
        with_types!(precision, A, C => operands.launch::<A, C>(&plan, c))
    }

    /// Why this step does not support a product, if it does not.
    fn refusal(&self, size: Size, precision: Precision, layout: Layout, epilogue: &Epilogue<'_>) -> Option<String> {
        let Size { m, n, k } = size;
        if m.max(n).max(k) > LARGEST {
            return Some(format!("the kernel counts to {LARGEST} in each of them"));
        }
        if !precision.layouts().contains(&layout) {
            return Some(format!(
                "tensor cores read {precision} along K only, so B must be given as its transpose, [N, K]"
            ));
        }
        if epilogue.adds_later() {
            return Some(Later::FOR_CONVOLUTIONS.to_owned());
        }
        match epilogue.blocks {
            None if precision == Precision::ScaledE4M3 => return Some("it needs the scales of its blocks".to_owned()),
            Some(_) if precision != Precision::ScaledE4M3 => return Some(Scales::FOR_PRODUCTS.to_owned()),
            _ => {}
        }
        if precision == Precision::S8 && !epilogue.is_plain() {
            return Some("integer sums are stored as they are: an epilogue needs floats".to_owned());
        }
        let whole_rows = |values: usize, element: ElementType| (values * element.size()).is_multiple_of(16);
        let inputs =
            whole_rows(k, precision.input()) && (layout == Layout::Transposed || whole_rows(n, precision.input()));
        match self.method {
            Tiling::Any => None,
            Tiling::Fragments if [m, n, k].iter().any(|size| !size.is_multiple_of(16)) => {
                Some("its fragments have no edge: M, N and K must be multiples of 16".to_owned())
            }
            Tiling::Fragments => None,
            Tiling::Rows | Tiling::Maps | Tiling::Persistent | Tiling::Shapes(..) if !inputs => {
                Some("rows of A and B must begin at multiples of 16 bytes".to_owned())
            }
            Tiling::Persistent | Tiling::Shapes(..) if !whole_rows(n, precision.output()) => {
                Some("rows of C must begin at multiples of 16 bytes".to_owned())
            }
            Tiling::Maps | Tiling::Persistent | Tiling::Shapes(..) if k == 0 => {
                Some("a tensor map has no dimension of 0, so K must be more".to_owned())
            }
            Tiling::Rows | Tiling::Maps | Tiling::Persistent | Tiling::Shapes(..) => None,
        }
    }

    /// The kernel for this product and its launch; `None` if there are too many tiles to count.
    fn plan(&self, size: Size, precision: Precision, layout: Layout) -> Option<Plan<'_>> {
        match &self.tiles {
            Tiles::One(geometry, kernels, along_k) => Some(Plan {
                kernel: kernels.get((precision, layout))?,
                geometry: *geometry,
                blocks: geometry.grid(&size.work(precision), usize::MAX)?,
                maps: along_k.map_or(Maps::None, Maps::Inputs),
            }),
            Tiles::Chosen(tiles) => {
                let along_k = ROW_BYTES / precision.input().size();
                let work = size.work(precision);
                let tile = tiles.choose(&work, (precision, layout))?;
                let (kernel, geometry, blocks) =
                    (tile.kernels.get((precision, layout))?, tile.geometry, tiles.grid(tile, &work)?);
                let maps = if geometry.slices > 1 { Maps::Inputs(along_k) } else { Maps::All(along_k) };
                Some(Plan { kernel, geometry, blocks, maps })
            }
        }
    }
}

/// Rows and columns of a matrix, or of an image channels last: one row per pixel.
pub(crate) fn matrix(what: &str, tensor: &Tensor) -> Result<[usize; 2]> {
    match (tensor.format(), tensor.shape()) {
        (MemoryFormat::Nhwc, &[n, c, h, w]) => Ok([n * h * w, c]),
        _ => tensor.dims(what),
    }
}

impl Size {
    fn work(self, precision: Precision) -> Work {
        let along_k = ROW_BYTES / precision.input().size();
        Work { rows: self.m, columns: self.n, steps: self.k.div_ceil(along_k), gathered: false }
    }

    /// M, N and K of tensors whose shapes match.
    fn of(a: &Tensor, b: &Tensor, layout: Layout, epilogue: &Epilogue<'_>, c: &Tensor) -> Result<Size> {
        let ([m, k], [rows, n]) = (matrix("gemm's A", a)?, matrix("gemm's C", c)?);
        if rows != m {
            c.expect_shape("gemm's C", &[m, n])?;
        }
        b.expect_shape("gemm's B", &layout.shape(n, k))?;
        let size = Size { m, n, k };
        epilogue.check(size)?;
        Ok(size)
    }
}

// ANCHOR: boxes
/// A matrix in boxes of these rows and columns, each row of 128 or 64 bytes swizzled.
pub(crate) fn boxes(element: ElementType, [rows, columns]: [usize; 2], [high, wide]: [usize; 2]) -> TensorMapConfig {
    let extents = [columns as u64, rows as u64];
    let swizzle = if wide * element.size() < ROW_BYTES { Swizzle::Bytes64 } else { Swizzle::Bytes128 };
    TensorMapConfig { swizzle, ..TensorMapConfig::tiled(in_maps(element), &extents, &[wide as u32, high as u32]) }
}
// ANCHOR_END: boxes

impl Operands<'_> {
    fn launch<A: Element, C: Element>(&self, plan: &Plan<'_>, c: &mut Tensor) -> Result<()> {
        const FORMAT: MemoryFormat = MemoryFormat::Nchw;
        let Operands { stream, layout, epilogue, size: Size { m, n, k }, .. } = *self;
        let (a, b) = (self.a.buffer_of::<A>(self.a.format())?, self.b.buffer_of::<A>(FORMAT)?);
        let format = c.format();
        let c = c.buffer_of_mut::<C>(format)?;
        let Geometry { tile: [rows, columns], cluster: [down, across], .. } = plan.geometry;
        let (rows, columns) = (rows / across, columns / down);
        let inputs = match plan.maps {
            Maps::None => None,
            Maps::Inputs(along_k) | Maps::All(along_k) => {
                let of_b = match layout {
                    Layout::Transposed => [columns, along_k],
                    Layout::RowMajor => [along_k; 2],
                };
                Some((
                    stream.tensor_map(a, &boxes(A::TYPE, [m, k], [rows, along_k]))?,
                    stream.tensor_map(b, &boxes(A::TYPE, layout.shape(n, k), of_b))?,
                ))
            }
        };
        let blocks = epilogue.blocks.map(|Scales { a, b }| {
            Ok::<_, Error>((stream.tensor_map(a.buffer()?, &Scales::boxes(self.size, rows))?, b.buffer()?))
        });
        let blocks = blocks.transpose()?;
        let scale = epilogue.scale.map(Tensor::buffer).transpose()?;
        let shift = epilogue.shift.map(Tensor::buffer).transpose()?;
        let residual = epilogue.residual.map(|tensor| tensor.buffer_of::<C>(format)).transpose()?;
        let [rows, columns, depth] = [m, n, k].map(|size| size as i32); // up to LARGEST
        let activation = epilogue.activation_number();
        let mut output = match plan.maps {
            Maps::All(_) => {
                let box_of_c = [OUT_ROWS, plan.geometry.out_row / C::TYPE.size()];
                Output::Map(stream.tensor_map_mut(c, &boxes(C::TYPE, [m, n], box_of_c))?)
            }
            Maps::None | Maps::Inputs(_) => Output::Memory(c),
        };
        let mut launch = stream.launch_builder(plan.kernel);
        match &inputs {
            Some((a, b)) => launch.arg(a).arg(b),
            None => launch.arg(a).arg(b),
        };
        match &mut output {
            Output::Map(c) => launch.arg(c),
            Output::Memory(c) => launch.arg(&mut **c),
        };
        if let Some((of_a, of_b)) = &blocks {
            launch.arg(of_a).arg(*of_b);
        }
        launch.arg(scale).arg(shift).arg(residual);
        launch.arg(&rows).arg(&columns).arg(&depth).arg(&epilogue.alpha).arg(&activation);
        if self.dependent {
            launch.dependent();
        }
        let config = LaunchConfig {
            grid_dim: (plan.blocks as u32, 1, 1), // at most tiles of 16 × 64 of LARGEST², or Error::LaunchConfig
            block_dim: (plan.geometry.threads, 1, 1),
            shared_mem_bytes: plan.geometry.shared_bytes,
        };
        // SAFETY: the kernel writes C [M, N] and reads A [M, K], B [K, N], scale and shift [N] and the residual [M, N] alone, whose
        // shapes and types were compared, for sizes that it takes; there is one block or cluster for each tile of C, or the grid is
        // one of whole clusters that share out the tiles.
        unsafe { launch.launch(config) }
    }
}

/// C in the form that a kernel takes.
enum Output<'c, C: Element> {
    Memory(&'c mut Buffer<C>),
    Map(common::device::TensorMapMut<'c>),
}
