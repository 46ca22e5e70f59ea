//! Exercise: how many blocks fit. Edit `blocks_per_sm`, then `cargo run -p phase1-infra --example occupancy`.

use std::process::ExitCode;

use common::Result;
use phase1_infra::host_exercises::occupancy::judge;

// ANCHOR: skeleton
/// Blocks that an SM of an H100 holds at a time: each has `threads` threads of `registers` registers, and `shared` bytes.
fn blocks_per_sm(threads: u32, registers: u32, shared: u32) -> u32 {
    let warps = threads.div_ceil(32);
    let by_warps = 64 / warps;
    // Your code: what registers and shared memory allow, and the block slots.
    let _ = (registers, shared);
    by_warps
}
// ANCHOR_END: skeleton

fn main() -> Result<ExitCode> {
    Ok(judge(blocks_per_sm)?.report())
}
