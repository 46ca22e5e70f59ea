//! Virtual memory: addresses, memory, and mappings of it, each by itself.

use std::ffi::{c_int, c_uchar, c_ushort, c_void};

use super::device::checked;
use super::pool::{DEVICE, Location};
use crate::abi::{Code, Handle, Outcome, Pointer};
use crate::api::{exported, put, slice};
use crate::queue::{Wanted, finish};
use crate::state::{context, state};
use crate::tell::locked;
use crate::virtual_memory::{GRANULARITY, VirtualMemory};

/// `CUmemAllocationType`
const PINNED: c_int = 1;

/// `CUmemAllocationProp`
#[repr(C)]
pub(crate) struct Properties {
    kind: c_int,
    /// Ways to share it with other processes.
    handles: c_int,
    location: Location,
    security: *const c_void,
    compression: c_uchar,
    remote_access: c_uchar,
    usage: c_ushort,
    reserved: [u8; 4],
}

impl Properties {
    /// The device that memory is wanted of.
    fn device(&self) -> Outcome<c_int> {
        if self.kind != PINNED || self.location.kind != DEVICE || self.handles != 0 {
            return Err(Code::NOT_SUPPORTED); // memory of the host, and of several processes
        }
        checked(self.location.id).map(|()| self.location.id)
    }

    fn of(device: c_int) -> Self {
        Self {
            kind: PINNED,
            handles: 0,
            location: Location { kind: DEVICE, id: device },
            security: std::ptr::null(),
            compression: 0,
            remote_access: 0,
            usage: 0,
            reserved: [0; 4],
        }
    }
}

/// `CUmemAccessDesc`
#[repr(C)]
pub(crate) struct Access {
    location: Location,
    flags: c_int,
}

/// Changes something once all work is done.
fn change<T>(body: impl FnOnce(&mut VirtualMemory, &ptx_sim::Device) -> Outcome<T>) -> Outcome<T> {
    context()?;
    finish(Wanted::All)?;
    let state = state()?;
    body(&mut locked(&state.virtual_memory), &state.device)
}

exported! {
    fn cuMemGetAllocationGranularity(bytes: *mut usize, properties: *const Properties, _option: c_int) {
        // SAFETY: null or valid; a place of the caller's.
        unsafe {
            properties.as_ref().ok_or(Code::INVALID_VALUE)?.device()?;
            put(bytes, GRANULARITY as usize)
        }
    }

    // The address that the program would like to have is not given.
    fn cuMemAddressReserve(start: *mut Pointer, bytes: usize, align: usize, _wish: Pointer, _flags: u64) {
        // SAFETY: a place of the caller's.
        unsafe { put(start, change(|memory, device| memory.reserve(device, bytes as u64, align as u64))?) }
    }

    fn cuMemAddressFree(start: Pointer, bytes: usize) {
        change(|memory, _| memory.give_up(start, bytes as u64))
    }

    fn cuMemCreate(handle: *mut Handle, bytes: usize, properties: *const Properties, _flags: u64) {
        // SAFETY: null or valid.
        let ordinal = unsafe { properties.as_ref() }.ok_or(Code::INVALID_VALUE)?.device()?;
        // SAFETY: a place of the caller's.
        unsafe { put(handle, change(|memory, device| memory.create(device, bytes as u64, ordinal))?) }
    }

    fn cuMemRelease(handle: Handle) {
        change(|memory, device| memory.release(device, handle))
    }

    fn cuMemRetainAllocationHandle(handle: *mut Handle, address: *const c_void) {
        // SAFETY: a place of the caller's.
        unsafe { put(handle, change(|memory, _| memory.retain(address as Pointer))?) }
    }

    fn cuMemGetAllocationPropertiesFromHandle(properties: *mut Properties, handle: Handle) {
        // SAFETY: a place of the caller's.
        unsafe { put(properties, Properties::of(locked(&state()?.virtual_memory).device_of(handle)?)) }
    }

    fn cuMemMap(at: Pointer, bytes: usize, offset: usize, handle: Handle, _flags: u64) {
        // As CUDA has it.
        if offset != 0 {
            return Err(Code::INVALID_VALUE);
        }
        change(|memory, _| memory.map(at, bytes as u64, handle))
    }

    fn cuMemUnmap(at: Pointer, bytes: usize) {
        change(|memory, device| memory.unmap(device, at, bytes as u64))
    }

    fn cuMemSetAccess(at: Pointer, bytes: usize, access: *const Access, count: usize) {
        // SAFETY: as the caller promises.
        let access = unsafe { slice(access, count)? };
        let of_device = |access: &Access| {
            if access.location.kind != DEVICE {
                return Err(Code::NOT_SUPPORTED);
            }
            checked(access.location.id).map(|()| (access.location.id, access.flags as u64))
        };
        let access = access.iter().map(of_device).collect::<Outcome<Vec<_>>>()?;
        change(|memory, device| memory.set_access(device, at, bytes as u64, &access))
    }

    fn cuMemGetAccess(flags: *mut u64, location: *const Location, address: Pointer) {
        // SAFETY: null or valid; a place of the caller's.
        unsafe {
            let location = location.as_ref().ok_or(Code::INVALID_VALUE)?;
            put(flags, locked(&state()?.virtual_memory).access(address, location.id)?)
        }
    }
}

// Layouts that programs rely on, by `cuda.h` on a 64-bit machine.
const _: () = assert!(size_of::<Properties>() == 32 && size_of::<Access>() == 12);
