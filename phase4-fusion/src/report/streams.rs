//! A chain of tiny kernels, with every method of getting from one to the next.

use bench::ladder::{NO_COUNTS, columns};
use bench::parts::{Part, Report};
use bench::table::{Cell, ColumnSpec, TableBuilder};
use bench::timing::{Bench, NO_CLOCK};
use common::prelude::*;

use crate::streams::{Chain, Way};

/// `cargo run -p phase4-fusion -- streams`.
pub const PART: Part = Part {
    name: "streams",
    about: "a chain of tiny kernels: launches, dependent launches, graphs, one persistent kernel",
    tables: &["launch-chain"],
    by_default: true,
    run,
};

const WAY: ColumnSpec = ColumnSpec::text("way", "way");
const CALLS: ColumnSpec = ColumnSpec::number("calls", "calls", 0);
const KERNELS: ColumnSpec = ColumnSpec::number("kernels", "kernels", 0).on_simulator();
const LANES: ColumnSpec = ColumnSpec::number("lanes_per_step", "lane instructions per step", 0).on_simulator();
const MICROSECONDS: ColumnSpec = ColumnSpec::number("us_per_step", "µs per step", 2).on_gpu();
const GAIN: ColumnSpec = ColumnSpec::number("gain", "gain, ×", 2).on_gpu();

fn run(device: &Device) -> Result<Report> {
    let steps = if device.is_sim() { 8 } else { 64 };
    let stream = device.stream();
    let title = format!("a chain of {steps} tiny kernels");
    let all = [WAY, CALLS, KERNELS, LANES, MICROSECONDS, GAIN, columns::CHECK];
    let mut table = TableBuilder::on(device, &title, &all);
    let mut wrong = Vec::new();
    let mut plain = None;
    for way in Way::ALL {
        let mut chain = match Chain::new(&stream, way, steps) {
            Err(error) if error.is_unsupported() => {
                table.row().set(WAY, way.name()).finish(&error.to_string());
                continue;
            }
            chain => chain?,
        };
        let mut runs = 0;
        let timing = Bench::default().measure(&stream, || {
            runs += 1;
            chain.queue(&stream)
        })?;
        let checked = chain.check(&stream, runs);
        let check = if checked.is_ok() { "ok" } else { "WRONG" };
        wrong.extend(checked.err().map(|error| format!("{}: {error}", way.name())));
        let ms = timing.median_ms();
        plain = plain.or(ms);
        let counts = timing.counts();
        // A block that waits for others looks as often as it has time to, which is another number each time.
        let lanes =
            counts.filter(|_| way != Way::Persistent).map(|counts| counts.lane_instructions as f64 / steps as f64);
        let no_count = if counts.is_some() { "how often a waiting block looks is chance" } else { NO_COUNTS };
        table
            .row()
            .set(WAY, way.name())
            .set(CALLS, way.calls(steps) as f64)
            .set(KERNELS, Cell::or_absent(counts.map(|counts| counts.launches as f64), NO_COUNTS))
            .set(LANES, Cell::or_absent(lanes, no_count))
            .set(MICROSECONDS, Cell::or_absent(ms.map(|ms| ms * 1e3 / steps as f64), NO_CLOCK))
            .set(GAIN, Cell::or_absent(plain.zip(ms).map(|(plain, ms)| plain / ms), NO_CLOCK))
            .set(columns::CHECK, check)
            .complete();
    }
    table
        .note("calls: of the host, for one run of the chain. Each step needs values of all blocks of the step before.");
    Ok(Report { tables: vec![table.finish()], wrong })
}
