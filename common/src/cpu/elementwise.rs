//! Element-wise layers, and layers that only move values.

use super::PART;
use crate::Tensor;
use crate::error::{Error, Result};
use crate::parallel;
use crate::reference::{self, DiffusionParams};

/// 0.5·x·(1 + erf(x/√2)) over the values of `x`, like [`reference::gelu`].
///
/// # Errors
/// [`Error::Invalid`] if the tensor is on a device.
pub fn gelu_in_place(x: &mut Tensor) -> Result<()> {
    let gelu = |x: f32| 0.5 * x * (1.0 + libm::erff(x * std::f32::consts::FRAC_1_SQRT_2));
    change(x, gelu)
}

/// x/(1 + e^(−x)) over the values of `x`, like [`reference::silu`].
///
/// # Errors
/// [`Error::Invalid`] if the tensor is on a device.
pub fn silu_in_place(x: &mut Tensor) -> Result<()> {
    change(x, silu)
}

fn silu(x: f32) -> f32 {
    x / (1.0 + (-x).exp())
}

/// Applies a function to each value of `x` in place.
pub(super) fn change(x: &mut Tensor, of: impl Fn(f32) -> f32 + Sync) -> Result<()> {
    parallel::change_chunks(x.as_mut_slice()?, PART, &|_, part| part.iter_mut().for_each(|value| *value = of(*value)));
    Ok(())
}

/// silu(a + b·c), like [`reference::silu_sum`].
///
/// # Errors
/// Same as there.
pub fn silu_sum(a: &Tensor, b: &Tensor, c: &Tensor) -> Result<Tensor> {
    b.expect_shape("silu(a + b·c)'s b", a.shape())?;
    c.expect_shape("silu(a + b·c)'s c", a.shape())?;
    let (b, c, mut y) = (b.as_slice()?, c.as_slice()?, a.as_slice()?.to_vec());
    parallel::change_chunks(&mut y, PART, &|at, part| {
        let others = b[at * PART..].iter().zip(&c[at * PART..]);
        part.iter_mut().zip(others).for_each(|(y, (b, c))| *y = silu(*y + b * c));
    });
    Tensor::from_vec(a.shape(), y)
}

/// `y` += `x`.
///
/// # Errors
/// [`Error::Shape`] if the shapes differ, [`Error::Invalid`] if a tensor is on a device.
pub fn add_in_place(y: &mut Tensor, x: &Tensor) -> Result<()> {
    x.expect_shape("what is added", y.shape())?;
    let values = x.as_slice()?;
    parallel::change_chunks(y.as_mut_slice()?, PART, &|at, part| {
        part.iter_mut().zip(&values[at * PART..]).for_each(|(y, x)| *y += x);
    });
    Ok(())
}

/// `y` \[N, C, H, W\] += `v` \[N, C\], like [`reference::add_channel`].
///
/// # Errors
/// Same as there.
pub fn add_channel_in_place(y: &mut Tensor, v: &Tensor) -> Result<()> {
    let [n, c, height, width] = y.dims4()?;
    v.expect_shape("what is added to channels", &[n, c])?;
    let v = v.as_slice()?;
    parallel::change_chunks(y.as_mut_slice()?, height * width, &|at, plane| {
        plane.iter_mut().for_each(|value| *value += v[at]);
    });
    Ok(())
}

/// Nearest upsampling, like [`reference::upsample_nearest`].
///
/// # Errors
/// Same as there.
pub fn upsample_nearest(x: &Tensor, factor: usize) -> Result<Tensor> {
    let [n, c, height, width] = x.dims4()?;
    if factor == 0 {
        return Err(Error::shape("upsampling", format!("input {:?}: the factor must not be 0", x.shape())));
    }
    let mut output = vec![0.0f32; n * c * height * factor * width * factor];
    // One row of the input becomes `factor` rows of the output.
    let x = x.as_slice()?;
    parallel::change_chunks(&mut output, width * factor * factor, &|row, to| {
        let (first, others) = to.split_at_mut(width * factor);
        first.chunks_exact_mut(factor).zip(&x[row * width..]).for_each(|(to, from)| to.fill(*from));
        others.chunks_exact_mut(width * factor).for_each(|row| row.copy_from_slice(first));
    });
    Tensor::from_vec(&[n, c, height * factor, width * factor], output)
}

/// Concatenates the channels of two tensors, like [`reference::concatenate`].
///
/// # Errors
/// Same as there.
pub fn concatenate(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    let ([n, first, height, width], [.., second, _, _]) = (a.dims4()?, b.dims4()?);
    b.expect_shape("what is joined to channels", &[n, second, height, width])?;
    let (of_a, of_b) = (first * height * width, second * height * width);
    let (a, b) = (a.as_slice()?, b.as_slice()?);
    let mut output = Vec::with_capacity(a.len() + b.len());
    for image in 0..n {
        output.extend_from_slice(&a[image * of_a..][..of_a]);
        output.extend_from_slice(&b[image * of_b..][..of_b]);
    }
    Tensor::from_vec(&[n, first + second, height, width], output)
}

/// Timestep embeddings: those of [`reference::timestep_embedding`], rounded.
///
/// # Errors
/// Same as there.
pub fn timestep_embedding(steps: &Tensor, channels: usize) -> Result<Tensor> {
    let values = reference::timestep_embedding(steps, channels)?.values;
    Tensor::from_vec(&[steps.len(), channels], values.into_iter().map(|value| value as f32).collect())
}

/// A diffusion step, like [`reference::diffusion_step`].
///
/// # Errors
/// Same as there.
pub fn diffusion_step(noisy: &Tensor, noise: &Tensor, previous: &Tensor, params: DiffusionParams) -> Result<Tensor> {
    reference::expect_one_shape(noisy, noise, previous)?;
    let [noise_scale, signal_scale, previous_weight] = params.factors()?;
    let DiffusionParams { weight, threshold, .. } = params;
    let (noise, previous, mut y) = (noise.as_slice()?, previous.as_slice()?, noisy.as_slice()?.to_vec());
    parallel::change_chunks(&mut y, PART, &|at, part| {
        let others = noise[at * PART..].iter().zip(&previous[at * PART..]);
        for (y, (e, p)) in part.iter_mut().zip(others) {
            let x = (*y - noise_scale * e) / signal_scale;
            let next = if (x - p).abs() > threshold { x } else { weight * x + previous_weight * p };
            *y = next.clamp(-1.0, 1.0);
        }
    });
    Tensor::from_vec(noisy.shape(), y)
}

/// Noise added to a clean image, like [`reference::add_noise`].
///
/// # Errors
/// Same as there.
pub fn add_noise(clean: &Tensor, noise: &Tensor, alpha_bar: f32) -> Result<Tensor> {
    noise.expect_shape("the noise that is added", clean.shape())?;
    let [signal_scale, noise_scale] = reference::noise_factors(alpha_bar)?;
    let (noise, mut y) = (noise.as_slice()?, clean.as_slice()?.to_vec());
    parallel::change_chunks(&mut y, PART, &|at, part| {
        part.iter_mut().zip(&noise[at * PART..]).for_each(|(x, e)| *x = signal_scale * *x + noise_scale * e);
    });
    Tensor::from_vec(clean.shape(), y)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::assert_close;

    const IMAGES: [[usize; 4]; 6] =
        [[1, 1, 1, 1], [2, 3, 5, 7], [1, 5, 64, 65], [0, 3, 4, 4], [2, 0, 3, 4], [2, 3, 0, 4]];

    /// Values in (−`most`, `most`).
    fn wide(shape: &[usize], seed: u64, most: f32) -> Tensor {
        let values = Tensor::random(shape, seed).into_vec().unwrap();
        Tensor::from_vec(shape, values.into_iter().map(|value| most * value).collect()).unwrap()
    }

    #[test]
    fn activations_match_the_reference() {
        for most in [1.0, 8.0, 100.0] {
            for n in [0, 1, 5, 40_000] {
                let x = wide(&[n], 1, most);
                let mut y = x.to_host().unwrap();
                gelu_in_place(&mut y).unwrap();
                let expected = reference::gelu(&x).unwrap();
                assert_close(y.as_slice().unwrap(), &expected.values, expected.tolerance);
                let mut y = x.to_host().unwrap();
                silu_in_place(&mut y).unwrap();
                let expected = reference::silu(&x).unwrap();
                assert_close(y.as_slice().unwrap(), &expected.values, expected.tolerance);
                let (b, c) = (Tensor::random(&[n], 2), wide(&[n], 3, 3.0));
                let expected = reference::silu_sum(&x, &b, &c).unwrap();
                let y = silu_sum(&x, &b, &c).unwrap();
                assert_close(y.as_slice().unwrap(), &expected.values, expected.tolerance);
            }
        }
        let mut nan = Tensor::full(&[1], f32::NAN);
        gelu_in_place(&mut nan).unwrap();
        silu_in_place(&mut nan).unwrap();
        assert!(nan.as_slice().unwrap()[0].is_nan());
    }

    #[test]
    fn image_layers_match_the_reference() {
        for (seed, shape) in (1..).zip(IMAGES) {
            let x = Tensor::random(&shape, seed);
            for factor in [1, 2, 3] {
                let (found, expected) =
                    (upsample_nearest(&x, factor).unwrap(), reference::upsample_nearest(&x, factor).unwrap());
                assert_eq!(found.shape(), expected.shape());
                assert_eq!(found.as_slice().unwrap(), expected.as_slice().unwrap());
            }
            for channels in [0, 1, 4] {
                let other = Tensor::random(&[shape[0], channels, shape[2], shape[3]], seed + 10);
                let (found, expected) = (concatenate(&x, &other).unwrap(), reference::concatenate(&x, &other).unwrap());
                assert_eq!(found.shape(), expected.shape());
                assert_eq!(found.as_slice().unwrap(), expected.as_slice().unwrap());
            }
            let (mut y, v) = (x.to_host().unwrap(), Tensor::random(&shape[..2], seed + 20));
            let expected = reference::add_channel(&x, &v).unwrap();
            add_channel_in_place(&mut y, &v).unwrap();
            assert_close(y.as_slice().unwrap(), &expected.values, expected.tolerance());
        }
        assert!(upsample_nearest(&Tensor::zeros(&[1, 1, 2, 2]), 0).is_err());
        assert!(concatenate(&Tensor::zeros(&[1, 1, 2, 2]), &Tensor::zeros(&[1, 1, 2, 3])).is_err());
    }

    #[test]
    fn embeddings_and_diffusion_steps_match_the_reference() {
        let steps = Tensor::from_vec(&[6], vec![0.0, 1.0, 17.0, 250.0, 999.0, 31.5]).unwrap();
        for channels in [0, 2, 16, 320] {
            let expected = reference::timestep_embedding(&steps, channels).unwrap();
            let found = timestep_embedding(&steps, channels).unwrap();
            assert_close(found.as_slice().unwrap(), &expected.values, expected.tolerance);
        }
        let shape = [2, 4, 16, 16];
        let (noisy, noise, previous) = (wide(&shape, 1, 2.0), wide(&shape, 2, 2.0), Tensor::random(&shape, 3));
        for (alpha_bar, weight, threshold) in [(0.9, 0.7, 0.5), (0.02, 0.25, 1.5), (1.0, 1.0, 0.0), (0.5, 0.0, 9.0)] {
            let params = DiffusionParams { alpha_bar, weight, threshold };
            let expected = reference::diffusion_step(&noisy, &noise, &previous, params).unwrap();
            let found = diffusion_step(&noisy, &noise, &previous, params).unwrap();
            assert_close(found.as_slice().unwrap(), &expected.values, expected.tolerance);
            let expected = reference::add_noise(&previous, &noise, alpha_bar).unwrap();
            let found = add_noise(&previous, &noise, alpha_bar).unwrap();
            assert_close(found.as_slice().unwrap(), &expected.values, expected.tolerance);
        }
    }
}
