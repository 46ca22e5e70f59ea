//! [`Reliable`]: the autoencoder on a device, and on the CPU wherever the device fails.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use common::prelude::*;

use super::cpu::{Cpu, OnHost};
use super::device::Unfused;
use super::planned::Planned;
use crate::layers::kinds;
use crate::models::autoencoder::{Autoencoder, Config, Stage, StageLayers, through_stages};
use crate::nn::{Module, Parameters, Scope, Value};

/// The autoencoder on a device. A stage that cannot be loaded or queued there runs on the CPU; the first time, a warning goes to
/// standard error and to [`Reliable::warnings`].
#[derive(Debug)]
pub struct Reliable {
    cpu: Cpu,
    on_cpu: Autoencoder<Cpu>,
    /// In the order of [`Stage::ALL`].
    stages: [Result<StageLayers<Unfused>>; 5],
    /// By stage; `None` stands for a whole pass.
    warnings: Mutex<BTreeMap<Option<Stage>, String>>,
}

impl Reliable {
    /// Loads the model.
    ///
    /// # Errors
    /// Same as [`Parameters::get`].
    pub fn load(backend: &Unfused, config: Config, parameters: &Parameters) -> Result<Reliable> {
        let cpu = Cpu::new();
        let on_cpu = Autoencoder::load(&cpu, config, parameters)?;
        let scope = Scope::new(backend, parameters);
        let stages = Stage::ALL.map(|stage| StageLayers::new(&scope, config, stage));
        Ok(Reliable { cpu, on_cpu, stages, warnings: Mutex::default() })
    }

    /// One stage as a module, from a tensor of [`Stage::input_shape`] to one of [`Stage::output_shape`].
    pub fn only(&self, stage: Stage) -> OneStage<'_> {
        OneStage { model: self, stage }
    }

    /// Stages that run on the CPU because the device failed, and why.
    pub fn warnings(&self) -> Vec<String> {
        self.warnings.lock().unwrap_or_else(PoisonError::into_inner).values().cloned().collect()
    }

    /// Passes over batches of this size, with memory that is planned once. Their input is \[B·F, M\], and so is their output.
    ///
    /// # Errors
    /// Same as [`Planned::new`].
    pub fn plan(&self, device: &Device, batch: usize) -> Result<Planned<'_, Reliable>> {
        Planned::new(device, self, &Stage::SliceEncoding.input_shape(self.on_cpu.config(), batch))
    }

    /// The reconstruction \[B, F·M\] of `x` \[B, F·M\], both on the host. A pass that fails on the device as a whole, such as one
    /// in which a kernel faults after it was queued, is repeated on the CPU, with a warning.
    ///
    /// # Errors
    /// [`Error::Shape`] if `x` has another shape, [`Error::OutOfMemory`] if the device does not have enough for the batch.
    pub fn reconstruct(&self, stream: &Stream, x: &Tensor) -> Result<Tensor> {
        let slices = self.on_cpu.config().slices(x)?;
        let mut planned = Planned::new(stream.device(), self, slices.shape())?;
        let pass = planned.infer(stream, &slices);
        self.or_on_cpu(pass, &slices)?.reshape(x.shape())
    }

    /// The result of a pass over `slices`, or the CPU's if the pass failed.
    fn or_on_cpu(&self, pass: Result<Tensor>, slices: &Tensor) -> Result<Tensor> {
        pass.or_else(|error| {
            self.warn(None, &error);
            self.cpu.infer(&self.on_cpu, slices)
        })
    }

    fn warn(&self, stage: Option<Stage>, error: &Error) {
        let mut warnings = self.warnings.lock().unwrap_or_else(PoisonError::into_inner);
        warnings.entry(stage).or_insert_with(|| {
            let what = stage.map_or("pass", Stage::name);
            let warning = format!("the autoencoder's {what} runs on the CPU, since the device failed: {error}");
            bench::command::warn(&warning);
            warning
        });
    }

    fn stage<'p>(&'p self, stage: Stage, x: Value<'p, Unfused>) -> Result<Value<'p, Unfused>> {
        let batch = stage.batch(self.on_cpu.config(), &x)?;
        let pass = x.pass();
        let (y, failure) = match &self.stages[stage as usize] {
            // The stage leaves its input as it is, for the CPU.
            Ok(layers) => pass.attempt(|| layers.forward(x.clone()))?,
            Err(error) => {
                let y = pass.intermediate(&stage.output_shape(self.on_cpu.config(), batch))?;
                (x.next(y), Some(Error::Invalid(error.to_string())))
            }
        };
        let Some(error) = failure else { return Ok(y) };
        let mut y = y.own()?;
        pass.queue(kinds::ON_CPU, |stream| {
            self.warn(Some(stage), &error);
            let on_host = Tensor::from_vec(x.shape(), stream.clone_dtoh(x.buffer()?)?)?;
            let result = self.cpu.infer(self.on_cpu.only(stage), &on_host)?;
            stream.memcpy_htod(result.as_slice()?, y.buffer_mut()?)
        })?;
        Ok(x.next(y))
    }
}

impl Module<Unfused> for Reliable {
    /// The reconstruction \[B·F, M\] of slices \[B·F, M\].
    fn forward<'p>(&'p self, x: Value<'p, Unfused>) -> Result<Value<'p, Unfused>> {
        through_stages(self.on_cpu.config(), x, |stage, x| self.stage(stage, x))
    }
}

/// A stage of a model on a device, alone.
#[derive(Clone, Copy, Debug)]
pub struct OneStage<'a> {
    model: &'a Reliable,
    stage: Stage,
}

impl Module<Unfused> for OneStage<'_> {
    fn forward<'p>(&'p self, x: Value<'p, Unfused>) -> Result<Value<'p, Unfused>> {
        self.model.stage(self.stage, x)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pass_that_fails_is_repeated_on_the_cpu() {
        let (device, config) = (common::private::sim_for_test(), Config::ORIGINAL);
        let model = Reliable::load(&Unfused::new(&device), config, &config.seeded(5)).unwrap();
        let slices = config.slices(&Tensor::random(&[2, config.inputs()], 1)).unwrap();
        let expected = model.cpu.infer(&model.on_cpu, &slices).unwrap();
        for reason in ["the device is gone", "it is still gone"] {
            let y = model.or_on_cpu(Err(Error::Invalid(reason.to_owned())), &slices).unwrap();
            assert_eq!(y.as_slice().unwrap(), expected.as_slice().unwrap());
        }
        // The first reason is kept.
        let warning = "the autoencoder's pass runs on the CPU, since the device failed: the device is gone";
        assert_eq!(model.warnings(), [warning]);
        // A pass that does not fail is the device's, and warns of nothing.
        let model = Reliable::load(&Unfused::new(&device), config, &config.seeded(5)).unwrap();
        let given = Tensor::zeros(&[1]);
        assert_eq!(model.or_on_cpu(Ok(given), &slices).unwrap().shape(), [1]);
        assert!(model.warnings().is_empty());
    }
}
