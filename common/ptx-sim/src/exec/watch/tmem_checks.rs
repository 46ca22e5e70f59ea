//! Checks of `tcgen05` for the sanitiser: tensor memory is left alone while a product, a store or a load of it is under way, and so
//! are the registers of a load (PTX ISA, "tcgen05 Memory Consistency Model"). A strict sanitiser also wants the fences
//! with which threads hand tensor memory over; CUTLASS has none.

use std::collections::{HashMap, VecDeque};

use super::sanitise::Sanitiser;
use super::written::register_name;
use crate::exec::state::block::Block;
use crate::exec::state::handover::Handover;
use crate::exec::state::launch::{At, Launch};
use crate::exec::state::problem::{Earlier, Problem};
use crate::exec::state::scene::Scene;
use crate::exec::state::shadow::{READ, Record, WRITE};
use crate::exec::state::tensor_memory::{Cells, TensorWork, TmemUse};
use crate::exec::state::transfers::Issuer;
use crate::fault::FaultKind;
use crate::ir::*;

pub(crate) const PRODUCT_WAIT: &str = "PTX ISA, \"tcgen05.mma\": it (and tcgen05.cp, tcgen05.shift) is done when the mbarrier of a tcgen05.commit after it has been waited for";

const ACCESS_WAIT: &str = "PTX ISA, \"tcgen05.wait\": registers of a tcgen05.ld, and what a tcgen05.st writes, are there after a wait of the same warp";

const FENCES: &str = "PTX ISA, \"tcgen05.fence\": between threads, `before_thread_sync` follows the work and its wait, and `after_thread_sync` comes \
                      before what depends on it";

const HANDOVER: &str =
    "tensor memory is as other memory between warps: something has to tell one that the other is done with it";

/// Accesses of a block's tensor memory that are remembered.
const REMEMBERED: usize = 256;

/// An access that later ones may conflict with.
#[derive(Debug)]
struct Access {
    cells: Cells,
    /// The block and the warp.
    by: (u64, u32),
    pc: usize,
    /// The thread, and the moment of the access or of the product's end.
    record: Record,
    kind: TmemUse,
    /// Whether the warp has waited for it.
    waited: bool,
    /// Moment of the warp's next `before_thread_sync`, or when a product was done.
    handed: Option<u32>,
}

/// Knowledge of a block's tensor memory.
#[derive(Debug, Default)]
struct Tmem {
    /// Fences and accesses so far.
    now: u32,
    /// Oldest first.
    accesses: VecDeque<Access>,
    /// Moment of each warp's last meeting with others, and of the last that an `after_thread_sync` followed.
    met: HashMap<u32, u32>,
    fenced: HashMap<u32, u32>,
    /// Number of barriers of the whole block that each warp has come to, and the moment of the last arrival at each.
    barriers: HashMap<u32, usize>,
    arrived: HashMap<usize, u32>,
    /// Warps that wait: at that barrier of the whole block, or elsewhere.
    meeting: HashMap<u32, Option<usize>>,
    /// Registers that loads have yet to fill, by warp: frame, row, and the load.
    registers: HashMap<u32, Vec<([u32; 2], R, usize)>>,
}

impl Tmem {
    fn tick(&mut self) -> u32 {
        self.now += 1;
        self.now
    }

    fn remember(&mut self, access: Access) {
        if self.accesses.len() == REMEMBERED {
            self.accesses.pop_front();
        }
        self.accesses.push_back(access);
    }
}

/// State of running blocks.
#[derive(Debug, Default)]
pub(crate) struct TmemChecks {
    /// Whether the module has tensor memory.
    pub(crate) is_on: bool,
    blocks: HashMap<u64, Tmem>,
}

impl TmemChecks {
    pub(crate) fn new(code: &[Inst]) -> Self {
        let uses = |inst: &Inst| match &inst.op {
            Op::Tcgen05(_) => true,
            Op::Together(together) => matches!(together.op, TogetherOp::TmemLoad(_) | TogetherOp::TmemStore(_)),
            _ => false,
        };
        Self { is_on: code.iter().any(uses), ..Self::default() }
    }

    /// Called when a block ends.
    pub(crate) fn forget(&mut self, block: u64) {
        self.blocks.remove(&block);
    }

    /// Called when a warp is about to execute an instruction: returns the problem of the registers that it uses.
    fn follow(&mut self, scene: &Scene<'_, '_>) -> Option<Box<Problem>> {
        let op = &scene.launch.program.code[scene.pc].op;
        let warp = scene.warp.number;
        let by = (scene.block.number, warp);
        let tmem = self.blocks.entry(scene.block.number).or_default();
        if let Some(barrier) = tmem.meeting.remove(&warp) {
            // Others may have gone on from a barrier before; a product may have happened while it was waited for.
            let moment = match barrier {
                Some(count) => tmem.arrived.get(&count).copied().unwrap_or(0),
                None => tmem.tick(),
            };
            tmem.met.insert(warp, moment);
        }
        match op {
            Op::Barrier(barrier) if barrier.count.is_none() => {
                let now = tmem.tick();
                let count = tmem.barriers.entry(warp).or_default();
                *count += 1;
                let count = *count;
                tmem.arrived.insert(count, now);
                // No warp is two barriers behind.
                tmem.arrived.remove(&count.wrapping_sub(2));
                tmem.meeting.insert(warp, Some(count));
            }
            Op::Barrier(_) | Op::ClusterWait => {
                tmem.meeting.insert(warp, None);
            }
            Op::Mbarrier(mbarrier) if matches!(mbarrier.op, MbarrierOp::Wait { .. }) => {
                tmem.meeting.insert(warp, None);
            }
            // Whoever asks memory may learn of others there.
            Op::Fence { .. } | Op::Atomic(_) => {
                tmem.meeting.insert(warp, None);
            }
            Op::Load(access) if access.order != Order::Weak => {
                tmem.meeting.insert(warp, None);
            }
            Op::TmemFence { after: true } => {
                let met = tmem.met.get(&warp).copied().unwrap_or(0);
                tmem.fenced.insert(warp, met);
                return None;
            }
            Op::TmemFence { after: false } => {
                let now = tmem.tick();
                let own = |access: &&mut Access| access.by == by && access.waited && access.handed.is_none();
                tmem.accesses.iter_mut().filter(own).for_each(|access| access.handed = Some(now));
                return None;
            }
            Op::Together(together) if let TogetherOp::TmemWait { stores } = &together.op => {
                let kind = if *stores { TmemUse::Store } else { TmemUse::Load };
                let own = |access: &&mut Access| access.by == by && access.kind == kind;
                tmem.accesses.iter_mut().filter(own).for_each(|access| access.waited = true);
                if !stores {
                    tmem.registers.remove(&warp);
                }
                return None;
            }
            _ => {}
        }
        let pending = tmem.registers.get_mut(&warp)?;
        let frame = [scene.frame_predicates, scene.frame_local];
        let facts = op.facts();
        let load_of = |pending: &[([u32; 2], R, usize)], row: R| {
            pending.iter().find(|(of, other, _)| *of == frame && *other == row).map(|(.., pc)| *pc)
        };
        // A copy is one more name of the value: compilers move registers about, and assemblers make it good.
        if let Op::Mov32 { d, a } = op {
            if let Some(pc) = load_of(pending, *a) {
                pending.push((frame, *d, pc));
            }
            return None;
        }
        let (row, pc, how) = [(&facts.reads, "read"), (&facts.writes, "written")]
            .into_iter()
            .find_map(|(rows, how)| rows.iter().find_map(|row| Some((*row, load_of(pending, *row)?, how))))?;
        let register = register_name(scene.launch, scene.pc, row);
        let message = format!("{register}, which a tcgen05.ld has yet to fill, is {how}");
        let mut problem = Problem::new(FaultKind::RegisterInFlight, scene.active, message).note(ACCESS_WAIT);
        problem.other =
            Some(Earlier { what: "tcgen05.ld", thread: scene.launch.first_thread(scene.block.number, warp), pc });
        Some(problem)
    }
}

impl Sanitiser {
    /// Called when a warp of a module with tensor memory is about to execute an instruction.
    #[inline(never)]
    pub(crate) fn follow_tmem(&mut self, scene: &Scene<'_, '_>) {
        if scene.active != 0
            && let Some(problem) = self.tmem.follow(scene)
        {
            self.report(scene.at(), *problem);
        }
    }

    /// Notes the registers of a load.
    pub(crate) fn tmem_loaded(&mut self, block: u64, warp: u32, frame: [u32; 2], rows: &[R], pc: usize) {
        let tmem = self.tmem.blocks.entry(block).or_default();
        let pending = tmem.registers.entry(warp).or_default();
        pending.retain(|(of, row, _)| *of != frame || !rows.contains(row));
        pending.extend(rows.iter().map(|row| (frame, *row, pc)));
    }

    /// Checks an access of a warp of `block` to the tensor memory of `owner`, itself or the other block of its pair, and remembers it.
    pub(crate) fn tmem_accessed(
        &mut self,
        at: At<'_>,
        [block, owner]: [&Block; 2],
        (warp, lanes): (u32, u32),
        cells: &Cells,
        kind: TmemUse,
    ) {
        let launch = at.launch;
        let by = (block.number, warp);
        let lane = lanes.trailing_zeros().min(31) as usize;
        let mut found = None;
        let is_access = kind.is_access();
        // Work of one thread happens in its order; others' do where an mbarrier tells of them.
        let other_work = owner.work_under_way().find_map(|(by, work)| {
            let meets = |other: &TmemUse, of: &Cells| {
                of.meets(cells)
                    && match is_access {
                        true => kind.writes() || other.writes(),
                        false => matches!(other, TmemUse::Copy | TmemUse::Shift) && by.warp != warp,
                    }
            };
            let (.., other) = work.uses().into_iter().find(|(_, of, other)| meets(other, of))?;
            Some((by, other.name()))
        });
        if let Some((by, other)) = other_work {
            let message = format!("{} of tensor memory that a {other} under way has", kind.name());
            let mut problem = *Problem::new(FaultKind::TmemInFlight, lanes, message).note(PRODUCT_WAIT);
            problem.other = Some(Earlier { what: other, thread: launch.first_thread(by.number, by.warp), pc: by.pc });
            found = Some(problem);
        }
        self.tick();
        let tmem = self.tmem.blocks.entry(owner.number).or_default();
        tmem.tick();
        let fenced = tmem.fenced.get(&warp).copied().unwrap_or(0);
        let accesses = std::mem::take(&mut tmem.accesses);
        let knows = |access: &Access| {
            let [first, moment, flags] = access.record;
            // The lanes of a warp load and store together.
            let lanes = if access.kind.is_access() { 32 } else { 1 };
            let known = |other: u32| {
                let shadow = block.shadow.as_ref();
                shadow.is_none_or(|shadow| self.happens_before(shadow, [first + other, moment, flags], warp, lane))
            };
            (0..lanes).any(known)
        };
        let conflict = |access: &Access| {
            if !(access.kind.writes() || kind.writes()) || !access.cells.meets(cells) {
                return None;
            }
            let (fault, message, rule) = if !access.waited && (access.by, access.kind) != (by, kind) {
                let message =
                    format!("{} of tensor memory before the wait for a {} of it", kind.name(), access.kind.name());
                (FaultKind::TmemInFlight, message, ACCESS_WAIT)
            } else if access.by != by && !knows(access) {
                let message = format!(
                    "{} of tensor memory that a {} has, which this warp has not waited for",
                    kind.name(),
                    access.kind.name()
                );
                (FaultKind::TmemInFlight, message, if access.kind.is_access() { HANDOVER } else { PRODUCT_WAIT })
            } else if self.strict && access.by != by && access.handed.is_none_or(|handed| handed > fenced) {
                let missing = if access.handed.is_none() { "before_thread_sync" } else { "after_thread_sync" };
                let message = format!(
                    "{} of tensor memory that another warp has used, without tcgen05.fence::{missing} between them",
                    kind.name()
                );
                (FaultKind::MissingTcgen05Fence, message, FENCES)
            } else {
                return None;
            };
            let mut problem = *Problem::new(fault, lanes, message).note(rule);
            let thread = launch.first_thread(access.by.0, access.by.1);
            problem.other = Some(Earlier { what: access.kind.name(), thread, pc: access.pc });
            Some(problem)
        };
        let found = found.or_else(|| accesses.iter().rev().find_map(conflict));
        let record = [thread_of(launch, by, lane), self.now, if kind.writes() { WRITE } else { READ }];
        let tmem = self.tmem.blocks.entry(owner.number).or_default();
        tmem.accesses = accesses;
        // A product is remembered when it is done.
        if is_access {
            let handed = None;
            tmem.remember(Access { cells: *cells, by, pc: at.pc, record, kind, waited: false, handed });
        }
        if let Some(problem) = found {
            self.report(at, problem);
        }
    }

    /// Notes that a product or a copy is done in a block's tensor memory.
    pub(crate) fn tmem_done(&mut self, launch: &Launch<'_>, block: u64, by: Issuer, work: &TensorWork) {
        self.tick();
        let record = [thread_of(launch, (by.number, by.warp), by.lane), self.now, 0];
        let tmem = self.tmem.blocks.entry(block).or_default();
        let handed = Some(tmem.tick());
        for (_, cells, kind) in work.uses() {
            // What it replaces is no longer to be waited for.
            if kind.writes() {
                tmem.accesses.retain(|access| access.kind != kind || access.cells != cells);
            }
            tmem.remember(Access { cells, by: (by.number, by.warp), pc: by.pc, record, kind, waited: true, handed });
        }
    }

    /// Notes that whoever waits at an mbarrier will know what a thread of the block had done when it asked for the arrival, and the
    /// work that it tells of. The mbarrier may be another block's.
    pub(crate) fn tmem_arrives(&mut self, launch: &Launch<'_>, block: &mut Block, by: Issuer, barrier: Handover) {
        self.tick();
        let Some(mut shadow) = block.shadow.take() else { return };
        self.hand_over(&mut shadow, by.warp, by.lane, barrier, [self.now; 3], &launch.account);
        block.shadow = Some(shadow);
    }

    /// Reports tensor memory that a block has at its end, and products that nobody has waited for.
    pub(crate) fn tmem_left(&mut self, launch: &Launch<'_>, block: &Block) {
        let Some(memory) = &block.tensor else { return };
        for (by, work) in block.work_under_way().filter(|(by, _)| by.number == block.number) {
            let name = work.uses().first().map_or("", |(.., kind)| kind.name());
            let message = format!("the block ends while a {name} is under way");
            let problem = Problem::new(FaultKind::TmemInFlight, 1 << by.lane, message).note(PRODUCT_WAIT);
            self.report(At { launch, block: block.index, warp: by.warp, pc: by.pc }, *problem);
        }
        for (range, (warp, pc)) in memory.allocations() {
            let message = format!("{} columns of tensor memory are never freed", range.len());
            let rule = "PTX ISA, \"tcgen05.alloc\": all tensor memory is deallocated before the kernel exits; other blocks may wait \
                        for it without end";
            let problem = Problem::new(FaultKind::Leak, u32::MAX, message).note(rule);
            self.report(At { launch, block: block.index, warp: *warp, pc: *pc }, *problem);
        }
    }
}

/// A thread as records have it, by its block's number, its warp and its lane.
fn thread_of(launch: &Launch<'_>, (block, warp): (u64, u32), lane: usize) -> u32 {
    launch.first_thread(block, warp) as u32 + lane as u32 + 1
}
