//! The types that tensor cores multiply.

use std::fmt;

use common::device::TensorElement;
use common::prelude::*;

use super::Layout;

/// Operand type of a product; sums are f32, or i32 for integers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Precision {
    /// IEEE binary16; result of the same type.
    F16,
    /// The upper half of an f32; result of the same type.
    Bf16,
    /// f32 in memory, of which 19 bits are multiplied; result f32.
    Tf32,
    /// Eight bits, 4 of them exponent; result f16.
    E4M3,
    /// The same with a scale for each block of values ([`super::Scales`]); result bf16.
    ScaledE4M3,
    /// Signed 8-bit integers; result i32.
    S8,
}

impl Precision {
    /// All of them.
    pub const ALL: [Precision; 6] =
        [Precision::F16, Precision::Bf16, Precision::Tf32, Precision::E4M3, Precision::ScaledE4M3, Precision::S8];
    /// Types of 16 bits, which all steps support.
    pub const HALVES: &[Precision] = &[Precision::F16, Precision::Bf16];

    /// The type of A and B in memory.
    pub fn input(self) -> ElementType {
        match self {
            Precision::F16 => ElementType::F16,
            Precision::Bf16 => ElementType::BF16,
            Precision::Tf32 => ElementType::F32,
            Precision::E4M3 | Precision::ScaledE4M3 => ElementType::F8E4M3,
            Precision::S8 => ElementType::I8,
        }
    }

    /// The type of C.
    pub fn output(self) -> ElementType {
        match self {
            Precision::F16 | Precision::E4M3 => ElementType::F16,
            Precision::Bf16 | Precision::ScaledE4M3 => ElementType::BF16,
            Precision::Tf32 => ElementType::F32,
            Precision::S8 => ElementType::I32,
        }
    }

    /// The precision whose A and C have these types.
    pub fn of(input: ElementType, output: ElementType) -> Option<Precision> {
        Precision::ALL.into_iter().find(|precision| (precision.input(), precision.output()) == (input, output))
    }

    /// The layouts of B that tensor cores support: they read types of other than 16 bits only along K.
    pub fn layouts(self) -> &'static [Layout] {
        match self {
            Precision::F16 | Precision::Bf16 => &Layout::ALL,
            Precision::Tf32 | Precision::E4M3 | Precision::ScaledE4M3 | Precision::S8 => &[Layout::Transposed],
        }
    }

    /// A matrix of this type: distinct values in (−1, 1), rounded to it; for integers, all values.
    ///
    /// # Errors
    /// None: the values are on the host.
    pub fn random(self, shape: &[usize], seed: u64) -> Result<Tensor> {
        let values = Tensor::random(shape, seed);
        let values = match self {
            Precision::S8 => {
                let scaled = values.into_vec()?.into_iter().map(|value| (value * 128.0).floor()).collect();
                Tensor::from_vec(shape, scaled)?
            }
            _ => values,
        };
        values.to_type(self.input())
    }

    /// The kernels' suffix for it.
    pub(crate) fn suffix(self) -> &'static str {
        match self {
            Precision::F16 => "f16",
            Precision::Bf16 => "bf16",
            Precision::Tf32 => "tf32",
            Precision::E4M3 => "e4m3",
            Precision::ScaledE4M3 => "scaled_e4m3",
            Precision::S8 => "s8",
        }
    }

    /// Its struct in `elements.cuh`.
    pub(crate) fn class(self) -> &'static str {
        match self {
            Precision::F16 => "F16",
            Precision::Bf16 => "BF16",
            Precision::Tf32 => "TF32",
            Precision::E4M3 => "E4M3",
            Precision::ScaledE4M3 => "ScaledE4M3",
            Precision::S8 => "S8",
        }
    }
}

impl fmt::Display for Precision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Precision::ScaledE4M3 => "scaled e4m3",
            other => other.suffix(),
        })
    }
}

/// The type in tensor maps, which need not know more about bytes.
pub(crate) fn in_maps(element: ElementType) -> TensorElement {
    match element {
        ElementType::F32 => TensorElement::F32,
        ElementType::F16 => TensorElement::F16,
        ElementType::BF16 => TensorElement::Bf16,
        ElementType::F8E4M3 | ElementType::I8 => TensorElement::U8,
        ElementType::I32 => TensorElement::S32,
    }
}
