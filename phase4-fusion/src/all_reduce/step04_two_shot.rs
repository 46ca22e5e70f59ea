//! **Hypothesis.** For large sums the bytes count, and of one shot most are read N − 1 times: let each device add up one part.
//!
//! **Change.** A launch that adds up a part, a meeting, and one that fetches the other parts.
//!
//! **Floor.** 2(N − 1)/N·n bytes come into each device, as by the ring; two hand-overs instead of 2(N − 1).

use common::prelude::*;

use super::step03_one_shot::grid;
use super::{AllReduce, Method, Operands, Step, VECTOR, kernels, part};

/// The step.
pub const STEP: Step = Step {
    number: 4,
    name: "two shots",
    idea: "each device adds up a part for all",
    source: kernel_source!("all_reduce_04_two_shot"),
    method: Method(|source, group, _| {
        let (scatter, gather) = (kernels(source, group, "reduce_scatter")?, kernels(source, group, "all_gather")?);
        Ok(Box::new(TwoShot { scatter, gather }))
    }),
};

struct TwoShot {
    scatter: Vec<Kernel>,
    gather: Vec<Kernel>,
}

impl AllReduce for TwoShot {
    fn queue(&mut self, operands: &mut Operands) -> Result<()> {
        let (ranks, vectors) = (operands.ranks(), operands.vectors());
        let size = part(vectors, ranks);
        let bounds = |rank: usize| [rank * size, (rank + 1) * size].map(|at| at.min(vectors) as u64);
        let (n, size, count) = (vectors as u64, size as u64, ranks as u32);
        operands.meet()?;
        for rank in 0..ranks {
            let [begin, end] = bounds(rank);
            let Operands { streams, values, sums, .. } = &mut *operands;
            let peers = Peers::new(values.iter_mut());
            let mut launch = streams[rank].launch_builder(&self.scatter[rank]);
            launch.arg(&peers).arg(&mut sums[rank]).arg(&begin).arg(&end).arg(&count);
            // SAFETY: all buffers have room for so many vectors.
            unsafe { launch.launch(grid((end - begin) as usize))? };
            drop(launch);
            operands.launched(rank, (ranks - 1) * (end - begin) as usize * VECTOR);
        }
        operands.meet()?;
        for rank in 0..ranks {
            let [begin, end] = bounds(rank);
            let Operands { streams, sums, .. } = &mut *operands;
            let (number, peers) = (rank as u32, Peers::new(sums.iter_mut()));
            let mut launch = streams[rank].launch_builder(&self.gather[rank]);
            launch.arg(&peers).arg(&n).arg(&size).arg(&number).arg(&count);
            // SAFETY: as above; each rank writes its own sums, outside of the part that others read.
            unsafe { launch.launch(grid(size as usize))? };
            drop(launch);
            operands.launched(rank, (vectors - (end - begin) as usize) * VECTOR);
        }
        operands.meet()
    }
}
