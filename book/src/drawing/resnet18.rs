//! ResNet18's graph, recorded from its own description.

use std::path::Path;

use phase3_all_layers::{
    models::resnet::{Config, ResNet},
    nn::{
        Operation, Scope,
        graph::{Graph, Recorder, Source},
    },
};

use crate::content::Picture;

use super::{
    DrawingError,
    canvas::{Area, Canvas, Look, Stroke, Style},
    models::{conv, is_conv, result, shape, shapes_only},
};

/// Sides of an image of ImageNet.
const SIDE: usize = 224;

/// Operations drawn as one box.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Part {
    name: String,
    /// Shape of its result.
    shape: Vec<usize>,
    /// How its input is added to its result, if it is.
    skip: Option<Skip>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Skip {
    Identity,
    /// A convolution.
    Shortcut(String),
}

fn recorded() -> Result<Graph, DrawingError> {
    let config = Config::RESNET18;
    let parameters = shapes_only(config.shapes());
    let network = ResNet::new(&Scope::new(&Recorder, &parameters), config)?;
    Ok(Graph::record(&network, &[1, 3, SIDE, SIDE])?)
}

/// The parts of the graph, in order: each basic block is one, and so is each other layer, except those that only follow a
/// convolution.
fn parts(graph: &Graph) -> Vec<Part> {
    let operation = |node: usize| &graph.nodes[node].operations[0];
    let before = |source: Source| match source {
        Source::Node(node) => Some(node),
        Source::Input(_) => None,
    };
    let mut parts = Vec::new();
    let mut node = 0;
    while node < graph.nodes.len() {
        // A block begins behind the value that its sum takes, directly or through a convolution and its norm.
        let block = (node..graph.nodes.len()).find_map(|sum| {
            let with = graph.nodes[sum].with.as_ref()?;
            let taken = before(with.source)?;
            let of_norm =
                matches!(operation(taken), Operation::BatchNorm { .. }).then_some(graph.nodes[taken].x.source);
            let shortcut = of_norm.and_then(before).filter(|&conv| is_conv(operation(conv)));
            let input = shortcut.map_or(Some(taken), |conv| before(graph.nodes[conv].x.source))?;
            (input + 1 == node).then_some((sum, shortcut))
        });
        if let Some((sum, shortcut)) = block {
            let convs = (node..sum).filter(|&at| is_conv(operation(at)) && Some(at) != shortcut);
            let name = convs.map(|at| conv(operation(at))).collect::<Vec<_>>().join(", ");
            let skip = shortcut.map_or(Skip::Identity, |at| Skip::Shortcut(conv(operation(at))));
            // The last ReLU.
            let last = sum + 1;
            parts.push(Part { name, shape: result(graph, last), skip: Some(skip) });
            node = last + 1;
            continue;
        }
        let name = match operation(node) {
            Operation::MaxPool(pool) => Some(format!("max pool {0}×{0}/{1}", pool.window, pool.stride)),
            Operation::AveragePool => Some("average pool".to_owned()),
            Operation::Linear { .. } => Some("linear".to_owned()),
            other => is_conv(other).then(|| conv(other)),
        };
        parts.extend(name.map(|name| Part { name, shape: result(graph, node), skip: None }));
        // What works in place changes no shape, and belongs to the part before.
        node += 1;
    }
    parts
}

pub(super) fn draw(_: &Path) -> Result<Picture, DrawingError> {
    const STEP: f64 = 47.0;
    let parts = parts(&recorded()?);
    let mut canvas = Canvas::new("drawing-resnet18");
    let left = 96.0;
    let top = 38.0;
    canvas.text((left + 90.0, 14.0), Style::MIDDLE, &format!("an image, {}", shape(&[3, SIDE, SIDE])));
    for (at, part) in parts.iter().enumerate() {
        let area = Area::new(left, top + STEP * at as f64, 180.0, 26.0);
        let look = if part.skip.is_some() { Look::First } else { Look::Outline };
        canvas.arrow(
            &[(area.middle(), area.y - (STEP - area.height) + 2.0), (area.middle(), area.y - 1.0)],
            Stroke::Plain,
        );
        canvas.area(area, look);
        canvas.inside(area, &part.name);
        canvas.text(
            (area.right() + 10.0, area.centre() + 4.0),
            Style::START,
            &shape(part.shape.get(1..).unwrap_or_default()),
        );
        let Some(skip) = &part.skip else { continue };
        let (from, to) = (area.y - 7.0, area.bottom() + 7.0);
        let path = [(area.middle(), from), (left - 16.0, from), (left - 16.0, to), (area.middle(), to)];
        match skip {
            Skip::Identity => canvas.arrow(&path, Stroke::Plain),
            Skip::Shortcut(name) => {
                canvas.arrow(&path, Stroke::Dashed);
                canvas.text((left - 22.0, area.centre() + 4.0), Style::END.small(), name);
            }
        }
    }
    let height = top + STEP * parts.len() as f64;
    let blocks = parts.iter().filter(|part| part.skip.is_some()).count();
    let said = parts.iter().map(|part| format!("{}: {}", part.name, shape(part.shape.get(1..).unwrap_or_default())));
    let alternative = format!(
        "ResNet18 from top to bottom, with the shape of each result. {}. The {blocks} basic blocks have an arrow from before to behind them, \
         dashed where it passes a convolution.",
        said.collect::<Vec<_>>().join("; ")
    );
    let caption = "ResNet18 for one image, recorded from <code>models::resnet</code>. A BatchNorm follows each convolution. An arrow past a block \
         adds the block's input to its result: as it is, or, where dashed, through a convolution that gives it the same shape.";
    Ok(canvas.finish(height - 12.0, &alternative, caption))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_graph_has_eight_blocks_of_which_three_change_the_shape() {
        let parts = parts(&recorded().unwrap());
        assert_eq!(parts.len(), 12, "{parts:#?}");
        assert_eq!(parts[0].name, "conv 7×7/2");
        assert_eq!(parts[0].shape, [1, 64, 112, 112]);
        let blocks: Vec<_> =
            parts.iter().filter_map(|part| Some((&*part.name, part.shape[1..].to_vec(), part.skip.clone()?))).collect();
        assert_eq!(blocks.len(), 8);
        assert_eq!(blocks[0], ("conv 3×3, conv 3×3", vec![64, 56, 56], Skip::Identity));
        assert_eq!(blocks[2], ("conv 3×3/2, conv 3×3", vec![128, 28, 28], Skip::Shortcut("conv 1×1/2".into())));
        assert_eq!(blocks[7], ("conv 3×3, conv 3×3", vec![512, 7, 7], Skip::Identity));
        assert_eq!(parts[11].shape, [1, 1000]);
    }
}
