//! Tasks of phase 3.

use anyhow::Result;
use common::check::Tolerance;
use common::device::LaunchConfig;
use common::reference::{self, LayerNorm, MaxPool2d};
use common::tensor::{ElementType, Tensor};

use super::{Argument, Case, Make, Setup, grid};

pub(super) const TASKS: &[(&str, Make)] = &[
    ("max_pool", max_pool),
    ("average_pool", average_pool),
    ("softmax", softmax),
    ("layer_norm", layer_norm),
    ("upsample", upsample),
    ("scores", scores),
    ("top5", top5),
    ("gelu", gelu),
    ("timestep", timestep),
    ("split_channels", split_channels),
    ("add_channel", add_channel),
    ("diffusion_step", diffusion_step),
    ("adaptive_pool", adaptive_pool),
    ("causal_softmax", causal_softmax),
    ("split_heads", split_heads),
];

/// Threads of a block that has a warp for each of four rows.
const WARPS: [u32; 3] = [32, 4, 1];

/// A `[1, planes, height, width]` input.
fn planes(case: &Case<'_>) -> Result<Tensor> {
    Ok(case.values(&[1, case.size("planes")?, case.size("height")?, case.size("width")?], 0))
}

fn max_pool(case: &Case<'_>) -> Result<Setup> {
    let x = planes(case)?;
    // All below −5: no start but −∞, or a pixel, will do.
    let x = Tensor::from_vec(x.shape(), x.as_slice()?.iter().map(|x| 10.0 * x - 15.0).collect())?;
    let [_, planes, height, width] = x.dims4()?;
    let y = reference::max_pool2d(&x, MaxPool2d { window: 3, stride: 2, padding: 1 })?;
    let [_, _, rows, columns] = y.dims4()?;
    let y = Argument::written([("plane", planes), ("row", rows), ("column", columns)], y.to_f64()?, Tolerance::exact());
    let args = vec![Argument::Input(x), y, Argument::count(height), Argument::count(width)];
    Ok(Setup { args, launch: grid([columns.div_ceil(32), rows.div_ceil(8), planes], [32, 8, 1]) })
}

fn average_pool(case: &Case<'_>) -> Result<Setup> {
    let (planes, pixels) = (case.size("planes")?, case.size("pixels")?);
    let x = case.values(&[1, planes, pixels, 1], 0);
    let mean = reference::adaptive_avg_pool2d(&x, [1, 1])?;
    let y = Argument::written([("plane", planes)], mean.values.clone(), mean.tolerance());
    let args = vec![Argument::Input(x), y, Argument::count(planes), Argument::count(pixels)];
    Ok(Setup { args, launch: grid([planes.div_ceil(4), 1, 1], WARPS) })
}

fn softmax(case: &Case<'_>) -> Result<Setup> {
    let shape = [case.size("rows")?, case.size("columns")?];
    let x = case.logits(&shape)?;
    let expected = reference::softmax(&x)?;
    let y = Argument::written([("row", shape[0]), ("column", shape[1])], expected.values, expected.tolerance);
    let args = vec![Argument::Input(x), y, Argument::count(shape[0]), Argument::count(shape[1])];
    Ok(Setup { args, launch: grid([shape[0].div_ceil(4), 1, 1], WARPS) })
}

fn layer_norm(case: &Case<'_>) -> Result<Setup> {
    let shape @ [rows, columns] = [case.size("rows")?, case.size("columns")?];
    let x: Vec<f32> = case.values(&shape, 0).as_slice()?.iter().map(|x| 1000.0 + x).collect();
    let (x, weight, bias) = (Tensor::from_vec(&shape, x)?, case.values(&[columns], 1), case.values(&[columns], 2));
    let expected = reference::layer_norm(&x, &LayerNorm { weight: &weight, bias: &bias, eps: 1e-5 })?;
    let y = Argument::written([("row", rows), ("column", columns)], expected.values, expected.tolerance);
    let args = vec![Argument::Input(x), Argument::Input(weight), Argument::Input(bias), y, Argument::count(columns)];
    Ok(Setup { args, launch: grid([rows, 1, 1], [128, 1, 1]) })
}

fn upsample(case: &Case<'_>) -> Result<Setup> {
    let x = planes(case)?;
    let [_, planes, height, width] = x.dims4()?;
    let expected = reference::upsample_nearest(&x, 2)?.to_f64()?;
    let y = Argument::written(
        [("plane", planes), ("row", 2 * height), ("column", 2 * width)],
        expected,
        Tolerance::exact(),
    );
    let args = vec![Argument::Input(x), y, Argument::count(height), Argument::count(width)];
    Ok(Setup { args, launch: grid([width.div_ceil(32), height.div_ceil(8), planes], [32, 8, 1]) })
}

fn scores(case: &Case<'_>) -> Result<Setup> {
    const OF_HEAD: usize = 32;
    let (tokens, heads) = (case.size("tokens")?, case.size("heads")?);
    let qkv = case.values(&[tokens, 3, heads, OF_HEAD], 0);
    let values = qkv.as_slice()?;
    let vector = |token: usize, which: usize, head: usize| {
        let first = ((token * 3 + which) * heads + head) * OF_HEAD;
        values[first..first + OF_HEAD].iter().map(|&x| f64::from(x))
    };
    // Not 1/√32, which a kernel could hold.
    let scale = 0.2 + 0.1 * case.values(&[1], 1).as_slice()?[0];
    let score = |i: usize| {
        let (head, query, key) = (i / tokens / tokens, i / tokens % tokens, i % tokens);
        f64::from(scale) * vector(query, 0, head).zip(vector(key, 1, head)).map(|(q, k)| q * k).sum::<f64>()
    };
    let expected = (0..heads * tokens * tokens).map(score).collect();
    // 32 products of values below 1, and the scale.
    let tolerance = Tolerance::dot(OF_HEAD + 1, OF_HEAD as f64 * f64::from(scale));
    let s = Argument::written([("head", heads), ("query", tokens), ("key", tokens)], expected, tolerance);
    let args = vec![Argument::Input(qkv), s, Argument::count(tokens), Argument::count(heads), Argument::F32(scale)];
    let tiles = tokens.div_ceil(16);
    Ok(Setup { args, launch: grid([tiles, tiles, heads], [16, 16, 1]) })
}

fn top5(case: &Case<'_>) -> Result<Setup> {
    let shape @ [rows, columns] = [case.size("rows")?, case.size("columns")?];
    let values = case.values(&shape, 0);
    let values = values.as_slice()?;
    // Every other row has negative values only: a maximum that starts from 0 finds none of them.
    let logit = |(i, value): (usize, &f32)| if i / columns % 2 == 0 { value - 1.0 } else { *value };
    let logits = Tensor::from_vec(&shape, values.iter().enumerate().map(logit).collect())?;
    let best = |row: &[f32]| {
        let mut order: Vec<usize> = (0..columns).collect();
        order.sort_by(|&a, &b| row[b].total_cmp(&row[a]));
        order.into_iter().take(5).map(|column| column as f64).collect::<Vec<_>>()
    };
    let expected = logits.as_slice()?.chunks(columns).flat_map(best).collect();
    let out = Argument::written_as(ElementType::I32, [("row", rows), ("place", 5)], expected, Tolerance::exact());
    let args = vec![Argument::Input(logits), out, Argument::count(rows), Argument::count(columns)];
    Ok(Setup { args, launch: grid([rows.div_ceil(4), 1, 1], WARPS) })
}

fn gelu(case: &Case<'_>) -> Result<Setup> {
    let n = case.size("n")?;
    let x: Vec<f32> = case.values(&[n], 0).as_slice()?.iter().map(|x| 4.0 * x).collect();
    let x = Tensor::from_vec(&[n], x)?;
    let expected = reference::gelu(&x)?;
    let args = vec![Argument::updated([("element", n)], x, expected.values, expected.tolerance), Argument::count(n)];
    // The grid does not grow with n.
    Ok(Setup { args, launch: grid([3, 1, 1], [128, 1, 1]) })
}

fn timestep(case: &Case<'_>) -> Result<Setup> {
    let (batch, half) = (case.size("batch")?, case.size("half")?);
    let steps: Vec<f32> = case.values(&[batch], 0).as_slice()?.iter().map(|x| (500.0 + 500.0 * x).floor()).collect();
    let steps = Tensor::from_vec(&[batch], steps)?;
    let expected = reference::timestep_embedding(&steps, 2 * half)?;
    let y = Argument::written([("row", batch), ("column", 2 * half)], expected.values, expected.tolerance);
    let args = vec![Argument::Input(steps), y, Argument::count(batch), Argument::count(half)];
    Ok(Setup { args, launch: LaunchConfig::linear((batch * half) as u32, 128) })
}

fn split_channels(case: &Case<'_>) -> Result<Setup> {
    let (height, width, pitch) = (case.size("height")?, case.size("width")?, case.size("pitch")?);
    let frame = case.values(&[height, pitch], 0);
    let values = frame.as_slice()?;
    let pixel = |i: usize| {
        let (channel, row, column) = (i / width / height, i / width % height, i % width);
        f64::from(values[row * pitch + 3 * column + channel])
    };
    let expected = (0..3 * height * width).map(pixel).collect();
    let planes = Argument::written([("channel", 3), ("row", height), ("column", width)], expected, Tolerance::exact());
    let sizes = [height, width, pitch].map(Argument::count);
    let args = [Argument::Input(frame), planes].into_iter().chain(sizes).collect();
    Ok(Setup { args, launch: grid([width.div_ceil(128), height, 1], [128, 1, 1]) })
}

fn add_channel(case: &Case<'_>) -> Result<Setup> {
    let (planes, pixels) = (case.size("planes")?, case.size("pixels")?);
    let (y, v) = (case.values(&[planes, pixels], 0), case.values(&[planes], 1));
    let (values, more) = (y.as_slice()?, v.as_slice()?);
    // One addition, rounded once: the same bits.
    let expected = values.iter().enumerate().map(|(i, y)| f64::from(y + more[i / pixels])).collect();
    let (v, n) = (Argument::Input(v), planes * pixels);
    let args = vec![
        Argument::updated([("plane", planes), ("pixel", pixels)], y, expected, Tolerance::exact()),
        v,
        Argument::count(pixels),
        Argument::count(n),
    ];
    Ok(Setup { args, launch: LaunchConfig::linear(n.div_ceil(4) as u32, 128) })
}

fn diffusion_step(case: &Case<'_>) -> Result<Setup> {
    // √(1−ᾱ), √ᾱ, w, 1 − w, τ
    let [noise_scale, signal_scale, weight, previous_weight, threshold] = [0.6f32, 0.8, 0.7, 1.0 - 0.7, 0.5];
    let n = case.size("n")?;
    let [noisy, noise, previous] = [0, 1, 2].map(|index| case.values(&[n], index));
    // Each operation rounded to f32.
    let clean = |x: &f32, e: &f32| (x - noise_scale * e) / signal_scale;
    // Every third value lies at the threshold: it is blended.
    let mut before = previous.as_slice()?.to_vec();
    for (i, (x, e)) in noisy.as_slice()?.iter().zip(noise.as_slice()?).enumerate().filter(|(i, _)| i % 3 == 0) {
        before[i] = clean(x, e) - threshold;
    }
    let previous = Tensor::from_vec(&[n], before)?;
    let step = |((x, e), p): ((&f32, &f32), &f32)| {
        let clean = clean(x, e);
        let blended = weight * clean + previous_weight * p;
        f64::from(if (clean - p).abs() <= threshold { blended } else { clean }.clamp(-1.0, 1.0))
    };
    let expected = noisy.as_slice()?.iter().zip(noise.as_slice()?).zip(previous.as_slice()?).map(step).collect();
    let y = Argument::written([("element", n)], expected, Tolerance::exact());
    let inputs = [noisy, noise, previous].map(Argument::Input);
    let scalars = [noise_scale, signal_scale, weight, previous_weight, threshold].map(Argument::F32);
    let args = inputs.into_iter().chain([y]).chain(scalars).chain([Argument::count(n)]).collect();
    Ok(Setup { args, launch: LaunchConfig::linear(n as u32, 128) })
}

fn adaptive_pool(case: &Case<'_>) -> Result<Setup> {
    let x = planes(case)?;
    let [_, planes, height, width] = x.dims4()?;
    let out = [case.size("out_height")?, case.size("out_width")?];
    let mean = reference::adaptive_avg_pool2d(&x, out)?;
    let y = Argument::written(
        [("plane", planes), ("row", out[0]), ("column", out[1])],
        mean.values.clone(),
        mean.tolerance(),
    );
    let sizes = [height, width, out[0], out[1]].map(Argument::count);
    let args = [Argument::Input(x), y].into_iter().chain(sizes).collect();
    Ok(Setup { args, launch: grid([out[1], out[0], planes], [32, 1, 1]) })
}

fn causal_softmax(case: &Case<'_>) -> Result<Setup> {
    let (heads, tokens) = (case.size("heads")?, case.size("tokens")?);
    let shape = [heads, tokens, tokens];
    let scores = case.logits(&shape)?;
    let (mut expected, mut tolerance) = (Vec::with_capacity(scores.len()), Tolerance::exact());
    for (row, scores) in scores.as_slice()?.chunks(tokens).enumerate() {
        let seen = row % tokens + 1;
        let weights = reference::softmax(&Tensor::from_vec(&[1, seen], scores[..seen].to_vec())?)?;
        expected.extend(weights.values);
        expected.resize((row + 1) * tokens, 0.0);
        tolerance.absolute = tolerance.absolute.max(weights.tolerance.absolute);
        tolerance.relative = tolerance.relative.max(weights.tolerance.relative);
    }
    let y = Argument::written([("head", heads), ("row", tokens), ("column", tokens)], expected, tolerance);
    let args = vec![Argument::Input(scores), y, Argument::count(heads * tokens), Argument::count(tokens)];
    Ok(Setup { args, launch: grid([(heads * tokens).div_ceil(4), 1, 1], WARPS) })
}

fn split_heads(case: &Case<'_>) -> Result<Setup> {
    let (tokens, heads, vectors) = (case.size("tokens")?, case.size("heads")?, case.size("vectors")?);
    let channels = 4 * vectors;
    let qkv = case.values(&[tokens, 3, heads, channels], 0);
    let values = qkv.as_slice()?;
    let value = |i: usize| {
        let (channel, token, matrix) = (i % channels, i / channels % tokens, i / channels / tokens);
        // Of query, key and value of all heads, one after the other.
        f64::from(values[(token * 3 * heads + matrix) * channels + channel])
    };
    let expected = (0..values.len()).map(value).collect();
    let out = Argument::written(
        [("matrix", 3), ("head", heads), ("token", tokens), ("channel", channels)],
        expected,
        Tolerance::exact(),
    );
    let threads = tokens * 3 * heads * vectors;
    let sizes = [tokens, heads, vectors].map(Argument::count);
    let args = [Argument::Input(qkv), out].into_iter().chain(sizes).collect();
    Ok(Setup { args, launch: LaunchConfig::linear(threads as u32, 128) })
}
