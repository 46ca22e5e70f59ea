//! Layers and models against PyTorch's results: the CPU and both devices. `python/layers.py` lists the same cases.

use crate::golden;

use common::check::{Tolerance, assert_close};
use common::prelude::*;
use common::reference::{self, AttentionSize, BatchNorm, Conv2dParams, DiffusionParams, Gemm, MaxPool2d};
use common::{cpu, device_test};
use phase2_conv_bn::conv;
use phase2_conv_bn::gemm;
use phase2_conv_bn::norm::{batch_norm, relu};
use phase3_all_layers::backends::{Cpu, OnHost, Unfused, infer};
use phase3_all_layers::layers::{
    AdaptiveAvgPool, Attention, Concatenate, DiffusionStep, Gelu, LayerNorm, LayerNormStep, Linear, MaxPool, RowNorm,
    Silu, SiluSum, Softmax, SoftmaxStep, TimestepEmbedding, Upsample,
};
use phase3_all_layers::models::resnet::{Config, ResNet};
use phase3_all_layers::models::unet;
use phase3_all_layers::nn::Parameters;

/// Added to the variances of BatchNorm and LayerNorm.
const EPS: f32 = 1e-5;

/// Inputs of a case, with the seeds 1, 2, 3, …
fn inputs<const N: usize>(shapes: [&[usize]; N]) -> [Tensor; N] {
    let mut seed = 0;
    shapes.map(|shape| {
        seed += 1;
        Tensor::random(shape, seed)
    })
}

/// Compares the case's golden with values computed in f64, and results of f32 with the golden. Both are as far from the exact
/// value as rounding allows, so twice that from one another.
#[track_caller]
fn agree(case: &str, expected: &[f64], tolerance: Tolerance, results: &[Tensor]) {
    println!("{case}");
    let golden = golden::tensor("layers", case);
    let (shape, golden) = (golden.shape(), golden.as_slice().unwrap());
    assert_close(golden, expected, tolerance);
    let twice = Tolerance::new(2.0 * tolerance.absolute, 2.0 * tolerance.relative);
    for result in results {
        assert_eq!(result.shape(), shape, "{case}");
        assert_close(result.to_host().unwrap().as_slice().unwrap(), golden, twice);
    }
}

/// Same as [`agree`], where nothing is rounded.
#[track_caller]
fn agree_exactly(case: &str, results: &[Tensor]) {
    println!("{case}");
    let golden = golden::tensor("layers", case);
    for result in results {
        assert_eq!(result.shape(), golden.shape(), "{case}");
        let result = result.to_host().unwrap();
        assert_close(result.as_slice().unwrap(), golden.as_slice().unwrap(), Tolerance::exact());
    }
}

type Convolution = (&'static str, [usize; 4], [usize; 4], Conv2dParams);

const PLAIN: Conv2dParams = Conv2dParams { stride: [1, 1], padding: [0, 0], dilation: [1, 1], groups: 1 };
/// Shapes of input and weight.
const CONVOLUTIONS: [Convolution; 6] = [
    ("plain", [2, 3, 9, 11], [5, 3, 3, 3], Conv2dParams { padding: [1, 1], ..PLAIN }),
    ("strided", [1, 4, 13, 10], [6, 4, 5, 3], Conv2dParams { stride: [2, 3], padding: [2, 1], ..PLAIN }),
    ("dilated", [2, 3, 12, 9], [4, 3, 3, 3], Conv2dParams { dilation: [2, 3], padding: [2, 3], ..PLAIN }),
    ("grouped", [2, 6, 7, 8], [9, 2, 3, 3], Conv2dParams { groups: 3, padding: [1, 1], ..PLAIN }),
    ("pointwise", [3, 7, 5, 4], [6, 7, 1, 1], PLAIN),
    ("opening", [1, 3, 31, 29], [8, 3, 7, 7], Conv2dParams { stride: [2, 2], padding: [3, 3], ..PLAIN }),
];
const POOLS: [(&str, [usize; 4], MaxPool2d); 2] = [
    ("resnet", [2, 3, 7, 9], MaxPool2d { window: 3, stride: 2, padding: 1 }),
    ("gaps", [1, 5, 16, 12], MaxPool2d { window: 2, stride: 3, padding: 1 }),
];
const MEANS: [(&str, [usize; 4], [usize; 2]); 3] =
    [("2x3", [2, 3, 7, 9], [2, 3]), ("5x1", [2, 3, 7, 9], [5, 1]), ("9x7", [1, 2, 7, 9], [9, 7])];

/// Inputs times a factor, in f32.
fn scaled<const N: usize>(factor: f32, mut tensors: [Tensor; N]) -> [Tensor; N] {
    for tensor in &mut tensors {
        tensor.as_mut_slice().unwrap().iter_mut().for_each(|value| *value *= factor);
    }
    tensors
}

device_test! {
    fn convolutions_give_what_pytorch_gives(device) {
        let stream = device.stream();
        let tuned = conv::Tuned::load(&device)?;
        for (case, input, weight, params) in CONVOLUTIONS {
            let [x, w, bias] = inputs([&input, &weight, &weight[..1]]);
            let expected = reference::conv2d(&x, &w, Some(&bias), params)?;
            let mut y = Tensor::empty_on(&device, &params.output_shape(&x, &w)?)?;
            let [on_x, on_w, on_bias] = [&x, &w, &bias].map(|tensor| tensor.to_device(&device));
            tuned.launch(&stream, &on_x?, &on_w?, Some(&on_bias?), params, &mut y)?;
            let by_cpu = cpu::conv2d(&x, &w, Some(&bias), params)?;
            agree(&format!("conv2d.{case}"), &expected.values, expected.tolerance(), &[by_cpu, y]);
        }
        Ok(())
    }

    fn norms_give_what_pytorch_gives(device) {
        let stream = device.stream();
        let [x, weight, bias, mean, spread] = inputs([&[3, 5, 7, 9], &[5], &[5], &[5], &[5]]);
        let variance = Tensor::from_vec(&[5], spread.as_slice()?.iter().map(|value| 1.0 + 0.5 * value).collect())?;
        let norm = BatchNorm { weight: &weight, bias: &bias, mean: &mean, variance: &variance, eps: EPS };
        let expected = reference::batch_norm(&x, &norm)?;
        let parts = [&weight, &bias, &mean, &variance].map(|part| part.to_device(&device));
        let [on_weight, on_bias, on_mean, on_variance] = parts;
        let (on_weight, on_bias, on_mean, on_variance) = (on_weight?, on_bias?, on_mean?, on_variance?);
        let on_norm =
            BatchNorm { weight: &on_weight, bias: &on_bias, mean: &on_mean, variance: &on_variance, eps: EPS };
        let mut results = vec![cpu::batch_norm(&x, &norm)?];
        for step in batch_norm::LADDER {
            let mut y = Tensor::empty_on(&device, x.shape())?;
            step.load(&device)?.layer(&stream, &on_norm)?.launch(&stream, &x.to_device(&device)?, &mut y)?;
            results.push(y);
        }
        agree("batch_norm", &expected.values, expected.tolerance(), &results);

        let [mut x] = inputs([&[2, 3, 5, 7]]);
        let mut y = x.to_device(&device)?;
        relu::VECTORISED.load(&device)?.launch_in_place(&stream, &mut y)?;
        cpu::relu_in_place(&mut x)?;
        agree_exactly("relu", &[x, y]);
        Ok(())
    }

    fn pooling_gives_what_pytorch_gives(device) {
        let stream = device.stream();
        for (case, shape, pool) in POOLS {
            let [x] = inputs([&shape]);
            let mut y = Tensor::empty_on(&device, &pool.output_shape(&x)?)?;
            MaxPool::load(&device, pool)?.launch(&stream, &x.to_device(&device)?, &mut y)?;
            agree_exactly(&format!("max_pool2d.{case}"), &[reference::max_pool2d(&x, pool)?, y]);
        }
        for (case, shape, out) in MEANS {
            let [x] = inputs([&shape]);
            let mut y = Tensor::empty_on(&device, &[shape[0], shape[1], out[0], out[1]])?;
            AdaptiveAvgPool::load(&device)?.launch(&stream, &x.to_device(&device)?, &mut y)?;
            let expected = reference::adaptive_avg_pool2d(&x, out)?;
            agree(&format!("adaptive_avg_pool2d.{case}"), &expected.values, expected.tolerance(), &[y]);
        }
        Ok(())
    }

    fn a_linear_layer_gives_what_pytorch_gives(device) {
        let [x, weight, bias] = inputs([&[5, 33], &[10, 33], &[10]]);
        let bias_of = Some(bias.as_slice()?);
        let product = Gemm::new(x.as_slice()?, weight.as_slice()?, 5, 10, 33);
        let expected = Gemm { transposed: true, bias: bias_of, ..product }.all()?;
        let mut y = Tensor::empty_on(&device, &[5, 10])?;
        let layer = Linear::load(&device, &gemm::Tuned::load(&device)?, &weight, &bias)?;
        layer.launch(&device.stream(), &x.to_device(&device)?, &mut y)?;
        agree("linear", &expected.values, expected.tolerance(), &[y]);
        Ok(())
    }


    fn rows_give_what_pytorch_gives(device) {
        let stream = device.stream();
        let [x, weight, bias] = inputs([&[7, 33], &[33], &[33]]);
        let norm = reference::LayerNorm { weight: &weight, bias: &bias, eps: EPS };
        let expected = reference::layer_norm(&x, &norm)?;
        let mut results = vec![cpu::layer_norm(&x, &norm)?];
        let (on_weight, on_bias) = (weight.to_device(&device)?, bias.to_device(&device)?);
        let on_norm = reference::LayerNorm { weight: &on_weight, bias: &on_bias, eps: EPS };
        for step in LayerNormStep::ALL {
            let mut y = Tensor::empty_on(&device, x.shape())?;
            let layer = LayerNorm::load_from(&device, step, &step.source())?;
            layer.launch(&stream, &x.to_device(&device)?, &on_norm, &mut y)?;
            results.push(y);
        }
        agree("layer_norm", &expected.values, expected.tolerance, &results);

        let [x] = scaled(10.0, inputs([&[5, 37]]));
        let (expected, mut by_cpu) = (reference::softmax(&x)?, x.to_host()?);
        cpu::softmax_in_place(&mut by_cpu)?;
        let mut results = vec![by_cpu];
        for step in SoftmaxStep::ALL {
            let mut y = x.to_device(&device)?;
            Softmax::load_from(&device, step, &step.source())?.launch_in_place(&stream, &mut y)?;
            results.push(y);
        }
        agree("softmax", &expected.values, expected.tolerance, &results);

        // A row of zeros, and one whose norm is below the least divisor.
        let [mut x] = inputs([&[4, 29]]);
        for (row, factor) in x.as_mut_slice()?.chunks_mut(29).zip([1.0, 0.0, 1e-14, 1.0]) {
            row.iter_mut().for_each(|value| *value *= factor);
        }
        let expected = reference::row_norm(&x)?;
        let mut y = Tensor::empty_on(&device, x.shape())?;
        RowNorm::load(&device)?.launch(&stream, &x.to_device(&device)?, &mut y)?;
        agree("normalise_rows", &expected.values, expected.tolerance, &[cpu::row_norm(&x)?, y]);
        Ok(())
    }

    fn activations_give_what_pytorch_gives(device) {
        let stream = device.stream();
        let [x] = scaled(6.0, inputs([&[5, 77]]));
        let (mut by_cpu, mut y) = (x.to_host()?, x.to_device(&device)?);
        cpu::gelu_in_place(&mut by_cpu)?;
        Gelu::load(&device)?.launch_in_place(&stream, &mut y)?;
        let expected = reference::gelu(&x)?;
        agree("gelu", &expected.values, expected.tolerance, &[by_cpu, y]);

        let (mut by_cpu, mut y) = (x.to_host()?, x.to_device(&device)?);
        cpu::silu_in_place(&mut by_cpu)?;
        Silu::load(&device)?.launch_in_place(&stream, &mut y)?;
        let expected = reference::silu(&x)?;
        agree("silu", &expected.values, expected.tolerance, &[by_cpu, y]);

        let [a, b, c] = scaled(3.0, inputs([&[3, 5, 7]; 3]));
        let [on_a, on_b, on_c] = [&a, &b, &c].map(|tensor| tensor.to_device(&device));
        let mut y = Tensor::empty_on(&device, a.shape())?;
        SiluSum::load(&device)?.launch(&stream, &on_a?, &on_b?, &on_c?, &mut y)?;
        let expected = reference::silu_sum(&a, &b, &c)?;
        agree("silu_add_mul", &expected.values, expected.tolerance, &[cpu::silu_sum(&a, &b, &c)?, y]);
        Ok(())
    }

    fn embeddings_and_diffusion_steps_give_what_pytorch_gives(device) {
        let stream = device.stream();
        let steps = Tensor::from_vec(&[5], vec![0.0, 1.0, 10.0, 321.0, 999.0])?;
        for channels in [16, 6] {
            let mut y = Tensor::empty_on(&device, &[5, channels])?;
            TimestepEmbedding::load(&device, channels)?.launch(&stream, &steps.to_device(&device)?, &mut y)?;
            let expected = reference::timestep_embedding(&steps, channels)?;
            let results = [cpu::timestep_embedding(&steps, channels)?, y];
            agree(&format!("timestep_embedding.{channels}"), &expected.values, expected.tolerance, &results);
        }
        let [noisy, noise, previous] = inputs([&[2, 4, 5, 7]; 3]);
        for (case, alpha_bar) in [("early", 0.25), ("late", 0.8125)] {
            let params = DiffusionParams { alpha_bar, weight: 0.75, threshold: 0.5 };
            let on_device = [&noisy, &noise, &previous].map(|tensor| tensor.to_device(&device));
            let [on_noisy, on_noise, on_previous] = on_device;
            let mut y = Tensor::empty_on(&device, noisy.shape())?;
            let layer = DiffusionStep::load(&device)?;
            layer.launch(&stream, [&on_noisy?, &on_noise?, &on_previous?], params, &mut y)?;
            let expected = reference::diffusion_step(&noisy, &noise, &previous, params)?;
            let results = [cpu::diffusion_step(&noisy, &noise, &previous, params)?, y];
            agree(&format!("diffusion_step.{case}"), &expected.values, expected.tolerance, &results);
        }
        Ok(())
    }

    fn moved_values_are_what_pytorch_gives(device) {
        let stream = device.stream();
        let [x] = inputs([&[2, 3, 5, 7]]);
        let layer = Upsample::load(&device, 2)?;
        let mut y = Tensor::empty_on(&device, &layer.output_shape(&x)?)?;
        layer.launch(&stream, &x.to_device(&device)?, &mut y)?;
        agree_exactly("upsample_nearest", &[cpu::upsample_nearest(&x, 2)?, y]);
        let [a, b] = inputs([&[2, 3, 5, 7], &[2, 4, 5, 7]]);
        let mut y = Tensor::empty_on(&device, &[2, 7, 5, 7])?;
        Concatenate::load(&device)?.launch(&stream, &a.to_device(&device)?, &b.to_device(&device)?, &mut y)?;
        agree_exactly("cat_channels", &[cpu::concatenate(&a, &b)?, y]);
        Ok(())
    }

    fn attention_gives_what_pytorch_gives(device) {
        for (case, shape, heads) in [("3x8", [2, 11, 72], 3), ("2x5", [1, 33, 30], 2)] {
            let [qkv] = scaled(3.0, inputs([&shape]));
            let expected = reference::attention(&qkv, heads)?;
            let mut scores = Tensor::empty_on(&device, &AttentionSize::of(&qkv, heads)?.scores_shape())?;
            let mut y = Tensor::empty_on(&device, &[shape[0], shape[1], shape[2] / 3])?;
            let (layer, on_device) = (Attention::load(&device)?, qkv.to_device(&device)?);
            layer.launch(&device.stream(), &on_device, heads, &mut scores, &mut y)?;
            let results = [cpu::attention(&qkv, heads)?, y];
            agree(&format!("attention.{case}"), &expected.values, expected.tolerance, &results);
        }
        Ok(())
    }
}

/// Not by `device_test!`, whose simulator sanitises: that takes twice as long, and tests/it/resnet.rs does it.
#[test]
fn resnet18_on_a_device_gives_what_pytorch_gives() {
    let config = Config::RESNET18;
    let (parameters, images) = (config.seeded(18), Tensor::random(&[1, 3, 224, 224], 1));
    let gpu = common::private::cuda_for_test("resnet18_on_a_device_gives_what_pytorch_gives");
    for device in gpu.into_iter().chain([Device::sim()]) {
        let network = ResNet::load(&Unfused::new(&device), config, &parameters).unwrap();
        golden::assert_output("resnet18", "logits", &infer(&device.stream(), &network, &images).unwrap());
    }
}

#[test]
fn resnet18_on_the_cpu_gives_what_pytorch_gives_block_by_block() {
    let (parameters, images) = (Config::RESNET18.seeded(18), Tensor::random(&[1, 3, 224, 224], 1));
    let mut blocks = 0;
    let cpu = Cpu::new();
    let network = ResNet::load(&cpu, Config::RESNET18, &parameters).unwrap();
    let logits = cpu.observe(&network, &images, |name, output| {
        blocks += 1;
        golden::assert_summary("resnet18", name, output.as_slice().unwrap());
    });
    assert_eq!(blocks, 8);
    golden::assert_output("resnet18", "logits", &logits.unwrap());
}

/// On a GPU only: the attentions over 4096 pixels take the simulator minutes.
#[test]
fn the_tiny_unet_on_a_gpu_gives_what_pytorch_gives() {
    let Some(device) = common::private::cuda_for_test("the_tiny_unet_on_a_gpu_gives_what_pytorch_gives") else {
        return;
    };
    let network = unet::UNet::load(&Unfused::new(&device), unet::Config::TINY, &unet::Config::TINY.seeded(8)).unwrap();
    let module = network.at(Tensor::from_vec(&[2], vec![10.0, 700.0]).unwrap().to_device(&device).unwrap());
    let output = infer(&device.stream(), &module, &Tensor::random(&[2, 8, 64, 64], 1)).unwrap();
    golden::assert_output("unet-tiny", "output", &output);
}

#[test]
fn the_tiny_unet_on_the_cpu_gives_what_pytorch_gives_block_by_block() {
    let (parameters, x) = (unet::Config::TINY.seeded(8), Tensor::random(&[2, 8, 64, 64], 1));
    let steps = Tensor::from_vec(&[2], vec![10.0, 700.0]).unwrap();
    let mut blocks = 0;
    let cpu = Cpu::new();
    let network = unet::UNet::load(&cpu, unet::Config::TINY, &parameters).unwrap();
    let output = cpu.observe(&network.at(steps), &x, |name, output| {
        blocks += 1;
        golden::assert_summary("unet-tiny", name, output.as_slice().unwrap());
    });
    // 22 residual blocks, 23 attentions, the first convolution, three levels each way.
    assert_eq!(blocks, 22 + 23 + 1 + 3 + 3);
    golden::assert_output("unet-tiny", "output", &output.unwrap());
}

#[test]
fn seeded_values_are_the_same_bits_as_in_python() {
    let samples: [(&[usize], u64); 5] = [(&[1], 3), (&[2], 3), (&[3, 3], 7), (&[65537], 0), (&[5], u64::MAX)];
    let values = samples.iter().enumerate().map(|(i, (shape, seed))| (i.to_string(), Tensor::random(shape, *seed)));
    golden::assert_digest("random", &Parameters::new(values));
    golden::assert_digest("resnet18", &Config::RESNET18.seeded(18));
    golden::assert_digest("unet tiny", &unet::Config::TINY.seeded(8));
}
