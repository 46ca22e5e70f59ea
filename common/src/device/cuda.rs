//! An NVIDIA GPU: its memory, copies, fills, launches and graphs, by cudarc, and the few driver calls that its safe layer leaves out.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ffi::{CString, c_void};
use std::ops::Range;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use cudarc::driver::sys::{self, CUdevice_attribute as Attribute, CUfunction_attribute as FunctionAttribute};
use cudarc::driver::{
    CudaContext, CudaEvent, CudaSlice, CudaStream, DevicePtr, DevicePtrMut, DriverError, HostSlice as _,
    PinnedHostSlice, result,
};

use super::backend::{Backend, Handle};
use super::buffer::{PinnedBuffer, RawBuffer, Region};
use super::element::{DeviceElement, Host, HostMut};
use super::graph::{Branch, ExecHandle, GraphHandle, GraphNode};
use super::group::Link;
use super::high_water::HighWater;
use super::kernel::{FunctionHandle, KernelAttributes, LAUNCH, LaunchArgs, LaunchConfig, ModuleHandle, Slot};
use super::memory::MemoryInfo;
use super::stream::Stream;
use super::tensor_map::{Encoded, TensorMapConfig};
use super::{Device, DeviceId, Inventory, Properties};
use crate::compile::Compiled;
use crate::error::{Error, Result};

/// Functions of the driver that cudarc calls for us. It panics where one is missing, so they are looked for first.
const FUNCTIONS: &[&str] = &[
    "cuCtxGetCurrent",
    "cuCtxSetCurrent",
    "cuCtxSynchronize",
    "cuDeviceGet",
    "cuDeviceGetAttribute",
    "cuDeviceGetCount",
    "cuDeviceGetName",
    "cuDevicePrimaryCtxRelease_v2",
    "cuDevicePrimaryCtxRetain",
    "cuDeviceTotalMem_v2",
    "cuEventCreate",
    "cuEventDestroy_v2",
    "cuEventRecord",
    "cuEventSynchronize",
    "cuFuncGetAttribute",
    "cuFuncSetAttribute",
    "cuGetErrorString",
    "cuInit",
    "cuLaunchKernel",
    "cuMemAllocAsync",
    "cuMemAlloc_v2",
    "cuMemFreeAsync",
    "cuMemFreeHost",
    "cuMemFree_v2",
    "cuMemGetInfo_v2",
    "cuMemHostAlloc",
    "cuMemcpyDtoDAsync_v2",
    "cuMemcpyDtoHAsync_v2",
    "cuMemcpyHtoDAsync_v2",
    "cuMemsetD8Async",
    "cuModuleGetFunction",
    "cuModuleLoadDataEx",
    "cuModuleUnload",
    "cuOccupancyMaxActiveBlocksPerMultiprocessor",
    "cuStreamCreate",
    "cuStreamDestroy_v2",
    "cuStreamSynchronize",
    "cuStreamWaitEvent",
];

/// Those that graphs need; a driver without them does everything else.
const GRAPH_FUNCTIONS: &[&str] = &[
    "cuGraphAddDependencies_v2",
    "cuGraphAddKernelNode_v2",
    "cuGraphAddMemcpyNode",
    "cuGraphAddMemsetNode",
    "cuGraphCreate",
    "cuGraphDestroy",
    "cuGraphExecDestroy",
    "cuGraphExecUpdate_v2",
    "cuGraphInstantiateWithFlags",
    "cuGraphLaunch",
    "cuGraphNodeGetType",
];

/// Those that several GPUs need to reach each other's memory.
const PEER_FUNCTIONS: &[&str] = &[
    "cuCtxEnablePeerAccess",
    "cuDeviceCanAccessPeer",
    "cuDeviceGetDefaultMemPool",
    "cuDeviceGetP2PAttribute",
    "cuMemPoolSetAccess",
    "cuMemcpyPeerAsync",
];

/// The first of these functions that the driver does not have.
fn missing_function(names: &[&'static str]) -> Option<&'static str> {
    // SAFETY: only opens the driver's library, which whoever asks has seen to be there.
    let driver = unsafe { sys::culib() };
    // SAFETY: only asks whether there is such a symbol; nothing is called.
    let missing = |name: &&str| unsafe { driver.get::<unsafe extern "C" fn()>(name.as_bytes()).is_err() };
    names.iter().copied().find(missing)
}

/// An NVIDIA GPU.
#[derive(Clone)]
pub struct CudaDevice(Arc<Inner>);

struct Inner {
    shared: &'static Shared,
    capability: (u32, u32),
    inventory: Inventory,
}

/// What all handles to one GPU share, for as long as the program runs: making a context takes a good part of a second, and
/// cudarc orders the uses of a buffer across streams only within one.
struct Shared {
    context: Arc<CudaContext>,
    /// Not the null stream, which waits for other streams and which graphs cannot capture.
    default_stream: Arc<CudaStream>,
    /// The first stream beside the default one. cudarc orders uses across streams only while it sees more than one, and would
    /// stop when the last is dropped, even with its work still in flight; so this one stays.
    second_stream: OnceLock<Arc<CudaStream>>,
    /// The GPUs whose memory this one reaches.
    peers: Mutex<BTreeSet<usize>>,
}

impl Shared {
    fn of(ordinal: usize) -> std::result::Result<&'static Shared, DriverError> {
        static OPENED: Mutex<BTreeMap<usize, &'static Shared>> = Mutex::new(BTreeMap::new());
        let mut opened = OPENED.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(shared) = opened.get(&ordinal) {
            return Ok(shared);
        }
        let context = CudaContext::new(ordinal)?;
        let stream = result::stream::create(result::stream::StreamKind::NonBlocking)?;
        // cudarc counts the streams that it makes, and from the first one on records an event for each use of a buffer. As long
        // as there is one stream none is needed; so this one is not counted.
        // SAFETY: the stream belongs to this context, which `CudaContext::new` made current, and is never destroyed.
        let default_stream = unsafe { context.wrap_borrowed_stream(stream) };
        let shared = &*Box::leak(Box::new(Shared {
            context,
            default_stream,
            second_stream: OnceLock::new(),
            peers: Mutex::default(),
        }));
        opened.insert(ordinal, shared);
        Ok(shared)
    }
}

/// A driver error in our own words.
fn error(operation: &str, context: &CudaContext, error: DriverError) -> Error {
    Error::Cuda {
        operation: operation.to_owned(),
        device: format!("cuda:{}", context.ordinal()),
        message: describe(error),
    }
}

/// `CUDA_ERROR_INVALID_VALUE (invalid argument)`; for what a kernel did wrong, also how to find out where.
fn describe(error: DriverError) -> String {
    use sys::CUresult::*;
    let name = format!("{:?}", error.0);
    let text = match error.error_string().ok().and_then(|text| text.to_str().ok()) {
        Some(text) => format!("{name} ({text})"),
        None => name,
    };
    match error.0 {
        CUDA_ERROR_ILLEGAL_ADDRESS
        | CUDA_ERROR_MISALIGNED_ADDRESS
        | CUDA_ERROR_ILLEGAL_INSTRUCTION
        | CUDA_ERROR_INVALID_ADDRESS_SPACE
        | CUDA_ERROR_ASSERT
        | CUDA_ERROR_LAUNCH_FAILED => {
            format!(
                "{text}: a kernel went wrong, and the GPU does not say where; run it on the simulator (--device sim), which does"
            )
        }
        _ => text,
    }
}

impl CudaDevice {
    pub(crate) fn open(ordinal: usize) -> Result<CudaDevice> {
        let absent = |reason: String| Error::NoDevice { device: format!("cuda:{ordinal}"), reason };
        // SAFETY: only opens the driver's library; cudarc would panic without it.
        if !unsafe { sys::is_culib_present() } {
            return Err(absent(format!(
                "no NVIDIA driver on this machine ({} not found)",
                crate::probe::DRIVER_LIBRARY
            )));
        }
        if let Some(name) = missing_function(FUNCTIONS) {
            let library = crate::probe::DRIVER_LIBRARY;
            return Err(absent(format!("{library} has no function {name}: it is too old, or not NVIDIA's driver")));
        }
        let count = CudaContext::device_count()
            .map_err(|error| absent(format!("the NVIDIA driver does not start: {}", describe(error))))?;
        if ordinal >= count.max(0) as usize {
            return Err(absent(match count {
                0 => "the NVIDIA driver sees no GPU".to_owned(),
                1 => "this machine has one GPU, cuda:0".to_owned(),
                _ => format!("this machine has {count} GPUs, cuda:0 to cuda:{}", count - 1),
            }));
        }
        let shared = Shared::of(ordinal).map_err(|error| absent(describe(error)))?;
        let properties = properties(&shared.context).map_err(|error| absent(describe(error)))?;
        let capability = properties.compute_capability.unwrap_or_default();
        Ok(CudaDevice(Arc::new(Inner { shared, capability, inventory: Inventory::new(properties) })))
    }

    /// cudarc's context, for its bindings of libraries.
    pub fn context(&self) -> &Arc<CudaContext> {
        &self.0.shared.context
    }

    /// The GPU's number.
    pub fn ordinal(&self) -> usize {
        self.context().ordinal()
    }

    /// (major, minor).
    pub fn compute_capability(&self) -> (u32, u32) {
        self.0.capability
    }

    /// What lies between this GPU and another.
    pub(crate) fn link(&self, other: &CudaDevice) -> Result<Link> {
        use sys::CUdevice_P2PAttribute::*;
        let (here, there) = (self.context().cu_device(), other.context().cu_device());
        if here == there {
            return Ok(Link { peer_access: true, native_atomics: true, rank: 0 });
        }
        if missing_function(PEER_FUNCTIONS).is_some() {
            return Ok(Link { peer_access: false, native_atomics: false, rank: u32::MAX });
        }
        let get = |attribute| {
            let mut value = 0;
            // SAFETY: both are devices of the driver, and the value is written before the call returns.
            let asked = unsafe { sys::cuDeviceGetP2PAttribute(&mut value, attribute, here, there).result() };
            asked.map(|()| value).map_err(|e| error("asking for the link between two GPUs", self.context(), e))
        };
        Ok(Link {
            peer_access: get(CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED)? != 0,
            native_atomics: get(CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED)? != 0,
            rank: get(CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK)?.max(0) as u32,
        })
    }

    /// Lets kernels of this GPU reach the memory of another, both what is allocated by streams and what is not.
    fn reach(&self, owner: &CudaDevice) -> Result<()> {
        const OPERATION: &str = "reaching the memory of another GPU";
        let refused = |reason: String| Error::Unsupported {
            what: format!("{OPERATION}, cuda:{},", owner.ordinal()),
            device: self.id().to_string(),
            reason,
        };
        let mut peers = self.0.shared.peers.lock().unwrap_or_else(PoisonError::into_inner);
        if self.ordinal() == owner.ordinal() || peers.contains(&owner.ordinal()) {
            return Ok(());
        }
        if let Some(name) = missing_function(PEER_FUNCTIONS) {
            return Err(refused(format!("the driver has no function {name}")));
        }
        if !self.link(owner)?.peer_access {
            return Err(refused("no link between the two that kernels could use (nvidia-smi topo -p2p r)".to_owned()));
        }
        let enable = || {
            self.context().bind_to_thread()?;
            // SAFETY: the context is alive for as long as the program runs, as all shared ones.
            match unsafe { sys::cuCtxEnablePeerAccess(owner.context().cu_ctx(), 0) } {
                sys::CUresult::CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED => {}
                other => other.result()?,
            }
            let mut pool = std::ptr::null_mut();
            let location = sys::CUmemLocation_st {
                type_: sys::CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE,
                id: self.context().cu_device(),
            };
            let access =
                sys::CUmemAccessDesc { location, flags: sys::CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_READWRITE };
            // SAFETY: the pool is the driver's own for the owner, and the list has one entry.
            unsafe {
                sys::cuDeviceGetDefaultMemPool(&mut pool, owner.context().cu_device()).result()?;
                sys::cuMemPoolSetAccess(pool, &access, 1).result()
            }
        };
        enable().map_err(|e| error(OPERATION, self.context(), e))?;
        peers.insert(owner.ordinal());
        Ok(())
    }

    pub(crate) fn inventory(&self) -> &Inventory {
        &self.0.inventory
    }

    pub(crate) fn id(&self) -> DeviceId {
        DeviceId::Cuda(self.ordinal())
    }

    pub(crate) fn default_stream(&self) -> Stream {
        self.stream(self.0.shared.default_stream.clone())
    }

    pub(crate) fn new_stream(&self) -> Result<Stream> {
        let stream = self.context().new_stream().map_err(|e| error("making a stream", self.context(), e))?;
        self.0.shared.second_stream.get_or_init(|| stream.clone());
        Ok(self.stream(stream))
    }

    fn stream(&self, stream: Arc<CudaStream>) -> Stream {
        Stream::new(&Device::Cuda(self.clone()), Handle::Cuda(Queue { device: self.clone(), stream, recording: None }))
    }

    pub(crate) fn memory(&self) -> MemoryInfo {
        // A context in error cannot answer; then our own count is all there is.
        let (free, total) = self.context().mem_get_info().unwrap_or((0, 0));
        self.0.inventory.ledger.info(free as u64, total as u64)
    }

    pub(crate) fn synchronize(&self) -> Result<()> {
        self.context().synchronize().map_err(|e| error("synchronising the device", self.context(), e))
    }

    pub(crate) fn alloc_pinned<T: DeviceElement>(&self, len: usize) -> Result<PinnedBuffer<T>> {
        let context = self.context();
        let fail = |e| error("allocating pinned host memory", context, e);
        let bytes = len.saturating_mul(size_of::<T>()).max(1);
        // Cached, unlike cudarc's default of write-combining, which the host reads back at a crawl; portable, so that every
        // GPU's copies know that it is pinned.
        // SAFETY: the memory is filled just below, before anyone can read it.
        let mut slice =
            unsafe { context.alloc_pinned_with_flags::<u8>(bytes, sys::CU_MEMHOSTALLOC_PORTABLE) }.map_err(fail)?;
        slice.as_mut_slice().map_err(fail)?.fill(0);
        let copied = context.new_event(Some(sys::CUevent_flags::CU_EVENT_BLOCKING_SYNC)).map_err(fail)?;
        Ok(PinnedBuffer::new(Handle::Cuda(Pinned { slice, copied }), len))
    }

    /// Loads a cubin, or PTX text for the driver to compile with its optimiser at `level`, 0 to 4 (its own choice is 4); the
    /// error is the loader's log.
    pub(crate) fn load_module(&self, compiled: &Compiled, level: u32) -> Result<ModuleHandle, String> {
        let image = compiled.cubin.as_deref().unwrap_or(compiled.ptx.as_bytes());
        // The driver reads PTX up to a zero byte; a cubin carries its own length, and one more byte does it no harm.
        let mut terminated = Vec::with_capacity(image.len() + 1);
        terminated.extend_from_slice(image);
        terminated.push(0);
        self.context().bind_to_thread().map_err(describe)?;
        let mut log = vec![0u8; 16 << 10];
        let mut options = [
            sys::CUjit_option::CU_JIT_ERROR_LOG_BUFFER,
            sys::CUjit_option::CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES,
            sys::CUjit_option::CU_JIT_GENERATE_LINE_INFO,
            sys::CUjit_option::CU_JIT_OPTIMIZATION_LEVEL,
        ];
        // Each value is passed in the bits of a pointer.
        let mut values = [
            log.as_mut_ptr().cast::<c_void>(),
            std::ptr::without_provenance_mut(log.len()),
            std::ptr::without_provenance_mut(1),
            std::ptr::without_provenance_mut(level as usize),
        ];
        let mut module = std::ptr::null_mut();
        // SAFETY: the image ends with a zero byte, the log buffer outlives the call, and both arrays have four entries.
        let loaded = unsafe {
            sys::cuModuleLoadDataEx(
                &mut module,
                terminated.as_ptr().cast(),
                options.len() as u32,
                options.as_mut_ptr(),
                values.as_mut_ptr(),
            )
        };
        match loaded.result() {
            Ok(()) => Ok(Handle::Cuda(Module(Arc::new(Loaded {
                module,
                context: self.context().clone(),
                dynamic_shared: Mutex::default(),
            })))),
            Err(error) => {
                let end = log.iter().position(|&byte| byte == 0).unwrap_or(log.len());
                let log = String::from_utf8_lossy(&log[..end]).trim().to_owned();
                Err(if log.is_empty() { describe(error) } else { format!("{}\n{log}", describe(error)) })
            }
        }
    }
}

/// A loaded module; unloaded when the last kernel of it is gone.
#[derive(Clone)]
pub(crate) struct Module(Arc<Loaded>);

struct Loaded {
    module: sys::CUmodule,
    context: Arc<CudaContext>,
    /// For each kernel by name, the most dynamic shared memory that the driver was asked to allow. It is here because all
    /// handles of a kernel are the same one to the driver.
    dynamic_shared: Mutex<HashMap<String, Arc<HighWater>>>,
}

// SAFETY: the driver's handles may be used from any thread that has made the context current, which every use does first.
unsafe impl Send for Loaded {}
// SAFETY: as above; the driver locks internally.
unsafe impl Sync for Loaded {}

impl Drop for Loaded {
    fn drop(&mut self) {
        let context = &self.context;
        context.record_err(context.bind_to_thread());
        // SAFETY: loaded once, unloaded once, and no kernel of it is left.
        context.record_err(unsafe { result::module::unload(self.module) });
    }
}

/// A kernel of a loaded module.
#[derive(Clone)]
pub(crate) struct Function {
    function: sys::CUfunction,
    module: Module,
    static_shared: u32,
    dynamic_shared: Arc<HighWater>,
}

// SAFETY: as for `Loaded`, which it keeps alive.
unsafe impl Send for Function {}
// SAFETY: as for `Loaded`.
unsafe impl Sync for Function {}

impl Module {
    /// The kernel of this name; `refused` makes an error of the loader's words.
    pub(crate) fn function(
        &self,
        name: &str,
        refused: impl FnOnce(String) -> Error,
    ) -> Result<(FunctionHandle, KernelAttributes)> {
        let Loaded { module, context, dynamic_shared } = &*self.0;
        let find = || {
            context.bind_to_thread().map_err(describe)?;
            let name = CString::new(name).map_err(|_| "a name with a zero byte".to_owned())?;
            // SAFETY: the module is loaded, since `self` holds it.
            unsafe { result::module::get_function(*module, name) }.map_err(describe)
        };
        let function = find().map_err(refused)?;
        let get = |attribute| {
            // SAFETY: the function belongs to a loaded module, and its context is current.
            let value = unsafe { result::function::get_function_attribute(function, attribute) };
            value.map(|value| value.max(0) as u32).map_err(|e| error("reading a kernel's attribute", context, e))
        };
        let attributes = KernelAttributes {
            registers: Some(get(FunctionAttribute::CU_FUNC_ATTRIBUTE_NUM_REGS)?),
            local_bytes: Some(get(FunctionAttribute::CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES)?),
            static_shared: get(FunctionAttribute::CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES)?,
            max_threads_per_block: get(FunctionAttribute::CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK)?,
        };
        let mut limits = dynamic_shared.lock().unwrap_or_else(PoisonError::into_inner);
        let dynamic_shared = limits.entry(name.to_owned()).or_default().clone();
        let static_shared = attributes.static_shared;
        Ok((Handle::Cuda(Function { function, module: self.clone(), static_shared, dynamic_shared }), attributes))
    }
}

impl Function {
    pub(crate) fn raw(&self) -> sys::CUfunction {
        self.function
    }

    /// Blocks of this size that all SMs together hold at once.
    pub(crate) fn resident_blocks(&self, threads: u32, dynamic_shared: u32) -> Result<u32> {
        self.allow_dynamic_shared(dynamic_shared)?;
        let context = &self.module.0.context;
        let count = || {
            context.bind_to_thread()?;
            // SAFETY: the function belongs to a loaded module.
            let of_sm = unsafe {
                result::occupancy::max_active_block_per_multiprocessor(
                    self.function,
                    threads as i32,
                    dynamic_shared as usize,
                )
            }?;
            let sms = context.attribute(Attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?;
            Ok((of_sm * sms).max(0) as u32)
        };
        count().map_err(|e| error("counting the blocks that fit", context, e))
    }

    /// Lets launches use up to `bytes` of dynamic shared memory, which beyond 48 KiB must be asked for.
    fn allow_dynamic_shared(&self, bytes: u32) -> Result<()> {
        let context = &self.module.0.context;
        let set = |bytes: u32| {
            context.bind_to_thread()?;
            let attribute = FunctionAttribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
            // SAFETY: the function belongs to a loaded module.
            unsafe { result::function::set_function_attribute(self.function, attribute, bytes as i32) }
        };
        self.dynamic_shared.raise(bytes, set).map_err(|e| error("asking for more shared memory", context, e))
    }
}

/// One allocation.
pub(crate) struct Memory {
    slice: CudaSlice<u8>,
    /// Its address, without the events that cudarc records for whoever asks it.
    address: sys::CUdeviceptr,
}

impl Memory {
    pub(crate) fn slice(&self) -> &CudaSlice<u8> {
        &self.slice
    }

    pub(crate) fn slice_mut(&mut self) -> &mut CudaSlice<u8> {
        &mut self.slice
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // cudarc frees in the calling thread's current context, and a thread that never used the device has none. An error
        // here is kept by the context and reported by the next operation.
        let context = self.slice.context();
        context.record_err(context.bind_to_thread());
    }
}

/// Page-locked host memory. Every access from the host waits for the last copy.
pub(crate) struct Pinned {
    /// Carries an event of the last copy, but cudarc records it only if there are several streams.
    slice: PinnedHostSlice<u8>,
    /// The last copy while there was one stream.
    copied: CudaEvent,
}

impl Pinned {
    pub(crate) fn bytes(&self) -> Result<&[u8]> {
        let waited = self.copied.synchronize().and_then(|()| self.slice.as_slice());
        waited.map_err(|e| error(WAIT_FOR_COPY, self.slice.context(), e))
    }

    pub(crate) fn bytes_mut(&mut self) -> Result<&mut [u8]> {
        let context = self.slice.context().clone();
        let waited = self.copied.synchronize().and_then(|()| self.slice.as_mut_slice());
        waited.map_err(|e| error(WAIT_FOR_COPY, &context, e))
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        self.slice.context().record_err(self.copied.synchronize());
    }
}

const WAIT_FOR_COPY: &str = "waiting for a copy";

/// Records the end of a copy just queued, unless cudarc does. It begins with the second stream, which stays
/// ([`Shared::second_stream`]), and making that stream waits for all copies before.
fn record_copy(copied: &CudaEvent, stream: &CudaStream) -> std::result::Result<(), DriverError> {
    if stream.context().is_managing_stream_synchronization() { Ok(()) } else { copied.record(stream) }
}

/// A stream.
#[derive(Clone)]
pub(crate) struct Queue {
    device: CudaDevice,
    stream: Arc<CudaStream>,
    recording: Option<Recording>,
}

impl PartialEq for Queue {
    fn eq(&self, other: &Queue) -> bool {
        let same_branch = match (self.branch(), other.branch()) {
            (Some(one), Some(other)) => one.is(other),
            (one, other) => one.is_none() && other.is_none(),
        };
        self.stream == other.stream && same_branch
    }
}

impl Queue {
    pub(crate) fn stream(&self) -> &Arc<CudaStream> {
        &self.stream
    }

    fn check<T>(&self, operation: &str, result: std::result::Result<T, DriverError>) -> Result<T> {
        result.map_err(|e| error(operation, self.stream.context(), e))
    }

    fn bind(&self, operation: &str) -> Result<()> {
        self.check(operation, self.stream.context().bind_to_thread())
    }
}

impl Backend for Queue {
    type Half<C, S> = C;
    type Memory = Memory;
    type Function = Function;
    type Mark = Mark;

    fn half<C, S>(handle: Handle<C, S>) -> Option<C> {
        match handle {
            Handle::Cuda(cuda) => Some(cuda),
            Handle::Sim(_) => None,
        }
    }

    fn device_id(&self) -> DeviceId {
        self.device.id()
    }

    fn branch(&self) -> Option<&Branch> {
        self.recording.as_ref().map(|recording| &recording.branch)
    }

    fn is_neighbour(&self, device: DeviceId) -> bool {
        matches!(device, DeviceId::Cuda(_))
    }

    fn peer_address(&self, region: &Region<'_>) -> Result<u64> {
        let memory = region.near(self, LAUNCH)?;
        if let Device::Cuda(owner) = region.device() {
            self.device.reach(owner)?;
        }
        Ok(memory.address + region.range().start as u64)
    }

    fn copy_peer(
        &self,
        (source_device, source): (&Device, &Memory),
        range: Range<usize>,
        (dst_device, dst): (&Device, &mut Memory),
        at: usize,
    ) -> Result<()> {
        const OPERATION: &str = "copying between devices";
        let (Device::Cuda(from), Device::Cuda(to)) = (source_device, dst_device) else {
            return Err(Error::Invalid(format!("{OPERATION}: memory of a GPU belongs to a simulator")));
        };
        if range.is_empty() {
            return Ok(());
        }
        if let Some(name) = missing_function(PEER_FUNCTIONS) {
            let (what, device) = (OPERATION.to_owned(), self.device_id().to_string());
            return Err(Error::Unsupported { what, device, reason: format!("the driver has no function {name}") });
        }
        self.bind(OPERATION)?;
        // Where the two reach each other the copy takes the link between them, otherwise the driver goes through the host.
        match from.reach(to) {
            Err(error) if !error.is_unsupported() => return Err(error),
            _ => {}
        }
        // Memory of this GPU is ordered with the work of its other streams, as everywhere.
        let own = |device: &CudaDevice| device.ordinal() == self.device.ordinal();
        let _read = own(from).then(|| source.slice.device_ptr(&self.stream).1);
        let _written = own(to).then(|| dst.slice.device_ptr_mut(&self.stream).1);
        let (source, dst) = (source.address + range.start as u64, dst.address + at as u64);
        // SAFETY: both regions lie in live memory of these contexts and are as long as the range.
        let queued = unsafe {
            sys::cuMemcpyPeerAsync(
                dst,
                to.context().cu_ctx(),
                source,
                from.context().cu_ctx(),
                range.len(),
                self.stream.cu_stream(),
            )
            .result()
        };
        self.check(OPERATION, queued)
    }

    fn alloc(&self, bytes: usize, _label: impl FnOnce() -> String) -> Result<RawBuffer> {
        // The driver has no empty allocations.
        let size = bytes.max(1);
        // SAFETY: every bit pattern is a value of a `DeviceElement`, so reading the memory before writing it is harmless.
        let alloc = || unsafe { self.stream.alloc::<u8>(size) };
        let out_of_memory = |e: &DriverError| e.0 == sys::CUresult::CUDA_ERROR_OUT_OF_MEMORY;
        let slice = match alloc() {
            // Buffers already dropped may wait for their streams to free them.
            Err(e) if out_of_memory(&e) => {
                self.device.synchronize()?;
                alloc()
            }
            other => other,
        };
        match slice {
            Ok(slice) => {
                let address = slice.device_ptr(&self.stream).0;
                Ok(RawBuffer::new(
                    Handle::Cuda(Memory { slice, address }),
                    Device::Cuda(self.device.clone()),
                    bytes,
                    self.device.0.inventory.ledger.reserve(bytes as u64),
                ))
            }
            Err(e) if out_of_memory(&e) => {
                let memory = self.device.memory();
                Err(Error::OutOfMemory {
                    device: self.device_id().to_string(),
                    requested: bytes as u64,
                    free: memory.free,
                    total: memory.total,
                    in_use: memory.in_use,
                })
            }
            Err(e) => self.check("allocating device memory", Err(e)),
        }
    }

    fn fill(&self, memory: &mut Memory, range: Range<usize>, value: u8) -> Result<()> {
        const OPERATION: &str = "filling a buffer";
        if range.is_empty() {
            return Ok(());
        }
        self.bind(OPERATION)?;
        if let Some(recording) = &self.recording {
            let to = memory.address + range.start as u64;
            return self.check(OPERATION, recording.add(|graph| graph.fill(to, value, range.len(), self)));
        }
        let (ptr, _written) = memory.slice.device_ptr_mut(&self.stream);
        let ptr = ptr + range.start as u64;
        // SAFETY: the range lies inside the memory.
        self.check(OPERATION, unsafe { result::memset_d8_async(ptr, value, range.len(), self.stream.cu_stream()) })
    }

    fn write<T: DeviceElement>(&self, memory: &mut Memory, range: Range<usize>, source: Host<'_, T>) -> Result<()> {
        const OPERATION: &str = "copying to the device";
        if range.is_empty() {
            return Ok(());
        }
        self.bind(OPERATION)?;
        let (ptr, _written) = memory.slice.device_ptr_mut(&self.stream);
        let ptr = ptr + range.start as u64;
        if let Host::Pinned(PinnedBuffer { memory: Handle::Cuda(Pinned { slice, copied }), .. }) = &source
            && slice.context() == self.stream.context()
        {
            // SAFETY: the slice is only read by the copy queued here, whose end `_reading` marks; the pinned buffer waits for
            // that mark before anyone writes or frees it.
            let (bytes, _reading) = unsafe { slice.stream_synced_slice(&self.stream) };
            let bytes = &bytes[..range.len()];
            // SAFETY: the range lies inside the memory and is as long as the source.
            let queued = unsafe { result::memcpy_htod_async(ptr, bytes, self.stream.cu_stream()) };
            return self.check(OPERATION, queued.and_then(|()| record_copy(copied, &self.stream)));
        }
        let bytes: &[u8] = bytemuck::cast_slice(source.slice()?);
        // SAFETY: the lengths are equal, and the synchronisation keeps `bytes` borrowed until the copy is over.
        let copied = unsafe { result::memcpy_htod_async(ptr, bytes, self.stream.cu_stream()) };
        self.check(OPERATION, copied.and_then(|()| self.stream.synchronize()))
    }

    fn read<T: DeviceElement>(&self, memory: &Memory, range: Range<usize>, mut dst: HostMut<'_, T>) -> Result<()> {
        const OPERATION: &str = "copying from the device";
        if range.is_empty() {
            return Ok(());
        }
        self.bind(OPERATION)?;
        let (ptr, _read) = memory.slice.device_ptr(&self.stream);
        let ptr = ptr + range.start as u64;
        if let HostMut::Pinned(PinnedBuffer { memory: Handle::Cuda(Pinned { slice, copied }), .. }) = &mut dst
            && slice.context() == self.stream.context()
        {
            // SAFETY: the pinned buffer waits for the mark that `_writing` leaves before anyone reads or frees it.
            let (bytes, _writing) = unsafe { slice.stream_synced_mut_slice(&self.stream) };
            let bytes = &mut bytes[..range.len()];
            // SAFETY: the range lies inside the memory and is as long as the destination.
            let queued = unsafe { result::memcpy_dtoh_async(bytes, ptr, self.stream.cu_stream()) };
            return self.check(OPERATION, queued.and_then(|()| record_copy(copied, &self.stream)));
        }
        let bytes: &mut [u8] = bytemuck::cast_slice_mut(dst.slice_mut()?);
        // SAFETY: the lengths are equal, and the synchronisation keeps `bytes` borrowed until the copy is over.
        let copied = unsafe { result::memcpy_dtoh_async(bytes, ptr, self.stream.cu_stream()) };
        self.check(OPERATION, copied.and_then(|()| self.stream.synchronize()))
    }

    fn copy(&self, source: &Memory, range: Range<usize>, dst: &mut Memory, at: usize) -> Result<()> {
        const OPERATION: &str = "copying inside the device";
        if range.is_empty() {
            return Ok(());
        }
        self.bind(OPERATION)?;
        if let Some(recording) = &self.recording {
            let (from, to) = (source.address + range.start as u64, dst.address + at as u64);
            return self.check(OPERATION, recording.add(|graph| graph.copy(from, to, range.len(), self)));
        }
        let (from, _read) = source.slice.device_ptr(&self.stream);
        let (to, _written) = dst.slice.device_ptr_mut(&self.stream);
        let (from, to) = (from + range.start as u64, to + at as u64);
        // SAFETY: both regions lie in live memory of this context and are as long as the range.
        self.check(OPERATION, unsafe { result::memcpy_dtod_async(to, from, range.len(), self.stream.cu_stream()) })
    }

    fn encode(&self, memory: &Memory, at: usize, config: &TensorMapConfig) -> Result<Encoded> {
        let described = config.at(memory.address + at as u64);
        let device = || format!("cuda:{}", self.stream.context().ordinal());
        described.check().map_err(|error| Error::TensorMap { device: device(), detail: error.to_string() })?;
        let capability = self.device.inventory().properties.compute_capability;
        if capability.is_none_or(|(major, _)| major < 9) {
            return Err(Error::Unsupported {
                what: "a tensor map".to_owned(),
                device: device(),
                reason: "bulk copies of tensors need compute capability 9.0".to_owned(),
            });
        }
        encode_map(&described).map_err(|e| error("making a tensor map", self.stream.context(), e))
    }

    unsafe fn launch(&self, function: &Function, args: &mut LaunchArgs<'_>, config: &LaunchConfig) -> Result<()> {
        let shared = config.shared_mem_bytes;
        if function.static_shared + shared > self.device.inventory().properties.shared_per_block {
            function.allow_dynamic_shared(shared)?;
        }
        args.fill_in_peers(self)?;
        // One pointer per buffer, at an address that stays while `params` points to it.
        let pointers = vec![Cell::new(0u64); args.slots.len()];
        let mut params: Vec<*mut c_void> = Vec::with_capacity(args.slots.len());
        // Kept until the launch is queued: each then marks its buffer as read or written at this point of the stream. A launch that
        // is only recorded has no such point.
        let mut marks = Vec::new();
        let runs = self.recording.is_none();
        for (slot, pointer) in args.slots.iter_mut().zip(&pointers) {
            params.push(match slot {
                Slot::Value { at, .. } => args.values[*at..].as_ptr().cast_mut().cast(),
                Slot::Read(region) => {
                    let memory = region.on(self, LAUNCH)?;
                    pointer.set(memory.address + region.range().start as u64);
                    marks.extend(runs.then(|| memory.slice.device_ptr(&self.stream).1));
                    pointer.as_ptr().cast()
                }
                Slot::Write(region) => {
                    let start = region.range().start as u64;
                    let memory = region.on(self, LAUNCH)?;
                    pointer.set(memory.address + start);
                    marks.extend(runs.then(|| memory.slice.device_ptr_mut(&self.stream).1));
                    pointer.as_ptr().cast()
                }
                Slot::Peer(region) => {
                    pointer.set(self.peer_address(region)?);
                    pointer.as_ptr().cast()
                }
                Slot::PeerMut(region) => {
                    pointer.set(self.peer_address(&region.shared())?);
                    pointer.as_ptr().cast()
                }
                Slot::Peers { at, .. } => args.values[*at..].as_ptr().cast_mut().cast(),
                Slot::ReadMap { at, region } => {
                    let memory = region.on(self, LAUNCH)?;
                    marks.extend(runs.then(|| memory.slice.device_ptr(&self.stream).1));
                    args.values[*at..].as_ptr().cast_mut().cast()
                }
                Slot::WriteMap { at, region } => {
                    let memory = region.on(self, LAUNCH)?;
                    marks.extend(runs.then(|| memory.slice.device_ptr_mut(&self.stream).1));
                    args.values[*at..].as_ptr().cast_mut().cast()
                }
                Slot::Again(index) => pointers[*index].as_ptr().cast(),
                Slot::Null => pointer.as_ptr().cast(),
            });
        }
        let mut launch = || {
            self.stream.context().bind_to_thread()?;
            let LaunchConfig { grid_dim, block_dim, .. } = *config;
            let stream = self.stream.cu_stream();
            let capability = self.device.inventory().properties.compute_capability;
            let dependent = args.dependent && capability >= Some((9, 0));
            if let Some(recording) = &self.recording {
                return recording.add(|graph| graph.launch(function, config, &mut params, dependent));
            }
            if dependent {
                let mut attribute = may_overlap();
                let config = sys::CUlaunchConfig {
                    gridDimX: grid_dim.0,
                    gridDimY: grid_dim.1,
                    gridDimZ: grid_dim.2,
                    blockDimX: block_dim.0,
                    blockDimY: block_dim.1,
                    blockDimZ: block_dim.2,
                    sharedMemBytes: shared,
                    hStream: stream,
                    attrs: &mut attribute,
                    numAttrs: 1,
                };
                // SAFETY: as below; the attribute lives until the call returns.
                return unsafe {
                    sys::cuLaunchKernelEx(&config, function.function, params.as_mut_ptr(), std::ptr::null_mut())
                        .result()
                };
            }
            // SAFETY: stream and function are alive, `params` has one pointer per parameter, to a value of its size; the rest is
            // the caller's promise.
            unsafe { result::launch_kernel(function.function, grid_dim, block_dim, shared, stream, &mut params) }
        };
        launch().map_err(|e| {
            let operation = format!("launching kernel `{}`", args.kernel.name());
            error(&operation, self.stream.context(), e)
        })
    }

    fn mark(&self) -> Result<CudaEvent> {
        let flags = sys::CUevent_flags::CU_EVENT_DEFAULT;
        self.check("recording an event", self.stream.record_event(Some(flags)))
    }

    fn wait(&self, mark: &CudaEvent) -> Result<()> {
        self.check("waiting for an event", self.stream.wait(mark))
    }

    fn synchronize(&self) -> Result<()> {
        self.check("waiting for the stream", self.stream.synchronize())
    }
}

impl Queue {
    /// One that records for a graph.
    pub(crate) fn recording(&self, branch: Branch) -> Result<Queue> {
        const OPERATION: &str = "capturing a graph";
        if let Some(name) = missing_function(GRAPH_FUNCTIONS) {
            return Err(Error::Unsupported {
                what: OPERATION.to_owned(),
                device: self.device_id().to_string(),
                reason: format!("the driver has no function {name}: graphs need one of CUDA 12.3 or later"),
            });
        }
        self.bind(OPERATION)?;
        let mut graph = std::ptr::null_mut();
        // SAFETY: the context is current, and the pointer is written before the call returns.
        self.check(OPERATION, unsafe { sys::cuGraphCreate(&mut graph, 0).result() })?;
        let context = self.stream.context().clone();
        let built =
            Arc::new(Mutex::new(Built { graph: Graph(Arc::new(Template { graph, context })), nodes: Vec::new() }));
        Ok(Queue { recording: Some(Recording { branch, built }), ..self.clone() })
    }

    /// Another of the same capture.
    pub(crate) fn on_branch(&self, branch: Branch) -> Queue {
        let recording = self.recording.clone().map(|recording| Recording { branch, ..recording });
        Queue { recording, ..self.clone() }
    }

    /// What was recorded; fails if the driver has not as many nodes as we.
    pub(crate) fn recorded(&self, nodes: &[GraphNode]) -> Result<GraphHandle> {
        let built = self.recording.as_ref().map(|recording| recording.lock());
        match built {
            Some(built) if built.nodes.len() == nodes.len() => Ok(Handle::Cuda(built.graph.clone())),
            _ => Err(Error::Invalid("the capture lost a node of the graph".to_owned())),
        }
    }
}

/// A place in a capture, and the driver's graph that grows with it.
#[derive(Clone)]
struct Recording {
    branch: Branch,
    built: Arc<Mutex<Built>>,
}

struct Built {
    graph: Graph,
    nodes: Vec<sys::CUgraphNode>,
}

// SAFETY: the driver's handles may be used from any thread that has made the context current, one thread at a time: a mutex is
// around them.
unsafe impl Send for Built {}

/// A recorded graph.
#[derive(Clone)]
pub(crate) struct Graph(Arc<Template>);

struct Template {
    graph: sys::CUgraph,
    context: Arc<CudaContext>,
}

// SAFETY: as for `Built`: graphs are changed only under its mutex, and afterwards only read, which the driver does for one call at
// a time (below).
unsafe impl Send for Template {}
// SAFETY: as above.
unsafe impl Sync for Template {}

/// The driver does not lock graphs, not even for reading ("Graph object thread safety" in its manual).
static GRAPHS: Mutex<()> = Mutex::new(());

impl Drop for Template {
    fn drop(&mut self) {
        let context = &self.context;
        context.record_err(context.bind_to_thread());
        // SAFETY: created once, destroyed once; instances of it stand on their own.
        context.record_err(unsafe { result::graph::destroy(self.graph) });
    }
}

impl Recording {
    fn lock(&self) -> std::sync::MutexGuard<'_, Built> {
        self.built.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds the node that `make` makes, given what it waits for.
    fn add(
        &self,
        make: impl FnOnce(&Adding<'_>) -> std::result::Result<sys::CUgraphNode, DriverError>,
    ) -> std::result::Result<(), DriverError> {
        let mut built = self.lock();
        let after: Vec<_> = self.branch.after().iter().map(|&node| built.nodes[node]).collect();
        let node = make(&Adding { graph: built.graph.0.graph, after: &after })?;
        built.nodes.push(node);
        Ok(())
    }
}

/// A graph to which a node is being added.
struct Adding<'a> {
    graph: sys::CUgraph,
    /// The nodes that it waits for.
    after: &'a [sys::CUgraphNode],
}

impl Adding<'_> {
    fn fill(
        &self,
        to: sys::CUdeviceptr,
        value: u8,
        bytes: usize,
        queue: &Queue,
    ) -> std::result::Result<sys::CUgraphNode, DriverError> {
        // A pitch is only looked at where there is more than one row.
        let params = sys::CUDA_MEMSET_NODE_PARAMS {
            dst: to,
            pitch: 0,
            value: value.into(),
            elementSize: 1,
            width: bytes,
            height: 1,
        };
        let (after, context) = (self.after, queue.stream.context().cu_ctx());
        let mut node = std::ptr::null_mut();
        // SAFETY: the nodes belong to this graph, and the bytes to an allocation that the graph will keep.
        unsafe {
            sys::cuGraphAddMemsetNode(&mut node, self.graph, after.as_ptr(), after.len(), &params, context).result()?;
        }
        Ok(node)
    }

    fn copy(
        &self,
        from: sys::CUdeviceptr,
        to: sys::CUdeviceptr,
        bytes: usize,
        queue: &Queue,
    ) -> std::result::Result<sys::CUgraphNode, DriverError> {
        // SAFETY: zeros are a value of all of its fields, which are numbers, null pointers and, until they are set below, enums of
        // the driver: these have no value 0, and so `MaybeUninit` holds them until then.
        let params = unsafe {
            let mut params = std::mem::MaybeUninit::<sys::CUDA_MEMCPY3D>::zeroed();
            let fields = params.as_mut_ptr();
            (&raw mut (*fields).srcMemoryType).write(sys::CUmemorytype::CU_MEMORYTYPE_DEVICE);
            (&raw mut (*fields).srcDevice).write(from);
            (&raw mut (*fields).dstMemoryType).write(sys::CUmemorytype::CU_MEMORYTYPE_DEVICE);
            (&raw mut (*fields).dstDevice).write(to);
            (&raw mut (*fields).WidthInBytes).write(bytes);
            (&raw mut (*fields).Height).write(1);
            (&raw mut (*fields).Depth).write(1);
            params.assume_init()
        };
        let (after, context) = (self.after, queue.stream.context().cu_ctx());
        let mut node = std::ptr::null_mut();
        // SAFETY: the nodes belong to this graph, and the bytes to allocations that the graph will keep.
        unsafe {
            sys::cuGraphAddMemcpyNode(&mut node, self.graph, after.as_ptr(), after.len(), &params, context).result()?;
        }
        Ok(node)
    }

    /// `params` has one pointer per parameter, to a value of its size; the driver copies the values. `dependent`: the node may begin
    /// before the one before it has ended, if that is a single kernel.
    fn launch(
        &self,
        function: &Function,
        config: &LaunchConfig,
        params: &mut [*mut c_void],
        dependent: bool,
    ) -> std::result::Result<sys::CUgraphNode, DriverError> {
        let LaunchConfig { grid_dim, block_dim, shared_mem_bytes } = *config;
        let params = sys::CUDA_KERNEL_NODE_PARAMS {
            func: function.function,
            gridDimX: grid_dim.0,
            gridDimY: grid_dim.1,
            gridDimZ: grid_dim.2,
            blockDimX: block_dim.0,
            blockDimY: block_dim.1,
            blockDimZ: block_dim.2,
            sharedMemBytes: shared_mem_bytes,
            kernelParams: params.as_mut_ptr(),
            extra: std::ptr::null_mut(),
            kern: std::ptr::null_mut(),
            ctx: std::ptr::null_mut(),
        };
        let mut node = std::ptr::null_mut();
        let add = |node: &mut sys::CUgraphNode, after: &[sys::CUgraphNode]| {
            // SAFETY: the nodes belong to this graph; the function is loaded, and the graph will keep it and its buffers; the values
            // of the parameters are alive.
            unsafe { sys::cuGraphAddKernelNode_v2(node, self.graph, after.as_ptr(), after.len(), &params).result() }
        };
        let &[before] = self.after else {
            add(&mut node, self.after)?;
            return Ok(node);
        };
        if !(dependent && is_kernel(before)?) {
            add(&mut node, self.after)?;
            return Ok(node);
        }
        add(&mut node, &[])?;
        let edge = sys::CUgraphEdgeData {
            from_port: sys::CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC as u8,
            to_port: 0,
            type_: sys::CUgraphDependencyType::CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC as u8,
            reserved: [0; 5],
        };
        // SAFETY: both nodes belong to this graph, and all three lists have one entry.
        unsafe { sys::cuGraphAddDependencies_v2(self.graph, &before, &node, &edge, 1).result()? };
        Ok(node)
    }
}

fn is_kernel(node: sys::CUgraphNode) -> std::result::Result<bool, DriverError> {
    let mut kind = std::mem::MaybeUninit::<sys::CUgraphNodeType>::uninit();
    // SAFETY: the node belongs to a graph that is alive; its type is written if the call succeeds.
    unsafe {
        sys::cuGraphNodeGetType(node, kind.as_mut_ptr()).result()?;
        Ok(kind.assume_init() == sys::CUgraphNodeType::CU_GRAPH_NODE_TYPE_KERNEL)
    }
}

impl Graph {
    pub(crate) fn instantiate(&self) -> Result<ExecHandle> {
        let context = &self.0.context;
        let instantiate = || {
            context.bind_to_thread()?;
            let _alone = GRAPHS.lock().unwrap_or_else(PoisonError::into_inner);
            // SAFETY: the graph is alive.
            unsafe { result::graph::instantiate(self.0.graph, sys::CUgraphInstantiate_flags(0)) }
        };
        let exec = instantiate().map_err(|e| error("instantiating a graph", context, e))?;
        Ok(Handle::Cuda(GraphExec { exec, context: context.clone(), streams: Mutex::default() }))
    }
}

/// A graph to be launched.
pub(crate) struct GraphExec {
    exec: sys::CUgraphExec,
    context: Arc<CudaContext>,
    /// Those on which it was launched; their lock is also that of `exec`.
    streams: Mutex<Vec<Arc<CudaStream>>>,
}

// SAFETY: as for `Built`: `exec` is used under the lock of `streams`, or by its only owner.
unsafe impl Send for GraphExec {}
// SAFETY: as above.
unsafe impl Sync for GraphExec {}

impl GraphExec {
    pub(crate) fn launch(&self, queue: &Queue) -> Result<()> {
        const OPERATION: &str = "launching a graph";
        queue.bind(OPERATION)?;
        let mut streams = self.streams.lock().unwrap_or_else(PoisonError::into_inner);
        if !streams.contains(&queue.stream) {
            streams.push(queue.stream.clone());
        }
        // SAFETY: both are alive. What the graph uses stays until this is dropped, which waits for the stream.
        queue.check(OPERATION, unsafe { result::graph::launch(self.exec, queue.stream.cu_stream()) })
    }

    pub(crate) fn update(&mut self, graph: &Graph) -> Result<()> {
        let update = || {
            self.context.bind_to_thread()?;
            let _alone = GRAPHS.lock().unwrap_or_else(PoisonError::into_inner);
            let mut told = std::mem::MaybeUninit::<sys::CUgraphExecUpdateResultInfo>::zeroed();
            // SAFETY: both are alive; what the call tells beyond its status is not read.
            unsafe { sys::cuGraphExecUpdate_v2(self.exec, graph.0.graph, told.as_mut_ptr()).result() }
        };
        update().map_err(|e| error("updating a graph", &self.context, e))
    }
}

impl Drop for GraphExec {
    fn drop(&mut self) {
        let context = &self.context;
        context.record_err(context.bind_to_thread());
        for stream in self.streams.get_mut().unwrap_or_else(PoisonError::into_inner).drain(..) {
            context.record_err(stream.synchronize());
        }
        // SAFETY: instantiated once, destroyed once, and none of its launches is under way.
        context.record_err(unsafe { result::graph::exec_destroy(self.exec) });
    }
}

/// A mark in a stream.
pub(crate) type Mark = CudaEvent;

/// Waits until the stream has reached the mark.
pub(crate) fn wait_for(mark: &Mark) -> Result<()> {
    mark.synchronize().map_err(|e| error("waiting for an event", mark.context(), e))
}

/// Milliseconds between two events, by the function that drivers of every CUDA version have: cudarc's own call needs 12.8.
pub(crate) fn elapsed_ms(start: &Mark, end: &Mark) -> Result<f32> {
    type Elapsed = unsafe extern "C" fn(*mut f32, sys::CUevent, sys::CUevent) -> sys::CUresult;
    let context = start.context();
    let measure = || {
        start.synchronize()?;
        end.synchronize()?;
        let mut ms = 0.0;
        // SAFETY: the driver is loaded, or there would be no events; the signature is cuEventElapsedTime's, and both events
        // are alive.
        unsafe {
            match sys::culib().get::<Elapsed>(b"cuEventElapsedTime\0") {
                Ok(elapsed) => elapsed(&mut ms, start.cu_event(), end.cu_event()).result()?,
                Err(_) => return Err(DriverError(sys::CUresult::CUDA_ERROR_NOT_SUPPORTED)),
            }
        }
        Ok(ms)
    };
    measure().map_err(|e| error("reading the time between two events", context, e))
}

/// The driver's map of a tensor whose rules have been checked.
fn encode_map(described: &ptx_sim::TensorMapDescriptor) -> std::result::Result<Encoded, DriverError> {
    use ptx_sim::TensorElement::*;
    type Tiled = unsafe extern "C" fn(
        *mut Encoded,
        u32,
        u32,
        *mut c_void,
        *const u64,
        *const u64,
        *const u32,
        *const u32,
        u32,
        u32,
        u32,
        u32,
    ) -> sys::CUresult;
    type Im2col = unsafe extern "C" fn(
        *mut Encoded,
        u32,
        u32,
        *mut c_void,
        *const u64,
        *const u64,
        *const i32,
        *const i32,
        u32,
        u32,
        *const u32,
        u32,
        u32,
        u32,
        u32,
    ) -> sys::CUresult;
    // CUtensorMapDataType
    let element = match described.element {
        U8 => 0,
        U16 => 1,
        U32 => 2,
        S32 => 3,
        U64 => 4,
        S64 => 5,
        F16 => 6,
        F32 => 7,
        F64 => 8,
        Bf16 => 9,
        F32Ftz => 10,
        Tf32 => 11,
        Tf32Ftz => 12,
    };
    let rank = described.extents.len() as u32;
    let address = described.address.0 as *mut c_void;
    let (extents, strides) = (described.extents.as_ptr(), described.strides.as_ptr());
    let element_strides = described.element_strides.as_ptr();
    // The enums of the driver number these in the same order.
    let (interleave, swizzle, fill) = (described.interleave as u32, described.swizzle as u32, described.fill as u32);
    const NO_PROMOTION: u32 = 0;
    let mut encoded = Encoded([0; 16]);
    let missing = DriverError(sys::CUresult::CUDA_ERROR_NOT_SUPPORTED);
    // SAFETY: the driver is loaded, or there would be no stream; the signatures are those of cuTensorMapEncodeTiled and
    // cuTensorMapEncodeIm2col with their enums as numbers; every list has as many entries as `rank` asks for, which the check of
    // the description has seen, and the map is aligned to 64 bytes.
    unsafe {
        let driver = sys::culib();
        match &described.window {
            ptx_sim::TensorWindow::Tiled(sizes) => {
                let encode = driver.get::<Tiled>(b"cuTensorMapEncodeTiled\0").map_err(|_| missing)?;
                let sizes = sizes.as_ptr();
                encode(
                    &mut encoded,
                    element,
                    rank,
                    address,
                    extents,
                    strides,
                    sizes,
                    element_strides,
                    interleave,
                    swizzle,
                    NO_PROMOTION,
                    fill,
                )
                .result()?;
            }
            ptx_sim::TensorWindow::Im2col { lower, upper, channels, pixels } => {
                let encode = driver.get::<Im2col>(b"cuTensorMapEncodeIm2col\0").map_err(|_| missing)?;
                let (lower, upper) = (lower.as_ptr(), upper.as_ptr());
                encode(
                    &mut encoded,
                    element,
                    rank,
                    address,
                    extents,
                    strides,
                    lower,
                    upper,
                    *channels,
                    *pixels,
                    element_strides,
                    interleave,
                    swizzle,
                    NO_PROMOTION,
                    fill,
                )
                .result()?;
            }
        }
    }
    Ok(encoded)
}

fn properties(context: &CudaContext) -> std::result::Result<Properties, DriverError> {
    let get = |attribute: Attribute| context.attribute(attribute).map(|value| value.max(0) as u32);
    let some = |attribute: Attribute| Ok::<_, DriverError>(Some(get(attribute)?).filter(|&v| v > 0));
    Ok(Properties {
        name: context.name()?,
        compute_capability: Some((
            get(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?,
            get(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?,
        )),
        multiprocessors: some(Attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?,
        total_memory: context.total_mem()? as u64,
        shared_per_block: get(Attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK)?,
        shared_per_block_optin: get(Attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)?,
        max_threads_per_block: get(Attribute::CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK)?,
        max_grid: [
            get(Attribute::CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X)?,
            get(Attribute::CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y)?,
            get(Attribute::CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z)?,
        ],
        max_block: [
            get(Attribute::CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X)?,
            get(Attribute::CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y)?,
            get(Attribute::CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z)?,
        ],
        warp_size: get(Attribute::CU_DEVICE_ATTRIBUTE_WARP_SIZE)?,
        registers_per_multiprocessor: some(Attribute::CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR)?,
        max_threads_per_multiprocessor: some(Attribute::CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR)?,
        l2_bytes: some(Attribute::CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE)?.map(u64::from),
        clock_khz: some(Attribute::CU_DEVICE_ATTRIBUTE_CLOCK_RATE)?,
        memory_clock_khz: some(Attribute::CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE)?,
        memory_bus_bits: some(Attribute::CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH)?,
    })
}

/// The attribute of a launch that may begin before the one before it has ended.
fn may_overlap() -> sys::CUlaunchAttribute {
    sys::CUlaunchAttribute {
        id: sys::CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION,
        pad: [0; 4],
        value: sys::CUlaunchAttributeValue { programmaticStreamSerializationAllowed: 1 },
    }
}
