//! Textures and surfaces: reads, writes and reductions through handles of the device's objects. Their memory is checked and
//! watched like all global memory, texel by texel.

use super::atomic::combined;
use super::check::{Checked, for_parts};
use super::context::Context;
use super::elements::{gather, scatter};
use crate::exec::state::place::{Kind, Place, Reach};
use crate::exec::state::problem::Problem;
use crate::exec::state::rows::Rows;
use crate::exec::state::texels::*;
use crate::exec::watch::monitor::Monitor;
use crate::fault::FaultKind;
use crate::ir::*;
use crate::lanes::lanes;
use crate::scalar::Mode;
use crate::texture::{Footprint, MAX_TEXELS, ObjectKind};

/// `tex` and `tld4`.
#[inline(never)]
pub(crate) fn read<M: Monitor>(context: &mut Context<'_, '_, M>, rows: Rows, op: &TextureOp, mask: u32) -> Checked<()> {
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

/// `suld`, `sust` and `sured`.
#[inline(never)]
pub(crate) fn access<M: Monitor>(
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
pub(crate) fn query<M: Monitor>(
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
                match query.property {
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
