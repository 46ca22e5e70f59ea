use bytemuck::{Pod, Zeroable};

use crate::nvrtc::harness::{Case, rows, uniform, uniform32, words};

pub(super) fn cases() -> Vec<Case> {
    let mut cases = vec![
        static_and_dynamic_shared(),
        vectors(),
        constants(),
        local_array(),
        globals(),
        cache_hints(),
        atomics(),
        atomic_loop(),
        pipeline(),
        address_spaces(),
    ];
    cases.extend(structs());
    cases
}

fn static_and_dynamic_shared() -> Case {
    let x = uniform32(256, 71, -1.0, 1.0);
    let order = |r: usize| (r * 5 + 3) % 16;
    let expected: Vec<f32> = (0..256).map(|i| x[i % 16 * 16 + order(i / 16)] * ((i / 16) as f32 + 0.5)).collect();
    Case::new("static_and_dynamic_shared").block(16, 16, 1).shared(128).input(&x).out(&expected)
}

/// Each chunk of `n` through `f`.
fn chunked<T: Copy, const N: usize>(values: &[T], f: impl Fn([T; N]) -> [T; N]) -> Vec<T> {
    values.chunks_exact(N).flat_map(|chunk| f(std::array::from_fn(|i| chunk[i]))).collect()
}

fn vectors() -> Case {
    let t = 64;
    let f = uniform32(4 * t, 72, -1.0, 1.0);
    let i: Vec<i32> = words(2 * t, 73).into_iter().map(|word| word as i32 >> 2).collect();
    let d = uniform(2 * t, 74, -1.0, 1.0);
    let c: Vec<u8> = words(4 * t, 75).into_iter().map(|word| word as u8).collect();
    let s: Vec<i16> = words(2 * t, 76).into_iter().map(|word| word as i16 >> 1).collect();
    let l: Vec<i64> = words(2 * t, 77).into_iter().map(|word| word as i64).collect();
    Case::new("vectors")
        .input(&f)
        .input(&i)
        .input(&d)
        .input(&c)
        .input(&s)
        .input(&l)
        .out(&chunked(&f, |[x, y, z, w]| [w, z, y, x + w]))
        .out(&chunked(&i, |[x, y]| [y - x, x]))
        .out(&chunked(&d, |[x, y]| [y, x * 2.0]))
        .out(&chunked(&c, |[x, y, z, w]| [w, x.wrapping_add(y), z, x]))
        .out(&chunked(&s, |[x, y]| [y, x - y]))
        .out(&chunked(&l, |[x, y]| [y ^ x, x]))
}

fn constants() -> Case {
    let x = uniform32(64, 78, -1.0, 1.0);
    let c = [0.5f32, -1.0, 2.0, 0.25, 8.0];
    // The products are by powers of two, so that a fused multiply-add would give the same.
    let polynomial = |(t, &x): (usize, &f32)| {
        let (mut sum, mut power) = (0.0, 1.0);
        for c in c {
            sum += c * power;
            power *= x;
        }
        sum + c[t % 5]
    };
    let expected: Vec<f32> = x.iter().enumerate().map(polynomial).collect();
    let settings: Vec<i64> = (0..64).map(|t| (1 << 40) + [7, -8, 9][t % 3] * i64::from(b'k')).collect();
    Case::new("constants").input(&x).out(&expected).out(&settings)
}

/// The struct of `memory.cu`.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct Layer {
    size: [i32; 3],
    padding: u32,
    scale: f64,
    flags: [u8; 5],
    more_padding: [u8; 3],
}

fn structs() -> [Case; 2] {
    let weights = uniform(64, 79, -1.0, 1.0);
    // Powers of two and small integers: exact, fused or not.
    let weights: Vec<f32> = weights.into_iter().map(|w| (w * 64.0).round() as f32).collect();
    let layer = Layer {
        size: [3, -500, 70_000],
        padding: u32::MAX,
        scale: 0.25,
        flags: [1, 2, 3, 254, 255],
        more_padding: [0xff; 3],
    };
    let common = |t: usize| f64::from(weights[t]) * 0.25 + f64::from(layer.size[t % 3]) + f64::from(layer.flags[t % 5]);
    let by_value: Vec<f64> = (0..64).map(|t| common(t) - 7.0).collect();
    let constant: Vec<f64> = (0..64).map(common).collect();
    [
        Case::new("struct_by_value").input(&weights).value(layer).value(-7i16).out(&by_value),
        Case::new("grid_constant").input(&weights).value(layer).out(&constant),
    ]
}

fn local_array() -> Case {
    let x: Vec<i32> = words(64 * 9, 80).into_iter().map(|word| word as i32).collect();
    let mut sorted = x.clone();
    sorted.chunks_mut(9).for_each(<[i32]>::sort_unstable);
    Case::new("local_array").input(&x).out(&sorted)
}

fn globals() -> Case {
    let x = [1.5f32, 3.25, -0.5];
    let bytes = [1.0f32, 2.0, 254.0, 255.0, 0.0, 0.0];
    let expected: Vec<f32> =
        (0..64).map(|t| x[t % 3] * 10.0 + 4.0 + f32::from(b"warp"[t % 4]) + bytes[t % 6]).collect();
    Case::new("globals").out(&expected).out(&[5 + (0..64).sum::<i32>()])
}

fn cache_hints() -> Case {
    let x: Vec<i32> = words(64, 81).into_iter().map(|word| word as i32 >> 1).collect();
    let v = uniform32(256, 82, -1.0, 1.0);
    let expected =
        rows::<i32>(64, &[&|t| x[t], &|t| x[t] + 1, &|t| x[t] + 2, &|t| x[t] + 3, &|t| x[t] + 4, &|t| x[t] + 5]);
    let names = &["__ldg", "cg", "cs", "ca, wt", "lu, wb", "volatile"];
    Case::new("cache_hints").input(&x).input(&v).out_rows(names, &expected).out(&[v.clone(), v.clone()].concat())
}

fn atomics() -> Case {
    let threads = 0..64i32;
    let sum: i32 = threads.clone().sum();
    let wide_sum = sum as u64;
    let ands = threads.clone().fold(-1, |all, t| all & (!(1i32 << (t % 32)) | 0xff_00ff));
    let xors = threads.clone().fold(0x5555, |all, t| all ^ (1 << (t % 31)));
    // Inc: 0 after 40. Dec: 40 after 0.
    let incremented = threads.clone().fold(30, |v, _| if v >= 40 { 0 } else { v + 1 });
    let decremented = threads.clone().fold(7, |v, _| if v == 0 || v > 40 { 40 } else { v - 1 });
    let a = [100, 5000, -5, 5, 9, -1, 0, 0x5555, 30, 7, 1, 12345, 0, 1, 0];
    let a_after =
        [164, 5000 - sum, 63, -100, 63, ands, 0xfffff, xors, incremented, decremented, 77, 54321, 128, 193, sum];
    let b = [1u64, 1 << 35, 0, 0, 5, 6, 0];
    let lowest = (-(1i64 << 40) - 63) as u64;
    let b_after = [1 + (wide_sum << 32), 63 << 33, lowest, u64::MAX, 1 << 63, 1 << 62, (1 << 50) + 63];
    let d = 2.0 + 0.25 * f64::from(sum);
    Case::new("atomics")
        .inout(&a, &a_after)
        .inout(&b, &b_after)
        .inout(&[0.5f32, 0.0], &[96.5f32, 2.5])
        .inout(&[2.0f64], &[d])
        .inout(&[1u16, 7, 3, 4], &[1u16, 40, 3, 4])
        // The old values appear in the order in which the device serves the lanes.
        .scratch(64 * 4)
}

fn atomic_loop() -> Case {
    let x = uniform32(256, 83, 0.0, 1000.0);
    let largest = x.iter().copied().fold(0.0, f32::max);
    Case::new("atomic_loop").grid(4, 1, 1).input(&x).inout(&[0.0f32], &[largest])
}

fn pipeline() -> Case {
    let x = uniform32(512, 84, -1.0, 1.0);
    let at = |i: usize| [x[4 * i], x[4 * i + 1], x[4 * i + 2], x[4 * i + 3]];
    let expected: Vec<f32> = (0..64)
        .flat_map(|t| {
            let (a, b) = (at(63 - t), at(127 - t));
            [a[0] + b[0], a[1] - b[1], b[2], a[3]]
        })
        .collect();
    let half: Vec<f32> = (0..64).flat_map(|t| [at(63 - t)[0], 0.0]).collect();
    Case::new("pipeline").input(&x).out(&expected).out(&half)
}

fn address_spaces() -> Case {
    let expected: Vec<i32> = (0..64).map(|t| [1, 2, 4, 8][t % 4]).collect();
    Case::new("address_spaces").out(&expected)
}
