//! Every step of the convolution ladder on both devices: every kind of shape, against the f64 reference.

use common::check::{Tolerance, assert_close, compare};
use common::device_test;
use common::prelude::*;
use common::reference::{self, Conv2dParams, Reference};
use common::testing::planted::{self, here};
use phase2_conv_bn::conv::{self, CUT, LADDER, load_cut, step16_tuned};
use phase2_conv_bn::conv::{Choice, Conv, Tuned, step17_winograd, step19_winograd_4x4};
use phase2_conv_bn::gemm::Epilogue;

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

/// Whether Winograd's steps take it; empty outputs are not refused.
fn is_for_winograd(weight: &[usize; 4], params: Conv2dParams) -> bool {
    let Conv2dParams { stride, dilation, groups, .. } = params;
    weight[1] > 0 && weight[2..] == [3, 3] && stride == [1, 1] && dilation == [1, 1] && groups == 1
}

/// Tolerance of a step: for the sum of products in any order, or Winograd's own bounds. All values are in (−1, 1).
fn tolerance(step: &str, weight: &[usize; 4], expected: &Reference) -> Tolerance {
    match step {
        "Winograd" => step17_winograd::tolerance(weight[1], 1.0, 1.0, 1.0),
        "Winograd F4" => step19_winograd_4x4::tolerance(weight[1], 1.0, 1.0, 1.0),
        _ => expected.tolerance(),
    }
}

device_test! {
    fn every_step_matches_the_reference_for_every_kind_of_shape(device) {
        let stream = device.stream();
        let steps = LADDER.iter().filter_map(|step| here(&device, step.load(&device)).transpose()).collect::<Result<Vec<_>>>()?;
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
                        Err(error) if error.is_unsupported() => {
                            // The first takes everything; Winograd is for one kind of shape.
                            assert_ne!(step.name(), "direct");
                            assert!(!step.name().starts_with("Winograd") || !is_for_winograd(&weight, params), "{error}");
                            continue;
                        }
                        output => output?.to_host()?,
                    };
                    let tolerance = tolerance(step.name(), &weight, &expected);
                    println!("  {}", step.name());
                    assert_eq!(output.shape(), params.output_shape(&x, &w)?);
                    assert_close(output.as_slice()?, &expected.values, tolerance);
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
            case("ragged", [2, 5, 9, 9], [70, 5, 3, 3], new(1, 1)),
            case("vectors", [1, 12, 8, 10], [36, 12, 2, 2], Conv2dParams { dilation: [1, 2], ..new(1, 1) }),
            case("groups", [1, 8, 12, 13], [6, 4, 3, 3], Conv2dParams { groups: 2, ..new(2, 1) }),
        ];
        for (seed, Case { name, input, weight, params }) in (100..).step_by(3).zip(cases) {
            let (x, w) = (Tensor::random(&input, seed), Tensor::random(&weight, seed + 1));
            let b = Tensor::random(&weight[..1], seed + 2);
            let expected = reference::conv2d(&x, &w, Some(&b), params)?;
            let (x, w, b) = (x.to_device(&device)?, w.to_device(&device)?, b.to_device(&device)?);
            for (step, cuts) in CUT.iter().flat_map(|step| [1, 3].map(|cuts| (step, cuts))) {
                println!("{name}, {}, {cuts} cuts", step.title());
                let Some(conv) = here(&device, load_cut(&device, step, cuts))? else { continue };
                for _ in 0..2 {
                    let output = conv.forward(&stream, &x, &w, Some(&b), params)?.into_vec()?;
                    assert_close(&output, &expected.values, expected.tolerance());
                }
            }
            for (tile, cuts) in step16_tuned::TILES.into_iter().flat_map(|tile| [1, 3].map(|cuts| (tile, cuts))) {
                println!("{name}, {tile}, {cuts} cuts");
                let source = &step16_tuned::STEP.source;
                let Some(conv) = here(&device, step16_tuned::load_with(&device, source, tile, cuts))? else { return Ok(()) };
                // Twice: what a launch leaves in its workspace must not harm the next.
                for _ in 0..2 {
                    let output = conv.forward(&stream, &x, &w, Some(&b), params)?.into_vec()?;
                    assert_close(&output, &expected.values, expected.tolerance());
                }
            }
        }
        assert!(step16_tuned::load_with(&device, &step16_tuned::STEP.source, "1x1", 1).is_err());
        let uncut = LADDER.iter().find(|step| step.name == "offset table").unwrap();
        assert!(load_cut(&device, uncut, 1).is_err());
        Ok(())
    }

    fn winograd_is_right_whole_cut_and_prepared(device) {
        let stream = device.stream();
        let source = &step17_winograd::STEP.source;
        let Some(winograd) = here(&device, step17_winograd::Winograd::load(&device, source))? else { return Ok(()) };
        for (input, weight, padding) in [([2, 17, 9, 7], [3, 17, 3, 3], 1), ([1, 24, 8, 18], [66, 24, 3, 3], 0)] {
            let params = Conv2dParams::new(1, padding);
            let (x, w) = (Tensor::random(&input, 1), Tensor::random(&weight, 2));
            let b = Tensor::random(&weight[..1], 3);
            let expected = reference::conv2d(&x, &w, Some(&b), params)?;
            let tolerance = tolerance("Winograd", &weight, &expected);
            let (x, w, b) = (x.to_device(&device)?, w.to_device(&device)?, b.to_device(&device)?);
            for cuts in [1, 2, 3] {
                let conv = step17_winograd::load_with(&device, source, cuts)?;
                // Twice: what a launch leaves in its workspace must not harm the next.
                for _ in 0..2 {
                    assert_close(&conv.forward(&stream, &x, &w, Some(&b), params)?.into_vec()?, &expected.values, tolerance);
                }
            }
            let prepared = winograd.prepare(&stream, &w, params)?;
            let mut output = Tensor::full(&params.output_shape(&x, &w)?, f32::NAN).to_device(&device)?;
            winograd.launch_prepared(&stream, &x, &w, &prepared, Some(&b), params, &mut output)?;
            assert_close(&output.into_vec()?, &expected.values, tolerance);
        }
        Ok(())
    }

    /// Several tiles of each kernel in each dimension, whole and ragged, with all tiles of 4 × 4 outputs at a time and in passes.
    fn winograd_4x4_is_right_with_every_tile_cut_and_in_passes(device) {
        let stream = device.stream();
        let source = &step19_winograd_4x4::STEP.source;
        if here(&device, step19_winograd_4x4::STEP.load(&device))?.is_none() {
            return Ok(());
        }
        let cases = [
            ([5, 49, 9, 7], [3, 49, 3, 3], [1, 1]),
            ([1, 35, 12, 18], [70, 35, 3, 3], [0, 2]),
            ([3, 16, 25, 29], [140, 16, 3, 3], [1, 1]),
        ];
        for (input, weight, padding) in cases {
            let params = Conv2dParams { padding, ..Conv2dParams::new(1, 0) };
            let (x, w) = (Tensor::random(&input, 1), Tensor::random(&weight, 2));
            let b = Tensor::random(&weight[..1], 3);
            let expected = reference::conv2d(&x, &w, Some(&b), params)?;
            let tolerance = tolerance("Winograd F4", &weight, &expected);
            let mut output = Tensor::full(&params.output_shape(&x, &w)?, f32::NAN).to_device(&device)?;
            let (x, w, b) = (x.to_device(&device)?, w.to_device(&device)?, b.to_device(&device)?);
            for tile in step19_winograd_4x4::TILES {
                for (cuts, at_a_time) in [(1, usize::MAX), (3, 33)] {
                    println!("{input:?}, {tile}, {cuts} cuts, {at_a_time} tiles at a time");
                    let conv = step19_winograd_4x4::load_with(&device, source, tile, cuts, at_a_time)?;
                    conv.launch(&stream, &x, &w, Some(&b), params, &mut output)?;
                    assert_close(output.to_host()?.as_slice()?, &expected.values, tolerance);
                    stream.poison(output.buffer_mut()?)?;
                }
            }
        }
        assert!(step19_winograd_4x4::load_with(&device, source, "1x1", 1, 1).is_err());
        Ok(())
    }

    fn the_choice_is_right_for_every_kind_of_shape(device) {
        let stream = device.stream();
        let tuned = Tuned::load(&device)?;
        for Case { name, input, weight, params } in cases() {
            println!("{name}");
            let (x, w) = (Tensor::random(&input, 1), Tensor::random(&weight, 2));
            let expected = reference::conv2d(&x, &w, None, params)?;
            let processors = device.properties().multiprocessors.unwrap_or(1) as usize;
            let tolerance_if = |prepared| {
                let choice = Choice::new(&x, &w, params, prepared, processors)?;
                Ok::<_, Error>(tolerance(choice.step().name, &weight, &expected))
            };
            let tolerances = [tolerance_if(false)?, tolerance_if(true)?];
            let (x, w) = (x.to_device(&device)?, w.to_device(&device)?);
            let prepared = tuned.prepare(&stream, &w, params)?;
            assert!(prepared.is_none() || is_for_winograd(&weight, params), "{name}: prepared for no use");
            for (prepared, tolerance) in [None, prepared.as_ref()].into_iter().zip(tolerances) {
                let mut output = Tensor::full(&params.output_shape(&x, &w)?, f32::NAN).to_device(&device)?;
                tuned.launch_prepared(&stream, &x, &w, prepared, &Epilogue::default(), params, &mut output)?;
                assert_close(&output.into_vec()?, &expected.values, tolerance);
            }
        }
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

/// A step's number, its text, and the mistake in place of it.
const PLANTED: [(u32, &str, &str); 27] = [
    // Beyond the edges of the image and of the taps.
    (6, "(inside & needs) == needs ?", "inside != 0 ?"),
    // The edge: weights of output channels beyond the last are read.
    (7, "first_row + r < conv.group_outputs && first + w_tap < conv.taps", "first + w_tap < conv.taps"),
    // The next step's values are written over those that are read.
    (8, "store_step(stage ^ 1);", "store_step(stage);"),
    // A cut goes on into the next one's taps.
    (9, "end = min(conv.taps, begin + steps_each * BK);", "end = conv.taps;"),
    // The parts are added up before all are there.
    (9, "arrived[blockIdx.x], 1u) == gridDim.y - 1;", "arrived[blockIdx.x], 1u) == 0;"),
    // The four weights of a load, past the last tap.
    (10, "fetch(from + 3, k + 3 < length)", "fetch(from + 3, k < length)"),
    // Both entries of a load for the same tap.
    (
        10,
        "fetch(corner + two.z, (inside & next_needs) == next_needs)",
        "fetch(corner + two.x, (inside & next_needs) == next_needs)",
    ),
    // The groups of channels overlap.
    (11, "first_row + row + i / 4 * 4 * LANES_Y + i % 4", "first_row + row + i"),
    // The first tap is read once more in place of the next.
    (12, "read(k + 1);", "read(k);"),
    // The groups of pixels exchanged.
    (13, "&sums[f / 2][f % 2 * 4]", "&sums[f / 2][(1 - f % 2) * 4]"),
    // The copies are not waited for.
    (14, "        copies_arrived();\n        __syncthreads();  // the next", "        __syncthreads();  // the next"),
    // A wait for one group too few.
    (15, "copy_groups_arrived<STAGES - 2>();", "copy_groups_arrived<STAGES - 1>();"),
    // The stage that is being multiplied is copied to.
    (15, "(stage + STAGES - 1) % STAGES);\n        end", "stage);\n        end"),
    // The next step's values are read before they are there.
    (16, "            __syncthreads();  // the first step's values are there\n", ""),
    // The edge: weights of output channels beyond the last are read.
    (
        16,
        "bool in = needed(step) && first_row + r < conv.group_outputs && k < conv.taps;",
        "bool in = needed(step) && k < conv.taps;",
    ),
    // Two lanes take the same place.
    (16, "(lane & 1) | (lane >> 1 & (LANES_X - 2))", "(lane >> 1 & 1) | (lane >> 1 & (LANES_X - 2))"),
    // Row and column of the window exchanged.
    (
        16,
        "inside[i] |= (unsigned)((unsigned)(left + s * conv.dilation_x) < (unsigned)conv.width) << (16 + s);",
        "inside[i] |= (unsigned)((unsigned)(left + s * conv.dilation_x) < (unsigned)conv.width) << (15 + s);",
    ),
    // The edge: columns beyond the right one are read from the next row.
    (17, "&& (unsigned)(left + i % 4) < (unsigned)conv.width;", "&& left + i % 4 >= 0;"),
    // Two places exchanged.
    (17, "half[2][j] = d[8 + j] - d[4 + j];", "half[2][j] = d[4 + j] - d[8 + j];"),
    // The edges of the image: on the right, below, and of the outputs.
    (19, "in_row && (unsigned)(left + j) < (unsigned)conv.width", "in_row && left + j >= 0"),
    (19, "exists && (unsigned)(top + i) < (unsigned)conv.height", "exists && top + i >= 0"),
    (19, "if (at.y + i >= conv.out_height) {", "if (false) {"),
    // Channels beyond the last are read.
    (19, "bool exists = tile < tiles && c < conv.channels;", "bool exists = tile < tiles;"),
    // A point in place of its negative.
    (19, "v[2] = even_a - odd_a;", "v[2] = odd_a - even_a;"),
    // The wait before a step's values are read, and before the next's.
    (
        19,
        "        copy_groups_arrived<STAGES - 2>();\n        __syncthreads();  // the first",
        "        __syncthreads();  // the first",
    ),
    (19, "copy(free_stage);", "copy(stage);"),
    // Only the first cut is summed up.
    (19, "cut < cuts; cut++", "cut < 1; cut++"),
];

#[test]
fn planted_mistakes_are_found() {
    let device = common::private::sim_for_test();
    if !planted::compiler(&device, "planted_mistakes_are_found") {
        return;
    }
    let stream = device.stream();
    let params = Conv2dParams::new(1, 1);
    // A few steps along the taps; for step 19, whose steps are of 16 channels, as many along the channels.
    let problems = [9, 33].map(|channels| {
        let weight = [5, channels, 3, 3];
        let (x, w) = (Tensor::random(&[1, channels, 5, 7], 1), Tensor::random(&weight, 2));
        let expected = reference::conv2d(&x, &w, None, params).unwrap();
        (x.to_device(&device).unwrap(), w.to_device(&device).unwrap(), weight, expected)
    });
    let passes = |conv: Conv, step: &str| {
        let (x, w, weight, expected) = &problems[usize::from(step == "Winograd F4")];
        let tolerance = tolerance(step, weight, expected);
        // An error is a finding of the sanitiser.
        conv.forward(&stream, x, w, None, params)
            .and_then(Tensor::into_vec)
            .is_ok_and(|values| compare(&values, &expected.values, tolerance).is_ok())
    };
    for step in LADDER.iter().filter(|step| PLANTED.iter().any(|(number, ..)| *number == step.number)) {
        assert!(passes(step.load(&device).unwrap(), step.name), "{} without a mistake", step.name);
    }
    for (number, right, wrong) in PLANTED {
        let step = LADDER.iter().find(|step| step.number == number).unwrap();
        let source = planted::planted(&step.source, right, wrong);
        let found = match number {
            16 => step16_tuned::TILES
                .iter()
                .any(|tile| !passes(step16_tuned::load_with(&device, &source, tile, 2).unwrap(), step.name)),
            19 => step19_winograd_4x4::TILES.iter().any(|tile| {
                !passes(
                    step19_winograd_4x4::load_with(
                        &device,
                        &source,
                        tile,
                        1 + usize::from(wrong.contains("cut")),
                        usize::MAX,
                    )
                    .unwrap(),
                    step.name,
                )
            }),
            9..=15 => !passes(load_cut(&device, &step.with_source(source), 2).unwrap(), step.name),
            _ => !passes(step.with_source(source).load(&device).unwrap(), step.name),
        };
        assert!(found, "step {number}: `{wrong}` in place of `{right}` passes");
    }
}
