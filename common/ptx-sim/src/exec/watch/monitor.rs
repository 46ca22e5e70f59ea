//! Observers of a launch. The executor is compiled for each [`Monitor`], so that a plain launch pays for none of it.

use super::sanitise::Sanitiser;
use super::tracer::Tracer;
use crate::exec::state::block::Block;
use crate::exec::state::scene::Scene;
use crate::exec::state::warp::{Split, Warp};

/// Receives the executor's reports of a launch.
pub(crate) trait Monitor: Send {
    /// Called before an instruction is executed.
    fn issue(&mut self, scene: &Scene<'_, '_>);

    /// Called after an instruction, when the warp goes on with the next. Not called for jumps, exits and waits.
    fn after(&mut self, scene: &Scene<'_, '_>);

    /// Called when lanes of a warp take their turn, or have entered or left a function.
    fn enters(&mut self, block: &Block, warp: &Warp, split: &Split);

    /// Called when lanes of a warp go on after a barrier.
    fn released(&mut self, block: &Block, warp: u32, lanes: u32, barrier: u32);

    /// The sanitiser that checks accesses, if there is one.
    fn sanitiser(&mut self) -> Option<&mut Sanitiser>;

    /// The tracer that records the block, if there is one.
    fn tracer(&mut self) -> Option<&mut Tracer>;
}

/// Watches nothing.
pub(crate) struct Plain;

impl Monitor for Plain {
    #[inline(always)]
    fn issue(&mut self, _: &Scene<'_, '_>) {}

    #[inline(always)]
    fn after(&mut self, _: &Scene<'_, '_>) {}

    #[inline(always)]
    fn enters(&mut self, _: &Block, _: &Warp, _: &Split) {}

    #[inline(always)]
    fn released(&mut self, _: &Block, _: u32, _: u32, _: u32) {}

    #[inline(always)]
    fn sanitiser(&mut self) -> Option<&mut Sanitiser> {
        None
    }

    #[inline(always)]
    fn tracer(&mut self) -> Option<&mut Tracer> {
        None
    }
}
