//! The attention ladder: O = softmax(Q·Kᵀ · scale)·V for each image and head, whose scores are never stored in memory, and the
//! logarithm of each row's sum of exponentials.
//!
//! | step | kernel | the idea |
//! | --- | --- | --- |
//! | [`step01_online`] | `attention_01_online.cu` | f32, tiled: online softmax |
//! | `step02_mma` | `attention_02_mma.cu` | f16 on tensor cores; weights stay in registers |
//! | `step03_wgmma` | `attention_03_wgmma.cu` | products of warpgroups, tiles by TMA |
//! | `step04_roles` | `attention_04_roles.cu` | a warp copies, two warpgroups take turns: one weighs while the other multiplies |
//! | `step05_split` | `attention_05_split.cu` | few queries: the blocks of a cluster share a tile, each for a part of the keys |
//! | `step06_tf32` | `attention_06_tf32.cu` | f32 on tensor cores, rounded to tf32 on the way |
//! | [`step07_parts`] | `attention_07_parts.cu` | f32 on tensor cores: three products of tf32 for one of f32 |
//! | `step08_stream` | `attention_08_stream.cu` | one query: every SM streams keys, without tensor cores |
//! | `step09_e4m3` | `attention_09_e4m3.cu` | values and weights of one byte; a block turns V |
//!
//! [`Tuned`] chooses among those of f16 and bf16 by GPU and size.

use bench::ladder;
use bytemuck::{Pod, Zeroable};
use common::device::{Module, Swizzle, TensorMapConfig};
use common::prelude::*;
use common::tensor::{Element, F8E4M3};

use crate::gemm::{LARGEST, ROW_BYTES, in_maps};
use crate::tile;

pub mod problem;
pub mod step01_online;
mod step02_mma;
mod step03_wgmma;
mod step04_roles;
mod step05_split;
mod step06_tf32;
pub mod step07_parts;
mod step08_stream;
mod step09_e4m3;
mod tuned;

pub use tuned::Tuned;

/// All steps, in the order in which they are read.
pub static LADDER: &[Step] = &[
    step01_online::STEP,
    step02_mma::STEP,
    step03_wgmma::STEP,
    step04_roles::STEP,
    step05_split::STEP,
    step06_tf32::STEP,
    step07_parts::STEP,
    step08_stream::STEP,
    step09_e4m3::STEP,
];

/// A step of the ladder.
pub type Step = ladder::Step<Method>;

/// Head sizes that have kernels: a smaller head is padded with zeros.
pub const HEADS: [usize; 5] = [40, 64, 80, 128, 160];
/// Number of those for which the steps with tensor maps have kernels, the first four: with a larger head, their tiles do not fit
/// shared memory, or the sums of a thread do not fit its registers.
const HEADS_OF_MAPS: usize = 4;
/// Head sizes of the kernels for e4m3.
const HEADS_OF_BYTES: [usize; 2] = [64, 128];
/// Head sizes of the kernels for f32 on tensor cores.
const HEADS_OF_F32: [usize; 8] = [8, 16, 24, 40, 64, 80, 128, 160];

/// Speed-up of a block's queries with a wide tile, on an H200 with heads of 64 in step 4.
const GAIN_OF_WIDE: f64 = 1.13;

/// Operands of a step's kernels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// f32 from memory.
    Single,
    /// f32 from memory, rounded to tf32 in registers.
    Tf32,
    /// The same, as the sum of two values of tf32.
    Parts,
    /// f16 from memory.
    Half,
    /// f16 through tensor maps.
    Maps,
    /// f16 or bf16 through tensor maps, by a persistent grid.
    Stays,
    /// f16 through tensor maps, by clusters of this many blocks, largest first, which share a tile.
    Slices(&'static [usize]),
    /// f16 from memory by clusters of this many blocks, which share a query.
    Stream(usize),
    /// e4m3 through tensor maps, by a persistent grid.
    Bytes,
}

impl Method {
    /// Head sizes that have kernels.
    pub fn heads(self) -> &'static [usize] {
        match self {
            Method::Single | Method::Half => &HEADS,
            Method::Tf32 | Method::Parts => &HEADS_OF_F32,
            Method::Maps | Method::Stays | Method::Slices(_) | Method::Stream(_) => &HEADS[..HEADS_OF_MAPS],
            Method::Bytes => &HEADS_OF_BYTES,
        }
    }

    /// Operands of its products: of each, a kernel for every head size.
    pub fn products(self) -> &'static [Products] {
        match self {
            Method::Single => &[Products::F32],
            Method::Tf32 => &[Products::Tf32],
            Method::Parts => &[Products::Parts],
            Method::Stays => &[Products::F16, Products::Bf16],
            Method::Half | Method::Maps | Method::Slices(_) | Method::Stream(_) => &[Products::F16],
            Method::Bytes => &[Products::E4m3],
        }
    }
}

/// Operands of a step's products, which determine its accuracy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Products {
    /// f32.
    F32,
    /// f32, cut to tf32.
    Tf32,
    /// f32, as two values of tf32 each.
    Parts,
    /// f16.
    F16,
    /// bf16.
    Bf16,
    /// e4m3, whose weights are of e4m3 too.
    E4m3,
}

impl Products {
    /// All, from the most exact.
    pub const ALL: [Products; 6] =
        [Products::F32, Products::Parts, Products::Tf32, Products::F16, Products::Bf16, Products::E4m3];

    /// The type of Q, K and V.
    pub fn element(self) -> ElementType {
        match self {
            Products::F32 | Products::Tf32 | Products::Parts => ElementType::F32,
            Products::F16 => ElementType::F16,
            Products::Bf16 => ElementType::BF16,
            Products::E4m3 => ElementType::F8E4M3,
        }
    }

    /// The type of O.
    pub fn output(self) -> ElementType {
        if self == Products::E4m3 { ElementType::F16 } else { self.element() }
    }
}

impl ladder::Method for Method {
    type Loaded = Attention;

    /// Loads the kernels.
    ///
    /// # Errors
    /// Same as [`Device::kernel`]; [`Error::Unsupported`] if the step needs another GPU; [`Error::NoSuchConstant`] if the kernel
    /// file does not name its tiles' sizes.
    fn load(step: &Step, device: &Device) -> Result<Attention> {
        let module = device.load(&step.source)?;
        let load = |products: Products, head, suffix: &str, slices| {
            let of_type = if products == Products::Bf16 { "_bf16" } else { "" };
            HeadKernel::load(&module, products.element(), head, &format!("{of_type}{suffix}"), slices)
        };
        let heads = step.method.heads().iter();
        let of_types =
            step.method.products().iter().flat_map(|&products| heads.clone().map(move |&head| (products, head)));
        let kernels: Result<Vec<_>> = match step.method {
            Method::Slices(slices) => {
                let each = slices.iter().flat_map(|&slices| of_types.clone().map(move |kernel| (kernel, slices)));
                each.map(|((products, head), slices)| load(products, head, &format!("_{slices}"), slices)).collect()
            }
            Method::Stream(slices) => of_types.map(|(products, head)| load(products, head, "", slices)).collect(),
            _ => {
                let is_wide =
                    |(_, head): &(_, usize)| module.find_constant(&format!("attention_{head}_wide_queries")).is_some();
                let narrow = of_types.clone().map(|(products, head)| load(products, head, "", 1));
                let wide = of_types.filter(is_wide).map(|(products, head)| load(products, head, "_wide", 1));
                narrow.chain(wide).collect()
            }
        };
        let processors = tile::processors(device);
        Ok(Attention { name: step.name, method: step.method, processors, kernels: kernels? })
    }
}

/// A kernel for heads up to a size.
#[derive(Clone, Debug)]
struct HeadKernel {
    /// Type of its tensors.
    element: ElementType,
    head: usize,
    /// Blocks of a cluster that share a tile.
    slices: usize,
    /// Whether its tiles have more queries than another kernel's for such heads.
    is_wide: bool,
    kernel: Kernel,
    /// Queries per block, and keys per step.
    queries: usize,
    keys: usize,
    threads: u32,
    shared_bytes: u32,
}

impl HeadKernel {
    /// Loads `attention_64` and so on, with the suffix.
    fn load(module: &Module, element: ElementType, head: usize, suffix: &str, slices: usize) -> Result<HeadKernel> {
        let name = format!("attention_{head}{suffix}");
        // Kernels of one file may have tiles of their own.
        let size = |what: &str, of_file: &str| {
            let own = format!("{name}_{what}");
            module.constant(if module.find_constant(&own).is_some() { &own } else { of_file })
        };
        let shared = format!("{name}_shared");
        let shared = module.find_constant(&shared).map_or(Ok(0), |_| module.constant(&shared))?;
        Ok(HeadKernel {
            element,
            head,
            slices,
            is_wide: suffix.ends_with("_wide"),
            kernel: module.kernel(&name)?,
            queries: size("queries", "BM")?,
            keys: size("keys", "BN")?,
            threads: size("threads", "THREADS")? as u32,
            shared_bytes: shared as u32,
        })
    }

    /// Whether its clusters give no SM two blocks, and each block a step of keys.
    fn is_room(&self, size: &Size, processors: usize) -> bool {
        self.tiles(size) * self.slices <= processors && size.keys.div_ceil(self.keys) >= self.slices
    }

    /// Tiles of queries of all heads.
    fn tiles(&self, size: &Size) -> usize {
        size.matrices() * size.queries.div_ceil(self.queries)
    }

    /// Queries that a block of a persistent grid processes, as many as take the same time with the narrowest tile.
    fn queries_each(&self, size: &Size, processors: usize) -> f64 {
        let queries = (self.tiles(size).div_ceil(processors) * self.queries) as f64;
        if self.is_wide { queries / GAIN_OF_WIDE } else { queries }
    }
}

/// A step, loaded on a device.
#[derive(Clone, Debug)]
pub struct Attention {
    name: &'static str,
    method: Method,
    /// Blocks of a persistent grid.
    processors: usize,
    kernels: Vec<HeadKernel>,
}

/// Queries, keys and values, on a device and of one type.
#[derive(Clone, Copy, Debug)]
pub enum Inputs<'a> {
    /// Each \[images, heads, tokens, head\]; keys and values may have a different number of tokens than queries.
    Apart {
        /// Queries.
        q: &'a Tensor,
        /// Keys.
        k: &'a Tensor,
        /// Values, of k's shape.
        v: &'a Tensor,
    },
    /// The same in e4m3, rounded from multiples of a factor each.
    Scaled {
        /// Queries.
        q: &'a Tensor,
        /// Keys.
        k: &'a Tensor,
        /// Values, of k's shape.
        v: &'a Tensor,
        /// Factors of the three.
        factors: [f32; 3],
    },
    /// Result of one projection, \[images, tokens, 3 · heads · head\]: the queries of all heads, then the keys, then the values.
    /// An image channels last, whose pixels are the tokens, has this layout too.
    Joined {
        /// The tensor.
        qkv: &'a Tensor,
        /// Heads.
        heads: usize,
    },
}

/// Options besides the products.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Options {
    /// Whether a query sees only the keys up to its own. The last query sees all keys.
    pub causal: bool,
    /// Factor of the scores; 1 / √head if not given.
    pub scale: Option<f32>,
}

/// The sizes of an attention.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// Images of a batch.
    pub images: usize,
    /// Heads of an image.
    pub heads: usize,
    /// Number of query tokens.
    pub queries: usize,
    /// Number of key tokens.
    pub keys: usize,
    /// Values of a token in a head.
    pub head: usize,
}

impl Size {
    /// Heads of all images.
    pub fn matrices(&self) -> usize {
        self.images * self.heads
    }

    /// Rows of O: queries of all heads.
    pub fn rows(&self) -> usize {
        self.matrices() * self.queries
    }

    /// Scores that are computed, masked ones left out.
    pub fn scores(&self, causal: bool) -> f64 {
        let (queries, keys) = (self.queries as f64, self.keys as f64);
        let unseen = if causal { queries * (queries - 1.0) / 2.0 } else { 0.0 };
        self.matrices() as f64 * (queries * keys - unseen)
    }

    /// Operations of the two products, two per multiply-add, as is usual.
    pub fn flops(&self, causal: bool) -> f64 {
        4.0 * self.scores(causal) * self.head as f64
    }

    fn name(&self) -> String {
        let Size { images, heads, queries, keys, head } = self;
        format!("{images} × {heads} heads of {head}, {queries} queries and {keys} keys")
    }
}

impl Inputs<'_> {
    /// The sizes.
    ///
    /// # Errors
    /// [`Error::Shape`] if the shapes do not match.
    pub fn size(&self) -> Result<Size> {
        match self {
            Inputs::Apart { q, k, v } | Inputs::Scaled { q, k, v, .. } => {
                let [images, heads, queries, head] = q.dims("attention's q")?;
                let [_, _, keys, _] = k.dims("attention's k")?;
                k.expect_shape("attention's k", &[images, heads, keys, head])?;
                v.expect_shape("attention's v", &[images, heads, keys, head])?;
                Ok(Size { images, heads, queries, keys, head })
            }
            Inputs::Joined { qkv, heads } => {
                let tokens = match (qkv.format(), qkv.shape()) {
                    (MemoryFormat::Nhwc, &[n, c, h, w]) => Tensor::shape_only(&[n, h * w, c]),
                    (_, shape) => Tensor::shape_only(shape),
                };
                let of = common::reference::AttentionSize::of(&tokens, *heads)?;
                Ok(Size { images: of.batch, heads: *heads, queries: of.tokens, keys: of.tokens, head: of.of_head() })
            }
        }
    }

    /// The shape of O.
    ///
    /// # Errors
    /// Same as [`Inputs::size`].
    pub fn output_shape(&self) -> Result<Vec<usize>> {
        let Size { images, heads, queries, head, .. } = self.size()?;
        Ok(match self {
            Inputs::Apart { .. } | Inputs::Scaled { .. } => vec![images, heads, queries, head],
            Inputs::Joined { qkv, .. } => match (qkv.format(), qkv.shape()) {
                (MemoryFormat::Nhwc, &[n, _, h, w]) => vec![n, heads * head, h, w],
                _ => vec![images, queries, heads * head],
            },
        })
    }

    /// Memory format of the inputs and O.
    fn format(&self) -> MemoryFormat {
        match self {
            Inputs::Apart { .. } | Inputs::Scaled { .. } => MemoryFormat::Nchw,
            Inputs::Joined { qkv, .. } => qkv.format(),
        }
    }

    fn element(&self) -> ElementType {
        match self {
            Inputs::Apart { q, .. } | Inputs::Scaled { q, .. } => q.element_type(),
            Inputs::Joined { qkv, .. } => qkv.element_type(),
        }
    }

    /// Factors of Q, K and V.
    fn factors(&self) -> [f32; 3] {
        if let Inputs::Scaled { factors, .. } = *self { factors } else { [1.0; 3] }
    }

    /// The strides of Q, of K and V, and of O.
    fn strides(&self, size: &Size) -> [Strides; 3] {
        let Size { heads, queries, keys, head, .. } = *size;
        let apart = |tokens: usize| Strides::new(heads * tokens * head, tokens * head, head);
        let joined = |parts: usize| Strides::new(queries * parts * heads * head, head, parts * heads * head);
        match self {
            Inputs::Apart { .. } | Inputs::Scaled { .. } => [apart(queries), apart(keys), apart(queries)],
            Inputs::Joined { .. } => [joined(3), joined(3), joined(1)],
        }
    }
}

/// `Strides` of the kernels, in values.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
struct Strides {
    image: i64,
    head: i64,
    token: i64,
}

impl Strides {
    fn new(image: usize, head: usize, token: usize) -> Strides {
        let [image, head, token] = [image, head, token].map(|step| step as i64);
        Strides { image, head, token }
    }
}

/// `Problem` of the kernels.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
struct Parameters {
    strides: [Strides; 3],
    matrices: i32,
    heads: i32,
    queries: i32,
    keys: i32,
    head: i32,
    causal: i32,
    /// Scale times log₂ e.
    scale: f32,
    /// Factor of V.
    of_values: f32,
}

impl Attention {
    /// The best step over tensors of f32 for these products; on GPUs without such tensor cores, step 1.
    ///
    /// # Errors
    /// Same as [`Step::load`].
    pub fn over_f32(device: &Device, products: Products) -> Result<Attention> {
        let on_cores = if products == Products::Tf32 { &step06_tf32::STEP } else { &step07_parts::STEP };
        match on_cores.load(device) {
            Err(error) if error.is_unsupported() => step01_online::STEP.load(device),
            loaded => loaded,
        }
    }

    /// Name of the step.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Operands of its products, of each type that it has kernels for.
    pub fn products(&self) -> &'static [Products] {
        self.method.products()
    }

    /// The type of its tensors; the first, if it has kernels for several.
    pub fn element(&self) -> ElementType {
        self.products()[0].element()
    }

    /// The largest head that it has a kernel for.
    fn largest_head(&self) -> usize {
        self.kernels.iter().map(|kernel| kernel.head).max().unwrap_or(0)
    }

    /// Why the step does not support these inputs' sizes without a mask, if it does not.
    pub fn refuses(&self, size: &Size) -> Option<String> {
        self.refusal(size, 1.0, false, self.element())
    }

    /// The same with its tiles shared out among this number of SMs.
    #[must_use]
    pub fn for_processors(self, processors: usize) -> Attention {
        Attention { processors, ..self }
    }

    /// Queues O = softmax(Q·Kᵀ · scale)·V into `out` of [`Inputs::output_shape`] and [`Products::output`], and the log-sum-exp of the
    /// scaled scores of each row into `lse` \[images, heads, queries\] of f32; all on the stream's device.
    ///
    /// # Errors
    /// [`Error::Shape`] if the shapes do not match; [`Error::Unsupported`] with the reason if the step does not support this
    /// type, size or scale; [`Error::ElementType`], [`Error::Invalid`] if a tensor is on the host, [`Error::WrongDevice`].
    pub fn launch(
        &self,
        stream: &Stream,
        inputs: Inputs<'_>,
        options: Options,
        out: &mut Tensor,
        lse: &mut Tensor,
    ) -> Result<()> {
        let size = inputs.size()?;
        out.expect_shape("attention's output", &inputs.output_shape()?)?;
        lse.expect_shape("attention's log-sum-exp", &[size.images, size.heads, size.queries])?;
        let [of_q, of_k, of_v] = inputs.factors();
        let scale = options.scale.map_or_else(|| 1.0 / (size.head as f64).sqrt(), f64::from) * f64::from(of_q * of_k);
        let reason = self.refusal(&size, scale, options.causal, inputs.element());
        let has_factors = matches!(inputs, Inputs::Scaled { .. }) && self.method != Method::Bytes;
        if let Some(reason) = reason.or_else(|| has_factors.then(|| "only e4m3 comes with factors".to_owned())) {
            return Err(Error::Unsupported {
                what: format!("attention `{}` of {}", self.name, size.name()),
                device: stream.device().short_name(),
                reason,
            });
        }
        if size.rows() == 0 || size.head == 0 {
            return Ok(());
        }
        let [matrices, heads, queries, keys, head] =
            [size.matrices(), size.heads, size.queries, size.keys, size.head].map(|count| count as i32); // up to LARGEST
        let parameters = Parameters {
            strides: inputs.strides(&size),
            matrices,
            heads,
            queries,
            keys,
            head,
            causal: options.causal.into(),
            scale: (scale * std::f64::consts::LOG2_E) as f32,
            of_values: of_v,
        };
        match inputs.element() {
            ElementType::BF16 => self.queue::<half::bf16, half::bf16>(stream, inputs, &parameters, &size, out, lse),
            ElementType::F16 => self.queue::<half::f16, half::f16>(stream, inputs, &parameters, &size, out, lse),
            ElementType::F8E4M3 => self.queue::<F8E4M3, half::f16>(stream, inputs, &parameters, &size, out, lse),
            _ => self.queue::<f32, f32>(stream, inputs, &parameters, &size, out, lse),
        }
    }

    /// Why this step does not support a problem, if it does not.
    fn refusal(&self, size: &Size, scale: f64, causal: bool, element: ElementType) -> Option<String> {
        let Size { queries, keys, head, .. } = *size;
        if self.products().iter().all(|products| products.element() != element) {
            let types: Vec<String> = self.products().iter().map(|products| products.element().to_string()).collect();
            return Some(format!("its kernels are for {}, not {element}", types.join(" and ")));
        }
        let most = self.largest_head();
        let multiple = if self.method == Method::Bytes { 16 } else { 8 }; // 16 bytes, but for f32
        if !head.is_multiple_of(multiple) || head > most {
            return Some(format!("a head must have a multiple of {multiple} values, up to {most}"));
        }
        if size.head > 0 && !(scale > 0.0 && scale.is_finite()) {
            return Some("the scale must be positive: the largest score is looked for before it is scaled".to_owned());
        }
        if causal && queries > keys {
            return Some("with more queries than keys, a causal query would see no key".to_owned());
        }
        if keys == 0 && size.rows() > 0 {
            return Some("without a key there is nothing to weigh".to_owned());
        }
        let counted = [queries, keys, size.rows(), 3 * size.heads * head];
        (counted.into_iter().max() > Some(LARGEST))
            .then(|| format!("the kernels count tokens, rows and a token's values to {LARGEST}"))
    }

    /// The kernel for a type and the smallest head that is large enough: where tiles are cut, the one with the most slices that
    /// fit, or else the last; with a persistent grid, the one that finishes first.
    fn kernel(&self, element: ElementType, size: &Size, processors: usize) -> &HeadKernel {
        let head = self.method.heads().iter().find(|&&head| head >= size.head).copied();
        let mut able = self.kernels.iter().filter(|kernel| kernel.element == element && Some(kernel.head) == head);
        let chosen = match self.method {
            Method::Slices(_) => able.clone().find(|kernel| kernel.is_room(size, processors)).or(able.next_back()),
            _ => able.min_by(|a, b| a.queries_each(size, processors).total_cmp(&b.queries_each(size, processors))),
        };
        chosen.unwrap_or(&self.kernels[0])
    }

    /// Blocks of a launch: one or a cluster for each tile of queries; of a persistent grid as many as fit.
    fn blocks(&self, kernel: &HeadKernel, size: &Size, processors: usize) -> usize {
        match self.method {
            Method::Stays | Method::Bytes => processors.min(kernel.tiles(size)),
            _ => kernel.tiles(size) * kernel.slices,
        }
    }

    fn queue<T: Element, O: Element>(
        &self,
        stream: &Stream,
        inputs: Inputs<'_>,
        parameters: &Parameters,
        size: &Size,
        out: &mut Tensor,
        lse: &mut Tensor,
    ) -> Result<()> {
        let format = inputs.format();
        let Size { heads, queries, keys, head, .. } = *size;
        let [q, k, v] = match inputs {
            Inputs::Apart { q, k, v } | Inputs::Scaled { q, k, v, .. } => [
                q.buffer_of::<T>(format)?.slice(0..),
                k.buffer_of::<T>(format)?.slice(0..),
                v.buffer_of::<T>(format)?.slice(0..),
            ],
            Inputs::Joined { qkv, .. } => {
                let of_all = qkv.buffer_of::<T>(format)?;
                [0, 1, 2].map(|part| of_all.slice(part * heads * head..))
            }
        };
        let of_head = self.kernel(T::TYPE, size, self.processors);
        let blocks = self.blocks(of_head, size, self.processors);
        let config = LaunchConfig {
            grid_dim: (blocks as u32, 1, 1), // at most rows
            block_dim: (of_head.threads, 1, 1),
            shared_mem_bytes: of_head.shared_bytes,
        };
        let (out, lse) = (out.buffer_of_mut::<O>(format)?, lse.buffer_mut()?);
        let boxes = |tokens, stride: &Strides, rows| boxes(T::TYPE, size, tokens, stride, rows);
        let maps = match self.method {
            Method::Single | Method::Tf32 | Method::Parts | Method::Half | Method::Stream(_) => None,
            Method::Maps | Method::Stays | Method::Slices(_) | Method::Bytes => {
                let of_kv = boxes(keys, &parameters.strides[1], of_head.keys);
                Some([
                    stream.tensor_map(&q, &boxes(queries, &parameters.strides[0], of_head.queries))?,
                    stream.tensor_map(&k, &of_kv)?,
                    stream.tensor_map(&v, &of_kv)?,
                ])
            }
        };
        let mut launch = stream.launch_builder(&of_head.kernel);
        match &maps {
            None => launch.arg(&q).arg(&k).arg(&v),
            Some([q, k, v]) => launch.arg(q).arg(k).arg(v),
        };
        launch.arg(out).arg(lse).arg_bytes(bytemuck::bytes_of(parameters));
        // SAFETY: the kernel reads Q [queries, head] and K and V [keys, head] of each image and head, and writes O and the
        // log-sum-exp of each query; shapes, types and strides were compared, and there is a block or a cluster for each tile of
        // queries, or the grid shares them out.
        unsafe { launch.launch(config) }
    }
}

/// Tokens of heads in boxes of `tokens`, each of 128 bytes of a head's values, swizzled.
fn boxes(element: ElementType, size: &Size, tokens: usize, stride: &Strides, rows: usize) -> TensorMapConfig {
    let Size { images, heads, head, .. } = *size;
    let extents = [head, tokens, heads, images].map(|extent| extent as u64);
    let sizes = [(ROW_BYTES / element.size()) as u32, rows as u32, 1, 1];
    TensorMapConfig {
        strides: [stride.token, stride.head, stride.image].map(|step| step as u64 * element.size() as u64).to_vec(),
        swizzle: Swizzle::Bytes128,
        ..TensorMapConfig::tiled(in_maps(element), &extents, &sizes)
    }
}
