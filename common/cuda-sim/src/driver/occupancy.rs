//! Occupancy: how many blocks of a kernel an SM holds, and how many clusters the device.

use std::ffi::{c_int, c_uint, c_void};
use std::sync::atomic::Ordering;

use ptx_sim::Occupancy;

use super::function::known;
use super::launch::apply;
use crate::abi::{Code, Handle, LaunchConfig, Outcome};
use crate::api::{exported, put, slice};
use crate::state::{MULTIPROCESSORS, state};
use crate::work::Function;

/// Blocks of the largest cluster that a kernel may be launched with.
fn largest_cluster(function: &Function) -> c_int {
    if function.non_portable_cluster.load(Ordering::Relaxed) { 16 } else { 8 }
}

pub(crate) fn blocks_per_multiprocessor(function: Handle, threads: c_int, shared_bytes: usize) -> Outcome<c_int> {
    let threads = u32::try_from(threads).ok().filter(|threads| *threads > 0).ok_or(Code::INVALID_VALUE)?;
    blocks_of(&*known(function)?, threads, shared_bytes as u32)
}

/// Blocks of a kernel that an SM holds.
pub(super) fn blocks_of(function: &Function, threads: u32, shared_bytes: u32) -> Outcome<c_int> {
    let shared = function.kernel.info().static_shared + shared_bytes;
    Ok(Occupancy::of(&state()?.options.compute.limits(), threads, shared, None).blocks as c_int)
}

/// The largest block of a kernel, and the blocks that fill the device with it.
///
/// # Safety
/// `blocks` and `threads` are null or valid.
unsafe fn largest_block(
    blocks: *mut c_int,
    threads: *mut c_int,
    function: Handle,
    shared: usize,
    limit: c_int,
) -> Outcome {
    let most = state()?.functions.get(function)?.kernel.info().max_threads.unwrap_or(ptx_sim::MAX_THREADS) as c_int;
    let largest = if limit > 0 { most.min(limit) } else { most };
    // SAFETY: as the caller promises.
    unsafe {
        put(threads, largest)?;
        put(blocks, MULTIPROCESSORS * blocks_per_multiprocessor(function, largest, shared)?)
    }
}

/// Clusters of the launch's size that the device holds.
fn clusters(function: Handle, config: &LaunchConfig) -> Outcome<c_int> {
    let threads = config.block.iter().fold(1, |threads: u32, extent| threads.saturating_mul(*extent));
    // SAFETY: as the caller of the function of the API promises.
    let attributes = unsafe { slice(config.attributes, config.count as usize)? };
    let mut launch = ptx_sim::LaunchConfig::default();
    apply(attributes, &mut launch);
    let known = known(function)?;
    let cluster = known.kernel.cluster().or(launch.cluster).unwrap_or([1; 3]);
    let size = cluster.iter().fold(1, |size: u32, extent| size.saturating_mul(*extent));
    if !(1..=largest_cluster(&known) as u32).contains(&size) {
        return Err(Code::INVALID_CLUSTER_SIZE);
    }
    let blocks = blocks_per_multiprocessor(function, threads as c_int, config.shared_bytes as usize)?;
    Ok(MULTIPROCESSORS * blocks / size as c_int)
}

exported! {
    fn cuOccupancyAvailableDynamicSMemPerBlock(bytes: *mut usize, function: Handle, blocks: c_int, _threads: c_int) {
        let function = known(function)?;
        let limits = state()?.options.compute.limits();
        let blocks = u32::try_from(blocks).ok().filter(|blocks| *blocks > 0).ok_or(Code::INVALID_VALUE)?;
        let room = limits.shared_for(blocks).unwrap_or(0).min(limits.shared_per_block());
        // SAFETY: a place of the caller's.
        unsafe { put(bytes, room.saturating_sub(function.kernel.info().static_shared) as usize) }
    }

    fn cuOccupancyMaxPotentialClusterSize(blocks: *mut c_int, function: Handle, _config: *const LaunchConfig) {
        // SAFETY: a place of the caller's.
        unsafe { put(blocks, largest_cluster(&*known(function)?)) }
    }

    // An SM's blocks may be of several clusters, and a cluster's on any SMs.
    fn cuOccupancyMaxActiveClusters(number: *mut c_int, function: Handle, config: *const LaunchConfig) {
        // SAFETY: as the caller promises.
        unsafe { put(number, clusters(function, config.as_ref().ok_or(Code::INVALID_VALUE)?)?) }
    }

    fn cuOccupancyMaxPotentialBlockSize(
        blocks: *mut c_int,
        threads: *mut c_int,
        function: Handle,
        _shared_of: *const c_void,
        shared: usize,
        limit: c_int,
    ) {
        // SAFETY: places of the caller's.
        unsafe { largest_block(blocks, threads, function, shared, limit) }
    }

    fn cuOccupancyMaxPotentialBlockSizeWithFlags(
        blocks: *mut c_int,
        threads: *mut c_int,
        function: Handle,
        _shared_of: *const c_void,
        shared: usize,
        limit: c_int,
        _flags: c_uint,
    ) {
        // SAFETY: places of the caller's.
        unsafe { largest_block(blocks, threads, function, shared, limit) }
    }

    fn cuOccupancyMaxActiveBlocksPerMultiprocessor(blocks: *mut c_int, function: Handle, threads: c_int, shared: usize) {
        // SAFETY: a place of the caller's.
        unsafe { put(blocks, blocks_per_multiprocessor(function, threads, shared)?) }
    }

    fn cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
        blocks: *mut c_int,
        function: Handle,
        threads: c_int,
        shared: usize,
        _flags: c_uint,
    ) {
        // SAFETY: a place of the caller's.
        unsafe { put(blocks, blocks_per_multiprocessor(function, threads, shared)?) }
    }
}
