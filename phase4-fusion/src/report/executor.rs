//! A network as a queue of tasks in one launch.

use bench::parts::{Part, Report};
use common::prelude::*;
use phase3_all_layers::models::unet::{Config, INPUTS};

use crate::commands::executor::{explained, pass};

/// `cargo run -p phase4-fusion -- queue`.
pub const PART: Part = Part {
    name: "queue",
    about: "a U-Net as a queue of tasks in one launch: its tasks, and a pass beside the graph's",
    tables: &["executor-shares", "executor-programs", "executor-pass"],
    by_default: true,
    run,
};

fn run(device: &Device) -> Result<Report> {
    let mut tables = explained(device, &Config::ALL[..2], &[1, INPUTS, 64, 64])?;
    let side = if device.is_sim() { 8 } else { 64 };
    let (table, wrong) = pass(device, Config::ALL[0], &[1, INPUTS, side, side])?;
    tables.push(table);
    Ok(Report { tables, wrong })
}
