//! Sparse multiplicands: the kept elements of A, from its metadata (PTX ISA, "Sparse matrix storage" and "Matrix
//! fragments for multiply-accumulate operation with sparse matrix A").
//!
//! A row of A is cut into chunks, of which half is kept: 2 of 4 elements of 16 or 8 bits, 2 of 4 pairs of 4-bit elements,
//! 1 of 2 of tf32. A chunk has four bits of metadata, the first chunk of a row the lowest: two indices of two bits, or for
//! tf32 the one index as `0100` or `1110`. In a group of four lanes, g = lane / 4, these hold the bits of rows g and g + 8,
//! counted from the lane that the sparsity selector names:
//!
//! ```text
//!   elements of 16 and 32 bits               elements of 8 and 4 bits
//!          bits 0–15 of lane   bits 16–31        lane 0: row g, first 32 bits      lane 2: row g, next 32 bits
//!   lane 0: row g, first 16    row g + 8         lane 1: row g + 8, first 32 bits  lane 3: row g + 8, next 32 bits
//!   lane 1: row g, next 16     row g + 8
//! ```

use super::layout::Lanes;
use super::modifiers::Sparsity;
use crate::scalar::Scalar;

/// Format of an instruction's metadata. A has 16 rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Sparse {
    element_bits: usize,
    /// Elements of a row of the dense A.
    k: usize,
    order: Sparsity,
    /// The first lane of a group that holds metadata.
    first: usize,
}

/// Metadata that PTX leaves undefined.
#[derive(Clone, Debug)]
pub(crate) struct InvalidMetadata {
    /// Lane that holds it.
    pub(crate) lane: usize,
    /// A sentence.
    pub(crate) message: String,
}

impl Sparse {
    /// The error names a selector that does not exist.
    pub(super) fn new(multiplicand: Scalar, k: usize, order: Sparsity, selector: u64) -> Result<Self, String> {
        let element_bits = multiplicand.bits() as usize;
        let mut sparse = Self { element_bits, k, order, first: 0 };
        // Two rows of metadata fill this many of a group's four lanes, 32 bits each.
        let lanes = sparse.row_bits() / 16;
        match usize::try_from(selector) {
            Ok(selector) if selector < 4 / lanes => sparse.first = selector * lanes,
            _ => return Err(format!("sparsity selector {selector}")),
        }
        Ok(sparse)
    }

    /// Bits of metadata of a row.
    fn row_bits(self) -> usize {
        match self.element_bits {
            32 => self.k * 2,
            4 => self.k / 2,
            _ => self.k,
        }
    }

    /// The lane and the lowest bit of a chunk's four.
    fn chunk_at(self, row: usize, chunk: usize) -> (usize, usize) {
        let (group, high, bit) = (row % 8 * 4 + self.first, row / 8, chunk * 4);
        match self.element_bits {
            16 | 32 => (group + bit / 16, high * 16 + bit % 16),
            _ => (group + bit / 32 * 2 + high, bit % 32),
        }
    }

    /// The place in its row of each kept element, by [row, kept element].
    pub(super) fn places(self, metadata: &Lanes) -> Result<Vec<u8>, InvalidMetadata> {
        let mut places = Vec::with_capacity(16 * self.k / 2);
        for row in 0..16 {
            for chunk in 0..self.row_bits() / 4 {
                let (lane, bit) = self.chunk_at(row, chunk);
                let bits = (metadata[lane] >> bit & 0xf) as u8;
                let [low, high] = [bits & 3, bits >> 2];
                let invalid = |why: &str| InvalidMetadata {
                    lane,
                    message: format!("the metadata of row {row} of A has {bits:#06b} for chunk {chunk}, {why}"),
                };
                let chunk = chunk as u8;
                match self.element_bits {
                    32 => places.push(match bits {
                        0b0100 => chunk * 2,
                        0b1110 => chunk * 2 + 1,
                        _ => return Err(invalid("which is neither 0b0100 nor 0b1110")),
                    }),
                    _ if low == high => return Err(invalid("which keeps one place twice")),
                    _ if self.order == Sparsity::Ascending && low > high => {
                        return Err(invalid("whose indices do not ascend, as `::ordered_metadata` promises"));
                    }
                    4 => {
                        places.extend([low, high].into_iter().flat_map(|pair| [0, 1].map(|i| chunk * 8 + pair * 2 + i)))
                    }
                    _ => places.extend([low, high].map(|index| chunk * 4 + index)),
                }
            }
        }
        Ok(places)
    }
}
