//! Device memory of our own buffers: a count kept by the allocator, the same on every device.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Device memory, counted by the buffers of this process and by the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryInfo {
    /// Bytes in live buffers of this process on this device.
    pub in_use: u64,
    /// Maximum of `in_use` since the start or [`super::Device::reset_peak_memory`].
    pub peak: u64,
    /// Live buffers.
    pub allocations: u64,
    /// Bytes that the device reports as free. On a GPU other programs, the context and loaded modules take their part too.
    pub free: u64,
    /// Bytes of the device.
    pub total: u64,
}

/// The counters of one device.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    in_use: AtomicU64,
    peak: AtomicU64,
    allocations: AtomicU64,
}

/// Share of one buffer in the count.
#[derive(Debug)]
pub(crate) struct Reservation {
    ledger: Arc<Ledger>,
    bytes: u64,
}

impl Ledger {
    pub(crate) fn reserve(self: &Arc<Self>, bytes: u64) -> Reservation {
        let in_use = self.in_use.fetch_add(bytes, Ordering::Relaxed) + bytes;
        self.peak.fetch_max(in_use, Ordering::Relaxed);
        self.allocations.fetch_add(1, Ordering::Relaxed);
        Reservation { ledger: self.clone(), bytes }
    }

    pub(crate) fn in_use(&self) -> u64 {
        self.in_use.load(Ordering::Relaxed)
    }

    pub(crate) fn reset_peak(&self) {
        self.peak.store(self.in_use(), Ordering::Relaxed);
    }

    pub(crate) fn info(&self, free: u64, total: u64) -> MemoryInfo {
        MemoryInfo {
            in_use: self.in_use(),
            peak: self.peak.load(Ordering::Relaxed),
            allocations: self.allocations.load(Ordering::Relaxed),
            free,
            total,
        }
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.ledger.in_use.fetch_sub(self.bytes, Ordering::Relaxed);
        self.ledger.allocations.fetch_sub(1, Ordering::Relaxed);
    }
}
