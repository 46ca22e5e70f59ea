//! **Hypothesis.** For small sums the hand-overs count, not the bytes: let every device read all.
//!
//! **Change.** The same launch on all devices, between two meetings by events. Loads of 16 bytes, four from each device under way.
//!
//! **Floor.** (N − 1)·n bytes come into each device, and as many go out; one hand-over before the values can be read.

use common::prelude::*;

use super::{AllReduce, Method, Operands, Step, VECTOR, kernels};

/// The step.
pub const STEP: Step = Step {
    number: 3,
    name: "one shot",
    idea: "every device reads all",
    source: kernel_source!("all_reduce_03_one_shot"),
    method: Method(|source, group, _| Ok(Box::new(OneShot { kernels: kernels(source, group, "one_shot")? }))),
};

struct OneShot {
    kernels: Vec<Kernel>,
}

impl AllReduce for OneShot {
    fn queue(&mut self, operands: &mut Operands) -> Result<()> {
        let (ranks, vectors) = (operands.ranks(), operands.vectors());
        operands.meet()?;
        for rank in 0..ranks {
            let Operands { streams, values, sums, .. } = &mut *operands;
            let peers = Peers::new(values.iter_mut());
            let (n, count) = (vectors as u64, ranks as u32);
            let mut launch = streams[rank].launch_builder(&self.kernels[rank]);
            launch.arg(&peers).arg(&mut sums[rank]).arg(&n).arg(&count);
            // SAFETY: all buffers have room for so many vectors.
            unsafe { launch.launch(grid(vectors))? };
            drop(launch);
            operands.launched(rank, (ranks - 1) * vectors * VECTOR);
        }
        operands.meet()
    }
}

/// A vector per thread, up to about what a GPU runs at once.
pub(super) fn grid(vectors: usize) -> LaunchConfig {
    let blocks = vectors.div_ceil(256).clamp(1, 512) as u32;
    LaunchConfig { grid_dim: (blocks, 1, 1), block_dim: (256, 1, 1), shared_mem_bytes: 0 }
}
