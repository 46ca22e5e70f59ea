//! Pooling.

use std::ops::Range;

use super::{Reference, Sum};
use crate::Tensor;
use crate::error::{Error, Result};
use crate::parallel;

/// The geometry of max pooling, the same in y and x.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MaxPool2d {
    /// Side of the window, in pixels.
    pub window: usize,
    /// Stride of the window.
    pub stride: usize,
    /// Padding around the image, which is ignored; at most half a window.
    pub padding: usize,
}

impl MaxPool2d {
    /// \[N, C, out_height, out_width\] for an input \[N, C, H, W\]: ⌊(H + 2·padding − window) / stride⌋ + 1, as documented
    /// for PyTorch's `MaxPool2d`.
    ///
    /// # Errors
    /// [`Error::Shape`] if window or stride is 0, the padding more than half a window, or the window larger than the padded image.
    pub fn output_shape(&self, input: &Tensor) -> Result<[usize; 4]> {
        let MaxPool2d { window, stride, padding } = *self;
        let wrong =
            |why: &str| Err(Error::shape("max_pool2d", format!("input {:?} with {self:?}: {why}", input.shape())));
        let [n, c, height, width] = input.dims4()?;
        if window == 0 || stride == 0 {
            return wrong("window and stride must not be 0");
        }
        if padding > window / 2 {
            return wrong("the padding is more than half a window, so a window could lie completely outside the image");
        }
        // The padding is at most half of a window, whose size fits in a `usize`.
        match [height, width].map(|size| size.checked_add(2 * padding)?.checked_sub(window)) {
            [Some(down), Some(across)] => Ok([n, c, down / stride + 1, across / stride + 1]),
            _ => wrong("the window is larger than the padded image"),
        }
    }

    /// The range of pixels, out of `size` in a row or column, that the window of output `at` covers.
    pub(crate) fn span(&self, at: usize, size: usize) -> Range<usize> {
        let begin = (at * self.stride).saturating_sub(self.padding);
        begin..(at * self.stride + self.window - self.padding).min(size)
    }
}

/// The largest value of each window of an input \[N, C, H, W\], where NaN is larger than every number. Nothing is rounded, so a
/// kernel must give the same bits.
///
/// # Errors
/// [`Error::Shape`], see [`MaxPool2d::output_shape`]; [`Error::Invalid`] if the tensor is on a device.
pub fn max_pool2d(input: &Tensor, pool: MaxPool2d) -> Result<Tensor> {
    let shape @ [_, _, out_height, out_width] = pool.output_shape(input)?;
    let [_, _, height, width] = input.dims4()?;
    let values = input.as_slice()?;
    let output = parallel::collect(shape.iter().product(), &|i| {
        let (column, row, plane) = (i % out_width, i / out_width % out_height, i / out_width / out_height);
        let rows = pool.span(row, height);
        let window = rows.flat_map(|y| pool.span(column, width).map(move |x| (plane * height + y) * width + x));
        window
            .map(|at| values[at])
            .fold(f32::NEG_INFINITY, |most, value| if value > most || value.is_nan() { value } else { most })
    });
    Tensor::from_vec(&shape, output)
}

/// The mean of each cell of an input \[N, C, H, W\] that is divided into `out` cells in y and x, like PyTorch's
/// `AdaptiveAvgPool2d`: cell i along a side of n begins at ⌊i·n / out⌋ and ends before ⌈(i + 1)·n / out⌉.
///
/// # Errors
/// [`Error::Shape`] if the image or `out` has a side of 0; [`Error::Invalid`] if the tensor is on a device.
pub fn adaptive_avg_pool2d(input: &Tensor, out: [usize; 2]) -> Result<Reference> {
    let [n, c, height, width] = input.dims4()?;
    if [height, width, out[0], out[1]].contains(&0) {
        let detail = format!("input {:?} into {out:?} cells: no side may be 0", input.shape());
        return Err(Error::shape("adaptive_avg_pool2d", detail));
    }
    let values = input.as_slice()?;
    let cell = |at: usize, size: usize, out: usize| at * size / out..((at + 1) * size).div_ceil(out);
    let most = (height.div_ceil(out[0]) + 1) * (width.div_ceil(out[1]) + 1);
    Ok(Reference::collect(n * c * out[0] * out[1], most, |i| {
        let (column, row, plane) = (i % out[1], i / out[1] % out[0], i / out[1] / out[0]);
        let (rows, columns) = (cell(row, height, out[0]), cell(column, width, out[1]));
        let count = (rows.len() * columns.len()) as f64;
        let mut sum = Sum::default();
        for y in rows {
            for x in columns.clone() {
                sum.add(f64::from(values[(plane * height + y) * width + x]) / count);
            }
        }
        sum
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_at_the_edge_sees_what_is_there_and_a_nan_wins() {
        let x =
            Tensor::from_vec(&[1, 1, 3, 3], vec![-1.0, -2.0, -3.0, -4.0, f32::NAN, -6.0, -7.0, -8.0, -9.0]).unwrap();
        let pool = MaxPool2d { window: 2, stride: 2, padding: 1 };
        let y = max_pool2d(&x, pool).unwrap();
        assert_eq!(y.shape(), [1, 1, 2, 2]);
        assert_eq!(y.as_slice().unwrap()[..3], [-1.0, -2.0, -4.0]);
        assert!(y.as_slice().unwrap()[3].is_nan());
        assert!(max_pool2d(&x, MaxPool2d { padding: 2, ..pool }).is_err());
        assert!(max_pool2d(&x, MaxPool2d { window: 6, ..pool }).is_err());
    }

    #[test]
    fn cells_overlap_by_a_value_where_they_do_not_divide() {
        let x = Tensor::from_vec(&[1, 1, 1, 5], vec![1.0, 2.0, 4.0, 8.0, 16.0]).unwrap();
        // 0..3, 2..5
        let halves = adaptive_avg_pool2d(&x, [1, 2]).unwrap().values;
        assert!(halves.iter().zip([7.0 / 3.0, 28.0 / 3.0]).all(|(a, b)| (a - b).abs() < 1e-14), "{halves:?}");
        // More cells than values: some cells cover the same value.
        assert_eq!(adaptive_avg_pool2d(&x, [1, 10]).unwrap().values[..4], [1.0, 1.0, 2.0, 2.0]);
        assert!(adaptive_avg_pool2d(&x, [0, 2]).is_err());
    }
}
