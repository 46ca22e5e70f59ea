//! `ranks`: every operation between ranks, on threads or processes, under a launcher or standalone; and the behaviour if one
//! fails.

use std::ffi::OsString;
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use bench::command::{Shell, say};
use bench::record::Record;
use bench::table::{Cell, ColumnSpec, Table, TableBuilder};
use bench::timing::NO_CLOCK;
use common::device::{DeviceArgs, DeviceChoice};
use common::prelude::*;
use ranks::{Communicator, Launch, Options, Transport, World};

use crate::collectives::{Collective, Outcome};

/// Default number of ranks on the simulator.
const SIMULATED: NonZero<u32> = NonZero::new(4).expect("4 is not 0");

/// Ranks that take part, and their work.
#[derive(Clone, Debug, clap::Args)]
pub struct RanksArgs {
    /// Start this number of processes on this host, as torchrun would
    #[arg(long, value_name = "N", conflicts_with = "threads", value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(1..=64))]
    processes: Option<usize>,
    /// Start this number of threads in one process, each with a device of its own [default: a thread per GPU, or as many as
    /// --device sim:N says]
    #[arg(long, value_name = "N", value_parser = clap::builder::RangedU64ValueParser::<u32>::new().range(1..=64))]
    threads: Option<u32>,
    /// How values travel
    #[arg(long, value_enum, default_value = "auto")]
    transport: Transport,
    /// Values of each rank
    #[arg(long, value_name = "COUNT", default_value = "1001", value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(1..=1 << 30))]
    values: usize,
    /// Save the run to FILE once all ranks have finished
    #[arg(long, value_name = "FILE")]
    save: Option<PathBuf>,
    /// A planned mistake, for tests
    #[arg(long, hide = true)]
    fault: Option<Fault>,
    /// With --processes: start this command instead
    #[arg(last = true, value_name = "COMMAND", requires = "processes")]
    command: Vec<OsString>,
}

/// A mistake of one rank.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Fault {
    rank: usize,
    kind: FaultKind,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum FaultKind {
    /// Its process dies before this step.
    Kill(usize),
    /// It waits for this time before its first step.
    Slow(Duration),
    /// It requests more memory than there is.
    OutOfMemory,
    /// It contributes one value too many.
    Mismatch,
    /// It never arrives.
    Absent,
}

impl FromStr for Fault {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Fault, String> {
        const FORMS: &str = "kill:RANK@STEP, slow:RANK@SECONDS, oom:RANK, mismatch:RANK or absent:RANK";
        let parsed = || {
            let (kind, who) = text.split_once(':')?;
            let (rank, how) = who.split_once('@').unwrap_or((who, ""));
            let kind = match kind {
                "kill" => FaultKind::Kill(how.parse().ok()?),
                "slow" => FaultKind::Slow(Duration::try_from_secs_f64(how.parse().ok()?).ok()?),
                "oom" => FaultKind::OutOfMemory,
                "mismatch" => FaultKind::Mismatch,
                "absent" => FaultKind::Absent,
                _ => return None,
            };
            Some(Fault { rank: rank.parse().ok()?, kind })
        };
        parsed().ok_or_else(|| format!("`{text}` is no fault: {FORMS}"))
    }
}

impl RanksArgs {
    /// Path where the run is saved.
    pub fn save(&self) -> Option<&Path> {
        self.save.as_deref()
    }
}

/// Starts the ranks, or runs as one of them.
///
/// # Errors
/// [`Error::Ranks`] if one of them fails; errors of devices, files and the launcher's variables.
pub fn ranks(args: &RanksArgs, device: &DeviceArgs, shell: &mut Shell) -> Result<()> {
    if let Some(processes) = args.processes {
        return ranks::launch(&once_more(args, processes)?);
    }
    let options = Options { transport: args.transport, ..Options::from_env()? };
    let world = World::from_env()?;
    if args.fault == Some(Fault { rank: world.rank, kind: FaultKind::Absent }) {
        return Ok(());
    }
    let report = if world.size > 1 {
        // ANCHOR: world
        let device = of_rank(device, world.local_rank)?;
        say("device", format!("{}, rank {} of {} by {}", device.describe(), world.rank, world.size, world.launcher));
        ranks::run_in(&world, &device, &options, |ranks| work(args, ranks, true))?
        // ANCHOR_END: world
    } else {
        let group = of_threads(device, args.threads)?;
        say("devices", group.describe());
        ranks::run(group.devices(), &options, |ranks| work(args, ranks, false))?.remove(0)
    };
    // All ranks have the same report; one shows it.
    if world.rank > 0 {
        return Ok(());
    }
    report.wrong.iter().for_each(|wrong| shell.fail(wrong));
    shell.table(&report.table)?;
    let mut record = Record::begin(&report.device);
    record.push("ranks", report.table);
    shell.save(&record)
}

/// This very command without `--processes`, or the given one.
fn once_more(args: &RanksArgs, processes: usize) -> Result<Launch> {
    if let [program, rest @ ..] = args.command.as_slice() {
        return Ok(Launch { processes, program: program.into(), args: rest.to_vec() });
    }
    let program = std::env::current_exe().map_err(|source| Error::Io { path: "this program".into(), source })?;
    let (mut args, mut all) = (Vec::new(), std::env::args_os().skip(1));
    while let Some(arg) = all.next() {
        if arg == "--processes" {
            all.next();
        } else if !arg.to_string_lossy().starts_with("--processes=") {
            args.push(arg);
        }
    }
    Ok(Launch { processes, program, args })
}

/// The device of a process: simulated, or the GPU with its number on the host, or the only visible one.
fn of_rank(args: &DeviceArgs, local_rank: usize) -> Result<Device> {
    let first = args.open()?;
    let base = match args.device {
        DeviceChoice::Cuda(ordinal) => ordinal,
        _ => 0,
    };
    if first.is_sim() || local_rank == 0 || Device::cuda(1).is_err() {
        return Ok(first);
    }
    Device::cuda(base + local_rank)
}

/// A device for each thread.
fn of_threads(args: &DeviceArgs, threads: Option<u32>) -> Result<DeviceGroup> {
    if !args.open()?.is_sim() {
        return args.open_group(threads.map(|threads| threads as usize));
    }
    let count = match (args.device, threads.and_then(NonZero::new)) {
        (_, Some(threads)) => threads,
        (DeviceChoice::Sims(count), None) => count,
        _ => SIMULATED,
    };
    DeviceArgs { device: DeviceChoice::Sims(count), ..*args }.open_group(None)
}

/// Result shown by rank 0.
struct Report {
    device: Device,
    table: Table,
    wrong: Vec<String>,
}

const OPERATION: ColumnSpec = ColumnSpec::text("operation", "operation");
const BYTES: ColumnSpec = ColumnSpec::identity("bytes", "bytes per rank");
const MS: ColumnSpec = ColumnSpec::number("ms", "ms", 4).on_gpu();
const RATE: ColumnSpec = ColumnSpec::number("gb_s", "GB/s", 1).on_gpu();
const CHECK: ColumnSpec = ColumnSpec::text("check", "check");

/// One rank's work: every operation, then everyone's results.
fn work(args: &RanksArgs, ranks: &Communicator, in_a_process: bool) -> Result<Report> {
    let (size, device) = (ranks.size(), ranks.device());
    let fault = args.fault.filter(|fault| fault.rank == ranks.rank()).map(|fault| fault.kind);
    let mut outcomes = Vec::new();
    for (step, collective) in Collective::ALL.into_iter().enumerate() {
        let mut values = args.values;
        match fault {
            Some(FaultKind::Kill(at)) if at == step => die(in_a_process),
            Some(FaultKind::Slow(time)) if step == 0 => std::thread::sleep(time),
            Some(FaultKind::OutOfMemory) if step == 1 => {
                let too_much = device.memory().total as usize + 1;
                drop(device.stream().alloc_uninit::<u8>(too_much)?);
            }
            Some(FaultKind::Mismatch) => values += 1,
            _ => {}
        }
        outcomes.push((collective, collective.run(ranks, values)?));
    }
    let all = ranks.share(to_text(&device.short_name(), &outcomes).as_bytes())?;
    let all: Vec<Shared> = all.iter().map(|bytes| Shared::parse(&String::from_utf8_lossy(bytes))).collect();
    let way = if ranks.is_nccl() { "by NCCL" } else { "through the host" };
    let mut table = TableBuilder::on(
        device,
        &format!("{size} ranks {way}, {} values each", args.values),
        &[OPERATION, BYTES, MS, RATE, CHECK],
    );
    let mut wrong = Vec::new();
    for (step, (collective, outcome)) in outcomes.iter().enumerate() {
        let of_ranks = || all.iter().enumerate().filter_map(|(rank, shared)| Some((rank, shared.outcomes.get(step)?)));
        let slowest = of_ranks().filter_map(|(_, (ms, _))| *ms).max_by(f64::total_cmp);
        let before = wrong.len();
        wrong.extend(of_ranks().filter_map(|(rank, (_, wrong))| {
            wrong.as_ref().map(|wrong| format!("{} on rank {rank}: {wrong}", collective.name()))
        }));
        let check = if wrong.len() == before && of_ranks().count() == size { "ok" } else { "WRONG" };
        let row = table.row().set(OPERATION, collective.name()).set(BYTES, outcome.bytes).set(CHECK, check);
        let rate = slowest.map(|ms| outcome.bytes as f64 / (ms * 1e6));
        row.set(MS, Cell::or_absent(slowest, NO_CLOCK)).set(RATE, Cell::or_absent(rate, NO_CLOCK)).complete();
    }
    let devices: Vec<&str> = all.iter().map(|shared| shared.device.as_str()).collect();
    table.note(format!("Ranks 0 to {}: {}.", size - 1, devices.join(", ")));
    table.note(if ranks.is_nccl() {
        "ms: of one in ten in a row, by events: the median of the slowest rank. GB/s: the bytes that a rank brings, in that time. check: sums within the bound \
         of any order of additions, the rest to the bit, and a second run gave the same bits."
    } else {
        "check: on every rank the bits of values combined in the order of the ranks, twice."
    });
    Ok(Report { device: device.clone(), table: table.finish(), wrong })
}

/// Message of a rank to the others: its device, then for each operation a line with its time and its errors.
fn to_text(device: &str, outcomes: &[(Collective, Outcome)]) -> String {
    let line = |(_, outcome): &(Collective, Outcome)| {
        let ms = outcome.ms.map_or_else(String::new, |ms| ms.to_string());
        format!("\n{ms}\t{}", outcome.wrong.as_deref().unwrap_or_default())
    };
    device.to_owned() + &outcomes.iter().map(line).collect::<String>()
}

/// [`to_text`], parsed.
struct Shared {
    device: String,
    outcomes: Vec<(Option<f64>, Option<String>)>,
}

impl Shared {
    fn parse(text: &str) -> Shared {
        let mut lines = text.lines();
        let device = lines.next().unwrap_or_default().to_owned();
        let outcome = |line: &str| {
            let (ms, wrong) = line.split_once('\t').unwrap_or_default();
            (ms.parse().ok(), (!wrong.is_empty()).then(|| wrong.to_owned()))
        };
        Shared { device, outcomes: lines.map(outcome).collect() }
    }
}

fn die(in_a_process: bool) {
    if in_a_process {
        std::process::abort();
    }
    panic!("a planned mistake");
}
