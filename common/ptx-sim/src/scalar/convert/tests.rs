//! Tests of conversions, against those of LLVM.

use rustc_apfloat::ieee::{self, Float8E4M3FN, Float8E5M2};
use rustc_apfloat::{Float, FloatConvert};

use super::super::testing::{DIRECTED, Random, mode, round};
use super::*;

const FLOATS: [(Scalar, Format); 4] =
    [(Scalar::F16, Format::F16), (Scalar::Bf16, Format::BF16), (Scalar::F32, Format::F32), (Scalar::F64, Format::F64)];
const INTEGERS: [(Scalar, u32, bool); 8] = [
    (Scalar::U8, 8, false),
    (Scalar::S8, 8, true),
    (Scalar::U16, 16, false),
    (Scalar::S16, 16, true),
    (Scalar::U32, 32, false),
    (Scalar::S32, 32, true),
    (Scalar::U64, 64, false),
    (Scalar::S64, 64, true),
];

fn function(target: Scalar, source: Scalar) -> LaneFn {
    convert(target, source).unwrap_or_else(|| panic!("no cvt from {source:?} to {target:?}"))
}

fn bits(x: f32) -> u64 {
    x.to_bits().into()
}

/// LLVM's conversion; `None` is NaN.
fn reference<S>(target: Scalar, rounding: Rounding, a: u64) -> Option<u64>
where
    S: Float
        + FloatConvert<ieee::Half>
        + FloatConvert<ieee::BFloat>
        + FloatConvert<ieee::Single>
        + FloatConvert<ieee::Double>
        + FloatConvert<Float8E4M3FN>
        + FloatConvert<Float8E5M2>,
{
    fn raw<T: Float>(x: T) -> Option<u64> {
        (!x.is_nan()).then(|| x.to_bits() as u64)
    }
    let (x, round, lost) = (S::from_bits(a.into()), round(rounding), &mut false);
    match target {
        Scalar::F16 => raw::<ieee::Half>(x.convert_r(round, lost).value),
        Scalar::Bf16 => raw::<ieee::BFloat>(x.convert_r(round, lost).value),
        Scalar::F32 => raw::<ieee::Single>(x.convert_r(round, lost).value),
        Scalar::F64 => raw::<ieee::Double>(x.convert_r(round, lost).value),
        Scalar::E4m3x2 => raw::<Float8E4M3FN>(x.convert_r(round, lost).value),
        Scalar::E5m2x2 => raw::<Float8E5M2>(x.convert_r(round, lost).value),
        _ => unreachable!("LLVM has no {target:?}"),
    }
}

fn reference_from(source: Scalar, target: Scalar, rounding: Rounding, a: u64) -> Option<u64> {
    match source {
        Scalar::F16 => reference::<ieee::Half>(target, rounding, a),
        Scalar::Bf16 => reference::<ieee::BFloat>(target, rounding, a),
        Scalar::F32 => reference::<ieee::Single>(target, rounding, a),
        _ => reference::<ieee::Double>(target, rounding, a),
    }
}

#[test]
fn between_floats_agrees_with_llvm_in_every_rounding() {
    let mut random = Random(10);
    for (source, from) in FLOATS {
        for (target, to) in FLOATS {
            let f = function(target, source);
            let check = |a: u64| {
                for rounding in DIRECTED {
                    let ours = f(mode(rounding), a, 0, 0);
                    match reference_from(source, target, rounding, a) {
                        Some(theirs) => {
                            assert_eq!(ours, theirs, "{source:?} to {target:?} {rounding:?} {a:#x}");
                        }
                        None => assert_eq!(unpack(to, ours), Value::Nan, "{source:?} to {target:?} {a:#x}"),
                    }
                }
            };
            if from.sign() == 0x8000 {
                (0..=0xffff).for_each(check);
            } else {
                (0..100_000).for_each(|_| check(random.number(from)));
            }
        }
    }
}

#[test]
fn from_integers_agrees_with_llvm_in_every_rounding() {
    fn check<F: Float>(target: Scalar) {
        let mut random = Random(11);
        for (source, width, signed) in INTEGERS {
            let f = function(target, source);
            for _ in 0..30_000 {
                // All lengths.
                let shift = random.bits() % u64::from(width);
                let raw = random.bits() & (u64::MAX >> (64 - width)) >> shift;
                let raw = if random.bits() & 1 == 0 { raw } else { raw.wrapping_neg() & u64::MAX >> (64 - width) };
                let value = if signed { i128::from((raw << (64 - width)) as i64 >> (64 - width)) } else { raw.into() };
                for rounding in DIRECTED {
                    let theirs = F::from_i128_r(value, round(rounding)).value.to_bits() as u64;
                    assert_eq!(f(mode(rounding), raw, 0, 0), theirs, "{source:?} to {target:?} {rounding:?} {value}");
                }
            }
        }
    }
    check::<ieee::Half>(Scalar::F16);
    check::<ieee::BFloat>(Scalar::Bf16);
    check::<ieee::Single>(Scalar::F32);
    check::<ieee::Double>(Scalar::F64);
}

#[test]
fn to_integers_agrees_with_llvm_in_every_rounding() {
    fn check<F: Float>(source: Scalar, format: Format) {
        let mut random = Random(12);
        for (target, width, signed) in INTEGERS {
            let f = function(target, source);
            for _ in 0..30_000 {
                // Values of all magnitudes up to 2⁶⁶ or so, and the extremes.
                let any = random.number(format);
                let bias = (1 << (format.exponent_bits - 1)) - 1;
                let exponent = (bias - 2 + random.bits() % 68) << format.fraction_bits & (format.sign() - 1);
                let near = any & (format.sign() | ((1 << format.fraction_bits) - 1)) | exponent;
                let a = if random.bits() & 3 == 0 { any } else { near };
                let x = F::from_bits(a.into());
                for rounding in DIRECTED {
                    let theirs = match (x.is_nan(), signed) {
                        (true, _) if source == Scalar::F64 || width == 64 => 1 << (width - 1),
                        (true, _) => 0,
                        (_, true) => x.to_i128_r(width as usize, round(rounding), &mut false).value as u64,
                        (_, false) => x.to_u128_r(width as usize, round(rounding), &mut false).value as u64,
                    };
                    let theirs = theirs & u64::MAX >> (64 - width);
                    let ours = f(Mode { to_integral: true, ..mode(rounding) }, a, 0, 0);
                    assert_eq!(ours, theirs, "{source:?} to {target:?} {rounding:?} {a:#x}");
                }
            }
        }
    }
    check::<ieee::Half>(Scalar::F16, Format::F16);
    check::<ieee::BFloat>(Scalar::Bf16, Format::BF16);
    check::<ieee::Single>(Scalar::F32, Format::F32);
    check::<ieee::Double>(Scalar::F64, Format::F64);
}

#[test]
fn integral_rounding_agrees_with_llvm() {
    fn check<F: Float>(ty: Scalar, format: Format) {
        let mut random = Random(13);
        let f = function(ty, ty);
        for _ in 0..100_000 {
            let a = random.number(format);
            for rounding in DIRECTED {
                let theirs = F::from_bits(a.into()).round_to_integral(round(rounding)).value;
                let ours = f(Mode { to_integral: true, ..mode(rounding) }, a, 0, 0);
                if theirs.is_nan() {
                    assert_eq!(unpack(format, ours), Value::Nan);
                } else {
                    assert_eq!(ours, theirs.to_bits() as u64, "{ty:?} {rounding:?} {a:#x}");
                }
            }
        }
    }
    check::<ieee::Half>(Scalar::F16, Format::F16);
    check::<ieee::BFloat>(Scalar::Bf16, Format::BF16);
    check::<ieee::Single>(Scalar::F32, Format::F32);
    check::<ieee::Double>(Scalar::F64, Format::F64);
}

#[test]
fn between_integers_wraps_or_saturates() {
    let mut random = Random(14);
    for (source, from, from_signed) in INTEGERS {
        for (target, to, to_signed) in INTEGERS {
            let f = function(target, source);
            for _ in 0..1_000 {
                let raw = random.bits() & u64::MAX >> (64 - from);
                let value =
                    if from_signed { i128::from((raw << (64 - from)) as i64 >> (64 - from)) } else { raw.into() };
                let mask = u64::MAX >> (64 - to);
                assert_eq!(f(Mode::default(), raw, 0, 0), value as u64 & mask, "{source:?} to {target:?} {value}");
                let (least, most) =
                    if to_signed { (-1 << (to - 1), (1 << (to - 1)) - 1) } else { (0, i128::from(mask)) };
                let saturated = value.clamp(least, most) as u64 & mask;
                let sat = Mode { saturate: true, ..Mode::default() };
                assert_eq!(f(sat, raw, 0, 0), saturated, "sat {source:?} to {target:?} {value}");
            }
        }
    }
}

#[test]
fn short_ways_agree_with_the_general_one() {
    let mut random = Random(15);
    let pairs: [(Scalar, Scalar, Format, LaneFn); 8] = [
        (Scalar::F32, Scalar::F16, Format::F16, cvt::<Single, F16>),
        (Scalar::F32, Scalar::Bf16, Format::BF16, cvt::<Single, Bf16>),
        (Scalar::F16, Scalar::F32, Format::F32, cvt::<F16, Single>),
        (Scalar::Bf16, Scalar::F32, Format::F32, cvt::<Bf16, Single>),
        (Scalar::F32, Scalar::F32, Format::F32, cvt::<Single, Single>),
        (Scalar::F32, Scalar::F64, Format::F64, cvt::<Single, Double>),
        (Scalar::S32, Scalar::F32, Format::F32, cvt::<Int<i32>, Single>),
        (Scalar::U32, Scalar::F32, Format::F32, cvt::<Int<u32>, Single>),
    ];
    for (target, source, format, general) in pairs {
        let short = function(target, source);
        for _ in 0..200_000 {
            let a = random.number(format);
            if unpack(format, a) == Value::Nan && matches!(source, Scalar::Bf16 | Scalar::F64) {
                continue; // their NaNs keep a payload
            }
            let flags = random.bits();
            let flag = |bit: u32| flags >> bit & 1 == 1;
            let to_integral = flag(0) || matches!(target, Scalar::S32 | Scalar::U32);
            let rounding = DIRECTED[flags as usize >> 8 & 3];
            let mode = Mode { rounding, to_integral, ftz: flag(1), saturate: flag(2), ..Mode::default() };
            assert_eq!(short(mode, a, 0, 0), general(mode, a, 0, 0), "{source:?} to {target:?} {a:#x} {mode:?}");
        }
    }
}

#[test]
fn a_nan_of_f64_keeps_what_fits_of_its_payload() {
    let cases = [
        (Scalar::F32, 0x7fff_1b28_59b1_17f1, 0x7ff8_d942),
        (Scalar::F32, 0xfff0_0000_0000_0001, 0xffc0_0000),
        (Scalar::Bf16, 0x7ffb_f1cd_54d5_df44, 0x7fdf),
        (Scalar::F16, 0x7ff8_0000_0000_0000, 0x7e00),
    ];
    for (target, from, to) in cases {
        assert_eq!(function(target, Scalar::F64)(Mode::default(), from, 0, 0), to, "{target:?} {from:#x}");
    }
}

#[test]
fn small_formats_agree_with_llvm_and_saturate() {
    let mut random = Random(16);
    for (target, format) in [(Scalar::E4m3x2, Format::E4M3), (Scalar::E5m2x2, Format::E5M2)] {
        let from_singles = function(target, Scalar::F32);
        let from_halves = function(target, Scalar::F16x2);
        let expected = |source: Scalar, a: u64| {
            match reference_from(source, target, Rounding::Nearest, a) {
                // Beyond the largest lies infinity, or NaN where there is none.
                Some(bits) if bits & 0x7f <= format.largest => bits,
                _ => match unpack(if source == Scalar::F32 { Format::F32 } else { Format::F16 }, a) {
                    Value::Nan => 0x7f,
                    value => {
                        let negative =
                            matches!(value, Value::Infinite(true) | Value::Finite(Finite { negative: true, .. }));
                        format.largest | if negative { 0x80 } else { 0 }
                    }
                },
            }
        };
        for _ in 0..200_000 {
            // Magnitudes that the small formats can tell apart.
            let pick = |random: &mut Random| match random.bits() & 3 {
                0 => random.number(Format::F32),
                _ => random.bits() & 0x807f_ffff | (127 - 20 + random.bits() % 40) << 23,
            };
            let (a, b) = (pick(&mut random), pick(&mut random));
            let pair = expected(Scalar::F32, a) << 8 | expected(Scalar::F32, b);
            assert_eq!(from_singles(Mode::default(), a, b, 0), pair, "{target:?} {a:#x} {b:#x}");
        }
        for a in 0..=0xffff {
            let pair = expected(Scalar::F16, a) << 8 | expected(Scalar::F16, 0x3c00);
            assert_eq!(from_halves(Mode::default(), a << 16 | 0x3c00, 0, 0), pair, "{target:?} {a:#x}");
        }
    }
}

#[test]
fn small_formats_widen_exactly() {
    let widen = |source, a| function(Scalar::F16x2, source)(Mode::default(), a, 0, 0);
    assert_eq!(widen(Scalar::E4m3x2, 0x38b8), 0x3c00_bc00);
    assert_eq!(widen(Scalar::E4m3x2, 0x7e7f), 0x5f00_7fff);
    assert_eq!(widen(Scalar::E5m2x2, 0x7cbc), 0x7c00_bc00);
    assert_eq!(widen(Scalar::E2m3x2, 0x083f), 0x3c00_c780);
    assert_eq!(widen(Scalar::E3m2x2, 0x0c1f), 0x3c00_4f00);
    assert_eq!(widen(Scalar::E2m1x2, 0x2f), 0x3c00_c600);
    let f = function(Scalar::E2m1x2, Scalar::F32);
    assert_eq!(f(Mode::default(), bits(1.0), bits(-100.0), 0), 0x2f);
    assert_eq!(f(Mode::default(), bits(0.25), bits(f32::NAN), 0), 0x07);
    let f = function(Scalar::E3m2x2, Scalar::F32);
    assert_eq!(f(Mode::default(), bits(1.0), bits(f32::INFINITY), 0), 0x0c1f);
}

#[test]
fn tf32_keeps_ten_bits_of_fraction() {
    let f = function(Scalar::Tf32, Scalar::F32);
    let mut random = Random(17);
    for _ in 0..200_000 {
        let a = random.number(Format::F32);
        let x = f32::from_bits(a as u32);
        if !x.is_finite() {
            continue;
        }
        assert_eq!(f(mode(Rounding::NearestAway), a, 0, 0), (a + 0x1000) & !0x1fff);
        assert_eq!(f(mode(Rounding::Nearest), a, 0, 0), (a + 0xfff + (a >> 13 & 1)) & !0x1fff);
        assert_eq!(f(mode(Rounding::Zero), a, 0, 0), a & !0x1fff);
    }
    let satfinite = Mode { saturate: true, ..mode(Rounding::Nearest) };
    assert_eq!(f(satfinite, bits(f32::MAX), 0, 0), 0x7f7f_e000);
    assert_eq!(f(satfinite, bits(f32::NEG_INFINITY), 0, 0), 0xff7f_e000);
    assert_eq!(f(satfinite, 0x7f80_0001, 0, 0), 0x7fff_ffff);
    assert_eq!(f(Mode { relu: true, ..mode(Rounding::Zero) }, bits(-2.5), 0, 0), 0);
}

#[test]
fn modifiers_rectify_and_saturate() {
    let plain = Mode::default();
    let f = function(Scalar::F16x2, Scalar::F32);
    assert_eq!(f(plain, bits(1.0), bits(-2.0), 0), 0x3c00_c000);
    assert_eq!(f(Mode { relu: true, ..plain }, bits(f32::NAN), bits(-2.0), 0), 0x7fff_0000);
    let finite = Mode { saturate: true, ..plain };
    assert_eq!(f(finite, bits(1e9), bits(f32::NEG_INFINITY), 0), 0x7bff_fbff);
    assert_eq!(f(Mode { rounding: Rounding::Zero, ..plain }, bits(65535.0), bits(1.0), 0), 0x7bff_3c00);
    let f = function(Scalar::F16, Scalar::F32);
    assert_eq!(f(Mode { immediate: SATFINITE, ..finite }, bits(1e9), 0, 0), 0x7bff);
    assert_eq!(f(finite, bits(1e9), 0, 0), 0x3c00);
    assert_eq!(f(finite, bits(f32::NAN), 0, 0), 0);
    assert_eq!(f(Mode { immediate: SATFINITE, ..finite }, bits(f32::NAN), 0, 0), 0x7fff);
    let f = function(Scalar::F32, Scalar::F64);
    let ftz = Mode { ftz: true, ..plain };
    assert_eq!(f(ftz, (-1e-40f64).to_bits(), 0, 0), bits(-0.0));
    assert_eq!(f(finite, (-0.5f64).to_bits(), 0, 0), 0);
    let f = function(Scalar::F64, Scalar::F32);
    assert_eq!(f(ftz, bits(1e-40), 0, 0), 0);
    assert_eq!(f(plain, 0x7fc0_0001, 0, 0), 0x7ff8_0000_2000_0000);
    let f = function(Scalar::F64, Scalar::S32);
    assert_eq!(f(finite, 7, 0, 0), 1f64.to_bits());
    assert_eq!(function(Scalar::F32, Scalar::Bf16)(plain, 0xffc1, 0, 0), 0xffc1_0000);
}

#[test]
fn forms_that_ptx_lacks_are_refused() {
    assert!(convert(Scalar::Tf32, Scalar::F64).is_none());
    assert!(convert(Scalar::F32, Scalar::E4m3x2).is_none());
    assert!(convert(Scalar::F16x2, Scalar::F64).is_none());
    assert!(convert(Scalar::E5m2x2, Scalar::Bf16x2).is_none());
}
