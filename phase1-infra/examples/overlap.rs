//! Exercise: copies beside kernels. Edit `overlapped`, then `cargo run -p phase1-infra --example overlap`.

use std::process::ExitCode;

use common::prelude::*;
use phase1_infra::host_exercises::overlap::{Chunk, ROUNDS, judge};
use phase1_infra::step07_streams::iterate;

// ANCHOR: skeleton
/// Copies each chunk to the device, iterates on it there, and copies the result back; later work of `main` begins after all of it.
/// The device has memory for three chunks.
fn overlapped(main: &Stream, kernel: &Kernel, chunks: &mut [Chunk], buffers: &mut [Buffer<f32>; 3]) -> Result<()> {
    let [first, _, _] = buffers;
    for chunk in chunks {
        main.memcpy_htod(&chunk.input, first)?;
        iterate(main, kernel, first, ROUNDS)?;
        main.memcpy_dtoh(first, &mut chunk.output)?;
    }
    Ok(())
}
// ANCHOR_END: skeleton

fn main() -> Result<ExitCode> {
    Ok(judge(overlapped)?.report())
}
