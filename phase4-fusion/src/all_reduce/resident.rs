//! The sum in place by one kernel per device, without the host between, as often as wanted: what models use that are spread over several
//! devices.

use common::device::{LaunchArgs, launch_together};
use common::prelude::*;

use super::{Kernels, MOST_RANKS, Summand};

/// `kernels/all_reduce_07_resident.cu`.
pub const SOURCE: KernelSource = kernel_source!("all_reduce_07_resident");

/// Bytes of a load.
const VECTOR: usize = 16;

/// Adds up a buffer of each device of a group, in place. All ranks get the same bits, in every run: the values are added in the order of
/// ranks, in f32.
///
/// The devices' launches wait for each other, by flags that stay in memory and are never reset. So all ranks have to be launched, with
/// the same lengths in the same order, each rank's one after the other: on one stream, or on several that wait for each other. What a
/// device does meanwhile on other streams has to leave room for the launch, which has 64 blocks of 512 threads at most.
#[derive(Debug)]
pub struct Resident {
    group: DeviceGroup,
    kernels: Vec<Kernels>,
    /// Of each device: what the others read.
    staging: Vec<Buffer<u8>>,
    /// What the others raise.
    flags: Vec<Buffer<u32>>,
    /// What it knows of its own launches.
    states: Vec<Buffer<u32>>,
    /// Bytes that a buffer may have.
    most: usize,
    threads: usize,
    most_blocks: usize,
}

impl Resident {
    /// For buffers of up to `most` bytes. Each device gives twice as much memory. Waits for all devices.
    ///
    /// # Errors
    /// [`Error::Unsupported`] for more than [`MOST_RANKS`] devices, and for GPUs that do not reach each other's memory;
    /// [`Error::OutOfMemory`]; as [`Device::kernel`].
    pub fn new(group: &DeviceGroup, most: usize) -> Result<Resident> {
        Resident::of_source(group, most, &SOURCE)
    }

    /// [`Resident::new`] with other kernels: tests plant mistakes there.
    #[doc(hidden)]
    pub fn of_source(group: &DeviceGroup, most: usize, source: &KernelSource) -> Result<Resident> {
        if group.len() > MOST_RANKS {
            return Err(Error::Unsupported {
                what: format!("a sum over {} devices", group.len()),
                device: group.describe(),
                reason: format!("the kernels have room for the addresses of {MOST_RANKS}"),
            });
        }
        let most = most.next_multiple_of(VECTOR);
        let module = group.devices()[0].load(source)?;
        let (threads, most_blocks) = (module.constant("THREADS")?, module.constant("MAX_BLOCKS")?);
        let (mut kernels, mut staging, mut flags, mut states) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for device in group.devices() {
            let stream = device.stream();
            kernels.push(Kernels::new(&device.load(source)?, "resident")?);
            staging.push(stream.alloc_uninit(2 * most)?);
            flags.push(stream.alloc_zeros(group.len() * most_blocks)?);
            states.push(stream.alloc_zeros(2)?);
        }
        let group = group.clone();
        let mut resident = Resident { group, kernels, staging, flags, states, most, threads, most_blocks };
        resident.open_links()?;
        Ok(resident)
    }

    /// Queues a sum of no values: what a launch does for the first time, a capture may not be able to do.
    fn open_links(&mut self) -> Result<()> {
        let streams: Vec<Stream> = self.group.devices().iter().map(Device::stream).collect();
        let mut none: Vec<Buffer<f32>> = streams.iter().map(|stream| stream.alloc_uninit(0)).collect::<Result<_>>()?;
        self.group.synchronize()?;
        self.queue(&streams, &mut none.iter_mut().collect::<Vec<_>>(), 0)?;
        self.group.synchronize()
    }

    /// Bytes that a buffer may have.
    pub fn most_bytes(&self) -> usize {
        self.most
    }

    /// Queues the sum of the first `len` values of each device's buffer, on one stream of each, by rank.
    ///
    /// # Errors
    /// [`Error::Invalid`] if there are not as many streams and buffers as devices, or a buffer is shorter than `len`, or that is more
    /// than [`Resident::most_bytes`]; as [`launch_together`].
    pub fn queue<T: Summand>(&mut self, streams: &[Stream], values: &mut [&mut Buffer<T>], len: usize) -> Result<()> {
        let ranks = self.group.len();
        if [streams.len(), values.len()] != [ranks; 2] {
            let given = format!("{} streams and {} buffers for {ranks} devices", streams.len(), values.len());
            return Err(Error::Invalid(format!("all-reduce: {given}")));
        }
        values.iter().try_for_each(|buffer| self.check(buffer, len))?;
        let config = self.config::<T>(len);
        let shared = Shared::new(len, self.most, &mut self.staging, &mut self.flags);
        let numbers: Vec<u32> = (0..ranks as u32).collect();
        let own = self.kernels.iter().zip(&mut self.states).zip(streams).zip(values).zip(&numbers);
        let mut launches = own
            .map(|((((kernels, state), stream), values), rank)| {
                (shared.arguments(stream.launch_builder(T::among(kernels)), values, state, rank), config)
            })
            .collect::<Vec<_>>();
        // SAFETY: each buffer has `len` values and the staging room for them; the kernels' flags order what they do with each other's
        // memory.
        unsafe { launch_together(&mut launches) }
    }

    /// Queues one rank's part of a sum, for the graph of each device: the graphs of all ranks have to be launched together.
    ///
    /// # Errors
    /// [`Error::Invalid`] as [`Resident::queue`] and if there is no such rank; [`Error::Unsupported`] for several simulated devices,
    /// which run one graph after the other; as [`LaunchArgs::launch`].
    pub fn record<T: Summand>(
        &mut self,
        rank: usize,
        stream: &Stream,
        values: &mut Buffer<T>,
        len: usize,
    ) -> Result<()> {
        let ranks = self.group.len();
        if ranks > 1 && self.group.is_sim() {
            return Err(Error::Unsupported {
                what: "a sum in graphs that wait for each other".to_owned(),
                device: self.group.describe(),
                reason: "the simulator runs one after the other; queue the sum between graphs".to_owned(),
            });
        }
        self.check(values, len)?;
        let config = self.config::<T>(len);
        let (Some(kernels), Some(state)) = (self.kernels.get(rank), self.states.get_mut(rank)) else {
            return Err(Error::Invalid(format!("all-reduce: there are {ranks} ranks, and {rank} is none of them")));
        };
        let shared = Shared::new(len, self.most, &mut self.staging, &mut self.flags);
        let rank = rank as u32;
        let mut launch = shared.arguments(stream.launch_builder(T::among(kernels)), values, state, &rank);
        // SAFETY: as in `queue`; the other ranks are the caller's promise, and without them the launch waits.
        unsafe { launch.launch(config) }
    }

    fn check<T: Summand>(&self, values: &Buffer<T>, len: usize) -> Result<()> {
        let most = values.len().min(self.most / size_of::<T>());
        if len > most {
            return Err(Error::Invalid(format!("all-reduce: {len} values, but there is room for {most}")));
        }
        Ok(())
    }

    /// One vector per thread, as long as there are blocks.
    fn config<T: Summand>(&self, len: usize) -> LaunchConfig {
        let vectors = (len * size_of::<T>()).div_ceil(VECTOR);
        let blocks = vectors.div_ceil(self.threads).clamp(1, self.most_blocks);
        LaunchConfig { grid_dim: (blocks as u32, 1, 1), block_dim: (self.threads as u32, 1, 1), shared_mem_bytes: 0 }
    }
}

/// The arguments that are the same for all ranks.
struct Shared<'b> {
    len: u64,
    /// Vectors in half of a staging buffer.
    half: u64,
    ranks: u32,
    staging: Peers<'b>,
    flags: Peers<'b>,
}

impl<'b> Shared<'b> {
    fn new(len: usize, most: usize, staging: &'b mut [Buffer<u8>], flags: &'b mut [Buffer<u32>]) -> Shared<'b> {
        let (len, half, ranks) = (len as u64, (most / VECTOR) as u64, staging.len() as u32);
        Shared { len, half, ranks, staging: Peers::new(staging), flags: Peers::new(flags) }
    }

    fn arguments<'a, T: Summand>(
        &'a self,
        mut launch: LaunchArgs<'a>,
        values: &'a mut Buffer<T>,
        state: &'a mut Buffer<u32>,
        rank: &'a u32,
    ) -> LaunchArgs<'a> {
        launch.arg(values).arg(&self.len).arg(&self.staging).arg(&self.half).arg(&self.flags).arg(state).arg(rank);
        launch.arg(&self.ranks);
        launch
    }
}
