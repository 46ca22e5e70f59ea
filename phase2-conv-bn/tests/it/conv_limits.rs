//! The convolution steps one by one: refusals, memory, shapes at the edges of their tiles, and mistakes that the checks must
//! find.

use common::check::{Mismatch, Report, compare};
use common::device_test;
use common::prelude::*;
use common::reference::{self, Conv2dParams};
use common::testing::planted::{self, here, must_be_rejected, planted};
use phase2_conv_bn::conv::{LADDER, Step};

/// The step of that name.
fn step(name: &str) -> &'static Step {
    LADDER.iter().find(|step| step.name == name).unwrap()
}

type Shape = [usize; 4];

/// With a bias, against the reference.
fn check(
    device: &Device,
    step: &Step,
    input: Shape,
    weight: Shape,
    params: Conv2dParams,
) -> Result<Result<Report, Mismatch>> {
    let [x, w] = [Tensor::random(&input, 1), Tensor::random(&weight, 2)];
    let b = Tensor::random(&weight[..1], 3);
    let expected = reference::conv2d(&x, &w, Some(&b), params)?;
    let shape = params.output_shape(&x, &w)?;
    let mut output = Tensor::full(&shape, f32::NAN).to_device(device)?;
    let conv = step.load(device)?;
    let [x, w, b] = [x.to_device(device)?, w.to_device(device)?, b.to_device(device)?];
    conv.launch(&device.stream(), &x, &w, Some(&b), params, &mut output)?;
    Ok(compare(&output.into_vec()?, &expected.values, expected.tolerance()))
}

fn grouped(groups: usize, params: Conv2dParams) -> Conv2dParams {
    Conv2dParams { groups, ..params }
}

device_test! {
    /// Several tiles of each kernel in each dimension, whole and ragged, and pixels by 16 bytes or one by one.
    fn tiles_and_their_edges_are_right(device) {
        let new = Conv2dParams::new;
        let cases: [(&Step, Shape, Shape, Conv2dParams); 10] = [
            (step("halo tile"), [1, 2, 18, 33], [2, 2, 3, 3], new(1, 1)),
            (step("halo tile"), [1, 2, 37, 20], [2, 1, 3, 2], grouped(2, new(2, 1))),
            (step("registers"), [3, 8, 6, 26], [9, 8, 3, 3], new(1, 1)),
            (step("registers"), [2, 22, 7, 5], [20, 11, 3, 3], grouped(2, new(1, 1))),
            (step("im2col"), [2, 16, 8, 8], [64, 16, 1, 1], new(1, 0)),
            (step("im2col"), [3, 5, 7, 7], [33, 5, 3, 3], new(1, 1)),
            (step("im2col"), [2, 6, 10, 8], [70, 3, 3, 3], grouped(2, new(1, 1))),
            (step("pointwise"), [2, 33, 8, 8], [65, 33, 1, 1], new(1, 0)),
            (step("pointwise"), [3, 17, 7, 7], [70, 17, 1, 1], new(1, 0)),
            (step("pointwise"), [5, 16, 7, 8], [64, 16, 1, 1], new(2, 0)),
        ];
        for (step, input, weight, params) in cases {
            if here(&device, step.load(&device))?.is_none() {
                continue;
            }
            println!("{}: {input:?} * {weight:?}, {params:?}", step.name);
            let report = check(&device, step, input, weight, params)?;
            assert!(report.is_ok(), "{}", report.unwrap_err());
        }
        Ok(())
    }

    fn a_halo_beyond_shared_memory_is_refused_with_its_size(device) {
        let params = Conv2dParams { dilation: [200, 200], ..Conv2dParams::new(1, 200) };
        let error = check(&device, step("halo tile"), [1, 1, 1, 1], [1, 1, 3, 3], params).unwrap_err();
        let most = device.properties().shared_per_block_optin;
        assert_eq!(
            error.to_string(),
            format!(
                "convolution `halo tile` is not possible on {}: 16×16 outputs cover 416×416 input values, 692224 bytes, and a \
                 block has {most} bytes of shared memory",
                device.short_name()
            )
        );
        assert!(error.is_unsupported());
        Ok(())
    }

    fn what_is_not_pointwise_is_refused_with_the_reason(device) {
        let refused = |input, weight, params| {
            let error = check(&device, step("pointwise"), input, weight, params).unwrap_err();
            assert!(error.is_unsupported(), "{error}");
            error.to_string().split_once(": ").unwrap().1.to_owned()
        };
        let new = Conv2dParams::new;
        assert_eq!(refused([1, 2, 4, 4], [2, 2, 1, 3], new(1, 0)), "the window is not 1×1");
        assert_eq!(refused([1, 2, 4, 4], [2, 2, 1, 1], new(1, 1)), "there is padding, whose zeros are in no matrix");
        assert_eq!(
            refused([1, 2, 4, 4], [2, 1, 1, 1], grouped(2, new(1, 0))),
            "there are groups, each a product of its own"
        );
        Ok(())
    }

    /// 4·C·R·S·N·P·Q bytes, kept from call to call: a smaller call, then a larger one, leave no trace in the next.
    fn im2col_needs_its_matrix_and_uses_it_again(device) {
        let stream = device.stream();
        let Some(conv) = here(&device, step("im2col").load(&device))? else { return Ok(()) };
        let params = grouped(2, Conv2dParams::new(2, 1));
        let (mut outputs, mut most) = (Vec::new(), 0);
        for (seed, input) in [(1, [2, 4, 9, 7]), (2, [1, 4, 5, 5]), (3, [3, 4, 11, 12]), (1, [2, 4, 9, 7])] {
            let [x, w] = [Tensor::random(&input, seed), Tensor::random(&[6, 2, 3, 3], 9)];
            let [n, c, ..] = input;
            let [_, _, p, q] = params.output_shape(&x, &w)?;
            assert_eq!(conv.workspace_bytes(&x, &w, params)?, 4 * (c * 3 * 3) * (n * p * q));
            let in_use = device.memory().in_use;
            let [x_dev, w_dev] = [x.to_device(&device)?, w.to_device(&device)?];
            let output = conv.forward(&stream, &x_dev, &w_dev, None, params)?.into_vec()?;
            drop((x_dev, w_dev));
            // Nothing stays but what the largest matrix so far is larger by.
            let grown = conv.workspace_bytes(&x, &w, params)?.saturating_sub(most);
            most += grown;
            assert_eq!(device.memory().in_use - in_use, grown as u64);
            let expected = reference::conv2d(&x, &w, None, params)?;
            compare(&output, &expected.values, expected.tolerance()).unwrap();
            outputs.push(output);
        }
        assert_eq!(outputs[0], outputs[3]);
        Ok(())
    }
}

#[test]
fn mistakes_in_convolutions_are_found() {
    let new = Conv2dParams::new;
    // Two tiles of each kernel at least, ragged, groups where the step takes them.
    let small = ([2, 4, 6, 18], [18, 2, 3, 2], grouped(2, new(1, 1)));
    let long = ([2, 16, 3, 5], [9, 16, 3, 3], new(1, 1));
    let pointwise = ([3, 35, 5, 5], [66, 35, 1, 1], new(1, 0));
    let mistakes = [
        (
            "a halo overwritten too early",
            step("halo tile"),
            small,
            "        __syncthreads();  // all threads are done with it\n",
            "",
        ),
        (
            "a halo's width and height exchanged",
            step("halo tile"),
            small,
            "r * conv.dilation_y * halo_width",
            "r * conv.dilation_y * halo_height",
        ),
        (
            "the edge of the image",
            step("halo tile"),
            small,
            "column < (unsigned)conv.width;",
            "column <= (unsigned)conv.width;",
        ),
        (
            "the last channels of a group",
            step("registers"),
            small,
            "min(CHANNELS, conv.group_outputs - first_in_group)",
            "CHANNELS",
        ),
        (
            "weights read before they are there",
            step("registers"),
            long,
            "        __syncthreads();  // the weights are complete\n",
            "",
        ),
        (
            "window's row and column exchanged",
            step("im2col"),
            ([1, 2, 6, 7], [2, 2, 3, 2], new(1, 1)),
            "i % window / conv.window_x * conv.dilation_y",
            "i % conv.window_x * conv.dilation_y",
        ),
        (
            "every group with the first's columns",
            step("im2col"),
            small,
            "columns + (size_t)group * conv.taps * conv.pixels",
            "columns",
        ),
        (
            "values overwritten too early",
            step("pointwise"),
            pointwise,
            "        __syncthreads();  // all threads are done with them\n",
            "",
        ),
        ("channels beyond the last", step("pointwise"), pointwise, "pixel_inside && c < channels ?", "pixel_inside ?"),
        (
            "image and output channel exchanged",
            step("pointwise"),
            pointwise,
            "at / conv.plane * conv.out_channels * conv.plane",
            "at / conv.plane * conv.channels * conv.plane",
        ),
    ];
    for (mistake, step, (input, weight, params), right, wrong) in mistakes {
        check(&common::private::sim_for_test(), step, input, weight, params).unwrap().unwrap();
        let step = step.with_source(planted(&step.source, right, wrong));
        must_be_rejected(mistake, |device| check(device, &step, input, weight, params));
    }
}

/// Tile sizes are stated only in the kernel file: edited there, they are launched as edited, with no rebuild.
#[test]
fn tiles_edited_in_a_kernel_file_are_launched_as_edited() {
    let device = common::private::sim_for_test();
    if !planted::compiler(&device, "tiles_edited_in_a_kernel_file_are_launched_as_edited") {
        return;
    }
    let window = ([2, 4, 9, 21], [18, 2, 3, 3], grouped(2, Conv2dParams::new(1, 1)));
    let edits = [
        (step("halo tile"), "TILE = 16;", "TILE = 8;", window),
        (step("registers"), "PIXELS = 4;", "PIXELS = 2;", window),
        (step("registers"), "THREADS = 128;", "THREADS = 64;", window),
        (step("im2col"), "BM = 32, BN = 64;", "BM = 32, BN = 128;", window),
        (step("implicit"), "TILE = 32;", "TILE = 16;", window),
        (
            step("pointwise"),
            "BM = 64, BN = 64, BK = 16;",
            "BM = 32, BN = 64, BK = 16;",
            ([3, 17, 7, 7], [70, 17, 1, 1], Conv2dParams::new(1, 0)),
        ),
    ];
    for (step, right, edited, (input, weight, params)) in edits {
        println!("{}: {edited}", step.name);
        let step = step.with_source(planted(&step.source, right, edited));
        check(&device, &step, input, weight, params).unwrap().unwrap();
    }
}

/// Sizes that the model of times was fitted to must be those of the kernel file.
#[test]
fn a_tile_of_another_size_than_the_model_of_times_has_is_refused_with_both() {
    let device = common::private::sim_for_test();
    if !planted::compiler(&device, "a_tile_of_another_size_than_the_model_of_times_has_is_refused_with_both") {
        return;
    }
    for (step, right, edited, message) in [
        (
            step("tuned tiles"),
            "BM = 32, BN = 64;",
            "BM = 32, BN = 32;",
            "has SmallAsync::BN = 32, but its host side was written for 64; change both",
        ),
        (
            step("Winograd"),
            "TILES = 32;",
            "TILES = 16;",
            "has TILES = 16, but its host side was written for 32; change both",
        ),
        (
            step("Winograd F4"),
            "BM = 64, BN = 64;",
            "BM = 32, BN = 64;",
            "has Square::BM = 32, but its host side was written for 64; change both",
        ),
    ] {
        let error = step.with_source(planted(&step.source, right, edited)).load(&device).unwrap_err();
        assert!(matches!(error, Error::Geometry { .. }), "{error}");
        assert!(error.to_string().ends_with(message), "{error}");
    }
}
