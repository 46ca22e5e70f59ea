//! Checks each layer at ragged, tiny and empty shapes against its reference, for readers who have just changed its kernel. The
//! tests begin with the same functions.

use bench::trial::{Size, Trial, Verdicts, exactly};
use common::check::{Mismatch, Report, Tolerance, compare};
use common::cpu;
use common::prelude::*;
use common::reference::{self, Bounded, DiffusionParams, MaxPool2d};

use crate::layers::{
    AdaptiveAvgPool, Add, AddChannel, AddNoise, Attention, Concatenate, DiffusionStep, Gelu, LayerNorm, LayerNormStep,
    Linear, MaxPool, RowNorm, Silu, SiluSum, Softmax, SoftmaxStep, TimestepEmbedding, Transpose, Upsample,
};
use phase2_conv_bn::gemm::Tuned;

const N: &[Size] = &[Size::new("n", [0, 1 << 14], 1000)];
const ROWS_AND_COLUMNS: &[Size] = &[Size::new("rows", [0, 64], 5), Size::new("columns", [0, 2048], 100)];

/// Sizes of one image.
const IMAGE: &[Size] =
    &[Size::new("channels", [1, 8], 3), Size::new("height", [3, 96], 9), Size::new("width", [3, 96], 31)];

/// All trials.
pub static TRIALS: &[Trial] = &[
    Trial::new("layers").ragged(layers),
    Trial::new("sequence").ragged(sequence),
    Trial::new("add").ragged(layers).sized(N, |device, sizes| one("add", add(device, &Add::load(device)?, n(sizes)?))),
    Trial::new("gelu").ragged(elementwise).sized(N, |device, sizes| {
        one("GELU", gelu(device, &Gelu::load(device)?, &random(&[n(sizes)?], 5, [8.0, 0.0])?))
    }),
    Trial::new("silu").ragged(elementwise).sized(N, |device, sizes| {
        one("SiLU", silu(device, &Silu::load(device)?, &random(&[n(sizes)?], 5, [8.0, 0.0])?))
    }),
    Trial::new("silu_sum")
        .ragged(elementwise)
        .sized(N, |device, sizes| one("SiLU of a sum", silu_sum(device, &SiluSum::load(device)?, n(sizes)?))),
    Trial::new("add_noise")
        .ragged(elementwise)
        .sized(N, |device, sizes| one("noise", add_noise(device, &AddNoise::load(device)?, sizes, 0.9))),
    Trial::new("diffusion_step")
        .ragged(elementwise)
        .sized(N, |device, sizes| one("a step", diffusion(device, &DiffusionStep::load(device)?, sizes, PARAMS[0]))),
    Trial::new("timestep")
        .ragged(elementwise)
        .sized(&[Size::new("pairs of channels", [0, 512], 8)], |device, sizes| {
            one("embedding", embedding(device, &TimestepEmbedding::SOURCE, &steps()?, 2 * n(sizes)?))
        }),
    Trial::new("bias_rows").ragged(layers).sized(
        &[Size::new("rows", [1, 64], 5), Size::new("inputs", [1, 128], 20), Size::new("outputs", [1, 128], 33)],
        |device, sizes| one("linear layer", linear(device, exactly(sizes)?)),
    ),
    Trial::new("add_channel")
        .ragged(elementwise)
        .sized(IMAGE, |device, sizes| one("sum", add_channel(device, &AddChannel::load(device)?, image(sizes)?))),
    Trial::new("upsample")
        .ragged(elementwise)
        .sized(IMAGE, |device, sizes| one("upsampling", upsample(device, &Upsample::SOURCE, image(sizes)?, 2))),
    Trial::new("concatenate").ragged(elementwise).sized(IMAGE, |device, sizes| {
        one("joined", concatenate(device, &Concatenate::load(device)?, image(sizes)?, 2))
    }),
    Trial::new("average_pool").ragged(layers).sized(IMAGE, |device, sizes| {
        let x = Tensor::random(&image(sizes)?, 1);
        one("average pooling", average_pool(device, &AdaptiveAvgPool::load(device)?, &x, [1, 1]))
    }),
    Trial::new("attention").ragged(sequence).sized(
        &[Size::new("tokens", [1, 128], 33), Size::new("values of a head", [1, 80], 20)],
        |device, sizes| {
            let [tokens, d] = exactly(sizes)?;
            one("attention", attention(device, &Attention::load(device)?, &qkv(2, tokens, 2, d)?, 2))
        },
    ),
    Trial::new("max_pool").ragged(layers).sized(IMAGE, |device, sizes| {
        let (pool, x) = (POOLS[0], Tensor::random(&image(sizes)?, 1));
        one("max pooling", max_pool(device, &MaxPool::load(device, pool)?, pool, &x))
    }),
    Trial::new("layer_norm").ragged(sequence).sized(ROWS_AND_COLUMNS, |device, sizes| {
        let mut all = Verdicts::default();
        for step in LayerNormStep::ALL {
            all.part(|all| {
                let layer = LayerNorm::load_from(device, step, &step.source())?;
                all.add(format!("{sizes:?}"), layer_norm(device, &layer, &random(sizes, 1, [3.0, 5.0])?)?);
                Ok(())
            })?;
        }
        Ok(all.into_wrong())
    }),
    Trial::new("softmax").ragged(sequence).sized(ROWS_AND_COLUMNS, |device, sizes| {
        let mut all = Verdicts::default();
        for step in SoftmaxStep::ALL {
            all.part(|all| {
                let layer = Softmax::load_from(device, step, &step.source())?;
                all.add(format!("{sizes:?}"), softmax(device, &layer, &random(sizes, 1, [30.0, 90.0])?)?);
                Ok(())
            })?;
        }
        Ok(all.into_wrong())
    }),
    Trial::new("row_norm").ragged(sequence).sized(ROWS_AND_COLUMNS, |device, sizes| {
        one("row norm", row_norm(device, &RowNorm::load(device)?, &Tensor::random(sizes, 1)))
    }),
    Trial::new("transpose").ragged(sequence).sized(
        &[Size::new("rows", [0, 256], 33), Size::new("columns", [0, 256], 65)],
        |device, sizes| {
            let shape = [&[1], sizes].concat();
            one("transposition", transpose(device, &Transpose::load(device)?, &Tensor::random(&shape, 1)))
        },
    ),
];

fn n(sizes: &[usize]) -> Result<usize> {
    exactly(sizes).map(|[n]| n)
}

fn image(sizes: &[usize]) -> Result<[usize; 4]> {
    exactly(sizes).map(|[channels, height, width]| [1, channels, height, width])
}

/// Errors of a single launch.
fn one(what: &str, compared: Comparison) -> Result<Vec<String>> {
    let mut all = Verdicts::default();
    all.add(what, compared?);
    Ok(all.into_wrong())
}

/// The result of a completed launch: how close the values are.
pub type Comparison = Result<std::result::Result<Report, Mismatch>>;

/// Lengths of lists: less than a vector; vectors with every remainder; more than a block of vectors.
pub const LENGTHS: [usize; 8] = [0, 1, 3, 4, 7, 1022, 4097, 8195];
/// Planes that vectors straddle, down to planes of one value; empty ones.
pub const IMAGES: [[usize; 4]; 7] =
    [[1, 1, 1, 1], [2, 3, 5, 7], [3, 11, 1, 1], [2, 5, 3, 1], [1, 3, 33, 65], [0, 2, 3, 3], [2, 3, 0, 4]];
/// Rows for a warp and for a block, that begin at multiples of 16 bytes or anywhere; longer than the registers; none.
pub const ROWS: [[usize; 2]; 11] =
    [[1, 1], [3, 2], [9, 4], [17, 33], [8, 64], [2, 511], [3, 512], [2, 516], [2, 1030], [0, 5], [4, 0]];
/// Poolings: ResNet's; one that tiles the image; one that is the image; one with gaps.
pub const POOLS: [MaxPool2d; 4] = [pool(3, 2, 1), pool(2, 2, 0), pool(5, 1, 2), pool(2, 3, 1)];
/// Images to pool.
pub const POOLED: [[usize; 4]; 5] = [[1, 1, 5, 5], [2, 3, 7, 9], [1, 5, 16, 12], [3, 2, 8, 31], [0, 2, 6, 6]];
/// Means of cells: rows and columns of the output.
pub const CELLS: [[usize; 2]; 5] = [[1, 1], [2, 3], [5, 1], [7, 7], [40, 3]];
/// Batch, tokens, heads and channels of a head.
pub const ATTENTIONS: [(usize, usize, usize, usize); 14] = [
    // By 16 bytes: one tile and less, several tiles each way, more than one step in both products.
    (1, 4, 1, 4),
    (2, 64, 2, 8),
    (1, 132, 2, 12),
    (1, 64, 1, 68),
    (1, 136, 1, 40),
    // Anything.
    (1, 1, 1, 1),
    (2, 3, 2, 5),
    (1, 130, 1, 3),
    (1, 9, 3, 70),
    (2, 33, 2, 4),
    (1, 8, 2, 2),
    (0, 4, 2, 4),
    (1, 0, 2, 4),
    (1, 4, 2, 0),
];
/// Parameters of a diffusion step.
pub const PARAMS: [DiffusionParams; 4] = [
    DiffusionParams { alpha_bar: 0.9, weight: 0.7, threshold: 0.5 },
    DiffusionParams { alpha_bar: 0.02, weight: 0.25, threshold: 1.5 },
    DiffusionParams { alpha_bar: 1.0, weight: 1.0, threshold: 0.0 },
    DiffusionParams { alpha_bar: 0.5, weight: 0.0, threshold: 9.0 },
];

/// A pooling.
pub const fn pool(window: usize, stride: usize, padding: usize) -> MaxPool2d {
    MaxPool2d { window, stride, padding }
}

/// scale · random + shift.
///
/// # Errors
/// None, unless the shape is too large.
pub fn random(shape: &[usize], seed: u64, [scale, shift]: [f32; 2]) -> Result<Tensor> {
    let values = Tensor::random(shape, seed).into_vec()?;
    Tensor::from_vec(shape, values.into_iter().map(|x| scale * x + shift).collect())
}

/// Steps of a schedule, its ends, and one between two.
///
/// # Errors
/// None.
pub fn steps() -> Result<Tensor> {
    Tensor::from_vec(&[6], vec![0.0, 1.0, 17.0, 250.0, 999.0, 31.5])
}

/// Compares without tolerance; the signs of zeros count too.
fn compare_bits(found: Tensor, expected: Tensor) -> Comparison {
    let (found, expected) = (found.into_vec()?, expected.into_vec()?);
    let report = match compare(&found, &expected, Tolerance::exact()) {
        Ok(report) => report,
        wrong => return Ok(wrong),
    };
    let differs = |&i: &usize| found[i].to_bits() != expected[i].to_bits() && !found[i].is_nan();
    let wrong: Vec<usize> = (0..found.len()).filter(differs).collect();
    Ok(match wrong.first() {
        None => Ok(report),
        Some(&first) => Err(Mismatch::Values {
            wrong: wrong.len(),
            first,
            actual: found[first].into(),
            expected: expected[first].into(),
            allowed: 0.0,
            report,
        }),
    })
}

/// Max pooling, bit by bit.
///
/// # Errors
/// Errors of the device.
pub fn max_pool(device: &Device, layer: &MaxPool, pool: MaxPool2d, x: &Tensor) -> Comparison {
    let expected = reference::max_pool2d(x, pool)?;
    let mut y = Tensor::empty_on(device, expected.shape())?;
    layer.launch(&device.stream(), &x.to_device(device)?, &mut y)?;
    compare_bits(y, expected)
}

/// Means of cells.
///
/// # Errors
/// Errors of the device.
pub fn average_pool(device: &Device, layer: &AdaptiveAvgPool, x: &Tensor, out: [usize; 2]) -> Comparison {
    let expected = reference::adaptive_avg_pool2d(x, out)?;
    let shape = [x.shape()[0], x.shape()[1], out[0], out[1]];
    let mut y = Tensor::empty_on(device, &shape)?;
    layer.launch(&device.stream(), &x.to_device(device)?, &mut y)?;
    Ok(compare(&y.into_vec()?, &expected.values, expected.tolerance()))
}

/// y += x.
///
/// # Errors
/// Errors of the device.
pub fn add(device: &Device, layer: &Add, n: usize) -> Comparison {
    let (y, x) = (Tensor::random(&[n], 1), Tensor::random(&[n], 2));
    let expected = reference::vector_add(y.as_slice()?, x.as_slice()?)?;
    let mut sum = y.to_device(device)?;
    layer.launch(&device.stream(), &mut sum, &x.to_device(device)?)?;
    Ok(compare(&sum.into_vec()?, &expected.values, expected.tolerance()))
}

/// x·Wᵀ + b.
///
/// # Errors
/// Errors of the device.
pub fn linear(device: &Device, [rows, inputs, outputs]: [usize; 3]) -> Comparison {
    let (x, weight) = (Tensor::random(&[rows, inputs], 3), Tensor::random(&[outputs, inputs], 4));
    let bias = Tensor::random(&[outputs], 5);
    let product = reference::Gemm::new(x.as_slice()?, weight.as_slice()?, rows, outputs, inputs);
    let expected = reference::Gemm { transposed: true, bias: Some(bias.as_slice()?), ..product }.all()?;
    let mut y = Tensor::empty_on(device, &[rows, outputs])?;
    let gemm = Tuned::load(device)?;
    Linear::load(device, &gemm, &weight, &bias)?.launch(&device.stream(), &x.to_device(device)?, &mut y)?;
    Ok(compare(&y.into_vec()?, &expected.values, expected.tolerance()))
}

/// GELU, out of place.
///
/// # Errors
/// Errors of the device.
pub fn gelu(device: &Device, layer: &Gelu, x: &Tensor) -> Comparison {
    let Bounded { values, tolerance } = reference::gelu(x)?;
    let mut y = Tensor::empty_on(device, x.shape())?;
    layer.launch(&device.stream(), &x.to_device(device)?, &mut y)?;
    Ok(compare(&y.into_vec()?, &values, tolerance))
}

/// SiLU, out of place.
///
/// # Errors
/// Errors of the device.
pub fn silu(device: &Device, layer: &Silu, x: &Tensor) -> Comparison {
    let Bounded { values, tolerance } = reference::silu(x)?;
    let mut y = Tensor::empty_on(device, x.shape())?;
    layer.launch(&device.stream(), &x.to_device(device)?, &mut y)?;
    Ok(compare(&y.into_vec()?, &values, tolerance))
}

/// silu(a + b·c).
///
/// # Errors
/// Errors of the device.
pub fn silu_sum(device: &Device, layer: &SiluSum, n: usize) -> Comparison {
    let (a, b, c) = (random(&[n], 1, [4.0, 0.0])?, random(&[n], 2, [3.0, 0.0])?, Tensor::random(&[n], 3));
    let Bounded { values, tolerance } = reference::silu_sum(&a, &b, &c)?;
    let mut y = Tensor::empty_on(device, &[n])?;
    let (a, b, c) = (a.to_device(device)?, b.to_device(device)?, c.to_device(device)?);
    layer.launch(&device.stream(), &a, &b, &c, &mut y)?;
    Ok(compare(&y.into_vec()?, &values, tolerance))
}

/// A value added to each plane, with the CPU's bits.
///
/// # Errors
/// Errors of the device.
pub fn add_channel(device: &Device, layer: &AddChannel, shape: [usize; 4]) -> Comparison {
    let (mut y, v) = (Tensor::random(&shape, 1), Tensor::random(&shape[..2], 2));
    let mut found = y.to_device(device)?;
    layer.launch(&device.stream(), &mut found, &v.to_device(device)?)?;
    cpu::add_channel_in_place(&mut y, &v)?;
    compare_bits(found, y)
}

/// Upsampling, bit by bit.
///
/// # Errors
/// Errors of the device.
pub fn upsample(device: &Device, source: &KernelSource, shape: [usize; 4], factor: usize) -> Comparison {
    let x = Tensor::random(&shape, 1);
    let layer = Upsample::load_from(device, source, factor)?;
    let mut found = Tensor::empty_on(device, &layer.output_shape(&x)?)?;
    layer.launch(&device.stream(), &x.to_device(device)?, &mut found)?;
    compare_bits(found, reference::upsample_nearest(&x, factor)?)
}

/// Channels of two images, one after the other, bit by bit; the second has `more`.
///
/// # Errors
/// Errors of the device.
pub fn concatenate(device: &Device, layer: &Concatenate, shape: [usize; 4], more: usize) -> Comparison {
    let [n, c, height, width] = shape;
    let (a, b) = (Tensor::random(&shape, 1), Tensor::random(&[n, more, height, width], 2));
    let mut found = Tensor::empty_on(device, &[n, c + more, height, width])?;
    layer.launch(&device.stream(), &a.to_device(device)?, &b.to_device(device)?, &mut found)?;
    compare_bits(found, reference::concatenate(&a, &b)?)
}

/// The embedding of steps.
///
/// # Errors
/// Errors of the device.
pub fn embedding(device: &Device, source: &KernelSource, steps: &Tensor, channels: usize) -> Comparison {
    let layer = TimestepEmbedding::load_from(device, source, channels)?;
    let mut found = Tensor::empty_on(device, &[steps.len(), channels])?;
    layer.launch(&device.stream(), &steps.to_device(device)?, &mut found)?;
    let Bounded { values, tolerance } = reference::timestep_embedding(steps, channels)?;
    Ok(compare(&found.into_vec()?, &values, tolerance))
}

/// A diffusion step, with the CPU's bits.
///
/// # Errors
/// Errors of the device.
pub fn diffusion(device: &Device, layer: &DiffusionStep, shape: &[usize], params: DiffusionParams) -> Comparison {
    let wide = |seed| random(shape, seed, [2.0, 0.0]);
    let (noisy, noise, previous) = (wide(1)?, wide(2)?, Tensor::random(shape, 3));
    let mut found = Tensor::empty_on(device, shape)?;
    let inputs = [&noisy.to_device(device)?, &noise.to_device(device)?, &previous.to_device(device)?];
    layer.launch(&device.stream(), inputs, params, &mut found)?;
    compare_bits(found, cpu::diffusion_step(&noisy, &noise, &previous, params)?)
}

/// Noise added, with the CPU's bits.
///
/// # Errors
/// Errors of the device.
pub fn add_noise(device: &Device, layer: &AddNoise, shape: &[usize], alpha_bar: f32) -> Comparison {
    let (clean, noise) = (random(shape, 1, [2.0, 0.0])?, random(shape, 2, [2.0, 0.0])?);
    let mut found = Tensor::empty_on(device, shape)?;
    layer.launch(&device.stream(), &clean.to_device(device)?, &noise.to_device(device)?, alpha_bar, &mut found)?;
    compare_bits(found, cpu::add_noise(&clean, &noise, alpha_bar)?)
}

/// LayerNorm with random weights and bias.
///
/// # Errors
/// Errors of the device.
pub fn layer_norm(device: &Device, layer: &LayerNorm, x: &Tensor) -> Comparison {
    let columns = x.shape().last().copied().unwrap_or(0);
    let (weight, bias) = (Tensor::random(&[columns], 8), Tensor::random(&[columns], 9));
    let norm = reference::LayerNorm { weight: &weight, bias: &bias, eps: 1e-5 };
    let expected = reference::layer_norm(x, &norm)?;
    let (weight, bias) = (weight.to_device(device)?, bias.to_device(device)?);
    let norm = reference::LayerNorm { weight: &weight, bias: &bias, ..norm };
    let mut y = Tensor::empty_on(device, x.shape())?;
    layer.launch(&device.stream(), &x.to_device(device)?, &norm, &mut y)?;
    Ok(compare(&y.into_vec()?, &expected.values, expected.tolerance))
}

/// Normalised rows.
///
/// # Errors
/// Errors of the device.
pub fn row_norm(device: &Device, layer: &RowNorm, x: &Tensor) -> Comparison {
    let expected = reference::row_norm(x)?;
    let mut y = Tensor::empty_on(device, x.shape())?;
    layer.launch(&device.stream(), &x.to_device(device)?, &mut y)?;
    Ok(compare(&y.into_vec()?, &expected.values, expected.tolerance))
}

/// Softmax out of place, then in place: the same bits.
///
/// # Errors
/// Errors of the device.
pub fn softmax(device: &Device, layer: &Softmax, x: &Tensor) -> Comparison {
    let expected = reference::softmax(x)?;
    let mut y = Tensor::empty_on(device, x.shape())?;
    let mut in_place = x.to_device(device)?;
    layer.launch(&device.stream(), &in_place, &mut y)?;
    layer.launch_in_place(&device.stream(), &mut in_place)?;
    let (y, in_place) = (y.into_vec()?, in_place.into_vec()?);
    Ok(compare(&y, &expected.values, expected.tolerance).and_then(|_| compare(&in_place, &y, Tolerance::exact())))
}

/// Checks a transpose, then one added to other values.
///
/// # Errors
/// Errors of the device.
pub fn transpose(device: &Device, layer: &Transpose, x: &Tensor) -> Comparison {
    let expected = reference::transpose(x)?;
    let before = Tensor::random(expected.shape(), 7);
    let sum = reference::vector_add(before.as_slice()?, expected.as_slice()?)?;
    let (x, mut y, mut added) =
        (x.to_device(device)?, Tensor::empty_on(device, expected.shape())?, before.to_device(device)?);
    layer.launch(&device.stream(), &x, &mut y)?;
    layer.launch_add(&device.stream(), &x, &mut added)?;
    let (y, added) = (y.into_vec()?, added.into_vec()?);
    Ok(compare(&y, expected.as_slice()?, Tolerance::exact())
        .and_then(|_| compare(&added, &sum.values, sum.tolerance())))
}

/// Attention of all heads.
///
/// # Errors
/// Errors of the device.
pub fn attention(device: &Device, layer: &Attention, qkv: &Tensor, heads: usize) -> Comparison {
    let expected = reference::attention(qkv, heads)?;
    let &[batch, tokens, columns] = qkv.shape() else {
        return Err(Error::shape("attention", format!("qkv is [B, T, 3C], not {:?}", qkv.shape())));
    };
    let mut scores = Tensor::empty_on(device, &[batch * heads, tokens, tokens])?;
    let mut out = Tensor::empty_on(device, &[batch, tokens, columns / 3])?;
    layer.launch(&device.stream(), &qkv.to_device(device)?, heads, &mut scores, &mut out)?;
    Ok(compare(&out.into_vec()?, &expected.values, expected.tolerance))
}

/// Values of several sizes, so that scores are far apart: a head's q, k, v \[B, T, 3·heads·d\].
///
/// # Errors
/// None, unless the shape is too large.
pub fn qkv(batch: usize, tokens: usize, heads: usize, d: usize) -> Result<Tensor> {
    random(&[batch, tokens, 3 * heads * d], 1, [2.0, 0.0])
}

fn layers(device: &Device) -> Result<Vec<String>> {
    let mut all = Verdicts::default();
    all.part(|all| {
        for pool in POOLS {
            let layer = MaxPool::load(device, pool)?;
            for (seed, shape) in (1..).zip(POOLED) {
                all.add(
                    format!("{pool:?} of {shape:?}"),
                    max_pool(device, &layer, pool, &Tensor::random(&shape, seed))?,
                );
            }
        }
        Ok(())
    })?;
    all.part(|all| {
        let layer = AdaptiveAvgPool::load(device)?;
        for (seed, shape) in (1..).zip(POOLED) {
            for out in CELLS {
                let compared = average_pool(device, &layer, &Tensor::random(&shape, seed), out)?;
                all.add(format!("means of {shape:?} in {out:?} cells"), compared);
            }
        }
        Ok(())
    })?;
    all.part(|all| {
        let layer = Add::load(device)?;
        for n in [0, 1, 255, 1000] {
            all.add(format!("n = {n}"), add(device, &layer, n)?);
        }
        Ok(())
    })?;
    all.part(|all| {
        for shape in [[5, 33, 10], [1, 1, 1], [130, 8, 65]] {
            all.add(format!("linear {shape:?}"), linear(device, shape)?);
        }
        Ok(())
    })?;
    Ok(all.into_wrong())
}

fn elementwise(device: &Device) -> Result<Vec<String>> {
    let mut all = Verdicts::default();
    let widths = [1.0, 8.0, 100.0];
    all.part(|all| {
        let layer = Gelu::load(device)?;
        for (n, most) in LENGTHS.into_iter().flat_map(|n| widths.map(|most| (n, most))) {
            all.add(format!("n = {n}, values up to {most}"), gelu(device, &layer, &random(&[n], 5, [most, 0.0])?)?);
        }
        Ok(())
    })?;
    all.part(|all| {
        let layer = Silu::load(device)?;
        for (n, most) in LENGTHS.into_iter().flat_map(|n| widths.map(|most| (n, most))) {
            all.add(format!("n = {n}, values up to {most}"), silu(device, &layer, &random(&[n], 5, [most, 0.0])?)?);
        }
        Ok(())
    })?;
    all.part(|all| {
        let layer = SiluSum::load(device)?;
        for n in LENGTHS {
            all.add(format!("n = {n}"), silu_sum(device, &layer, n)?);
        }
        Ok(())
    })?;
    all.part(|all| {
        let layer = AddChannel::load(device)?;
        for shape in IMAGES {
            all.add(format!("{shape:?}"), add_channel(device, &layer, shape)?);
        }
        Ok(())
    })?;
    all.part(|all| {
        for (shape, factor) in IMAGES.into_iter().flat_map(|shape| [1, 2, 3].map(|factor| (shape, factor))) {
            all.add(format!("{shape:?} × {factor}"), upsample(device, &Upsample::SOURCE, shape, factor)?);
        }
        Ok(())
    })?;
    all.part(|all| {
        let layer = Concatenate::load(device)?;
        for (shape, more) in IMAGES.into_iter().flat_map(|shape| [0, 1, 4].map(|more| (shape, more))) {
            all.add(format!("{shape:?} and {more} channels"), concatenate(device, &layer, shape, more)?);
        }
        Ok(())
    })?;
    all.part(|all| {
        for channels in [0, 2, 16, 320] {
            let compared = embedding(device, &TimestepEmbedding::SOURCE, &steps()?, channels)?;
            all.add(format!("{channels} channels"), compared);
        }
        Ok(())
    })?;
    all.part(|all| {
        let layer = AddNoise::load(device)?;
        for (shape, alpha_bar) in IMAGES.into_iter().flat_map(|shape| [0.0, 0.02, 0.9, 1.0].map(|alpha| (shape, alpha)))
        {
            all.add(format!("{shape:?}, ᾱ = {alpha_bar}"), add_noise(device, &layer, &shape, alpha_bar)?);
        }
        Ok(())
    })?;
    all.part(|all| {
        let layer = DiffusionStep::load(device)?;
        for params in PARAMS {
            for shape in [vec![2, 4, 9, 7], vec![1], vec![0, 4, 8, 8], vec![1025]] {
                all.add(format!("{shape:?}, {params:?}"), diffusion(device, &layer, &shape, params)?);
            }
        }
        Ok(())
    })?;
    Ok(all.into_wrong())
}

fn sequence(device: &Device) -> Result<Vec<String>> {
    let mut all = Verdicts::default();
    for step in LayerNormStep::ALL {
        all.part(|all| {
            let layer = LayerNorm::load_from(device, step, &step.source())?;
            for (seed, shape) in (1..).zip(ROWS.into_iter().chain([[2, 4100]])) {
                all.add(format!("{shape:?}"), layer_norm(device, &layer, &random(&shape, seed, [3.0, 5.0])?)?);
            }
            Ok(())
        })?;
    }
    all.part(|all| {
        let layer = RowNorm::load(device)?;
        for (seed, shape) in (1..).zip(ROWS) {
            all.add(format!("{shape:?}"), row_norm(device, &layer, &Tensor::random(&shape, seed))?);
        }
        Ok(())
    })?;
    for step in SoftmaxStep::ALL {
        all.part(|all| {
            let layer = Softmax::load_from(device, step, &step.source())?;
            for (seed, shape) in (1..).zip(ROWS) {
                // Up to 60 apart: no power of the values themselves may be taken.
                for scale in [1.0, 30.0] {
                    let compared = softmax(device, &layer, &random(&shape, seed, [scale, 90.0])?)?;
                    all.add(format!("{shape:?}, values {scale} around 90"), compared);
                }
            }
            Ok(())
        })?;
    }
    all.part(|all| {
        let layer = Transpose::load(device)?;
        for (seed, shape) in
            (1..).zip([[1, 1, 1], [2, 3, 70], [3, 33, 32], [1, 64, 65], [2, 0, 3], [0, 4, 4], [5, 31, 1]])
        {
            all.add(format!("{shape:?}"), transpose(device, &layer, &Tensor::random(&shape, seed))?);
        }
        Ok(())
    })?;
    all.part(|all| {
        let layer = Attention::load(device)?;
        for (batch, tokens, heads, d) in ATTENTIONS {
            let compared = attention(device, &layer, &qkv(batch, tokens, heads, d)?, heads)?;
            all.add(format!("{batch} × {tokens} tokens, {heads} heads of {d}"), compared);
        }
        Ok(())
    })?;
    Ok(all.into_wrong())
}
