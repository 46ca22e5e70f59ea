//! The steps, each the host side of one kernel file: which shapes it takes, and the geometry of its launch.

pub mod step02_batch_norm;
pub mod step03_relu;
