//! Columns of tensor memory: which of them a block has, and which it waits for.
//!
//! An SM has 512 for all of its blocks. Which blocks share an SM is known only if all are there at once; then one that allocates waits
//! for the others, and gets the columns that they leave.

use std::ops::Range;

use super::check::Checked;
use super::context::{Context, Step};
use super::elements::write_lane;
use crate::exec::state::address::addresses;
use crate::exec::state::block::Block;
use crate::exec::state::launch::{Launch, lock};
use crate::exec::state::poll::Poll;
use crate::exec::state::problem::Problem;
use crate::exec::state::rows::Rows;
use crate::exec::state::tensor_memory::HeldColumns;
use crate::exec::watch::monitor::Monitor;
use crate::fault::FaultKind;
use crate::ir::*;
use crate::matrix::tcgen05::{COLUMNS, Cell};

/// Fewest columns of an allocation.
const LEAST: u32 = 32;

pub(super) fn invalid(lanes: u32, message: impl Into<String>) -> Box<Problem> {
    Problem::new(FaultKind::InvalidTcgen05, lanes, message)
}

/// A value that has to be the same in all lanes.
pub(super) fn uniform<T: Copy + PartialEq + std::fmt::LowerHex>(values: [T; 32], what: &str) -> Checked<T> {
    match values.iter().position(|value| *value != values[0]) {
        None => Ok(values[0]),
        Some(lane) => {
            let note = format!("lane 0 has {:#x}, lane {lane} has {:#x}", values[0], values[lane]);
            Err(invalid(1 << lane, format!("{what} is not the same in all lanes")).note(note))
        }
    }
}

pub(super) const ADDRESS: &str = "the address in tensor memory";

/// Checks that the warp is whole.
pub(crate) fn whole(group: u32) -> Checked<()> {
    if group == u32::MAX {
        return Ok(());
    }
    Err(invalid(group, format!("tcgen05 in a warp of which only {} lanes are left", group.count_ones())))
}

/// Checks a number of columns.
fn columns_of(rows: Rows, row: R) -> Checked<u32> {
    let columns = uniform(rows.get(row), "the number of columns")?;
    if columns.is_power_of_two() && (LEAST..=COLUMNS).contains(&columns) {
        return Ok(columns);
    }
    Err(invalid(
        u32::MAX,
        format!("{columns} columns of tensor memory: a power of two from {LEAST} to {COLUMNS} is possible"),
    ))
}

/// Checks that the block is one of a pair, if the instruction is for pairs.
pub(super) fn paired(block: &Block, pair: bool, lanes: u32) -> Checked<()> {
    if pair && block.peers.is_empty() {
        return Err(invalid(lanes, "`.cta_group::2` in a launch whose clusters have one block"));
    }
    Ok(())
}

/// `tcgen05.alloc`. It is to come again while other blocks of the SM have the columns.
#[inline(never)]
pub(crate) fn allocate<M: Monitor>(
    context: &mut Context<'_, '_, M>,
    rows: Rows,
    alloc: &TmemAlloc,
    group: u32,
) -> Checked<Step> {
    whole(group)?;
    paired(context.block, alloc.pair, group)?;
    let columns = columns_of(rows, alloc.columns)?;
    let to = addresses(rows, context.frame_local(), &alloc.to)[0];
    let Context { launch, block, warp, frame, pc, .. } = context;
    let (launch, frame, pc, number, index) = (*launch, *frame, *pc, block.number, block.index);
    let memory = block.tensor_memory();
    if let Some(pc) = memory.relinquished {
        let place = launch.whereabouts(pc, index, warp.number, group, "gives it up");
        let message = "tcgen05.alloc in a block that has given up its permit to allocate";
        return Err(invalid(group, message).note(place));
    }
    if columns > memory.last {
        let message = format!("tcgen05.alloc of {columns} columns after one of {}", memory.last);
        return Err(
            invalid(group, message).note("PTX ISA, \"tcgen05.alloc\": later allocations of a block are no larger")
        );
    }
    let mut all = lock(&launch.columns);
    let others = all.of_others(launch.processor(number), number);
    let by = (warp.number, pc);
    let Some(first) = memory.allocate(columns, by, &others) else {
        if !others.is_empty() {
            all.waiting.insert(number, by);
            warp.ask(|| Poll { pc, frame, lane: 0, address: to, bytes: 4, shared: None });
            return Ok(Step::Again);
        }
        let held: u32 = memory.allocations().iter().map(|(range, _)| range.len() as u32).sum();
        let message =
            format!("tcgen05.alloc of {columns} columns waits for ever: the block itself holds {held} of {COLUMNS}");
        return Err(Problem::new(FaultKind::Deadlock, group, message));
    };
    all.waiting.remove(&number);
    if let Some(processor) = launch.processor(number) {
        all.held.push(HeldColumns { processor, block: number, range: first..first + columns, by });
    }
    drop(all);
    write_lane(context, alloc.to.space, 0, to, (0, 4), &[first.into()])?;
    Ok(Step::Done)
}

/// `tcgen05.dealloc`
#[inline(never)]
pub(crate) fn free<M: Monitor>(
    context: &mut Context<'_, '_, M>,
    rows: Rows,
    [address, columns]: [R; 2],
    group: u32,
) -> Checked<()> {
    whole(group)?;
    let columns = columns_of(rows, columns)?;
    let cell = Cell::at(uniform(rows.get(address), ADDRESS)?);
    let freed = context.block.tensor.as_mut().is_some_and(|memory| memory.free(cell.column, columns));
    if freed && cell.lane == 0 {
        let number = context.block.number;
        lock(&context.launch.columns).held.retain(|held| held.block != number || held.range.start != cell.column);
        return Ok(());
    }
    let message = format!("tcgen05.dealloc of {columns} columns at {cell}, which are no allocation");
    let problem = invalid(group, message).note(held(context.block));
    context.report(problem)
}

/// Describes the blocks that wait for columns, and those of their SMs that hold some.
pub(super) fn waits_for_columns(launch: &Launch<'_>) -> Vec<String> {
    const MAX_TOLD: usize = 3;
    let all = lock(&launch.columns);
    let name = |number: u64| {
        let [x, y, z] = launch.block_index(number).at;
        format!("block ({x}, {y}, {z})")
    };
    let place = |number: u64, (warp, pc): (u32, usize), verb: &str| {
        launch.whereabouts(pc, launch.block_index(number), warp, 1, verb)
    };
    let told = |(&number, &by): (&u64, &(u32, usize))| {
        let mut holders = all.held.iter().filter(|held| Some(held.processor) == launch.processor(number));
        let held = holders.find(|held| held.block != number)?;
        let (waits, allocated) = (place(number, by, "waits"), place(held.block, held.by, "allocates"));
        let (waiter, holder, count) = (name(number), name(held.block), held.range.len());
        Some(format!(
            "{waiter}, {waits} for columns of tensor memory: {holder} of the same SM holds {count} of {COLUMNS}, which {allocated}"
        ))
    };
    let mut notes: Vec<String> = all.waiting.iter().filter_map(told).take(MAX_TOLD).collect();
    if !notes.is_empty() {
        notes.push(
            "PTX ISA, \"tcgen05.alloc\": it blocks until the columns are free; the blocks of an SM share them"
                .to_owned(),
        );
    }
    notes
}

/// `tcgen05.relinquish_alloc_permit`
pub(crate) fn relinquish<M: Monitor>(context: &mut Context<'_, '_, M>, group: u32) -> Checked<()> {
    whole(group)?;
    context.block.tensor_memory().relinquished.get_or_insert(context.pc);
    Ok(())
}

/// Describes the allocations of a block.
fn held(block: &Block) -> String {
    let ranges = block.tensor.as_ref().map_or(&[][..], |memory| memory.allocations());
    let ranges: Vec<String> = ranges.iter().map(|(range, _)| format!("{} to {}", range.start, range.end - 1)).collect();
    match ranges.len() {
        0 => "the block has allocated no columns".to_owned(),
        _ => format!("the block has allocated columns {}", ranges.join(", ")),
    }
}

/// Checks that a block has allocated some columns. The error names what reaches them.
pub(super) fn check_columns(block: &Block, columns: Range<u32>, what: &str, lanes: u32) -> Checked<()> {
    let outside = match &block.tensor {
        Some(memory) => memory.first_outside(columns),
        None => Some(columns.start),
    };
    let Some(column) = outside else { return Ok(()) };
    let message = format!("{what} column {column} of tensor memory, which the block has not allocated");
    Err(Problem::new(FaultKind::OutOfBounds, lanes, message).note(held(block)))
}
