//! A kernel's error, as a value with its location; [`crate::report`] draws it.

/// Rule that a kernel broke.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FaultKind {
    /// An access outside every allocation, or past the end of shared or local memory.
    OutOfBounds,
    /// An address that is not a multiple of the access's size.
    Misaligned,
    /// An access to an allocation that has been freed.
    UseAfterFree,
    /// A write to `__constant__` memory.
    ReadOnly,
    /// A barrier that some live thread of the block never reaches.
    BarrierDivergence,
    /// A barrier number or thread count that the hardware does not have; a cluster's barrier out of turn.
    InvalidBarrier,
    /// An object that is no mbarrier or is initialised twice, or one that is asked for more than it can do.
    InvalidMbarrier,
    /// A warp-level instruction executed by a lane outside its member mask, or waiting for lanes that never come.
    InvalidMask,
    /// The launch executed more warp instructions than its budget, or work that costs as much.
    Budget,
    /// The launch took longer than its time limit.
    TimeLimit,
    /// The launch would take more host memory than the device's limit.
    MemoryLimit,
    /// `trap`.
    Trap,
    /// `assert(…)` failed.
    Assertion,
    /// Calls nested too deeply, or more allocated on the stack than a thread has.
    StackOverflow,
    /// A call through a pointer that is not a function's address.
    InvalidCall,
    /// `brx.idx` with an index beyond its list.
    InvalidBranch,
    /// A handle that is no texture's or surface's, or one of another kind or geometry than the instruction's.
    InvalidHandle,
    /// Metadata of a sparse matrix that PTX leaves undefined.
    InvalidMetadata,
    /// `wgmma` that the four warps of a warpgroup do not execute alike, or with an invalid descriptor.
    InvalidWgmma,
    /// `tcgen05` with an invalid descriptor, or with tensor memory that the warp or block may not reach or allocate so.
    InvalidTcgen05,
    /// Tensor memory is used before the wait for a `tcgen05` that has it.
    TmemInFlight,
    /// Tensor memory is handed from one warp to another without a `tcgen05.fence`.
    MissingTcgen05Fence,
    /// A register of a `wgmma.mma_async` is read or written before the product has been waited for.
    RegisterInFlight,
    /// Shared memory is written that a `wgmma.mma_async` in flight reads.
    TileInFlight,
    /// A `wgmma.mma_async` takes a register that was accessed since the last `wgmma.fence`, or comes before the first.
    MissingWgmmaFence,
    /// A matrix descriptor whose tile does not begin where the pattern of its swizzle does, without a base offset that says so.
    DescriptorAlignment,
    /// A bulk copy of an impossible size, or to blocks that do not exist.
    InvalidCopy,
    /// 128 bytes that are no tensor map, or no tensor map for this copy.
    InvalidTensorMap,
    /// Memory that was touched while a bulk copy to or from it was under way.
    CopyInFlight,
    /// Memory that a bulk copy reads after ordinary writes, without a `fence.proxy.async` between them.
    MissingProxyFence,
    /// A bulk copy to or from shared memory that is under way when the block ends.
    UnawaitedCopy,
    /// Threads that wait at mbarriers for arrivals or bytes that never come, or for memory that no thread is left to write.
    Deadlock,
    /// A read of bytes that were never written.
    UninitialisedRead,
    /// Two threads of a block or a cluster at the same bytes of shared memory, one of them writing, with nothing that orders them.
    SharedRace,
    /// The same in global memory, of any two threads of a launch.
    GlobalRace,
    /// Shared memory of a block of the cluster that has exited, or may have.
    BlockExit,
    /// `free` of an address that `malloc` did not return, or a second time.
    InvalidFree,
    /// A block of the heap, or columns of tensor memory, that were never freed.
    Leak,
}

impl FaultKind {
    /// Name in the output of `--json`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::OutOfBounds => "out-of-bounds",
            Self::Misaligned => "misaligned",
            Self::UseAfterFree => "use-after-free",
            Self::ReadOnly => "read-only",
            Self::BarrierDivergence => "barrier-divergence",
            Self::InvalidBarrier => "invalid-barrier",
            Self::InvalidMbarrier => "invalid-mbarrier",
            Self::InvalidMask => "invalid-mask",
            Self::Budget => "budget",
            Self::TimeLimit => "time-limit",
            Self::MemoryLimit => "memory-limit",
            Self::Trap => "trap",
            Self::Assertion => "assertion",
            Self::StackOverflow => "stack-overflow",
            Self::InvalidCall => "invalid-call",
            Self::InvalidBranch => "invalid-branch",
            Self::InvalidHandle => "invalid-handle",
            Self::InvalidMetadata => "invalid-metadata",
            Self::InvalidWgmma => "invalid-wgmma",
            Self::InvalidTcgen05 => "invalid-tcgen05",
            Self::TmemInFlight => "tmem-in-flight",
            Self::MissingTcgen05Fence => "missing-tcgen05-fence",
            Self::RegisterInFlight => "register-in-flight",
            Self::TileInFlight => "tile-in-flight",
            Self::MissingWgmmaFence => "missing-wgmma-fence",
            Self::DescriptorAlignment => "descriptor-alignment",
            Self::InvalidCopy => "invalid-copy",
            Self::InvalidTensorMap => "invalid-tensor-map",
            Self::CopyInFlight => "copy-in-flight",
            Self::MissingProxyFence => "missing-proxy-fence",
            Self::UnawaitedCopy => "unawaited-copy",
            Self::Deadlock => "deadlock",
            Self::UninitialisedRead => "uninitialised-read",
            Self::SharedRace => "shared-race",
            Self::GlobalRace => "global-race",
            Self::BlockExit => "block-exit",
            Self::InvalidFree => "invalid-free",
            Self::Leak => "leak",
        }
    }

    /// Whether it is a limit of the launch: of instructions, time or memory.
    #[must_use]
    pub fn is_limit(self) -> bool {
        matches!(self, Self::Budget | Self::TimeLimit | Self::MemoryLimit)
    }

    /// Usual cause; [`Fault::help`] knows more.
    fn help(self) -> &'static str {
        match self {
            Self::OutOfBounds => {
                "is every index checked against the size? In the last block of a grid, and at the edge of a tile, it may be past the end"
            }
            Self::Misaligned => "a vector access (float4, v4) needs an address that is a multiple of its whole size",
            Self::UseAfterFree => "the buffer was freed before this kernel ran, or a pointer to it was kept",
            Self::ReadOnly => "`__constant__` memory is written from the host only",
            Self::BarrierDivergence => {
                "every thread that has not returned must reach the same `__syncthreads()`: none may stand in a branch or loop that \
                 only some threads enter"
            }
            Self::InvalidBarrier => {
                "a block has barriers 0 to 15, and a thread count must be a multiple of 32; at the cluster's barrier each arrival is \
                 followed by a wait"
            }
            Self::InvalidMbarrier => {
                "one thread initialises an mbarrier, before all others use it, with the number of arrivals that end a phase; a phase \
                 takes no more of them"
            }
            Self::InvalidMask => {
                "the mask of a `_sync` function names exactly the lanes that call it together; take it before the branch with \
                 `__ballot_sync`, or move the call out of the branch"
            }
            Self::Budget => "does every loop end? A kernel that only takes long needs a larger budget",
            Self::TimeLimit => "does every loop end? A kernel that only takes long needs more time",
            Self::MemoryLimit => {
                "the limit is one for all that the file and its launch take; a larger kernel needs a larger one"
            }
            Self::Trap => "the kernel stopped itself with `__trap()` or an unreachable path",
            Self::Assertion => "the kernel's own `assert` does not hold for this thread",
            Self::StackOverflow => "does the recursion end for every input?",
            Self::InvalidCall => "the function pointer was never set, or points to something else",
            Self::InvalidBranch => "the index of a jump table is beyond its end",
            Self::InvalidHandle => {
                "the handle is the object's as the host made it, and `tex2D` reads a texture of two dimensions, `surf2Dread` a surface"
            }
            Self::InvalidMetadata => {
                "each chunk of a row keeps two different places of four, named in two bits each; does the lane that the sparsity \
                 selector names hold them?"
            }
            Self::InvalidWgmma => {
                "a warpgroup is four warps, the first of which has a number that 4 divides: all 128 threads execute each `wgmma` \
                 together, with the same descriptors and scales"
            }
            Self::InvalidTcgen05 => {
                "one whole warp allocates a power of two of columns and frees them; warp w of a block reaches lanes 32 (w % 4) to \
                 32 (w % 4) + 31; the instruction descriptor has the shape and types of the product"
            }
            Self::TmemInFlight => {
                "a product is there when an mbarrier that `tcgen05.commit` arrives at has been waited for, a store after \
                 `tcgen05.wait::st`, a load after `tcgen05.wait::ld`"
            }
            Self::MissingTcgen05Fence => {
                "put `tcgen05.fence::before_thread_sync` before the barrier of one thread and `tcgen05.fence::after_thread_sync` after \
                 that of the other"
            }
            Self::RegisterInFlight => {
                "put `wgmma.commit_group` and `wgmma.wait_group` between the product and other uses of its registers; the accumulators \
                 may only go to the next `wgmma.mma_async` of the same shape. After a tcgen05.ld, put `tcgen05.wait::ld` there"
            }
            Self::TileInFlight => {
                "wait with `wgmma.wait_group` before the tile is overwritten, and tell the threads that write it: by a barrier, or an \
                 arrival at an mbarrier"
            }
            Self::MissingWgmmaFence => {
                "put `wgmma.fence.sync.aligned` after the last ordinary access to accumulators and registers of A, before the first \
                 `wgmma.mma_async` that takes them"
            }
            Self::DescriptorAlignment => {
                "begin tiles at multiples of 1024 bytes with a swizzle of 128, of 512 with 64, of 256 with 32: \
                 `__shared__ alignas(1024)`"
            }
            Self::InvalidCopy => {
                "a bulk copy moves a multiple of 16 bytes between addresses that are multiples of 16; a box begins at such an \
                 address of its tensor's rows, and one that is stored not before its tensor"
            }
            Self::InvalidTensorMap => {
                "the map is a `const __grid_constant__ CUtensorMap` parameter, or 128 bytes of global memory, as the host's \
                 encoder made it for a tensor of as many dimensions as the instruction names"
            }
            Self::CopyInFlight => {
                "wait before the memory is touched: for a copy to shared memory at its mbarrier, for one to global memory with \
                 `cp.async.bulk.wait_group` (with `.read`, if only the source is to be overwritten)"
            }
            Self::MissingProxyFence => {
                "each thread that wrote executes `fence.proxy.async` after its writes and before the barrier that the copying thread \
                 waits at; a barrier alone does not make ordinary writes visible to bulk copies, nor to `wgmma`"
            }
            Self::UnawaitedCopy => {
                "wait for every copy before the kernel ends: its shared memory goes to another block then"
            }
            Self::Deadlock => {
                "does each phase get as many arrivals as the mbarrier was initialised with, and as many bytes as `expect_tx` announced? Does \
                 each wait ask for the parity of the phase that is next to end?"
            }
            Self::UninitialisedRead => {
                "is every element set before it is read? An accumulator starts at zero only if the kernel writes that zero, and \
                 a tile's edge must be filled too"
            }
            Self::SharedRace => {
                "put a `__syncthreads()` between the write and the accesses of other threads: before the first read, and again \
                 before the buffer is overwritten. Among lanes of one warp `__syncwarp()` is enough; a shuffle or a vote orders nothing"
            }
            Self::GlobalRace => {
                "nothing orders threads of different blocks within a launch: combine with `atomicAdd`, hand over with \
                 `__threadfence()` and an atomic flag, or split the work into two kernels"
            }
            Self::BlockExit => {
                "a block's shared memory is there until its last thread exits: end the kernel with `cluster.sync()`, so that no block \
                 leaves while another may still reach into its memory"
            }
            Self::InvalidFree => {
                "`free` takes exactly what `malloc` returned, once: no address inside it, and nothing that the host allocated. Which \
                 thread frees it?"
            }
            Self::Leak => {
                "every `malloc` or `new` needs its `free` or `delete`, on each way out of the kernel, or in a later one that is handed \
                 the pointer"
            }
        }
    }
}

/// A kernel's fault: the rule, the location, and the thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The rule that was broken.
    pub kind: FaultKind,
    /// One sentence without the location.
    pub message: String,
    /// Name of the kernel.
    pub kernel: String,
    /// CUDA source file, from `.loc`; `None` where the PTX has no line information.
    pub file: Option<String>,
    /// 1-based line of `file`; of the PTX file where there is none.
    pub line: Option<u32>,
    /// 1-based column of `file`; 0 if unknown.
    pub column: u32,
    /// The name of the PTX file and the 1-based line in it.
    pub ptx: (String, u32),
    /// The instruction as written in the PTX file.
    pub instruction: String,
    /// `blockIdx`.
    pub block: [u32; 3],
    /// Number of the device among those of a joint launch ([`crate::Kernel::observe_together`]).
    pub device: Option<u32>,
    /// `threadIdx` of the first thread that is at fault.
    pub thread: [u32; 3],
    /// Number of threads of its warp that did the same.
    pub threads: u32,
    /// The address, where one is at fault.
    pub address: Option<u64>,
    /// More details: the nearest allocation, locations of other threads.
    pub notes: Vec<String>,
    /// File and 1-based line of the call in the kernel, of the call in the function called or inlined there, and so on down to
    /// the instruction's own. [`Self::line`] is one of them; empty for an instruction that is the kernel's own.
    pub inlined: Vec<(String, u32)>,
    /// The other access of a race, which came first.
    pub other: Option<Box<OtherAccess>>,
    /// Number of occurrences: one per thread and execution of the line. A launch without sanitiser ends at the first.
    pub count: u64,
}

/// Beginning of the message of a wait for memory that never ends.
pub(crate) const MEMORY_WAIT: &str = "the wait for ";

/// Value of [`OtherAccess::what`] for a `cp.async` or bulk copy.
pub(crate) const ASYNCHRONOUS_COPY: &str = "asynchronous copy";

/// The other access of a race.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OtherAccess {
    /// `read`, `write`, `atomic` or `asynchronous copy`.
    pub what: &'static str,
    /// CUDA source file, from `.loc`.
    pub file: Option<String>,
    /// 1-based line of `file`.
    pub line: Option<u32>,
    /// 1-based column; 0 if unknown.
    pub column: u32,
    /// The name of the PTX file and the 1-based line in it.
    pub ptx: (String, u32),
    /// `blockIdx`.
    pub block: [u32; 3],
    /// Same as [`Fault::device`].
    pub device: Option<u32>,
    /// `threadIdx`.
    pub thread: [u32; 3],
}

impl Fault {
    /// The file and 1-based line that a reader looks for: of the CUDA source, else of the PTX.
    #[must_use]
    pub fn place(&self) -> (&str, u32) {
        match (&self.file, self.line) {
            (Some(file), Some(line)) => (file, line),
            _ => (&self.ptx.0, self.ptx.1),
        }
    }

    /// Usual cause and remedy.
    pub(crate) fn help(&self) -> &'static str {
        match &self.other {
            Some(_) if self.kind == FaultKind::GlobalRace && self.instruction.contains(".nc.") => {
                "read by an ordinary load what the kernel writes: no `__ldg()`, and no `const __restrict__` on the pointer"
            }
            Some(other) if self.kind == FaultKind::MissingProxyFence && other.what == "read" => {
                "`fence.proxy.async` between the reads and the copy: in each thread that read, before the barrier, or in the copying thread after it"
            }
            Some(other) if self.kind == FaultKind::GlobalRace && other.device != self.device => {
                "the two threads are of different devices: hand over with a fence and an atomic or volatile flag of system scope \
                 (`__threadfence_system()`, `atomicAdd_system`, `st.release.sys`), or split the work into launches that events order"
            }
            Some(other) if self.kind == FaultKind::GlobalRace && other.block == self.block => {
                "both threads are of one block: put a `__syncthreads()` between the two accesses, which orders global memory as \
                 well as shared memory, or combine with `atomicAdd`. Among lanes of one warp `__syncwarp()` is enough; a shuffle or a vote \
                 orders nothing"
            }
            Some(other) if self.kind == FaultKind::SharedRace && other.block != self.block => {
                "the two blocks are of one cluster: put a `cluster.sync()`, or `cluster.barrier_arrive()` and `barrier_wait()`, between \
                 the two accesses; `__syncthreads()` orders threads of one block only"
            }
            Some(other) if self.kind == FaultKind::SharedRace && other.what == ASYNCHRONOUS_COPY => {
                "wait for a copy before its bytes are used: the thread that asked for a `cp.async` by `cp.async.wait_group`, and a \
                 `__syncthreads()` after that shows it to the others; for a bulk copy each thread that uses the bytes, at its mbarrier"
            }
            _ if self.kind == FaultKind::Deadlock && self.instruction.starts_with("tcgen05.alloc") => {
                "an SM has 512 columns for all of its blocks: a block that others wait for frees its own first, or all take so few that \
                 there is room for each block of the SM"
            }
            _ if self.kind == FaultKind::Deadlock && self.message.starts_with(MEMORY_WAIT) => {
                "who was to write the value: a thread that has exited, that waits itself, or that missed its turn? Lanes and warps \
                 that wait for each other must not stand between the others and a barrier; blocks that do need a cooperative \
                 launch, and all of them must come"
            }
            _ if self.kind == FaultKind::BarrierDivergence && self.is_at_named_barrier() => {
                "a named barrier waits until as many threads as its second operand says have come, with `bar.sync` or `bar.arrive` of \
                 the same number: do all warps that are counted reach it, as often as each other?"
            }
            _ if self.kind == FaultKind::Leak && self.instruction.contains("tcgen05.alloc") => {
                "the warp that took columns frees them with `tcgen05.dealloc`, by the same address and number, on each way out of the kernel: \
                 after all warps have loaded what they need, and a barrier"
            }
            _ => self.kind.help(),
        }
    }

    /// Whether the instruction is at a barrier of the block that is not `__syncthreads()`: with another number, or a count.
    fn is_at_named_barrier(&self) -> bool {
        let mut words = self.instruction.trim_end_matches(';').split(' ').skip_while(|word| word.starts_with('@'));
        let opcode = words.next().unwrap_or_default();
        let is_block = ["bar.", "barrier."].iter().any(|name| opcode.starts_with(name));
        let reduces = opcode.contains(".red.");
        let operands = words.collect::<String>();
        // A reduction has a result in front and a predicate at the end.
        let barrier: Vec<&str> = operands.split(',').skip(usize::from(reduces)).collect();
        let has_count = barrier.len() > 1 + usize::from(reduces);
        is_block
            && !opcode.contains(".warp.")
            && !opcode.contains(".cluster.")
            && (has_count || barrier.first() != Some(&"0"))
    }

    /// Index of the finding among `findings` with the same kind and line: they are reported as one.
    pub(crate) fn line_in(&self, findings: &[Self]) -> Option<usize> {
        findings.iter().position(|known| known.kind == self.kind && known.place() == self.place())
    }
}

/// `block (0, 0, 0), thread (1, 0, 0)`, and the device, if there are several.
pub(crate) fn thread_in_words(device: Option<u32>, [bx, by, bz]: [u32; 3], [tx, ty, tz]: [u32; 3]) -> String {
    let device = device.map_or_else(String::new, |device| format!("device {device}, "));
    format!("{device}block ({bx}, {by}, {bz}), thread ({tx}, {ty}, {tz})")
}

impl std::fmt::Display for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (file, line) = self.place();
        let (kind, kernel, message) = (self.kind.name(), &self.kernel, &self.message);
        let who = thread_in_words(self.device, self.block, self.thread);
        write!(f, "{kind}: kernel `{kernel}` at {file}:{line}, {who}: {message}")?;
        self.notes.iter().try_for_each(|note| write!(f, "; {note}"))
    }
}

impl std::error::Error for Fault {}
