//! Launches.

use std::ffi::{c_uint, c_void};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use ptx_sim::{KernelInfo, LaunchConfig};

use super::function::SHARED_WITHOUT_ASKING;
use super::occupancy::blocks_of;
use crate::abi::{self, Code, Handle, KernelNode, LaunchAttribute, Outcome, extra, launch_attribute};
use crate::api::{exported, slice};
use crate::queue::submit;
use crate::state::{MULTIPROCESSORS, state};
use crate::tell::say;
use crate::work::{Function, Host, Params, Work};

/// The bytes of each parameter.
///
/// # Safety
/// `params` and `extra` are as `cuLaunchKernel` takes them.
unsafe fn arguments(info: &KernelInfo, params: *const *const c_void, extra: *const *const c_void) -> Outcome<Params> {
    if !params.is_null() {
        let bytes = |(at, param): (usize, &ptx_sim::ParamInfo)| {
            // SAFETY: there is a pointer for each parameter, to as many bytes as it has.
            let value = unsafe {
                let pointer = *params.add(at);
                slice(pointer.cast::<u8>(), param.size as usize)?
            };
            Ok(Box::from(value))
        };
        return info.params.iter().enumerate().map(bytes).collect::<Outcome<_>>().map(Params::new);
    }
    if extra.is_null() {
        return if info.params.is_empty() { Ok(Params::new(Vec::new())) } else { Err(Code::INVALID_VALUE) };
    }
    let (mut buffer, mut length, mut at) = (std::ptr::null::<u8>(), 0, 0);
    loop {
        // SAFETY: keys and values alternate until the key that ends them.
        let key = unsafe { *extra.add(at) } as usize;
        if key == extra::END {
            break;
        }
        // SAFETY: as above.
        let value = unsafe { *extra.add(at + 1) };
        match key {
            extra::BUFFER => buffer = value.cast(),
            // SAFETY: the size is given by its address.
            extra::BUFFER_SIZE => length = unsafe { value.cast::<usize>().read() },
            _ => return Err(Code::INVALID_VALUE),
        }
        at += 2;
    }
    // SAFETY: the caller's buffer has that many bytes.
    let all = unsafe { slice(buffer, length)? };
    let of = |param: &ptx_sim::ParamInfo| {
        let bytes = all.get(param.offset as usize..(param.offset + param.size) as usize);
        bytes.map(Box::from).ok_or(Code::INVALID_VALUE)
    };
    info.params.iter().map(of).collect::<Outcome<_>>().map(Params::new)
}

/// A launch, checked as the driver checks it.
pub(crate) struct Launch {
    pub(crate) function: Arc<Function>,
    pub(crate) config: LaunchConfig,
}

impl Launch {
    pub(crate) fn new(function: Handle, grid: [c_uint; 3], block: [c_uint; 3], shared_bytes: c_uint) -> Outcome<Self> {
        let function = state()?.functions.get(function)?;
        let info = function.kernel.info();
        let allowed =
            function.dynamic_shared.load(Ordering::Relaxed).max(SHARED_WITHOUT_ASKING - info.static_shared as i32);
        if i64::from(shared_bytes) > i64::from(allowed) {
            say(&format!(
                "kernel `{}`: {shared_bytes} bytes of dynamic shared memory, where {allowed} are allowed without \
                 `cuFuncSetAttribute(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES)`",
                info.name
            ));
            return Err(Code::INVALID_VALUE);
        }
        let non_portable_cluster = function.non_portable_cluster.load(Ordering::Relaxed);
        let config = LaunchConfig { grid, block, shared_bytes, non_portable_cluster, ..LaunchConfig::default() };
        Ok(Self { function, config })
    }

    /// The work of this launch.
    ///
    /// # Safety
    /// `params` and `extra` are as `cuLaunchKernel` takes them.
    pub(crate) unsafe fn work(self, params: *const *const c_void, extra: *const *const c_void) -> Outcome<Work> {
        // SAFETY: as the caller promises.
        let params = Arc::new(unsafe { arguments(self.function.kernel.info(), params, extra)? });
        if self.config.cooperative {
            let LaunchConfig { grid, block, shared_bytes, .. } = self.config;
            let [blocks, threads] = [grid, block].map(|extents| extents.into_iter().map(u64::from).product::<u64>());
            let resident = blocks_of(&self.function, threads as u32, shared_bytes)?;
            if blocks > resident as u64 * MULTIPROCESSORS as u64 {
                return Err(Code::COOPERATIVE_LAUNCH_TOO_LARGE);
            }
        }
        Ok(Work::Launch { function: self.function, config: self.config, params })
    }
}

/// Takes the attributes that change what a launch computes. Others are priorities, and when dependent launches may begin: nothing
/// here begins early.
pub(crate) fn apply(attributes: &[LaunchAttribute], config: &mut LaunchConfig) {
    for LaunchAttribute { id, value, .. } in attributes {
        match *id {
            launch_attribute::COOPERATIVE => config.cooperative = value[0] != 0,
            launch_attribute::CLUSTER_DIMENSION => config.cluster = Some([value[0], value[1], value[2]]),
            _ => {}
        }
    }
}

/// The work of a graph's node.
///
/// # Safety
/// `node` is null or as `cuGraphAddKernelNode` takes it.
pub(crate) unsafe fn of_node(node: *const KernelNode) -> Outcome<Work> {
    if node.is_null() {
        return Err(Code::INVALID_VALUE);
    }
    // SAFETY: as the caller promises; a node of the first version has no kernel, and a function.
    unsafe {
        let function = if (*node).function == 0 { (*node).kernel } else { (*node).function };
        Launch::new(function, (*node).grid, (*node).block, (*node).shared_bytes)?.work((*node).params, (*node).extra)
    }
}

exported! {
    fn cuLaunchKernel(
        function: Handle,
        grid_x: c_uint,
        grid_y: c_uint,
        grid_z: c_uint,
        block_x: c_uint,
        block_y: c_uint,
        block_z: c_uint,
        shared_bytes: c_uint,
        stream: Handle,
        params: *const *const c_void,
        extra: *const *const c_void,
    ) {
        let launch = Launch::new(function, [grid_x, grid_y, grid_z], [block_x, block_y, block_z], shared_bytes)?;
        // SAFETY: as the caller promises.
        submit(stream, unsafe { launch.work(params, extra)? })
    }

    fn cuLaunchCooperativeKernel(
        function: Handle,
        grid_x: c_uint,
        grid_y: c_uint,
        grid_z: c_uint,
        block_x: c_uint,
        block_y: c_uint,
        block_z: c_uint,
        shared_bytes: c_uint,
        stream: Handle,
        params: *const *const c_void,
    ) {
        let mut launch = Launch::new(function, [grid_x, grid_y, grid_z], [block_x, block_y, block_z], shared_bytes)?;
        launch.config.cooperative = true;
        // SAFETY: as the caller promises.
        submit(stream, unsafe { launch.work(params, std::ptr::null())? })
    }

    fn cuLaunchKernelEx(
        config: *const abi::LaunchConfig,
        function: Handle,
        params: *const *const c_void,
        extra: *const *const c_void,
    ) {
        // SAFETY: as the caller promises.
        let config = unsafe { config.as_ref() }.ok_or(Code::INVALID_VALUE)?;
        let mut launch = Launch::new(function, config.grid, config.block, config.shared_bytes)?;
        // SAFETY: as the caller promises.
        apply(unsafe { slice(config.attributes, config.count as usize)? }, &mut launch.config);
        // SAFETY: as the caller promises.
        submit(config.stream, unsafe { launch.work(params, extra)? })
    }

    fn cuLaunchHostFunc(stream: Handle, function: unsafe extern "C" fn(*mut c_void), data: *mut c_void) {
        submit(stream, Work::Call { function, data: Host(data.cast()) })
    }
}
