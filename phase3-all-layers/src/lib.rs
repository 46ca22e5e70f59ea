//! Phase 3 — every layer on the device, and whole models.
//!
//! | module | what it holds |
//! | --- | --- |
//! | [`layers`] | what phase 2 has not, from pooling to attention |
//! | [`audio`] | from a WAV file to the autoencoder's input |
//! | [`autoencoder`] | the spectral shape autoencoder, on the CPU and on a device, stage by stage |
//! | [`classify`] | `cargo run -p phase3-all-layers -- classify PHOTO…`: what a network sees in photos |
//! | [`digits`] | accuracy on real images: a narrow ResNet over handwritten digits |
//! | [`evaluate`] | `cargo run -p phase3-all-layers -- evaluate FOLDER`: how often it is right |
//! | [`imagenet`] | what ImageNet's classes are called |
//! | [`module`] | how layers compose |
//! | [`host`] | networks whose activations are on the host: the CPU, and two ways of using a device that cost more than they gain |
//! | [`parameters`] | a model's tensors by name |
//! | [`photo`] | from a photo file to the network's input |
//! | [`plot`] | drawings as SVG and PNG files |
//! | [`reconstruct`] | how well a model gives a sound back, frame by frame |
//! | [`resnet`] | ResNet of basic blocks, ResNet18 among them, on the CPU and on a device |
//! | [`unet`] | the denoiser of video diffusion, on the CPU and on a device |
//! | [`video`] | frames from noise, and pictures of them |
//! | [`workspace`] | where activations live: planned once, so that a forward pass allocates nothing |

pub mod audio;
pub mod autoencoder;
pub mod classify;
pub mod digits;
mod error;
pub mod evaluate;
pub mod host;
pub mod imagenet;
pub mod layers;
pub mod module;
pub mod parameters;
pub mod photo;
pub mod plot;
pub mod reconstruct;
pub mod resnet;
pub mod unet;
pub mod video;
pub mod workspace;

pub use error::{Error, Result};

/// The same models in PyTorch, `models.py`, and what it imports: file names and texts.
pub const PYTORCH_MODELS: [(&str, &str); 2] =
    [("models.py", include_str!("../python/models.py")), ("seeded.py", include_str!("../python/seeded.py"))];
