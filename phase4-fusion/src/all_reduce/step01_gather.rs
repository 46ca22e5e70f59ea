//! **Hypothesis.** The plainest way: one device reads what all have, adds up, and the others fetch the sums.
//!
//! **Change.** A kernel reads the memory of other devices; two meetings by events around it, and a third so that the sums may change.
//!
//! **Floor.** (N − 1)·n bytes come into rank 0, then (N − 1)·n go out of it: 2(N − 1)·n ÷ the bandwidth of a link, and three hand-overs.

use common::prelude::*;

use super::{AllReduce, Method, Operands, Step};

/// The step.
pub const STEP: Step = Step {
    number: 1,
    name: "gather",
    idea: "rank 0 reads all, adds up; the others copy",
    source: kernel_source!("all_reduce_01_gather"),
    method: Method(|source, group, _| {
        let kernel = group.devices()[0].kernel(source, "gather_sum")?;
        Ok(Box::new(Gather { kernel }))
    }),
};

struct Gather {
    kernel: Kernel,
}

impl AllReduce for Gather {
    fn queue(&mut self, operands: &mut Operands) -> Result<()> {
        let (len, ranks) = (operands.len(), operands.ranks());
        let bytes = len * size_of::<f32>();
        operands.meet()?;
        let Operands { streams, values, sums, .. } = operands;
        let peers = Peers::new(values.iter_mut());
        let (n, count) = (len as u64, ranks as u32);
        let mut launch = streams[0].launch_builder(&self.kernel);
        launch.arg(&peers).arg(&mut sums[0]).arg(&n).arg(&count);
        let blocks = u32::try_from(len.div_ceil(256).max(1))
            .map_err(|_| Error::Invalid(format!("all-reduce: {len} values are more than a launch has threads")))?;
        let config = LaunchConfig { grid_dim: (blocks, 1, 1), block_dim: (256, 1, 1), shared_mem_bytes: 0 };
        // SAFETY: the kernel compares its index with n, and all buffers have at least as many values.
        unsafe { launch.launch(config)? };
        drop(launch);
        operands.launched(0, (ranks - 1) * bytes);
        operands.meet()?;
        let Operands { streams, sums, asked, .. } = operands;
        if let Some((first, others)) = sums.split_first_mut() {
            for (rank, (stream, sums)) in streams[1..].iter().zip(others).enumerate() {
                stream.memcpy_peer(&first.slice(..len), &mut sums.slice_mut(..len))?;
                asked.copies += 1;
                asked.received[1 + rank] += bytes;
            }
        }
        operands.meet()
    }
}
