//! The devices of this process, and the handles that programs hold.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::c_int;
use std::io::{IsTerminal, Write};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use ptx_sim::{
    Device, DeviceConfig, DevicePtr, Fault, FaultKind, LoadError, LoadedModule, ObjectHandle, Sampling, TexelFormat,
};

use crate::abi::{BUILT_IN_STREAMS, Code, CopySide, Handle, Outcome, Pointer};
use crate::graph::{Graph, UserObject};
use crate::handles::Handles;
use crate::log::Line;
use crate::options::Options;
use crate::tell::{locked, refused, say};
use crate::virtual_memory::VirtualMemory;
use crate::work::{Captured, Event, FIRST_ADDRESS, Function, Place, Work};

/// Multiprocessors that each simulated GPU says it has: those of an H100.
pub(crate) const MULTIPROCESSORS: i32 = 132;

/// Everything of this process.
pub(crate) struct State {
    pub(crate) options: Options,
    /// The process that made it. One that it forks has no GPU, as with NVIDIA's driver.
    process: u32,
    /// One memory for all GPUs, which reach each other as over NVLink.
    pub(crate) device: Device,
    pub(crate) contexts: Handles<Context>,
    pub(crate) modules: Handles<Module>,
    pub(crate) functions: Handles<Function>,
    pub(crate) streams: Handles<Stream>,
    pub(crate) events: Handles<Event>,
    pub(crate) graphs: Handles<Graph>,
    pub(crate) links: Handles<Link>,
    pub(crate) arrays: Handles<Array>,
    /// Textures that programs have created, with what each reads and how.
    pub(crate) textures: Mutex<BTreeMap<u64, (Resource, Sampling)>>,
    /// References of the program to its objects.
    pub(crate) user_objects: Mutex<BTreeMap<Handle, Vec<Arc<UserObject>>>>,
    /// Allocations that the host reaches too, by the address at which they begin.
    pub(crate) host_memory: Mutex<BTreeMap<Pointer, HostMemory>>,
    /// Allocations whose copies are to be synchronous (`CU_POINTER_ATTRIBUTE_SYNC_MEMOPS`), by where they begin.
    pub(crate) synchronous: Mutex<BTreeSet<Pointer>>,
    /// Allocations of graphs, which stay for the next launch when they are freed.
    pub(crate) graph_memory: Mutex<BTreeSet<Pointer>>,
    pub(crate) virtual_memory: Mutex<VirtualMemory>,
    pub(crate) pools: Handles<Pool>,
    /// Pools that programs have chosen for devices, in place of the default ones.
    pub(crate) current_pools: Mutex<BTreeMap<c_int, Handle>>,
    default_pools: Vec<Handle>,
    primary: Vec<Handle>,
    /// Findings already printed: each line once.
    known: Mutex<BTreeSet<(String, String, u32)>>,
}

static STATE: OnceLock<State> = OnceLock::new();
static INITIALISED: AtomicBool = AtomicBool::new(false);

thread_local! {
    /// Contexts that are current on this thread, the last one on top.
    static CURRENT: RefCell<Vec<Handle>> = const { RefCell::new(Vec::new()) };
}

/// Reads the options and makes the devices. A second call changes nothing.
pub(crate) fn initialise() -> Outcome {
    if INITIALISED.load(Ordering::Acquire) {
        return state().map(|_| ());
    }
    let options = Options::from_environment().map_err(|sentence| {
        say(&sentence);
        Code::INVALID_VALUE
    })?;
    STATE.get_or_init(|| State::new(options));
    INITIALISED.store(true, Ordering::Release);
    Ok(())
}

/// The state, once a program has called `cuInit`.
pub(crate) fn state() -> Outcome<&'static State> {
    STATE.get().filter(|state| state.process == std::process::id()).ok_or(Code::NOT_INITIALIZED)
}

/// The context that is current on this thread, and works.
pub(crate) fn context() -> Outcome<Arc<Context>> {
    state()?;
    working(current().ok_or(Code::INVALID_CONTEXT)?)
}

/// The context of a stream, if it works: the current one, if the stream is built in.
pub(crate) fn context_of(stream: Handle) -> Outcome<Arc<Context>> {
    match state()?.stream(stream)? {
        Some(stream) => working(stream.context),
        None => context(),
    }
}

/// The context of a handle, if it works.
pub(crate) fn working(handle: Handle) -> Outcome<Arc<Context>> {
    let context = state()?.contexts.get(handle).map_err(|_| Code::INVALID_CONTEXT)?;
    match context.broken.load(Ordering::Relaxed) {
        0 => Ok(context),
        code => Err(Code(code)),
    }
}

/// The context that is current on this thread. A program that ends has none: its destructors may still call.
pub(crate) fn current() -> Option<Handle> {
    CURRENT.try_with(|stack| stack.borrow().last().copied()).ok()?.filter(|handle| *handle != 0)
}

/// Makes a context current in place of the one that is.
pub(crate) fn set_current(handle: Handle) {
    let replace = |stack: &RefCell<Vec<Handle>>| {
        let mut stack = stack.borrow_mut();
        stack.pop();
        stack.push(handle);
    };
    // Not while the program ends.
    let _ = CURRENT.try_with(replace);
}

pub(crate) fn push_current(handle: Handle) {
    CURRENT.with_borrow_mut(|stack| stack.push(handle));
}

pub(crate) fn pop_current() -> Option<Handle> {
    CURRENT.with_borrow_mut(Vec::pop)
}

impl State {
    fn new(options: Options) -> Self {
        let device = Device::new(DeviceConfig {
            total_memory: options.memory.saturating_mul(options.devices.into()),
            sanitize: options.sanitize || options.strict,
            strict: options.strict,
            memory_limit: options.memory_limit,
            first_address: FIRST_ADDRESS,
            ..DeviceConfig::default()
        });
        let contexts = Handles::default();
        let primary = (0..options.devices).map(|ordinal| contexts.add(Context::new(ordinal.into()))).collect();
        let pools = Handles::default();
        let default_pools = (0..options.devices).map(|_| pools.add(Pool::default())).collect();
        Self {
            options,
            process: std::process::id(),
            device,
            contexts,
            modules: Handles::default(),
            functions: Handles::default(),
            streams: Handles::default(),
            events: Handles::default(),
            graphs: Handles::default(),
            links: Handles::default(),
            arrays: Handles::default(),
            textures: Mutex::default(),
            user_objects: Mutex::default(),
            host_memory: Mutex::default(),
            synchronous: Mutex::default(),
            graph_memory: Mutex::default(),
            virtual_memory: Mutex::default(),
            pools,
            current_pools: Mutex::default(),
            default_pools,
            primary,
            known: Mutex::default(),
        }
    }

    /// The primary context of a device.
    pub(crate) fn primary(&self, device: c_int) -> Outcome<Handle> {
        of_device(&self.primary, device)
    }

    /// The default memory pool of a device.
    pub(crate) fn default_pool(&self, device: c_int) -> Outcome<Handle> {
        of_device(&self.default_pools, device)
    }

    /// The stream of a handle; the built-in ones need none.
    pub(crate) fn stream(&self, handle: Handle) -> Outcome<Option<Arc<Stream>>> {
        if BUILT_IN_STREAMS.contains(&handle) { Ok(None) } else { self.streams.get(handle).map(Some) }
    }

    /// The allocation of host memory around an address, and its start.
    pub(crate) fn host_memory(&self, pointer: Pointer) -> Option<(Pointer, HostMemory)> {
        let (start, _) = self.device.allocation(DevicePtr(pointer))?;
        locked(&self.host_memory).get(&start.0).map(|found| (start.0, *found))
    }

    /// Ends an allocation of host memory of the given kind, at an address in it.
    pub(crate) fn free_host(&self, pointer: Pointer, kind: HostMemoryKind) -> Outcome {
        let (start, found) = self.host_memory(pointer).ok_or(Code::INVALID_VALUE)?;
        if found.kind != kind {
            return Err(Code::INVALID_VALUE);
        }
        locked(&self.host_memory).remove(&start);
        locked(&self.synchronous).remove(&start);
        self.device.free(DevicePtr(start)).map_err(|error| refused(&error))
    }

    /// Frees memory of the device, or managed memory.
    pub(crate) fn free(&self, pointer: Pointer) -> Outcome {
        if locked(&self.graph_memory).contains(&pointer) {
            return Ok(());
        }
        match self.host_memory(pointer) {
            Some(_) => self.free_host(pointer, HostMemoryKind::Managed),
            None if pointer == 0 => Ok(()),
            None if locked(&self.virtual_memory).left(pointer).is_some() => Err(Code::INVALID_VALUE),
            None => self.device.free(DevicePtr(pointer)).map_err(|error| refused(&error)),
        }
    }

    /// Bytes from a place on that a copy may take at once: a mapping ends where the next begins.
    pub(crate) fn at_once(&self, place: Place) -> usize {
        let mapped = match place {
            Place::Device(address) => locked(&self.virtual_memory).left(address),
            Place::Host(_) => None,
        };
        mapped.map_or(usize::MAX, |bytes| bytes as usize)
    }

    /// Whether a stream's work and that of the default stream do not wait for each other.
    pub(crate) fn is_apart(&self, stream: Handle) -> bool {
        const NON_BLOCKING: u32 = 1;
        self.stream(stream).ok().flatten().is_some_and(|stream| stream.flags & NON_BLOCKING != 0)
    }

    /// Whether the work is a copy from or to memory of the host that devices do not reach: the driver then waits.
    pub(crate) fn is_pageable(&self, work: &Work) -> bool {
        let unknown = |side: &CopySide| match side.memory() {
            Some(Place::Host(host)) => self.host_memory(host.0 as Pointer).is_none(),
            _ => false,
        };
        match work {
            Work::Copy(copy) => unknown(&copy.to) || unknown(&copy.from),
            Work::Sequence(works) => works.iter().any(|work| self.is_pageable(work)),
            _ => false,
        }
    }

    /// The part that a stream takes in a capture, if it takes one.
    pub(crate) fn capture(&self, stream: Handle) -> Outcome<Option<Captured>> {
        let captured = self.stream(stream)?.and_then(|stream| locked(&stream.capture).clone());
        Ok(captured.filter(Captured::is_going_on))
    }

    /// Changes the part that a stream takes in a capture.
    pub(crate) fn set_capture(&self, stream: Handle, captured: Captured) -> Outcome {
        let stream = self.stream(stream)?.ok_or(Code::STREAM_CAPTURE_UNSUPPORTED)?;
        *locked(&stream.capture) = Some(captured);
        Ok(())
    }

    /// Prints findings and faults, and appends them to the log. Each line of a program is told once.
    pub(crate) fn tell(&self, faults: &[Fault]) {
        // Where it was started, and where it lies: sources are near one of them.
        let folder = std::env::current_exe().ok().and_then(|program| Some(program.parent()?.to_owned()));
        let roots: Vec<_> = std::env::current_dir().into_iter().chain(folder).collect();
        let colour = std::io::stderr().is_terminal();
        for fault in faults {
            let (file, line) = fault.place();
            if !locked(&self.known).insert((fault.kind.name().to_owned(), file.to_owned(), line)) {
                continue;
            }
            let _ = writeln!(std::io::stderr(), "{}", fault.render_from(&roots, colour).trim_end());
            self.log(&Line::Finding(fault.into()));
        }
    }

    /// Appends a line to the log, if there is one.
    pub(crate) fn log(&self, line: &Line) {
        if let Some(log) = &self.options.log
            && let Err(error) = line.append(log)
        {
            say(&format!("{}: {error}", log.display()));
        }
    }
}

/// Prints what kernels of a device have printed.
pub(crate) fn flush(device: &Device) {
    let output = device.take_output();
    if !output.is_empty() {
        let mut stdout = std::io::stdout();
        let _ = stdout.write_all(output.as_bytes()).and_then(|()| stdout.flush());
    }
}

/// The one of a device, of those that each has.
fn of_device(handles: &[Handle], device: c_int) -> Outcome<Handle> {
    let at = usize::try_from(device).map_err(|_| Code::INVALID_DEVICE)?;
    handles.get(at).copied().ok_or(Code::INVALID_DEVICE)
}

/// The error that hardware would report for a fault of a kernel. It stays with the context.
pub(crate) fn code_of(kind: FaultKind) -> Code {
    match kind {
        FaultKind::OutOfBounds | FaultKind::UseAfterFree | FaultKind::ReadOnly => Code::ILLEGAL_ADDRESS,
        FaultKind::Misaligned | FaultKind::DescriptorAlignment => Code::MISALIGNED_ADDRESS,
        FaultKind::Assertion => Code::ASSERT,
        FaultKind::StackOverflow => Code::HARDWARE_STACK_ERROR,
        FaultKind::Budget | FaultKind::TimeLimit => Code::LAUNCH_TIMEOUT,
        FaultKind::MemoryLimit => Code::OUT_OF_MEMORY,
        _ => Code::LAUNCH_FAILED,
    }
}

/// Prints why a module or one of its kernels cannot be loaded.
pub(crate) fn tell_load_error(error: &LoadError) -> Code {
    let _ = writeln!(std::io::stderr(), "{}", error.render(std::io::stderr().is_terminal()).trim_end());
    match error {
        LoadError::UnknownKernel { .. } => Code::NOT_FOUND,
        LoadError::Unsupported { .. } => Code::NOT_SUPPORTED,
        LoadError::Memory { .. } | LoadError::Limit { .. } => Code::OUT_OF_MEMORY,
        _ => Code::INVALID_PTX,
    }
}

/// `CUcontext`.
#[derive(Debug)]
pub(crate) struct Context {
    /// Its device.
    pub(crate) ordinal: c_int,
    /// The error of a kernel that ended badly: every later call reports it. 0 if there is none.
    pub(crate) broken: AtomicI32,
    pub(crate) flags: AtomicU32,
}

impl Context {
    pub(crate) fn new(ordinal: c_int) -> Self {
        Self { ordinal, broken: AtomicI32::new(0), flags: AtomicU32::new(0) }
    }

    /// Keeps an error of a kernel, which is reported by whatever is called next, as on hardware: the launch itself was queued.
    pub(crate) fn keep(&self, done: Outcome) -> Outcome {
        match done {
            Err(code)
                if matches!(code.0, 700..=799)
                    && code != Code::LAUNCH_OUT_OF_RESOURCES
                    && code != Code::COOPERATIVE_LAUNCH_TOO_LARGE =>
            {
                self.broken.store(code.0, Ordering::Relaxed);
                Ok(())
            }
            done => done,
        }
    }
}

/// An allocation at one address for the host and all devices.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HostMemory {
    pub(crate) kind: HostMemoryKind,
    pub(crate) flags: u32,
}

/// How the host came to an allocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HostMemoryKind {
    /// `cuMemHostAlloc`
    Pinned,
    /// `cuMemHostRegister`: the program's own memory.
    Registered,
    /// `cuMemAllocManaged`
    Managed,
}

/// `CUmodule` and `CUlibrary`.
#[derive(Debug)]
pub(crate) struct Module {
    pub(crate) loaded: LoadedModule,
    /// Maximum number of registers per thread, if the program sets one (`CU_JIT_MAX_REGISTERS`).
    pub(crate) max_registers: Option<u32>,
    /// Handle of each function that was asked for: the same one each time.
    pub(crate) functions: Mutex<BTreeMap<String, Handle>>,
}

/// `CUstream`.
#[derive(Debug)]
pub(crate) struct Stream {
    pub(crate) context: Handle,
    pub(crate) flags: u32,
    pub(crate) priority: c_int,
    /// Attributes that the program has set.
    pub(crate) attributes: Mutex<BTreeMap<c_int, [u32; 16]>>,
    /// Its part in the last capture that it took part in.
    pub(crate) capture: Mutex<Option<Captured>>,
}

/// Resource of textures and surfaces.
#[derive(Clone, Debug)]
pub(crate) enum Resource {
    /// An array, with its handle.
    Array(Handle, Arc<Array>),
    /// Bytes of memory, which kernels read texel by texel.
    Linear { pointer: Pointer, bytes: usize, format: TexelFormat },
    /// Rows of memory.
    Pitched { pointer: Pointer, size: [usize; 2], pitch: usize, format: TexelFormat },
}

/// `CUarray`
#[derive(Debug)]
pub(crate) struct Array {
    /// The surface whose memory is the array's.
    pub(crate) surface: ObjectHandle,
    pub(crate) format: TexelFormat,
    /// Width, height and depth or layers, as the program gave them.
    pub(crate) size: [usize; 3],
    pub(crate) flags: u32,
    pub(crate) base: Pointer,
    /// Bytes from a row to the next.
    pub(crate) pitch: usize,
}

/// `CUmemoryPool`: its settings, by their numbers in `CUmemPool_attribute`, which have no effect.
#[derive(Debug)]
pub(crate) struct Pool {
    pub(crate) settings: Mutex<[u64; 5]>,
}

impl Default for Pool {
    fn default() -> Self {
        Self { settings: Mutex::new([0, 1, 1, 1, 0]) }
    }
}

/// `CUlinkState`: the image so far.
#[derive(Debug)]
pub(crate) struct Link(pub(crate) Mutex<Vec<u8>>);
