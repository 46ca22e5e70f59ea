//! What the command does beside the parts.
//!
//! | module | command |
//! | --- | --- |
//! | [`resnet18`] | `resnet18`: the plan of the network, and a pass of it |
//! | [`autoencoder`] | `autoencoder`: its plan, and a pass of it; `reconstruct`, which is phase 3's, fused |
//! | [`unet`] | `unet`: the same for the video U-Net |
//! | [`temporal`] | `temporal`: a clip by the U-Net with a memory, beside the whole computation |
//! | [`classifier`] | `classify` and `evaluate`, which are phase 3's, by a plan |

pub mod autoencoder;
pub mod classifier;
pub mod resnet18;
pub mod temporal;
pub mod unet;
