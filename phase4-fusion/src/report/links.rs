//! Estimated times of an all-reduce over several hosts, by the model of [`crate::links`].

use bench::parts::{Part, Report};
use bench::table::{ColumnSpec, Table, TableBuilder};
use common::prelude::*;

use crate::links::{CARD_PER_GPU, Link, NVLINK, SHARED_CARD, two_levels};

/// `cargo run -p phase4-fusion -- links`.
pub const PART: Part = Part {
    name: "links",
    about: "a model, not a measurement: all-reduce over 8 hosts with 8 GPUs",
    tables: &["links"],
    by_default: false,
    run,
};

/// Hosts, and GPUs of each.
const CLUSTER: [usize; 2] = [8, 8];
/// ResNet18's gradients in f32, between powers of two.
const SIZES: [(&str, f64); 5] = [
    ("64 KiB", 65_536.0),
    ("1 MiB", 1_048_576.0),
    ("ResNet18's gradients", 4.0 * 11_689_512.0),
    ("256 MiB", 268_435_456.0),
    ("4 GiB", 4_294_967_296.0),
];

const WHAT: ColumnSpec = ColumnSpec::text("what", "what");
const HOST: ColumnSpec = ColumnSpec::number("host_ms", "8 GPUs, 1 host", 3);
const RING: ColumnSpec = ColumnSpec::number("ring_ms", "64, one ring", 3);
const LEVELS: ColumnSpec = ColumnSpec::number("levels_ms", "64, two levels", 3);
const SHARED: ColumnSpec = ColumnSpec::number("shared_ms", "64, shared card", 3);

fn run(_: &Device) -> Result<Report> {
    Ok(Report { tables: vec![table()], wrong: Vec::new() })
}

/// Milliseconds by size and method.
pub fn table() -> Table {
    let [hosts, gpus] = CLUSTER;
    let title = "model: milliseconds of an all-reduce over several hosts";
    let mut table = TableBuilder::of(title, [WHAT, HOST, RING, LEVELS, SHARED]);
    for (what, bytes) in SIZES {
        table
            .row()
            .set(WHAT, what)
            .set(HOST, 1e3 * NVLINK.ring(gpus, bytes))
            // Every step waits for the slowest link of the ring.
            .set(RING, 1e3 * CARD_PER_GPU.ring(hosts * gpus, bytes))
            .set(LEVELS, 1e3 * two_levels(CLUSTER, bytes, &NVLINK, &CARD_PER_GPU))
            .set(SHARED, 1e3 * two_levels(CLUSTER, bytes, &NVLINK, &SHARED_CARD))
            .complete();
    }
    table.note(format!(
        "A model, not a measurement: {hosts} hosts with {gpus} GPUs, a message takes its latency and its bytes at the bandwidth. {}. \
         One ring and two levels go over {}; the last column over {}.",
        [NVLINK, CARD_PER_GPU, SHARED_CARD].map(|link| told(&link)).join("; "),
        CARD_PER_GPU.name,
        SHARED_CARD.name,
    ));
    table.finish()
}

fn told(link: &Link) -> String {
    format!("{}: {} µs, {} GB/s per GPU and direction", link.name, link.latency * 1e6, link.bandwidth / 1e9)
}
