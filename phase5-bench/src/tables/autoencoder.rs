//! `autoencoder`: the spectral shape autoencoder, each layer as its own kernel, compared with PyTorch's; and each of its five
//! stages.

use std::time::Duration;

use bench::ladder::{ELSEWHERE, NO_COUNTS, columns, milliseconds, verdict};
use bench::table::{Cell, ColumnSpec};
use bench::timing::{Bench, Timing};
use common::check::{Tolerance, compare};
use common::prelude::*;
use common::progress::Progress;
use phase3_all_layers::backends::{Cpu, OnHost, Reliable, Unfused, infer};
use phase3_all_layers::models::autoencoder::{Autoencoder, Config, Stage};
use phase4_fusion::autoencoder::{OneKernel, plan};
use phase4_fusion::models::Arithmetic;
use phase4_fusion::models::runner::Runner;

use crate::spec::{Context, FinishedTable, InSummary, Make, Need, TableSpec};
use crate::tables::differences::mean_difference;
use crate::tables::peers::{
    CPU, OF_EAGER, PYTORCH_AUTOTUNED, PYTORCH_COMPILED, PYTORCH_EAGER, PYTORCH_GRAPH, Peer, about_cpu, is_quick, on_cpu,
};
use crate::torch::{self, Mode, PeerRequest};

const SEED: u64 = 5;
/// The batch for which stages are compared one by one.
const STAGES_AT: usize = 32;
/// Maximum error of a correct kernel of the literature: the tolerance here too.
const CLOSE: f64 = 5.7e-6;

/// The configuration of a row.
pub(crate) const CONFIGURATION: ColumnSpec = ColumnSpec::text("configuration", "config");
/// Samples in a batch.
pub(crate) const BATCH: ColumnSpec = ColumnSpec::identity("batch", "batch");
/// One of [`versions`], or PyTorch.
pub(crate) const BY: ColumnSpec = ColumnSpec::text("by", "by");

/// Names of the versions in the table; plots look for them.
pub(crate) mod versions {
    pub(crate) const UNFUSED: &str = "unfused";
    /// The same, launched as a graph; on a GPU.
    pub(crate) const UNFUSED_GRAPH: &str = "unfused, graph";
    pub(crate) const ONE_KERNEL: &str = "one kernel";
    /// Phase 4's plans, in the order of `Arithmetic::ALL`.
    pub(crate) const PLANNED: [&str; 3] = [PLANNED_F32, "planned tf32", "planned f16"];
    pub(crate) const PLANNED_F32: &str = "planned f32";
}
pub(crate) const MEAN_DIFFERENCE: ColumnSpec = ColumnSpec::number("mean_difference", "mean |Δ|", 3);

const COLUMNS: &[ColumnSpec] = &[
    CONFIGURATION,
    BATCH,
    BY,
    columns::MS,
    OF_EAGER,
    columns::LANE_MILLIONS.on_simulator(),
    columns::MAX_DIFFERENCE,
    MEAN_DIFFERENCE,
    columns::CHECK,
];

/// The table in the registry.
pub const TABLE: TableSpec = TableSpec {
    name: "autoencoder",
    shows: "unfused, fused, PyTorch: ms, speed-up, difference",
    uses: &[Need::Gpu, Need::PyTorch],
    columns: COLUMNS,
    make: Make::Measured(run),
};

/// Ways of running the model in PyTorch; trying kernels takes long, so the larger configurations skip the last one.
fn peers(context: &Context, config: &Config) -> Vec<Peer> {
    use torch::Arithmetic::{F16, F32, Tf32};
    const ALL: [Peer; 7] = [
        Peer::new(PYTORCH_EAGER, Mode::Eager, F32),
        Peer::new(PYTORCH_COMPILED, Mode::Compiled, F32),
        Peer::new(PYTORCH_GRAPH, Mode::Graph, F32),
        Peer::new(PYTORCH_AUTOTUNED, Mode::Autotuned, F32),
        Peer::new("PyTorch graph, tf32", Mode::Graph, Tf32),
        Peer::new("PyTorch graph, f16", Mode::Graph, F16),
        Peer::new("PyTorch tuned, f16", Mode::Autotuned, F16),
    ];
    let all = *config == Config::ORIGINAL;
    let is_measured =
        |&Peer { mode, .. }: &Peer| if context.only_summary { is_quick(mode) } else { all || mode != Mode::Autotuned };
    ALL.into_iter().filter(is_measured).collect()
}

/// The configuration and the batch that the summary shows.
const CONFIG_IN_SUMMARY: InSummary = InSummary { gpu: ORIGINAL, simulator: ORIGINAL };
const BATCH_IN_SUMMARY: InSummary = InSummary { gpu: "64", simulator: "1" };
/// The smallest configuration, which one kernel can hold.
pub(crate) const ORIGINAL: &str = "original";

/// Millions of instructions by lane, where they are counted.
fn lane_millions(timing: &Timing) -> Cell {
    Cell::or_absent(timing.counts().map(|counts| counts.lane_instructions as f64 / 1e6), NO_COUNTS)
}

/// Makes the table.
fn run(context: &Context) -> crate::Result<FinishedTable> {
    let device = &context.device;
    let (configs, batches): (&[(&str, Config)], &[usize]) = if device.is_cuda() {
        (&Config::ALL, &[1, 32, 64, 128, 256, 512, 4096])
    } else {
        (&Config::ALL[..1], &[1, 32])
    };
    let configs = context.chosen(configs, CONFIG_IN_SUMMARY, |(name, _)| name.to_owned());
    let batches = context.chosen(batches, BATCH_IN_SUMMARY, |batch| batch.to_string());
    let bench = Bench { limit: Duration::from_secs(1), ..Bench::default() };
    let progress = Progress::new((configs.len() * batches.len() + 1) as u64, "autoencoder");
    progress.set_message("autoencoder: PyTorch");
    let sizes = configs.iter().flat_map(|&(_, config)| batches.iter().map(move |&batch| (config, batch)));
    let work: Vec<PeerRequest> = sizes
        .flat_map(|(config, batch)| {
            let Config { n_mels, frames, latent, slice_latent } = config;
            let sizes = [n_mels, frames, latent, slice_latent];
            let request = move |Peer { mode, arithmetic, .. }: Peer| {
                PeerRequest::autoencoder(sizes, batch, mode).with_arithmetic(arithmetic)
            };
            peers(context, &config).into_iter().map(request)
        })
        .collect();
    let pytorch = context.pytorch.measure(device, &bench, &work);
    let mut of_pytorch = pytorch.timings.as_slice();

    let mut table = context.table(format!("autoencoder on {}", device.short_name()), COLUMNS);
    let (mut wrong, stream) = (Vec::new(), device.stream());
    for (name, config) in configs {
        let (parameters, peers) = (config.seeded(SEED), peers(context, &config));
        let cpu = Cpu::new();
        let model_on_cpu = Autoencoder::load(&cpu, config, &parameters)?;
        let model = Reliable::load(&Unfused::new(device), config, &parameters)?;
        let one_kernel = match OneKernel::load(device, &config, &parameters) {
            Err(error) if error.is_unsupported() => None,
            loaded => Some(loaded?),
        };
        for &batch in &batches {
            progress.inc(1);
            progress.set_message(format!("autoencoder: {name}, batch {batch}"));
            let (pytorch, rest) = of_pytorch.split_at(peers.len().min(of_pytorch.len()));
            of_pytorch = rest;
            let eager = pytorch.first().map_or(Err(ELSEWHERE.to_owned()), milliseconds);
            let timed = |by: &str, ms: Result<f64, String>| {
                let of_eager = ms.clone().and_then(|ms| Ok(100.0 * eager.clone()? / ms));
                let about = [(CONFIGURATION, name.into()), (BATCH, batch.into()), (BY, by.into())];
                about.into_iter().chain([(columns::MS, ms.into()), (OF_EAGER, of_eager.into())])
            };
            let mut check = |what: String, y: &Tensor, expected: &Tensor, allowed: Tolerance| {
                let (y, expected) = (y.as_slice()?, expected.as_slice()?);
                let (max, word) = verdict(&what, compare(y, expected, allowed), &mut wrong);
                let mean = mean_difference(y, expected);
                Ok::<_, common::Error>([
                    (columns::MAX_DIFFERENCE, max.into()),
                    (MEAN_DIFFERENCE, mean.into()),
                    (columns::CHECK, word.into()),
                ])
            };
            let close = Tolerance::absolute(CLOSE);
            let x = Tensor::random(&[batch, config.inputs()], 1);
            let mut given = config.slices(&x)?;
            let (on_host, expected) = on_cpu(context, || cpu.infer(&model_on_cpu, &given))?;
            if device.is_cuda() {
                table.row().set_all(timed(CPU, milliseconds(&Ok(on_host)))).finish("the others are compared with it");
            }
            let mut planned = model.plan(device, batch)?;
            let y = planned.infer(&stream, &given)?;
            let checked = check(format!("the autoencoder {name}, batch {batch}"), &y, &expected, close)?;
            let timing = bench.measure(&stream, || planned.queue(&stream))?;
            let lanes = lane_millions(&timing);
            table
                .row()
                .set_all(timed(versions::UNFUSED, milliseconds(&Ok(timing))))
                .set(columns::LANE_MILLIONS, lanes)
                .set_all(checked)
                .finish("not measured");
            if device.is_cuda() {
                let captured = planned.capture(&stream)?;
                let timing = bench.measure(&stream, || captured.queue(&stream))?;
                let row = table.row().set_all(timed(versions::UNFUSED_GRAPH, milliseconds(&Ok(timing))));
                row.finish("as without a graph");
            }
            if let Some(one_kernel) = &one_kernel {
                let (x, mut y) = (given.to_device(device)?, Tensor::full(given.shape(), f32::NAN).to_device(device)?);
                let timing = bench.measure(&stream, || one_kernel.launch(&stream, &x, &mut y))?;
                let lanes = lane_millions(&timing);
                let what = format!("the autoencoder {name} in one kernel, batch {batch}");
                let checked = check(what, &y.to_host()?, &expected, close)?;
                table
                    .row()
                    .set_all(timed(versions::ONE_KERNEL, milliseconds(&Ok(timing))))
                    .set(columns::LANE_MILLIONS, lanes)
                    .set_all(checked)
                    .finish("not measured");
            }
            for (arithmetic, by) in Arithmetic::ALL.into_iter().zip(versions::PLANNED) {
                let mut runner = Runner::new(device, plan(device, &config, &parameters, arithmetic, batch)?)?;
                let y = runner.infer(&stream, &given)?;
                let allowed = match arithmetic {
                    Arithmetic::F32 => close,
                    _ => Tolerance::of_scale(runner.plan().error_bound(), expected.as_slice()?),
                };
                let what = format!("the autoencoder {name} planned in {arithmetic}, batch {batch}");
                let checked = check(what, &y, &expected, allowed)?;
                let timing = bench.measure(&stream, || runner.queue(&stream))?;
                let lanes = lane_millions(&timing);
                table
                    .row()
                    .set_all(timed(by, milliseconds(&Ok(timing))))
                    .set(columns::LANE_MILLIONS, lanes)
                    .set_all(checked)
                    .finish("not measured");
            }
            for (Peer { name: by, .. }, timing) in peers.iter().zip(pytorch) {
                table.row().set_all(timed(by, milliseconds(timing))).finish(ELSEWHERE);
            }
            if batch == STAGES_AT {
                for stage in Stage::ALL {
                    let input = given.reshape(&stage.input_shape(&config, batch))?;
                    let y = infer(&stream, &model.only(stage), &input)?;
                    given = cpu.infer(model_on_cpu.only(stage), &input)?;
                    let checked = check(format!("{stage}, {name}, batch {batch}"), &y, &given, close)?;
                    let untimed = Err("a stage alone is compared, not timed".to_owned());
                    let row = table.row().set_all(timed(&stage.to_string(), untimed)).set_all(checked);
                    row.finish("not counted here");
                }
            }
        }
        wrong.extend(model.warnings());
    }
    if device.is_cuda() {
        table.note(about_cpu());
    }
    table.note(if device.is_sim() {
        "lane M: millions of instructions that the simulator executed, counted by lane."
    } else {
        "By events on a GPU that waits for the host, input and output on the device."
    });
    table.note(format!(
        "|Δ|: to the CPU's results, a stage's for the same input; {CLOSE:e} is allowed in f32, else its plan's bound. Weights: seeded."
    ));
    table.note(
        "planned: a launch for each product and LayerNorm, in f32 for each GELU; the last two linear layers are one.",
    );
    if let Some(version) = pytorch.version {
        table.note(format!(
            "PyTorch {version}, f32 without TF32 but where it is named; it normalises the basis in each pass."
        ));
    }
    Ok(FinishedTable { table: table.finish(), wrong })
}
