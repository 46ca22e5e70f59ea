//! **Hypothesis.** Two shots in one kernel need no meeting between them if a rank writes its part to all others itself: large sums are
//! then bound by the links alone.
//!
//! **Change.** A rank reads its part of all, adds up, and stores the sums in the memory of all. Reads come in while stores go out.
//!
//! **Floor.** 2(N − 1)/N·n bytes come into each device; a flag's way over the link before, and one after.

use common::device::launch_together;
use common::prelude::*;

use super::flags::Flags;
use super::{AllReduce, Method, Operands, Step, VECTOR, kernels, part};

/// The step.
pub const STEP: Step = Step {
    number: 6,
    name: "two shots by flags",
    idea: "a part each, written to all, in one kernel",
    source: kernel_source!("all_reduce_06_two_shot_flags"),
    method: Method(|source, group, _| {
        let flags = Flags::new(group, &group.devices()[0].load(source)?)?;
        Ok(Box::new(TwoShotFlags { kernels: kernels(source, group, "two_shot_flags")?, flags }))
    }),
};

struct TwoShotFlags {
    kernels: Vec<Kernel>,
    flags: Flags,
}

impl AllReduce for TwoShotFlags {
    fn queue(&mut self, operands: &mut Operands) -> Result<()> {
        let (ranks, vectors) = (operands.ranks(), operands.vectors());
        let size = part(vectors, ranks);
        let Operands { streams, values, sums, .. } = &mut *operands;
        let config = self.flags.config(streams[0].device(), size);
        let (values, sums) = (Peers::new(values.iter_mut()), Peers::new(sums.iter_mut()));
        let flags = Peers::new(self.flags.flags.iter_mut());
        let (n, part, count) = (vectors as u64, size as u64, ranks as u32);
        let numbers: Vec<u32> = (0..count).collect();
        let mut launches = Vec::with_capacity(ranks);
        for (((kernel, state), stream), rank) in
            self.kernels.iter().zip(&mut self.flags.states).zip(&*streams).zip(&numbers)
        {
            let mut launch = stream.launch_builder(kernel);
            launch.arg(&values).arg(&sums).arg(&n).arg(&part).arg(&flags).arg(state).arg(rank).arg(&count);
            launches.push((launch, config));
        }
        // SAFETY: as in step 5; each rank writes its own part of all sums, which no other touches.
        unsafe { launch_together(&mut launches)? };
        drop(launches);
        for rank in 0..ranks {
            let own = ((rank + 1) * size).min(vectors) - (rank * size).min(vectors);
            // Its part of the others' values, and the others' parts of the sums.
            operands.launched(rank, ((ranks - 1) * own + vectors - own) * VECTOR);
        }
        Ok(())
    }
}
