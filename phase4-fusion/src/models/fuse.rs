//! Operations that one launch does: those that an epilogue can apply to the sums of a product before it stores them, and products
//! with nothing between them.

use std::sync::Arc;

use common::prelude::*;
use phase3_all_layers::nn::Operation;
use phase3_all_layers::nn::graph::{Graph, Node, Operand, Source};

use super::parameters::{joined, linear_of_basis};
use crate::gemm::Activation;

/// Values of a head that attention reads at once.
const WHOLE_HEAD: usize = 8;

/// Applies all rewrites to a recorded model, in order; returns a description of each.
///
/// # Errors
/// Errors of the rewrites.
pub fn all(graph: &mut Graph) -> Result<Vec<String>> {
    bases(graph)?;
    let mut notes = linears(graph)?;
    epilogues(graph);
    let filled = fill_heads(graph, WHOLE_HEAD)?;
    if filled > 0 {
        notes.push(format!("The heads of {filled} attentions are filled up to a multiple of {WHOLE_HEAD} values."));
    }
    Ok(notes)
}

/// Replaces each product with a basis by a linear layer, whose rows are normalised on the host.
///
/// # Errors
/// Same as [`linear_of_basis`].
pub fn bases(graph: &mut Graph) -> Result<()> {
    for operation in graph.nodes.iter_mut().flat_map(|node| &mut node.operations) {
        if let Some(linear) = linear_of_basis(operation)? {
            *operation = linear;
        }
    }
    Ok(())
}

/// Joins two linear layers with nothing between them into one, where that has fewer weights; returns descriptions of the joins.
///
/// # Errors
/// Same as [`joined`].
pub fn linears(graph: &mut Graph) -> Result<Vec<String>> {
    graph.chain(|first, then| fewer_weights(first, then).is_some());
    let mut notes = Vec::new();
    for node in &mut graph.nodes {
        let [first, then, ..] = &node.operations[..] else { continue };
        let Some([before, after]) = fewer_weights(std::slice::from_ref(first), std::slice::from_ref(then)) else {
            continue;
        };
        let one = joined(first, then)?;
        notes.push(format!(
            "Two linear layers with nothing between them are one: {after} multiply-adds a row in place of {before}."
        ));
        node.operations.splice(..2, [one]);
    }
    Ok(notes)
}

// ANCHOR: fewer_weights
/// Multiply-adds for a row of `first` when two linear layers follow each other, and when they are joined; `None` if these are other
/// operations, or joining them saves nothing. `then` may see a row as several of its own.
fn fewer_weights(first: &[Operation], then: &[Operation]) -> Option<[usize; 2]> {
    let ([Operation::Linear { weight: first, .. }], [Operation::Linear { weight: then, .. }]) = (first, then) else {
        return None;
    };
    let (&[between, inputs], &[outputs, each]) = (first.shape(), then.shape()) else { return None };
    let rows = between.checked_div(each).filter(|rows| rows * each == between)?;
    let (apart, together) = (between * inputs + rows * outputs * each, rows * outputs * inputs);
    (0 < together && together < apart).then_some([apart, together])
}
// ANCHOR_END: fewer_weights

/// Gathers each convolution or linear layer with what its epilogue takes: BatchNorm, then a sum, then an activation, and after
/// that of a convolution a sum, each if it follows and nothing else needs the value before it; there is one sum at most. And a
/// BatchNorm elsewhere with the activation that follows it. Which of an addition's operands is a product does not matter.
pub fn epilogues(graph: &mut Graph) {
    let sums = |made: &Operation| {
        matches!(made, Operation::Conv2d { .. } | Operation::Linear { .. } | Operation::BatchNorm { .. })
    };
    graph.turn_additions(sums);
    graph.chain(takes);
}

/// [`epilogues`] for launches that run side by side: of two branches that are added up, the one whose activation is last takes the sum,
/// so that neither waits for the other before it has done all its own work.
pub fn epilogues_side_by_side(graph: &mut Graph) {
    let sums = |made: &Operation| {
        matches!(made, Operation::Conv2d { .. } | Operation::Linear { .. } | Operation::BatchNorm { .. })
            || activation(made).is_some()
    };
    graph.turn_additions(sums);
    graph.chain(takes);
}

/// Fills the heads of each attention up with zeros to a multiple of `multiple` values, if a linear layer makes its queries, keys and
/// values and another one takes its result. Zeros add nothing to a score and nothing to a result; only the scale, 1 / √head, has to be
/// made up for, in the weights of the queries. Returns how many attentions were changed.
///
/// # Errors
/// [`Error::Invalid`] if weights are not on the host.
pub fn fill_heads(graph: &mut Graph, multiple: usize) -> Result<usize> {
    let mut changed = 0;
    for at in 0..graph.nodes.len() {
        let [Operation::Attention { heads }] = graph.nodes[at].operations[..] else { continue };
        let Source::Node(before) = graph.nodes[at].x.source else { continue };
        let users = |node| graph.users(node).collect::<Vec<_>>();
        let [behind] = users(at)[..] else { continue };
        let ([Operation::Linear { weight: qkv, bias }], [Operation::Linear { weight: out, bias: out_bias }, ..]) =
            (&graph.nodes[before].operations[..], &graph.nodes[behind].operations[..])
        else {
            continue;
        };
        let (&[columns, inputs], &[outputs, channels]) = (qkv.shape(), out.shape()) else { continue };
        let head = channels / heads.max(1);
        let filled = head.next_multiple_of(multiple);
        // Each node that works on filled heads has to know.
        if users(before) != [at]
            || graph.is_output(before)
            || graph.is_output(at)
            || graph.nodes[behind].x.source != Source::Node(at)
            || columns != 3 * channels
            || filled == head
        {
            continue;
        }
        // Where a value of a filled head was: nowhere, if it is a zero.
        let was = |at: usize| (at % filled < head).then(|| at / filled * head + at % filled);
        let scale = |at: usize| if at < heads * filled { (filled as f32 / head as f32).sqrt() } else { 1.0 };
        let (values, biases, out_values) = (qkv.as_slice()?, bias.as_slice()?, out.as_slice()?);
        let qkv = Tensor::from_fn(&[3 * heads * filled, inputs], |index| {
            was(index[0]).map_or(0.0, |row| scale(index[0]) * values[row * inputs + index[1]])
        });
        let bias = Tensor::from_fn(&[3 * heads * filled], |index| {
            was(index[0]).map_or(0.0, |row| scale(index[0]) * biases[row])
        });
        let out = Tensor::from_fn(&[outputs, heads * filled], |index| {
            was(index[1]).map_or(0.0, |column| out_values[index[0] * channels + column])
        });
        let (out_bias, rest) = (out_bias.clone(), graph.nodes[behind].operations[1..].to_vec());
        graph.nodes[before].operations = vec![Operation::Linear { weight: Arc::new(qkv), bias: Arc::new(bias) }];
        let last =
            |operand: &mut Operand, columns| operand.shape.last_mut().into_iter().for_each(|last| *last = columns);
        last(&mut graph.nodes[at].x, 3 * heads * filled);
        let node = &mut graph.nodes[behind];
        last(&mut node.x, heads * filled);
        node.operations = vec![Operation::Linear { weight: Arc::new(out), bias: out_bias }];
        node.operations.extend(rest);
        changed += 1;
    }
    Ok(changed)
}

// ANCHOR: takes
/// Whether an epilogue that already does `first` can do `then` too.
fn takes(first: &[Operation], then: &[Operation]) -> bool {
    let is_sum = |operation: &Operation| matches!(operation, Operation::AllReduce { .. });
    let then = match then {
        [.., last] if is_sum(last) && first.iter().any(is_sum) => return false,
        [last] if is_sum(last) => return true,
        // What follows a product before the ranks' terms are summed.
        [then, last] if is_sum(last) => then,
        [then] => then,
        _ => return false,
    };
    if let Some(at) = first.iter().position(is_sum) {
        // A residual block's end, after the sum of its second convolution's terms.
        return match &first[at + 1..] {
            [] => matches!(then, Operation::BatchNorm { .. }),
            [Operation::BatchNorm { .. }] => activation(then).is_some(),
            [Operation::BatchNorm { .. }, last] => activation(last).is_some() && matches!(then, Operation::Add),
            _ => false,
        };
    }
    if matches!(first, [Operation::BatchNorm { .. }]) {
        return activation(then).is_some();
    }
    let (Some(Operation::Conv2d { .. } | Operation::Linear { .. }), Some(last)) = (first.first(), first.last()) else {
        return false;
    };
    // ANCHOR: rules
    match then {
        Operation::BatchNorm { .. } => matches!(first, [Operation::Conv2d { .. }]),
        Operation::Add | Operation::AddChannel if activation(last).is_some() => {
            matches!(first, [Operation::Conv2d { .. }, ..]) && !first.iter().any(Operation::takes_two)
        }
        Operation::Add => !matches!(last, Operation::Add | Operation::AddChannel),
        other => activation(other).is_some() && !first.iter().any(|operation| activation(operation).is_some()),
    }
    // ANCHOR_END: rules
}
// ANCHOR_END: takes

/// The second operand's part in an epilogue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Addition {
    /// Values of the result's shape, added before the activation.
    BeforeActivation,
    /// Values of the result's shape, added after the activation.
    AfterActivation,
    /// A value per image and channel, added after the activation.
    PerChannel,
}

/// The operations that a chain does to each result of its first one before it is stored: a BatchNorm, an activation, and a sum before or
/// after it. The one description of an epilogue that plans and the persistent executor choose by.
#[derive(Clone, Copy, Debug, Default)]
pub struct EpilogueSpec<'g> {
    /// A BatchNorm, which comes first.
    pub norm: Option<&'g Operation>,
    /// The activation.
    pub activation: Activation,
    /// The sum.
    pub addition: Option<Addition>,
}

impl EpilogueSpec<'_> {
    /// The epilogue of these operations, in their order; or the first of them that no epilogue does after those before it.
    ///
    /// # Errors
    /// That operation.
    pub fn of(operations: &[Operation]) -> Result<EpilogueSpec<'_>, &Operation> {
        let mut spec = EpilogueSpec::default();
        for operation in operations {
            let (linear, adds) = (spec.activation == Activation::None, spec.addition.is_some());
            match (operation, activation(operation)) {
                (Operation::BatchNorm { .. }, _) if linear && !adds && spec.norm.is_none() => {
                    spec.norm = Some(operation)
                }
                (Operation::Add, _) if linear && !adds => spec.addition = Some(Addition::BeforeActivation),
                (Operation::Add, _) if !adds => spec.addition = Some(Addition::AfterActivation),
                (Operation::AddChannel, _) if !adds => spec.addition = Some(Addition::PerChannel),
                (_, Some(function)) if linear && spec.addition.is_none_or(|sum| sum == Addition::BeforeActivation) => {
                    spec.activation = function;
                }
                _ => return Err(operation),
            }
        }
        Ok(spec)
    }
}

// ANCHOR: side_by_side
/// Linear layers of one input whose results are only added to the channels of images: with their weights stacked they are one
/// linear layer, whose result has theirs side by side.
#[derive(Debug)]
pub struct SideBySide {
    /// The layers' nodes.
    pub nodes: Vec<usize>,
    /// Their first columns.
    pub columns: Vec<usize>,
    /// The layer equivalent to all of them.
    pub linear: Operation,
}

/// All groups of them.
///
/// # Errors
/// [`Error::Invalid`] if weights are not on the host.
pub fn side_by_side(graph: &Graph) -> Result<Vec<SideBySide>> {
    let mut groups: Vec<SideBySide> = Vec::new();
    let mut inputs: Vec<(&Operand, Vec<usize>)> = Vec::new();
    for (at, node) in graph.nodes.iter().enumerate() {
        let is_this = |operand: &Operand| operand.source == Source::Node(at);
        let adds = |user: &Node| user.operations.iter().any(|operation| matches!(operation, Operation::AddChannel));
        let added = |user: &Node| !is_this(&user.x) && (!user.with.as_ref().is_some_and(is_this) || adds(user));
        let taken = graph.is_output(at);
        if !matches!(node.operations[..], [Operation::Linear { .. }]) || taken || !graph.nodes.iter().all(added) {
            continue;
        }
        match inputs.iter_mut().find(|(x, _)| **x == node.x) {
            Some((_, nodes)) => nodes.push(at),
            None => inputs.push((&node.x, vec![at])),
        }
    }
    for nodes in inputs.into_iter().map(|(_, nodes)| nodes).filter(|nodes| nodes.len() > 1) {
        let (mut weights, mut biases, mut columns) = (Vec::new(), Vec::new(), Vec::new());
        for &node in &nodes {
            let Operation::Linear { weight, bias } = &graph.nodes[node].operations[0] else { continue };
            columns.push(biases.len());
            weights.extend_from_slice(weight.as_slice()?);
            biases.extend_from_slice(bias.as_slice()?);
        }
        let shape = [biases.len(), weights.len() / biases.len().max(1)];
        let (weight, bias) = (Tensor::from_vec(&shape, weights)?, Tensor::from_vec(&shape[..1], biases)?);
        let linear = Operation::Linear { weight: Arc::new(weight), bias: Arc::new(bias) };
        groups.push(SideBySide { nodes, columns, linear });
    }
    Ok(groups)
}
// ANCHOR_END: side_by_side

/// The activation of an operation, if it is one.
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
    use std::sync::Arc;

    use phase3_all_layers::models::autoencoder::{Autoencoder, Config};
    use phase3_all_layers::models::resnet::{self, ResNet};
    use phase3_all_layers::nn::graph::Recorder;

    use super::*;

    const NARROW: resnet::Config = resnet::Config { widths: [8, 12, 16, 20], blocks: [2, 1, 2, 1], classes: 10 };

    fn recorded() -> Graph {
        let network = ResNet::load(&Recorder, NARROW, &NARROW.seeded(1)).unwrap();
        Graph::record(&network, &[1, 3, 32, 32]).unwrap()
    }

    #[test]
    fn linear_layers_are_joined_where_that_saves_multiplications() {
        let linear = |outputs: usize, inputs: usize| Operation::Linear {
            weight: Arc::new(Tensor::zeros(&[outputs, inputs])),
            bias: Arc::new(Tensor::zeros(&[outputs])),
        };
        let of = |first: [usize; 2], then: [usize; 2]| {
            fewer_weights(&[linear(first[0], first[1])], &[linear(then[0], then[1])])
        };
        // A wide value between two narrow ones; the other way round it is what saves.
        assert_eq!(of([100, 10], [20, 100]), Some([3000, 200]));
        assert_eq!(of([10, 100], [100, 10]), None);
        // Five rows of 20 for the second.
        assert_eq!(of([100, 10], [20, 20]), Some([3000, 1000]));
        assert_eq!(of([100, 10], [20, 30]), None);
        assert_eq!(fewer_weights(&[linear(100, 10), Operation::Gelu], &[linear(20, 100)]), None);
        let mut graph = Graph::record(
            &Autoencoder::load(&Recorder, Config::ORIGINAL, &Config::ORIGINAL.seeded(1)).unwrap(),
            &[10, 64],
        )
        .unwrap();
        bases(&mut graph).unwrap();
        assert_eq!(linears(&mut graph).unwrap().len(), 1);
        let kinds: Vec<&str> = graph.nodes.iter().flat_map(|node| &node.operations).map(Operation::kind).collect();
        assert_eq!(kinds, ["LayerNorm", "Linear", "GELU", "Linear", "LayerNorm", "Linear", "GELU", "Linear"]);
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
    fn a_sum_follows_an_activation_and_nothing_else() {
        let add = || Operation::Add;
        let conv = recorded().nodes[0].operations[0].clone();
        assert!(takes(std::slice::from_ref(&conv), &[Operation::Silu]));
        assert!(takes(&[conv.clone(), add()], &[Operation::Silu]));
        // The sum after an activation is a convolution's last, and its only one.
        assert!(takes(&[conv.clone(), Operation::Silu], &[add()]));
        assert!(takes(&[conv.clone(), Operation::Silu], &[Operation::AddChannel]));
        assert!(!takes(&[conv.clone(), add(), Operation::Silu], &[add()]));
        assert!(!takes(&[conv.clone(), Operation::Silu, add()], &[Operation::Silu]));
        let linear =
            Operation::Linear { weight: Arc::new(Tensor::zeros(&[1, 1])), bias: Arc::new(Tensor::zeros(&[1])) };
        assert!(!takes(&[linear, Operation::Gelu], &[add()]));
        assert!(!takes(&[conv.clone(), add()], &[add()]));
        assert!(!takes(&[conv, Operation::Relu], &[Operation::Relu]));
        assert!(!takes(&[add()], &[Operation::Relu]));
    }
}
