//! Instructions that the lanes of a warp execute together: shuffles, votes, matches, reductions, matrix products.

use super::columns;
use super::context::{Context, Step};
use super::matrix::{ldmatrix, multiply, stmatrix, wmma_load, wmma_store};
use super::tcgen05;
use super::wgmma;
use crate::exec::state::problem::Problem;
use crate::exec::state::rows::{Rows, Shape};
use crate::exec::state::shuffle::source_of;
use crate::exec::state::warp::Frame;
use crate::exec::watch::monitor::Monitor;
use crate::fault::FaultKind;
use crate::ir::*;
use crate::lanes::{lanes, mask_of};
use crate::matrix::transposed;

/// Lanes that have to come before others of them go on.
pub(crate) struct Wanted {
    /// The lanes that wait: all of those that came with the same mask.
    pub lanes: u32,
    pub members: u32,
}

/// Whether lanes of `active` must wait for others: the first that do.
#[inline(always)]
pub(crate) fn missing<M: Monitor>(
    context: &mut Context<'_, '_, M>,
    rows: Rows,
    op: &Together,
    active: u32,
) -> Result<Option<Wanted>, Box<Problem>> {
    let live = context.warp.live;
    let Some(row) = op.members else {
        // All lanes that are left when the last has come: some may exit until then.
        return Ok((live & !active != 0).then_some(Wanted { lanes: active, members: u32::MAX }));
    };
    let mut rest = active;
    while rest != 0 {
        let members = rows.lane(row, rest.trailing_zeros() as usize);
        let group = alike(rows, row, members) & rest;
        let outside = group & !members;
        if outside != 0 {
            context.report(outsider(outside, members))?;
        }
        if members & live & !active != 0 {
            return Ok(Some(Wanted { lanes: group, members }));
        }
        if members & active & !group != 0 && context.monitor.sanitiser().is_some() {
            context.report(other_mask(group, members & active & !group, members))?;
        }
        rest &= !group;
    }
    Ok(None)
}

/// Lanes with that member mask.
#[inline(always)]
fn alike(rows: Rows, row: R, members: u32) -> u32 {
    if rows.shape(row, false) == Shape::Same {
        return if rows.lane(row, 0) == members { u32::MAX } else { 0 };
    }
    let masks = rows.get(row);
    mask_of(|lane| masks[lane] == members)
}

#[cold]
fn outsider(lanes: u32, members: u32) -> Box<Problem> {
    let lane = lanes.trailing_zeros();
    let message = format!("lane {lane} executes a warp-level instruction whose mask {members:#010x} does not name it");
    Problem::new(FaultKind::InvalidMask, lanes, message)
}

#[cold]
fn other_mask(lanes: u32, named: u32, members: u32) -> Box<Problem> {
    let message = format!(
        "lane {} executes a warp-level instruction with the mask {members:#010x}, which names lane {}, and that lane has another mask",
        lanes.trailing_zeros(),
        named.trailing_zeros()
    );
    Problem::new(FaultKind::InvalidMask, lanes, message)
}

/// Whether lanes that come to these two instructions with the same mask exchange values as at one place (PTX ISA,
/// "shfl.sync": "with the same qualifiers"). An instruction with `.aligned` has to be the same one for all.
pub(crate) fn meet_apart(one: &TogetherOp, other: &TogetherOp) -> bool {
    use TogetherOp::*;
    match (one, other) {
        (Sync, Sync) | (Elect { .. }, Elect { .. }) => true,
        (Shfl { mode: one, .. }, Shfl { mode: other, .. }) => one == other,
        (Vote { mode: one, .. }, Vote { mode: other, .. }) => one == other,
        (MatchAny { wide: one, .. }, MatchAny { wide: other, .. })
        | (MatchAll { wide: one, .. }, MatchAll { wide: other, .. }) => one == other,
        (Redux { op: one, .. }, Redux { op: other, .. }) => one.is_same(*other),
        _ => false,
    }
}

/// Operands of an exchange, in one order for all instructions that [meet apart](meet_apart).
#[derive(Default)]
struct Operands {
    reads: [Option<R>; 3],
    /// A predicate that it reads, and whether negated.
    test: Option<(P, bool)>,
    d: Option<R>,
    sets: Option<P>,
}

/// Rows and predicates that [`Operands::common`] uses.
const COMMON: [usize; 2] = [4, 2];

impl Operands {
    fn of(op: &TogetherOp) -> Self {
        let none = Self::default();
        match *op {
            TogetherOp::Shfl { d, valid, a, b, c, .. } => {
                Self { reads: [Some(a), Some(b), Some(c)], d: Some(d), sets: valid, ..none }
            }
            TogetherOp::Vote { d, a, negated, .. } => Self { test: Some((a, negated)), d: Some(d), ..none },
            TogetherOp::MatchAny { d, a, wide } => {
                Self { reads: [Some(a), wide.then_some(a + 1), None], d: Some(d), ..none }
            }
            TogetherOp::MatchAll { d, all, a, wide } => {
                Self { reads: [Some(a), wide.then_some(a + 1), None], d: Some(d), sets: all, ..none }
            }
            TogetherOp::Redux { d, a, .. } => Self { reads: [Some(a), None, None], d: Some(d), ..none },
            TogetherOp::Elect { d, elected } => Self { d, sets: Some(elected), ..none },
            _ => none,
        }
    }

    /// The same exchange among rows and predicates that stand in for those of all its places: it reads rows 0 to 2 and
    /// predicate 0, and writes row 3 and predicate 1.
    fn common(op: &TogetherOp) -> TogetherOp {
        let (d, a, sets) = (3, 0, Some(1));
        match *op {
            TogetherOp::Shfl { mode, .. } => TogetherOp::Shfl { mode, d, valid: sets, a, b: 1, c: 2 },
            TogetherOp::Vote { mode, .. } => TogetherOp::Vote { mode, d, a: 0, negated: false },
            TogetherOp::MatchAny { wide, .. } => TogetherOp::MatchAny { d, a, wide },
            TogetherOp::MatchAll { wide, .. } => TogetherOp::MatchAll { d, all: sets, a, wide },
            TogetherOp::Redux { op, .. } => TogetherOp::Redux { op, d, a },
            TogetherOp::Elect { .. } => TogetherOp::Elect { d: Some(d), elected: 1 },
            _ => TogetherOp::Sync,
        }
    }
}

/// A place where lanes have come to an exchange.
#[derive(Clone, Copy)]
pub(crate) struct Meeting<'l> {
    pub pc: usize,
    pub op: &'l TogetherOp,
    pub frame: Frame,
    pub lanes: u32,
}

/// Executes an exchange for lanes that have come to several places with the same mask, as if at one of them.
#[cold]
pub(crate) fn execute_apart<M: Monitor>(
    context: &mut Context<'_, '_, M>,
    op: &TogetherOp,
    places: &[Meeting<'_>],
    members: u32,
) -> Result<(), Box<Problem>> {
    let (rows, predicates) = context.warp.lend(COMMON);
    // No function has a frame there: what a sanitiser notes of its registers concerns no other.
    context.frame = Frame { rows, predicates, local: u32::MAX, ..context.frame };
    let common = context.rows();
    let mut all = 0;
    for Meeting { op, frame, lanes, .. } in places {
        all |= lanes;
        let (theirs, operands) = (context.warp.frame_rows(*frame), Operands::of(op));
        for (to, from) in (0..).zip(operands.reads.into_iter().flatten()) {
            common.set(to, *lanes, theirs.get(from));
        }
        if let Some((p, negated)) = operands.test {
            let bits = context.warp.predicate(frame.predicates, p) ^ if negated { u32::MAX } else { 0 };
            let to = context.predicate(0);
            *to = *to & !lanes | bits & lanes;
        }
    }
    let done = execute_group(context, common, &Operands::common(op), all, members);
    let (result, set) = (common.get(3), *context.predicate(1));
    for Meeting { op, frame, lanes, .. } in places {
        let operands = Operands::of(op);
        if let Some(d) = operands.d {
            context.warp.frame_rows(*frame).set(d, *lanes, result);
        }
        if let Some(p) = operands.sets {
            let bits = &mut context.warp.predicates[(frame.predicates + p) as usize];
            *bits = *bits & !lanes | set & lanes;
        }
    }
    context.warp.take_back(rows, predicates);
    done.map(|_| ())
}

/// Executes `op` for the lanes of `active`, all of whose partners have come. Lanes with different member masks form
/// groups of their own.
#[inline(always)]
pub(crate) fn execute<M: Monitor>(
    context: &mut Context<'_, '_, M>,
    op: &Together,
    active: u32,
) -> Result<Step, Box<Problem>> {
    let rows = context.rows();
    let Some(row) = op.members else { return execute_group(context, rows, &op.op, active, active) };
    let mut rest = active;
    while rest != 0 {
        let members = rows.lane(row, rest.trailing_zeros() as usize);
        let group = alike(rows, row, members) & rest;
        execute_group(context, rows, &op.op, group, members)?;
        rest &= !group;
    }
    Ok(Step::Done)
}

#[inline(never)]
fn execute_group<M: Monitor>(
    context: &mut Context<'_, '_, M>,
    rows: Rows,
    op: &TogetherOp,
    group: u32,
    members: u32,
) -> Result<Step, Box<Problem>> {
    if context.monitor.sanitiser().is_some() {
        check_left(context, op, group, members)?;
    }
    match op {
        TogetherOp::Sync => {
            if let Some(sanitiser) = context.monitor.sanitiser() {
                sanitiser.warp_met(context.launch, context.block, context.warp.number, group);
            }
        }
        TogetherOp::Shfl { mode, d, valid, a, b, c } => {
            let sanitised = context.monitor.sanitiser().is_some();
            let [absent, outside] = if sanitised { [members & !group, !(members | group)] } else { [0; 2] };
            let (found, [strays, outsiders]) = shuffle(rows, *mode, [*d, *a, *b, *c], group, [absent, outside]);
            if strays != 0 {
                context.report(reads_absent(strays, absent, members))?;
            }
            if outsiders != 0 {
                let (at, frame) = (context.at(), context.frame.rows);
                if let Some(sanitiser) = context.monitor.sanitiser() {
                    let problem = reads_outside(outsiders, members);
                    sanitiser.read_from_outside(at, context.block, frame, *d, outsiders, problem);
                }
            }
            if let Some(valid) = valid {
                let bits = context.predicate(*valid);
                *bits = *bits & !group | found & group;
            }
        }
        TogetherOp::Vote { mode, d, a, negated } => {
            let bits = *context.predicate(*a);
            let votes = (if *negated { !bits } else { bits }) & group;
            let result = match mode {
                VoteMode::All => u32::from(votes == group),
                VoteMode::Any => u32::from(votes != 0),
                VoteMode::Uni => u32::from(votes == group || votes == 0),
                VoteMode::Ballot => votes,
            };
            rows.set(*d, group, [result; 32]);
        }
        TogetherOp::MatchAny { d, a, wide } => {
            let values: [u64; 32] = std::array::from_fn(|lane| rows.lane_of(*a, *wide, lane));
            let same = |lane: usize| mask_of(|other| values[other] == values[lane]) & group;
            rows.set(*d, group, std::array::from_fn(same));
        }
        TogetherOp::MatchAll { d, all, a, wide } => {
            let first = rows.lane_of(*a, *wide, group.trailing_zeros() as usize);
            let same = mask_of(|lane| rows.lane_of(*a, *wide, lane) == first) & group == group;
            rows.set(*d, group, [if same { group } else { 0 }; 32]);
            if let Some(all) = all {
                let bits = context.predicate(*all);
                *bits = *bits & !group | if same { group } else { 0 };
            }
        }
        TogetherOp::Redux { op, d, a } => {
            let values = lanes(group).map(|lane| rows.lane(*a, lane));
            let signed = |f: fn(i32, i32) -> i32| move |x: u32, y: u32| f(x as i32, y as i32) as u32;
            let result = match op {
                ReduxOp::Add => values.reduce(u32::wrapping_add),
                ReduxOp::Float { f, mode, abs, .. } => {
                    let magnitude = |value: u32| if *abs { value & 0x7fff_ffff } else { value };
                    // a single lane's NaN is canonical too
                    let combine = |x: u32, y: u32| f(*mode, x.into(), y.into(), 0) as u32;
                    let all = values.map(magnitude).reduce(combine);
                    all.map(|value| combine(value, value))
                }
                ReduxOp::MinU => values.reduce(u32::min),
                ReduxOp::MaxU => values.reduce(u32::max),
                ReduxOp::MinS => values.reduce(signed(i32::min)),
                ReduxOp::MaxS => values.reduce(signed(i32::max)),
                ReduxOp::And => values.reduce(|x, y| x & y),
                ReduxOp::Or => values.reduce(|x, y| x | y),
                ReduxOp::Xor => values.reduce(|x, y| x ^ y),
            };
            rows.set(*d, group, [result.unwrap_or(0); 32]);
        }
        TogetherOp::Elect { d, elected } => {
            let leader = group.trailing_zeros();
            if let Some(d) = d {
                rows.set(*d, group, [leader; 32]);
            }
            let bits = context.predicate(*elected);
            *bits = *bits & !group | 1 << leader;
        }
        TogetherOp::Mma(op) => multiply(rows, op, group)?,
        TogetherOp::MovMatrix { d, a } => {
            rows.set(*d, group, transposed(&rows.get(*a).map(u64::from)).map(|pair| pair as u32));
        }
        TogetherOp::WmmaLoad(memory) => wmma_load(context, rows, memory, group)?,
        TogetherOp::WmmaStore(memory) => wmma_store(context, rows, memory, group)?,
        TogetherOp::LdMatrix(moves) => ldmatrix(context, rows, moves, group)?,
        TogetherOp::StMatrix(moves) => stmatrix(context, rows, moves)?,
        TogetherOp::WgmmaFence => wgmma::whole(context, group)?,
        TogetherOp::Wgmma(op) => wgmma::issue(context, rows, op, group)?,
        TogetherOp::WgmmaCommit => wgmma::commit(context, group)?,
        TogetherOp::TmemAlloc(alloc) => return columns::allocate(context, rows, alloc, group),
        TogetherOp::TmemFree { address, columns, .. } => columns::free(context, rows, [*address, *columns], group)?,
        TogetherOp::TmemRelinquish { .. } => columns::relinquish(context, group)?,
        TogetherOp::TmemLoad(access) => tcgen05::load(context, rows, access, group)?,
        TogetherOp::TmemStore(access) => tcgen05::store(context, rows, access, group)?,
        TogetherOp::TmemWait { .. } => columns::whole(group)?,
        TogetherOp::WgmmaWait { n } => return wgmma::wait(context, *n, group),
    }
    Ok(Step::Done)
}

/// Reports lanes that an instruction names and that are not there, where that decides its result. A vote and a match are
/// of the lanes that are left; a shuffle is wrong only if it reads from one that is not.
fn check_left<M: Monitor>(
    context: &mut Context<'_, '_, M>,
    op: &TogetherOp,
    group: u32,
    members: u32,
) -> Result<(), Box<Problem>> {
    use TogetherOp::*;
    let passed = members & context.warp.passed & !group;
    if passed != 0 {
        let message = format!(
            "the mask {members:#010x} of a warp-level instruction names lanes {passed:#010x}, which have gone past it and exited"
        );
        let note = "they never execute it, and what the others wait for is their exit";
        return context.report(Problem::new(FaultKind::InvalidMask, group, message).note(note));
    }
    let (absent, subject) = match op {
        Redux { .. } => (members & !group, format!("the mask {members:#010x} of a `redux.sync` names lanes")),
        Mma(_) | MovMatrix { .. } | WmmaLoad(_) | WmmaStore(_) | LdMatrix(_) | StMatrix(_) => {
            (!group, "an instruction that all 32 lanes of a warp execute together (`.aligned`) lacks lanes".to_owned())
        }
        _ => return Ok(()),
    };
    if absent == 0 {
        return Ok(());
    }
    let message = format!("{subject} {absent:#010x}, which have exited or never were");
    let note = "its result is undefined in all lanes: let every lane come, with a neutral value where it has none";
    context.report(Problem::new(FaultKind::InvalidMask, group, message).note(note))
}

#[cold]
fn reads_absent(strays: u32, absent: u32, members: u32) -> Box<Problem> {
    let message = format!("a shuffle reads from lanes that its mask {members:#010x} names but that are not there");
    let note = format!("lanes {absent:#010x} have exited, or the block has no such threads: what is read is undefined");
    Problem::new(FaultKind::InvalidMask, strays, message).note(note)
}

#[cold]
fn reads_outside(strays: u32, members: u32) -> Box<Problem> {
    let message =
        format!("a value is used that a shuffle read from a lane which its mask {members:#010x} does not name");
    let note = "what such a lane gives is undefined, even if it executes a shuffle too";
    Problem::new(FaultKind::InvalidMask, strays, message).note(note)
}

/// `shfl.sync`: returns the lanes whose source was in range, and for each of the masks the lanes whose source is in it.
#[inline(always)]
fn shuffle(rows: Rows, mode: ShflMode, [d, a, b, c]: [R; 4], group: u32, masks: [u32; 2]) -> (u32, [u32; 2]) {
    let (values, b, c) = (rows.get(a), rows.get(b), rows.get(c));
    let mut valid = 0;
    let mut strays = [0; 2];
    let mut result = [0; 32];
    for lane in 0..32 {
        let (source, inside) = source_of(mode, lane, b[lane], c[lane]);
        valid |= u32::from(inside) << lane;
        for (strays, mask) in strays.iter_mut().zip(masks) {
            *strays |= (mask >> source & 1) << lane;
        }
        result[lane] = values[source];
    }
    rows.set(d, group, result);
    (valid, strays.map(|strays| strays & group))
}
