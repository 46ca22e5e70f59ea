//! `wgmma`: products that the four warps of a warpgroup ask for together, and wait for later.
//!
//! # When a product happens
//! As late as PTX allows: when a warp waits for it ([`wait`]). Then all four warps have asked for it, and the tiles that it
//! reads are read, for all of them: a thread that goes on after its wait may tell others to overwrite them. Each warp's
//! registers, though, are read and written at its own wait. So a kernel that forgets to wait finds the old values in its
//! accumulators, and one that overwrites a tile too early multiplies the new values, each time and not only sometimes. On
//! request it happens earlier ([`Asynchrony`], [`complete_due`]): at the latest at the wait all the same.
//!
//! To compilers registers are values, so that an accumulator in flight may be copied from one register to another where a
//! loop begins anew. [`copied`] makes the other register one more name of the result.

use super::context::{Context, Fail, Step};
use super::elements::chunks;
use crate::exec::state::asynchrony::Asynchrony;
use crate::exec::state::block::Block;
use crate::exec::state::launch::Launch;
use crate::exec::state::problem::Problem;
use crate::exec::state::products::*;
use crate::exec::state::rows::{Rows, Shape};
use crate::exec::state::scene::Scene;
use crate::exec::state::transfers::Issuer;
use crate::exec::state::warp::{Frame, State, Warp};
use crate::exec::watch::monitor::Monitor;
use crate::exec::watch::wgmma_checks::PRODUCT_NAME;
use crate::fault::FaultKind;
use crate::ir::*;
use crate::lanes::mask_of;
use crate::matrix::{Descriptor, InvalidMetadata, Register};

/// Maximum number of products in flight per warp.
const MAX_PRODUCTS: u64 = 256;

/// Maximum number of groups that a warp may wait for: `wgmma.wait_group` names at most 255 that it does not wait for.
const MAX_GROUPS: usize = 256;

/// Maximum number of registers that are further names of results.
const MAX_NAMES: usize = 1024;

/// Checks that the warp is whole, and one of a whole warpgroup.
pub(crate) fn whole<M: Monitor>(context: &mut Context<'_, '_, M>, group: u32) -> Result<(), Box<Problem>> {
    let threads = context.launch.threads();
    if group != u32::MAX {
        let message = format!("wgmma in a warp of which only {} lanes are left", group.count_ones());
        return Err(Problem::new(FaultKind::InvalidWgmma, group, message));
    }
    if (context.warp.number / WARPS + 1) * WARPS * 32 > threads {
        let message = format!("wgmma in a warpgroup that is not whole: the block has {threads} threads");
        return Err(Problem::new(FaultKind::InvalidWgmma, group, message));
    }
    Ok(())
}

/// A 64-bit register that has to be the same in all lanes.
fn uniform(rows: Rows, row: R, what: &str) -> Result<Descriptor, Box<Problem>> {
    let first = rows.lane_of(row, true, 0);
    if rows.shape(row, true) != Shape::Same {
        let others = mask_of(|lane| rows.lane_of(row, true, lane) != first);
        if others != 0 {
            let lane = others.trailing_zeros() as usize;
            let message = format!("the descriptor of {what} is not the same in all lanes");
            let note = format!("lane 0 has {first:#x}, lane {lane} has {:#x}", rows.lane_of(row, true, lane));
            return Err(Problem::new(FaultKind::InvalidWgmma, others, message).note(note));
        }
    }
    Ok(Descriptor::of_wgmma(first))
}

/// Reports the warp's reads of a product to a sanitiser: its rows of A, and B.
fn check_tiles<M: Monitor>(context: &mut Context<'_, '_, M>, number: u64) {
    let Context { launch, block, monitor, warp, .. } = context;
    let Some(sanitiser) = monitor.sanitiser() else { return };
    let (index, member) = ((warp.number / WARPS) as usize, (warp.number % WARPS) as usize);
    let reach = block.wgmmas.groups[index].product(number).and_then(|product| product.reach.as_ref());
    let Some(Reach { a, b }) = reach else { return };
    let ranges: Ranges = a[member].iter().chain(b).copied().collect();
    let by = Issuer { block: block.index, number: block.number, warp: warp.number, lane: 0, pc: context.pc };
    let rank = block.rank;
    sanitiser.product_asked(launch, block, rank, by, &ranges);
}

/// Called when the warp is about to get a turn: completes the products whose time has come.
#[inline(always)]
pub(crate) fn pass_time<M: Monitor>(
    warp: &mut Warp,
    block: &mut Block,
    launch: &Launch<'_>,
    monitor: &mut M,
) -> Result<(), Fail> {
    if launch.asynchrony == Asynchrony::Late || !warp.multiplies {
        return Ok(());
    }
    let group = &mut block.wgmmas.groups[(warp.number / WARPS) as usize];
    group.members[(warp.number % WARPS) as usize].turns += 1;
    let mut context = Context { warp, block, launch, frame: Frame::default(), monitor, pc: 0 };
    complete_due(&mut context).map_err(|problem| (problem, context.pc))
}

/// Completes the products of the warp that need not wait for a `wgmma.wait_group`, in their order.
#[inline(never)]
fn complete_due<M: Monitor>(context: &mut Context<'_, '_, M>) -> Result<(), Box<Problem>> {
    let number = context.warp.number;
    let (index, at) = ((number / WARPS) as usize, (number % WARPS) as usize);
    loop {
        let group = &mut context.block.wgmmas.groups[index];
        let (first, end) = (group.members[at].done, group.members[at].issued);
        let Some(product) = group.product(first) else { return Ok(()) };
        let pc = product.pc;
        let turns = context.launch.asynchrony.turns(context.block.number, u64::from(number) << 32 | first);
        let due = turns.is_some_and(|turns| turns <= group.members[at].turns);
        if first == end || !due || group.members.iter().any(|member| member.issued <= first) {
            return Ok(());
        }
        group.members[at].turns = 0;
        context.pc = pc;
        complete(context, first + 1)?;
    }
}

/// Reports a tile to a sanitiser that does not begin where the pattern of its swizzle does.
fn check_alignment<M: Monitor>(
    context: &mut Context<'_, '_, M>,
    a: Option<Descriptor>,
    b: Descriptor,
) -> Result<(), Box<Problem>> {
    if !context.launch.sanitised {
        return Ok(());
    }
    for (what, descriptor) in [("A", a), ("B", Some(b))] {
        let Some(descriptor) = descriptor else { continue };
        let pattern = 8 * descriptor.swizzle();
        let line = descriptor.start() >> 7;
        if descriptor.swizzle() != 16 && (line ^ descriptor.base_offset()) & (pattern / 128 - 1) != 0 {
            let message = format!("the tile of {what} does not begin where the pattern of its swizzle does");
            let note = format!(
                "it begins at {:#x}, which is no multiple of {pattern}; the descriptor's base offset is {}",
                descriptor.start() / 128 * 128,
                descriptor.base_offset()
            );
            let problem = Problem::new(FaultKind::DescriptorAlignment, u32::MAX, message).note(note);
            context
                .report(problem.note(format!("the descriptor of {what} is {:#018x}: {descriptor}", descriptor.bits)))?;
        }
    }
    Ok(())
}

/// `wgmma.mma_async`: records the product.
#[inline(never)]
pub(crate) fn issue<M: Monitor>(
    context: &mut Context<'_, '_, M>,
    rows: Rows,
    op: &WgmmaOp,
    group: u32,
) -> Result<(), Box<Problem>> {
    whole(context, group)?;
    let b = uniform(rows, op.b, "B")?;
    let a = match op.a {
        WgmmaA::Descriptor(row) => Some(uniform(rows, row, "A")?),
        WgmmaA::Registers(_) => None,
    };
    let (predicate, negated) = op.accumulate;
    let bits = *context.predicate(predicate);
    let bits = if negated { !bits } else { bits };
    if bits != 0 && bits != u32::MAX {
        return Err(Problem::new(FaultKind::InvalidWgmma, bits, "scale-d is true in some lanes only"));
    }
    let accumulate = bits != 0;
    check_alignment(context, a, b)?;
    let shared_bytes = context.block.shared_bytes;
    let (pc, frame) = (context.pc, context.frame);
    let number = context.warp.number;
    let warpgroup = &mut context.block.wgmmas.groups[(number / WARPS) as usize];
    let member = (number % WARPS) as usize;
    let at = warpgroup.members[member].issued;
    if at - warpgroup.members[member].done >= MAX_PRODUCTS {
        let message = format!("more than {MAX_PRODUCTS} wgmma.mma_async that nobody waited for");
        return Err(Problem::new(FaultKind::InvalidWgmma, group, message));
    }
    let index = (at - warpgroup.first) as usize;
    match warpgroup.products.get_mut(index) {
        Some(product) => {
            let theirs = (product.pc, product.a, product.b, product.accumulate);
            if theirs != (pc, a, b, accumulate) {
                return Err(unlike(theirs, (pc, a, b, accumulate), number));
            }
            product.frames[member] = frame;
        }
        None => {
            for (what, tile, descriptor) in
                [("A", op.wgmma.tile_a(op.mn_major[0]), a), ("B", op.wgmma.tile_b(op.mn_major[1]), Some(b))]
            {
                let Some(descriptor) = descriptor else { continue };
                if let Some((address, place)) = tile.outside(descriptor, shared_bytes) {
                    return Err(outside(PRODUCT_NAME, what, descriptor, (address, place), shared_bytes));
                }
            }
            let frames = [frame; WARPS as usize];
            let reach = context.launch.sanitised.then(|| Reach::new(op, a, b));
            let product = Product { pc, warp: number, reach, a, b, accumulate, frames, read: 0, tiles: None };
            warpgroup.products.push_back(product);
            context.block.wgmmas.unread += 1;
            context.block.arrival_bytes += bytes_of(context.launch, pc).unwrap_or(0);
        }
    }
    context.block.wgmmas.groups[(number / WARPS) as usize].members[member].issued += 1;
    context.warp.multiplies = true;
    context.block.charged += op.wgmma.cost();
    check_tiles(context, at);
    if context.launch.asynchrony != Asynchrony::Late {
        complete_due(context)?;
    }
    Ok(())
}

type Operands = (usize, Option<Descriptor>, Descriptor, bool);

/// The problem of warps that execute different products.
#[cold]
fn unlike(theirs: Operands, ours: Operands, warp: u32) -> Box<Problem> {
    let differ = if theirs.0 != ours.0 {
        "execute different wgmma.mma_async at the same time".to_owned()
    } else if theirs.3 != ours.3 {
        "give a wgmma.mma_async different scale-d".to_owned()
    } else {
        let (what, theirs, ours) = match (theirs.1, ours.1) {
            (Some(one), Some(other)) if one != other => ("A", one.bits, other.bits),
            _ => ("B", theirs.2.bits, ours.2.bits),
        };
        format!("give a wgmma.mma_async different descriptors of {what}: {theirs:#x}, and here {ours:#x}")
    };
    Problem::new(FaultKind::InvalidWgmma, u32::MAX, format!("the warps of a warpgroup {differ}")).note(format!(
        "this is warp {warp}, of warps {} to {}",
        warp / WARPS * WARPS,
        warp / WARPS * WARPS + WARPS - 1
    ))
}

/// The problem of a tile that leaves shared memory.
#[cold]
pub(crate) fn outside(
    product: &str,
    what: &str,
    descriptor: Descriptor,
    (address, place): (u64, [usize; 2]),
    bytes: u64,
) -> Box<Problem> {
    let [at, k] = place;
    let axis = if what == "A" { "row" } else { "column" };
    let message = format!("{product} reads {what} outside shared memory: {axis} {at}, k = {k}");
    Problem::new(FaultKind::OutOfBounds, u32::MAX, message)
        .at(address)
        .note(format!("offset {address:#x}; the block has {bytes} bytes of shared memory"))
        .note(format!("the descriptor of {what} is {:#018x}: {descriptor}", descriptor.bits))
}

/// `wgmma.commit_group`: makes a group of the products so far.
pub(crate) fn commit<M: Monitor>(context: &mut Context<'_, '_, M>, group: u32) -> Result<(), Box<Problem>> {
    whole(context, group)?;
    let number = context.warp.number;
    let member = &mut context.block.wgmmas.groups[(number / WARPS) as usize].members[(number % WARPS) as usize];
    if member.groups.len() == MAX_GROUPS {
        member.groups.pop_front();
    }
    member.groups.push_back(member.issued);
    Ok(())
}

/// `wgmma.wait_group`: completes all groups but the latest `n`.
#[inline(never)]
pub(crate) fn wait<M: Monitor>(context: &mut Context<'_, '_, M>, n: u8, group: u32) -> Result<Step, Box<Problem>> {
    whole(context, group)?;
    let number = context.warp.number;
    let member = &context.block.wgmmas.groups[(number / WARPS) as usize].members[(number % WARPS) as usize];
    let Some(last) = member.groups.len().checked_sub(usize::from(n) + 1) else { return Ok(Step::Done) };
    let step = complete(context, member.groups[last])?;
    if step == Step::Done {
        let member = &mut context.block.wgmmas.groups[(number / WARPS) as usize].members[(number % WARPS) as usize];
        member.groups.drain(..=last);
    }
    Ok(step)
}

/// Completes all products that the warp has asked for.
#[inline(never)]
pub(crate) fn complete_all<M: Monitor>(context: &mut Context<'_, '_, M>) -> Result<Step, Box<Problem>> {
    let number = context.warp.number;
    let issued = context.block.wgmmas.groups[(number / WARPS) as usize].members[(number % WARPS) as usize].issued;
    complete(context, issued)
}

/// Completes the warp's products with numbers below `end`, unless another warp has not asked for them yet.
fn complete<M: Monitor>(context: &mut Context<'_, '_, M>, end: u64) -> Result<Step, Box<Problem>> {
    let number = context.warp.number;
    let (index, member) = ((number / WARPS) as usize, (number % WARPS) as usize);
    let mut warpgroup = std::mem::take(&mut context.block.wgmmas.groups[index]);
    if warpgroup.members.iter().any(|member| member.issued < end) {
        context.block.wgmmas.groups[index] = warpgroup;
        return Ok(Step::WaitForWarps);
    }
    let first = warpgroup.first;
    for product in warpgroup.products.iter_mut().take(end.saturating_sub(first) as usize) {
        read_tiles(context, product);
    }
    let mut result = Ok(Step::Done);
    while warpgroup.members[member].done < end {
        let at = warpgroup.members[member].done;
        let Some(product) = warpgroup.product(at) else { break };
        let read = product.read;
        match multiply(context, product, member) {
            Ok(d) => {
                let of_first = context.warp.frame_rows(Frame::default());
                for name in warpgroup.members[member].names.extract_if(.., |name| name.of.0 == at) {
                    of_first.set(name.row, name.lanes, d[name.of.1]);
                }
            }
            Err(problem) => {
                result = Err(problem);
                break;
            }
        }
        if let Some(sanitiser) = context.monitor.sanitiser() {
            sanitiser.product_waited(context.launch, context.block, number, read);
        }
        warpgroup.members[member].done += 1;
    }
    let freed = warpgroup.retire(context.launch);
    context.block.arrival_bytes = context.block.arrival_bytes.saturating_sub(freed);
    let mine = &warpgroup.members[member];
    context.warp.multiplies = mine.done < mine.issued;
    context.block.wgmmas.groups[index] = warpgroup;
    result
}

/// Reads the tiles of a product from shared memory, unless that has happened.
fn read_tiles<M: Monitor>(context: &mut Context<'_, '_, M>, product: &mut Product) {
    let Some(op) = op_at(context.launch, product.pc) else { return };
    if product.tiles.is_some() {
        return;
    }
    let read = chunks(context.block);
    let a = product.a.map(|descriptor| op.wgmma.read_a(descriptor, op.mn_major[0], &read));
    product.tiles = Some((a, op.wgmma.read_b(product.b, op.mn_major[1], &read)));
    drop(read);
    context.block.wgmmas.unread -= 1;
    let Context { monitor, launch, block, warp, .. } = context;
    if let Some(sanitiser) = monitor.sanitiser() {
        let ranges = product.reach.iter().flat_map(Reach::all).flatten().copied();
        product.read = sanitiser.product_read(launch, block, (warp.number / WARPS, product.pc), ranges);
    }
}

/// A warp's part of a product. Returns the new values of the registers of D.
fn multiply<M: Monitor>(
    context: &mut Context<'_, '_, M>,
    product: &Product,
    member: usize,
) -> Result<Vec<Register>, Box<Problem>> {
    let (Some(op), Some((a, b))) = (op_at(context.launch, product.pc), &product.tiles) else { return Ok(Vec::new()) };
    let rows = context.warp.frame_rows(product.frames[member]);
    let a = match (&op.a, a) {
        (WgmmaA::Registers(registers), _) => {
            let registers: Vec<Register> = registers.iter().map(|row| rows.get(*row)).collect();
            op.wgmma.gather_a(&registers)
        }
        (WgmmaA::Descriptor(_), Some(a)) => op.wgmma.rows_of(a, member),
        (WgmmaA::Descriptor(_), None) => return Ok(Vec::new()),
    };
    let metadata = op.metadata.map(|row| rows.get(row).map(u64::from));
    let mut d: Vec<Register> = op.d.iter().map(|row| rows.get(*row)).collect();
    op.wgmma
        .multiply((a, metadata.as_ref()), op.negated, b, product.accumulate, &mut d)
        .map_err(|InvalidMetadata { lane, message }| Problem::new(FaultKind::InvalidMetadata, 1 << lane, message))?;
    for (row, values) in op.d.iter().zip(&d) {
        rows.set(*row, u32::MAX, *values);
    }
    Ok(d)
}

/// Lets lanes go on that waited for other warps, if those have come.
#[cold]
pub(crate) fn resume<M: Monitor>(
    warp: &mut Warp,
    block: &mut Block,
    launch: &Launch<'_>,
    monitor: &mut M,
) -> Result<bool, Fail> {
    let Some(split) = warp.splits.iter().find(|split| split.state == State::Warpgroup) else { return Ok(false) };
    let (pc, frame) = (split.pc as usize, split.frame);
    let waits = |split: &crate::exec::state::warp::Split| split.state == State::Warpgroup && split.pc as usize == pc;
    let mask = warp.splits.iter().filter(|split| waits(split)).fold(0, |mask, split| mask | split.mask);
    let mut context = Context { warp: &mut *warp, block: &mut *block, launch, frame, monitor: &mut *monitor, pc };
    let n = match &launch.program.code[pc].op {
        Op::Together(together) => match together.op {
            TogetherOp::WgmmaWait { n } => Some(n),
            _ => None,
        },
        _ => None,
    };
    let step = match n {
        Some(n) => wait(&mut context, n, mask),
        // A function's end, which comes after it.
        None => complete_all(&mut context),
    };
    if step.map_err(|problem| (problem, pc))? == Step::WaitForWarps {
        return Ok(false);
    }
    if n.is_some() {
        monitor.after(&Scene::together(launch, block, warp, frame, pc, mask));
    }
    for split in warp.splits.iter_mut().filter(|split| waits(split)) {
        split.pc += u32::from(n.is_some());
        split.state = State::Ready;
    }
    Ok(true)
}

/// A `mov` from `a` to `d` while products are in flight: if `a` is to get a result, `d` gets it too.
#[cold]
#[inline(never)]
pub(crate) fn copied(warp: &Warp, block: &mut Block, launch: &Launch<'_>, frame: Frame, [d, a]: [R; 2], mask: u32) {
    let warpgroup = &mut block.wgmmas.groups[(warp.number / WARPS) as usize];
    let at = (warp.number % WARPS) as usize;
    let Member { issued, done, .. } = warpgroup.members[at];
    let of_product = |number: u64| {
        let product = warpgroup.product(number)?;
        let op = op_at(launch, product.pc).filter(|_| product.frames[at].rows == frame.rows)?;
        Some((number, op.d.iter().position(|row| *row == a)?))
    };
    let mut sources = Vec::new();
    match (done..issued).rev().find_map(of_product) {
        Some(of) => sources.push((of, mask)),
        None => {
            let names = warpgroup.members[at].names.iter().filter(|name| name.row == frame.rows + a);
            sources.extend(names.map(|name| (name.of, name.lanes & mask)));
        }
    }
    let names = &mut warpgroup.members[at].names;
    let row = frame.rows + d;
    names.iter_mut().filter(|name| name.row == row).for_each(|name| name.lanes &= !mask);
    names.retain(|name| name.lanes != 0);
    for (of, lanes) in sources {
        if lanes != 0 && names.len() < MAX_NAMES {
            names.push(Name { of, row, lanes });
        }
    }
}
