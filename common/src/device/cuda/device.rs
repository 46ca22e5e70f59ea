//! An NVIDIA GPU: its context, its links to others, and what it has.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use cudarc::driver::sys::{self, CUdevice_attribute as Attribute};
use cudarc::driver::{CudaContext, CudaStream, DriverError, result};

use super::super::buffer::PinnedBuffer;
use super::super::element::DeviceElement;
use super::super::handle::Handle;
use super::super::kernel::ModuleHandle;
use super::super::memory::MemoryInfo;
use super::super::{DeviceId, Inventory, Link, Properties};
use super::driver::{FUNCTIONS, PEER_FUNCTIONS, describe, error, missing_function};
use super::memory::Pinned;
use super::module::Module;
use super::queue::{Queue, SideStream};
use crate::compile::Compiled;
use crate::error::{Error, Result};
use crate::progress::Progress;

/// An NVIDIA GPU.
#[derive(Clone)]
pub struct CudaDevice(Arc<Inner>);

struct Inner {
    shared: &'static Shared,
    capability: (u32, u32),
    inventory: Inventory,
}

/// State of one GPU that all its handles share, for as long as the program runs: making a context takes a good part of a
/// second, and cudarc orders the uses of a buffer across streams only within one.
struct Shared {
    context: Arc<CudaContext>,
    /// Not the null stream, which waits for other streams and cannot be captured by graphs.
    default_stream: Arc<CudaStream>,
    /// GPUs whose memory this one can reach.
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
        // cudarc counts the streams that it makes, and records an event for each use of a buffer as long as it sees one. Beside
        // no other stream the default one needs none (`SideStream`); so it is not counted.
        // SAFETY: the stream belongs to this context, which `CudaContext::new` made current, and is never destroyed.
        let default_stream = unsafe { context.wrap_borrowed_stream(stream) };
        let shared = &*Box::leak(Box::new(Shared { context, default_stream, peers: Mutex::default() }));
        opened.insert(ordinal, shared);
        Ok(shared)
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

    /// Link between this GPU and another.
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

    /// Lets kernels of this GPU reach the memory of another, whether allocated by streams or not.
    pub(super) fn reach(&self, owner: &CudaDevice) -> Result<()> {
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

    pub(crate) fn default_stream(&self) -> Queue {
        Queue::new(self.clone(), self.0.shared.default_stream.clone(), None)
    }

    pub(crate) fn new_stream(&self) -> Result<Queue> {
        let stream = self.context().new_stream().map_err(|e| error("making a stream", self.context(), e))?;
        let side = SideStream { stream: stream.clone(), default_stream: self.0.shared.default_stream.clone() };
        Ok(Queue::new(self.clone(), stream, Some(Arc::new(side))))
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
        let pinned = Pinned::new(self.context(), len.saturating_mul(size_of::<T>()).max(1))?;
        Ok(PinnedBuffer::new(Handle::Cuda(pinned), len))
    }

    /// Loads a cubin, or PTX text for the driver to compile with its optimiser at `level`, 0 to 4 (its own choice is 4); the
    /// error is the loader's log.
    pub(crate) fn load_module(&self, compiled: &Compiled, level: u32) -> Result<ModuleHandle, String> {
        // The driver keeps what it has compiled, so this takes long in the first run alone.
        let _bar = Progress::spinner(format!("{}: the driver compiles it for this GPU", compiled.name));
        Module::load(self.context(), compiled, level).map(Handle::Cuda)
    }
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
