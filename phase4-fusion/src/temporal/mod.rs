//! Temporal caching: results of an earlier step or frame are reused by rule.
//!
//! | module | what it holds |
//! | --- | --- |
//! | [`clip`] | the clip: moving shapes and a pan over the photo, as latents |
//! | [`tiles`] | tiles of the image whose input has not changed keep their results |
//! | [`sampler`] | frames by the U-Net, whose deep layers run every n-th step or frame, with or without tiles |
//! | [`quality`] | how far frames are from those of the whole computation |
//! | [`table`] | rules side by side |
//!
//! Noise is added to each frame's latents up to a step of the schedule, the same for every frame, and the network takes it out again in a
//! number of steps, with the frame before as its second input (Meng et al., "SDEdit", 2022, change pictures in this way). So where the
//! clip stands still, a frame's first step has the input that the frame before had.
//!
//! Untrained weights show the time, and how an error from a rule grows from step to step and frame to frame. They do not show
//! what a viewer would see: a trained network's deep layers change less from step to step than these do.

pub mod clip;
pub mod quality;
pub mod sampler;
pub mod table;
pub mod tiles;
