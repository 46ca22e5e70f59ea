//! Epilogues of convolutions: every kernel with the whole epilogue, and those that refuse it.

use common::check::{Mismatch, Report, Tolerance, compare};
use common::device_test;
use common::prelude::*;
use common::reference::{self, Conv2dParams};
use common::testing::planted::{here, must_be_rejected, planted};
use phase2_conv_bn::conv::{self, Conv, Tuned, step16_tuned, step17_winograd, step19_winograd_4x4};
use phase2_conv_bn::gemm::Epilogue;

/// Several output channels and tiles, ragged; an image by 16 bytes, by 8 and one by one. No product is exact.
const SHAPES: [([usize; 4], [usize; 4]); 3] =
    [([2, 9, 8, 8], [70, 9, 3, 3]), ([1, 17, 5, 6], [5, 17, 3, 3]), ([3, 8, 7, 5], [6, 8, 3, 3])];

#[derive(Clone, Copy, Debug)]
struct Wanted {
    bias: bool,
    alpha: f32,
    beta: f32,
    relu: bool,
}

/// A residual block's end, its parts one by one, and scalars that no network has.
const WANTED: [Wanted; 4] = [
    Wanted { bias: true, alpha: 1.0, beta: 1.0, relu: true },
    Wanted { bias: false, alpha: 1.0, beta: 1.0, relu: false },
    Wanted { bias: true, alpha: 1.0, beta: 0.0, relu: true },
    Wanted { bias: true, alpha: -0.5, beta: 0.75, relu: false },
];

struct Problem {
    params: Conv2dParams,
    x: Tensor,
    w: Tensor,
    b: Tensor,
    before: Tensor,
    expected: Vec<f64>,
    wanted: Wanted,
    /// Expected values for a step whose sums have this tolerance.
    tolerance: Tolerance,
}

impl Problem {
    /// `sums`: tolerance of the step's sums, from its number of input channels.
    fn new(device: &Device, (input, weight): ([usize; 4], [usize; 4]), wanted: Wanted, sums: Tolerance) -> Problem {
        let params = Conv2dParams::new(1, 1);
        let (x, w) = (Tensor::random(&input, 1), Tensor::random(&weight, 2));
        let (b, before) = (Tensor::random(&weight[..1], 3), Tensor::random(&params.output_shape(&x, &w).unwrap(), 4));
        let products = reference::conv2d(&x, &w, None, params).unwrap();
        let plane = input[2] * input[3];
        let value = |(at, sum): (usize, &f64)| {
            let bias = if wanted.bias { f64::from(b.as_slice().unwrap()[at / plane % weight[0]]) } else { 0.0 };
            let old = f64::from(before.as_slice().unwrap()[at]);
            let value = f64::from(wanted.alpha) * sum + bias + f64::from(wanted.beta) * old;
            if wanted.relu { value.max(0.0) } else { value }
        };
        let expected = products.values.iter().enumerate().map(value).collect();
        // Four roundings of values that are no larger than the sum of all.
        let epilogue = Tolerance::elementwise(4, products.magnitude + 2.0);
        let tolerance = Tolerance::absolute(sums.at(1.0).max(products.tolerance().at(1.0)) + epilogue.at(1.0));
        let there = |tensor: Tensor| tensor.to_device(device).unwrap();
        Problem { params, x: there(x), w: there(w), b: there(b), before, expected, wanted, tolerance }
    }

    fn epilogue(&self) -> Epilogue<'_> {
        let Wanted { bias, alpha, beta, relu } = self.wanted;
        Epilogue { alpha, beta, bias: bias.then_some(&self.b), relu }
    }

    /// Values that the sums are added to; NaN if they are added to nothing.
    fn output(&self, device: &Device) -> Result<Tensor> {
        if self.wanted.beta == 0.0 {
            return Tensor::full(self.before.shape(), f32::NAN).to_device(device);
        }
        self.before.to_device(device)
    }

    fn check(&self, device: &Device, conv: &Conv) -> Result<Result<Report, Mismatch>> {
        let mut y = self.output(device)?;
        conv.launch_with(&device.stream(), &self.x, &self.w, &self.epilogue(), self.params, &mut y)?;
        Ok(compare(&y.into_vec()?, &self.expected, self.tolerance))
    }
}

fn winograd_tolerances(channels: usize) -> [Tolerance; 2] {
    [step17_winograd::tolerance(channels, 1.0, 1.0, 1.0), step19_winograd_4x4::tolerance(channels, 1.0, 1.0, 1.0)]
}

device_test! {
    fn every_tile_does_the_whole_epilogue(device) {
        let (tiled, four) = (&step16_tuned::STEP.source, &step19_winograd_4x4::STEP.source);
        let mut convs = Vec::new();
        for cuts in [1, 3] {
            for tile in step16_tuned::TILES {
                convs.push((0, here(&device, step16_tuned::load_with(&device, tiled, tile, cuts))?));
            }
            let source = &step17_winograd::STEP.source;
            convs.push((1, here(&device, step17_winograd::load_with(&device, source, cuts))?));
            // The output's kernel is the same for all tiles.
            let tile = step19_winograd_4x4::TILES[1];
            convs.push((2, here(&device, step19_winograd_4x4::load_with(&device, four, tile, cuts, 33))?));
        }
        for shape in SHAPES {
            let [two, four] = winograd_tolerances(shape.0[1]);
            for wanted in WANTED {
                let problems = [Tolerance::absolute(0.0), two, four].map(|sums| Problem::new(&device, shape, wanted, sums));
                for (kind, conv) in &convs {
                    let Some(conv) = conv else { continue };
                    let report = problems[*kind].check(&device, conv)?;
                    assert!(report.is_ok(), "{} {shape:?} {wanted:?}: {}", conv.name(), report.unwrap_err());
                }
            }
        }
        Ok(())
    }

    fn the_choice_does_it_with_prepared_weights_too(device) {
        let (stream, tuned) = (device.stream(), Tuned::load(&device)?);
        for shape in SHAPES {
            let problem = Problem::new(&device, shape, WANTED[0], winograd_tolerances(shape.0[1])[1]);
            let Problem { params, x, w, .. } = &problem;
            if here(&device, tuned.choice(&stream, x, w, *params, true))?.is_none() {
                return Ok(());
            }
            let prepared = tuned.prepare(&stream, w, *params)?;
            for prepared in [None, prepared.as_ref()] {
                let mut y = problem.output(&device)?;
                tuned.launch_prepared(&stream, x, w, prepared, &problem.epilogue(), *params, &mut y)?;
                let report = compare(&y.into_vec()?, &problem.expected, problem.tolerance);
                assert!(report.is_ok(), "{shape:?}: {}", report.unwrap_err());
            }
        }
        Ok(())
    }

    fn steps_with_a_bias_alone_refuse_more_with_the_reason(device) {
        let problem = Problem::new(&device, SHAPES[1], WANTED[2], Tolerance::absolute(0.0));
        let error = problem.check(&device, &conv::step01_direct::STEP.load(&device)?).unwrap_err();
        assert!(error.is_unsupported());
        assert!(error.to_string().ends_with(": its epilogue is a bias alone"), "{error}");
        // So does the choice, for a window that only such a step takes.
        let tuned = Tuned::load(&device)?;
        let (x, w) = (Tensor::zeros(&[1, 1, 20, 20]).to_device(&device)?, Tensor::zeros(&[1, 1, 17, 17]).to_device(&device)?);
        let params = Conv2dParams::new(1, 0);
        let mut y = Tensor::empty_on(&device, &[1, 1, 4, 4])?;
        let relu = Epilogue { relu: true, ..Epilogue::default() };
        let error = tuned.launch_prepared(&device.stream(), &x, &w, None, &relu, params, &mut y).unwrap_err();
        assert!(error.is_unsupported(), "{error}");
        assert!(tuned.choice(&device.stream(), &x, &w, params, true).unwrap_err().is_unsupported());
        Ok(())
    }
}

#[test]
fn mistakes_in_the_epilogue_are_found() {
    let (four, two, one) = (SHAPES[0], SHAPES[1], SHAPES[2]);
    let [block, added, relu, _] = WANTED;
    let mistakes = [
        (
            "what was there before is read for nothing",
            16,
            four,
            relu,
            "float4 old = beta != 0.0f ? *place : float4();",
            "float4 old = *place;",
        ),
        ("one by one: the same", 17, one, relu, "beta != 0.0f ? *place : 0.0f", "*place"),
        (
            "two by two: a neighbour's residual",
            17,
            two,
            added,
            "apply(sum.y, bias.y, old.y));\n    }\n\n    // Four",
            "apply(sum.y, bias.y, old.x));\n    }\n\n    // Four",
        ),
        ("no floor", 19, four, block, "return value < floor ? floor : value;", "return value;"),
        (
            "a block's part is finished in place of the sum of all",
            16,
            four,
            block,
            "        if (gridDim.y > 1 && !add_parts<THREADS>(parts, arrived, fours)) {",
            "        if (gridDim.y > 1 && !add_parts<THREADS>(parts, arrived, fours) && blockIdx.y) {",
        ),
        (
            "the row below is added to twice",
            17,
            two,
            block,
            "float2 *next = reinterpret_cast<float2 *>(to + conv.out_width);",
            "float2 *next = reinterpret_cast<float2 *>(to);",
        ),
        (
            "rows of the output one apart",
            19,
            four,
            added,
            "        to += conv.out_width;\n",
            "        to += conv.out_width - 1;\n",
        ),
        ("the bias of another channel", 16, one, block, "bias_at(bias, k)", "bias_at(bias, k ^ 1)"),
    ];
    for (mistake, step, shape, wanted, right, wrong) in mistakes {
        let load = |device: &Device, source: Option<&KernelSource>| match step {
            16 => step16_tuned::load_with(device, source.unwrap_or(&step16_tuned::STEP.source), "64x64", 2),
            17 => step17_winograd::load_with(device, source.unwrap_or(&step17_winograd::STEP.source), 2),
            _ => step19_winograd_4x4::load_with(
                device,
                source.unwrap_or(&step19_winograd_4x4::STEP.source),
                "64x64",
                1,
                33,
            ),
        };
        let source = match step {
            16 => &step16_tuned::STEP.source,
            17 => &step17_winograd::STEP.source,
            _ => &step19_winograd_4x4::STEP.source,
        };
        let sums = winograd_tolerances(shape.0[1])[1];
        let device = common::private::sim_for_test();
        Problem::new(&device, shape, wanted, sums).check(&device, &load(&device, None).unwrap()).unwrap().unwrap();
        let source = planted(source, right, wrong);
        must_be_rejected(mistake, |device| {
            Problem::new(device, shape, wanted, sums).check(device, &load(device, Some(&source))?)
        });
    }
}
