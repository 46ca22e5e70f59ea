//! Turn of a warp: its splits run one after the other until it is over, or all wait.

use super::async_copy::pass_time;
use super::context::{Fail, Stop};
use super::control::meet;
use super::interpret::interpret_here;
use super::wgmma;
use crate::exec::state::block::Block;
use crate::exec::state::launch::Launch;
use crate::exec::state::warp::{State, Warp};
use crate::exec::watch::monitor::Monitor;
use crate::fault::Fault;

/// Warp instructions after which a warp lets the next one run.
const WARP_QUANTUM: u32 = 1 << 11;

/// Number of warp instructions after which diverged lanes let the others run: one side may be spinning until the other
/// gives up a lock.
const SPLIT_QUANTUM: u32 = 1 << 7;

/// Runs the warp until its turn is over or all its lanes wait or are done. Returns whether it executed anything.
pub(crate) fn run<M: Monitor>(
    warp: &mut Warp,
    block: &mut Block,
    launch: &Launch<'_>,
    monitor: &mut M,
) -> Result<bool, Box<Fault>> {
    let mut steps = WARP_QUANTUM;
    let mut moved = false;
    block.pass_time(launch, monitor)?;
    pass_time(block, warp, launch, monitor);
    let located = |(problem, pc): Fail, index, number| Box::new(launch.fault(*problem, pc, index, number));
    wgmma::pass_time(warp, block, launch, monitor).map_err(|fail| located(fail, block.index, warp.number))?;
    while steps > 0 {
        let Some(at) = warp.splits.iter().rposition(|split| split.state == State::Ready) else {
            let meets = meet(warp, block, launch, monitor).map_err(|fail| located(fail, block.index, warp.number))?;
            if !meets && !warp.let_past(launch) {
                break;
            }
            moved = true;
            continue;
        };
        moved = true;
        let mut split = warp.splits.swap_remove(at);
        let alone = warp.splits.is_empty();
        // A split of a warp that only asks goes on to its next question.
        let asks = !warp.busy && warp.asks();
        let turn = match (asks, alone) {
            (true, _) => 1,
            (false, true) => steps,
            (false, false) => steps.min(SPLIT_QUANTUM),
        };
        let before = block.counts.warp_instructions + block.charged;
        let asked = (warp.spun, warp.polled);
        let stop = interpret_here(warp, &mut split, block, launch, monitor, turn);
        let has_asked = asked != (warp.spun, warp.polled);
        // A split that has more to do than to wait.
        warp.busy |= !asks && !has_asked && matches!(stop, Ok(Stop::Quantum));
        steps = steps
            .saturating_sub((block.counts.warp_instructions + block.charged - before).clamp(1, u32::MAX.into()) as u32);
        if !alone && matches!(stop, Ok(Stop::Quantum | Stop::Yield)) {
            // It may be waiting for what lanes that wait for each other do next.
            meet(warp, block, launch, monitor).map_err(|fail| located(fail, block.index, warp.number))?;
        }
        match stop {
            Ok(Stop::Gone) => {}
            Ok(Stop::Quantum) if asks && !has_asked => warp.splits.push(split),
            // Another split goes first next time: this one may be waiting for it.
            Ok(Stop::Quantum) if !asks => warp.splits.insert(0, split),
            Ok(Stop::Wait) => warp.splits.push(split),
            Ok(Stop::Quantum | Stop::Yield) => {
                let others = warp.splits.iter().any(|split| split.state == State::Ready);
                warp.splits.insert(0, split);
                if !others {
                    break;
                }
            }
            Err(fail) => return Err(located(fail, block.index, warp.number)),
        }
    }
    note_turn(warp, block, moved);
    Ok(moved)
}

/// Counts turns in which a warp only asked, and its vain waits at mbarriers in them.
fn note_turn(warp: &mut Warp, block: &mut Block, moved: bool) {
    let (spun, polled) = (std::mem::take(&mut warp.spun), std::mem::take(&mut warp.polled));
    let idle = !std::mem::take(&mut warp.busy) && spun + polled != 0;
    if !moved {
        return;
    }
    block.vain_waits += u64::from(spun);
    block.busy |= !idle || polled != 0;
    block.wrote |= !idle;
    if idle {
        warp.idle = warp.idle.saturating_add(1);
    } else {
        (warp.idle, warp.still, warp.poll, warp.polls_afar) = (0, false, None, false);
    }
}
