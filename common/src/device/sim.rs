//! The simulator: its memory, copies, fills, launches and graphs.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use super::backend::Backend;
use super::buffer::{PinnedBuffer, RawBuffer, Region};
use super::element::{DeviceElement, Host, HostMut};
use super::graph::{Branch, GraphNode};
use super::handle::Handle;
use super::kernel::{FunctionHandle, Kernel, LAUNCH, LaunchArgs, ModuleHandle, Slot};
use super::launch_config::LaunchConfig;
use super::memory::MemoryInfo;
use super::order::{self, Clock, How, Order, Touch};
use super::properties::KernelAttributes;
use super::stream::Stream;
use super::subject::Subject;
use super::tensor_map::{Encoded, TensorMapConfig};
use super::{Device, DeviceId, Inventory, Properties};
use crate::compile::Compiled;
use crate::error::{Error, Result};
use crate::progress;

pub(crate) use ptx_sim::Kernel as Function;

/// The simulator of `common/ptx-sim`, as one device.
#[derive(Clone)]
pub struct SimDevice(Arc<Inner>);

struct Inner {
    /// What it shares with the other devices of its host.
    host: Arc<SimHost>,
    ordinal: Option<u32>,
    /// Number of the next stream.
    next_stream: AtomicU64,
    /// Bytes of memory.
    total_memory: u64,
    budget: Option<u64>,
    asynchrony: ptx_sim::Asynchrony,
    prints: bool,
    /// Profiles of the launches so far, if they are wanted.
    profiles: Option<Mutex<Vec<ptx_sim::Profile>>>,
    reason: String,
    inventory: Inventory,
    counts: Mutex<Counts>,
}

/// A simulated host: one address space for the memory of all its devices, and one order of the work on all their streams.
struct SimHost {
    id: u64,
    memory: ptx_sim::Device,
    /// If it is sanitised.
    order: Option<Order>,
}

/// How large a simulated device is.
#[derive(Clone, Copy, Debug)]
pub struct SimOptions {
    /// Bytes of device memory.
    pub memory: u64,
    /// Threads that execute blocks; 0 takes every core.
    pub workers: usize,
    /// Warp instructions after which a launch is stopped as endless; `None` lets it run.
    pub budget: Option<u64>,
    /// Every launch is sanitised: races, reads of unwritten memory, mismatched barriers … are errors
    /// ([`Error::Findings`]), and so is work on several streams at the same bytes that nothing orders
    /// ([`Error::UnorderedStreams`]). Several times slower, on one core.
    pub sanitize: bool,
    /// Every launch is profiled: [`SimDevice::take_profiles`].
    pub profile: bool,
    /// When asynchronous copies and products are made. A kernel must be right for every choice.
    pub asynchrony: ptx_sim::Asynchrony,
    /// What a kernel prints goes to standard error once it has run, where it is no part of a table, in place of being kept for
    /// [`Device::take_output`](super::Device::take_output).
    pub prints: bool,
}

impl Default for SimOptions {
    /// 8 GiB, every core, copies as late as PTX allows, and 2³⁶ warp instructions per launch (about 10 minutes on two cores), or what
    /// `WARP_SIM_BUDGET` says.
    fn default() -> SimOptions {
        let budget = std::env::var("WARP_SIM_BUDGET").ok().and_then(|value| value.parse().ok()).unwrap_or(1 << 36);
        SimOptions {
            memory: 8 << 30,
            workers: 0,
            budget: Some(budget),
            sanitize: false,
            profile: false,
            asynchrony: ptx_sim::Asynchrony::default(),
            prints: false,
        }
    }
}

/// What the simulator has executed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Counts {
    /// Kernel launches.
    pub launches: u64,
    /// Instructions, counted once per warp.
    pub warp_instructions: u64,
    /// Instructions, counted once per active lane.
    pub lane_instructions: u64,
}

impl std::ops::Add for Counts {
    type Output = Counts;

    fn add(self, other: Counts) -> Counts {
        Counts {
            launches: self.launches + other.launches,
            warp_instructions: self.warp_instructions + other.warp_instructions,
            lane_instructions: self.lane_instructions + other.lane_instructions,
        }
    }
}

impl std::ops::Sub for Counts {
    type Output = Counts;

    fn sub(self, earlier: Counts) -> Counts {
        Counts {
            launches: self.launches - earlier.launches,
            warp_instructions: self.warp_instructions - earlier.warp_instructions,
            lane_instructions: self.lane_instructions - earlier.lane_instructions,
        }
    }
}

impl SimHost {
    fn new(options: SimOptions, devices: u32) -> Arc<SimHost> {
        static NEXT_ID: AtomicU64 = AtomicU64::new(0);
        let SimOptions { memory, workers, sanitize, .. } = options;
        let total_memory = memory.saturating_mul(devices.into());
        let memory_limit = Subject::current().map(Subject::host_memory);
        let config = ptx_sim::DeviceConfig { total_memory, workers, sanitize, memory_limit };
        Arc::new(SimHost {
            id: NEXT_ID.fetch_add(1, Ordering::Relaxed),
            memory: ptx_sim::Device::new(config),
            order: sanitize.then(Order::default),
        })
    }
}

impl SimDevice {
    pub(crate) fn new(options: SimOptions, reason: String) -> SimDevice {
        SimDevice::on(SimHost::new(options, 1), None, options, reason)
    }

    /// Several devices of one host.
    pub(crate) fn several(options: SimOptions, count: u32, reason: &str) -> Vec<SimDevice> {
        let host = SimHost::new(options, count);
        // Each has a default stream.
        if let Some(order) = &host.order {
            order.track();
        }
        let on_host = |ordinal| SimDevice::on(host.clone(), Some(ordinal), options, reason.to_owned());
        (0..count).map(on_host).collect()
    }

    fn on(host: Arc<SimHost>, ordinal: Option<u32>, options: SimOptions, reason: String) -> SimDevice {
        SimDevice(Arc::new(Inner {
            host,
            ordinal,
            next_stream: AtomicU64::new(order::first_stream(ordinal) + 1),
            total_memory: options.memory,
            budget: options.budget,
            asynchrony: options.asynchrony,
            prints: options.prints,
            profiles: options.profile.then(Mutex::default),
            reason,
            inventory: Inventory::new(properties(options.memory)),
            counts: Mutex::default(),
        }))
    }

    /// The simulator itself, which the devices of one host share.
    pub fn device(&self) -> &ptx_sim::Device {
        &self.0.host.memory
    }

    fn order(&self) -> Option<&Order> {
        self.0.host.order.as_ref()
    }

    /// What it has executed so far.
    pub fn counts(&self) -> Counts {
        *self.0.counts.lock().expect("no holder of this lock can panic")
    }

    /// The profiles of all launches since the last call, in order; none unless the device was made to profile.
    pub fn take_profiles(&self) -> Vec<ptx_sim::Profile> {
        let profiles =
            self.0.profiles.as_ref().map(|profiles| profiles.lock().expect("no holder of this lock can panic"));
        profiles.map(|mut profiles| std::mem::take(&mut *profiles)).unwrap_or_default()
    }

    /// Launches a kernel and keeps what was to be observed.
    fn launch(
        &self,
        Launch { kernel, function, config, args }: &Launch,
        touches: bool,
    ) -> Result<Vec<ptx_sim::TouchedMemory>, ptx_sim::LaunchError> {
        let subject = subject_of(kernel);
        let profile = self.0.profiles.is_some() || subject.is_some();
        let trace = subject.and_then(|subject| subject.wanted_trace(kernel));
        let observe = ptx_sim::Observe { profile, trace, touches, ..Default::default() };
        let observed = function.observe(config, args, &observe);
        if self.0.prints {
            progress::print(&self.device().take_output());
        }
        let observation = noted(kernel, subject, observed)?;
        self.count(&observation.report);
        self.kept(observation)
    }

    /// Keeps what was observed; what was touched, if nothing was found.
    fn kept(&self, observation: ptx_sim::Observation) -> Result<Vec<ptx_sim::TouchedMemory>, ptx_sim::LaunchError> {
        if let Some(profiles) = &self.0.profiles {
            profiles.lock().expect("no holder of this lock can panic").extend(observation.profile);
        }
        match observation.findings.is_empty() {
            true => Ok(observation.touched),
            false => Err(ptx_sim::LaunchError::Findings(observation.findings)),
        }
    }

    fn count(&self, report: &ptx_sim::LaunchReport) {
        let mut counts = self.0.counts.lock().expect("no holder of this lock can panic");
        counts.launches += 1;
        counts.warp_instructions += report.warp_instructions;
        counts.lane_instructions += report.lane_instructions;
    }

    pub(crate) fn id(&self) -> DeviceId {
        DeviceId::Sim { host: self.0.host.id, ordinal: self.0.ordinal }
    }

    pub(crate) fn default_stream(&self) -> Stream {
        self.stream(order::first_stream(self.0.ordinal))
    }

    pub(crate) fn new_stream(&self) -> Result<Stream> {
        self.track();
        Ok(self.stream(self.next_stream()))
    }

    fn stream(&self, number: u64) -> Stream {
        Stream::new(&Device::Sim(self.clone()), Handle::Sim(Queue { device: self.clone(), number, recording: None }))
    }

    /// There is more than one stream from now on.
    fn track(&self) {
        if let Some(order) = self.order() {
            order.track();
        }
    }

    /// A number for one more stream.
    fn next_stream(&self) -> u64 {
        self.0.next_stream.fetch_add(1, Ordering::Relaxed)
    }

    /// All work is finished when its call returns; what was waited for, the sanitiser has to know.
    pub(crate) fn synchronize(&self) -> Result<()> {
        if let Some(order) = self.order() {
            order.host_waits_for_all(self.0.ordinal);
        }
        Ok(())
    }

    pub(crate) fn alloc_pinned<T: DeviceElement>(&self, len: usize) -> Result<PinnedBuffer<T>> {
        let units = vec![0; (len * size_of::<T>()).div_ceil(size_of::<u128>())];
        Ok(PinnedBuffer::new(Handle::Sim(Pinned { units, device: self.clone(), copied: Mutex::default() }), len))
    }

    /// Loads PTX; the error is the loader's words. There is no optimiser.
    pub(crate) fn load_module(&self, compiled: &Compiled, _optimiser: u32) -> Result<ModuleHandle, String> {
        let render = |error: ptx_sim::LoadError| error.render(false);
        let module = ptx_sim::Module::from_ptx(&compiled.ptx, &compiled.ptx_name()).map_err(render)?;
        Ok(Handle::Sim(Module(self.device().load(&module).map_err(render)?)))
    }

    /// Why the simulator and not a GPU.
    pub(crate) fn reason(&self) -> &str {
        &self.0.reason
    }

    pub(crate) fn inventory(&self) -> &Inventory {
        &self.0.inventory
    }

    pub(crate) fn memory(&self) -> MemoryInfo {
        let total = self.0.total_memory;
        self.0.inventory.ledger.info(total.saturating_sub(self.0.inventory.ledger.in_use()), total)
    }
}

/// A loaded module.
pub(crate) struct Module(ptx_sim::LoadedModule);

impl Module {
    /// The kernel of this name; `refused` makes an error of the loader's words.
    pub(crate) fn function(
        &self,
        name: &str,
        refused: impl FnOnce(String) -> Error,
    ) -> Result<(FunctionHandle, KernelAttributes)> {
        let kernel = self.0.kernel(name).map_err(|error| refused(error.render(false)))?;
        let attributes = KernelAttributes {
            registers: None,
            local_bytes: None,
            static_shared: kernel.info().static_shared,
            max_threads_per_block: kernel.info().max_threads.unwrap_or(u32::MAX).min(ptx_sim::MAX_THREADS),
        };
        Ok((Handle::Sim(kernel), attributes))
    }
}

/// One allocation; frees itself.
pub(crate) struct Memory {
    device: SimDevice,
    ptr: ptx_sim::DevicePtr,
    label: Arc<str>,
}

impl Memory {
    /// The address of a byte.
    fn at(&self, offset: usize) -> ptx_sim::DevicePtr {
        ptx_sim::DevicePtr(self.ptr.0 + offset as u64)
    }

    /// An access to a range of it.
    fn touch(&self, how: How, range: Range<usize>) -> Touch {
        let bytes = range.start as u64..range.end as u64;
        Touch { base: self.ptr.0, label: self.label.clone(), how, bytes }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // The pointer came from `alloc` of the same device and is freed once: there is no error to report.
        let _ = self.device.device().free(self.ptr);
        if let Some(order) = self.device.order() {
            order.forget(self.ptr.0);
        }
    }
}

/// Host memory in units of 16 bytes, so that every element type is aligned.
pub(crate) struct Pinned {
    units: Vec<u128>,
    device: SimDevice,
    /// What the copies from and to it come after: whoever looks at the bytes has waited for them.
    copied: Mutex<Clock>,
}

impl Pinned {
    pub(crate) fn bytes(&self) -> Result<&[u8]> {
        self.wait();
        Ok(bytemuck::cast_slice(&self.units))
    }

    pub(crate) fn bytes_mut(&mut self) -> Result<&mut [u8]> {
        self.wait();
        Ok(bytemuck::cast_slice_mut(&mut self.units))
    }

    fn wait(&self) {
        if let Some(order) = self.device.order() {
            order.host_waits(&self.copied.lock().unwrap_or_else(PoisonError::into_inner));
        }
    }

    /// A copy with this clock has been queued.
    fn copy(&self, clock: &Clock) {
        order::join(&mut self.copied.lock().unwrap_or_else(PoisonError::into_inner), clock);
    }
}

/// A stream. Its number tells it apart; every operation is finished when its call returns.
#[derive(Clone)]
pub(crate) struct Queue {
    device: SimDevice,
    number: u64,
    recording: Option<Recording>,
}

/// A place in a capture, and what has been recorded there so far.
#[derive(Clone)]
struct Recording {
    branch: Branch,
    operations: Arc<Mutex<Vec<Operation>>>,
}

/// Work whose arguments are settled.
#[derive(Clone)]
enum Operation {
    Launch(Arc<Launch>),
    Fill { to: Touch, value: u8 },
    Copy { from: Touch, to: Touch },
}

struct Launch {
    kernel: Kernel,
    function: Function,
    config: ptx_sim::LaunchConfig,
    args: Vec<ptx_sim::Arg>,
}

/// A recorded graph: its operations in the order in which they were queued, which is one of those that their order allows.
pub(crate) struct Graph(Arc<Recorded>);

struct Recorded {
    operations: Vec<Operation>,
    /// Which ones each comes after.
    after: Vec<Vec<usize>>,
    /// The chain that each belongs to: those of one chain follow on each other.
    chain: Vec<usize>,
    /// What the chains are called as streams; the first is the one on which the graph is launched.
    streams: Vec<u64>,
}

/// A graph to be launched: the simulator has nothing to prepare.
pub(crate) struct GraphExec(Arc<Recorded>);

impl Graph {
    pub(crate) fn instantiate<C>(&self) -> Result<Handle<C, GraphExec>> {
        Ok(Handle::Sim(GraphExec(self.0.clone())))
    }
}

impl GraphExec {
    pub(crate) fn update(&mut self, graph: &Graph) {
        self.0 = graph.0.clone();
    }
}

/// For each node the number of its chain: it continues one whose last node it waits for, or begins the next.
fn chains(nodes: &[GraphNode]) -> (Vec<usize>, usize) {
    let mut last: Vec<usize> = Vec::new();
    let mut chain = Vec::with_capacity(nodes.len());
    for (i, node) in nodes.iter().enumerate() {
        let continued = last.iter().position(|end| node.after.contains(end));
        let number = continued.unwrap_or_else(|| {
            last.push(i);
            last.len() - 1
        });
        last[number] = i;
        chain.push(number);
    }
    (chain, last.len())
}

/// A mark in a stream.
pub(crate) struct Mark {
    pub(crate) counts: Counts,
    clock: Clock,
    device: SimDevice,
}

impl Mark {
    /// Waits until the stream has reached the mark.
    pub(crate) fn wait(&self) -> Result<()> {
        if let Some(order) = self.device.order() {
            order.host_waits(&self.clock);
        }
        Ok(())
    }
}

impl PartialEq for Queue {
    fn eq(&self, other: &Queue) -> bool {
        let same_branch = match (self.branch(), other.branch()) {
            (Some(one), Some(other)) => one.is(other),
            (one, other) => one.is_none() && other.is_none(),
        };
        (self.device.id(), self.number) == (other.device.id(), other.number) && same_branch
    }
}

impl Backend for Queue {
    type Half<C, S> = S;
    type Memory = Memory;
    type Function = Function;
    type Mark = Mark;

    fn half<C, S>(handle: Handle<C, S>) -> Option<S> {
        match handle {
            Handle::Cuda(_) => None,
            Handle::Sim(sim) => Some(sim),
        }
    }

    fn device_id(&self) -> DeviceId {
        self.device.id()
    }

    fn branch(&self) -> Option<&Branch> {
        self.recording.as_ref().map(|recording| &recording.branch)
    }

    fn alloc(&self, bytes: usize, label: impl FnOnce() -> String) -> Result<RawBuffer> {
        let SimDevice(inner) = &self.device;
        let label = match inner.ordinal {
            Some(_) => format!("{} of {}", label(), self.device_id()),
            None => label(),
        };
        let memory = self.device.memory();
        let allocated = match bytes as u64 <= memory.free {
            true => inner.host.memory.alloc(bytes as u64, &label),
            false => Err(ptx_sim::MemoryError::OutOfMemory {
                requested: bytes as u64,
                in_use: memory.in_use,
                total: memory.total,
            }),
        };
        match allocated {
            Ok(ptr) => Ok(RawBuffer::new(
                Handle::Sim(Memory { device: self.device.clone(), ptr, label: label.into() }),
                Device::Sim(self.device.clone()),
                bytes,
                inner.inventory.ledger.reserve(bytes as u64),
            )),
            Err(ptx_sim::MemoryError::OutOfMemory { .. }) => Err(Error::OutOfMemory {
                device: self.device_id().to_string(),
                requested: bytes as u64,
                free: memory.free,
                total: memory.total,
                in_use: memory.in_use,
            }),
            Err(source) => Err(self.error("allocating device memory", source)),
        }
    }

    fn is_neighbour(&self, device: DeviceId) -> bool {
        matches!(device, DeviceId::Sim { host, .. } if host == self.device.0.host.id)
    }

    fn peer_address(&self, region: &Region<'_>) -> Result<u64> {
        Ok(region.near(self, LAUNCH)?.at(region.range().start).0)
    }

    fn copy_peer(
        &self,
        (_, source): (&Device, &Memory),
        range: Range<usize>,
        (_, dst): (&Device, &mut Memory),
        at: usize,
    ) -> Result<()> {
        self.copy(source, range, dst, at)
    }

    fn fill(&self, memory: &mut Memory, range: Range<usize>, value: u8) -> Result<()> {
        self.queue(Operation::Fill { to: memory.touch(How::Write, range), value })
    }

    fn write<T: DeviceElement>(&self, memory: &mut Memory, range: Range<usize>, source: Host<'_, T>) -> Result<()> {
        const OPERATION: &str = "copying to the device";
        let device = self.device.device();
        let clock = self.begin();
        let pinned = match &source {
            Host::Pinned(PinnedBuffer { memory: Handle::Sim(pinned), .. }) => Some(pinned),
            _ => None,
        };
        let written = match pinned {
            // Without waiting for it.
            Some(pinned) => device.write(memory.at(range.start), &bytemuck::cast_slice(&pinned.units)[..range.len()]),
            None => device.write(memory.at(range.start), bytemuck::cast_slice(source.slice()?)),
        };
        written.map_err(|source| self.error(OPERATION, source))?;
        self.copied("the copy to the device", memory.touch(How::Write, range), clock, pinned)
    }

    fn read<T: DeviceElement>(&self, memory: &Memory, range: Range<usize>, mut dst: HostMut<'_, T>) -> Result<()> {
        const OPERATION: &str = "copying from the device";
        let device = self.device.device();
        let clock = self.begin();
        let touch = memory.touch(How::Read, range.clone());
        if let HostMut::Pinned(PinnedBuffer { memory: Handle::Sim(pinned), .. }) = &mut dst {
            let bytes = &mut bytemuck::cast_slice_mut(&mut pinned.units)[..range.len()];
            device.read(memory.at(range.start), bytes).map_err(|source| self.error(OPERATION, source))?;
            return self.copied("the copy from the device", touch, clock, Some(pinned));
        }
        let read = device.read(memory.at(range.start), bytemuck::cast_slice_mut(dst.slice_mut()?));
        read.map_err(|source| self.error(OPERATION, source))?;
        self.copied("the copy from the device", touch, clock, None)
    }

    fn copy(&self, source: &Memory, range: Range<usize>, dst: &mut Memory, at: usize) -> Result<()> {
        let to = at..at + range.len();
        self.queue(Operation::Copy { from: source.touch(How::Read, range), to: dst.touch(How::Write, to) })
    }

    fn encode(&self, memory: &Memory, at: usize, config: &TensorMapConfig) -> Result<Encoded> {
        let map = config.at(memory.at(at).0).encode();
        let map = map.map_err(|error| Error::TensorMap { device: "sim".to_owned(), detail: error.to_string() })?;
        let mut words = [0; 16];
        bytemuck::bytes_of_mut(&mut words).copy_from_slice(map.bytes());
        Ok(Encoded(words))
    }

    unsafe fn launch(&self, function: &Function, args: &mut LaunchArgs<'_>, config: &LaunchConfig) -> Result<()> {
        let launch = self.settle(function, args, config)?;
        self.queue(Operation::Launch(Arc::new(launch)))
    }

    fn mark(&self) -> Result<Mark> {
        let clock = self.device.order().map(|order| order.clock_of(self.number)).unwrap_or_default();
        Ok(Mark { counts: self.device.counts(), clock, device: self.device.clone() })
    }

    fn wait(&self, mark: &Mark) -> Result<()> {
        if let Some(order) = self.device.order() {
            order.wait(self.number, &mark.clock);
        }
        Ok(())
    }

    fn synchronize(&self) -> Result<()> {
        self.mark()?.wait()
    }
}

impl Queue {
    /// A launch with its arguments' addresses.
    fn settle(&self, function: &Function, args: &mut LaunchArgs<'_>, config: &LaunchConfig) -> Result<Launch> {
        args.fill_in_peers(self)?;
        let config = ptx_sim::LaunchConfig {
            grid: config.grid_dim.into(),
            block: config.block_dim.into(),
            cluster: None, // as the kernel says
            shared_bytes: config.shared_mem_bytes,
            budget: self.device.0.budget,
            time_limit: None,
            cooperative: false,
            asynchrony: self.device.0.asynchrony,
        };
        let mut given: Vec<ptx_sim::Arg> = Vec::with_capacity(args.slots.len());
        for slot in &mut args.slots {
            given.push(match slot {
                Slot::Value { at, bytes } => {
                    ptx_sim::Arg::from_bytes(&bytemuck::cast_slice(&args.values[*at..])[..*bytes])
                }
                Slot::Read(region) => region.on(self, LAUNCH)?.at(region.range().start).into(),
                Slot::Write(region) => {
                    let start = region.range().start;
                    region.on(self, LAUNCH)?.at(start).into()
                }
                Slot::Peer(region) => self.peer_address(region)?.into(),
                Slot::PeerMut(region) => self.peer_address(&region.shared())?.into(),
                Slot::Peers { at, .. } => {
                    let bytes = args.kernel.params()[given.len()].bytes as usize;
                    ptx_sim::Arg::from_bytes(&bytemuck::cast_slice(&args.values[*at..])[..bytes])
                }
                Slot::ReadMap { at, region } => {
                    region.on(self, LAUNCH)?;
                    ptx_sim::Arg::from_bytes(bytemuck::cast_slice(&args.values[*at..*at + 16]))
                }
                Slot::WriteMap { at, region } => {
                    region.on(self, LAUNCH)?;
                    ptx_sim::Arg::from_bytes(bytemuck::cast_slice(&args.values[*at..*at + 16]))
                }
                Slot::Again(index) => given[*index].clone(),
                Slot::Null => ptx_sim::Arg::from(0u64),
            });
        }
        let (kernel, function) = (args.kernel.clone(), function.clone());
        Ok(Launch { kernel, function, config, args: given })
    }

    /// Runs launches on several devices of this one's host at the same time.
    pub(super) fn launch_together(
        launches: &mut [(&Queue, &Function, &mut LaunchArgs<'_>, LaunchConfig)],
    ) -> Result<()> {
        let settled = launches
            .iter_mut()
            .map(|(queue, function, args, config)| Ok((*queue, queue.settle(function, args, config)?)))
            .collect::<Result<Vec<_>>>()?;
        let Some((first, launch)) = settled.first() else { return Ok(()) };
        let order = first.device.order();
        // It comes after what each stream has now, and what any of them has later comes after it.
        let clocks: Vec<Clock> =
            settled.iter().filter_map(|(queue, _)| order.and_then(|order| order.begin(queue.number, &[]))).collect();
        let grids: Vec<(&Function, &[ptx_sim::Arg])> =
            settled.iter().map(|(_, launch)| (&launch.function, &launch.args[..])).collect();
        let touches = !clocks.is_empty();
        let earlier = order.map(|order| order.known_in_part(&clocks)).unwrap_or_default();
        let subject = subject_of(&launch.kernel);
        let profile = first.device.0.profiles.is_some() || subject.is_some();
        let observe = ptx_sim::Observe { profile, touches, earlier, ..Default::default() };
        let failed = |error| launch_error(&launch.kernel, error);
        let observed = ptx_sim::Kernel::observe_together(&grids, &launch.config, &observe);
        let observation = noted(&launch.kernel, subject, observed).map_err(failed)?;
        // The instructions of all of them are counted where the first is.
        for (i, (queue, _)) in settled.iter().enumerate() {
            queue.device.count(&if i == 0 { observation.report } else { ptx_sim::LaunchReport::default() });
        }
        let touched = first.device.kept(observation).map_err(failed)?;
        if let Some(order) = order.filter(|_| touches) {
            let mut clock = Clock::new();
            clocks.iter().for_each(|other| order::join(&mut clock, other));
            let what = format!("kernel `{}`", launch.kernel.name());
            order.touch(first.number, &clock, &what, touched.into_iter().flat_map(touches_of).collect())?;
            settled.iter().for_each(|(queue, _)| order.wait(queue.number, &clock));
        }
        Ok(())
    }

    /// One that records for a graph.
    pub(crate) fn recording(&self, branch: Branch) -> Queue {
        Queue { recording: Some(Recording { branch, operations: Arc::default() }), ..self.clone() }
    }

    /// Another of the same capture.
    pub(crate) fn on_branch(&self, branch: Branch) -> Queue {
        self.device.track();
        let recording = self.recording.clone().map(|recording| Recording { branch, ..recording });
        Queue { recording, ..self.clone() }
    }

    /// What was recorded.
    pub(crate) fn recorded<C>(&self, nodes: &[GraphNode]) -> Result<Handle<C, Graph>> {
        let operations = self
            .recording
            .as_ref()
            .map(|recording| std::mem::take(&mut *recording.operations.lock().unwrap_or_else(PoisonError::into_inner)));
        let after = nodes.iter().map(|node| node.after.clone()).collect();
        let (chain, count) = chains(nodes);
        let streams = (1..count).map(|_| self.device.next_stream()).collect();
        let operations = operations.unwrap_or_default();
        Ok(Handle::Sim(Graph(Arc::new(Recorded { operations, after, chain, streams }))))
    }

    /// Queues all of a graph.
    pub(crate) fn launch_graph(&self, graph: &GraphExec) -> Result<()> {
        let Recorded { operations, after, chain, streams } = &*graph.0;
        let order = self.device.order();
        // Every node comes after what the stream has now.
        let Some((order, start)) = order.and_then(|order| Some((order, order.begin(self.number, &[])?))) else {
            return operations.iter().try_for_each(|operation| self.run(operation));
        };
        let mut clocks: Vec<Clock> = Vec::with_capacity(operations.len());
        for (i, operation) in operations.iter().enumerate() {
            let stream = if chain[i] == 0 { self.number } else { streams[chain[i] - 1] };
            let before: Vec<&Clock> =
                std::iter::once(&start).chain(after[i].iter().map(|&node| &clocks[node])).collect();
            let clock = self.run_on(operation, stream, &before)?;
            clocks.push(clock.unwrap_or_default());
        }
        clocks.iter().for_each(|clock| order.wait(self.number, clock));
        Ok(())
    }

    /// The clock of an operation that begins now.
    fn begin(&self) -> Option<Clock> {
        self.device.order()?.begin(self.number, &[])
    }

    /// A copy between host and device has been made. The program has waited for it unless its memory is pinned.
    fn copied(&self, what: &str, touch: Touch, clock: Option<Clock>, pinned: Option<&Pinned>) -> Result<()> {
        let (Some(order), Some(clock)) = (self.device.order(), clock) else { return Ok(()) };
        let ordered = order.touch(self.number, &clock, what, vec![touch]);
        match pinned {
            Some(pinned) => pinned.copy(&clock),
            None => order.host_waits(&clock),
        }
        ordered
    }

    fn queue(&self, operation: Operation) -> Result<()> {
        match &self.recording {
            Some(recording) => {
                recording.operations.lock().unwrap_or_else(PoisonError::into_inner).push(operation);
                Ok(())
            }
            None => self.run(&operation),
        }
    }

    fn run(&self, operation: &Operation) -> Result<()> {
        self.run_on(operation, self.number, &[]).map(drop)
    }

    /// Does it as work of the stream of that number, after what else it comes after. Returns its clock, if order is tracked.
    fn run_on(&self, operation: &Operation, stream: u64, after: &[&Clock]) -> Result<Option<Clock>> {
        let device = self.device.device();
        let clock = self.device.order().and_then(|order| order.begin(stream, after));
        let at = |touch: &Touch| ptx_sim::DevicePtr(touch.base + touch.bytes.start);
        let length = |touch: &Touch| touch.bytes.end - touch.bytes.start;
        let (what, touches) = match operation {
            Operation::Launch(launch) => {
                let touched = self.device.launch(launch, clock.is_some());
                let touched = touched.map_err(|error| launch_error(&launch.kernel, error))?;
                (format!("kernel `{}`", launch.kernel.name()), touched.into_iter().flat_map(touches_of).collect())
            }
            Operation::Fill { to, value } => {
                let filled = device.fill(at(to), *value, length(to));
                filled.map_err(|source| self.error("filling a buffer", source))?;
                ("the fill".to_owned(), vec![to.clone()])
            }
            Operation::Copy { from, to } => {
                let copied = device.copy(at(to), at(from), length(to));
                copied.map_err(|source| self.error("copying inside the device", source))?;
                ("the copy inside the device".to_owned(), vec![from.clone(), to.clone()])
            }
        };
        if let (Some(order), Some(clock)) = (self.device.order(), &clock) {
            order.touch(stream, clock, &what, touches)?;
        }
        Ok(clock)
    }

    fn error(&self, operation: &'static str, source: ptx_sim::MemoryError) -> Error {
        Error::SimMemory { operation, device: self.device_id().to_string(), source }
    }
}

/// The subject of this process, if the kernel is made from it.
fn subject_of(kernel: &Kernel) -> Option<&'static Subject> {
    Subject::current().filter(|subject| subject.has(kernel))
}

/// What was observed, kept for the subject if there is one.
fn noted(
    kernel: &Kernel,
    subject: Option<&Subject>,
    mut observed: Result<ptx_sim::Observation, ptx_sim::LaunchError>,
) -> Result<ptx_sim::Observation, ptx_sim::LaunchError> {
    if let Some(subject) = subject {
        match &mut observed {
            Ok(observation) => subject.note(kernel, observation),
            Err(ptx_sim::LaunchError::Fault(fault)) => subject.note_fault(kernel, fault),
            Err(_) => {}
        }
    }
    observed
}

/// What a kernel accessed.
fn touches_of(memory: ptx_sim::TouchedMemory) -> Vec<Touch> {
    let ptx_sim::TouchedMemory { pointer, label, read, written, atomic } = memory;
    let label: Arc<str> = label.into();
    let of = |how: How, ranges: Vec<Range<u64>>| {
        let label = label.clone();
        ranges.into_iter().map(move |bytes| Touch { base: pointer.0, label: label.clone(), how, bytes })
    };
    of(How::Read, read).chain(of(How::Write, written)).chain(of(How::Atomic, atomic)).collect()
}

fn launch_error(kernel: &Kernel, error: ptx_sim::LaunchError) -> Error {
    let (name, source) = (kernel.name().to_owned(), kernel.source());
    match error {
        ptx_sim::LaunchError::Fault(fault) => Error::Fault { rendered: fault.render(source, false), fault },
        ptx_sim::LaunchError::Findings(findings) => {
            let rendered: Vec<_> = findings.iter().map(|finding| finding.render(source, false)).collect();
            Error::Findings { rendered: rendered.join("\n\n"), findings }
        }
        ptx_sim::LaunchError::Arguments { .. } => Error::Arguments { kernel: name, detail: error.to_string() },
        other => Error::LaunchConfig { kernel: name, detail: other.to_string() },
    }
}

/// The limits that CUDA documents for compute capability 7.5 and up alike, so that a launch the simulator accepts is one
/// that a GPU accepts; shared memory beyond 48 KiB as an H100 has it (CUDA Programming Guide, "Compute Capabilities").
fn properties(total_memory: u64) -> Properties {
    Properties {
        name: "ptx-sim".to_owned(),
        compute_capability: None,
        multiprocessors: None,
        total_memory,
        shared_per_block: 48 << 10,
        shared_per_block_optin: ptx_sim::MAX_SHARED,
        max_threads_per_block: ptx_sim::MAX_THREADS,
        max_grid: ptx_sim::MAX_GRID,
        max_block: ptx_sim::MAX_BLOCK,
        warp_size: 32,
        registers_per_multiprocessor: None,
        max_threads_per_multiprocessor: None,
        l2_bytes: None,
        clock_khz: None,
        memory_clock_khz: None,
        memory_bus_bits: None,
    }
}
