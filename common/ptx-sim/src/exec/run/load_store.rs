//! Loads and stores.

use super::check::{Checked, find, find_first, for_parts, misaligned as misaligned_problem};
use super::context::Context;
use super::elements::{gather, scatter, shared_bytes};
use super::vector::{SharedWords, load_words, store_words};
use crate::exec::state::address::{addresses, register_of};
use crate::exec::state::place::{InOrder, Kind, Place, Reach};
use crate::exec::state::rows::{Rows, Shape};
use crate::exec::watch::monitor::Monitor;
use crate::ir::*;
use crate::lanes::{lanes, lanes_where};
use crate::memory::Role;

/// Loads of 32-bit registers from shared and global memory whose lanes are all in order take a short path, and a
/// shorter one where lanes read one place or neighbouring ones; every other load, and every failed check, goes through
/// [`load_any`]. `AVX2`: this is compiled for a processor that has it.
#[inline(always)]
pub(crate) fn load<M: Monitor, const AVX2: bool>(
    context: &mut Context<'_, '_, M>,
    rows: Rows,
    access: &Access,
    mask: u32,
) -> Checked<()> {
    if access.plain && passes(context, rows, access, mask, false) {
        let loaded = match access.address.space {
            MemSpace::Shared => {
                let memory = SharedWords(shared_bytes(context.block));
                load_words::<_, AVX2>(memory, rows, access, mask, 0, context.block.shared_bytes)
            }
            MemSpace::Global => match find_first(context, rows, &access.address, mask) {
                Some(found) => load_words::<_, AVX2>(found, rows, access, mask, found.base, found.bytes),
                None => false,
            },
            _ => false,
        };
        if loaded {
            return Ok(());
        }
    }
    if access.address.space == MemSpace::Param && load_param(context, rows, access, mask) {
        return Ok(());
    }
    load_any(context, rows, access, mask)
}

/// Whether the short path of an access of words needs no closer look: there is no sanitiser, or it has seen all.
#[inline(always)]
fn passes<M: Monitor>(context: &mut Context<'_, '_, M>, rows: Rows, access: &Access, mask: u32, write: bool) -> bool {
    context.monitor.sanitiser().is_none() || seen_in_order(context, rows, access, mask, write)
}

/// Whether a sanitiser has seen the access, which is one of lanes in order.
#[inline(never)]
fn seen_in_order<M: Monitor>(
    context: &mut Context<'_, '_, M>,
    rows: Rows,
    access: &Access,
    mask: u32,
    write: bool,
) -> bool {
    let Some((row, wide)) = register_of(&access.address) else { return false };
    if write && holds_undefined(context, access) {
        return false;
    }
    let count = u64::from(access.count);
    let step = match rows.shape(row, wide) {
        Shape::Same if !write => 32,
        Shape::InOrder if count == 1 => 32,
        Shape::Grouped if count == 1 && !write => 8,
        _ => return false,
    };
    let address = |lane| rows.lane_of(row, wide, lane).wrapping_add(access.address.offset as u64);
    let is_same = |lane| address(lane) == address(lane + 1);
    let mut fresh = true;
    let mut lane = 0;
    while lane < 32 {
        // Groups that go on where the one before ended, or are at the same place, are one access.
        let (first, same) = (address(lane), is_same(lane));
        let mut next = lane + step;
        while next < 32 && {
            let expected = if same { first } else { first.wrapping_add(4 * (next - lane) as u64) };
            address(next) == expected && is_same(next) == same
        } {
            next += step;
        }
        let lanes = (next - lane) as u32;
        let here = mask >> lane & u32::MAX >> (32 - lanes);
        let start = std::mem::replace(&mut lane, next);
        if here == 0 {
            continue;
        }
        let (place, base, length) = match access.address.space {
            MemSpace::Shared => (Place::Shared, 0, context.block.shared_bytes),
            MemSpace::Global => match find(context.warp, context.launch, first) {
                Some(found) if !(write && found.role == Role::Constant) => {
                    (Place::Allocation(found), found.base, found.bytes)
                }
                _ => return false,
            },
            _ => return false,
        };
        let offset = first.wrapping_sub(base);
        let (bytes, align) = if same { (4 * count, 4 * count) } else { (4 * u64::from(lanes), 4) };
        if offset >= length || length - offset < bytes || !offset.is_multiple_of(align) {
            return false;
        }
        let at = context.at();
        let read_only = access.read_only;
        let access = InOrder { lane: start, lanes, mask: here, offset, count, same, write, read_only, fresh };
        if !context.monitor.sanitiser().is_some_and(|sanitiser| sanitiser.pass(context.block, at, place, &access)) {
            return false;
        }
        fresh = false;
    }
    true
}

/// Whether a value to store may be undefined.
#[inline(always)]
fn holds_undefined<M: Monitor>(context: &mut Context<'_, '_, M>, access: &Access) -> bool {
    let warp = (context.block.number, context.warp.number);
    let frame = context.frame.rows;
    context.monitor.sanitiser().is_some_and(|sanitiser| sanitiser.undefined.holds(warp, frame, access))
}

/// Loads a kernel's parameter, the same for all lanes; false if the address is not fixed, or wrong.
#[inline(never)]
fn load_param<M: Monitor>(context: &mut Context<'_, '_, M>, rows: Rows, access: &Access, mask: u32) -> bool {
    let params = &context.launch.member(context.block.index.device).params;
    let (first, bytes) = (access.address.offset as usize, usize::from(access.bytes));
    let total = bytes * usize::from(access.count);
    if !matches!(access.address.base, Base::None)
        || access.order != Order::Weak
        || !first.is_multiple_of(total)
        || first.checked_add(total).is_none_or(|end| end > params.len())
    {
        return false;
    }
    for (d, bytes) in access.rows.iter().zip(params[first..first + total].chunks_exact(bytes)) {
        let mut raw = [0; 8];
        raw[..bytes.len()].copy_from_slice(bytes);
        let value = access.extended(u64::from_le_bytes(raw));
        match *d {
            R::MAX => {}
            d if access.wide => rows.set64(d, mask, [value; 32]),
            d => rows.set(d, mask, [value as u32; 32]),
        }
    }
    true
}

#[inline(never)]
fn load_any<M: Monitor>(context: &mut Context<'_, '_, M>, rows: Rows, access: &Access, mask: u32) -> Checked<()> {
    let addresses = addresses(rows, context.frame_local(), &access.address);
    let bytes = u64::from(access.bytes);
    let total = bytes * u64::from(access.count);
    let Access { order, scope, read_only, .. } = *access;
    let reach = Reach { order, scope, read_only, ..Reach::new(Kind::Read, total) };
    if access.used != u32::MAX {
        return load_used(context, rows, access, mask, (&addresses, reach));
    }
    let refused = for_parts(context, access.address.space, &addresses, mask, reach, |context, part| {
        if reach.order != Order::Weak {
            context.ask(part, &addresses, total);
        }
        for at in 0..usize::from(access.count) {
            let d = access.rows[at];
            if d == R::MAX {
                continue;
            }
            let values = gather(context, part, &addresses, at as u64 * bytes, access.bytes);
            let values = values.map(|value| access.extended(value));
            if access.wide {
                rows.set64(d, part.mask, values);
            } else {
                rows.set(d, part.mask, values.map(|value| value as u32));
            }
        }
    })?;
    clear(rows, access, refused);
    fence(access.order);
    Ok(())
}

/// Gives 0 to lanes whose load was refused.
fn clear(rows: Rows, access: &Access, refused: u32) {
    if refused != 0 {
        for d in access.rows.iter().take(usize::from(access.count)).filter(|d| **d != R::MAX) {
            lanes(refused).for_each(|lane| rows.set_lane_of(*d, access.wide, lane, 0));
        }
    }
}

/// Loads the bytes that the program uses, each run of them as an access of its own; the others are 0.
#[cold]
#[inline(never)]
fn load_used<M: Monitor>(
    context: &mut Context<'_, '_, M>,
    rows: Rows,
    access: &Access,
    mask: u32,
    (addresses, whole): (&[u64; 32], Reach<'_>),
) -> Checked<()> {
    // Hardware wants the whole to be aligned. Windows of memory are, too, so that generic addresses need no other look.
    let misaligned = lanes_where(mask, |lane| !addresses[lane].is_multiple_of(whole.align));
    let mut refused = misaligned;
    if misaligned != 0 {
        context.report(misaligned_problem(addresses, misaligned, whole))?;
    }
    let mut values = [[0u8; 32]; 32];
    for (start, length) in access.used_runs() {
        let here = addresses.map(|address| address.wrapping_add(start));
        let reach = Reach { bytes: length, align: 1, after: start, ..whole };
        refused |= for_parts(context, access.address.space, &here, mask & !refused, reach, |context, part| {
            for at in 0..length {
                let bytes = gather(context, part, &here, at, 1);
                lanes(part.mask).for_each(|lane| values[lane][(start + at) as usize] = bytes[lane] as u8);
            }
        })?;
    }
    let bytes = usize::from(access.bytes);
    for (at, &d) in access.rows.iter().take(access.count.into()).enumerate().filter(|(_, d)| **d != R::MAX) {
        for lane in lanes(mask & !refused) {
            let mut raw = [0; 8];
            raw[..bytes].copy_from_slice(&values[lane][at * bytes..][..bytes]);
            rows.set_lane_of(d, access.wide, lane, access.extended(u64::from_le_bytes(raw)));
        }
    }
    clear(rows, access, refused);
    fence(access.order);
    Ok(())
}

/// Stores of 32-bit registers to shared and global memory whose lanes are all in order take a short path, like
/// [`load`].
#[inline(always)]
pub(crate) fn store<M: Monitor, const AVX2: bool>(
    context: &mut Context<'_, '_, M>,
    rows: Rows,
    access: &Access,
    mask: u32,
) -> Checked<()> {
    if access.plain && passes(context, rows, access, mask, true) {
        let stored = match access.address.space {
            MemSpace::Shared => {
                let memory = SharedWords(shared_bytes(context.block));
                store_words::<_, AVX2>(memory, rows, access, mask, 0, context.block.shared_bytes)
            }
            MemSpace::Global => match find_first(context, rows, &access.address, mask) {
                Some(found) if found.role != Role::Constant => {
                    store_words::<_, AVX2>(found, rows, access, mask, found.base, found.bytes)
                }
                _ => false,
            },
            _ => false,
        };
        if stored {
            return Ok(());
        }
    }
    store_any(context, rows, access, mask)
}

#[inline(never)]
fn store_any<M: Monitor>(context: &mut Context<'_, '_, M>, rows: Rows, access: &Access, mask: u32) -> Checked<()> {
    fence(access.order);
    let addresses = addresses(rows, context.frame_local(), &access.address);
    let bytes = u64::from(access.bytes);
    let total = bytes * u64::from(access.count);
    let values = |lane: usize| {
        let mut all = [0; 32];
        for (at, to) in all.chunks_exact_mut(access.bytes.into()).take(access.count.into()).enumerate() {
            let value = rows.lane_of(access.rows[at], access.wide, lane).to_le_bytes();
            to.copy_from_slice(&value[..to.len()]);
        }
        all
    };
    let (order, scope) = (access.order, access.scope);
    let reach = Reach { order, scope, values: Some(&values), ..Reach::new(Kind::Write, total) };
    for_parts(context, access.address.space, &addresses, mask, reach, |context, part| {
        for at in 0..usize::from(access.count) {
            let row = access.rows[at];
            scatter(context, part, &addresses, at as u64 * bytes, access.bytes, |lane| {
                rows.lane_of(row, access.wide, lane)
            });
        }
    })?;
    Ok(())
}

#[inline(always)]
fn fence(order: Order) {
    if order.acquires() || order.releases() {
        std::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
    }
}
