//! Work on many pages, spread over the machine's cores.

use std::{
    num::NonZero,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

/// Runs `work` on each item, in any order; the results are in the items' order.
///
/// Uses its own threads: those of rayon, which the simulator uses, would take up another page while they wait inside one, and
/// meet the locks that it holds.
pub(crate) fn in_parallel<T: Sync, R: Send>(items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let (next, done) = (AtomicUsize::new(0), Mutex::new(Vec::with_capacity(items.len())));
    let threads = thread::available_parallelism().map_or(1, NonZero::get).min(items.len());
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    let Some(item) = items.get(at) else { break };
                    let result = work(item);
                    done.lock().unwrap_or_else(PoisonError::into_inner).push((at, result));
                }
            });
        }
    });
    let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    done.sort_by_key(|&(at, _)| at);
    done.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use super::in_parallel;

    #[test]
    fn each_item_has_its_result_in_its_place() {
        let items: Vec<usize> = (0..1000).collect();
        assert_eq!(in_parallel(&items, |&item| item * item), items.iter().map(|item| item * item).collect::<Vec<_>>());
        assert!(in_parallel(&[] as &[usize], |&item| item).is_empty());
    }
}
