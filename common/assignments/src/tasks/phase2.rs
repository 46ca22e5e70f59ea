//! Tasks of phase 2.

use anyhow::Result;
use common::check::Tolerance;
use common::reference::{self, Conv2dParams};
use common::tensor::Tensor;

use super::{Argument, Case, Make, Setup, grid};

pub(super) const TASKS: &[(&str, Make)] = &[
    ("transpose", transpose),
    ("tiled_product", tiled_product),
    ("register_tile", register_tile),
    ("row_max", row_max),
    ("row_sum", row_sum),
    ("linear_vector", linear_vector),
    ("row_scan", row_scan),
    ("histogram", histogram),
    ("im2col", im2col),
    ("conv_halo", conv_halo),
    ("scale_shift", scale_shift),
    ("row_statistics", row_statistics),
];

pub(super) fn transpose(case: &Case<'_>) -> Result<Setup> {
    let (rows, columns) = (case.size("rows")?, case.size("columns")?);
    let x = case.values(&[1, rows, columns], 0);
    let y = Argument::written(
        [("row", columns), ("column", rows)],
        reference::transpose(&x)?.to_f64()?,
        Tolerance::exact(),
    );
    let args = vec![Argument::Input(x), y, Argument::count(rows), Argument::count(columns)];
    Ok(Setup { args, launch: grid([columns.div_ceil(32), rows.div_ceil(32), 1], [32, 8, 1]) })
}

fn tiled_product(case: &Case<'_>) -> Result<Setup> {
    product(case, 32, [32, 32, 1])
}

fn register_tile(case: &Case<'_>) -> Result<Setup> {
    product(case, 64, [16, 16, 1])
}

/// C = A·B with square tiles of C.
fn product(case: &Case<'_>, tile: usize, threads: [u32; 3]) -> Result<Setup> {
    let (m, n, k) = (case.size("m")?, case.size("n")?, case.size("k")?);
    let (a, b) = (case.values(&[m, k], 0), case.values(&[k, n], 1));
    let c = reference::matmul(a.as_slice()?, b.as_slice()?, m, n, k)?;
    let tolerance = c.tolerance();
    let c = Argument::written([("row", m), ("column", n)], c.values, tolerance);
    let sizes = [m, n, k].map(Argument::count);
    let args = [Argument::Input(a), Argument::Input(b), c].into_iter().chain(sizes).collect();
    Ok(Setup { args, launch: grid([n.div_ceil(tile), m.div_ceil(tile), 1], threads) })
}

fn row_max(case: &Case<'_>) -> Result<Setup> {
    let (rows, columns) = (case.size("rows")?, case.size("columns")?);
    // All are below zero, so that a maximum that starts at zero shows.
    let x = case.values(&[rows, columns], 0).into_vec()?.into_iter().map(|x| x - 1.5).collect::<Vec<f32>>();
    let most = |row: &[f32]| f64::from(row.iter().copied().fold(f32::NEG_INFINITY, f32::max));
    let expected = x.chunks_exact(columns).map(most).collect();
    let x = Argument::Input(Tensor::from_vec(&[rows, columns], x)?);
    let y = Argument::written([("row", rows)], expected, Tolerance::exact());
    // A warp per row.
    let args = vec![x, y, Argument::count(rows), Argument::count(columns)];
    Ok(Setup { args, launch: grid([rows.div_ceil(4), 1, 1], [128, 1, 1]) })
}

fn row_sum(case: &Case<'_>) -> Result<Setup> {
    let (rows, columns) = (case.size("rows")?, case.size("columns")?);
    let x = case.values(&[rows, columns], 0);
    // The sums: a product with a column of ones.
    let sums = reference::matmul(x.as_slice()?, &vec![1.0; columns], rows, 1, columns)?;
    let tolerance = sums.tolerance();
    let y = Argument::written([("row", rows)], sums.values, tolerance);
    let args = vec![Argument::Input(x), y, Argument::count(columns)];
    Ok(Setup { args, launch: grid([rows, 1, 1], [256, 1, 1]) })
}

fn linear_vector(case: &Case<'_>) -> Result<Setup> {
    let (inputs, outputs) = (case.size("inputs")?, case.size("outputs")?);
    let (x, weight, bias) =
        (case.values(&[1, inputs], 0), case.values(&[outputs, inputs], 1), case.values(&[outputs], 2));
    let y = reference::linear_relu(&x, &weight, &bias)?;
    let tolerance = y.tolerance();
    let y = Argument::written([("output", outputs)], y.values, tolerance);
    let inputs = [weight, x, bias].map(Argument::Input).into_iter().chain([y, Argument::count(inputs)]);
    let args = inputs.chain([Argument::count(outputs)]).collect();
    // A warp per output.
    Ok(Setup { args, launch: grid([outputs.div_ceil(8), 1, 1], [256, 1, 1]) })
}

fn row_scan(case: &Case<'_>) -> Result<Setup> {
    let (rows, columns) = (case.size("rows")?, case.size("columns")?);
    let x = case.values(&[rows, columns], 0);
    let mut expected = x.to_f64()?;
    for row in expected.chunks_exact_mut(columns) {
        let mut sum = 0.0;
        for x in row {
            sum += *x;
            *x = sum;
        }
    }
    // Sums of up to `columns` values below 1.
    let y = Argument::written([("row", rows), ("column", columns)], expected, Tolerance::dot(columns, columns as f64));
    let args = vec![Argument::Input(x), y, Argument::count(columns)];
    Ok(Setup { args, launch: grid([rows, 1, 1], [256, 1, 1]) })
}

fn histogram(case: &Case<'_>) -> Result<Setup> {
    const BINS: usize = 64;
    let n = case.size("n")?;
    let (a, b) = (case.values(&[n], 0), case.values(&[n], 1));
    // Products lie near 0 more often than near 1: some bins have many values, others have none.
    let bin = |(a, b): (&f32, &f32)| ((a * b + 1.0) * 0.5 * BINS as f32) as i32 % BINS as i32;
    let bins: Vec<i32> = a.as_slice()?.iter().zip(b.as_slice()?).map(bin).collect();
    let mut expected = vec![0.0; BINS];
    for &bin in &bins {
        expected[bin as usize] += 1.0;
    }
    let counts =
        Argument::updated([("bin", BINS)], Tensor::of(&[BINS], vec![0i32; BINS])?, expected, Tolerance::exact());
    let args = vec![Argument::Input(Tensor::of(&[n], bins)?), counts, Argument::count(n)];
    // The grid does not grow with n.
    Ok(Setup { args, launch: grid([4, 1, 1], [256, 1, 1]) })
}

fn im2col(case: &Case<'_>) -> Result<Setup> {
    let names = ["channels", "height", "width", "stride"];
    let sizes = names.map(|name| case.size(name)).into_iter().collect::<Result<Vec<_>>>()?;
    let [channels, height, width, stride] = [sizes[0], sizes[1], sizes[2], sizes[3]];
    let image = case.values(&[channels, height, width], 0);
    let (out_height, out_width) = ((height - 1) / stride + 1, (width - 1) / stride + 1);
    let (rows, pixels) = (channels * 9, out_height * out_width);
    let values = image.to_f64()?;
    let mut patches = Vec::with_capacity(rows * pixels);
    for i in 0..rows * pixels {
        let (row, pixel) = (i / pixels, i % pixels);
        let (c, r, s) = (row / 9, row % 9 / 3, row % 3);
        // Counted from the padding on, which is one pixel wide.
        let (y, x) = (pixel / out_width * stride + r, pixel % out_width * stride + s);
        let inside = (1..=height).contains(&y) && (1..=width).contains(&x);
        patches.push(if inside { values[(c * height + y - 1) * width + x - 1] } else { 0.0 });
    }
    let patches = Argument::written([("row", rows), ("pixel", pixels)], patches, Tolerance::exact());
    let args = [Argument::Input(image), patches].into_iter().chain(sizes.into_iter().map(Argument::count)).collect();
    Ok(Setup { args, launch: grid([(rows * pixels).div_ceil(256), 1, 1], [256, 1, 1]) })
}

fn conv_halo(case: &Case<'_>) -> Result<Setup> {
    let (height, width) = (case.size("height")?, case.size("width")?);
    let (x, weight) = (case.values(&[1, 1, height, width], 0), case.values(&[1, 1, 5, 5], 1));
    let y = reference::conv2d(&x, &weight, None, Conv2dParams::new(1, 2))?;
    let tolerance = y.tolerance();
    let y = Argument::written([("row", height), ("column", width)], y.values, tolerance);
    let args = vec![Argument::Input(x), Argument::Input(weight), y, Argument::count(height), Argument::count(width)];
    Ok(Setup { args, launch: grid([width.div_ceil(32), height.div_ceil(8), 1], [32, 8, 1]) })
}

fn scale_shift(case: &Case<'_>) -> Result<Setup> {
    let (images, channels, plane) = (case.size("images")?, case.size("channels")?, case.size("plane")?);
    let n = images * channels * plane;
    let (x, of_channel) = (case.values(&[images, channels, plane], 0), case.values(&[channels, 2], 1));
    let (values, pairs) = (x.to_f64()?, of_channel.to_f64()?);
    let expected = |(i, x): (usize, &f64)| {
        let c = i / plane % channels;
        x * pairs[2 * c] + pairs[2 * c + 1]
    };
    let expected = values.iter().enumerate().map(expected).collect();
    // A product and a sum, fused or not, of values below 1.
    let y = Argument::written(
        [("image", images), ("channel", channels), ("pixel", plane)],
        expected,
        Tolerance::elementwise(2, 2.0),
    );
    let sizes = [channels, plane, n].map(Argument::count);
    let args = [Argument::Input(x), Argument::Input(of_channel), y].into_iter().chain(sizes).collect();
    Ok(Setup { args, launch: grid([n.div_ceil(4).div_ceil(256), 1, 1], [256, 1, 1]) })
}

fn row_statistics(case: &Case<'_>) -> Result<Setup> {
    let (rows, columns) = (case.size("rows")?, case.size("columns")?);
    // Means that are large beside the values' spread, so that the difference of two large sums shows, and none that is known.
    let means = case.values(&[rows], 1);
    let mean = |row: usize| means.as_slice().map_or(0.0, |means| (3000.0 + 2000.0 * means[row]).round());
    let values = case.values(&[rows, columns], 0).into_vec()?.into_iter().enumerate();
    let x = values.map(|(i, x)| x + mean(i / columns)).collect();
    let x = Tensor::from_vec(&[1, rows, 1, columns], x)?;
    let of_rows = reference::statistics(&x)?;
    // A lane's own values one by one, then five levels of a tree.
    let depth = columns.div_ceil(32) + 5;
    let mean = Argument::written([("row", rows)], of_rows.mean.clone(), of_rows.mean_tolerance(depth));
    let variance =
        Argument::written([("row", rows)], of_rows.variance.clone(), of_rows.variance_tolerance_merged(depth));
    let args = vec![Argument::Input(x), mean, variance, Argument::count(rows), Argument::count(columns)];
    // A warp per row.
    Ok(Setup { args, launch: grid([rows.div_ceil(4), 1, 1], [128, 1, 1]) })
}
