//! The profiler: what a launch asks of the hardware, counted at each instruction.
//!
//! # The rules
//! Each rule of the hardware (Volta to Hopper) is a function of its own here:
//! - [`sectors`]: how many 32-byte sectors a warp's access to global memory touches;
//! - [`wavefronts`]: how many passes its access to shared memory takes;
//! - [`local_sectors`]: the same as the first for local memory, whose threads are interleaved;
//! - [`matrix_wavefronts`]: passes of `ldmatrix` and `stmatrix`;
//! - [`Work::of`]: what kind of instruction an opcode is, and how many floating-point operations it counts for.
//!
//! A *request* is one warp instruction that reaches a memory with at least one lane; an address that the hardware resolves
//! at run time (`ld` without a space) counts for the space it hits. `wmma.load` and `wmma.store` leave it to the compiler
//! how the fragment is fetched: here each register (or, where its parts lie apart, each part) that is not a copy of an
//! earlier one is a request.
//!
//! Counters are kept by instruction, so that counting costs one indexed addition, and put together by line afterwards. Each
//! worker has a profiler; sums do not depend on who ran which block.

use std::collections::BTreeMap;

use super::access::{addresses, space_of};
use super::lanes::{each, lanes, mask_of};
use super::{Launch, Scene};
use crate::ir::*;
use crate::memory::Role;
use crate::profile::{Class, Counters, Issued, LineProfile, Profile};
use crate::trace::SECTOR;

/// What an access does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Load,
    Store,
    Atomic,
    /// An atomic whose old value nobody asks for.
    Reduction,
    /// The read of an asynchronous copy.
    Copy,
}

/// Sectors of 32 bytes that were touched, a bit each, by allocation; empty where none was.
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
            | Op::CpAsync(_)
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

    /// What has more to it than being issued; some lane is active.
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
                self.access(scene, kind, atomic.address.space, &addresses, atomic.bytes.into(), scene.active);
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

    /// One access of the lanes of `mask`, `bytes` each; in the generic space one request for each space that is hit.
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
                MemSpace::Shared => self.shared(scene.pc, kind, addresses, bytes, part),
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

/// How many different values there are; sorts them. Those of a warp mostly rise from lane to lane as they are.
#[inline(always)]
pub(crate) fn distinct(values: &mut [u64]) -> u64 {
    if !values.is_sorted() {
        values.sort_unstable();
    }
    u64::from(!values.is_empty()) + values.windows(2).map(|pair| u64::from(pair[0] != pair[1])).sum::<u64>()
}

/// How many different pieces of `UNIT` bytes the addresses of the lanes of `mask`, which is not empty, are in.
fn pieces<const UNIT: u64>(addresses: &[u64; 32], mask: u32) -> u64 {
    let first = addresses[mask.trailing_zeros() as usize];
    distinct(&mut each(|lane| if mask >> lane & 1 == 1 { addresses[lane] } else { first } / UNIT))
}

/// Sectors of global memory that a request touches: the different 32-byte pieces that hold any byte of any lane, over the
/// whole warp, however wide the lanes' accesses are. An aligned access of up to 32 bytes lies in one sector.
fn sectors(addresses: &[u64; 32], mask: u32) -> u64 {
    pieces::<SECTOR>(addresses, mask)
}

/// Sectors of an atomic: lanes that share an address take turns, and each turn touches its sectors anew.
fn atomic_sectors(addresses: &[u64; 32], mask: u32) -> u64 {
    let mut rest = mask;
    let mut total = 0;
    while rest != 0 {
        let mut turn = rest;
        for lane in lanes(rest) {
            let same = mask_of(|other| addresses[other] == addresses[lane]) & rest;
            if same.trailing_zeros() as usize != lane {
                turn &= !(1 << lane);
            }
        }
        total += sectors(addresses, turn);
        rest &= !turn;
    }
    total
}

/// Sectors of local memory: word w of lane l lies at word 32 w + l, so that a warp whose lanes are at one offset touches
/// 4 sectors for each word.
fn local_sectors(addresses: &[u64; 32], bytes: u64, mask: u32) -> u64 {
    let of_word = |word| pieces::<1>(&each(|lane| ((addresses[lane] / 4 + word) << 2) | (lane as u64 / 8)), mask);
    (0..bytes.div_ceil(4)).map(of_word).sum()
}

/// Wavefronts of a request to shared memory, and the fewest it could take. The memory has 32 banks of 4 bytes, and a
/// wavefront gets one word from each; lanes that want the same word share it. A warp with accesses of 8 bytes a lane
/// goes in two halves, with 16 bytes in four quarters; one without an active lane is free. Two neighbouring groups of a
/// load (`pairs`) go as one if every lane there wants what its neighbour wants, or every lane what the one after its
/// neighbour does; measured on an H200, stores don't.
fn wavefronts(addresses: &[u64; 32], bytes: u64, mask: u32, pairs: bool) -> [u64; 2] {
    let words = bytes.div_ceil(4).clamp(1, 8) as usize;
    let first_words = each(|lane| (addresses[lane] / 4) as u32);
    let mut total = [0; 2];
    let mut start = 0;
    while start < 32 {
        let group = served_together(&first_words, words, mask, pairs, start);
        let active = mask >> start & (u32::MAX >> (32 - group));
        if active != 0 {
            total[0] += ways(&first_words[start..start + group], words as u32, active);
            total[1] += 1;
        }
        start += group;
    }
    total
}

/// How many lanes from `start` on shared memory serves together, see [`wavefronts`].
pub(crate) fn served_together(first_words: &[u32; 32], words: usize, mask: u32, pairs: bool, start: usize) -> usize {
    let group = 32 / words;
    let alike = |apart: usize| {
        (start..start + 2 * group).all(|lane| {
            let both = mask >> lane & mask >> (lane ^ apart) & 1 == 1;
            !both || first_words[lane] == first_words[lane ^ apart]
        })
    };
    let pair = pairs && words > 1 && start.is_multiple_of(2 * group) && (alike(1) || alike(2));
    if pair { 2 * group } else { group }
}

/// Wavefronts of `ldmatrix` and `stmatrix`, and the fewest: each matrix of eight 16-byte rows, whose addresses eight lanes
/// give, is one wavefront if its rows lie in different banks.
fn matrix_wavefronts(addresses: &[u64; 32], matrices: usize, mask: u32) -> [u64; 2] {
    wavefronts(addresses, 16, mask & (u32::MAX >> (32 - 8 * matrices.clamp(1, 4))), false)
}

/// The most different words that any bank has to give, where each active lane wants `count` words from its first on.
fn ways(first_words: &[u32], count: u32, active: u32) -> u64 {
    let first = first_words[active.trailing_zeros() as usize];
    let apart = |lane: usize| (first_words[lane] ^ first) & (active >> lane & 1).wrapping_neg();
    // one row of all banks, for most accesses
    if (0..first_words.len()).fold(0, |bits, lane| bits | apart(lane)) < 32 && first % 32 + count <= 32 {
        return 1;
    }
    // The words seen so far, chained by bank.
    const END: u8 = u8::MAX;
    let (mut words, mut next, mut used) = ([0; 32], [END; 32], 0);
    let (mut heads, mut sizes) = ([END; 32], [0u8; 32]);
    for lane in lanes(active) {
        for word in (0..count).map(|word| first_words[lane].wrapping_add(word)) {
            let bank = word as usize % 32;
            let mut at = heads[bank];
            while at != END && words[usize::from(at)] != word {
                at = next[usize::from(at)];
            }
            if at == END {
                words[used] = word;
                next[used] = heads[bank];
                heads[bank] = used as u8;
                sizes[bank] += 1;
                used += 1;
            }
        }
    }
    u64::from(sizes.into_iter().max().unwrap_or(0))
}

/// What an instruction is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Work {
    class: Class,
    /// Floating-point operations of one active lane. As in Nsight Compute, only additions, multiplications (1) and fused
    /// multiply-adds (2) count, each for every element of a packed type; a matrix product of m × n × k is 2 m n k a warp.
    flops: u64,
}

impl Work {
    /// By the operation where that is one of the simulator's own (special registers, moves), otherwise by the opcode.
    fn of(op: &Op, opcode: &str) -> Self {
        let mut parts = opcode.split('.');
        let mnemonic = parts.next().unwrap_or_default();
        let has = |any: &[&str]| parts.clone().any(|part| any.contains(&part));
        let class = match mnemonic {
            _ if matches!(
                op,
                Op::Mov32 { .. }
                    | Op::Mov64 { .. }
                    | Op::Special { .. }
                    | Op::FrameAddress { .. }
                    | Op::Unpack32 { .. }
                    | Op::Unpack64 { .. }
                    | Op::Pack(_)
                    | Op::PredSet { .. }
                    | Op::PredMov { .. }
                    | Op::RowToPred { .. }
                    | Op::Nop
            ) =>
            {
                Class::Other
            }
            "ld" | "st" if has(&["param"]) => Class::Other,
            "ld" | "ldu" | "st" | "atom" | "red" | "cp" | "ldmatrix" | "stmatrix" => Class::Memory,
            "wmma" if !has(&["mma"]) => Class::Memory,
            "mma" | "wmma" => Class::Tensor,
            "bar" | "barrier" | "membar" | "fence" => Class::Barrier,
            "bra" | "brx" | "call" | "ret" | "exit" | "trap" | "nanosleep" => Class::Control,
            "shfl" | "vote" | "match" | "redux" | "activemask" | "elect" => Class::Communication,
            "cvt" => Class::Conversion,
            "mov" | "selp" | "cvta" | "isspacep" => Class::Other,
            _ if has(&["f64"]) => Class::F64,
            _ if has(&["f32", "f32x2"]) => Class::F32,
            _ if has(&["f16", "f16x2", "bf16", "bf16x2"]) => Class::F16,
            _ if has(&["pred"]) => Class::Other,
            _ => Class::Integer,
        };
        let elements = if has(&["f16x2", "bf16x2", "f32x2"]) { 2 } else { 1 };
        let flops = match (class, mnemonic) {
            (Class::F32 | Class::F64 | Class::F16, "fma" | "mad") => 2 * elements,
            (Class::F32 | Class::F64 | Class::F16, "add" | "sub" | "mul") => elements,
            (Class::Tensor, _) if !has(&["s8", "u8", "s4", "u4", "b1"]) => product_flops(&mut parts.clone()),
            _ => 0,
        };
        Self { class, flops }
    }
}

/// A lane's share of a matrix product, from `m16n8k16` among the modifiers.
fn product_flops<'a>(modifiers: &mut impl Iterator<Item = &'a str>) -> u64 {
    let shape = modifiers.find_map(|modifier| {
        let (m, rest) = modifier.strip_prefix('m')?.split_once('n')?;
        let (n, k) = rest.split_once('k')?;
        Some([m.parse().ok()?, n.parse().ok()?, k.parse().ok()?])
    });
    match shape {
        // With f16 these are four products at once; with f64 it is one.
        Some([8, 8, 4]) if !modifiers.any(|modifier| modifier == "f64") => 4 * 2 * 8 * 8 * 4 / 32,
        Some([m, n, k]) => 2 * m * n * k / 32,
        None => 0,
    }
}

/// The opcode of the instruction that begins at `at`: `fma.rn.f32` of `@!%p1 fma.rn.f32 %f3, %f1, %f2, %f0;`.
fn opcode(source: &str, at: u32) -> &str {
    let text = source.get(at as usize..).unwrap_or_default();
    let text = match text.strip_prefix('@') {
        Some(guarded) => {
            guarded.trim_start_matches(['!', ' ', '\t']).split_once(char::is_whitespace).map_or("", |(_, rest)| rest)
        }
        None => text,
    };
    let text = text.trim_start();
    &text[..text.find(|end: char| end.is_whitespace() || end == ';').unwrap_or(text.len())]
}

/// The names and numbers in PTX text.
fn words(text: &str) -> impl Iterator<Item = &str> {
    let is_part = |part: char| part.is_ascii_alphanumeric() || matches!(part, '_' | '$' | '%');
    text.split(move |part: char| !is_part(part)).filter(|word| !word.is_empty())
}

/// Whether the old value that the atomic at `pc` returns is never read: its register has no other mention in the function.
/// Compilers leave it to `ptxas` to make a reduction of such an atomic.
fn is_reduction(launch: &Launch<'_>, pc: usize) -> bool {
    let program = launch.program;
    let Op::Atomic(_) = program.code[pc].op else { return false };
    let start = |pc: usize| program.places[pc].ptx_at as usize;
    let Some(function) =
        program.functions.iter().find(|function| (function.start..function.end).contains(&(pc as u32)))
    else {
        return false;
    };
    let (body, own) = (start(function.start as usize)..start(function.end as usize - 1), start(pc));
    let operands = launch.source.get(own..).unwrap_or_default().split(';').next().unwrap_or_default();
    let operands = operands.split_once(opcode(launch.source, own as u32)).map_or("", |(_, operands)| operands);
    let Some(result) = words(operands).next() else { return false };
    words(launch.source.get(body).unwrap_or_default()).filter(|word| *word == result).count() == 1
}

/// The source line that an instruction is counted for: [file, line]. One that was inlined belongs to the line that it was
/// written at if that is in the same file, otherwise (a header) to the line that called it.
fn line_of(place: &CodePlace) -> Option<(u64, u32)> {
    let loc = place.loc?;
    Some(match loc.inlined_at {
        Some((file, line, _)) if file != loc.file => (file, line),
        _ => (loc.file, loc.line),
    })
}

/// The counters of all workers as the profile of the launch.
pub(crate) fn profile(launch: &Launch<'_>, profilers: Vec<Profiler>) -> Profile {
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
    let mut lines: BTreeMap<(Option<u64>, u32), LineProfile> = BTreeMap::new();
    let mut all = LineProfile::default();
    for (pc, mut counters) in counters.into_iter().enumerate().filter(|(_, counters)| counters.warp_instructions != 0) {
        if counters.global_atomic_requests != 0 && is_reduction(launch, pc) {
            counters.global_reduction_requests = std::mem::take(&mut counters.global_atomic_requests);
            counters.global_reduction_sectors = std::mem::take(&mut counters.global_atomic_sectors);
        }
        let place = &program.places[pc];
        let (file, line) = line_of(place).map_or((None, place.ptx_line), |(file, line)| (Some(file), line));
        let of_line = lines.entry((file, line)).or_insert_with(|| {
            let path = program.files.iter().find(|(index, _)| Some(*index) == file).map(|(_, path)| path.as_str());
            LineProfile { file: path.unwrap_or(launch.file).to_owned(), line, ..LineProfile::default() }
        });
        let Work { class, flops } = Work::of(&program.code[pc].op, opcode(launch.source, place.ptx_at));
        let issued = Issued { warp: counters.warp_instructions, lane: counters.lane_instructions };
        for sum in [of_line, &mut all] {
            sum.add(counters, class, issued, flops * counters.lane_instructions);
        }
    }
    let unique =
        touched.map(|touched| touched.iter().flatten().map(|word| u64::from(word.count_ones())).sum::<u64>() * SECTOR);
    Profile {
        kernel: launch.kernel.info.name.clone(),
        ptx: launch.file.to_owned(),
        threads: launch.threads(),
        shared_bytes: launch.kernel.info.static_shared + launch.dynamic_shared,
        counters: all.counters,
        classes: all.classes,
        flops: all.flops,
        unique_load_bytes: unique[0],
        unique_store_bytes: unique[1],
        lines: lines.into_values().collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn opcodes_have_a_class_and_operations() {
        for (text, class, flops) in [
            ("fma.rn.f32 %f1, %f2, %f3, %f4;", Class::F32, 2),
            ("add.f32 %f1, %f2, %f3;", Class::F32, 1),
            ("@%p1 mul.rn.f64 %fd1, %fd2, %fd3;", Class::F64, 1),
            ("fma.rn.f16x2 %r1, %r2, %r3, %r4;", Class::F16, 4),
            ("{add.bf16 %h1, %h2, %h3;", Class::F16, 1),
            ("@!%p2\tdiv.approx.f32 %f1, %f2, %f3;", Class::F32, 0),
            ("ex2.approx.ftz.f32 %f1, %f2;", Class::F32, 0),
            ("setp.lt.f32 %p1, %f1, %f2;", Class::F32, 0),
            ("mad.lo.s32 %r1, %r2, %r3, %r4;", Class::Integer, 0),
            ("@ !%p2 and.b32 %r1, %r2, %r3;", Class::Integer, 0),
            ("and.pred %p1, %p2, %p3;", Class::Other, 0),
            ("cvt.rn.f32.s32 %f1, %r1;", Class::Conversion, 0),
            ("ld.param.u64 %rd1, [a];", Class::Other, 0),
            ("ld.global.v4.f32 {%f1, %f2, %f3, %f4}, [%rd1];", Class::Memory, 0),
            ("wmma.load.a.sync.aligned.row.m16n16k16.shared.f16 {%r1}, [%r2];", Class::Memory, 0),
            ("wmma.mma.sync.aligned.row.col.m16n16k16.f32.f32 {%f1};", Class::Tensor, 256),
            ("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f1};", Class::Tensor, 128),
            ("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%fd1};", Class::Tensor, 16),
            ("mma.sync.aligned.m8n8k4.row.col.f32.f16.f16.f32 {%f1};", Class::Tensor, 64),
            ("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%r1};", Class::Tensor, 0),
            ("shfl.sync.bfly.b32 %r1|%p1, %r2, 1, 31, -1;", Class::Communication, 0),
            ("bar.sync 0;", Class::Barrier, 0),
            ("@%p1 bra $L__BB0_2;", Class::Control, 0),
            ("ret;", Class::Control, 0),
        ] {
            let at = text.find(|first| first != '{').unwrap_or(0) as u32;
            let op = Op::Map(Box::new(Map {
                f: |_, a, _, _| a,
                mode: crate::scalar::Mode::default(),
                sources: [0; 3],
                source_bytes: [4; 3],
                source_wide: [false; 3],
                d: 0,
                d_wide: false,
                sign_from: 0,
            }));
            assert_eq!(Work::of(&op, opcode(text, at)), Work { class, flops }, "{text}");
        }
    }
}
