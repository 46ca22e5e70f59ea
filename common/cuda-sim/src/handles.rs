//! Handles, by which programs know things of the library.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use crate::abi::{Code, Handle, Outcome};
use crate::tell::locked;

/// Things that a program knows by a handle.
#[derive(Debug)]
pub(crate) struct Handles<T>(Mutex<BTreeMap<Handle, Arc<T>>>);

/// Handles of all kinds come from one sequence, so that one of another kind is recognised as wrong.
static NEXT: AtomicU32 = AtomicU32::new(0x100);

/// A handle that nothing else has: a multiple of 16, as addresses of structures are.
pub(crate) fn new_handle() -> Handle {
    16 * NEXT.fetch_add(1, Ordering::Relaxed) as usize
}

impl<T> Default for Handles<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T> Handles<T> {
    pub(crate) fn add(&self, thing: T) -> Handle {
        let handle = new_handle();
        locked(&self.0).insert(handle, Arc::new(thing));
        handle
    }

    pub(crate) fn get(&self, handle: Handle) -> Outcome<Arc<T>> {
        locked(&self.0).get(&handle).cloned().ok_or(Code::INVALID_HANDLE)
    }

    pub(crate) fn remove(&self, handle: Handle) -> Outcome<Arc<T>> {
        locked(&self.0).remove(&handle).ok_or(Code::INVALID_HANDLE)
    }

    /// The handle of the thing for which a condition holds.
    pub(crate) fn find(&self, is_it: impl Fn(&T) -> bool) -> Outcome<Handle> {
        let things = locked(&self.0);
        things.iter().find(|(_, thing)| is_it(thing)).map(|(handle, _)| *handle).ok_or(Code::INVALID_HANDLE)
    }

    /// Removes what a condition does not hold for.
    pub(crate) fn retain(&self, keep: impl Fn(&T) -> bool) {
        locked(&self.0).retain(|_, thing| keep(thing));
    }
}
