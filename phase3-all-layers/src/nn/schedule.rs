//! [`Schedule`]: the one executor of a graph's steps. It knows which operands each takes, when a result is needed last and what the
//! outputs are; what a step does, its owner knows: a [`Network`](super::graph::Network) runs layers of a backend, a plan of phase 4
//! launches fused kernels.

use common::prelude::*;

use super::graph::{Operand, Source};
use super::{Backend, Value};

/// The operands of one step.
#[derive(Clone, Debug)]
pub struct Operands {
    /// The first.
    pub x: Operand,
    /// The second, of a step that takes two.
    pub with: Option<Operand>,
}

impl Operands {
    /// Both, or the only one.
    pub fn iter(&self) -> impl Iterator<Item = &Operand> {
        [Some(&self.x), self.with.as_ref()].into_iter().flatten()
    }

    fn takes(&self, step: usize) -> bool {
        self.iter().any(|operand| operand.source == Source::Node(step))
    }
}

/// Steps in their order, each after those whose results it takes.
#[derive(Clone, Debug)]
pub struct Schedule {
    steps: Vec<Operands>,
    /// Last step that needs each result, if no caller needs it.
    last_use: Vec<Option<usize>>,
    outputs: Vec<Operand>,
}

impl Schedule {
    /// For steps with these operands, where [`Source::Node`] is the result of the step of that number.
    pub fn new(steps: Vec<Operands>, outputs: Vec<Operand>) -> Schedule {
        let is_output = |step| outputs.iter().any(|output| output.source == Source::Node(step));
        let last_use = |step| steps.iter().rposition(|later| later.takes(step)).filter(|_| !is_output(step));
        let last_use = (0..steps.len()).map(last_use).collect();
        Schedule { steps, last_use, outputs }
    }

    /// A pass over these inputs that has run no step yet.
    pub fn start<'p, B: Backend>(&'p self, inputs: Vec<Value<'p, B>>) -> Running<'p, B> {
        Running { schedule: self, inputs, results: Vec::with_capacity(self.steps.len()) }
    }

    /// A whole pass, each step of which `run` does: the outputs.
    ///
    /// # Errors
    /// Errors of `run`; as [`Running::next_step`].
    pub fn run<'p, B: Backend>(
        &'p self,
        inputs: Vec<Value<'p, B>>,
        mut run: impl FnMut(Step<'p, B>) -> Result<Value<'p, B>>,
    ) -> Result<Vec<Value<'p, B>>> {
        let mut running = self.start(inputs);
        while let Some(step) = running.next_step()? {
            let result = run(step)?;
            running.resume(result);
        }
        running.outputs()
    }
}

/// A step that is to be run now.
#[derive(Debug)]
pub struct Step<'p, B: Backend> {
    /// Its place in the schedule.
    pub number: usize,
    /// Its first operand.
    pub x: Value<'p, B>,
    /// Its second operand, if it takes two.
    pub with: Option<Value<'p, B>>,
}

/// A pass up to some step. It yields each step with its operands and goes on when it is handed the result; so a caller may stop
/// between the two, as the ranks of a split network do where their terms are summed.
#[derive(Debug)]
pub struct Running<'p, B: Backend> {
    schedule: &'p Schedule,
    inputs: Vec<Value<'p, B>>,
    /// Results of the steps so far, if a later one needs them.
    results: Vec<Option<Value<'p, B>>>,
}

impl<'p, B: Backend> Running<'p, B> {
    /// The step that is next; `None` after the last. [`Running::resume`] takes its result.
    ///
    /// # Errors
    /// [`Error::Invalid`] if an operand is missing; as [`Value::reshape`].
    pub fn next_step(&mut self) -> Result<Option<Step<'p, B>>> {
        let (number, Running { schedule, inputs, results }) = (self.results.len(), self);
        let Some(Operands { x, with }) = schedule.steps.get(number) else { return Ok(None) };
        // A result is moved into the step that needs it last, and there into the operand that is taken last.
        let mut take = |operand: &Operand, moves: bool| {
            let value = match operand.source {
                Source::Input(input) => inputs.get(input).cloned(),
                Source::Node(node) if moves && schedule.last_use[node] == Some(number) => results[node].take(),
                Source::Node(node) => results[node].clone(),
            };
            let missing = || Error::Invalid(format!("step {number} of a pass lacks an operand"));
            value.ok_or_else(missing)?.reshape(&operand.shape)
        };
        let with = with.as_ref().map(|with| take(with, with.source != x.source)).transpose()?;
        let x = take(x, true)?;
        Ok(Some(Step { number, x, with }))
    }

    /// Goes on with the result of the step that [`Running::next_step`] gave last.
    pub fn resume(&mut self, result: Value<'p, B>) {
        self.results.push(Some(result));
    }

    /// The outputs of a pass whose steps have all run: each moves to the caller, unless another output is the same value.
    ///
    /// # Errors
    /// [`Error::Invalid`] if an output is missing; as [`Value::reshape`].
    pub fn outputs(self) -> Result<Vec<Value<'p, B>>> {
        let Running { schedule: Schedule { outputs, .. }, inputs, mut results } = self;
        let mut take = |(number, output): (usize, &Operand)| {
            let again = outputs[number + 1..].iter().any(|other| other.source == output.source);
            let value = match output.source {
                Source::Input(input) => inputs.get(input).cloned(),
                Source::Node(node) if again => results.get(node).cloned().flatten(),
                Source::Node(node) => results.get_mut(node).and_then(Option::take),
            };
            let missing = || Error::Invalid(format!("output {number} of a pass is missing"));
            value.ok_or_else(missing)?.reshape(&output.shape)
        };
        outputs.iter().enumerate().map(&mut take).collect()
    }
}
