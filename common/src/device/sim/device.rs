//! The simulator of `common/ptx-sim`, as one device.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use super::super::buffer::PinnedBuffer;
use super::super::element::DeviceElement;
use super::super::handle::Handle;
use super::super::kernel::ModuleHandle;
use super::super::memory::MemoryInfo;
use super::super::order::{self, Order};
use super::super::{DeviceId, Inventory, Properties};
use super::host::SimHost;
use super::launch::{Launch, noted, subject_of};
use super::memory::{Module, Pinned};
use super::options::{Counts, SimOptions};
use super::queue::Queue;
use crate::compile::Compiled;
use crate::error::Result;
use crate::progress;

/// The simulator of `common/ptx-sim`, as one device.
#[derive(Clone)]
pub struct SimDevice(pub(super) Arc<Inner>);

pub(super) struct Inner {
    /// Host, shared with its other devices.
    pub(super) host: Arc<SimHost>,
    pub(super) ordinal: Option<u32>,
    /// Number of the next stream.
    next_stream: AtomicU64,
    /// Bytes of memory.
    total_memory: u64,
    pub(super) budget: Option<u64>,
    pub(super) asynchrony: ptx_sim::Asynchrony,
    prints: bool,
    /// Profiles of the launches so far, if requested.
    pub(super) profiles: Option<Mutex<Vec<ptx_sim::Profile>>>,
    reason: String,
    pub(super) inventory: Inventory,
    counts: Mutex<Counts>,
}

impl SimDevice {
    pub(crate) fn new(options: SimOptions, reason: String) -> SimDevice {
        SimDevice::on(SimHost::new(options, 1), None, options, reason)
    }

    /// Several devices of one host.
    pub(crate) fn several(options: SimOptions, count: u32, reason: &str) -> Vec<SimDevice> {
        let host = SimHost::new(options, count);
        // Each has a default stream.
        if let Some(order) = &host.order {
            order.track();
        }
        let on_host = |ordinal| SimDevice::on(host.clone(), Some(ordinal), options, reason.to_owned());
        (0..count).map(on_host).collect()
    }

    fn on(host: Arc<SimHost>, ordinal: Option<u32>, options: SimOptions, reason: String) -> SimDevice {
        SimDevice(Arc::new(Inner {
            host,
            ordinal,
            next_stream: AtomicU64::new(order::first_stream(ordinal) + 1),
            total_memory: options.memory,
            budget: options.budget,
            asynchrony: options.asynchrony,
            prints: options.prints,
            profiles: options.profile.then(Mutex::default),
            reason,
            inventory: Inventory::new(properties(options.memory)),
            counts: Mutex::default(),
        }))
    }

    /// The simulator itself, shared by the devices of one host.
    pub fn device(&self) -> &ptx_sim::Device {
        &self.0.host.memory
    }

    pub(in super::super) fn order(&self) -> Option<&Order> {
        self.0.host.order.as_ref()
    }

    /// Counts so far.
    pub fn counts(&self) -> Counts {
        *self.0.counts.lock().expect("no holder of this lock can panic")
    }

    /// The profiles of all launches since the last call, in order; none unless the device was made to profile.
    pub fn take_profiles(&self) -> Vec<ptx_sim::Profile> {
        let profiles =
            self.0.profiles.as_ref().map(|profiles| profiles.lock().expect("no holder of this lock can panic"));
        profiles.map(|mut profiles| std::mem::take(&mut *profiles)).unwrap_or_default()
    }

    /// Launches a kernel and keeps the requested observations.
    pub(super) fn launch(
        &self,
        Launch { kernel, function, config, args }: &Launch,
        touches: bool,
    ) -> Result<Vec<ptx_sim::TouchedMemory>, ptx_sim::LaunchError> {
        let subject = subject_of(kernel);
        let profile = self.0.profiles.is_some() || subject.is_some();
        let trace = subject.and_then(|subject| subject.wanted_trace(kernel));
        let observe = ptx_sim::Observe { profile, trace, touches, ..Default::default() };
        let observed = function.observe(config, args, &observe);
        if self.0.prints {
            progress::print(&self.device().take_output());
        }
        let observation = noted(kernel, subject, observed)?;
        self.count(&observation.report);
        self.kept(observation)
    }

    /// Keeps the observations, and returns the touched memory unless there are findings.
    pub(super) fn kept(
        &self,
        observation: ptx_sim::Observation,
    ) -> Result<Vec<ptx_sim::TouchedMemory>, ptx_sim::LaunchError> {
        if let Some(profiles) = &self.0.profiles {
            profiles.lock().expect("no holder of this lock can panic").extend(observation.profile);
        }
        match observation.findings.is_empty() {
            true => Ok(observation.touched),
            false => Err(ptx_sim::LaunchError::Findings(observation.findings)),
        }
    }

    pub(super) fn count(&self, report: &ptx_sim::LaunchReport) {
        let mut counts = self.0.counts.lock().expect("no holder of this lock can panic");
        counts.launches += 1;
        counts.warp_instructions += report.warp_instructions;
        counts.lane_instructions += report.lane_instructions;
    }

    pub(crate) fn id(&self) -> DeviceId {
        DeviceId::Sim { host: self.0.host.id, ordinal: self.0.ordinal }
    }

    pub(crate) fn default_stream(&self) -> Queue {
        Queue::new(self.clone(), order::first_stream(self.0.ordinal))
    }

    pub(crate) fn new_stream(&self) -> Result<Queue> {
        self.track();
        Ok(Queue::new(self.clone(), self.next_stream()))
    }

    /// Records that there is more than one stream from now on.
    pub(super) fn track(&self) {
        if let Some(order) = self.order() {
            order.track();
        }
    }

    /// A number for one more stream.
    pub(super) fn next_stream(&self) -> u64 {
        self.0.next_stream.fetch_add(1, Ordering::Relaxed)
    }

    /// All work is finished when its call returns; this only records the wait for the sanitiser.
    pub(crate) fn synchronize(&self) -> Result<()> {
        if let Some(order) = self.order() {
            order.host_waits_for_all(self.0.ordinal);
        }
        Ok(())
    }

    pub(crate) fn alloc_pinned<T: DeviceElement>(&self, len: usize) -> Result<PinnedBuffer<T>> {
        let pinned = Pinned::new(self.0.host.clone(), len * size_of::<T>());
        Ok(PinnedBuffer::new(Handle::Sim(pinned), len))
    }

    /// Loads PTX; the error is the loader's message. There is no optimiser.
    pub(crate) fn load_module(&self, compiled: &Compiled, _optimiser: u32) -> Result<ModuleHandle, String> {
        let render = |error: ptx_sim::LoadError| error.render(false);
        let module = ptx_sim::Module::from_ptx(&compiled.ptx, &compiled.ptx_name()).map_err(render)?;
        self.0.host.note_source(compiled);
        Ok(Handle::Sim(Module(self.device().load(&module).map_err(render)?)))
    }

    /// Reason for the simulator instead of a GPU.
    pub(crate) fn reason(&self) -> &str {
        &self.0.reason
    }

    pub(crate) fn inventory(&self) -> &Inventory {
        &self.0.inventory
    }

    pub(crate) fn memory(&self) -> MemoryInfo {
        let total = self.0.total_memory;
        self.0.inventory.ledger.info(total.saturating_sub(self.0.inventory.ledger.in_use()), total)
    }
}

/// Limits that CUDA documents for all compute capabilities from 7.5 on, so that a launch the simulator accepts is one
/// that a GPU accepts; shared memory beyond 48 KiB like an H100's (CUDA Programming Guide, "Compute Capabilities").
fn properties(total_memory: u64) -> Properties {
    Properties {
        name: "ptx-sim".to_owned(),
        compute_capability: None,
        multiprocessors: None,
        total_memory,
        shared_per_block: 48 << 10,
        shared_per_block_optin: ptx_sim::MAX_SHARED,
        max_threads_per_block: ptx_sim::MAX_THREADS,
        max_grid: ptx_sim::MAX_GRID,
        max_block: ptx_sim::MAX_BLOCK,
        warp_size: 32,
        registers_per_multiprocessor: None,
        max_threads_per_multiprocessor: None,
        l2_bytes: None,
        clock_khz: None,
        memory_clock_khz: None,
        memory_bus_bits: None,
    }
}
