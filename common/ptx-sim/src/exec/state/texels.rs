//! Which texels an instruction reads or writes: the objects that handles name, and where coordinates lie in them.

use std::sync::Arc;

use super::launch::Launch;
use super::rows::Rows;
use crate::fault::FaultKind;
use crate::ir::*;
use crate::lanes::lanes;
use crate::memory::plural;
use crate::texture::{Coordinates, Footprint, Geometry, Object, ObjectKind, Sampling, Slot, corners, footprint};

/// Accesses of at most one address for each lane.
pub(crate) struct Step {
    pub addresses: [u64; 32],
    pub mask: u32,
    pub bytes: u64,
}

impl Step {
    /// Each lane with its address and bytes.
    pub(crate) fn touches(&self) -> Vec<(usize, u64, u32)> {
        lanes(self.mask).map(|lane| (lane, self.addresses[lane], self.bytes as u32)).collect()
    }
}

/// The object of a handle; the error is a problem without its lanes.
pub(crate) fn object<'l>(launch: &'l Launch<'_>, handle: u64) -> Result<&'l Arc<Object>, (FaultKind, String)> {
    match launch.objects.find(handle) {
        Some(Slot::Live(object)) => Ok(object),
        Some(Slot::Gone(label)) => {
            Err((FaultKind::UseAfterFree, format!("`{label}` (handle {handle:#x}) has been destroyed")))
        }
        None => Err((FaultKind::InvalidHandle, format!("{handle:#x} is no handle of a texture or surface"))),
    }
}

/// The texture of a handle, for a read with `geometry`.
pub(crate) fn texture<'l>(
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

pub(crate) fn surface<'l>(
    launch: &'l Launch<'_>,
    op: &SurfaceOp,
    handle: u64,
) -> Result<&'l Object, (FaultKind, String)> {
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
pub(crate) fn by_handle(rows: Rows, row: R, mask: u32) -> Vec<(u64, u32)> {
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

pub(crate) fn footprint_of(rows: Rows, op: &TextureOp, object: &Object, sampling: &Sampling, lane: usize) -> Footprint {
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
pub(crate) fn texel_steps(object: &Object, footprints: &[Footprint; 32], mask: u32) -> Vec<Step> {
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

/// Target of an access to a surface.
pub(crate) enum Spot {
    At(u64),
    /// Out of range: it reads zeros, and writes nothing.
    Nowhere,
    Outside(String),
}

pub(crate) fn spot(rows: Rows, op: &SurfaceOp, object: &Object, lane: usize) -> Spot {
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
            let (mut at, mut extents) = (format!("byte {x}"), Vec::new());
            let axes = [("row", y, height, "rows"), ("slice", z, depth, "slices")];
            for (name, place, size, plural) in axes.into_iter().take(op.geometry.dimensions() - 1) {
                at = format!("{at} of {name} {place}");
                extents.push(format!("{size} {plural}"));
            }
            if op.geometry.is_layered() {
                at = format!("{at} of layer {layer}");
                extents.push(format!("{layers} layers"));
            }
            let extents = if extents.is_empty() { String::new() } else { format!(", {}", extents.join(" and ")) };
            let bytes = plural(bytes as u64);
            let message = format!(
                "{bytes} at {at} of the surface `{}`, which has {row_bytes} bytes per row{extents}",
                object.label
            );
            Spot::Outside(message)
        }
    }
}

/// The accesses that a read of a texture is about to make, for monitors. Invalid ones are left out.
pub(crate) fn reads_of(launch: &Launch<'_>, rows: Rows, op: &TextureOp, mask: u32) -> Vec<Step> {
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
pub(crate) fn accesses_of(launch: &Launch<'_>, rows: Rows, op: &SurfaceOp, mask: u32) -> Vec<Step> {
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
