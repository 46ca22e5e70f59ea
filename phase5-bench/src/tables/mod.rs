//! The registry: every table of the course, in its order. A table is a file here, with one line in each of the two lists.

use crate::spec::TableSpec;

pub mod accuracy;
pub mod attention;
pub mod autoencoder;
pub mod claims;
pub mod conv;
mod differences;
pub mod gemm;
pub mod layers;
pub mod linear_relu;
pub mod norm;
pub(crate) mod peers;
pub mod resnet;
pub mod transfer;
pub mod video;

/// All tables.
pub static TABLES: &[TableSpec] = &[
    transfer::TABLE,
    gemm::TABLE,
    conv::TABLE,
    norm::TABLE,
    layers::TABLE,
    resnet::SINGLE,
    resnet::BATCH,
    resnet::MEMORY,
    accuracy::TABLE,
    linear_relu::TABLE,
    autoencoder::TABLE,
    attention::TABLE,
    TableSpec::later("fusion", "fused kernels against separate ones: ms, launches, bytes", "phase 4"),
    TableSpec::later("ptx", "instructions written in PTX against CUDA C", "phase 4"),
    TableSpec::later("streams", "overlap, graphs, persistent kernel: ms and gain", "phase 4"),
    video::TABLE,
    claims::TABLE,
    TableSpec::later("multi-gpu", "1, 2, 4 GPUs: images/s, frames/s, efficiency", "phase 4"),
];
