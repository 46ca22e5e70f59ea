//! A launch that is watched: by a sanitiser, a profiler, a trace or a debugger.

pub(crate) mod debugger;
pub(crate) mod flights;
pub(crate) mod in_flight;
pub(crate) mod monitor;
pub(crate) mod profiler;
pub(crate) mod sanitise;
pub(crate) mod tmem_checks;
pub(crate) mod touched;
pub(crate) mod touches;
pub(crate) mod tracer;
pub(crate) mod undefined;
pub(crate) mod wgmma_checks;
pub(crate) mod written;

use self::debugger::Debugger;
use self::monitor::Monitor;
use self::profiler::Profiler;
use self::sanitise::Sanitiser;
use self::tracer::Tracer;
use crate::exec::state::block::Block;
use crate::exec::state::scene::Scene;
use crate::exec::state::warp::{Split, Warp};

/// Watches everything that was requested.
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
        if let Some(sanitiser) = &mut self.sanitiser {
            sanitiser.issue(scene);
        }
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
        if let Some(tracer) = &mut self.tracer {
            tracer.after(scene);
        }
        if let Some(debugger) = &mut self.debugger {
            debugger.after(scene);
        }
    }

    #[inline(always)]
    fn enters(&mut self, block: &Block, warp: &Warp, split: &Split) {
        if let Some(sanitiser) = &mut self.sanitiser {
            sanitiser.enters(block, warp, split);
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

    #[inline(always)]
    fn tracer(&mut self) -> Option<&mut Tracer> {
        self.tracer.as_deref_mut()
    }
}
