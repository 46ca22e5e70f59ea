//! Integration tests, in one binary: a second one would be linked and built by everyone.
#![allow(clippy::unwrap_used)]

mod browser;
mod commands;
mod course;
mod exercises;
mod playground;
mod rules;
mod served;
mod server;
