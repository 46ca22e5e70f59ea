//! The linear layer with ReLU and its gradients: each version, the bytes it must move, and those it requests.

use bench::ladder::{self, Contest, Cost, Expected, LadderTable, Outcome, StepRun, columns, if_supported};
use bench::parts::{Part, Report};
use bench::table::{ColumnSpec, DeviceKind, Table, TableBuilder};
use bench::timing::{Bench, Queue};
use common::check::{self, Mismatch, Tolerance};
use common::prelude::*;
use common::reference;

use super::{IDEA, step_table};
use crate::linear::backward::{Backward, Gradients, Pass};
use crate::linear::traffic::Traffic;
use crate::linear::{LADDER, LIBRARY, Step, add_bias_and_clip, load_bias_and_clip};

/// `cargo run -p phase2-conv-bn -- linear`.
pub const PART: Part = Part {
    name: "linear",
    about: "Linear+ReLU, fused and not, and its gradients: the bytes they need and the bytes they ask for",
    tables: &["linear-steps", "linear", "linear-traffic"],
    by_default: true,
    run,
};

/// Batch, inputs and outputs on the simulator: the layer below, an eighth of it in each dimension.
const SIMULATED: [usize; 3] = [128, 784, 256];
/// On a GPU: the layer of the story.
const MEASURED: [usize; 3] = [1024, 784, 2048];

/// The versions, their times, and the bytes.
fn run(device: &Device) -> Result<Report> {
    let mut versions = Versions::new(device)?;
    for step in LADDER {
        versions.forward(step)?;
    }
    versions.second_pass()?;
    for (name, separate) in [("∇ fused", false), ("∇ separate", true)] {
        versions.backward(name, separate)?;
    }
    let (measured, wrong) = versions.steps.finish();
    Ok(Report { tables: vec![steps(), measured, versions.traffic.finish()], wrong })
}

/// New idea of each version.
fn steps() -> Table {
    const VERSION: ColumnSpec = traffic_columns::VERSION;
    let mut table = TableBuilder::of("linear: y = relu(x·Wᵀ + b)", [VERSION, IDEA]);
    let mut row = |version: &str, idea: &str| table.row().set(VERSION, version).set(IDEA, idea).complete();
    for step in LADDER {
        row(&title(step), step.idea());
    }
    row("∇ fused", "both products mask dy while they load it; nothing is allocated");
    row("∇ separate", "the masked dy is allocated and written, and both products read it");
    table.finish()
}

/// `1 naive`.
fn title(step: &Step) -> String {
    format!("{} {}", step.number(), step.name())
}

/// The bytes that a version needs and requests.
mod traffic_columns {
    use bench::table::ColumnSpec;

    pub(super) const VERSION: ColumnSpec = ColumnSpec::text("version", "version");
    pub(super) const LAUNCHES: ColumnSpec = ColumnSpec::number("launches", "launches", 0);
    pub(super) const NEEDED: ColumnSpec = ColumnSpec::number("mb_needed", "MB needed", 3);
    pub(super) const ONCE: ColumnSpec = ColumnSpec::number("mb_once_a_launch", "MB once a launch", 3);
    pub(super) const ASKED: ColumnSpec = ColumnSpec::number("mb_asked", "MB asked", 3);
    pub(super) const SECTORS: ColumnSpec = ColumnSpec::number("mb_in_sectors", "MB in sectors", 3);
    pub(super) const ASKED_PER_NEEDED: ColumnSpec = ColumnSpec::number("asked_per_needed", "asked / needed", 1);
    pub(super) const ALL: [ColumnSpec; 7] = [VERSION, LAUNCHES, NEEDED, ONCE, ASKED, SECTORS, ASKED_PER_NEEDED];
}

/// The layer, and the growing tables.
struct Versions {
    stream: Stream,
    bench: Bench,
    size: [usize; 3],
    x: Tensor,
    weight: Tensor,
    bias: Tensor,
    dy: Tensor,
    /// On the host, in this order: x, W, bias, dy.
    operands: [Tensor; 4],
    expected: Expected,
    steps: LadderTable,
    traffic: TableBuilder,
}

impl Versions {
    fn new(device: &Device) -> Result<Versions> {
        let size @ [batch, inputs, outputs] = if device.is_sim() { SIMULATED } else { MEASURED };
        let operands = [
            Tensor::random(&[batch, inputs], 1),
            Tensor::random(&[outputs, inputs], 2),
            Tensor::random(&[outputs], 3),
            Tensor::random(&[batch, outputs], 4),
        ];
        let [x, weight, bias, dy] = &operands;
        let product = reference::Gemm::new(x.as_slice()?, weight.as_slice()?, batch, outputs, inputs);
        let layer = reference::Gemm { transposed: true, bias: Some(bias.as_slice()?), relu: true, ..product };
        let name = format!("{batch} × {inputs} → {outputs}, on {}", device.short_name());
        let title = format!("linear: bytes of {name}");
        let mut traffic = TableBuilder::new(title, DeviceKind::of(device), &traffic_columns::ALL);
        traffic.note(
            "needed: each tensor once for each kernel that touches it, by its size. once a launch: the different sectors that \
             a launch touches, counted. asked: what lanes load and store, each value as often as they do. in sectors: \
             the 32-byte sectors that their accesses touch. MB: 10⁶ bytes.",
        );
        Ok(Versions {
            stream: device.stream(),
            bench: Bench { queue: Queue::Warm, ..Bench::default() },
            size,
            x: x.to_device(device)?,
            weight: weight.to_device(device)?,
            bias: bias.to_device(device)?,
            dy: dy.to_device(device)?,
            expected: Expected::gemm(&layer, 5)?,
            steps: step_table(format!("linear: y = relu(x·Wᵀ + b), {name}"), device),
            traffic,
            operands,
        })
    }

    /// Operations of one product.
    fn flops(&self) -> f64 {
        2.0 * self.size.iter().product::<usize>() as f64
    }

    fn empty(&self, like: &Tensor) -> Result<Tensor> {
        Tensor::empty_on(self.stream.device(), like.shape())
    }

    fn forward(&mut self, step: &Step) -> Result<()> {
        let [batch, inputs, outputs] = self.size;
        let mut y = self.empty(&self.dy)?;
        let layer = if_supported(step.load(self.stream.device()))?;
        let contest = Contest { stream: &self.stream, bench: &self.bench, expected: &self.expected, announce: &|_| () };
        let run = contest.run(step.name(), &layer, &mut y, |layer, y| {
            layer.launch(&self.stream, &self.x, &self.weight, &self.bias, y)
        })?;
        let again = if step.number() == LIBRARY.number() { Traffic::second_pass(batch, outputs) } else { 0 };
        let needed = Traffic::ideal(batch, inputs, outputs) + again;
        self.row(title(step), self.flops(), needed, self.expected.tolerance(), &run);
        Ok(())
    }

    /// The kernel after a library's product, which also runs on the simulator.
    fn second_pass(&mut self) -> Result<()> {
        let Some(source) = LIBRARY.source() else { return Ok(()) };
        let kernel = load_bias_and_clip(self.stream.device(), source)?;
        let [batch, inputs, outputs] = self.size;
        let [x, weight, bias, _] = &self.operands;
        let without = reference::Gemm {
            transposed: true,
            ..reference::Gemm::new(x.as_slice()?, weight.as_slice()?, batch, outputs, inputs)
        };
        let product: Vec<f32> = without.all()?.values.iter().map(|&value| value as f32).collect();
        let columns = bias.as_slice()?.iter().cycle();
        let values = product.iter().zip(columns).map(|(&sum, &bias)| f64::from((sum + bias).max(0.0))).collect();
        // One addition, which is done here as there.
        let expected = Expected::all(reference::Reference { values, terms: 0, magnitude: 0.0 });
        let product = Tensor::from_vec(&[batch, outputs], product)?.to_device(self.stream.device())?;
        let mut y = self.empty(&self.dy)?;
        // It works in place: what is timed goes on from the result that was checked.
        let mut copied = false;
        let run = StepRun::profiled(self.stream.device(), || {
            ladder::run(&self.stream, &self.bench, &mut y, &expected, |y| {
                if !std::mem::replace(&mut copied, true) {
                    self.stream.memcpy_dtod(product.buffer()?, y.buffer_mut()?)?;
                }
                add_bias_and_clip(&self.stream, &kernel, &self.bias, y)
            })
        })?;
        let values = batch * outputs;
        let needed = Traffic::second_pass(batch, outputs) + 4 * outputs as u64;
        self.row("· its second pass".to_owned(), values as f64, needed, expected.tolerance(), &run);
        Ok(())
    }

    fn backward(&mut self, name: &str, separate: bool) -> Result<()> {
        let (stream, [batch, inputs, outputs]) = (self.stream.clone(), self.size);
        let [x, weight, _, dy] = &self.operands;
        // Whatever made y: its signs are the mask.
        let y = Tensor::random(&[batch, outputs], 6);
        let reference = reference::linear_relu_backward(x, weight, &y, dy)?;
        let expected = [reference.input, reference.weight, reference.bias].map(Expected::all);
        let y = y.to_device(stream.device())?;
        let (mut dx, mut dweight, mut dbias) = (self.empty(x)?, self.empty(weight)?, self.empty(&self.bias)?);
        let kernels = Backward::load(stream.device())?;
        stream.poison(dweight.buffer_mut()?)?;
        stream.poison(dbias.buffer_mut()?)?;
        let pass = Pass { dy: &self.dy, y: &y, x: &self.x, weight: &self.weight };
        let mut tolerance = expected[0].tolerance();
        let run = StepRun::profiled(stream.device(), || {
            let mut outcome = ladder::run(&stream, &self.bench, &mut dx, &expected[0], |dx| {
                let gradients = Gradients { dx, dweight: &mut dweight, dbias: &mut dbias };
                if separate {
                    kernels.separate(&stream, pass, gradients)
                } else {
                    kernels.fused(&stream, pass, gradients)
                }
            })?;
            for (gradient, expected) in [&dweight, &dbias].into_iter().zip(&expected[1..]) {
                outcome = worse(outcome, expected.check(gradient.to_host()?.as_slice()?));
                tolerance.absolute = tolerance.absolute.max(expected.tolerance().absolute);
            }
            Ok(outcome)
        })?;
        let needed = Traffic::gradients(batch, inputs, outputs, separate);
        self.row(name.to_owned(), 2.0 * self.flops(), needed, tolerance, &run);
        Ok(())
    }

    /// Adds a row to both tables.
    fn row(&mut self, name: String, flops: f64, needed: u64, tolerance: Tolerance, run: &StepRun) {
        use traffic_columns::*;
        self.steps.allow(tolerance.absolute);
        self.steps.row(&[(columns::STEP, &name)], Cost { flops, ..Cost::default() }, run);
        let needed = needed as f64 / 1e6;
        let row = self.traffic.row().set(VERSION, name).set(NEEDED, needed);
        let row = match run.counters() {
            Ok(_) => {
                let Traffic { unique, requested, sectors, .. } = Traffic::of(&run.profiles);
                let [once, asked, sectors] = [unique, requested, sectors].map(|bytes| bytes as f64 / 1e6);
                row.set(LAUNCHES, run.profiles.len())
                    .set(ONCE, once)
                    .set(ASKED, asked)
                    .set(SECTORS, sectors)
                    .set(ASKED_PER_NEEDED, asked / needed)
            }
            Err(_) => row,
        };
        row.finish(&run.counters().err().unwrap_or_default());
    }
}

/// `outcome` with one result more.
fn worse(outcome: Outcome, checked: std::result::Result<check::Report, Mismatch>) -> Outcome {
    match (outcome, checked) {
        (Outcome::Ran { timing, report }, Ok(other)) => {
            Outcome::Ran { timing, report: if other.max_abs > report.max_abs { other } else { report } }
        }
        (Outcome::Ran { .. }, Err(mismatch)) => Outcome::Wrong(mismatch),
        (outcome, _) => outcome,
    }
}
