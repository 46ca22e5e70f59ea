//! Integration tests, in one binary: a second one would be linked and built by everyone.
#![allow(clippy::unwrap_used)]

mod asynchrony;
mod attacks;
mod bulk;
#[cfg(feature = "cli")]
mod cli;
mod clusters;
mod diagnostics;
mod fuzz_smoke;
mod heap;
mod idioms;
mod instructions;
mod joint;
#[cfg(feature = "cli")]
mod limits;
mod profile;
mod refusals;
mod registers;
mod runtime;
mod sanitise;
mod textures;
mod threads;
mod trace;
mod watch;
mod wgmma;
mod wild;
