//! Checks of bulk copies for the sanitiser: a copy under way must be left alone, its source must be initialised, and be
//! visible to the copy engine, which reads past the order of ordinary accesses (PTX ISA, "Proxies").

use std::ops::Range;
use std::sync::Arc;

use super::sanitise::{Sanitiser, bits_of};
use super::touched::How;
use crate::exec::state::block::Block;
use crate::exec::state::handover::Handover;
use crate::exec::state::launch::{At, Launch};
use crate::exec::state::place::{InOrder, Kind, Place, Visit};
use crate::exec::state::problem::{Earlier, Problem};
use crate::exec::state::shadow::{
    ASYNC, BlockShadow, Cell, FLAGS, NO_RECORD, PENDING, PRODUCT, READ, Record, Shadow, WRITE,
};
use crate::exec::state::transfers::{Completes, Far, Issuer, Transfer, UndefinedRun};
use crate::fault::{ASYNCHRONOUS_COPY, Fault, FaultKind};
use crate::lanes::lanes;
use crate::limits::{Account, Use};
use crate::memory::{Allocation, Stored, UndefinedBits, plural};

/// Bytes that bulk copies take together.
const GRAIN: u64 = 16;

const LINE_BYTES: u64 = 1 << crate::exec::state::lines::LINE;

const IN_FLIGHT: &str = "PTX ISA, \"Asynchronous copy\": the memory of a copy is not touched before it completes";

const FENCE: &str = "PTX ISA, \"Proxies\": between ordinary writes and bulk copies or wgmma at the same bytes stands a fence.proxy.async";

const FENCE_OF_READS: &str = "PTX ISA, \"Proxies\": between ordinary reads and a bulk copy that writes the same bytes stands a fence.proxy.async";

pub(crate) const BULK_COPY: &str = "bulk copy";

/// Errors at one end of a copy when it is requested.
#[derive(Default)]
pub(crate) struct Wrongs {
    /// An access that the copy races with, and the number of bytes.
    pub(crate) race: Option<(Record, u64, u64)>,
    /// An ordinary write that the copy may not see; for a strict sanitiser also an ordinary read that it may overtake.
    pub(crate) unfenced: Option<(Record, u64, u64)>,
}

pub(crate) fn tally(known: &mut Option<(Record, u64, u64)>, record: Record, at: u64, bytes: u64) {
    match known {
        None => *known = Some((record, at, bytes)),
        Some((.., total)) => *total += bytes,
    }
}

pub(crate) fn earlier(launch: &Launch<'_>, by: Issuer) -> Earlier {
    let threads = u64::from(launch.threads());
    let thread = by.number * threads + u64::from(by.warp) * 32 + by.lane as u64;
    Earlier { what: ASYNCHRONOUS_COPY, thread, pc: by.pc }
}

/// Calls `action` with the cells of a range, line by line; skips them if there is no room for them.
fn for_cells(
    memory: &mut Shadow,
    shadow: &BlockShadow,
    account: &Account<'_>,
    [from, bytes]: [u64; 2],
    mut action: impl FnMut(u64, u64, &mut [Cell]),
) {
    let mut at = from;
    while at < from + bytes {
        let until = (at / LINE_BYTES * LINE_BYTES + LINE_BYTES).min(from + bytes);
        // Cells are as small as the smallest power of two that a piece is a multiple of.
        if !memory.touch(at, until - at, account) {
            return;
        }
        let Some(cells) = memory.open(shadow, [at, until - at], account) else { return };
        let each = (until - at) / cells.len().max(1) as u64;
        action(at, each, cells);
        at = until;
    }
}

impl Sanitiser {
    /// Whether a range of shared memory lies in one variable.
    pub(crate) fn is_in_one_variable(&self, at: u64, bytes: u64) -> bool {
        let around = self.variables.iter().find(|(_, end)| at < *end);
        around.is_some_and(|(start, end)| at >= *start && end - at >= bytes)
    }

    /// Records that the lanes of a warp executed a `fence.proxy.async`.
    pub(crate) fn fenced_proxy(&mut self, block: &mut Block, warp: u32, mask: u32) {
        let now = self.now;
        self.tick();
        let Some(shadow) = &mut block.shadow else { return };
        let Some(known) = shadow.warps.get_mut(warp as usize) else { return };
        lanes(mask).for_each(|lane| known.proxied[lane] = now);
    }

    /// Checks an access while copies are under way.
    #[inline(never)]
    pub(crate) fn look_for_transfers(&mut self, block: &Block, visit: &Visit<'_>) {
        let Visit { at, part, addresses, reach, .. } = *visit;
        let launch = at.launch;
        let owner = match part.place {
            Place::Peer(rank) => &block.peers[rank as usize],
            _ => block,
        };
        for transfer in owner.transfers.iter() {
            let mut found: Option<(usize, u64)> = None;
            let mut lanes_here = 0;
            for lane in lanes(part.mask) {
                let from = addresses[lane].wrapping_sub(part.base);
                let common = match part.place {
                    Place::Shared | Place::Peer(_) if transfer.forbids_shared(reach.writes()) => {
                        transfer.common_shared([from, reach.bytes])
                    }
                    Place::Allocation(allocation)
                        if transfer.forbids_global(reach.writes(), reach.kind == Kind::Atomic) =>
                    {
                        transfer.common_global(launch, allocation, [from, reach.bytes])
                    }
                    _ => 0,
                };
                if common != 0 {
                    lanes_here |= 1 << lane;
                    found.get_or_insert((lane, common));
                }
            }
            let Some((lane, common)) = found else { continue };
            let address = addresses[lane];
            let (space, place) = match part.place {
                Place::Allocation(allocation) => ("global", allocation.describe(address)),
                _ => ("shared", launch.describe_shared(address.wrapping_sub(part.base))),
            };
            let now = match reach.kind {
                Kind::Read => "read",
                Kind::Atomic => "atomic",
                Kind::Write | Kind::Copy => "write",
            };
            let goes_there = (space == "shared") == matches!(transfer.completes, Completes::Barrier { .. });
            let which = if goes_there { "to" } else { "from" };
            let message = format!("{now} of {space} memory while a bulk copy {which} it is under way");
            let mut problem = *Problem::new(FaultKind::CopyInFlight, lanes_here, message).at(address);
            problem.notes.push(format!(
                "the address is {place}; {} of the copy's {}",
                plural(common),
                plural(transfer.bytes)
            ));
            problem.notes.push(IN_FLIGHT.to_owned());
            problem.other = Some(earlier(launch, transfer.by));
            self.report(at, problem);
        }
    }

    /// Checks a copy that a thread of the block has requested, to shared memory of `target` (`None`: its own): its source
    /// must be initialised and visible, and all others must be done with both ends.
    pub(crate) fn transfer_asked(
        &mut self,
        launch: &Launch<'_>,
        block: &mut Block,
        target: Option<u32>,
        transfer: &Transfer,
    ) {
        self.tick();
        let by = transfer.by;
        let at = At { launch, block: by.block, warp: by.warp, pc: by.pc };
        let there = target.map_or(&*block, |rank| &block.peers[rank as usize]);
        self.look_for_other_transfers(at, there, transfer);
        let to_shared = matches!(transfer.completes, Completes::Barrier { .. });
        let Some(mut shadow) = block.shadow.take() else { return };
        shadow.begin(self.now);
        // What the thread knows stands in the shadow of its own block, what was done to the memory in that of the other.
        let theirs = target.and_then(|rank| block.peers[rank as usize].shadow.as_mut());
        let near = match theirs {
            Some(theirs) => {
                theirs.begin(self.now);
                theirs.reached_by(&shadow, at, 1 << by.lane, self.now);
                let mut memory = std::mem::take(&mut theirs.memory);
                let near = self.look_at(&shadow, &mut memory, launch, by, [transfer.at, transfer.bytes], to_shared);
                theirs.memory = memory;
                near
            }
            None => {
                let mut memory = std::mem::take(&mut shadow.memory);
                let near = self.look_at(&shadow, &mut memory, launch, by, [transfer.at, transfer.bytes], to_shared);
                shadow.memory = memory;
                near
            }
        };
        let mut memory = std::mem::take(&mut shadow.memory);
        let from_shared = if let Far::Shared(from) = transfer.far {
            self.look_at(&shadow, &mut memory, launch, by, [from, transfer.bytes], false)
        } else {
            Wrongs::default()
        };
        shadow.memory = memory;
        for wrongs in [near, from_shared] {
            self.report_wrongs(at, by, [BULK_COPY, "shared"], wrongs, |offset| launch.describe_shared(offset));
        }
        if let Some(allocation) = transfer.allocation(launch)
            && let Some(index) = self.global.index(allocation, &launch.account)
        {
            let mut memory = std::mem::take(&mut self.global.all[index]);
            let mut wrongs = Wrongs::default();
            transfer.for_global(|_, from, bytes| {
                let found = self.look_at(&shadow, &mut memory, launch, by, [from, bytes], !to_shared);
                for (all, found) in [(&mut wrongs.race, found.race), (&mut wrongs.unfenced, found.unfenced)] {
                    if let Some((record, at, bytes)) = found {
                        tally(all, record, at, bytes);
                    }
                }
            });
            self.global.all[index] = memory;
            if transfer.reduction.is_some() {
                wrongs = Wrongs::default(); // element by element it is an atomic
            }
            let describe = |offset: u64| allocation.describe(allocation.base + offset);
            self.report_wrongs(at, by, [BULK_COPY, "global"], wrongs, describe);
        }
        block.shadow = Some(shadow);
    }

    /// Undefined bits of a source that a thread's copy is about to read: of bytes of shared memory from `shared` on (`None`: it is
    /// global memory).
    pub(crate) fn undefined_source(
        &mut self,
        launch: &Launch<'_>,
        block: &Block,
        transfer: &Transfer,
        shared: Option<u64>,
    ) -> Vec<UndefinedRun> {
        let by = transfer.by;
        let mut unset: Vec<(u64, u64)> = Vec::new(); // number in the box, and place
        let allocation = transfer.allocation(launch);
        match (shared, &block.shadow, allocation.and_then(Allocation::written)) {
            (Some(from), Some(shadow), _) => {
                let is_unset =
                    |at: u64| shadow.written.get((at / 64) as usize).is_none_or(|word| word >> (at % 64) & 1 == 0);
                let all = transfer.read_of_shared(from).into_iter();
                unset.extend(all.filter(|(_, at)| is_unset(*at)));
            }
            (None, _, Some(written)) => transfer.for_global(|dense, from, bytes| {
                let all = (0..bytes).map(|at| (dense + at, from + at));
                unset.extend(all.filter(|(_, at)| written.word(at / 64) >> (at % 64) & 1 == 0));
            }),
            _ => {}
        }
        if unset.is_empty() {
            return Vec::new();
        }
        let of_allocation = if shared.is_none() { allocation.map(Allocation::undefined) } else { None };
        let stored: Option<&UndefinedBits> = match shared {
            Some(_) => block.shadow.as_ref().map(|shadow| &shadow.undefined),
            None => of_allocation.as_deref(),
        };
        let of_byte = |at: u64| -> Option<(u8, &Arc<Fault>)> {
            let (bits, source) = stored?.word(at / 4)?;
            // A byte without undefined bits has not been written since those of its word were stored.
            let bits = bits.to_le_bytes()[(at % 4) as usize];
            (bits != 0).then_some((bits, source))
        };
        let mut never = unset.iter().filter(|(_, at)| of_byte(*at).is_none());
        let never = never.next().map(|(_, first)| {
            let space = if shared.is_some() { "shared" } else { "global" };
            let bytes = plural(1 + never.count() as u64);
            let message = format!("{BULK_COPY} of {bytes} of {space} memory that were never written");
            let place = match allocation {
                Some(allocation) if shared.is_none() => allocation.describe(allocation.base + first),
                _ => launch.describe_shared(*first),
            };
            let problem = Problem::new(FaultKind::UninitialisedRead, 1 << by.lane, message);
            let at = At { launch, block: by.block, warp: by.warp, pc: by.pc };
            self.undefined.fault_of(at, &problem.note(format!("the first is {place}")))
        });
        let mut runs: Vec<UndefinedRun> = Vec::new();
        for together in unset.chunk_by(|(one, _), (other, _)| one / GRAIN == other / GRAIN) {
            let whole = together.len() as u64 == GRAIN;
            for &(dense, at) in together {
                let Some((bits, source)) = of_byte(at).or(never.as_ref().map(|never| (0xff, never))) else { continue };
                match runs.last_mut() {
                    Some(run)
                        if run.dense + run.bits.len() as u64 == dense
                            && run.whole == whole
                            && Arc::ptr_eq(&run.source, source) =>
                    {
                        run.bits.push(bits);
                    }
                    _ => runs.push(UndefinedRun { dense, bits: vec![bits], whole, source: Arc::clone(source) }),
                }
            }
        }
        runs
    }

    /// Records that what a copy has just brought is undefined in part.
    fn bring_undefined(&mut self, launch: &Launch<'_>, shadow: &mut BlockShadow, transfer: &mut Transfer) {
        let undefined = std::mem::take(&mut transfer.undefined);
        if undefined.is_empty() {
            return;
        }
        let size = transfer.reduction.map_or(1, |reduction| u64::from(reduction.bytes));
        let stored = |run: &UndefinedRun, range: Range<u64>, action: &mut dyn FnMut(u64, &Stored<'_>)| {
            if let Some((dense, bits)) = run.part(range, size) {
                action(dense, &Stored { bits: &bits, source: &run.source, whole: run.whole || size != 1 });
            }
        };
        if matches!(transfer.completes, Completes::Barrier { .. }) {
            let swizzled = match &transfer.far {
                Far::Tile(.., tile) if tile.is_swizzled() => Some(tile),
                _ => None,
            };
            for run in &undefined {
                let Some(tile) = swizzled else {
                    stored(run, 0..transfer.bytes, &mut |dense, stored| {
                        shadow.store_undefined(transfer.at + dense, stored, &launch.account);
                    });
                    continue;
                };
                let unit = tile.unit();
                for chunk in run.dense / unit..(run.dense + run.bits.len() as u64).div_ceil(unit) {
                    stored(run, chunk * unit..(chunk + 1) * unit, &mut |dense, stored| {
                        shadow.store_undefined(tile.shared(transfer.at, dense), stored, &launch.account);
                    });
                }
            }
        } else if let Some(allocation) = transfer.allocation(launch) {
            let has_room = |bytes: u64| launch.account.take(Use::Shadow, bytes);
            let mut next = 0; // both are in the order of the box
            transfer.for_global(|dense, at, bytes| {
                while let Some(run) = undefined.get(next).filter(|run| run.dense < dense + bytes) {
                    stored(run, dense..dense + bytes, &mut |from, stored| {
                        allocation.store_undefined(at + (from - dense), stored, has_room);
                    });
                    if run.dense + run.bits.len() as u64 > dense + bytes {
                        break; // the rest of it is in the next row
                    }
                    next += 1;
                }
            });
        }
    }

    pub(crate) fn report_unwritten(
        &mut self,
        at: At<'_>,
        by: Issuer,
        [what, space]: [&str; 2],
        mut unset: impl Iterator<Item = u64>,
        describe: impl Fn(u64) -> String,
    ) {
        let Some(first) = unset.next() else { return };
        let message =
            format!("{what} of {} of {space} memory that were never written", plural(1 + unset.count() as u64));
        let problem = Problem::new(FaultKind::UninitialisedRead, 1 << by.lane, message);
        self.report(at, *problem.note(format!("the first is {}", describe(first))));
    }

    pub(crate) fn report_wrongs(
        &mut self,
        at: At<'_>,
        by: Issuer,
        [what, space]: [&str; 2],
        wrongs: Wrongs,
        describe: impl Fn(u64) -> String,
    ) {
        let other = |record: Record| Earlier {
            what: super::sanitise::access_name(record),
            thread: u64::from(record[0]) - 1,
            pc: (record[2] >> FLAGS) as usize,
        };
        if let Some((record, first, bytes)) = wrongs.race {
            let kind = if space == "shared" { FaultKind::SharedRace } else { FaultKind::GlobalRace };
            let other = other(record);
            let message =
                format!("race in {space} memory: nothing orders this {what} after another thread's {}", other.what);
            let mut problem = *Problem::new(kind, 1 << by.lane, message);
            problem.notes.push(format!("{} in common, from {}", plural(bytes), describe(first)));
            problem.other = Some(other);
            self.report(at, problem);
        } else if let Some((record, first, bytes)) = wrongs.unfenced {
            let (accessed, rule) = if record[2] & WRITE != 0 { ("written", FENCE) } else { ("read", FENCE_OF_READS) };
            let message = format!("{what} of {space} memory that was {accessed} without a fence.proxy.async since");
            let mut problem = *Problem::new(FaultKind::MissingProxyFence, 1 << by.lane, message);
            problem.notes.push(format!("{} in common, from {}", plural(bytes), describe(first)));
            problem.notes.push(rule.to_owned());
            problem.other = Some(other(record));
            self.report(at, problem);
        }
    }

    /// Checks one end of a copy; `writes`: it is the destination.
    pub(crate) fn look_at(
        &self,
        shadow: &BlockShadow,
        memory: &mut Shadow,
        launch: &Launch<'_>,
        by: Issuer,
        range: [u64; 2],
        writes: bool,
    ) -> Wrongs {
        let mut wrongs = Wrongs::default();
        let me = shadow.thread(by.warp, by.lane);
        let since = memory.since;
        let proxied = |thread: u32| {
            let in_block = thread.wrapping_sub(1).wrapping_sub(shadow.first as u32);
            let warp = shadow.warps.get((in_block / 32) as usize).filter(|_| in_block < shadow.threads);
            warp.map_or(u32::MAX, |warp| warp.proxied[(in_block % 32) as usize])
        };
        let fence = proxied(me);
        for_cells(memory, shadow, &launch.account, range, |at, each, cells| {
            for (at, cell) in (at..).step_by(each.max(1) as usize).zip(cells) {
                let race = cell.iter().copied().find(|with| {
                    (writes || with[2] & WRITE != 0)
                        && !shadow.is_past(*with, since)
                        && (with[0] != me || with[2] & PRODUCT != 0)
                        && !self.happens_before(shadow, *with, by.warp, by.lane)
                });
                if let Some(with) = race {
                    tally(&mut wrongs.race, with, at, each);
                }
                // The readers may be overtaken by a copy that writes. It is how most pipelines refill a stage, and works almost always.
                let looked_at = if writes && self.strict { &cell[..] } else { &cell[..1] };
                let ordinary = |with: &Record| {
                    let asked = if writes && self.strict { WRITE | READ } else { WRITE };
                    with[2] & asked != 0 && with[2] & (ASYNC | PENDING | PRODUCT) == 0
                };
                let unfenced = looked_at
                    .iter()
                    .copied()
                    .find(|with| ordinary(with) && with[1] > since && proxied(with[0]).max(fence) < with[1]);
                if let Some(with) = unfenced {
                    tally(&mut wrongs.unfenced, with, at, each);
                }
            }
        });
        wrongs
    }

    /// Looks for copies under way that the new one conflicts with.
    fn look_for_other_transfers(&mut self, at: At<'_>, block: &Block, transfer: &Transfer) {
        let to_shared = matches!(transfer.completes, Completes::Barrier { .. });
        if to_shared && block.has_tiles_to_read() {
            self.look_for_products(at, block, transfer);
        }
        let other = block.transfers.iter().find_map(|other| {
            let common =
                if other.forbids_shared(to_shared) { other.common_shared([transfer.at, transfer.bytes]) } else { 0 };
            (common != 0 && !(other.reduction.is_some() && transfer.reduction.is_some())).then_some((other, common))
        });
        if let Some((other, common)) = other {
            let goes_there = matches!(other.completes, Completes::Barrier { .. });
            let (now, which) = (if to_shared { "to" } else { "from" }, if goes_there { "to" } else { "from" });
            let message = format!("bulk copy {now} shared memory while another {which} it is under way");
            let mut problem = *Problem::new(FaultKind::CopyInFlight, 1 << transfer.by.lane, message).at(transfer.at);
            let place = at.launch.describe_shared(transfer.at.max(other.at));
            problem.notes.push(format!("{} in common, from {place}", plural(common)));
            problem.notes.push(IN_FLIGHT.to_owned());
            problem.other = Some(earlier(at.launch, other.by));
            self.report(at, problem);
        }
    }

    /// Records that a copy has been made.
    pub(crate) fn transferred(&mut self, launch: &Launch<'_>, block: &mut Block, transfer: &mut Transfer) {
        self.tick();
        match transfer.far {
            _ if transfer.held.is_some() => {}
            Far::Bytes(_) | Far::Response(_) => {} // read when it was asked for
            Far::Shared(from) => transfer.undefined = self.undefined_source(launch, block, transfer, Some(from)),
            _ if matches!(transfer.completes, Completes::Barrier { .. }) => {
                transfer.undefined = self.undefined_source(launch, block, transfer, None);
            }
            _ => self.source_read(launch, block, transfer),
        }
        let here = transfer.by.block == block.index;
        // The thread of another block of the cluster is known to this block's threads by the mbarrier only.
        let (warp, lane) = if here { (transfer.by.warp, transfer.by.lane) } else { (0, 0) };
        let Some(mut shadow) = block.shadow.take() else { return };
        shadow.begin(self.now);
        if !here {
            shadow.received(&transfer.by);
        }
        let record =
            |flags: u32| [shadow.thread(warp, lane), self.now, (transfer.by.pc as u32) << FLAGS | ASYNC | flags];
        let (written, read) = (record(WRITE), record(READ));
        let account = &launch.account;
        if let Completes::Barrier { of, at: barrier } = transfer.completes {
            let mut memory = std::mem::take(&mut shadow.memory);
            enter(&mut memory, &shadow, account, [transfer.at, transfer.bytes], written);
            if let Far::Shared(from) = transfer.far {
                enter(&mut memory, &shadow, account, [from, transfer.bytes], read);
            }
            shadow.memory = memory;
            for at in (transfer.at..transfer.at + transfer.bytes).step_by(16) {
                if let Some(word) = shadow.written.get_mut((at / 64) as usize) {
                    *word |= bits_of(16) << (at % 64);
                }
            }
            let number = launch.block_of_cluster(block.cluster, of);
            self.hand_over(&mut shadow, warp, lane, Handover::Shared(number, barrier), [self.now; 3], account);
        }
        if let Some(allocation) = transfer.allocation(launch)
            && let Some(index) = self.global.index(allocation, account)
        {
            let mut memory = std::mem::take(&mut self.global.all[index]);
            let record = if matches!(transfer.completes, Completes::Barrier { .. }) { read } else { written };
            if transfer.reduction.is_none() {
                transfer.for_global(|_, from, bytes| enter(&mut memory, &shadow, account, [from, bytes], record));
            }
            self.global.all[index] = memory;
            if let Some(touched) = &mut self.touched {
                let how = match (&transfer.completes, transfer.reduction.is_some()) {
                    (_, true) => How::Atomic,
                    (Completes::Barrier { .. }, false) => How::Read,
                    (Completes::Group(_), false) => How::Write,
                };
                transfer.for_global(|_, from, bytes| touched.note(allocation, how, [from, bytes], account));
            }
        }
        self.bring_undefined(launch, &mut shadow, transfer);
        block.shadow = Some(shadow);
    }

    /// Records that the source of a copy to global memory has been read.
    pub(crate) fn source_read(&mut self, launch: &Launch<'_>, block: &mut Block, transfer: &mut Transfer) {
        self.tick();
        transfer.undefined = self.undefined_source(launch, block, transfer, Some(transfer.at));
        let Some(mut shadow) = block.shadow.take() else { return };
        shadow.begin(self.now);
        let Issuer { warp, lane, pc, .. } = transfer.by;
        let record = [shadow.thread(warp, lane), self.now, (pc as u32) << FLAGS | ASYNC | READ];
        let mut memory = std::mem::take(&mut shadow.memory);
        enter(&mut memory, &shadow, &launch.account, [transfer.at, transfer.bytes], record);
        shadow.memory = memory;
        block.shadow = Some(shadow);
    }

    /// Reports copies under way at the end of the block.
    pub(crate) fn never_awaited(&mut self, launch: &Launch<'_>, block: &Block) {
        for transfer in block.transfers.iter().filter(|transfer| transfer.held.is_none()) {
            let Issuer { block, warp, lane, pc, .. } = transfer.by;
            let (what, rule) = match transfer.completes {
                Completes::Barrier { .. } => ("to", "the mbarrier that it completes on has to be waited for"),
                Completes::Group(_) => {
                    ("from", "its group has to be waited for with cp.async.bulk.wait_group or .wait_group.read")
                }
            };
            let message = format!("the block ends while a bulk copy {what} its shared memory is under way");
            let mut problem = *Problem::new(FaultKind::UnawaitedCopy, 1 << lane, message);
            let place = launch.describe_shared(transfer.at);
            problem.notes.push(format!("{} of shared memory, from {place}", plural(transfer.bytes)));
            problem.notes.push(rule.to_owned());
            self.report(At { launch, block, warp, pc }, problem);
        }
    }
}

/// Enters an access of a range into a shadow.
pub(crate) fn enter(memory: &mut Shadow, shadow: &BlockShadow, account: &Account<'_>, range: [u64; 2], record: Record) {
    let mut lines = Vec::new();
    for_cells(memory, shadow, account, range, |at, _, cells| {
        for cell in cells {
            if record[2] & WRITE != 0 {
                *cell = [record, NO_RECORD, NO_RECORD];
            } else if cell[1][2] & WRITE == 0 {
                cell[2] = cell[1];
                cell[1] = record;
            } else {
                cell[2] = record;
            }
        }
        lines.push(at);
    });
    for at in lines {
        memory.note(at, record[2], record[1], shadow.number());
    }
}

impl Transfer {
    /// The bytes of shared memory that count, of a source that begins at `from`, with their numbers in the box: those that lie
    /// outside the tensor are discarded.
    fn read_of_shared(&self, from: u64) -> Vec<(u64, u64)> {
        let Far::Tile(_, _, tile) = &self.far else { return (0..self.bytes).map(|at| (at, from + at)).collect() };
        let mut all = Vec::new();
        self.for_global(|dense, _, bytes| {
            all.extend((dense..dense + bytes).map(|dense| (dense, tile.shared(from, dense))));
        });
        all
    }

    /// Whether an access of its shared memory conflicts with it.
    pub(crate) fn forbids_shared(&self, writes: bool) -> bool {
        match self.completes {
            Completes::Barrier { .. } => true,
            Completes::Group(_) => writes && self.held.is_none(),
        }
    }

    /// Whether an access of its global memory conflicts with it.
    pub(crate) fn forbids_global(&self, writes: bool, atomic: bool) -> bool {
        match self.completes {
            Completes::Barrier { .. } => writes,
            Completes::Group(_) => !(atomic && self.reduction.is_some()),
        }
    }

    /// Whether a plain access of words may conflict with it and needs a closer look.
    pub(crate) fn may_meet(&self, place: &Place<'_>, access: &InOrder) -> bool {
        match place {
            Place::Shared => {
                let bytes = if access.same { 4 * access.count } else { 4 * u64::from(access.lanes) };
                self.forbids_shared(access.write) && self.common_shared([access.offset, bytes]) != 0
            }
            Place::Allocation(_) => self.forbids_global(access.write, false),
            Place::Peer(_) | Place::Local | Place::Param => false,
        }
    }

    /// Bytes of shared memory that it shares with an access.
    pub(crate) fn common_shared(&self, [from, bytes]: [u64; 2]) -> u64 {
        (from + bytes).min(self.at + self.bytes).saturating_sub(from.max(self.at))
    }

    /// Bytes of an allocation that it shares with an access.
    fn common_global(&self, launch: &Launch<'_>, allocation: &Allocation, [from, bytes]: [u64; 2]) -> u64 {
        if !self.allocation(launch).is_some_and(|own| std::ptr::eq(own, allocation)) {
            return 0;
        }
        let mut common = 0;
        self.for_global(|_, at, count| common += (from + bytes).min(at + count).saturating_sub(from.max(at)));
        common
    }
}
