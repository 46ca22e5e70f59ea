//! `cp.async`: copies to shared memory that are made when they are waited for.

use std::sync::Arc;

use super::check::{Checked, for_parts};
use super::context::Context;
use super::elements::{shared_bytes, write_shared};
use crate::exec::state::address::addresses;
use crate::exec::state::asynchrony::Asynchrony;
use crate::exec::state::block::Block;
use crate::exec::state::cluster::offset_of;
use crate::exec::state::copies::{PendingCopy, Source};
use crate::exec::state::launch::Launch;
use crate::exec::state::place::{Kind, Place, Reach};
use crate::exec::state::rows::Rows;
use crate::exec::state::warp::Warp;
use crate::exec::watch::monitor::Monitor;
use crate::ir::*;
use crate::lanes::{lanes, mask_of};

/// Maximum copies that a warp may have under way before they are made unasked.
const MAX_COPIES: usize = 1 << 16;

/// Records the copy; [`cp_async_wait`] makes it.
#[inline(never)]
pub(crate) fn cp_async<M: Monitor>(
    context: &mut Context<'_, '_, M>,
    rows: Rows,
    copy: &CpAsync,
    mask: u32,
) -> Checked<()> {
    let to = addresses(rows, context.frame_local(), &copy.dst);
    let from = addresses(rows, context.frame_local(), &copy.src);
    let bytes = copy.bytes;
    let ignored = copy.ignore.map_or(0, |(p, negated)| {
        let bits = *context.predicate(p);
        if negated { !bits } else { bits }
    });
    let read = |lane: usize| match copy.src_bytes {
        _ if ignored >> lane & 1 == 1 => 0,
        Some(row) => rows.lane(row, lane).min(u32::from(bytes)) as u8,
        None => bytes,
    };
    let refused = for_parts(context, MemSpace::Shared, &to, mask, Reach::new(Kind::Copy, bytes.into()), |_, _| {})?;
    let mut mask = mask & !refused;
    if context.warp.copies.pending.len() >= MAX_COPIES {
        cp_async_wait(context, None, u32::MAX);
    }
    // A lane reads only as many bytes as its source has, aligned like the whole copy; one that reads nothing may hold any address.
    let mut sources: [(Source, u64); 32] = std::array::from_fn(|_| (Source::Buffer(0), 0));
    let mut rest = mask_of(|lane| read(lane) != 0) & mask;
    while rest != 0 {
        let length = read(rest.trailing_zeros() as usize);
        let alike = mask_of(|lane| read(lane) == length) & rest;
        rest &= !alike;
        let reach = Reach { align: bytes.into(), ..Reach::new(Kind::Read, length.into()) };
        mask &= !for_parts(context, MemSpace::Global, &from, alike, reach, |context, part| {
            if let Place::Allocation(allocation) = part.place {
                let snapshot = &context.launch.memory;
                let index = snapshot.partition_point(|other| other.base < allocation.base);
                let source = part.block.map_or(Source::Buffer(index), |block| Source::Block(Arc::clone(block)));
                lanes(part.mask).for_each(|lane| sources[lane] = (source.clone(), from[lane] - part.base));
            }
        })?;
    }
    let asynchrony = context.launch.asynchrony;
    let (block, pc) = (context.block.number, context.pc);
    let copies = &mut context.warp.copies;
    for lane in lanes(mask) {
        let group = copies.committed[lane];
        copies.pending.push(PendingCopy {
            lane,
            pc,
            group,
            to: offset_of(to[lane]) as u32,
            from: sources[lane].clone(),
            bytes,
            read: read(lane),
            turns: asynchrony.turns(block, copies.count),
        });
        copies.count += 1;
    }
    if asynchrony != Asynchrony::Late {
        make_due(context.block, context.warp, context.launch, context.monitor, 0);
    }
    Ok(())
}

/// Called when the warp is about to get a turn: makes the copies whose time has come.
#[inline(always)]
pub(crate) fn pass_time<M: Monitor>(block: &mut Block, warp: &mut Warp, launch: &Launch<'_>, monitor: &mut M) {
    if launch.asynchrony != Asynchrony::Late && !warp.copies.pending.is_empty() {
        make_due(block, warp, launch, monitor, 1);
    }
}

/// Makes the copies of a warp that have no turns left after `passed` turns.
#[inline(never)]
fn make_due<M: Monitor>(block: &mut Block, warp: &mut Warp, launch: &Launch<'_>, monitor: &mut M, passed: u32) {
    let is_due = |copy: &mut PendingCopy| {
        copy.turns.as_mut().is_some_and(|turns| {
            let due = *turns == 0;
            *turns = turns.saturating_sub(passed);
            due
        })
    };
    let due: Vec<PendingCopy> = warp.copies.pending.extract_if(.., is_due).collect();
    make_copies(block, launch, monitor, warp.number, &due);
}

/// Number of copies that cost as much as an instruction to look at.
const COPIES_AN_INSTRUCTION: u64 = 16;

/// Makes the copies of all but the latest `n` groups that the lanes have committed; `None`: all copies. Those that an
/// mbarrier waits for are among them. Returns the cost beyond one instruction.
#[inline(never)]
pub(crate) fn cp_async_wait<M: Monitor>(context: &mut Context<'_, '_, M>, n: Option<u32>, mask: u32) -> u32 {
    let warp = context.warp.number;
    let waiting = context.block.arrivals.iter().map(|arrival| arrival.copies.len()).sum::<usize>();
    let cost = (context.warp.copies.pending.len() + waiting) as u64 / COPIES_AN_INSTRUCTION;
    context.block.charged += cost;
    let committed = context.warp.copies.committed;
    let is_due = |copy: &mut PendingCopy| copy.is_due(&committed, n, mask);
    let mut due: Vec<PendingCopy> = Vec::new();
    for arrival in context.block.arrivals.iter_mut().filter(|arrival| arrival.warp == warp) {
        due.extend(arrival.copies.extract_if(.., is_due));
    }
    due.extend(context.warp.copies.pending.extract_if(.., is_due));
    make_copies(context.block, context.launch, context.monitor, warp, &due);
    cost as u32
}

/// Makes the given copies of a warp.
pub(crate) fn make_copies<M: Monitor>(
    block: &mut Block,
    launch: &Launch<'_>,
    monitor: &mut M,
    warp: u32,
    copies: &[PendingCopy],
) {
    let memory = shared_bytes(block);
    for copy in copies {
        for byte in 0..u64::from(copy.bytes) {
            let value = if byte < u64::from(copy.read) {
                // SAFETY: `cp_async` checked the range that is read.
                unsafe { copy.source(launch).load(copy.from.1 + byte, 1) }
            } else {
                0
            };
            // SAFETY: `cp_async` checked the range that is written.
            unsafe { write_shared(memory, u64::from(copy.to) + byte, 1, value) };
        }
        if let Some(sanitiser) = monitor.sanitiser() {
            sanitiser.copied(launch, block, warp, copy);
        }
    }
}
