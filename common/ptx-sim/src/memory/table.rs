//! Allocations by address, and the addresses themselves: none is used twice.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::allocation::Allocation;

/// Alignment of allocations, guaranteed by `cudaMalloc`.
pub(super) const ALIGN: u64 = 256;

/// Addresses left free between allocations, so that the end of one is not the start of the next.
/// No product of a 32-bit index and the size of an element reaches across.
pub(crate) const GAP: u64 = 64 << 30;

/// The gap where addresses become scarce, after some 60 million allocations.
const SMALL_GAP: u64 = 4096;

/// Number of freed allocations whose addresses are still recognised, at least.
const GRAVES: usize = 4096;

/// Allocations, sorted by address.
pub(crate) type Snapshot = Vec<Arc<Allocation>>;

/// Allocations by address: the live ones and the last that were freed, without their bytes.
#[derive(Debug, Default)]
pub(crate) struct Table {
    /// A launch holds it as it was at its start: a change during one is made to a copy.
    by_base: Arc<Snapshot>,
    /// Addresses of the freed ones, oldest first.
    graves: Vec<u64>,
}

impl Table {
    pub(crate) fn snapshot(&self) -> Arc<Snapshot> {
        Arc::clone(&self.by_base)
    }

    /// Number of allocations that begin at `address` or before.
    fn count_to(&self, address: u64) -> usize {
        self.by_base.partition_point(|allocation| allocation.base <= address)
    }

    pub(crate) fn insert(&mut self, allocation: Arc<Allocation>) {
        let at = self.count_to(allocation.base);
        Arc::make_mut(&mut self.by_base).insert(at, allocation);
    }

    /// The last allocation that begins at `address` or before.
    pub(crate) fn before(&self, address: u64) -> Option<&Arc<Allocation>> {
        self.by_base.get(self.count_to(address).checked_sub(1)?)
    }

    /// The first allocation that begins after `address`.
    pub(crate) fn after(&self, address: u64) -> Option<&Arc<Allocation>> {
        self.by_base.get(self.count_to(address))
    }

    /// Marks an allocation as freed; false if it already was.
    pub(crate) fn bury(&mut self, allocation: &Allocation) -> bool {
        if allocation.freed.swap(true, Ordering::Relaxed) {
            return false;
        }
        let at = self.count_to(allocation.base) - 1;
        let by_base = Arc::make_mut(&mut self.by_base);
        if allocation.is_reusable() {
            by_base.remove(at);
            return true;
        }
        by_base[at] = Arc::new(allocation.grave());
        self.graves.push(allocation.base);
        // Many at a time: removing one takes as long.
        if self.graves.len() == 2 * GRAVES {
            let oldest: HashSet<u64> = self.graves.drain(..GRAVES).collect();
            by_base.retain(|allocation| !oldest.contains(&allocation.base));
        }
        true
    }

    pub(crate) fn live(&self) -> impl Iterator<Item = &Arc<Allocation>> {
        self.by_base.iter().filter(|allocation| !allocation.is_freed())
    }
}

/// Hands out addresses, each to one allocation only.
#[derive(Debug)]
pub(crate) struct Addresses(AtomicU64);

impl Addresses {
    pub(super) fn new(first: u64) -> Self {
        Self(AtomicU64::new(first))
    }

    /// The address of an allocation of `bytes` bytes, a multiple of `align`, which is a power of two.
    pub(crate) fn claim(&self, bytes: u64, align: u64) -> u64 {
        let mut next = self.0.load(Ordering::Relaxed);
        loop {
            let base = next.next_multiple_of(align.max(ALIGN));
            let gap = if base < 1 << 62 { GAP } else { SMALL_GAP };
            match self.0.compare_exchange_weak(next, base + bytes + gap, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return base,
                Err(found) => next = found,
            }
        }
    }
}
