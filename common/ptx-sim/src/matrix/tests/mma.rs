//! Tests of `mma` and `ldmatrix` against the tables of fragments.

use super::super::{Lanes, collect, distribute};
use super::fragments::CASES;
use super::{Matrix, Multiply, Random, Table, encode, execute, extents, fragment, mma, product};

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
