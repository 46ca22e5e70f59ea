//! **Hypothesis.** All links work at the same time, in one direction, if each device talks to its neighbour only: a part of the values
//! goes round and grows by those of each rank, then goes round again finished.
//!
//! **Change.** 2(N − 1) hand-overs of n/N values, each with events, a launch or a copy per device.
//!
//! **Floor.** 2(N − 1)/N·n bytes come into each device, which is the least that any way without switches that add up needs; the latency
//! of 2(N − 1) hand-overs.

use common::prelude::*;

use super::{AllReduce, Method, Operands, PER_VECTOR, Step, VECTOR, kernels, part};

/// The step.
pub const STEP: Step = Step {
    number: 2,
    name: "ring",
    idea: "parts go round, neighbour to neighbour",
    source: kernel_source!("all_reduce_02_ring"),
    method: Method(|source, group, _| Ok(Box::new(Ring { kernels: kernels(source, group, "add_received")? }))),
};

struct Ring {
    kernels: Vec<Kernel>,
}

impl Ring {
    /// One hand-over: the device of `rank` adds its values of a part to those of its left neighbour, whose own are the first.
    fn add(
        &self,
        operands: &mut Operands,
        rank: usize,
        left: usize,
        [begin, end]: [usize; 2],
        first: bool,
    ) -> Result<()> {
        let Operands { streams, values, sums, .. } = &mut *operands;
        let [received, own] = sums.get_disjoint_mut([left, rank]).map_err(|_| same_device())?;
        let received = if first { &values[left] } else { &*received };
        let bounds = [begin as u64, end as u64];
        let mut launch = streams[rank].launch_builder(&self.kernels[rank]);
        launch.peer(received).arg(&values[rank]).arg(own).arg(&bounds[0]).arg(&bounds[1]);
        let blocks = (end - begin).div_ceil(256).clamp(1, 1024) as u32;
        let config = LaunchConfig { grid_dim: (blocks, 1, 1), block_dim: (256, 1, 1), shared_mem_bytes: 0 };
        // SAFETY: all buffers have room for `end` vectors.
        unsafe { launch.launch(config)? };
        drop(launch);
        operands.launched(rank, (end - begin) * VECTOR);
        Ok(())
    }
}

impl AllReduce for Ring {
    fn queue(&mut self, operands: &mut Operands) -> Result<()> {
        let (ranks, vectors) = (operands.ranks(), operands.vectors());
        if ranks == 1 {
            let Operands { streams, values, sums, .. } = operands;
            return streams[0].memcpy_dtod(&values[0], &mut sums[0]);
        }
        let size = part(vectors, ranks);
        let bounds = |part: usize| [(part * size).min(vectors), ((part + 1) * size).min(vectors)];
        operands.meet()?;
        for step in 0..2 * (ranks - 1) {
            if step > 0 {
                wait_for_left(operands)?;
            }
            for rank in 0..ranks {
                let left = (rank + ranks - 1) % ranks;
                // Part p starts at rank p, and has come one rank further with each step.
                let [begin, end] = bounds((left + 2 * ranks - step) % ranks);
                if step < ranks - 1 {
                    self.add(operands, rank, left, [begin, end], step == 0)?;
                    continue;
                }
                let Operands { streams, sums, asked, .. } = &mut *operands;
                let [from, to] = sums.get_disjoint_mut([left, rank]).map_err(|_| same_device())?;
                let values = begin * PER_VECTOR..end * PER_VECTOR;
                streams[rank].memcpy_peer(&from.slice(values.clone()), &mut to.slice_mut(values))?;
                asked.copies += 1;
                asked.received[rank] += (end - begin) * VECTOR;
            }
        }
        operands.meet()
    }
}

/// Each device waits for the work that its left neighbour has queued now.
fn wait_for_left(operands: &mut Operands) -> Result<()> {
    let events = operands.streams.iter().map(Stream::record_event).collect::<Result<Vec<_>>>()?;
    let lefts = events.iter().cycle().skip(events.len() - 1);
    for (stream, event) in operands.streams.iter().zip(lefts) {
        stream.wait(event)?;
        operands.asked.waits += 1;
    }
    Ok(())
}

fn same_device() -> Error {
    Error::Invalid("a ring of one device has no neighbours".to_owned())
}
