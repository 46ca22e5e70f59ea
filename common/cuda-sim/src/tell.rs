//! Sentences for whoever runs the program, and what the library goes on by after them.

use std::collections::BTreeSet;
use std::io::Write;
use std::sync::{Mutex, MutexGuard, PoisonError};

use ptx_sim::MemoryError;

use crate::abi::Code;

/// The content of a mutex, whether or not a panic has left it.
pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Prints a sentence to the terminal of the program, once.
pub(crate) fn say(sentence: &str) {
    static SAID: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
    if !locked(&SAID).insert(sentence.to_owned()) {
        return;
    }
    let _ = writeln!(std::io::stderr(), "cuda-sim: {sentence}");
}

/// Prints why the device does not take a copy or a fill.
pub(crate) fn refused(error: &MemoryError) -> Code {
    say(&error.to_string());
    match error {
        MemoryError::OutOfMemory { .. } | MemoryError::HostOutOfMemory { .. } | MemoryError::Limit { .. } => {
            Code::OUT_OF_MEMORY
        }
        _ => Code::INVALID_VALUE,
    }
}
