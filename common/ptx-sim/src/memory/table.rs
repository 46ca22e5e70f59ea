//! Allocations by address, and the addresses themselves: none is used twice.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;
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

/// Number of freed allocations whose addresses are still recognised.
const GRAVES: usize = 4096;

/// Allocations by address: the live ones and the last [`GRAVES`] that were freed, without their bytes.
#[derive(Debug, Default)]
pub(crate) struct Table {
    pub(super) by_base: BTreeMap<u64, Arc<Allocation>>,
    /// Addresses of the freed ones, oldest first.
    graves: VecDeque<u64>,
}

impl Table {
    pub(crate) fn insert(&mut self, allocation: Arc<Allocation>) {
        self.by_base.insert(allocation.base, allocation);
    }

    /// The last allocation that begins at `address` or before.
    pub(crate) fn before(&self, address: u64) -> Option<&Arc<Allocation>> {
        self.by_base.range(..=address).next_back().map(|(_, found)| found)
    }

    /// The first allocation that begins after `address`.
    pub(crate) fn after(&self, address: u64) -> Option<&Arc<Allocation>> {
        self.by_base.range((Bound::Excluded(address), Bound::Unbounded)).next().map(|(_, found)| found)
    }

    /// Marks an allocation as freed; false if it already was.
    pub(crate) fn bury(&mut self, allocation: &Allocation) -> bool {
        if allocation.freed.swap(true, Ordering::Relaxed) {
            return false;
        }
        if allocation.is_shared() {
            // The host may use the address for something else from now on.
            self.by_base.remove(&allocation.base);
            return true;
        }
        self.insert(Arc::new(allocation.grave()));
        self.graves.push_back(allocation.base);
        if self.graves.len() > GRAVES
            && let Some(oldest) = self.graves.pop_front()
        {
            self.by_base.remove(&oldest);
        }
        true
    }

    pub(crate) fn live(&self) -> impl Iterator<Item = &Arc<Allocation>> {
        self.by_base.values().filter(|allocation| !allocation.is_freed())
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
