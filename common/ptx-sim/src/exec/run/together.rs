//! Instructions that the lanes of a warp execute together: shuffles, votes, matches, reductions, matrix products.

use super::context::{Context, Step};
use super::matrix::{ldmatrix, multiply, stmatrix, wmma_load, wmma_store};
use super::wgmma;
use crate::exec::state::problem::Problem;
use crate::exec::state::rows::{Rows, Shape};
use crate::exec::state::shuffle::source_of;
use crate::exec::watch::monitor::Monitor;
use crate::fault::FaultKind;
use crate::ir::*;
use crate::lanes::{lanes, mask_of};

/// Whether the lanes of `active` must wait for others; if so, the lanes that have to come.
#[inline(always)]
pub(crate) fn missing<M: Monitor>(
    context: &mut Context<'_, '_, M>,
    rows: Rows,
    op: &Together,
    active: u32,
) -> Result<Option<u32>, Box<Problem>> {
    let live = context.warp.live;
    let Some(row) = op.members else {
        return Ok((live & !active != 0).then_some(live));
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
            return Ok(Some(members));
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
    // PTX does not say that a match orders memory. libcu++ lets one lane that it elects so leave a pipeline for all, who have waited
    // at its barriers before.
    if matches!(op, TogetherOp::Sync | TogetherOp::MatchAny { .. } | TogetherOp::MatchAll { .. })
        && let Some(sanitiser) = context.monitor.sanitiser()
    {
        sanitiser.warp_met(context.launch, context.block, context.warp.number, group);
    }
    match op {
        TogetherOp::Sync => {}
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
                ReduxOp::Float { f, mode, abs } => {
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
            let a = rows.get(*a);
            let element = |row: usize, column: usize| a[row * 4 + column / 2] >> (column % 2 * 16) & 0xffff;
            let pair = |lane: usize| {
                let (row, column) = (lane / 4, lane % 4 * 2);
                element(column, row) | element(column + 1, row) << 16
            };
            rows.set(*d, group, std::array::from_fn(pair));
        }
        TogetherOp::WmmaLoad(memory) => wmma_load(context, rows, memory, group)?,
        TogetherOp::WmmaStore(memory) => wmma_store(context, rows, memory, group)?,
        TogetherOp::LdMatrix(moves) => ldmatrix(context, rows, moves, group)?,
        TogetherOp::StMatrix(moves) => stmatrix(context, rows, moves)?,
        TogetherOp::WgmmaFence => wgmma::whole(context, group)?,
        TogetherOp::Wgmma(op) => wgmma::issue(context, rows, op, group)?,
        TogetherOp::WgmmaCommit => wgmma::commit(context, group)?,
        TogetherOp::WgmmaWait { n } => return wgmma::wait(context, *n, group),
    }
    Ok(Step::Done)
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
