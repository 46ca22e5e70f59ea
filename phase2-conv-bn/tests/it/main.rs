//! Integration tests, in one binary: a second one would be linked and built by everyone.
#![allow(clippy::unwrap_used)]

mod command;
mod conv;
mod conv_epilogue;
mod conv_limits;
mod gemm;
mod linear;
mod norm;
mod patterns;
mod patterns_keys;
mod profile;
mod sass;
mod statistics;
