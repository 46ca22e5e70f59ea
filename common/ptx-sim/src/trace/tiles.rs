//! Tiles in shared memory: those that a copy of a tensor's box brings, and those that a product of a warpgroup reads.

/// A copy of a box of a tensor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BoxCopy {
    /// Index into [`super::Trace::steps`].
    pub step: usize,
    /// Whether it goes to shared memory, not from there.
    pub loads: bool,
    pub tensor: TensorShape,
    /// Start of the box in shared memory.
    pub shared: u64,
    /// Bytes of the box.
    pub bytes: u64,
    /// Bytes within which chunks are exchanged; 16 without swizzle.
    pub swizzle: u64,
    /// Chunks of 16 bytes of its first rows, in their order.
    pub chunks: Vec<BoxChunk>,
}

/// The tensor described by its map, fastest dimension first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TensorShape {
    /// Name of the map's address: `x + 256`.
    pub name: String,
    /// Element type, as named in PTX.
    pub element: &'static str,
    pub element_bytes: u64,
    pub extents: Vec<u64>,
    /// Elements of the box along each dimension; empty for a map of im2col.
    pub sizes: Vec<u32>,
    /// For im2col: the coordinates of the pixels, in the order of the box's rows.
    pub pixels: Vec<Vec<i64>>,
    /// For im2col: the offset of each pixel, from the tap of the filter.
    pub offsets: Vec<i64>,
    /// Step between copied elements.
    pub steps: Vec<u32>,
    /// Coordinates of the box's first element.
    pub start: Vec<i64>,
    /// Fill outside the tensor: `zeros`, `NaN`.
    pub fill: &'static str,
    /// Bytes of a row of the box.
    pub row_bytes: u64,
}

/// 16 bytes of a box.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BoxChunk {
    /// Row of the box and the position in it; a row that is not a multiple of 16 bytes shares chunks with its neighbours.
    pub row: u64,
    pub place: u64,
    /// Address in shared memory.
    pub at: u64,
    /// Number of its bytes inside the tensor.
    pub inside: u64,
}

/// Tile in shared memory that a `wgmma.mma_async` reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ProductTile {
    /// Index into [`super::Trace::steps`].
    pub step: usize,
    /// `A` or `B`.
    pub name: &'static str,
    pub element: &'static str,
    /// Rows of A or columns of B, and k, in elements.
    pub extent: [usize; 2],
    /// Whether neighbours in a chunk are rows or columns rather than steps of k.
    pub mn_major: bool,
    /// The descriptor, and its fields.
    pub descriptor: u64,
    pub start: u64,
    pub leading: u64,
    pub stride: u64,
    pub swizzle: u64,
    /// Addresses of the chunks of 16 bytes, each with its first row or column and its first k.
    pub chunks: Vec<(u64, [usize; 2])>,
}
