//! Tasks of phase 4: fusion, attention, formats.

use anyhow::Result;
use common::check::Tolerance;
use common::device::LaunchConfig;
use common::reference;
use common::tensor::{ElementType, Tensor};

use super::{Argument, Case, Make, Setup, grid};

pub(super) const TASKS: &[(&str, Make)] = &[
    ("bias_relu", bias_relu),
    ("conv_bn_relu", conv_bn_relu),
    ("long_softmax", long_softmax),
    ("attention", attention),
    ("quantise", quantise),
    ("all_reduce", all_reduce),
];

fn bias_relu(case: &Case<'_>) -> Result<Setup> {
    let (rows, columns) = (case.size("rows")?, case.size("columns")?);
    let (x, bias) = (case.values(&[rows, columns], 0), case.values(&[columns], 1));
    // One addition, rounded once.
    let pairs = x.as_slice()?.iter().zip(bias.as_slice()?.iter().cycle());
    let expected = pairs.map(|(x, bias)| f64::from((x + bias).max(0.0))).collect();
    let y = Argument::written([("row", rows), ("column", columns)], expected, Tolerance::exact());
    let args = vec![Argument::Input(x), Argument::Input(bias), y, Argument::count(rows), Argument::count(columns)];
    Ok(Setup { args, launch: LaunchConfig::linear((rows * columns / 4) as u32, 256) })
}

fn conv_bn_relu(case: &Case<'_>) -> Result<Setup> {
    let [channels, filters, height, width] =
        [case.size("channels")?, case.size("filters")?, case.size("height")?, case.size("width")?];
    let (x, weight) = (case.values(&[channels, height, width], 0), case.values(&[filters, channels, 9], 1));
    let [gamma, beta, mean] = [2, 3, 4].map(|index| case.values(&[filters], index));
    // From 0.05 to 1.05: 1 / √ of it is neither 1 nor 1 / it.
    let variance: Vec<f32> = case.values(&[filters], 5).as_slice()?.iter().map(|x| x * x + 0.05).collect();
    let variance = Tensor::from_vec(&[filters], variance)?;
    let wide = |tensor: &Tensor, i: usize| Ok::<_, anyhow::Error>(f64::from(tensor.as_slice()?[i]));
    let (mut expected, mut magnitude) = (Vec::new(), 0.0f64);
    for i in 0..filters * height * width {
        let (filter, row, column) = (i / width / height, i / width % height, i % width);
        let (mut sum, mut absolute) = (0.0, 0.0);
        for at in 0..channels * 9 {
            // Of the image with its border.
            let (channel, r, c) = (at / 9, row + at % 9 / 3, column + at % 3);
            if (1..=height).contains(&r) && (1..=width).contains(&c) {
                let pixel = wide(&x, (channel * height + r - 1) * width + c - 1)?;
                let term = pixel * wide(&weight, filter * channels * 9 + at)?;
                (sum, absolute) = (sum + term, absolute + term.abs());
            }
        }
        let scale = wide(&gamma, filter)? / (wide(&variance, filter)? + 1e-5).sqrt();
        let (mean, beta) = (wide(&mean, filter)?, wide(&beta, filter)?);
        expected.push(((sum - mean) * scale + beta).max(0.0));
        magnitude = magnitude.max((absolute + mean.abs()) * scale.abs() + beta.abs());
    }
    // The products, and six roundings more: 1 / √ counts for two.
    let y = Argument::written(
        [("filter", filters), ("row", height), ("column", width)],
        expected,
        Tolerance::dot(9 * channels + 6, magnitude),
    );
    let inputs = [x, weight, gamma, beta, mean, variance].map(Argument::Input);
    let sizes = [channels, height, width].map(Argument::count);
    let args = inputs.into_iter().chain([y]).chain(sizes).collect();
    Ok(Setup { args, launch: grid([width.div_ceil(32), height.div_ceil(8), filters], [32, 8, 1]) })
}

fn long_softmax(case: &Case<'_>) -> Result<Setup> {
    let shape = [case.size("rows")?, case.size("columns")?];
    let x = case.logits(&shape)?;
    let expected = reference::softmax(&x)?;
    let y = Argument::written([("row", shape[0]), ("column", shape[1])], expected.values, expected.tolerance);
    let args = vec![Argument::Input(x), y, Argument::count(shape[1])];
    Ok(Setup { args, launch: grid([shape[0], 1, 1], [128, 1, 1]) })
}

fn attention(case: &Case<'_>) -> Result<Setup> {
    const CHANNELS: usize = 32;
    let tokens = case.size("tokens")?;
    // Queries, keys and values side by side, as the reference takes them, and apart.
    let mut qkv: Vec<f32> = case.values(&[1, tokens, 3 * CHANNELS], 0).as_slice()?.iter().map(|x| 2.0 * x).collect();
    // The first channel makes scores of about −160 to −110: e^x of each is 0 unless a maximum is subtracted, and a larger one makes
    // what was summed before it small.
    for row in qkv.chunks_mut(3 * CHANNELS) {
        row[0] += 32.0;
        row[CHANNELS] = 2.0 * row[CHANNELS] - 24.0;
    }
    let apart = |which: usize| {
        let rows = qkv.chunks(3 * CHANNELS).flat_map(|row| &row[which * CHANNELS..][..CHANNELS]);
        Tensor::from_vec(&[tokens, CHANNELS], rows.copied().collect()).map(Argument::Input)
    };
    let (q, k, v) = (apart(0)?, apart(1)?, apart(2)?);
    let expected = reference::attention(&Tensor::from_vec(&[1, tokens, 3 * CHANNELS], qkv)?, 1)?;
    let out = Argument::written([("query", tokens), ("channel", CHANNELS)], expected.values, expected.tolerance);
    let scale = 1.0 / (CHANNELS as f32).sqrt();
    let args = vec![q, k, v, out, Argument::count(tokens), Argument::F32(scale)];
    Ok(Setup { args, launch: LaunchConfig::linear(tokens as u32, 32) })
}

fn quantise(case: &Case<'_>) -> Result<Setup> {
    let (rows, columns) = (case.size("rows")?, case.size("columns")?);
    let x = case.values(&[rows, columns], 0);
    let scale = |row: &[f32]| row.iter().fold(0.0f32, |most, x| most.max(x.abs())) / 127.0;
    let quantised = |row: &[f32]| {
        let scale = scale(row);
        row.iter().map(|x| f64::from((x / scale).round_ties_even())).collect::<Vec<_>>()
    };
    let expected = x.as_slice()?.chunks(columns).flat_map(quantised).collect();
    let scales = x.as_slice()?.chunks(columns).map(|row| f64::from(scale(row))).collect();
    // Each division is rounded once, on both sides.
    let q = Argument::written_as(ElementType::I8, [("row", rows), ("column", columns)], expected, Tolerance::exact());
    let scales = Argument::written([("row", rows)], scales, Tolerance::exact());
    let args = vec![Argument::Input(x), q, scales, Argument::count(rows), Argument::count(columns)];
    Ok(Setup { args, launch: grid([rows.div_ceil(4), 1, 1], [32, 4, 1]) })
}

fn all_reduce(case: &Case<'_>) -> Result<Setup> {
    let (ranks, n) = (case.size("ranks")?, case.size("n")?);
    let arrays = case.values(&[ranks, n], 0);
    // In the order of the ranks, in f32: the same bits.
    let values = arrays.as_slice()?;
    let sum = |i: usize| f64::from((0..ranks).fold(0.0, |sum, rank| sum + values[rank * n + i]));
    let expected = (0..ranks * n).map(|i| sum(i % n)).collect();
    let out = Argument::written([("rank", ranks), ("element", n)], expected, Tolerance::exact());
    let args = vec![Argument::Input(arrays), out, Argument::count(ranks), Argument::count(n)];
    Ok(Setup { args, launch: grid([n.div_ceil(1024), ranks, 1], [256, 1, 1]) })
}
