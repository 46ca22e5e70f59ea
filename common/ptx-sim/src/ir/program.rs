//! Containers of the operations: functions, variables, kernels, and the limits of all of them.

use std::collections::HashMap;
use std::sync::Arc;

use super::control::Place;
use super::op::{Inst, P, R};
use crate::ast::Loc;
use crate::error::Unsupported;
use crate::scalar::Scalar;
use crate::span::Span;

/// Maximum rows of registers per warp, all frames of a recursion together: 8 MiB.
pub(crate) const MAX_ROWS: usize = 1 << 16;
/// Maximum bytes of local memory per thread, as on hardware.
pub(crate) const MAX_LOCAL: u64 = 512 << 10;
/// Numbered barriers of a block.
pub(crate) const NUMBERED_BARRIERS: u32 = 16;
/// The variable that stands for the part of shared memory that the system reserves.
pub(crate) const RESERVED_NAME: &str = "reserved shared memory";
/// Maximum arrivals that an mbarrier may count (PTX ISA, "Contents of the mbarrier object"): all ones, as a mask.
pub(crate) const MBARRIER_COUNTS: u32 = (1 << 20) - 1;
/// Number of a wait at the barrier of the block's cluster: after the block's own barriers.
pub(crate) const CLUSTER_BARRIER: u32 = NUMBERED_BARRIERS;

/// Rows that a register of that type takes.
pub(crate) fn rows_of(ty: Scalar) -> u32 {
    ty.size().div_ceil(4)
}

/// A row that does not change while the frame lives.
#[derive(Clone, Debug)]
pub(crate) struct Constant {
    pub row: R,
    pub wide: bool,
    pub value: ConstantValue,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum ConstantValue {
    Bits(u64),
    /// Address of a module variable (index into [`Program::globals`]) plus an offset; known once the module is loaded.
    Global(u32, i64),
    /// Offset of a shared variable plus an offset; known for each kernel ([`KernelPart::shared`]).
    Shared(u32, i64),
}

/// A function or kernel, lowered.
#[derive(Clone, Debug, Default)]
pub(crate) struct Function {
    pub name: String,
    pub kernel: bool,
    /// Its code is `Program::code[start..end]`.
    pub start: u32,
    pub end: u32,
    pub rows: u32,
    pub predicates: u32,
    pub constants: Vec<Constant>,
    /// Bytes of local memory of its frame, including parameters of calls.
    pub local_bytes: u32,
    /// Row of the bytes that a thread has allocated behind those, 0 at the start; for a function with `alloca`.
    pub stack: Option<R>,
    pub params: Vec<Place>,
    pub returns: Vec<Place>,
    /// Functions it calls directly, and whether it calls through a pointer (then any function may be meant).
    pub calls: Vec<u32>,
    pub calls_indirectly: bool,
    pub unsupported: Vec<Unsupported>,
    /// Whether it has a body.
    pub defined: bool,
    /// The registers that its text names, in order of their first mention, which is also that of their rows: for a
    /// debugger.
    pub registers: Vec<NamedRegister>,
    /// The same for its predicates, in order of their numbers.
    pub named_predicates: Vec<NamedRegister>,
}

impl Function {
    /// The register that a row belongs to; rows of the lowering's own have none.
    pub(crate) fn register_of(&self, row: R) -> Option<&NamedRegister> {
        let after = self.registers.partition_point(|register| register.at <= row);
        let register = &self.registers[after.checked_sub(1)?];
        (row - register.at < register.rows() * register.count).then_some(register)
    }

    /// The name of a predicate.
    pub(crate) fn predicate_of(&self, p: P) -> Option<&NamedRegister> {
        let found = self.named_predicates.binary_search_by_key(&p, |predicate| predicate.at);
        found.ok().map(|at| &self.named_predicates[at])
    }
}

/// A register by its name in the PTX.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NamedRegister {
    /// Position of the name in the PTX text.
    pub name: Span,
    pub ty: Scalar,
    /// Its first row; for a predicate its number.
    pub at: u32,
    /// Elements of a `.v2`/`.v4` register, otherwise 1.
    pub count: u32,
}

impl NamedRegister {
    /// Rows that one element takes; a predicate takes none.
    pub(crate) fn rows(&self) -> u32 {
        if self.ty == Scalar::Pred { 0 } else { rows_of(self.ty) }
    }
}

/// An address among the initial contents of a variable, which is known when the module is loaded.
#[derive(Clone, Debug)]
pub(crate) struct Relocation {
    /// Offset in the variable.
    pub at: u64,
    pub bytes: u8,
    /// The byte of the address that comes first.
    pub byte: u8,
    pub value: ConstantValue,
}

/// A module-scope `.global` or `.const` variable.
#[derive(Clone, Debug)]
pub(crate) struct Global {
    pub name: String,
    pub bytes: u64,
    pub constant: bool,
    /// Whether the host reaches it too, at the same address.
    pub managed: bool,
    /// Initial contents from an offset on, in the order of the text; the rest is zeros.
    pub init: Vec<(u64, Vec<u8>)>,
    /// Addresses written into it when it is loaded.
    pub relocations: Vec<Relocation>,
}

/// A whole module, ready to run.
#[derive(Debug, Default)]
pub(crate) struct Program {
    pub code: Vec<Inst>,
    /// Whether some instruction is for pairs of blocks (`.cta_group::2`).
    pub pairs: bool,
    /// PTX line and `.loc` of each instruction.
    pub places: Vec<CodePlace>,
    pub functions: Vec<Function>,
    pub globals: Vec<Global>,
    /// `.file` table.
    pub files: HashMap<u64, String>,
    /// Calls that were inlined; [`CodePlace::call`] counts from 1.
    pub inlined: Vec<InlinedCall>,
}

/// A call that was inlined: its location, and the call that its own function was inlined for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct InlinedCall {
    /// File, line, column.
    pub at: (u64, u32, u32),
    /// Counted like [`CodePlace::call`].
    pub within: u32,
}

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct CodePlace {
    pub ptx_line: u32,
    /// Byte of the PTX at which the instruction begins, its guard included.
    pub ptx_at: u32,
    pub loc: Option<Loc>,
    /// The call for which it was inlined, counted from 1; 0: it was not.
    pub call: u32,
}

/// A kernel from a caller's point of view, and its part of shared memory.
#[derive(Debug)]
pub(crate) struct KernelPart {
    pub info: KernelInfo,
    pub function: u32,
    /// Bytes of all parameters together.
    pub param_bytes: u32,
    /// Offset of each shared variable that the kernel can reach, by index.
    pub shared: HashMap<u32, u32>,
    /// Start of dynamic shared memory: after the static variables, at the largest alignment that a dynamic one asks for.
    pub dynamic_base: u32,
    /// Static variables, in order of their offsets.
    pub static_variables: Vec<StaticVariable>,
    /// `.reqnctapercluster`: the shape of its clusters.
    pub cluster: Option<[u32; 3]>,
}

/// A `.shared` variable of fixed size, in one kernel's layout.
#[derive(Clone, Debug)]
pub(crate) struct StaticVariable {
    /// Name in the PTX.
    pub name: String,
    pub offset: u32,
    pub bytes: u32,
}

/// A kernel's name, parameters and static needs.
#[derive(Clone, Debug)]
pub struct KernelInfo {
    /// Name in the PTX: mangled unless it is `extern "C"`.
    pub name: String,
    /// Parameters in order.
    pub params: Vec<ParamInfo>,
    /// Bytes of shared memory that the kernel declares.
    pub static_shared: u32,
    /// Bytes of local memory that the kernel itself declares for each thread.
    pub local_bytes: u32,
    /// Bytes of constant memory that its module declares.
    pub constant_bytes: u64,
    /// Maximum number of threads per block, from `__launch_bounds__`.
    pub max_threads: Option<u32>,
    /// Maximum number of registers per thread, from `__maxnreg__`. Their actual number is ptxas' choice ([`crate::ptxas`]).
    pub max_registers: Option<u32>,
    /// The only allowed shape of a block, from `.reqntid`.
    pub required_threads: Option<[u32; 3]>,
    /// Instructions of the kernel, or of functions it calls, that the simulator does not know.
    pub unsupported: Arc<[Unsupported]>,
    /// Functions that the kernel, or one that it calls, calls and that have no body.
    pub unresolved: Arc<[String]>,
}

/// One parameter of a kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParamInfo {
    /// Name in the PTX.
    pub name: String,
    /// Bytes from the start of the parameters.
    pub offset: u32,
    /// Bytes.
    pub size: u32,
    /// Alignment in bytes.
    pub align: u32,
    /// Type as written in PTX: `u64`, `f32`, `b8[16]`.
    pub ty: String,
}
