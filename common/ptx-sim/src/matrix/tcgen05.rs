//! `tcgen05`: the form of tensor memory's moves, and a product D = A · B + D whose D lies in tensor memory (PTX ISA,
//! "TensorCore 5th Generation Family Instructions"). No memory and no executor here.
//!
//! # Tensor memory
//! 128 lanes × 512 columns of 32 bits per block. An address has the lane in its upper 16 bits and the column in its lower ones.
//!
//! # A product
//! [`Product::decode`] reads the instruction descriptor, a register. A row of D is a lane of tensor memory and a column of D one
//! of its columns, with these exceptions ([`Product::lane`], [`Product::folds`]):
//!
//! ```text
//!   M = 64, one block          rows 16w … 16w + 15 in lanes 32w … 32w + 15
//!   M = 128, two blocks        each has 64 rows: columns N / 2 … N - 1 of its row r in lane 64 + r, from column 0
//! ```
//!
//! # Numbers
//! NVIDIA does not document how these tensor cores add, and no such GPU was asked: products of floats are exact, their sum with
//! D is one of f64, and it is rounded once, to nearest. Integers are exact, then wrap or clamp.

use super::number;
use super::tile::{Descriptor, Tile};
use crate::scalar::Scalar;

/// Lanes of tensor memory.
pub(crate) const LANES: u32 = 128;
/// Columns of tensor memory, of 32 bits.
pub(crate) const COLUMNS: u32 = 512;

/// Lane and column of a cell of tensor memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cell {
    pub lane: u32,
    pub column: u32,
}

impl Cell {
    /// The cell at an address.
    pub(crate) fn at(address: u32) -> Self {
        Self { lane: address >> 16, column: address & 0xffff }
    }
}

impl std::fmt::Display for Cell {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "lane {}, column {}", self.lane, self.column)
    }
}

/// Form of a `tcgen05.ld` or `tcgen05.st`: which cell a register of a lane of the warp has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TmemMove {
    shape: TmemShape,
    /// `.x1` to `.x128`.
    repeats: u32,
    /// `.pack::16b`, `.unpack::16b`: a register has the lower halves of two neighbouring columns.
    packed: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TmemShape {
    By32x32,
    By16x64,
    By16x128,
    By16x256,
    /// Two halves of 16 × 32 bits, that many columns apart.
    Two16x32 {
        apart: u32,
    },
}

impl TmemMove {
    /// `None`: PTX has no such repetition.
    pub(crate) fn new(shape: TmemShape, repeats: u32, packed: bool) -> Option<Self> {
        let most = match shape {
            TmemShape::By16x128 => 64,
            TmemShape::By16x256 => 32,
            _ => 128,
        };
        (repeats.is_power_of_two() && repeats <= most).then_some(Self { shape, repeats, packed })
    }

    /// Number of registers.
    pub(crate) fn registers(self) -> usize {
        let each = match self.shape {
            TmemShape::By16x256 => 4,
            TmemShape::By16x128 => 2,
            _ => 1,
        };
        (each * self.repeats) as usize
    }

    /// Lanes of tensor memory that it reaches.
    pub(crate) fn lanes(self) -> u32 {
        if self.shape == TmemShape::By32x32 { 32 } else { 16 }
    }

    /// Number of neighbouring columns from each of its starts on; they start at 0, and at [`Self::apart`].
    pub(crate) fn columns(self) -> u32 {
        let each = match self.shape {
            TmemShape::By32x32 | TmemShape::Two16x32 { .. } => 1,
            TmemShape::By16x64 => 2,
            TmemShape::By16x128 => 4,
            TmemShape::By16x256 => 8,
        };
        each * self.repeats * if self.packed { 2 } else { 1 }
    }

    /// Where the second half starts, if it is apart.
    pub(crate) fn apart(self) -> Option<u32> {
        match self.shape {
            TmemShape::Two16x32 { apart } => Some(apart),
            _ => None,
        }
    }

    /// The cells of a register of a lane of the warp, relative to the address: one, or those of both halves.
    pub(crate) fn cells(self, register: usize, lane: usize) -> impl Iterator<Item = Cell> {
        let (r, t) = (register as u32, lane as u32);
        let (lane, column, apart) = match self.shape {
            TmemShape::By32x32 => (t, r, 0),
            TmemShape::By16x64 => (t % 2 * 8 + t / 4, 2 * r + t / 2 % 2, 0),
            TmemShape::By16x128 => (t / 4 + 8 * (r % 2), t % 4 + 4 * (r / 2), 0),
            TmemShape::By16x256 => (t / 4 + 8 * (r / 2 % 2), t % 4 * 2 + r % 2 + 8 * (r / 4), 0),
            TmemShape::Two16x32 { apart } => (t % 16, r, t / 16 * apart),
        };
        let parts = if self.packed { 2 } else { 1 };
        (0..parts).map(move |part| Cell { lane, column: column * parts + part + apart })
    }

    /// Bits of a register that come from each of its cells.
    pub(crate) fn bits(self) -> u32 {
        if self.packed { 16 } else { 32 }
    }
}

/// Form of a `tcgen05.cp`: rows of shared memory, of one or two chunks of 16 bytes, go to lanes of tensor memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TmemCopy {
    pub(crate) shape: CopyShape,
    /// Bits of elements that become bytes on the way: a chunk has 16 of them, packed, and then nothing.
    pub(crate) unpacked: Option<u32>,
}

/// Which lanes a row goes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CopyShape {
    By128x256,
    By128x128,
    /// One lane of each quarter.
    By4x256,
    /// Quarters 0 and 1, and again 2 and 3.
    By64x128Halves,
    /// Quarters 0 and 2, and again 1 and 3.
    By64x128Pairs,
    /// All quarters alike.
    By32x128,
}

impl TmemCopy {
    /// The rows in shared memory.
    pub(crate) fn tile(self) -> Tile {
        let (extent, chunks) = match self.shape {
            CopyShape::By128x256 => (128, 2),
            CopyShape::By128x128 => (128, 1),
            CopyShape::By4x256 => (4, 2),
            CopyShape::By64x128Halves | CopyShape::By64x128Pairs => (64, 1),
            CopyShape::By32x128 => (32, 1),
        };
        Tile { number: Scalar::U8, extent, k: 16 * chunks, mn_major: false, padded: false }
    }

    /// Columns of tensor memory.
    pub(crate) fn columns(self) -> u32 {
        self.tile().k as u32 / 4
    }

    /// Lanes of a row, relative to the address.
    pub(crate) fn lanes(self, row: u32) -> impl Iterator<Item = u32> {
        let (first, step, count) = match self.shape {
            CopyShape::By128x256 | CopyShape::By128x128 => (row, 0, 1),
            CopyShape::By4x256 => (32 * row, 0, 1),
            CopyShape::By64x128Halves => (row, 64, 2),
            CopyShape::By64x128Pairs => (row / 32 * 64 + row % 32, 32, 2),
            CopyShape::By32x128 => (row, 32, 4),
        };
        (0..count).map(move |copy| first + copy * step)
    }

    /// The four words that a chunk becomes.
    pub(crate) fn words(self, chunk: u128) -> [u32; 4] {
        let Some(bits) = self.unpacked else { return std::array::from_fn(|word| (chunk >> (32 * word)) as u32) };
        let element = |at: u32| (chunk >> (at * bits)) as u32 & ((1 << bits) - 1);
        std::array::from_fn(|word| {
            (0..4).map(|byte| element(4 * word as u32 + byte) << container_shift(bits) << (8 * byte)).sum()
        })
    }
}

/// Lowest bit, in its byte, of an element of that many bits (those of `mma.sync`; the manual only draws tensor memory's).
fn container_shift(bits: u32) -> u32 {
    if bits == 4 { 2 } else { 0 }
}

/// `tcgen05.shift`: lanes of a quarter, and columns.
///
/// The manual lets "all the rows, except the last" move "downwards by one row", and draws no picture. Here that is to the lane below in
/// number: lane r gets what lane r + 1 has, and the last one keeps what it has until a `tcgen05.cp.4x256b` brings more there. A copy of
/// `im2col::w::128` has the pixels for that, its halo, after each 32.
pub(crate) const SHIFT: [u32; 2] = [32, 8];

/// Types of a product, as its opcode has them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    F16,
    Tf32,
    F8f6f4,
    I8,
    /// Block-scaled.
    Mxf8f6f4,
    Mxf4,
    Mxf4nvf4,
}

impl Kind {
    /// The kind of that name, without `kind::`.
    pub(crate) fn from_name(name: &str) -> Option<Self> {
        Some(match name {
            "f16" => Self::F16,
            "tf32" => Self::Tf32,
            "f8f6f4" => Self::F8f6f4,
            "i8" => Self::I8,
            "mxf8f6f4" => Self::Mxf8f6f4,
            "mxf4" => Self::Mxf4,
            "mxf4nvf4" => Self::Mxf4nvf4,
            _ => return None,
        })
    }

    /// Scales per row of A or column of B, by the name of `.scale_vectorsize` if there is one. `None`: PTX has no such scales.
    pub(crate) fn scales(self, name: Option<&str>) -> Option<u32> {
        Some(match (self, name) {
            (Self::Mxf8f6f4, None | Some("scale_vec::1X" | "block32")) => 1,
            (Self::Mxf4, None) | (Self::Mxf4 | Self::Mxf4nvf4, Some("scale_vec::2X" | "block32")) => 2,
            (Self::Mxf4nvf4, Some("scale_vec::4X" | "block16")) => 4,
            (Self::F16 | Self::Tf32 | Self::F8f6f4 | Self::I8, None) => 0,
            _ => return None,
        })
    }

    /// Whether elements of 4 bits are packed without gaps.
    fn is_packed(self) -> bool {
        matches!(self, Self::Mxf4 | Self::Mxf4nvf4)
    }

    /// The type of A or B by its number.
    fn multiplicand(self, number: u32) -> Option<Scalar> {
        Some(match (self, number) {
            (Self::F16, 0) => Scalar::F16,
            (Self::F16, 1) => Scalar::Bf16,
            (Self::Tf32, 2) => Scalar::Tf32,
            (Self::F8f6f4 | Self::Mxf8f6f4, 0) => Scalar::E4m3,
            (Self::F8f6f4 | Self::Mxf8f6f4, 1) => Scalar::E5m2,
            (Self::F8f6f4 | Self::Mxf8f6f4, 3) => Scalar::E2m3,
            (Self::F8f6f4 | Self::Mxf8f6f4, 4) => Scalar::E3m2,
            (Self::F8f6f4 | Self::Mxf8f6f4, 5) | (Self::Mxf4 | Self::Mxf4nvf4, 1) => Scalar::E2m1,
            (Self::I8, 0) => Scalar::U8,
            (Self::I8, 1) => Scalar::S8,
            _ => return None,
        })
    }

    /// The type of D by its number.
    fn accumulator(self, number: u32) -> Option<Scalar> {
        Some(match (self, number) {
            (Self::F16 | Self::F8f6f4, 0) => Scalar::F16,
            (Self::F16 | Self::Tf32 | Self::F8f6f4, 1) => Scalar::F32,
            (Self::I8, 2) => Scalar::S32,
            _ => return None,
        })
    }
}

/// A product of one block, or of a pair of blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Product {
    /// Rows and columns of the whole product.
    m: u32,
    n: u32,
    pair: bool,
    d: Scalar,
    a: Scalar,
    b: Scalar,
    /// Whether A and B are subtracted, and MN-major.
    negated: [bool; 2],
    mn_major: [bool; 2],
    saturates: bool,
    packed: bool,
    scales: Option<Scales>,
}

/// Scales of A and B in tensor memory. A word has up to four of a row of A (or column of B); row r is in lane r mod 32, and again
/// in that lane of each quarter, in column r / 32.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Scales {
    /// Per row.
    count: u32,
    is_ue8m0: bool,
    /// First byte in the words of A's, and of B's.
    first: [u32; 2],
}

/// Scales of a product in one block.
pub(crate) struct Factors {
    /// By row and block of k.
    pub(crate) a: Vec<f64>,
    /// By quarter of the lanes, column and block of k.
    pub(crate) b: [Vec<f64>; 4],
}

impl Product {
    /// Reads an instruction descriptor (PTX ISA, "Instruction descriptor"). The error says what it cannot be.
    pub(crate) fn decode(kind: Kind, scales: u32, pair: bool, descriptor: u32) -> Result<Self, String> {
        let field = |first: u32, bits: u32| descriptor >> first & ((1 << bits) - 1);
        let flag = |bit: u32| field(bit, 1) == 1;
        if flag(2) {
            return Err("says that A is sparse, and the instruction is not `.sp`".to_owned());
        }
        let reserved: &[u32] = if scales > 0 { &[3, 6, 24, 25, 26] } else { &[6, 23, 29] };
        if let Some(bit) = reserved.iter().find(|bit| flag(**bit)) {
            return Err(format!("has bit {bit} set, which is reserved"));
        }
        let d = match scales {
            0 => kind.accumulator(field(4, 2)).ok_or_else(|| {
                format!("has the type {} for D, which this kind of product does not have", field(4, 2))
            })?,
            _ => Scalar::F32,
        };
        let scales = match scales {
            0 => None,
            count => Some(Scales::decode(kind, count, flag(23), [field(29, 2), field(4, 2)])?),
        };
        if scales.is_some() && flag(31) {
            return Err("has K = 96, which sm_100a does not have".to_owned());
        }
        let [a, b] = [(7, "A"), (10, "B")].map(|(first, name)| {
            let number = field(first, 3);
            kind.multiplicand(number)
                .ok_or_else(|| format!("has the type {number} for {name}, which this kind of product does not have"))
        });
        let (a, b) = (a?, b?);
        if kind == Kind::F16 && (a != b || d == Scalar::F16 && a != Scalar::F16) {
            return Err(format!("combines {}, {} and {}", d.name(), a.name(), b.name()));
        }
        let (m, n) = (field(24, 5) << 4, field(17, 6) << 3);
        let rows = match (pair, scales) {
            (true, None) => [128, 256],
            (true, Some(_)) => [256, 256],
            (false, None) => [64, 128],
            (false, Some(_)) => [128, 128],
        };
        let step = if pair || kind == Kind::I8 && n > 32 { 16 } else { 8 };
        if !rows.contains(&m) || !(step..=256).contains(&n) || !n.is_multiple_of(step) {
            let [least, most] = rows;
            return Err(format!(
                "has M = {m} and N = {n}: M is {least} or {most} here, N a multiple of {step} up to 256"
            ));
        }
        let negated = [flag(13), flag(14)];
        let mn_major = [flag(15), flag(16)];
        if kind == Kind::I8 && negated != [false; 2] {
            return Err("negates integers".to_owned());
        }
        if [(a, mn_major[0]), (b, mn_major[1])].iter().any(|(number, transposed)| number.bits() < 8 && *transposed) {
            return Err("transposes elements of less than 8 bits".to_owned());
        }
        let packed = kind.is_packed();
        Ok(Self { m, n, pair, d, a, b, negated, mn_major, saturates: flag(3), packed, scales })
    }

    /// Rows of A and D per block.
    pub(crate) fn rows(self) -> u32 {
        if self.pair { self.m / 2 } else { self.m }
    }

    /// Checks a product whose A is in tensor memory. The error says what it cannot be.
    pub(crate) fn check_a_in_tmem(self) -> Result<(), String> {
        let step = match (self.pair, self.m) {
            (true, _) => 32,
            (false, 64) => 8,
            (false, _) => 16,
        };
        if self.mn_major[0] {
            return Err("transposes A, which is in tensor memory".to_owned());
        }
        if !self.n.is_multiple_of(step) {
            return Err(format!("has N = {}, no multiple of {step}, where A is in tensor memory", self.n));
        }
        if self.folds() {
            return Err(
                "has M = 128 for a pair whose A is in tensor memory, which the simulator does not know".to_owned()
            );
        }
        Ok(())
    }

    /// Columns of B that each block has.
    fn columns_of_b(self) -> u32 {
        if self.pair { self.n / 2 } else { self.n }
    }

    fn k(self) -> u32 {
        256 / self.container()
    }

    /// Bits of memory that an element of A takes in tensor memory: in shared memory those of less than 8 are padded.
    fn container(self) -> u32 {
        if self.packed { self.a.bits() } else { self.a.bits().max(8) }
    }

    fn tile(self, number: Scalar, extent: u32, mn_major: bool) -> Tile {
        let padded = number.bits() < 8 && !self.packed;
        Tile { number, extent: extent as usize, k: self.k() as usize, mn_major, padded }
    }

    /// A block's rows of A in shared memory.
    pub(crate) fn tile_a(self) -> Tile {
        self.tile(self.a, self.rows(), self.mn_major[0])
    }

    /// A block's columns of B in shared memory.
    pub(crate) fn tile_b(self) -> Tile {
        self.tile(self.b, self.columns_of_b(), self.mn_major[1])
    }

    /// Columns of tensor memory that A takes there.
    pub(crate) fn columns_of_a(self) -> u32 {
        self.k() * self.container() / 32
    }

    /// Extents of the scales of A and of B in a block: rows of A, and all columns of B.
    pub(crate) fn scaled(self) -> [u32; 2] {
        [self.rows(), self.n]
    }

    /// The scales in a block. `read` reads a cell of A's (0) or of B's (1), relative to the address.
    pub(crate) fn factors(self, read: &impl Fn(usize, Cell) -> u32) -> Option<Factors> {
        let Scales { count, is_ue8m0, first } = self.scales?;
        let factor = |which: usize, quarter: u32, row: u32, block: u32| {
            let word = read(which, Cell { lane: 32 * quarter + row % 32, column: row / 32 });
            let byte = u64::from(word >> (8 * (first[which] + block)) & 0xff);
            // UE4M3 is E4M3 without its sign, which is zero.
            if is_ue8m0 { number::ue8m0(byte) } else { number::e4m3(byte & 0x7f) }
        };
        let of = |which: usize, quarter: Option<u32>| {
            let rows = (0..self.scaled()[which]).flat_map(|row| (0..count).map(move |block| (row, block)));
            rows.map(|(row, block)| factor(which, quarter.unwrap_or(row / 32), row, block)).collect()
        };
        Some(Factors { a: of(0, None), b: [0, 1, 2, 3].map(|quarter| of(1, Some(quarter))) })
    }

    /// Whether the right half of D's columns lies below the left.
    pub(crate) fn folds(self) -> bool {
        self.pair && self.m == 128
    }

    /// Columns of tensor memory that D takes.
    pub(crate) fn columns_of_d(self) -> u32 {
        if self.folds() { self.n / 2 } else { self.n }
    }

    /// Lane of tensor memory, relative to the address, of a row of A or D.
    pub(crate) fn lane(self, row: u32) -> u32 {
        if self.m == 64 { row / 16 * 32 + row % 16 } else { row }
    }

    /// Cell of an element of a block's D, relative to the address.
    pub(crate) fn cell(self, row: u32, column: u32) -> Cell {
        let half = self.n / 2;
        if self.folds() && column >= half {
            return Cell { lane: 64 + row, column: column - half };
        }
        Cell { lane: self.lane(row), column }
    }

    /// The lanes, relative to the address, that a block's A (in tensor memory) and D have.
    pub(crate) fn lanes(self) -> impl Iterator<Item = u32> {
        let folds = self.folds();
        let rows = (0..self.rows()).map(move |row| self.lane(row));
        rows.chain((64..128).filter(move |_| folds))
    }

    /// Work of the product, as a number of instructions.
    pub(crate) fn cost(self) -> u64 {
        u64::from(self.rows() * self.n) / 128
    }

    /// A block's A, as [row, k]. `read` reads 16 bytes of shared memory.
    pub(crate) fn read_a(self, descriptor: Descriptor, read: &impl Fn(u64) -> u128) -> Vec<f64> {
        let k = self.k() as usize;
        elements(self.tile_a(), self.negated[0], descriptor, read, |row, at| row * k + at)
    }

    /// A block's columns of B, as [k, column]. `read` reads 16 bytes of shared memory.
    pub(crate) fn read_b(self, descriptor: Descriptor, read: &impl Fn(u64) -> u128) -> Vec<f64> {
        let columns = self.columns_of_b() as usize;
        elements(self.tile_b(), self.negated[1], descriptor, read, |column, at| at * columns + column)
    }

    /// A block's A in tensor memory, as [row, k]; `read` reads a cell, relative to the address.
    pub(crate) fn gather_a(self, read: &impl Fn(Cell) -> u32) -> Vec<f64> {
        let bits = self.container();
        let each = 32 / bits;
        let shift = if self.packed { 0 } else { container_shift(self.a.bits()) };
        let sign = if self.negated[0] { -1.0 } else { 1.0 };
        let element = |row: u32, at: u32| {
            let word = read(Cell { lane: self.lane(row), column: at / each });
            sign * value(self.a, u64::from(word) >> (at % each * bits + shift))
        };
        (0..self.rows())
            .flat_map(|row| (0..self.k()).map(move |at| (row, at)))
            .map(|(row, at)| element(row, at))
            .collect()
    }

    /// New words of a row of a block's D. `a` has the row's elements, `b` is [k, column] for the columns from `first` on; `before` is what is
    /// added, as words of D, and `scale` a factor of it.
    pub(crate) fn row(self, a: &[f64], b: &[f64], before: Option<(&[u32], f64)>, into: &mut Vec<u32>) {
        let columns = b.len() / a.len();
        let mut sums = vec![0.0; columns];
        if let Some((words, scale)) = before {
            for (sum, word) in sums.iter_mut().zip(words) {
                *sum = scale * value(self.d, u64::from(*word));
            }
        }
        for (a, b) in a.iter().zip(b.chunks_exact(columns)) {
            for (sum, b) in sums.iter_mut().zip(b) {
                *sum += a * b;
            }
        }
        into.clear();
        into.extend(sums.iter().map(|sum| self.word(*sum)));
    }

    /// An element of D as a word.
    fn word(self, sum: f64) -> u32 {
        (match self.d {
            Scalar::F16 => number::to_f16(sum),
            Scalar::F32 => number::to_f32(sum),
            _ if self.saturates => sum.clamp(i32::MIN.into(), i32::MAX.into()) as i32 as u32 as u64,
            _ => sum as i64 as u64,
        }) as u32
    }
}

impl Scales {
    /// The error says what the instruction descriptor cannot be.
    fn decode(kind: Kind, count: u32, is_ue8m0: bool, first: [u32; 2]) -> Result<Self, String> {
        if !is_ue8m0 && (kind, count) != (Kind::Mxf4nvf4, 4) {
            return Err("has scales of UE4M3, which only kind::mxf4nvf4 with four scales per row has".to_owned());
        }
        match first.iter().find(|first| **first % count != 0 || **first + count > 4) {
            Some(first) => Err(format!("has the scale factor id {first}, where a row has {count} scales")),
            None => Ok(Self { count, is_ue8m0, first }),
        }
    }
}

impl Factors {
    /// Multiplies elements, by row or column and k as `index` takes them apart, with their scales.
    pub(crate) fn apply(
        scales: &[f64],
        [extent, k]: [usize; 2],
        values: &mut [f64],
        index: impl Fn(usize) -> [usize; 2],
    ) {
        let count = scales.len() / extent;
        for (at, value) in values.iter_mut().enumerate() {
            let [row, along] = index(at);
            *value *= scales[row * count + along * count / k];
        }
    }
}

/// The elements of a tile by `index(row or column, k)`.
fn elements(
    tile: Tile,
    negated: bool,
    descriptor: Descriptor,
    read: &impl Fn(u64) -> u128,
    index: impl Fn(usize, usize) -> usize + Copy,
) -> Vec<f64> {
    let mut values = match tile.floats(descriptor, read, index) {
        Some(values) => values,
        None => tile.integers(descriptor, read, index).into_iter().map(f64::from).collect(),
    };
    if negated {
        values.iter_mut().for_each(|value| *value = -*value);
    }
    values
}

/// An element of that type in the lowest bits.
fn value(number: Scalar, bits: u64) -> f64 {
    match number {
        Scalar::F16 => number::f16(bits),
        Scalar::Bf16 => number::bf16(bits),
        Scalar::Tf32 => number::tf32(bits),
        Scalar::E4m3 => number::e4m3(bits),
        Scalar::E5m2 => number::e5m2(bits),
        Scalar::E2m3 => number::e2m3(bits),
        Scalar::E3m2 => number::e3m2(bits),
        Scalar::E2m1 => number::e2m1(bits),
        Scalar::F32 => number::f32(bits),
        Scalar::S8 => number::s8(bits).into(),
        Scalar::U8 => number::u8(bits).into(),
        _ => f64::from(bits as u32 as i32),
    }
}

impl Descriptor {
    /// Reads a descriptor of `tcgen05` (PTX ISA, "Shared memory descriptor"), whose swizzle has other numbers than that of `wgmma`.
    pub(crate) fn of_tcgen05(bits: u64) -> Result<Self, String> {
        if bits >> 46 & 7 != 1 {
            return Err(format!("bits 46 to 48 are {:03b}, where tcgen05 has 001", bits >> 46 & 7));
        }
        if bits >> 52 & 0x1ff != 0 {
            return Err("bits 52 to 60 are not zero".to_owned());
        }
        let (swizzle, atom) = match bits >> 61 {
            0 => (16, 16),
            1 => (128, 32),
            2 => (128, 16),
            4 => (64, 16),
            6 => (32, 16),
            other => return Err(format!("PTX has no swizzle {other}")),
        };
        Ok(Self { bits, swizzle, atom })
    }
}
