//! The sanitiser: errors of a launch that its results may hide.
//!
//! It collects findings instead of ending the launch at the first. Impossible accesses are left out (a load gives zero),
//! everything else goes on. A sanitised launch has one worker, so that it finds the same each time.
//!
//! # Initialisation
//! A bit for each byte says whether it was ever written: in global memory for the life of an allocation, in shared memory
//! for a block, in local memory for a frame. A read of an unwritten byte is a finding, once the value is used
//! ([`super::undefined`]).
//!
//! # Races
//! Two accesses of different threads to the same bytes, at least one of which writes, race unless one *happens before* the
//! other (PTX ISA, "Memory Consistency Model"). Each cell of memory (4 bytes, or the size of the smallest access)
//! remembers its last write and two readers since. A moment is the number of accesses and meetings before it. A thread
//! knows of the others:
//! - everything up to the last barrier of its whole block;
//! - of its warp's lanes, everything up to the last `__syncwarp` with them;
//! - work that another thread released and it has acquired: a *release* is a strong write (atomic, volatile, relaxed …)
//!   after a fence, a barrier with a thread count, or a `.release`; an *acquire* is a strong read of the same address
//!   later. A fence after the read is not required, and any fence of the block since the access counts: NVIDIA's own
//!   examples rely on less, and a correct kernel must not be blamed.
//!
//! Two strong accesses never race, nor do writes of the value that is already there: hardware leaves one of the values.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use super::touched::{How, TouchedBytes, TouchedMemory};
use super::undefined::{Undefined, Used};
use super::wgmma_checks::WgmmaChecks;
use crate::exec::state::block::Block;
use crate::exec::state::clock::{Clock, join};
use crate::exec::state::handover::{Acquired, Fences, Giver, Handover, Handovers};
use crate::exec::state::launch::{At, BlockIndex, Launch, MAX_BEGUN};
use crate::exec::state::place::{InOrder, Kind, Place, Visit};
use crate::exec::state::problem::{Earlier, Problem};
use crate::exec::state::scene::Scene;
use crate::exec::state::shadow::*;
use crate::exec::state::warp::Warp;
use crate::fault::{ASYNCHRONOUS_COPY, Fault, FaultKind};
use crate::ir::{AtomOp, Barrier, CLUSTER_RANK, Op, Order, R, Scope, TogetherOp};
use crate::lanes::{lanes, lanes_where, mask_of};
use crate::limits::{Account, Use};
use crate::memory::{Allocation, Bits, GAP};

/// Maximum number of races that may yet turn out to be the first read of a compare-and-swap loop; beyond, one is taken
/// to be that.
const MAX_DOUBTFUL: usize = 1 << 12;

/// Maximum number of such reads of one thread at one place; a spin has many.
const MAX_DOUBTFUL_READS: usize = 16;

/// Bytes of host memory of one, with its words.
const DOUBTFUL_BYTES: u64 = 512;

pub(crate) fn what(record: Record) -> &'static str {
    if record[2] & PRODUCT != 0 {
        return super::wgmma_checks::PRODUCT_NAME;
    }
    match record[2] & (PENDING | WRITE | READ | STRONG | ASYNC) {
        flags if flags & (PENDING | ASYNC) != 0 => ASYNCHRONOUS_COPY,
        flags if flags & (WRITE | READ) == WRITE | READ => "atomic",
        flags if flags & WRITE != 0 => "write",
        _ => "read",
    }
}

/// A problem, and the instruction that met it.
#[derive(Debug)]
struct Met {
    block: BlockIndex,
    warp: u32,
    pc: usize,
    problem: Problem,
}

/// Shadows of allocations.
#[derive(Debug, Default)]
pub(crate) struct Shadows {
    pub(crate) all: Vec<Shadow>,
    /// Index of an allocation's shadow, by address.
    known: HashMap<u64, usize>,
    /// Free indices.
    free: Vec<usize>,
    /// Recent look-ups: start of an allocation + 1, and index of its shadow.
    recent: [(u64, usize); 8],
}

impl Shadows {
    /// Index of an allocation's shadow; `None` if the launch's account has no room for one.
    #[inline(always)]
    pub(crate) fn index(&mut self, allocation: &Allocation, account: &Account<'_>) -> Option<usize> {
        let recent = self.recent[(allocation.base / GAP) as usize % 8];
        if recent.0 == allocation.base + 1 { Some(recent.1) } else { self.find(allocation, account) }
    }

    #[inline(never)]
    fn find(&mut self, allocation: &Allocation, account: &Account<'_>) -> Option<usize> {
        let base = allocation.base;
        let index = match self.known.get(&base) {
            Some(index) => *index,
            None => {
                let shadow = Shadow::new(allocation.bytes, account)?;
                let index = self.free.pop().unwrap_or_else(|| {
                    self.all.push(Shadow::default());
                    self.all.len() - 1
                });
                self.all[index] = shadow;
                self.known.insert(base, index);
                index
            }
        };
        self.recent[(base / GAP) as usize % 8] = (base + 1, index);
        Some(index)
    }

    fn remove(&mut self, base: u64, account: &Account<'_>) {
        if let Some(index) = self.known.remove(&base) {
            std::mem::take(&mut self.all[index]).give_back(account);
            self.free.push(index);
            self.recent = Default::default();
        }
    }
}

/// Finds and collects errors of a launch.
#[derive(Debug)]
pub(crate) struct Sanitiser {
    findings: Vec<Fault>,
    /// Index of the finding of a kind, by instruction and, for a race, the other instruction.
    known: HashMap<(FaultKind, usize, Option<usize>), usize>,
    /// Moments so far.
    pub(crate) now: u32,
    pub(crate) global: Shadows,
    handovers: Handovers,
    /// Whether some instruction of the module compares and swaps.
    swaps: bool,
    /// Races of a thread's plain read with atomics, by thread and place: none if its next access there is a compare-and-swap.
    doubtful: BTreeMap<(u32, Handover), Vec<Met>>,
    /// Undefined values in registers.
    undefined: Undefined,
    /// Registers of warps that execute `wgmma`.
    pub(crate) wgmma: WgmmaChecks,
    /// Start and end of each variable in shared memory, in order.
    pub(crate) variables: Vec<(u64, u64)>,
    /// Bytes of allocations that were accessed, if requested.
    pub(crate) touched: Option<TouchedBytes>,
}

impl Sanitiser {
    pub(crate) fn new(launch: &Launch<'_>) -> Self {
        let statics = launch.kernel.static_variables.iter().map(|variable| {
            let start = u64::from(launch.shared_offset(variable.offset));
            (start, start + u64::from(variable.bytes))
        });
        // What follows the last variable is dynamic, and the padding to 16 bytes before it belongs to no variable.
        let dynamic = u64::from(launch.shared_offset(launch.kernel.info.static_shared));
        let variables = statics.chain([(dynamic, launch.shared_bytes().into())]).collect();
        let blocks = launch.blocks();
        let code = &launch.program.code;
        Self {
            findings: Vec::new(),
            known: HashMap::new(),
            now: 1,
            global: Shadows::default(),
            handovers: Handovers::new(blocks.min(MAX_BEGUN as u64) * u64::from(launch.threads())),
            swaps: code.iter().any(|inst| is_swap(&inst.op)),
            doubtful: BTreeMap::new(),
            undefined: Undefined::default(),
            wgmma: WgmmaChecks::new(code),
            variables,
            touched: launch.new_touched(),
        }
    }

    /// Takes the bytes that were accessed.
    pub(crate) fn take_touched(&mut self) -> Vec<TouchedMemory> {
        self.touched.take().map(TouchedBytes::into_ranges).unwrap_or_default()
    }

    pub(crate) fn into_findings(self) -> Vec<Fault> {
        self.findings
    }

    pub(crate) fn tick(&mut self) -> u32 {
        self.now = self.now.saturating_add(1);
        self.now
    }

    /// Records a problem of the lanes of a warp. Each line is kept once for each kind, and counted.
    pub(crate) fn report(&mut self, at: At<'_>, problem: Problem) {
        let count = u64::from(problem.lanes.count_ones());
        let key = (problem.kind, at.pc, problem.other.map(|other| other.pc));
        let known = match self.known.get(&key) {
            Some(known) => *known,
            None => {
                // A finding with its place and notes; where there is no room for it the launch is about to end.
                let _ = at.launch.account.take(Use::Records, 1024);
                let mut finding = at.launch.fault(problem, at.pc, at.block, at.warp);
                finding.count = 0;
                let known = self.collect(finding);
                self.known.insert(key, known);
                known
            }
        };
        self.findings[known].count += count;
    }

    /// Adds a finding, unless its line has one already. Returns its index.
    pub(crate) fn collect(&mut self, finding: Fault) -> usize {
        finding.line_in(&self.findings).unwrap_or_else(|| {
            self.findings.push(finding);
            self.findings.len() - 1
        })
    }

    /// Forgets a block of the heap that was freed.
    pub(crate) fn freed(&mut self, launch: &Launch<'_>, base: u64) {
        self.global.remove(base, &launch.account);
    }

    /// Checks an access that the warp is about to make. Returns the lanes that must not make it.
    pub(crate) fn inspect(&mut self, block: &mut Block, warp: &Warp, visit: &Visit<'_>) -> u32 {
        self.tick();
        let Visit { at, part, addresses, reach, .. } = *visit;
        let offsets = visit.offsets();
        let number = block.number;
        if block.transfers.len() != 0 || matches!(part.place, Place::Peer(_)) {
            self.look_for_transfers(block, visit);
        }
        // Lanes that compare and swap one place in the same instruction: each checks what it read before the others' swaps,
        // also if those wrote back what was there, so that its own succeeds at once.
        let swaps = is_swap(&at.launch.program.code[at.pc].op);
        match part.place {
            Place::Param => 0,
            Place::Local => {
                let is_written = |lane: usize, from: u64, bytes: u64| {
                    warp.local.is_written(lane, (offsets[lane] + from) as u32, bytes as usize)
                };
                self.check_written(visit, number, part.mask, is_written);
                0
            }
            Place::Shared | Place::Peer(_) => {
                // Nearly always all lanes are in one variable.
                let around = |at: u64| self.variables.iter().find(|(_, end)| at < *end).copied().unwrap_or((0, 0));
                let outside = |(start, end): (u64, u64)| {
                    mask_of(|lane| offsets[lane] < start || offsets[lane] + reach.bytes > end)
                };
                let mut stray = outside(around(offsets[part.mask.trailing_zeros() as usize])) & part.mask;
                stray = lanes_where(stray, |lane| outside(around(offsets[lane])) >> lane & 1 == 1);
                if stray != 0 {
                    self.report(at, between_variables(visit, stray));
                }
                if reach.writes() && block.wgmmas.are_to_read() && matches!(part.place, Place::Shared) {
                    self.look_for_tiles(block, visit);
                }
                let mask = part.mask & !stray;
                let Some(mut shadow) = block.shadow.take() else { return stray };
                shadow.begin(self.now);
                let mut peer = match part.place {
                    Place::Peer(rank) => Some(&mut block.peers[rank as usize]),
                    _ => None,
                };
                let owner = peer.as_ref().map_or(number, |peer| peer.number);
                let theirs = peer.as_mut().and_then(|peer| peer.shadow.as_mut());
                let (mut memory, mut written) = match theirs {
                    Some(theirs) => {
                        theirs.begin(self.now);
                        theirs.reached_by(&shadow, at, mask, self.now);
                        (std::mem::take(&mut theirs.memory), std::mem::take(&mut theirs.written))
                    }
                    None => (std::mem::take(&mut shadow.memory), std::mem::take(&mut shadow.written)),
                };
                let bits = bits_of(reach.bytes);
                let is_written = |lane: usize, from: u64, bytes: u64| {
                    let at = offsets[lane] + from;
                    !written[(at / 64) as usize] >> (at % 64) & bits_of(bytes) == 0
                };
                self.check_written(visit, number, mask, is_written);
                // A copy counts when it is made.
                if matches!(reach.kind, Kind::Write | Kind::Atomic) {
                    for lane in lanes(mask) {
                        written[(offsets[lane] / 64) as usize] |= bits << (offsets[lane] % 64);
                    }
                }
                let shared: &[u128] = match part.place {
                    Place::Peer(rank) => &block.peers[rank as usize].shared,
                    _ => &block.shared,
                };
                let held = |at: u64, bytes: usize, value: &[u8]| {
                    // SAFETY: shared memory is plain bytes, and `at + bytes` was checked to lie in it.
                    let all = unsafe {
                        std::slice::from_raw_parts(shared.as_ptr().cast::<u8>(), std::mem::size_of_val(shared))
                    };
                    all[at as usize..at as usize + bytes] == value[..bytes]
                };
                let place = |at: u64| Handover::Shared(owner, at);
                self.settle(visit, &shadow, mask, place);
                for (lane, record) in self.races(&mut shadow, &mut memory, visit, mask, held, place) {
                    let problem = race_problem(FaultKind::SharedRace, visit, &shadow, lane, record);
                    self.report_race(visit, &shadow, lane, record, place(offsets[lane]), problem);
                }
                if swaps {
                    self.settle(visit, &shadow, mask, place);
                }
                let theirs = match part.place {
                    Place::Peer(rank) => block.peers[rank as usize].shadow.as_mut(),
                    _ => None,
                };
                let keeper = theirs.unwrap_or(&mut shadow);
                (keeper.memory, keeper.written) = (memory, written);
                block.shadow = Some(shadow);
                stray
            }
            Place::Allocation(allocation) => {
                let Some(mut shadow) = block.shadow.take() else { return 0 };
                shadow.begin(self.now);
                if !at.launch.earlier.is_empty() {
                    self.look_for_earlier_work(visit, &shadow, allocation);
                }
                if let Some(written) = allocation.written() {
                    let is_written = |lane: usize, from: u64, bytes: u64| written.has_all(offsets[lane] + from, bytes);
                    self.check_written(visit, number, part.mask, is_written);
                    if reach.writes() {
                        lanes(part.mask).for_each(|lane| written.set(offsets[lane], reach.bytes));
                    }
                }
                if let Some(touched) = &mut self.touched {
                    let how = match reach.kind {
                        Kind::Read => How::Read,
                        Kind::Write | Kind::Copy => How::Write,
                        Kind::Atomic => How::Atomic,
                    };
                    for lane in lanes(part.mask) {
                        touched.note(allocation, how, [offsets[lane], reach.bytes], &at.launch.account);
                    }
                }
                let base = allocation.base;
                let Some(index) = self.global.index(allocation, &at.launch.account) else {
                    block.shadow = Some(shadow);
                    return 0;
                };
                let mut memory = std::mem::take(&mut self.global.all[index]);
                let held = |at: u64, bytes: usize, value: &[u8]| {
                    let mut found = [0; 32];
                    allocation.read(at, &mut found[..bytes]);
                    found[..bytes] == value[..bytes]
                };
                let place = |at: u64| Handover::Global(base + at);
                self.settle(visit, &shadow, part.mask, place);
                let races = self.races(&mut shadow, &mut memory, visit, part.mask, held, place);
                self.global.all[index] = memory;
                for (lane, record) in races {
                    let mut problem = race_problem(FaultKind::GlobalRace, visit, &shadow, lane, record);
                    problem.notes.push(format!("the address is {}", allocation.describe(addresses[lane])));
                    self.report_race(visit, &shadow, lane, record, place(offsets[lane]), problem);
                }
                if swaps {
                    self.settle(visit, &shadow, part.mask, place);
                }
                block.shadow = Some(shadow);
                0
            }
        }
    }

    /// Reports a race, unless it is one between a plain read and an atomic of two threads: the reader may check by a
    /// compare-and-swap that nothing has changed, as the Programming Guide's own atomic addition of f64 does.
    fn report_race(
        &mut self,
        visit: &Visit<'_>,
        shadow: &BlockShadow,
        lane: usize,
        with: Record,
        place: Handover,
        problem: Problem,
    ) {
        const KINDS: u32 = STRONG | PENDING | WRITE | READ;
        let at = visit.at;
        let reader = match visit.reach.kind {
            Kind::Read if visit.reach.order == Order::Weak && with[2] & KINDS == STRONG | WRITE | READ => {
                shadow.thread(at.warp, lane)
            }
            Kind::Atomic if visit.reach.order != Order::Weak && with[2] & KINDS == READ => with[0],
            _ => return self.report(at, problem),
        };
        if !self.swaps {
            return self.report(at, problem);
        }
        if self.doubtful.len() < MAX_DOUBTFUL || self.doubtful.contains_key(&(reader, place)) {
            let met = Met { block: at.block, warp: at.warp, pc: at.pc, problem };
            let races = self.doubtful.entry((reader, place)).or_default();
            if races.len() < MAX_DOUBTFUL_READS && at.launch.account.take(Use::Records, DOUBTFUL_BYTES) {
                races.push(met);
            }
        }
    }

    /// Reports lanes that touch bytes which earlier work may still use: their device is not ordered after it, and they have learnt
    /// nothing from one that is.
    #[inline(never)]
    fn look_for_earlier_work(&mut self, visit: &Visit<'_>, shadow: &BlockShadow, allocation: &Allocation) {
        let Visit { at, reach, .. } = *visit;
        let (launch, offsets) = (at.launch, visit.offsets());
        let base = allocation.base;
        for work in launch.earlier.iter().filter(|work| work.pointer.0 == base) {
            let knows = |device: u32| work.known_to.get(device as usize).copied().unwrap_or(true);
            if knows(shadow.device) || !(work.writes || reach.writes()) || self.handovers.missing {
                continue;
            }
            let own = &shadow.warps[at.warp as usize].acquired;
            let has_learnt = |lane: usize| {
                let acquired = own.get(lane).and_then(|acquired| acquired.clock.as_ref());
                [shadow.acquired.as_ref(), acquired].into_iter().flatten().any(|clock| {
                    let devices = (0..launch.members.len() as u32).filter(|device| knows(*device));
                    devices.into_iter().any(|device| clock.knows_any(launch.blocks_of(device), launch.threads().into()))
                })
            };
            let meets = |lane: usize| offsets[lane] < work.bytes.end && offsets[lane] + reach.bytes > work.bytes.start;
            let lanes = lanes_where(visit.part.mask, |lane| meets(lane) && !has_learnt(lane));
            if lanes != 0 {
                let verb = if reach.writes() { "writes" } else { "reads" };
                let message =
                    format!("race in global memory: this device {verb} what {}, and does not wait for it", work.what);
                let address = visit.addresses[lanes.trailing_zeros() as usize];
                let problem = Problem::new(FaultKind::GlobalRace, lanes, message)
                    .at(address)
                    .note(format!("the address is {}", allocation.describe(address)))
                    .note("it ran before this launch on another device: begin with a barrier of all devices, by flags of system scope");
                self.report(at, *problem);
            }
        }
    }

    /// Called when the lanes of `mask` access places: that decides which of their earlier reads there raced.
    fn settle(&mut self, visit: &Visit<'_>, shadow: &BlockShadow, mask: u32, place: impl Fn(u64) -> Handover) {
        if self.doubtful.is_empty() {
            return;
        }
        let (at, offsets) = (visit.at, visit.offsets());
        let op = &at.launch.program.code[at.pc].op;
        if matches!(op, Op::Load(access) if access.order == Order::Weak) {
            return;
        }
        for lane in lanes(mask) {
            let key = (shadow.thread(at.warp, lane), place(offsets[lane]));
            if let Some(races) = self.doubtful.remove(&key) {
                at.launch.account.give(Use::Records, races.len() as u64 * DOUBTFUL_BYTES);
                if !is_swap(op) {
                    self.report_all(at.launch, races);
                }
            }
        }
    }

    fn report_all(&mut self, launch: &Launch<'_>, all: Vec<Met>) {
        for Met { block, warp, pc, problem } in all {
            self.report(At { launch, block, warp, pc }, problem);
        }
    }

    /// Reports warps of a block that wait for each other without end: some of their lanes for the rest of the warp.
    pub(crate) fn stuck(&mut self, launch: &Launch<'_>, block: &Block) {
        let Some(shadow) = &block.shadow else { return };
        for (warp, known) in block.warps.iter().zip(&shadow.warps) {
            for Arrival { pc, mask, .. } in known.arrivals.iter().filter(|arrival| warp.live & !arrival.mask != 0) {
                let at = At { launch, block: block.index, warp: warp.number, pc: *pc };
                self.report(at, apart(launch, block.index, warp, *pc, *mask));
            }
        }
    }

    /// Called when a block ends.
    pub(crate) fn ended(&mut self, launch: &Launch<'_>, block: &Block) {
        self.undefined.forget(block.number);
        self.wgmma.forget(block.number);
        let Some(shadow) = &block.shadow else { return };
        let mine = |thread: u32| u64::from(thread.wrapping_sub(shadow.first as u32 + 1)) < u64::from(shadow.threads);
        while let Some(key) = self.doubtful.keys().find(|(thread, _)| mine(*thread)).copied() {
            let races = self.doubtful.remove(&key).unwrap_or_default();
            launch.account.give(Use::Records, races.len() as u64 * DOUBTFUL_BYTES);
            self.report_all(launch, races);
        }
        shadow.places.iter().for_each(|place| self.handovers.forget(*place));
        self.left_behind(launch, block, shadow);
    }

    /// Reports accesses of its cluster to the shared memory of a block that has ended, if none of its threads knew of them: it
    /// might have exited before.
    fn left_behind(&mut self, launch: &Launch<'_>, block: &Block, shadow: &BlockShadow) {
        if shadow.reached.is_empty() || self.handovers.missing {
            return;
        }
        for (&(warp, pc), &(moment, lane)) in &shadow.reached {
            let threads = u64::from(shadow.threads);
            let warps = threads.div_ceil(32);
            let (number, warp) = (u64::from(warp) / warps, (u64::from(warp) % warps) as u32);
            let thread = number * threads + u64::from(warp) * 32 + u64::from(lane);
            let covers = |clock: &Arc<Clock>| clock.covers(thread as u32, number as u32, moment, false);
            let own = shadow.warps.iter().flat_map(|warp| &warp.acquired).filter_map(|own| own.clock.as_ref());
            if shadow.acquired.iter().chain(own).any(covers) {
                continue;
            }
            let [x, y, z] = block.index.at;
            let message = format!(
                "access to shared memory of block ({x}, {y}, {z}), which may have exited: nothing orders the access before its end"
            );
            let at = At { launch, block: launch.block_index(number), warp, pc: pc as usize };
            self.report(at, *Problem::new(FaultKind::BlockExit, 1 << lane, message));
        }
    }

    /// Checks a plain access of words of a whole allocation or of shared memory by lanes that are in order: all at one
    /// place, or each at the next word. False if it takes a closer look ([`Self::inspect`]).
    #[inline(always)]
    pub(crate) fn pass(&mut self, block: &mut Block, at: At<'_>, place: Place<'_>, access: &InOrder) -> bool {
        if access.write && block.wgmmas.are_to_read() && matches!(place, Place::Shared) || !at.launch.earlier.is_empty()
        {
            return false;
        }
        if access.fresh {
            self.tick();
        }
        let InOrder { offset, count, same, lane, lanes, mask, write, .. } = *access;
        let number = block.number as u32;
        if block.transfers.len() != 0 && block.transfers.iter().any(|transfer| transfer.may_meet(&place, access)) {
            return false;
        }
        let Some(shadow) = &mut block.shadow else { return false };
        shadow.begin(self.now);
        let bytes = if same { 4 * count } else { 4 * u64::from(lanes) };
        let threads = [shadow.thread(at.warp, lane), mask];
        let moment = [self.now, at.pc as u32];
        let range = (offset, bytes);
        let look = |memory: &mut Shadow, shadow: &BlockShadow| {
            if write {
                mask == u32::MAX && memory.write_in_order(shadow, number, offset, threads, moment)
            } else if same {
                memory.read_one(shadow, number, [offset, bytes], threads, moment)
            } else {
                memory.read_in_order(shadow, number, offset, threads, moment)
            }
        };
        match place {
            Place::Shared => {
                let around = self.variables.iter().find(|(_, end)| offset < *end);
                if !around.is_some_and(|(start, end)| offset >= *start && offset + bytes <= *end)
                    || !write && !all_set(|word| shadow.written[word as usize], range)
                {
                    return false;
                }
                let mut memory = std::mem::take(&mut shadow.memory);
                let passed = memory.touch(offset, bytes, &at.launch.account) && look(&mut memory, shadow);
                shadow.memory = memory;
                if passed && write {
                    for_words(range, |word, bits| shadow.written[word as usize] |= bits);
                }
                passed
            }
            Place::Allocation(allocation) => {
                let Some(written) = allocation.written() else { return false };
                if !write && !all_set(|word| written.word(word), range) {
                    return false;
                }
                let account = &at.launch.account;
                let Some(index) = self.global.index(allocation, account) else { return false };
                let memory = &mut self.global.all[index];
                let passed = memory.touch(offset, bytes, account) && look(memory, shadow);
                if passed && write {
                    for_words(range, |word, bits| written.set_word(word, bits));
                }
                if passed && let Some(touched) = &mut self.touched {
                    let how = if write { How::Write } else { How::Read };
                    if same {
                        touched.note(allocation, how, [offset, bytes], account);
                    } else {
                        for lane in crate::lanes::lanes(mask) {
                            touched.note(allocation, how, [offset + 4 * lane as u64, 4], account);
                        }
                    }
                }
                passed
            }
            Place::Peer(_) | Place::Local | Place::Param => false,
        }
    }

    /// Looks for lanes of `mask` that read unwritten bytes. A load's unwritten values are reported when they are used.
    fn check_written(
        &mut self,
        visit: &Visit<'_>,
        block: u64,
        mask: u32,
        is_written: impl Fn(usize, u64, u64) -> bool,
    ) {
        let Visit { at, frame, reach, .. } = *visit;
        if !reach.reads() {
            return;
        }
        let unwritten = lanes_where(mask, |lane| !is_written(lane, 0, reach.bytes));
        if unwritten == 0 {
            return;
        }
        let kind = FaultKind::UninitialisedRead;
        let mut rest = unwritten;
        if let Op::Load(access) = &at.launch.program.code[at.pc].op {
            let bytes = u64::from(access.bytes);
            for (element, &d) in (0..u64::from(access.count)).zip(&access.rows) {
                let lanes = lanes_where(unwritten, |lane| !is_written(lane, element * bytes, bytes));
                if d == R::MAX {
                    rest &= !lanes;
                } else if lanes != 0 {
                    let problem = || unwritten_problem(visit, lanes);
                    let name = (block, at.warp, frame, d);
                    if self.undefined.add(&at.launch.account, name, at.pc, kind, [lanes, lanes & rest], problem) {
                        rest &= !lanes;
                    }
                }
            }
        }
        if let Op::Together(together) = &at.launch.program.code[at.pc].op
            && let TogetherOp::LdMatrix(moves) = &together.op
        {
            for (matrix, &d) in moves.rows.iter().enumerate() {
                let rows = unwritten & 0xff << (8 * matrix);
                let unset = |row: usize, from: usize, bytes: u64| {
                    let row = 8 * matrix + row;
                    rows >> row & 1 == 1 && !is_written(row, from as u64, bytes)
                };
                // Lane l has elements 2·(l % 4) and the next of row l / 4; transposed, of column l / 4.
                let lanes = mask_of(|lane| match moves.transposed {
                    false => unset(lane / 4, 4 * (lane % 4), 4),
                    true => (0..2).any(|next| unset(2 * (lane % 4) + next, 2 * (lane / 4), 2)),
                });
                let problem = || Problem { lanes, ..unwritten_problem(visit, rows) };
                let name = (block, at.warp, frame, d);
                if lanes != 0 && self.undefined.add(&at.launch.account, name, at.pc, kind, [lanes; 2], problem) {
                    rest &= !rows;
                }
            }
        }
        if rest != 0 {
            self.report(at, unwritten_problem(visit, rest));
        }
    }

    /// Records that the lanes of `mask` have read by a shuffle from lanes that do not take part.
    pub(crate) fn read_from_outside(
        &mut self,
        at: At<'_>,
        block: &Block,
        frame: (u32, u32),
        d: R,
        mask: u32,
        problem: Box<Problem>,
    ) {
        let name = (block.number, at.warp, frame, d);
        let kind = problem.kind;
        let mut problem = Some(problem);
        let followed = self.undefined.add(&at.launch.account, name, at.pc, kind, [mask; 2], || match problem.take() {
            Some(problem) => *problem,
            None => *Problem::new(kind, mask, ""),
        });
        if let Some(problem) = problem.filter(|_| !followed) {
            self.report(at, *problem);
        }
    }

    /// Called when a warp is about to execute an instruction.
    #[inline(always)]
    pub(crate) fn issue(&mut self, scene: &Scene<'_, '_>) {
        if !self.undefined.is_empty() {
            self.follow(scene);
        }
        if self.wgmma.is_on {
            self.follow_wgmma(scene);
        }
    }

    /// Reports undefined values that the instruction uses.
    #[inline(never)]
    fn follow(&mut self, scene: &Scene<'_, '_>) {
        for Used { pc, kind, lanes, count, problem } in self.undefined.follow(scene) {
            if let Some(&known) = self.known.get(&(kind, pc, None)) {
                self.findings[known].count += count;
            } else if let Some(mut problem) = problem {
                if problem.lanes.trailing_zeros() != lanes.trailing_zeros() {
                    problem.notes.clear(); // they are about another thread
                    problem.address = None;
                }
                problem.lanes = lanes;
                let at = At { launch: scene.launch, block: scene.block.index, warp: scene.warp.number, pc };
                self.report(at, problem);
                if let Some(&known) = self.known.get(&(kind, pc, None)) {
                    self.findings[known].count += count - u64::from(lanes.count_ones());
                }
            }
        }
    }

    /// Returns the lanes that race with an earlier access, and that access. Enters the access into the shadow.
    fn races(
        &mut self,
        shadow: &mut BlockShadow,
        memory: &mut Shadow,
        visit: &Visit<'_>,
        mask: u32,
        held: impl Fn(u64, usize, &[u8]) -> bool,
        place: impl Fn(u64) -> Handover,
    ) -> Vec<(usize, Record)> {
        let mut found = Vec::new();
        if mask == 0 {
            return found;
        }
        let Visit { at: At { launch, warp, pc, .. }, reach, .. } = *visit;
        let offsets = visit.offsets();
        let number = shadow.number();
        for lane in lanes(mask) {
            let range = [offsets[lane], reach.bytes];
            if !memory.touch(range[0], range[1], &launch.account)
                || memory.open(shadow, range, &launch.account).is_none()
            {
                return found;
            }
        }
        let since = memory.since;
        let strong = reach.order != Order::Weak;
        let (reads, writes) = (reach.reads(), reach.writes());
        let flags = if strong { STRONG } else { 0 }
            | if strong && reach.scope == Scope::System { SYSTEM } else { 0 }
            | if reach.kind == Kind::Copy { PENDING } else { 0 }
            | if reads { READ } else { 0 }
            | if writes { WRITE } else { 0 };
        // Where all lanes read one place that cannot have been written meanwhile, two of them stand for all.
        let mut mask = mask;
        let start = offsets[mask.trailing_zeros() as usize];
        if !writes && !strong && mask.count_ones() > 2 && lanes(mask).all(|lane| offsets[lane] == start) {
            let quiet = |cell: &Cell| {
                shadow.is_past(cell[0], since) && (cell[1][2] & WRITE == 0 || shadow.is_past(cell[1], since))
            };
            if memory.opened(start, reach.bytes).iter().all(quiet) {
                let second = mask & (mask - 1);
                mask &= !(second & (second - 1));
            }
        }
        let first_thread = (shadow.first as u32).wrapping_add(warp * 32 + 1);
        // Strong accesses of two devices are so for each other only if both are for the system.
        let of_device = |thread: u32| launch.device_of_number(u64::from(thread - 1) / u64::from(launch.threads()));
        let device = shadow.device;
        let together =
            |with: Record| !launch.is_joint() || flags & with[2] & SYSTEM != 0 || of_device(with[0]) == device;
        for lane in lanes(mask) {
            let me = first_thread.wrapping_add(lane as u32);
            let record = [me, self.now, (pc as u32) << FLAGS | flags];
            if strong && reads && !reach.blind {
                self.take_over(shadow, warp, lane, place(offsets[lane]), &launch.account);
            }
            let mut race = None;
            for cell in memory.opened(offsets[lane], reach.bytes) {
                let conflicts = |with: Record| {
                    !shadow.is_past(with, since)
                        && (with[0] != me || with[2] & PENDING != 0)
                        && !(strong && with[2] & STRONG != 0 && together(with))
                        && !self.happens_before(shadow, with, warp, lane)
                };
                if race.is_none() {
                    race = cell.iter().copied().find(|other| (writes || other[2] & WRITE != 0) && conflicts(*other));
                }
                let unpublished = |with: Record| with[2] & (WRITE | STRONG) == WRITE && with[1] > since;
                if writes && strong && unpublished(cell[0]) {
                    *cell = [cell[0], record, NO_RECORD];
                } else if writes {
                    *cell = [record, NO_RECORD, NO_RECORD];
                } else {
                    let [_, one, other] = cell;
                    if one[2] & WRITE != 0 && !shadow.is_past(*one, since) {
                        if shadow.is_past(*other, since) || one[1] != self.now {
                            *other = record;
                        }
                    } else if shadow.is_past(*one, since) || one[0] == me {
                        *one = record;
                    } else if shadow.is_past(*other, since) || other[0] == me {
                        *other = record;
                    } else if one[1] != self.now || other[1] != self.now {
                        // In a warp the later reader knows more, and readers of two warps know more than those of one.
                        let warp_of = |thread: u32| thread.wrapping_sub(first_thread) / 32;
                        if warp_of(one[0]) == 0 {
                            *one = record;
                        } else if warp_of(other[0]) == 0 || warp_of(one[0]) == warp_of(other[0]) {
                            *other = record;
                        }
                    }
                }
            }
            if let Some(with) = race {
                // A write of what is there already, over a write, changes nothing.
                let same = with[2] & (WRITE | READ | PENDING) == WRITE
                    && reach.kind == Kind::Write
                    && reach.values.is_some_and(|values| {
                        let value = values(lane);
                        let written_now = with[1] == self.now;
                        if written_now {
                            let other = with[0].wrapping_sub(first_thread) as usize; // a lane of this instruction
                            offsets[other] == offsets[lane] && values(other) == value
                        } else {
                            held(offsets[lane], reach.bytes as usize, &value)
                        }
                    });
                if !same {
                    found.push((lane, with));
                }
            }
            memory.note(offsets[lane], flags, self.now, number);
            if strong && writes {
                let ordered = reach.order.releases();
                self.hand_over(shadow, warp, lane, place(offsets[lane]), ordered, &launch.account);
            }
        }
        found
    }

    /// Whether the thread knows of `earlier`: it happens before the thread's work from now on.
    pub(crate) fn happens_before(&self, shadow: &BlockShadow, earlier: Record, warp: u32, lane: usize) -> bool {
        let [thread, moment, flags] = earlier;
        if flags & PENDING != 0 {
            return false; // no thread knows of a copy that is under way
        }
        if flags & PRODUCT != 0 {
            // Its own threads have waited for it, and what any of them hands on comes after that.
            let of_group = |at: u32| [thread + at, moment, flags & !PRODUCT];
            let group = (u64::from(thread) - 1).wrapping_sub(shadow.first) / 128;
            return group == u64::from(warp / 4)
                || (0..128).any(|at| self.happens_before(shadow, of_group(at), warp, lane));
        }
        let thread = u64::from(thread) - 1;
        let in_block = thread.wrapping_sub(shadow.first);
        let same_block = in_block < u64::from(shadow.threads);
        let own = &shadow.warps[warp as usize];
        if same_block {
            if moment <= shadow.base && !shadow.left_before_barrier(earlier) {
                return true;
            }
            if in_block / 32 == u64::from(warp)
                && moment <= own.mates.get(lane).map_or(own.met, |mates| mates[(in_block % 32) as usize])
            {
                return true;
            }
        }
        if self.handovers.missing {
            return true;
        }
        let block = (thread / u64::from(shadow.threads)) as u32;
        let strong = flags & (STRONG | WRITE) == STRONG | WRITE;
        let acquired = own.acquired.get(lane).and_then(|acquired| acquired.clock.as_ref());
        [shadow.acquired.as_ref(), acquired]
            .into_iter()
            .flatten()
            .any(|clock| clock.covers(thread as u32, block, moment, strong))
    }

    /// Records that the lane has read others' writes there.
    fn take_over(&mut self, shadow: &mut BlockShadow, warp: u32, lane: usize, place: Handover, account: &Account<'_>) {
        let group = [shadow.number(), shadow.device];
        if self.handovers.has_room(account) {
            self.handovers.take_over(place, group, shadow.acquired(warp, lane, account));
        }
    }

    /// Hands over the lane's earlier work, as far as a fence followed it (`ordered`: needs none).
    pub(crate) fn hand_over(
        &mut self,
        shadow: &mut BlockShadow,
        warp: u32,
        lane: usize,
        place: Handover,
        ordered: bool,
        account: &Account<'_>,
    ) {
        let fences = if ordered { [self.now; 3] } else { shadow.fences };
        if fences == [0; 3] {
            return;
        }
        let mut mates = shadow.warps[warp as usize].known(lane);
        mates[lane] = self.now;
        if self.handovers.has_room(account) {
            self.release(shadow, warp, lane, place, mates, fences);
        }
    }

    fn release(
        &mut self,
        shadow: &mut BlockShadow,
        warp: u32,
        lane: usize,
        place: Handover,
        mates: [u32; 32],
        fences: Fences,
    ) {
        let first = (shadow.first as u32).wrapping_add(warp * 32);
        let giver = Giver {
            thread: first.wrapping_add(lane as u32),
            block: shadow.number(),
            device: shadow.device,
            warp: first,
            mates,
            base: shadow.base,
            fences,
            own: shadow.warps[warp as usize].acquired.get(lane),
            common: (&shadow.acquired, shadow.acquired_at),
        };
        if self.handovers.release(place, self.now, &giver) && !matches!(place, Handover::Global(_)) {
            shadow.places.push(place);
        }
    }

    /// Records that a lane's asynchronous copy to shared memory has been waited for.
    pub(crate) fn copied(&mut self, block: &mut Block, warp: u32, lane: usize, to: u32, bytes: u8) {
        let now = self.tick();
        let Some(shadow) = &mut block.shadow else { return };
        let bits = bits_of(bytes.into());
        shadow.written[(to / 64) as usize] |= bits << (to % 64);
        let thread = shadow.thread(warp, lane);
        shadow.memory.settle(to.into(), bytes.into(), thread, now);
    }

    /// Records that a lane's asynchronous copies have been made, and that it arrives at the mbarrier at `at` in shared
    /// memory.
    pub(crate) fn arrived_after_copies(
        &mut self,
        launch: &Launch<'_>,
        block: &mut Block,
        warp: u32,
        lane: usize,
        at: u64,
    ) {
        self.tick();
        let number = block.number;
        if let Some(mut shadow) = block.shadow.take() {
            self.hand_over(&mut shadow, warp, lane, Handover::Shared(number, at), true, &launch.account);
            block.shadow = Some(shadow);
        }
    }

    /// Records that the lanes of `group` met at a `__syncwarp`: each now has the knowledge of the others.
    pub(crate) fn warp_met(&mut self, launch: &Launch<'_>, block: &mut Block, warp: u32, group: u32) {
        let now = self.now;
        self.tick();
        let Some(shadow) = &mut block.shadow else { return };
        shadow.begin(self.now);
        if group == u32::MAX {
            let known = &mut shadow.warps[warp as usize];
            known.mates.clear();
            known.met = now;
        } else {
            let mates = shadow.mates(warp, &launch.account);
            let mut known = [0; 32];
            for lane in lanes(group) {
                for (known, moment) in known.iter_mut().zip(mates[lane]) {
                    *known = moment.max(*known);
                }
            }
            for lane in lanes(group) {
                known[lane] = now;
            }
            for lane in lanes(group) {
                mates[lane] = known;
            }
        }
        let acquired = &mut shadow.warps[warp as usize].acquired;
        if !acquired.is_empty() {
            let mut all = None;
            lanes(group).for_each(|lane| join(&mut all, &acquired[lane].clock, self.handovers.limit()));
            for lane in lanes(group) {
                let same = match (&acquired[lane].clock, &all) {
                    (Some(own), Some(all)) => Arc::ptr_eq(own, all),
                    (own, all) => own.is_none() && all.is_none(),
                };
                if !same {
                    acquired[lane] = Acquired::of(all.clone());
                }
            }
        }
    }

    /// Called when lanes exit.
    pub(crate) fn left(&mut self, launch: &Launch<'_>, block: &mut Block, warp: u32, mask: u32) {
        if let Some(shadow) = &mut block.shadow {
            shadow.leave(warp, mask, &launch.account);
        }
    }

    /// Records a fence of a thread of the block.
    pub(crate) fn fenced(&mut self, launch: &Launch<'_>, block: &mut Block, scope: Scope) {
        let now = self.now;
        self.tick();
        if let Some(shadow) = &mut block.shadow {
            shadow.begin(self.now);
            // One device is all there is, unless several run the launch.
            let scope = if scope == Scope::Device && !launch.is_joint() { Scope::System } else { scope };
            shadow.fences[..=scope as usize].fill(now);
        }
    }

    /// Called when lanes come to a barrier of the block.
    pub(crate) fn arrived(
        &mut self,
        at: At<'_>,
        block: &mut Block,
        warp: &Warp,
        barrier: &Barrier,
        id: u32,
        mask: u32,
    ) {
        let At { launch, pc, .. } = at;
        let number = block.number;
        self.tick();
        let Some(mut shadow) = block.shadow.take() else { return };
        shadow.begin(self.now);
        if barrier.aligned && mask != warp.live {
            // All threads of the warp must execute the same barrier instruction (PTX ISA, "barrier", `.aligned`). They may
            // come one after another, where the compiler made branches jump to it; `gathered` sees who came.
            let arrivals = &mut shadow.warps[warp.number as usize].arrivals;
            let again = arrivals.iter().any(|arrival| arrival.id == id && arrival.mask & mask != 0);
            if again || launch.program.code[pc].guard.predicate().is_some() {
                let problem = apart(launch, block.index, warp, pc, mask);
                self.report(at, problem);
            } else {
                arrivals.push(Arrival { id, pc, mask });
            }
        }
        if barrier.count.is_some() {
            let fences = [self.now; 3];
            self.hand_over_all(&mut shadow, warp.number, mask, Handover::Barrier(number, id), fences, &launch.account);
            self.tick();
        } else if barrier.aligned && id == 0 {
            // `__syncthreads()` in code that not all threads of the block enter (CUDA C++ Programming Guide). PTX has no such
            // rule for threads of different warps, and other barriers are written by those who know. One call may
            // have become several instructions.
            let first = *shadow.gathering.entry(id).or_insert(pc);
            let line = |pc: usize| {
                let site = launch.site(pc);
                (site.file, site.line)
            };
            let loc = |pc: usize| launch.program.places[pc].loc;
            if first != pc
                && let (Some(one), Some(other)) = (loc(first), loc(pc))
                && ((one.file, one.line) != (other.file, other.line) || line(first) != line(pc))
            {
                let message = "threads of the block wait at different barriers for each other".to_owned();
                let mut problem = Problem::new(FaultKind::BarrierDivergence, mask, message);
                problem = problem.note(launch.whereabouts(first, block.index, 0, 1, "or another came first: it waits"));
                self.report(at, *problem);
            }
        }
        block.shadow = Some(shadow);
    }

    /// Hands over the earlier work of lanes of a warp, up to the fences.
    fn hand_over_all(
        &mut self,
        shadow: &mut BlockShadow,
        warp: u32,
        mask: u32,
        place: Handover,
        fences: Fences,
        account: &Account<'_>,
    ) {
        let mut mates = shadow.warps[warp as usize].known(mask.trailing_zeros() as usize);
        lanes(mask).for_each(|lane| mates[lane] = self.now);
        for lane in lanes(mask) {
            // What one lane tells of all is enough, but each has taken over from others by itself.
            let is_first = lane == mask.trailing_zeros() as usize;
            if !self.handovers.has_room(account) {
                break;
            }
            if is_first || shadow.warps[warp as usize].acquired.get(lane).is_some_and(|own| own.clock.is_some()) {
                self.release(shadow, warp, lane, place, mates, fences);
            }
        }
    }

    /// Called when lanes arrive at the barrier of the block's cluster.
    pub(crate) fn cluster_arrived(
        &mut self,
        launch: &Launch<'_>,
        block: &mut Block,
        warp: u32,
        mask: u32,
        releases: bool,
    ) {
        self.tick();
        let Some(mut shadow) = block.shadow.take() else { return };
        shadow.begin(self.now);
        let fences = if releases { [self.now; 3] } else { shadow.fences };
        if mask != 0 && fences != [0; 3] {
            let place = Handover::Cluster(block.cluster);
            self.hand_over_all(&mut shadow, warp, mask, place, fences, &launch.account);
        }
        self.tick();
        block.shadow = Some(shadow);
    }

    /// Called when the barrier of the block's cluster, at which lanes waited, is complete.
    pub(crate) fn cluster_waited(&mut self, launch: &Launch<'_>, block: &mut Block, warp: u32, mask: u32) {
        let Some(mut shadow) = block.shadow.take() else { return };
        for lane in lanes(mask) {
            self.take_over(&mut shadow, warp, lane, Handover::Cluster(block.cluster), &launch.account);
        }
        block.shadow = Some(shadow);
    }

    /// Called when a barrier is full; its warps still wait there.
    pub(crate) fn gathered(&mut self, launch: &Launch<'_>, block: &mut Block, warps: &[Warp], id: u32) {
        let Some(mut shadow) = block.shadow.take() else { return };
        for (warp, known) in warps.iter().zip(&mut shadow.warps) {
            if known.arrivals.is_empty() {
                continue;
            }
            let came: Vec<Arrival> = known.arrivals.iter().filter(|arrival| arrival.id == id).copied().collect();
            known.arrivals.retain(|arrival| arrival.id != id);
            let Some(first) = came.first() else { continue };
            let all = came.iter().fold(0, |all, arrival| all | arrival.mask);
            let at = At { launch, block: block.index, warp: warp.number, pc: first.pc };
            if let Some(other) = came.iter().find(|arrival| arrival.pc != first.pc) {
                let mut problem = apart(launch, block.index, warp, first.pc, first.mask);
                problem.notes =
                    vec![launch.whereabouts(other.pc, block.index, warp.number, other.mask, "is at another barrier,")];
                self.report(at, problem);
            } else if warp.live & !all != 0 {
                self.report(at, apart(launch, block.index, warp, first.pc, all));
            }
        }
        block.shadow = Some(shadow);
    }

    /// Called when a barrier has released waiting lanes; `all`: it is one for the whole block.
    pub(crate) fn released(
        &mut self,
        launch: &Launch<'_>,
        block: &mut Block,
        warp: u32,
        lanes_here: u32,
        id: u32,
        all: bool,
    ) {
        if all || !self.handovers.has_room(&launch.account) {
            return;
        }
        let place = Handover::Barrier(block.number, id);
        if let Some(shadow) = &mut block.shadow {
            let group = [shadow.number(), shadow.device];
            for lane in lanes(lanes_here) {
                self.handovers.take_over(place, group, shadow.acquired(warp, lane, &launch.account));
            }
        }
    }

    /// Called when a barrier is full and has released its threads.
    pub(crate) fn completed(&mut self, block: &mut Block, id: u32, all: bool) {
        let now = self.now;
        self.tick();
        let Some(shadow) = &mut block.shadow else { return };
        shadow.begin(self.now);
        shadow.gathering.remove(&id);
        if all {
            shadow.base = now;
            for warp in &mut shadow.warps {
                warp.forget_mates();
                for acquired in warp.acquired.drain(..).filter(|acquired| acquired.clock.is_some()) {
                    join(&mut shadow.acquired, &acquired.clock, self.handovers.limit());
                    shadow.acquired_at = now;
                }
            }
        }
    }
}

/// The words of 64 bits that `bytes` bits from `at` on lie in, and the affected bits of each.
#[inline(always)]
fn for_words((at, bytes): (u64, u64), mut action: impl FnMut(u64, u64)) {
    let end = at + bytes;
    for word in at / 64..end.div_ceil(64) {
        let from = at.saturating_sub(word * 64);
        let until = (end - word * 64).min(64);
        action(word, bits_of(until) & !bits_of(from));
    }
}

/// Whether all those bits are set.
#[inline(always)]
fn all_set(word: impl Fn(u64) -> u64, range: (u64, u64)) -> bool {
    let mut all = true;
    for_words(range, |at, bits| all &= !word(at) & bits == 0);
    all
}

/// A mask with one low bit for each byte of an access.
pub(crate) fn bits_of(bytes: u64) -> u64 {
    if bytes >= 64 { u64::MAX } else { (1 << bytes) - 1 }
}

fn is_swap(op: &Op) -> bool {
    matches!(op, Op::Atomic(atomic) if matches!(atomic.op, AtomOp::Cas))
}

/// Lanes that came to a barrier without the rest of their warp.
fn apart(launch: &Launch<'_>, block: BlockIndex, warp: &Warp, pc: usize, mask: u32) -> Problem {
    let (here, all) = (mask.count_ones(), warp.live.count_ones());
    let message = format!("the barrier is reached by {here} of the {all} threads of the warp, apart from the rest");
    let mut problem = Problem::new(FaultKind::BarrierDivergence, mask, message);
    if let Some((elsewhere, lanes)) = warp.elsewhere(pc) {
        problem = problem.note(launch.whereabouts(elsewhere, block, warp.number, lanes, "is"));
    }
    *problem
}

fn unwritten_problem(visit: &Visit<'_>, lanes: u32) -> Problem {
    let Visit { at: At { launch, .. }, part, addresses, reach, .. } = *visit;
    let address = addresses[lanes.trailing_zeros() as usize];
    let (space, place) = match part.place {
        Place::Allocation(allocation) => ("global", allocation.describe(address)),
        Place::Shared | Place::Peer(_) => ("shared", launch.describe_shared(address.wrapping_sub(part.base))),
        Place::Local => ("local", format!("byte {} of the thread's local memory", address.wrapping_sub(part.base))),
        Place::Param => ("parameter", String::new()),
    };
    let message = format!("read of {} bytes of {space} memory that were never written", reach.bytes);
    *Problem::new(FaultKind::UninitialisedRead, lanes, message).at(address).note(format!("the address is {place}"))
}

fn between_variables(visit: &Visit<'_>, lanes: u32) -> Problem {
    let Visit { at: At { launch, .. }, reach, .. } = *visit;
    let offset = visit.offsets()[lanes.trailing_zeros() as usize];
    let verb = if reach.kind == Kind::Read { "read" } else { "write" };
    let message = format!("out-of-bounds {verb} of {} bytes in shared memory", reach.bytes);
    let note = format!("the address is {}", launch.describe_shared(offset));
    *Problem::new(FaultKind::OutOfBounds, lanes, message).at(offset).note(note)
}

fn race_problem(kind: FaultKind, visit: &Visit<'_>, shadow: &BlockShadow, lane: usize, with: Record) -> Problem {
    let address = visit.addresses[lane];
    let now = match visit.reach.kind {
        Kind::Read => "read",
        Kind::Write => "write",
        Kind::Atomic => "atomic",
        Kind::Copy => ASYNCHRONOUS_COPY,
    };
    let space = if kind == FaultKind::SharedRace { "shared" } else { "global" };
    let earlier = what(with);
    let other = Earlier { what: earlier, thread: u64::from(with[0]) - 1, pc: (with[2] >> FLAGS) as usize };
    let message = format!("race in {space} memory: nothing orders this {now} after another thread's {earlier}");
    let message = if with[2] & PENDING != 0 {
        format!("race in {space} memory: this {now} does not wait for an asynchronous copy")
    } else {
        message
    };
    let mut problem = *Problem::new(kind, 1 << lane, message).at(address);
    if kind == FaultKind::SharedRace {
        let described = visit.at.launch.describe_shared(address & ((1 << CLUSTER_RANK) - 1));
        let rank = match visit.part.place {
            Place::Peer(rank) => format!(", of the cluster's block {rank}"),
            _ => String::new(),
        };
        problem.notes.push(format!("the address is {described}{rank}"));
    }
    if with[1] <= shadow.base && shadow.left_before_barrier(with) {
        let note = "the thread exited without coming to the barrier, which orders what the threads did that come to it";
        problem.notes.push(note.to_owned());
    }
    problem.other = Some(other);
    problem
}

/// A bit for each byte of an allocation.
impl Bits {
    /// Whether all bits of `at..at + count` are set; `count` ≤ 32, and the range does not cross a word of 64.
    fn has_all(&self, at: u64, count: u64) -> bool {
        !self.word(at / 64) >> (at % 64) & bits_of(count) == 0
    }

    fn set(&self, at: u64, count: u64) {
        self.set_word(at / 64, bits_of(count) << (at % 64));
    }
}
