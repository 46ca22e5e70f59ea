//! Errors of a warp.

#[cfg(doc)]
use super::warp::Split;
use crate::fault::FaultKind;

/// An error of a warp, before its location is known.
#[derive(Clone, Debug)]
pub(crate) struct Problem {
    pub kind: FaultKind,
    pub message: String,
    pub lanes: u32,
    pub address: Option<u64>,
    pub notes: Vec<String>,
    /// The calls that the lanes are in, innermost first, by index of their instructions; see [`Split::calls`].
    pub calls: Vec<u32>,
    /// The other access of a race.
    pub other: Option<Earlier>,
}

impl Problem {
    pub(crate) fn new(kind: FaultKind, lanes: u32, message: impl Into<String>) -> Box<Self> {
        Box::new(Self {
            kind,
            message: message.into(),
            lanes,
            address: None,
            notes: Vec::new(),
            calls: Vec::new(),
            other: None,
        })
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

/// An access that was made earlier in the launch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Earlier {
    pub what: &'static str,
    /// Number of the thread in the launch.
    pub thread: u64,
    pub pc: usize,
}
