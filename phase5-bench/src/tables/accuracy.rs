//! `accuracy`: how far each implementation's last layer is from the CPU's, for every model; and how many handwritten digits a
//! trained network gets right.

use common::check::scale;
use common::prelude::*;
use common::progress::Progress;
use common::table::{Cell, Column, Table};
use phase3_all_layers::backends::{ConvOnDevice, Cpu, OnHost, Reliable, RoundTrip, Unfused, infer};
use phase3_all_layers::data::digits::{self, Digits, Outcome as Answers};
use phase3_all_layers::models::autoencoder::{self, Autoencoder};
use phase3_all_layers::models::resnet::{self, ResNet};
use phase3_all_layers::models::unet::{self, UNet};
use phase3_all_layers::nn::Parameters;

use crate::spec::{Context, FinishedTable, Make, TableSpec};
use crate::tables::differences::{CLOSE, close, mean_difference};

/// The sides of the U-Net's latents on the simulator, where time is short.
const SMALL_SIDE: usize = 16;

/// A table being filled.
struct Board {
    table: Table,
    wrong: Vec<String>,
}

impl Board {
    /// A row of what was computed against what the CPU computed.
    fn row(&mut self, model: &str, by: &str, values: &[f32], expected: &[f32], accuracy: Cell) {
        let (max, word) = close(&format!("{model} by {by}"), values, expected, &mut self.wrong);
        let mean = mean_difference(values, expected);
        self.table.row([
            model.into(),
            by.into(),
            max.into(),
            mean.into(),
            (max / scale(expected)).into(),
            accuracy,
            word.into(),
        ]);
    }
}

/// The table in the registry.
pub const TABLE: TableSpec = TableSpec {
    name: "accuracy",
    shows: "each model and implementation: difference to the CPU, accuracy",
    so_far: "phases 1 to 3",
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
    let columns = [
        Column::text("model"),
        Column::text("by"),
        Column::number("max |Δ|", 3),
        Column::number("mean |Δ|", 3),
        Column::number("of the largest", 3),
        Column::number("accuracy, %", 2),
        Column::text("check"),
    ];
    let table = Table::new(format!("accuracy: the last layer beside the CPU's, on {}", device.short_name()), columns);
    let mut board = Board { table, wrong: Vec::new() };
    let none = || Cell::absent("the weights are untrained");

    step("ResNet18");
    let (config, images) = (resnet::Config::RESNET18, context.photo.to_tensor());
    let parameters = config.seeded(18);
    let expected = on_host(&Cpu::new(), &parameters, &images)?;
    let travelled = on_host(&RoundTrip::new(device), &parameters, &images)?;
    board.row("ResNet18", "phase 1", &travelled, &expected, none());
    let by_conv = on_host(&ConvOnDevice::new(device), &parameters, &images)?;
    board.row("ResNet18", "phase 2", &by_conv, &expected, none());
    let network = ResNet::load(&Unfused::new(device), config, &parameters)?;
    let logits = infer(&device.stream(), &network, &images)?.into_vec()?;
    board.row("ResNet18", "phase 3", &logits, &expected, none());
    drop(network);

    step("digits");
    let digits = Digits::built_in()?;
    let on_cpu = digits::evaluate_on_cpu()?;
    let percent = |answers: &Answers| Cell::from(100.0 * answers.accuracy);
    board.row("digits", "CPU", &on_cpu.logits, &on_cpu.logits, percent(&on_cpu));
    let on_device = digits::evaluate_on(device)?;
    let pytorch = Answers::new(digits.pytorchs_logits().to_vec(), digits.labels());
    for (by, answers) in [("phase 3", &on_device), ("PyTorch, recorded", &pytorch)] {
        board.row("digits", by, &answers.logits, &on_cpu.logits, percent(answers));
        if answers.predictions != on_cpu.predictions {
            board.wrong.push(format!("digits by {by}: not every prediction is the CPU's"));
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
        board.row(&format!("autoencoder, {name}"), "phase 3", &y, &expected, none());
        board.wrong.extend(model.warnings());
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
    board.row(&format!("U-Net tiny, {side} × {side}"), "phase 3", &y, &expected, none());

    let Board { mut table, wrong } = board;
    table.note(format!("|Δ|: to the CPU's last layer; {CLOSE:e} of the largest magnitude (1 at least) is allowed."));
    table.note(format!(
        "digits: a narrow ResNet18, trained in PyTorch, over {} handwritten digits that it was not trained on; each prediction \
         has to be the CPU's. Other weights: seeded. phase 4's implementations arrive with phase 4.",
        digits.labels().len()
    ));
    Ok(FinishedTable { table, wrong })
}
