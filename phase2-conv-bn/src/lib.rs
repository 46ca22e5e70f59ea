//! Phase 2 — matrix products, convolution and normalisation on the device.
//!
//! | module | what it holds |
//! | --- | --- |
//! | [`gemm`] | the ladder of matrix products, from one thread per element to tiles that keep the arithmetic units busy |
//! | [`conv`] | the ladder of convolutions |
//! | [`linear`] | Linear+ReLU as one kernel, and its gradients |
//! | [`norm`] | BatchNorm, ReLU and the statistics of a channel: what is limited by memory alone |
//! | [`patterns`] | reduction, scan and other classics beyond this course's networks |
//! | [`report`] | what `cargo run -p phase2-conv-bn` shows: every step checked, counted on the simulator, timed on a GPU |
//! | [`trials`] | the ladders at ragged, tiny and empty shapes, for whoever changes a kernel |
//!
//! A ladder is a static table of steps, each the host side of one kernel file, so that the difference between neighbouring files
//! is the lesson.

pub mod cli;
pub mod conv;
pub mod gemm;
pub mod linear;
pub mod norm;
pub mod patterns;
pub mod report;
pub mod trials;

pub use bench::ladder::Step;
