//! Memory: allocation, copies and fills.

use std::ffi::{c_int, c_long, c_uint, c_void};
use std::sync::Arc;

use super::registration::variable;
use super::{current_device, outcome, runtime, same_as_driver};
use crate::abi::{BatchedCopy, Code, Copy3d, CopySide, DeviceId, Handle, Outcome, Pointer};
use crate::api::put;
use crate::array::array;
use crate::driver::graph::{cuDeviceGetGraphMemAttribute, cuDeviceGraphMemTrim, cuDeviceSetGraphMemAttribute};
use crate::driver::memory::*;
use crate::driver::pool::*;
use crate::queue::{When, submit};
use crate::state::{Array, HostMemoryKind, state};
use crate::work::{FIRST_ADDRESS, Place, Work};

/// `cudaMemcpyKind`
#[allow(dead_code)]
pub(super) mod kind {
    use std::ffi::c_int;

    pub(crate) const HOST_TO_HOST: c_int = 0;
    pub(crate) const HOST_TO_DEVICE: c_int = 1;
    pub(crate) const DEVICE_TO_HOST: c_int = 2;
    pub(crate) const DEVICE_TO_DEVICE: c_int = 3;
    pub(crate) const DEFAULT: c_int = 4;
}

/// `cudaMemoryType`
const UNREGISTERED: c_int = 0;
const HOST: c_int = 1;
const DEVICE: c_int = 2;
const MANAGED: c_int = 3;

/// `cudaPointerAttributes`
#[repr(C)]
struct PointerAttributes {
    memory_type: c_int,
    device: c_int,
    device_pointer: Pointer,
    host_pointer: Pointer,
    reserved: [c_long; 8],
}

/// `cudaPitchedPtr`
#[derive(Clone, Copy)]
#[repr(C)]
pub(super) struct Pitched {
    pointer: Pointer,
    pitch: usize,
    width: usize,
    height: usize,
}

/// `cudaExtent` and `cudaPos`: bytes, rows, planes.
#[derive(Clone, Copy)]
#[repr(C)]
pub(super) struct Extent {
    pub(super) width: usize,
    pub(super) height: usize,
    pub(super) depth: usize,
}

/// One side of a three-dimensional copy.
#[derive(Clone, Copy)]
#[repr(C)]
struct Side3d {
    array: Handle,
    position: Extent,
    memory: Pitched,
}

/// `cudaMemcpy3DParms`
#[derive(Clone, Copy)]
#[repr(C)]
pub(super) struct Params3d {
    from: Side3d,
    to: Side3d,
    extent: Extent,
    kind: c_int,
}

impl Params3d {
    /// The runtime's form of a copy.
    pub(super) fn of(copy: &Copy3d) -> Outcome<Self> {
        let arrays =
            [&copy.from, &copy.to].map(|side| if side.array == 0 { Ok(None) } else { array(side.array).map(Some) });
        let [from_array, to_array] = arrays;
        let (from_array, to_array) = (from_array?, to_array?);
        let texel = |array: &Option<Arc<Array>>| array.as_ref().map_or(1, |array| array.texel_bytes());
        let side = |side: &CopySide, array: &Option<Arc<Array>>| {
            let pointer = match side.memory() {
                Some(Place::Device(address)) => address,
                Some(Place::Host(host)) => host.0 as Pointer,
                None => 0,
            };
            Side3d {
                array: side.array,
                position: Extent { width: side.x_bytes / texel(array), height: side.y, depth: side.z },
                memory: Pitched { pointer, pitch: side.pitch, width: side.pitch, height: side.height },
            }
        };
        let extent_texel = if from_array.is_some() { texel(&from_array) } else { texel(&to_array) };
        let on_device = |side: &CopySide| !matches!(side.memory(), Some(Place::Host(_)));
        Ok(Self {
            from: side(&copy.from, &from_array),
            to: side(&copy.to, &to_array),
            extent: Extent { width: copy.width_bytes / extent_texel, height: copy.height, depth: copy.depth },
            kind: match (on_device(&copy.from), on_device(&copy.to)) {
                (false, false) => kind::HOST_TO_HOST,
                (false, true) => kind::HOST_TO_DEVICE,
                (true, false) => kind::DEVICE_TO_HOST,
                (true, true) => kind::DEVICE_TO_DEVICE,
            },
        })
    }
}

/// `cudaMemcpy3DPeerParms`
#[repr(C)]
struct PeerParams3d {
    from: Side3d,
    from_device: DeviceId,
    to: Side3d,
    to_device: DeviceId,
    extent: Extent,
}

/// The side that a direction of copying names. Memory of the device where the host's is named is refused; the other way round, the
/// device says so.
fn named(address: Pointer, on_device: bool) -> Outcome<Place> {
    match (on_device, address < FIRST_ADDRESS) {
        (true, _) => Ok(Place::Device(address)),
        (false, true) => Ok(Place::of(address)),
        (false, false) => Err(Code::INVALID_VALUE),
    }
}

/// Both sides of a copy: target, source.
pub(super) fn sides(to: Pointer, from: Pointer, kind: c_int) -> Outcome<(Place, Place)> {
    Ok(match kind {
        kind::HOST_TO_HOST..=kind::DEVICE_TO_DEVICE => {
            let to_device = matches!(kind, kind::HOST_TO_DEVICE | kind::DEVICE_TO_DEVICE);
            let from_device = matches!(kind, kind::DEVICE_TO_HOST | kind::DEVICE_TO_DEVICE);
            (named(to, to_device)?, named(from, from_device)?)
        }
        kind::DEFAULT => (Place::of(to), Place::of(from)),
        _ => return Err(Code::INVALID_MEMCPY_DIRECTION),
    })
}

/// A copy of one run of bytes.
pub(super) fn run(to: Pointer, from: Pointer, bytes: usize, kind: c_int) -> Outcome<Work> {
    let (to, from) = sides(to, from, kind)?;
    Ok(Work::copy(to, from, bytes))
}

/// A copy of rows, each side with its pitch.
fn rows(
    (to, to_pitch): (Pointer, usize),
    (from, from_pitch): (Pointer, usize),
    bytes: usize,
    rows: usize,
    kind: c_int,
) -> Outcome<Work> {
    let (to, from) = sides(to, from, kind)?;
    if bytes > to_pitch || bytes > from_pitch {
        return Err(Code(12)); // `cudaErrorInvalidPitchValue`
    }
    Copy3d::rows(CopySide::rows(to, to_pitch), CopySide::rows(from, from_pitch), bytes, rows).work()
}

/// The place of `bytes` bytes in a variable.
fn part(symbol: *const c_void, offset: usize, bytes: usize) -> Outcome<Pointer> {
    let (address, size) = variable(symbol)?;
    match offset.checked_add(bytes) {
        Some(end) if end <= size => Ok(address + offset as u64),
        _ => Err(Code::INVALID_VALUE),
    }
}

/// A copy to a variable.
pub(super) fn to_symbol(
    symbol: *const c_void,
    from: Pointer,
    bytes: usize,
    offset: usize,
    kind: c_int,
) -> Outcome<Work> {
    run(part(symbol, offset, bytes)?, from, bytes, kind)
}

/// A copy from a variable.
pub(super) fn from_symbol(
    to: Pointer,
    symbol: *const c_void,
    bytes: usize,
    offset: usize,
    kind: c_int,
) -> Outcome<Work> {
    run(to, part(symbol, offset, bytes)?, bytes, kind)
}

/// The driver's form of a three-dimensional copy.
///
/// # Safety
/// `params` is null or valid.
pub(super) unsafe fn driver_form(params: *const Params3d) -> Outcome<Copy3d> {
    // SAFETY: as the caller promises.
    let Params3d { from, to, extent, kind } = unsafe { params.as_ref() }.ok_or(Code::INVALID_VALUE)?;
    let arrays = [to, from].map(|side| if side.array == 0 { Ok(None) } else { array(side.array).map(Some) });
    let [to_array, from_array] = arrays;
    let (to_array, from_array) = (to_array?, from_array?);
    // With an array, extents count texels, and so do positions in it.
    let texel = from_array.as_ref().or(to_array.as_ref()).map_or(1, |array| array.texel_bytes());
    let start =
        |side: &Side3d, array: &Option<Arc<Array>>| array.as_ref().map_or(side.memory.pointer, |array| array.base);
    let (to_place, from_place) = sides(start(to, &to_array), start(from, &from_array), *kind)?;
    let side = |side: &Side3d, array: &Option<Arc<Array>>, place: Place| {
        let Extent { width: x, height: y, depth: z } = side.position;
        match array {
            Some(array) => CopySide::in_array(side.array, [x * array.texel_bytes(), y, z]),
            None => {
                CopySide { x_bytes: x, y, z, height: side.memory.height, ..CopySide::rows(place, side.memory.pitch) }
            }
        }
    };
    Ok(Copy3d {
        to: side(to, &to_array, to_place),
        from: side(from, &from_array, from_place),
        width_bytes: extent.width * texel,
        height: extent.height,
        depth: extent.depth,
    })
}

/// The work of a three-dimensional copy.
///
/// # Safety
/// `params` is null or valid.
pub(super) unsafe fn copy_3d(params: *const Params3d) -> Outcome<Work> {
    // SAFETY: as the caller promises.
    unsafe { driver_form(params) }?.work()
}

/// The work of a three-dimensional copy between devices.
///
/// # Safety
/// `params` is null or valid.
unsafe fn copy_3d_peer(params: *const PeerParams3d) -> Outcome<Work> {
    // SAFETY: as the caller promises.
    let PeerParams3d { from, to, extent, .. } = unsafe { params.as_ref() }.ok_or(Code::INVALID_VALUE)?;
    let params = Params3d { from: *from, to: *to, extent: *extent, kind: kind::DEVICE_TO_DEVICE };
    // SAFETY: a value of our own.
    unsafe { copy_3d(&raw const params) }
}

/// Fills `rows` rows of `width` bytes with a byte.
fn fill(target: Pointer, pitch: usize, value: c_int, width: usize, rows: usize, stream: Handle) -> Outcome {
    let value = value as u32 & 0xff;
    submit(stream, Work::Fill { target, value, element_bytes: 1, width, rows, pitch })
}

fn fill_3d(target: Pitched, value: c_int, extent: Extent, stream: Handle) -> Outcome {
    let plane = |at: usize| target.pointer + (at * target.pitch * target.height) as u64;
    (0..extent.depth).try_for_each(|at| fill(plane(at), target.pitch, value, extent.width, extent.height, stream))
}

runtime! {
    fn cudaMalloc(pointer: *mut Pointer, bytes: usize) {
        // SAFETY: a place of the caller's.
        unsafe { put(pointer, if bytes == 0 { 0 } else { allocate(bytes)? }) }
    }

    fn cudaMallocPitch(pointer: *mut Pointer, pitch: *mut usize, width: usize, height: usize) {
        // SAFETY: places of the caller's.
        outcome(unsafe { cuMemAllocPitch_v2(pointer, pitch, width, height, 4) })
    }

    fn cudaMalloc3D(memory: *mut Pitched, extent: Extent) {
        let Extent { width, height, depth } = extent;
        let (mut pointer, mut pitch) = (0, 0);
        // SAFETY: places of our own, then one of the caller's.
        unsafe {
            outcome(cuMemAllocPitch_v2(&raw mut pointer, &raw mut pitch, width, height * depth, 4))?;
            put(memory, Pitched { pointer, pitch, width, height })
        }
    }

    fn cudaFreeHost(pointer: *mut c_void) {
        if pointer.is_null() {
            return Ok(());
        }
        // SAFETY: as the caller promises.
        outcome(unsafe { cuMemFreeHost(pointer) })
    }

    fn cudaMemcpy(to: Pointer, from: Pointer, bytes: usize, kind: c_int) also cudaMemcpy_ptds {
        submit(When::Now, run(to, from, bytes, kind)?)
    }

    fn cudaMemcpyAsync(to: Pointer, from: Pointer, bytes: usize, kind: c_int, stream: Handle) also cudaMemcpyAsync_ptsz {
        submit(stream, run(to, from, bytes, kind)?)
    }

    fn cudaMemcpyPeer(to: Pointer, _to_device: DeviceId, from: Pointer, _from_device: DeviceId, bytes: usize) {
        submit(0, run(to, from, bytes, kind::DEVICE_TO_DEVICE)?)
    }

    fn cudaMemcpyPeerAsync(
        to: Pointer,
        _to_device: DeviceId,
        from: Pointer,
        _from_device: DeviceId,
        bytes: usize,
        stream: Handle,
    ) {
        submit(stream, run(to, from, bytes, kind::DEVICE_TO_DEVICE)?)
    }

    fn cudaMemcpy2D(
        to: Pointer,
        to_pitch: usize,
        from: Pointer,
        from_pitch: usize,
        width: usize,
        height: usize,
        kind: c_int,
    ) also cudaMemcpy2D_ptds {
        submit(When::Now, rows((to, to_pitch), (from, from_pitch), width, height, kind)?)
    }

    fn cudaMemcpy2DAsync(
        to: Pointer,
        to_pitch: usize,
        from: Pointer,
        from_pitch: usize,
        width: usize,
        height: usize,
        kind: c_int,
        stream: Handle,
    ) also cudaMemcpy2DAsync_ptsz {
        submit(stream, rows((to, to_pitch), (from, from_pitch), width, height, kind)?)
    }

    fn cudaMemcpy3D(params: *const Params3d) also cudaMemcpy3D_ptds {
        // SAFETY: as the caller promises.
        submit(When::Now, unsafe { copy_3d(params)? })
    }

    fn cudaMemcpy3DAsync(params: *const Params3d, stream: Handle) also cudaMemcpy3DAsync_ptsz {
        // SAFETY: as the caller promises.
        submit(stream, unsafe { copy_3d(params)? })
    }

    fn cudaMemcpy3DPeer(params: *const PeerParams3d) also cudaMemcpy3DPeer_ptds {
        // SAFETY: as the caller promises.
        submit(0, unsafe { copy_3d_peer(params)? })
    }

    fn cudaMemcpy3DPeerAsync(params: *const PeerParams3d, stream: Handle) also cudaMemcpy3DPeerAsync_ptsz {
        // SAFETY: as the caller promises.
        submit(stream, unsafe { copy_3d_peer(params)? })
    }

    fn cudaMemcpyToSymbol(
        symbol: *const c_void,
        from: Pointer,
        bytes: usize,
        offset: usize,
        kind: c_int,
    ) also cudaMemcpyToSymbol_ptds {
        submit(When::Now, to_symbol(symbol, from, bytes, offset, kind)?)
    }

    fn cudaMemcpyToSymbolAsync(
        symbol: *const c_void,
        from: Pointer,
        bytes: usize,
        offset: usize,
        kind: c_int,
        stream: Handle,
    ) also cudaMemcpyToSymbolAsync_ptsz {
        submit(stream, to_symbol(symbol, from, bytes, offset, kind)?)
    }

    fn cudaMemcpyFromSymbol(
        to: Pointer,
        symbol: *const c_void,
        bytes: usize,
        offset: usize,
        kind: c_int,
    ) also cudaMemcpyFromSymbol_ptds {
        submit(When::Now, from_symbol(to, symbol, bytes, offset, kind)?)
    }

    fn cudaMemcpyFromSymbolAsync(
        to: Pointer,
        symbol: *const c_void,
        bytes: usize,
        offset: usize,
        kind: c_int,
        stream: Handle,
    ) also cudaMemcpyFromSymbolAsync_ptsz {
        submit(stream, from_symbol(to, symbol, bytes, offset, kind)?)
    }

    fn cudaMemset(target: Pointer, value: c_int, bytes: usize) also cudaMemset_ptds {
        fill(target, 0, value, bytes, 1, 0)
    }

    fn cudaMemsetAsync(target: Pointer, value: c_int, bytes: usize, stream: Handle) also cudaMemsetAsync_ptsz {
        fill(target, 0, value, bytes, 1, stream)
    }

    fn cudaMemset2D(target: Pointer, pitch: usize, value: c_int, width: usize, height: usize) also cudaMemset2D_ptds {
        fill(target, pitch, value, width, height, 0)
    }

    fn cudaMemset2DAsync(
        target: Pointer,
        pitch: usize,
        value: c_int,
        width: usize,
        height: usize,
        stream: Handle,
    ) also cudaMemset2DAsync_ptsz {
        fill(target, pitch, value, width, height, stream)
    }

    fn cudaMemset3D(target: Pitched, value: c_int, extent: Extent) also cudaMemset3D_ptds {
        fill_3d(target, value, extent, 0)
    }

    fn cudaMemset3DAsync(target: Pitched, value: c_int, extent: Extent, stream: Handle) also cudaMemset3DAsync_ptsz {
        fill_3d(target, value, extent, stream)
    }

    fn cudaPointerGetAttributes(attributes: *mut PointerAttributes, pointer: Pointer) {
        let live = crate::state::state()?.device.allocation(ptx_sim::DevicePtr(pointer)).is_some();
        let memory_type = match state()?.host_memory(pointer).map(|(_, found)| found.kind) {
            Some(HostMemoryKind::Managed) => MANAGED,
            Some(_) => HOST,
            None if live => DEVICE,
            None => UNREGISTERED,
        };
        let found = PointerAttributes {
            memory_type,
            device: if memory_type == UNREGISTERED { -2 } else { current_device()? },
            device_pointer: if memory_type == UNREGISTERED { 0 } else { pointer },
            host_pointer: if memory_type == DEVICE { 0 } else { pointer },
            reserved: [0; 8],
        };
        // SAFETY: a place of the caller's.
        unsafe { put(attributes, found) }
    }
}

same_as_driver! {
    fn cudaMallocManaged(pointer: *mut Pointer, bytes: usize, flags: c_uint) = cuMemAllocManaged;
    fn cudaMallocHost(pointer: *mut *mut c_void, bytes: usize) = cuMemAllocHost_v2;
    fn cudaHostAlloc(pointer: *mut *mut c_void, bytes: usize, flags: c_uint) = cuMemHostAlloc;
    fn cudaHostRegister(pointer: *mut c_void, bytes: usize, flags: c_uint) = cuMemHostRegister_v2;
    fn cudaHostUnregister(pointer: *mut c_void) = cuMemHostUnregister;
    fn cudaHostGetDevicePointer(address: *mut Pointer, pointer: *mut c_void, flags: c_uint) = cuMemHostGetDevicePointer_v2;
    fn cudaHostGetFlags(flags: *mut c_uint, pointer: *mut c_void) = cuMemHostGetFlags;
    fn cudaFree(pointer: Pointer) = cuMemFree_v2;
    fn cudaMallocAsync(pointer: *mut Pointer, bytes: usize, stream: Handle) also cudaMallocAsync_ptsz = cuMemAllocAsync;
    fn cudaMallocFromPoolAsync(pointer: *mut Pointer, bytes: usize, pool: Handle, stream: Handle)
        also cudaMallocFromPoolAsync_ptsz = cuMemAllocFromPoolAsync;
    fn cudaFreeAsync(pointer: Pointer, stream: Handle) also cudaFreeAsync_ptsz = cuMemFreeAsync;
    fn cudaMemGetInfo(free: *mut usize, total: *mut usize) = cuMemGetInfo_v2;
    fn cudaMemAdvise(pointer: Pointer, bytes: usize, advice: c_int, location: u64) also cudaMemAdvise_v2 =
        cuMemAdvise_v2;
    fn cudaMemPrefetchAsync(
        pointer: Pointer,
        bytes: usize,
        location: u64,
        flags: c_uint,
        stream: Handle,
    ) also cudaMemPrefetchAsync_ptsz cudaMemPrefetchAsync_v2 cudaMemPrefetchAsync_v2_ptsz = cuMemPrefetchAsync_v2;
    fn cudaMemPrefetchBatchAsync(
        pointers: *const Pointer,
        bytes: *const usize,
        count: usize,
        locations: *const c_void,
        indices: *const usize,
        location_count: usize,
        flags: u64,
        stream: Handle,
    ) also cudaMemPrefetchBatchAsync_ptsz = cuMemPrefetchBatchAsync;
    fn cudaMemGetDefaultMemPool(pool: *mut Handle, location: *const Location, kind: c_int) = cuMemGetDefaultMemPool;
    fn cudaMemGetMemPool(pool: *mut Handle, location: *const Location, kind: c_int) = cuMemGetMemPool;
    fn cudaMemSetMemPool(location: *const Location, kind: c_int, pool: Handle) = cuMemSetMemPool;
    fn cudaMemRangeGetAttribute(value: *mut c_void, bytes: usize, attribute: c_int, pointer: Pointer, length: usize) =
        cuMemRangeGetAttribute;
    fn cudaMemRangeGetAttributes(
        values: *const *mut c_void,
        bytes: *const usize,
        attributes: *const c_int,
        count: usize,
        pointer: Pointer,
        length: usize,
    ) = cuMemRangeGetAttributes;
    fn cudaMemcpy3DBatchAsync(count: usize, list: *const BatchedCopy, flags: u64, stream: Handle)
        also cudaMemcpy3DBatchAsync_ptsz = cuMemcpy3DBatchAsync_v2;
    fn cudaMemDiscardBatchAsync(
        pointers: *const Pointer,
        bytes: *const usize,
        count: usize,
        flags: u64,
        stream: Handle,
    ) also cudaMemDiscardBatchAsync_ptsz = cuMemDiscardBatchAsync;
    fn cudaMemDiscardAndPrefetchBatchAsync(
        pointers: *const Pointer,
        bytes: *const usize,
        count: usize,
        locations: *const c_void,
        indices: *const usize,
        location_count: usize,
        flags: u64,
        stream: Handle,
    ) also cudaMemDiscardAndPrefetchBatchAsync_ptsz = cuMemDiscardAndPrefetchBatchAsync;
    fn cudaMemcpyBatchAsync(
        to: *const Pointer,
        from: *const Pointer,
        bytes: *const usize,
        count: usize,
        attributes: *const c_void,
        indices: *const usize,
        attribute_count: usize,
        stream: Handle,
    ) also cudaMemcpyBatchAsync_ptsz = cuMemcpyBatchAsync_v2;
    fn cudaDeviceGetGraphMemAttribute(device: DeviceId, attribute: c_int, value: *mut u64) =
        cuDeviceGetGraphMemAttribute;
    fn cudaDeviceSetGraphMemAttribute(device: DeviceId, attribute: c_int, value: *mut u64) =
        cuDeviceSetGraphMemAttribute;
    fn cudaDeviceGraphMemTrim(device: DeviceId) = cuDeviceGraphMemTrim;
    fn cudaMemPoolSetAccess(pool: Handle, map: *const c_void, count: usize) = cuMemPoolSetAccess;
    fn cudaMemPoolCreate(pool: *mut Handle, properties: *const Properties) = cuMemPoolCreate;
    fn cudaMemPoolDestroy(pool: Handle) = cuMemPoolDestroy;
    fn cudaMemPoolGetAccess(flags: *mut c_int, pool: Handle, location: *const Location) = cuMemPoolGetAccess;
    fn cudaMemPoolGetAttribute(pool: Handle, attribute: c_int, value: *mut c_void) = cuMemPoolGetAttribute;
    fn cudaMemPoolSetAttribute(pool: Handle, attribute: c_int, value: *const c_void) = cuMemPoolSetAttribute;
    fn cudaMemPoolTrimTo(pool: Handle, bytes: usize) = cuMemPoolTrimTo;
}

// Layouts that programs rely on, by `driver_types.h` on a 64-bit machine.
#[cfg(not(windows))]
const _: () = assert!(size_of::<PointerAttributes>() == 88);
const _: () = assert!(size_of::<Params3d>() == 160 && size_of::<PeerParams3d>() == 168);
