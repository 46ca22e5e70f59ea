//! Meanings of names, and reasons why an instruction could not be lowered.

use crate::ir::{P, R};
use crate::scalar::Scalar;

/// Meaning of a name.
#[derive(Clone, Copy, Debug)]
pub(super) enum Symbol {
    Register(Register),
    /// Index into [`Program::globals`].
    Global(u32),
    /// Index into the shared variables.
    Shared(u32),
    /// Offset in the frame's local memory and size: `.local`, and the `.param`s of functions and calls.
    Frame(u32, u32),
    /// Offset in the kernel's parameters.
    KernelParam(u32),
    Function(u32),
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Register {
    Predicate(P),
    Row {
        row: R,
        ty: Scalar,
    },
    /// `.v2`/`.v4`: the elements' first row; each element takes `rows_of(ty)`.
    Vector {
        row: R,
        ty: Scalar,
        count: u32,
    },
}

/// Reason why an instruction could not be lowered.
pub(super) enum Stop {
    /// The simulator does not know it.
    Unsupported(String),
    /// It is not PTX.
    Invalid(String),
}

pub(super) type Lower<T> = Result<T, Stop>;

pub(super) fn invalid<T>(message: impl Into<String>) -> Lower<T> {
    Err(Stop::Invalid(message.into()))
}

pub(super) fn unsupported<T>(reason: impl Into<String>) -> Lower<T> {
    Err(Stop::Unsupported(reason.into()))
}
