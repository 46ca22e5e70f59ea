//! Tasks of phase 4: PTX, tensor cores, asynchronous copies.

use anyhow::Result;
use common::check::Tolerance;
use common::device::LaunchConfig;
use common::tensor::{ElementType, Tensor};

use super::{Argument, Case, Make, Setup, grid, phase2};

pub(super) const TASKS: &[(&str, Make)] = &[
    ("scale", scale),
    ("integer_sums", integer_sums),
    ("swap_bytes", swap_bytes),
    ("add_one", add_one),
    ("products", products),
    ("swizzled_transpose", swizzled_transpose),
    ("tile_sums", tile_sums),
    ("reverse_tiles", reverse_tiles),
];

fn scale(case: &Case<'_>) -> Result<Setup> {
    const FACTOR: f32 = 0.7;
    let n = case.size("n")?;
    let x = case.values(&[n], 0);
    let expected = x.as_slice()?.iter().map(|x| f64::from(FACTOR * x)).collect();
    let y = Argument::written([("element", n)], expected, Tolerance::exact());
    let args = vec![Argument::Input(x), y, Argument::F32(FACTOR), Argument::count(n)];
    Ok(Setup { args, launch: LaunchConfig::linear(n.div_ceil(4) as u32, 256) })
}

/// Integers of all four bytes.
fn integers(case: &Case<'_>, n: usize, most: f32) -> Result<Vec<i32>> {
    Ok(case.values(&[n], 0).as_slice()?.iter().map(|x| (x * most) as i32).collect())
}

fn integer_sums(case: &Case<'_>) -> Result<Setup> {
    let n = case.size("n")?;
    let x = integers(case, n, 1e6)?;
    let expected: Vec<f64> = x.chunks(32).map(|run| f64::from(run.iter().sum::<i32>())).collect();
    let sums = Argument::written_as(ElementType::I32, [("warp", expected.len())], expected, Tolerance::exact());
    let args = vec![Argument::Input(Tensor::of(&[n], x)?), sums, Argument::count(n)];
    Ok(Setup { args, launch: LaunchConfig::linear(n as u32, 128) })
}

fn swap_bytes(case: &Case<'_>) -> Result<Setup> {
    let n = case.size("n")?;
    let x = integers(case, n, 2e9)?;
    let expected = x.iter().map(|x| f64::from(x.swap_bytes())).collect();
    let y = Argument::written_as(ElementType::I32, [("element", n)], expected, Tolerance::exact());
    let args = vec![Argument::Input(Tensor::of(&[n], x)?), y, Argument::count(n)];
    Ok(Setup { args, launch: LaunchConfig::linear(n as u32, 256) })
}

fn add_one(case: &Case<'_>) -> Result<Setup> {
    let n = case.size("n")?;
    let x = case.values(&[n], 0);
    let expected = x.as_slice()?.iter().map(|x| f64::from(x + 1.0)).collect();
    let y = Argument::written([("element", n)], expected, Tolerance::exact());
    Ok(Setup { args: vec![Argument::Input(x), y, Argument::count(n)], launch: LaunchConfig::linear(n as u32, 256) })
}

fn products(case: &Case<'_>) -> Result<Setup> {
    const M: usize = 16;
    const N: usize = 8;
    const K: usize = 16;
    let tiles = case.size("tiles")?;
    let half = |shape: [usize; 3], index| case.values(&shape, index).to_type(ElementType::F16);
    let (a, b) = (half([tiles, M, K], 0)?, half([tiles, N, K], 1)?);
    let (wide_a, wide_b) = (a.to_f64()?, b.to_f64()?);
    let sum = |i: usize| {
        let (tile, row, column) = (i / N / M, i / N % M, i % N);
        let (a, b) = (&wide_a[(tile * M + row) * K..][..K], &wide_b[(tile * N + column) * K..][..K]);
        a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>()
    };
    let expected = (0..tiles * M * N).map(sum).collect();
    // Products of halves are exact in f32; tensor cores may cut where an f32 sum rounds, which doubles the bound.
    let c = Argument::written([("tile", tiles), ("row", M), ("column", N)], expected, Tolerance::dot(2 * K, K as f64));
    Ok(Setup { args: vec![Argument::Input(a), Argument::Input(b), c], launch: grid([tiles, 1, 1], [32, 1, 1]) })
}

/// Same as [`phase2::transpose`], with shared memory for a tile without padding.
fn swizzled_transpose(case: &Case<'_>) -> Result<Setup> {
    let Setup { args, launch } = phase2::transpose(case)?;
    Ok(Setup { args, launch: LaunchConfig { shared_mem_bytes: 32 * 32 * 4, ..launch } })
}

fn tile_sums(case: &Case<'_>) -> Result<Setup> {
    const TILE: usize = 512;
    let (rows, tiles) = (case.size("rows")?, case.size("tiles")?);
    let x = case.values(&[rows, tiles * TILE], 0);
    let sum = |row: &[f32]| row.iter().map(|&x| f64::from(x)).sum();
    let expected = x.as_slice()?.chunks(tiles * TILE).map(sum).collect();
    let sums = Argument::written([("row", rows)], expected, Tolerance::dot(tiles * TILE, (tiles * TILE) as f64));
    let args = vec![Argument::Input(x), sums, Argument::count(tiles)];
    Ok(Setup { args, launch: grid([rows, 1, 1], [128, 1, 1]) })
}

fn reverse_tiles(case: &Case<'_>) -> Result<Setup> {
    const TILE: usize = 96;
    let (rows, tiles) = (case.size("rows")?, case.size("tiles")?);
    let x = case.values(&[rows, tiles, TILE], 0);
    let reversed = |tile: &[f32]| tile.iter().rev().map(|&x| f64::from(x)).collect::<Vec<_>>();
    let expected = x.as_slice()?.chunks(TILE).flat_map(reversed).collect();
    let y = Argument::written([("row", rows), ("tile", tiles), ("element", TILE)], expected, Tolerance::exact());
    let args = vec![Argument::Input(x), y, Argument::count(tiles)];
    Ok(Setup { args, launch: grid([rows, 1, 1], [128, 1, 1]) })
}
