//! Convolutions.

use super::{Reference, Sum, check_indices};
use crate::Tensor;
use crate::error::{Error, Result};
use crate::parallel;
use crate::tensor::element_count;

/// The geometry of a 2-D convolution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Conv2dParams {
    /// Stride of the window, in y and x.
    pub stride: [usize; 2],
    /// Zero padding around the image, in y and x.
    pub padding: [usize; 2],
    /// Distance between the window's taps, in y and x.
    pub dilation: [usize; 2],
    /// Groups that the channels are divided into; each output channel reads only its own group.
    pub groups: usize,
}

impl Default for Conv2dParams {
    /// Stride 1, no padding, no dilation, one group.
    fn default() -> Conv2dParams {
        Conv2dParams { stride: [1, 1], padding: [0, 0], dilation: [1, 1], groups: 1 }
    }
}

impl Conv2dParams {
    /// The same stride and padding in y and x.
    pub fn new(stride: usize, padding: usize) -> Conv2dParams {
        Conv2dParams { stride: [stride, stride], padding: [padding, padding], ..Conv2dParams::default() }
    }

    /// \[N, out_channels, out_height, out_width\] for an input \[N, C, H, W\] and a weight \[out_channels, C / groups, R, S\]:
    /// ⌊(H + 2·padding − dilation·(R − 1) − 1) / stride⌋ + 1, as documented for PyTorch's `Conv2d`.
    ///
    /// # Errors
    /// [`Error::Shape`] if channels and groups do not fit, or the window is larger than the padded image.
    pub fn output_shape(&self, input: &Tensor, weight: &Tensor) -> Result<[usize; 4]> {
        let wrong = |why: &str| {
            Err(Error::shape(
                "conv2d",
                format!("input {:?} and weight {:?} with {} groups: {why}", input.shape(), weight.shape(), self.groups),
            ))
        };
        let [n, c, h, w] = input.dims("conv2d's input")?;
        let [k, c_group, r, s] = weight.dims("conv2d's weight")?;
        if self.groups == 0 || c % self.groups != 0 || k % self.groups != 0 {
            return wrong("the groups do not divide the channels");
        }
        if c_group != c / self.groups {
            return wrong("the weight's channels are not the input's divided by the groups");
        }
        if self.stride.contains(&0) || self.dilation.contains(&0) || r == 0 || s == 0 {
            return wrong("stride, dilation and window must not be 0");
        }
        let mut out = [0; 2];
        for (axis, (size, window)) in [(h, r), (w, s)].into_iter().enumerate() {
            let padded = self.padding[axis].checked_mul(2).and_then(|zeros| zeros.checked_add(size));
            let reach = self.dilation[axis].checked_mul(window - 1).and_then(|reach| reach.checked_add(1));
            let (Some(padded), Some(reach)) = (padded, reach) else {
                return wrong("padding or dilation is so large that the padded image or the window's reach overflows");
            };
            if reach > padded {
                return wrong("the window is larger than the padded image");
            }
            out[axis] = (padded - reach) / self.stride[axis] + 1;
        }
        match element_count(&[n, k, out[0], out[1]]) {
            Some(_) => Ok([n, k, out[0], out[1]]),
            None => wrong("the output would have more values than can be counted"),
        }
    }
}

/// A convolution's loops, written once for the f64 reference and the f32 baseline.
struct Conv2d<'a> {
    params: Conv2dParams,
    input: &'a [f32],
    weight: &'a [f32],
    bias: Option<&'a [f32]>,
    /// N is not needed.
    in_dims: [usize; 3],
    /// Output channels, C / groups, R, S.
    weight_dims: [usize; 4],
    out_dims: [usize; 4],
}

impl<'a> Conv2d<'a> {
    fn new(
        input: &'a Tensor,
        weight: &'a Tensor,
        bias: Option<&'a Tensor>,
        params: Conv2dParams,
    ) -> Result<Conv2d<'a>> {
        let out_dims = params.output_shape(input, weight)?;
        if let Some(bias) = bias {
            bias.expect_shape("conv2d's bias", &[out_dims[1]])?;
        }
        let [_, c, h, w] = input.dims4()?;
        Ok(Conv2d {
            params,
            input: input.as_slice()?,
            weight: weight.as_slice()?,
            bias: bias.map(Tensor::as_slice).transpose()?,
            in_dims: [c, h, w],
            weight_dims: weight.dims4()?,
            out_dims,
        })
    }

    fn len(&self) -> usize {
        self.out_dims.iter().product()
    }

    /// Terms of one output: the products of its window, and the bias.
    fn terms(&self) -> usize {
        self.weight_dims[1..].iter().product::<usize>() + usize::from(self.bias.is_some())
    }

    /// Output `i` in f64.
    fn sum(&self, i: usize) -> Sum {
        let mut sum = Sum::default();
        let channel = self.taps(i, |x, w| sum.add(f64::from(x) * f64::from(w)));
        if let Some(bias) = self.bias {
            sum.add(f64::from(bias[channel]));
        }
        sum
    }

    /// Calls `term` with input and weight for each tap of the window that is inside the image, and returns the output channel
    /// of position `i`.
    fn taps(&self, i: usize, mut term: impl FnMut(f32, f32)) -> usize {
        let [_, k, out_h, out_w] = self.out_dims;
        let [c, h, w] = self.in_dims;
        let [_, c_group, r, s] = self.weight_dims;
        let (x, y) = (i % out_w, i / out_w % out_h);
        let (channel, image) = (i / (out_w * out_h) % k, i / (out_w * out_h * k));
        let first_channel = channel / (k / self.params.groups) * c_group;
        let left = x * self.params.stride[1];
        for ci in 0..c_group {
            for ri in 0..r {
                // The image begins `padding` rows below the padded one.
                let row = y * self.params.stride[0] + ri * self.params.dilation[0];
                let Some(row) = row.checked_sub(self.params.padding[0]).filter(|&row| row < h) else {
                    continue;
                };
                let pixels = &self.input[((image * c + first_channel + ci) * h + row) * w..][..w];
                let weights = &self.weight[((channel * c_group + ci) * r + ri) * s..][..s];
                for (si, &weight) in weights.iter().enumerate() {
                    let column = (left + si * self.params.dilation[1]).checked_sub(self.params.padding[1]);
                    if let Some(&pixel) = column.and_then(|column| pixels.get(column)) {
                        term(pixel, weight);
                    }
                }
            }
        }
        channel
    }
}

/// The convolution (cross-correlation) of an input \[N, C, H, W\] with a weight \[out_channels, C / groups, R, S\].
///
/// # Errors
/// [`Error::Shape`], see [`Conv2dParams::output_shape`]; [`Error::Invalid`] if a tensor is on a device.
pub fn conv2d(input: &Tensor, weight: &Tensor, bias: Option<&Tensor>, params: Conv2dParams) -> Result<Reference> {
    let conv = Conv2d::new(input, weight, bias, params)?;
    Ok(Reference::collect(conv.len(), conv.terms(), |i| conv.sum(i)))
}

/// The outputs of [`conv2d`] at `indices` of the output.
///
/// # Errors
/// Errors of [`conv2d`], or if an index is outside the output.
pub fn conv2d_at(
    input: &Tensor,
    weight: &Tensor,
    bias: Option<&Tensor>,
    params: Conv2dParams,
    indices: &[usize],
) -> Result<Reference> {
    let conv = Conv2d::new(input, weight, bias, params)?;
    check_indices("conv2d", indices, conv.len())?;
    Ok(Reference::collect(indices.len(), conv.terms(), |i| conv.sum(indices[i])))
}

/// [`conv2d`] in plain f32 on every core, one loop per dimension: the CPU's row in the tables.
///
/// # Errors
/// Same as [`conv2d`].
pub fn conv2d_f32(input: &Tensor, weight: &Tensor, bias: Option<&Tensor>, params: Conv2dParams) -> Result<Tensor> {
    let conv = Conv2d::new(input, weight, bias, params)?;
    let values = parallel::collect(conv.len(), &|i| {
        let mut sum = 0.0f32;
        let channel = conv.taps(i, |x, w| sum += x * w);
        sum + conv.bias.map_or(0.0, |bias| bias[channel])
    });
    Tensor::from_vec(&conv.out_dims, values)
}
