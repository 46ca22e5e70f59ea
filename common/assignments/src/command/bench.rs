//! Times of kernels on a GPU, or their costs on the simulator.

use anyhow::{Context, Result, bail, ensure};
use bench::command::{SaveArgs, Shell, say};
use bench::record::Record;
use bench::table::{Cell, ColumnSpec, TableBuilder};
use clap::Args;
use common::device::{Device, DeviceChoice};
use common::progress::Progress;

use super::{Session, compiler, show};
use crate::exercise::Library;
use crate::grade::sizes;
use crate::job::{Picture, ShowRequest, Spread};

const KERNEL: ColumnSpec = ColumnSpec::text("kernel", "kernel");
const MS: ColumnSpec = ColumnSpec::number("ms", "ms", 4);
const QUARTILES: ColumnSpec = ColumnSpec::text("quartiles", "quartiles");
const BANDWIDTH: ColumnSpec = ColumnSpec::number("gb/s", "GB/s", 1);
const RATIO: ColumnSpec = ColumnSpec::number("ratio", "solution = 1", 2);

const EXERCISE: ColumnSpec = ColumnSpec::text("exercise", "exercise");
const AT: ColumnSpec = ColumnSpec::text("at", "at");
const LIBRARY: ColumnSpec = ColumnSpec::text("library", "library");
const LIBRARY_MS: ColumnSpec = ColumnSpec::number("library ms", "library ms", 4);
const TIMES_LIBRARY: ColumnSpec = ColumnSpec::number("times library", "library = 1", 2);

/// Arguments of `bench`.
#[derive(Args)]
pub(crate) struct BenchArgs {
    /// Exercise from `list` [default: the next one]
    id: Option<String>,
    /// Measure all solutions on a GPU
    #[arg(long, conflicts_with = "id")]
    solutions: bool,
    #[command(flatten)]
    pub save: SaveArgs,
}

/// Measures the exercise of that id, else the next one, or all solutions.
pub(crate) fn run(session: &Session, args: &BenchArgs, device: Option<DeviceChoice>, shell: &mut Shell) -> Result<()> {
    compiler()?;
    if args.solutions {
        return solutions(session, device, shell);
    }
    ensure!(args.save.save.is_none(), "--save is for --solutions");
    let Some(exercise) = session.chosen(args.id.as_deref())? else { return Ok(shell.print("All exercises pass.\n")?) };
    let file = exercise.file("exercise.cu");
    let device = Device::open(device.unwrap_or_default())?;
    say("device", device.describe());
    let Some(gpu) = super::gpu(&device) else {
        let request =
            ShowRequest { picture: Some(Picture::Timeline), sizes: exercise.counts.clone(), block: [0; 3], line: None };
        let text = std::fs::read_to_string(&file).with_context(|| format!("{} cannot be read", file.display()))?;
        return match session.grader.show(exercise, &text, request)? {
            Ok(shown) => {
                shell.table(&show::counts(exercise, &shown, &session.grader.solution(exercise)?))?;
                Ok(shell
                    .print("A simulator has counts in place of times; with a GPU, --device cuda measures those.\n")?)
            }
            Err(why) => bail!("{}: nothing to count\n{why}", exercise.id),
        };
    };
    // No GPU stops a kernel that is not.
    let verdict = session.check(exercise)?;
    if !verdict.is_sound() {
        shell.fail_quietly();
        return Ok(shell.print(&format!("{verdict}A kernel is timed when it is correct and clean.\n"))?);
    }
    let outcome = session.grader.bench(exercise, &file, gpu)?;
    let wrong = outcome.cases.iter().find_map(|case| case.wrong.clone());
    let Some(times) = outcome.times else {
        let why = outcome.skipped.or(outcome.stopped).or(wrong).unwrap_or_default();
        bail!("{}: nothing to time on {gpu}\n{why}", exercise.id);
    };
    let has_solution = exercise.file("solution.cu").exists();
    let solution = if has_solution { Some(session.grader.solution_times(exercise, gpu)?.kernel) } else { None };
    let title = format!("{} at {} on {}", exercise.id, sizes(exercise.bench_sizes()), device.describe());
    let mut table = TableBuilder::of(title, [KERNEL, MS, QUARTILES, BANDWIDTH, RATIO]);
    let mut add = |name: &str, Spread { low, median, high }: Spread| {
        let row = table.row().set(KERNEL, name).set(MS, median).set(QUARTILES, format!("{low:.4}–{high:.4}"));
        let bandwidth = times.bytes as f64 / (median * 1e6);
        let ratio = Cell::or_absent(solution.map(|solution| median / solution.median), "there is no solution.cu here");
        row.set(BANDWIDTH, bandwidth).set(RATIO, ratio).complete();
    };
    add("yours", times.kernel);
    if let Some(solution) = solution {
        add("solution", solution);
    }
    let library = exercise.library.map(Library::name).unwrap_or_default();
    match &times.library {
        Some(Ok(spread)) => add(&format!("library: {library}"), *spread),
        Some(Err(why)) => table.row().set(KERNEL, format!("library: {library}")).finish(why.as_str()),
        None => {}
    }
    table.note(format!(
        "Medians of 20 runs; before each, the cache is filled with other data. GB/s: of the {} bytes that have to be read and \
         written at least.",
        times.bytes
    ));
    Ok(shell.table(&table.finish())?)
}

/// Measures the solutions of all exercises.
fn solutions(session: &Session, device: Option<DeviceChoice>, shell: &mut Shell) -> Result<()> {
    let device = Device::open(device.unwrap_or_default())?;
    say("device", device.describe());
    let Some(gpu) = super::gpu(&device) else { bail!("solutions are measured on a GPU: the simulator has no times") };
    let mut record = Record::begin(&device);
    let columns = [EXERCISE, AT, MS, BANDWIDTH, LIBRARY, LIBRARY_MS, TIMES_LIBRARY];
    let mut table = TableBuilder::on(&device, "solutions of the exercises", &columns);
    let bar = Progress::new(session.exercises.len() as u64, "measuring");
    for exercise in &session.exercises {
        let outcome = session.grader.bench(exercise, &exercise.file("solution.cu"), gpu)?;
        let row = table.row().set(EXERCISE, &*exercise.id).set(AT, sizes(exercise.bench_sizes()));
        match (outcome.skipped, outcome.times) {
            (Some(reason), _) => row.finish(&reason),
            (None, None) => {
                let wrong = outcome.cases.iter().find_map(|case| case.wrong.clone());
                let why = outcome.stopped.or(wrong).unwrap_or_default();
                shell.fail(format!("{}: {why}", exercise.id));
                row.finish(&why);
            }
            (None, Some(times)) => {
                let ms = times.kernel.median;
                let row = row.set(MS, ms).set(BANDWIDTH, times.bytes as f64 / (ms * 1e6));
                let row = row.set(LIBRARY, exercise.library.map(Library::name).unwrap_or_default());
                match times.library.unwrap_or_else(|| Err("no library is compared with".to_owned())) {
                    Ok(library) => {
                        row.set(LIBRARY_MS, library.median).set(TIMES_LIBRARY, ms / library.median).complete();
                    }
                    Err(why) => row.finish(&why),
                }
            }
        }
        bar.inc(1);
    }
    bar.finish();
    table.note(
        "Values are right at all sizes. Medians of 20 runs; before each, the cache is filled with other data. GB/s counts the \
         bytes that any solution has to read and write.",
    );
    let table = table.finish();
    shell.table(&table)?;
    record.push("solutions", table);
    Ok(shell.save(&record)?)
}
