//! Tests of matrix instructions on small integers, which every type represents exactly.
//!
//! Fragments are built here from the tables of the PTX ISA, written out case by case, and products are three plain
//! loops: they share nothing with the tested code.

mod fragments;
mod mma;
mod refused;
mod sums;
mod wmma;

use half::{bf16, f16};

use super::{Lanes, Mma, WmmaAccess};

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
