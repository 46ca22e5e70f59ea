//! Streams: queues of copies and launches that a device executes in order.

use std::fmt;

use super::backend::Backend;
use super::buffer::{Buffer, DeviceSlice, DeviceSliceMut, check_lengths};
use super::element::{DeviceElement, HostSlice, HostSliceMut};
use super::handle::{Handle, on_either, resolve_neighbour, wrong_device};
use super::recording::{GraphOperation, Point, Uses, WAIT};
use super::{Counts, Device, DeviceId, NO_CLOCK, cuda, sim};
use crate::error::{Error, Result};

#[cfg(feature = "cuda")]
use {
    cudarc::driver::{CudaStream, DevicePtr, DevicePtrMut},
    std::sync::Arc,
};

/// A queue of work on one device. Cheap to clone; clones are the same queue.
#[derive(Clone)]
pub struct Stream {
    device: Device,
    pub(crate) queue: Handle<cuda::Queue, sim::Queue>,
}

/// A mark in a stream: other streams can wait for it, and two marks measure the time between them.
pub struct Event {
    owner: DeviceId,
    mark: Mark,
}

enum Mark {
    Queue(Handle<cuda::Mark, sim::Mark>),
    /// A mark on a stream of a capture.
    Capture(Point),
}

const HOST_COPY: &str = "the graph would copy whenever it is launched, also when the program has other plans for that \
                         memory; copy before the graph's launch, or after it";
const NOTHING_RUNS: &str = "nothing is running yet: a graph runs when it is launched";

impl Stream {
    pub(crate) fn new(device: &Device, queue: Handle<cuda::Queue, sim::Queue>) -> Stream {
        Stream { device: device.clone(), queue }
    }

    /// The device that does the work.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// cudarc's stream, for its bindings of libraries; `None` on the simulator and in a capture.
    #[cfg(feature = "cuda")]
    pub fn as_cuda(&self) -> Option<&Arc<CudaStream>> {
        match &self.queue {
            Handle::Cuda(queue) => queue.branch().is_none().then_some(queue.stream()),
            Handle::Sim(_) => None,
        }
    }

    /// A buffer of `len` uninitialised values.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`].
    pub fn alloc_uninit<T: DeviceElement>(&self, len: usize) -> Result<Buffer<T>> {
        self.refuse_in_capture("allocating memory", "allocate before it, and the graph keeps the memory")?;
        let bytes = len.checked_mul(size_of::<T>()).ok_or_else(|| {
            Error::Invalid(format!("{len} values of {} bytes: no memory is that large", size_of::<T>()))
        })?;
        // What the simulator's diagnostics call it.
        let label =
            || format!("buffer of {len} {}", std::any::type_name::<T>().rsplit("::").next().unwrap_or_default());
        Ok(Buffer::new(on_either!(&self.queue, queue => queue.alloc(bytes, label)?)))
    }

    /// A buffer of `len` zeros.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`], or errors of the driver.
    pub fn alloc_zeros<T: DeviceElement>(&self, len: usize) -> Result<Buffer<T>> {
        let mut buffer = self.alloc_uninit(len)?;
        self.memset_zeros(&mut buffer)?;
        Ok(buffer)
    }

    /// A buffer whose every byte is 0xFF: NaN in all float types, −1 in signed integers. A kernel that forgets an output
    /// leaves a value that fails every check.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`], or errors of the driver.
    pub fn alloc_poisoned<T: DeviceElement>(&self, len: usize) -> Result<Buffer<T>> {
        let mut buffer = self.alloc_uninit(len)?;
        self.poison(&mut buffer)?;
        Ok(buffer)
    }

    /// A new buffer with the values of host memory.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`], or errors of the driver.
    pub fn clone_htod<T: DeviceElement>(&self, source: &(impl HostSlice<T> + ?Sized)) -> Result<Buffer<T>> {
        let mut buffer = self.alloc_uninit(source.host().len())?;
        self.memcpy_htod(source, &mut buffer)?;
        Ok(buffer)
    }

    /// The values of device memory, complete when this returns.
    ///
    /// # Errors
    /// [`Error::WrongDevice`], or errors of earlier work on the stream. A simulator that sanitises reports values that a kernel stored
    /// without having defined them, as [`Error::Findings`]; a second copy then has them.
    pub fn clone_dtoh<T: DeviceElement>(&self, source: &impl DeviceSlice<T>) -> Result<Vec<T>> {
        let mut values = bytemuck::zeroed_vec(source.len());
        self.memcpy_dtoh(source, &mut values)?;
        Ok(values)
    }

    /// A new buffer with the values of another on the same device.
    ///
    /// # Errors
    /// [`Error::WrongDevice`], [`Error::OutOfMemory`], or errors of the driver.
    pub fn clone_dtod<T: DeviceElement>(&self, source: &impl DeviceSlice<T>) -> Result<Buffer<T>> {
        let mut buffer = self.alloc_uninit(source.len())?;
        self.memcpy_dtod(source, &mut buffer)?;
        Ok(buffer)
    }

    /// Sets every value to zero.
    ///
    /// # Errors
    /// [`Error::WrongDevice`], or errors of the driver.
    pub fn memset_zeros<T: DeviceElement>(&self, dst: &mut impl DeviceSliceMut<T>) -> Result<()> {
        self.fill(dst, 0)
    }

    /// Sets every byte to 0xFF, like [`Stream::alloc_poisoned`].
    ///
    /// # Errors
    /// [`Error::WrongDevice`], or errors of the driver.
    pub fn poison<T: DeviceElement>(&self, dst: &mut impl DeviceSliceMut<T>) -> Result<()> {
        self.fill(dst, 0xFF)
    }

    fn fill<T: DeviceElement>(&self, dst: &mut impl DeviceSliceMut<T>, value: u8) -> Result<()> {
        const OPERATION: &str = "filling a buffer";
        let mut region = dst.region_mut();
        let (range, lease) = (region.range(), region.lease().clone());
        on_either!(&self.queue, queue => {
            let memory = region.on(queue, OPERATION)?;
            if range.is_empty() {
                return Ok(());
            }
            let uses = || Uses { operation: GraphOperation::Fill, name: "fill", memory: vec![lease], kernel: None };
            self.perform(uses, || queue.fill(memory, range, value))
        })
    }

    /// Copies host memory to the device; the lengths must be equal. From a [`super::PinnedBuffer`] the copy is only queued
    /// when this returns, from ordinary memory it is finished.
    ///
    /// # Errors
    /// [`Error::Length`], [`Error::WrongDevice`], or errors of the driver.
    pub fn memcpy_htod<T: DeviceElement>(
        &self,
        source: &(impl HostSlice<T> + ?Sized),
        dst: &mut impl DeviceSliceMut<T>,
    ) -> Result<()> {
        const OPERATION: &str = "copying to the device";
        self.refuse_in_capture(OPERATION, HOST_COPY)?;
        let source = source.host();
        check_lengths(OPERATION, source.len(), dst.len())?;
        let mut region = dst.region_mut();
        let range = region.range();
        on_either!(&self.queue, queue => queue.write(region.on(queue, OPERATION)?, range, source))
    }

    /// Copies device memory to the host; the lengths must be equal. Into a [`super::PinnedBuffer`] the copy is only queued
    /// when this returns (its `as_slice` waits), into ordinary memory it is finished.
    ///
    /// # Errors
    /// [`Error::Length`], [`Error::WrongDevice`], or errors of earlier work on the stream.
    pub fn memcpy_dtoh<T: DeviceElement>(
        &self,
        source: &impl DeviceSlice<T>,
        dst: &mut (impl HostSliceMut<T> + ?Sized),
    ) -> Result<()> {
        const OPERATION: &str = "copying from the device";
        self.refuse_in_capture(OPERATION, HOST_COPY)?;
        let region = source.region();
        let dst = dst.host_mut();
        check_lengths(OPERATION, source.len(), dst.len())?;
        on_either!(&self.queue, queue => queue.read(region.on(queue, OPERATION)?, region.range(), dst))
    }

    /// Queues a copy inside the device; the lengths must be equal.
    ///
    /// # Errors
    /// [`Error::Length`], [`Error::WrongDevice`], or errors of the driver.
    pub fn memcpy_dtod<T: DeviceElement>(
        &self,
        source: &impl DeviceSlice<T>,
        dst: &mut impl DeviceSliceMut<T>,
    ) -> Result<()> {
        const OPERATION: &str = "copying inside the device";
        check_lengths(OPERATION, source.len(), dst.len())?;
        let (source, mut dst) = (source.region(), dst.region_mut());
        let at = dst.range().start;
        let memory = vec![source.lease().clone(), dst.lease().clone()];
        on_either!(&self.queue, queue => {
            let (from, to) = (source.on(queue, OPERATION)?, dst.on(queue, OPERATION)?);
            if source.range().is_empty() {
                return Ok(());
            }
            let uses = || Uses { operation: GraphOperation::Copy, name: "copy", memory, kernel: None };
            self.perform(uses, || queue.copy(from, source.range(), to, at))
        })
    }

    /// Queues a copy between the memories of two devices of one host, one of which may be the stream's own; the lengths must be
    /// equal. Only events order it with work on the other device: let this stream wait for the source's producer and for the last use
    /// of the destination, and the other device's for the copy ([`Stream::wait`]).
    ///
    /// # Errors
    /// [`Error::Length`]; [`Error::WrongDevice`] if a buffer is on another kind of device or another simulated host; errors of the
    /// driver.
    pub fn memcpy_peer<T: DeviceElement>(
        &self,
        source: &impl DeviceSlice<T>,
        dst: &mut impl DeviceSliceMut<T>,
    ) -> Result<()> {
        const OPERATION: &str = "copying between devices";
        self.refuse_in_capture(OPERATION, "graphs copy inside one device; queue the copy between two graphs")?;
        check_lengths(OPERATION, source.len(), dst.len())?;
        let (source, mut dst) = (source.region(), dst.region_mut());
        let at = dst.range().start;
        on_either!(&self.queue, queue => {
            let from = source.near(queue, OPERATION)?;
            queue.copy_peer((source.device(), from), source.range(), dst.near(queue, OPERATION)?, at)
        })
    }

    /// Marks this point of the stream.
    ///
    /// # Errors
    /// Errors of the driver.
    pub fn record_event(&self) -> Result<Event> {
        let owner = self.device.id();
        if let Some(branch) = self.branch() {
            return Ok(Event { owner, mark: Mark::Capture(branch.point()) });
        }
        let mark = match &self.queue {
            #[cfg(feature = "cuda")]
            Handle::Cuda(queue) => Handle::Cuda(queue.mark()?),
            #[cfg(not(feature = "cuda"))]
            Handle::Cuda(never) => match *never {},
            Handle::Sim(queue) => Handle::Sim(queue.mark()?),
        };
        Ok(Event { owner, mark: Mark::Queue(mark) })
    }

    /// Lets later work begin only when `event` has been reached, which may be one of another device of the same host.
    ///
    /// # Errors
    /// [`Error::WrongDevice`]; [`Error::Capture`] if one of the two belongs to a capture and the other does not; errors of the
    /// driver.
    pub fn wait(&self, event: &Event) -> Result<()> {
        let refused = |reason: &str| Err(Error::Capture { operation: WAIT, reason: reason.to_owned() });
        match (self.branch(), &event.mark) {
            (None, Mark::Queue(mark)) => on_either!(&self.queue, queue => {
                queue.wait(resolve_neighbour(queue, WAIT, "event", event.owner, mark.as_ref())?)
            }),
            (Some(branch), Mark::Capture(point)) => branch.wait(point),
            (Some(_), Mark::Queue(_)) => {
                refused("the event was recorded outside of it; let the stream wait on which the graph is launched")
            }
            (None, Mark::Capture(_)) => {
                refused("the event was recorded in it, and the stream is not one of it; make one with `fork`")
            }
        }
    }

    /// Lets later work begin only when all current work of `other` is done.
    ///
    /// # Errors
    /// [`Error::WrongDevice`], or errors of the driver.
    pub fn join(&self, other: &Stream) -> Result<()> {
        self.wait(&other.record_event()?)
    }

    /// Waits until the stream is empty.
    ///
    /// # Errors
    /// Errors of its work; a kernel's fault on a GPU surfaces here.
    pub fn synchronize(&self) -> Result<()> {
        self.refuse_in_capture("waiting for a stream", NOTHING_RUNS)?;
        on_either!(&self.queue, queue => queue.synchronize())
    }
}

#[cfg(feature = "cuda")]
impl Stream {
    /// Checks that the memory belongs to the stream's device.
    ///
    /// # Errors
    /// [`Error::WrongDevice`]; [`Error::Capture`] in a capture.
    pub fn expect_own<T: DeviceElement>(&self, operation: &'static str, memory: &impl DeviceSlice<T>) -> Result<()> {
        self.refuse_in_capture(operation, "the libraries queue their work themselves")?;
        on_either!(&self.queue, queue => memory.region().on(queue, operation).map(drop))
    }

    /// Calls `queue` with the address of memory that its work on this stream only reads.
    ///
    /// # Errors
    /// Errors of [`Stream::expect_own`]; [`Error::Unsupported`] on the simulator.
    pub fn with_address<T: DeviceElement, R>(
        &self,
        operation: &'static str,
        memory: &impl DeviceSlice<T>,
        queue: impl FnOnce(u64) -> R,
    ) -> Result<R> {
        self.expect_own(operation, memory)?;
        let region = memory.region();
        let Handle::Cuda(own) = &self.queue else { return Err(not_a_gpu(operation, self)) };
        let (address, _read) = region.on(own, operation)?.slice().device_ptr(own.stream());
        Ok(queue(address + region.range().start as u64))
    }

    /// [`Stream::with_address`] for memory that is written too.
    ///
    /// # Errors
    /// Same as [`Stream::with_address`].
    pub fn with_address_mut<T: DeviceElement, R>(
        &self,
        operation: &'static str,
        memory: &mut impl DeviceSliceMut<T>,
        queue: impl FnOnce(u64) -> R,
    ) -> Result<R> {
        self.expect_own(operation, &*memory)?;
        let mut region = memory.region_mut();
        let start = region.range().start as u64;
        let Handle::Cuda(own) = &self.queue else { return Err(not_a_gpu(operation, self)) };
        let (address, _written) = region.on(own, operation)?.slice_mut().device_ptr_mut(own.stream());
        Ok(queue(address + start))
    }
}

#[cfg(feature = "cuda")]
fn not_a_gpu(operation: &str, stream: &Stream) -> Error {
    Error::Unsupported {
        what: operation.to_owned(),
        device: stream.device.short_name(),
        reason: "it runs on NVIDIA GPUs only".to_owned(),
    }
}

impl PartialEq for Stream {
    /// True if both are the same queue.
    fn eq(&self, other: &Stream) -> bool {
        match (&self.queue, &other.queue) {
            (Handle::Cuda(one), Handle::Cuda(other)) => one == other,
            (Handle::Sim(one), Handle::Sim(other)) => one == other,
            _ => false,
        }
    }
}

impl Eq for Stream {}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Stream(of {})", self.device.short_name())
    }
}

impl fmt::Debug for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Event(of {})", self.owner)
    }
}

impl Event {
    /// Waits until the stream has reached the mark.
    ///
    /// # Errors
    /// Errors of the work before it.
    pub fn synchronize(&self) -> Result<()> {
        match &self.mark {
            #[cfg(feature = "cuda")]
            Mark::Queue(Handle::Cuda(mark)) => cuda::wait_for(mark),
            #[cfg(not(feature = "cuda"))]
            Mark::Queue(Handle::Cuda(never)) => match *never {},
            Mark::Queue(Handle::Sim(mark)) => mark.wait(),
            Mark::Capture(_) => Err(Error::Capture { operation: WAIT, reason: NOTHING_RUNS.to_owned() }),
        }
    }

    /// Milliseconds from this mark to `end`, once both are reached; the device's own clock, to about half a microsecond.
    ///
    /// # Errors
    /// [`Error::Unsupported`] on the simulator, which has counts ([`Event::counts_until`]) and no clock.
    pub fn elapsed_ms(&self, end: &Event) -> Result<f32> {
        if self.owner != end.owner {
            return Err(wrong_device("measuring between two events", "event", self.owner, end.owner));
        }
        match (&self.mark, &end.mark) {
            #[cfg(feature = "cuda")]
            (Mark::Queue(Handle::Cuda(start)), Mark::Queue(Handle::Cuda(end))) => cuda::elapsed_ms(start, end),
            (Mark::Capture(_), _) | (_, Mark::Capture(_)) => {
                Err(Error::Capture { operation: "measuring time between events", reason: NOTHING_RUNS.to_owned() })
            }
            _ => Err(Error::Unsupported {
                what: "measuring time between events".to_owned(),
                device: self.owner.to_string(),
                reason: NO_CLOCK.to_owned(),
            }),
        }
    }

    /// Counts of the simulator from this mark to `end`; `None` on a GPU.
    pub fn counts_until(&self, end: &Event) -> Option<Counts> {
        match (&self.mark, &end.mark) {
            (Mark::Queue(Handle::Sim(start)), Mark::Queue(Handle::Sim(later))) if self.owner == end.owner => {
                Some(later.counts - start.counts)
            }
            _ => None,
        }
    }
}
