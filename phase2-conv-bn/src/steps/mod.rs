//! The steps, each the host side of one kernel file: which shapes it takes, and the geometry of its launch.

pub mod step01_conv2d_naive;

use crate::limits::fits_i32;
