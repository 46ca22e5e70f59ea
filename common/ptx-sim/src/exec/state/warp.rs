//! A warp: 32 lanes that run together until a branch makes them diverge.
//!
//! # Splits and joins
//! Lanes that are at the same instruction form a *split*: a program counter, a mask and a call stack. A warp begins as one
//! split. A branch that only some lanes take makes two, and a *join* that waits at the branch's immediate post-dominator
//! ([`crate::lower`] found it) until every diverged lane has come or exited; then they go on as one. Unlike a stack, any
//! split may run next, so that lanes which wait for each other (a lock held by a lane of the same warp) all make progress,
//! as on hardware since Volta. For the same reason lanes leave a join without the others if these wait for them at a
//! warp-level instruction, or if nothing else can happen any more (`run::stuck`).

use std::hash::{DefaultHasher, Hash, Hasher};

use super::barrier::BarrierState;
use super::copies::Copies;
use super::launch::Launch;
use super::local::Local;
use super::poll::Poll;
use super::rows::{Row, Rows, Shape};
use crate::ir::*;
use crate::lanes::each;
use crate::limits::Use;

/// Number of allocations that a warp remembers; a kernel seldom alternates between more.
pub(crate) const ALLOCATIONS: usize = 8;

/// Number of looks at the state of an idle warp that differs each time, as that of a thread that counts its questions or
/// reads the clock.
pub(crate) const MAX_LOOKS: u32 = 64;

/// No join.
pub(crate) const NONE: u32 = u32::MAX;

/// A function that lanes are in.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Frame {
    pub(crate) function: u32,
    /// Return address.
    pub(crate) back: u32,
    pub(crate) rows: u32,
    pub(crate) predicates: u32,
    pub(crate) local: u32,
}

/// Lanes at one program counter.
#[derive(Clone, Debug, Default)]
pub(crate) struct Split {
    pub(crate) pc: u32,
    pub(crate) mask: u32,
    /// The join it will meet, or [`NONE`].
    pub(crate) join: u32,
    pub(crate) frame: Frame,
    /// The callers' frames, outermost first.
    pub(crate) callers: Vec<Frame>,
    pub(crate) state: State,
}

/// Maximum number of nested calls that a report names.
const MAX_CALLS: usize = 16;

impl Split {
    /// The calls that led to where it is, innermost first, as indices of their instructions: of a deep recursion the last
    /// ones and the first.
    pub(crate) fn calls(&self) -> Vec<u32> {
        // The outermost frame is the kernel's, which nothing called.
        let Some((_, called)) = self.callers.split_first() else { return Vec::new() };
        let frames = std::iter::once(&self.frame).chain(called.iter().rev()).take(MAX_CALLS);
        let first = called.first().filter(|_| called.len() >= MAX_CALLS);
        frames.chain(first).map(|frame| frame.back - 1).collect()
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum State {
    #[default]
    Ready,
    /// At a barrier of the block.
    Barrier(u32),
    /// At an instruction that the lanes of a mask execute together.
    Together { members: u32 },
    /// At an instruction that waits for products of the warpgroup which not all of its warps have asked for.
    Warpgroup,
    /// At a `setmaxnreg` that waits for registers.
    Registers,
}

/// Lanes that diverged and will go on as one at `pc`.
#[derive(Clone, Debug)]
pub(crate) struct Join {
    pub(crate) pc: u32,
    pub(crate) expected: u32,
    pub(crate) arrived: u32,
    pub(crate) parent: u32,
    pub(crate) frame: Frame,
    pub(crate) callers: Vec<Frame>,
}

/// Location of a waiting split, for a report.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Waiting {
    pub pc: usize,
    pub lanes: u32,
    pub barrier: Option<u32>,
    /// Lanes named by the member mask.
    pub members: u32,
    /// Whether it waits for other warps of its warpgroup, and whether for registers.
    pub warpgroup: bool,
    pub registers: bool,
}

/// Lanes at the barrier of the block's cluster.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ClusterArrivals {
    /// Lanes that have arrived, while the barrier is not complete.
    pub(crate) arrived: u32,
    /// Lanes that have arrived and not waited since.
    pub(crate) owing: u32,
}

/// A wait at an mbarrier whose phase was not over.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WaitInVain {
    pub(crate) pc: usize,
    pub(crate) lane: usize,
    /// Address of the object in shared memory.
    pub(crate) at: u64,
    /// The parity of the phase.
    pub(crate) phase: bool,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Warp {
    pub number: u32,
    /// The member of a joint launch that it belongs to.
    pub(crate) device: u32,
    /// Code of the addresses of its block's shared memory.
    pub(crate) own_code: u64,
    /// `%tid` of each lane, by axis. A launch computes it once: its blocks use the same warps again. (With parameters that
    /// are read once for all lanes: vector addition 2.6 times as fast.)
    pub(crate) threads: Vec<[u32; 32]>,
    /// Registers of all frames.
    pub(crate) rows: Vec<Row>,
    /// A shape for each.
    pub(crate) shapes: Vec<Shape>,
    pub(crate) predicates: Vec<u32>,
    /// `CC.CF`, one bit per lane.
    pub(crate) carry: u32,
    /// Lanes that have not exited.
    pub live: u32,
    /// Lanes that went on from a join while others waited for them at a warp-level instruction, and have met no others since.
    pub(crate) passed: u32,
    pub(crate) splits: Vec<Split>,
    pub(crate) joins: Vec<Option<Join>>,
    pub local: Local,
    pub copies: Copies,
    pub(crate) cluster: ClusterArrivals,
    /// Registers of each thread, as `setmaxnreg` has set them; 0: unknown.
    pub(crate) registers: u32,
    /// Whether products of its warpgroup are under way that write its registers.
    pub(crate) multiplies: bool,
    /// Its last wait at an mbarrier, if that was in vain.
    pub(crate) in_vain: Option<WaitInVain>,
    /// Since its turn began: vain waits at mbarriers; strong loads, atomics that changed nothing and sleeps; and whether it did
    /// something that another warp could see or that a copy could change.
    pub(crate) spun: u32,
    pub(crate) polled: u32,
    pub(crate) busy: bool,
    /// Number of turns until now in which it only asked (`run::stuck`), at most [`u32::MAX`].
    pub(crate) idle: u32,
    /// Hash of its state at an earlier such turn, and whether it has been the same since.
    pub(crate) seen: u64,
    pub(crate) still: bool,
    /// Its last question to memory while it was idle, and whether any was to memory that is not its block's own.
    pub(crate) poll: Option<Poll>,
    pub(crate) polls_afar: bool,
    /// Allocations of the last accesses, by their addresses: the next access most likely goes there too.
    pub last_allocations: [usize; ALLOCATIONS],
    /// Instructions executed: `%clock`.
    pub(crate) clock: u64,
    /// Bytes of call stacks and copies under way that are charged to the launch's account.
    pub(crate) accounted: u64,
}

impl Warp {
    /// [`Split::calls`] of the lanes at an instruction, if any of them are there.
    pub(crate) fn calls_at(&self, pc: usize, lanes: u32) -> Vec<u32> {
        let split = self.splits.iter().find(|split| split.pc as usize == pc && split.mask & lanes != 0);
        split.map(Split::calls).unwrap_or_default()
    }

    /// Resets this to warp `number` of a fresh block, with the first `lanes` lanes.
    pub(crate) fn reset(&mut self, launch: &Launch<'_>, device: u32, own_code: u64, number: u32, lanes: u32) {
        let function = &launch.program.functions[launch.kernel.function as usize];
        if self.threads.is_empty() || self.number != number {
            let thread: [[u32; 3]; 32] = std::array::from_fn(|lane| launch.thread_index(number * 32 + lane as u32));
            self.threads = (0..3).map(|axis| each(|lane| thread[lane][axis])).collect();
        }
        (self.number, self.device, self.own_code) = (number, device, own_code);
        self.rows.clear();
        self.rows.resize(function.rows as usize + 1, Row::default());
        self.shapes.clear();
        self.shapes.resize(self.rows.len(), Shape::default());
        self.predicates.clear();
        self.predicates.resize(function.predicates as usize, 0);
        self.carry = 0;
        self.live = if lanes == 32 { u32::MAX } else { (1 << lanes) - 1 };
        self.passed = 0;
        self.splits.clear();
        self.joins.clear();
        self.local.reset(function.local_bytes, launch.sanitised);
        self.copies = Copies::default();
        self.cluster = ClusterArrivals::default();
        self.multiplies = false;
        self.registers = launch.registers().unwrap_or(0);
        self.in_vain = None;
        (self.spun, self.polled, self.busy) = (0, 0, false);
        (self.idle, self.still, self.poll, self.polls_afar) = (0, false, None, false);
        self.last_allocations = [0; ALLOCATIONS];
        self.clock = 0;
        let frame = Frame { function: launch.kernel.function, ..Frame::default() };
        self.set_constants(launch, frame, u32::MAX);
        self.splits.push(Split { pc: function.start, mask: self.live, join: NONE, frame, ..Split::default() });
    }

    #[cfg(test)]
    pub(crate) fn set_rows(&mut self, count: usize) {
        self.rows.resize(count, Row::default());
        self.shapes.resize(count, Shape::default());
    }

    pub(crate) fn set_constants(&mut self, launch: &Launch<'_>, frame: Frame, mask: u32) {
        let rows = self.frame_rows(frame);
        for constant in &launch.program.functions[frame.function as usize].constants {
            let value = launch.constant(self.device, self.own_code, constant.value);
            if constant.wide {
                rows.set64(constant.row, mask, [value; 32]);
            } else {
                rows.set(constant.row, mask, [value as u32; 32]);
            }
        }
    }

    /// The rows of a frame. Several of them may be in use at a time, and while `&mut Warp` is.
    pub(crate) fn frame_rows(&mut self, frame: Frame) -> Rows {
        let first = frame.rows as usize;
        assert!(first <= self.rows.len() && self.shapes.len() == self.rows.len(), "a frame is among the warp's rows");
        let count = self.rows.len() - first;
        // SAFETY: `first` is at most the number of rows and of shapes, `count` what follows.
        //
        // Aliasing: `Vec::as_mut_ptr` makes no reference to the elements and promises that its pointers stay valid beside
        // each other, so all `Rows` of a warp are copies of one pointer. Nothing else here refers to the elements: a
        // reference to the warp covers the vectors' own fields, not what they point to, and the vectors are only resized
        // (in `reset`, before a block runs, and in `call`, after which the caller asks again), which is the one thing that
        // ends the pointers. A warp is used by one thread at a time.
        unsafe { Rows::new(self.rows.as_mut_ptr().add(first), self.shapes.as_mut_ptr().add(first), count as u32) }
    }

    /// Adds rows and predicates behind those of all frames, for the moment; returns the first of each.
    pub(crate) fn lend(&mut self, [rows, predicates]: [usize; 2]) -> (u32, u32) {
        let first = (self.rows.len() as u32, self.predicates.len() as u32);
        self.rows.resize(self.rows.len() + rows, Row::default());
        self.shapes.resize(self.rows.len(), Shape::default());
        self.predicates.resize(self.predicates.len() + predicates, 0);
        first
    }

    /// Takes back what [`Self::lend`] added.
    pub(crate) fn take_back(&mut self, rows: u32, predicates: u32) {
        self.rows.truncate(rows as usize);
        self.shapes.truncate(rows as usize);
        self.predicates.truncate(predicates as usize);
    }

    /// A predicate of the frame whose predicates begin at `frame`, one bit per lane.
    pub(crate) fn predicate(&self, frame: u32, p: P) -> u32 {
        self.predicates.get((frame + p) as usize).copied().unwrap_or(0)
    }

    /// Charges the growth of call stacks and copies under way to the launch's account. Registers and local memory are charged
    /// where they grow.
    pub(crate) fn account(&mut self, launch: &Launch<'_>) {
        let stacks = self.splits.iter().map(|split| &split.callers);
        let stacks = stacks.chain(self.joins.iter().flatten().map(|join| &join.callers));
        let frames: usize = stacks.map(Vec::capacity).sum();
        let bytes = (frames * size_of::<Frame>() + self.copies.bytes()) as u64;
        if bytes > self.accounted && launch.account.take(Use::Blocks, bytes - self.accounted) {
            self.accounted = bytes;
        }
    }

    /// Whether each question that it asks ends its turn. Where its state differs each time that does not go on.
    pub(crate) fn asks(&self) -> bool {
        self.idle >= 2 && (self.still || self.idle <= MAX_LOOKS)
    }

    /// Notes a strong load, or an atomic that changed nothing.
    pub(crate) fn ask(&mut self, poll: impl FnOnce() -> Poll) {
        self.polled += 1;
        if self.asks() {
            let poll = poll();
            self.polls_afar |= poll.shared.is_none();
            self.poll = Some(poll);
        }
    }

    pub(crate) fn is_done(&self) -> bool {
        self.live == 0
    }

    /// Hashes all state that decides the warp's work, apart from memory: its registers, and its program counters.
    pub(crate) fn hash_state(&self, state: &mut impl Hasher) {
        self.rows.iter().for_each(|row| row.0.hash(state));
        (&self.predicates, self.carry, self.live).hash(state);
        let of_split = |split: &Split| {
            let mut of_split = DefaultHasher::new();
            (split.pc, split.mask, split.join, split.frame.rows, split.callers.len()).hash(&mut of_split);
            of_split.finish()
        };
        // They take turns in any order.
        self.splits.iter().map(of_split).fold(0, u64::wrapping_add).hash(state);
    }

    /// Lets the lanes that wait at barrier `id` go on, with the barrier's result. Returns those lanes.
    pub(crate) fn release(&mut self, launch: &Launch<'_>, id: u32, result: BarrierState) -> u32 {
        let mut released = 0;
        for at in 0..self.splits.len() {
            let Split { pc, mask, frame, state, .. } = self.splits[at];
            if state != State::Barrier(id) {
                continue;
            }
            self.splits[at].state = State::Ready;
            self.splits[at].pc = pc + 1;
            released |= mask;
            let Op::Barrier(barrier) = &launch.program.code[pc as usize].op else { continue };
            if let Some(d) = barrier.d {
                self.frame_rows(frame).set(d, mask, [result.trues; 32]);
            }
            if let Some(p) = barrier.p {
                let value = match barrier.kind {
                    BarrierKind::RedAnd => result.trues == result.voters,
                    _ => result.trues != 0,
                };
                let bits = &mut self.predicates[(frame.predicates + p) as usize];
                *bits = *bits & !mask | if value { mask } else { 0 };
            }
        }
        released
    }

    /// Location of the first waiting split.
    pub(crate) fn waiting(&self) -> Option<Waiting> {
        self.splits.iter().find_map(|split| {
            let waiting = Waiting {
                pc: split.pc as usize,
                lanes: split.mask,
                barrier: None,
                members: split.mask,
                warpgroup: false,
                registers: false,
            };
            match split.state {
                State::Ready => None,
                State::Barrier(id) => Some(Waiting { barrier: Some(id), ..waiting }),
                State::Together { members } => Some(Waiting { members, ..waiting }),
                State::Warpgroup => Some(Waiting { warpgroup: true, ..waiting }),
                State::Registers => Some(Waiting { registers: true, ..waiting }),
            }
        })
    }

    /// Location and lanes of a split at another instruction than `pc`.
    pub(crate) fn elsewhere(&self, pc: usize) -> Option<(usize, u32)> {
        let split = self.splits.iter().find(|split| split.pc as usize != pc);
        let join = || {
            let join = self.joins.iter().flatten().find(|join| join.arrived != 0)?;
            Some((join.pc as usize, join.arrived))
        };
        split.map(|split| (split.pc as usize, split.mask)).or_else(join)
    }

    /// Location of a running split.
    pub(crate) fn position(&self) -> Option<(usize, u32)> {
        self.splits.last().map(|split| (split.pc as usize, split.mask))
    }

    // Joins

    pub(crate) fn new_join(&mut self, split: &Split, pc: u32) -> u32 {
        let join = Join {
            pc,
            expected: split.mask,
            arrived: 0,
            parent: split.join,
            frame: split.frame,
            callers: split.callers.clone(),
        };
        match self.joins.iter().position(Option::is_none) {
            Some(at) => {
                self.joins[at] = Some(join);
                at as u32
            }
            None => {
                self.joins.push(Some(join));
                self.joins.len() as u32 - 1
            }
        }
    }

    /// Whether the join `at` is for a split at `pc` with that call depth.
    pub(crate) fn meets(&self, at: u32, pc: u32, depth: usize) -> bool {
        match self.joins.get(at as usize) {
            Some(Some(join)) => join.pc == pc && join.callers.len() == depth,
            _ => false,
        }
    }

    /// Lets the lanes that have come to the join `at` go on without the others. Returns them.
    pub(crate) fn leave_join(&mut self, at: usize) -> u32 {
        let Some(Some(join)) = self.joins.get_mut(at) else { return 0 };
        let mask = std::mem::take(&mut join.arrived);
        join.expected &= !mask;
        if mask != 0 {
            self.splits.push(Split {
                pc: join.pc + 1,
                mask,
                join: join.parent,
                frame: join.frame,
                callers: join.callers.clone(),
                state: State::Ready,
            });
        }
        mask
    }

    /// Lets lanes go on from a join whose other lanes wait for them at a warp-level instruction; returns whether there were
    /// any.
    pub(crate) fn let_past(&mut self, launch: &Launch<'_>) -> bool {
        let of_mask = |split: &&Split| matches!(&launch.program.code[split.pc as usize].op, Op::Together(op) if op.members.is_some());
        let named = self.splits.iter().filter(of_mask).fold(0, |named, split| match split.state {
            State::Together { members } => named | members,
            _ => named,
        });
        let waits = |join: &Option<Join>| join.as_ref().is_some_and(|join| join.arrived & named != 0);
        let Some(at) = self.joins.iter().position(waits) else { return false };
        self.passed |= self.leave_join(at);
        true
    }

    /// Ends the joins whose lanes have all come.
    fn complete_joins(&mut self) {
        for at in 0..self.joins.len() {
            let Some(join) = &self.joins[at] else { continue };
            if join.arrived != join.expected {
                continue;
            }
            let Some(join) = self.joins[at].take() else { continue };
            if join.expected != 0 {
                self.splits.push(Split {
                    pc: join.pc + 1,
                    mask: join.expected,
                    join: join.parent,
                    frame: join.frame,
                    callers: join.callers,
                    state: State::Ready,
                });
            }
        }
    }

    pub(crate) fn exit_lanes(&mut self, mask: u32) {
        self.live &= !mask;
        for join in self.joins.iter_mut().flatten() {
            join.expected &= !mask;
        }
        self.complete_joins();
    }
}
