//! A warp: 32 lanes that run together until a branch parts them.
//!
//! # Splits and joins
//! Lanes that are at the same instruction form a *split*: a program counter, a mask and a call stack. A warp begins as
//! one split. A branch that only some lanes take makes two, and a *join* that waits at the branch's immediate
//! post-dominator ([`crate::lower`] found it) until every lane that was parted has come or exited; then they go on as
//! one. Unlike a stack, any split may run next, so that lanes which wait for each other (a lock held by a lane of the same
//! warp) all make progress, as on hardware since Volta.
//!
//! # Vector instructions
//! The loop in `interpret` is compiled once for the machine's baseline (SSE2 on x86-64, NEON on AArch64) and, on x86-64,
//! once more with AVX2 and FMA, which is chosen at run time where the processor has them. A row of 32 lanes is four
//! AVX2 registers and one instruction each; with SSE2 it is eight, and a fused multiply-add has to be computed in f64
//! (`crate::scalar`), exactly but several times slower. NEON has fused multiply-add, so AArch64 needs no second version.

use super::access;
use super::lanes::{Row, Rows, Shape, each, lanes, mask_of};
use super::sanitise::At;
use super::{Block, Launch, Monitor, Problem, SPLIT_QUANTUM, Scene, WARP_QUANTUM, heap, printf, together};
use crate::fault::{Fault, FaultKind};
use crate::ir::*;
use crate::memory;
use crate::scalar::half::{Bf16, F16, Half};
use crate::scalar::single::sum_to_odd;

/// Calls that may be nested.
const MAX_DEPTH: usize = 1 << 12;

/// Allocations that a warp remembers; a kernel seldom alternates between more.
pub(crate) const ALLOCATIONS: usize = 8;

const NONE: u32 = u32::MAX;

/// A function that lanes are in.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Frame {
    function: u32,
    /// Where it returns to.
    back: u32,
    rows: u32,
    predicates: u32,
    local: u32,
}

/// Lanes at one program counter.
#[derive(Clone, Debug, Default)]
struct Split {
    pc: u32,
    mask: u32,
    /// The join it will meet, or [`NONE`].
    join: u32,
    frame: Frame,
    /// The callers' frames, outermost first.
    callers: Vec<Frame>,
    state: State,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Ready,
    /// At a barrier of the block.
    Barrier(u32),
    /// At an instruction that the lanes of a mask execute together.
    Together { members: u32 },
}

/// Lanes that were parted and will go on as one at `pc`.
#[derive(Clone, Debug)]
struct Join {
    pc: u32,
    expected: u32,
    arrived: u32,
    parent: u32,
    frame: Frame,
    callers: Vec<Frame>,
}

/// Where a split waits, for a report.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Waiting {
    pub pc: usize,
    pub lanes: u32,
    pub barrier: Option<u32>,
    /// Lanes named by the member mask.
    pub members: u32,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Warp {
    pub number: u32,
    /// `%tid` of each lane, by axis. A launch computes it once: its blocks use the same warps again. (With parameters that
    /// are read once for all lanes: vector addition 2.6 times as fast.)
    threads: Vec<[u32; 32]>,
    /// Registers of all frames.
    rows: Vec<Row>,
    /// A shape for each.
    shapes: Vec<Shape>,
    predicates: Vec<u32>,
    /// `CC.CF`, a bit a lane.
    carry: u32,
    /// Lanes that have not exited.
    pub live: u32,
    splits: Vec<Split>,
    joins: Vec<Option<Join>>,
    pub local: access::Local,
    pub copies: access::Copies,
    /// The allocations that the last accesses went to, by their addresses: the next one most likely goes there too.
    pub last_allocations: [usize; ALLOCATIONS],
    /// Instructions executed: `%clock`.
    clock: u64,
}

/// Why a split stopped running.
enum Stop {
    /// Its turn is over.
    Quantum,
    /// It waits; its state says for what.
    Wait,
    /// Its lanes are gone: exited, or waiting at a join.
    Gone,
}

impl Warp {
    /// Makes this warp number `number` of a fresh block, with the first `lanes` lanes.
    pub(crate) fn reset(&mut self, launch: &Launch<'_>, number: u32, lanes: u32) {
        let function = &launch.program.functions[launch.kernel.function as usize];
        if self.threads.is_empty() || self.number != number {
            let thread: [[u32; 3]; 32] = std::array::from_fn(|lane| launch.thread_index(number * 32 + lane as u32));
            self.threads = (0..3).map(|axis| each(|lane| thread[lane][axis])).collect();
        }
        self.number = number;
        self.rows.clear();
        self.rows.resize(function.rows as usize + 1, Row::default());
        self.shapes.clear();
        self.shapes.resize(self.rows.len(), Shape::default());
        self.predicates.clear();
        self.predicates.resize(function.predicates as usize, 0);
        self.carry = 0;
        self.live = if lanes == 32 { u32::MAX } else { (1 << lanes) - 1 };
        self.splits.clear();
        self.joins.clear();
        self.local.reset(function.local_bytes, launch.sanitised);
        self.copies = access::Copies::default();
        self.last_allocations = [0; ALLOCATIONS];
        self.clock = 0;
        let frame = Frame { function: launch.kernel.function, ..Frame::default() };
        self.set_constants(launch, frame, u32::MAX);
        self.splits.push(Split { pc: function.start, mask: self.live, join: NONE, frame, ..Split::default() });
    }

    fn set_constants(&mut self, launch: &Launch<'_>, frame: Frame, mask: u32) {
        let rows = self.frame_rows(frame);
        for constant in &launch.program.functions[frame.function as usize].constants {
            let value = launch.constant(constant.value);
            if constant.wide {
                rows.set64(constant.row, mask, [value; 32]);
            } else {
                rows.set(constant.row, mask, [value as u32; 32]);
            }
        }
    }

    fn frame_rows(&mut self, frame: Frame) -> Rows {
        let rows = &mut self.rows[frame.rows as usize..];
        let shapes = &mut self.shapes[frame.rows as usize..][..rows.len()];
        // SAFETY: the slices' own rows and shapes; they move only in `call`, after which the caller asks again.
        unsafe { Rows::new(rows.as_mut_ptr(), shapes.as_mut_ptr(), rows.len() as u32) }
    }

    /// A predicate of the frame whose predicates begin at `frame`, a bit a lane.
    pub(crate) fn predicate(&self, frame: u32, p: P) -> u32 {
        self.predicates.get((frame + p) as usize).copied().unwrap_or(0)
    }

    pub(crate) fn is_done(&self) -> bool {
        self.live == 0
    }

    /// Lets the lanes that wait at barrier `id` go on, with what the barrier returns. Says which lanes they are.
    pub(crate) fn release(&mut self, launch: &Launch<'_>, id: u32, result: super::BarrierState) -> u32 {
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

    /// Where the first split that waits does so.
    pub(crate) fn waiting(&self) -> Option<Waiting> {
        self.splits.iter().find_map(|split| match split.state {
            State::Ready => None,
            State::Barrier(id) => {
                Some(Waiting { pc: split.pc as usize, lanes: split.mask, barrier: Some(id), members: split.mask })
            }
            State::Together { members } => {
                Some(Waiting { pc: split.pc as usize, lanes: split.mask, barrier: None, members })
            }
        })
    }

    /// A split at another instruction than `pc`: where, and its lanes.
    pub(crate) fn elsewhere(&self, pc: usize) -> Option<(usize, u32)> {
        let split = self.splits.iter().find(|split| split.pc as usize != pc);
        let join = || {
            let join = self.joins.iter().flatten().find(|join| join.arrived != 0)?;
            Some((join.pc as usize, join.arrived))
        };
        split.map(|split| (split.pc as usize, split.mask)).or_else(join)
    }

    /// Where a split that runs is.
    pub(crate) fn position(&self) -> Option<(usize, u32)> {
        self.splits.last().map(|split| (split.pc as usize, split.mask))
    }

    // Joins

    fn new_join(&mut self, split: &Split, pc: u32) -> u32 {
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
    fn meets(&self, at: u32, pc: u32, depth: usize) -> bool {
        match self.joins.get(at as usize) {
            Some(Some(join)) => join.pc == pc && join.callers.len() == depth,
            _ => false,
        }
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

    fn exit_lanes(&mut self, mask: u32) {
        self.live &= !mask;
        for join in self.joins.iter_mut().flatten() {
            join.expected &= !mask;
        }
        self.complete_joins();
    }

    // Calls

    /// Where the frame of `function` may begin, from `rows` on, so that no lanes elsewhere have another function's registers
    /// there: a wide register holds lanes 0 to 15 in one row and the rest in the next, so two functions that share rows
    /// would write into each other's lanes. Frames of one function at one place have the same layout, and share it.
    fn free_rows(&self, mut rows: u32, function: u32, count: u32, program: &Program) -> u32 {
        let elsewhere = self.splits.iter().map(|split| (&split.frame, &split.callers));
        let joins = self.joins.iter().flatten().map(|join| (&join.frame, &join.callers));
        let frames: Vec<Frame> =
            elsewhere.chain(joins).flat_map(|(frame, callers)| callers.iter().chain([frame]).copied()).collect();
        let in_the_way = |frame: &&Frame, rows: u32| {
            let end = frame.rows + program.functions[frame.function as usize].rows;
            frame.rows < rows + count && rows < end && (frame.function, frame.rows) != (function, rows)
        };
        while let Some(frame) = frames.iter().find(|frame| in_the_way(frame, rows)) {
            rows = frame.rows + program.functions[frame.function as usize].rows;
        }
        rows
    }

    /// Enters `function` with the lanes of `split`.
    fn call(&mut self, launch: &Launch<'_>, split: &mut Split, function: u32, call: &Call) -> Result<(), Box<Problem>> {
        let program = launch.program;
        let caller = &program.functions[split.frame.function as usize];
        let callee = &program.functions[function as usize];
        let frame = Frame {
            function,
            back: split.pc + 1,
            rows: self.free_rows(split.frame.rows + caller.rows, function, callee.rows, program),
            predicates: split.frame.predicates + caller.predicates,
            local: split.frame.local + caller.local_bytes,
        };
        let rows = (frame.rows + callee.rows) as usize;
        let local = u64::from(frame.local) + u64::from(callee.local_bytes);
        if split.callers.len() >= MAX_DEPTH || rows > MAX_ROWS || local > MAX_LOCAL {
            let message = format!("`{}` is called {} deep", callee.name, split.callers.len() + 1);
            return Err(Problem::new(FaultKind::StackOverflow, split.mask, message));
        }
        if call.args.len() != callee.params.len() || call.results.len() != callee.returns.len() {
            let message = format!("`{}` is called with another number of arguments than it takes", callee.name);
            return Err(Problem::new(FaultKind::InvalidCall, split.mask, message));
        }
        if self.rows.len() < rows + 1 {
            self.rows.resize(rows + 1, Row::default());
            self.shapes.resize(rows + 1, Shape::default());
        }
        let predicates = (frame.predicates + callee.predicates) as usize;
        if self.predicates.len() < predicates {
            self.predicates.resize(predicates, 0);
        }
        self.local.grow(local as u32);
        self.local.forget(split.mask, frame.local, callee.local_bytes);
        self.set_constants(launch, frame, split.mask);
        for (arg, param) in call.args.iter().zip(&callee.params) {
            self.copy_place((split.frame, *arg), (frame, *param), split.mask);
        }
        split.callers.push(split.frame);
        split.frame = frame;
        split.pc = callee.start;
        Ok(())
    }

    /// Leaves the function that `split` is in.
    fn ret(&mut self, launch: &Launch<'_>, split: &mut Split) {
        let Some(caller) = split.callers.pop() else { return };
        let frame = split.frame;
        let call = &launch.program.code[frame.back as usize - 1].op;
        if let Op::Call(call) = call {
            let returns = &launch.program.functions[frame.function as usize].returns;
            for (from, to) in returns.iter().zip(&call.results) {
                self.copy_place((frame, *from), (caller, *to), split.mask);
            }
        }
        split.frame = caller;
        split.pc = frame.back;
    }

    /// Copies an argument or a result from one frame to another, in the lanes of `mask`.
    fn copy_place(&mut self, from: (Frame, Place), to: (Frame, Place), mask: u32) {
        match (from.1, to.1) {
            (Place::Predicate(a), Place::Predicate(d)) => {
                let bits = self.predicates[(from.0.predicates + a) as usize];
                let to = &mut self.predicates[(to.0.predicates + d) as usize];
                *to = *to & !mask | bits & mask;
            }
            (from_place, to_place) => {
                let (from_rows, to_rows) = (self.frame_rows(from.0), self.frame_rows(to.0));
                for lane in lanes(mask) {
                    let mut bytes = [0; 8];
                    let from_slot = match from_place {
                        Place::Row { row, wide } => {
                            bytes = from_rows.lane_of(row, wide, lane).to_le_bytes();
                            None
                        }
                        Place::Memory((offset, length)) => Some((from.0.local + offset, length)),
                        Place::Predicate(_) => continue,
                    };
                    match (from_slot, to_place) {
                        (Some((from_at, length)), Place::Memory((offset, room))) => {
                            self.local.copy(lane, from_at, to.0.local + offset, length.min(room));
                        }
                        (None, Place::Memory((offset, room))) => {
                            self.local.write(lane, to.0.local + offset, &bytes[..(room as usize).min(8)]);
                        }
                        (slot, Place::Row { row, wide }) => {
                            if let Some((at, length)) = slot {
                                self.local.read(lane, at, &mut bytes[..(length as usize).min(8)]);
                            }
                            to_rows.set_lane_of(row, wide, lane, u64::from_le_bytes(bytes));
                        }
                        (_, Place::Predicate(_)) => {}
                    }
                }
            }
        }
    }

    // Lanes together

    /// Lets splits that wait for each other at a warp-level instruction go on, if all the lanes it names have come.
    fn meet<M: Monitor>(&mut self, block: &mut Block, launch: &Launch<'_>, monitor: &mut M) -> Result<bool, Fail> {
        for first in 0..self.splits.len() {
            let State::Together { members } = self.splits[first].state else { continue };
            let Split { pc, frame, .. } = self.splits[first];
            let Op::Together(op) = &launch.program.code[pc as usize].op else { continue };
            let sync = matches!(op.op, TogetherOp::Sync);
            let is_with = |split: &Split| match split.state {
                State::Together { members: theirs } => {
                    theirs == members && (sync || split.pc == pc && split.frame.rows == frame.rows)
                }
                _ => false,
            };
            let union = self.splits.iter().filter(|split| is_with(split)).fold(0, |union, split| union | split.mask);
            if members & self.live & !union != 0 {
                continue;
            }
            let pc = pc as usize;
            if sync {
                if let Some(sanitiser) = monitor.sanitiser() {
                    sanitiser.warp_met(block, self.number, union);
                }
            } else {
                let mut context = Context { warp: self, block, launch, frame, monitor, pc };
                together::execute(&mut context, op, union).map_err(|problem| (problem, pc))?;
                let rows = self.frame_rows(frame);
                monitor.after(&Scene {
                    launch,
                    block,
                    warp: self,
                    rows,
                    frame_predicates: frame.predicates,
                    frame_local: frame.local,
                    pc,
                    mask: union,
                    active: union,
                });
            }
            for split in self.splits.iter_mut().filter(|split| is_with(split)) {
                split.pc += 1;
                split.state = State::Ready;
            }
            return Ok(true);
        }
        Ok(false)
    }
}

/// A problem and the instruction it happened at.
type Fail = (Box<Problem>, usize);

/// What an instruction that is not plain arithmetic may need.
pub(crate) struct Context<'c, 'l, M> {
    pub warp: &'c mut Warp,
    pub block: &'c mut Block,
    pub launch: &'c Launch<'l>,
    pub frame: Frame,
    pub monitor: &'c mut M,
    pub pc: usize,
}

impl<'c, M: Monitor> Context<'c, '_, M> {
    #[inline(always)]
    pub(crate) fn at(&self) -> At<'c> {
        At { launch: self.launch, block: self.block.index, warp: self.warp.number, pc: self.pc }
    }

    /// Hands a problem to the sanitiser, which goes on; without one it is an error.
    #[cold]
    #[inline(never)]
    pub(crate) fn report(&mut self, problem: Box<Problem>) -> Result<(), Box<Problem>> {
        let at = self.at();
        match self.monitor.sanitiser() {
            Some(sanitiser) => {
                sanitiser.report(at, *problem);
                Ok(())
            }
            None => Err(problem),
        }
    }

    pub(crate) fn rows(&mut self) -> Rows {
        self.warp.frame_rows(self.frame)
    }

    pub(crate) fn predicate(&mut self, p: P) -> &mut u32 {
        &mut self.warp.predicates[(self.frame.predicates + p) as usize]
    }

    /// Offset of the frame in local memory.
    pub(crate) fn frame_local(&self) -> u32 {
        self.frame.local
    }
}

/// Runs the warp until its turn is over or all its lanes wait or are done. Says whether it executed anything.
pub(crate) fn run<M: Monitor>(
    warp: &mut Warp,
    block: &mut Block,
    launch: &Launch<'_>,
    monitor: &mut M,
) -> Result<bool, Box<Fault>> {
    let mut steps = WARP_QUANTUM;
    let mut moved = false;
    let located = |(problem, pc): Fail, index, number| Box::new(launch.fault(*problem, pc, index, number));
    while steps > 0 {
        let Some(at) = warp.splits.iter().rposition(|split| split.state == State::Ready) else {
            match warp.meet(block, launch, monitor) {
                Ok(true) => moved = true,
                Ok(false) => break,
                Err(fail) => return Err(located(fail, block.index, warp.number)),
            }
            continue;
        };
        moved = true;
        let mut split = warp.splits.swap_remove(at);
        let alone = warp.splits.is_empty();
        let turn = if alone { steps } else { steps.min(SPLIT_QUANTUM) };
        let before = block.counts.warp_instructions;
        let stop = interpret_here(warp, &mut split, block, launch, monitor, turn);
        steps = steps.saturating_sub((block.counts.warp_instructions - before).max(1) as u32);
        match stop {
            Ok(Stop::Gone) => {}
            // Another split goes first next time: this one may be waiting for it.
            Ok(Stop::Quantum) => warp.splits.insert(0, split),
            Ok(Stop::Wait) => warp.splits.push(split),
            Err(fail) => return Err(located(fail, block.index, warp.number)),
        }
    }
    Ok(moved)
}

/// [`interpret`] as this machine runs it best.
fn interpret_here<M: Monitor>(
    warp: &mut Warp,
    split: &mut Split,
    block: &mut Block,
    launch: &Launch<'_>,
    monitor: &mut M,
    turn: u32,
) -> Result<Stop, Fail> {
    #[cfg(target_arch = "x86_64")]
    {
        #[target_feature(enable = "avx2,fma,popcnt,bmi1,bmi2,lzcnt")]
        fn with_avx2<M: Monitor>(
            warp: &mut Warp,
            split: &mut Split,
            block: &mut Block,
            launch: &Launch<'_>,
            monitor: &mut M,
            turn: u32,
        ) -> Result<Stop, Fail> {
            interpret::<M, true, true>(warp, split, block, launch, monitor, turn)
        }
        if is_x86_feature_detected!("avx2")
            && is_x86_feature_detected!("fma")
            && is_x86_feature_detected!("popcnt")
            && is_x86_feature_detected!("bmi1")
            && is_x86_feature_detected!("bmi2")
            && is_x86_feature_detected!("lzcnt")
        {
            // SAFETY: the processor has been asked for each of the features.
            return unsafe { with_avx2(warp, split, block, launch, monitor, turn) };
        }
        interpret::<M, false, false>(warp, split, block, launch, monitor, turn)
    }
    #[cfg(not(target_arch = "x86_64"))]
    interpret::<M, { cfg!(target_arch = "aarch64") }, false>(warp, split, block, launch, monitor, turn)
}

/// The executor's loop: at most `turn` instructions of one split. `FMA`: `f32::mul_add` is one instruction here; `AVX2`:
/// the loop is compiled for a processor that has it.
#[inline(always)]
fn interpret<M: Monitor, const FMA: bool, const AVX2: bool>(
    warp: &mut Warp,
    split: &mut Split,
    block: &mut Block,
    launch: &Launch<'_>,
    monitor: &mut M,
    turn: u32,
) -> Result<Stop, Fail> {
    let code = launch.program.code.as_slice();
    let mut pc = split.pc as usize;
    let mut mask = split.mask;
    let mut rows = warp.frame_rows(split.frame);
    let mut base = split.frame.predicates;
    let mut executed = 0u32;
    let mut lane_count = 0u64;
    macro_rules! predicate {
        ($p:expr) => {
            warp.predicates[(base + $p) as usize]
        };
    }
    macro_rules! set_predicate {
        ($p:expr, $active:expr, $value:expr) => {{
            let value = $value;
            let bits = &mut predicate!($p);
            *bits = *bits & !$active | value & $active;
        }};
    }
    macro_rules! context {
        () => {
            Context { warp: &mut *warp, block: &mut *block, launch, frame: split.frame, monitor: &mut *monitor, pc }
        };
    }
    macro_rules! scene {
        ($active:expr) => {
            Scene {
                launch,
                block: &*block,
                warp: &*warp,
                rows,
                frame_predicates: base,
                frame_local: split.frame.local,
                pc,
                mask,
                active: $active,
            }
        };
    }
    // Leaves the loop with the split up to date.
    let result = loop {
        if executed >= turn {
            break Ok(Stop::Quantum);
        }
        // The lowering ends every function with an instruction that does not fall through, and checks every target.
        let inst = &code[pc];
        let active = match inst.guard.predicate() {
            None => mask,
            Some((p, negated)) => {
                let bits = predicate!(p);
                mask & if negated { !bits } else { bits }
            }
        };
        executed += 1;
        lane_count += u64::from(active.count_ones());
        if !matches!(inst.op, Op::Join) {
            monitor.issue(&scene!(active));
        }
        if active == 0 {
            pc += 1;
            continue;
        }
        match &inst.op {
            Op::Mov32 { d, a } => rows.map1(*d, *a, active, |a| a),
            Op::Mov64 { d, a } => rows.wide1(*d, *a, active, |a| a),
            Op::Special { d, what, wide } => {
                let clock = warp.clock + u64::from(executed);
                special(&context!(), rows, *d, *what, *wide, active, clock);
            }
            Op::FrameAddress { d, offset, wide } => {
                let address = split.frame.local + offset;
                if *wide {
                    rows.set64(*d, active, [u64::from(address); 32]);
                } else {
                    rows.set(*d, active, [address; 32]);
                }
            }
            Op::Unpack32 { d, a, shift, mask } => rows.map1(*d, *a, active, |a| a >> shift & mask),
            Op::Unpack64 { d, a, shift, mask } => {
                let a = rows.get64(*a);
                rows.set(*d, active, each(|lane| (a[lane] >> shift) as u32 & mask));
            }
            Op::Pack(pack) => run_pack(rows, pack, active),
            Op::Sext64 { d, a } => {
                let a = rows.get(*a);
                rows.set64(*d, active, each(|lane| i64::from(a[lane] as i32) as u64));
            }
            Op::Zext64 { d, a } => {
                let a = rows.get(*a);
                rows.set64(*d, active, each(|lane| u64::from(a[lane])));
            }
            Op::Trunc32 { d, a } => {
                let a = rows.get64(*a);
                rows.set(*d, active, each(|lane| a[lane] as u32));
            }

            Op::Add32 { d, a, b } => rows.map2(*d, *a, *b, active, u32::wrapping_add),
            Op::Sub32 { d, a, b } => rows.map2(*d, *a, *b, active, u32::wrapping_sub),
            Op::Mul32 { d, a, b } => rows.map2(*d, *a, *b, active, u32::wrapping_mul),
            Op::MulHiU32 { d, a, b } => {
                rows.map2(*d, *a, *b, active, |a, b| (u64::from(a).wrapping_mul(u64::from(b)) >> 32) as u32);
            }
            Op::MulHiS32 { d, a, b } => {
                rows.map2(*d, *a, *b, active, |a, b| (signed(a).wrapping_mul(signed(b)) >> 32) as u32);
            }
            Op::Mad32 { d, a, b, c } => {
                rows.map3(*d, [*a, *b, *c], active, |a, b, c| a.wrapping_mul(b).wrapping_add(c));
            }
            Op::And32 { d, a, b } => rows.map2(*d, *a, *b, active, |a, b| a & b),
            Op::Or32 { d, a, b } => rows.map2(*d, *a, *b, active, |a, b| a | b),
            Op::Xor32 { d, a, b } => rows.map2(*d, *a, *b, active, |a, b| a ^ b),
            Op::Not32 { d, a } => rows.map1(*d, *a, active, |a| !a),
            Op::Lop3 { d, a, b, c, table } => lop3(rows, *d, [*a, *b, *c], *table, active),
            Op::Shl32 { d, a, b } => rows.map2(*d, *a, *b, active, |a, b| if b > 31 { 0 } else { a << (b & 31) }),
            Op::ShrU32 { d, a, b } => rows.map2(*d, *a, *b, active, |a, b| if b > 31 { 0 } else { a >> (b & 31) }),
            Op::ShrS32 { d, a, b } => rows.map2(*d, *a, *b, active, |a, b| ((a as i32) >> b.min(31)) as u32),
            Op::MinU32 { d, a, b } => rows.map2(*d, *a, *b, active, u32::min),
            Op::MinS32 { d, a, b } => rows.map2(*d, *a, *b, active, |a, b| (a as i32).min(b as i32) as u32),
            Op::MaxU32 { d, a, b } => rows.map2(*d, *a, *b, active, u32::max),
            Op::MaxS32 { d, a, b } => rows.map2(*d, *a, *b, active, |a, b| (a as i32).max(b as i32) as u32),
            Op::Neg32 { d, a } => rows.map1(*d, *a, active, u32::wrapping_neg),

            Op::MulWideU32 { d, a, b } => {
                rows.widen2(*d, *a, *b, active, |a, b| u64::from(a).wrapping_mul(u64::from(b)));
            }
            Op::MulWideS32 { d, a, b } => {
                rows.widen2(*d, *a, *b, active, |a, b| signed(a).wrapping_mul(signed(b)) as u64);
            }
            Op::MadWideU32 { d, a, b, c } => {
                let (a, b, c) = (rows.get(*a), rows.get(*b), rows.get64(*c));
                let f = |lane: usize| u64::from(a[lane]).wrapping_mul(u64::from(b[lane])).wrapping_add(c[lane]);
                rows.set64(*d, active, each(f));
            }
            Op::MadWideS32 { d, a, b, c } => {
                let (a, b, c) = (rows.get(*a), rows.get(*b), rows.get64(*c));
                let f = |lane: usize| (signed(a[lane]).wrapping_mul(signed(b[lane])) as u64).wrapping_add(c[lane]);
                rows.set64(*d, active, each(f));
            }
            Op::Add64 { d, a, b } => rows.wide2(*d, *a, *b, active, u64::wrapping_add),
            Op::Sub64 { d, a, b } => rows.wide2(*d, *a, *b, active, u64::wrapping_sub),
            Op::Mul64 { d, a, b } => rows.wide2(*d, *a, *b, active, u64::wrapping_mul),
            Op::Mad64 { d, a, b, c } => {
                rows.wide3(*d, [*a, *b, *c], active, |a, b, c| a.wrapping_mul(b).wrapping_add(c));
            }
            Op::And64 { d, a, b } => rows.wide2(*d, *a, *b, active, |a, b| a & b),
            Op::Or64 { d, a, b } => rows.wide2(*d, *a, *b, active, |a, b| a | b),
            Op::Xor64 { d, a, b } => rows.wide2(*d, *a, *b, active, |a, b| a ^ b),
            Op::Not64 { d, a } => rows.wide1(*d, *a, active, |a| !a),
            Op::Shl64 { d, a, b } => rows.shift64(*d, *a, *b, active, |a, b| if b > 63 { 0 } else { a << (b & 63) }),
            Op::ShrU64 { d, a, b } => rows.shift64(*d, *a, *b, active, |a, b| if b > 63 { 0 } else { a >> (b & 63) }),
            Op::ShrS64 { d, a, b } => rows.shift64(*d, *a, *b, active, |a, b| ((a as i64) >> b.min(63)) as u64),

            Op::Carry(carry) => warp.carry = run_carry(rows, carry, warp.carry, active),

            Op::AddF32 { d, a, b, ftz } => rows.f32_2(*d, *a, *b, active, *ftz, |a, b| a + b),
            Op::SubF32 { d, a, b, ftz } => rows.f32_2(*d, *a, *b, active, *ftz, |a, b| a - b),
            Op::MulF32 { d, a, b, ftz } => {
                rows.f32_3(*d, [*a, *b, *b], active, *ftz, |a, b, _| a * b, |a, b, _| a * b);
            }
            Op::FmaF32 { d, a, b, c, ftz } => {
                rows.f32_3(*d, [*a, *b, *c], active, *ftz, fma::<FMA>, |a, b, c| sum_to_odd(a * b, c));
            }
            Op::DivF32 { d, a, b } => rows.f32_2(*d, *a, *b, active, false, |a, b| a / b),
            Op::SqrtF32 { d, a } => rows.f32_1(*d, *a, active, f32::sqrt),
            Op::MinF32 { d, a, b, ftz } => rows.f32_2(*d, *a, *b, active, *ftz, min),
            Op::MaxF32 { d, a, b, ftz } => rows.f32_2(*d, *a, *b, active, *ftz, |a, b| -min(-a, -b)),
            Op::HalfMath { op, d, a, b, c, bfloat, packed } => {
                if *bfloat {
                    half_math::<Bf16>(rows, *op, *d, [*a, *b, *c], *packed, active);
                } else {
                    half_math::<F16>(rows, *op, *d, [*a, *b, *c], *packed, active);
                }
            }
            Op::AddF64 { d, a, b } => run_f64(rows, crate::scalar::double::add, *d, [*a, *b, *b], active),
            Op::SubF64 { d, a, b } => run_f64(rows, crate::scalar::double::sub, *d, [*a, *b, *b], active),
            Op::MulF64 { d, a, b } => run_f64(rows, crate::scalar::double::mul, *d, [*a, *b, *b], active),
            Op::FmaF64 { d, a, b, c } => run_f64(rows, crate::scalar::double::fma, *d, [*a, *b, *c], active),
            Op::S32ToF32 { d, a } => rows.map1(*d, *a, active, |a| (a as i32 as f32).to_bits()),
            Op::U32ToF32 { d, a } => rows.map1(*d, *a, active, |a| (a as f32).to_bits()),
            Op::F32ToS32 { d, a } => rows.map1(*d, *a, active, |a| f32::from_bits(a) as i32 as u32),
            Op::Map(map) => run_map(rows, map, active),

            Op::SetpU32 { cmp, d, a, b } => {
                set_predicate!(*d, active, compare(*cmp, rows.get(*a), rows.get(*b), |x: u32| x));
            }
            Op::SetpS32 { cmp, d, a, b } => {
                set_predicate!(*d, active, compare(*cmp, rows.get(*a), rows.get(*b), |x: u32| x as i32));
            }
            Op::SetpU64 { cmp, d, a, b } => {
                set_predicate!(*d, active, compare(*cmp, rows.get64(*a), rows.get64(*b), |x: u64| x));
            }
            Op::SetpS64 { cmp, d, a, b } => {
                set_predicate!(*d, active, compare(*cmp, rows.get64(*a), rows.get64(*b), |x: u64| x as i64));
            }
            Op::SetpF32 { cmp, d, a, b } => {
                set_predicate!(*d, active, compare(*cmp, rows.get(*a), rows.get(*b), f32::from_bits));
            }
            Op::SetpFull(setp) => set_full(&mut context!(), rows, setp, active),
            Op::PredSet { d, value } => set_predicate!(*d, active, if *value { u32::MAX } else { 0 }),
            Op::PredMov { d, a, negated } => {
                let bits = predicate!(*a);
                set_predicate!(*d, active, if *negated { !bits } else { bits });
            }
            Op::PredLogic { op, d, a, b, not_a, not_b } => {
                let a = if *not_a { !predicate!(*a) } else { predicate!(*a) };
                let b = if *not_b { !predicate!(*b) } else { predicate!(*b) };
                set_predicate!(*d, active, logic(*op, a, b));
            }
            Op::Selp32 { d, a, b, p, negated } => {
                let choose = predicate!(*p) ^ if *negated { u32::MAX } else { 0 };
                let (a, b) = (rows.get(*a), rows.get(*b));
                let f = |lane: usize| {
                    let not = (choose >> lane & 1).wrapping_sub(1);
                    a[lane] & !not | b[lane] & not
                };
                rows.set(*d, active, each(f));
            }
            Op::Selp64 { d, a, b, p, negated } => {
                let choose = predicate!(*p) ^ if *negated { u32::MAX } else { 0 };
                let (a, b) = (rows.get64(*a), rows.get64(*b));
                let f = |lane: usize| if choose >> lane & 1 == 1 { a[lane] } else { b[lane] };
                rows.set64(*d, active, each(f));
            }
            Op::RowToPred { d, a } => {
                let a = rows.get(*a);
                set_predicate!(*d, active, mask_of(|lane| a[lane] != 0));
            }

            Op::Load(access) => {
                if let Err(problem) = access::load::<M, AVX2>(&mut context!(), rows, access, active) {
                    break Err(problem);
                }
            }
            Op::Store(access) => {
                if let Err(problem) = access::store::<M, AVX2>(&mut context!(), rows, access, active) {
                    break Err(problem);
                }
            }
            Op::Atomic(atomic) => {
                if let Err(problem) = access::atomic(&mut context!(), rows, atomic, active) {
                    break Err(problem);
                }
            }
            Op::CpAsync(copy) => {
                if let Err(problem) = access::cp_async(&mut context!(), rows, copy, active) {
                    break Err(problem);
                }
            }
            Op::CpAsyncCommit => warp.copies.commit(active),
            Op::CpAsyncWait { n } => access::cp_async_wait(&mut context!(), *n, active),
            Op::Fence { device } => {
                std::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
                if let Some(sanitiser) = monitor.sanitiser() {
                    sanitiser.fenced(block, *device);
                }
            }
            Op::Cvta { d, a, wide, delta } => {
                if *wide {
                    rows.wide1(*d, *a, active, |a| a.wrapping_add(*delta));
                } else {
                    rows.map1(*d, *a, active, |a| a.wrapping_add(*delta as u32));
                }
            }
            Op::IsSpace { d, a, wide, space, constant } => {
                let address = |lane| rows.lane_of(*a, *wide, lane);
                let found = if *constant {
                    mask_of(|lane| access::is_constant(launch, address(lane)))
                } else {
                    mask_of(|lane| access::space_of(address(lane)) == *space)
                };
                set_predicate!(*d, active, found);
            }
            Op::Nop => {}

            Op::Bra { target, join } => {
                let rest = mask & !active;
                if rest != 0 {
                    split.mask = mask;
                    let meeting = part(warp, split, *join);
                    warp.splits.push(Split { pc: pc as u32 + 1, mask: rest, join: meeting, ..split.clone() });
                    split.join = meeting;
                    mask = active;
                }
                pc = *target as usize;
                continue;
            }
            Op::Join => {
                // a mark of the lowering, not an instruction of the kernel
                executed -= 1;
                lane_count -= u64::from(active.count_ones());
                if warp.meets(split.join, pc as u32, split.callers.len())
                    && let Some(join) = &mut warp.joins[split.join as usize]
                {
                    join.arrived |= mask;
                    if join.arrived != join.expected {
                        break Ok(Stop::Gone);
                    }
                    mask = join.expected;
                    let parent = join.parent;
                    warp.joins[split.join as usize] = None;
                    split.join = parent;
                }
            }
            Op::BrxIdx(brx) => {
                let index = rows.get(brx.index);
                let past = mask_of(|lane| index[lane] as usize >= brx.targets.len()) & active;
                if past != 0 {
                    let value = index[past.trailing_zeros() as usize];
                    let message = format!("index {value} of a jump table with {} targets", brx.targets.len());
                    break Err(Problem::new(FaultKind::InvalidBranch, past, message));
                }
                split.mask = mask;
                let mut rest = active;
                let target_of = |lane: u32| brx.targets[index[lane as usize] as usize];
                let first = target_of(rest.trailing_zeros());
                let mut meeting = split.join;
                let mut together = 0;
                while rest != 0 {
                    let target = target_of(rest.trailing_zeros());
                    let same = mask_of(|lane| rest >> lane & 1 == 1 && target_of(lane as u32) == target);
                    rest &= !same;
                    if target == first {
                        together = same;
                        if rest != 0 {
                            meeting = part(warp, split, brx.join);
                        }
                    } else {
                        warp.splits.push(Split { pc: target, mask: same, join: meeting, ..split.clone() });
                    }
                }
                split.join = meeting;
                mask = together;
                pc = first as usize;
                continue;
            }
            Op::Call(call) => {
                split.pc = pc as u32;
                split.mask = mask;
                match enter(&mut context!(), rows, split, call) {
                    Err(problem) => break Err(problem),
                    Ok(()) => {
                        pc = split.pc as usize;
                        mask = split.mask;
                        rows = warp.frame_rows(split.frame);
                        base = split.frame.predicates;
                        continue;
                    }
                }
            }
            Op::Ret => {
                split.mask = mask;
                warp.ret(launch, split);
                pc = split.pc as usize;
                rows = warp.frame_rows(split.frame);
                base = split.frame.predicates;
                continue;
            }
            Op::Exit => {
                block.live -= active.count_ones();
                block.barriers_touched = true;
                warp.exit_lanes(active);
                mask &= !active;
                if mask == 0 {
                    break Ok(Stop::Gone);
                }
            }
            Op::Trap => break Err(Problem::new(FaultKind::Trap, active, "the kernel executed a trap")),
            Op::Nanosleep => {
                pc += 1;
                break Ok(Stop::Quantum);
            }
            Op::Activemask { d } => rows.set(*d, active, [active; 32]),
            Op::Barrier(barrier) => {
                if let Err(problem) = arrive(&mut context!(), rows, barrier, active) {
                    break Err(problem);
                }
                if barrier.kind != BarrierKind::Arrive {
                    leave_behind(warp, split, pc, mask, active);
                    mask = active;
                    split.state = State::Barrier(rows.lane(barrier.id, active.trailing_zeros() as usize));
                    break Ok(Stop::Wait);
                }
            }
            Op::Together(op) => match together::missing(&mut context!(), rows, op, active) {
                Err(problem) => break Err(problem),
                Ok(None) => {
                    if let Err(problem) = together::execute(&mut context!(), op, active) {
                        break Err(problem);
                    }
                }
                Ok(Some(members)) => {
                    leave_behind(warp, split, pc, mask, active);
                    mask = active;
                    split.state = State::Together { members };
                    break Ok(Stop::Wait);
                }
            },
            Op::Unsupported => {
                break Err(Problem::new(FaultKind::Trap, active, "the simulator does not know this instruction"));
            }
        }
        monitor.after(&scene!(active));
        pc += 1;
    };
    split.pc = pc as u32;
    split.mask = mask;
    warp.clock += u64::from(executed);
    block.counts.warp_instructions += u64::from(executed);
    block.counts.lane_instructions += lane_count;
    result.map_err(|problem| (problem, pc))
}

/// The join that the lanes of `split` will meet at when a branch has parted them.
fn part(warp: &mut Warp, split: &Split, join: u32) -> u32 {
    if join == NONE || warp.meets(split.join, join, split.callers.len()) {
        split.join // a loop: those that left in an earlier round already wait there
    } else {
        warp.new_join(split, join)
    }
}

/// Lanes of a guarded instruction that do not take part go on while the others wait.
fn leave_behind(warp: &mut Warp, split: &Split, pc: usize, mask: u32, active: u32) {
    if mask != active {
        warp.splits.push(Split { pc: pc as u32 + 1, mask: mask & !active, ..split.clone() });
    }
}

#[inline(always)]
fn signed(a: u32) -> i64 {
    i64::from(a as i32)
}

#[inline(always)]
fn fma<const FMA: bool>(a: f32, b: f32, c: f32) -> f32 {
    if FMA { a.mul_add(b, c) } else { f32::from_bits(crate::scalar::single::fma_f32_soft(a, b, c)) }
}

/// The smaller; a number rather than NaN, and -0 rather than +0.
#[inline(always)]
fn min(a: f32, b: f32) -> f32 {
    let smaller = if a == b {
        f32::from_bits(a.to_bits() | b.to_bits())
    } else if a < b {
        a
    } else {
        b
    };
    if a.is_nan() {
        b
    } else if b.is_nan() {
        a
    } else {
        smaller
    }
}

/// Every one is a fused multiply-add of both halves, which the compiler makes vector instructions of: a kernel of pairs
/// runs 5.8 times as fast as lane by lane.
#[inline(always)]
fn half_math<H: Half>(rows: Rows, op: HalfOp, d: R, [a, b, c]: [R; 3], packed: bool, mask: u32) {
    const SIGNS: u32 = 0x8000_8000;
    let one = H::narrow(1.0) as u32 * 0x1_0001;
    let [a, b, c] = match op {
        HalfOp::Add => [rows.get(a), [one; 32], rows.get(b)],
        HalfOp::Sub => [rows.get(a), [one; 32], rows.get(b).map(|b| b ^ SIGNS)],
        // Adding -0 changes nothing, not even the sign of zero.
        HalfOp::Mul => [rows.get(a), rows.get(b), [SIGNS; 32]],
        HalfOp::Fma => [rows.get(a), rows.get(b), rows.get(c)],
    };
    let keep = if packed { u32::MAX } else { 0xffff };
    // A loop, not a closure: that one is too large for the compiler to inline, and so to vectorise.
    let mut values = [0; 32];
    for lane in 0..32 {
        let high = fused::<H>(a[lane] >> 16, b[lane] >> 16, c[lane] >> 16);
        values[lane] = (high << 16 | fused::<H>(a[lane], b[lane], c[lane])) & keep;
    }
    rows.set(d, mask, values);
}

/// `a × b + c` of the lower halves.
#[inline(always)]
fn fused<H: Half>(a: u32, b: u32, c: u32) -> u32 {
    H::narrow(H::fused(
        H::widen(u64::from(a & 0xffff)),
        H::widen(u64::from(b & 0xffff)),
        H::widen(u64::from(c & 0xffff)),
    )) as u32
}

#[inline(always)]
fn logic(op: BoolOp, a: u32, b: u32) -> u32 {
    match op {
        BoolOp::And => a & b,
        BoolOp::Or => a | b,
        BoolOp::Xor => a ^ b,
    }
}

/// The lanes for which the comparison holds, of registers that `value` reads.
#[inline(always)]
fn compare<T: Copy, V: PartialOrd>(cmp: Cmp, a: [T; 32], b: [T; 32], value: impl Fn(T) -> V) -> u32 {
    match cmp {
        Cmp::Eq => mask_of(|lane| value(a[lane]) == value(b[lane])),
        Cmp::Ne => mask_of(|lane| value(a[lane]) != value(b[lane])),
        Cmp::Lt => mask_of(|lane| value(a[lane]) < value(b[lane])),
        Cmp::Le => mask_of(|lane| value(a[lane]) <= value(b[lane])),
        Cmp::Gt => mask_of(|lane| value(a[lane]) > value(b[lane])),
        Cmp::Ge => mask_of(|lane| value(a[lane]) >= value(b[lane])),
    }
}

#[inline(always)]
fn lop3(rows: Rows, d: R, sources: [R; 3], table: u8, mask: u32) {
    let has = |bit: u8| if table >> bit & 1 == 1 { u32::MAX } else { 0 };
    let [t0, t1, t2, t3, t4, t5, t6, t7] = std::array::from_fn(|bit| has(bit as u8));
    rows.map3(d, sources, mask, |a, b, c| {
        let low = (!b & !c & t0) | (!b & c & t1) | (b & !c & t2) | (b & c & t3);
        let high = (!b & !c & t4) | (!b & c & t5) | (b & !c & t6) | (b & c & t7);
        !a & low | a & high
    });
}

// What follows is rare enough to be called rather than inlined.

#[inline(never)]
fn special<M: Monitor>(
    context: &Context<'_, '_, M>,
    rows: Rows,
    d: R,
    what: Special,
    wide: bool,
    mask: u32,
    clock: u64,
) {
    let Context { warp, block, launch, .. } = context;
    let axis = |extents: [u32; 3], axis: u8| u64::from(extents.get(usize::from(axis)).copied().unwrap_or(0));
    let nanoseconds = || launch.started.elapsed().as_nanos() as u64;
    let by_lane = |values: [u32; 32]| {
        if wide {
            rows.set64(d, mask, values.map(u64::from));
        } else {
            rows.set(d, mask, values);
        }
    };
    let value = match what {
        Special::Tid(at) => return by_lane(warp.threads.get(usize::from(at)).copied().unwrap_or_default()),
        Special::LaneId => return by_lane(each(|lane| lane as u32)),
        Special::LanemaskEq => return by_lane(each(|lane| 1 << lane)),
        Special::LanemaskLt => return by_lane(each(|lane| (1 << lane) - 1)),
        Special::LanemaskLe => return by_lane(each(|lane| u32::MAX >> (31 - lane))),
        Special::LanemaskGt => return by_lane(each(|lane| !(u32::MAX >> (31 - lane)))),
        Special::LanemaskGe => return by_lane(each(|lane| u32::MAX << lane)),
        Special::Ntid(at) => axis(launch.block, at),
        Special::Ctaid(at) => axis(block.index, at),
        Special::Nctaid(at) => axis(launch.grid, at),
        Special::WarpId => u64::from(warp.number),
        Special::NWarpId => u64::from(launch.threads().div_ceil(32)),
        Special::SmId | Special::GridId => 0,
        Special::NSmId => 1,
        Special::Clock => clock & 0xffff_ffff,
        Special::ClockHi => clock >> 32,
        Special::Clock64 => clock,
        Special::GlobalTimer => nanoseconds(),
        Special::GlobalTimerLo => nanoseconds() & 0xffff_ffff,
        Special::GlobalTimerHi => nanoseconds() >> 32,
        Special::DynamicSharedSize => u64::from(launch.dynamic_shared),
        Special::TotalSharedSize => u64::from(launch.shared_bytes()),
        Special::Fixed(value) => u64::from(value),
    };
    if wide {
        rows.set64(d, mask, [value; 32]);
    } else {
        rows.set(d, mask, [value as u32; 32]);
    }
}

#[inline(never)]
fn run_pack(rows: Rows, pack: &Pack, mask: u32) {
    let part_mask = if pack.bits >= 64 { u64::MAX } else { (1 << pack.bits) - 1 };
    for lane in lanes(mask) {
        let parts = pack.parts.iter().enumerate();
        let value = parts.fold(0, |value, (at, part)| {
            value | (rows.lane_of(*part, pack.part_wide, lane) & part_mask) << (at * usize::from(pack.bits))
        });
        rows.set_lane_of(pack.d, pack.d_wide, lane, value);
    }
}

#[inline(never)]
fn run_carry(rows: Rows, carry: &Carry, flags: u32, mask: u32) -> u32 {
    let mut flags = flags;
    for lane in lanes(mask) {
        let source = |row: R| if row == R::MAX { 0 } else { rows.lane_of(row, carry.wide, lane) };
        let carry_in = carry.carry_in && flags >> lane & 1 == 1;
        let (value, carry_out) = (carry.f)(carry_in, source(carry.a), source(carry.b), source(carry.c));
        if carry.carry_out {
            flags = flags & !(1 << lane) | u32::from(carry_out) << lane;
        }
        rows.set_lane_of(carry.d, carry.wide, lane, value);
    }
    flags
}

#[inline(never)]
fn run_f64(rows: Rows, f: crate::scalar::LaneFn, d: R, [a, b, c]: [R; 3], mask: u32) {
    rows.wide3(d, [a, b, c], mask, |a, b, c| f(crate::scalar::Mode::default(), a, b, c));
}

#[inline(never)]
fn run_map(rows: Rows, map: &Map, mask: u32) {
    let source = |at: usize| {
        let (row, bytes) = (map.sources[at], map.source_bytes[at]);
        let keep = if bytes == 8 { u64::MAX } else { (1 << (bytes * 8)) - 1 };
        match row {
            R::MAX => [0; 32],
            row if map.source_wide[at] => rows.get64(row).map(|value| value & keep),
            row => rows.get(row).map(|value| u64::from(value) & keep),
        }
    };
    let [a, b, c] = [source(0), source(1), source(2)];
    let mut values = [0; 32];
    for lane in lanes(mask) {
        values[lane] = (map.f)(map.mode, a[lane], b[lane], c[lane]);
    }
    if map.sign_from != 0 && map.sign_from < 64 {
        let shift = 64 - map.sign_from;
        values = values.map(|value| ((value << shift) as i64 >> shift) as u64);
    }
    if map.d_wide {
        rows.set64(map.d, mask, values);
    } else {
        rows.set(map.d, mask, values.map(|value| value as u32));
    }
}

#[inline(never)]
fn set_full<M: Monitor>(context: &mut Context<'_, '_, M>, rows: Rows, setp: &SetpFull, mask: u32) {
    let combine = setp.combine.map(|(op, p, negated)| {
        let bits = *context.predicate(p);
        (op, if negated { !bits } else { bits })
    });
    let compared = |half: u32| {
        let wide = setp.bytes == 8;
        let width = if setp.bytes == 8 { u64::MAX } else { (1 << (setp.bytes * 8)) - 1 };
        mask_of(|lane| {
            let value = |row| (rows.lane_of(row, wide, lane) & width) >> (half * 16);
            mask >> lane & 1 == 1 && (setp.compare)(setp.ftz, value(setp.a), value(setp.b))
        })
    };
    let combined = |found: u32| combine.map_or(found, |(op, with)| logic(op, found, with));
    let mut write = |p: Option<P>, bits: u32| {
        if let Some(p) = p {
            let to = context.predicate(p);
            *to = *to & !mask | bits & mask;
        }
    };
    match setp.result {
        SetResult::Predicates { p, q } => {
            let found = compared(0);
            write(p, combined(found));
            write(q, combined(!found));
        }
        SetResult::PredicatePair { p, q } => {
            let halves = [halves_compared(rows, setp, mask, 0), halves_compared(rows, setp, mask, 1)];
            write(p, combined(halves[0]));
            write(q, combined(halves[1]));
        }
        SetResult::Row { d, when_true } => {
            let found = combined(compared(0));
            rows.set(d, mask, each(|lane| if found >> lane & 1 == 1 { when_true } else { 0 }));
        }
        SetResult::RowPair { d, when_true } => {
            let low = combined(halves_compared(rows, setp, mask, 0));
            let high = combined(halves_compared(rows, setp, mask, 1));
            let f = |lane: usize| {
                let half = |bits: u32| if bits >> lane & 1 == 1 { u32::from(when_true) } else { 0 };
                half(low) | half(high) << 16
            };
            rows.set(d, mask, each(f));
        }
    }
}

/// Comparison of one half of pairs of halves.
fn halves_compared(rows: Rows, setp: &SetpFull, mask: u32, half: u32) -> u32 {
    mask_of(|lane| {
        let value = |row| u64::from(rows.lane(row, lane) >> (half * 16) & 0xffff);
        mask >> lane & 1 == 1 && (setp.compare)(setp.ftz, value(setp.a), value(setp.b))
    })
}

/// `call`: a built-in function is done at once; otherwise `split` enters the function.
#[inline(never)]
fn enter<M: Monitor>(
    context: &mut Context<'_, '_, M>,
    rows: Rows,
    split: &mut Split,
    call: &Call,
) -> Result<(), Box<Problem>> {
    match call.callee {
        Callee::Vprintf => {
            printf::vprintf(context, call, split.mask)?;
            split.pc += 1;
            Ok(())
        }
        Callee::Malloc => {
            heap::malloc(context, call, split.mask);
            split.pc += 1;
            Ok(())
        }
        Callee::Free => {
            heap::free(context, call, split.mask)?;
            split.pc += 1;
            Ok(())
        }
        Callee::AssertFail => Err(printf::assertion(context, call, split.mask)),
        Callee::Function(function) => context.warp.call(context.launch, split, function, call),
        Callee::Indirect(row) => {
            let first = split.mask.trailing_zeros() as usize;
            let address = rows.lane_of(row, true, first);
            let same = mask_of(|lane| rows.lane_of(row, true, lane) == address) & split.mask;
            let functions = &context.launch.program.functions;
            let index = address.wrapping_sub(memory::FUNCTION_WINDOW);
            let callable =
                |at: u64| functions.get(at as usize).is_some_and(|function| function.defined && !function.kernel);
            if !index.is_multiple_of(16) || !callable(index / 16) {
                let message = format!("{address:#x} is not the address of a function");
                return Err(Problem::new(FaultKind::InvalidCall, same, message).at(address));
            }
            // Lanes that call something else come back to this instruction.
            if same != split.mask {
                let rest = Split { mask: split.mask & !same, ..split.clone() };
                context.warp.splits.push(rest);
                split.mask = same;
            }
            context.warp.call(context.launch, split, (index / 16) as u32, call)
        }
    }
}

/// Lanes come to a barrier of the block.
#[inline(never)]
fn arrive<M: Monitor>(
    context: &mut Context<'_, '_, M>,
    rows: Rows,
    barrier: &Barrier,
    mask: u32,
) -> Result<(), Box<Problem>> {
    let first = mask.trailing_zeros() as usize;
    let id = rows.lane(barrier.id, first);
    let count = barrier.count.map_or(0, |row| rows.lane(row, first));
    let fail = |message: String| Err(Problem::new(FaultKind::InvalidBarrier, mask, message));
    if id >= NUMBERED_BARRIERS && !barrier.cluster {
        return fail(format!("barrier {id} does not exist"));
    }
    if barrier.count.is_some() && (count == 0 || !count.is_multiple_of(32)) {
        return fail(format!("barrier {id} is asked for {count} threads, which is not a multiple of 32"));
    }
    let trues = barrier.source.map(|(p, negated)| {
        let bits = *context.predicate(p);
        (if negated { !bits } else { bits } & mask).count_ones()
    });
    let state = &mut context.block.barriers[id as usize];
    if state.arrived != 0 && state.expected != count {
        let (one, other) = (state.expected, count);
        let words = |count: u32| if count == 0 { "all threads".to_owned() } else { format!("{count} threads") };
        return fail(format!("barrier {id} waits for {} here and for {} elsewhere", words(other), words(one)));
    }
    state.expected = count;
    state.arrived += mask.count_ones();
    if let Some(trues) = trues {
        state.trues += trues;
        state.voters += mask.count_ones();
    }
    context.block.barriers_touched = true;
    let at = context.at();
    if let Some(sanitiser) = context.monitor.sanitiser() {
        sanitiser.arrived(at, context.block, context.warp, barrier, id, mask);
    }
    Ok(())
}
