//! `setmaxnreg`: the warps of a block hand registers to one another. Released registers go to the block's pool, and a warp that
//! asks for more waits until the pool has them.
//!
//! The pool is known if the kernel says `.maxnreg`: each thread begins with that number. Otherwise the compiler chose, and only
//! this is certain: each thread began with the same multiple of 8, at most 256, and an SM had registers for all.

use super::launch::Launch;
use super::warp::{Split, State, Warp};
use crate::ir::*;

/// 32-bit registers of an SM of sm_90.
const REGISTERS: u32 = 64 << 10;

/// Registers of a block.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Pool {
    /// Maximum that its warps may hold together.
    total: u32,
    /// Registers that are known to be held.
    held: u32,
}

impl Pool {
    pub(crate) fn new(launch: &Launch<'_>) -> Self {
        let threads = launch.threads().next_multiple_of(32);
        match launch.registers() {
            Some(count) => Self { total: count * threads, held: count * threads },
            None => Self { total: (REGISTERS / threads / 8 * 8).min(256) * threads, held: 0 },
        }
    }

    /// Releases the registers of a warp that has ended.
    pub(crate) fn release(&mut self, warp: &mut Warp) {
        self.held -= 32 * std::mem::take(&mut warp.registers);
    }

    /// Describes the registers that the warps hold.
    pub(crate) fn describe(self) -> String {
        format!("the block's warps hold {} of {} registers", self.held, self.total)
    }

    /// Sets the registers of each thread of a warp; returns whether the pool has them.
    pub(crate) fn set(&mut self, warp: &mut Warp, count: u32, increases: bool) -> bool {
        let after = self.held - 32 * warp.registers + 32 * count;
        if increases && after > self.total {
            return false;
        }
        self.held = after;
        warp.registers = count;
        true
    }

    /// Lets lanes go on that waited for registers, if the pool has them now.
    #[cold]
    pub(crate) fn resume(&mut self, warp: &mut Warp, launch: &Launch<'_>) -> bool {
        let waits = |split: &&mut Split| split.state == State::Registers;
        let Some(pc) = warp.splits.iter_mut().find(waits).map(|split| split.pc) else { return false };
        let Op::SetRegisters { count, increases } = launch.program.code[pc as usize].op else { return false };
        if !self.set(warp, count, increases) {
            return false;
        }
        for split in warp.splits.iter_mut().filter(waits).filter(|split| split.pc == pc) {
            split.pc += 1;
            split.state = State::Ready;
        }
        true
    }
}
