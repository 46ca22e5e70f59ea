//! Every step of the three ladders on one tensor, each checked before it is counted or timed: the rows of the tables.

use bench::ladder::{self, Cost, Expected, Outcome, StepRun};
use bench::timing::Bench;
use common::check::{Mismatch, Report, compare};
use common::prelude::*;
use common::reference::{self, BatchNorm};

use super::{batch_norm, relu, statistics};
use crate::Step;

const EPS: f32 = 1e-5;

/// \[N, C, H, W\] for tables: on a GPU ResNet18's first BatchNorm over 334 images, which is 2²⁶ values to within a
/// thousandth: far more than any cache holds.
pub fn shape(device: &Device) -> [usize; 4] {
    if device.is_sim() { [16, 64, 28, 28] } else { [334, 64, 56, 56] }
}

/// Operation of a step, and where its result goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Into another tensor.
    BatchNorm,
    /// Into its own input.
    BatchNormInPlace,
    /// Into its own input.
    ReluInPlace,
    /// Mean and variance of each channel.
    Statistics,
}

impl Operation {
    /// Name in tables, read in order: "in place" refers to the rows above, and ReLU is always in place.
    pub fn name(self) -> &'static str {
        match self {
            Operation::BatchNorm => "BatchNorm",
            Operation::BatchNormInPlace => "· in place",
            Operation::ReluInPlace => "ReLU",
            Operation::Statistics => "statistics",
        }
    }

    /// The cost for this number of f32 values: all are read, and all but statistics write as many. Per-channel values are left out.
    pub fn cost(self, values: usize) -> Cost {
        let bytes = match self {
            Operation::Statistics => 4 * values,
            Operation::BatchNorm | Operation::BatchNormInPlace | Operation::ReluInPlace => 8 * values,
        };
        Cost { bytes: bytes as f64, values: values as f64, ..Cost::default() }
    }
}

/// A tensor with the parameters of a layer, on the host, and the expected results of the steps.
#[derive(Debug)]
pub struct Problem {
    input: Tensor,
    parameters: [Tensor; 4],
    normalised: Expected,
    clipped: Expected,
    statistics: reference::Statistics,
}

impl Problem {
    /// An input \[N, C, H, W\] of values in (−1, 1), and a layer's parameters: weights around 1, biases and means around 0,
    /// variances around 2.
    ///
    /// # Errors
    /// [`Error::Shape`] if there are too many values.
    pub fn seeded(shape: [usize; 4]) -> Result<Problem> {
        let input = Tensor::random(&shape, 1);
        let around = |centre: f32, reach: f32, seed| {
            let values = Tensor::random(&shape[1..2], seed).into_vec()?;
            Tensor::from_vec(&shape[1..2], values.into_iter().map(|value| centre + reach * value).collect())
        };
        let parameters = [around(1.0, 0.25, 2)?, around(0.0, 0.25, 3)?, around(0.0, 0.5, 4)?, around(2.0, 1.0, 5)?];
        Ok(Problem {
            normalised: Expected::all(reference::batch_norm(&input, &norm(&parameters))?),
            clipped: Expected::all(reference::relu(&input)?),
            statistics: reference::statistics(&input)?,
            input,
            parameters,
        })
    }

    /// \[N, C, H, W\], on the host.
    pub fn input(&self) -> &Tensor {
        &self.input
    }

    /// Expected result of BatchNorm.
    pub fn normalised(&self) -> &Expected {
        &self.normalised
    }

    /// The layer's parameters on a device, as [`norm`] takes them.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`].
    pub fn parameters(&self, device: &Device) -> Result<[Tensor; 4]> {
        let [weight, bias, mean, variance] = self.parameters.each_ref().map(|part| part.to_device(device));
        Ok([weight?, bias?, mean?, variance?])
    }

    /// Runs every step of every ladder on `device`. `before` is called with the operation and title of each.
    ///
    /// # Errors
    /// Errors of the device.
    pub fn run(&self, device: &Device, bench: &Bench, mut before: impl FnMut(Operation, &str)) -> Result<Vec<Rung>> {
        let stream = device.stream();
        let x = self.input.to_device(device)?;
        let mut y = Tensor::empty_on(device, x.shape())?;
        let parameters = self.parameters(device)?;
        let mut rungs = Vec::new();
        for operation in [Operation::BatchNorm, Operation::BatchNormInPlace] {
            for step in batch_norm::LADDER {
                before(operation, &step.title());
                let layer = step.load(device)?.layer(&stream, &norm(&parameters))?;
                rungs.push(Rung::run(operation, step, device, || match operation {
                    Operation::BatchNormInPlace => {
                        let launch = |y: &mut Tensor| layer.launch_in_place(&stream, y);
                        ladder::run_in_place(&stream, bench, &x, &mut y, &self.normalised, launch)
                    }
                    _ => ladder::run(&stream, bench, &mut y, &self.normalised, |y| layer.launch(&stream, &x, y)),
                })?);
            }
        }
        for step in relu::LADDER {
            before(Operation::ReluInPlace, &step.title());
            let relu = step.load(device)?;
            rungs.push(Rung::run(Operation::ReluInPlace, step, device, || {
                let launch = |y: &mut Tensor| relu.launch_in_place(&stream, y);
                ladder::run_in_place(&stream, bench, &x, &mut y, &self.clipped, launch)
            })?);
        }
        for step in statistics::LADDER {
            before(Operation::Statistics, &step.title());
            rungs.push(Rung::run(Operation::Statistics, step, device, || self.statistics(step, &stream, bench, &x))?);
        }
        Ok(rungs)
    }

    fn statistics(
        &self,
        step: &Step<statistics::Method>,
        stream: &Stream,
        bench: &Bench,
        x: &Tensor,
    ) -> Result<Outcome> {
        let device = stream.device();
        let mut statistics = step.load(device)?;
        let channels = &x.shape()[1..2];
        let mut outputs = [Tensor::empty_on(device, channels)?, Tensor::empty_on(device, channels)?];
        for output in &mut outputs {
            stream.poison(output.buffer_mut()?)?;
        }
        let [of_mean, of_variance] = statistics.tolerances(&self.statistics, &self.input)?;
        let launch = |[mean, variance]: &mut [Tensor; 2]| statistics.launch(stream, x, mean, variance);
        ladder::run_with(stream, bench, &mut outputs, launch, |[mean, variance]| {
            let mean = compare(mean.to_host()?.as_slice()?, &self.statistics.mean, of_mean);
            let variance = compare(variance.to_host()?.as_slice()?, &self.statistics.variance, of_variance);
            let worse = |a: Report, b: Report| if a.max_abs > b.max_abs { a } else { b };
            Ok::<Result<Report, Mismatch>, Error>(mean.and_then(|mean| Ok(worse(mean, variance?))))
        })
    }
}

/// Weight, bias, mean and variance as a layer takes them.
pub fn norm([weight, bias, mean, variance]: &[Tensor; 4]) -> BatchNorm<'_> {
    BatchNorm { weight, bias, mean, variance, eps: EPS }
}

/// A step of a ladder, run.
#[derive(Debug)]
pub struct Rung {
    /// Operation that it computed.
    pub operation: Operation,
    /// `3 vectorised`.
    pub step: String,
    /// Whether it was right, and its time.
    pub run: StepRun,
}

impl Rung {
    fn run<M: Copy>(
        operation: Operation,
        step: &Step<M>,
        device: &Device,
        run: impl FnOnce() -> Result<Outcome>,
    ) -> Result<Rung> {
        Ok(Rung { operation, step: step.title(), run: StepRun::profiled(device, run)? })
    }
}
