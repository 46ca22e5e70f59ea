use bytemuck::Pod;
use half::{bf16, f16};

use crate::nvrtc::harness::Case;

pub(super) fn cases() -> Vec<Case> {
    let warp = |case: Case| case.block(32, 1, 1);
    [
        f16_to_f32(),
        f16_to_f16(),
        s8_to_s32(),
        accumulates(),
        ldmatrix(),
        square::<bf16>("bf16_to_f32", 16, |v| bf16::from_f32(v as f32)).minimum(80),
        square::<f32>("tf32_to_f32", 8, |v| v as f32).minimum(80),
        f64_to_f64().minimum(80),
        mma_sync_by_hand().minimum(80),
    ]
    .map(warp)
    .into()
}

/// Small integers without a pattern that would survive a wrong layout.
fn a(count: usize) -> Vec<i32> {
    (0..count as i32).map(|i| (i * i * 3 + i * 7) % 11 - 5).collect()
}

fn b(count: usize) -> Vec<i32> {
    (0..count as i32).map(|i| (i * i * 5 + i * 3 + 2) % 13 - 6).collect()
}

fn halves(values: &[i32]) -> Vec<f16> {
    values.iter().map(|&value| f16::from_f32(value as f32)).collect()
}

/// relu(2 + a·b), row-major: a `[m, k]` by rows, b `[k, n]` by columns.
fn product(a: &[i32], b: &[i32], m: usize, n: usize, k: usize) -> Vec<i32> {
    let dot = |i: usize, j: usize| (0..k).map(|l| a[i * k + l] * b[j * k + l]).sum::<i32>();
    (0..m * n).map(|i| (2 + dot(i / n, i % n)).max(0)).collect()
}

fn transpose(c: &[i32], m: usize, n: usize) -> Vec<i32> {
    (0..m * n).map(|i| c[i % m * n + i / m]).collect()
}

fn floats(values: Vec<i32>) -> Vec<f32> {
    values.into_iter().map(|value| value as f32).collect()
}

fn f16_to_f32() -> Case {
    let (a, b) = (a(32 * 16), b(32 * 16));
    Case::new("f16_to_f32")
        .input(&halves(&a))
        .input(&halves(&b))
        .out(&floats(product(&a, &b, 16, 16, 16)))
        .out(&floats(transpose(&product(&a, &b, 32, 8, 16), 32, 8)))
        .out(&floats(product(&a, &b, 8, 32, 16)))
}

fn f16_to_f16() -> Case {
    let (a, b) = (a(256), b(256));
    Case::new("f16_to_f16").input(&halves(&a)).input(&halves(&b)).out(&halves(&product(&a, &b, 16, 16, 16)))
}

fn s8_to_s32() -> Case {
    let signed = |values: &[i32]| values.iter().map(|&value| value as i8).collect::<Vec<_>>();
    let unsigned = |values: &[i32]| values.iter().map(|&value| value as u8).collect::<Vec<_>>();
    let [a, b] = [a(256), b(256)].map(|values| values.into_iter().map(|v| v * 20).collect::<Vec<_>>());
    // Above 127, where reading them as signed would differ.
    let [ua, ub] = [&a, &b].map(|values| values.iter().map(|v| v + 130).collect::<Vec<_>>());
    Case::new("s8_to_s32")
        .input(&signed(&a))
        .input(&signed(&b))
        .input(&unsigned(&ua))
        .input(&unsigned(&ub))
        .out(&transpose(&product(&a, &b, 16, 16, 16), 16, 16))
        .out(&product(&ua, &ub, 16, 16, 16))
}

fn accumulates() -> Case {
    let (a, b) = (a(256), b(256));
    let start: Vec<i32> = (0..256).map(|i| i % 17).collect();
    // Here a is stored by columns and b by rows.
    let dot = |i: usize, j: usize| (0..16).map(|l| a[l * 16 + i] * b[l * 16 + j]).sum::<i32>();
    let expected = (0..256).map(|i| start[i] + 3 * dot(i / 16, i % 16)).collect();
    Case::new("accumulates").input(&halves(&a)).input(&halves(&b)).inout(&floats(start), &floats(expected))
}

fn ldmatrix() -> Case {
    let x: Vec<u16> = (0..256).collect();
    let word = |low: usize, high: usize| x[low] as u32 | (x[high] as u32) << 16;
    // Lane: row = lane / 4, columns 2·(lane % 4) and the next.
    let place = |i: usize| (i / 32 * 64, i % 32 / 4, i % 4 * 2);
    let plain = |i: usize| {
        let (tile, row, column) = place(i);
        word(tile + row * 8 + column, tile + row * 8 + column + 1)
    };
    let transposed = |i: usize| {
        let (tile, row, column) = place(i);
        word(tile + column * 8 + row, tile + (column + 1) * 8 + row)
    };
    let out: Vec<u32> = (0..128).map(plain).collect();
    let across: Vec<u32> = (0..64).map(transposed).collect();
    Case::new("ldmatrix").input(&x).out(&out).out(&across)
}

fn square<T: Pod>(kernel: &'static str, k: usize, held: impl Fn(i32) -> T) -> Case {
    let (a, b) = (a(16 * k), b(16 * k));
    let hold = |values: &[i32]| values.iter().map(|&value| held(value)).collect::<Vec<T>>();
    Case::new(kernel).input(&hold(&a)).input(&hold(&b)).out(&floats(product(&a, &b, 16, 16, k)))
}

fn f64_to_f64() -> Case {
    let (a, b) = (a(32), b(32));
    let wide = |values: &[i32]| values.iter().map(|&value| value.into()).collect::<Vec<f64>>();
    Case::new("f64_to_f64").input(&wide(&a)).input(&wide(&b)).out(&wide(&product(&a, &b, 8, 8, 4)))
}

fn mma_sync_by_hand() -> Case {
    let (a, b) = (a(256), b(128));
    Case::new("mma_sync_by_hand").input(&halves(&a)).input(&halves(&b)).out(&floats(product(&a, &b, 16, 8, 16)))
}
