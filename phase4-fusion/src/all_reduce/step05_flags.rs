//! **Hypothesis.** Of a small sum's time most is events: the host records them and queues waits for them, and a launch begins late.
//!
//! **Change.** The devices meet inside the kernel, by flags of system scope in each other's memory, block by block.
//!
//! **Floor.** As of one shot: (N − 1)·n bytes; a flag's way over the link before, and one after.

use common::device::launch_together;
use common::prelude::*;

use super::flags::Flags;
use super::{AllReduce, Method, Operands, Step, VECTOR, kernels};

/// The step.
pub const STEP: Step = Step {
    number: 5,
    name: "flags",
    idea: "one shot; devices meet by flags in memory",
    source: kernel_source!("all_reduce_05_flags"),
    method: Method(|source, group, _| {
        let flags = Flags::new(group, &group.devices()[0].load(source)?)?;
        Ok(Box::new(OneShotFlags { kernels: kernels(source, group, "one_shot_flags")?, flags }))
    }),
};

struct OneShotFlags {
    kernels: Vec<Kernel>,
    flags: Flags,
}

impl AllReduce for OneShotFlags {
    fn queue(&mut self, operands: &mut Operands) -> Result<()> {
        let (ranks, vectors) = (operands.ranks(), operands.vectors());
        let Operands { streams, values, sums, .. } = &mut *operands;
        let config = self.flags.config(streams[0].device(), vectors);
        let (values, flags) = (Peers::new(values.iter_mut()), Peers::new(self.flags.flags.iter_mut()));
        let (n, count) = (vectors as u64, ranks as u32);
        let numbers: Vec<u32> = (0..count).collect();
        let own = self.kernels.iter().zip(&mut self.flags.states).zip(&*streams).zip(sums).zip(&numbers);
        let mut launches = Vec::with_capacity(ranks);
        for ((((kernel, state), stream), sums), rank) in own {
            let mut launch = stream.launch_builder(kernel);
            launch.arg(&values).arg(sums).arg(&n).arg(&flags).arg(state).arg(rank).arg(&count);
            launches.push((launch, config));
        }
        // SAFETY: all buffers have room for so many vectors; the kernels meet before they read each other's memory and after.
        unsafe { launch_together(&mut launches)? };
        drop(launches);
        (0..ranks).for_each(|rank| operands.launched(rank, (ranks - 1) * vectors * VECTOR));
        Ok(())
    }
}
