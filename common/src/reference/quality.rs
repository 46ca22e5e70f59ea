//! Similarity of two pictures.

use crate::Tensor;
use crate::error::{Error, Result, ShapeError};

/// Side of the window, and the standard deviation of its weights, in pixels.
const WINDOW: usize = 11;
const SIGMA: f64 = 1.5;
/// Constants that keep tiny quotients apart from 0/0, as a fraction of the range of values.
const K: [f64; 2] = [0.01, 0.03];

/// Weights of a window's rows and columns: a Gaussian with the sum 1.
fn weights() -> [f64; WINDOW] {
    let middle = (WINDOW / 2) as f64;
    let gaussian = |at: usize| (-(at as f64 - middle).powi(2) / (2.0 * SIGMA * SIGMA)).exp();
    let sum: f64 = (0..WINDOW).map(gaussian).sum();
    std::array::from_fn(|at| gaussian(at) / sum)
}

/// The mean structural similarity of two images \[…, H, W\] on the host, whose values span `range`: 1 for equal ones, about 0 for
/// unrelated ones. In f64, over all windows of 11 × 11 pixels that lie inside, of all channels (Wang, Bovik, Sheikh and
/// Simoncelli, "Image Quality Assessment: From Error Visibility to Structural Similarity", 2004, with their constants):
///
/// ```text
/// SSIM = (2·μₓ·μᵧ + C₁)·(2·σₓᵧ + C₂) / ((μₓ² + μᵧ² + C₁)·(σₓ² + σᵧ² + C₂))     C = (0.01·range)², (0.03·range)²
/// ```
///
/// with means and covariances weighted by a Gaussian of 1.5 pixels. Sides below 11 get a window of their own size.
///
/// # Errors
/// [`Error::Shape`] if the shapes differ or have fewer than two sides, [`Error::Invalid`] if a tensor is on a device or
/// empty.
pub fn structural_similarity(image: &Tensor, reference: &Tensor, range: f64) -> Result<f64> {
    image.expect_shape("structural similarity", reference.shape())?;
    let &[.., height, width] = image.shape() else {
        return Err(Error::shape("structural similarity", ShapeError::mismatch("[…, H, W]", image.shape())));
    };
    let (x, y) = (image.as_slice()?, reference.as_slice()?);
    if x.is_empty() {
        return Err(Error::Invalid("an empty image is like nothing".to_owned()));
    }
    let all = weights();
    // The middle of the weights where a side is shorter.
    let part = |side: usize| {
        let cut = (WINDOW - side.min(WINDOW)) / 2;
        let part = &all[cut..cut + side.min(WINDOW)];
        let sum: f64 = part.iter().sum();
        part.iter().map(|weight| weight / sum).collect::<Vec<f64>>()
    };
    let (rows, columns) = (part(height), part(width));
    let [c1, c2] = K.map(|k| (k * range).powi(2));
    let (mut sum, mut count) = (0.0, 0);
    for (x, y) in x.chunks(height * width).zip(y.chunks(height * width)) {
        for top in 0..=height - rows.len() {
            for left in 0..=width - columns.len() {
                // Σ w·(x, y, x², y², x·y).
                let mut moments = [0.0; 5];
                for (row, of_row) in rows.iter().enumerate() {
                    let begin = (top + row) * width + left;
                    for (column, of_column) in columns.iter().enumerate() {
                        let (x, y) = (f64::from(x[begin + column]), f64::from(y[begin + column]));
                        for (moment, value) in moments.iter_mut().zip([x, y, x * x, y * y, x * y]) {
                            *moment += of_row * of_column * value;
                        }
                    }
                }
                let [mx, my, xx, yy, xy] = moments;
                let (luminance, structure) = (2.0 * mx * my + c1, 2.0 * (xy - mx * my) + c2);
                let (of_means, of_variances) = (mx * mx + my * my + c1, xx - mx * mx + yy - my * my + c2);
                sum += luminance * structure / (of_means * of_variances);
                count += 1;
            }
        }
    }
    Ok(sum / f64::from(count))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_pictures_are_as_much_alike_as_the_formula_says() {
        let similarity = |x: &Tensor, y: &Tensor| structural_similarity(x, y, 2.0).unwrap();
        let image = Tensor::random(&[2, 17, 13], 1);
        assert!((similarity(&image, &image) - 1.0).abs() < 1e-12);
        // Constant pictures: the second factor is 1.
        let [half, quarter] = [0.5, 0.25].map(|value| Tensor::full(&[1, 12, 12], value));
        let expected = (2.0 * 0.125 + 4e-4) / (0.25 + 0.0625 + 4e-4);
        assert!((similarity(&half, &quarter) - expected).abs() < 1e-12);
        // One window with one bright pixel in its middle, whose weight is 0.0707622 (MATLAB's fspecial('gaussian', 11, 1.5)), and a
        // black one: the means are w and 0, the variances w − w² and 0, the covariance 0.
        let bright = Tensor::from_fn(&[1, 11, 11], |at| if at == [0, 5, 5] { 1.0 } else { 0.0 });
        let black = Tensor::zeros(&[1, 11, 11]);
        let w = 0.070_762_237_763_947_f64;
        let expected = 4e-4 * 36e-4 / ((w * w + 4e-4) * (w - w * w + 36e-4));
        assert!((similarity(&bright, &black) - expected).abs() < 1e-9 * expected, "{}", similarity(&bright, &black));
        // A picture and its negative, both of values from 0 to 1, have covariances below zero.
        let positive = |sign: f32| {
            let value = |at: &[usize]| 0.5 + sign * 0.5 * image.as_slice().unwrap()[(at[0] * 17 + at[1]) * 13 + at[2]];
            Tensor::from_fn(&[2, 17, 13], value)
        };
        assert!(similarity(&positive(1.0), &positive(-1.0)) < -0.5);
        // Sides below the window's.
        assert!((similarity(&Tensor::full(&[3, 8, 5], 0.5), &Tensor::full(&[3, 8, 5], 0.5)) - 1.0).abs() < 1e-12);
        assert!(structural_similarity(&image, &half, 2.0).is_err());
        assert!(structural_similarity(&Tensor::zeros(&[0, 4, 4]), &Tensor::zeros(&[0, 4, 4]), 2.0).is_err());
        let nan = Tensor::full(&[1, 12, 12], f32::NAN);
        assert!(similarity(&nan, &half).is_nan());
    }
}
