//! Places through which threads hand over knowledge of their work, and the knowledge at each place.

use std::collections::HashMap;
use std::sync::Arc;

use super::clock::{Clock, SharedClock, Tally, join};
use crate::limits::{Account, Use};

/// Maximum number of remembered places. A kernel that frees its allocations never runs out of new ones; beyond, no race
/// is reported that a handover may have prevented.
const MAX_PLACES: usize = 1 << 18;

/// Number of places up to which a clock may be as large as the launch allows.
const MANY_PLACES: usize = 1 << 14;

/// A place through which threads hand over: an address, or a barrier of a block or a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Handover {
    Global(u64),
    Shared(u64, u64),
    Barrier(u64, u32),
    /// The barrier of a cluster, by its number.
    Cluster(u64),
}

/// Knowledge that a lane has taken over from others since its block's last barrier.
#[derive(Clone, Debug, Default)]
pub(crate) struct Acquired {
    pub clock: SharedClock,
    /// Number of the last place it looked at + 1, and the moment of that place's last change.
    from: u32,
    at: u32,
    /// Whether the clock equals the place's clock at that moment.
    pure: bool,
}

impl Acquired {
    pub(crate) fn of(clock: SharedClock) -> Self {
        Self { clock, ..Self::default() }
    }
}

/// A thread that hands over, with its knowledge.
pub(crate) struct Giver<'a> {
    /// Number of the thread in the launch, and of its block.
    pub thread: u32,
    pub block: u32,
    /// First thread of its warp, and the moment up to which it knows each lane's work.
    pub warp: u32,
    pub mates: [u32; 32],
    /// Moment up to which all of the block's accesses are known.
    pub base: u32,
    /// Number of the device.
    pub device: u32,
    pub handed: Handed,
    pub own: Option<&'a Acquired>,
    /// Knowledge that the whole block has taken over, and the moment of that.
    pub common: (&'a SharedClock, u32),
}

/// Moments of a thread's last fences, by [`Scope`].
pub(crate) type Fences = [u32; 3];

/// Part of a thread's earlier work that it hands over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Handed {
    /// Moment of the last fence of at least block scope, of device scope, of system scope: only earlier work counts. 0:
    /// there was none.
    pub fences: Fences,
    /// Moment up to which all of the block's reads count without a fence; 0: none do.
    pub reads: u32,
}

impl From<Fences> for Handed {
    fn from(fences: Fences) -> Self {
        Self { fences, reads: 0 }
    }
}

/// Threads that may take over knowledge that was not handed over to all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Group {
    Block(u32),
    Device(u32),
}

#[derive(Debug, Default)]
struct Held {
    /// Moment of the last change.
    changed: u32,
    /// Knowledge handed over to all.
    wide: SharedClock,
    /// Knowledge handed over within a block, or within one device of several.
    narrow: Vec<(Group, SharedClock)>,
    /// The block whose common knowledge is part of it, and the moment of that.
    common: Option<(u32, u32)>,
}

/// All places of a launch.
#[derive(Debug, Default)]
pub(crate) struct Handovers {
    places: HashMap<Handover, u32>,
    held: Vec<Held>,
    /// Numbers of places that no longer exist.
    free: Vec<u32>,
    /// Set if there were more than [`MAX_PLACES`].
    pub missing: bool,
    /// Maximum number of entries of a clock.
    limit: usize,
    /// Host memory of clocks, and the number of those handed over within a block.
    clocks: Tally,
    narrow: u64,
    /// Bytes already charged to the launch's account.
    taken: u64,
}

impl Handovers {
    /// For a launch with `threads` threads at a time: each may hold a clock.
    pub(crate) fn new(threads: u64) -> Self {
        let limit = ((1 << 25) / threads.max(1)).clamp(32, 512) as usize;
        Self { limit, ..Self::default() }
    }

    /// Whether the host has memory for the knowledge of all places; if not, the launch ends soon, and until then no race is
    /// reported that a handover may have prevented.
    #[inline]
    pub(crate) fn has_room(&mut self, account: &Account<'_>) -> bool {
        if account.is_free() {
            return true;
        }
        let place = (size_of::<(Handover, u32)>() + 2) as u64;
        let narrow = size_of::<(Group, SharedClock)>() as u64;
        let bytes = self.clocks.bytes()
            + self.places.capacity() as u64 * place
            + self.held.capacity() as u64 * size_of::<Held>() as u64
            + self.narrow * narrow;
        self.missing |= !account.adjust(Use::Shadow, &mut self.taken, bytes);
        !self.missing
    }

    pub(crate) fn limit(&self) -> usize {
        if self.held.len() > MANY_PLACES { self.limit.min(64) } else { self.limit }
    }

    /// Records that a thread of a block of a device has read others' writes at the place.
    pub(crate) fn take_over(&self, place: Handover, [block, device]: [u32; 2], acquired: &mut Acquired) {
        let Some(&index) = self.places.get(&place) else { return };
        let held = &self.held[index as usize];
        if (acquired.from, acquired.at) == (index + 1, held.changed) {
            return;
        }
        let own = [Group::Block(block), Group::Device(device)];
        let mut narrow = held.narrow.iter().filter(|(of, _)| own.contains(of)).peekable();
        // What a place had before is part of what it has now.
        let pure = acquired.clock.is_none() || acquired.pure && acquired.from == index + 1;
        if pure {
            acquired.clock.clone_from(&held.wide);
        } else {
            join(&mut acquired.clock, &held.wide, self.limit());
        }
        acquired.pure = pure && narrow.peek().is_none();
        for (_, narrow) in narrow {
            join(&mut acquired.clock, narrow, self.limit());
        }
        (acquired.from, acquired.at) = (index + 1, held.changed);
    }

    /// Hands a thread's knowledge to later readers of the place. Returns whether the place is new.
    pub(crate) fn release(&mut self, place: Handover, now: u32, giver: &Giver<'_>) -> bool {
        let known = self.places.get(&place).copied();
        let index = match known {
            Some(index) => index,
            None if self.places.len() >= MAX_PLACES => {
                self.missing = true;
                return false;
            }
            None => {
                let index = self.free.pop().unwrap_or_else(|| {
                    self.held.push(Held::default());
                    self.held.len() as u32 - 1
                });
                self.places.insert(place, index);
                index
            }
        };
        let limit = self.limit();
        let held = &mut self.held[index as usize];
        held.changed = now;
        let (common, common_at) = giver.common;
        let [block_fence, device_fence, system_fence] = giver.handed.fences;
        if system_fence != 0 {
            if let Some(own) = giver.own
                && !(own.pure && own.from == index + 1)
            {
                join(&mut held.wide, &own.clock, limit);
            }
            if common.is_some() && held.common != Some((giver.block, common_at)) {
                join(&mut held.wide, common, limit);
                held.common = Some((giver.block, common_at));
            }
            giver.tell(&mut held.wide, &self.clocks, system_fence, now, limit);
        }
        if giver.handed.reads != 0 {
            giver.tell_reads(&mut held.wide, &self.clocks, limit);
        }
        let groups = [
            (Group::Device(giver.device), device_fence, system_fence),
            (Group::Block(giver.block), block_fence, device_fence),
        ];
        for (group, fence, wider) in groups {
            if fence <= wider {
                continue;
            }
            let at = held.narrow.iter().position(|(of, _)| *of == group).unwrap_or_else(|| {
                self.narrow += 1;
                held.narrow.push((group, None));
                held.narrow.len() - 1
            });
            let narrow = &mut held.narrow[at].1;
            if let Some(own) = giver.own {
                join(narrow, &own.clock, limit);
            }
            join(narrow, common, limit);
            giver.tell(narrow, &self.clocks, fence, now, limit);
        }
        known.is_none()
    }

    /// Forgets the place: its block has ended.
    pub(crate) fn forget(&mut self, place: Handover) {
        if let Some(index) = self.places.remove(&place) {
            let held = std::mem::take(&mut self.held[index as usize]);
            self.narrow -= held.narrow.len() as u64;
            self.free.push(index);
        }
    }
}

impl Giver<'_> {
    /// Enters the reads that are known, the block's own among them.
    fn tell_reads(&self, clock: &mut SharedClock, tally: &Tally, limit: usize) {
        let clock: &mut Clock = Arc::make_mut(clock.get_or_insert_with(|| Arc::new(Clock::new(tally))));
        for known in self.own.map(|own| &own.clock).into_iter().chain([self.common.0]).flatten() {
            clock.join_reads(known, limit);
        }
        clock.raise_reads(self.block, self.handed.reads, limit);
        clock.weigh();
    }

    /// Enters the thread's own work, up to a fence.
    fn tell(&self, clock: &mut SharedClock, tally: &Tally, fence: u32, now: u32, limit: usize) {
        let clock: &mut Clock = Arc::make_mut(clock.get_or_insert_with(|| Arc::new(Clock::new(tally))));
        for (lane, &moment) in (0..).zip(&self.mates) {
            if moment != 0 {
                clock.raise_thread(self.warp.wrapping_add(lane), moment.min(fence), limit);
            }
        }
        clock.raise_block(self.block, self.base.min(fence), limit);
        clock.raise_strong(self.thread, now, limit);
        clock.weigh();
    }
}
