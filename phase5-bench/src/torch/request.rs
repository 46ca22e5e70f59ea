//! Requests to PyTorch: an operation to measure, how it runs it, and what it computes with.

use common::reference::Conv2dParams;
use serde::Serialize;

/// How PyTorch runs an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// Operation by operation.
    Eager,
    /// By `torch.compile`.
    Compiled,
    /// By `torch.compile`, captured as a CUDA graph.
    CompiledGraph,
    /// By `torch.compile` with `max-autotune`, which tries kernels, captured as a CUDA graph.
    Autotuned,
    /// Captured once as a CUDA graph, and replayed.
    Graph,
    /// Operation by operation on the CPU, with as many threads as our side; by the host's clock.
    Cpu,
}

/// Arithmetic of PyTorch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Arithmetic {
    /// As f32.
    #[default]
    F32,
    /// f32 whose products are rounded to TF32, on tensor cores; models are channels last.
    Tf32,
    /// Weights and activations in f16, and in models channels last.
    F16,
}

impl Arithmetic {
    fn is_f32(&self) -> bool {
        *self == Arithmetic::F32
    }
}

/// An implementation of scaled dot-product attention, as PyTorch names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Backend {
    /// FlashAttention-2.
    FlashAttention,
    /// FlashAttention-3, a package of its own (`fa3-fwd`), for bf16 and e4m3.
    #[serde(rename = "FLASH_ATTENTION_3")]
    FlashAttention3,
    /// cuDNN's.
    CudnnAttention,
    /// xFormers' memory-efficient attention.
    EfficientAttention,
    /// Two products and a softmax.
    Math,
}

/// One operation for PyTorch to measure; f32, without TF32 unless requested.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PeerRequest {
    #[serde(flatten)]
    operation: Operation,
    mode: Mode,
    #[serde(skip_serializing_if = "Arithmetic::is_f32")]
    arithmetic: Arithmetic,
    #[serde(skip_serializing_if = "is_false")]
    channels_last: bool,
}

fn is_false(flag: &bool) -> bool {
    !*flag
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "op", rename_all = "snake_case")]
enum Operation {
    Gemm {
        shape: [usize; 3],
        transposed: bool,
    },
    /// 8-bit floats, with a scale for 128 values of a row of A and for 128 × 128 of B, to bf16.
    ScaledGemm {
        shape: [usize; 3],
    },
    LinearRelu {
        shape: [usize; 3],
        backward: bool,
    },
    Conv2d {
        shape: [usize; 4],
        weight: [usize; 4],
        stride: [usize; 2],
        padding: [usize; 2],
        dilation: [usize; 2],
        groups: usize,
    },
    /// In f16, channels last; with BatchNorm, as a scale and a shift per channel, and SiLU if `silu`.
    HalfConv2d {
        shape: [usize; 4],
        weight: [usize; 4],
        stride: [usize; 2],
        padding: [usize; 2],
        silu: bool,
    },
    BatchNorm {
        shape: [usize; 4],
    },
    Relu {
        shape: [usize; 4],
    },
    Statistics {
        shape: [usize; 4],
    },
    Resnet18 {
        batch: usize,
    },
    Autoencoder {
        shape: [usize; 4],
        batch: usize,
    },
    Attention {
        shape: [usize; 4],
    },
    /// In f16, or another type, by one implementation.
    HalfAttention {
        shape: [usize; 4],
        keys: usize,
        causal: bool,
        #[serde(skip_serializing_if = "Option::is_none")]
        element: Option<&'static str>,
        backend: Backend,
    },
    Unet {
        channels: usize,
        batch: usize,
    },
}

impl PeerRequest {
    fn new(operation: Operation, mode: Mode) -> PeerRequest {
        PeerRequest { operation, mode, arithmetic: Arithmetic::F32, channels_last: false }
    }

    /// How it is run.
    pub(super) fn mode(&self) -> Mode {
        self.mode
    }

    /// The same in this arithmetic.
    #[must_use]
    pub fn with_arithmetic(self, arithmetic: Arithmetic) -> PeerRequest {
        PeerRequest { arithmetic, ..self }
    }

    /// The same with images and filters channels last, or in PyTorch's default: for a convolution in f32 and for models.
    #[must_use]
    pub fn with_channels_last(self, channels_last: bool) -> PeerRequest {
        PeerRequest { channels_last, ..self }
    }

    /// A·B with A \[M, K\] and B \[K, N\], or A·Bᵀ with B \[N, K\].
    pub fn gemm([m, n, k]: [usize; 3], transposed: bool, mode: Mode) -> PeerRequest {
        PeerRequest::new(Operation::Gemm { shape: [m, n, k], transposed }, mode)
    }

    /// A·Bᵀ of 8-bit floats whose blocks have scales; M, N and K are multiples of 128.
    pub fn scaled_gemm(shape: [usize; 3]) -> PeerRequest {
        PeerRequest::new(Operation::ScaledGemm { shape }, Mode::Eager)
    }

    /// relu(x·Wᵀ + b) of `[batch, in, out]`, or its gradients.
    pub fn linear_relu(shape: [usize; 3], backward: bool, mode: Mode) -> PeerRequest {
        PeerRequest::new(Operation::LinearRelu { shape, backward }, mode)
    }

    /// A convolution without bias.
    pub fn conv2d(shape: [usize; 4], weight: [usize; 4], params: Conv2dParams, mode: Mode) -> PeerRequest {
        let Conv2dParams { stride, padding, dilation, groups } = params;
        PeerRequest::new(Operation::Conv2d { shape, weight, stride, padding, dilation, groups }, mode)
    }

    /// A convolution in f16, channels last, alone or with BatchNorm and SiLU.
    pub fn half_conv2d(
        shape: [usize; 4],
        weight: [usize; 4],
        params: Conv2dParams,
        silu: bool,
        mode: Mode,
    ) -> PeerRequest {
        let Conv2dParams { stride, padding, .. } = params;
        PeerRequest::new(Operation::HalfConv2d { shape, weight, stride, padding, silu }, mode)
    }

    /// BatchNorm with running statistics.
    pub fn batch_norm(shape: [usize; 4], mode: Mode) -> PeerRequest {
        PeerRequest::new(Operation::BatchNorm { shape }, mode)
    }

    /// A forward pass of ResNet18 over this many images of 224 × 224.
    pub fn resnet18(batch: usize, mode: Mode) -> PeerRequest {
        PeerRequest::new(Operation::Resnet18 { batch }, mode)
    }

    /// A forward pass of the autoencoder with `[n_mels, frames, latent, slice_latent]`.
    pub fn autoencoder(shape: [usize; 4], batch: usize, mode: Mode) -> PeerRequest {
        PeerRequest::new(Operation::Autoencoder { shape, batch }, mode)
    }

    /// Scaled dot-product attention of queries, keys and values `[batch, heads, tokens, d]`.
    pub fn attention(shape: [usize; 4], mode: Mode) -> PeerRequest {
        PeerRequest::new(Operation::Attention { shape }, mode)
    }

    /// The same in f16, or in `element`, by one implementation, with this number of keys; with a mask, of as many queries.
    pub fn half_attention(
        shape: [usize; 4],
        keys: usize,
        causal: bool,
        element: Option<&'static str>,
        backend: Backend,
    ) -> PeerRequest {
        PeerRequest::new(Operation::HalfAttention { shape, keys, causal, element, backend }, Mode::Eager)
    }

    /// A forward pass of the video U-Net over `batch` latents of 64 × 64.
    pub fn unet(channels: usize, batch: usize, mode: Mode) -> PeerRequest {
        PeerRequest::new(Operation::Unet { channels, batch }, mode)
    }

    /// ReLU in place.
    pub fn relu(shape: [usize; 4], mode: Mode) -> PeerRequest {
        PeerRequest::new(Operation::Relu { shape }, mode)
    }

    /// Mean and biased variance of each channel.
    pub fn statistics(shape: [usize; 4], mode: Mode) -> PeerRequest {
        PeerRequest::new(Operation::Statistics { shape }, mode)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_says_what_the_script_reads() {
        let work = [
            PeerRequest::gemm([2, 3, 4], true, Mode::Eager),
            PeerRequest::conv2d([1, 2, 8, 8], [4, 2, 3, 3], Conv2dParams::new(2, 1), Mode::Graph),
            PeerRequest::statistics([1, 2, 8, 8], Mode::Eager),
            PeerRequest::scaled_gemm([128, 256, 384]),
            PeerRequest::half_attention([1, 2, 3, 8], 5, false, None, Backend::CudnnAttention),
            PeerRequest::half_attention([1, 2, 3, 8], 5, true, Some("bf16"), Backend::FlashAttention3),
            PeerRequest::resnet18(4, Mode::Cpu),
            PeerRequest::autoencoder([64, 5, 32, 64], 3, Mode::Compiled),
            PeerRequest::unet(16, 1, Mode::CompiledGraph).with_arithmetic(Arithmetic::F16),
            PeerRequest::linear_relu([2, 3, 4], false, Mode::Eager).with_arithmetic(Arithmetic::Tf32),
            PeerRequest::unet(16, 1, Mode::Graph).with_channels_last(true),
        ];
        let json = serde_json::to_value(&work).unwrap();
        assert_eq!(
            json,
            serde_json::json!([
                { "op": "gemm", "shape": [2, 3, 4], "transposed": true, "mode": "eager" },
                { "op": "conv2d", "shape": [1, 2, 8, 8], "weight": [4, 2, 3, 3], "stride": [2, 2], "padding": [1, 1],
                  "dilation": [1, 1], "groups": 1, "mode": "graph" },
                { "op": "statistics", "shape": [1, 2, 8, 8], "mode": "eager" },
                { "op": "scaled_gemm", "shape": [128, 256, 384], "mode": "eager" },
                { "op": "half_attention", "shape": [1, 2, 3, 8], "keys": 5, "causal": false,
                  "backend": "CUDNN_ATTENTION", "mode": "eager" },
                { "op": "half_attention", "shape": [1, 2, 3, 8], "keys": 5, "causal": true, "element": "bf16",
                  "backend": "FLASH_ATTENTION_3", "mode": "eager" },
                { "op": "resnet18", "batch": 4, "mode": "cpu" },
                { "op": "autoencoder", "shape": [64, 5, 32, 64], "batch": 3, "mode": "compiled" },
                { "op": "unet", "channels": 16, "batch": 1, "mode": "compiled_graph", "arithmetic": "f16" },
                { "op": "linear_relu", "shape": [2, 3, 4], "backward": false, "mode": "eager", "arithmetic": "tf32" },
                { "op": "unet", "channels": 16, "batch": 1, "mode": "graph", "channels_last": true }
            ])
        );
    }
}
