//! Modules and kernels.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex};

use super::handle::{Handle, Side, on_either, resolve};
use super::properties::KernelAttributes;
use super::{Device, DeviceId, cuda, on_device, sim};
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
    /// Loads compiled code. A GPU's driver compiles PTX again, with its optimiser at level `optimiser`.
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
    /// `None` if there is none of that name. So host code can read the geometry of a launch from its kernel.
    pub fn find_constant(&self, name: &str) -> Option<i64> {
        self.0.constants.get(&ptx::symbol(name)).copied()
    }

    /// [`Module::find_constant`] of a count that must exist.
    ///
    /// # Errors
    /// [`Error::NoSuchConstant`] if it is missing or negative.
    pub fn constant(&self, name: &str) -> Result<usize> {
        let value = self.find_constant(name).and_then(|value| usize::try_from(value).ok());
        value.ok_or_else(|| Error::NoSuchConstant { module: self.0.name.clone(), constant: name.to_owned() })
    }

    /// Compares a constant of the file with the value that the host code assumes.
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

    /// Origin of the code.
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

    /// Parameters, in order.
    pub fn params(&self) -> &[Param] {
        &self.0.entry.params
    }

    /// Resources that the kernel needs.
    pub fn attributes(&self) -> KernelAttributes {
        self.0.attributes
    }

    /// Resident blocks of `threads` threads, with `dynamic_shared` bytes of shared memory beside the declared ones, on the whole
    /// device; `None` on the simulator, so that counts do not depend on a device. A grid of more runs in waves.
    ///
    /// # Errors
    /// Errors of the driver, such as too much shared memory for a block.
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

    /// Name of its file in messages.
    pub(crate) fn module_name(&self) -> &str {
        &self.0.module.0.name
    }

    /// The CUDA source, if it is known.
    pub(crate) fn source(&self) -> Option<&str> {
        self.0.module.0.source.as_deref()
    }

    pub(super) fn on<Q: Side>(&self, queue: &Q) -> Result<Q::Half<&cuda::Function, &sim::Function>> {
        resolve(queue, LAUNCH, "kernel", self.0.module.0.owner, self.0.function.as_ref())
    }
}

impl fmt::Debug for Kernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Kernel({} of {:?})", self.name(), self.0.module)
    }
}

/// Name of a launch in messages.
pub(crate) const LAUNCH: &str = "launching a kernel";
