//! Devices and their attributes.

use std::ffi::{c_char, c_int, c_uint};

use ptx_sim::{MAX_BLOCK, MAX_GRID, MAX_THREADS};

use crate::abi::{Code, DeviceId, Handle, Outcome, device_attribute as attribute};
use crate::api::{exported, put, text};
use crate::queue::{Wanted, finish};
use crate::state::{Context, MULTIPROCESSORS, state};

/// The simulator is no faster than its host; a clock of 1 GHz, so that what divides by it works.
const CLOCK_KHZ: i32 = 1_000_000;

pub(crate) fn checked(device: DeviceId) -> Outcome {
    state()?.primary(device).map(|_| ())
}

/// A device's name, which says what it is.
pub(crate) fn name(device: DeviceId) -> Outcome<String> {
    let compute = state()?.options.compute;
    checked(device)?;
    Ok(format!("Simulated GPU {device} (ptx-sim, sm_{}{})", compute.major, compute.minor))
}

/// The value of an attribute: 0 for what the simulator does not have.
pub(crate) fn value_of(id: c_int, device: DeviceId) -> Outcome<c_int> {
    let compute = state()?.options.compute;
    let limits = compute.limits();
    let int = |value: u32| value as c_int;
    Ok(match id {
        attribute::MAX_THREADS_PER_BLOCK => int(MAX_THREADS),
        attribute::MAX_BLOCK_DIM_X => int(MAX_BLOCK[0]),
        attribute::MAX_BLOCK_DIM_Y => int(MAX_BLOCK[1]),
        attribute::MAX_BLOCK_DIM_Z => int(MAX_BLOCK[2]),
        attribute::MAX_GRID_DIM_X => int(MAX_GRID[0]),
        attribute::MAX_GRID_DIM_Y => int(MAX_GRID[1]),
        attribute::MAX_GRID_DIM_Z => int(MAX_GRID[2]),
        attribute::MAX_SHARED_MEMORY_PER_BLOCK => 48 << 10,
        attribute::TOTAL_CONSTANT_MEMORY => 64 << 10,
        attribute::WARP_SIZE => 32,
        attribute::MAX_PITCH => c_int::MAX,
        attribute::MAX_REGISTERS_PER_BLOCK | attribute::MAX_REGISTERS_PER_MULTIPROCESSOR => {
            int(ptx_sim::occupancy::REGISTERS)
        }
        attribute::CLOCK_RATE | attribute::MEMORY_CLOCK_RATE => CLOCK_KHZ,
        attribute::TEXTURE_ALIGNMENT => 512,
        attribute::MULTIPROCESSOR_COUNT => MULTIPROCESSORS,
        attribute::PCI_BUS_ID => device + 1,
        attribute::GLOBAL_MEMORY_BUS_WIDTH => 5120,
        attribute::L2_CACHE_SIZE => 50 << 20,
        attribute::MAX_THREADS_PER_MULTIPROCESSOR => int(limits.threads),
        attribute::COMPUTE_CAPABILITY_MAJOR => compute.major.into(),
        attribute::COMPUTE_CAPABILITY_MINOR => compute.minor.into(),
        attribute::MAX_SHARED_MEMORY_PER_MULTIPROCESSOR => int(limits.shared_bytes),
        attribute::MAX_SHARED_MEMORY_PER_BLOCK_OPTIN => int(limits.shared_per_block()),
        attribute::MAX_BLOCKS_PER_MULTIPROCESSOR => int(limits.blocks),
        attribute::RESERVED_SHARED_MEMORY_PER_BLOCK => int(limits.reserved_bytes),
        attribute::CLUSTER_LAUNCH => (compute.major >= 9).into(),
        attribute::CONCURRENT_KERNELS
        | attribute::CAN_MAP_HOST_MEMORY
        | attribute::ASYNC_ENGINE_COUNT
        | attribute::MANAGED_MEMORY
        | attribute::CONCURRENT_MANAGED_ACCESS
        | attribute::CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM
        | attribute::HOST_REGISTER_SUPPORTED
        | attribute::UNIFIED_ADDRESSING
        | attribute::STREAM_PRIORITIES_SUPPORTED
        | attribute::COOPERATIVE_LAUNCH
        | attribute::VIRTUAL_MEMORY_MANAGEMENT
        | attribute::MEMORY_POOLS_SUPPORTED => 1,
        _ if (1..attribute::END).contains(&id) => 0,
        _ => return Err(Code::INVALID_VALUE),
    })
}

/// An identifier of a device: the same in each process.
pub(crate) fn uuid(device: DeviceId) -> [u8; 16] {
    let mut uuid = *b"ptx-sim device 0";
    uuid[15] += device as u8;
    uuid
}

/// The device of an identifier such as `0000:01:00.0`, where the domain and the function may be left out.
fn by_bus_id(text: &str) -> Option<DeviceId> {
    let slot = text.strip_suffix(".0").unwrap_or(text).strip_suffix(":00")?;
    let bus = slot.rsplit_once(':').map_or(slot, |(_, bus)| bus);
    DeviceId::from_str_radix(bus, 16).ok().map(|bus| bus - 1)
}

exported! {
    fn cuDeviceGetCount(count: *mut c_int) {
        // SAFETY: a place of the caller's.
        unsafe { put(count, state()?.options.devices.into()) }
    }

    fn cuDeviceGet(device: *mut DeviceId, ordinal: c_int) {
        checked(ordinal)?;
        // SAFETY: a place of the caller's.
        unsafe { put(device, ordinal) }
    }

    fn cuDeviceGetName(name: *mut c_char, length: c_int, device: DeviceId) {
        let text = self::name(device)?;
        let room = usize::try_from(length).ok().filter(|room| *room > 0 && !name.is_null()).ok_or(Code::INVALID_VALUE)?;
        let bytes = &text.as_bytes()[..text.len().min(room - 1)];
        // SAFETY: the caller's buffer has `length` bytes.
        unsafe {
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), name.cast(), bytes.len());
            put(name.add(bytes.len()), 0)
        }
    }

    fn cuDeviceGetUuid(uuid: *mut [u8; 16], device: DeviceId) {
        checked(device)?;
        // SAFETY: a place of the caller's.
        unsafe { put(uuid, self::uuid(device)) }
    }

    fn cuDeviceGetUuid_v2(uuid: *mut [u8; 16], device: DeviceId) {
        checked(device)?;
        // SAFETY: a place of the caller's.
        unsafe { put(uuid, self::uuid(device)) }
    }

    fn cuDeviceTotalMem_v2(bytes: *mut usize, device: DeviceId) {
        checked(device)?;
        // SAFETY: a place of the caller's.
        unsafe { put(bytes, state()?.options.memory as usize) }
    }

    fn cuDeviceGetAttribute(value: *mut c_int, id: c_int, device: DeviceId) {
        checked(device)?;
        // SAFETY: a place of the caller's.
        unsafe { put(value, value_of(id, device)?) }
    }

    fn cuDeviceComputeCapability(major: *mut c_int, minor: *mut c_int, device: DeviceId) {
        checked(device)?;
        let compute = state()?.options.compute;
        // SAFETY: places of the caller's.
        unsafe {
            put(major, compute.major.into())?;
            put(minor, compute.minor.into())
        }
    }

    fn cuDeviceGetPCIBusId(text: *mut c_char, length: c_int, device: DeviceId) {
        checked(device)?;
        let id = format!("0000:{:02x}:00.0\0", device + 1);
        if text.is_null() || (length as usize) < id.len() {
            return Err(Code::INVALID_VALUE);
        }
        // SAFETY: the caller's buffer has `length` bytes.
        unsafe { std::ptr::copy_nonoverlapping(id.as_ptr(), text.cast(), id.len()) };
        Ok(())
    }

    fn cuDeviceGetByPCIBusId(device: *mut DeviceId, text: *const c_char) {
        // SAFETY: the caller's string.
        let found = by_bus_id(unsafe { self::text(text)? }).ok_or(Code::INVALID_VALUE)?;
        checked(found)?;
        // SAFETY: a place of the caller's.
        unsafe { put(device, found) }
    }

    fn cuDeviceCanAccessPeer(can: *mut c_int, device: DeviceId, peer: DeviceId) {
        checked(device)?;
        checked(peer)?;
        // SAFETY: a place of the caller's.
        unsafe { put(can, (device != peer).into()) }
    }

    fn cuDeviceGetP2PAttribute(value: *mut c_int, id: c_int, device: DeviceId, peer: DeviceId) {
        checked(device)?;
        checked(peer)?;
        // Access and atomics, and no arrays; a rank of 0.
        // SAFETY: a place of the caller's.
        unsafe { put(value, matches!(id, 2 | 3).into()) }
    }

    fn cuDevicePrimaryCtxRetain(context: *mut Handle, device: DeviceId) {
        // SAFETY: a place of the caller's.
        unsafe { put(context, state()?.primary(device)?) }
    }

    fn cuDevicePrimaryCtxRelease_v2(device: DeviceId) {
        checked(device)
    }

    fn cuDevicePrimaryCtxSetFlags_v2(device: DeviceId, _flags: c_uint) {
        checked(device)
    }

    fn cuDevicePrimaryCtxGetState(device: DeviceId, flags: *mut c_uint, active: *mut c_int) {
        checked(device)?;
        // SAFETY: places of the caller's.
        unsafe {
            put(flags, 0)?;
            put(active, 1)
        }
    }

    fn cuDevicePrimaryCtxReset_v2(device: DeviceId) {
        finish(Wanted::All)?;
        let context: std::sync::Arc<Context> = state()?.contexts.get(state()?.primary(device)?)?;
        context.broken.store(0, std::sync::atomic::Ordering::Relaxed);
        Ok(())
    }
}
