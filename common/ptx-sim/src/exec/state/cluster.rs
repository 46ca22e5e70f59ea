//! A cluster: blocks that run together, on one core of the host, and reach into each other's shared memory.
//!
//! While a block of a cluster runs, its peers are in [`Block::peers`]. A launch without clusters has a block in each, and none
//! of this costs it anything.

use super::block::Block;
use super::launch::Launch;
use super::rows::Rows;
use crate::ir::*;

/// Blocks that run together.
#[derive(Default)]
pub(crate) struct Cluster {
    pub(crate) number: u64,
    /// By rank.
    pub(crate) blocks: Vec<Block>,
    /// Rounds of turns since anybody wrote memory, as far as is known, and whether it was found to stand still in them.
    pub(crate) quiet: u32,
    pub(crate) still: bool,
    /// Whether it wrote since its turns began.
    pub(crate) wrote: bool,
    /// Number of the launch's changes that it has seen, when it was found to stand still, and when its joins were left.
    pub(crate) epoch: u64,
    pub(crate) still_since: Option<u64>,
    pub(crate) freed: u64,
    /// Number of the device's launches when it last stood still; `None` if another was under way.
    pub(crate) alone: Option<u64>,
}

impl Cluster {
    /// Resets this to the cluster of that number, about to begin.
    pub(crate) fn reset(&mut self, launch: &Launch<'_>, number: u64) {
        self.number = number;
        (self.quiet, self.still, self.still_since) = (0, false, None);
        self.blocks.resize_with(launch.cluster_blocks() as usize, Block::default);
        for (rank, block) in (0..).zip(&mut self.blocks) {
            block.reset(launch, launch.block_of_cluster(number, rank));
            block.cluster = number;
        }
    }

    /// Runs a block with the others at hand.
    pub(crate) fn with_peers<T>(&mut self, rank: usize, run: impl FnOnce(&mut Block) -> T) -> T {
        if self.blocks.len() == 1 {
            return run(&mut self.blocks[0]);
        }
        let mut block = std::mem::take(&mut self.blocks[rank]);
        block.peers = std::mem::take(&mut self.blocks);
        let result = run(&mut block);
        self.blocks = std::mem::take(&mut block.peers);
        self.blocks[rank] = block;
        result
    }

    /// Whether all remaining threads have arrived at the cluster's barrier: then it is complete, and those that wait there
    /// may go on.
    pub(crate) fn completes_barrier(&mut self) -> bool {
        let mut touched = false;
        for block in &mut self.blocks {
            touched |= std::mem::take(&mut block.cluster_touched);
        }
        let warps = || self.blocks.iter().flat_map(|block| &block.warps);
        let complete = touched
            && warps().all(|warp| warp.live & !warp.cluster.arrived == 0)
            && warps().any(|warp| warp.cluster.arrived != 0);
        if complete {
            self.blocks.iter_mut().flat_map(|block| &mut block.warps).for_each(|warp| warp.cluster.arrived = 0);
        }
        complete
    }

    /// Threads that have arrived at the cluster's barrier, and threads that are left.
    pub(crate) fn arrivals(&self) -> [u32; 2] {
        let warps = self.blocks.iter().flat_map(|block| &block.warps);
        warps.fold([0; 2], |[arrived, live], warp| {
            [arrived + (warp.live & warp.cluster.arrived).count_ones(), live + warp.live.count_ones()]
        })
    }
}

/// The block that owns an address of shared memory, by the bits above its offset there.
pub(crate) enum Owner {
    Own,
    /// The block of that rank.
    Peer(u32),
}

impl Owner {
    /// `code`: the address from [`CLUSTER_RANK`] on. `None`: the cluster has no such block.
    pub(crate) fn of(block: &Block, code: u64) -> Option<Self> {
        if code == block.own_code {
            return Some(Self::Own);
        }
        let rank = u64::from(rank_of_code(block, code));
        if rank == u64::from(block.rank) {
            Some(Self::Own)
        } else {
            (rank < block.peers.len() as u64).then_some(Self::Peer(rank as u32))
        }
    }
}

/// The code of the addresses that a block has of its own shared memory: 0, so that an address of `shared::cta` is one of
/// `shared::cluster` too. In kernels for pairs of blocks it is 1 in the second of a pair: they clear that bit of an address of their
/// own to name the first block's (`Sm100MmaPeerBitMask` of CUTLASS).
pub(crate) fn own_code(launch: &Launch<'_>, rank: u32) -> u64 {
    if launch.program.pairs && launch.cluster_blocks() > 1 { u64::from(rank & 1) } else { 0 }
}

/// The code of another block's addresses: its rank + 1, or + 2 in kernels for pairs, where a pair has the first two codes.
pub(crate) fn code_of_rank(launch: &Launch<'_>, rank: u32) -> u64 {
    u64::from(rank) + if launch.program.pairs { 2 } else { 1 }
}

/// The block that a code means, to a block.
fn rank_of_code(block: &Block, code: u64) -> u32 {
    match (code as u32).checked_sub(block.first_code as u32) {
        Some(rank) => rank,
        None => block.rank & !1 | code as u32,
    }
}

/// Rank code of a 32-bit or generic address of shared memory.
pub(crate) fn code_of(address: u64) -> u64 {
    const CODES: u64 = 0xff;
    address >> CLUSTER_RANK & CODES
}

/// Offset of an address in its block's shared memory.
pub(crate) fn offset_of(address: u64) -> u64 {
    address & ((1 << CLUSTER_RANK) - 1)
}

/// The block whose shared memory an address is in, which has been checked.
pub(crate) fn owner_of(block: &mut Block, address: u64) -> &mut Block {
    match Owner::of(block, code_of(address)) {
        Some(Owner::Peer(rank)) => &mut block.peers[rank as usize],
        _ => block,
    }
}

/// The block of that rank, if the cluster has one.
pub(crate) fn member(block: &mut Block, rank: u32) -> Option<&mut Block> {
    if rank == block.rank { Some(block) } else { block.peers.get_mut(rank as usize) }
}

/// `getctarank`
pub(crate) fn rank_of(block: &Block, address: u64) -> u32 {
    match code_of(address) {
        code if code == block.own_code => block.rank,
        code => rank_of_code(block, code),
    }
}

/// Mask of the ranks that get a multicast copy of one lane.
pub(crate) fn receivers(launch: &Launch<'_>, rows: Rows, multicast: &Multicast, lane: usize) -> u32 {
    match multicast {
        Multicast::Mask(row) => rows.lane(*row, lane) & 0xffff,
        Multicast::All => (1 << launch.cluster_blocks()) - 1,
    }
}
