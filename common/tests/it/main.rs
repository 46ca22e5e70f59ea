//! Integration tests, in one binary: a second one would be linked and built by everyone.
#![allow(clippy::unwrap_used)]

mod compile;
mod counters;
mod device;
mod driver;
mod graphs;
mod group;
mod imports;
mod instructions;
mod launch;
mod launch_case;
mod nvrtc;
mod ordering;
mod pinned;
mod random_programs;
mod tensor;
mod tensor_maps;
mod textures;
