//! Tensors of every element type and format, on both devices.

use common::device_test;
use common::prelude::*;
use common::tensor::{Element, F8E4M3, bf16, f16};

use ElementType::{BF16, F8E4M3 as F8, F16, F32, I8, I32};
use MemoryFormat::{Nchw, Nhwc};

const SCALE_ADD: KernelSource = kernel_source!("tests/kernels", "scale_add");

/// Copied to the device, within it, and back; `bits` so that NaNs are compared too.
fn moves<T: Element>(device: &Device, values: &[T]) -> Result<()> {
    let bits = |values: &[T]| bytemuck::cast_slice::<T, u8>(values).to_vec();
    for len in [0, 1, 2, 3, 255, values.len()] {
        let part = &values[..len.min(values.len())];
        let host = Tensor::of(&[part.len()], part.to_vec())?;
        assert_eq!((host.element_type(), host.num_bytes()), (T::TYPE, size_of_val(part)));
        let there = host.to_device(device)?;
        assert_eq!((there.element_type(), there.num_bytes()), (T::TYPE, size_of_val(part)));
        assert_eq!(there.buffer_of::<T>(Nchw)?.len(), part.len());
        let again = there.to_device(device)?.to_device(&Device::sim())?.to_device(device)?;
        assert_eq!(bits(again.to_host()?.values(Nchw)?), bits(part));
        let mut copy = Tensor::empty_of(device, &[part.len()], T::TYPE, Nchw)?;
        there.copy_to(&device.stream(), &mut copy)?;
        assert_eq!(bits(&copy.into_values(Nchw)?), bits(part));
        assert_eq!(bits(&there.into_values(Nchw)?), bits(part));
    }
    Ok(())
}

fn images(shape: [usize; 4]) -> Tensor {
    let [_, c, h, w] = shape;
    Tensor::from_fn(&shape, |i| (((i[0] * c + i[1]) * h + i[2]) * w + i[3]) as f32)
}

device_test! {
    fn values_of_every_element_type_move(device) {
        moves(&device, &(0..=u16::MAX).map(f16::from_bits).collect::<Vec<_>>())?;
        moves(&device, &(0..=u16::MAX).map(bf16::from_bits).collect::<Vec<_>>())?;
        moves(&device, &(0..=u8::MAX).map(F8E4M3::from_bits).collect::<Vec<_>>())?;
        moves(&device, &(i8::MIN..=i8::MAX).collect::<Vec<_>>())?;
        moves(&device, &(0..1001).map(|i| i * 2_000_003 - (1 << 30)).collect::<Vec<i32>>())?;
        moves(&device, Tensor::random(&[1001], 5).as_slice()?)
    }

    fn a_copy_goes_to_a_tensor_of_the_same_kind(device) {
        let stream = device.stream();
        let from = Tensor::empty_of(&device, &[1, 2, 3, 4], F16, Nhwc)?;
        for (shape, element, format, expected) in [
            ([1, 2, 4, 3], F16, Nhwc, "copying a tensor: expected the shape [1, 2, 3, 4], got [1, 2, 4, 3]"),
            ([1, 2, 3, 4], BF16, Nhwc, "the tensor [1, 2, 3, 4]: expected f16, got bf16"),
            ([1, 2, 3, 4], F16, Nchw, "the tensor [1, 2, 3, 4]: expected NHWC, got NCHW"),
        ] {
            let mut to = Tensor::empty_of(&device, &shape, element, format)?;
            assert_eq!(from.copy_to(&stream, &mut to).unwrap_err().to_string(), expected);
        }
        let mut on_host = Tensor::zeros(&[1, 2, 3, 4]).to_type(F16)?.to_format(Nhwc)?;
        assert!(matches!(from.copy_to(&stream, &mut on_host), Err(Error::Invalid(_))));
        Ok(())
    }

    fn an_empty_tensor_of_every_type_is_poisoned(device) {
        for &element in ElementType::ALL {
            for format in [Nchw, Nhwc] {
                let tensor = Tensor::empty_of(&device, &[2, 3, 5, 7], element, format)?;
                assert_eq!((tensor.element_type(), tensor.format(), tensor.shape()), (element, format, &[2, 3, 5, 7][..]));
                assert_eq!(tensor.num_bytes(), 210 * element.size());
                let values = tensor.to_host()?.to_type(F32)?;
                let poison = |v: &f32| if matches!(element, I8 | I32) { *v == -1.0 } else { v.is_nan() };
                assert!(values.values::<f32>(format)?.iter().all(poison), "{element} {format}");
            }
        }
        Ok(())
    }

    fn kernels_take_buffers_of_any_type(device) {
        let stream = device.stream();
        let kernel = device.kernel(&SCALE_ADD, "increment")?;
        let mut counters = Tensor::of(&[2, 3], vec![-2i32, -1, 0, 1, 2, i32::MAX - 1])?.to_device(&device)?;
        let mut launch = stream.launch_builder(&kernel);
        launch.arg(counters.buffer_of_mut::<i32>(Nchw)?).arg(&6u32);
        // SAFETY: the kernel adds 1 to each of 6 values.
        unsafe { launch.launch(LaunchConfig::linear(6, 32))? };
        assert_eq!(counters.into_values::<i32>(Nchw)?, [-1, 0, 1, 2, 3, i32::MAX]);
        Ok(())
    }

    fn channels_last_moves_as_it_lies(device) {
        for shape in [[2, 3, 5, 7], [1, 1, 4, 4], [3, 8, 1, 1], [1, 5, 1, 9], [0, 3, 2, 2], [2, 0, 3, 3], [2, 3, 0, 3]] {
            let planes = images(shape);
            let pixels = planes.to_type(F16)?.to_format(Nhwc)?.to_device(&device)?;
            assert_eq!((pixels.shape(), pixels.format()), (&shape[..], Nhwc));
            let lying = pixels.to_host()?;
            let [n, c, h, w] = shape;
            let expected = Tensor::from_fn(&[n, h, w, c], |i| planes_at(shape, [i[0], i[3], i[1], i[2]]));
            let expected: Vec<_> = expected.as_slice()?.iter().map(|&v| f16::from_f32(v)).collect();
            assert_eq!(lying.values::<f16>(Nhwc)?, expected);
            let back = lying.to_format(Nchw)?.to_type(F32)?;
            assert_eq!((back.shape(), back.as_slice()?), (&shape[..], planes.as_slice()?));
        }
        Ok(())
    }

    fn what_expects_another_type_or_format_is_refused(device) {
        let host = images([1, 2, 2, 2]).to_type(F16)?;
        let message = |error: Error| error.to_string();
        for tensor in [host.to_format(Nchw)?, host.to_device(&device)?] {
            let expected = "the tensor [1, 2, 2, 2]: expected f32, got f16";
            assert_eq!(message(tensor.as_slice().map(drop).unwrap_err()), expected);
            assert_eq!(message(tensor.buffer().map(drop).unwrap_err()), expected);
            assert_eq!(message(tensor.into_vec().unwrap_err()), expected);
        }
        for mut tensor in [images([1, 2, 2, 2]).to_format(Nhwc)?, images([1, 2, 2, 2]).to_format(Nhwc)?.to_device(&device)?] {
            let expected = "the tensor [1, 2, 2, 2]: expected NCHW, got NHWC";
            let errors = [
                tensor.as_slice().map(drop).unwrap_err(),
                tensor.as_mut_slice().map(drop).unwrap_err(),
                tensor.buffer().map(drop).unwrap_err(),
                tensor.buffer_mut().map(drop).unwrap_err(),
                tensor.buffer_of::<f32>(Nchw).map(drop).unwrap_err(),
            ];
            for error in errors {
                assert!(matches!(error, Error::MemoryFormat { expected: Nchw, got: Nhwc, .. }), "{error}");
                assert_eq!(error.to_string(), expected);
            }
            assert_eq!(message(tensor.reshape(&[8]).unwrap_err()), expected);
        }
        // Images of one pixel are rows, and can be other rows; not a matrix, since that is NCHW.
        let rows = images([2, 4, 1, 1]);
        let row = rows.to_format(Nhwc)?.reshape(&[1, 8, 1, 1])?;
        assert_eq!((row.format(), row.shape()), (Nhwc, &[1, 8, 1, 1][..]));
        assert_eq!(row.to_format(Nchw)?.as_slice()?, rows.as_slice()?);
        assert!(matches!(row.reshape(&[1, 8]), Err(Error::MemoryFormat { .. })));
        let error = Tensor::empty_of(&device, &[2, 3], F32, Nhwc).unwrap_err();
        assert_eq!(message(error), "a tensor in NHWC: expected 4 dimensions, got shape [2, 3]");
        assert!(matches!(host.to_device(&device)?.to_type(F32), Err(Error::Invalid(_))));
        Ok(())
    }

    fn memory_is_recycled_by_bytes(device) {
        let memory = Tensor::empty_on(&device, &[100])?;
        let in_use = device.memory().in_use;
        let halves = memory.recycle_of(&[1, 4, 5, 10], F16, Nhwc)?;
        assert_eq!((halves.len(), halves.num_bytes(), halves.format()), (200, 400, Nhwc));
        assert_eq!(halves.buffer_of::<f16>(Nhwc)?.len(), 200);
        let bytes = halves.recycle_of(&[400], F8, Nchw)?;
        let fewer = bytes.recycle(&[7])?;
        assert_eq!((fewer.element_type(), fewer.num_bytes()), (F8, 7));
        let all = fewer.recycle_of(&[10, 10], F32, Nchw)?;
        assert_eq!((all.buffer()?.len(), device.memory().in_use), (100, in_use));
        let error = all.recycle_of(&[201], BF16, Nchw).unwrap_err();
        assert_eq!(error.to_string(), "recycling a buffer: 402 bytes do not fit the 400 that were allocated");
        assert!(Tensor::zeros(&[4]).recycle(&[4]).is_err());
        Ok(())
    }
}

fn planes_at([_, c, h, w]: [usize; 4], at: [usize; 4]) -> f32 {
    (((at[0] * c + at[1]) * h + at[2]) * w + at[3]) as f32
}

#[test]
fn every_f16_code_survives_f32_and_every_e4m3_code_f16() {
    let codes: Vec<f16> = (0..=u16::MAX).map(f16::from_bits).collect();
    let back = Tensor::of(&[codes.len()], codes.clone()).unwrap().to_type(F32).unwrap().to_type(F16).unwrap();
    for (code, back) in codes.iter().zip(back.values::<f16>(Nchw).unwrap()) {
        assert!(code.to_bits() == back.to_bits() || code.is_nan() && back.is_nan(), "{code:?} became {back:?}");
    }
    let codes: Vec<F8E4M3> = (0..=u8::MAX).map(F8E4M3::from_bits).collect();
    for through in [F16, BF16, F32] {
        let wide = Tensor::of(&[256], codes.clone()).unwrap().to_type(through).unwrap();
        let back = wide.to_type(F8).unwrap();
        for (code, back) in codes.iter().zip(back.values::<F8E4M3>(Nchw).unwrap()) {
            let (code, back) = (code.to_bits(), back.to_bits());
            assert!(
                code == back || code & 0x7F == 0x7F && back == 0x7F,
                "{code:#x} became {back:#x} through {through}"
            );
        }
    }
}

#[test]
fn conversions_round_to_nearest_even_and_saturate_where_there_is_no_infinity() {
    let x = [
        0.5f32,
        1.5,
        2.5,
        -0.5,
        -2.5,
        127.4,
        127.5,
        -128.5,
        300.0,
        -1e9,
        1e30,
        f32::INFINITY,
        f32::NAN,
        448.0,
        464.0,
        65520.0,
    ];
    let x = Tensor::from_vec(&[x.len()], x.to_vec()).unwrap();
    let to = |element| x.to_type(element).unwrap();
    assert_eq!(
        to(I8).values::<i8>(Nchw).unwrap(),
        [0, 2, 2, 0, -2, 127, 127, -128, 127, -128, 127, 127, 0, 127, 127, 127]
    );
    let i32s = [0, 2, 2, 0, -2, 127, 128, -128, 300, -1_000_000_000, i32::MAX, i32::MAX, 0, 448, 464, 65520];
    assert_eq!(to(I32).values::<i32>(Nchw).unwrap(), i32s);
    let codes =
        |tensor: &Tensor| tensor.values::<F8E4M3>(Nchw).unwrap().iter().map(|v| v.to_bits()).collect::<Vec<_>>();
    assert_eq!(codes(&to(F8))[8..], [0x79, 0xFE, 0x7E, 0x7E, 0x7F, 0x7E, 0x7E, 0x7E]);
    assert_eq!(to(F16).values::<f16>(Nchw).unwrap()[15], f16::INFINITY);
    // Just above the middle between two values of bf16: rounded by way of f32, it would be at the middle.
    let large = Tensor::of(&[1], vec![(1i32 << 30) + (1 << 22) + 1]).unwrap().to_type(BF16).unwrap();
    assert_eq!(large.values::<bf16>(Nchw).unwrap()[0].to_f32(), ((1i64 << 30) + (1 << 23)) as f32);
}

#[test]
fn sixteen_bits_are_rounded_once_and_to_even_at_the_middle() {
    /// Between each pair of neighbours among positive finite values, which their codes put in order.
    fn check<T: Element>(of: impl Fn(u16) -> T, bits: impl Fn(T) -> u16) {
        let last = (0..u16::MAX).find(|&code| of(code + 1).to_f64().is_infinite()).unwrap();
        for code in 0..last {
            let (low, high) = (of(code).to_f64(), of(code + 1).to_f64());
            let middle = (low + high) / 2.0;
            let nearest = [
                (middle.next_down(), code),
                (middle, code + (code & 1)),
                (middle.next_up(), code + 1),
                (high, code + 1),
            ];
            for (x, expected) in nearest {
                assert_eq!(bits(T::from_f64(x)), expected, "{x} to {}", T::TYPE);
                assert_eq!(bits(T::from_f64(-x)), expected | 0x8000, "-{x} to {}", T::TYPE);
            }
        }
        let largest = of(last).to_f64();
        let half_step = (largest - of(last - 1).to_f64()) / 2.0;
        assert_eq!(T::from_f64((largest + half_step).next_down()), of(last));
        for x in [largest + half_step, f64::MAX, f64::INFINITY] {
            assert_eq!(T::from_f64(x), of(last + 1));
        }
        assert!(T::from_f64(f64::NAN).to_f64().is_nan());
    }
    check(f16::from_bits, f16::to_bits);
    check(bf16::from_bits, bf16::to_bits);
}

#[test]
fn a_shape_alone_has_a_type_and_no_values() {
    let shape = Tensor::shape_only_of(&[2, 3, 4, 5], F8, Nhwc).unwrap();
    assert_eq!((shape.element_type(), shape.format(), shape.num_bytes()), (F8, Nhwc, 120));
    let error = shape.values::<F8E4M3>(Nhwc).map(drop).unwrap_err().to_string();
    assert_eq!(error, "the tensor [2, 3, 4, 5] is a shape without values");
    assert!(Tensor::shape_only_of(&[2, 3], F8, Nhwc).is_err());
    let plain = Tensor::shape_only(&[2, 3]);
    assert_eq!((plain.element_type(), plain.format(), plain.num_bytes()), (F32, Nchw, 24));
}
