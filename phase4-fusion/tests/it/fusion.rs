//! Fused passes against separate ones and against f64, on both devices.

use bench::ladder::Expected;
use common::check::{Tolerance, compare};
use common::device::SimOptions;
use common::device_test;
use common::prelude::*;
use common::reference::{Activation, Conv2dParams, Gemm, TensorGemm};
use common::testing::planted;
use half::f16;
use phase2_conv_bn::linear::backward::{Gradients, Pass};
use phase3_all_layers::layers;
use phase4_fusion::conv;
use phase4_fusion::fusion::backward::Backward;
use phase4_fusion::fusion::fold::{FoldProblem, ScaleIn};
use phase4_fusion::fusion::layer_norm::{LayerNormLinear, LayerNormProblem, PRECISIONS, Way};
use phase4_fusion::fusion::upsample::{UpsampleConv, UpsampleProblem};
use phase4_fusion::fusion::{DiffusionStep, Separate};
use phase4_fusion::gemm::{Epilogue, Precision};
use phase4_fusion::models::Arithmetic;
use phase4_fusion::nhwc::Upsample;
use phase4_fusion::trials::{DIFFUSION as PARAMS, diffusion_step as step};

use crate::in_turn;

/// One value; only a remainder; a vector with a remainder; more than a block.
const LENGTHS: [usize; 5] = [1, 3, 7, 4096, 5003];

/// Values in (−2, 2).
fn wide(n: usize, seed: u64) -> Vec<f32> {
    Tensor::random(&[n], seed).into_vec().unwrap().into_iter().map(|value| 2.0 * value).collect()
}

device_test! {
    fn the_step_is_right_for_every_length(device) {
        let fused = DiffusionStep::load(&device)?;
        for n in LENGTHS {
            if let Err(mismatch) = step(&device, &fused, n)? {
                panic!("{n}: {mismatch}");
            }
        }
        Ok(())
    }
}

device_test! {
    fn the_step_gives_the_bits_of_three_kernels(device) {
        let (fused, separate) = (DiffusionStep::load(&device)?, layers::DiffusionStep::load(&device)?);
        let stream = device.stream();
        // NaN and infinities in each of the three.
        let inputs = [0, 1, 2].map(|at| {
            let mut values = wide(1001, at as u64);
            values[10 + at] = f32::NAN;
            values[20 + at] = f32::INFINITY;
            values[30 + at] = f32::NEG_INFINITY;
            Tensor::from_vec(&[1001], values).unwrap()
        });
        let on_device = |tensor: &Tensor| tensor.to_device(&device);
        let [noisy, noise, previous] = [on_device(&inputs[0])?, on_device(&inputs[1])?, on_device(&inputs[2])?];
        let [mut one, mut three] = [Tensor::empty_on(&device, &[1001])?, Tensor::empty_on(&device, &[1001])?];
        fused.launch(&stream, [&noisy, &noise, &previous], PARAMS, &mut one)?;
        separate.launch(&stream, [&noisy, &noise, &previous], PARAMS, &mut three)?;
        let (one, three) = (one.to_host()?, three.to_host()?);
        for (at, (one, three)) in one.as_slice()?.iter().zip(three.as_slice()?).enumerate() {
            assert!(one.to_bits() == three.to_bits() || one.is_nan() && three.is_nan(), "{at}: {one} and {three}");
        }
        Ok(())
    }
}

device_test! {
    fn separate_passes_do_what_an_epilogue_says(device) {
        let separate = Separate::load(&device)?;
        let stream = device.stream();
        let rounded = |shape: &[usize], seed: u64| Tensor::random(shape, seed).to_type(ElementType::F16);
        let (x, residual) = (rounded(&[37, 24], 1)?, rounded(&[37, 24], 2)?);
        let (scale, shift) = (Tensor::random(&[24], 3), Tensor::random(&[24], 4));
        let (scale_there, shift_there) = (scale.to_device(&device)?, shift.to_device(&device)?);
        let residual_there = residual.to_device(&device)?;
        let exact = |activation: Activation, scaled: bool, added: bool| -> Result<Vec<f32>> {
            let (x, residual) = (x.to_f64()?, residual.to_f64()?);
            let (scale, shift) = (scale.as_slice()?, shift.as_slice()?);
            // Each pass rounds.
            let half = |value: f64| f64::from(f16::from_f64(value));
            Ok((0..x.len()).map(|i| {
                let mut value = x[i];
                if scaled {
                    value = half(value * f64::from(scale[i % 24]) + f64::from(shift[i % 24]));
                }
                if added {
                    value = half(value + residual[i]);
                }
                half(activation.of(value)) as f32
            }).collect())
        };
        for (activation, scaled, added) in [
            (Activation::None, true, false),
            (Activation::Relu, true, true),
            (Activation::Gelu, false, false),
            (Activation::Silu, true, false),
        ] {
            let epilogue = Epilogue {
                scale: scaled.then_some(&scale_there),
                shift: scaled.then_some(&shift_there),
                residual: added.then_some(&residual_there),
                activation,
                ..Epilogue::default()
            };
            let mut y = x.to_device(&device)?;
            separate.launch(&stream, &epilogue, 24, &mut y)?;
            let found: Vec<f32> = y.to_f64()?.iter().map(|&value| value as f32).collect();
            // Near a boundary between two f16 the exact value and ours round apart, in each pass: values up to 4, so 2⁻⁹ a pass.
            let found = compare(&found, &exact(activation, scaled, added)?, Tolerance::absolute(3.0 / 512.0));
            assert!(found.is_ok(), "{activation:?}: {}", found.unwrap_err());
        }
        let (b, c) = (Tensor::random(&[4 * 301], 5), Tensor::random(&[4 * 301], 6));
        let mut y = Tensor::full(b.shape(), f32::NAN).to_device(&device)?;
        separate.multiply(&stream, &b.to_device(&device)?, &c.to_device(&device)?, &mut y)?;
        let expected: Vec<f32> = b.as_slice()?.iter().zip(c.as_slice()?).map(|(b, c)| b * c).collect();
        assert_eq!(y.to_host()?.as_slice()?, expected);
        Ok(())
    }
}

device_test! {
    fn a_folded_scale_loses_bits_where_f16_has_none(device) {
        for typical in [1.0, 2f32.powi(-12)] {
            let problem = FoldProblem::seeded(64, 6, typical)?;
            for arithmetic in Arithmetic::ALL {
                let found = |scale_in| {
                    let Some(values) = planted::here(&device, problem.run(&device, arithmetic, scale_in))? else { return Ok(None) };
                    let (difference, allowed) = (problem.difference(&values)?, problem.allowed(arithmetic, scale_in));
                    assert!(difference <= allowed, "{arithmetic} {scale_in:?}: {difference} of {allowed}");
                    // Scales belong to channels: with those of the channels before, nothing is right.
                    let turned: Vec<f64> = values.iter().cycle().skip(36).take(values.len()).copied().collect();
                    assert!(problem.difference(&turned)? > 10.0 * allowed);
                    Ok::<_, Error>(Some(difference))
                };
                let (Some(epilogue), Some(weights)) = (found(ScaleIn::Epilogue)?, found(ScaleIn::Weights)?) else { continue };
                let beyond = arithmetic == Arithmetic::F16 && typical < 1.0;
                assert_eq!(weights > 2.0 * epilogue, beyond, "{arithmetic}, {typical}: {weights} and {epilogue}");
            }
            assert!(problem.difference(&vec![f64::NAN; 64 * 36])?.is_infinite());
        }
        Ok(())
    }
}

/// Rows, inputs and outputs of LayerNorm + linear: the least; more than a tile of each kind, none of it whole; whole tiles.
const LAYERS: [[usize; 3]; 3] = [[1, 8, 8], [131, 200, 136], [64, 128, 64]];

device_test! {
    fn layer_norm_and_linear_are_right_in_one_launch_and_in_two(device) {
        let Some(kernels) = planted::here(&device, LayerNormLinear::load(&device))? else { return Ok(()) };
        for size in LAYERS {
            for precision in PRECISIONS {
                let problem = LayerNormProblem::seeded(size, 1.5, precision)?;
                for tile in kernels.tiles() {
                    let y = problem.run_by(&device, &kernels.with_tile(tile).unwrap())?;
                    let found = problem.expected(Way::Fused)?.check(&y.to_f64()?);
                    assert!(found.is_ok(), "{size:?} {precision} {tile}: {}", found.unwrap_err());
                }
                let found = problem.expected(Way::Separate)?.check(&problem.run(&device, Way::Separate)?.to_f64()?);
                assert!(found.is_ok(), "{size:?} {precision} separate: {}", found.unwrap_err());
            }
        }
        Ok(())
    }
}

device_test! {
    fn a_norm_behind_a_product_costs_bits_only_where_the_product_drops_some(device) {
        let Some(kernels) = planted::here(&device, LayerNormLinear::load(&device))? else { return Ok(()) };
        for (precision, ratio) in [(Precision::F16, 64.0), (Precision::Tf32, 64.0)] {
            let problem = LayerNormProblem::seeded([64, 128, 64], ratio, precision)?;
            let off = |y: &Tensor, way| {
                let report = problem.expected(way)?.check(&y.to_f64()?);
                Ok::<_, Error>(report.unwrap_or_else(|mismatch| panic!("{precision} {way:?}: {mismatch}")).max_abs)
            };
            let fused = off(&problem.run_by(&device, &kernels)?, Way::Fused)?;
            let separate = off(&problem.run(&device, Way::Separate)?, Way::Separate)?;
            match precision {
                // All of x is multiplied, and x̂ never rounded.
                Precision::F16 => assert!(fused < 1.2 * separate, "{fused} and {separate}"),
                _ => assert!(fused > 8.0 * separate, "{fused} and {separate}"),
            }
        }
        Ok(())
    }
}

device_test! {
    fn rounded_weights_cancel_with_their_own_sums(device) {
        let Some(kernels) = planted::here(&device, LayerNormLinear::load(&device))? else { return Ok(()) };
        let problem = LayerNormProblem::seeded([64, 128, 64], 0.0, Precision::F16)?;
        let folded = problem.folded()?;
        let x = Tensor::full(&[64, 128], 3.0).to_type(ElementType::F16)?.to_device(&device)?;
        let mut y = problem.output(&device)?;
        kernels.launch(&device.stream(), &x, &folded.to_device(&device)?, problem.eps, Activation::None, &mut y)?;
        // Without a deviation, r is 1/√eps = 316, and the sums of 128 products may be off by 2⁻²² of their magnitude for each 4.
        let magnitude = folded.weight.to_f64()?.chunks(128).map(|row| row.iter().map(|w| 3.0 * w.abs()).sum()).fold(0.0, f64::max);
        let bound = 316.3 * magnitude * 33.0 * 2f64.powi(-22) + 2f64.powi(-11);
        let shifts: Vec<f32> = folded.shift.as_slice()?.iter().copied().cycle().take(64 * 64).collect();
        assert!(bound < 0.1);
        compare(&y.to_f64()?, &shifts, Tolerance::absolute(bound)).unwrap();
        Ok(())
    }
}

/// The gradients of a layer of this batch, inputs and outputs, checked.
fn backward(device: &Device, size: [usize; 3]) -> Result<()> {
    let [batch, inputs, outputs] = size;
    let (x, w) = (Tensor::random(&[batch, inputs], 1), Tensor::random(&[outputs, inputs], 2));
    let (y, dy) = (Tensor::random(&[batch, outputs], 3), Tensor::random(&[batch, outputs], 4));
    let masked: Vec<f32> =
        y.as_slice()?.iter().zip(dy.as_slice()?).map(|(&y, &dy)| if y > 0.0 { dy } else { 0.0 }).collect();
    let turned: Vec<f32> = (0..outputs).flat_map(|at| masked.iter().skip(at).step_by(outputs).copied()).collect();
    let tf32 = |a: &[f32], b: &[f32], m, n, k| {
        Expected::tensor_gemm(&TensorGemm::new(Gemm::new(a, b, m, n, k), ElementType::F32, ElementType::F32), 5)
    };
    let expected = [
        tf32(&masked, w.as_slice()?, batch, inputs, outputs)?,
        tf32(&turned, x.as_slice()?, outputs, inputs, batch)?,
        Expected::gemm(&Gemm::new(&turned, &vec![1.0; batch], outputs, 1, batch), 6)?,
    ];
    let kernels = Backward::load(device)?;
    let mut workspace = kernels.workspace(device, size)?;
    let [x, w, y, dy] = [&x, &w, &y, &dy].map(|tensor| tensor.to_device(device));
    let (x, w, y, dy) = (x?, w?, y?, dy?);
    let poisoned = |like: &Tensor| Tensor::full(like.shape(), f32::NAN).to_device(device);
    let (mut dx, mut dw, mut db) =
        (poisoned(&x)?, poisoned(&w)?, Tensor::full(&[outputs], f32::NAN).to_device(device)?);
    let pass = Pass { dy: &dy, y: &y, x: &x, weight: &w };
    let gradients = Gradients { dx: &mut dx, dweight: &mut dw, dbias: &mut db };
    kernels.launch(&device.stream(), pass, &mut workspace, gradients)?;
    for (what, (found, expected)) in ["dx", "dW", "db"].iter().zip([&dx, &dw, &db].into_iter().zip(&expected)) {
        let found = expected.check(found.to_host()?.as_slice()?);
        assert!(found.is_ok(), "{what} of {size:?}: {}", found.unwrap_err());
    }
    Ok(())
}

device_test! {
    fn gradients_in_tf32_match_the_reference(device) {
        if planted::here(&device, LayerNormLinear::load(&device))?.is_none() {
            return Ok(()); // no tf32 by wgmma
        }
        for size in [[64, 64, 64], [4, 8, 12], [300, 68, 132]] {
            backward(&device, size)?;
        }
        Ok(())
    }
}

/// Images, height and width; channels of the small image and of the skip connection, and those of the output: less than a tile, with
/// sides of 2; parts of tiles of every parity; more than one tile, and an image without a skip connection.
const IMAGES: [([usize; 3], [usize; 3]); 4] =
    [([1, 2, 2], [64, 64, 8]), ([2, 6, 10], [64, 128, 72]), ([1, 20, 26], [128, 64, 136]), ([2, 8, 6], [64, 0, 64])];

device_test! {
    fn a_convolution_reads_an_upsampled_image_and_a_skip_connection(device) {
        let Some(kernels) = planted::here(&device, UpsampleConv::load(&device))? else { return Ok(()) };
        let conv = conv::Tuned::load(&device)?;
        for (at, (image, channels)) in (0..).zip(IMAGES) {
            for (at, precision) in (at..).zip(PRECISIONS) {
                let problem = UpsampleProblem::seeded(image, channels, precision)?;
                for (_, tile) in (at..).zip(kernels.tiles()).filter(|(position, _)| in_turn(&device, *position)) {
                    let (operands, mut y) = (problem.to_device(&device)?, problem.output(&device)?);
                    operands.fused(&device.stream(), &kernels.with_tile(tile).unwrap(), &mut y)?;
                    let found = problem.expected().check(&y.to_f64()?);
                    assert!(found.is_ok(), "{image:?} {channels:?} {precision} {tile}: {}", found.unwrap_err());
                }
                let (mut operands, mut y) = (problem.to_device(&device)?, problem.output(&device)?);
                operands.separate(&device.stream(), &conv, &mut y)?;
                let found = problem.expected().check(&y.to_f64()?);
                assert!(found.is_ok(), "{image:?} {channels:?} {precision} separate: {}", found.unwrap_err());
            }
        }
        Ok(())
    }
}

device_test! {
    fn an_upsampled_convolution_has_the_whole_epilogue(device) {
        let Some(kernels) = planted::here(&device, UpsampleConv::load(&device))? else { return Ok(()) };
        let conv = conv::Tuned::load(&device)?;
        let half = |shape: &[usize], seed: u64| -> Result<Tensor> {
            Tensor::random(shape, seed).to_type(ElementType::F16)?.to_format(MemoryFormat::Nhwc)?.to_device(&device)
        };
        let (small, w, residual) = (half(&[1, 64, 3, 5], 1)?, half(&[16, 64, 3, 3], 2)?, half(&[1, 16, 6, 10], 3)?);
        let (scale, shift) = (Tensor::random(&[16], 4).to_device(&device)?, Tensor::random(&[16], 5).to_device(&device)?);
        let epilogue = Epilogue {
            alpha: 0.5,
            scale: Some(&scale),
            shift: Some(&shift),
            residual: Some(&residual),
            activation: Activation::Silu,
            ..Epilogue::default()
        };
        let mut large = half(&[1, 64, 6, 10], 6)?;
        Upsample::load(&device, 2)?.launch(&device.stream(), &small, &mut large)?;
        let (mut fused, mut plain) = (half(residual.shape(), 7)?, half(residual.shape(), 8)?);
        kernels.launch(&device.stream(), &small, None, &w, &epilogue, &mut fused)?;
        conv.launch(&device.stream(), &large, &w, Conv2dParams::new(1, 1), &epilogue, &mut plain)?;
        // Sums of 576 products up to 1 in another order, if K was cut; then f16.
        let tolerance = Tolerance::new(576.0 * 145.0 * 2f64.powi(-22), 2f64.powi(-10));
        let found = compare(&fused.to_f64()?, &plain.to_f64()?, tolerance);
        assert!(found.is_ok(), "{}", found.unwrap_err());
        Ok(())
    }
}

#[test]
fn planted_mistakes_in_the_gather_are_found() {
    for (right, wrong) in [
        ("(at.q + s + 1) / 2", "(at.q + s) / 2"),
        ("2 * at.x - 1, 2 * at.y - 1", "2 * at.x, 2 * at.y - 1"),
        ("2 * at.x + at.q : -1", "2 * at.x + at.p : -1"),
        ("row % sizes.padded < sizes.of_parity", "row % sizes.padded <= sizes.of_parity"),
        ("y.pixel(row + 8)", "y.pixel(row + 4)"),
    ] {
        planted::must_be_rejected(right, |device| {
            let kernels = UpsampleConv::load_from(device, &planted::planted(&UpsampleConv::SOURCE, right, wrong))?;
            let problem = UpsampleProblem::seeded([1, 6, 10], [64, 64, 8], Precision::F16)?;
            let (operands, mut y) = (problem.to_device(device)?, problem.output(device)?);
            operands.fused(&device.stream(), &kernels.with_tile("Small").unwrap(), &mut y)?;
            Ok(problem.expected().check(&y.to_f64()?))
        });
    }
}

#[test]
fn layers_and_gradients_pass_the_sanitiser() {
    let device = Device::sim_with(SimOptions { sanitize: true, ..SimOptions::default() });
    let kernels = LayerNormLinear::load(&device).unwrap();
    backward(&device, [36, 20, 40]).unwrap();
    let problem = UpsampleProblem::seeded([2, 6, 4], [64, 64, 16], Precision::F16).unwrap();
    let (mut operands, mut y) = (problem.to_device(&device).unwrap(), problem.output(&device).unwrap());
    operands.fused(&device.stream(), &UpsampleConv::load(&device).unwrap(), &mut y).unwrap();
    problem.expected().check(&y.to_f64().unwrap()).unwrap();
    let conv = conv::Tuned::load(&device).unwrap();
    operands.separate(&device.stream(), &conv, &mut y).unwrap();
    problem.expected().check(&y.to_f64().unwrap()).unwrap();
    for precision in PRECISIONS {
        let problem = LayerNormProblem::seeded([70, 72, 40], 1.0, precision).unwrap();
        for tile in kernels.tiles() {
            let y = problem.run_by(&device, &kernels.with_tile(tile).unwrap()).unwrap();
            problem.expected(Way::Fused).unwrap().check(&y.to_f64().unwrap()).unwrap();
        }
        let y = problem.run(&device, Way::Separate).unwrap();
        problem.expected(Way::Separate).unwrap().check(&y.to_f64().unwrap()).unwrap();
    }
}

#[test]
fn planted_mistakes_in_layer_norm_are_found() {
    for (right, wrong) in [
        ("__shfl_sync(~0u, of_row.x, lane / 4 + i * 8)", "__shfl_sync(~0u, of_row.x, lane / 4)"),
        ("fmaf(-mean[i / 2 % 2], of_column", "fmaf(-mean[i % 2], of_column"),
        ("if (column + piece * EACH < k)", "if (column < k)"),
        ("sum / k, variance", "sum / (k - 1), variance"),
        ("half * 4 + i;", "half * 3 + i;"),
        ("if (column == 0)", "if (column % 128 == 0)"),
        ("variance + eps", "variance"),
        ("__shfl_xor_sync(~0u, squares, 16)", "__shfl_xor_sync(~0u, squares, 8)"),
    ] {
        planted::must_be_rejected(right, |device| {
            let source = planted::planted(&LayerNormLinear::SOURCE, right, wrong);
            let kernels = LayerNormLinear::load_from(device, &source)?.with_tile("Small").unwrap();
            // In rows of little deviation eps counts.
            let mut problem = LayerNormProblem::seeded([70, 136, 40], 1.5, Precision::F16)?;
            problem = problem.with_eps(0.1)?;
            Ok(problem.expected(Way::Fused)?.check(&problem.run_by(device, &kernels)?.to_f64()?))
        });
    }
}

#[test]
fn what_does_not_fit_is_refused_with_the_reason() {
    let device = Device::sim();
    let separate = Separate::load(&device).unwrap();
    let mut odd = Tensor::random(&[3, 5], 1).to_type(ElementType::F16).unwrap().to_device(&device).unwrap();
    let relu = Epilogue { activation: Activation::Relu, ..Epilogue::default() };
    let error = separate.launch(&device.stream(), &relu, 5, &mut odd).unwrap_err().to_string();
    assert!(error.contains("a multiple of 8 values"), "{error}");
    let problem = LayerNormProblem::seeded([3, 12, 8], 1.0, Precision::F16).unwrap();
    let error = problem.run(&device, Way::Fused).unwrap_err().to_string();
    assert!(error.contains("multiples of 16 bytes"), "{error}");
    let error = problem.run(&device, Way::Separate).unwrap_err().to_string();
    assert!(error.contains("a multiple of 8 columns"), "{error}");
    let problem = UpsampleProblem::seeded([1, 2, 2], [64, 32, 8], Precision::F16).unwrap();
    let kernels = UpsampleConv::load(&device).unwrap();
    let (operands, mut y) = (problem.to_device(&device).unwrap(), problem.output(&device).unwrap());
    let error = operands.fused(&device.stream(), &kernels, &mut y).unwrap_err().to_string();
    assert!(error.contains("a step takes 64 channels of one image"), "{error}");
}

#[test]
fn planted_mistakes_are_found() {
    let planted_in_step = [
        ("i < n / 4) {\n            of_noisy", "i <= n / 4) {\n            of_noisy"),
        ("n - 1 - threadIdx.x", "n - 2 - threadIdx.x"),
        ("> step.threshold", "< step.threshold"),
        ("x > 1.0f ? 1.0f", "x > 2.0f ? 1.0f"),
    ];
    for (right, wrong) in planted_in_step {
        planted::must_be_rejected(right, |device| {
            let source = planted::planted(&DiffusionStep::SOURCE, right, wrong);
            step(device, &DiffusionStep::load_from(device, &source)?, 4099)
        });
    }
}
