//! The tables of ladders, `gemm` and `conv`: for each problem a row for each step and each peer.

use common::ladder::Outcome;
use common::table::{Cell, Column, Table};
use common::timing::Timing;

use crate::limits::Limits;
use crate::spec::{Context, FinishedTable};
use crate::tables::differences::verdict;

pub(crate) use common::timing::NO_CLOCK;

/// A step whose run would take longer than this at a problem is left out there.
const LONGEST_MS: f64 = 500.0;

/// What one row shows.
pub(crate) enum Entry {
    /// A step, or a library in this process: checked, then timed.
    Checked(Outcome),
    /// Something in another process, whose results nobody sees here.
    Elsewhere(Result<Timing, String>),
    /// Not tried, and why.
    LeftOut(String),
}

impl Entry {
    pub fn median_ms(&self) -> Option<f64> {
        match self {
            Entry::Checked(Outcome::Ran { timing, .. }) | Entry::Elsewhere(Ok(timing)) => timing.median_ms(),
            _ => None,
        }
    }

    /// Milliseconds, or why there are none.
    pub fn ms(&self) -> Result<f64, String> {
        match self {
            Entry::Checked(Outcome::Unsupported(reason)) | Entry::Elsewhere(Err(reason)) | Entry::LeftOut(reason) => {
                Err(reason.clone())
            }
            Entry::Checked(Outcome::Wrong(_)) => Err("it is wrong, and so was not timed".to_owned()),
            _ => self.median_ms().ok_or_else(|| NO_CLOCK.to_owned()),
        }
    }

    /// The largest difference and the word of the check; `what` it is about is said of a wrong one.
    pub fn check(&self, what: &str, wrong: &mut Vec<String>) -> [Cell; 2] {
        let both = |reason: &str| [Cell::absent(reason), Cell::absent(reason)];
        match self {
            Entry::Checked(Outcome::Ran { report, .. }) => [report.max_abs.into(), "ok".into()],
            Entry::Checked(Outcome::Wrong(mismatch)) => {
                let (max_abs, word) = verdict(what, Err(mismatch.clone()), wrong);
                [max_abs.into(), word.into()]
            }
            Entry::Elsewhere(Ok(_)) => both(ELSEWHERE),
            Entry::Checked(Outcome::Unsupported(reason)) | Entry::Elsewhere(Err(reason)) | Entry::LeftOut(reason) => {
                both(reason)
            }
        }
    }
}

/// Why there is no difference beside a time of PyTorch's.
pub(crate) const ELSEWHERE: &str = "measured in a process of its own; its results are not seen here";

/// The median, or why there is none.
pub(crate) fn milliseconds(timing: &Result<Timing, String>) -> Result<f64, String> {
    timing.clone().and_then(|timing| timing.median_ms().ok_or_else(|| NO_CLOCK.to_owned()))
}

/// Takes columns out: a line has 100 columns, and there are some of which a simulated device knows nothing.
pub(crate) fn hide(table: &mut Table, names: &[&str]) {
    for name in names {
        let Some(at) = table.columns.iter().position(|column| column.heading == *name) else { continue };
        table.columns.remove(at);
        for row in &mut table.rows {
            row.remove(at);
        }
    }
}

/// A number, or a dash with the reason.
pub(crate) fn cell(value: Result<f64, String>) -> Cell {
    value.map_or_else(Cell::Absent, Cell::Number)
}

/// How long each step took for the problem before, to tell what the next one would take.
#[derive(Default)]
pub(crate) struct Patience {
    /// Of each step: operations and milliseconds.
    last: Vec<Option<(f64, f64)>>,
}

impl Patience {
    /// Runs the step of this number, unless it would take too long at the rate that it had.
    pub fn run(
        &mut self,
        number: usize,
        flops: f64,
        run: impl FnOnce() -> common::Result<Outcome>,
    ) -> common::Result<Entry> {
        if self.last.len() <= number {
            self.last.resize(number + 1, None);
        }
        if let Some((before, ms)) = self.last[number]
            && ms * flops / before > LONGEST_MS
        {
            return Ok(Entry::LeftOut(format!(
                "left out: at the rate of the size before, a run would take over {LONGEST_MS} ms"
            )));
        }
        let entry = Entry::Checked(run()?);
        if let Some(ms) = entry.median_ms() {
            self.last[number] = Some((flops, ms));
        }
        Ok(entry)
    }
}

/// A table being filled.
pub(crate) struct Board {
    table: Table,
    wrong: Vec<String>,
    limits: Option<Limits>,
    simulated: bool,
}

/// What the rows of one problem have in common.
pub(crate) struct Problem<'a> {
    /// The first column.
    pub name: &'a str,
    /// Two a multiply-add.
    pub flops: f64,
    /// The library's time.
    pub peer_ms: Option<f64>,
    /// Why there is none.
    pub no_peer: &'a str,
}

impl Board {
    /// An empty one; the first column is called `problems`, and times are compared with those of `peer`.
    pub fn new(context: &Context, title: &str, problems: &str, peer: &str) -> crate::Result<Board> {
        let simulated = context.device.is_sim();
        let columns = [
            Column::text(problems),
            Column::text("step"),
            Column::number("ms", 4),
            Column::number("TFLOP/s", 2),
            Column::number(format!("% of {peer}"), 1),
            // The simulator has no peak, and a line of 100 columns no room for both.
            match simulated {
                true => Column::number("lanes a product", 2),
                false => Column::number("% of peak", 1),
            },
            Column::number("max |Δ|", 3),
            Column::text("check"),
        ];
        let limits = context.limits()?;
        let mut table = Table::new(format!("{title} on {}", context.device.short_name()), columns);
        match &limits {
            Some(limits) => {
                table.note("Medians by events of the device alone, launches queued ahead, inputs as warm as a run leaves them.");
                table.note(limits.note());
            }
            None => {
                table.note("lanes a product: instructions that the simulator executed, counted by lane, for each multiply-add.");
            }
        }
        table.note(
            "|Δ|: to the f64 reference; f32 rounding may cost what `check` derives. Of large outputs a seeded sample of 16384 \
             is compared, and all must be finite.",
        );
        Ok(Board { table, wrong: Vec::new(), limits, simulated })
    }

    /// Appends a sentence below the table, once.
    pub fn note(&mut self, note: impl Into<String>) {
        self.table.note(note);
    }

    /// Appends a row.
    pub fn row(&mut self, problem: &Problem<'_>, step: &str, entry: &Entry) {
        let ms = entry.ms();
        let rate = ms.clone().map(|ms| problem.flops / (ms * 1e-3));
        let of_peer = ms.clone().and_then(|ms| match problem.peer_ms {
            Some(peer) => Ok(100.0 * peer / ms),
            None => Err(problem.no_peer.to_owned()),
        });
        let peak = self.limits.map(|limits| limits.flops);
        let of_peak = rate.clone().and_then(|rate| match peak {
            Some(peak) => Ok(100.0 * rate / peak),
            None => Err(NO_CLOCK.to_owned()),
        });
        let counts = match entry {
            Entry::Checked(Outcome::Ran { timing, .. }) => timing.counts(),
            _ => None,
        };
        let what = format!("{step} at {} {}", self.table.columns[0].heading, problem.name);
        let [difference, check] = entry.check(&what, &mut self.wrong);
        let reason = || ms.clone().err().unwrap_or_default();
        let lanes = counts.map(|counts| counts.lane_instructions as f64 / (problem.flops / 2.0));
        self.table.row([
            problem.name.into(),
            step.into(),
            cell(ms.clone()),
            cell(rate.map(|rate| rate / 1e12)),
            cell(of_peer),
            if self.simulated { Cell::or_absent(lanes, reason()) } else { cell(of_peak) },
            difference,
            check,
        ]);
    }

    /// The table, and what in it is wrong.
    pub fn finish(self) -> FinishedTable {
        FinishedTable { table: self.table, wrong: self.wrong }
    }
}

/// The faster of two runs of a library, one before and one after the ladder, so that a GPU that slows down while it works does
/// not make the library look slow.
pub(crate) fn faster(before: Outcome, after: Outcome) -> Outcome {
    let ms = |outcome: &Outcome| match outcome {
        Outcome::Ran { timing, .. } => timing.median_ms(),
        _ => None,
    };
    match (&before, ms(&before), ms(&after)) {
        (_, Some(first), Some(second)) if second < first => after,
        // What went wrong once is wrong.
        (Outcome::Ran { .. }, _, None) => after,
        _ => before,
    }
}

/// What is not supported becomes its reason; other errors stay errors.
pub(crate) fn if_supported<T>(result: common::Result<T>) -> common::Result<Result<T, String>> {
    match result {
        Ok(value) => Ok(Ok(value)),
        Err(error) if error.is_unsupported() => Ok(Err(error.to_string())),
        Err(error) => Err(error),
    }
}
