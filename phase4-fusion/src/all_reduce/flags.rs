//! Flags through which the kernels of several devices wait for each other.

use common::device::Module;
use common::prelude::*;

use super::operands::too_many;
use super::{MOST_RANKS, vectors_config};

/// State that kernels which meet by flags keep between launches. Each kernel has its own.
#[derive(Debug)]
pub struct Flags {
    /// Flags of each device, raised by the others.
    pub flags: Vec<Buffer<u32>>,
    /// State of each device's own launches.
    pub states: Vec<Buffer<u32>>,
    threads: usize,
    most_blocks: usize,
}

impl Flags {
    /// Flags for the kernels of a module, and the routes by which all devices reach each other: opening one while a kernel waits
    /// for another device could make both wait. Waits for all devices.
    ///
    /// # Errors
    /// [`Error::Unsupported`] for more than [`MOST_RANKS`] devices, and for GPUs that do not reach each other's memory.
    pub fn new(group: &DeviceGroup, module: &Module) -> Result<Flags> {
        if group.len() > MOST_RANKS {
            return Err(too_many(group));
        }
        let (threads, most_blocks) = (module.constant("THREADS")?, module.constant("MAX_BLOCKS")?);
        let streams: Vec<Stream> = group.devices().iter().map(Device::stream).collect();
        let zeros = |len: usize| streams.iter().map(|stream| stream.alloc_zeros(len)).collect::<Result<Vec<_>>>();
        let (flags, states) = (zeros(group.len() * most_blocks)?, zeros(2)?);
        let mut probes: Vec<Buffer<u32>> = zeros(1)?;
        for (from, stream) in streams.iter().enumerate() {
            let source: Buffer<u32> = stream.alloc_zeros(1)?;
            group.synchronize()?;
            for (_, probe) in probes.iter_mut().enumerate().filter(|(to, _)| *to != from) {
                stream.memcpy_peer(&source, probe)?;
            }
        }
        group.synchronize()?;
        Ok(Flags { flags, states, threads, most_blocks })
    }

    /// The geometry for this many vectors on devices like this one.
    pub fn config(&self, device: &Device, vectors: usize) -> LaunchConfig {
        vectors_config(device, vectors, self.threads, self.most_blocks)
    }
}
