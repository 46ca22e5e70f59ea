//! Frames by the U-Net with a memory: its parts are separate plans, and a part that is not due returns its last result.
//!
//! ```text
//! input ─→ head ─→ first residual ─→ full resolution, down ─→ deep ─→ full resolution, up ─→ noise
//!                  changed tiles                              every n-th step or frame
//! ```
//!
//! The deep part runs from a level down to the middle and back up. It leaves one image, at the size of the level above, and is given what
//! changes slowly (Ma, Fang and Wang, "DeepCache: Accelerating Diffusion Models for Free", 2024). What the parts leave for each other
//! stays on the device in the form in which they have it, and a step is one graph: there is one for a step in which the deep part runs and
//! one for a step in which its last result is taken.

use std::collections::HashMap;
use std::fmt;

use common::prelude::*;
use phase3_all_layers::backends::workspace::{Pass, Workspace};
use phase3_all_layers::commands::video::{Step, StepLayers, WEIGHT};
use phase3_all_layers::models::unet::{Config, INPUTS, LATENTS, deep_nodes, first_residual};
use phase3_all_layers::nn::graph::{Graph, Operand, Source};
use phase3_all_layers::nn::{Operation, Parameters, second};

use super::tiles::{Kept, TiledResidual};
use crate::models::Arithmetic;
use crate::models::plan::{Edge, Ends, Plan};
use crate::models::runner::Flowing;

/// When the deep part runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Every {
    /// In each n-th step of a frame, starting with the first; in between its last result is reused.
    Steps(usize),
    /// In all steps of each n-th frame; in between the result of the same step of an earlier frame is reused.
    Frames(usize),
}

/// Where the deep part begins, and when it runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deep {
    /// Number of times that sides have been halved, 1 to 3.
    pub level: usize,
    /// When it runs.
    pub every: Every,
}

/// Results that are reused, and when.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Rule {
    /// The deep part's result.
    pub deep: Option<Deep>,
    /// Reuses tiles of the first residual block whose input changed by no more than this since the same step of an earlier frame.
    pub threshold: Option<f32>,
}

impl Rule {
    /// Whether the deep part runs in a step of a frame.
    fn is_due(&self, frame: usize, step: usize) -> bool {
        match self.deep.map(|deep| deep.every) {
            None => true,
            Some(Every::Steps(n)) => step.is_multiple_of(n),
            Some(Every::Frames(n)) => frame.is_multiple_of(n),
        }
    }

    /// Where the network must be cut for it.
    pub fn cut(&self) -> Cut {
        Cut { level: self.deep.map(|deep| deep.level), tiles: self.threshold.is_some() }
    }

    /// Share of `steps` of `frames` in which the deep part runs.
    pub fn deep_share(&self, frames: usize, steps: usize) -> f64 {
        let due = (0..frames).flat_map(|frame| (0..steps).map(move |step| (frame, step)));
        due.filter(|&(frame, step)| self.is_due(frame, step)).count() as f64 / (frames * steps) as f64
    }
}

impl fmt::Display for Rule {
    /// `whole`, or the reused parts: `L1 1/3 steps`, `Δ ≤ 0.05`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let deep = self.deep.map(|Deep { level, every }| match every {
            Every::Steps(n) => format!("L{level} 1/{n} steps"),
            Every::Frames(n) => format!("L{level} 1/{n} frames"),
        });
        let tiles = self.threshold.map(|threshold| format!("Δ ≤ {threshold}"));
        let parts: Vec<String> = deep.into_iter().chain(tiles).collect();
        f.write_str(if parts.is_empty() { "whole".to_owned() } else { parts.join(", ") }.as_str())
    }
}

/// Where a network is cut.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cut {
    /// The level that the deep part begins with.
    pub level: Option<usize>,
    /// Whether the first residual block is over tiles.
    pub tiles: bool,
}

/// A part of the network.
#[derive(Debug)]
enum Work {
    /// Launches.
    Plan(Box<Plan>),
    /// The first residual block, over changed tiles.
    Tiles(Box<TiledResidual>),
}

/// A part with its inputs and outputs as numbered in the whole network.
#[derive(Debug)]
struct Section {
    work: Work,
    inputs: Vec<Source>,
    outputs: Vec<Source>,
    is_deep: bool,
}

/// The network in parts, for frames of one size.
#[derive(Debug)]
pub struct Network {
    cut: Cut,
    side: usize,
    sections: Vec<Section>,
    output: Source,
    /// Result of the deep part, and input and output of the tiled block.
    deep: Option<Edge>,
    tiled: Option<Edge>,
}

/// A result that a step reuses, or computes and keeps.
struct Memory<'p> {
    deep: DeepMemory<'p>,
    tiles: Option<(f32, &'p mut Kept)>,
}

enum DeepMemory<'p> {
    /// The deep part runs; its result is kept here, if a later step uses it.
    Made(Option<&'p mut Tensor>),
    /// It does not run.
    Taken(&'p Tensor),
}

impl Network {
    /// Cuts the U-Net of these parameters and plans its parts, for latents \[1, 8, side, side\].
    ///
    /// # Errors
    /// [`Error::Invalid`] if there is no such level; [`Error::Unsupported`] for tiles in another arithmetic than f16; same as
    /// [`Config::graph`] and [`Plan::of_part`].
    pub fn new(
        device: &Device,
        config: Config,
        parameters: &Parameters,
        arithmetic: Arithmetic,
        side: usize,
        cut: Cut,
    ) -> Result<Network> {
        let latents = [1, INPUTS, side, side];
        let graph = config.graph(parameters, &latents)?;
        let output = graph.outputs()[0].source;
        let mut builder = Builder {
            device,
            arithmetic,
            edges: HashMap::new(),
            network: Network { cut, side, sections: Vec::new(), output, deep: None, tiled: None },
            graph: &graph,
        };
        builder.edges.insert(Source::Input(0), Edge::planes(&latents));
        builder.edges.insert(Source::Input(1), Edge::planes(&latents[..1]));
        let mut start = if cut.tiles { builder.tiles()? } else { 0 };
        if let Some(level) = cut.level {
            let nodes = deep_nodes(&graph, level)?;
            builder.plan(start..nodes.start, false)?;
            builder.plan(nodes.clone(), true)?;
            start = nodes.end;
        }
        builder.plan(start..graph.nodes.len(), false)?;
        Ok(builder.network)
    }

    /// Queues a pass over `x` \[N, 8, H, W\] at `steps` \[N\].
    fn noise<'p>(
        &'p self,
        pass: &'p Pass,
        x: Flowing<'p>,
        steps: Flowing<'p>,
        memory: Memory<'p>,
    ) -> Result<Flowing<'p>> {
        let Memory { mut deep, mut tiles } = memory;
        let mut values = HashMap::from([(Source::Input(0), x), (Source::Input(1), steps)]);
        for section in &self.sections {
            let inputs: Vec<Flowing<'p>> =
                section.inputs.iter().map(|input| second(values.get(input).cloned())).collect::<Result<_>>()?;
            let outputs = match (&section.work, &mut deep) {
                (Work::Plan(_), DeepMemory::Taken(kept)) if section.is_deep => vec![Flowing::given(pass, kept)],
                (Work::Plan(plan), DeepMemory::Made(kept)) if section.is_deep => {
                    let outputs = plan.run(pass, inputs, |_, _| Ok(()))?;
                    if let (Some(kept), [made]) = (kept, &outputs[..]) {
                        pass.queue("Keep", |stream| made.copy_to(stream, kept))?;
                    }
                    outputs
                }
                (Work::Plan(plan), _) => plan.run(pass, inputs, |_, _| Ok(()))?,
                (Work::Tiles(block), _) => {
                    let (threshold, kept) = second(tiles.take())?;
                    let [seen, x, channels] = [0, 1, 2].map(|at| inputs.get(at));
                    let (seen, x, channels) = (second(seen)?, second(x)?, second(channels)?);
                    pass.queue("Tiles", |stream| block.launch(stream, (seen, threshold), x, channels, kept))?;
                    vec![Flowing::given(pass, kept.output())]
                }
            };
            values.extend(section.outputs.iter().copied().zip(outputs));
        }
        second(values.remove(&self.output))
    }
}

/// Cuts the network.
struct Builder<'a> {
    device: &'a Device,
    arithmetic: Arithmetic,
    graph: &'a Graph,
    /// Memory layout of each value that crosses a cut.
    edges: HashMap<Source, Edge>,
    network: Network,
}

impl Builder<'_> {
    fn edge(&self, source: Source) -> Result<Edge> {
        second(self.edges.get(&source).cloned())
    }

    /// A part by launches.
    fn plan(&mut self, nodes: std::ops::Range<usize>, is_deep: bool) -> Result<()> {
        let is_last = nodes.end == self.graph.nodes.len();
        let part = self.graph.part(nodes)?;
        let sources = |operands: &[Operand]| operands.iter().map(|operand| operand.source).collect::<Vec<_>>();
        let (inputs, outputs) = (sources(&part.inputs), sources(&part.outputs));
        let edges = inputs.iter().map(|&source| self.edge(source)).collect::<Result<_>>()?;
        let ends = if is_last { Ends::Planes } else { Ends::AsMade };
        let plan = Plan::of_part(self.device, self.arithmetic, part.graph, edges, ends)?;
        self.edges.extend(outputs.iter().copied().zip(plan.outputs().iter().cloned()));
        if is_deep {
            self.network.deep = plan.outputs().first().cloned();
        }
        self.network.sections.push(Section { work: Work::Plan(Box::new(plan)), inputs, outputs, is_deep });
        Ok(())
    }

    /// Adds the launches before the first residual block, and the tiled block; returns the node after it.
    fn tiles(&mut self) -> Result<usize> {
        if self.arithmetic != Arithmetic::F16 {
            return Err(Error::Unsupported {
                what: format!("tiles in {}", self.arithmetic),
                device: self.device.short_name(),
                reason: "the convolution over tiles multiplies f16".to_owned(),
            });
        }
        let nodes = first_residual(self.graph)?;
        self.plan(0..nodes.start, false)?;
        // The linear layer of the embedding.
        let linear = nodes.start + 3;
        self.plan(linear..linear + 1, false)?;
        let input = self.graph.nodes[nodes.start].x.source;
        let edge = self.edge(input)?;
        let channels = edge.shape_only()?.shape().get(1).copied().unwrap_or(0);
        let operations: Vec<&Operation> =
            self.graph.nodes[nodes.clone()].iter().map(|node| &node.operations[0]).collect();
        let block = TiledResidual::new(self.device, &operations, channels)?;
        let output = Source::Node(nodes.end - 1);
        self.edges.insert(output, edge.clone());
        self.network.tiled = Some(edge);
        self.network.sections.push(Section {
            work: Work::Tiles(Box::new(block)),
            inputs: vec![Source::Input(0), input, Source::Node(linear)],
            outputs: vec![output],
            is_deep: false,
        });
        Ok(nodes.end)
    }
}

/// Frames, and their costs.
#[derive(Debug)]
pub struct Made {
    /// \[1, 4, side, side\] each, on the host.
    pub frames: Vec<Tensor>,
    /// Milliseconds of a frame on a GPU, the mean of all but the first; `None` on the simulator, and for a single frame.
    pub ms: Option<f64>,
    /// Instructions of a frame counted by lane, the same mean on the simulator.
    pub lane_instructions: Option<f64>,
    /// Share of the first residual block's tiles that was computed; `None` if the rule has no tiles.
    pub tiles_made: Option<f64>,
}

/// Makes frames from noisy latents, by a rule.
#[derive(Debug)]
pub struct Sampler<'n> {
    network: &'n Network,
    rule: Rule,
    layers: StepLayers,
    steps: Vec<Step>,
    /// Memory of a step in which the deep part runs, and of one in which it does not.
    due: Workspace,
    taken: Workspace,
    /// The same two as graphs for each step, if the device has graphs.
    graphs: Vec<[Option<GraphExec>; 2]>,
    state: State,
}

/// State that changes from step to step.
#[derive(Debug)]
struct State {
    x: Tensor,
    previous: Tensor,
    /// Results of the deep part: one for all steps, or one for each; none without such a rule.
    deep: Vec<Tensor>,
    /// Kept tiles of each step, if the rule has tiles.
    tiles: Vec<Kept>,
}

impl State {
    /// Parts of the state that a step uses, with tiles within this threshold.
    fn of_step(&mut self, step: usize, is_due: bool, threshold: Option<f32>) -> (&mut Tensor, &Tensor, Memory<'_>) {
        let one = step.min(self.deep.len().saturating_sub(1));
        let deep = match (self.deep.get_mut(one), is_due) {
            (Some(kept), false) => DeepMemory::Taken(kept),
            (kept, _) => DeepMemory::Made(kept),
        };
        (&mut self.x, &self.previous, Memory { deep, tiles: threshold.zip(self.tiles.get_mut(step)) })
    }
}

/// Settings of the frames.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Height and width of a frame's latents, a multiple of [`phase3_all_layers::models::unet::MULTIPLE`].
    pub side: usize,
    /// Steps of a frame.
    pub steps: usize,
    /// The timestep of the schedule up to which noise is added.
    pub noisiest: f64,
}

impl Options {
    /// The timesteps of a frame, the noisiest first.
    pub fn timesteps(&self) -> Vec<f64> {
        phase3_all_layers::commands::video::timesteps(self.noisiest, self.steps).collect()
    }
}

impl<'n> Sampler<'n> {
    /// A sampler with a network that is cut for the rule.
    ///
    /// # Errors
    /// [`Error::Invalid`] if the network has another cut or size, there is no step, or a rule's n is 0; same as
    /// [`Workspace::plan`].
    pub fn new(device: &Device, network: &'n Network, options: &Options, rule: Rule) -> Result<Sampler<'n>> {
        if let Some(Deep { every: Every::Steps(0) | Every::Frames(0), .. }) = rule.deep {
            return Err(Error::Invalid("the deep part runs every 1st step or less often, not every 0th".to_owned()));
        }
        if (network.cut, network.side) != (rule.cut(), options.side) {
            let (cut, other, side) = (network.cut, rule.cut(), options.side);
            return Err(Error::Invalid(format!(
                "a network with {cut:?} for {} is no {other:?} for {side}",
                network.side
            )));
        }
        let (stream, side) = (device.stream(), options.side);
        let layers = StepLayers::load(device)?;
        let steps = Step::all(device, &options.timesteps())?;
        let Some(first) = steps.first() else {
            return Err(Error::Invalid("a frame takes one step or more".to_owned()));
        };
        let deep = match (&network.deep, rule.deep) {
            (Some(edge), Some(deep)) => {
                let count = if matches!(deep.every, Every::Frames(_)) { steps.len() } else { 1 };
                (0..count).map(|_| edge.allocate(device)).collect::<Result<_>>()?
            }
            _ => Vec::new(),
        };
        let blocks = network.sections.iter().filter_map(|section| match &section.work {
            Work::Tiles(block) => Some(block),
            Work::Plan(_) => None,
        });
        let mut tiles = Vec::new();
        for (block, edge) in blocks.zip(&network.tiled) {
            let like = edge.shape_only()?;
            for _ in &steps {
                tiles.push(block.keep(&stream, [1, INPUTS, side, side], &like)?);
            }
        }
        let shape = [1, LATENTS, side, side];
        let empty = || Tensor::empty_on(device, &shape);
        let mut state = State { x: empty()?, previous: Tensor::zeros(&shape).to_device(device)?, deep, tiles };
        let mut plan = |is_due| {
            Workspace::plan(device, |pass| {
                let (x, previous, memory) = state.of_step(0, is_due, rule.threshold);
                layers.step(pass, first, WEIGHT, x, previous, |x, time| network.noise(pass, x, time, memory))
            })
        };
        let (due, taken) = (plan(true)?, plan(rule.deep.is_none())?);
        let graphs = steps.iter().map(|_| [None, None]).collect();
        Ok(Sampler { network, rule, layers, steps, due, taken, graphs, state })
    }

    /// Queues a step launch by launch.
    fn launch(&mut self, stream: &Stream, step: usize, is_due: bool, weight: f32) -> Result<()> {
        let Sampler { network, rule, layers, steps, due, taken, state, .. } = self;
        let (workspace, at) = (if is_due { due } else { taken }, &steps[step]);
        let (x, previous, memory) = state.of_step(step, is_due, rule.threshold);
        workspace.run(stream, |pass| {
            layers.step(pass, at, weight, x, previous, |x, time| network.noise(pass, x, time, memory))
        })
    }

    /// Makes graphs of the steps of all frames but the first, where the device has graphs.
    fn capture(&mut self, stream: &Stream, frames: usize) -> Result<()> {
        for step in 0..self.steps.len() {
            for is_due in [false, true] {
                if !(1..frames).any(|frame| self.rule.is_due(frame, step) == is_due) {
                    continue;
                }
                let captured = stream.capture(|recording| self.launch(recording, step, is_due, WEIGHT));
                match captured.and_then(|graph| graph.instantiate()) {
                    Ok(graph) => self.graphs[step][usize::from(is_due)] = Some(graph),
                    Err(error) if error.is_unsupported() => return Ok(()),
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(())
    }

    /// Makes a frame for each of `starts` \[1, 4, side, side\], noisy latents on the host, one after the other. The first frame
    /// is queued launch by launch, and loads the kernels; later ones are one graph per step.
    ///
    /// # Errors
    /// [`Error::Shape`] if one has another shape; errors of launches.
    pub fn frames(&mut self, stream: &Stream, starts: &[Tensor], mut after_frame: impl FnMut()) -> Result<Made> {
        let device = stream.device();
        let starts = starts.iter().map(|start| start.to_device(device)).collect::<Result<Vec<_>>>()?;
        let mut made: Vec<Tensor> =
            starts.iter().map(|start| Tensor::empty_on(device, start.shape())).collect::<Result<_>>()?;
        let mut begin = stream.record_event()?;
        for (frame, (start, made)) in starts.iter().zip(&mut made).enumerate() {
            if frame == 1 {
                self.capture(stream, starts.len())?;
                begin = stream.record_event()?;
            }
            start.copy_to(stream, &mut self.state.x)?;
            for step in 0..self.steps.len() {
                let is_due = self.rule.is_due(frame, step);
                match &self.graphs[step][usize::from(is_due)] {
                    Some(graph) if frame > 0 => graph.launch(stream)?,
                    // The first has no frame before it to be blended with.
                    _ => self.launch(stream, step, is_due, if frame == 0 { 1.0 } else { WEIGHT })?,
                }
            }
            let State { x, previous, .. } = &mut self.state;
            x.copy_to(stream, previous)?;
            x.copy_to(stream, made)?;
            after_frame();
        }
        let end = stream.record_event()?;
        stream.synchronize()?;
        let (count, is_measured) = (starts.len().saturating_sub(1) as f64, starts.len() > 1);
        let ms = if device.is_sim() || !is_measured { None } else { Some(f64::from(begin.elapsed_ms(&end)?) / count) };
        let counted = begin.counts_until(&end).filter(|_| is_measured);
        let mut share = None;
        for kept in &self.state.tiles {
            let listed = kept.tiles().listed_so_far(stream)? as f64;
            let all = (kept.tiles().len() * starts.len() * self.steps.len()) as f64;
            *share.get_or_insert(0.0) += listed / all;
        }
        Ok(Made {
            frames: made.iter().map(Tensor::to_host).collect::<Result<_>>()?,
            ms,
            lane_instructions: counted.map(|counts| counts.lane_instructions as f64 / count),
            tiles_made: share,
        })
    }
}
