//! Bytes of its allocations that a sanitised launch accessed, for code that orders launches.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::exec::state::launch::Launch;
use crate::limits::{Account, Use};
use crate::memory::{Allocation, DevicePtr};

/// Kind of access, as an index.
#[derive(Clone, Copy, Debug)]
pub(crate) enum How {
    Read,
    Write,
    Atomic,
}

/// A bit for each byte of an allocation, for each way.
#[derive(Debug)]
struct Bytes {
    label: String,
    words: [Vec<u64>; 3],
}

/// The bytes of an allocation that a launch accessed, as ascending ranges from its start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TouchedMemory {
    /// Start of the allocation.
    pub pointer: DevicePtr,
    /// Name.
    pub label: String,
    /// Bytes that were read.
    pub read: Vec<Range<u64>>,
    /// Bytes that were written.
    pub written: Vec<Range<u64>>,
    /// Bytes that atomics read and wrote.
    pub atomic: Vec<Range<u64>>,
}

/// Bytes touched so far.
#[derive(Debug, Default)]
pub(crate) struct TouchedBytes(BTreeMap<u64, Bytes>);

impl TouchedBytes {
    /// Records an access to bytes inside the allocation. If the launch's account has no room, it is left out.
    pub(crate) fn note(&mut self, allocation: &Allocation, how: How, [offset, bytes]: [u64; 2], account: &Account<'_>) {
        let count = allocation.bytes.div_ceil(64);
        let entry = match self.0.entry(allocation.base) {
            std::collections::btree_map::Entry::Occupied(entry) => entry.into_mut(),
            std::collections::btree_map::Entry::Vacant(entry) => {
                if !account.take(Use::Shadow, 3 * 8 * count) {
                    return;
                }
                let words = || vec![0; count as usize];
                entry.insert(Bytes { label: allocation.label.to_string(), words: [words(), words(), words()] })
            }
        };
        let words = &mut entry.words[how as usize];
        let (mut at, end) = (offset, (offset + bytes).min(allocation.bytes));
        while at < end {
            let here = (64 - at % 64).min(end - at);
            let bits = if here == 64 { u64::MAX } else { ((1 << here) - 1) << (at % 64) };
            words[(at / 64) as usize] |= bits;
            at += here;
        }
    }

    /// Converts to ranges.
    pub(crate) fn into_ranges(self) -> Vec<TouchedMemory> {
        let one = |(base, Bytes { label, words: [read, written, atomic] }): (u64, Bytes)| TouchedMemory {
            pointer: DevicePtr(base),
            label,
            read: ranges(&read),
            written: ranges(&written),
            atomic: ranges(&atomic),
        };
        self.0.into_iter().map(one).collect()
    }
}

/// The runs of ones.
fn ranges(words: &[u64]) -> Vec<Range<u64>> {
    let mut all: Vec<Range<u64>> = Vec::new();
    let mut add = |from: u64, to: u64| match all.last_mut() {
        Some(last) if last.end == from => last.end = to,
        _ => all.push(from..to),
    };
    for (i, &word) in words.iter().enumerate() {
        let base = 64 * i as u64;
        let mut rest = word;
        while rest != 0 {
            let from = rest.trailing_zeros();
            let run = (!(rest >> from)).trailing_zeros().min(64 - from);
            add(base + u64::from(from), base + u64::from(from + run));
            rest = if from + run == 64 { 0 } else { rest & (u64::MAX << (from + run)) };
        }
    }
    all
}

impl Launch<'_> {
    /// New record of touched bytes, if requested.
    pub(crate) fn new_touched(&self) -> Option<TouchedBytes> {
        self.touches.then(TouchedBytes::default)
    }
}

#[cfg(test)]
mod tests {
    use super::ranges;

    #[test]
    fn runs_of_bits_become_ranges_across_words() {
        assert_eq!(ranges(&[0, 0]), []);
        assert_eq!(ranges(&[u64::MAX, u64::MAX, 1, 2]), [0..129, 193..194]);
        assert_eq!(ranges(&[0b0110_1001]), [0..1, 3..4, 5..7]);
        assert_eq!(ranges(&[1 << 63, 0, 1 << 63 | 1]), [63..64, 128..129, 191..192]);
    }
}
