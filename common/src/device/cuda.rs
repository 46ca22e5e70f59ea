//! The CUDA side: a primary context by cudarc, and the few driver calls that cudarc's safe layer leaves out.

use std::collections::BTreeMap;
use std::ffi::{CString, c_void};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use cudarc::driver::sys::{self, CUdevice_attribute as Attribute, CUfunction_attribute};
use cudarc::driver::{CudaContext, CudaEvent, CudaSlice, CudaStream, DriverError, result};

use super::buffer::{PinnedBuffer, RawBuffer, Storage};
use super::element::DeviceElement;
use super::kernel::ModuleCache;
use super::memory::{Ledger, MemoryInfo};
use super::{Device, Properties};
use crate::error::{Error, Result};

/// An NVIDIA GPU.
#[derive(Clone)]
pub struct CudaDevice(Arc<Inner>);

struct Inner {
    shared: &'static Shared,
    capability: (u32, u32),
    properties: Properties,
    ledger: Arc<Ledger>,
    modules: ModuleCache,
}

/// What all handles to one GPU share, for as long as the program runs: making a context takes a good part of a second, and
/// cudarc orders the uses of a buffer across streams only within one.
struct Shared {
    context: Arc<CudaContext>,
    /// The first stream beside the default one. cudarc orders uses across streams only while it sees more than one, and would
    /// stop when the last is dropped, even with its work still in flight; so this one stays.
    second_stream: OnceLock<Arc<CudaStream>>,
}

impl Shared {
    fn of(ordinal: usize) -> std::result::Result<&'static Shared, DriverError> {
        static OPENED: Mutex<BTreeMap<usize, &'static Shared>> = Mutex::new(BTreeMap::new());
        let mut opened = OPENED.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(shared) = opened.get(&ordinal) {
            return Ok(shared);
        }
        let shared =
            &*Box::leak(Box::new(Shared { context: CudaContext::new(ordinal)?, second_stream: OnceLock::new() }));
        opened.insert(ordinal, shared);
        Ok(shared)
    }
}

/// A driver error in our own words.
pub(crate) fn error(operation: &str, context: &CudaContext, error: DriverError) -> Error {
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
        Ok(CudaDevice(Arc::new(Inner {
            shared,
            capability,
            properties,
            ledger: Arc::default(),
            modules: ModuleCache::default(),
        })))
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

    pub(crate) fn properties(&self) -> &Properties {
        &self.0.properties
    }

    pub(crate) fn ledger(&self) -> &Arc<Ledger> {
        &self.0.ledger
    }

    pub(crate) fn modules(&self) -> &ModuleCache {
        &self.0.modules
    }

    pub(crate) fn new_stream(&self) -> Result<Arc<CudaStream>> {
        let stream = self.context().new_stream().map_err(|e| error("making a stream", self.context(), e))?;
        self.0.shared.second_stream.get_or_init(|| stream.clone());
        Ok(stream)
    }

    pub(crate) fn memory(&self) -> MemoryInfo {
        // A context in error cannot answer; then our own count is all there is.
        let (free, total) = self.context().mem_get_info().unwrap_or((0, 0));
        self.0.ledger.info(free as u64, total as u64)
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
        Ok(PinnedBuffer::on_cuda(slice, len))
    }

    /// `bytes` of uninitialised device memory, ordered on `stream`.
    pub(crate) fn alloc(&self, stream: &Arc<CudaStream>, bytes: usize) -> Result<RawBuffer> {
        // The driver has no empty allocations.
        let size = bytes.max(1);
        // SAFETY: every bit pattern is a value of a `DeviceElement`, so reading the memory before writing it is harmless.
        let alloc = || unsafe { stream.alloc::<u8>(size) };
        let out_of_memory = |e: &DriverError| e.0 == sys::CUresult::CUDA_ERROR_OUT_OF_MEMORY;
        let slice = match alloc() {
            // Buffers already dropped may wait for their streams to free them.
            Err(e) if out_of_memory(&e) => {
                self.synchronize()?;
                alloc()
            }
            other => other,
        };
        match slice {
            Ok(slice) => Ok(RawBuffer::new(
                Storage::Cuda(slice),
                Device::Cuda(self.clone()),
                self.0.ledger.reserve(bytes as u64),
            )),
            Err(e) if out_of_memory(&e) => {
                let memory = self.memory();
                Err(Error::OutOfMemory {
                    device: format!("cuda:{}", self.ordinal()),
                    requested: bytes as u64,
                    free: memory.free,
                    total: memory.total,
                    in_use: memory.in_use,
                })
            }
            Err(e) => Err(error("allocating device memory", self.context(), e)),
        }
    }

    /// Loads a cubin, or PTX text for the driver to compile with its optimiser at `level`, 0 to 4 (its own choice is 4); the
    /// error is the loader's log.
    pub(crate) fn load_module(&self, image: &[u8], level: u32) -> Result<CudaModule, String> {
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
            Ok(()) => Ok(CudaModule(Arc::new(ModuleHandle { module, context: self.context().clone() }))),
            Err(error) => {
                let end = log.iter().position(|&byte| byte == 0).unwrap_or(log.len());
                let log = String::from_utf8_lossy(&log[..end]).trim().to_owned();
                Err(match log.is_empty() {
                    true => describe(error),
                    false => format!("{}\n{log}", describe(error)),
                })
            }
        }
    }
}

/// A loaded module; unloaded when the last kernel of it is gone.
#[derive(Clone)]
pub(crate) struct CudaModule(Arc<ModuleHandle>);

struct ModuleHandle {
    module: sys::CUmodule,
    context: Arc<CudaContext>,
}

// SAFETY: the driver's handles may be used from any thread that has made the context current, which every use does first.
unsafe impl Send for ModuleHandle {}
// SAFETY: as above; the driver locks internally.
unsafe impl Sync for ModuleHandle {}

impl Drop for ModuleHandle {
    fn drop(&mut self) {
        let context = &self.context;
        context.record_err(context.bind_to_thread());
        // SAFETY: loaded once, unloaded once, and no kernel of it is left.
        context.record_err(unsafe { result::module::unload(self.module) });
    }
}

/// A kernel of a loaded module.
#[derive(Clone)]
pub(crate) struct CudaFunction {
    function: sys::CUfunction,
    module: CudaModule,
}

// SAFETY: as for `ModuleHandle`, which it keeps alive.
unsafe impl Send for CudaFunction {}
// SAFETY: as for `ModuleHandle`.
unsafe impl Sync for CudaFunction {}

impl CudaModule {
    pub(crate) fn function(&self, name: &str) -> Result<CudaFunction, String> {
        let context = &self.0.context;
        context.bind_to_thread().map_err(describe)?;
        let name = CString::new(name).map_err(|_| "a name with a zero byte".to_owned())?;
        // SAFETY: the module is loaded, since `self` holds it.
        let function = unsafe { result::module::get_function(self.0.module, name) }.map_err(describe)?;
        Ok(CudaFunction { function, module: self.clone() })
    }
}

impl CudaFunction {
    pub(crate) fn raw(&self) -> sys::CUfunction {
        self.function
    }

    pub(crate) fn attribute(&self, attribute: CUfunction_attribute) -> Result<u32> {
        let context = &self.module.0.context;
        let get = || {
            context.bind_to_thread()?;
            // SAFETY: the function belongs to a loaded module.
            unsafe { result::function::get_function_attribute(self.function, attribute) }
        };
        get().map(|value| value.max(0) as u32).map_err(|e| error("reading a kernel's attribute", context, e))
    }

    /// Lets launches use up to `bytes` of dynamic shared memory, which beyond 48 KiB must be asked for.
    pub(crate) fn allow_dynamic_shared(&self, bytes: u32) -> Result<()> {
        let context = &self.module.0.context;
        let set = || {
            context.bind_to_thread()?;
            // SAFETY: the function belongs to a loaded module.
            unsafe {
                result::function::set_function_attribute(
                    self.function,
                    CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                    bytes as i32,
                )
            }
        };
        set().map_err(|e| error("asking for more shared memory", context, e))
    }

    /// Queues a launch.
    ///
    /// # Safety
    /// `params` points to one value for each parameter, of its size; the kernel must be right for them.
    pub(crate) unsafe fn launch(
        &self,
        stream: &CudaStream,
        config: &super::LaunchConfig,
        params: &mut [*mut c_void],
    ) -> std::result::Result<(), DriverError> {
        stream.context().bind_to_thread()?;
        // SAFETY: the caller's promise; stream and function are alive.
        unsafe {
            result::launch_kernel(
                self.function,
                config.grid_dim,
                config.block_dim,
                config.shared_mem_bytes,
                stream.cu_stream(),
                params,
            )
        }
    }
}

/// Milliseconds between two events, by the function that drivers of every CUDA version have: cudarc's own call needs 12.8.
pub(crate) fn elapsed_ms(start: &CudaEvent, end: &CudaEvent) -> Result<f32> {
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

/// Fills bytes `[offset, offset + bytes)` of `slice`.
pub(crate) fn fill(
    stream: &Arc<CudaStream>,
    slice: &mut CudaSlice<u8>,
    range: std::ops::Range<usize>,
    value: u8,
) -> std::result::Result<(), DriverError> {
    use cudarc::driver::DevicePtrMut;
    if range.is_empty() {
        return Ok(());
    }
    stream.context().bind_to_thread()?;
    let (ptr, _written) = slice.device_ptr_mut(stream);
    // SAFETY: the range lies inside the slice; the caller took it from a region of the same buffer.
    unsafe { result::memset_d8_async(ptr + range.start as u64, value, range.len(), stream.cu_stream()) }
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
