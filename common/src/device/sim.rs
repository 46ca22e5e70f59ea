//! The simulator side.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use super::buffer::{RawBuffer, SimAllocation, Storage};
use super::kernel::ModuleCache;
use super::memory::{Ledger, MemoryInfo};
use super::{Device, Properties};
use crate::error::{Error, Result};

/// The simulator of `common/ptx-sim`, as one device.
#[derive(Clone)]
pub struct SimDevice(Arc<Inner>);

struct Inner {
    id: u64,
    device: Arc<ptx_sim::Device>,
    budget: Option<u64>,
    /// Profiles of the launches so far, if they are wanted.
    profiles: Option<Mutex<Vec<ptx_sim::Profile>>>,
    reason: String,
    properties: Properties,
    ledger: Arc<Ledger>,
    modules: ModuleCache,
    counts: Mutex<Counts>,
}

/// How large a simulated device is.
#[derive(Clone, Copy, Debug)]
pub struct SimOptions {
    /// Bytes of device memory.
    pub memory: u64,
    /// Threads that execute blocks; 0 takes every core.
    pub workers: usize,
    /// Warp instructions after which a launch is stopped as endless; `None` lets it run.
    pub budget: Option<u64>,
    /// Every launch is sanitised: races, reads of what nobody wrote, mismatched barriers … are errors
    /// ([`Error::Findings`]). Several times slower, on one core.
    pub sanitize: bool,
    /// Every launch is profiled: [`SimDevice::take_profiles`].
    pub profile: bool,
}

impl Default for SimOptions {
    /// 8 GiB, every core, and 2³⁶ warp instructions a launch (some 10 minutes of two cores) or what `WARP_SIM_BUDGET` says.
    fn default() -> SimOptions {
        let budget = std::env::var("WARP_SIM_BUDGET").ok().and_then(|value| value.parse().ok()).unwrap_or(1 << 36);
        SimOptions { memory: 8 << 30, workers: 0, budget: Some(budget), sanitize: false, profile: false }
    }
}

/// What the simulator has executed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Counts {
    /// Kernel launches.
    pub launches: u64,
    /// Instructions, counted once a warp.
    pub warp_instructions: u64,
    /// Instructions, counted once an active lane.
    pub lane_instructions: u64,
}

impl std::ops::Sub for Counts {
    type Output = Counts;

    fn sub(self, earlier: Counts) -> Counts {
        Counts {
            launches: self.launches - earlier.launches,
            warp_instructions: self.warp_instructions - earlier.warp_instructions,
            lane_instructions: self.lane_instructions - earlier.lane_instructions,
        }
    }
}

impl SimDevice {
    pub(crate) fn new(options: SimOptions, reason: String) -> SimDevice {
        static NEXT_ID: AtomicU64 = AtomicU64::new(0);
        let SimOptions { memory: total_memory, workers, sanitize, .. } = options;
        let config = ptx_sim::DeviceConfig { total_memory, workers, sanitize };
        SimDevice(Arc::new(Inner {
            id: NEXT_ID.fetch_add(1, Ordering::Relaxed),
            device: Arc::new(ptx_sim::Device::new(config)),
            budget: options.budget,
            profiles: options.profile.then(Mutex::default),
            reason,
            properties: properties(options.memory),
            ledger: Arc::default(),
            modules: ModuleCache::default(),
            counts: Mutex::default(),
        }))
    }

    /// The simulator itself.
    pub fn device(&self) -> &Arc<ptx_sim::Device> {
        &self.0.device
    }

    /// What it has executed so far.
    pub fn counts(&self) -> Counts {
        *self.0.counts.lock().expect("no holder of this lock can panic")
    }

    /// Warp instructions after which a launch is stopped.
    pub fn budget(&self) -> Option<u64> {
        self.0.budget
    }

    /// The profiles of all launches since the last call, in order; none unless the device was made to profile.
    pub fn take_profiles(&self) -> Vec<ptx_sim::Profile> {
        let profiles =
            self.0.profiles.as_ref().map(|profiles| profiles.lock().expect("no holder of this lock can panic"));
        profiles.map(|mut profiles| std::mem::take(&mut *profiles)).unwrap_or_default()
    }

    /// Launches a kernel and keeps what was to be observed.
    pub(crate) fn launch(
        &self,
        kernel: &ptx_sim::Kernel,
        config: &ptx_sim::LaunchConfig,
        args: &[ptx_sim::Arg],
    ) -> Result<(), ptx_sim::LaunchError> {
        let Some(profiles) = &self.0.profiles else {
            self.count(&kernel.launch(config, args)?);
            return Ok(());
        };
        let observe = ptx_sim::Observe { profile: true, ..Default::default() };
        let observation = kernel.observe(config, args, &observe)?;
        profiles.lock().expect("no holder of this lock can panic").extend(observation.profile);
        self.count(&observation.report);
        match observation.findings {
            findings if findings.is_empty() => Ok(()),
            findings => Err(ptx_sim::LaunchError::Findings(findings)),
        }
    }

    fn count(&self, report: &ptx_sim::LaunchReport) {
        let mut counts = self.0.counts.lock().expect("no holder of this lock can panic");
        counts.launches += 1;
        counts.warp_instructions += report.warp_instructions;
        counts.lane_instructions += report.lane_instructions;
    }

    pub(crate) fn id(&self) -> u64 {
        self.0.id
    }

    /// Why the simulator and not a GPU.
    pub(crate) fn reason(&self) -> &str {
        &self.0.reason
    }

    pub(crate) fn properties(&self) -> &Properties {
        &self.0.properties
    }

    pub(crate) fn ledger(&self) -> &Arc<Ledger> {
        &self.0.ledger
    }

    pub(crate) fn modules(&self) -> &ModuleCache {
        &self.0.modules
    }

    pub(crate) fn memory(&self) -> MemoryInfo {
        let memory = self.0.device.memory();
        self.0.ledger.info(memory.total.saturating_sub(memory.in_use), memory.total)
    }

    pub(crate) fn alloc(&self, bytes: usize, label: &str) -> Result<RawBuffer> {
        match self.0.device.alloc(bytes as u64, label) {
            Ok(ptr) => Ok(RawBuffer::new(
                Storage::Sim(SimAllocation { device: self.0.device.clone(), ptr }),
                Device::Sim(self.clone()),
                self.0.ledger.reserve(bytes as u64),
            )),
            Err(ptx_sim::MemoryError::OutOfMemory { .. }) => {
                let memory = self.memory();
                Err(Error::OutOfMemory {
                    device: "sim".to_owned(),
                    requested: bytes as u64,
                    free: memory.free,
                    total: memory.total,
                    in_use: memory.in_use,
                })
            }
            Err(source) => Err(memory_error("allocating device memory", source)),
        }
    }
}

pub(crate) fn memory_error(operation: &'static str, source: ptx_sim::MemoryError) -> Error {
    Error::SimMemory { operation, device: "sim".to_owned(), source }
}

/// The limits that CUDA documents for compute capability 7.5 and up alike, so that a launch the simulator accepts is one
/// that a GPU accepts; shared memory beyond 48 KiB as an H100 has it (CUDA Programming Guide, "Compute Capabilities").
fn properties(total_memory: u64) -> Properties {
    Properties {
        name: "ptx-sim".to_owned(),
        compute_capability: None,
        multiprocessors: None,
        total_memory,
        shared_per_block: 48 << 10,
        shared_per_block_optin: 227 << 10,
        max_threads_per_block: 1024,
        max_grid: [i32::MAX as u32, 65_535, 65_535],
        max_block: [1024, 1024, 64],
        warp_size: 32,
        registers_per_multiprocessor: None,
        max_threads_per_multiprocessor: None,
        l2_bytes: None,
        clock_khz: None,
        memory_clock_khz: None,
        memory_bus_bits: None,
    }
}
