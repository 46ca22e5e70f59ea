//! State shared by the simulated devices of one host.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::super::order::Order;
use super::super::subject::Subject;
use super::options::SimOptions;

/// A simulated host: one address space for the memory of all its devices, and one order of the work on all their streams.
pub(super) struct SimHost {
    pub(super) id: u64,
    pub(super) memory: ptx_sim::Device,
    /// Order of the work, if it is sanitised.
    pub(super) order: Option<Order>,
}

impl SimHost {
    pub(super) fn new(options: SimOptions, devices: u32) -> Arc<SimHost> {
        static NEXT_ID: AtomicU64 = AtomicU64::new(0);
        let SimOptions { memory, workers, sanitize, .. } = options;
        let total_memory = memory.saturating_mul(devices.into());
        let memory_limit = Subject::current().map(Subject::host_memory);
        let config = ptx_sim::DeviceConfig { total_memory, workers, sanitize, memory_limit, ..Default::default() };
        Arc::new(SimHost {
            id: NEXT_ID.fetch_add(1, Ordering::Relaxed),
            memory: ptx_sim::Device::new(config),
            order: sanitize.then(Order::default),
        })
    }
}
