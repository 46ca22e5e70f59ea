//! Tables of the PTX ISA, "Matrix Fragments for mma.…".

use super::Table;

/// `mma.m….row.col` with these types and the tables of the PTX ISA, "Matrix Fragments for mma.…": elements per lane and
/// places.
pub(super) struct Case {
    pub(super) shape: &'static str,
    /// Each a, b and their accumulators.
    pub(super) types: &'static [[&'static str; 3]],
    pub(super) a: (usize, Table),
    pub(super) b: (usize, Table),
    pub(super) c: (usize, Table),
}

const C_8X8: (usize, Table) = (2, |lane, i| (lane >> 2, (lane % 4) * 2 + i));
const C_16X8: (usize, Table) =
    (4, |lane, i| (if i < 2 { lane >> 2 } else { (lane >> 2) + 8 }, (lane % 4) * 2 + (i & 1)));
const S8: &[[&str; 3]] = &[["s8", "s8", "s32"], ["s8", "u8", "s32"], ["u8", "s8", "s32"], ["u8", "u8", "s32"]];
const S4: &[[&str; 3]] = &[["s4", "s4", "s32"], ["s4", "u4", "s32"], ["u4", "s4", "s32"], ["u4", "u4", "s32"]];
const F16: &[[&str; 3]] = &[["f16", "f16", "f16"], ["f16", "f16", "f32"], ["bf16", "bf16", "f32"]];
const F8: &[[&str; 3]] =
    &[["e4m3", "e4m3", "f32"], ["e4m3", "e5m2", "f32"], ["e5m2", "e4m3", "f16"], ["e5m2", "e5m2", "f16"]];

pub(super) const CASES: &[Case] = &[
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
