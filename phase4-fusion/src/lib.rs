//! Phase 4 — tensor cores, PTX by hand, fusion, attention, graphs and streams.
//!
//! | module | what it holds |
//! | --- | --- |
//! | [`attention`] | attention whose scores never are in memory |
//! | [`autoencoder`] | the spectral shape autoencoder in one launch |
//! | [`broken`] | the gallery of asynchronous mistakes: what `cargo run -p phase4-fusion -- broken` shows |
//! | [`commands`] | what the command does beside the parts: whole models |
//! | [`conv`] | convolutions on tensor cores, channels last |
//! | [`fusion`] | the diffusion step in one pass, and the passes that an epilogue saves |
//! | [`gemm`] | the ladder of matrix products on tensor cores |
//! | [`models`] | phase 3's models, fused and in f32, tf32 or f16, each a plan that can be printed |
//! | [`nhwc`] | what lies between convolutions channels last |
//! | [`planes`] | what lies between convolutions in planes of f32 |
//! | [`ptx`] | small kernels in CUDA C and in PTX, each pair with one question |
//! | [`report`] | what `cargo run -p phase4-fusion` shows: every step checked, counted on the simulator, timed on a GPU |
//! | [`streams`] | a chain of tiny kernels: launches, graphs, dependent launches, one persistent kernel |
//! | [`tensor_parallel`] | one pass of a model on several devices: heads and channels split, sums over ranks |
//! | [`tile`] | shapes of tile, and which of them fits a product or a convolution |

pub mod attention;
pub mod autoencoder;
pub mod broken;
pub mod commands;
pub mod conv;
pub mod fusion;
pub mod gemm;
pub mod models;
pub mod nhwc;
pub mod planes;
pub mod ptx;
pub mod report;
pub mod streams;
pub mod tensor_parallel;
pub mod tile;
