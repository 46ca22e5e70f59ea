//! Integration tests, in one binary: a second one would be linked and built by everyone.
#![allow(clippy::unwrap_used)]

use common::device::Device;

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
mod published;
mod ranks;
mod resources;
mod sass;
mod streams;
mod temporal;
mod tensor_parallel;
mod tiles;
mod timeline;
mod unet;

/// Whether a test of many combinations takes the one at this position: on the simulator every second one.
fn in_turn(device: &Device, position: usize) -> bool {
    device.is_cuda() || position.is_multiple_of(2)
}
