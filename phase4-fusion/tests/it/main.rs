//! Integration tests, in one binary: a second one would be linked and built by everyone.
#![allow(clippy::unwrap_used)]

mod all_reduce;
mod attention;
mod autoencoder;
mod broken;
mod command;
mod conv;
mod conv_s8;
mod executor;
mod fusion;
mod gemm;
mod goldens;
mod models;
mod nhwc;
mod parallel;
mod precision;
mod ptx;
mod ranks;
mod resources;
mod sass;
mod streams;
mod temporal;
mod tensor_parallel;
mod tiles;
mod timeline;
mod unet;
