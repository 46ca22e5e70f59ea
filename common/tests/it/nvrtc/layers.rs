use bytemuck::{Pod, Zeroable};

use crate::nvrtc::harness::{Case, Near, uniform32};

/// The unit round-off of f32.
const U: f64 = 1.0 / (1 << 24) as f64;
/// The relative error allowed here for the approximations of `--use_fast_math`: 2^-18.
const FAST: f64 = 1.0 / (1 << 18) as f64;

pub(super) fn cases() -> Vec<Case> {
    vec![
        layer_norm_gelu(),
        online_softmax(),
        gemm_bias_relu(),
        max_pool(),
        attention(),
        diffusion_step(),
        timestep_embedding(),
    ]
}

/// After `operations` roundings of numbers of this magnitude.
fn near(value: f64, operations: usize, magnitude: f64) -> Near {
    let bound = operations as f64 * U * magnitude;
    Near { value, bound, fast: bound + FAST * magnitude }
}

fn layer_norm_gelu() -> Case {
    let (rows, n) = (3, 100);
    let (x, gain) = (uniform32(rows * n, 101, -2.0, 3.0), uniform32(n, 102, 0.5, 1.5));
    let values = x
        .chunks(n)
        .flat_map(|row| {
            let mean = row.iter().map(|&v| f64::from(v)).sum::<f64>() / n as f64;
            let variance = row.iter().map(|&v| (f64::from(v) - mean).powi(2)).sum::<f64>() / n as f64;
            row.iter().zip(&gain).map(move |(&v, &gain)| {
                let v = (f64::from(v) - mean) / (variance + 1e-5).sqrt() * f64::from(gain);
                let value = 0.5 * v * (1.0 + libm::erf(v * std::f64::consts::FRAC_1_SQRT_2));
                // GELU's slope is at most 1.13; the sums go through 4 + 5 additions each.
                near(value, 40, 1.0 + v.abs())
            })
        })
        .collect();
    Case::new("layer_norm_gelu")
        .grid(rows as u32, 1, 1)
        .block(32, 1, 1)
        .input(&x)
        .input(&gain)
        .near::<f32>(vec![], values)
        .value(n as i32)
}

fn online_softmax() -> Case {
    // Fewer values than lanes in one case would leave lanes at minus infinity; 40 leave some with one value.
    let (rows, n) = (3, 40);
    let x = uniform32(rows * n, 103, -10.0, 10.0);
    let values = x
        .chunks(n)
        .flat_map(|row| {
            let sum: f64 = row.iter().map(|&v| f64::from(v).exp()).sum();
            row.iter().map(move |&v| {
                let value = f64::from(v).exp() / sum;
                // exp turns the rounding of an argument of size 20 into a relative error.
                near(value, 60, value)
            })
        })
        .collect();
    Case::new("online_softmax")
        .grid(rows as u32, 1, 1)
        .block(32, 1, 1)
        .input(&x)
        .near::<f32>(vec![], values)
        .value(n as i32)
}

fn gemm_bias_relu() -> Case {
    let (m, n, k) = (45, 50, 37);
    let (a, b, bias) =
        (uniform32(m * k, 104, -1.0, 1.0), uniform32(k * n, 105, -1.0, 1.0), uniform32(n, 106, -1.0, 1.0));
    let values = (0..m * n)
        .map(|i| {
            let terms = || (0..k).map(|l| f64::from(a[i / n * k + l]) * f64::from(b[l * n + i % n]));
            let bias = f64::from(bias[i % n]);
            let magnitude = terms().map(f64::abs).sum::<f64>() + bias.abs();
            let bound = (k + 2) as f64 * U * magnitude;
            Near { value: (terms().sum::<f64>() + bias).max(0.0), bound, fast: bound }
        })
        .collect();
    Case::new("gemm_bias_relu")
        .grid(n.div_ceil(32) as u32, m.div_ceil(32) as u32, 1)
        .input(&a)
        .input(&b)
        .input(&bias)
        .near::<f32>(vec![], values)
        .value(m as i32)
        .value(n as i32)
        .value(k as i32)
}

/// The struct of `layers.cu`.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct Pool {
    channels: i32,
    height: i32,
    width: i32,
    kernel: i32,
    stride: i32,
    pad: i32,
    out_height: i32,
    out_width: i32,
}

fn max_pool() -> Case {
    let p = Pool { channels: 2, height: 9, width: 11, kernel: 3, stride: 2, pad: 1, out_height: 5, out_width: 6 };
    let x = uniform32(2 * 9 * 11, 107, -5.0, -1.0);
    let window = |out: i32, size: i32| (out * 2 - 1..out * 2 + 2).filter(move |i| (0..size).contains(i));
    let expected: Vec<f32> = (0..2 * 5 * 6)
        .map(|i| {
            let (channel, oy, ox) = (i / 30, i / 6 % 5, i % 6);
            let inside = window(oy, 9).flat_map(|y| window(ox, 11).map(move |x| (channel * 9 + y) * 11 + x));
            inside.map(|i| x[i as usize]).fold(f32::NEG_INFINITY, f32::max)
        })
        .collect();
    Case::new("max_pool").input(&x).out(&expected).value(p)
}

fn attention() -> Case {
    let (queries, keys, d) = (6, 21, 32);
    let [q, k, v] = [(queries, 108), (keys, 109), (keys, 110)].map(|(n, seed)| uniform32(n * d, seed, -2.0, 2.0));
    let wide = |values: &[f32], i: usize| f64::from(values[i]);
    let values = (0..queries * d)
        .map(|i| {
            let (query, column) = (i / d, i % d);
            let score = |key: usize| (0..d).map(|j| wide(&q, query * d + j) * wide(&k, key * d + j)).sum::<f64>();
            let weights: Vec<f64> = (0..keys).map(|key| (score(key) / (d as f64).sqrt()).exp()).collect();
            let sum: f64 = weights.iter().sum();
            let value = weights.iter().enumerate().map(|(key, w)| w / sum * wide(&v, key * d + column)).sum();
            // A score of 32 terms within ±4 has 7 roundings of at most 128/√32; __expf adds a few ulps; the rest are sums.
            near(value, 400, 2.0)
        })
        .collect();
    Case::new("attention")
        .grid(3, 1, 1)
        .block(32, 2, 1)
        .shared(2 * 8 * 32 * 4)
        .input(&q)
        .input(&k)
        .input(&v)
        .near::<f32>(vec![], values)
        .value(keys as i32)
}

fn diffusion_step() -> Case {
    let n = 100;
    let (x, noise, before) = (uniform32(n, 111, -1.5, 1.5), uniform32(n, 112, -1.0, 1.0), uniform32(n, 113, -1.0, 1.0));
    // α such that no |x̂ − p| is near τ, where rounding would choose.
    let (alpha, weight, threshold) = (0.7f32, 0.625f32, 0.5f32);
    let [a, w, tau] = [alpha, weight, threshold].map(f64::from);
    let values = (0..n)
        .map(|i| {
            let [x, e, p] = [x[i], noise[i], before[i]].map(f64::from);
            let clean = (x - (1.0 - a).sqrt() * e) / a.sqrt();
            assert!(((clean - p).abs() - tau).abs() > 1e-4, "a value at the threshold");
            let blended = if (clean - p).abs() <= tau { w * clean + (1.0 - w) * p } else { clean };
            near(blended.clamp(-1.0, 1.0), 12, 4.0)
        })
        .collect();
    Case::new("diffusion_step")
        .grid(2, 1, 1)
        .input(&x)
        .input(&noise)
        .input(&before)
        .near::<f32>(vec![], values)
        .value(alpha)
        .value(weight)
        .value(threshold)
        .value(n as i32)
}

fn timestep_embedding() -> Case {
    let (half, step) = (32, 37.0);
    let angle = |j: usize| step * 10_000f64.powf(-(j as f64) / half as f64);
    // powf is within 4 ulps and the angle reaches 37; with --use_fast_math powf loses as many bits as its exponent has, and the
    // sine's argument reduction is not accurate: 2^-14.7 is what PTX documents within ±100π.
    let rounded = |value: f64, j: usize| Near {
        value,
        bound: (10.0 * angle(j) + 4.0) * U,
        fast: (200.0 * angle(j) + 4.0) * U + 2f64.powf(-14.7),
    };
    let silu = |v: f64| v / (1.0 + (-v).exp());
    let values = (0..3 * half)
        .map(|i| {
            let (sine, cosine) = angle(i % half).sin_cos();
            rounded([cosine, sine, silu(sine + cosine)][i / half], i % half)
        })
        .map(|near| Near { bound: near.bound * 2.5, fast: near.fast * 2.5, ..near })
        .collect();
    Case::new("timestep_embedding")
        .block(half as u32, 1, 1)
        .value(step as f32)
        .near::<f32>(vec!["cosine", "sine", "silu"], values)
        .value(half as i32)
}
