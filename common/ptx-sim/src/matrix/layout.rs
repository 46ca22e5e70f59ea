//! Elements of a matrix that each lane holds, and where (see the picture in the module's head).
//!
//! `mma.m8n8k4` with f16 (PTX ISA, "Matrix Fragments for mma.m8n8k4 with .f16 floating point type") is four products,
//! each of eight lanes: product p of lanes 4p … 4p + 3 and 16 + 4p … 16 + 4p + 3. Its fragments are described as those
//! of one large operand: the four A above each other, [32, 4], and the four B, C and D side by side, [4, 32] and
//! [8, 32].

use super::modifiers::{Major, Shape};
use crate::scalar::Scalar;
use crate::trace::FragmentLayout;

/// One PTX register of a warp as raw bits: 32-bit registers are zero-extended, f64 registers take all 64.
pub(crate) type Lanes = [u64; 32];

/// One of an instruction's operands as registers.
#[derive(Clone, Debug)]
pub(super) struct Fragment {
    /// Units in a register (see `Scalar::elements_a_unit`), lowest bits first.
    pub parts: usize,
    /// PTX registers per lane, all copies counted.
    pub registers: usize,
    /// [row, column] in units by [register, lane, part]: the first copy only. Copies follow it whole.
    pub places: Vec<[u8; 2]>,
}

impl Fragment {
    fn new(registers: usize, parts: usize, place: impl Fn(usize, usize, usize) -> [usize; 2]) -> Self {
        let place = &place;
        let places = (0..registers)
            .flat_map(|register| (0..32).flat_map(move |lane| (0..parts).map(move |part| place(register, lane, part))))
            .map(|place| place.map(|coordinate| coordinate as u8))
            .collect();
        Self { parts, registers, places }
    }

    /// A, `rows` × `k` units.
    pub(super) fn multiplicand_a(rows: usize, k: usize, parts: usize) -> Self {
        let high = rows / 8;
        Self::new(high * k / (4 * parts), parts, |register, lane, part| {
            [register % high * 8 + lane / 4, (register / high * 4 + lane % 4) * parts + part]
        })
    }

    /// B, `k` units × `columns`.
    pub(super) fn multiplicand_b(k: usize, columns: usize, parts: usize) -> Self {
        let deep = k / (4 * parts);
        Self::new(deep * columns / 8, parts, |register, lane, part| {
            [(register % deep * 4 + lane % 4) * parts + part, register / deep * 8 + lane / 4]
        })
    }

    /// A or B of a wmma. f16 multiplicands always have 8 registers.
    pub(super) fn multiplicand(Shape { m, n, k }: Shape, number: Scalar, is_a: bool) -> Self {
        let parts = number.units_a_register();
        let k = k / number.elements_a_unit();
        let fragment = if is_a { Self::multiplicand_a(m, k, parts) } else { Self::multiplicand_b(k, n, parts) };
        if number == Scalar::F16 { fragment.repeated(8) } else { fragment }
    }

    /// C or D. Element i of a lane is the same one, whatever the number of elements per register.
    pub(super) fn accumulator(rows: usize, columns: usize, parts: usize) -> Self {
        let high = rows / 8;
        Self::new(rows * columns / (32 * parts), parts, |register, lane, part| {
            let element = register * parts + part;
            let block = element / 2;
            [block % high * 8 + lane / 4, block / high * 8 + lane % 4 * 2 + element % 2]
        })
    }

    /// The four A of `m8n8k4`. In A, row and k are exchanged if it is column-major.
    pub(super) fn quads_a(major: Major) -> Self {
        Self::new(2, 2, |register, lane, part| {
            let (product, half, across, along) = (lane % 16 / 4, lane / 16, lane % 4, register * 2 + part);
            match major {
                Major::Row => [product * 8 + half * 4 + across, along],
                Major::Column => [product * 8 + half * 4 + along, across],
            }
        })
    }

    /// The four B of `m8n8k4`: A's picture, transposed.
    pub(super) fn quads_b(major: Major) -> Self {
        let mut fragment = Self::quads_a(match major {
            Major::Row => Major::Column,
            Major::Column => Major::Row,
        });
        fragment.places.iter_mut().for_each(|place| place.reverse());
        fragment
    }

    /// The four C or D of `m8n8k4`. Only here the place of an element depends on the type: f16 has two per register.
    pub(super) fn quads_accumulator(parts: usize) -> Self {
        Self::new(8 / parts, parts, |register, lane, part| {
            let (product, half, element) = (lane % 16 / 4, lane / 16, register * parts + part);
            let [row, column] = match parts {
                2 => [lane % 4, element],
                _ => [lane % 2 + (element & 2), (element & 4) + (lane & 2) + element % 2],
            };
            [half * 4 + row, product * 8 + column]
        })
    }

    /// Repeats the fragment until it fills `registers`.
    pub(super) fn repeated(self, registers: usize) -> Self {
        Self { registers, ..self }
    }

    /// Place, register, lane and bits of each unit of the first copy.
    pub(super) fn elements(&self) -> impl Iterator<Item = ([u8; 2], usize, usize, u64)> {
        let parts = self.parts;
        let bits =
            move |part: usize| if parts == 1 { u64::MAX } else { ((1 << (32 / parts)) - 1) << (part * 32 / parts) };
        self.places
            .iter()
            .enumerate()
            .map(move |(at, place)| (*place, at / parts / 32, at / parts % 32, bits(at % parts)))
    }

    /// The place of a part of any copy.
    pub(super) fn place(&self, lane: usize, register: usize, part: usize) -> [u8; 2] {
        let at = (register * 32 + lane) * self.parts + part;
        self.places[at % self.places.len()]
    }

    /// The inverse of the fragment: for each place of the matrix, the lane that holds it.
    pub(super) fn layout(&self, name: &'static str, number: Scalar) -> FragmentLayout {
        let places = || self.places.iter().map(|place| place.map(usize::from));
        let extent = [0, 1].map(|axis| places().map(|place| place[axis] + 1).max().unwrap_or(0));
        let mut cells = vec![(0, 0, 0); extent[0] * extent[1]];
        for (at, [row, column]) in places().enumerate() {
            let (lane, register, part) = (at / self.parts % 32, at / self.parts / 32, at % self.parts);
            cells[row * extent[1] + column] = (lane as u8, register as u8, part as u8);
        }
        let own = self.places.len() / (32 * self.parts);
        FragmentLayout {
            name,
            extent,
            element: number.name(),
            elements_a_cell: number.elements_a_unit(),
            cells,
            copies: self.registers - own,
        }
    }
}
