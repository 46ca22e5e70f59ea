//! A plan's passes: phase 3's executor over launches, which stops where values are summed over ranks.

use common::prelude::*;
use phase3_all_layers::backends::Unfused;
use phase3_all_layers::backends::workspace::Intermediate;
use phase3_all_layers::commands::video::Denoiser;
use phase3_all_layers::nn::Module;
use phase3_all_layers::nn::schedule::{self, Step};

use super::Plan;
use super::launch::Work;
use super::rank_sum::RankSum;
use crate::models::runner::{Flow, Flowing};

/// A pass of a plan up to some launch. It stops where values are summed over all ranks: then every rank's pass has to get there.
#[derive(Debug)]
pub struct Running<'p> {
    plan: &'p Plan,
    pass: &'p Flow,
    steps: schedule::Running<'p, Unfused>,
    /// Terms that other ranks may still read, until all ranks have come to the next sum.
    read_by_others: Option<Intermediate>,
}

impl<'p> Running<'p> {
    /// Queues launches up to the next sum over ranks, which is to be queued for all of them and handed back by [`Running::summed`].
    /// `None` when all launches are queued. `note` is told of each.
    ///
    /// # Errors
    /// Errors of the launches.
    pub fn to_next_sum(&mut self, note: &mut impl FnMut(usize, &Stream) -> Result<()>) -> Result<Option<RankSum<'p>>> {
        let pass = self.pass;
        while let Some(Step { number, x, with }) = self.steps.next_step()? {
            let launch = &self.plan.launches[number];
            match &launch.work {
                Work::RankSum(finish) => {
                    let terms = x.own()?;
                    let y = pass.intermediate_of(terms.shape(), terms.element_type(), terms.format())?;
                    return Ok(Some(RankSum { terms, image: with, y, finish }));
                }
                Work::Kernel(kernel) => {
                    let result = kernel.run(launch.call(pass), x, with)?;
                    self.steps.resume(Flowing::result(pass, result));
                    pass.queue(launch.kind, |stream| note(number, stream))?;
                }
            }
        }
        Ok(None)
    }

    /// The pass goes on with the result of the sum that [`Running::to_next_sum`] came to.
    pub fn summed(&mut self, sum: RankSum<'p>) {
        self.read_by_others = Some(sum.terms);
        self.steps.resume(Flowing::result(self.pass, sum.y));
    }

    /// The outputs of a pass whose launches are all queued.
    ///
    /// # Errors
    /// [`Error::Invalid`] if they are not.
    pub fn outputs(self) -> Result<Vec<Flowing<'p>>> {
        self.steps.outputs()
    }
}

impl Plan {
    /// A pass over values that lie as [`Plan::inputs`] says, which has queued nothing yet.
    pub fn start<'p>(&'p self, pass: &'p Flow, inputs: Vec<Flowing<'p>>) -> Running<'p> {
        Running { plan: self, pass, steps: self.schedule.start(inputs), read_by_others: None }
    }

    /// Queues all launches on such values, and gives the outputs; `note` is told of each launch when it is queued.
    ///
    /// # Errors
    /// Errors of the launches.
    pub fn run<'p>(
        &'p self,
        pass: &'p Flow,
        inputs: Vec<Flowing<'p>>,
        mut note: impl FnMut(usize, &Stream) -> Result<()>,
    ) -> Result<Vec<Flowing<'p>>> {
        let mut running = self.start(pass, inputs);
        match running.to_next_sum(&mut note)? {
            None => running.outputs(),
            Some(_) => Err(Error::Invalid("a plan of one of several ranks runs with those of the others".to_owned())),
        }
    }

    /// Queues all launches of a plan with one output.
    ///
    /// # Errors
    /// Errors of the launches; [`Error::Invalid`] if it has another number of outputs.
    fn forward<'p>(&'p self, pass: &'p Flow, inputs: Vec<Flowing<'p>>) -> Result<Flowing<'p>> {
        let outputs: [Flowing<'p>; 1] = self
            .run(pass, inputs, |_, _| Ok(()))?
            .try_into()
            .map_err(|outputs: Vec<_>| Error::Invalid(format!("a plan with one output has {}", outputs.len())))?;
        let [output] = outputs;
        Ok(output)
    }
}

/// A plan with its second and further inputs, as phase 3's workspaces and graphs run it.
#[derive(Debug)]
pub struct WithInputs<'a> {
    /// The plan.
    pub plan: &'a Plan,
    /// On the device, in their planned shapes.
    pub inputs: Vec<Tensor>,
}

impl Module<Unfused> for WithInputs<'_> {
    fn forward<'p>(&'p self, x: Flowing<'p>) -> Result<Flowing<'p>> {
        let mut inputs: Vec<Flowing<'p>> = self.inputs.iter().map(|input| x.beside(input)).collect();
        let pass = x.pass();
        inputs.insert(0, x);
        self.plan.forward(pass, inputs)
    }
}

impl Denoiser for Plan {
    fn noise<'p>(&'p self, x: Flowing<'p>, steps: Flowing<'p>) -> Result<Flowing<'p>> {
        let pass = x.pass();
        self.forward(pass, vec![x, steps])
    }
}
