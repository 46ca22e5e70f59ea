//! Launches: their shape, their arguments, what is observed of them, and why they fail.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::Inner;
use super::module::Loaded;
use crate::exec;
use crate::exec::{Asynchrony, EarlierWork, TouchedMemory};
use crate::fault::{Fault, FaultKind};
use crate::ir::KernelInfo;
use crate::limits::{Account, Reached, Use};
use crate::memory::{DevicePtr, Placement, Role};
use crate::occupancy::{Limits, Occupancy};
use crate::profile::Profile;
use crate::tensor_map::TensorMap;
use crate::texture::ObjectHandle;
use crate::trace::{Trace, TraceRequest};
use crate::watch::WatchRequest;

/// Maximum threads of a block.
pub const MAX_THREADS: u32 = 1024;
/// Maximum bytes of shared memory of a block, as on a device of compute capability 9.0.
pub const MAX_SHARED: u32 = 227 * 1024;
/// Maximum blocks of a grid along each axis.
pub const MAX_GRID: [u32; 3] = [i32::MAX as u32, 65535, 65535];
/// Maximum threads of a block along each axis.
pub const MAX_BLOCK: [u32; 3] = [1024, 1024, 64];
/// Maximum warp instructions of a launch if [`LaunchConfig::budget`] is `None`.
pub const DEFAULT_BUDGET: u64 = 10_000_000_000;

/// Shape of a launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaunchConfig {
    /// Blocks along x, y, z.
    pub grid: [u32; 3],
    /// Threads of a block along x, y, z.
    pub block: [u32; 3],
    /// Blocks of a cluster along x, y, z, for a kernel without `__cluster_dims__`.
    pub cluster: Option<[u32; 3]>,
    /// Whether a cluster may have more blocks than every GPU supports, up to 16 instead of 8
    /// (`cudaFuncAttributeNonPortableClusterSizeAllowed`).
    pub non_portable_cluster: bool,
    /// Bytes of dynamic shared memory per block.
    pub shared_bytes: u32,
    /// Maximum warp instructions, all blocks together, or work that costs as much: the beginning of a block, `printf`,
    /// `malloc`, waits for many copies. [`DEFAULT_BUDGET`] if `None`.
    pub budget: Option<u64>,
    /// Maximum wall-clock time; then the launch ends with a fault of kind [`crate::FaultKind::TimeLimit`]. `None`: no
    /// limit.
    pub time_limit: Option<Duration>,
    /// A cooperative launch (`cudaLaunchCooperativeKernel`): its blocks may wait for each other, as `grid.sync()` does, so
    /// all of them have to fit the device at once.
    pub cooperative: bool,
    /// When asynchronous copies are made. A sanitised launch always makes them late: then all are under way for as long as they
    /// may be.
    pub asynchrony: Asynchrony,
}

impl Default for LaunchConfig {
    /// One thread.
    fn default() -> Self {
        Self {
            grid: [1; 3],
            block: [1; 3],
            cluster: None,
            non_portable_cluster: false,
            shared_bytes: 0,
            budget: None,
            time_limit: None,
            cooperative: false,
            asynchrony: Asynchrony::default(),
        }
    }
}

/// The bytes of one kernel parameter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arg(Vec<u8>);

impl Arg {
    /// A parameter of any type, as the kernel sees it in memory.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Self {
        Self(bytes.to_vec())
    }
}

macro_rules! arg_from {
    ($($ty:ty),*) => {
        $(impl From<$ty> for Arg {
            fn from(value: $ty) -> Self {
                Self(value.to_le_bytes().to_vec())
            }
        })*
    };
}
arg_from!(u8, i8, u16, i16, u32, i32, u64, i64, f32, f64);

impl From<ObjectHandle> for Arg {
    fn from(handle: ObjectHandle) -> Self {
        handle.0.into()
    }
}

impl From<&TensorMap> for Arg {
    fn from(map: &TensorMap) -> Self {
        Self(map.bytes().to_vec())
    }
}

impl From<DevicePtr> for Arg {
    fn from(pointer: DevicePtr) -> Self {
        pointer.0.into()
    }
}

/// Counts of one launch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LaunchReport {
    /// Instructions that warps executed; one that a predicate switched off in all lanes counts too.
    pub warp_instructions: u64,
    /// The same, each counted once per active lane.
    pub lane_instructions: u64,
    /// Instructions of the warp that executed most.
    pub longest_warp: u64,
    /// Bytes of a thread's stack that recursive calls took at most; 0 without recursion.
    pub stack_bytes: u32,
}

impl From<exec::Counts> for LaunchReport {
    fn from(counts: exec::Counts) -> Self {
        let exec::Counts { warp_instructions, lane_instructions, longest_warp, stack_bytes } = counts;
        Self { warp_instructions, lane_instructions, longest_warp, stack_bytes }
    }
}

/// Observations to make of a launch.
///
/// A traced or watched launch has one worker, so that it is the same each time.
#[derive(Clone, Debug, Default)]
pub struct Observe {
    /// Count the kernel's use of the hardware, line by line. Costs about half of the simulator's speed.
    pub profile: bool,
    /// Record one block's work: [`Observation::trace`].
    pub trace: Option<TraceRequest>,
    /// Report values of registers and memory while the kernel runs.
    pub watch: Option<WatchRequest>,
    /// Record the bytes that it accesses in each allocation; only on a device that sanitises.
    pub touches: bool,
    /// Work before a joint launch that is not ordered before all of its devices; only on a device that sanitises.
    pub earlier: Vec<EarlierWork>,
}

/// Observations of a launch.
#[derive(Clone, Debug, Default)]
pub struct Observation {
    /// Counts of the launch.
    pub report: LaunchReport,
    /// Findings of the sanitiser, in order of occurrence; empty unless the device sanitises ([`crate::DeviceConfig::sanitize`]).
    pub findings: Vec<Fault>,
    /// Use of the hardware, if requested ([`Observe::profile`]).
    pub profile: Option<Profile>,
    /// Work of one block, if requested.
    pub trace: Option<Trace>,
    /// Memory that it accessed, if requested ([`Observe::touches`]).
    pub touched: Vec<TouchedMemory>,
}

/// Reason why a launch did not happen, or did not end well.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LaunchError {
    /// The arguments do not match the kernel's parameters.
    #[error("kernel `{kernel}`: {message}")]
    Arguments {
        /// The kernel.
        kernel: String,
        /// The argument, and the expected one.
        message: String,
    },
    /// The device cannot run a grid or block of that shape.
    #[error("kernel `{kernel}`: {message}")]
    Config {
        /// The kernel.
        kernel: String,
        /// The exceeded limit, and the excess.
        message: String,
    },
    /// There is nothing to trace or watch at the requested place.
    #[error("kernel `{kernel}`: {message}")]
    Observe {
        /// The kernel.
        kernel: String,
        /// The missing place, and the existing ones.
        message: String,
    },
    /// The kernel broke a rule.
    #[error(transparent)]
    Fault(Box<Fault>),
    /// Findings of the sanitiser: at least one fault. The launch went on past each where that was possible.
    #[error("{}", .0.iter().map(Fault::to_string).collect::<Vec<_>>().join("\n"))]
    Findings(Vec<Fault>),
}

/// Maximum number of blocks of a cluster: the size that every GPU supports, and that of large GPUs.
const MAX_CLUSTER: u64 = 8;
const MAX_NON_PORTABLE_CLUSTER: u64 = 16;

/// Workspace that the driver gives a cooperative launch: a word with its size and the barrier of the grid, whose
/// address is in `%envreg1` and `%envreg2`.
struct Workspace<'d> {
    device: &'d Inner,
    base: u64,
}

impl<'d> Workspace<'d> {
    const BYTES: u64 = 8;

    fn new(kernel: &Kernel, device: &'d Inner) -> Result<Self, LaunchError> {
        let allocated = device.memory.alloc(Self::BYTES, "the barrier of the grid", Role::Variable, Placement::Device);
        let allocation = allocated.map_err(|error| LaunchError::Config {
            kernel: kernel.info().name.clone(),
            message: format!("the barrier of a cooperative launch: {error}"),
        })?;
        allocation.write(0, &Self::BYTES.to_le_bytes());
        Ok(Self { device, base: allocation.base })
    }
}

impl Drop for Workspace<'_> {
    fn drop(&mut self) {
        // It is the start of a live allocation: nobody else knows of it.
        let _ = self.device.memory.free(DevicePtr(self.base));
    }
}

/// A kernel that can be launched.
#[derive(Clone, Debug)]
pub struct Kernel {
    pub(super) loaded: Arc<Loaded>,
    pub(super) index: usize,
}

impl Kernel {
    /// Name, parameters and static needs of the kernel.
    #[must_use]
    pub fn info(&self) -> &KernelInfo {
        &self.loaded.module.parts()[self.index].info
    }

    /// Blocks of a cluster along x, y, z, from `__cluster_dims__`.
    #[must_use]
    pub fn cluster(&self) -> Option<[u32; 3]> {
        self.loaded.module.parts()[self.index].cluster
    }

    /// Runs the kernel to its end.
    ///
    /// # Errors
    /// [`LaunchError::Arguments`] and [`LaunchError::Config`] before anything ran; [`LaunchError::Fault`] if the kernel broke a
    /// rule, with memory as it was then; on a device that sanitises, [`LaunchError::Findings`] with all findings.
    pub fn launch(&self, config: &LaunchConfig, args: &[Arg]) -> Result<LaunchReport, LaunchError> {
        let observation = self.observe(config, args, &Observe::default())?;
        if observation.findings.is_empty() {
            Ok(observation.report)
        } else {
            Err(LaunchError::Findings(observation.findings))
        }
    }

    /// Runs the kernel to its end and returns the observations. On a device that sanitises, findings are part of them and
    /// not an error, unless one is a limit that the launch has reached: then it did not run to its end.
    ///
    /// # Errors
    /// Same as [`Self::launch`], but for other findings; [`LaunchError::Observe`] before anything ran if an object of observation
    /// does not exist.
    pub fn observe(&self, config: &LaunchConfig, args: &[Arg], observe: &Observe) -> Result<Observation, LaunchError> {
        Kernel::observe_together(&[(self, args)], config, observe)
    }

    /// [`Self::observe`] for grids that run at the same time, as on several GPUs of one host, each with its own arguments: their
    /// blocks may wait for each other. All are of one kernel; each may come from a load of its own, with its own module variables. A
    /// finding between two of them names both devices, by their places in the list.
    ///
    /// # Errors
    /// Same as [`Self::observe`]; [`LaunchError::Config`] if there is no grid, or they are not of one kernel.
    pub fn observe_together(
        grids: &[(&Kernel, &[Arg])],
        config: &LaunchConfig,
        observe: &Observe,
    ) -> Result<Observation, LaunchError> {
        let Some((first, _)) = grids.first() else {
            let message = "a joint launch has no grid".to_owned();
            return Err(LaunchError::Config { kernel: String::new(), message });
        };
        let one_kernel = |other: &Kernel| {
            let (device, module) = (Arc::ptr_eq(&first.loaded.device, &other.loaded.device), &other.loaded.module);
            device && other.index == first.index && module.source() == first.loaded.module.source()
        };
        if !grids.iter().all(|(kernel, _)| one_kernel(kernel)) {
            let message = "the grids of a joint launch are of one kernel in one memory, and these are not".to_owned();
            return Err(LaunchError::Config { kernel: first.info().name.clone(), message });
        }
        first.check(config)?;
        let mut workspaces = Vec::new();
        let mut members = Vec::with_capacity(grids.len());
        for (kernel, args) in grids {
            let params = kernel.params(args)?;
            if config.cooperative {
                workspaces.push(Workspace::new(kernel, &kernel.loaded.device)?);
            }
            let workspace = workspaces.last().map_or(0, |workspace| workspace.base);
            members.push(exec::Member { params, globals: &kernel.loaded.globals, workspace });
        }
        first.run_observed(members, config, observe)
    }

    fn run_observed(
        &self,
        members: Vec<exec::Member<'_>>,
        config: &LaunchConfig,
        observe: &Observe,
    ) -> Result<Observation, LaunchError> {
        let module = &self.loaded.module;
        let device = &self.loaded.device;
        let kernel = &module.parts()[self.index];
        let cluster = kernel.cluster.or(config.cluster);
        let _running = device.launches.begin();
        let launch = exec::Launch {
            program: module.program(),
            kernel,
            grid: config.grid,
            block: config.block,
            cluster: cluster.unwrap_or([1; 3]),
            explicit_cluster: cluster.is_some(),
            dynamic_shared: config.shared_bytes,
            members,
            memory: device.memory.snapshot(),
            heap: exec::LaunchHeap::new(device.memory.heap()),
            objects: Arc::clone(&device.objects()),
            source: module.source(),
            files: module.files(),
            budget: config.budget.unwrap_or(DEFAULT_BUDGET),
            sanitised: device.memory.sanitised(),
            stack: device.stack.or(device.memory.sanitised().then_some(super::DEFAULT_STACK)),
            default_stack: device.stack.is_none(),
            strict: device.strict,
            touches: observe.touches && device.memory.sanitised(),
            earlier: &observe.earlier,
            asynchrony: if device.memory.sanitised() { Asynchrony::Late } else { config.asynchrony },
            output: &device.output,
            started: device.started,
            account: Account::new(device.memory.ledger(), config.time_limit),
            loose: exec::LooseJoins::default(),
            fresh: exec::Fresh::default(),
            columns: Mutex::default(),
            launches: &device.launches,
        };
        let failed = |message| LaunchError::Observe { kernel: launch.kernel.info.name.clone(), message };
        let told = observe.trace.is_some() || observe.watch.is_some();
        if !launch.sanitised && !observe.profile && !told {
            let (counts, _, fault) = exec::run(&launch, device.workers, || exec::watch::monitor::Plain);
            return match fault {
                Some(fault) => Err(LaunchError::Fault(fault)),
                None => Ok(Observation { report: counts.into(), ..Observation::default() }),
            };
        }
        if let Some(request) = &observe.trace {
            launch.check_place(request.block, request.warp).map_err(failed)?;
        }
        let debugger = match &observe.watch {
            Some(request) => Some(Box::new(exec::watch::debugger::Debugger::new(&launch, request).map_err(failed)?)),
            None => None,
        };
        let debugger = Mutex::new(debugger); // the one worker takes it
        let mut workers = if launch.sanitised || told { 1 } else { device.workers };
        let counters = exec::watch::profiler::Profiler::bytes(&launch);
        while observe.profile && !launch.account.take_quietly(Use::Records, counters * workers as u64) {
            workers /= 2;
            if workers == 0 {
                let message = device.memory.ledger().message(Use::Records, counters);
                return Err(LaunchError::Fault(launch.reached(Reached { kind: FaultKind::MemoryLimit, message })));
            }
        }
        let monitor = || exec::watch::Watch {
            sanitiser: launch.sanitised.then(|| Box::new(exec::watch::sanitise::Sanitiser::new(&launch))),
            profiler: observe.profile.then(|| Box::new(exec::watch::profiler::Profiler::new(&launch))),
            tracer: observe.trace.as_ref().map(|request| Box::new(exec::watch::tracer::Tracer::new(&launch, request))),
            debugger: debugger.lock().unwrap_or_else(PoisonError::into_inner).take(),
        };
        let (counts, monitors, fault) = exec::run(&launch, workers, monitor);
        let mut observation = Observation { report: counts.into(), ..Observation::default() };
        let mut profilers = Vec::new();
        for exec::watch::Watch { sanitiser, profiler, tracer, debugger } in monitors {
            if let Some(mut sanitiser) = sanitiser {
                observation.touched.extend(sanitiser.take_touched());
                observation.findings.extend(sanitiser.into_findings());
            }
            profilers.extend(profiler.map(|profiler| *profiler));
            if let Some(tracer) = tracer {
                let roots = observe.trace.as_ref().map_or(&[][..], |request| &request.source_roots);
                let text_of = |file: &str| crate::report::source_near(file, module.name(), roots);
                observation.trace = Some(tracer.into_trace(text_of));
            }
            if let Some(debugger) = debugger {
                debugger.finish();
            }
        }
        let over = |finding: &Fault| finding.kind.is_limit();
        match fault {
            Some(fault) if !launch.sanitised => Err(LaunchError::Fault(fault)),
            // A fault of a cluster is among the sanitiser's findings; one of the launch as a whole is not yet.
            fault if fault.is_some() || observation.findings.iter().any(over) => {
                observation.findings.extend(fault.map(|fault| *fault));
                Err(LaunchError::Findings(observation.findings))
            }
            _ => {
                let longest_warp = observation.report.longest_warp;
                observation.profile =
                    observe.profile.then(|| exec::watch::profiler::profile(&launch, profilers, longest_warp));
                Ok(observation)
            }
        }
    }

    fn check(&self, config: &LaunchConfig) -> Result<(), LaunchError> {
        let part = &self.loaded.module.parts()[self.index];
        let fail = |message: String| Err(LaunchError::Config { kernel: part.info.name.clone(), message });
        let axes = ["x", "y", "z"];
        for (what, extents, limits) in [("grid", config.grid, MAX_GRID), ("block", config.block, MAX_BLOCK)] {
            for ((axis, extent), limit) in axes.iter().zip(extents).zip(limits) {
                if extent == 0 || extent > limit {
                    return fail(format!("the {what} has {extent} along {axis}, where 1 to {limit} are possible"));
                }
            }
        }
        if let Some(cluster) = part.cluster.or(config.cluster) {
            if let (Some(own), Some(other)) = (part.cluster, config.cluster)
                && own != other
            {
                return fail(format!("clusters of {other:?} blocks, where the kernel requires {own:?}"));
            }
            let blocks = cluster.iter().fold(1, |blocks: u64, extent| blocks.saturating_mul(u64::from(*extent)));
            let most = if config.non_portable_cluster { MAX_NON_PORTABLE_CLUSTER } else { MAX_CLUSTER };
            if blocks == 0 || blocks > most {
                let more = if config.non_portable_cluster || blocks > MAX_NON_PORTABLE_CLUSTER {
                    String::new()
                } else {
                    format!(", or {MAX_NON_PORTABLE_CLUSTER} if the launch allows sizes that not every GPU supports")
                };
                return fail(format!("clusters of {cluster:?} blocks, where 1 to {most} blocks are possible{more}"));
            }
            for ((axis, extent), blocks) in axes.iter().zip(config.grid).zip(cluster) {
                if extent % blocks != 0 {
                    return fail(format!(
                        "{extent} blocks along {axis}, which is not a multiple of the cluster's {blocks}"
                    ));
                }
            }
        }
        let threads: u32 = config.block.iter().product();
        if threads > MAX_THREADS {
            return fail(format!("a block of {threads} threads, where {MAX_THREADS} are possible"));
        }
        if let Some(shape) = part.info.required_threads
            && shape != config.block
        {
            return fail(format!("a block of {:?} threads, where the kernel requires {shape:?}", config.block));
        }
        if let Some(limit) = part.info.max_threads
            && threads > limit
        {
            return fail(format!(
                "a block of {threads} threads, where the kernel allows {limit} (`__launch_bounds__`)"
            ));
        }
        // Where dynamic shared memory begins, if there is any: its alignment takes room too.
        let fixed = if config.shared_bytes == 0 { part.info.static_shared } else { part.dynamic_base };
        let shared = u64::from(fixed) + u64::from(config.shared_bytes);
        if shared > u64::from(MAX_SHARED) {
            return fail(format!(
                "{shared} bytes of shared memory a block ({fixed} static, {} dynamic), where {MAX_SHARED} are possible",
                config.shared_bytes
            ));
        }
        let blocks: u64 = config.grid.iter().map(|extent| u64::from(*extent)).product();
        let resident = self.resident_blocks(threads, fixed + config.shared_bytes);
        if config.cooperative && blocks > resident {
            return fail(format!(
                "a cooperative launch of {blocks} blocks, where {resident} of this shape fit the device at once"
            ));
        }
        Ok(())
    }

    /// Number of resident blocks: that of an H100.
    fn resident_blocks(&self, threads: u32, shared_bytes: u32) -> u64 {
        let a_processor =
            Limits::of("sm_90").map_or(1, |limits| Occupancy::of(&limits, threads, shared_bytes, None).blocks);
        u64::from(a_processor) * exec::MULTIPROCESSORS
    }

    /// The parameters as one block of memory.
    fn params(&self, args: &[Arg]) -> Result<Vec<u8>, LaunchError> {
        let part = &self.loaded.module.parts()[self.index];
        let fail = |message: String| Err(LaunchError::Arguments { kernel: part.info.name.clone(), message });
        let expected = &part.info.params;
        if args.len() != expected.len() {
            let types: Vec<&str> = expected.iter().map(|param| param.ty.as_str()).collect();
            return fail(format!(
                "{} argument{} given, where it takes {} ({})",
                args.len(),
                if args.len() == 1 { " is" } else { "s are" },
                types.len(),
                types.join(", ")
            ));
        }
        let mut params = vec![0; part.param_bytes as usize];
        for (at, (arg, param)) in args.iter().zip(expected).enumerate() {
            if arg.0.len() != param.size as usize {
                return fail(format!(
                    "argument {} has {} bytes, where parameter `{}` is a .{} of {} bytes",
                    at + 1,
                    arg.0.len(),
                    param.name,
                    param.ty,
                    param.size
                ));
            }
            let offset = param.offset as usize;
            params[offset..offset + arg.0.len()].copy_from_slice(&arg.0);
        }
        Ok(params)
    }
}
