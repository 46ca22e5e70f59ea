//! A forward pass as a list of operations, for rewrites.

use std::borrow::{Borrow, BorrowMut};
use std::cell::RefCell;
use std::fmt;
use std::ops::Range;

use common::prelude::*;

use super::schedule::{Operands, Schedule, Step};
use super::{Backend, Layer, Module, Operation, Value};

/// A backend that runs nothing: it records each operation and its operands.
#[derive(Clone, Copy, Debug)]
pub struct Recorder;

/// A result that was only recorded: a shape, and its node's number.
#[derive(Debug)]
pub struct Recorded {
    shape: Tensor,
    node: usize,
}

impl Borrow<Tensor> for Recorded {
    fn borrow(&self) -> &Tensor {
        &self.shape
    }
}

impl BorrowMut<Tensor> for Recorded {
    fn borrow_mut(&mut self) -> &mut Tensor {
        &mut self.shape
    }
}

/// A pass that is being recorded.
#[derive(Debug)]
pub struct Recording {
    /// Shapes.
    inputs: Vec<Tensor>,
    nodes: RefCell<Vec<Node>>,
}

impl Recording {
    /// A recording for inputs of these shapes.
    pub fn new(inputs: &[&[usize]]) -> Recording {
        let inputs = inputs.iter().map(|shape| Tensor::shape_only(shape)).collect();
        Recording { inputs, nodes: RefCell::default() }
    }

    /// The inputs, in their order.
    pub fn inputs(&self) -> impl Iterator<Item = Value<'_, Recorder>> {
        self.inputs.iter().map(|input| Value::given(self, input))
    }

    fn operand(&self, value: &Value<'_, Recorder>) -> Result<Operand> {
        let input = || self.inputs.iter().position(|input| std::ptr::eq(input, &**value)).map(Source::Input);
        let source = value.as_result().map(|recorded| Source::Node(recorded.node)).or_else(input);
        let foreign = || Error::Invalid(format!("a value {:?} is no input of the recorded pass", value.shape()));
        Ok(Operand { source: source.ok_or_else(foreign)?, shape: value.shape().to_vec() })
    }

    /// Graph recorded on the way to `output`.
    ///
    /// # Errors
    /// [`Error::Invalid`] if `output` is not the result of the last operation.
    pub fn graph(&self, output: &Value<'_, Recorder>) -> Result<Graph> {
        let nodes = self.nodes.borrow().clone();
        if output.as_result().map(|recorded| recorded.node + 1) != Some(nodes.len()) {
            return Err(Error::Invalid("the last operation of a module does not make its output".to_owned()));
        }
        let output = self.operand(output)?;
        Ok(Graph { nodes, outputs: vec![output] })
    }
}

impl Backend for Recorder {
    type Layer = Operation;
    type Pass = Recording;
    type Output = Recorded;

    fn load(&self, operation: Operation) -> Result<Operation> {
        Ok(operation)
    }

    fn run(layer: &Operation, x: Value<'_, Self>, with: Option<Value<'_, Self>>) -> Result<Recorded> {
        let shape = layer.output_shape(&x, with.as_deref())?;
        let pass = x.pass();
        let node = Node {
            operations: vec![layer.clone()],
            x: pass.operand(&x)?,
            with: with.as_ref().map(|with| pass.operand(with)).transpose()?,
        };
        let mut nodes = pass.nodes.borrow_mut();
        nodes.push(node);
        Ok(Recorded { shape: Tensor::shape_only(&shape), node: nodes.len() - 1 })
    }

    /// There is nothing to copy: operations in place do not write, and a value that is needed again is not reshaped.
    fn copy(_: &Recording, x: &Tensor) -> Result<Recorded> {
        let reason = "a recorded value that is needed again cannot be reshaped".to_owned();
        Err(Error::Unsupported { what: format!("a copy of {:?}", x.shape()), device: "a recorder".to_owned(), reason })
    }
}

/// Source of an operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Source {
    /// The input of this number.
    Input(usize),
    /// The result of the node of this number.
    Node(usize),
}

/// Operand of an operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Operand {
    /// Source of its values.
    pub source: Source,
    /// Shape for the operation, with as many values as the source.
    pub shape: Vec<usize>,
}

/// An operation of a graph, or several that follow each other.
#[derive(Clone, Debug)]
pub struct Node {
    /// In order, at least one.
    pub operations: Vec<Operation>,
    /// Operand of the first one.
    pub x: Operand,
    /// The second operand of the operation that takes two.
    pub with: Option<Operand>,
}

impl Node {
    /// Both operands, or the only one.
    pub fn operands(&self) -> impl Iterator<Item = &Operand> {
        [Some(&self.x), self.with.as_ref()].into_iter().flatten()
    }

    fn operands_mut(&mut self) -> impl Iterator<Item = &mut Operand> {
        [Some(&mut self.x), self.with.as_mut()].into_iter().flatten()
    }

    /// Whether it works on the result of this node.
    pub fn takes(&self, node: usize) -> bool {
        self.operands().any(|operand| operand.source == Source::Node(node))
    }
}

/// The operations of a forward pass over inputs of fixed shapes, each after those whose results it uses. The last one's result is
/// the output; a [`Part`] may have several, from any of its nodes.
#[derive(Clone, Debug)]
pub struct Graph {
    /// Rewrites change them.
    pub nodes: Vec<Node>,
    /// Results of nodes.
    outputs: Vec<Operand>,
}

/// Some nodes of a graph as their own graph, with inputs and outputs as numbered in the whole graph.
#[derive(Clone, Debug)]
pub struct Part {
    /// The nodes, numbered from 0.
    pub graph: Graph,
    /// Values of the part's inputs, in order: inputs of the whole graph, or results of earlier nodes.
    pub inputs: Vec<Operand>,
    /// Results that are the part's outputs, in order: those that later nodes use, or outputs of the whole graph.
    pub outputs: Vec<Operand>,
}

impl Graph {
    /// Records what `module`, made in a scope whose backend is a [`Recorder`], does with an input of this shape.
    ///
    /// # Errors
    /// Errors of [`Module::forward`]; same as [`Recording::graph`].
    pub fn record(module: &impl Module<Recorder>, input: &[usize]) -> Result<Graph> {
        let recording = Recording::new(&[input]);
        let y = module.forward(Value::given(&recording, &recording.inputs[0]))?;
        recording.graph(&y)
    }

    /// The outputs: results of nodes, in the shapes that the caller expects.
    pub fn outputs(&self) -> &[Operand] {
        &self.outputs
    }

    /// Whether a node's result is an output.
    pub fn is_output(&self, node: usize) -> bool {
        self.outputs.iter().any(|output| output.source == Source::Node(node))
    }

    // ANCHOR: part
    /// The nodes of this range as their own graph. Consecutive parts do what the whole does, if each gets the results of those
    /// before it. An output has the shape of its first use after the part.
    ///
    /// # Errors
    /// [`Error::Invalid`] if the range is empty or goes beyond the last node.
    pub fn part(&self, nodes: Range<usize>) -> Result<Part> {
        let chosen = self.nodes.get(nodes.clone()).filter(|chosen| !chosen.is_empty());
        let missing = || Error::Invalid(format!("a graph of {} nodes has no part {nodes:?}", self.nodes.len()));
        let mut chosen = chosen.ok_or_else(missing)?.to_vec();
        let mut inputs: Vec<Operand> = Vec::new();
        for operand in chosen.iter_mut().flat_map(Node::operands_mut) {
            operand.source = match operand.source {
                Source::Node(node) if nodes.contains(&node) => Source::Node(node - nodes.start),
                outside => {
                    let known = inputs.iter().position(|input| input.source == outside);
                    Source::Input(known.unwrap_or_else(|| {
                        inputs.push(operand.clone());
                        inputs.len() - 1
                    }))
                }
            };
        }
        let later = self.nodes[nodes.end..].iter().flat_map(Node::operands).chain(&self.outputs);
        let mut outputs: Vec<Operand> = Vec::new();
        for operand in later {
            let made_here = matches!(operand.source, Source::Node(node) if nodes.contains(&node));
            if made_here && !outputs.iter().any(|output| output.source == operand.source) {
                outputs.push(operand.clone());
            }
        }
        let here = |output: &Operand| match output.source {
            Source::Node(node) => Operand { source: Source::Node(node - nodes.start), shape: output.shape.clone() },
            Source::Input(_) => output.clone(),
        };
        Ok(Part { graph: Graph { outputs: outputs.iter().map(here).collect(), nodes: chosen }, inputs, outputs })
    }
    // ANCHOR_END: part

    /// The nodes that work on a node's result, in their order.
    pub fn users(&self, node: usize) -> impl Iterator<Item = usize> {
        (0..self.nodes.len()).filter(move |&user| self.nodes[user].takes(node))
    }

    /// Number of operands and outputs that use a node's result.
    fn uses(&self, node: usize) -> usize {
        let operands = self.nodes.iter().flat_map(Node::operands).chain(&self.outputs);
        operands.filter(|operand| operand.source == Source::Node(node)).count()
    }

    // ANCHOR: turn_additions
    /// Swaps the operands of each addition where only the second operand could be made by an epilogue: `takes` gets the operation
    /// that makes an operand that nothing else needs, and returns whether it could also add the other operand.
    pub fn turn_additions(&mut self, takes: impl Fn(&Operation) -> bool) {
        for at in 0..self.nodes.len() {
            let could = |operand: &Operand| match operand.source {
                Source::Node(node) => self.uses(node) == 1 && self.nodes[node].operations.last().is_some_and(&takes),
                Source::Input(_) => false,
            };
            let Node { operations, x, with } = &self.nodes[at];
            let turns = matches!(operations[..], [Operation::Add])
                && !could(x)
                && with.as_ref().is_some_and(|with| with.shape == x.shape && could(with));
            let node = &mut self.nodes[at];
            if let (true, Some(with)) = (turns, &mut node.with) {
                std::mem::swap(&mut node.x, with);
            }
        }
    }
    // ANCHOR_END: turn_additions

    /// Joins each node to the one whose result only it uses, where `together` wants the operations of both in one chain. A chain
    /// has at most one second operand.
    pub fn chain(&mut self, together: impl Fn(&[Operation], &[Operation]) -> bool) {
        let mut at = 0;
        while at < self.nodes.len() {
            let then = &self.nodes[at];
            let joined = match then.x.source {
                Source::Node(before) => {
                    let first = &self.nodes[before];
                    let alone = self.uses(before) == 1 && (first.with.is_none() || then.with.is_none());
                    Some(before).filter(|_| alone && together(&first.operations, &then.operations))
                }
                Source::Input(_) => None,
            };
            match joined {
                // What was after `at` has moved up.
                Some(before) => self.join(before, at),
                None => at += 1,
            }
        }
    }

    /// Merges `before` and `at` into one node, in the place of `at`: there all operands of both are available.
    fn join(&mut self, before: usize, at: usize) {
        let first = self.nodes.remove(before);
        let then = &mut self.nodes[at - 1];
        then.operations.splice(..0, first.operations);
        then.x = first.x;
        then.with = then.with.take().or(first.with);
        for operand in self.nodes.iter_mut().flat_map(Node::operands_mut).chain(&mut self.outputs) {
            if let Source::Node(number) = &mut operand.source {
                *number -= usize::from(*number > before);
            }
        }
    }

    /// The graph on a backend, for inputs of the recorded shapes.
    ///
    /// # Errors
    /// Same as [`Layer::load`].
    pub fn load<B: Backend>(self, backend: &B) -> Result<Network<B>> {
        let schedule = self.schedule();
        let layers = self.nodes.into_iter().map(|node| Layer::load(backend, node.operations)).collect::<Result<_>>()?;
        Ok(Network { layers, schedule })
    }

    /// The operands of its nodes, for who runs them in a way of its own.
    pub fn schedule(&self) -> Schedule {
        let operands = |node: &Node| Operands { x: node.x.clone(), with: node.with.clone() };
        Schedule::new(self.nodes.iter().map(operands).collect(), self.outputs.clone())
    }
}

impl fmt::Display for Graph {
    /// One line per node: its number, its operations, what they work on.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, node) in self.nodes.iter().enumerate() {
            let kinds: Vec<&str> = node.operations.iter().map(Operation::kind).collect();
            write!(f, "{number:3}  {}", kinds.join(" + "))?;
            for Operand { source, shape } in node.operands() {
                match source {
                    Source::Node(node) => write!(f, "  {node} {shape:?}")?,
                    Source::Input(number) => write!(f, "  input {number} {shape:?}")?,
                }
            }
            writeln!(f)?;
        }
        Ok(())
    }
}

/// A graph that a backend has loaded.
#[derive(Debug)]
pub struct Network<B: Backend> {
    layers: Vec<Layer<B>>,
    schedule: Schedule,
}

impl<B: Backend> Network<B> {
    /// The output for these inputs, or the first of several.
    ///
    /// # Errors
    /// Same as [`Network::outputs`].
    pub fn forward_all<'p>(&'p self, inputs: &[Value<'p, B>]) -> Result<Value<'p, B>> {
        let first = self.outputs(inputs)?.into_iter().next();
        first.ok_or_else(|| Error::Invalid("a graph has no output".to_owned()))
    }

    /// All outputs for these inputs.
    ///
    /// # Errors
    /// Same as [`Module::forward`]; [`Error::Invalid`] if an input is missing.
    pub fn outputs<'p>(&'p self, inputs: &[Value<'p, B>]) -> Result<Vec<Value<'p, B>>> {
        self.schedule.run(inputs.to_vec(), |Step { number, x, with }| self.layers[number].run(x, with))
    }
}

impl<B: Backend> Module<B> for Network<B> {
    fn forward<'p>(&'p self, x: Value<'p, B>) -> Result<Value<'p, B>> {
        self.forward_all(&[x])
    }
}
