//! Phase 4 — tensor cores, PTX by hand, fusion, attention, graphs and streams.
//!
//! | module | what it holds |
//! | --- | --- |
//! | [`all_reduce`] | the sum of buffers of several devices, which all of them get |
//! | [`attention`] | attention whose scores never are in memory |
//! | [`autoencoder`] | the spectral shape autoencoder in one launch |
//! | [`broken`] | the gallery of asynchronous mistakes: what `cargo run -p phase4-fusion -- broken` shows |
//! | [`collectives`] | every operation between ranks, checked |
//! | [`commands`] | what the command does beside the parts: whole models |
//! | [`conv`] | convolutions on tensor cores, channels last |
//! | [`executor`] | a whole network in one launch: a queue of tasks in device memory |
//! | [`fusion`] | the diffusion step in one pass, and the passes that an epilogue saves |
//! | [`gemm`] | the ladder of matrix products on tensor cores |
//! | [`links`] | a model of links between hosts: what an all-reduce would take |
//! | [`models`] | phase 3's models, fused and in f32, tf32 or f16, or each layer in its own format: plans that can be printed |
//! | [`nhwc`] | what lies between convolutions channels last |
//! | [`parallel`] | one model over several devices: batches divided, or layers |
//! | [`planes`] | what lies between convolutions in planes of f32 |
//! | [`ptx`] | small kernels in CUDA C and in PTX, each pair with one question |
//! | [`published`] | the gallery of mistakes that were published as bugs of known projects: `… -- published` |
//! | [`recast`] | from one type to another channels last, where layers differ in what they compute with |
//! | [`report`] | what `cargo run -p phase4-fusion` shows: every step checked, counted on the simulator, timed on a GPU |
//! | [`streams`] | a chain of tiny kernels: launches, graphs, dependent launches, one persistent kernel |
//! | [`temporal`] | frames whose network takes again what a step or a frame before has made |
//! | [`tensor_parallel`] | one pass of a model on several devices: heads and channels split, sums over ranks |
//! | [`tile`] | shapes of tile, and which of them fits a product or a convolution |
//! | [`trials`] | kernels between convolutions and fused ones against their references, for whoever changes one |

pub mod all_reduce;
pub mod attention;
pub mod autoencoder;
pub mod broken;
pub mod cli;
pub mod collectives;
pub mod commands;
pub mod conv;
pub mod executor;
pub mod fusion;
pub mod gemm;
pub mod links;
pub mod models;
pub mod nhwc;
pub mod parallel;
pub mod planes;
pub mod ptx;
pub mod published;
pub mod recast;
pub mod report;
pub mod streams;
pub mod temporal;
pub mod tensor_parallel;
pub mod tile;
pub mod trials;
