//! What may watch a launch: nothing, or a sanitiser, a profiler and a trace. The executor is compiled for both, so that a
//! plain launch pays for none of it.

use super::debugger::Debugger;
use super::lanes::Rows;
use super::profiler::Profiler;
use super::sanitise::Sanitiser;
use super::tracer::Tracer;
use super::warp::Warp;
use super::{Block, Launch};

/// A warp about to execute an instruction.
pub(crate) struct Scene<'s, 'l> {
    pub launch: &'s Launch<'l>,
    pub block: &'s Block,
    pub warp: &'s Warp,
    /// Registers of the function the warp is in.
    pub rows: Rows,
    /// The first of its predicates among the warp's.
    pub frame_predicates: u32,
    /// Offset of the function's frame in local memory.
    pub frame_local: u32,
    pub pc: usize,
    /// Lanes that run together.
    pub mask: u32,
    /// Those of them that the instruction's guard lets take part.
    pub active: u32,
}

/// What the executor tells of a launch.
pub(crate) trait Monitor: Send {
    /// An instruction is about to be executed.
    fn issue(&mut self, scene: &Scene<'_, '_>);

    /// The instruction has been executed, and the warp goes on with the next. Not told of jumps, exits and waits.
    fn after(&mut self, scene: &Scene<'_, '_>);

    /// Lanes of a warp go on after a barrier.
    fn released(&mut self, block: &Block, warp: u32, lanes: u32, barrier: u32);

    /// Who checks accesses, if anybody does.
    fn sanitiser(&mut self) -> Option<&mut Sanitiser>;
}

/// Watches nothing.
pub(crate) struct Plain;

impl Monitor for Plain {
    #[inline(always)]
    fn issue(&mut self, _: &Scene<'_, '_>) {}

    #[inline(always)]
    fn after(&mut self, _: &Scene<'_, '_>) {}

    #[inline(always)]
    fn released(&mut self, _: &Block, _: u32, _: u32, _: u32) {}

    #[inline(always)]
    fn sanitiser(&mut self) -> Option<&mut Sanitiser> {
        None
    }
}

/// Watches what it was asked to.
#[derive(Default)]
pub(crate) struct Watch {
    pub sanitiser: Option<Box<Sanitiser>>,
    pub profiler: Option<Box<Profiler>>,
    pub tracer: Option<Box<Tracer>>,
    pub debugger: Option<Box<Debugger>>,
}

impl Monitor for Watch {
    #[inline(always)]
    fn issue(&mut self, scene: &Scene<'_, '_>) {
        if let Some(profiler) = &mut self.profiler {
            profiler.issue(scene);
        }
        if let Some(tracer) = &mut self.tracer {
            tracer.issue(scene);
        }
        if let Some(debugger) = &mut self.debugger {
            debugger.issue(scene);
        }
    }

    #[inline(always)]
    fn after(&mut self, scene: &Scene<'_, '_>) {
        if let Some(debugger) = &mut self.debugger {
            debugger.after(scene);
        }
    }

    #[inline(always)]
    fn released(&mut self, block: &Block, warp: u32, lanes: u32, barrier: u32) {
        if let Some(tracer) = &mut self.tracer {
            tracer.released(block, warp, lanes, barrier);
        }
    }

    #[inline(always)]
    fn sanitiser(&mut self) -> Option<&mut Sanitiser> {
        self.sanitiser.as_deref_mut()
    }
}
