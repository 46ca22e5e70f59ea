//! What the command does beside the parts.
//!
//! | module | command |
//! | --- | --- |
//! | [`resnet18`] | `resnet18`: the plan of the network, and a pass of it |
//! | [`autoencoder`] | `autoencoder`: its plan, and a pass of it; `reconstruct`, which is phase 3's, fused |
//! | [`unet`] | `unet`: the same for the video U-Net |
//! | [`all_reduce`] | `all-reduce`: the ladder of sums over several devices |
//! | [`classifier`] | `classify` and `evaluate`, which are phase 3's, by a plan |

pub mod all_reduce;
pub mod autoencoder;
pub mod classifier;
pub mod resnet18;
pub mod unet;
