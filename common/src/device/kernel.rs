//! Modules, kernels and their launches.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex};

use super::backend::{Backend, resolve};
use super::buffer::{Buffer, DeviceSlice, DeviceSliceMut, Lease, Region, RegionMut, View, ViewMut};
use super::element::DeviceElement;
use super::graph::{GraphOperation, Uses};
use super::handle::{Handle, on_either};
use super::launch_config::LaunchConfig;
use super::properties::KernelAttributes;
use super::stream::Stream;
use super::{Device, DeviceId, Properties, cuda, on_device, sim};
use crate::compile::ptx::{self, Entry, Param};
use crate::compile::{Compiled, Fingerprint, Origin};
use crate::error::{Error, Result};

/// A loaded file of kernels. Cheap to clone.
#[derive(Clone)]
pub struct Module(Arc<ModuleInner>);

struct ModuleInner {
    name: String,
    origin: Origin,
    /// The CUDA source, for the simulator's diagnostics.
    source: Option<Arc<str>>,
    entries: Vec<Entry>,
    /// The file's `constexpr int`s, by symbol.
    constants: HashMap<String, i64>,
    owner: DeviceId,
    loaded: ModuleHandle,
}

pub(super) type ModuleHandle = Handle<cuda::Module, sim::Module>;
pub(super) type FunctionHandle = Handle<cuda::Function, sim::Function>;

/// The modules that a device has loaded, by their sources.
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
    /// Loads compiled code. A GPU's driver compiles PTX once more, with its optimiser at level `optimiser`.
    pub(crate) fn load(device: &Device, compiled: Compiled, optimiser: u32) -> Result<Module> {
        let loaded = on_device!(device, device => device.load_module(&compiled, optimiser));
        let loaded = loaded.map_err(|detail| Error::Load {
            module: compiled.name.clone(),
            device: device.short_name(),
            detail,
        })?;
        Ok(Module(Arc::new(ModuleInner {
            entries: ptx::entries(&compiled.ptx),
            constants: ptx::constants(&compiled.ptx),
            name: compiled.name,
            origin: compiled.origin,
            source: compiled.source,
            owner: device.id(),
            loaded,
        })))
    }

    /// The kernel of this name.
    ///
    /// # Errors
    /// [`Error::NoSuchKernel`], with the names that exist; [`Error::Load`] if the simulator does not know one of its
    /// instructions.
    pub fn kernel(&self, name: &str) -> Result<Kernel> {
        let module = &*self.0;
        let entry = module.entries.iter().find(|entry| entry.name == name).ok_or_else(|| Error::NoSuchKernel {
            module: module.name.clone(),
            kernel: name.to_owned(),
            available: self.kernel_names().map(str::to_owned).collect(),
        })?;
        let refused =
            |detail: String| Error::Load { module: module.name.clone(), device: module.owner.to_string(), detail };
        let (function, attributes) = on_either!(&module.loaded, loaded => loaded.function(name, refused)?);
        Ok(Kernel(Arc::new(KernelInner { entry: entry.clone(), attributes, function, module: self.clone() })))
    }

    /// The value of a `constexpr int` of the file, named as in C++: `BM`, or in a struct `Large::BM` or `Geometry<Large>::THREADS`.
    /// `None` if there is none of that name. So a host side can read the geometry of a launch where it stands, in the kernel.
    pub fn find_constant(&self, name: &str) -> Option<i64> {
        self.0.constants.get(&ptx::symbol(name)).copied()
    }

    /// [`Module::find_constant`] of a count that must be there.
    ///
    /// # Errors
    /// [`Error::NoSuchConstant`] if it is missing or negative.
    pub fn constant(&self, name: &str) -> Result<usize> {
        let value = self.find_constant(name).and_then(|value| usize::try_from(value).ok());
        value.ok_or_else(|| Error::NoSuchConstant { module: self.0.name.clone(), constant: name.to_owned() })
    }

    /// Compares a constant of the file with what the host side was written for.
    ///
    /// # Errors
    /// [`Error::Geometry`] with both values if they differ, [`Error::NoSuchConstant`].
    pub fn expect_constant(&self, name: &str, host: usize) -> Result<()> {
        let kernel = self.constant(name)?;
        if kernel == host {
            return Ok(());
        }
        Err(Error::Geometry { module: self.0.name.clone(), constant: name.to_owned(), kernel, host })
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
        write!(f, "Module({} on {}, {})", self.0.name, self.0.owner, self.0.origin)
    }
}

/// A kernel, ready to launch. Cheap to clone.
#[derive(Clone)]
pub struct Kernel(Arc<KernelInner>);

struct KernelInner {
    entry: Entry,
    attributes: KernelAttributes,
    function: FunctionHandle,
    module: Module,
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

    /// The resources that it needs.
    pub fn attributes(&self) -> KernelAttributes {
        self.0.attributes
    }

    /// Blocks of `threads` threads, with `dynamic_shared` bytes of shared memory beside what the source declares, that the device
    /// holds at once; `None` on the simulator, so that counts do not depend on a device. A grid of more runs in waves.
    ///
    /// # Errors
    /// What the driver reports, such as more shared memory than a block may have.
    #[cfg_attr(not(feature = "cuda"), expect(unused_variables))]
    pub fn resident_blocks(&self, threads: u32, dynamic_shared: u32) -> Result<Option<u32>> {
        match &self.0.function {
            #[cfg(feature = "cuda")]
            Handle::Cuda(function) => function.resident_blocks(threads, dynamic_shared).map(Some),
            #[cfg(not(feature = "cuda"))]
            Handle::Cuda(never) => match *never {},
            Handle::Sim(_) => Ok(None),
        }
    }

    /// cudarc's handle, for other queries; `None` on the simulator.
    #[cfg(feature = "cuda")]
    pub fn cu_function(&self) -> Option<cudarc::driver::sys::CUfunction> {
        match &self.0.function {
            Handle::Cuda(function) => Some(function.raw()),
            Handle::Sim(_) => None,
        }
    }

    /// What messages call the file that it is from.
    pub(crate) fn module_name(&self) -> &str {
        &self.0.module.0.name
    }

    /// The CUDA source, where it is known.
    pub(crate) fn source(&self) -> Option<&str> {
        self.0.module.0.source.as_deref()
    }

    pub(super) fn on<Q: Backend>(&self, queue: &Q) -> Result<Q::Half<&cuda::Function, &sim::Function>> {
        resolve(queue, LAUNCH, "kernel", self.0.module.0.owner, self.0.function.as_ref())
    }
}

impl fmt::Debug for Kernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Kernel({} of {:?})", self.name(), self.0.module)
    }
}

/// What messages call a launch.
pub(crate) const LAUNCH: &str = "launching a kernel";

/// The arguments of one launch, as [`Stream::launch_builder`] starts them.
pub struct LaunchArgs<'a> {
    pub(super) stream: &'a Stream,
    pub(super) kernel: &'a Kernel,
    pub(super) slots: Vec<Slot<'a>>,
    /// Scalars and structs, each at a multiple of 8 bytes.
    pub(super) values: Vec<u64>,
    /// Whether the launch may begin before the one before it has ended.
    pub(super) dependent: bool,
}

/// One argument.
pub(super) enum Slot<'a> {
    /// Bytes of [`LaunchArgs::values`].
    Value {
        /// Index of the first unit.
        at: usize,
        bytes: usize,
    },
    Read(Region<'a>),
    Write(RegionMut<'a>),
    /// A tensor map, of [`LaunchArgs::values`] from unit `at` on, and the buffer that it is of.
    ReadMap {
        at: usize,
        region: Region<'a>,
    },
    WriteMap {
        at: usize,
        region: RegionMut<'a>,
    },
    /// A buffer that may be another device's.
    Peer(Region<'a>),
    PeerMut(RegionMut<'a>),
    /// Buffers of several devices, whose addresses are [`LaunchArgs::values`] from unit `at` on.
    Peers {
        at: usize,
        regions: &'a [Region<'a>],
    },
    /// The buffer of the argument with this index, once more.
    Again(usize),
    /// A pointer to nothing.
    Null,
}

/// What a kernel can be given: `&T` for a scalar or a `#[repr(C)]` struct, `&Buffer` or `&View` to read, `&mut Buffer` or
/// `&mut ViewMut` to write, `&TensorMap` or `&mut TensorMapMut`. `None` of an `Option` of these buffers is a null pointer.
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
        args.slots.push(Slot::Read(self.region()));
    }
}

impl<'a, 'b: 'a, T: DeviceElement> KernelArg<'a> for &'b mut Buffer<T> {
    fn push(self, args: &mut LaunchArgs<'a>) {
        args.slots.push(Slot::Write(self.region_mut()));
    }
}

impl<'a, 'b: 'a, T: DeviceElement> KernelArg<'a> for &'b View<'_, T> {
    fn push(self, args: &mut LaunchArgs<'a>) {
        args.slots.push(Slot::Read(self.region()));
    }
}

impl<'a, 'b: 'a, T: DeviceElement> KernelArg<'a> for &'b mut ViewMut<'_, T> {
    fn push(self, args: &mut LaunchArgs<'a>) {
        args.slots.push(Slot::Write(self.region_mut()));
    }
}

impl<'a, 'b: 'a, T: DeviceElement> KernelArg<'a> for Option<&'b Buffer<T>> {
    fn push(self, args: &mut LaunchArgs<'a>) {
        args.slots.push(self.map_or(Slot::Null, |buffer| Slot::Read(buffer.region())));
    }
}

impl<'a, 'b: 'a, T: DeviceElement> KernelArg<'a> for Option<&'b mut Buffer<T>> {
    fn push(self, args: &mut LaunchArgs<'a>) {
        args.slots.push(self.map_or(Slot::Null, |buffer| Slot::Write(buffer.region_mut())));
    }
}

/// Buffers of several devices, for kernels that take a struct of as many pointers: `struct Peers { float *at[16]; }`. Where it has more,
/// the rest are null. Each launch that is given them may write all of them.
pub struct Peers<'b> {
    regions: Vec<Region<'b>>,
}

impl<'b> Peers<'b> {
    /// In this order, which is that of the pointers.
    pub fn new<T: DeviceElement>(buffers: impl IntoIterator<Item = &'b mut Buffer<T>>) -> Peers<'b> {
        Peers { regions: buffers.into_iter().map(|buffer| (*buffer).region()).collect() }
    }
}

impl<'a, 'b: 'a> KernelArg<'a> for &'a Peers<'b> {
    fn push(self, args: &mut LaunchArgs<'a>) {
        let pointers = args.kernel.params().get(args.slots.len()).map_or(0, |param| param.bytes as usize / 8);
        let at = args.values.len();
        args.values.resize(at + pointers.max(self.regions.len()), 0);
        args.slots.push(Slot::Peers { at, regions: &self.regions });
    }
}

impl<'a> LaunchArgs<'a> {
    pub(crate) fn new(stream: &'a Stream, kernel: &'a Kernel) -> LaunchArgs<'a> {
        LaunchArgs { stream, kernel, slots: Vec::new(), values: Vec::new(), dependent: false }
    }

    /// Appends an argument, in the order of the kernel's parameters.
    pub fn arg(&mut self, argument: impl KernelArg<'a>) -> &mut Self {
        argument.push(self);
        self
    }

    /// Appends a scalar or struct by the bytes of its value, for callers that learn its type at run time.
    pub fn arg_bytes(&mut self, bytes: &[u8]) -> &mut Self {
        let at = self.push_value(bytes);
        self.slots.push(Slot::Value { at, bytes: bytes.len() });
        self
    }

    /// Where the bytes of a value begin among the values.
    pub(super) fn push_value(&mut self, bytes: &[u8]) -> usize {
        let at = self.values.len();
        self.values.resize(at + bytes.len().div_ceil(8), 0);
        bytemuck::cast_slice_mut(&mut self.values[at..])[..bytes.len()].copy_from_slice(bytes);
        at
    }

    /// Appends the buffer of argument `index` (from 0) once more: a kernel that reads one and writes the other then works in
    /// place.
    ///
    /// # Panics
    /// If there is no such argument yet, or it is not a buffer.
    pub fn arg_again(&mut self, index: usize) -> &mut Self {
        let buffer = matches!(self.slots.get(index), Some(Slot::Read(_) | Slot::Write(_)));
        assert!(buffer, "argument {index} is not a buffer given before");
        self.slots.push(Slot::Again(index));
        self
    }

    /// Appends a buffer that may belong to another device of the same host, for reading: the kernel reaches it over the link. Nothing
    /// orders the launch with work on that device but events ([`Stream::wait`]) and what the kernel itself waits for, and the buffer has
    /// to stay until the launch has ended.
    pub fn peer<T: DeviceElement>(&mut self, buffer: &'a Buffer<T>) -> &mut Self {
        self.slots.push(Slot::Peer(buffer.region()));
        self
    }

    /// [`LaunchArgs::peer`], for writing.
    pub fn peer_mut<T: DeviceElement>(&mut self, buffer: &'a mut Buffer<T>) -> &mut Self {
        self.slots.push(Slot::PeerMut(buffer.region_mut()));
        self
    }

    /// Lets the launch begin while the one before it on the stream still runs (programmatic dependent launch), on GPUs from
    /// compute capability 9.0; others and the simulator run one after the other. The kernel must execute `griddepcontrol.wait`
    /// before it reads or writes anything that an earlier launch reads or writes. The launch before lets this one begin by
    /// `griddepcontrol.launch_dependents`; one that does not is waited for as ever.
    pub fn dependent(&mut self) -> &mut Self {
        self.dependent = true;
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
    /// the buffers it was given, for this geometry and these scalars; if it is [`LaunchArgs::dependent`], it must wait as said
    /// there. A GPU does not watch: a stray access may end in any
    /// allocation of the process, pinned host memory included. (The simulator reports it and harms nothing.)
    ///
    /// # Errors
    /// [`Error::Arguments`], [`Error::LaunchConfig`], [`Error::WrongDevice`]; [`Error::Fault`] from the simulator; what the
    /// driver reports of earlier work.
    pub unsafe fn launch(&mut self, config: LaunchConfig) -> Result<()> {
        let (stream, kernel) = (self.stream, self.kernel);
        on_either!(&stream.queue, queue => {
            let function = kernel.on(queue)?;
            self.check(&config)?;
            let memory = if stream.branch().is_some() { self.leases() } else { Vec::new() };
            let uses =
                || Uses { operation: GraphOperation::Kernel, name: kernel.name(), memory, kernel: Some(kernel) };
            // SAFETY: number and sizes of the arguments and the geometry were checked; the rest is the caller's promise.
            stream.perform(uses, || unsafe { queue.launch(function, self, &config) })
        })
    }

    /// Compares arguments and geometry with what kernel and device take.
    pub(super) fn check(&self, config: &LaunchConfig) -> Result<()> {
        self.check_arguments()?;
        check_config(self.kernel, config, self.stream.device().properties())
    }

    /// Writes the addresses of buffers of several devices into the values that the kernel is given.
    pub(super) fn fill_in_peers(&mut self, queue: &impl Backend) -> Result<()> {
        for slot in &self.slots {
            if let Slot::Peers { at, regions } = slot {
                for (value, region) in self.values[*at..].iter_mut().zip(*regions) {
                    *value = queue.peer_address(region)?;
                }
            }
        }
        Ok(())
    }

    /// Of all buffers among the arguments.
    fn leases(&self) -> Vec<Arc<Lease>> {
        let leases = |slot: &Slot<'_>| match slot {
            Slot::Read(region) | Slot::ReadMap { region, .. } | Slot::Peer(region) => vec![region.lease().clone()],
            Slot::Write(region) | Slot::WriteMap { region, .. } | Slot::PeerMut(region) => vec![region.lease().clone()],
            Slot::Peers { regions, .. } => regions.iter().map(|region| region.lease().clone()).collect(),
            Slot::Value { .. } | Slot::Again(_) | Slot::Null => Vec::new(),
        };
        self.slots.iter().flat_map(leases).collect()
    }

    fn check_arguments(&self) -> Result<()> {
        let params = self.kernel.params();
        let wrong = |detail: String| {
            Err(Error::Arguments {
                kernel: self.kernel.name().to_owned(),
                detail: format!("{detail}; it takes {}", signature(params)),
            })
        };
        if self.slots.len() != params.len() {
            return wrong(format!(
                "{} given for {}",
                count(self.slots.len(), "argument"),
                count(params.len(), "parameter")
            ));
        }
        for (number, (slot, param)) in (1..).zip(self.slots.iter().zip(params)) {
            let (what, bytes) = match slot {
                Slot::Value { bytes, .. } => ("a value", *bytes),
                Slot::Read(_) | Slot::Write(_) | Slot::Peer(_) | Slot::PeerMut(_) | Slot::Again(_) => {
                    ("a buffer's address", 8)
                }
                // The struct may have room for more.
                Slot::Peers { regions, .. } => ("addresses", (8 * regions.len()).max(param.bytes as usize / 8 * 8)),
                Slot::Null => ("a null pointer", 8),
                Slot::ReadMap { .. } | Slot::WriteMap { .. } => ("a tensor map", ptx_sim::TENSOR_MAP_BYTES),
            };
            if bytes != param.bytes as usize {
                return wrong(format!(
                    "argument {number} is {what} of {}, the parameter has {}",
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
            Some(registers) => format!(" at {registers} registers per thread"),
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
