//! How long a kernel takes on a GPU; on the simulator, what it costs.

use anyhow::{Result, bail};
use assignments::gpu::Spread;
use assignments::grade::sizes;
use assignments::show::{Picture, Request};
use common::command::{Shell, say};
use common::device::{Device, DeviceChoice};
use common::table::{Cell, ColumnSpec, TableBuilder};

use super::{Session, compiler, show};

const KERNEL: ColumnSpec = ColumnSpec::text("kernel", "kernel");
const MS: ColumnSpec = ColumnSpec::number("ms", "ms", 4);
const QUARTILES: ColumnSpec = ColumnSpec::text("quartiles", "quartiles");
const BANDWIDTH: ColumnSpec = ColumnSpec::number("gb/s", "GB/s", 1);
const RATIO: ColumnSpec = ColumnSpec::number("ratio", "solution = 1", 2);

/// Measures the exercise of that id, else the next one.
pub fn run(session: &Session, id: Option<&str>, device: Option<DeviceChoice>, shell: &mut Shell) -> Result<()> {
    compiler()?;
    let Some(exercise) = session.chosen(id)? else { return Ok(shell.print("All exercises pass.\n")?) };
    let file = exercise.file("exercise.cu");
    let device = Device::open(device.unwrap_or_default())?;
    say("device", device.describe());
    let Some(gpu) = super::gpu(&device) else {
        let request =
            Request { picture: Some(Picture::Timeline), sizes: exercise.counts.clone(), block: [0; 3], line: None };
        return match session.grader.show(exercise, &file, request)? {
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
    let library = exercise.library.map(|library| format!("{library:?}").to_lowercase()).unwrap_or_default();
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
