//! Attention with its scores in memory: two products and a softmax.

use common::device::LaunchArgs;
use common::limits::fits_i32;
use common::prelude::*;
use common::reference::AttentionSize;

use super::softmax::Softmax;

/// softmax(Q·Kᵀ / √d)·V for each image and head, `attention_01_products.cu` and `softmax_02_online.cu`.
#[derive(Clone, Debug)]
pub struct Attention {
    scores: [Tile; 2],
    values: [Tile; 2],
    softmax: Softmax,
    processors: usize,
}

/// A tile of a product, for large products or small ones.
#[derive(Clone, Debug)]
struct Tile {
    /// Rows and columns; each thread has 8 × 8 of them.
    sides: [usize; 2],
    /// For rows that begin at multiples of 16 bytes, and for any.
    kernels: [Kernel; 2],
}

impl Tile {
    fn load(device: &Device, source: &KernelSource, product: &str, sides: [usize; 2]) -> Result<Tile> {
        let kernel = |suffix: &str| device.kernel(source, &format!("{product}_{}x{}{suffix}", sides[0], sides[1]));
        Ok(Tile { sides, kernels: [kernel("")?, kernel("_any")?] })
    }
}

/// Distance in floats from one image, head and row to the next: the kernel's `Strides`.
type Strides = [u64; 3];

impl Attention {
    /// The kernel file of the products.
    pub const SOURCE: KernelSource = kernel_source!("attention_01_products");

    /// Loads the kernels.
    ///
    /// # Errors
    /// Same as [`Device::kernel`].
    pub fn load(device: &Device) -> Result<Attention> {
        Attention::load_from(device, &Attention::SOURCE)
    }

    /// The same with the products from another text, such as one with a mistake that a check must find.
    ///
    /// # Errors
    /// Same as [`Device::kernel`].
    pub fn load_from(device: &Device, source: &KernelSource) -> Result<Attention> {
        let tile = |product, sides| Tile::load(device, source, product, sides);
        Ok(Attention {
            scores: [tile("scores", [128, 128])?, tile("scores", [64, 64])?],
            values: [tile("values", [128, 64])?, tile("values", [64, 64])?],
            softmax: Softmax::load(device)?,
            processors: device.properties().multiprocessors.unwrap_or(1) as usize,
        })
    }

    /// The same with tiles chosen for this number of SMs: the larger ones, if there is at least one for each SM.
    #[must_use]
    pub fn for_processors(self, processors: usize) -> Attention {
        Attention { processors, ..self }
    }

    /// Queues attention over `qkv` \[B, T, 3·C\] with `heads` heads of C / heads channels into `out` \[B, T, C\], as in
    /// [`common::reference::attention`]. `scores` \[B · heads, T, T\] holds the weights afterwards. All are on the stream's
    /// device.
    ///
    /// # Errors
    /// [`Error::Shape`] if a shape does not fit, C is not a multiple of `heads`, or a count does not fit the kernels;
    /// [`Error::Invalid`] if a tensor is on the host, [`Error::WrongDevice`].
    pub fn launch(
        &self,
        stream: &Stream,
        qkv: &Tensor,
        heads: usize,
        scores: &mut Tensor,
        out: &mut Tensor,
    ) -> Result<()> {
        let size = AttentionSize::of(qkv, heads)?;
        let AttentionSize { batch, tokens, channels, .. } = size;
        scores.expect_shape("attention's scores", &size.scores_shape())?;
        out.expect_shape("attention's output", &[batch, tokens, channels])?;
        let (d, columns) = (size.of_head(), 3 * channels);
        // The kernels count places in one matrix in 32 bits.
        fits_i32("attention", "the number of values of an image's qkv", tokens.checked_mul(columns))?;
        fits_i32("attention", "the number of a head's scores", tokens.checked_mul(tokens))?;
        let (of_qkv, of_out) = (qkv.buffer()?, out.buffer_mut()?);
        scores.buffer()?;
        if qkv.is_empty() {
            return Ok(());
        }
        let [q, k, v] = [0, 1, 2].map(|part| of_qkv.slice(part * channels..));
        let in_qkv = [tokens * columns, d, columns].map(|stride| stride as u64);
        let in_scores = [heads * tokens * tokens, tokens * tokens, tokens].map(|stride| stride as u64);
        let in_out = [tokens * channels, d, channels].map(|stride| stride as u64);
        // Rows of qkv, scores and out then begin at multiples of 16 bytes, as tensors do, and so does a head in them.
        let by_16 = d.is_multiple_of(4) && tokens.is_multiple_of(4);

        let alpha = size.scale() as f32;
        let of_scores = Plan::new(&self.scores, self.processors, size, [tokens, tokens, d], by_16)?;
        let of_values = Plan::new(&self.values, self.processors, size, [tokens, d, tokens], by_16)?;
        let mut launch = stream.launch_builder(of_scores.kernel);
        launch.arg(&q).arg(&k).arg(scores.buffer_mut()?);
        of_scores.push(&mut launch, &[in_qkv, in_qkv, in_scores], &alpha);
        // SAFETY: there is a block for each tile of each head's scores; it reads rows of Q and K [T, d] of that head, which lie in
        // qkv, and writes inside the scores. The shapes were compared.
        unsafe { launch.launch(of_scores.config) }?;

        self.softmax.launch_in_place(stream, scores)?;

        let mut launch = stream.launch_builder(of_values.kernel);
        launch.arg(scores.buffer()?).arg(&v).arg(of_out);
        of_values.push(&mut launch, &[in_scores, in_qkv, in_out], &1.0);
        // SAFETY: as above, for tiles of each head's columns of `out`, rows of its weights [T, T] and of its V [T, d].
        unsafe { launch.launch(of_values.config) }
    }
}

/// Kernel of a product, its counts, and its launch.
struct Plan<'a> {
    kernel: &'a Kernel,
    heads: u32,
    /// M, N and K.
    product: [u32; 3],
    config: LaunchConfig,
}

impl Plan<'_> {
    /// A plan for `product`, M, N and K, of each image and head.
    fn new(
        [large, small]: &[Tile; 2],
        processors: usize,
        size: AttentionSize,
        product: [usize; 3],
        by_16: bool,
    ) -> Result<Plan<'_>> {
        let fits = |what, value| Ok::<u32, Error>(fits_i32("attention", what, value)?.unsigned_abs());
        let [m, n, k] = product;
        let blocks = |tile: &Tile| {
            let tiles = m.div_ceil(tile.sides[0]) * n.div_ceil(tile.sides[1]);
            (size.batch * size.heads).checked_mul(tiles)
        };
        let tile = if blocks(large).is_some_and(|blocks| blocks < processors) { small } else { large };
        Ok(Plan {
            kernel: &tile.kernels[usize::from(!by_16)],
            heads: fits("the number of heads", Some(size.heads))?,
            product: [fits("M", Some(m))?, fits("N", Some(n))?, fits("K", Some(k))?],
            config: LaunchConfig {
                grid_dim: (fits("the number of tiles", blocks(tile))?, 1, 1),
                block_dim: ((tile.sides[0] * tile.sides[1] / 64) as u32, 1, 1),
                shared_mem_bytes: 0,
            },
        })
    }

    /// The arguments after A, B and C.
    fn push(&self, launch: &mut LaunchArgs<'_>, strides: &[Strides; 3], alpha: &f32) {
        let [m, n, k] = &self.product;
        launch.arg(strides).arg(&self.heads).arg(m).arg(n).arg(k).arg(alpha);
    }
}
