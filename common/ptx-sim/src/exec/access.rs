//! Loads, stores, atomics and asynchronous copies.
//!
//! An access is checked for all its lanes before any lane touches memory: where it points, whether it is aligned, whether
//! it is inside. What a check finds is a [`Problem`] that names the first lane, the address and the nearest allocation.

use std::sync::Arc;

use super::lanes::{Rows, Shape, each, lanes, lanes_where, mask_of};
use super::sanitise::Visit;
use super::warp::{self, Context};
use super::{Block, Launch, Monitor, Problem, plural};
use crate::fault::FaultKind;
use crate::ir::*;
use crate::memory::{self, Allocation, Role};
use crate::scalar::Mode;

type Checked<T> = Result<T, Box<Problem>>;

/// Local memory of a warp's 32 threads, each with the same number of bytes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Local {
    /// Bytes a thread has.
    bytes: u32,
    data: Vec<u8>,
    /// Whether each byte was ever written; empty unless a sanitiser asks.
    written: Vec<bool>,
    sanitised: bool,
}

impl Local {
    pub(crate) fn reset(&mut self, bytes: u32, sanitised: bool) {
        self.bytes = bytes;
        self.data.clear();
        self.data.resize(bytes as usize * 32, 0);
        self.sanitised = sanitised;
        self.written.clear();
        self.written.resize(if sanitised { self.data.len() } else { 0 }, false);
    }

    /// Makes room for `bytes` bytes a thread; what was there stays.
    pub(crate) fn grow(&mut self, bytes: u32) {
        if bytes <= self.bytes {
            return;
        }
        let new = bytes.max(self.bytes.saturating_mul(2));
        fn spread<T: Copy + Default>(old: &[T], bytes: u32, new: u32) -> Vec<T> {
            let mut all = vec![T::default(); new as usize * 32];
            if bytes != 0 {
                for (from, to) in old.chunks(bytes as usize).zip(all.chunks_mut(new as usize)) {
                    to[..from.len()].copy_from_slice(from);
                }
            }
            all
        }
        self.data = spread(&self.data, self.bytes, new);
        if self.sanitised {
            self.written = spread(&self.written, self.bytes, new);
        }
        self.bytes = new;
    }

    fn span(&self, lane: usize, at: u32, bytes: usize) -> std::ops::Range<usize> {
        assert!(at as usize + bytes <= self.bytes as usize, "local memory of {} bytes", self.bytes);
        let start = lane * self.bytes as usize + at as usize;
        start..start + bytes
    }

    /// The bytes at `at` are those of a new frame: nobody has written them.
    pub(crate) fn forget(&mut self, mask: u32, at: u32, bytes: u32) {
        if self.sanitised {
            for lane in lanes(mask) {
                let span = self.span(lane, at, bytes as usize);
                self.written[span].fill(false);
            }
        }
    }

    /// Whether all those bytes were written, as far as anybody keeps track.
    pub(crate) fn is_written(&self, lane: usize, at: u32, bytes: usize) -> bool {
        !self.sanitised || self.written[self.span(lane, at, bytes)].iter().all(|written| *written)
    }

    pub(crate) fn read(&self, lane: usize, at: u32, into: &mut [u8]) {
        into.copy_from_slice(&self.data[self.span(lane, at, into.len())]);
    }

    pub(crate) fn write(&mut self, lane: usize, at: u32, from: &[u8]) {
        let span = self.span(lane, at, from.len());
        if self.sanitised {
            self.written[span.clone()].fill(true);
        }
        self.data[span].copy_from_slice(from);
    }

    pub(crate) fn copy(&mut self, lane: usize, from: u32, to: u32, bytes: u32) {
        let (from, to) = (self.span(lane, from, bytes as usize), self.span(lane, to, bytes as usize));
        if self.sanitised {
            self.written.copy_within(from.clone(), to.start);
        }
        self.data.copy_within(from, to.start);
    }
}

/// `cp.async` copies under way. They happen as late as PTX allows, when a wait asks for them, so that a kernel that
/// forgets to wait reads what was there before: on hardware it would only sometimes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Copies {
    pending: Vec<PendingCopy>,
    /// Groups that each lane has committed.
    committed: [u32; 32],
}

#[derive(Clone, Debug)]
struct PendingCopy {
    lane: usize,
    /// The lane's group it belongs to.
    group: u32,
    /// Offset in shared memory.
    to: u32,
    /// What is read, and the offset there.
    from: (Source, u64),
    bytes: u8,
    /// Bytes read; the rest is zeros.
    read: u8,
}

#[derive(Clone, Debug)]
enum Source {
    /// Index in the launch's snapshot.
    Buffer(usize),
    /// Of the heap.
    Block(Arc<Allocation>),
}

impl Copies {
    pub(crate) fn commit(&mut self, mask: u32) {
        lanes(mask).for_each(|lane| self.committed[lane] += 1);
    }
}

/// The space that a generic address lies in.
#[inline(always)]
pub(crate) fn space_of(address: u64) -> MemSpace {
    match address / memory::WINDOW {
        1 => MemSpace::Shared,
        2 => MemSpace::Local,
        3 => MemSpace::Param,
        _ => MemSpace::Global,
    }
}

/// Whether a generic address is that of a `.const` variable.
pub(crate) fn is_constant(launch: &Launch<'_>, address: u64) -> bool {
    let snapshot = &launch.memory;
    let before = snapshot.partition_point(|allocation| allocation.base <= address);
    before.checked_sub(1).is_some_and(|at| {
        let allocation = &snapshot[at];
        allocation.role == Role::Constant && address - allocation.base < allocation.bytes
    })
}

#[inline(always)]
pub(crate) fn addresses(rows: Rows, frame_local: u32, address: &Address) -> [u64; 32] {
    let offset = address.offset as u64;
    match address.base {
        Base::Row64(row) => {
            let base = rows.get64(row);
            each(|lane| base[lane].wrapping_add(offset))
        }
        Base::Row32(row) => {
            let base = rows.get(row);
            each(|lane| u64::from(base[lane]).wrapping_add(offset))
        }
        Base::None => [offset; 32],
        Base::Frame => [u64::from(frame_local).wrapping_add(offset); 32],
    }
}

/// Lanes of `mask` that lie in one place.
#[derive(Clone, Copy)]
pub(crate) struct Part<'p> {
    pub mask: u32,
    pub place: Place<'p>,
    /// The place, if it is a block of the heap.
    block: Option<&'p Arc<Allocation>>,
    /// What the lanes' addresses count from.
    pub base: u64,
}

#[derive(Clone, Copy)]
pub(crate) enum Place<'p> {
    Allocation(&'p Allocation),
    Shared,
    Local,
    Param,
}

/// What an access does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Read,
    Write,
    /// Reads and writes in one.
    Atomic,
    /// The write of an asynchronous copy, which happens later.
    Copy,
}

/// The bytes that a lane is about to write.
type Values<'v> = &'v dyn Fn(usize) -> [u8; 32];

/// What each lane of an access does at its address.
#[derive(Clone, Copy)]
pub(crate) struct Reach<'v> {
    pub kind: Kind,
    pub order: Order,
    /// Bytes from the address on.
    pub bytes: u64,
    /// What the address must be a multiple of: a power of two.
    align: u64,
    /// Known for stores.
    pub values: Option<Values<'v>>,
}

impl Reach<'_> {
    fn new(kind: Kind, bytes: u64) -> Self {
        Self { kind, order: Order::Weak, bytes, align: bytes, values: None }
    }

    pub(crate) fn reads(self) -> bool {
        matches!(self.kind, Kind::Read | Kind::Atomic)
    }

    pub(crate) fn writes(self) -> bool {
        self.kind != Kind::Read
    }

    /// The verb of a report, and its preposition.
    fn verb(self) -> (&'static str, &'static str) {
        if self.writes() { ("write", "to") } else { ("read", "from") }
    }
}

/// The lanes whose access leaves `[base, base + length)` or is not aligned.
#[inline(always)]
fn outside(addresses: &[u64; 32], base: u64, length: u64, Reach { bytes, align, .. }: Reach<'_>) -> u32 {
    let room = length.wrapping_sub(bytes);
    let fits = length >= bytes;
    mask_of(|lane| {
        let offset = addresses[lane].wrapping_sub(base);
        (offset > room) | (offset & (align - 1) != 0) | !fits
    })
}

/// Splits the lanes by where their addresses lie, checks each part, and hands it to `action`. What a check finds ends the
/// launch, unless a sanitiser collects it: then the lanes at fault are left out and returned.
#[inline(always)]
fn for_parts<'l, M: Monitor>(
    context: &mut Context<'_, 'l, M>,
    space: MemSpace,
    addresses: &[u64; 32],
    mask: u32,
    reach: Reach<'_>,
    mut action: impl FnMut(&mut Context<'_, 'l, M>, &Part<'_>),
) -> Checked<u32> {
    let launch = context.launch;
    let mut refused = 0;
    let mut rest = mask;
    while rest != 0 {
        let first = rest.trailing_zeros() as usize;
        let space_here = if space == MemSpace::Generic { space_of(addresses[first]) } else { space };
        let (lanes_here, window) = if space == MemSpace::Generic {
            let same = mask_of(|lane| space_of(addresses[lane]) == space_here) & rest;
            (same, memory::window(space_here))
        } else {
            (rest, 0)
        };
        let mut refuse = |context: &mut Context<'_, 'l, M>, problem: Box<Problem>| {
            refused |= problem.lanes;
            rest &= !problem.lanes;
            context.report(problem)
        };
        let mut block = None; // of the heap: held while it is used
        let (base, length, place) = match space_here {
            MemSpace::Shared => (window, u64::from(launch.shared_bytes()), Place::Shared),
            MemSpace::Local => (window, context.warp.local.bytes.into(), Place::Local),
            MemSpace::Param => (window, launch.params.len() as u64, Place::Param),
            MemSpace::Global | MemSpace::Generic => {
                let address = addresses[first];
                let allocation = match find(context.warp, launch, address) {
                    Some(buffer) => buffer,
                    None => {
                        block = launch.heap.find(address);
                        let Some(block) = &block else {
                            let lost =
                                lanes_where(lanes_here, |lane| !is_mapped(context.warp, launch, addresses[lane]));
                            refuse(context, stray(launch, addresses, lost, reach))?;
                            continue;
                        };
                        block
                    }
                };
                (allocation.base, allocation.bytes, Place::Allocation(allocation))
            }
        };
        let bad = outside(addresses, base, length, reach) & lanes_here;
        let good = lanes_here & !bad;
        // Lanes in other allocations get a turn of their own; the first lane has none but this.
        if bad != 0 && (good >> first & 1 == 0 || !matches!(place, Place::Allocation(_))) {
            let problem = misplaced(launch, space_here, addresses, bad, base, length, reach);
            refuse(context, problem)?;
            continue;
        }
        if let Place::Allocation(allocation) = &place
            && reach.writes()
            && allocation.role == Role::Constant
        {
            let message = format!("write to the constant `{}`", allocation.label);
            refuse(context, Problem::new(FaultKind::ReadOnly, good, message).at(addresses[first]))?;
            continue;
        }
        rest &= !good;
        let mut part = Part { mask: good, place, block: block.as_ref(), base };
        let at = context.at();
        if let Some(sanitiser) = context.monitor.sanitiser() {
            let visit = Visit { at, part: &part, addresses, reach };
            let stray = sanitiser.inspect(context.block, context.warp, &visit);
            part.mask &= !stray;
            refused |= stray;
        }
        action(context, &part);
    }
    Ok(refused)
}

/// The live allocation that holds `address`.
#[inline(always)]
fn find<'l>(warp: &mut warp::Warp, launch: &'l Launch<'_>, address: u64) -> Option<&'l Allocation> {
    let snapshot = &launch.memory;
    let holds = |at: usize| {
        let allocation = snapshot.get(at)?;
        (address.wrapping_sub(allocation.base) < allocation.bytes && !allocation.is_freed()).then_some(&**allocation)
    };
    let last = &mut warp.last_allocations[(address / memory::GAP) as usize % warp::ALLOCATIONS];
    if let Some(found) = holds(*last) {
        return Some(found);
    }
    let at = snapshot.partition_point(|allocation| allocation.base <= address).checked_sub(1)?;
    let found = holds(at)?;
    *last = at;
    Some(found)
}

/// Whether `address` is in a live allocation, or a block of the heap.
fn is_mapped(warp: &mut warp::Warp, launch: &Launch<'_>, address: u64) -> bool {
    find(warp, launch, address).is_some() || launch.heap.find(address).is_some()
}

/// What is at a global address, or nearest to it, in words.
#[cold]
pub(super) fn whereabouts(launch: &Launch<'_>, address: u64) -> String {
    match memory::nearest(&launch.memory, launch.heap.heap, address) {
        _ if address < 4096 => format!("address {address:#x} is a null pointer, or nearly one"),
        Some(found) => {
            let freed = if found.is_freed() { ", which has been freed" } else { "" };
            format!("address {address:#x} is {}{freed}", found.describe(address))
        }
        None => format!("address {address:#x}; nothing is allocated"),
    }
}

/// The problem of global accesses that hit no allocation.
#[cold]
#[inline(never)]
fn stray(launch: &Launch<'_>, addresses: &[u64; 32], lanes: u32, reach: Reach<'_>) -> Box<Problem> {
    let address = addresses[lanes.trailing_zeros() as usize];
    let bytes = reach.bytes;
    let (verb, preposition) = reach.verb();
    let nearest = memory::nearest(&launch.memory, launch.heap.heap, address);
    let (kind, message) = match nearest {
        Some(found) if found.is_freed() && address.wrapping_sub(found.base) < found.bytes => {
            (FaultKind::UseAfterFree, format!("{verb} of {} {preposition} freed memory", plural(bytes)))
        }
        _ => (FaultKind::OutOfBounds, format!("out-of-bounds {verb} of {}", plural(bytes))),
    };
    Problem::new(kind, lanes, message).at(address).note(whereabouts(launch, address))
}

/// The problem of accesses that leave their place or are not aligned.
#[cold]
#[inline(never)]
fn misplaced(
    launch: &Launch<'_>,
    space: MemSpace,
    addresses: &[u64; 32],
    bad: u32,
    base: u64,
    length: u64,
    reach: Reach<'_>,
) -> Box<Problem> {
    let address = addresses[bad.trailing_zeros() as usize];
    let Reach { bytes, align, .. } = reach;
    let (verb, _) = reach.verb();
    let offset = address.wrapping_sub(base);
    let inside = |lane: usize| {
        let offset = addresses[lane].wrapping_sub(base);
        offset < length && length - offset >= bytes
    };
    if inside(bad.trailing_zeros() as usize) {
        let lanes = mask_of(|lane| bad >> lane & 1 == 1 && inside(lane));
        let message = format!("misaligned {verb} of {}", plural(bytes));
        let note = format!("address {address:#x} is {} past a multiple of {align}", plural(address % align));
        let mut problem = Problem::new(FaultKind::Misaligned, lanes, message).at(address).note(note);
        if space == MemSpace::Global
            && let Some(allocation) = memory::nearest(&launch.memory, launch.heap.heap, address)
        {
            problem = problem.note(format!("it is {}", allocation.describe(address)));
        }
        return problem;
    }
    if space == MemSpace::Global {
        return stray(launch, addresses, mask_of(|lane| bad >> lane & 1 == 1 && !inside(lane)), reach);
    }
    let what = match space {
        MemSpace::Shared => "shared memory",
        MemSpace::Local => "local memory",
        _ => "the kernel's parameters",
    };
    let message = format!("out-of-bounds {verb} of {} in {what}", plural(bytes));
    let whose = if space == MemSpace::Shared { "the block has" } else { "the thread has" };
    let past = if (offset as i64) < 0 {
        format!("{} before the start of", plural(offset.wrapping_neg()))
    } else if offset == length {
        "just past the end of".to_owned()
    } else if offset > length {
        format!("{} past the end of", plural(offset - length))
    } else {
        format!("{} from the end of", plural(length - offset))
    };
    let lanes = mask_of(|lane| bad >> lane & 1 == 1 && !inside(lane));
    let note = format!("offset {offset:#x} is {past} {what}; {whose} {}", plural(length));
    Problem::new(FaultKind::OutOfBounds, lanes, message).at(address).note(note)
}

/// A block's shared memory as bytes.
#[inline(always)]
fn shared_bytes(block: &mut Block) -> *mut u8 {
    block.shared.as_mut_ptr().cast()
}

/// One element of shared memory.
///
/// # Safety
/// `offset + bytes` lies in the block's shared memory, and `offset` is a multiple of `bytes` (1, 2, 4 or 8).
#[inline(always)]
unsafe fn read_shared(memory: *const u8, offset: u64, bytes: u8) -> u64 {
    // SAFETY: by the caller's promise; shared memory is aligned to 16.
    unsafe {
        let at = memory.add(offset as usize);
        match bytes {
            1 => u64::from(*at),
            2 => u64::from(*at.cast::<u16>()),
            4 => u64::from(*at.cast::<u32>()),
            _ => *at.cast::<u64>(),
        }
    }
}

/// # Safety
/// As for [`read_shared`].
#[inline(always)]
unsafe fn write_shared(memory: *mut u8, offset: u64, bytes: u8, value: u64) {
    // SAFETY: by the caller's promise; shared memory is aligned to 16.
    unsafe {
        let at = memory.add(offset as usize);
        match bytes {
            1 => *at = value as u8,
            2 => *at.cast::<u16>() = value as u16,
            4 => *at.cast::<u32>() = value as u32,
            _ => *at.cast::<u64>() = value,
        }
    }
}

/// Reads one element for each lane of a part; other lanes get 0.
#[inline(always)]
fn gather<M: Monitor>(
    context: &mut Context<'_, '_, M>,
    part: &Part<'_>,
    addresses: &[u64; 32],
    at: u64,
    bytes: u8,
) -> [u64; 32] {
    let mut values = [0; 32];
    let offset = |lane: usize| addresses[lane].wrapping_sub(part.base).wrapping_add(at);
    match part.place {
        Place::Allocation(allocation) => {
            for lane in lanes(part.mask) {
                // SAFETY: `for_parts` checked range and alignment of each lane of the part.
                values[lane] = unsafe { allocation.load(offset(lane), bytes) };
            }
        }
        Place::Shared => {
            let memory = shared_bytes(context.block);
            for lane in lanes(part.mask) {
                // SAFETY: as above.
                values[lane] = unsafe { read_shared(memory, offset(lane), bytes) };
            }
        }
        Place::Local => {
            for lane in lanes(part.mask) {
                let mut raw = [0; 8];
                context.warp.local.read(lane, offset(lane) as u32, &mut raw[..usize::from(bytes)]);
                values[lane] = u64::from_le_bytes(raw);
            }
        }
        Place::Param => {
            for lane in lanes(part.mask) {
                let mut raw = [0; 8];
                let from = offset(lane) as usize;
                raw[..usize::from(bytes)].copy_from_slice(&context.launch.params[from..from + usize::from(bytes)]);
                values[lane] = u64::from_le_bytes(raw);
            }
        }
    }
    values
}

#[inline(always)]
fn scatter<M: Monitor>(
    context: &mut Context<'_, '_, M>,
    part: &Part<'_>,
    addresses: &[u64; 32],
    at: u64,
    bytes: u8,
    value: impl Fn(usize) -> u64,
) {
    let offset = |lane: usize| addresses[lane].wrapping_sub(part.base).wrapping_add(at);
    match part.place {
        Place::Allocation(allocation) => {
            for lane in lanes(part.mask) {
                // SAFETY: `for_parts` checked range and alignment of each lane of the part.
                unsafe { allocation.store(offset(lane), bytes, value(lane)) };
            }
        }
        Place::Shared => {
            let memory = shared_bytes(context.block);
            for lane in lanes(part.mask) {
                // SAFETY: as above.
                unsafe { write_shared(memory, offset(lane), bytes, value(lane)) };
            }
        }
        Place::Local => {
            for lane in lanes(part.mask) {
                context.warp.local.write(lane, offset(lane) as u32, &value(lane).to_le_bytes()[..usize::from(bytes)]);
            }
        }
        // A kernel's parameters cannot be written: `st.param` names a call's, which are local memory.
        Place::Param => {}
    }
}

#[inline(always)]
fn fence(order: Order) {
    if !matches!(order, Order::Weak | Order::Relaxed) {
        std::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
    }
}

/// Loads of 32-bit registers from shared and global memory whose lanes are all in order take a short way, and a shorter
/// one where lanes read one place or neighbouring ones; every other load, and whatever a check finds, goes through
/// [`load_any`]. `AVX2`: this is compiled for a processor that has it.
#[inline(always)]
pub(crate) fn load<M: Monitor, const AVX2: bool>(
    context: &mut Context<'_, '_, M>,
    rows: Rows,
    access: &Access,
    mask: u32,
) -> Checked<()> {
    if access.is_plain() && context.monitor.sanitiser().is_none() {
        let loaded = match access.address.space {
            MemSpace::Shared => {
                let memory = SharedWords(shared_bytes(context.block));
                load_words::<_, AVX2>(memory, rows, access, mask, 0, context.block.shared_bytes)
            }
            MemSpace::Global => match find_first(context, rows, &access.address, mask) {
                Some(found) => load_words::<_, AVX2>(found, rows, access, mask, found.base, found.bytes),
                None => false,
            },
            _ => false,
        };
        if loaded {
            return Ok(());
        }
    }
    if access.address.space == MemSpace::Param && load_param(context, rows, access, mask) {
        return Ok(());
    }
    load_any(context, rows, access, mask)
}

/// Loads a kernel's parameter, the same for all lanes; false if the address is not fixed, or wrong.
#[inline(never)]
fn load_param<M: Monitor>(context: &mut Context<'_, '_, M>, rows: Rows, access: &Access, mask: u32) -> bool {
    let params = &context.launch.params;
    let (first, bytes) = (access.address.offset as usize, usize::from(access.bytes));
    let total = bytes * usize::from(access.count);
    if !matches!(access.address.base, Base::None)
        || access.order != Order::Weak
        || context.monitor.sanitiser().is_some()
        || !first.is_multiple_of(total)
        || first.checked_add(total).is_none_or(|end| end > params.len())
    {
        return false;
    }
    for (d, bytes) in access.rows.iter().zip(params[first..first + total].chunks_exact(bytes)) {
        let mut raw = [0; 8];
        raw[..bytes.len()].copy_from_slice(bytes);
        let value = extended(access, u64::from_le_bytes(raw));
        match *d {
            R::MAX => {}
            d if access.wide => rows.set64(d, mask, [value; 32]),
            d => rows.set(d, mask, [value as u32; 32]),
        }
    }
    true
}

/// A loaded element as its register holds it.
#[inline(always)]
fn extended(access: &Access, value: u64) -> u64 {
    if !access.signed || access.bytes >= 8 {
        return value;
    }
    let shift = 64 - 8 * u32::from(access.bytes);
    let value = ((value << shift) as i64 >> shift) as u64;
    // A 16-bit register stands zero-extended; a 32-bit one takes the whole.
    if access.narrow && access.bytes < 4 && !access.wide { value & 0xffff } else { value }
}

/// The allocation that the first lane's address lies in.
#[inline(always)]
fn find_first<'c, M: Monitor>(
    context: &mut Context<'c, '_, M>,
    rows: Rows,
    address: &Address,
    mask: u32,
) -> Option<&'c Allocation> {
    let lane = mask.trailing_zeros() as usize;
    let (row, wide) = register_of(address)?;
    find(context.warp, context.launch, rows.lane_of(row, wide, lane).wrapping_add(address.offset as u64))
}

/// The register that an address counts from, and whether it has 64 bits.
#[inline(always)]
fn register_of(address: &Address) -> Option<(R, bool)> {
    match address.base {
        Base::Row64(row) => Some((row, true)),
        Base::Row32(row) => Some((row, false)),
        Base::None | Base::Frame => None,
    }
}

/// Words of memory, by byte offset.
///
/// # Safety
/// Who calls these has checked that all of the words lie in the memory and are aligned, and passes true for `AVX2` only in
/// code for processors that have it.
trait Words: Copy {
    unsafe fn word(self, offset: u64) -> u32;
    unsafe fn set_word(self, offset: u64, value: u32);
    /// Neighbouring ones.
    unsafe fn eight<const AVX2: bool>(self, offset: u64) -> [u32; 8];
    unsafe fn set_eight<const AVX2: bool>(self, offset: u64, values: [u32; 8]);
    unsafe fn gather<const AVX2: bool>(self, offsets: &[u32; 32], at: usize) -> [u32; 32];
}

/// A block's shared memory: one worker at a time uses it.
#[derive(Clone, Copy)]
struct SharedWords(*mut u8);

impl Words for SharedWords {
    #[inline(always)]
    unsafe fn word(self, offset: u64) -> u32 {
        // SAFETY: by the caller's promise, here and below.
        unsafe { *self.0.add(offset as usize).cast() }
    }

    #[inline(always)]
    unsafe fn set_word(self, offset: u64, value: u32) {
        // SAFETY: as above.
        unsafe { *self.0.add(offset as usize).cast() = value }
    }

    #[inline(always)]
    unsafe fn eight<const AVX2: bool>(self, offset: u64) -> [u32; 8] {
        // SAFETY: as above.
        unsafe { *self.0.add(offset as usize).cast() }
    }

    #[inline(always)]
    unsafe fn set_eight<const AVX2: bool>(self, offset: u64, values: [u32; 8]) {
        // SAFETY: as above.
        unsafe { *self.0.add(offset as usize).cast() = values }
    }

    #[inline(always)]
    unsafe fn gather<const AVX2: bool>(self, offsets: &[u32; 32], at: usize) -> [u32; 32] {
        // SAFETY: as above.
        unsafe { gather32::<AVX2>(self.0.add(at * 4), offsets) }
    }
}

impl Words for &Allocation {
    #[inline(always)]
    unsafe fn word(self, offset: u64) -> u32 {
        // SAFETY: by the caller's promise, here and below.
        unsafe { self.load(offset, 4) as u32 }
    }

    #[inline(always)]
    unsafe fn set_word(self, offset: u64, value: u32) {
        // SAFETY: as above.
        unsafe { self.store(offset, 4, value.into()) }
    }

    #[inline(always)]
    unsafe fn eight<const AVX2: bool>(self, offset: u64) -> [u32; 8] {
        // SAFETY: as above.
        unsafe { self.load_words::<AVX2>(offset) }
    }

    #[inline(always)]
    unsafe fn set_eight<const AVX2: bool>(self, offset: u64, values: [u32; 8]) {
        // SAFETY: as above.
        unsafe { self.store_words::<AVX2>(offset, values) }
    }

    #[inline(always)]
    unsafe fn gather<const AVX2: bool>(self, offsets: &[u32; 32], at: usize) -> [u32; 32] {
        // SAFETY: as above.
        each(|lane| unsafe { self.word(u64::from(offsets[lane]) + at as u64 * 4) })
    }
}

/// Loads words of a memory that has the addresses `[base, base + length)`; false if it cannot, because of the addresses.
#[inline(always)]
fn load_words<W: Words, const AVX2: bool>(
    memory: W,
    rows: Rows,
    access: &Access,
    mask: u32,
    base: u64,
    length: u64,
) -> bool {
    let Some((row, wide)) = register_of(&access.address) else { return false };
    let count = usize::from(access.count);
    let bytes = 4 * u64::from(access.count);
    let offset = |lane| rows.lane_of(row, wide, lane).wrapping_add(access.address.offset as u64).wrapping_sub(base);
    let fits = |first: u64, size: u64| first < length && length - first >= size && first & (bytes - 1) == 0;
    let shape = rows.shape(row, wide);
    let first = offset(0);
    if shape == Shape::Same && fits(first, bytes) {
        for at in 0..count {
            if access.rows[at] != R::MAX {
                // SAFETY: checked by `fits`.
                let value = unsafe { memory.word(first + at as u64 * 4) };
                rows.set(access.rows[at], mask, [value; 32]);
            }
        }
        return true;
    }
    let d = access.rows[0];
    if shape == Shape::InOrder && count == 1 && fits(first, 128) && d != R::MAX {
        let mut values = [0; 32];
        for (at, eight) in values.as_chunks_mut::<8>().0.iter_mut().enumerate() {
            // SAFETY: checked by `fits`.
            *eight = unsafe { memory.eight::<AVX2>(first + at as u64 * 32) };
        }
        rows.set(d, mask, values);
        return true;
    }
    if shape == Shape::Grouped && count == 1 && d != R::MAX {
        let mut values = [0; 32];
        let mut all = true;
        for (at, eight) in values.as_chunks_mut::<8>().0.iter_mut().enumerate() {
            let first = offset(at * 8);
            let same = first == offset(at * 8 + 1);
            if fits(first, if same { 4 } else { 32 }) {
                // SAFETY: checked by `fits`.
                *eight = if same { [unsafe { memory.word(first) }; 8] } else { unsafe { memory.eight::<AVX2>(first) } };
            } else {
                all = false;
            }
        }
        if all {
            rows.set(d, mask, values);
            return true;
        }
    }
    let mut addresses = if wide { rows.get64(row) } else { rows.get(row).map(u64::from) };
    addresses = each(|lane| addresses[lane].wrapping_add(access.address.offset as u64));
    let Some(offsets) = in_order(&addresses, base, length, bytes, mask) else { return false };
    for at in 0..count {
        if access.rows[at] != R::MAX {
            // SAFETY: `in_order` checked range and alignment of every lane; lanes outside the mask read offset 0.
            rows.set(access.rows[at], mask, unsafe { memory.gather::<AVX2>(&offsets, at) });
        }
    }
    true
}

/// Offsets from `base` of the lanes of `mask`, if all of them lie in its first 2 GiB, inside `length` and aligned; other
/// lanes get offset 0.
#[inline(always)]
fn in_order(addresses: &[u64; 32], base: u64, length: u64, bytes: u64, mask: u32) -> Option<[u32; 32]> {
    if length < bytes || length - bytes > i32::MAX as u64 {
        return None;
    }
    let last = (length - bytes) as u32;
    let mut offsets: [u64; 32] = each(|lane| addresses[lane].wrapping_sub(base));
    if mask != u32::MAX {
        offsets = each(|lane| offsets[lane] & u64::from(mask >> lane & 1).wrapping_neg());
    }
    let narrow: [u32; 32] = each(|lane| offsets[lane] as u32);
    // The top bit of `past` tells whether an offset is beyond `last`, or beyond 2 GiB.
    let past: [u32; 32] = each(|lane| last.wrapping_sub(narrow[lane]) | narrow[lane]);
    let any = all_bits(&offsets);
    (any >> 32 == 0 && any & (bytes - 1) == 0 && all_bits(&past) >> 31 == 0).then_some(narrow)
}

/// The bits that any lane has. Halving keeps the sums in vector registers until the last few.
#[inline(always)]
fn all_bits<T: Copy + Default + std::ops::BitOr<Output = T>>(values: &[T; 32]) -> T {
    let mut half = [T::default(); 16];
    for at in 0..16 {
        half[at] = values[at] | values[at + 16];
    }
    let mut quarter = [T::default(); 8];
    for at in 0..8 {
        quarter[at] = half[at] | half[at + 8];
    }
    quarter.iter().fold(T::default(), |sum, bits| sum | *bits)
}

/// 32 words at byte offsets from `memory`.
///
/// # Safety
/// Each offset is that of a readable, aligned word, and `AVX2` is true only in code for processors that have it.
#[inline(always)]
unsafe fn gather32<const AVX2: bool>(memory: *const u8, offsets: &[u32; 32]) -> [u32; 32] {
    #[cfg(target_arch = "x86_64")]
    if AVX2 {
        use std::arch::x86_64::{__m256i, _mm256_i32gather_epi32, _mm256_loadu_si256, _mm256_storeu_si256};
        let mut values = [0; 32];
        for at in (0..32).step_by(8) {
            // SAFETY: by the caller's promise; the loads and stores take any alignment.
            unsafe {
                let index = _mm256_loadu_si256(offsets.as_ptr().add(at).cast::<__m256i>());
                let found = _mm256_i32gather_epi32::<1>(memory.cast(), index);
                _mm256_storeu_si256(values.as_mut_ptr().add(at).cast::<__m256i>(), found);
            }
        }
        return values;
    }
    // SAFETY: by the caller's promise.
    each(|lane| unsafe { *memory.add(offsets[lane] as usize).cast::<u32>() })
}

#[inline(never)]
fn load_any<M: Monitor>(context: &mut Context<'_, '_, M>, rows: Rows, access: &Access, mask: u32) -> Checked<()> {
    let addresses = addresses(rows, context.frame_local(), &access.address);
    let bytes = u64::from(access.bytes);
    let total = bytes * u64::from(access.count);
    let reach = Reach { order: access.order, ..Reach::new(Kind::Read, total) };
    let refused = for_parts(context, access.address.space, &addresses, mask, reach, |context, part| {
        for at in 0..usize::from(access.count) {
            let d = access.rows[at];
            if d == R::MAX {
                continue;
            }
            let values = gather(context, part, &addresses, at as u64 * bytes, access.bytes);
            let values = values.map(|value| extended(access, value));
            if access.wide {
                rows.set64(d, part.mask, values);
            } else {
                rows.set(d, part.mask, values.map(|value| value as u32));
            }
        }
    })?;
    if refused != 0 {
        for d in access.rows.iter().take(usize::from(access.count)).filter(|d| **d != R::MAX) {
            lanes(refused).for_each(|lane| rows.set_lane_of(*d, access.wide, lane, 0));
        }
    }
    fence(access.order);
    Ok(())
}

/// Stores of 32-bit registers to shared and global memory whose lanes are all in order take a short way, as [`load`].
#[inline(always)]
pub(crate) fn store<M: Monitor, const AVX2: bool>(
    context: &mut Context<'_, '_, M>,
    rows: Rows,
    access: &Access,
    mask: u32,
) -> Checked<()> {
    if access.is_plain() && context.monitor.sanitiser().is_none() {
        let stored = match access.address.space {
            MemSpace::Shared => {
                let memory = SharedWords(shared_bytes(context.block));
                store_words::<_, AVX2>(memory, rows, access, mask, 0, context.block.shared_bytes)
            }
            MemSpace::Global => match find_first(context, rows, &access.address, mask) {
                Some(found) if found.role != Role::Constant => {
                    store_words::<_, AVX2>(found, rows, access, mask, found.base, found.bytes)
                }
                _ => false,
            },
            _ => false,
        };
        if stored {
            return Ok(());
        }
    }
    store_any(context, rows, access, mask)
}

/// As [`load_words`].
#[inline(always)]
fn store_words<W: Words, const AVX2: bool>(
    memory: W,
    rows: Rows,
    access: &Access,
    mask: u32,
    base: u64,
    length: u64,
) -> bool {
    let Some((row, wide)) = register_of(&access.address) else { return false };
    let bytes = 4 * u64::from(access.count);
    let mut addresses = if wide { rows.get64(row) } else { rows.get(row).map(u64::from) };
    addresses = each(|lane| addresses[lane].wrapping_add(access.address.offset as u64));
    let first = addresses[0].wrapping_sub(base);
    if access.count == 1
        && mask == u32::MAX
        && rows.shape(row, wide) == Shape::InOrder
        && first < length
        && length - first >= 128
        && first & 3 == 0
    {
        let values = rows.get(access.rows[0]);
        for (at, eight) in values.as_chunks::<8>().0.iter().enumerate() {
            // SAFETY: all 32 words were checked.
            unsafe { memory.set_eight::<AVX2>(first + at as u64 * 32, *eight) };
        }
        return true;
    }
    let Some(offsets) = in_order(&addresses, base, length, bytes, mask) else { return false };
    for at in 0..usize::from(access.count) {
        let values = rows.get(access.rows[at]);
        for lane in lanes(mask) {
            // SAFETY: `in_order` checked range and alignment of every lane of the mask.
            unsafe { memory.set_word(u64::from(offsets[lane]) + at as u64 * 4, values[lane]) };
        }
    }
    true
}

#[inline(never)]
fn store_any<M: Monitor>(context: &mut Context<'_, '_, M>, rows: Rows, access: &Access, mask: u32) -> Checked<()> {
    fence(access.order);
    let addresses = addresses(rows, context.frame_local(), &access.address);
    let bytes = u64::from(access.bytes);
    let total = bytes * u64::from(access.count);
    let values = |lane: usize| {
        let mut all = [0; 32];
        for (at, to) in all.chunks_exact_mut(access.bytes.into()).take(access.count.into()).enumerate() {
            let value = rows.lane_of(access.rows[at], access.wide, lane).to_le_bytes();
            to.copy_from_slice(&value[..to.len()]);
        }
        all
    };
    let reach = Reach { order: access.order, values: Some(&values), ..Reach::new(Kind::Write, total) };
    for_parts(context, access.address.space, &addresses, mask, reach, |context, part| {
        for at in 0..usize::from(access.count) {
            let row = access.rows[at];
            scatter(context, part, &addresses, at as u64 * bytes, access.bytes, |lane| {
                rows.lane_of(row, access.wide, lane)
            });
        }
    })?;
    Ok(())
}

/// The value that an atomic leaves behind.
fn atomic_result(atomic: &Atomic, mode: Mode, old: u64, a: u64, b: u64) -> u64 {
    let bits = u32::from(atomic.bytes) * 8;
    let sign = |value: u64| ((value << (64 - bits)) as i64) >> (64 - bits);
    let value = match atomic.op {
        AtomOp::And => old & a,
        AtomOp::Or => old | a,
        AtomOp::Xor => old ^ a,
        AtomOp::Exch => a,
        AtomOp::Cas => {
            if old == a {
                b
            } else {
                old
            }
        }
        AtomOp::Add => old.wrapping_add(a),
        AtomOp::Inc => {
            if old >= a {
                0
            } else {
                old + 1
            }
        }
        AtomOp::Dec => {
            if old == 0 || old > a {
                a
            } else {
                old - 1
            }
        }
        AtomOp::MinU => old.min(a),
        AtomOp::MaxU => old.max(a),
        AtomOp::MinS => sign(old).min(sign(a)) as u64,
        AtomOp::MaxS => sign(old).max(sign(a)) as u64,
        AtomOp::Float(f) => f(mode, old, a, 0),
    };
    if bits == 64 { value } else { value & ((1 << bits) - 1) }
}

/// Lane after lane, lowest first.
#[inline(never)]
pub(crate) fn atomic<M: Monitor>(
    context: &mut Context<'_, '_, M>,
    rows: Rows,
    atomic: &Atomic,
    mask: u32,
) -> Checked<()> {
    if atomic.bytes == 16 {
        return atomic128(context, rows, atomic, mask);
    }
    let addresses = addresses(rows, context.frame_local(), &atomic.address);
    let wide = atomic.bytes == 8;
    let in_global = Mode { ftz: atomic.flushes, ..atomic.mode };
    let mut old = [0; 32];
    let reach = Reach { order: atomic.order, ..Reach::new(Kind::Atomic, atomic.bytes.into()) };
    for_parts(context, atomic.address.space, &addresses, mask, reach, |context, part| {
        for lane in lanes(part.mask) {
            let a = rows.lane_of(atomic.a, wide, lane);
            let b = if matches!(atomic.op, AtomOp::Cas) { rows.lane_of(atomic.b, wide, lane) } else { 0 };
            if let Place::Allocation(allocation) = part.place {
                let offset = addresses[lane] - part.base;
                // SAFETY: `for_parts` checked range and alignment of each lane of the part.
                old[lane] = unsafe {
                    allocation.update(offset, atomic.bytes, |old| atomic_result(atomic, in_global, old, a, b))
                };
            } else {
                let one = Part { mask: 1 << lane, ..*part };
                old[lane] = gather(context, &one, &addresses, 0, atomic.bytes)[lane];
                let new = atomic_result(atomic, atomic.mode, old[lane], a, b);
                scatter(context, &one, &addresses, 0, atomic.bytes, |_| new);
            }
        }
    })?;
    if let Some(d) = atomic.result {
        lanes(mask).for_each(|lane| rows.set_lane_of(d, wide, lane, old[lane]));
    }
    Ok(())
}

/// `atom.exch.b128` and `atom.cas.b128`, one at a time on the whole host: it has no atomics of 16 bytes.
#[cold]
fn atomic128<M: Monitor>(context: &mut Context<'_, '_, M>, rows: Rows, atomic: &Atomic, mask: u32) -> Checked<()> {
    static ONE_AT_A_TIME: std::sync::Mutex<()> = std::sync::Mutex::new(());
    let addresses = addresses(rows, context.frame_local(), &atomic.address);
    let space = atomic.address.space;
    let pair = |row: R, lane: usize| [rows.lane_of(row, true, lane), rows.lane_of(row + 2, true, lane)];
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    for lane in lanes(mask) {
        let mut old = [0; 2];
        read_lane(context, space, lane, addresses[lane], 8, &mut old)?;
        let a = pair(atomic.a, lane);
        let new = match atomic.op {
            AtomOp::Cas if old == a => pair(atomic.b, lane),
            AtomOp::Cas => old,
            _ => a,
        };
        write_lane(context, space, lane, addresses[lane], 8, &new)?;
        if let Some(d) = atomic.result {
            rows.set_lane_of(d, true, lane, old[0]);
            rows.set_lane_of(d + 2, true, lane, old[1]);
        }
    }
    Ok(())
}

/// Copies that a warp may have under way before they are made unasked.
const MAX_COPIES: usize = 1 << 16;

/// Notes the copy; [`cp_async_wait`] makes it.
#[inline(never)]
pub(crate) fn cp_async<M: Monitor>(
    context: &mut Context<'_, '_, M>,
    rows: Rows,
    copy: &CpAsync,
    mask: u32,
) -> Checked<()> {
    let to = addresses(rows, context.frame_local(), &copy.dst);
    let from = addresses(rows, context.frame_local(), &copy.src);
    let bytes = copy.bytes;
    let ignored = copy.ignore.map_or(0, |(p, negated)| {
        let bits = *context.predicate(p);
        if negated { !bits } else { bits }
    });
    let read = |lane: usize| match copy.src_bytes {
        _ if ignored >> lane & 1 == 1 => 0,
        Some(row) => rows.lane(row, lane).min(u32::from(bytes)) as u8,
        None => bytes,
    };
    let refused = for_parts(context, MemSpace::Shared, &to, mask, Reach::new(Kind::Copy, bytes.into()), |_, _| {})?;
    let mut mask = mask & !refused;
    if context.warp.copies.pending.len() >= MAX_COPIES {
        cp_async_wait(context, None, u32::MAX);
    }
    // A lane reads only as far as its source is long, aligned as the whole copy; one that reads nothing may hold any address.
    let mut sources: [(Source, u64); 32] = std::array::from_fn(|_| (Source::Buffer(0), 0));
    let mut rest = mask_of(|lane| read(lane) != 0) & mask;
    while rest != 0 {
        let length = read(rest.trailing_zeros() as usize);
        let alike = mask_of(|lane| read(lane) == length) & rest;
        rest &= !alike;
        let reach = Reach { align: bytes.into(), ..Reach::new(Kind::Read, length.into()) };
        mask &= !for_parts(context, MemSpace::Global, &from, alike, reach, |context, part| {
            if let Place::Allocation(allocation) = part.place {
                let snapshot = &context.launch.memory;
                let index = snapshot.partition_point(|other| other.base < allocation.base);
                let source = part.block.map_or(Source::Buffer(index), |block| Source::Block(Arc::clone(block)));
                lanes(part.mask).for_each(|lane| sources[lane] = (source.clone(), from[lane] - part.base));
            }
        })?;
    }
    let copies = &mut context.warp.copies;
    for lane in lanes(mask) {
        let group = copies.committed[lane];
        copies.pending.push(PendingCopy {
            lane,
            group,
            to: to[lane] as u32,
            from: sources[lane].clone(),
            bytes,
            read: read(lane),
        });
    }
    Ok(())
}

/// Makes the copies of all but the latest `n` groups that the lanes have committed; `None`: all copies.
#[inline(never)]
pub(crate) fn cp_async_wait<M: Monitor>(context: &mut Context<'_, '_, M>, n: Option<u32>, mask: u32) {
    let Copies { mut pending, committed } = std::mem::take(&mut context.warp.copies);
    let memory = shared_bytes(context.block);
    pending.retain(|copy| {
        let due = match n {
            None => true,
            Some(n) => copy.group < committed[copy.lane].saturating_sub(n),
        };
        if mask >> copy.lane & 1 == 0 || !due {
            return true;
        }
        for byte in 0..u64::from(copy.bytes) {
            let value = if byte < u64::from(copy.read) {
                let allocation = match &copy.from.0 {
                    Source::Buffer(index) => &context.launch.memory[*index],
                    Source::Block(block) => block,
                };
                // SAFETY: `cp_async` checked the range that is read.
                unsafe { allocation.load(copy.from.1 + byte, 1) }
            } else {
                0
            };
            // SAFETY: `cp_async` checked the range that is written.
            unsafe { write_shared(memory, u64::from(copy.to) + byte, 1, value) };
        }
        if let Some(sanitiser) = context.monitor.sanitiser() {
            sanitiser.copied(context.block, context.warp.number, copy.lane, copy.to, copy.bytes);
        }
        false
    });
    context.warp.copies = Copies { pending, committed };
}

/// Reads `values.len()` elements of `bytes` each at one address of one lane: for instructions that address memory by lane.
pub(crate) fn read_lane<M: Monitor>(
    context: &mut Context<'_, '_, M>,
    space: MemSpace,
    lane: usize,
    address: u64,
    bytes: u8,
    values: &mut [u64],
) -> Checked<()> {
    let mut addresses = [0; 32];
    addresses[lane] = address;
    let total = u64::from(bytes) * values.len() as u64;
    for_parts(context, space, &addresses, 1 << lane, Reach::new(Kind::Read, total), |context, part| {
        for (at, value) in values.iter_mut().enumerate() {
            *value = gather(context, part, &addresses, at as u64 * u64::from(bytes), bytes)[lane];
        }
    })?;
    Ok(())
}

/// Writes elements at one address of one lane.
pub(crate) fn write_lane<M: Monitor>(
    context: &mut Context<'_, '_, M>,
    space: MemSpace,
    lane: usize,
    address: u64,
    bytes: u8,
    values: &[u64],
) -> Checked<()> {
    let mut addresses = [0; 32];
    addresses[lane] = address;
    let total = u64::from(bytes) * values.len() as u64;
    let written = |_: usize| {
        let mut all = [0; 32];
        for (to, value) in all.chunks_exact_mut(bytes.into()).zip(values) {
            to.copy_from_slice(&value.to_le_bytes()[..usize::from(bytes)]);
        }
        all
    };
    let reach = Reach { values: Some(&written), ..Reach::new(Kind::Write, total) };
    for_parts(context, space, &addresses, 1 << lane, reach, |context, part| {
        for (at, value) in values.iter().enumerate() {
            scatter(context, part, &addresses, at as u64 * u64::from(bytes), bytes, |_| *value);
        }
    })?;
    Ok(())
}
