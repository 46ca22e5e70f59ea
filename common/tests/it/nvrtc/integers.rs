use crate::nvrtc::harness::{Case, rows, words};

const ARITHMETIC: &[&str] = &[
    "+",
    "*",
    "/",
    "%",
    "unsigned /",
    "unsigned %",
    "/ 7",
    "% 5",
    "% 1000003u",
    "__mulhi",
    "__umulhi",
    "__mul24",
    "__umul24",
    "min",
    "max",
    "unsigned min",
    "unsigned max",
    "abs",
    "__sad",
    "__usad",
    "__hadd",
    "__rhadd",
    "__uhadd",
    "__urhadd",
    ">> 3",
    "unsigned >> 3",
    "<<",
    ">>",
];

const BITS: &[&str] = &[
    "__clz",
    "__popc",
    "__brev",
    "__ffs",
    "__byte_perm 0x5140",
    "__byte_perm",
    "__funnelshift_l",
    "__funnelshift_r",
    "__funnelshift_lc",
    "__funnelshift_rc",
    "rotate",
    "unsigned field",
    "signed field",
    "logic of three",
    "logic of two",
    "signed char",
    "unsigned short",
    "__dp4a signed",
    "__dp4a unsigned",
    "__dp2a_lo",
    "__dp2a_hi",
];

const WIDE: &[&str] = &[
    "+",
    "-",
    "*",
    "/",
    "%",
    "unsigned /",
    "unsigned %",
    "% 1000003u",
    "/ 10",
    "__mul64hi",
    "__umul64hi",
    "__clzll",
    "__popcll",
    "__brevll",
    "__ffsll",
    "min",
    "unsigned max",
    "llabs",
    ">>",
    "unsigned >>",
    "<<",
    "int * int",
    "unsigned * unsigned + wide",
];

const PACKED: &[&str] = &[
    "__vadd4",
    "__vsub4",
    "__vaddss4",
    "__vaddus2",
    "__vsubus4",
    "__vavgu4",
    "__vabsdiffu4",
    "__vmaxs2",
    "__vmins4",
    "__vmaxu4",
    "__vcmpeq4",
    "__vcmpgts2",
    "__vsetltu4",
    "__vneg2",
    "__vsadu4",
    "__vsadu2",
    "__vsads4",
    "__vabsdiffs2",
    "__viaddmax_s32",
    "__vimax3_s32",
    "__vimin_s32_relu",
    "__vimax_s16x2_relu",
];

const SHORTS: &[&str] = &["*", "/", "%", "unsigned /", "choice", "shifts", "signed char"];

/// Four bytes of `a` and `b`, picked by the nibbles of `selector`.
fn byte_perm(a: u32, b: u32, selector: u32) -> u32 {
    let bytes = u64::from(b) << 32 | u64::from(a);
    (0..4).map(|i| ((bytes >> (8 * (selector >> (4 * i) & 7))) as u32 & 0xff) << (8 * i)).sum()
}

fn by_bytes(a: u32, b: u32, f: impl Fn(u8, u8) -> u8) -> u32 {
    let (a, b) = (a.to_le_bytes(), b.to_le_bytes());
    u32::from_le_bytes(std::array::from_fn(|i| f(a[i], b[i])))
}

fn by_halves(a: u32, b: u32, f: impl Fn(u16, u16) -> u16) -> u32 {
    u32::from(f((a >> 16) as u16, (b >> 16) as u16)) << 16 | u32::from(f(a as u16, b as u16))
}

fn signed_halves(a: u32, b: u32, f: impl Fn(i16, i16) -> i16) -> u32 {
    by_halves(a, b, |a, b| f(a as i16, b as i16) as u16)
}

pub(super) fn cases() -> Vec<Case> {
    vec![arithmetic(), bits(), wide(), packed(), shorts()]
}

fn arithmetic() -> Case {
    // The edges; no division of the least number by -1, which C leaves undefined.
    let mut a: Vec<i32> = vec![i32::MIN, i32::MIN, i32::MAX, 0, 1, -1, 7, -7];
    let mut b: Vec<i32> = vec![3, i32::MIN, -1, 5, i32::MIN, 1, -7, 100];
    let n = 100;
    a.extend(words(n - a.len(), 1).into_iter().map(|word| (word as i32) >> (word >> 59)));
    b.extend(words(n - b.len(), 2).into_iter().map(|word| ((word as i32) >> (word >> 59)).max(-0x7fff_ffff) | 1));
    let low24 = |value: i32| (value << 8) >> 8;
    let expected = rows::<i32>(
        n,
        &[
            &|i| a[i].wrapping_add(b[i]),
            &|i| a[i].wrapping_mul(b[i]),
            &|i| a[i] / b[i],
            &|i| a[i] % b[i],
            &|i| (a[i] as u32 / b[i] as u32) as i32,
            &|i| (a[i] as u32 % b[i] as u32) as i32,
            &|i| a[i] / 7,
            &|i| a[i] % 5,
            &|i| (a[i] as u32 % 1_000_003) as i32,
            &|i| ((i64::from(a[i]) * i64::from(b[i])) >> 32) as i32,
            &|i| ((u64::from(a[i] as u32) * u64::from(b[i] as u32)) >> 32) as i32,
            &|i| low24(a[i]).wrapping_mul(low24(b[i])),
            &|i| (a[i] & 0xff_ffff).wrapping_mul(b[i] & 0xff_ffff),
            &|i| a[i].min(b[i]),
            &|i| a[i].max(b[i]),
            &|i| (a[i] as u32).min(b[i] as u32) as i32,
            &|i| (a[i] as u32).max(b[i] as u32) as i32,
            &|i| a[i].wrapping_abs(),
            &|i| a[i].abs_diff(b[i]).wrapping_add(3) as i32,
            &|i| (a[i] as u32).abs_diff(b[i] as u32).wrapping_add(3) as i32,
            &|i| ((i64::from(a[i]) + i64::from(b[i])) >> 1) as i32,
            &|i| ((i64::from(a[i]) + i64::from(b[i]) + 1) >> 1) as i32,
            &|i| ((u64::from(a[i] as u32) + u64::from(b[i] as u32)) >> 1) as i32,
            &|i| ((u64::from(a[i] as u32) + u64::from(b[i] as u32) + 1) >> 1) as i32,
            &|i| a[i] >> 3,
            &|i| (a[i] as u32 >> 3) as i32,
            &|i| a[i] << (b[i] & 31),
            &|i| a[i] >> (b[i] & 31),
        ],
    );
    Case::new("arithmetic").grid(2, 1, 1).input(&a).input(&b).out_rows(ARITHMETIC, &expected).value(n as i32)
}

fn bits() -> Case {
    let n = 60;
    let mut a: Vec<u32> = vec![0, 1, 0x8000_0000, u32::MAX];
    a.extend(words(n - a.len(), 3).into_iter().map(|word| word as u32 >> (word >> 60)));
    let b: Vec<u32> = words(n, 4).into_iter().map(|word| word as u32).collect();
    let both = |i: usize| u64::from(b[i]) << 32 | u64::from(a[i]);
    let left = |i: usize, by: u32| ((both(i) << by) >> 32) as u32;
    // A shift by 32 takes the other word whole.
    let left_clamped = |i: usize, by: u32| if by >= 32 { a[i] } else { left(i, by) };
    let right = |i: usize, by: u32| (both(i) >> by) as u32;
    let byte = |word: u32, i: usize| word.to_le_bytes()[i];
    let expected = rows::<u32>(
        n,
        &[
            &|i| a[i].leading_zeros(),
            &|i| a[i].count_ones(),
            &|i| a[i].reverse_bits(),
            &|i| if a[i] == 0 { 0 } else { a[i].trailing_zeros() + 1 },
            &|i| byte_perm(a[i], b[i], 0x5140),
            &|i| byte_perm(a[i], b[i], b[i] & 0x7777),
            &|i| left(i, 7),
            &|i| right(i, a[i] & 31),
            &|i| left_clamped(i, (a[i] & 63).min(32)),
            &|i| right(i, (a[i] & 63).min(32)),
            &|i| a[i].rotate_left(11),
            &|i| (a[i] >> 5) & 0x3f,
            &|i| ((a[i] << 8) as i32 >> 20) as u32,
            &|i| (a[i] & b[i]) | (b[i] & !a[i]) | (a[i] ^ 0x0f0f_0f0f),
            &|i| (a[i] & b[i]) ^ (!b[i] & 0x1234_5678),
            &|i| a[i] as i8 as u32,
            &|i| u32::from((a[i] >> 9) as u16),
            &|i| {
                (0..4).fold(3i32, |sum, k| sum + i32::from(byte(a[i], k) as i8) * i32::from(byte(b[i], k) as i8)) as u32
            },
            &|i| (0..4).fold(3u32, |sum, k| sum + u32::from(byte(a[i], k)) * u32::from(byte(b[i], k))),
            &|i| {
                let low = i32::from(a[i] as i16) * i32::from(byte(b[i], 0) as i8);
                (5 + low + i32::from((a[i] >> 16) as i16) * i32::from(byte(b[i], 1) as i8)) as u32
            },
            &|i| 5 + (a[i] & 0xffff) * u32::from(byte(b[i], 2)) + (a[i] >> 16) * u32::from(byte(b[i], 3)),
        ],
    );
    Case::new("bits").input(&a).input(&b).out_rows(BITS, &expected).value(n as i32)
}

fn wide() -> Case {
    let n = 60;
    let mut a: Vec<i64> = vec![i64::MIN, i64::MAX, 0, -1, 1 << 32, -(1 << 32)];
    let mut b: Vec<i64> = vec![3, -1, 5, 1 << 33, 1 << 31, i64::MAX];
    a.extend(words(n - a.len(), 5).into_iter().map(|word| word as i64 >> (word >> 58)));
    b.extend(words(n - b.len(), 6).into_iter().map(|word| (word as i64 >> (word >> 58)) | 1));
    let expected = rows::<i64>(
        n,
        &[
            &|i| a[i].wrapping_add(b[i]),
            &|i| a[i].wrapping_sub(b[i]),
            &|i| a[i].wrapping_mul(b[i]),
            &|i| a[i].wrapping_div(b[i]),
            &|i| a[i].wrapping_rem(b[i]),
            &|i| (a[i] as u64 / b[i] as u64) as i64,
            &|i| (a[i] as u64 % b[i] as u64) as i64,
            &|i| (a[i] as u64 % 1_000_003) as i64,
            &|i| a[i] / 10,
            &|i| ((i128::from(a[i]) * i128::from(b[i])) >> 64) as i64,
            &|i| ((u128::from(a[i] as u64) * u128::from(b[i] as u64)) >> 64) as i64,
            &|i| a[i].leading_zeros().into(),
            &|i| a[i].count_ones().into(),
            &|i| a[i].reverse_bits(),
            &|i| if a[i] == 0 { 0 } else { i64::from(a[i].trailing_zeros()) + 1 },
            &|i| a[i].min(b[i]),
            &|i| (a[i] as u64).max(b[i] as u64) as i64,
            &|i| a[i].wrapping_abs(),
            &|i| a[i] >> (b[i] & 63),
            &|i| (a[i] as u64 >> (b[i] & 63)) as i64,
            &|i| a[i] << (b[i] & 63),
            &|i| i64::from(a[i] as i32) * i64::from(b[i] as i32),
            &|i| (u64::from(a[i] as u32) * u64::from(b[i] as u32)).wrapping_add(b[i] as u64) as i64,
        ],
    );
    Case::new("wide").input(&a).input(&b).out_rows(WIDE, &expected).value(n as i32)
}

fn packed() -> Case {
    let n = 60;
    let mut a: Vec<u32> = vec![0x8000_7fff, 0xff00_807f, 0x0102_0304];
    let mut b: Vec<u32> = vec![0x8000_0001, 0x01ff_80ff, 0x0102_0304];
    a.extend(words(n - a.len(), 7).into_iter().map(|word| word as u32));
    b.extend(words(n - b.len(), 8).into_iter().zip(&a[3..]).map(|(word, a)| match word >> 62 {
        // Some lanes equal.
        0 => (word as u32 & 0xffff_ff00) | (a & 0xff),
        _ => word as u32,
    }));
    let expected = rows::<u32>(
        n,
        &[
            &|i| by_bytes(a[i], b[i], u8::wrapping_add),
            &|i| by_bytes(a[i], b[i], u8::wrapping_sub),
            &|i| by_bytes(a[i], b[i], |a, b| (a as i8).saturating_add(b as i8) as u8),
            &|i| by_halves(a[i], b[i], u16::saturating_add),
            &|i| by_bytes(a[i], b[i], u8::saturating_sub),
            &|i| by_bytes(a[i], b[i], |a, b| (u16::from(a) + u16::from(b)).div_ceil(2) as u8),
            &|i| by_bytes(a[i], b[i], u8::abs_diff),
            &|i| signed_halves(a[i], b[i], i16::max),
            &|i| by_bytes(a[i], b[i], |a, b| (a as i8).min(b as i8) as u8),
            &|i| by_bytes(a[i], b[i], u8::max),
            &|i| by_bytes(a[i], b[i], |a, b| if a == b { 0xff } else { 0 }),
            &|i| signed_halves(a[i], b[i], |a, b| if a > b { -1 } else { 0 }),
            &|i| by_bytes(a[i], b[i], |a, b| u8::from(a < b)),
            &|i| signed_halves(a[i], b[i], |a, _| a.wrapping_neg()),
            &|i| a[i].to_le_bytes().into_iter().zip(b[i].to_le_bytes()).map(|(a, b)| u32::from(a.abs_diff(b))).sum(),
            &|i| (a[i] >> 16).abs_diff(b[i] >> 16) + (a[i] & 0xffff).abs_diff(b[i] & 0xffff),
            &|i| {
                let signed = |word: u32| word.to_le_bytes().map(|byte| byte as i8);
                signed(a[i]).into_iter().zip(signed(b[i])).map(|(a, b)| u32::from(a.abs_diff(b))).sum()
            },
            &|i| by_halves(a[i], b[i], |a, b| (a as i16).abs_diff(b as i16)),
            &|i| a[i].wrapping_add(b[i]).cast_signed().max(4) as u32,
            &|i| a[i].cast_signed().max(b[i].cast_signed()).max(77) as u32,
            &|i| a[i].cast_signed().min(b[i].cast_signed()).max(0) as u32,
            &|i| signed_halves(a[i], b[i], |a, b| a.max(b).max(0)),
        ],
    );
    Case::new("packed").input(&a).input(&b).out_rows(PACKED, &expected).value(n as i32)
}

fn shorts() -> Case {
    let n = 60;
    let a: Vec<i16> = words(n, 9).into_iter().map(|word| word as i16).collect();
    let b: Vec<u8> = words(n, 10).into_iter().map(|word| word as u8 | 1).collect();
    let b_wide = |i: usize| i16::from(b[i]);
    let expected = rows::<i16>(
        n,
        &[
            &|i| a[i].wrapping_mul(b_wide(i)),
            &|i| a[i] / b_wide(i),
            &|i| a[i] % b_wide(i),
            &|i| (a[i] as u16 / u16::from(b[i])) as i16,
            &|i| if a[i] > b_wide(i) { a[i] } else { a[i].wrapping_neg() },
            &|i| a[i].wrapping_shl(2) | (a[i] >> 1),
            &|i| i16::from(a[i].wrapping_add(b_wide(i)) as i8),
        ],
    );
    Case::new("shorts").input(&a).input(&b).out_rows(SHORTS, &expected).value(n as i32)
}
