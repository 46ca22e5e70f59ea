//! Lines of 128 bytes of a shadow: the common state of their cells, so that a plain access of a whole warp to
//! neighbouring words, the most frequent one, is checked and recorded once and not for each cell.
//!
//! The last such write of a line and two readers stand in the line's *slots* until another kind of access touches the line:
//! then they are entered into the cells. Between two barriers a tile is mostly either read or written, and after a barrier a
//! slot no longer matters. So most lines never have cells.

use super::shadow::{BlockShadow, PENDING, READ, Record, WRITE};
use crate::lanes::lanes;

/// Bytes of a line, in powers of two.
pub(crate) const LINE: u32 = 7;

/// Words of a line.
pub(crate) const WORDS: u64 = 32;

/// Accesses by more than one block.
const MIXED: u32 = u32::MAX;

/// The latest of some accesses.
#[derive(Clone, Copy, Debug, Default)]
struct Latest {
    moment: u32,
    /// The block that made all of them, or [`MIXED`].
    block: u32,
}

impl Latest {
    fn note(&mut self, moment: u32, block: u32, since: u32) {
        self.block = if self.moment <= since || self.block == block { block } else { MIXED };
        self.moment = self.moment.max(moment);
    }

    /// Whether none of them can race with the block's work from now on.
    #[inline(always)]
    fn is_past(self, shadow: &BlockShadow, number: u32, since: u32) -> bool {
        self.moment <= since || self.moment <= shadow.base && self.block == number
    }
}

/// A warp that accessed neighbouring words.
#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    /// Record name of the thread of the line's first word, if it were accessed; the next thread has the next word.
    first: u32,
    moment: u32,
    pc: u32,
    /// The words that it accessed; none: the slot is empty.
    words: u32,
}

/// Common state of the cells of a line.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Line {
    /// Writes, and all other accesses that a plain read may race with.
    writes: Latest,
    /// Reads that stand in the cells.
    reads: Latest,
    /// The last write that is not in the cells. It came before the readers in the slots.
    writer: Slot,
    readers: [Slot; 2],
}

/// Words of a line that a warp accesses in order.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Run {
    /// Record name of the thread of the line's first word, if it were accessed.
    pub first: u32,
    /// The words that are accessed.
    pub words: u32,
}

impl Line {
    /// Whether a plain read by the block races with nothing.
    #[inline(always)]
    pub(crate) fn is_unwritten(&self, shadow: &BlockShadow, number: u32, since: u32) -> bool {
        self.writes.is_past(shadow, number, since)
    }

    /// Whether anything has been written since.
    pub(crate) fn has_writes(&self, since: u32) -> bool {
        self.writes.moment > since
    }

    /// Whether the last write of each word of the run is by the thread that accesses it now.
    #[inline(always)]
    pub(crate) fn is_own(&self, run: Run) -> bool {
        self.writer.first == run.first && run.words & !self.writer.words == 0
    }

    /// Whether a plain write by the block races with nothing.
    #[inline(always)]
    pub(crate) fn is_quiet(&self, shadow: &BlockShadow, number: u32, since: u32, run: Run) -> bool {
        let past = |slot: &Slot| slot.first == run.first || slot.is_past(shadow, since);
        (self.is_unwritten(shadow, number, since) || self.is_own(run))
            && self.reads.is_past(shadow, number, since)
            && self.readers.iter().all(past)
    }

    /// Records that a warp reads; false if there is no room for it.
    #[inline(always)]
    pub(crate) fn read(&mut self, shadow: &BlockShadow, since: u32, run: Run, now: u32, pc: u32) -> bool {
        let new = Slot { first: run.first, moment: now, pc, words: run.words };
        let covered = |slot: &Slot| slot.words & !run.words == 0;
        for slot in &mut self.readers {
            if slot.first == run.first && slot.moment == now {
                slot.words |= run.words; // other lanes of the same instruction
                return true;
            }
            if slot.first == run.first && covered(slot) || slot.is_past(shadow, since) {
                *slot = new;
                return true;
            }
        }
        // Readers of two warps know more than those of one, and a third adds nothing.
        let apart = |one: u32, other: u32| one.abs_diff(other) >= u32::BITS;
        let [one, other] = &mut self.readers;
        if one.words & run.words != run.words {
            return false;
        }
        if !apart(one.first, other.first) && apart(one.first, run.first) && covered(other) {
            *other = new;
            return true;
        }
        other.words & run.words == run.words && apart(one.first, other.first)
    }

    /// Records that cells have been accessed, and so are up to date themselves.
    pub(crate) fn note(&mut self, flags: u32, only_read: bool, now: u32, number: u32, since: u32) {
        if only_read {
            self.reads.note(now, number, since);
        } else {
            self.writes.note(if flags & PENDING != 0 { u32::MAX } else { now }, number, since);
        }
    }

    /// Whether a write of the run leaves nothing of the last one that stands in a slot.
    #[inline(always)]
    pub(crate) fn replaces_writer(&self, since: u32, run: Run) -> bool {
        self.writer.words & !run.words == 0 || self.writer.moment <= since
    }

    /// Records that all words of the run have been overwritten, in a line that [is quiet](Self::is_quiet) and whose last
    /// writer [is replaced](Self::replaces_writer).
    #[inline(always)]
    pub(crate) fn write(&mut self, run: Run, number: u32, since: u32, [now, pc]: [u32; 2]) {
        self.writes.note(now, number, since);
        self.writer = Slot { first: run.first, moment: now, pc, words: run.words };
        for slot in &mut self.readers {
            slot.words &= !run.words;
        }
    }

    /// Records that no copy to the line is under way any more.
    pub(crate) fn settle(&mut self, now: u32) {
        if self.writes.moment == u32::MAX {
            self.writes.moment = now;
        }
    }

    /// Whether the slots hold accesses that the cells do not.
    #[inline(always)]
    pub(crate) fn has_slots(&self) -> bool {
        self.writer.words | self.readers[0].words | self.readers[1].words != 0
    }

    /// Whether a slot holds a write that the cells do not.
    #[inline(always)]
    pub(crate) fn has_writer(&self) -> bool {
        self.writer.words != 0
    }

    /// Empties the writer's slot: returns each word and its record, unless it is one of an earlier block.
    pub(crate) fn take_writer(&mut self, since: u32) -> impl Iterator<Item = (usize, Record)> {
        let slot = std::mem::take(&mut self.writer);
        let words = if slot.moment <= since { 0 } else { slot.words };
        lanes(words).map(move |word| (word, slot.record(word as u32, WRITE)))
    }

    /// Empties the readers' slots: returns the word and the record of each reader that may matter, the earlier one first.
    pub(crate) fn take_readers(&mut self, shadow: &BlockShadow, since: u32) -> impl Iterator<Item = (usize, Record)> {
        let mut slots = std::mem::take(&mut self.readers);
        slots.sort_unstable_by_key(|slot| slot.moment);
        for slot in &mut slots {
            if slot.is_past(shadow, since) {
                slot.words = 0;
            } else {
                let block = shadow.block_of(slot.first.wrapping_add(slot.words.trailing_zeros()));
                self.reads.note(slot.moment, block, since);
            }
        }
        slots.into_iter().flat_map(|slot| lanes(slot.words).map(move |word| (word, slot.record(word as u32, READ))))
    }
}

impl Slot {
    fn record(&self, word: u32, flags: u32) -> Record {
        [self.first.wrapping_add(word), self.moment, self.pc << super::shadow::FLAGS | flags]
    }

    #[inline(always)]
    fn is_past(&self, shadow: &BlockShadow, since: u32) -> bool {
        self.words == 0 || shadow.is_past(self.record(self.words.trailing_zeros(), 0), since)
    }
}
