//! Pipeline parallelism: each device has some layers of the model, and micro-batches travel from one device to the next.
//!
//! ```text
//! device 0   | layers 0 … k of batch 0 | layers 0 … k of batch 1 | layers 0 … k of batch 2 | …
//! device 1                             | the rest of batch 0     | the rest of batch 1     | …
//! ```
//!
//! One batch takes as long as on one device, plus the copies. With many in flight all devices work at once, so the rate is that
//! of the slowest stage: the cut should halve the work. The values that later layers use, skip connections included, cross the
//! cut.

use std::collections::HashMap;

use common::prelude::*;
use phase3_all_layers::nn::Operation;
use phase3_all_layers::nn::graph::{Graph, Node, Operand, Source};

use crate::models::Arithmetic;
use crate::models::plan::{Edge, Ends, Plan};
use crate::models::runner::Runner;

/// Maximum deviation from the best balance for a cut where fewer bytes cross, as a fraction of the whole work.
const SLACK: f64 = 0.02;

/// Source of a stage's input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum From {
    /// The model's input of this number.
    Model(usize),
    /// An output of an earlier stage.
    Stage { stage: usize, output: usize },
}

/// An input of a stage.
#[derive(Debug)]
struct Taken {
    from: From,
    /// Where earlier stages store it, on this stage's device: one place per batch in flight.
    mailbox: Vec<Tensor>,
}

/// Some layers on a device.
#[derive(Debug)]
struct Stage {
    stream: Stream,
    runner: Runner,
    inputs: Vec<Taken>,
    /// For each place of the mailboxes, when it was last emptied.
    emptied: Vec<Option<Event>>,
    /// Events for the arrival of earlier stages' results for the next batch.
    arrived: Vec<Event>,
}

/// A model whose layers are on several devices.
#[derive(Debug)]
pub struct Pipeline {
    stages: Vec<Stage>,
    /// The model's inputs, on the device of the first stage that uses each.
    inputs: Vec<Tensor>,
    cuts: Vec<usize>,
}

impl Pipeline {
    /// The model of a graph, which takes inputs of these shapes, over the devices of a group.
    ///
    /// # Errors
    /// Same as [`Graph::part`], [`Plan::of_part`] and [`Runner::new`]; [`Error::Invalid`] if there are more devices than
    /// nodes.
    pub fn new(group: &DeviceGroup, arithmetic: Arithmetic, graph: &Graph, inputs: &[&[usize]]) -> Result<Pipeline> {
        let cuts = balanced(graph, group.len())?;
        let mut made: HashMap<Source, (Edge, From)> = HashMap::new();
        for (number, shape) in inputs.iter().enumerate() {
            made.insert(Source::Input(number), (Edge::planes(shape), From::Model(number)));
        }
        let missing =
            |operand: &Operand| Error::Invalid(format!("a stage takes {:?}, which none has made", operand.source));
        // One batch per stage, and one that is put down while another is taken up.
        let places = group.len() + 1;
        let mut stages: Vec<Stage> = Vec::new();
        for (device, range) in group.devices().iter().zip(cuts.windows(2)) {
            let part = graph.part(range[0]..range[1])?;
            let taken: Vec<(Edge, From)> = part
                .inputs
                .iter()
                .map(|input| made.get(&input.source).cloned().ok_or_else(|| missing(input)))
                .collect::<Result<_>>()?;
            let (edges, from): (Vec<Edge>, Vec<From>) = taken.into_iter().unzip();
            let ends = if range[1] == graph.nodes.len() { Ends::Planes } else { Ends::AsMade };
            let plan = Plan::of_part(device, arithmetic, part.graph, edges.clone(), ends)?;
            for (output, (operand, edge)) in part.outputs.iter().zip(plan.outputs()).enumerate() {
                made.insert(operand.source, (edge.clone(), From::Stage { stage: stages.len(), output }));
            }
            let taken = |(edge, from): (Edge, From)| {
                let places = if matches!(from, From::Model(_)) { 0 } else { places };
                Ok(Taken { from, mailbox: (0..places).map(|_| edge.allocate(device)).collect::<Result<_>>()? })
            };
            let inputs = edges.into_iter().zip(from).map(taken).collect::<Result<_>>()?;
            let (stream, runner) = (device.new_stream()?, Runner::new(device, plan)?);
            stages.push(Stage {
                stream,
                runner,
                inputs,
                emptied: (0..places).map(|_| None).collect(),
                arrived: Vec::new(),
            });
        }
        let first_taker = |number: usize| {
            let takes = |stage: &&Stage| stage.inputs.iter().any(|input| input.from == From::Model(number));
            stages.iter().find(takes).unwrap_or(&stages[0]).stream.device()
        };
        let inputs = inputs
            .iter()
            .enumerate()
            .map(|(number, shape)| Tensor::empty_on(first_taker(number), shape))
            .collect::<Result<_>>()?;
        // Mailboxes are filled from here on by other devices, whose streams know nothing of this memory's first values.
        group.synchronize()?;
        Ok(Pipeline { stages, inputs, cuts })
    }

    /// The nodes at which the graph was cut, its ends included.
    pub fn cuts(&self) -> &[usize] {
        &self.cuts
    }

    /// Bytes that cross from device to device for each micro-batch.
    pub fn link_bytes(&self) -> u64 {
        let crossing = |stage: &Stage| -> u64 {
            let inputs = stage.inputs.iter().zip(stage.runner.plan().inputs());
            inputs.filter(|(input, _)| matches!(input.from, From::Stage { .. })).map(|(_, edge)| edge.bytes()).sum()
        };
        self.stages.iter().map(crossing).sum()
    }

    /// Sets the model's inputs from the host, for all later micro-batches.
    ///
    /// # Errors
    /// [`Error::Shape`] if one does not have the planned shape; errors of the device.
    pub fn set_inputs(&mut self, inputs: &[&Tensor]) -> Result<()> {
        for (x, input) in inputs.iter().zip(&mut self.inputs) {
            x.expect_shape("the planned input", input.shape())?;
            let device = input.device().ok_or_else(|| Error::Invalid("an input has no device".to_owned()))?.clone();
            device.stream().memcpy_htod(x.as_slice()?, input.buffer_mut()?)?;
        }
        Ok(())
    }

    // ANCHOR: run
    /// Queues `count` micro-batches: each goes through all stages in turn. `done` is called for each when its last stage has been
    /// queued, with its stream and its output.
    ///
    /// # Errors
    /// The first of `done` or of a device.
    pub fn run(&mut self, count: usize, mut done: impl FnMut(usize, &Stream, &Tensor) -> Result<()>) -> Result<()> {
        let no_output = || Error::Invalid("a stage has no output".to_owned());
        for batch in 0..count {
            for at in 0..self.stages.len() {
                let (before, later) = self.stages.split_at_mut(at + 1);
                let Stage { stream, runner, inputs, emptied, arrived } = &mut before[at];
                let place = batch % emptied.len();
                arrived.drain(..).try_for_each(|event| stream.wait(&event))?;
                for (number, Taken { from, mailbox }) in inputs.iter().enumerate() {
                    let value = if let From::Model(number) = *from { &self.inputs[number] } else { &mailbox[place] };
                    value.copy_to(stream, runner.input_mut(number)?)?;
                }
                emptied[place] = Some(stream.record_event()?);
                runner.queue(stream)?;
                // What later stages take goes there at once, so that this one may begin with the next batch.
                for taker in later {
                    let made_here = |from: From| match from {
                        From::Stage { stage, output } if stage == at => Some(output),
                        _ => None,
                    };
                    let inputs = taker.inputs.iter_mut();
                    let taken = inputs.filter_map(|input| Some((made_here(input.from)?, &mut input.mailbox[place])));
                    let mut any = false;
                    for (output, to) in taken {
                        if let (Some(event), false) = (&taker.emptied[place], any) {
                            stream.wait(event)?;
                        }
                        any = true;
                        runner.outputs().nth(output).ok_or_else(no_output)?.copy_to(stream, to)?;
                    }
                    if any {
                        taker.arrived.push(stream.record_event()?);
                    }
                }
            }
            let last = &self.stages[self.stages.len() - 1];
            done(batch, &last.stream, last.runner.outputs().next().ok_or_else(no_output)?)?;
        }
        Ok(())
    }
    // ANCHOR_END: run

    /// Waits for all micro-batches.
    ///
    /// # Errors
    /// Errors of the devices.
    pub fn synchronize(&self) -> Result<()> {
        self.stages.iter().try_for_each(|stage| stage.stream.synchronize())
    }
}

/// Floating-point operations of a node.
fn flops(node: &Node) -> f64 {
    let values = |operand: &Operand| operand.shape.iter().product::<usize>() as f64;
    let of = |operation: &Operation| match operation {
        Operation::Conv2d { weight, params, .. } => {
            let shape = params.output_shape(&Tensor::shape_only(&node.x.shape), weight).unwrap_or([0; 4]);
            2.0 * shape.iter().product::<usize>() as f64 * weight.shape()[1..].iter().product::<usize>() as f64
        }
        Operation::Linear { weight, .. } => 2.0 * values(&node.x) * weight.shape()[0] as f64,
        // Scores and their product with the values: each 2·T²·C.
        Operation::Attention { .. } => match node.x.shape[..] {
            [_, tokens, _] => 4.0 * values(&node.x) / 3.0 * tokens as f64,
            _ => 0.0,
        },
        _ => values(&node.x),
    };
    node.operations.iter().map(of).sum()
}

// ANCHOR: balanced
/// Where to cut a graph into `parts`: its ends, and between them nodes such that each part has about the same number of
/// floating-point operations; among cuts nearly as good, those where the fewest bytes cross.
///
/// # Errors
/// [`Error::Invalid`] if there are more parts than nodes.
pub fn balanced(graph: &Graph, parts: usize) -> Result<Vec<usize>> {
    let count = graph.nodes.len();
    if parts == 0 || parts > count {
        return Err(Error::Invalid(format!("a model of {count} operations is not cut into {parts} parts")));
    }
    let mut before = vec![0.0];
    for node in &graph.nodes {
        before.push(before[before.len() - 1] + flops(node));
    }
    let total = before[count];
    let crossing = |at: usize| -> Result<usize> {
        let outputs = graph.part(0..at)?.outputs;
        Ok(outputs.iter().map(|output| output.shape.iter().product::<usize>()).sum())
    };
    let mut cuts = vec![0];
    for part in 1..parts {
        let wanted = total * part as f64 / parts as f64;
        let off = |at: usize| (before[at] - wanted).abs();
        let first = cuts[part - 1] + 1;
        let candidates = first..=count - (parts - part);
        let best = candidates.clone().map(off).fold(f64::INFINITY, f64::min);
        let near = candidates.filter(|&at| off(at) <= best + SLACK * total);
        let with_bytes = near.map(|at| Ok((crossing(at)?, at))).collect::<Result<Vec<_>>>()?;
        cuts.push(with_bytes.into_iter().min().map_or(first, |(_, at)| at));
    }
    cuts.push(count);
    Ok(cuts)
}
// ANCHOR_END: balanced
