//! Integration tests, in one binary: a second one would be linked and built by everyone.
#![allow(clippy::unwrap_used)]

mod autoencoder;
mod command;
mod digits;
mod elementwise;
mod evaluate;
mod golden;
mod goldens;
mod graph;
mod layers;
mod models;
mod plans;
mod resnet;
mod sequence;
mod unet;
mod video;
