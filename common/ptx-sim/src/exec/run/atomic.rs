//! Atomics, lane after lane.

use std::cell::Cell;

use super::check::{Checked, for_parts};
use super::context::Context;
use super::elements::{gather, scatter};
use crate::exec::state::address::addresses;
use crate::exec::state::place::{Kind, Part, Place, Reach};
use crate::exec::state::rows::Rows;
use crate::exec::watch::monitor::Monitor;
use crate::ir::*;
use crate::lanes::lanes;
use crate::scalar::Mode;

/// The value that an atomic stores.
fn atomic_result(atomic: &Atomic, mode: Mode, old: u64, a: u64, b: u64) -> u64 {
    combined(atomic.op, atomic.bytes, mode, old, a, b)
}

/// Returns the result of an operation on an old value of `bytes` (2, 4 or 8) bytes.
pub(crate) fn combined(op: AtomOp, bytes: u8, mode: Mode, old: u64, a: u64, b: u64) -> u64 {
    let bits = u32::from(bytes) * 8;
    let sign = |value: u64| ((value << (64 - bits)) as i64) >> (64 - bits);
    let value = match op {
        AtomOp::And => old & a,
        AtomOp::Or => old | a,
        AtomOp::Xor => old ^ a,
        AtomOp::Exch => a,
        AtomOp::Cas => {
            if old == a {
                b
            } else {
                old
            }
        }
        AtomOp::Add => old.wrapping_add(a),
        AtomOp::Inc => {
            if old >= a {
                0
            } else {
                old + 1
            }
        }
        AtomOp::Dec => {
            if old == 0 || old > a {
                a
            } else {
                old - 1
            }
        }
        AtomOp::MinU => old.min(a),
        AtomOp::MaxU => old.max(a),
        AtomOp::MinS => sign(old).min(sign(a)) as u64,
        AtomOp::MaxS => sign(old).max(sign(a)) as u64,
        AtomOp::Float(f) => f(mode, old, a, 0),
    };
    if bits == 64 { value } else { value & ((1 << bits) - 1) }
}

/// Lane after lane, lowest first.
#[inline(never)]
pub(crate) fn atomic<M: Monitor>(
    context: &mut Context<'_, '_, M>,
    rows: Rows,
    atomic: &Atomic,
    mask: u32,
) -> Checked<()> {
    if atomic.bytes == 16 {
        context.warp.busy = true;
        return atomic128(context, rows, atomic, mask);
    }
    let addresses = addresses(rows, context.frame_local(), &atomic.address);
    let wide = atomic.bytes == 8;
    let in_global = Mode { ftz: atomic.flushes, ..atomic.mode };
    if !atomic.more.is_empty() {
        context.warp.busy = true;
        return vector(context, rows, atomic, mask);
    }
    let mut old = [0; 32];
    let reach = Reach { order: atomic.order, scope: atomic.scope, ..Reach::new(Kind::Atomic, atomic.bytes.into()) };
    for_parts(context, atomic.address.space, &addresses, mask, reach, |context, part| {
        let mut changed = false;
        for lane in lanes(part.mask) {
            let a = rows.lane_of(atomic.a, wide, lane);
            let b = if matches!(atomic.op, AtomOp::Cas) { rows.lane_of(atomic.b, wide, lane) } else { 0 };
            if let Place::Allocation(allocation) = part.place {
                let offset = addresses[lane] - part.base;
                let last = Cell::new(0);
                // SAFETY: `for_parts` checked range and alignment of each lane of the part.
                old[lane] = unsafe {
                    allocation.update(offset, atomic.bytes, |old| {
                        last.set(atomic_result(atomic, in_global, old, a, b));
                        last.get()
                    })
                };
                changed |= last.get() != old[lane];
            } else {
                let one = Part { mask: 1 << lane, ..*part };
                old[lane] = gather(context, &one, &addresses, 0, atomic.bytes)[lane];
                let new = atomic_result(atomic, atomic.mode, old[lane], a, b);
                scatter(context, &one, &addresses, 0, atomic.bytes, |_| new);
                changed |= new != old[lane];
            }
        }
        if changed {
            context.warp.busy = true;
        } else {
            context.ask(part, &addresses, atomic.bytes.into());
        }
    })?;
    if let Some(d) = atomic.result {
        lanes(mask).for_each(|lane| rows.set_lane_of(d, wide, lane, old[lane]));
    }
    Ok(())
}

/// A vector in global memory: each element is an atomic of its own.
#[cold]
fn vector<M: Monitor>(context: &mut Context<'_, '_, M>, rows: Rows, atomic: &Atomic, mask: u32) -> Checked<()> {
    let addresses = addresses(rows, context.frame_local(), &atomic.address);
    let mode = Mode { ftz: atomic.flushes, ..atomic.mode };
    let reach = Reach { order: atomic.order, scope: atomic.scope, ..Reach::new(Kind::Atomic, atomic.total_bytes()) };
    for_parts(context, atomic.address.space, &addresses, mask, reach, |_, part| {
        let Place::Allocation(allocation) = part.place else { return };
        for lane in lanes(part.mask) {
            let elements = std::iter::once((atomic.result, atomic.a)).chain(atomic.more.iter().copied());
            for (at, (result, row)) in (0..).zip(elements) {
                let a = rows.lane_of(row, false, lane);
                let offset = addresses[lane] - part.base + at * u64::from(atomic.bytes);
                // SAFETY: `for_parts` checked range and alignment of each lane of the part.
                let old =
                    unsafe { allocation.update(offset, atomic.bytes, |old| atomic_result(atomic, mode, old, a, 0)) };
                if let Some(d) = result {
                    rows.set_lane_of(d, false, lane, old);
                }
            }
        }
    })?;
    Ok(())
}

/// `atom.exch.b128` and `atom.cas.b128`, one at a time on the whole host: it has no atomics of 16 bytes.
#[cold]
fn atomic128<M: Monitor>(context: &mut Context<'_, '_, M>, rows: Rows, atomic: &Atomic, mask: u32) -> Checked<()> {
    static ONE_AT_A_TIME: std::sync::Mutex<()> = std::sync::Mutex::new(());
    let addresses = addresses(rows, context.frame_local(), &atomic.address);
    let pair = |row: R, lane: usize| [rows.lane_of(row, true, lane), rows.lane_of(row + 2, true, lane)];
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let mut old = [[0; 2]; 32];
    let reach = Reach { order: atomic.order, scope: atomic.scope, ..Reach::new(Kind::Atomic, 16) };
    for_parts(context, atomic.address.space, &addresses, mask, reach, |context, part| {
        for lane in lanes(part.mask) {
            let one = Part { mask: 1 << lane, ..*part };
            old[lane] = [0, 8].map(|at| gather(context, &one, &addresses, at, 8)[lane]);
            let a = pair(atomic.a, lane);
            let new = match atomic.op {
                AtomOp::Cas if old[lane] == a => pair(atomic.b, lane),
                AtomOp::Cas => old[lane],
                _ => a,
            };
            for (at, half) in [0, 8].into_iter().zip(new) {
                scatter(context, &one, &addresses, at, 8, |_| half);
            }
        }
    })?;
    if let Some(d) = atomic.result {
        for lane in lanes(mask) {
            rows.set_lane_of(d, true, lane, old[lane][0]);
            rows.set_lane_of(d + 2, true, lane, old[lane][1]);
        }
    }
    Ok(())
}
