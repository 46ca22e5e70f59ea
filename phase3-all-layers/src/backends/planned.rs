//! Networks on a device, with the memory that their passes need.

use std::sync::{Mutex, PoisonError};

use common::prelude::*;

use super::device::Unfused;
use super::workspace::{Share, Workspace};
use crate::nn::{Grain, Module, Value};

/// One pass over `x` from the host, and the result there; for more than one of a shape there is [`Planned`].
///
/// # Errors
/// As [`Planned::new`] and [`Planned::infer`].
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
    /// As [`Workspace::plan`].
    pub fn new(device: &Device, module: &'a M, input: &[usize]) -> Result<Planned<'a, M>> {
        let shape = Tensor::shape_only(input);
        let workspace = Workspace::plan(device, |pass| module.forward(Value::given(pass, &shape)).map(drop))?;
        Ok(Planned { module, input: Tensor::empty_on(device, input)?, workspace })
    }

    /// A pass with its two copies: `x` from the host, and the result to it.
    ///
    /// # Errors
    /// [`Error::Shape`] if `x` does not have the planned shape; those of the pass.
    pub fn infer(&mut self, stream: &Stream, x: &Tensor) -> Result<Tensor> {
        self.observe(stream, x, |_, _| ())
    }

    /// [`Planned::infer`], where `observe` is told the name and the output of each block, on the device. It must copy what it wants
    /// to keep.
    ///
    /// # Errors
    /// As there.
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

    /// Queues a pass over the previous input, with no copy: for measurements.
    ///
    /// # Errors
    /// Those of the pass.
    pub fn queue(&mut self, stream: &Stream) -> Result<()> {
        self.workspace.run(stream, |pass| self.module.forward(Value::given(pass, &self.input)).map(drop))
    }

    /// What each kind of layer takes of such a pass.
    ///
    /// # Errors
    /// As [`Workspace::profile`].
    pub fn profile(&mut self, stream: &Stream) -> Result<Vec<Share>> {
        self.workspace.profile(stream, |pass| self.module.forward(Value::given(pass, &self.input)).map(drop))
    }

    /// The activations' memory.
    pub fn workspace(&self) -> &Workspace {
        &self.workspace
    }
}
