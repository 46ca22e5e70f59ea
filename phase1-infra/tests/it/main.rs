//! Integration tests, in one binary: a second one would be linked and built by everyone.
#![allow(clippy::unwrap_used)]

mod broken;
mod cli;
mod host_exercises;
mod kernels;
mod memory_model;
mod occupancy;
mod steps;
