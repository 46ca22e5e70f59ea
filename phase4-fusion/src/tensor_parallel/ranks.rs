//! The plans of all ranks, which one thread of the host runs together.

use common::prelude::*;
use phase3_all_layers::backends::workspace::{Intermediate, Pass, Workspace};
use phase3_all_layers::nn::graph::Graph as Recorded;

use super::split::split;
use super::sum::Sum;
use crate::models::Arithmetic;
use crate::models::plan::{Plan, RankSum, Running};
use crate::models::runner::{allocate, copy_inputs, given, owned};

/// Whether the ranks' terms are summed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sums {
    /// Each by the method that is expected to be the fastest.
    Chosen,
    /// Each rank adds a share of all of them.
    Shared,
    /// They are not, and no rank waits for another: for measurements of the rest. The results are wrong.
    LeftOut,
}

/// A model over the devices of a group, one rank on each, with its memory.
///
/// The first pass queues each launch by itself. On GPUs the later ones are a graph for each rank, in which the sums are kernels that wait
/// for those of the other ranks; the simulator queues launch by launch.
#[derive(Debug)]
pub struct Ranks {
    ranks: Vec<Rank>,
    /// `None` if there is nothing to sum.
    sum: Option<Sum>,
    passes: Passes,
}

/// One device's part.
#[derive(Debug)]
struct Rank {
    stream: Stream,
    plan: Plan,
    inputs: Vec<Tensor>,
    /// Outputs of the last pass.
    outputs: Vec<Intermediate>,
    workspace: Workspace,
}

#[derive(Debug)]
enum Passes {
    /// The next one is the first.
    First,
    /// Launch by launch.
    Plain,
    /// A graph of each rank.
    Graphs(Vec<GraphExec>),
}

impl Ranks {
    /// Splits a recorded model with inputs of these shapes over the devices, plans each part and allocates all memory.
    ///
    /// # Errors
    /// Same as [`split`], [`Ranks::of_graphs`].
    pub fn new(
        group: &DeviceGroup,
        arithmetic: Arithmetic,
        graph: &Recorded,
        inputs: &[&[usize]],
        sums: Sums,
    ) -> Result<Ranks> {
        let parts = (0..group.len()).map(|rank| split(graph, rank, group.len()));
        Ranks::of_graphs(group, arithmetic, parts, inputs, sums)
    }

    /// The ranks of a model that is already split: a graph for each device. Each is planned before the next one is requested.
    ///
    /// # Errors
    /// Errors of `parts`; same as [`Plan::new`], [`Workspace::plan`] and [`Sum::new`]; [`Error::Invalid`] if there are not as
    /// many parts as devices, or they do not sum the same values.
    pub fn of_graphs(
        group: &DeviceGroup,
        arithmetic: Arithmetic,
        parts: impl IntoIterator<Item = Result<Recorded>>,
        inputs: &[&[usize]],
        sums: Sums,
    ) -> Result<Ranks> {
        let ranks =
            group.devices().iter().zip(parts).map(|(device, part)| Rank::new(device, arithmetic, part?, inputs));
        let ranks = ranks.collect::<Result<Vec<_>>>()?;
        let first: Vec<u64> = ranks.first().map_or_else(Vec::new, |rank| rank.plan.sums().collect());
        if ranks.len() != group.len() || !ranks.iter().all(|rank| rank.plan.sums().eq(first.iter().copied())) {
            return Err(Error::Invalid("each device has a part of the model, and all of them sum the same".to_owned()));
        }
        let sum = match sums {
            Sums::LeftOut => None,
            _ if first.is_empty() => None,
            sums => Some(Sum::new(group, sums == Sums::Shared)?),
        };
        Ok(Ranks { ranks, sum, passes: Passes::First })
    }

    /// Plan of each rank.
    pub fn plans(&self) -> impl ExactSizeIterator<Item = &Plan> {
        self.ranks.iter().map(|rank| &rank.plan)
    }

    /// Plan of rank 0.
    pub fn first_plan(&self) -> &Plan {
        &self.ranks[0].plan
    }

    /// Rank 0's stream: on it a pass begins with the inputs and ends after all ranks.
    pub fn stream(&self) -> &Stream {
        &self.ranks[0].stream
    }

    /// Bytes that each device receives from the others in a pass, if there are sums.
    pub fn link_bytes(&self) -> u64 {
        let of = |sum: &Sum| self.first_plan().sums().map(|bytes| sum.link_bytes(bytes)).sum();
        self.sum.as_ref().map_or(0, of)
    }

    /// A pass with its copies: the inputs from the host, f32 in NCHW, and the first output of rank 0 to the host.
    ///
    /// # Errors
    /// [`Error::Inputs`] if there are more or fewer inputs than planned, [`Error::Shape`] if they have other shapes; those of the
    /// launches.
    pub fn infer(&mut self, inputs: &[&Tensor]) -> Result<Tensor> {
        let first = &mut self.ranks[0];
        copy_inputs(&first.stream, inputs, &mut first.inputs)?;
        self.queue()?;
        self.output(0)
    }

    /// The first output of the last pass on a rank's device, on the host.
    ///
    /// # Errors
    /// [`Error::Invalid`] if there was no pass, or there is no such rank.
    pub fn output(&self, rank: usize) -> Result<Tensor> {
        let missing = || Error::Invalid(format!("rank {rank} has no output"));
        let rank = self.ranks.get(rank).ok_or_else(missing)?;
        let y = rank.outputs.first().ok_or_else(missing)?;
        Tensor::from_vec(y.shape(), rank.stream.clone_dtoh(y.buffer()?)?)
    }

    // ANCHOR: queue
    /// Queues a pass over rank 0's inputs, which the others copy from its device. On GPUs it is one launch per rank.
    ///
    /// # Errors
    /// Errors of the launches.
    pub fn queue(&mut self) -> Result<()> {
        self.broadcast()?;
        match &self.passes {
            Passes::Graphs(graphs) => {
                for (graph, rank) in graphs.iter().zip(&self.ranks) {
                    graph.launch(&rank.stream)?;
                }
            }
            Passes::Plain => self.launch_all(&self.streams())?,
            Passes::First => {
                let streams = self.streams();
                self.launch_all(&streams)?;
                // The simulator queues what waits for other devices' launches at once, or not at all.
                self.passes = if streams[0].device().is_sim() {
                    Passes::Plain
                } else {
                    let graphs = capture_all(&streams, Vec::new(), &mut |recordings| self.launch_all(recordings))?;
                    Passes::Graphs(graphs.iter().map(Graph::instantiate).collect::<Result<_>>()?)
                };
            }
        }
        let (first, others) = self.ranks.split_at(1);
        others.iter().try_for_each(|rank| first[0].stream.join(&rank.stream))
    }

    fn broadcast(&mut self) -> Result<()> {
        let (first, others) = self.ranks.split_at_mut(1);
        for rank in others {
            rank.stream.join(&first[0].stream)?;
            for (from, to) in first[0].inputs.iter().zip(&mut rank.inputs) {
                rank.stream.memcpy_peer(from.buffer()?, to.buffer_mut()?)?;
            }
        }
        Ok(())
    }
    // ANCHOR_END: queue

    /// Stream of each rank.
    fn streams(&self) -> Vec<Stream> {
        self.ranks.iter().map(|rank| rank.stream.clone()).collect()
    }

    // ANCHOR: together
    /// Queues the launches of all ranks one by one: each rank's up to the next sum, then the sum for all of them.
    fn launch_all(&mut self, streams: &[Stream]) -> Result<()> {
        let Ranks { ranks, sum, .. } = self;
        // Their memory is the next outputs'.
        ranks.iter_mut().for_each(|rank| rank.outputs.clear());
        let passes: Vec<Pass> =
            ranks.iter_mut().zip(streams).map(|(rank, stream)| rank.workspace.pass(stream)).collect();
        let mut running: Vec<Running<'_>> =
            ranks.iter().zip(&passes).map(|(rank, pass)| rank.plan.start(pass, given(pass, &rank.inputs))).collect();
        loop {
            let sums = running.iter_mut().map(|rank| rank.to_next_sum(&mut |_, _| Ok(())));
            let mut sums: Vec<RankSum<'_>> = sums.filter_map(Result::transpose).collect::<Result<_>>()?;
            if sums.is_empty() {
                break;
            }
            if let Some(sum) = sum {
                sum.queue(streams, &mut sums)?;
            }
            running.iter_mut().zip(sums).for_each(|(rank, sum)| rank.summed(sum));
        }
        let outputs = running.into_iter().map(|rank| owned(rank.outputs()?)).collect::<Result<Vec<_>>>()?;
        ranks.iter_mut().zip(outputs).for_each(|(rank, outputs)| rank.outputs = outputs);
        Ok(())
    }
    // ANCHOR_END: together
}

/// One graph per stream, of the work that `work` queues on all of them.
fn capture_all(
    streams: &[Stream],
    mut recordings: Vec<Stream>,
    work: &mut dyn FnMut(&[Stream]) -> Result<()>,
) -> Result<Vec<Graph>> {
    let Some((first, rest)) = streams.split_first() else { return work(&recordings).map(|()| Vec::new()) };
    let mut graphs = Vec::new();
    let graph = first.capture(|recording| {
        recordings.push(recording.clone());
        graphs = capture_all(rest, recordings, work)?;
        Ok(())
    })?;
    graphs.insert(0, graph);
    Ok(graphs)
}

impl Rank {
    fn new(device: &Device, arithmetic: Arithmetic, part: Recorded, inputs: &[&[usize]]) -> Result<Rank> {
        let plan = Plan::new(device, arithmetic, part, inputs)?;
        let (inputs, workspace) = allocate(device, &plan, |plan, pass, inputs| {
            let mut running = plan.start(pass, inputs);
            while let Some(sum) = running.to_next_sum(&mut |_, _| Ok(()))? {
                running.summed(sum);
            }
            running.outputs().map(drop)
        })?;
        Ok(Rank { stream: device.stream(), plan, inputs, outputs: Vec::new(), workspace })
    }
}
