//! Bulk copies (PTX ISA, "cp.async.bulk" and its kin) and their prerequisites: tensor maps and fences between proxies.

use super::access::{Address, AtomOp};
use super::facts::Facts;
use super::op::R;
use crate::scalar::Mode;

/// `cp.async.bulk`, `cp.reduce.async.bulk` and their forms with tensors; `st.async` and `red.async`, whose source is registers;
/// `clusterlaunchcontrol.try_cancel`, whose source is the launch.
#[derive(Clone, Debug)]
pub(crate) struct Bulk {
    pub route: Route,
    /// The end in shared memory. For a copy between two places in shared memory, the destination.
    pub shared: Address,
    /// The end in global memory; for a copy between two places in shared memory, the source; for a tensor, its map.
    pub other: Address,
    pub shape: BulkShape,
    /// The mbarrier that a copy to shared memory completes on.
    pub barrier: Option<Address>,
    /// `.cta_group::2`: the mbarrier may be the other block's of a pair.
    pub pair: bool,
    /// The blocks that get a copy to shared memory, if several do.
    pub multicast: Option<Multicast>,
    /// Operation that combines arriving elements with those in memory.
    pub reduction: Option<Reduction>,
}

impl Bulk {
    pub(super) fn note(&self, facts: &mut Facts) {
        facts.read(self.shared.row()).read(self.other.row()).read(self.barrier.as_ref().and_then(Address::row));
        if let Some(Multicast::Mask(row)) = self.multicast {
            facts.read([row]);
        }
        match &self.shape {
            BulkShape::Bytes(bytes) => facts.read([*bytes]),
            BulkShape::Words { rows, .. } => facts.read(rows.iter().copied()),
            BulkShape::Tensor { coordinates, offsets, .. } => facts.read(coordinates.iter().chain(offsets).copied()),
            BulkShape::Response => facts,
        };
    }
}

/// Blocks of a cluster.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Multicast {
    /// Row of a mask of their ranks.
    Mask(R),
    All,
}

/// Source and destination spaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Route {
    GlobalToShared,
    SharedToShared,
    SharedToGlobal,
    /// `.prefetch.L2`: checked, and nothing more.
    Prefetch,
}

/// Data to copy.
#[derive(Clone, Debug)]
pub(crate) enum BulkShape {
    /// Row of a number of bytes.
    Bytes(R),
    /// `st.async` and `red.async`: these registers, `bytes` bytes of each.
    Words { rows: Vec<R>, wide: bool, bytes: u8 },
    /// A box of a tensor.
    Tensor {
        /// Rows of its first coordinates, fastest dimension first.
        coordinates: Vec<R>,
        /// Rows of the offsets of `.im2col`, of 16 bits.
        offsets: Vec<R>,
        mode: TensorMode,
    },
    /// The answer to `clusterlaunchcontrol.try_cancel`: [`RESPONSE_BYTES`].
    Response,
}

/// Bytes of the answer to `clusterlaunchcontrol.try_cancel`: `blockIdx` of the first block of the cluster that does not begin any more,
/// and whether there is one, a word each. PTX leaves its form open.
pub(crate) const RESPONSE_BYTES: u64 = 16;

/// Part of a tensor that a copy takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TensorMode {
    Tile,
    Im2col,
    /// `tile::gather4`, `tile::scatter4`: four rows of two dimensions; the coordinates are a column and the rows.
    Rows,
}

/// An operation on elements that are in memory.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Reduction {
    /// On elements of `bytes` bytes.
    Elements { op: AtomOp, bytes: u8, mode: Mode },
    /// On the tensor's elements.
    Tensor(TensorReduction),
}

/// The operations of `cp.reduce.async.bulk.tensor`, whose type is the tensor's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TensorReduction {
    Add,
    Min,
    Max,
    Inc,
    Dec,
    And,
    Or,
    Xor,
}

/// The field that `tensormap.replace` sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MapField {
    GlobalAddress,
    Rank,
    BoxDim(u8),
    GlobalDim(u8),
    GlobalStride(u8),
    ElementStride(u8),
    Element,
    Interleave,
    Swizzle,
    Fill,
    SwizzleAtomicity,
}

/// `tensormap.replace`
#[derive(Clone, Debug)]
pub(crate) struct ReplaceMap {
    pub map: Address,
    pub field: MapField,
    /// The value's row, and whether it has 64 bits.
    pub value: (R, bool),
}

impl ReplaceMap {
    pub(super) fn note(&self, facts: &mut Facts) {
        facts.read([self.value.0]).read(self.map.row());
    }
}

/// `tensormap.cp_fenceproxy`: 128 bytes from shared to global memory.
#[derive(Clone, Debug)]
pub(crate) struct CopyMap {
    pub to: Address,
    pub from: Address,
}

impl CopyMap {
    pub(super) fn note(&self, facts: &mut Facts) {
        facts.read(self.to.row()).read(self.from.row());
    }
}
