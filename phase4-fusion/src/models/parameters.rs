//! Rewrites of parameters, on the host.

use std::sync::Arc;

use common::prelude::*;
use common::reference;
use phase3_all_layers::nn::Operation;

use crate::gemm::Precision;

/// y = scale · x + shift for each channel.
#[derive(Clone, Debug, PartialEq)]
pub struct ScaleShift {
    /// Per channel.
    pub scale: Vec<f32>,
    /// Per channel.
    pub shift: Vec<f32>,
}

// ANCHOR: scale_shift
/// Scale and shift of a BatchNorm with running statistics after x + bias: γ / √(variance + ε) · (x + bias − mean) + β, computed
/// in f64. `None` if `norm` is another operation.
///
/// # Errors
/// [`Error::Invalid`] if a parameter is not on the host.
pub fn scale_shift(norm: &Operation, bias: Option<&Tensor>) -> Result<Option<ScaleShift>> {
    let Operation::BatchNorm { weight, bias: beta, mean, variance, eps } = norm else { return Ok(None) };
    let [weight, beta, mean, variance] = [weight, beta, mean, variance].map(|part| part.as_slice());
    let (weight, beta, mean, variance) = (weight?, beta?, mean?, variance?);
    let bias = bias.map(Tensor::as_slice).transpose()?;
    let of = |channel: usize| {
        let at = |values: &[f32]| f64::from(values[channel]);
        let scale = at(weight) / (at(variance) + f64::from(*eps)).sqrt();
        (scale as f32, (at(beta) + scale * (bias.map_or(0.0, at) - at(mean))) as f32)
    };
    let (scale, shift) = (0..weight.len()).map(of).unzip();
    Ok(Some(ScaleShift { scale, shift }))
}
// ANCHOR_END: scale_shift

/// One convolution equivalent to a convolution and the BatchNorm after it: its weights times the scale, with the shift as bias.
/// `None` for other operations.
///
/// # Errors
/// Same as [`scale_shift`].
pub fn folded(conv: &Operation, norm: &Operation) -> Result<Option<Operation>> {
    let Operation::Conv2d { weight, bias, params } = conv else { return Ok(None) };
    let Some(ScaleShift { scale, shift }) = scale_shift(norm, bias.as_deref())? else { return Ok(None) };
    Ok(Some(Operation::Conv2d {
        weight: Arc::new(scaled(weight, &scale)?),
        bias: Some(Arc::new(Tensor::from_vec(&[shift.len()], shift)?)),
        params: *params,
    }))
}

/// A weight \[K, …\] with each of its K parts times the part's scale.
///
/// # Errors
/// [`Error::Invalid`] if it is not on the host.
pub fn scaled(weight: &Tensor, scale: &[f32]) -> Result<Tensor> {
    let part = weight.len() / scale.len().max(1);
    let values = weight.as_slice()?.iter().enumerate().map(|(at, value)| value * scale[at / part]).collect();
    Tensor::from_vec(weight.shape(), values)
}

/// Below this norm a row of a basis has no direction.
const SHORTEST: f64 = 1e-12;

/// The linear layer without a bias that is equivalent to a product with a basis. `None` if it is another operation.
///
/// # Errors
/// [`Error::Invalid`] if the basis is not on the host, [`Error::Shape`] if it is not a matrix.
pub fn linear_of_basis(operation: &Operation) -> Result<Option<Operation>> {
    let Operation::Basis { rows, transposed } = operation else { return Ok(None) };
    let [latent, columns] = rows.dims("a basis")?;
    let values = rows.as_slice()?;
    let length = |row: &[f32]| row.iter().map(|value| f64::from(*value).powi(2)).sum::<f64>().sqrt().max(SHORTEST);
    let lengths: Vec<f64> = values.chunks(columns.max(1)).map(length).collect();
    let at = |row: usize, column: usize| (f64::from(values[row * columns + column]) / lengths[row]) as f32;
    let weight = if *transposed {
        Tensor::from_fn(&[latent, columns], |index| at(index[0], index[1]))
    } else {
        Tensor::from_fn(&[columns, latent], |index| at(index[1], index[0]))
    };
    let bias = Tensor::zeros(&weight.shape()[..1]);
    Ok(Some(Operation::Linear { weight: Arc::new(weight), bias: Arc::new(bias) }))
}

// ANCHOR: joined
/// The linear layer equivalent to two, where the second reads a row of the first one's results as F rows of its own:
///
/// ```text
/// then(first(x)) of row f = (first's rows f·S … f·S + S of W·x + b) · thenᵀ = (then · W_f) · x + then · b_f + its bias
/// ```
///
/// Sums in f64, rounded once.
///
/// # Errors
/// [`Error::Invalid`] for other operations, or if a parameter is not on the host.
pub fn joined(first: &Operation, then: &Operation) -> Result<Operation> {
    let (Operation::Linear { weight: w, bias: b }, Operation::Linear { weight: v, bias: c }) = (first, then) else {
        return Err(Error::Invalid("only linear layers are joined".to_owned()));
    };
    let ([_, inputs], [outputs, each]) = (w.dims("a linear layer")?, v.dims("a linear layer")?);
    let (mut weight, mut bias) = (Vec::new(), Vec::new());
    for (rows, shifts) in w.as_slice()?.chunks(each * inputs).zip(b.as_slice()?.chunks(each)) {
        let product = reference::matmul(v.as_slice()?, rows, outputs, inputs, each)?;
        weight.extend(product.values.iter().map(|value| *value as f32));
        let shift = reference::matmul(v.as_slice()?, shifts, outputs, 1, each)?;
        bias.extend(shift.values.iter().zip(c.as_slice()?).map(|(value, c)| (value + f64::from(*c)) as f32));
    }
    let shape = [bias.len(), inputs];
    let (weight, bias) = (Tensor::from_vec(&shape, weight)?, Tensor::from_vec(&shape[..1], bias)?);
    Ok(Operation::Linear { weight: Arc::new(weight), bias: Arc::new(bias) })
}
// ANCHOR_END: joined

/// A weight \[K, C, R, S\] with zeros up to `outputs` and `inputs` channels.
///
/// # Errors
/// [`Error::Shape`] if it does not have 4 dimensions, [`Error::Invalid`] if it is not on the host.
pub fn filled_up(weight: &Tensor, outputs: usize, inputs: usize) -> Result<Tensor> {
    let [k, c, r, s] = weight.dims4()?;
    let values = weight.as_slice()?;
    if [outputs, inputs] == [k, c] {
        return Tensor::from_vec(weight.shape(), values.to_vec());
    }
    Ok(Tensor::from_fn(&[outputs, inputs, r, s], |at| match *at {
        [to, from, y, x] if to < k && from < c => values[((to * c + from) * r + y) * s + x],
        _ => 0.0,
    }))
}

/// A vector of a channel's values, with zeros up to `channels`.
///
/// # Errors
/// None: the values are on the host.
pub fn vector(values: &[f32], channels: usize) -> Result<Tensor> {
    let mut values = values.to_vec();
    values.resize(channels, 0.0);
    Tensor::from_vec(&[channels], values)
}

/// The values rounded to `precision`. Tensor cores cut f32 off after the tenth bit, which is an error of twice the size and
/// always towards zero; so weights are rounded beforehand to the nearest value that tensor cores multiply.
///
/// # Errors
/// [`Error::Invalid`] if the weight is not on the host.
pub fn rounded(weight: &Tensor, precision: Precision) -> Result<Tensor> {
    if precision != Precision::Tf32 {
        return weight.to_type(precision.input());
    }
    const CUT: u32 = 13;
    let nearest = |value: &f32| {
        let bits = value.to_bits();
        let even = bits >> CUT & 1;
        f32::from_bits((bits + (1 << (CUT - 1)) - 1 + even) >> CUT << CUT)
    };
    Tensor::from_vec(weight.shape(), weight.as_slice()?.iter().map(nearest).collect())
}

#[cfg(test)]
mod tests {
    use common::check::Tolerance;
    use common::check::assert_close;
    use common::reference::{self, Conv2dParams};

    use super::*;

    fn norm(channels: usize) -> Operation {
        let part = |seed: u64, centre: f32| {
            let random = Tensor::random(&[channels], seed);
            Arc::new(Tensor::from_fn(&[channels], |at| centre + 0.5 * random.as_slice().unwrap()[at[0]]))
        };
        Operation::BatchNorm {
            weight: part(1, 1.0),
            bias: part(2, 0.0),
            mean: part(3, 0.0),
            variance: part(4, 1.0),
            eps: 1e-5,
        }
    }

    #[test]
    fn a_folded_norm_does_what_the_two_did() {
        let (x, weight) = (Tensor::random(&[2, 3, 6, 5], 5), Arc::new(Tensor::random(&[4, 3, 3, 3], 6)));
        let params = Conv2dParams::new(2, 1);
        for bias in [None, Some(Arc::new(Tensor::random(&[4], 7)))] {
            let (conv, norm) = (Operation::Conv2d { weight: weight.clone(), bias: bias.clone(), params }, norm(4));
            let Operation::BatchNorm { weight: gamma, bias: beta, mean, variance, eps } = &norm else { unreachable!() };
            let sums = reference::conv2d(&x, &weight, bias.as_deref(), params).unwrap();
            let shape = params.output_shape(&x, &weight).unwrap();
            let plane = shape[2] * shape[3];
            let expected: Vec<f64> = sums
                .values
                .iter()
                .enumerate()
                .map(|(at, sum)| {
                    let of = |part: &Tensor| f64::from(part.as_slice().unwrap()[at / plane % 4]);
                    of(gamma) * (sum - of(mean)) / (of(variance) + f64::from(*eps)).sqrt() + of(beta)
                })
                .collect();
            let Some(Operation::Conv2d { weight, bias: Some(bias), .. }) = folded(&conv, &norm).unwrap() else {
                panic!()
            };
            let found = reference::conv2d(&x, &weight, Some(&bias), params).unwrap();
            // Weights, scale and shift are rounded once each.
            assert_close(&found.values, &expected, Tolerance::elementwise(3, 2.0 * sums.magnitude));
            assert!(folded(&norm, &conv).unwrap().is_none() && scale_shift(&conv, None).unwrap().is_none());
        }
    }

    #[test]
    fn two_linear_layers_are_one() {
        let tensor = |shape: &[usize], seed| Arc::new(Tensor::random(shape, seed));
        let first = Operation::Linear { weight: tensor(&[6, 4], 1), bias: tensor(&[6], 2) };
        let then = Operation::Linear { weight: tensor(&[5, 2], 3), bias: tensor(&[5], 4) };
        let Operation::Linear { weight, bias } = joined(&first, &then).unwrap() else { panic!() };
        assert_eq!((weight.shape(), bias.shape()), (&[15, 4][..], &[15][..]));
        let x = Tensor::random(&[1, 4], 5);
        let run = |operation: &Operation, x: &Tensor| {
            let Operation::Linear { weight, bias } = operation else { panic!() };
            let (rows, outputs, inputs) = (x.shape()[0], weight.shape()[0], weight.shape()[1]);
            let gemm = reference::Gemm {
                transposed: true,
                bias: Some(bias.as_slice().unwrap()),
                ..reference::Gemm::new(x.as_slice().unwrap(), weight.as_slice().unwrap(), rows, outputs, inputs)
            };
            let values = gemm.all().unwrap().values.iter().map(|value| *value as f32).collect();
            Tensor::from_vec(&[rows, outputs], values).unwrap()
        };
        let apart = run(&then, &run(&first, &x).reshape(&[3, 2]).unwrap());
        let together = run(&Operation::Linear { weight, bias }, &x);
        let expected: Vec<f64> = apart.as_slice().unwrap().iter().map(|value| f64::from(*value)).collect();
        assert_close(together.as_slice().unwrap(), &expected, Tolerance::elementwise(4, 20.0));
        assert!(joined(&first, &Operation::Gelu).is_err());
    }

    #[test]
    fn a_basis_is_a_linear_layer_with_rows_of_length_one() {
        let rows = Arc::new(Tensor::from_vec(&[2, 2], vec![3.0, 4.0, 0.0, 0.0]).unwrap());
        let weight = |transposed| {
            let basis = Operation::Basis { rows: rows.clone(), transposed };
            let Some(Operation::Linear { weight, bias }) = linear_of_basis(&basis).unwrap() else { panic!() };
            assert_eq!(bias.as_slice().unwrap(), [0.0; 2]);
            weight.as_slice().unwrap().to_vec()
        };
        assert_eq!(weight(true), [0.6, 0.8, 0.0, 0.0]);
        assert_eq!(weight(false), [0.6, 0.0, 0.8, 0.0]);
        assert!(linear_of_basis(&Operation::Gelu).unwrap().is_none());
    }

    #[test]
    fn weights_are_rounded_to_the_nearest_that_tensor_cores_multiply() {
        let step = 2f32.powi(-10);
        let values = [1.0 + 0.4 * step, 1.0 + 0.6 * step, -1.0 - 0.6 * step, 1.0 + 0.5 * step, 1.0 + 1.5 * step, 0.0];
        let weight = Tensor::from_vec(&[6], values.to_vec()).unwrap();
        let tf32 = rounded(&weight, Precision::Tf32).unwrap();
        assert_eq!(tf32.as_slice().unwrap(), [1.0, 1.0 + step, -1.0 - step, 1.0, 1.0 + 2.0 * step, 0.0]);
        assert_eq!(rounded(&weight, Precision::F16).unwrap().element_type(), ElementType::F16);
    }

    #[test]
    fn what_is_filled_up_has_zeros_beyond_the_weights() {
        let weight = Tensor::random(&[2, 3, 1, 2], 1);
        let filled = filled_up(&weight, 3, 4).unwrap();
        assert_eq!(filled.shape(), [3, 4, 1, 2]);
        let (from, to) = (weight.as_slice().unwrap(), filled.as_slice().unwrap());
        assert_eq!((&to[..6], &to[6..8], &to[8..14]), (&from[..6], &[0.0; 2][..], &from[6..12]));
        assert!(to[14..].iter().all(|value| *value == 0.0));
        assert_eq!(vector(&[1.0, 2.0], 3).unwrap().as_slice().unwrap(), [1.0, 2.0, 0.0]);
    }
}
