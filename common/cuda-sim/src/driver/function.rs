//! Kernels, as functions of modules: their attributes, names and parameters.

use std::ffi::{c_char, c_int};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use ptx_sim::occupancy::{MAX_REGISTERS_PER_THREAD, REGISTERS};

use crate::abi::{Code, Handle, Outcome, function_attribute as attribute};
use crate::api::{exported, put, put_if_wanted};
use crate::state::state;
use crate::work::Function;

/// Dynamic shared memory that a launch may have without asking: 48 KiB with the kernel's own.
pub(crate) const SHARED_WITHOUT_ASKING: i32 = 48 << 10;

pub(crate) fn attribute_of(function: &Function, id: c_int) -> Outcome<c_int> {
    let info = function.kernel.info();
    let compute = state()?.options.compute;
    let version = c_int::from(compute.major) * 10 + c_int::from(compute.minor);
    let threads = info.max_threads.unwrap_or(ptx_sim::MAX_THREADS);
    Ok(match id {
        attribute::MAX_THREADS_PER_BLOCK => threads as c_int,
        attribute::SHARED_SIZE => info.static_shared as c_int,
        attribute::CONST_SIZE => c_int::try_from(info.constant_bytes).unwrap_or(c_int::MAX),
        attribute::LOCAL_SIZE => info.local_bytes as c_int,
        attribute::PTX_VERSION | attribute::BINARY_VERSION => version,
        attribute::MAX_DYNAMIC_SHARED_SIZE => {
            function.dynamic_shared.load(Ordering::Relaxed).max(SHARED_WITHOUT_ASKING - info.static_shared as i32)
        }
        attribute::PREFERRED_CARVEOUT => function.carveout.load(Ordering::Relaxed),
        attribute::NON_PORTABLE_CLUSTER_SIZE_ALLOWED => function.non_portable_cluster.load(Ordering::Relaxed).into(),
        attribute::REQUIRED_CLUSTER_WIDTH..=attribute::REQUIRED_CLUSTER_DEPTH => {
            let axis = (id - attribute::REQUIRED_CLUSTER_WIDTH) as usize;
            function.kernel.cluster().map_or(0, |cluster| cluster[axis] as c_int)
        }
        // ptxas' choice is unknown here. It has no more than this, or a block of that many threads could not be launched.
        attribute::REGISTERS => {
            let room = (REGISTERS / threads.max(1)).min(MAX_REGISTERS_PER_THREAD);
            let limits = [info.max_registers, function.max_registers];
            limits.into_iter().flatten().fold(room, u32::min) as c_int
        }
        _ if (0..attribute::END).contains(&id) => 0,
        _ => return Err(Code::INVALID_VALUE),
    })
}

fn set_attribute(function: &Function, id: c_int, value: c_int) -> Outcome {
    match id {
        attribute::MAX_DYNAMIC_SHARED_SIZE => {
            let most = state()?.options.compute.limits().shared_per_block() as i32;
            if value < 0 || value > most - function.kernel.info().static_shared as i32 {
                return Err(Code::INVALID_VALUE);
            }
            function.dynamic_shared.store(value, Ordering::Relaxed);
        }
        attribute::PREFERRED_CARVEOUT => function.carveout.store(value, Ordering::Relaxed),
        attribute::NON_PORTABLE_CLUSTER_SIZE_ALLOWED => {
            function.non_portable_cluster.store(value != 0, Ordering::Relaxed);
        }
        _ if (0..attribute::END).contains(&id) => {}
        _ => return Err(Code::INVALID_VALUE),
    }
    Ok(())
}

/// Offset and bytes of a parameter.
///
/// # Safety
/// `offset` is null or valid, and so is `bytes`.
unsafe fn param_info(function: Handle, at: usize, offset: *mut usize, bytes: *mut usize) -> Outcome {
    let function = known(function)?;
    let param = function.kernel.info().params.get(at).ok_or(Code::INVALID_VALUE)?;
    // SAFETY: as the caller promises.
    unsafe {
        put(offset, param.offset as usize)?;
        put_if_wanted(bytes, param.size as usize);
    }
    Ok(())
}

pub(crate) fn known(function: Handle) -> Outcome<Arc<Function>> {
    state()?.functions.get(function)
}

exported! {
    fn cuKernelGetFunction(function: *mut Handle, kernel: Handle) {
        known(kernel)?;
        // SAFETY: a place of the caller's.
        unsafe { put(function, kernel) }
    }

    fn cuKernelGetAttribute(value: *mut c_int, id: c_int, kernel: Handle, _device: c_int) {
        // SAFETY: a place of the caller's.
        unsafe { put(value, attribute_of(&*known(kernel)?, id)?) }
    }

    fn cuKernelSetAttribute(id: c_int, value: c_int, kernel: Handle, _device: c_int) {
        set_attribute(&*known(kernel)?, id, value)
    }

    // Names live as long as the kernel's module.
    fn cuKernelGetName(name: *mut *const c_char, kernel: Handle) {
        // SAFETY: a place of the caller's.
        unsafe { put(name, known(kernel)?.name.as_ptr()) }
    }

    fn cuKernelGetParamInfo(kernel: Handle, at: usize, offset: *mut usize, bytes: *mut usize) {
        // SAFETY: places of the caller's.
        unsafe { param_info(kernel, at, offset, bytes) }
    }

    fn cuKernelGetLibrary(library: *mut Handle, kernel: Handle) {
        // SAFETY: a place of the caller's.
        unsafe { put(library, known(kernel)?.module) }
    }

    fn cuKernelSetCacheConfig(kernel: Handle, _config: c_int, _device: c_int) {
        known(kernel).map(|_| ())
    }

    fn cuFuncGetAttribute(value: *mut c_int, id: c_int, function: Handle) {
        // SAFETY: a place of the caller's.
        unsafe { put(value, attribute_of(&*known(function)?, id)?) }
    }

    fn cuFuncSetAttribute(function: Handle, id: c_int, value: c_int) {
        set_attribute(&*known(function)?, id, value)
    }

    fn cuFuncSetCacheConfig(function: Handle, _config: c_int) {
        known(function).map(|_| ())
    }

    fn cuFuncSetSharedMemConfig(function: Handle, _config: c_int) {
        known(function).map(|_| ())
    }

    fn cuFuncGetName(name: *mut *const c_char, function: Handle) {
        // SAFETY: a place of the caller's.
        unsafe { put(name, known(function)?.name.as_ptr()) }
    }

    fn cuFuncGetParamInfo(function: Handle, at: usize, offset: *mut usize, bytes: *mut usize) {
        // SAFETY: places of the caller's.
        unsafe { param_info(function, at, offset, bytes) }
    }

    // All functions of a module are loaded with it.
    fn cuFuncIsLoaded(loaded: *mut c_int, function: Handle) {
        known(function)?;
        // SAFETY: a place of the caller's.
        unsafe { put(loaded, 1) }
    }

    fn cuFuncLoad(function: Handle) {
        known(function).map(|_| ())
    }

    fn cuFuncGetModule(module: *mut Handle, function: Handle) {
        // SAFETY: a place of the caller's.
        unsafe { put(module, known(function)?.module) }
    }
}
