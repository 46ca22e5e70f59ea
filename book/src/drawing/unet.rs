//! The video U-Net's graph, recorded from its own description.

use std::{collections::BTreeMap, path::Path};

use phase3_all_layers::{
    models::unet::{Config, INPUTS, LATENTS},
    nn::{
        Operation,
        graph::{Graph, Source},
    },
};

use crate::content::Picture;

use super::{
    DrawingError,
    canvas::{Area, Canvas, Look, Stroke, Style},
    models::{shape, shapes_only},
};

/// Sides of the latents.
const SIDE: usize = 64;

/// Work of one way through the network at one resolution.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Work {
    residual: usize,
    attention: usize,
    channels: usize,
}

/// A resolution: on the way down, on the way up, and the number of results of the former that the latter uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Level {
    down: Work,
    up: Work,
    kept: usize,
}

/// The network by the side of its images, and its middle.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Shape {
    levels: BTreeMap<usize, Level>,
    middle: Work,
}

fn recorded() -> Result<Graph, DrawingError> {
    let config = Config::PRODUCTION;
    Ok(config.graph(&shapes_only(config.shapes()), &[1, INPUTS, SIDE, SIDE])?)
}

/// Counts blocks by side and by way: down until the last result that is kept, up from the first that uses one.
fn shape_of(graph: &Graph) -> Shape {
    let of = |node: usize| &graph.nodes[node].operations[0];
    let joins: Vec<usize> = (0..graph.nodes.len()).filter(|&node| matches!(of(node), Operation::Concatenate)).collect();
    let kept = joins.iter().filter_map(|&node| match graph.nodes[node].with.as_ref()?.source {
        Source::Node(kept) => Some(kept),
        Source::Input(_) => None,
    });
    let (last_kept, first_taken) = (kept.max().unwrap_or(0), joins.first().copied().unwrap_or(graph.nodes.len()));
    let mut shape = Shape { levels: BTreeMap::new(), middle: Work::default() };
    for (at, node) in graph.nodes.iter().enumerate() {
        let (side, channels, attention) = match (of(at), &node.x.shape[..]) {
            (Operation::AddChannel, &[_, channels, height, _]) => (height, channels, false),
            (Operation::Attention { .. }, &[_, tokens, triple]) => (tokens.isqrt(), triple / 3, true),
            (Operation::Concatenate, &[_, _, height, _]) => {
                shape.levels.entry(height).or_default().kept += 1;
                continue;
            }
            _ => continue,
        };
        let Shape { levels, middle } = &mut shape;
        let work = if at > last_kept && at < first_taken {
            middle
        } else {
            let level = levels.entry(side).or_default();
            if at < first_taken { &mut level.down } else { &mut level.up }
        };
        work.channels = channels;
        *if attention { &mut work.attention } else { &mut work.residual } += 1;
    }
    shape
}

impl Work {
    fn lines(self, side: usize) -> [String; 3] {
        let plural = if self.residual == 1 { "" } else { "s" };
        [
            shape(&[self.channels, side, side]),
            format!("{} residual block{plural}", self.residual),
            format!("{} attention blocks", self.attention),
        ]
    }
}

pub(super) fn draw(_: &Path) -> Result<Picture, DrawingError> {
    const STEP: f64 = 92.0;
    let shape_of_all = shape_of(&recorded()?);
    let Shape { levels, middle } = &shape_of_all;
    let mut canvas = Canvas::new("drawing-unet");
    let (left, right, width, height) = (6.0, 262.0, 132.0, 58.0);
    let top = 52.0;
    let boxed = |canvas: &mut Canvas, area: Area, look: Look, lines: [String; 3]| {
        canvas.titled(area, look, &lines.each_ref().map(String::as_str));
    };
    let mut said = String::new();
    let count = levels.len();
    for (at, (&side, level)) in levels.iter().rev().enumerate() {
        let y = top + STEP * at as f64;
        let down = Area::new(left, y, width, height);
        let up = Area::new(right, y, width, height);
        boxed(&mut canvas, down, Look::First, level.down.lines(side));
        boxed(&mut canvas, up, Look::Faint, level.up.lines(side));
        canvas.arrow(&[(down.right() + 2.0, down.centre()), (up.x - 2.0, down.centre())], Stroke::Second);
        canvas.text(
            ((down.right() + up.x) / 2.0, down.centre() - 7.0),
            Style::MIDDLE.small(),
            &format!("{} kept", level.kept),
        );
        let (from, to) = (down.bottom() + 2.0, y + STEP - 2.0);
        if at + 1 < count {
            canvas.arrow(&[(down.middle(), from), (down.middle(), to)], Stroke::Plain);
            canvas.text((down.middle() + 8.0, (from + to) / 2.0 + 4.0), Style::START.small(), "conv 3×3/2");
            canvas.arrow(&[(up.middle(), to), (up.middle(), from)], Stroke::Plain);
            canvas.text((up.middle() - 8.0, (from + to) / 2.0 + 4.0), Style::END.small(), "×2, conv 3×3");
        } else {
            let base = Area::new(200.0 - width / 2.0, y + STEP, width, height);
            boxed(&mut canvas, base, Look::Outline, middle.lines(side));
            canvas.arrow(
                &[(down.middle(), from), (down.middle(), base.centre()), (base.x - 2.0, base.centre())],
                Stroke::Plain,
            );
            canvas.arrow(
                &[(base.right() + 2.0, base.centre()), (up.middle(), base.centre()), (up.middle(), from)],
                Stroke::Plain,
            );
        }
        let [shape_down, residual, attention] = level.down.lines(side);
        said += &format!(
            "{shape_down}: {residual} and {attention} down, {} and {} up, {} results kept; ",
            level.up.residual, level.up.attention, level.kept
        );
    }
    let (inputs, outputs) = (shape(&[INPUTS, SIDE, SIDE]), shape(&[LATENTS, SIDE, SIDE]));
    let (down, up) = (left + width / 2.0, right + width / 2.0);
    canvas.text((down, 14.0), Style::MIDDLE, &format!("in: {inputs}"));
    canvas.arrow(&[(down, 20.0), (down, top - 2.0)], Stroke::Plain);
    canvas.text((down + 8.0, 40.0), Style::START.small(), "conv 3×3");
    canvas.text((up, 14.0), Style::MIDDLE, &format!("out: {outputs}"));
    canvas.arrow(&[(up, top - 2.0), (up, 20.0)], Stroke::Plain);
    canvas.text((up - 8.0, 40.0), Style::END.small(), "conv 3×3");

    let alternative = format!(
        "The U-Net as a U, from {inputs} down on the left and up on the right to {outputs}. {said}and in the middle {} residual and {} \
         attention blocks. Arrows lead across at each level.",
        middle.residual, middle.attention
    );
    let caption = "The U-Net <code>production</code> for one latent, recorded from <code>models::unet</code>: channels × height × width. Results \
         that are kept on the way down are joined to the inputs of the residual blocks on the way up.";
    Ok(canvas.finish(top + STEP * count as f64 + height + 6.0, &alternative, caption))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_block_is_somewhere() {
        let Shape { levels, middle } = shape_of(&recorded().unwrap());
        let sides: Vec<_> =
            levels.iter().map(|(side, level)| (*side, level.down.channels, level.up.channels, level.kept)).collect();
        assert_eq!(sides, [(8, 1280, 1280, 3), (16, 1280, 1280, 3), (32, 640, 640, 3), (64, 320, 320, 3)]);
        assert_eq!(middle, Work { residual: 2, attention: 3, channels: 1280 });
        let all = |count: fn(&Work) -> usize| {
            levels.values().map(|level| count(&level.down) + count(&level.up)).sum::<usize>()
        };
        // As the page says: 22 residual blocks and 23 of attention.
        assert_eq!((all(|work| work.residual) + 2, all(|work| work.attention) + 3), (22, 23));
    }
}
