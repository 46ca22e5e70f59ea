//! The references: operations on the CPU that accumulate in f64. Also naive f32 versions, like a beginner's, for the CPU's
//! row in the tables.
//!
//! A [`Reference`] includes a bound on the rounding error of any f32 implementation, so no test guesses one.

mod conv;
mod elementwise;
mod norm;
mod pool;
mod quality;
mod sequence;
mod tensor_core;

pub use conv::{Conv2dParams, conv2d, conv2d_at, conv2d_f32};
pub(crate) use elementwise::expect_one_shape;
pub use elementwise::{
    DiffusionParams, add_channel, add_noise, concatenate, diffusion_step, embedding_frequencies, gelu, noise_factors,
    silu, silu_sum, timestep_embedding, upsample_nearest,
};
pub use norm::{BatchNorm, Statistics, batch_norm, batch_norm_f32, statistics};
pub use pool::{MaxPool2d, adaptive_avg_pool2d, max_pool2d};
pub use quality::structural_similarity;
pub(crate) use sequence::columns_of;
pub use sequence::{
    AttentionSize, Bounded, LayerNorm, SMALLEST_NORM, attention, attention_at, layer_norm, row_norm, softmax, transpose,
};
pub use tensor_core::{Activation, TensorGemm};

use crate::Tensor;
use crate::check::Tolerance;
use crate::error::{Error, Result};
use crate::parallel;

/// Values computed in f64, and the quantities that bound an f32 implementation's error.
#[derive(Clone, Debug)]
pub struct Reference {
    /// The results, in the order of the operation's output.
    pub values: Vec<f64>,
    /// The maximum number of terms summed for one value.
    pub terms: usize,
    /// The largest sum of the terms' absolute values.
    pub magnitude: f64,
}

impl Reference {
    /// The error bound for f32 arithmetic in any order of summation: [`Tolerance::dot`].
    pub fn tolerance(&self) -> Tolerance {
        Tolerance::dot(self.terms, self.magnitude)
    }

    /// Computes each value and the absolute sum of its terms.
    fn collect(len: usize, terms: usize, term: impl Fn(usize) -> Sum + Sync + Send) -> Reference {
        Reference::from_sums(parallel::collect(len, &term), terms)
    }

    fn from_sums(sums: Vec<Sum>, terms: usize) -> Reference {
        Reference {
            magnitude: sums.iter().map(|sum| sum.magnitude).fold(0.0, f64::max),
            values: sums.into_iter().map(|sum| sum.value).collect(),
            terms,
        }
    }
}

/// A sum and the sum of its terms' absolute values.
#[derive(Clone, Copy, Default)]
struct Sum {
    value: f64,
    magnitude: f64,
}

impl Sum {
    fn add(&mut self, term: f64) {
        self.value += term;
        self.magnitude += term.abs();
    }
}

/// a + b, element by element.
///
/// # Errors
/// [`Error::Shape`] if the lengths differ.
pub fn vector_add(a: &[f32], b: &[f32]) -> Result<Reference> {
    if a.len() != b.len() {
        return Err(Error::shape("vector_add", format!("{} values and {} values cannot be added", a.len(), b.len())));
    }
    Ok(Reference::collect(a.len(), 1, |i| {
        let mut sum = Sum::default();
        sum.add(f64::from(a[i]));
        sum.add(f64::from(b[i]));
        sum
    }))
}

/// C = A·B with A \[M, K\], B \[K, N\], C \[M, N\], all row-major.
///
/// # Errors
/// [`Error::Shape`] if a slice's length does not match M, N, K.
pub fn matmul(a: &[f32], b: &[f32], m: usize, n: usize, k: usize) -> Result<Reference> {
    Gemm::new(a, b, m, n, k).all()
}

/// C = relu(alpha·A·B + beta·C + bias), all row-major, with A \[M, K\], B \[K, N\] or, as in a linear layer, \[N, K\], C \[M,
/// N\], bias \[N\].
#[derive(Clone, Copy, Debug)]
pub struct Gemm<'a> {
    /// \[M, K\].
    pub a: &'a [f32],
    /// \[K, N\], or \[N, K\] if `transposed`.
    pub b: &'a [f32],
    /// Rows of A and C.
    pub m: usize,
    /// Columns of C.
    pub n: usize,
    /// Columns of A.
    pub k: usize,
    /// True for x·Wᵀ.
    pub transposed: bool,
    /// Multiplies A·B.
    pub alpha: f32,
    /// Multiplies C; at 0 C is not read.
    pub beta: f32,
    /// C before, \[M, N\]; needed if `beta` is not 0.
    pub c: Option<&'a [f32]>,
    /// \[N\].
    pub bias: Option<&'a [f32]>,
    /// Clamps negative results to 0 at the end.
    pub relu: bool,
}

impl<'a> Gemm<'a> {
    /// C = A·B with B \[K, N\] and nothing else.
    pub fn new(a: &'a [f32], b: &'a [f32], m: usize, n: usize, k: usize) -> Gemm<'a> {
        let (alpha, beta, c, bias, relu) = (1.0, 0.0, None, None, false);
        Gemm { a, b, m, n, k, transposed: false, alpha, beta, c, bias, relu }
    }

    /// Every output.
    ///
    /// # Errors
    /// [`Error::Shape`] if a slice's length does not match M, N, K.
    pub fn all(&self) -> Result<Reference> {
        self.check()?;
        let rows = parallel::collect(self.m, &|row| self.row(row));
        Ok(self.finish(rows.concat()))
    }

    /// The outputs at `indices` of C.
    ///
    /// # Errors
    /// Errors of [`Gemm::all`], or if an index is outside C.
    pub fn at(&self, indices: &[usize]) -> Result<Reference> {
        self.check()?;
        check_indices("gemm", indices, self.m * self.n)?;
        let one = |at: usize| {
            let (row, column) = (indices[at] / self.n, indices[at] % self.n);
            let mut sum = Sum::default();
            for (i, &a) in self.a_row(row).iter().enumerate() {
                let b = if self.transposed { self.b[column * self.k + i] } else { self.b[i * self.n + column] };
                sum.add(f64::from(a) * f64::from(b));
            }
            self.epilogue(sum, row, column)
        };
        Ok(self.finish(parallel::collect(indices.len(), &one)))
    }

    fn check(&self) -> Result<()> {
        let (m, n, k) = (self.m, self.n, self.k);
        if Some(self.a.len()) != m.checked_mul(k) || Some(self.b.len()) != k.checked_mul(n) {
            return Err(Error::shape(
                "matmul",
                format!(
                    "A has {} values and B has {}, but M = {m}, N = {n}, K = {k} need {} and {}",
                    self.a.len(),
                    self.b.len(),
                    m.saturating_mul(k),
                    k.saturating_mul(n)
                ),
            ));
        }
        let wrong = |what: &str, len: usize, needed: usize| {
            Err(Error::shape("matmul", format!("{what} has {len} values, but M = {m}, N = {n} need {needed}")))
        };
        match (self.c, self.bias) {
            (Some(c), _) if c.len() != m * n => wrong("C", c.len(), m * n),
            (None, _) if self.beta != 0.0 => wrong("C", 0, m * n),
            (_, Some(bias)) if bias.len() != n => wrong("the bias", bias.len(), n),
            _ => Ok(()),
        }
    }

    fn a_row(&self, row: usize) -> &'a [f32] {
        &self.a[row * self.k..(row + 1) * self.k]
    }

    /// Reads B row by row, the order in which it is stored.
    fn row(&self, row: usize) -> Vec<Sum> {
        let mut sums = vec![Sum::default(); self.n];
        let a = self.a_row(row);
        if self.transposed {
            for (sum, b) in sums.iter_mut().zip(self.b.chunks_exact(self.k.max(1))) {
                a.iter().zip(b).for_each(|(&a, &b)| sum.add(f64::from(a) * f64::from(b)));
            }
        } else {
            for (&a, b) in a.iter().zip(self.b.chunks_exact(self.n.max(1))) {
                sums.iter_mut().zip(b).for_each(|(sum, &b)| sum.add(f64::from(a) * f64::from(b)));
            }
        }
        let finished = sums.into_iter().enumerate().map(|(column, sum)| self.epilogue(sum, row, column));
        finished.collect()
    }

    fn epilogue(&self, product: Sum, row: usize, column: usize) -> Sum {
        let alpha = f64::from(self.alpha);
        let mut sum = Sum { value: alpha * product.value, magnitude: alpha.abs() * product.magnitude };
        if let Some(c) = self.c.filter(|_| self.beta != 0.0) {
            sum.add(f64::from(self.beta) * f64::from(c[row * self.n + column]));
        }
        if let Some(bias) = self.bias {
            sum.add(f64::from(bias[column]));
        }
        // Clamping does not enlarge differences, so the magnitude stays; a NaN stays too.
        if self.relu && sum.value < 0.0 {
            sum.value = 0.0;
        }
        sum
    }

    fn finish(&self, sums: Vec<Sum>) -> Reference {
        let more = [self.alpha != 1.0, self.beta != 0.0, self.bias.is_some()];
        Reference::from_sums(sums, self.k + more.into_iter().filter(|&term| term).count())
    }
}

fn check_indices(operation: &str, indices: &[usize], len: usize) -> Result<()> {
    match indices.iter().find(|&&index| index >= len) {
        Some(index) => Err(Error::shape(operation, format!("output {index} is out of range: there are {len}"))),
        None => Ok(()),
    }
}

/// relu(x·Wᵀ + bias) with x \[batch, in\], W \[out, in\], bias \[out\].
///
/// # Errors
/// [`Error::Shape`] if the shapes do not fit one another, [`Error::Invalid`] if a tensor is on a device.
pub fn linear_relu(x: &Tensor, weight: &Tensor, bias: &Tensor) -> Result<Reference> {
    let [batch, inputs, outputs] = linear_size(x, weight)?;
    bias.expect_shape("linear's bias", &[outputs])?;
    let product = Gemm::new(x.as_slice()?, weight.as_slice()?, batch, outputs, inputs);
    Gemm { transposed: true, bias: Some(bias.as_slice()?), relu: true, ..product }.all()
}

/// [`linear_relu`] in plain f32, one loop per dimension.
///
/// # Errors
/// Same as [`linear_relu`].
pub fn linear_relu_f32(x: &Tensor, weight: &Tensor, bias: &Tensor) -> Result<Tensor> {
    let [batch, inputs, outputs] = linear_size(x, weight)?;
    bias.expect_shape("linear's bias", &[outputs])?;
    let (x, weight, bias) = (x.as_slice()?, weight.as_slice()?, bias.as_slice()?);
    let values = parallel::collect(batch * outputs, &|i| {
        let (row, column) = (i / outputs, i % outputs);
        let mut sum = bias[column];
        for k in 0..inputs {
            sum += x[row * inputs + k] * weight[column * inputs + k];
        }
        relu_of(sum)
    });
    Tensor::from_vec(&[batch, outputs], values)
}

/// The gradients of a linear layer with ReLU.
#[derive(Clone, Debug)]
pub struct LinearGradients {
    /// \[batch, in\]: g·W, with g = dy where y > 0 and 0 elsewhere.
    pub input: Reference,
    /// \[out, in\]: gᵀ·x.
    pub weight: Reference,
    /// \[out\]: the sums of g's columns.
    pub bias: Reference,
}

/// The gradients of [`linear_relu`] for its result `y` and the gradient `dy` of the result, both \[batch, out\].
///
/// # Errors
/// Same as [`linear_relu`].
pub fn linear_relu_backward(x: &Tensor, weight: &Tensor, y: &Tensor, dy: &Tensor) -> Result<LinearGradients> {
    let [batch, inputs, outputs] = linear_size(x, weight)?;
    y.expect_shape("linear's y", &[batch, outputs])?;
    dy.expect_shape("linear's dy", &[batch, outputs])?;
    let passed = dy.as_slice()?.iter().zip(y.as_slice()?);
    let g: Vec<f32> = passed.map(|(&dy, &y)| if y > 0.0 { dy } else { 0.0 }).collect();
    let transposed: Vec<f32> = (0..g.len()).map(|i| g[i % batch * outputs + i / batch]).collect();
    Ok(LinearGradients {
        input: matmul(&g, weight.as_slice()?, batch, inputs, outputs)?,
        weight: matmul(&transposed, x.as_slice()?, outputs, inputs, batch)?,
        bias: matmul(&transposed, &vec![1.0; batch], outputs, 1, batch)?,
    })
}

/// Batch, inputs, outputs.
pub(crate) fn linear_size(x: &Tensor, weight: &Tensor) -> Result<[usize; 3]> {
    match (x.shape(), weight.shape()) {
        (&[batch, inputs], &[outputs, same]) if same == inputs => Ok([batch, inputs, outputs]),
        (x, weight) => {
            Err(Error::shape("linear", format!("x {x:?} and weight {weight:?} do not fit [batch, in], [out, in]")))
        }
    }
}

/// max(x, 0); NaN stays NaN, as in PyTorch.
///
/// # Errors
/// [`Error::Invalid`] if the tensor is on a device.
pub fn relu(input: &Tensor) -> Result<Reference> {
    let values = input.as_slice()?;
    // Nothing is rounded.
    Ok(Reference { values: values.iter().map(|&x| f64::from(relu_of(x))).collect(), terms: 0, magnitude: 0.0 })
}

/// [`relu`] in plain f32.
///
/// # Errors
/// Same as [`relu`].
pub fn relu_f32(input: &Tensor) -> Result<Tensor> {
    let x = input.as_slice()?;
    Tensor::from_vec(input.shape(), parallel::collect(x.len(), &|i| relu_of(x[i])))
}

fn relu_of(x: f32) -> f32 {
    if x < 0.0 { 0.0 } else { x }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::assert_close;

    #[test]
    fn matmul_by_hand_and_empty() {
        let a = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0];
        let b = [7.0, 8.0, 9.0, 10.0, 11.0, -12.0];
        let c = matmul(&a, &b, 2, 2, 3).unwrap();
        assert_eq!(c.values, [58.0, -8.0, 139.0, 10.0]);
        assert_eq!((c.terms, c.magnitude), (3, 154.0));
        assert_eq!(matmul(&[], &[], 2, 2, 0).unwrap().values, [0.0; 4]);
        assert!(matmul(&[], &[1.0], 0, 1, 1).unwrap().values.is_empty());
        assert_eq!(
            matmul(&a, &b, 2, 2, 2).unwrap_err().to_string(),
            "matmul: A has 6 values and B has 6, but M = 2, N = 2, K = 2 need 4 and 4"
        );
    }

    #[test]
    fn linear_and_its_gradients_by_hand() {
        let tensor = |shape: &[usize], values: &[f32]| Tensor::from_vec(shape, values.to_vec()).unwrap();
        let (x, weight) = (tensor(&[2, 2], &[1.0, 2.0, 3.0, -4.0]), tensor(&[3, 2], &[1.0, 1.0, 0.0, 2.0, 5.0, 0.0]));
        let y = linear_relu(&x, &weight, &tensor(&[3], &[0.5, -10.0, 0.0])).unwrap();
        assert_eq!(y.values, [3.5, 0.0, 5.0, 0.0, 0.0, 15.0]);
        let y = tensor(&[2, 3], &y.values.iter().map(|&value| value as f32).collect::<Vec<_>>());
        let dy = tensor(&[2, 3], &[1.0, 10.0, 100.0, 2.0, 20.0, 200.0]);
        let gradients = linear_relu_backward(&x, &weight, &y, &dy).unwrap();
        // g is [1, 0, 100], [0, 0, 200].
        assert_eq!(gradients.input.values, [501.0, 1.0, 1000.0, 0.0]);
        assert_eq!(gradients.weight.values, [1.0, 2.0, 0.0, 0.0, 700.0, -600.0]);
        assert_eq!(gradients.bias.values, [1.0, 0.0, 300.0]);
        let error = linear_relu(&x, &tensor(&[2, 3], &[0.0; 6]), &y).unwrap_err().to_string();
        assert_eq!(error, "linear: x [2, 2] and weight [2, 3] do not fit [batch, in], [out, in]");
    }

    #[test]
    fn conv2d_by_hand() {
        // A 3×3 image and a 2×2 window that picks corners.
        let image = Tensor::from_fn(&[1, 1, 3, 3], |i| (3 * i[2] + i[3] + 1) as f32);
        let window = Tensor::from_vec(&[1, 1, 2, 2], vec![1.0, 0.0, 0.0, 10.0]).unwrap();
        let bias = Tensor::full(&[1], 0.5);
        let plain = conv2d(&image, &window, Some(&bias), Conv2dParams::default()).unwrap();
        assert_eq!(plain.values, [51.5, 62.5, 84.5, 95.5]);
        // Stride 2 and padding 1: windows start at rows and columns −1 and 1.
        let params = Conv2dParams::new(2, 1);
        let padded = conv2d(&image, &window, None, params).unwrap();
        assert_eq!(padded.values, [10.0, 30.0, 70.0, 95.0]);
        // Dilation 2: the corners of the whole image.
        let params = Conv2dParams { dilation: [2, 2], ..Conv2dParams::default() };
        assert_eq!(conv2d(&image, &window, None, params).unwrap().values, [91.0]);
    }

    #[test]
    fn groups_see_their_own_channels() {
        // 1×1 windows: output channel 0 doubles channel 0, output channel 1 triples channel 1.
        let image = Tensor::from_fn(&[2, 2, 1, 1], |i| (10 * i[0] + i[1] + 1) as f32);
        let weight = Tensor::from_vec(&[2, 1, 1, 1], vec![2.0, 3.0]).unwrap();
        let params = Conv2dParams { groups: 2, ..Conv2dParams::default() };
        let out = conv2d(&image, &weight, None, params).unwrap();
        assert_eq!(out.values, [2.0, 6.0, 22.0, 36.0]);
    }

    #[test]
    fn the_f32_versions_stay_within_the_derived_tolerance() {
        let image = Tensor::random(&[2, 6, 9, 7], 1);
        let weight = Tensor::random(&[4, 3, 3, 2], 2);
        let bias = Tensor::random(&[4], 3);
        let params = Conv2dParams { stride: [2, 1], padding: [1, 2], dilation: [1, 2], groups: 2 };
        let expected = conv2d(&image, &weight, Some(&bias), params).unwrap();
        let actual = conv2d_f32(&image, &weight, Some(&bias), params).unwrap();
        assert_eq!(actual.shape(), [2, 4, 5, 9]);
        assert_close(actual.as_slice().unwrap(), &expected.values, expected.tolerance());

        let positive = |seed| {
            Tensor::from_vec(
                &[6],
                Tensor::random(&[6], seed).into_vec().unwrap().iter().map(|v| v.abs() + 0.1).collect(),
            )
            .unwrap()
        };
        let (weight, bias) = (Tensor::random(&[6], 4), Tensor::random(&[6], 5));
        let (mean, variance) = (Tensor::random(&[6], 6), positive(7));
        let norm = BatchNorm { weight: &weight, bias: &bias, mean: &mean, variance: &variance, eps: 1e-5 };
        let expected = batch_norm(&image, &norm).unwrap();
        let actual = batch_norm_f32(&image, &norm).unwrap();
        assert_close(actual.as_slice().unwrap(), &expected.values, expected.tolerance());

        let expected = relu(&image).unwrap();
        let actual = relu_f32(&image).unwrap();
        assert_close(actual.as_slice().unwrap(), &expected.values, expected.tolerance());
        assert!(expected.values.contains(&0.0));
    }

    #[test]
    fn shapes_that_do_not_fit_are_refused_with_both() {
        let image = Tensor::zeros(&[1, 3, 8, 8]);
        let weight = Tensor::zeros(&[4, 2, 3, 3]);
        let message = |params| conv2d(&image, &weight, None, params).unwrap_err().to_string();
        assert_eq!(
            message(Conv2dParams::default()),
            "conv2d: input [1, 3, 8, 8] and weight [4, 2, 3, 3] with 1 groups: the weight's channels are not the input's divided by the groups"
        );
        let params = Conv2dParams { groups: 2, ..Conv2dParams::default() };
        assert!(message(params).ends_with("the groups do not divide the channels"));
        let large = Tensor::zeros(&[4, 3, 9, 9]);
        let error = conv2d(&image, &large, None, Conv2dParams::default()).unwrap_err();
        assert!(error.to_string().ends_with("the window is larger than the padded image"));
        let weight = Tensor::zeros(&[4, 3, 3, 3]);
        let message = |params| conv2d(&image, &weight, None, params).unwrap_err().to_string();
        for params in [
            Conv2dParams::new(1, usize::MAX),
            Conv2dParams::new(1, usize::MAX / 2),
            Conv2dParams { dilation: [usize::MAX; 2], ..Conv2dParams::default() },
        ] {
            assert!(message(params).ends_with("the window's reach overflows"), "{}", message(params));
        }
        assert!(message(Conv2dParams::new(1, usize::MAX / 4)).ends_with("more values than can be counted"));
    }

    #[test]
    fn statistics_by_hand_and_of_nothing() {
        // Channel 0 holds 1, 2, 3, 6, channel 1 holds 10 four times.
        let input = Tensor::from_vec(&[2, 2, 1, 2], vec![1.0, 2.0, 10.0, 10.0, 3.0, 6.0, 10.0, 10.0]).unwrap();
        let expected = statistics(&input).unwrap();
        assert_eq!(expected.mean, [3.0, 10.0]);
        assert_eq!(expected.variance, [3.5, 0.0]);
        assert!(statistics(&Tensor::zeros(&[0, 3, 2, 2])).unwrap().mean.iter().all(|mean| mean.is_nan()));
        assert!(statistics(&Tensor::zeros(&[2, 0, 2, 2])).unwrap().mean.is_empty());
    }

    /// Both methods in f32, one value after another, at a mean of 0 and at one of 4096 standard deviations.
    #[test]
    fn squares_lose_the_variance_at_a_large_mean_and_merging_does_not() {
        for (centre, squares_are_good) in [(0.0, true), (2048.0, false)] {
            let values = Tensor::random(&[1, 1, 20, 50], 1).into_vec().unwrap();
            let input = Tensor::from_vec(&[1, 1, 20, 50], values.iter().map(|v| centre + v).collect()).unwrap();
            let expected = statistics(&input).unwrap();
            let (mut sum, mut squares) = (0.0f32, 0.0f32);
            let (mut count, mut mean, mut m2) = (0.0f32, 0.0f32, 0.0f32);
            for &x in input.as_slice().unwrap() {
                sum += x;
                squares += x * x;
                count += 1.0;
                let delta = x - mean;
                mean += delta / count;
                m2 += delta * (x - mean);
            }
            assert_close(&[sum / count], &expected.mean, expected.mean_tolerance(1000));
            assert_close(&[mean], &expected.mean, expected.mean_tolerance(1000));
            let by_squares = [squares / count - (sum / count) * (sum / count)];
            assert_close(&by_squares, &expected.variance, expected.variance_tolerance_of_squares(1000));
            assert_close(&[m2 / count], &expected.variance, expected.variance_tolerance_merged(1000));
            let close = |variance: f32| (f64::from(variance) / expected.variance[0] - 1.0).abs() < 0.01;
            assert!(close(m2 / count));
            assert_eq!(close(by_squares[0]), squares_are_good);
        }
    }

    #[test]
    fn relu_keeps_nan() {
        let input = Tensor::from_vec(&[3], vec![f32::NAN, -1.0, 2.0]).unwrap();
        let out = relu(&input).unwrap().values;
        assert!(out[0].is_nan());
        assert_eq!(out[1..], [0.0, 2.0]);
    }
}
