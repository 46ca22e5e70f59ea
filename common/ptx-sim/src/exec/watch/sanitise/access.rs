//! Checks of one access: whether its bytes were written, lie in one variable, and race with others.

use std::sync::Arc;

use super::races::race_problem;
use super::shadows::{all_set, bits_of, for_words};
use super::{DOUBTFUL_BYTES, MAX_DOUBTFUL, MAX_DOUBTFUL_READS, Met, Sanitiser};
use crate::exec::state::block::Block;
use crate::exec::state::copies::PendingCopy;
use crate::exec::state::handover::Handover;
use crate::exec::state::launch::{At, Launch};
use crate::exec::state::place::{InOrder, Kind, Place, Visit};
use crate::exec::state::problem::Problem;
use crate::exec::state::shadow::*;
use crate::exec::state::warp::{Frame, Warp};
use crate::exec::watch::touched::How;
use crate::exec::watch::undefined::{NewSource, StoredLane, is_load, pieces};
use crate::fault::{Fault, FaultKind};
use crate::ir::{AtomOp, Op, Order, Place as Location, R};
use crate::lanes::{lanes, lanes_where, mask_of};
use crate::limits::Use;
use crate::memory::Stored;

impl Sanitiser {
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
                let word = |lane: usize, from: u64| {
                    let (bits, source) = warp.local.undefined_word(lane, (offsets[lane] + from) as u32)?;
                    Some((bits, Arc::clone(source)))
                };
                self.check_written(visit, number, part.mask, is_written, word);
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
                if reach.writes() && block.has_tiles_to_read() && matches!(part.place, Place::Shared) {
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
                let keeper = match theirs {
                    Some(theirs) => {
                        theirs.begin(self.now);
                        theirs.reached_by(&shadow, at, mask, self.now);
                        theirs
                    }
                    None => &mut shadow,
                };
                let (mut memory, mut written) =
                    (std::mem::take(&mut keeper.memory), std::mem::take(&mut keeper.written));
                let undefined = std::mem::take(&mut keeper.undefined);
                let bits = bits_of(reach.bytes);
                let is_written = |lane: usize, from: u64, bytes: u64| {
                    let at = offsets[lane] + from;
                    !written[(at / 64) as usize] >> (at % 64) & bits_of(bytes) == 0
                };
                let word = |lane: usize, from: u64| {
                    let (bits, source) = undefined.word((offsets[lane] + from) / 4)?;
                    Some((bits, Arc::clone(source)))
                };
                self.check_written(visit, number, mask, is_written, word);
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
                (keeper.memory, keeper.written, keeper.undefined) = (memory, written, undefined);
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
                    let word = |lane: usize, from: u64| {
                        let undefined = allocation.undefined();
                        let (bits, source) = undefined.word((offsets[lane] + from) / 4)?;
                        Some((bits, Arc::clone(source)))
                    };
                    self.check_written(visit, number, part.mask, is_written, word);
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

    /// Takes the bytes of a write that was left out as written: that they were not is no second mistake.
    pub(crate) fn assume_written(
        &mut self,
        block: &mut Block,
        warp: &mut Warp,
        place: &Place<'_>,
        mask: u32,
        (offsets, bytes): (&[u64; 32], u64),
    ) {
        for lane in lanes(mask) {
            let range = (offsets[lane], bytes);
            match place {
                Place::Allocation(allocation) => {
                    if let Some(written) = allocation.written() {
                        for_words(range, |word, bits| written.set_word(word, bits));
                    }
                }
                Place::Shared | Place::Peer(_) => {
                    let shadow = match place {
                        Place::Peer(rank) => &mut block.peers[*rank as usize].shadow,
                        _ => &mut block.shadow,
                    };
                    if let Some(shadow) = shadow {
                        for_words(range, |word, bits| shadow.written[word as usize] |= bits);
                    }
                }
                Place::Local => warp.local.assume_written(lane, offsets[lane] as u32, bytes as usize),
                Place::Param => {}
            }
        }
    }

    /// Reports a race, unless it is one between a plain read and an atomic of two threads: the reader may check by a
    /// compare-and-swap that nothing has changed, as the Programming Guide's own atomic addition of f64 does.
    pub(super) fn report_race(
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
            Kind::Read
                if visit.reach.order == Order::Weak
                    && !visit.reach.read_only
                    && with[2] & KINDS == STRONG | WRITE | READ =>
            {
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

    pub(super) fn report_all(&mut self, launch: &Launch<'_>, all: Vec<Met>) {
        for Met { block, warp, pc, problem } in all {
            self.report(At { launch, block, warp, pc }, problem);
        }
    }

    /// Checks a plain access of words of a whole allocation or of shared memory by lanes that are in order: all at one
    /// place, or each at the next word. False if it takes a closer look ([`Self::inspect`]).
    #[inline(always)]
    pub(crate) fn pass(&mut self, block: &mut Block, at: At<'_>, place: Place<'_>, access: &InOrder) -> bool {
        if access.write && block.has_tiles_to_read() && matches!(place, Place::Shared) || !at.launch.earlier.is_empty()
        {
            return false;
        }
        if access.fresh {
            self.tick();
        }
        let InOrder { offset, count, same, lane, lanes, mask, write, read_only, .. } = *access;
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
                let passed = memory.touch(offset, bytes, account)
                    && !(read_only && memory.has_writes(offset, bytes))
                    && look(memory, shadow);
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
    /// `word` has the undefined bits of the word at a byte of the access, and their source.
    pub(super) fn check_written(
        &mut self,
        visit: &Visit<'_>,
        block: u64,
        mask: u32,
        is_written: impl Fn(usize, u64, u64) -> bool,
        word: impl Fn(usize, u64) -> Option<(u32, Arc<Fault>)>,
    ) {
        let Visit { at, reach, .. } = *visit;
        if !reach.reads() {
            return;
        }
        let unwritten = lanes_where(mask, |lane| !is_written(lane, 0, reach.bytes));
        if unwritten == 0 {
            return;
        }
        let mut rest = unwritten;
        let op = &at.launch.program.code[at.pc].op;
        if matches!(op, Op::CpAsync(_)) {
            return; // what it brings is undefined once it is there
        }
        if is_load(op) {
            return self.bring(visit, block, unwritten, is_written, word);
        }
        // Of what was stored undefined, the read that brought it says more.
        for lane in lanes(rest) {
            let first = (0..reach.bytes).find(|byte| !is_written(lane, *byte, 1));
            if let Some((_, source)) = first.and_then(|byte| word(lane, byte)) {
                self.report_read(&source, 1, || {
                    at.launch.whereabouts(at.pc, at.block, at.warp, 1 << lane, "uses the value")
                });
                rest &= !(1 << lane);
            }
        }
        if rest != 0 {
            self.report(at, unwritten_problem(visit, rest));
        }
    }

    /// Records the undefined values that a load brings to registers; the arguments are those of [`Self::check_written`].
    fn bring(
        &mut self,
        visit: &Visit<'_>,
        block: u64,
        unwritten: u32,
        is_written: impl Fn(usize, u64, u64) -> bool,
        word: impl Fn(usize, u64) -> Option<(u32, Arc<Fault>)>,
    ) {
        struct Brought {
            row: R,
            bits: [u64; 32],
            /// Lanes that get it, and lanes that read it.
            lanes: [u32; 2],
            /// `None`: it was never stored.
            source: Option<Arc<Fault>>,
        }
        let Visit { at, frame, reach, .. } = *visit;
        let offsets = visit.offsets();
        let op = &at.launch.program.code[at.pc].op;
        let mut all: Vec<Brought> = Vec::new();
        for lane in lanes(unwritten) {
            for piece in pieces(op, lane, reach.after..reach.after + reach.bytes) {
                let (mut undefined, mut source) = (0, None);
                for byte in piece.from..piece.from + piece.bytes {
                    if is_written(lane, byte, 1) {
                        continue;
                    }
                    let (bits, of_byte) = match word(lane, byte) {
                        Some((bits, of_byte)) => {
                            (bits.to_le_bytes()[((offsets[lane] + byte) % 4) as usize], Some(of_byte))
                        }
                        None => (0, None),
                    };
                    // A byte without undefined bits has not been written since those of its word were stored.
                    let shift = piece.shift + 8 * (byte - piece.from) as u32;
                    undefined |= u64::from(if bits == 0 { 0xff } else { bits }) << shift;
                    source = source.or(of_byte.filter(|_| bits != 0));
                }
                if let Op::Load(access) = op {
                    undefined = access.extended(undefined);
                }
                if undefined == 0 {
                    continue;
                }
                let same = |other: &&mut Brought| {
                    other.row == piece.row
                        && match (&other.source, &source) {
                            (Some(one), Some(other)) => Arc::ptr_eq(one, other),
                            (one, other) => one.is_none() && other.is_none(),
                        }
                };
                let brought = match all.iter_mut().find(same) {
                    Some(brought) => brought,
                    None => {
                        all.push(Brought { row: piece.row, bits: [0; 32], lanes: [0; 2], source });
                        all.last_mut().expect("it was just pushed")
                    }
                };
                brought.bits[piece.lane] |= undefined;
                brought.lanes[0] |= 1 << piece.lane;
                brought.lanes[1] |= 1 << lane;
            }
        }
        // However many registers a lane's value comes to, it was read once.
        let mut counted = 0;
        for Brought { row, bits, lanes: [to, by], source } in &all {
            let problem = || Problem { lanes: *to, ..unwritten_problem(visit, *by) };
            let source = match source {
                Some(source) => NewSource::Memory(source),
                None => NewSource::Instruction { pc: at.pc, kind: FaultKind::UninitialisedRead, problem: &problem },
            };
            let name = ((block, at.warp), frame, *row);
            self.undefined.add(&at.launch.account, name, bits, [*to, to & !counted], source);
            counted |= to;
        }
    }

    /// Records the undefined part of what lanes have just stored.
    pub(crate) fn stored(&mut self, block: &mut Block, warp: &mut Warp, visit: &Visit<'_>) {
        let Visit { at, part, reach, .. } = *visit;
        let Some(values) = reach.values else { return };
        let key = ((block.number, at.warp), visit.frame);
        let all = self.undefined.stored(at, key, reach.after..reach.after + reach.bytes, part.mask, values);
        let offsets = visit.offsets();
        let account = &at.launch.account;
        let has_room = |bytes: u64| account.take(Use::Shadow, bytes);
        for StoredLane { lane, from, bits, source, whole } in &all {
            // The last lane's value stays.
            let is_last =
                |other: usize| offsets[other] != offsets[*lane] || all.iter().any(|stored| stored.lane == other);
            if !lanes(part.mask & u32::MAX << lane).all(is_last) {
                continue;
            }
            let offset = offsets[*lane] + from;
            let stored = Stored { bits, source, whole: *whole };
            let shadow = match part.place {
                Place::Allocation(allocation) => {
                    allocation.store_undefined(offset, &stored, has_room);
                    continue;
                }
                Place::Local => {
                    warp.local.store_undefined(*lane, offset as u32, &stored, has_room);
                    continue;
                }
                Place::Shared => &mut block.shadow,
                Place::Peer(rank) => &mut block.peers[rank as usize].shadow,
                Place::Param => return,
            };
            if let Some(shadow) = shadow {
                shadow.store_undefined(offset, &stored, account);
            }
        }
    }

    /// Records that a call has copied an argument or a result from one frame to another, in the lanes of `mask`.
    pub(crate) fn passed(&mut self, at: At<'_>, block: u64, warp: &mut Warp, ends: [(Frame, Location); 2], mask: u32) {
        let key = (block, at.warp);
        match ends {
            [(from_frame, from), (to_frame, Location::Memory((offset, room)))] => {
                let Location::Row { row, .. } = from else { return }; // memory is copied with what is undefined of it
                let to = to_frame.local + offset;
                for (lane, bits, source) in self.undefined.of_row(at, (key, from_frame.rows), row, mask) {
                    let bits = &bits.to_le_bytes()[..room.min(8) as usize];
                    let stored = Stored { bits, source: &source, whole: false };
                    warp.local.store_undefined(lane, to, &stored, |bytes| at.launch.account.take(Use::Shadow, bytes));
                }
            }
            [(from_frame, Location::Memory((offset, bytes))), (to_frame, Location::Row { row, .. })] => {
                let from = from_frame.local + offset;
                for lane in lanes(mask) {
                    let mut undefined = [0; 32];
                    let mut source = None;
                    for byte in (0..bytes.min(8)).filter(|byte| !warp.local.is_written(lane, from + byte, 1)) {
                        if let Some((bits, of_byte)) = warp.local.undefined_word(lane, from + byte) {
                            let bits = bits.to_le_bytes()[((from + byte) % 4) as usize];
                            undefined[lane] |= u64::from(bits) << (8 * byte);
                            source = source.or((bits != 0).then(|| Arc::clone(of_byte)));
                        }
                    }
                    if let Some(source) = source {
                        let name = (key, to_frame.rows, row);
                        let source = NewSource::Memory(&source);
                        self.undefined.add(&at.launch.account, name, &undefined, [1 << lane; 2], source);
                    }
                }
            }
            registers => self.undefined.copy(key, registers, mask),
        }
    }

    /// Records the undefined bytes that a `cp.async` has brought to shared memory.
    pub(super) fn copied_undefined(&mut self, at: At<'_>, shadow: &mut BlockShadow, copy: &PendingCopy) {
        if copy.read == 0 {
            return;
        }
        let (allocation, from) = (copy.source(at.launch), copy.from.1);
        let Some(written) = allocation.written() else { return };
        if written.has_all(from, copy.read.into()) {
            return;
        }
        let unwritten = (from..from + u64::from(copy.read)).filter(|at| written.word(at / 64) >> (at % 64) & 1 == 0);
        for (byte, to) in unwritten.map(|byte| (byte, u64::from(copy.to) + (byte - from))) {
            let word = allocation.undefined().word(byte / 4).map(|(bits, source)| (bits, Arc::clone(source)));
            let (bits, source) = match word {
                Some((bits, source)) => (bits.to_le_bytes()[(byte % 4) as usize], source),
                None => {
                    let message = "asynchronous copy of global memory that was never written";
                    let problem = Problem::new(FaultKind::UninitialisedRead, 1 << copy.lane, message);
                    let problem =
                        problem.note(format!("the address is {}", allocation.describe(allocation.base + byte)));
                    (0, self.undefined.fault_of(at, &problem.at(allocation.base + byte)))
                }
            };
            let bits = if bits == 0 { 0xff } else { bits };
            let stored = Stored { bits: &[bits], source: &source, whole: false };
            shadow.store_undefined(to, &stored, &at.launch.account);
        }
    }

    /// Records that the lanes of `mask` have read by a shuffle from lanes that do not take part.
    pub(crate) fn read_from_outside(
        &mut self,
        at: At<'_>,
        block: &Block,
        frame: u32,
        d: R,
        mask: u32,
        problem: Box<Problem>,
    ) {
        let source = NewSource::Instruction { pc: at.pc, kind: problem.kind, problem: &|| Problem::clone(&problem) };
        let name = ((block.number, at.warp), frame, d);
        self.undefined.add(&at.launch.account, name, &[u32::MAX.into(); 32], [mask; 2], source);
    }
}

pub(super) fn is_swap(op: &Op) -> bool {
    matches!(op, Op::Atomic(atomic) if matches!(atomic.op, AtomOp::Cas))
}

pub(super) fn unwritten_problem(visit: &Visit<'_>, lanes: u32) -> Problem {
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

pub(super) fn between_variables(visit: &Visit<'_>, lanes: u32) -> Problem {
    let Visit { at: At { launch, .. }, reach, .. } = *visit;
    let offset = visit.offsets()[lanes.trailing_zeros() as usize];
    let verb = if reach.kind == Kind::Read { "read" } else { "write" };
    let message = format!("out-of-bounds {verb} of {} bytes in shared memory", reach.bytes);
    let note = format!("the address is {}", launch.describe_shared(offset));
    *Problem::new(FaultKind::OutOfBounds, lanes, message).at(offset).note(note)
}
