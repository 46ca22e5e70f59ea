//! The levels of memory from an SM to the host, with their recorded sizes and rates.

use std::path::Path;

use crate::content::Picture;

use super::{
    DrawingError, Recorded,
    canvas::{Area, Canvas, Look, Style},
};

/// Banks of shared memory, and the bytes that each gives per cycle.
const BANKS: f64 = 32.0;
const WORD: f64 = 4.0;

pub(super) fn draw(workspace: &Path) -> Result<Picture, DrawingError> {
    let device = Recorded::open(workspace, "phase1-infra/device-query")?;
    let value = |row| device.text(row, "value");
    let name = value("name")?;
    let sms = device.leading("multiprocessors (SM)", "value")?;
    let registers = device.leading("registers per SM", "value")? * WORD / 1024.0;
    let clock = device.leading("clock", "value")?; // GHz
    let shared = BANKS * WORD * clock * sms / 1e3;
    let limits = Recorded::open(workspace, "phase5-bench/limits")?;
    let copy = limits.leading("copy inside the device", "measured")?;
    let link = link(workspace)?;

    let mut canvas = Canvas::new("drawing-memory");
    let sm = Area::new(52.0, 6.0, 296.0, 150.0);
    canvas.area(sm, Look::Faint);
    canvas.text((sm.x + 8.0, sm.y + 18.0), Style::START.bold(), &format!("SM, one of {sms}"));
    let own = Area::new(120.0, 30.0, 160.0, 40.0);
    canvas.titled(own, Look::First, &["registers", &format!("{registers} KiB per SM")]);
    let near = Area::new(85.0, 106.0, 230.0, 40.0);
    let of_block = format!("up to {} per block", value("… if asked for")?);
    canvas.titled(near, Look::First, &["shared memory and L1 cache", &of_block]);
    let l2 = Area::new(52.0, 192.0, 296.0, 40.0);
    canvas.titled(l2, Look::Outline, &["L2 cache", &format!("{}, for all SMs", value("L2 cache")?)]);
    let global = Area::new(20.0, 284.0, 360.0, 40.0);
    canvas.titled(global, Look::Outline, &["global memory", &value("memory")?]);
    let host = Area::new(4.0, 362.0, 392.0, 40.0);
    canvas.titled(host, Look::Dashed, &["host memory", "on the CPU's side of the link"]);

    let levels = [own, near, l2, global, host];
    for pair in levels.windows(2) {
        canvas.both_ways((130.0, pair[0].bottom() + 2.0), (130.0, pair[1].y - 2.0));
    }
    let bandwidth = value("memory bandwidth")?;
    let words = BANKS * WORD;
    for (y, text) in [
        (92.0, format!("{words} bytes per cycle: {shared:.0} TB/s in all")),
        (178.0, "sectors of 32 bytes".to_owned()),
        (254.0, format!("{bandwidth}, by its clock and width")),
        (271.0, format!("{copy:.2} TB/s in a copy, measured")),
        (347.0, format!("{link:.0} GB/s from pinned memory, measured")),
    ] {
        canvas.text((142.0, y), Style::START.small(), &text);
    }

    let alternative = format!(
        "Levels of memory of an {name}. In each of {sms} SMs: {registers} KiB of registers, and shared memory with the L1 cache, \
         {shared:.0} TB/s over all SMs. For all SMs: an L2 cache of {}, then {} of global memory at {bandwidth}. The host's memory is \
         behind a link of {link:.0} GB/s.",
        value("L2 cache")?,
        value("memory")?
    );
    let caption = format!("What is farther away is slower. {}", device.found.caption);
    Ok(canvas.finish(408.0, &alternative, caption))
}

/// GB/s of the largest copy from pinned memory.
fn link(workspace: &Path) -> Result<f64, DrawingError> {
    let transfers = Recorded::open(workspace, "phase1-infra/transfers")?;
    let mut largest = None;
    for row in transfers.found.table.iter() {
        if row.text("path")? == "pinned → device" {
            largest = row.number("GB/s, events")?.or(largest);
        }
    }
    largest.ok_or_else(|| transfers.missing("copy from pinned memory".to_owned()))
}
