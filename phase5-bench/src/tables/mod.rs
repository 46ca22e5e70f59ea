//! The registry: every table of the course, in its order. A table is a file here, its module and its line of [`TABLES`].

use crate::spec::TableSpec;

pub mod accuracy;
pub mod attention;
pub mod autoencoder;
pub mod best_peer;
pub mod claims;
pub mod conv;
mod differences;
pub mod fusion;
pub mod gemm;
pub mod layers;
pub mod linear_relu;
pub mod multi_gpu;
pub mod norm;
pub mod patterns;
pub(crate) mod peers;
pub mod precision;
pub mod ptx;
pub mod resnet;
pub mod streams;
pub mod temporal;
pub mod tensor_attention;
pub mod tensor_conv;
pub mod tensor_cores;
pub mod transfer;
pub mod video;

/// All tables.
pub static TABLES: &[TableSpec] = &[
    transfer::TABLE,
    gemm::TABLE,
    tensor_cores::TABLE,
    conv::TABLE,
    tensor_conv::TABLE,
    norm::TABLE,
    patterns::TABLE,
    layers::TABLE,
    resnet::SINGLE,
    resnet::BATCH,
    resnet::MEMORY,
    accuracy::TABLE,
    linear_relu::TABLE,
    autoencoder::TABLE,
    attention::TABLE,
    tensor_attention::TABLE,
    fusion::TABLE,
    ptx::TABLE,
    precision::TABLE,
    video::TABLE,
    streams::TABLE,
    multi_gpu::TABLE,
    temporal::TABLE,
    best_peer::TABLE,
    claims::TABLE,
];
