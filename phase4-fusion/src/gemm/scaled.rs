//! 8-bit floats whose blocks have scales of their own: 128 values along K of a row of A, and 128 × 128 values of B.
//!
//! A scale is the block's largest value over 448, so that every block has the type's full range, and an outlier costs only its own
//! block.

use common::device::{TensorElement, TensorMapConfig};
use common::prelude::*;
use common::tensor::F8E4M3;

use super::Size;

/// Values along K, and rows of B, that share a scale.
pub const BLOCK: usize = 128;

/// Scales of A's and B's blocks, on the device.
#[derive(Clone, Copy, Debug)]
pub struct Scales<'a> {
    /// \[⌈K / 128⌉, M rounded up to a multiple of 4\] of f32: of each row of A.
    pub a: &'a Tensor,
    /// \[⌈N / 128⌉, ⌈K / 128⌉\] of f32.
    pub b: &'a Tensor,
}

impl Scales<'_> {
    /// Why other kernels refuse them.
    pub(crate) const FOR_PRODUCTS: &'static str = "only products of 8-bit floats to bf16 have blocks with scales";

    /// A's in boxes of this many rows of A, one block wide.
    pub(super) fn boxes(Size { m, k, .. }: Size, rows: usize) -> TensorMapConfig {
        let extents = of_rows(m, k).map(|size| size as u64);
        TensorMapConfig::tiled(TensorElement::F32, &[extents[1], extents[0]], &[rows as u32, 1])
    }

    /// Compares their shapes with the product's.
    pub(super) fn check(&self, Size { m, n, k }: Size) -> Result<()> {
        self.a.expect_shape("scales of A", &of_rows(m, k))?;
        self.b.expect_shape("scales of B", &[n.div_ceil(BLOCK), k.div_ceil(BLOCK)])
    }
}

/// Shape of A's scales: rows begin at multiples of 16 bytes, as in all tensor maps.
fn of_rows(m: usize, k: usize) -> [usize; 2] {
    [k.div_ceil(BLOCK), m.next_multiple_of(4)]
}

/// A matrix in 8-bit floats with the scales of its blocks, on the host.
#[derive(Debug)]
pub struct Scaled {
    /// Values of [`ElementType::F8E4M3`], in units of their blocks' scales.
    pub values: Tensor,
    /// As [`Scales`] has them.
    pub scales: Tensor,
    /// Product of both in f32: what became of the matrix.
    pub rounded: Tensor,
}

impl Scaled {
    /// A \[M, K\], with a scale per row and 128 values.
    ///
    /// # Errors
    /// [`Error::Shape`] if it is not a matrix; [`Error::Invalid`] if it is not on the host.
    pub fn rows(matrix: &Tensor) -> Result<Scaled> {
        let [m, k] = matrix.dims("A")?;
        Scaled::new(matrix, of_rows(m, k), |row, column| [column / BLOCK, row])
    }

    /// B \[N, K\], with a scale per 128 × 128 values.
    ///
    /// # Errors
    /// Same as [`Scaled::rows`].
    pub fn squares(matrix: &Tensor) -> Result<Scaled> {
        let [n, k] = matrix.dims("B")?;
        Scaled::new(matrix, [n.div_ceil(BLOCK), k.div_ceil(BLOCK)], |row, column| [row / BLOCK, column / BLOCK])
    }

    /// With as many scales as `shape` says; `place` gives the one of a row and column.
    fn new(matrix: &Tensor, shape: [usize; 2], place: impl Fn(usize, usize) -> [usize; 2]) -> Result<Scaled> {
        let [_, columns] = matrix.dims("a matrix")?;
        let values = matrix.as_slice()?;
        let place = |at: usize| {
            let [row, column] = place(at / columns, at % columns);
            row * shape[1] + column
        };
        let mut largest = vec![0.0f32; shape.iter().product()];
        for (at, value) in values.iter().enumerate() {
            let of_block = &mut largest[place(at)];
            *of_block = of_block.max(value.abs());
        }
        // A block of zeros has the scale 1.
        let scale = |&largest: &f32| if largest > 0.0 { largest / F8E4M3::MAX.to_f64() as f32 } else { 1.0 };
        let scales: Vec<f32> = largest.iter().map(scale).collect();
        let units = values.iter().enumerate().map(|(at, value)| value / scales[place(at)]).collect();
        let units = Tensor::from_vec(matrix.shape(), units)?.to_type(ElementType::F8E4M3)?;
        let rounded = units.to_f64()?.into_iter().enumerate();
        let rounded = rounded.map(|(at, unit)| (unit * f64::from(scales[place(at)])) as f32).collect();
        let rounded = Tensor::from_vec(matrix.shape(), rounded)?;
        Ok(Scaled { values: units, scales: Tensor::from_vec(&shape, scales)?, rounded })
    }
}
