//! Addresses used by the lanes of an instruction.

use super::launch::Launch;
use super::rows::Rows;
use crate::ir::*;
use crate::lanes::each;
use crate::memory::Role;

/// The space that a generic address lies in.
#[inline(always)]
pub(crate) fn space_of(address: u64) -> MemSpace {
    match address / WINDOW {
        1 => MemSpace::Shared,
        2 => MemSpace::Local,
        3 => MemSpace::Param,
        _ => MemSpace::Global,
    }
}

/// Whether a generic address lies in a space. The block's own shared memory is part of its cluster's.
pub(crate) fn is_in_space(address: u64, space: MemSpace) -> bool {
    match space {
        MemSpace::Cluster => space_of(address) == MemSpace::Shared,
        MemSpace::Shared => space_of(address) == space && (address & (WINDOW - 1)) >> CLUSTER_RANK == 0,
        _ => space_of(address) == space,
    }
}

/// Whether a generic address is that of a `.const` variable.
pub(crate) fn is_constant(launch: &Launch<'_>, address: u64) -> bool {
    let snapshot = &launch.memory;
    let before = snapshot.partition_point(|allocation| allocation.base <= address);
    before.checked_sub(1).is_some_and(|at| {
        let allocation = &snapshot[at];
        allocation.role == Role::Constant && address - allocation.base < allocation.bytes
    })
}

#[inline(always)]
pub(crate) fn addresses(rows: Rows, frame_local: u32, address: &Address) -> [u64; 32] {
    let offset = address.offset as u64;
    match address.base {
        Base::Row64(row) => {
            let base = rows.get64(row);
            match address.space {
                // "Truncated if the register width exceeds the state space address width" (PTX ISA, "Addresses as Operands").
                MemSpace::Shared | MemSpace::Cluster => {
                    each(|lane| base[lane].wrapping_add(offset) & u64::from(u32::MAX))
                }
                _ => each(|lane| base[lane].wrapping_add(offset)),
            }
        }
        Base::Row32(row) => {
            let base = rows.get(row);
            match address.space {
                // A register of 32 bits is an address there, and nvcc relies on sums that wrap.
                MemSpace::Shared | MemSpace::Cluster | MemSpace::Local => {
                    each(|lane| u64::from(base[lane].wrapping_add(offset as u32)))
                }
                _ => each(|lane| u64::from(base[lane]).wrapping_add(offset)),
            }
        }
        Base::None => [offset; 32],
        Base::Frame => [u64::from(frame_local).wrapping_add(offset); 32],
    }
}

/// The base register of an address, and whether it has 64 bits.
#[inline(always)]
pub(crate) fn register_of(address: &Address) -> Option<(R, bool)> {
    match address.base {
        Base::Row64(row) => Some((row, true)),
        Base::Row32(row) => Some((row, false)),
        Base::None | Base::Frame => None,
    }
}
