//! Checks that answers are numbers: if a network's weights give NaN, its command fails and names the first such layer.

use common::prelude::*;

use crate::{Error, Result};

/// The first layer seen whose output holds NaN or an infinity.
#[derive(Debug, Default)]
pub struct FirstNonFinite(Option<(String, f32)>);

impl FirstNonFinite {
    /// Checks the output of a layer, on the host.
    pub fn see(&mut self, layer: &str, output: &Tensor) {
        if self.0.is_none()
            && let Some(value) = non_finite(output.as_slice().unwrap_or_default())
        {
            self.0 = Some((layer.to_owned(), value));
        }
    }
}

/// Checks a network's answer. `on_cpu` is the same pass on the CPU, which shows each layer's output; it runs only if the answer
/// is not finite, to find where that begins.
///
/// # Errors
/// [`Error::NonFinite`] with the layer; errors of `on_cpu`.
pub fn require_finite(
    network: &str,
    answer: &[f32],
    on_cpu: impl FnOnce(&mut FirstNonFinite) -> common::Result<Tensor>,
) -> Result<()> {
    let Some(value) = non_finite(answer) else { return Ok(()) };
    let mut first = FirstNonFinite::default();
    let output = on_cpu(&mut first)?;
    first.see("output", &output);
    let origin = match first.0 {
        Some((layer, value)) => format!("computed on the CPU, `{layer}` is the first layer whose output holds {value}"),
        None => "computed on the CPU, all its values are finite".to_owned(),
    };
    Err(Error::NonFinite { network: network.to_owned(), value, origin })
}

fn non_finite(values: &[f32]) -> Option<f32> {
    values.iter().copied().find(|value| !value.is_finite())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_layer_is_named_and_the_pass_runs_only_if_it_must() {
        let not_needed = |_: &mut FirstNonFinite| -> common::Result<Tensor> { panic!("all is finite") };
        require_finite("a network", &[0.0, -1e38], not_needed).unwrap();

        let infinite = || Tensor::full(&[2], f32::NEG_INFINITY);
        let pass = |first: &mut FirstNonFinite| {
            first.see("one", &Tensor::zeros(&[2]));
            first.see("two", &infinite());
            first.see("three", &Tensor::full(&[2], f32::NAN));
            Ok(infinite())
        };
        let error = require_finite("a network", &[0.0, f32::NAN], pass).unwrap_err().to_string();
        assert_eq!(
            error,
            "a network answers NaN: computed on the CPU, `two` is the first layer whose output holds -inf"
        );
        let error = require_finite("a network", &[f32::INFINITY], |_| Ok(infinite())).unwrap_err().to_string();
        assert!(error.ends_with("`output` is the first layer whose output holds -inf"), "{error}");
        let error = require_finite("a network", &[f32::NAN], |_| Ok(Tensor::zeros(&[1]))).unwrap_err().to_string();
        assert_eq!(error, "a network answers NaN: computed on the CPU, all its values are finite");
    }
}
