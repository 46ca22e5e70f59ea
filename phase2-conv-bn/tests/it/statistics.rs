//! Mean and variance on both devices: every step, every kind of shape, against the f64 reference; and a mean so large that the
//! method decides.

use common::check::{Mismatch, Report, assert_close, compare};
use common::device_test;
use common::prelude::*;
use common::reference;
use common::testing::planted::{compiler, must_be_rejected, planted};
use phase2_conv_bn::norm::statistics::{LADDER, NAIVE, SHARED, SHUFFLE, Statistics, WELFORD};

/// Results of a step, in poisoned tensors.
fn run(device: &Device, statistics: &mut Statistics, input: &Tensor) -> Result<[Vec<f32>; 2]> {
    let channels = input.shape()[1];
    let mut mean = Tensor::empty_on(device, &[channels])?;
    let mut variance = Tensor::empty_on(device, &[channels])?;
    statistics.launch(&device.stream(), &input.to_device(device)?, &mut mean, &mut variance)?;
    Ok([mean.into_vec()?, variance.into_vec()?])
}

/// `spread` times random values around `centre`, which differs from channel to channel.
fn around(shape: &[usize; 4], centre: f32, spread: f32, seed: u64) -> Tensor {
    let mut values = Tensor::random(shape, seed).into_vec().unwrap().into_iter();
    Tensor::from_fn(shape, |index| centre + 0.1 * index[1] as f32 + spread * values.next().unwrap())
}

device_test! {
    fn statistics_match_the_reference(device) {
        let shapes = [
            [1, 1, 1, 1],
            [2, 3, 5, 7],
            [3, 65, 1, 1],
            [300, 2, 1, 1],
            [4, 5, 1, 2],
            [4, 5, 3, 1],
            [7, 3, 2, 2],
            [1, 5, 16, 16],
            [4, 2, 1, 33],
            [5, 37, 7, 7],
            // More than one round of a block, and more than one block per channel.
            [3, 2, 65, 67],
            [2, 3, 64, 64],
            [2, 0, 3, 3],
        ];
        for step in LADDER {
            for (seed, shape) in (1..).zip(shapes) {
                println!("{}, {shape:?}", step.name);
                let input = around(&shape, 0.0, 1.0, seed);
                let expected = reference::statistics(&input)?;
                let mut statistics = step.load(&device)?;
                let [mean, variance] = run(&device, &mut statistics, &input)?;
                let [of_mean, of_variance] = statistics.tolerances(&expected, &input)?;
                assert_close(&mean, &expected.mean, of_mean);
                assert_close(&variance, &expected.variance, of_variance);
            }
        }
        Ok(())
    }

    /// Values within 1 of 4096: f32 resolves them to 1/2048, so a variance of 1/3 is well defined. The sum of squares has lost
    /// it, since neighbouring f32 are 1 apart at 4096² = 2²⁴; merging still has it to 1 in 100.
    fn a_large_mean_decides_between_the_methods(device) {
        let shape = [2, 3, 40, 40];
        let input = around(&shape, 4096.0, 1.0, 7);
        let expected = reference::statistics(&input)?;
        for step in LADDER {
            let mut statistics = step.load(&device)?;
            let [mean, variance] = run(&device, &mut statistics, &input)?;
            let [of_mean, of_variance] = statistics.tolerances(&expected, &input)?;
            assert_close(&mean, &expected.mean, of_mean);
            assert_close(&variance, &expected.variance, of_variance);
            let [_, of_merging] = WELFORD.load(&device)?.tolerances(&expected, &input)?;
            let worst = variance.iter().zip(&expected.variance);
            let worst = worst.map(|(&variance, expected)| (f64::from(variance) / expected - 1.0).abs()).fold(0.0, f64::max);
            println!("{}: {variance:?}, off by {worst:.4}, bound of merging {:.4}", step.name, of_merging.absolute);
            let survives = step.name == WELFORD.name;
            assert_eq!(worst < 0.01, survives, "{}: {variance:?}", step.name);
        }
        Ok(())
    }

    /// A workspace that has been used for a larger input, then for a smaller one, and a second launch on the same data.
    fn a_workspace_is_used_again_and_the_bits_are_the_same(device) {
        let stream = device.stream();
        for step in [SHUFFLE, WELFORD] {
            let mut statistics = step.load(&device)?;
            let mut before = Vec::new();
            for (seed, shape) in [(1, [1, 2, 8, 8]), (2, [3, 2, 65, 67]), (1, [1, 2, 8, 8])] {
                let input = Tensor::random(&shape, seed);
                let expected = reference::statistics(&input)?;
                let [mut mean, mut variance] = [Tensor::empty_on(&device, &[2])?, Tensor::empty_on(&device, &[2])?];
                statistics.launch(&stream, &input.to_device(&device)?, &mut mean, &mut variance)?;
                let [_, tolerance] = statistics.tolerances(&expected, &input)?;
                let variance = variance.into_vec()?;
                assert_close(&variance, &expected.variance, tolerance);
                before.push(variance);
            }
            assert_eq!(before[0], before[2]);
        }
        Ok(())
    }

    fn shapes_that_do_not_fit_are_refused_with_both(device) {
        let stream = device.stream();
        for step in LADDER {
            let mut statistics = step.load(&device)?;
            let mut launch = |shape: &[usize], outputs: [usize; 2]| -> Result<String> {
                let x = Tensor::zeros(shape).to_device(&device)?;
                let [mut mean, mut variance] = [Tensor::empty_on(&device, &outputs[..1])?, Tensor::empty_on(&device, &outputs[1..])?];
                Ok(statistics.launch(&stream, &x, &mut mean, &mut variance).unwrap_err().to_string())
            };
            assert_eq!(launch(&[2, 3, 4, 4], [2, 3])?, "the mean: expected the shape [3], got [2]");
            assert_eq!(launch(&[2, 3, 4, 4], [3, 2])?, "the variance: expected the shape [3], got [2]");
            assert_eq!(
                launch(&[2, 3, 0, 4], [3, 3])?,
                "statistics: [2, 3, 0, 4] has channels without values, whose mean does not exist"
            );
            assert_eq!(launch(&[2, 3], [3, 3])?, "reading N, C, H, W: expected 4 dimensions, got shape [2, 3]");
        }
        Ok(())
    }
}

#[test]
fn mistakes_in_statistics_are_found() {
    let mistakes = [
        ("channels and images swapped", &NAIVE, "(size_t)image * channels + c", "(size_t)c * images + image"),
        ("a barrier missing", &SHARED, "        }\n        __syncthreads();\n    }", "        }\n    }"),
        ("the last of a plane", &SHARED, "e < images * plane;", "e < images * plane - 1;"),
        ("the lanes of half a warp", &SHUFFLE, "int offset = 16; offset > 0", "int offset = 8; offset > 0"),
        ("a ragged slot read as a vector", &SHUFFLE, "if (s.whole())", "if (s.end == 4)"),
        ("a barrier missing", &SHUFFLE, "    __syncthreads();\n", ""),
        ("a slot behind the end", &SHUFFLE, "of < end ? of - image * slots : slots", "of - image * slots"),
        ("a count forgotten", &WELFORD, "delta * delta * a.count * part", "delta * delta * part"),
        ("a ragged slot merged as four", &WELFORD, "if (slot.whole())", "if (slot.first == 0)"),
    ];
    for (mistake, step, right, wrong) in mistakes {
        let step = step.with_source(planted(&step.source, right, wrong));
        must_be_rejected(mistake, |device| {
            let input = around(&[3, 5, 7, 15], 0.0, 1.0, 1);
            let expected = reference::statistics(&input)?;
            let mut statistics = step.load(device)?;
            let [mean, variance] = run(device, &mut statistics, &input)?;
            let [of_mean, of_variance] = statistics.tolerances(&expected, &input)?;
            let both = |means: Report| -> Result<Report, Mismatch> {
                compare(&variance, &expected.variance, of_variance).map(|_| means)
            };
            Ok(compare(&mean, &expected.mean, of_mean).and_then(both))
        });
    }
}

/// Block sizes are stated only in the kernel file: edited there, they are launched as edited, and the bounds are derived from
/// them.
#[test]
fn blocks_edited_in_the_kernel_file_are_launched_as_edited() {
    let device = common::private::sim_for_test();
    if !compiler(&device, "blocks_edited_in_the_kernel_file_are_launched_as_edited") {
        return;
    }
    let edits = [
        (&SHARED, "THREADS = 256;", "THREADS = 64;"),
        (&SHUFFLE, "THREADS = 256;", "THREADS = 128;"),
        (&WELFORD, "IN_FLIGHT = 4;", "IN_FLIGHT = 2;"),
    ];
    for (step, right, wrong) in edits {
        let mut statistics = step.with_source(planted(&step.source, right, wrong)).load(&device).unwrap();
        let input = around(&[3, 2, 65, 67], 0.0, 1.0, 1);
        let expected = reference::statistics(&input).unwrap();
        let [mean, variance] = run(&device, &mut statistics, &input).unwrap();
        let [of_mean, of_variance] = statistics.tolerances(&expected, &input).unwrap();
        assert_close(&mean, &expected.mean, of_mean);
        assert_close(&variance, &expected.variance, of_variance);
    }
}
