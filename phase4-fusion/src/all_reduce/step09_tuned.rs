//! **Hypothesis.** Which step is fastest is a matter of the size: fewest hand-overs for small sums, fewest bytes for large ones, and for
//! the largest the copy engines, which fill the links better than loads of SMs do.
//!
//! **Change.** Step 8 up to the size where its bytes cost as much as a hand-over ([`step08_flags_in_data::most_bytes`]), then step 6, and
//! from [`RING_BYTES`] on step 2.

use common::prelude::*;

use super::{AllReduce, Method, Operands, Step, step02_ring, step06_two_shot_flags, step08_flags_in_data};

/// The step: it uses the others' kernels, so it needs no file of its own.
pub const STEP: Step = Step {
    number: 9,
    name: "tuned",
    idea: "8 for small sums, then 6, then 2",
    source: step08_flags_in_data::SOURCE,
    method: Method(|_, group, most| {
        let small_bytes = step08_flags_in_data::most_bytes(group.len());
        Ok(Box::new(Tuned::new(group, most, [small_bytes, RING_BYTES])?))
    }),
};

/// Bytes of a sum from which the ring is taken. On four H200s its events cost 130 µs more than flags, and it moved 351 GB/s at 1 GiB where
/// step 6 moved 315; on two, 36 µs, 355 and 337. By these numbers the two steps break even at 240 to 270 MB. A line between the record's
/// times at 64 MiB and 1 GiB says 130 to 180 MB, so this is the cautious end.
pub const RING_BYTES: usize = 256 << 20;

/// Sums of up to a number of values, by three steps.
pub struct Tuned {
    small_bytes: usize,
    ring_bytes: usize,
    small: Box<dyn AllReduce>,
    large: Box<dyn AllReduce>,
    largest: Box<dyn AllReduce>,
}

impl Tuned {
    /// Sums of up to `most` values: up to `small_bytes` by step 8, from `ring_bytes` on by step 2.
    ///
    /// # Errors
    /// Same as the steps.
    pub fn new(group: &DeviceGroup, most: usize, [small_bytes, ring_bytes]: [usize; 2]) -> Result<Tuned> {
        let prepare = |step: Step, most| (step.method.0)(&step.source, group, most);
        Ok(Tuned {
            small_bytes,
            ring_bytes,
            small: prepare(step08_flags_in_data::STEP, most.min(small_bytes / size_of::<f32>()))?,
            large: prepare(step06_two_shot_flags::STEP, most)?,
            largest: prepare(step02_ring::STEP, most)?,
        })
    }
}

impl AllReduce for Tuned {
    fn queue(&mut self, operands: &mut Operands) -> Result<()> {
        let bytes = operands.len() * size_of::<f32>();
        if bytes <= self.small_bytes {
            self.small.queue(operands)
        } else if bytes < self.ring_bytes {
            self.large.queue(operands)
        } else {
            self.largest.queue(operands)
        }
    }
}
