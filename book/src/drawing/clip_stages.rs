//! Latents of two clips' frames on their way through one, two and four stages.

use std::path::Path;

use crate::content::Picture;

use super::{
    DrawingError,
    canvas::{Area, Canvas, Look, Style},
};

/// Clips, each with one frame, and their looks.
const CLIPS: [(&str, Look); 2] = [("A", Look::First), ("B", Look::Second)];
/// Latents of a frame.
const LATENTS: usize = 2;
/// Numbers of stages, and the time that a frame takes in passes over one latent.
const STAGES: [(usize, &str); 3] = [(1, "2 passes"), (2, "3/2 passes"), (4, "5/4 passes")];
/// Left edge, width of a pass over one latent, and height of a GPU's row.
const LEFT: f64 = 50.0;
const PASS: f64 = 84.0;
const ROW: f64 = 21.0;

pub(super) fn draw(_: &Path) -> Result<Picture, DrawingError> {
    let latents = CLIPS.len() * LATENTS;
    let mut canvas = Canvas::new("drawing-clip-stages");
    for (x, (clip, look)) in [20.0, 150.0].into_iter().zip(CLIPS) {
        canvas.key((x, 16.0), look, &format!("frame of clip {clip}"));
    }
    canvas.key((280.0, 16.0), Look::Dashed, "idle");
    let mut y = 46.0;
    for (stages, takes) in STAGES {
        let title = if stages == 1 { "one GPU".to_owned() } else { format!("{stages} stages") };
        canvas.text((LEFT, y), Style::START.bold(), &title);
        let steps = latents + stages - 1;
        let all = Area::new(LEFT, y + 7.0, PASS * steps as f64 / stages as f64, ROW * stages as f64);
        for stage in 0..stages {
            for step in 0..steps {
                let cell = all.cells([stages, steps], [stage, step], [1, 1]);
                let Some(latent) = step.checked_sub(stage).filter(|&latent| latent < latents) else {
                    canvas.area(cell, Look::Dashed);
                    continue;
                };
                let (clip, look) = CLIPS[latent / LATENTS];
                canvas.area(cell, look);
                let style = Style::MIDDLE.small().of("on-area");
                canvas.text((cell.middle(), cell.centre() + 4.0), style, &format!("{clip}{}", latent % LATENTS));
            }
            let centre = all.cells([stages, 1], [stage, 0], [1, 1]).centre();
            canvas.text((LEFT - 6.0, centre + 4.0), Style::END.small(), &format!("GPU {stage}"));
        }
        let frame = all.cells([1, steps], [0, LATENTS + stages - 2], [1, 1]).right();
        canvas.both_ways((LEFT, all.bottom() + 10.0), (frame, all.bottom() + 10.0));
        canvas.text((frame + 6.0, all.bottom() + 14.0), Style::START.small(), &format!("frame A: {takes}"));
        y = all.bottom() + 38.0;
    }

    let alternative = format!(
        "{latents} latents, {LATENTS} for a frame of each of two clips, on one GPU and in pipelines of two and of four stages. In a pipeline each GPU \
         has a part of the layers, so each latent moves one GPU down with each step. GPUs are idle at the beginning, before the first \
         latent reaches them, and at the end."
    );
    let caption = "Time to the right, in passes over one latent. Stages shorten the steps; GPUs idle while the pipeline fills and drains.";
    Ok(canvas.finish(y - 16.0, &alternative, caption))
}
