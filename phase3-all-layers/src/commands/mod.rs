//! Commands of `cargo run -p phase3-all-layers -- COMMAND`.
//!
//! | module | command |
//! | --- | --- |
//! | [`classify`] | `classify PHOTO…`: what a network sees in photos |
//! | [`evaluate`] | `evaluate FOLDER`: how often it is right |
//! | [`reconstruct`] | `reconstruct FILE`: how well the autoencoder gives a sound back, frame by frame |
//! | [`video`] | `video`: frames from noise, and pictures of them |
//!
//! All of them use [`finite`]: an answer that is not a number is an error. [`classifier`] runs the network for `classify` and
//! `evaluate`, which phase 4 has too.

pub mod classifier;
pub mod classify;
pub mod evaluate;
pub mod finite;
pub mod reconstruct;
pub mod video;
