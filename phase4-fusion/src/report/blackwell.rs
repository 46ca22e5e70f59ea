//! A product with its sums in tensor memory, beside the Hopper step that has the same tile.

use bench::ladder::load_steps;
use bench::parts::{Part, Report};
use common::prelude::*;

use super::gemm::add_table;
use crate::gemm::{BLACKWELL, LADDER, Precision};

/// `cargo run -p phase4-fusion -- blackwell`.
pub const PART: Part = Part {
    name: "blackwell",
    about: "a product with its sums in tensor memory (tcgen05), beside wgmma's; on the simulator, by the manual",
    tables: &["tensor-memory"],
    by_default: true,
    run,
};

/// Step 9, whose tile and stages they share, and the steps of Blackwell.
fn run(device: &Device) -> Result<Report> {
    let roles = LADDER.iter().filter(|step| step.name == "roles");
    let steps = load_steps(roles.chain(BLACKWELL), device)?;
    let mut report = Report::default();
    add_table(device, Precision::F16, &steps, &mut report)?;
    Ok(report)
}
