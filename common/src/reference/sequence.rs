//! Sequence layers: LayerNorm, row normalisation, softmax, transposition, attention.

use crate::Tensor;
use crate::check::Tolerance;
use crate::error::{Error, Result};
use crate::parallel;

/// Values computed in f64, and the error bound of an f32 implementation, for results that are not plain sums.
#[derive(Clone, Debug)]
pub struct Bounded {
    /// The results, in the order of the operation's output.
    pub values: Vec<f64>,
    /// The derivation is in the doc of each operation.
    pub tolerance: Tolerance,
}

/// γ(n): the largest relative change of a value by n successive roundings.
fn gamma(roundings: usize) -> f64 {
    Tolerance::elementwise(roundings, 1.0).absolute
}

/// A LayerNorm over the last dimension.
#[derive(Clone, Copy, Debug)]
pub struct LayerNorm<'a> {
    /// γ, one value per column.
    pub weight: &'a Tensor,
    /// β, one value per column.
    pub bias: &'a Tensor,
    /// Added to the variance; PyTorch's default is 1e-5.
    pub eps: f32,
}

impl LayerNorm<'_> {
    /// The columns of `input` \[…, D\].
    ///
    /// # Errors
    /// [`Error::Shape`] if the input has no dimension, or weight and bias do not have one value per column.
    pub fn columns(&self, input: &Tensor) -> Result<usize> {
        let columns = columns_of("layer_norm", input)?;
        self.weight.expect_shape("layer_norm's weight", &[columns])?;
        self.bias.expect_shape("layer_norm's bias", &[columns])?;
        Ok(columns)
    }
}

/// Size of the last dimension.
///
/// # Errors
/// [`Error::Shape`] if there is none.
pub(crate) fn columns_of(operation: &str, input: &Tensor) -> Result<usize> {
    input.shape().last().copied().ok_or_else(|| Error::shape(operation, "the input has no dimension"))
}

/// (x − mean) / √(variance + eps) · γ + β with mean and biased variance of each row of an input \[…, D\] (Ba, Kiros and Hinton,
/// 2016).
///
/// The tolerance holds for a variance by two passes, Σ (x − mean)² / D, sums in any order. The mean is off by at most η = γ(D +
/// 1)·Σ|x| / D. Since Σ (x − mean) = 0, that enlarges the variance only by η², so with the roundings of differences, squares
/// and sum, variance + eps is off by ρ = (η² + γ(D + 5)·(variance + η²)) / (variance + eps) + u, relatively, and 1 / √ of it by
/// no more than ρ + γ(2) (for ρ < ½). A result is then off by |γ| / √(variance + eps) times
/// |x − mean|·(ρ + γ(6)) + η·(1 + ρ + γ(6)), and by γ(1) of its own size plus |β|.
///
/// # Errors
/// [`Error::Shape`], see [`LayerNorm::columns`]; [`Error::Invalid`] if a tensor is on a device.
pub fn layer_norm(input: &Tensor, norm: &LayerNorm<'_>) -> Result<Bounded> {
    let columns = norm.columns(input)?;
    let (weight, bias) = (norm.weight.as_slice()?, norm.bias.as_slice()?);
    let rows: Vec<&[f32]> = input.as_slice()?.chunks(columns.max(1)).collect();
    let rows = parallel::collect(rows.len(), &|i| {
        let row = rows[i];
        let count = columns as f64;
        let mean = row.iter().map(|&x| f64::from(x)).sum::<f64>() / count;
        let variance = row.iter().map(|&x| (f64::from(x) - mean).powi(2)).sum::<f64>() / count;
        let denominator = variance + f64::from(norm.eps);
        let eta = gamma(columns + 1) * row.iter().map(|&x| f64::from(x.abs())).sum::<f64>() / count;
        let rho = (eta * eta + gamma(columns + 5) * (variance + eta * eta)) / denominator + gamma(1);
        let mut bound = 0.0f64;
        let values = row.iter().zip(weight).zip(bias).map(|((&x, &weight), &bias)| {
            let (distance, weight, bias) = (f64::from(x) - mean, f64::from(weight), f64::from(bias));
            let scale = weight / denominator.sqrt();
            let of_product = distance.abs() * (rho + gamma(6)) + eta * (1.0 + rho + gamma(6));
            bound = bound.max(scale.abs() * of_product + gamma(1) * ((scale * distance).abs() + 2.0 * bias.abs()));
            distance * scale + bias
        });
        (values.collect::<Vec<_>>(), bound)
    });
    Ok(collect_rows(rows))
}

/// Rows and their largest bound.
fn collect_rows(rows: Vec<(Vec<f64>, f64)>) -> Bounded {
    let bound = rows.iter().map(|(_, bound)| *bound).fold(0.0, f64::max);
    let values = rows.into_iter().flat_map(|(values, _)| values).collect();
    Bounded { values, tolerance: Tolerance::absolute(bound) }
}

/// The smallest divisor of [`row_norm`], as in PyTorch's `normalize`.
pub const SMALLEST_NORM: f32 = 1e-12;

/// x / max(‖x‖₂, 1e-12) for each row of an input \[…, C\].
///
/// The tolerance holds if no square and no sum of squares overflows or underflows: the sum of squares has a relative error of
/// γ(C), its root at most that plus one rounding, and the division rounds once more.
///
/// # Errors
/// [`Error::Shape`] if the input has no dimension; [`Error::Invalid`] if it is on a device.
pub fn row_norm(input: &Tensor) -> Result<Bounded> {
    let columns = columns_of("row_norm", input)?;
    let mut values: Vec<f64> = input.as_slice()?.iter().map(|&x| f64::from(x)).collect();
    parallel::change_chunks(&mut values, columns, &|_, row| {
        let norm = row.iter().map(|x| x.powi(2)).sum::<f64>().sqrt();
        let divisor = if norm < f64::from(SMALLEST_NORM) { f64::from(SMALLEST_NORM) } else { norm };
        row.iter_mut().for_each(|x| *x /= divisor);
    });
    Ok(Bounded { values, tolerance: Tolerance::relative(gamma(columns + 2)) })
}

/// e^(x − max) / Σ e^(x − max) over each row of an input \[…, C\]. Rows with NaN, with +∞ or of −∞ only become NaN, as in PyTorch.
///
/// The tolerance is `softmax_bound` for the largest distance of a finite value from its row's maximum, plus the smallest normal
/// f32, below which e^x may become 0.
///
/// # Errors
/// [`Error::Shape`] if the input has no dimension; [`Error::Invalid`] if it is on a device.
pub fn softmax(input: &Tensor) -> Result<Bounded> {
    let columns = columns_of("softmax", input)?;
    let rows: Vec<&[f32]> = input.as_slice()?.chunks(columns.max(1)).collect();
    let rows = parallel::collect(rows.len(), &|i| {
        let row: Vec<f64> = rows[i].iter().map(|&x| f64::from(x)).collect();
        let finite = row.iter().copied().filter(|x| x.is_finite());
        let (least, most) = finite.fold((f64::INFINITY, f64::NEG_INFINITY), |(a, b), x| (a.min(x), b.max(x)));
        (softmax_of_row(&row), (most - least).max(0.0))
    });
    let range = rows.iter().map(|(_, range)| *range).fold(0.0, f64::max);
    let tolerance = Tolerance::new(f64::from(f32::MIN_POSITIVE), softmax_bound(columns, range));
    Ok(Bounded { values: rows.into_iter().flat_map(|(row, _)| row).collect(), tolerance })
}

fn softmax_of_row(row: &[f64]) -> Vec<f64> {
    let most = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let powers: Vec<f64> = row.iter().map(|x| (x - most).exp()).collect();
    let sum = powers.iter().sum::<f64>();
    powers.into_iter().map(|power| power / sum).collect()
}

/// The relative error bound of softmax in f32 over `columns` values at most `range` below their maximum, whether the maximum is
/// found beforehand or online.
///
/// A difference x − max has a rounding error of at most u·range, which is the relative error of its power; `expf` is off by up
/// to 2 ulp (CUDA C++ Programming Guide, "Mathematical Functions"), which are four u. The sum takes `columns` additions; in the
/// online version each may come with a power to rescale by, and a product. All these differences together are no larger than
/// the range. With the numerator's power and the division: γ(6·columns + 6 + 2·range).
fn softmax_bound(columns: usize, range: f64) -> f64 {
    gamma(6 * columns + 6 + (2.0 * range).ceil() as usize)
}

/// \[B, R, C\] → \[B, C, R\].
///
/// # Errors
/// [`Error::Shape`] unless the input has 3 dimensions; [`Error::Invalid`] if it is on a device.
pub fn transpose(input: &Tensor) -> Result<Tensor> {
    let [batch, rows, columns] = input.dims("transpose")?;
    let values = input.as_slice()?;
    Ok(Tensor::from_fn(&[batch, columns, rows], |i| values[(i[0] * rows + i[2]) * columns + i[1]]))
}

/// The size of an attention layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AttentionSize {
    /// B.
    pub batch: usize,
    /// T.
    pub tokens: usize,
    /// C, of all heads together.
    pub channels: usize,
    /// Heads, each with channels / heads of the channels.
    pub heads: usize,
}

impl AttentionSize {
    /// The size for `qkv` \[B, T, 3·C\].
    ///
    /// # Errors
    /// [`Error::Shape`] if qkv has a different shape, or C is not a multiple of `heads`.
    pub fn of(qkv: &Tensor, heads: usize) -> Result<AttentionSize> {
        let [batch, tokens, columns] = qkv.dims("attention")?;
        if heads == 0 || columns % 3 != 0 || columns / 3 % heads != 0 {
            let detail = format!("qkv {:?} with {heads} heads: the last dimension must be 3 · heads · d", qkv.shape());
            return Err(Error::shape("attention", detail));
        }
        Ok(AttentionSize { batch, tokens, channels: columns / 3, heads })
    }

    /// d, the channels of a head.
    pub fn of_head(&self) -> usize {
        self.channels / self.heads
    }

    /// The factor of the scores: 1 / √d.
    pub fn scale(&self) -> f64 {
        1.0 / (self.of_head() as f64).sqrt()
    }

    /// The shape of the scores, \[B · heads, T, T\].
    pub fn scores_shape(&self) -> [usize; 3] {
        [self.batch * self.heads, self.tokens, self.tokens]
    }
}

/// softmax(Q·Kᵀ / √d)·V for each image and head (Vaswani et al., 2017), from `qkv` \[B, T, 3·C\] to \[B, T, C\]: q, k and v of head h are
/// the columns h·d … (h + 1)·d of the first, second and third C.
///
/// A score is off by at most σ = γ(d + 3)·Σ|q·k| / √d. So the numerator and each term of the denominator of a weight are off by
/// a factor of e^σ, and the weight by e^(2σ) and `softmax_bound`; the sum over T weights adds γ(T) of Σ weight·|v|.
///
/// # Errors
/// [`Error::Shape`], see [`AttentionSize::of`]; [`Error::Invalid`] if the tensor is on a device.
pub fn attention(qkv: &Tensor, heads: usize) -> Result<Bounded> {
    let AttentionSize { batch, tokens, .. } = AttentionSize::of(qkv, heads)?;
    attention_at(qkv, heads, &(0..batch * tokens).collect::<Vec<_>>())
}

/// The outputs \[n, C\] of [`attention`] for n of its B · T tokens, counted over all images.
///
/// # Errors
/// Same as there; [`Error::Shape`] if there is no such token.
pub fn attention_at(qkv: &Tensor, heads: usize, at: &[usize]) -> Result<Bounded> {
    let size = AttentionSize::of(qkv, heads)?;
    let AttentionSize { batch, tokens, channels, .. } = size;
    if let Some(i) = at.iter().find(|&&i| i >= batch * tokens) {
        return Err(Error::shape("attention", format!("qkv {:?} has no token {i}", qkv.shape())));
    }
    let (d, values) = (size.of_head(), qkv.as_slice()?);
    // A value of q, k or v (`part` 0, 1, 2) of a head.
    let of = |part: usize, image: usize, token: usize, head: usize| {
        values[((image * tokens + token) * 3 + part) * channels + head * d..][..d].iter().map(|&x| f64::from(x))
    };
    let rows = parallel::collect(at.len(), &|i| {
        let (image, token) = (at[i] / tokens, at[i] % tokens);
        let (mut out, mut bound) = (Vec::with_capacity(channels), 0.0f64);
        for head in 0..heads {
            let dot = |other: usize, magnitude: fn(f64) -> f64| {
                let products = of(0, image, token, head).zip(of(1, image, other, head)).map(|(q, k)| magnitude(q * k));
                products.sum::<f64>() * size.scale()
            };
            let scores: Vec<f64> = (0..tokens).map(|other| dot(other, |x| x)).collect();
            let largest = (0..tokens).map(|other| dot(other, f64::abs)).fold(0.0, f64::max);
            let sigma = gamma(d + 3) * largest;
            let factor = (2.0 * sigma).exp() * (1.0 + softmax_bound(tokens, 2.0 * largest)) * (1.0 + gamma(tokens));
            let weights = softmax_of_row(&scores);
            let (mut sums, mut magnitudes) = (vec![0.0; d], vec![0.0; d]);
            for (other, weight) in weights.iter().enumerate() {
                for (at, v) in of(2, image, other, head).enumerate() {
                    sums[at] += weight * v;
                    magnitudes[at] += weight * v.abs();
                }
            }
            bound = magnitudes.iter().fold(bound, |bound, magnitude| bound.max((factor - 1.0) * magnitude));
            out.extend(sums);
        }
        (out, bound)
    });
    Ok(collect_rows(rows))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::assert_close;

    fn tensor(shape: &[usize], values: &[f32]) -> Tensor {
        Tensor::from_vec(shape, values.to_vec()).unwrap()
    }

    #[test]
    fn rows_by_hand() {
        let (weight, bias) = (tensor(&[4], &[1.0, 1.0, 2.0, 1.0]), tensor(&[4], &[0.0, 0.0, 0.0, 10.0]));
        let norm = LayerNorm { weight: &weight, bias: &bias, eps: 0.0 };
        let y = layer_norm(&tensor(&[1, 4], &[1.0, 3.0, 1.0, 3.0]), &norm).unwrap();
        assert_eq!(y.values, [-1.0, 1.0, -2.0, 11.0]);
        let y = row_norm(&tensor(&[3, 2], &[3.0, -4.0, 0.0, 0.0, 1e-13, 0.0])).unwrap().values;
        assert_eq!(y[..4], [0.6, -0.8, 0.0, 0.0]);
        assert!((y[4] - 0.1).abs() < 1e-7);
        let y = softmax(&tensor(&[2, 2], &[0.0, 3f32.ln(), f32::NEG_INFINITY, 7.0])).unwrap().values;
        assert_close(&y, &[0.25, 0.75, 0.0, 1.0], Tolerance::absolute(1e-7));
        let inf = f32::INFINITY;
        let y = softmax(&tensor(&[3, 2], &[-inf, -inf, f32::NAN, 1.0, inf, 1.0])).unwrap().values;
        assert!(y.iter().all(|y| y.is_nan()), "{y:?}");
        let y = transpose(&tensor(&[1, 2, 3], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0])).unwrap();
        assert_eq!((y.shape(), y.as_slice().unwrap()), (&[1, 3, 2][..], &[1.0, 4.0, 2.0, 5.0, 3.0, 6.0][..]));
    }

    #[test]
    fn attention_by_hand() {
        // Two heads of one channel; the first attends to the token with the larger key, the second to both equally.
        let qkv = tensor(&[1, 2, 6], &[100.0, 0.0, 1.0, 5.0, 10.0, 1.0, -100.0, 0.0, -1.0, 9.0, 20.0, 2.0]);
        let out = attention(&qkv, 2).unwrap();
        assert_close(&out.values, &[10.0, 1.5, 20.0, 1.5], Tolerance::absolute(1e-12));
        let error = attention(&qkv, 3).unwrap_err().to_string();
        assert_eq!(error, "attention: qkv [1, 2, 6] with 3 heads: the last dimension must be 3 · heads · d");
    }

    /// The same layers in f32, written as plainly as possible.
    #[test]
    fn plain_f32_is_within_the_bounds_and_they_are_not_generous() {
        let x = Tensor::random(&[7, 50], 1);
        let (weight, bias) = (Tensor::random(&[50], 2), Tensor::random(&[50], 3));
        let (w, b) = (weight.as_slice().unwrap(), bias.as_slice().unwrap());
        let expected = layer_norm(&x, &LayerNorm { weight: &weight, bias: &bias, eps: 1e-5 }).unwrap();
        let rows = x.as_slice().unwrap().chunks(50).flat_map(|row| {
            let mean = row.iter().sum::<f32>() / 50.0;
            let variance = row.iter().map(|x| (x - mean) * (x - mean)).sum::<f32>() / 50.0;
            let scale = 1.0 / (variance + 1e-5).sqrt();
            row.iter().zip(w).zip(b).map(move |((x, w), b)| (x - mean) * scale * w + b)
        });
        let y: Vec<f32> = rows.collect();
        assert_close(&y, &expected.values, expected.tolerance);
        assert!(expected.tolerance.absolute < 1e-4, "{:?}", expected.tolerance);
        assert!(softmax(&x).unwrap().tolerance.relative < 1e-4);
        assert!(attention(&Tensor::random(&[1, 30, 24], 4), 2).unwrap().tolerance.absolute < 1e-4);
    }
}
