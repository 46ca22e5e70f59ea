//! Element-wise operations, and operations that only move values.

use super::{Bounded, Reference};
use crate::Tensor;
use crate::check::{F32_ROUND_OFF, Tolerance};
use crate::error::{Error, Result};
use crate::parallel;

/// Round-off of f32, the unit of the bounds below.
const U: f64 = F32_ROUND_OFF;

/// 0.5·x·(1 + erf(x/√2)), the exact GELU.
///
/// In an f32 implementation of this formula, x/√2 is off by 2 units, which changes erf by at most 0.49 · 2 units; erf is off by
/// two bits (2 units); and the sum is rounded (1 unit): 4 units in 1 + erf, 2·|x| in the result. From 0 to −5.7, where the f32
/// erf becomes −1 and the result (of less than 2 units) 0, that is at most 12 units; elsewhere |x| is at most twice the result,
/// and two products add their roundings.
///
/// # Errors
/// [`Error::Invalid`] if the tensor is on a device.
pub fn gelu(x: &Tensor) -> Result<Bounded> {
    let x = x.as_slice()?;
    let values = parallel::collect(x.len(), &|i| gelu_of(f64::from(x[i])));
    Ok(Bounded { values, tolerance: Tolerance::new(12.0 * U, 6.0 * U) })
}

pub(super) fn gelu_of(x: f64) -> f64 {
    // 1 + erf(t) = erfc(−t), which does not cancel.
    0.5 * x * libm::erfc(-x * std::f64::consts::FRAC_1_SQRT_2)
}

/// x/(1 + e^(−x)).
///
/// In an f32 implementation the exponential is off by one bit (2 units), and the sum and the quotient are rounded: 4 units of
/// the result. Below −88.7 the exponential overflows, and a result of less than 3·10⁻³⁷ becomes 0.
///
/// # Errors
/// [`Error::Invalid`] if the tensor is on a device.
pub fn silu(x: &Tensor) -> Result<Bounded> {
    let x = x.as_slice()?;
    let values = parallel::collect(x.len(), &|i| silu_of(f64::from(x[i])));
    Ok(Bounded { values, tolerance: Tolerance::new(3e-37, 5.0 * U) })
}

pub(super) fn silu_of(x: f64) -> f64 {
    x / (1.0 + (-x).exp())
}

/// silu(a + b·c), element by element: the bound of [`silu`] plus that of the sum, which SiLU enlarges at most 1.1 times.
///
/// # Errors
/// [`Error::Shape`] if the shapes differ, [`Error::Invalid`] if a tensor is on a device.
pub fn silu_sum(a: &Tensor, b: &Tensor, c: &Tensor) -> Result<Bounded> {
    b.expect_shape("silu(a + b·c)'s b", a.shape())?;
    c.expect_shape("silu(a + b·c)'s c", a.shape())?;
    let (a, b, c) = (a.as_slice()?, b.as_slice()?, c.as_slice()?);
    let wide = |i: usize| [a[i], b[i], c[i]].map(f64::from);
    let sum = |i| {
        let [a, b, c] = wide(i);
        silu_of(a + b * c)
    };
    let magnitude = |i| {
        let [a, b, c] = wide(i);
        a.abs() + (b * c).abs()
    };
    let most = (0..a.len()).map(magnitude).fold(0.0, f64::max);
    let values = parallel::collect(a.len(), &sum);
    Ok(Bounded { values, tolerance: Tolerance::new(1.1 * 2.0 * U * most + 3e-37, 5.0 * U) })
}

/// y \[N, C, H, W\] + v \[N, C\], each value of `v` added to its plane.
///
/// # Errors
/// [`Error::Shape`] if the shapes do not fit, [`Error::Invalid`] if a tensor is on a device.
pub fn add_channel(y: &Tensor, v: &Tensor) -> Result<Reference> {
    let [n, c, height, width] = y.dims4()?;
    v.expect_shape("what is added to channels", &[n, c])?;
    let (y, v) = (y.as_slice()?, v.as_slice()?);
    Ok(Reference::collect(y.len(), 1, |i| {
        let mut sum = super::Sum::default();
        sum.add(f64::from(y[i]));
        sum.add(f64::from(v[i / (height * width)]));
        sum
    }))
}

/// Repeats every pixel of an input \[N, C, H, W\] as `factor`² pixels: \[N, C, H·factor, W·factor\]. Nothing is rounded, so a
/// kernel must give the same bits.
///
/// # Errors
/// [`Error::Shape`] if `factor` is 0, [`Error::Invalid`] if the tensor is on a device.
pub fn upsample_nearest(x: &Tensor, factor: usize) -> Result<Tensor> {
    let [n, c, height, width] = x.dims4()?;
    if factor == 0 {
        return Err(Error::shape("upsampling", format!("input {:?}: the factor must not be 0", x.shape())));
    }
    let values = x.as_slice()?;
    Ok(Tensor::from_fn(&[n, c, height * factor, width * factor], |at| {
        let &[n, c_at, y, x] = at else { unreachable!("four dimensions") };
        values[((n * c + c_at) * height + y / factor) * width + x / factor]
    }))
}

/// Concatenates a \[N, Ca, H, W\] and b \[N, Cb, H, W\] to \[N, Ca + Cb, H, W\]. Nothing is rounded, so a kernel must give the
/// same bits.
///
/// # Errors
/// [`Error::Shape`] if images or sides differ, [`Error::Invalid`] if a tensor is on a device.
pub fn concatenate(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    let ([n, first, height, width], [.., second, _, _]) = (a.dims4()?, b.dims4()?);
    b.expect_shape("what is joined to channels", &[n, second, height, width])?;
    let (a, b) = (a.as_slice()?, b.as_slice()?);
    let plane = height * width;
    Ok(Tensor::from_fn(&[n, first + second, height, width], |at| {
        let &[n, c, y, x] = at else { unreachable!("four dimensions") };
        if c < first {
            a[(n * first + c) * plane + y * width + x]
        } else {
            b[(n * second + c - first) * plane + y * width + x]
        }
    }))
}

/// c/2, the frequencies of a timestep embedding of c `channels`.
///
/// # Errors
/// [`Error::Shape`] if `channels` is odd.
pub fn embedding_frequencies(channels: usize) -> Result<usize> {
    if !channels.is_multiple_of(2) {
        let detail = format!("{channels} channels: expected an even number, half cosines and half sines");
        return Err(Error::shape("timestep embedding", detail));
    }
    Ok(channels / 2)
}

/// \[cos, sin\] of step·10000^(−j/(c/2)) for each of `steps` \[batch\], with j from 0: \[batch, channels\].
///
/// An implementation must compute in f64 and round once, an error of less than 1 unit. In f32 the angle of a late step would be
/// off by step · 2⁻²⁴ or more.
///
/// # Errors
/// [`Error::Shape`] if `steps` does not have 1 dimension or `channels` is odd, [`Error::Invalid`] if the tensor is on a device.
pub fn timestep_embedding(steps: &Tensor, channels: usize) -> Result<Bounded> {
    let half = embedding_frequencies(channels)?;
    steps.expect_shape("timestep embedding's steps", &[steps.len()])?;
    let of_step = |&step: &f32| {
        let angles = (0..half).map(move |j| f64::from(step) * 10_000f64.powf(-(j as f64) / half as f64));
        angles.clone().map(f64::cos).chain(angles.map(f64::sin))
    };
    Ok(Bounded { values: steps.as_slice()?.iter().flat_map(of_step).collect(), tolerance: Tolerance::absolute(U) })
}

/// The parameters of a diffusion step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DiffusionParams {
    /// ᾱ of the schedule at this step: the fraction of the signal's power that remains, in (0, 1].
    pub alpha_bar: f32,
    /// w, the new frame's weight in the blend, in [0, 1].
    pub weight: f32,
    /// τ, the largest difference between two frames at which they are blended; not negative.
    pub threshold: f32,
}

impl DiffusionParams {
    /// √(1 − ᾱ), √ᾱ and 1 − w, each operation rounded to f32: the constants of every f32 implementation.
    ///
    /// # Errors
    /// [`Error::Invalid`] if a parameter is outside its range.
    pub fn factors(&self) -> Result<[f32; 3]> {
        let DiffusionParams { alpha_bar, weight, threshold } = *self;
        if !(alpha_bar > 0.0 && alpha_bar <= 1.0 && (0.0..=1.0).contains(&weight) && threshold >= 0.0) {
            let ranges = "alpha_bar is in (0, 1], weight in [0, 1], threshold not negative";
            return Err(Error::Invalid(format!("diffusion step: {self:?}, where {ranges}")));
        }
        Ok([(1.0 - alpha_bar).sqrt(), alpha_bar.sqrt(), 1.0 - weight])
    }
}

/// Checks that the three tensors of a diffusion step have the same shape.
pub(crate) fn expect_one_shape(noisy: &Tensor, noise: &Tensor, previous: &Tensor) -> Result<()> {
    noise.expect_shape("diffusion step's noise", noisy.shape())?;
    previous.expect_shape("diffusion step's previous frame", noisy.shape())
}

/// The diffusion step: x̂ = (x − √(1−ᾱ)·ε)/√ᾱ of `noisy` x and `noise` ε; w·x̂ + (1−w)·p where |x̂ − p| ≤ τ with `previous` p,
/// else x̂; clamped to [−1, 1]. A NaN in any of the three gives a NaN in the result, also in p, for which SPEC's formula leaves
/// it open.
///
/// In an f32 implementation the factors are off by up to 2 units each, and four operations of x̂ and three of the blend are
/// rounded: 10 units of (|x| + √(1−ᾱ)·|ε|)/√ᾱ + |p|. Where |x̂ − p| is closer to τ than that, it may choose differently.
///
/// # Errors
/// [`Error::Shape`] if the shapes differ, [`Error::Invalid`] if a parameter is outside its range or a tensor is on a device.
pub fn diffusion_step(noisy: &Tensor, noise: &Tensor, previous: &Tensor, params: DiffusionParams) -> Result<Bounded> {
    expect_one_shape(noisy, noise, previous)?;
    params.factors()?;
    let (noisy, noise, previous) = (noisy.as_slice()?, noise.as_slice()?, previous.as_slice()?);
    let [alpha_bar, weight, threshold] = [params.alpha_bar, params.weight, params.threshold].map(f64::from);
    let (noise_scale, signal_scale) = ((1.0 - alpha_bar).sqrt(), alpha_bar.sqrt());
    let wide = |i: usize| [noisy[i], noise[i], previous[i]].map(f64::from);
    let value = |i| {
        let [x, e, p] = wide(i);
        let x = (x - noise_scale * e) / signal_scale;
        let y = if (x - p).abs() > threshold { x } else { weight * x + (1.0 - weight) * p };
        y.clamp(-1.0, 1.0)
    };
    let magnitude = |i| {
        let [x, e, p] = wide(i).map(f64::abs);
        (x + noise_scale * e) / signal_scale + p
    };
    let most = (0..noisy.len()).map(magnitude).fold(0.0, f64::max);
    let values = parallel::collect(noisy.len(), &value);
    Ok(Bounded { values, tolerance: Tolerance::elementwise(10, most) })
}

/// √ᾱ and √(1 − ᾱ), each operation rounded to f32: the constants of every f32 implementation of [`add_noise`].
///
/// # Errors
/// [`Error::Invalid`] if ᾱ is outside \[0, 1\].
pub fn noise_factors(alpha_bar: f32) -> Result<[f32; 2]> {
    if !(0.0..=1.0).contains(&alpha_bar) {
        return Err(Error::Invalid(format!("adding noise: alpha_bar is in [0, 1], not {alpha_bar}")));
    }
    Ok([alpha_bar.sqrt(), (1.0 - alpha_bar).sqrt()])
}

/// √ᾱ·x + √(1−ᾱ)·ε: `clean` x at the step of a schedule that leaves ᾱ of the signal's power (Ho et al., "Denoising Diffusion
/// Probabilistic Models", 2020, equation 4).
///
/// In an f32 implementation the factors are off by up to 2 units each, and two products and a sum are rounded: 4 units of
/// √ᾱ·|x| + √(1−ᾱ)·|ε|.
///
/// # Errors
/// [`Error::Shape`] if the shapes differ, [`Error::Invalid`] if ᾱ is outside \[0, 1\] or a tensor is on a device.
pub fn add_noise(clean: &Tensor, noise: &Tensor, alpha_bar: f32) -> Result<Bounded> {
    noise.expect_shape("the noise that is added", clean.shape())?;
    noise_factors(alpha_bar)?;
    let (signal_scale, noise_scale) = (f64::from(alpha_bar).sqrt(), (1.0 - f64::from(alpha_bar)).sqrt());
    let parts = clean.as_slice()?.iter().zip(noise.as_slice()?);
    let parts: Vec<[f64; 2]> =
        parts.map(|(&x, &e)| [signal_scale * f64::from(x), noise_scale * f64::from(e)]).collect();
    let most = parts.iter().map(|[x, e]| x.abs() + e.abs()).fold(0.0, f64::max);
    Ok(Bounded { values: parts.iter().map(|[x, e]| x + e).collect(), tolerance: Tolerance::elementwise(4, most) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_values() {
        let x = Tensor::from_vec(&[4], vec![0.0, 1.0, -1.0, -40.0]).unwrap();
        let near = |found: &[f64], known: [f64; 4]| {
            assert!(found.iter().zip(known).all(|(a, b)| (a - b).abs() < 1e-9), "{found:?} instead of {known:?}");
        };
        // 0.841344746 is the normal distribution's at 1, 0.731058579 the logistic function's.
        near(&gelu(&x).unwrap().values, [0.0, 0.841_344_746, -0.158_655_254, 0.0]);
        near(&silu(&x).unwrap().values, [0.0, 0.731_058_579, -0.268_941_421, 0.0]);
        assert!(embedding_frequencies(5).is_err());
        let steps = Tensor::from_vec(&[1], vec![100.0]).unwrap();
        let embedding = timestep_embedding(&steps, 4).unwrap();
        near(&embedding.values, [0.862_318_872, 0.540_302_306, -0.506_365_641, 0.841_470_985]);
    }

    #[test]
    fn a_step_blends_near_values_keeps_far_ones_and_clamps() {
        let tensor = |values: &[f32]| Tensor::from_vec(&[4], values.to_vec()).unwrap();
        let (noisy, noise) = (tensor(&[0.5, 0.5, 3.0, f32::NAN]), tensor(&[0.0; 4]));
        let previous = tensor(&[0.25, -0.5, 3.0, 0.0]);
        let params = DiffusionParams { alpha_bar: 1.0, weight: 0.5, threshold: 0.25 };
        let values = diffusion_step(&noisy, &noise, &previous, params).unwrap().values;
        assert_eq!(values[..3], [0.375, 0.5, 1.0]);
        assert!(values[3].is_nan());
        let values =
            add_noise(&tensor(&[3.0, -1.0, 0.0, f32::NAN]), &tensor(&[4.0, 2.0, 1.0, 0.0]), 0.36).unwrap().values;
        assert!((values[0] - 5.0).abs() < 1e-6 && (values[1] - 1.0).abs() < 1e-6 && (values[2] - 0.8).abs() < 1e-6);
        assert!(values[3].is_nan());
        assert!(add_noise(&noisy, &noise, 1.5).is_err());
        let wrong = DiffusionParams { alpha_bar: 0.0, ..params };
        assert!(diffusion_step(&noisy, &noise, &previous, wrong).is_err());
    }
}
