//! Element-wise layers, layers that move values, embeddings and the diffusion step on both devices: against the references, and
//! bit by bit against the CPU where only IEEE operations are used.

use common::device_test;
use common::prelude::*;
use common::reference::DiffusionParams;
use common::testing::planted::{must_be_rejected, planted};
use phase3_all_layers::layers::{
    AddChannel, AddNoise, Concatenate, DiffusionStep, Gelu, Silu, SiluSum, TimestepEmbedding, Upsample,
};
use phase3_all_layers::trials::{
    IMAGES, LENGTHS, PARAMS, add_channel, add_noise, concatenate, diffusion, embedding, gelu, silu, silu_sum, steps,
    upsample,
};

/// Values in (−`most`, `most`).
fn wide(shape: &[usize], seed: u64, most: f32) -> Tensor {
    let values = Tensor::random(shape, seed).into_vec().unwrap();
    Tensor::from_vec(shape, values.into_iter().map(|value| most * value).collect()).unwrap()
}

fn bits(tensor: Tensor) -> Result<Vec<u32>> {
    Ok(tensor.into_vec()?.into_iter().map(f32::to_bits).collect())
}

device_test! {
    fn activations_are_within_rounding(device) {
        let (gelu_layer, silu_layer, sum) = (Gelu::load(&device)?, Silu::load(&device)?, SiluSum::load(&device)?);
        for n in LENGTHS {
            for most in [1.0, 8.0, 100.0] {
                let x = wide(&[n], 5, most);
                gelu(&device, &gelu_layer, &x)?.unwrap();
                silu(&device, &silu_layer, &x)?.unwrap();
            }
            silu_sum(&device, &sum, n)?.unwrap();
        }
        Ok(())
    }

    fn in_place_is_the_same_and_nan_stays(device) {
        let stream = device.stream();
        let mut values = wide(&[1001], 1, 6.0).into_vec()?;
        values[17] = f32::NAN;
        values[1000] = f32::NAN;
        let x = Tensor::from_vec(&[1001], values)?.to_device(&device)?;
        let (gelu, silu) = (Gelu::load(&device)?, Silu::load(&device)?);
        let mut apart = Tensor::empty_on(&device, &[1001])?;
        let (mut by_gelu, mut by_silu) = (x.to_device(&device)?, x.to_device(&device)?);
        gelu.launch(&stream, &x, &mut apart)?;
        gelu.launch_in_place(&stream, &mut by_gelu)?;
        let in_place = by_gelu.into_vec()?;
        assert!(in_place.iter().enumerate().all(|(i, value)| value.is_nan() == (i == 17 || i == 1000)));
        assert_eq!(in_place.iter().map(|value| value.to_bits()).collect::<Vec<_>>(), bits(apart.to_host()?)?);
        silu.launch(&stream, &x, &mut apart)?;
        silu.launch_in_place(&stream, &mut by_silu)?;
        let in_place = by_silu.into_vec()?;
        assert!(in_place.iter().enumerate().all(|(i, value)| value.is_nan() == (i == 17 || i == 1000)));
        assert_eq!(in_place.iter().map(|value| value.to_bits()).collect::<Vec<_>>(), bits(apart)?);
        Ok(())
    }

    fn image_layers_have_the_cpus_bits(device) {
        let (add, join) = (AddChannel::load(&device)?, Concatenate::load(&device)?);
        for shape in IMAGES {
            add_channel(&device, &add, shape)?.unwrap();
            for factor in [1, 2, 3] {
                upsample(&device, &Upsample::SOURCE, shape, factor)?.unwrap();
            }
            for more in [0, 1, 4] {
                concatenate(&device, &join, shape, more)?.unwrap();
            }
        }
        concatenate(&device, &join, [2, 0, 3, 5], 3)?.unwrap();
        Ok(())
    }

    fn embeddings_are_within_rounding(device) {
        for channels in [0, 2, 16, 320] {
            embedding(&device, &TimestepEmbedding::SOURCE, &steps()?, channels)?.unwrap();
        }
        embedding(&device, &TimestepEmbedding::SOURCE, &Tensor::zeros(&[0]), 16)?.unwrap();
        Ok(())
    }

    fn adding_noise_has_the_cpus_bits(device) {
        let layer = AddNoise::load(&device)?;
        for shape in IMAGES {
            for alpha_bar in [0.0, 0.02, 0.9, 1.0] {
                add_noise(&device, &layer, &shape, alpha_bar)?.unwrap();
            }
        }
        let nan = Tensor::full(&[1], f32::NAN).to_device(&device)?;
        let number = Tensor::full(&[1], 1.0).to_device(&device)?;
        for [clean, noise] in [[&nan, &number], [&number, &nan]] {
            let mut y = Tensor::empty_on(&device, &[1])?;
            layer.launch(&device.stream(), clean, noise, 0.5, &mut y)?;
            assert!(y.into_vec()?[0].is_nan());
        }
        let mut y = Tensor::empty_on(&device, &[1])?;
        assert!(layer.launch(&device.stream(), &number, &number, 1.5, &mut y).is_err());
        assert!(layer.launch(&device.stream(), &number, &Tensor::zeros(&[2]).to_device(&device)?, 0.5, &mut y).is_err());
        Ok(())
    }

    fn a_diffusion_step_has_the_cpus_bits(device) {
        let layer = DiffusionStep::load(&device)?;
        for params in PARAMS {
            for shape in [vec![2, 4, 9, 7], vec![1], vec![0, 4, 8, 8], vec![1025]] {
                diffusion(&device, &layer, &shape, params)?.unwrap();
            }
        }
        // A NaN is never hidden, wherever it comes from.
        let (fine, nan) = (Tensor::zeros(&[1]).to_device(&device)?, Tensor::full(&[1], f32::NAN).to_device(&device)?);
        for inputs in [[&nan, &fine, &fine], [&fine, &nan, &fine], [&fine, &fine, &nan]] {
            // The NaN must not be the poison's.
            let mut y = Tensor::empty_on(&device, &[1])?;
            device.stream().memcpy_htod(&[0.5f32], y.buffer_mut()?)?;
            layer.launch(&device.stream(), inputs, PARAMS[0], &mut y)?;
            assert!(y.into_vec()?[0].is_nan());
        }
        Ok(())
    }

    fn shapes_that_do_not_fit_are_refused(device) {
        let stream = device.stream();
        let on = |shape: &[usize]| Tensor::zeros(shape).to_device(&device);
        let (x, mut wrong) = (on(&[2, 3, 4, 5])?, on(&[2, 3, 5, 4])?);
        let message = |result: Result<()>| result.unwrap_err().to_string();
        assert_eq!(
            message(Gelu::load(&device)?.launch(&stream, &x, &mut wrong)),
            "gelu's output: expected the shape [2, 3, 4, 5], got [2, 3, 5, 4]"
        );
        assert!(Silu::load(&device)?.launch(&stream, &x, &mut wrong).is_err());
        assert!(SiluSum::load(&device)?.launch(&stream, &x, &on(&[1])?, &x, &mut on(&[2, 3, 4, 5])?).is_err());
        assert_eq!(
            message(AddChannel::load(&device)?.launch(&stream, &mut wrong, &on(&[3, 2])?)),
            "what is added to channels: expected the shape [2, 3], got [3, 2]"
        );
        assert!(Upsample::load(&device, 2)?.launch(&stream, &x, &mut wrong).is_err());
        assert_eq!(
            message(Upsample::load(&device, 0)?.launch(&stream, &x, &mut wrong)),
            "upsampling: input [2, 3, 4, 5] by a factor of 0"
        );
        let join = Concatenate::load(&device)?;
        assert!(join.launch(&stream, &x, &on(&[2, 3, 5, 4])?, &mut on(&[2, 6, 4, 5])?).is_err());
        assert!(join.launch(&stream, &x, &x, &mut on(&[2, 5, 4, 5])?).is_err());
        assert_eq!(
            TimestepEmbedding::load(&device, 7).unwrap_err().to_string(),
            "timestep embedding: 7 channels: expected an even number, half cosines and half sines"
        );
        let of_four = TimestepEmbedding::load(&device, 4)?;
        assert!(of_four.launch(&stream, &on(&[2])?, &mut on(&[2, 5])?).is_err());
        assert!(of_four.launch(&stream, &on(&[2, 1])?, &mut on(&[2, 4])?).is_err());
        let step = DiffusionStep::load(&device)?;
        assert!(step.launch(&stream, [&x, &x, &on(&[2])?], PARAMS[0], &mut on(&[2, 3, 4, 5])?).is_err());
        let negative = DiffusionParams { threshold: -1.0, ..PARAMS[0] };
        assert!(step.launch(&stream, [&x, &x, &x], negative, &mut on(&[2, 3, 4, 5])?).is_err());
        assert!(Gelu::load(&device)?.launch_in_place(&stream, &mut Tensor::zeros(&[3])).is_err());
        Ok(())
    }
}

#[test]
fn planted_mistakes_in_activations_are_found() {
    for (right, wrong) in [
        ("const float HALF_ROOT = 0.70710678f", "const float HALF_ROOT = 0.7071f"),
        ("1.0f + erff(", "1.0f + tanhf("),
        ("gelu_of(v.x), gelu_of(v.y)", "gelu_of(v.y), gelu_of(v.x)"),
        ("threadIdx.x < n % 4", "threadIdx.x + 1 < n % 4"),
        ("if (i < n / 4) {\n            reinterpret_cast", "if (i <= n / 4) {\n            reinterpret_cast"),
    ] {
        let source = planted(&Gelu::SOURCE, right, wrong);
        must_be_rejected(wrong, |device| gelu(device, &Gelu::load_from(device, &source)?, &wide(&[4097], 5, 8.0)));
    }
    for (right, wrong) in [("expf(-x)", "expf(x)"), ("expf(-x)", "(1.0f - x)"), ("silu_of(v.w));", "v.w);")] {
        let source = planted(&Silu::SOURCE, right, wrong);
        must_be_rejected(wrong, |device| silu(device, &Silu::load_from(device, &source)?, &wide(&[4097], 5, 8.0)));
    }
    for (right, wrong) in [
        ("__fadd_rn(a, __fmul_rn(b, c))", "__fadd_rn(b, __fmul_rn(a, c))"),
        ("blockIdx.x * (VECTORS * THREADS)", "blockIdx.x * (2 * VECTORS * THREADS)"),
        ("unsigned i = n - 1 - threadIdx.x", "unsigned i = threadIdx.x"),
    ] {
        let source = planted(&SiluSum::SOURCE, right, wrong);
        must_be_rejected(wrong, |device| silu_sum(device, &SiluSum::load_from(device, &source)?, 4097));
    }
}

#[test]
fn planted_mistakes_in_image_layers_are_found() {
    for (right, wrong) in [
        ("if (p == plane)", "if (p > plane)"),
        ("unsigned p = 4 * i - q * plane", "unsigned p = 0"),
        ("value + of_plane[i / plane]", "value + of_plane[0]"),
    ] {
        let source = planted(&AddChannel::SOURCE, right, wrong);
        must_be_rejected(wrong, |device| add_channel(device, &AddChannel::load_from(device, &source)?, [3, 5, 3, 5]));
    }
    for (right, wrong) in [
        ("i % across / factor, row", "i % across % width, row"),
        ("i / across % down / factor", "i / across % height"),
        ("i / across / down", "i / across / height"),
    ] {
        let source = planted(&Upsample::SOURCE, right, wrong);
        must_be_rejected(wrong, |device| upsample(device, &source, [2, 3, 5, 7], 2));
    }
    for (right, wrong) in
        [("at < first ?", "at <= first ?"), ("image * second", "image * first"), ("+ at - first", "+ at")]
    {
        let source = planted(&Concatenate::SOURCE, right, wrong);
        must_be_rejected(wrong, |device| {
            concatenate(device, &Concatenate::load_from(device, &source)?, [3, 2, 3, 5], 4)
        });
    }
}

#[test]
fn planted_mistakes_in_embedding_and_diffusion_are_found() {
    for (right, wrong) in [
        ("(float)sin(angle)", "(float)cos(angle)"),
        ("RATE * j / half", "RATE * j / (half - 1)"),
        ("steps[row]", "steps[0]"),
    ] {
        let source = planted(&TimestepEmbedding::SOURCE, right, wrong);
        must_be_rejected(wrong, |device| embedding(device, &source, &steps()?, 16));
    }
    for (right, wrong) in [
        ("__fsub_rn(noisy[i], ", "__fadd_rn(noisy[i], "),
        ("> threshold", "> 2.0f * threshold"),
        ("fabsf(__fsub_rn(x, p))", "__fsub_rn(x, p)"),
        ("__fmul_rn(weight, x), __fmul_rn(previous_weight, p)", "__fmul_rn(previous_weight, x), __fmul_rn(weight, p)"),
        ("x > 1.0f ? 1.0f", "x > 1.5f ? 1.0f"),
    ] {
        let source = planted(&DiffusionStep::SOURCE, right, wrong);
        must_be_rejected(wrong, |device| {
            diffusion(device, &DiffusionStep::load_from(device, &source)?, &[2, 4, 9, 7], PARAMS[0])
        });
    }
    for (right, wrong) in [
        ("__fmul_rn(noise_scale, noise[i])", "__fmul_rn(noise_scale, clean[i])"),
        ("__fadd_rn(", "__fsub_rn("),
        ("if (i < n)", "if (i <= n)"),
    ] {
        let source = planted(&AddNoise::SOURCE, right, wrong);
        must_be_rejected(wrong, |device| {
            add_noise(device, &AddNoise::load_from(device, &source)?, &[2, 4, 9, 7], 0.25)
        });
    }
}
