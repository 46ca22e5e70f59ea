//! Running a kernel: blocks over the host's cores, warps of a block in turn, lanes of a warp together.
//!
//! A block is run by one host thread at a time, so its shared memory needs no locks and its order is always the same.
//! Blocks take turns too: one that has run long without ending goes to the back of the queue, so that blocks which wait
//! for each other through global memory all move, whatever the number of cores.

mod access;
mod builtin;
pub(crate) mod debugger;
pub(crate) mod heap;
pub(crate) mod lanes;
mod monitor;
mod printf;
pub(crate) mod profiler;
pub(crate) mod sanitise;
mod together;
mod touches;
pub(crate) mod tracer;
pub(crate) mod warp;

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::fault::{Fault, FaultKind, OtherAccess};
use crate::ir::{CLUSTER_BARRIER, ConstantValue, KernelPart, Program};
use crate::memory::{Snapshot, plural};
use crate::trace::Site;
pub(crate) use monitor::{Monitor, Plain, Scene, Watch};
use sanitise::BlockShadow;
use warp::Warp;

/// Warp instructions after which a warp lets the next one run.
const WARP_QUANTUM: u32 = 1 << 11;
/// Warp instructions after which lanes that a branch parted from others let those run: one side may be spinning until the
/// other gives up a lock.
const SPLIT_QUANTUM: u32 = 1 << 7;
/// Turns of all its warps after which a block lets others run.
const BLOCK_QUANTUM: u32 = 64;
/// Blocks that may have begun and not ended; hardware has a limit too. More would cost memory without end.
const MAX_BEGUN: usize = 1024;
/// All barriers of a block.
const BARRIERS: usize = CLUSTER_BARRIER as usize + 1;

/// A kernel with everything a launch fixes.
pub(crate) struct Launch<'a> {
    pub program: &'a Program,
    pub kernel: &'a KernelPart,
    pub grid: [u32; 3],
    pub block: [u32; 3],
    pub dynamic_shared: u32,
    pub params: Vec<u8>,
    pub memory: Arc<Snapshot>,
    /// What kernels allocate while they run.
    pub heap: heap::LaunchHeap<'a>,
    /// Addresses of the module's variables.
    pub globals: &'a [u64],
    /// The PTX text and the name of its file, for faults.
    pub source: &'a str,
    pub file: &'a str,
    pub budget: u64,
    /// A sanitiser watches: shared variables stand apart, and what is written is kept track of.
    pub sanitised: bool,
    /// What kernels print.
    pub output: &'a Mutex<String>,
    pub started: std::time::Instant,
}

/// What a launch counted.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    pub warp_instructions: u64,
    pub lane_instructions: u64,
}

impl Launch<'_> {
    pub(crate) fn threads(&self) -> u32 {
        self.block.iter().product()
    }

    pub(crate) fn shared_bytes(&self) -> u32 {
        self.kernel.info.static_shared.next_multiple_of(16) + self.red_zones() + self.dynamic_shared
    }

    /// Bytes of all red zones between shared variables together.
    fn red_zones(&self) -> u32 {
        if self.sanitised { self.kernel.static_variables.len() as u32 * sanitise::RED_ZONE } else { 0 }
    }

    /// Where a shared variable stands in this launch that begins at `offset` in the kernel's layout.
    pub(crate) fn shared_offset(&self, offset: u32) -> u32 {
        if !self.sanitised {
            return offset;
        }
        let statics = &self.kernel.static_variables;
        let before = statics.partition_point(|variable| variable.offset + variable.bytes <= offset);
        offset + before as u32 * sanitise::RED_ZONE
    }

    /// The value of a constant row.
    pub(crate) fn constant(&self, value: ConstantValue) -> u64 {
        match value {
            ConstantValue::Bits(bits) => bits,
            ConstantValue::Global(index, offset) => self.globals[index as usize].wrapping_add(offset as u64),
            ConstantValue::Shared(index, offset) => {
                let at = self.kernel.shared.get(&index).copied().unwrap_or(0);
                u64::from(self.shared_offset(at)).wrapping_add(offset as u64)
            }
        }
    }

    /// Says what is wrong with a block index or a warp's number.
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

    /// Block number in launch order to `blockIdx`.
    fn block_index(&self, number: u64) -> [u32; 3] {
        let [x, y, _] = self.grid.map(u64::from);
        [(number % x) as u32, (number / x % y) as u32, (number / (x * y)) as u32]
    }

    /// Where an instruction is from.
    pub(crate) fn site(&self, pc: usize) -> Site {
        let place = self.program.places.get(pc).copied().unwrap_or_default();
        let path = |number: u64| {
            let found = self.program.files.iter().find(|(index, _)| *index == number);
            found.map(|(_, path)| path.clone())
        };
        let mut inlined_from = None;
        let mut file = place.loc.and_then(|loc| path(loc.file));
        let mut at = place.loc.map(|loc| (loc.line, loc.column));
        // A line of a header that was inlined says little: show the line that called it.
        if let Some((number, line, column)) = place.loc.and_then(|loc| loc.inlined_at)
            && let Some(caller) = path(number)
        {
            if let (Some(inner), Some((inner_line, _))) = (file, at) {
                inlined_from = Some((inner, inner_line));
            }
            file = Some(caller);
            at = Some((line, column));
        }
        // An instruction may take several lines: up to its semicolon.
        let text = self.source.get(place.ptx_at as usize..).filter(|_| place.ptx_line != 0).unwrap_or_default();
        let instruction = text.find(';').map_or(text, |end| &text[..=end]);
        Site {
            line: file.as_ref().and(at).map(|(line, _)| line),
            column: file.as_ref().and(at).map_or(0, |(_, column)| column),
            file,
            inlined_from,
            ptx_line: place.ptx_line,
            instruction: instruction.split_whitespace().collect::<Vec<_>>().join(" "),
            text: None,
        }
    }

    /// The fault of `lanes` of a warp at `pc`.
    pub(crate) fn fault(&self, problem: Problem, pc: usize, block: [u32; 3], warp: u32) -> Fault {
        let site = self.site(pc);
        let mut notes = problem.notes;
        if let Some((file, line)) = site.inlined_from {
            notes.push(format!("inlined from {file}:{line}"));
        }
        let lane = problem.lanes.trailing_zeros().min(31);
        Fault {
            kind: problem.kind,
            message: problem.message,
            kernel: self.kernel.info.name.clone(),
            line: site.line,
            column: site.column,
            file: site.file,
            ptx: (self.file.to_owned(), site.ptx_line),
            instruction: site.instruction,
            block,
            thread: self.thread_index(warp * 32 + lane),
            threads: problem.lanes.count_ones(),
            address: problem.address,
            notes,
            other: problem.other.map(|other| Box::new(self.other(other))),
            count: u64::from(problem.lanes.count_ones()),
        }
    }

    /// The other access of a race.
    fn other(&self, other: sanitise::Earlier) -> OtherAccess {
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
            thread: place.thread,
        }
    }

    /// In words, where the first of `lanes` is: "thread (0, 0, 0) waits at reduce.cu:12".
    pub(crate) fn whereabouts(&self, pc: usize, block: [u32; 3], warp: u32, lanes: u32, verb: &str) -> String {
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
            .map(|variable| (source_name(&variable.name), self.shared_offset(variable.offset), variable.bytes));
        let dynamic = self.shared_bytes() - self.dynamic_shared;
        let dynamic = ("dynamic shared memory", dynamic, self.dynamic_shared);
        variables.chain((self.dynamic_shared != 0).then_some(dynamic))
    }

    /// How an offset lies to the variables of shared memory, in words.
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

    /// Thread number in the block to `threadIdx`.
    pub(crate) fn thread_index(&self, number: u32) -> [u32; 3] {
        let [x, y, _] = self.block;
        [number % x, number / x % y, number / (x * y)]
    }
}

/// The name that a variable of a function has in CUDA C++: `tile` for `_ZZ6reduceE4tile`.
fn source_name(name: &str) -> &str {
    let digits = |at: usize| name[..at].bytes().rev().take_while(u8::is_ascii_digit).count();
    let names = |at: &usize| {
        let count = digits(*at);
        (1..=count).any(|count| name[at - count..*at].parse() == Ok(name.len() - at))
    };
    let found = name.starts_with("_ZZ").then(|| (1..name.len()).find(names)).flatten();
    found.map_or(name, |at| &name[at..])
}

/// What went wrong in a warp, before it is known where that is.
#[derive(Debug)]
pub(crate) struct Problem {
    pub kind: FaultKind,
    pub message: String,
    pub lanes: u32,
    pub address: Option<u64>,
    pub notes: Vec<String>,
    /// The other access of a race.
    pub other: Option<sanitise::Earlier>,
}

impl Problem {
    pub(crate) fn new(kind: FaultKind, lanes: u32, message: impl Into<String>) -> Box<Self> {
        Box::new(Self { kind, message: message.into(), lanes, address: None, notes: Vec::new(), other: None })
    }

    pub(crate) fn note(mut self: Box<Self>, note: impl Into<String>) -> Box<Self> {
        self.notes.push(note.into());
        self
    }

    pub(crate) fn at(mut self: Box<Self>, address: u64) -> Box<Self> {
        self.address = Some(address);
        self
    }
}

/// A numbered barrier of a block.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct BarrierState {
    /// Threads that have come, those that only arrived included.
    pub arrived: u32,
    /// Threads that are expected; 0 stands for all live threads of the block.
    pub expected: u32,
    /// Predicates of `.red`: true ones.
    pub trues: u32,
    /// Threads whose predicate was asked for.
    pub voters: u32,
}

/// A block that is being run.
pub(crate) struct Block {
    pub number: u64,
    pub index: [u32; 3],
    /// Shared memory, in words for its alignment.
    pub shared: Vec<u128>,
    /// Its size in bytes.
    pub shared_bytes: u64,
    pub warps: Vec<Warp>,
    pub barriers: [BarrierState; BARRIERS],
    /// Threads that have not exited.
    pub live: u32,
    /// A thread exited or came to a barrier since completion was last looked for.
    pub barriers_touched: bool,
    pub counts: Counts,
    /// What a sanitiser knows of the block.
    pub shadow: Option<Box<BlockShadow>>,
}

enum Outcome {
    Done,
    /// The block used up its turns; more than one block may be waiting for another.
    Yielded,
}

impl Block {
    fn new() -> Self {
        Self {
            number: 0,
            index: [0; 3],
            shared: Vec::new(),
            shared_bytes: 0,
            warps: Vec::new(),
            barriers: Default::default(),
            live: 0,
            barriers_touched: false,
            counts: Counts::default(),
            shadow: None,
        }
    }

    /// Makes this the block of that number, about to begin.
    fn reset(&mut self, launch: &Launch<'_>, number: u64) {
        self.number = number;
        self.index = launch.block_index(number);
        self.shared_bytes = launch.shared_bytes().into();
        self.shared.clear();
        self.shared.resize((launch.shared_bytes() as usize).div_ceil(16), 0);
        let threads = launch.threads();
        self.warps.resize_with(threads.div_ceil(32) as usize, Warp::default);
        for (number, warp) in self.warps.iter_mut().enumerate() {
            let lanes = (threads - number as u32 * 32).min(32);
            warp.reset(launch, number as u32, lanes);
        }
        self.barriers = Default::default();
        self.live = threads;
        self.counts = Counts::default();
        if launch.sanitised {
            self.shadow.get_or_insert_default().reset(launch, number);
        }
    }

    /// Gives each warp a turn, over and over, until all are done or the block's turns are used up.
    fn run<M: Monitor>(
        &mut self,
        launch: &Launch<'_>,
        spent: &AtomicU64,
        monitor: &mut M,
    ) -> Result<Outcome, Box<Fault>> {
        for _ in 0..BLOCK_QUANTUM {
            let before = self.counts.warp_instructions;
            let mut done = true;
            let mut moved = false;
            for number in 0..self.warps.len() {
                let mut warps = std::mem::take(&mut self.warps);
                let result = warp::run(&mut warps[number], self, launch, monitor);
                done &= warps[number].is_done();
                self.warps = warps;
                moved |= result?;
                if self.barriers_touched {
                    self.barriers_touched = false;
                    moved |= self.complete_barriers(launch, monitor);
                }
            }
            let used = self.counts.warp_instructions - before;
            let total = spent.fetch_add(used, Ordering::Relaxed) + used;
            if done {
                return Ok(Outcome::Done);
            }
            if !moved {
                return Err(self.deadlock(launch));
            }
            if total > launch.budget {
                return Err(self.over_budget(launch));
            }
        }
        Ok(Outcome::Yielded)
    }

    /// Lets go the warps whose barrier is full; says whether there was one.
    fn complete_barriers<M: Monitor>(&mut self, launch: &Launch<'_>, monitor: &mut M) -> bool {
        let mut any = false;
        for id in 0..BARRIERS {
            let barrier = self.barriers[id];
            let expected = if barrier.expected == 0 { self.live } else { barrier.expected };
            if barrier.arrived == 0 || barrier.arrived < expected {
                continue;
            }
            any = true;
            self.barriers[id] = BarrierState::default();
            let mut warps = std::mem::take(&mut self.warps);
            for warp in &mut warps {
                let released = warp.release(launch, id as u32, barrier);
                if released != 0 {
                    monitor.released(self, warp.number, released, id as u32);
                }
                if released != 0
                    && let Some(sanitiser) = monitor.sanitiser()
                {
                    sanitiser.released(self, warp.number, released, id as u32, barrier.expected == 0);
                }
            }
            self.warps = warps;
            if let Some(sanitiser) = monitor.sanitiser() {
                sanitiser.completed(self, id as u32, barrier.expected == 0);
            }
        }
        any
    }

    /// Nothing can move: somebody waits for a barrier that others never reach.
    fn deadlock(&self, launch: &Launch<'_>) -> Box<Fault> {
        let waiting = self.warps.iter().find_map(|warp| Some((warp, warp.waiting()?)));
        let Some((warp, waiting)) = waiting else {
            let problem = Problem::new(FaultKind::BarrierDivergence, 1, "the block cannot go on");
            return Box::new(launch.fault(*problem, 0, self.index, 0));
        };
        let mut problem = match waiting.barrier {
            Some(id) => {
                let barrier = self.barriers[id as usize];
                let expected = if barrier.expected == 0 { self.live } else { barrier.expected };
                let message = format!(
                    "barrier {id} is reached by {} of {expected} threads, and the others never come",
                    barrier.arrived
                );
                let threads = launch.threads();
                let mut problem = Problem::new(FaultKind::BarrierDivergence, waiting.lanes, message);
                if self.live < threads {
                    problem =
                        problem.note(format!("{} of {threads} threads of the block have exited", threads - self.live));
                }
                problem
            }
            None => {
                let missing = waiting.members & !waiting.lanes;
                let message =
                    format!("a warp-level instruction names lanes that never reach it (mask {missing:#010x})");
                Problem::new(FaultKind::InvalidMask, waiting.lanes, message)
            }
        };
        // Where one of the others is.
        for other in &self.warps {
            if let Some((pc, lanes)) = other.elsewhere(waiting.pc) {
                problem = problem.note(launch.whereabouts(pc, self.index, other.number, lanes, "waits"));
                break;
            }
        }
        Box::new(launch.fault(*problem, waiting.pc, self.index, warp.number))
    }

    fn over_budget(&self, launch: &Launch<'_>) -> Box<Fault> {
        let (warp, pc, lanes) = self
            .warps
            .iter()
            .find_map(|warp| warp.position().map(|(pc, lanes)| (warp.number, pc, lanes)))
            .unwrap_or((0, 0, 1));
        let message = format!("more than {} warp instructions were executed", launch.budget);
        Box::new(launch.fault(*Problem::new(FaultKind::Budget, lanes, message), pc, self.index, warp))
    }
}

/// Blocks that still have to run.
struct Queue {
    /// The next fresh block; changed under the lock of `begun`.
    next: AtomicU64,
    total: u64,
    /// Blocks that had a turn and are not done.
    begun: Mutex<VecDeque<Block>>,
    /// The lowest block that is known to be at fault: those below it still run, so that the same one is reported each time.
    faulty: AtomicU64,
    spent: AtomicU64,
    /// The fault of the lowest block.
    fault: Mutex<Option<(u64, Box<Fault>)>>,
    counts: Mutex<Counts>,
}

impl Queue {
    /// The next block to run: a fresh one, unless too many have begun.
    fn take(&self, launch: &Launch<'_>, spare: &mut Option<Block>) -> Option<Block> {
        let mut begun = lock(&self.begun);
        if begun.len() < MAX_BEGUN {
            let number = self.next.load(Ordering::Relaxed);
            if number < self.total.min(self.faulty.load(Ordering::Relaxed)) {
                self.next.store(number + 1, Ordering::Relaxed);
                drop(begun);
                let mut block = spare.take().unwrap_or_else(Block::new);
                block.reset(launch, number);
                return Some(block);
            }
        }
        begun.pop_front()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs all blocks of a launch, each worker with a monitor of its own, and returns those with the counts and the fault
/// that ended it, if one did.
pub(crate) fn run<M: Monitor>(
    launch: &Launch<'_>,
    workers: usize,
    monitor: impl Fn() -> M + Sync,
) -> (Counts, Vec<M>, Option<Box<Fault>>) {
    let total = launch.grid.iter().map(|extent| u64::from(*extent)).product();
    let queue = Queue {
        next: AtomicU64::new(0),
        total,
        begun: Mutex::new(VecDeque::new()),
        faulty: AtomicU64::new(u64::MAX),
        spent: AtomicU64::new(0),
        fault: Mutex::new(None),
        counts: Mutex::new(Counts::default()),
    };
    let workers = workers.min(usize::try_from(total).unwrap_or(usize::MAX));
    let monitors = Mutex::new(Vec::new());
    let work = || {
        let mut monitor = monitor();
        work(launch, &queue, &mut monitor);
        lock(&monitors).push(monitor);
    };
    if workers <= 1 {
        work();
    } else {
        rayon::scope(|scope| {
            for _ in 0..workers {
                scope.spawn(|_| work());
            }
        });
    }
    let fault = lock(&queue.fault).take().map(|(_, fault)| fault);
    let monitors = monitors.into_inner().unwrap_or_else(PoisonError::into_inner);
    (*lock(&queue.counts), monitors, fault)
}

/// One worker: fresh blocks first, then those that had a turn.
fn work<M: Monitor>(launch: &Launch<'_>, queue: &Queue, monitor: &mut M) {
    let mut spare = Some(Block::new());
    let mut counts = Counts::default();
    while let Some(mut block) = queue.take(launch, &mut spare) {
        if block.number > queue.faulty.load(Ordering::Relaxed) {
            continue;
        }
        match block.run(launch, &queue.spent, monitor) {
            Ok(Outcome::Done) => {
                counts.warp_instructions += block.counts.warp_instructions;
                counts.lane_instructions += block.counts.lane_instructions;
                spare = Some(block);
            }
            Ok(Outcome::Yielded) => lock(&queue.begun).push_back(block),
            Err(fault) => {
                if let Some(sanitiser) = monitor.sanitiser() {
                    // This block is over. The others go on, unless the launch has run too long.
                    let over = fault.kind == FaultKind::Budget;
                    sanitiser.collect(*fault);
                    if over {
                        break;
                    }
                    spare = Some(block);
                    continue;
                }
                let mut first = lock(&queue.fault);
                if first.as_ref().is_none_or(|(number, _)| block.number < *number) {
                    *first = Some((block.number, fault));
                }
                queue.faulty.fetch_min(block.number, Ordering::Relaxed);
            }
        }
    }
    let mut sum = lock(&queue.counts);
    sum.warp_instructions += counts.warp_instructions;
    sum.lane_instructions += counts.lane_instructions;
}
