//! Barriers that are objects in shared memory (PTX ISA, "mbarrier").
//!
//! The object is the 64 bits that the kernel set aside for it, so that it needs no table and dies with its block. What PTX
//! leaves open, the layout, is this:
//!
//! ```text
//!   bit   63 62 │ 61    │ 60 … 40                  │ 39 … 20                 │ 19 … 0
//!         1  0  │ phase │ transactions, signed (0) │ arrivals of each phase  │ arrivals that are missing
//! ```
//!
//! The state that an arrival returns is the object as it was before. A phase ends when no arrival is missing and no
//! transaction is under way: then its bit changes, and the next one misses all its arrivals.
//!
//! A wait that suspends its thread does not block here: it gives the other warps a turn and says no, as PTX allows.

use super::address::{addresses, space_of};
use super::async_copy::make_copies;
use super::block::Block;
use super::check::{Checked, for_parts};
use super::context::Context;
use super::copies::AsyncArrival;
use super::elements::{read_shared, shared_bytes, write_shared};
use super::launch::Launch;
use super::monitor::Monitor;
use super::place::{Kind, Reach};
use super::problem::Problem;
use super::rows::Rows;
use super::warp::WaitInVain;
use crate::fault::FaultKind;
use crate::ir::*;
use crate::lanes::lanes;

/// An mbarrier as its 64 bits say it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct State {
    phase: bool,
    /// Bytes that transactions have yet to bring. Nothing adds any yet.
    transactions: i32,
    expected: u32,
    missing: u32,
}

/// Bits 63 and 62 of an object that is one.
const VALID: u64 = 0b10;
const COUNT_BITS: u32 = MBARRIER_COUNTS.count_ones();

impl State {
    fn decode(bits: u64) -> Option<Self> {
        (bits >> 62 == VALID).then_some(Self {
            phase: bits >> 61 & 1 == 1,
            transactions: ((bits << 3) as i64 >> (3 + 2 * COUNT_BITS)) as i32,
            expected: (bits >> COUNT_BITS) as u32 & MBARRIER_COUNTS,
            missing: bits as u32 & MBARRIER_COUNTS,
        })
    }

    fn encode(self) -> u64 {
        let Self { phase, transactions, expected, missing } = self;
        let transactions = (transactions as u64) << (3 + 2 * COUNT_BITS) >> 3;
        VALID << 62 | u64::from(phase) << 61 | transactions | u64::from(expected) << COUNT_BITS | u64::from(missing)
    }

    /// After `count` arrivals, and whether they end the phase.
    fn arrived(mut self, count: u32) -> (Self, bool) {
        self.missing -= count;
        let ends = self.missing == 0 && self.transactions == 0;
        if ends {
            self.phase = !self.phase;
            self.missing = self.expected;
        }
        (self, ends)
    }
}

fn invalid(lane: usize, address: u64, message: String) -> Box<Problem> {
    Problem::new(FaultKind::InvalidBarrier, 1 << lane, message).at(address)
}

/// The object at `at` in shared memory, which has been checked.
fn load<M: Monitor>(context: &mut Context<'_, '_, M>, at: u64) -> u64 {
    // SAFETY: `reach` checked that eight bytes at `at` are shared memory, and aligned.
    unsafe { read_shared(shared_bytes(context.block), at, 8) }
}

fn store<M: Monitor>(context: &mut Context<'_, '_, M>, at: u64, state: u64) {
    // SAFETY: as above.
    unsafe { write_shared(shared_bytes(context.block), at, 8, state) };
}

/// Checks an access of one lane to an object. `None`: a sanitiser has been told that it must not be made.
fn reach<M: Monitor>(
    context: &mut Context<'_, '_, M>,
    mbarrier: &Mbarrier,
    addresses: &[u64; 32],
    lane: usize,
    reach: Reach<'_>,
) -> Checked<bool> {
    let space = mbarrier.address.space;
    let address = addresses[lane];
    if space != MemSpace::Shared && space_of(address) != MemSpace::Shared {
        context.report(invalid(lane, address, "an mbarrier has to be in shared memory".to_owned()))?;
        return Ok(false);
    }
    Ok(for_parts(context, space, addresses, 1 << lane, reach, |_, _| {})? == 0)
}

/// Executes the instruction for the lanes of `mask`, lowest first; says whether one of them is to wait.
#[inline(never)]
pub(crate) fn mbarrier<M: Monitor>(
    context: &mut Context<'_, '_, M>,
    rows: Rows,
    mbarrier: &Mbarrier,
    mask: u32,
) -> Checked<bool> {
    let addresses = addresses(rows, context.frame_local(), &mbarrier.address);
    let offset = |lane: usize| addresses[lane] & (WINDOW - 1);
    let atomic = Reach { order: mbarrier.order, blind: true, ..Reach::new(Kind::Atomic, 8) };
    let mut waits = false;
    for lane in lanes(mask) {
        let at = offset(lane);
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
                    let state = State { phase: false, transactions: 0, expected: count, missing: count };
                    store(context, at, state.encode());
                }
            }
            MbarrierOp::Inval => {
                if reach(context, mbarrier, &addresses, lane, Reach::new(Kind::Write, 8))? {
                    store(context, at, 0);
                }
            }
            MbarrierOp::Arrive { d, count, drop, no_complete } => {
                let count = count.map_or(1, |row| rows.lane(row, lane));
                if !reach(context, mbarrier, &addresses, lane, atomic)? {
                    continue;
                }
                let before = load(context, at);
                if let Some(d) = d {
                    rows.set_lane_of(d, true, lane, before);
                }
                if let Err(message) = arrive(context, at, count, drop, no_complete) {
                    context.report(invalid(lane, addresses[lane], message))?;
                }
            }
            MbarrierOp::Wait { p, phase, suspends } => {
                let in_shared =
                    mbarrier.address.space == MemSpace::Shared || space_of(addresses[lane]) == MemSpace::Shared;
                if in_shared {
                    look_at_all(context, mask)?;
                    arrive_when_copied(context, at)?;
                }
                // Only a wait that succeeds learns what the others did before they arrived.
                let inside = in_shared && at.is_multiple_of(8) && at + 8 <= context.block.shared_bytes;
                let state = if inside { State::decode(load(context, at)) } else { None };
                let phase = match phase {
                    MbarrierPhase::State(row) => rows.lane_of(row, true, lane) >> 61 & 1 == 1,
                    MbarrierPhase::Parity(row) => rows.lane(row, lane) & 1 == 1,
                };
                let over = state.map(|state| state.phase != phase);
                if mask & ((1 << lane) - 1) == 0 {
                    context.warp.in_vain = None;
                }
                if over == Some(false) {
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
                waits |= suspends && !over;
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
                    match State::decode(load(context, at)) {
                        Some(state) if state.missing < MBARRIER_COUNTS => {
                            store(context, at, State { missing: state.missing + 1, ..state }.encode());
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

/// `count` arrivals at the object; the error says why they are not possible.
fn arrive<M: Monitor>(
    context: &mut Context<'_, '_, M>,
    at: u64,
    count: u32,
    drop: bool,
    no_complete: bool,
) -> Result<(), String> {
    let Some(mut state) = State::decode(load(context, at)) else { return Err(NOT_ONE.to_owned()) };
    if count == 0 || count > state.missing {
        return Err(format!("{count} arrivals at an mbarrier that misses {} in this phase", state.missing));
    }
    if drop {
        if count > state.expected {
            return Err(format!("{count} arrivals are dropped of an mbarrier that expects {} a phase", state.expected));
        }
        state.expected -= count;
    }
    let (state, ends) = state.arrived(count);
    store(context, at, state.encode());
    if ends && no_complete {
        return Err("`.noComplete` says that this arrival does not end the phase, and it does".to_owned());
    }
    Ok(())
}

/// Something is about to be looked for among all arrivals and copies under way. A kernel may have any number of them.
fn look_at_all<M: Monitor>(context: &mut Context<'_, '_, M>, mask: u32) -> Checked<()> {
    const AN_INSTRUCTION: usize = 1 << 10;
    let count = context.block.arrivals.len() + context.warp.copies.pending.len();
    if count >= AN_INSTRUCTION {
        context.block.charged += (count / AN_INSTRUCTION) as u64;
        context.launch.check_time(mask)?;
    }
    Ok(())
}

/// Makes the copies that an object waits for, and their arrivals: as late as PTX allows, when somebody asks.
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
        make_copies(context, warp, &copies);
        if let Some(sanitiser) = context.monitor.sanitiser() {
            sanitiser.arrived_after_copies(context.launch, context.block, warp, lane, at);
        }
        if let Err(message) = arrive(context, at, 1, false, false) {
            let problem = invalid(lane, at, message);
            let place = context.launch.whereabouts(pc, context.block.index, warp, 1 << lane, "asks for the arrival");
            context.report(problem.note(place))?;
        }
    }
    Ok(())
}

/// In words, which thread waits for a phase of an mbarrier that is not over, and for how many arrivals.
pub(super) fn waits_in_vain(block: &mut Block, launch: &Launch<'_>) -> Option<String> {
    let waits: Vec<_> = block.warps.iter().filter_map(|warp| Some((warp.number, warp.in_vain?))).collect();
    waits.into_iter().find_map(|(warp, WaitInVain { pc, lane, at, phase })| {
        // SAFETY: the wait was made, so its eight bytes are shared memory, and aligned.
        let state = State::decode(unsafe { read_shared(shared_bytes(block), at, 8) })?;
        let State { expected, missing, .. } = state;
        (state.phase == phase).then(|| {
            let place = launch.whereabouts(pc, block.index, warp, 1 << lane, "waits");
            let (phase, verb) = (u32::from(phase), if missing == 1 { "is" } else { "are" });
            format!(
                "{place} for phase {phase} of the mbarrier at {at:#x} in shared memory: {missing} of {expected} arrivals {verb} missing"
            )
        })
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
