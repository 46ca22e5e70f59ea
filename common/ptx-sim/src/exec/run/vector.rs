//! Words of all lanes at once: the short paths of loads and stores whose lanes are in order.

use crate::exec::state::address::register_of;
use crate::exec::state::rows::{Rows, Shape};
use crate::ir::{Access, R};
use crate::lanes::{each, lanes};
use crate::memory::Allocation;

/// Words of memory, by byte offset.
///
/// # Safety
/// The caller has checked that all of the words lie in the memory and are aligned, and passes true for `AVX2` only in
/// code for processors that have it.
pub(crate) trait Words: Copy {
    unsafe fn word(self, offset: u64) -> u32;
    unsafe fn set_word(self, offset: u64, value: u32);
    /// Neighbouring ones.
    unsafe fn eight<const AVX2: bool>(self, offset: u64) -> [u32; 8];
    unsafe fn set_eight<const AVX2: bool>(self, offset: u64, values: [u32; 8]);
    unsafe fn gather<const AVX2: bool>(self, offsets: &[u32; 32], at: usize) -> [u32; 32];
}

/// A block's shared memory: one worker at a time uses it.
#[derive(Clone, Copy)]
pub(crate) struct SharedWords(pub(crate) *mut u8);

impl Words for SharedWords {
    #[inline(always)]
    unsafe fn word(self, offset: u64) -> u32 {
        // SAFETY: by the caller's promise, here and below.
        unsafe { *self.0.add(offset as usize).cast() }
    }

    #[inline(always)]
    unsafe fn set_word(self, offset: u64, value: u32) {
        // SAFETY: as above.
        unsafe { *self.0.add(offset as usize).cast() = value }
    }

    #[inline(always)]
    unsafe fn eight<const AVX2: bool>(self, offset: u64) -> [u32; 8] {
        // SAFETY: as above.
        unsafe { *self.0.add(offset as usize).cast() }
    }

    #[inline(always)]
    unsafe fn set_eight<const AVX2: bool>(self, offset: u64, values: [u32; 8]) {
        // SAFETY: as above.
        unsafe { *self.0.add(offset as usize).cast() = values }
    }

    #[inline(always)]
    unsafe fn gather<const AVX2: bool>(self, offsets: &[u32; 32], at: usize) -> [u32; 32] {
        // SAFETY: as above.
        unsafe { gather32::<AVX2>(self.0.add(at * 4), offsets) }
    }
}

impl Words for &Allocation {
    #[inline(always)]
    unsafe fn word(self, offset: u64) -> u32 {
        // SAFETY: by the caller's promise, here and below.
        unsafe { self.load(offset, 4) as u32 }
    }

    #[inline(always)]
    unsafe fn set_word(self, offset: u64, value: u32) {
        // SAFETY: as above.
        unsafe { self.store(offset, 4, value.into()) }
    }

    #[inline(always)]
    unsafe fn eight<const AVX2: bool>(self, offset: u64) -> [u32; 8] {
        // SAFETY: as above.
        unsafe { self.load_words::<AVX2>(offset) }
    }

    #[inline(always)]
    unsafe fn set_eight<const AVX2: bool>(self, offset: u64, values: [u32; 8]) {
        // SAFETY: as above.
        unsafe { self.store_words::<AVX2>(offset, values) }
    }

    #[inline(always)]
    unsafe fn gather<const AVX2: bool>(self, offsets: &[u32; 32], at: usize) -> [u32; 32] {
        // SAFETY: as above.
        each(|lane| unsafe { self.word(u64::from(offsets[lane]) + at as u64 * 4) })
    }
}

/// Loads words of a memory that has the addresses `[base, base + length)`; false if the addresses do not allow it.
#[inline(always)]
pub(crate) fn load_words<W: Words, const AVX2: bool>(
    memory: W,
    rows: Rows,
    access: &Access,
    mask: u32,
    base: u64,
    length: u64,
) -> bool {
    let Some((row, wide)) = register_of(&access.address) else { return false };
    let count = usize::from(access.count);
    let bytes = 4 * u64::from(access.count);
    let offset = |lane| rows.lane_of(row, wide, lane).wrapping_add(access.address.offset as u64).wrapping_sub(base);
    let fits = |first: u64, size: u64| first < length && length - first >= size && first & (bytes - 1) == 0;
    let shape = rows.shape(row, wide);
    let first = offset(0);
    if shape == Shape::Same && fits(first, bytes) {
        for at in 0..count {
            if access.rows[at] != R::MAX {
                // SAFETY: checked by `fits`.
                let value = unsafe { memory.word(first + at as u64 * 4) };
                rows.set(access.rows[at], mask, [value; 32]);
            }
        }
        return true;
    }
    let d = access.rows[0];
    if shape == Shape::InOrder && count == 1 && fits(first, 128) && d != R::MAX {
        let mut values = [0; 32];
        for (at, eight) in values.as_chunks_mut::<8>().0.iter_mut().enumerate() {
            // SAFETY: checked by `fits`.
            *eight = unsafe { memory.eight::<AVX2>(first + at as u64 * 32) };
        }
        rows.set(d, mask, values);
        return true;
    }
    if shape == Shape::Grouped && count == 1 && d != R::MAX {
        let mut values = [0; 32];
        let mut all = true;
        for (at, eight) in values.as_chunks_mut::<8>().0.iter_mut().enumerate() {
            let first = offset(at * 8);
            let same = first == offset(at * 8 + 1);
            if fits(first, if same { 4 } else { 32 }) {
                // SAFETY: checked by `fits`.
                *eight = if same { [unsafe { memory.word(first) }; 8] } else { unsafe { memory.eight::<AVX2>(first) } };
            } else {
                all = false;
            }
        }
        if all {
            rows.set(d, mask, values);
            return true;
        }
    }
    let mut addresses = if wide { rows.get64(row) } else { rows.get(row).map(u64::from) };
    addresses = each(|lane| addresses[lane].wrapping_add(access.address.offset as u64));
    let Some(offsets) = in_order(&addresses, base, length, bytes, mask) else { return false };
    for at in 0..count {
        if access.rows[at] != R::MAX {
            // SAFETY: `in_order` checked range and alignment of every lane; lanes outside the mask read offset 0.
            rows.set(access.rows[at], mask, unsafe { memory.gather::<AVX2>(&offsets, at) });
        }
    }
    true
}

/// Same as [`load_words`], for stores.
#[inline(always)]
pub(crate) fn store_words<W: Words, const AVX2: bool>(
    memory: W,
    rows: Rows,
    access: &Access,
    mask: u32,
    base: u64,
    length: u64,
) -> bool {
    let Some((row, wide)) = register_of(&access.address) else { return false };
    let bytes = 4 * u64::from(access.count);
    let mut addresses = if wide { rows.get64(row) } else { rows.get(row).map(u64::from) };
    addresses = each(|lane| addresses[lane].wrapping_add(access.address.offset as u64));
    let first = addresses[0].wrapping_sub(base);
    if access.count == 1
        && mask == u32::MAX
        && rows.shape(row, wide) == Shape::InOrder
        && first < length
        && length - first >= 128
        && first & 3 == 0
    {
        let values = rows.get(access.rows[0]);
        for (at, eight) in values.as_chunks::<8>().0.iter().enumerate() {
            // SAFETY: all 32 words were checked.
            unsafe { memory.set_eight::<AVX2>(first + at as u64 * 32, *eight) };
        }
        return true;
    }
    let Some(offsets) = in_order(&addresses, base, length, bytes, mask) else { return false };
    for at in 0..usize::from(access.count) {
        let values = rows.get(access.rows[at]);
        for lane in lanes(mask) {
            // SAFETY: `in_order` checked range and alignment of every lane of the mask.
            unsafe { memory.set_word(u64::from(offsets[lane]) + at as u64 * 4, values[lane]) };
        }
    }
    true
}

/// Offsets from `base` of the lanes of `mask`, if all of them lie in its first 2 GiB, inside `length` and aligned; other
/// lanes get offset 0.
#[inline(always)]
fn in_order(addresses: &[u64; 32], base: u64, length: u64, bytes: u64, mask: u32) -> Option<[u32; 32]> {
    if length < bytes || length - bytes > i32::MAX as u64 {
        return None;
    }
    let last = (length - bytes) as u32;
    let mut offsets: [u64; 32] = each(|lane| addresses[lane].wrapping_sub(base));
    if mask != u32::MAX {
        offsets = each(|lane| offsets[lane] & u64::from(mask >> lane & 1).wrapping_neg());
    }
    let narrow: [u32; 32] = each(|lane| offsets[lane] as u32);
    // The top bit of `past` tells whether an offset is beyond `last`, or beyond 2 GiB.
    let past: [u32; 32] = each(|lane| last.wrapping_sub(narrow[lane]) | narrow[lane]);
    let any = all_bits(&offsets);
    (any >> 32 == 0 && any & (bytes - 1) == 0 && all_bits(&past) >> 31 == 0).then_some(narrow)
}

/// The union of all lanes' bits. Halving keeps the sums in vector registers until the last few.
#[inline(always)]
fn all_bits<T: Copy + Default + std::ops::BitOr<Output = T>>(values: &[T; 32]) -> T {
    let mut half = [T::default(); 16];
    for at in 0..16 {
        half[at] = values[at] | values[at + 16];
    }
    let mut quarter = [T::default(); 8];
    for at in 0..8 {
        quarter[at] = half[at] | half[at + 8];
    }
    quarter.iter().fold(T::default(), |sum, bits| sum | *bits)
}

/// 32 words at byte offsets from `memory`.
///
/// # Safety
/// Each offset is that of a readable, aligned word, and `AVX2` is true only in code for processors that have it.
#[inline(always)]
unsafe fn gather32<const AVX2: bool>(memory: *const u8, offsets: &[u32; 32]) -> [u32; 32] {
    #[cfg(target_arch = "x86_64")]
    if AVX2 {
        use std::arch::x86_64::{__m256i, _mm256_i32gather_epi32, _mm256_loadu_si256, _mm256_storeu_si256};
        let mut values = [0; 32];
        for at in (0..32).step_by(8) {
            // SAFETY: by the caller's promise; the loads and stores take any alignment.
            unsafe {
                let index = _mm256_loadu_si256(offsets.as_ptr().add(at).cast::<__m256i>());
                let found = _mm256_i32gather_epi32::<1>(memory.cast(), index);
                _mm256_storeu_si256(values.as_mut_ptr().add(at).cast::<__m256i>(), found);
            }
        }
        return values;
    }
    // SAFETY: by the caller's promise.
    each(|lane| unsafe { *memory.add(offsets[lane] as usize).cast::<u32>() })
}
