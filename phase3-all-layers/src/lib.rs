//! Phase 3 — every layer on the device, and whole models.
//!
//! | module | what it holds |
//! | --- | --- |
//! | [`layers`] | what phase 2 has not, from pooling to attention |
//! | [`autoencoder`] | the spectral shape autoencoder, on the CPU and on a device, stage by stage |
//! | [`commands`] | what `cargo run -p phase3-all-layers -- COMMAND` runs: classify, evaluate, reconstruct, video |
//! | [`data`] | sound, labelled images, names of classes, parameters |
//! | [`module`] | how layers compose |
//! | [`host`] | networks whose activations are on the host: the CPU, and two ways of using a device that cost more than they gain |
//! | [`resnet`] | ResNet of basic blocks, ResNet18 among them, on the CPU and on a device |
//! | [`unet`] | the denoiser of video diffusion, on the CPU and on a device |
//! | [`workspace`] | where activations live: planned once, so that a forward pass allocates nothing |

pub mod autoencoder;
pub mod commands;
pub mod data;
mod error;
pub mod host;
pub mod layers;
pub mod module;
pub mod resnet;
pub mod unet;
pub mod workspace;

pub use data::parameters;
pub use error::{Error, Result};

/// The same models in PyTorch, `models.py`, and what it imports: file names and texts.
pub const PYTORCH_MODELS: [(&str, &str); 2] =
    [("models.py", include_str!("../python/models.py")), ("seeded.py", include_str!("../python/seeded.py"))];
