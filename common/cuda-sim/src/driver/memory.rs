//! Device memory, pinned host memory, copies and fills.

use std::ffi::{c_int, c_uint, c_void};

use ptx_sim::DevicePtr;

use crate::abi::{Code, Copy2d, Copy3d, Handle, Outcome, Pointer, memory_type};
use crate::api::{exported, put, put_if_wanted};
use crate::queue::{Wanted, When, finish, submit};
use crate::state::{HostMemory, HostMemoryKind, MEMORY, context, locked, refused, state};
use crate::work::{Place, Work};

pub(crate) fn allocate(bytes: usize) -> Outcome<Pointer> {
    context()?;
    if bytes == 0 {
        return Err(Code::INVALID_VALUE);
    }
    let label = format!("allocation of {bytes} bytes");
    let allocated = state()?.device.alloc(bytes as u64, &label).map_err(|error| refused(&error))?;
    Ok(allocated.0)
}

/// Memory of a graph: its address is fixed from now on, and all launches use the same bytes.
pub(crate) fn allocate_for_graph(bytes: usize) -> Outcome<Pointer> {
    let allocated = allocate(bytes)?;
    locked(&state()?.graph_memory).insert(allocated);
    Ok(allocated)
}

/// Memory that is allocated when the work of a stream comes to it.
pub(crate) fn allocate_in(stream: Handle, bytes: usize) -> Outcome<Pointer> {
    if state()?.capture(stream)?.is_none() {
        return allocate(bytes);
    }
    let pointer = allocate_for_graph(bytes)?;
    submit(stream, Work::Allocate { pointer, bytes })?;
    Ok(pointer)
}

/// Frees memory of the device, or managed memory, once all work is done.
fn free(pointer: Pointer) -> Outcome {
    context()?;
    finish(Wanted::All)?;
    state()?.free(pointer)
}

/// Memory at one address for the host and all devices.
fn allocate_host(bytes: usize, kind: HostMemoryKind, flags: c_uint) -> Outcome<Pointer> {
    context()?;
    if bytes == 0 {
        return Err(Code::INVALID_VALUE);
    }
    let label = match kind {
        HostMemoryKind::Managed => format!("managed allocation of {bytes} bytes"),
        _ => format!("host allocation of {bytes} bytes"),
    };
    let state = state()?;
    let allocated = state.device.alloc_shared(bytes as u64, &label).map_err(|error| refused(&error))?;
    locked(&state.host_memory).insert(allocated.0, HostMemory { kind, flags });
    Ok(allocated.0)
}

/// Makes memory of the program reachable for devices.
///
/// # Safety
/// As `cuMemHostRegister` asks.
unsafe fn register(memory: *mut c_void, bytes: usize, flags: c_uint) -> Outcome {
    context()?;
    let state = state()?;
    if bytes == 0 || memory.is_null() {
        return Err(Code::INVALID_VALUE);
    }
    if state.host_memory(memory as Pointer).is_some() {
        return Err(Code::HOST_MEMORY_ALREADY_REGISTERED);
    }
    let label = format!("registered memory of {bytes} bytes");
    // SAFETY: as the caller promises; what shares 16 bytes with it lies on the same page.
    let adopted = unsafe { state.device.adopt(memory.cast(), bytes as u64, &label) };
    let start = adopted.map_err(|error| refused(&error))?;
    locked(&state.host_memory).insert(start.0, HostMemory { kind: HostMemoryKind::Registered, flags });
    Ok(())
}

/// Ends an allocation of host memory, once all work is done.
fn free_host(pointer: Pointer, kind: HostMemoryKind) -> Outcome {
    finish(Wanted::All)?;
    state()?.free_host(pointer, kind)
}

/// Address at which devices reach host memory: the host's own.
fn device_pointer(pointer: *mut c_void) -> Outcome<Pointer> {
    context()?;
    state()?.host_memory(pointer as Pointer).map(|_| pointer as Pointer).ok_or(Code::INVALID_VALUE)
}

/// # Safety
/// `copy` is null or valid.
unsafe fn copy_2d(copy: *const Copy2d, when: impl Into<When>) -> Outcome {
    // SAFETY: as the caller promises.
    submit(when, Copy3d::from(unsafe { copy.as_ref() }.ok_or(Code::INVALID_VALUE)?).work()?)
}

/// The work of a copy.
///
/// # Safety
/// `copy` is null or valid.
pub(crate) unsafe fn copy_3d(copy: *const Copy3d) -> Outcome<Work> {
    // SAFETY: as the caller promises.
    unsafe { copy.as_ref() }.ok_or(Code::INVALID_VALUE)?.work()
}

fn copy(to: Place, from: Place, bytes: usize, when: impl Into<When>) -> Outcome {
    submit(when, Work::copy(to, from, bytes))
}

fn fill(target: Pointer, value: u32, element_bytes: usize, count: usize, stream: Handle) -> Outcome {
    fill_2d((target, 0), value, element_bytes, (count, 1), stream)
}

fn fill_2d(
    (target, pitch): (Pointer, usize),
    value: u32,
    element_bytes: usize,
    (width, rows): (usize, usize),
    stream: Handle,
) -> Outcome {
    if !target.is_multiple_of(element_bytes as u64) || !pitch.is_multiple_of(element_bytes) {
        return Err(Code::INVALID_VALUE);
    }
    submit(stream, Work::Fill { target, value, element_bytes, width, rows, pitch })
}

exported! {
    fn cuMemGetInfo_v2(free: *mut usize, total: *mut usize) {
        context()?;
        let in_use = state()?.device.memory().in_use;
        // SAFETY: null or places of the caller's.
        unsafe {
            put_if_wanted(free, MEMORY.saturating_sub(in_use) as usize);
            put_if_wanted(total, MEMORY as usize);
        }
        Ok(())
    }

    fn cuMemAlloc_v2(pointer: *mut Pointer, bytes: usize) {
        // SAFETY: a place of the caller's.
        unsafe { put(pointer, allocate(bytes)?) }
    }

    fn cuMemAllocAsync(pointer: *mut Pointer, bytes: usize, stream: Handle) {
        // SAFETY: a place of the caller's.
        unsafe { put(pointer, allocate_in(stream, bytes)?) }
    }

    fn cuMemAllocFromPoolAsync(pointer: *mut Pointer, bytes: usize, pool: Handle, stream: Handle) {
        state()?.pools.get(pool)?;
        // SAFETY: a place of the caller's.
        unsafe { put(pointer, allocate_in(stream, bytes)?) }
    }

    fn cuMemAllocPitch_v2(pointer: *mut Pointer, pitch: *mut usize, width: usize, height: usize, _element: c_uint) {
        let row = width.next_multiple_of(512);
        // SAFETY: places of the caller's.
        unsafe {
            put(pitch, row)?;
            put(pointer, allocate(row.checked_mul(height).ok_or(Code::INVALID_VALUE)?)?)
        }
    }

    fn cuMemFree_v2(pointer: Pointer) {
        free(pointer)
    }

    fn cuMemFreeAsync(pointer: Pointer, stream: Handle) {
        context()?;
        submit(stream, Work::Free(pointer))
    }

    fn cuMemGetAddressRange_v2(base: *mut Pointer, bytes: *mut usize, pointer: Pointer) {
        context()?;
        let (start, length) = state()?.device.allocation(DevicePtr(pointer)).ok_or(Code::NOT_FOUND)?;
        // SAFETY: null or places of the caller's.
        unsafe {
            put_if_wanted(base, start.0);
            put_if_wanted(bytes, length as usize);
        }
        Ok(())
    }

    fn cuMemAllocManaged(pointer: *mut Pointer, bytes: usize, flags: c_uint) {
        // SAFETY: a place of the caller's.
        unsafe { put(pointer, allocate_host(bytes, HostMemoryKind::Managed, flags)?) }
    }

    fn cuMemHostAlloc(pointer: *mut *mut c_void, bytes: usize, flags: c_uint) {
        // SAFETY: a place of the caller's.
        unsafe { put(pointer, allocate_host(bytes, HostMemoryKind::Pinned, flags)? as *mut c_void) }
    }

    fn cuMemAllocHost_v2(pointer: *mut *mut c_void, bytes: usize) {
        // SAFETY: a place of the caller's.
        unsafe { put(pointer, allocate_host(bytes, HostMemoryKind::Pinned, 0)? as *mut c_void) }
    }

    fn cuMemFreeHost(pointer: *mut c_void) {
        free_host(pointer as Pointer, HostMemoryKind::Pinned)
    }

    fn cuMemHostGetDevicePointer_v2(address: *mut Pointer, pointer: *mut c_void, _flags: c_uint) {
        // SAFETY: a place of the caller's.
        unsafe { put(address, device_pointer(pointer)?) }
    }

    fn cuMemHostGetFlags(flags: *mut c_uint, pointer: *mut c_void) {
        context()?;
        let (_, found) = state()?.host_memory(pointer as Pointer).ok_or(Code::INVALID_VALUE)?;
        // SAFETY: a place of the caller's.
        unsafe { put(flags, found.flags) }
    }

    fn cuMemHostRegister_v2(pointer: *mut c_void, bytes: usize, flags: c_uint) {
        // SAFETY: as the caller promises.
        unsafe { register(pointer, bytes, flags) }
    }

    fn cuMemHostUnregister(pointer: *mut c_void) {
        context()?;
        free_host(pointer as Pointer, HostMemoryKind::Registered).map_err(|_| Code::HOST_MEMORY_NOT_REGISTERED)
    }

    fn cuPointerGetAttribute(value: *mut c_void, attribute: c_int, pointer: Pointer) {
        let state = state()?;
        state.device.allocation(DevicePtr(pointer)).ok_or(Code::INVALID_VALUE)?;
        let host = state.host_memory(pointer).map(|(_, found)| found.kind);
        // SAFETY: the caller's place has the attribute's type.
        unsafe {
            match attribute {
                1 => put(value.cast(), state.primary(0)?),
                2 => {
                    let on_device = matches!(host, None | Some(HostMemoryKind::Managed));
                    put(value.cast(), if on_device { memory_type::DEVICE } else { memory_type::HOST })
                }
                4 if host.is_none() => Err(Code::INVALID_VALUE),
                3 | 4 => put(value.cast(), pointer),
                8 => put(value.cast(), c_int::from(host == Some(HostMemoryKind::Managed))),
                9 => put(value.cast(), 0 as c_int),
                _ => Err(Code::NOT_SUPPORTED),
            }
        }
    }

    fn cuMemAdvise_v2(_pointer: Pointer, _bytes: usize, _advice: c_int, _location: u64) {
        context().map(|_| ())
    }

    fn cuMemPrefetchAsync_v2(_pointer: Pointer, _bytes: usize, _location: u64, _flags: c_uint, _stream: Handle) {
        context().map(|_| ())
    }

    fn cuMemcpy(to: Pointer, from: Pointer, bytes: usize) {
        copy(Place::of(to), Place::of(from), bytes, When::Now)
    }

    fn cuMemcpyAsync(to: Pointer, from: Pointer, bytes: usize, stream: Handle) {
        copy(Place::of(to), Place::of(from), bytes, stream)
    }

    fn cuMemcpyHtoD_v2(to: Pointer, from: *const c_void, bytes: usize) {
        copy(Place::Device(to), Place::host(from), bytes, When::Now)
    }

    fn cuMemcpyHtoDAsync_v2(to: Pointer, from: *const c_void, bytes: usize, stream: Handle) {
        copy(Place::Device(to), Place::host(from), bytes, stream)
    }

    fn cuMemcpyDtoH_v2(to: *mut c_void, from: Pointer, bytes: usize) {
        copy(Place::host(to), Place::Device(from), bytes, When::Now)
    }

    fn cuMemcpyDtoHAsync_v2(to: *mut c_void, from: Pointer, bytes: usize, stream: Handle) {
        copy(Place::host(to), Place::Device(from), bytes, stream)
    }

    fn cuMemcpyDtoD_v2(to: Pointer, from: Pointer, bytes: usize) {
        copy(Place::Device(to), Place::Device(from), bytes, 0)
    }

    fn cuMemcpyDtoDAsync_v2(to: Pointer, from: Pointer, bytes: usize, stream: Handle) {
        copy(Place::Device(to), Place::Device(from), bytes, stream)
    }

    fn cuMemcpyPeer(to: Pointer, _to_context: Handle, from: Pointer, _from_context: Handle, bytes: usize) {
        copy(Place::Device(to), Place::Device(from), bytes, 0)
    }

    fn cuMemcpyPeerAsync(
        to: Pointer,
        _to_context: Handle,
        from: Pointer,
        _from_context: Handle,
        bytes: usize,
        stream: Handle,
    ) {
        copy(Place::Device(to), Place::Device(from), bytes, stream)
    }

    fn cuMemcpy2D_v2(copy: *const Copy2d) {
        // SAFETY: as the caller promises.
        unsafe { copy_2d(copy, When::Now) }
    }

    fn cuMemcpy2DUnaligned_v2(copy: *const Copy2d) {
        // SAFETY: as the caller promises.
        unsafe { copy_2d(copy, When::Now) }
    }

    fn cuMemcpy2DAsync_v2(copy: *const Copy2d, stream: Handle) {
        // SAFETY: as the caller promises.
        unsafe { copy_2d(copy, stream) }
    }

    fn cuMemcpy3D_v2(copy: *const Copy3d) {
        // SAFETY: as the caller promises.
        submit(When::Now, unsafe { copy_3d(copy)? })
    }

    fn cuMemcpy3DAsync_v2(copy: *const Copy3d, stream: Handle) {
        // SAFETY: as the caller promises.
        submit(stream, unsafe { copy_3d(copy)? })
    }

    fn cuMemsetD8_v2(target: Pointer, value: u8, count: usize) {
        fill(target, value.into(), 1, count, 0)
    }

    fn cuMemsetD16_v2(target: Pointer, value: u16, count: usize) {
        fill(target, value.into(), 2, count, 0)
    }

    fn cuMemsetD32_v2(target: Pointer, value: c_uint, count: usize) {
        fill(target, value, 4, count, 0)
    }

    fn cuMemsetD8Async(target: Pointer, value: u8, count: usize, stream: Handle) {
        fill(target, value.into(), 1, count, stream)
    }

    fn cuMemsetD16Async(target: Pointer, value: u16, count: usize, stream: Handle) {
        fill(target, value.into(), 2, count, stream)
    }

    fn cuMemsetD32Async(target: Pointer, value: c_uint, count: usize, stream: Handle) {
        fill(target, value, 4, count, stream)
    }

    fn cuMemsetD2D8_v2(target: Pointer, pitch: usize, value: u8, width: usize, rows: usize) {
        fill_2d((target, pitch), value.into(), 1, (width, rows), 0)
    }

    fn cuMemsetD2D16_v2(target: Pointer, pitch: usize, value: u16, width: usize, rows: usize) {
        fill_2d((target, pitch), value.into(), 2, (width, rows), 0)
    }

    fn cuMemsetD2D32_v2(target: Pointer, pitch: usize, value: c_uint, width: usize, rows: usize) {
        fill_2d((target, pitch), value, 4, (width, rows), 0)
    }

    fn cuMemsetD2D8Async(target: Pointer, pitch: usize, value: u8, width: usize, rows: usize, stream: Handle) {
        fill_2d((target, pitch), value.into(), 1, (width, rows), stream)
    }

    fn cuMemsetD2D16Async(target: Pointer, pitch: usize, value: u16, width: usize, rows: usize, stream: Handle) {
        fill_2d((target, pitch), value.into(), 2, (width, rows), stream)
    }

    fn cuMemsetD2D32Async(target: Pointer, pitch: usize, value: c_uint, width: usize, rows: usize, stream: Handle) {
        fill_2d((target, pitch), value, 4, (width, rows), stream)
    }
}
