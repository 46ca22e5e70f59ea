//! Tiles in shared memory: what a copy of a tensor's box brings, and what a product of a warpgroup reads.

/// A copy of a box of a tensor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BoxCopy {
    /// Index into [`super::Trace::steps`].
    pub step: usize,
    /// To shared memory, or from there.
    pub loads: bool,
    pub tensor: TensorShape,
    /// Where the box begins in shared memory.
    pub shared: u64,
    /// Bytes of the box.
    pub bytes: u64,
    /// Bytes within which chunks are exchanged; 16 without swizzle.
    pub swizzle: u64,
    /// Chunks of 16 bytes of its first rows, in their order.
    pub chunks: Vec<BoxChunk>,
}

/// The tensor as its map describes it, fastest dimension first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TensorShape {
    /// What the map's address is called: `x + 256`.
    pub name: String,
    /// As PTX names the type.
    pub element: &'static str,
    pub element_bytes: u64,
    pub extents: Vec<u64>,
    /// Elements of the box along each dimension; empty: the map is one of im2col.
    pub sizes: Vec<u32>,
    /// Of im2col: the coordinates of the pixels, as the rows of the box take them.
    pub pixels: Vec<Vec<i64>>,
    /// Of im2col: how far each pixel is moved, by the tap of the filter.
    pub offsets: Vec<i64>,
    /// Step between copied elements.
    pub steps: Vec<u32>,
    /// Coordinates of the box's first element.
    pub start: Vec<i64>,
    /// What stands where the box is outside: `zeros`, `NaN`.
    pub fill: &'static str,
    /// Bytes of a row of the box.
    pub row_bytes: u64,
}

/// 16 bytes of a box.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BoxChunk {
    /// Row of the box and the place in it; a row that is not a multiple of 16 bytes shares chunks with its neighbours.
    pub row: u64,
    pub place: u64,
    /// Where it is in shared memory.
    pub at: u64,
    /// How many of its bytes are inside the tensor.
    pub inside: u64,
}

/// What a `wgmma.mma_async` reads in shared memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ProductTile {
    /// Index into [`super::Trace::steps`].
    pub step: usize,
    /// `A` or `B`.
    pub name: &'static str,
    pub element: &'static str,
    /// Rows of A or columns of B, and k, in elements.
    pub extent: [usize; 2],
    /// Neighbours in a chunk are rows or columns rather than steps of k.
    pub mn_major: bool,
    /// The descriptor, and what it says.
    pub descriptor: u64,
    pub start: u64,
    pub leading: u64,
    pub stride: u64,
    pub swizzle: u64,
    /// Where the chunks of 16 bytes are, each with its first row or column and its first k.
    pub chunks: Vec<(u64, [usize; 2])>,
}
