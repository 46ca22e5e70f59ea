//! Checks of bulk copies for the sanitiser: a copy under way must be left alone, its source must be initialised, and be
//! visible to the copy engine, which reads past the order of ordinary accesses (PTX ISA, "Proxies").

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
use crate::exec::state::transfers::{Completes, Far, Issuer, Transfer};
use crate::fault::{ASYNCHRONOUS_COPY, FaultKind};
use crate::lanes::lanes;
use crate::limits::Account;
use crate::memory::{Allocation, plural};

const LINE_BYTES: u64 = 1 << crate::exec::state::lines::LINE;

const IN_FLIGHT: &str = "PTX ISA, \"Asynchronous copy\": the memory of a copy is not touched before it completes";

const FENCE: &str = "PTX ISA, \"Proxies\": between ordinary writes and bulk copies or wgmma at the same bytes stands a fence.proxy.async";

pub(crate) const BULK_COPY: &str = "bulk copy";

/// Errors at one end of a copy when it is requested.
#[derive(Default)]
pub(crate) struct Wrongs {
    /// An access that the copy races with, and the number of bytes.
    pub(crate) race: Option<(Record, u64, u64)>,
    /// An ordinary write that the copy may not see.
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
            let goes_there = (space == "shared") == matches!(transfer.completes, Completes::Barrier(_));
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
        let to_shared = matches!(transfer.completes, Completes::Barrier(_));
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
        let source = match transfer.far {
            Far::Shared(from) => Some(from),
            _ if !to_shared => Some(transfer.at),
            _ => None,
        };
        if let Some(from) = source {
            let unset = transfer
                .read_of_shared(from)
                .into_iter()
                .filter(|at| shadow.written.get((at / 64) as usize).is_none_or(|word| word >> (at % 64) & 1 == 0));
            self.report_unwritten(at, by, [BULK_COPY, "shared"], unset, |offset| launch.describe_shared(offset));
        }
        if let Some(allocation) = transfer.allocation(launch)
            && let Some(index) = self.global.index(allocation, &launch.account)
        {
            let mut memory = std::mem::take(&mut self.global.all[index]);
            let mut wrongs = Wrongs::default();
            let mut unset = Vec::new();
            transfer.for_global(|_, from, bytes| {
                let found = self.look_at(&shadow, &mut memory, launch, by, [from, bytes], !to_shared);
                for (all, found) in [(&mut wrongs.race, found.race), (&mut wrongs.unfenced, found.unfenced)] {
                    if let Some((record, at, bytes)) = found {
                        tally(all, record, at, bytes);
                    }
                }
                if to_shared && let Some(written) = allocation.written() {
                    unset.extend((from..from + bytes).filter(|at| written.word(at / 64) >> (at % 64) & 1 == 0));
                }
            });
            self.global.all[index] = memory;
            if transfer.reduction.is_some() {
                wrongs = Wrongs::default(); // element by element it is an atomic
            }
            let describe = |offset: u64| allocation.describe(allocation.base + offset);
            self.report_wrongs(at, by, [BULK_COPY, "global"], wrongs, describe);
            self.report_unwritten(at, by, [BULK_COPY, "global"], unset.into_iter(), describe);
        }
        block.shadow = Some(shadow);
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
            let message = format!("{what} of {space} memory that was written without a fence.proxy.async since");
            let mut problem = *Problem::new(FaultKind::MissingProxyFence, 1 << by.lane, message);
            problem.notes.push(format!("{} in common, from {}", plural(bytes), describe(first)));
            problem.notes.push(FENCE.to_owned());
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
                let with = cell[0];
                if with[2] & (WRITE | ASYNC | PENDING) == WRITE
                    && with[1] > since
                    && proxied(with[0]).max(fence) < with[1]
                {
                    tally(&mut wrongs.unfenced, with, at, each);
                }
            }
        });
        wrongs
    }

    /// Looks for copies under way that the new one conflicts with.
    fn look_for_other_transfers(&mut self, at: At<'_>, block: &Block, transfer: &Transfer) {
        let to_shared = matches!(transfer.completes, Completes::Barrier(_));
        if to_shared && block.wgmmas.are_to_read() {
            self.look_for_products(at, block, transfer);
        }
        let other = block.transfers.iter().find_map(|other| {
            let common =
                if other.forbids_shared(to_shared) { other.common_shared([transfer.at, transfer.bytes]) } else { 0 };
            (common != 0 && !(other.reduction.is_some() && transfer.reduction.is_some())).then_some((other, common))
        });
        if let Some((other, common)) = other {
            let goes_there = matches!(other.completes, Completes::Barrier(_));
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
    pub(crate) fn transferred(&mut self, launch: &Launch<'_>, block: &mut Block, transfer: &Transfer) {
        self.tick();
        let here = transfer.by.block == block.index;
        // The thread of another block of the cluster is known to this block's threads by the mbarrier only.
        let (warp, lane) = if here { (transfer.by.warp, transfer.by.lane) } else { (0, 0) };
        let number = block.number;
        let Some(mut shadow) = block.shadow.take() else { return };
        shadow.begin(self.now);
        let record =
            |flags: u32| [shadow.thread(warp, lane), self.now, (transfer.by.pc as u32) << FLAGS | ASYNC | flags];
        let (written, read) = (record(WRITE), record(READ));
        let account = &launch.account;
        if let Completes::Barrier(barrier) = transfer.completes {
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
            self.hand_over(&mut shadow, warp, lane, Handover::Shared(number, barrier), [self.now; 3], account);
        }
        if let Some(allocation) = transfer.allocation(launch)
            && let Some(index) = self.global.index(allocation, account)
        {
            let mut memory = std::mem::take(&mut self.global.all[index]);
            let record = if matches!(transfer.completes, Completes::Barrier(_)) { read } else { written };
            if transfer.reduction.is_none() {
                transfer.for_global(|_, from, bytes| enter(&mut memory, &shadow, account, [from, bytes], record));
            }
            self.global.all[index] = memory;
            if let Some(touched) = &mut self.touched {
                let how = match (&transfer.completes, transfer.reduction.is_some()) {
                    (_, true) => How::Atomic,
                    (Completes::Barrier(_), false) => How::Read,
                    (Completes::Group(_), false) => How::Write,
                };
                transfer.for_global(|_, from, bytes| touched.note(allocation, how, [from, bytes], account));
            }
        }
        block.shadow = Some(shadow);
        if !matches!(transfer.completes, Completes::Barrier(_)) && transfer.held.is_none() {
            self.source_read(launch, block, transfer);
        }
    }

    /// Records that the source of a copy to global memory has been read.
    pub(crate) fn source_read(&mut self, launch: &Launch<'_>, block: &mut Block, transfer: &Transfer) {
        self.tick();
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
                Completes::Barrier(_) => ("to", "the mbarrier that it completes on has to be waited for"),
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
    /// The bytes of shared memory that count, of a source that begins at `from`: those of a box that lie outside the tensor
    /// are discarded.
    fn read_of_shared(&self, from: u64) -> Vec<u64> {
        let Far::Tile(_, _, tile) = &self.far else { return (from..from + self.bytes).collect() };
        let mut all = Vec::new();
        self.for_global(|dense, _, bytes| all.extend((dense..dense + bytes).map(|dense| tile.shared(from, dense))));
        all
    }

    /// Whether an access of its shared memory conflicts with it.
    pub(crate) fn forbids_shared(&self, writes: bool) -> bool {
        match self.completes {
            Completes::Barrier(_) => true,
            Completes::Group(_) => writes && self.held.is_none(),
        }
    }

    /// Whether an access of its global memory conflicts with it.
    pub(crate) fn forbids_global(&self, writes: bool, atomic: bool) -> bool {
        match self.completes {
            Completes::Barrier(_) => writes,
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
