//! NVIDIA's own libraries, to compare the course's kernels with: the same tensors, the same stream, f32 without TF32. (NCCL is in
//! the crate `ranks`.)
//!
//! They are loaded if they are installed ([`common::probe`]). If not, or on the simulator, opening them gives
//! [`Error::Unsupported`](common::Error::Unsupported) with the command that installs them, and tables show a dash.

#[cfg(feature = "cuda")]
mod cublas;
#[cfg(feature = "cuda")]
mod cudnn;
#[cfg(feature = "cuda")]
mod open;
#[cfg(feature = "cuda")]
mod tensor_blas;
#[cfg(feature = "cuda")]
pub use {
    cublas::Cublas,
    cudnn::{Cudnn, CudnnConv2d},
    tensor_blas::{Suggestion, TensorBlas},
};

#[cfg(not(feature = "cuda"))]
mod absent;
#[cfg(not(feature = "cuda"))]
pub use absent::{Cublas, Cudnn, CudnnConv2d, Suggestion, TensorBlas};
