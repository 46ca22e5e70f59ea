//! Control: barriers of a block, calls, branches by an index, the stack.

use super::facts::{Facts, note_operand, operand, operations};
use super::op::{P, R};
use super::work::{Class, Work};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BarrierKind {
    Sync,
    Arrive,
    RedAnd,
    RedOr,
    RedPopc,
}

#[derive(Clone, Debug)]
pub(crate) struct Barrier {
    pub kind: BarrierKind,
    /// Row of the barrier's number.
    pub id: R,
    /// `bar` and `.aligned`: all threads of a warp must execute the same one.
    pub aligned: bool,
    /// Row of the thread count; `None`: all threads of the block.
    pub count: Option<R>,
    /// The predicate that `.red` reduces, and whether it is negated.
    pub source: Option<(P, bool)>,
    /// Destination of `.red.popc`.
    pub d: Option<R>,
    /// Destination of `.red.and`/`.red.or`.
    pub p: Option<P>,
}

impl Barrier {
    pub(super) fn note(&self, facts: &mut Facts) {
        facts.read(self.count).read([self.id]).test(self.source.map(|(predicate, _)| predicate));
        facts.write(self.d).set(self.p);
    }
}

/// A slot of parameter space, copied between frames by a call: offset in the frame's local memory, bytes.
pub(crate) type Slot = (u32, u32);

/// Location of an argument or result in a frame.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Place {
    /// `.param`: bytes of the frame's local memory.
    Memory(Slot),
    /// `.reg`: a row, or two.
    Row {
        row: R,
        wide: bool,
    },
    Predicate(P),
}

impl Place {
    /// Bytes that it holds; of a row 4, even if the register has fewer.
    pub(crate) fn bytes(self) -> u32 {
        match self {
            Self::Memory((_, bytes)) => bytes,
            Self::Row { wide, .. } => {
                if wide {
                    8
                } else {
                    4
                }
            }
            Self::Predicate(_) => 1,
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) enum Callee {
    /// Index into the module's functions.
    Function(u32),
    /// A 64-bit row holding a function's address.
    Indirect(R),
    Vprintf,
    AssertFail,
    /// A second argument is the alignment.
    Malloc,
    Free,
}

#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub callee: Callee,
    pub args: Vec<Place>,
    pub results: Vec<Place>,
}

impl Call {
    pub(super) fn note(&self, facts: &mut Facts) {
        if let Callee::Indirect(row) = self.callee {
            facts.read([row]);
        }
        for place in &self.args {
            match place {
                Place::Row { row, .. } => _ = facts.read([*row]),
                Place::Predicate(predicate) => _ = facts.test([*predicate]),
                Place::Memory(_) => {}
            }
        }
        for place in &self.results {
            match place {
                Place::Row { row, .. } => _ = facts.write([*row]),
                Place::Predicate(predicate) => _ = facts.set([*predicate]),
                Place::Memory(_) => {}
            }
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct BrxIdx {
    pub index: R,
    /// Number of its list in the function, of which `targets` is a part: many branches may share one.
    pub list: u32,
    pub targets: std::sync::Arc<[u32]>,
    pub join: u32,
}

impl BrxIdx {
    pub(super) fn note(&self, facts: &mut Facts) {
        facts.read([self.index]);
    }
}

/// An instruction on the end of the frame's local memory, counted from where the frame's variables end
/// ([`Function::stack`](super::Function::stack)).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stack {
    pub op: StackOp,
    /// Whether its registers have 64 bits, not 32.
    pub wide: bool,
}

impl Stack {
    pub(super) fn note(&self, facts: &mut Facts) {
        self.op.note(facts);
    }
}

operations! {
    #[derive(Clone, Copy, Debug)]
    pub(crate) enum StackOp {
        acts Other {
            /// Memory of `size` bytes, aligned to `align` bytes: its address in the local space.
            Alloca { d: write, size: read, align: is(u32) };
            /// The address of the end.
            Save { d: write };
            /// Restores the saved end.
            Restore { a: read };
        }
    }
}
