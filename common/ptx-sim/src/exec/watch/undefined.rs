//! Undefined values: a read of memory that was never written, a shuffle from a lane that does not take part. A kernel may
//! have them, as long as it does not use them: compilers read early what a `selp` throws away later, and the upper half of
//! a warp adds up nothing when the lower one does. So they are followed from register to register, and reported where they
//! go to memory, into an address, a branch, or an operation that takes no such value.

use std::collections::HashMap;

use crate::exec::state::problem::Problem;
use crate::exec::state::scene::Scene;
use crate::exec::state::shuffle::source_of;
use crate::fault::FaultKind;
use crate::ir::*;
use crate::lanes::{lanes, lanes_where, mask_of};
use crate::limits::{Account, Use};

/// Maximum sources that a register's value is followed from; further ones are forgotten.
const MAX_SOURCES: usize = 8;

/// Maximum instructions of a warp whose values are followed.
const MAX_ORIGINS: usize = 64;

/// A register or predicate of a function's frame; the start of the frame's predicates and of its local memory tells frames
/// apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Name {
    frame: (u32, u32),
    register: Register,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Register {
    Row(R),
    Predicate(P),
}

/// Lanes whose value is from an instruction: (number of the origin, lanes).
type Traces = Vec<(u32, u32)>;

/// An instruction that made such values.
#[derive(Debug)]
struct Origin {
    pc: usize,
    kind: FaultKind,
    /// The problem to report if a value is used; `None` if it has been.
    problem: Option<Problem>,
    /// Number of such values that each lane got since the last report.
    count: [u32; 32],
    /// Lanes that executed the instruction, if a shuffle moved the values to the lanes of `count`.
    moved_from: Option<u32>,
}

/// A use of undefined values.
pub(crate) struct Used {
    /// The instruction that made them.
    pub pc: usize,
    pub kind: FaultKind,
    pub lanes: u32,
    pub count: u64,
    pub problem: Option<Problem>,
}

/// The values of a warp.
#[derive(Debug, Default)]
struct WarpValues {
    origins: Vec<Origin>,
    traces: HashMap<Name, Traces>,
}

/// The values of all warps that run, by block and warp.
#[derive(Debug, Default)]
pub(crate) struct Undefined {
    warps: HashMap<(u64, u32), WarpValues>,
    /// Registers whose value is followed, and instructions that values are from.
    registers: u64,
    origins: u64,
    /// Bytes of host memory already charged to the launch's account.
    taken: u64,
}

impl Undefined {
    #[inline(always)]
    pub(crate) fn is_empty(&self) -> bool {
        self.warps.is_empty()
    }

    /// Charges all of it to the launch's account. False if there is no room: then the launch ends soon.
    fn has_room(&mut self, account: &Account<'_>) -> bool {
        let register = size_of::<(Name, Traces)>() + 4 * size_of::<(u32, u32)>();
        let origin = size_of::<Origin>() + 256; // with the words of its problem
        let bytes = self.registers * register as u64 + self.origins * origin as u64;
        account.adjust(Use::Shadow, &mut self.taken, bytes)
    }

    /// Records that lanes get such a value in a row from the instruction at `pc`; some of them are counted. False if it cannot
    /// be followed.
    pub(crate) fn add(
        &mut self,
        account: &Account<'_>,
        (block, warp, frame, d): (u64, u32, (u32, u32), R),
        pc: usize,
        kind: FaultKind,
        [mask, counted]: [u32; 2],
        problem: impl FnOnce() -> Problem,
    ) -> bool {
        if !self.has_room(account) {
            return false;
        }
        let values = self.warps.entry((block, warp)).or_default();
        let registers = values.traces.len();
        let origins = values.origins.len();
        let Some(origin) = values.origin(pc, kind, None, || Some(problem())) else { return false };
        self.origins += (values.origins.len() - origins) as u64;
        lanes(counted).for_each(|lane| values.origins[origin as usize].count[lane] += 1);
        let traces = values.traces.entry(Name { frame, register: Register::Row(d) }).or_default();
        unite(traces, &[(origin, mask)]);
        self.registers += (values.traces.len() - registers) as u64;
        true
    }

    /// Called when a block ends.
    pub(crate) fn forget(&mut self, block: u64) {
        let (registers, origins) = (&mut self.registers, &mut self.origins);
        self.warps.retain(|(of, _), values| {
            if *of == block {
                *registers -= values.traces.len() as u64;
                *origins -= values.origins.len() as u64;
            }
            *of != block
        });
    }

    /// Called when the warp is about to execute an instruction: follows the values, and returns those that it uses.
    #[inline(never)]
    pub(crate) fn follow(&mut self, scene: &Scene<'_, '_>) -> Vec<Used> {
        let key = (scene.block.number, scene.warp.number);
        let Some(values) = self.warps.get_mut(&key) else { return Vec::new() };
        let (registers, origins) = (values.traces.len() as u64, values.origins.len() as u64);
        let uses = values.follow(scene);
        self.registers = self.registers - registers + values.traces.len() as u64;
        self.origins = self.origins - origins + values.origins.len() as u64;
        if values.traces.is_empty() {
            self.origins -= values.origins.len() as u64;
            self.warps.remove(&key);
        }
        self.has_room(&scene.launch.account);
        uses
    }
}

impl WarpValues {
    /// The number of the origin of such values, a new one if need be; `None` if there are too many.
    fn origin(
        &mut self,
        pc: usize,
        kind: FaultKind,
        moved_from: Option<u32>,
        problem: impl FnOnce() -> Option<Problem>,
    ) -> Option<u32> {
        let is_moved = moved_from.is_some();
        let same = |origin: &Origin| origin.pc == pc && origin.kind == kind && origin.moved_from.is_some() == is_moved;
        let known = self.origins.iter().position(same);
        if known.is_none() && self.origins.len() < MAX_ORIGINS {
            self.origins.push(Origin { pc, kind, problem: problem(), count: [0; 32], moved_from });
        }
        let origin = known.or_else(|| self.origins.iter().rposition(same))?;
        if let Some(from) = &mut self.origins[origin].moved_from {
            *from |= moved_from.unwrap_or_default();
        }
        Some(origin as u32)
    }

    /// Records that a shuffle brings values of an origin to the lanes `to`: lanes that got one of it before keep theirs.
    fn moved(&mut self, origin: u32, from: u32, to: u32) -> Traces {
        let Origin { pc, kind, problem, count, moved_from } = &self.origins[origin as usize];
        let stay = lanes_where(to, |lane| count[lane] != 0);
        let (pc, kind, problem, from) = (*pc, *kind, problem.clone(), moved_from.unwrap_or(from));
        let mut traces = vec![(origin, stay)];
        if to != stay
            && let Some(moved) = self.origin(pc, kind, Some(from), || problem)
        {
            lanes(to & !stay).for_each(|lane| self.origins[moved as usize].count[lane] = 1);
            unite(&mut traces, &[(moved, to & !stay)]);
        }
        traces
    }

    fn follow(&mut self, scene: &Scene<'_, '_>) -> Vec<Used> {
        let inst = &scene.launch.program.code[scene.pc];
        let frame = (scene.frame_predicates, scene.frame_local);
        let name = |register| Name { frame, register };
        let row = |row: R| name(Register::Row(row));
        let predicate = |predicate: P| name(Register::Predicate(predicate));
        let active = scene.active;
        let mut used = Traces::new();
        let mut result = Traces::new();
        let of = |name: Name, mask: u32| -> Traces {
            let traces = self.traces.get(&name).map_or(&[][..], Vec::as_slice);
            traces.iter().map(|(origin, lanes)| (*origin, lanes & mask)).filter(|(_, lanes)| *lanes != 0).collect()
        };
        if let Some((guard, _)) = inst.guard.predicate() {
            unite(&mut used, &of(predicate(guard), scene.mask));
        }
        let facts = inst.op.facts();
        match &inst.op {
            Op::Selp32 { a, b, p, negated, .. } | Op::Selp64 { a, b, p, negated, .. } => {
                let bits = scene.warp.predicate(scene.frame_predicates, *p);
                let chosen = if *negated { !bits } else { bits };
                unite(&mut result, &of(row(*a), active & chosen));
                unite(&mut result, &of(row(*b), active & !chosen));
                unite(&mut result, &of(predicate(*p), active));
            }
            Op::Together(together) if let TogetherOp::Shfl { mode, a, b, c, .. } = &together.op => {
                [*b, *c].into_iter().for_each(|from| unite(&mut used, &of(row(from), active)));
                let (offsets, bounds) = (scene.rows.get(*b), scene.rows.get(*c));
                for (origin, from) in of(row(*a), u32::MAX) {
                    let source = |lane: usize| source_of(*mode, lane, offsets[lane], bounds[lane]).0;
                    let to = lanes_where(active, |lane| from >> source(lane) & 1 == 1);
                    let taken = lanes(to).fold(0, |taken, lane| taken | 1 << source(lane));
                    unite(&mut result, &self.moved(origin, taken, to));
                }
            }
            Op::Together(together) if let TogetherOp::Wgmma(op) = &together.op => {
                let (scale, negated) = op.accumulate;
                let accumulates = (scene.warp.predicate(scene.frame_predicates, scale) != 0) != negated;
                let d = op.d.iter().filter(|_| accumulates);
                op.sources().chain(d.copied()).for_each(|from| unite(&mut used, &of(row(from), active)));
                unite(&mut used, &of(predicate(scale), active));
            }
            _ => {
                let to = if facts.computes { &mut result } else { &mut used };
                facts.reads.iter().for_each(|from| unite(to, &of(row(*from), active)));
                facts.tests.iter().for_each(|from| unite(to, &of(predicate(*from), active)));
            }
        }
        let gone = matches!(inst.op, Op::Exit);
        if gone {
            self.traces.values_mut().for_each(|traces| traces.iter_mut().for_each(|(_, lanes)| *lanes &= !active));
        }
        let uses = self.used(&used);
        let written = facts.writes.iter().map(|d| row(*d)).chain(facts.sets.iter().map(|d| predicate(*d)));
        for name in written {
            let traces = self.traces.entry(name).or_default();
            traces.iter_mut().for_each(|(_, lanes)| *lanes &= !active);
            unite(traces, &result);
        }
        let origins = &self.origins;
        self.traces.retain(|_, traces| {
            for (origin, lanes) in traces.iter_mut() {
                let count = &origins[*origin as usize].count;
                *lanes &= mask_of(|lane| count[lane] != 0);
            }
            traces.retain(|(_, lanes)| *lanes != 0);
            !traces.is_empty()
        });
        uses
    }

    /// Returns the reports for values that are used.
    fn used(&mut self, used: &[(u32, u32)]) -> Vec<Used> {
        let mut uses = Vec::new();
        for &(origin, mask) in used {
            let Origin { pc, kind, problem, count, moved_from } = &mut self.origins[origin as usize];
            let mask = lanes_where(mask, |lane| count[lane] != 0);
            if mask == 0 {
                continue;
            }
            let total = lanes(mask).map(|lane| u64::from(std::mem::take(&mut count[lane]))).sum();
            let problem = problem.take();
            let (lanes, count) = match *moved_from {
                None => (mask, total),
                // However many lanes a value comes to, it was read once.
                Some(from) if problem.is_some() => (from, u64::from(from.count_ones())),
                Some(from) => (from, 0),
            };
            uses.push(Used { pc: *pc, kind: *kind, lanes, count, problem });
        }
        uses
    }
}

fn unite(traces: &mut Traces, more: &[(u32, u32)]) {
    for &(origin, mask) in more {
        if let Some((_, lanes)) = traces.iter_mut().find(|(known, _)| *known == origin) {
            *lanes |= mask;
        } else if traces.len() < MAX_SOURCES {
            traces.push((origin, mask));
        }
    }
}
