//! Operands of the steps, and counts of the operations that they queue.

use common::prelude::*;
use common::tensor::Tensor;

use super::{MOST_RANKS, PER_VECTOR};

/// Up to this many values are all compared with the f64 reference; of more, at least as many, at equal distances.
const COMPARED: usize = 1 << 20;

/// Operations that a step has queued so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Asked {
    /// Kernel launches on all devices.
    pub launches: usize,
    /// Copies between devices.
    pub copies: usize,
    /// Waits of a stream for an event of another device.
    pub waits: usize,
    /// Bytes received over the links by each device, by rank.
    pub received: Vec<usize>,
}

impl Asked {
    /// Bytes received by the device that receives most.
    pub fn most_received(&self) -> usize {
        self.received.iter().copied().max().unwrap_or(0)
    }
}

/// A stream of each device, values to add up, and memory for the sums. Both are padded to whole vectors.
pub struct Operands {
    /// By rank.
    pub streams: Vec<Stream>,
    /// By rank; no step writes them.
    pub values: Vec<Buffer<f32>>,
    /// By rank.
    pub sums: Vec<Buffer<f32>>,
    /// Operations queued since [`Operands::reset`].
    pub asked: Asked,
    /// Number of values in use.
    len: usize,
    group: DeviceGroup,
    host: Vec<Tensor>,
}

impl Operands {
    /// Random values, different on each device, and sums that are NaN.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`]; [`Error::Unsupported`] for more than [`MOST_RANKS`] devices.
    pub fn new(group: &DeviceGroup, most: usize) -> Result<Operands> {
        if group.len() > MOST_RANKS {
            return Err(too_many(group));
        }
        let room = most.next_multiple_of(PER_VECTOR).max(PER_VECTOR);
        let streams: Vec<Stream> = group.devices().iter().map(Device::stream).collect();
        let (mut values, mut sums, mut host) = (Vec::new(), Vec::new(), Vec::new());
        for (rank, stream) in streams.iter().enumerate() {
            let random = Tensor::random(&[room], 71 + rank as u64);
            values.push(stream.clone_htod(random.as_slice()?)?);
            sums.push(stream.alloc_poisoned(room)?);
            host.push(random);
        }
        let group = group.clone();
        let mut operands = Operands { streams, values, sums, asked: Asked::default(), len: most, group, host };
        operands.reset(most)?;
        Ok(operands)
    }

    /// Uses `len` values from now on; the sums are NaN again, and nothing has been queued. Waits for all devices.
    ///
    /// # Errors
    /// [`Error::Invalid`] if there are fewer; errors of earlier work.
    pub fn reset(&mut self, len: usize) -> Result<()> {
        let room = self.values[0].len();
        if len > room {
            return Err(Error::Invalid(format!("all-reduce: {len} values, but there is room for {room}")));
        }
        self.len = len;
        self.asked = Asked { received: vec![0; self.ranks()], ..Asked::default() };
        self.group.synchronize()?;
        self.streams.iter().zip(&mut self.sums).try_for_each(|(stream, sums)| stream.poison(sums))?;
        self.group.synchronize()
    }

    /// Number of devices.
    pub fn ranks(&self) -> usize {
        self.streams.len()
    }

    /// Number of values in use.
    #[expect(clippy::len_without_is_empty, reason = "it is a number of values, not of operands")]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Number of vectors that they fill.
    pub fn vectors(&self) -> usize {
        self.len.div_ceil(PER_VECTOR)
    }

    /// Makes each device wait, by events, for the work that the others have queued now.
    ///
    /// # Errors
    /// Errors of the driver.
    pub fn meet(&mut self) -> Result<()> {
        let events = self.streams.iter().map(Stream::record_event).collect::<Result<Vec<_>>>()?;
        for (rank, stream) in self.streams.iter().enumerate() {
            for (_, event) in events.iter().enumerate().filter(|(other, _)| *other != rank) {
                stream.wait(event)?;
                self.asked.waits += 1;
            }
        }
        Ok(())
    }

    /// Records a launch that reads or receives this many bytes over the links, on the device of `rank`.
    pub fn launched(&mut self, rank: usize, received: usize) {
        self.asked.launches += 1;
        self.asked.received[rank] += received;
    }

    /// Fails unless all ranks have the right sums, with the same bits. Waits for all devices.
    ///
    /// # Errors
    /// [`Error::Invalid`] with the first wrong value; errors of earlier work.
    pub fn check(&self) -> Result<()> {
        self.group.synchronize()?;
        let mut first: Option<Vec<f32>> = None;
        for (rank, (stream, sums)) in self.streams.iter().zip(&self.sums).enumerate() {
            let sums = stream.clone_dtoh(&sums.slice(..self.len))?;
            match &first {
                None => {
                    self.compare(&sums)?;
                    first = Some(sums);
                }
                Some(first) if bytemuck::cast_slice::<f32, u8>(first) != bytemuck::cast_slice::<f32, u8>(&sums) => {
                    return Err(Error::Invalid(format!("all-reduce: ranks 0 and {rank} have different sums")));
                }
                Some(_) => {}
            }
        }
        Ok(())
    }

    /// Each of the N − 1 additions in f32 rounds the sum so far, by half a unit in the last place.
    fn compare(&self, sums: &[f32]) -> Result<()> {
        let host = self.host.iter().map(Tensor::as_slice).collect::<Result<Vec<_>>>()?;
        let step = (self.len / COMPARED).max(1);
        for (i, sum) in sums.iter().enumerate().step_by(step) {
            let wide = host.iter().map(|values| f64::from(values[i]));
            let (expected, magnitude) = wide.fold((0.0, 0.0), |(sum, all), value| (sum + value, all + value.abs()));
            let tolerance = self.ranks() as f64 * f64::from(f32::EPSILON) / 2.0 * magnitude;
            let right = (f64::from(*sum) - expected).abs() <= tolerance;
            if !right {
                let len = self.len;
                return Err(Error::Invalid(format!(
                    "all-reduce: value {i} of {len} is {sum}, expected {expected} within {tolerance:e}"
                )));
            }
        }
        Ok(())
    }
}

/// The kernels have no space for the addresses.
pub(super) fn too_many(group: &DeviceGroup) -> Error {
    Error::Unsupported {
        what: format!("a sum over {} devices", group.len()),
        device: group.describe(),
        reason: format!("the kernels have room for the addresses of {MOST_RANKS}"),
    }
}
