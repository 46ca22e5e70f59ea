//! Elements of memory, for each lane of a part that has been checked.

use super::check::{Checked, for_parts};
use super::context::Context;
use crate::exec::state::block::Block;
use crate::exec::state::place::{Kind, Part, Place, Reach};
use crate::exec::watch::monitor::Monitor;
use crate::ir::MemSpace;
use crate::lanes::lanes;

/// A block's shared memory as bytes.
#[inline(always)]
pub(crate) fn shared_bytes(block: &mut Block) -> *mut u8 {
    block.shared.as_mut_ptr().cast()
}

/// The shared memory of a place, in the running block or in one of its cluster.
#[inline(always)]
/// Reads 16 bytes of the block's shared memory at an address that has been checked.
pub(crate) fn chunks(block: &mut Block) -> impl Fn(u64) -> u128 + '_ {
    let (memory, bytes) = (shared_bytes(block), block.shared_bytes);
    move |address| {
        assert!(address.is_multiple_of(16) && address + 16 <= bytes, "the tile was checked");
        // SAFETY: inside the block's shared memory, which is aligned to 16, and borrowed.
        u128::from_le(unsafe { *memory.add(address as usize).cast::<u128>() })
    }
}

fn memory_of(block: &mut Block, place: Place<'_>) -> *mut u8 {
    match place {
        Place::Peer(rank) => shared_bytes(&mut block.peers[rank as usize]),
        _ => shared_bytes(block),
    }
}

/// One element of shared memory.
///
/// # Safety
/// `offset + bytes` lies in the block's shared memory, and `offset` is a multiple of `bytes` (1, 2, 4 or 8).
#[inline(always)]
pub(crate) unsafe fn read_shared(memory: *const u8, offset: u64, bytes: u8) -> u64 {
    // SAFETY: by the caller's promise; shared memory is aligned to 16.
    unsafe {
        let at = memory.add(offset as usize);
        match bytes {
            1 => u64::from(*at),
            2 => u64::from(*at.cast::<u16>()),
            4 => u64::from(*at.cast::<u32>()),
            _ => *at.cast::<u64>(),
        }
    }
}

/// # Safety
/// Same as [`read_shared`].
#[inline(always)]
pub(crate) unsafe fn write_shared(memory: *mut u8, offset: u64, bytes: u8, value: u64) {
    // SAFETY: by the caller's promise; shared memory is aligned to 16.
    unsafe {
        let at = memory.add(offset as usize);
        match bytes {
            1 => *at = value as u8,
            2 => *at.cast::<u16>() = value as u16,
            4 => *at.cast::<u32>() = value as u32,
            _ => *at.cast::<u64>() = value,
        }
    }
}

/// Reads one element for each lane of a part; other lanes get 0.
#[inline(always)]
pub(crate) fn gather<M: Monitor>(
    context: &mut Context<'_, '_, M>,
    part: &Part<'_>,
    addresses: &[u64; 32],
    at: u64,
    bytes: u8,
) -> [u64; 32] {
    let mut values = [0; 32];
    let offset = |lane: usize| addresses[lane].wrapping_sub(part.base).wrapping_add(at);
    match part.place {
        Place::Allocation(allocation) => {
            for lane in lanes(part.mask) {
                // SAFETY: `for_parts` checked range and alignment of each lane of the part.
                values[lane] = unsafe { allocation.load(offset(lane), bytes) };
            }
        }
        Place::Shared | Place::Peer(_) => {
            let memory = memory_of(context.block, part.place);
            for lane in lanes(part.mask) {
                // SAFETY: as above.
                values[lane] = unsafe { read_shared(memory, offset(lane), bytes) };
            }
        }
        Place::Local => {
            for lane in lanes(part.mask) {
                let mut raw = [0; 8];
                context.warp.local.read(lane, offset(lane) as u32, &mut raw[..usize::from(bytes)]);
                values[lane] = u64::from_le_bytes(raw);
            }
        }
        Place::Param => {
            for lane in lanes(part.mask) {
                let mut raw = [0; 8];
                let from = offset(lane) as usize;
                let params = &context.launch.member(context.block.index.device).params;
                raw[..usize::from(bytes)].copy_from_slice(&params[from..from + usize::from(bytes)]);
                values[lane] = u64::from_le_bytes(raw);
            }
        }
    }
    values
}

#[inline(always)]
pub(crate) fn scatter<M: Monitor>(
    context: &mut Context<'_, '_, M>,
    part: &Part<'_>,
    addresses: &[u64; 32],
    at: u64,
    bytes: u8,
    value: impl Fn(usize) -> u64,
) {
    let offset = |lane: usize| addresses[lane].wrapping_sub(part.base).wrapping_add(at);
    match part.place {
        Place::Allocation(allocation) => {
            for lane in lanes(part.mask) {
                // SAFETY: `for_parts` checked range and alignment of each lane of the part.
                unsafe { allocation.store(offset(lane), bytes, value(lane)) };
            }
        }
        Place::Shared | Place::Peer(_) => {
            let memory = memory_of(context.block, part.place);
            for lane in lanes(part.mask) {
                // SAFETY: as above.
                unsafe { write_shared(memory, offset(lane), bytes, value(lane)) };
            }
        }
        Place::Local => {
            for lane in lanes(part.mask) {
                context.warp.local.write(lane, offset(lane) as u32, &value(lane).to_le_bytes()[..usize::from(bytes)]);
            }
        }
        // Refused by `for_parts`: `st.param` names the parameters of a call, which are local memory.
        Place::Param => {}
    }
}

/// Reads `values.len()` elements of `bytes` each at one address of one lane, `after` that number of the instruction's bytes for
/// it: for instructions that address memory by lane.
pub(crate) fn read_lane<M: Monitor>(
    context: &mut Context<'_, '_, M>,
    space: MemSpace,
    lane: usize,
    address: u64,
    (after, bytes): (u64, u8),
    values: &mut [u64],
) -> Checked<()> {
    let mut addresses = [0; 32];
    addresses[lane] = address;
    let total = u64::from(bytes) * values.len() as u64;
    for_parts(
        context,
        space,
        &addresses,
        1 << lane,
        Reach { after, ..Reach::new(Kind::Read, total) },
        |context, part| {
            for (at, value) in values.iter_mut().enumerate() {
                *value = gather(context, part, &addresses, at as u64 * u64::from(bytes), bytes)[lane];
            }
        },
    )?;
    Ok(())
}

/// Writes elements at one address of one lane; `after` as for [`read_lane`].
pub(crate) fn write_lane<M: Monitor>(
    context: &mut Context<'_, '_, M>,
    space: MemSpace,
    lane: usize,
    address: u64,
    (after, bytes): (u64, u8),
    values: &[u64],
) -> Checked<()> {
    let mut addresses = [0; 32];
    addresses[lane] = address;
    let total = u64::from(bytes) * values.len() as u64;
    let written = |_: usize| {
        let mut all = [0; 32];
        for (to, value) in all.chunks_exact_mut(bytes.into()).zip(values) {
            to.copy_from_slice(&value.to_le_bytes()[..usize::from(bytes)]);
        }
        all
    };
    let reach = Reach { values: Some(&written), after, ..Reach::new(Kind::Write, total) };
    for_parts(context, space, &addresses, 1 << lane, reach, |context, part| {
        for (at, value) in values.iter().enumerate() {
            scatter(context, part, &addresses, at as u64 * u64::from(bytes), bytes, |_| *value);
        }
    })?;
    Ok(())
}
