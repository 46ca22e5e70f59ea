//! Copies to tensor memory, elements of less than 8 bits and block scales, by the kernels of `kernels/tcgen05.cu`: every result by an
//! independent computation.

use ptx_sim::{Asynchrony, FaultKind};

use super::tensor_memory::Param::*;
use super::tensor_memory::{Param, RUN, Run, drawn, launch, line, mistake};

/// Bytes of a row of A or B.
const ROW: usize = 32;

#[track_caller]
fn right(kernel: &str, run: &Run, params: &[Param]) -> Vec<u32> {
    launch(kernel, run, params).unwrap_or_else(|faults| panic!("{}", drawn(&faults)))
}

/// Rows of a copy, bytes of a row, and the lanes of each row.
type CopyShape = (usize, usize, fn(usize) -> Vec<usize>);

#[test]
fn copies_of_all_forms_reach_their_lanes() {
    let shapes: [CopyShape; 6] = [
        (128, 32, |row| vec![row]),
        (4, 32, |row| vec![31 + 32 * row]),
        (128, 16, |row| vec![row]),
        (64, 16, |row| vec![row, row + 64]),
        (64, 16, |row| if row < 32 { vec![row, row + 32] } else { vec![row + 32, row + 64] }),
        (32, 16, |row| (0..4).map(|quarter| row + 32 * quarter).collect()),
    ];
    for (shape, (rows, width, lanes)) in (0..).zip(shapes) {
        for swizzle in [16, 32, 64, 128] {
            for (unpacked, bits) in [(0, 8), (1, 6), (2, 4)] {
                let bytes: Vec<u8> = (0..rows * ROW).map(|at| (at * 89 + at / 32 * 7) as u8).collect();
                let mut expected: Vec<u8> =
                    (0..128u32).flat_map(|lane| std::iter::repeat_n(lane.to_le_bytes(), 8).flatten()).collect();
                for row in 0..rows {
                    for at in 0..width {
                        // The element's bits from the 16 bytes that it is in.
                        let chunk = &bytes[row * ROW + at / 16 * 16..][..16];
                        let bit = |bit: usize| u32::from(chunk[bit / 8] >> (bit % 8) & 1);
                        let element: u32 = (0..bits).map(|of| bit(at % 16 * bits + of) << of).sum();
                        for lane in lanes(row) {
                            expected[lane * 32 + at] = (element << if bits == 4 { 2 } else { 0 }) as u8;
                        }
                    }
                }
                let lane = if shape == 1 { 31 } else { 0 };
                let layout = Layout([rows as u32, swizzle, 0]);
                let params = [In(&bytes), Out(128 * 8), Int(shape), Int(unpacked), Int(lane), layout];
                let found: Vec<u8> = right("copies", &RUN, &params).into_iter().flat_map(u32::to_le_bytes).collect();
                assert_eq!(found, expected, "shape {shape}, swizzle {swizzle}, {bits} bits");
            }
        }
    }
}

/// A type of elements: its number in the instruction descriptor, and bits of its exponent and fraction.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Element {
    number: u32,
    exponent: u32,
    fraction: u32,
}

const E4M3: Element = Element { number: 0, exponent: 4, fraction: 3 };
const E5M2: Element = Element { number: 1, exponent: 5, fraction: 2 };
const E2M3: Element = Element { number: 3, exponent: 2, fraction: 3 };
const E3M2: Element = Element { number: 4, exponent: 3, fraction: 2 };
const E2M1: Element = Element { number: 5, exponent: 2, fraction: 1 };
/// The same, packed without gaps.
const PACKED: Element = Element { number: 1, exponent: 2, fraction: 1 };

impl Element {
    fn bits(self) -> usize {
        (1 + self.exponent + self.fraction) as usize
    }

    /// Elements in a row.
    fn k(self) -> usize {
        if self == PACKED { 64 } else { 32 }
    }

    /// Some code; of 8 bits, one of a number from 1 to 7.5.
    fn code(self, seed: usize, at: usize) -> u32 {
        let some = at * 2_654_435 + at / 31 * 97 + seed * 7919;
        let code = (some >> 3) as u32;
        if self.bits() < 8 {
            return code & ((1 << self.bits()) - 1);
        }
        let bias = (1 << (self.exponent - 1)) - 1;
        (code >> 8 & 1) << 7 | (bias + code % 3) << self.fraction | ((code >> 4) % (1 << self.fraction))
    }

    fn value(self, code: u32) -> f64 {
        let bias = (1 << (self.exponent - 1)) - 1;
        let fraction = f64::from(code % (1 << self.fraction)) / f64::from(1 << self.fraction);
        let exponent = code >> self.fraction & ((1 << self.exponent) - 1);
        let magnitude = match exponent {
            0 => fraction * 2f64.powi(1 - bias),
            _ => (1.0 + fraction) * 2f64.powi(exponent as i32 - bias),
        };
        if code >> (self.bits() - 1) == 1 { -magnitude } else { magnitude }
    }

    /// Rows of elements as they lie in memory, and their values.
    fn rows(self, seed: usize, rows: usize) -> (Vec<u8>, Vec<f64>) {
        let mut bytes = vec![0u8; rows * ROW];
        let codes: Vec<u32> = (0..rows * self.k()).map(|at| self.code(seed, at)).collect();
        for (at, code) in codes.iter().enumerate() {
            let (row, k) = (at / self.k(), at % self.k());
            let first = if self == PACKED { k * 4 } else { k / 16 * 128 + k % 16 * self.bits() };
            for bit in 0..self.bits() {
                bytes[row * ROW + (first + bit) / 8] |= ((code >> bit & 1) as u8) << ((first + bit) % 8);
            }
        }
        (bytes, codes.into_iter().map(|code| self.value(code)).collect())
    }
}

#[test]
fn products_of_less_than_8_bits_are_right() {
    for (a, b) in [(E2M3, E2M3), (E3M2, E2M1), (E2M1, E3M2), (E2M1, E4M3), (E5M2, E2M3)] {
        for swizzle in [16, 32, 128] {
            let ((of_a, a_values), (of_b, b_values)) = (a.rows(1, 128), b.rows(2, 40));
            let descriptor = 1 << 4 | a.number << 7 | b.number << 10 | (40 >> 3) << 17 | (128 >> 4) << 24;
            let layout = |extent| Layout([extent, swizzle, 0]);
            let params =
                [In(&of_a), In(&of_b), Out(128 * 40), Int(2), Int(descriptor), layout(128), layout(40), Int(1), Int(1)];
            let found = right("product", &Run { strict: false, ..RUN }, &params);
            for (at, word) in found.into_iter().enumerate() {
                let (row, column) = (at / 40, at % 40);
                let sum: f64 = (0..32).map(|k| a_values[row * 32 + k] * b_values[column * 32 + k]).sum();
                assert_eq!(f32::from_bits(word), sum as f32, "{a:?} by {b:?}, row {row}, column {column}");
            }
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Scaled {
    /// mxf8f6f4, mxf4, mxf4nvf4 with block32, and with block16.
    kind: u32,
    /// Scales per row.
    count: usize,
    is_ue8m0: bool,
    first: [usize; 2],
    a: Element,
    b: Element,
    columns: usize,
    in_tmem: bool,
    pair: bool,
}

impl Scaled {
    /// Scales as tcgen05.cp takes them, with NaN where there is none, and their values.
    fn scales(&self, which: usize, rows: usize) -> (Vec<u8>, Vec<f64>) {
        let mut bytes = vec![if self.is_ue8m0 { 0xff } else { 0x7f }; 1024];
        let mut values = Vec::new();
        for row in 0..rows {
            for block in 0..self.count {
                let choice = (row * 5 + block * 3 + which + row / 7) % 4;
                let (code, value) = match self.is_ue8m0 {
                    true => ([126, 127, 128, 129][choice], [0.5, 1.0, 2.0, 4.0][choice]),
                    false => ([0x30, 0x38, 0x3c, 0x41][choice], [0.5, 1.0, 1.5, 2.25][choice]),
                };
                bytes[row / 128 * 512 + row % 32 * 16 + row % 128 / 32 * 4 + self.first[which] + block] = code;
                values.push(value);
            }
        }
        (bytes, values)
    }

    fn is_right(&self, asynchrony: Asynchrony, sanitize: bool) {
        let (rows, columns, k) = (if self.pair { 256 } else { 128 }, self.columns, self.a.k());
        let ((a, of_a), (b, of_b)) = (self.a.rows(3, rows), self.b.rows(4, columns));
        let ((scales_a, by_a), (scales_b, by_b)) = (self.scales(0, rows), self.scales(1, columns));
        let descriptor = (self.first[1] as u32) << 4
            | self.a.number << 7
            | self.b.number << 10
            | (columns as u32 >> 3) << 17
            | u32::from(self.is_ue8m0) << 23
            | (rows as u32 >> 7) << 27
            | (self.first[0] as u32) << 29;
        let unpacked = if self.a == PACKED { 0 } else { [0, 0, 0, 0, 2, 0, 1, 0, 0][self.a.bits()] };
        let run = Run { cluster: self.pair.then_some(2), strict: false, sanitize, asynchrony, ..RUN };
        let operands = [In(&a), In(&b), Out(rows * columns), In(&scales_a), In(&scales_b), Int(self.kind)];
        let last = [Int(descriptor), Int(columns as u32)];
        let found = if self.pair {
            right("scaled_pair", &run, &operands.into_iter().chain(last).collect::<Vec<_>>())
        } else {
            let of_a = [Int(self.in_tmem.into()), Int(unpacked)];
            right("scaled", &run, &operands.into_iter().chain(of_a).chain(last).collect::<Vec<_>>())
        };
        for (at, word) in found.into_iter().enumerate() {
            let (row, column) = (at / columns, at % columns);
            let scaled = |of: &[f64], by: &[f64], row: usize, at: usize| {
                of[row * k + at] * by[row * self.count + at * self.count / k]
            };
            let sum: f64 = (0..k).map(|at| scaled(&of_a, &by_a, row, at) * scaled(&of_b, &by_b, column, at)).sum();
            assert_eq!(f32::from_bits(word), sum as f32, "{self:?}, row {row}, column {column}");
        }
    }
}

#[test]
fn block_scaled_products_are_right() {
    let mx8 = Scaled {
        kind: 0,
        count: 1,
        is_ue8m0: true,
        first: [0, 0],
        a: E4M3,
        b: E4M3,
        columns: 32,
        in_tmem: false,
        pair: false,
    };
    let mx4 = Scaled { kind: 1, count: 2, a: PACKED, b: PACKED, ..mx8 };
    let nv4 = Scaled { kind: 3, count: 4, is_ue8m0: false, ..mx4 };
    let mut cases = vec![mx8, mx4, nv4, Scaled { kind: 2, first: [2, 0], ..mx4 }, Scaled { is_ue8m0: true, ..nv4 }];
    for (a, b, first) in [(E2M1, E5M2, [3, 1]), (E2M3, E3M2, [1, 2]), (E3M2, E2M1, [2, 3]), (E5M2, E4M3, [0, 3])] {
        cases.push(Scaled { a, b, first, ..mx8 });
        cases.push(Scaled { a, b, first, in_tmem: true, ..mx8 });
    }
    cases.extend([8, 72, 256].map(|columns| Scaled { columns, first: [0, 2], ..mx4 }));
    for case in [mx4, nv4] {
        cases.push(Scaled { in_tmem: true, columns: 48, ..case });
    }
    for case in [mx8, mx4, nv4] {
        cases.extend([32, 208, 256].map(|columns| Scaled { pair: true, columns, ..case }));
    }
    for case in cases {
        case.is_right(Asynchrony::Late, true);
        case.is_right(Asynchrony::Early, false);
    }
}

#[test]
fn mistakes_with_scales_are_found_where_they_are_made() {
    let (a, _) = PACKED.rows(1, 128);
    let (b, _) = PACKED.rows(2, 32);
    let descriptor = PACKED.number << 7 | PACKED.number << 10 | (32 >> 3) << 17 | 1 << 27;
    let findings = |kernel: &str| -> Vec<(FaultKind, &str)> {
        let params = [In(&a), In(&b), Out(128 * 32), Int(descriptor), Int(mistake(kernel))];
        let found = launch("mistaken_scales", &RUN, &params);
        found.err().unwrap_or_default().iter().map(|fault| (fault.kind, line(fault))).collect()
    };
    let mut wrong = Vec::new();
    if let found @ [_, ..] = &findings("scales_are_right")[..] {
        wrong.push(format!("scales_are_right: {found:?}"));
    }
    for (kernel, kind) in [
        ("scales_in_one_quarter", FaultKind::UninitialisedRead),
        ("scales_of_another_thread", FaultKind::TmemInFlight),
        ("scales_read_too_early", FaultKind::TmemInFlight),
        ("scales_overwritten", FaultKind::TileInFlight),
        ("scales_unfenced", FaultKind::MissingProxyFence),
        ("scales_outside", FaultKind::OutOfBounds),
        ("scales_beyond_their_words", FaultKind::InvalidTcgen05),
        ("scales_not_copied", FaultKind::UninitialisedRead),
        ("scales_stored_late", FaultKind::TmemInFlight),
    ] {
        let found = findings(kernel);
        let line_is_right = |line: &str| line.contains(kernel) || kernel == "scales_read_too_early";
        if !found.iter().any(|(found, line)| *found == kind && line_is_right(line))
            || found.iter().any(|(other, _)| *other != kind)
        {
            wrong.push(format!("{kernel}: {found:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
