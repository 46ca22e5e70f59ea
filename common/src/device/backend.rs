//! Device-specific operations.
//!
//! A stream does its work through its own [`Backend`], which gets every other thing in the type of that backend: so there is no pair of
//! a GPU's stream and a simulator's buffer to write code for.

use std::ops::Range;

use super::arguments::Arguments;
use super::buffer::Region;
use super::element::{DeviceElement, Host, HostMut};
use super::handle::Side;
use super::launch_config::LaunchConfig;
use super::recording::Branch;
use super::tensor_map_config::{Encoded, TensorMapConfig};
use super::{Device, RawBuffer};
use crate::error::Result;

/// The queue of one device, with all operations of streams. Ranges are bytes and lie inside their memory.
pub(crate) trait Backend: Side {
    type Memory;
    type Function;
    type Mark;

    /// The address of memory of this device or a neighbour, for a kernel of this one, which from here on reaches it.
    fn peer_address(&self, region: &Region<'_>) -> Result<u64>;

    /// Position in the capture, for a queue that records its work instead of doing it.
    fn branch(&self) -> Option<&Branch>;

    /// `bytes` of uninitialised memory; `label` names it in the simulator's diagnostics.
    fn alloc(&self, bytes: usize, label: impl FnOnce() -> String) -> Result<RawBuffer>;

    fn fill(&self, memory: &mut Self::Memory, range: Range<usize>, value: u8) -> Result<()>;

    /// Copies from the host to `range`, with the same number of bytes.
    fn write<T: DeviceElement>(
        &self,
        memory: &mut Self::Memory,
        range: Range<usize>,
        source: Host<'_, T>,
    ) -> Result<()>;

    /// Copies `range` to the host, with the same number of bytes.
    fn read<T: DeviceElement>(&self, memory: &Self::Memory, range: Range<usize>, dst: HostMut<'_, T>) -> Result<()>;

    /// Copies bytes `range` of `source` to `dst` from byte `at` on.
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
    /// As [`LaunchArgs::launch`](super::LaunchArgs::launch).
    unsafe fn launch(&self, function: &Self::Function, args: &mut Arguments<'_>, config: &LaunchConfig) -> Result<()>;

    fn mark(&self) -> Result<Self::Mark>;

    fn wait(&self, mark: &Self::Mark) -> Result<()>;

    fn synchronize(&self) -> Result<()>;
}
