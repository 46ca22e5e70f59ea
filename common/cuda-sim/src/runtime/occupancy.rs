//! Occupancy: how many blocks of a kernel an SM holds, and how many clusters the device.

use std::ffi::{c_int, c_uint, c_void};

use super::execution::LaunchConfig;
use super::registration::kernel;
use super::{outcome, runtime};
use crate::abi::{self, Code};
use crate::driver::occupancy::*;

runtime! {
    fn cudaOccupancyMaxActiveBlocksPerMultiprocessor(
        blocks: *mut c_int,
        address: *const c_void,
        threads: c_int,
        shared_bytes: usize,
    ) {
        // SAFETY: a place of the caller's.
        outcome(unsafe { cuOccupancyMaxActiveBlocksPerMultiprocessor(blocks, kernel(address)?, threads, shared_bytes) })
    }

    fn cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
        blocks: *mut c_int,
        address: *const c_void,
        threads: c_int,
        shared_bytes: usize,
        _flags: c_uint,
    ) {
        // SAFETY: a place of the caller's.
        outcome(unsafe { cuOccupancyMaxActiveBlocksPerMultiprocessor(blocks, kernel(address)?, threads, shared_bytes) })
    }

    fn cudaOccupancyAvailableDynamicSMemPerBlock(
        bytes: *mut usize,
        address: *const c_void,
        blocks: c_int,
        threads: c_int,
    ) {
        // SAFETY: a place of the caller's.
        outcome(unsafe { cuOccupancyAvailableDynamicSMemPerBlock(bytes, kernel(address)?, blocks, threads) })
    }

    fn cudaOccupancyMaxPotentialClusterSize(blocks: *mut c_int, address: *const c_void, _config: *const LaunchConfig) {
        // SAFETY: a place of the caller's.
        outcome(unsafe { cuOccupancyMaxPotentialClusterSize(blocks, kernel(address)?, std::ptr::null()) })
    }

    fn cudaOccupancyMaxActiveClusters(number: *mut c_int, address: *const c_void, config: *const LaunchConfig) {
        // SAFETY: as the caller promises.
        unsafe {
            let config = abi::LaunchConfig::from(config.as_ref().ok_or(Code::INVALID_VALUE)?);
            outcome(cuOccupancyMaxActiveClusters(number, kernel(address)?, &raw const config))
        }
    }
}
