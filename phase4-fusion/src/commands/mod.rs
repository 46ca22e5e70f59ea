//! What the command does beside the parts.
//!
//! | module | command |
//! | --- | --- |
//! | [`resnet18`] | `resnet18`: the plan of the network, and a pass of it |
//! | [`autoencoder`] | `autoencoder`: its plan, and a pass of it; `reconstruct`, which is phase 3's, fused |
//! | [`unet`] | `unet`: the same for the video U-Net |
//! | [`tensor_parallel`] | `tensor-parallel`: the video U-Net over several devices |
//! | [`classifier`] | `classify` and `evaluate`, which are phase 3's, by a plan |

pub mod autoencoder;
pub mod classifier;
pub mod resnet18;
pub mod tensor_parallel;
pub mod unet;
