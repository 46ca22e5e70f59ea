//! Linear layers in 8-bit floats: the meaning of a filter's bits, on the host.
//!
//! A value is step · e with e of 4 exponent and 3 significand bits. Neighbours are a sixteenth of their size apart and not, as
//! with bytes, at equal distances, so that small weights next to a large one are not lost.

use common::prelude::*;
use common::tensor::F8E4M3;

/// Largest value of the type.
pub(super) const LARGEST: f32 = 448.0;

/// A weight \[K, …\] whose filters have their own steps.
#[derive(Debug)]
pub(super) struct Quantized {
    /// Values of the type, in units of the steps.
    pub(super) weight: Tensor,
    /// One per filter.
    pub(super) steps: Vec<f32>,
}

/// In units of each filter's largest weight / 448.
///
/// # Errors
/// [`Error::Invalid`] if it is not on the host.
pub(super) fn quantized(weight: &Tensor) -> Result<Quantized> {
    let (filters, values) = (weight.shape().first().copied().unwrap_or(0), weight.as_slice()?);
    let (mut units, mut steps) = (Vec::with_capacity(values.len()), Vec::with_capacity(filters));
    for filter in values.chunks((values.len() / filters.max(1)).max(1)) {
        let largest = filter.iter().fold(0.0f32, |most, weight| most.max(weight.abs()));
        let step = if largest > 0.0 { largest / LARGEST } else { 1.0 };
        units.extend(filter.iter().map(|weight| nearest(weight / step)));
        steps.push(step);
    }
    Ok(Quantized { weight: Tensor::from_vec(weight.shape(), units)?, steps })
}

/// The nearest value of the type; beyond ±448, ±448.
pub(super) fn nearest(value: f32) -> f32 {
    F8E4M3::from_f64(f64::from(value)).to_f64() as f32
}
