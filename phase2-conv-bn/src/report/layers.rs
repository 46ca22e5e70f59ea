//! Report of the command: the three layers on a small shape, each against the f64 reference.

use bench::ladder::{NO_COUNTS, columns, verdict};
use bench::parts::{Part, Report};
use bench::table::{Cell, ColumnSpec, DeviceKind, TableBuilder};
use bench::timing::{Bench, NO_CLOCK};
use common::check::compare;
use common::prelude::*;
use common::reference::{self, BatchNorm, Conv2dParams, Reference};

use crate::conv;
use crate::norm::{batch_norm, relu};

/// `cargo run -p phase2-conv-bn -- layers`.
pub const PART: Part = Part {
    name: "layers",
    about: "the layers that open ResNet18, as kernels that one would write first",
    tables: &["layers"],
    by_default: true,
    run,
};

const OUTPUTS: ColumnSpec = ColumnSpec::number("outputs", "outputs", 0);
const LANES: ColumnSpec = ColumnSpec::number("lane_instructions", "lane instructions", 0);
const ALLOWED: ColumnSpec = ColumnSpec::number("allowed", "allowed", 3);
const COLUMNS: [ColumnSpec; 7] =
    [columns::STEP, OUTPUTS, columns::MS, LANES, columns::MAX_DIFFERENCE, ALLOWED, columns::CHECK];

/// Runs convolution, BatchNorm and ReLU on `device`, each on the previous result.
fn run(device: &Device) -> Result<Report> {
    let stream = device.stream();
    // Ragged on purpose: 45 outputs a plane leave a block half empty, and stride, padding, dilation differ in y and x.
    let params = Conv2dParams { stride: [2, 1], padding: [1, 2], dilation: [1, 2], groups: 2 };
    let (input, weight) = (Tensor::random(&[2, 4, 9, 9], 1), Tensor::random(&[6, 2, 3, 3], 2));
    let bias = Tensor::random(&[6], 3);
    let (gamma, beta, mean) = (Tensor::random(&[6], 4), Tensor::random(&[6], 5), Tensor::random(&[6], 6));
    let variance = Tensor::from_fn(&[6], |i| 0.5 + i[0] as f32);

    let title = format!("phase 2: {:?} * {:?}, 2 groups, on {}", input.shape(), weight.shape(), device.short_name());
    let kind = DeviceKind::of(device);
    let mut report = Layers { table: TableBuilder::new(title, kind, &COLUMNS), wrong: Vec::new() };
    report.table.note("|Δ|: to the reference, which accumulates in f64; allowed: what f32 rounding may cost, derived.");
    let bench = Bench::default();

    let conv = conv::step01_direct::STEP.load(device)?;
    let (x, w, b) = (input.to_device(device)?, weight.to_device(device)?, bias.to_device(device)?);
    let mut y = Tensor::empty_on(device, &params.output_shape(&x, &w)?)?;
    let timing = bench.measure(&stream, || conv.launch(&stream, &x, &w, Some(&b), params, &mut y))?;
    let convolved = y.to_host()?;
    report.row("conv 1 direct", &timing, &convolved, &reference::conv2d(&input, &weight, Some(&bias), params)?)?;

    let norm = batch_norm::NAIVE.load(device)?;
    let parts = [&gamma, &beta, &mean, &variance];
    let [dw, db, dm, dv] = parts.map(|part| part.to_device(device));
    let (dw, db, dm, dv) = (dw?, db?, dm?, dv?);
    let on_device = BatchNorm { weight: &dw, bias: &db, mean: &dm, variance: &dv, eps: 1e-5 };
    let on_host = BatchNorm { weight: &gamma, bias: &beta, mean: &mean, variance: &variance, eps: 1e-5 };
    let mut z = Tensor::empty_on(device, y.shape())?;
    let norm = norm.layer(&stream, &on_device)?;
    let timing = bench.measure(&stream, || norm.launch(&stream, &y, &mut z))?;
    let normalised = z.to_host()?;
    report.row("BatchNorm 1 naive", &timing, &normalised, &reference::batch_norm(&convolved, &on_host)?)?;

    let relu = relu::NAIVE.load(device)?;
    let timing = bench.measure(&stream, || relu.launch_in_place(&stream, &mut z))?;
    report.row("ReLU 1 naive", &timing, &z.to_host()?, &reference::relu(&normalised)?)?;
    // The profiles are of no use here, and not to be counted as those of the next part.
    device.as_sim().map(|sim| sim.take_profiles());
    Ok(Report { tables: vec![report.table.finish()], wrong: report.wrong })
}

/// The growing table, and its errors.
struct Layers {
    table: TableBuilder,
    wrong: Vec<String>,
}

impl Layers {
    fn row(&mut self, step: &str, timing: &bench::timing::Timing, actual: &Tensor, expected: &Reference) -> Result<()> {
        let tolerance = expected.tolerance();
        let checked = compare(actual.as_slice()?, &expected.values, tolerance);
        let (max_abs, word) = verdict(step, checked, &mut self.wrong);
        let lanes = timing.counts().map(|counts| counts.lane_instructions as f64);
        let row = self.table.row().set(columns::STEP, step).set(OUTPUTS, actual.len());
        row.set(columns::MS, Cell::or_absent(timing.median_ms(), NO_CLOCK))
            .set(LANES, Cell::or_absent(lanes, NO_COUNTS))
            .set(columns::MAX_DIFFERENCE, max_abs)
            .set(ALLOWED, tolerance.absolute)
            .set(columns::CHECK, word)
            .finish("not measured");
        Ok(())
    }
}
