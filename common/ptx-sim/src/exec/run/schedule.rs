//! Blocks over the host's cores, and the warps of a block in turn.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::columns::waits_for_columns;
use super::mbarrier::starved;
use super::stuck::{Ledger, Next, asks_in_vain};
use super::tcgen05;
use super::turn;
use crate::exec::state::barrier::{BARRIERS, BarrierState};
use crate::exec::state::block::Block;
use crate::exec::state::cluster::Cluster;
use crate::exec::state::launch::{Counts, Launch, lock};
use crate::exec::state::problem::Problem;
use crate::exec::state::warp::Waiting;
use crate::exec::watch::monitor::Monitor;
use crate::fault::{Fault, FaultKind};
use crate::ir::CLUSTER_BARRIER;
use crate::limits::{Reached, Use};

/// Number of turns of all its warps after which a cluster lets others run.
const QUANTUM: u32 = 64;

/// Maximum host memory of all blocks that have begun, unless the useful minimum takes more.
const MAX_BEGUN_BYTES: u64 = 1 << 30;

/// Number of blocks that may have begun regardless of memory, if no memory limit is set.
const MIN_BEGUN: u64 = 16;

enum Outcome {
    Done,
    /// The cluster used up its turns; it may be waiting for another.
    Yielded,
    /// It waits for others, and nothing that it does before they write changes that.
    Still,
}

impl Cluster {
    /// Gives each warp of each block a turn, over and over, until all are done or the cluster's turns are used up. Memory has
    /// changed if `epoch` has; if `freed` has, lanes are to go on that wait at joins.
    fn run<M: Monitor>(
        &mut self,
        launch: &Launch<'_>,
        meter: &mut Meter<'_, '_>,
        monitor: &mut M,
        [epoch, freed]: [u64; 2],
    ) -> Result<Outcome, Box<Fault>> {
        self.wrote = false;
        if std::mem::replace(&mut self.epoch, epoch) != epoch {
            (self.quiet, self.still) = (0, false);
        }
        if std::mem::replace(&mut self.freed, freed) != freed {
            self.leave_joins(launch);
        }
        if self.still {
            return Ok(Outcome::Still);
        }
        for _ in 0..QUANTUM {
            let mut round = Round { done: true, moved: false };
            for rank in 0..self.blocks.len() {
                self.with_peers(rank, |block| block.run(launch, meter, monitor, &mut round))?;
            }
            if self.completes_barrier() {
                round.moved = true;
                for block in &mut self.blocks {
                    block.leave_cluster_barrier(launch, monitor);
                }
            }
            if round.done {
                for rank in 0..self.blocks.len() {
                    self.with_peers(rank, |block| {
                        let finished = tcgen05::end(block, launch, monitor);
                        block.at_fault(launch, finished)?;
                        block.finish_transfers(launch, monitor)
                    })?;
                }
                return Ok(Outcome::Done);
            }
            if !round.moved {
                if self.leave_loops(launch) {
                    continue;
                }
                return Err(self.deadlock(launch));
            }
            let starved = starved(self);
            if !self.look(launch) && !starved {
                continue;
            }
            if starved || self.waits_for_itself() {
                if self.leave_joins(launch) {
                    continue;
                }
                if let Some(fault) = self.stuck(launch, monitor, Vec::new()) {
                    return Err(fault);
                }
            }
            if !starved {
                self.still = true;
                return Ok(Outcome::Still);
            }
        }
        Ok(Outcome::Yielded)
    }

    /// The fault of a launch that cannot make progress.
    fn deadlock(&self, launch: &Launch<'_>) -> Box<Fault> {
        let mut waiting = self.blocks.iter().filter_map(|block| Some((block, block.first_waiting()?)));
        // What waits for its own block says more than what waits for the cluster.
        let of_cluster = |waiting: &Waiting| waiting.barrier == Some(CLUSTER_BARRIER);
        let first = waiting.clone().find(|(_, (_, waiting))| !of_cluster(waiting)).or_else(|| waiting.next());
        match first {
            Some((block, (warp, waiting))) if of_cluster(&waiting) => {
                let [arrived, live] = self.arrivals();
                let message = format!(
                    "the cluster's barrier is reached by {arrived} of {live} threads, and the others never come"
                );
                let problem = Problem::new(FaultKind::BarrierDivergence, waiting.lanes, message);
                Box::new(launch.fault(*problem, waiting.pc, block.index, warp))
            }
            Some((block, (warp, waiting))) => block.deadlock(launch, warp, waiting),
            None => {
                let problem = Problem::new(FaultKind::BarrierDivergence, 1, "the block cannot go on");
                Box::new(launch.fault(*problem, 0, self.blocks[0].index, 0))
            }
        }
    }
}

/// Result of a turn of all warps.
struct Round {
    done: bool,
    /// An instruction was executed, or a barrier is complete.
    moved: bool,
}

impl Block {
    /// Gives each warp a turn.
    fn run<M: Monitor>(
        &mut self,
        launch: &Launch<'_>,
        meter: &mut Meter<'_, '_>,
        monitor: &mut M,
        round: &mut Round,
    ) -> Result<(), Box<Fault>> {
        for number in 0..self.warps.len() {
            let mut warps = std::mem::take(&mut self.warps);
            let before = self.counts.warp_instructions;
            let result = turn::run(&mut warps[number], self, launch, monitor);
            let used = self.counts.warp_instructions - before + std::mem::take(&mut self.charged);
            if warps[number].is_done() {
                self.pool.release(&mut warps[number]);
            } else {
                round.done = false;
            }
            if launch.account.is_limited() {
                warps[number].account(launch);
                let _ = launch.account.adjust(Use::Blocks, &mut self.accounted, self.arrival_bytes);
            }
            self.warps = warps;
            let reached = meter.charge(used);
            round.moved |= result?;
            if let Some(reached) = reached {
                return Err(self.stopped(launch, monitor, reached));
            }
            if self.barriers_touched {
                self.barriers_touched = false;
                round.moved |= self.complete_barriers(launch, monitor);
            }
        }
        Ok(())
    }

    /// Lets the warps that wait at the complete barrier of the cluster go on.
    fn leave_cluster_barrier<M: Monitor>(&mut self, launch: &Launch<'_>, monitor: &mut M) {
        for number in 0..self.warps.len() {
            let released = self.warps[number].release(launch, CLUSTER_BARRIER, BarrierState::default());
            if released != 0 {
                monitor.released(self, number as u32, released, CLUSTER_BARRIER);
                if let Some(sanitiser) = monitor.sanitiser() {
                    sanitiser.cluster_waited(launch, self, number as u32, released);
                }
            }
        }
    }

    /// The first waiting warp, and its location; one that waits for registers comes first, since the others then wait for
    /// it.
    fn first_waiting(&self) -> Option<(u32, Waiting)> {
        let mut waiting = self.warps.iter().filter_map(|warp| Some((warp.number, warp.waiting()?)));
        waiting.clone().find(|(_, waiting)| waiting.registers).or_else(|| waiting.next())
    }

    /// Releases the warps whose barrier is full; returns whether there was one.
    fn complete_barriers<M: Monitor>(&mut self, launch: &Launch<'_>, monitor: &mut M) -> bool {
        let mut any = false;
        for id in 0..BARRIERS {
            let barrier = self.barriers[id];
            let expected = if barrier.expected == 0 { self.live } else { barrier.expected };
            if barrier.arrived == 0 || barrier.arrived < expected {
                continue;
            }
            any = true;
            self.barriers[id] = BarrierState::default();
            let mut warps = std::mem::take(&mut self.warps);
            if let Some(sanitiser) = monitor.sanitiser() {
                sanitiser.gathered(launch, self, &warps, id as u32);
            }
            for warp in &mut warps {
                let released = warp.release(launch, id as u32, barrier);
                if released != 0 {
                    monitor.released(self, warp.number, released, id as u32);
                }
                if released != 0
                    && let Some(sanitiser) = monitor.sanitiser()
                {
                    sanitiser.released(launch, self, warp.number, released, id as u32, barrier.expected == 0);
                }
            }
            self.warps = warps;
            if let Some(sanitiser) = monitor.sanitiser() {
                sanitiser.completed(self, id as u32, barrier.expected == 0);
            }
        }
        any
    }

    /// The fault of a deadlock: some threads of a warp wait for a barrier that others never reach.
    fn deadlock(&self, launch: &Launch<'_>, warp: u32, waiting: Waiting) -> Box<Fault> {
        let mut problem = match waiting.barrier {
            Some(id) => {
                let barrier = self.barriers[id as usize];
                let expected = if barrier.expected == 0 { self.live } else { barrier.expected };
                let message = format!(
                    "barrier {id} is reached by {} of {expected} threads, and the others never come",
                    barrier.arrived
                );
                let threads = launch.threads();
                let mut problem = Problem::new(FaultKind::BarrierDivergence, waiting.lanes, message);
                if self.live < threads {
                    problem =
                        problem.note(format!("{} of {threads} threads of the block have exited", threads - self.live));
                }
                problem
            }
            None if waiting.registers => {
                let message = "a setmaxnreg.inc waits for registers that no warp of the block gives up";
                Problem::new(FaultKind::Deadlock, waiting.lanes, message).note(self.pool.describe())
            }
            None if waiting.warpgroup => {
                let message = "a wait for wgmma.mma_async that other warps of the warpgroup never execute";
                Problem::new(FaultKind::InvalidWgmma, waiting.lanes, message)
            }
            None => {
                let missing = waiting.members & !waiting.lanes;
                let message = format!(
                    "a warp-level instruction names lanes that never reach it: {missing:#010x} of its mask {:#010x}",
                    waiting.members
                );
                Problem::new(FaultKind::InvalidMask, waiting.lanes, message)
            }
        };
        problem.calls = self.calls_at(warp, waiting.pc, waiting.lanes);
        // Where one of the others is.
        for other in &self.warps {
            if let Some((pc, lanes)) = other.elsewhere(waiting.pc) {
                problem = problem.note(launch.whereabouts(pc, self.index, other.number, lanes, "waits"));
                break;
            }
        }
        Box::new(launch.fault(*problem, waiting.pc, self.index, warp))
    }

    /// The calls that led lanes of a warp to an instruction, as [`Split::calls`].
    pub(super) fn calls_at(&self, warp: u32, pc: usize, lanes: u32) -> Vec<u32> {
        self.warps.get(warp as usize).map(|warp| warp.calls_at(pc, lanes)).unwrap_or_default()
    }

    /// The fault of a launch that reached a limit while this block ran: names the location of the first unfinished warp.
    fn stopped<M: Monitor>(&mut self, launch: &Launch<'_>, monitor: &mut M, reached: Reached) -> Box<Fault> {
        let position = self.warps.iter().find_map(|warp| warp.position().map(|(pc, lanes)| (warp.number, pc, lanes)));
        let Some((warp, pc, lanes)) = position else {
            let (block, device) = (self.index.at, launch.device_of(self.index));
            return Box::new(Fault { block, device, ..*launch.reached(reached) });
        };
        let mut problem = Problem::new(reached.kind, lanes, reached.message);
        problem.calls = self.calls_at(warp, pc, lanes);
        for number in 0..self.warps.len() {
            problem.notes = asks_in_vain(self, number, launch, monitor);
            if !problem.notes.is_empty() {
                break;
            }
        }
        Box::new(launch.fault(*problem, pc, self.index, warp))
    }
}

/// Use of the launch's budget and time by one worker.
struct Meter<'q, 'l> {
    launch: &'q Launch<'l>,
    /// Instructions of all workers.
    spent: &'q AtomicU64,
    workers: u64,
    /// Instructions not yet added to `spent`.
    held: u64,
    /// Maximum of `held`: low enough that all workers together stay within the budget.
    room: u64,
    /// Turns until the next look at the clock.
    turns: u32,
}

impl<'q, 'l> Meter<'q, 'l> {
    /// Number of instructions after which a worker tells the others.
    const ROOM: u64 = 1 << 14;

    /// Number of turns after which a worker looks at the clock, however short they are: that takes as long as an
    /// instruction or two.
    const TURNS: u32 = 16;

    fn new(launch: &'q Launch<'l>, spent: &'q AtomicU64, workers: usize) -> Self {
        let mut meter = Self { launch, spent, workers: workers.max(1) as u64, held: 0, room: 0, turns: 0 };
        meter.set_room(spent.load(Ordering::Relaxed));
        meter
    }

    fn set_room(&mut self, total: u64) {
        self.room = (self.launch.budget.saturating_sub(total) / self.workers).min(Self::ROOM);
    }

    /// Charges the instructions of a turn. Returns the limit that the launch has reached, if any.
    #[inline]
    fn charge(&mut self, used: u64) -> Option<Reached> {
        self.held += used;
        if self.held > self.room {
            let total = self.spent.fetch_add(self.held, Ordering::Relaxed) + self.held;
            self.held = 0;
            if total > self.launch.budget {
                let message = format!("more than {} warp instructions were executed", self.launch.budget);
                return Some(Reached { kind: FaultKind::Budget, message });
            }
            self.set_room(total);
        }
        if self.launch.account.is_free() {
            return None;
        }
        self.turns += 1;
        if used >= 256 || self.turns >= Self::TURNS {
            self.turns = 0;
            if let Some(reached) = self.launch.account.out_of_time() {
                return Some(reached);
            }
        }
        self.launch.account.out_of_memory()
    }
}

/// Clusters that still have to run.
struct Queue {
    begun: Mutex<Begun>,
    /// Number of turns of clusters that changed memory, began or ended; and the one at which joins were last left.
    epoch: AtomicU64,
    freed: AtomicU64,
    /// The lowest cluster that is known to be at fault: those below it still run, so that the same one is reported each time.
    faulty: AtomicU64,
    spent: AtomicU64,
    /// The fault of the lowest cluster.
    fault: Mutex<Option<(u64, Box<Fault>)>>,
    counts: Mutex<Counts>,
    /// Maximum number of clusters that have begun and not ended.
    max_begun: usize,
    /// Set if the launch has reached a limit: no cluster gets another turn.
    stopped: AtomicBool,
    /// Set if a cluster could not begin for want of host memory.
    starved: AtomicBool,
}

/// Clusters that have begun.
#[derive(Default)]
struct Begun {
    /// Clusters that had a turn and are not done.
    waiting: VecDeque<Cluster>,
    ledger: Ledger,
}

impl Queue {
    /// Whether another cluster may begin.
    fn has_fresh(&self, launch: &Launch<'_>) -> bool {
        let fresh = launch.fresh.get();
        fresh.start < fresh.end.min(self.faulty.load(Ordering::Relaxed))
    }

    /// The next cluster to run: a fresh one, unless too many have begun.
    fn take(&self, launch: &Launch<'_>, spare: &mut Option<Cluster>) -> Option<Cluster> {
        if self.stopped.load(Ordering::Relaxed) {
            return None;
        }
        let mut begun = lock(&self.begun);
        if begun.waiting.len() < self.max_begun && self.has_fresh(launch) {
            // A cluster's memory is taken once: those that follow it here use it again.
            let room = || launch.account.take_quietly(Use::Blocks, cluster_bytes(launch)).then(Cluster::default);
            *spare = spare.take().or_else(room);
            self.starved.fetch_or(spare.is_none(), Ordering::Relaxed);
            if spare.is_some()
                && let Some(number) = launch.fresh.take(self.faulty.load(Ordering::Relaxed))
                && let Some(mut cluster) = spare.take()
            {
                drop(begun);
                cluster.reset(launch, number);
                return Some(cluster);
            }
        }
        begun.waiting.pop_front()
    }

    /// Decides on a cluster that stands still since `epoch`: it waits for others, or the result is the fault of a launch in which
    /// nothing can happen any more.
    fn stands_still<M: Monitor>(
        &self,
        launch: &Launch<'_>,
        mut cluster: Cluster,
        epoch: u64,
        monitor: &mut M,
    ) -> Result<(), (Cluster, Box<Fault>)> {
        let mut begun = lock(&self.begun);
        let more =
            begun.waiting.len() + 1 < self.max_begun && self.has_fresh(launch) && !self.starved.load(Ordering::Relaxed);
        if self.epoch.load(Ordering::SeqCst) == epoch {
            match begun.ledger.stands_still(&mut cluster, epoch, launch.fresh.get().start, more) {
                Next::Wait => {}
                Next::Free => {
                    let now = self.epoch.fetch_add(1, Ordering::SeqCst) + 1;
                    begun.ledger.free(now);
                    self.freed.store(now, Ordering::SeqCst);
                }
                Next::Stuck => {
                    let notes = [begun.ledger.absent(launch), waits_for_columns(launch)].concat();
                    if let Some(fault) = cluster.stuck(launch, monitor, notes) {
                        return Err((cluster, fault));
                    }
                    (cluster.quiet, cluster.still) = (0, false); // what it waited for has just come
                }
            }
        }
        let waits = begun.waiting.is_empty();
        begun.waiting.push_back(cluster);
        drop(begun);
        if waits {
            std::thread::yield_now(); // another worker has what it waits for
        }
        Ok(())
    }

    /// ", in block 5 of 8": how far a launch of several blocks came.
    fn progress(&self, launch: &Launch<'_>) -> String {
        let (begun, all) = (launch.fresh.get().start * u64::from(launch.cluster_blocks()), launch.blocks());
        if all == 1 { String::new() } else { format!(", in block {} of {}", grouped(begun), grouped(all)) }
    }
}

/// A number with commas between groups of three digits.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let comma = |at: usize| at != 0 && (digits.len() - at).is_multiple_of(3);
    digits.char_indices().flat_map(|(at, digit)| comma(at).then_some(',').into_iter().chain([digit])).collect()
}

/// Host memory that a cluster takes when it begins, in bytes.
fn cluster_bytes(launch: &Launch<'_>) -> u64 {
    u64::from(launch.cluster_blocks()) * launch.block_bytes()
}

/// Runs all blocks of a launch, each worker with a monitor of its own, and returns the monitors with the counts and the
/// fault that ended the launch, if any.
pub(crate) fn run<M: Monitor>(
    launch: &Launch<'_>,
    workers: usize,
    monitor: impl Fn() -> M + Sync,
) -> (Counts, Vec<M>, Option<Box<Fault>>) {
    let total = launch.all_clusters();
    let room = if launch.cooperative() { u64::MAX } else { MAX_BEGUN_BYTES / cluster_bytes(launch) };
    let max_begun = room.max(MIN_BEGUN).min(launch.max_begun()) as usize;
    launch.fresh.fill(total);
    let queue = Queue {
        begun: Mutex::default(),
        epoch: AtomicU64::new(0),
        freed: AtomicU64::new(0),
        faulty: AtomicU64::new(u64::MAX),
        spent: AtomicU64::new(0),
        fault: Mutex::new(None),
        counts: Mutex::new(Counts::default()),
        max_begun,
        stopped: AtomicBool::new(false),
        starved: AtomicBool::new(false),
    };
    let workers = workers.min(usize::try_from(total).unwrap_or(usize::MAX));
    let monitors = Mutex::new(Vec::new());
    let work = || {
        let mut monitor = monitor();
        work(launch, &queue, workers, &mut monitor);
        lock(&monitors).push(monitor);
    };
    if workers <= 1 {
        work();
    } else {
        rayon::scope(|scope| {
            for _ in 0..workers {
                scope.spawn(|_| work());
            }
        });
    }
    let mut fault = lock(&queue.fault).take().map(|(_, fault)| fault);
    let unfinished = queue.starved.into_inner() && !launch.fresh.get().is_empty() && !queue.stopped.into_inner();
    if fault.is_none() && unfinished {
        let _ = launch.account.take(Use::Blocks, cluster_bytes(launch)); // refused: it says why
        fault = launch.account.out_of_memory().map(|reached| launch.reached(reached));
    }
    let monitors = monitors.into_inner().unwrap_or_else(PoisonError::into_inner);
    (*lock(&queue.counts), monitors, fault)
}

/// The loop of one worker: fresh clusters first, then those that had a turn.
fn work<M: Monitor>(launch: &Launch<'_>, queue: &Queue, workers: usize, monitor: &mut M) {
    let mut meter = Meter::new(launch, &queue.spent, workers);
    let mut spare = None;
    let mut counts = Counts::default();
    while let Some(mut cluster) = queue.take(launch, &mut spare) {
        if cluster.number > queue.faulty.load(Ordering::Relaxed) {
            lock(&queue.begun).ledger.give_up(&cluster);
            spare = Some(cluster);
            continue;
        }
        // What another launch writes is a change too.
        let alone = launch.launches.alone();
        if alone.is_none() || std::mem::replace(&mut cluster.alone, alone) != alone {
            queue.epoch.fetch_add(1, Ordering::SeqCst);
        }
        let now = [&queue.epoch, &queue.freed].map(|count| count.load(Ordering::SeqCst));
        let mut outcome = cluster.run(launch, &mut meter, monitor, now);
        if cluster.wrote || !matches!(outcome, Ok(Outcome::Yielded | Outcome::Still)) {
            queue.epoch.fetch_add(1, Ordering::SeqCst);
        }
        if matches!(outcome, Ok(Outcome::Still)) && alone.is_some() && launch.launches.alone() == alone {
            match queue.stands_still(launch, cluster, now[0], monitor) {
                Ok(()) => continue,
                Err((stuck, fault)) => (cluster, outcome) = (stuck, Err(fault)),
            }
        }
        if !matches!(outcome, Ok(Outcome::Yielded | Outcome::Still))
            && let Some(sanitiser) = monitor.sanitiser()
        {
            let stuck = outcome.as_ref().is_err_and(|fault| fault.kind == FaultKind::BarrierDivergence);
            for block in &cluster.blocks {
                if stuck {
                    sanitiser.stuck(launch, block);
                }
                sanitiser.ended(launch, block);
            }
        }
        match outcome {
            Ok(Outcome::Done) => {
                lock(&queue.begun).ledger.end(cluster.number);
                for block in &cluster.blocks {
                    let longest_warp = block.warps.iter().map(|warp| warp.clock).max().unwrap_or(0);
                    counts += Counts { longest_warp, ..block.counts };
                }
                spare = Some(cluster);
            }
            Ok(Outcome::Yielded | Outcome::Still) => lock(&queue.begun).waiting.push_back(cluster),
            Err(mut fault) => {
                lock(&queue.begun).ledger.give_up(&cluster);
                let over = fault.kind.is_limit();
                if over {
                    fault.message.push_str(&queue.progress(launch));
                    queue.stopped.store(true, Ordering::Relaxed);
                }
                if let Some(sanitiser) = monitor.sanitiser() {
                    // This cluster is over. The others go on, unless the launch has reached a limit.
                    sanitiser.collect(*fault);
                    if over {
                        break;
                    }
                    spare = Some(cluster);
                    continue;
                }
                let mut first = lock(&queue.fault);
                if first.as_ref().is_none_or(|(number, _)| cluster.number < *number) {
                    *first = Some((cluster.number, fault));
                }
                queue.faulty.fetch_min(cluster.number, Ordering::Relaxed);
                drop(first);
                spare = Some(cluster);
            }
        }
    }
    *lock(&queue.counts) += counts;
}
