//! A CUDA GPU or the simulator, behind one interface that uses cudarc's names.
//!
//! Work goes to a [`Stream`] of a [`Device`]: buffers come from it, copies and launches are queued on it in order, and
//! [`Stream::synchronize`] waits for all of it. On the simulator each operation is finished when its call returns, which
//! is one of the orders that a GPU may choose. An operation that one side cannot do is [`Error::Unsupported`] with the
//! reason.

mod arguments;
mod backend;
mod buffer;
mod choice;
#[cfg(feature = "cuda")]
mod cuda;
mod element;
mod graph;
mod group;
mod handle;
#[cfg(any(feature = "cuda", test))]
mod high_water;
mod kernel;
mod launch;
mod launch_config;
mod memory;
mod order;
mod properties;
mod recording;
mod schedule;
mod sim;
mod stream;
mod subject;
mod tensor_map;
mod tensor_map_config;

/// CUDA's half of all handles, in a program built without it: types without values.
#[cfg(not(feature = "cuda"))]
mod cuda {
    use std::convert::Infallible;

    pub(crate) type Function = Infallible;
    pub(crate) type Graph = Infallible;
    pub(crate) type GraphExec = Infallible;
    pub(crate) type Mark = Infallible;
    pub(crate) type Memory = Infallible;
    pub(crate) type Module = Infallible;
    pub(crate) type Pinned = Infallible;
    pub(crate) type Queue = Infallible;
}

pub use crate::error::UnorderedUse;
pub use arguments::{KernelArg, Peers};
pub use buffer::{Buffer, DeviceSlice, DeviceSliceMut, PinnedBuffer, View, ViewMut};
pub use choice::{DeviceArgs, DeviceChoice};
#[cfg(feature = "cuda")]
pub use cuda::CudaDevice;
pub use element::{DeviceElement, HostSlice, HostSliceMut};
pub use graph::{Graph, GraphExec};
pub use group::{DeviceGroup, launch_together};
pub use kernel::{Kernel, Module};
pub use launch::LaunchArgs;
pub use launch_config::LaunchConfig;
pub use memory::MemoryInfo;
pub use properties::{KernelAttributes, Link, Properties};
pub use recording::{GraphNode, GraphOperation};
pub use schedule::{Engine, Operation, Schedule};
pub use sim::{Counts, SimDevice, SimOptions};
pub use stream::{Event, Stream};
pub use subject::{Finding, Subject, Tally};
pub use tensor_map::{TensorMap, TensorMapMut};
pub use tensor_map_config::{Interleave, OutsideFill, Swizzle, TensorElement, TensorMapConfig, TensorWindow};

use std::sync::Arc;

use handle::Handle;

use rayon::prelude::*;

use crate::compile::{self, KernelSource, Target};
use crate::error::{Error, Result};
pub(crate) use buffer::RawBuffer;
use kernel::ModuleCache;
use memory::Ledger;

/// The level of the driver's optimiser by default: its own choice.
const OPTIMISED: u32 = 4;

/// Reason why the simulator has no times, shown with the dash in their place.
pub const NO_CLOCK: &str = "the simulator counts instructions and has no clock: times need a GPU";

/// A device to run kernels on. Cheap to clone; all clones are the same device.
#[derive(Clone)]
pub enum Device {
    /// An NVIDIA GPU.
    #[cfg(feature = "cuda")]
    Cuda(CudaDevice),
    /// The simulator in `common/ptx-sim`.
    Sim(SimDevice),
}

/// State of a device that a program keeps, for either kind.
pub(crate) struct Inventory {
    properties: Properties,
    /// Counts the bytes in our own buffers.
    ledger: Arc<Ledger>,
    modules: ModuleCache,
}

impl Inventory {
    fn new(properties: Properties) -> Inventory {
        Inventory { properties, ledger: Arc::default(), modules: ModuleCache::default() }
    }
}

/// Identifies devices without keeping them alive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum DeviceId {
    #[cfg(feature = "cuda")]
    Cuda(usize),
    Sim {
        /// Number of the simulated host: its devices reach each other's memory.
        host: u64,
        /// Number among several.
        ordinal: Option<u32>,
    },
}

impl std::fmt::Display for DeviceId {
    /// `cuda:0`, `sim`, or `sim:1` of several.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            #[cfg(feature = "cuda")]
            DeviceId::Cuda(ordinal) => write!(f, "cuda:{ordinal}"),
            DeviceId::Sim { ordinal: None, .. } => f.write_str("sim"),
            DeviceId::Sim { ordinal: Some(ordinal), .. } => write!(f, "sim:{ordinal}"),
        }
    }
}

/// Expands to `$body` for either kind of device.
macro_rules! on_device {
    ($device:expr, $inner:ident => $body:expr) => {
        match $device {
            #[cfg(feature = "cuda")]
            $crate::Device::Cuda($inner) => $body,
            $crate::Device::Sim($inner) => $body,
        }
    };
}
pub(crate) use on_device;

impl Device {
    /// Opens the chosen device. `Auto` takes the first GPU if a driver answers, else the simulator; [`Device::describe`]
    /// says which, and why.
    ///
    /// # Errors
    /// [`Error::NoDevice`] if a GPU was asked for by name and does not answer.
    pub fn open(choice: DeviceChoice) -> Result<Device> {
        Device::open_with(choice, SimOptions::default())
    }

    /// [`Device::open`], with `options` for the simulator.
    ///
    /// # Errors
    /// Same as [`Device::open`].
    pub fn open_with(choice: DeviceChoice, options: SimOptions) -> Result<Device> {
        match choice {
            DeviceChoice::Sim | DeviceChoice::Sims(_) => Ok(Device::sim_with(options)),
            DeviceChoice::Cuda(ordinal) => Device::cuda(ordinal),
            DeviceChoice::Auto => Ok(Device::cuda(0).unwrap_or_else(|error| {
                let reason = match error {
                    Error::NoDevice { reason, .. } => reason,
                    other => other.to_string(),
                };
                Device::Sim(SimDevice::new(options, reason))
            })),
        }
    }

    /// Opens the device that the environment variable `WARP_DEVICE` names, `auto` if it is unset or empty.
    ///
    /// # Errors
    /// Errors of [`Device::open`], and [`Error::DeviceName`] for an unknown name.
    pub fn from_env() -> Result<Device> {
        let name = std::env::var("WARP_DEVICE").unwrap_or_default();
        Device::open(choice::parse(&name)?)
    }

    /// A simulator of its own, with memory shared with no other.
    pub fn sim() -> Device {
        Device::sim_with(SimOptions::default())
    }

    /// [`Device::sim`] with a memory size, worker count or instruction budget of your choice.
    pub fn sim_with(options: SimOptions) -> Device {
        Device::Sim(SimDevice::new(options, "chosen".to_owned()))
    }

    /// The GPU with this number.
    ///
    /// # Errors
    /// [`Error::NoDevice`] with the reason: built without the `cuda` feature, no driver, no such GPU.
    pub fn cuda(ordinal: usize) -> Result<Device> {
        #[cfg(feature = "cuda")]
        return CudaDevice::open(ordinal).map(Device::Cuda);
        #[cfg(not(feature = "cuda"))]
        Err(Error::NoDevice {
            device: format!("cuda:{ordinal}"),
            reason: "this program was built without the `cuda` feature".to_owned(),
        })
    }

    /// Name of the device and, for the simulator, the reason for it: `cuda:0 NVIDIA H200 (sm_90)`.
    pub fn describe(&self) -> String {
        match self {
            #[cfg(feature = "cuda")]
            Device::Cuda(cuda) => {
                let properties = &cuda.inventory().properties;
                let (major, minor) = cuda.compute_capability();
                format!("cuda:{} {} (sm_{major}{minor})", cuda.ordinal(), properties.name)
            }
            Device::Sim(sim) => format!("{} ({})", sim.id(), sim.reason()),
        }
    }

    /// `cuda:0`, `sim`, or `sim:1` of several.
    pub fn short_name(&self) -> String {
        self.id().to_string()
    }

    /// True for the simulator.
    pub fn is_sim(&self) -> bool {
        matches!(self, Device::Sim(_))
    }

    /// True for a GPU.
    pub fn is_cuda(&self) -> bool {
        !self.is_sim()
    }

    /// The GPU, for features of cudarc beyond this interface.
    #[cfg(feature = "cuda")]
    pub fn as_cuda(&self) -> Option<&CudaDevice> {
        match self {
            Device::Cuda(cuda) => Some(cuda),
            Device::Sim(_) => None,
        }
    }

    /// The simulator, for its features beyond this interface.
    pub fn as_sim(&self) -> Option<&SimDevice> {
        match self {
            #[cfg(feature = "cuda")]
            Device::Cuda(_) => None,
            Device::Sim(sim) => Some(sim),
        }
    }

    /// Properties of the device.
    pub fn properties(&self) -> &Properties {
        &self.inventory().properties
    }

    /// Memory in our own buffers, and the device's free memory.
    pub fn memory(&self) -> MemoryInfo {
        on_device!(self, device => device.memory())
    }

    /// Resets [`MemoryInfo::peak`] to the memory now in use.
    pub fn reset_peak_memory(&self) {
        self.inventory().ledger.reset_peak();
    }

    /// The default stream: the same one each time.
    pub fn stream(&self) -> Stream {
        let queue = match self {
            #[cfg(feature = "cuda")]
            Device::Cuda(cuda) => Handle::Cuda(cuda.default_stream()),
            Device::Sim(sim) => Handle::Sim(sim.default_stream()),
        };
        Stream::new(self, queue)
    }

    /// A stream whose work may overlap with that of others. On a GPU, buffers used on several streams are ordered by events that
    /// cudarc records as long as there are several, so a copy never overtakes the kernel that made its data; when the last handle to
    /// the new stream is dropped, the default stream waits for its work. CUDA itself orders nothing, nor does cudarc what
    /// runs in a graph: a simulator that sanitises wants to see the events ([`Stream::wait`], [`Stream::join`]) or a
    /// synchronisation, and says [`Error::UnorderedStreams`] without.
    ///
    /// # Errors
    /// Errors of the driver.
    pub fn new_stream(&self) -> Result<Stream> {
        let queue = match self {
            #[cfg(feature = "cuda")]
            Device::Cuda(cuda) => Handle::Cuda(cuda.new_stream()?),
            Device::Sim(sim) => Handle::Sim(sim.new_stream()?),
        };
        Ok(Stream::new(self, queue))
    }

    /// Waits for all work on all streams.
    ///
    /// # Errors
    /// Errors of that work; a kernel's fault on a GPU surfaces here.
    pub fn synchronize(&self) -> Result<()> {
        on_device!(self, device => device.synchronize())
    }

    /// Counts of the simulator so far; `None` on a GPU, which does not count.
    pub fn counts(&self) -> Option<Counts> {
        self.as_sim().map(SimDevice::counts)
    }

    /// Schedule of the copies and launches that `work` queues, from the streams and events that order them.
    ///
    /// # Errors
    /// Errors of `work`; [`Error::Unsupported`] on a GPU, and on a simulated device that does not sanitise.
    pub fn schedule(&self, work: impl FnOnce() -> Result<()>) -> Result<Schedule> {
        let Some(order) = self.as_sim().and_then(SimDevice::order) else {
            return Err(Error::Unsupported {
                what: "recording a schedule".to_owned(),
                device: self.short_name(),
                reason: "only a simulated device that sanitises knows what orders its work".to_owned(),
            });
        };
        order.record();
        let done = work();
        let schedule = order.recorded();
        done.map(|()| schedule)
    }

    /// Takes the text that kernels have printed since the last call. A GPU prints to the standard output by itself.
    pub fn take_output(&self) -> String {
        self.as_sim().map(|sim| sim.device().take_output()).unwrap_or_default()
    }

    /// Compiles `source` for this device, or finds it compiled, and loads it. A second call returns the same module, unless
    /// the file on disk has changed.
    ///
    /// # Errors
    /// [`Error::Compile`] with NVRTC's log, [`Error::CompilerMissing`], [`Error::Unsupported`] if the kernel needs a newer GPU,
    /// [`Error::Load`].
    pub fn load(&self, source: &KernelSource) -> Result<Module> {
        let target = match self {
            #[cfg(feature = "cuda")]
            Device::Cuda(cuda) => Target::Gpu { device: self.short_name(), capability: cuda.compute_capability() },
            Device::Sim(_) => Target::Simulator,
        };
        if let (Device::Sim(_), Some(subject)) = (self, Subject::current()) {
            subject.admit(source, || self.short_name())?;
        }
        let key = source.fingerprint()?;
        let modules = &self.inventory().modules;
        if let Some(module) = modules.get(&key) {
            return Ok(module);
        }
        let module = Module::load(self, compile::compile(source, &target)?, OPTIMISED)?;
        modules.insert(key, &module);
        Ok(module)
    }

    /// Loads these side by side, so that each [`Device::load`] that follows finds its module: if none of them has been compiled
    /// before, that saves most of the wait. An error is left to that call, which returns it again.
    pub fn load_ahead<'s>(&self, sources: impl IntoIterator<Item = &'s KernelSource>) {
        let sources: Vec<&KernelSource> = sources.into_iter().collect();
        sources.into_par_iter().for_each(|source| drop(self.load(source)));
    }

    /// [`Device::load`], then the kernel of that name.
    ///
    /// # Errors
    /// Errors of [`Device::load`], and [`Error::NoSuchKernel`].
    pub fn kernel(&self, source: &KernelSource, name: &str) -> Result<Kernel> {
        self.load(source)?.kernel(name)
    }

    /// Loads PTX text as it is; `name` names it in messages. A GPU's driver compiles it for its architecture.
    ///
    /// # Errors
    /// [`Error::Load`] with the loader's message.
    pub fn load_ptx(&self, ptx: &str, name: &str) -> Result<Module> {
        Module::load(self, compile::Compiled::from_ptx(ptx, name), OPTIMISED)
    }

    /// [`Device::load_ptx`], compiled by the driver without optimisations: slow code, and a second opinion if the result is in
    /// doubt. The simulator has no optimiser.
    ///
    /// # Errors
    /// Same as [`Device::load_ptx`].
    pub fn load_ptx_unoptimised(&self, ptx: &str, name: &str) -> Result<Module> {
        Module::load(self, compile::Compiled::from_ptx(ptx, name), 0)
    }

    /// Page-locked host memory of `len` zeros.
    ///
    /// # Errors
    /// Errors of the driver, for instance that the host cannot lock that much memory.
    pub fn alloc_pinned<T: DeviceElement>(&self, len: usize) -> Result<PinnedBuffer<T>> {
        on_device!(self, device => device.alloc_pinned(len))
    }

    pub(crate) fn id(&self) -> DeviceId {
        on_device!(self, device => device.id())
    }

    fn inventory(&self) -> &Inventory {
        on_device!(self, device => device.inventory())
    }
}

impl PartialEq for Device {
    fn eq(&self, other: &Device) -> bool {
        self.id() == other.id()
    }
}

impl Eq for Device {}

impl std::fmt::Debug for Device {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.describe())
    }
}
