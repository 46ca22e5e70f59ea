//! Classes of instructions, as counted by a profiler.

use crate::scalar::{FloatOp, Scalar};

/// Class of an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Loads, stores, atomics and copies; arguments of kernels and calls do not count.
    Memory,
    /// f32 arithmetic and comparisons.
    F32,
    /// f64 arithmetic and comparisons.
    F64,
    /// f16 and bf16 arithmetic and comparisons.
    F16,
    /// Matrix products.
    Tensor,
    /// Integer arithmetic, logic and comparisons.
    Integer,
    /// Conversions between types.
    Conversion,
    /// Branches, calls and ends.
    Control,
    /// Barriers and fences.
    Barrier,
    /// Shuffles, votes and matches.
    Communication,
    /// Moves, selections, special registers, predicate logic.
    Other,
}

impl Class {
    /// All of them, in the order of [`crate::LineProfile::classes`].
    pub const ALL: [Self; 11] = [
        Self::Memory,
        Self::F32,
        Self::F64,
        Self::F16,
        Self::Tensor,
        Self::Integer,
        Self::Conversion,
        Self::Control,
        Self::Barrier,
        Self::Communication,
        Self::Other,
    ];

    /// Name in reports and JSON.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::F32 => "f32",
            Self::F64 => "f64",
            Self::F16 => "f16",
            Self::Tensor => "tensor",
            Self::Integer => "integer",
            Self::Conversion => "conversion",
            Self::Control => "control",
            Self::Barrier => "barrier",
            Self::Communication => "communication",
            Self::Other => "other",
        }
    }
}

impl Class {
    /// The class of arithmetic and comparisons of operands with these types.
    pub(crate) fn of(types: &[Scalar]) -> Self {
        use Scalar::*;
        let any = |of: &[Scalar]| types.iter().any(|ty| of.contains(ty));
        match () {
            () if any(&[F64]) => Self::F64,
            () if any(&[F32, F32x2]) => Self::F32,
            () if any(&[F16, F16x2, Bf16, Bf16x2]) => Self::F16,
            () => Self::Integer,
        }
    }
}

/// Class and floating-point operations of an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Work {
    pub class: Class,
    /// Floating-point operations of one active lane. As in Nsight Compute, only additions, multiplications (1) and fused
    /// multiply-adds (2) count, each for every element of a packed type; a matrix product of m × n × k is 2 m n k per warp.
    pub flops: u32,
}

impl Work {
    /// Work that is not floating-point arithmetic.
    pub(crate) const fn of(class: Class) -> Self {
        Self { class, flops: 0 }
    }

    /// An operation on floats.
    pub(crate) fn float(op: FloatOp, ty: Scalar) -> Self {
        Self { class: Class::of(&[ty]), flops: op.flops() * ty.elements() }
    }
}
