//! **Hypothesis.** Even one meeting is two trips over the link, one after the other: the flag goes there, and the values are fetched.
//! Values that are pushed, with a flag in every 8 bytes, take one.
//!
//! **Change.** Each rank stores its values in the staging memory of all, 4 bytes of values and the number of the sum at a time, and
//! polls its own staging memory until all numbers are there. There is no fence and no meeting.
//!
//! **Floor.** 2(N − 1)·n bytes come into each device; one trip over the link.

use common::prelude::*;

use super::staged::{Protocol, Staged};
use super::{Method, Step};

/// `kernels/all_reduce_08_flags_in_data.cu`.
pub const SOURCE: KernelSource = kernel_source!("all_reduce_08_flags_in_data");

/// Two halves of lines from each rank.
pub const PROTOCOL: Protocol =
    Protocol { kernel: "push", unit: 8, unit_sent: 16, staged_units: |ranks| 2 * ranks, meets: false };

/// The step.
pub const STEP: Step = Step {
    number: 8,
    name: "flags in the data",
    idea: "values pushed with a flag in every 8 bytes",
    source: SOURCE,
    method: Method(|source, group, most| Ok(Box::new(Staged::new(group, most * size_of::<f32>(), source, PROTOCOL)?))),
};

/// Nanoseconds that this step saves compared with two shots by flags for tiny sums: measured on two H100s, at 1 and 16 KiB. (Of
/// H200s, two save 4,800 and four 6,800.)
const SAVED_NS: usize = 6000;

/// Bytes of lines received by a device per nanosecond: measured there, between 512 KiB and 4 MiB.
const BYTES_PER_NS: usize = 320;

/// No larger sum is pushed, whatever the arithmetic says. On those H100s this step gained at 512 KiB and lost at 4 MiB; sizes
/// between them have not been timed, and staging memory takes 4 bytes per byte and rank.
const MOST_BYTES: usize = 512 << 10;

/// Bytes of a sum up to which this step is expected to be the fastest. It saves α compared with two shots by flags, and sends
/// more bytes to each device: 2(N − 1)·n instead of 2(N − 1)/N·n. Both cost the same where 2(N − 1)²/N·n·β = α.
pub fn most_bytes(ranks: usize) -> usize {
    let others = ranks.saturating_sub(1).max(1);
    (SAVED_NS * BYTES_PER_NS * ranks / (2 * others * others)).min(MOST_BYTES)
}

#[cfg(test)]
mod tests {
    use super::most_bytes;

    #[test]
    fn more_ranks_have_fewer_small_sums() {
        assert_eq!([1, 2, 4, 8, 16].map(most_bytes), [512 << 10, 512 << 10, 426_666, 156_734, 68_266]);
    }
}
