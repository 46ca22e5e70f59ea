//! The naive layers on both devices: every kind of shape, against the f64 reference.
#![allow(clippy::unwrap_used)]

use common::check::{Tolerance, assert_close};
use common::device_test;
use common::prelude::*;
use common::reference::{self, BatchNorm};
use phase2_conv_bn::steps::step02_batch_norm::BatchNormNaive;
use phase2_conv_bn::steps::step03_relu::Relu;

fn positive(len: usize, seed: u64) -> Tensor {
    let values = Tensor::random(&[len], seed).into_vec().unwrap();
    Tensor::from_vec(&[len], values.iter().map(|value| value.abs() + 0.01).collect()).unwrap()
}

device_test! {
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
        let message = |result: Result<Tensor>| result.map(drop).unwrap_err().to_string();
        let x = Tensor::random(&[1, 3, 8, 8], 1).to_device(&device)?;
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
