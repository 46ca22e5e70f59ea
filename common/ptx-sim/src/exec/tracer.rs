//! Records what one block does ([`Trace`]).

use std::collections::{HashMap, HashSet};

use super::block::Block;
use super::flights;
use super::launch::Launch;
use super::scene::Scene;
use super::touches::{allocation, touched};
use crate::ir::*;
use crate::limits::Use;
use crate::trace::*;

/// Records a trace.
pub(crate) struct Tracer {
    request: TraceRequest,
    trace: Trace,
    /// Allocations among [`Trace::variables`], by address.
    allocations: HashSet<u64>,
    /// Place in [`Trace::sites`] of each instruction.
    sites: HashMap<usize, u32>,
}

impl Tracer {
    pub(crate) fn new(launch: &Launch<'_>, request: &TraceRequest) -> Self {
        let variables = launch.shared_variables().map(|(name, start, bytes)| Variable {
            space: Space::Shared,
            name: name.to_owned(),
            start: start.into(),
            bytes: bytes.into(),
        });
        let trace = Trace {
            kernel: launch.kernel.info.name.clone(),
            block: request.block,
            threads: launch.block,
            variables: variables.collect(),
            ..Trace::default()
        };
        Self { request: request.clone(), trace, allocations: HashSet::new(), sites: HashMap::new() }
    }

    /// The trace, with the text of its lines; `text_of` gives the text of a CUDA file.
    pub(crate) fn into_trace(self, text_of: impl Fn(&str) -> Option<String>) -> Trace {
        let Self { request, mut trace, .. } = self;
        trace.variables.sort_by_key(|variable| (variable.space, variable.start));
        match request.source {
            // Headers have a text of their own: only the file with the kernel itself is the one that was given.
            Some(source) => {
                let main = trace.sites.first().and_then(|site| site.file.clone());
                trace
                    .fill_text(|file| if Some(file) == main.as_deref() { Some(source.clone()) } else { text_of(file) });
            }
            None => trace.fill_text(text_of),
        }
        trace
    }

    fn watches(&self, block: &Block, warp: u32) -> bool {
        block.index.at == self.request.block && self.request.warp.is_none_or(|watched| watched == warp)
    }

    pub(super) fn issue(&mut self, scene: &Scene<'_, '_>) {
        if !self.watches(scene.block, scene.warp.number) {
            return;
        }
        if self.trace.steps.len() >= self.request.max_steps {
            self.trace.missed += 1;
            return;
        }
        let bytes = size_of::<Step>() as u64 * 2;
        if !scene.launch.account.take(Use::Records, bytes) {
            self.trace.missed += 1;
            return;
        }
        let site = self.site(scene);
        let active = scene.active;
        let event = match &scene.launch.program.code[scene.pc].op {
            Op::Barrier(barrier) if active != 0 => StepEvent::Arrive {
                barrier: scene.rows.lane(barrier.id, active.trailing_zeros() as usize),
                waits: barrier.kind != BarrierKind::Arrive,
            },
            Op::Bra { .. } | Op::BrxIdx(_) => StepEvent::Branch,
            Op::Exit if active != 0 => StepEvent::Exit,
            _ => StepEvent::None,
        };
        let (step, warp) = (self.trace.steps.len(), scene.warp.number);
        self.trace.steps.push(Step { warp, site, mask: scene.mask, active, event });
        if active == 0 {
            return;
        }
        self.asynchronous(scene, step);
        for access in touched(scene) {
            let bytes = 2 * (size_of::<MemoryAccess>() + access.touches.capacity() * size_of::<Touch>());
            if !scene.launch.account.take(Use::Records, bytes as u64) {
                return;
            }
            let mut known = None;
            for touch in access.touches.iter().filter(|_| matches!(access.space, Space::Global | Space::Constant)) {
                let holds = |start: u64, bytes: u64| touch.address.wrapping_sub(start) < bytes;
                if known.is_some_and(|(start, bytes)| holds(start, bytes)) {
                    continue;
                }
                let Some(found) = allocation(scene, touch.address) else { continue };
                known = Some((found.base, found.bytes));
                if self.allocations.insert(found.base) {
                    let (name, start, bytes) = (found.label.to_string(), found.base, found.bytes);
                    self.trace.variables.push(Variable { space: access.space, name, start, bytes });
                }
            }
            let (space, kind, touches) = (access.space, access.kind, access.touches);
            self.trace.accesses.push(MemoryAccess { step, warp, site, space, kind, touches });
        }
    }

    /// What the step has to do with asynchronous work.
    fn asynchronous(&mut self, scene: &Scene<'_, '_>, step: usize) {
        let account = &scene.launch.account;
        let events = flights::events(scene);
        if !account.take(Use::Records, 2 * (events.len() * size_of::<AsyncStep>()) as u64) {
            return;
        }
        let of_step = |(lanes, event)| AsyncStep { step, lanes, event };
        self.trace.asynchronous.extend(events.into_iter().map(of_step));
        for copy in flights::boxes(scene, step) {
            let bytes = size_of::<BoxCopy>() + size_of_val(&*copy.chunks) + 64 * copy.tensor.pixels.len() + 256;
            if account.take(Use::Records, bytes as u64) {
                self.trace.boxes.push(copy);
            }
        }
        for tile in flights::product_tiles(scene, step) {
            let bytes = size_of::<ProductTile>() + size_of_val(&*tile.chunks);
            if account.take(Use::Records, 2 * bytes as u64) {
                self.trace.product_tiles.push(tile);
            }
        }
    }

    /// An instruction of the traced block has been executed: what mbarriers answered.
    pub(super) fn after(&mut self, scene: &Scene<'_, '_>) {
        let Some(answers) = flights::answered(scene) else { return };
        let last = self.trace.steps.len().checked_sub(1);
        if self.trace.missed != 0 || !self.watches(scene.block, scene.warp.number) {
            return;
        }
        let asked = self.trace.asynchronous.iter_mut().rev().take_while(|known| Some(known.step) == last);
        for known in asked {
            if let AsyncEvent::Asks { over, .. } = &mut known.event {
                *over = answers & known.lanes == known.lanes;
            }
        }
    }

    pub(super) fn released(&mut self, block: &Block, warp: u32, lanes: u32, barrier: u32) {
        if !self.watches(block, warp) || self.trace.missed != 0 {
            return;
        }
        let at = self.trace.steps.len();
        match self.trace.releases.last_mut() {
            // One barrier lets its warps go one by one, and none of them moves before all have been told.
            Some(last) if last.at == at && last.barrier == barrier => last.warps.push((warp, lanes)),
            _ => self.trace.releases.push(Release { at, barrier, warps: vec![(warp, lanes)] }),
        }
    }

    fn site(&mut self, scene: &Scene<'_, '_>) -> u32 {
        let sites = &mut self.trace.sites;
        *self.sites.entry(scene.pc).or_insert_with(|| {
            let at = sites.len() as u32;
            sites.push(scene.launch.site(scene.pc));
            if let Op::Together(together) = &scene.launch.program.code[scene.pc].op
                && let Some(matrix) = matrix(&together.op)
            {
                self.trace.matrices.push((at, matrix));
            }
            at
        })
    }
}

fn matrix(op: &TogetherOp) -> Option<MatrixSite> {
    let rows = |moves: &MatrixMove, store| MatrixSite::Rows {
        matrices: moves.rows.len(),
        transposed: moves.transposed,
        store,
    };
    Some(match op {
        TogetherOp::Mma(op) => MatrixSite::Multiply(op.mma.layouts()),
        TogetherOp::Wgmma(op) => MatrixSite::Warpgroup {
            d: op.wgmma.layout(),
            columns: op.wgmma.columns(),
            registers: op.d.len(),
            a: matches!(op.a, WgmmaA::Registers(_)).then(|| op.wgmma.layout_a()),
        },
        TogetherOp::WmmaLoad(memory) | TogetherOp::WmmaStore(memory) => MatrixSite::Move(memory.access.layout()),
        TogetherOp::LdMatrix(moves) => rows(moves, false),
        TogetherOp::StMatrix(moves) => rows(moves, true),
        _ => return None,
    })
}
