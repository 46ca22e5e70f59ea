//! Tensor maps in memory: reading one, setting its fields, and copying one to where copies look for it.

use super::check::Checked;
use super::context::Context;
use super::elements::{read_lane, write_lane};
use crate::exec::state::address::{addresses, space_of};
use crate::exec::state::problem::Problem;
use crate::exec::state::rows::Rows;
use crate::exec::watch::monitor::Monitor;
use crate::fault::FaultKind;
use crate::ir::*;
use crate::lanes::lanes;
use crate::tensor_map::{Map, TENSOR_MAP_BYTES};

/// Bytes that are read or written at once.
const PART: usize = 32;

fn bytes_at<M: Monitor>(
    context: &mut Context<'_, '_, M>,
    space: MemSpace,
    lane: usize,
    address: u64,
) -> Checked<[u8; TENSOR_MAP_BYTES]> {
    let mut bytes = [0; TENSOR_MAP_BYTES];
    for (at, part) in (0..).step_by(PART).zip(bytes.chunks_mut(PART)) {
        let mut words = [0; PART / 8];
        read_lane(context, space, lane, address.wrapping_add(at), (0, 8), &mut words)?;
        for (to, word) in part.chunks_mut(8).zip(words) {
            to.copy_from_slice(&word.to_le_bytes());
        }
    }
    Ok(bytes)
}

fn set_bytes_at<M: Monitor>(
    context: &mut Context<'_, '_, M>,
    space: MemSpace,
    lane: usize,
    address: u64,
    bytes: &[u8; TENSOR_MAP_BYTES],
) -> Checked<()> {
    for (at, part) in (0..).step_by(PART).zip(bytes.chunks(PART)) {
        let mut words = [0; PART / 8];
        for (word, bytes) in words.iter_mut().zip(part.as_chunks().0) {
            *word = u64::from_le_bytes(*bytes);
        }
        write_lane(context, space, lane, address.wrapping_add(at), (0, 8), &words)?;
    }
    Ok(())
}

fn aligned(lane: usize, address: u64, align: u64) -> Checked<()> {
    if address.is_multiple_of(align) {
        return Ok(());
    }
    let message = format!("a tensor map at an address that is not a multiple of {align}");
    Err(Problem::new(FaultKind::Misaligned, 1 << lane, message).at(address))
}

/// The bytes of the map at a generic address, for a copy.
pub(crate) fn read_map<M: Monitor>(
    context: &mut Context<'_, '_, M>,
    lane: usize,
    address: u64,
) -> Checked<[u8; TENSOR_MAP_BYTES]> {
    aligned(lane, address, 64)?;
    if matches!(space_of(address), MemSpace::Shared | MemSpace::Local) {
        let message = "a copy finds its tensor map in global or constant memory, or among the kernel's parameters";
        return Err(Problem::new(FaultKind::InvalidTensorMap, 1 << lane, message).at(address));
    }
    bytes_at(context, MemSpace::Generic, lane, address)
}

/// `tensormap.replace`
#[inline(never)]
pub(crate) fn replace<M: Monitor>(
    context: &mut Context<'_, '_, M>,
    rows: Rows,
    replace: &ReplaceMap,
    mask: u32,
) -> Checked<()> {
    let addresses = addresses(rows, context.frame_local(), &replace.map);
    let (row, wide) = replace.value;
    for lane in lanes(mask) {
        let address = addresses[lane];
        let replaced = aligned(lane, address, 64).and_then(|()| {
            let mut bytes = bytes_at(context, replace.map.space, lane, address)?;
            match Map::replace(&mut bytes, replace.field, rows.lane_of(row, wide, lane)) {
                Ok(()) => set_bytes_at(context, replace.map.space, lane, address, &bytes),
                Err(message) => {
                    let message = format!("a field of a tensor map cannot be set: {message}");
                    Err(Problem::new(FaultKind::InvalidTensorMap, 1 << lane, message).at(address))
                }
            }
        });
        if let Err(problem) = replaced {
            context.report(problem)?;
        }
    }
    Ok(())
}

/// `tensormap.cp_fenceproxy`: the warp copies one map.
#[inline(never)]
pub(crate) fn copy<M: Monitor>(context: &mut Context<'_, '_, M>, rows: Rows, copy: &CopyMap, mask: u32) -> Checked<()> {
    let lane = mask.trailing_zeros() as usize;
    let to = addresses(rows, context.frame_local(), &copy.to)[lane];
    let from = addresses(rows, context.frame_local(), &copy.from)[lane];
    let copied = aligned(lane, to, 128).and_then(|()| aligned(lane, from, 128)).and_then(|()| {
        let bytes = bytes_at(context, MemSpace::Shared, lane, from)?;
        set_bytes_at(context, MemSpace::Global, lane, to, &bytes)
    });
    match copied {
        Ok(()) => Ok(()),
        Err(problem) => context.report(problem),
    }
}
