//! Shadows of allocations, and the bits of their bytes.

use std::collections::HashMap;

use crate::exec::state::shadow::*;
use crate::limits::Account;
use crate::memory::{Allocation, Bits, GAP};

/// Shadows of allocations.
#[derive(Debug, Default)]
pub(crate) struct Shadows {
    pub(crate) all: Vec<Shadow>,
    /// Index of an allocation's shadow, by address.
    known: HashMap<u64, usize>,
    /// Free indices.
    free: Vec<usize>,
    /// Recent look-ups: start of an allocation + 1, and index of its shadow.
    recent: [(u64, usize); 8],
}

impl Shadows {
    /// Index of an allocation's shadow; `None` if the launch's account has no room for one.
    #[inline(always)]
    pub(crate) fn index(&mut self, allocation: &Allocation, account: &Account<'_>) -> Option<usize> {
        let recent = self.recent[(allocation.base / GAP) as usize % 8];
        if recent.0 == allocation.base + 1 { Some(recent.1) } else { self.find(allocation, account) }
    }

    #[inline(never)]
    fn find(&mut self, allocation: &Allocation, account: &Account<'_>) -> Option<usize> {
        let base = allocation.base;
        let index = match self.known.get(&base) {
            Some(index) => *index,
            None => {
                let shadow = Shadow::new(allocation.bytes, account)?;
                let index = self.free.pop().unwrap_or_else(|| {
                    self.all.push(Shadow::default());
                    self.all.len() - 1
                });
                self.all[index] = shadow;
                self.known.insert(base, index);
                index
            }
        };
        self.recent[(base / GAP) as usize % 8] = (base + 1, index);
        Some(index)
    }

    pub(super) fn remove(&mut self, base: u64, account: &Account<'_>) {
        if let Some(index) = self.known.remove(&base) {
            std::mem::take(&mut self.all[index]).give_back(account);
            self.free.push(index);
            self.recent = Default::default();
        }
    }
}

/// The words of 64 bits that `bytes` bits from `at` on lie in, and the affected bits of each.
#[inline(always)]
pub(super) fn for_words((at, bytes): (u64, u64), mut action: impl FnMut(u64, u64)) {
    let end = at + bytes;
    for word in at / 64..end.div_ceil(64) {
        let from = at.saturating_sub(word * 64);
        let until = (end - word * 64).min(64);
        action(word, bits_of(until) & !bits_of(from));
    }
}

/// Whether all those bits are set.
#[inline(always)]
pub(super) fn all_set(word: impl Fn(u64) -> u64, range: (u64, u64)) -> bool {
    let mut all = true;
    for_words(range, |at, bits| all &= !word(at) & bits == 0);
    all
}

/// A mask with one low bit for each byte of an access.
pub(crate) fn bits_of(bytes: u64) -> u64 {
    if bytes >= 64 { u64::MAX } else { (1 << bytes) - 1 }
}

/// A bit for each byte of an allocation.
impl Bits {
    /// Whether all bits of `at..at + count` are set; `count` ≤ 32, and the range does not cross a word of 64.
    pub(super) fn has_all(&self, at: u64, count: u64) -> bool {
        !self.word(at / 64) >> (at % 64) & bits_of(count) == 0
    }

    pub(super) fn set(&self, at: u64, count: u64) {
        self.set_word(at / 64, bits_of(count) << (at % 64));
    }
}
