//! The table of a ladder: a row for each step and each peer, with its time or its counts, and whether it is right. A table picks
//! its columns from [`columns`]; their values are computed here, once.

use std::collections::HashMap;

use ptx_sim::{Counters, Profile};

use super::{Expected, Method, Outcome, Step, run};
use crate::table::{Cell, ColumnSpec, DeviceKind, Table, TableBuilder};
use crate::timing::{Bench, NO_CLOCK, Timing};
use common::Tensor;
use common::check::{Mismatch, Report};
use common::device::{Device, Stream};
use common::error::Result;

/// The available columns of such a table. Those of times are empty on the simulator, those of counts on a GPU.
pub mod columns {
    use crate::table::ColumnSpec;

    /// The step's or the peer's name.
    pub const STEP: ColumnSpec = ColumnSpec::text("step", "step");
    /// The median time.
    pub const MS: ColumnSpec = ColumnSpec::number("ms", "ms", 4);
    /// 10¹² operations per second.
    pub const TFLOPS: ColumnSpec = ColumnSpec::number("tflops", "TFLOP/s", 2);
    /// 10⁹ bytes per second, counting bytes that must move.
    pub const GBPS: ColumnSpec = ColumnSpec::number("gbps", "GB/s", 0);
    /// The library's time as a share of this one's.
    pub const OF_PEER: ColumnSpec = ColumnSpec::number("of_peer", "% of peer", 1).level_at(100);
    /// The rate as a share of the device's peak.
    pub const OF_PEAK: ColumnSpec = ColumnSpec::number("of_peak", "% of peak", 1);
    /// The rate as a share of a copy's inside the device.
    pub const OF_COPY: ColumnSpec = ColumnSpec::number("of_copy", "% of copy", 1);
    /// Instructions, each counted once per lane, for each multiply-add.
    pub const LANES_PER_PRODUCT: ColumnSpec = ColumnSpec::number("lanes_per_product", "lanes per product", 2);
    /// Instructions, each counted once per lane, for each value.
    pub const LANES_PER_VALUE: ColumnSpec = ColumnSpec::number("lanes_per_value", "lanes per value", 1);
    /// 10⁶ instructions, each counted once per lane.
    pub const LANE_MILLIONS: ColumnSpec = ColumnSpec::number("lane_millions", "lane M", 2);
    /// Lanes that take part in an instruction of their warp, on average.
    pub const LANES_AT_WORK: ColumnSpec = ColumnSpec::number("lanes_at_work", "lanes at work, %", 0);
    /// Bytes that lanes load and store, for each value.
    pub const BYTES_PER_VALUE: ColumnSpec = ColumnSpec::number("bytes_per_value", "bytes per value", 1);
    /// 10⁶ bytes that lanes load and store.
    pub const MB_ASKED: ColumnSpec = ColumnSpec::number("mb_asked", "MB asked", 2);
    /// 32-byte sectors of global memory for each load of a warp.
    pub const SECTORS_PER_REQUEST: ColumnSpec = ColumnSpec::number("sectors_per_request", "sectors per request", 1);
    /// 32-byte sectors of global memory for each store of a warp.
    pub const SECTORS_PER_STORE: ColumnSpec = ColumnSpec::number("sectors_per_store", "sectors per store", 1);
    /// Bytes of the sectors of global memory that loads, stores and atomics touch, for each value.
    pub const BYTES_MOVED_PER_VALUE: ColumnSpec =
        ColumnSpec::number("bytes_moved_per_value", "bytes moved per value", 1);
    /// 10³ atomic instructions of warps.
    pub const ATOMIC_THOUSANDS: ColumnSpec = ColumnSpec::number("atomic_thousands", "atomics k", 1);
    /// 10³ lanes in them that found another lane of their warp at their address.
    pub const COLLISION_THOUSANDS: ColumnSpec = ColumnSpec::number("collision_thousands", "lanes met k", 1);
    /// Minimum time to move the necessary bytes at the memory's rate.
    pub const FLOOR_MS: ColumnSpec = ColumnSpec::number("floor_ms", "floor ms", 4);
    /// That time as a share of the measured one.
    pub const OF_FLOOR: ColumnSpec = ColumnSpec::number("of_floor", "floor, % of ms", 1);
    /// 10³ wavefronts of shared memory.
    pub const SHARED_THOUSANDS: ColumnSpec = ColumnSpec::number("shared_thousands", "shared k", 1);
    /// 10³ wavefronts caused by bank conflicts.
    pub const CONFLICT_THOUSANDS: ColumnSpec = ColumnSpec::number("conflict_thousands", "conflicts k", 1);
    /// The largest difference from the reference.
    pub const MAX_DIFFERENCE: ColumnSpec = ColumnSpec::number("max_difference", "max |Δ|", 3);
    /// `ok`, or `WRONG`.
    pub const CHECK: ColumnSpec = ColumnSpec::text("check", "check");
}

/// Reason why a GPU has no counts.
pub const NO_COUNTS: &str = "a GPU does not count; the simulator does";
/// Reason why a peer's time has no difference beside it.
pub const ELSEWHERE: &str = "measured in a process of its own; its results are not seen here";

/// Maximum time of a step; slower ones are left out.
const LONGEST_MS: f64 = 500.0;

/// A step of a ladder, or the reason why this device does not have it.
#[derive(Debug)]
pub struct LoadedStep<L> {
    /// `3 shared tile`.
    pub title: String,
    /// Host code that launches it.
    pub step: Result<L, String>,
}

/// The result of a step or a peer.
#[derive(Clone, Debug)]
pub enum StepResult {
    /// Run here: checked, then timed.
    Checked(Outcome),
    /// Measured in another process, whose results are not seen here.
    Elsewhere(Result<Timing, String>),
    /// Not tried, for this reason.
    LeftOut(String),
}

/// A result, and the counts of a profiling simulator for it.
#[derive(Clone, Debug)]
pub struct StepRun {
    /// Time, and whether the result is right.
    pub result: StepResult,
    /// One for each launch; empty on a GPU and on a simulator that does not profile.
    pub profiles: Vec<Profile>,
}

/// Cost of a problem, whatever step solves it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Cost {
    /// Floating-point operations, two per multiply-add.
    pub flops: f64,
    /// Bytes, if each tensor passes the memory once.
    pub bytes: f64,
    /// Values of the largest tensor.
    pub values: f64,
}

/// Peak rates of a device.
#[derive(Clone, Copy, Debug)]
pub struct Peak {
    /// Operations per second.
    pub flops: f64,
    /// Bytes per second that a copy inside the device reads and writes.
    pub bandwidth: f64,
}

/// One problem, for all steps.
pub struct Contest<'a> {
    /// Stream that they are queued on.
    pub stream: &'a Stream,
    /// Timing settings.
    pub bench: &'a Bench,
    /// Expected outputs of each.
    pub expected: &'a Expected,
    /// Called with the name of each before it runs.
    pub announce: &'a dyn Fn(&str),
}

/// Leaves out steps that would take too long, at their rate for the previous problem.
#[derive(Debug, Default)]
pub struct Patience {
    /// By step: operations and milliseconds.
    last: HashMap<String, (f64, f64)>,
}

/// A ladder's table being filled.
pub struct LadderTable {
    table: TableBuilder,
    /// Computed columns among `columns`.
    computed: Vec<(ColumnSpec, Formula)>,
    peak: Option<Peak>,
    wrong: Vec<String>,
    /// Minimum and maximum tolerance of the rows.
    allowed: Option<(f64, f64)>,
}

impl<L> LoadedStep<L> {
    /// A step that was loaded, or that this device does not support.
    ///
    /// # Errors
    /// Errors of `loaded` other than [`common::Error::Unsupported`].
    pub fn new(title: impl Into<String>, loaded: Result<L>) -> Result<LoadedStep<L>> {
        Ok(LoadedStep { title: title.into(), step: if_supported(loaded)? })
    }
}

/// The steps of a ladder, or of a part of one, compiled side by side.
///
/// # Errors
/// Errors of the device.
pub fn load_steps<'s, M: Method + 's>(
    steps: impl IntoIterator<Item = &'s Step<M>, IntoIter: Clone>,
    device: &Device,
) -> Result<Vec<LoadedStep<M::Loaded>>> {
    let steps = steps.into_iter();
    device.load_ahead(steps.clone().map(|step| &step.source));
    steps.map(|step| LoadedStep::new(step.title(), step.load(device))).collect()
}

/// Turns an unsupported operation into its reason; other errors stay errors.
///
/// # Errors
/// Errors of `result` other than [`common::Error::Unsupported`].
pub fn if_supported<T>(result: Result<T>) -> Result<Result<T, String>> {
    match result {
        Ok(value) => Ok(Ok(value)),
        Err(error) if error.is_unsupported() => Ok(Err(error.to_string())),
        Err(error) => Err(error),
    }
}

/// The median, or the reason why there is none.
///
/// # Errors
/// The reason for a dash.
pub fn milliseconds(timing: &Result<Timing, String>) -> Result<f64, String> {
    let timing = timing.as_ref().map_err(String::clone)?;
    timing.median_ms().ok_or_else(|| NO_CLOCK.to_owned())
}

/// Cells for a comparison with the reference: the largest difference and a word.
pub fn verdict(what: &str, result: Result<Report, Mismatch>, wrong: &mut Vec<String>) -> (f64, &'static str) {
    match result {
        Ok(report) => (report.max_abs, "ok"),
        Err(mismatch) => {
            wrong.push(format!("{what}: {mismatch}"));
            let max_abs = match mismatch {
                Mismatch::Values { report, .. } => report.max_abs,
                Mismatch::Length { .. } | Mismatch::NotFinite { .. } => f64::NAN,
            };
            (max_abs, "WRONG")
        }
    }
}

impl StepResult {
    /// Milliseconds, or the reason why there are none.
    ///
    /// # Errors
    /// The reason for a dash.
    pub fn ms(&self) -> Result<f64, String> {
        match self {
            StepResult::Checked(Outcome::Ran { timing, .. }) => milliseconds(&Ok(timing.clone())),
            StepResult::Checked(Outcome::Wrong(_)) => Err("it is wrong, and so was not timed".to_owned()),
            StepResult::Elsewhere(timing) => milliseconds(timing),
            StepResult::Checked(Outcome::Unsupported(reason)) | StepResult::LeftOut(reason) => Err(reason.clone()),
        }
    }

    /// The largest difference and the word of the check.
    fn check(&self, what: &str, wrong: &mut Vec<String>) -> [Cell; 2] {
        let both = |reason: &str| [Cell::absent(reason), Cell::absent(reason)];
        match self {
            StepResult::Checked(Outcome::Ran { report, .. }) => [report.max_abs.into(), "ok".into()],
            StepResult::Checked(Outcome::Wrong(mismatch)) => {
                let (max_abs, word) = verdict(what, Err(mismatch.clone()), wrong);
                [max_abs.into(), word.into()]
            }
            StepResult::Elsewhere(Ok(_)) => both(ELSEWHERE),
            StepResult::Checked(Outcome::Unsupported(reason))
            | StepResult::Elsewhere(Err(reason))
            | StepResult::LeftOut(reason) => both(reason),
        }
    }
}

impl From<StepResult> for StepRun {
    fn from(result: StepResult) -> StepRun {
        StepRun { result, profiles: Vec::new() }
    }
}

impl StepRun {
    /// Runs `work`, and keeps the counts of a profiling simulator.
    ///
    /// # Errors
    /// Errors of `work`.
    pub fn profiled(device: &Device, work: impl FnOnce() -> Result<Outcome>) -> Result<StepRun> {
        let profiles = || device.as_sim().map(|sim| sim.take_profiles()).unwrap_or_default();
        // What was launched before, such as a fold of parameters, is not this step's.
        profiles();
        let outcome = work()?;
        Ok(StepRun { result: StepResult::Checked(outcome), profiles: profiles() })
    }

    /// The faster of two runs, one before and one after the ladder, so that a GPU that slows down during the work does not make
    /// a library look slow.
    #[must_use]
    pub fn or_faster(self, after: StepRun) -> StepRun {
        match (self.result.ms(), after.result.ms()) {
            (Ok(first), Ok(second)) if second < first => after,
            // What went wrong once is wrong.
            (Ok(_), Err(_)) => after,
            _ => self,
        }
    }

    /// Counts of the simulator, of all launches.
    ///
    /// # Errors
    /// The reason why there are no counts.
    pub fn counters(&self) -> Result<Counters, String> {
        if self.profiles.is_empty() {
            return Err(self.no_counts());
        }
        let mut sum = Counters::default();
        self.profiles.iter().for_each(|profile| sum += profile.counters);
        Ok(sum)
    }

    /// Instructions, each counted once per lane; a simulator counts them without a profile too.
    fn lanes(&self) -> Result<f64, String> {
        let counted = match &self.result {
            StepResult::Checked(Outcome::Ran { timing, .. }) => timing.counts().map(|counts| counts.lane_instructions),
            _ => None,
        };
        let lanes = self.counters().ok().map(|counters| counters.lane_instructions).or(counted);
        lanes.map(|lanes| lanes as f64).ok_or_else(|| self.no_counts())
    }

    fn no_counts(&self) -> String {
        match &self.result {
            StepResult::Checked(Outcome::Ran { .. }) | StepResult::Elsewhere(Ok(_)) => NO_COUNTS.to_owned(),
            other => other.ms().err().unwrap_or_default(),
        }
    }
}

impl Contest<'_> {
    /// Runs a step, if this device has it: fills `output`, checks it, and times it.
    ///
    /// # Errors
    /// Errors of the device.
    pub fn run<L>(
        &self,
        name: &str,
        step: &Result<L, String>,
        output: &mut Tensor,
        mut launch: impl FnMut(&L, &mut Tensor) -> Result<()>,
    ) -> Result<StepRun> {
        (self.announce)(name);
        match step {
            Ok(step) => StepRun::profiled(self.stream.device(), || {
                run(self.stream, self.bench, output, self.expected, |output| launch(step, output))
            }),
            Err(reason) => Ok(StepResult::LeftOut(reason.clone()).into()),
        }
    }
}

impl Patience {
    /// Runs the step of this name on a problem of `flops` operations, unless it would take too long.
    ///
    /// # Errors
    /// Errors of `run`.
    pub fn run(&mut self, step: &str, flops: f64, run: impl FnOnce() -> Result<StepRun>) -> Result<StepRun> {
        if let Some((before, ms)) = self.last.get(step)
            && ms * flops / before > LONGEST_MS
        {
            let reason = format!("left out: at the rate of the size before, a run would take over {LONGEST_MS} ms");
            return Ok(StepResult::LeftOut(reason).into());
        }
        let run = run()?;
        if let Ok(ms) = run.result.ms() {
            self.last.insert(step.to_owned(), (flops, ms));
        }
        Ok(run)
    }
}

/// Inputs of a cell's formula.
struct Facts<'a> {
    run: &'a StepRun,
    cost: Cost,
    peer_ms: &'a Result<f64, String>,
    peak: Option<Peak>,
}

type Formula = fn(&Facts<'_>) -> Result<f64, String>;

impl Facts<'_> {
    fn ms(&self) -> Result<f64, String> {
        self.run.result.ms()
    }

    fn per_second(&self, amount: f64) -> Result<f64, String> {
        Ok(amount / (self.ms()? * 1e-3))
    }

    fn peak(&self) -> Result<Peak, String> {
        self.peak.ok_or_else(|| NO_CLOCK.to_owned())
    }
}

fn bytes_asked(counters: &Counters) -> f64 {
    (counters.global_load_bytes + counters.global_store_bytes) as f64
}

/// Formula of each column.
static FORMULAS: &[(ColumnSpec, Formula)] = &[
    (columns::MS, |facts| facts.ms()),
    (columns::TFLOPS, |facts| Ok(facts.per_second(facts.cost.flops)? / 1e12)),
    (columns::GBPS, |facts| Ok(facts.per_second(facts.cost.bytes)? / 1e9)),
    (columns::OF_PEER, |facts| {
        let ms = facts.ms()?;
        Ok(100.0 * facts.peer_ms.clone()? / ms)
    }),
    (columns::OF_PEAK, |facts| Ok(100.0 * facts.per_second(facts.cost.flops)? / facts.peak()?.flops)),
    (columns::OF_COPY, |facts| Ok(100.0 * facts.per_second(facts.cost.bytes)? / facts.peak()?.bandwidth)),
    (columns::LANES_PER_PRODUCT, |facts| Ok(facts.run.lanes()? / (facts.cost.flops / 2.0))),
    (columns::LANES_PER_VALUE, |facts| Ok(facts.run.lanes()? / facts.cost.values)),
    (columns::LANE_MILLIONS, |facts| Ok(facts.run.lanes()? / 1e6)),
    (columns::LANES_AT_WORK, |facts| {
        let counters = facts.run.counters()?;
        Ok(100.0 * counters.issued_lanes as f64 / (32.0 * counters.warp_instructions as f64))
    }),
    (columns::BYTES_PER_VALUE, |facts| Ok(bytes_asked(&facts.run.counters()?) / facts.cost.values)),
    (columns::MB_ASKED, |facts| Ok(bytes_asked(&facts.run.counters()?) / 1e6)),
    // Loads count copies by cp.async too.
    (columns::SECTORS_PER_REQUEST, |facts| {
        let counters = facts.run.counters()?;
        Ok(counters.global_load_sectors as f64 / counters.global_load_requests.max(1) as f64)
    }),
    (columns::SECTORS_PER_STORE, |facts| {
        let counters = facts.run.counters()?;
        Ok(counters.global_store_sectors as f64 / counters.global_store_requests.max(1) as f64)
    }),
    (columns::BYTES_MOVED_PER_VALUE, |facts| {
        let counters = facts.run.counters()?;
        let atomics = counters.global_atomic_sectors + counters.global_reduction_sectors;
        let sectors = counters.global_load_sectors + counters.global_store_sectors + atomics;
        Ok(32.0 * sectors as f64 / facts.cost.values)
    }),
    (columns::ATOMIC_THOUSANDS, |facts| Ok(facts.run.counters()?.atomics as f64 / 1e3)),
    (columns::COLLISION_THOUSANDS, |facts| Ok(facts.run.counters()?.atomic_collisions as f64 / 1e3)),
    (columns::FLOOR_MS, |facts| Ok(1e3 * facts.cost.bytes / facts.peak()?.bandwidth)),
    (columns::OF_FLOOR, |facts| Ok(100.0 * facts.per_second(facts.cost.bytes)? / facts.peak()?.bandwidth)),
    (columns::SHARED_THOUSANDS, |facts| {
        let counters = facts.run.counters()?;
        let loads = counters.shared_load_wavefronts + counters.async_copy_wavefronts;
        Ok((loads + counters.shared_store_wavefronts) as f64 / 1e3)
    }),
    (columns::CONFLICT_THOUSANDS, |facts| {
        let counters = facts.run.counters()?;
        Ok((counters.shared_load_conflicts + counters.shared_store_conflicts) as f64 / 1e3)
    }),
];

impl LadderTable {
    /// An empty table for this device. Columns that are not in [`columns`] name the problem; a row gives their values.
    pub fn new(title: impl Into<String>, device: &Device, columns: &[ColumnSpec]) -> LadderTable {
        let is_declared = |(column, _): &&(ColumnSpec, Formula)| columns.iter().any(|other| other.key == column.key);
        LadderTable {
            table: TableBuilder::new(title, DeviceKind::of(device), columns),
            computed: FORMULAS.iter().filter(is_declared).copied().collect(),
            peak: None,
            wrong: Vec::new(),
            allowed: None,
        }
    }

    /// Compares rates with the device's peak.
    pub fn with_peak(self, peak: Option<Peak>) -> LadderTable {
        LadderTable { peak, ..self }
    }

    /// Compares times with those of this library.
    pub fn with_peer(mut self, library: &str) -> LadderTable {
        self.table.heading(columns::OF_PEER, format!("% of {library}"));
        self
    }

    /// Appends a sentence below the table, once.
    pub fn note(&mut self, note: impl Into<String>) {
        self.table.note(note);
    }

    /// Appends a row: its `labels` name the problem and the step, for the column of each.
    pub fn row(&mut self, labels: &[(ColumnSpec, &str)], cost: Cost, run: &StepRun) {
        self.row_beside(labels, cost, run, &Err(String::new()));
    }

    fn row_beside(&mut self, labels: &[(ColumnSpec, &str)], cost: Cost, run: &StepRun, peer_ms: &Result<f64, String>) {
        let names: Vec<&str> = labels.iter().map(|(_, name)| *name).collect();
        let [difference, check] = run.result.check(&names.join(", "), &mut self.wrong);
        let facts = Facts { run, cost, peer_ms, peak: self.peak };
        let mut row = self.table.row().set(columns::MAX_DIFFERENCE, difference).set(columns::CHECK, check);
        for (column, name) in labels {
            row = row.set(*column, *name);
        }
        for (column, formula) in &self.computed {
            row = row.set(*column, formula(&facts));
        }
        row.finish("not measured");
    }

    /// Appends the rows of a problem, which has this name in that column: the library's, with which times are compared, and those
    /// of the others.
    pub fn problem<'a>(
        &mut self,
        (column, name): (ColumnSpec, &str),
        cost: Cost,
        library: (&'a str, StepRun),
        others: impl IntoIterator<Item = (&'a str, StepRun)>,
    ) {
        let peer_ms = library.1.result.ms();
        for (step, run) in std::iter::once(library).chain(others) {
            self.row_beside(&[(column, name), (columns::STEP, step)], cost, &run, &peer_ms);
        }
    }

    /// Records the tolerance of a row's result, for a note.
    pub fn allow(&mut self, allowed: f64) {
        let (least, most) = self.allowed.unwrap_or((allowed, allowed));
        self.allowed = Some((least.min(allowed), most.max(allowed)));
    }

    /// The table, and the errors in it.
    pub fn finish(mut self) -> (Table, Vec<String>) {
        if let Some((least, most)) = self.allowed {
            let allowed = if least < most { format!("{least:.1e} to {most:.1e}") } else { format!("{most:.1e}") };
            self.table.note(format!(
                "|Δ|: to the reference, which accumulates in f64. What f32 rounding may cost is derived, and allowed: {allowed}."
            ));
        }
        (self.table.finish(), self.wrong)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::timing::Clock;
    use common::check::{Tolerance, compare};

    const PROBLEM: ColumnSpec = ColumnSpec::text("problem", "M×N×K");

    fn ran(ms: f64) -> StepRun {
        let timing = Timing::from_samples(Clock::DeviceEvents, vec![ms; 3]).unwrap();
        let report = compare(&[1.0], &[1.0], Tolerance::absolute(0.0)).unwrap();
        StepResult::Checked(Outcome::Ran { timing, report }).into()
    }

    fn wrong() -> StepRun {
        let mismatch = compare(&[f32::NAN, 2.0], &[1.0, 2.0], Tolerance::absolute(1.0)).unwrap_err();
        StepResult::Checked(Outcome::Wrong(mismatch)).into()
    }

    #[test]
    fn each_column_shows_what_its_key_says() {
        use columns::*;
        let all = [PROBLEM, STEP, MS, TFLOPS, GBPS, OF_PEER, OF_PEAK, OF_COPY, LANE_MILLIONS, MAX_DIFFERENCE, CHECK];
        let mut table = LadderTable::new("t", &Device::sim(), &all)
            .with_peer("cuBLAS")
            .with_peak(Some(Peak { flops: 8e12, bandwidth: 4e9 }));
        let cost = Cost { flops: 4e9, bytes: 2e6, values: 1.0 };
        let others =
            [("1 naive", ran(2.0)), ("2 tiled", wrong()), ("PyTorch", StepResult::LeftOut("none".to_owned()).into())];
        table.problem((PROBLEM, "8³"), cost, ("cuBLAS", ran(1.0)), others);
        let (table, sentences) = table.finish();
        let step = |name: &str| table.find(&[(PROBLEM, "8³".into()), (STEP, name.into())]).unwrap().unwrap();
        let numbers =
            |name: &str| [MS, TFLOPS, GBPS, OF_PEER, OF_PEAK, OF_COPY].map(|key| step(name).number(key).unwrap());
        assert_eq!(numbers("1 naive"), [2.0, 2.0, 1.0, 50.0, 25.0, 25.0].map(Some));
        assert_eq!(numbers("cuBLAS"), [1.0, 4.0, 2.0, 100.0, 50.0, 50.0].map(Some));
        assert_eq!(numbers("2 tiled"), [None; 6]);
        assert_eq!(step("1 naive").cell(LANE_MILLIONS).unwrap(), &Cell::absent(NO_COUNTS));
        assert_eq!(step("PyTorch").cell(CHECK).unwrap(), &Cell::absent("none"));
        assert_eq!(step("2 tiled").text(CHECK).unwrap(), "WRONG");
        assert!(sentences[0].starts_with("8³, 2 tiled: 1 of 2 values are wrong, the first at 0: NaN"), "{sentences:?}");
        assert_eq!(table.columns[table.column(OF_PEER).unwrap()].heading, "% of cuBLAS");
    }

    #[test]
    fn without_a_library_each_row_says_why() {
        let mut table = LadderTable::new(
            "t",
            &Device::sim(),
            &[PROBLEM, columns::STEP, columns::OF_PEER, columns::MAX_DIFFERENCE, columns::CHECK],
        );
        let library = StepResult::LeftOut("no cuBLAS".to_owned()).into();
        table.problem((PROBLEM, "8³"), Cost::default(), ("cuBLAS", library), [("1 naive", ran(2.0))]);
        let (table, _) = table.finish();
        let cells: Vec<_> = table.iter().map(|row| row.cell(columns::OF_PEER).unwrap().clone()).collect();
        assert_eq!(cells, [Cell::absent("no cuBLAS"), Cell::absent("no cuBLAS")]);
    }

    #[test]
    fn the_faster_run_of_a_library_counts_and_a_wrong_one_is_wrong() {
        let faster = |a: StepRun, b: StepRun| a.or_faster(b).result.ms();
        assert_eq!((faster(ran(2.0), ran(1.0)), faster(ran(1.0), ran(2.0))), (Ok(1.0), Ok(1.0)));
        assert!(faster(ran(1.0), wrong()).is_err() && faster(wrong(), ran(1.0)).is_err());
    }

    #[test]
    fn a_step_that_was_slow_is_left_out_of_larger_problems() {
        let mut patience = Patience::default();
        assert!(patience.run("1", 1e9, || Ok(ran(100.0))).unwrap().result.ms().is_ok());
        assert!(patience.run("2", 1e12, || Ok(ran(100.0))).unwrap().result.ms().is_ok(), "another step");
        assert!(patience.run("1", 4e9, || Ok(ran(400.0))).unwrap().result.ms().is_ok());
        let left_out = patience.run("1", 8e9, || panic!("it would take 800 ms")).unwrap();
        assert!(left_out.result.ms().unwrap_err().starts_with("left out: at the rate of the size before"));
    }
}
