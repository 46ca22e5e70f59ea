//! Convolutions of 8-bit integers, on both devices, bit by bit against sums in i32 on the host.

use common::check::{Mismatch, Report, Tolerance, compare};
use common::device::SimOptions;
use common::device_test;
use common::prelude::*;
use common::reference::Conv2dParams;
use common::testing::planted::{self, here};
use phase4_fusion::conv::s8::{ConvS8, Finish, SOURCE};

/// Input, filter, stride, padding.
type Case = ([usize; 4], [usize; 4], usize, usize);

/// Ragged against both tiles and against steps of 128 bytes, which one to eight taps fill.
const CASES: [Case; 7] = [
    ([1, 16, 1, 1], [16, 16, 1, 1], 1, 0),
    // The padding is wider than the image.
    ([1, 32, 2, 3], [16, 32, 3, 3], 1, 1),
    ([2, 64, 8, 8], [64, 64, 3, 3], 1, 1),
    // Strides, pixels of three images in a tile, channels that taps of 128 bytes cut.
    ([3, 48, 9, 7], [80, 48, 3, 3], 2, 1),
    ([2, 64, 11, 6], [144, 64, 1, 1], 2, 0),
    ([1, 144, 7, 12], [32, 144, 5, 1], 1, 0),
    ([1, 128, 12, 11], [16, 128, 1, 3], 1, 0),
];

/// A convolution with random bytes, including the largest, and its expected result.
struct Problem {
    x: Tensor,
    w: Tensor,
    residual: Tensor,
    scale: Tensor,
    shift: Tensor,
    params: Conv2dParams,
    output: [usize; 4],
    expected: Vec<f32>,
    to: ElementType,
    with: bool,
    relu: bool,
}

const RESIDUAL_SCALE: f32 = 0.37;

fn bytes(shape: &[usize], seed: u64) -> Tensor {
    let values: Vec<f32> =
        Tensor::random(shape, seed).into_vec().unwrap().iter().map(|value| (value * 128.0).floor()).collect();
    Tensor::from_vec(shape, values).unwrap()
}

/// Sums in i32, then the epilogue as the kernel computes it.
fn problem(device: &Device, case: Case, to: ElementType, [with, relu]: [bool; 2], scale: f32) -> Result<Problem> {
    let (input, filter, stride, padding) = case;
    let params = Conv2dParams::new(stride, padding);
    let (x, w) = (bytes(&input, 1), bytes(&filter, 2));
    let output = params.output_shape(&x, &w)?;
    let ([_, c, h, wide], [k, _, r, s], [_, _, p, q]) = (input, filter, output);
    let residual = bytes(&output, 3);
    let scales =
        Tensor::from_fn(&[k], |at| scale * (1.0 + at[0] as f32 / 64.0) * if at[0] % 5 == 4 { -1.0 } else { 1.0 });
    let shift = Tensor::random(&[k], 4);
    let (x_at, w_at) = (x.as_slice()?.to_vec(), w.as_slice()?.to_vec());
    let of = |at: &[usize]| {
        let mut sum = 0i32;
        for (down, right) in (0..r).flat_map(|down| (0..s).map(move |right| (down, right))) {
            let (y, x) = (at[2] * stride + down, at[3] * stride + right);
            if (padding..h + padding).contains(&y) && (padding..wide + padding).contains(&x) {
                for channel in 0..c {
                    let value = x_at[((at[0] * c + channel) * h + y - padding) * wide + x - padding] as i32;
                    sum += value * w_at[((at[1] * c + channel) * r + down) * s + right] as i32;
                }
            }
        }
        let mut value = (sum as f32).mul_add(scales.as_slice().unwrap()[at[1]], shift.as_slice().unwrap()[at[1]]);
        if with {
            let other = residual.as_slice().unwrap()[((at[0] * k + at[1]) * p + at[2]) * q + at[3]];
            value = other.mul_add(RESIDUAL_SCALE, value);
        }
        if relu { value.max(0.0) } else { value }
    };
    let rounded = |value: f32| match to {
        ElementType::F16 => half::f16::from_f32(value).to_f32(),
        _ => value.round_ties_even().clamp(-128.0, 127.0),
    };
    let expected = Tensor::from_fn(&output, |at| rounded(of(at)));
    let expected = expected.to_format(MemoryFormat::Nhwc)?.to_f64()?.iter().map(|&value| value as f32).collect();
    let there = |tensor: &Tensor| tensor.to_type(ElementType::I8)?.to_format(MemoryFormat::Nhwc)?.to_device(device);
    Ok(Problem {
        x: there(&x)?,
        w: there(&w)?,
        residual: there(&residual)?,
        scale: scales.to_device(device)?,
        shift: shift.to_device(device)?,
        params,
        output,
        expected,
        to,
        with,
        relu,
    })
}

impl Problem {
    fn run(&self, device: &Device, conv: &ConvS8) -> Result<Result<Report, Mismatch>> {
        let mut y = Tensor::empty_of(device, &self.output, self.to, MemoryFormat::Nhwc)?;
        let residual = self.with.then_some((&self.residual, RESIDUAL_SCALE));
        let finish = Finish { scale: &self.scale, shift: &self.shift, residual, relu: self.relu };
        conv.launch(&device.stream(), [&self.x, &self.w], self.params, &finish, &mut y)?;
        let found: Vec<f32> = y.to_f64()?.iter().map(|&value| value as f32).collect();
        let expected: Vec<f64> = self.expected.iter().map(|&value| f64::from(value)).collect();
        Ok(compare(&found, &expected, Tolerance { absolute: 0.0, relative: 0.0 }))
    }
}

device_test! {
    fn every_tile_gives_the_bytes_of_the_host(device) {
        let Some(conv) = here(&device, ConvS8::load(&device))? else { return Ok(()) };
        for (at, case) in CASES.into_iter().enumerate() {
            // Sums of about 70² √depth: a scale at which most are within the bytes, and one at which most are beyond.
            let scale = if at % 3 == 1 { 0.5 } else { 0.0005 };
            let to = if at % 2 == 0 { ElementType::I8 } else { ElementType::F16 };
            let problem = problem(&device, case, to, [at % 3 != 0, at % 4 > 1], scale)?;
            for tile in conv.tiles() {
                println!("{case:?} {tile} {to}");
                problem.run(&device, &conv.with_tile(tile).unwrap())?.unwrap_or_else(|wrong| panic!("{wrong}"));
            }
            problem.run(&device, &conv)?.unwrap_or_else(|wrong| panic!("{wrong}"));
        }
        Ok(())
    }

    /// One product of 1 in each sum, so that only the shift is rounded.
    fn halves_are_rounded_to_the_even_and_what_is_too_large_is_cut_off(device) {
        let Some(conv) = here(&device, ConvS8::load(&device))? else { return Ok(()) };
        let values = [
            0.5, 1.5, 2.5, -0.5, -1.5, -2.5, 126.5, 127.5, 128.0, 1e9, -127.5, -128.5, -129.0, -1e9, f32::INFINITY, -0.49,
        ];
        let bytes = [0, 2, 2, 0, -2, -2, 126, 127, 127, 127, -128, -128, -128, -128, 127, 0];
        let zeros = |shape: &[usize]| -> Result<Tensor> {
            Tensor::zeros(shape).to_type(ElementType::I8)?.to_format(MemoryFormat::Nhwc)?.to_device(&device)
        };
        let (x, w) = (zeros(&[1, 16, 1, 1])?, zeros(&[16, 16, 1, 1])?);
        let (scale, shift) = (Tensor::zeros(&[16]).to_device(&device)?, Tensor::from_vec(&[16], values.to_vec())?.to_device(&device)?);
        let mut y = Tensor::empty_of(&device, &[1, 16, 1, 1], ElementType::I8, MemoryFormat::Nhwc)?;
        let finish = Finish { scale: &scale, shift: &shift, residual: None, relu: false };
        conv.launch(&device.stream(), [&x, &w], Conv2dParams::new(1, 0), &finish, &mut y)?;
        assert_eq!(y.to_f64()?, bytes.map(f64::from));

        // The same by the conversion, in units of a quarter; 1e9 is beyond f16 and cut off too.
        let quarters: Vec<f32> = values.iter().map(|value| value / 4.0).collect();
        let x = Tensor::from_vec(&[1, 16, 1, 1], quarters)?.to_type(ElementType::F16)?.to_format(MemoryFormat::Nhwc)?;
        let mut y = Tensor::empty_of(&device, &[1, 16, 1, 1], ElementType::I8, MemoryFormat::Nhwc)?;
        conv.quantize(&device.stream(), &x.to_device(&device)?, 0.25, &mut y)?;
        assert_eq!(y.to_f64()?, bytes.map(f64::from));
        Ok(())
    }

    fn what_the_kernels_do_not_take_is_refused_with_the_reason(device) {
        let Some(conv) = here(&device, ConvS8::load(&device))? else { return Ok(()) };
        let refused = |x: [usize; 4], w: [usize; 4], params: Conv2dParams| -> Result<String> {
            let there = |shape: &[usize]| -> Result<Tensor> {
                bytes(shape, 1).to_type(ElementType::I8)?.to_format(MemoryFormat::Nhwc)?.to_device(&device)
            };
            let (x, w, ones) = (there(&x)?, there(&w)?, Tensor::random(&[w[0]], 1).to_device(&device)?);
            let mut y = there(&params.output_shape(&x, &w)?)?;
            let finish = Finish { scale: &ones, shift: &ones, residual: None, relu: false };
            let error = conv.launch(&device.stream(), [&x, &w], params, &finish, &mut y).unwrap_err();
            assert!(error.is_unsupported(), "{error}");
            Ok(error.to_string())
        };
        let plain = Conv2dParams::new(1, 1);
        assert!(refused([1, 8, 4, 4], [16, 8, 3, 3], plain)?.ends_with("so C and K must be multiples of 16"));
        assert!(refused([1, 16, 4, 4], [24, 16, 3, 3], plain)?.ends_with("so C and K must be multiples of 16"));
        assert!(refused([1, 16, 8, 8], [16, 16, 3, 3], Conv2dParams { dilation: [2, 2], ..plain })?.ends_with("no dilation"));
        assert!(refused([1, 16, 8, 8], [16, 16, 3, 3], Conv2dParams { stride: [1, 2], ..plain })?.contains("one stride"));
        Ok(())
    }
}

#[test]
fn no_rule_is_broken_in_any_tile() {
    let device = Device::sim_with(SimOptions { sanitize: true, ..SimOptions::default() });
    let conv = ConvS8::load(&device).unwrap();
    let problem = problem(&device, CASES[3], ElementType::I8, [true, true], 0.0005).unwrap();
    for tile in conv.tiles() {
        problem.run(&device, &conv.with_tile(tile).unwrap()).unwrap().unwrap();
    }
}

/// The text of the kernel, and the mistake that replaces it.
const PLANTED: [(&str, &str); 8] = [
    // The padding is forgotten.
    (
        "(pixel - line * layer.outputs_x) * layer.stride - layer.padding",
        "(pixel - line * layer.outputs_x) * layer.stride",
    ),
    // A window's last line is met beyond the image.
    ("(unsigned)(at.y + down) < (unsigned)layer.height && ", ""),
    // The last step goes on with what follows in memory.
    ("bool whole = along < layer.depth;", "bool whole = true;"),
    // Taps are not counted on.
    ("            channel += ROW_BYTES;\n", ""),
    // A step is read before it is there.
    ("copy_groups_arrived<Shape::STAGES - 2>();", "copy_groups_arrived<Shape::STAGES - 1>();"),
    // It is read before the other threads' copies are there.
    ("        __syncthreads();  // this step is there, and nobody reads the one before it any more\n", ""),
    // Toward zero, and not cut off.
    ("cvt.rni.sat.s8.f32", "cvt.rzi.s32.f32"),
    // The residual has the units of the result.
    ("fmaf((float)two.y, layer.residual_scale, next)", "(float)two.y + next"),
];

#[test]
fn planted_mistakes_are_found() {
    for (right, wrong) in PLANTED {
        planted::must_be_rejected(right, |device| {
            let source = planted::planted(&SOURCE, right, wrong);
            let conv = ConvS8::load_from(device, &source)?.with_tile("Small").unwrap();
            problem(device, CASES[3], ElementType::I8, [true, false], 0.0005)?.run(device, &conv)
        });
    }
}
