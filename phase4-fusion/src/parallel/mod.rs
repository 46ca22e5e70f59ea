//! One model over several devices.
//!
//! | module | what is divided |
//! | --- | --- |
//! | [`replicas`] | the batches: each device has the whole model and works on batches of its own |
//! | [`feed`] | nothing: how inputs come from the host |
//! | [`pipeline`] | the layers: each device has some of them, and batches travel from one to the next |
//!
//! One thread of the host drives all devices. Nothing here knows whether they are GPUs or simulated.

pub mod feed;
pub mod pipeline;
pub mod replicas;
