//! A block that is being run.

use super::barrier::{BARRIERS, BarrierState};
use super::cluster;
use super::copies::AsyncArrival;
use super::launch::{BlockIndex, Counts, Launch};
use super::products::Wgmmas;
use super::registers::Pool;
use super::shadow::BlockShadow;
use super::tensor_memory::TensorMemory;
use super::transfers::Transfers;
use super::warp::Warp;

/// A block that is being run.
#[derive(Default)]
pub(crate) struct Block {
    pub number: u64,
    pub index: BlockIndex,
    /// Number of its cluster, and its rank there.
    pub cluster: u64,
    pub rank: u32,
    /// Codes of the addresses of its own shared memory, and of that of the cluster's first block, see [`cluster`].
    pub(crate) own_code: u64,
    pub(crate) first_code: u64,
    /// The blocks of its cluster by rank, while it runs, with an empty block in its own place. Empty for a cluster of one
    /// block.
    pub peers: Vec<Block>,
    /// Shared memory, in words for its alignment.
    pub shared: Vec<u128>,
    /// Size in bytes.
    pub shared_bytes: u64,
    pub warps: Vec<Warp>,
    pub barriers: [BarrierState; BARRIERS],
    /// Arrivals at mbarriers that wait for copies.
    pub arrivals: Vec<AsyncArrival>,
    /// Bulk copies under way.
    pub transfers: Transfers,
    /// Bytes of host memory of both, and the part already charged to the launch's account.
    pub(crate) arrival_bytes: u64,
    pub(crate) accounted: u64,
    /// Products of its warpgroups.
    pub(crate) wgmmas: Wgmmas,
    /// Tensor memory, once some was allocated.
    pub(crate) tensor: Option<Box<TensorMemory>>,
    /// Threads that have not exited.
    pub live: u32,
    /// Set if a thread exited or came to a barrier since the last check for completion.
    pub barriers_touched: bool,
    /// Set if a thread exited or arrived at the cluster's barrier since the last check for completion.
    pub cluster_touched: bool,
    pub counts: Counts,
    /// Work besides the instructions counted, as a number of instructions.
    pub charged: u64,
    /// Vain waits at mbarriers since a warp last did anything else, and whether a warp did since the last check.
    pub(crate) vain_waits: u64,
    pub(crate) busy: bool,
    /// Whether a warp did anything that another could see since the last look at its cluster.
    pub(crate) wrote: bool,
    /// Pool of registers for `setmaxnreg`.
    pub(crate) pool: Pool,
    /// State of the sanitiser for the block.
    pub shadow: Option<Box<BlockShadow>>,
}

impl Block {
    /// Resets this to the block of that number, about to begin.
    pub(crate) fn reset(&mut self, launch: &Launch<'_>, number: u64) {
        self.number = number;
        self.index = launch.block_index(number);
        self.rank = launch.rank(self.index.at);
        self.own_code = cluster::own_code(launch, self.rank);
        self.first_code = cluster::code_of_rank(launch, 0);
        self.shared_bytes = launch.shared_bytes().into();
        self.shared.clear();
        self.shared.resize((launch.shared_bytes() as usize).div_ceil(16), 0);
        let threads = launch.threads();
        self.warps.resize_with(threads.div_ceil(32) as usize, Warp::default);
        for (number, warp) in self.warps.iter_mut().enumerate() {
            let lanes = (threads - number as u32 * 32).min(32);
            warp.reset(launch, self.index.device, self.own_code, number as u32, lanes);
        }
        self.barriers = Default::default();
        (self.barriers_touched, self.cluster_touched) = (false, false);
        self.arrivals.clear();
        self.transfers.reset();
        self.arrival_bytes = 0;
        self.wgmmas.reset(threads);
        self.tensor = None;
        self.live = threads;
        self.counts = Counts::default();
        self.charged = launch.block_cost();
        (self.vain_waits, self.busy, self.wrote) = (0, false, false);
        self.pool = Pool::new(launch);
        if launch.sanitised {
            self.shadow.get_or_insert_default().reset(launch, number);
        }
    }
}
