//! BatchNorm, and the statistics of channels.

use super::{Reference, Sum};
use crate::Tensor;
use crate::check::Tolerance;
#[cfg(doc)]
use crate::error::Error;
use crate::error::Result;
use crate::parallel;

/// A BatchNorm layer for inference: one value of each parameter per channel.
#[derive(Clone, Copy, Debug)]
pub struct BatchNorm<'a> {
    /// γ.
    pub weight: &'a Tensor,
    /// β.
    pub bias: &'a Tensor,
    /// Running mean.
    pub mean: &'a Tensor,
    /// Running variance.
    pub variance: &'a Tensor,
    /// Added to the variance; PyTorch's default is 1e-5.
    pub eps: f32,
}

impl BatchNorm<'_> {
    /// For each channel: γ, β, mean, variance.
    pub(crate) fn channels(&self, input: &Tensor) -> Result<Vec<[f32; 4]>> {
        let [_, channels, _, _] = input.dims4()?;
        let parts = [self.weight, self.bias, self.mean, self.variance];
        for part in parts {
            part.expect_shape("batch_norm", &[channels])?;
        }
        let [weight, bias, mean, variance] = parts.map(Tensor::as_slice);
        let (weight, bias, mean, variance) = (weight?, bias?, mean?, variance?);
        Ok((0..channels).map(|c| [weight[c], bias[c], mean[c], variance[c]]).collect())
    }
}

/// (x − mean) / √(variance + eps) · γ + β, for an input \[N, C, H, W\] (Ioffe and Szegedy, 2015, with running statistics).
///
/// # Errors
/// [`Error::Shape`] if a parameter does not have one value per channel; [`Error::Invalid`] if a tensor is on a device.
pub fn batch_norm(input: &Tensor, norm: &BatchNorm<'_>) -> Result<Reference> {
    let channels = norm.channels(input)?;
    let values = input.as_slice()?;
    let [_, c, h, w] = input.dims4()?;
    // Seven roundings: subtraction, sum with eps, root, division, product, sum, and one for a folded scale.
    Ok(Reference::collect(values.len(), 7, |i| {
        let [weight, bias, mean, variance] = channels[i / (h * w) % c].map(f64::from);
        let scale = weight / (variance + f64::from(norm.eps)).sqrt();
        let mut sum = Sum::default();
        sum.add(f64::from(values[i]) * scale);
        sum.add(-mean * scale);
        sum.add(bias);
        sum
    }))
}

/// [`batch_norm`] in plain f32.
///
/// # Errors
/// Same as [`batch_norm`].
pub fn batch_norm_f32(input: &Tensor, norm: &BatchNorm<'_>) -> Result<Tensor> {
    let channels = norm.channels(input)?;
    let [_, c, h, w] = input.dims4()?;
    let x = input.as_slice()?;
    let values = parallel::collect(x.len(), &|i| {
        let [weight, bias, mean, variance] = channels[i / (h * w) % c];
        (x[i] - mean) / (variance + norm.eps).sqrt() * weight + bias
    });
    Tensor::from_vec(input.shape(), values)
}

/// Mean and variance of each channel, and error bounds for f32: see [`statistics`].
#[derive(Clone, Debug)]
pub struct Statistics {
    /// Σ x / M over the M = N·H·W values of a channel.
    pub mean: Vec<f64>,
    /// Σ (x − mean)² / M: biased, as in normalisation.
    pub variance: Vec<f64>,
    /// The largest |x|.
    largest: f64,
}

impl Statistics {
    /// Tolerance of means by sums or by merging, where a value takes part in at most `depth` additions or merges: a merge
    /// rounds the running mean, of at most max |x|, three times; a sum is rounded once per addition and once by the
    /// division.
    pub fn mean_tolerance(&self, depth: usize) -> Tolerance {
        Tolerance::elementwise(3 * depth + 3, self.largest)
    }

    /// Tolerance of variances as Σ x² / M − mean², where a value takes part in at most `depth` additions. Both terms are of the
    /// order of max x², and their errors scale with that, however small the difference is: a square and `depth` additions for
    /// the first, the square of a mean with `depth + 1` roundings for the second, and the subtraction.
    pub fn variance_tolerance_of_squares(&self, depth: usize) -> Tolerance {
        Tolerance::elementwise(3 * depth + 8, self.largest * self.largest)
    }

    /// Tolerance of variances by merging counts, means and squared distances (Welford; Chan, Golub and LeVeque, "Algorithms for
    /// Computing the Sample Variance", 1983), where a value takes part in at most `depth` merges.
    ///
    /// Each mean is off by at most η = [`Statistics::mean_tolerance`]. Merging parts of a and b values at a distance δ adds
    /// w·δ², w = a·b / (a + b), and all these add up to M·variance. Each δ is off by 2η at most, so the sum is off by Σ
    /// w·(4·|δ|·η + 4·η²) ≤ M·(4η·√(t·variance) + 4t·η²), by Cauchy and Schwarz, with Σ w ≤ t·M: t = 1 for appending to a
    /// running result, ½ for each level of a tree. The roundings of the sum itself are added to that.
    pub fn variance_tolerance_merged(&self, depth: usize) -> Tolerance {
        let eta = self.mean_tolerance(depth).absolute;
        let variance = self.variance.iter().copied().fold(0.0, f64::max);
        let t = 1.0 + depth as f64 / 2.0;
        let own = Tolerance::elementwise(5 * depth + 5, variance).absolute;
        Tolerance::absolute(4.0 * eta * (t * variance).sqrt() + 4.0 * t * eta * eta + own)
    }
}

/// Mean and variance of each channel over N, H and W of an input \[N, C, H, W\], by two passes in f64. Both are NaN for
/// channels without values.
///
/// # Errors
/// [`Error::Shape`] unless the input has 4 dimensions, [`Error::Invalid`] if it is on a device.
pub fn statistics(input: &Tensor) -> Result<Statistics> {
    let [_, channels, height, width] = input.dims4()?;
    let values = input.as_slice()?;
    let plane = (height * width).max(1);
    let of_channel = |c: usize| {
        let planes = values.chunks_exact(plane).skip(c).step_by(channels);
        planes.flatten().map(|&value| f64::from(value))
    };
    let of_channels = parallel::collect(channels, &|c| {
        let count = of_channel(c).count() as f64;
        let mean = of_channel(c).sum::<f64>() / count;
        (mean, of_channel(c).map(|value| (value - mean).powi(2)).sum::<f64>() / count)
    });
    let (mean, variance) = of_channels.into_iter().unzip();
    let largest = values.iter().map(|value| f64::from(value.abs())).fold(0.0, f64::max);
    Ok(Statistics { mean, variance, largest })
}
