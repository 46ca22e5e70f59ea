//! What the command does beside the parts.
//!
//! | module | command |
//! | --- | --- |
//! | [`resnet18`] | `resnet18`: the plan of the network, and a pass of it |
//! | [`classifier`] | `classify` and `evaluate`, which are phase 3's, by a plan |

pub mod classifier;
pub mod resnet18;
