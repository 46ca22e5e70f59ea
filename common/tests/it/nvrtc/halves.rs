use half::{bf16, f16};

use crate::nvrtc::harness::{Case, Near, Number, rows, uniform32, words};

const EXACT: &[&str] = &[
    "__hadd", "__hsub", "__hmul", "__hfma", "__hmin", "__hmax", "__hneg", "__habs", "hfloor", "hceil", "htrunc",
    "hrint", "__hgt", "__hle",
];

const PAIRS: &[&str] =
    &["__hadd2", "__hsub2", "__hmul2", "__hfma2", "__hmin2", "__hmax2", "__hneg2", "__habs2", "lows", "halves"];

const CONVERSIONS: &[&str] = &[
    "__float2half_rn",
    "__float2half_rz",
    "__int2half_rn",
    "__ushort2half_rn",
    "__half2int_rz",
    "__half2short_rn",
    "__float2bfloat16_rn",
    "__int2bfloat16_rn",
    "__bfloat162int_rz",
    "__double2half",
    "low of __floats2half2_rn",
    "high of __floats2half2_rn",
    "high of __floats2bfloat162_rn",
];

/// A 16-bit float: f64 holds its sums, products and fused products of moderate size exactly, so rounding once is right.
trait Half: Number {
    const SIGNIFICAND_BITS: i32;
    fn round(value: f64) -> Self;
}

impl Half for f16 {
    const SIGNIFICAND_BITS: i32 = 11;
    fn round(value: f64) -> f16 {
        f16::from_f64(value)
    }
}

impl Half for bf16 {
    const SIGNIFICAND_BITS: i32 = 8;
    fn round(value: f64) -> bf16 {
        bf16::from_f64(value)
    }
}

pub(super) fn cases() -> Vec<Case> {
    vec![
        exact::<f16>("f16_exact"),
        exact::<bf16>("bf16_exact").minimum(80),
        pairs::<f16>("f16_pairs"),
        pairs::<bf16>("bf16_pairs").minimum(80),
        conversions(),
        f16_functions(),
        bf16_functions(),
        atomics(),
        fp8(),
    ]
}

fn inputs<T: Half>(n: usize, seed: u64, low: f64, high: f64) -> Vec<T> {
    uniform32(n, seed, low, high).into_iter().map(|value| T::round(value.into())).collect()
}

/// Three inputs of `n` values, and the leading results of [`EXACT`] and [`PAIRS`]; `own` gives the rows that follow, from the
/// inputs as f64.
fn arithmetic<T: Half>(
    n: usize,
    seeds: [u64; 3],
    own: impl FnOnce(&[f64], &[f64], &[f64]) -> Vec<f64>,
) -> ([Vec<T>; 3], Vec<T>) {
    let inputs = seeds.map(|seed| inputs::<T>(n, seed, -10.0, 10.0));
    let [x, y, z] = inputs.each_ref().map(|values| values.iter().map(|value| value.to_f64()).collect::<Vec<f64>>());
    let mut expected = rows::<f64>(
        n,
        &[
            &|i| x[i] + y[i],
            &|i| x[i] - y[i],
            &|i| x[i] * y[i],
            &|i| x[i] * y[i] + z[i],
            &|i| x[i].min(y[i]),
            &|i| x[i].max(y[i]),
            &|i| -x[i],
            &|i| x[i].abs(),
        ],
    );
    expected.extend(own(&x, &y, &z));
    (inputs, expected.into_iter().map(T::round).collect())
}

fn exact<T: Half>(kernel: &'static str) -> Case {
    let n = 60;
    let ([a, b, c], expected) = arithmetic::<T>(n, [31, 32, 33], |x, y, z| {
        rows(
            n,
            &[
                &|i| x[i].floor(),
                &|i| x[i].ceil(),
                &|i| x[i].trunc(),
                &|i| x[i].round_ties_even(),
                &|i| if x[i] > y[i] { x[i] } else { z[i] },
                &|i| if x[i] <= y[i] { x[i] } else { z[i] },
            ],
        )
    });
    Case::new(kernel).input(&a).input(&b).input(&c).out_rows(EXACT, &expected).value(n as i32)
}

fn pairs<T: Half>(kernel: &'static str) -> Case {
    // `n` values are n / 2 pairs.
    let n = 100;
    let ([a, b, c], expected) = arithmetic::<T>(n, [34, 35, 36], |x, y, _| {
        rows(n, &[&|i| if i % 2 == 0 { x[i] } else { y[i - 1] }, &|i| if i % 2 == 0 { x[i + 1] } else { y[i - 1] }])
    });
    Case::new(kernel).input(&a).input(&b).input(&c).out_rows(PAIRS, &expected).value(n as i32 / 2)
}

fn conversions() -> Case {
    let n = 60;
    let mut a = vec![0.0f32, -0.0, 1.0 + 1.0 / 2048.0, 1.0 + 3.0 / 2048.0, 65504.0, 1e-7, -3e-6, 0.1];
    a.extend(uniform32(n - a.len(), 37, -2000.0, 2000.0));
    let b: Vec<i32> = words(n, 38).into_iter().map(|word| word as i32 >> (16 + (word >> 60))).collect();
    let toward_zero = |value: f32| {
        let nearest = f16::from_f32(value);
        let beyond = nearest.to_f32().abs() > value.abs();
        nearest.to_bits() - u16::from(beyond)
    };
    let low = |value: i32| value as u16;
    let expected = rows::<u16>(
        n,
        &[
            &|i| f16::from_f32(a[i]).to_bits(),
            &|i| toward_zero(a[i]),
            &|i| f16::from_f64(b[i].into()).to_bits(),
            &|i| f16::from_f64(low(b[i]).into()).to_bits(),
            &|i| low(f16::from_f32(a[i]).to_f32() as i32),
            &|i| f16::from_f32(a[i]).to_f32().round_ties_even() as i16 as u16,
            &|i| bf16::from_f32(a[i]).to_bits(),
            &|i| bf16::from_f64(b[i].into()).to_bits(),
            &|i| low(bf16::from_f32(a[i]).to_f32() as i32),
            &|i| f16::from_f32(a[i]).to_bits(),
            &|i| f16::from_f32(a[i]).to_bits(),
            &|i| f16::from_f32(a[i]).to_bits(),
            &|i| bf16::from_f32(a[i]).to_bits(),
        ],
    );
    // With --use_fast_math the conversion of a subnormal may flush; there is none here, in f32.
    Case::new("half_conversions").input(&a).input(&b).out_rows(CONVERSIONS, &expected).value(n as i32)
}

type Row<'a> = (&'static str, &'a dyn Fn(f64, f64) -> f64);

/// Each within two units in the last place: the headers compute in f32 and round once, or use an instruction with that error.
fn functions<T: Half>(kernel: &'static str, table: &[Row]) -> Case {
    let n = 60;
    let (a, b) = (inputs::<T>(n, 39, -3.0, 3.0), inputs::<T>(n, 40, 0.1, 8.0));
    let values = table.iter().flat_map(|(_, f)| {
        a.iter().zip(&b).map(move |(a, b)| {
            let value = f(a.to_f64(), b.to_f64());
            let ulp = 2f64.powi(value.abs().max(2f64.powi(-10)).log2().floor() as i32 + 1 - T::SIGNIFICAND_BITS);
            Near { value, bound: 2.0 * ulp, fast: 2.0 * ulp }
        })
    });
    let values = values.collect();
    let names = table.iter().map(|row| row.0).collect();
    Case::new(kernel).input(&a).input(&b).near::<T>(names, values).value(n as i32)
}

fn f16_functions() -> Case {
    let table: &[Row] = &[
        ("__hdiv", &|x, y| x / y),
        ("hsqrt", &|_, y| y.sqrt()),
        ("hrsqrt", &|_, y| 1.0 / y.sqrt()),
        ("hrcp", &|_, y| 1.0 / y),
        ("hexp", &|x, _| x.exp()),
        ("hexp2", &|x, _| x.exp2()),
        ("hlog", &|_, y| y.ln()),
        ("hlog2", &|_, y| y.log2()),
        ("hsin", &|x, _| x.sin()),
        ("hcos", &|x, _| x.cos()),
        ("h2exp", &|x, _| x.exp()),
        ("__h2div", &|x, y| x / y),
    ];
    functions::<f16>("f16_functions", table)
}

fn bf16_functions() -> Case {
    let table: &[Row] = &[
        ("__hdiv", &|x, y| x / y),
        ("hsqrt", &|_, y| y.sqrt()),
        ("hrsqrt", &|_, y| 1.0 / y.sqrt()),
        ("hrcp", &|_, y| 1.0 / y),
        ("hexp", &|x, _| x.exp()),
        ("hlog", &|_, y| y.ln()),
        ("hsin", &|x, _| x.sin()),
        ("hcos", &|x, _| x.cos()),
    ];
    functions::<bf16>("bf16_functions", table)
}

fn atomics() -> Case {
    let threads = 64;
    let sum: i32 = (0..threads).map(|t| t & 7).sum();
    let h = |value: f32| f16::from_f32(value);
    let b = |value: f32| bf16::from_f32(value);
    Case::new("half_atomics")
        .inout(&[h(1.0), h(2.0)], &[h(1.0 + sum as f32), h(66.0)])
        .inout(&[b(3.0), b(4.0)], &[b(35.0), b(36.0)])
        .inout(&[h(10.0), h(0.0)], &[h(138.0), h(0.0)])
}

/// The nearest of the finite values of an 8-bit format, ties to even; saturating.
fn narrow(value: f32, mantissa_bits: u32, bias: i32, largest: u8) -> u8 {
    let decode = |code: u8| widen(code, mantissa_bits, bias);
    let distance = |code: u8| (decode(code) - f64::from(value).abs()).abs();
    let code = (0..=largest).min_by(|&a, &b| distance(a).total_cmp(&distance(b)).then((a & 1).cmp(&(b & 1)))).unwrap();
    code | if value.is_sign_negative() { 0x80 } else { 0 }
}

fn widen(code: u8, mantissa_bits: u32, bias: i32) -> f64 {
    let exponent = i32::from((code & 0x7f) >> mantissa_bits);
    let mantissa = f64::from(code & ((1 << mantissa_bits) - 1)) / f64::from(1 << mantissa_bits);
    let magnitude = match exponent {
        0 => mantissa * 2f64.powi(1 - bias),
        _ => (1.0 + mantissa) * 2f64.powi(exponent - bias),
    };
    if code & 0x80 != 0 { -magnitude } else { magnitude }
}

fn fp8() -> Case {
    let n = 64;
    let mut x = vec![0.0, -0.0, 448.0, 464.0, 1e6, -1e6, 0.017, -0.0009, 1.0625, 1.1875];
    x.extend(uniform32(20, 41, -1.0, 1.0));
    x.extend(uniform32(n - x.len(), 42, -400.0, 400.0));
    let e4m3: Vec<u8> = x.iter().map(|&value| narrow(value, 3, 7, 0x7e)).collect();
    let e5m2: Vec<u8> = x.iter().map(|&value| narrow(value, 2, 15, 0x7b)).collect();
    let back = e4m3.iter().map(|&code| widen(code, 3, 7) as f32);
    let back: Vec<f32> = back.chain(e5m2.iter().map(|&code| widen(code, 2, 15) as f32)).collect();
    Case::new("fp8").input(&x).out(&e4m3).out(&e5m2).out_rows(&["e4m3", "e5m2"], &back).value(n as i32)
}
