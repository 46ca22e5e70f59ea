//! The modifiers of matrix instructions, and the shapes that each element type has.

use crate::scalar::{Rounding, Scalar};

/// D (m × n) = A (m × k) · B (k × n) + C.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Shape {
    pub(super) m: usize,
    pub(super) n: usize,
    pub(super) k: usize,
}

impl Shape {
    /// `m16n8k16`
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (m, rest) = text.strip_prefix('m')?.split_once('n')?;
        let (n, k) = rest.split_once('k')?;
        Some(Self { m: m.parse().ok()?, n: n.parse().ok()?, k: k.parse().ok()? })
    }

    pub(super) fn is(self, m: usize, n: usize, k: usize) -> bool {
        self == Self { m, n, k }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Major {
    Row,
    Column,
}

/// Operation of single-bit products.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum BitOp {
    Xor,
    And,
}

/// The modifiers of a matrix instruction, sorted by kind: ptxas takes the kinds in any order, but within a kind the
/// order counts.
#[derive(Default)]
pub(super) struct Modifiers {
    pub(super) shape: Option<Shape>,
    pub(super) majors: Vec<Major>,
    pub(super) numbers: Vec<Scalar>,
    pub(super) saturate: bool,
    pub(super) bit_op: Option<BitOp>,
    pub(super) popc: bool,
    pub(super) rounding: Option<Rounding>,
    pub(super) sparsity: Option<Sparsity>,
}

/// Order in which the metadata of a sparse A may list the kept elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Sparsity {
    AnyOrder,
    /// `::ordered_metadata`: ascending.
    Ascending,
}

impl Modifiers {
    pub(super) fn parse(modifiers: &[&str]) -> Result<Self, String> {
        let mut found = Self::default();
        for &text in modifiers {
            match text {
                "sync" | "aligned" => {}
                "row" => found.majors.push(Major::Row),
                "col" => found.majors.push(Major::Column),
                "satfinite" => found.saturate = true,
                "xor" => found.bit_op = Some(BitOp::Xor),
                "and" => found.bit_op = Some(BitOp::And),
                "popc" => found.popc = true,
                "sp" => found.sparsity = Some(Sparsity::AnyOrder),
                "sp::ordered_metadata" => found.sparsity = Some(Sparsity::Ascending),
                "rn" => found.rounding = Some(Rounding::Nearest),
                "rz" => found.rounding = Some(Rounding::Zero),
                "rm" => found.rounding = Some(Rounding::Down),
                "rp" => found.rounding = Some(Rounding::Up),
                _ => {
                    if let Some(number) = Scalar::element(text) {
                        found.numbers.push(number);
                    } else if let (None, Some(shape)) = (found.shape, Shape::parse(text)) {
                        found.shape = Some(shape);
                    } else {
                        return Err(format!("modifier `.{text}`"));
                    }
                }
            }
        }
        Ok(found)
    }
}

/// Name of a set of known modifiers that does not exist together.
pub(super) fn combination(modifiers: &[&str]) -> String {
    format!("combination `.{}`", modifiers.join("."))
}

const fn shape(m: usize, n: usize, k: usize) -> Shape {
    Shape { m, n, k }
}

/// Shapes of `mma` for these multiplicands.
pub(super) fn mma_shapes(multiplicand: Scalar) -> &'static [Shape] {
    match multiplicand.family() {
        Scalar::F16 => const { &[shape(8, 8, 4), shape(16, 8, 8), shape(16, 8, 16)] },
        Scalar::Bf16 => const { &[shape(16, 8, 8), shape(16, 8, 16)] },
        Scalar::Tf32 => const { &[shape(16, 8, 4), shape(16, 8, 8)] },
        Scalar::E4m3 => const { &[shape(16, 8, 16), shape(16, 8, 32)] },
        Scalar::F64 => const { &[shape(8, 8, 4), shape(16, 8, 4), shape(16, 8, 8), shape(16, 8, 16)] },
        Scalar::S8 => const { &[shape(8, 8, 16), shape(16, 8, 16), shape(16, 8, 32)] },
        Scalar::S4 => const { &[shape(8, 8, 32), shape(16, 8, 32), shape(16, 8, 64)] },
        Scalar::B1 => const { &[shape(8, 8, 128), shape(16, 8, 128), shape(16, 8, 256)] },
        _ => &[],
    }
}

/// Shapes of `mma.sp` for these multiplicands.
pub(super) fn sparse_shapes(multiplicand: Scalar) -> &'static [Shape] {
    match multiplicand.family() {
        Scalar::F16 | Scalar::Bf16 => const { &[shape(16, 8, 16), shape(16, 8, 32)] },
        Scalar::Tf32 => const { &[shape(16, 8, 8), shape(16, 8, 16)] },
        Scalar::E4m3 => const { &[shape(16, 8, 64)] },
        Scalar::S8 => const { &[shape(16, 8, 32), shape(16, 8, 64)] },
        Scalar::S4 => const { &[shape(16, 8, 64), shape(16, 8, 128)] },
        _ => &[],
    }
}

/// Shapes of `wmma` for these multiplicands.
pub(super) fn wmma_shapes(multiplicand: Scalar) -> &'static [Shape] {
    match multiplicand.family() {
        Scalar::F16 | Scalar::Bf16 | Scalar::S8 => const { &[shape(16, 16, 16), shape(8, 32, 16), shape(32, 8, 16)] },
        Scalar::Tf32 => const { &[shape(16, 16, 8)] },
        Scalar::F64 => const { &[shape(8, 8, 4)] },
        Scalar::S4 => const { &[shape(8, 8, 32)] },
        Scalar::B1 => const { &[shape(8, 8, 128)] },
        _ => &[],
    }
}
