//! Phase 2 — matrix products, convolution and BatchNorm on the device.
//!
//! | module | what it holds |
//! | --- | --- |
//! | [`gemm`] | the ladder of matrix products, from one thread an element to tiles that keep the arithmetic units busy |
//! | [`steps`] | the layers that open ResNet18, each as the kernel one would write first |
//! | [`report`] | what `cargo run -p phase2-conv-bn` shows: every step checked, counted on the simulator, timed on a GPU |
//!
//! A ladder is a static table of steps, each the host side of one kernel file, so that the difference between neighbouring files
//! is the lesson.

pub mod gemm;
mod limits;
pub mod report;
pub mod steps;
