//! Matrix products of tensor cores: their possible losses, derived.

use super::{Gemm, Reference, elementwise};
use crate::check::{F32_ROUND_OFF, Tolerance};
use crate::element::ElementType;
use crate::error::{Error, Result};

/// Applied to each sum before it is stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Activation {
    /// Nothing.
    #[default]
    None,
    /// max(x, 0).
    Relu,
    /// x · Φ(x), with the error function.
    Gelu,
    /// x / (1 + e⁻ˣ).
    Silu,
}

impl Activation {
    /// All of them.
    pub const ALL: [Activation; 4] = [Activation::None, Activation::Relu, Activation::Gelu, Activation::Silu];

    /// The activation of one value.
    pub fn of(self, x: f64) -> f64 {
        match self {
            Activation::None => x,
            Activation::Relu if x < 0.0 => 0.0,
            Activation::Relu => x,
            Activation::Gelu => elementwise::gelu_of(x),
            Activation::Silu => elementwise::silu_of(x),
        }
    }
}

/// Addition of products of a type on tensor cores, as observed on an H200 (`ptx-sim`'s `matrix` has the same).
///
/// Products are exact. An addition takes several of them and the sum so far, aligned to the largest: bits of each that lie more
/// than `kept` bits below the largest's power of two are cut off. The result is cut to `result` bits of fraction.
#[derive(Clone, Copy, Debug)]
struct Adder {
    /// Minimum number of products per addition.
    width: usize,
    kept: i32,
    result: i32,
}

impl Adder {
    fn of(input: ElementType) -> Adder {
        match input {
            ElementType::F8E4M3 => Adder { width: 32, kept: 13, result: 13 },
            _ => Adder { width: 4, kept: 25, result: 23 },
        }
    }

    /// Maximum error of a sum of `terms` products, relative to the sum of all magnitudes.
    fn loss(self, terms: usize) -> f64 {
        let additions = terms.div_ceil(self.width) as f64;
        additions * ((self.width + 1) as f64 * 2f64.powi(-self.kept) + 2f64.powi(-self.result))
    }
}

/// C = activation(scale · (alpha · A·B) + shift + residual), with A and B in one of the types of tensor cores.
#[derive(Clone, Copy, Debug)]
pub struct TensorGemm<'a> {
    /// The product, with its alpha and nothing else; its A and B are the exact inputs of the kernel, as f32.
    pub product: Gemm<'a>,
    /// \[N\], times each column.
    pub scale: Option<&'a [f32]>,
    /// \[N\], added to each row.
    pub shift: Option<&'a [f32]>,
    /// \[M, N\], added.
    pub residual: Option<&'a [f32]>,
    /// Applied last.
    pub activation: Activation,
    /// The type of A and B; f32 is multiplied as tf32.
    pub input: ElementType,
    /// The type of C.
    pub output: ElementType,
    /// Products that a tensor core adds up; sums of more are continued in f32. K if it adds up all.
    pub chain: usize,
}

impl<'a> TensorGemm<'a> {
    /// Only the product.
    pub fn new(product: Gemm<'a>, input: ElementType, output: ElementType) -> TensorGemm<'a> {
        let (scale, shift, residual, activation) = (None, None, None, Activation::None);
        TensorGemm { product, scale, shift, residual, activation, input, output, chain: product.k }
    }

    /// Every output, and the tolerance for a kernel's.
    ///
    /// # Errors
    /// [`Error::Shape`] if a slice's length does not match M, N, K.
    pub fn all(&self) -> Result<(Reference, Tolerance)> {
        let product = self.product.all()?;
        let indices = 0..product.values.len();
        self.finish(product, indices)
    }

    /// The outputs at `indices` of C.
    ///
    /// # Errors
    /// Errors of [`TensorGemm::all`], or if an index is outside C.
    pub fn at(&self, indices: &[usize]) -> Result<(Reference, Tolerance)> {
        self.finish(self.product.at(indices)?, indices.iter().copied())
    }

    fn finish(&self, mut product: Reference, indices: impl Iterator<Item = usize>) -> Result<(Reference, Tolerance)> {
        let Gemm { m, n, k, .. } = self.product;
        let parts =
            [("the scale", self.scale, n), ("the shift", self.shift, n), ("the residual", self.residual, m * n)];
        for (what, values, needed) in parts {
            if let Some(values) = values.filter(|values| values.len() != needed) {
                return Err(Error::shape("matmul", format!("{what} has {} values, not {needed}", values.len())));
            }
        }
        let at = |values: Option<&[f32]>, index: usize, other: f64| values.map_or(other, |of| of[index].into());
        for (value, index) in product.values.iter_mut().zip(indices) {
            let (scale, shift) = (at(self.scale, index % n, 1.0), at(self.shift, index % n, 0.0));
            *value = self.activation.of(scale * *value + shift + at(self.residual, index, 0.0));
        }
        let tolerance = self.tolerance(product.magnitude, k);
        Ok((product, tolerance))
    }

    /// Maximum error of a kernel, if the magnitudes of a sum's products add up to at most `magnitude`:
    ///
    /// - for integers nothing;
    /// - each factor of tf32 is an f32 without its last 13 bits, 2⁻¹⁰ of it at most, so a product is off by 2 · 2⁻¹⁰ and a little;
    /// - the bits that the adder cuts off (`Adder`), of a chain of products; where chains are added in f32, a rounding each, and one each
    ///   for both scales of a chain, for their product, and for the reference's factors, which are f32 too;
    /// - the epilogue in f32: four roundings of at most the sum of all magnitudes; for GELU and SiLU the slope, at most 1.13, and
    ///   their own error: GELU's polynomial, ex2.approx and roundings are within 8 roundings, and SiLU's e⁻ˣ, by ex2.approx, and its
    ///   approximate quotient within 16 and 2·|x| more, for the rounding of its argument;
    /// - C's type: half of its last bit, or of the smallest number.
    fn tolerance(&self, magnitude: f64, terms: usize) -> Tolerance {
        if self.output == ElementType::I32 {
            return Tolerance::exact();
        }
        let most = |values: Option<&[f32]>, other: f64| match values {
            Some(values) => values.iter().fold(0.0, |most, &value| f64::max(most, f64::from(value.abs()))),
            None => other,
        };
        let scaled = magnitude * most(self.scale, 1.0);
        let all = scaled + most(self.shift, 0.0) + most(self.residual, 0.0);
        let inputs = if self.input == ElementType::F32 { 2.0 * 2f64.powi(-10) } else { 0.0 };
        let chains = terms.div_ceil(self.chain.max(1));
        let added = if chains > 1 { (chains + 5) as f64 * F32_ROUND_OFF } else { 0.0 };
        let products = scaled * (inputs + Adder::of(self.input).loss(terms.min(self.chain)) + added);
        let sum = products + all * 4.0 * F32_ROUND_OFF;
        let activated = match self.activation {
            Activation::None | Activation::Relu => sum,
            Activation::Gelu => 1.13 * sum + all * 8.0 * F32_ROUND_OFF,
            Activation::Silu => 1.13 * sum + all * (16.0 + 2.0 * all) * F32_ROUND_OFF,
        };
        let (relative, smallest) = match self.output {
            ElementType::F16 => (2f64.powi(-11), 2f64.powi(-25)),
            ElementType::BF16 => (2f64.powi(-8), 0.0),
            _ => (F32_ROUND_OFF, 0.0),
        };
        Tolerance::new(activated * (1.0 + relative) + smallest, relative)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The bounds are known numbers, so that no change loosens them unseen.
    #[test]
    fn tolerances_are_those_derived() {
        let (a, b) = ([1.0; 64], [0.5; 64]);
        let of = |input, output| TensorGemm::new(Gemm::new(&a, &b, 1, 1, 64), input, output).all().unwrap();
        let (reference, tolerance) = of(ElementType::F16, ElementType::F16);
        assert_eq!((reference.values[0], reference.magnitude), (32.0, 32.0));
        let sum = 32.0 * (16.0 * (5.0 * 2f64.powi(-25) + 2f64.powi(-23)) + 4.0 * F32_ROUND_OFF);
        assert_eq!(tolerance, Tolerance::new(sum * (1.0 + 2f64.powi(-11)) + 2f64.powi(-25), 2f64.powi(-11)));
        let in_chains = |chain| {
            let product = Gemm::new(&a, &b, 1, 1, 64);
            let gemm = TensorGemm::new(product, ElementType::F8E4M3, ElementType::F32);
            TensorGemm { chain, ..gemm }.all().unwrap().1.absolute
        };
        let addition = 34.0 * 2f64.powi(-13);
        let rounded = |sum: f64| (sum + 32.0 * 4.0 * F32_ROUND_OFF) * (1.0 + F32_ROUND_OFF);
        assert_eq!(in_chains(64), rounded(32.0 * 2.0 * addition));
        assert_eq!(in_chains(32), rounded(32.0 * (addition + 7.0 * F32_ROUND_OFF)));
        let (_, of_integers) = of(ElementType::I8, ElementType::I32);
        assert_eq!(of_integers, Tolerance::exact());
        let (_, of_tf32) = of(ElementType::F32, ElementType::F32);
        assert!(of_tf32.absolute > 32.0 * 2f64.powi(-9) && of_tf32.absolute < 32.1 * 2f64.powi(-9));
    }

    #[test]
    fn the_epilogue_is_applied_in_its_order() {
        let (a, b) = ([2.0, -1.0], [3.0, 0.5]);
        let product = Gemm { alpha: 0.5, ..Gemm::new(&a, &b, 2, 2, 1) };
        let gemm = TensorGemm {
            scale: Some(&[2.0, 4.0]),
            shift: Some(&[-1.0, 0.25]),
            residual: Some(&[0.0, 1.0, 2.0, 0.5]),
            activation: Activation::Relu,
            ..TensorGemm::new(product, ElementType::F16, ElementType::F16)
        };
        let (reference, _) = gemm.all().unwrap();
        assert_eq!(reference.values, [5.0, 3.25, 0.0, 0.0]);
        assert_eq!(gemm.at(&[1, 2]).unwrap().0.values, [3.25, 0.0]);
        let wrong = TensorGemm { shift: Some(&[1.0]), ..gemm };
        assert_eq!(wrong.all().unwrap_err().to_string(), "matmul: the shift has 1 values, not 2");
    }
}
