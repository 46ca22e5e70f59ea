//! One allocation and its bytes.

use std::cell::UnsafeCell;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::table::ALIGN;
use super::undefined::{Stored, UndefinedBits};
use crate::fault::Fault;

/// Formats a number of bytes in words.
pub(crate) fn plural(bytes: u64) -> String {
    if bytes == 1 { "1 byte".to_owned() } else { format!("{bytes} bytes") }
}

/// Purpose of an allocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// Requested by the host.
    Buffer,
    /// Requested by a thread of a kernel: a block of the heap.
    Block,
    /// A module's `.global` variable.
    Variable,
    /// A module's `.const` variable: kernels must not write it.
    Constant,
}

/// Where an allocation lies.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Placement {
    /// At an address of the device, which is no address of the host.
    Device,
    /// At its address on the host, which the host uses too.
    Shared,
    /// In memory of the host that exists, at its address, a multiple of 16. Valid until the allocation is freed.
    Host(*mut u8),
}

/// The thread that asked for a block of the heap.
#[derive(Clone, Debug)]
pub(crate) struct Origin {
    /// Location of the request, shared by all blocks allocated there: the finding for a block that is never freed, without
    /// thread, address and message.
    pub leak: Arc<Fault>,
    /// `blockIdx`.
    pub block: [u32; 3],
    /// `threadIdx`.
    pub thread: [u32; 3],
}

/// One allocation and its bytes.
pub(crate) struct Allocation {
    pub base: u64,
    /// Bytes requested; the memory that backs them is rounded up to words.
    pub bytes: u64,
    pub label: Arc<str>,
    pub role: Role,
    /// The thread that requested it, if a kernel did.
    pub origin: Option<Origin>,
    pub(super) freed: AtomicBool,
    /// Its first byte, in `_words` unless the memory is the host's own.
    data: *mut u8,
    _words: Box<[UnsafeCell<u64>]>,
    /// The allocation whose memory it shows at another address.
    source: Option<Arc<Allocation>>,
    /// Bits of the bytes that were ever written; only in sanitised memory.
    written: Option<Bits>,
    /// Undefined values that were stored, which leave their bytes unwritten.
    undefined: Mutex<UndefinedBits>,
}

/// Undefined values of one source that the host would read.
pub(crate) struct UndefinedRead {
    pub source: Arc<Fault>,
    /// Offset of the first byte.
    pub first: u64,
    /// Number of words, of 4 bytes, that hold some of them.
    pub words: u64,
}

/// A bit for each byte of an allocation.
pub(crate) struct Bits(Box<[AtomicU64]>);

impl Bits {
    /// A field of zeros; `None` if the host has no room.
    fn new(count: u64) -> Option<Self> {
        let words = Box::into_raw(zeroed_words(count.div_ceil(64))?);
        // SAFETY: a boxed slice of words, which atomic ones have the size and alignment of (each is aligned to eight bytes).
        Some(Self(unsafe { Box::from_raw(words as *mut [AtomicU64]) }))
    }

    pub(crate) fn word(&self, at: u64) -> u64 {
        self.0[at as usize].load(Ordering::Relaxed)
    }

    pub(crate) fn set_word(&self, at: u64, bits: u64) {
        if self.word(at) & bits != bits {
            self.0[at as usize].fetch_or(bits, Ordering::Relaxed);
        }
    }

    /// Replaces the bits `at..at + count` by those that `bits` gives from an offset among them on, lowest first: up to 64.
    fn fill(&self, at: u64, count: u64, bits: impl Fn(u64) -> u64) {
        let (mut next, end) = (at, at + count);
        while next < end {
            let (word, shift, until) = (&self.0[(next / 64) as usize], next % 64, end.min((next / 64 + 1) * 64));
            let (mask, bits) = (u64::MAX >> (64 - (until - next)) << shift, bits(next - at) << shift);
            if mask == u64::MAX {
                word.store(bits, Ordering::Relaxed);
            } else {
                word.fetch_or(bits & mask, Ordering::Relaxed);
                word.fetch_and(bits | !mask, Ordering::Relaxed);
            }
            next = until;
        }
    }
}

// SAFETY: the words are only reached through atomic operations (`Allocation::load` …), never through references.
unsafe impl Sync for Allocation {}
// SAFETY: the words belong to the allocation, or are valid for all threads ([`Placement::Host`]).
unsafe impl Send for Allocation {}

/// Eight words at a time. A vector move takes each aligned word as one, so these are eight relaxed loads or stores, which
/// the compiler would not combine: as assembly, where a data race with another worker is outside Rust's rules.
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
    /// Same as [`load`].
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
    /// Zeroed memory; `None` if the host has no room. `sanitised`: writes are tracked.
    pub(crate) fn new(
        base: u64,
        bytes: u64,
        label: Arc<str>,
        role: Role,
        origin: Option<Origin>,
        sanitised: bool,
    ) -> Option<Self> {
        let words = zeroed_words(bytes.div_ceil(8))?;
        let written = if sanitised { Some(Bits::new(bytes)?) } else { None };
        let data = words.as_ptr().cast::<u8>().cast_mut();
        let (freed, undefined) = (AtomicBool::new(false), Mutex::default());
        let source = None;
        Some(Self { base, bytes, label, role, origin, freed, data, _words: words, source, written, undefined })
    }

    /// Zeroed memory at its address on the host; `None` if the host has no room.
    pub(super) fn shared(bytes: u64, label: Arc<str>, role: Role) -> Option<Self> {
        let words = zeroed_words((bytes + ALIGN).div_ceil(8))?;
        let start = words.as_ptr().cast::<u8>().cast_mut();
        let data = start.wrapping_add((start as u64).next_multiple_of(ALIGN) as usize - start as usize);
        Some(Self { _words: words, ..Self::of_host(data, bytes, label, role) })
    }

    /// Memory of the host, as [`Placement::Host`] asks for it. What the host writes is not seen, so all of it counts as written.
    pub(super) fn of_host(data: *mut u8, bytes: u64, label: Arc<str>, role: Role) -> Self {
        let (base, freed, undefined) = (data as u64, AtomicBool::new(false), Mutex::default());
        let (words, source) = (Box::new([]) as Box<[_]>, None);
        Self { base, bytes, label, role, origin: None, freed, data, _words: words, source, written: None, undefined }
    }

    /// The first bytes of another allocation, at an address of its own. What is written by way of the other is not seen, so all of it
    /// counts as written.
    pub(super) fn view(base: u64, bytes: u64, label: Arc<str>, source: Arc<Self>) -> Self {
        debug_assert!(bytes <= source.bytes);
        let data = source.data;
        Self { base, source: Some(source), ..Self::of_host(data, bytes, label, Role::Buffer) }
    }

    /// Whether it has no memory of its own, but another's.
    pub(super) fn is_view(&self) -> bool {
        self.source.is_some()
    }

    /// Whether something else may have its address once it is freed: the host chose it.
    pub(super) fn is_reusable(&self) -> bool {
        self.is_view() || self.data as u64 == self.base
    }

    /// Record of a freed allocation, to name it in late accesses: all but its bytes.
    pub(super) fn grave(&self) -> Self {
        Self {
            base: self.base,
            bytes: self.bytes,
            label: Arc::clone(&self.label),
            role: self.role,
            origin: self.origin.clone(),
            freed: AtomicBool::new(true),
            data: std::ptr::null_mut(),
            _words: Box::new([]),
            source: None,
            written: None,
            undefined: Mutex::default(),
        }
    }

    /// A host pointer to the byte at `offset`.
    #[inline(always)]
    fn at(&self, offset: u64) -> *mut u8 {
        debug_assert!(offset <= self.bytes);
        // SAFETY: an offset into the memory, or one past it.
        unsafe { self.data.add(offset as usize) }
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
    /// Same as [`Self::load`].
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
    /// Same as [`Self::load_words`].
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
    /// Same as [`Self::load`].
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

    /// Copies bytes out, at any alignment.
    pub(crate) fn read(&self, offset: u64, into: &mut [u8]) {
        let (first, rest) = into.split_at_mut(self.before_words(offset, into.len()));
        let (words, last) = rest.as_chunks_mut();
        let words_at = offset + first.len() as u64;
        let last_at = words_at + 8 * words.len() as u64;
        for (at, byte) in (offset..).zip(first).chain((last_at..).zip(last)) {
            // SAFETY: inside the allocation by this function's contract.
            *byte = unsafe { self.load(at, 1) } as u8;
        }
        for (at, word) in (words_at..).step_by(8).zip(words) {
            // SAFETY: as above, and aligned.
            *word = unsafe { self.load(at, 8) }.to_le_bytes();
        }
    }

    /// Number of bytes before the first whole word of `length` bytes at `offset`, which have to be inside.
    fn before_words(&self, offset: u64, length: usize) -> usize {
        debug_assert!(offset + length as u64 <= self.bytes);
        ((offset.next_multiple_of(8) - offset) as usize).min(length)
    }

    pub(crate) fn written(&self) -> Option<&Bits> {
        self.written.as_ref()
    }

    /// Marks all bytes of the range as written, or as unwritten.
    pub(crate) fn mark(&self, offset: u64, bytes: u64, written: bool) {
        if let Some(bits) = &self.written {
            bits.fill(offset, bytes, |_| if written { u64::MAX } else { 0 });
        }
    }

    /// Marks bytes from `offset` on as written where those of `source` are.
    pub(crate) fn mark_like(&self, offset: u64, source: &Self, source_offset: u64, bytes: u64) {
        match (&self.written, &source.written) {
            (Some(to), Some(from)) => {
                // The ranges may overlap in one allocation.
                let first = source_offset / 64;
                let held: Vec<u64> = (first..(source_offset + bytes).div_ceil(64)).map(|at| from.word(at)).collect();
                to.fill(offset, bytes, |at| {
                    let at = source_offset - first * 64 + at;
                    let word = |at: u64| held.get(at as usize).copied().unwrap_or(0);
                    word(at / 64) >> (at % 64) | word(at / 64 + 1) << 1 << (63 - at % 64)
                });
                let range = source_offset..source_offset + bytes;
                let all: Vec<(u64, u8, Arc<Fault>, bool)> = {
                    let stored = source.undefined();
                    let bytes = stored.bytes(range.start / 4..range.end.div_ceil(4), 1);
                    let bytes =
                        bytes.map(|byte| (byte.word * 4 + byte.byte, byte.bits, Arc::clone(byte.source), byte.whole));
                    bytes.filter(|(at, ..)| range.contains(at)).collect()
                };
                let mut undefined = self.undefined();
                undefined.forget(offset.div_ceil(4)..((offset + bytes) / 4).max(offset.div_ceil(4)), 1);
                for (at, bits, source, whole) in all {
                    let at = at - source_offset + offset;
                    let stored = Stored { bits: &[bits], source: &source, whole };
                    undefined.store(at, (at / 4, 1), &stored, |_| true);
                }
            }
            _ => self.mark(offset, bytes, true),
        }
    }

    /// Undefined values that were stored here, locked.
    pub(crate) fn undefined(&self) -> MutexGuard<'_, UndefinedBits> {
        self.undefined.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records that the value just stored at `offset` is undefined. `has_room` as for [`UndefinedBits::store`].
    pub(crate) fn store_undefined(&self, offset: u64, stored: &Stored<'_>, has_room: impl Fn(u64) -> bool) {
        if let Some(written) = &self.written
            && self.undefined().store(offset, (offset / 4, 1), stored, has_room)
        {
            written.fill(offset, stored.bits.len() as u64, |at| {
                let bytes = stored.bits[at as usize..].iter().take(64).rev();
                bytes.fold(0, |written, bits| written << 1 | u64::from(*bits == 0))
            });
        }
    }

    /// The undefined values that the host would read in a range, one for each source. Padding is not among them: bytes that
    /// were stored beside defined ones, as a part of a larger value.
    pub(crate) fn undefined_reads(&self, range: Range<u64>) -> Vec<UndefinedRead> {
        let Some(written) = &self.written else { return Vec::new() };
        let mut found: Vec<UndefinedRead> = Vec::new();
        let mut last = None;
        for byte in self.undefined().bytes(range.start / 4..range.end.div_ceil(4), 1) {
            let (at, source) = (byte.word * 4 + byte.byte, byte.source);
            if !range.contains(&at) || !byte.whole || written.word(at / 64) >> (at % 64) & 1 == 1 {
                continue;
            }
            let is_new = last.replace(at / 4) != Some(at / 4);
            match found.iter_mut().find(|read| Arc::ptr_eq(&read.source, source)) {
                Some(read) => read.words += u64::from(is_new),
                None => found.push(UndefinedRead { source: Arc::clone(source), first: at, words: 1 }),
            }
        }
        found
    }

    /// Takes the undefined values that were stored in a range as defined from now on.
    pub(crate) fn define(&self, range: Range<u64>) {
        let Some(written) = &self.written else { return };
        for byte in self.undefined().bytes(range.start / 4..range.end.div_ceil(4), 1) {
            let at = byte.word * 4 + byte.byte;
            if range.contains(&at) {
                written.set_word(at / 64, 1 << (at % 64));
            }
        }
    }

    /// Copies bytes in, at any alignment.
    pub(crate) fn write(&self, offset: u64, from: &[u8]) {
        self.write_unmarked(offset, from);
        self.mark(offset, from.len() as u64, true);
    }

    /// [`Self::write`], but the caller marks the written bytes.
    pub(crate) fn write_unmarked(&self, offset: u64, from: &[u8]) {
        let (first, rest) = from.split_at(self.before_words(offset, from.len()));
        let (words, last) = rest.as_chunks();
        let words_at = offset + first.len() as u64;
        let last_at = words_at + 8 * words.len() as u64;
        for (at, byte) in (offset..).zip(first).chain((last_at..).zip(last)) {
            // SAFETY: inside the allocation by this function's contract.
            unsafe { self.store(at, 1, (*byte).into()) };
        }
        for (at, word) in (words_at..).step_by(8).zip(words) {
            // SAFETY: as above, and aligned.
            unsafe { self.store(at, 8, u64::from_le_bytes(*word)) };
        }
    }

    pub(crate) fn is_freed(&self) -> bool {
        self.freed.load(Ordering::Relaxed)
    }

    /// Position of `address` relative to this allocation, in words: "16 bytes past the end of `out`".
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

/// Zeroed words, or `None` if the host has no room. Their pages are not touched yet.
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether each byte is written.
    fn written(allocation: &Allocation) -> Vec<bool> {
        let bits = allocation.written().unwrap();
        (0..allocation.bytes).map(|at| bits.word(at / 64) >> (at % 64) & 1 == 1).collect()
    }

    #[test]
    fn marks_follow_copies_at_any_offset() {
        let allocation = || Allocation::new(0, 1000, "a".into(), Role::Buffer, None, true).unwrap();
        let source = allocation();
        for (at, bytes) in [(0, 1), (3, 64), (130, 200), (400, 1), (448, 64), (999, 1)] {
            source.mark(at, bytes, true);
        }
        source.mark(200, 70, false);
        let mut expected = written(&source);
        for (to, from, bytes) in [(0, 0, 1000), (1, 0, 999), (64, 3, 130), (5, 129, 63), (700, 131, 300), (0, 9, 0)] {
            let other = allocation();
            other.mark_like(to, &source, from, bytes);
            let moved: Vec<bool> = expected[from as usize..][..bytes as usize].to_vec();
            assert_eq!(written(&other)[to as usize..][..bytes as usize], moved, "{bytes} from {from} to {to}");
            assert_eq!(written(&other).iter().filter(|bit| **bit).count(), moved.iter().filter(|bit| **bit).count());
            source.mark_like(to, &source, from, bytes);
            expected[to as usize..][..bytes as usize].copy_from_slice(&moved);
            assert_eq!(written(&source), expected, "{bytes} from {from} to {to} within");
        }
    }
}
