//! Modules, kernels and their launches.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex};

use super::buffer::{Buffer, DeviceSlice, DeviceSliceMut, Region, RegionMut, Storage, View, ViewMut};
use super::element::DeviceElement;
use super::stream::Stream;
use super::{Device, DeviceId, Properties};
use crate::compile::ptx::{Entry, Param};
use crate::compile::{Compiled, Fingerprint, Origin};
use crate::error::{Error, Result};

#[cfg(feature = "cuda")]
use {
    super::cuda::{self, CudaFunction, CudaModule},
    super::stream::StreamBackend,
    cudarc::driver::sys::CUfunction_attribute as Attribute,
    cudarc::driver::{DevicePtr, DevicePtrMut},
    std::cell::Cell,
    std::sync::atomic::{AtomicU32, Ordering},
};

/// A loaded file of kernels. Cheap to clone.
#[derive(Clone)]
pub struct Module(Arc<ModuleInner>);

struct ModuleInner {
    name: String,
    origin: Origin,
    /// The CUDA source, for the simulator's diagnostics.
    source: Option<Arc<str>>,
    entries: Vec<Entry>,
    device: DeviceId,
    device_name: String,
    loaded: Loaded,
}

enum Loaded {
    #[cfg(feature = "cuda")]
    Cuda(CudaModule),
    Sim(ptx_sim::LoadedModule),
}

/// The modules that a device has loaded, by what they were compiled from.
#[derive(Default)]
pub(crate) struct ModuleCache(Mutex<HashMap<Fingerprint, Module>>);

impl ModuleCache {
    pub(crate) fn get(&self, key: &Fingerprint) -> Option<Module> {
        self.lock().get(key).cloned()
    }

    pub(crate) fn insert(&self, key: Fingerprint, module: &Module) {
        self.lock().insert(key, module.clone());
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<Fingerprint, Module>> {
        self.0.lock().expect("no holder of this lock can panic")
    }
}

impl Module {
    /// Loads what was compiled. PTX is compiled once more, by a GPU's driver, with its optimiser at level `optimiser`.
    #[cfg_attr(not(feature = "cuda"), expect(unused_variables))]
    pub(crate) fn load(device: &Device, compiled: Compiled, optimiser: u32) -> Result<Module> {
        let refused =
            |detail: String| Error::Load { module: compiled.name.clone(), device: device.short_name(), detail };
        let loaded = match device {
            #[cfg(feature = "cuda")]
            Device::Cuda(cuda) => {
                let image = compiled.cubin.as_deref();
                let image = image.unwrap_or(compiled.ptx.as_bytes());
                Loaded::Cuda(cuda.load_module(image, optimiser).map_err(refused)?)
            }
            Device::Sim(sim) => {
                let module = ptx_sim::Module::from_ptx(&compiled.ptx, &compiled.ptx_name())
                    .map_err(|error| refused(error.render(false)))?;
                let loaded = sim.device().load(&module);
                Loaded::Sim(loaded.map_err(|error| refused(error.render(false)))?)
            }
        };
        Ok(Module(Arc::new(ModuleInner {
            entries: crate::compile::ptx::entries(&compiled.ptx),
            name: compiled.name,
            origin: compiled.origin,
            source: compiled.source,
            device: device.id(),
            device_name: device.short_name(),
            loaded,
        })))
    }

    /// The kernel of this name.
    ///
    /// # Errors
    /// [`Error::NoSuchKernel`], with the names there are; [`Error::Load`] if the simulator does not know one of its
    /// instructions.
    pub fn kernel(&self, name: &str) -> Result<Kernel> {
        let module = &*self.0;
        let entry = module.entries.iter().find(|entry| entry.name == name).ok_or_else(|| Error::NoSuchKernel {
            module: module.name.clone(),
            kernel: name.to_owned(),
            available: self.kernel_names().map(str::to_owned).collect(),
        })?;
        let refused =
            |detail: String| Error::Load { module: module.name.clone(), device: module.device_name.clone(), detail };
        let (function, attributes) = match &module.loaded {
            #[cfg(feature = "cuda")]
            Loaded::Cuda(loaded) => {
                let function = loaded.function(name).map_err(refused)?;
                let get = |attribute| function.attribute(attribute);
                let attributes = KernelAttributes {
                    registers: Some(get(Attribute::CU_FUNC_ATTRIBUTE_NUM_REGS)?),
                    local_bytes: Some(get(Attribute::CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES)?),
                    static_shared: get(Attribute::CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES)?,
                    max_threads_per_block: get(Attribute::CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK)?,
                };
                (Function::Cuda(function), attributes)
            }
            Loaded::Sim(loaded) => {
                let kernel = loaded.kernel(name).map_err(|error| refused(error.render(false)))?;
                let attributes = KernelAttributes {
                    registers: None,
                    local_bytes: None,
                    static_shared: kernel.info().static_shared,
                    max_threads_per_block: kernel.info().max_threads.unwrap_or(1024).min(1024),
                };
                (Function::Sim(kernel), attributes)
            }
        };
        Ok(Kernel(Arc::new(KernelInner {
            entry: entry.clone(),
            attributes,
            #[cfg(feature = "cuda")]
            dynamic_shared_asked: AtomicU32::new(0),
            function,
            module: self.clone(),
        })))
    }

    /// The kernels in the file.
    pub fn kernel_names(&self) -> impl Iterator<Item = &str> {
        self.0.entries.iter().map(|entry| entry.name.as_str())
    }

    /// Where the code came from.
    pub fn origin(&self) -> &Origin {
        &self.0.origin
    }
}

impl fmt::Debug for Module {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Module({} on {}, {})", self.0.name, self.0.device_name, self.0.origin)
    }
}

/// A kernel, ready to launch. Cheap to clone.
#[derive(Clone)]
pub struct Kernel(Arc<KernelInner>);

struct KernelInner {
    entry: Entry,
    attributes: KernelAttributes,
    /// The most dynamic shared memory that the driver was told of so far.
    #[cfg(feature = "cuda")]
    dynamic_shared_asked: AtomicU32,
    function: Function,
    module: Module,
}

enum Function {
    #[cfg(feature = "cuda")]
    Cuda(CudaFunction),
    Sim(ptx_sim::Kernel),
}

/// What a kernel takes of a multiprocessor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KernelAttributes {
    /// Registers a thread; the simulator does not assign any.
    pub registers: Option<u32>,
    /// Bytes of local memory a thread: spilled registers and arrays.
    pub local_bytes: Option<u32>,
    /// Bytes of shared memory a block, declared in the source.
    pub static_shared: u32,
    /// Threads that a block of this kernel may have, given its registers and `__launch_bounds__`.
    pub max_threads_per_block: u32,
}

impl Kernel {
    /// The kernel's name.
    pub fn name(&self) -> &str {
        &self.0.entry.name
    }

    /// Its parameters, in order.
    pub fn params(&self) -> &[Param] {
        &self.0.entry.params
    }

    /// What it takes of a multiprocessor.
    pub fn attributes(&self) -> KernelAttributes {
        self.0.attributes
    }

    /// cudarc's handle, for occupancy and other queries; `None` on the simulator.
    #[cfg(feature = "cuda")]
    pub fn cu_function(&self) -> Option<cudarc::driver::sys::CUfunction> {
        match &self.0.function {
            Function::Cuda(function) => Some(function.raw()),
            Function::Sim(_) => None,
        }
    }
}

impl fmt::Debug for Kernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Kernel({} of {:?})", self.name(), self.0.module)
    }
}

/// The geometry of a launch: blocks in the grid, threads in a block, bytes of dynamic shared memory a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaunchConfig {
    /// Blocks in x, y, z.
    pub grid_dim: (u32, u32, u32),
    /// Threads of a block in x, y, z.
    pub block_dim: (u32, u32, u32),
    /// Bytes of dynamic shared memory a block.
    pub shared_mem_bytes: u32,
}

impl LaunchConfig {
    /// At least `n` threads, in blocks of 256. (cudarc's `for_num_elems` takes blocks of 1024.)
    pub fn for_threads(n: u32) -> LaunchConfig {
        LaunchConfig::linear(n, 256)
    }

    /// At least `n` threads, in blocks of `block`. The last block may have threads to spare, so the kernel compares its index
    /// with n. For n = 0 there is still one block: CUDA has no empty grids.
    pub fn linear(n: u32, block: u32) -> LaunchConfig {
        LaunchConfig {
            grid_dim: (n.div_ceil(block.max(1)).max(1), 1, 1),
            block_dim: (block, 1, 1),
            shared_mem_bytes: 0,
        }
    }
}

/// The arguments of one launch, as [`Stream::launch_builder`] starts them.
pub struct LaunchArgs<'a> {
    stream: &'a Stream,
    kernel: &'a Kernel,
    args: Vec<Slot<'a>>,
    /// Scalars and structs, each at a multiple of 8 bytes.
    values: Vec<u64>,
}

enum Slot<'a> {
    Value {
        at: usize,
        bytes: usize,
    },
    Read(Region<'a>),
    Write(RegionMut<'a>),
    /// The buffer of the argument with this index, once more.
    Again(usize),
    /// A pointer to nothing.
    Null,
}

/// What a kernel can be given: `&T` for a scalar or a `#[repr(C)]` struct, `&Buffer` or `&View` to read, `&mut Buffer` or
/// `&mut ViewMut` to write. `None` of an `Option` of these buffers is a null pointer.
pub trait KernelArg<'a> {
    /// Appends the argument.
    #[doc(hidden)]
    fn push(self, args: &mut LaunchArgs<'a>);
}

impl<'a, T: DeviceElement> KernelArg<'a> for &T {
    fn push(self, args: &mut LaunchArgs<'a>) {
        args.arg_bytes(bytemuck::bytes_of(self));
    }
}

impl<'a, 'b: 'a, T: DeviceElement> KernelArg<'a> for &'b Buffer<T> {
    fn push(self, args: &mut LaunchArgs<'a>) {
        args.args.push(Slot::Read(self.region()));
    }
}

impl<'a, 'b: 'a, T: DeviceElement> KernelArg<'a> for &'b mut Buffer<T> {
    fn push(self, args: &mut LaunchArgs<'a>) {
        args.args.push(Slot::Write(self.region_mut()));
    }
}

impl<'a, 'b: 'a, T: DeviceElement> KernelArg<'a> for &'b View<'_, T> {
    fn push(self, args: &mut LaunchArgs<'a>) {
        args.args.push(Slot::Read(self.region()));
    }
}

impl<'a, 'b: 'a, T: DeviceElement> KernelArg<'a> for &'b mut ViewMut<'_, T> {
    fn push(self, args: &mut LaunchArgs<'a>) {
        args.args.push(Slot::Write(self.region_mut()));
    }
}

impl<'a, 'b: 'a, T: DeviceElement> KernelArg<'a> for Option<&'b Buffer<T>> {
    fn push(self, args: &mut LaunchArgs<'a>) {
        args.args.push(self.map_or(Slot::Null, |buffer| Slot::Read(buffer.region())));
    }
}

impl<'a, 'b: 'a, T: DeviceElement> KernelArg<'a> for Option<&'b mut Buffer<T>> {
    fn push(self, args: &mut LaunchArgs<'a>) {
        args.args.push(self.map_or(Slot::Null, |buffer| Slot::Write(buffer.region_mut())));
    }
}

impl<'a> LaunchArgs<'a> {
    pub(crate) fn new(stream: &'a Stream, kernel: &'a Kernel) -> LaunchArgs<'a> {
        LaunchArgs { stream, kernel, args: Vec::new(), values: Vec::new() }
    }

    /// Appends an argument, in the order of the kernel's parameters.
    pub fn arg(&mut self, argument: impl KernelArg<'a>) -> &mut Self {
        argument.push(self);
        self
    }

    /// Appends a scalar or struct by the bytes of its value, for callers that learn its type at run time.
    pub fn arg_bytes(&mut self, bytes: &[u8]) -> &mut Self {
        let at = self.values.len();
        self.values.resize(at + bytes.len().div_ceil(8), 0);
        bytemuck::cast_slice_mut(&mut self.values[at..])[..bytes.len()].copy_from_slice(bytes);
        self.args.push(Slot::Value { at, bytes: bytes.len() });
        self
    }

    /// Appends the buffer of argument `index` (from 0) once more: a kernel that reads one and writes the other then works in
    /// place.
    ///
    /// # Panics
    /// If there is no such argument yet, or it is no buffer.
    pub fn arg_again(&mut self, index: usize) -> &mut Self {
        let buffer = matches!(self.args.get(index), Some(Slot::Read(_) | Slot::Write(_)));
        assert!(buffer, "argument {index} is no buffer given before");
        self.args.push(Slot::Again(index));
        self
    }

    /// Queues the launch. The number and sizes of the arguments, the devices of kernel and buffers, and the geometry are
    /// compared with what the kernel and the device take before anything runs.
    ///
    /// On a GPU the launch only begins here: what goes wrong inside the kernel surfaces at the next synchronisation. On the
    /// simulator it has run when this returns.
    ///
    /// # Safety
    /// Sizes are checked, meanings are not. The kernel must write only through arguments passed as `&mut`, and stay inside
    /// the buffers it was given, for this geometry and these scalars. A GPU does not watch: a stray access may end in any
    /// allocation of the process, pinned host memory included. (The simulator reports it and harms nothing.)
    ///
    /// # Errors
    /// [`Error::Arguments`], [`Error::LaunchConfig`], [`Error::WrongDevice`]; [`Error::Fault`] from the simulator; what the
    /// driver reports of earlier work.
    pub unsafe fn launch(&mut self, config: LaunchConfig) -> Result<()> {
        self.check_arguments()?;
        check_config(self.kernel, &config, self.stream.device().properties())?;
        match &self.kernel.0.function {
            #[cfg(feature = "cuda")]
            Function::Cuda(function) => {
                let StreamBackend::Cuda(stream) = &self.stream.backend else {
                    unreachable!("the devices were compared")
                };
                let fail = |e| {
                    let operation = format!("launching kernel `{}`", self.kernel.name());
                    cuda::error(&operation, stream.context(), e)
                };
                let kernel = &*self.kernel.0;
                let properties = self.stream.device().properties();
                let shared = config.shared_mem_bytes;
                if kernel.attributes.static_shared + shared > properties.shared_per_block
                    && kernel.dynamic_shared_asked.load(Ordering::Acquire) < shared
                {
                    function.allow_dynamic_shared(shared)?;
                    kernel.dynamic_shared_asked.fetch_max(shared, Ordering::Release);
                }
                // One pointer a buffer, at an address that stays while `params` points to it.
                let pointers = vec![Cell::new(0u64); self.args.len()];
                let mut params = Vec::with_capacity(self.args.len());
                // Kept until the launch is queued: each then marks its buffer as read or written at this point of the stream.
                let mut marks = Vec::new();
                for (slot, pointer) in self.args.iter_mut().zip(&pointers) {
                    let (ptr, offset, mark) = match slot {
                        Slot::Value { at, .. } => {
                            params.push(self.values[*at..].as_ptr().cast_mut().cast());
                            continue;
                        }
                        Slot::Again(index) => {
                            params.push(pointers[*index].as_ptr().cast());
                            continue;
                        }
                        Slot::Null => {
                            params.push(pointer.as_ptr().cast());
                            continue;
                        }
                        Slot::Read(region) => {
                            let Storage::Cuda(slice) = &region.raw.storage else {
                                unreachable!("the devices were compared")
                            };
                            let (ptr, mark) = slice.device_ptr(stream);
                            (ptr, region.offset, mark)
                        }
                        Slot::Write(region) => {
                            let Storage::Cuda(slice) = &mut region.raw.storage else {
                                unreachable!("the devices were compared")
                            };
                            let (ptr, mark) = slice.device_ptr_mut(stream);
                            (ptr, region.offset, mark)
                        }
                    };
                    pointer.set(ptr + offset as u64);
                    params.push(pointer.as_ptr().cast());
                    marks.push(mark);
                }
                // SAFETY: `check_arguments` compared number and sizes; the rest is the caller's promise.
                unsafe { function.launch(stream, &config, &mut params) }.map_err(fail)
            }
            Function::Sim(function) => {
                let sim = self.stream.device().as_sim();
                let sim = sim.expect("the devices were compared");
                let config = ptx_sim::LaunchConfig {
                    grid: [config.grid_dim.0, config.grid_dim.1, config.grid_dim.2],
                    block: [config.block_dim.0, config.block_dim.1, config.block_dim.2],
                    shared_bytes: config.shared_mem_bytes,
                    budget: sim.budget(),
                };
                let args: Vec<_> = self.args.iter().map(|slot| self.sim_arg(slot)).collect();
                sim.launch(function, &config, &args).map_err(|error| self.launch_error(error))
            }
        }
    }

    fn sim_arg(&self, slot: &Slot<'_>) -> ptx_sim::Arg {
        let (raw, offset) = match slot {
            Slot::Value { at, bytes } => {
                let value = &bytemuck::cast_slice(&self.values[*at..])[..*bytes];
                return ptx_sim::Arg::from_bytes(value);
            }
            Slot::Read(region) => (region.raw, region.offset),
            Slot::Write(region) => (&*region.raw, region.offset),
            Slot::Again(index) => return self.sim_arg(&self.args[*index]),
            Slot::Null => return ptx_sim::Arg::from(0u64),
        };
        match &raw.storage {
            Storage::Sim(allocation) => ptx_sim::Arg::from(allocation.ptr.0 + offset as u64),
            #[cfg(feature = "cuda")]
            Storage::Cuda(_) => unreachable!("the devices were compared"),
        }
    }

    fn launch_error(&self, error: ptx_sim::LaunchError) -> Error {
        let kernel = self.kernel.name().to_owned();
        match error {
            ptx_sim::LaunchError::Fault(fault) => {
                let source = self.kernel.0.module.0.source.as_deref();
                Error::Fault { rendered: fault.render(source, false), fault }
            }
            ptx_sim::LaunchError::Findings(findings) => {
                let source = self.kernel.0.module.0.source.as_deref();
                let rendered: Vec<String> = findings.iter().map(|finding| finding.render(source, false)).collect();
                Error::Findings { rendered: rendered.join("\n\n"), findings }
            }
            ptx_sim::LaunchError::Arguments { .. } => Error::Arguments { kernel, detail: error.to_string() },
            other => Error::LaunchConfig { kernel, detail: other.to_string() },
        }
    }

    fn check_arguments(&self) -> Result<()> {
        const OPERATION: &str = "launching a kernel";
        let device = self.stream.device();
        if self.kernel.0.module.0.device != device.id() {
            return Err(Error::WrongDevice {
                operation: OPERATION,
                what: "kernel",
                expected: device.short_name(),
                found: self.kernel.0.module.0.device_name.clone(),
            });
        }
        let params = self.kernel.params();
        let wrong = |detail: String| {
            Err(Error::Arguments {
                kernel: self.kernel.name().to_owned(),
                detail: format!("{detail}; it takes {}", signature(params)),
            })
        };
        if self.args.len() != params.len() {
            return wrong(format!(
                "{} given for {}",
                count(self.args.len(), "argument"),
                count(params.len(), "parameter")
            ));
        }
        for (i, (slot, param)) in self.args.iter().zip(params).enumerate() {
            let (what, bytes) = match slot {
                Slot::Value { bytes, .. } => ("a value", *bytes),
                Slot::Again(_) => ("a buffer's address", 8),
                Slot::Null => ("a null pointer", 8),
                Slot::Read(region) => {
                    self.stream.check_device(OPERATION, region.raw)?;
                    ("a buffer's address", 8)
                }
                Slot::Write(region) => {
                    self.stream.check_device(OPERATION, region.raw)?;
                    ("a buffer's address", 8)
                }
            };
            if bytes != param.bytes as usize {
                return wrong(format!(
                    "argument {i} is {what} of {}, the parameter has {}",
                    count(bytes, "byte"),
                    param.bytes
                ));
            }
        }
        Ok(())
    }
}

fn count(n: usize, what: &str) -> String {
    format!("{n} {what}{}", if n == 1 { "" } else { "s" })
}

/// `(u64, u64, u32)`.
fn signature(params: &[Param]) -> String {
    let types: Vec<_> = params.iter().map(|param| param.ty.as_str()).collect();
    format!("({})", types.join(", "))
}

/// Compares a geometry with the limits of kernel and device: a driver would only say "invalid argument".
fn check_config(kernel: &Kernel, config: &LaunchConfig, properties: &Properties) -> Result<()> {
    let attributes = kernel.attributes();
    let wrong = |detail: String| Err(Error::LaunchConfig { kernel: kernel.name().to_owned(), detail });
    let grid = [config.grid_dim.0, config.grid_dim.1, config.grid_dim.2];
    let block = [config.block_dim.0, config.block_dim.1, config.block_dim.2];
    for (what, dims, limits) in [("grid", grid, properties.max_grid), ("block", block, properties.max_block)] {
        if dims.contains(&0) {
            return wrong(format!("the {what} is {dims:?}, and no dimension may be 0"));
        }
        if dims.iter().zip(limits).any(|(&dim, limit)| dim > limit) {
            return wrong(format!("the {what} is {dims:?}, at most {limits:?} is possible"));
        }
    }
    let threads: u64 = block.iter().map(|&dim| u64::from(dim)).product();
    if threads > u64::from(properties.max_threads_per_block) {
        return wrong(format!(
            "a block of {block:?} has {threads} threads, the device allows {}",
            properties.max_threads_per_block
        ));
    }
    if threads > u64::from(attributes.max_threads_per_block) {
        let registers = match attributes.registers {
            Some(registers) => format!(" at {registers} registers a thread"),
            None => String::new(),
        };
        return wrong(format!(
            "a block of {block:?} has {threads} threads, this kernel allows {}{registers}",
            attributes.max_threads_per_block
        ));
    }
    let shared = u64::from(attributes.static_shared) + u64::from(config.shared_mem_bytes);
    if shared > u64::from(properties.shared_per_block_optin) {
        return wrong(format!(
            "a block needs {shared} bytes of shared memory ({} static, {} dynamic), the device has {}",
            attributes.static_shared, config.shared_mem_bytes, properties.shared_per_block_optin
        ));
    }
    Ok(())
}
