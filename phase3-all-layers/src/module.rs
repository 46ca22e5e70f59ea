//! How layers compose: what makes one activation of another is a [`Module`], a layer and a whole network alike.

use std::fmt::Debug;

use common::prelude::*;

use crate::workspace::{Activation, Pass, Share, Workspace};

/// Makes an activation of a tensor. Its parameters and kernels are on a device already.
pub trait Module: Debug {
    /// Queues the work on `pass`; `x` is on its device, or a shape alone while the pass is planned.
    ///
    /// # Errors
    /// [`Error::Shape`] if `x` does not fit; what launches report.
    fn forward(&self, pass: &Pass<'_>, x: &Tensor) -> Result<Activation>;
}

/// One pass over `x` from the host, and the result there; for more than one of a shape there is [`Planned`].
///
/// # Errors
/// As [`Planned::new`] and [`Planned::infer`].
pub fn infer(stream: &Stream, module: &impl Module, x: &Tensor) -> Result<Tensor> {
    Planned::new(stream.device(), module, x.shape())?.infer(stream, x)
}

/// A module with the workspace for inputs of one shape.
#[derive(Debug)]
pub struct Planned<'a, M> {
    module: &'a M,
    input: Tensor,
    workspace: Workspace,
}

impl<'a, M: Module> Planned<'a, M> {
    /// Plans passes over inputs of this shape.
    ///
    /// # Errors
    /// As [`Workspace::plan`].
    pub fn new(device: &Device, module: &'a M, input: &[usize]) -> Result<Planned<'a, M>> {
        let shape = Tensor::shape_only(input);
        let workspace = Workspace::plan(device, |pass| module.forward(pass, &shape).map(drop))?;
        Ok(Planned { module, input: Tensor::empty_on(device, input)?, workspace })
    }

    /// A pass with its two copies: `x` from the host, and the result to it.
    ///
    /// # Errors
    /// [`Error::Shape`] if `x` has not the planned shape; those of the pass.
    pub fn infer(&mut self, stream: &Stream, x: &Tensor) -> Result<Tensor> {
        x.expect_shape("the planned input", self.input.shape())?;
        stream.memcpy_htod(x.as_slice()?, self.input.buffer_mut()?)?;
        self.workspace.run(stream, |pass| {
            let y = self.module.forward(pass, &self.input)?;
            Tensor::from_vec(y.shape(), stream.clone_dtoh(y.buffer()?)?)
        })
    }

    /// Queues a pass over the input of before, with no copy: for measurements.
    ///
    /// # Errors
    /// Those of the pass.
    pub fn queue(&mut self, stream: &Stream) -> Result<()> {
        self.workspace.run(stream, |pass| self.module.forward(pass, &self.input).map(drop))
    }

    /// What each kind of layer takes of such a pass.
    ///
    /// # Errors
    /// As [`Workspace::profile`].
    pub fn profile(&mut self, stream: &Stream) -> Result<Vec<Share>> {
        self.workspace.profile(stream, |pass| self.module.forward(pass, &self.input).map(drop))
    }

    /// The activations' memory.
    pub fn workspace(&self) -> &Workspace {
        &self.workspace
    }
}
