//! Applied to each sum before it is stored, as `kernels/epilogue.cuh` does it.

use common::prelude::*;
pub use common::reference::Activation;

use super::{Size, matrix};

/// C = activation(scale · (alpha · A·B) + shift + residual).
///
/// BatchNorm is a scale and a shift, a bias is a shift alone; alpha undoes the scaling of narrow types. Integers are stored as
/// they are: nothing else is taken for them.
#[derive(Clone, Copy, Debug)]
pub struct Epilogue<'a> {
    /// Times the product.
    pub alpha: f32,
    /// \[N\] of f32, times each column.
    pub scale: Option<&'a Tensor>,
    /// \[N\] of f32, added to each row.
    pub shift: Option<&'a Tensor>,
    /// \[M, N\] of C's type, added.
    pub residual: Option<&'a Tensor>,
    /// Applied last.
    pub activation: Activation,
}

impl Default for Epilogue<'_> {
    /// The product alone.
    fn default() -> Self {
        Epilogue { alpha: 1.0, scale: None, shift: None, residual: None, activation: Activation::None }
    }
}

impl Epilogue<'_> {
    /// Whether it is the product alone.
    pub(super) fn is_plain(&self) -> bool {
        let none = self.scale.is_none() && self.shift.is_none() && self.residual.is_none();
        none && self.alpha == 1.0 && self.activation == Activation::None
    }

    /// Compares the shapes with the product's.
    pub(super) fn check(&self, Size { m, n, .. }: Size) -> Result<()> {
        let vectors = [("gemm's scale", self.scale), ("gemm's shift", self.shift)];
        for (what, tensor) in vectors {
            tensor.map_or(Ok(()), |tensor| tensor.expect_shape(what, &[n]))?;
        }
        let Some(residual) = self.residual else { return Ok(()) };
        match matrix("gemm's residual", residual)? {
            [rows, columns] if [rows, columns] == [m, n] => Ok(()),
            _ => residual.expect_shape("gemm's residual", &[m, n]),
        }
    }

    /// The activation's number in `epilogue.cuh`.
    pub(crate) fn activation_number(&self) -> i32 {
        activation_number(self.activation)
    }
}

/// An activation's number in `epilogue.cuh`.
pub(crate) fn activation_number(activation: Activation) -> i32 {
    match activation {
        Activation::None => 0,
        Activation::Relu => 1,
        Activation::Gelu => 2,
        Activation::Silu => 3,
    }
}
