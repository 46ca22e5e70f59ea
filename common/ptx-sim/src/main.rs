//! `ptx-sim`: runs a kernel of a PTX file on the simulated device, or lists the file's contents.

mod case;
mod cli;
mod session;

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, IsTerminal, Read, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use clap::Parser;
use cli::{Argument, Check, Cli, Command, Launch, Run, Show, TraceOptions};
use flate2::read::GzDecoder;
use ptx_sim::{
    AccessKind, Device, DeviceConfig, Fault, FaultKind, Kernel, KernelInfo, LaunchConfig, LaunchError, LaunchReport,
    Limits, LoadError, LoadLimits, MemoryError, Module, Observation, Observe, Occupancy, Pick, PictureError, Profile,
    Space, Trace, TraceRequest, Unsupported, UnsupportedForm, WatchRequest, WatchSink, WatchThreads, ptxas,
};
use serde_json::{Value, json};
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
            _ => None,
        }
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
        // A closed pipe must not hide the failure.
        let _ = writeln!(io::stdout(), "{}", json!({ "fault": { "kind": kind.name(), "message": message } }));
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

/// The text of a file, decompressed if its name ends in `.gz` or only `FILE.gz` is there. At most one byte more than `most` is read:
/// enough to see that it is too large.
fn text_of(file: &Path, most: Option<u64>) -> Result<String, Failure> {
    let path = file.display().to_string();
    let failed = |source| Failure::Read { path: path.clone(), source };
    let mut bytes = Vec::new();
    let most = most.map_or(u64::MAX, |most| most.saturating_add(1));
    let compressed = PathBuf::from(format!("{path}.gz"));
    let found = if !file.exists() && compressed.exists() { &compressed } else { file };
    let mut reader: Box<dyn Read> = Box::new(File::open(found).map_err(failed)?);
    if found.extension().is_some_and(|extension| extension == "gz") {
        reader = Box::new(GzDecoder::new(reader));
    }
    reader.take(most).read_to_end(&mut bytes).map_err(failed)?;
    String::from_utf8(bytes).map_err(|error| Failure::NotText { path, at: error.utf8_error().valid_up_to() })
}

fn load(file: &Path, bounds: Bounds) -> Result<Module, Failure> {
    let limits = LoadLimits { time: bounds.time(), memory: bounds.memory };
    let text = text_of(file, bounds.memory)?;
    Ok(Module::from_ptx_within(&text, file.display().to_string().trim_end_matches(".gz"), limits)?)
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
fn launch(options: &Launch, sanitize: bool, bounds: Bounds, observe: &Observe) -> Result<Launched, Failure> {
    let device = Device::new(DeviceConfig { sanitize, memory_limit: bounds.memory, ..Default::default() });
    let mut session = Session::new(device, load(&options.file, bounds)?)?;
    let kernel = session.kernel(options.kernel.as_deref())?;
    for buffer in &options.buffer {
        session.add(buffer, "buffer")?;
    }
    for (name, element, bytes) in &options.set {
        session.set(name, *element, bytes)?;
    }
    let args = session.arguments(&options.args)?;
    let config = LaunchConfig {
        grid: options.grid,
        block: options.block,
        cluster: options.cluster,
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
        let line = match goes_on {
            true => watched.to_string(),
            false => format!("watch: there is more after these {limit} lines (--watch-limit)"),
        };
        writeln!(io::stderr(), "{line}").is_ok() && goes_on
    });
    (!points.is_empty()).then_some(WatchRequest { points, block: options.at_block, threads, sink })
}

fn run(options: &Run) -> Result<ExitCode, Failure> {
    let (bounds, roots) = (Bounds::new(&options.launch.limits), &options.launch.source_root);
    let observe = Observe { profile: options.profile, watch: watch(options), ..Observe::default() };
    let Launched { session, kernel, result } = launch(&options.launch, options.sanitize, bounds, &observe)?;
    let printed = session.device.take_output();
    let mut out = io::BufWriter::new(io::stdout().lock());
    match result {
        Ok(mut observation) => {
            if options.sanitize {
                observation.findings.extend(session.device.heap_findings());
            }
            if let Some(limit) = limit_among(&observation.findings) {
                write_failed(&mut out, options.json, &printed, limit, Some(&observation.findings));
                return Err(Failure::Findings(observation.findings, roots.clone()));
            }
            for (name, file) in &options.save {
                save(file, &session.read(saved(&session, &options.launch, name)?))?;
            }
            let profile = observation.profile.map(|profile| {
                let residence = Residence::of(&profile, options, &kernel.info().name);
                (profile, residence)
            });
            if options.json {
                let mut object = results_json(observation.report, &printed);
                if let Some((profile, residence)) = profile {
                    object["profile"] = profile.to_json();
                    object["profile"]["occupancy"] = residence.json();
                }
                if options.sanitize {
                    object["findings"] = observation.findings.iter().map(finding_json).collect();
                }
                write_json(&mut out, &session, &object)?;
            } else {
                write_results(&mut out, &session, &printed)?;
                if let Some((profile, residence)) = profile {
                    write!(out, "{}\n{}", profile.render_from(roots, TOP_LINES), residence.text())?;
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
        Err(error) => Err(Failure::Usage(error)),
    }
}

/// The limit that ended a sanitised launch: there is no time or memory left for its buffers.
fn limit_among(findings: &[Fault]) -> Option<&Fault> {
    findings.iter().find(|finding| matches!(finding.kind, FaultKind::TimeLimit | FaultKind::MemoryLimit))
}

/// Writes the kernels' output before a fault, which helps to understand it; as JSON with the fault, and with the findings
/// if a sanitiser watched.
fn write_failed(out: &mut impl Write, json: bool, printed: &str, fault: &Fault, findings: Option<&[Fault]>) {
    // A closed pipe must not hide the fault, which is told on stderr too.
    let _ = if json {
        let mut object = fault_json(fault, printed);
        if let Some(findings) = findings {
            object["findings"] = findings.iter().map(finding_json).collect();
        }
        writeln!(out, "{object}")
    } else {
        write_printed(out, printed)
    };
    let _ = out.flush();
}

/// Writes the output of kernels. Further text begins on a line of its own.
fn write_printed(out: &mut impl Write, printed: &str) -> io::Result<()> {
    out.write_all(printed.as_bytes())?;
    if !printed.is_empty() && !printed.ends_with('\n') {
        writeln!(out)?;
    }
    Ok(())
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
    let trace = match launch(&options.launch, false, bounds, &observe)?.result {
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

fn write_results(out: &mut impl Write, session: &Session, printed: &str) -> io::Result<()> {
    write_printed(out, printed)?;
    session.shown().try_for_each(|place| place.write_line(out, &session.device))
}

impl Place {
    /// Writes the elements as a line of text.
    fn write_line(&self, out: &mut impl Write, device: &Device) -> io::Result<()> {
        self.write(out, device, |out, bits| out.write_all(self.element.text(bits).as_bytes()))?;
        writeln!(out)
    }

    /// Writes the elements as a list of JSON.
    fn write_list(&self, out: &mut impl Write, device: &Device) -> io::Result<()> {
        out.write_all(b"[")?;
        self.write(out, device, |out, bits| write!(out, "{}", self.element.json(bits)))?;
        out.write_all(b"]")
    }

    /// Writes the elements with commas between, in parts: as text they take many times their memory.
    fn write<W: Write>(
        &self,
        out: &mut W,
        device: &Device,
        one: impl Fn(&mut W, u64) -> io::Result<()>,
    ) -> io::Result<()> {
        // A texture or surface is read whole.
        let texels = self.object.map(|handle| {
            let mut texels = vec![0; self.bytes as usize];
            let read = device.read_object(handle, &mut texels);
            read.expect("it was made with this size and never destroyed");
            texels
        });
        let mut part = [0; 1 << 16];
        let mut done = 0;
        while done < self.bytes {
            let part = &mut part[..(self.bytes - done).min(1 << 16) as usize];
            match &texels {
                Some(texels) => part.copy_from_slice(&texels[done as usize..done as usize + part.len()]),
                None => {
                    let read = device.read(self.pointer.offset(done), part);
                    read.expect("it was allocated with this size and never freed");
                }
            }
            for (at, bits) in self.element.elements(part).enumerate() {
                if done != 0 || at != 0 {
                    out.write_all(b",")?;
                }
                one(out, bits)?;
            }
            done += part.len() as u64;
        }
        Ok(())
    }
}

/// The object with the buffers as its first member.
fn write_json(out: &mut impl Write, session: &Session, object: &Value) -> io::Result<()> {
    write!(out, "{{\"buffers\":[")?;
    for (at, place) in session.shown().enumerate() {
        out.write_all(if at == 0 { b"" } else { b"," })?;
        place.write_list(out, &session.device)?;
    }
    let rest = object.to_string();
    writeln!(out, "],{}", rest.trim_start_matches('{'))
}

/// All results except the buffers.
fn results_json(report: LaunchReport, printed: &str) -> Value {
    let mut object = json!({
        "instructions": report.warp_instructions,
        "lane_instructions": report.lane_instructions,
    });
    if !printed.is_empty() {
        object["output"] = json!(printed);
    }
    object
}

fn fault_json(fault: &Fault, printed: &str) -> Value {
    let mut object = json!({ "fault": one_fault_json(fault) });
    if !printed.is_empty() {
        object["output"] = json!(printed);
    }
    object
}

fn one_fault_json(fault: &Fault) -> Value {
    let inlined: Vec<Value> = fault.inlined.iter().map(|(file, line)| json!({ "file": file, "line": line })).collect();
    json!({
        "kind": fault.kind.name(),
        "message": fault.message,
        "kernel": fault.kernel,
        "file": fault.file,
        "line": fault.line,
        "ptx_file": fault.ptx.0,
        "ptx_line": fault.ptx.1,
        "instruction": fault.instruction,
        "block": fault.block,
        "thread": fault.thread,
        "threads": fault.threads,
        "address": fault.address,
        "notes": fault.notes,
        "inlined": inlined,
    })
}

/// JSON of a finding. It always has a line: that of the PTX file where no CUDA source is known.
fn finding_json(finding: &Fault) -> Value {
    let place = |file: &Option<String>, line: Option<u32>, ptx: &(String, u32)| match (file, line) {
        (Some(file), Some(line)) => (file.clone(), line),
        _ => ptx.clone(),
    };
    let mut object = one_fault_json(finding);
    let (file, line) = place(&finding.file, finding.line, &finding.ptx);
    object["file"] = json!(file);
    object["line"] = json!(line);
    object["count"] = json!(finding.count);
    if let Some(other) = &finding.other {
        let (file, line) = place(&other.file, other.line, &other.ptx);
        object["other"] = json!({
            "access": other.what, "file": file, "line": line, "block": other.block, "thread": other.thread,
        });
    }
    object
}

fn check(options: &Check) -> Result<ExitCode, Failure> {
    let mut out = io::BufWriter::new(io::stdout().lock());
    let Some(file) = &options.file else {
        write_support(&mut out)?;
        out.flush()?;
        return Ok(ExitCode::SUCCESS);
    };
    let module = load(file, Bounds::new(&options.limits))?;
    let kernels: Vec<&KernelInfo> = module.kernels().collect();
    if options.json {
        let kernels: Vec<Value> = kernels.iter().map(|kernel| kernel_json(kernel)).collect();
        writeln!(out, "{}", json!({ "kernels": kernels }))?;
    } else {
        if kernels.is_empty() {
            writeln!(out, "{} has no kernels", module.name())?;
        }
        kernels.iter().try_for_each(|kernel| write_kernel(&mut out, kernel))?;
    }
    out.flush()?;
    let known = kernels.iter().all(|kernel| kernel.unsupported.is_empty());
    Ok(if known { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

/// Writes the supported and the refused instructions, in Markdown.
fn write_support(out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "Instructions that run, in their forms up to compute capability 9.0 but for those below:\n")?;
    let mut line = String::new();
    for name in ptx_sim::supported_mnemonics() {
        if line.len() + name.len() + 3 > 120 {
            writeln!(out, "{}", line.trim_end())?;
            line.clear();
        }
        line += &format!("`{name}` ");
    }
    writeln!(out, "{}\n", line.trim_end())?;
    writeln!(out, "| refused | reason |\n| --- | --- |")?;
    for item in ptx_sim::refused_forms() {
        let form = item.text.trim_start_matches('.').split_whitespace().next().unwrap_or_default();
        let dot = if item.text.starts_with('.') { "." } else { "" };
        writeln!(out, "| `{dot}{}` | {} |", form.trim_end_matches(';'), item.reason)?;
    }
    Ok(())
}

fn write_kernel(out: &mut impl Write, kernel: &KernelInfo) -> io::Result<()> {
    match session::readable(&kernel.name) {
        same if same == kernel.name => writeln!(out, "kernel {same}")?,
        readable => writeln!(out, "kernel {} = {readable}", kernel.name)?,
    }
    // A type may be as long as the file; a column is not.
    let width = kernel.params.iter().map(|param| param.ty.len()).max().unwrap_or(0).min(60);
    for (number, param) in (1..).zip(&kernel.params) {
        writeln!(out, "  parameter {number}: {:width$}  {}  offset {}", param.ty, param.name, param.offset)?;
    }
    writeln!(out, "  static shared memory: {} bytes", kernel.static_shared)?;
    match (kernel.required_threads, kernel.max_threads) {
        (Some([x, y, z]), _) => writeln!(out, "  launch bounds: a block of {x} × {y} × {z} threads")?,
        (None, Some(threads)) => writeln!(out, "  launch bounds: at most {threads} threads per block")?,
        (None, None) => writeln!(out, "  launch bounds: none")?,
    }
    if kernel.unsupported.is_empty() {
        return writeln!(out, "  unsupported instructions: none");
    }
    writeln!(out, "  unsupported instructions: {}", kernel.unsupported.len())?;
    for form in Unsupported::forms(&kernel.unsupported) {
        let first = form.lines[0];
        let place = if first == 0 { String::new() } else { format!("line {first}: ") };
        match form.lines.len() {
            1 => {
                let text = kernel.unsupported.iter().find(|item| item.line == first && item.reason == form.reason);
                let text = text.map_or(form.form.as_str(), |item| item.text.as_str());
                writeln!(out, "    {place}{text} ({})", form.reason)?;
            }
            count => writeln!(out, "    {place}{} ({}), {count} times", form.form, form.reason)?,
        }
    }
    Ok(())
}

fn unsupported_json(items: &[Unsupported]) -> Value {
    items.iter().map(|item| json!({ "line": item.line, "text": item.text, "reason": item.reason })).collect()
}

fn forms_json(items: &[Unsupported]) -> Value {
    let form = |form: &UnsupportedForm| {
        let UnsupportedForm { form, reason, lines } = form;
        json!({ "form": form, "reason": reason, "count": lines.len(), "lines": lines })
    };
    Unsupported::forms(items).iter().map(form).collect()
}

/// JSON of the reason why a file or a kernel of it cannot be loaded.
fn load_error_json(error: &LoadError) -> Value {
    let mut object = json!({ "message": error.to_string() });
    match error {
        LoadError::Syntax { file, line, message, .. } => {
            object["kind"] = json!("syntax");
            object["file"] = json!(file);
            object["line"] = json!(line);
            object["message"] = json!(message);
        }
        LoadError::Unsupported { kernel, file, items } => {
            object["kind"] = json!("unsupported");
            object["kernel"] = json!(kernel);
            object["file"] = json!(file);
            object["instructions"] = unsupported_json(items);
            object["forms"] = forms_json(items);
        }
        LoadError::UnknownKernel { kernel, file, known } => {
            object["kind"] = json!("unknown-kernel");
            object["kernel"] = json!(kernel);
            object["file"] = json!(file);
            object["kernels"] = json!(known);
        }
        _ => object["kind"] = json!("memory"),
    }
    json!({ "refused": object })
}

fn kernel_json(kernel: &KernelInfo) -> Value {
    let params: Vec<Value> = kernel
        .params
        .iter()
        .map(|param| json!({ "name": param.name, "type": param.ty, "offset": param.offset, "size": param.size }))
        .collect();
    json!({
        "name": kernel.name,
        "readable_name": session::readable(&kernel.name),
        "params": params,
        "static_shared": kernel.static_shared,
        "max_threads": kernel.max_threads,
        "required_threads": kernel.required_threads,
        "unsupported": unsupported_json(&kernel.unsupported),
        "unsupported_forms": forms_json(&kernel.unsupported),
    })
}
