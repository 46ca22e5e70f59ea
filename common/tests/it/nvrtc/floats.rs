use crate::nvrtc::harness::{Case, Near, rows, uniform, uniform32, words};

const F32_EXACT: &[&str] = &[
    "+",
    "-",
    "*",
    "fmaf",
    "fminf",
    "fmaxf",
    "fabsf",
    "copysignf",
    "floorf",
    "ceilf",
    "truncf",
    "rintf",
    "roundf",
    "ldexpf",
    "frexpf",
    "frexpf's exponent",
    "modff",
    "modff's whole part",
    "fdimf",
    "<",
    "signbit",
    "__saturatef",
    "__fadd_rz",
    "__fadd_ru",
    "__fsub_rd",
    "__fmul_rz",
    "__fmul_ru",
    "__fmul_rd",
    "bits",
];

const F32_PRECISE: &[&str] = &[
    "/",
    "1 /",
    "sqrtf",
    "/ 3",
    "fmodf",
    "remainderf",
    "subnormal product",
    "subnormal quotient",
    "__frcp_rn",
    "__fsqrt_rn",
    "__fdiv_rn",
];

const F64_EXACT: &[&str] = &[
    "+",
    "*",
    "fma",
    "/",
    "/ 3",
    "1 /",
    "__drcp_rn",
    "sqrt",
    "fmin",
    "fmax",
    "floor",
    "ceil",
    "trunc",
    "rint",
    "round",
    "fmod",
    "copysign",
    "frexp",
    "frexp's exponent",
    "ldexp",
    "to float",
    "through float",
];

const CONVERSIONS: &[&str] = &[
    "__float2int_rn",
    "__float2int_rz",
    "__float2int_ru",
    "__float2int_rd",
    "__float2uint_rz",
    "__float2ll_rn",
    "__double2int_rz",
    "__double2ll_rd",
    "__double2uint_rn",
    "__double_as_longlong",
    "__ll2float_rn",
    "__int2float_rn",
    "__uint2float_rn",
    "__ll2double_rn",
    "unsigned to double",
    "__double2hiint",
    "__double2loint",
    "__hiloint2double",
    "__double2float_rz",
    "classes",
    "(short)",
    "(unsigned char)",
];

/// The neighbour of `value`, rounded to f32, that is not above / below / farther from zero than the exact value.
fn round32(value: f64, to: Toward) -> f32 {
    let nearest = value as f32;
    let wrong = match to {
        Toward::Down => f64::from(nearest) > value,
        Toward::Up => f64::from(nearest) < value,
        Toward::Zero => f64::from(nearest).abs() > value.abs(),
    };
    match (wrong, to) {
        (false, _) => nearest,
        (true, Toward::Down) => nearest.next_down(),
        (true, Toward::Up) => nearest.next_up(),
        (true, Toward::Zero) if value > 0.0 => nearest.next_down(),
        (true, Toward::Zero) => nearest.next_up(),
    }
}

#[derive(Clone, Copy)]
enum Toward {
    Down,
    Up,
    Zero,
}

pub(super) fn cases() -> Vec<Case> {
    vec![f32_exact(), f32_precise(), f64_exact(), conversions(), f32_functions(), f32_intrinsics(), f64_functions()]
}

/// Values whose sums and products are exact in f64, including halves and integers.
fn inputs32(n: usize) -> (Vec<f32>, Vec<f32>) {
    let mut a = vec![0.5, -0.5, 1.5, -2.5, 2.0, -3.0, 0.1, 0.999_999_94];
    let mut b = vec![1.0, 0.25, -1.5, 2.5, 3.0, 0.1, -0.1, 8.0];
    a.extend(uniform32(n - a.len(), 11, -20.0, 20.0));
    b.extend(uniform32(n - b.len(), 12, -20.0, 20.0));
    (a, b)
}

fn f32_exact() -> Case {
    let n = 120;
    let (a, b) = inputs32(n);
    let wide = |i: usize| (f64::from(a[i]), f64::from(b[i]));
    let expected = rows::<f32>(
        n,
        &[
            &|i| a[i] + b[i],
            &|i| a[i] - b[i],
            &|i| a[i] * b[i],
            &|i| a[i].mul_add(b[i], 0.3),
            &|i| a[i].min(b[i]),
            &|i| a[i].max(b[i]),
            &|i| a[i].abs(),
            &|i| b[i].copysign(a[i]),
            &|i| a[i].floor(),
            &|i| a[i].ceil(),
            &|i| a[i].trunc(),
            &|i| a[i].round_ties_even(),
            &|i| a[i].round(),
            &|i| a[i] * 8.0,
            &|i| libm::frexpf(a[i]).0,
            &|i| libm::frexpf(a[i]).1 as f32,
            &|i| (a[i] - a[i].trunc()).copysign(a[i]),
            &|i| a[i].trunc(),
            &|i| if a[i] > b[i] { a[i] - b[i] } else { 0.0 },
            &|i| if a[i] < b[i] { 1.0 } else { 2.0 },
            &|i| if a[i].is_sign_negative() { 1.0 } else { 2.0 },
            &|i| a[i].clamp(0.0, 1.0),
            &|i| round32(wide(i).0 + wide(i).1, Toward::Zero),
            &|i| round32(wide(i).0 + wide(i).1, Toward::Up),
            &|i| round32(wide(i).0 - wide(i).1, Toward::Down),
            &|i| round32(wide(i).0 * wide(i).1, Toward::Zero),
            &|i| round32(wide(i).0 * wide(i).1, Toward::Up),
            &|i| round32(wide(i).0 * wide(i).1, Toward::Down),
            &|i| f32::from_bits(a[i].to_bits() ^ 0x0040_0000),
        ],
    );
    Case::new("f32_exact").grid(2, 1, 1).input(&a).input(&b).out_rows(F32_EXACT, &expected).value(n as i32)
}

fn f32_precise() -> Case {
    let n = 120;
    let (a, b) = inputs32(n);
    let expected = rows::<f32>(
        n,
        &[
            &|i| a[i] / b[i],
            &|i| 1.0 / a[i],
            &|i| a[i].abs().sqrt(),
            &|i| a[i] / 3.0,
            &|i| a[i] % 0.3,
            &|i| libm::remainderf(a[i], 0.3),
            &|i| a[i] * 1e-40,
            &|i| a[i] * 1e-30 / 1e10,
            &|i| 1.0 / a[i],
            &|i| b[i].abs().sqrt(),
            &|i| b[i] / a[i],
        ],
    );
    Case::new("f32_precise")
        .grid(2, 1, 1)
        .input(&a)
        .input(&b)
        .out_rows(F32_PRECISE, &expected)
        .value(n as i32)
        .precise()
}

fn f64_exact() -> Case {
    let n = 60;
    let mut a = vec![0.5, -0.5, 1.5, -2.5, 1e300, -1e-300, 4e-320, 0.1];
    let mut b = vec![1.0, 0.25, -1.5, 2.5, 1e-10, 0.1, -0.1, 8.0];
    a.extend(uniform(n - a.len(), 13, -20.0, 20.0));
    b.extend(uniform(n - b.len(), 14, -20.0, 20.0));
    let expected = rows::<f64>(
        n,
        &[
            &|i| a[i] + b[i],
            &|i| a[i] * b[i],
            &|i| a[i].mul_add(b[i], 0.3),
            &|i| a[i] / b[i],
            &|i| a[i] / 3.0,
            &|i| 1.0 / a[i],
            &|i| 1.0 / b[i],
            &|i| a[i].abs().sqrt(),
            &|i| a[i].min(b[i]),
            &|i| a[i].max(b[i]),
            &|i| a[i].floor(),
            &|i| a[i].ceil(),
            &|i| a[i].trunc(),
            &|i| a[i].round_ties_even(),
            &|i| a[i].round(),
            &|i| a[i] % 0.3,
            &|i| b[i].copysign(a[i]),
            &|i| libm::frexp(a[i]).0,
            &|i| libm::frexp(a[i]).1.into(),
            &|i| a[i] / 8.0,
            &|i| (a[i] as f32).into(),
            &|i| f64::from(b[i] as f32) + 1.0,
        ],
    );
    // With --use_fast_math a conversion to float flushes.
    Case::new("f64_exact").input(&a).input(&b).out_rows(F64_EXACT, &expected).value(n as i32).precise()
}

fn conversions() -> Case {
    let n = 60;
    let mut a = vec![0.5f32, -1.5, 2.5, 3e9, -3e9, 1e19, f32::INFINITY, 255.5];
    let mut b = vec![0.5f64, -1.5, 2.5, 3e9, -3e9, 1e19, f64::INFINITY, -1e-3];
    let mut c = vec![i64::MIN, i64::MAX, 0, 1, 16_777_217, -16_777_217, 1 << 62, (1 << 53) + 1];
    a.extend(uniform32(n - a.len(), 15, -30000.0, 30000.0));
    b.extend(uniform(n - b.len(), 16, -3e6, 3e6));
    c.extend(words(n - c.len(), 17).into_iter().map(|word| word as i64 >> (word >> 58)));
    // An integer's bits, sign-extended as the kernel's are.
    let bits = |value: f32| i64::from(value.to_bits() as i32);
    let bits64 = |value: f64| value.to_bits() as i64;
    let expected = rows::<i64>(
        n,
        &[
            &|i| (a[i].round_ties_even() as i32).into(),
            &|i| (a[i] as i32).into(),
            &|i| (a[i].ceil() as i32).into(),
            &|i| (a[i].floor() as i32).into(),
            &|i| (a[i] as u32).into(),
            &|i| a[i].round_ties_even() as i64,
            &|i| (b[i] as i32).into(),
            &|i| b[i].floor() as i64,
            &|i| (b[i].round_ties_even() as u32).into(),
            &|i| bits64(b[i]),
            &|i| bits(c[i] as f32),
            &|i| bits(c[i] as i32 as f32),
            &|i| bits(c[i] as u32 as f32),
            &|i| bits64(c[i] as f64),
            &|i| bits64(c[i] as u64 as f64),
            &|i| (bits64(b[i]) >> 32) as i32 as i64,
            &|i| bits64(b[i]) as i32 as i64,
            &|i| (c[i] << 32) | 7,
            &|i| bits(if b[i].is_infinite() { f32::INFINITY } else { round32(b[i], Toward::Zero) }),
            &|i| i64::from(a[i].is_nan()) + 2 * i64::from(b[i].is_infinite()) + 4 * i64::from(a[i].is_finite()),
            &|i| i64::from(a[i].clamp(-30000.0, 30000.0) as i16),
            &|i| i64::from(a[i].abs().min(255.0) as u8),
        ],
    );
    Case::new("conversions").input(&a).input(&b).input(&c).out_rows(CONVERSIONS, &expected).value(n as i32)
}

/// The distance of neighbouring f32 at `value`.
pub(super) fn ulp32(value: f64) -> f64 {
    let magnitude = (value.abs() as f32).max(f32::MIN_POSITIVE);
    f64::from(magnitude.next_up()) - f64::from(magnitude)
}

fn ulp64(value: f64) -> f64 {
    let magnitude = value.abs().max(f64::MIN_POSITIVE);
    magnitude.next_up() - magnitude
}

/// A row: its name, the maximum error stated in the CUDA programming guide (in units in the last place, plus 1 if the
/// reference itself is only that accurate), the error allowed with `--use_fast_math` (relative plus absolute), and the
/// reference.
type Row<'a> = (&'static str, f64, f64, &'a dyn Fn(f64, f64) -> f64);

/// A row whose bound is a function of the exact value.
type BoundedRow<'a> = (&'static str, &'a dyn Fn(f64) -> f64, &'a dyn Fn(f64, f64) -> f64);

fn near_rows(table: &[Row], a: &[f64], b: &[f64], ulp: fn(f64) -> f64) -> (Vec<&'static str>, Vec<Near>) {
    let names = table.iter().map(|row| row.0).collect();
    let values = table.iter().flat_map(|&(_, ulps, fast, f)| {
        a.iter().zip(b).map(move |(&a, &b)| {
            let value = f(a, b);
            // The guide counts from the correctly rounded result.
            let bound = (ulps + 0.5) * ulp(value);
            Near { value, bound, fast: bound.max(fast * (1.0 + value.abs())) }
        })
    });
    (names, values.collect())
}

fn widen(values: &[f32]) -> Vec<f64> {
    values.iter().map(|&value| value.into()).collect()
}

fn normal_cdf(x: f64) -> f64 {
    0.5 * libm::erfc(-x * std::f64::consts::FRAC_1_SQRT_2)
}

/// By Newton's method on erf, which has no closed inverse.
fn erf_inverse(y: f64) -> f64 {
    let slope = std::f64::consts::FRAC_2_SQRT_PI;
    (0..50).fold(0.0, |x, _| x - (libm::erf(x) - y) / (slope * f64::exp(-x * x)))
}

fn f32_functions() -> Case {
    let n = 100;
    let (a, b) = (uniform32(n, 18, -6.0, 6.0), uniform32(n, 19, 0.05, 7.5));
    // 2^-20: the documented error of __sinf, __expf and the like for these arguments, plus one more rounding.
    const FAST: f64 = 1.0 / (1 << 20) as f64;
    // tanh.approx: 2^-11 relative.
    const FAST_TANH: f64 = 1.0 / (1 << 11) as f64;
    let table: &[Row] = &[
        ("expf", 2.0, 8.0 * FAST, &|x, _| x.exp()),
        ("exp2f", 2.0, FAST, &|x, _| x.exp2()),
        ("exp10f", 2.0, 16.0 * FAST, &|x, _| 10f64.powf(x)),
        ("expm1f", 1.0, 8.0 * FAST, &|x, _| x.exp_m1()),
        ("logf", 1.0, FAST, &|_, y| y.ln()),
        ("log2f", 1.0, FAST, &|_, y| y.log2()),
        ("log10f", 2.0, FAST, &|_, y| y.log10()),
        ("log1pf", 1.0, FAST, &|_, y| y.ln_1p()),
        ("powf", 4.0, 4.0 * FAST, &|_, y| y.powf(f64::from(1.7f32))),
        ("sinf", 2.0, FAST, &|x, _| x.sin()),
        ("cosf", 2.0, FAST, &|x, _| x.cos()),
        ("sincosf's sine", 2.0, FAST, &|x, _| x.sin()),
        ("sincosf's cosine", 2.0, FAST, &|x, _| x.cos()),
        ("sinpif", 1.0, FAST, &|x, _| (std::f64::consts::PI * x).sin()),
        // cos(1.5) is 0.07, and the error of the cosine is divided by its square.
        ("tanf", 4.0, 256.0 * FAST, &|x, _| (0.25 * x).tan()),
        ("asinf", 2.0, 4.0 * FAST, &|x, _| (0.125 * x).asin()),
        ("acosf", 2.0, 4.0 * FAST, &|x, _| (0.125 * x).acos()),
        ("atanf", 2.0, 4.0 * FAST, &|x, _| x.atan()),
        ("atan2f", 3.0, 4.0 * FAST, &|x, y| x.atan2(y)),
        ("sinhf", 3.0, 8.0 * FAST, &|x, _| x.sinh()),
        ("coshf", 2.0, 8.0 * FAST, &|x, _| x.cosh()),
        ("tanhf", 2.0, FAST_TANH, &|x, _| x.tanh()),
        ("asinhf", 3.0, 4.0 * FAST, &|x, _| x.asinh()),
        ("erff", 2.0, 4.0 * FAST, &|x, _| libm::erf(x)),
        ("erfcf", 4.0, 4.0 * FAST, &|x, _| libm::erfc(x)),
        ("normcdff", 5.0, 4.0 * FAST, &|x, _| normal_cdf(x)),
        ("erfinvf", 2.0, 4.0 * FAST, &|x, _| erf_inverse(0.125 * x)),
        ("lgammaf", 6.0, 8.0 * FAST, &|_, y| libm::lgamma(y)),
        ("tgammaf", 5.0, 16.0 * FAST, &|_, y| libm::tgamma(y)),
        ("j0f", 9.0, 4.0 * FAST, &|_, y| libm::j0(y)),
        ("cbrtf", 1.0, 4.0 * FAST, &|x, _| x.cbrt()),
        ("hypotf", 3.0, 4.0 * FAST, &|x, y| x.hypot(y)),
        ("rsqrtf", 2.0, FAST, &|_, y| 1.0 / y.sqrt()),
        ("rhypotf", 2.0, 4.0 * FAST, &|x, y| 1.0 / x.hypot(y)),
    ];
    let (names, mut values) = near_rows(table, &widen(&a), &widen(&b), ulp32);
    // Near their zeros the guide states an absolute bound of lgammaf and j0f: the largest ulp of their intermediate terms.
    for (near, name) in values.iter_mut().zip(names.iter().flat_map(|name| std::iter::repeat_n(name, n))) {
        if matches!(*name, "lgammaf" | "j0f") {
            near.bound = near.bound.max(9.0 * ulp32(0.5));
        }
    }
    Case::new("f32_functions").grid(2, 1, 1).input(&a).input(&b).near::<f32>(names, values).value(n as i32)
}

fn f32_intrinsics() -> Case {
    let n = 100;
    let (a, b) = (uniform32(n, 20, -6.0, 6.0), uniform32(n, 21, 0.05, 7.5));
    let (x, y) = (widen(&a), widen(&b));
    let small = 2f64.powi(-21);
    // Bounds of the programming guide: ulps for the first and the divisions, absolute for sine, cosine and logarithms.
    let table: &[BoundedRow] = &[
        ("__expf", &|v| 10.0 * ulp32(v), &|x, _| x.exp()),
        ("__exp10f", &|v| 20.0 * ulp32(v), &|x, _| 10f64.powf(x)),
        ("__logf", &|v| small + 3.0 * ulp32(v), &|_, y| y.ln()),
        ("__log2f", &|v| small + 2.0 * ulp32(v), &|_, y| y.log2()),
        ("__log10f", &|v| small + 3.0 * ulp32(v), &|_, y| y.log10()),
        // exp2(1.7 log2 y): the logarithm's absolute error, times 1.7, is the result's relative error.
        ("__powf", &|v| 2.0 * small * v + 8.0 * ulp32(v), &|_, y| y.powf(f64::from(1.7f32))),
        ("__sinf", &|_| small, &|x, _| (0.375 * x).sin()),
        ("__cosf", &|_| small, &|x, _| (0.375 * x).cos()),
        ("__fdividef", &|v| 2.5 * ulp32(v), &|x, y| x / y),
        ("__frsqrt_rn", &|v| 0.5 * ulp32(v), &|_, y| 1.0 / y.sqrt()),
        ("sigmoid", &|v| 12.0 * ulp32(v), &|x, _| 1.0 / (1.0 + (-x).exp())),
    ];
    let names = table.iter().map(|row| row.0).collect();
    let values = table.iter().flat_map(|(_, bound, f)| {
        x.iter().zip(&y).map(move |(&x, &y)| {
            let value = f(x, y);
            Near { value, bound: bound(value), fast: bound(value) + 2.0 * ulp32(value) }
        })
    });
    let values = values.collect();
    Case::new("f32_intrinsics").grid(2, 1, 1).input(&a).input(&b).near::<f32>(names, values).value(n as i32)
}

fn f64_functions() -> Case {
    let n = 60;
    let (a, b) = (uniform(n, 22, -6.0, 6.0), uniform(n, 23, 0.05, 7.5));
    let table: &[Row] = &[
        ("exp", 2.0, 0.0, &|x, _| x.exp()),
        ("exp2", 2.0, 0.0, &|x, _| x.exp2()),
        ("expm1", 2.0, 0.0, &|x, _| x.exp_m1()),
        ("log", 2.0, 0.0, &|_, y| y.ln()),
        ("log2", 2.0, 0.0, &|_, y| y.log2()),
        ("log10", 2.0, 0.0, &|_, y| y.log10()),
        ("log1p", 2.0, 0.0, &|_, y| y.ln_1p()),
        ("pow", 3.0, 0.0, &|_, y| y.powf(1.7)),
        ("sin", 3.0, 0.0, &|x, _| x.sin()),
        ("cos", 3.0, 0.0, &|x, _| x.cos()),
        ("tan", 3.0, 0.0, &|x, _| (0.25 * x).tan()),
        ("asin", 3.0, 0.0, &|x, _| (0.125 * x).asin()),
        ("acos", 3.0, 0.0, &|x, _| (0.125 * x).acos()),
        ("atan", 3.0, 0.0, &|x, _| x.atan()),
        ("atan2", 3.0, 0.0, &|x, y| x.atan2(y)),
        ("sinh", 3.0, 0.0, &|x, _| x.sinh()),
        ("cosh", 2.0, 0.0, &|x, _| x.cosh()),
        ("tanh", 3.0, 0.0, &|x, _| x.tanh()),
        ("erf", 3.0, 0.0, &|x, _| libm::erf(x)),
        ("erfc", 6.0, 0.0, &|x, _| libm::erfc(x)),
        // Near its zeros at 1 and 2 the error is that of terms of size 1.
        ("lgamma", 5.0, 0.0, &|_, y| libm::lgamma(y)),
        ("cbrt", 2.0, 0.0, &|x, _| x.cbrt()),
        ("hypot", 3.0, 0.0, &|x, y| x.hypot(y)),
        ("rsqrt", 2.0, 0.0, &|_, y| 1.0 / y.sqrt()),
    ];
    let (names, values) = near_rows(table, &a, &b, ulp64);
    Case::new("f64_functions").input(&a).input(&b).near::<f64>(names, values).value(n as i32)
}
