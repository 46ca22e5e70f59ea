//! State shared by the simulated devices of one host.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use super::super::order::Order;
use super::super::subject::Subject;
use super::options::SimOptions;
use crate::compile::Compiled;
use crate::error::Error;

/// A simulated host: one address space for the memory of all its devices, and one order of the work on all their streams.
pub(super) struct SimHost {
    pub(super) id: u64,
    pub(super) memory: ptx_sim::Device,
    /// Order of the work, if it is sanitised.
    pub(super) order: Option<Order>,
    /// Loaded modules, by the name of their PTX.
    modules: Mutex<HashMap<String, LoadedModule>>,
}

/// Parts of a module that diagnostics need.
struct LoadedModule {
    name: String,
    /// The CUDA C, if it is known.
    source: Option<Arc<str>>,
}

impl SimHost {
    pub(super) fn new(options: SimOptions, devices: u32) -> Arc<SimHost> {
        static NEXT_ID: AtomicU64 = AtomicU64::new(0);
        let SimOptions { memory, workers, sanitize, strict, .. } = options;
        let total_memory = memory.saturating_mul(devices.into());
        let memory_limit = Subject::current().map(Subject::host_memory);
        let config =
            ptx_sim::DeviceConfig { total_memory, workers, sanitize, strict, memory_limit, ..Default::default() };
        Arc::new(SimHost {
            id: NEXT_ID.fetch_add(1, Ordering::Relaxed),
            memory: ptx_sim::Device::new(config),
            order: sanitize.then(Order::default),
            modules: Mutex::default(),
        })
    }

    /// Remembers the source of a module that is loaded.
    pub(super) fn note_source(&self, compiled: &Compiled) {
        let mut modules = self.modules.lock().unwrap_or_else(PoisonError::into_inner);
        let module = LoadedModule { name: compiled.name.clone(), source: compiled.source.clone() };
        modules.insert(compiled.ptx_name(), module);
    }

    /// Findings of a host that reads undefined values. They are kept for the subject of this process too, if its kernels stored them.
    pub(super) fn undefined_reads(&self, findings: Vec<ptx_sim::Fault>) -> Error {
        let modules = self.modules.lock().unwrap_or_else(PoisonError::into_inner);
        let mut rendered = Vec::new();
        for finding in &findings {
            let module = modules.get(&finding.ptx.0);
            let source = module.and_then(|module| module.source.as_deref());
            if let (Some(subject), Some(module)) = (Subject::current(), module) {
                subject.note_read(&module.name, source, finding);
            }
            rendered.push(finding.render(source, false));
        }
        Error::Findings { rendered: rendered.join("\n\n"), findings }
    }
}
