//! LayerNorm and the linear layer that follows it in one launch, and the effect on the values.
//!
//! LayerNorm(x)·Wᵀ + b is r · (x·W'ᵀ − μ · c) + b' with W' = W · γ, c the sums of the rows of W' and b' = b + W·β: all of it
//! known before x. The product's consumers add up the rows of x on their way to the tensor cores (`fusion_03_layer_norm.cu`).
//!
//! c is computed from the rounded W'. So a row of equal values gives b' whatever W' is: the roundings cancel with the mean.

use bench::ladder::{Expected, positions};
use common::prelude::*;
use common::reference::Reference;
use common::tensor::Element;

use super::Separate;
use crate::gemm::{self, Activation, Epilogue, LARGEST, Layout, OUT_ROWS, Precision, ROW_BYTES, boxes};
use crate::models::parameters::rounded;
use crate::tile::{LoadedTile, TileShape, Tiles, Work};

/// In the order in which they are tried.
const SHAPES: [TileShape; 3] =
    [TileShape::new("Square160", "_128x160"), TileShape::new("Square", "_128x128"), TileShape::new("Small", "_64x64")];

/// Types that the kernels multiply.
pub const PRECISIONS: [Precision; 2] = [Precision::F16, Precision::Tf32];

/// The kernels, loaded.
#[derive(Clone, Debug)]
pub struct LayerNormLinear {
    tiles: Tiles<Precision>,
}

/// A linear layer with the LayerNorm before it in its weights.
#[derive(Debug)]
pub struct FoldedLinear {
    /// W' \[N, K\], rounded to the precision.
    pub weight: Tensor,
    /// c \[N\] of f32.
    pub weight_sums: Tensor,
    /// b' \[N\] of f32.
    pub shift: Tensor,
}

impl FoldedLinear {
    /// Folds `weight` \[N, K\] and `bias` \[N\] with `gamma` and `beta` \[K\] of the norm; all on the host, as is the result.
    /// Sums are computed in f64.
    ///
    /// # Errors
    /// [`Error::Shape`] if the shapes do not match, [`Error::Invalid`] if one is not on the host.
    pub fn new(
        weight: &Tensor,
        bias: &Tensor,
        [gamma, beta]: [&Tensor; 2],
        precision: Precision,
    ) -> Result<FoldedLinear> {
        let [n, k] = weight.dims("a folded linear layer's weight")?;
        bias.expect_shape("a folded linear layer's bias", &[n])?;
        gamma.expect_shape("a folded norm's weight", &[k])?;
        beta.expect_shape("a folded norm's bias", &[k])?;
        let (values, gamma, beta) = (weight.as_slice()?, gamma.as_slice()?, beta.as_slice()?);
        let times_gamma = values.iter().enumerate().map(|(at, value)| value * gamma[at % k]).collect();
        let folded = rounded(&Tensor::from_vec(&[n, k], times_gamma)?, precision)?;
        let wide = folded.to_f64()?;
        let sums = (0..n).map(|row| wide[row * k..][..k].iter().sum::<f64>() as f32).collect();
        let of_beta = |row: usize| -> f64 {
            values[row * k..][..k].iter().zip(beta).map(|(&w, &b)| f64::from(w) * f64::from(b)).sum()
        };
        let shift = bias.as_slice()?.iter().enumerate().map(|(row, &b)| (f64::from(b) + of_beta(row)) as f32).collect();
        Ok(FoldedLinear {
            weight: folded,
            weight_sums: Tensor::from_vec(&[n], sums)?,
            shift: Tensor::from_vec(&[n], shift)?,
        })
    }

    /// A copy on `device`.
    ///
    /// # Errors
    /// Same as [`Tensor::to_device`].
    pub fn to_device(&self, device: &Device) -> Result<FoldedLinear> {
        Ok(FoldedLinear {
            weight: self.weight.to_device(device)?,
            weight_sums: self.weight_sums.to_device(device)?,
            shift: self.shift.to_device(device)?,
        })
    }
}

impl LayerNormLinear {
    /// The kernel file.
    pub const SOURCE: KernelSource = kernel_source!("fusion_03_layer_norm");

    /// Loads the kernels.
    ///
    /// # Errors
    /// Same as [`Device::kernel`]; [`Error::Unsupported`] before compute capability 9.0.
    pub fn load(device: &Device) -> Result<LayerNormLinear> {
        LayerNormLinear::load_from(device, &LayerNormLinear::SOURCE)
    }

    /// The same from another text, such as a kernel with a mistake that a check must find.
    ///
    /// # Errors
    /// Same as [`LayerNormLinear::load`].
    pub fn load_from(device: &Device, source: &KernelSource) -> Result<LayerNormLinear> {
        let module = device.load(source)?;
        let name = |precision: Precision| format!("layer_norm_linear_{precision}");
        Ok(LayerNormLinear { tiles: Tiles::load(device, &module, &SHAPES, "F16", &PRECISIONS, name)? })
    }

    /// The same with only one of its tiles; `None` if it does not have that tile.
    pub fn with_tile(&self, name: &str) -> Option<LayerNormLinear> {
        Some(LayerNormLinear { tiles: self.tiles.only(name)? })
    }

    /// The names of its tiles in the kernel file.
    pub fn tiles(&self) -> impl Iterator<Item = &'static str> {
        self.tiles.names()
    }

    /// Queues y = activation(LayerNorm(x)·Wᵀ + b) for `x` \[M, K\] and `y` \[M, N\] of one type, f16 or f32 (multiplied as tf32), all
    /// on the stream's device.
    ///
    /// # Errors
    /// [`Error::Shape`] if the shapes do not match; [`Error::Unsupported`] with the reason if the kernels do not support this
    /// type or size; [`Error::ElementType`] if y or the weight has another type, [`Error::Invalid`] if a tensor is on the host,
    /// [`Error::WrongDevice`].
    pub fn launch(
        &self,
        stream: &Stream,
        x: &Tensor,
        linear: &FoldedLinear,
        eps: f32,
        activation: Activation,
        y: &mut Tensor,
    ) -> Result<()> {
        let ([m, k], [n, _]) = (x.dims("LayerNorm + linear's x")?, linear.weight.dims("LayerNorm + linear's weight")?);
        linear.weight.expect_shape("LayerNorm + linear's weight", &[n, k])?;
        linear.weight_sums.expect_shape("LayerNorm + linear's sums of weights", &[n])?;
        linear.shift.expect_shape("LayerNorm + linear's shift", &[n])?;
        y.expect_shape("LayerNorm + linear's y", &[m, n])?;
        let refuse = |reason: String| Error::Unsupported {
            what: format!("LayerNorm + linear of {}, M = {m}, N = {n}, K = {k}", x.element_type()),
            device: stream.device().short_name(),
            reason,
        };
        let precision = PRECISIONS.into_iter().find(|precision| precision.input() == x.element_type());
        let precision = precision.ok_or_else(|| refuse("it has kernels for f16 and f32 alone".to_owned()))?;
        if m.max(n).max(k) > LARGEST {
            return Err(refuse(format!("the kernel counts to {LARGEST} in each of them")));
        }
        let size = precision.input().size();
        if k == 0 || ![n, k].iter().all(|values| (values * size).is_multiple_of(16)) {
            return Err(refuse("rows of x, W and y must begin at multiples of 16 bytes, and have values".to_owned()));
        }
        if m == 0 || n == 0 {
            return Ok(());
        }
        let along_k = ROW_BYTES / size;
        let work = Work { rows: m, columns: n, steps: k.div_ceil(along_k), gathered: false };
        let tile = self.tiles.choose(&work, precision).ok_or_else(|| refuse("there is no tile".to_owned()))?;
        let blocks = self.tiles.grid(tile, &work).ok_or_else(|| refuse("it has too many tiles to count".to_owned()))?;
        let call = Call { stream, x, linear, eps, activation, sizes: [m, n, k], along_k };
        match precision {
            Precision::Tf32 => call.launch::<f32>(tile, precision, blocks, y),
            _ => call.launch::<half::f16>(tile, precision, blocks, y),
        }
    }
}

/// Inputs of a launch.
struct Call<'a> {
    stream: &'a Stream,
    x: &'a Tensor,
    linear: &'a FoldedLinear,
    eps: f32,
    activation: Activation,
    sizes: [usize; 3],
    along_k: usize,
}

impl Call<'_> {
    fn launch<T: Element>(
        &self,
        tile: &LoadedTile<Precision>,
        precision: Precision,
        blocks: usize,
        y: &mut Tensor,
    ) -> Result<()> {
        const FORMAT: MemoryFormat = MemoryFormat::Nchw;
        let Call { stream, linear, sizes: [m, n, k], along_k, .. } = *self;
        let ([rows, columns], wide) = (tile.geometry.tile, tile.geometry.out_row / T::TYPE.size());
        let (x, w) = (self.x.buffer_of::<T>(FORMAT)?, linear.weight.buffer_of::<T>(FORMAT)?);
        let x = stream.tensor_map(x, &boxes(T::TYPE, [m, k], [rows, along_k]))?;
        let w = stream.tensor_map(w, &boxes(T::TYPE, [n, k], [columns, along_k]))?;
        let mut y = stream.tensor_map_mut(y.buffer_of_mut::<T>(FORMAT)?, &boxes(T::TYPE, [m, n], [OUT_ROWS, wide]))?;
        let [m, n, k] = [m, n, k].map(|size| size as i32); // up to LARGEST
        let activation = Epilogue { activation: self.activation, ..Epilogue::default() }.activation_number();
        let mut launch = stream.launch_builder(tile.kernel(precision)?);
        launch.arg(&x).arg(&w).arg(&mut y).arg(linear.weight_sums.buffer()?).arg(linear.shift.buffer()?);
        launch.arg(&self.eps).arg(&m).arg(&n).arg(&k).arg(&activation);
        launch.dependent();
        let config = LaunchConfig {
            grid_dim: (blocks as u32, 1, 1), // or Error::LaunchConfig
            block_dim: (tile.geometry.threads, 1, 1),
            shared_mem_bytes: tile.geometry.shared_bytes,
        };
        // SAFETY: the kernel writes y [M, N] and reads x [M, K], W' [N, K] and both vectors [N] alone, whose shapes and types were
        // compared; the grid's blocks share out the tiles of y.
        unsafe { launch.launch(config) }
    }
}

/// How the norm is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// By a separate kernel: x̂ is rounded, then multiplied.
    Separate,
    /// After the product.
    Fused,
}

/// A LayerNorm and a linear layer of random values, and their expected results.
#[derive(Debug)]
pub struct LayerNormProblem {
    /// \[M, K\], in f16 or f32: the input of both ways. Its rows have different means and deviations.
    pub x: Tensor,
    /// \[K\] each: the norm's weight and bias.
    pub norm: [Tensor; 2],
    /// \[N, K\] and \[N\] of f32.
    pub linear: [Tensor; 2],
    /// Added to the variance.
    pub eps: f32,
    precision: Precision,
    sample: Option<Vec<usize>>,
    exact: Vec<f64>,
    /// Largest sums of magnitudes: of x̂·W, and of r · x·W'.
    magnitudes: [f64; 2],
    /// The largest distance of a row's first value from its mean, in deviations.
    first_away: f64,
}

/// Number of outputs compared where all would take too long.
const SAMPLE: usize = 1 << 12;

impl LayerNormProblem {
    /// Rows of `inputs` values, whose mean is `ratio` times their deviation or, in every other row, minus that.
    ///
    /// # Errors
    /// None: the shapes fit.
    pub fn seeded([rows, inputs, outputs]: [usize; 3], ratio: f32, precision: Precision) -> Result<LayerNormProblem> {
        let values = Tensor::random(&[rows, inputs], 1).into_vec()?;
        let deviation = 1.0 / 3f32.sqrt(); // of values in (−1, 1)
        let of_row = |at: usize| {
            let row = at / inputs;
            let sign = if row.is_multiple_of(2) { 1.0 } else { -1.0 };
            (sign * ratio * deviation, 0.5 + (row % 5) as f32 * 0.25)
        };
        let moved = values.iter().enumerate().map(|(at, value)| {
            let (mean, scale) = of_row(at);
            scale * (value + mean)
        });
        let x = Tensor::from_vec(&[rows, inputs], moved.collect())?.to_type(precision.input())?;
        let spread = 1.0 / (inputs as f32).sqrt();
        let around = |shape: &[usize], seed: u64, centre: f32, spread: f32| {
            let values = Tensor::random(shape, seed).into_vec()?;
            Tensor::from_vec(shape, values.iter().map(|value| centre + spread * value).collect())
        };
        let norm = [around(&[inputs], 2, 1.0, 0.5)?, around(&[inputs], 3, 0.0, 0.5)?];
        // Columns whose weights do not add up to nothing, for otherwise the mean would hardly matter.
        let linear = [around(&[outputs, inputs], 4, 0.3 * spread, spread)?, around(&[outputs], 5, 0.0, 0.5)?];
        let all = rows * inputs * outputs <= 1 << 26;
        let sample = (!all).then(|| positions(rows * outputs, SAMPLE, 6));
        let problem = LayerNormProblem {
            x,
            norm,
            linear,
            eps: 1e-5,
            precision,
            sample,
            exact: Vec::new(),
            magnitudes: [0.0; 2],
            first_away: 0.0,
        };
        problem.solved([rows, inputs, outputs])
    }

    /// The same with another `eps`.
    ///
    /// # Errors
    /// None: the values are on the host.
    pub fn with_eps(self, eps: f32) -> Result<LayerNormProblem> {
        let ([rows, inputs], [outputs, _]) = (self.x.dims("x")?, self.linear[0].dims("W")?);
        LayerNormProblem { eps, ..self }.solved([rows, inputs, outputs])
    }

    fn solved(self, [rows, inputs, outputs]: [usize; 3]) -> Result<LayerNormProblem> {
        let (x, [gamma, beta], [w, b]) = (self.x.to_f64()?, &self.norm, &self.linear);
        let (gamma, beta, w, b) = (gamma.as_slice()?, beta.as_slice()?, w.as_slice()?, b.as_slice()?);
        let mut first_away = 0.0f64;
        let moments: Vec<[f64; 2]> = x
            .chunks(inputs)
            .map(|row| {
                let mean = row.iter().sum::<f64>() / inputs as f64;
                let variance = row.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / inputs as f64;
                let scale = 1.0 / (variance + f64::from(self.eps)).sqrt();
                first_away = first_away.max((row[0] - mean).abs() * scale);
                [mean, scale]
            })
            .collect();
        let mut magnitudes = [0.0f64; 2];
        let mut of = |at: usize| {
            let (row, column) = (at / outputs, at % outputs);
            let [mean, scale] = moments[row];
            let (mut sum, mut separate, mut fused) = (f64::from(b[column]), 0.0, 0.0);
            for i in 0..inputs {
                let (x, w) = (x[row * inputs + i], f64::from(w[column * inputs + i]));
                let normalised = (x - mean) * scale * f64::from(gamma[i]) + f64::from(beta[i]);
                sum += normalised * w;
                separate += (normalised * w).abs();
                fused += (scale * x * w * f64::from(gamma[i])).abs();
            }
            magnitudes = [magnitudes[0].max(separate), magnitudes[1].max(fused)];
            sum
        };
        let exact = match &self.sample {
            None => (0..rows * outputs).map(&mut of).collect(),
            Some(sample) => sample.iter().map(|&at| of(at)).collect(),
        };
        Ok(LayerNormProblem { exact, magnitudes, first_away, ..self })
    }

    /// Expected results, and their tolerance (`LayerNormProblem::tolerance`).
    ///
    /// # Errors
    /// None: the sample is one of the outputs.
    pub fn expected(&self, way: Way) -> Result<Expected> {
        let reference = Reference { values: self.exact.clone(), terms: 0, magnitude: 0.0 };
        let expected = match &self.sample {
            None => Expected::all(reference),
            Some(sample) => {
                let ([rows, _], [outputs, _]) = (self.x.dims::<2>("x")?, self.linear[0].dims::<2>("W")?);
                Expected::sample(rows * outputs, sample.clone(), reference)?
            }
        };
        Ok(expected.within(self.tolerance(way)))
    }

    /// Upper bound of the roundings:
    ///
    /// - each weight's, and each x̂'s where it is stored: of the magnitudes of x̂·W. tf32 cuts x̂ off, by twice a rounding;
    /// - what tf32 cuts off of x, where x itself is multiplied: of the magnitudes of r · x·W', which grow with |μ| · r;
    /// - sums of products (`TensorGemm`): of what is added up;
    /// - mean and deviation in f32: a rounding per value, enlarged by the first value's distance squared;
    /// - the result's.
    fn tolerance(&self, way: Way) -> common::check::Tolerance {
        let ([separate, fused], u) = (self.magnitudes, common::check::F32_ROUND_OFF);
        let terms = self.linear[0].shape()[1] as f64;
        let of_weight = 2f64.powi(-11) + 2.0 * u;
        let (stored, cut) = match self.precision {
            Precision::Tf32 => (2f64.powi(-10), 2f64.powi(-10)),
            _ => (2f64.powi(-11), 0.0),
        };
        let sums = (terms / 4.0 + 2.0) * 2f64.powi(-22);
        let moments = (terms + 16.0) * u;
        let most = self.exact.iter().fold(0.0, |most: f64, value| most.max(value.abs()));
        let absolute = match way {
            Way::Separate => separate * (of_weight + stored + sums + 2.0 * moments) + most * 4.0 * u,
            Way::Fused => {
                let of_scale = moments * (1.0 + self.first_away.powi(2));
                separate * of_weight + fused * (cut + sums + 8.0 * u) + (separate + most) * of_scale
            }
        };
        let result = if self.precision == Precision::F16 { 2f64.powi(-11) } else { u };
        common::check::Tolerance::new(absolute * (1.0 + result) + 2f64.powi(-25), result)
    }

    /// Result y on a device, poisoned first.
    ///
    /// # Errors
    /// Errors of the device; [`Error::Unsupported`] before compute capability 9.0.
    pub fn run(&self, device: &Device, way: Way) -> Result<Tensor> {
        match way {
            Way::Separate => {
                let operands = SeparateOperands::new(self, device)?;
                let (mut normalised, mut y) = (operands.like_x(device)?, self.output(device)?);
                operands.launch(&device.stream(), &gemm::Tuned::load(device)?, &mut normalised, &mut y)?;
                Ok(y)
            }
            Way::Fused => self.run_by(device, &LayerNormLinear::load(device)?),
        }
    }

    /// Result y of these kernels, poisoned first.
    ///
    /// # Errors
    /// Errors of the device.
    pub fn run_by(&self, device: &Device, kernels: &LayerNormLinear) -> Result<Tensor> {
        let (x, linear, mut y) = (self.x.to_device(device)?, self.folded()?.to_device(device)?, self.output(device)?);
        kernels.launch(&device.stream(), &x, &linear, self.eps, Activation::None, &mut y)?;
        Ok(y)
    }

    /// The layers as one.
    ///
    /// # Errors
    /// None: the shapes fit.
    pub fn folded(&self) -> Result<FoldedLinear> {
        let ([gamma, beta], [w, b]) = (&self.norm, &self.linear);
        FoldedLinear::new(w, b, [gamma, beta], self.precision)
    }

    /// Memory for y, filled with NaN.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`].
    pub fn output(&self, device: &Device) -> Result<Tensor> {
        let shape = [self.x.shape()[0], self.linear[0].shape()[0]];
        let mut y = Tensor::empty_of(device, &shape, self.precision.output(), MemoryFormat::Nchw)?;
        y.poison(&device.stream())?;
        Ok(y)
    }
}

/// The layers one by one, on a device.
#[derive(Debug)]
pub struct SeparateOperands {
    x: Tensor,
    norm: [Tensor; 2],
    weight: Tensor,
    bias: Tensor,
    eps: f32,
    in_f16: Option<Separate>,
    in_f32: phase3_all_layers::layers::LayerNorm,
}

impl SeparateOperands {
    /// Operands of a problem.
    ///
    /// # Errors
    /// Errors of the device.
    pub fn new(problem: &LayerNormProblem, device: &Device) -> Result<SeparateOperands> {
        let ([gamma, beta], [w, b]) = (&problem.norm, &problem.linear);
        Ok(SeparateOperands {
            x: problem.x.to_device(device)?,
            norm: [gamma.to_device(device)?, beta.to_device(device)?],
            weight: rounded(w, problem.precision)?.to_device(device)?,
            bias: b.to_device(device)?,
            eps: problem.eps,
            in_f16: (problem.precision == Precision::F16).then(|| Separate::load(device)).transpose()?,
            in_f32: phase3_all_layers::layers::LayerNorm::load(device)?,
        })
    }

    /// Memory for x̂.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`].
    pub fn like_x(&self, device: &Device) -> Result<Tensor> {
        Tensor::empty_of(device, self.x.shape(), self.x.element_type(), MemoryFormat::Nchw)
    }

    /// Queues both launches.
    ///
    /// # Errors
    /// Same as [`gemm::Gemm::launch`].
    pub fn launch(
        &self,
        stream: &Stream,
        product: &gemm::Tuned,
        normalised: &mut Tensor,
        y: &mut Tensor,
    ) -> Result<()> {
        let [weight, bias] = [&self.norm[0], &self.norm[1]];
        let norm = common::reference::LayerNorm { weight, bias, eps: self.eps };
        match &self.in_f16 {
            Some(separate) => separate.layer_norm(stream, &self.x, &norm, normalised)?,
            None => self.in_f32.launch(stream, &self.x, &norm, normalised)?,
        }
        let epilogue = Epilogue { shift: Some(&self.bias), ..Epilogue::default() };
        product.launch(stream, normalised, &self.weight, Layout::Transposed, &epilogue, y)
    }
}
