//! The gradients of y = relu(x·Wᵀ + bias), given dy: with g = dy where y > 0 and 0 elsewhere,
//!
//! dx = g·W, dW = gᵀ·x, dbias = the sums of g's columns.
//!
//! Hypothesis: a kernel that writes g, for the products to read, moves g's bytes three more times and needs memory for it; masking
//! while dy is loaded does neither. Change: the mask in the products' loads. Measured: the `linear-relu` table of
//! `cargo run -p phase5-bench`, fused and [`separate`](Backward::separate): it saves g's memory, and no time where the products are
//! large, since y is then loaded again with dy for each column of tiles. [`super::written`] does better.

use common::limits::fits_i32;
use common::prelude::*;

use super::Size;
use crate::gemm::LARGEST;

/// `kernels/linear_03_backward.cu`.
pub const SOURCE: KernelSource = kernel_source!("linear_03_backward");

/// Blocks that fill an H200: two on each SM. With fewer large tiles than this, small ones are used. The choice changes no result:
/// every element is one sum over K in order.
pub const ENOUGH: usize = 2 * 132;

/// The kernels, loaded.
#[derive(Clone, Debug)]
pub struct Backward {
    /// With large tiles, and with small ones.
    input: [Tiled; 2],
    weight: [Tiled; 2],
    mask: Kernel,
    enough: usize,
}

/// The kernels of one tile shape, and the sizes for their launch.
#[derive(Clone, Debug)]
struct Tiled {
    /// Rows and columns of the result per block.
    tile: [usize; 2],
    threads: u32,
    /// For rows that begin at multiples of 16 bytes.
    aligned: Kernel,
    any: Kernel,
}

/// Inputs of a backward pass.
#[derive(Clone, Copy, Debug)]
pub struct Pass<'a> {
    /// The gradient of y, \[batch, out\].
    pub dy: &'a Tensor,
    /// The layer's result, \[batch, out\]: its signs are the mask.
    pub y: &'a Tensor,
    /// The layer's input, \[batch, in\].
    pub x: &'a Tensor,
    /// \[out, in\].
    pub weight: &'a Tensor,
}

/// Outputs of a backward pass.
#[derive(Debug)]
pub struct Gradients<'a> {
    /// \[batch, in\].
    pub dx: &'a mut Tensor,
    /// \[out, in\].
    pub dweight: &'a mut Tensor,
    /// \[out\].
    pub dbias: &'a mut Tensor,
}

impl Backward {
    /// Loads the kernels.
    ///
    /// # Errors
    /// Same as [`Device::kernel`].
    pub fn load(device: &Device) -> Result<Backward> {
        Backward::load_from(device, &SOURCE)
    }

    /// [`Backward::load`] from another text, such as a kernel with a mistake that a check must find.
    ///
    /// # Errors
    /// Same as [`Device::kernel`], and [`Error::NoSuchConstant`] if the text does not name its tiles' sizes.
    pub fn load_from(device: &Device, source: &KernelSource) -> Result<Backward> {
        let module = device.load(source)?;
        let tiled = |name: &str, shape: &str, suffix: &str| -> Result<Tiled> {
            let of_shape = |constant: &str| module.constant(&format!("{shape}::{constant}"));
            Ok(Tiled {
                tile: [of_shape("BM")?, of_shape("BN")?],
                threads: of_shape("THREADS")? as u32,
                aligned: module.kernel(&format!("backward_{name}_{suffix}"))?,
                any: module.kernel(&format!("backward_{name}_{suffix}_any"))?,
            })
        };
        let both = |name: &str| Ok::<_, Error>([tiled(name, "Large", "128")?, tiled(name, "Small", "64")?]);
        Ok(Backward { input: both("input")?, weight: both("weight")?, mask: module.kernel("mask")?, enough: ENOUGH })
    }

    /// The same, with large tiles from `enough` of them on, instead of [`ENOUGH`].
    pub fn with_enough(self, enough: usize) -> Backward {
        Backward { enough, ..self }
    }

    /// The kernel for a result \[m, n\], and its launch; `aligned` if rows of all matrices begin at multiples of 16 bytes.
    fn choose<'a>(
        &self,
        kernels: &'a [Tiled; 2],
        [m, n]: [i32; 2],
        aligned: bool,
    ) -> Result<(&'a Kernel, LaunchConfig)> {
        let [m, n] = [m, n].map(|size| size.unsigned_abs() as usize);
        // A matrix without columns takes blocks all the same: the sums of g's columns come with dW.
        let blocks = |tiled: &Tiled| m.div_ceil(tiled.tile[0]) * n.div_ceil(tiled.tile[1]).max(1);
        let [large, small] = kernels;
        let tiled = if blocks(large) < self.enough { small } else { large };
        let kernel = if aligned { &tiled.aligned } else { &tiled.any };
        let grid = fits_i32("linear's backward", "the number of tiles", Some(blocks(tiled)))?;
        Ok((kernel, LaunchConfig { grid_dim: (grid.unsigned_abs(), 1, 1), ..LaunchConfig::linear(0, tiled.threads) }))
    }

    /// Queues dx \[batch, in\] from `dy` and `y` \[batch, out\] and `weight` \[out, in\]; nothing is allocated.
    ///
    /// # Errors
    /// [`Error::Shape`] if the shapes do not match or a count does not fit the kernel, [`Error::Unsupported`] if a dimension
    /// exceeds [`LARGEST`], [`Error::Invalid`] if a tensor is on the host, [`Error::WrongDevice`].
    pub fn input(&self, stream: &Stream, dy: &Tensor, y: &Tensor, weight: &Tensor, dx: &mut Tensor) -> Result<()> {
        y.expect_shape("linear's y", dy.shape())?;
        self.input_of(stream, dy, Some(y), weight, dx)
    }

    /// Queues dW \[out, in\] and dbias \[out\] from `dy` and `y` \[batch, out\] and `x` \[batch, in\]; nothing is allocated.
    ///
    /// # Errors
    /// Same as [`Backward::input`].
    pub fn parameters(
        &self,
        stream: &Stream,
        dy: &Tensor,
        y: &Tensor,
        x: &Tensor,
        dweight: &mut Tensor,
        dbias: &mut Tensor,
    ) -> Result<()> {
        y.expect_shape("linear's y", dy.shape())?;
        self.parameters_of(stream, dy, Some(y), x, dweight, dbias)
    }

    /// Queues all three gradients, in two launches that mask what they read; nothing is allocated.
    ///
    /// # Errors
    /// Same as [`Backward::input`].
    pub fn fused(&self, stream: &Stream, pass: Pass<'_>, gradients: Gradients<'_>) -> Result<()> {
        let Pass { dy, y, x, weight } = pass;
        let Gradients { dx, dweight, dbias } = gradients;
        self.input(stream, dy, y, weight, dx)?;
        self.parameters(stream, dy, y, x, dweight, dbias)
    }

    /// Queues all three gradients as separate kernels would: g is allocated and written, and both products read it.
    ///
    /// # Errors
    /// Same as [`Backward::input`], and [`Error::OutOfMemory`].
    pub fn separate(&self, stream: &Stream, pass: Pass<'_>, gradients: Gradients<'_>) -> Result<()> {
        let Pass { dy, y, x, weight } = pass;
        let Gradients { dx, dweight, dbias } = gradients;
        let Size { outputs, .. } = Size::of(x, weight, y)?;
        dy.expect_shape("linear's dy", y.shape())?;
        let mut g = Tensor::empty_on(stream.device(), dy.shape())?;
        let mut launch = stream.launch_builder(&self.mask);
        launch.arg(dy.buffer()?).arg(y.buffer()?).arg(g.buffer_mut()?).arg(&outputs);
        // SAFETY: the kernel reads dy[i] and y[i] and writes g[i] for i < outputs, which all three hold.
        unsafe { launch.launch(LaunchConfig::for_threads(outputs)) }?;
        self.input_of(stream, &g, None, weight, dx)?;
        self.parameters_of(stream, &g, None, x, dweight, dbias)
    }

    fn input_of(
        &self,
        stream: &Stream,
        dy: &Tensor,
        y: Option<&Tensor>,
        weight: &Tensor,
        dx: &mut Tensor,
    ) -> Result<()> {
        let Size { batch, inputs, columns, .. } = Size::of(dx, weight, dy)?;
        let [batch, inputs, columns] = counts(stream, [batch, inputs, columns])?;
        if dx.is_empty() {
            return Ok(());
        }
        let (kernel, config) = self.choose(&self.input, [batch, inputs], columns % 4 == 0 && inputs % 4 == 0)?;
        let mut launch = stream.launch_builder(kernel);
        // Without y, dy is masked already.
        launch.arg(dy.buffer()?).arg(y.map(Tensor::buffer).transpose()?);
        launch.arg(weight.buffer()?).arg(dx.buffer_mut()?).arg(&batch).arg(&inputs).arg(&columns);
        // SAFETY: the kernel writes dx [batch, in] and reads dy and y [batch, out] and W [out, in] alone, whose shapes were
        // compared; there is one block for each tile of dx.
        unsafe { launch.launch(config) }
    }

    fn parameters_of(
        &self,
        stream: &Stream,
        dy: &Tensor,
        y: Option<&Tensor>,
        x: &Tensor,
        dweight: &mut Tensor,
        dbias: &mut Tensor,
    ) -> Result<()> {
        let Size { batch, inputs, columns, .. } = Size::of(x, dweight, dy)?;
        dbias.expect_shape("linear's dbias", &[columns as usize])?;
        let [batch, inputs, columns] = counts(stream, [batch, inputs, columns])?;
        if dbias.is_empty() {
            return Ok(());
        }
        let (kernel, config) = self.choose(&self.weight, [columns, inputs], columns % 4 == 0 && inputs % 4 == 0)?;
        let mut launch = stream.launch_builder(kernel);
        // Without y, dy is masked already.
        launch.arg(dy.buffer()?).arg(y.map(Tensor::buffer).transpose()?);
        launch.arg(x.buffer()?).arg(dweight.buffer_mut()?).arg(dbias.buffer_mut()?);
        launch.arg(&batch).arg(&inputs).arg(&columns);
        // SAFETY: the kernel writes dW [out, in] and dbias [out] and reads dy and y [batch, out] and x [batch, in] alone, whose
        // shapes were compared; there is one block for each tile of dW, and one in each row of tiles if it has no columns.
        unsafe { launch.launch(config) }
    }
}

/// The kernels add a tile's size to an index, and count in ints.
fn counts(stream: &Stream, sizes: [u32; 3]) -> Result<[i32; 3]> {
    if sizes.iter().all(|&size| size as usize <= LARGEST) {
        Ok(sizes.map(|size| size as i32))
    } else {
        Err(Error::Unsupported {
            what: format!("the backward pass of a linear layer of {sizes:?} (batch, in, out)"),
            device: stream.device().short_name(),
            reason: format!("the kernel counts to {LARGEST} in each of them"),
        })
    }
}
