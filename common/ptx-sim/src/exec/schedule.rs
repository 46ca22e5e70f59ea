//! Blocks over the host's cores, and the warps of a block in turn.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicU64, Ordering};

use super::barrier::{BARRIERS, BarrierState};
use super::block::Block;
use super::interpret;
use super::launch::{Counts, Launch, lock};
use super::monitor::Monitor;
use super::problem::Problem;
use crate::fault::{Fault, FaultKind};

/// Turns of all its warps after which a block lets others run.
const BLOCK_QUANTUM: u32 = 64;

/// Blocks that may have begun and not ended; hardware has a limit too. More would cost memory without end.
pub(super) const MAX_BEGUN: usize = 1024;

enum Outcome {
    Done,
    /// The block used up its turns; more than one block may be waiting for another.
    Yielded,
}

impl Block {
    /// Gives each warp a turn, over and over, until all are done or the block's turns are used up.
    fn run<M: Monitor>(
        &mut self,
        launch: &Launch<'_>,
        spent: &AtomicU64,
        monitor: &mut M,
    ) -> Result<Outcome, Box<Fault>> {
        for _ in 0..BLOCK_QUANTUM {
            let before = self.counts.warp_instructions;
            let mut done = true;
            let mut moved = false;
            for number in 0..self.warps.len() {
                let mut warps = std::mem::take(&mut self.warps);
                let result = interpret::run(&mut warps[number], self, launch, monitor);
                done &= warps[number].is_done();
                self.warps = warps;
                moved |= result?;
                if self.barriers_touched {
                    self.barriers_touched = false;
                    moved |= self.complete_barriers(launch, monitor);
                }
            }
            let used = self.counts.warp_instructions - before;
            let total = spent.fetch_add(used, Ordering::Relaxed) + used;
            if done {
                return Ok(Outcome::Done);
            }
            if !moved {
                return Err(self.deadlock(launch));
            }
            if total > launch.budget {
                return Err(self.over_budget(launch));
            }
        }
        Ok(Outcome::Yielded)
    }

    /// Lets go the warps whose barrier is full; says whether there was one.
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
                    sanitiser.released(self, warp.number, released, id as u32, barrier.expected == 0);
                }
            }
            self.warps = warps;
            if let Some(sanitiser) = monitor.sanitiser() {
                sanitiser.completed(self, id as u32, barrier.expected == 0);
            }
        }
        any
    }

    /// Nothing can move: some threads wait for a barrier that others never reach.
    fn deadlock(&self, launch: &Launch<'_>) -> Box<Fault> {
        let waiting = self.warps.iter().find_map(|warp| Some((warp, warp.waiting()?)));
        let Some((warp, waiting)) = waiting else {
            let problem = Problem::new(FaultKind::BarrierDivergence, 1, "the block cannot go on");
            return Box::new(launch.fault(*problem, 0, self.index, 0));
        };
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
            None => {
                let missing = waiting.members & !waiting.lanes;
                let message =
                    format!("a warp-level instruction names lanes that never reach it (mask {missing:#010x})");
                Problem::new(FaultKind::InvalidMask, waiting.lanes, message)
            }
        };
        // Where one of the others is.
        for other in &self.warps {
            if let Some((pc, lanes)) = other.elsewhere(waiting.pc) {
                problem = problem.note(launch.whereabouts(pc, self.index, other.number, lanes, "waits"));
                break;
            }
        }
        Box::new(launch.fault(*problem, waiting.pc, self.index, warp.number))
    }

    fn over_budget(&self, launch: &Launch<'_>) -> Box<Fault> {
        let (warp, pc, lanes) = self
            .warps
            .iter()
            .find_map(|warp| warp.position().map(|(pc, lanes)| (warp.number, pc, lanes)))
            .unwrap_or((0, 0, 1));
        let message = format!("more than {} warp instructions were executed", launch.budget);
        Box::new(launch.fault(*Problem::new(FaultKind::Budget, lanes, message), pc, self.index, warp))
    }
}

/// Blocks that still have to run.
struct Queue {
    /// The next fresh block; changed under the lock of `begun`.
    next: AtomicU64,
    total: u64,
    /// Blocks that had a turn and are not done.
    begun: Mutex<VecDeque<Block>>,
    /// The lowest block that is known to be at fault: those below it still run, so that the same one is reported each time.
    faulty: AtomicU64,
    spent: AtomicU64,
    /// The fault of the lowest block.
    fault: Mutex<Option<(u64, Box<Fault>)>>,
    counts: Mutex<Counts>,
}

impl Queue {
    /// The next block to run: a fresh one, unless too many have begun.
    fn take(&self, launch: &Launch<'_>, spare: &mut Option<Block>) -> Option<Block> {
        let mut begun = lock(&self.begun);
        if begun.len() < MAX_BEGUN {
            let number = self.next.load(Ordering::Relaxed);
            if number < self.total.min(self.faulty.load(Ordering::Relaxed)) {
                self.next.store(number + 1, Ordering::Relaxed);
                drop(begun);
                let mut block = spare.take().unwrap_or_else(Block::new);
                block.reset(launch, number);
                return Some(block);
            }
        }
        begun.pop_front()
    }
}

/// Runs all blocks of a launch, each worker with a monitor of its own, and returns those with the counts and the fault
/// that ended it, if one did.
pub(crate) fn run<M: Monitor>(
    launch: &Launch<'_>,
    workers: usize,
    monitor: impl Fn() -> M + Sync,
) -> (Counts, Vec<M>, Option<Box<Fault>>) {
    let total = launch.grid.iter().map(|extent| u64::from(*extent)).product();
    let queue = Queue {
        next: AtomicU64::new(0),
        total,
        begun: Mutex::new(VecDeque::new()),
        faulty: AtomicU64::new(u64::MAX),
        spent: AtomicU64::new(0),
        fault: Mutex::new(None),
        counts: Mutex::new(Counts::default()),
    };
    let workers = workers.min(usize::try_from(total).unwrap_or(usize::MAX));
    let monitors = Mutex::new(Vec::new());
    let work = || {
        let mut monitor = monitor();
        work(launch, &queue, &mut monitor);
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
    let fault = lock(&queue.fault).take().map(|(_, fault)| fault);
    let monitors = monitors.into_inner().unwrap_or_else(PoisonError::into_inner);
    (*lock(&queue.counts), monitors, fault)
}

/// One worker: fresh blocks first, then those that had a turn.
fn work<M: Monitor>(launch: &Launch<'_>, queue: &Queue, monitor: &mut M) {
    let mut spare = Some(Block::new());
    let mut counts = Counts::default();
    while let Some(mut block) = queue.take(launch, &mut spare) {
        if block.number > queue.faulty.load(Ordering::Relaxed) {
            continue;
        }
        let outcome = block.run(launch, &queue.spent, monitor);
        if !matches!(outcome, Ok(Outcome::Yielded))
            && let Some(sanitiser) = monitor.sanitiser()
        {
            if outcome.as_ref().is_err_and(|fault| fault.kind == FaultKind::BarrierDivergence) {
                sanitiser.stuck(launch, &block);
            }
            sanitiser.ended(launch, &block);
        }
        match outcome {
            Ok(Outcome::Done) => {
                counts.warp_instructions += block.counts.warp_instructions;
                counts.lane_instructions += block.counts.lane_instructions;
                spare = Some(block);
            }
            Ok(Outcome::Yielded) => lock(&queue.begun).push_back(block),
            Err(fault) => {
                if let Some(sanitiser) = monitor.sanitiser() {
                    // This block is over. The others go on, unless the launch has run too long.
                    let over = fault.kind == FaultKind::Budget;
                    sanitiser.collect(*fault);
                    if over {
                        break;
                    }
                    spare = Some(block);
                    continue;
                }
                let mut first = lock(&queue.fault);
                if first.as_ref().is_none_or(|(number, _)| block.number < *number) {
                    *first = Some((block.number, fault));
                }
                queue.faulty.fetch_min(block.number, Ordering::Relaxed);
            }
        }
    }
    let mut sum = lock(&queue.counts);
    sum.warp_instructions += counts.warp_instructions;
    sum.lane_instructions += counts.lane_instructions;
}
