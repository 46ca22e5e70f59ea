//! The steps, each the host side of one kernel file: which shapes it takes, and the geometry of its launch.

pub mod step01_conv2d_naive;
pub mod step02_batch_norm;
pub mod step03_relu;

use crate::limits::fits_i32;
