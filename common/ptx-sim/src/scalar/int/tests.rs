use super::super::testing::Random;
use super::*;

fn run(op: IntOp, ty: Scalar, operands: [u64; 3]) -> u64 {
    run_with(Mode::default(), op, ty, operands)
}

fn run_with(mode: Mode, op: IntOp, ty: Scalar, [a, b, c]: [u64; 3]) -> u64 {
    let f = int_op(op, ty).unwrap_or_else(|| panic!("no {op:?} of {ty:?}"));
    f(mode, a, b, c)
}

fn immediate(immediate: u32) -> Mode {
    Mode { immediate, ..Mode::default() }
}

/// The types of arithmetic, with their width and whether they have a sign.
const TYPES: [(Scalar, u32, bool); 6] = [
    (Scalar::U16, 16, false),
    (Scalar::S16, 16, true),
    (Scalar::U32, 32, false),
    (Scalar::S32, 32, true),
    (Scalar::U64, 64, false),
    (Scalar::S64, 64, true),
];

/// An operand of `width` bits; small numbers and the ends of the range come often.
fn operand(random: &mut Random, width: u32) -> u64 {
    let bits = match random.bits() & 3 {
        0 => random.bits(),
        1 => random.bits() >> (random.bits() & 63),
        2 => (random.bits() & 3).wrapping_sub(2),
        _ => (1u64 << (width - 1)).wrapping_sub(random.bits() & 1),
    };
    truncate(bits, width)
}

#[test]
fn arithmetic_agrees_with_exact_integers() {
    let mut random = Random(20);
    for (ty, width, signed) in TYPES {
        let exact = |raw: u64| {
            if signed { i128::from((raw << (64 - width)) as i64 >> (64 - width)) } else { raw.into() }
        };
        let cut = |value: i128| truncate(value as u64, width);
        let (least, most) = if signed { (-1 << (width - 1), (1 << (width - 1)) - 1) } else { (0, (1 << width) - 1) };
        for _ in 0..100_000 {
            let [a, b, c] = [(); 3].map(|()| operand(&mut random, width));
            let [x, y, z] = [a, b, c].map(exact);
            let check = |op: IntOp, expected: u64| {
                assert_eq!(run(op, ty, [a, b, c]), expected, "{op:?} {ty:?} {x} {y} {z}");
            };
            // u64 × u64 does not fit an i128; its low 128 bits are right all the same.
            let product = x.wrapping_mul(y);
            let high = if signed { product >> width } else { (product as u128 >> width) as i128 };
            check(IntOp::Add, cut(x + y));
            check(IntOp::Sub, cut(x - y));
            check(IntOp::MulLo, cut(product));
            check(IntOp::MulHi, cut(high));
            check(IntOp::MadLo, cut(product.wrapping_add(z)));
            check(IntOp::MadHi, cut(high + z));
            check(IntOp::Min, cut(x.min(y)));
            check(IntOp::Max, cut(x.max(y)));
            check(IntOp::Sad, cut(z + (x - y).abs()));
            check(IntOp::Div, if y == 0 { cut(-1) } else { cut(x / y) });
            check(IntOp::Rem, if y == 0 { cut(-1) } else { cut(x % y) });
            if signed {
                check(IntOp::Abs, cut(x.abs()));
                check(IntOp::Neg, cut(-x));
            }
            if width < 64 {
                let wide = |value: i128| truncate(value as u64, 2 * width);
                check(IntOp::MulWide, wide(product));
                let addend = operand(&mut random, 2 * width);
                let sum = wide(product.wrapping_add(addend.into()));
                assert_eq!(run(IntOp::MadWide, ty, [a, b, addend]), sum, "{ty:?} {x} {y} {addend}");
            }
            let sat = Mode { saturate: true, ..Mode::default() };
            assert_eq!(run_with(sat, IntOp::Add, ty, [a, b, 0]), cut((x + y).clamp(least, most)));
            assert_eq!(run_with(sat, IntOp::Sub, ty, [a, b, 0]), cut((x - y).clamp(least, most)));
            assert_eq!(run_with(sat, IntOp::MadHi, ty, [a, b, c]), cut((exact(cut(high)) + z).clamp(least, most)));
            let relu = Mode { relu: true, ..Mode::default() };
            assert_eq!(run_with(relu, IntOp::Min, ty, [a, b, 0]), cut(x.min(y).max(0)));

            let amount = random.bits() % 80;
            let shifted = if amount >= 64 { if x < 0 { -1 } else { 0 } } else { x >> amount };
            assert_eq!(run(IntOp::Shr, ty, [a, amount, 0]), cut(shifted), "{ty:?} {x} >> {amount}");
        }
    }
}

#[test]
fn bit_fields_follow_the_pseudo_code_of_the_manual() {
    // PTX ISA, "bfe" and "bfi": bit by bit.
    let bit = |x: u64, i: u32| i < 64 && x >> i & 1 == 1;
    let mut random = Random(21);
    for (ty, width, signed) in TYPES.into_iter().filter(|&(_, width, _)| width >= 32) {
        let untyped = if width == 32 { Scalar::B32 } else { Scalar::B64 };
        for _ in 0..50_000 {
            let [a, b] = [(); 2].map(|()| operand(&mut random, width));
            let [p, l] = [(); 2].map(|()| random.bits() >> (random.bits() & 63) & 0x1ff);
            let (position, length) = (p as u32 & 0xff, l as u32 & 0xff);
            let sign = signed && length > 0 && bit(a, (position + length - 1).min(width - 1));
            let mut extracted = 0;
            let mut inserted = b;
            for i in 0..width {
                let inside = i < length && position + i < width;
                extracted |= u64::from(if inside { bit(a, position + i) } else { sign }) << i;
                if inside {
                    let place = position + i;
                    inserted = inserted & !(1 << place) | u64::from(bit(a, i)) << place;
                }
            }
            assert_eq!(run(IntOp::Bfe, ty, [a, p, l]), extracted, "bfe {ty:?} {a:#x} {p} {l}");
            assert_eq!(run(IntOp::Bfi, untyped, [a, b, l << 32 | p]), inserted, "bfi {a:#x} {b:#x} {p} {l}");
        }
    }
}

#[test]
fn masks_and_extensions_follow_the_pseudo_code_of_the_manual() {
    let mut random = Random(22);
    for _ in 0..100_000 {
        let [a, b] = [(); 2].map(|()| operand(&mut random, 32) >> (random.bits() & 31)).map(|x| x as u32);
        let word = operand(&mut random, 32) as u32;
        for wrap in [false, true] {
            let (position, width) = (a & 31, b & 31);
            let sum = position + width;
            let mut mask0 = u32::MAX << position;
            let mut mask1 = u32::MAX.checked_shl(sum).unwrap_or(0);
            let overflow = sum >= 32 || !wrap && (a >= 32 || b >= 32);
            if !wrap && a >= 32 {
                mask0 = 0;
            }
            if overflow {
                mask1 = 0;
            } else if width == 0 {
                mask1 = u32::MAX;
            }
            let mode = immediate(wrap.into());
            let found = run_with(mode, IntOp::Bmsk, Scalar::B32, [a.into(), b.into(), 0]);
            assert_eq!(found as u32, mask0 & !mask1, "bmsk {a} {b} wrap {wrap}");

            let large = b >= 32 && !wrap;
            let mask = if large { 0 } else { u32::MAX << width };
            let sign = !(width == 0 || large) && word >> (width.wrapping_sub(1) & 31) & 1 == 1;
            let signed = word & !mask | if sign { mask } else { 0 };
            let operands = [word.into(), b.into(), 0];
            assert_eq!(run_with(mode, IntOp::Szext, Scalar::U32, operands) as u32, word & !mask);
            assert_eq!(run_with(mode, IntOp::Szext, Scalar::S32, operands) as u32, signed, "{word:#x} {b} {wrap}");
        }
    }
}

#[test]
fn counting_and_finding() {
    let word = |op, a| run(op, Scalar::B32, [a, 0, 0]);
    assert_eq!(word(IntOp::Clz, 0), 32);
    assert_eq!(word(IntOp::Clz, 0x00ff_0000), 8);
    assert_eq!(word(IntOp::Popc, 0xf0f0_0001), 9);
    assert_eq!(word(IntOp::Brev, 0x8000_0002), 0x4000_0001);
    assert_eq!(run(IntOp::Clz, Scalar::B64, [1, 0, 0]), 63);
    assert_eq!(run(IntOp::Brev, Scalar::B64, [1, 0, 0]), 1 << 63);
    for (ty, a, position) in [
        (Scalar::U32, 0x0001_0000, 16),
        (Scalar::U32, 0, 0xffff_ffff),
        (Scalar::S32, 0xffff_ffff, 0xffff_ffff),
        (Scalar::S32, 0xffff_fff0, 3),
        (Scalar::S32, 0x0000_0010, 4),
        (Scalar::U64, 1 << 63, 63),
        (Scalar::S64, u64::MAX - 1, 0),
    ] {
        assert_eq!(run(IntOp::Bfind, ty, [a, 0, 0]), position, "{ty:?} {a:#x}");
        let width = if matches!(ty, Scalar::U64 | Scalar::S64) { 64 } else { 32 };
        let amount = if position > 63 { position } else { width - 1 - position };
        assert_eq!(run_with(immediate(1), IntOp::Bfind, ty, [a, 0, 0]), amount);
    }
    // The examples of the manual, and the ends.
    let fns = |mask: u64, base: u64, offset: i32| run(IntOp::Fns, Scalar::B32, [mask, base, offset as u32 as u64]);
    assert_eq!(fns(0xaaaa_aaaa, 3, 1), 3);
    assert_eq!(fns(0xaaaa_aaaa, 3, -1), 3);
    assert_eq!(fns(0xaaaa_aaaa, 2, 1), 3);
    assert_eq!(fns(0xaaaa_aaaa, 2, -1), 1);
    assert_eq!(fns(0xaaaa_aaaa, 1, 16), 31);
    assert_eq!(fns(0xaaaa_aaaa, 1, 17), 0xffff_ffff);
    assert_eq!(fns(0xaaaa_aaaa, 2, 0), 0xffff_ffff);
    assert_eq!(fns(0xaaaa_aaaa, 3, 0), 3);
    assert_eq!(fns(u64::from(u32::MAX), 0, i32::MIN), 0xffff_ffff);
}

#[test]
fn logic() {
    let [a, b, c] = [0xf0f0_1234, 0xcccc_5678, 0xaaaa_9abc];
    let lop3 = |table| run_with(immediate(table), IntOp::Lop3, Scalar::B32, [a, b, c]);
    assert_eq!(lop3(0x80), a & b & c);
    assert_eq!(lop3(0xfe), a | b | c);
    assert_eq!(lop3(0x40), a & b & !c);
    assert_eq!(lop3(0x1a), (a & b | c) ^ a);
    assert_eq!(lop3(0x96), a ^ b ^ c);
    assert_eq!(run(IntOp::Not, Scalar::B16, [0x00ff, 0, 0]), 0xff00);
    assert_eq!(run(IntOp::Cnot, Scalar::B32, [0, 0, 0]), 1);
    assert_eq!(run(IntOp::Cnot, Scalar::B32, [2, 0, 0]), 0);
    assert_eq!(run(IntOp::Xor, Scalar::B64, [a, b, 0]), a ^ b);
}

#[test]
fn shifts_clamp_or_wrap() {
    assert_eq!(run(IntOp::Shl, Scalar::B16, [0xffff, 4, 0]), 0xfff0);
    assert_eq!(run(IntOp::Shl, Scalar::B32, [1, 31, 0]), 1 << 31);
    assert_eq!(run(IntOp::Shl, Scalar::B32, [1, 32, 0]), 0);
    assert_eq!(run(IntOp::Shl, Scalar::B64, [1, 0xffff_ffff, 0]), 0);
    assert_eq!(run(IntOp::Shr, Scalar::B32, [1 << 31, 31, 0]), 1);
    let (low, high) = (0x89ab_cdef, 0x0123_4567);
    let shf = |op, wrap, amount| run_with(immediate(wrap), op, Scalar::B32, [low, high, amount]);
    assert_eq!(shf(IntOp::ShfL, 0, 4), 0x1234_5678);
    assert_eq!(shf(IntOp::ShfR, 0, 4), 0x789a_bcde);
    assert_eq!(shf(IntOp::ShfL, 0, 0), high);
    assert_eq!(shf(IntOp::ShfL, 0, 40), low);
    assert_eq!(shf(IntOp::ShfR, 0, 40), high);
    assert_eq!(shf(IntOp::ShfL, 1, 36), 0x1234_5678);
    assert_eq!(shf(IntOp::ShfR, 1, 32), low);
}

#[test]
fn permutes_follow_the_tables_of_the_manual() {
    // Byte i of `b:a` is i, so that a result spells its selectors.
    let prmt =
        |mode: PrmtMode, c| run_with(immediate(mode as u32), IntOp::Prmt, Scalar::B32, [0x0302_0100, 0x0706_0504, c]);
    assert_eq!(prmt(PrmtMode::Generic, 0x7310), 0x0703_0100);
    for (mode, rows) in [
        (PrmtMode::Forward4, [0x0302_0100, 0x0403_0201, 0x0504_0302, 0x0605_0403]),
        (PrmtMode::Backward4, [0x0506_0700, 0x0607_0001, 0x0700_0102, 0x0001_0203]),
        (PrmtMode::Replicate8, [0, 0x0101_0101, 0x0202_0202, 0x0303_0303]),
        (PrmtMode::EdgeLeft, [0x0302_0100, 0x0302_0101, 0x0302_0202, 0x0303_0303]),
        (PrmtMode::EdgeRight, [0, 0x0101_0100, 0x0202_0100, 0x0302_0100]),
        (PrmtMode::Replicate16, [0x0100_0100, 0x0302_0302, 0x0100_0100, 0x0302_0302]),
    ] {
        for (c, row) in rows.into_iter().enumerate() {
            assert_eq!(prmt(mode, c as u64), row, "{mode:?} {c}");
        }
    }
    let signs = run(IntOp::Prmt, Scalar::B32, [0x80_7f, 0, 0x9898]);
    assert_eq!(signs, 0xff00_ff00);
}

#[test]
fn dot_products() {
    let (a, b) = (0xff02_80fe, 0x0103_ff05);
    let bytes = |x: u64, signed: bool| {
        (x as u32).to_le_bytes().map(|byte| if signed { i64::from(byte as i8) } else { byte.into() })
    };
    let halves = |x: u64, signed: bool| {
        [x & 0xffff, x >> 16].map(|half| if signed { i64::from(half as i16) } else { half as i64 })
    };
    for (a_signed, b_signed) in [(false, false), (false, true), (true, false), (true, true)] {
        let ty = if a_signed || b_signed { Scalar::S32 } else { Scalar::U32 };
        let sum: i64 = bytes(a, a_signed).into_iter().zip(bytes(b, b_signed)).map(|(x, y)| x * y).sum();
        let found = run(IntOp::Dp4a { a_signed, b_signed }, ty, [a, b, 1000]);
        assert_eq!(found, truncate((sum + 1000) as u64, 32), "dp4a {a_signed} {b_signed}");
        for high in [false, true] {
            let picked = &bytes(b, b_signed)[if high { 2..4 } else { 0..2 }];
            let sum: i64 = halves(a, a_signed).iter().zip(picked).map(|(x, y)| x * y).sum();
            let found = run(IntOp::Dp2a { high, a_signed, b_signed }, ty, [a, b, 1000]);
            assert_eq!(found, truncate((sum + 1000) as u64, 32), "dp2a {high} {a_signed} {b_signed}");
        }
    }
}

#[test]
fn products_of_24_bits() {
    let [a, b] = [0xff80_0001, 0x0012_3456];
    let unsigned = 0x0080_0001u64 * 0x0012_3456;
    assert_eq!(run(IntOp::Mul24Lo, Scalar::U32, [a, b, 0]), unsigned & 0xffff_ffff);
    assert_eq!(run(IntOp::Mul24Hi, Scalar::U32, [a, b, 0]), unsigned >> 16);
    let signed = -0x7f_ffffi64 * 0x12_3456;
    assert_eq!(run(IntOp::Mul24Lo, Scalar::S32, [a, b, 0]), truncate(signed as u64, 32));
    assert_eq!(run(IntOp::Mad24Hi, Scalar::S32, [a, b, 5]), truncate(((signed >> 16) + 5) as u64, 32));
}

#[test]
fn packed_halves_do_not_carry_over() {
    assert_eq!(run(IntOp::Add, Scalar::U16x2, [0xffff_ffff, 0x0001_0002, 0]), 0x0000_0001);
    assert_eq!(run(IntOp::Min, Scalar::S16x2, [0xffff_0001, 0x0001_ffff, 0]), 0xffff_ffff);
    assert_eq!(run(IntOp::Max, Scalar::U16x2, [0xffff_0001, 0x0001_ffff, 0]), 0xffff_ffff);
    let relu = Mode { relu: true, ..Mode::default() };
    assert_eq!(run_with(relu, IntOp::Max, Scalar::S16x2, [0xffff_0003, 0xfffe_0001, 0]), 0x0000_0003);
}

#[test]
fn carries_chain_into_wide_arithmetic() {
    let f = |op, ty| carry_op(op, ty).unwrap_or_else(|| panic!("no {op:?} of {ty:?}"));
    let mut random = Random(23);
    for (ty, width) in [(Scalar::U32, 32), (Scalar::S32, 32), (Scalar::U64, 64), (Scalar::S64, 64)] {
        for _ in 0..20_000 {
            let [a0, a1, b0, b1] = [(); 4].map(|()| operand(&mut random, width));
            let [a, b] = [(a0, a1), (b0, b1)].map(|(low, high)| u128::from(low) | u128::from(high) << width);
            let mask = u128::MAX >> (128 - 2 * width);
            let join = |low: u64, high: u64| u128::from(low) | u128::from(high) << width;

            let (low, carry) = f(CarryOp::Add, ty)(None, a0, b0, 0);
            let (high, _) = f(CarryOp::Add, ty)(Some(carry), a1, b1, 0);
            assert_eq!(join(low, high), a.wrapping_add(b) & mask);
            let (low, carry) = f(CarryOp::Sub, ty)(None, a0, b0, 0);
            let (high, _) = f(CarryOp::Sub, ty)(Some(carry), a1, b1, 0);
            assert_eq!(join(low, high), a.wrapping_sub(b) & mask);
            if matches!(ty, Scalar::U32 | Scalar::U64) {
                let (low, carry) = f(CarryOp::MadLo, ty)(None, a0, b0, a0);
                let (high, _) = f(CarryOp::MadHi, ty)(Some(carry), a0, b0, a1);
                let exact = (u128::from(a0) * u128::from(b0)).wrapping_add(a) & mask;
                assert_eq!(join(low, high), exact);
            }
        }
    }
    assert!(carry_op(CarryOp::Add, Scalar::U16).is_none());
}

#[test]
fn forms_that_ptx_lacks_are_refused() {
    for (op, ty) in [
        (IntOp::And, Scalar::U32),
        (IntOp::MulWide, Scalar::S64),
        (IntOp::Abs, Scalar::U32),
        (IntOp::Bfe, Scalar::U16),
        (IntOp::Popc, Scalar::B16),
        (IntOp::Sub, Scalar::U16x2),
        (IntOp::Mul24Lo, Scalar::U64),
        (IntOp::Prmt, Scalar::B64),
    ] {
        assert!(int_op(op, ty).is_none(), "{op:?} {ty:?}");
    }
}
