//! The sum over ranks, with the operations that follow it: one kernel on each device.

use common::device::launch_together;
use common::prelude::*;
use common::tensor::Element;
use half::f16;

use crate::gemm::activation_number;
use crate::models::plan::RankSum;
use crate::tile::processors;

/// `kernels/tensor_parallel_01_sum.cu`.
pub const SUM: KernelSource = kernel_source!("tensor_parallel_01_sum");

/// `kernels/tensor_parallel_02_shares.cu`.
pub const SHARES: KernelSource = kernel_source!("tensor_parallel_02_shares");

/// Maximum number of devices whose addresses fit the kernels.
pub const MOST_RANKS: usize = 16;

/// Blocks for each SM: more would not have more loads in flight.
const BLOCKS_EACH: usize = 4;

/// Bytes that a link carries while ranks meet once more: 450 GB/s for about 2 µs.
const MEETING: u64 = 900_000;

/// Rank that adds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// Each rank adds all values.
    All,
    /// Each rank adds a share, and stores it on all devices.
    Shares,
}

impl Way {
    /// Bytes that each device receives over its link, for values of this many bytes.
    fn link_bytes(self, ranks: u64, bytes: u64) -> u64 {
        match self {
            Way::All => (ranks - 1) * bytes,
            Way::Shares => 2 * (ranks - 1) * bytes / ranks.max(1),
        }
    }

    fn chosen(ranks: u64, bytes: u64) -> Way {
        let shared = Way::Shares.link_bytes(ranks, bytes) + MEETING;
        if shared < Way::All.link_bytes(ranks, bytes) { Way::Shares } else { Way::All }
    }
}

/// State shared by the sums of a group's ranks: each device has flags, which the others raise, and a count of its launches. So
/// all ranks' sums are queued in one order, a rank's on one stream.
#[derive(Debug)]
pub struct Sum {
    kernels: Vec<Kernels>,
    /// Always uses this method; `None` for the one that fits.
    way: Option<Way>,
    threads: usize,
    most_blocks: usize,
    flags: Vec<Buffer<u32>>,
    states: Vec<Buffer<u32>>,
}

/// Kernels for f16 and f32.
#[derive(Debug)]
struct Kernels {
    all: [Kernel; 2],
    shares: [Kernel; 2],
}

impl Kernels {
    fn load(device: &Device) -> Result<Kernels> {
        let both = |source: &KernelSource, name: &str| {
            let module = device.load(source)?;
            Ok::<_, Error>([module.kernel(&format!("{name}_f16"))?, module.kernel(&format!("{name}_f32"))?])
        };
        Ok(Kernels { all: both(&SUM, "sum_ranks")?, shares: both(&SHARES, "sum_shares")? })
    }

    fn of<T: Element>(&self, way: Way) -> &Kernel {
        let [f16, f32] = match way {
            Way::All => &self.all,
            Way::Shares => &self.shares,
        };
        if T::TYPE == ElementType::F16 { f16 } else { f32 }
    }
}

impl Sum {
    /// Prepares sums; waits for all devices. With `shared` each rank adds a share of all sums, not only of those where that is
    /// expected to be faster.
    ///
    /// # Errors
    /// [`Error::Unsupported`] for more than [`MOST_RANKS`] devices; same as [`Device::kernel`].
    pub fn new(group: &DeviceGroup, shared: bool) -> Result<Sum> {
        if group.len() > MOST_RANKS {
            return Err(Error::Unsupported {
                what: format!("a sum over {} devices", group.len()),
                device: group.describe(),
                reason: format!("the kernels have room for the addresses of {MOST_RANKS}"),
            });
        }
        let (mut kernels, mut flags, mut states) = (Vec::new(), Vec::new(), Vec::new());
        for device in group.devices() {
            let stream = device.stream();
            kernels.push(Kernels::load(device)?);
            flags.push(stream.alloc_zeros(2 * group.len())?);
            states.push(stream.alloc_zeros(2)?);
        }
        group.synchronize()?;
        let first = &group.devices()[0];
        let (threads, most_blocks) = (first.load(&SUM)?.constant("THREADS")?, BLOCKS_EACH * processors(first));
        let way = shared.then_some(Way::Shares);
        Ok(Sum { kernels, way, threads, most_blocks, flags, states })
    }

    fn way(&self, bytes: u64) -> Way {
        self.way.unwrap_or_else(|| Way::chosen(self.kernels.len() as u64, bytes))
    }

    /// Bytes that each device receives from the others for a sum of values of this many bytes.
    pub fn link_bytes(&self, bytes: u64) -> u64 {
        self.way(bytes).link_bytes(self.kernels.len() as u64, bytes)
    }

    /// Queues a sum over all ranks, on one stream of each.
    ///
    /// # Errors
    /// [`Error::Shape`] if the ranks' terms differ in shape or type; [`Error::Invalid`] if there are not as many as devices; same
    /// as [`launch_together`].
    pub fn queue(&mut self, streams: &[Stream], sums: &mut [RankSum<'_>]) -> Result<()> {
        let ranks = self.kernels.len();
        if [streams.len(), sums.len()] != [ranks; 2] {
            let given = format!("{} streams and {} sums for {ranks} devices", streams.len(), sums.len());
            return Err(Error::Invalid(format!("a sum over ranks: {given}")));
        }
        let (shape, element) = (sums[0].terms.shape().to_vec(), sums[0].terms.element_type());
        sums.iter().try_for_each(|sum| sum.terms.expect_shape("a sum over ranks", &shape))?;
        match element {
            ElementType::F16 => self.queue_of::<f16>(streams, sums),
            _ => self.queue_of::<f32>(streams, sums),
        }
    }

    fn queue_of<T: Element>(&mut self, streams: &[Stream], sums: &mut [RankSum<'_>]) -> Result<()> {
        let (len, format) = (sums[0].terms.len(), sums[0].terms.format());
        let channels = sums[0].terms.shape().get(1).map_or(1, |channels| (*channels).max(1)) as u32;
        let (n, ranks) = (len as u64, sums.len() as u32);
        let way = self.way((len * size_of::<T>()) as u64);
        let blocks = len.div_ceil(self.threads * 16 / size_of::<T>()).clamp(1, self.most_blocks);
        let config = LaunchConfig {
            grid_dim: (blocks as u32, 1, 1),
            block_dim: (self.threads as u32, 1, 1),
            shared_mem_bytes: 0,
        };
        let (mut terms, mut results, mut own) = (Vec::new(), Vec::new(), Vec::new());
        for (rank, sum) in (0..ranks).zip(sums) {
            let RankSum { terms: of_rank, image, y, finish } = sum;
            terms.push(of_rank.buffer_of_mut::<T>(format)?);
            let image = image.as_ref().map(|image| image.buffer_of::<T>(format)).transpose()?;
            let scale = finish.scale.as_ref().map(Tensor::buffer).transpose()?;
            let shift = finish.shift.as_ref().map(Tensor::buffer).transpose()?;
            let activation = activation_number(finish.activation);
            results.push(y.buffer_of_mut::<T>(format)?);
            own.push((rank, image, scale, shift, activation));
        }
        let (terms, results, flags) = (Peers::new(terms), Peers::new(results), Peers::new(&mut self.flags));
        let mut launches = Vec::new();
        for (((kernels, state), stream), own) in self.kernels.iter().zip(&mut self.states).zip(streams).zip(&own) {
            let (rank, image, scale, shift, activation) = own;
            let mut launch = stream.launch_builder(kernels.of::<T>(way));
            launch.arg(&terms).arg(&results).arg(&n).arg(&flags).arg(state).arg(rank).arg(&ranks);
            launch.arg(*scale).arg(*shift).arg(*image).arg(&channels).arg(activation).dependent();
            launches.push((launch, config));
        }
        // SAFETY: the kernel waits for earlier launches; all terms, images and results have n values, scale and shift as many as a
        // result has channels; each device has two flags for each rank, and the flags order who reads and writes what of whom.
        unsafe { launch_together(&mut launches) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_for_many_ranks_and_many_bytes() {
        assert_eq!([1 << 10, 1 << 30].map(|bytes| Way::chosen(2, bytes)), [Way::All; 2]);
        assert_eq!([1 << 18, 1 << 20].map(|bytes| Way::chosen(4, bytes)), [Way::All, Way::Shares]);
        assert_eq!([Way::All, Way::Shares].map(|way| way.link_bytes(4, 1000)), [3000, 1500]);
        assert_eq!([Way::All, Way::Shares].map(|way| way.link_bytes(1, 1000)), [0, 0]);
    }
}
