//! Contents of a barrier in shared memory (PTX ISA, "mbarrier").
//!
//! The object is the 64 bits that the kernel set aside for it, so that it needs no table and dies with its block. PTX
//! leaves the layout open; here it is this:
//!
//! ```text
//!   bit   63 62 │ 61    │ 60 … 40                  │ 39 … 20                 │ 19 … 0
//!         1  0  │ phase │ transactions, signed (0) │ arrivals of each phase  │ arrivals that are missing
//! ```
//!
//! The state that an arrival returns is the object as it was before. A phase ends when no arrival is missing and no
//! transaction is under way: then its bit changes, and the next one misses all its arrivals.

use super::block::Block;
use crate::ir::MBARRIER_COUNTS;

/// An mbarrier, decoded from its 64 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct State {
    pub(crate) phase: bool,
    /// Bytes that transactions have yet to bring; negative if they came before they were announced.
    pub(crate) transactions: i32,
    pub(crate) expected: u32,
    pub(crate) missing: u32,
}

/// Bits 63 and 62 of a valid object.
const VALID: u64 = 0b10;
const COUNT_BITS: u32 = MBARRIER_COUNTS.count_ones();

impl State {
    pub(crate) fn decode(bits: u64) -> Option<Self> {
        (bits >> 62 == VALID).then_some(Self {
            phase: bits >> 61 & 1 == 1,
            transactions: ((bits << 3) as i64 >> (3 + 2 * COUNT_BITS)) as i32,
            expected: (bits >> COUNT_BITS) as u32 & MBARRIER_COUNTS,
            missing: bits as u32 & MBARRIER_COUNTS,
        })
    }

    pub(crate) fn encode(self) -> u64 {
        let Self { phase, transactions, expected, missing } = self;
        let transactions = (transactions as u64) << (3 + 2 * COUNT_BITS) >> 3;
        VALID << 62 | u64::from(phase) << 61 | transactions | u64::from(expected) << COUNT_BITS | u64::from(missing)
    }

    /// The state after `count` arrivals, and whether they end the phase.
    pub(crate) fn arrived(mut self, count: u32) -> (Self, bool) {
        self.missing -= count;
        self.settled()
    }

    /// The state in the next phase, if nothing is missing in this one.
    pub(crate) fn settled(mut self) -> (Self, bool) {
        let ends = self.missing == 0 && self.transactions == 0;
        if ends {
            self.phase = !self.phase;
            self.missing = self.expected;
        }
        (self, ends)
    }
}

/// Whether the phase of the object at `at` in shared memory is odd, for callers that only look; `None`: there is no
/// object.
pub(crate) fn phase_at(block: &Block, at: u64) -> Option<bool> {
    let word = block.shared.get((at / 16) as usize).filter(|_| at.is_multiple_of(8))?;
    State::decode((word.to_le() >> (at % 16 * 8)) as u64).map(|state| state.phase)
}
