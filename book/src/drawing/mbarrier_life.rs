//! Two phases of one mbarrier: pending arrivals, pending bytes, and the parities that its waiters name.

use std::path::Path;

use crate::content::Picture;

use super::{
    Constants, DrawingError,
    canvas::{Area, Canvas, Look, Stroke, Style},
};

/// Units of time until the lane expects the first bytes, until they are all there, and between the two uses of a stage.
const EXPECTED: f64 = 2.0;
const COMPLETE: f64 = 6.0;
const BETWEEN: f64 = 8.0;
/// Units of time that are drawn.
const END: f64 = 16.5;
/// Pieces in which a tile's bytes arrive.
const PIECES: usize = 3;
/// Bytes of a float.
const WORD: usize = 4;

/// Left edge of a time.
fn x(time: f64) -> f64 {
    const LEFT: f64 = 90.0;
    LEFT + time * (396.0 - LEFT) / END
}

/// From one time to another.
fn span([from, to]: [f64; 2], y: f64, height: f64) -> Area {
    Area::new(x(from), y, x(to) - x(from), height)
}

pub(super) fn draw(workspace: &Path) -> Result<Picture, DrawingError> {
    let kernel = Constants::of(workspace, "phase4-fusion/kernels/ptx_smooth.cuh")?;
    let bytes = WORD * (kernel.get("TILE")? + 2 * kernel.get("RADIUS")?);
    let uses = [0.0, BETWEEN];
    let flips = uses.map(|begin| begin + COMPLETE);

    let mut canvas = Canvas::new("drawing-mbarrier-life");
    let rows = [
        (14.0, "one lane"),
        (40.0, "its copy"),
        (70.0, "arrivals left"),
        (116.0, "bytes left"),
        (156.0, "phase"),
        (178.0, "parity"),
        (209.0, "other warps"),
    ];
    for (y, name) in rows {
        canvas.text((x(0.0) - 6.0, y), Style::END.small(), name);
    }
    canvas.text((x(0.0), 14.0), Style::START.small(), "init");
    for (number, begin) in uses.into_iter().enumerate() {
        let expected = begin + EXPECTED;
        canvas.text((x(expected), 14.0), Style::START.small(), "arrive.expect_tx");
        canvas.arrow(&[(x(expected), 18.0), (x(expected), 54.0)], Stroke::Plain);
        let copy = span([expected + 1.0, begin + COMPLETE], 26.0, 20.0);
        canvas.area(copy, Look::First);
        canvas.text((copy.middle(), 40.0), Style::MIDDLE.small(), "bytes");
        for piece in 0..PIECES {
            // The first piece stays for twice as long.
            let to = begin + COMPLETE - (PIECES - 1 - piece) as f64;
            let from = if piece == 0 { expected } else { to - 1.0 };
            let height = 40.0 * (PIECES - piece) as f64 / PIECES as f64;
            canvas.area(span([from, to], 132.0 - height, height), Look::First);
        }
        canvas.text((x(expected + 1.0), 116.0), Style::MIDDLE.small(), &bytes.to_string());
        let waits = span([begin + EXPECTED * number as f64, begin + COMPLETE], 195.0, 20.0);
        canvas.area(waits, Look::Dashed);
        canvas.text((waits.middle(), 209.0), Style::MIDDLE.small(), &format!("wait({})", number % 2));
        let reads = span([begin + COMPLETE, (begin + COMPLETE + 3.0).min(END)], 195.0, 20.0);
        canvas.area(reads, Look::Second);
        canvas.text((reads.middle(), 209.0), Style::MIDDLE.small().of("on-area"), "read");
    }
    let [first, second] = uses.map(|begin| begin + EXPECTED);
    let arrivals = [[0.0, first], [first, flips[0]], [flips[0], second], [second, flips[1]], [flips[1], END]];
    for (left, times) in [1, 0, 1, 0, 1].into_iter().zip(arrivals) {
        let area = span(times, 56.0, 20.0);
        canvas.area(area, Look::Outline);
        canvas.inside(area, &left.to_string());
    }
    for (phase, times) in [[0.0, flips[0]], flips, [flips[1], END]].into_iter().enumerate() {
        for (y, text) in [(142.0, phase), (164.0, phase % 2)] {
            let area = span(times, y, 20.0);
            canvas.area(area, Look::Third);
            canvas.text((area.middle(), area.centre() + 4.0), Style::MIDDLE.of("on-area"), &text.to_string());
        }
    }
    for flip in flips {
        canvas.line(&[(x(flip), 22.0), (x(flip), 222.0)], Stroke::Dashed);
    }
    canvas.arrow(&[(x(0.0), 230.0), (x(END), 230.0)], Stroke::Plain);
    canvas.text((x(END), 246.0), Style::END.small(), "time");

    let alternative = format!(
        "One mbarrier over time, initialised for one arrival. The lane arrives and expects {bytes} bytes: no arrival is left, and {bytes} bytes \
         are pending. The copy's bytes count them down. When both counts are zero, phase 0 ends, those who waited for parity 0 go on, and \
         one arrival is pending again: phase 1 has begun, of parity 1. It ends in the same way, and phase 2 has parity 0."
    );
    let caption = "A phase ends (dashed) when no arrival and no byte is left. Then the arrivals start again from 1, and the parity changes.";
    Ok(canvas.finish(252.0, &alternative, caption))
}
