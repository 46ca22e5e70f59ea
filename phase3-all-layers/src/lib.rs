//! Phase 3 — every layer on the device, and whole models.
//!
//! | module | what it holds |
//! | --- | --- |
//! | [`nn`] | what models are described with: scopes of parameters, layers, values, backends, graphs |
//! | [`models`] | ResNet, the spectral shape autoencoder, the U-Net of video diffusion: each written once |
//! | [`backends`] | what runs them: the CPU, two halfway houses, a device with a kernel for each layer |
//! | [`layers`] | the kernels that phase 2 does not have, from pooling to attention |
//! | [`trials`] | each layer at ragged, tiny and empty shapes, for whoever changes a kernel |
//! | [`data`] | sound, labelled images, names of classes |
//! | [`digits`] | accuracy on real images: a narrow ResNet over handwritten digits |
//! | [`commands`] | what `cargo run -p phase3-all-layers -- COMMAND` runs: classify, evaluate, reconstruct, video |

pub mod backends;
pub mod cli;
pub mod commands;
pub mod data;
pub mod digits;
mod error;
pub mod layers;
pub mod models;
pub mod nn;
pub mod trials;

pub use error::{Error, Result};

/// The same models in PyTorch, `models.py`, and its imports: file names and texts.
pub const PYTORCH_MODELS: [(&str, &str); 2] =
    [("models.py", include_str!("../python/models.py")), ("seeded.py", include_str!("../python/seeded.py"))];
