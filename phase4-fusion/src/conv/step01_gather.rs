//! Step 1: TMA gathers the windows. Compute capability 9.0 and up.
//!
//! Hypothesis: a convolution is a product whose A nobody has written down, and what makes it slow is finding its values: phase 2's
//! ladder spends its steps on tables of offsets. A tensor map in im2col mode knows image, window, stride and padding, so one
//! instruction of one thread fetches a tap's 128 pixels. Change: the source of A's tiles in the main loop of the products.

use common::kernel_source;

use super::{Method, Step};
use crate::tile::TileShape;

/// `kernels/conv_01_gather.cu`.
pub(super) const STEP: Step = Step {
    number: 1,
    name: "gather by TMA",
    idea: "TMA gathers a tap's pixels; the rest is the main loop of the products",
    source: kernel_source!("conv_01_gather"),
    method: Method::Tiles(&[TileShape::new("Square", "")]),
};
