//! BatchNorm and ReLU on both devices: every step, every kind of shape, in place and out of place, against the f64 reference.

use common::check::{Tolerance, assert_close, compare};
use common::device_test;
use common::prelude::*;
use common::reference::{self, BatchNorm};
use common::testing::planted::{must_be_rejected, planted};
use phase2_conv_bn::norm::{batch_norm, relu};

/// Single values, planes of odd sizes, of 1, in a row; none; and one of more values than a block of any step takes.
const SHAPES: [[usize; 4]; 11] = [
    [1, 1, 1, 1],
    [2, 3, 5, 7],
    [3, 65, 1, 1],
    [1, 5, 16, 16],
    [4, 2, 1, 33],
    [2, 37, 7, 7],
    [5, 3, 1, 2],
    [1, 2, 65, 67],
    [0, 3, 4, 4],
    [2, 3, 0, 4],
    [2, 0, 3, 3],
];

/// Weight, bias, mean and variance of `channels` channels, on the host.
struct Parameters([Tensor; 4]);

impl Parameters {
    fn new(channels: usize, seed: u64) -> Parameters {
        let random = |part| Tensor::random(&[channels], 1000 * seed + part);
        let positive = random(4).into_vec().unwrap().iter().map(|value| value.abs() + 0.01).collect();
        Parameters([random(1), random(2), random(3), Tensor::from_vec(&[channels], positive).unwrap()])
    }

    fn to_device(&self, device: &Device) -> Parameters {
        Parameters(self.0.each_ref().map(|part| part.to_device(device).unwrap()))
    }

    fn norm(&self, eps: f32) -> BatchNorm<'_> {
        let [weight, bias, mean, variance] = &self.0;
        BatchNorm { weight, bias, mean, variance, eps }
    }
}

device_test! {
    fn batch_norm_matches_the_reference(device) {
        let stream = device.stream();
        for step in batch_norm::LADDER {
            let loaded = step.load(&device)?;
            for (seed, shape) in (1..).zip(SHAPES) {
                let x = Tensor::random(&shape, seed);
                let parameters = Parameters::new(shape[1], seed);
                let on_device = parameters.to_device(&device);
                for eps in [1e-5, 0.5] {
                    println!("{}, {shape:?}, eps {eps}", step.name);
                    let expected = reference::batch_norm(&x, &parameters.norm(eps))?;
                    let layer = loaded.layer(&stream, &on_device.norm(eps))?;
                    let mut in_place = x.to_device(&device)?;
                    let output = layer.forward(&stream, &in_place)?;
                    assert_eq!(output.shape(), shape);
                    assert_close(&output.into_vec()?, &expected.values, expected.tolerance());
                    layer.launch_in_place(&stream, &mut in_place)?;
                    assert_close(&in_place.into_vec()?, &expected.values, expected.tolerance());
                }
            }
        }
        Ok(())
    }

    /// More planes than a grid has blocks in y.
    fn planes_beyond_the_grid_are_reached(device) {
        let stream = device.stream();
        let shape = [2, 33_000, 1, 1];
        let x = Tensor::random(&shape, 1);
        let parameters = Parameters::new(shape[1], 2);
        let expected = reference::batch_norm(&x, &parameters.norm(1e-5))?;
        let on_device = parameters.to_device(&device);
        let layer = batch_norm::SCALE_SHIFT.load(&device)?.layer(&stream, &on_device.norm(1e-5))?;
        let y = layer.forward(&stream, &x.to_device(&device)?)?;
        assert_close(&y.into_vec()?, &expected.values, expected.tolerance());
        Ok(())
    }

    fn relu_clips_and_nothing_else(device) {
        let stream = device.stream();
        for step in relu::LADDER {
            let relu = step.load(&device)?;
            for n in [0usize, 1, 3, 4, 5, 255, 256, 257, 1003, 9001] {
                let x = Tensor::random(&[n], n as u64);
                let expected = reference::relu(&x)?;
                let mut in_place = x.to_device(&device)?;
                let mut y = Tensor::empty_on(&device, &[n])?;
                match relu.launch(&stream, &in_place, &mut y) {
                    Ok(()) => assert_close(&y.into_vec()?, &expected.values, Tolerance::exact()),
                    Err(error) => assert!(step.number == 1 && error.is_unsupported(), "{error}"),
                }
                relu.launch_in_place(&stream, &mut in_place)?;
                let y = in_place.into_vec()?;
                assert_close(&y, &expected.values, Tolerance::exact());
                if n > 1 {
                    assert!(y.contains(&0.0) && y.iter().any(|&v| v > 0.0));
                }
            }
            let special = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, -0.0, f32::MIN_POSITIVE, -f32::MIN_POSITIVE];
            let mut y = Tensor::from_vec(&[6], special.to_vec())?.to_device(&device)?;
            relu.launch_in_place(&stream, &mut y)?;
            let y = y.into_vec()?;
            assert!(y[0].is_nan(), "NaN must not vanish");
            assert_eq!(y[1..], [f32::INFINITY, 0.0, 0.0, f32::MIN_POSITIVE, 0.0]);
        }
        Ok(())
    }

    fn shapes_that_do_not_fit_are_refused_with_both(device) {
        let stream = device.stream();
        let message = |result: Result<()>| result.unwrap_err().to_string();
        for step in batch_norm::LADDER {
            let loaded = step.load(&device)?;
            let parameters = Parameters::new(3, 1).to_device(&device);
            let two = Tensor::random(&[2], 6).to_device(&device)?;
            let norm = BatchNorm { variance: &two, ..parameters.norm(1e-5) };
            assert_eq!(
                message(loaded.layer(&stream, &norm).map(drop)),
                "batch_norm's variance: expected the shape [3], got [2]"
            );
            let layer = loaded.layer(&stream, &parameters.norm(1e-5))?;
            let mut x = Tensor::random(&[1, 4, 2, 2], 7).to_device(&device)?;
            assert_eq!(
                message(layer.launch_in_place(&stream, &mut x)),
                "batch_norm: 4 channels of [1, 4, 2, 2] met parameters of 3"
            );
            let mut y = Tensor::empty_on(&device, &[1, 3, 2, 3])?;
            assert_eq!(
                message(layer.launch(&stream, &x, &mut y)),
                "batch_norm's output: expected the shape [1, 4, 2, 2], got [1, 3, 2, 3]"
            );
            let mut flat = Tensor::random(&[8, 8], 7).to_device(&device)?;
            assert_eq!(
                message(layer.launch_in_place(&stream, &mut flat)),
                "reading N, C, H, W: expected 4 dimensions, got shape [8, 8]"
            );
            let mut host = Tensor::random(&[1, 3, 2, 2], 8);
            assert!(message(layer.launch_in_place(&stream, &mut host)).contains("is on the host"));
        }
        for step in relu::LADDER {
            let mut host = Tensor::random(&[4], 8);
            assert!(message(step.load(&device)?.launch_in_place(&stream, &mut host)).contains("is on the host"));
        }
        Ok(())
    }
}

#[test]
fn mistakes_in_batch_norm_are_found() {
    let mistakes = [
        ("the last vector but one", &batch_norm::VECTORISED, "if (p == plane) {", "if (false) {"),
        (
            "one vector too many",
            &batch_norm::VECTORISED,
            "4 * i / plane;       // the plane",
            "4 * (i + 1) / plane; //",
        ),
        ("the tail forgotten", &batch_norm::VECTORISED, "threadIdx.x < n % 4", "threadIdx.x < n % 4 - 1"),
        ("planes and channels swapped", &batch_norm::SCALE_SHIFT, "q % channels", "q / channels"),
        ("the edge of a plane", &batch_norm::SCALE_SHIFT, "if (i >= plane) {", "if (i > plane) {"),
        ("shift with the wrong sign", &batch_norm::SCALE_SHIFT, "bias[c] - mean[c]", "bias[c] + mean[c]"),
    ];
    for (mistake, step, from, to) in mistakes {
        let step = step.with_source(planted(&step.source, from, to));
        must_be_rejected(mistake, |device| {
            let stream = device.stream();
            let x = Tensor::random(&[2, 5, 7, 7], 1);
            let parameters = Parameters::new(5, 2);
            let expected = reference::batch_norm(&x, &parameters.norm(1e-5))?;
            let layer = step.load(device)?.layer(&stream, &parameters.to_device(device).norm(1e-5))?;
            let y = layer.forward(&stream, &x.to_device(device)?)?.into_vec()?;
            Ok(compare(&y, &expected.values, expected.tolerance()))
        });
    }
}

#[test]
fn mistakes_in_relu_are_found() {
    let mistakes = [
        (
            "one vector too many",
            &relu::VECTORISED,
            "if (i < n / 4) {\n            v[j]",
            "if (i <= n / 4) {\n            v[j]",
        ),
        ("the tail forgotten", &relu::VECTORISED, "threadIdx.x < n % 4", "threadIdx.x < n % 4 - 1"),
        ("vectors swapped", &relu::VECTORISED, "clip(v.x), clip(v.y)", "clip(v.y), clip(v.x)"),
        ("the last block", &relu::NAIVE, "if (i < n) {", "if (i < n - 1) {"),
    ];
    for (mistake, step, from, to) in mistakes {
        let step = step.with_source(planted(&step.source, from, to));
        must_be_rejected(mistake, |device| {
            let mut x = Tensor::random(&[1003], 1);
            // Those that a tail has must be among the clipped, or nothing is seen of them.
            x.as_mut_slice()?[1000..].iter_mut().for_each(|value| *value = -value.abs());
            let mut y = x.to_device(device)?;
            step.load(device)?.launch_in_place(&device.stream(), &mut y)?;
            Ok(compare(&y.into_vec()?, &reference::relu(&x)?.values, Tolerance::exact()))
        });
    }
}
