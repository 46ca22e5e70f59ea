//! A moment of a launch, from a monitor's point of view.

use super::block::Block;
use super::launch::{At, Launch};
use super::rows::Rows;
use super::warp::{Frame, Warp};

/// A warp about to execute an instruction.
pub(crate) struct Scene<'s, 'l> {
    pub launch: &'s Launch<'l>,
    pub block: &'s Block,
    pub warp: &'s Warp,
    /// Registers of the function the warp is in.
    pub rows: Rows,
    /// The first of them among the warp's.
    pub frame_rows: u32,
    /// The first of its predicates among the warp's.
    pub frame_predicates: u32,
    /// Offset of the function's frame in local memory.
    pub frame_local: u32,
    pub pc: usize,
    /// Lanes that run together.
    pub mask: u32,
    /// Lanes for which the instruction's guard is true.
    pub active: u32,
}

impl<'s, 'l> Scene<'s, 'l> {
    /// Lanes of a warp that execute an instruction together, none of them held back by its guard.
    pub(crate) fn together(
        launch: &'s Launch<'l>,
        block: &'s Block,
        warp: &'s mut Warp,
        frame: Frame,
        pc: usize,
        lanes: u32,
    ) -> Self {
        let rows = warp.frame_rows(frame);
        Self {
            launch,
            block,
            warp,
            rows,
            frame_rows: frame.rows,
            frame_predicates: frame.predicates,
            frame_local: frame.local,
            pc,
            mask: lanes,
            active: lanes,
        }
    }

    /// The location of the instruction.
    pub(crate) fn at(&self) -> At<'s> {
        At { launch: self.launch, block: self.block.index, warp: self.warp.number, pc: self.pc }
    }
}
