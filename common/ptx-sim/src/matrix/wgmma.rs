//! `wgmma.mma_async`: products of a warpgroup, D (64 × N) = A · B + D, of tiles that lie in shared memory (PTX ISA,
//! "Asynchronous Warpgroup Level Matrix Multiply-Accumulate Instructions"). Warp w of the four has rows 16w … 16w + 15 of A
//! and D, in fragments like those of `mma` with 16 rows, and all of B.
//!
//! A and B lie in shared memory as `tile` says.

use super::layout::{Fragment, Lanes};
use super::modifiers::{BitOp, Modifiers, Shape, combination};
use super::number;
use super::product::{KEPT, add_aligned, power, power_of_two};
use super::sparse::{InvalidMetadata, Sparse};
use super::tile::{Descriptor, Tile};
use crate::scalar::Scalar;
use crate::trace::FragmentLayout;

/// Rows of A and D per warp.
const ROWS: usize = 16;

/// Columns of D that a picture shows.
const DRAWN: usize = 32;

/// Columns of D, at most.
const MOST_COLUMNS: usize = 256;

/// A 32-bit register of a warp.
pub(crate) type Register = [u32; 32];

/// A multiplicand, decoded: A as [row, k], B as [k, column] with each eight columns in the order of [`place`].
#[derive(Clone, Debug)]
pub(crate) enum Dense {
    Floats {
        values: Vec<f64>,
        /// Powers for their exponents ([`power`]).
        powers: Vec<f64>,
    },
    /// Integers, or words of bits.
    Integers(Vec<i32>),
}

impl Dense {
    /// The elements of a tile by `index(row or column, k)`.
    #[inline(always)]
    fn read(
        tile: Tile,
        descriptor: Descriptor,
        read: &impl Fn(u64) -> u128,
        index: impl Fn(usize, usize) -> usize + Copy,
    ) -> Self {
        match tile.floats(descriptor, read, index) {
            Some(values) => Self::floats(values, tile.number),
            None => Self::Integers(tile.integers(descriptor, read, index)),
        }
    }

    fn floats(values: Vec<f64>, number: Scalar) -> Self {
        let least = power_of_two(least_exponent(number).into());
        let powers = values.iter().map(|&value| power(value, least)).collect();
        Self::Floats { values, powers }
    }

    fn negated(self) -> Self {
        match self {
            Self::Floats { values, powers } => {
                Self::Floats { values: values.into_iter().map(|value| -value).collect(), powers }
            }
            integers => integers,
        }
    }
}

/// The exponent of a subnormal.
fn least_exponent(number: Scalar) -> i16 {
    match number {
        Scalar::F16 | Scalar::E5m2 => -14,
        Scalar::E4m3 => -6,
        _ => -126,
    }
}

/// The position in a tile of eight columns of a stored column: the even ones come first, like a lane's two registers, so
/// that accumulators move four lanes at a time.
fn place(column: usize) -> usize {
    column % 2 * 4 + column / 2
}

/// Method by which a warp adds the products of one instruction and C.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sums {
    /// All at once, cut below the largest exponent ([`add_aligned`]).
    Aligned(Precision),
    Integer {
        saturate: bool,
    },
    /// Number of bits set in both A and B.
    Bits,
}

/// Precision of products, and of their sum, which an f16 accumulator rounds to nearest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Precision {
    /// For f16, bf16 and tf32: the precision of `mma`.
    Full,
    /// For 8-bit floats: 13 bits below the largest exponent, and 13 bits of the sum's fraction. Found from the results of
    /// kernels on an H200, to the bit; random sums on an H200 confirm it.
    Short,
}

/// Fraction bits that a short sum keeps.
const SHORT: u32 = 13;

/// An f32's bits without the fraction bits that a short sum lacks.
fn shortened(bits: u64) -> u64 {
    bits & !((1 << (f32::MANTISSA_DIGITS - 1 - SHORT)) - 1)
}

/// A `wgmma.mma_async` without its registers and addresses.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wgmma {
    columns: usize,
    /// Depth of a dense A, in elements.
    k: usize,
    d: Scalar,
    a: Scalar,
    b: Scalar,
    sums: Sums,
    sparse: Option<Sparse>,
}

impl Wgmma {
    /// Parses the modifiers after `wgmma.mma_async`; for a sparse one, with the sparsity selector. The error names the unknown
    /// part.
    pub(crate) fn parse(modifiers: &[&str], selector: u64) -> Result<Self, String> {
        let found = Modifiers::parse(modifiers)?;
        let unknown = || combination(modifiers);
        let (Some(Shape { m, n, k }), &[d, a, b]) = (found.shape, &*found.numbers) else { return Err(unknown()) };
        let depth = if found.sparsity.is_some() { 512 } else { 256 } / a.bits() as usize;
        let integers = matches!(a.family(), Scalar::S8 | Scalar::B1);
        // Above 24 columns, integers come by sixteen.
        let columns = n.is_multiple_of(8) && (8..=256).contains(&n) && !(integers && n > 24 && !n.is_multiple_of(16));
        if m != 64 || k != depth || !columns || a.family() != b.family() || !found.majors.is_empty() {
            return Err(unknown());
        }
        let Modifiers { saturate, bit_op, popc, rounding: None, sparsity, .. } = found else { return Err(unknown()) };
        let sums = match (a.family(), d, saturate, bit_op, popc) {
            (Scalar::F16, Scalar::F16, false, None, false)
            | (Scalar::F16 | Scalar::Bf16 | Scalar::Tf32, Scalar::F32, false, None, false) => {
                Sums::Aligned(Precision::Full)
            }
            (Scalar::E4m3, Scalar::F16 | Scalar::F32, false, None, false) => Sums::Aligned(Precision::Short),
            (Scalar::S8, Scalar::S32, saturate, None, false) => Sums::Integer { saturate },
            (Scalar::B1, Scalar::S32, false, Some(BitOp::And), true) if sparsity.is_none() => Sums::Bits,
            _ => return Err(unknown()),
        };
        let sparse = sparsity.map(|order| Sparse::new(a, k, order, selector)).transpose()?;
        Ok(Self { columns: n, k, d, a, b, sums, sparse })
    }

    /// Number of PTX registers of d, and of an A that is not in shared memory.
    pub(crate) fn registers(self) -> [usize; 2] {
        [self.columns / 2 / self.d.units_a_register(), 4]
    }

    /// N.
    pub(crate) fn columns(self) -> usize {
        self.columns
    }

    /// Whether A is sparse: then the instruction takes metadata.
    pub(crate) fn is_sparse(self) -> bool {
        self.sparse.is_some()
    }

    /// Whether the instruction has signs for A and B.
    pub(crate) fn is_float(self) -> bool {
        self.d != Scalar::S32
    }

    /// Whether a tile in shared memory may be MN-major.
    pub(crate) fn transposes(self) -> bool {
        self.a.bits() == 16
    }

    /// Products of the warp's rows with eight columns, one step of k each: the cost, counted in `mma`s.
    pub(crate) fn cost(self) -> u64 {
        self.columns as u64 / 8
    }

    /// Floating-point operations of a lane's share; none for integers and bits. For a sparse A, those with kept elements.
    pub(crate) fn flops(self) -> u32 {
        let kept = if self.is_sparse() { self.k / 2 } else { self.k };
        if self.is_float() { (2 * ROWS * self.columns * kept / 32) as u32 } else { 0 }
    }

    /// A in shared memory: of all four warps.
    pub(crate) fn tile_a(self, mn_major: bool) -> Tile {
        Tile { number: self.a, extent: 4 * ROWS, k: self.kept(), mn_major, padded: false }
    }

    /// B in shared memory.
    pub(crate) fn tile_b(self, mn_major: bool) -> Tile {
        Tile { number: self.b, extent: self.columns, k: self.depth(), mn_major, padded: false }
    }

    /// Bytes of host memory of A and B, decoded.
    pub(crate) fn decoded_bytes(self) -> u64 {
        let each = if self.is_float() { 2 * size_of::<f64>() } else { size_of::<i32>() };
        ((4 * ROWS + self.columns) * self.depth() * each) as u64
    }

    /// Units of a row of the dense A.
    fn depth(self) -> usize {
        self.k / self.a.elements_a_unit()
    }

    /// Number of kept units in a row of A.
    fn kept(self) -> usize {
        if self.is_sparse() { self.depth() / 2 } else { self.depth() }
    }

    /// Lane and register of a warp for each element of D, of the first columns: the others continue the pattern.
    pub(crate) fn layout(self) -> FragmentLayout {
        Fragment::accumulator(ROWS, self.columns.min(DRAWN), self.d.units_a_register()).layout("D", self.d)
    }

    /// Lane and register of a warp for each element of an A in registers; for a sparse one, of the kept elements.
    pub(crate) fn layout_a(self) -> FragmentLayout {
        self.fragment_a().layout("A", self.a)
    }

    fn fragment_a(self) -> Fragment {
        Fragment::multiplicand_a(ROWS, self.kept(), self.a.units_a_register())
    }

    /// A of all four warps, kept elements only. `read` reads a chunk of 16 bytes.
    pub(crate) fn read_a(self, descriptor: Descriptor, mn_major: bool, read: &impl Fn(u64) -> u128) -> Dense {
        let kept = self.kept();
        Dense::read(self.tile_a(mn_major), descriptor, read, |row, k| row * kept + k)
    }

    /// B. `read` reads a chunk of 16 bytes.
    pub(crate) fn read_b(self, descriptor: Descriptor, mn_major: bool, read: &impl Fn(u64) -> u128) -> Dense {
        let index = |column, k| k * self.columns + column / 8 * 8 + place(column % 8);
        Dense::read(self.tile_b(mn_major), descriptor, read, index)
    }

    /// A warp's rows of A, kept elements only, from its registers.
    pub(crate) fn gather_a(self, registers: &[Register]) -> Dense {
        let fragment = self.fragment_a();
        let (parts, kept) = (fragment.parts, self.kept());
        let words = registers.as_flattened().iter().zip(fragment.places.chunks(parts));
        let elements = words.flat_map(|(&word, places)| {
            places.iter().enumerate().map(move |(part, &[row, k])| {
                (usize::from(row) * kept + usize::from(k), u64::from(word) >> (32 / parts * part))
            })
        });
        let mut floats = if self.is_float() { vec![0.0; ROWS * kept] } else { Vec::new() };
        let mut integers = if self.is_float() { Vec::new() } else { vec![0; ROWS * kept] };
        for (to, bits) in elements {
            match self.a {
                Scalar::F16 => floats[to] = number::f16(bits),
                Scalar::Bf16 => floats[to] = number::bf16(bits),
                Scalar::Tf32 => floats[to] = number::tf32(bits),
                Scalar::E4m3 => floats[to] = number::e4m3(bits),
                Scalar::E5m2 => floats[to] = number::e5m2(bits),
                Scalar::S8 => integers[to] = number::s8(bits),
                Scalar::U8 => integers[to] = number::u8(bits),
                _ => integers[to] = bits as i32,
            }
        }
        if self.is_float() { Dense::floats(floats, self.a) } else { Dense::Integers(integers) }
    }

    /// The rows of A of one of the four warps.
    pub(crate) fn rows_of(self, a: &Dense, warp: usize) -> Dense {
        let range = warp * ROWS * self.kept()..(warp + 1) * ROWS * self.kept();
        match a {
            Dense::Floats { values, powers } => {
                Dense::Floats { values: values[range.clone()].to_vec(), powers: powers[range].to_vec() }
            }
            Dense::Integers(values) => Dense::Integers(values[range].to_vec()),
        }
    }

    /// D = ±A · B, or ±A · B + D if `accumulate`, of one warp. `a` has its 16 rows, `d` its registers.
    pub(crate) fn multiply(
        self,
        (a, metadata): (Dense, Option<&Lanes>),
        negated: bool,
        b: &Dense,
        accumulate: bool,
        d: &mut [Register],
    ) -> Result<(), InvalidMetadata> {
        let a = if negated { a.negated() } else { a };
        let a = match (self.sparse, metadata) {
            (Some(sparse), Some(metadata)) => self.expanded(&a, &sparse.places(metadata)?),
            _ => a,
        };
        #[cfg(target_arch = "x86_64")]
        {
            #[target_feature(enable = "avx2")]
            fn with_avx2(wgmma: Wgmma, a: &Dense, b: &Dense, accumulate: bool, d: &mut [Register]) {
                wgmma.run(a, b, accumulate, d);
            }
            if is_x86_feature_detected!("avx2") {
                // SAFETY: the processor has been asked for the feature.
                unsafe { with_avx2(self, &a, b, accumulate, d) };
                return Ok(());
            }
        }
        self.run(&a, b, accumulate, d);
        Ok(())
    }

    /// The dense A of a sparse one.
    fn expanded(self, a: &Dense, places: &[u8]) -> Dense {
        let expand = |kept: &[f64]| {
            let mut dense = vec![0.0; ROWS * self.depth()];
            for (at, (&value, &place)) in kept.iter().zip(places).enumerate() {
                dense[at / self.kept() * self.depth() + usize::from(place)] = value;
            }
            dense
        };
        match a {
            Dense::Floats { values, powers } => Dense::Floats { values: expand(values), powers: expand(powers) },
            Dense::Integers(values) => {
                let values: Vec<f64> = values.iter().map(|value| f64::from(*value)).collect();
                Dense::Integers(expand(&values).into_iter().map(|value| value as i32).collect())
            }
        }
    }

    #[inline(always)]
    fn run(self, a: &Dense, b: &Dense, accumulate: bool, d: &mut [Register]) {
        match (a, b) {
            (Dense::Floats { values: a, powers: powers_a }, Dense::Floats { values: b, powers: powers_b }) => {
                let (a, b) = ((a.as_slice(), powers_a.as_slice()), (b.as_slice(), powers_b.as_slice()));
                if self.sums == Sums::Aligned(Precision::Short) {
                    self.floats::<true>(accumulate, d, a, b);
                } else {
                    self.floats::<false>(accumulate, d, a, b);
                }
            }
            (Dense::Integers(a), Dense::Integers(b)) => {
                let saturate = self.sums == Sums::Integer { saturate: true };
                let add = if saturate { i32::saturating_add } else { i32::wrapping_add };
                if self.sums == Sums::Bits {
                    self.integers::<true>(accumulate, d, a, b, add);
                } else {
                    self.integers::<false>(accumulate, d, a, b, add);
                }
            }
            _ => {}
        }
    }

    /// `a` and `b` are values and [`power`]s. No closures: where the compiler does not inline one, it is not compiled for AVX2.
    #[inline(always)]
    fn floats<const SHORTENED: bool>(
        self,
        accumulate: bool,
        d: &mut [Register],
        (a, powers_a): (&[f64], &[f64]),
        (b, powers_b): (&[f64], &[f64]),
    ) {
        let (depth, columns) = (self.depth(), self.columns);
        let kept_power = if SHORTENED { power_of_two(SHORT as i64) } else { KEPT };
        let (mut all, mut scales, mut before) = ([0.0; MOST_COLUMNS], [0.0; MOST_COLUMNS], [0.0; MOST_COLUMNS]);
        for (row, a) in a.chunks_exact(depth).zip(powers_a.chunks_exact(depth)).enumerate() {
            let (half, lane) = (row / 8, row % 8 * 4);
            let sums = &mut all[..columns];
            sums.fill(0.0);
            if accumulate {
                for (tile, sums) in sums.as_chunks_mut::<8>().0.iter_mut().enumerate() {
                    for at in 0..4 {
                        if self.d == Scalar::F16 {
                            let register = d[tile * 2 + half][lane + at];
                            sums[at] = number::f16(register.into());
                            sums[at + 4] = number::f16((register >> 16).into());
                        } else {
                            sums[at] = f32::from_bits(d[tile * 4 + half * 2][lane + at]).into();
                            sums[at + 4] = f32::from_bits(d[tile * 4 + half * 2 + 1][lane + at]).into();
                        }
                    }
                }
            }
            add_aligned(kept_power, a, (b, powers_b), sums, [&mut scales, &mut before]);
            for (tile, sums) in sums.as_chunks::<8>().0.iter().enumerate() {
                let mut bits = [0; 8];
                for at in 0..8 {
                    let cut = number::to_f32_towards_zero(sums[at]);
                    bits[at] = if SHORTENED { shortened(cut) } else { cut } as u32;
                }
                for at in 0..4 {
                    if self.d == Scalar::F16 {
                        let sum = |at: usize| if SHORTENED { f32::from_bits(bits[at]).into() } else { sums[at] };
                        let [low, high] = [sum(at), sum(at + 4)].map(number::to_f16);
                        d[tile * 2 + half][lane + at] = (low | high << 16) as u32;
                    } else {
                        d[tile * 4 + half * 2][lane + at] = bits[at];
                        d[tile * 4 + half * 2 + 1][lane + at] = bits[at + 4];
                    }
                }
            }
        }
    }

    /// `BITS`: counts the bits set in both.
    #[inline(always)]
    fn integers<const BITS: bool>(
        self,
        accumulate: bool,
        d: &mut [Register],
        a: &[i32],
        b: &[i32],
        add: fn(i32, i32) -> i32,
    ) {
        let (depth, columns) = (self.depth(), self.columns);
        let mut all = [0_i32; MOST_COLUMNS];
        for (row, a) in a.chunks_exact(depth).enumerate() {
            // |sum| ≤ 64 · 255 · 255, so that only adding C can overflow.
            let sums = &mut all[..columns];
            sums.fill(0);
            for (&a, b) in a.iter().zip(b.chunks_exact(columns)) {
                for at in 0..columns {
                    let product = if BITS { (a & b[at]).count_ones() as i32 } else { a.wrapping_mul(b[at]) };
                    sums[at] = sums[at].wrapping_add(product);
                }
            }
            for (tile, sums) in sums.as_chunks::<8>().0.iter().enumerate() {
                let (first, lane) = (tile * 4 + row / 8 * 2, row % 8 * 4);
                for at in 0..8 {
                    let register = &mut d[first + at / 4][lane + at % 4];
                    let before = if accumulate { *register as i32 } else { 0 };
                    *register = add(sums[at], before) as u32;
                }
            }
        }
    }
}
