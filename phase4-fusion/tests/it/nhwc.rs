//! Operations between convolutions channels last, against the references: ragged shapes, poisoned outputs, planted mistakes.

use std::fmt::Debug;
use std::fs;
use std::path::Path;

use common::compile::{KernelHead, head::TrialName};
use common::device_test;
use common::prelude::*;
use common::reference::MaxPool2d;
use common::testing::planted;
use phase4_fusion::nhwc::{
    AVERAGE_POOL, AveragePool, CONVERT, Convert, JOIN, LAYER_NORM, MAX_POOL, MaxPool, POINTWISE,
};
use phase4_fusion::planes;
use phase4_fusion::trials::{
    Comparison, TRIALS, channels_last, convert_right, enlarged_right, joined_right, max_pool_right, means_right,
    normalised_right, planes_right, sums_right,
};

const TYPES: [ElementType; 2] = [ElementType::F16, ElementType::F32];

/// `None` where the GPU is older than these kernels.
fn convert(device: &Device) -> Result<Option<Convert>> {
    planted::here(device, Convert::load(device))
}

/// Every case in both types.
fn all_right<Case: Copy + Debug>(
    cases: impl IntoIterator<Item = Case>,
    right: impl Fn(Case, ElementType) -> Comparison,
) -> Result<()> {
    for case in cases {
        for element in TYPES {
            let right = right(case, element)?;
            assert!(right.is_ok(), "{case:?} {element}: {}", right.unwrap_err());
        }
    }
    Ok(())
}

const RESNETS: MaxPool2d = MaxPool2d { window: 3, stride: 2, padding: 1 };

device_test! {
    fn conversions_are_exact_there_and_back(device) {
        let Some(convert) = convert(&device)? else { return Ok(()) };
        // Few channels, filled up or not; a last vector that is cut; no image.
        let cases = [([2, 3, 5, 7], 3), ([1, 3, 4, 4], 8), ([2, 5, 3, 3], 64), ([1, 1, 1, 1], 1), ([1, 70, 3, 2], 72), ([0, 3, 2, 2], 3)];
        all_right(cases, |(shape, channels), element| convert_right(&device, &convert, shape, channels, element))
    }

    fn the_largest_of_each_window_is_exact(device) {
        if convert(&device)?.is_none() {
            return Ok(());
        }
        let pools = [RESNETS, MaxPool2d { window: 2, stride: 2, padding: 0 }, MaxPool2d { window: 5, stride: 1, padding: 2 }];
        let cases = pools.into_iter().zip([[2, 8, 9, 7], [1, 24, 6, 5], [3, 16, 5, 6]]);
        all_right(cases, |(pool, shape), element| max_pool_right(&device, &MAX_POOL, pool, shape, element))?;
        // A NaN wins in its channel alone.
        let mut values = Tensor::random(&[1, 8, 4, 4], 9).into_vec()?;
        values[3 * 16 + 5] = f32::NAN;
        let image = Tensor::from_vec(&[1, 8, 4, 4], values)?;
        for element in TYPES {
            let x = channels_last(&device, &image, 8, element)?;
            let mut y = Tensor::empty_of(&device, &[1, 8, 2, 2], element, MemoryFormat::Nhwc)?;
            MaxPool::load(&device, MaxPool2d { window: 2, stride: 2, padding: 0 })?.launch(&device.stream(), &x, &mut y)?;
            let y = y.to_f64()?;
            assert_eq!((0..y.len()).filter(|&at| y[at].is_nan()).collect::<Vec<_>>(), [3], "{element}");
        }
        Ok(())
    }

    fn means_are_within_rounding(device) {
        if convert(&device)?.is_none() {
            return Ok(());
        }
        // ResNet18's; more pixels than groups of threads; channels that end within a block, a vector or a warp.
        let cases = [([2, 512, 7, 7], 512), ([1, 20, 9, 11], 64), ([3, 3, 1, 1], 8), ([2, 77, 5, 8], 80)];
        all_right(cases, |(shape, channels), element| means_right(&device, &AVERAGE_POOL, shape, channels, element))
    }

    fn sums_are_within_rounding(device) {
        if convert(&device)?.is_none() {
            return Ok(());
        }
        let cases = [([2, 16, 5, 3], 64), ([1, 24, 7, 7], 24), ([3, 5, 1, 1], 8), ([0, 8, 2, 2], 8)];
        all_right(cases, |(shape, channels), element| sums_right(&device, &POINTWISE, shape, channels, element))
    }

    fn joined_and_enlarged_images_are_exact(device) {
        if convert(&device)?.is_none() {
            return Ok(());
        }
        let joined = [([2, 3, 5], [16, 32]), ([1, 1, 1], [8, 8]), ([1, 4, 4], [40, 16]), ([2, 0, 1], [8, 8])];
        all_right(joined, |(size, parts), element| joined_right(&device, &JOIN, size, parts, element))?;
        let enlarged = [([2, 16, 3, 5], 2), ([1, 8, 1, 1], 3), ([1, 24, 4, 2], 1)];
        all_right(enlarged, |(shape, factor), element| enlarged_right(&device, &JOIN, shape, factor, element))
    }

    fn sums_in_planes_are_within_rounding(device) {
        // Planes of whole vectors, and not.
        for shape in [[2, 3, 6, 10], [2, 5, 3, 3], [1, 1, 1, 1], [0, 3, 2, 2]] {
            let right = planes_right(&device, &planes::SOURCE, shape)?;
            assert!(right.is_ok(), "{shape:?}: {}", right.unwrap_err());
        }
        Ok(())
    }

    fn pixels_are_normalised_within_rounding(device) {
        if convert(&device)?.is_none() {
            return Ok(());
        }
        // The U-Net's channels, filled up or not, up to those of its largest configuration; channels that end within a vector.
        let filled = [([2, 3, 3], [16, 64]), ([1, 1, 5], [77, 80]), ([1, 1, 1], [1, 8])];
        // One to four pixels per warp, and fewer than those of a block.
        let whole = [([1, 3, 1], 64), ([1, 7, 5], 320), ([1, 3, 3], 640), ([1, 2, 1], 1280)];
        let cases = filled.into_iter().chain(whole.map(|(size, channels)| (size, [channels, channels])));
        all_right(cases, |(size, channels), element| normalised_right(&device, &LAYER_NORM, size, channels, element))
    }

    fn what_does_not_fit_is_refused(device) {
        let Some(convert) = convert(&device)? else { return Ok(()) };
        let stream = device.stream();
        let last = |shape: &[usize]| Tensor::empty_of(&device, shape, ElementType::F16, MemoryFormat::Nhwc);
        let image = Tensor::empty_on(&device, &[1, 9, 2, 2])?;
        assert!(convert.to_channels_last(&stream, &image, &mut last(&[1, 8, 2, 2])?).is_err());
        assert!(convert.to_channels_first(&stream, &last(&[1, 8, 2, 2])?, &mut Tensor::empty_on(&device, &[1, 9, 2, 2])?).is_err());
        let pool = MaxPool::load(&device, RESNETS)?;
        let error = pool.launch(&stream, &last(&[1, 9, 4, 4])?, &mut last(&[1, 9, 2, 2])?).unwrap_err().to_string();
        assert!(error.contains("a pixel of 9 channels in f16 is no multiple of 16 bytes"), "{error}");
        let means = AveragePool::load(&device)?;
        assert!(means.launch(&stream, &last(&[1, 8, 0, 2])?, &mut Tensor::empty_on(&device, &[1, 8, 1, 1])?).is_err());
        assert!(means.launch(&stream, &last(&[1, 8, 2, 2])?, &mut Tensor::empty_on(&device, &[1, 9, 1, 1])?).is_err());
        Ok(())
    }
}

/// The trials that the book's page runs after an edit.
#[test]
fn the_trials_find_nothing_wrong_and_know_their_kernels() {
    let device = Device::sim();
    let named = |stem: &str| {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("kernels/{stem}.cu"));
        KernelHead::read(&fs::read_to_string(file).unwrap()).trial.unwrap()
    };
    for stem in ["nhwc_01_convert", "nhwc_07_recast"] {
        let trial = TRIALS.iter().find(|trial| named(stem) == TrialName::Named(trial.name.to_owned())).unwrap();
        assert_eq!((trial.run.unwrap())(&device).unwrap(), [""; 0], "{}", trial.name);
    }
    assert!(matches!(named("images_01_normalise"), TrialName::Missing(_)));
}

#[test]
fn planted_mistakes_are_found() {
    let conversions = [
        // Channels beyond the image's become values of the next plane.
        ("channel < image.channels && first + i < values", "first + i < values"),
        // The pixel stays where the channels begin again.
        ("if (++in_image == image.pixels) {", "if (false) {"),
        // The last vector is written whole.
        ("if (first + EACH<Out> <= values) {", "if (true) {"),
    ];
    for (right, wrong) in conversions {
        planted::must_be_rejected(right, |device| {
            let convert = Convert::load_from(device, &planted::planted(&CONVERT, right, wrong))?;
            convert_right(device, &convert, [2, 3, 5, 7], 5, ElementType::F16)
        });
    }
    for (right, wrong) in
        [("min(left + pool.window, pool.width)", "left + pool.window"), ("top = max(top, 0);", "top = max(top, 1);")]
    {
        planted::must_be_rejected(right, |device| {
            max_pool_right(device, &planted::planted(&MAX_POOL, right, wrong), RESNETS, [2, 8, 9, 7], ElementType::F16)
        });
    }
    let means = [
        ("sum[k] += __shfl_xor_sync(~0u, sum[k], 16);", ""),
        ("all / image.pixels", "all / (image.pixels + 1)"),
        ("    __syncthreads();\n", ""),
    ];
    for (right, wrong) in means {
        planted::must_be_rejected(right, |device| {
            means_right(device, &planted::planted(&AVERAGE_POOL, right, wrong), [2, 77, 5, 8], 80, ElementType::F32)
        });
    }
    let sums = [
        ("channel < terms.of_e", "true"),
        ("(size_t)image * terms.pitch + terms.first + channel", "terms.first + channel"),
        ("terms.pitch + terms.first + channel", "terms.pitch + channel"),
        ("value += terms.shift[channel];", ""),
        ("1.0f + __expf(-value)", "1.0f + __expf(value)"),
    ];
    for (right, wrong) in sums {
        planted::must_be_rejected(right, |device| {
            sums_right(device, &planted::planted(&POINTWISE, right, wrong), [2, 16, 5, 3], 64, ElementType::F16)
        });
    }
    let of_planes = [
        ("row - image * planes.channels", "row"),
        ("planes.pitch + planes.first", "planes.pitch"),
        ("+ (&other.x)[j]", ""),
        ("1.0f + expf(-value)", "1.0f + expf(value)"),
    ];
    for (right, wrong) in of_planes {
        planted::must_be_rejected(right, |device| {
            planes_right(device, &planted::planted(&planes::SOURCE, right, wrong), [2, 3, 6, 10])
        });
    }
    let joined = [("vector < joined.a + joined.b", "vector < joined.pitch"), (" + vector - joined.a)", " + vector)")];
    for (right, wrong) in joined {
        planted::must_be_rejected(right, |device| {
            joined_right(device, &planted::planted(&JOIN, right, wrong), [2, 3, 5], [16, 32], ElementType::F16)
        });
    }
    planted::must_be_rejected("row - image * size.height", |device| {
        let source = planted::planted(&JOIN, "in_image = row - image * size.height", "in_image = row");
        enlarged_right(device, &source, [2, 16, 3, 5], 2, ElementType::F16)
    });
    let norms = [
        ("squares += distance * distance;", "squares += distance;", [77, 128]),
        ("* EACH_HELD + j < pixels.channels; };", "* EACH_HELD + j < pixels.channels + 8; };", [77, 128]),
        ("sum_of_lanes<LANES>(sum) / pixels.channels", "sum / pixels.channels", [77, 128]),
        ("other = LANES / 2", "other = 16", [320, 320]),
        ("if (pixel >= pixels.count) {", "if (pixel + 1 >= pixels.count) {", [320, 320]),
    ];
    for (right, wrong, channels) in norms {
        planted::must_be_rejected(right, |device| {
            let source = planted::planted(&LAYER_NORM, right, wrong);
            normalised_right(device, &source, [2, 3, 3], channels, ElementType::F16)
        });
    }
}
