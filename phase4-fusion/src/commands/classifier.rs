//! Phase 3's `classify` and `evaluate` by a plan.

use bench::table::Table;
use common::prelude::*;
use phase3_all_layers::commands::classifier::Classifier;
use phase3_all_layers::commands::classify::{ClassifyArgs, classify_by, parameters};
use phase3_all_layers::commands::evaluate::{EvaluateArgs, evaluate_by};
use phase3_all_layers::data::digits::{Digits, Outcome};
use phase3_all_layers::digits;
use phase3_all_layers::models::resnet::Config;
use phase3_all_layers::nn::Parameters;

use super::resnet18::{plan, plan_in_bytes};
use crate::models::Arithmetic;
use crate::models::int8::Scales;
use crate::models::plan::Plan;
use crate::models::runner::Runner;
use crate::parallel::replicas::Replicas;

/// A network as a plan, over batches most of which have one size.
#[derive(Debug)]
pub struct Planned<'a> {
    device: &'a Device,
    config: Config,
    parameters: &'a Parameters,
    arithmetic: Arithmetic,
    /// Steps for int8, from the first images.
    scales: Option<Scales>,
    /// Runner for the shape of the last images.
    runner: Option<Runner>,
}

impl<'a> Planned<'a> {
    /// Passes of a network with these parameters.
    pub fn new(device: &'a Device, config: Config, parameters: &'a Parameters, arithmetic: Arithmetic) -> Planned<'a> {
        Planned { device, config, parameters, arithmetic, scales: None, runner: None }
    }

    /// The plan; in int8 the first images are the calibration.
    fn plan(&mut self, images: &Tensor) -> Result<Plan> {
        let Planned { device, config, parameters, arithmetic, .. } = *self;
        if arithmetic != Arithmetic::Int8 {
            return plan(device, config, parameters, arithmetic, images.shape());
        }
        let scales = match self.scales.take() {
            Some(scales) => scales,
            None => Scales::calibrate(config, parameters, images)?,
        };
        plan_in_bytes(device, config, parameters, self.scales.insert(scales), images.shape())
    }

    fn infer(&mut self, images: &Tensor) -> Result<Tensor> {
        // What was planned for another shape gives its memory back first.
        let runner = match self.runner.take_if(|runner| runner.plan().input_shape() == images.shape()) {
            Some(runner) => self.runner.insert(runner),
            None => {
                self.runner = None;
                let plan = self.plan(images)?;
                self.runner.insert(Runner::new(self.device, plan)?)
            }
        };
        runner.infer(&self.device.stream(), images)
    }
}

impl Classifier for Planned<'_> {
    fn logits(&mut self, images: &Tensor) -> Result<Vec<f32>> {
        self.infer(images)?.into_vec()
    }
}

/// A network as plans on several devices, each of which takes a share of a batch.
#[derive(Debug)]
pub struct Shared<'a> {
    group: &'a DeviceGroup,
    config: Config,
    parameters: &'a Parameters,
    arithmetic: Arithmetic,
    /// Steps for int8, from the first images.
    scales: Option<Scales>,
    /// The number of images of a share, and the networks for that many.
    replicas: Option<(usize, Replicas)>,
}

impl<'a> Shared<'a> {
    /// Passes of a network with these parameters.
    pub fn new(
        group: &'a DeviceGroup,
        config: Config,
        parameters: &'a Parameters,
        arithmetic: Arithmetic,
    ) -> Shared<'a> {
        Shared { group, config, parameters, arithmetic, scales: None, replicas: None }
    }

    /// The networks for shares of a batch like this one. Smaller batches reuse them.
    fn replicas(&mut self, images: &Tensor) -> Result<&mut (usize, Replicas)> {
        let Shared { group, config, parameters, arithmetic, .. } = *self;
        let share = images.shape()[0].div_ceil(group.len());
        let replicas = match self.replicas.take_if(|(planned, _)| *planned >= share) {
            Some(replicas) => replicas,
            None => {
                if arithmetic == Arithmetic::Int8 && self.scales.is_none() {
                    self.scales = Some(Scales::calibrate(config, parameters, images)?);
                }
                let shape = [&[share], &images.shape()[1..]].concat();
                let scales = &self.scales;
                let plan = |device: &Device| match scales {
                    Some(scales) => plan_in_bytes(device, config, parameters, scales, &shape),
                    None => plan(device, config, parameters, arithmetic, &shape),
                };
                (share, Replicas::new(group, 1, plan)?)
            }
        };
        Ok(self.replicas.insert(replicas))
    }
}

impl Classifier for Shared<'_> {
    fn logits(&mut self, images: &Tensor) -> Result<Vec<f32>> {
        let (values, count) = (images.as_slice()?, images.shape()[0]);
        let each = values.len() / count.max(1);
        let classes = self.config.classes;
        let (share, replicas) = self.replicas(images)?;
        let share = *share;
        let mut logits = Vec::with_capacity(count * classes);
        let fill = |batch: usize, inputs: &mut [&mut PinnedBuffer<f32>]| {
            let here = &values[batch * share * each..((batch + 1) * share).min(count) * each];
            // The rest of the last share is what was there before: nobody looks at what becomes of it.
            inputs[0].as_mut_slice()?[..here.len()].copy_from_slice(here);
            Ok(())
        };
        replicas.run(count.div_ceil(share), fill, |_, found| {
            let missing = count * classes - logits.len();
            logits.extend_from_slice(&found[..found.len().min(missing)]);
            Ok(())
        })?;
        Ok(logits)
    }
}

/// `classify` with a plan in this arithmetic.
///
/// # Errors
/// Same as [`classify_by`].
pub fn classify(device: &Device, args: &ClassifyArgs, arithmetic: Arithmetic) -> phase3_all_layers::Result<Table> {
    let (photos, parameters) = (args.photos()?, parameters(args.weights.as_deref())?);
    let mut planned = Planned::new(device, Config::RESNET18, &parameters, arithmetic);
    let title = format!("ResNet18 in {arithmetic} on {}", device.short_name());
    classify_by(&mut planned, &parameters, &photos, title, args.weights.is_some())
}

/// `evaluate` with a plan in this arithmetic, on each device of a group; a batch is divided among them.
///
/// # Errors
/// Same as [`evaluate_by`].
pub fn evaluate(group: &DeviceGroup, args: &EvaluateArgs, arithmetic: Arithmetic) -> phase3_all_layers::Result<Table> {
    let parameters = args.parameters()?;
    let (config, options) = (Config::RESNET18, args.options());
    let (found, on) = match group.devices() {
        [device] => {
            let mut planned = Planned::new(device, config, &parameters, arithmetic);
            (evaluate_by(&mut planned, config, &parameters, &args.folder, options)?, device.short_name())
        }
        _ => {
            let mut shared = Shared::new(group, config, &parameters, arithmetic);
            (evaluate_by(&mut shared, config, &parameters, &args.folder, options)?, group.describe())
        }
    };
    Ok(found.table(args.title(format_args!("{on} in {arithmetic}"))))
}

/// The network that was trained on handwritten digits over the test set, in this arithmetic.
///
/// # Errors
/// Same as [`Digits::built_in`], [`digits::trained`] and [`Runner::infer`].
pub fn digits(device: &Device, arithmetic: Arithmetic) -> Result<Outcome> {
    let parameters = digits::trained()?;
    let mut planned = Planned::new(device, digits::CONFIG, &parameters, arithmetic);
    Digits::built_in()?.evaluate(|images| planned.infer(images))
}
