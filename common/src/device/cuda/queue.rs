//! Streams, and the work that is queued on them.

use std::cell::Cell;
use std::ffi::c_void;
use std::ops::Range;
use std::sync::Arc;

use cudarc::driver::{CudaEvent, CudaStream, DevicePtr, DevicePtrMut, DriverError, HostSlice, result, sys};

use super::super::arguments::{Arguments, Slot};
use super::super::backend::Backend;
use super::super::buffer::{PinnedBuffer, RawBuffer, Region};
use super::super::element::{DeviceElement, Host, HostMut};
use super::super::handle::{Handle, Side};
use super::super::kernel::LAUNCH;
use super::super::launch_config::LaunchConfig;
use super::super::recording::{Branch, GraphNode};
use super::super::tensor_map_config::{Encoded, TensorMapConfig};
use super::super::{Device, DeviceId};
use super::device::CudaDevice;
use super::driver::{GRAPH_FUNCTIONS, PEER_FUNCTIONS, error, missing_function};
use super::event::Mark;
use super::graph::{Graph, GraphExec, Recording};
use super::memory::{Memory, Pinned};
use super::module::Function;
use super::tensor_map::encode_map;
use crate::error::{Error, Result};

/// A stream beside the default one.
///
/// As long as there is one, cudarc records an event for each use of a buffer, and lets other streams wait for it: that costs host
/// time on each launch. It stops with the last of them, and begins anew when another is made, once all work queued so far is done.
/// Work that a dropped stream left behind would then be ordered with nothing, so the default stream waits for it.
pub(super) struct SideStream {
    pub(super) stream: Arc<CudaStream>,
    pub(super) default_stream: Arc<CudaStream>,
}

impl Drop for SideStream {
    fn drop(&mut self) {
        self.stream.context().record_err(self.default_stream.join(&self.stream));
    }
}

/// A stream.
#[derive(Clone)]
pub(crate) struct Queue {
    device: CudaDevice,
    stream: Arc<CudaStream>,
    /// Shared by all handles to a stream that is not the default one.
    _side: Option<Arc<SideStream>>,
    /// Its place in a capture, and the graph of that.
    recording: Option<(Branch, Recording)>,
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
    pub(super) fn new(device: CudaDevice, stream: Arc<CudaStream>, side: Option<Arc<SideStream>>) -> Queue {
        Queue { device, stream, _side: side, recording: None }
    }

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

impl Side for Queue {
    type Half<C, S> = C;

    fn half<C, S>(handle: Handle<C, S>) -> Option<C> {
        match handle {
            Handle::Cuda(cuda) => Some(cuda),
            Handle::Sim(_) => None,
        }
    }

    fn device_id(&self) -> DeviceId {
        self.device.id()
    }

    fn is_neighbour(&self, device: DeviceId) -> bool {
        matches!(device, DeviceId::Cuda(_))
    }
}

impl Backend for Queue {
    type Memory = Memory;
    type Function = Function;
    type Mark = Mark;

    fn branch(&self) -> Option<&Branch> {
        self.recording.as_ref().map(|(branch, _)| branch)
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
                    self.device.inventory().ledger.reserve(bytes as u64),
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
        if let Some((branch, recording)) = &self.recording {
            let to = memory.address + range.start as u64;
            return self.check(OPERATION, recording.add(&branch.after(), |graph| graph.fill(to, value, range.len())));
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
            // SAFETY: the slice is only read by the copy queued here, whose end `copied` marks; the pinned buffer waits for
            // that mark before anyone writes or frees it.
            let (bytes, _reading) = unsafe { slice.stream_synced_slice(&self.stream) };
            let bytes = &bytes[..range.len()];
            // SAFETY: the range lies inside the memory and is as long as the source.
            let queued = unsafe { result::memcpy_htod_async(ptr, bytes, self.stream.cu_stream()) };
            return self.check(OPERATION, queued.and_then(|()| copied.record(&self.stream)));
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
            // SAFETY: the pinned buffer waits for the mark `copied` before anyone reads or frees it.
            let (bytes, _writing) = unsafe { slice.stream_synced_mut_slice(&self.stream) };
            let bytes = &mut bytes[..range.len()];
            // SAFETY: the range lies inside the memory and is as long as the destination.
            let queued = unsafe { result::memcpy_dtoh_async(bytes, ptr, self.stream.cu_stream()) };
            return self.check(OPERATION, queued.and_then(|()| copied.record(&self.stream)));
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
        if let Some((branch, recording)) = &self.recording {
            let (from, to) = (source.address + range.start as u64, dst.address + at as u64);
            return self.check(OPERATION, recording.add(&branch.after(), |graph| graph.copy(from, to, range.len())));
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

    unsafe fn launch(&self, function: &Function, args: &mut Arguments<'_>, config: &LaunchConfig) -> Result<()> {
        let shared = config.shared_mem_bytes;
        if function.static_shared + shared > self.device.inventory().properties.shared_per_block {
            function.allow_dynamic_shared(shared)?;
        }
        args.fill_in_peers(|region| self.peer_address(region))?;
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
            if let Some((branch, recording)) = &self.recording {
                return recording.add(&branch.after(), |graph| graph.launch(function, config, &mut params, dependent));
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
    /// A queue that records for a graph.
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
        let recording = self.check(OPERATION, Recording::new(self.stream.context()))?;
        Ok(Queue { recording: Some((branch, recording)), ..self.clone() })
    }

    /// Another queue of the same capture.
    pub(crate) fn on_branch(&self, branch: Branch) -> Queue {
        let recording = self.recording.clone().map(|(_, recording)| (branch, recording));
        Queue { recording, ..self.clone() }
    }

    /// Returns the recorded graph; fails if the driver's number of nodes differs from ours.
    pub(crate) fn recorded<S>(&self, nodes: &[GraphNode]) -> Result<Handle<Graph, S>> {
        let graph = self.recording.as_ref().and_then(|(_, recording)| recording.graph(nodes.len()));
        graph.map(Handle::Cuda).ok_or_else(|| Error::Invalid("the capture lost a node of the graph".to_owned()))
    }

    /// Queues all of a graph.
    pub(crate) fn launch_graph(&self, graph: &GraphExec) -> Result<()> {
        graph.launch_on(&self.stream)
    }
}

/// The attribute of a launch that may begin before the one before it has ended.
fn may_overlap() -> sys::CUlaunchAttribute {
    sys::CUlaunchAttribute {
        id: sys::CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION,
        pad: [0; 4],
        value: sys::CUlaunchAttributeValue { programmaticStreamSerializationAllowed: 1 },
    }
}
