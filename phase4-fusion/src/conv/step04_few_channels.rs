//! Step 4: few channels: A from registers. Compute capability 9.0 and up.
//!
//! Hypothesis: the first layer of a network has 3 channels, and a step along K takes 64 of one tap, so 61 of 64 products would be
//! zeros; filled up to 8 channels, still 5 of 8. But a row of a window, 7 taps of 3 channels, is 21 values that lie next to each other
//! in memory. Change: K is rows of windows, TMA brings rows of the image, and threads pick A's fragments out of them.

use common::kernel_source;

use super::{Method, Step};

/// `kernels/conv_04_few_channels.cu`.
pub(super) const STEP: Step = Step {
    number: 4,
    name: "few channels",
    idea: "K is rows of windows; threads pick A's fragments out of the image's rows",
    source: kernel_source!("conv_04_few_channels"),
    method: Method::FewChannels,
};
