//! Copies and kernels of several chunks: ideal times if each engine did one thing at a time, and measured times.

use std::path::Path;

use common::device::{Device, Engine, Schedule, SimOptions};
use phase1_infra::step07_streams::{SOURCE, chunks, pipeline};

use crate::content::Picture;

use super::{
    DrawingError, Recorded,
    canvas::{Area, Canvas, Look, Stroke, Style},
};

/// Chunks of the step's data.
const CHUNKS: usize = 8;
/// Looks of the engines, which are in the order of a chunk's operations.
const ENGINES: [(Engine, Look); 3] =
    [(Engine::CopyIn, Look::First), (Engine::Compute, Look::Second), (Engine::CopyOut, Look::Third)];

/// Schedule of the step's own pipeline, as the simulator records it.
fn schedule(streams: usize) -> Result<Schedule, DrawingError> {
    let device = Device::sim_with(SimOptions { sanitize: true, ..SimOptions::default() });
    let (main, kernel) = (device.stream(), device.kernel(&SOURCE, "iterate")?);
    let workers = (0..streams).map(|_| device.new_stream()).collect::<Result<Vec<_>, _>>()?;
    let mut chunks = chunks(&device, CHUNKS, 32)?;
    Ok(device.schedule(|| pipeline(&main, &workers, &kernel, 1, &mut chunks).map(drop))?)
}

/// Squares that show the looks of the three engines.
fn legend(canvas: &mut Canvas, y: f64) {
    for (at, (engine, look)) in (0..).zip(ENGINES) {
        canvas.key((60.0 + 110.0 * f64::from(at), y), look, engine.name());
    }
}

pub(super) fn draw(_: &Path) -> Result<Picture, DrawingError> {
    const LEFT: f64 = 60.0;
    let schedules = [schedule(1)?, schedule(2)?, schedule(3)?];
    let longest = schedules.iter().map(Schedule::units).max().unwrap_or(1);
    let unit = (394.0 - LEFT) / longest as f64;
    let mut canvas = Canvas::new("drawing-streams");
    legend(&mut canvas, 16.0);
    let mut said = Vec::new();
    for (streams, schedule) in (1..).zip(&schedules) {
        let top = 50.0 + 98.0 * f64::from(streams - 1);
        let plural = if streams == 1 { "" } else { "s" };
        let title = format!("{streams} stream{plural}: {} units", schedule.units());
        canvas.text((LEFT, top), Style::START.bold(), &title);
        for (row, (engine, look)) in (0..).zip(ENGINES) {
            let y = top + 8.0 + 22.0 * f64::from(row);
            canvas.text((LEFT - 6.0, y + 14.0), Style::END.small(), engine.name());
            for operation in schedule.operations().iter().filter(|operation| operation.engine == engine) {
                let x = LEFT + unit * operation.unit as f64;
                canvas.area(Area::new(x, y, unit, 19.0), look);
                let place = (x + unit / 2.0, y + 14.0);
                canvas.text(place, Style::MIDDLE.small().of("on-area"), &operation.turn.to_string());
            }
        }
        said.push(format!("{} units with {streams} stream{plural}", schedule.units()));
    }
    let end = 50.0 + 98.0 * 2.0 + 74.0;
    canvas.arrow(&[(LEFT, end + 8.0), (394.0, end + 8.0)], Stroke::Plain);
    canvas.text((394.0, end + 24.0), Style::END.small(), "time");

    let alternative = format!(
        "A schematic of {CHUNKS} chunks on three engines, for copies in, kernels and copies out. With one stream, only one engine works at a \
         time; with three, all of them do. It takes {}.",
        said.join(", ")
    );
    let caption = "Schedule of the code above, not a measurement: each of the three operations of a chunk (numbered) takes one unit, and each \
         engine does one at a time.";
    Ok(canvas.finish(end + 30.0, &alternative, caption))
}

pub(super) fn draw_measured(workspace: &Path) -> Result<Picture, DrawingError> {
    const LEFT: f64 = 30.0;
    const DOWN: f64 = 26.0;
    /// The column in which each letter is a part of the time.
    const LETTERS: &str = "i: copy in, k: kernel, o: copy out";
    let recorded = Recorded::open(workspace, "phase1-infra/streams-timeline-3")?;
    let mut canvas = Canvas::new("drawing-streams-measured");
    legend(&mut canvas, 16.0);
    let (mut rows, mut end) = (0, 0.0_f64);
    let top = 44.0;
    for (at, row) in recorded.found.table.iter().enumerate() {
        let y = top + DOWN * at as f64;
        let (chunk, stream) = (row.number("chunk")?.unwrap_or_default(), row.number("stream")?.unwrap_or_default());
        canvas.text((LEFT - 8.0, y + 15.0), Style::END, &chunk.to_string());
        let letters: Vec<char> = row.text(LETTERS)?.chars().collect();
        let unit = (370.0 - LEFT) / letters.len().max(1) as f64;
        for (letter, (_, look)) in ['i', 'k', 'o'].into_iter().zip(ENGINES) {
            let first = letters.iter().position(|&other| other == letter);
            let count = letters.iter().filter(|&&other| other == letter).count();
            if let Some(first) = first {
                canvas.area(Area::new(LEFT + unit * first as f64, y, unit * count as f64, 20.0), look);
            }
        }
        let last = letters.iter().rposition(|&letter| letter != '·').map_or(0, |last| last + 1);
        let label = format!("s{stream}");
        canvas.text((LEFT + unit * last as f64 + 4.0, y + 15.0), Style::START.small(), &label);
        (rows, end) = (rows + 1, end.max(row.number("ends, ms")?.unwrap_or_default()));
    }
    if rows == 0 {
        return Err(recorded.missing("chunks".to_owned()));
    }
    let bottom = top + DOWN * f64::from(rows);
    canvas.text((LEFT - 8.0, 40.0), Style::START.small(), "chunk");
    canvas.arrow(&[(LEFT, bottom + 4.0), (370.0, bottom + 4.0)], Stroke::Plain);
    canvas.text((LEFT, bottom + 20.0), Style::START.small(), "0");
    canvas.text((370.0, bottom + 20.0), Style::END.small(), &format!("{end:.2} ms"));

    let alternative = format!(
        "When each of {rows} chunks was copied in, computed and copied out by three streams, from 0 to {end:.2} ms. Chunks follow each other \
         as stairs: while one is computed, the next is copied in and the one before is copied out."
    );
    let caption = format!(
        "Each chunk's copy in, kernel and copy out; s0 to s2 are the streams. An operation begins when the one before it in its stream has \
         ended, so its length includes waiting for its engine. {}",
        recorded.found.caption
    );
    Ok(canvas.finish(bottom + 26.0, &alternative, caption))
}
