//! Undefined values: a read of memory that was never written, a shuffle from a lane that does not take part. A kernel may
//! have them, as long as they decide nothing: compilers copy the padding of structs and the unused bits of bit-fields, read
//! early what a `selp` throws away later, and the upper half of a warp adds up nothing when the lower one does. So they are
//! followed bit by bit, from register to register, through memory ([`UndefinedBits`]), calls, products of matrices and
//! asynchronous copies, and reported where they go into an address, a branch, an atomic, a vote, a `wgmma`, or another
//! operation that takes no such value. What lies in global memory is reported when the host reads it
//! ([`crate::Device::undefined`]).
//!
//! [`UndefinedBits`]: crate::memory::UndefinedBits

mod bits;
mod moves;

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use self::bits::{Lanes, of_result};
pub(crate) use self::moves::{is_load, pieces};
use crate::exec::state::launch::At;
use crate::exec::state::problem::Problem;
use crate::exec::state::scene::Scene;
use crate::exec::state::shuffle::source_of;
use crate::exec::state::warp::Frame;
use crate::fault::{Fault, FaultKind};
use crate::ir::*;
use crate::lanes::{each, lanes, lanes_where, mask_of};
use crate::limits::{Account, Use};
use crate::matrix::transposed;

/// Maximum sources that a register's value is followed from; further ones are forgotten.
const MAX_SOURCES: usize = 8;

/// Maximum sources that a product is followed from: each takes a look at all elements.
const MAX_FACTORS: usize = 16;

/// Maximum instructions of a warp whose values are followed; values of further ones count as defined.
const MAX_ORIGINS: usize = 256;

/// A running warp: its block and its number in it.
pub(crate) type WarpKey = (u64, u32);

/// A register or predicate of a function's frame, which its first row tells from others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Name {
    frame: u32,
    register: Register,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Register {
    Row(R),
    Predicate(P),
    /// The flag of `add.cc` and the like.
    Carry,
}

/// A set that contains each of the registers added to it, and perhaps others.
#[derive(Clone, Copy, Debug, Default)]
struct Sieve([u64; 2]);

impl Sieve {
    fn add(&mut self, register: Register) {
        match register {
            Register::Row(row) => self.0[0] |= 1 << (row % 64),
            Register::Predicate(p) => self.0[1] |= 1 << (p % 63),
            Register::Carry => self.0[1] |= 1 << 63,
        }
    }

    fn meets(self, other: Self) -> bool {
        self.0[0] & other.0[0] | self.0[1] & other.0[1] != 0
    }
}

/// Facts of an instruction, and the registers that it names.
#[derive(Debug)]
struct Known {
    facts: Facts,
    named: Sieve,
}

impl Known {
    fn of(inst: &Inst) -> Self {
        let mut facts = inst.op.facts();
        let mut named = Sieve::default();
        if is_load(&inst.op) {
            facts.writes = moves::rows(&inst.op).collect();
        }
        let rows = facts.reads.iter().chain(&facts.writes).map(|row| Register::Row(*row));
        let predicates = facts.tests.iter().chain(&facts.sets).copied().chain(inst.guard.predicate().map(|(p, _)| p));
        rows.chain(predicates.map(Register::Predicate)).for_each(|register| named.add(register));
        if matches!(inst.op, Op::Carry(_)) {
            named.add(Register::Carry);
        }
        Self { facts, named }
    }
}

/// Lanes whose value is from an instruction: (number of the origin, lanes).
type Traces = Vec<(u32, u32)>;

/// Undefined bits of a register, and where they come from.
#[derive(Clone, Debug, Default)]
struct Value {
    bits: Lanes,
    traces: Traces,
}

impl Value {
    fn lanes(&self) -> u32 {
        self.traces.iter().fold(0, |all, (_, lanes)| all | lanes)
    }
}

/// Origin of undefined values.
#[derive(Clone, Debug)]
pub(crate) enum Source {
    /// The instruction at `pc`, with the problem to report if a value is used.
    Instruction { pc: usize, problem: Arc<Problem> },
    /// A read before the value was stored, in this launch or an earlier one.
    Memory(Arc<Fault>),
}

/// A [`Source`] whose problem is made only if it is the first of its instruction.
#[derive(Clone, Copy)]
pub(crate) enum NewSource<'n> {
    Instruction { pc: usize, kind: FaultKind, problem: &'n dyn Fn() -> Problem },
    Memory(&'n Arc<Fault>),
}

impl NewSource<'_> {
    fn is(self, known: &Source) -> bool {
        match (self, known) {
            (Self::Instruction { pc, kind, .. }, Source::Instruction { pc: known, problem }) => {
                pc == *known && kind == problem.kind
            }
            (Self::Memory(fault), Source::Memory(known)) => Arc::ptr_eq(fault, known),
            _ => false,
        }
    }

    fn make(self) -> Source {
        match self {
            Self::Instruction { pc, problem, .. } => Source::Instruction { pc, problem: Arc::new(problem()) },
            Self::Memory(fault) => Source::Memory(Arc::clone(fault)),
        }
    }
}

impl Source {
    /// The finding for a use of values from there, by the warp that is at `at`.
    fn fault(&self, faults: &mut Faults, at: At<'_>) -> Arc<Fault> {
        match self {
            Self::Memory(fault) => Arc::clone(fault),
            Self::Instruction { pc, problem } => fault_of(faults, At { pc: *pc, ..at }, problem),
        }
    }

    fn is(&self, other: &Self) -> bool {
        match self {
            Self::Instruction { pc, problem } => {
                matches!(other, Self::Instruction { pc: known, problem: other } if pc == known && problem.kind == other.kind)
            }
            Self::Memory(fault) => NewSource::Memory(fault).is(other),
        }
    }
}

/// An instruction that made such values, or a word of memory that held some.
#[derive(Debug)]
struct Origin {
    source: Source,
    /// Whether a value has been reported.
    reported: bool,
    /// Number of such values that each lane got since the last report.
    count: [u32; 32],
    /// Lanes that executed the instruction, if a shuffle moved the values to the lanes of `count`.
    moved_from: Option<u32>,
}

/// A use of undefined values.
pub(crate) struct Used {
    pub source: Source,
    /// Lanes that read the values, and lanes that use them.
    pub lanes: u32,
    pub by: u32,
    pub count: u64,
}

/// The undefined part of what a lane has stored.
pub(crate) struct StoredLane {
    pub lane: usize,
    /// The first of its bytes among those that the access reaches.
    pub from: u64,
    /// Undefined bits of each byte.
    pub bits: Vec<u8>,
    pub source: Arc<Fault>,
    /// Whether nothing of it is defined.
    pub whole: bool,
}

/// The values of a warp.
#[derive(Debug, Default)]
struct WarpValues {
    origins: Vec<Origin>,
    values: HashMap<Name, Box<Value>>,
    /// The registers among `values`, and those removed since it was made.
    named: Sieve,
    removed: usize,
}

/// The values of all warps that run.
#[derive(Debug, Default)]
pub(crate) struct Undefined {
    /// The warp that was looked at last, if it has any.
    current: Option<(WarpKey, Box<WarpValues>)>,
    /// A warp that has none.
    without: Option<WarpKey>,
    others: HashMap<WarpKey, Box<WarpValues>>,
    /// By instruction, once one has been looked at.
    known: Vec<Option<Box<Known>>>,
    faults: Faults,
    /// Registers whose value is followed, and origins of values.
    registers: u64,
    origins: u64,
    /// Bytes of host memory already charged to the launch's account.
    taken: u64,
}

impl Undefined {
    #[inline(always)]
    pub(crate) fn is_empty(&self) -> bool {
        self.current.is_none() && self.others.is_empty()
    }

    /// Makes the warp the current one; false if it has no undefined values.
    fn select(&mut self, warp: WarpKey) -> bool {
        if self.current.as_ref().is_some_and(|(current, _)| *current == warp) {
            return true;
        }
        if self.without == Some(warp) {
            return false;
        }
        let Some(values) = self.others.remove(&warp) else {
            self.without = Some(warp);
            return false;
        };
        if let Some((last, values)) = self.current.replace((warp, values)) {
            self.others.insert(last, values);
        }
        true
    }

    /// Charges all of it to the launch's account. False if there is no room: then the launch ends soon.
    fn has_room(&mut self, account: &Account<'_>) -> bool {
        let origin = size_of::<Origin>() + 256; // with the words of its problem
        let known = self.known.len() * size_of::<usize>();
        let bytes = self.registers * (size_of::<Value>() + 128) as u64 + self.origins * origin as u64 + known as u64;
        account.adjust(Use::Shadow, &mut self.taken, bytes)
    }

    /// Records that the lanes of `mask` get such a value in a row; some of them are counted.
    pub(crate) fn add(
        &mut self,
        account: &Account<'_>,
        (warp, frame, d): (WarpKey, u32, R),
        bits: &Lanes,
        [mask, counted]: [u32; 2],
        source: NewSource<'_>,
    ) {
        if !self.has_room(account) {
            return;
        }
        if !self.select(warp) {
            self.without = None;
            if let Some((last, values)) = self.current.replace((warp, Box::default())) {
                self.others.insert(last, values);
            }
        }
        let Some((_, values)) = &mut self.current else { return };
        let (registers, origins) = (values.values.len() as u64, values.origins.len() as u64);
        values.add(Name { frame, register: Register::Row(d) }, bits, [mask, counted], source);
        self.registers = self.registers - registers + values.values.len() as u64;
        self.origins = self.origins - origins + values.origins.len() as u64;
    }

    /// Changes the values of a warp that has some.
    fn change(&mut self, warp: WarpKey, change: impl FnOnce(&mut WarpValues)) {
        if !self.select(warp) {
            return;
        }
        let Some((_, values)) = &mut self.current else { return };
        let (registers, origins) = (values.values.len() as u64, values.origins.len() as u64);
        change(values);
        self.registers = self.registers - registers + values.values.len() as u64;
        self.origins = self.origins - origins + values.origins.len() as u64;
        if values.values.is_empty() {
            self.origins -= values.origins.len() as u64;
            self.without = Some(warp);
            self.current = None;
        }
    }

    /// Copies a register of one frame to one of another, in the lanes of `mask`: an argument or a result.
    pub(crate) fn copy(&mut self, warp: WarpKey, [from, to]: [(Frame, Place); 2], mask: u32) {
        let name = |(frame, place): (Frame, Place)| match place {
            Place::Row { row, .. } => Some(Name { frame: frame.rows, register: Register::Row(row) }),
            Place::Predicate(p) => Some(Name { frame: frame.rows, register: Register::Predicate(p) }),
            Place::Memory(_) => None,
        };
        let (Some(from), Some(to)) = (name(from), name(to)) else { return };
        self.change(warp, |values| {
            let Some(mut value) = values.values.get(&from).map(|value| Value::clone(value)) else { return };
            keep(&mut value.traces, |_, lanes| lanes & mask);
            if !value.traces.is_empty() {
                values.set(to, (&value.traces, &value.bits), mask);
            }
        });
    }

    /// Called when lanes leave the function of a frame.
    pub(crate) fn returned(&mut self, warp: WarpKey, frame: Frame, mask: u32) {
        self.change(warp, |values| values.leave(mask, |name| name.frame == frame.rows));
    }

    /// Called when a block ends.
    pub(crate) fn forget(&mut self, block: u64) {
        if let Some((warp, values)) = self.current.take() {
            self.others.insert(warp, values);
        }
        let (registers, origins) = (&mut self.registers, &mut self.origins);
        self.others.retain(|(of, _), values| {
            if *of == block {
                *registers -= values.values.len() as u64;
                *origins -= values.origins.len() as u64;
            }
            *of != block
        });
    }

    /// Called when the warp is about to execute an instruction: follows the values, and returns those that it uses.
    pub(crate) fn follow(&mut self, scene: &Scene<'_, '_>) -> Vec<Used> {
        if !self.select((scene.block.number, scene.warp.number)) {
            return Vec::new();
        }
        if self.known.is_empty() {
            self.known.resize_with(scene.launch.program.code.len(), || None);
        }
        let Some((warp, values)) = &mut self.current else { return Vec::new() };
        let warp = *warp;
        let inst = &scene.launch.program.code[scene.pc];
        let known = self.known[scene.pc].get_or_insert_with(|| Box::new(Known::of(inst)));
        if !values.named.meets(known.named) && !matches!(inst.op, Op::Exit) {
            return Vec::new();
        }
        let (registers, origins) = (values.values.len() as u64, values.origins.len() as u64);
        let uses = values.follow(scene, inst, &known.facts);
        self.registers = self.registers - registers + values.values.len() as u64;
        self.origins = self.origins - origins + values.origins.len() as u64;
        if values.values.is_empty() {
            self.origins -= values.origins.len() as u64;
            self.without = Some(warp);
            self.current = None;
        }
        self.has_room(&scene.launch.account);
        uses
    }

    /// Whether a value that the access stores is undefined, of some lane.
    #[inline(always)]
    pub(crate) fn holds(&mut self, warp: WarpKey, frame: u32, access: &Access) -> bool {
        !self.is_empty() && self.holds_any(warp, frame, access)
    }

    #[inline(never)]
    fn holds_any(&mut self, warp: WarpKey, frame: u32, access: &Access) -> bool {
        if !self.select(warp) {
            return false;
        }
        let Some((_, values)) = &self.current else { return false };
        let upper = if access.bytes == 16 { 2 } else { 0 };
        let mut rows = access.rows.iter().take(access.count.into()).flat_map(|row| [*row, row.wrapping_add(upper)]);
        rows.any(|row| values.value(frame, row).is_some())
    }

    /// The undefined part of what lanes of `mask` have just stored: bytes `range` of all that the instruction stores for a lane,
    /// `stored`.
    pub(crate) fn stored(
        &mut self,
        at: At<'_>,
        (warp, frame): (WarpKey, u32),
        range: Range<u64>,
        mask: u32,
        stored: impl Fn(usize) -> [u8; 32],
    ) -> Vec<StoredLane> {
        if !self.select(warp) {
            return Vec::new();
        }
        let Some((_, values)) = &self.current else { return Vec::new() };
        let op = &at.launch.program.code[at.pc].op;
        let held: Vec<(R, &Value)> = moves::rows(op).filter_map(|row| Some((row, values.value(frame, row)?))).collect();
        if held.is_empty() {
            return Vec::new();
        }
        let mut found = Vec::new();
        for lane in lanes(mask) {
            let stored = stored(lane);
            let pieces = pieces(op, lane, range.clone()).map(|piece| {
                let of_lane = |(row, value): &&(R, &Value)| *row == piece.row && value.lanes() >> piece.lane & 1 == 1;
                let value = held.iter().find(of_lane).map(|(_, value)| *value);
                (piece, value)
            });
            let pieces: Vec<_> = pieces.collect();
            // What a lane stores at once may be a struct with padding; the rows of a matrix are from several lanes.
            let size = if matches!(op, Op::Store(_)) { pieces.len() } else { 1 };
            for pieces in pieces.chunks(size.max(1)) {
                let origin = pieces.iter().find_map(|(piece, value)| {
                    let here = |(_, lanes): &&(u32, u32)| lanes >> piece.lane & 1 == 1;
                    value.as_ref()?.traces.iter().find(here)
                });
                let Some((origin, _)) = origin else { continue };
                let source = values.origins[*origin as usize].source.fault(&mut self.faults, at);
                let (mut bits, mut whole) = (Vec::new(), true);
                for (piece, value) in pieces {
                    let undefined = value.map_or(0, |value| value.bits[piece.lane] >> piece.shift).to_le_bytes();
                    let undefined = &undefined[..piece.bytes as usize];
                    let word = |bytes: &[u8]| bytes.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte));
                    let value = &stored[piece.from as usize..][..piece.bytes as usize];
                    whole &= is_whole(word(value), word(undefined));
                    bits.extend_from_slice(undefined);
                }
                found.push(StoredLane { lane, from: pieces[0].0.from, bits, source, whole });
            }
        }
        found
    }

    /// The undefined bits of a register in each lane of `mask` that has some, and the finding for the use of them.
    pub(crate) fn of_row(
        &mut self,
        at: At<'_>,
        (warp, frame): (WarpKey, u32),
        row: R,
        mask: u32,
    ) -> Vec<(usize, u64, Arc<Fault>)> {
        if !self.select(warp) {
            return Vec::new();
        }
        let Some((_, values)) = &self.current else { return Vec::new() };
        let Some(value) = values.value(frame, row) else { return Vec::new() };
        let mut all = Vec::new();
        for (origin, here) in &value.traces {
            for lane in lanes(here & mask) {
                let source = values.origins[*origin as usize].source.fault(&mut self.faults, at);
                all.push((lane, value.bits[lane], source));
            }
        }
        all
    }

    /// The finding for values that the instruction brings straight to memory.
    pub(crate) fn fault_of(&mut self, at: At<'_>, problem: &Problem) -> Arc<Fault> {
        fault_of(&mut self.faults, at, problem)
    }
}

/// Findings for values that were stored, by kind and instruction.
type Faults = HashMap<(FaultKind, usize), Arc<Fault>>;

/// The finding for an instruction whose values are stored; the first one stands for all.
fn fault_of(faults: &mut Faults, at: At<'_>, problem: &Problem) -> Arc<Fault> {
    let fault = || Arc::new(at.launch.fault(problem.clone(), at.pc, at.block, at.warp));
    Arc::clone(faults.entry((problem.kind, at.pc)).or_insert_with(fault))
}

/// Whether a value is undefined throughout, apart from zeros that extend it.
fn is_whole(value: u64, undefined: u64) -> bool {
    let low = undefined.trailing_ones();
    low != 0 && undefined.checked_shr(low).unwrap_or(0) == 0 && value.checked_shr(low).unwrap_or(0) == 0
}

impl WarpValues {
    fn value(&self, frame: u32, row: R) -> Option<&Value> {
        self.values.get(&Name { frame, register: Register::Row(row) }).map(|value| &**value)
    }

    /// The undefined bits of each lane of a register.
    fn bits(&self, name: Name) -> Lanes {
        let Some(value) = self.values.get(&name) else { return [0; 32] };
        let known = value.lanes();
        each(|lane| if known >> lane & 1 == 1 { value.bits[lane] } else { 0 })
    }

    fn add(&mut self, name: Name, bits: &Lanes, [mask, counted]: [u32; 2], source: NewSource<'_>) {
        if self.origins.len() == MAX_ORIGINS {
            self.forget_origins();
        }
        let Some(origin) = self.origin(|known| source.is(known), || source.make(), None) else { return };
        let count = &mut self.origins[origin as usize].count;
        // However often a value is stored and read again, it was brought once.
        let is_copy = matches!(source, NewSource::Memory(_));
        lanes(counted).for_each(|lane| count[lane] = if is_copy { 1 } else { count[lane] + 1 });
        self.named.add(name.register);
        let value = self.values.entry(name).or_default();
        let known = value.lanes();
        for lane in lanes(mask) {
            value.bits[lane] = bits[lane] | if known >> lane & 1 == 1 { value.bits[lane] } else { 0 };
        }
        unite(&mut value.traces, &[(origin, mask)]);
    }

    /// Drops the origins that no value is from any more.
    fn forget_origins(&mut self) {
        let mut is_used = vec![false; self.origins.len()];
        let traces = || self.values.values().flat_map(|value| &value.traces);
        traces().for_each(|(origin, _)| is_used[*origin as usize] = true);
        let number = |kept: &mut u32, used: &bool| {
            *kept += u32::from(*used);
            Some(kept.saturating_sub(1))
        };
        let new: Vec<u32> = is_used.iter().scan(0, number).collect();
        let mut used = is_used.iter();
        self.origins.retain(|_| *used.next().unwrap_or(&false));
        for (origin, _) in self.values.values_mut().flat_map(|value| &mut value.traces) {
            *origin = new[*origin as usize];
        }
    }

    /// The number of the origin of such values, a new one if need be; `None` if there are too many.
    fn origin(
        &mut self,
        is: impl Fn(&Source) -> bool,
        make: impl FnOnce() -> Source,
        moved_from: Option<u32>,
    ) -> Option<u32> {
        let is_moved = moved_from.is_some();
        let same = |origin: &Origin| origin.moved_from.is_some() == is_moved && is(&origin.source);
        let origin = match self.origins.iter().position(same) {
            Some(known) => known,
            None if self.origins.len() < MAX_ORIGINS => {
                self.origins.push(Origin { source: make(), reported: false, count: [0; 32], moved_from });
                self.origins.len() - 1
            }
            None => return None,
        };
        if let Some(from) = &mut self.origins[origin].moved_from {
            *from |= moved_from.unwrap_or_default();
        }
        Some(origin as u32)
    }

    /// Records that a shuffle brings values of an origin to the lanes `to`: lanes that got one of it before keep theirs.
    fn moved(&mut self, origin: u32, from: u32, to: u32) -> Traces {
        let Origin { source, count, moved_from, .. } = &self.origins[origin as usize];
        let stay = lanes_where(to, |lane| count[lane] != 0);
        let (source, from) = (source.clone(), moved_from.unwrap_or(from));
        let mut traces = vec![(origin, stay)];
        if to != stay
            && let Some(moved) = self.origin(|known| source.is(known), || source.clone(), Some(from))
        {
            lanes(to & !stay).for_each(|lane| self.origins[moved as usize].count[lane] = 1);
            unite(&mut traces, &[(moved, to & !stay)]);
        }
        traces
    }

    fn follow(&mut self, scene: &Scene<'_, '_>, inst: &Inst, facts: &Facts) -> Vec<Used> {
        if self.origins.len() == MAX_ORIGINS {
            self.forget_origins();
        }
        let frame = scene.frame_rows;
        let name = |register| Name { frame, register };
        let row = |row: R| name(Register::Row(row));
        let predicate = |predicate: P| name(Register::Predicate(predicate));
        let active = scene.active;
        let mut used = Traces::new();
        let mut result = Traces::new();
        let mut bits = [0; 32];
        // Of a product of matrices, each register has its own.
        let mut spread = Vec::new();
        let of = |name: Name, mask: u32| -> Traces {
            let traces = self.values.get(&name).map_or(&[][..], |value| &value.traces);
            traces.iter().map(|(origin, lanes)| (*origin, lanes & mask)).filter(|(_, lanes)| *lanes != 0).collect()
        };
        if let Some((guard, _)) = inst.guard.predicate() {
            unite(&mut used, &of(predicate(guard), scene.mask));
        }
        match &inst.op {
            Op::Selp32 { a, b, p, negated, .. } | Op::Selp64 { a, b, p, negated, .. } => {
                let chosen = scene.warp.predicate(scene.frame_predicates, *p) ^ if *negated { u32::MAX } else { 0 };
                let doubtful = of(predicate(*p), active);
                let either = doubtful.iter().fold(0, |all, (_, lanes)| all | lanes);
                unite(&mut result, &of(row(*a), active & (chosen | either)));
                unite(&mut result, &of(row(*b), active & (!chosen | either)));
                unite(&mut result, &doubtful);
            }
            Op::Together(together) if let TogetherOp::Shfl { mode, a, b, c, .. } = &together.op => {
                [*b, *c].into_iter().for_each(|from| unite(&mut used, &of(row(from), active)));
                let (offsets, bounds) = (scene.rows.get(*b), scene.rows.get(*c));
                let source = |lane: usize| source_of(*mode, lane, offsets[lane], bounds[lane]).0;
                let moved = self.bits(row(*a));
                lanes(active).for_each(|lane| bits[lane] = moved[source(lane)]);
                for (origin, from) in of(row(*a), u32::MAX) {
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
            Op::Together(together) if let TogetherOp::Mma(op) = &together.op => {
                op.metadata.iter().for_each(|from| unite(&mut used, &of(row(*from), active)));
                let product = |[a, b, c]: &[Vec<Lanes>; 3]| op.mma.undefined(a, b, c);
                spread = self.spread(frame, active, [&op.a, &op.b, &op.c], &op.d, product);
            }
            Op::Together(together) if let TogetherOp::MovMatrix { d, a } = &together.op => {
                let moved = |[a]: &[Vec<Lanes>; 1]| a.iter().map(transposed).collect();
                spread = self.spread(frame, active, [&[*a]], &[*d], moved);
            }
            Op::Together(together) if let TogetherOp::StMatrix(moves) = &together.op => {
                moves.address.row().iter().for_each(|from| unite(&mut used, &of(row(*from), active)));
            }
            Op::Together(together) if let TogetherOp::WmmaStore(memory) = &together.op => {
                let from = memory.address.row().into_iter().chain(memory.stride);
                from.for_each(|from| unite(&mut used, &of(row(from), active)));
            }
            Op::Call(call) if matches!(call.callee, Callee::Function(_) | Callee::Indirect(_)) => {
                if let Callee::Indirect(from) = call.callee {
                    unite(&mut used, &of(row(from), active));
                }
            }
            Op::Store(access) => {
                access.address.row().iter().for_each(|from| unite(&mut used, &of(row(*from), active)));
            }
            op => {
                let to = if facts.computes { &mut result } else { &mut used };
                facts.reads.iter().for_each(|from| unite(to, &of(row(*from), active)));
                facts.tests.iter().for_each(|from| unite(to, &of(predicate(*from), active)));
                if let Op::Carry(carry) = op
                    && carry.carry_in
                {
                    unite(to, &of(name(Register::Carry), active));
                }
            }
        }
        if facts.computes && !result.is_empty() {
            bits = of_result(scene, &inst.op, facts, |register| self.bits(name(register)));
        }
        if matches!(inst.op, Op::Exit) {
            self.leave(active, |_| true);
        }
        let undefined = mask_of(|lane| bits[lane] != 0);
        keep(&mut result, |_, lanes| lanes & undefined);
        // Whether a shuffle's source is in range does not depend on the value there.
        let no_result = Traces::new();
        let of_predicates = if facts.computes { &result } else { &no_result };
        let carry = matches!(&inst.op, Op::Carry(carry) if carry.carry_out).then_some(name(Register::Carry));
        let written = facts.writes.iter().map(|d| match spread.iter().find(|(row, ..)| row == d) {
            Some((_, result, bits)) => (row(*d), result, bits),
            None => (row(*d), &result, &bits),
        });
        let set = facts.sets.iter().map(|d| predicate(*d)).chain(carry).map(|name| (name, of_predicates, &bits));
        for (name, result, bits) in written.chain(set) {
            if !result.is_empty() {
                self.set(name, (result, bits), active);
            } else if let Some(value) = self.values.get_mut(&name) {
                keep(&mut value.traces, |_, lanes| lanes & !active);
                if value.traces.is_empty() {
                    self.values.remove(&name);
                    self.removed += 1;
                }
            }
        }
        let uses = self.used(&used);
        if !uses.is_empty() {
            self.drop_reported();
        }
        if self.removed > self.values.len() {
            self.removed = 0;
            self.named = Sieve::default();
            self.values.keys().for_each(|name| self.named.add(name.register));
        }
        uses
    }

    /// Sets a register in the lanes of `mask`, some of which are undefined.
    fn set(&mut self, name: Name, (traces, bits): (&Traces, &Lanes), mask: u32) {
        let value = self.values.entry(name).or_default();
        keep(&mut value.traces, |_, lanes| lanes & !mask);
        let undefined = traces.iter().fold(0, |all, (_, lanes)| all | lanes);
        lanes(undefined).for_each(|lane| value.bits[lane] = bits[lane]);
        unite(&mut value.traces, traces);
        self.named.add(name.register);
    }

    /// Follows values of registers to those of other lanes: `bits_of` has the undefined bits of the registers `d`, from those
    /// of the operands. Each origin is followed by itself, so that a report names none that a value is not from. Returns the
    /// traces and bits of each.
    fn spread<const N: usize>(
        &mut self,
        frame: u32,
        active: u32,
        operands: [&[R]; N],
        d: &[R],
        bits_of: impl Fn(&[Vec<Lanes>; N]) -> Vec<Lanes>,
    ) -> Vec<(R, Traces, Lanes)> {
        let mut all: Vec<(R, Traces, Lanes)> = d.iter().map(|d| (*d, Traces::new(), [0; 32])).collect();
        let mut origins: Vec<u32> = Vec::new();
        let values = operands.iter().copied().flatten().filter_map(|row| self.value(frame, *row));
        values.flat_map(|value| &value.traces).for_each(|(origin, _)| {
            if !origins.contains(origin) && origins.len() < MAX_FACTORS {
                origins.push(*origin);
            }
        });
        for origin in origins {
            let mut from = 0;
            let mut of_row = |row: &R| {
                let Some(value) = self.value(frame, *row) else { return [0; 32] };
                let traces = value.traces.iter().filter(|(of, _)| *of == origin);
                let here = traces.fold(0, |all, (_, lanes)| all | lanes) & active;
                from |= here;
                each(|lane| if here >> lane & 1 == 1 { value.bits[lane] } else { 0 })
            };
            let found = bits_of(&operands.map(|rows| rows.iter().map(&mut of_row).collect()));
            let to = active & mask_of(|lane| found.iter().any(|bits| bits[lane] != 0));
            let traces = self.moved(origin, from, to);
            for ((_, into, bits), found) in all.iter_mut().zip(found) {
                let here = |(origin, lanes): &(u32, u32)| (*origin, lanes & mask_of(|lane| found[lane] != 0));
                let traces: Traces = traces.iter().map(here).filter(|(_, lanes)| *lanes != 0).collect();
                unite(into, &traces);
                *bits = each(|lane| bits[lane] | found[lane]);
            }
        }
        all
    }

    /// Forgets the lanes of `mask` of registers.
    fn leave(&mut self, mask: u32, is_left: impl Fn(&Name) -> bool) {
        let left = self.values.iter_mut().filter(|(name, _)| is_left(name));
        left.for_each(|(_, value)| keep(&mut value.traces, |_, lanes| lanes & !mask));
        self.drop_reported();
    }

    /// Drops lanes whose values have been reported, and registers that have no undefined lanes.
    fn drop_reported(&mut self) {
        let origins = &self.origins;
        let before = self.values.len();
        self.values.retain(|_, value| {
            keep(&mut value.traces, |origin, lanes| {
                let count = &origins[origin as usize].count;
                lanes & mask_of(|lane| count[lane] != 0)
            });
            !value.traces.is_empty()
        });
        self.removed += before - self.values.len();
    }

    /// Returns the reports for values that are used.
    fn used(&mut self, used: &[(u32, u32)]) -> Vec<Used> {
        let mut uses = Vec::new();
        for &(origin, mask) in used {
            let Origin { source, reported, count, moved_from } = &mut self.origins[origin as usize];
            let mask = lanes_where(mask, |lane| count[lane] != 0);
            if mask == 0 {
                continue;
            }
            let total = lanes(mask).map(|lane| u64::from(std::mem::take(&mut count[lane]))).sum();
            let (lanes, count) = match *moved_from {
                None => (mask, total),
                // However many lanes a value comes to, it was read once.
                Some(from) if !*reported => (from, u64::from(from.count_ones())),
                Some(from) => (from, 0),
            };
            *reported = true;
            uses.push(Used { source: source.clone(), lanes, by: mask, count });
        }
        uses
    }
}

/// Replaces the lanes of each trace, and drops those without any.
fn keep(traces: &mut Traces, lanes_of: impl Fn(u32, u32) -> u32) {
    traces.iter_mut().for_each(|(origin, lanes)| *lanes = lanes_of(*origin, *lanes));
    traces.retain(|(_, lanes)| *lanes != 0);
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
