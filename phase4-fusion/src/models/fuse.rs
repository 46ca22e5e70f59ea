//! Which operations one launch does: those that an epilogue can do to the sums of a product before it stores them.

use phase3_all_layers::nn::Operation;
use phase3_all_layers::nn::graph::Graph;

use crate::gemm::Activation;

/// Gathers each convolution or linear layer with what its epilogue takes: BatchNorm, then a sum, then an activation, each if it
/// follows and nothing else needs the value before it.
pub fn epilogues(graph: &mut Graph) {
    graph.chain(takes);
}

// ANCHOR: takes
/// Whether an epilogue that does `first` already can do `then` too.
fn takes(first: &[Operation], then: &[Operation]) -> bool {
    let [then] = then else { return false };
    let (Some(Operation::Conv2d { .. } | Operation::Linear { .. }), Some(last)) = (first.first(), first.last()) else {
        return false;
    };
    match then {
        Operation::BatchNorm { .. } => matches!(first, [Operation::Conv2d { .. }]),
        Operation::Add => !matches!(last, Operation::Add) && activation(last).is_none(),
        other => activation(other).is_some() && activation(last).is_none(),
    }
}
// ANCHOR_END: takes

/// The activation that an operation is, if it is one.
pub fn activation(operation: &Operation) -> Option<Activation> {
    match operation {
        Operation::Relu => Some(Activation::Relu),
        Operation::Gelu => Some(Activation::Gelu),
        Operation::Silu => Some(Activation::Silu),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use phase3_all_layers::models::resnet::{Config, ResNet};
    use phase3_all_layers::nn::graph::Recorder;

    use super::*;

    const NARROW: Config = Config { widths: [8, 12, 16, 20], blocks: [2, 1, 2, 1], classes: 10 };

    fn recorded() -> Graph {
        let network = ResNet::load(&Recorder, NARROW, &NARROW.seeded(1)).unwrap();
        Graph::record(&network, &[1, 3, 32, 32]).unwrap()
    }

    fn count(graph: &Graph, kinds: &[&str]) -> usize {
        let is = |operations: &[Operation]| operations.iter().map(Operation::kind).eq(kinds.iter().copied());
        graph.nodes.iter().filter(|node| is(&node.operations)).count()
    }

    #[test]
    fn a_block_becomes_two_launches_or_three() {
        let mut graph = recorded();
        epilogues(&mut graph);
        assert_eq!(count(&graph, &["Conv2D", "BatchNorm", "ReLU"]), 1 + 6);
        assert_eq!(count(&graph, &["Conv2D", "BatchNorm", "Add", "ReLU"]), 6);
        assert_eq!(count(&graph, &["Conv2D", "BatchNorm"]), 3);
        assert_eq!(graph.nodes.len(), 1 + 2 * 6 + 3 + ["MaxPool", "AvgPool", "Linear"].len());
    }

    #[test]
    fn nothing_follows_an_activation() {
        let add = || Operation::Add;
        let conv = recorded().nodes[0].operations[0].clone();
        assert!(takes(std::slice::from_ref(&conv), &[Operation::Silu]));
        assert!(takes(&[conv.clone(), add()], &[Operation::Silu]));
        assert!(!takes(&[conv.clone(), Operation::Silu], &[add()]));
        assert!(!takes(&[conv.clone(), add()], &[add()]));
        assert!(!takes(&[conv, Operation::Relu], &[Operation::Relu]));
        assert!(!takes(&[add()], &[Operation::Relu]));
    }
}
