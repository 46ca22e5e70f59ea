//! Tests of `wmma` by a matrix in memory, in every layout.

use half::f16;

use super::super::layout::Fragment;
use super::super::{Lanes, WmmaAccess};
use super::{Matrix, Random, access, decode, encode, execute, extents, product, width, wmma};

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
