//! **Hypothesis.** One meeting is enough if the values wait in memory that the next sum leaves alone: then a rank does not have to hear
//! that the others have read them. And the sum can take the place of the values.
//!
//! **Change.** Two staging buffers per device, used in turns; the kernel counts its own launches. [`Resident`] is what models use that
//! are spread over several devices: in place, in f32 and f16, and recorded in graphs.
//!
//! **Floor.** (N − 1)·n bytes come into each device, and n are copied inside of it; one flag's way over the link.

use common::device::{LaunchArgs, launch_together};
use common::prelude::*;

use super::flags::Flags;
use super::{AllReduce, Kernels, Method, Operands, Step, Summand, VECTOR};

/// `kernels/all_reduce_07_resident.cu`.
pub const SOURCE: KernelSource = kernel_source!("all_reduce_07_resident");

/// The step.
pub const STEP: Step = Step {
    number: 7,
    name: "resident",
    idea: "one meeting, by two staging buffers in turns",
    source: SOURCE,
    method: Method(|source, group, most| Ok(Box::new(Resident::of_source(group, most * size_of::<f32>(), source)?))),
};

/// Adds up a buffer of each device of a group, in place. All ranks get the same bits, in every run: the values are added in the order of
/// ranks, in f32.
///
/// The devices' launches wait for each other, by flags that stay in memory and are never reset. So all ranks have to be launched, with
/// the same lengths in the same order, each rank's one after the other: on one stream, or on several that wait for each other. What a
/// device does meanwhile on other streams has to leave room for the launch, which has 128 blocks of 512 threads at most, no more
/// than one per multiprocessor.
#[derive(Debug)]
pub struct Resident {
    group: DeviceGroup,
    kernels: Vec<Kernels>,
    /// Of each device: what the others read.
    staging: Vec<Buffer<u8>>,
    flags: Flags,
    /// Bytes that a buffer may have.
    most: usize,
}

impl Resident {
    /// For buffers of up to `most` bytes. Each device gives twice as much memory. Waits for all devices.
    ///
    /// # Errors
    /// [`Error::Unsupported`] for more than [`MOST_RANKS`](super::MOST_RANKS) devices, and for GPUs that do not reach each other's memory;
    /// [`Error::OutOfMemory`]; as [`Device::kernel`].
    pub fn new(group: &DeviceGroup, most: usize) -> Result<Resident> {
        Resident::of_source(group, most, &SOURCE)
    }

    /// [`Resident::new`] with other kernels: tests plant mistakes there.
    #[doc(hidden)]
    pub fn of_source(group: &DeviceGroup, most: usize, source: &KernelSource) -> Result<Resident> {
        let flags = Flags::new(group, &group.devices()[0].load(source)?)?;
        let most = most.next_multiple_of(VECTOR);
        let (mut kernels, mut staging) = (Vec::new(), Vec::new());
        for device in group.devices() {
            kernels.push(Kernels::new(&device.load(source)?, "resident")?);
            staging.push(device.stream().alloc_uninit(2 * most)?);
        }
        let group = group.clone();
        let mut resident = Resident { group, kernels, staging, flags, most };
        resident.rehearse()?;
        Ok(resident)
    }

    /// Queues a sum of no values: what a launch does for the first time, a capture may not be able to do.
    fn rehearse(&mut self) -> Result<()> {
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
        let places = values.iter_mut().map(|values| Place::Same(&mut **values)).collect();
        self.launch(streams, places, len)
    }

    fn launch<T: Summand>(&mut self, streams: &[Stream], places: Vec<Place<'_, T>>, len: usize) -> Result<()> {
        let config = self.config::<T>(len);
        let shared = Shared::new(len, self.most, &mut self.staging, &mut self.flags.flags);
        let numbers: Vec<u32> = (0..shared.ranks).collect();
        let own = self.kernels.iter().zip(&mut self.flags.states).zip(streams).zip(places).zip(&numbers);
        let mut launches = own
            .map(|((((kernels, state), stream), place), rank)| {
                (shared.arguments(stream.launch_builder(T::among(kernels)), place, state, rank), config)
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
        let (Some(kernels), Some(state)) = (self.kernels.get(rank), self.flags.states.get_mut(rank)) else {
            return Err(Error::Invalid(format!("all-reduce: there are {ranks} ranks, and {rank} is none of them")));
        };
        let shared = Shared::new(len, self.most, &mut self.staging, &mut self.flags.flags);
        let (rank, place) = (rank as u32, Place::Same(values));
        let mut launch = shared.arguments(stream.launch_builder(T::among(kernels)), place, state, &rank);
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

    fn config<T: Summand>(&self, len: usize) -> LaunchConfig {
        self.flags.config(&self.group.devices()[0], (len * size_of::<T>()).div_ceil(VECTOR))
    }
}

impl AllReduce for Resident {
    fn queue(&mut self, operands: &mut Operands) -> Result<()> {
        let (len, ranks, vectors) = (operands.len(), operands.ranks(), operands.vectors());
        let Operands { streams, values, sums, .. } = &mut *operands;
        values.iter().try_for_each(|buffer| self.check(buffer, len))?;
        let places = values.iter().zip(sums).map(|(values, sums)| Place::Other(values, sums)).collect();
        self.launch(streams, places, len)?;
        (0..ranks).for_each(|rank| operands.launched(rank, (ranks - 1) * vectors * VECTOR));
        Ok(())
    }
}

/// Where the sums go.
enum Place<'a, T: Summand> {
    /// To where the values are.
    Same(&'a mut Buffer<T>),
    /// From these to those.
    Other(&'a Buffer<T>, &'a mut Buffer<T>),
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
        place: Place<'a, T>,
        state: &'a mut Buffer<u32>,
        rank: &'a u32,
    ) -> LaunchArgs<'a> {
        match place {
            Place::Same(values) => launch.arg(values).arg_again(0),
            Place::Other(values, sums) => launch.arg(values).arg(sums),
        };
        launch.arg(&self.len).arg(&self.staging).arg(&self.half).arg(&self.flags).arg(state).arg(rank).arg(&self.ranks);
        launch
    }
}
