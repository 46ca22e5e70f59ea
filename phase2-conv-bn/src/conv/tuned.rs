//! The choice among the steps.

use common::prelude::*;
use common::reference::Conv2dParams;

use super::step16_tuned::{self, ImplicitTiled};
use super::step17_winograd::{self, Prepared, Winograd};
use super::step19_winograd_4x4::{self, Winograd4x4};
use super::{Algorithm, BIAS_ALONE, Call, Conv, Geometry, Step, processors, step05_implicit, unsupported, with_bias};
use crate::gemm::{Epilogue, Scalars};

/// The fastest step for each shape, by a model of times measured on an H200: the time per step of a block and a block's fixed
/// cost, for each tile of step 16 and for Winograd's steps 17 and 19. Windows that none of them takes, and GPUs before compute
/// capability 8.0, get step 5.
#[derive(Debug)]
pub struct Tuned {
    /// Steps 16, 17 and 19, where the GPU has `cp.async`.
    fast: Option<Fast>,
    any: Conv,
    processors: usize,
}

#[derive(Debug)]
struct Fast {
    tiled: ImplicitTiled,
    winograd: Winograd,
    winograd_4x4: Winograd4x4,
}

/// The kernels that [`Tuned`] has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChosenKernel {
    /// Step 5, which takes every shape.
    Implicit,
    /// A tile of step 16.
    Tiled,
    /// Step 17.
    Winograd,
    /// A tile of step 19.
    Winograd4x4,
}

/// The kernel for a shape, where the GPU has `cp.async`.
#[derive(Clone, Debug)]
pub struct Choice {
    /// The kernel.
    pub kernel: ChosenKernel,
    /// The tile of [`step16_tuned::TILES`] or [`step19_winograd_4x4::TILES`], if it is one of those steps.
    pub tile: Option<&'static str>,
    /// Number of blocks among which the taps of a tile of the output, or the channels of a tile of a product, are cut.
    pub cuts: usize,
    /// Time that the model expects on SMs of an H200, about; `None` where it has nothing to compare.
    pub microseconds: Option<f64>,
}

impl Choice {
    /// The step of the ladder that the kernel is.
    pub fn step(&self) -> Step {
        match self.kernel {
            ChosenKernel::Implicit => step05_implicit::STEP,
            ChosenKernel::Tiled => step16_tuned::STEP,
            ChosenKernel::Winograd => step17_winograd::STEP,
            ChosenKernel::Winograd4x4 => step19_winograd_4x4::STEP,
        }
    }

    /// Choice by the model, for a GPU with this many SMs; `prepared` means that the weights' transform is already done.
    ///
    /// # Errors
    /// [`Error::Shape`], as [`Conv::launch`].
    pub fn new(
        input: &Tensor,
        weight: &Tensor,
        params: Conv2dParams,
        prepared: bool,
        multiprocessors: usize,
    ) -> Result<Choice> {
        let out = params.output_shape(input, weight)?;
        Ok(Choice::of(&Geometry::new(input, weight, params, out)?, prepared, multiprocessors))
    }

    fn of(geometry: &Geometry, prepared: bool, processors: usize) -> Choice {
        let tiled = step16_tuned::estimate(geometry, processors).map(|tiled| Choice {
            kernel: ChosenKernel::Tiled,
            tile: Some(tiled.tile),
            cuts: tiled.cuts.count,
            microseconds: Some(tiled.microseconds),
        });
        let winograd = step17_winograd::estimate(geometry, prepared, processors).map(|(cuts, time)| Choice {
            kernel: ChosenKernel::Winograd,
            tile: None,
            cuts: cuts.count,
            microseconds: Some(time),
        });
        let winograd_4x4 = step19_winograd_4x4::estimate(geometry, processors).map(|plan| Choice {
            kernel: ChosenKernel::Winograd4x4,
            tile: Some(plan.tile),
            cuts: plan.cuts.count,
            microseconds: Some(plan.microseconds),
        });
        let expected = |choice: &Choice| choice.microseconds.unwrap_or(f64::INFINITY);
        let choices = [tiled, winograd, winograd_4x4].into_iter().flatten();
        choices.min_by(|a, b| expected(a).total_cmp(&expected(b))).unwrap_or(Choice {
            kernel: ChosenKernel::Implicit,
            tile: None,
            cuts: 1,
            microseconds: None,
        })
    }
}

impl Tuned {
    /// The kernel files of the steps that it chooses from, for [`Device::load_ahead`].
    pub fn sources() -> impl Iterator<Item = &'static KernelSource> {
        static STEPS: &[Step] =
            &[step05_implicit::STEP, step16_tuned::STEP, step17_winograd::STEP, step19_winograd_4x4::STEP];
        STEPS.iter().map(|step| &step.source)
    }

    /// Loads the steps that it chooses from.
    ///
    /// # Errors
    /// Same as [`super::Step::load`].
    pub fn load(device: &Device) -> Result<Tuned> {
        device.load_ahead(Tuned::sources());
        let any = step05_implicit::STEP.load(device)?;
        let fast = match ImplicitTiled::load(device, &step16_tuned::STEP.source) {
            Ok(tiled) => Some(Fast {
                tiled,
                winograd: Winograd::load(device, &step17_winograd::STEP.source)?,
                winograd_4x4: Winograd4x4::load(device, &step19_winograd_4x4::STEP.source)?,
            }),
            Err(error) if error.is_unsupported() => None,
            Err(error) => return Err(error),
        };
        Ok(Tuned { fast, any, processors: processors(device) })
    }

    /// Bytes of the workspaces that launches have needed so far.
    pub fn workspace_bytes(&self) -> usize {
        self.fast.as_ref().map_or(0, |Fast { tiled, winograd, winograd_4x4 }| {
            tiled.held_bytes() + winograd.held_bytes() + winograd_4x4.held_bytes()
        })
    }

    /// [`Conv::launch`] of the step for this shape.
    ///
    /// # Errors
    /// Same as [`Conv::launch`].
    pub fn launch(
        &self,
        stream: &Stream,
        input: &Tensor,
        weight: &Tensor,
        bias: Option<&Tensor>,
        params: Conv2dParams,
        output: &mut Tensor,
    ) -> Result<()> {
        self.launch_prepared(stream, input, weight, None, &with_bias(bias), params, output)
    }

    /// Transforms `weight` once for many launches with it and `params`; `None` if no step uses it.
    ///
    /// # Errors
    /// Same as [`Winograd::prepare`].
    pub fn prepare(&self, stream: &Stream, weight: &Tensor, params: Conv2dParams) -> Result<Option<Prepared>> {
        let Some(Fast { winograd, .. }) = &self.fast else { return Ok(None) };
        match winograd.prepare(stream, weight, params) {
            Ok(prepared) => Ok(Some(prepared)),
            Err(error) if error.is_unsupported() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// [`Conv::launch_with`] of the step for this shape, where `prepared` comes from [`Tuned::prepare`] with `weight`.
    ///
    /// # Errors
    /// Same as [`Conv::launch_with`]; [`Error::Shape`] if `weight` does not have the shape of the prepared one.
    #[expect(clippy::too_many_arguments, reason = "those of `Conv::launch_with`, and what was prepared")]
    pub fn launch_prepared(
        &self,
        stream: &Stream,
        input: &Tensor,
        weight: &Tensor,
        prepared: Option<&Prepared>,
        epilogue: &Epilogue<'_>,
        params: Conv2dParams,
        output: &mut Tensor,
    ) -> Result<()> {
        if let Some(prepared) = prepared {
            prepared.expect_made_of(weight)?;
        }
        let Some(call) = Call::new(stream, input, weight, epilogue, params, output)? else { return Ok(()) };
        let Some(Fast { tiled, winograd, winograd_4x4 }) = &self.fast else { return self.any(call) };
        match (Choice::of(&call.geometry, prepared.is_some(), self.processors).kernel, prepared) {
            (ChosenKernel::Winograd, Some(prepared)) => winograd.queue_prepared(call, prepared),
            (ChosenKernel::Winograd, None) => winograd.queue(call),
            (ChosenKernel::Winograd4x4, _) => winograd_4x4.queue(call),
            (ChosenKernel::Tiled, _) => tiled.queue(call),
            (ChosenKernel::Implicit, _) => self.any(call),
        }
    }

    /// Runs the step that takes every shape, but supports only a bias.
    fn any(&self, call: Call<'_>) -> Result<()> {
        if call.scalars != Scalars::from(&Epilogue::default()) {
            return Err(unsupported(call.stream, self.any.name, BIAS_ALONE));
        }
        self.any.algorithm.queue(call)
    }

    /// Choice of [`Tuned::launch_prepared`] for such a convolution with an epilogue of more than a bias.
    ///
    /// # Errors
    /// [`Error::Unsupported`] if no step supports that; otherwise same as [`Choice::new`].
    pub fn choice(
        &self,
        stream: &Stream,
        input: &Tensor,
        weight: &Tensor,
        params: Conv2dParams,
        prepared: bool,
    ) -> Result<Choice> {
        let choice = Choice::new(input, weight, params, prepared, self.processors)?;
        match &self.fast {
            Some(_) if choice.kernel != ChosenKernel::Implicit => Ok(choice),
            _ => Err(unsupported(stream, self.any.name, BIAS_ALONE)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::shapes::{Shape, shape};
    use super::*;

    fn choice(shape: Shape, prepared: bool) -> Result<(u32, bool)> {
        let (x, w) = (Tensor::zeros(&shape.input()), Tensor::zeros(&shape.weight()));
        let choice = Choice::new(&x, &w, shape.params(), prepared, 132)?;
        let number = choice.step().number;
        assert_eq!(choice.tile.is_some(), [16, 19].contains(&number));
        assert_eq!(choice.microseconds.is_some(), number != 5);
        Ok((number, choice.cuts > 1))
    }

    #[test]
    fn the_choice_is_by_window_and_size_and_whether_weights_are_prepared() -> Result<()> {
        // A large 3×3; other windows; small ones of 3×3, the second cut, since it has more weights than its transform pays for.
        assert_eq!(choice(shape(64, 64, 3, 1, 56).images(32), false)?, (19, false));
        assert_eq!(choice(shape(64, 128, 3, 2, 56).images(32), false)?, (16, false));
        assert_eq!(choice(shape(3, 64, 7, 2, 224).images(32), false)?, (16, false));
        assert_eq!(choice(shape(64, 64, 3, 1, 56), false)?, (19, false));
        assert_eq!(choice(shape(256, 256, 3, 1, 14), false)?, (16, true));
        assert_eq!(choice(shape(256, 256, 3, 1, 14), true)?, (17, true));
        // Windows beyond the table's bits.
        assert_eq!(choice(shape(1, 1, 17, 1, 20), false)?, (5, false));
        Ok(())
    }
}
