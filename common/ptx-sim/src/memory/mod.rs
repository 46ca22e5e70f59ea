//! The device's memory: allocations that know their bounds, in one address space that is never reused.
//!
//! Because an address belongs to one allocation forever, a stray pointer is told apart from a freed one, and both from
//! one past the end: no two mistakes look alike. Kernels read and write through relaxed atomics: a kernel with a data
//! race gets some value, as on a GPU, and the host stays sound.

mod allocation;
mod heap;
mod table;
mod undefined;

use std::sync::{Arc, RwLock};

use crate::fault::Fault;
use crate::limits::{Ledger, Use};

pub(crate) use allocation::{Allocation, Bits, Origin, Placement, Role, UndefinedRead, plural};
pub use heap::HEAP_BYTES;
pub(crate) use heap::{BadFree, Heap};
use table::{ALIGN, Addresses, Table};
pub(crate) use table::{GAP, Snapshot};
pub(crate) use undefined::{Stored, UndefinedBits};

/// An address in a device's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DevicePtr(pub u64);

impl DevicePtr {
    /// The address `bytes` further on.
    #[must_use]
    pub fn offset(self, bytes: u64) -> Self {
        Self(self.0.wrapping_add(bytes))
    }
}

/// Memory in use on a device. All in bytes but the last. The heap of kernels has room of its own
/// ([`crate::HEAP_BYTES`]) and is not counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryInfo {
    /// Allocated now.
    pub in_use: u64,
    /// Peak of `in_use`.
    pub peak: u64,
    /// Memory of the device.
    pub total: u64,
    /// Number of live allocations.
    pub allocations: usize,
}

/// Reason why the host's request for memory cannot be met.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MemoryError {
    /// The device is full.
    #[error("out of memory: {requested} bytes asked for, {} of {total} free", total - in_use)]
    OutOfMemory {
        /// Bytes requested.
        requested: u64,
        /// Bytes in use.
        in_use: u64,
        /// Bytes of the device.
        total: u64,
    },
    /// The host itself has no memory left to hold the device's.
    #[error("the host has no room for a device allocation of {requested} bytes")]
    HostOutOfMemory {
        /// Bytes requested.
        requested: u64,
    },
    /// The device and its launches would take more host memory than [`crate::DeviceConfig::memory_limit`].
    #[error("{message}")]
    Limit {
        /// The limit, and the request that exceeds it.
        message: String,
    },
    /// The address never belonged to an allocation.
    #[error("{address:#x} is not an address of this device")]
    InvalidPointer {
        /// The address.
        address: u64,
    },
    /// The address is inside an allocation, where its start is needed.
    #[error("{address:#x} is not the start of `{label}`")]
    NotAStart {
        /// The address.
        address: u64,
        /// The allocation it is in.
        label: String,
    },
    /// The range leaves its allocation.
    #[error("{bytes} bytes at {address:#x} do not fit `{label}`, which has {available} there")]
    OutOfBounds {
        /// First address of the range.
        address: u64,
        /// Length of the range.
        bytes: u64,
        /// The allocation it begins in.
        label: String,
        /// Bytes from the address to the allocation's end.
        available: u64,
    },
    /// The allocation has been freed.
    #[error("`{label}` at {address:#x} has been freed")]
    UseAfterFree {
        /// The address.
        address: u64,
        /// The allocation.
        label: String,
    },
    /// On a device that sanitises, the host has read values that a kernel stored without ever having defined them
    /// ([`crate::Device::undefined`]).
    #[error("the host reads what was never defined: {}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
    Undefined(Vec<Fault>),
}

#[derive(Debug, Default)]
struct State {
    allocations: Table,
    in_use: u64,
    peak: u64,
    live: usize,
}

/// All memory of a device.
#[derive(Debug)]
pub(crate) struct Memory {
    total: u64,
    /// Whether writes are tracked.
    sanitised: bool,
    addresses: Arc<Addresses>,
    ledger: Arc<Ledger>,
    /// Allocations of the host.
    state: RwLock<State>,
    /// Allocations of kernels.
    heap: Heap,
}

impl Memory {
    pub(crate) fn new(total: u64, first_address: u64, sanitised: bool, ledger: Arc<Ledger>) -> Self {
        let addresses = Arc::new(Addresses::new(first_address));
        let heap = Heap::new(Arc::clone(&addresses), sanitised, Arc::clone(&ledger));
        Self { total, sanitised, addresses, ledger, state: RwLock::default(), heap }
    }

    /// Host memory that the device takes.
    pub(crate) fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    fn read_state(&self) -> std::sync::RwLockReadGuard<'_, State> {
        self.state.read().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    pub(crate) fn alloc(
        &self,
        bytes: u64,
        label: &str,
        role: Role,
        placement: Placement,
    ) -> Result<Arc<Allocation>, MemoryError> {
        let mut state = self.state.write().unwrap_or_else(std::sync::PoisonError::into_inner);
        let host_bytes = host_bytes(bytes, self.sanitised);
        if !self.ledger.take(Use::Buffers, host_bytes) {
            return Err(MemoryError::Limit { message: self.ledger.message(Use::Buffers, host_bytes) });
        }
        if bytes > self.total - state.in_use {
            self.ledger.give(Use::Buffers, host_bytes);
            return Err(MemoryError::OutOfMemory { requested: bytes, in_use: state.in_use, total: self.total });
        }
        let allocation = match placement {
            Placement::Device => {
                Allocation::new(self.addresses.claim(bytes, ALIGN), bytes, label.into(), role, None, self.sanitised)
            }
            Placement::Shared => Allocation::shared(bytes, label.into(), role),
            Placement::Host(memory) => Some(Allocation::of_host(memory, bytes, label.into(), role)),
        };
        let Some(allocation) = allocation else {
            self.ledger.give(Use::Buffers, host_bytes);
            return Err(MemoryError::HostOutOfMemory { requested: bytes });
        };
        let allocation = Arc::new(allocation);
        state.in_use += bytes;
        state.peak = state.peak.max(state.in_use);
        state.live += 1;
        state.allocations.insert(Arc::clone(&allocation));
        Ok(allocation)
    }

    /// Addresses that no allocation gets, aligned to a power of two.
    pub(crate) fn reserve(&self, bytes: u64, align: u64) -> DevicePtr {
        DevicePtr(self.addresses.claim(bytes, align))
    }

    /// Shows the first bytes of an allocation at reserved addresses too.
    pub(crate) fn map(&self, at: DevicePtr, bytes: u64, source: DevicePtr, label: &str) -> Result<(), MemoryError> {
        let (allocation, offset) = self.range(source, bytes)?;
        if offset != 0 {
            return Err(MemoryError::NotAStart { address: source.0, label: allocation.label.to_string() });
        }
        let mut state = self.state.write().unwrap_or_else(std::sync::PoisonError::into_inner);
        let last = at.0.saturating_add(bytes.saturating_sub(1));
        if let Some(other) =
            state.allocations.before(last).filter(|other| at.0 < other.base.saturating_add(other.bytes))
        {
            return Err(MemoryError::NotAStart { address: at.0, label: other.label.to_string() });
        }
        state.live += 1;
        state.allocations.insert(Arc::new(Allocation::view(at.0, bytes, label.into(), allocation)));
        Ok(())
    }

    pub(crate) fn free(&self, pointer: DevicePtr) -> Result<(), MemoryError> {
        let allocation = self.find(pointer.0)?;
        let label = || allocation.label.to_string();
        if allocation.base != pointer.0 {
            return Err(MemoryError::NotAStart { address: pointer.0, label: label() });
        }
        let mut state = self.state.write().unwrap_or_else(std::sync::PoisonError::into_inner);
        if !state.allocations.bury(&allocation) {
            return Err(MemoryError::UseAfterFree { address: pointer.0, label: label() });
        }
        state.live -= 1;
        if !allocation.is_view() {
            self.ledger.give(Use::Buffers, host_bytes(allocation.bytes, self.sanitised));
            state.in_use -= allocation.bytes;
        }
        Ok(())
    }

    /// The live allocation around `address`.
    fn find(&self, address: u64) -> Result<Arc<Allocation>, MemoryError> {
        let state = self.read_state();
        let allocation = state
            .allocations
            .before(address)
            .filter(|found| address - found.base <= found.bytes)
            .ok_or(MemoryError::InvalidPointer { address })?;
        if allocation.is_freed() {
            return Err(MemoryError::UseAfterFree { address, label: allocation.label.to_string() });
        }
        Ok(Arc::clone(allocation))
    }

    /// The allocation that holds `bytes` bytes at `pointer`, and the offset in it.
    pub(crate) fn range(&self, pointer: DevicePtr, bytes: u64) -> Result<(Arc<Allocation>, u64), MemoryError> {
        let allocation = self.find(pointer.0)?;
        let offset = pointer.0 - allocation.base;
        let available = allocation.bytes - offset;
        if bytes > available {
            let label = allocation.label.to_string();
            return Err(MemoryError::OutOfBounds { address: pointer.0, bytes, label, available });
        }
        Ok((allocation, offset))
    }

    pub(crate) fn sanitised(&self) -> bool {
        self.sanitised
    }

    /// Allocations that have not been freed.
    pub(crate) fn live(&self) -> Vec<Arc<Allocation>> {
        self.read_state().allocations.live().cloned().collect()
    }

    pub(crate) fn heap(&self) -> &Heap {
        &self.heap
    }

    pub(crate) fn info(&self) -> MemoryInfo {
        let state = self.read_state();
        MemoryInfo { in_use: state.in_use, peak: state.peak, total: self.total, allocations: state.live }
    }

    pub(crate) fn snapshot(&self) -> Arc<Snapshot> {
        self.read_state().allocations.snapshot()
    }
}

/// Maximum host memory of an allocation: its bytes, a sanitiser's state of each, and its name.
fn host_bytes(bytes: u64, sanitised: bool) -> u64 {
    bytes.saturating_add(if sanitised { bytes / 8 } else { 0 }).saturating_add(256)
}

/// The allocation that contains an address, or is nearest to it.
pub(crate) fn nearest(snapshot: &Snapshot, heap: &Heap, address: u64) -> Option<Arc<Allocation>> {
    let after = snapshot.partition_point(|allocation| allocation.base <= address);
    let before = after.checked_sub(1).map(|at| Arc::clone(&snapshot[at]));
    let [block_before, block_after] = heap.around(address);
    let all = [before, block_before, snapshot.get(after).cloned(), block_after];
    // Of two as near as each other, the one that ends before the address.
    all.into_iter().flatten().min_by_key(|found| match address.checked_sub(found.base) {
        Some(offset) => offset.saturating_sub(found.bytes),
        None => found.base - address,
    })
}
