//! Sums through staging memory, in place or not: the common host side of the kernels of steps 7 and 8.

use common::device::{LaunchArgs, launch_together};
use common::prelude::*;

use super::flags::Flags;
use super::{AllReduce, Kernels, Operands, Summand, VECTOR};

/// Use of staging memory by a kernel.
#[derive(Clone, Copy, Debug)]
pub struct Protocol {
    /// The kernel's name, without its type.
    pub kernel: &'static str,
    /// Bytes of values that a thread handles at once.
    pub unit: usize,
    /// Bytes sent over a link for them.
    pub unit_sent: usize,
    /// Units that a device stages for each unit of a buffer, for this number of ranks.
    pub staged_units: fn(usize) -> usize,
    /// Whether the kernel uses separate flags. Otherwise staging memory holds the flags, and starts as 0.
    pub meets: bool,
}

/// A kernel and staging memory on each device of a group. [`Resident`](super::Resident) documents how to queue its sums.
#[derive(Debug)]
pub struct Staged {
    group: DeviceGroup,
    protocol: Protocol,
    kernels: Vec<Kernels>,
    /// Staging memory of each device.
    staging: Vec<Buffer<u8>>,
    flags: Flags,
    /// Maximum bytes of a buffer.
    most: usize,
}

impl Staged {
    /// A sum for buffers of up to `most` bytes, by kernels that follow the protocol. Waits for all devices.
    ///
    /// # Errors
    /// Same as [`Resident::new`](super::Resident::new).
    pub fn new(group: &DeviceGroup, most: usize, source: &KernelSource, protocol: Protocol) -> Result<Staged> {
        let flags = Flags::new(group, &group.devices()[0].load(source)?)?;
        let most = most.next_multiple_of(VECTOR);
        let staged = (protocol.staged_units)(group.len()) * most.div_ceil(protocol.unit) * protocol.unit_sent;
        let (mut kernels, mut staging) = (Vec::new(), Vec::new());
        for device in group.devices() {
            kernels.push(Kernels::new(&device.load(source)?, protocol.kernel)?);
            let stream = device.stream();
            staging.push(if protocol.meets { stream.alloc_uninit(staged)? } else { stream.alloc_zeros(staged)? });
        }
        let group = group.clone();
        let mut all = Staged { group, protocol, kernels, staging, flags, most };
        all.rehearse()?;
        Ok(all)
    }

    /// Queues a sum of no values: a capture may be unable to do what a first launch does.
    fn rehearse(&mut self) -> Result<()> {
        let streams: Vec<Stream> = self.group.devices().iter().map(Device::stream).collect();
        let mut none: Vec<Buffer<f32>> = streams.iter().map(|stream| stream.alloc_uninit(0)).collect::<Result<_>>()?;
        self.group.synchronize()?;
        self.queue_in_place(&streams, &mut none.iter_mut().collect::<Vec<_>>(), 0)?;
        self.group.synchronize()
    }

    /// Maximum bytes of a buffer.
    pub fn most_bytes(&self) -> usize {
        self.most
    }

    /// Same as [`Resident::queue`](super::Resident::queue).
    ///
    /// # Errors
    /// Same as there.
    pub fn queue_in_place<T: Summand>(
        &mut self,
        streams: &[Stream],
        values: &mut [&mut Buffer<T>],
        len: usize,
    ) -> Result<()> {
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
        let shared = Shared::new(len, self.most, self.protocol, &mut self.staging, &mut self.flags.flags);
        let numbers: Vec<u32> = (0..shared.ranks).collect();
        let own = self.kernels.iter().zip(&mut self.flags.states).zip(streams).zip(places).zip(&numbers);
        let mut launches = own
            .map(|((((kernels, state), stream), place), rank)| {
                (shared.arguments(stream.launch_builder(T::among(kernels)), place, state, rank), config)
            })
            .collect::<Vec<_>>();
        // SAFETY: each buffer has `len` values and the staging room for them; by their flags the kernels wait for what they read of each
        // other.
        unsafe { launch_together(&mut launches) }
    }

    /// Same as [`Resident::record`](super::Resident::record).
    ///
    /// # Errors
    /// Same as there.
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
        let shared = Shared::new(len, self.most, self.protocol, &mut self.staging, &mut self.flags.flags);
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
        self.flags.config(&self.group.devices()[0], (len * size_of::<T>()).div_ceil(self.protocol.unit))
    }
}

impl AllReduce for Staged {
    fn queue(&mut self, operands: &mut Operands) -> Result<()> {
        let (len, ranks) = (operands.len(), operands.ranks());
        let Operands { streams, values, sums, .. } = &mut *operands;
        values.iter().try_for_each(|buffer| self.check(buffer, len))?;
        let places = values.iter().zip(sums).map(|(values, sums)| Place::Other(values, sums)).collect();
        self.launch(streams, places, len)?;
        let sent = (len * size_of::<f32>()).div_ceil(self.protocol.unit) * self.protocol.unit_sent;
        (0..ranks).for_each(|rank| operands.launched(rank, (ranks - 1) * sent));
        Ok(())
    }
}

/// Destination of the sums.
enum Place<'a, T: Summand> {
    /// The buffer of the values.
    Same(&'a mut Buffer<T>),
    /// From the first buffer to the second.
    Other(&'a Buffer<T>, &'a mut Buffer<T>),
}

/// The arguments that are the same for all ranks.
struct Shared<'b> {
    len: u64,
    /// Units of a buffer that fit into staging memory.
    most: u64,
    ranks: u32,
    staging: Peers<'b>,
    flags: Option<Peers<'b>>,
}

impl<'b> Shared<'b> {
    fn new(
        len: usize,
        most: usize,
        protocol: Protocol,
        staging: &'b mut [Buffer<u8>],
        flags: &'b mut [Buffer<u32>],
    ) -> Shared<'b> {
        let (len, most, ranks) = (len as u64, (most / protocol.unit) as u64, staging.len() as u32);
        let flags = protocol.meets.then(|| Peers::new(flags));
        Shared { len, most, ranks, staging: Peers::new(staging), flags }
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
        launch.arg(&self.len).arg(&self.staging).arg(&self.most);
        if let Some(flags) = &self.flags {
            launch.arg(flags);
        }
        launch.arg(state).arg(rank).arg(&self.ranks);
        launch
    }
}
