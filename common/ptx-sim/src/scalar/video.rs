//! The video instructions (PTX ISA, "Scalar Video Instructions", "SIMD Video Instructions"): arithmetic on bytes and halves
//! of 32-bit registers, with a second operation on a third operand.

use super::Relation;

/// First operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VideoOp {
    /// `vadd`
    Add,
    /// `vsub`
    Sub,
    /// `vabsdiff`
    AbsDiff,
    /// `vmin`
    Min,
    /// `vmax`
    Max,
    /// `vavrg`: half of the sum, ties up.
    Average,
    /// `vset`: 1 or 0.
    Set(Relation),
    /// `vshl`, by at most 32 or modulo 32.
    Shl {
        /// `.wrap`
        wrap: bool,
    },
    /// `vshr`
    Shr {
        /// `.wrap`
        wrap: bool,
    },
}

/// The part of a register that an operand selects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Select {
    /// All of it.
    Word,
    /// `.h0`, `.h1`
    Half(u8),
    /// `.b0` to `.b3`
    Byte(u8),
}

impl Select {
    /// The selector of that name, without its dot.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Some(match name {
            "h0" => Self::Half(0),
            "h1" => Self::Half(1),
            "b0" => Self::Byte(0),
            "b1" => Self::Byte(1),
            "b2" => Self::Byte(2),
            "b3" => Self::Byte(3),
            _ => return None,
        })
    }

    /// Width in bits, and the lowest of them.
    fn bits(self) -> (u32, u32) {
        match self {
            Self::Word => (32, 0),
            Self::Half(at) => (16, u32::from(at) * 16),
            Self::Byte(at) => (8, u32::from(at) * 8),
        }
    }

    fn extract(self, word: u32, signed: bool) -> i128 {
        let (width, at) = self.bits();
        extend(word >> at, width, signed)
    }
}

/// Operation of a scalar video instruction with its third operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Second {
    /// None.
    None,
    /// The sum with it.
    Add,
    /// The smaller of the two.
    Min,
    /// The larger of the two.
    Max,
    /// Inserts the result into that part of it.
    Merge(Select),
}

/// Right shift of `vmad`'s result.
pub type Scale = u8;

/// A video instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Video {
    /// `vadd` … `vset`
    Scalar {
        /// Computation.
        op: VideoOp,
        /// Whether d, a and b have a sign.
        signed: [bool; 3],
        /// `.sat`
        saturate: bool,
        /// The parts of a and b.
        select: [Select; 2],
        /// The third operand.
        second: Second,
    },
    /// `vmad`
    Mad {
        /// Whether a and b have a sign.
        signed: [bool; 2],
        /// `.sat`
        saturate: bool,
        /// The parts of a and b.
        select: [Select; 2],
        /// Whether the product (one of a and b) and c are negated.
        negate: [bool; 2],
        /// `.po`: one more.
        plus_one: bool,
        /// `.shr7`, `.shr15`
        scale: Scale,
    },
    /// `vadd2` … `vset4`
    Simd {
        /// Computation; never a shift.
        op: VideoOp,
        /// Elements: 2 or 4.
        count: u8,
        /// Whether d, a and b have a sign.
        signed: [bool; 3],
        /// `.sat`
        saturate: bool,
        /// For each element, the index of its source among the elements of a (from 0) and then b.
        select: [[u8; 4]; 2],
        /// A bit for each element that is written, or added.
        mask: u8,
        /// `.add`: the sum of the elements and c.
        add: bool,
    },
}

/// The low `width` bits as a number.
fn extend(word: u32, width: u32, signed: bool) -> i128 {
    let shift = 32 - width;
    if signed { i128::from(((word << shift) as i32) >> shift) } else { i128::from((word << shift) >> shift) }
}

fn clamp(value: i128, width: u32, signed: bool) -> i128 {
    let (low, high) = if signed { (-(1 << (width - 1)), (1 << (width - 1)) - 1) } else { (0, (1 << width) - 1) };
    value.clamp(low, high)
}

impl VideoOp {
    fn apply(self, a: i128, b: i128) -> i128 {
        match self {
            Self::Add => a + b,
            Self::Sub => a - b,
            Self::AbsDiff => (a - b).abs(),
            Self::Min => a.min(b),
            Self::Max => a.max(b),
            Self::Average => {
                let sum = a + b;
                (if sum >= 0 { sum + 1 } else { sum }) >> 1
            }
            Self::Set(relation) => i128::from(relation.holds(a, b)),
            Self::Shl { wrap } => a << distance(b, wrap),
            Self::Shr { wrap } => a >> distance(b, wrap),
        }
    }
}

fn distance(b: i128, wrap: bool) -> u32 {
    if wrap { (b & 31) as u32 } else { b.clamp(0, 32) as u32 }
}

impl Video {
    /// One lane's result.
    #[must_use]
    pub fn compute(&self, a: u32, b: u32, c: u32) -> u32 {
        match *self {
            Self::Scalar { op, signed: [d_signed, a_signed, b_signed], saturate, select: [a_part, b_part], second } => {
                let mut result = op.apply(a_part.extract(a, a_signed), b_part.extract(b, b_signed));
                if saturate {
                    let width = if let Second::Merge(part) = second { part.bits().0 } else { 32 };
                    result = clamp(result, width, d_signed);
                }
                let word = result as u32;
                let ordered = |word: u32| extend(word, 32, d_signed);
                match second {
                    Second::None => word,
                    Second::Add => word.wrapping_add(c),
                    Second::Min => ordered(word).min(ordered(c)) as u32,
                    Second::Max => ordered(word).max(ordered(c)) as u32,
                    Second::Merge(part) => {
                        let (width, at) = part.bits();
                        let mask = ((1u64 << width) - 1) << at;
                        (u64::from(c) & !mask | u64::from(word) << at & mask) as u32
                    }
                }
            }
            Self::Mad { signed, saturate, select, negate: [product_negated, c_negated], plus_one, scale } => {
                let any_sign = signed[0] || signed[1] || product_negated || c_negated;
                let mut product = select[0].extract(a, signed[0]) * select[1].extract(b, signed[1]);
                let mut c = c;
                let mut low = 0;
                if plus_one {
                    low = 1;
                } else if product_negated {
                    product = !product;
                    low = 1;
                } else if c_negated {
                    c = !c;
                    low = 1;
                }
                let sum = (product + extend(c, 32, any_sign) + low) >> scale;
                (if saturate { clamp(sum, 32, any_sign) } else { sum }) as u32
            }
            Self::Simd { op, count, signed: [d_signed, a_signed, b_signed], saturate, select, mask, add } => {
                let width = 32 / u32::from(count);
                let element = |from: [u8; 4], at: u8, signed| {
                    let number = u32::from(from[usize::from(at)]);
                    let both = u64::from(b) << 32 | u64::from(a);
                    extend((both >> (number * width)) as u32, width, signed)
                };
                let mut d = if add { c } else { 0 };
                for at in 0..count {
                    let place = u32::from(at) * width;
                    let ones = (u32::MAX >> (32 - width)) << place;
                    if mask >> at & 1 == 0 {
                        d |= if add { 0 } else { c & ones };
                        continue;
                    }
                    let mut result = op.apply(element(select[0], at, a_signed), element(select[1], at, b_signed));
                    if saturate {
                        result = clamp(result, width, d_signed);
                    }
                    if add {
                        d = d.wrapping_add(result as u32);
                    } else {
                        d |= (result as u32) << place & ones;
                    }
                }
                d
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn absolute_differences_of_elements() {
        let run = |halves: bool, add| {
            let (count, select, mask) = if halves {
                (2, [[0, 1, 0, 0], [2, 3, 0, 0]], 0b11)
            } else {
                (4, [[0, 1, 2, 3], [4, 5, 6, 7]], 0b1111)
            };
            let (op, signed, saturate) = (VideoOp::AbsDiff, [false; 3], false);
            Video::Simd { op, count, signed, saturate, select, mask, add }.compute(0xff02_80fe, 0x0103_ff05, 1000)
        };
        assert_eq!(run(false, false), 0xfe01_7ff9);
        assert_eq!(run(false, true), 1000 + 0xfe + 0x01 + 0x7f + 0xf9);
        assert_eq!(run(true, false), 0xfdff_7e07);
        assert_eq!(run(true, true), 1000 + 0xfdff + 0x7e07);
    }
}
