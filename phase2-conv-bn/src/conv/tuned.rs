//! The choice among the steps.

use common::prelude::*;
use common::reference::Conv2dParams;

use super::step06_implicit_tiled::ImplicitTiled;
use super::step07_winograd::{self, Prepared, Winograd};
use super::{Algorithm, Call, Conv, step05_implicit, step06_implicit_tiled};

/// The step that is fastest for each shape, by a model of times measured on an H200: a step's time a block, and what a block
/// takes beside its steps, for each tile of step 6 and for Winograd's step 7. Windows that neither takes, and GPUs before compute
/// capability 8.0, get step 5.
#[derive(Debug)]
pub struct Tuned {
    /// Steps 6 and 7, where the GPU has `cp.async`.
    fast: Option<(ImplicitTiled, Winograd)>,
    any: Conv,
}

impl Tuned {
    /// Loads the steps that it chooses from.
    ///
    /// # Errors
    /// As [`super::Step::load`].
    pub fn load(device: &Device) -> Result<Tuned> {
        let any = step05_implicit::STEP.load(device)?;
        let fast = match ImplicitTiled::load(device, step06_implicit_tiled::STEP.source()) {
            Ok(tiled) => Some((tiled, Winograd::load(device, step07_winograd::STEP.source())?)),
            Err(error) if error.is_unsupported() => None,
            Err(error) => return Err(error),
        };
        Ok(Tuned { fast, any })
    }

    /// [`Conv::launch`] of the step for this shape.
    ///
    /// # Errors
    /// As [`Conv::launch`].
    pub fn launch(
        &self,
        stream: &Stream,
        input: &Tensor,
        weight: &Tensor,
        bias: Option<&Tensor>,
        params: Conv2dParams,
        output: &mut Tensor,
    ) -> Result<()> {
        let call = Call::new(stream, input, weight, bias, params, output)?;
        let geometry = call.geometry;
        if geometry.outputs == 0 {
            return Ok(());
        }
        match &self.fast {
            Some((tiled, winograd))
                if step07_winograd::fits(&geometry) && winograd.time(&geometry, false) < tiled.time(&geometry) =>
            {
                winograd.queue(call)
            }
            Some((tiled, _)) if ImplicitTiled::takes(&geometry) => tiled.queue(call),
            _ => self.any.algorithm.queue(call),
        }
    }

    /// Transforms `weight` once for many launches with it; `None` if no step has a use for that.
    ///
    /// # Errors
    /// As [`Winograd::prepare`].
    pub fn prepare(&self, stream: &Stream, weight: &Tensor) -> Result<Option<Prepared>> {
        let Some((_, winograd)) = &self.fast else { return Ok(None) };
        match winograd.prepare(stream, weight) {
            Ok(prepared) => Ok(Some(prepared)),
            Err(error) if error.is_unsupported() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// [`Tuned::launch`] where `prepared` is what [`Tuned::prepare`] made of `weight`.
    ///
    /// # Errors
    /// As [`Tuned::launch`]; [`Error::Shape`] if `weight` has not the shape of what was prepared.
    #[expect(clippy::too_many_arguments, reason = "those of `Tuned::launch`, and what was prepared")]
    pub fn launch_prepared(
        &self,
        stream: &Stream,
        input: &Tensor,
        weight: &Tensor,
        prepared: Option<&Prepared>,
        bias: Option<&Tensor>,
        params: Conv2dParams,
        output: &mut Tensor,
    ) -> Result<()> {
        let geometry = Call::new(stream, input, weight, bias, params, output)?.geometry;
        match (&self.fast, prepared) {
            (Some((tiled, winograd)), Some(prepared))
                if step07_winograd::fits(&geometry) && winograd.time(&geometry, true) < tiled.time(&geometry) =>
            {
                winograd.launch_prepared(stream, input, weight, prepared, bias, params, output)
            }
            _ => self.launch(stream, input, weight, bias, params, output),
        }
    }
}
