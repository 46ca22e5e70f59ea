//! A limit that many threads raise and none lowers.

use std::sync::{Mutex, PoisonError};

/// Maximum value set so far.
#[derive(Debug, Default)]
pub(crate) struct HighWater(Mutex<u32>);

impl HighWater {
    /// Calls `set(wanted)` if `wanted` is above all earlier values. Others wait meanwhile: if the comparison and the call
    /// were two steps, a thread with a smaller value could come between them and set it last.
    ///
    /// # Errors
    /// Errors of `set`; the value then counts as not set.
    pub(crate) fn raise<E>(&self, wanted: u32, set: impl FnOnce(u32) -> Result<(), E>) -> Result<(), E> {
        let mut highest = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if wanted > *highest {
            set(wanted)?;
            *highest = wanted;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    #[test]
    fn a_limit_that_threads_raise_at_once_is_never_too_low() {
        const WANTED: [u32; 4] = [50, 200, 100, 150];
        for round in 0..300 {
            let (limit, driver) = (HighWater::default(), AtomicU32::new(0));
            std::thread::scope(|scope| {
                for wanted in WANTED {
                    let (limit, driver) = (&limit, &driver);
                    scope.spawn(move || {
                        let set = |value| {
                            // As long as a call of the driver takes, and others run meanwhile.
                            std::thread::yield_now();
                            driver.store(value, Ordering::SeqCst);
                            Ok::<_, ()>(())
                        };
                        limit.raise(wanted, set).unwrap();
                        let now = driver.load(Ordering::SeqCst);
                        assert!(now >= wanted, "round {round}: asked for {wanted}, but the limit is {now}");
                    });
                }
            });
            assert_eq!(driver.into_inner(), 200);
        }
    }

    #[test]
    fn a_limit_that_could_not_be_set_is_set_again() {
        let limit = HighWater::default();
        assert_eq!(limit.raise(100, |_| Err("refused")), Err("refused"));
        let mut calls = Vec::new();
        for wanted in [100, 40, 100, 120] {
            let set = |value| {
                calls.push(value);
                Ok::<_, ()>(())
            };
            limit.raise(wanted, set).unwrap();
        }
        assert_eq!(calls, [100, 120]);
    }
}
