//! Integration tests, in one binary: a second one would be linked and built by everyone.
#![allow(clippy::unwrap_used)]

mod peer;
mod records;
mod strangers;
mod timing;
