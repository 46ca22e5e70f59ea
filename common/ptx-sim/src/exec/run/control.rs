//! Control flow: lanes diverge and reconverge, enter functions, and come to barriers.

use super::context::{Context, Fail, Step};
use super::malloc::{free, malloc};
use super::printf;
use super::stack::check_stack;
use super::together::{self, Meeting};
use super::wgmma;
use crate::exec::state::block::Block;
use crate::exec::state::launch::Launch;
use crate::exec::state::problem::Problem;
use crate::exec::state::rows::Rows;
use crate::exec::state::scene::Scene;
use crate::exec::state::warp::{NONE, Split, State, Warp};
use crate::exec::watch::monitor::Monitor;
use crate::fault::FaultKind;
use crate::ir::*;
use crate::lanes::mask_of;

/// The join at which the lanes of `split` reconverge after a divergent branch.
pub(crate) fn part(warp: &mut Warp, split: &Split, join: u32) -> u32 {
    if join == NONE || warp.meets(split.join, join, split.callers.len()) {
        split.join // a loop: those that left in an earlier round already wait there
    } else {
        warp.new_join(split, join)
    }
}

/// Lanes that a guard switches off go on while the others wait.
pub(crate) fn leave_behind(warp: &mut Warp, split: &Split, pc: usize, mask: u32, active: u32) {
    if mask != active {
        warp.splits.push(Split { pc: pc as u32 + 1, mask: mask & !active, ..split.clone() });
    }
}

/// `call`: a built-in function is done at once; otherwise `split` enters the function. Returns the cost beyond one
/// instruction.
#[inline(never)]
pub(crate) fn enter<M: Monitor>(
    context: &mut Context<'_, '_, M>,
    rows: Rows,
    split: &mut Split,
    call: &Call,
) -> Result<u32, Box<Problem>> {
    let before = context.block.charged;
    match call.callee {
        Callee::Vprintf => {
            printf::vprintf(context, call, split.mask)?;
            split.pc += 1;
        }
        Callee::Malloc => {
            malloc(context, call, split.mask)?;
            split.pc += 1;
        }
        Callee::Free => {
            free(context, call, split.mask)?;
            split.pc += 1;
        }
        Callee::AssertFail => return Err(printf::assertion(context, call, split.mask)),
        Callee::Function(function) => {
            context.block.charged += context.warp.call(context.launch, split, function, call)?;
            pass_arguments(context, split, call);
            check_stack(context, split)?;
        }
        Callee::Indirect(row) => {
            let first = split.mask.trailing_zeros() as usize;
            let address = rows.lane_of(row, true, first);
            let same = mask_of(|lane| rows.lane_of(row, true, lane) == address) & split.mask;
            let functions = &context.launch.program.functions;
            let index = address.wrapping_sub(FUNCTION_WINDOW);
            let callable =
                |at: u64| functions.get(at as usize).is_some_and(|function| function.defined && !function.kernel);
            if !index.is_multiple_of(FUNCTION_BYTES) || !callable(index / FUNCTION_BYTES) {
                let message = format!("{address:#x} is not the address of a function");
                return Err(Problem::new(FaultKind::InvalidCall, same, message).at(address));
            }
            // Lanes that call something else come back to this instruction.
            if same != split.mask {
                let rest = Split { mask: split.mask & !same, ..split.clone() };
                context.warp.splits.push(rest);
                split.mask = same;
            }
            context.block.charged += context.warp.call(context.launch, split, (index / FUNCTION_BYTES) as u32, call)?;
            pass_arguments(context, split, call);
            check_stack(context, split)?;
        }
    }
    Ok((context.block.charged - before).try_into().unwrap_or(u32::MAX))
}

/// Tells a sanitiser of the arguments of the function that `split` has entered.
fn pass_arguments<M: Monitor>(context: &mut Context<'_, '_, M>, split: &Split, call: &Call) {
    let (at, block) = (context.at(), context.block.number);
    let (Some(sanitiser), Some(caller)) = (context.monitor.sanitiser(), split.callers.last()) else { return };
    let callee = &context.launch.program.functions[split.frame.function as usize];
    for (from, to) in call.args.iter().zip(&callee.params) {
        sanitiser.passed(at, block, context.warp, [(*caller, *from), (split.frame, *to)], split.mask);
    }
}

/// Leaves the function that `split` is in.
#[inline(never)]
pub(crate) fn leave<M: Monitor>(context: &mut Context<'_, '_, M>, split: &mut Split) {
    let (at, block) = (context.at(), context.block.number);
    let left = split.frame;
    context.warp.ret(context.launch, split);
    let Some(sanitiser) = context.monitor.sanitiser() else { return };
    let program = context.launch.program;
    if let Op::Call(call) = &program.code[left.back as usize - 1].op {
        let returns = &program.functions[left.function as usize].returns;
        for (from, to) in returns.iter().zip(&call.results) {
            sanitiser.passed(at, block, context.warp, [(left, *from), (split.frame, *to)], split.mask);
        }
    }
    sanitiser.undefined.returned((block, at.warp), left, split.mask);
}

/// Lanes come to a barrier of the block.
#[inline(never)]
pub(crate) fn arrive<M: Monitor>(
    context: &mut Context<'_, '_, M>,
    rows: Rows,
    barrier: &Barrier,
    mask: u32,
) -> Result<(), Box<Problem>> {
    let first = mask.trailing_zeros() as usize;
    let id = rows.lane(barrier.id, first);
    let count = barrier.count.map_or(0, |row| rows.lane(row, first));
    let fail = |message: String| Err(Problem::new(FaultKind::InvalidBarrier, mask, message));
    if id >= NUMBERED_BARRIERS {
        return fail(format!("barrier {id} does not exist"));
    }
    if barrier.count.is_some() && (count == 0 || !count.is_multiple_of(32)) {
        return fail(format!("barrier {id} is to wait for {count} threads, which is not a multiple of 32"));
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
    // A warp counts as a whole, with the lanes that have exited (PTX ISA, "barrier": the count is incremented by the warp
    // size). Without a count the lanes that are left are expected.
    let whole = barrier.aligned && count != 0 && mask == context.warp.live;
    state.arrived += if whole { u32::BITS } else { mask.count_ones() };
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

/// Lanes arrive at the barrier of the block's cluster, and do not wait.
#[inline(never)]
pub(crate) fn cluster_arrive<M: Monitor>(
    context: &mut Context<'_, '_, M>,
    releases: bool,
    mask: u32,
) -> Result<(), Box<Problem>> {
    let again = context.warp.cluster.owing & mask;
    if again != 0 {
        let message = "a second arrival at the cluster's barrier before a wait for the first".to_owned();
        context.report(Problem::new(FaultKind::InvalidBarrier, again, message))?;
    }
    let mask = mask & !again;
    context.warp.cluster.owing |= mask;
    context.warp.cluster.arrived |= mask;
    context.block.cluster_touched = true;
    if let Some(sanitiser) = context.monitor.sanitiser() {
        sanitiser.cluster_arrived(context.launch, context.block, context.warp.number, mask, releases);
    }
    Ok(())
}

/// Lanes wait at the barrier of the block's cluster: returns those for which it is not yet complete.
#[inline(never)]
pub(crate) fn cluster_wait<M: Monitor>(context: &mut Context<'_, '_, M>, mask: u32) -> Result<u32, Box<Problem>> {
    let never = mask & !context.warp.cluster.owing;
    if never != 0 {
        let message = "a wait at the cluster's barrier without an arrival before it".to_owned();
        context.report(Problem::new(FaultKind::InvalidBarrier, never, message))?;
    }
    context.warp.cluster.owing &= !mask;
    let pending = context.warp.cluster.arrived & mask;
    if let Some(sanitiser) = context.monitor.sanitiser() {
        sanitiser.cluster_waited(context.launch, context.block, context.warp.number, mask & !pending);
    }
    Ok(pending)
}

/// Lets splits that wait for each other at a warp-level instruction go on, if all the lanes it names have come.
pub(crate) fn meet<M: Monitor>(
    warp: &mut Warp,
    block: &mut Block,
    launch: &Launch<'_>,
    monitor: &mut M,
) -> Result<bool, Fail> {
    if block.pool.resume(warp, launch) || wgmma::resume(warp, block, launch, monitor)? {
        return Ok(true);
    }
    for first in 0..warp.splits.len() {
        let State::Together { members } = warp.splits[first].state else { continue };
        let Split { pc, frame, .. } = warp.splits[first];
        let op_of = |split: &Split| match &launch.program.code[split.pc as usize].op {
            Op::Together(op) => Some(op),
            _ => None,
        };
        let Some(op) = op_of(&warp.splits[first]) else { continue };
        let is_here = |split: &Split| split.pc == pc && split.frame.rows == frame.rows;
        let is_with = |split: &Split| {
            let alike = || op_of(split).is_some_and(|other| together::meet_apart(&op.op, &other.op));
            split.state == State::Together { members } && (is_here(split) || alike())
        };
        let union = warp.splits.iter().filter(|split| is_with(split)).fold(0, |union, split| union | split.mask);
        if members & warp.live & !union != 0 {
            continue;
        }
        let mut places: Vec<Meeting<'_>> = Vec::new();
        for split in warp.splits.iter().filter(|split| is_with(split)) {
            let Split { mask: lanes, frame, .. } = *split;
            let pc = split.pc as usize;
            let Some(op) = op_of(split).map(|together| &together.op) else { continue };
            match places.iter_mut().find(|place| place.pc == pc && place.frame.rows == frame.rows) {
                Some(place) => place.lanes |= lanes,
                None => places.push(Meeting { pc, op, frame, lanes }),
            }
        }
        let pc = pc as usize;
        if let Some(sanitiser) = monitor.sanitiser() {
            sanitiser.enters(block, warp, &warp.splits[first]);
        }
        let mut context = Context { warp, block, launch, frame, monitor, pc };
        let step = match &*places {
            [_] => together::execute(&mut context, op, union),
            _ => together::execute_apart(&mut context, &op.op, &places, members).map(|()| Step::Done),
        };
        warp.passed &= !union;
        let failed = |mut problem: Box<Problem>| {
            problem.calls = warp.calls_at(pc, problem.lanes);
            (problem, pc)
        };
        let step = step.map_err(failed)?;
        let mut put_all = |state: State| {
            warp.splits.iter_mut().filter(|split| is_with(split)).for_each(|split| split.state = state);
        };
        match step {
            Step::Done => {}
            Step::WaitForWarps => {
                put_all(State::Warpgroup);
                continue;
            }
            Step::Again => {
                put_all(State::Ready);
                return Ok(false);
            }
        }
        if !matches!(op.op, TogetherOp::Sync) {
            for Meeting { pc, frame, lanes, .. } in places {
                monitor.after(&Scene::together(launch, block, warp, frame, pc, lanes));
            }
        }
        for split in warp.splits.iter_mut().filter(|split| is_with(split)) {
            split.pc += 1;
            split.state = State::Ready;
        }
        return Ok(true);
    }
    Ok(false)
}
