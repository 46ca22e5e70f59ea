//! Integration tests, in one binary: a second one would be linked and built by everyone.
#![allow(clippy::unwrap_used)]

mod bounded;
mod class;
mod command;
mod described;
mod exercises;
mod gpu;
mod hostile;
mod new;
mod questions;
