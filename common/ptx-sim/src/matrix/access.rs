//! Between memory and fragments: `wmma.load` and `wmma.store`, `ldmatrix` and `stmatrix`.

use super::layout::{Fragment, Lanes};
use super::modifiers::{Major, Modifiers, Shape, combination, wmma_shapes};
use crate::scalar::Scalar;
use crate::trace::FragmentLayout;

/// `wmma.load.{a, b, c}` or `wmma.store.d` (PTX ISA, "wmma.load", "wmma.store"): which bytes of memory each lane's
/// registers hold. A register is moved in equal *parts*, from its lowest bits up, each of them contiguous in memory.
#[derive(Clone, Debug)]
pub(crate) struct WmmaAccess {
    /// `A`, `B`, `C` or `D`.
    name: &'static str,
    number: Scalar,
    major: Major,
    /// Rows and columns, in elements.
    extent: [usize; 2],
    fragment: Fragment,
    /// Whether neighbours in a register are neighbours in memory: one part is the whole register.
    whole: bool,
}

impl WmmaAccess {
    /// `modifiers`: all after `wmma`, without the state space. The error names the unknown part.
    pub(crate) fn parse(modifiers: &[&str]) -> Result<Self, String> {
        let unknown = || combination(modifiers);
        let [direction, matrix, rest @ ..] = modifiers else { return Err(unknown()) };
        let found = Modifiers::parse(rest)?;
        let (Some(shape), &[major], &[number]) = (found.shape, &*found.majors, &*found.numbers) else {
            return Err(unknown());
        };
        if found.saturate
            || found.popc
            || found.bit_op.is_some()
            || found.rounding.is_some()
            || found.sparsity.is_some()
        {
            return Err(unknown());
        }
        let Shape { m, n, k } = shape;
        let name = match *matrix {
            "a" => "A",
            "b" => "B",
            "c" => "C",
            _ => "D",
        };
        let (extent, fragment) = match (*direction, *matrix) {
            ("load", "a" | "b") => {
                let is_a = *matrix == "a";
                // Elements that share a byte are contiguous along k.
                let along_k = is_a == (major == Major::Row);
                if !wmma_shapes(number).contains(&shape) || number.bits() < 8 && !along_k {
                    return Err(unknown());
                }
                (if is_a { [m, k] } else { [k, n] }, Fragment::multiplicand(shape, number, is_a))
            }
            ("load", "c") | ("store", "d") => {
                let multiplicands: &[Scalar] = match number {
                    Scalar::F16 => &[Scalar::F16],
                    Scalar::F32 => &[Scalar::F16, Scalar::Bf16, Scalar::Tf32],
                    Scalar::S32 => &[Scalar::S8, Scalar::S4, Scalar::B1],
                    Scalar::F64 => &[Scalar::F64],
                    _ => return Err(unknown()),
                };
                if !multiplicands.iter().any(|&number| wmma_shapes(number).contains(&shape)) {
                    return Err(unknown());
                }
                ([m, n], Fragment::accumulator(m, n, number.units_a_register()))
            }
            _ => return Err(unknown()),
        };
        let mut access = Self { name, number, major, extent, fragment, whole: false };
        access.whole = (0..access.fragment.registers * 32).all(|at| {
            let minor = |part| access.along_and_across(at % 32, at / 32, part).1;
            (1..access.fragment.parts).all(|part| minor(part) == minor(0) + part as u64)
        });
        Ok(access)
    }

    /// Lane and register of each element.
    pub(crate) fn layout(&self) -> FragmentLayout {
        self.fragment.layout(self.name, self.number)
    }

    /// PTX registers of the fragment: 64-bit ones for f64, otherwise 32-bit ones.
    pub(crate) fn registers(&self) -> usize {
        self.fragment.registers
    }

    /// Parts of a register that are moved one by one: 1, 2 or 4.
    pub(crate) fn parts(&self) -> usize {
        if self.whole { 1 } else { self.fragment.parts }
    }

    /// Bytes in a part: 1, 2, 4 or 8.
    pub(crate) fn part_bytes(&self) -> usize {
        let register_bytes = if self.number == Scalar::F64 { 8 } else { 4 };
        register_bytes / self.parts()
    }

    /// Stride if the instruction has none, in elements: the matrix is dense.
    pub(crate) fn default_stride(&self) -> u64 {
        match self.major {
            Major::Row => self.extent[1] as u64,
            Major::Column => self.extent[0] as u64,
        }
    }

    /// Start of a part, in bytes from the instruction's address. `stride` is in elements, between rows if the matrix is
    /// row-major, otherwise between columns.
    pub(crate) fn offset(&self, lane: usize, register: usize, part: usize, stride: u64) -> u64 {
        let (along, across) = self.along_and_across(lane, register, part);
        let unit = self.number.elements_a_unit() as u64;
        let elements = along.wrapping_mul(stride).wrapping_add(across * unit);
        elements.wrapping_mul(self.number.bits() as u64) / 8
    }

    /// Number of strides, and then number of units.
    fn along_and_across(&self, lane: usize, register: usize, part: usize) -> (u64, u64) {
        let [row, column] = self.fragment.place(lane, register, part).map(u64::from);
        match self.major {
            Major::Row => (row, column),
            Major::Column => (column, row),
        }
    }
}

/// `ldmatrix.m8n8.b16` after its loads (PTX ISA, "ldmatrix"): `rows` are the rows of 8 f16 each that lanes 0, 1, 2, …
/// point to, 8 for each register of `d`. A lane gets two neighbours of a row, or of a column if `transposed`.
pub(crate) fn distribute(rows: &[[u8; 16]], transposed: bool, d: &mut [Lanes]) {
    for (matrix, lanes) in rows.as_chunks::<8>().0.iter().zip(d) {
        for (lane, register) in lanes.iter_mut().enumerate() {
            let [low, high] = halves(lane, transposed)
                .map(|[row, column]| u16::from_le_bytes([matrix[row][2 * column], matrix[row][2 * column + 1]]));
            *register = u64::from(low) | u64::from(high) << 16;
        }
    }
}

/// `stmatrix.m8n8.b16` before its stores (PTX ISA, "stmatrix"): the inverse of [`distribute`].
pub(crate) fn collect(registers: &[Lanes], transposed: bool, rows: &mut [[u8; 16]]) {
    for (lanes, matrix) in registers.iter().zip(rows.as_chunks_mut::<8>().0) {
        for (lane, register) in lanes.iter().enumerate() {
            for (part, [row, column]) in halves(lane, transposed).into_iter().enumerate() {
                matrix[row][2 * column..][..2].copy_from_slice(&((register >> (16 * part)) as u16).to_le_bytes());
            }
        }
    }
}

/// `movmatrix`: an 8 × 8 matrix of 16-bit elements, transposed.
pub(crate) fn transposed(a: &Lanes) -> Lanes {
    let element = |[row, column]: [usize; 2]| a[row * 4 + column / 2] >> (column % 2 * 16) & 0xffff;
    std::array::from_fn(|lane| {
        let [low, high] = halves(lane, true).map(element);
        low | high << 16
    })
}

/// [row, column] of the low and the high half of a lane's register in its 8 × 8 matrix.
fn halves(lane: usize, transposed: bool) -> [[usize; 2]; 2] {
    [0, 1].map(|part| {
        let place = [lane / 4, lane % 4 * 2 + part];
        if transposed { [place[1], place[0]] } else { place }
    })
}
