//! The profiler: a launch's use of the hardware, counted at each instruction.
//!
//! # The rules
//! The rules for memory are in [`crate::hardware`]; the kind of work and the floating-point operations of an
//! instruction are among the facts of its operation ([`Op::facts`]).
//!
//! A *request* is one warp instruction that reaches a memory with at least one lane; an address that the hardware resolves
//! at run time (`ld` without a space) counts for the space it hits. `wmma.load` and `wmma.store` leave it to the compiler
//! how the fragment is fetched: here each register (or, where its parts lie apart, each part) that is not a copy of an
//! earlier one is a request.
//!
//! Counters are kept by instruction, so that counting costs one indexed addition, and summed by line afterwards. Each
//! worker has a profiler; sums do not depend on which worker ran which block.

use std::collections::{BTreeMap, HashMap};

use super::touches::{BulkEnds, bulk_ends};
use crate::exec::state::address::{addresses, space_of};
use crate::exec::state::cluster::{code_of, receivers};
use crate::exec::state::launch::Launch;
use crate::exec::state::scene::Scene;
use crate::exec::state::texels::{accesses_of, reads_of};
use crate::hardware::{SECTOR, atomic_sectors, local_sectors, matrix_wavefronts, pieces, sectors, wavefronts};
use crate::ir::*;
use crate::lanes::{each, lanes, mask_of};
use crate::limits::Use;
use crate::memory::Role;
use crate::profile::{Counters, Issued, LineProfile, Profile};

/// Kind of access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Load,
    Store,
    Atomic,
    /// An atomic without a result.
    Reduction,
    /// The read of an asynchronous copy.
    Copy,
}

/// Sectors of 32 bytes that were touched, one bit each, by allocation; empty where none was.
type Touched = Vec<Vec<u64>>;

/// One worker's counters.
pub(crate) struct Profiler {
    /// By instruction.
    counters: Vec<Counters>,
    /// Read and written sectors.
    touched: [Touched; 2],
    /// Index of the allocation that the last access went to.
    last_allocation: usize,
}

impl Profiler {
    pub(crate) fn new(launch: &Launch<'_>) -> Self {
        let nothing = || vec![Vec::new(); launch.memory.len()];
        Self {
            counters: vec![Counters::default(); launch.program.code.len()],
            touched: [nothing(), nothing()],
            last_allocation: 0,
        }
    }

    /// Host memory that one takes from the start, in bytes.
    pub(crate) fn bytes(launch: &Launch<'_>) -> u64 {
        let counters = launch.program.code.len() * size_of::<Counters>();
        (counters + launch.memory.len() * 2 * size_of::<Vec<u64>>()) as u64
    }

    #[inline(always)]
    pub(crate) fn issue(&mut self, scene: &Scene<'_, '_>) {
        let counters = &mut self.counters[scene.pc];
        counters.warp_instructions += 1;
        counters.lane_instructions += u64::from(scene.active.count_ones());
        counters.issued_lanes += u64::from(scene.mask.count_ones());
        let inst = &scene.launch.program.code[scene.pc];
        match &inst.op {
            Op::Bra { .. } if inst.guard.predicate().is_some() => {
                counters.branches += 1;
                counters.divergent_branches += u64::from(scene.active != 0 && scene.active != scene.mask);
            }
            Op::Load(_)
            | Op::Store(_)
            | Op::Atomic(_)
            | Op::Texture(_)
            | Op::Surface(_)
            | Op::CpAsync(_)
            | Op::CpAsyncWait { .. }
            | Op::Bulk(_)
            | Op::Mbarrier(_)
            | Op::BrxIdx(_)
            | Op::Barrier(_)
            | Op::Together(_)
                if scene.active != 0 =>
            {
                self.closely(scene, &inst.op);
            }
            _ => {}
        }
    }

    /// Counts an instruction that does more than being issued; some lane is active.
    #[inline(never)]
    fn closely(&mut self, scene: &Scene<'_, '_>, op: &Op) {
        let at = |address: &Address| addresses(scene.rows, scene.frame_local, address);
        let counters = &mut self.counters[scene.pc];
        match op {
            // Arguments of a call live in registers on hardware.
            Op::Load(access) | Op::Store(access) if matches!(access.address.base, Base::Frame) => {}
            Op::Load(access) => {
                let bytes = u64::from(access.bytes) * u64::from(access.count);
                self.access(scene, Kind::Load, access.address.space, &at(&access.address), bytes, scene.active);
            }
            Op::Store(access) => {
                let bytes = u64::from(access.bytes) * u64::from(access.count);
                self.access(scene, Kind::Store, access.address.space, &at(&access.address), bytes, scene.active);
            }
            Op::Atomic(atomic) => {
                let addresses = at(&atomic.address);
                counters.atomics += 1;
                counters.atomic_collisions +=
                    u64::from(scene.active.count_ones()) - pieces::<1>(&addresses, scene.active);
                let kind = if atomic.result.is_some() { Kind::Atomic } else { Kind::Reduction };
                self.access(scene, kind, atomic.address.space, &addresses, atomic.total_bytes(), scene.active);
            }
            Op::Texture(op) => {
                for step in reads_of(scene.launch, scene.rows, op, scene.active) {
                    self.access(scene, Kind::Load, MemSpace::Global, &step.addresses, step.bytes, step.mask);
                }
            }
            Op::Surface(op) => {
                let kind = match op.action {
                    SurfaceAction::Load { .. } => Kind::Load,
                    SurfaceAction::Store { .. } => Kind::Store,
                    SurfaceAction::Reduce { .. } => Kind::Reduction,
                };
                for step in accesses_of(scene.launch, scene.rows, op, scene.active) {
                    if kind == Kind::Reduction {
                        let counters = &mut self.counters[scene.pc];
                        counters.atomics += 1;
                        counters.atomic_collisions +=
                            u64::from(step.mask.count_ones()) - pieces::<1>(&step.addresses, step.mask);
                    }
                    self.access(scene, kind, MemSpace::Global, &step.addresses, step.bytes, step.mask);
                }
            }
            Op::CpAsync(copy) => {
                counters.async_copy_wavefronts += wavefronts(&at(&copy.dst), copy.bytes.into(), scene.active, false)[0];
                counters.async_copy_requests += 1;
                let reads = copy.src_bytes.map_or(scene.active, |row| {
                    let bytes = scene.rows.get(row);
                    mask_of(|lane| bytes[lane] != 0) & scene.active
                });
                if reads != 0 {
                    self.access(scene, Kind::Copy, MemSpace::Global, &at(&copy.src), copy.bytes.into(), reads);
                }
            }
            Op::CpAsyncWait { n } => {
                let [due, left] = scene.warp.copies.waits(*n, scene.active);
                counters.async_copy_drains += u64::from(due > 0 && left == 0);
            }
            Op::Bulk(bulk) => {
                for lane in lanes(scene.active) {
                    self.bulk(scene, bulk, lane);
                }
            }
            Op::Mbarrier(mbarrier) => match mbarrier.op {
                MbarrierOp::Arrive { .. } => counters.mbarrier_arrivals += 1,
                MbarrierOp::Wait { .. } => counters.mbarrier_waits += 1,
                _ => {}
            },
            Op::BrxIdx(brx) => {
                let index = scene.rows.get(brx.index);
                let first = index[scene.active.trailing_zeros() as usize];
                counters.branches += 1;
                counters.divergent_branches +=
                    u64::from(mask_of(|lane| index[lane] == first) & scene.mask != scene.mask);
            }
            Op::Barrier(_) => counters.barriers += 1,
            Op::Together(together) => match &together.op {
                TogetherOp::LdMatrix(moves) => {
                    let [passes, least] = matrix_wavefronts(&at(&moves.address), moves.rows.len(), scene.active);
                    counters.matrix_load_requests += 1;
                    counters.shared_load_requests += 1;
                    counters.shared_load_wavefronts += passes;
                    counters.shared_load_conflicts += passes - least;
                }
                TogetherOp::StMatrix(moves) => {
                    let [passes, least] = matrix_wavefronts(&at(&moves.address), moves.rows.len(), scene.active);
                    counters.matrix_store_requests += 1;
                    counters.shared_store_requests += 1;
                    counters.shared_store_wavefronts += passes;
                    counters.shared_store_conflicts += passes - least;
                }
                TogetherOp::Wgmma(op) => {
                    counters.warpgroup_products += 1;
                    if scene.warp.number.is_multiple_of(4) {
                        counters.warpgroup_tile_bytes += op.tile_bytes();
                    }
                }
                TogetherOp::WmmaLoad(memory) => self.fragment(scene, Kind::Load, memory),
                TogetherOp::WmmaStore(memory) => self.fragment(scene, Kind::Store, memory),
                _ => {}
            },
            _ => {}
        }
    }

    /// `wmma.load` and `wmma.store`: see the module's head.
    fn fragment(&mut self, scene: &Scene<'_, '_>, kind: Kind, memory: &WmmaMemory) {
        let lane = scene.active.trailing_zeros() as usize;
        let base = addresses(scene.rows, scene.frame_local, &memory.address)[lane];
        let default = memory.access.default_stride();
        let stride = memory.stride.map_or(default, |row| u64::from(scene.rows.lane(row, lane)));
        let bytes = memory.access.part_bytes() as u64;
        let mut seen: Vec<[u64; 32]> = Vec::new();
        for register in 0..memory.rows.len() {
            for part in 0..memory.access.parts() {
                let at = each(|lane| base.wrapping_add(memory.access.offset(lane, register, part, stride)));
                if !seen.contains(&at) {
                    self.access(scene, kind, memory.address.space, &at, bytes, scene.active);
                    seen.push(at);
                }
            }
        }
    }

    /// The bulk copy of a lane.
    fn bulk(&mut self, scene: &Scene<'_, '_>, bulk: &Bulk, lane: usize) {
        // Without ends it is a fault to come.
        let Some(BulkEnds { bytes, runs, .. }) = bulk_ends(scene, bulk, lane) else { return };
        if let BulkShape::Words { .. } | BulkShape::Response = bulk.shape {
            self.counters[scene.pc].bulk_shared_bytes += bytes;
            return;
        }
        let bytes = match bulk.shape {
            BulkShape::Tensor { .. } => runs.iter().map(|(_, bytes)| bytes).sum(),
            _ => bytes,
        };
        let sectors = |(at, bytes): &(u64, u64)| match bytes {
            0 => 0,
            _ => (at.wrapping_add(bytes - 1) / SECTOR).wrapping_sub(at / SECTOR).wrapping_add(1),
        };
        let touched = runs.iter().map(sectors).sum::<u64>();
        let counters = &mut self.counters[scene.pc];
        let reads_and_writes: &[usize] = match bulk.route {
            Route::GlobalToShared => {
                counters.bulk_load_requests += 1;
                counters.bulk_load_bytes += bytes;
                counters.bulk_load_sectors += touched;
                let receivers = match &bulk.multicast {
                    Some(multicast) => receivers(scene.launch, scene.rows, multicast, lane).count_ones().into(),
                    None => 1,
                };
                counters.bulk_multicast_requests += u64::from(bulk.multicast.is_some());
                counters.bulk_received_bytes += receivers * bytes;
                &[0]
            }
            Route::SharedToGlobal if bulk.reduction.is_some() => {
                counters.bulk_reduction_requests += 1;
                counters.bulk_reduction_bytes += bytes;
                counters.bulk_reduction_sectors += touched;
                &[0, 1]
            }
            Route::SharedToGlobal => {
                counters.bulk_store_requests += 1;
                counters.bulk_store_bytes += bytes;
                counters.bulk_store_sectors += touched;
                &[1]
            }
            Route::SharedToShared => {
                counters.bulk_load_requests += 1;
                counters.bulk_shared_bytes += bytes;
                return;
            }
            Route::Prefetch => return,
        };
        for (at, bytes) in runs {
            let Some(found) = find(scene.launch, &mut self.last_allocation, at) else { continue };
            let allocation = &scene.launch.memory[found];
            let end = at.saturating_add(bytes).min(allocation.base + allocation.bytes);
            let mut sector = at / SECTOR * SECTOR;
            while sector < end {
                let next: [u64; 32] = each(|lane| (sector + lane as u64 * SECTOR).max(at).min(end - 1));
                reads_and_writes.iter().for_each(|which| self.touch(scene.launch, *which, &next, u32::MAX));
                sector += 32 * SECTOR;
            }
        }
    }

    /// Counts one access of the lanes of `mask`, `bytes` each; in the generic space one request for each space that is hit.
    fn access(
        &mut self,
        scene: &Scene<'_, '_>,
        kind: Kind,
        space: MemSpace,
        addresses: &[u64; 32],
        bytes: u64,
        mask: u32,
    ) {
        let mut rest = mask;
        while rest != 0 {
            let (here, part) = match space {
                MemSpace::Generic => {
                    let here = space_of(addresses[rest.trailing_zeros() as usize]);
                    (here, mask_of(|lane| space_of(addresses[lane]) == here) & rest)
                }
                _ => (space, rest),
            };
            rest &= !part;
            match here {
                MemSpace::Global | MemSpace::Generic => {
                    self.global(scene.launch, scene.pc, kind, addresses, bytes, part);
                }
                MemSpace::Shared if code_of(addresses[part.trailing_zeros() as usize]) == scene.block.own_code => {
                    self.shared(scene.pc, kind, addresses, bytes, part);
                }
                MemSpace::Shared | MemSpace::Cluster => {
                    let counters = &mut self.counters[scene.pc];
                    *match kind {
                        Kind::Load | Kind::Copy => &mut counters.cluster_load_requests,
                        Kind::Store => &mut counters.cluster_store_requests,
                        Kind::Atomic | Kind::Reduction => &mut counters.cluster_atomic_requests,
                    } += 1;
                }
                MemSpace::Local => {
                    let sectors = local_sectors(addresses, bytes, part);
                    let counters = &mut self.counters[scene.pc];
                    let (requests, total) = match kind {
                        Kind::Load => (&mut counters.local_load_requests, &mut counters.local_load_sectors),
                        _ => (&mut counters.local_store_requests, &mut counters.local_store_sectors),
                    };
                    *requests += 1;
                    *total += sectors;
                }
                MemSpace::Param => {}
            }
        }
    }

    fn global(&mut self, launch: &Launch<'_>, pc: usize, kind: Kind, addresses: &[u64; 32], bytes: u64, mask: u32) {
        let counters = &mut self.counters[pc];
        let first = addresses[mask.trailing_zeros() as usize];
        let found = find(launch, &mut self.last_allocation, first);
        if found.is_some_and(|at| launch.memory[at].role == Role::Constant) {
            counters.constant_load_requests += 1;
            return;
        }
        let touched = sectors(addresses, mask);
        let least = (pieces::<1>(addresses, mask) * bytes).div_ceil(SECTOR);
        let total = u64::from(mask.count_ones()) * bytes;
        match kind {
            // An asynchronous copy is a load as well: the hardware's counters of loads have it too.
            Kind::Load | Kind::Copy => {
                counters.global_load_requests += 1;
                counters.global_load_sectors += touched;
                counters.global_load_sectors_ideal += least;
                counters.global_load_bytes += total;
                if kind == Kind::Copy {
                    counters.async_copy_sectors += touched;
                    counters.async_copy_sectors_ideal += least;
                    counters.async_copy_bytes += total;
                }
            }
            Kind::Store => {
                counters.global_store_requests += 1;
                counters.global_store_sectors += touched;
                counters.global_store_sectors_ideal += least;
                counters.global_store_bytes += total;
            }
            Kind::Atomic => {
                counters.global_atomic_requests += 1;
                counters.global_atomic_sectors += atomic_sectors(addresses, mask);
            }
            Kind::Reduction => {
                counters.global_reduction_requests += 1;
                counters.global_reduction_sectors += atomic_sectors(addresses, mask);
            }
        }
        if matches!(kind, Kind::Load | Kind::Copy | Kind::Atomic | Kind::Reduction) {
            self.touch(launch, 0, addresses, mask);
        }
        if matches!(kind, Kind::Store | Kind::Atomic | Kind::Reduction) {
            self.touch(launch, 1, addresses, mask);
        }
    }

    /// Remembers the sectors as read (0) or written (1). Addresses outside any buffer are those of
    /// the heap, whose blocks are never at the same place again, or a fault to come.
    fn touch(&mut self, launch: &Launch<'_>, which: usize, addresses: &[u64; 32], mask: u32) {
        let mut last = u64::MAX;
        for lane in lanes(mask) {
            let sector = addresses[lane] / SECTOR;
            if sector == last {
                continue;
            }
            last = sector;
            let Some(at) = find(launch, &mut self.last_allocation, addresses[lane]) else { continue };
            let allocation = &launch.memory[at];
            let bits = &mut self.touched[which][at];
            if bits.is_empty() {
                if !launch.account.take(Use::Records, allocation.bytes / (SECTOR * 8) + 8) {
                    return;
                }
                bits.resize(allocation.bytes.div_ceil(SECTOR * 64) as usize, 0);
            }
            // allocations begin at a multiple of 256
            let sector = (addresses[lane] - allocation.base) / SECTOR;
            bits[(sector / 64) as usize] |= 1 << (sector % 64);
        }
    }

    fn shared(&mut self, pc: usize, kind: Kind, addresses: &[u64; 32], bytes: u64, mask: u32) {
        let counters = &mut self.counters[pc];
        if matches!(kind, Kind::Atomic | Kind::Reduction) {
            counters.shared_atomic_requests += 1;
            return;
        }
        let [passes, least] = wavefronts(addresses, bytes, mask, kind == Kind::Load);
        if kind == Kind::Load {
            counters.shared_load_requests += 1;
            counters.shared_load_wavefronts += passes;
            counters.shared_load_conflicts += passes - least;
        } else {
            counters.shared_store_requests += 1;
            counters.shared_store_wavefronts += passes;
            counters.shared_store_conflicts += passes - least;
        }
    }
}

/// Index of the allocation that holds `address`.
#[inline(always)]
fn find(launch: &Launch<'_>, last: &mut usize, address: u64) -> Option<usize> {
    let holds = |at: usize| {
        let allocation = launch.memory.get(at)?;
        (address.wrapping_sub(allocation.base) < allocation.bytes).then_some(at)
    };
    if let Some(at) = holds(*last) {
        return Some(at);
    }
    *last = holds(launch.memory.partition_point(|allocation| allocation.base <= address).checked_sub(1)?)?;
    Some(*last)
}

/// The names and numbers in PTX text.
fn words(text: &str) -> impl Iterator<Item = &str> {
    let is_part = |part: char| part.is_ascii_alphanumeric() || matches!(part, '_' | '$' | '%');
    text.split(move |part: char| !is_part(part)).filter(|word| !word.is_empty())
}

/// Whether the old value that the atomic at `pc` returns is never read: its register has no other mention in the function.
/// Compilers leave it to `ptxas` to make a reduction of such an atomic.
///
/// `mentions` caches how often each word of a function is in its text.
fn is_reduction<'l>(launch: &Launch<'l>, pc: usize, mentions: &mut Mentions<'l>) -> bool {
    let program = launch.program;
    let Op::Atomic(atomic) = &program.code[pc].op else { return false };
    if mentions.functions.is_empty() {
        mentions.functions = program.functions.iter().filter(|function| function.start != function.end).collect();
        mentions.functions.sort_by_key(|function| function.start);
    }
    let after = mentions.functions.partition_point(|function| function.start as usize <= pc);
    let Some(function) = after.checked_sub(1).map(|at| mentions.functions[at]) else { return false };
    let Some(register) = atomic.result.and_then(|row| function.register_of(row)) else { return false };
    let start = |pc: usize| program.places[pc].ptx_at as usize;
    let text = |range: std::ops::Range<usize>| launch.source.get(range).unwrap_or_default();
    let name = text(register.name.start as usize..register.name.end as usize);
    let body = text(start(function.start as usize)..start(function.end as usize - 1));
    let counts = mentions.words.entry(function.start).or_insert_with(|| {
        let mut counts = HashMap::new();
        words(body).for_each(|word| *counts.entry(word).or_insert(0) += 1);
        counts
    });
    counts.get(name) == Some(&1)
}

#[derive(Default)]
struct Mentions<'l> {
    /// In order of their code.
    functions: Vec<&'l Function>,
    /// By the function's start.
    words: HashMap<u32, HashMap<&'l str, u32>>,
}

/// The source line that an instruction is counted for: [file, line]. One that was inlined belongs to the line in which it
/// was written if that is in the same file, otherwise (a header) to the line that called it.
fn line_of(place: &CodePlace) -> Option<(u64, u32)> {
    let loc = place.loc?;
    Some(match loc.inlined_at {
        Some((file, line, _)) if file != loc.file => (file, line),
        _ => (loc.file, loc.line),
    })
}

/// The counters of all workers as the profile of the launch. `longest_warp`: instructions of the warp that executed most.
pub(crate) fn profile(launch: &Launch<'_>, profilers: Vec<Profiler>, longest_warp: u64) -> Profile {
    let program = launch.program;
    let mut counters = vec![Counters::default(); program.code.len()];
    let mut touched: [Touched; 2] = [Vec::new(), Vec::new()];
    for profiler in profilers {
        counters.iter_mut().zip(&profiler.counters).for_each(|(sum, more)| *sum += *more);
        for (sum, more) in touched.iter_mut().zip(profiler.touched) {
            sum.resize(more.len(), Vec::new());
            for (sum, more) in sum.iter_mut().zip(more) {
                sum.resize(sum.len().max(more.len()), 0);
                sum.iter_mut().zip(more).for_each(|(sum, more)| *sum |= more);
            }
        }
    }
    let mut lines: BTreeMap<(Option<u64>, &str, u32), LineProfile> = BTreeMap::new();
    let mut all = LineProfile::default();
    let mut mentions = Mentions::default();
    let mut opcodes: BTreeMap<String, u64> = BTreeMap::new();
    let mut instruction = u32::MAX;
    for (pc, mut counters) in counters.into_iter().enumerate().filter(|(_, counters)| counters.warp_instructions != 0) {
        if counters.global_atomic_requests != 0 && is_reduction(launch, pc, &mut mentions) {
            counters.global_reduction_requests = std::mem::take(&mut counters.global_atomic_requests);
            counters.global_reduction_sectors = std::mem::take(&mut counters.global_atomic_sectors);
        }
        let place = &program.places[pc];
        // An instruction may have become several operations, one after another.
        if std::mem::replace(&mut instruction, place.ptx_at) != place.ptx_at {
            *opcodes.entry(launch.opcode(pc)).or_default() += counters.warp_instructions;
        }
        let (file, line) = line_of(place).map_or((None, place.ptx_line), |(file, line)| (Some(file), line));
        let path = file.and_then(|file| program.files.get(&file)).map_or_else(|| launch.file_of(pc), String::as_str);
        let of_line = lines.entry((file, path, line)).or_insert_with(|| LineProfile {
            file: path.to_owned(),
            line,
            ..LineProfile::default()
        });
        let Work { class, flops } = program.code[pc].op.facts().work;
        let issued = Issued { warp: counters.warp_instructions, lane: counters.lane_instructions };
        for sum in [of_line, &mut all] {
            sum.add(counters, class, issued, u64::from(flops) * counters.lane_instructions);
        }
    }
    let unique =
        touched.map(|touched| touched.iter().flatten().map(|word| u64::from(word.count_ones())).sum::<u64>() * SECTOR);
    Profile {
        kernel: launch.kernel.info.name.clone(),
        ptx: launch.file_of(program.functions[launch.kernel.function as usize].start as usize).to_owned(),
        threads: launch.threads(),
        shared_bytes: launch.kernel.info.static_shared + launch.dynamic_shared,
        counters: all.counters,
        classes: all.classes,
        flops: all.flops,
        longest_warp,
        unique_load_bytes: unique[0],
        unique_store_bytes: unique[1],
        opcodes: opcodes.into_iter().collect(),
        lines: lines.into_values().collect(),
    }
}
