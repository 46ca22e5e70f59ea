//! The memory that an instruction is about to touch, for monitors.

use std::sync::Arc;

use crate::exec::state::address::{addresses, space_of};
use crate::exec::state::cluster::offset_of;
use crate::exec::state::scene::Scene;
use crate::exec::state::texels::{accesses_of, reads_of};
use crate::ir::*;
use crate::lanes::lanes;
use crate::memory::{self, Role};
use crate::tensor_map::{Map, TENSOR_MAP_BYTES, Tile};
use crate::trace::{AccessKind, Space, Touch};

/// An access, or the part of it that lies in one space.
pub(crate) struct Touched {
    pub space: Space,
    pub kind: AccessKind,
    pub touches: Vec<Touch>,
}

/// The accesses of the active lanes, except those to the kernel's parameters.
pub(crate) fn touched(scene: &Scene<'_, '_>) -> Vec<Touched> {
    let mut all = Vec::new();
    let of = |address: &Address| addresses(scene.rows, scene.frame_local, address);
    let each = |address: &Address, bytes: u32| -> Vec<(usize, u64, u32)> {
        let addresses = of(address);
        lanes(scene.active).map(|lane| (lane, addresses[lane], bytes)).collect()
    };
    let mut add = |space: MemSpace, kind: AccessKind, touches: Vec<(usize, u64, u32)>| {
        for (lane, address, bytes) in touches {
            let Some((space, address)) = place(scene, space, address) else { continue };
            let touch = Touch { lane: lane as u8, address, bytes };
            match all.iter_mut().find(|known: &&mut Touched| known.space == space && known.kind == kind) {
                Some(known) => known.touches.push(touch),
                None => all.push(Touched { space, kind, touches: vec![touch] }),
            }
        }
    };
    match &scene.launch.program.code[scene.pc].op {
        Op::Load(access) => {
            let bytes = u32::from(access.bytes) * u32::from(access.count);
            add(access.address.space, AccessKind::Read, each(&access.address, bytes));
        }
        Op::Store(access) => {
            let bytes = u32::from(access.bytes) * u32::from(access.count);
            add(access.address.space, AccessKind::Write, each(&access.address, bytes));
        }
        Op::Atomic(atomic) => {
            add(atomic.address.space, AccessKind::Atomic, each(&atomic.address, atomic.total_bytes() as u32));
        }
        Op::Texture(op) => {
            for step in reads_of(scene.launch, scene.rows, op, scene.active) {
                add(MemSpace::Global, AccessKind::Read, step.touches());
            }
        }
        Op::Surface(op) => {
            let kind = match op.action {
                SurfaceAction::Load { .. } => AccessKind::Read,
                SurfaceAction::Store { .. } => AccessKind::Write,
                SurfaceAction::Reduce { .. } => AccessKind::Atomic,
            };
            for step in accesses_of(scene.launch, scene.rows, op, scene.active) {
                add(MemSpace::Global, kind, step.touches());
            }
        }
        Op::Mbarrier(mbarrier) => {
            add(mbarrier.address.space, AccessKind::Atomic, each(&mbarrier.address, 8));
        }
        Op::CpAsync(copy) => {
            let ignored = copy.ignore.map_or(0, |(p, negated)| {
                let bits = scene.warp.predicate(scene.frame_predicates, p);
                if negated { !bits } else { bits }
            });
            let mut read = each(&copy.src, copy.bytes.into());
            for (lane, _, bytes) in &mut read {
                let asked = copy.src_bytes.map_or(*bytes, |row| scene.rows.lane(row, *lane));
                *bytes = if ignored >> *lane & 1 == 1 { 0 } else { asked.min(*bytes) };
            }
            read.retain(|(.., bytes)| *bytes != 0);
            add(MemSpace::Global, AccessKind::Copy, read);
            add(MemSpace::Shared, AccessKind::Copy, each(&copy.dst, copy.bytes.into()));
        }
        Op::Bulk(bulk) => {
            let shared = of(&bulk.shared);
            for lane in lanes(scene.active) {
                let Some(BulkEnds { other, bytes, runs, .. }) = bulk_ends(scene, bulk, lane) else { continue };
                let runs = runs.into_iter().map(|(at, bytes)| (lane, at, bytes as u32)).collect();
                add(MemSpace::Global, AccessKind::Bulk, runs);
                let moves = bulk.route != Route::Prefetch && bytes != 0;
                let from =
                    (bulk.route == Route::SharedToShared && matches!(bulk.shape, BulkShape::Bytes(_))).then_some(other);
                let ends = moves.then_some(shared[lane]).into_iter().chain(from);
                add(MemSpace::Shared, AccessKind::Bulk, ends.map(|at| (lane, offset_of(at), bytes as u32)).collect());
            }
        }
        Op::Together(together) => match &together.op {
            TogetherOp::WmmaLoad(memory) => {
                add(memory.address.space, AccessKind::Read, fragment(scene, memory));
            }
            TogetherOp::WmmaStore(memory) => {
                add(memory.address.space, AccessKind::Write, fragment(scene, memory));
            }
            TogetherOp::LdMatrix(moves) => add(moves.address.space, AccessKind::Read, matrix_rows(scene, moves)),
            TogetherOp::StMatrix(moves) => add(moves.address.space, AccessKind::Write, matrix_rows(scene, moves)),
            _ => {}
        },
        _ => {}
    }
    all
}

/// Data that a bulk copy of a lane moves.
pub(crate) struct BulkEnds {
    /// Address of the end outside shared memory, or of its tensor's map.
    pub other: u64,
    /// Bytes of its end in shared memory.
    pub bytes: u64,
    /// Tile, if it is a tensor's.
    pub tile: Option<Tile>,
    /// Ranges in global memory: address and bytes.
    pub runs: Vec<(u64, u64)>,
}

/// The ends of a bulk copy that is about to be asked for; `None`: it will fault.
pub(crate) fn bulk_ends(scene: &Scene<'_, '_>, bulk: &Bulk, lane: usize) -> Option<BulkEnds> {
    let other = addresses(scene.rows, scene.frame_local, &bulk.other)[lane];
    let ends = match &bulk.shape {
        BulkShape::Bytes(row) => {
            let bytes = u64::from(scene.rows.lane(*row, lane));
            let is_global = bulk.route != Route::SharedToShared;
            BulkEnds { other, bytes, tile: None, runs: is_global.then_some((other, bytes)).into_iter().collect() }
        }
        BulkShape::Words { rows, bytes, .. } => {
            BulkEnds { other, bytes: rows.len() as u64 * u64::from(*bytes), tile: None, runs: Vec::new() }
        }
        BulkShape::Response => BulkEnds { other, bytes: RESPONSE_BYTES, tile: None, runs: Vec::new() },
        BulkShape::Tensor { coordinates, offsets, mode } => {
            let coordinates: Vec<i32> = coordinates.iter().map(|row| scene.rows.lane(*row, lane) as i32).collect();
            let offsets: Vec<u16> = offsets.iter().map(|row| scene.rows.lane(*row, lane) as u16).collect();
            let map = Map::decode(&map_at(scene, other)?).ok()?;
            let tile = Tile::new(map, &coordinates, &offsets, *mode, bulk.route).ok()?;
            // What is larger than shared memory is not looked at.
            if tile.bytes() > scene.block.shared_bytes {
                return None;
            }
            let mut runs = Vec::new();
            tile.visit(|_, at, bytes| runs.extend(at.map(|at| (map.address.wrapping_add(at), bytes))));
            BulkEnds { other, bytes: tile.bytes(), tile: Some(tile), runs }
        }
    };
    Some(ends).filter(|ends| ends.bytes <= scene.block.shared_bytes)
}

/// The bytes of the tensor map at a generic address.
fn map_at(scene: &Scene<'_, '_>, address: u64) -> Option<[u8; TENSOR_MAP_BYTES]> {
    let mut bytes = [0; TENSOR_MAP_BYTES];
    if space_of(address) == MemSpace::Param {
        let from = (address - window(MemSpace::Param)) as usize;
        bytes.copy_from_slice(
            scene.launch.member(scene.block.index.device).params.get(from..from.checked_add(TENSOR_MAP_BYTES)?)?,
        );
        return Some(bytes);
    }
    let found = allocation(scene, address)?;
    let offset = address - found.base;
    if found.is_freed() || found.bytes - offset < TENSOR_MAP_BYTES as u64 {
        return None;
    }
    found.read(offset, &mut bytes);
    Some(bytes)
}

/// The space of a generic address, and the address in that space; `None` for a kernel's parameters.
pub(crate) fn place(scene: &Scene<'_, '_>, space: MemSpace, address: u64) -> Option<(Space, u64)> {
    let (space, address) = match space {
        MemSpace::Generic => {
            let space = space_of(address);
            (space, address - window(space))
        }
        space => (space, address),
    };
    let space = match space {
        MemSpace::Shared | MemSpace::Cluster => Space::Shared,
        MemSpace::Local => Space::Local,
        MemSpace::Param => return None,
        MemSpace::Global | MemSpace::Generic => {
            let constant = allocation(scene, address).is_some_and(|found| found.role == Role::Constant);
            if constant { Space::Constant } else { Space::Global }
        }
    };
    Some((space, address))
}

/// The allocation that holds `address`, freed or not.
pub(crate) fn allocation(scene: &Scene<'_, '_>, address: u64) -> Option<Arc<memory::Allocation>> {
    let snapshot = &scene.launch.memory;
    let before = snapshot.partition_point(|allocation| allocation.base <= address).checked_sub(1);
    let found = before.map(|at| &snapshot[at]).filter(|found| address - found.base < found.bytes);
    found.cloned().or_else(|| scene.launch.heap.heap.block(address))
}

/// `wmma`: each part of each register.
fn fragment(scene: &Scene<'_, '_>, memory: &WmmaMemory) -> Vec<(usize, u64, u32)> {
    let Some(first) = lanes(scene.active).next() else { return Vec::new() };
    let base = addresses(scene.rows, scene.frame_local, &memory.address)[first];
    let default = memory.access.default_stride();
    let stride = memory.stride.map_or(default, |row| u64::from(scene.rows.lane(row, first)));
    let mut touches = Vec::new();
    for lane in lanes(scene.active) {
        for register in 0..memory.rows.len() {
            for part in 0..memory.access.parts() {
                let address = base.wrapping_add(memory.access.offset(lane, register, part, stride));
                touches.push((lane, address, memory.access.part_bytes() as u32));
            }
        }
    }
    touches
}

/// `ldmatrix`, `stmatrix`: eight lanes for each matrix give the address of a row of 16 bytes.
fn matrix_rows(scene: &Scene<'_, '_>, moves: &MatrixMove) -> Vec<(usize, u64, u32)> {
    let addresses = addresses(scene.rows, scene.frame_local, &moves.address);
    lanes(scene.active)
        .take_while(|lane| *lane < moves.rows.len() * 8)
        .map(|lane| (lane, addresses[lane], 16))
        .collect()
}
