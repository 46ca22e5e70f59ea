//! Facts of an operation that are known without running it, and [`operations!`], which declares them with the operation.

use super::op::{P, R};
use super::work::{Class, Work};

/// The facts of one operation, as the profiler, the debugger and the sanitiser read them. A register stands for its
/// first row.
#[derive(Clone, Debug)]
pub(crate) struct Facts {
    pub work: Work,
    /// Whether it only computes registers from registers, lane by lane.
    pub computes: bool,
    /// Registers that it reads.
    pub reads: Vec<R>,
    /// Predicates that it reads, except that of its guard.
    pub tests: Vec<P>,
    /// Registers that it writes.
    pub writes: Vec<R>,
    /// Predicates that it writes.
    pub sets: Vec<P>,
}

impl Facts {
    /// Facts of an operation without operands.
    pub(super) fn new() -> Self {
        let work = Work::of(Class::Other);
        Self { work, computes: true, reads: Vec::new(), tests: Vec::new(), writes: Vec::new(), sets: Vec::new() }
    }

    /// Adds registers that it reads; `R::MAX` is none.
    pub(super) fn read(&mut self, rows: impl IntoIterator<Item = R>) -> &mut Self {
        self.reads.extend(rows.into_iter().filter(|row| *row != R::MAX));
        self
    }

    /// Adds registers that it writes; `R::MAX` is the sink `_`.
    pub(super) fn write(&mut self, rows: impl IntoIterator<Item = R>) -> &mut Self {
        self.writes.extend(rows.into_iter().filter(|row| *row != R::MAX));
        self
    }

    /// Adds predicates that it reads.
    pub(super) fn test(&mut self, predicates: impl IntoIterator<Item = P>) -> &mut Self {
        self.tests.extend(predicates);
        self
    }

    /// Adds predicates that it writes.
    pub(super) fn set(&mut self, predicates: impl IntoIterator<Item = P>) -> &mut Self {
        self.sets.extend(predicates);
        self
    }
}

/// Type of an operand.
#[rustfmt::skip]
macro_rules! operand {
    (read) => { R };
    (write) => { R };
    (test) => { P };
    (set) => { P };
    (maybe_read) => { Option<R> };
    (maybe_write) => { Option<R> };
    (maybe_set) => { Option<P> };
    (read_of($ty:ty)) => { $ty };
    (is($ty:ty)) => { $ty };
}

/// Adds an operand to the facts.
#[rustfmt::skip]
macro_rules! note_operand {
    ($facts:ident, $field:ident, read) => { $facts.read([*$field]) };
    ($facts:ident, $field:ident, write) => { $facts.write([*$field]) };
    ($facts:ident, $field:ident, test) => { $facts.test([*$field]) };
    ($facts:ident, $field:ident, set) => { $facts.set([*$field]) };
    ($facts:ident, $field:ident, maybe_read) => { $facts.read(*$field) };
    ($facts:ident, $field:ident, maybe_write) => { $facts.write(*$field) };
    ($facts:ident, $field:ident, maybe_set) => { $facts.set(*$field) };
    ($facts:ident, $field:ident, read_of($ty:ty)) => { $facts.read([$field.row()]) };
    ($facts:ident, $field:ident, is($ty:ty)) => { _ = $field };
}

/// Declares an enum of operations, and what is known of each in its own line.
///
/// An operation stands in a group of its class: `computes` if it only computes registers from registers, lane by lane,
/// otherwise `acts`; with floating-point operations per lane, if it has any. Its fields are operands (`read` and
/// `write`: registers; `test` and `set`: predicates; `read_of(…)`: a type that has the register's row) or something else
/// of it (`is(…)`). An operation with a struct of its own names the function that notes the operands:
/// `Load(access: Box<Access>) => Access::note_load`.
macro_rules! operations {
    (
        $(#[$attribute:meta])*
        $visibility:vis enum $Enum:ident {
            $(
                $kind:ident $class:ident $(($flops:literal flops))? {
                    $(
                        $(#[$doc:meta])*
                        $name:ident
                        $({ $( $(#[$field_doc:meta])* $field:ident : $role:ident $(($ty:ty))? ),* $(,)? })?
                        $(($payload:ident : $payload_ty:ty) => $note:path)?
                    ;)*
                }
            )*
        }
    ) => {
        $(#[$attribute])*
        $visibility enum $Enum {
            $($(
                $(#[$doc])*
                $name
                $({ $( $(#[$field_doc])* $field: operand!($role $(($ty))?) ),* })?
                $(($payload_ty))?,
            )*)*
        }

        impl $Enum {
            /// Adds what is known of the operation.
            pub(super) fn note(&self, facts: &mut Facts) {
                let work = match self {
                    $( $( Self::$name { .. } )|* => {
                        facts.computes = operations!(@$kind);
                        Work { class: Class::$class, flops: 0 $(+ $flops)? }
                    } )*
                };
                facts.work = work;
                match self {
                    $($(
                        Self::$name $({ $($field),* })? $(($payload))? => {
                            $($( note_operand!(facts, $field, $role $(($ty))?); )*)?
                            $( $note($payload, facts); )?
                        }
                    )*)*
                }
            }
        }
    };
    (@computes) => { true };
    (@acts) => { false };
}

pub(super) use {note_operand, operand, operations};
