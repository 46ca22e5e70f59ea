//! `accuracy`: how far each implementation's last layer is from the CPU's, for every model; and how many handwritten digits a
//! trained network gets right.

use bench::ladder::columns;
use bench::table::{Cell, ColumnSpec, TableBuilder};
use common::check::scale;
use common::prelude::*;
use common::progress::Progress;
use phase3_all_layers::backends::{ConvOnDevice, Cpu, OnHost, Reliable, RoundTrip, Unfused, infer};
use phase3_all_layers::data::digits::{Digits, Outcome as Answers};
use phase3_all_layers::digits;
use phase3_all_layers::models::autoencoder::{self, Autoencoder};
use phase3_all_layers::models::resnet::{self, ResNet};
use phase3_all_layers::models::unet::{self, UNet};
use phase3_all_layers::nn::Parameters;
use phase4_fusion::autoencoder::Fused;
use phase4_fusion::commands::classifier::digits as by_plan;
use phase4_fusion::commands::resnet18::plan;
use phase4_fusion::commands::unet::plan as plan_of_unet;
use phase4_fusion::models::Arithmetic;
use phase4_fusion::models::runner::Runner;

use crate::spec::{Context, FinishedTable, Make, TableSpec};
use crate::tables::differences::{CLOSE, mean_difference, within};

/// The sides of the U-Net's latents on the simulator, where time is short.
const SMALL_SIDE: usize = 16;

/// The model of a row.
pub(crate) const MODEL: ColumnSpec = ColumnSpec::text("model", "model");
/// Name of the implementation in the table.
pub(crate) const BY: ColumnSpec = ColumnSpec::text("by", "by");
const MEAN_DIFFERENCE: ColumnSpec = ColumnSpec::number("mean_difference", "mean |Δ|", 3);
/// The largest difference as a share of the largest magnitude.
pub(crate) const OF_LARGEST: ColumnSpec = ColumnSpec::number("of_largest", "of the largest", 3);
/// Right answers, in percent.
pub(crate) const ACCURACY: ColumnSpec = ColumnSpec::number("accuracy", "accuracy, %", 2);

const COLUMNS: &[ColumnSpec] =
    &[MODEL, BY, columns::MAX_DIFFERENCE, MEAN_DIFFERENCE, OF_LARGEST, ACCURACY, columns::CHECK];

/// Models and implementations that other tables look for.
pub(crate) mod names {
    pub(crate) const RESNET18: &str = "ResNet18";
    pub(crate) const DIGITS: &str = "digits";
    pub(crate) const CPU: &str = "CPU";
    pub(crate) const PHASE3: &str = "phase 3";
    pub(crate) const PHASE4: [&str; 3] = ["phase 4, f32", "phase 4, tf32", "phase 4, f16"];
}

/// The last layers, compared one by one.
struct Comparison {
    table: TableBuilder,
    wrong: Vec<String>,
}

impl Comparison {
    /// Adds a row that compares computed values with the CPU's.
    fn row(&mut self, model: &str, by: &str, values: &[f32], expected: &[f32], accuracy: Cell) {
        self.row_within(CLOSE, model, by, values, expected, accuracy);
    }

    /// [`Comparison::row`], with another tolerance relative to the largest.
    fn row_within(&mut self, part: f64, model: &str, by: &str, values: &[f32], expected: &[f32], accuracy: Cell) {
        let (max, word) = within(part, &format!("{model} by {by}"), values, expected, &mut self.wrong);
        let mean = mean_difference(values, expected);
        self.table
            .row()
            .set(MODEL, model)
            .set(BY, by)
            .set(columns::MAX_DIFFERENCE, max)
            .set(MEAN_DIFFERENCE, mean)
            .set(OF_LARGEST, max / scale(expected))
            .set(ACCURACY, accuracy)
            .set(columns::CHECK, word)
            .finish("not compared");
    }
}

/// The table in the registry.
pub const TABLE: TableSpec = TableSpec {
    name: "accuracy",
    shows: "each model and implementation: difference to the CPU, accuracy",
    uses: &[],
    columns: COLUMNS,
    make: Make::Measured(run),
};

/// The logits of ResNet18 by a backend whose inputs and outputs are on the host.
fn on_host(backend: &impl OnHost, parameters: &Parameters, images: &Tensor) -> common::Result<Vec<f32>> {
    let network = ResNet::load(backend, resnet::Config::RESNET18, parameters)?;
    backend.infer(&network, images)?.into_vec()
}

/// Makes the table.
fn run(context: &Context) -> crate::Result<FinishedTable> {
    let device = &context.device;
    let progress = Progress::new(4, "accuracy");
    let step = |what: &str| {
        progress.set_message(format!("accuracy: {what}"));
        progress.inc(1);
    };
    let title = format!("accuracy: the last layer beside the CPU's, on {}", device.short_name());
    let table = context.table(title, COLUMNS);
    let mut compared = Comparison { table, wrong: Vec::new() };
    let none = || Cell::absent("the weights are untrained");

    step("ResNet18");
    let (config, images) = (resnet::Config::RESNET18, context.image()?);
    let parameters = config.seeded(18);
    let expected = on_host(&Cpu::new(), &parameters, &images)?;
    let travelled = on_host(&RoundTrip::new(device), &parameters, &images)?;
    compared.row(names::RESNET18, "phase 1", &travelled, &expected, none());
    let by_conv = on_host(&ConvOnDevice::new(device), &parameters, &images)?;
    compared.row(names::RESNET18, "phase 2", &by_conv, &expected, none());
    let network = ResNet::load(&Unfused::new(device), config, &parameters)?;
    let logits = infer(&device.stream(), &network, &images)?.into_vec()?;
    compared.row(names::RESNET18, names::PHASE3, &logits, &expected, none());
    drop(network);
    for (arithmetic, name) in Arithmetic::ALL.into_iter().zip(names::PHASE4) {
        let plan = plan(device, config, &parameters, arithmetic, images.shape())?;
        let bound = plan.error_bound();
        let logits = Runner::new(device, plan)?.infer(&device.stream(), &images)?.into_vec()?;
        compared.row_within(bound, names::RESNET18, name, &logits, &expected, none());
    }

    step("digits");
    let digits = Digits::built_in()?;
    let on_cpu = digits::evaluate_on_cpu()?;
    let percent = |answers: &Answers| Cell::from(100.0 * answers.accuracy);
    compared.row(names::DIGITS, names::CPU, &on_cpu.logits, &on_cpu.logits, percent(&on_cpu));
    let on_device = digits::evaluate_on(device)?;
    let pytorch = Answers::new(digits.pytorchs_logits().to_vec(), digits.labels());
    for (by, answers) in [(names::PHASE3, &on_device), ("PyTorch, recorded", &pytorch)] {
        compared.row(names::DIGITS, by, &answers.logits, &on_cpu.logits, percent(answers));
        if answers.predictions != on_cpu.predictions {
            compared.wrong.push(format!("digits by {by}: not every prediction is the CPU's"));
        }
    }
    // The simulator takes its time for 360 images.
    let arithmetics = if device.is_cuda() { &Arithmetic::ALL[..] } else { &[Arithmetic::F16] };
    // int8's steps are those of the first 64 images.
    let int8: &[Arithmetic] = if context.is_hurried() { &[] } else { &[Arithmetic::Int8] };
    for &arithmetic in arithmetics.iter().chain(int8) {
        let (name, answers) = (format!("phase 4, {arithmetic}"), by_plan(device, arithmetic)?);
        let shape = phase3_all_layers::data::digits::input(1);
        let bound = plan(device, digits::CONFIG, &digits::trained()?, arithmetic, &shape)?.error_bound();
        compared.row_within(bound, names::DIGITS, &name, &answers.logits, &on_cpu.logits, percent(&answers));
        let differ = answers.predictions.iter().zip(&on_cpu.predictions).filter(|(own, cpus)| own != cpus).count();
        if differ > usize::from(matches!(arithmetic, Arithmetic::F16 | Arithmetic::Int8)) {
            compared.wrong.push(format!("digits by {name}: {differ} predictions are not the CPU's"));
        }
    }

    step("autoencoder");
    let configs = if device.is_cuda() { &autoencoder::Config::ALL[..] } else { &autoencoder::Config::ALL[..2] };
    for &(name, config) in configs {
        let parameters = config.seeded(5);
        let x = Tensor::random(&[3, config.inputs()], 1);
        let cpu = Cpu::new();
        let on_cpu = Autoencoder::load(&cpu, config, &parameters)?;
        let expected = cpu.infer(&on_cpu, &config.slices(&x)?)?.into_vec()?;
        let model = Reliable::load(&Unfused::new(device), config, &parameters)?;
        let y = model.reconstruct(&device.stream(), &x)?.into_vec()?;
        let called = format!("autoencoder, {name}");
        compared.row(&called, names::PHASE3, &y, &expected, none());
        compared.wrong.extend(model.warnings());
        for (arithmetic, by) in Arithmetic::ALL.into_iter().zip(names::PHASE4) {
            let mut fused = Fused::load(device, &config, &parameters, arithmetic, 3)?;
            let y = fused.infer(&device.stream(), &config.slices(&x)?)?.into_vec()?;
            compared.row_within(fused.error_bound(), &called, by, &y, &expected, none());
            if matches!(fused, Fused::OneKernel { .. }) {
                break; // the same in each
            }
        }
    }

    step("U-Net");
    let side = if device.is_cuda() { 64 } else { SMALL_SIDE };
    let (config, steps) = (unet::Config::TINY, [10.0, 700.0]);
    let parameters = config.seeded(8);
    let x = Tensor::random(&[2, unet::INPUTS, side, side], 1);
    let times = Tensor::from_vec(&[2], steps.to_vec())?;
    let cpu = Cpu::new();
    let expected = cpu.infer(&UNet::load(&cpu, config, &parameters)?.at(times.to_host()?), &x)?.into_vec()?;
    let network = UNet::load(&Unfused::new(device), config, &parameters)?;
    let y = infer(&device.stream(), &network.at(times.to_device(device)?), &x)?.into_vec()?;
    let called = format!("U-Net tiny, {side} × {side}");
    compared.row(&called, names::PHASE3, &y, &expected, none());
    for (arithmetic, by) in Arithmetic::ALL.into_iter().zip(names::PHASE4) {
        let plan = plan_of_unet(device, config, &parameters, arithmetic, x.shape())?;
        let bound = plan.error_bound();
        let y = Runner::new(device, plan)?.infer_all(&device.stream(), &[&x, &times])?.into_vec()?;
        compared.row_within(bound, &called, by, &y, &expected, none());
    }

    let Comparison { mut table, wrong } = compared;
    if let Some(note) = context.side_note() {
        table.note(note);
    }
    table.note(format!(
        "|Δ|: to the CPU's last layer; {CLOSE:e} of the largest magnitude (1 at least) is allowed, in tf32 and f16 three roundings \
         for each of the layers that multiply."
    ));
    table.note(format!(
        "digits: a narrow ResNet18, trained in PyTorch, over {} handwritten digits that it was not trained on; each prediction \
         has to be the CPU's, in f16 and int8 but one. Other weights: seeded.",
        digits.labels().len()
    ));
    Ok(FinishedTable { table: table.finish(), wrong })
}
