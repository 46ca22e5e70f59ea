//! The sum for models spread over several devices: in place, in f32 and f16, and recorded in graphs.

use common::prelude::*;

use super::staged::Staged;
use super::{Summand, step07_resident, step08_flags_in_data};

/// Adds up a buffer of each device of a group, in place. All ranks get the same bits, in every run: the values are added in rank
/// order, in f32.
///
/// Small sums are pushed with [flags in the data](step08_flags_in_data), others are read after [one meeting](step07_resident).
///
/// The devices' launches wait for each other, by what stays in memory and is never reset. So all ranks have to be launched, with
/// the same lengths in the same order, each rank's one after the other: on one stream, or on several that wait for each other. What a
/// device does meanwhile on other streams has to leave room for the launch, which has 128 blocks of 512 threads at most, no more
/// than one per SM.
#[derive(Debug)]
pub struct Resident {
    pushed: Staged,
    read: Staged,
}

impl Resident {
    /// A sum for buffers of up to `most` bytes. Each device allocates twice as much memory, and 4 bytes for each byte of a small
    /// sum and each rank. Waits for all devices.
    ///
    /// # Errors
    /// [`Error::Unsupported`] for more than [`MOST_RANKS`](super::MOST_RANKS) devices, and for GPUs that do not reach each
    /// other's memory; [`Error::OutOfMemory`]; same as [`Device::kernel`].
    pub fn new(group: &DeviceGroup, most: usize) -> Result<Resident> {
        Resident::with_small(group, most, step08_flags_in_data::most_bytes(group.len()))
    }

    /// [`Resident::new`], with sums of up to `small` bytes pushed.
    ///
    /// # Errors
    /// Same as [`Resident::new`].
    pub fn with_small(group: &DeviceGroup, most: usize, small: usize) -> Result<Resident> {
        let small = small.min(most);
        let pushed = Staged::new(group, small, &step08_flags_in_data::SOURCE, step08_flags_in_data::PROTOCOL)?;
        let read = Staged::new(group, most, &step07_resident::SOURCE, step07_resident::PROTOCOL)?;
        Ok(Resident { pushed, read })
    }

    /// Maximum bytes of a buffer.
    pub fn most_bytes(&self) -> usize {
        self.read.most_bytes()
    }

    /// The method for a sum of this length, the same on all ranks.
    fn way<T: Summand>(&mut self, len: usize) -> &mut Staged {
        let small = len <= self.pushed.most_bytes() / size_of::<T>();
        if small { &mut self.pushed } else { &mut self.read }
    }

    /// Queues the sum of the first `len` values of each device's buffer, on one stream of each, by rank.
    ///
    /// # Errors
    /// [`Error::Invalid`] if there are not as many streams and buffers as devices, or a buffer is shorter than `len`, or `len`
    /// exceeds [`Resident::most_bytes`]; same as [`launch_together`](common::device::launch_together).
    pub fn queue<T: Summand>(&mut self, streams: &[Stream], values: &mut [&mut Buffer<T>], len: usize) -> Result<()> {
        self.way::<T>(len).queue_in_place(streams, values, len)
    }

    /// Queues one rank's part of a sum, for the graph of each device: the graphs of all ranks have to be launched together.
    ///
    /// # Errors
    /// [`Error::Invalid`] as [`Resident::queue`] and if there is no such rank; [`Error::Unsupported`] for several simulated
    /// devices, which run one graph after the other; same as [`LaunchArgs::launch`](common::device::LaunchArgs::launch).
    pub fn record<T: Summand>(
        &mut self,
        rank: usize,
        stream: &Stream,
        values: &mut Buffer<T>,
        len: usize,
    ) -> Result<()> {
        self.way::<T>(len).record(rank, stream, values, len)
    }
}
