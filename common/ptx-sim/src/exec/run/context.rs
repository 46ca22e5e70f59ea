//! Context of an instruction that is not plain arithmetic.

use crate::exec::state::block::Block;
use crate::exec::state::launch::{At, Launch};
use crate::exec::state::place::{Part, Place};
use crate::exec::state::poll::Poll;
use crate::exec::state::problem::Problem;
use crate::exec::state::rows::Rows;
use crate::exec::state::warp::{Frame, Warp};
use crate::exec::watch::monitor::Monitor;
use crate::ir::P;

/// Context of an instruction that is not plain arithmetic.
pub(crate) struct Context<'c, 'l, M> {
    pub warp: &'c mut Warp,
    pub block: &'c mut Block,
    pub launch: &'c Launch<'l>,
    pub frame: Frame,
    pub monitor: &'c mut M,
    pub pc: usize,
}

impl<'c, M: Monitor> Context<'c, '_, M> {
    #[inline(always)]
    pub(crate) fn at(&self) -> At<'c> {
        At { launch: self.launch, block: self.block.index, warp: self.warp.number, pc: self.pc }
    }

    /// Hands a problem to the sanitiser, which goes on; without a sanitiser it is an error.
    #[cold]
    #[inline(never)]
    pub(crate) fn report(&mut self, problem: Box<Problem>) -> Result<(), Box<Problem>> {
        let at = self.at();
        match self.monitor.sanitiser() {
            Some(sanitiser) => {
                sanitiser.report(at, *problem);
                Ok(())
            }
            None => Err(problem),
        }
    }

    /// Notes that lanes of `part` read memory that another thread may be about to write.
    pub(crate) fn ask(&mut self, part: &Part<'_>, addresses: &[u64; 32], bytes: u64) {
        if part.mask == 0 || matches!(part.place, Place::Local) {
            return; // not read at all, or written by the thread itself
        }
        let (pc, frame, lane) = (self.pc, self.frame, part.mask.trailing_zeros() as usize);
        let address = addresses[lane];
        let shared = matches!(part.place, Place::Shared).then(|| address.wrapping_sub(part.base));
        self.warp.ask(|| Poll { pc, frame, lane, address, bytes, shared });
    }

    pub(crate) fn rows(&mut self) -> Rows {
        self.warp.frame_rows(self.frame)
    }

    pub(crate) fn predicate(&mut self, p: P) -> &mut u32 {
        &mut self.warp.predicates[(self.frame.predicates + p) as usize]
    }

    /// Offset of the frame in local memory.
    pub(crate) fn frame_local(&self) -> u32 {
        self.frame.local
    }
}

/// Progress of a warp at an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Done,
    /// The instruction is done when other warps of the warpgroup have reached it.
    WaitForWarps,
    /// It is to come again: what it asks for is not there.
    Again,
}

/// A problem and the instruction it happened at.
pub(crate) type Fail = (Box<Problem>, usize);

/// Reason why a split stopped running.
pub(super) enum Stop {
    /// Its turn is over.
    Quantum,
    /// It yields: the thing it asked for is not there yet.
    Yield,
    /// It waits; its state gives the reason.
    Wait,
    /// Its lanes are gone: exited, or waiting at a join.
    Gone,
}
