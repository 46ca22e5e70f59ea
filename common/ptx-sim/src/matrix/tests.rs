//! Fragments are built here from the tables of the PTX ISA, written out case by case, and products are three plain
//! loops: they share nothing with the tested code. Values are small integers, so that every type is exact.

use half::{bf16, f16};

use super::layout::Fragment;
use super::{Lanes, Mma, WmmaAccess, collect, distribute};

/// Deterministic, well spread.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }

    /// A value that `ty` represents exactly. Products of 64 of them, summed, are exact in f16 too.
    fn value(&mut self, ty: &str) -> i64 {
        match ty {
            "s8" => self.below(256) as i64 - 128,
            "u8" => self.below(256) as i64,
            "s4" => self.below(16) as i64 - 8,
            "u4" => self.below(16) as i64,
            "b1" => self.below(2) as i64,
            "s32" => self.below(2_000_001) as i64 - 1_000_000,
            _ => self.below(9) as i64 - 4,
        }
    }

    fn matrix(&mut self, ty: &str, rows: usize, columns: usize) -> Matrix {
        let values = (0..rows * columns).map(|_| self.value(ty)).collect();
        Matrix { columns, values }
    }
}

#[derive(Clone, Debug, PartialEq)]
struct Matrix {
    columns: usize,
    values: Vec<i64>,
}

impl Matrix {
    fn at(&self, (row, column): (usize, usize)) -> i64 {
        assert!(column < self.columns);
        self.values[row * self.columns + column]
    }

    fn rows(&self) -> usize {
        self.values.len() / self.columns
    }
}

/// a · b + c
fn product(a: &Matrix, b: &Matrix, c: &Matrix, multiply: Multiply) -> Matrix {
    let mut d = c.clone();
    for row in 0..a.rows() {
        for column in 0..b.columns {
            for k in 0..a.columns {
                d.values[row * c.columns + column] += multiply(a.at((row, k)), b.at((k, column)));
            }
        }
    }
    d
}

fn width(ty: &str) -> usize {
    match ty {
        "b1" => 1,
        "s4" | "u4" => 4,
        "s8" | "u8" | "e4m3" | "e5m2" => 8,
        "f16" | "bf16" => 16,
        "f64" => 64,
        _ => 32,
    }
}

fn encode(ty: &str, value: i64) -> u64 {
    let float = value as f64;
    match ty {
        "f16" => f16::from_f64(float).to_bits().into(),
        "bf16" => bf16::from_f64(float).to_bits().into(),
        "f32" => (value as f32).to_bits().into(),
        // What is below a tf32's significand must not matter.
        "tf32" => u64::from((value as f32).to_bits()) | 0x1abc,
        "f64" => float.to_bits(),
        "e5m2" => u64::from(f16::from_f64(float).to_bits() >> 8),
        "e4m3" => [0, 0x38, 0x40, 0x44, 0x48][value.unsigned_abs() as usize] | if value < 0 { 0x80 } else { 0 },
        _ => value as u64 & (u64::MAX >> (64 - width(ty))),
    }
}

fn decode(ty: &str, bits: u64) -> i64 {
    let float = match ty {
        "f16" => f16::from_bits(bits as u16).to_f64(),
        "f32" => f32::from_bits(bits as u32).into(),
        "f64" => f64::from_bits(bits),
        "s32" => return (bits as i32).into(),
        _ => unreachable!("{ty} is no accumulator"),
    };
    assert_eq!(float, float.trunc());
    float as i64
}

/// (row, column) of element i of a lane.
type Table = fn(usize, usize) -> (usize, usize);

/// A product of two elements.
type Multiply = fn(i64, i64) -> i64;

/// The registers of a fragment with `elements` per lane.
fn fragment(ty: &str, elements: usize, table: impl Fn(usize, usize) -> (usize, usize), matrix: &Matrix) -> Vec<Lanes> {
    pack(ty, elements, |lane, i| encode(ty, matrix.at(table(lane, i))))
}

/// Registers of element i of each lane, lowest bits first.
fn pack(ty: &str, elements: usize, bits: impl Fn(usize, usize) -> u64) -> Vec<Lanes> {
    let a_register = (32 / width(ty)).max(1);
    let word = |register, lane| {
        (0..a_register).map(|part| bits(lane, register * a_register + part) << (part * width(ty) % 64)).sum()
    };
    (0..elements / a_register).map(|register| std::array::from_fn(|lane| word(register, lane))).collect()
}

/// `mma.m….row.col` with these types and the tables of the PTX ISA, "Matrix Fragments for mma.…": elements per lane and
/// places.
struct Case {
    shape: &'static str,
    /// Each a, b and their accumulators.
    types: &'static [[&'static str; 3]],
    a: (usize, Table),
    b: (usize, Table),
    c: (usize, Table),
}

const C_8X8: (usize, Table) = (2, |lane, i| (lane >> 2, (lane % 4) * 2 + i));
const C_16X8: (usize, Table) =
    (4, |lane, i| (if i < 2 { lane >> 2 } else { (lane >> 2) + 8 }, (lane % 4) * 2 + (i & 1)));
const S8: &[[&str; 3]] = &[["s8", "s8", "s32"], ["s8", "u8", "s32"], ["u8", "s8", "s32"], ["u8", "u8", "s32"]];
const S4: &[[&str; 3]] = &[["s4", "s4", "s32"], ["s4", "u4", "s32"], ["u4", "s4", "s32"], ["u4", "u4", "s32"]];
const F16: &[[&str; 3]] = &[["f16", "f16", "f16"], ["f16", "f16", "f32"], ["bf16", "bf16", "f32"]];
const F8: &[[&str; 3]] =
    &[["e4m3", "e4m3", "f32"], ["e4m3", "e5m2", "f32"], ["e5m2", "e4m3", "f16"], ["e5m2", "e5m2", "f16"]];

const CASES: &[Case] = &[
    Case {
        shape: "m16n8k8",
        types: F16,
        a: (4, |lane, i| (if i < 2 { lane >> 2 } else { (lane >> 2) + 8 }, (lane % 4) * 2 + (i & 1))),
        b: (2, |lane, i| ((lane % 4) * 2 + i, lane >> 2)),
        c: C_16X8,
    },
    Case {
        shape: "m16n8k16",
        types: F16,
        a: (8, |lane, i| {
            let row = if i < 2 || (4..6).contains(&i) { lane >> 2 } else { (lane >> 2) + 8 };
            (row, (lane % 4) * 2 + (i & 1) + if i < 4 { 0 } else { 8 })
        }),
        b: (4, |lane, i| ((lane % 4) * 2 + (i & 1) + if i < 2 { 0 } else { 8 }, lane >> 2)),
        c: C_16X8,
    },
    Case {
        shape: "m16n8k4",
        types: &[["tf32", "tf32", "f32"], ["f64", "f64", "f64"]],
        a: (2, |lane, i| (if i == 0 { lane >> 2 } else { (lane >> 2) + 8 }, lane % 4)),
        b: (1, |lane, _| (lane % 4, lane >> 2)),
        c: C_16X8,
    },
    Case {
        shape: "m16n8k8",
        types: &[["tf32", "tf32", "f32"], ["f64", "f64", "f64"]],
        a: (4, |lane, i| {
            let row = if i == 0 || i == 2 { lane >> 2 } else { (lane >> 2) + 8 };
            (row, if i < 2 { lane % 4 } else { lane % 4 + 4 })
        }),
        b: (2, |lane, i| (if i == 0 { lane % 4 } else { lane % 4 + 4 }, lane >> 2)),
        c: C_16X8,
    },
    Case {
        shape: "m8n8k4",
        types: &[["f64", "f64", "f64"]],
        a: (1, |lane, _| (lane >> 2, lane % 4)),
        b: (1, |lane, _| (lane % 4, lane >> 2)),
        c: C_8X8,
    },
    Case {
        shape: "m16n8k16",
        types: &[["f64", "f64", "f64"]],
        a: (8, |lane, i| {
            let even = i % 2 == 0;
            (if even { lane >> 2 } else { (lane >> 2) + 8 }, if even { i * 2 } else { i * 2 - 2 } + lane % 4)
        }),
        b: (4, |lane, i| (lane % 4 + i * 4, lane >> 2)),
        c: C_16X8,
    },
    Case {
        shape: "m8n8k16",
        types: S8,
        a: (4, |lane, i| (lane >> 2, (lane % 4) * 4 + i)),
        b: (4, |lane, i| ((lane % 4) * 4 + i, lane >> 2)),
        c: C_8X8,
    },
    Case {
        shape: "m16n8k16",
        types: S8,
        a: (8, |lane, i| (if i < 4 { lane >> 2 } else { (lane >> 2) + 8 }, (lane % 4) * 4 + (i & 3))),
        b: (4, |lane, i| ((lane % 4) * 4 + i, lane >> 2)),
        c: C_16X8,
    },
    Case {
        shape: "m16n8k16",
        types: F8,
        a: (8, |lane, i| (if i < 4 { lane >> 2 } else { (lane >> 2) + 8 }, (lane % 4) * 4 + (i & 3))),
        b: (4, |lane, i| ((lane % 4) * 4 + i, lane >> 2)),
        c: C_16X8,
    },
    Case { shape: "m16n8k32", types: S8, a: A_16X32_BYTES, b: B_32X8_BYTES, c: C_16X8 },
    Case { shape: "m16n8k32", types: F8, a: A_16X32_BYTES, b: B_32X8_BYTES, c: C_16X8 },
    Case {
        shape: "m8n8k32",
        types: S4,
        a: (8, |lane, i| (lane >> 2, (lane % 4) * 8 + i)),
        b: (8, |lane, i| ((lane % 4) * 8 + i, lane >> 2)),
        c: C_8X8,
    },
    Case {
        shape: "m16n8k32",
        types: S4,
        a: (16, |lane, i| (if i < 8 { lane >> 2 } else { (lane >> 2) + 8 }, (lane % 4) * 8 + (i & 7))),
        b: (8, |lane, i| ((lane % 4) * 8 + i, lane >> 2)),
        c: C_16X8,
    },
    Case {
        shape: "m16n8k64",
        types: S4,
        a: (32, |lane, i| {
            let row = if i < 8 || (16..24).contains(&i) { lane >> 2 } else { (lane >> 2) + 8 };
            (row, (lane % 4) * 8 + (i & 7) + if i < 16 { 0 } else { 32 })
        }),
        b: (16, |lane, i| ((lane % 4) * 8 + (i & 7) + if i < 8 { 0 } else { 32 }, lane >> 2)),
        c: C_16X8,
    },
    Case {
        shape: "m8n8k128",
        types: &[["b1", "b1", "s32"]],
        a: (32, |lane, i| (lane >> 2, (lane % 4) * 32 + i)),
        b: (32, |lane, i| ((lane % 4) * 32 + i, lane >> 2)),
        c: C_8X8,
    },
    Case {
        shape: "m16n8k128",
        types: &[["b1", "b1", "s32"]],
        a: (64, |lane, i| (if i < 32 { lane >> 2 } else { (lane >> 2) + 8 }, (lane % 4) * 32 + (i & 31))),
        b: (32, |lane, i| ((lane % 4) * 32 + i, lane >> 2)),
        c: C_16X8,
    },
    Case {
        shape: "m16n8k256",
        types: &[["b1", "b1", "s32"]],
        a: (128, |lane, i| {
            let row = if i < 32 || (64..96).contains(&i) { lane >> 2 } else { (lane >> 2) + 8 };
            (row, (lane % 4) * 32 + (i & 31) + if i < 64 { 0 } else { 128 })
        }),
        b: (64, |lane, i| ((lane % 4) * 32 + (i & 31) + if i < 32 { 0 } else { 128 }, lane >> 2)),
        c: C_16X8,
    },
];

const A_16X32_BYTES: (usize, Table) = (16, |lane, i| {
    let row = if i < 4 || (8..12).contains(&i) { lane >> 2 } else { (lane >> 2) + 8 };
    (row, (lane % 4) * 4 + (i & 3) + if i < 8 { 0 } else { 16 })
});
const B_32X8_BYTES: (usize, Table) = (8, |lane, i| ((lane % 4) * 4 + (i & 3) + if i < 4 { 0 } else { 16 }, lane >> 2));

fn extents(shape: &str) -> [usize; 3] {
    let numbers: Vec<usize> = shape.split(['m', 'n', 'k']).filter_map(|number| number.parse().ok()).collect();
    numbers.try_into().expect("three extents")
}

fn mma(text: &str) -> Mma {
    Mma::parse_mma(&text.split('.').collect::<Vec<_>>(), 0).unwrap_or_else(|unknown| panic!("{text}: {unknown}"))
}

fn wmma(text: &str) -> Mma {
    Mma::parse_wmma(&text.split('.').collect::<Vec<_>>()).unwrap_or_else(|unknown| panic!("{text}: {unknown}"))
}

fn access(text: &str) -> WmmaAccess {
    WmmaAccess::parse(&text.split('.').collect::<Vec<_>>()).unwrap_or_else(|unknown| panic!("{text}: {unknown}"))
}

/// D's registers; the number of registers of each operand is checked.
fn execute(mma: &Mma, a: &[Lanes], b: &[Lanes], c: &[Lanes]) -> Vec<Lanes> {
    // What was in D must not matter.
    let mut d = vec![[0xdead_beef; 32]; mma.registers()[0]];
    assert_eq!(mma.registers()[1..], [a.len(), b.len(), c.len()]);
    mma.execute((a, None), b, c, &mut d).expect("only metadata can be invalid");
    d
}

#[test]
fn mma_agrees_with_the_tables_of_the_isa() {
    let mut random = Random(1);
    for case in CASES {
        let [m, n, k] = extents(case.shape);
        for [a_type, b_type, c_type] in case.types {
            let (a, b) = (random.matrix(a_type, m, k), random.matrix(b_type, k, n));
            let c = random.matrix(c_type, m, n);
            let (a_registers, b_registers) =
                (fragment(a_type, case.a.0, case.a.1, &a), fragment(b_type, case.b.0, case.b.1, &b));
            let c_registers = fragment(c_type, case.c.0, case.c.1, &c);
            let plain = format!("sync.aligned.{}.row.col.{c_type}.{a_type}.{b_type}.{c_type}", case.shape);
            let forms: Vec<(String, Multiply)> = match *a_type {
                "b1" => vec![(plain.clone() + ".xor.popc", |a, b| a ^ b), (plain.clone() + ".and.popc", |a, b| a & b)],
                "s8" | "u8" | "s4" | "u4" => {
                    vec![(plain.clone(), |a, b| a * b), (plain.replace(".col.", ".col.satfinite."), |a, b| a * b)]
                }
                _ => vec![(plain, |a, b| a * b)],
            };
            for (text, multiply) in forms {
                let d = execute(&mma(&text), &a_registers, &b_registers, &c_registers);
                let expected = product(&a, &b, &c, multiply);
                assert_eq!(d, fragment(c_type, case.c.0, case.c.1, &expected), "{text}");
            }
        }
    }
}

/// Lanes 4p … 4p + 3 and 16 + 4p … 16 + 4p + 3 of product p, as the eight lanes of one product: 0 … 3 and 16 … 19.
fn quad_pair(registers: &[Lanes], p: usize) -> Vec<Lanes> {
    let mut found = vec![[0; 32]; registers.len()];
    for (found, lanes) in found.iter_mut().zip(registers) {
        for lane in [0, 1, 2, 3, 16, 17, 18, 19] {
            found[lane] = lanes[lane + 4 * p];
        }
    }
    found
}

#[test]
fn mma_m8n8k4_is_four_products_in_every_layout() {
    let half = |lane: usize| if lane < 16 { 0 } else { 4 };
    let accumulator = |ty: &str| -> Table {
        match ty {
            "f16" => |lane, i| (lane % 4 + if lane < 16 { 0 } else { 4 }, i),
            _ => |lane, i| ((lane & 1) + (i & 2) + if lane < 16 { 0 } else { 4 }, (i & 4) + (lane & 2) + (i & 1)),
        }
    };
    let mut random = Random(2);
    for (a_major, b_major) in [("row", "row"), ("row", "col"), ("col", "row"), ("col", "col")] {
        for (d_type, c_type) in [("f16", "f16"), ("f32", "f16"), ("f32", "f32")] {
            let instruction = mma(&format!("sync.aligned.m8n8k4.{a_major}.{b_major}.{d_type}.f16.f16.{c_type}"));
            let along_a = |lane: usize, i: usize| match a_major {
                "row" => (lane % 4 + half(lane), i),
                _ => (i + half(lane), lane % 4),
            };
            let along_b = |lane: usize, i: usize| match b_major {
                "row" => (lane % 4, i + half(lane)),
                _ => (i, lane % 4 + half(lane)),
            };
            // Each product has operands of its own; its fragment sits in lanes 0 … 3 and 16 … 19 before it is moved.
            let mut operands: [Vec<Lanes>; 3] =
                [vec![[0; 32]; 2], vec![[0; 32]; 2], vec![[0; 32]; if c_type == "f16" { 4 } else { 8 }]];
            let mut expected = Vec::new();
            for p in 0..4 {
                let (a, b) = (random.matrix("f16", 8, 4), random.matrix("f16", 4, 8));
                let c = random.matrix(c_type, 8, 8);
                let fragments = [
                    fragment("f16", 4, along_a, &a),
                    fragment("f16", 4, along_b, &b),
                    fragment(c_type, 8, accumulator(c_type), &c),
                ];
                for (operand, fragment) in operands.iter_mut().zip(fragments) {
                    for (operand, fragment) in operand.iter_mut().zip(fragment) {
                        for lane in [0, 1, 2, 3, 16, 17, 18, 19] {
                            operand[lane + 4 * p] = fragment[lane];
                        }
                    }
                }
                let d = product(&a, &b, &c, |a, b| a * b);
                expected.push(quad_pair(&fragment(d_type, 8, accumulator(d_type), &d), 0));
            }
            let d = execute(&instruction, &operands[0], &operands[1], &operands[2]);
            for (p, expected) in expected.iter().enumerate() {
                assert_eq!(&quad_pair(&d, p), expected, "{a_major}.{b_major} {d_type} {c_type}, product {p}");
            }
        }
    }
}

/// A matrix in memory, and its use by `wmma.load` and `wmma.store`.
struct Memory {
    bytes: Vec<u8>,
    written: Vec<u32>,
    stride: usize,
    column_major: bool,
    width: usize,
}

impl Memory {
    fn new(ty: &str, major: &str, rows: usize, columns: usize) -> Self {
        let column_major = major == "col";
        let (lines, line) = if column_major { (columns, rows) } else { (rows, columns) };
        // Wider than dense, as in a larger matrix; a line of bits is a whole number of words.
        let stride = line + 128 / width(ty);
        let bytes = lines * stride * width(ty) / 8;
        Self { bytes: vec![0xee; bytes], written: vec![0; bytes], stride, column_major, width: width(ty) }
    }

    fn bit(&self, row: usize, column: usize) -> usize {
        let (line, at) = if self.column_major { (column, row) } else { (row, column) };
        (line * self.stride + at) * self.width
    }

    fn put(&mut self, ty: &str, matrix: &Matrix) {
        for row in 0..matrix.rows() {
            for column in 0..matrix.columns {
                let (bits, at) = (encode(ty, matrix.at((row, column))), self.bit(row, column));
                for bit in 0..self.width {
                    let byte = &mut self.bytes[(at + bit) / 8];
                    let mask = 1 << ((at + bit) % 8);
                    *byte = if bits >> bit & 1 == 1 { *byte | mask } else { *byte & !mask };
                }
            }
        }
    }

    fn get(&self, ty: &str, rows: usize, columns: usize) -> Matrix {
        let value = |row, column| {
            let at = self.bit(row, column) / 8;
            let mut bytes = [0; 8];
            bytes[..self.width / 8].copy_from_slice(&self.bytes[at..at + self.width / 8]);
            decode(ty, u64::from_le_bytes(bytes))
        };
        let values = (0..rows * columns).map(|at| value(at / columns, at % columns)).collect();
        Matrix { columns, values }
    }

    fn load(&self, access: &WmmaAccess) -> Vec<Lanes> {
        let mut registers = vec![[0; 32]; access.registers()];
        for (register, lanes) in registers.iter_mut().enumerate() {
            for (lane, word) in lanes.iter_mut().enumerate() {
                for part in 0..access.parts() {
                    let (at, length) =
                        (access.offset(lane, register, part, self.stride as u64) as usize, access.part_bytes());
                    let mut bytes = [0; 8];
                    bytes[..length].copy_from_slice(&self.bytes[at..at + length]);
                    *word |= u64::from_le_bytes(bytes) << (8 * length * part % 64);
                }
            }
        }
        registers
    }

    fn store(&mut self, access: &WmmaAccess, registers: &[Lanes]) {
        assert_eq!(access.registers(), registers.len());
        for (register, lanes) in registers.iter().enumerate() {
            for (lane, word) in lanes.iter().enumerate() {
                for part in 0..access.parts() {
                    let (at, length) =
                        (access.offset(lane, register, part, self.stride as u64) as usize, access.part_bytes());
                    let bytes = (word >> (8 * length * part % 64)).to_le_bytes();
                    self.bytes[at..at + length].copy_from_slice(&bytes[..length]);
                    self.written[at..at + length].iter_mut().for_each(|count| *count += 1);
                }
            }
        }
    }
}

/// Shapes, a and b's type, [registers of d, a, b, c], the types of d and c.
type WmmaCase = (&'static str, &'static str, [usize; 4], [&'static str; 2]);

const WMMA: &[WmmaCase] = &[
    ("m16n16k16", "f16", [8, 8, 8, 8], ["f32", "f32"]),
    ("m16n16k16", "f16", [4, 8, 8, 4], ["f16", "f16"]),
    ("m16n16k16", "f16", [4, 8, 8, 8], ["f16", "f32"]),
    ("m16n16k16", "f16", [8, 8, 8, 4], ["f32", "f16"]),
    ("m8n32k16", "f16", [8, 8, 8, 4], ["f32", "f16"]),
    ("m32n8k16", "f16", [4, 8, 8, 8], ["f16", "f32"]),
    ("m16n16k16", "bf16", [8, 4, 4, 8], ["f32", "f32"]),
    ("m8n32k16", "bf16", [8, 2, 8, 8], ["f32", "f32"]),
    ("m32n8k16", "bf16", [8, 8, 2, 8], ["f32", "f32"]),
    ("m16n16k8", "tf32", [8, 4, 4, 8], ["f32", "f32"]),
    ("m8n8k4", "f64", [2, 1, 1, 2], ["f64", "f64"]),
    ("m16n16k16", "s8", [8, 2, 2, 8], ["s32", "s32"]),
    ("m8n32k16", "u8", [8, 1, 4, 8], ["s32", "s32"]),
    ("m32n8k16", "s8", [8, 4, 1, 8], ["s32", "s32"]),
    ("m8n8k32", "s4", [2, 1, 1, 2], ["s32", "s32"]),
    ("m8n8k32", "u4", [2, 1, 1, 2], ["s32", "s32"]),
    ("m8n8k128", "b1", [2, 1, 1, 2], ["s32", "s32"]),
];

#[test]
fn wmma_loads_multiplies_and_stores_in_every_layout() {
    let mut random = Random(3);
    let both: &[&str] = &["row", "col"];
    for &(shape, ty, registers, [d_type, c_type]) in WMMA {
        let [m, n, k] = extents(shape);
        let (a_majors, b_majors): (&[&str], &[&str]) = if width(ty) < 8 { (&["row"], &["col"]) } else { (both, both) };
        for a_major in a_majors {
            for b_major in b_majors {
                for (c_major, d_major) in [("row", "col"), ("col", "row"), ("row", "row"), ("col", "col")] {
                    let (a, b) = (random.matrix(ty, m, k), random.matrix(ty, k, n));
                    let c = random.matrix(c_type, m, n);
                    let (mut a_memory, mut b_memory) = (Memory::new(ty, a_major, m, k), Memory::new(ty, b_major, k, n));
                    let mut c_memory = Memory::new(c_type, c_major, m, n);
                    a_memory.put(ty, &a);
                    b_memory.put(ty, &b);
                    c_memory.put(c_type, &c);
                    let instruction = wmma(&match ty {
                        "f16" => format!("sync.aligned.{a_major}.{b_major}.{shape}.{d_type}.{c_type}"),
                        "b1" => format!("mma.and.popc.sync.aligned.row.col.{shape}.s32.b1.b1.s32"),
                        _ => format!("mma.sync.aligned.{a_major}.{b_major}.{shape}.{d_type}.{ty}.{ty}.{c_type}"),
                    });
                    assert_eq!(instruction.registers(), registers, "{shape} {ty}");
                    let d = execute(
                        &instruction,
                        &a_memory.load(&access(&format!("load.a.sync.aligned.{a_major}.{shape}.{ty}"))),
                        &b_memory.load(&access(&format!("load.b.sync.aligned.{b_major}.{shape}.{ty}"))),
                        &c_memory.load(&access(&format!("load.c.sync.aligned.{c_major}.{shape}.{c_type}"))),
                    );
                    let mut d_memory = Memory::new(d_type, d_major, m, n);
                    d_memory.store(&access(&format!("store.d.sync.aligned.{d_major}.{shape}.{d_type}")), &d);
                    assert_eq!(
                        d_memory.get(d_type, m, n),
                        product(&a, &b, &c, |a, b| a * b),
                        "{shape} {ty} {a_major} {b_major} {c_major} {d_major}"
                    );
                    // Each element once, and none of the bytes between the lines.
                    assert_eq!(d_memory.written.iter().sum::<u32>() as usize, m * n * width(d_type) / 8);
                    assert!(d_memory.written.iter().all(|&count| count <= 1));
                }
            }
        }
    }
}

#[test]
fn wmma_elements_of_both_copies_are_of_the_matrix() {
    // What `for (x : a.x) x *= 2` relies on: scaling each part of each register scales the matrix.
    let mut random = Random(4);
    for shape in ["m16n16k16", "m8n32k16", "m32n8k16"] {
        let [m, n, k] = extents(shape);
        for (matrix, rows, columns) in [("a", m, k), ("b", k, n)] {
            for major in ["row", "col"] {
                let access = access(&format!("load.{matrix}.sync.aligned.{major}.{shape}.f16"));
                let values = random.matrix("f16", rows, columns);
                let doubled =
                    Matrix { values: values.values.iter().map(|value| 2 * value).collect(), ..values.clone() };
                let (mut memory, mut other) =
                    (Memory::new("f16", major, rows, columns), Memory::new("f16", major, rows, columns));
                memory.put("f16", &values);
                other.put("f16", &doubled);
                let twice =
                    |half: u64| u64::from((f16::from_bits(half as u16) + f16::from_bits(half as u16)).to_bits());
                let scaled: Vec<Lanes> = memory
                    .load(&access)
                    .iter()
                    .map(|lanes| lanes.map(|word| twice(word) | twice(word >> 16) << 16))
                    .collect();
                assert_eq!(scaled, other.load(&access), "{shape} {matrix} {major}");
                assert_eq!(scaled.len(), 8);
            }
        }
    }
}

#[test]
fn wmma_m16n16k16_lies_as_on_sm_80() {
    // Element x of a lane, as measured on hardware by others: A, B (each twice) and the accumulators.
    let element = |registers: &[Lanes], lane: usize, x: usize| (registers[x / 2][lane] >> (16 * (x % 2))) as u16;
    let numbered = Matrix { columns: 16, values: (0..256).collect() };
    let mut memory = Memory::new("f16", "row", 16, 16);
    memory.put("f16", &numbered);
    let load = |matrix| memory.load(&access(&format!("load.{matrix}.sync.aligned.row.m16n16k16.f16")));
    let (a, b, c) = (load("a"), load("b"), load("c"));
    for i in 0..16 {
        for j in 0..16 {
            let value = encode("f16", (i * 16 + j) as i64) as u16;
            let (lane, x) = (i % 8 * 4 + j % 8 / 2, j % 2 + i / 8 * 2 + j / 8 * 4);
            assert_eq!([element(&a, lane, x), element(&a, lane, x + 8)], [value; 2]);
            assert_eq!(element(&c, lane, x), value);
            let (lane, x) = (j % 8 * 4 + i % 8 / 2, i % 2 + i / 8 * 2 + j / 8 * 4);
            assert_eq!([element(&b, lane, x), element(&b, lane, x + 8)], [value; 2]);
        }
    }
}

#[test]
fn accumulators_of_two_types_have_equal_elements_at_equal_indices() {
    for [rows, columns] in [[16, 16], [8, 32], [32, 8]] {
        let (single, pairs) = (Fragment::accumulator(rows, columns, 1), Fragment::accumulator(rows, columns, 2));
        for lane in 0..32 {
            for x in 0..8 {
                assert_eq!(single.place(lane, x, 0), pairs.place(lane, x / 2, x % 2));
            }
        }
    }
}

#[test]
fn wmma_access_moves_a_register_whole_where_memory_allows() {
    for (text, parts, part_bytes, stride) in [
        ("load.a.sync.aligned.row.m8n32k16.f16", 1, 4, 16),
        ("load.a.sync.aligned.col.m8n32k16.f16", 2, 2, 8),
        ("load.b.sync.aligned.col.m8n32k16.s8", 1, 4, 16),
        ("load.b.sync.aligned.row.m8n32k16.s8", 4, 1, 32),
        ("load.a.sync.aligned.m8n8k32.row.u4", 1, 4, 32),
        ("load.b.sync.aligned.col.m8n8k128.b1", 1, 4, 128),
        ("load.c.sync.aligned.row.m16n16k8.f32", 1, 4, 16),
        ("store.d.sync.aligned.row.m32n8k16.f16", 1, 4, 8),
        ("store.d.sync.aligned.col.m32n8k16.f16", 2, 2, 32),
        ("load.a.sync.aligned.col.m8n8k4.f64", 1, 8, 8),
    ] {
        let access = access(text);
        assert_eq!(
            (access.parts(), access.part_bytes(), access.default_stride()),
            (parts, part_bytes, stride),
            "{text}"
        );
    }
}

#[test]
fn ldmatrix_gives_the_fragments_of_mma() {
    let mut random = Random(5);
    let (a, b) = (random.matrix("f16", 16, 16), random.matrix("f16", 16, 8));
    // The 8 × 8 matrices that begin at these rows and columns, row by row.
    let rows = |matrix: &Matrix, starts: &[(usize, usize)]| -> Vec<[u8; 16]> {
        let row = |row: usize, column: usize| {
            let mut bytes = [0; 16];
            for (at, bytes) in bytes.chunks_exact_mut(2).enumerate() {
                bytes.copy_from_slice(&(encode("f16", matrix.at((row, column + at))) as u16).to_le_bytes());
            }
            bytes
        };
        starts
            .iter()
            .flat_map(|&(top, left)| (0..8).map(move |down| (top + down, left)))
            .map(|(r, c)| row(r, c))
            .collect()
    };
    let case = CASES.iter().find(|case| case.shape == "m16n8k16").expect("f16 comes first");
    let a_rows = rows(&a, &[(0, 0), (8, 0), (0, 8), (8, 8)]);
    let mut found = [[0; 32]; 4];
    distribute(&a_rows, false, &mut found);
    assert_eq!(found.to_vec(), fragment("f16", 8, case.a.1, &a));
    let b_rows = rows(&b, &[(0, 0), (8, 0)]);
    let mut found = [[0; 32]; 2];
    distribute(&b_rows, true, &mut found);
    assert_eq!(found.to_vec(), fragment("f16", 4, case.b.1, &b));
    for transposed in [false, true] {
        let mut registers = [[0; 32]; 4];
        distribute(&a_rows, transposed, &mut registers);
        let mut back = vec![[0; 16]; 32];
        collect(&registers, transposed, &mut back);
        assert_eq!(back, a_rows);
    }
}

/// Element (0, 0) of D, where A's first row is `a`, B's first column is `b`, and C is `c` throughout.
fn dot(text: &str, (shape, ty): (&str, &str), a: &[u64], b: &[u64], c: u64) -> u64 {
    let case = CASES.iter().find(|case| case.shape == shape && case.types.iter().any(|types| types[0] == ty));
    let case = case.expect("a case with a table");
    let first = |values: &[u64], along: usize, across: usize| {
        if across == 0 { values.get(along).copied().unwrap_or(0) } else { 0 }
    };
    let a = pack(ty, case.a.0, |lane, i| {
        let (row, k) = case.a.1(lane, i);
        first(a, k, row)
    });
    let b = pack(ty, case.b.0, |lane, i| {
        let (k, column) = case.b.1(lane, i);
        first(b, k, column)
    });
    let instruction = mma(text);
    let c = vec![[c; 32]; instruction.registers()[3]];
    execute(&instruction, &a, &b, &c)[0][0]
}

#[test]
fn integer_sums_wrap_or_saturate() {
    let plain = "sync.aligned.m8n8k16.row.col.s32.s8.s8.s32";
    let clamped = "sync.aligned.m8n8k16.row.col.satfinite.s32.s8.s8.s32";
    let case = ("m8n8k16", "s8");
    let (one, minus_one, top) = ([1], [0xff], i32::MAX as u32);
    assert_eq!(dot(plain, case, &one, &one, top.into()), 0x8000_0000);
    assert_eq!(dot(clamped, case, &one, &one, top.into()), 0x7fff_ffff);
    assert_eq!(dot(plain, case, &one, &minus_one, 0x8000_0000), 0x7fff_ffff);
    assert_eq!(dot(clamped, case, &one, &minus_one, 0x8000_0000), 0x8000_0000);
    // Only the whole sum counts: 127 · 127 - 127 · 128 + MAX is in range though the first term leads out of it.
    assert_eq!(dot(clamped, case, &[127, 127], &[127, 0x80], top.into()), u64::from(top - 127));
}

#[test]
fn float_sums_are_made_as_an_h200_makes_them() {
    let f16_case = ("m16n8k16", "f16");
    let single = "sync.aligned.m16n8k16.row.col.f32.f16.f16.f32";
    let half = "sync.aligned.m16n8k16.row.col.f16.f16.f16.f16";
    let bits = |value: f64| u64::from(f16::from_f64(value).to_bits());
    let (one, tiny) = (bits(1.0), bits(2f64.powi(-14)));
    // 1 + x · 2⁻¹⁴ - 1: what lies more than 25 bits below the largest term is lost, and an f32 sum would lose more.
    let with = |x: f64| {
        let sum = dot(single, f16_case, &[one, bits(x)], &[one, tiny], (-1f32).to_bits().into());
        f32::from_bits(sum as u32)
    };
    assert_eq!(with(2f64.powi(-11)), 2f32.powi(-25));
    assert_eq!(with(1.5 * 2f64.powi(-11)), 2f32.powi(-25));
    assert_eq!(with(2f64.powi(-12)), 0.0);
    assert_eq!(with(-1.5 * 2f64.powi(-12)).to_bits(), 0);
    // The sum is cut and not rounded: 1 + 1.5 · 2⁻²⁴, and -1 - 1.5 · 2⁻²⁴.
    for start in [1f32, -1.0] {
        let small = bits(f64::from(start) * 1.5 * 2f64.powi(-10));
        let sum = dot(single, f16_case, &[small], &[tiny], start.to_bits().into());
        assert_eq!(f32::from_bits(sum as u32), start);
    }
    // No sum is -0.
    assert_eq!(dot(single, f16_case, &[bits(-0.0)], &[one], (-0f32).to_bits().into()), 0);
    // 2048 + 1 is halfway between two halves, and what is added last lifts it over the middle, unless it is cut off.
    for (last, expected) in [(one, 2050.0), (bits(0.5), 2048.0)] {
        let sum = dot(half, f16_case, &[bits(2048.0), one, tiny], &[one, one, last], 0);
        assert_eq!(sum & 0xffff, bits(expected));
    }
    // Past the largest half, and of infinities of both signs.
    let big = bits(60000.0);
    assert_eq!(dot(half, f16_case, &[big, big], &[one, one], 0) & 0xffff, 0x7c00);
    assert_eq!(dot(single, f16_case, &[0x7c00, 0xfc00], &[one, one], 0), 0x7fff_ffff);
    assert_eq!(dot(half, f16_case, &[0x7c00, 0xfc00], &[one, one], 0) & 0xffff, 0x7fff);
    // Subnormal halves count.
    assert_eq!(dot(half, f16_case, &[3], &[one], 0) & 0xffff, 3);
    // bf16 reaches as far as f32; f16's tables serve it.
    let wide = "sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32";
    assert_eq!(dot(wide, f16_case, &[0x3f80], &[0x7f7f], 0), 0x7f7f_0000);
    assert_eq!(dot(wide, f16_case, &[0x4000], &[0x7f7f], 0), 0x7f80_0000);
}

#[test]
fn fp8_decodes_as_specified() {
    let text = |ty| format!("sync.aligned.m16n8k32.row.col.f32.{ty}.{ty}.f32");
    let value = |ty, bits: u64| {
        let one = encode(ty, 1);
        f32::from_bits(dot(&text(ty), ("m16n8k32", "e4m3"), &[bits], &[one], 0) as u32)
    };
    for bits in 0..=255_u64 {
        let sign = if bits & 0x80 == 0 { 1.0 } else { -1.0 };
        let (exponent, fraction) = ((bits >> 3 & 15) as i32, (bits & 7) as f32);
        let expected = match (exponent, bits & 7) {
            (15, 7) => f32::NAN,
            (0, _) => sign * fraction / 8.0 * 2f32.powi(-6),
            _ => sign * (1.0 + fraction / 8.0) * 2f32.powi(exponent - 7),
        };
        let found = value("e4m3", bits);
        assert!(found == expected || found.is_nan() && expected.is_nan(), "{bits:#x}: {found}, not {expected}");
        let (exponent, fraction) = ((bits >> 2 & 31) as i32, (bits & 3) as f32);
        let expected = match (exponent, bits & 3) {
            (31, 0) => sign * f32::INFINITY,
            (31, _) => f32::NAN,
            (0, _) => sign * fraction / 4.0 * 2f32.powi(-14),
            _ => sign * (1.0 + fraction / 4.0) * 2f32.powi(exponent - 15),
        };
        let found = value("e5m2", bits);
        assert!(found == expected || found.is_nan() && expected.is_nan(), "{bits:#x}: {found}, not {expected}");
    }
}

#[test]
fn doubles_are_fused_in_the_order_of_k_and_rounded_as_told() {
    let values = [1.1, -3.7e10, 2.3e-9, 5.5].map(f64::to_bits);
    let factors = [0.3, 1e-10, 7.7e8, -0.1].map(f64::to_bits);
    let mut expected = 0.7_f64;
    for (a, b) in values.iter().zip(&factors) {
        expected = f64::from_bits(*a).mul_add(f64::from_bits(*b), expected);
    }
    let run = |rounding: &str, a: &[u64], b: &[u64], c: f64| {
        let text = format!("sync.aligned.m8n8k4.row.col{rounding}.f64.f64.f64.f64");
        f64::from_bits(dot(&text, ("m8n8k4", "f64"), a, b, c.to_bits()))
    };
    assert_eq!(run("", &values, &factors, 0.7), expected);
    assert_eq!(run(".rn", &values, &factors, 0.7), expected);
    let tiny = [1e-300_f64.to_bits()];
    assert_eq!(run(".rp", &tiny, &[1f64.to_bits()], 1.0), 1f64.next_up());
    assert_eq!(run(".rm", &tiny, &[1f64.to_bits()], 1.0), 1.0);
    assert_eq!(run(".rz", &tiny, &[(-1f64).to_bits()], 1.0), 1f64.next_down());
}

#[test]
fn what_ptx_does_not_have_is_refused_by_name() {
    for (text, named) in [
        ("sync.aligned.m16n8k16.col.row.f32.f16.f16.f32", "combination `.sync"),
        ("sync.aligned.m16n8k16.row.col.f16.f16.f16.f32", "combination"),
        ("sync.aligned.m16n8k8.row.col.f32.f16.f16.f16", "combination"),
        ("sync.aligned.m8n8k4.row.col.f16.f16.f16.f32", "combination"),
        ("sync.aligned.m16n8k32.row.col.f32.e4m3.e5m2.f16", "combination"),
        ("sync.aligned.m16n8k16.row.col.f32.bf16.f16.f32", "combination"),
        ("sync.aligned.m16n8k16.row.col.f16.bf16.bf16.f16", "combination"),
        ("sync.aligned.m16n8k4.row.col.f32.f16.f16.f32", "combination"),
        ("sync.aligned.m16n8k8.row.col.s32.s8.s8.s32", "combination"),
        ("sync.aligned.m16n8k32.row.col.s32.s8.s4.s32", "combination"),
        ("sync.aligned.m16n8k16.row.col.satfinite.f32.f16.f16.f32", "combination"),
        ("sync.aligned.m8n8k128.row.col.s32.b1.b1.s32", "combination"),
        ("sync.aligned.m8n8k128.row.col.s32.b1.b1.s32.xor", "combination"),
        ("sync.aligned.m16n8k16.row.col.rz.f32.f16.f16.f32", "combination"),
        ("sync.aligned.m16n8k16.row.f32.f16.f16.f32", "combination"),
        ("sync.aligned.row.col.f32.f16.f16.f32", "combination"),
        ("sync.aligned.m16n8k32.row.col.kind::f8f6f4.f32.e2m1.e2m1.f32", "modifier `.kind::f8f6f4`"),
        ("sp.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32", "combination"),
        ("sp.sync.aligned.m16n8k64.row.col.f16.e4m3.e4m3.f16", "combination"),
        ("sp.sync.aligned.m16n8k16.row.col.s32.s8.s8.s32", "combination"),
        ("sp::ordered.sync.aligned.m16n8k32.row.col.f32.f16.f16.f32", "modifier `.sp::ordered`"),
    ] {
        let error = Mma::parse_mma(&text.split('.').collect::<Vec<_>>(), 0).expect_err(text);
        assert!(error.starts_with(named), "{text}: {error}");
    }
    for text in [
        "mma.sync.aligned.row.row.m16n16k16.f32.f16.f16.f32",
        "mma.sync.aligned.row.row.m16n16k16.f16.f16.satfinite",
        "mma.sync.aligned.row.row.m16n16k16.s32.s8.u8.s32",
        "mma.sync.aligned.row.col.m8n8k32.s32.u4.s4.s32",
        "mma.sync.aligned.row.row.m8n8k32.s32.s4.s4.s32",
        "mma.sync.aligned.row.row.m16n16k8.f32.f32",
        "mma.sync.aligned.row.row.m16n16k8.f16.tf32.tf32.f16",
    ] {
        Mma::parse_wmma(&text.split('.').collect::<Vec<_>>()).expect_err(text);
    }
    for text in [
        "load.a.sync.aligned.col.m8n8k32.s4",
        "load.b.sync.aligned.row.m8n8k128.b1",
        "load.a.sync.aligned.row.m16n16k8.f16",
        "load.c.sync.aligned.row.m16n16k16.bf16",
        "load.d.sync.aligned.row.m16n16k16.f32",
        "store.a.sync.aligned.row.m16n16k16.f16",
        "store.d.sync.aligned.m16n16k16.f16",
        "store.d.sync.aligned.row.m8n8k4.f32",
    ] {
        WmmaAccess::parse(&text.split('.').collect::<Vec<_>>()).expect_err(text);
    }
}

fn sparse(text: &str, selector: u64) -> Result<Mma, String> {
    Mma::parse_mma(&text.split('.').collect::<Vec<_>>(), selector)
}

/// Registers of A, B and C in the sizes of the instruction; their contents do not matter.
fn with_metadata(mma: &Mma, metadata: &Lanes) -> Result<(), (usize, String)> {
    let [d, a, b, c] = mma.registers().map(|count| vec![[0; 32]; count]);
    let mut d = d;
    mma.execute((&a, Some(metadata)), &b, &c, &mut d).map_err(|invalid| (invalid.lane, invalid.message))
}

#[test]
fn a_sparsity_selector_names_lanes_that_a_group_has() {
    for (text, selectors) in [
        ("sp.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", 4),
        ("sp.sync.aligned.m16n8k32.row.col.f32.bf16.bf16.f32", 2),
        ("sp.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32", 4),
        ("sp.sync.aligned.m16n8k16.row.col.f32.tf32.tf32.f32", 2),
        ("sp.sync.aligned.m16n8k32.row.col.s32.s8.u8.s32", 2),
        ("sp.sync.aligned.m16n8k64.row.col.s32.s8.u8.s32", 1),
        ("sp.sync.aligned.m16n8k64.row.col.s32.u4.s4.s32", 2),
        ("sp.sync.aligned.m16n8k128.row.col.s32.s4.s4.s32", 1),
        ("sp.sync.aligned.m16n8k64.row.col.f32.e4m3.e5m2.f32", 1),
    ] {
        for selector in 0..5 {
            assert_eq!(sparse(text, selector).is_ok(), selector < selectors, "{text}, {selector}");
        }
        assert_eq!(sparse(text, u64::MAX).map(|_| ()), Err(format!("sparsity selector {}", u64::MAX)));
    }
}

#[test]
fn undefined_metadata_is_named() {
    let half = sparse("sp.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", 2).expect("an instruction");
    // Selector 2: lanes 4 g + 2 hold rows g and g + 8; what the others hold does not matter.
    let mut metadata = [0; 32];
    for group in 0..8 {
        metadata[group * 4 + 2] = 0x4e94_1be4;
    }
    assert_eq!(with_metadata(&half, &metadata), Ok(()));
    metadata[14] = 0x4f94_1be4;
    let (lane, message) = with_metadata(&half, &metadata).expect_err("0b1111 is no pair of places");
    assert_eq!(
        (lane, &*message),
        (14, "the metadata of row 11 of A has 0b1111 for chunk 2, which keeps one place twice")
    );

    let ordered =
        sparse("sp::ordered_metadata.sync.aligned.m16n8k64.row.col.s32.s8.s8.s32", 0).expect("an instruction");
    let mut metadata = [0x4444_4444; 32];
    assert_eq!(with_metadata(&ordered, &metadata), Ok(()));
    metadata[7] = 0x1444_4444;
    let (lane, message) = with_metadata(&ordered, &metadata).expect_err("0b0001 descends");
    assert_eq!(lane, 7);
    assert!(
        message.starts_with("the metadata of row 9 of A has 0b0001 for chunk 15, whose indices do not ascend"),
        "{message}"
    );

    let single = sparse("sp.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32", 0).expect("an instruction");
    assert_eq!(with_metadata(&single, &[0xe4e4_44ee; 32]), Ok(()));
    let (lane, message) = with_metadata(&single, &[0xe4e4_44e0; 32]).expect_err("0b0000 is no place");
    assert_eq!((lane, message.ends_with("which is neither 0b0100 nor 0b1110")), (0, true), "{message}");
}
