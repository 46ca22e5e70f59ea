//! Host and device: SMs, the caches and the memories, and where the steps of phase 1 are.

use std::path::Path;

use phase1_infra::STEPS;

use crate::content::Picture;

use super::{
    DrawingError,
    canvas::{Area, Canvas, Look, Style},
};

pub(super) fn draw(_: &Path) -> Result<Picture, DrawingError> {
    let mut canvas = Canvas::new("drawing-device");
    let host = Area::new(4.0, 24.0, 84.0, 246.0);
    let device = Area::new(130.0, 24.0, 266.0, 246.0);
    for (area, name) in [(host, "host"), (device, "device")] {
        canvas.area(area, Look::Dashed);
        canvas.text((area.middle(), 14.0), Style::MIDDLE.bold(), name);
    }
    let sm = Area::new(140.0, 34.0, 142.0, 138.0);
    canvas.area(sm, Look::Faint);
    canvas.text((sm.middle(), sm.y + 18.0), Style::MIDDLE.bold(), "SM");
    for (at, lines) in (0..).zip([&["schedulers", "and cores"][..], &["registers"], &["shared memory", "and L1 cache"]])
    {
        let area = Area::new(sm.x + 8.0, sm.y + 26.0 + 37.0 * f64::from(at), sm.width - 16.0, 33.0);
        canvas.area(area, Look::First);
        let first = area.centre() + 4.0 - 7.0 * (lines.len() as f64 - 1.0);
        for (line, text) in (0..).zip(lines) {
            canvas.text((area.middle(), first + 14.0 * f64::from(line)), Style::MIDDLE.small(), text);
        }
    }
    for (x, name) in [(288.0, "SM"), (324.0, "SM"), (360.0, "…")] {
        let other = Area::new(x, sm.y, 30.0, sm.height);
        canvas.area(other, Look::Faint);
        canvas.inside(other, name);
    }
    let l2 = Area::new(140.0, 182.0, 250.0, 30.0);
    canvas.area(l2, Look::Outline);
    canvas.inside(l2, "L2 cache, shared by all SMs");
    let global = Area::new(140.0, 226.0, 250.0, 34.0);
    canvas.area(global, Look::Second);
    canvas.text((global.middle(), global.centre() + 4.5), Style::MIDDLE.of("on-area"), "global memory");
    let memory = Area::new(10.0, 226.0, 72.0, 34.0);
    canvas.titled(memory, Look::Outline, &["host", "memory"]);
    canvas.both_ways((memory.right() + 2.0, memory.centre()), (global.x - 2.0, memory.centre()));
    canvas.text((109.0, memory.centre() - 8.0), Style::MIDDLE.small(), "link");

    let alternative = "Beside the host with its memory is the device. It has many SMs, each with schedulers, cores, registers, shared memory and \
         L1 cache. Below them is the L2 cache that all share, then global memory, which a link joins with the host's.";
    Ok(canvas.finish(276.0, alternative, "One SM of many, and what all SMs share."))
}

/// The steps by place, with their numbers.
fn steps(names: &[&str]) -> Result<Vec<String>, DrawingError> {
    let numbered = |name: &&str| {
        let at = STEPS.iter().position(|step| step.name == *name);
        let missing = || DrawingError::Missing { place: "phase 1".to_owned(), what: format!("step {name}") };
        Ok(format!("{} {name}", at.ok_or_else(missing)? + 1))
    };
    names.iter().map(numbered).collect()
}

/// Draws where the steps of phase 1 are.
pub(super) fn draw_steps(_: &Path) -> Result<Picture, DrawingError> {
    let mut canvas = Canvas::new("drawing-phase1");
    let host = Area::new(4.0, 10.0, 112.0, 220.0);
    let device = Area::new(284.0, 10.0, 112.0, 220.0);
    let queue = Area::new(134.0, 34.0, 132.0, 66.0);
    let link = Area::new(134.0, 148.0, 132.0, 48.0);
    let sms = Area::new(device.x + 6.0, 34.0, 100.0, 74.0);
    let memory = Area::new(device.x + 6.0, 148.0, 100.0, 48.0);
    canvas.area(host, Look::Dashed);
    canvas.area(device, Look::Dashed);
    canvas.text((host.middle(), 27.0), Style::MIDDLE.bold(), "host");
    canvas.text((device.middle(), 27.0), Style::MIDDLE.bold(), "device");
    let mut said = Vec::new();
    let mut put = |canvas: &mut Canvas, area: Area, look: Option<Look>, name: &str, names: &[&str]| {
        if let Some(look) = look {
            canvas.area(area, look);
        }
        let steps = steps(names)?;
        let lines = steps.len() + usize::from(!name.is_empty());
        let first = area.centre() + 4.0 - 8.5 * (lines as f64 - 1.0);
        let texts = [name].into_iter().filter(|name| !name.is_empty()).chain(steps.iter().map(String::as_str));
        for (line, text) in (0..).zip(texts) {
            let style = if text == name { Style::MIDDLE.bold() } else { Style::MIDDLE.small() };
            canvas.text((area.middle(), first + 17.0 * f64::from(line)), style, text);
        }
        said.push(format!("{}: {}", if name.is_empty() { "host" } else { name }, steps.join(", ")));
        Ok::<_, DrawingError>(())
    };
    put(&mut canvas, host, None, "", &["transfer-test", "errors", "doctor"])?;
    put(&mut canvas, queue, Some(Look::Faint), "the queue", &["launch-overhead", "streams"])?;
    put(&mut canvas, link, Some(Look::Faint), "the link", &["transfers"])?;
    put(&mut canvas, sms, Some(Look::First), "SMs", &["device-query", "vector-add", "grid-stride"])?;
    put(&mut canvas, memory, Some(Look::First), "memory", &["memory"])?;
    for middle in [queue, link] {
        let y = middle.centre();
        canvas.both_ways((host.right() + 1.0, y), (middle.x - 1.0, y));
        canvas.both_ways((middle.right() + 1.0, y), (sms.x - 1.0, y));
    }
    canvas.both_ways((sms.middle(), sms.bottom() + 1.0), (sms.middle(), memory.y - 1.0));
    let alternative = format!("Where the steps of phase 1 are, between host and device. {}.", said.join("; "));
    Ok(canvas.finish(236.0, &alternative, "The steps of phase 1, by the part that each asks about."))
}
