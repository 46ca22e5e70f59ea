//! Convolutions with their expected results, for tests and tables.

use bench::ladder::{Expected, positions};
use common::check::{Mismatch, Report};
use common::prelude::*;
use common::reference::{self, Conv2dParams, Reference, TensorGemm};

use super::Size;
use crate::gemm::{Activation, Columns, Epilogue, Later, Precision};

/// Operations that follow the convolution, by name.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Finish {
    /// Factor of the sum; 0 stands for 1.
    pub alpha: f32,
    /// Whether there are a scale and a shift, as BatchNorm's.
    pub scale_shift: bool,
    /// Whether a residual is added.
    pub residual: bool,
    /// Applied to the result so far.
    pub activation: Activation,
    /// Whether another image and a value per image and channel are added last.
    pub later: bool,
}

/// A convolution of random values, on a device, and its result.
#[derive(Debug)]
pub struct ConvProblem {
    /// \[N, C, H, W\].
    pub x: Tensor,
    /// \[K, C, R, S\].
    pub w: Tensor,
    /// Stride and padding.
    pub params: Conv2dParams,
    /// The result.
    pub expected: Expected,
    /// \[N, K, P, Q\].
    output: [usize; 4],
    precision: Precision,
    finish: Finish,
    scale: Tensor,
    shift: Tensor,
    residual: Tensor,
    /// For each image, the channels' values among others.
    columns: Tensor,
}

/// The first column of the channels, and columns that are not theirs.
const FIRST: usize = 3;
const MORE: usize = 5;

/// Number of outputs compared where a whole f64 reference would take too long.
const PIXELS: usize = 256;

impl ConvProblem {
    /// A problem of distinct values in (−1, 1), rounded to the type. The reference treats the windows of each pixel as a row of a
    /// matrix.
    ///
    /// # Errors
    /// [`Error::Shape`] if the shapes do not match; errors of the device.
    pub fn seeded(
        device: &Device,
        input: [usize; 4],
        filter: [usize; 4],
        params: Conv2dParams,
        precision: Precision,
        finish: Finish,
    ) -> Result<ConvProblem> {
        let rounded = |shape: &[usize], seed: u64| Tensor::random(shape, seed).to_type(precision.input());
        let (x, w) = (rounded(&input, 1)?, rounded(&filter, 2)?);
        let layer = Size::new(input, filter, params)?;
        let output @ [images, channels, ..] = layer.output;
        let (scale, shift) = (Tensor::random(&[channels], 3), Tensor::random(&[channels], 4));
        let residual = rounded(&output, 5)?;
        let nhwc = |tensor: &Tensor| tensor.to_format(MemoryFormat::Nhwc);
        let (x, w, residual) = (nhwc(&x)?, nhwc(&w)?, nhwc(&residual)?);
        let columns = Tensor::random(&[images, channels + MORE], 6);
        let expected = expected(&layer, [&x, &w, &residual], [&scale, &shift, &columns], precision, finish)?;
        let on_device = |tensor: &Tensor| tensor.to_device(device);
        Ok(ConvProblem {
            x: on_device(&x)?,
            w: on_device(&w)?,
            scale: on_device(&scale)?,
            shift: on_device(&shift)?,
            residual: on_device(&residual)?,
            columns: on_device(&columns)?,
            params,
            expected,
            output,
            precision,
            finish,
        })
    }

    /// Memory for the output.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`].
    pub fn output(&self, device: &Device) -> Result<Tensor> {
        Tensor::empty_of(device, &self.output, self.precision.output(), MemoryFormat::Nhwc)
    }

    /// The epilogue of the kernels.
    pub fn epilogue(&self) -> Epilogue<'_> {
        let Finish { alpha, scale_shift, residual, activation, later } = self.finish;
        let columns = Columns { values: &self.columns, first: FIRST, count: self.output[1] };
        Epilogue {
            blocks: None,
            alpha: if alpha == 0.0 { 1.0 } else { alpha },
            scale: scale_shift.then_some(&self.scale),
            shift: scale_shift.then_some(&self.shift),
            residual: residual.then_some(&self.residual),
            activation,
            later: Later { image: later.then_some(&self.residual), channels: later.then_some(columns) },
        }
    }

    /// Compares an output.
    ///
    /// # Errors
    /// Errors of the device; the inner result holds the mismatch.
    pub fn check(&self, y: &Tensor) -> Result<Result<Report, Mismatch>> {
        Ok(self.expected.check(&y.to_f64()?))
    }
}

/// Expected result of the convolution, in NHWC: the rows of a matrix of windows times the filters, for all pixels or for a
/// sample.
fn expected(
    layer: &Size,
    [x, w, residual]: [&Tensor; 3],
    [scale, shift, columns]: [&Tensor; 3],
    precision: Precision,
    finish: Finish,
) -> Result<Expected> {
    let (pixels, depth, channels) = (layer.pixels(), layer.depth(), layer.output[1]);
    let widened = |tensor: &Tensor| tensor.to_f64().map(|values| values.iter().map(|&v| v as f32).collect::<Vec<_>>());
    let (x, w, residual) = (widened(x)?, widened(w)?, widened(residual)?);
    let all = pixels.saturating_mul(depth).saturating_mul(channels) <= 1 << 27;
    let chosen = if all { (0..pixels).collect() } else { positions(pixels, PIXELS, 6) };
    let a: Vec<f32> = chosen.iter().flat_map(|&pixel| row_of(layer, &x, pixel)).collect();
    let residual: Vec<f32> =
        chosen.iter().flat_map(|&pixel| residual[pixel * channels..][..channels].iter().copied()).collect();
    let product = reference::Gemm {
        alpha: if finish.alpha == 0.0 { 1.0 } else { finish.alpha },
        transposed: true,
        ..reference::Gemm::new(&a, &w, chosen.len(), channels, depth)
    };
    let (mut reference, mut tolerance): (Reference, _) = TensorGemm {
        scale: finish.scale_shift.then_some(scale.as_slice()?),
        shift: finish.scale_shift.then_some(shift.as_slice()?),
        residual: finish.residual.then_some(&residual),
        activation: finish.activation,
        ..TensorGemm::new(product, precision.input(), precision.output())
    }
    .all()?;
    if finish.later {
        let (columns, image) = (columns.as_slice()?, layer.output[2] * layer.output[3]);
        let e = |at: usize| columns[chosen[at / channels] / image * (channels + MORE) + FIRST + at % channels];
        let mut largest = 0.0;
        for (at, value) in reference.values.iter_mut().enumerate() {
            *value += f64::from(residual[at]) + f64::from(e(at));
            largest = f64::max(largest, value.abs());
        }
        // Two roundings of values that are no larger than the sum and what was added to it.
        tolerance.absolute += 2.0 * 2f64.powi(-24) * (largest + 2.0);
    }
    let places = chosen.iter().flat_map(|&pixel| (0..channels).map(move |channel| pixel * channels + channel));
    let expected =
        if all { Expected::all(reference) } else { Expected::sample(pixels * channels, places.collect(), reference)? };
    Ok(expected.within(tolerance))
}

/// The window of a pixel of the output: \[R, S, C\], with zeros for the padding.
fn row_of(layer: &Size, x: &[f32], pixel: usize) -> Vec<f32> {
    let Size { input: [_, c, h, w], filter: [_, _, r, s], output: [_, _, p, q], stride, padding } = *layer;
    let (image, y, x0) = (pixel / (p * q), pixel / q % p * stride, pixel % q * stride);
    let taps = (0..r).flat_map(|down| (0..s).map(move |right| (y + down, x0 + right)));
    taps.flat_map(|(y, x_at)| {
        let inside = (padding..h + padding).contains(&y) && (padding..w + padding).contains(&x_at);
        let from = inside.then(|| ((image * h + y - padding) * w + x_at - padding) * c);
        (0..c).map(move |channel| from.map_or(0.0, |from| x[from + channel]))
    })
    .collect()
}
