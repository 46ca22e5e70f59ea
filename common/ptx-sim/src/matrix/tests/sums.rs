//! Tests of the sums within a product: overflow, rounding and special values.

use half::f16;

use super::fragments::CASES;
use super::{encode, execute, mma, pack};

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
