//! Attention with its scores in memory: two products and a softmax.

use common::device::LaunchArgs;
use common::limits::fits_i32;
use common::prelude::*;
use common::reference::AttentionSize;

use super::softmax::Softmax;

/// Sides of the tiles of the two products, and threads of their blocks: 8 × 8 sums each.
const SCORES_TILE: [usize; 2] = [128, 128];
const VALUES_TILE: [usize; 2] = [128, 64];

/// softmax(Q·Kᵀ / √d)·V for each image and head, `attention_01_products.cu` and `softmax_02_online.cu`.
#[derive(Clone, Debug)]
pub struct Attention {
    /// For rows that begin at multiples of 16 bytes, and for any.
    scores: [Kernel; 2],
    values: [Kernel; 2],
    softmax: Softmax,
}

/// From one image, head and row to the next, in floats: the kernel's `Strides`.
type Strides = [u64; 3];

impl Attention {
    /// The kernel file of the products.
    pub const SOURCE: KernelSource = kernel_source!("attention_01_products");

    /// Loads the kernels.
    ///
    /// # Errors
    /// As [`Device::kernel`].
    pub fn load(device: &Device) -> Result<Attention> {
        Attention::load_from(device, &Attention::SOURCE)
    }

    /// The same with the products from another text, such as one with a mistake that a check must find.
    ///
    /// # Errors
    /// As [`Device::kernel`].
    pub fn load_from(device: &Device, source: &KernelSource) -> Result<Attention> {
        let kernel = |name| device.kernel(source, name);
        Ok(Attention {
            scores: [kernel("scores")?, kernel("scores_any")?],
            values: [kernel("weighted_values")?, kernel("weighted_values_any")?],
            softmax: Softmax::load(device)?,
        })
    }

    /// Queues attention over `qkv` \[B, T, 3·C\] with `heads` heads of C / heads channels into `out` \[B, T, C\], as
    /// [`common::reference::attention`] has it. `scores` \[B · heads, T, T\] holds the weights afterwards. All are on the stream's
    /// device.
    ///
    /// # Errors
    /// [`Error::Shape`] if a shape does not fit, C is no multiple of `heads`, or a count does not fit the kernels;
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
        let which = usize::from(!(d.is_multiple_of(4) && tokens.is_multiple_of(4)));

        let counts = |product: [usize; 3], tile: [usize; 2]| Counts::new(size, product, tile);
        let of_scores = counts([tokens, tokens, d], SCORES_TILE)?;
        let of_values = counts([tokens, d, tokens], VALUES_TILE)?;
        let mut launch = stream.launch_builder(&self.scores[which]);
        launch.arg(&q).arg(&k).arg(scores.buffer_mut()?);
        let strides: [Strides; 3] = [in_qkv, in_qkv, in_scores];
        launch.arg(&strides);
        of_scores.push(&mut launch, &(size.scale() as f32));
        // SAFETY: there is a block for each tile of each head's scores; it reads rows of Q and K [T, d] of that head, which lie in
        // qkv, and writes inside the scores. The shapes were compared.
        unsafe { launch.launch(of_scores.config) }?;

        self.softmax.launch_in_place(stream, scores)?;

        let mut launch = stream.launch_builder(&self.values[which]);
        launch.arg(scores.buffer()?).arg(&v).arg(of_out);
        let strides: [Strides; 3] = [in_scores, in_qkv, in_out];
        launch.arg(&strides);
        of_values.push(&mut launch, &1.0);
        // SAFETY: as above, for tiles of each head's columns of `out`, rows of its weights [T, T] and of its V [T, d].
        unsafe { launch.launch(of_values.config) }
    }
}

/// What a product counts, and its launch.
struct Counts {
    heads: u32,
    /// M, N and K.
    product: [u32; 3],
    config: LaunchConfig,
}

impl Counts {
    fn new(size: AttentionSize, product: [usize; 3], tile: [usize; 2]) -> Result<Counts> {
        let fits = |what, value| Ok::<u32, Error>(fits_i32("attention", what, value)?.unsigned_abs());
        let [m, n, k] = product;
        let tiles = m.div_ceil(tile[0]) * n.div_ceil(tile[1]);
        let blocks = (size.batch * size.heads).checked_mul(tiles);
        Ok(Counts {
            heads: fits("the number of heads", Some(size.heads))?,
            product: [fits("M", Some(m))?, fits("N", Some(n))?, fits("K", Some(k))?],
            config: LaunchConfig {
                grid_dim: (fits("the number of tiles", blocks)?, 1, 1),
                block_dim: ((tile[0] * tile[1] / 64) as u32, 1, 1),
                shared_mem_bytes: 0,
            },
        })
    }

    /// The arguments behind the strides.
    fn push(&self, launch: &mut LaunchArgs<'_>, alpha: &f32) {
        let [m, n, k] = &self.product;
        launch.arg(&self.heads).arg(m).arg(n).arg(k).arg(alpha);
    }
}
