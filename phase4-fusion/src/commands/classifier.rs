//! Phase 3's `classify` and `evaluate` by a plan.

use common::prelude::*;
use common::table::Table;
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

/// A network as a plan, over batches most of which are of one size.
#[derive(Debug)]
pub struct Planned<'a> {
    device: &'a Device,
    config: Config,
    parameters: &'a Parameters,
    arithmetic: Arithmetic,
    /// In int8, by the first images.
    scales: Option<Scales>,
    /// For the shape of the last images.
    runner: Option<Runner>,
}

impl<'a> Planned<'a> {
    /// Passes of a network with these parameters.
    pub fn new(device: &'a Device, config: Config, parameters: &'a Parameters, arithmetic: Arithmetic) -> Planned<'a> {
        Planned { device, config, parameters, arithmetic, scales: None, runner: None }
    }

    /// In int8 the first images are the calibration.
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

/// `classify` with a plan in this arithmetic.
///
/// # Errors
/// As [`classify_by`].
pub fn classify(device: &Device, args: &ClassifyArgs, arithmetic: Arithmetic) -> phase3_all_layers::Result<Table> {
    let (photos, parameters) = (args.photos()?, parameters(args.weights.as_deref())?);
    let mut planned = Planned::new(device, Config::RESNET18, &parameters, arithmetic);
    let title = format!("ResNet18 in {arithmetic} on {}", device.short_name());
    classify_by(&mut planned, &parameters, &photos, title, args.weights.is_some())
}

/// `evaluate` with a plan in this arithmetic.
///
/// # Errors
/// As [`evaluate_by`].
pub fn evaluate(device: &Device, args: &EvaluateArgs, arithmetic: Arithmetic) -> phase3_all_layers::Result<Table> {
    let parameters = args.parameters()?;
    let mut planned = Planned::new(device, Config::RESNET18, &parameters, arithmetic);
    let found = evaluate_by(&mut planned, Config::RESNET18, &parameters, &args.folder, args.options())?;
    Ok(found.table(args.title(format_args!("{} in {arithmetic}", device.short_name()))))
}

/// The network that was trained on handwritten digits over the test set, in this arithmetic.
///
/// # Errors
/// As [`Digits::built_in`], [`digits::trained`] and [`Runner::infer`].
pub fn digits(device: &Device, arithmetic: Arithmetic) -> Result<Outcome> {
    let parameters = digits::trained()?;
    let mut planned = Planned::new(device, digits::CONFIG, &parameters, arithmetic);
    Digits::built_in()?.evaluate(|images| planned.infer(images))
}
