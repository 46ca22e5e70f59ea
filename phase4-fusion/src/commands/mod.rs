//! Commands of the binary besides the parts.
//!
//! | module | command |
//! | --- | --- |
//! | [`resnet18`] | `resnet18`: the plan of the network, and a pass of it |
//! | [`autoencoder`] | `autoencoder`: its plan, and a pass of it; `reconstruct`, which is phase 3's, fused |
//! | [`unet`] | `unet`: the same for the video U-Net |
//! | [`ranks`] | `ranks`: every operation between ranks, on threads or processes; and what happens if one fails |
//! | [`precision`] | `precision`: a format for each layer of a model under an error budget |
//! | [`temporal`] | `temporal`: a clip by the U-Net with a memory, beside the whole computation |
//! | [`all_reduce`] | `all-reduce`: the ladder of sums over several devices |
//! | [`executor`] | `executor`: the U-Net as one launch, beside its plan; its tasks |
//! | [`tensor_parallel`] | `tensor-parallel`: the video U-Net over several devices |
//! | [`classifier`] | `classify` and `evaluate`, which are phase 3's, by a plan |

pub mod all_reduce;
pub mod autoencoder;
pub mod classifier;
pub mod executor;
pub mod precision;
pub mod ranks;
pub mod resnet18;
pub mod temporal;
pub mod tensor_parallel;
pub mod unet;
