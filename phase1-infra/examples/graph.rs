//! Exercise: a graph with branches. Edit `capture`, then `cargo run -p phase1-infra --example graph`.

use std::process::ExitCode;

use common::device::Graph;
use common::prelude::*;
use phase1_infra::host_exercises::graph::{Kernels, Memory, ROUNDS, judge};
use phase1_infra::step04_vector_add::vector_add;
use phase1_infra::step07_streams::iterate;

// ANCHOR: skeleton
/// Captures a graph that iterates on each part and adds them: pairs[0] = parts[0] + parts[1], pairs[1] = parts[2] + parts[3],
/// total = pairs[0] + pairs[1].
fn capture(stream: &Stream, kernels: &Kernels, memory: &mut Memory) -> Result<Graph> {
    let Memory { parts, pairs, total } = memory;
    stream.capture(|stream| {
        for part in &mut *parts {
            iterate(stream, &kernels.iterate, part, ROUNDS)?;
        }
        vector_add(stream, &kernels.add, &parts[0], &parts[1], &mut pairs[0])?;
        vector_add(stream, &kernels.add, &parts[2], &parts[3], &mut pairs[1])?;
        vector_add(stream, &kernels.add, &pairs[0], &pairs[1], total)
    })
}
// ANCHOR_END: skeleton

fn main() -> Result<ExitCode> {
    Ok(judge(capture)?.report())
}
