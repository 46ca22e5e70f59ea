//! Networks on a device, with the memory that their passes need.

use std::sync::{Mutex, PoisonError};

use common::prelude::*;

use super::device::Unfused;
use super::workspace::{Intermediate, Share, Workspace};
use crate::nn::{Grain, Module, Value};

/// Runs one pass over `x` from the host, and copies the result back; for repeated passes of one shape use [`Planned`].
///
/// # Errors
/// Same as [`Planned::new`] and [`Planned::infer`].
pub fn infer(stream: &Stream, module: &impl Module<Unfused>, x: &Tensor) -> Result<Tensor> {
    Planned::new(stream.device(), module, x.shape())?.infer(stream, x)
}

/// A module with the workspace for inputs of one shape.
#[derive(Debug)]
pub struct Planned<'a, M> {
    module: &'a M,
    input: Tensor,
    workspace: Workspace,
}

impl<'a, M: Module<Unfused>> Planned<'a, M> {
    /// Plans passes over inputs of this shape.
    ///
    /// # Errors
    /// Same as [`Workspace::plan`].
    pub fn new(device: &Device, module: &'a M, input: &[usize]) -> Result<Planned<'a, M>> {
        let shape = Tensor::shape_only(input);
        let workspace = Workspace::plan(device, |pass| module.forward(Value::given(pass, &shape)).map(drop))?;
        Ok(Planned { module, input: Tensor::empty_on(device, input)?, workspace })
    }

    /// A pass with its two copies: `x` from the host, and the result to it.
    ///
    /// # Errors
    /// [`Error::Shape`] if `x` does not have the planned shape; errors of the pass.
    pub fn infer(&mut self, stream: &Stream, x: &Tensor) -> Result<Tensor> {
        self.observe(stream, x, |_, _| ())
    }

    /// [`Planned::infer`], with `observe` called with the name and the output of each block, on the device. It must copy what it
    /// wants to keep.
    ///
    /// # Errors
    /// Same as there.
    pub fn observe(
        &mut self,
        stream: &Stream,
        x: &Tensor,
        observe: impl FnMut(&str, &Tensor) + Send,
    ) -> Result<Tensor> {
        x.expect_shape("the planned input", self.input.shape())?;
        stream.memcpy_htod(x.as_slice()?, self.input.buffer_mut()?)?;
        let observe = Mutex::new(observe);
        let observe = |name: &str, y: &Tensor| observe.lock().unwrap_or_else(PoisonError::into_inner)(name, y);
        self.workspace.run(stream, |pass| {
            let y = self.module.forward(Value::given(pass, &self.input).observed_by(Grain::Block, &observe))?;
            Tensor::from_vec(y.shape(), stream.clone_dtoh(y.buffer()?)?)
        })
    }

    /// Input of the next [`Planned::queue`]: on the device, in the planned shape.
    pub fn input_mut(&mut self) -> &mut Tensor {
        &mut self.input
    }

    /// Queues a pass over the current input, with no copy: for measurements.
    ///
    /// # Errors
    /// Errors of the pass.
    pub fn queue(&mut self, stream: &Stream) -> Result<()> {
        self.workspace.run(stream, |pass| self.module.forward(Value::given(pass, &self.input)).map(drop))
    }

    /// The pass as a graph, which is queued with one launch. Runs it once first, so that all kernels are loaded and their shared
    /// memory is allocated: launches of the graph allocate nothing.
    ///
    /// # Errors
    /// Errors of the pass; [`Error::Capture`] if it does something that a graph cannot hold; same as [`Graph::instantiate`].
    pub fn capture(&mut self, stream: &Stream) -> Result<Captured<'_>> {
        self.queue(stream)?;
        let Planned { module, input, workspace } = self;
        let mut output = None;
        let graph = stream.capture(|stream| {
            output = Some(workspace.run(stream, |pass| module.forward(Value::given(pass, input))?.own())?);
            Ok(())
        })?;
        let output = output.ok_or_else(|| Error::Invalid("a pass that was captured has no output".to_owned()))?;
        let exec = graph.instantiate()?;
        Ok(Captured { input, output, graph, exec })
    }

    /// Share of each kind of layer in such a pass.
    ///
    /// # Errors
    /// Same as [`Workspace::profile`].
    pub fn profile(&mut self, stream: &Stream) -> Result<Vec<Share>> {
        self.workspace.profile(stream, |pass| self.module.forward(Value::given(pass, &self.input)).map(drop))
    }

    /// The activations' memory.
    pub fn workspace(&self) -> &Workspace {
        &self.workspace
    }
}

/// A planned pass as a graph.
#[derive(Debug)]
pub struct Captured<'p> {
    input: &'p mut Tensor,
    /// Kept so that its memory stays the output's.
    output: Intermediate,
    graph: Graph,
    exec: GraphExec,
}

impl Captured<'_> {
    /// A pass with its two copies: `x` from the host, one launch, and the result to the host.
    ///
    /// # Errors
    /// [`Error::Shape`] if `x` does not have the planned shape; errors of the pass.
    pub fn infer(&mut self, stream: &Stream, x: &Tensor) -> Result<Tensor> {
        x.expect_shape("the planned input", self.input.shape())?;
        stream.memcpy_htod(x.as_slice()?, self.input.buffer_mut()?)?;
        self.queue(stream)?;
        Tensor::from_vec(self.output.shape(), stream.clone_dtoh(self.output.buffer()?)?)
    }

    /// Queues a pass over the current input, with no copy.
    ///
    /// # Errors
    /// Errors of the pass.
    pub fn queue(&self, stream: &Stream) -> Result<()> {
        self.exec.launch(stream)
    }

    /// Input of the next pass: on the device, in the planned shape.
    pub fn input_mut(&mut self) -> &mut Tensor {
        self.input
    }

    /// Result of a pass, on the device.
    pub fn output(&self) -> &Tensor {
        &self.output
    }

    /// Graph of a launch.
    pub fn graph(&self) -> &Graph {
        &self.graph
    }
}
