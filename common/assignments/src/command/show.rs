//! Costs of a kernel, line by line, and a picture of it.

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use bench::command::Shell;
use bench::table::{Cell, ColumnSpec, Table, TableBuilder, wrap};
use clap::Args;
use common::ptx_sim::{Limits, Occupancy};

use super::{Session, compiler};
use crate::exercise::{Count, Exercise};
use crate::grade::sizes;
use crate::job::{Line, Picture, ShowRequest, Shown};
use crate::tasks::Sizes;

const COUNT: ColumnSpec = ColumnSpec::text("count", "count");
const YOURS: ColumnSpec = ColumnSpec::number("yours", "yours", 0);
const SOLUTION: ColumnSpec = ColumnSpec::number("solution", "solution", 0);
const ALLOWED: ColumnSpec = ColumnSpec::number("allowed", "allowed", 0);
const VERDICT: ColumnSpec = ColumnSpec::text("verdict", "verdict");

const LINE: ColumnSpec = ColumnSpec::identity("line", "line");
const INSTRUCTIONS: ColumnSpec = ColumnSpec::number("instructions", "instructions", 0);
const SECTORS: ColumnSpec = ColumnSpec::text("sectors", "sectors (ideal)");
const WAYS: ColumnSpec = ColumnSpec::text("ways", "bank ways");
const DIVERGENT: ColumnSpec = ColumnSpec::text("divergent", "divergent");
const SOURCE: ColumnSpec = ColumnSpec::text("source", "source");

/// Arguments of `show`.
#[derive(Args, Default)]
pub(crate) struct ShowArgs {
    /// Exercise from `list` [default: the next one]
    pub id: Option<String>,
    /// Kind of picture to draw [default: the access that wastes most]
    #[arg(long, value_enum)]
    picture: Option<Picture>,
    /// Draw an access of this line of exercise.cu
    #[arg(long)]
    line: Option<u32>,
    /// Draw case N of exercise.toml [default: the one that fails, else the smallest of more than one element]
    #[arg(long, value_name = "N")]
    case: Option<usize>,
    /// Draw this block
    #[arg(long, value_name = "X,Y,Z", value_delimiter = ',', default_value = "0")]
    block: Vec<u32>,
    /// Only write the picture
    #[arg(long)]
    no_open: bool,
}

/// Shows the costs of an exercise's kernel, and writes and opens its picture.
pub(crate) fn run(session: &Session, args: &ShowArgs, shell: &mut Shell) -> Result<()> {
    compiler()?;
    let Some(exercise) = session.chosen(args.id.as_deref())? else { return Ok(shell.print("All exercises pass.\n")?) };
    show(session, exercise, args, shell)
}

/// [`run`] for a given exercise.
pub(crate) fn show(session: &Session, exercise: &Exercise, args: &ShowArgs, shell: &mut Shell) -> Result<()> {
    let file = exercise.file("exercise.cu");
    let failing = session.failing(exercise)?;
    let case = match (args.case, &failing) {
        (Some(number), _) => numbered_case(exercise, number)?,
        (None, Some(failing)) => failing,
        (None, None) => exercise.clearest_case(),
    };
    if failing.is_some() {
        shell.print(&format!("{} does not pass yet: `check {}` says why.\n", exercise.id, exercise.id))?;
    }
    let at = sizes(case) + if failing.as_ref() == Some(case) { ", where it fails" } else { "" };
    let mut block = [0; 3];
    ensure!(args.block.len() <= 3, "a block has at most three indices: --block X,Y,Z");
    args.block.iter().zip(&mut block).for_each(|(&given, index)| *index = given);
    let request = ShowRequest { picture: args.picture, sizes: case.clone(), block, line: args.line };
    let text = std::fs::read_to_string(&file).with_context(|| format!("{} cannot be read", file.display()))?;
    let shown = match session.grader.show(exercise, &text, request)? {
        Ok(shown) => shown,
        Err(why) => {
            shell.fail_quietly();
            return Ok(shell.print(&format!("{}: nothing to show\n{why}\n", exercise.id))?);
        }
    };
    let solution = session.grader.solution(exercise)?;
    shell.table(&counts(exercise, &shown, &solution))?;
    shell.table(&lines(exercise, &shown.lines, &text))?;
    shell.print(&format!("\n{}", occupancy(&shown, shell.terminal().width)))?;
    match &shown.picture {
        Err(why) => Ok(shell.print(&format!("no picture at {at}: {why}\n"))?),
        Ok(svg) => {
            let path = write(session, exercise, svg)?;
            shell.print(&format!("picture at {at}: {}\n", path.display()))?;
            if args.no_open {
                return Ok(());
            }
            match open::that_detached(&path) {
                Ok(()) => Ok(()),
                Err(_) => Ok(shell.print("It cannot be opened from here: open the file in a browser.\n")?),
            }
        }
    }
}

/// Case `number`, from 1 on.
fn numbered_case(exercise: &Exercise, number: usize) -> Result<&Sizes> {
    let case = number.checked_sub(1).and_then(|at| exercise.cases.get(at));
    case.with_context(|| format!("`{}` has the cases 1 to {}", exercise.id, exercise.cases.len()))
}

/// Counts against the budget.
pub(crate) fn counts(exercise: &Exercise, shown: &Shown, solution: &BTreeMap<Count, u64>) -> Table {
    let title = format!("{} at {}", exercise.id, sizes(&exercise.counts));
    let mut table = TableBuilder::of(title, [COUNT, YOURS, SOLUTION, ALLOWED, VERDICT]);
    for count in Count::ALL {
        let of = |counts: &BTreeMap<Count, u64>| counts.get(&count).copied().unwrap_or(0);
        let (yours, base) = (of(&shown.counts), of(solution));
        let budget = exercise.allowed(count, solution);
        if yours == 0 && base == 0 && budget.is_none() {
            continue;
        }
        let verdict = match budget {
            Some(budget) if yours > budget => "too many",
            Some(_) => "within",
            None => "",
        };
        let limit = budget.map_or(Cell::from(""), Cell::from);
        let row = table.row().set(COUNT, count.name()).set(YOURS, yours).set(SOLUTION, base);
        row.set(ALLOWED, limit).set(VERDICT, verdict).complete();
    }
    table.finish()
}

/// The file's lines that were executed.
fn lines(exercise: &Exercise, lines: &[Line], text: &str) -> Table {
    let columns = [LINE, INSTRUCTIONS, SECTORS, WAYS, DIVERGENT, SOURCE];
    let mut table = TableBuilder::of(format!("{} by line", exercise.file("exercise.cu").display()), columns);
    for line in lines {
        let [requests, sectors, ideal] = line.global.map(|count| count as f64);
        let sectors = match requests {
            0.0 => String::new(),
            _ => format!("{:.1} ({:.1})", sectors / requests, ideal / requests),
        };
        let ways = line.ways.map_or(String::new(), |ways| format!("{ways:.1}"));
        let divergent = match line.branches {
            [0, _] => String::new(),
            [all, parted] => format!("{parted} of {all}"),
        };
        let source = text.lines().nth((line.number as usize).saturating_sub(1)).unwrap_or_default().trim();
        let row = table.row().set(LINE, u64::from(line.number)).set(INSTRUCTIONS, line.instructions);
        let row = row.set(SECTORS, sectors).set(WAYS, ways).set(DIVERGENT, divergent);
        row.set(SOURCE, super::list::clipped(source, 46)).complete();
    }
    table.note(
        "instructions: counted once per warp. sectors: of 32 bytes, per request to global memory. bank ways: passes through \
         shared memory per pass needed, 1 is best.",
    );
    table.finish()
}

fn occupancy(shown: &Shown, width: usize) -> String {
    let Shown { threads, shared_bytes, architecture, registers, .. } = shown;
    let Some(limits) = Limits::of(architecture) else { return String::new() };
    let known = registers.as_ref().ok().copied();
    let occupancy = Occupancy::of(&limits, *threads, *shared_bytes, known);
    let Occupancy { blocks, warps, max_warps, limiter } = occupancy;
    let registers = match registers {
        Ok(registers) => format!("{registers} registers per thread"),
        Err(reason) => format!("registers unknown: {reason}"),
    };
    let share = 100.0 * occupancy.share();
    let limited = limiter.name();
    let sentences = [
        format!(
            "occupancy on {architecture}: {share:.0} %, {warps} of {max_warps} warps in {blocks} blocks, limited by {limited}"
        ),
        format!("{threads} threads and {shared_bytes} bytes of shared memory per block, {registers}"),
    ];
    sentences.map(|sentence| wrap(&sentence, width - 2).replace('\n', "\n  ")).join("\n  ") + "\n"
}

fn write(session: &Session, exercise: &Exercise, svg: &str) -> Result<PathBuf> {
    let folder = session.store.folder();
    std::fs::create_dir_all(folder).with_context(|| format!("{} cannot be made", folder.display()))?;
    let path = folder.join(format!("{}.svg", exercise.id));
    std::fs::write(&path, svg).with_context(|| format!("{} cannot be written", path.display()))?;
    Ok(path)
}
