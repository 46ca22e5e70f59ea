//! `mma.sync` and `wmma.mma.sync`: fragments to dense arrays, the product, and back.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use super::layout::{Fragment, Lanes};
use super::modifiers::{BitOp, Major, Modifiers, Shape, combination, mma_shapes, sparse_shapes, wmma_shapes};
use super::number;
use super::sparse::{InvalidMetadata, Sparse};
use crate::scalar::{Mode, Rounding, Scalar, double};
use crate::trace::FragmentLayout;

/// `mma.sync` or `wmma.mma.sync`: D = A · B + C by a warp (PTX ISA, "mma", "wmma.mma"). Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Mma(Arc<Plan>);

impl Mma {
    /// Parses the modifiers after `mma`; for a sparse one, with the sparsity selector. The error names the unknown part.
    pub(crate) fn parse_mma(modifiers: &[&str], selector: u64) -> Result<Self, String> {
        let found = Modifiers::parse(modifiers)?;
        let (Some(shape), &[a_major, b_major], &[d, a, b, c]) = (found.shape, &*found.majors, &*found.numbers) else {
            return Err(combination(modifiers));
        };
        let quads = a == Scalar::F16 && shape.is(8, 8, 4);
        let accumulators = match a.family() {
            // Only the four products at once take an f16 C into an f32 D, and neither takes an f32 C into an f16 D.
            Scalar::F16 if quads && (d, c) == (Scalar::F32, Scalar::F16) => true,
            Scalar::E4m3 if found.sparsity.is_some() => (d, c) == (Scalar::F32, Scalar::F32),
            Scalar::F16 | Scalar::E4m3 => d == c && matches!(d, Scalar::F16 | Scalar::F32),
            family => [d, c] == [accumulator_of(family); 2],
        };
        let majors = quads || (a_major, b_major) == (Major::Row, Major::Column);
        let shapes = if found.sparsity.is_some() { sparse_shapes(a) } else { mma_shapes(a) };
        if !shapes.contains(&shape) || a.family() != b.family() || !accumulators || !majors {
            return Err(combination(modifiers));
        }
        let sparse = match found.sparsity {
            Some(order) => Some(Sparse::new(a, shape.k, order, selector)?),
            None => None,
        };
        let fragments = if quads { Fragments::Quads(a_major, b_major) } else { Fragments::Mma };
        Self::new(modifiers, &found, Spec { shape, fragments, d, a, b, c, arithmetic: Arithmetic::Float, sparse })
    }

    /// Parses the modifiers after `wmma`, with or without `mma`. The error names the unknown part.
    pub(crate) fn parse_wmma(modifiers: &[&str]) -> Result<Self, String> {
        let rest = modifiers.strip_prefix(&["mma"]).unwrap_or(modifiers);
        let found = Modifiers::parse(rest)?;
        let (Some(shape), &[a_major, b_major]) = (found.shape, &*found.majors) else {
            return Err(combination(modifiers));
        };
        let (d, a, b, c) = match *found.numbers {
            [d @ (Scalar::F16 | Scalar::F32), c @ (Scalar::F16 | Scalar::F32)] => (d, Scalar::F16, Scalar::F16, c),
            [d, a, b, c] if a != Scalar::F16 && [d, c] == [accumulator_of(a.family()); 2] => (d, a, b, c),
            _ => return Err(combination(modifiers)),
        };
        let majors = a.bits() >= 8 || (a_major, b_major) == (Major::Row, Major::Column);
        if !wmma_shapes(a).contains(&shape) || a != b || !majors || found.sparsity.is_some() {
            return Err(combination(modifiers));
        }
        Self::new(
            modifiers,
            &found,
            Spec { shape, fragments: Fragments::Wmma, d, a, b, c, arithmetic: Arithmetic::Float, sparse: None },
        )
    }

    /// Selects the arithmetic, and shares one plan among all instructions of its kind.
    fn new(modifiers: &[&str], found: &Modifiers, mut spec: Spec) -> Result<Self, String> {
        static PLANS: LazyLock<Mutex<HashMap<Spec, Arc<Plan>>>> = LazyLock::new(Mutex::default);
        let Modifiers { saturate, bit_op, popc, rounding, .. } = *found;
        spec.arithmetic = match (spec.a.family(), saturate, bit_op, popc, rounding) {
            (Scalar::B1, false, Some(op), true, None) => Arithmetic::Bits(op),
            (Scalar::S8 | Scalar::S4, saturate, None, false, None) => Arithmetic::Integer { saturate },
            (Scalar::F64, false, None, false, rounding) => Arithmetic::Double(rounding.unwrap_or_default()),
            (number @ (Scalar::F16 | Scalar::Bf16 | Scalar::Tf32), false, None, false, None) if !spec.is_quads() => {
                Arithmetic::aligned(number)
            }
            (Scalar::E4m3, false, None, false, None)
                if spec.d == Scalar::F32 && spec.shape.k == 32 && spec.sparse.is_none() =>
            {
                Arithmetic::InPairs
            }
            (Scalar::F16 | Scalar::Bf16 | Scalar::Tf32 | Scalar::E4m3, false, None, false, None) => Arithmetic::Float,
            _ => return Err(combination(modifiers)),
        };
        let mut plans = PLANS.lock().unwrap_or_else(PoisonError::into_inner);
        let plan = plans.entry(spec).or_insert_with(|| Arc::new(Plan::new(spec)));
        Ok(Self(Arc::clone(plan)))
    }

    /// Lane and register of each element of A, B, C and D.
    pub(crate) fn layouts(&self) -> Vec<FragmentLayout> {
        let Spec { d, a, b, c, .. } = self.0.spec;
        let names = [("A", a), ("B", b), ("C", c), ("D", d)];
        let layouts = names.into_iter().zip(&self.0.fragments);
        layouts.map(|((name, number), fragment)| fragment.layout(name, number)).collect()
    }

    /// Number of PTX registers of d, a, b and c: 64-bit ones for f64, otherwise 32-bit ones.
    pub(crate) fn registers(&self) -> [usize; 4] {
        [&self.0.d, &self.0.a, &self.0.b, &self.0.c].map(|operand| operand.registers)
    }

    /// Whether A is sparse: then the instruction takes metadata.
    pub(crate) fn is_sparse(&self) -> bool {
        self.0.spec.sparse.is_some()
    }

    /// Floating-point operations of a lane's share; none for integers and bits. For a sparse A, those with kept elements.
    pub(crate) fn flops(&self) -> u32 {
        let Spec { shape: Shape { m, n, k }, arithmetic, .. } = self.0.spec;
        let k = self.0.spec.kept(k);
        let products = if self.0.spec.is_quads() { 4 } else { 1 };
        match arithmetic {
            Arithmetic::Float | Arithmetic::Aligned { .. } | Arithmetic::InPairs | Arithmetic::Double(_) => {
                (products * 2 * m * n * k / 32) as u32
            }
            Arithmetic::Integer { .. } | Arithmetic::Bits(_) => 0,
        }
    }

    /// The undefined bits of D, from those of A, B and C: an element of A or B that has some makes the sums of its row or column
    /// undefined, an element of C its own.
    pub(crate) fn undefined(&self, a: &[Lanes], b: &[Lanes], c: &[Lanes]) -> Vec<Lanes> {
        let spec = self.0.spec;
        let [of_a, of_b, of_c, of_d] = &self.0.fragments;
        let places = |fragment: &Fragment, registers: &[Lanes]| -> Vec<[u8; 2]> {
            let is_undefined = |place: &([u8; 2], usize, usize, u64)| registers[place.1][place.2] & place.3 != 0;
            fragment.elements().filter(is_undefined).map(|(place, ..)| place).collect()
        };
        let rows = places(of_a, a).iter().fold(0u32, |all, [row, _]| all | 1 << row);
        let columns = places(of_b, b).iter().fold(0u32, |all, [_, column]| all | 1 << column);
        let mut own = [0u32; 32];
        places(of_c, c).iter().for_each(|[row, column]| own[usize::from(*row)] |= 1 << column);
        let mut d = vec![[0; 32]; of_d.registers];
        for ([row, column], register, lane, bits) in of_d.elements() {
            let row_of_a = if spec.is_quads() { column / 8 * 8 + row } else { row };
            if rows >> row_of_a & 1 | (columns | own[usize::from(row)]) >> column & 1 != 0 {
                d[register][lane] |= bits;
            }
        }
        d
    }

    /// Executes the product. All slices have the lengths of [`Mma::registers`]; `metadata` is there if [`Mma::is_sparse`],
    /// and then may be invalid.
    pub(crate) fn execute(
        &self,
        (a, metadata): (&[Lanes], Option<&Lanes>),
        b: &[Lanes],
        c: &[Lanes],
        d: &mut [Lanes],
    ) -> Result<(), InvalidMetadata> {
        debug_assert_eq!(self.registers(), [d.len(), a.len(), b.len(), c.len()]);
        let places = match (self.0.spec.sparse, metadata) {
            (Some(sparse), Some(metadata)) => Some(sparse.places(metadata)?),
            _ => None,
        };
        let places = places.as_deref();
        #[cfg(target_arch = "x86_64")]
        {
            /// Eight sums take two registers here, four in the baseline: a product of f16 by wmma takes 5 % less time.
            #[target_feature(enable = "avx2")]
            fn with_avx2(plan: &Plan, a: (&[Lanes], Places<'_>), b: &[Lanes], c: &[Lanes], d: &mut [Lanes]) {
                plan.execute(a, b, c, d);
            }
            if is_x86_feature_detected!("avx2") {
                // SAFETY: the processor has been asked for the feature.
                unsafe { with_avx2(&self.0, (a, places), b, c, d) };
                return Ok(());
            }
        }
        self.0.execute((a, places), b, c, d);
        Ok(())
    }
}

/// C and D of a family of multiplicands that takes only one type.
fn accumulator_of(family: Scalar) -> Scalar {
    match family {
        Scalar::Bf16 | Scalar::Tf32 => Scalar::F32,
        Scalar::F64 => Scalar::F64,
        _ => Scalar::S32,
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Fragments {
    Mma,
    Wmma,
    /// Four products: layouts of A and B in the registers.
    Quads(Major, Major),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Arithmetic {
    /// Exact sums, rounded once to nearest.
    Float,
    /// Sums like those of an H200 ([`add_aligned`]). Every exponent of A and B is at least `least`.
    Aligned {
        least: i16,
    },
    /// Sums of 8-bit floats in f32, like those of an H200, which makes them of two products of f16: of the first two of each
    /// four elements of k, and of the others on top of that. C is added to their sum.
    InPairs,
    Double(Rounding),
    Integer {
        saturate: bool,
    },
    Bits(BitOp),
}

impl Arithmetic {
    /// Sums of f16, bf16 and tf32.
    pub(super) fn aligned(multiplicand: Scalar) -> Self {
        Self::Aligned { least: if multiplicand == Scalar::F16 { -14 } else { -126 } }
    }
}

/// All that distinguishes one instruction of this module from another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Spec {
    shape: Shape,
    fragments: Fragments,
    d: Scalar,
    a: Scalar,
    b: Scalar,
    c: Scalar,
    arithmetic: Arithmetic,
    sparse: Option<Sparse>,
}

/// Position in its row of a dense A of each element of a sparse one, by [row, kept element].
type Places<'a> = Option<&'a [u8]>;

/// Elements of the largest A (of a sparse one, the kept ones), B and C, in floats (m32n8k16, m8n32k16, m16n16) …
const FLOATS: [usize; 3] = [512, 512, 256];
/// … and in integers (s4 m16n8k64, sparse s4 m16n8k128, m16n16).
const INTEGERS: [usize; 3] = [1024, 1024, 256];

/// A fragment with the places of its elements in a dense array.
#[derive(Debug)]
struct Operand {
    number: Scalar,
    registers: usize,
    /// [register, lane, part], for the first copy.
    indices: Vec<u16>,
}

/// An instruction, ready to run. Its dense arrays are A [m, k], B [n / 8, k, 8] and C [n / 8, m, 8]: the innermost
/// loop runs over eight columns. Four products are one with n = 32 whose A moves on with the columns.
#[derive(Debug)]
struct Plan {
    spec: Spec,
    m: usize,
    n: usize,
    /// In units: bits come by the word.
    k: usize,
    /// Distance from the A of one eight columns to that of the next.
    a_step: usize,
    d: Operand,
    a: Operand,
    b: Operand,
    c: Operand,
    /// Fragments of A, B, C and D.
    fragments: [Fragment; 4],
}

impl Spec {
    fn is_quads(self) -> bool {
        matches!(self.fragments, Fragments::Quads(..))
    }

    /// Number of kept elements among `k` of a row of A.
    fn kept(self, k: usize) -> usize {
        if self.sparse.is_some() { k / 2 } else { k }
    }

    /// The fragments of A, B, C and D.
    fn fragments(self) -> [Fragment; 4] {
        let Self { shape, fragments, d, a, b, c, .. } = self;
        let Shape { m, n, k } = shape;
        let k = k / a.elements_a_unit();
        let parts = Scalar::units_a_register;
        let (fragment_a, fragment_b) = match fragments {
            Fragments::Mma => {
                (Fragment::multiplicand_a(m, self.kept(k), parts(a)), Fragment::multiplicand_b(k, n, parts(b)))
            }
            Fragments::Wmma => (Fragment::multiplicand(shape, a, true), Fragment::multiplicand(shape, b, false)),
            Fragments::Quads(a_major, b_major) => (Fragment::quads_a(a_major), Fragment::quads_b(b_major)),
        };
        let accumulator = |number| {
            let parts = parts(number);
            if self.is_quads() { Fragment::quads_accumulator(parts) } else { Fragment::accumulator(m, n, parts) }
        };
        [fragment_a, fragment_b, accumulator(c), accumulator(d)]
    }
}

impl Plan {
    fn new(spec: Spec) -> Self {
        let Spec { shape: Shape { m, n, k }, d, a, b, c, .. } = spec;
        let k = k / a.elements_a_unit();
        let quads = spec.is_quads();
        let fragments = spec.fragments();
        let [fragment_a, fragment_b, fragment_c, fragment_d] = &fragments;
        let operand = |number, fragment: &Fragment, index: &dyn Fn(usize, usize) -> usize| Operand {
            number,
            registers: fragment.registers,
            indices: fragment.places.iter().map(|&[row, column]| index(row.into(), column.into()) as u16).collect(),
        };
        // Tiles of eight columns.
        let tiled = |rows: usize| move |row, column| (column / 8 * rows + row) * 8 + column % 8;
        Self {
            spec,
            m,
            n: if quads { 32 } else { n },
            k,
            a_step: if quads { m * k } else { 0 },
            d: operand(d, fragment_d, &tiled(m)),
            a: operand(a, fragment_a, &|row, column| row * spec.kept(k) + column),
            b: operand(b, fragment_b, &tiled(k)),
            c: operand(c, fragment_c, &tiled(m)),
            fragments,
        }
    }

    #[inline(always)]
    fn execute(&self, a: (&[Lanes], Places<'_>), b: &[Lanes], c: &[Lanes], d: &mut [Lanes]) {
        match self.spec.arithmetic {
            Arithmetic::Float => self.float(a, b, c, d),
            Arithmetic::Aligned { least } => self.aligned(power_of_two(least.into()), a, b, c, d),
            Arithmetic::InPairs => self.in_pairs(a.0, b, c, d),
            Arithmetic::Double(rounding) => self.double(rounding, a.0, b, c, d),
            Arithmetic::Integer { saturate } => self.integer(saturate, a, b, c, d),
            Arithmetic::Bits(BitOp::Xor) => self.bits(|a, b| a ^ b, a.0, b, c, d),
            Arithmetic::Bits(BitOp::And) => self.bits(|a, b| a & b, a.0, b, c, d),
        }
    }

    #[inline(always)]
    fn float(&self, (a, places): (&[Lanes], Places<'_>), b: &[Lanes], c: &[Lanes], d: &mut [Lanes]) {
        let (mut dense_a, mut dense_b, mut sums) = ([0.0; FLOATS[0]], [0.0; FLOATS[1]], [0.0; FLOATS[2]]);
        self.a.gather_floats(a, &mut dense_a);
        self.b.gather_floats(b, &mut dense_b);
        self.c.gather_floats(c, &mut sums);
        let step = |sum, a, b| sum + a * b;
        match places {
            Some(places) => self.multiply(&self.expanded(&dense_a, places), &dense_b, &mut sums, step),
            None => self.multiply(&dense_a, &dense_b, &mut sums, step),
        }
        match self.d.number {
            Scalar::F16 => self.d.scatter::<_, 2>(&sums, d, number::to_f16),
            _ => self.d.scatter::<_, 1>(&sums, d, number::to_f32),
        }
    }

    #[inline(always)]
    fn aligned(&self, least: f64, (a, places): (&[Lanes], Places<'_>), b: &[Lanes], c: &[Lanes], d: &mut [Lanes]) {
        let (mut dense_a, mut dense_b, mut sums) = ([0.0; FLOATS[0]], [0.0; FLOATS[1]], [0.0; FLOATS[2]]);
        self.a.gather_floats(a, &mut dense_a);
        self.b.gather_floats(b, &mut dense_b);
        self.c.gather_floats(c, &mut sums);
        match places {
            Some(places) => self.multiply_aligned(least, &self.expanded(&dense_a, places), &dense_b, &mut sums),
            None => self.multiply_aligned(least, &dense_a, &dense_b, &mut sums),
        }
        match self.d.number {
            Scalar::F16 => self.d.scatter::<_, 2>(&sums, d, number::to_f16),
            _ => self.d.scatter::<_, 1>(&sums, d, number::to_f32_towards_zero),
        }
    }

    #[inline(always)]
    fn in_pairs(&self, a: &[Lanes], b: &[Lanes], c: &[Lanes], d: &mut [Lanes]) {
        let (mut dense_a, mut dense_b, mut start) = ([0.0; FLOATS[0]], [0.0; FLOATS[1]], [0.0; FLOATS[2]]);
        self.a.gather_floats(a, &mut dense_a);
        self.b.gather_floats(b, &mut dense_b);
        self.c.gather_floats(c, &mut start);
        let mut sums = [0.0; FLOATS[2]];
        for pair in 0..2 {
            // Zeros take no part in a sum.
            let mut of_pair = dense_a;
            let others = of_pair.iter_mut().enumerate().filter(|(at, _)| at / 2 % 2 != pair);
            others.for_each(|(_, element)| *element = 0.0);
            // As f16 an 8-bit float has its exponent, but none below -14.
            self.multiply_aligned(power_of_two(-14), &of_pair, &dense_b, &mut sums);
            let cut = |sum: f64| f64::from(f32::from_bits(number::to_f32_towards_zero(sum) as u32));
            sums.iter_mut().for_each(|sum| *sum = cut(*sum));
        }
        sums.iter_mut().zip(start).for_each(|(sum, start)| *sum += start);
        self.d.scatter::<_, 1>(&sums, d, number::to_f32);
    }

    fn double(&self, rounding: Rounding, a: &[Lanes], b: &[Lanes], c: &[Lanes], d: &mut [Lanes]) {
        let (mut dense_a, mut dense_b, mut sums) = ([0; FLOATS[0]], [0; FLOATS[1]], [0; FLOATS[2]]);
        self.a.gather::<_, 1>(a, &mut dense_a, |word| word);
        self.b.gather::<_, 1>(b, &mut dense_b, |word| word);
        self.c.gather::<_, 1>(c, &mut sums, |word| word);
        let mode = Mode { rounding, ..Mode::default() };
        self.multiply(&dense_a, &dense_b, &mut sums, |sum, a, b| double::fma(mode, a, b, sum));
        self.d.scatter::<_, 1>(&sums, d, |sum| sum);
    }

    #[inline(always)]
    fn integer(&self, saturate: bool, (a, places): (&[Lanes], Places<'_>), b: &[Lanes], c: &[Lanes], d: &mut [Lanes]) {
        let (mut dense_a, mut dense_b, mut sums) = ([0; INTEGERS[0]], [0; INTEGERS[1]], [0; INTEGERS[2]]);
        self.a.gather_integers(a, &mut dense_a);
        self.b.gather_integers(b, &mut dense_b);
        // |sum| ≤ 64 · 255 · 255, so that only adding C can overflow.
        let step = |sum: i32, a: i32, b| sum.wrapping_add(a.wrapping_mul(b));
        match places {
            Some(places) => self.multiply(&self.expanded(&dense_a, places), &dense_b, &mut sums, step),
            None => self.multiply(&dense_a, &dense_b, &mut sums, step),
        }
        self.add_and_scatter(&mut sums, if saturate { i32::saturating_add } else { i32::wrapping_add }, c, d);
    }

    /// The dense A of a sparse one.
    fn expanded<T: Copy + Default>(&self, kept: &[T], places: &[u8]) -> Vec<T> {
        let mut dense = vec![T::default(); self.m * self.k];
        let rows = kept.chunks(self.k / 2).zip(places.chunks(self.k / 2));
        for (row, (kept, places)) in dense.chunks_mut(self.k).zip(rows) {
            for (&element, &place) in kept.iter().zip(places) {
                row[usize::from(place)] = element;
            }
        }
        dense
    }

    #[inline(always)]
    fn bits(&self, op: impl Fn(u32, u32) -> u32, a: &[Lanes], b: &[Lanes], c: &[Lanes], d: &mut [Lanes]) {
        let (mut dense_a, mut dense_b, mut sums) = ([0; INTEGERS[0]], [0; INTEGERS[1]], [0; INTEGERS[2]]);
        self.a.gather::<_, 1>(a, &mut dense_a, |word| word as u32);
        self.b.gather::<_, 1>(b, &mut dense_b, |word| word as u32);
        self.multiply(&dense_a, &dense_b, &mut sums, |sum: i32, a, b| sum.wrapping_add(op(a, b).count_ones() as i32));
        self.add_and_scatter(&mut sums, i32::wrapping_add, c, d);
    }

    #[inline(always)]
    fn add_and_scatter(&self, sums: &mut [i32], add: fn(i32, i32) -> i32, c: &[Lanes], d: &mut [Lanes]) {
        let mut dense_c = [0; INTEGERS[2]];
        self.c.gather::<_, 1>(c, &mut dense_c, |word| word as i32);
        for (sum, c) in sums.iter_mut().zip(dense_c) {
            *sum = add(*sum, c);
        }
        self.d.scatter::<_, 1>(sums, d, |sum| u64::from(sum as u32));
    }

    /// `sums` += A · B by [`add_aligned`]; each factor's exponent is at least `least`.
    #[inline(always)]
    fn multiply_aligned(&self, least: f64, a: &[f64], b: &[f64], sums: &mut [f64]) {
        let (mut powers_a, mut powers_b) = ([0.0; FLOATS[0]], [0.0; FLOATS[1]]);
        a.iter().zip(&mut powers_a).for_each(|(&value, to)| *to = power(value, least));
        b.iter().zip(&mut powers_b).for_each(|(&value, to)| *to = power(value, least));
        let tiles = b[..self.n * self.k].chunks_exact(8 * self.k).zip(powers_b.chunks_exact(8 * self.k));
        for ((b, powers_b), sums) in tiles.zip(sums.chunks_exact_mut(8 * self.m)) {
            let rows = a.chunks_exact(self.k).zip(powers_a.chunks_exact(self.k));
            for ((a, powers_a), sums) in rows.zip(sums.as_chunks_mut::<8>().0) {
                add_aligned(KEPT, (a, powers_a), (b, powers_b), sums, [&mut [0.0; 8], &mut [0.0; 8]]);
            }
        }
    }

    /// `sums` += A · B, k innermost and increasing for each sum.
    #[inline(always)]
    fn multiply<T: Copy, S: Copy>(&self, a: &[T], b: &[T], sums: &mut [S], step: impl Fn(S, T, T) -> S) {
        let tiles = b[..self.n * self.k].chunks_exact(8 * self.k).zip(sums.chunks_exact_mut(8 * self.m));
        for (tile, (b, sums)) in tiles.enumerate() {
            let a = a[tile * self.a_step..].chunks_exact(self.k);
            for (a, sums) in a.zip(sums.as_chunks_mut::<8>().0) {
                let mut row = *sums;
                for (&a, b) in a.iter().zip(b.as_chunks::<8>().0) {
                    for (sum, &b) in row.iter_mut().zip(b) {
                        *sum = step(*sum, a, b);
                    }
                }
                *sums = row;
            }
        }
    }
}

/// `sums` += a · B, of one row of A and as many columns as there are sums, as the tensor cores of an H200 add: the products and C,
/// all at once, lose the bits that lie more than log2(`kept_power`) bits below the largest exponent among them, and the rest is
/// added exactly. A product's exponent is the sum of its factors', which are passed beside the factors as [`power`]s. The caller
/// has to cut the sum to an f32. `scales` and `before` have room for a number per column.
#[inline(always)]
pub(super) fn add_aligned(
    kept_power: f64,
    (a, powers_a): (&[f64], &[f64]),
    (b, powers_b): (&[f64], &[f64]),
    sums: &mut [f64],
    [scales, before]: [&mut [f64]; 2],
) {
    let columns = sums.len();
    let (scales, before) = (&mut scales[..columns], &mut before[..columns]);
    before.copy_from_slice(sums);
    // The largest power first. Of nothing but zeros, any will do.
    for at in 0..columns {
        let power = leading(sums[at]).max(SMALLEST_NORMAL);
        scales[at] = if sums[at] == 0.0 { LEAST_POWER } else { power };
    }
    for (power_a, powers_b) in powers_a.iter().zip(powers_b.chunks_exact(columns)) {
        for at in 0..columns {
            scales[at] = scales[at].max(power_a * powers_b[at]);
        }
    }
    // Then how many units that are kept one is.
    for at in 0..columns {
        scales[at] = inverse(scales[at] * kept_power.recip());
        sums[at] = (sums[at] * scales[at]).trunc();
    }
    for (a, b) in a.iter().zip(b.chunks_exact(columns)) {
        for at in 0..columns {
            sums[at] += (a * b[at] * scales[at]).trunc();
        }
    }
    let mut are_finite = true;
    for at in 0..columns {
        are_finite &= sums[at].is_finite();
        sums[at] = sums[at] * inverse(scales[at]) + 0.0; // no sum is -0
    }
    if !are_finite {
        // With an infinity or a NaN there is nothing to cut.
        for at in 0..columns {
            let products = a.iter().zip(b.chunks_exact(columns)).map(|(a, b)| a * b[at]);
            let plain = products.fold(before[at], |sum, product| sum + product);
            if !plain.is_finite() {
                sums[at] = plain;
            }
        }
    }
}

/// The power of two of a factor's exponent, which is at least that of `least`; zero for zero.
#[inline(always)]
pub(super) fn power(value: f64, least: f64) -> f64 {
    if value == 0.0 { 0.0 } else { leading(value).max(least) }
}

/// Below this exponent an f32 is subnormal.
const SMALLEST_NORMAL: f64 = power_of_two(-126);
/// Less than any product of two subnormals, and far enough from the ends of f64 to be scaled.
const LEAST_POWER: f64 = power_of_two(-600);
/// 2 to the number of fraction bits that products keep below the largest exponent.
pub(super) const KEPT: f64 = power_of_two(25);

pub(super) const fn power_of_two(exponent: i64) -> f64 {
    f64::from_bits(((1023 + exponent) as u64) << 52)
}

/// The power of two of a value's exponent; infinite if it is not finite.
#[inline(always)]
fn leading(value: f64) -> f64 {
    f64::from_bits(value.to_bits() & f64::INFINITY.to_bits())
}

/// 1 / `power`, of a power of two.
#[inline(always)]
fn inverse(power: f64) -> f64 {
    f64::from_bits((2046_u64 << 52).wrapping_sub(power.to_bits()))
}

impl Operand {
    #[inline(always)]
    fn gather_floats(&self, registers: &[Lanes], dense: &mut [f64]) {
        match self.number {
            Scalar::F16 => self.gather::<_, 2>(registers, dense, number::f16),
            Scalar::Bf16 => self.gather::<_, 2>(registers, dense, number::bf16),
            Scalar::Tf32 => self.gather::<_, 1>(registers, dense, number::tf32),
            Scalar::E4m3 => self.gather::<_, 4>(registers, dense, number::e4m3),
            Scalar::E5m2 => self.gather::<_, 4>(registers, dense, number::e5m2),
            _ => self.gather::<_, 1>(registers, dense, number::f32),
        }
    }

    #[inline(always)]
    fn gather_integers(&self, registers: &[Lanes], dense: &mut [i32]) {
        match self.number {
            Scalar::S8 => self.gather::<_, 4>(registers, dense, number::s8),
            Scalar::U8 => self.gather::<_, 4>(registers, dense, number::u8),
            Scalar::S4 => self.gather::<_, 8>(registers, dense, number::s4),
            _ => self.gather::<_, 8>(registers, dense, number::u4),
        }
    }

    /// `decode` finds the element in the low bits of its argument; the bits above are those of the next ones.
    #[inline(always)]
    fn gather<T, const PARTS: usize>(&self, registers: &[Lanes], dense: &mut [T], decode: impl Fn(u64) -> T) {
        let places = self.indices.as_chunks::<PARTS>().0;
        for (word, places) in registers.as_flattened().iter().zip(places) {
            for (part, &place) in places.iter().enumerate() {
                dense[usize::from(place)] = decode(word >> (32 / PARTS * part));
            }
        }
    }

    #[inline(always)]
    fn scatter<T: Copy, const PARTS: usize>(&self, dense: &[T], registers: &mut [Lanes], encode: impl Fn(T) -> u64) {
        let places = self.indices.as_chunks::<PARTS>().0;
        for (word, places) in registers.as_flattened_mut().iter_mut().zip(places) {
            *word = 0;
            for (part, &place) in places.iter().enumerate() {
                *word |= encode(dense[usize::from(place)]) << (32 / PARTS * part);
            }
        }
    }
}
