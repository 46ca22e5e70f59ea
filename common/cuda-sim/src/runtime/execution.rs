//! Execution: launches by the address of a kernel's stub, and attributes of kernels.

use std::cell::RefCell;
use std::ffi::{c_char, c_int, c_uint, c_void};
use std::sync::atomic::Ordering;

use super::registration::kernel;
use super::{outcome, runtime, same_as_driver};
use crate::abi::{self, Code, Handle, LaunchAttribute, Outcome, function_attribute as attribute};
use crate::api::{put, slice};
use crate::driver::function::{
    attribute_of, cuFuncGetName, cuFuncGetParamInfo, cuFuncSetAttribute, cuFuncSetCacheConfig, known,
};
use crate::driver::launch::{Launch, apply, cuLaunchHostFunc};
use crate::queue::submit;

/// `dim3`
#[derive(Clone, Copy)]
#[repr(C)]
pub(super) struct Dim3 {
    x: c_uint,
    y: c_uint,
    z: c_uint,
}

impl From<[c_uint; 3]> for Dim3 {
    fn from([x, y, z]: [c_uint; 3]) -> Self {
        Self { x, y, z }
    }
}

impl From<Dim3> for [c_uint; 3] {
    fn from(Dim3 { x, y, z }: Dim3) -> Self {
        [x, y, z]
    }
}

/// `cudaLaunchConfig_t`
#[repr(C)]
pub(super) struct LaunchConfig {
    grid: Dim3,
    block: Dim3,
    shared_bytes: usize,
    stream: Handle,
    attributes: *const LaunchAttribute,
    count: c_uint,
}

impl From<&LaunchConfig> for abi::LaunchConfig {
    fn from(config: &LaunchConfig) -> Self {
        let &LaunchConfig { grid, block, shared_bytes, stream, attributes, count } = config;
        let shared_bytes = c_uint::try_from(shared_bytes).unwrap_or(c_uint::MAX);
        Self { grid: grid.into(), block: block.into(), shared_bytes, stream, attributes, count }
    }
}

/// `cudaFuncAttributes`
#[repr(C)]
struct FunctionAttributes {
    shared_bytes: usize,
    constant_bytes: usize,
    local_bytes: usize,
    max_threads: c_int,
    registers: c_int,
    ptx_version: c_int,
    binary_version: c_int,
    cache_mode: c_int,
    max_dynamic_shared: c_int,
    carveout: c_int,
    cluster_must_be_set: c_int,
    cluster: [c_int; 3],
    cluster_policy: c_int,
    non_portable_cluster: c_int,
    reserved: [c_int; 16],
}

thread_local! {
    /// Configurations of `<<<…>>>` that stubs of kernels have yet to take.
    static CONFIGURATIONS: RefCell<Vec<(Dim3, Dim3, usize, Handle)>> = const { RefCell::new(Vec::new()) };
}

/// A launch of the kernel that `address` stands for.
///
/// # Safety
/// `params` has a pointer for each parameter.
unsafe fn launch(
    address: *const c_void,
    (grid, block, shared_bytes, stream): (Dim3, Dim3, usize, Handle),
    params: *const *const c_void,
    attributes: &[LaunchAttribute],
) -> Outcome {
    let mut launch = Launch::new(kernel(address)?, grid.into(), block.into(), shared_bytes as c_uint)?;
    apply(attributes, &mut launch.config);
    // SAFETY: as the caller promises.
    let work = unsafe { launch.work(params, std::ptr::null())? };
    // Kernel and parameters are right, so the shape of the launch is what was refused.
    submit(stream, work).map_err(|code| if code == Code::INVALID_VALUE { Code::INVALID_CONFIGURATION } else { code })
}

/// An attribute that makes a launch cooperative.
fn cooperative() -> LaunchAttribute {
    let mut value = [0; 16];
    value[0] = 1;
    LaunchAttribute { id: crate::abi::launch_attribute::COOPERATIVE, pad: [0; 4], value }
}

#[unsafe(no_mangle)]
extern "C" fn __cudaPushCallConfiguration(grid: Dim3, block: Dim3, shared_bytes: usize, stream: Handle) -> c_uint {
    CONFIGURATIONS.with_borrow_mut(|waiting| waiting.push((grid, block, shared_bytes, stream)));
    0
}

runtime! {
    fn __cudaPopCallConfiguration(grid: *mut Dim3, block: *mut Dim3, shared_bytes: *mut usize, stream: *mut Handle) {
        let waiting = CONFIGURATIONS.with_borrow_mut(Vec::pop).ok_or(Code::MISSING_CONFIGURATION)?;
        // SAFETY: places of the caller's.
        unsafe {
            put(grid, waiting.0)?;
            put(block, waiting.1)?;
            put(shared_bytes, waiting.2)?;
            put(stream, waiting.3)
        }
    }

    fn cudaLaunchKernel(
        address: *const c_void,
        grid: Dim3,
        block: Dim3,
        params: *const *const c_void,
        shared_bytes: usize,
        stream: Handle,
    ) also cudaLaunchKernel_ptsz __cudaLaunchKernel __cudaLaunchKernel_ptsz {
        // SAFETY: as the caller promises.
        unsafe { launch(address, (grid, block, shared_bytes, stream), params, &[]) }
    }

    fn cudaLaunchCooperativeKernel(
        address: *const c_void,
        grid: Dim3,
        block: Dim3,
        params: *const *const c_void,
        shared_bytes: usize,
        stream: Handle,
    ) also cudaLaunchCooperativeKernel_ptsz {
        // SAFETY: as the caller promises.
        unsafe { launch(address, (grid, block, shared_bytes, stream), params, &[cooperative()]) }
    }

    fn cudaLaunchKernelExC(
        config: *const LaunchConfig,
        address: *const c_void,
        params: *const *const c_void,
    ) also cudaLaunchKernelExC_ptsz {
        // SAFETY: as the caller promises.
        unsafe {
            let config = config.as_ref().ok_or(Code::INVALID_VALUE)?;
            let attributes = slice(config.attributes, config.count as usize)?;
            launch(address, (config.grid, config.block, config.shared_bytes, config.stream), params, attributes)
        }
    }

    fn cudaFuncGetAttributes(attributes: *mut FunctionAttributes, address: *const c_void) {
        let function = known(kernel(address)?)?;
        let of = |id| attribute_of(&function, id);
        let found = FunctionAttributes {
            shared_bytes: of(attribute::SHARED_SIZE)? as usize,
            constant_bytes: of(attribute::CONST_SIZE)? as usize,
            local_bytes: of(attribute::LOCAL_SIZE)? as usize,
            max_threads: of(attribute::MAX_THREADS_PER_BLOCK)?,
            registers: of(attribute::REGISTERS)?,
            ptx_version: of(attribute::PTX_VERSION)?,
            binary_version: of(attribute::BINARY_VERSION)?,
            cache_mode: 0,
            max_dynamic_shared: of(attribute::MAX_DYNAMIC_SHARED_SIZE)?,
            carveout: function.carveout.load(Ordering::Relaxed),
            cluster_must_be_set: 0,
            cluster: function.kernel.cluster().unwrap_or([0; 3]).map(|extent| extent as c_int),
            cluster_policy: 0,
            non_portable_cluster: of(attribute::NON_PORTABLE_CLUSTER_SIZE_ALLOWED)?,
            reserved: [0; 16],
        };
        // SAFETY: a place of the caller's.
        unsafe { put(attributes, found) }
    }

    fn cudaFuncSetAttribute(address: *const c_void, id: c_int, value: c_int) {
        // SAFETY: it takes no pointers.
        outcome(unsafe { cuFuncSetAttribute(kernel(address)?, id, value) })
    }

    fn cudaFuncSetCacheConfig(address: *const c_void, config: c_int) {
        // SAFETY: it takes no pointers.
        outcome(unsafe { cuFuncSetCacheConfig(kernel(address)?, config) })
    }

    fn cudaFuncSetSharedMemConfig(address: *const c_void, _config: c_int) {
        kernel(address).map(|_| ())
    }

    fn cudaKernelSetAttributeForDevice(address: *const c_void, id: c_int, value: c_int, _device: c_int) {
        // SAFETY: it takes no pointers.
        outcome(unsafe { cuFuncSetAttribute(kernel(address)?, id, value) })
    }

    fn cudaFuncGetName(text: *mut *const c_char, address: *const c_void) {
        // SAFETY: a place of the caller's.
        outcome(unsafe { cuFuncGetName(text, kernel(address)?) })
    }

    fn cudaFuncGetParamInfo(address: *const c_void, at: usize, offset: *mut usize, bytes: *mut usize) {
        // SAFETY: places of the caller's.
        outcome(unsafe { cuFuncGetParamInfo(kernel(address)?, at, offset, bytes) })
    }
}

same_as_driver! {
    fn cudaLaunchHostFunc(
        stream: Handle,
        function: unsafe extern "C" fn(*mut c_void),
        data: *mut c_void,
    ) also cudaLaunchHostFunc_ptsz = cuLaunchHostFunc;
}

// Layouts that programs rely on, by `driver_types.h` on a 64-bit machine.
const _: () = assert!(size_of::<LaunchConfig>() == 56 && size_of::<FunctionAttributes>() == 144);
