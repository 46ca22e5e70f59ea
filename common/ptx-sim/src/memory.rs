//! The device's memory: allocations that know their bounds, in one address space that is never reused.
//!
//! Because an address belongs to one allocation for ever, a stray pointer is told apart from a freed one, and both from
//! one past the end: no two mistakes look alike. Kernels read and write through relaxed atomics: a kernel with a data
//! race gets some value, as on a GPU, and the host stays sound.

use std::cell::UnsafeCell;
use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, RwLock};

use crate::fault::Fault;
use crate::heap::Heap;
use crate::ir::MemSpace;

/// Where generic addresses of shared memory begin.
pub(crate) const SHARED_WINDOW: u64 = 0x0100_0000_0000;
/// Where generic addresses of a thread's local memory begin.
pub(crate) const LOCAL_WINDOW: u64 = 0x0200_0000_0000;
/// Where generic addresses of a kernel's parameters begin.
pub(crate) const PARAM_WINDOW: u64 = 0x0300_0000_0000;
/// Where the addresses of functions begin.
pub(crate) const FUNCTION_WINDOW: u64 = 0x0400_0000_0000;
/// Bytes of each window.
pub(crate) const WINDOW: u64 = 0x0100_0000_0000;
/// Address of the first allocation.
const FIRST: u64 = 0x7f00_0000_0000;
/// Alignment of allocations, as `cudaMalloc` promises.
const ALIGN: u64 = 256;
/// Addresses left free between allocations, so that the end of one is not the start of the next.
/// No product of a 32-bit index and the size of an element reaches across.
pub(crate) const GAP: u64 = 64 << 30;
/// The gap where addresses become scarce, after some 60 million allocations.
const SMALL_GAP: u64 = 4096;

pub(crate) fn window(space: MemSpace) -> u64 {
    match space {
        MemSpace::Shared => SHARED_WINDOW,
        MemSpace::Local => LOCAL_WINDOW,
        MemSpace::Param => PARAM_WINDOW,
        MemSpace::Generic | MemSpace::Global => 0,
    }
}

/// A number of bytes in words.
pub(crate) fn plural(bytes: u64) -> String {
    if bytes == 1 { "1 byte".to_owned() } else { format!("{bytes} bytes") }
}

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

/// How much of a device's memory is in use. All in bytes but the last. The heap of kernels has room of its own
/// ([`crate::HEAP_BYTES`]) and is not counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryInfo {
    /// Allocated now.
    pub in_use: u64,
    /// The most that was ever allocated at a time.
    pub peak: u64,
    /// What the device has.
    pub total: u64,
    /// Number of live allocations.
    pub allocations: usize,
}

/// Why the host's request for memory cannot be met.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MemoryError {
    /// The device is full.
    #[error("out of memory: {requested} bytes asked for, {} of {total} free", total - in_use)]
    OutOfMemory {
        /// Bytes asked for.
        requested: u64,
        /// Bytes in use.
        in_use: u64,
        /// Bytes the device has.
        total: u64,
    },
    /// The host itself has no memory left to hold the device's.
    #[error("the host has no room for a device allocation of {requested} bytes")]
    HostOutOfMemory {
        /// Bytes asked for.
        requested: u64,
    },
    /// The address was never that of an allocation.
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
}

/// What an allocation is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// The host asked for it.
    Buffer,
    /// A thread of a kernel asked for it: a block of the heap.
    Block,
    /// A module's `.global` variable.
    Variable,
    /// A module's `.const` variable: kernels must not write it.
    Constant,
}

/// The thread that asked for a block of the heap.
#[derive(Clone, Debug)]
pub(crate) struct Origin {
    /// Where it did, shared by all blocks of the place: the finding that it becomes if nobody frees it, but for thread,
    /// address and message.
    pub leak: Arc<Fault>,
    /// `blockIdx`.
    pub block: [u32; 3],
    /// `threadIdx`.
    pub thread: [u32; 3],
}

/// One allocation and its bytes.
pub(crate) struct Allocation {
    pub base: u64,
    /// Bytes asked for; the memory behind them is rounded up to words.
    pub bytes: u64,
    pub label: Arc<str>,
    pub role: Role,
    /// Who asked for it, if a kernel did.
    pub origin: Option<Origin>,
    freed: AtomicBool,
    words: Box<[UnsafeCell<u64>]>,
    /// Which bytes were ever written, where somebody wants to know.
    written: Option<Bits>,
}

/// A bit for each byte of an allocation.
pub(crate) struct Bits(Box<[AtomicU64]>);

impl Bits {
    fn new(count: u64) -> Self {
        Self((0..count.div_ceil(64)).map(|_| AtomicU64::new(0)).collect())
    }

    pub(crate) fn word(&self, at: u64) -> u64 {
        self.0[at as usize].load(Ordering::Relaxed)
    }

    pub(crate) fn set_word(&self, at: u64, bits: u64) {
        if self.word(at) & bits != bits {
            self.0[at as usize].fetch_or(bits, Ordering::Relaxed);
        }
    }

    /// Sets or clears the bits `at..at + count`.
    fn fill(&self, at: u64, count: u64, value: impl Fn(u64) -> bool) {
        for bit in at..at + count {
            let word = &self.0[(bit / 64) as usize];
            if value(bit - at) {
                word.fetch_or(1 << (bit % 64), Ordering::Relaxed);
            } else {
                word.fetch_and(!(1 << (bit % 64)), Ordering::Relaxed);
            }
        }
    }
}

// SAFETY: the words are only reached through atomic operations (`Allocation::load` …), never through references.
unsafe impl Sync for Allocation {}

/// Eight words at a time. A vector move takes each aligned word as one, so these are eight relaxed loads or stores, which
/// the compiler would not join: as assembly, where a data race with another worker is no matter of Rust's.
#[cfg(target_arch = "x86_64")]
mod words {
    use std::arch::asm;
    use std::arch::x86_64::__m256i;

    /// # Safety
    /// `at` points to eight aligned words that are read and written by atomic operations only.
    #[target_feature(enable = "avx2")]
    #[inline]
    pub(super) unsafe fn load(at: *const u8) -> [u32; 8] {
        let values: __m256i;
        // SAFETY: by the caller's promise; the two types have the same bytes.
        unsafe {
            asm!("vmovdqu {values}, [{at}]", at = in(reg) at, values = lateout(ymm_reg) values,
                options(nostack, preserves_flags, readonly));
            std::mem::transmute(values)
        }
    }

    /// # Safety
    /// As for [`load`].
    #[target_feature(enable = "avx2")]
    #[inline]
    pub(super) unsafe fn store(at: *mut u8, values: [u32; 8]) {
        // SAFETY: by the caller's promise; the two types have the same bytes.
        unsafe {
            let values: __m256i = std::mem::transmute(values);
            asm!("vmovdqu [{at}], {values}", at = in(reg) at, values = in(ymm_reg) values,
                options(nostack, preserves_flags));
        }
    }
}

/// Calls `$action` with the atomic of `$bytes` bytes at `$pointer`.
macro_rules! atomic_at {
    ($pointer:expr, $bytes:expr, $atomic:ident => $action:expr) => {
        match $bytes {
            // SAFETY: the caller has checked that the bytes lie in the allocation and are aligned, and all other accesses
            // to them are atomic too.
            1 => { let $atomic = unsafe { AtomicU8::from_ptr($pointer.cast()) }; $action }
            // SAFETY: as above
            2 => { let $atomic = unsafe { AtomicU16::from_ptr($pointer.cast()) }; $action }
            // SAFETY: as above
            4 => { let $atomic = unsafe { AtomicU32::from_ptr($pointer.cast()) }; $action }
            // SAFETY: as above
            _ => { let $atomic = unsafe { AtomicU64::from_ptr($pointer.cast()) }; $action }
        }
    };
}

#[expect(clippy::useless_conversion, reason = "the macro has one body for four widths, and one of them is u64")]
impl Allocation {
    /// Zeroed memory; `None` where the host has no room. `sanitised`: what was written is kept track of.
    pub(crate) fn new(
        base: u64,
        bytes: u64,
        label: Arc<str>,
        role: Role,
        origin: Option<Origin>,
        sanitised: bool,
    ) -> Option<Self> {
        let words = zeroed_words(bytes.div_ceil(8))?;
        let written = sanitised.then(|| Bits::new(bytes));
        Some(Self { base, bytes, label, role, origin, freed: AtomicBool::new(false), words, written })
    }

    /// What remains of it when it has been freed, to name it when something reaches for it: all but its bytes.
    fn grave(&self) -> Self {
        Self {
            base: self.base,
            bytes: self.bytes,
            label: Arc::clone(&self.label),
            role: self.role,
            origin: self.origin.clone(),
            freed: AtomicBool::new(true),
            words: Box::new([]),
            written: None,
        }
    }

    /// A host pointer to the byte at `offset`.
    #[inline(always)]
    fn at(&self, offset: u64) -> *mut u8 {
        debug_assert!(offset <= self.bytes);
        // SAFETY: an offset into the words, or one past them.
        unsafe { self.words.as_ptr().cast::<u8>().cast_mut().add(offset as usize) }
    }

    /// Reads `bytes` (1, 2, 4 or 8) at `offset`.
    ///
    /// # Safety
    /// `offset + bytes` is at most `self.bytes`, and `offset` is a multiple of `bytes`.
    #[inline(always)]
    pub(crate) unsafe fn load(&self, offset: u64, bytes: u8) -> u64 {
        atomic_at!(self.at(offset), bytes, atomic => u64::from(atomic.load(Ordering::Relaxed)))
    }

    /// Writes the low `bytes` (1, 2, 4 or 8) of `value` at `offset`.
    ///
    /// # Safety
    /// As for [`Self::load`].
    #[inline(always)]
    pub(crate) unsafe fn store(&self, offset: u64, bytes: u8, value: u64) {
        atomic_at!(self.at(offset), bytes, atomic => atomic.store(value as _, Ordering::Relaxed));
    }

    /// Reads eight words at `offset`, each by itself atomic.
    ///
    /// # Safety
    /// `offset + 32` is at most `self.bytes`, `offset` is a multiple of 4, and `AVX2` is true only in code for processors
    /// that have it.
    #[inline(always)]
    pub(crate) unsafe fn load_words<const AVX2: bool>(&self, offset: u64) -> [u32; 8] {
        #[cfg(target_arch = "x86_64")]
        if AVX2 {
            // SAFETY: by the caller's promise.
            return unsafe { words::load(self.at(offset)) };
        }
        // SAFETY: by the caller's promise.
        std::array::from_fn(|lane| unsafe { self.load(offset + lane as u64 * 4, 4) } as u32)
    }

    /// Writes eight words at `offset`, each by itself atomic.
    ///
    /// # Safety
    /// As for [`Self::load_words`].
    #[inline(always)]
    pub(crate) unsafe fn store_words<const AVX2: bool>(&self, offset: u64, values: [u32; 8]) {
        #[cfg(target_arch = "x86_64")]
        if AVX2 {
            // SAFETY: by the caller's promise.
            return unsafe { words::store(self.at(offset), values) };
        }
        for (lane, value) in values.into_iter().enumerate() {
            // SAFETY: by the caller's promise.
            unsafe { self.store(offset + lane as u64 * 4, 4, value.into()) };
        }
    }

    /// Replaces the value at `offset` by `new` of it, atomically; returns the old one.
    ///
    /// # Safety
    /// As for [`Self::load`].
    pub(crate) unsafe fn update(&self, offset: u64, bytes: u8, new: impl Fn(u64) -> u64) -> u64 {
        atomic_at!(self.at(offset), bytes, atomic => {
            let mut old = atomic.load(Ordering::Relaxed);
            loop {
                let next = new(u64::from(old)) as _;
                match atomic.compare_exchange_weak(old, next, Ordering::SeqCst, Ordering::Relaxed) {
                    Ok(_) => return u64::from(old),
                    Err(found) => old = found,
                }
            }
        })
    }

    /// Copies bytes out, whatever their alignment.
    pub(crate) fn read(&self, offset: u64, into: &mut [u8]) {
        debug_assert!(offset + into.len() as u64 <= self.bytes);
        let mut at = offset;
        let mut rest = into;
        while !rest.is_empty() {
            let bytes = if at.is_multiple_of(8) && rest.len() >= 8 { 8 } else { 1 };
            let (now, later) = rest.split_at_mut(bytes);
            // SAFETY: inside the allocation by this function's contract, and aligned by the choice of `bytes`.
            let value = unsafe { self.load(at, bytes as u8) };
            now.copy_from_slice(&value.to_le_bytes()[..bytes]);
            at += bytes as u64;
            rest = later;
        }
    }

    pub(crate) fn written(&self) -> Option<&Bits> {
        self.written.as_ref()
    }

    /// All bytes of the range count as written, or as not.
    pub(crate) fn mark(&self, offset: u64, bytes: u64, written: bool) {
        let Some(bits) = &self.written else { return };
        let (first, last) = (offset.next_multiple_of(64), (offset + bytes) / 64 * 64);
        if first >= last {
            return bits.fill(offset, bytes, |_| written);
        }
        bits.fill(offset, first - offset, |_| written);
        for word in first / 64..last / 64 {
            bits.0[word as usize].store(if written { u64::MAX } else { 0 }, Ordering::Relaxed);
        }
        bits.fill(last, offset + bytes - last, |_| written);
    }

    /// Bytes from `offset` on count as written where those of `source` do.
    pub(crate) fn mark_like(&self, offset: u64, source: &Self, source_offset: u64, bytes: u64) {
        match (&self.written, &source.written) {
            (Some(to), Some(from)) => {
                // The ranges may overlap in one allocation.
                let has = |at: u64| from.word(at / 64) >> (at % 64) & 1 == 1;
                let all: Vec<bool> = (source_offset..source_offset + bytes).map(has).collect();
                to.fill(offset, bytes, |at| all[at as usize]);
            }
            _ => self.mark(offset, bytes, true),
        }
    }

    /// Copies bytes in, whatever their alignment.
    pub(crate) fn write(&self, offset: u64, from: &[u8]) {
        self.write_unmarked(offset, from);
        self.mark(offset, from.len() as u64, true);
    }

    /// [`Self::write`] that leaves it to the caller to say which bytes count as written.
    pub(crate) fn write_unmarked(&self, offset: u64, from: &[u8]) {
        debug_assert!(offset + from.len() as u64 <= self.bytes);
        let mut at = offset;
        let mut rest = from;
        while !rest.is_empty() {
            let bytes = if at.is_multiple_of(8) && rest.len() >= 8 { 8 } else { 1 };
            let (now, later) = rest.split_at(bytes);
            let mut value = [0; 8];
            value[..bytes].copy_from_slice(now);
            // SAFETY: inside the allocation by this function's contract, and aligned by the choice of `bytes`.
            unsafe { self.store(at, bytes as u8, u64::from_le_bytes(value)) };
            at += bytes as u64;
            rest = later;
        }
    }

    pub(crate) fn is_freed(&self) -> bool {
        self.freed.load(Ordering::Relaxed)
    }

    /// How `address` lies to this allocation, in words: "16 bytes past the end of `out`".
    pub(crate) fn describe(&self, address: u64) -> String {
        let asked = self.origin.as_ref().map_or_else(String::new, |Origin { block, thread, .. }| {
            let ([bx, by, bz], [tx, ty, tz]) = (block, thread);
            format!(" by block ({bx}, {by}, {bz}), thread ({tx}, {ty}, {tz})")
        });
        let name = format!("`{}`{asked} ({} at {:#x})", self.label, plural(self.bytes), self.base);
        let end = self.base + self.bytes;
        match address {
            _ if address < self.base => format!("{} before {name}", plural(self.base - address)),
            _ if address == end => format!("just past the end of {name}"),
            _ if address > end => format!("{} past the end of {name}", plural(address - end)),
            _ => format!("{} into {name}", plural(address - self.base)),
        }
    }
}

impl std::fmt::Debug for Allocation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} ({} bytes at {:#x})", self.label, self.bytes, self.base)
    }
}

/// Allocations by address: the live ones and the last [`GRAVES`] that were freed, without their bytes.
#[derive(Debug, Default)]
pub(crate) struct Table {
    by_base: BTreeMap<u64, Arc<Allocation>>,
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

    /// Marks an allocation as freed; false if it was before.
    pub(crate) fn bury(&mut self, allocation: &Allocation) -> bool {
        if allocation.freed.swap(true, Ordering::Relaxed) {
            return false;
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

/// Hands out addresses, each to one allocation for ever.
#[derive(Debug)]
pub(crate) struct Addresses(AtomicU64);

impl Addresses {
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

#[derive(Debug, Default)]
struct State {
    allocations: Table,
    in_use: u64,
    peak: u64,
    live: usize,
    /// What a launch gets, until an allocation comes or goes.
    snapshot: Option<Arc<Snapshot>>,
}

/// All memory of a device.
#[derive(Debug)]
pub(crate) struct Memory {
    total: u64,
    /// Which bytes were written is kept track of.
    sanitised: bool,
    addresses: Arc<Addresses>,
    /// What the host allocates.
    state: RwLock<State>,
    /// What kernels allocate.
    heap: Heap,
}

/// The allocations as a launch sees them, sorted by address.
pub(crate) type Snapshot = Vec<Arc<Allocation>>;

/// Freed allocations whose addresses are still recognised.
const GRAVES: usize = 4096;

impl Memory {
    pub(crate) fn new(total: u64, sanitised: bool) -> Self {
        let addresses = Arc::new(Addresses(AtomicU64::new(FIRST)));
        let heap = Heap::new(Arc::clone(&addresses), sanitised);
        Self { total, sanitised, addresses, state: RwLock::default(), heap }
    }

    fn read_state(&self) -> std::sync::RwLockReadGuard<'_, State> {
        self.state.read().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    pub(crate) fn alloc(&self, bytes: u64, label: &str, role: Role) -> Result<Arc<Allocation>, MemoryError> {
        let mut state = self.state.write().unwrap_or_else(std::sync::PoisonError::into_inner);
        if bytes > self.total - state.in_use {
            return Err(MemoryError::OutOfMemory { requested: bytes, in_use: state.in_use, total: self.total });
        }
        let base = self.addresses.claim(bytes, ALIGN);
        let allocation = Allocation::new(base, bytes, label.into(), role, None, self.sanitised);
        let allocation = Arc::new(allocation.ok_or(MemoryError::HostOutOfMemory { requested: bytes })?);
        state.in_use += bytes;
        state.peak = state.peak.max(state.in_use);
        state.live += 1;
        state.snapshot = None;
        state.allocations.insert(Arc::clone(&allocation));
        Ok(allocation)
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
        state.in_use -= allocation.bytes;
        state.live -= 1;
        state.snapshot = None;
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

    /// The allocation that holds `bytes` bytes at `pointer`, and the offset there.
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

    /// What has been allocated and not freed.
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
        if let Some(snapshot) = &self.read_state().snapshot {
            return Arc::clone(snapshot);
        }
        let mut state = self.state.write().unwrap_or_else(std::sync::PoisonError::into_inner);
        let snapshot = Arc::new(state.allocations.by_base.values().cloned().collect::<Snapshot>());
        state.snapshot = Some(Arc::clone(&snapshot));
        snapshot
    }
}

/// Zeroed words, or `None` where the host has no room. The pages behind them are not touched yet.
fn zeroed_words(count: u64) -> Option<Box<[UnsafeCell<u64>]>> {
    let layout = std::alloc::Layout::array::<u64>(usize::try_from(count).ok()?).ok()?;
    if layout.size() == 0 {
        return Some(Box::new([]));
    }
    // SAFETY: the layout is not empty.
    let pointer = unsafe { std::alloc::alloc_zeroed(layout) }.cast::<UnsafeCell<u64>>();
    if pointer.is_null() {
        return None;
    }
    // SAFETY: `count` words of zeros, allocated with the layout that a boxed slice of them has.
    Some(unsafe { Box::from_raw(std::ptr::slice_from_raw_parts_mut(pointer, count as usize)) })
}

/// Which allocation an address belongs to, or is nearest to.
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
