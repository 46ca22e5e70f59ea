//! Devices, their properties, and versions.

use std::ffi::{c_char, c_int, c_uint, c_void};

use super::{DEVICE, current, current_device, outcome, registration, runtime, same_as_driver};
use crate::abi::{Code, DeviceId, Handle, Outcome};
use crate::api::{put, slice};
use crate::driver::context::*;
use crate::driver::device::*;
use crate::driver::error::{VERSION, cuDriverGetVersion, cuProfilerStart, cuProfilerStop, look_up};
use crate::driver::pool::{cuDeviceGetDefaultMemPool, cuDeviceGetMemPool, cuDeviceSetMemPool};
use crate::state::{set_current, state};

/// Attributes in the order of `cudaDeviceProp` of CUDA 13, from `sharedMemPerBlock` on.
#[rustfmt::skip]
const PROPERTIES: [i32; 111] = [
    8, 12, 10, 11, 1, 2, 3, 4, 5, 6, 7, 9, 75, 76, 14, 51, 16, 18, 19,
    // Extents of textures, then of surfaces.
    21, 77, 22, 23, 73, 74, 70, 71, 72, 45, 46, 24, 25, 26, 47, 48, 49, 52, 42, 43, 27, 28, 29, 53, 54,
    55, 56, 57, 58, 59, 60, 61, 62, 63, 64, 65, 66, 67, 68,
    30, 31, 32, 33, 34, 50, 35, 40, 41, 37, 38, 108, 39, 78, 79, 80, 81, 82, 83, 84, 85, 86, 88, 89, 90, 91, 95, 97, 100, 101, 106,
    109, 111, 99, 112, 113, 114, 115, 116, 117, 118, 119, 121, 125, 120, 129, 130, 131, 133, 134, 139, 140, 143,
];

/// Attributes whose properties have the type `size_t`; all others are an `int`.
const SIZES: [i32; 9] = [8, 11, 9, 14, 51, 30, 81, 97, 111];

/// Attributes that CUDA 12 has in the structure too, and the ones that each follows.
const ONLY_IN_12: [(i32, i32); 8] = [(7, 13), (51, 15), (16, 17), (19, 20), (77, 69), (41, 36), (86, 87), (95, 96)];

/// Bytes of `cudaDeviceProp` of CUDA 13 and of CUDA 12.
const BYTES_13: usize = 1008;
const BYTES_12: usize = 1032;

/// A device's properties, as the bytes of `cudaDeviceProp`.
fn properties<const BYTES: usize>(device: DeviceId) -> Outcome<[u8; BYTES]> {
    let mut bytes = Vec::with_capacity(BYTES);
    bytes.extend(name(device)?.bytes());
    bytes.resize(256, 0);
    bytes.extend(uuid(device));
    bytes.resize(288, 0); // `luid` and its mask, which only Windows has
    bytes.extend(state()?.options.memory.to_le_bytes());
    let added = |id| ONLY_IN_12.into_iter().filter(move |(before, _)| BYTES == BYTES_12 && *before == id);
    for id in PROPERTIES.into_iter().flat_map(|id| [id].into_iter().chain(added(id).map(|(_, added)| added))) {
        let value = value_of(id, device)?;
        if SIZES.contains(&id) {
            bytes.resize(bytes.len().next_multiple_of(8), 0);
            bytes.extend((value as u64).to_le_bytes());
        } else {
            bytes.extend(value.to_le_bytes());
        }
    }
    let mut all = [0; BYTES]; // with what is reserved at the end
    all.get_mut(..bytes.len()).ok_or(Code::UNKNOWN)?.copy_from_slice(&bytes);
    Ok(all)
}

runtime! {
    fn cudaGetDeviceProperties(properties: *mut [u8; BYTES_13], device: DeviceId) {
        // SAFETY: a place of the caller's.
        unsafe { put(properties, self::properties(device)?) }
    }

    // The name that programs of CUDA 12 use.
    fn cudaGetDeviceProperties_v2(properties: *mut [u8; BYTES_12], device: DeviceId) {
        // SAFETY: a place of the caller's.
        unsafe { put(properties, self::properties(device)?) }
    }

    fn cudaSetDevice(device: DeviceId) {
        set_current(state()?.primary(device)?);
        DEVICE.set(device);
        Ok(())
    }

    fn cudaInitDevice(device: DeviceId, _device_flags: c_uint, _flags: c_uint) {
        checked(device)
    }

    fn cudaGetDevice(device: *mut DeviceId) {
        // SAFETY: a place of the caller's.
        unsafe { put(device, current_device()?) }
    }

    fn cudaChooseDevice(device: *mut DeviceId, _properties: *const c_void) {
        // All are alike.
        // SAFETY: a place of the caller's.
        unsafe { put(device, 0) }
    }

    fn cudaSetValidDevices(devices: *const DeviceId, count: c_int) {
        // SAFETY: a list of the caller's.
        let devices = unsafe { slice(devices, count.max(0) as usize)? };
        devices.iter().try_for_each(|device| checked(*device))
    }

    fn cudaDeviceReset() also cudaThreadExit {
        registration::forget(current()?);
        // SAFETY: it takes no pointers.
        outcome(unsafe { cuDevicePrimaryCtxReset_v2(current_device()?) })
    }

    fn cudaDeviceEnablePeerAccess(peer: DeviceId, flags: c_uint) {
        // SAFETY: it takes no pointers.
        outcome(unsafe { cuCtxEnablePeerAccess(state()?.primary(peer)?, flags) })
    }

    fn cudaDeviceDisablePeerAccess(peer: DeviceId) {
        // SAFETY: it takes no pointers.
        outcome(unsafe { cuCtxDisablePeerAccess(state()?.primary(peer)?) })
    }

    fn cudaDeviceGetSharedMemConfig(config: *mut c_int) {
        // Banks of four bytes.
        // SAFETY: a place of the caller's.
        unsafe { put(config, 1) }
    }

    fn cudaDeviceSetSharedMemConfig(_config: c_int) {
        Ok(())
    }

    fn cudaRuntimeGetVersion(version: *mut c_int) {
        // SAFETY: a place of the caller's.
        unsafe { put(version, VERSION) }
    }

    fn cudaGetDriverEntryPoint(
        symbol: *const c_char,
        function: *mut *const c_void,
        _flags: u64,
        status: *mut c_int,
    ) also cudaGetDriverEntryPoint_ptsz {
        // SAFETY: as the caller promises.
        unsafe { entry_point(symbol, function, VERSION, status) }
    }

    fn cudaGetDriverEntryPointByVersion(
        symbol: *const c_char,
        function: *mut *const c_void,
        version: c_uint,
        _flags: u64,
        status: *mut c_int,
    ) also cudaGetDriverEntryPointByVersion_ptsz {
        // SAFETY: as the caller promises.
        unsafe { entry_point(symbol, function, version as c_int, status) }
    }
}

/// Looks a function of the driver up. That there is none is no error, only a status.
///
/// # Safety
/// As `cudaGetDriverEntryPoint` asks.
unsafe fn entry_point(
    symbol: *const c_char,
    function: *mut *const c_void,
    version: c_int,
    status: *mut c_int,
) -> Outcome {
    // SAFETY: as the caller promises.
    match unsafe { look_up(symbol, function, version, status) } {
        Err(Code::NOT_FOUND) => Ok(()),
        found => found,
    }
}

same_as_driver! {
    fn cudaGetDeviceCount(count: *mut c_int) = cuDeviceGetCount;
    fn cudaDeviceGetAttribute(value: *mut c_int, id: c_int, device: DeviceId) = cuDeviceGetAttribute;
    fn cudaDeviceGetP2PAttribute(value: *mut c_int, id: c_int, device: DeviceId, peer: DeviceId) = cuDeviceGetP2PAttribute;
    fn cudaDeviceGetPCIBusId(text: *mut c_char, length: c_int, device: DeviceId) = cuDeviceGetPCIBusId;
    fn cudaDeviceGetByPCIBusId(device: *mut DeviceId, text: *const c_char) = cuDeviceGetByPCIBusId;
    fn cudaDeviceCanAccessPeer(can: *mut c_int, device: DeviceId, peer: DeviceId) = cuDeviceCanAccessPeer;
    fn cudaDeviceSynchronize() also cudaThreadSynchronize = cuCtxSynchronize;
    fn cudaDeviceGetLimit(value: *mut usize, limit: c_int) also cudaThreadGetLimit = cuCtxGetLimit;
    fn cudaDeviceSetLimit(limit: c_int, value: usize) also cudaThreadSetLimit = cuCtxSetLimit;
    fn cudaDeviceGetCacheConfig(config: *mut c_int) also cudaThreadGetCacheConfig = cuCtxGetCacheConfig;
    fn cudaDeviceSetCacheConfig(config: c_int) also cudaThreadSetCacheConfig = cuCtxSetCacheConfig;
    fn cudaDeviceGetStreamPriorityRange(least: *mut c_int, greatest: *mut c_int) = cuCtxGetStreamPriorityRange;
    fn cudaSetDeviceFlags(flags: c_uint) = cuCtxSetFlags;
    fn cudaGetDeviceFlags(flags: *mut c_uint) = cuCtxGetFlags;
    fn cudaDriverGetVersion(version: *mut c_int) = cuDriverGetVersion;
    fn cudaDeviceGetDefaultMemPool(pool: *mut Handle, device: DeviceId) = cuDeviceGetDefaultMemPool;
    fn cudaDeviceGetMemPool(pool: *mut Handle, device: DeviceId) = cuDeviceGetMemPool;
    fn cudaDeviceSetMemPool(device: DeviceId, pool: Handle) = cuDeviceSetMemPool;
    fn cudaProfilerStart() = cuProfilerStart;
    fn cudaProfilerStop() = cuProfilerStop;
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    /// Numbers of both structures, at offsets that a compiler has found in CUDA's headers.
    #[test]
    fn properties_lie_where_programs_look() {
        crate::state::initialise().unwrap();
        let (new, old) = (properties::<BYTES_13>(0).unwrap(), properties::<BYTES_12>(0).unwrap());
        // Multiprocessors, threads and shared memory of each, shared memory of a block that asks, clusters.
        let expected = [132, 2048, 228 << 10, 227 << 10, 1];
        for (properties, offsets) in [(new.as_slice(), [384, 604, 624, 672, 748]), (&old, [388, 624, 640, 696, 772])] {
            let at = |offset: usize| i32::from_le_bytes(properties[offset..offset + 4].try_into().unwrap());
            assert_eq!(offsets.map(at), expected);
        }
    }
}
