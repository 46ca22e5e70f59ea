//! Records the work of one block ([`Trace`]).

use std::collections::{HashMap, HashSet};

use super::flights;
use super::touches::{allocation, touched};
use super::written::{Place, Written, function_at, written};
use crate::exec::state::block::Block;
use crate::exec::state::launch::Launch;
use crate::exec::state::scene::Scene;
use crate::exec::state::tensor_memory::{Cells, TmemUse};
use crate::ir::*;
use crate::lanes::lanes;
use crate::limits::Use;
use crate::scalar::Scalar;
use crate::trace::*;

/// Records a trace.
pub(crate) struct Tracer {
    request: TraceRequest,
    trace: Trace,
    /// Allocations among [`Trace::variables`], by address.
    allocations: HashSet<u64>,
    /// Index in [`Trace::sites`] of each instruction.
    sites: HashMap<usize, u32>,
    /// Registers that each site writes, as indices in [`Trace::registers`] with their places.
    results: Vec<Vec<(u32, Place)>>,
    /// Index in [`Trace::registers`], by the function and the name.
    registers: HashMap<(usize, String), u32>,
    /// Instructions that have begun and not ended.
    pending: Vec<Pending>,
    /// Products whose results no wait has brought yet.
    products: Vec<Pending>,
    /// Set if there is no more memory for register contents.
    is_full: bool,
}

/// An instruction whose registers are to be read when it has ended.
#[derive(Clone, Copy, Debug)]
struct Pending {
    warp: u32,
    pc: usize,
    /// First row of the frame: a call writes its results when its lanes are back in it.
    frame: u32,
    step: usize,
    site: u32,
    lanes: u32,
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
        Self {
            request: request.clone(),
            trace,
            allocations: HashSet::new(),
            sites: HashMap::new(),
            results: Vec::new(),
            registers: HashMap::new(),
            pending: Vec::new(),
            products: Vec::new(),
            is_full: false,
        }
    }

    /// The trace, with the text of its lines; `text_of` gives the text of a CUDA file.
    pub(crate) fn into_trace(self, text_of: impl Fn(&str) -> Option<String>) -> Trace {
        let Self { request, mut trace, is_full, .. } = self;
        if request.registers && !is_full {
            trace.registers_until = trace.steps.len();
        }
        // One that waited ended after those that came later.
        trace.writes.sort_by_key(|write| write.step);
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

    pub(crate) fn issue(&mut self, scene: &Scene<'_, '_>) {
        if !self.watches(scene.block, scene.warp.number) {
            return;
        }
        // A barrier writes its registers when it lets its lanes go, before the next instruction of any of them.
        let warp = scene.warp.number;
        let frame = scene.frame_rows;
        self.complete(scene, |pending| {
            pending.warp == warp && pending.frame == frame && pending.lanes & scene.mask != 0
        });
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
        if self.request.registers && !self.is_full && !self.results[site as usize].is_empty() {
            let pending = Pending { warp, pc: scene.pc, frame: scene.frame_rows, step, site, lanes: active };
            if is_product(scene) { &mut self.products } else { &mut self.pending }.push(pending);
        }
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

    /// Records the step's part in asynchronous work.
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

    /// Records the results of an executed instruction in its registers, and the answers of mbarriers.
    pub(crate) fn after(&mut self, scene: &Scene<'_, '_>) {
        if !(self.pending.is_empty() && self.products.is_empty()) && self.watches(scene.block, scene.warp.number) {
            let (warp, pc, active) = (scene.warp.number, scene.pc, scene.active);
            self.complete(scene, |pending| pending.warp == warp && pending.pc == pc && pending.lanes & active != 0);
            self.products_at_wait(scene);
        }
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

    /// Reads the registers of the instructions that `ended`.
    fn complete(&mut self, scene: &Scene<'_, '_>, ended: impl Fn(&Pending) -> bool) {
        while let Some(at) = self.pending.iter().position(&ended) {
            let pending = self.pending.remove(at);
            self.read(scene, pending);
        }
    }

    fn read(&mut self, scene: &Scene<'_, '_>, Pending { step, site, lanes: wrote, .. }: Pending) {
        for &(register, place) in &self.results[site as usize] {
            let bits: Box<[u64]> = lanes(wrote).map(|lane| place.bits(scene, lane)).collect();
            let bytes = 2 * (size_of::<RegisterWrite>() + size_of_val(&*bits)) as u64;
            if self.is_full || !scene.launch.account.take(Use::Records, bytes) {
                self.trace.registers_until = if self.is_full { self.trace.registers_until } else { step };
                self.is_full = true;
                return;
            }
            let ty = match place {
                Place::Predicate(_) => Scalar::Pred.name(),
                Place::Row(_, ty) => ty.name(),
            };
            self.trace.writes.push(RegisterWrite { step, register, ty, lanes: wrote, bits });
        }
    }

    /// Results of products come with the wait for them. A wait for some of them may or may not bring the others; their registers
    /// tell.
    fn products_at_wait(&mut self, scene: &Scene<'_, '_>) {
        let Op::Together(together) = &scene.launch.program.code[scene.pc].op else { return };
        let TogetherOp::WgmmaWait { n } = together.op else { return };
        let warp = scene.warp.number;
        let wait = |step: &Step| step.warp == warp && self.sites.get(&scene.pc) == Some(&step.site);
        let Some(step) = self.trace.steps.iter().rposition(wait) else { return };
        let mut done = Vec::new();
        for product in self.products.iter().filter(|product| product.warp == warp) {
            // Many products add to the same registers.
            if !done.iter().any(|known: &Pending| known.site == product.site) {
                done.push(*product);
            }
        }
        if n == 0 {
            self.products.retain(|product| product.warp != warp);
        }
        for product in done {
            self.read(scene, Pending { step, ..product });
        }
    }

    /// Notes the cells of its tensor memory that a block's instruction uses, which has been issued.
    pub(crate) fn tmem_used(
        &mut self,
        launch: &Launch<'_>,
        block: &Block,
        warp: u32,
        uses: Vec<(&'static str, Cells, TmemUse)>,
    ) {
        let Some(step) = self.trace.steps.len().checked_sub(1) else { return };
        let bytes = 2 * (size_of::<TensorStep>() + uses.len() * size_of::<TensorPart>()) as u64;
        if self.trace.missed != 0
            || !self.watches(block, warp)
            || uses.is_empty()
            || !launch.account.take(Use::Records, bytes)
        {
            return;
        }
        let parts = uses.into_iter().map(|(name, Cells { lanes, first, end }, _)| TensorPart {
            name,
            lanes,
            columns: first..end,
        });
        let held = block.tensor.iter().flat_map(|memory| memory.allocations()).map(|(range, _)| range.clone());
        self.trace.tensor_steps.push(TensorStep { step, parts: parts.collect(), held: held.collect() });
    }

    pub(crate) fn released(&mut self, block: &Block, warp: u32, lanes: u32, barrier: u32) {
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
            let function = function_at(scene.launch, scene.pc).filter(|_| self.request.registers);
            let results = function.map_or_else(Vec::new, |function| written(scene.launch, function, scene.pc));
            let registers = &mut self.trace.registers;
            let number = |Written { name, place }| {
                let start = function.map_or(0, |function| function.start as usize);
                let number = self.registers.entry((start, name)).or_insert_with_key(|(_, name)| {
                    let owner = function.filter(|function| !function.kernel).map(|function| function.name.clone());
                    registers.push(TracedRegister { name: name.clone(), function: owner });
                    registers.len() as u32 - 1
                });
                (*number, place)
            };
            self.results.push(results.into_iter().map(number).collect());
            if let Op::Together(together) = &scene.launch.program.code[scene.pc].op
                && let Some(matrix) = matrix(&together.op)
            {
                self.trace.matrices.push((at, matrix));
            }
            at
        })
    }
}

/// Whether the instruction begins a product of a warpgroup, which ends at a wait.
fn is_product(scene: &Scene<'_, '_>) -> bool {
    let op = &scene.launch.program.code[scene.pc].op;
    matches!(op, Op::Together(together) if matches!(together.op, TogetherOp::Wgmma(_)))
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
