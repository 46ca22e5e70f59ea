//! `ptx-sim`: runs a kernel of a PTX file on the simulated device, or lists the file's contents.

mod case;
mod check;
mod cli;
mod fidelity;
mod json;
mod results;
mod session;

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, IsTerminal, Read, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use check::check;
use clap::Parser;
use cli::{Argument, Cli, Command, Launch, Run, Show, TraceOptions};
use flate2::read::GzDecoder;
use json::{finding_json, load_error_json, results_json};
use ptx_sim::{
    AccessKind, DEFAULT_STACK, Device, DeviceConfig, Fault, FaultKind, Kernel, LaunchConfig, LaunchError, Limits,
    LoadError, LoadLimits, MemoryError, Module, Observation, Observe, Occupancy, Pick, PictureError, Profile, Space,
    Trace, TraceRequest, WatchRequest, WatchSink, WatchThreads, ptxas,
};
use results::{write_failed, write_json, write_results};
use serde_json::{Map, Value, json};
use session::{Place, Session, SetUp};

/// Reason why the command fails.
#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error("cannot read `{path}`: {source}")]
    Read { path: String, source: io::Error },
    #[error("`{path}` is not text: byte {at} is not UTF-8")]
    NotText { path: String, at: usize },
    #[error(transparent)]
    Load(#[from] LoadError),
    #[error(transparent)]
    SetUp(#[from] SetUp),
    #[error("`{path}`: {message}")]
    Case { path: String, message: String },
    /// The requested launch does not suit this kernel or the device.
    #[error("{0}")]
    Usage(LaunchError),
    #[error("{0}")]
    Fault(Box<Fault>, Vec<PathBuf>),
    /// Findings of the sanitiser.
    #[error("{} findings", .0.len())]
    Findings(Vec<Fault>, Vec<PathBuf>),
    /// Time limit reached after the launch, while its results are processed.
    #[error("stopped by the time limit after {:.1} s", .0.as_secs_f64())]
    TimeLimit(Duration),
    #[error("nothing to draw: {0}")]
    Picture(#[from] PictureError),
    #[error("cannot write the results: {0}")]
    Write(#[from] io::Error),
    #[error("cannot write `{path}`: {source}")]
    Save { path: String, source: io::Error },
}

impl Failure {
    fn code(&self) -> u8 {
        if matches!(self, Self::Usage(_) | Self::Case { .. }) || matches!(self, Self::SetUp(error) if error.is_usage())
        {
            2
        } else {
            1
        }
    }

    fn render(&self, colour: bool) -> String {
        match self {
            Self::Load(error) => error.render(colour),
            Self::Fault(fault, roots) => fault.render_from(roots, colour),
            Self::Findings(findings, roots) => {
                let all: Vec<String> = findings.iter().map(|finding| finding.render_from(roots, colour)).collect();
                format!("{}\n\n{}", all.join("\n\n"), summary(findings))
            }
            Self::Write(_) => {
                format!("error: {}", self.limit().map_or_else(|| self.to_string(), |(_, message)| message))
            }
            _ => format!("error: {self}"),
        }
    }
}

/// The limits of the whole command.
#[derive(Clone, Copy)]
struct Bounds {
    begun: Instant,
    time: Option<Duration>,
    memory: Option<u64>,
}

impl Bounds {
    fn new(limits: &cli::Limits) -> Self {
        Self { begun: Instant::now(), time: limits.time_limit, memory: limits.memory_limit }
    }

    /// Remaining time.
    fn time(&self) -> Option<Duration> {
        self.time.map(|time| time.saturating_sub(self.begun.elapsed()))
    }

    /// Refuses a file of text that is larger than the memory limit.
    fn check_text(&self, file: &Path, text: &str) -> Result<(), Failure> {
        match self.memory {
            Some(limit) if text.len() as u64 > limit => Err(Failure::Load(LoadError::Limit {
                file: file.display().to_string(),
                kind: FaultKind::MemoryLimit,
                message: format!("the memory limit of {limit} bytes is reached by the file's text"),
            })),
            _ => Ok(()),
        }
    }

    fn check(&self) -> Result<(), Failure> {
        match self.time {
            Some(limit) if self.begun.elapsed() > limit => Err(Failure::TimeLimit(limit)),
            _ => Ok(()),
        }
    }
}

impl Failure {
    /// The kind and the sentence, if a limit was reached outside a launch.
    fn limit(&self) -> Option<(FaultKind, String)> {
        match self {
            Self::Load(LoadError::Limit { kind, message, .. }) => Some((*kind, message.clone())),
            Self::Load(LoadError::Memory { source: source @ MemoryError::Limit { .. }, .. })
            | Self::SetUp(SetUp::Memory { source: source @ MemoryError::Limit { .. }, .. }) => {
                Some((FaultKind::MemoryLimit, source.to_string()))
            }
            Self::TimeLimit(_) => Some((FaultKind::TimeLimit, self.to_string())),
            Self::Write(error) if error.kind() == io::ErrorKind::TimedOut => {
                Some((FaultKind::TimeLimit, "stopped by the time limit while its results were written".to_owned()))
            }
            _ => None,
        }
    }
}

/// Output that fails once the time is over.
struct Timed<W> {
    out: W,
    bounds: Bounds,
}

impl<W: Write> Write for Timed<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.bounds.check().is_err() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        self.out.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let (result, json) = match &cli.command {
        Command::Run(options) => (run(options), options.json),
        Command::Case(options) => (case::run(options), options.json),
        Command::Trace(options) => (trace(options), false),
        Command::Check(options) => (check(options), options.json),
    };
    if json
        && let Err(failure) = &result
        && let Some((kind, message)) = failure.limit()
    {
        // What was written of the results ends where the time did.
        let before = if matches!(failure, Failure::Write(_)) { "\n" } else { "" };
        // A closed pipe must not hide the failure.
        let _ = writeln!(io::stdout(), "{before}{}", json!({ "fault": { "kind": kind.name(), "message": message } }));
    } else if let (true, Err(Failure::Load(error))) = (json, &result) {
        // On a closed pipe, what follows on stderr is all there is.
        let _ = writeln!(io::stdout(), "{}", load_error_json(error));
    }
    let failure = match result {
        Ok(code) => return code,
        // Whoever reads our output has had enough.
        Err(Failure::Write(error)) if error.kind() == io::ErrorKind::BrokenPipe => return ExitCode::SUCCESS,
        Err(failure) => failure,
    };
    let no_colour = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    let colour = io::stderr().is_terminal() && !no_colour;
    // If stderr is closed, there is nowhere left to report it.
    let _ = writeln!(io::stderr(), "{}", failure.render(colour).trim_end());
    ExitCode::from(failure.code())
}

/// "2 findings: out-of-bounds (4), shared-race (31)", each with its number of occurrences.
fn summary(findings: &[Fault]) -> String {
    let kinds: Vec<String> =
        findings.iter().map(|finding| format!("{} ({})", finding.kind.name(), finding.count)).collect();
    let plural = if findings.len() == 1 { "" } else { "s" };
    format!("{} finding{plural}: {}", findings.len(), kinds.join(", "))
}

/// Opens a file that is neither a device, which may have no end, nor a pipe, which may never begin.
fn regular(path: &Path) -> io::Result<File> {
    if std::fs::metadata(path)?.is_file() {
        File::open(path)
    } else {
        Err(io::Error::new(io::ErrorKind::InvalidInput, "it is no regular file"))
    }
}

/// The text of a file, decompressed if its name ends in `.gz` or only `FILE.gz` is there. At most one byte more than `most` is read:
/// enough to see that it is too large.
fn text_of(file: &Path, most: Option<u64>) -> Result<String, Failure> {
    let path = file.display().to_string();
    let failed = |source| Failure::Read { path: path.clone(), source };
    let mut bytes = Vec::new();
    let most = most.map_or(u64::MAX, |most| most.saturating_add(1));
    let compressed = PathBuf::from(format!("{path}.gz"));
    let found = if !file.exists() && compressed.exists() { &compressed } else { file };
    let mut reader: Box<dyn Read> = Box::new(regular(found).map_err(failed)?);
    if found.extension().is_some_and(|extension| extension == "gz") {
        reader = Box::new(GzDecoder::new(reader));
    }
    reader.take(most).read_to_end(&mut bytes).map_err(failed)?;
    String::from_utf8(bytes).map_err(|error| Failure::NotText { path, at: error.utf8_error().valid_up_to() })
}

/// A PTX file, linked with others.
fn load(file: &Path, others: &[PathBuf], bounds: Bounds) -> Result<Module, Failure> {
    let limits = LoadLimits { time: bounds.time(), memory: bounds.memory };
    let read = |file: &Path| Ok::<_, Failure>((text_of(file, bounds.memory)?, file.display().to_string()));
    let texts = std::iter::once(file).chain(others.iter().map(PathBuf::as_path)).map(read);
    let texts = texts.collect::<Result<Vec<_>, _>>()?;
    let texts: Vec<(&str, &str)> = texts.iter().map(|(text, name)| (&**text, name.trim_end_matches(".gz"))).collect();
    Ok(Module::link_within(&texts, limits)?)
}

fn save(file: &Path, contents: &[u8]) -> Result<(), Failure> {
    std::fs::write(file, contents).map_err(|source| Failure::Save { path: file.display().to_string(), source })
}

/// Session, kernel and result of a launch.
struct Launched {
    session: Session,
    kernel: Kernel,
    result: Result<Observation, LaunchError>,
}

/// Runs the kernel and observes it.
fn launch(options: &Launch, config: DeviceConfig, bounds: Bounds, observe: &Observe) -> Result<Launched, Failure> {
    let device = Device::new(DeviceConfig { memory_limit: bounds.memory, stack: options.stack, ..config });
    let mut session = Session::new(device, load(&options.file, &options.linked.files, bounds)?)?;
    let kernel = session.kernel(options.kernel.as_deref())?;
    for buffer in &options.buffer {
        session.add(buffer, "buffer")?;
    }
    for (name, element, bytes) in &options.set {
        session.set(name, *element, bytes.len() as u64, |device, at| device.write(at, bytes))?;
    }
    let args = session.arguments(&options.args)?;
    let config = LaunchConfig {
        grid: options.grid,
        block: options.block,
        cluster: options.cluster,
        non_portable_cluster: options.cluster.is_some(),
        shared_bytes: options.shared,
        budget: Some(options.budget),
        time_limit: bounds.time(),
        cooperative: options.cooperative,
        asynchrony: options.asynchrony,
    };
    let result = kernel.observe(&config, &args, observe);
    Ok(Launched { session, kernel, result })
}

/// Watch request of `--watch`: lines on stderr, up to the limit.
fn watch(options: &Run) -> Option<WatchRequest> {
    let points: Vec<_> = options.watch.iter().flat_map(|points| points.0.clone()).collect();
    let threads = match options.warp {
        Some(warp) => WatchThreads::Warp(warp),
        None => WatchThreads::Thread(options.thread.unwrap_or_default()),
    };
    let (limit, told) = (options.watch_limit, AtomicU64::new(0));
    let sink = WatchSink::new(move |watched| {
        let goes_on = told.fetch_add(1, Ordering::Relaxed) < limit;
        let line = if goes_on {
            watched.to_string()
        } else {
            format!("watch: there is more after these {limit} lines (--watch-limit)")
        };
        writeln!(io::stderr(), "{line}").is_ok() && goes_on
    });
    (!points.is_empty()).then_some(WatchRequest { points, block: options.at_block, threads, sink })
}

fn run(options: &Run) -> Result<ExitCode, Failure> {
    let (bounds, roots) = (Bounds::new(&options.launch.limits), &options.launch.source_root);
    let profile = options.profile || options.fidelity;
    let observe = Observe { profile, watch: watch(options), ..Observe::default() };
    let config = DeviceConfig { sanitize: options.sanitize, strict: options.strict, ..Default::default() };
    let Launched { session, kernel, result } = launch(&options.launch, config, bounds, &observe)?;
    let printed = session.device.take_output();
    let mut out = io::BufWriter::new(io::stdout().lock());
    match result {
        Ok(mut observation) => {
            if options.sanitize {
                observation.findings.extend(session.device.heap_findings());
            }
            session.judge(session.shown(), &mut observation.findings);
            let stack = observation.report.stack_bytes;
            if !options.sanitize && options.launch.stack.is_none() && stack > DEFAULT_STACK {
                writeln!(
                    io::stderr(),
                    "note: recursive calls took {stack} bytes of a thread's stack, which has {DEFAULT_STACK} on a GPU unless \
                     `cudaDeviceSetLimit(cudaLimitStackSize, …)` asks for more"
                )?;
            }
            for (name, file) in &options.save {
                let place = saved(&session, &options.launch, name)?;
                session
                    .judge((!session.shown().any(|shown| shown == place)).then_some(place), &mut observation.findings);
                save(file, &session.read(place))?;
            }
            let fidelity = observation.profile.clone().filter(|_| options.fidelity);
            let profile = observation.profile.filter(|_| options.profile).map(|profile| {
                let residence = Residence::of(&profile, options, &kernel.info().name);
                (profile, residence)
            });
            let mut out = io::BufWriter::new(Timed { out, bounds });
            if options.json {
                let mut object = results_json(observation.report, &printed);
                if options.sanitize {
                    object["findings"] = observation.findings.iter().map(finding_json).collect();
                }
                if let Some(profile) = &fidelity {
                    object["fidelity"] = fidelity::to_json(profile);
                }
                let profile = profile.as_ref().map(|(profile, residence)| {
                    (profile, Map::from_iter([("occupancy".to_owned(), residence.json())]))
                });
                write_json(&mut out, &session, &object, profile)?;
            } else {
                write_results(&mut out, &session, &printed)?;
                if let Some((profile, residence)) = profile {
                    write!(out, "{}\n{}", profile.render_from(roots, TOP_LINES), residence.text())?;
                }
                if let Some(profile) = &fidelity {
                    fidelity::write(&mut out, profile)?;
                }
            }
            out.flush()?;
            if observation.findings.is_empty() {
                if options.sanitize && !options.json {
                    writeln!(io::stderr(), "the sanitiser found nothing")?;
                }
                Ok(ExitCode::SUCCESS)
            } else {
                Err(Failure::Findings(observation.findings, roots.clone()))
            }
        }
        Err(LaunchError::Fault(fault)) => {
            write_failed(&mut out, options.json, &printed, &fault, None);
            Err(Failure::Fault(fault, roots.clone()))
        }
        Err(LaunchError::Findings(findings)) => {
            if let Some(limit) = limit_among(&findings) {
                write_failed(&mut out, options.json, &printed, limit, Some(&findings));
            }
            Err(Failure::Findings(findings, roots.clone()))
        }
        Err(error) => Err(Failure::Usage(error)),
    }
}

/// The limit that ended a sanitised launch.
fn limit_among(findings: &[Fault]) -> Option<&Fault> {
    findings.iter().find(|finding| finding.kind.is_limit())
}

/// The buffer or variable of that name, or the buffer that is the argument of that number.
fn saved(session: &Session, launch: &Launch, name: &str) -> Result<Place, SetUp> {
    let numbered = name
        .parse()
        .ok()
        .and_then(|number: usize| number.checked_sub(1))
        .filter(|at| matches!(launch.args.get(*at), Some(Argument::Buffer(_))));
    match numbered {
        Some(at) => {
            let before = launch.args[..at].iter().filter(|argument| matches!(argument, Argument::Buffer(_))).count();
            Ok(session.buffer(launch.buffer.len() + before))
        }
        None => session.named(name),
    }
}

/// Maximum lines of a profile that are shown.
const TOP_LINES: usize = 20;

/// A kernel's occupancy on one architecture.
struct Residence {
    arch: String,
    occupancy: Occupancy,
    /// Registers per thread, or why they are not known.
    registers: Result<u32, String>,
}

impl Residence {
    fn of(profile: &Profile, options: &Run, kernel: &str) -> Self {
        let text = text_of(&options.launch.file, None).map_err(|error| error.to_string());
        let registers = text.and_then(|ptx| ptxas::registers(&ptx, &options.arch, kernel));
        let limits = Limits::of(&options.arch).expect("`cli::architecture` let it pass");
        let known = registers.as_ref().ok().copied();
        let occupancy = Occupancy::of(&limits, profile.threads, profile.shared_bytes, known);
        Self { arch: options.arch.clone(), occupancy, registers }
    }

    fn text(&self) -> String {
        let Occupancy { blocks, warps, max_warps, limiter } = self.occupancy;
        let registers = match &self.registers {
            Ok(registers) => format!("{registers} registers a thread"),
            Err(reason) => format!("registers unknown: {reason}"),
        };
        let share = 100.0 * self.occupancy.share();
        format!(
            "occupancy on {}: {share:.1}% ({warps} of {max_warps} warps in {blocks} blocks, limited by {}; {registers})\n",
            self.arch,
            limiter.name()
        )
    }

    fn json(&self) -> Value {
        let Occupancy { blocks, warps, max_warps, limiter } = self.occupancy;
        let mut object = json!({
            "arch": self.arch,
            "blocks": blocks,
            "warps": warps,
            "max_warps": max_warps,
            "share": self.occupancy.share(),
            "limiter": limiter.name(),
            "registers": self.registers.as_ref().ok(),
        });
        if let Err(reason) = &self.registers {
            object["registers_unknown"] = json!(reason);
        }
        object
    }
}

fn trace(options: &TraceOptions) -> Result<ExitCode, Failure> {
    let (bounds, roots) = (Bounds::new(&options.launch.limits), &options.launch.source_root);
    let request = TraceRequest {
        block: options.at_block,
        warp: options.warp,
        max_steps: options.max_steps,
        source_roots: roots.clone(),
        ..TraceRequest::default()
    };
    let observe = Observe { trace: Some(request), ..Observe::default() };
    let trace = match launch(&options.launch, DeviceConfig::default(), bounds, &observe)?.result {
        Ok(observation) => observation.trace.unwrap_or_default(),
        Err(LaunchError::Fault(fault)) => return Err(Failure::Fault(fault, roots.clone())),
        Err(error) => return Err(Failure::Usage(error)),
    };
    let nth = usize::try_from(options.nth).unwrap_or(usize::MAX);
    let pick = Pick { line: options.line, warp: options.warp, kind: options.kind.map(Into::into), nth };
    let text = match options.show {
        None => list(&trace, &pick, bounds)?,
        Some(Show::Sectors) => trace.sectors(&pick)?,
        Some(Show::Banks) => trace.banks(&pick)?,
        Some(Show::Fragment) => trace.fragment(&pick)?,
        Some(Show::Operand) => trace.operand(&pick)?,
        Some(Show::Tile) => trace.tile(&pick)?,
        Some(Show::Box) => trace.tensor_box(&pick)?,
        Some(Show::TensorMemory) => trace.tensor_memory(&pick)?,
        Some(Show::Timeline) => trace.timeline()?,
    };
    match &options.output {
        Some(path) => save(path, text.as_bytes())?,
        None => {
            let mut out = io::stdout().lock();
            out.write_all(text.as_bytes())?;
            out.flush()?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// A table of the accesses: equal ones of a line are listed once, with their number.
fn list(trace: &Trace, pick: &Pick, bounds: Bounds) -> Result<String, Failure> {
    let mut rows: Vec<([String; 6], usize, String)> = Vec::new();
    let mut known: HashMap<[String; 6], usize> = HashMap::new();
    for access in &trace.accesses {
        bounds.check()?;
        let site = trace.site(access);
        let fits = pick.line.is_none_or(|line| site.is_at(line)) && pick.kind.is_none_or(|kind| kind == access.kind);
        if !fits {
            continue;
        }
        let cost = match access.space {
            Space::Global => format!("{} sectors, ideal {}", access.sectors(), access.ideal_sectors()),
            Space::Shared if access.kind == AccessKind::Bulk => String::new(),
            Space::Shared => format!("{} wavefronts, ideal {}", access.wavefronts(), access.ideal_wavefronts()),
            Space::Constant | Space::Local => String::new(),
        };
        let row = [
            site.shown_line().to_string(),
            access.space.to_string(),
            access.kind.to_string(),
            access.lanes().count_ones().to_string(),
            access.bytes().to_string(),
            cost,
        ];
        match known.get(&row) {
            Some(at) => rows[*at].1 += 1,
            None => {
                known.insert(row.clone(), rows.len());
                rows.push((row, 1, site.text.clone().unwrap_or_else(|| site.instruction.clone())));
            }
        }
    }
    let mut text = format!(
        "{:>5}  {:>7}  {:8}  {:6}  {:>5}  {:>5}  {:28}  source\n",
        "line", "times", "space", "kind", "lanes", "bytes", "cost of each"
    );
    for ([line, space, kind, lanes, bytes, cost], count, source) in rows {
        text += &format!("{line:>5}  {count:>7}  {space:8}  {kind:6}  {lanes:>5}  {bytes:>5}  {cost:28}  {source}\n");
    }
    if trace.missed != 0 {
        text += &format!("truncated: {} more warp instructions of the block are not in the trace\n", trace.missed);
    }
    Ok(text)
}
