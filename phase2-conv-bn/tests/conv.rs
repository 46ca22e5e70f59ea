//! Every step of the convolution ladder on both devices: every kind of shape, against the f64 reference.
#![allow(clippy::unwrap_used)]

use common::check::assert_close;
use common::device_test;
use common::prelude::*;
use common::reference::{self, Conv2dParams};
use phase2_conv_bn::conv::{self, LADDER, step06_implicit_tiled};

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

device_test! {
    fn every_step_matches_the_reference_for_every_kind_of_shape(device) {
        let stream = device.stream();
        let steps = LADDER.iter().map(|step| step.load(&device)).collect::<Result<Vec<_>>>()?;
        for (seed, Case { name, input, weight, params }) in (0..).step_by(3).zip(cases()) {
            println!("{name}: {input:?} * {weight:?}, {params:?}");
            let (x, w) = (Tensor::random(&input, seed), Tensor::random(&weight, seed + 1));
            let b = Tensor::random(&weight[..1], seed + 2);
            let (x_dev, w_dev, b_dev) = (x.to_device(&device)?, w.to_device(&device)?, b.to_device(&device)?);
            for bias in [None, Some((&b, &b_dev))] {
                let expected = reference::conv2d(&x, &w, bias.map(|(host, _)| host), params)?;
                let bias = bias.map(|(_, dev)| dev);
                for step in &steps {
                    let output = match step.forward(&stream, &x_dev, &w_dev, bias, params) {
                        Err(error) if error.is_unsupported() => continue,
                        output => output?.to_host()?,
                    };
                    println!("  {}", step.name());
                    assert_eq!(output.shape(), params.output_shape(&x, &w)?);
                    assert_close(output.as_slice()?, &expected.values, expected.tolerance());
                }
            }
        }
        Ok(())
    }

    /// Several tiles in each dimension, whole and ragged; every tile, in one part and in several.
    fn every_tile_is_right_whole_and_cut(device) {
        let stream = device.stream();
        let new = Conv2dParams::new;
        let cases = [
            case("ragged", [2, 9, 11, 9], [70, 9, 3, 3], new(1, 1)),
            case("vectors", [2, 20, 8, 10], [68, 20, 2, 2], Conv2dParams { dilation: [1, 2], ..new(1, 1) }),
            case("groups", [1, 24, 12, 13], [6, 12, 3, 3], Conv2dParams { groups: 2, ..new(2, 1) }),
        ];
        for (seed, Case { name, input, weight, params }) in (100..).step_by(3).zip(cases) {
            let (x, w) = (Tensor::random(&input, seed), Tensor::random(&weight, seed + 1));
            let b = Tensor::random(&weight[..1], seed + 2);
            let expected = reference::conv2d(&x, &w, Some(&b), params)?;
            let (x, w, b) = (x.to_device(&device)?, w.to_device(&device)?, b.to_device(&device)?);
            for (tile, cuts) in step06_implicit_tiled::TILES.into_iter().flat_map(|tile| [1, 3].map(|cuts| (tile, cuts))) {
                println!("{name}, {tile}, {cuts} cuts");
                let conv = step06_implicit_tiled::load_with(&device, step06_implicit_tiled::STEP.source(), tile, cuts)?;
                // Twice: what a launch leaves in its workspace must not harm the next.
                for _ in 0..2 {
                    let output = conv.forward(&stream, &x, &w, Some(&b), params)?.into_vec()?;
                    assert_close(&output, &expected.values, expected.tolerance());
                }
            }
        }
        assert!(step06_implicit_tiled::load_with(&device, step06_implicit_tiled::STEP.source(), "1x1", 1).is_err());
        Ok(())
    }

    fn shapes_that_do_not_fit_are_refused_with_both(device) {
        let stream = device.stream();
        let conv = conv::step01_direct::STEP.load(&device)?;
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
            "the convolution's bias: expected the shape [4], got [5]"
        );
        let mut small = Tensor::empty_on(&device, &[1, 4, 7, 8])?;
        assert_eq!(
            conv.launch(&stream, &x, &w, None, params, &mut small).unwrap_err().to_string(),
            "the convolution's output: expected the shape [1, 4, 8, 8], got [1, 4, 7, 8]"
        );
        assert_eq!(
            message(conv.forward(&stream, &x, &w, None, Conv2dParams::new(1, 1 << 20))),
            "convolution: the number of outputs is 17592286707856, and the kernel counts in 32 bits (up to 2147483647)"
        );
        assert_eq!(
            message(conv.forward(&stream, &x, &w, None, Conv2dParams { stride: [1 << 31; 2], ..Conv2dParams::new(1, 1 << 30) })),
            "convolution: the padded size is 2147483656, and the kernel counts in 32 bits (up to 2147483647)"
        );
        let on_host = Tensor::random(&[4, 3, 3, 3], 2);
        assert_eq!(
            message(conv.forward(&stream, &x, &on_host, None, params)),
            "the tensor [4, 3, 3, 3] is on the host; copy it with to_device() first"
        );
        Ok(())
    }
}
