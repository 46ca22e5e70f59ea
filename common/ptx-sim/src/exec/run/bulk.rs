//! `cp.async.bulk`, `cp.reduce.async.bulk`, their forms with tensors, and what completes like them: a thread's request is
//! checked at once, and becomes a [`Transfer`], which is made later.

use std::sync::Arc;

use super::check::{Checked, beyond_cluster, find, for_parts, stray};
use super::context::Context;
use super::mbarrier;
use super::tensor::read_map;
use super::transfers::read_block;
use crate::exec::state::address::addresses;
use crate::exec::state::cluster::{Owner, code_of_rank, offset_of, receivers};
use crate::exec::state::copies::Source;
use crate::exec::state::place::{Kind, Reach};
use crate::exec::state::problem::Problem;
use crate::exec::state::rows::Rows;
use crate::exec::state::transfers::{BYTES_AN_INSTRUCTION, Completes, ElementReduction, Far, Issuer, Transfer};
use crate::exec::watch::monitor::Monitor;
use crate::fault::FaultKind;
use crate::ir::*;
use crate::lanes::lanes;
use crate::memory::{Role, plural};
use crate::scalar::{FloatOp, Mode, Scalar, float_op};
use crate::tensor_map::{Map, TensorElement, Tile};

/// Alignment of sizes and addresses of linear copies.
const GRAIN: u64 = 16;

/// Alignment of a box's address in shared memory.
const BOX_ALIGN: u64 = 128;

/// Source of the rules.
const RULE: &str = "PTX ISA, \"cp.async.bulk\": both addresses and the size are multiples of 16";
const WORDS_RULE: &str = "PTX ISA, \"st.async\": the address is a multiple of the size of what is stored";
const CANCEL_RULE: &str =
    "PTX ISA, \"clusterlaunchcontrol.try_cancel\": after a failure that was seen, a request is undefined behaviour";
const TENSOR_RULE: &str =
    "PTX ISA, \"cp.async.bulk.tensor\": the address in shared memory is a multiple of 128, that of the map of 64";

const MEASURED: &str = "in no manual that we know of; an H200 answers with an illegal instruction";

/// Records the copies that the lanes of `mask` ask for.
#[inline(never)]
pub(crate) fn bulk<M: Monitor>(context: &mut Context<'_, '_, M>, rows: Rows, bulk: &Bulk, mask: u32) -> Checked<()> {
    let frame = context.frame_local();
    let shared = addresses(rows, frame, &bulk.shared);
    let other = addresses(rows, frame, &bulk.other);
    let barrier = bulk.barrier.as_ref().map(|barrier| addresses(rows, frame, barrier));
    for lane in lanes(mask) {
        let ends = Ends { shared: shared[lane], other: other[lane], barrier: barrier.map(|barrier| barrier[lane]) };
        if let Err(problem) = ask(context, rows, bulk, lane, ends) {
            context.report(problem)?;
        }
        context.launch.check_time(1 << lane)?;
    }
    Ok(())
}

/// The addresses of one lane.
struct Ends {
    shared: u64,
    other: u64,
    barrier: Option<u64>,
}

/// Records the copy that one lane asks for; the problem says why it is not possible.
fn ask<M: Monitor>(context: &mut Context<'_, '_, M>, rows: Rows, bulk: &Bulk, lane: usize, ends: Ends) -> Checked<()> {
    let (far, bytes, reduction, align) = match &bulk.shape {
        BulkShape::Bytes(row) => {
            let bytes = u64::from(rows.lane(*row, lane));
            if !bytes.is_multiple_of(GRAIN) {
                let message = format!("bulk copy of {}, not a multiple of {GRAIN}", plural(bytes));
                return Err(Problem::new(FaultKind::InvalidCopy, 1 << lane, message).note(RULE));
            }
            if bytes == 0 {
                return Ok(());
            }
            let far = match bulk.route {
                Route::SharedToShared => {
                    Far::Shared(near(context, lane, offset_of(ends.other), bytes, GRAIN, Kind::Read)?)
                }
                Route::SharedToGlobal => linear(context, lane, ends.other, bytes, Kind::Write)?,
                Route::GlobalToShared | Route::Prefetch => linear(context, lane, ends.other, bytes, Kind::Read)?,
            };
            (far, bytes, element_reduction(bulk.reduction), GRAIN)
        }
        BulkShape::Words { rows: words, wide, bytes } => {
            let word = |row: &R| rows.lane_of(*row, *wide, lane).to_le_bytes();
            let held: Vec<u8> = words.iter().flat_map(|row| word(row).into_iter().take((*bytes).into())).collect();
            let (count, reduction) = (held.len() as u64, element_reduction(bulk.reduction));
            (Far::Bytes(held), count, reduction, count)
        }
        BulkShape::Response => {
            if context.block.transfers.refused {
                let message = "another cluster is to be cancelled after the answer that none can be";
                return Err(Problem::new(FaultKind::InvalidCopy, 1 << lane, message).note(CANCEL_RULE));
            }
            let launch = context.launch;
            // Of a joint launch the last cluster may be another device's.
            let cluster = if launch.is_joint() { None } else { launch.fresh.cancel() };
            let first = cluster.map(|cluster| launch.block_index(launch.block_of_cluster(cluster, 0)).at);
            (Far::Response(first), RESPONSE_BYTES, None, RESPONSE_BYTES)
        }
        BulkShape::Tensor { coordinates, offsets, mode } => {
            let coordinates: Vec<i32> = coordinates.iter().map(|row| rows.lane(*row, lane) as i32).collect();
            let offsets: Vec<u16> = offsets.iter().map(|row| rows.lane(*row, lane) as u16).collect();
            let not_a_map = |message: String| {
                Problem::new(FaultKind::InvalidTensorMap, 1 << lane, format!("no tensor map for this copy: {message}"))
                    .at(ends.other)
            };
            let bytes = read_map(context, lane, ends.other)?;
            let tile = Map::decode(&bytes).and_then(|map| Tile::new(map, &coordinates, &offsets, *mode, bulk.route));
            let tile = tile.map_err(not_a_map)?;
            if let Some(byte) = tile.first_byte().filter(|byte| byte % GRAIN as i64 != 0) {
                let message = format!(
                    "copy of a box that starts at byte {byte} of a row of its tensor, not a multiple of {GRAIN}"
                );
                return Err(Problem::new(FaultKind::InvalidCopy, 1 << lane, message).note(MEASURED));
            }
            if let (Route::SharedToGlobal, TensorMode::Tile, Some(at)) =
                (bulk.route, *mode, coordinates.iter().position(|&coordinate| coordinate < 0))
            {
                let message = format!(
                    "store of a box whose coordinate {at} is {}: it may end outside its tensor, but not start before it",
                    coordinates[at]
                );
                return Err(Problem::new(FaultKind::InvalidCopy, 1 << lane, message).note(MEASURED));
            }
            let reduction = match bulk.reduction {
                Some(Reduction::Tensor(op)) => match reduction_of(tile.element(), op) {
                    Some(reduction) => Some(reduction),
                    None => return Err(not_a_map(format!("{op:?} of elements of {}", tile.element().name()))),
                },
                _ => None,
            };
            if bulk.route == Route::Prefetch {
                return Ok(());
            }
            let bytes = tile.bytes();
            // Before its rows are visited: a map may be of anything.
            let kind = if bulk.route == Route::GlobalToShared { Kind::Write } else { Kind::Read };
            near(context, lane, offset_of(ends.shared), bytes, BOX_ALIGN, kind)?;
            let kind = if bulk.route == Route::GlobalToShared { Kind::Read } else { Kind::Write };
            (tiled(context, lane, tile, kind)?, bytes, reduction, BOX_ALIGN)
        }
    };
    if bulk.route == Route::Prefetch {
        return Ok(());
    }
    let (block, number) = (context.block.index, context.block.number);
    let by = Issuer { block, number, warp: context.warp.number, lane, pc: context.pc };
    context.block.charged += bytes / BYTES_AN_INSTRUCTION;
    let Some(barrier) = ends.barrier else {
        let at = near(context, lane, offset_of(ends.shared), bytes, align, Kind::Read)?;
        let completes = Completes::Group(context.warp.copies.bulk_committed[lane]);
        let transfer = Transfer::new(by, [at, bytes], far, completes, reduction);
        if let Some(sanitiser) = context.monitor.sanitiser() {
            sanitiser.transfer_asked(context.launch, context.block, None, &transfer);
        }
        return context.block.begin_transfer(context.launch, context.monitor, transfer);
    };
    if matches!(far, Far::Shared(_)) && !context.launch.explicit_cluster {
        let message =
            "bulk copy within shared memory in a launch without clusters, which is an illegal instruction to hardware";
        return Err(Problem::new(FaultKind::InvalidCopy, 1 << lane, message));
    }
    let at = near(context, lane, offset_of(ends.shared), bytes, align, Kind::Write)?;
    let barrier_at = near(context, lane, offset_of(barrier), 8, 8, Kind::Atomic)?;
    let owner = live_rank(context, lane, ends.shared)?;
    let own = context.block.rank;
    let of = live_rank(context, lane, barrier)?;
    let is_pair = of.unwrap_or(own) ^ 1 == owner.unwrap_or(own);
    let targets = match &bulk.multicast {
        None if of != owner && !(bulk.pair && is_pair) => {
            let message = "bulk copy to one block of the cluster that completes on the mbarrier of another";
            return Err(Problem::new(FaultKind::InvalidCopy, 1 << lane, message).at(barrier));
        }
        None => vec![owner],
        Some(multicast) => targets(context, lane, receivers(context.launch, rows, multicast, lane))?,
    };
    for target in targets {
        // The source of a copy to another block is read at once: that is one of the orders that PTX allows.
        // Each block of a multicast has an mbarrier of its own; of a pair both have the one of the block that `barrier` is of, first or
        // second (PTX ISA, "cp.async.bulk.tensor").
        let of = match bulk.multicast {
            Some(_) if bulk.pair => {
                let rank = target.unwrap_or(own) & !1 | of.unwrap_or(own) & 1;
                live_rank(context, lane, code_of_rank(context.launch, rank) << CLUSTER_RANK)?
            }
            Some(_) => target,
            None => of,
        };
        let completes = Completes::Barrier { of: of.unwrap_or(own), at: barrier_at };
        let mut transfer = Transfer::new(by, [at, bytes], far.clone(), completes, reduction);
        if let (Far::Shared(from), Some(_)) = (&far, target) {
            let mut held = vec![0; bytes as usize];
            read_block(context.block, *from, &mut held);
            transfer.far = Far::Bytes(held);
            if let Some(sanitiser) = context.monitor.sanitiser() {
                transfer.undefined = sanitiser.undefined_source(context.launch, context.block, &transfer, Some(*from));
            }
        }
        let object = match of {
            None => &mut *context.block,
            Some(rank) => &mut context.block.peers[rank as usize],
        };
        mbarrier::check(object, lane, barrier_at)?;
        // The copy's own access to the object: the thread has to know that it is there.
        let mut objects = [0; 32];
        let code = of.map_or(context.block.own_code, |rank| code_of_rank(context.launch, rank));
        objects[lane] = barrier_at | code << CLUSTER_RANK;
        let reach = Reach { order: Order::Relaxed, blind: true, ..Reach::new(Kind::Atomic, 8) };
        for_parts(context, MemSpace::Cluster, &objects, 1 << lane, reach, |_, _| {})?;
        let Context { block, monitor, launch, .. } = context;
        if let Some(sanitiser) = monitor.sanitiser() {
            sanitiser.transfer_asked(launch, block, target, &transfer);
        }
        let block = match target {
            None => &mut **block,
            Some(rank) => &mut block.peers[rank as usize],
        };
        block.begin_transfer(launch, *monitor, transfer)?;
    }
    Ok(())
}

fn element_reduction(reduction: Option<Reduction>) -> Option<ElementReduction> {
    match reduction {
        Some(Reduction::Elements { op, bytes, mode }) => Some(ElementReduction { op, bytes, mode }),
        _ => None,
    }
}

/// The rank of the block whose shared memory an address is in, which has to be running; `None`: it is the thread's own.
fn live_rank<M: Monitor>(context: &mut Context<'_, '_, M>, lane: usize, address: u64) -> Checked<Option<u32>> {
    match Owner::of(context.block, address >> CLUSTER_RANK) {
        Some(Owner::Own) => Ok(None),
        Some(Owner::Peer(rank)) if context.block.peers[rank as usize].live != 0 => Ok(Some(rank)),
        _ => Err(beyond_cluster(context.block, address, 1 << lane, Reach::new(Kind::Write, GRAIN))),
    }
}

/// The blocks that a mask selects.
fn targets<M: Monitor>(context: &mut Context<'_, '_, M>, lane: usize, mask: u32) -> Checked<Vec<Option<u32>>> {
    let blocks = context.launch.cluster_blocks();
    if mask >> blocks.min(31) != 0 {
        let message = format!("bulk copy to the blocks {mask:#x} of a cluster of {blocks}");
        return Err(Problem::new(FaultKind::InvalidCopy, 1 << lane, message));
    }
    lanes(mask)
        .map(|rank| live_rank(context, lane, code_of_rank(context.launch, rank as u32) << CLUSTER_RANK))
        .collect()
}

/// The end in shared memory.
fn near<M: Monitor>(
    context: &mut Context<'_, '_, M>,
    lane: usize,
    address: u64,
    bytes: u64,
    align: u64,
    kind: Kind,
) -> Checked<u64> {
    let (verb, _) = Reach::new(kind, 1).verb();
    if !address.is_multiple_of(align) {
        let message = format!("misaligned {verb} of {} by a bulk copy", plural(bytes));
        let note = format!("offset {address:#x} is {} past a multiple of {align}", plural(address % align));
        let rule = match align {
            BOX_ALIGN => TENSOR_RULE,
            _ if align == bytes && align <= GRAIN => WORDS_RULE,
            _ => RULE,
        };
        return Err(Problem::new(FaultKind::Misaligned, 1 << lane, message).at(address).note(note).note(rule));
    }
    let room = context.block.shared_bytes;
    let outside = address >= room || room - address < bytes;
    let astray = context.monitor.sanitiser().is_some_and(|sanitiser| !sanitiser.is_in_one_variable(address, bytes));
    if outside || astray {
        let message = format!("out-of-bounds {verb} of {} in shared memory by a bulk copy", plural(bytes));
        let note = if outside && address < room {
            format!(
                "offset {address:#x} is {} from the end of shared memory; the block has {}",
                plural(room - address),
                plural(room)
            )
        } else {
            format!("the address is {}", context.launch.describe_shared(address))
        };
        return Err(Problem::new(FaultKind::OutOfBounds, 1 << lane, message).at(address).note(note));
    }
    Ok(address)
}

/// The allocation at a global address, as a transfer keeps it, the offset of the address in it, and its size.
fn allocation_at<M: Monitor>(
    context: &mut Context<'_, '_, M>,
    lane: usize,
    address: u64,
    bytes: u64,
    kind: Kind,
) -> Checked<(Source, u64, u64)> {
    let launch = context.launch;
    let (source, base, size) = match find(context.warp, launch, address) {
        Some(found) => {
            if kind == Kind::Write && found.role == Role::Constant {
                let message = format!("write to the constant `{}`", found.label);
                return Err(Problem::new(FaultKind::ReadOnly, 1 << lane, message).at(address));
            }
            let index = launch.memory.partition_point(|other| other.base < found.base);
            (Source::Buffer(index), found.base, found.bytes)
        }
        None => match launch.heap.find(address) {
            Some(block) => {
                let (base, size) = (block.base, block.bytes);
                (Source::Block(Arc::clone(&block)), base, size)
            }
            None => return Err(stray(launch, &[address; 32], 1 << lane, Reach::new(kind, bytes))),
        },
    };
    Ok((source, address - base, size))
}

/// The other end of a linear copy.
fn linear<M: Monitor>(
    context: &mut Context<'_, '_, M>,
    lane: usize,
    address: u64,
    bytes: u64,
    kind: Kind,
) -> Checked<Far> {
    if !address.is_multiple_of(GRAIN) {
        let (verb, _) = Reach::new(kind, 1).verb();
        let message = format!("misaligned {verb} of {} by a bulk copy", plural(bytes));
        let note = format!("address {address:#x} is {} past a multiple of {GRAIN}", plural(address % GRAIN));
        return Err(Problem::new(FaultKind::Misaligned, 1 << lane, message).at(address).note(note).note(RULE));
    }
    let (source, offset, size) = allocation_at(context, lane, address, bytes, kind)?;
    if size - offset < bytes {
        return Err(stray(context.launch, &[address; 32], 1 << lane, Reach::new(kind, bytes)));
    }
    Ok(Far::Linear(source, offset))
}

/// The other end of a copy of a box.
fn tiled<M: Monitor>(context: &mut Context<'_, '_, M>, lane: usize, tile: Tile, kind: Kind) -> Checked<Far> {
    let mut last = None::<u64>;
    let mut runs = 0;
    tile.visit(|_, from, bytes| {
        runs += 1;
        if let Some(from) = from {
            last = last.max(Some(from.saturating_add(bytes)));
        }
    });
    context.block.charged += runs / 8;
    let Some(last) = last else {
        return Ok(Far::Tile(Source::Buffer(usize::MAX), 0, Box::new(tile))); // all of it is outside the tensor
    };
    let address = tile.map.address;
    let (source, offset, size) = allocation_at(context, lane, address, 16, kind)?;
    if size - offset < last {
        let (verb, _) = Reach::new(kind, 1).verb();
        let message = format!("out-of-bounds {verb} by a copy of a tensor's box");
        let note = format!(
            "the box reaches to byte {last} of the tensor that the map describes, and {} follow its address {address:#x}",
            plural(size - offset)
        );
        return Err(Problem::new(FaultKind::OutOfBounds, 1 << lane, message).at(address).note(note));
    }
    Ok(Far::Tile(source, offset, Box::new(tile)))
}

/// The operation on elements of a tensor; `None` if there is none.
fn reduction_of(element: TensorElement, op: TensorReduction) -> Option<ElementReduction> {
    let ty = match element {
        TensorElement::U8 | TensorElement::U16 | TensorElement::B4x16 => return None,
        TensorElement::U32 => Scalar::U32,
        TensorElement::S32 => Scalar::S32,
        TensorElement::U64 => Scalar::U64,
        TensorElement::S64 => Scalar::S64,
        TensorElement::F16 => Scalar::F16,
        TensorElement::Bf16 => Scalar::Bf16,
        TensorElement::F64 => Scalar::F64,
        TensorElement::F32 | TensorElement::F32Ftz | TensorElement::Tf32 | TensorElement::Tf32Ftz => Scalar::F32,
    };
    let op = match (op, ty.float()) {
        (TensorReduction::Add, true) => AtomOp::Float(float_op(FloatOp::Add, ty)?),
        (TensorReduction::Min, true) if ty.size() == 2 => AtomOp::Float(float_op(FloatOp::Min, ty)?),
        (TensorReduction::Max, true) if ty.size() == 2 => AtomOp::Float(float_op(FloatOp::Max, ty)?),
        (_, true) => return None,
        (TensorReduction::Add, false) => AtomOp::Add,
        (TensorReduction::Min, false) if ty.signed() => AtomOp::MinS,
        (TensorReduction::Min, false) => AtomOp::MinU,
        (TensorReduction::Max, false) if ty.signed() => AtomOp::MaxS,
        (TensorReduction::Max, false) => AtomOp::MaxU,
        (TensorReduction::Inc, false) if ty == Scalar::U32 => AtomOp::Inc,
        (TensorReduction::Dec, false) if ty == Scalar::U32 => AtomOp::Dec,
        (TensorReduction::Inc | TensorReduction::Dec, false) => return None,
        (TensorReduction::And, false) => AtomOp::And,
        (TensorReduction::Or, false) => AtomOp::Or,
        (TensorReduction::Xor, false) => AtomOp::Xor,
    };
    let mode = Mode { ftz: ty == Scalar::F32, ..Mode::default() };
    Some(ElementReduction { op, bytes: ty.size() as u8, mode })
}

/// `cp.async.bulk.wait_group`. Returns the cost beyond one instruction.
#[inline(never)]
pub(crate) fn wait<M: Monitor>(context: &mut Context<'_, '_, M>, n: u32, read: bool, mask: u32) -> Checked<u32> {
    let before = context.block.charged;
    for lane in lanes(mask) {
        let committed = context.warp.copies.bulk_committed[lane];
        let thread = (context.warp.number, lane);
        context.block.charged += context.block.transfers.len() as u64 / 64;
        context.block.wait_for_groups(context.launch, context.monitor, thread, committed, (n, read))?;
    }
    Ok((context.block.charged - before).min(u32::MAX.into()) as u32)
}
