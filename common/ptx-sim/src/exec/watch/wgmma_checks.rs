//! Checks of `wgmma` for the sanitiser: registers and tiles of a product are left alone until it has been waited for, and
//! a fence stands between ordinary accesses to its registers and the product (PTX ISA, "wgmma.fence", "wgmma.mma_async").

use std::collections::HashMap;

use super::in_flight::{Wrongs, earlier, enter, tally};
use super::sanitise::Sanitiser;
use super::tmem_checks::PRODUCT_WAIT;
use super::written::register_name;
use crate::exec::state::block::Block;
use crate::exec::state::cluster;
use crate::exec::state::launch::{At, Launch};
use crate::exec::state::place::Visit;
use crate::exec::state::problem::{Earlier, Problem};
use crate::exec::state::products::InFlight;
use crate::exec::state::scene::Scene;
use crate::exec::state::shadow::{FLAGS, PRODUCT, READ, Record};
use crate::exec::state::tensor_memory::{TMEM_COPY, TMEM_PRODUCT};
use crate::exec::state::transfers::{Issuer, Transfer};
use crate::fault::FaultKind;
use crate::ir::*;
use crate::lanes::{lanes, lanes_where};
use crate::limits::{Account, Use};

pub(crate) const PRODUCT_NAME: &str = "wgmma.mma_async";

/// Name and rule of the product at `pc`.
fn product_at(launch: &Launch<'_>, pc: usize) -> (&'static str, &'static str) {
    match launch.program.code[pc].op {
        Op::Tcgen05(ref tcgen05) if matches!(tcgen05.op, Tcgen05Op::Copy(_)) => (TMEM_COPY, PRODUCT_WAIT),
        Op::Tcgen05(_) => (TMEM_PRODUCT, PRODUCT_WAIT),
        _ => (PRODUCT_NAME, WAIT),
    }
}

const WAIT: &str = "PTX ISA, \"wgmma.mma_async\": its registers, and its tiles in shared memory, are not accessed before a \
                    wgmma.wait_group that waits for its group";

const FENCE: &str = "PTX ISA, \"wgmma.fence\": one stands before the first wgmma.mma_async, and between other accesses to a \
                     register and a wgmma.mma_async that takes it as A or D";

/// A register of a frame, which the start of its predicates and local memory tells from others.
type Name = (u32, u32, R);

/// Ordinary accesses of a warp to registers since its last `wgmma.fence`.
#[derive(Debug, Default)]
struct Accesses {
    /// Whether there was a fence at all.
    fenced: bool,
    /// The last one, a write rather than a read.
    last: HashMap<Name, (usize, bool)>,
}

/// State of the warps of running blocks.
#[derive(Debug, Default)]
pub(crate) struct WgmmaChecks {
    /// Whether the module has `wgmma`.
    pub(crate) is_on: bool,
    warps: HashMap<(u64, u32), Accesses>,
    /// Number of remembered registers.
    registers: u64,
    /// Bytes of host memory already charged to the launch's account.
    taken: u64,
}

impl WgmmaChecks {
    pub(crate) fn new(code: &[Inst]) -> Self {
        let is_product =
            |inst: &Inst| matches!(&inst.op, Op::Together(together) if matches!(together.op, TogetherOp::Wgmma(_)));
        Self { is_on: code.iter().any(is_product), ..Self::default() }
    }

    /// Called when a block ends.
    pub(crate) fn forget(&mut self, block: u64) {
        let registers = &mut self.registers;
        self.warps.retain(|(of, _), accesses| {
            if *of == block {
                *registers -= accesses.last.len() as u64;
            }
            *of != block
        });
    }

    fn has_room(&mut self, account: &Account<'_>) -> bool {
        let each = 2 * size_of::<(Name, (usize, bool))>();
        account.adjust(Use::Shadow, &mut self.taken, self.registers * each as u64)
    }

    /// Called when the warp is about to execute an instruction: returns the problem of the registers that it uses.
    fn follow(&mut self, scene: &Scene<'_, '_>) -> Option<Box<Problem>> {
        let op = &scene.launch.program.code[scene.pc].op;
        let (warp, wgmmas) = (scene.warp.number, &scene.block.wgmmas);
        let flying: Vec<InFlight<'_>> = if scene.warp.multiplies {
            wgmmas
                .in_flight(scene.launch, warp)
                .filter(|other| {
                    (other.frame.predicates, other.frame.local) == (scene.frame_predicates, scene.frame_local)
                })
                .collect()
        } else {
            Vec::new()
        };
        let is_named = |row: R| flying.first().is_some_and(|other| wgmmas.is_name(warp, other.frame.rows + row));
        let result_of = |row: R| flying.iter().find(|other| other.op.d.contains(&row) || is_named(row));
        let operand_of = |row: R| flying.iter().find(|other| other.op.a_rows().contains(&row));
        let name = |row: R| (scene.frame_predicates, scene.frame_local, row);
        let accesses = self.warps.entry((scene.block.number, warp)).or_default();
        match op {
            Op::Together(together) => match &together.op {
                TogetherOp::WgmmaFence => {
                    self.registers -= accesses.last.len() as u64;
                    *accesses = Accesses { fenced: true, last: HashMap::new() };
                    return None;
                }
                TogetherOp::Wgmma(op) => {
                    if !accesses.fenced {
                        accesses.fenced = true; // said once
                        let message = "the warp's first wgmma.mma_async comes before any wgmma.fence";
                        return Some(Problem::new(FaultKind::MissingWgmmaFence, scene.active, message).note(FENCE));
                    }
                    let other_shape = |row: &&R| {
                        flying
                            .iter()
                            .find(|other| other.op.d.contains(row) && other.op.wgmma.columns() != op.wgmma.columns())
                    };
                    if let Some((row, other)) = op.d.iter().find_map(|row| Some((*row, other_shape(&row)?))) {
                        return Some(in_flight(scene, row, other, "the accumulator", "given to one of another shape"));
                    }
                    if let Some((row, other)) = op.a_rows().iter().find_map(|row| Some((*row, result_of(*row)?))) {
                        return Some(in_flight(scene, row, other, "an accumulator", "read as A"));
                    }
                    if let Some((row, other)) = op.d.iter().find_map(|row| Some((*row, operand_of(*row)?))) {
                        return Some(in_flight(scene, row, other, "part of A", "given to another as an accumulator"));
                    }
                    let unfenced = |row: R, reads: bool| {
                        accesses.last.get(&name(row)).filter(|(_, write)| *write || reads).map(|access| (row, *access))
                    };
                    let mut all = op.d.iter().map(|row| unfenced(*row, true));
                    let mut of_a = op.a_rows().iter().map(|row| unfenced(*row, false));
                    return all.find_map(|found| found).or_else(|| of_a.find_map(|found| found)).map(
                        |(row, (pc, write))| {
                            let how = if write { "written" } else { "read" };
                            let register = register_name(scene.launch, scene.pc, row);
                            let message =
                                format!("wgmma.mma_async takes {register}, which was {how} since the last wgmma.fence");
                            let mut problem =
                                Problem::new(FaultKind::MissingWgmmaFence, scene.active, message).note(FENCE);
                            let what = if write { "write of the register" } else { "read of the register" };
                            problem.other =
                                Some(Earlier { what, thread: scene.launch.first_thread(scene.block.number, warp), pc });
                            problem
                        },
                    );
                }
                TogetherOp::WgmmaCommit | TogetherOp::WgmmaWait { .. } => return None,
                _ => {}
            },
            // A copy of a value in flight is one more name of it.
            Op::Mov32 { a, .. } if result_of(*a).is_some() || operand_of(*a).is_some() => return None,
            _ => {}
        }
        let facts = op.facts();
        let mut found = None;
        for (rows, how) in [(&facts.reads, "read"), (&facts.writes, "written")] {
            for row in rows {
                if found.is_none() {
                    found = match (result_of(*row), operand_of(*row)) {
                        (Some(other), _) => Some(in_flight(scene, *row, other, "an accumulator", how)),
                        (None, Some(other)) => Some(in_flight(scene, *row, other, "part of A", how)),
                        (None, None) => None,
                    };
                }
            }
        }
        // Compilers move zeros and copies past a fence, which assemblers make good: registers are values to them.
        if matches!(op, Op::Mov32 { .. }) {
            return found;
        }
        let account = &scene.launch.account;
        let before = accesses.last.len() as u64;
        for (rows, write) in [(&facts.reads, false), (&facts.writes, true)] {
            for row in rows {
                let access = accesses.last.entry(name(*row)).or_insert((scene.pc, write));
                if write || !access.1 {
                    *access = (scene.pc, write);
                }
            }
        }
        self.registers += accesses.last.len() as u64 - before;
        if !self.has_room(account) {
            self.warps.clear();
            self.registers = 0;
        }
        found
    }
}

/// The problem of a register that is used while a product owns it.
fn in_flight(scene: &Scene<'_, '_>, row: R, other: &InFlight<'_>, what: &str, how: &str) -> Box<Problem> {
    let register = register_name(scene.launch, scene.pc, row);
    let message = format!("{register}, {what} of a wgmma.mma_async in flight, is {how}");
    let mut problem = Problem::new(FaultKind::RegisterInFlight, scene.active, message).note(WAIT);
    problem.other = Some(Earlier {
        what: PRODUCT_NAME,
        thread: scene.launch.first_thread(scene.block.number, scene.warp.number),
        pc: other.pc,
    });
    problem
}

impl Sanitiser {
    /// Called when a warp of a module with `wgmma` is about to execute an instruction.
    #[inline(never)]
    pub(crate) fn follow_wgmma(&mut self, scene: &Scene<'_, '_>) {
        if scene.active != 0
            && let Some(problem) = self.wgmma.follow(scene)
        {
            let at = At { launch: scene.launch, block: scene.block.index, warp: scene.warp.number, pc: scene.pc };
            self.report(at, *problem);
        }
    }

    /// Checks the tiles of a product that a warp asks for, in the shared memory of the cluster's block of that rank: they must be
    /// initialised, and visible to the warp.
    pub(crate) fn product_asked(
        &mut self,
        launch: &Launch<'_>,
        block: &mut Block,
        rank: u32,
        by: Issuer,
        ranges: &[[u64; 2]],
    ) {
        let at = At { launch, block: by.block, warp: by.warp, pc: by.pc };
        let is_own = rank == block.rank;
        let owner = if is_own { &*block } else { &block.peers[rank as usize] };
        let describe = |offset: u64| {
            let whose = if is_own { String::new() } else { format!(", of the cluster's block {rank}") };
            launch.describe_shared(offset) + &whose
        };
        let copy = owner.transfers.iter().find_map(|transfer| {
            let common =
                ranges.iter().find(|range| transfer.forbids_shared(false) && transfer.common_shared(**range) != 0);
            Some((transfer, common?[0]))
        });
        if let Some((transfer, first)) = copy {
            let (product, _) = product_at(launch, by.pc);
            let message = format!("{product} of shared memory while a bulk copy to it is under way");
            let mut problem = *Problem::new(FaultKind::CopyInFlight, u32::MAX, message).at(first);
            problem.notes.push(format!("the address is {}", describe(first)));
            problem.other = Some(earlier(launch, transfer.by));
            self.report(at, problem);
        }
        let now = self.tick();
        let Some(mut shadow) = block.shadow.take() else { return };
        shadow.begin(now);
        let keeper = cluster::member(block, rank).filter(|_| !is_own).and_then(|peer| peer.shadow.as_mut());
        let keeper = keeper.unwrap_or(&mut shadow);
        keeper.begin(now);
        let (mut memory, written) = (std::mem::take(&mut keeper.memory), std::mem::take(&mut keeper.written));
        let mut wrongs = Wrongs::default();
        for range in ranges {
            let found = self.look_at(&shadow, &mut memory, launch, by, *range, false);
            // What cp.async copied needs no fence.
            let is_copy =
                |record: Record| matches!(launch.program.code[(record[2] >> FLAGS) as usize].op, Op::CpAsync(_));
            let unfenced = found.unfenced.filter(|(record, ..)| !is_copy(*record));
            for (all, found) in [(&mut wrongs.race, found.race), (&mut wrongs.unfenced, unfenced)] {
                if let Some((record, at, bytes)) = found {
                    tally(all, record, at, bytes);
                }
            }
        }
        let kinds = [product_at(launch, by.pc).0, "shared"];
        self.report_wrongs(at, by, kinds, wrongs, describe);
        let bytes = ranges.iter().flat_map(|[from, bytes]| *from..from + bytes);
        let unset = bytes.filter(|at| written.get((at / 64) as usize).is_none_or(|word| word >> (at % 64) & 1 == 0));
        self.report_unwritten(at, by, kinds, unset, describe);
        let keeper = cluster::member(block, rank).filter(|_| !is_own).and_then(|peer| peer.shadow.as_mut());
        let keeper = keeper.unwrap_or(&mut shadow);
        (keeper.memory, keeper.written) = (memory, written);
        block.shadow = Some(shadow);
    }

    /// Records that a product of a warpgroup has read its tiles, which are these ranges. Returns the moment.
    pub(crate) fn product_read(
        &mut self,
        launch: &Launch<'_>,
        block: &mut Block,
        (group, pc): (u32, usize),
        ranges: impl Iterator<Item = [u64; 2]>,
    ) -> u32 {
        let now = self.tick();
        let Some(mut shadow) = block.shadow.take() else { return now };
        shadow.begin(now);
        let record = [shadow.thread(4 * group, 0), now, (pc as u32) << FLAGS | PRODUCT | READ];
        let mut memory = std::mem::take(&mut shadow.memory);
        for range in ranges {
            enter(&mut memory, &shadow, &launch.account, range, record);
        }
        shadow.memory = memory;
        block.shadow = Some(shadow);
        now
    }

    /// Records that a warp has waited for a product whose tiles were read at that moment: it knows that they were, and the other
    /// warps of its warpgroup do once they have waited themselves, or learn of it.
    pub(crate) fn product_waited(&mut self, launch: &Launch<'_>, block: &mut Block, warp: u32, read: u32) {
        let now = self.tick();
        if let Some(shadow) = &mut block.shadow {
            shadow.warps[warp as usize].waited(read, now, &launch.account);
        }
    }

    /// Checks a bulk copy to shared memory while products have yet to read their tiles.
    pub(crate) fn look_for_products(&mut self, at: At<'_>, block: &Block, transfer: &Transfer) {
        let Some((pc, warp)) = block.product_to_read(transfer.at, transfer.bytes) else { return };
        let (product, rule) = product_at(at.launch, pc);
        let message = format!("bulk copy to shared memory that a {product} in flight reads");
        let mut problem =
            Problem::new(FaultKind::TileInFlight, 1 << transfer.by.lane, message).at(transfer.at).note(rule);
        let thread = at.launch.first_thread(block.number, warp);
        problem.other = Some(Earlier { what: product, thread, pc });
        self.report(at, *problem);
    }

    /// Checks writes to shared memory while products have yet to read their tiles.
    #[inline(never)]
    pub(crate) fn look_for_tiles(&mut self, block: &Block, visit: &Visit<'_>) {
        let Visit { at, part, addresses, reach, .. } = *visit;
        let product = |lane: usize| block.product_to_read(addresses[lane].wrapping_sub(part.base), reach.bytes);
        let Some((lane, (pc, warp))) = lanes(part.mask).find_map(|lane| Some((lane, product(lane)?))) else { return };
        let all = lanes_where(part.mask, |lane| product(lane).is_some_and(|(other, _)| other == pc));
        let address = addresses[lane];
        let (product, rule) = product_at(at.launch, pc);
        let message = format!("write of shared memory that a {product} in flight reads");
        let mut problem = Problem::new(FaultKind::TileInFlight, all, message).at(address).note(rule);
        let place = at.launch.describe_shared(address.wrapping_sub(part.base));
        problem.notes.insert(0, format!("the address is {place}"));
        let thread = at.launch.first_thread(block.number, warp);
        problem.other = Some(Earlier { what: product, thread, pc });
        self.report(at, *problem);
    }
}
