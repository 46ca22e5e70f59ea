//! Loops on all cores, for this crate's references and its CPU: [`rayon`]'s, built once for each type of result. Used directly,
//! they are built anew for each closure, which took a tenth of this crate's build.

use rayon::prelude::*;

/// Results of `of` for each index below `len`, in order.
pub(crate) fn collect<T: Send>(len: usize, of: &(dyn Fn(usize) -> T + Sync)) -> Vec<T> {
    (0..len).into_par_iter().map(of).collect()
}

/// Calls `change` for each chunk of `len` values, the last of which may be shorter, with its number.
pub(crate) fn change_chunks<T: Send>(values: &mut [T], len: usize, change: &(dyn Fn(usize, &mut [T]) + Sync)) {
    values.par_chunks_mut(len.max(1)).enumerate().for_each(|(at, chunk)| change(at, chunk));
}
