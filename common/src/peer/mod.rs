//! NVIDIA's own libraries, to be measured beside the course's kernels: the same tensors, the same stream, f32 without TF32.
//!
//! They are opened where they are installed ([`crate::probe`]); where they are not, or on the simulator, opening them is
//! [`Error::Unsupported`](crate::Error::Unsupported) with the command that installs them, and tables show a dash.

#[cfg(feature = "cuda")]
mod cublas;
#[cfg(feature = "cuda")]
mod cudnn;
#[cfg(feature = "cuda")]
mod open;
#[cfg(feature = "cuda")]
pub use {
    cublas::Cublas,
    cudnn::{Cudnn, CudnnConv2d},
};

#[cfg(not(feature = "cuda"))]
mod absent;
#[cfg(not(feature = "cuda"))]
pub use absent::{Cublas, Cudnn, CudnnConv2d};
