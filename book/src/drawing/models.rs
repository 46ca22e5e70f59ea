//! Common code of the drawings of models: a pass that is only recorded, and names and shapes of its operations.

use common::Tensor;
use phase3_all_layers::nn::{
    Operation, Parameters,
    graph::{Graph, Source},
};

/// Parameters without values: enough to record a pass.
pub(super) fn shapes_only(shapes: Vec<(String, Vec<usize>)>) -> Parameters {
    Parameters::new(shapes.into_iter().map(|(name, shape)| (name, Tensor::shape_only(&shape))))
}

/// Whether it is a convolution.
pub(super) fn is_conv(operation: &Operation) -> bool {
    matches!(operation, Operation::Conv2d { .. })
}

/// `conv 3×3/2` of a convolution; empty for any other operation.
pub(super) fn conv(operation: &Operation) -> String {
    let Operation::Conv2d { weight, params, .. } = operation else { return String::new() };
    let window = weight.shape().last().copied().unwrap_or_default();
    match params.stride {
        [1, 1] => format!("conv {window}×{window}"),
        [stride, _] => format!("conv {window}×{window}/{stride}"),
    }
}

/// The shape of a node's result at its first use; empty if it is never used.
pub(super) fn result(graph: &Graph, node: usize) -> Vec<usize> {
    let taken = graph.nodes.iter().flat_map(|node| [Some(&node.x), node.with.as_ref()]).flatten();
    let mut taken = taken.chain(graph.outputs()).filter(|operand| operand.source == Source::Node(node));
    taken.next().map(|operand| operand.shape.clone()).unwrap_or_default()
}

/// `64 × 56 × 56`.
pub(super) fn shape(sides: &[usize]) -> String {
    sides.iter().map(usize::to_string).collect::<Vec<_>>().join(" × ")
}
