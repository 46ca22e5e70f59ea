//! A launch: the kernel with everything that is the same for all its blocks, and the names of its places.

use std::collections::hash_map::Entry;
use std::collections::{BTreeSet, HashMap};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use super::asynchrony::Asynchrony;
use super::problem::{Earlier, Problem};
use super::tensor_memory::SharedColumns;
use crate::ast::Loc;
use crate::fault::{Fault, FaultKind, OtherAccess};
use crate::ir::{CLUSTER_RANK, CodePlace, ConstantValue, KernelPart, Program};
use crate::limits::{Account, Reached};
use crate::memory::{Allocation, DevicePtr, Heap, Snapshot, plural};
use crate::names::variable_name;
use crate::texture::Objects;
use crate::trace::Site;

/// Bytes between shared variables of a sanitised launch. A multiple of 1024, so that every variable keeps its banks and its
/// alignment: wgmma's tiles need no more than that.
pub(crate) const RED_ZONE: u32 = 1024;

/// Maximum number of blocks that have begun and not ended; hardware has a limit too. More would cost unbounded memory.
const MAX_BEGUN: u64 = 1024;

/// Multiprocessors of a device, which a cooperative launch may fill.
pub(crate) const MULTIPROCESSORS: u64 = 132;

/// Bytes of a fresh block that cost as much as an instruction.
const BYTES_AN_INSTRUCTION: u64 = 4096;

/// Maximum number of nested calls that a report names.
const MAX_LINES: usize = 32;

/// Bytes of a row of registers with the sanitiser's state of it.
pub(crate) const ROW_BYTES: u64 = 129;

/// A kernel with the settings of a launch.
pub(crate) struct Launch<'a> {
    pub program: &'a Program,
    pub kernel: &'a KernelPart,
    pub grid: [u32; 3],
    pub block: [u32; 3],
    /// The grids that run together, one per device; all have the same shape. Nearly always one.
    pub members: Vec<Member<'a>>,
    /// Blocks of a cluster along each axis; the grid's extents are multiples of them.
    pub cluster: [u32; 3],
    /// Whether the launch or the kernel asks for clusters, even of one block.
    pub explicit_cluster: bool,
    pub dynamic_shared: u32,
    pub memory: Arc<Snapshot>,
    /// Heap for allocations of running kernels.
    pub heap: LaunchHeap<'a>,
    /// Textures and surfaces.
    pub objects: Arc<Objects>,
    /// The PTX text, and the name of each of its files with the byte at which it begins, for faults.
    pub source: &'a str,
    pub files: &'a [(String, usize)],
    pub budget: u64,
    /// Whether a sanitiser watches: shared variables stand apart, and writes are tracked.
    pub sanitised: bool,
    /// Bytes of each thread's stack that recursive calls may take, and whether that is the driver's default.
    pub stack: Option<u32>,
    pub default_stack: bool,
    /// Whether it goes by the letter of the memory model.
    pub strict: bool,
    /// Whether the sanitiser also records which bytes are accessed.
    pub touches: bool,
    /// Work before the launch that is not ordered before all of its devices.
    pub earlier: &'a [EarlierWork],
    pub asynchrony: Asynchrony,
    /// Output of kernels.
    pub output: &'a Mutex<String>,
    pub started: std::time::Instant,
    /// Account of the host memory that the launch takes.
    pub account: Account<'a>,
    pub loose: LooseJoins,
    pub fresh: Fresh,
    /// Tensor memory of the SMs.
    pub columns: Mutex<SharedColumns>,
    /// Launches of the device, of which host threads may make several at a time.
    pub launches: &'a Launches,
}

/// Clusters of a launch that have not begun, by their numbers: those before have, and those behind were cancelled.
#[derive(Debug, Default)]
pub(crate) struct Fresh(Mutex<Range<u64>>);

impl Fresh {
    /// Sets them, before the first begins.
    pub(crate) fn fill(&self, clusters: u64) {
        *lock(&self.0) = 0..clusters;
    }

    pub(crate) fn get(&self) -> Range<u64> {
        lock(&self.0).clone()
    }

    /// Takes the first, which begins, unless it is `end` or one behind.
    pub(crate) fn take(&self, end: u64) -> Option<u64> {
        let mut all = lock(&self.0);
        if all.start < end { all.next() } else { None }
    }

    /// Takes one that does not begin any more: the last, which no kernel expects. So that it is not one cluster that does all, the second
    /// begins in any case.
    pub(crate) fn cancel(&self) -> Option<u64> {
        let mut all = lock(&self.0);
        if all.end > 2 { all.next_back() } else { None }
    }
}

/// Launches of a device.
#[derive(Debug, Default)]
pub(crate) struct Launches {
    begun: AtomicU64,
    ended: AtomicU64,
}

impl Launches {
    /// Counts a launch until the result is dropped.
    pub(crate) fn begin(&self) -> Running<'_> {
        self.begun.fetch_add(1, Ordering::SeqCst);
        Running(self)
    }

    /// The number of launches so far; `None` while there is another than the one that asks, which may write its memory.
    pub(crate) fn alone(&self) -> Option<u64> {
        let begun = self.begun.load(Ordering::SeqCst);
        (begun == self.ended.load(Ordering::SeqCst) + 1).then_some(begun)
    }
}

/// A launch that has not ended.
pub(crate) struct Running<'a>(&'a Launches);

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.ended.fetch_add(1, Ordering::SeqCst);
    }
}

/// Joins that lanes no longer wait at, since what the others need to come was theirs to do.
#[derive(Debug, Default)]
pub(crate) struct LooseJoins {
    any: AtomicBool,
    all: Mutex<BTreeSet<u32>>,
}

/// Work before a joint launch that is ordered before some of the launch's devices and not before others: the others have to learn
/// of it in the launch, from a device that knows it, before they touch the same bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EarlierWork {
    /// The work, with a verb: ``kernel `fill` on stream 1 writes``.
    pub what: String,
    /// Start of the allocation.
    pub pointer: DevicePtr,
    /// Byte range, relative to `pointer`.
    pub bytes: Range<u64>,
    /// Whether it writes.
    pub writes: bool,
    /// For each of the launch's devices in order, whether the work is ordered before it.
    pub known_to: Vec<bool>,
}

/// State that each grid of a joint launch has of its own.
pub(crate) struct Member<'a> {
    pub params: Vec<u8>,
    /// Addresses of the module's variables.
    pub globals: &'a [u64],
    /// Address of the grid's barrier; 0 if the launch is not cooperative.
    pub workspace: u64,
}

/// `blockIdx`, and the member of a joint launch that has that grid.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct BlockIndex {
    pub at: [u32; 3],
    pub device: u32,
}

/// Counts of one launch.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    pub warp_instructions: u64,
    pub lane_instructions: u64,
    /// Instructions of the warp that executed most.
    pub longest_warp: u64,
    /// Bytes of a thread's stack that recursive calls took at most.
    pub stack_bytes: u32,
}

impl std::ops::AddAssign for Counts {
    fn add_assign(&mut self, more: Self) {
        self.warp_instructions += more.warp_instructions;
        self.lane_instructions += more.lane_instructions;
        self.longest_warp = self.longest_warp.max(more.longest_warp);
        self.stack_bytes = self.stack_bytes.max(more.stack_bytes);
    }
}

impl Launch<'_> {
    /// Records that lanes are not to wait at the join at `pc` any more.
    pub(crate) fn loosen(&self, pc: u32) {
        lock(&self.loose.all).insert(pc);
        self.loose.any.store(true, Ordering::Relaxed);
    }

    /// Whether lanes do not wait at the join at `pc`.
    #[inline]
    pub(crate) fn is_loose(&self, pc: usize) -> bool {
        self.loose.any.load(Ordering::Relaxed) && lock(&self.loose.all).contains(&(pc as u32))
    }

    pub(crate) fn threads(&self) -> u32 {
        self.block.iter().product()
    }

    /// Registers of each thread of a kernel that says so, rounded up as hardware does.
    pub(crate) fn registers(&self) -> Option<u32> {
        self.kernel.info.max_registers.map(|count| count.min(256).next_multiple_of(8))
    }

    pub(crate) fn shared_bytes(&self) -> u32 {
        self.kernel.dynamic_base + self.red_zones() + self.dynamic_shared
    }

    /// Bytes of all red zones between shared variables together.
    fn red_zones(&self) -> u32 {
        if self.sanitised { self.kernel.static_variables.len() as u32 * RED_ZONE } else { 0 }
    }

    /// Offset in this launch of a shared variable that begins at `offset` in the kernel's layout.
    pub(crate) fn shared_offset(&self, offset: u32) -> u32 {
        if !self.sanitised {
            return offset;
        }
        let statics = &self.kernel.static_variables;
        let before = statics.partition_point(|variable| variable.offset + variable.bytes <= offset);
        offset + before as u32 * RED_ZONE
    }

    /// The member of that number.
    #[inline(always)]
    pub(crate) fn member(&self, device: u32) -> &Member<'_> {
        &self.members[device as usize]
    }

    /// Whether several devices run it together.
    pub(crate) fn is_joint(&self) -> bool {
        self.members.len() > 1
    }

    /// The device that a report names; none unless there are several.
    pub(crate) fn device_of(&self, block: BlockIndex) -> Option<u32> {
        self.is_joint().then_some(block.device)
    }

    /// Number of a warp's first thread in the launch.
    pub(crate) fn first_thread(&self, block: u64, warp: u32) -> u64 {
        block * u64::from(self.threads()) + u64::from(warp) * 32
    }

    /// The blocks of a device, by their numbers.
    pub(crate) fn blocks_of(&self, device: u32) -> Range<u64> {
        let blocks = self.blocks_of_grid();
        u64::from(device) * blocks..u64::from(device + 1) * blocks
    }

    /// The device of a block, by its number.
    pub(crate) fn device_of_number(&self, block: u64) -> u32 {
        (block / self.blocks_of_grid()) as u32
    }

    /// The value of a constant row on a device, in a block whose shared memory has that code.
    pub(crate) fn constant(&self, device: u32, own_code: u64, value: ConstantValue) -> u64 {
        match value {
            ConstantValue::Bits(bits) => bits,
            ConstantValue::Global(index, offset) => {
                self.member(device).globals[index as usize].wrapping_add(offset as u64)
            }
            ConstantValue::Shared(index, offset) => {
                let at = self.kernel.shared.get(&index).copied().unwrap_or(0);
                u64::from(self.shared_offset(at)).wrapping_add(offset as u64) | own_code << CLUSTER_RANK
            }
        }
    }

    /// Describes an invalid block index or warp number.
    pub(crate) fn check_place(&self, block: [u32; 3], warp: Option<u32>) -> Result<(), String> {
        let warps = self.threads().div_ceil(32);
        if block.iter().zip(self.grid).any(|(index, extent)| *index >= extent) {
            let ([x, y, z], [gx, gy, gz]) = (block, self.grid);
            return Err(format!("there is no block ({x}, {y}, {z}) in a grid of {gx} × {gy} × {gz} blocks"));
        }
        match warp {
            Some(warp) if warp >= warps => {
                let threads = self.threads();
                Err(format!(
                    "there is no warp {warp} in a block of {threads} threads, which has {}",
                    match warps {
                        1 => "warp 0 only".to_owned(),
                        _ => format!("warps 0 to {}", warps - 1),
                    }
                ))
            }
            _ => Ok(()),
        }
    }

    /// Blocks of one grid.
    fn blocks_of_grid(&self) -> u64 {
        self.grid.iter().map(|extent| u64::from(*extent)).product()
    }

    /// Blocks of all grids.
    pub(crate) fn blocks(&self) -> u64 {
        self.blocks_of_grid() * self.members.len() as u64
    }

    /// Whether blocks may wait for each other by the barrier of the grid.
    pub(crate) fn cooperative(&self) -> bool {
        self.members[0].workspace != 0
    }

    /// Maximum number of blocks that have begun and not ended. All blocks of a cooperative launch begin: that they fit the
    /// device has been checked.
    pub(crate) fn max_begun(&self) -> u64 {
        if self.cooperative() { self.blocks() } else { self.blocks().min(MAX_BEGUN) }
    }

    /// The SM of a block, by its number, where all blocks are there at once: they are dealt to the SMs in turn.
    pub(crate) fn processor(&self, block: u64) -> Option<u64> {
        let within = block % self.blocks_of_grid() % MULTIPROCESSORS;
        let all_at_once = self.cooperative() && self.cluster_blocks() == 1;
        all_at_once.then(|| u64::from(self.device_of_number(block)) * MULTIPROCESSORS + within)
    }

    /// Clusters of all grids.
    pub(crate) fn all_clusters(&self) -> u64 {
        self.blocks() / u64::from(self.cluster_blocks())
    }

    /// Converts a block number in launch order, the grids one after the other, to `blockIdx`.
    pub(crate) fn block_index(&self, number: u64) -> BlockIndex {
        let [x, y, _] = self.grid.map(u64::from);
        let within = number % self.blocks_of_grid();
        let at = [(within % x) as u32, (within / x % y) as u32, (within / (x * y)) as u32];
        BlockIndex { at, device: self.device_of_number(number) }
    }

    /// Blocks of a cluster.
    pub(crate) fn cluster_blocks(&self) -> u32 {
        self.cluster.iter().product()
    }

    /// The grid's extents, counted in clusters.
    pub(crate) fn clusters(&self) -> [u32; 3] {
        std::array::from_fn(|axis| self.grid[axis] / self.cluster[axis])
    }

    /// The number, in launch order, of the block of rank `rank` in the cluster of that number.
    pub(crate) fn block_of_cluster(&self, cluster: u64, rank: u32) -> u64 {
        // A joint launch takes turns at its grids, so that all of them are under way.
        let devices = self.members.len() as u64;
        let (cluster, device) = (cluster / devices, cluster % devices);
        let [cx, cy, _] = self.clusters().map(u64::from);
        let [sx, sy, sz] = self.cluster.map(u64::from);
        let rank = u64::from(rank);
        let x = cluster % cx * sx + rank % sx;
        let y = cluster / cx % cy * sy + rank / sx % sy;
        let z = cluster / (cx * cy) * sz + rank / (sx * sy);
        let [gx, gy, _] = self.grid.map(u64::from);
        device * self.blocks_of_grid() + (z * gy + y) * gx + x
    }

    /// A block's index in its cluster.
    pub(crate) fn index_in_cluster(&self, block: [u32; 3]) -> [u32; 3] {
        std::array::from_fn(|axis| block[axis] % self.cluster[axis])
    }

    /// The rank in its cluster of the block with that index there.
    fn rank_of(&self, [x, y, z]: [u32; 3]) -> u32 {
        let [sx, sy, _] = self.cluster;
        (z * sy + y) * sx + x
    }

    /// The rank of a block in its cluster.
    pub(crate) fn rank(&self, block: [u32; 3]) -> u32 {
        self.rank_of(self.index_in_cluster(block))
    }

    /// The lines of an instruction: its own, the call that this was inlined for, and so on up to the kernel's. Empty where the
    /// PTX does not say.
    fn lines(&self, pc: usize) -> Vec<(&str, u32, u32)> {
        let mut lines = Vec::new();
        let Some(place) = self.program.places.get(pc) else { return lines };
        let mut next = place.loc.map(|loc| ((loc.file, loc.line, loc.column), place.call));
        while let Some(((number, line, column), call)) = next
            && lines.len() < MAX_LINES
        {
            let Some(path) = self.program.files.get(&number) else { break };
            lines.push((path.as_str(), line, column));
            let call = (call as usize).checked_sub(1).and_then(|at| self.program.inlined.get(at));
            next = call.map(|call| (call.at, call.within));
        }
        if lines.len() == 1
            && let Some(near) = self.line_before(pc)
            && let Some(path) = self.program.files.get(&near.file)
        {
            lines.push((path.as_str(), near.line, near.column));
        }
        lines
    }

    /// The last line of the function's own file before an instruction of another file: about where that was inlined, if the PTX
    /// does not say (clang's does not). The file of a function is that of its last line, which closes it.
    fn line_before(&self, pc: usize) -> Option<Loc> {
        let functions = &self.program.functions;
        let function =
            functions.get(functions.partition_point(|function| function.start as usize <= pc).checked_sub(1)?)?;
        let lines = |to: usize| {
            let places = self.program.places.get(function.start as usize..to).unwrap_or_default();
            places.iter().rev().filter_map(|place| place.loc).filter(|loc| loc.line != 0)
        };
        let own = lines(function.end as usize).next()?.file;
        let is_elsewhere = self.program.places.get(pc)?.loc?.file != own;
        lines(pc).find(|loc| is_elsewhere && loc.file == own)
    }

    /// The lines of an instruction and of the calls that led to it, by the functions they are in: innermost first, each as
    /// [`Self::lines`].
    fn chain(&self, pc: usize, calls: &[u32]) -> Vec<Vec<(&str, u32, u32)>> {
        let places = std::iter::once(pc).chain(calls.iter().map(|call| *call as usize));
        places.map(|pc| self.lines(pc)).collect()
    }

    /// Which of a chain's lines a reader looks for: the function, and the line in it. A header's line says little: it is one
    /// in the innermost function that has any in the kernel's own file. A line that was inlined says less than the one that
    /// called it, so it is the first call in that file.
    fn reader_line(chain: &[Vec<(&str, u32, u32)>]) -> (usize, usize) {
        let kernel = chain.last().and_then(|lines| lines.last()).map(|(path, ..)| *path);
        let is_own = |(path, ..): &(&str, u32, u32)| Some(*path) == kernel;
        let function = chain.iter().position(|lines| lines.iter().any(is_own)).unwrap_or(0);
        let call = chain.get(function).and_then(|lines| lines.iter().skip(1).position(is_own));
        (function, call.map_or(0, |at| at + 1))
    }

    /// The PTX file that an instruction is in.
    pub(crate) fn file_of(&self, pc: usize) -> &str {
        let at = self.program.places.get(pc).map_or(0, |place| place.ptx_at as usize);
        let file = self.files.partition_point(|(_, start)| *start <= at).saturating_sub(1);
        self.files.get(file).map_or("", |(name, _)| name)
    }

    /// Source location of an instruction.
    pub(crate) fn site(&self, pc: usize) -> Site {
        self.site_in(pc, &self.chain(pc, &[]))
    }

    fn site_in(&self, pc: usize, chain: &[Vec<(&str, u32, u32)>]) -> Site {
        let place = self.program.places.get(pc).copied().unwrap_or_default();
        let (function, at) = Self::reader_line(chain);
        let shown = chain.get(function).and_then(|lines| lines.get(at)).copied();
        let innermost = chain.first().and_then(|lines| lines.first());
        let inlined_from = innermost.filter(|_| at != 0).map(|(path, line, _)| ((*path).to_owned(), *line));
        Site {
            line: shown.map(|(_, line, _)| line),
            column: shown.map_or(0, |(.., column)| column),
            file: shown.map(|(path, ..)| path.to_owned()),
            inlined_from,
            ptx_line: place.ptx_line,
            instruction: self.instruction(&place).split_whitespace().collect::<Vec<_>>().join(" "),
            text: None,
        }
    }

    /// The text of an instruction, up to its semicolon: it may take several lines.
    fn instruction(&self, place: &CodePlace) -> &str {
        let text = self.source.get(place.ptx_at as usize..).filter(|_| place.ptx_line != 0).unwrap_or_default();
        text.find(';').map_or(text, |end| &text[..=end])
    }

    /// The opcode of an instruction, with its modifiers.
    pub(crate) fn opcode(&self, pc: usize) -> String {
        let place = self.program.places.get(pc).copied().unwrap_or_default();
        let words = self.instruction(&place).split(|c: char| c.is_whitespace() || c == ';');
        words.filter(|word| !word.is_empty() && !word.starts_with('@')).map(str::to_owned).next().unwrap_or_default()
    }

    /// A fault of the launch as a whole: at the kernel's first instruction.
    pub(crate) fn reached(&self, Reached { kind, message }: Reached) -> Box<Fault> {
        let first = self.program.functions[self.kernel.function as usize].start as usize;
        Box::new(self.fault(*Problem::new(kind, 1, message), first, BlockIndex::default(), 0))
    }

    /// The time limit, if it has been reached, as the problem of the lanes of a warp.
    #[cold]
    #[inline(never)]
    pub(crate) fn check_time(&self, lanes: u32) -> Result<(), Box<Problem>> {
        match self.account.out_of_time() {
            Some(Reached { kind, message }) => Err(Problem::new(kind, lanes, message)),
            None => Ok(()),
        }
    }

    /// Host memory that a block takes when it begins.
    pub(crate) fn block_bytes(&self) -> u64 {
        let function = &self.program.functions[self.kernel.function as usize];
        let rows = u64::from(function.rows) + 1;
        let local = u64::from(function.local_bytes) * 32 * if self.sanitised { 2 } else { 1 };
        let warp = rows * ROW_BYTES + u64::from(function.predicates) * 4 + local + 1024;
        u64::from(self.threads().div_ceil(32)) * warp + u64::from(self.shared_bytes()) + 1024
    }

    /// Cost of the beginning of a block, in instructions.
    pub(crate) fn block_cost(&self) -> u64 {
        self.block_bytes() / BYTES_AN_INSTRUCTION
    }

    /// The fault of `lanes` of a warp at `pc`.
    pub(crate) fn fault(&self, problem: Problem, pc: usize, block: BlockIndex, warp: u32) -> Fault {
        let chain = self.chain(pc, &problem.calls);
        let site = self.site_in(pc, &chain);
        let mut notes = problem.notes;
        let (function, at) = Self::reader_line(&chain);
        let shown = chain.get(function).map_or(&[][..], Vec::as_slice);
        let place = |(path, line, _): &(&str, u32, u32)| format!("{path}:{line}");
        notes.extend(shown[..at].iter().rev().map(|line| format!("inlined from {}", place(line))));
        let called = chain[..function].iter().rev().flat_map(|lines| lines.iter().rev());
        notes.extend(called.map(|line| format!("in a function called there, at {}", place(line))));
        let callers = chain.iter().skip(function + 1).flatten();
        notes.extend(shown.iter().skip(at + 1).chain(callers).map(|line| format!("called at {}", place(line))));
        notes.dedup(); // of a recursion
        let inlined = chain.iter().rev().flat_map(|lines| lines.iter().rev());
        let inlined: Vec<_> = inlined.map(|(path, line, _)| ((*path).to_owned(), *line)).collect();
        let inlined = if inlined.len() > 1 { inlined } else { Vec::new() };
        let lane = problem.lanes.trailing_zeros().min(31);
        Fault {
            kind: problem.kind,
            message: problem.message,
            kernel: self.kernel.info.name.clone(),
            line: site.line,
            column: site.column,
            file: site.file,
            ptx: (self.file_of(pc).to_owned(), site.ptx_line),
            instruction: site.instruction,
            block: block.at,
            device: self.device_of(block),
            thread: self.thread_index(warp * 32 + lane),
            threads: problem.lanes.count_ones(),
            address: problem.address,
            notes,
            inlined,
            other: problem.other.map(|other| Box::new(self.other(other))),
            count: u64::from(problem.lanes.count_ones()),
        }
    }

    /// The other access of a race.
    fn other(&self, other: Earlier) -> OtherAccess {
        let threads = u64::from(self.threads());
        let warp = (other.thread % threads / 32) as u32;
        let mut problem = Problem::new(FaultKind::SharedRace, 1 << (other.thread % threads % 32), "");
        problem.notes.clear();
        let place = self.fault(*problem, other.pc, self.block_index(other.thread / threads), warp);
        OtherAccess {
            what: other.what,
            file: place.file,
            line: place.line,
            column: place.column,
            ptx: place.ptx,
            block: place.block,
            device: place.device,
            thread: place.thread,
        }
    }

    /// Location of the first of `lanes`, in words: "thread (0, 0, 0) waits at reduce.cu:12".
    pub(crate) fn whereabouts(&self, pc: usize, block: BlockIndex, warp: u32, lanes: u32, verb: &str) -> String {
        let place = self.fault(*Problem::new(FaultKind::BarrierDivergence, lanes, ""), pc, block, warp);
        let [x, y, z] = place.thread;
        let at = match (&place.file, place.line) {
            (Some(file), Some(line)) => format!("{file}:{line}"),
            _ => format!("{}:{}", place.ptx.0, place.ptx.1),
        };
        format!("thread ({x}, {y}, {z}) {verb} at {at}")
    }

    /// Name, start and size of the variables of shared memory, in order.
    pub(crate) fn shared_variables(&self) -> impl Iterator<Item = (&str, u32, u32)> {
        let variables = self
            .kernel
            .static_variables
            .iter()
            .map(|variable| (variable_name(&variable.name), self.shared_offset(variable.offset), variable.bytes));
        let dynamic = self.shared_bytes() - self.dynamic_shared;
        let dynamic = ("dynamic shared memory", dynamic, self.dynamic_shared);
        variables.chain((self.dynamic_shared != 0).then_some(dynamic))
    }

    /// Position of an offset relative to the variables of shared memory, in words.
    pub(crate) fn describe_shared(&self, offset: u64) -> String {
        let before = self.shared_variables().map(|(name, start, bytes)| (u64::from(start), bytes, name));
        let Some((start, bytes, name)) = before.filter(|(start, ..)| *start <= offset).last() else {
            return format!("{} before the first variable", plural(offset));
        };
        let (into, bytes) = (offset - start, u64::from(bytes));
        match into {
            _ if into < bytes => format!("{} into `{name}` ({bytes} bytes of shared memory)", plural(into)),
            _ if into == bytes => format!("just past the end of `{name}` ({bytes} bytes of shared memory)"),
            _ => format!("{} past the end of `{name}` ({bytes} bytes of shared memory)", plural(into - bytes)),
        }
    }

    /// Converts a thread number in the block to `threadIdx`.
    pub(crate) fn thread_index(&self, number: u32) -> [u32; 3] {
        let [x, y, _] = self.block;
        [number % x, number / x % y, number / (x * y)]
    }
}

/// The device's heap as a launch uses it.
pub(crate) struct LaunchHeap<'a> {
    pub heap: &'a Heap,
    /// Instructions that allocated blocks.
    places: Mutex<HashMap<usize, HeapPlace>>,
}

#[derive(Clone)]
pub(crate) struct HeapPlace {
    /// Label of its blocks in diagnostics.
    pub label: Arc<str>,
    /// The finding for a block that is never freed.
    pub leak: Arc<Fault>,
}

impl<'a> LaunchHeap<'a> {
    pub(crate) fn new(heap: &'a Heap) -> Self {
        Self { heap, places: Mutex::default() }
    }

    /// The live block that holds `address`.
    #[cold]
    #[inline(never)]
    pub(crate) fn find(&self, address: u64) -> Option<Arc<Allocation>> {
        self.heap.live_block(address)
    }

    pub(crate) fn place(&self, launch: &Launch<'_>, pc: usize) -> HeapPlace {
        let mut places = lock(&self.places);
        let place = match places.entry(pc) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => {
                let leak = launch.fault(*Problem::new(FaultKind::Leak, 1, ""), pc, BlockIndex::default(), 0);
                let (file, line) = leak.place();
                new.insert(HeapPlace { label: format!("malloc at {file}:{line}").into(), leak: Arc::new(leak) })
            }
        };
        place.clone()
    }
}

/// An instruction that a warp is at.
#[derive(Clone, Copy)]
pub(crate) struct At<'l> {
    pub launch: &'l Launch<'l>,
    pub block: BlockIndex,
    /// Number of the warp in the block.
    pub warp: u32,
    pub pc: usize,
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
