//! `layers`: the layers of ResNet18 on a real photo, on the CPU and on the device.
//!
//! So far its opening: convolution 7×7/2 with padding 3 (3 → 64 channels), BatchNorm, ReLU, in phase 2's naive kernels. The
//! weights are seeded, since their values change neither time nor check.

use std::time::Duration;

use common::check::{F32_ROUND_OFF, Tolerance, compare};
use common::prelude::*;
use common::progress::Progress;
use common::reference::{self, BatchNorm, Conv2dParams, Reference};
use common::table::{Cell, Column, Table};
use common::timing::{Bench, Timing};
use phase2_conv_bn::conv;
use phase2_conv_bn::norm::{batch_norm, relu};

use crate::Error;
use crate::tables::{Context, Outcome, verdict};

const NO_CLOCK: &str = "the simulator counts instructions and has no clock";
const NO_COUNTS: &str = "a GPU does not count instructions; the simulator does";
const NO_SPEED_UP: &str = "a speed-up needs the device's time";

/// Output channels of the first convolution.
const CHANNELS: usize = 64;
/// Its window, 7 × 7 over 3 channels.
const WEIGHT: [usize; 4] = [CHANNELS, 3, 7, 7];
const EPS: f32 = 1e-5;

fn params() -> Conv2dParams {
    Conv2dParams::new(2, 3)
}

/// The first convolution's and BatchNorm's parameters, on the host or on a device.
struct Weights {
    conv: Tensor,
    gamma: Tensor,
    beta: Tensor,
    mean: Tensor,
    variance: Tensor,
}

impl Weights {
    /// The convolution uniform in ±√(6 / fan_in), so that its outputs have the variance of its inputs after a ReLU (He et al.,
    /// "Delving Deep into Rectifiers", 2015); BatchNorm's four around 1, 0, 0 and the variance that such outputs have, 2.
    fn seeded() -> common::Result<Weights> {
        let uniform = |shape: &[usize], seed, centre: f32, reach: f32| {
            let values = Tensor::random(shape, seed).into_vec()?;
            Tensor::from_vec(shape, values.into_iter().map(|value| centre + reach * value).collect())
        };
        let fan_in: usize = WEIGHT[1..].iter().product();
        Ok(Weights {
            conv: uniform(&WEIGHT, 1, 0.0, (6.0 / fan_in as f32).sqrt())?,
            gamma: uniform(&[CHANNELS], 2, 1.0, 0.25)?,
            beta: uniform(&[CHANNELS], 3, 0.0, 0.25)?,
            mean: uniform(&[CHANNELS], 4, 0.0, 0.5)?,
            variance: uniform(&[CHANNELS], 5, 2.0, 1.0)?,
        })
    }

    fn to_device(&self, device: &Device) -> common::Result<Weights> {
        Ok(Weights {
            conv: self.conv.to_device(device)?,
            gamma: self.gamma.to_device(device)?,
            beta: self.beta.to_device(device)?,
            mean: self.mean.to_device(device)?,
            variance: self.variance.to_device(device)?,
        })
    }

    fn norm(&self) -> BatchNorm<'_> {
        BatchNorm { weight: &self.gamma, bias: &self.beta, mean: &self.mean, variance: &self.variance, eps: EPS }
    }

    /// The most that BatchNorm multiplies a difference of its input by: max |γ| / √(variance + eps).
    fn gain(&self) -> common::Result<f64> {
        let scales = self.gamma.as_slice()?.iter().zip(self.variance.as_slice()?);
        Ok(scales
            .map(|(gamma, variance)| f64::from(gamma.abs()) / (f64::from(*variance) + f64::from(EPS)).sqrt())
            .fold(0.0, f64::max))
    }
}

/// What one side took for a layer, and what it computed.
struct Layer {
    timing: Timing,
    output: Tensor,
}

/// Convolution, BatchNorm, ReLU and all three after each other, on one side.
type Layers = [Layer; 4];

const NAMES: [&str; 4] = ["Conv2D", "BatchNorm", "ReLU", "total"];
const LAUNCHES: [usize; 4] = [1, 1, 1, 3];

/// What is right: each layer for its own input, and the three together.
struct Expected {
    values: Vec<f64>,
    tolerance: Tolerance,
}

/// Makes the table.
///
/// # Errors
/// What the device reports.
pub fn run(context: &Context) -> crate::Result<Outcome> {
    let bench = Bench { warm_up: 1, repeats: 5, limit: Duration::from_secs(4), ..Bench::default() };
    let progress = Progress::new(10, "layers");
    let step = |what: &'static str| {
        progress.set_message(what);
        progress.inc(1);
    };
    let input = context.photo.to_tensor();
    let weights = Weights::seeded()?;
    let on_cpu = on_cpu(&input, &weights, &bench, &step)?;
    let on_device = on_device(&context.device, &input, &weights, &step)?;
    step("layers: f64 reference");
    tabulate(context, &input, &weights, &on_cpu, &on_device)
}

/// Compares both sides with the reference and writes down what they took.
fn tabulate(
    context: &Context,
    input: &Tensor,
    weights: &Weights,
    on_cpu: &Layers,
    on_device: &Layers,
) -> crate::Result<Outcome> {
    let device = &context.device;
    let convolved = reference::conv2d(input, &weights.conv, None, params())?;
    let total = together(&convolved, on_device[0].output.shape(), weights)?;
    let mut wrong = Vec::new();
    // The baseline too: a speed-up over a wrong result is none.
    let of_cpu = expected(&convolved, &total, on_cpu, weights)?;
    for ((name, layer), expected) in NAMES.iter().zip(on_cpu).zip(of_cpu) {
        let result = compare(layer.output.as_slice()?, &expected.values, expected.tolerance);
        verdict(&format!("{name} on the CPU"), result, &mut wrong);
    }
    let expected = expected(&convolved, &total, on_device, weights)?;

    let title = format!(
        "layers: ResNet18's opening on {} ({} × {}), naive kernels, on {}",
        context.photo.name(),
        context.photo.size().0,
        context.photo.size().1,
        device.short_name()
    );
    let mut columns = vec![
        Column::text("layer"),
        Column::number("CPU ms", 2),
        Column::number("device ms", 4),
        Column::number("speed-up", 1),
        Column::number("launches", 0),
        Column::number("max |Δ|", 3),
        Column::number("allowed", 3),
        Column::text("check"),
    ];
    if device.is_sim() {
        columns.splice(4..4, [Column::number("warp M", 2), Column::number("lane M", 1)]);
    }
    let mut table = Table::new(title, columns);
    for (i, expected) in expected.into_iter().enumerate() {
        let (cpu, layer) = (&on_cpu[i].timing, &on_device[i]);
        let result = compare(layer.output.as_slice()?, &expected.values, expected.tolerance);
        let (max_abs, word) = verdict(&format!("{} on {}", NAMES[i], device.short_name()), result, &mut wrong);
        let device_ms = layer.timing.median_ms();
        let mut cells = vec![
            NAMES[i].into(),
            Cell::or_absent(cpu.median_ms(), NO_CLOCK),
            Cell::or_absent(device_ms, NO_CLOCK),
            Cell::or_absent(cpu.median_ms().zip(device_ms).map(|(cpu, device)| cpu / device), NO_SPEED_UP),
            LAUNCHES[i].into(),
            max_abs.into(),
            expected.tolerance.absolute.into(),
            word.into(),
        ];
        if device.is_sim() {
            let counts = layer.timing.counts();
            let millions = |count: Option<u64>| Cell::or_absent(count.map(|count| count as f64 / 1e6), NO_COUNTS);
            cells.splice(
                4..4,
                [
                    millions(counts.map(|counts| counts.warp_instructions)),
                    millions(counts.map(|counts| counts.lane_instructions)),
                ],
            );
        }
        table.row(cells);
    }
    table.note(format!("CPU ms: plain f32 loops on one thread, {}.", spread(on_cpu)));
    table.note(match device.is_sim() {
        true => {
            "warp M, lane M: millions of instructions that the simulator executed, a warp's counted once or by lane."
                .to_owned()
        }
        false => format!(
            "device ms: by events, without copies, with the tensors (3 MB each) warm in the L2 cache, {}.",
            spread(on_device)
        ),
    });
    table.note(
        "|Δ|: to the f64 reference of the same input. allowed: what f32 rounding may cost, derived. Weights: seeded.",
    );
    Ok(Outcome { table, wrong })
}

/// `medians of 5 runs, quartiles within 3 %`, for the least and the most of several.
fn spread(layers: &Layers) -> String {
    let timings = || layers.iter().map(|layer| &layer.timing);
    let runs = timings().map(Timing::repeats).min().unwrap_or(0);
    let widest = timings()
        .filter_map(|timing| {
            let (median, (low, high)) = (timing.median_ms()?, timing.quartiles_ms()?);
            Some(100.0 * (median - low).max(high - median) / median)
        })
        .fold(0.0, f64::max);
    format!("medians of {runs} runs or more, quartiles within {widest:.0} % of them")
}

/// The naive f32 loops on one thread. Each layer's input is what the one before put out.
fn on_cpu(
    input: &Tensor,
    weights: &Weights,
    bench: &Bench,
    step: &(impl Fn(&'static str) + Sync),
) -> crate::Result<Layers> {
    let layer = |work: &(dyn Fn() -> common::Result<Tensor> + Sync)| -> common::Result<Layer> {
        let mut output = Err(common::Error::Invalid("nothing was measured".to_owned()));
        let timing = bench.measure_host(|| {
            output = Ok(work()?);
            Ok(())
        })?;
        Ok(Layer { timing, output: output? })
    };
    let conv = |x: &Tensor| reference::conv2d_f32(x, &weights.conv, None, params());
    let norm = |x: &Tensor| reference::batch_norm_f32(x, &weights.norm());
    // The loops spread over the threads of the pool they run in: this one has a single thread.
    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads(1)
        .build()
        .map_err(|error| Error::Common(common::Error::Invalid(format!("no thread for the CPU's part: {error}"))))?;
    pool.install(|| {
        step("layers: Conv2D on the CPU");
        let convolved = layer(&|| conv(input))?;
        step("layers: BatchNorm on the CPU");
        let normalised = layer(&|| norm(&convolved.output))?;
        step("layers: ReLU on the CPU");
        let clipped = layer(&|| reference::relu_f32(&normalised.output))?;
        step("layers: all on the CPU");
        let total = layer(&|| reference::relu_f32(&norm(&conv(input)?)?))?;
        Ok([convolved, normalised, clipped, total])
    })
}

/// Phase 2's kernels. Each layer's input is what the one before put out.
fn on_device(
    device: &Device,
    input: &Tensor,
    weights: &Weights,
    step: &impl Fn(&'static str),
) -> crate::Result<Layers> {
    step("layers: loading kernels");
    let stream = device.stream();
    let bench = Bench::default();
    let (conv, relu) = (conv::step01_direct::STEP.load(device)?, relu::NAIVE.load(device)?);
    let (x, weights) = (input.to_device(device)?, weights.to_device(device)?);
    let norm = batch_norm::NAIVE.load(device)?.layer(&stream, &weights.norm())?;
    let shape = params().output_shape(&x, &weights.conv)?;
    let mut y = Tensor::empty_on(device, &shape)?;
    let mut z = Tensor::empty_on(device, &shape)?;

    step("layers: Conv2D on the device");
    let timing = bench.measure(&stream, || conv.launch(&stream, &x, &weights.conv, None, params(), &mut y))?;
    let convolved = Layer { timing, output: y.to_host()? };

    step("layers: BatchNorm on the device");
    let timing = bench.measure(&stream, || norm.launch(&stream, &y, &mut z))?;
    let normalised = Layer { timing, output: z.to_host()? };

    step("layers: ReLU on the device");
    // In place, so all runs but the first clip what is clipped already: the same reads and writes.
    let timing = bench.measure(&stream, || relu.launch_in_place(&stream, &mut z))?;
    let clipped = Layer { timing, output: z.to_host()? };

    step("layers: all on the device");
    stream.poison(y.buffer_mut()?)?;
    stream.poison(z.buffer_mut()?)?;
    let timing = bench.measure(&stream, || {
        conv.launch(&stream, &x, &weights.conv, None, params(), &mut y)?;
        norm.launch(&stream, &y, &mut z)?;
        relu.launch_in_place(&stream, &mut z)
    })?;
    let total = Layer { timing, output: z.to_host()? };
    Ok([convolved, normalised, clipped, total])
}

/// The references for one side: BatchNorm and ReLU for the inputs that they had there.
fn expected(
    convolved: &Reference,
    total: &Expected,
    layers: &Layers,
    weights: &Weights,
) -> common::Result<[Expected; 4]> {
    let own = |reference: Reference| Expected { tolerance: reference.tolerance(), values: reference.values };
    Ok([
        own(convolved.clone()),
        own(reference::batch_norm(&layers[0].output, &weights.norm())?),
        own(reference::relu(&layers[1].output)?),
        Expected { values: total.values.clone(), tolerance: total.tolerance },
    ])
}

/// All three layers from the f64 convolution. Its values are rounded to f32 once on the way; BatchNorm multiplies that error and
/// the convolution's own by its gain and adds its own, and ReLU enlarges no difference.
fn together(convolved: &Reference, shape: &[usize], weights: &Weights) -> common::Result<Expected> {
    let rounded = convolved.values.iter().map(|&value| value as f32).collect();
    let normalised = reference::batch_norm(&Tensor::from_vec(shape, rounded)?, &weights.norm())?;
    let before = convolved.tolerance().absolute + F32_ROUND_OFF * convolved.magnitude;
    Ok(Expected {
        tolerance: Tolerance::absolute(weights.gain()? * before + normalised.tolerance().absolute),
        values: normalised.values.iter().map(|value| value.max(0.0)).collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::photo::Photo;

    fn column(table: &Table, name: &str) -> Vec<Cell> {
        let at = table.columns.iter().position(|column| column.name == name).unwrap();
        table.rows.iter().map(|row| row[at].clone()).collect()
    }

    /// What both sides compute, with a single run on the CPU.
    fn sides(device: &Device) -> (Context, Tensor, Weights, Layers, Layers) {
        let context = Context::new(device.clone(), Photo::built_in());
        let (input, weights) = (context.photo.to_tensor(), Weights::seeded().unwrap());
        let bench = Bench { warm_up: 0, repeats: 1, ..Bench::default() };
        let cpu = on_cpu(&input, &weights, &bench, &|_| ()).unwrap();
        let device = on_device(device, &input, &weights, &|_| ()).unwrap();
        (context, input, weights, cpu, device)
    }

    common::device_test! {
        fn both_sides_pass_and_a_planted_wrong_value_does_not(device) {
            let (context, input, weights, mut on_cpu, mut on_device) = sides(&device);
            let outcome = tabulate(&context, &input, &weights, &on_cpu, &on_device).unwrap();
            assert!(outcome.wrong.is_empty(), "{:?}", outcome.wrong);
            assert_eq!(column(&outcome.table, "check"), ["ok", "ok", "ok", "ok"].map(Cell::from));
            assert!(column(&outcome.table, "CPU ms").iter().all(|cell| matches!(cell, Cell::Number(ms) if *ms > 0.0)));
            for (cell, layer) in column(&outcome.table, "device ms").iter().zip(&on_device) {
                assert_eq!(matches!(cell, Cell::Number(_)), device.is_cuda(), "no time without a clock");
                if let Some(counts) = layer.timing.counts() {
                    assert!(counts.warp_instructions > 0 && counts.lane_instructions > counts.warp_instructions);
                }
            }
            if device.is_sim() {
                let counted: Vec<u64> =
                    on_device.iter().filter_map(|layer| Some(layer.timing.counts()?.launches)).collect();
                assert_eq!(counted, LAUNCHES.map(|launches| launches as u64));
            }

            // A hundredth of a value's usual size, one value of 800 thousand.
            on_device[1].output.as_mut_slice()?[777_777] += 0.01;
            on_cpu[3].output.as_mut_slice()?[5] = f32::NAN;
            let outcome = tabulate(&context, &input, &weights, &on_cpu, &on_device).unwrap();
            let checks = column(&outcome.table, "check");
            assert_eq!((&checks[0], &checks[1], &checks[3]), (&"ok".into(), &"WRONG".into(), &"ok".into()));
            assert!(outcome.wrong[0].starts_with("total on the CPU: 1 of 802816 values are wrong, the first at 5: NaN"));
            let planted = format!("BatchNorm on {}: 1 of 802816 values are wrong, the first at 777777", device.short_name());
            assert!(outcome.wrong[1].starts_with(&planted), "{:?}", outcome.wrong);
            Ok(())
        }
    }

    #[test]
    fn the_bound_of_the_whole_holds_for_a_sloppy_convolution_and_not_for_a_wrong_one() {
        let weights = Weights::seeded().unwrap();
        let image = Tensor::random(&[1, 3, 12, 12], 9);
        let convolved = reference::conv2d(&image, &weights.conv, None, params()).unwrap();
        let shape = [1, CHANNELS, 6, 6];
        let expected = together(&convolved, &shape, &weights).unwrap();
        let after = |error: f64| {
            let values = convolved.values.iter().map(|value| (value + error) as f32).collect();
            let normalised =
                reference::batch_norm_f32(&Tensor::from_vec(&shape, values).unwrap(), &weights.norm()).unwrap();
            reference::relu_f32(&normalised).unwrap().into_vec().unwrap()
        };
        let allowed = convolved.tolerance().absolute;
        assert!(compare(&after(allowed), &expected.values, expected.tolerance).is_ok());
        assert!(compare(&after(10.0 * allowed), &expected.values, expected.tolerance).is_err());
    }
}
