//! `tcgen05`: tensor memory, products whose accumulators lie there, and copies to it.
//!
//! # When work happens
//! One thread asks for a product, a copy or a shift, and an arrival at an mbarrier tells that it is there. Both happen as late as PTX allows: when a
//! thread waits at the mbarrier ([`arrive_for`]), the thread's work before the arrival is done, in its order. So a kernel that forgets to
//! wait reads the old accumulator, and one that overwrites a tile too early multiplies the new values, each time. Loads and
//! stores of tensor memory happen at once.

use super::check::Checked;
use super::columns::{ADDRESS, check_columns, invalid, paired, uniform, whole};
use super::context::Context;
use super::elements::chunks;
use super::mbarrier;
use crate::exec::state::address::addresses;
use crate::exec::state::asynchrony::Asynchrony;
use crate::exec::state::block::Block;
use crate::exec::state::cluster::{self, Owner};
use crate::exec::state::handover::Handover;
use crate::exec::state::launch::{Launch, lock};
use crate::exec::state::problem::Problem;
use crate::exec::state::products::ranges;
use crate::exec::state::rows::Rows;
use crate::exec::state::tensor_memory::{
    Cells, CopyToTmem, Multiply, OperandA, ShiftLanes, TMEM_COPY, TMEM_PRODUCT, TMEM_SHIFT, Task, TensorMemory,
    TensorWork, TmemUse,
};
use crate::exec::state::transfers::Issuer;
use crate::exec::watch::monitor::Monitor;
use crate::fault::FaultKind;
use crate::ir::*;
use crate::lanes::lanes;
use crate::matrix::tcgen05::{Cell, Factors, LANES, Product, SHIFT};
use crate::matrix::{Descriptor, Tile};

/// Maximum number of products and arrivals of a block under way.
const MAX_TASKS: usize = 1 << 12;

/// Lanes of tensor memory that a warp reaches.
const QUARTER: u32 = LANES / 4;

/// Checks an access, and returns its first cell.
fn check_access<M: Monitor>(
    context: &mut Context<'_, '_, M>,
    rows: Rows,
    access: &TmemAccess,
    kind: TmemUse,
    group: u32,
) -> Checked<Cell> {
    let what = if kind == TmemUse::Load { "tcgen05.ld of" } else { "tcgen05.st of" };
    whole(group)?;
    let mut cell = Cell::at(uniform(addresses(rows, context.frame_local(), &access.address), ADDRESS)? as u32);
    // The lanes of a pair of blocks are numbered through, and each block reaches its own (gau-nernst/learn-cuda, `matmul_v5.cu`).
    if context.launch.program.pairs && cell.lane / LANES == context.block.rank & 1 {
        cell.lane %= LANES;
    }
    let first = context.warp.number % 4 * QUARTER;
    let fits = cell.lane >= first && cell.lane + access.form.lanes() <= first + QUARTER;
    if !fits || !cell.lane.is_multiple_of(access.form.lanes()) {
        let message = format!("{what} {} lanes of tensor memory from lane {} on", access.form.lanes(), cell.lane);
        let note = format!("warp {} of a block reaches lanes {first} to {}", context.warp.number, first + QUARTER - 1);
        return Err(invalid(group, message).note(note));
    }
    let mut uses = Vec::new();
    for start in [Some(0), access.form.apart()].into_iter().flatten() {
        let columns = cell.column + start..cell.column + start + access.form.columns();
        check_columns(context.block, columns.clone(), what, group)?;
        let at = context.at();
        let cells = Cells::new(cell.lane..cell.lane + access.form.lanes(), columns);
        if let Some(sanitiser) = context.monitor.sanitiser() {
            sanitiser.tmem_accessed(at, [&*context.block; 2], (context.warp.number, group), &cells, kind);
        }
        uses.push((if kind == TmemUse::Load { "loaded" } else { "stored" }, cells, kind));
    }
    if let Some(tracer) = context.monitor.tracer() {
        tracer.tmem_used(context.launch, context.block, context.warp.number, uses);
    }
    Ok(cell)
}

/// `tcgen05.ld`
#[inline(never)]
pub(crate) fn load<M: Monitor>(
    context: &mut Context<'_, '_, M>,
    rows: Rows,
    access: &TmemAccess,
    group: u32,
) -> Checked<()> {
    let first = check_access(context, rows, access, TmemUse::Load, group)?;
    let Some(memory) = &mut context.block.tensor else { return Ok(()) };
    let bits = access.form.bits();
    for (register, row) in access.rows.iter().enumerate() {
        let values = std::array::from_fn(|lane| {
            let words = access.form.cells(register, lane).map(|cell| memory.get(moved(first, cell)));
            words.zip(0..).fold(0, |all, (word, part)| all | (word & (u32::MAX >> (32 - bits))) << (part * bits))
        });
        rows.set(*row, group, values);
    }
    let frame = [context.frame.predicates, context.frame.local];
    if let Some(sanitiser) = context.monitor.sanitiser() {
        sanitiser.tmem_loaded(context.block.number, context.warp.number, frame, &access.rows, context.pc);
    }
    context.block.charged += access.rows.len() as u64 / 4;
    Ok(())
}

/// `tcgen05.st`
#[inline(never)]
pub(crate) fn store<M: Monitor>(
    context: &mut Context<'_, '_, M>,
    rows: Rows,
    access: &TmemAccess,
    group: u32,
) -> Checked<()> {
    let first = check_access(context, rows, access, TmemUse::Store, group)?;
    let Some(memory) = &mut context.block.tensor else { return Ok(()) };
    let bits = access.form.bits();
    for (register, row) in access.rows.iter().enumerate() {
        for (lane, value) in rows.get(*row).into_iter().enumerate() {
            for (part, cell) in (0..).zip(access.form.cells(register, lane)) {
                memory.set(moved(first, cell), value >> (part * bits) & (u32::MAX >> (32 - bits)));
            }
        }
    }
    context.block.charged += access.rows.len() as u64 / 4;
    Ok(())
}

fn moved(first: Cell, cell: Cell) -> Cell {
    Cell { lane: first.lane + cell.lane, column: first.column + cell.column }
}

/// An instruction of one thread, for each lane of `mask`.
#[inline(never)]
pub(crate) fn ask<M: Monitor>(context: &mut Context<'_, '_, M>, rows: Rows, op: &Tcgen05, mask: u32) -> Checked<()> {
    for lane in lanes(mask) {
        paired(context.block, op.pair, 1 << lane)?;
        let work = match &op.op {
            Tcgen05Op::Multiply(product) => {
                let multiply = multiplication(context, rows, op.pair, product, lane)?;
                context.block.charged += multiply.product.cost();
                TensorWork::Multiply(Box::new(multiply))
            }
            Tcgen05Op::Copy(copy) => {
                context.block.charged += u64::from(copy.form.columns());
                TensorWork::Copy(Box::new(copying(context, rows, op.pair, copy, lane)?))
            }
            Tcgen05Op::Shift(shift) => {
                context.block.charged += u64::from(SHIFT[1]);
                TensorWork::Shift(Box::new(shifting(context, rows, op.pair, shift, lane)?))
            }
            Tcgen05Op::Commit(commit) => arrival(context, rows, commit, lane)?,
        };
        check_work(context, &work, lane);
        let (block, number) = (context.block.index, context.block.number);
        let by = Issuer { block, number, warp: context.warp.number, lane, pc: context.pc };
        let memory = context.block.tensor_memory();
        if memory.tasks.len() >= MAX_TASKS {
            return Err(invalid(
                1 << lane,
                format!("more than {MAX_TASKS} products and arrivals that nobody waited for"),
            ));
        }
        memory.tasks.push(Task { by, work });
        context.launch.check_time(1 << lane)?;
    }
    if context.launch.asynchrony == Asynchrony::Early {
        finish(context.block, context.launch, context.monitor)?;
    }
    Ok(())
}

/// The product that a lane asks for, checked.
fn multiplication<M: Monitor>(
    context: &mut Context<'_, '_, M>,
    rows: Rows,
    pair: bool,
    op: &TmemProduct,
    lane: usize,
) -> Checked<Multiply> {
    let mask = 1 << lane;
    let frame = context.frame_local();
    let bits = rows.lane(op.descriptor, lane);
    let product = Product::decode(op.kind, op.scales.0, pair, bits)
        .map_err(|message| invalid(mask, format!("the instruction descriptor {bits:#010x} {message}")))?;
    let descriptor = |row: R, what: &str| descriptor(rows, row, lane, what);
    let d = Cell::at(addresses(rows, frame, &op.d)[lane] as u32);
    let b = descriptor(op.b, "B")?;
    let a = match &op.a {
        TmemA::Shared(row) => OperandA::Shared(descriptor(*row, "A")?),
        TmemA::Tmem(address) => OperandA::Tmem(Cell::at(addresses(rows, frame, address)[lane] as u32)),
    };
    if let OperandA::Tmem(_) = a {
        product
            .check_a_in_tmem()
            .map_err(|message| invalid(mask, format!("the instruction descriptor {bits:#010x} {message}")))?;
    }
    // CUTLASS has the scale factor ids in the upper two bits of these addresses too.
    let scales: Vec<Cell> =
        op.scales.1.iter().map(|at| Cell::at(addresses(rows, frame, at)[lane] as u32 & 0x3fff_ffff)).collect();
    let scales = <[Cell; 2]>::try_from(scales).ok();
    let ranks = ranks_of(context.block, pair);
    let (predicate, negated) = op.accumulate;
    let accumulates = (*context.predicate(predicate) >> lane & 1 == 1) != negated;
    let words: Vec<u32> = op.disabled.iter().map(|row| rows.lane(*row, lane)).collect();
    let disabled = (0..ranks.len()).map(|at| words.as_chunks::<4>().0.get(at).copied().unwrap_or_default()).collect();
    let scale = accumulates.then(|| 0.5f64.powi(op.scale as i32));
    let mut multiply = Multiply { product, ranks, d, a, b, scales, scale, disabled, reads: None };
    if context.launch.sanitised {
        multiply.reads = Some(multiply.shared_ranges());
    }
    for rank in &multiply.ranks {
        let block = running(context.block, *rank, TMEM_PRODUCT, mask)?;
        for (what, tile, found) in multiply.tiles() {
            check_tile(TMEM_PRODUCT, what, tile, found, (block.shared_bytes, mask))?;
        }
        let reached = product.lanes().max().unwrap_or(0);
        let within = |what: &str, cell: Cell, columns: u32| {
            if cell.lane + reached >= LANES {
                let message =
                    format!("tcgen05.mma with {what} at {cell}, which has {} lanes from there on", reached + 1);
                return Err(invalid(mask, message));
            }
            check_columns(block, cell.column..cell.column + columns, &format!("tcgen05.mma with {what} in"), mask)
        };
        within("D", d, product.columns_of_d())?;
        if let OperandA::Tmem(a) = a {
            within("A", a, product.columns_of_a())?;
        }
        for (cell, extent) in scales.iter().flatten().zip(product.scaled()) {
            if cell.lane != 0 {
                return Err(invalid(mask, format!("tcgen05.mma with scales at {cell}: they begin at lane 0")));
            }
            let columns = cell.column..cell.column + extent.div_ceil(32);
            check_columns(block, columns, "tcgen05.mma with scales in", mask)?;
        }
    }
    Ok(multiply)
}

/// Blocks of the cluster that an instruction of the block is of.
fn ranks_of(block: &Block, pair: bool) -> Vec<u32> {
    if pair { vec![block.rank & !1, block.rank | 1] } else { vec![block.rank] }
}

/// The block of that rank, which has to run.
fn running<'a>(block: &'a mut Block, rank: u32, what: &str, mask: u32) -> Checked<&'a mut Block> {
    cluster::member(block, rank)
        .filter(|block| block.live != 0)
        .ok_or_else(|| invalid(mask, format!("{what} of a pair whose block of rank {rank} does not run (any more)")))
}

/// A descriptor of shared memory. The error names what lies there.
fn descriptor(rows: Rows, row: R, lane: usize, what: &str) -> Checked<Descriptor> {
    let bits = rows.lane_of(row, true, lane);
    Descriptor::of_tcgen05(bits)
        .map_err(|message| invalid(1 << lane, format!("the descriptor {bits:#018x} of {what}: {message}")))
}

/// Checks a tile of an instruction in shared memory of that many bytes.
fn check_tile(instruction: &str, what: &str, tile: Tile, found: Descriptor, (shared, mask): (u64, u32)) -> Checked<()> {
    if let Err(rule) = tile.check_layout(found) {
        return Err(invalid(mask, format!("the descriptor {:#018x} of {what}: {rule}", found.bits)));
    }
    match tile.outside(found, shared) {
        Some((address, place)) => Err(super::wgmma::outside(instruction, what, found, (address, place), shared)),
        None => Ok(()),
    }
}

/// The shift that a lane asks for, checked.
fn shifting<M: Monitor>(
    context: &mut Context<'_, '_, M>,
    rows: Rows,
    pair: bool,
    op: &TmemShift,
    lane: usize,
) -> Checked<ShiftLanes> {
    let mask = 1 << lane;
    let at = Cell::at(addresses(rows, context.frame_local(), &op.first)[lane] as u32);
    let [lanes, columns] = SHIFT;
    if at.lane >= LANES || !at.lane.is_multiple_of(lanes) {
        return Err(invalid(mask, format!("{TMEM_SHIFT} at {at}: it begins at lane 0, 32, 64 or 96")));
    }
    let ranks = ranks_of(context.block, pair);
    for rank in &ranks {
        let block = running(context.block, *rank, TMEM_SHIFT, mask)?;
        check_columns(block, at.column..at.column + columns, "tcgen05.shift of", mask)?;
    }
    Ok(ShiftLanes { ranks, at })
}

/// The copy that a lane asks for, checked.
fn copying<M: Monitor>(
    context: &mut Context<'_, '_, M>,
    rows: Rows,
    pair: bool,
    op: &SharedToTmem,
    lane: usize,
) -> Checked<CopyToTmem> {
    let mask = 1 << lane;
    let to = Cell::at(addresses(rows, context.frame_local(), &op.to)[lane] as u32);
    let from = descriptor(rows, op.from, lane, "the rows")?;
    let tile = op.form.tile();
    let ranks = ranks_of(context.block, pair);
    let reads = context.launch.sanitised.then(|| ranges(tile.addresses(from).map(|(address, _)| address).collect()));
    let last = op.form.lanes(tile.extent as u32 - 1).max().unwrap_or(0);
    if to.lane + last >= LANES {
        return Err(invalid(mask, format!("{TMEM_COPY} to {to}, which has {} lanes from there on", last + 1)));
    }
    for rank in &ranks {
        let block = running(context.block, *rank, TMEM_COPY, mask)?;
        check_tile(TMEM_COPY, "its rows", tile, from, (block.shared_bytes, mask))?;
        check_columns(block, to.column..to.column + op.form.columns(), "tcgen05.cp to", mask)?;
    }
    Ok(CopyToTmem { form: op.form, ranks, to, from, reads })
}

/// Reports the memory of a product, a copy or a shift to a sanitiser: its tiles in the block's own shared memory, and its cells.
fn check_work<M: Monitor>(context: &mut Context<'_, '_, M>, work: &TensorWork, lane: usize) {
    let at = context.at();
    let Context { launch, block, monitor, warp, pc, .. } = context;
    if let Some(tracer) = monitor.tracer() {
        tracer.tmem_used(launch, block, warp.number, work.uses());
    }
    let Some(sanitiser) = monitor.sanitiser() else { return };
    if let Some(reads) = work.reads() {
        let by = Issuer { block: block.index, number: block.number, warp: warp.number, lane, pc: *pc };
        for rank in work.ranks() {
            sanitiser.product_asked(launch, block, *rank, by, reads);
        }
    }
    let is_read = |kind: TmemUse| match work {
        TensorWork::Multiply(multiply) => kind == TmemUse::Operand || multiply.scale.is_some(),
        _ => false,
    };
    for (what, cells, kind) in work.uses() {
        for rank in work.ranks() {
            let owner = if *rank == block.rank { &**block } else { &block.peers[*rank as usize] };
            sanitiser.tmem_accessed(at, [block, owner], (warp.number, 1 << lane), &cells, kind);
        }
        let will_write =
            |other: &TensorWork| other.uses().iter().any(|(_, of, kind)| kind.writes() && of.meets(&cells));
        if !is_read(kind) || block.work_under_way().any(|(_, other)| will_write(other)) {
            continue;
        }
        let unwritten = block.tensor.as_ref().and_then(|memory| memory.first_unwritten(&cells));
        if let Some(cell) = unwritten {
            let message = format!("tcgen05.mma reads {what} in tensor memory that was never written, at {cell}");
            sanitiser.report(at, *Problem::new(FaultKind::UninitialisedRead, 1 << lane, message));
        }
    }
}

/// The arrival that a lane asks for, checked.
fn arrival<M: Monitor>(
    context: &mut Context<'_, '_, M>,
    rows: Rows,
    commit: &TmemCommit,
    lane: usize,
) -> Checked<TensorWork> {
    let address = addresses(rows, context.frame_local(), &commit.barrier)[lane];
    let at = cluster::offset_of(address);
    if !at.is_multiple_of(8) || at + 8 > context.block.shared_bytes {
        return Err(mbarrier::invalid(lane, address, "an mbarrier has to be in shared memory".to_owned()));
    }
    let ranks: Vec<u32> = match commit.multicast {
        Some(row) => lanes(rows.lane(row, lane) & 0xffff).map(|rank| rank as u32).collect(),
        None => match Owner::of(context.block, cluster::code_of(address)) {
            Some(Owner::Peer(rank)) => vec![rank],
            _ => vec![context.block.rank],
        },
    };
    for rank in &ranks {
        match cluster::member(context.block, *rank) {
            Some(block) => mbarrier::check(block, lane, at)?,
            None => return Err(invalid(1 << lane, format!("tcgen05.commit for block {rank} of a smaller cluster"))),
        }
    }
    Ok(TensorWork::Arrive { at, ranks })
}

/// The tensor memory of the cluster's block of that rank.
fn tensor_of(block: &mut Block, rank: u32) -> Option<&mut TensorMemory> {
    cluster::member(block, rank)?.tensor.as_deref_mut()
}

/// Does the work that the mbarrier at `at` in the block's shared memory waits for, until its phase `is_over`.
pub(crate) fn arrive_for<M: Monitor>(
    block: &mut Block,
    launch: &Launch<'_>,
    monitor: &mut M,
    at: u64,
    is_over: impl Fn(&mut Block) -> bool,
) -> Checked<()> {
    let own = block.rank;
    let is_its = |task: &Task| match &task.work {
        TensorWork::Arrive { at: there, ranks } => *there == at && ranks.contains(&own),
        _ => false,
    };
    for rank in 0..block.peers.len().max(1) as u32 {
        while let Some(last) = tensor_of(block, rank).and_then(|memory| memory.tasks.iter().position(is_its))
            && !is_over(block)
        {
            let Some(memory) = tensor_of(block, rank) else { break };
            // An arrival tells of its own thread's work.
            let Issuer { warp, lane, .. } = memory.tasks[last].by;
            let is_due = |task: &mut Task| task.by.warp == warp && task.by.lane == lane;
            let due: Vec<Task> = memory.tasks.extract_if(..=last, is_due).collect();
            due.into_iter().try_for_each(|task| perform(block, launch, monitor, task))?;
        }
    }
    Ok(())
}

/// Called when a block has ended: does what is left.
pub(crate) fn end<M: Monitor>(block: &mut Block, launch: &Launch<'_>, monitor: &mut M) -> Checked<()> {
    if let Some(sanitiser) = monitor.sanitiser() {
        sanitiser.tmem_left(launch, block);
    }
    if block.tensor.is_some() {
        lock(&launch.columns).forget(block.number);
    }
    finish(block, launch, monitor)
}

/// Does all the work that threads of the block have asked for.
fn finish<M: Monitor>(block: &mut Block, launch: &Launch<'_>, monitor: &mut M) -> Checked<()> {
    let tasks = block.tensor.as_mut().map(|memory| std::mem::take(&mut memory.tasks));
    tasks.into_iter().flatten().try_for_each(|task| perform(block, launch, monitor, task))
}

fn perform<M: Monitor>(block: &mut Block, launch: &Launch<'_>, monitor: &mut M, task: Task) -> Checked<()> {
    match task.work {
        TensorWork::Multiply(ref multiply) => self::multiply(block, multiply),
        TensorWork::Copy(ref copy) => self::copy(block, copy),
        TensorWork::Shift(ref shift) => {
            for rank in &shift.ranks {
                let Some(owner) = cluster::member(block, *rank) else { continue };
                owner.tensor_memory().shift(shift.at);
            }
        }
        TensorWork::Arrive { at, ranks } => return arrive(block, launch, monitor, task.by, at, &ranks),
    }
    if let Some(sanitiser) = monitor.sanitiser() {
        for rank in task.work.ranks() {
            let owner = launch.block_of_cluster(block.cluster, *rank);
            sanitiser.tmem_done(launch, owner, task.by, &task.work);
        }
    }
    Ok(())
}

/// Arrives at the mbarriers at that offset in the shared memory of those blocks.
fn arrive<M: Monitor>(
    block: &mut Block,
    launch: &Launch<'_>,
    monitor: &mut M,
    by: Issuer,
    at: u64,
    ranks: &[u32],
) -> Checked<()> {
    for rank in ranks {
        if let Some(sanitiser) = monitor.sanitiser() {
            let owner = launch.block_of_cluster(block.cluster, *rank);
            if let Some(asked) = cluster::member(block, launch.rank(by.block.at)) {
                sanitiser.tmem_arrives(launch, asked, by, Handover::Shared(owner, at));
            }
        }
        let Some(target) = cluster::member(block, *rank) else { continue };
        if let Err(message) = mbarrier::arrive(target, at, 1, false, false) {
            let Issuer { block, warp, lane, pc, .. } = by;
            let place = launch.whereabouts(pc, block, warp, 1 << lane, "asks for the arrival");
            let problem = mbarrier::invalid(lane, at, message).note(place);
            super::transfers::report(launch, monitor, by, problem)?;
        }
    }
    Ok(())
}

/// Executes a copy, whose addresses have been checked.
fn copy(block: &mut Block, copy: &CopyToTmem) {
    for rank in &copy.ranks {
        let Some(owner) = cluster::member(block, *rank) else { continue };
        let read: Vec<(u128, [usize; 2])> = {
            let chunk = chunks(owner);
            copy.form.tile().addresses(copy.from).map(|(address, place)| (chunk(address), place)).collect()
        };
        let memory = owner.tensor_memory();
        for (chunk, [row, byte]) in read {
            for lane in copy.form.lanes(row as u32) {
                for (word, column) in copy.form.words(chunk).into_iter().zip(byte as u32 / 4..) {
                    memory.set(moved(copy.to, Cell { lane, column }), word);
                }
            }
        }
    }
}

/// Executes a product. Its addresses have been checked; a block whose tensor memory was freed since still has it.
fn multiply(block: &mut Block, multiply: &Multiply) {
    let Multiply { product, ranks, d, a, b, scales, scale, disabled, .. } = multiply;
    // B has columns of each block.
    let parts: Vec<Vec<f64>> =
        ranks.iter().filter_map(|rank| Some(product.read_b(*b, &chunks(cluster::member(block, *rank)?)))).collect();
    let mut words = Vec::new();
    for (rank, disabled) in ranks.iter().zip(disabled) {
        let Some(owner) = cluster::member(block, *rank) else { continue };
        let mut values = match a {
            OperandA::Shared(a) => product.read_a(*a, &chunks(owner)),
            OperandA::Tmem(a) => {
                let memory = owner.tensor_memory();
                product.gather_a(&|cell| memory.get(moved(*a, cell)))
            }
        };
        let memory = owner.tensor_memory();
        let k = values.len() / product.rows() as usize;
        let factors = scales.and_then(|at| product.factors(&|which, cell| memory.get(moved(at[which], cell))));
        if let Some(factors) = &factors {
            Factors::apply(&factors.a, [product.rows() as usize, k], &mut values, |at| [at / k, at % k]);
        }
        let mut scaled = Vec::new();
        for (row, values) in (0..).zip(values.chunks_exact(k)) {
            let mut first = 0;
            if let Some(factors) = &factors
                && row % QUARTER == 0
            {
                scaled = scaled_parts(&parts, &factors.b[(row / QUARTER) as usize], k);
            }
            for part in if factors.is_some() { &scaled } else { &parts } {
                let columns = (part.len() / k) as u32;
                let cells = || (first..first + columns).map(|column| moved(*d, product.cell(row, column)));
                let before: Vec<u32> = cells().map(|cell| memory.get(cell)).collect();
                product.row(values, part, scale.map(|scale| (&before[..], scale)), &mut words);
                for (cell, word) in cells().zip(&words) {
                    if disabled[(cell.lane / 32) as usize] >> (cell.lane % 32) & 1 == 0 {
                        memory.set(cell, *word);
                    }
                }
                first += columns;
            }
        }
    }
}

/// B of each block, as [k, column], times its scales, of all columns.
fn scaled_parts(parts: &[Vec<f64>], scales: &[f64], k: usize) -> Vec<Vec<f64>> {
    let columns = parts.iter().map(|part| part.len() / k).sum();
    let mut first = 0;
    let mut parts = parts.to_vec();
    for part in &mut parts {
        let width = part.len() / k;
        Factors::apply(scales, [columns, k], part, |at| [first + at % width, at / width]);
        first += width;
    }
    parts
}
