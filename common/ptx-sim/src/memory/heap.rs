//! The heap for `malloc` and `new` of a kernel: blocks that live from launch to launch until a kernel frees them.
//!
//! A block is an [`Allocation`] with an address of its own, like a buffer of the host, so that accesses past its end or
//! after its release are found in the same way. Launches look up buffers in a snapshot, which never changes; an address that
//! is in none of them is looked up here.

use std::sync::{Arc, PoisonError, RwLock};

use super::allocation::{Allocation, Origin, Role};
use super::host_bytes;
use super::table::{Addresses, Table};
use crate::limits::{Ledger, Use};

/// Maximum bytes of all blocks of a device together: CUDA's reserve unless `cudaLimitMallocHeapSize` is set.
pub const HEAP_BYTES: u64 = 8 << 20;
/// Alignment of blocks, and granularity of the space that they take.
const ALIGN: u64 = 16;

#[derive(Debug, Default)]
struct Blocks {
    table: Table,
    in_use: u64,
}

/// All blocks of a device. Any number of threads may use it at a time.
#[derive(Debug)]
pub(crate) struct Heap {
    addresses: Arc<Addresses>,
    sanitised: bool,
    ledger: Arc<Ledger>,
    blocks: RwLock<Blocks>,
}

/// Reason why a pointer cannot be freed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BadFree {
    /// A block that has been freed.
    Freed,
    /// Not the start of a block.
    NoBlock,
}

/// Bytes of the heap for a block: an empty one has an address too.
fn cost(bytes: u64) -> u64 {
    bytes.checked_next_multiple_of(ALIGN).unwrap_or(u64::MAX).max(ALIGN)
}

impl Heap {
    pub(crate) fn new(addresses: Arc<Addresses>, sanitised: bool, ledger: Arc<Ledger>) -> Self {
        Self { addresses, sanitised, ledger, blocks: RwLock::default() }
    }

    fn read(&self) -> std::sync::RwLockReadGuard<'_, Blocks> {
        self.blocks.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> std::sync::RwLockWriteGuard<'_, Blocks> {
        self.blocks.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// The address of a new block, a multiple of `align` and at least of 16; `None` if there is no room, or `align` is no
    /// power of two.
    pub(crate) fn alloc(&self, bytes: u64, align: u64, label: &Arc<str>, origin: Origin) -> Option<u64> {
        if !align.is_power_of_two() || align > HEAP_BYTES {
            return None;
        }
        {
            let mut blocks = self.write();
            let in_use = blocks.in_use.checked_add(cost(bytes)).filter(|in_use| *in_use <= HEAP_BYTES)?;
            // Where the host has no room, the heap has none.
            if !self.ledger.take(Use::Heap, host_bytes(bytes, self.sanitised)) {
                return None;
            }
            blocks.in_use = in_use;
        }
        // The host's own allocator is called without the lock.
        let base = self.addresses.claim(bytes, align);
        let block = Allocation::new(base, bytes, Arc::clone(label), Role::Block, Some(origin), self.sanitised);
        let mut blocks = self.write();
        match block {
            Some(block) => {
                blocks.table.insert(Arc::new(block));
                Some(base)
            }
            None => {
                blocks.in_use -= cost(bytes);
                self.ledger.give(Use::Heap, host_bytes(bytes, self.sanitised));
                None
            }
        }
    }

    /// Frees the block that begins at `address`. Another worker that is using it at this moment keeps it until it is done.
    pub(crate) fn free(&self, address: u64) -> Result<(), BadFree> {
        let mut blocks = self.write();
        let found = blocks.table.before(address).filter(|block| block.base == address);
        let block = Arc::clone(found.ok_or(BadFree::NoBlock)?);
        if !blocks.table.bury(&block) {
            return Err(BadFree::Freed);
        }
        blocks.in_use -= cost(block.bytes);
        self.ledger.give(Use::Heap, host_bytes(block.bytes, self.sanitised));
        Ok(())
    }

    /// The block that holds `address`, freed or not.
    pub(crate) fn block(&self, address: u64) -> Option<Arc<Allocation>> {
        let blocks = self.read();
        blocks.table.before(address).filter(|block| address - block.base < block.bytes).cloned()
    }

    /// The live block that holds `address`.
    pub(crate) fn live_block(&self, address: u64) -> Option<Arc<Allocation>> {
        self.block(address).filter(|block| !block.is_freed())
    }

    /// The blocks before and after `address`, freed or not.
    pub(crate) fn around(&self, address: u64) -> [Option<Arc<Allocation>>; 2] {
        let blocks = self.read();
        [blocks.table.before(address).cloned(), blocks.table.after(address).cloned()]
    }

    /// All blocks that have not been freed, by address.
    pub(crate) fn live(&self) -> Vec<Arc<Allocation>> {
        self.read().table.live().cloned().collect()
    }
}
