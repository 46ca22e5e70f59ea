//! [`Operation`]: the function of a layer, and its parameters.

use std::sync::Arc;

use common::prelude::*;
use common::reference::{AttentionSize, Conv2dParams, MaxPool2d};

use crate::layers::kinds;

/// Function of a layer, with its parameters on the host (or only with their shapes, see [`super::shapes`]). It works on one value
/// x and, where documented, on a second one.
#[derive(Clone, Debug)]
pub enum Operation {
    /// The convolution of x \[N, C, H, W\] with `weight` \[K, C / groups, R, S\] and `bias` \[K\].
    Conv2d {
        /// \[K, C / groups, R, S\].
        weight: Arc<Tensor>,
        /// \[K\].
        bias: Option<Arc<Tensor>>,
        /// Stride, padding, dilation, groups.
        params: Conv2dParams,
    },
    /// BatchNorm of x \[N, C, H, W\] with running statistics, in place; the parameters are \[C\].
    BatchNorm {
        /// γ.
        weight: Arc<Tensor>,
        /// β.
        bias: Arc<Tensor>,
        /// Running mean.
        mean: Arc<Tensor>,
        /// Running variance.
        variance: Arc<Tensor>,
        /// Added to the variance.
        eps: f32,
    },
    /// LayerNorm of the rows of x \[…, D\]; the parameters are \[D\].
    LayerNorm {
        /// γ.
        weight: Arc<Tensor>,
        /// β.
        bias: Arc<Tensor>,
        /// Added to the variance.
        eps: f32,
    },
    /// x·Wᵀ + bias \[rows, out\] of x \[rows, in\].
    Linear {
        /// \[out, in\].
        weight: Arc<Tensor>,
        /// \[out\].
        bias: Arc<Tensor>,
    },
    /// The product of x with a basis G \[L, C\] whose rows are divided by their Euclidean norm: x·Gᵀ \[B, L\] of x \[B, C\], or x·G
    /// \[B, C\] of x \[B, L\].
    Basis {
        /// \[L, C\], before the division. Two layers with the same tensor share the result.
        rows: Arc<Tensor>,
        /// True for x·Gᵀ.
        transposed: bool,
    },
    /// max(x, 0), in place.
    Relu,
    /// 0.5·x·(1 + erf(x/√2)), in place.
    Gelu,
    /// x/(1 + e^(−x)), in place.
    Silu,
    /// Max pooling of x \[N, C, H, W\].
    MaxPool(MaxPool2d),
    /// The means \[N, C, 1, 1\] of the planes of x \[N, C, H, W\].
    AveragePool,
    /// x + the second value, of one shape, in place of x.
    Add,
    /// x \[N, C, H, W\] + the second value \[N, C\] in each plane, in place of x.
    AddChannel,
    /// x \[N, C₁, H, W\] and the second value \[N, C₂, H, W\], joined to \[N, C₁ + C₂, H, W\].
    Concatenate,
    /// Nearest upsampling of x \[N, C, H, W\] to \[N, C, H·factor, W·factor\].
    Upsample {
        /// A whole number, at least 1.
        factor: usize,
    },
    /// \[N, C, T\] of x \[N, T, C\]; an image \[N, T, H, W\] counts as H·W columns.
    Transpose,
    /// Attention over x \[N, T, 3·C\], queries, keys and values, to \[N, T, C\].
    Attention {
        /// Heads, of C / heads channels each.
        heads: usize,
    },
    /// The embeddings \[N, channels\] of the timesteps x \[N\].
    TimestepEmbedding {
        /// An even number.
        channels: usize,
    },
    /// The sum of x and the corresponding values of other ranks, in place: where a network is split over several devices, each
    /// has a part of the terms. With one rank it is x. A backend that runs a network on one device refuses it.
    AllReduce {
        /// Number of ranks; at least 1.
        ranks: usize,
    },
}

impl Operation {
    /// Name in tables and profiles.
    pub fn kind(&self) -> &'static str {
        match self {
            Operation::Conv2d { .. } => kinds::CONV,
            Operation::BatchNorm { .. } => kinds::NORM,
            Operation::LayerNorm { .. } => kinds::LAYER_NORM,
            Operation::Linear { .. } | Operation::Basis { .. } => kinds::LINEAR,
            Operation::Relu => kinds::RELU,
            Operation::Gelu => kinds::GELU,
            Operation::Silu => kinds::SILU,
            Operation::MaxPool(_) => kinds::MAX_POOL,
            Operation::AveragePool => kinds::AVERAGE_POOL,
            Operation::Add | Operation::AddChannel => kinds::ADD,
            Operation::Concatenate => kinds::CONCATENATE,
            Operation::Upsample { .. } => kinds::UPSAMPLE,
            Operation::Transpose => kinds::TRANSPOSE,
            Operation::Attention { .. } => kinds::ATTENTION,
            Operation::TimestepEmbedding { .. } => kinds::EMBEDDING,
            Operation::AllReduce { .. } => kinds::ALL_REDUCE,
        }
    }

    /// True if it works on two values.
    pub fn takes_two(&self) -> bool {
        matches!(self, Operation::Add | Operation::AddChannel | Operation::Concatenate)
    }

    /// True if the result may replace x.
    pub fn is_in_place(&self) -> bool {
        use Operation::{Add, AddChannel, AllReduce, BatchNorm, Gelu, Relu, Silu};
        matches!(self, BatchNorm { .. } | Relu | Gelu | Silu | Add | AddChannel | AllReduce { .. })
    }

    /// The shape of the result.
    ///
    /// # Errors
    /// [`Error::Shape`] if the operands do not fit the operation or one another, where the result's shape depends on it.
    pub fn output_shape(&self, x: &Tensor, with: Option<&Tensor>) -> Result<Vec<usize>> {
        Ok(match self {
            Operation::Conv2d { weight, params, .. } => params.output_shape(x, weight)?.to_vec(),
            Operation::MaxPool(pool) => pool.output_shape(x)?.to_vec(),
            Operation::AveragePool => {
                let [count, channels, ..] = x.dims4()?;
                vec![count, channels, 1, 1]
            }
            Operation::Linear { weight, .. } => {
                let [rows, _] = x.dims("linear")?;
                vec![rows, weight.shape()[0]]
            }
            Operation::Basis { rows, transposed } => {
                let [batch, _] = x.dims("a basis")?;
                vec![batch, rows.shape()[usize::from(!transposed)]]
            }
            Operation::Concatenate => {
                let ([count, first, height, width], [_, second, ..]) = (x.dims4()?, second(with)?.dims4()?);
                vec![count, first + second, height, width]
            }
            Operation::Upsample { factor } => {
                let [count, channels, height, width] = x.dims4()?;
                match [height, width].map(|side| side.checked_mul(*factor)) {
                    [Some(height), Some(width)] => vec![count, channels, height, width],
                    _ => return Err(Error::shape("upsampling", ShapeError::Overflow(x.shape().to_vec()))),
                }
            }
            Operation::Transpose => match *x.shape() {
                [batch, rows, columns] => vec![batch, columns, rows],
                [batch, rows, height, width] => vec![batch, height * width, rows],
                _ => {
                    let detail = ShapeError::mismatch("[B, R, C] or [B, R, H, W]", x.shape());
                    return Err(Error::shape("transposition", detail));
                }
            },
            Operation::Attention { heads } => {
                let size = AttentionSize::of(x, *heads)?;
                vec![size.batch, size.tokens, size.channels]
            }
            Operation::TimestepEmbedding { channels } => vec![x.len(), *channels],
            Operation::BatchNorm { .. }
            | Operation::LayerNorm { .. }
            | Operation::Relu
            | Operation::Gelu
            | Operation::Silu
            | Operation::Add
            | Operation::AddChannel
            | Operation::AllReduce { .. } => x.shape().to_vec(),
        })
    }

    /// The same operation with only the shapes of its parameters, so that it keeps none of them in memory.
    #[must_use]
    pub fn outline(&self) -> Operation {
        let shape = |tensor: &Arc<Tensor>| Arc::new(Tensor::shape_only(tensor.shape()));
        match self {
            Operation::Conv2d { weight, bias, params } => {
                Operation::Conv2d { weight: shape(weight), bias: bias.as_ref().map(shape), params: *params }
            }
            Operation::BatchNorm { weight, bias, mean, variance, eps } => Operation::BatchNorm {
                weight: shape(weight),
                bias: shape(bias),
                mean: shape(mean),
                variance: shape(variance),
                eps: *eps,
            },
            Operation::LayerNorm { weight, bias, eps } => {
                Operation::LayerNorm { weight: shape(weight), bias: shape(bias), eps: *eps }
            }
            Operation::Linear { weight, bias } => Operation::Linear { weight: shape(weight), bias: shape(bias) },
            Operation::Basis { rows, transposed } => Operation::Basis { rows: shape(rows), transposed: *transposed },
            other => other.clone(),
        }
    }
}

/// Error of a single device for an [`Operation::AllReduce`] with others.
pub(crate) fn needs_others(ranks: usize, device: impl Into<String>) -> Error {
    Error::Unsupported {
        what: format!("the sum of the parts of {ranks} ranks"),
        device: device.into(),
        reason: "one device has one rank's part alone".to_owned(),
    }
}

/// The second operand of an operation that takes two.
///
/// # Errors
/// [`Error::Invalid`] if there is none.
pub fn second<T>(with: Option<T>) -> Result<T> {
    with.ok_or_else(|| Error::Invalid("a layer of two values was given one".to_owned()))
}
