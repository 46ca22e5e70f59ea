//! Convolutions on tensor cores, on both devices: every tile, type and epilogue against the f64 product of windows and filters.

use std::collections::HashSet;

use common::device::SimOptions;
use common::device_test;
use common::prelude::*;
use common::reference::{self, Conv2dParams};
use common::testing::planted;
use phase4_fusion::conv::problem::{ConvProblem, Finish};
use phase4_fusion::conv::{Conv, LADDER, PRECISIONS, Step, Tuned};
use phase4_fusion::gemm::{Activation, Epilogue, Precision};

use crate::in_turn;

/// The step of that name.
fn step(name: &str) -> &'static Step {
    LADDER.iter().find(|step| step.name == name).unwrap()
}

/// Input, filter, stride, padding.
type Case = ([usize; 4], [usize; 4], usize, usize);

/// Channels are whole steps of f16, or few; pixels are ragged against all tiles, but for the third.
const CASES: [Case; 14] = [
    // One pixel, one tap.
    ([1, 64, 1, 1], [8, 64, 1, 1], 1, 0),
    // The padding is wider than the image.
    ([1, 64, 2, 3], [16, 64, 3, 3], 1, 1),
    // Whole tiles of 64 and 128 pixels, two images in a tile.
    ([2, 64, 8, 8], [64, 64, 3, 3], 1, 1),
    // Strides, and a tile's pixels from three images.
    ([3, 128, 9, 7], [72, 128, 3, 3], 2, 1),
    ([2, 64, 11, 6], [24, 64, 1, 1], 2, 0),
    // No padding; a wide filter; a filter that is not square.
    ([1, 64, 7, 9], [136, 64, 5, 5], 1, 0),
    ([1, 64, 12, 10], [8, 64, 7, 7], 2, 3),
    ([2, 128, 5, 6], [40, 128, 1, 3], 1, 0),
    // Few channels: as the first layers of ResNet18 and the U-Net, ragged against tiles of 16 × 8 pixels and 64 channels.
    ([2, 3, 27, 40], [64, 3, 7, 7], 2, 3),
    ([3, 8, 9, 18], [72, 8, 3, 3], 1, 1),
    // Rows of whole words; a filter that is not square; one channel; one tap.
    ([1, 4, 5, 8], [16, 4, 5, 5], 1, 2),
    ([1, 2, 6, 8], [136, 2, 4, 2], 1, 0),
    ([1, 1, 17, 16], [8, 1, 3, 3], 2, 1),
    ([2, 2, 1, 8], [8, 2, 1, 1], 1, 0),
];

const FINISHES: [Finish; 6] = [
    Finish { alpha: 0.0, scale_shift: false, residual: false, activation: Activation::None, later: false },
    Finish { alpha: 0.5, scale_shift: true, residual: false, activation: Activation::Silu, later: false },
    Finish { alpha: 0.0, scale_shift: true, residual: true, activation: Activation::Relu, later: false },
    Finish { alpha: -2.0, scale_shift: false, residual: true, activation: Activation::Gelu, later: false },
    Finish { alpha: 0.0, scale_shift: true, residual: false, activation: Activation::None, later: false },
    Finish { alpha: 0.0, scale_shift: true, residual: false, activation: Activation::Silu, later: true },
];

/// Cases, types and epilogues in turn.
fn cases() -> impl Iterator<Item = (Case, Precision, Finish)> {
    let both = CASES.into_iter().flat_map(|case| PRECISIONS.map(|precision| (case, precision)));
    // Few channels have nothing added later.
    let finishes = |[_, c, ..]: [usize; 4]| if c < 64 { FINISHES.len() - 1 } else { FINISHES.len() };
    both.enumerate().map(move |(at, (case, precision))| (case, precision, FINISHES[at % finishes(case.0)]))
}

fn problem(
    device: &Device,
    (input, filter, stride, padding): Case,
    precision: Precision,
    finish: Finish,
) -> Result<ConvProblem> {
    println!("{input:?} {filter:?} /{stride} +{padding} {precision} {finish:?}");
    ConvProblem::seeded(device, input, filter, Conv2dParams::new(stride, padding), precision, finish)
}

fn check(device: &Device, problem: &ConvProblem, launch: impl FnOnce(&mut Tensor) -> Result<()>) -> Result<()> {
    let mut y = problem.output(device)?;
    launch(&mut y)?;
    if let Err(mismatch) = problem.check(&y)? {
        panic!("{mismatch}");
    }
    Ok(())
}

fn run(device: &Device, conv: &Conv, problem: &ConvProblem) -> Result<()> {
    let ConvProblem { x, w, params, .. } = problem;
    check(device, problem, |y| conv.launch(&device.stream(), x, w, *params, &problem.epilogue(), y))
}

/// The steps, each with only one of its tiles; none, with a message, on a GPU without them.
fn every_tile(device: &Device) -> Result<Vec<(String, Conv)>> {
    let mut all = Vec::new();
    for step in LADDER {
        match step.load(device) {
            Ok(conv) if conv.tiles().next().is_none() => all.push((step.title(), conv)),
            Ok(conv) => {
                all.extend(
                    conv.tiles().map(|tile| (format!("{}: {tile}", step.title()), conv.with_tile(tile).unwrap())),
                );
            }
            Err(error) if error.is_unsupported() => println!("skipped: {error}"),
            Err(error) => return Err(error),
        }
    }
    Ok(all)
}

device_test! {
    fn every_tile_is_right_for_every_kind_of_layer(device) {
        let tiles = every_tile(&device)?;
        let mut computed = HashSet::new();
        for (at, (case, precision, finish)) in cases().enumerate() {
            let problem = problem(&device, case, precision, finish)?;
            for (_, (name, conv)) in (at..).zip(&tiles).filter(|(position, _)| in_turn(&device, *position)) {
                match run(&device, conv, &problem) {
                    Err(error) if error.is_unsupported() => println!("{name}: {error}"),
                    ran => {
                        println!("{name}");
                        ran?;
                        computed.insert(case);
                    }
                }
            }
        }
        assert!(computed.len() == CASES.len() || tiles.is_empty(), "no step takes some case: {computed:?}");
        Ok(())
    }

    fn slices_are_right_twice_in_a_row(device) {
        let Ok(slices) = step("slices of K").load(&device) else { return Ok(()) };
        for precision in PRECISIONS {
            let problem = problem(&device, ([1, 256, 7, 7], [72, 256, 3, 3], 1, 1), precision, FINISHES[2])?;
            for tile in slices.tiles() {
                let conv = slices.with_tile(tile).unwrap();
                run(&device, &conv, &problem)?;
                run(&device, &conv, &problem)?;
            }
        }
        Ok(())
    }

    /// The word after a window's row holds a value of the next pixel, and the words after the last row are unused.
    fn an_infinity_beside_a_window_stays_outside(device) {
        let Ok(conv) = step("few channels").load(&device) else { return Ok(()) };
        let (case, at) = (([1, 3, 16, 24], [8, 3, 3, 3], 2, 1), [7, 11]);
        let image = || -> Result<Tensor> {
            let mut x = Tensor::random(&case.0, 1);
            let values = x.as_mut_slice()?;
            for channel in 0..3 {
                values[(channel * 16 + at[0]) * 24 + at[1]] = f32::INFINITY;
            }
            Ok(x)
        };
        let on_device = |tensor: Tensor, element: ElementType| {
            tensor.to_type(element)?.to_format(MemoryFormat::Nhwc)?.to_device(&device)
        };
        for precision in PRECISIONS {
            let element = precision.input();
            let (x, w) = (on_device(image()?, element)?, on_device(Tensor::random(&case.1, 2), element)?);
            let params = Conv2dParams::new(case.2, case.3);
            let shape = params.output_shape(&x, &w)?;
            let mut y = on_device(Tensor::random(&shape, 3), element)?;
            conv.launch(&device.stream(), &x, &w, params, &Epilogue::default(), &mut y)?;
            let y = y.to_host()?.to_type(ElementType::F32)?.to_format(MemoryFormat::Nchw)?;
            for (place, value) in y.as_slice()?.iter().enumerate() {
                let [from_y, from_x] = [place / shape[3] % shape[2], place % shape[3]].map(|at| (at * 2) as isize - 1);
                let meets = (from_y..from_y + 3).contains(&(at[0] as isize)) && (from_x..from_x + 3).contains(&(at[1] as isize));
                assert_eq!(value.is_finite(), !meets, "{precision}: {value} at {place}");
            }
        }
        Ok(())
    }

    fn the_choice_is_right_for_every_kind_of_layer(device) {
        let Ok(tuned) = Tuned::load(&device) else { return Ok(()) };
        for (case, precision, finish) in cases() {
            let problem = problem(&device, case, precision, finish)?;
            let ConvProblem { x, w, params, .. } = &problem;
            check(&device, &problem, |y| tuned.launch(&device.stream(), x, w, *params, &problem.epilogue(), y))?;
        }
        Ok(())
    }

    fn what_the_kernels_do_not_take_is_refused_with_the_reason(device) {
        let Ok(conv) = step("gather by TMA").load(&device) else { return Ok(()) };
        let tensor = |shape: [usize; 4]| -> Result<Tensor> {
            Tensor::random(&shape, 1).to_type(ElementType::F16)?.to_format(MemoryFormat::Nhwc)?.to_device(&device)
        };
        let refused = |conv: &Conv, x: [usize; 4], w: [usize; 4], params: Conv2dParams| -> Result<String> {
            let (x, w) = (tensor(x)?, tensor(w)?);
            let mut y = tensor(params.output_shape(&x, &w)?)?;
            let error = conv.launch(&device.stream(), &x, &w, params, &Epilogue::default(), &mut y).unwrap_err();
            assert!(error.is_unsupported(), "{error}");
            Ok(error.to_string())
        };
        let plain = Conv2dParams::new(1, 1);
        assert!(refused(&conv, [1, 3, 8, 8], [8, 3, 3, 3], plain)?.ends_with("so C must be a multiple of 64"));
        assert!(refused(&conv, [1, 64, 8, 8], [7, 64, 3, 3], plain)?.ends_with("so K must be a multiple of 8"));
        assert!(refused(&conv, [1, 64, 8, 8], [8, 64, 3, 3], Conv2dParams { dilation: [2, 2], ..plain })?.ends_with("no dilation"));
        assert!(refused(&conv, [1, 64, 8, 8], [8, 64, 3, 3], Conv2dParams { stride: [1, 2], ..plain })?.contains("one stride"));
        assert!(refused(&conv, [1, 64, 40, 40], [8, 64, 3, 3], Conv2dParams::new(9, 1))?.contains("strides to 8"));

        let conv = step("few channels").load(&device)?;
        let few = problem(&device, CASES[9], Precision::F16, FINISHES[5])?;
        assert!(run(&device, &conv, &few).unwrap_err().to_string().ends_with("nothing is added after the activation"));
        assert!(refused(&conv, [1, 16, 8, 8], [8, 16, 4, 4], plain)?.contains("a window has up to 80 words"));
        assert!(refused(&conv, [1, 3, 8, 8], [8, 3, 3, 3], plain)?.ends_with("must lie whole words apart"));
        assert!(refused(&conv, [1, 3, 8, 9], [8, 3, 3, 3], Conv2dParams::new(2, 1))?.ends_with("a multiple of 16 bytes"));
        assert!(refused(&conv, [1, 8, 8, 40], [8, 8, 3, 3], Conv2dParams::new(4, 1))?.contains("256 values or rows"));
        Ok(())
    }

    /// The reference treats windows as rows; the one of phase 2 does not.
    fn the_reference_agrees_with_that_of_plain_convolutions(device) {
        let (input, filter, stride, padding) = CASES[3];
        let problem = problem(&device, CASES[3], Precision::F16, Finish::default())?;
        let rounded = |shape: &[usize], seed: u64| -> Result<Tensor> {
            Tensor::random(shape, seed).to_type(ElementType::F16)?.to_type(ElementType::F32)
        };
        let (x, w) = (rounded(&input, 1)?, rounded(&filter, 2)?);
        let params = Conv2dParams::new(stride, padding);
        let plain = reference::conv2d(&x, &w, None, params)?;
        let shape = params.output_shape(&x, &w)?;
        let [_, k, p, q] = shape;
        let found = &problem.expected.reference().values;
        for (at, &value) in plain.values.iter().enumerate() {
            let (image, channel, pixel) = (at / (k * p * q), at / (p * q) % k, at % (p * q));
            assert!((found[(image * p * q + pixel) * k + channel] - value).abs() <= 1e-12 * plain.magnitude);
        }
        Ok(())
    }
}

#[test]
fn no_rule_is_broken_in_any_tile() {
    let device = Device::sim_with(SimOptions { sanitize: true, ..SimOptions::default() });
    let few_channels = ([6, 3, 32, 64], [16, 3, 3, 3], 2, 1);
    let cases = [CASES[3], ([1, 256, 5, 5], [72, 256, 3, 3], 1, 1), few_channels];
    for (case, finish) in cases.into_iter().zip([FINISHES[2], FINISHES[5], FINISHES[2]]) {
        let problem = problem(&device, case, Precision::F16, finish).unwrap();
        for (name, conv) in every_tile(&device).unwrap() {
            // Few blocks, so that rings turn.
            match run(&device, &conv.for_processors(1), &problem) {
                Err(error) if error.is_unsupported() => println!("{name}: {error}"),
                ran => {
                    println!("{name}");
                    ran.unwrap();
                }
            }
        }
    }
}

/// Mistakes in the additions after the activation.
const PLANTED_IN_LATER: [(&str, &str); 4] = [
    // A pixel gets the first image's values.
    ("min(place(half).x, rows - 1) / later.pixels", "0"),
    ("later.pitch + later.first", "later.pitch"),
    // The lower rows get those of the upper ones.
    (
        "(size_t)min(place(half).x, rows - 1) * columns + place(0).y",
        "(size_t)min(place(0).x, rows - 1) * columns + place(0).y",
    ),
    ("sums[i + 1] += Out::unpack(two.right);", "sums[i + 1] += Out::unpack(two.left);"),
];

#[test]
fn planted_mistakes_in_what_is_added_later_are_found() {
    for (right, wrong) in PLANTED_IN_LATER {
        planted::must_be_rejected(right, |device| {
            let step = step("gather by TMA").with_source(planted::planted(&step("gather by TMA").source, right, wrong));
            let conv = step.load(device)?.with_tile("Square").unwrap();
            let problem = problem(device, ([2, 64, 7, 9], [72, 64, 1, 1], 1, 0), Precision::F16, FINISHES[5])?;
            let mut y = problem.output(device)?;
            let ConvProblem { x, w, params, .. } = &problem;
            conv.launch(&device.stream(), x, w, *params, &problem.epilogue(), &mut y)?;
            problem.check(&y)
        });
    }
}

/// The text of the kernel with few channels, and the mistake that replaces it.
const PLANTED_IN_FEW_CHANNELS: [(&str, &str); 7] = [
    // The last word of a row has a value of the next pixel, and an infinity among them would show; here the table's row is wrong.
    ("word.row * layer.pitch + word.word * WORD : 0", "word.row * layer.pitch : 0"),
    // The padding is forgotten.
    (" + layer.first_value", ""),
    // The copy starts a few values before the first window, and the windows with it.
    (" + layer.lead / WORD * WORD", ""),
    // Both consumers read the same rows.
    ("(consumer * 4 + warp) * layer.stride * layer.pitch", "warp * layer.stride * layer.pitch"),
    // A stage is filled again before every warp has read it.
    ("            barrier_wait(empty + 8 * ring.stage, ring.parity);  // every warp has its fragments\n", ""),
    // The filters are not swizzled.
    ("(byte / 16 ^ channel % 8) * 16", "byte / 16 * 16"),
    // The filters' ordinary stores are not ordered before the tensor cores read them.
    ("    fence_async_proxy();\n    __syncthreads();\n    consume", "    __syncthreads();\n    consume"),
];

#[test]
fn planted_mistakes_in_few_channels_are_found() {
    for (right, wrong) in PLANTED_IN_FEW_CHANNELS {
        planted::must_be_rejected(right, |device| {
            let step = step("few channels");
            let conv = step.with_source(planted::planted(&step.source, right, wrong)).load(device)?.for_processors(1);
            // One image after the other in a block's ring.
            let problem = problem(device, ([12, 3, 32, 64], [16, 3, 3, 3], 2, 1), Precision::F16, FINISHES[2])?;
            let mut y = problem.output(device)?;
            let ConvProblem { x, w, params, .. } = &problem;
            conv.launch(&device.stream(), x, w, *params, &problem.epilogue(), &mut y)?;
            problem.check(&y)
        });
    }
}

/// Whether the kernel with slices has it, or the first one; the text of a header, and the mistake that replaces it.
const PLANTED: [(bool, &str, &str); 6] = [
    // The padding is forgotten where a window begins.
    (false, "(first - row * outputs_x) * stride - padding", "(first - row * outputs_x) * stride"),
    // A tap too far.
    (false, "tap - y * filter_x, y, barrier", "tap - y * filter_x, y + 1, barrier"),
    // Every slice adds what the first has.
    (true, "shared_address_in(place, slice));", "shared_address_in(place, 0));"),
    // Both consumers read the same rows.
    (false, "a_tile + consumer * G::WM * ROW_BYTES", "a_tile"),
    // The parity stays when the ring turns.
    (false, "            parity ^= 1;\n", ""),
    // A box is stored before all of it is written.
    (false, "        sync_warps(1 + consumer, GROUP_THREADS);  // the boxes are complete\n", ""),
];

#[test]
fn planted_mistakes_are_found() {
    for (sliced, right, wrong) in PLANTED {
        let (step, tile) = if sliced { (step("slices of K"), "Quarters") } else { (step("gather by TMA"), "Square") };
        planted::must_be_rejected(right, |device| {
            let step = step.with_source(planted::planted(&step.source, right, wrong));
            let conv = step.load(device)?.with_tile(tile).unwrap();
            let case = ([1, 256, 9, 15], [72, 256, 3, 3], 1, 1);
            let problem = problem(device, case, Precision::F16, FINISHES[2])?;
            let mut y = problem.output(device)?;
            let ConvProblem { x, w, params, .. } = &problem;
            conv.launch(&device.stream(), x, w, *params, &problem.epilogue(), &mut y)?;
            problem.check(&y)
        });
    }
}
