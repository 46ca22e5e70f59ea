//! The naive layers on both devices: every kind of shape, against the f64 reference.
#![allow(clippy::unwrap_used)]

use common::check::{Tolerance, assert_close};
use common::device_test;
use common::prelude::*;
use common::reference::{self, BatchNorm, Conv2dParams};
use phase2_conv_bn::steps::step01_conv2d_naive::Conv2dNaive;
use phase2_conv_bn::steps::step02_batch_norm::BatchNormNaive;
use phase2_conv_bn::steps::step03_relu::Relu;

struct Case {
    name: &'static str,
    input: [usize; 4],
    weight: [usize; 4],
    params: Conv2dParams,
}

fn case(name: &'static str, input: [usize; 4], weight: [usize; 4], params: Conv2dParams) -> Case {
    Case { name, input, weight, params }
}

fn cases() -> Vec<Case> {
    let new = Conv2dParams::new;
    let dilated = |dilation, params| Conv2dParams { dilation, ..params };
    let grouped = |groups, params| Conv2dParams { groups, ..params };
    vec![
        case("one of everything", [1, 1, 1, 1], [1, 1, 1, 1], new(1, 0)),
        case("1×1 window, stride 2", [2, 5, 7, 6], [3, 5, 1, 1], new(2, 0)),
        case("conv1 of ResNet18, smaller", [1, 3, 31, 29], [5, 3, 7, 7], new(2, 3)),
        case("3×3, padding 1", [2, 4, 13, 17], [6, 4, 3, 3], new(1, 1)),
        case("window as large as the image", [3, 2, 4, 5], [2, 2, 4, 5], new(1, 0)),
        case("window larger than the image, within its padding", [1, 2, 2, 3], [2, 2, 5, 5], new(1, 2)),
        case("padding wider than the window", [1, 1, 3, 3], [2, 1, 2, 2], new(1, 4)),
        case("stride beyond the window", [1, 2, 11, 11], [2, 2, 2, 2], new(5, 1)),
        case("one row", [1, 3, 1, 40], [4, 3, 1, 3], Conv2dParams { padding: [0, 1], ..new(1, 0) }),
        case("dilation", [1, 3, 15, 14], [4, 3, 3, 3], dilated([2, 3], new(1, 2))),
        case(
            "all different in y and x",
            [2, 6, 9, 12],
            [4, 3, 3, 2],
            Conv2dParams { stride: [2, 1], padding: [1, 2], dilation: [1, 2], groups: 2 },
        ),
        case("two groups", [2, 4, 6, 5], [6, 2, 3, 3], grouped(2, new(1, 1))),
        case("depthwise", [2, 7, 8, 9], [7, 1, 3, 3], grouped(7, new(1, 1))),
        case("depthwise with a multiplier", [1, 3, 8, 9], [6, 1, 3, 3], grouped(3, new(2, 1))),
        case("batch of none", [0, 3, 8, 8], [4, 3, 3, 3], new(1, 1)),
        case("no output channels", [2, 3, 8, 8], [0, 3, 3, 3], new(1, 1)),
        case("no input channels: the bias alone", [2, 0, 4, 4], [3, 0, 3, 3], new(1, 1)),
    ]
}

fn positive(len: usize, seed: u64) -> Tensor {
    let values = Tensor::random(&[len], seed).into_vec().unwrap();
    Tensor::from_vec(&[len], values.iter().map(|value| value.abs() + 0.01).collect()).unwrap()
}

device_test! {
    fn convolution_matches_the_reference_for_every_kind_of_shape(device) {
        let stream = device.stream();
        let conv = Conv2dNaive::load(&device)?;
        for (seed, Case { name, input, weight, params }) in (0..).step_by(3).zip(cases()) {
            println!("{name}: {input:?} * {weight:?}, {params:?}");
            let (x, w) = (Tensor::random(&input, seed), Tensor::random(&weight, seed + 1));
            let b = Tensor::random(&weight[..1], seed + 2);
            let (x_dev, w_dev, b_dev) = (x.to_device(&device)?, w.to_device(&device)?, b.to_device(&device)?);
            for bias in [None, Some((&b, &b_dev))] {
                let expected = reference::conv2d(&x, &w, bias.map(|(host, _)| host), params)?;
                let bias = bias.map(|(_, dev)| dev);
                let output = conv.forward(&stream, &x_dev, &w_dev, bias, params)?.to_host()?;
                assert_eq!(output.shape(), params.output_shape(&x, &w)?);
                assert_close(output.as_slice()?, &expected.values, expected.tolerance());
            }
        }
        Ok(())
    }

    fn batch_norm_matches_the_reference(device) {
        let stream = device.stream();
        let layer = BatchNormNaive::load(&device)?;
        for (seed, shape) in (10..).step_by(5).zip([
            [1, 1, 1, 1], [2, 3, 5, 7], [3, 64, 1, 1], [1, 5, 16, 16], [4, 2, 1, 33], [0, 3, 4, 4], [2, 3, 0, 4], [2, 0, 3, 3],
        ]) {
            let x = Tensor::random(&shape, seed);
            let channels = shape[1];
            let parts = [
                Tensor::random(&[channels], seed + 1),
                Tensor::random(&[channels], seed + 2),
                Tensor::random(&[channels], seed + 3),
                positive(channels, seed + 4),
            ];
            let [weight, bias, mean, variance] = &parts;
            for eps in [1e-5, 0.5] {
                let expected = reference::batch_norm(&x, &BatchNorm { weight, bias, mean, variance, eps })?;
                let [w, b, m, v] = parts.each_ref().map(|part| part.to_device(&device));
                let (w, b, m, v) = (w?, b?, m?, v?);
                let norm = BatchNorm { weight: &w, bias: &b, mean: &m, variance: &v, eps };
                let output = layer.forward(&stream, &x.to_device(&device)?, &norm)?.to_host()?;
                assert_eq!(output.shape(), shape);
                assert_close(output.as_slice()?, &expected.values, expected.tolerance());
            }
        }
        Ok(())
    }

    fn relu_clips_in_place_and_nothing_else(device) {
        let stream = device.stream();
        let relu = Relu::load(&device)?;
        for n in [0usize, 1, 255, 256, 257, 1003] {
            let x = Tensor::random(&[n], n as u64);
            let mut y = x.to_device(&device)?;
            relu.launch(&stream, &mut y)?;
            let y = y.to_host()?;
            let expected = reference::relu(&x)?;
            assert_close(y.as_slice()?, &expected.values, Tolerance::exact());
            if n > 1 {
                assert!(y.as_slice()?.contains(&0.0) && y.as_slice()?.iter().any(|&v| v > 0.0));
            }
        }
        let special = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, -0.0, f32::MIN_POSITIVE, -f32::MIN_POSITIVE];
        let mut y = Tensor::from_vec(&[6], special.to_vec())?.to_device(&device)?;
        relu.launch(&stream, &mut y)?;
        let y = y.into_vec()?;
        assert!(y[0].is_nan(), "NaN must not vanish");
        assert_eq!(y[1..], [f32::INFINITY, 0.0, 0.0, f32::MIN_POSITIVE, 0.0]);
        Ok(())
    }

    fn shapes_that_do_not_fit_are_refused_with_both(device) {
        let stream = device.stream();
        let conv = Conv2dNaive::load(&device)?;
        let x = Tensor::random(&[1, 3, 8, 8], 1).to_device(&device)?;
        let w = Tensor::random(&[4, 3, 3, 3], 2).to_device(&device)?;
        let params = Conv2dParams::new(1, 1);
        let message = |result: Result<Tensor>| result.map(drop).unwrap_err().to_string();

        let few = Tensor::random(&[4, 2, 3, 3], 3).to_device(&device)?;
        assert_eq!(
            message(conv.forward(&stream, &x, &few, None, params)),
            "conv2d: input [1, 3, 8, 8] and weight [4, 2, 3, 3] with 1 groups: the weight's channels are not the input's \
             divided by the groups"
        );
        let bias = Tensor::random(&[5], 4).to_device(&device)?;
        assert_eq!(
            message(conv.forward(&stream, &x, &w, Some(&bias), params)),
            "conv2d_naive's bias: expected the shape [4], got [5]"
        );
        let mut small = Tensor::empty_on(&device, &[1, 4, 7, 8])?;
        assert_eq!(
            conv.launch(&stream, &x, &w, None, params, &mut small).unwrap_err().to_string(),
            "conv2d_naive's output: expected the shape [1, 4, 8, 8], got [1, 4, 7, 8]"
        );
        assert_eq!(
            message(conv.forward(&stream, &x, &w, None, Conv2dParams::new(1, 1 << 20))),
            "conv2d_naive: the number of outputs is 17592286707856, and the kernel counts in 32 bits (up to 2147483647)"
        );
        assert_eq!(
            message(conv.forward(&stream, &x, &w, None, Conv2dParams { stride: [1 << 31; 2], ..Conv2dParams::new(1, 1 << 30) })),
            "conv2d_naive: the padded size is 2147483656, and the kernel counts in 32 bits (up to 2147483647)"
        );
        let on_host = Tensor::random(&[4, 3, 3, 3], 2);
        assert_eq!(
            message(conv.forward(&stream, &x, &on_host, None, params)),
            "the tensor [4, 3, 3, 3] is on the host; copy it with to_device() first"
        );

        let layer = BatchNormNaive::load(&device)?;
        let three = Tensor::random(&[3], 5).to_device(&device)?;
        let two = Tensor::random(&[2], 6).to_device(&device)?;
        let norm = BatchNorm { weight: &three, bias: &three, mean: &three, variance: &two, eps: 1e-5 };
        assert_eq!(
            message(layer.forward(&stream, &x, &norm)),
            "batch_norm's variance: expected the shape [3], got [2]"
        );
        let flat = Tensor::random(&[8, 8], 7).to_device(&device)?;
        assert_eq!(
            message(layer.forward(&stream, &flat, &norm)),
            "reading N, C, H, W: the shape [8, 8] has not four dimensions"
        );
        let mut host = Tensor::random(&[4], 8);
        assert!(Relu::load(&device)?.launch(&stream, &mut host).unwrap_err().to_string().contains("is on the host"));
        Ok(())
    }
}
