//! `precision`: the format of each layer of a model under an error budget, its predicted cost, and its measured behaviour.

use bench::table::{Cell, ColumnSpec, Table, TableBuilder};
use bench::timing::Bench;
use clap::builder::TypedValueParser;
use common::prelude::*;
use phase3_all_layers::backends::{Cpu, OnHost};
use phase3_all_layers::data::digits::{self as data, Digits, Outcome};
use phase3_all_layers::digits;
use phase3_all_layers::models::resnet::{self, ResNet};
use phase3_all_layers::models::unet::{self, INPUTS, UNet};
use phase3_all_layers::nn::Parameters;
use phase3_all_layers::nn::graph::{Graph, Recorder};

use crate::models::Arithmetic;
use crate::models::adaptive::calibrate::relative_error;
use crate::models::adaptive::choose::{explained, in_short};
use crate::models::adaptive::cost::{Costs, Limits};
use crate::models::adaptive::failures::Block;
use crate::models::adaptive::{Calibration, Errors, FORMATS, choose};
use crate::models::int8::WeightSteps;
use crate::models::plan::{Formats, Plan};
use crate::models::runner::Runner;

/// Seeds of untrained parameters, as in the models' own commands.
const RESNET_SEED: u64 = 18;
const UNET_SEED: u64 = 8;
/// Seeds of inputs: for the calibration, and fresh ones for the measurements.
const CALIBRATION: u64 = 19;
const FRESH: u64 = 20;
/// Digits of a calibration: each ten times.
const DIGITS: usize = 100;
/// The batch for which the floor is computed: large enough for a GPU, while the simulator runs a smaller one.
const FLOOR_BATCH: f64 = 4096.0;

/// Choice of the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Model {
    /// The narrow ResNet that was trained on handwritten digits
    Digits,
    /// The same, but with values between two layers that are beyond f16's
    DigitsRange,
    /// The same, but with a filter that is 1024 times as large as the others of its layer
    DigitsOutlier,
    /// ResNet18 with untrained weights
    #[value(name = "resnet18")]
    ResNet18,
    /// The video U-Net with untrained weights, tiny on the simulator and small on a GPU
    #[value(name = "unet")]
    UNet,
}

/// Settings of the plan and its output.
#[derive(Clone, Debug, clap::Args)]
pub struct PrecisionArgs {
    /// Show the format of each layer and why, then the launches
    #[arg(long)]
    explain: bool,
    /// Model to plan
    #[arg(long, default_value = "digits")]
    model: Model,
    /// Error allowed at the output, ‖y − y in f32‖ / ‖y in f32‖
    #[arg(long, value_name = "ERROR", default_value = "1e-3", value_parser = clap::builder::StringValueParser::new().try_map(|text| budget(&text)))]
    error_budget: f64,
}

/// Parses a budget.
fn budget(text: &str) -> Result<f64, String> {
    let number = text.parse::<f64>().ok().filter(|number| *number > 0.0 && *number <= 1.0);
    number.ok_or_else(|| {
        "an error budget is a number above 0 and up to 1, such as 1e-3: a part of the output's length".to_owned()
    })
}

/// A model with inputs of two kinds: for its calibration, and fresh ones.
#[derive(Debug)]
pub struct Subject {
    /// Name in titles.
    pub name: String,
    model: Model,
    parameters: Parameters,
    unet: unet::Config,
    calibration: Vec<Tensor>,
    fresh: Vec<Tensor>,
}

impl Subject {
    /// Makes a model of a size that suits the device: a millisecond on a GPU is an hour on the simulator.
    ///
    /// # Errors
    /// Same as [`digits::trained`].
    pub fn new(device: &Device, model: Model) -> Result<Subject> {
        let on_sim = device.is_sim();
        let unet = if on_sim { unet::Config::TINY } else { unet::Config::SMALL };
        let random = |batch: usize, channels: usize, side: usize, seed: u64| {
            Tensor::random(&[batch, channels, side, side], seed)
        };
        let latents = |batch: usize, side: usize, seed: u64, step: f32| {
            vec![random(batch, INPUTS, side, seed), Tensor::from_fn(&[batch], |at| step + 100.0 * at[0] as f32)]
        };
        let (name, parameters, calibration, fresh) = match (model, on_sim) {
            (Model::Digits | Model::DigitsRange | Model::DigitsOutlier, _) => {
                let fresh = if on_sim { 4 } else { data::BATCH };
                let images = |chosen| Ok::<_, Error>(vec![data::training(chosen)?]);
                let (trained, block) = (digits::trained()?, Block::OF_DIGITS);
                let (name, parameters) = match model {
                    Model::DigitsRange => ("digits, overflow", block.enlarged(&trained, Block::FACTOR)?),
                    Model::DigitsOutlier => ("digits, outlier", block.with_outlier(&trained, Block::OUTLIER)?),
                    _ => ("digits", trained),
                };
                (name.to_owned(), parameters, images(0..DIGITS)?, images(DIGITS..DIGITS + fresh)?)
            }
            (Model::ResNet18, _) => {
                let [side, batch] = if on_sim { [64, 1] } else { [224, 32] };
                let parameters = resnet::Config::RESNET18.seeded(RESNET_SEED);
                let inputs = |batch, seed| vec![random(batch, 3, side, seed)];
                (format!("ResNet18, batch {batch}"), parameters, inputs(2, CALIBRATION), inputs(batch, FRESH))
            }
            (Model::UNet, _) => {
                let ([side, batch], name) = if on_sim { ([8, 1], "tiny") } else { ([32, 2], "small") };
                let parameters = unet.seeded(UNET_SEED);
                let (before, fresh) = (latents(1, side, CALIBRATION, 700.0), latents(batch, side, FRESH, 250.0));
                (format!("U-Net {name}, {side}×{side}"), parameters, before, fresh)
            }
        };
        Ok(Subject { name, model, parameters, unet, calibration, fresh })
    }

    /// The recorded model, for inputs of these shapes.
    fn graph(&self, inputs: &[&[usize]]) -> Result<Graph> {
        match self.model {
            Model::UNet => self.unet.graph(&self.parameters, inputs[0]),
            _ => Graph::record(&ResNet::load(&Recorder, self.resnet(), &self.parameters)?, inputs[0]),
        }
    }

    /// The error that each layer alone causes in each format.
    ///
    /// # Errors
    /// Same as [`Calibration::run`].
    pub fn calibrate(&self, device: &Device) -> Result<Calibration> {
        let inputs: Vec<&Tensor> = self.calibration.iter().collect();
        let shapes: Vec<&[usize]> = inputs.iter().map(|input| input.shape()).collect();
        Calibration::run(device, self.graph(&shapes)?, &inputs)
    }

    /// Costs of layers and conversions: measured on a GPU, otherwise the floor of an H200.
    ///
    /// # Errors
    /// Same as [`Costs::measured`].
    pub fn costs(&self, device: &Device, calibration: &Calibration) -> Result<Costs> {
        let shapes = self.shapes();
        let measured = Costs::measured(device, || self.graph(&shapes), &shapes, calibration)?;
        let batches = FLOOR_BATCH / calibration.images() as f64;
        Ok(measured.unwrap_or_else(|| Costs::floor(calibration, Limits::H200, batches)))
    }

    /// The network, unless it is the U-Net.
    fn resnet(&self) -> resnet::Config {
        if self.model == Model::ResNet18 { resnet::Config::RESNET18 } else { digits::CONFIG }
    }

    /// Whether there are labelled images for it, and time for them: the simulator takes seconds per plan.
    pub fn has_labels(&self, device: &Device) -> bool {
        device.is_cuda() && !matches!(self.model, Model::ResNet18 | Model::UNet)
    }

    /// Fraction of the test set's digits that a plan gets right, 0 to 1, where [`Subject::has_labels`].
    ///
    /// # Errors
    /// Same as [`Subject::answers`].
    pub fn accuracy(&self, device: &Device, formats: &Formats) -> Result<Option<f64>> {
        self.has_labels(device).then(|| Ok(self.answers(device, formats, &Digits::built_in()?)?.accuracy)).transpose()
    }

    /// Outcome of a plan of the digits' network on digits such as the test set.
    ///
    /// # Errors
    /// Same as [`Plan::mixed`] and [`Runner::infer`].
    pub fn answers(&self, device: &Device, formats: &Formats, digits: &Digits) -> Result<Outcome> {
        let mut runner: Option<Runner> = None;
        digits.evaluate(|images| {
            let same = runner.take().filter(|runner| runner.plan().input_shape() == images.shape());
            let fitting = match same {
                Some(same) => same,
                None => {
                    let graph = self.graph(&[images.shape()])?;
                    Runner::new(device, Plan::mixed(device, graph, &[images.shape()], formats)?)?
                }
            };
            runner.insert(fitting).infer(&device.stream(), images)
        })
    }

    /// Shapes of the fresh inputs.
    fn shapes(&self) -> Vec<&[usize]> {
        self.fresh.iter().map(Tensor::shape).collect()
    }

    /// A plan for inputs like the fresh ones.
    ///
    /// # Errors
    /// Same as [`Plan::mixed`].
    pub fn plan(&self, device: &Device, formats: &Formats) -> Result<Plan> {
        let shapes = self.shapes();
        Plan::mixed(device, self.graph(&shapes)?, &shapes, formats)
    }

    /// Output of the model for the fresh inputs in f32, on the CPU.
    ///
    /// # Errors
    /// Errors of the layers.
    pub fn expected(&self) -> Result<Tensor> {
        let (cpu, x) = (Cpu::new(), &self.fresh[0]);
        match self.model {
            Model::UNet => cpu.infer(&UNet::load(&cpu, self.unet, &self.parameters)?.at(self.fresh[1].to_host()?), x),
            _ => cpu.infer(&ResNet::load(&cpu, self.resnet(), &self.parameters)?, x),
        }
    }

    /// Runs formats over the fresh inputs: the error, and the milliseconds of a pass on a GPU.
    ///
    /// # Errors
    /// Same as [`Subject::plan`] and [`Runner::infer_all`].
    pub fn measure(&self, device: &Device, formats: &Formats, expected: &Tensor) -> Result<(f64, Option<f64>)> {
        let stream = device.stream();
        let mut runner = Runner::new(device, self.plan(device, formats)?)?;
        let inputs: Vec<&Tensor> = self.fresh.iter().collect();
        let found = runner.infer_all(&stream, &inputs)?;
        let error = relative_error(found.as_slice()?, expected.as_slice()?)?;
        let ms = if device.is_sim() {
            None
        } else {
            Bench::default().measure(&stream, || runner.queue(&stream))?.median_ms()
        };
        Ok((error, ms))
    }
}

/// A plan of a model, and its results.
#[derive(Clone, Debug)]
pub struct Tried {
    /// Format of all layers, or [`PER_TENSOR`], or `adaptive` with its budget.
    pub plan: String,
    /// Error budget.
    pub budget: Option<f64>,
    /// One per node.
    pub each: Vec<Arithmetic>,
    /// By each model; `None` with one step for all weights of a layer, which has no prediction.
    pub errors: Option<Errors>,
    /// Same as [`Calibration::predicted`].
    pub predicted: Option<f64>,
    /// Measured error of a pass over fresh inputs: the relative L2 norm to f32.
    pub measured: f64,
    /// Fraction of right answers, 0 to 1, for digits used neither for training nor for calibration.
    pub accuracy: Option<f64>,
    /// Milliseconds expected by [`Costs`].
    pub expected_ms: f64,
    /// Milliseconds of a pass on a GPU.
    pub ms: Option<f64>,
}

/// Arithmetic of all layers of a model, for comparison.
pub const UNIFORM: [Arithmetic; 4] = [Arithmetic::F32, Arithmetic::Tf32, Arithmetic::F16, Arithmetic::Int8];
/// int8 with one step for all filters of a layer.
pub const PER_TENSOR: &str = "one-step int8";

/// Each format everywhere, and the formats chosen within each budget.
///
/// # Errors
/// Same as [`Subject::measure`] and [`Subject::accuracy`].
pub fn tried(
    device: &Device,
    subject: &Subject,
    calibration: &Calibration,
    costs: &Costs,
    budgets: &[f64],
) -> Result<Vec<Tried>> {
    let expected = subject.expected()?;
    let uniform = |format| calibration.formats(calibration.uniform(format));
    let mut plans: Vec<(String, Formats, Option<f64>)> = UNIFORM.map(|of| (of.to_string(), uniform(of), None)).into();
    if subject.model == Model::DigitsOutlier {
        let Formats { each, scales } = uniform(Arithmetic::Int8);
        let formats = Formats { each, scales: scales.with_weights(WeightSteps::PerTensor) };
        plans.push((PER_TENSOR.to_owned(), formats, None));
    }
    plans.extend(
        budgets
            .iter()
            .map(|&budget| (format!("adaptive {budget:e}"), choose(calibration, costs, budget).formats, Some(budget))),
    );
    let mut all = Vec::with_capacity(plans.len());
    for (plan, formats, budget) in plans {
        let (measured, ms) = subject.measure(device, &formats, &expected)?;
        let accuracy = subject.accuracy(device, &formats)?;
        let as_calibrated = formats.scales.weights() == WeightSteps::PerFilter;
        all.push(Tried {
            plan,
            budget,
            errors: as_calibrated.then(|| calibration.errors(&formats.each)),
            predicted: as_calibrated.then(|| calibration.predicted(&formats.each)),
            measured,
            accuracy,
            expected_ms: costs.total(&formats.each),
            ms,
            each: formats.each,
        });
    }
    Ok(all)
}

/// Number of layers with each of [`FORMATS`], among those that a format is chosen for.
pub fn spread(calibration: &Calibration, each: &[Arithmetic]) -> String {
    let chosen = || calibration.layers().iter().zip(each).filter(|(layer, _)| layer.is_chosen_for());
    let count = |format: &Arithmetic| chosen().filter(|(_, of)| *of == format).count().to_string();
    FORMATS.iter().map(count).collect::<Vec<_>>().join(" ")
}

/// Why a plan with one step for all weights of a layer has no prediction.
pub const NOT_CALIBRATED: &str = "the calibration has a step for each filter";
/// Meaning of the columns of a table of plans.
pub const ABOUT_ERRORS: &str = "e: the errors that single layers cause; √Σe² if they are perpendicular, Σe if they point the same way. predicted: the length of their \
     sum as vectors, √Σe² at least. measured: a pass over fresh inputs. All are relative L2 norms at the output, to f32. Where a layer has no \
     kernel for a plan's format, the next more exact one is taken.";

const PLAN: ColumnSpec = ColumnSpec::text("plan", "plan");
const SQUARES: ColumnSpec = ColumnSpec::text("squares", "√Σe²");
const LENGTHS: ColumnSpec = ColumnSpec::text("lengths", "Σe");
const PREDICTED: ColumnSpec = ColumnSpec::text("predicted", "predicted");
const MEASURED: ColumnSpec = ColumnSpec::text("measured", "measured");
const ACCURACY: ColumnSpec = ColumnSpec::number("accuracy", "accuracy, %", 2);
const EXPECTED_MS: ColumnSpec = ColumnSpec::number("expected_ms", "ms expected", 4);
const MS: ColumnSpec = ColumnSpec::number("ms", "ms", 4);
const LAYERS: ColumnSpec = ColumnSpec::text("layers", "f32 tf32 f16 fp8 int8");

/// The plans of a model: each format everywhere, and the one within the budget; or an explanation of the latter.
///
/// # Errors
/// Same as [`Subject::calibrate`], [`Subject::costs`] and [`tried`].
pub fn precision(device: &Device, args: &PrecisionArgs) -> Result<Vec<Table>> {
    let subject = Subject::new(device, args.model)?;
    let calibration = subject.calibrate(device)?;
    let costs = subject.costs(device, &calibration)?;
    if !args.explain {
        return Ok(vec![plans(device, &subject, &calibration, &costs, args.error_budget)?]);
    }
    let chosen = choose(&calibration, &costs, args.error_budget);
    let title = format!("{} within {:e} on {}", subject.name, args.error_budget, device.short_name());
    let mut runner = Runner::new(device, subject.plan(device, &chosen.formats)?)?;
    let took = runner.milliseconds(&device.stream())?;
    let layers = explained(format!("layers of {title}"), &calibration, &chosen);
    Ok(vec![layers, runner.plan().table(format!("launches of {title}"), took.as_deref())])
}

/// One row for each format everywhere, and one for the plan within the budget.
///
/// # Errors
/// Same as [`tried`].
pub fn plans(
    device: &Device,
    subject: &Subject,
    calibration: &Calibration,
    costs: &Costs,
    budget: f64,
) -> Result<Table> {
    let with_accuracy = subject.has_labels(device).then_some(ACCURACY);
    let first = [PLAN, SQUARES, LENGTHS, PREDICTED, MEASURED].into_iter().chain(with_accuracy);
    let all: Vec<ColumnSpec> = first.chain([EXPECTED_MS, MS.on_gpu(), LAYERS]).collect();
    let mut table = TableBuilder::on(device, &subject.name, &all);
    for plan in tried(device, subject, calibration, costs, &[budget])? {
        let error = |error: Option<f64>| match error {
            Some(error) => in_short(error, 1).into(),
            None => Cell::absent(NOT_CALIBRATED),
        };
        let row = table
            .row()
            .set(SQUARES, error(plan.errors.map(|errors| errors.squares)))
            .set(LENGTHS, error(plan.errors.map(|errors| errors.lengths)))
            .set(PREDICTED, error(plan.predicted))
            .set(MEASURED, error(Some(plan.measured)))
            .set(EXPECTED_MS, plan.expected_ms)
            .set(LAYERS, spread(calibration, &plan.each))
            .set(PLAN, plan.plan);
        let row = if let Some(ms) = plan.ms { row.set(MS, ms) } else { row };
        let row = if let Some(right) = plan.accuracy { row.set(ACCURACY, 100.0 * right) } else { row };
        row.complete();
    }
    table.note(ABOUT_ERRORS);
    table.note(if costs.measured { "ms expected: the sum of launches that were measured one by one.".to_owned() } else { format!(
            "ms expected: a model, not a measurement: what bytes and FLOPs of a batch of {FLOOR_BATCH} take an H200 at least, and 2 µs \
             per launch."
        ) });
    table.note("Last column: how many layers have which format.");
    Ok(table.finish())
}
