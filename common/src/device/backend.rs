//! What each device does in its own way, and the one place where the devices of two things are compared.
//!
//! Memory, kernels, events and streams are [`Handle`]s: each is CUDA's or the simulator's. A stream does its work through its
//! own [`Backend`], which gets every other thing from [`resolve`] in the type of that backend. So there is no pair of a GPU's
//! stream and a simulator's buffer to write code for.

use std::ops::Range;

use super::buffer::Region;
use super::element::{DeviceElement, Host, HostMut};
use super::graph::Branch;
use super::handle::Handle;
use super::kernel::LaunchArgs;
use super::launch_config::LaunchConfig;
use super::tensor_map::{Encoded, TensorMapConfig};
use super::{Device, DeviceId, RawBuffer};
use crate::error::{Error, Result};

/// The queue of one device, with everything that streams ask of it. Ranges are bytes and lie inside their memory.
pub(crate) trait Backend {
    /// This device's of the two types of a [`Handle`].
    type Half<C, S>;
    type Memory;
    type Function;
    type Mark;

    fn half<C, S>(handle: Handle<C, S>) -> Option<Self::Half<C, S>>;

    fn device_id(&self) -> DeviceId;

    /// Whether events of that device can be waited for and its memory may be reached: it is another one of the same host.
    fn is_neighbour(&self, device: DeviceId) -> bool;

    /// The address of memory of this device or a neighbour, for a kernel of this one, which from here on reaches it.
    fn peer_address(&self, region: &Region<'_>) -> Result<u64>;

    /// Of a queue that records what it is given, instead of doing it, the place in the capture.
    fn branch(&self) -> Option<&Branch>;

    /// `bytes` of uninitialised memory; the simulator's diagnostics call it `label`.
    fn alloc(&self, bytes: usize, label: impl FnOnce() -> String) -> Result<RawBuffer>;

    fn fill(&self, memory: &mut Self::Memory, range: Range<usize>, value: u8) -> Result<()>;

    /// From the host, as many bytes as `range` has.
    fn write<T: DeviceElement>(
        &self,
        memory: &mut Self::Memory,
        range: Range<usize>,
        source: Host<'_, T>,
    ) -> Result<()>;

    /// To the host, as many bytes as `range` has.
    fn read<T: DeviceElement>(&self, memory: &Self::Memory, range: Range<usize>, dst: HostMut<'_, T>) -> Result<()>;

    /// Bytes `range` of `source` to `dst` from byte `at` on.
    fn copy(&self, source: &Self::Memory, range: Range<usize>, dst: &mut Self::Memory, at: usize) -> Result<()>;

    /// [`Backend::copy`] between the memories of neighbours, one of which may be this device.
    fn copy_peer(
        &self,
        source: (&Device, &Self::Memory),
        range: Range<usize>,
        dst: (&Device, &mut Self::Memory),
        at: usize,
    ) -> Result<()>;

    /// The map of a tensor that begins at byte `at` of `memory`, in which it fits.
    fn encode(&self, memory: &Self::Memory, at: usize, config: &TensorMapConfig) -> Result<Encoded>;

    /// Queues a launch whose arguments and geometry were checked.
    ///
    /// # Safety
    /// As [`LaunchArgs::launch`].
    unsafe fn launch(&self, function: &Self::Function, args: &mut LaunchArgs<'_>, config: &LaunchConfig) -> Result<()>;

    fn mark(&self) -> Result<Self::Mark>;

    fn wait(&self, mark: &Self::Mark) -> Result<()>;

    fn synchronize(&self) -> Result<()>;
}

/// `handle`, which belongs to `owner`, in the type of `queue`.
pub(crate) fn resolve<Q: Backend, C, S>(
    queue: &Q,
    operation: &'static str,
    what: &'static str,
    owner: DeviceId,
    handle: Handle<C, S>,
) -> Result<Q::Half<C, S>> {
    match Q::half(handle) {
        Some(half) if owner == queue.device_id() => Ok(half),
        _ => Err(wrong_device(operation, what, queue.device_id(), owner)),
    }
}

/// [`resolve`] that also takes what belongs to another device of the same host.
pub(crate) fn resolve_neighbour<Q: Backend, C, S>(
    queue: &Q,
    operation: &'static str,
    what: &'static str,
    owner: DeviceId,
    handle: Handle<C, S>,
) -> Result<Q::Half<C, S>> {
    match Q::half(handle) {
        Some(half) if owner == queue.device_id() || queue.is_neighbour(owner) => Ok(half),
        _ => Err(wrong_device(operation, what, queue.device_id(), owner)),
    }
}

pub(crate) fn wrong_device(operation: &'static str, what: &'static str, expected: DeviceId, found: DeviceId) -> Error {
    // All simulators have the same name.
    let (expected, found) = (expected.to_string(), found.to_string());
    let found = if found == expected { "another simulator".to_owned() } else { found };
    Error::WrongDevice { operation, what, expected, found }
}
