//! Textures and surfaces: reads, writes and reductions through handles of the device's objects. Their memory is checked and
//! watched as all global memory is, texel by texel.

use std::sync::Arc;

use super::atomic::combined;
use super::check::{Checked, for_parts};
use super::context::Context;
use super::elements::{gather, scatter};
use super::launch::Launch;
use super::monitor::Monitor;
use super::place::{Kind, Place, Reach};
use super::problem::Problem;
use super::rows::Rows;
use crate::fault::FaultKind;
use crate::ir::*;
use crate::lanes::lanes;
use crate::memory::plural;
use crate::scalar::Mode;
use crate::texture::{
    Coordinates, Footprint, Geometry, MAX_TEXELS, Object, ObjectKind, Sampling, Slot, corners, footprint,
};

/// Accesses of at most one address for each lane.
pub(super) struct Step {
    pub addresses: [u64; 32],
    pub mask: u32,
    pub bytes: u64,
}

impl Step {
    /// Each lane with its address and bytes.
    pub(super) fn touches(&self) -> Vec<(usize, u64, u32)> {
        lanes(self.mask).map(|lane| (lane, self.addresses[lane], self.bytes as u32)).collect()
    }
}

/// The object of a handle; the error is a problem without its lanes.
fn object<'l>(launch: &'l Launch<'_>, handle: u64) -> Result<&'l Arc<Object>, (FaultKind, String)> {
    match launch.objects.find(handle) {
        Some(Slot::Live(object)) => Ok(object),
        Some(Slot::Gone(label)) => {
            Err((FaultKind::UseAfterFree, format!("`{label}` (handle {handle:#x}) has been destroyed")))
        }
        None => Err((FaultKind::InvalidHandle, format!("{handle:#x} is no handle of a texture or surface"))),
    }
}

/// The texture of a handle, for a read of that geometry.
fn texture<'l>(
    launch: &'l Launch<'_>,
    op: &TextureOp,
    handle: u64,
) -> Result<(&'l Object, &'l Sampling), (FaultKind, String)> {
    let object = object(launch, handle)?;
    let ObjectKind::Texture(sampling) = &object.kind else {
        return Err((FaultKind::InvalidHandle, format!("`{}` is a surface, where a texture is read", object.label)));
    };
    fits(object, op.geometry)?;
    if matches!(object.extent, crate::texture::Extent::Linear(_)) && !op.integer {
        let message = format!("`{}` is linear memory, which only whole numbers index (`tex1Dfetch`)", object.label);
        return Err((FaultKind::InvalidHandle, message));
    }
    Ok((object, sampling))
}

fn surface<'l>(launch: &'l Launch<'_>, op: &SurfaceOp, handle: u64) -> Result<&'l Object, (FaultKind, String)> {
    let object = object(launch, handle)?;
    if !matches!(object.kind, ObjectKind::Surface) {
        return Err((FaultKind::InvalidHandle, format!("`{}` is a texture, where a surface is used", object.label)));
    }
    fits(object, op.geometry)?;
    Ok(object)
}

fn fits(object: &Object, geometry: Geometry) -> Result<(), (FaultKind, String)> {
    let own = object.extent.geometry();
    if own == geometry {
        return Ok(());
    }
    let message =
        format!("`{}` has the geometry .{}, where the instruction's is .{}", object.label, own.name(), geometry.name());
    Err((FaultKind::InvalidHandle, message))
}

/// The lanes of `mask` by their handles.
fn by_handle(rows: Rows, row: R, mask: u32) -> Vec<(u64, u32)> {
    let handles = rows.get64(row);
    let mut groups: Vec<(u64, u32)> = Vec::new();
    for lane in lanes(mask) {
        match groups.iter_mut().find(|(handle, _)| *handle == handles[lane]) {
            Some((_, lanes)) => *lanes |= 1 << lane,
            None => groups.push((handles[lane], 1 << lane)),
        }
    }
    groups
}

fn footprint_of(rows: Rows, op: &TextureOp, object: &Object, sampling: &Sampling, lane: usize) -> Footprint {
    let layer = op.layer.map_or(0, |row| rows.lane(row, lane));
    let coordinate = |at: usize| op.coordinates.get(at).map_or(0, |row| rows.lane(*row, lane));
    let bits = [0, 1, 2].map(coordinate);
    match op.gathered {
        Some(_) => corners(object, sampling, layer, [0, 1].map(|at| f32::from_bits(bits[at]))),
        None if op.integer => footprint(object, sampling, layer, Coordinates::Integer(bits.map(|bits| bits as i32))),
        None => footprint(object, sampling, layer, Coordinates::Float(bits.map(f32::from_bits))),
    }
}

/// The reads of lanes with one texture: one step for each texel of the filter.
fn texel_steps(object: &Object, footprints: &[Footprint; 32], mask: u32) -> Vec<Step> {
    let count = lanes(mask).map(|lane| footprints[lane].count).max().unwrap_or(0);
    (0..count)
        .map(|at| {
            let mut step = Step { addresses: [0; 32], mask: 0, bytes: object.format.bytes() };
            for lane in lanes(mask) {
                if let Some(address) = footprints[lane].texels[at].address.filter(|_| at < footprints[lane].count) {
                    step.addresses[lane] = address;
                    step.mask |= 1 << lane;
                }
            }
            step
        })
        .collect()
}

/// `tex` and `tld4`.
#[inline(never)]
pub(super) fn read<M: Monitor>(context: &mut Context<'_, '_, M>, rows: Rows, op: &TextureOp, mask: u32) -> Checked<()> {
    let launch = context.launch;
    for (handle, group) in by_handle(rows, op.handle, mask) {
        let mut texels = [[0; 4]; 32];
        match texture(launch, op, handle) {
            Err((kind, message)) => context.report(Problem::new(kind, group, message))?,
            Ok((object, sampling)) => {
                let mut footprints = [Footprint::default(); 32];
                for lane in lanes(group) {
                    footprints[lane] = footprint_of(rows, op, object, sampling, lane);
                }
                let mut bits = vec![[[0; 4]; MAX_TEXELS]; 32];
                let part_bytes = object.format.bits / 8;
                for (at, step) in texel_steps(object, &footprints, group).iter().enumerate() {
                    let reach = Reach::new(Kind::Read, step.bytes);
                    for_parts(context, MemSpace::Global, &step.addresses, step.mask, reach, |context, part| {
                        let mut offset = 0;
                        for channel in 0..object.format.channels {
                            let values = gather(context, part, &step.addresses, offset, part_bytes);
                            lanes(part.mask).for_each(|lane| bits[lane][at][usize::from(channel)] = values[lane]);
                            offset += u64::from(part_bytes);
                        }
                    })?;
                }
                for lane in lanes(group) {
                    texels[lane] = match op.gathered {
                        Some(channel) => footprints[lane].gathered(object, sampling, channel, &bits[lane]),
                        None => footprints[lane].filtered(object, sampling, &bits[lane]),
                    };
                }
            }
        }
        for (channel, row) in op.rows.iter().enumerate().filter(|(_, row)| **row != R::MAX) {
            rows.set(*row, group, std::array::from_fn(|lane| texels[lane][channel]));
        }
    }
    Ok(())
}

/// Where an access of a surface goes.
enum Spot {
    At(u64),
    /// Nowhere: it reads zeros, and writes nothing.
    Nowhere,
    Outside(String),
}

fn spot(rows: Rows, op: &SurfaceOp, object: &Object, lane: usize) -> Spot {
    let coordinate = |at: usize| op.coordinates.get(at).map_or(0, |row| rows.lane(*row, lane) as i32);
    let [x, y, z] = [0, 1, 2].map(|at| i64::from(coordinate(at)));
    let layer = op.layer.map_or(0, |row| i64::from(rows.lane(row, lane)));
    let [_, height, depth] = object.extent.size().map(i64::from);
    let (row_bytes, bytes) = (Object::row_bytes(object.extent, object.format) as i64, op.total_bytes() as i64);
    let layers = i64::from(object.extent.layers());
    // The last place of each.
    let last = [row_bytes - bytes, height - 1, depth - 1, layers - 1];
    let place = [x, y, z, layer];
    let inside = place.iter().zip(last).all(|(at, last)| (0..=last).contains(at));
    let address = |[x, y, z, layer]: [i64; 4]| object.address(layer as u32, x as u64, y as u32, z as u32);
    match op.outside {
        _ if inside => Spot::At(address(place)),
        Outside::Zero => Spot::Nowhere,
        Outside::Clamp if last[0] >= 0 => {
            let mut near = [0, 1, 2, 3].map(|at| place[at].clamp(0, last[at]));
            near[0] -= near[0] % bytes;
            Spot::At(address(near))
        }
        Outside::Clamp | Outside::Trap => {
            let rows = match op.geometry {
                Geometry::OneD => format!("byte {x}"),
                Geometry::TwoD => format!("byte {x} of row {y}"),
                Geometry::ThreeD => format!("byte {x} of row {y} of slice {z}"),
                Geometry::OneDLayered => format!("byte {x} of layer {layer}"),
                Geometry::TwoDLayered => format!("byte {x} of row {y} of layer {layer}"),
            };
            let extents = match op.geometry {
                Geometry::OneD => String::new(),
                Geometry::TwoD => format!(", {height} rows"),
                Geometry::ThreeD => format!(", {height} rows and {depth} slices"),
                Geometry::OneDLayered => format!(", {layers} layers"),
                Geometry::TwoDLayered => format!(", {height} rows and {layers} layers"),
            };
            let bytes = plural(bytes as u64);
            let message = format!(
                "{bytes} at {rows} of the surface `{}`, which has {row_bytes} bytes per row{extents}",
                object.label
            );
            Spot::Outside(message)
        }
    }
}

/// `suld`, `sust` and `sured`.
#[inline(never)]
pub(super) fn access<M: Monitor>(
    context: &mut Context<'_, '_, M>,
    rows: Rows,
    op: &SurfaceOp,
    mask: u32,
) -> Checked<()> {
    let launch = context.launch;
    for (handle, group) in by_handle(rows, op.handle, mask) {
        if let SurfaceAction::Load { rows: to, wide } = &op.action {
            for row in to.iter().filter(|row| **row != R::MAX) {
                lanes(group).for_each(|lane| rows.set_lane_of(*row, *wide, lane, 0));
            }
        }
        let object = match surface(launch, op, handle) {
            Ok(object) => object,
            Err((kind, message)) => {
                context.report(Problem::new(kind, group, message))?;
                continue;
            }
        };
        let mut addresses = [0; 32];
        let mut inside = 0;
        let mut outside: Option<(u32, String)> = None;
        for lane in lanes(group) {
            match spot(rows, op, object, lane) {
                Spot::At(address) => {
                    addresses[lane] = address;
                    inside |= 1 << lane;
                }
                Spot::Nowhere => {}
                Spot::Outside(message) => outside.get_or_insert((0, message)).0 |= 1 << lane,
            }
        }
        if let Some((lanes, message)) = outside {
            context.report(Problem::new(FaultKind::OutOfBounds, lanes, message))?;
        }
        moved(context, rows, op, &addresses, inside)?;
    }
    Ok(())
}

/// The access of lanes whose addresses lie in the surface.
fn moved<M: Monitor>(
    context: &mut Context<'_, '_, M>,
    rows: Rows,
    op: &SurfaceOp,
    addresses: &[u64; 32],
    mask: u32,
) -> Checked<()> {
    let (bytes, total) = (u64::from(op.bytes), op.total_bytes());
    match &op.action {
        SurfaceAction::Load { rows: to, wide } => {
            for_parts(context, MemSpace::Global, addresses, mask, Reach::new(Kind::Read, total), |context, part| {
                for (at, row) in to.iter().enumerate().filter(|(_, row)| **row != R::MAX) {
                    let values = gather(context, part, addresses, at as u64 * bytes, op.bytes);
                    lanes(part.mask).for_each(|lane| rows.set_lane_of(*row, *wide, lane, values[lane]));
                }
            })?;
        }
        SurfaceAction::Store { rows: from, wide } => {
            let values = |lane: usize| {
                let mut all = [0; 32];
                for (to, row) in all.chunks_exact_mut(op.bytes.into()).zip(from) {
                    to.copy_from_slice(&rows.lane_of(*row, *wide, lane).to_le_bytes()[..usize::from(op.bytes)]);
                }
                all
            };
            let reach = Reach { values: Some(&values), ..Reach::new(Kind::Write, total) };
            for_parts(context, MemSpace::Global, addresses, mask, reach, |context, part| {
                for (at, row) in from.iter().enumerate() {
                    scatter(context, part, addresses, at as u64 * bytes, op.bytes, |lane| {
                        rows.lane_of(*row, *wide, lane)
                    });
                }
            })?;
        }
        SurfaceAction::Reduce { op: reduction, a } => {
            // One reduction is ordered with another.
            let reach = Reach { order: Order::Relaxed, ..Reach::new(Kind::Atomic, total) };
            for_parts(context, MemSpace::Global, addresses, mask, reach, |_, part| {
                let Place::Allocation(allocation) = part.place else { return };
                for lane in lanes(part.mask) {
                    let a = rows.lane_of(*a, op.bytes == 8, lane);
                    let new = |old| combined(*reduction, op.bytes, Mode::default(), old, a, 0);
                    // SAFETY: `for_parts` checked range and alignment of each lane of the part.
                    unsafe { allocation.update(addresses[lane] - part.base, op.bytes, new) };
                }
            })?;
        }
    }
    Ok(())
}

/// `txq` and `suq`.
pub(super) fn query<M: Monitor>(
    context: &mut Context<'_, '_, M>,
    rows: Rows,
    query: &ObjectQuery,
    mask: u32,
) -> Checked<()> {
    let launch = context.launch;
    for (handle, group) in by_handle(rows, query.handle, mask) {
        let found = object(launch, handle).and_then(|object| match (&object.kind, query.surface) {
            (ObjectKind::Surface, true) | (ObjectKind::Texture(_), false) => Ok(object),
            _ => Err((FaultKind::InvalidHandle, format!("`{}` is not of the kind that is asked for", object.label))),
        });
        let value = match found {
            Ok(object) => {
                let [width, height, depth] = object.extent.size();
                match query.what {
                    ObjectProperty::Width => width,
                    ObjectProperty::Height => height,
                    ObjectProperty::Depth => depth,
                    ObjectProperty::Layers => object.extent.layers(),
                    ObjectProperty::One => 1,
                    ObjectProperty::NormalisedCoordinates => {
                        matches!(&object.kind, ObjectKind::Texture(sampling) if sampling.normalised_coordinates).into()
                    }
                }
            }
            Err((kind, message)) => {
                context.report(Problem::new(kind, group, message))?;
                0
            }
        };
        rows.set(query.d, group, [value; 32]);
    }
    Ok(())
}

/// The accesses that a read of a texture is about to make, for monitors. What is wrong is left out.
pub(super) fn reads_of(launch: &Launch<'_>, rows: Rows, op: &TextureOp, mask: u32) -> Vec<Step> {
    let mut steps = Vec::new();
    for (handle, group) in by_handle(rows, op.handle, mask) {
        let Ok((object, sampling)) = texture(launch, op, handle) else { continue };
        let mut footprints = [Footprint::default(); 32];
        for lane in lanes(group) {
            footprints[lane] = footprint_of(rows, op, object, sampling, lane);
        }
        steps.extend(texel_steps(object, &footprints, group).into_iter().filter(|step| step.mask != 0));
    }
    steps
}

/// The accesses that an access of a surface is about to make.
pub(super) fn accesses_of(launch: &Launch<'_>, rows: Rows, op: &SurfaceOp, mask: u32) -> Vec<Step> {
    let mut steps = Vec::new();
    for (handle, group) in by_handle(rows, op.handle, mask) {
        let Ok(object) = surface(launch, op, handle) else { continue };
        let mut step = Step { addresses: [0; 32], mask: 0, bytes: op.total_bytes() };
        for lane in lanes(group) {
            if let Spot::At(address) = spot(rows, op, object, lane) {
                step.addresses[lane] = address;
                step.mask |= 1 << lane;
            }
        }
        if step.mask != 0 {
            steps.push(step);
        }
    }
    steps
}
