//! Knowledge of the threads of a launch: up to which moment everything that each of them did has been handed over.
//!
//! A vector clock has an entry for each thread, which no launch of a million threads can afford at every lock. These have
//! entries for *groups* of threads. A group is one thread at first; where there are too many entries, neighbours become one
//! group with the later of their moments. A clock then claims more than is true, so that a race may go unseen, but none
//! is reported that a handover prevents. An access to a clock costs no more than its limit, however many threads there are.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// For groups of `2^shift` neighbours, the moment up to which they are known; groups without an entry are not known at
/// all.
#[derive(Clone, Debug, Default)]
struct Known {
    shift: u32,
    /// (number of the group, moment), in order.
    entries: Vec<(u32, u32)>,
}

impl Known {
    /// Whether any of these is known at all.
    fn has_any(&self, ids: &Range<u64>) -> bool {
        self.entries.iter().any(|(group, _)| {
            let first = u64::from(*group) << self.shift;
            first < ids.end && first + (1 << self.shift) > ids.start
        })
    }

    fn covers(&self, id: u32, moment: u32) -> bool {
        let found = self.entries.binary_search_by_key(&(id >> self.shift), |(group, _)| *group);
        found.is_ok_and(|at| moment <= self.entries[at].1)
    }

    fn raise(&mut self, id: u32, moment: u32, limit: usize) {
        let group = id >> self.shift;
        match self.entries.binary_search_by_key(&group, |(group, _)| *group) {
            Ok(at) => self.entries[at].1 = self.entries[at].1.max(moment),
            Err(at) => {
                self.entries.insert(at, (group, moment));
                self.shrink(limit);
            }
        }
    }

    /// Whether joining `other` would change nothing.
    fn contains(&self, other: &Self) -> bool {
        let Some(finer) = self.shift.checked_sub(other.shift) else { return other.entries.is_empty() };
        let mut mine = self.entries.iter().peekable();
        other.entries.iter().all(|&(group, moment)| {
            let group = group >> finer;
            while mine.next_if(|(own, _)| *own < group).is_some() {}
            mine.peek().is_some_and(|&&(own, known)| own == group && moment <= known)
        })
    }

    fn join(&mut self, other: &Self, limit: usize) {
        if self.contains(other) {
            return self.shrink(limit);
        }
        self.coarsen(other.shift);
        let finer = self.shift - other.shift;
        let mut all = Vec::with_capacity(self.entries.len() + other.entries.len());
        let mut mine = self.entries.iter().copied().peekable();
        for &(group, moment) in &other.entries {
            let group = group >> finer;
            while let Some(before) = mine.next_if(|(own, _)| *own <= group) {
                enter(&mut all, before);
            }
            enter(&mut all, (group, moment));
        }
        all.extend(mine);
        self.entries = all;
        self.shrink(limit);
    }

    fn shrink(&mut self, limit: usize) {
        while self.entries.len() > limit {
            self.coarsen(self.shift + 1);
        }
    }

    fn coarsen(&mut self, shift: u32) {
        let Some(by @ 1..) = shift.checked_sub(self.shift) else { return };
        let mut merged = Vec::with_capacity(self.entries.len());
        self.entries.iter().for_each(|&(group, moment)| enter(&mut merged, (group >> by, moment)));
        (self.shift, self.entries) = (shift, merged);
    }
}

/// Appends an entry for the last group or a later one.
fn enter(entries: &mut Vec<(u32, u32)>, (group, moment): (u32, u32)) {
    match entries.last_mut() {
        Some((last, known)) if *last == group => *known = moment.max(*known),
        _ => entries.push((group, moment)),
    }
}

/// Bytes of host memory that all clocks of a launch take together.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tally(Arc<AtomicU64>);

impl Tally {
    pub(crate) fn bytes(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Share of a clock in its tally.
#[derive(Debug, Default)]
struct Weight {
    tally: Tally,
    bytes: u64,
}

impl Weight {
    fn set(&mut self, bytes: u64) {
        if bytes != self.bytes {
            self.tally.0.fetch_add(bytes.wrapping_sub(self.bytes), Ordering::Relaxed);
            self.bytes = bytes;
        }
    }
}

impl Clone for Weight {
    /// Weight of a clock which has yet to be weighed.
    fn clone(&self) -> Self {
        Self { tally: self.tally.clone(), bytes: 0 }
    }
}

impl Drop for Weight {
    fn drop(&mut self) {
        self.set(0);
    }
}

/// Knowledge of the threads of a launch.
#[derive(Clone, Debug, Default)]
pub(crate) struct Clock {
    threads: Known,
    /// All threads of a block.
    blocks: Known,
    /// Strong writes only: a thread that has read one's value knows that it has happened, and need not know the other
    /// thread's work between its fence and the write.
    strong: Known,
    /// Reads only, of all threads of a block: a value that another's value follows from has been read.
    reads: Known,
    weight: Weight,
}

impl Clock {
    /// A clock that knows nothing.
    pub(crate) fn new(tally: &Tally) -> Self {
        Self { weight: Weight { tally: tally.clone(), bytes: 0 }, ..Self::default() }
    }

    fn parts(&self) -> [&Known; 4] {
        [&self.threads, &self.blocks, &self.strong, &self.reads]
    }

    /// Reports the clock's current size to the tally.
    pub(crate) fn weigh(&mut self) {
        let entries = self.parts().map(|known| known.entries.capacity());
        let entry = size_of::<(u32, u32)>();
        self.weight.set((size_of::<Self>() + entries.iter().sum::<usize>() * entry) as u64);
    }

    /// Whether the clock knows the access of a thread of a block at that moment.
    pub(crate) fn covers(&self, thread: u32, block: u32, moment: u32, strong: bool) -> bool {
        self.threads.covers(thread, moment)
            || self.blocks.covers(block, moment)
            || strong && self.strong.covers(thread, moment)
    }

    /// Whether the clock knows that the thread of a block has made its reads of that moment.
    pub(crate) fn covers_read(&self, block: u32, moment: u32) -> bool {
        self.reads.covers(block, moment)
    }

    /// Whether the clock knows anything that a thread of these blocks did.
    pub(crate) fn knows_any(&self, blocks: Range<u64>, threads: u64) -> bool {
        self.threads.has_any(&(blocks.start * threads..blocks.end * threads)) || self.blocks.has_any(&blocks)
    }

    pub(crate) fn raise_thread(&mut self, thread: u32, moment: u32, limit: usize) {
        self.threads.raise(thread, moment, limit);
    }

    pub(crate) fn raise_block(&mut self, block: u32, moment: u32, limit: usize) {
        self.blocks.raise(block, moment, limit);
    }

    pub(crate) fn raise_strong(&mut self, thread: u32, moment: u32, limit: usize) {
        self.strong.raise(thread, moment, limit);
    }

    pub(crate) fn raise_reads(&mut self, block: u32, moment: u32, limit: usize) {
        self.reads.raise(block, moment, limit);
    }

    /// Adds what `other` knows of reads.
    pub(crate) fn join_reads(&mut self, other: &Self, limit: usize) {
        self.reads.join(&other.reads, limit);
    }

    /// Whether joining `other` would change nothing.
    fn contains(&self, other: &Self, limit: usize) -> bool {
        let contains = |(own, other): (&Known, &Known)| own.entries.len() <= limit && own.contains(other);
        self.parts().into_iter().zip(other.parts()).all(contains)
    }

    pub(crate) fn join(&mut self, other: &Self, limit: usize) {
        self.threads.join(&other.threads, limit);
        self.blocks.join(&other.blocks, limit);
        self.strong.join(&other.strong, limit);
        self.reads.join(&other.reads, limit);
        self.weigh();
    }
}

/// A clock that several may hold at once; `None` knows nothing.
pub(crate) type SharedClock = Option<Arc<Clock>>;

/// Adds the knowledge of `other` to `clock`; copies neither where one of them suffices.
pub(crate) fn join(clock: &mut SharedClock, other: &SharedClock, limit: usize) {
    match (clock.as_mut(), other) {
        (_, None) => {}
        (None, Some(_)) => clock.clone_from(other),
        (Some(own), Some(other)) if Arc::ptr_eq(own, other) || own.contains(other, limit) => {}
        (Some(own), Some(other)) if other.contains(own, limit) => own.clone_from(other),
        (Some(own), Some(other)) => Arc::make_mut(own).join(other, limit),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_raised_is_covered_up_to_its_moment() {
        let mut clock = Clock::default();
        clock.raise_thread(7, 20, 8);
        assert!(clock.covers(7, 0, 20, false) && !clock.covers(7, 0, 21, false) && !clock.covers(6, 0, 1, false));
        clock.raise_strong(7, 30, 8);
        assert!(clock.covers(7, 0, 30, true) && !clock.covers(7, 0, 30, false));
        clock.raise_block(3, 40, 8);
        assert!(clock.covers(99, 3, 40, false) && !clock.covers(99, 4, 40, false));
    }

    #[test]
    fn a_full_clock_forgets_nothing_that_it_knew() {
        const LIMIT: usize = 16;
        let (mut clock, mut other) = (Clock::default(), Clock::default());
        for thread in 0..1000 {
            clock.raise_thread(thread * 7, thread + 1, LIMIT);
            other.raise_thread(thread * 5 + 1, 2000 - thread, LIMIT);
        }
        clock.join(&other, LIMIT);
        assert!(clock.threads.entries.len() <= LIMIT);
        for thread in 0..1000 {
            assert!(clock.covers(thread * 7, 0, thread + 1, false));
            assert!(clock.covers(thread * 5 + 1, 0, 2000 - thread, false));
        }
        assert!(!clock.covers(0, 0, 2001, false));
    }

    #[test]
    fn the_tally_is_what_all_clocks_take() {
        let tally = Tally::default();
        let mut clock = Clock::new(&tally);
        (0..100).for_each(|thread| clock.raise_thread(thread, 1, 512));
        clock.weigh();
        let one = tally.bytes();
        assert!(one >= 800, "{one}");
        let shared = Some(Arc::new(clock));
        let mut other = None;
        join(&mut other, &shared, 512);
        assert_eq!(tally.bytes(), one, "both are the same clock");
        let mut more = Clock::new(&tally);
        more.raise_block(3, 4, 512);
        join(&mut other, &Some(Arc::new(more)), 512);
        assert!(tally.bytes() >= 2 * one - 500, "a copy of its own");
        drop((shared, other));
        assert_eq!(tally.bytes(), 0);
    }

    #[test]
    fn clocks_of_different_grain_join() {
        let (mut fine, mut coarse) = (Clock::default(), Clock::default());
        (0..32).for_each(|thread| coarse.raise_thread(thread, 5, 4));
        fine.raise_thread(33, 9, 4);
        let mut joined = fine.clone();
        joined.join(&coarse, 4);
        coarse.join(&fine, 4);
        for clock in [joined, coarse] {
            assert!(clock.covers(33, 0, 9, false) && clock.covers(31, 0, 5, false) && !clock.covers(200, 0, 1, false));
        }
    }
}
