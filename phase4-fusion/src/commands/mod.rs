//! What the command does beside the parts.
//!
//! | module | command |
//! | --- | --- |
//! | [`resnet18`] | `resnet18`: the plan of the network, and a pass of it |
//! | [`autoencoder`] | `autoencoder`: its plan, and a pass of it; `reconstruct`, which is phase 3's, fused |
//! | [`unet`] | `unet`: the same for the video U-Net |
//! | [`executor`] | `executor`: the U-Net as one launch, beside its plan; its tasks |
//! | [`classifier`] | `classify` and `evaluate`, which are phase 3's, by a plan |

pub mod autoencoder;
pub mod classifier;
pub mod executor;
pub mod resnet18;
pub mod unet;
