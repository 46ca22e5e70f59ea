//! Barriers that are objects in shared memory (PTX ISA, "mbarrier").
//!
//! Bulk copies are transactions: they bring bytes that `expect_tx` has announced, before or after.
//!
//! No wait blocks here: one in vain gives the other warps a turn and says no, as PTX allows. So does `test_wait`, which need not
//! let others run: a warp that asked until its turn is over would only make them late.

use super::async_copy::make_copies;
use super::check::{Checked, for_parts};
use super::context::Context;
use super::elements::{read_shared, shared_bytes, write_shared};
use super::tcgen05;
use crate::exec::state::address::{addresses, space_of};
use crate::exec::state::block::Block;
use crate::exec::state::cluster::{self, Cluster};
use crate::exec::state::copies::AsyncArrival;
use crate::exec::state::launch::Launch;
use crate::exec::state::mbarrier::State;
use crate::exec::state::place::{Kind, Reach};
use crate::exec::state::problem::Problem;
use crate::exec::state::rows::Rows;
use crate::exec::state::warp::WaitInVain;
use crate::exec::watch::monitor::Monitor;
use crate::fault::FaultKind;
use crate::ir::*;
use crate::lanes::lanes;
use crate::memory::plural;

/// Maximum number of bytes that a phase may wait for (PTX ISA, "Tracking asynchronous operations by the mbarrier object").
const MAX_TRANSACTIONS: i64 = (1 << 20) - 1;

pub(crate) fn invalid(lane: usize, address: u64, message: String) -> Box<Problem> {
    Problem::new(FaultKind::InvalidMbarrier, 1 << lane, message).at(address)
}

/// The object at `at` in shared memory, which has been checked.
fn load(block: &mut Block, at: u64) -> u64 {
    // SAFETY: it was checked that eight bytes at `at` are shared memory, and aligned.
    unsafe { read_shared(shared_bytes(block), at, 8) }
}

fn store(block: &mut Block, at: u64, state: u64) {
    // SAFETY: as above.
    unsafe { write_shared(shared_bytes(block), at, 8, state) };
}

/// Checks an access of one lane to an object. False: it must not be made, and a sanitiser has been told.
fn reach<M: Monitor>(
    context: &mut Context<'_, '_, M>,
    mbarrier: &Mbarrier,
    addresses: &[u64; 32],
    lane: usize,
    reach: Reach<'_>,
) -> Checked<bool> {
    let space = mbarrier.address.space;
    let address = addresses[lane];
    let is_own = cluster::code_of(address) == context.block.own_code;
    let anywhere = matches!(mbarrier.op, MbarrierOp::Arrive { d: None, .. } | MbarrierOp::Transactions { .. });
    if !matches!(space, MemSpace::Shared | MemSpace::Cluster) && space_of(address) != MemSpace::Shared {
        context.report(invalid(lane, address, "an mbarrier has to be in shared memory".to_owned()))?;
        return Ok(false);
    }
    if !anywhere && !is_own {
        let message = "an mbarrier of another block takes arrivals without a state, and transactions".to_owned();
        context.report(invalid(lane, address, message))?;
        return Ok(false);
    }
    Ok(for_parts(context, space, addresses, 1 << lane, reach, |_, _| {})? == 0)
}

/// Executes the instruction for the lanes of `mask`, lowest first; returns whether one of them is to wait.
#[inline(never)]
pub(crate) fn mbarrier<M: Monitor>(
    context: &mut Context<'_, '_, M>,
    rows: Rows,
    mbarrier: &Mbarrier,
    mask: u32,
) -> Checked<bool> {
    let addresses = addresses(rows, context.frame_local(), &mbarrier.address);
    // CUTLASS and others leave the scope out where the barrier is another block's, which makes it `.cta`: hardware hands over all the same.
    let scope = if context.launch.strict { mbarrier.scope } else { Scope::Device };
    let atomic = Reach { order: mbarrier.order, scope, blind: true, ..Reach::new(Kind::Atomic, 8) };
    let mut waits = false;
    for lane in lanes(mask) {
        let at = cluster::offset_of(addresses[lane]);
        context.warp.busy |= !matches!(mbarrier.op, MbarrierOp::Wait { .. });
        match mbarrier.op {
            MbarrierOp::Init { count } => {
                let count = rows.lane(count, lane);
                if count == 0 || count > MBARRIER_COUNTS {
                    let message =
                        format!("an mbarrier for {count} arrivals, where 1 to {MBARRIER_COUNTS} are possible");
                    context.report(invalid(lane, addresses[lane], message))?;
                    continue;
                }
                if reach(context, mbarrier, &addresses, lane, Reach::new(Kind::Write, 8))? {
                    // Other data may have taken its place.
                    let is_one = State::decode(load(context.block, at)).is_some();
                    if context.block.shadow.as_mut().is_some_and(|shadow| !shadow.mbarriers.insert(at)) && is_one {
                        let message =
                            "an mbarrier is initialised that is one already, without mbarrier.inval before".to_owned();
                        context.report(invalid(lane, addresses[lane], message))?;
                    }
                    let state = State { phase: false, transactions: 0, expected: count, missing: count };
                    store(context.block, at, state.encode());
                }
            }
            MbarrierOp::Inval => {
                if reach(context, mbarrier, &addresses, lane, Reach::new(Kind::Write, 8))? {
                    if let Some(shadow) = &mut context.block.shadow {
                        shadow.mbarriers.remove(&at);
                    }
                    store(context.block, at, 0);
                }
            }
            MbarrierOp::Arrive { d, count, drop, no_complete, expect } => {
                let count = count.map_or(1, |row| rows.lane(row, lane));
                if !reach(context, mbarrier, &addresses, lane, atomic)? {
                    continue;
                }
                let block = cluster::owner_of(context.block, addresses[lane]);
                let before = load(block, at);
                if let Some(d) = d {
                    rows.set_lane_of(d, true, lane, before);
                }
                let expected = match expect {
                    Some(bytes) => transact(block, at, rows.lane(bytes, lane).into()),
                    None => Ok(()),
                };
                if let Err(message) = expected.and_then(|()| arrive(block, at, count, drop, no_complete)) {
                    context.report(invalid(lane, addresses[lane], message))?;
                }
            }
            MbarrierOp::Transactions { bytes, complete } => {
                if !reach(context, mbarrier, &addresses, lane, atomic)? {
                    continue;
                }
                let bytes = i64::from(rows.lane(bytes, lane));
                let block = cluster::owner_of(context.block, addresses[lane]);
                if let Err(message) = transact(block, at, if complete { -bytes } else { bytes }) {
                    context.report(invalid(lane, addresses[lane], message))?;
                }
            }
            MbarrierOp::Wait { p, phase } => {
                let in_shared =
                    mbarrier.address.space == MemSpace::Shared || space_of(addresses[lane]) == MemSpace::Shared;
                let phase = match phase {
                    MbarrierPhase::State(row) => rows.lane_of(row, true, lane) >> 61 & 1 == 1,
                    MbarrierPhase::Parity(row) => rows.lane(row, lane) & 1 == 1,
                };
                let in_shared = in_shared && cluster::code_of(addresses[lane]) == context.block.own_code;
                let inside = in_shared && at.is_multiple_of(8) && at + 8 <= context.block.shared_bytes;
                if in_shared {
                    look_at_all(context, mask)?;
                    arrive_when_copied(context, at)?;
                }
                if inside {
                    let is_over =
                        |block: &mut Block| State::decode(load(block, at)).is_none_or(|state| state.phase != phase);
                    tcgen05::arrive_for(context.block, context.launch, context.monitor, at, is_over)?;
                    let needs_none = |block: &mut Block| {
                        let state = State::decode(load(block, at));
                        state.is_none_or(|state| state.phase != phase || state.missing != 0)
                    };
                    context.block.make_transfers_of_barrier(context.launch, context.monitor, at, needs_none)?;
                }
                // Only a wait that succeeds learns what the others did before they arrived.
                let state = if inside { State::decode(load(context.block, at)) } else { None };
                let over = state.map(|state| state.phase != phase);
                if mask & ((1 << lane) - 1) == 0 {
                    context.warp.in_vain = None;
                }
                if over == Some(false) {
                    context.warp.spun += 1;
                    context.warp.in_vain.get_or_insert(WaitInVain { pc: context.pc, lane, at, phase });
                }
                let order = if over == Some(true) { mbarrier.order } else { Order::Relaxed };
                let blind = over != Some(true) || mbarrier.order == Order::Relaxed;
                let allowed =
                    reach(context, mbarrier, &addresses, lane, Reach { order, blind, ..Reach::new(Kind::Read, 8) })?;
                if over.is_none() && allowed {
                    context.report(invalid(lane, addresses[lane], NOT_ONE.to_owned()))?;
                }
                // What cannot be waited for must not be waited for forever.
                let over = over.unwrap_or(true);
                context.warp.busy |= over;
                waits |= !over;
                if let Some(p) = p {
                    let bits = context.predicate(p);
                    *bits = *bits & !(1 << lane) | u32::from(over) << lane;
                }
            }
            MbarrierOp::ArriveWhenCopied { increments } => {
                if !reach(context, mbarrier, &addresses, lane, atomic)? {
                    continue;
                }
                if increments {
                    match State::decode(load(context.block, at)) {
                        Some(state) if state.missing < MBARRIER_COUNTS => {
                            store(context.block, at, State { missing: state.missing + 1, ..state }.encode());
                        }
                        Some(_) => {
                            let message = format!("more than {MBARRIER_COUNTS} arrivals at an mbarrier are missing");
                            context.report(invalid(lane, addresses[lane], message))?;
                            continue;
                        }
                        None => {
                            context.report(invalid(lane, addresses[lane], NOT_ONE.to_owned()))?;
                            continue;
                        }
                    }
                }
                look_at_all(context, mask)?;
                let copies = context.warp.copies.take(lane);
                let warp = context.warp.number;
                let arrival = AsyncArrival { warp, lane, at, copies, pc: context.pc };
                context.block.arrival_bytes += arrival.bytes();
                context.block.arrivals.push(arrival);
            }
        }
    }
    Ok(waits)
}

const NOT_ONE: &str = "there is no mbarrier here: none was initialised, or it has been invalidated";

/// Adds `count` arrivals to the object; the error says why they are not possible.
pub(crate) fn arrive(block: &mut Block, at: u64, count: u32, drop: bool, no_complete: bool) -> Result<(), String> {
    let Some(mut state) = State::decode(load(block, at)) else { return Err(NOT_ONE.to_owned()) };
    if count == 0 || count > state.missing {
        let arrivals = if count == 1 { "1 arrival" } else { &format!("{count} arrivals") };
        return Err(match state.missing {
            0 => format!("{arrivals} at an mbarrier whose phase has had all of its arrivals"),
            missing => format!("{arrivals} at an mbarrier that waits for {missing} in this phase"),
        });
    }
    if drop {
        if count > state.expected {
            return Err(format!("{count} arrivals are dropped of an mbarrier that expects {} a phase", state.expected));
        }
        state.expected -= count;
    }
    let (state, ends) = state.arrived(count);
    store(block, at, state.encode());
    if ends && no_complete {
        return Err("`.noComplete` says that this arrival does not end the phase, and it does".to_owned());
    }
    Ok(())
}

/// Makes the phase wait for that many more bytes, or fewer where they have come; the error says why it cannot.
fn transact(block: &mut Block, at: u64, bytes: i64) -> Result<(), String> {
    let Some(state) = State::decode(load(block, at)) else { return Err(NOT_ONE.to_owned()) };
    let transactions = i64::from(state.transactions) + bytes;
    if transactions.abs() > MAX_TRANSACTIONS {
        let which = if transactions < 0 {
            "come to an mbarrier that no phase expects"
        } else {
            "be expected in a phase of an mbarrier"
        };
        return Err(format!("{} bytes cannot {which}: {MAX_TRANSACTIONS} are possible", transactions.abs()));
    }
    let (state, _) = State { transactions: transactions as i32, ..state }.settled();
    store(block, at, state.encode());
    Ok(())
}

/// Checks that there is an object at `at`, for a copy that is to complete on it.
pub(crate) fn check(block: &mut Block, lane: usize, at: u64) -> Checked<()> {
    match State::decode(load(block, at)) {
        Some(_) => Ok(()),
        None => Err(invalid(lane, at, NOT_ONE.to_owned())),
    }
}

/// Completes a transaction of that many bytes on the object at `at`; the error says why it cannot.
pub(crate) fn complete(block: &mut Block, at: u64, bytes: u64) -> Result<(), String> {
    transact(block, at, -i64::try_from(bytes).unwrap_or(i64::MAX))
}

/// Charges for a search among all arrivals and copies under way. A kernel may have any number of them.
fn look_at_all<M: Monitor>(context: &mut Context<'_, '_, M>, mask: u32) -> Checked<()> {
    const AN_INSTRUCTION: usize = 1 << 10;
    let block = &context.block;
    let count = block.arrivals.len() + context.warp.copies.pending.len() + block.transfers.len();
    if count >= AN_INSTRUCTION {
        context.block.charged += (count / AN_INSTRUCTION) as u64;
        context.launch.check_time(mask)?;
    }
    Ok(())
}

/// Makes the copies that an object waits for, and their arrivals: as late as PTX allows, when it is queried.
fn arrive_when_copied<M: Monitor>(context: &mut Context<'_, '_, M>, at: u64) -> Checked<()> {
    if !context.block.arrivals.iter().any(|arrival| arrival.at == at) {
        return Ok(());
    }
    let all = std::mem::take(&mut context.block.arrivals);
    let (due, rest): (Vec<_>, Vec<_>) = all.into_iter().partition(|arrival| arrival.at == at);
    context.block.arrivals = rest;
    for arrival in due {
        context.block.arrival_bytes -= arrival.bytes();
        let AsyncArrival { warp, lane, copies, pc, .. } = arrival;
        make_copies(context.block, context.launch, context.monitor, warp, &copies);
        if let Some(sanitiser) = context.monitor.sanitiser() {
            sanitiser.arrived_after_copies(context.launch, context.block, warp, lane, at);
        }
        if let Err(message) = arrive(context.block, at, 1, false, false) {
            let problem = invalid(lane, at, message);
            let place = context.launch.whereabouts(pc, context.block.index, warp, 1 << lane, "asks for the arrival");
            context.report(problem.note(place))?;
        }
    }
    Ok(())
}

/// Vain waits at mbarriers, for each warp, that are a deadlock if nothing else happens between them. A kernel may count
/// its queries and then do something else; it does not count as far as that.
const VAIN_WAITS: u64 = 1 << 12;

/// Whether the warps of a cluster, all that can run, ask mbarriers in vain while nothing else happens: the arrivals do not
/// come, since a wait makes the copies that it can wait for.
pub(crate) fn starved(cluster: &mut Cluster) -> bool {
    let blocks = &mut cluster.blocks;
    if blocks.iter().any(|block| block.busy) {
        blocks.iter_mut().for_each(|block| (block.vain_waits, block.busy) = (0, false));
        return false;
    }
    let [waits, warps] = blocks
        .iter()
        .fold([0, 0], |[waits, warps], block| [waits + block.vain_waits, warps + block.warps.len() as u64]);
    waits >= VAIN_WAITS * warps
}

/// Describes which thread waits for an unfinished phase of an mbarrier, and for how many arrivals.
pub(crate) fn wait_in_vain(block: &mut Block, warp: u32, wait: WaitInVain, launch: &Launch<'_>) -> Option<String> {
    let WaitInVain { pc, lane, at, phase } = wait;
    // SAFETY: the wait was made, so its eight bytes are shared memory, and aligned.
    let state = State::decode(unsafe { read_shared(shared_bytes(block), at, 8) })?;
    let State { expected, missing, transactions, .. } = state;
    let bytes = match transactions {
        0 => String::new(),
        1.. => format!(", and {} have yet to come", plural(transactions as u64)),
        _ => format!(", and {} more have come than were expected", plural(transactions.unsigned_abs().into())),
    };
    (state.phase == phase).then(|| {
        let place = launch.whereabouts(pc, block.index, warp, 1 << lane, "waits");
        let (phase, verb) = (u32::from(phase), if missing == 1 { "is" } else { "are" });
        format!(
            "{place} for a phase of parity {phase} of the mbarrier at {at:#x} in shared memory: {missing} of {expected} arrivals {verb} missing{bytes}"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_is_what_its_bits_say() {
        for state in [
            State { phase: true, transactions: -5, expected: MBARRIER_COUNTS, missing: 1 },
            State { phase: false, transactions: (1 << 20) - 1, expected: 3, missing: MBARRIER_COUNTS },
            State { phase: false, transactions: -(1 << 20) + 1, expected: 1, missing: 0 },
        ] {
            assert_eq!(State::decode(state.encode()), Some(state));
        }
        assert_eq!(State::decode(0), None);
        let (state, ends) = State { phase: false, transactions: 0, expected: 4, missing: 2 }.arrived(2);
        assert_eq!((state, ends), (State { phase: true, transactions: 0, expected: 4, missing: 4 }, true));
        let (state, ends) = State { phase: false, transactions: 16, expected: 4, missing: 1 }.arrived(1);
        assert_eq!((state.missing, ends), (0, false));
    }
}
