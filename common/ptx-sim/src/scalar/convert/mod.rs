//! `cvt` (PTX ISA, "Data Movement and Conversion Instructions: cvt"): every conversion decodes its source to an exact
//! number and rounds that once. The most frequent ones have shorter paths.

#[cfg(test)]
mod tests;

use super::half::{Bf16, F16, Half};
use super::int::Word;
use super::soft::{Finite, Format, Value, pack, round_to_integral, unpack};
use super::{LaneFn, Mode, Rounding, Scalar, double, single};

/// `Mode::immediate` of a `cvt` whose `Mode::saturate` stands for `.satfinite` (clamp at the largest finite number), not
/// for `.sat` (clamp to [0, 1]). Only f16 and bf16 results have both; for the others it makes no difference.
pub const SATFINITE: u32 = 1;

/// A source: the meaning of its bits.
trait Source {
    /// Whether NaN converts to integers in a special way.
    const DOUBLE: bool = false;
    /// Whether it is floating point: `.ftz` and integral rounding apply.
    const FLOAT: bool = false;
    fn value(mode: Mode, raw: u64) -> Value;
}

/// A destination: its encoding of a number.
trait Target {
    /// Whether `.ftz` flushes an f32 source. Hardware (sm_90) does not when converting to 16 bits: `cvt.rp.ftz.f16.f32` of
    /// 2⁻¹⁴⁹ gives the least f16, not 0.
    const FLUSHES: bool = true;
    fn bits<S: Source>(mode: Mode, value: Value) -> u64;
}

struct Int<T>(T);
struct Single;
struct Double;

/// A byte: PTX converts bytes but does not compute with them, so they are no [`Word`].
struct Byte<const SIGNED: bool>;

fn integer(value: i128) -> Value {
    Value::Finite(Finite { negative: value < 0, significand: value.unsigned_abs(), exponent: 0 })
}

impl<T: Word> Source for Int<T> {
    #[inline]
    fn value(_: Mode, raw: u64) -> Value {
        integer(T::of(raw).value())
    }
}

impl<const SIGNED: bool> Source for Byte<SIGNED> {
    #[inline]
    fn value(_: Mode, raw: u64) -> Value {
        integer(if SIGNED { i128::from(raw as i8) } else { i128::from(raw as u8) })
    }
}

impl Source for Single {
    const FLOAT: bool = true;
    #[inline]
    fn value(mode: Mode, raw: u64) -> Value {
        unpack(Format::F32, single::operand(mode, raw).to_bits().into())
    }
}

impl Source for Double {
    const FLOAT: bool = true;
    const DOUBLE: bool = true;
    #[inline]
    fn value(_: Mode, raw: u64) -> Value {
        unpack(Format::F64, raw)
    }
}

impl<H: Half> Source for H {
    const FLOAT: bool = true;
    #[inline]
    fn value(_: Mode, raw: u64) -> Value {
        unpack(H::FORMAT, raw)
    }
}

/// NaN as an integer of `width` bits (PTX ISA, "cvt"): 0, or only the highest bit if the source is f64 or the
/// destination has 64 bits.
fn nan_as_integer(width: u32, from_double: bool) -> u64 {
    if from_double || width == 64 { 1 << (width - 1) } else { 0 }
}

/// To an integer in `[least, most]`. Floating-point sources saturate always, integers with `.sat` only.
fn to_integer<S: Source>(mode: Mode, value: Value, width: u32, least: i128, most: i128) -> u64 {
    let number = match value {
        Value::Nan => return nan_as_integer(width, S::DOUBLE),
        Value::Infinite(true) => least,
        Value::Infinite(false) => most,
        Value::Finite(x) => {
            let Finite { negative, significand, exponent } = round_to_integral(mode.rounding, x);
            // What is beyond 2⁶⁴ saturates in any case: the shift must only not overflow.
            let magnitude = if exponent > 64 && significand != 0 {
                i128::from(u64::MAX) + 1
            } else {
                (significand << exponent.clamp(0, 64)) as i128
            };
            if negative { -magnitude } else { magnitude }
        }
    };
    let number = if S::FLOAT || mode.saturate { number.clamp(least, most) } else { number };
    number as u64 & (u64::MAX >> (64 - width))
}

impl<T: Word> Target for Int<T> {
    #[inline]
    fn bits<S: Source>(mode: Mode, value: Value) -> u64 {
        let (least, most) = (T::clamped(i128::MIN).value(), T::clamped(i128::MAX).value());
        to_integer::<S>(mode, value, T::BITS, least, most)
    }
}

impl<const SIGNED: bool> Target for Byte<SIGNED> {
    #[inline]
    fn bits<S: Source>(mode: Mode, value: Value) -> u64 {
        let (least, most) = if SIGNED { (-128, 127) } else { (0, 255) };
        to_integer::<S>(mode, value, 8, least, most)
    }
}

/// To a floating-point format: integral rounding, `.relu`, `.sat`, `.satfinite`.
fn to_float(mode: Mode, format: Format, value: Value) -> u64 {
    let unit_range = mode.saturate && mode.immediate != SATFINITE;
    let finite = mode.saturate && mode.immediate == SATFINITE;
    let bits = match value {
        Value::Nan if unit_range => 0,
        Value::Nan => return format.nan.unwrap_or(format.largest),
        Value::Infinite(negative) => {
            // One more than the largest is infinity, where there is one; the clamp below sees to the rest.
            let magnitude = format.largest + u64::from(format.infinities);
            magnitude | if negative { format.sign() } else { 0 }
        }
        Value::Finite(x) if mode.to_integral => pack(format, mode.rounding, round_to_integral(mode.rounding, x)),
        Value::Finite(x) => pack(format, mode.rounding, x),
    };
    let negative = bits & format.sign() != 0;
    if negative && (mode.relu || unit_range) {
        return 0;
    }
    let magnitude = bits & (format.sign() - 1);
    let one = ((1 << (format.exponent_bits - 1)) - 1) << format.fraction_bits;
    let clamped = match (unit_range, finite) {
        (true, _) => magnitude.min(one),
        (_, true) => magnitude.min(format.largest),
        _ => magnitude,
    };
    bits & format.sign() | clamped
}

impl Target for Single {
    #[inline]
    fn bits<S: Source>(mode: Mode, value: Value) -> u64 {
        let bits = to_float(mode, Format::F32, value);
        if mode.ftz { single::flush(bits as u32).into() } else { bits }
    }
}

impl Target for Double {
    #[inline]
    fn bits<S: Source>(mode: Mode, value: Value) -> u64 {
        to_float(mode, Format::F64, value)
    }
}

impl<H: Half> Target for H {
    const FLUSHES: bool = false;
    #[inline]
    fn bits<S: Source>(mode: Mode, value: Value) -> u64 {
        to_float(mode, H::FORMAT, value)
    }
}

fn cvt<D: Target, S: Source>(mode: Mode, a: u64, _: u64, _: u64) -> u64 {
    let source = Mode { ftz: mode.ftz && D::FLUSHES, ..mode };
    D::bits::<S>(mode, S::value(source, a))
}

/// A mode under which `.sat…` is `.satfinite`.
fn satfinite(mode: Mode) -> Mode {
    Mode { immediate: SATFINITE, ..mode }
}

/// Two f32, `a` to the upper half, to a pair of 16-bit numbers.
fn pack_halves<H: Half>(mode: Mode, a: u64, b: u64, _: u64) -> u64 {
    let one = |x| to_float(satfinite(mode), H::FORMAT, Single::value(mode, x));
    one(a) << 16 | one(b)
}

/// The small formats, stored in slots of eight bits, or of four.
trait Small {
    const FORMAT: Format;
    const SLOT: u32 = 8;
}

macro_rules! small {
    ($($name:ident: $format:ident, $slot:literal;)*) => {
        $(
            struct $name;
            impl Small for $name {
                const FORMAT: Format = Format::$format;
                const SLOT: u32 = $slot;
            }
        )*
    };
}
small! {
    E4m3: E4M3, 8;
    E5m2: E5M2, 8;
    E2m3: E2M3, 8;
    E3m2: E3M2, 8;
    E2m1: E2M1, 4;
}

/// `.satfinite` is not optional for these.
fn to_small<F: Small>(mode: Mode, high: Value, low: Value) -> u64 {
    let mode = Mode { saturate: true, ..satfinite(mode) };
    to_float(mode, F::FORMAT, high) << F::SLOT | to_float(mode, F::FORMAT, low)
}

fn small_from_singles<F: Small>(mode: Mode, a: u64, b: u64, _: u64) -> u64 {
    to_small::<F>(mode, Single::value(mode, a), Single::value(mode, b))
}

fn small_from_halves<F: Small>(mode: Mode, a: u64, _: u64, _: u64) -> u64 {
    to_small::<F>(mode, unpack(Format::F16, a >> 16), unpack(Format::F16, a & 0xffff))
}

fn halves_from_small<F: Small>(mode: Mode, a: u64, _: u64, _: u64) -> u64 {
    let encoding = F::FORMAT.sign() * 2 - 1;
    let one = |bits: u64| to_float(mode, Format::F16, unpack(F::FORMAT, bits & encoding));
    one(a >> F::SLOT) << 16 | one(a)
}

fn small<F: Small>(source: Scalar) -> Option<LaneFn> {
    match source {
        Scalar::F32 => Some(small_from_singles::<F>),
        Scalar::F16x2 => Some(small_from_halves::<F>),
        _ => None,
    }
}

/// `cvt.….tf32.f32`. With `.rna`, ptxas adds half of the last place to the bits and cuts them, and only cuts infinities
/// and NaN; so does this.
fn to_tf32(mode: Mode, a: u64, _: u64, _: u64) -> u64 {
    const CUT: u64 = !0x1fff;
    if mode.rounding == Rounding::NearestAway && !mode.saturate {
        let finite = f32::from_bits(a as u32).is_finite();
        return if finite { a + 0x1000 } else { a } & CUT;
    }
    match Single::value(mode, a) {
        Value::Nan => single::NAN.into(),
        value => to_float(satfinite(mode), Format::TF32, value) << 13,
    }
}

/// `cvt.f32.bf16`: a shift, which keeps the payload of NaN.
fn single_from_bf16(mode: Mode, a: u64, _: u64, _: u64) -> u64 {
    let plain = !(mode.ftz || mode.saturate || mode.relu || mode.to_integral);
    if plain { a << 16 } else { cvt::<Single, Bf16>(mode, a, 0, 0) }
}

/// `cvt.f32.f16`
fn single_from_f16(mode: Mode, a: u64, _: u64, _: u64) -> u64 {
    if mode.to_integral { cvt::<Single, F16>(mode, a, 0, 0) } else { single::result(mode, F16::widen(a)) }
}

/// `cvt.f64.f32`: exact. NaN keeps its payload.
fn double_from_single(mode: Mode, a: u64, _: u64, _: u64) -> u64 {
    let x = single::operand(mode, a);
    if x.is_nan() && !mode.saturate {
        let bits = a << 32;
        return double::nan(&[bits & (1 << 63) | 0x7ff << 52 | (a & 0x7f_ffff) << 29]);
    }
    if mode.saturate {
        return cvt::<Double, Single>(mode, a, 0, 0);
    }
    f64::from(x).to_bits()
}

/// `cvt.….f64.s32`, `cvt.….f64.u32`: exact.
fn double_from_word<T: Word + Into<f64>>(mode: Mode, a: u64, _: u64, _: u64) -> u64 {
    let x: f64 = T::of(a).into();
    if mode.saturate { x.clamp(0.0, 1.0) } else { x }.to_bits()
}

/// `cvt.….f64.f64`: integral rounding and `.sat`. NaN keeps its payload.
fn double_from_double(mode: Mode, a: u64, _: u64, _: u64) -> u64 {
    if f64::from_bits(a).is_nan() && !mode.saturate { double::nan(&[a]) } else { cvt::<Double, Double>(mode, a, 0, 0) }
}

/// `cvt.rn.f16.f32` without saturation takes the short path.
fn half_from_single<H: Half>(mode: Mode, a: u64, _: u64, _: u64) -> u64 {
    if mode.rounding != Rounding::Nearest || mode.saturate || mode.relu || mode.to_integral {
        return cvt::<H, Single>(mode, a, 0, 0);
    }
    H::narrow(f32::from_bits(a as u32))
}

/// `cvt.rn.f16x2.f32` without saturation takes the short path.
fn halves_from_singles<H: Half>(mode: Mode, a: u64, b: u64, _: u64) -> u64 {
    if mode.rounding != Rounding::Nearest || mode.saturate || mode.relu {
        return pack_halves::<H>(mode, a, b, 0);
    }
    H::narrow(single::operand(mode, a)) << 16 | H::narrow(single::operand(mode, b))
}

/// To f32 from a number that f64 holds: `.rn` takes the short path.
#[inline]
fn single_from_exact(mode: Mode, x: f64) -> u64 {
    single::result(mode, single::flush_tiny(mode, single::narrow(mode.rounding, x), x))
}

/// `cvt.….f32.s32`, `cvt.….f32.u32` and narrower: exact in f64.
fn single_from_word<T: Word + Into<f64>>(mode: Mode, a: u64, _: u64, _: u64) -> u64 {
    single_from_exact(mode, T::of(a).into())
}

/// A NaN of f64 in a format with `exponent` and `mantissa` bits: quiet, its payload truncated, as on an H200; PTX leaves it
/// open.
fn narrowed_nan(a: u64, exponent: u32, mantissa: u32) -> u64 {
    let payload = a >> (52 - mantissa) & ((1 << mantissa) - 1) | 1 << (mantissa - 1);
    (a >> 63) << (exponent + mantissa) | ((1 << exponent) - 1) << mantissa | payload
}

/// `cvt.….f16.f64` and `cvt.….bf16.f64`
fn half_from_double<D: Target, const EXPONENT: u32, const MANTISSA: u32>(mode: Mode, a: u64, _: u64, _: u64) -> u64 {
    let keeps = f64::from_bits(a).is_nan() && !mode.saturate && !mode.relu;
    if keeps { narrowed_nan(a, EXPONENT, MANTISSA) } else { cvt::<D, Double>(mode, a, 0, 0) }
}

/// `cvt.….f32.f64`
fn single_from_double(mode: Mode, a: u64, _: u64, _: u64) -> u64 {
    if f64::from_bits(a).is_nan() && !mode.saturate {
        return narrowed_nan(a, 8, 23);
    }
    if mode.to_integral {
        return cvt::<Single, Double>(mode, a, 0, 0);
    }
    single_from_exact(mode, f64::from_bits(a))
}

#[inline]
fn integral(rounding: Rounding, x: f32) -> f32 {
    match rounding {
        Rounding::Nearest => x.round_ties_even(),
        Rounding::NearestAway => x.round(),
        Rounding::Zero => x.trunc(),
        Rounding::Down => x.floor(),
        Rounding::Up => x.ceil(),
    }
}

/// `cvt.….s32.f32`: Rust's cast saturates and converts NaN to 0, like PTX.
fn s32_from_single(mode: Mode, a: u64, _: u64, _: u64) -> u64 {
    (integral(mode.rounding, single::operand(mode, a)) as i32).raw()
}

/// `cvt.….u32.f32`, likewise.
fn u32_from_single(mode: Mode, a: u64, _: u64, _: u64) -> u64 {
    (integral(mode.rounding, single::operand(mode, a)) as u32).raw()
}

/// `cvt.….f32.f32`: integral rounding, `.ftz`, `.sat`.
fn single_from_single(mode: Mode, a: u64, _: u64, _: u64) -> u64 {
    let x = single::operand(mode, a);
    single::result(mode, if mode.to_integral { integral(mode.rounding, x) } else { x })
}

fn to<D: Target>(source: Scalar) -> Option<LaneFn> {
    let f: LaneFn = match source {
        Scalar::U8 => cvt::<D, Byte<false>>,
        Scalar::S8 => cvt::<D, Byte<true>>,
        Scalar::U16 => cvt::<D, Int<u16>>,
        Scalar::S16 => cvt::<D, Int<i16>>,
        Scalar::U32 => cvt::<D, Int<u32>>,
        Scalar::S32 => cvt::<D, Int<i32>>,
        Scalar::U64 => cvt::<D, Int<u64>>,
        Scalar::S64 => cvt::<D, Int<i64>>,
        Scalar::F16 => cvt::<D, F16>,
        Scalar::Bf16 => cvt::<D, Bf16>,
        Scalar::F32 => cvt::<D, Single>,
        Scalar::F64 => cvt::<D, Double>,
        _ => return None,
    };
    Some(f)
}

/// The conversion from `source` to `target`; `None` if PTX has no such form.
///
/// A pair takes its upper number from operand `a` and its lower one from `b`; a packed source is all in `a`. The result
/// is zero-extended to 64 bits: if a signed one goes to a wider register, the caller sign-extends it.
pub fn convert(target: Scalar, source: Scalar) -> Option<LaneFn> {
    let short: LaneFn = match (target, source) {
        (Scalar::F32, Scalar::F16) => single_from_f16,
        (Scalar::F32, Scalar::Bf16) => single_from_bf16,
        (Scalar::F16, Scalar::F32) => half_from_single::<F16>,
        (Scalar::Bf16, Scalar::F32) => half_from_single::<Bf16>,
        (Scalar::F16x2, Scalar::F32) => halves_from_singles::<F16>,
        (Scalar::Bf16x2, Scalar::F32) => halves_from_singles::<Bf16>,
        (Scalar::F32, Scalar::U32) => single_from_word::<u32>,
        (Scalar::F32, Scalar::S32) => single_from_word::<i32>,
        (Scalar::F32, Scalar::F32) => single_from_single,
        (Scalar::F32, Scalar::F64) => single_from_double,
        (Scalar::F16, Scalar::F64) => half_from_double::<F16, 5, 10>,
        (Scalar::Bf16, Scalar::F64) => half_from_double::<Bf16, 8, 7>,
        (Scalar::S32, Scalar::F32) => s32_from_single,
        (Scalar::U32, Scalar::F32) => u32_from_single,
        (Scalar::F64, Scalar::F32) => double_from_single,
        (Scalar::F64, Scalar::F64) => double_from_double,
        (Scalar::F64, Scalar::U32) => double_from_word::<u32>,
        (Scalar::F64, Scalar::S32) => double_from_word::<i32>,
        (Scalar::Tf32, Scalar::F32) => to_tf32,
        (Scalar::F16x2, Scalar::E4m3x2) => halves_from_small::<E4m3>,
        (Scalar::F16x2, Scalar::E5m2x2) => halves_from_small::<E5m2>,
        (Scalar::F16x2, Scalar::E2m3x2) => halves_from_small::<E2m3>,
        (Scalar::F16x2, Scalar::E3m2x2) => halves_from_small::<E3m2>,
        (Scalar::F16x2, Scalar::E2m1x2) => halves_from_small::<E2m1>,
        _ => return general(target, source),
    };
    Some(short)
}

fn general(target: Scalar, source: Scalar) -> Option<LaneFn> {
    match target {
        Scalar::U8 => to::<Byte<false>>(source),
        Scalar::S8 => to::<Byte<true>>(source),
        Scalar::U16 => to::<Int<u16>>(source),
        Scalar::S16 => to::<Int<i16>>(source),
        Scalar::U32 => to::<Int<u32>>(source),
        Scalar::S32 => to::<Int<i32>>(source),
        Scalar::U64 => to::<Int<u64>>(source),
        Scalar::S64 => to::<Int<i64>>(source),
        Scalar::F16 => to::<F16>(source),
        Scalar::Bf16 => to::<Bf16>(source),
        Scalar::F32 => to::<Single>(source),
        Scalar::F64 => to::<Double>(source),
        Scalar::E4m3x2 => small::<E4m3>(source),
        Scalar::E5m2x2 => small::<E5m2>(source),
        Scalar::E2m3x2 => small::<E2m3>(source),
        Scalar::E3m2x2 => small::<E3m2>(source),
        Scalar::E2m1x2 => small::<E2m1>(source),
        _ => None,
    }
}

/// `cvt.pack.sat`: `a` and `b`, s32, clamped to a type whose bits and signedness are in `immediate` ([`pack_mode`]), side
/// by side below `c` (PTX ISA, "cvt.pack").
pub fn pack_saturated(mode: Mode, a: u64, b: u64, c: u64) -> u64 {
    let (bits, signed) = (mode.immediate & 0xff, mode.immediate >> 8 == 1);
    let (low, high) = if signed { (-1i64 << (bits - 1), (1 << (bits - 1)) - 1) } else { (0, (1 << bits) - 1) };
    let clamped = |value: u64| (i64::from(value as u32 as i32).clamp(low, high) as u64) & ((1 << bits) - 1);
    let rest = if bits == 16 { 0 } else { (c as u32) << (2 * bits) };
    u64::from(rest) | clamped(a) << bits | clamped(b)
}

/// The mode of [`pack_saturated`] to a type of `bits` bits.
pub fn pack_mode(bits: u32, signed: bool) -> Mode {
    Mode { immediate: bits | u32::from(signed) << 8, ..Mode::default() }
}
