//! Trace of a block, step by step: every instruction of its warps, every byte they touched, every barrier.
//! [`crate::picture`] draws it.

mod asynchronous;
mod tensor_memory;
mod tiles;

use crate::hardware::{BANKS, SECTOR, distinct, served_together};
pub use asynchronous::{AsyncEvent, AsyncStep, Grouped, Phase};
pub(crate) use tensor_memory::{TensorPart, TensorStep};
pub(crate) use tiles::{BoxChunk, BoxCopy, ProductTile, TensorShape};

/// Parts of a launch to record.
#[derive(Clone, Debug)]
pub struct TraceRequest {
    /// `blockIdx` of the block.
    pub block: [u32; 3],
    /// One of its warps; `None`: all.
    pub warp: Option<u32>,
    /// Maximum warp instructions to record; later ones are only counted ([`Trace::missed`]). A step takes some 30 bytes, an
    /// access some 800.
    pub max_steps: usize,
    /// Whether also to record each instruction's results in its registers ([`Trace::writes`]): some 300 bytes each.
    pub registers: bool,
    /// The text of the CUDA file. Without it, the file named in `.loc` is read, as for a fault.
    pub source: Option<String>,
    /// Folders whose source files may be read, besides that of the PTX.
    pub source_roots: Vec<std::path::PathBuf>,
}

impl Default for TraceRequest {
    /// All warps of the first block, 50,000 instructions, no registers.
    fn default() -> Self {
        Self { block: [0; 3], warp: None, max_steps: 50_000, registers: false, source: None, source_roots: Vec::new() }
    }
}

/// Trace of one block.
#[derive(Clone, Debug, Default)]
pub struct Trace {
    /// The kernel's name.
    pub kernel: String,
    /// `blockIdx`.
    pub block: [u32; 3],
    /// Threads of the block along x, y, z.
    pub threads: [u32; 3],
    /// The instructions that were executed, in order of their first execution.
    pub sites: Vec<Site>,
    /// Variables in the memory that was touched, in order of their spaces and addresses.
    pub variables: Vec<Variable>,
    /// Instructions of the warps, in the simulator's order: one warp at a time, up to its next wait or the end of its turn.
    pub steps: Vec<Step>,
    /// The steps' accesses to memory; parameters of the kernel do not count as memory.
    pub accesses: Vec<MemoryAccess>,
    /// Completed barriers of the block.
    pub releases: Vec<Release>,
    /// Asynchronous parts of some of the steps, in their order.
    pub asynchronous: Vec<AsyncStep>,
    /// The registers that were written, in order of their first write, if requested with [`TraceRequest::registers`].
    pub registers: Vec<TracedRegister>,
    /// Results of the steps in the registers, in order of the steps. The result of a warpgroup's product belongs to the
    /// wait for it.
    pub writes: Vec<RegisterWrite>,
    /// Number of [`Trace::steps`] whose writes are recorded: all of them, unless memory for records ran out.
    pub registers_until: usize,
    /// Warp instructions that were executed after [`TraceRequest::max_steps`]: the trace is truncated if there are any.
    pub missed: u64,
    /// Work of matrix instructions, by site.
    pub(crate) matrices: Vec<(u32, MatrixSite)>,
    /// Copies of boxes of tensors.
    pub(crate) boxes: Vec<BoxCopy>,
    /// Tiles in shared memory that products of warpgroups read.
    pub(crate) product_tiles: Vec<ProductTile>,
    /// Instructions that use tensor memory.
    pub(crate) tensor_steps: Vec<TensorStep>,
}

/// A register by its name in the PTX.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TracedRegister {
    /// Name, such as `%r5`; an element of a vector is `%v1.x`.
    pub name: String,
    /// The function that it belongs to, unless that is the kernel itself: each has its own registers.
    pub function: Option<String>,
}

/// A register's value after a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegisterWrite {
    /// Index into [`Trace::steps`].
    pub step: usize,
    /// Index into [`Trace::registers`].
    pub register: u32,
    /// Meaning of the bits for the instruction, in PTX's words: `f32`, `u64`, `pred`.
    pub ty: &'static str,
    /// The lanes that wrote it, one bit per lane.
    pub lanes: u32,
    /// The new bits of each of them, lowest lane first.
    pub bits: Box<[u64]>,
}

/// An instruction of the PTX, and its line of CUDA.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Site {
    /// CUDA source file, from `.loc`; `None` where the PTX has no line information.
    pub file: Option<String>,
    /// 1-based line of `file`: for an inlined function, the line that calls it.
    pub line: Option<u32>,
    /// 1-based column; 0 if unknown.
    pub column: u32,
    /// For an inlined function: its own file and line.
    pub inlined_from: Option<(String, u32)>,
    /// 1-based line of the PTX file.
    pub ptx_line: u32,
    /// The instruction as written in the PTX.
    pub instruction: String,
    /// The source line without surrounding blanks, if the source is known.
    pub text: Option<String>,
}

impl Site {
    /// Whether this is line `line` of the CUDA source, or of the PTX if that has no line information. An inlined function
    /// of the same file counts for its own line and for the one that calls it.
    #[must_use]
    pub fn is_at(&self, line: u32) -> bool {
        let own = self.inlined_from.as_ref().filter(|(file, _)| Some(file) == self.file.as_ref());
        self.line.unwrap_or(self.ptx_line) == line || own.is_some_and(|(_, own)| *own == line)
    }

    /// The line that a reader looks for: of the CUDA source, else of the PTX.
    #[must_use]
    pub fn shown_line(&self) -> u32 {
        self.line.unwrap_or(self.ptx_line)
    }

    /// Name of the CUDA file without its folders and the line, or the line of the PTX.
    #[must_use]
    pub fn place(&self) -> String {
        match (&self.file, self.line) {
            (Some(file), Some(line)) => format!("{}:{line}", file.rsplit(['/', '\\']).next().unwrap_or(file)),
            _ => format!("PTX line {}", self.ptx_line),
        }
    }
}

/// A state space of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Space {
    /// Memory of the device.
    Global,
    /// `__constant__` variables.
    Constant,
    /// Memory of the block; addresses count from its start.
    Shared,
    /// Memory of the thread; addresses count from its start.
    Local,
}

impl std::fmt::Display for Space {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(match self {
            Self::Global => "global",
            Self::Constant => "constant",
            Self::Shared => "shared",
            Self::Local => "local",
        })
    }
}

/// Kind of access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccessKind {
    /// A load.
    Read,
    /// A store.
    Write,
    /// Both in one access.
    Atomic,
    /// One end of an asynchronous copy: it reads if it is global and writes if it is shared.
    Copy,
    /// One end of a bulk copy, which the copy engine makes: it takes no turns of the lanes.
    Bulk,
}

impl std::fmt::Display for AccessKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Atomic => "atomic",
            Self::Copy => "copy",
            Self::Bulk => "bulk",
        })
    }
}

/// A buffer or a variable that a kernel touched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Variable {
    /// Its place.
    pub space: Space,
    /// The label of the allocation, or the variable's name.
    pub name: String,
    /// Its first address.
    pub start: u64,
    /// Size.
    pub bytes: u64,
}

/// One instruction of one warp.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// Number of the warp in the block.
    pub warp: u32,
    /// Index into [`Trace::sites`].
    pub site: u32,
    /// Lanes that run together, one bit per lane.
    pub mask: u32,
    /// Lanes for which the instruction's predicate is true.
    pub active: u32,
    /// Effect on the block.
    pub event: StepEvent,
}

/// Effect of an instruction on the block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StepEvent {
    /// Nothing.
    None,
    /// A jump: the active lanes take it, the others go on.
    Branch,
    /// The active lanes come to a barrier of the block.
    Arrive {
        /// Its number.
        barrier: u32,
        /// Whether they wait there; `bar.arrive` does not.
        waits: bool,
    },
    /// The active lanes end.
    Exit,
}

/// A barrier of the block that released its waiting threads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Release {
    /// Number of [`Trace::steps`] before it.
    pub at: usize,
    /// Its number.
    pub barrier: u32,
    /// The warps and their lanes.
    pub warps: Vec<(u32, u32)>,
}

/// One access of one warp to memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryAccess {
    /// Index into [`Trace::steps`].
    pub step: usize,
    /// Number of the warp in the block.
    pub warp: u32,
    /// Index into [`Trace::sites`].
    pub site: u32,
    /// Where.
    pub space: Space,
    /// Kind.
    pub kind: AccessKind,
    /// Bytes that each lane touches, in order of the lanes; one entry per lane, except for `wmma`, whose registers count
    /// one by one.
    pub touches: Vec<Touch>,
}

/// Bytes that a lane touches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Touch {
    /// The lane, 0 to 31.
    pub lane: u8,
    /// First address, in the space of the access.
    pub address: u64,
    /// Bytes from there on.
    pub bytes: u32,
}

impl Touch {
    /// The address that follows it. Any address is possible: a sanitiser goes on after an invalid one.
    pub(crate) fn end(&self) -> u64 {
        self.address.saturating_add(self.bytes.into())
    }
}

impl MemoryAccess {
    /// The lanes that take part, one bit per lane.
    #[must_use]
    pub fn lanes(&self) -> u32 {
        self.touches.iter().fold(0, |lanes, touch| lanes | 1 << touch.lane)
    }

    /// The units of `unit` bytes that each touch is in, as numbers from address 0 on.
    pub(crate) fn units(&self, unit: u64) -> impl Iterator<Item = u64> {
        let units = move |touch: &Touch| touch.address / unit..touch.end().div_ceil(unit);
        self.touches.iter().flat_map(units)
    }

    /// 32-byte sectors that are touched: the units that global memory moves.
    #[must_use]
    pub fn sectors(&self) -> u32 {
        distinct(&mut self.units(SECTOR).collect::<Vec<_>>()) as u32
    }

    /// Bytes that are touched, each counted once.
    #[must_use]
    pub fn bytes(&self) -> u32 {
        distinct(&mut self.units(1).collect::<Vec<_>>()) as u32
    }

    /// Sectors that the bytes would fill if they were neighbours.
    #[must_use]
    pub fn ideal_sectors(&self) -> u32 {
        self.bytes().div_ceil(SECTOR as u32)
    }

    /// Rounds in which shared memory serves the access, each with at most one word per bank.
    #[must_use]
    pub fn wavefronts(&self) -> u32 {
        self.rounds().iter().map(|round| round.ways() as u32).sum()
    }

    /// Rounds without any conflict. Bytes that several lanes read count once, as a word reaches all lanes at once.
    #[must_use]
    pub fn ideal_wavefronts(&self) -> u32 {
        self.rounds().len() as u32
    }

    /// The lanes that shared memory serves together: all 32 if each takes up to 4 bytes, half of them for 8, a quarter for
    /// 16, or two such groups of a load whose lanes ask alike. Separate touches of one lane, as of `wmma`, come one after
    /// the other. A bulk copy takes none of them.
    pub(crate) fn rounds(&self) -> Vec<Round> {
        if self.kind == AccessKind::Bulk {
            return Vec::new();
        }
        let mut rounds: Vec<((usize, usize), Round)> = Vec::new();
        let mut before = [0; 32];
        // The first lane of those that are served with each.
        let groups = |bytes: u32| {
            let mut first_words = [0; 32];
            self.touches.iter().for_each(|touch| first_words[usize::from(touch.lane)] = (touch.address / 4) as u32);
            // A ragged copy may read 12 bytes, which take the turns of 16.
            let words = bytes.div_ceil(4).next_power_of_two().clamp(1, 8) as usize;
            let pairs = self.kind == AccessKind::Read;
            let (mut groups, mut start) = ([0; 32], 0);
            while start < 32 {
                let count = served_together(&first_words, words, self.lanes(), pairs, start);
                groups[start..start + count].fill(start);
                start += count;
            }
            groups
        };
        let groups = groups(self.touches.first().map_or(4, |touch| touch.bytes));
        for touch in &self.touches {
            let turn = &mut before[usize::from(touch.lane)];
            let key = (*turn, groups[usize::from(touch.lane)]);
            *turn += 1;
            let at = rounds.iter().position(|(known, _)| *known == key).unwrap_or_else(|| {
                rounds.push((key, Round::default()));
                rounds.len() - 1
            });
            for word in touch.address / 4..touch.end().div_ceil(4) {
                rounds[at].1.add(word, touch.lane);
            }
        }
        rounds.sort_by_key(|(key, _)| *key);
        rounds.into_iter().map(|(_, round)| round).collect()
    }
}

/// Lanes that shared memory serves together: for each bank the different words requested, and the lanes that request
/// them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Round {
    pub banks: [Vec<(u64, u32)>; BANKS],
}

impl Round {
    fn add(&mut self, word: u64, lane: u8) {
        let bank = &mut self.banks[(word % BANKS as u64) as usize];
        match bank.iter_mut().find(|(known, _)| *known == word) {
            Some((_, lanes)) => *lanes |= 1 << lane,
            None => bank.push((word, 1 << lane)),
        }
    }

    pub(crate) fn lanes(&self) -> u32 {
        self.banks.iter().flatten().fold(0, |all, (_, lanes)| all | lanes)
    }

    /// Maximum number of words that one bank has to deliver.
    pub(crate) fn ways(&self) -> usize {
        self.banks.iter().map(Vec::len).max().unwrap_or(0)
    }
}

/// The operands of a matrix instruction, or the matrices that it moves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum MatrixSite {
    /// D = A · B + C: the operands in the order A, B, C, D.
    Multiply(Vec<FragmentLayout>),
    /// `wmma.load` and `wmma.store`.
    Move(FragmentLayout),
    /// `wgmma.mma_async`: the first columns of a warp's rows of D, the number of columns and registers, and its rows of A if they
    /// are in registers.
    Warpgroup { d: FragmentLayout, columns: usize, registers: usize, a: Option<FragmentLayout> },
    /// `ldmatrix` and `stmatrix`: 8 × 8 matrices of 16-bit elements.
    Rows { matrices: usize, transposed: bool, store: bool },
}

/// Lane and register of each element of a matrix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FragmentLayout {
    /// `A`, `B`, `C`, `D`, or the matrix that a `wmma` moves.
    pub name: &'static str,
    /// Rows and columns, in elements that are drawn separately.
    pub extent: [usize; 2],
    /// Element type, as named in PTX.
    pub element: &'static str,
    /// Elements per drawn cell.
    pub elements_a_cell: usize,
    /// By row and column: lane, register, position in the register.
    pub cells: Vec<(u8, u8, u8)>,
    /// Registers that hold copies of the first ones.
    pub copies: usize,
}

impl Trace {
    /// The variable that holds `address`.
    #[must_use]
    pub fn variable(&self, space: Space, address: u64) -> Option<&Variable> {
        self.variables
            .iter()
            .find(|variable| variable.space == space && address.wrapping_sub(variable.start) < variable.bytes)
    }

    /// Name of the memory at `address`, as `tile + 64`; the bare address if nothing known is there.
    #[must_use]
    pub fn locate(&self, space: Space, address: u64) -> String {
        match self.variable(space, address) {
            Some(variable) => format!("{} + {}", variable.name, address - variable.start),
            None => format!("{address:#x}"),
        }
    }

    /// The instruction of an access.
    #[must_use]
    pub fn site(&self, access: &MemoryAccess) -> &Site {
        &self.sites[access.site as usize]
    }

    /// Fills in the lines of the source; `text_of` gives the text of a file.
    pub(crate) fn fill_text(&mut self, mut text_of: impl FnMut(&str) -> Option<String>) {
        let mut files: Vec<(String, Option<String>)> = Vec::new();
        for site in &mut self.sites {
            let (Some(file), Some(line)) = (&site.file, site.line) else { continue };
            if !files.iter().any(|(known, _)| known == file) {
                files.push((file.clone(), text_of(file)));
            }
            let text = files.iter().find(|(known, _)| known == file).and_then(|(_, text)| text.as_ref());
            let line = text.and_then(|text| text.lines().nth((line as usize).saturating_sub(1)));
            site.text = line.map(|line| line.trim().to_owned());
        }
    }
}
