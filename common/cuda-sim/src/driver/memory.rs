//! Device memory, pinned host memory, copies and fills.

use std::ffi::{c_int, c_uint, c_void};

use ptx_sim::DevicePtr;

use crate::abi::{BatchedCopy, Code, Copy2d, Copy3d, Handle, Outcome, Pointer, memory_type};
use crate::api::{exported, put, put_if_wanted, slice};
use crate::queue::{Wanted, When, finish, submit};
use crate::state::{HostMemory, HostMemoryKind, context, context_of, state};
use crate::tell::{locked, refused};
use crate::work::{Place, Work};

pub(crate) fn allocate(bytes: usize) -> Outcome<Pointer> {
    if bytes == 0 { Err(Code::INVALID_VALUE) } else { allocate_in(0, bytes) }
}

/// Memory that is allocated when the work of a stream comes to it: none for no bytes, as a pool has it.
pub(crate) fn allocate_in(stream: Handle, bytes: usize) -> Outcome<Pointer> {
    context_of(stream)?;
    if bytes == 0 {
        return Ok(0);
    }
    let label = format!("allocation of {bytes} bytes");
    let allocated = state()?.device.alloc(bytes as u64, &label).map_err(|error| refused(&error))?;
    if state()?.capture(stream)?.is_some() {
        keep_for_graph(allocated.0)?;
        submit(stream, Work::Allocate { pointer: allocated.0, bytes })?;
    }
    Ok(allocated.0)
}

/// Keeps memory for a graph: its address is fixed from now on, and all launches use the same bytes.
pub(crate) fn keep_for_graph(pointer: Pointer) -> Outcome {
    locked(&state()?.graph_memory).insert(pointer);
    Ok(())
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

/// Several copies between addresses of the unified space.
///
/// # Safety
/// The lists have `count` values.
unsafe fn copy_all(
    to: *const Pointer,
    from: *const Pointer,
    bytes: *const usize,
    count: usize,
    stream: Handle,
) -> Outcome {
    // SAFETY: as the caller promises.
    let (to, from, bytes) = unsafe { (slice(to, count)?, slice(from, count)?, slice(bytes, count)?) };
    (0..count).try_for_each(|at| copy(Place::of(to[at]), Place::of(from[at]), bytes[at], stream))
}

/// Several copies of rows, once all of them fit.
///
/// # Safety
/// The list has `count` values.
unsafe fn copy_all_3d(count: usize, list: *const BatchedCopy, stream: Handle) -> Outcome {
    // SAFETY: as the caller promises.
    let copies = unsafe { slice(list, count)? }.iter().map(|copy| copy.copy()?.work());
    copies.collect::<Outcome<Vec<_>>>()?.into_iter().try_for_each(|work| submit(stream, work))
}

/// `CUpointer_attribute`
mod pointer {
    use std::ffi::c_int;

    pub(super) const CONTEXT: c_int = 1;
    pub(super) const MEMORY_TYPE: c_int = 2;
    pub(super) const DEVICE_POINTER: c_int = 3;
    pub(super) const HOST_POINTER: c_int = 4;
    pub(super) const SYNC_MEMOPS: c_int = 6;
    pub(super) const BUFFER_ID: c_int = 7;
    pub(super) const IS_MANAGED: c_int = 8;
    pub(super) const DEVICE_ORDINAL: c_int = 9;
    pub(super) const IS_IPC_CAPABLE: c_int = 10;
    pub(super) const RANGE_START: c_int = 11;
    pub(super) const RANGE_SIZE: c_int = 12;
    pub(super) const MAPPED: c_int = 13;
    pub(super) const ALLOWED_HANDLE_TYPES: c_int = 14;
    pub(super) const POOL: c_int = 17;
}

/// Stores an attribute of a pointer.
///
/// # Safety
/// `value` is null or valid for a value of the attribute's type.
unsafe fn pointer_attribute(value: *mut c_void, attribute: c_int, pointer: Pointer) -> Outcome {
    let state = state()?;
    let (start, bytes) = state.device.allocation(DevicePtr(pointer)).ok_or(Code::INVALID_VALUE)?;
    let host = state.host_memory(pointer).map(|(_, found)| found.kind);
    // SAFETY: as the caller promises.
    unsafe {
        match attribute {
            pointer::CONTEXT => put(value.cast(), state.primary(0)?),
            pointer::MEMORY_TYPE => {
                let on_device = matches!(host, None | Some(HostMemoryKind::Managed));
                put(value.cast(), if on_device { memory_type::DEVICE } else { memory_type::HOST })
            }
            pointer::HOST_POINTER if host.is_none() => Err(Code::INVALID_VALUE),
            pointer::DEVICE_POINTER | pointer::HOST_POINTER => put(value.cast(), pointer),
            pointer::IS_MANAGED => put(value.cast(), c_int::from(host == Some(HostMemoryKind::Managed))),
            // Addresses of the device are given once.
            pointer::BUFFER_ID | pointer::RANGE_START => put(value.cast(), start.0),
            pointer::RANGE_SIZE => put(value.cast(), bytes),
            pointer::MAPPED => put(value.cast(), 1 as c_int),
            pointer::SYNC_MEMOPS => put(value.cast(), c_int::from(locked(&state.synchronous).contains(&start.0))),
            pointer::DEVICE_ORDINAL | pointer::IS_IPC_CAPABLE => put(value.cast(), 0 as c_int),
            pointer::ALLOWED_HANDLE_TYPES | pointer::POOL => put(value.cast(), 0_u64),
            _ => Err(Code::NOT_SUPPORTED),
        }
    }
}

/// Stores the value of an attribute that a pointer does not have.
///
/// # Safety
/// As for [`pointer_attribute`].
unsafe fn put_nothing(value: *mut c_void, attribute: c_int) -> Outcome {
    const INVALID_DEVICE: c_int = -2;
    // SAFETY: as the caller promises.
    unsafe {
        match attribute {
            pointer::DEVICE_ORDINAL => put(value.cast(), INVALID_DEVICE),
            pointer::MEMORY_TYPE
            | pointer::IS_MANAGED
            | pointer::MAPPED
            | pointer::SYNC_MEMOPS
            | pointer::IS_IPC_CAPABLE => put(value.cast(), 0 as c_int),
            _ => put(value.cast(), 0_u64),
        }
    }
}

/// Advice for managed memory: none, as it has no effect. `CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY` is 1;
/// others are places.
///
/// # Safety
/// `value` has `bytes` bytes.
unsafe fn range_attribute(value: *mut c_void, bytes: usize, attribute: c_int, pointer: Pointer) -> Outcome {
    const READ_MOSTLY: c_int = 1;
    const NO_DEVICE: c_int = -2;
    context()?;
    let managed = state()?.host_memory(pointer).is_some_and(|(_, found)| found.kind == HostMemoryKind::Managed);
    if !managed || value.is_null() || bytes == 0 || !bytes.is_multiple_of(4) {
        return Err(Code::INVALID_VALUE);
    }
    let answer = if attribute == READ_MOSTLY { 0 } else { NO_DEVICE };
    // SAFETY: as the caller promises.
    unsafe { std::slice::from_raw_parts_mut(value.cast::<c_int>(), bytes / 4).fill(answer) };
    Ok(())
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
        let state = state()?;
        let (in_use, memory) = (state.device.memory().in_use, state.options.memory);
        // SAFETY: null or places of the caller's.
        unsafe {
            put_if_wanted(free, memory.saturating_sub(in_use) as usize);
            put_if_wanted(total, memory as usize);
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

    fn cuMemHostRegister_v2(pointer: *mut c_void, bytes: usize, flags: c_uint) also cuMemHostRegister {
        // SAFETY: as the caller promises.
        unsafe { register(pointer, bytes, flags) }
    }

    fn cuMemHostUnregister(pointer: *mut c_void) {
        context()?;
        free_host(pointer as Pointer, HostMemoryKind::Registered).map_err(|_| Code::HOST_MEMORY_NOT_REGISTERED)
    }

    fn cuPointerGetAttribute(value: *mut c_void, attribute: c_int, pointer: Pointer) {
        // SAFETY: as the caller promises.
        unsafe { pointer_attribute(value, attribute, pointer) }
    }

    // The one that can be set. Copies are done when they return, whether they have to be or not.
    fn cuPointerSetAttribute(value: *const c_void, attribute: c_int, pointer: Pointer) {
        let state = state()?;
        let (start, _) = state.device.allocation(DevicePtr(pointer)).ok_or(Code::INVALID_VALUE)?;
        // SAFETY: the caller's place has the attribute's type.
        let value = unsafe { value.cast::<c_int>().as_ref() }.filter(|_| attribute == pointer::SYNC_MEMOPS);
        let mut synchronous = locked(&state.synchronous);
        match value.ok_or(Code::INVALID_VALUE)? {
            0 => synchronous.remove(&start.0),
            _ => synchronous.insert(start.0),
        };
        Ok(())
    }

    // What a pointer does not have is zero, as all is that points nowhere.
    fn cuPointerGetAttributes(count: c_uint, attributes: *const c_int, values: *const *mut c_void, pointer: Pointer) {
        // SAFETY: as the caller promises.
        let (attributes, values) = unsafe { (slice(attributes, count as usize)?, slice(values, count as usize)?) };
        attributes.iter().zip(values).try_for_each(|(attribute, value)| {
            // SAFETY: the caller's places have the attributes' types.
            match unsafe { pointer_attribute(*value, *attribute, pointer) } {
                // SAFETY: as above.
                Err(Code::INVALID_VALUE) if !value.is_null() => unsafe { put_nothing(*value, *attribute) },
                done => done,
            }
        })
    }

    fn cuMemAdvise_v2(_pointer: Pointer, _bytes: usize, _advice: c_int, _location: u64) {
        context().map(|_| ())
    }

    fn cuMemAdvise(_pointer: Pointer, _bytes: usize, _advice: c_int, _device: c_int) {
        context().map(|_| ())
    }

    fn cuMemPrefetchAsync(_pointer: Pointer, _bytes: usize, _device: c_int, stream: Handle) {
        context_of(stream).map(|_| ())
    }

    fn cuMemPrefetchAsync_v2(_pointer: Pointer, _bytes: usize, _location: u64, _flags: c_uint, stream: Handle) {
        context_of(stream).map(|_| ())
    }

    fn cuMemPrefetchBatchAsync(
        _pointers: *const Pointer,
        _bytes: *const usize,
        _count: usize,
        _locations: *const c_void,
        _indices: *const usize,
        _location_count: usize,
        _flags: u64,
        stream: Handle,
    ) {
        context_of(stream).map(|_| ())
    }

    fn cuMemRangeGetAttribute(value: *mut c_void, bytes: usize, attribute: c_int, pointer: Pointer, _length: usize) {
        // SAFETY: as the caller promises.
        unsafe { range_attribute(value, bytes, attribute, pointer) }
    }

    fn cuMemRangeGetAttributes(
        values: *const *mut c_void,
        bytes: *const usize,
        attributes: *const c_int,
        count: usize,
        pointer: Pointer,
        _length: usize,
    ) {
        // SAFETY: as the caller promises.
        unsafe {
            let (values, bytes, attributes) = (slice(values, count)?, slice(bytes, count)?, slice(attributes, count)?);
            (0..count).try_for_each(|at| range_attribute(values[at], bytes[at], attributes[at], pointer))
        }
    }

    fn cuMemcpyBatchAsync_v2(
        to: *const Pointer,
        from: *const Pointer,
        bytes: *const usize,
        count: usize,
        _attributes: *const c_void,
        _indices: *const usize,
        _attribute_count: usize,
        stream: Handle,
    ) {
        // SAFETY: as the caller promises.
        unsafe { copy_all(to, from, bytes, count, stream) }
    }

    fn cuMemcpyBatchAsync(
        to: *const Pointer,
        from: *const Pointer,
        bytes: *const usize,
        count: usize,
        _attributes: *const c_void,
        _indices: *const usize,
        _attribute_count: usize,
        _failed: *mut usize,
        stream: Handle,
    ) {
        // SAFETY: as the caller promises.
        unsafe { copy_all(to, from, bytes, count, stream) }
    }

    fn cuMemcpy3DBatchAsync_v2(count: usize, list: *const BatchedCopy, _flags: u64, stream: Handle) {
        // SAFETY: as the caller promises.
        unsafe { copy_all_3d(count, list, stream) }
    }

    fn cuMemcpy3DBatchAsync(
        count: usize,
        list: *const BatchedCopy,
        _failed: *mut usize,
        _flags: u64,
        stream: Handle,
    ) {
        // SAFETY: as the caller promises.
        unsafe { copy_all_3d(count, list, stream) }
    }

    // What is discarded may keep its values.
    fn cuMemDiscardBatchAsync(
        _pointers: *const Pointer,
        _bytes: *const usize,
        _count: usize,
        _flags: u64,
        stream: Handle,
    ) {
        context_of(stream).map(|_| ())
    }

    fn cuMemDiscardAndPrefetchBatchAsync(
        _pointers: *const Pointer,
        _bytes: *const usize,
        _count: usize,
        _locations: *const c_void,
        _indices: *const usize,
        _location_count: usize,
        _flags: u64,
        stream: Handle,
    ) {
        context_of(stream).map(|_| ())
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

    // Where the other structure of a copy has what is reserved, this one has contexts.
    fn cuMemcpy3DPeer(copy: *const Copy3d) {
        // SAFETY: as the caller promises.
        submit(0, unsafe { copy_3d(copy)? })
    }

    fn cuMemcpy3DPeerAsync(copy: *const Copy3d, stream: Handle) {
        // SAFETY: as the caller promises.
        submit(stream, unsafe { copy_3d(copy)? })
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
