//! Streams, the work that is queued on them, and graphs.

use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use super::super::arguments::{Arguments, Slot};
use super::super::backend::Backend;
use super::super::buffer::{PinnedBuffer, RawBuffer, Region};
use super::super::element::{DeviceElement, Host, HostMut};
use super::super::handle::{Handle, Side};
use super::super::kernel::LAUNCH;
use super::super::launch_config::LaunchConfig;
use super::super::order::{self, Clock, How, Touch, Work};
use super::super::recording::{Branch, GraphNode};
use super::super::schedule::Engine;
use super::super::tensor_map_config::{Encoded, TensorMapConfig};
use super::super::{Device, DeviceId};
use super::device::SimDevice;
use super::host::SimHost;
use super::launch::{Launch, launch_error, noted, subject_of, touches_of};
use super::memory::{Function, Memory, Pinned};
use super::options::Counts;
use crate::error::{Error, Result};

/// A stream. Its number tells it apart; every operation is finished when its call returns.
#[derive(Clone)]
pub(crate) struct Queue {
    device: SimDevice,
    number: u64,
    recording: Option<Recording>,
}

/// A position in a capture, and the operations recorded there so far.
#[derive(Clone)]
struct Recording {
    branch: Branch,
    operations: Arc<Mutex<Vec<Operation>>>,
}

/// Work with resolved arguments.
#[derive(Clone)]
enum Operation {
    Launch(Arc<Launch>),
    Fill { to: Touch, value: u8 },
    Copy { from: Touch, to: Touch },
}

/// A recorded graph: its operations in the order in which they were queued, which is one of the allowed orders.
pub(crate) struct Graph(Arc<Recorded>);

struct Recorded {
    operations: Vec<Operation>,
    /// Earlier operations that each waits for.
    after: Vec<Vec<usize>>,
    /// Chain of each operation: those of one chain follow on each other.
    chain: Vec<usize>,
    /// Stream numbers of the chains; the first is the stream on which the graph is launched.
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
    host: Arc<SimHost>,
}

impl Mark {
    /// Waits until the stream has reached the mark.
    pub(crate) fn wait(&self) -> Result<()> {
        if let Some(order) = &self.host.order {
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

impl Side for Queue {
    type Half<C, S> = S;

    fn half<C, S>(handle: Handle<C, S>) -> Option<S> {
        match handle {
            Handle::Cuda(_) => None,
            Handle::Sim(sim) => Some(sim),
        }
    }

    fn device_id(&self) -> DeviceId {
        self.device.id()
    }

    fn is_neighbour(&self, device: DeviceId) -> bool {
        matches!(device, DeviceId::Sim { host, .. } if host == self.device.0.host.id)
    }
}

impl Backend for Queue {
    type Memory = Memory;
    type Function = Function;
    type Mark = Mark;

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
                Handle::Sim(Memory { host: inner.host.clone(), ptr, label: label.into() }),
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
        self.copied(memory.touch(How::Write, range), clock, pinned)
    }

    fn read<T: DeviceElement>(&self, memory: &Memory, range: Range<usize>, mut dst: HostMut<'_, T>) -> Result<()> {
        let device = self.device.device();
        let clock = self.begin();
        let touch = memory.touch(How::Read, range.clone());
        if let HostMut::Pinned(PinnedBuffer { memory: Handle::Sim(pinned), .. }) = &mut dst {
            let bytes = &mut bytemuck::cast_slice_mut(&mut pinned.units)[..range.len()];
            device.read(memory.at(range.start), bytes).map_err(|source| self.read_error(memory, &range, source))?;
            return self.copied(touch, clock, Some(pinned));
        }
        let read = device.read(memory.at(range.start), bytemuck::cast_slice_mut(dst.slice_mut()?));
        read.map_err(|source| self.read_error(memory, &range, source))?;
        self.copied(touch, clock, None)
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

    unsafe fn launch(&self, function: &Function, args: &mut Arguments<'_>, config: &LaunchConfig) -> Result<()> {
        let launch = self.settle(function, args, config)?;
        self.queue(Operation::Launch(Arc::new(launch)))
    }

    fn mark(&self) -> Result<Mark> {
        let clock = self.device.order().map(|order| order.clock_of(self.number)).unwrap_or_default();
        Ok(Mark { counts: self.device.counts(), clock, host: self.device.0.host.clone() })
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
    pub(super) fn new(device: SimDevice, number: u64) -> Queue {
        Queue { device, number, recording: None }
    }

    /// A launch with its arguments' addresses.
    fn settle(&self, function: &Function, args: &mut Arguments<'_>, config: &LaunchConfig) -> Result<Launch> {
        args.fill_in_peers(|region| self.peer_address(region))?;
        let config = ptx_sim::LaunchConfig {
            grid: config.grid_dim.into(),
            block: config.block_dim.into(),
            cluster: None, // as the kernel says
            non_portable_cluster: false,
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
    pub(in super::super) fn launch_together(
        launches: &mut [(&Queue, &Function, &mut Arguments<'_>, LaunchConfig)],
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
            let work = Work { stream: first.number, clock: &clock, what: &what, engine: Engine::Compute };
            order.touch(&work, touched.into_iter().flat_map(touches_of).collect())?;
            settled.iter().for_each(|(queue, _)| order.wait(queue.number, &clock));
        }
        Ok(())
    }

    /// A queue that records for a graph.
    pub(crate) fn recording(&self, branch: Branch) -> Queue {
        Queue { recording: Some(Recording { branch, operations: Arc::default() }), ..self.clone() }
    }

    /// Another queue of the same capture.
    pub(crate) fn on_branch(&self, branch: Branch) -> Queue {
        self.device.track();
        let recording = self.recording.clone().map(|recording| Recording { branch, ..recording });
        Queue { recording, ..self.clone() }
    }

    /// The recorded content.
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

    /// Records a copy between host and device. The program has waited for it unless its memory is pinned.
    fn copied(&self, touch: Touch, clock: Option<Clock>, pinned: Option<&Pinned>) -> Result<()> {
        let (Some(order), Some(clock)) = (self.device.order(), clock) else { return Ok(()) };
        let (what, engine) = match touch.how {
            How::Read => ("the copy from the device", Engine::CopyOut),
            _ => ("the copy to the device", Engine::CopyIn),
        };
        let ordered = order.touch(&Work { stream: self.number, clock: &clock, what, engine }, vec![touch]);
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

    /// Runs the operation as work of the stream of that number, after its predecessors. Returns its clock, if order is
    /// tracked.
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
            order.touch(&Work { stream, clock, what: &what, engine: Engine::Compute }, touches)?;
        }
        Ok(clock)
    }

    /// Why a copy to the host failed. Values that a kernel stored without having defined them are reported once.
    fn read_error(&self, memory: &Memory, range: &Range<usize>, source: ptx_sim::MemoryError) -> Error {
        const OPERATION: &str = "copying from the device";
        let findings = match source {
            ptx_sim::MemoryError::Undefined(findings) => findings,
            source => return self.error(OPERATION, source),
        };
        match self.device.device().define(memory.at(range.start), range.len() as u64) {
            Ok(()) => self.device.0.host.undefined_reads(findings),
            Err(source) => self.error(OPERATION, source),
        }
    }

    fn error(&self, operation: &'static str, source: ptx_sim::MemoryError) -> Error {
        Error::SimMemory { operation, device: self.device_id().to_string(), source }
    }
}
