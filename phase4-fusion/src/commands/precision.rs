//! `precision`: which format each layer of a model is computed in under an error budget, what that is predicted to cost, and what it does.

use clap::builder::TypedValueParser;
use common::prelude::*;
use common::table::{Cell, ColumnSpec, Table, TableBuilder};
use common::timing::{Bench, NO_CLOCK};
use phase3_all_layers::backends::{Cpu, OnHost};
use phase3_all_layers::data::digits as data;
use phase3_all_layers::digits;
use phase3_all_layers::models::resnet::{self, ResNet};
use phase3_all_layers::models::unet::{self, INPUTS, UNet};
use phase3_all_layers::nn::Parameters;
use phase3_all_layers::nn::graph::{Graph, Recorder};

use crate::models::Arithmetic;
use crate::models::adaptive::calibrate::relative_error;
use crate::models::adaptive::choose::explained;
use crate::models::adaptive::cost::{Costs, Limits};
use crate::models::adaptive::{Adaptive, Calibration, choose};
use crate::models::plan::{Formats, Plan};
use crate::models::runner::Runner;

/// Seeds of untrained parameters, as the models' own commands have them.
const RESNET_SEED: u64 = 18;
const UNET_SEED: u64 = 8;
/// Seeds of inputs: for the calibration, and fresh ones for what is measured.
const CALIBRATION: u64 = 19;
const FRESH: u64 = 20;
/// Digits of a calibration: each ten times.
const DRAWN: usize = 100;

/// Which model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Model {
    /// The narrow ResNet that was trained on handwritten digits, 32 × 32.
    Digits,
    /// ResNet18 with untrained weights.
    #[value(name = "resnet18")]
    ResNet18,
    /// The video U-Net with untrained weights; tiny on the simulator, small on a GPU.
    #[value(name = "unet")]
    UNet,
}

/// What is planned, and what is shown of it.
#[derive(Clone, Debug, clap::Args)]
pub struct PrecisionArgs {
    /// Show the format of each layer and why, then the launches
    #[arg(long)]
    explain: bool,
    /// What is planned
    #[arg(long, default_value = "digits")]
    model: Model,
    /// Error allowed at the output, ‖y − y in f32‖ / ‖y in f32‖
    #[arg(long, value_name = "ERROR", default_value = "1e-3", value_parser = clap::builder::StringValueParser::new().try_map(|text| budget(&text)))]
    error_budget: f64,
}

/// The budget that a text is.
fn budget(text: &str) -> Result<f64, String> {
    let number = text.parse::<f64>().ok().filter(|number| *number > 0.0 && *number <= 1.0);
    number.ok_or_else(|| {
        "an error budget is a number above 0 and up to 1, such as 1e-3: a part of the output's length".to_owned()
    })
}

/// A model with inputs of two kinds: those that it is calibrated with, and fresh ones.
#[derive(Debug)]
pub struct Subject {
    /// What titles call it.
    pub name: String,
    model: Model,
    parameters: Parameters,
    unet: unet::Config,
    calibration: Vec<Tensor>,
    fresh: Vec<Tensor>,
}

impl Subject {
    /// Of a size that suits the device: what takes a GPU a millisecond takes the simulator an hour.
    ///
    /// # Errors
    /// As [`digits::trained`].
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
            (Model::Digits, _) => {
                let fresh = if on_sim { 4 } else { data::BATCH };
                let images = |count, seed| Ok::<_, Error>(vec![data::drawn(count, seed)?]);
                ("digits".to_owned(), digits::trained()?, images(DRAWN, CALIBRATION)?, images(fresh, FRESH)?)
            }
            (Model::ResNet18, _) => {
                let [side, batch] = if on_sim { [64, 1] } else { [224, 32] };
                let parameters = resnet::Config::RESNET18.seeded(RESNET_SEED);
                let inputs = |batch, seed| vec![random(batch, 3, side, seed)];
                (format!("ResNet18, {batch} × {side}×{side}"), parameters, inputs(2, CALIBRATION), inputs(batch, FRESH))
            }
            (Model::UNet, _) => {
                let ([side, batch], name) = if on_sim { ([8, 1], "tiny") } else { ([32, 2], "small") };
                let parameters = unet.seeded(UNET_SEED);
                let (before, fresh) = (latents(1, side, CALIBRATION, 700.0), latents(batch, side, FRESH, 250.0));
                (format!("U-Net {name}, {batch} × {side}×{side}"), parameters, before, fresh)
            }
        };
        Ok(Subject { name, model, parameters, unet, calibration, fresh })
    }

    /// The recorded model, for inputs of these shapes.
    fn graph(&self, inputs: &[&[usize]]) -> Result<Graph> {
        match self.model {
            Model::Digits => Graph::record(&ResNet::load(&Recorder, digits::CONFIG, &self.parameters)?, inputs[0]),
            Model::ResNet18 => {
                Graph::record(&ResNet::load(&Recorder, resnet::Config::RESNET18, &self.parameters)?, inputs[0])
            }
            Model::UNet => super::unet::recorded(self.unet, &self.parameters, inputs[0]),
        }
    }

    /// The error that each layer alone causes in each format.
    ///
    /// # Errors
    /// As [`Calibration::run`].
    pub fn calibrate(&self, device: &Device) -> Result<Calibration> {
        let inputs: Vec<&Tensor> = self.calibration.iter().collect();
        let shapes: Vec<&[usize]> = inputs.iter().map(|input| input.shape()).collect();
        Calibration::run(device, self.graph(&shapes)?, &inputs)
    }

    /// What layers and conversions take: measured on a GPU, else the floor of an H200.
    ///
    /// # Errors
    /// As [`Costs::measured`].
    pub fn costs(&self, device: &Device, calibration: &Calibration) -> Result<Costs> {
        let shapes = self.shapes();
        let measured = Costs::measured(device, || self.graph(&shapes), &shapes, calibration)?;
        Ok(measured.unwrap_or_else(|| Costs::floor(calibration, Limits::H200)))
    }

    /// Of the fresh inputs.
    fn shapes(&self) -> Vec<&[usize]> {
        self.fresh.iter().map(Tensor::shape).collect()
    }

    /// A plan for inputs like the fresh ones.
    ///
    /// # Errors
    /// As [`Plan::mixed`].
    pub fn plan(&self, device: &Device, formats: &Formats) -> Result<Plan> {
        let shapes = self.shapes();
        Plan::mixed(device, self.graph(&shapes)?, &shapes, formats)
    }

    /// What the model makes of the fresh inputs in f32, on the CPU.
    ///
    /// # Errors
    /// Those of the layers.
    pub fn expected(&self) -> Result<Tensor> {
        let (cpu, x) = (Cpu::new(), &self.fresh[0]);
        match self.model {
            Model::Digits => cpu.infer(&ResNet::load(&cpu, digits::CONFIG, &self.parameters)?, x),
            Model::ResNet18 => cpu.infer(&ResNet::load(&cpu, resnet::Config::RESNET18, &self.parameters)?, x),
            Model::UNet => cpu.infer(&UNet::load(&cpu, self.unet, &self.parameters)?.at(self.fresh[1].to_host()?), x),
        }
    }

    /// Runs formats over the fresh inputs: the error, and the milliseconds of a pass on a GPU.
    ///
    /// # Errors
    /// As [`Subject::plan`] and [`Runner::infer_all`].
    pub fn measure(&self, device: &Device, formats: &Formats, expected: &Tensor) -> Result<(f64, Option<f64>)> {
        let stream = device.stream();
        let mut runner = Runner::new(device, self.plan(device, formats)?)?;
        let inputs: Vec<&Tensor> = self.fresh.iter().collect();
        let found = runner.infer_all(&stream, &inputs)?;
        let error = relative_error(found.as_slice()?, expected.as_slice()?)?;
        let ms = match device.is_sim() {
            true => None,
            false => Bench::default().measure(&stream, || runner.queue(&stream))?.median_ms(),
        };
        Ok((error, ms))
    }
}

const PLAN: ColumnSpec = ColumnSpec::text("plan", "plan");
const PREDICTED: ColumnSpec = ColumnSpec::text("predicted", "predicted");
const ROOT: ColumnSpec = ColumnSpec::text("root", "√Σe²");
const SUM: ColumnSpec = ColumnSpec::text("sum", "Σe");
const MEASURED: ColumnSpec = ColumnSpec::text("measured", "measured");
const MS: ColumnSpec = ColumnSpec::number("ms", "ms", 4);
const MODEL_MS: ColumnSpec = ColumnSpec::number("model_ms", "ms expected", 4);
const LAYERS: ColumnSpec = ColumnSpec::text("layers", "layers in f32, tf32, f16, fp8, int8");

/// How the layers that a format is chosen for are spread.
fn spread(calibration: &Calibration, each: &[Arithmetic]) -> String {
    let chosen = || calibration.layers().iter().zip(each).filter(|(layer, _)| layer.is_chosen_for());
    let count = |format: &Arithmetic| chosen().filter(|(_, of)| *of == format).count().to_string();
    crate::models::adaptive::FORMATS.iter().map(count).collect::<Vec<_>>().join(", ")
}

/// The plans of a model: each format everywhere, and the one within the budget; or, explained, the latter.
///
/// # Errors
/// As [`Subject::calibrate`], [`Subject::costs`] and [`Subject::measure`].
pub fn precision(device: &Device, args: &PrecisionArgs) -> Result<Vec<Table>> {
    let subject = Subject::new(device, args.model)?;
    let calibration = subject.calibrate(device)?;
    let costs = subject.costs(device, &calibration)?;
    let chosen = choose(&calibration, &costs, args.error_budget);
    let title = format!("{} within {:.0e} on {}", subject.name, args.error_budget, device.short_name());
    if args.explain {
        let mut runner = Runner::new(device, subject.plan(device, &chosen.formats)?)?;
        let took = runner.milliseconds(&device.stream())?;
        let layers = explained(format!("layers of {title}"), &calibration, &chosen);
        return Ok(vec![layers, runner.plan().table(format!("launches of {title}"), took.as_deref())]);
    }
    Ok(vec![compared(device, &subject, &calibration, &costs, &chosen, title)?])
}

fn compared(
    device: &Device,
    subject: &Subject,
    calibration: &Calibration,
    costs: &Costs,
    chosen: &Adaptive,
    title: String,
) -> Result<Table> {
    let expected = subject.expected()?;
    let mut table = TableBuilder::of(title, [PLAN, ROOT, SUM, PREDICTED, MEASURED, MODEL_MS, MS, LAYERS]);
    let uniform = [Arithmetic::F32, Arithmetic::Tf32, Arithmetic::F16, Arithmetic::Int8]
        .map(|format| (format.to_string(), calibration.formats(calibration.uniform(format))));
    for (name, formats) in uniform.into_iter().chain([("adaptive".to_owned(), chosen.formats.clone())]) {
        let (error, ms) = subject.measure(device, &formats, &expected)?;
        let [root, sum] = calibration.other_models(&formats.each);
        let number = |error: f64| if error.is_finite() { format!("{error:.1e}") } else { "∞".to_owned() };
        table
            .row()
            .set(PLAN, name)
            .set(PREDICTED, number(calibration.predicted(&formats.each)))
            .set(ROOT, number(root))
            .set(SUM, number(sum))
            .set(MEASURED, number(error))
            .set(MODEL_MS, costs.total(&formats.each))
            .set(MS, Cell::or_absent(ms, NO_CLOCK))
            .set(LAYERS, spread(calibration, &formats.each))
            .complete();
    }
    table.note(
        "e: errors that single layers cause. predicted: the root of the sum of their squares, in which those of tf32, which point the same \
         way, count as one, their sum. measured: a pass over fresh inputs. All are relative L2 norms at the output, to f32. Where a layer has no kernel for a plan's format, the next more exact one is taken.",
    );
    table.note(match costs.measured {
        true => "ms expected: the sum of launches that were measured one by one.",
        false => {
            "ms expected: a model, not a measurement: the floor of bytes and FLOPs on an H200, and 2 µs per launch."
        }
    });
    Ok(table.finish())
}
