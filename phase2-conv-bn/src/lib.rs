//! Phase 2 — convolution and BatchNorm on the device.
//!
//! What is here now are the three layers that open ResNet18, each as the kernel one would write first:
//!
//! | step | kernel | the idea |
//! | --- | --- | --- |
//! | [`conv::step01_direct`] | `conv_01_direct.cu` | one thread computes one output element |
//! | [`norm::batch_norm::NAIVE`] | `norm_01_batch_norm.cu` | one thread normalises one element |
//! | [`norm::relu::NAIVE`] | `relu_01_naive.cu` | one thread clips one element, in place |
//!
//! They are the yardstick for what follows, and phase 5's `layers` table measures them. The ladders that make matrix product
//! and convolution fast (tiling, shared memory, registers, implicit GEMM) are the body of phase 2 and have not been written
//! yet.
//!
//! `cargo run -p phase2-conv-bn` runs all three on a small shape and compares them with the f64 reference.

pub mod conv;
pub mod gemm;
mod limits;
pub mod linear;
pub mod norm;
pub mod report;
