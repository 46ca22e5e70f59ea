//! LayerNorm, row normalisation, softmax, transposition and attention. Rows are spread over the threads, and the values of a
//! row over a vector unit's lanes, so a sum is kept as several partial sums.

use rayon::prelude::*;

use super::{Matrix, product};
use crate::Tensor;
use crate::error::Result;
use crate::parallel;
use crate::reference::{AttentionSize, LayerNorm, SMALLEST_NORM, columns_of};

/// Partial sums that are used in turn, to keep a vector unit busy.
const LANES: usize = 16;

/// Σ term(x), in [`LANES`] sums.
fn sum(row: &[f32], term: impl Fn(f32) -> f32) -> f32 {
    let mut sums = [0.0f32; LANES];
    let (parts, rest) = row.as_chunks::<LANES>();
    for part in parts {
        sums.iter_mut().zip(part).for_each(|(sum, &x)| *sum += term(x));
    }
    sums.iter().sum::<f32>() + rest.iter().map(|&x| term(x)).sum::<f32>()
}

/// The largest value, ignoring NaN; −∞ if there is none.
fn largest(row: &[f32]) -> f32 {
    let mut most = [f32::NEG_INFINITY; LANES];
    let (parts, rest) = row.as_chunks::<LANES>();
    for part in parts {
        most.iter_mut().zip(part).for_each(|(most, &x)| *most = most.max(x));
    }
    most.iter().chain(rest).fold(f32::NEG_INFINITY, |most, &x| most.max(x))
}

/// A tensor of the shape of `x`, each row computed from one row of `x`.
fn each_row(x: &Tensor, columns: usize, change: impl Fn(&[f32], &mut [f32]) + Sync) -> Result<Tensor> {
    let (from, mut y) = (x.as_slice()?, vec![0.0f32; x.len()]);
    parallel::change_chunks(&mut y, columns, &|row, to| change(&from[row * columns..][..to.len()], to));
    Tensor::from_vec(x.shape(), y)
}

/// The normalisation of [`crate::reference::layer_norm`], by two passes over a row in the cache.
///
/// # Errors
/// Same as there.
pub fn layer_norm(input: &Tensor, norm: &LayerNorm<'_>) -> Result<Tensor> {
    let columns = norm.columns(input)?;
    let (weight, bias) = (norm.weight.as_slice()?, norm.bias.as_slice()?);
    each_row(input, columns, |from, to| {
        let mean = sum(from, |x| x) / columns as f32;
        let variance = sum(from, |x| (x - mean) * (x - mean)) / columns as f32;
        let scale = 1.0 / (variance + norm.eps).sqrt();
        for (((to, from), weight), bias) in to.iter_mut().zip(from).zip(weight).zip(bias) {
            *to = (from - mean) * scale * weight + bias;
        }
    })
}

/// The row normalisation of [`crate::reference::row_norm`].
///
/// # Errors
/// Same as there.
pub fn row_norm(input: &Tensor) -> Result<Tensor> {
    each_row(input, columns_of("row_norm", input)?, |from, to| {
        let norm = sum(from, |x| x * x).sqrt();
        let divisor = if norm < SMALLEST_NORM { SMALLEST_NORM } else { norm };
        to.iter_mut().zip(from).for_each(|(to, from)| *to = from / divisor);
    })
}

/// [`crate::reference::softmax`] over the rows of `x`, in place.
///
/// # Errors
/// Same as there.
pub fn softmax_in_place(x: &mut Tensor) -> Result<()> {
    let columns = columns_of("softmax", x)?;
    parallel::change_chunks(x.as_mut_slice()?, columns, &|_, row| softmax_of_row(row, 1.0));
    Ok(())
}

/// e^x for x ≤ 0, without a branch or a call, so that a loop over it can be vectorised; NaN stays NaN, and powers below the
/// normal numbers are 0.
///
/// e^x = 2^n·e^r with n the integer nearest to x / ln 2, so |r| ≤ ln 2 / 2, where the Taylor series up to r⁷ is off by r⁸ / 8! < 6e-9.
fn power(x: f32) -> f32 {
    /// Adding and subtracting it rounds to an integer; in between, the lowest bits hold that integer.
    const ROUNDER: f32 = 1.5 * (1u32 << 23) as f32;
    /// ln 2 with the lowest 12 bits of its mantissa zero, so that n times it is exact, and the rest of ln 2.
    const LN_2: [f32; 2] = [
        f32::from_bits(std::f32::consts::LN_2.to_bits() & !0xFFF),
        (std::f64::consts::LN_2 - f32::from_bits(std::f32::consts::LN_2.to_bits() & !0xFFF) as f64) as f32,
    ];
    let rounded = x * std::f32::consts::LOG2_E + ROUNDER;
    let n = rounded - ROUNDER;
    let r = x - n * LN_2[0] - n * LN_2[1];
    let series = [1.0 / 720.0, 1.0 / 120.0, 1.0 / 24.0, 1.0 / 6.0, 0.5, 1.0, 1.0];
    let of_r = series.into_iter().fold(1.0 / 5040.0, |sum: f32, coefficient| sum * r + coefficient);
    // The exponent's bits; higher bits of n are shifted out.
    let two_to_n = f32::from_bits(rounded.to_bits().wrapping_add(127) << 23);
    // ln 2⁻¹²⁶, the smallest normal number.
    if x < -87.33654 { 0.0 } else { of_r * two_to_n }
}

/// softmax(scale · row), for a positive scale.
fn softmax_of_row(row: &mut [f32], scale: f32) {
    let sum = powers_of_row(row, scale);
    row.iter_mut().for_each(|x| *x /= sum);
}

/// softmax(scale · row) without the division by its sum, which is returned.
fn powers_of_row(row: &mut [f32], scale: f32) -> f32 {
    let most = largest(row);
    row.iter_mut().for_each(|x| *x = power((*x - most) * scale));
    sum(row, |x| x)
}

/// Σ a·b, in [`LANES`] sums.
fn dot(a: &[f32], b: &[f32]) -> f32 {
    let mut sums = [0.0f32; LANES];
    let ((of_a, rest_a), (of_b, rest_b)) = (a.as_chunks::<LANES>(), b.as_chunks::<LANES>());
    for (a, b) in of_a.iter().zip(of_b) {
        sums.iter_mut().zip(a.iter().zip(b)).for_each(|(sum, (a, b))| *sum += a * b);
    }
    sums.iter().sum::<f32>() + rest_a.iter().zip(rest_b).map(|(a, b)| a * b).sum::<f32>()
}

/// \[B, R, C\] → \[B, C, R\], in squares that fit in a core's cache.
///
/// # Errors
/// [`crate::Error::Shape`] unless the input has 3 dimensions, [`crate::Error::Invalid`] if it is on a device.
pub fn transpose(input: &Tensor) -> Result<Tensor> {
    /// Side of a square.
    const SIDE: usize = 16;
    let [batch, rows, columns] = input.dims("transpose")?;
    let values = input.as_slice()?;
    let mut y = vec![0.0f32; values.len()];
    // Each task takes a strip of rows of the result, which are columns of the input.
    let of_images = y.par_chunks_mut((rows * columns).max(1)).zip(values.par_chunks((rows * columns).max(1)));
    of_images.for_each(|(y, x)| {
        y.par_chunks_mut((SIDE * rows).max(1)).enumerate().for_each(|(strip, y)| {
            let first = strip * SIDE;
            for begin in (0..rows).step_by(SIDE) {
                for (at, to) in y.chunks_exact_mut(rows).enumerate() {
                    let end = (begin + SIDE).min(rows);
                    for (row, to) in (begin..end).zip(&mut to[begin..end]) {
                        *to = x[row * columns + first + at];
                    }
                }
            }
        });
    });
    Tensor::from_vec(&[batch, columns, rows], y)
}

/// The attention of [`crate::reference::attention`]: a panel of rows of the scores at a time, small enough for a core's cache.
///
/// # Errors
/// Same as there.
pub fn attention(qkv: &Tensor, heads: usize) -> Result<Tensor> {
    /// With at most this many columns per head, packing the operands takes longer than the products themselves.
    const FEW: usize = 8;
    let size = AttentionSize::of(qkv, heads)?;
    let AttentionSize { batch, tokens, channels, .. } = size;
    let (d, scale, values) = (size.of_head(), size.scale() as f32, qkv.as_slice()?);
    let mut out = vec![0.0f32; batch * tokens * channels];
    let shape = [batch, tokens, channels];
    if out.is_empty() {
        return Tensor::from_vec(&shape, out);
    }
    // A megabyte of scores, and at least as many rows as the product's kernels need to be efficient.
    let panel = ((1 << 18) / tokens).clamp(32, 512);
    let panels = tokens.div_ceil(panel);
    let of_out = Matrix { first: out.as_mut_ptr(), row: channels, column: 1 };
    (0..batch * heads * panels).into_par_iter().for_each_init(Vec::new, |scores, task| {
        let (image, head, first) = (task / panels / heads, task / panels % heads, task % panels * panel);
        let rows = panel.min(tokens - first);
        let of_image = &values[image * tokens * 3 * channels..][..tokens * 3 * channels];
        if d <= FEW {
            let column = |part: usize, j: usize| -> Vec<f32> {
                of_image[part * channels + head * d + j..].iter().step_by(3 * channels).copied().collect()
            };
            let columns: Vec<[Vec<f32>; 2]> = (0..d).map(|j| [column(1, j), column(2, j)]).collect();
            for row in first..first + rows {
                scores.clear();
                scores.resize(tokens, 0.0f32);
                let q = &of_image[row * 3 * channels + head * d..];
                for ([k, _], q) in columns.iter().zip(q) {
                    scores.iter_mut().zip(k).for_each(|(score, k)| *score += q * k);
                }
                let sum = powers_of_row(scores, scale);
                for (j, [_, v]) in columns.iter().enumerate() {
                    // SAFETY: the head's columns of these rows of `out`, which lie inside it, are this task's alone.
                    unsafe { *of_out.part_at(image * tokens + row, head * d + j).first = dot(scores, v) / sum };
                }
            }
            return;
        }
        scores.clear();
        scores.resize(rows * tokens, 0.0f32);
        let part = |part: usize| Matrix {
            first: of_image[part * channels + head * d..].as_ptr(),
            row: 3 * channels,
            column: 1,
        };
        let (q, k, v) = (part(0).part_at(first, 0), part(1), part(2));
        let k_transposed = Matrix { row: k.column, column: k.row, ..k };
        let of_scores = Matrix { first: scores.as_mut_ptr(), row: tokens, column: 1 };
        // SAFETY: Q is `rows` rows of d columns inside the image, K all of them, and the scores are this task's.
        unsafe { product([rows, tokens, d], q, k_transposed, of_scores) };
        scores.chunks_exact_mut(tokens).for_each(|row| softmax_of_row(row, scale));
        let weights = Matrix { first: scores.as_ptr(), row: tokens, column: 1 };
        // SAFETY: the scores are read now, V as K; the head's columns of these rows of `out` are this task's alone.
        unsafe { product([rows, d, tokens], weights, v, of_out.part_at(image * tokens + first, head * d)) };
    });
    Tensor::from_vec(&shape, out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::assert_close;
    use crate::reference;

    #[test]
    fn rows_match_the_reference() {
        for shape in [vec![1, 1], vec![3, 5, 33], vec![7, 64], vec![2, 4097], vec![0, 5], vec![5, 0], vec![20]] {
            let x = Tensor::random(&shape, 1);
            let columns = *shape.last().unwrap();
            let (weight, bias) = (Tensor::random(&[columns], 2), Tensor::random(&[columns], 3));
            let norm = LayerNorm { weight: &weight, bias: &bias, eps: 1e-5 };
            let expected = reference::layer_norm(&x, &norm).unwrap();
            assert_close(layer_norm(&x, &norm).unwrap().as_slice().unwrap(), &expected.values, expected.tolerance);
            let expected = reference::row_norm(&x).unwrap();
            assert_close(row_norm(&x).unwrap().as_slice().unwrap(), &expected.values, expected.tolerance);
            let expected = reference::softmax(&x).unwrap();
            let mut y = x.to_host().unwrap();
            softmax_in_place(&mut y).unwrap();
            assert_close(y.as_slice().unwrap(), &expected.values, expected.tolerance);
        }
    }

    #[test]
    fn powers_are_off_by_two_units_at_most() {
        let mut worst = 0.0f64;
        for i in 0..=2_000_000 {
            let x = -87.33 * (f64::from(i) / 2e6) as f32;
            let exact = f64::from(x).exp();
            worst = worst.max((f64::from(power(x)) / exact - 1.0).abs());
        }
        // The error that the reference's bound assumes for `expf`: 2 ulp, or 4 roundings.
        assert!(worst < 2f64.powi(-22), "{worst:e}");
        assert_eq!([0.0, -0.0, -87.5, f32::NEG_INFINITY, f32::MIN].map(power), [1.0, 1.0, 0.0, 0.0, 0.0]);
        assert!(power(f32::NAN).is_nan());
    }

    #[test]
    fn nothing_hides_a_nan() {
        let inf = f32::INFINITY;
        let x = Tensor::from_vec(&[3, 3], vec![-inf, -inf, -inf, 1.0, f32::NAN, 2.0, -inf, 1.0, -inf]).unwrap();
        let nans = |y: &Tensor| y.as_slice().unwrap().iter().map(|y| y.is_nan()).collect::<Vec<_>>();
        assert_eq!(nans(&row_norm(&x).unwrap())[3..6], [true; 3]);
        let mut y = x.to_host().unwrap();
        softmax_in_place(&mut y).unwrap();
        assert_eq!(nans(&y), [true, true, true, true, true, true, false, false, false]);
        assert_eq!(y.as_slice().unwrap()[6..], [0.0, 1.0, 0.0]);
    }

    #[test]
    fn transposition_and_attention_match_the_reference() {
        for shape in [[1, 1, 1], [2, 3, 5], [3, 17, 40], [1, 33, 64], [2, 0, 3], [2, 3, 0], [0, 2, 2]] {
            let x = Tensor::random(&shape, 1);
            let (y, expected) = (transpose(&x).unwrap(), reference::transpose(&x).unwrap());
            assert_eq!((y.shape(), y.as_slice().unwrap()), (expected.shape(), expected.as_slice().unwrap()));
        }
        // The last two have several panels.
        for ([batch, tokens, d], heads) in
            [([1, 1, 1], 1), ([2, 5, 3], 2), ([1, 70, 40], 3), ([1, 0, 4], 2), ([1, 600, 4], 1), ([1, 600, 12], 1)]
        {
            let qkv = Tensor::random(&[batch, tokens, 3 * heads * d], 1);
            let expected = reference::attention(&qkv, heads).unwrap();
            let y = attention(&qkv, heads).unwrap();
            assert_eq!(y.shape(), [batch, tokens, heads * d]);
            assert_close(y.as_slice().unwrap(), &expected.values, expected.tolerance);
        }
        assert!(attention(&Tensor::zeros(&[1, 2, 9]), 2).is_err());
    }
}
