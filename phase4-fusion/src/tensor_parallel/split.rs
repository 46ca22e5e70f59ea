//! One rank's part of a recorded network: its heads and its channels.

use std::sync::Arc;

use common::prelude::*;
use phase3_all_layers::nn::Operation;
use phase3_all_layers::nn::graph::{Graph, Node, Operand, Source};

// ANCHOR: split
/// Rank `rank`'s part of a network over `ranks` devices (Shoeybi et al., "Megatron-LM", 2019). Two products with only
/// channel-wise operations between them are a pair:
///
/// ```text
///            first: a part of its results     between: local         second: a part of its terms
/// attention  qkv by heads                     attention              proj
/// MLP        fc1                              GELU                   fc2
/// residual   conv1 by output channels         BatchNorm, SiLU, + e   conv2 by input channels
/// ```
///
/// So a pair costs one sum over the ranks, an [`Operation::AllReduce`] after the second product. What is added to that product, its
/// bias and an operand that all ranks have, rank 0 adds before the sum. Everything else every rank does in full, also what depends
/// on no image: the timestep's vectors are too short to be worth a sum. With one rank the graph is what it was.
///
/// # Errors
/// [`Error::Invalid`] if the heads of an attention, or the channels between two products, are not a multiple of `ranks`, or there
/// is no such rank; same as [`Tensor::as_slice`] if weights are not on the host.
pub fn split(graph: &Graph, rank: usize, ranks: usize) -> Result<Graph> {
    if rank >= ranks {
        return Err(Error::Invalid(format!("there is no rank {rank} of {ranks}")));
    }
    let mut part = graph.clone();
    if ranks == 1 {
        return Ok(part);
    }
    for pair in pairs(graph) {
        let share = Share::of(graph, &pair, rank, ranks)?;
        share.cut_first(&mut part, pair.first)?;
        share.cut_between(&mut part, &pair)?;
        share.cut_second(&mut part, pair.second)?;
        sum_after(&mut part, graph, pair.second, rank, ranks);
    }
    Ok(part)
}
// ANCHOR_END: split

/// Two products that are divided among the ranks, by the numbers of their nodes.
#[derive(Debug, PartialEq, Eq)]
pub struct Pair {
    /// The product of whose results each rank has a part.
    pub first: usize,
    /// Channel-wise operations between the products, in order.
    pub between: Vec<usize>,
    /// The product of whose terms each rank has a part.
    pub second: usize,
}

impl Pair {
    /// All of its nodes.
    pub fn nodes(&self) -> impl Iterator<Item = usize> {
        [self.first].into_iter().chain(self.between.iter().copied()).chain([self.second])
    }

    /// The heads of the attention between the two products, if there is one.
    pub fn heads(&self, graph: &Graph) -> Option<usize> {
        self.between.iter().find_map(|&node| match graph.nodes[node].operations[..] {
            [Operation::Attention { heads }] => Some(heads),
            _ => None,
        })
    }
}

/// All pairs of a recorded network; no two share a product.
pub fn pairs(graph: &Graph) -> Vec<Pair> {
    let mut found: Vec<Pair> = Vec::new();
    for (first, of_images) in depends_on_images(graph).into_iter().enumerate() {
        let taken = found.iter().any(|pair| pair.second == first);
        if of_images
            && !taken
            && is_product(&graph.nodes[first])
            && let Some((between, second)) = way_to_the_next_product(graph, first)
        {
            found.push(Pair { first, between, second });
        }
    }
    found
}

fn is_product(node: &Node) -> bool {
    match &node.operations[..] {
        [Operation::Linear { .. }] => true,
        [Operation::Conv2d { params, .. }] => params.groups == 1,
        _ => false,
    }
}

/// The nodes between a product and the only next one that uses its result through them, if each works channel by channel.
fn way_to_the_next_product(graph: &Graph, first: usize) -> Option<(Vec<usize>, usize)> {
    let (mut between, mut at) = (Vec::new(), first);
    loop {
        let user = only_user(graph, at)?;
        let node = &graph.nodes[user];
        if node.x.source != Source::Node(at) {
            return None;
        }
        if is_product(node) {
            return Some((between, user));
        }
        let local = match &node.operations[..] {
            [Operation::BatchNorm { .. } | Operation::Gelu | Operation::Silu | Operation::Relu] => true,
            [Operation::Attention { .. }] => true,
            [Operation::AddChannel] => per_channel(graph, node).is_some(),
            _ => false,
        };
        if !local {
            return None;
        }
        between.push(user);
        at = user;
    }
}

/// The linear layer whose result a node adds to channels, if nothing else uses it.
fn per_channel(graph: &Graph, node: &Node) -> Option<usize> {
    let Source::Node(with) = node.with.as_ref()?.source else { return None };
    let is_linear = matches!(graph.nodes[with].operations[..], [Operation::Linear { .. }]);
    only_user(graph, with).filter(|_| is_linear).map(|_| with)
}

fn only_user(graph: &Graph, node: usize) -> Option<usize> {
    let mut users = graph.users(node);
    let user = users.next()?;
    (users.next().is_none() && !graph.is_output(node)).then_some(user)
}

/// Whether each node needs an input that is an image, directly or indirectly.
fn depends_on_images(graph: &Graph) -> Vec<bool> {
    let mut depends: Vec<bool> = Vec::with_capacity(graph.nodes.len());
    for node in &graph.nodes {
        let does = |operand: &Operand| match operand.source {
            Source::Input(_) => operand.shape.len() == 4,
            Source::Node(node) => depends[node],
        };
        let here = does(&node.x) || node.with.as_ref().is_some_and(does);
        depends.push(here);
    }
    depends
}

/// A rank's channels between two products.
struct Share {
    ranks: usize,
    rank: usize,
    /// Results of the first product: a range of each of queries, keys and values, or one range.
    outputs: Vec<usize>,
    /// Operands of the second product.
    inputs: Vec<usize>,
}

impl Share {
    fn of(graph: &Graph, pair: &Pair, rank: usize, ranks: usize) -> Result<Share> {
        let attention = pair.heads(graph);
        if let Some(heads) = attention.filter(|heads| !heads.is_multiple_of(ranks)) {
            return Err(Error::Invalid(format!(
                "an attention of {heads} heads cannot be split over {ranks} devices: {heads} is no multiple of {ranks}"
            )));
        }
        let outputs = match &graph.nodes[pair.first].operations[0] {
            Operation::Linear { weight, .. } | Operation::Conv2d { weight, .. } => weight.shape()[0],
            _ => 0,
        };
        let parts = if attention.is_some() { 3 } else { 1 };
        let whole = outputs / parts;
        if !whole.is_multiple_of(ranks) {
            return Err(Error::Invalid(format!(
                "{whole} channels between two products cannot be split over {ranks} devices: {whole} is no multiple of {ranks}"
            )));
        }
        let each = whole / ranks;
        let inputs: Vec<usize> = (rank * each..(rank + 1) * each).collect();
        let outputs = (0..parts).flat_map(|part| inputs.iter().map(move |channel| part * whole + channel)).collect();
        Ok(Share { ranks, rank, outputs, inputs })
    }

    /// The operand with only this rank's channels.
    fn narrow(&self, operand: &mut Operand) {
        // An image [N, C, H, W], or rows with their channels last.
        let channels = if operand.shape.len() == 4 { 1 } else { operand.shape.len().saturating_sub(1) };
        if let Some(side) = operand.shape.get_mut(channels) {
            *side /= self.ranks;
        }
    }

    fn cut_first(&self, part: &mut Graph, node: usize) -> Result<()> {
        let operation = &mut part.nodes[node].operations[0];
        *operation = with_outputs(operation, &self.outputs)?;
        Ok(())
    }

    fn cut_between(&self, part: &mut Graph, pair: &Pair) -> Result<()> {
        let mut channels = &self.outputs;
        for &at in &pair.between {
            let with = per_channel(part, &part.nodes[at]);
            let node = &mut part.nodes[at];
            self.narrow(&mut node.x);
            match &mut node.operations[0] {
                Operation::Attention { heads } => {
                    *heads /= self.ranks;
                    channels = &self.inputs;
                }
                norm @ Operation::BatchNorm { .. } => *norm = with_outputs(norm, channels)?,
                _ => {}
            }
            if let Some(operand) = &mut node.with {
                self.narrow(operand);
            }
            if let Some(with) = with {
                let operation = &mut part.nodes[with].operations[0];
                *operation = with_outputs(operation, channels)?;
            }
        }
        Ok(())
    }

    fn cut_second(&self, part: &mut Graph, node: usize) -> Result<()> {
        let Node { operations, x, .. } = &mut part.nodes[node];
        self.narrow(x);
        operations[0] = with_inputs(&operations[0], &self.inputs, self.rank == 0)?;
        Ok(())
    }
}

/// Makes the ranks sum a product's results; includes the added operands, if all ranks have them.
fn sum_after(part: &mut Graph, whole: &Graph, product: usize, rank: usize, ranks: usize) {
    let made = Source::Node(product);
    let addition = only_user(whole, product).filter(|&user| {
        let Node { operations, x, with } = &whole.nodes[user];
        let alike = with.as_ref().is_some_and(|with| with.shape == x.shape && with.source != x.source);
        matches!(operations[..], [Operation::Add]) && alike
    });
    let Some(at) = addition else {
        part.nodes[product].operations.push(Operation::AllReduce { ranks });
        return;
    };
    let node = &mut part.nodes[at];
    if let (true, Some(with)) = (node.x.source != made, &mut node.with) {
        std::mem::swap(&mut node.x, with);
    }
    match rank {
        0 => node.operations.push(Operation::AllReduce { ranks }),
        _ => {
            node.with = None;
            node.operations = vec![Operation::AllReduce { ranks }];
        }
    }
}

/// The operation for these channels of its results.
fn with_outputs(operation: &Operation, channels: &[usize]) -> Result<Operation> {
    let part = |tensor: &Arc<Tensor>| chosen(tensor, 0, channels).map(Arc::new);
    Ok(match operation {
        Operation::Linear { weight, bias } => Operation::Linear { weight: part(weight)?, bias: part(bias)? },
        Operation::Conv2d { weight, bias, params } => {
            Operation::Conv2d { weight: part(weight)?, bias: bias.as_ref().map(part).transpose()?, params: *params }
        }
        Operation::BatchNorm { weight, bias, mean, variance, eps } => Operation::BatchNorm {
            weight: part(weight)?,
            bias: part(bias)?,
            mean: part(mean)?,
            variance: part(variance)?,
            eps: *eps,
        },
        other => other.clone(),
    })
}

/// The product with the terms of these of its operand's channels; without its bias, unless this rank adds it.
fn with_inputs(operation: &Operation, channels: &[usize], with_bias: bool) -> Result<Operation> {
    let part = |tensor: &Arc<Tensor>| chosen(tensor, 1, channels).map(Arc::new);
    Ok(match operation {
        Operation::Linear { weight, bias } => {
            let bias = if with_bias { bias.clone() } else { Arc::new(Tensor::zeros(bias.shape())) };
            Operation::Linear { weight: part(weight)?, bias }
        }
        Operation::Conv2d { weight, bias, params } => {
            let bias = bias.clone().filter(|_| with_bias);
            Operation::Conv2d { weight: part(weight)?, bias, params: *params }
        }
        other => other.clone(),
    })
}

/// These indices of a dimension of a tensor, and all of the others. For a tensor without values, the shape.
fn chosen(tensor: &Tensor, dimension: usize, indices: &[usize]) -> Result<Tensor> {
    let mut shape = tensor.shape().to_vec();
    let (before, side) = (shape[..dimension].iter().product::<usize>(), shape[dimension]);
    let after: usize = shape[dimension + 1..].iter().product();
    shape[dimension] = indices.len();
    let values = match tensor.as_slice() {
        Err(_) if !tensor.is_on_device() => return Ok(Tensor::shape_only(&shape)),
        values => values?,
    };
    let mut kept = Vec::with_capacity(before * indices.len() * after);
    for outer in 0..before {
        for index in indices {
            kept.extend_from_slice(&values[(outer * side + index) * after..][..after]);
        }
    }
    Tensor::from_vec(&shape, kept)
}

#[cfg(test)]
mod tests {
    use phase3_all_layers::models::unet::{Config, INPUTS};

    use super::*;

    const CONFIG: Config = Config { channels: 16, heads: 8 };

    fn whole() -> Graph {
        CONFIG.graph(&CONFIG.seeded(1), &[2, INPUTS, 8, 8]).unwrap()
    }

    #[test]
    fn the_pairs_are_attentions_mlps_and_residual_blocks() {
        let graph = whole();
        let kinds =
            |pair: &Pair| pair.nodes().map(|node| graph.nodes[node].operations[0].kind()).collect::<Vec<_>>().join(" ");
        let mut found: Vec<String> = pairs(&graph).iter().map(kinds).collect();
        found.sort_unstable();
        let count = |kinds: &str| found.iter().filter(|found| *found == kinds).count();
        assert_eq!(count("Linear Attention Linear"), 23);
        assert_eq!(count("Linear GELU Linear"), 23);
        assert_eq!(count("Conv2D BatchNorm SiLU Add Conv2D"), 22);
        assert_eq!(found.len(), 23 + 23 + 22, "{found:?}");
    }

    /// The weights of all ranks together are those of the whole, apart from those that all ranks have.
    #[test]
    fn ranks_share_out_the_weights() {
        let weights = |graph: &Graph, split: bool| -> usize {
            let of = |operation: &Operation| match operation {
                Operation::Linear { weight, .. } | Operation::Conv2d { weight, .. } => weight.len(),
                _ => 0,
            };
            let pairs = pairs(&whole());
            let in_pairs = |node: usize| pairs.iter().any(|pair| pair.first == node || pair.second == node);
            let nodes = graph.nodes.iter().enumerate().filter(|(node, _)| in_pairs(*node) == split);
            nodes.map(|(_, node)| of(&node.operations[0])).sum()
        };
        let graph = whole();
        for ranks in [2, 4, 8] {
            let parts: Vec<Graph> = (0..ranks).map(|rank| split(&graph, rank, ranks).unwrap()).collect();
            assert_eq!(parts.iter().map(|part| weights(part, true)).sum::<usize>(), weights(&graph, true));
            let sums = |part: &Graph| {
                let ends = |node: &&Node| matches!(node.operations.last(), Some(Operation::AllReduce { .. }));
                part.nodes.iter().filter(ends).count()
            };
            assert!(parts.iter().all(|part| sums(part) == 23 + 23 + 22));
        }
    }

    #[test]
    fn one_rank_has_the_whole_and_what_cannot_be_split_is_refused() {
        let graph = whole();
        assert_eq!(split(&graph, 0, 1).unwrap().to_string(), graph.to_string());
        let message = |ranks| split(&graph, 0, ranks).unwrap_err().to_string();
        let of_channels = "16 channels between two products cannot be split over 3 devices: 16 is no multiple of 3";
        assert_eq!(message(3), of_channels);
        assert_eq!(message(16), "an attention of 8 heads cannot be split over 16 devices: 8 is no multiple of 16");
        assert_eq!(split(&graph, 2, 2).unwrap_err().to_string(), "there is no rank 2 of 2");
    }
}
