//! Photos in, drawings out: shared by the networks' phases beside [`common`], in a crate of its own, so that phases 1 and 2 build
//! without image formats and fonts.
//!
//! | module | what it holds |
//! | --- | --- |
//! | [`photo`] | from a photo file to an ImageNet network's input |
//! | [`plot`] | drawings as SVG and PNG files |

mod error;
pub mod photo;
pub mod plot;

pub use error::{Error, Result};
