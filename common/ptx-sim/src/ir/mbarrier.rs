//! Barriers that are objects in shared memory.

use super::access::{Address, Order, Scope};
use super::facts::{Facts, note_operand, operand, operations};
use super::op::{P, R};
use super::work::{Class, Work};

/// An instruction on an mbarrier, a barrier that is an object in shared memory (PTX ISA, "mbarrier").
#[derive(Clone, Debug)]
pub(crate) struct Mbarrier {
    pub address: Address,
    pub op: MbarrierOp,
    pub order: Order,
    /// How far an arrival hands over, as written. Only a strict sanitiser asks.
    pub scope: Scope,
}

impl Mbarrier {
    pub(super) fn note(&self, facts: &mut Facts) {
        self.op.note(facts);
        facts.read(self.address.row());
    }
}

operations! {
    #[derive(Clone, Copy, Debug)]
    pub(crate) enum MbarrierOp {
        acts Barrier {
            Init {
                /// Number of arrivals that complete a phase.
                count: read,
            };
            Inval;
            Arrive {
                /// The state before, of 64 bits.
                d: maybe_write,
                /// Number of arrivals; `None`: one.
                count: maybe_read,
                /// `arrive_drop`: later phases expect fewer arrivals.
                drop: is(bool),
                /// `.noComplete`: the phase must not end.
                no_complete: is(bool),
                /// Number of additional bytes that the phase waits for.
                expect: maybe_read,
            };
            /// `expect_tx` and `complete_tx`: a number of bytes that the phase waits for, or that have come.
            Transactions { bytes: read, complete: is(bool) };
            /// `test_wait`, `try_wait`
            Wait { p: maybe_set, phase: read_of(MbarrierPhase) };
            /// `cp.async.mbarrier.arrive`: an arrival when the thread's copies so far are there.
            ArriveWhenCopied {
                /// Without `.noinc` the phase waits for one arrival more.
                increments: is(bool),
            };
        }
    }
}

/// The phase whose end a thread waits for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum MbarrierPhase {
    /// Row, of 64 bits, of a state that an arrival returned.
    State(R),
    /// Row of the phase's number modulo 2.
    Parity(R),
}

impl MbarrierPhase {
    fn row(self) -> R {
        match self {
            Self::State(row) | Self::Parity(row) => row,
        }
    }
}
