//! Runs a plan, in memory that is planned once.

use bench::timing::Filler;
use common::prelude::*;
use phase3_all_layers::backends::Unfused;
use phase3_all_layers::backends::workspace::{Intermediate, Pass, Workspace};
use phase3_all_layers::nn::Value;

use super::plan::{Edge, Plan};

/// Fills of memory before a timed pass, during which its launches are queued.
const FILLINGS: usize = 8;
/// Timed passes; the first ones load code and raise clocks.
const PASSES: usize = 15;

/// A plan with its memory: the inputs', and the results' between launches.
///
/// The first pass queues each launch by itself, so that all kernels are loaded and their shared memory is allocated. Later ones
/// are one graph, which the host queues with one call.
#[derive(Debug)]
pub struct Runner {
    plan: Plan,
    inputs: Vec<Tensor>,
    /// Outputs of the last pass.
    outputs: Vec<Intermediate>,
    passes: Passes,
    workspace: Workspace,
}

/// How the next pass is queued.
#[derive(Debug)]
enum Passes {
    /// It is the first.
    First,
    /// Launch by launch: the device has no graphs.
    Plain,
    /// As a graph.
    Graph(GraphExec),
}

impl Runner {
    /// Allocates what the plan needs; passes allocate nothing.
    ///
    /// # Errors
    /// Same as [`Workspace::plan`].
    pub fn new(device: &Device, plan: Plan) -> Result<Runner> {
        let (inputs, workspace) =
            allocate(device, &plan, |plan, pass, inputs| plan.run(pass, inputs, |_, _| Ok(())).map(drop))?;
        Ok(Runner { plan, inputs, outputs: Vec::new(), passes: Passes::First, workspace })
    }

    /// A pass with its two copies: `x` from the host, f32 in NCHW, and the result to it.
    ///
    /// # Errors
    /// [`Error::Shape`] if `x` does not have the planned shape; errors of the launches.
    pub fn infer(&mut self, stream: &Stream, x: &Tensor) -> Result<Tensor> {
        self.infer_all(stream, &[x])
    }

    /// [`Runner::infer`] for a plan with several inputs, all from the host. Returns the first of several outputs.
    ///
    /// # Errors
    /// As [`Runner::infer`]; [`Error::Inputs`] if there are more or fewer of them.
    pub fn infer_all(&mut self, stream: &Stream, inputs: &[&Tensor]) -> Result<Tensor> {
        copy_inputs(stream, inputs, &mut self.inputs)?;
        self.queue(stream)?;
        let y = self.outputs.first().ok_or_else(|| Error::Invalid("a pass has no output".to_owned()))?;
        Tensor::from_vec(y.shape(), stream.clone_dtoh(y.buffer()?)?)
    }

    /// Queues a pass over the previous input, with no copy: for measurements.
    ///
    /// # Errors
    /// Errors of the launches.
    pub fn queue(&mut self, stream: &Stream) -> Result<()> {
        match &self.passes {
            Passes::Graph(graph) => graph.launch(stream),
            Passes::Plain => self.launch_all(stream, |_, _| Ok(())),
            Passes::First => {
                self.launch_all(stream, |_, _| Ok(()))?;
                let captured = stream.capture(|recording| self.launch_all(recording, |_, _| Ok(())));
                self.passes = match captured.and_then(|graph| graph.instantiate()) {
                    Ok(graph) => Passes::Graph(graph),
                    Err(error) if error.is_unsupported() => Passes::Plain,
                    Err(error) => return Err(error),
                };
                Ok(())
            }
        }
    }

    /// Input of a pass: on the device, as in [`Plan::inputs`]. Values queued there before a pass are its input.
    ///
    /// # Errors
    /// [`Error::Invalid`] if there is no such input.
    pub fn input_mut(&mut self, number: usize) -> Result<&mut Tensor> {
        let missing = || Error::Invalid(format!("a plan has no input {number}"));
        self.inputs.get_mut(number).ok_or_else(missing)
    }

    /// Outputs of the last pass: on the device, as in [`Plan::outputs`]. Later passes use the same memory. None before the first
    /// pass.
    pub fn outputs(&self) -> impl ExactSizeIterator<Item = &Tensor> {
        self.outputs.iter().map(|output| &**output)
    }

    /// Queues the launches one by one; `note` is called for each.
    fn launch_all(&mut self, stream: &Stream, note: impl FnMut(usize, &Stream) -> Result<()>) -> Result<()> {
        let Runner { plan, inputs, outputs, workspace, .. } = self;
        // Their memory is the next outputs'.
        outputs.clear();
        *outputs = workspace.run(stream, |pass| owned(plan.run(pass, given(pass, inputs), note)?))?;
        Ok(())
    }

    /// Milliseconds of each launch of such a pass on a GPU, medians of several passes, from the end of the previous launch to its
    /// own: events keep overlapping launches apart. `None` on the simulator.
    ///
    /// # Errors
    /// Same as [`Runner::queue`].
    pub fn milliseconds(&mut self, stream: &Stream) -> Result<Option<Vec<f64>>> {
        if stream.device().is_sim() {
            return Ok(None);
        }
        // It lives as long as the passes: freeing it would wait for them.
        let mut filler = Filler::new(stream)?;
        let passes = (0..PASSES).map(|_| self.pass_milliseconds(stream, &mut filler)).collect::<Result<Vec<_>>>()?;
        let median = |launch: usize| {
            let mut samples: Vec<f64> = passes.iter().map(|pass| pass[launch]).collect();
            samples.sort_by(f64::total_cmp);
            samples[samples.len() / 2]
        };
        Ok(Some((0..self.plan.launches().len()).map(median).collect()))
    }

    fn pass_milliseconds(&mut self, stream: &Stream, filler: &mut Filler) -> Result<Vec<f64>> {
        (0..FILLINGS).try_for_each(|_| filler.fill(stream))?;
        let mut events = vec![stream.record_event()?];
        self.launch_all(stream, |_, stream| {
            events.push(stream.record_event()?);
            Ok(())
        })?;
        stream.synchronize()?;
        let between = |pair: &[Event]| pair[0].elapsed_ms(&pair[1]).map(f64::from);
        events.windows(2).map(between).collect()
    }

    /// The work that it runs.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// The memory of results between launches.
    pub fn workspace(&self) -> &Workspace {
        &self.workspace
    }
}

/// Memory for a plan's inputs, and between its launches by what `pass` asks for, which runs over shapes alone.
///
/// # Errors
/// As [`Workspace::plan`] and [`Edge::allocate`].
pub(crate) fn allocate(
    device: &Device,
    plan: &Plan,
    pass: impl for<'p> FnOnce(&'p Plan, &'p Flow, Vec<Flowing<'p>>) -> Result<()>,
) -> Result<(Vec<Tensor>, Workspace)> {
    let shapes: Vec<Tensor> = plan.inputs().iter().map(Edge::shape_only).collect::<Result<_>>()?;
    let workspace = Workspace::plan(device, |flow| pass(plan, flow, given(flow, &shapes)))?;
    let inputs = plan.inputs().iter().map(|input| input.allocate(device)).collect::<Result<_>>()?;
    Ok((inputs, workspace))
}

/// Copies inputs from the host, f32 in NCHW, to where a plan reads them.
///
/// # Errors
/// [`Error::Inputs`] if there are more or fewer than planned, [`Error::Shape`] if they have other shapes.
pub(crate) fn copy_inputs(stream: &Stream, from: &[&Tensor], to: &mut [Tensor]) -> Result<()> {
    if from.len() != to.len() {
        return Err(Error::Inputs { model: "plan", expected: to.len(), found: from.len() });
    }
    for (x, input) in from.iter().zip(to) {
        x.expect_shape("the planned input", input.shape())?;
        stream.memcpy_htod(x.as_slice()?, input.buffer_mut()?)?;
    }
    Ok(())
}

/// Tensors as the inputs of a pass.
pub(crate) fn given<'p>(pass: &'p Flow, inputs: &'p [Tensor]) -> Vec<Flowing<'p>> {
    inputs.iter().map(|input| Flowing::given(pass, input)).collect()
}

/// The memory of a pass's outputs.
///
/// # Errors
/// As [`Flowing::own`](Value::own).
pub(crate) fn owned(outputs: Vec<Flowing<'_>>) -> Result<Vec<Intermediate>> {
    outputs.into_iter().map(Flowing::own).collect()
}

/// A value of a pass. Phase 3's type, so that its layers can work on it.
pub type Flowing<'p> = Value<'p, Unfused>;

/// A pass in which launches request memory for their results.
pub type Flow = Pass;
