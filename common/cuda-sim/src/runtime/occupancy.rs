//! Occupancy: how many blocks of a kernel an SM holds.

use std::ffi::{c_int, c_uint, c_void};

use super::execution::LaunchConfig;
use super::registration::kernel;
use super::runtime;
use crate::api::put;
use crate::driver::launch::blocks_per_multiprocessor;
use crate::driver::module::known;
use crate::state::{MULTIPROCESSORS, state};

/// The largest cluster that every GPU supports.
const PORTABLE_CLUSTER: c_int = 8;

runtime! {
    fn cudaOccupancyMaxActiveBlocksPerMultiprocessor(
        blocks: *mut c_int,
        address: *const c_void,
        threads: c_int,
        shared_bytes: usize,
    ) {
        // SAFETY: a place of the caller's.
        unsafe { put(blocks, blocks_per_multiprocessor(kernel(address)?, threads, shared_bytes)?) }
    }

    fn cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
        blocks: *mut c_int,
        address: *const c_void,
        threads: c_int,
        shared_bytes: usize,
        _flags: c_uint,
    ) {
        // SAFETY: a place of the caller's.
        unsafe { put(blocks, blocks_per_multiprocessor(kernel(address)?, threads, shared_bytes)?) }
    }

    fn cudaOccupancyAvailableDynamicSMemPerBlock(
        bytes: *mut usize,
        address: *const c_void,
        blocks: c_int,
        _threads: c_int,
    ) {
        let limits = state()?.options.compute.limits();
        let of_block = limits.shared_bytes / blocks.max(1) as u32;
        let own = known(kernel(address)?)?.kernel.info().static_shared + limits.reserved_bytes;
        // SAFETY: a place of the caller's.
        unsafe { put(bytes, of_block.saturating_sub(own).min(limits.shared_per_block()) as usize) }
    }

    fn cudaOccupancyMaxPotentialClusterSize(blocks: *mut c_int, address: *const c_void, _config: *const LaunchConfig) {
        kernel(address)?;
        // SAFETY: a place of the caller's.
        unsafe { put(blocks, PORTABLE_CLUSTER) }
    }

    fn cudaOccupancyMaxActiveClusters(clusters: *mut c_int, address: *const c_void, _config: *const LaunchConfig) {
        kernel(address)?;
        // SAFETY: a place of the caller's.
        unsafe { put(clusters, MULTIPROCESSORS / PORTABLE_CLUSTER) }
    }
}
