//! Target of an access: checked for all its lanes before any lane touches memory. Where it points, whether it is aligned,
//! whether it is in bounds. A failed check is a [`Problem`] that names the first lane, the address and the nearest
//! allocation.

use super::context::Context;
use crate::exec::state::address::{register_of, space_of};
use crate::exec::state::block::Block;
use crate::exec::state::cluster::{self, Owner};
use crate::exec::state::launch::Launch;
use crate::exec::state::place::{Kind, Part, Place, Reach, Visit};
use crate::exec::state::problem::Problem;
use crate::exec::state::rows::Rows;
use crate::exec::state::warp::{ALLOCATIONS, Warp};
use crate::exec::watch::monitor::Monitor;
use crate::fault::FaultKind;
use crate::ir::{Address, CLUSTER_RANK, MemSpace, window};
use crate::lanes::{each, lanes_where, mask_of};
use crate::memory::{self, Allocation, Role, plural};

pub(crate) type Checked<T> = Result<T, Box<Problem>>;

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

/// Splits the lanes by the space of their addresses, checks each part, and hands it to `action`. A failed check ends the
/// launch, unless a sanitiser collects it: then the lanes at fault are left out and returned.
#[inline(always)]
pub(crate) fn for_parts<'l, M: Monitor>(
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
        let (mut lanes_here, mut window) = if space == MemSpace::Generic {
            let same = mask_of(|lane| space_of(addresses[lane]) == space_here) & rest;
            (same, window(space_here))
        } else {
            (rest, 0)
        };
        let mut owner = Some(Owner::Own);
        let has_code = space == MemSpace::Cluster
            || space_here == MemSpace::Shared && (space == MemSpace::Generic || context.block.own_code != 0);
        if has_code {
            let code = |lane: usize| addresses[lane].wrapping_sub(window) >> CLUSTER_RANK;
            let here = code(first);
            if here != 0 || context.block.own_code != 0 {
                lanes_here &= mask_of(|lane| code(lane) == here);
                owner = Owner::of(context.block, here);
                window += here << CLUSTER_RANK;
            } else {
                lanes_here &= mask_of(|lane| code(lane) == 0);
            }
        }
        let mut refuse = |context: &mut Context<'_, 'l, M>, problem: Box<Problem>| {
            refused |= problem.lanes;
            rest &= !problem.lanes;
            context.report(problem)
        };
        let mut block = None; // of the heap: held while it is used
        let (base, length, place) = match space_here {
            MemSpace::Shared | MemSpace::Cluster => {
                let place = match owner {
                    Some(Owner::Own) => Place::Shared,
                    Some(Owner::Peer(rank)) if context.block.peers[rank as usize].live != 0 => Place::Peer(rank),
                    _ => {
                        refuse(context, beyond_cluster(context.block, addresses[first], lanes_here, reach))?;
                        continue;
                    }
                };
                (window, u64::from(launch.shared_bytes()), place)
            }
            MemSpace::Local => (window, context.warp.local.bytes.into(), Place::Local),
            MemSpace::Param => (window, launch.member(0).params.len() as u64, Place::Param),
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
            if reach.writes()
                && problem.kind == FaultKind::Misaligned
                && let Some(sanitiser) = context.monitor.sanitiser()
            {
                let offsets = each(|lane| addresses[lane].wrapping_sub(base));
                sanitiser.assume_written(context.block, context.warp, &place, problem.lanes, (&offsets, reach.bytes));
            }
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
        if matches!(place, Place::Param) && reach.writes() {
            let message = "write to the kernel's parameters";
            refuse(context, Problem::new(FaultKind::ReadOnly, good, message).at(addresses[first]))?;
            continue;
        }
        rest &= !good;
        let mut part = Part { mask: good, place, block: block.as_ref(), base };
        let at = context.at();
        if let Some(sanitiser) = context.monitor.sanitiser() {
            let frame = context.frame.rows;
            let visit = Visit { at, frame, part: &part, addresses, reach };
            let stray = sanitiser.inspect(context.block, context.warp, &visit);
            part.mask &= !stray;
            refused |= stray;
        }
        action(context, &part);
        if reach.kind == Kind::Write
            && let Some(sanitiser) = context.monitor.sanitiser()
            && !sanitiser.undefined.is_empty()
        {
            let frame = context.frame.rows;
            let visit = Visit { at, frame, part: &part, addresses, reach };
            sanitiser.stored(context.block, context.warp, &visit);
        }
    }
    Ok(refused)
}

/// The problem of accesses to shared memory of a block that is not, or no longer, in the cluster.
#[cold]
#[inline(never)]
pub(crate) fn beyond_cluster(block: &Block, address: u64, lanes: u32, reach: Reach<'_>) -> Box<Problem> {
    let rank = cluster::rank_of(block, address);
    let (verb, preposition) = reach.verb();
    let access = format!("{verb} of {} {preposition}", plural(reach.bytes));
    match block.peers.get(rank as usize) {
        Some(peer) => {
            let [x, y, z] = peer.index.at;
            let message = format!("{access} shared memory of block ({x}, {y}, {z}), which has exited");
            Problem::new(FaultKind::BlockExit, lanes, message).at(address)
        }
        None => {
            let blocks = block.peers.len().max(1);
            let message = format!("{access} shared memory of rank {rank} in a cluster of {blocks}");
            Problem::new(FaultKind::OutOfBounds, lanes, message).at(address)
        }
    }
}

/// The live allocation that holds `address`.
#[inline(always)]
pub(crate) fn find<'l>(warp: &mut Warp, launch: &'l Launch<'_>, address: u64) -> Option<&'l Allocation> {
    let snapshot = &launch.memory;
    let holds = |at: usize| {
        let allocation = snapshot.get(at)?;
        (address.wrapping_sub(allocation.base) < allocation.bytes && !allocation.is_freed()).then_some(&**allocation)
    };
    let last = &mut warp.last_allocations[(address / memory::GAP) as usize % ALLOCATIONS];
    if let Some(found) = holds(*last) {
        return Some(found);
    }
    let at = snapshot.partition_point(|allocation| allocation.base <= address).checked_sub(1)?;
    let found = holds(at)?;
    *last = at;
    Some(found)
}

/// Whether `address` is in a live allocation, or a block of the heap.
fn is_mapped(warp: &mut Warp, launch: &Launch<'_>, address: u64) -> bool {
    find(warp, launch, address).is_some() || launch.heap.find(address).is_some()
}

/// The allocation that the first lane's address lies in.
#[inline(always)]
pub(crate) fn find_first<'c, M: Monitor>(
    context: &mut Context<'c, '_, M>,
    rows: Rows,
    address: &Address,
    mask: u32,
) -> Option<&'c Allocation> {
    let lane = mask.trailing_zeros() as usize;
    let (row, wide) = register_of(address)?;
    find(context.warp, context.launch, rows.lane_of(row, wide, lane).wrapping_add(address.offset as u64))
}

/// Describes a global address: the variable or allocation there, or nearest to it.
#[cold]
pub(crate) fn whereabouts(launch: &Launch<'_>, address: u64) -> String {
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
pub(crate) fn stray(launch: &Launch<'_>, addresses: &[u64; 32], lanes: u32, reach: Reach<'_>) -> Box<Problem> {
    let address = addresses[lanes.trailing_zeros() as usize];
    let bytes = reach.bytes;
    let (verb, preposition) = reach.verb();
    let nearest = memory::nearest(&launch.memory, launch.heap.heap, address);
    let (kind, message) = match &nearest {
        Some(found) if found.is_freed() && address.wrapping_sub(found.base) < found.bytes => {
            (FaultKind::UseAfterFree, format!("{verb} of {} {preposition} freed memory", plural(bytes)))
        }
        _ => (FaultKind::OutOfBounds, format!("out-of-bounds {verb} of {}", plural(bytes))),
    };
    let problem = Problem::new(kind, lanes, message).at(address).note(whereabouts(launch, address));
    match nearest.and_then(|nearest| overflow(launch, &nearest, address, bytes)) {
        Some(note) => problem.note(note),
        None => problem,
    }
}

/// Says how an index that overflowed 32 bits would lead to the address: what it misses by is 2³² elements, or about half as
/// much.
#[cold]
fn overflow(launch: &Launch<'_>, nearest: &Allocation, address: u64, bytes: u64) -> Option<String> {
    const ADVICE: &str = "did an index overflow 32 bits? Compute it in 64, as `size_t` or `long long`";
    let holds = |address: u64| {
        let found = memory::nearest(&launch.memory, launch.heap.heap, address)?;
        (!found.is_freed() && address.wrapping_sub(found.base) < found.bytes).then(|| found.describe(address))
    };
    let missed = address.abs_diff(nearest.base);
    for size in [bytes, 1] {
        let (elements, wrap) = (format!("elements of {}", plural(size)), size << 32);
        if let Some(meant) = holds(address.wrapping_add(wrap)).or_else(|| holds(address.wrapping_sub(wrap))) {
            return Some(format!("2³² {elements} away it is {meant}: {ADVICE}"));
        }
        let about = |power: u64| missed.abs_diff(power) < power / 64;
        if let Some(power) = [("2³¹", wrap / 2), ("2³²", wrap)].iter().find(|(_, power)| about(*power)) {
            return Some(format!("that is about {} {elements} from where it begins: {ADVICE}", power.0));
        }
    }
    None
}

/// The problem of accesses whose addresses are not multiples of their alignment.
#[cold]
pub(super) fn misaligned(addresses: &[u64; 32], lanes: u32, reach: Reach<'_>) -> Box<Problem> {
    let address = addresses[lanes.trailing_zeros() as usize];
    let Reach { bytes, align, .. } = reach;
    let message = format!("misaligned {} of {}", reach.verb().0, plural(bytes));
    let note = format!("address {address:#x} is {} past a multiple of {align}", plural(address % align));
    Problem::new(FaultKind::Misaligned, lanes, message).at(address).note(note)
}

/// The problem of accesses that are out of bounds or misaligned.
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
    let bytes = reach.bytes;
    let (verb, _) = reach.verb();
    let is_shared = matches!(space, MemSpace::Shared | MemSpace::Cluster);
    let offset = address.wrapping_sub(base);
    // An address of 32 bits may have wrapped.
    let offset = if is_shared && offset >> 32 == 0 { i64::from(offset as i32) as u64 } else { offset };
    let inside = |lane: usize| {
        let offset = addresses[lane].wrapping_sub(base);
        offset < length && length - offset >= bytes
    };
    if inside(bad.trailing_zeros() as usize) {
        let lanes = mask_of(|lane| bad >> lane & 1 == 1 && inside(lane));
        let mut problem = misaligned(addresses, lanes, reach);
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
        MemSpace::Shared | MemSpace::Cluster => "shared memory",
        MemSpace::Local => "local memory",
        _ => "the kernel's parameters",
    };
    let message = format!("out-of-bounds {verb} of {} in {what}", plural(bytes));
    let whose = if is_shared { "the block has" } else { "the thread has" };
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
