//! Operations on each sum before it is stored, as in `kernels/epilogue.cuh`.

use common::limits::fits_i32;
use common::prelude::*;
pub use common::reference::Activation;

use super::{Scales, Size, matrix};

/// C = activation(scale · (alpha · A·B) + shift + residual) + later additions.
///
/// BatchNorm is a scale and a shift, a bias is only a shift; alpha undoes the scaling of narrow types. Integers are stored
/// unchanged: they support nothing else.
#[derive(Clone, Copy, Debug)]
pub struct Epilogue<'a> {
    /// Factors of the blocks of A and B, for [`super::Precision::ScaledE4M3`] and only for it. They are part of the sum.
    pub blocks: Option<Scales<'a>>,
    /// Factor of the product.
    pub alpha: f32,
    /// \[N\] of f32, factor of each column.
    pub scale: Option<&'a Tensor>,
    /// \[N\] of f32, added to each row.
    pub shift: Option<&'a Tensor>,
    /// \[M, N\] of C's type, added.
    pub residual: Option<&'a Tensor>,
    /// Applied to the result so far.
    pub activation: Activation,
    /// Added last, only by convolutions.
    pub later: Later<'a>,
}

/// Values that a convolution adds after its activation.
#[derive(Clone, Copy, Debug, Default)]
pub struct Later<'a> {
    /// An image of y's shape, type and format.
    pub image: Option<&'a Tensor>,
    /// Added to each pixel of an image's channel.
    pub channels: Option<Columns<'a>>,
}

impl Later<'_> {
    /// Why other kernels refuse it.
    pub(crate) const FOR_CONVOLUTIONS: &'static str = "only convolutions add after an activation";
}

/// A value per image and channel: columns of a matrix, one for each channel.
#[derive(Clone, Copy, Debug)]
pub struct Columns<'a> {
    /// \[N, columns\] of f32.
    pub values: &'a Tensor,
    /// The column of the first channel.
    pub first: usize,
    /// Number of channels that have one; 0 is added to the others.
    pub count: usize,
}

impl<'a> Columns<'a> {
    /// All columns of `values`.
    ///
    /// # Errors
    /// [`Error::Shape`] if it is not a matrix.
    pub fn all(values: &'a Tensor) -> Result<Columns<'a>> {
        let [_, count] = values.dims("a value per image and channel")?;
        Ok(Columns { values, first: 0, count })
    }

    /// The first column and the number of columns, for this many images and channels.
    pub(crate) fn place(&self, what: &'static str, [images, channels]: [usize; 2]) -> Result<[u32; 2]> {
        let [_, pitch] = self.values.dims(what)?;
        let wide = pitch.max(self.first + self.count.min(channels));
        self.values.expect_shape(what, &[images, wide])?;
        let size = |size| Ok::<_, Error>(fits_i32(what, "a number of columns", Some(size))?.unsigned_abs());
        Ok([size(self.first)?, size(pitch)?])
    }
}

impl Default for Epilogue<'_> {
    /// Only the product.
    fn default() -> Self {
        Epilogue {
            blocks: None,
            alpha: 1.0,
            scale: None,
            shift: None,
            residual: None,
            activation: Activation::None,
            later: Later::default(),
        }
    }
}

impl Epilogue<'_> {
    /// Whether it is only the product.
    pub(super) fn is_plain(&self) -> bool {
        let none = self.scale.is_none() && self.shift.is_none() && self.residual.is_none();
        none && self.alpha == 1.0 && self.activation == Activation::None && !self.adds_later()
    }

    /// Whether something is added after the activation.
    pub(crate) fn adds_later(&self) -> bool {
        self.later.image.is_some() || self.later.channels.is_some()
    }

    /// Compares the shapes with the product's.
    pub(super) fn check(&self, size @ Size { m, n, .. }: Size) -> Result<()> {
        let vectors = [("gemm's scale", self.scale), ("gemm's shift", self.shift)];
        for (what, tensor) in vectors {
            tensor.map_or(Ok(()), |tensor| tensor.expect_shape(what, &[n]))?;
        }
        self.blocks.map_or(Ok(()), |scales| scales.check(size))?;
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
