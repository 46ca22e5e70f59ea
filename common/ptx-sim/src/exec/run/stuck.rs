//! Waits that never end: whether anything can still happen, and who waits for what.
//!
//! A warp is *idle* in a turn if it only asks: it polls memory or waits at an mbarrier in vain, and nothing that it did can be
//! seen by another. From its third idle turn on each question ends its turn, so that others run, and so that its turns end
//! at the same instruction. If its registers are as at an earlier such turn, and nobody wrote memory between, it *stands
//! still*: it will do the same forever. A cluster stands still if all its warps do, or wait for each other; the launch, if all
//! clusters do that have begun and no other can begin ([`Ledger`]).

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hasher};

use super::check::find;
use super::elements::{read_shared, shared_bytes};
use super::mbarrier::wait_in_vain;
use crate::exec::state::asynchrony::Asynchrony;
use crate::exec::state::block::Block;
use crate::exec::state::cluster::Cluster;
use crate::exec::state::launch::Launch;
use crate::exec::state::poll::Poll;
use crate::exec::state::problem::Problem;
use crate::exec::state::warp::{MAX_LOOKS, State, Warp};
use crate::exec::watch::monitor::Monitor;
use crate::fault::{Fault, FaultKind, MEMORY_WAIT};
use crate::ir::{AtomOp, CLUSTER_BARRIER, Inst, Op};
use crate::memory;
use crate::memory::plural;
use crate::scalar::Relation;

/// Maximum number of waits, and of blocks that have exited, that a report names.
const MAX_TOLD: usize = 8;

/// Instructions after a poll among which the comparison of its value is looked for.
const NEAR: usize = 6;

/// Clusters that have begun, and which of them stand still.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    /// Clusters that have ended, and the first of them.
    ended: u64,
    exited: Vec<u64>,
    /// Clusters that ended with a fault, or were given up for one of another.
    failed: u64,
    /// Clusters that have stood still since `epoch`.
    still: u64,
    epoch: u64,
    /// The epoch that began when joins were left to end a standstill.
    freed: Option<u64>,
}

/// Next step of a launch, of which a cluster stands still.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// Other clusters run.
    Wait,
    /// Nothing happens any more: lanes that wait at joins are to go on without the others.
    Free,
    /// Nothing can happen any more.
    Stuck,
}

impl Ledger {
    /// Records that a cluster has ended.
    pub(crate) fn end(&mut self, cluster: u64) {
        self.ended += 1;
        if self.exited.len() <= MAX_TOLD {
            self.exited.push(cluster);
        }
    }

    /// Records that a cluster is over without having ended.
    pub(crate) fn give_up(&mut self, cluster: &Cluster) {
        self.failed += 1;
        self.still -= u64::from(cluster.still_since == Some(self.epoch));
    }

    /// Records that joins were left, which began `epoch`.
    pub(crate) fn free(&mut self, epoch: u64) {
        self.freed = Some(epoch);
    }

    /// Records that a cluster stands still since `epoch`, which is still the latest. `begun` clusters have begun; `more`:
    /// another can.
    pub(crate) fn stands_still(&mut self, cluster: &mut Cluster, epoch: u64, begun: u64, more: bool) -> Next {
        if self.epoch != epoch {
            (self.epoch, self.still) = (epoch, 0);
        }
        if cluster.still_since != Some(epoch) {
            cluster.still_since = Some(epoch);
            self.still += 1;
        }
        if more || self.still < begun - self.ended - self.failed {
            Next::Wait
        } else if self.freed == Some(epoch) {
            Next::Stuck
        } else {
            Next::Free
        }
    }

    /// Describes the blocks that do not come any more.
    pub(crate) fn absent(&self, launch: &Launch<'_>) -> Vec<String> {
        let mut notes = Vec::new();
        let never = if launch.cooperative() { ": `grid.sync()` waits for them in vain" } else { "" };
        let per_cluster = u64::from(launch.cluster_blocks());
        let named = |cluster: &u64| {
            let index = launch.block_index(launch.block_of_cluster(*cluster, 0));
            let [x, y, z] = index.at;
            let device = launch.device_of(index).map_or_else(String::new, |device| format!("device {device}, "));
            let never = if never.is_empty() { "" } else { " and never comes to `grid.sync()`" };
            format!("{device}block ({x}, {y}, {z}) has exited{never}")
        };
        let total = launch.blocks();
        match self.ended * per_cluster {
            0 => {}
            few if few <= MAX_TOLD as u64 && per_cluster == 1 => notes.extend(self.exited.iter().map(named)),
            ended => notes.push(format!("{ended} of {total} blocks have exited{never}")),
        }
        let fresh = launch.fresh.get().count() as u64 * per_cluster;
        if fresh != 0 {
            notes.push(format!(
                "{fresh} of {total} blocks have not begun: there is no room for them beside those that wait"
            ));
        }
        notes
    }
}

impl Cluster {
    /// Looks at the warps after each has had a turn; returns whether the cluster stands still.
    pub(crate) fn look(&mut self, launch: &Launch<'_>) -> bool {
        let mut wrote = false;
        for block in &mut self.blocks {
            wrote |= std::mem::take(&mut block.wrote);
        }
        if wrote {
            (self.quiet, self.wrote) = (0, true);
            return false;
        }
        self.quiet = self.quiet.saturating_add(1);
        // Copies that are made at some turn come without being asked for.
        let Some(looks) = self.quiet.checked_sub(3).filter(|looks| *looks <= MAX_LOOKS) else { return false };
        if matches!(launch.asynchrony, Asynchrony::Seeded(_)) {
            return false;
        }
        let mut all = true;
        for block in &mut self.blocks {
            let copies = !block.arrivals.is_empty() || block.transfers.len() != 0;
            for warp in &mut block.warps {
                if warp.splits.iter().all(|split| split.state != State::Ready) {
                    continue;
                }
                let mut state = DefaultHasher::new();
                warp.hash_state(&mut state);
                let now = state.finish();
                warp.still = looks != 0 && (warp.still || warp.seen == now);
                if looks == 0 || looks.is_power_of_two() {
                    warp.seen = now;
                }
                // What a copy under way brings may be what memory is polled for.
                let copies = copies || !warp.copies.pending.is_empty();
                all &= warp.still && (warp.in_vain.is_some() || warp.poll.is_some());
                all &= warp.poll.is_none() || !copies;
            }
        }
        all
    }

    /// Whether all that its warps wait for is shared memory of their own blocks.
    pub(crate) fn waits_for_itself(&self) -> bool {
        let warps = || self.blocks.iter().flat_map(|block| &block.warps);
        warps().all(|warp| !warp.polls_afar)
    }

    /// Lets lanes go on that wait at joins, here and from now on, if there are any: what the others wait for may be theirs to
    /// do, as the release of a lock.
    pub(crate) fn leave_joins(&mut self, launch: &Launch<'_>) -> bool {
        self.leave_those(launch, |_, _| true)
    }

    /// Lets lanes go on that have left a loop and wait for the others to leave it, if these wait at a reduction by a barrier in
    /// it, as `while (__syncthreads_or(…))` has in its condition. Where the source returns from the loop, a compiler may
    /// join what comes before that return with what follows the loop; threads that have returned count as arrived.
    pub(crate) fn leave_loops(&mut self, launch: &Launch<'_>) -> bool {
        let code = launch.program.code.as_slice();
        let is_left = |barrier: usize, join: usize| {
            let backwards = |(end, inst): (usize, &Inst)| match inst.op {
                Op::Bra { target, .. } => {
                    let target = target as usize;
                    target <= barrier && barrier < end && !(target..=end).contains(&join)
                }
                _ => false,
            };
            code.iter().enumerate().any(backwards)
        };
        self.leave_those(launch, |warp, join| {
            warp.splits.iter().any(|split| {
                let pc = split.pc as usize;
                matches!(&code[pc].op, Op::Barrier(barrier) if barrier.source.is_some()) && is_left(pc, join as usize)
            })
        })
    }

    /// Lets lanes go on that wait at joins which `are_left`.
    fn leave_those(&mut self, launch: &Launch<'_>, are_left: impl Fn(&Warp, u32) -> bool) -> bool {
        let mut any = false;
        for warp in self.blocks.iter_mut().flat_map(|block| &mut block.warps) {
            for at in 0..warp.joins.len() {
                let Some(pc) = warp.joins[at].as_ref().filter(|join| join.arrived != 0).map(|join| join.pc) else {
                    continue;
                };
                if !are_left(warp, pc) {
                    continue;
                }
                launch.loosen(pc);
                any |= warp.leave_join(at) != 0;
            }
        }
        if any {
            (self.quiet, self.wrote) = (0, true);
        }
        any
    }

    /// The fault of a cluster that stands still for good; `notes` are about other blocks.
    pub(crate) fn stuck<M: Monitor>(
        &mut self,
        launch: &Launch<'_>,
        monitor: &mut M,
        notes: Vec<String>,
    ) -> Option<Box<Fault>> {
        let (mut first, mut asking) = (None, 0);
        let mut told = Vec::new();
        let mut gathered = BTreeSet::new();
        for (rank, block) in self.blocks.iter_mut().enumerate() {
            for number in 0..block.warps.len() {
                let Some(wait) = wait_of(block, number, launch, monitor) else { continue };
                // Of warps that wait at one instruction, one stands for all.
                if wait.asks || gathered.insert((rank, wait.place.0)) {
                    told.extend(wait.notes);
                }
                asking += u32::from(wait.asks);
                if wait.asks && first.is_none() {
                    first = Some((rank, number, wait.place, wait.name));
                }
            }
        }
        let (rank, warp, (pc, lanes, address), name) = first?;
        let message = match name {
            Some(name) => format!("{MEMORY_WAIT}{name} never ends: no thread is left that could end it"),
            None if asking == 1 => "a wait at an mbarrier never ends: no thread of the block can go on".to_owned(),
            None => format!("{asking} warps wait at mbarriers without end: no thread of the block can go on"),
        };
        if told.len() > MAX_TOLD {
            let more = told.len() - MAX_TOLD;
            told.truncate(MAX_TOLD);
            told.push(format!("{more} more such notes are left out"));
        }
        let mut problem = Problem::new(FaultKind::Deadlock, lanes, message).at(address);
        problem.calls = self.blocks[rank].calls_at(warp as u32, pc, lanes);
        problem.notes.extend(told);
        problem.notes.extend(notes);
        Some(Box::new(launch.fault(*problem, pc, self.blocks[rank].index, warp as u32)))
    }
}

/// A warp's wait.
struct Wait {
    /// Whether it asks again and again; otherwise it is at a barrier or the like.
    asks: bool,
    /// Instruction, lanes and address.
    place: (usize, u32, u64),
    /// The memory that it polls.
    name: Option<String>,
    notes: Vec<String>,
}

/// The wait of a warp of the block; `None` if it has ended.
fn wait_of<M: Monitor>(block: &mut Block, number: usize, launch: &Launch<'_>, monitor: &mut M) -> Option<Wait> {
    let warp = &block.warps[number];
    if let Some((wait, note)) =
        warp.in_vain.and_then(|wait| Some((wait, wait_in_vain(block, number as u32, wait, launch)?)))
    {
        return Some(Wait { asks: true, place: (wait.pc, 1 << wait.lane, wait.at), name: None, notes: vec![note] });
    }
    let warp = &block.warps[number];
    if let Some(poll) = warp.poll {
        let (name, notes) = describe(block, number, poll, launch, monitor);
        return Some(Wait { asks: true, place: (poll.pc, 1 << poll.lane, poll.address), name: Some(name), notes });
    }
    let waiting = warp.waiting()?;
    let whereabouts = launch.whereabouts(waiting.pc, block.index, warp.number, waiting.lanes, "waits");
    let reason = match waiting.barrier {
        Some(CLUSTER_BARRIER) => "for the cluster's barrier".to_owned(),
        Some(id) => {
            let barrier = block.barriers[id as usize];
            let expected = if barrier.expected == 0 { block.live } else { barrier.expected };
            format!("for barrier {id}, which {} of {expected} threads have reached", barrier.arrived)
        }
        None => "for other lanes or warps".to_owned(),
    };
    let notes = vec![format!("{whereabouts} {reason}")];
    Some(Wait { asks: false, place: (waiting.pc, waiting.lanes, 0), name: None, notes })
}

/// Describes the wait that a warp is in, if it polls memory or an mbarrier.
pub(crate) fn asks_in_vain<M: Monitor>(
    block: &mut Block,
    number: usize,
    launch: &Launch<'_>,
    monitor: &mut M,
) -> Vec<String> {
    let wait = wait_of(block, number, launch, monitor).filter(|wait| wait.asks);
    wait.map(|wait| wait.notes).unwrap_or_default()
}

/// The name of the memory that is polled, and notes: who waits, for what, and who wrote it last.
fn describe<M: Monitor>(
    block: &mut Block,
    number: usize,
    poll: Poll,
    launch: &Launch<'_>,
    monitor: &mut M,
) -> (String, Vec<String>) {
    let index = block.index;
    if matches!(&launch.program.code[poll.pc].op, Op::Together(_)) {
        return ("columns of tensor memory".to_owned(), Vec::new()); // `waits_for_columns` says more
    }
    let mut warp = std::mem::take(&mut block.warps[number]);
    let Poll { pc, lane, address, bytes, shared, .. } = poll;
    let element = bytes.min(8) as u8;
    let mut allocation = None;
    let (place, value, short) = match shared {
        Some(offset) => {
            // SAFETY: the access was made, so its bytes are shared memory, and aligned.
            let value = unsafe { read_shared(shared_bytes(block), offset, element) };
            let name = launch.shared_variables().filter(|(_, start, _)| u64::from(*start) <= offset).last();
            let name =
                name.map_or_else(|| "shared memory".to_owned(), |(name, ..)| format!("`{name}` in shared memory"));
            (launch.describe_shared(offset), Some(value), name)
        }
        None => match find(&mut warp, launch, address) {
            Some(found) => {
                allocation = Some(found);
                // SAFETY: the access was made, so its bytes are in the allocation, and aligned.
                let value = unsafe { found.load(address - found.base, element) };
                let grid = launch.member(index.device).workspace;
                let is_grid = grid != 0 && found.base == grid;
                let name =
                    if is_grid { "all blocks at `grid.sync()`".to_owned() } else { format!("`{}`", found.label) };
                (found.describe(address), Some(value), name)
            }
            None => {
                let near = memory::nearest(&launch.memory, launch.heap.heap, address);
                let place = near.map_or_else(|| format!("at {address:#x}"), |near| near.describe(address));
                (place, None, format!("memory at {address:#x}"))
            }
        },
    };
    let mut note = launch.whereabouts(pc, index, warp.number, 1 << lane, "waits");
    note.push_str(&format!(" and asks again and again for {}, {place}", plural(bytes)));
    if let Some(value) = value.filter(|_| bytes <= 8) {
        let ends = ends_when(launch, &mut warp, poll);
        let ends = ends.map_or_else(String::new, |ends| format!(": the wait ends once that is {ends}"));
        note.push_str(&format!("; it finds {}{ends}", in_words(value)));
    }
    let mut notes = vec![note];
    if let Some(sanitiser) = monitor.sanitiser() {
        let offset = shared.or_else(|| Some(address - allocation?.base));
        let last = offset.and_then(|offset| sanitiser.last_write(launch, block, allocation, [offset, bytes]));
        notes.extend(match last {
            // An atomic that waits counts as a write itself.
            Some(last) if last.pc == pc => None,
            Some(last) => {
                let threads = u64::from(launch.threads());
                let writer = launch.block_index(last.thread / threads);
                let (thread, [x, y, z]) = ((last.thread % threads) as u32, writer.at);
                let place = launch.whereabouts(last.pc, writer, thread / 32, 1 << (thread % 32), "wrote it last,");
                Some(format!("block ({x}, {y}, {z}), {place}"))
            }
            None => Some("no thread of this launch has written it".to_owned()),
        });
    }
    block.warps[number] = warp;
    (short, notes)
}

/// A small number in decimal, others in hexadecimal.
fn in_words(value: u64) -> String {
    if value < 1 << 20 { value.to_string() } else { format!("{value:#x}") }
}

/// The values that end a loop around a poll, where the next instructions compare its value and jump.
fn ends_when(launch: &Launch<'_>, warp: &mut Warp, poll: Poll) -> Option<String> {
    let code = &launch.program.code;
    let rows = warp.frame_rows(poll.frame);
    let loaded = match &code[poll.pc].op {
        Op::Atomic(atomic) if matches!(atomic.op, AtomOp::Cas) && atomic.bytes <= 8 => {
            return Some(in_words(rows.lane_of(atomic.a, atomic.bytes == 8, poll.lane)));
        }
        Op::Load(access) if access.count == 1 => access.rows[0],
        Op::Atomic(atomic) if atomic.more.is_empty() => atomic.result?,
        _ => return None,
    };
    let mut test = None;
    for (pc, inst) in (0..).zip(code).skip(poll.pc + 1).take(NEAR) {
        match &inst.op {
            Op::SetpU32 { cmp, d, a, b } | Op::SetpS32 { cmp, d, a, b } if *a == loaded => {
                test = Some((*d, *cmp, u64::from(rows.lane(*b, poll.lane))));
            }
            Op::SetpU64 { cmp, d, a, b } | Op::SetpS64 { cmp, d, a, b } if *a == loaded => {
                test = Some((*d, *cmp, rows.lane_of(*b, true, poll.lane)));
            }
            Op::Bra { target, .. } => {
                let (p, cmp, value) = test?;
                let (guard, negated) = inst.guard.predicate()?;
                let goes_back = *target as usize <= poll.pc && pc > poll.pc;
                // A jump back while the comparison holds, or out of the loop once it does.
                let ends = if goes_back == negated { cmp } else { cmp.opposite() };
                return (guard == p).then(|| relation_in_words(ends, &in_words(value)));
            }
            _ => {}
        }
    }
    None
}

fn relation_in_words(relation: Relation, value: &str) -> String {
    match relation {
        Relation::Eq => value.to_owned(),
        Relation::Ne => format!("not {value}"),
        Relation::Lt => format!("less than {value}"),
        Relation::Le => format!("at most {value}"),
        Relation::Gt => format!("more than {value}"),
        Relation::Ge => format!("at least {value}"),
    }
}
