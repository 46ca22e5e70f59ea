//! What a sanitiser keeps of a block: who touched each of its cells last, and what its threads know of each other.

use std::collections::HashMap;

use super::clock::SharedClock;
use super::handover::{Acquired, Handover};
use super::launch::Launch;
use super::lines::{LINE, Line, Run, WORDS};
use crate::ir::RESERVED_NAME;

/// Bytes of a cell where no smaller access has been seen.
const CELL: u32 = 4;

/// [thread in the launch + 1, moment, pc and flags]; all zeros: no access. An array, so that a fresh shadow costs no
/// memory until it is touched.
pub(super) type Record = [u32; 3];

/// The last write, and two readers since. A strong write that follows a weak one which not all know of takes the place of
/// the first reader: it does not order those after it with the weak one.
pub(super) type Cell = [Record; 3];

pub(super) const NO_RECORD: Record = [0; 3];

/// Flags of a record, below the pc.
pub(super) const STRONG: u32 = 1;

pub(super) const PENDING: u32 = 2;

pub(super) const WRITE: u32 = 4;

pub(super) const READ: u32 = 8;

pub(super) const FLAGS: u32 = 4;

/// What has been done to each cell of an allocation or of a block's shared memory.
#[derive(Debug, Default)]
pub(super) struct Shadow {
    /// Bytes of a cell are two to the power of this: 4, 2 or 1.
    pub(super) log: u32,
    pub(super) cells: Vec<Cell>,
    /// What the cells of each line have in common.
    lines: Vec<Line>,
    /// Records up to this moment are those of an earlier block.
    pub(super) since: u32,
}

impl Shadow {
    pub(super) fn new(bytes: u64) -> Self {
        let cells = vec![[NO_RECORD; 3]; bytes.div_ceil(CELL.into()) as usize];
        Self { log: CELL.ilog2(), cells, lines: vec![Line::default(); bytes.div_ceil(1 << LINE) as usize], since: 0 }
    }

    /// Bytes of host memory for the shadow of that many bytes, when all of them are touched.
    pub(super) fn bytes(bytes: u64) -> u64 {
        let cells = bytes.div_ceil(CELL.into()).saturating_mul(size_of::<Cell>() as u64);
        cells.saturating_add(bytes.div_ceil(1 << LINE).saturating_mul(size_of::<Line>() as u64))
    }

    /// Host memory that [`Self::refine`] takes more.
    pub(super) fn refinement(&self, bytes: u64) -> u64 {
        let halvings = self.log - self.log.min(bytes.trailing_zeros());
        ((self.cells.len() << halvings) - self.cells.len()) as u64 * size_of::<Cell>() as u64
    }

    /// Makes cells small enough for an access of `bytes` bytes.
    pub(super) fn refine(&mut self, shadow: &BlockShadow, bytes: u64) {
        if !bytes.is_multiple_of(1 << self.log) {
            (0..self.lines.len()).for_each(|line| self.spread(shadow, line));
        }
        while !bytes.is_multiple_of(1 << self.log) {
            self.cells = self.cells.iter().flat_map(|cell| [*cell; 2]).collect();
            self.log -= 1;
        }
    }
}

/// What a sanitiser knows of a block that is being run.
#[derive(Debug, Default)]
pub(crate) struct BlockShadow {
    /// Number of the block's first thread in the launch.
    pub(super) first: u64,
    pub(super) threads: u32,
    /// Everything up to here is known to all threads of the block: its start, or its last full barrier.
    pub(super) base: u32,
    /// Last fence of any of its threads: at least of block scope, of device scope.
    pub(super) fences: [u32; 2],
    pub(super) memory: Shadow,
    pub(super) written: Vec<u64>,
    pub(super) warps: Vec<WarpShadow>,
    /// What all threads of the block have taken over from others, and when it last grew.
    pub(super) acquired: SharedClock,
    pub(super) acquired_at: u32,
    /// The barrier instruction at which the block's threads gather.
    pub(super) gathering: HashMap<u32, usize>,
    /// Places in shared memory, and barriers, through which its threads hand over.
    pub(super) places: Vec<Handover>,
}

impl Shadow {
    /// The runs of a plain access of the lanes of `mask`, the first at `offset`, to neighbouring words, by line. None where
    /// cells are smaller than words.
    #[inline(always)]
    fn runs(&self, offset: u64, first_thread: u32, mask: u32) -> Option<[(usize, Run); 2]> {
        if self.log != CELL.ilog2() {
            return None;
        }
        let word = offset / u64::from(CELL);
        let (line, skip) = ((word / WORDS) as usize, (word % WORDS) as u32);
        let words = u64::from(mask) << skip;
        let first = first_thread.wrapping_sub(skip);
        let run = |words: u64, first: u32| Run { first, words: words as u32 };
        Some([(line, run(words, first)), (line + 1, run(words >> 32, first.wrapping_add(32)))])
    }

    /// Notes a plain read of neighbouring words by threads that follow on `first_thread`, if it races with nothing for sure.
    #[inline(always)]
    pub(super) fn read_in_order(
        &mut self,
        shadow: &BlockShadow,
        number: u32,
        offset: u64,
        [first_thread, mask]: [u32; 2],
        [now, pc]: [u32; 2],
    ) -> bool {
        let Some(runs) = self.runs(offset, first_thread, mask) else { return false };
        let since = self.since;
        let touched = || runs.iter().filter(|(_, run)| run.words != 0);
        touched().all(|(line, _)| self.lines[*line].is_unwritten(shadow, number, since))
            && touched().all(|(line, run)| self.lines[*line].read(shadow, since, *run, now, pc))
    }

    /// Notes a plain read of one place of up to 16 bytes by some of the threads that follow on `first_thread`, if it races
    /// with nothing for sure.
    #[inline(always)]
    pub(super) fn read_one(
        &mut self,
        shadow: &BlockShadow,
        number: u32,
        [offset, bytes]: [u64; 2],
        [first_thread, mask]: [u32; 2],
        [now, pc]: [u32; 2],
    ) -> bool {
        let line = (offset >> LINE) as usize;
        let since = self.since;
        if self.log != CELL.ilog2() || !self.lines[line].is_unwritten(shadow, number, since) {
            return false;
        }
        let rest = mask & (mask - 1);
        let place = pc << FLAGS | READ;
        let record = |lane: u32| [first_thread.wrapping_add(lane), now, place];
        let first = (offset / u64::from(CELL)) as usize;
        for [_, one, other] in &mut self.cells[first..first + (bytes / u64::from(CELL)) as usize] {
            let free = |record: &Record| shadow.is_past(*record, since) || record[0].wrapping_sub(first_thread) < 32;
            let second = if rest == 0 { mask } else { rest };
            match (free(one), free(other)) {
                (true, true) => {
                    *one = record(mask.trailing_zeros());
                    if rest != 0 {
                        *other = record(second.trailing_zeros());
                    }
                }
                (true, false) => *one = record(mask.trailing_zeros()),
                (false, true) => *other = record(mask.trailing_zeros()),
                // Readers of two warps know more than those of one, and a third adds nothing.
                (false, false) if one[0].abs_diff(other[0]) < 32 => *other = record(mask.trailing_zeros()),
                (false, false) => {}
            }
        }
        self.lines[line].note(0, true, now, number, since);
        true
    }

    /// Notes a plain write of neighbouring words by threads that follow on `first_thread`, if it races with nothing for sure.
    #[inline(always)]
    pub(super) fn write_in_order(
        &mut self,
        shadow: &BlockShadow,
        number: u32,
        offset: u64,
        [first_thread, mask]: [u32; 2],
        [now, pc]: [u32; 2],
    ) -> bool {
        let Some(runs) = self.runs(offset, first_thread, mask) else { return false };
        let since = self.since;
        let touched = || runs.iter().filter(|(_, run)| run.words != 0);
        if !touched().all(|(line, run)| self.lines[*line].is_quiet(shadow, number, since, *run)) {
            return false;
        }
        touched().for_each(|(line, run)| self.lines[*line].write(*run, now, number, since));
        let start = (offset / u64::from(CELL)) as usize;
        let place = pc << FLAGS | WRITE;
        let count = (u32::BITS - mask.leading_zeros()) as usize;
        for (lane, cell) in (0..).zip(&mut self.cells[start..start + count]) {
            if mask >> lane & 1 == 1 {
                *cell = [[first_thread.wrapping_add(lane), now, place], NO_RECORD, NO_RECORD];
            }
        }
        true
    }

    /// Enters the readers that stand in a line's slots into its cells.
    pub(super) fn spread(&mut self, shadow: &BlockShadow, line: usize) {
        if !self.lines[line].has_readers() {
            return;
        }
        let since = self.since;
        let first = line << (LINE - self.log);
        for (word, record) in self.lines[line].take_readers(shadow, since, READ) {
            // Slots are filled only while cells are words.
            let Some([_, one, other]) = self.cells.get_mut(first + word as usize) else { continue };
            if shadow.is_past(*one, since) || one[0] == record[0] {
                *one = record;
            } else if shadow.is_past(*other, since) || other[0] == record[0] || one[0].abs_diff(other[0]) < 32 {
                *other = record;
            }
        }
    }

    /// Notes that cells from `offset` on have been accessed.
    #[inline(always)]
    pub(super) fn note(&mut self, offset: u64, flags: u32, now: u32, number: u32) {
        let since = self.since;
        let only_read = flags & (PENDING | WRITE) == 0;
        self.lines[(offset >> LINE) as usize].note(flags, only_read, now, number, since);
    }

    /// A copy to `offset` has been made.
    pub(super) fn settle(&mut self, offset: u64, now: u32) {
        let line = (offset >> LINE) as usize;
        let cells = 1 << (LINE - self.log);
        let first = line * cells;
        let last = (first + cells).min(self.cells.len());
        if self.cells[first..last].iter().all(|cell| cell[0][2] & PENDING == 0) {
            self.lines[line].settle(now);
        }
    }
}

/// Lanes that came to a barrier before the rest of their warp.
#[derive(Clone, Copy, Debug)]
pub(super) struct Arrival {
    pub(super) id: u32,
    pub(super) pc: usize,
    pub(super) mask: u32,
}

#[derive(Debug, Default)]
pub(super) struct WarpShadow {
    /// For each lane, up to when it knows what the other lanes did; empty before the first `__syncwarp`.
    pub(super) mates: Vec<[u32; 32]>,
    /// For each lane; empty before the first acquire.
    pub(super) acquired: Vec<Acquired>,
    /// Of barriers that are not yet full.
    pub(super) arrivals: Vec<Arrival>,
}

impl BlockShadow {
    pub(crate) fn reset(&mut self, launch: &Launch<'_>, number: u64) {
        let bytes = launch.shared_bytes();
        self.threads = launch.threads();
        self.first = number * u64::from(self.threads);
        self.base = u32::MAX; // the first that the block does sets it
        self.fences = [0; 2];
        if self.memory.cells.is_empty() {
            self.memory = Shadow::new(bytes.into());
        }
        self.written.clear();
        self.written.resize((bytes as usize).div_ceil(64), 0);
        // What the system keeps for itself it has cleared.
        for variable in launch.kernel.static_variables.iter().filter(|variable| variable.name == RESERVED_NAME) {
            let start = launch.shared_offset(variable.offset);
            for at in start..start + variable.bytes {
                self.written[(at / 64) as usize] |= 1 << (at % 64);
            }
        }
        self.warps.clear();
        self.warps.resize_with(self.threads.div_ceil(32) as usize, WarpShadow::default);
        self.acquired = None;
        self.acquired_at = 0;
        self.gathering.clear();
        self.places.clear();
    }

    /// Whether no access of this block's threads from now on can race with that of `record`.
    #[inline(always)]
    pub(super) fn is_past(&self, record: Record, since: u32) -> bool {
        let moment = record[1];
        moment <= since
            || moment <= self.base
                && record[2] & PENDING == 0
                && u64::from(record[0] - 1).wrapping_sub(self.first) < u64::from(self.threads)
    }

    /// What records call the thread: its number in the launch + 1.
    pub(super) fn thread(&self, warp: u32, lane: usize) -> u32 {
        (self.first as u32).wrapping_add(warp * 32 + lane as u32 + 1)
    }

    /// Number of the block of a thread as records call it.
    pub(super) fn block_of(&self, thread: u32) -> u32 {
        (u64::from(thread.wrapping_sub(1)) / u64::from(self.threads)) as u32
    }

    /// Number of the block.
    pub(super) fn number(&self) -> u32 {
        (self.first / u64::from(self.threads)) as u32
    }

    /// At the first that the block does, be it an access or a barrier: what its shadow holds is an earlier block's.
    pub(super) fn begin(&mut self, now: u32) {
        if self.base == u32::MAX {
            self.base = now - 1;
            self.memory.since = now - 1;
        }
    }

    pub(super) fn mates(&mut self, warp: u32) -> &mut Vec<[u32; 32]> {
        let mates = &mut self.warps[warp as usize].mates;
        if mates.is_empty() {
            mates.resize(32, [0; 32]);
        }
        mates
    }

    pub(super) fn acquired(&mut self, warp: u32, lane: usize) -> &mut Acquired {
        let acquired = &mut self.warps[warp as usize].acquired;
        if acquired.is_empty() {
            acquired.resize(32, Acquired::default());
        }
        &mut acquired[lane]
    }
}
