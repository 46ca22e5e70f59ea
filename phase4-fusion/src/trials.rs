//! Checks kernels between convolutions and fused ones at ragged shapes against their references, for readers who have just
//! changed one. The tests begin with the same functions.

use bench::trial::{Size, Trial, Verdicts, exactly};
use common::check::{Mismatch, Report, Tolerance, compare};
use common::cpu;
use common::prelude::*;
use common::reference::{self, Activation, DiffusionParams, MaxPool2d};
use common::tensor::F8E4M3;

use crate::attention::problem::{AttentionProblem, Layout as Tokens};
use crate::attention::{self, Options};
use crate::fusion::DiffusionStep;
use crate::fusion::layer_norm::{LayerNormLinear, LayerNormProblem, PRECISIONS, Way};
use crate::fusion::upsample::{UpsampleConv, UpsampleProblem};
use crate::gemm::{self, Layout};
use crate::nhwc::{
    AVERAGE_POOL, AveragePool, Columns, Concatenate, Convert, JOIN, LAYER_NORM, LayerNorm, MAX_POOL, MaxPool,
    POINTWISE, Pointwise, Terms, Upsample,
};
use crate::planes;
use crate::recast::Recast;
use crate::report::gemm::TensorProblem;

/// All trials. Some products take multiples of 16 only, and slices a K of more than 192.
pub static TRIALS: &[Trial] = &[
    Trial::new("gemm").sized(
        &[Size::new("M", [1, 320], 64), Size::new("N", [1, 320], 80), Size::new("K", [1, 640], 208)],
        products_of,
    ),
    Trial::new("attention").sized(
        &[Size::new("queries", [1, 512], 70), Size::new("keys", [1, 512], 100), Size::new("head", [1, 160], 48)],
        attentions_of,
    ),
    Trial::new("nhwc").ragged(images),
    Trial::new("nhwc_images").ragged(images).sized(
        &[Size::new("channels", [1, 64], 16), Size::new("height", [3, 32], 9), Size::new("width", [3, 32], 7)],
        images_of,
    ),
    Trial::new("recast").ragged(recasts),
    Trial::new("fusion").ragged(fused),
    Trial::new("diffusion_step").ragged(fused).sized(&[Size::new("n", [1, 1 << 14], 1000)], |device, sizes| {
        let mut all = Verdicts::default();
        steps_of(device, sizes, &mut all)?;
        Ok(all.into_wrong())
    }),
];

/// The result of a completed launch: how close the values are.
pub type Comparison = Result<std::result::Result<Report, Mismatch>>;

/// Parameters of a diffusion step.
pub const DIFFUSION: DiffusionParams = DiffusionParams { alpha_bar: 0.5, weight: 0.7, threshold: 0.5 };

const TYPES: [ElementType; 2] = [ElementType::F16, ElementType::F32];
const POOLS: [(MaxPool2d, [usize; 4]); 2] = [
    (MaxPool2d { window: 3, stride: 2, padding: 1 }, [2, 8, 9, 7]),
    (MaxPool2d { window: 5, stride: 1, padding: 2 }, [3, 16, 5, 6]),
];

/// Values in (−2, 2).
fn wide(n: usize, seed: u64) -> Result<Tensor> {
    Tensor::from_vec(&[n], Tensor::random(&[n], seed).into_vec()?.into_iter().map(|value| 2.0 * value).collect())
}

/// Distinct values, rounded to the type.
///
/// # Errors
/// Errors of the device.
pub fn rounded(shape: &[usize], element: ElementType) -> Result<Tensor> {
    Tensor::random(shape, 1).to_type(element)?.to_type(ElementType::F32)
}

/// The image channels last, on the device, with zeros up to `channels`.
///
/// # Errors
/// Errors of the device.
pub fn channels_last(device: &Device, image: &Tensor, channels: usize, element: ElementType) -> Result<Tensor> {
    let [n, c, h, w] = image.dims4()?;
    let values = image.as_slice()?;
    let filled = Tensor::from_fn(&[n, channels, h, w], |at| match *at {
        [n, of, y, x] if of < c => values[((n * c + of) * h + y) * w + x],
        _ => 0.0,
    });
    filled.to_type(element)?.to_format(MemoryFormat::Nhwc)?.to_device(device)
}

/// Channels first to channels last and back, exactly.
///
/// # Errors
/// Errors of the device.
pub fn convert_right(
    device: &Device,
    convert: &Convert,
    shape: [usize; 4],
    channels: usize,
    element: ElementType,
) -> Comparison {
    let stream = device.stream();
    let image = rounded(&shape, element)?;
    let expected = channels_last(device, &image, channels, element)?;
    let mut there = Tensor::empty_of(device, expected.shape(), element, MemoryFormat::Nhwc)?;
    convert.to_channels_last(&stream, &image.to_device(device)?, &mut there)?;
    let first = compare(&there.to_f64()?, &expected.to_f64()?, Tolerance::exact());
    if first.is_err() {
        return Ok(first);
    }
    let mut back = Tensor::empty_on(device, &shape)?;
    convert.to_channels_first(&stream, &there, &mut back)?;
    Ok(compare(&back.into_vec()?, image.as_slice()?, Tolerance::exact()))
}

/// The largest of each window, exactly.
///
/// # Errors
/// Errors of the device.
pub fn max_pool_right(
    device: &Device,
    source: &KernelSource,
    pool: MaxPool2d,
    shape: [usize; 4],
    element: ElementType,
) -> Comparison {
    let image = rounded(&shape, element)?;
    let expected = channels_last(device, &reference::max_pool2d(&image, pool)?, shape[1], element)?;
    let mut y = Tensor::empty_of(device, expected.shape(), element, MemoryFormat::Nhwc)?;
    let x = channels_last(device, &image, shape[1], element)?;
    MaxPool::load_from(device, source, pool)?.launch(&device.stream(), &x, &mut y)?;
    Ok(compare(&y.to_f64()?, &expected.to_f64()?, Tolerance::exact()))
}

/// Means of whole planes.
///
/// # Errors
/// Errors of the device.
pub fn means_right(
    device: &Device,
    source: &KernelSource,
    shape: [usize; 4],
    channels: usize,
    element: ElementType,
) -> Comparison {
    let image = rounded(&shape, element)?;
    let expected = reference::adaptive_avg_pool2d(&image, [1, 1])?;
    let mut y = Tensor::empty_on(device, &[shape[0], shape[1], 1, 1])?;
    let x = channels_last(device, &image, channels, element)?;
    AveragePool::load_from(device, source)?.launch(&device.stream(), &x, &mut y)?;
    Ok(compare(&y.into_vec()?, &expected.values, expected.tolerance()))
}

/// The same in planes of f32, after only a SiLU.
///
/// # Errors
/// Errors of the device.
pub fn planes_right(device: &Device, source: &KernelSource, shape: [usize; 4]) -> Comparison {
    let [n, c, h, w] = shape;
    let [x, image] = [1, 2].map(|seed| Tensor::random(&shape, seed));
    let (e, first, pitch) = (Tensor::random(&[n, c + 5], 5), 3, c + 5);
    let (of_x, of_image, of_e) = (x.as_slice()?, image.as_slice()?, e.as_slice()?);
    let expected: Vec<f64> = (0..x.len())
        .map(|at| {
            let (plane, inner) = (at / (h * w), f64::from(of_x[at]));
            let of_channel = f64::from(of_e[plane / c * pitch + first + plane % c]);
            inner / (1.0 + (-inner).exp()) + of_channel + f64::from(of_image[at])
        })
        .collect();
    let (x, image, e) = (x.to_device(device)?, image.to_device(device)?, e.to_device(device)?);
    let mut y = Tensor::full(&shape, f32::NAN).to_device(device)?;
    let channels = Some(Columns { values: &e, first, count: c });
    let terms = planes::Terms { activation: Activation::Silu, channels, image: Some(&image) };
    planes::Pointwise::load_from(device, source)?.launch(&device.stream(), &x, &terms, &mut y)?;
    // e^x, the sum with 1, the quotient and the two sums, of values up to 3.
    Ok(compare(&y.into_vec()?, &expected, Tolerance::absolute(3.0 * 8.0 * 2f64.powi(-24))))
}

/// Additions and activation of a launch, with every term: each is off by a rounding, e^x and the quotient of SiLU by 2⁻²⁰ of a
/// value up to 2, and the result by a rounding of its type.
///
/// # Errors
/// Errors of the device.
pub fn sums_right(
    device: &Device,
    source: &KernelSource,
    shape: [usize; 4],
    channels: usize,
    element: ElementType,
) -> Comparison {
    let [n, c, h, w] = shape;
    let of = |seed: u64, shape: &[usize]| Tensor::random(shape, seed).to_type(element)?.to_type(ElementType::F32);
    let (x, image) = (of(1, &shape)?, of(2, &shape)?);
    let [scale, shift] = [3, 4].map(|seed| Tensor::random(&[c], seed));
    // Columns of a wider matrix.
    let (e, first, pitch) = (Tensor::random(&[n, c + 5], 5), 3, c + 5);
    let [of_x, of_image, of_scale, of_shift, of_e] =
        [x.as_slice()?, image.as_slice()?, scale.as_slice()?, shift.as_slice()?, e.as_slice()?];
    let expected = Tensor::from_fn(&shape, |at| {
        let (image_at, channel) = (at[0], at[1]);
        let value = |values: &[f32], at: usize| f64::from(values[at]);
        let pixel = ((image_at * c + channel) * h + at[2]) * w + at[3];
        let inner = value(of_scale, channel) * value(of_x, pixel) + value(of_shift, channel);
        (inner / (1.0 + (-inner).exp()) + value(of_e, image_at * pitch + first + channel) + value(of_image, pixel))
            as f32
    });
    let filled =
        |values: &[f32]| Tensor::from_fn(&[channels], |at| values.get(at[0]).copied().unwrap_or(0.0)).to_device(device);
    let (scale, shift, e) = (filled(of_scale)?, filled(of_shift)?, e.to_device(device)?);
    let (x, image) = (channels_last(device, &x, channels, element)?, channels_last(device, &image, channels, element)?);
    let mut y = Tensor::empty_of(device, x.shape(), element, MemoryFormat::Nhwc)?;
    let terms = Terms {
        scale: Some(&scale),
        shift: Some(&shift),
        activation: Activation::Silu,
        channels: Some(Columns { values: &e, first, count: c }),
        image: Some(&image),
    };
    Pointwise::load_from(device, source)?.launch(&device.stream(), &x, &terms, &mut y)?;
    let expected = channels_last(device, &expected, channels, ElementType::F32)?.to_f64()?;
    let rounding = if element == ElementType::F16 { 4.0 * 2f64.powi(-11) } else { 0.0 };
    let bound = 2.0 * 2f64.powi(-20) + 16.0 * 2f64.powi(-24) + rounding;
    Ok(compare(&y.to_f64()?, &expected, Tolerance::absolute(bound)))
}

/// Two images joined along their channels, exactly.
///
/// # Errors
/// Errors of the device.
pub fn joined_right(
    device: &Device,
    source: &KernelSource,
    [n, h, w]: [usize; 3],
    [first, second]: [usize; 2],
    element: ElementType,
) -> Comparison {
    let (a, b) = (rounded(&[n, first, h, w], element)?, rounded(&[n, second, h, w], element)?);
    let padded = |channels: usize| channels.next_multiple_of(32);
    let expected = channels_last(device, &reference::concatenate(&a, &b)?, padded(first + second), element)?;
    let (a, b) =
        (channels_last(device, &a, padded(first), element)?, channels_last(device, &b, padded(second), element)?);
    let mut y = Tensor::empty_of(device, expected.shape(), element, MemoryFormat::Nhwc)?;
    Concatenate::load_from(device, source, [first, second])?.launch(&device.stream(), &a, &b, &mut y)?;
    Ok(compare(&y.to_f64()?, &expected.to_f64()?, Tolerance::exact()))
}

/// An image enlarged, exactly.
///
/// # Errors
/// Errors of the device.
pub fn enlarged_right(
    device: &Device,
    source: &KernelSource,
    shape: [usize; 4],
    factor: usize,
    element: ElementType,
) -> Comparison {
    let image = rounded(&shape, element)?;
    let expected = channels_last(device, &reference::upsample_nearest(&image, factor)?, shape[1], element)?;
    let x = channels_last(device, &image, shape[1], element)?;
    let mut y = Tensor::empty_of(device, expected.shape(), element, MemoryFormat::Nhwc)?;
    Upsample::load_from(device, source, factor)?.launch(&device.stream(), &x, &mut y)?;
    Ok(compare(&y.to_f64()?, &expected.to_f64()?, Tolerance::exact()))
}

/// LayerNorm of each pixel's channels, within the reference's bound, the rounding to f16 added; padding stays zero.
///
/// # Errors
/// Errors of the device.
pub fn normalised_right(
    device: &Device,
    source: &KernelSource,
    [n, h, w]: [usize; 3],
    [c, channels]: [usize; 2],
    element: ElementType,
) -> Comparison {
    let rows = rounded(&[n * h * w, c], element)?;
    let (weight, bias) = (Tensor::random(&[c], 2), Tensor::random(&[c], 3));
    let norm = reference::LayerNorm { weight: &weight, bias: &bias, eps: 1e-5 };
    let expected = reference::layer_norm(&rows, &norm)?;
    let values = rows.as_slice()?.to_vec();
    let image = Tensor::from_fn(&[n, c, h, w], |at| values[((at[0] * h + at[2]) * w + at[3]) * c + at[1]]);
    let x = channels_last(device, &image, channels, element)?;
    let mut y = Tensor::empty_of(device, x.shape(), element, MemoryFormat::Nhwc)?;
    let parts = [&weight.to_device(device)?, &bias.to_device(device)?];
    LayerNorm::load_from(device, source)?.launch(&device.stream(), &x, parts, 1e-5, &mut y)?;
    let rounding = if element == ElementType::F16 { 2f64.powi(-11) } else { 0.0 };
    let wanted: Vec<f64> = (0..n * h * w * channels)
        .map(|at| if at % channels < c { expected.values[at / channels * c + at % channels] } else { 0.0 })
        .collect();
    let found = y.to_f64()?;
    let zeros = (0..found.len()).filter(|at| at % channels >= c).map(|at| found[at]).collect::<Vec<_>>();
    if let Err(mismatch) = compare(&zeros, &vec![0.0; zeros.len()], Tolerance::exact()) {
        return Ok(Err(mismatch));
    }
    let largest = wanted.iter().fold(0.0, |most: f64, value| most.max(value.abs()));
    Ok(compare(&found, &wanted, Tolerance::absolute(expected.tolerance.absolute + rounding * largest)))
}

/// A change of type and of the number of channels, against the host.
///
/// # Errors
/// Errors of the device.
pub fn recast_right(
    device: &Device,
    recast: &Recast,
    (from, to): (ElementType, ElementType),
    [pixels, channels, filled]: [usize; 3],
) -> Comparison {
    let x = Tensor::random(&[pixels, channels, 1, 1], 3).to_type(from)?;
    let values = x.to_f64()?;
    // Some are beyond what bytes hold.
    let times = if matches!(to, ElementType::F16 | ElementType::F32) { 1.0 } else { 150.0 };
    let expected = |at: usize| {
        let (pixel, channel) = (at / filled, at % filled);
        let value = if channel < channels { values[pixel * channels + channel] as f32 * times } else { 0.0 };
        match to {
            ElementType::F16 => f64::from(half::f16::from_f32(value)),
            ElementType::I8 => f64::from(value.round_ties_even().clamp(-128.0, 127.0)),
            ElementType::F8E4M3 => F8E4M3::from_f64(f64::from(value)).to_f64(),
            _ => f64::from(value),
        }
    };
    let expected: Vec<f64> = (0..pixels * filled).map(expected).collect();
    let (stream, there) = (device.stream(), x.to_format(MemoryFormat::Nhwc)?.to_device(device)?);
    let mut y = Tensor::empty_of(device, &[pixels, filled, 1, 1], to, MemoryFormat::Nhwc)?;
    y.poison(&stream)?;
    recast.launch(&stream, &there, times, &mut y)?;
    // Of images of one pixel the channels lie in order.
    Ok(compare(&y.to_f64()?, &expected, Tolerance::exact()))
}

/// Runs a step over `n` values into NaN, and compares it with the CPU's, which has the same bits.
///
/// # Errors
/// Errors of the device.
pub fn diffusion_step(device: &Device, fused: &DiffusionStep, n: usize) -> Comparison {
    let inputs = [wide(n, 1)?, wide(n, 2)?, wide(n, 3)?];
    let expected = cpu::diffusion_step(&inputs[0], &inputs[1], &inputs[2], DIFFUSION)?;
    let on_device = |tensor: &Tensor| tensor.to_device(device);
    let [noisy, noise, previous] = [on_device(&inputs[0])?, on_device(&inputs[1])?, on_device(&inputs[2])?];
    let mut y = Tensor::full(&[n], f32::NAN).to_device(device)?;
    fused.launch(&device.stream(), [&noisy, &noise, &previous], DIFFUSION, &mut y)?;
    Ok(compare(y.to_host()?.as_slice()?, expected.as_slice()?, Tolerance::exact()))
}

fn images(device: &Device) -> Result<Vec<String>> {
    let mut all = Verdicts::default();
    for element in TYPES {
        all.part(|all| {
            let convert = Convert::load(device)?;
            for (shape, channels) in [([2, 3, 5, 7], 3), ([1, 3, 4, 4], 8), ([2, 5, 3, 3], 64), ([1, 1, 1, 1], 1)] {
                all.add(format!("{shape:?} {element}"), convert_right(device, &convert, shape, channels, element)?);
            }
            Ok(())
        })?;
        all.part(|all| {
            for (pool, shape) in POOLS {
                let compared = max_pool_right(device, &MAX_POOL, pool, shape, element)?;
                all.add(format!("{pool:?} of {shape:?} {element}"), compared);
            }
            Ok(())
        })?;
        all.part(|all| {
            for (shape, channels) in [([1, 20, 9, 11], 64), ([3, 3, 1, 1], 8), ([2, 77, 5, 8], 80)] {
                let compared = means_right(device, &AVERAGE_POOL, shape, channels, element)?;
                all.add(format!("means of {shape:?} {element}"), compared);
            }
            Ok(())
        })?;
        all.part(|all| {
            for (shape, channels) in [([2, 16, 5, 3], 64), ([1, 24, 7, 7], 24), ([3, 5, 1, 1], 8), ([0, 8, 2, 2], 8)] {
                let compared = sums_right(device, &POINTWISE, shape, channels, element)?;
                all.add(format!("sums of {shape:?} {element}"), compared);
            }
            Ok(())
        })?;
        all.part(|all| {
            for (size, parts) in [([2, 3, 5], [16, 32]), ([1, 1, 1], [8, 8]), ([1, 4, 4], [40, 16])] {
                let compared = joined_right(device, &JOIN, size, parts, element)?;
                all.add(format!("{size:?}, {parts:?} channels joined, {element}"), compared);
            }
            for (shape, factor) in [([2, 16, 3, 5], 2), ([1, 8, 1, 1], 3)] {
                let compared = enlarged_right(device, &JOIN, shape, factor, element)?;
                all.add(format!("{shape:?} × {factor} {element}"), compared);
            }
            Ok(())
        })?;
        all.part(|all| {
            for (size, channels) in
                [([2, 3, 3], [16, 64]), ([1, 1, 5], [77, 80]), ([1, 1, 1], [1, 8]), ([1, 7, 5], [320; 2])]
            {
                let compared = normalised_right(device, &LAYER_NORM, size, channels, element)?;
                all.add(format!("{size:?}, {channels:?} channels normalised, {element}"), compared);
            }
            Ok(())
        })?;
    }
    all.part(|all| {
        for shape in [[2, 3, 6, 10], [2, 5, 3, 3], [1, 1, 1, 1], [0, 3, 2, 2]] {
            all.add(format!("planes of {shape:?}"), planes_right(device, &planes::SOURCE, shape)?);
        }
        Ok(())
    })?;
    Ok(all.into_wrong())
}

fn recasts(device: &Device) -> Result<Vec<String>> {
    let mut all = Verdicts::default();
    all.part(|all| {
        let recast = Recast::load(device)?;
        for pair in Recast::PAIRS {
            for size in [[0, 8, 8], [1, 8, 8], [35, 24, 64], [35, 64, 24]] {
                all.add(format!("{pair:?} {size:?}"), recast_right(device, &recast, pair, size)?);
            }
        }
        Ok(())
    })?;
    Ok(all.into_wrong())
}

fn fused(device: &Device) -> Result<Vec<String>> {
    let mut all = Verdicts::default();
    all.part(|all| steps_of(device, &[1, 3, 7, 4096, 5003], all))?;
    all.part(|all| {
        let kernels = LayerNormLinear::load(device)?;
        for (size, precision) in
            [[1, 8, 8], [131, 200, 136]].into_iter().flat_map(|size| PRECISIONS.map(|of| (size, of)))
        {
            let problem = LayerNormProblem::seeded(size, 1.5, precision)?;
            let y = problem.run_by(device, &kernels)?;
            all.add(
                format!("LayerNorm + linear {size:?} {precision}"),
                problem.expected(Way::Fused)?.check(&y.to_f64()?),
            );
        }
        Ok(())
    })?;
    all.part(|all| {
        let kernels = UpsampleConv::load(device)?;
        for (image, channels) in [([1, 2, 2], [64, 64, 8]), ([2, 6, 10], [64, 128, 72]), ([2, 8, 6], [64, 0, 64])] {
            for precision in PRECISIONS {
                let problem = UpsampleProblem::seeded(image, channels, precision)?;
                let (operands, mut y) = (problem.to_device(device)?, problem.output(device)?);
                operands.fused(&device.stream(), &kernels, &mut y)?;
                let what = format!("upsampled {image:?}, {channels:?} channels, {precision}");
                all.add(what, problem.expected().check(&y.to_f64()?));
            }
        }
        Ok(())
    })?;
    Ok(all.into_wrong())
}

fn steps_of(device: &Device, lengths: &[usize], all: &mut Verdicts) -> Result<()> {
    let step = DiffusionStep::load(device)?;
    for &n in lengths {
        all.add(format!("a step over {n}"), diffusion_step(device, &step, n)?);
    }
    Ok(())
}

/// Two images, changed, pooled, averaged and summed.
fn images_of(device: &Device, sizes: &[usize]) -> Result<Vec<String>> {
    let [channels, height, width] = exactly(sizes)?;
    let (shape, filled) = ([2, channels, height, width], channels.next_multiple_of(8));
    let mut all = Verdicts::default();
    for element in TYPES {
        let convert = Convert::load(device)?;
        all.add(format!("{shape:?} {element}"), convert_right(device, &convert, shape, filled, element)?);
        let pooled = max_pool_right(device, &MAX_POOL, POOLS[0].0, [2, filled, height, width], element)?;
        all.add(format!("{shape:?} {element}, pooled"), pooled);
        all.add(format!("means of {shape:?} {element}"), means_right(device, &AVERAGE_POOL, shape, filled, element)?);
        all.add(format!("sums of {shape:?} {element}"), sums_right(device, &POINTWISE, shape, filled, element)?);
    }
    Ok(all.into_wrong())
}

/// Each step in the types that it multiplies.
fn products_of(device: &Device, sizes: &[usize]) -> Result<Vec<String>> {
    let size = exactly(sizes)?;
    let stream = device.stream();
    let steps = gemm::LADDER.iter().chain(gemm::OTHERS).chain(gemm::BLACKWELL);
    Verdicts::of_steps(device, steps, |all, step, gemm| {
        for &precision in gemm.precisions() {
            // A type or a size that it doesn't take is none of its faults.
            all.part(|all| {
                let problem = TensorProblem::seeded(device, size, precision, Layout::Transposed)?;
                let mut c = problem.output(device)?;
                problem.launch(&stream, &gemm, &mut c)?;
                all.add(format!("{}, {precision}, {size:?}", step.title()), problem.expected.check(&c.to_f64()?));
                Ok(())
            })?;
        }
        Ok(())
    })
}

/// Each step, without a mask and, if the last query can see all keys, with one.
fn attentions_of(device: &Device, sizes: &[usize]) -> Result<Vec<String>> {
    let [queries, keys, head] = exactly(sizes)?;
    let size = attention::Size { images: 1, heads: 1, queries, keys, head };
    let stream = device.stream();
    Verdicts::of_steps(device, attention::LADDER, |all, step, attention| {
        let masks = [false, true].into_iter().filter(|causal| !causal || queries <= keys);
        for (&products, causal) in attention.products().iter().flat_map(|of| masks.clone().map(move |mask| (of, mask)))
        {
            // A head that it has no kernel for is none of its faults.
            all.part(|all| {
                let options = Options { causal, scale: None };
                let problem = AttentionProblem::seeded(device, size, Tokens::Apart, products, options)?;
                let [mut out, mut lse] = problem.outputs(device)?;
                attention.launch(&stream, problem.inputs(), options, &mut out, &mut lse)?;
                let what = format!("{}, {}, causal: {causal}", step.title(), products.element());
                all.add(what, problem.check(&out, &lse)?);
                Ok(())
            })?;
        }
        Ok(())
    })
}
