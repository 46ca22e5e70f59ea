//! Common code of the tables of ladders with libraries and PyTorch.

use std::time::Duration;

use bench::ladder::{Expected, LadderTable, Outcome, Peak, StepResult, StepRun, columns};
use bench::peer::Suggestion;
use bench::table::ColumnSpec;
use bench::timing::{Bench, Queue, Timing};
use common::prelude::Stream;

use crate::limits::Limits;
use crate::spec::Context;
use crate::torch::{Arithmetic, Mode};

/// The host, on all its cores.
pub(crate) const CPU: &str = "CPU";
/// The ladder's own choice for the problem.
pub(crate) const TUNED: &str = "tuned";
/// PyTorch, operation by operation.
pub(crate) const PYTORCH_EAGER: &str = "PyTorch eager";
/// PyTorch, by `torch.compile`.
pub(crate) const PYTORCH_COMPILED: &str = "PyTorch compiled";
/// PyTorch, as a CUDA graph.
pub(crate) const PYTORCH_GRAPH: &str = "PyTorch graph";
/// By `torch.compile` with `max-autotune`, as a CUDA graph.
pub(crate) const PYTORCH_AUTOTUNED: &str = "PyTorch tuned";

/// PyTorch, by `torch.compile`, as a CUDA graph.
pub(crate) const PYTORCH_COMPILED_GRAPH: &str = "compiled graph";

/// cuBLASLt, by the [`fastest`] of its suggestions.
pub(crate) const CUBLASLT: &str = "cuBLASLt";

/// Speed relative to PyTorch's operation by operation, for tables of whole models. Without decimals, models fit 100 columns.
pub(crate) const OF_EAGER: ColumnSpec = ColumnSpec::number("of_eager", "% of eager", 0).level_at(100);

/// A mode in which PyTorch runs a model.
#[derive(Clone, Copy)]
pub(crate) struct Peer {
    pub(crate) name: &'static str,
    pub(crate) mode: Mode,
    pub(crate) arithmetic: Arithmetic,
    pub(crate) channels_last: bool,
}

impl Peer {
    pub(crate) const fn new(name: &'static str, mode: Mode, arithmetic: Arithmetic) -> Peer {
        Peer { name, mode, arithmetic, channels_last: false }
    }

    /// The same channels last, which in f32 must be requested.
    pub(crate) const fn channels_last(self) -> Peer {
        Peer { channels_last: true, ..self }
    }
}

/// Whether PyTorch can run this mode at once. Compiling a model takes minutes, which the summary does not have.
pub(crate) fn is_quick(mode: Mode) -> bool {
    matches!(mode, Mode::Cpu | Mode::Eager | Mode::Graph)
}

/// How [`bench`] measures, for a note.
pub(crate) const MEDIANS: &str =
    "Medians by events of the device alone, launches queued ahead, inputs as warm as a run leaves them.";

/// A launch on a busy device, warm.
pub(crate) fn bench() -> Bench {
    Bench { queue: Queue::Warm, limit: Duration::from_secs(2), ..Bench::default() }
}

/// A few runs by the host's clock, for work that takes seconds on a slow machine.
pub(crate) fn on_host(repeats: usize) -> Bench {
    Bench { warm_up: 1, repeats, limit: Duration::from_secs(4), ..Bench::default() }
}

/// Time by the host's clock, [a few times](on_host).
pub(crate) fn by_host(
    context: &Context,
    repeats: usize,
    work: impl FnMut() -> common::Result<()>,
) -> common::Result<Timing> {
    context.host_bench(on_host(repeats)).measure_host(work)
}

/// `medians of 5 runs or more, quartiles within 3 % of them`: the smallest number of runs, and the quartile that is furthest from its
/// median.
pub(crate) fn spread_note<'a>(timings: impl IntoIterator<Item = &'a Timing>) -> String {
    let timings: Vec<&Timing> = timings.into_iter().collect();
    let runs = timings.iter().map(|timing| timing.repeats()).min().unwrap_or(0);
    if runs == 1 {
        return "run once".to_owned();
    }
    let widest = timings
        .iter()
        .filter_map(|timing| {
            let (median, (low, high)) = (timing.median_ms()?, timing.quartiles_ms()?);
            Some(100.0 * (median - low).max(high - median) / median)
        })
        .fold(0.0, f64::max);
    format!("medians of {runs} runs or more, quartiles within {widest:.0} % of them")
}

/// Time and result on the host's cores. With the simulator, where no table shows the time, it is run once.
pub(crate) fn on_cpu<T>(context: &Context, mut work: impl FnMut() -> common::Result<T>) -> common::Result<(Timing, T)> {
    let mut result = None;
    let mut work = || {
        result = Some(work()?);
        Ok(())
    };
    let timing = if context.device.is_sim() {
        Bench { warm_up: 0, repeats: 1, ..Bench::default() }.measure_host(&mut work)?
    } else {
        by_host(context, 5, &mut work)?
    };
    Ok((timing, result.expect("it has been run to be timed")))
}

/// [`on_cpu`] for a ladder: its values are checked like those of the steps.
pub(crate) fn step_on_cpu(
    context: &Context,
    expected: &Expected,
    work: impl FnMut() -> common::Result<Vec<f32>>,
) -> common::Result<StepRun> {
    let (timing, values) = on_cpu(context, work)?;
    Ok(StepResult::Checked(match expected.check(&values) {
        Ok(report) => Outcome::Ran { timing, report },
        Err(mismatch) => Outcome::Wrong(mismatch),
    })
    .into())
}

/// Note on rows of [`CPU`].
pub(crate) fn about_cpu() -> String {
    format!("{CPU}: the course's own, on {} threads, by the host's clock.", rayon::current_num_threads())
}

/// The fastest of cuBLASLt's suggestions, by a short measurement of each launch; or why there is none.
pub(crate) fn fastest<'l>(
    suggestions: common::Result<Vec<Suggestion<'l>>>,
    stream: &Stream,
    mut launch: impl FnMut(&Suggestion<'l>) -> common::Result<()>,
) -> Result<Suggestion<'l>, String> {
    let bench = Bench { warm_up: 1, repeats: 5, ..bench() };
    let mut best = Err("cuBLASLt suggests no algorithm for it".to_owned());
    for suggestion in suggestions.map_err(|error| error.to_string())? {
        let Ok(timing) = bench.measure(stream, || launch(&suggestion)) else { continue };
        let ms = timing.median_ms().unwrap_or(f64::INFINITY);
        if best.as_ref().map_or(true, |(least, _)| ms < *least) {
            best = Ok((ms, suggestion));
        }
    }
    best.map(|(_, suggestion)| suggestion)
}

/// The columns of a ladder over several problems.
pub(crate) const fn ladder_columns(problem: ColumnSpec) -> [ColumnSpec; 9] {
    [
        problem,
        columns::STEP,
        columns::MS,
        columns::TFLOPS,
        columns::OF_PEER,
        // The simulator has no peak, and a line of 100 characters no room for both.
        columns::LANES_PER_PRODUCT.on_simulator(),
        columns::OF_PEAK.on_gpu(),
        columns::MAX_DIFFERENCE,
        columns::CHECK,
    ]
}

/// The table with the device's limits, if it has a clock, and the notes on its columns.
pub(crate) fn noted(table: LadderTable, limits: Option<Limits>) -> LadderTable {
    let mut table = table.with_peak(limits.map(Peak::from));
    match limits {
        Some(limits) => {
            table.note(MEDIANS);
            table.note(limits.note());
        }
        None => {
            table.note(
                "lanes per product: instructions that the simulator executed, counted by lane, for each multiply-add.",
            );
        }
    }
    table.note(
        "|Δ|: to the f64 reference; f32 rounding may cost what `check` derives. Of large outputs a seeded sample of 16384 \
         is compared, and all must be finite.",
    );
    table
}
