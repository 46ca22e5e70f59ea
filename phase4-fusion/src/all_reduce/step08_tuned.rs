//! **Hypothesis.** Which step is fastest is a matter of the size: one meeting for small sums, fewest bytes for large ones.
//!
//! **Change.** [`SMALL`]: up to there step 7, beyond it step 6.

use common::prelude::*;

use super::{AllReduce, Method, Operands, Step, step06_two_shot_flags, step07_resident};

/// Bytes up to which the latency counts more than the bytes.
pub const SMALL: usize = 512 << 10;

/// The step: both of the others' kernels, of which it needs no file of its own.
pub const STEP: Step = Step {
    number: 8,
    name: "tuned",
    idea: "7 up to 512 KiB, then 6",
    source: step07_resident::SOURCE,
    method: Method(|source, group, most| {
        let small = (step07_resident::STEP.method.0)(source, group, most.min(SMALL / size_of::<f32>()))?;
        let large = step06_two_shot_flags::STEP;
        Ok(Box::new(Tuned { small, large: (large.method.0)(&large.source, group, most)? }))
    }),
};

struct Tuned {
    small: Box<dyn AllReduce>,
    large: Box<dyn AllReduce>,
}

impl AllReduce for Tuned {
    fn queue(&mut self, operands: &mut Operands) -> Result<()> {
        let small = operands.len() * size_of::<f32>() <= SMALL;
        if small { self.small.queue(operands) } else { self.large.queue(operands) }
    }
}
