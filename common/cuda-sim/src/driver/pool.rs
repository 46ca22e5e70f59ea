//! Memory pools. Each takes from the memory of its device, and keeps nothing that is freed.

use std::ffi::{c_int, c_uint, c_ushort, c_void};

use crate::abi::{Code, DeviceId, Handle, Outcome};
use crate::api::{exported, put};
use crate::state::{Pool, state};
use crate::tell::locked;

/// `CUmemPool_attribute`: settings, which have no effect, before what is read.
const RELEASE_THRESHOLD: c_int = 4;
const RESERVED: c_int = 5;
const RESERVED_PEAK: c_int = 6;
const USED: c_int = 7;
const USED_PEAK: c_int = 8;

/// `CUmemLocationType` and `CUmemAccess_flags`.
pub(super) const DEVICE: c_int = 1;
const READ_WRITE: c_int = 3;

/// `CUmemLocation`.
#[repr(C)]
pub(crate) struct Location {
    pub(super) kind: c_int,
    pub(super) id: c_int,
}

/// `CUmemPoolProps`.
#[repr(C)]
pub(crate) struct Properties {
    kind: c_int,
    handles: c_uint,
    location: Location,
    security: *const c_void,
    most_bytes: usize,
    usage: c_ushort,
    reserved: [u8; 54],
}

const _: () = assert!(size_of::<Properties>() == 88);

/// The pool that a device's memory comes from, unless the program names another.
fn current_pool(device: DeviceId) -> Outcome<Handle> {
    let state = state()?;
    let chosen = locked(&state.current_pools).get(&device).copied();
    chosen.map_or_else(|| state.default_pool(device), Ok)
}

/// Chooses that pool.
fn choose(device: DeviceId, pool: Handle) -> Outcome {
    let state = state()?;
    state.primary(device)?;
    state.pools.get(pool)?;
    locked(&state.current_pools).insert(device, pool);
    Ok(())
}

/// The device of a location.
///
/// # Safety
/// `location` is null or valid.
unsafe fn device_at(location: *const Location) -> Outcome<DeviceId> {
    // SAFETY: as the caller promises.
    let location = unsafe { location.as_ref() }.ok_or(Code::INVALID_VALUE)?;
    if location.kind == DEVICE { Ok(location.id) } else { Err(Code::NOT_SUPPORTED) }
}

exported! {
    fn cuMemPoolCreate(pool: *mut Handle, properties: *const Properties) {
        // SAFETY: null or valid.
        let properties = unsafe { properties.as_ref() }.ok_or(Code::INVALID_VALUE)?;
        if properties.handles != 0 || properties.location.kind != DEVICE {
            return Err(Code::NOT_SUPPORTED); // shared with other processes, or memory of the host
        }
        state()?.primary(properties.location.id)?;
        // SAFETY: a place of the caller's.
        unsafe { put(pool, state()?.pools.add(Pool::default())) }
    }

    fn cuMemPoolDestroy(pool: Handle) {
        state()?.pools.remove(pool).map(|_| ())
    }

    fn cuDeviceGetDefaultMemPool(pool: *mut Handle, device: DeviceId) {
        // SAFETY: a place of the caller's.
        unsafe { put(pool, state()?.default_pool(device)?) }
    }

    fn cuDeviceGetMemPool(pool: *mut Handle, device: DeviceId) {
        // SAFETY: a place of the caller's.
        unsafe { put(pool, current_pool(device)?) }
    }

    fn cuDeviceSetMemPool(device: DeviceId, pool: Handle) {
        choose(device, pool)
    }

    fn cuMemGetDefaultMemPool(pool: *mut Handle, location: *const Location, _kind: c_int) {
        // SAFETY: as the caller promises.
        unsafe { put(pool, state()?.default_pool(device_at(location)?)?) }
    }

    fn cuMemGetMemPool(pool: *mut Handle, location: *const Location, _kind: c_int) {
        // SAFETY: as the caller promises.
        unsafe { put(pool, current_pool(device_at(location)?)?) }
    }

    fn cuMemSetMemPool(location: *const Location, _kind: c_int, pool: Handle) {
        // SAFETY: as the caller promises.
        choose(unsafe { device_at(location)? }, pool)
    }

    fn cuMemPoolSetAccess(pool: Handle, _map: *const c_void, _count: usize) {
        state()?.pools.get(pool).map(|_| ())
    }

    fn cuMemPoolGetAccess(flags: *mut c_int, pool: Handle, location: *const Location) {
        // SAFETY: null or valid.
        let location = unsafe { location.as_ref() }.ok_or(Code::INVALID_VALUE)?;
        state()?.pools.get(pool)?;
        // SAFETY: a place of the caller's.
        unsafe { put(flags, if location.kind == DEVICE { READ_WRITE } else { 0 }) }
    }

    fn cuMemPoolSetAttribute(pool: Handle, attribute: c_int, value: *const c_void) {
        let pool = state()?.pools.get(pool)?;
        if value.is_null() {
            return Err(Code::INVALID_VALUE);
        }
        // SAFETY: the caller's value has the attribute's type.
        let value = unsafe {
            match attribute {
                1..RELEASE_THRESHOLD => value.cast::<c_uint>().read().into(),
                RELEASE_THRESHOLD => value.cast::<u64>().read(),
                RESERVED_PEAK | USED_PEAK => return Ok(()), // a reset
                _ => return Err(Code::INVALID_VALUE),
            }
        };
        locked(&pool.settings)[attribute as usize] = value;
        Ok(())
    }

    fn cuMemPoolGetAttribute(pool: Handle, attribute: c_int, value: *mut c_void) {
        let pool = state()?.pools.get(pool)?;
        let memory = state()?.device.memory();
        // SAFETY: the caller's place has the attribute's type.
        unsafe {
            match attribute {
                1..RELEASE_THRESHOLD => put(value.cast(), locked(&pool.settings)[attribute as usize] as c_int),
                RELEASE_THRESHOLD => put(value.cast(), locked(&pool.settings)[attribute as usize]),
                RESERVED | USED => put(value.cast(), memory.in_use),
                RESERVED_PEAK | USED_PEAK => put(value.cast(), memory.peak),
                _ => Err(Code::INVALID_VALUE),
            }
        }
    }

    fn cuMemPoolTrimTo(pool: Handle, _bytes: usize) {
        state()?.pools.get(pool).map(|_| ())
    }
}
