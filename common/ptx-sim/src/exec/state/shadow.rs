//! State of a sanitiser for a block: the last accesses to each of its cells, and the knowledge that its threads have of
//! each other.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};

use super::clock::SharedClock;
use super::handover::{Acquired, Fences, Handover};
use super::launch::{At, Launch};
use super::lines::{LINE, Line, Run, WORDS};
use super::transfers::Issuer;
use crate::ir::RESERVED_NAME;
use crate::limits::{Account, Use};
use crate::memory::{Stored, UndefinedBits};

/// Maximum accesses of other blocks that a block remembers until its end.
const MAX_REACHED: usize = 1 << 12;

/// Bytes of a cell where no smaller access has been seen.
const CELL: u32 = 4;

/// [thread in the launch + 1, moment, pc and flags]; all zeros: no access. An array, so that a fresh shadow costs no
/// memory until it is touched.
pub(crate) type Record = [u32; 3];

/// The last write, and two readers since. A strong write that follows a weak one which not all know of takes the place of
/// the first reader: it does not order later accesses with the weak one.
pub(crate) type Cell = [Record; 3];

pub(crate) const NO_RECORD: Record = [0; 3];

/// Flags of a record, below the pc.
pub(crate) const STRONG: u32 = 1;

pub(crate) const PENDING: u32 = 2;

pub(crate) const WRITE: u32 = 4;

pub(crate) const READ: u32 = 8;

/// Made by a bulk copy.
pub(crate) const ASYNC: u32 = 16;

/// Made by a product of a warpgroup: the record's thread is its first, and any of its threads may hand over that it has
/// read.
pub(crate) const PRODUCT: u32 = 32;

/// Strong for all devices, not only its own.
pub(crate) const SYSTEM: u32 = 64;

/// Strong for the threads of its own block only.
pub(crate) const BLOCK_SCOPE: u32 = 128;

pub(crate) const FLAGS: u32 = 8;

/// Bytes of a page, in powers of two.
const PAGE: u32 = 14;

/// Lines of a page, in powers of two.
const PAGE_LINES: u32 = PAGE - LINE;

/// Accesses to a line.
#[derive(Debug, Default)]
struct Entry {
    /// Common state of its cells.
    line: Line,
    /// Number of times its cells have been halved: 4, 2 or 1 bytes each.
    halvings: u32,
    /// Cells; empty until an access is entered.
    cells: Box<[Cell]>,
}

impl Entry {
    /// Enters the accesses in the line's slots into its cells, which exist.
    #[inline(never)]
    fn spread(&mut self, shadow: &BlockShadow, since: u32) {
        // Slots are filled only while cells are words.
        for (word, record) in self.line.take_writer(since) {
            self.cells[word] = [record, NO_RECORD, NO_RECORD];
        }
        for (word, record) in self.line.take_readers(shadow, since) {
            let [_, one, other] = &mut self.cells[word];
            if shadow.is_past(*one, since) || one[0] == record[0] {
                *one = record;
            } else if shadow.is_past(*other, since) || other[0] == record[0] || one[0].abs_diff(other[0]) < 32 {
                *other = record;
            }
        }
    }
}

/// Accesses to each cell of an allocation or of a block's shared memory. Memory is taken only for the pages that are
/// touched, and in these only for the cells of lines that need them.
#[derive(Debug, Default)]
pub(crate) struct Shadow {
    /// Pages by number; empty until an access touches the page.
    pages: Vec<Box<[Entry]>>,
    /// Bytes of the allocation or the shared memory.
    bytes: u64,
    /// Bytes of host memory already charged to the launch's account.
    taken: u64,
    /// Records up to this moment are those of an earlier block.
    pub(crate) since: u32,
}

/// Sanitiser's state of a running block.
#[derive(Debug, Default)]
pub(crate) struct BlockShadow {
    /// Number of the block's first thread in the launch.
    pub(crate) first: u64,
    pub(crate) threads: u32,
    /// Member of a joint launch that the block belongs to.
    pub(crate) device: u32,
    /// Moment up to which everything is known to all threads of the block: its start, or its last full barrier.
    pub(crate) base: u32,
    /// Last fences of any of its threads.
    pub(crate) fences: Fences,
    pub(crate) memory: Shadow,
    pub(crate) written: Vec<u64>,
    /// Undefined values that were stored, which leave their bytes unwritten.
    pub(crate) undefined: UndefinedBits,
    pub(crate) warps: Vec<WarpShadow>,
    /// Whether a thread has exited.
    some_left: bool,
    /// Knowledge that all threads of the block have taken over from others, and the moment of its last growth.
    pub(crate) acquired: SharedClock,
    pub(crate) acquired_at: u32,
    /// The barrier instruction at which the block's threads gather.
    pub(crate) gathering: HashMap<u32, usize>,
    /// Accesses of other blocks of the cluster to this one's shared memory: for each warp of the launch and instruction,
    /// the moment of the last one and a lane that made it.
    pub(crate) reached: BTreeMap<(u32, u32), (u32, u32)>,
    /// Addresses of mbarriers that were initialised and not invalidated since.
    pub(crate) mbarriers: BTreeSet<u64>,
    /// Places in shared memory, and barriers, through which its threads hand over.
    pub(crate) places: Vec<Handover>,
}

impl Shadow {
    /// A shadow of `bytes` bytes; `None` if the launch's account has no room for its table.
    pub(crate) fn new(bytes: u64, account: &Account<'_>) -> Option<Self> {
        let pages = bytes.div_ceil(1 << PAGE) as usize;
        let taken = (pages * size_of::<Box<[Entry]>>() + size_of::<Self>()) as u64;
        let taken = account.take(Use::Shadow, taken).then_some(taken)?;
        Some(Self { pages: std::iter::repeat_with(Default::default).take(pages).collect(), bytes, taken, since: 0 })
    }

    /// Returns its bytes to the account.
    pub(crate) fn give_back(self, account: &Account<'_>) {
        account.give(Use::Shadow, self.taken);
    }

    /// Number of words of a line: fewer in the last one.
    fn words(&self, line: u64) -> usize {
        (self.bytes.div_ceil(CELL.into()) - line * WORDS).min(WORDS) as usize
    }

    /// Allocates the pages of a range, if needed; false if the launch's account has no room for them.
    #[inline(always)]
    pub(crate) fn touch(&mut self, offset: u64, bytes: u64, account: &Account<'_>) -> bool {
        let (first, last) = (offset >> PAGE, (offset + bytes - 1) >> PAGE);
        let is_there = |page: u64| self.pages.get(page as usize).is_some_and(|page| !page.is_empty());
        is_there(first) && (first == last || is_there(last)) || self.make_pages([first, last], account)
    }

    #[cold]
    #[inline(never)]
    fn make_pages(&mut self, [first, last]: [u64; 2], account: &Account<'_>) -> bool {
        for number in first..=last {
            let lines = self.bytes.div_ceil(1 << LINE).saturating_sub(number << PAGE_LINES).min(1 << PAGE_LINES);
            // A shadow that there was no room for has no pages at all.
            let Some(page) = self.pages.get_mut(number as usize) else { return false };
            if page.is_empty() {
                let taken = lines * size_of::<Entry>() as u64;
                if !account.take(Use::Shadow, taken) {
                    return false;
                }
                self.taken += taken;
                *page = std::iter::repeat_with(Entry::default).take(lines as usize).collect();
            }
        }
        true
    }

    /// The entry of a line whose page has been [touched](Self::touch).
    #[inline(always)]
    fn entry(&mut self, line: u64) -> &mut Entry {
        &mut self.pages[(line >> PAGE_LINES) as usize][line as usize % (1 << PAGE_LINES)]
    }

    /// The cells of an access of `bytes` bytes, none of them larger than the access, with all accesses from the slots
    /// entered; `None` if the launch's account has no room for them. The access lies in one line, whose page has been
    /// touched.
    #[inline(always)]
    pub(crate) fn open(
        &mut self,
        shadow: &BlockShadow,
        [offset, bytes]: [u64; 2],
        account: &Account<'_>,
    ) -> Option<&mut [Cell]> {
        let entry = self.entry(offset >> LINE);
        let fits = bytes.is_multiple_of(u64::from(CELL) >> entry.halvings);
        if (entry.cells.is_empty() || entry.line.has_slots() || !fits) && !self.prepare(shadow, offset, bytes, account)
        {
            return None;
        }
        Some(self.opened(offset, bytes))
    }

    /// The cells of an access that have been [opened](Self::open).
    #[inline(always)]
    pub(crate) fn opened(&mut self, offset: u64, bytes: u64) -> &mut [Cell] {
        let entry = self.entry(offset >> LINE);
        let log = CELL.ilog2() - entry.halvings;
        let first = (offset % (1 << LINE)) >> log;
        &mut entry.cells[first as usize..(first + (bytes >> log)) as usize]
    }

    #[cold]
    #[inline(never)]
    fn prepare(&mut self, shadow: &BlockShadow, offset: u64, bytes: u64, account: &Account<'_>) -> bool {
        let (since, line) = (self.since, offset >> LINE);
        let words = self.words(line);
        let entry = self.entry(line);
        let halvings = CELL.ilog2() - bytes.trailing_zeros().min(CELL.ilog2());
        let halvings = halvings.max(entry.halvings);
        let taken = (((words << halvings) - entry.cells.len()) * size_of::<Cell>()) as u64;
        if taken != 0 && !account.take(Use::Shadow, taken) {
            return false;
        }
        if entry.cells.is_empty() {
            entry.cells = vec![[NO_RECORD; 3]; words].into_boxed_slice();
        }
        entry.spread(shadow, since);
        while entry.halvings < halvings {
            entry.cells = entry.cells.iter().flat_map(|cell| [*cell; 2]).collect();
            entry.halvings += 1;
        }
        self.taken += taken;
        true
    }

    /// Splits a plain access of the lanes of `mask`, the first at `offset`, to neighbouring words into runs, by line.
    #[inline(always)]
    fn runs(offset: u64, first_thread: u32, mask: u32) -> [(u64, Run); 2] {
        let word = offset / u64::from(CELL);
        let (line, skip) = (word / WORDS, (word % WORDS) as u32);
        let words = u64::from(mask) << skip;
        let first = first_thread.wrapping_sub(skip);
        let run = |words: u64, first: u32| Run { first, words: words as u32 };
        [(line, run(words, first)), (line + 1, run(words >> 32, first.wrapping_add(32)))]
    }

    /// Records a plain read of neighbouring words by consecutive threads from `first_thread` on, if it certainly races with
    /// nothing. Its pages have been touched.
    #[inline(always)]
    pub(crate) fn read_in_order(
        &mut self,
        shadow: &BlockShadow,
        number: u32,
        offset: u64,
        [first_thread, mask]: [u32; 2],
        [now, pc]: [u32; 2],
    ) -> bool {
        let since = self.since;
        Self::runs(offset, first_thread, mask).into_iter().all(|(line, run)| {
            run.words == 0 || {
                let Entry { line, halvings, .. } = self.entry(line);
                *halvings == 0
                    && (line.is_unwritten(shadow, number, since) || line.is_own(run))
                    && line.read(shadow, since, run, now, pc)
            }
        })
    }

    /// Records a plain read of one place of up to 16 bytes by some of the consecutive threads from `first_thread` on, if it
    /// certainly races with nothing. Its page has been touched.
    #[inline(always)]
    pub(crate) fn read_one(
        &mut self,
        shadow: &BlockShadow,
        number: u32,
        [offset, bytes]: [u64; 2],
        [first_thread, mask]: [u32; 2],
        [now, pc]: [u32; 2],
    ) -> bool {
        let since = self.since;
        let entry = self.entry(offset >> LINE);
        // Without cells the closer look makes some.
        if entry.halvings != 0 || entry.cells.is_empty() || !entry.line.is_unwritten(shadow, number, since) {
            return false;
        }
        if entry.line.has_writer() {
            entry.spread(shadow, since);
        }
        let Entry { line, cells, .. } = entry;
        let rest = mask & (mask - 1);
        let place = pc << FLAGS | READ;
        let record = |lane: u32| [first_thread.wrapping_add(lane), now, place];
        let first = (offset % (1 << LINE) / u64::from(CELL)) as usize;
        for [_, one, other] in &mut cells[first..first + (bytes / u64::from(CELL)) as usize] {
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
        line.note(0, true, now, number, since);
        true
    }

    /// Records a plain write of neighbouring words by consecutive threads from `first_thread` on, if it certainly races with
    /// nothing. Its pages have been touched.
    #[inline(always)]
    pub(crate) fn write_in_order(
        &mut self,
        shadow: &BlockShadow,
        number: u32,
        offset: u64,
        [first_thread, mask]: [u32; 2],
        moment: [u32; 2],
    ) -> bool {
        let since = self.since;
        let runs = Self::runs(offset, first_thread, mask);
        let passes = runs.iter().all(|(line, run)| {
            run.words == 0 || {
                let Entry { line, halvings, .. } = self.entry(*line);
                *halvings == 0 && line.is_quiet(shadow, number, since, *run) && line.replaces_writer(since, *run)
            }
        });
        if passes {
            for (line, run) in runs.into_iter().filter(|(_, run)| run.words != 0) {
                self.entry(line).line.write(run, number, since, moment);
            }
        }
        passes
    }

    /// Whether something has been written since the shadow began in the lines of these bytes, whose pages have been touched.
    pub(crate) fn has_writes(&mut self, offset: u64, bytes: u64) -> bool {
        let since = self.since;
        (offset >> LINE..=(offset + bytes - 1) >> LINE).any(|line| self.entry(line).line.has_writes(since))
    }

    /// Records that cells from `offset` on have been accessed.
    #[inline(always)]
    pub(crate) fn note(&mut self, offset: u64, flags: u32, now: u32, number: u32) {
        let since = self.since;
        let only_read = flags & (PENDING | WRITE) == 0;
        self.entry(offset >> LINE).line.note(flags, only_read, now, number, since);
    }

    /// Records that a thread's copy of `bytes` bytes to `offset` has been made.
    pub(crate) fn settle(&mut self, offset: u64, bytes: u64, thread: u32, now: u32) {
        if self.pages.get((offset >> PAGE) as usize).is_none_or(|page| page.is_empty()) {
            return; // there was no room for it
        }
        let Entry { line, halvings, cells } = self.entry(offset >> LINE);
        let log = CELL.ilog2() - *halvings;
        let first = offset % (1 << LINE);
        for at in first >> log..(first + bytes).div_ceil(1 << log) {
            if let Some([write, ..]) = cells.get_mut(at as usize)
                && write[0] == thread
                && write[2] & PENDING != 0
            {
                write[1] = now;
                write[2] &= !PENDING;
            }
        }
        if cells.iter().all(|cell| cell[0][2] & PENDING == 0) {
            line.settle(now);
        }
    }
}

/// Maximum number of products that a warp remembers to have waited for.
const MAX_PRODUCTS: usize = 1 << 8;

/// Lanes that came to a barrier before the rest of their warp.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrival {
    pub(crate) id: u32,
    pub(crate) pc: usize,
    pub(crate) mask: u32,
}

/// Exit base of a lane that has not exited.
const STAYS: u32 = u32::MAX;

#[derive(Debug, Default)]
pub(crate) struct WarpShadow {
    /// Moment up to which each of its 32 lanes knows the others' work.
    pub(crate) met: u32,
    /// For each lane, the moment up to which it knows the other lanes' work; empty as long as that is [`Self::met`] for
    /// all.
    pub(crate) mates: Vec<[u32; 32]>,
    /// Acquired knowledge of each lane; empty before the first acquire.
    pub(crate) acquired: Vec<Acquired>,
    /// Knowledge behind values that each lane has read but not acquired: its next fence does. Only if a sanitiser is strict.
    pub(crate) seen: Vec<Acquired>,
    /// Arrivals at barriers that are not yet full.
    pub(crate) arrivals: Vec<Arrival>,
    /// For each lane, its last `fence.proxy.async`.
    pub(crate) proxied: [u32; 32],
    /// Products of its warpgroup that it has waited for, in order: the moment when their tiles were read, and that of its wait.
    pub(crate) products: VecDeque<[u32; 2]>,
    /// For each lane that has exited, the block's [base](BlockShadow::base) then; empty until one exits.
    exits: Vec<u32>,
}

impl BlockShadow {
    pub(crate) fn reset(&mut self, launch: &Launch<'_>, number: u64) {
        let bytes = launch.shared_bytes();
        self.threads = launch.threads();
        self.first = number * u64::from(self.threads);
        self.base = u32::MAX; // the first that the block does sets it
        self.device = launch.device_of_number(number);
        self.fences = [0; 3];
        if self.memory.bytes != u64::from(bytes)
            && let Some(memory) = Shadow::new(bytes.into(), &launch.account)
        {
            self.memory = memory;
        }
        self.undefined.clear();
        self.written.clear();
        fill(&mut self.written, 0, (bytes as usize).div_ceil(64), &launch.account);
        // What the system keeps for itself it has cleared.
        for variable in launch.kernel.static_variables.iter().filter(|variable| variable.name == RESERVED_NAME) {
            let start = launch.shared_offset(variable.offset);
            for at in start..start + variable.bytes {
                self.written[(at / 64) as usize] |= 1 << (at % 64);
            }
        }
        self.warps.resize_with(self.threads.div_ceil(32) as usize, WarpShadow::default);
        self.warps.iter_mut().for_each(WarpShadow::reset);
        self.some_left = false;
        self.acquired = None;
        self.acquired_at = 0;
        self.gathering.clear();
        self.places.clear();
        self.reached.clear();
        self.mbarriers.clear();
    }

    /// Whether no access of this block's threads from now on can race with that of `record`.
    #[inline(always)]
    pub(crate) fn is_past(&self, record: Record, since: u32) -> bool {
        let moment = record[1];
        moment <= since
            || moment <= self.base
                && record[2] & PENDING == 0
                && u64::from(record[0] - 1).wrapping_sub(self.first) < u64::from(self.threads)
                && !self.left_before_barrier(record)
    }

    /// Whether `record` is a write of a thread of this block that exited without coming to another barrier: a barrier orders the
    /// work of the threads that come to it (PTX ISA, `barrier`), and disregards those that have exited.
    #[inline(always)]
    pub(crate) fn left_before_barrier(&self, record: Record) -> bool {
        self.some_left && record[2] & WRITE != 0 && self.left_at(record[0]).is_some_and(|base| record[1] > base)
    }

    /// The base at which a thread of this block exited, if it has.
    fn left_at(&self, thread: u32) -> Option<u32> {
        let in_block = u64::from(thread - 1).checked_sub(self.first)? as usize;
        self.warps.get(in_block / 32)?.exits.get(in_block % 32).copied().filter(|&base| base != STAYS)
    }

    /// Records that lanes of a warp exit.
    pub(crate) fn leave(&mut self, warp: u32, mask: u32, account: &Account<'_>) {
        let base = self.base;
        let exits = &mut self.warps[warp as usize].exits;
        if exits.is_empty() {
            fill(exits, STAYS, 32, account);
        }
        for (lane, exit) in exits.iter_mut().enumerate() {
            if mask >> lane & 1 != 0 {
                *exit = base;
            }
        }
        self.some_left = true;
    }

    /// Records that lanes of another block of the cluster access this one's shared memory.
    pub(crate) fn reached_by(&mut self, other: &Self, at: At<'_>, mask: u32, now: u32) {
        let key = self.reach(other.number().into(), at.warp, at.pc);
        if self.reached.len() < MAX_REACHED || self.reached.contains_key(&key) {
            self.reached.insert(key, (now, mask.trailing_zeros().min(31)));
        }
    }

    /// Records that a copy which a thread of another block asked for is there: it was asked for before this block's end.
    pub(crate) fn received(&mut self, by: &Issuer) {
        self.reached.remove(&self.reach(by.number, by.warp, by.pc));
    }

    /// The key in `reached` of an instruction of a warp, by its block's number.
    fn reach(&self, block: u64, warp: u32, pc: usize) -> (u32, u32) {
        let warps = u64::from(self.threads).div_ceil(32);
        ((block * warps + u64::from(warp)) as u32, pc as u32)
    }

    /// Thread as written in records: its number in the launch + 1.
    pub(crate) fn thread(&self, warp: u32, lane: usize) -> u32 {
        (self.first as u32).wrapping_add(warp * 32 + lane as u32 + 1)
    }

    /// Number of the block of a thread as written in records.
    pub(crate) fn block_of(&self, thread: u32) -> u32 {
        (u64::from(thread.wrapping_sub(1)) / u64::from(self.threads)) as u32
    }

    /// Number of the block.
    pub(crate) fn number(&self) -> u32 {
        (self.first / u64::from(self.threads)) as u32
    }

    /// Records that what was just stored from `at` on is undefined: those bytes count as unwritten.
    pub(crate) fn store_undefined(&mut self, at: u64, stored: &Stored<'_>, account: &Account<'_>) {
        if self.undefined.store(at, (at / 4, 1), stored, |bytes| account.take(Use::Shadow, bytes)) {
            for (at, _) in (at..).zip(stored.bits).filter(|(_, bits)| **bits != 0) {
                self.written[(at / 64) as usize] &= !(1 << (at % 64));
            }
        }
    }

    /// Called at the block's first access or barrier: older contents of its shadow are an earlier block's.
    pub(crate) fn begin(&mut self, now: u32) {
        if self.base == u32::MAX {
            self.base = now - 1;
            self.memory.since = now - 1;
        }
    }

    pub(crate) fn mates(&mut self, warp: u32, account: &Account<'_>) -> &mut Vec<[u32; 32]> {
        let WarpShadow { mates, met, .. } = &mut self.warps[warp as usize];
        if mates.is_empty() {
            fill(mates, [*met; 32], 32, account);
        }
        mates
    }

    pub(crate) fn acquired(&mut self, warp: u32, lane: usize, account: &Account<'_>) -> &mut Acquired {
        of_lane(&mut self.warps[warp as usize].acquired, lane, account)
    }

    pub(crate) fn seen(&mut self, warp: u32, lane: usize, account: &Account<'_>) -> &mut Acquired {
        of_lane(&mut self.warps[warp as usize].seen, lane, account)
    }
}

fn of_lane<'a>(lanes: &'a mut Vec<Acquired>, lane: usize, account: &Account<'_>) -> &'a mut Acquired {
    if lanes.is_empty() {
        fill(lanes, Acquired::default(), 32, account);
    }
    &mut lanes[lane]
}

/// Fills an empty vector, which is charged to the account the first time. Where the host has no room for it the launch ends
/// soon.
fn fill<T: Clone>(vector: &mut Vec<T>, with: T, count: usize, account: &Account<'_>) {
    if vector.capacity() == 0 {
        let _ = account.take(Use::Shadow, (count * size_of::<T>()) as u64);
    }
    vector.resize(count, with);
}

impl WarpShadow {
    /// Moments up to which a lane knows the lanes of its warp.
    #[inline(always)]
    pub(crate) fn known(&self, lane: usize) -> [u32; 32] {
        self.mates.get(lane).copied().unwrap_or([self.met; 32])
    }

    /// Records that the warp has waited for a product whose tiles were read at that moment.
    pub(crate) fn waited(&mut self, read: u32, now: u32, account: &Account<'_>) {
        if self.products.capacity() == 0 {
            let _ = account.take(Use::Shadow, (MAX_PRODUCTS * size_of::<[u32; 2]>()) as u64);
            self.products.reserve_exact(MAX_PRODUCTS);
        }
        if self.products.len() == MAX_PRODUCTS {
            self.products.pop_front();
        }
        self.products.push_back([read, now]);
    }

    /// The moment when the warp waited for the product whose tiles were read at `read`, if it has; the earliest possible one for a
    /// product that is no longer remembered.
    pub(crate) fn waited_for(&self, read: u32) -> Option<u32> {
        let at = self.products.partition_point(|[other, _]| *other < read);
        match self.products.get(at) {
            Some(&[other, wait]) if other == read => Some(wait),
            Some(_) if at == 0 && self.products.len() == MAX_PRODUCTS => Some(read),
            _ => None,
        }
    }

    /// Forgets all but keeps the memory.
    fn reset(&mut self) {
        self.forget_mates();
        self.acquired.clear();
        self.seen.clear();
        self.arrivals.clear();
        self.proxied = [0; 32];
        self.products.clear();
        self.exits.clear();
    }

    /// Resets the lanes' knowledge of each other to the block's.
    pub(crate) fn forget_mates(&mut self) {
        self.met = 0;
        self.mates.clear();
    }
}
