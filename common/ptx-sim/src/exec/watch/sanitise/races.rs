//! Races: accesses of the same bytes that nothing orders.

use super::access::is_swap;
use super::{DOUBTFUL_BYTES, Sanitiser, access_name};
use crate::exec::state::handover::{Acquired, Fences, Handed, Handover};
use crate::exec::state::launch::{At, Launch};
use crate::exec::state::place::{Kind, Place, Visit};
use crate::exec::state::problem::{Earlier, Problem};
use crate::exec::state::shadow::*;
use crate::fault::{ASYNCHRONOUS_COPY, FaultKind};
use crate::ir::{CLUSTER_RANK, MbarrierOp, MemSpace, Op, Order, Scope};
use crate::lanes::{lanes, lanes_where};
use crate::limits::Use;
use crate::memory::Allocation;

const READ_ONLY: &str = "PTX ISA, \"ld.global.nc\": its cache is not kept coherent with writes, not even by a barrier";

const SCOPE: &str = "PTX ISA, \"Morally strong operations\": the scope of each names the other's thread; `.gpu` is the one of \
                     `atomicAdd` and `cuda::thread_scope_device`, `.cta` that of `atomicAdd_block` and `cuda::thread_scope_block`";

const INITIALISATION: &str = "that write initialises an mbarrier: before another thread uses the object stands a barrier of both (for another \
                              block of the cluster a fence.mbarrier_init, and the cluster's barrier)";

const ARRIVAL: &str = "an arrival at an mbarrier is of block scope (`.cta`) unless it names another, and tells threads of other blocks nothing: \
                       `mbarrier.arrive.release.cluster` does";

/// Whether an instruction arrives at an mbarrier, perhaps another block's, for threads of its own block only.
fn arrives_in_block_scope(op: &Op) -> bool {
    matches!(op, Op::Mbarrier(mbarrier) if matches!(mbarrier.op, MbarrierOp::Arrive { d: None, .. })
        && mbarrier.scope == Scope::Block
        && mbarrier.address.space != MemSpace::Shared)
}

/// The part of the memory model that a strict sanitiser alone insists on, if the race may be due to it.
fn letter(visit: &Visit<'_>, shadow: &BlockShadow, with: Record) -> Option<&'static str> {
    if visit.reach.order == Order::Volatile && with[2] & STRONG != 0 {
        return Some("`volatile` does not order what lanes of a warp do: put a `__syncwarp()` between the two");
    }
    let block = shadow.block_of(with[0]);
    let program = visit.at.launch.program;
    if block != shadow.number() && program.code.iter().any(|instruction| arrives_in_block_scope(&instruction.op)) {
        return Some(ARRIVAL);
    }
    let knows =
        |seen: &Acquired| seen.clock.as_ref().is_some_and(|clock| clock.covers(with[0] - 1, block, with[1], false));
    shadow.warps.iter().flat_map(|warp| &warp.seen).any(knows).then_some(
        "a poll that is not `.acquire` (`volatile`, `.relaxed`) orders nothing before the thread's next fence: put a \
         `__threadfence()` after it; a barrier is none",
    )
}

/// The scope as it counts in the launch: without other devices, that of a device is that of the system.
pub(super) fn widest(launch: &Launch<'_>, scope: Scope) -> Scope {
    if scope == Scope::Device && !launch.is_joint() { Scope::System } else { scope }
}

/// The fences that count for an access of that scope.
fn within(scope: Scope, mut fences: Fences) -> Fences {
    fences[scope as usize + 1..].fill(0);
    fences
}

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
        let on_mbarrier = matches!(launch.program.code[pc].op, Op::Mbarrier(_));
        let flags = if strong { STRONG } else { 0 }
            | if strong && reach.scope == Scope::System { SYSTEM } else { 0 }
            // Operations on an mbarrier never race with each other; their scope says how far they hand over.
            | if strong && reach.scope == Scope::Block && !on_mbarrier { BLOCK_SCOPE } else { 0 }
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
        // Strong accesses are so for each other only if the scope of each includes the other's thread.
        let of_device = |thread: u32| launch.device_of_number(u64::from(thread - 1) / u64::from(launch.threads()));
        let device = shadow.device;
        let in_scope = |with: Record| match (flags | with[2]) & BLOCK_SCOPE {
            0 => !launch.is_joint() || flags & with[2] & SYSTEM != 0 || of_device(with[0]) == device,
            _ => (with[0] - 1) / launch.threads() == number,
        };
        let is_volatile = |pc: usize| {
            let op = &launch.program.code[pc].op;
            matches!(op, Op::Load(access) | Op::Store(access) if access.order == Order::Volatile)
        };
        // Lanes of a warp have no order of their own that `.volatile` could keep.
        let is_loose = self.strict && is_volatile(pc) && matches!(place(start), Handover::Shared(..));
        let is_mate =
            |with: Record| with[0].wrapping_sub(first_thread) < 32 && is_volatile((with[2] >> FLAGS) as usize);
        let together = |with: Record| in_scope(with) && !(is_loose && is_mate(with));
        // What the place hands over says nothing of the write there that another block's scope leaves out, and a wait must not come
        // before its mbarrier's initialisation, of which it learns only if it comes after.
        let is_late = reach.scope == Scope::Block || on_mbarrier;
        for lane in lanes(mask) {
            let me = first_thread.wrapping_add(lane as u32);
            let record = [me, self.now, (pc as u32) << FLAGS | flags];
            let acquires = !self.strict || reach.order.acquires();
            if strong && reads && !reach.blind && !is_late {
                self.take_over(shadow, warp, lane, place(offsets[lane]), acquires, &launch.account);
            }
            let mut race = None;
            for cell in memory.opened(offsets[lane], reach.bytes) {
                let conflicts = |with: Record| {
                    !shadow.is_past(with, since)
                        && (with[0] != me || with[2] & (PENDING | PRODUCT) != 0)
                        && !(strong && with[2] & STRONG != 0 && together(with))
                        && !self.happens_before(shadow, with, warp, lane)
                };
                if reach.read_only && cell[0][2] & WRITE != 0 && cell[0][1] > since {
                    race = race.or(Some(cell[0]));
                }
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
            if strong && reads && !reach.blind && is_late && (race.is_none() || reach.scope != Scope::Block) {
                self.take_over(shadow, warp, lane, place(offsets[lane]), acquires, &launch.account);
            }
            if let Some(with) = race {
                // A write of what is there already, over a write, changes nothing.
                let same = !self.strict
                    && with[2] & (WRITE | READ | PENDING) == WRITE
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
                let moments = if reach.order.releases() { [self.now; 3] } else { shadow.fences };
                let fences = within(widest(launch, reach.scope), moments);
                let place = place(offsets[lane]);
                // What a block has read before its barrier is read when a store follows that other blocks see.
                let is_signal = !self.strict && reach.kind == Kind::Write && reach.scope != Scope::Block;
                let has_met = shadow.base > shadow.memory.since;
                let reads = if is_signal && has_met && matches!(place, Handover::Global(_)) { shadow.base } else { 0 };
                self.hand_over(shadow, warp, lane, place, Handed { fences, reads }, &launch.account);
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
            // A warp that has waited for it knows, and whoever has learnt of the warp's work since. Of another block's warps it is not
            // known when they waited: not before the tiles were read.
            let first = (u64::from(thread) - 1).wrapping_sub(shadow.first);
            let is_own = first < u64::from(shadow.threads);
            return (0..4).any(|member| {
                let number = first as u32 / 32 + member;
                let waited = match shadow.warps.get(number as usize).filter(|_| is_own) {
                    Some(member) => member.waited_for(moment),
                    None => (!is_own).then_some(moment),
                };
                waited.is_some_and(|wait| {
                    let of_lane = |at: u32| [thread + 32 * member + at, wait, flags & !PRODUCT];
                    is_own && number == warp || (0..32).any(|at| self.happens_before(shadow, of_lane(at), warp, lane))
                })
            });
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
        let read = flags & (READ | WRITE) == READ;
        let acquired = own.acquired.get(lane).and_then(|acquired| acquired.clock.as_ref());
        [shadow.acquired.as_ref(), acquired]
            .into_iter()
            .flatten()
            .any(|clock| clock.covers(thread as u32, block, moment, strong) || read && clock.covers_read(block, moment))
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
    let flags = with[2] | if visit.reach.scope == Scope::Block { BLOCK_SCOPE } else { 0 };
    let out_of_scope = visit.reach.order != Order::Weak
        && with[2] & STRONG != 0
        && flags & BLOCK_SCOPE != 0
        && shadow.block_of(with[0]) != shadow.number();
    let message = if with[2] & PENDING != 0 {
        format!("race in {space} memory: this {now} does not wait for an asynchronous copy")
    } else if visit.reach.read_only {
        format!("race in {space} memory: a load by the read-only path (`.nc`) of what this launch has written")
    } else if out_of_scope {
        format!(
            "race in {space} memory: this {now} and the {earlier} of another block are of block scope (`.cta`), at least one of them"
        )
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
    let launch = visit.at.launch;
    if visit.reach.read_only {
        problem.notes.push(READ_ONLY.to_owned());
    } else if out_of_scope {
        problem.notes.push(SCOPE.to_owned());
    } else if matches!(&launch.program.code[other.pc].op, Op::Mbarrier(mbarrier) if matches!(mbarrier.op, MbarrierOp::Init { .. }))
    {
        problem.notes.push(INITIALISATION.to_owned());
    } else if launch.strict {
        problem.notes.extend(letter(visit, shadow, with).map(str::to_owned));
    }
    if with[1] <= shadow.base && shadow.left_before_barrier(with) {
        let note = "the thread exited without coming to the barrier, which orders what the threads did that come to it";
        problem.notes.push(note.to_owned());
    }
    problem.other = Some(other);
    problem
}
