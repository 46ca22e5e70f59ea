//! **Hypothesis.** Which step is fastest is a matter of the size: fewest hand-overs for small sums, fewest bytes for large ones.
//!
//! **Change.** Step 8 up to the size where its bytes cost as much as a hand-over ([`step08_flags_in_data::most_bytes`]), step 6 beyond.

use common::prelude::*;

use super::{AllReduce, Method, Operands, Step, step06_two_shot_flags, step08_flags_in_data};

/// The step: both of the others' kernels, of which it needs no file of its own.
pub const STEP: Step = Step {
    number: 9,
    name: "tuned",
    idea: "8 for small sums, then 6",
    source: step08_flags_in_data::SOURCE,
    method: Method(|source, group, most| {
        let small_bytes = step08_flags_in_data::most_bytes(group.len());
        let small = (step08_flags_in_data::STEP.method.0)(source, group, most.min(small_bytes / size_of::<f32>()))?;
        let large = step06_two_shot_flags::STEP;
        Ok(Box::new(Tuned { small_bytes, small, large: (large.method.0)(&large.source, group, most)? }))
    }),
};

struct Tuned {
    /// Bytes of sums up to which the one is taken, and beyond which the other.
    small_bytes: usize,
    small: Box<dyn AllReduce>,
    large: Box<dyn AllReduce>,
}

impl AllReduce for Tuned {
    fn queue(&mut self, operands: &mut Operands) -> Result<()> {
        let small = operands.len() * size_of::<f32>() <= self.small_bytes;
        if small { self.small.queue(operands) } else { self.large.queue(operands) }
    }
}
