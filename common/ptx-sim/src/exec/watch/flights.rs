//! Trace of asynchronous work: copies and products that begin, mbarriers, and their tiles.

use super::touches::{allocation, bulk_ends};
use crate::exec::state::address::addresses;
use crate::exec::state::block::Block;
use crate::exec::state::cluster::{Owner, code_of, offset_of, receivers};
use crate::exec::state::mbarrier::phase_at;
use crate::exec::state::scene::Scene;
use crate::ir::*;
use crate::lanes::lanes;
use crate::matrix::Descriptor;
use crate::tensor_map::Tile;
use crate::trace::*;

/// Maximum chunks of a box's rows that are kept for a picture.
const MAX_CHUNKS: u64 = 40 * 8;

/// The offset of an address in the block's own shared memory; `None`: it is another block's.
fn own(block: &Block, address: u64) -> Option<u64> {
    matches!(Owner::of(block, code_of(address)), Some(Owner::Own)).then(|| offset_of(address))
}

/// The events of an instruction that is about to be executed, except for the answer of [`AsyncEvent::Asks`].
pub(crate) fn events(scene: &Scene<'_, '_>) -> Vec<(u32, AsyncEvent)> {
    let all = scene.active;
    match &scene.launch.program.code[scene.pc].op {
        Op::CpAsync(_) => vec![(all, AsyncEvent::Begins(Grouped::Copies))],
        Op::CpAsyncCommit => vec![(all, AsyncEvent::Commits(Grouped::Copies))],
        Op::CpAsyncWait { n } => vec![(all, AsyncEvent::Waits { work: Grouped::Copies, pending: *n })],
        Op::Bulk(bulk) => of_bulk(scene, bulk),
        Op::BulkCommit => vec![(all, AsyncEvent::Commits(Grouped::BulkStores))],
        Op::BulkWait { n, .. } => {
            vec![(all, AsyncEvent::Waits { work: Grouped::BulkStores, pending: Some(*n) })]
        }
        Op::Mbarrier(mbarrier) => of_mbarrier(scene, mbarrier),
        Op::Together(together) => match &together.op {
            TogetherOp::Wgmma(_) => vec![(all, AsyncEvent::Begins(Grouped::Products))],
            TogetherOp::WgmmaCommit => vec![(all, AsyncEvent::Commits(Grouped::Products))],
            TogetherOp::WgmmaWait { n } => {
                vec![(all, AsyncEvent::Waits { work: Grouped::Products, pending: Some((*n).into()) })]
            }
            _ => Vec::new(),
        },
        _ => Vec::new(),
    }
}

fn of_bulk(scene: &Scene<'_, '_>, bulk: &Bulk) -> Vec<(u32, AsyncEvent)> {
    let Some(barrier) = &bulk.barrier else {
        let stores = bulk.route == Route::SharedToGlobal;
        return if stores { vec![(scene.active, AsyncEvent::Begins(Grouped::BulkStores))] } else { Vec::new() };
    };
    let barriers = addresses(scene.rows, scene.frame_local, barrier);
    let of_lane = |lane: usize| {
        let mbarrier = match &bulk.multicast {
            // Each block that gets the copy has its own mbarrier there.
            Some(multicast) if receivers(scene.launch, scene.rows, multicast, lane) >> scene.block.rank & 1 == 1 => {
                offset_of(barriers[lane])
            }
            Some(_) => return None,
            None => own(scene.block, barriers[lane])?,
        };
        let phase = Phase { mbarrier, odd: phase_at(scene.block, mbarrier)? };
        let bytes = bulk_ends(scene, bulk, lane)?.bytes;
        Some((1 << lane, AsyncEvent::Loads { phase, bytes }))
    };
    lanes(scene.active).filter_map(of_lane).collect()
}

fn of_mbarrier(scene: &Scene<'_, '_>, mbarrier: &Mbarrier) -> Vec<(u32, AsyncEvent)> {
    let addresses = addresses(scene.rows, scene.frame_local, &mbarrier.address);
    let mut events: Vec<(u32, AsyncEvent)> = Vec::new();
    for lane in lanes(scene.active) {
        let Some(at) = own(scene.block, addresses[lane]) else { continue };
        let now = || Some(Phase { mbarrier: at, odd: phase_at(scene.block, at)? });
        let event = match &mbarrier.op {
            MbarrierOp::Arrive { .. } => now().map(AsyncEvent::Arrives),
            MbarrierOp::ArriveWhenCopied { .. } => now().map(AsyncEvent::ArrivesWhenCopied),
            MbarrierOp::Wait { phase, .. } => {
                let odd = match phase {
                    MbarrierPhase::State(row) => scene.rows.lane_of(*row, true, lane) >> 61 & 1 == 1,
                    MbarrierPhase::Parity(row) => scene.rows.lane(*row, lane) & 1 == 1,
                };
                Some(AsyncEvent::Asks { phase: Phase { mbarrier: at, odd }, over: true })
            }
            _ => None,
        };
        let Some(event) = event else { continue };
        match events.iter_mut().find(|(_, known)| *known == event) {
            Some((lanes, _)) => *lanes |= 1 << lane,
            None => events.push((1 << lane, event)),
        }
    }
    events
}

/// Among lanes that have just asked an mbarrier, those that were told that its phase is over.
pub(crate) fn answered(scene: &Scene<'_, '_>) -> Option<u32> {
    match &scene.launch.program.code[scene.pc].op {
        Op::Mbarrier(mbarrier) => match mbarrier.op {
            MbarrierOp::Wait { p: Some(p), .. } => Some(scene.warp.predicate(scene.frame_predicates, p)),
            MbarrierOp::Wait { p: None, .. } => Some(u32::MAX),
            _ => None,
        },
        _ => None,
    }
}

/// The copies of boxes that an instruction is about to ask for.
pub(crate) fn boxes(scene: &Scene<'_, '_>, step: usize) -> Vec<BoxCopy> {
    let Op::Bulk(bulk) = &scene.launch.program.code[scene.pc].op else { return Vec::new() };
    let shared = addresses(scene.rows, scene.frame_local, &bulk.shared);
    let of_lane = |lane: usize| {
        let tile = bulk_ends(scene, bulk, lane)?.tile.filter(|_| bulk.route != Route::Prefetch)?;
        let shared = offset_of(shared[lane]);
        let address = tile.map.address;
        let name = match allocation(scene, address) {
            Some(found) if found.base == address => found.label.to_string(),
            Some(found) => format!("{} + {}", found.label, address - found.base),
            None => format!("{address:#x}"),
        };
        Some(BoxCopy {
            step,
            loads: bulk.route == Route::GlobalToShared,
            tensor: tile.shape(name),
            shared,
            bytes: tile.bytes(),
            swizzle: tile.map.swizzled_bytes(),
            chunks: chunks(&tile, shared),
        })
    };
    lanes(scene.active).filter_map(of_lane).collect()
}

fn chunks(tile: &Tile, shared: u64) -> Vec<BoxChunk> {
    let row = tile.map.inner_bytes().max(1);
    let count = (tile.bytes() / 16).min(MAX_CHUNKS);
    let place =
        |dense: u64| BoxChunk { row: dense / row, place: dense % row / 16, at: tile.shared(shared, dense), inside: 0 };
    let mut chunks: Vec<BoxChunk> = (0..count).map(|chunk| place(chunk * 16)).collect();
    tile.visit(|dense, from, bytes| {
        if from.is_none() {
            return;
        }
        let end = dense + bytes;
        for (at, chunk) in (dense / 16..).zip(chunks.iter_mut().skip((dense / 16) as usize)) {
            if at * 16 >= end {
                break;
            }
            chunk.inside += (at * 16 + 16).min(end) - (at * 16).max(dense);
        }
    });
    chunks
}

/// Tiles in shared memory that a product reads, when a warp is about to ask for it.
pub(crate) fn product_tiles(scene: &Scene<'_, '_>, step: usize) -> Vec<ProductTile> {
    let Op::Together(together) = &scene.launch.program.code[scene.pc].op else { return Vec::new() };
    let TogetherOp::Wgmma(op) = &together.op else { return Vec::new() };
    let lane = scene.active.trailing_zeros() as usize;
    let descriptor = |row: R| Descriptor::of_wgmma(scene.rows.lane_of(row, true, lane));
    let a = match op.a {
        WgmmaA::Descriptor(row) => Some(op.wgmma.tile_a(op.mn_major[0]).shown("A", descriptor(row), step)),
        WgmmaA::Registers(_) => None,
    };
    let b = op.wgmma.tile_b(op.mn_major[1]).shown("B", descriptor(op.b), step);
    a.into_iter().chain([b]).collect()
}
