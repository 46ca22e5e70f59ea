//! Races: accesses of the same bytes that nothing orders.

use super::access::is_swap;
use super::{DOUBTFUL_BYTES, Sanitiser, access_name};
use crate::exec::state::handover::Handover;
use crate::exec::state::launch::At;
use crate::exec::state::place::{Kind, Place, Visit};
use crate::exec::state::problem::{Earlier, Problem};
use crate::exec::state::shadow::*;
use crate::fault::{ASYNCHRONOUS_COPY, FaultKind};
use crate::ir::{CLUSTER_RANK, Op, Order, Scope};
use crate::lanes::{lanes, lanes_where};
use crate::limits::Use;
use crate::memory::Allocation;

impl Sanitiser {
    /// Returns the lanes that race with an earlier access, and that access. Enters the access into the shadow.
    pub(super) fn races(
        &mut self,
        shadow: &mut BlockShadow,
        memory: &mut Shadow,
        visit: &Visit<'_>,
        mask: u32,
        held: impl Fn(u64, usize, &[u8]) -> bool,
        place: impl Fn(u64) -> Handover,
    ) -> Vec<(usize, Record)> {
        let mut found = Vec::new();
        if mask == 0 {
            return found;
        }
        let Visit { at: At { launch, warp, pc, .. }, reach, .. } = *visit;
        let offsets = visit.offsets();
        let number = shadow.number();
        for lane in lanes(mask) {
            let range = [offsets[lane], reach.bytes];
            if !memory.touch(range[0], range[1], &launch.account)
                || memory.open(shadow, range, &launch.account).is_none()
            {
                return found;
            }
        }
        let since = memory.since;
        let strong = reach.order != Order::Weak;
        let (reads, writes) = (reach.reads(), reach.writes());
        let flags = if strong { STRONG } else { 0 }
            | if strong && reach.scope == Scope::System { SYSTEM } else { 0 }
            | if reach.kind == Kind::Copy { PENDING } else { 0 }
            | if reads { READ } else { 0 }
            | if writes { WRITE } else { 0 };
        // Where all lanes read one place that cannot have been written meanwhile, two of them stand for all.
        let mut mask = mask;
        let start = offsets[mask.trailing_zeros() as usize];
        if !writes && !strong && mask.count_ones() > 2 && lanes(mask).all(|lane| offsets[lane] == start) {
            let quiet = |cell: &Cell| {
                shadow.is_past(cell[0], since) && (cell[1][2] & WRITE == 0 || shadow.is_past(cell[1], since))
            };
            if memory.opened(start, reach.bytes).iter().all(quiet) {
                let second = mask & (mask - 1);
                mask &= !(second & (second - 1));
            }
        }
        let first_thread = (shadow.first as u32).wrapping_add(warp * 32 + 1);
        // Strong accesses of two devices are so for each other only if both are for the system.
        let of_device = |thread: u32| launch.device_of_number(u64::from(thread - 1) / u64::from(launch.threads()));
        let device = shadow.device;
        let together =
            |with: Record| !launch.is_joint() || flags & with[2] & SYSTEM != 0 || of_device(with[0]) == device;
        for lane in lanes(mask) {
            let me = first_thread.wrapping_add(lane as u32);
            let record = [me, self.now, (pc as u32) << FLAGS | flags];
            if strong && reads && !reach.blind {
                self.take_over(shadow, warp, lane, place(offsets[lane]), &launch.account);
            }
            let mut race = None;
            for cell in memory.opened(offsets[lane], reach.bytes) {
                let conflicts = |with: Record| {
                    !shadow.is_past(with, since)
                        && (with[0] != me || with[2] & PENDING != 0)
                        && !(strong && with[2] & STRONG != 0 && together(with))
                        && !self.happens_before(shadow, with, warp, lane)
                };
                if race.is_none() {
                    race = cell.iter().copied().find(|other| (writes || other[2] & WRITE != 0) && conflicts(*other));
                }
                let unpublished = |with: Record| with[2] & (WRITE | STRONG) == WRITE && with[1] > since;
                if writes && strong && unpublished(cell[0]) {
                    *cell = [cell[0], record, NO_RECORD];
                } else if writes {
                    *cell = [record, NO_RECORD, NO_RECORD];
                } else {
                    let [_, one, other] = cell;
                    if one[2] & WRITE != 0 && !shadow.is_past(*one, since) {
                        if shadow.is_past(*other, since) || one[1] != self.now {
                            *other = record;
                        }
                    } else if shadow.is_past(*one, since) || one[0] == me {
                        *one = record;
                    } else if shadow.is_past(*other, since) || other[0] == me {
                        *other = record;
                    } else if one[1] != self.now || other[1] != self.now {
                        // In a warp the later reader knows more, and readers of two warps know more than those of one.
                        let warp_of = |thread: u32| thread.wrapping_sub(first_thread) / 32;
                        if warp_of(one[0]) == 0 {
                            *one = record;
                        } else if warp_of(other[0]) == 0 || warp_of(one[0]) == warp_of(other[0]) {
                            *other = record;
                        }
                    }
                }
            }
            if let Some(with) = race {
                // A write of what is there already, over a write, changes nothing.
                let same = with[2] & (WRITE | READ | PENDING) == WRITE
                    && reach.kind == Kind::Write
                    && reach.values.is_some_and(|values| {
                        let value = values(lane);
                        let written_now = with[1] == self.now;
                        if written_now {
                            let other = with[0].wrapping_sub(first_thread) as usize; // a lane of this instruction
                            offsets[other] == offsets[lane] && values(other) == value
                        } else {
                            held(offsets[lane], reach.bytes as usize, &value)
                        }
                    });
                if !same {
                    found.push((lane, with));
                }
            }
            memory.note(offsets[lane], flags, self.now, number);
            if strong && writes {
                let ordered = reach.order.releases();
                self.hand_over(shadow, warp, lane, place(offsets[lane]), ordered, &launch.account);
            }
        }
        found
    }

    /// Whether the thread knows of `earlier`: it happens before the thread's work from now on.
    pub(crate) fn happens_before(&self, shadow: &BlockShadow, earlier: Record, warp: u32, lane: usize) -> bool {
        let [thread, moment, flags] = earlier;
        if flags & PENDING != 0 {
            return false; // no thread knows of a copy that is under way
        }
        if flags & PRODUCT != 0 {
            // Its own threads have waited for it, and what any of them hands on comes after that.
            let of_group = |at: u32| [thread + at, moment, flags & !PRODUCT];
            let group = (u64::from(thread) - 1).wrapping_sub(shadow.first) / 128;
            return group == u64::from(warp / 4)
                || (0..128).any(|at| self.happens_before(shadow, of_group(at), warp, lane));
        }
        let thread = u64::from(thread) - 1;
        let in_block = thread.wrapping_sub(shadow.first);
        let same_block = in_block < u64::from(shadow.threads);
        let own = &shadow.warps[warp as usize];
        if same_block {
            if moment <= shadow.base && !shadow.left_before_barrier(earlier) {
                return true;
            }
            if in_block / 32 == u64::from(warp)
                && moment <= own.mates.get(lane).map_or(own.met, |mates| mates[(in_block % 32) as usize])
            {
                return true;
            }
        }
        if self.handovers.missing {
            return true;
        }
        let block = (thread / u64::from(shadow.threads)) as u32;
        let strong = flags & (STRONG | WRITE) == STRONG | WRITE;
        let acquired = own.acquired.get(lane).and_then(|acquired| acquired.clock.as_ref());
        [shadow.acquired.as_ref(), acquired]
            .into_iter()
            .flatten()
            .any(|clock| clock.covers(thread as u32, block, moment, strong))
    }

    /// Reports lanes that touch bytes which earlier work may still use: their device is not ordered after it, and they have learnt
    /// nothing from one that is.
    #[inline(never)]
    pub(super) fn look_for_earlier_work(&mut self, visit: &Visit<'_>, shadow: &BlockShadow, allocation: &Allocation) {
        let Visit { at, reach, .. } = *visit;
        let (launch, offsets) = (at.launch, visit.offsets());
        let base = allocation.base;
        for work in launch.earlier.iter().filter(|work| work.pointer.0 == base) {
            let knows = |device: u32| work.known_to.get(device as usize).copied().unwrap_or(true);
            if knows(shadow.device) || !(work.writes || reach.writes()) || self.handovers.missing {
                continue;
            }
            let own = &shadow.warps[at.warp as usize].acquired;
            let has_learnt = |lane: usize| {
                let acquired = own.get(lane).and_then(|acquired| acquired.clock.as_ref());
                [shadow.acquired.as_ref(), acquired].into_iter().flatten().any(|clock| {
                    let devices = (0..launch.members.len() as u32).filter(|device| knows(*device));
                    devices.into_iter().any(|device| clock.knows_any(launch.blocks_of(device), launch.threads().into()))
                })
            };
            let meets = |lane: usize| offsets[lane] < work.bytes.end && offsets[lane] + reach.bytes > work.bytes.start;
            let lanes = lanes_where(visit.part.mask, |lane| meets(lane) && !has_learnt(lane));
            if lanes != 0 {
                let verb = if reach.writes() { "writes" } else { "reads" };
                let message =
                    format!("race in global memory: this device {verb} what {}, and does not wait for it", work.what);
                let address = visit.addresses[lanes.trailing_zeros() as usize];
                let problem = Problem::new(FaultKind::GlobalRace, lanes, message)
                    .at(address)
                    .note(format!("the address is {}", allocation.describe(address)))
                    .note("it ran before this launch on another device: begin with a barrier of all devices, by flags of system scope");
                self.report(at, *problem);
            }
        }
    }

    /// Called when the lanes of `mask` access places: that decides which of their earlier reads there raced.
    pub(super) fn settle(
        &mut self,
        visit: &Visit<'_>,
        shadow: &BlockShadow,
        mask: u32,
        place: impl Fn(u64) -> Handover,
    ) {
        if self.doubtful.is_empty() {
            return;
        }
        let (at, offsets) = (visit.at, visit.offsets());
        let op = &at.launch.program.code[at.pc].op;
        if matches!(op, Op::Load(access) if access.order == Order::Weak) {
            return;
        }
        for lane in lanes(mask) {
            let key = (shadow.thread(at.warp, lane), place(offsets[lane]));
            if let Some(races) = self.doubtful.remove(&key) {
                at.launch.account.give(Use::Records, races.len() as u64 * DOUBTFUL_BYTES);
                if !is_swap(op) {
                    self.report_all(at.launch, races);
                }
            }
        }
    }
}

pub(super) fn race_problem(
    kind: FaultKind,
    visit: &Visit<'_>,
    shadow: &BlockShadow,
    lane: usize,
    with: Record,
) -> Problem {
    let address = visit.addresses[lane];
    let now = match visit.reach.kind {
        Kind::Read => "read",
        Kind::Write => "write",
        Kind::Atomic => "atomic",
        Kind::Copy => ASYNCHRONOUS_COPY,
    };
    let space = if kind == FaultKind::SharedRace { "shared" } else { "global" };
    let earlier = access_name(with);
    let other = Earlier { what: earlier, thread: u64::from(with[0]) - 1, pc: (with[2] >> FLAGS) as usize };
    let message = format!("race in {space} memory: nothing orders this {now} after another thread's {earlier}");
    let message = if with[2] & PENDING != 0 {
        format!("race in {space} memory: this {now} does not wait for an asynchronous copy")
    } else {
        message
    };
    let mut problem = *Problem::new(kind, 1 << lane, message).at(address);
    if kind == FaultKind::SharedRace {
        let described = visit.at.launch.describe_shared(address & ((1 << CLUSTER_RANK) - 1));
        let rank = match visit.part.place {
            Place::Peer(rank) => format!(", of the cluster's block {rank}"),
            _ => String::new(),
        };
        problem.notes.push(format!("the address is {described}{rank}"));
    }
    if with[1] <= shadow.base && shadow.left_before_barrier(with) {
        let note = "the thread exited without coming to the barrier, which orders what the threads did that come to it";
        problem.notes.push(note.to_owned());
    }
    problem.other = Some(other);
    problem
}
