//! Tasks of phase 1.

use anyhow::Result;
use common::check::Tolerance;
use common::device::LaunchConfig;
use common::tensor::{ElementType, Tensor};

use super::{Argument, Axes, Case, Make, Setup, grid};

pub(super) const TASKS: &[(&str, Make)] = &[
    ("vector_add", vector_add),
    ("saxpy", saxpy),
    ("add_row", add_row),
    ("crop", crop),
    ("split", split),
    ("difference", difference),
    ("block_sums", block_sums),
    ("warp_sums", warp_sums),
    ("ranks", ranks),
    ("frame", frame),
    ("count_above", count_above),
    ("scale_rows", scale_rows),
];

fn vector_add(case: &Case<'_>) -> Result<Setup> {
    let n = case.size("n")?;
    let (a, b) = (case.values(&[n], 0), case.values(&[n], 1));
    // One addition, rounded once: the same bits.
    let expected = a.as_slice()?.iter().zip(b.as_slice()?).map(|(a, b)| f64::from(a + b)).collect();
    let out = Argument::written([("element", n)], expected, Tolerance::exact());
    let args = vec![Argument::Input(a), Argument::Input(b), out, Argument::count(n)];
    Ok(Setup { args, launch: LaunchConfig::linear(n as u32, 256) })
}

fn saxpy(case: &Case<'_>) -> Result<Setup> {
    const FACTOR: f32 = 0.7;
    let n = case.size("n")?;
    let (x, y) = (case.values(&[n], 0), case.values(&[n], 1));
    let sum = |(&x, &y): (&f32, &f32)| f64::from(FACTOR) * f64::from(x) + f64::from(y);
    let expected = x.as_slice()?.iter().zip(y.as_slice()?).map(sum).collect();
    // A product and a sum, fused or not, of values below 1.
    let y = Argument::updated([("element", n)], y, expected, Tolerance::elementwise(2, 2.0));
    let args = vec![Argument::F32(FACTOR), Argument::Input(x), y, Argument::count(n)];
    // The grid does not grow with n.
    Ok(Setup { args, launch: grid([3, 1, 1], [128, 1, 1]) })
}

/// Blocks of 32 × 8 threads, one thread per element of a matrix.
fn elements(rows: usize, columns: usize) -> LaunchConfig {
    grid([columns.div_ceil(32), rows.div_ceil(8), 1], [32, 8, 1])
}

fn add_row(case: &Case<'_>) -> Result<Setup> {
    let (rows, columns) = (case.size("rows")?, case.size("columns")?);
    let (x, bias) = (case.values(&[rows, columns], 0), case.values(&[columns], 1));
    // One addition, rounded once.
    let bias_of = bias.as_slice()?.iter().cycle();
    let expected = x.as_slice()?.iter().zip(bias_of).map(|(x, bias)| f64::from(x + bias)).collect();
    let y = Argument::written([("row", rows), ("column", columns)], expected, Tolerance::exact());
    let args = vec![Argument::Input(x), Argument::Input(bias), y, Argument::count(rows), Argument::count(columns)];
    Ok(Setup { args, launch: elements(rows, columns) })
}

fn crop(case: &Case<'_>) -> Result<Setup> {
    // Multiples of 8, so that rows of the window begin where a sector does.
    const TOP: usize = 3;
    const LEFT: usize = 8;
    let (rows, columns) = (case.size("rows")?, case.size("columns")?);
    let pitch = (LEFT + columns + 16).next_multiple_of(8);
    let image = case.values(&[TOP + rows, pitch], 0);
    let pixels = image.as_slice()?;
    let row = |row: usize| &pixels[(TOP + row) * pitch + LEFT..][..columns];
    let expected = (0..rows).flat_map(row).map(|&x| f64::from(x)).collect();
    let window = Argument::written([("row", rows), ("column", columns)], expected, Tolerance::exact());
    let sizes = [pitch, TOP, LEFT, rows, columns].map(Argument::count);
    let args = [Argument::Input(image), window].into_iter().chain(sizes).collect();
    Ok(Setup { args, launch: elements(rows, columns) })
}

fn split(case: &Case<'_>) -> Result<Setup> {
    let n = case.size("n")?;
    let points = case.values(&[n, 3], 0);
    let component = |which: usize| {
        let values = points.as_slice()?.iter().skip(which).step_by(3).map(|&x| f64::from(x)).collect();
        Ok::<_, anyhow::Error>(Argument::written([("element", n)], values, Tolerance::exact()))
    };
    let components = [component(0)?, component(1)?, component(2)?];
    let args = [Argument::Input(points)].into_iter().chain(components).chain([Argument::count(n)]).collect();
    Ok(Setup { args, launch: LaunchConfig::linear(n as u32, 256) })
}

fn difference(case: &Case<'_>) -> Result<Setup> {
    let (rows, columns) = (case.size("rows")?, case.size("columns")?);
    let x = case.values(&[rows, columns], 0);
    let of_row = |row: &[f32]| {
        let left = std::iter::once(&0.0).chain(row);
        row.iter().zip(left).map(|(x, left)| f64::from(x - left)).collect::<Vec<_>>()
    };
    let expected = x.as_slice()?.chunks(columns).flat_map(of_row).collect();
    let y = Argument::written([("row", rows), ("column", columns)], expected, Tolerance::exact());
    Ok(Setup { args: vec![Argument::Input(x), y, Argument::count(columns)], launch: grid([rows, 1, 1], [256, 1, 1]) })
}

fn block_sums(case: &Case<'_>) -> Result<Setup> {
    sums(case, 256)
}

fn warp_sums(case: &Case<'_>) -> Result<Setup> {
    sums(case, 32)
}

/// The sum of each run of values, one block per run.
fn sums(case: &Case<'_>, run: usize) -> Result<Setup> {
    let n = case.size("n")?;
    let x = case.values(&[n], 0);
    let sum = |values: &[f32]| values.iter().map(|&x| f64::from(x)).sum();
    let expected: Vec<f64> = x.as_slice()?.chunks(run).map(sum).collect();
    let sums = Argument::written([("block", expected.len())], expected, Tolerance::dot(run, run as f64));
    let args = vec![Argument::Input(x), sums, Argument::count(n)];
    Ok(Setup { args, launch: LaunchConfig::linear(n as u32, run as u32) })
}

fn ranks(case: &Case<'_>) -> Result<Setup> {
    let n = case.size("n")?;
    let x = case.values(&[n], 0);
    let values = x.as_slice()?;
    let expected = values.iter().map(|x| values.iter().filter(|other| *other < x).count() as f64).collect();
    let ranks = Argument::written_as(ElementType::I32, [("element", n)], expected, Tolerance::exact());
    let args = vec![Argument::Input(x), ranks, Argument::count(n)];
    Ok(Setup { args, launch: LaunchConfig::linear(n as u32, 128) })
}

fn frame(case: &Case<'_>) -> Result<Setup> {
    let (start, n) = (case.size("start")?, case.size("n")?);
    let x = case.values(&[start + n + 8], 0);
    let expected = x.as_slice()?[start..start + n].iter().map(|&x| f64::from(x)).collect();
    let y = Argument::written([("element", n)], expected, Tolerance::exact());
    let args = vec![Argument::Input(x), y, Argument::count(start), Argument::count(n)];
    Ok(Setup { args, launch: LaunchConfig::linear(n.div_ceil(4) as u32, 256) })
}

fn count_above(case: &Case<'_>) -> Result<Setup> {
    let n = case.size("n")?;
    let x = case.values(&[n], 0);
    // One of the values, which does not count itself.
    let values = x.as_slice()?;
    // One of the values, with a good part of the others above it: few would need few additions, however they are made.
    let threshold = values.iter().copied().find(|x| x.abs() < 0.2).unwrap_or(values[n / 2]);
    let above = values.iter().filter(|&&x| x > threshold).count();
    let before = 7;
    let count = Tensor::of(&[1], vec![before])?;
    let count = Argument::updated(Axes::default(), count, vec![f64::from(before) + above as f64], Tolerance::exact());
    let args = vec![Argument::Input(x), Argument::F32(threshold), count, Argument::count(n)];
    Ok(Setup { args, launch: LaunchConfig::linear(n as u32, 256) })
}

fn scale_rows(case: &Case<'_>) -> Result<Setup> {
    let (rows, columns) = (case.size("rows")?, case.size("columns")?);
    let (x, factors) = (case.values(&[rows, columns], 0), case.values(&[rows], 1));
    // One product, rounded once.
    let scaled = |(row, &factor): (&[f32], &f32)| row.iter().map(|x| f64::from(factor * x)).collect::<Vec<_>>();
    let expected = x.as_slice()?.chunks(columns).zip(factors.as_slice()?).flat_map(scaled).collect();
    let y = Argument::written([("row", rows), ("column", columns)], expected, Tolerance::exact());
    let args = vec![Argument::Input(x), Argument::Input(factors), y, Argument::count(rows), Argument::count(columns)];
    Ok(Setup { args, launch: LaunchConfig::linear(rows.max(columns) as u32, 128) })
}
