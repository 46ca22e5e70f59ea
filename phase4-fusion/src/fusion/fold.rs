//! BatchNorm in a convolution's weights, or in its epilogue: one launch either way, with different effects on the values.
//!
//! Both are one launch. Folded, the weights are w · scale, rounded once more, and the vector of scales is not read: 4 bytes per
//! channel. In the epilogue the weights stay what they were, and the sum in f32 is scaled. The two differ where w · scale leaves the
//! range of the weights' type: f16 has full precision down to 2⁻¹⁴ only.

use common::check::F32_ROUND_OFF;
use common::prelude::*;
use common::reference::{self, BatchNorm, Conv2dParams};

use crate::conv;
use crate::gemm::{Epilogue, Precision};
use crate::models::Arithmetic;
use crate::models::parameters::{rounded, scaled};

/// Where BatchNorm's scale is applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScaleIn {
    /// On the sums. In f32, whose convolutions (phase 2) have an epilogue without a scale, that is a separate pass.
    Epilogue,
    /// On the weights, beforehand.
    Weights,
}

/// A convolution 3 × 3 with the scale and shift that follow it, of random values, and its exact results.
#[derive(Debug)]
pub struct FoldProblem {
    x: Tensor,
    w: Tensor,
    scale: Tensor,
    shift: Tensor,
    params: Conv2dParams,
    /// \[N, K, P, Q\], unrounded.
    exact: Vec<f64>,
    output: Vec<usize>,
    /// Largest sum of the magnitudes of a sum's products.
    magnitude: f64,
    /// Largest sum of the magnitudes of a window's values.
    window: f64,
}

impl FoldProblem {
    /// `channels` to as many, on one image of `size` × `size`: weights initialised as by He et al., scales around `typical` and
    /// shifts of the same size.
    ///
    /// # Errors
    /// None: the shapes fit.
    pub fn seeded(channels: usize, size: usize, typical: f32) -> Result<FoldProblem> {
        let params = Conv2dParams::new(1, 1);
        let spread = (2.0 / (9.0 * channels as f32)).sqrt();
        let of = |shape: &[usize], seed: u64, centre: f32, spread: f32| {
            let values = Tensor::random(shape, seed).into_vec()?;
            Tensor::from_vec(shape, values.iter().map(|value| centre + spread * value).collect())
        };
        // Inputs that f16 and tf32 have exactly: what is left are the weights' roundings.
        let x = Tensor::random(&[1, channels, size, size], 1).to_type(ElementType::F16)?.to_type(ElementType::F32)?;
        let w = of(&[channels, channels, 3, 3], 2, 0.0, spread)?;
        let scale = of(&[channels], 3, typical, 0.5 * typical)?;
        let shift = of(&[channels], 4, 0.0, typical)?;
        let sums = reference::conv2d(&x, &w, None, params)?;
        let plane = size * size;
        let of_channel =
            |vector: &Tensor, at: usize| Ok::<_, Error>(f64::from(vector.as_slice()?[at / plane % channels]));
        let scale_of = |(at, sum): (usize, &f64)| Ok(of_channel(&scale, at)? * sum + of_channel(&shift, at)?);
        let exact = sums.values.iter().enumerate().map(scale_of).collect::<Result<_>>()?;
        let output = params.output_shape(&x, &w)?.to_vec();
        let window = 9.0 * channels as f64;
        Ok(FoldProblem { x, w, scale, shift, params, exact, output, magnitude: sums.magnitude, window })
    }

    /// The results of a convolution on the device, \[N, K, P, Q\] in row-major order.
    ///
    /// # Errors
    /// Errors of the device; [`Error::Unsupported`] for tensor cores before compute capability 9.0.
    pub fn run(&self, device: &Device, arithmetic: Arithmetic, scale_in: ScaleIn) -> Result<Vec<f64>> {
        let weights = match scale_in {
            ScaleIn::Epilogue => self.w.to_type(ElementType::F32)?,
            ScaleIn::Weights => scaled(&self.w, self.scale.as_slice()?)?,
        };
        let shift = self.shift.to_device(device)?;
        match arithmetic.on_tensor_cores() {
            None => self.run_f32(device, &weights.to_device(device)?, &shift, scale_in),
            Some(precision) => self.run_on_tensor_cores(device, &weights, &shift, scale_in, precision),
        }
    }

    fn run_f32(&self, device: &Device, w: &Tensor, shift: &Tensor, scale_in: ScaleIn) -> Result<Vec<f64>> {
        let (stream, x) = (device.stream(), self.x.to_device(device)?);
        let mut y = Tensor::full(&self.output, f32::NAN).to_device(device)?;
        let conv = phase2_conv_bn::conv::step16_tuned::STEP.load(device)?;
        let bias = (scale_in == ScaleIn::Weights).then_some(shift);
        conv.launch(&stream, &x, w, bias, self.params, &mut y)?;
        if scale_in == ScaleIn::Epilogue {
            let channels = shift.shape();
            let (zeros, ones) =
                (Tensor::zeros(channels).to_device(device)?, Tensor::full(channels, 1.0).to_device(device)?);
            let scale = self.scale.to_device(device)?;
            let norm = BatchNorm { weight: &scale, bias: shift, mean: &zeros, variance: &ones, eps: 0.0 };
            let norm = phase2_conv_bn::norm::batch_norm::VECTORISED.load(device)?.layer(&stream, &norm)?;
            norm.launch_in_place(&stream, &mut y)?;
        }
        y.to_f64()
    }

    fn run_on_tensor_cores(
        &self,
        device: &Device,
        w: &Tensor,
        shift: &Tensor,
        scale_in: ScaleIn,
        precision: Precision,
    ) -> Result<Vec<f64>> {
        let there = |tensor: Tensor| tensor.to_format(MemoryFormat::Nhwc)?.to_device(device);
        let x = there(self.x.to_type(precision.input())?)?;
        let w = there(rounded(w, precision)?)?;
        let scale = self.scale.to_device(device)?;
        let scale = (scale_in == ScaleIn::Epilogue).then_some(&scale);
        let mut y = Tensor::empty_of(device, &self.output, precision.output(), MemoryFormat::Nhwc)?;
        y.poison(&device.stream())?;
        let epilogue = Epilogue { scale, shift: Some(shift), ..Epilogue::default() };
        conv::Tuned::load(device)?.launch(&device.stream(), &x, &w, self.params, &epilogue, &mut y)?;
        y.to_host()?.to_format(MemoryFormat::Nchw)?.to_f64()
    }

    /// Maximum difference of results from the exact ones, each in units of its channel's scale; NaN counts as infinite.
    ///
    /// # Errors
    /// None: the scales are on the host.
    pub fn difference(&self, found: &[f64]) -> Result<f64> {
        let (scale, plane) = (self.scale.as_slice()?, self.output[2] * self.output[3]);
        let each = found.iter().zip(&self.exact).enumerate().map(|(at, (found, exact))| {
            let away = (found - exact).abs() / f64::from(scale[at / plane % scale.len()]);
            if away.is_nan() { f64::INFINITY } else { away }
        });
        Ok(each.fold(0.0, f64::max))
    }

    /// Maximum allowed [`FoldProblem::difference`]: the rounding of each weight, relative to it or, below the type's smallest
    /// power of two with full precision, to that; of the sums, in f32; and of the result.
    pub fn allowed(&self, arithmetic: Arithmetic, scale_in: ScaleIn) -> f64 {
        let (weights, smallest) = match arithmetic {
            Arithmetic::F32 => (2.0 * F32_ROUND_OFF, 0.0),
            // To the nearest of what is multiplied; the scaled value is an f32 first.
            Arithmetic::Tf32 => (2f64.powi(-11) + 2.0 * F32_ROUND_OFF, 0.0),
            // Plans of bytes have none of this layer.
            Arithmetic::F16 | Arithmetic::Int8 | Arithmetic::Fp8 => {
                (2f64.powi(-11) + 2.0 * F32_ROUND_OFF, 2f64.powi(-25))
            }
        };
        let scales = self.scale.as_slice().unwrap_or_default();
        let least = f64::from(scales.iter().copied().fold(f32::INFINITY, f32::min));
        let smallest = if scale_in == ScaleIn::Weights { smallest / least } else { smallest };
        // Shifts are at most twice the scales. Sums in f32 lose at most one rounding per product, and some in the epilogue.
        let (sum, result) = (self.magnitude + 2.0, if arithmetic == Arithmetic::F16 { 2f64.powi(-11) } else { 0.0 });
        weights * self.magnitude + smallest * self.window + sum * (result + (self.window + 8.0) * 2.0 * F32_ROUND_OFF)
    }
}
