//! The sanitiser: errors of a launch that its results may hide.
//!
//! It collects findings instead of ending the launch at the first. Impossible accesses are left out (a load gives zero),
//! everything else goes on. A sanitised launch has one worker, so that it finds the same each time.
//!
//! # Initialisation
//! A bit for each byte says whether it was ever written: in global memory for the life of an allocation, in shared memory
//! for a block, in local memory for a frame. A read of an unwritten byte is a finding, once the value is used; stored, it
//! makes the byte that it goes to unwritten ([`super::undefined`]).
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
//! Two strong accesses of threads in each other's scope never race ("morally strong"), nor do writes of the value that is already
//! there: hardware leaves one of the values. Whoever reads a block's strong store may overwrite what the block read before the barrier
//! that comes before the store, without a fence: in-place compaction with look-back orders the two by dependency, and PTX has no values
//! out of thin air. That the store does depend on the reads is not checked. What a release hands over goes no further than the scopes
//! of its fence and its write.
//!
//! # To the letter
//! A strict sanitiser takes the model at its word: a strong read that is no `.acquire` acquires at the thread's next fence only,
//! reads are handed over by fences alone, writes of equal values race, and `.volatile` orders nothing among the lanes of a warp.

mod access;
mod last;
mod meetings;
mod races;
mod shadows;

use std::collections::{BTreeMap, HashMap};

use self::access::is_swap;
pub(crate) use self::shadows::{Shadows, bits_of};
use crate::exec::state::block::Block;
use crate::exec::state::handover::{Handover, Handovers};
use crate::exec::state::launch::{At, BlockIndex, Launch};
use crate::exec::state::problem::Problem;
use crate::exec::state::scene::Scene;
use crate::exec::state::shadow::*;
use crate::exec::state::warp::{Split, Warp};
use crate::exec::watch::tmem_checks::TmemChecks;
use crate::exec::watch::touched::{TouchedBytes, TouchedMemory};
use crate::exec::watch::undefined::{Source, Undefined, Used};
use crate::exec::watch::wgmma_checks::WgmmaChecks;
use crate::fault::{ASYNCHRONOUS_COPY, Fault, FaultKind};
use crate::limits::Use;

/// Maximum number of races that may yet turn out to be the first read of a compare-and-swap loop; beyond, one is taken
/// to be that.
const MAX_DOUBTFUL: usize = 1 << 12;

/// Maximum number of such reads of one thread at one place; a spin has many.
const MAX_DOUBTFUL_READS: usize = 16;

/// Bytes of host memory of one, with its words.
const DOUBTFUL_BYTES: u64 = 512;

/// Kind of the recorded access, in words.
pub(crate) fn access_name(record: Record) -> &'static str {
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

/// Finds and collects errors of a launch.
#[derive(Debug)]
pub(crate) struct Sanitiser {
    findings: Vec<Fault>,
    /// Index of the finding of a kind, by instruction and, for a race, the other instruction.
    known: HashMap<(FaultKind, usize, Option<usize>), usize>,
    /// The warp whose turn it is, the function that it is in, and [`Split::calls`].
    turn: (BlockIndex, u32, u32),
    calls: Vec<u32>,
    /// Moments so far.
    pub(crate) now: u32,
    pub(crate) global: Shadows,
    handovers: Handovers,
    /// Whether it goes by the letter of the memory model.
    pub(crate) strict: bool,
    /// Whether some instruction of the module compares and swaps.
    swaps: bool,
    /// Races of a thread's plain read with atomics, by thread and place: none if its next access there is a compare-and-swap.
    doubtful: BTreeMap<(u32, Handover), Vec<Met>>,
    /// Undefined values in registers.
    pub(crate) undefined: Undefined,
    /// Registers of warps that execute `wgmma`.
    pub(crate) wgmma: WgmmaChecks,
    /// Tensor memory of blocks.
    pub(crate) tmem: TmemChecks,
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
        let code = &launch.program.code;
        Self {
            findings: Vec::new(),
            known: HashMap::new(),
            turn: Default::default(),
            calls: Vec::new(),
            now: 1,
            global: Shadows::default(),
            handovers: Handovers::new(launch.max_begun() * u64::from(launch.threads())),
            strict: launch.strict,
            swaps: code.iter().any(|inst| is_swap(&inst.op)),
            doubtful: BTreeMap::new(),
            undefined: Undefined::default(),
            wgmma: WgmmaChecks::new(code),
            tmem: TmemChecks::new(code),
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

    /// Called when lanes of a warp take their turn, or have entered or left a function.
    pub(crate) fn enters(&mut self, block: &Block, warp: &Warp, split: &Split) {
        self.turn = (block.index, warp.number, split.frame.function);
        self.calls.clear();
        if !split.callers.is_empty() {
            self.calls = split.calls();
        }
    }

    /// Records a problem of the lanes of a warp. Each line is kept once for each kind, and counted.
    pub(crate) fn report(&mut self, at: At<'_>, mut problem: Problem) {
        let count = u64::from(problem.lanes.count_ones());
        let key = (problem.kind, at.pc, problem.other.map(|other| other.pc));
        let known = match self.known.get(&key) {
            Some(known) => *known,
            None => {
                // A finding with its place and notes; where there is no room for it the launch is about to end.
                let _ = at.launch.account.take(Use::Records, 1024);
                let (block, warp, function) = self.turn;
                let function = &at.launch.program.functions[function as usize];
                if (block, warp) == (at.block, at.warp) && (function.start..function.end).contains(&(at.pc as u32)) {
                    problem.calls.clone_from(&self.calls);
                }
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

    /// Called when a warp is about to execute an instruction.
    #[inline(always)]
    pub(crate) fn issue(&mut self, scene: &Scene<'_, '_>) {
        if !self.undefined.is_empty() {
            self.follow(scene);
        }
        if self.wgmma.is_on {
            self.follow_wgmma(scene);
        }
        if self.tmem.is_on {
            self.follow_tmem(scene);
        }
    }

    /// Reports undefined values that the instruction uses.
    #[inline(never)]
    fn follow(&mut self, scene: &Scene<'_, '_>) {
        for Used { source, lanes, by, count } in self.undefined.follow(scene) {
            let use_note = || {
                let At { launch, block, warp, pc } = scene.at();
                launch.whereabouts(pc, block, warp, by, "uses the value")
            };
            match source {
                Source::Memory(fault) => self.report_read(&fault, count, use_note),
                Source::Instruction { pc, problem } => {
                    let kind = problem.kind;
                    if let Some(&known) = self.known.get(&(kind, pc, None)) {
                        self.findings[known].count += count;
                        continue;
                    }
                    let mut problem = Problem::clone(&problem);
                    if problem.lanes.trailing_zeros() != lanes.trailing_zeros() {
                        problem.notes.clear(); // they are about another thread
                        problem.address = None;
                    }
                    problem.notes.push(use_note());
                    problem.lanes = lanes;
                    self.report(At { pc, ..scene.at() }, problem);
                    if let Some(&known) = self.known.get(&(kind, pc, None)) {
                        self.findings[known].count += count - u64::from(lanes.count_ones());
                    }
                }
            }
        }
    }

    /// Reports the use of values that were read before they were stored.
    fn report_read(&mut self, read: &Fault, count: u64, use_note: impl FnOnce() -> String) {
        let known = read.line_in(&self.findings).unwrap_or_else(|| {
            let mut finding = Fault { count: 0, ..read.clone() };
            finding.notes.push(use_note());
            self.collect(finding)
        });
        self.findings[known].count += count;
    }
}
