//! A model as a list of launches: each with its kernel, and the reason for it.
//!
//! A plan is what passes over phase 3's recorded graph leave: [`fuse::all`] gathers the operations of a launch, then each node gets a
//! kernel, by the family of its operations, with changes of layout where two of them differ. A family is a file: the kernels as types
//! that implement [`PlannedKernel`], and the choice among them, which takes a node or refuses it with a reason.
//!
//! | family | nodes |
//! | --- | --- |
//! | `convolution`, `linear` | products on tensor cores, with the `product`'s epilogue |
//! | `eight_bit` | products of bytes |
//! | `attention` | attention, with no scores in memory |
//! | `pointwise`, `pool`, `join` | kernels between products, channels last |
//! | `layout` | changes of layout and type, and transpositions, which launch nothing |
//! | `rank_sum` | sums over ranks, where a pass waits for those of other devices |
//! | `single` | planes of f32: every node that the others refuse |
//!
//! # Adding a kernel
//! 1. Its launcher, a type that loads and queues it, stands outside this folder (`gemm`, `conv`, `nhwc` …), with its trial.
//! 2. Its family's file gets a type that implements [`PlannedKernel`], and the choice: which nodes it takes, and a
//!    `Refusal` for the others. `launches_of` tries families in order; a new one is a file, and an arm there.
//! 3. If it takes operations that no launch took before, `fuse` learns to gather them: `EpilogueSpec` says what may follow a
//!    product.
//!
//! `--explain` and the test of a model's plan then show it.

mod attention;
mod convolution;
mod eight_bit;
mod join;
mod launch;
mod layout;
mod linear;
mod pointwise;
mod pool;
mod product;
mod rank_sum;
mod refusal;
mod running;
mod single;
mod table;
mod value;

use std::rc::Rc;
use std::sync::Arc;

use common::prelude::*;
use phase2_conv_bn::{conv as conv_f32, gemm as gemm_f32};
use phase3_all_layers::backends::Unfused;
use phase3_all_layers::nn::Operation;
use phase3_all_layers::nn::graph::{Graph, Node, Operand, Source};
use phase3_all_layers::nn::schedule::{Operands, Schedule};

use self::eight_bit::InBytes;
pub(super) use self::launch::names;
pub use self::launch::{Call, Launch, PlannedKernel};
use self::launch::{Description, Work};
use self::linear::Group;
pub use self::rank_sum::{Finish, RankSum};
use self::refusal::Refusal;
pub use self::running::{Running, WithInputs};
pub use self::value::Edge;
use self::value::{Form, LaunchOperand, LaunchSource, Place, PlacedValue};
use super::int8::{self, Scales};
use super::{Arithmetic, fuse};
use crate::attention::{Attention, Products, Tuned as TunedAttention};
use crate::conv::{self, s8};
use crate::gemm::{self, Precision, ROW_BYTES};
use crate::nhwc::{Convert, LayerNorm, Pointwise};
use crate::planes;
use crate::recast::Recast;

/// Imports of each family's file.
mod prelude {
    pub(super) use common::prelude::*;
    pub(super) use phase3_all_layers::backends::workspace::Intermediate;
    pub(super) use phase3_all_layers::nn::Operation;
    pub(super) use phase3_all_layers::nn::graph::{Node, Operand, Source};

    pub(super) use super::launch::{Call, Description, PlannedKernel, bytes_of, names};
    pub(super) use super::product::{Added, ColumnRange, Product};
    pub(super) use super::refusal::{Choice, Refusal, Refused};
    pub(super) use super::value::{Form, LaunchOperand, LaunchSource, Place, PlacedValue};
    pub(super) use super::{Cores, Planner, loaded};
    pub(super) use crate::models::fuse::{Addition, EpilogueSpec};
    pub(super) use crate::models::runner::Flowing;
}

/// Error bound in f32 that every implementation of the course keeps to.
const IN_F32: f64 = 1e-5;

/// Launches in their order, each after those whose results it takes.
#[derive(Debug)]
pub struct Plan {
    /// Whether its launches differ in what they compute with.
    mixed: bool,
    inputs: Vec<Edge>,
    outputs: Vec<Edge>,
    launches: Vec<Launch>,
    /// Operands of the launches, and the places of the outputs.
    schedule: Schedule,
    /// Rewrites before launches were chosen.
    notes: Vec<String>,
    /// Phase 3's kernels, and the memory that they have asked for.
    unfused: Unfused,
    /// Phase 2's convolutions and products, if one was needed.
    f32: Option<Arc<conv_f32::Tuned>>,
    gemm_f32: Option<gemm_f32::Tuned>,
}

/// The format of each node of a fused graph.
#[derive(Clone, Debug, PartialEq)]
pub struct Formats {
    /// One per node of [`fuse::all`]. Where no kernel computes a node with it, phase 3 does in f32.
    pub each: Vec<Arithmetic>,
    /// Steps of bytes and 8-bit floats.
    pub scales: Scales,
}

/// The formats that a plan is asked for.
#[derive(Clone, Copy)]
enum Wanted<'a> {
    /// The same for all nodes; in bytes with these steps.
    Uniform(Arithmetic, Option<&'a Scales>),
    Each(&'a Formats),
}

impl<'a> Wanted<'a> {
    fn format(&self, node: usize) -> Arithmetic {
        match self {
            Wanted::Uniform(arithmetic, _) => *arithmetic,
            Wanted::Each(formats) => formats.each.get(node).copied().unwrap_or_default(),
        }
    }

    /// Whether nodes have formats of their own.
    fn is_mixed(&self) -> bool {
        matches!(self, Wanted::Each(_))
    }

    fn scales(&self) -> Option<&'a Scales> {
        match self {
            Wanted::Uniform(_, scales) => *scales,
            Wanted::Each(formats) => Some(&formats.scales),
        }
    }
}

/// The form in which a plan leaves its outputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ends {
    /// In planes of f32, for the host.
    Planes,
    /// As its launches make them, for another plan.
    AsMade,
}

fn planes_of(inputs: &[&[usize]]) -> Vec<Edge> {
    inputs.iter().map(|shape| Edge::planes(shape)).collect()
}

impl Plan {
    /// For a recorded model with inputs of these shapes: fuses, chooses and loads. Where the GPU has no tensor cores of the kind that
    /// the kernels need, everything is in f32.
    ///
    /// # Errors
    /// Errors of copies and kernels; [`Error::Shape`].
    pub fn new(device: &Device, arithmetic: Arithmetic, graph: Graph, inputs: &[&[usize]]) -> Result<Plan> {
        if arithmetic == Arithmetic::Int8 {
            return Err(int8::only_resnet18(device));
        }
        Plan::of(device, Wanted::Uniform(arithmetic, None), graph, planes_of(inputs), None)
    }

    /// A plan for a part of a model, whose inputs lie on the device as the plans of other parts have left them.
    ///
    /// # Errors
    /// As [`Plan::new`].
    pub fn of_part(
        device: &Device,
        arithmetic: Arithmetic,
        graph: Graph,
        inputs: Vec<Edge>,
        ends: Ends,
    ) -> Result<Plan> {
        if arithmetic == Arithmetic::Int8 {
            return Err(int8::only_resnet18(device));
        }
        Plan::of(device, Wanted::Uniform(arithmetic, None), graph, inputs, Some(ends))
    }

    /// [`Plan::new`] with bytes of these steps between ResNet18's convolutions, and f16 elsewhere.
    ///
    /// # Errors
    /// As [`Plan::new`]; [`Error::Invalid`] if the steps are those of another network.
    pub fn in_bytes(device: &Device, graph: Graph, inputs: &[&[usize]], scales: &Scales) -> Result<Plan> {
        Plan::of(device, Wanted::Uniform(Arithmetic::Int8, Some(scales)), graph, planes_of(inputs), None)
    }

    /// [`Plan::new`] with a format for each node, and conversions where two of them differ.
    ///
    /// # Errors
    /// As [`Plan::new`]; [`Error::Invalid`] if the formats are those of another model.
    pub fn mixed(device: &Device, graph: Graph, inputs: &[&[usize]], formats: &Formats) -> Result<Plan> {
        Plan::of(device, Wanted::Each(formats), graph, planes_of(inputs), None)
    }

    fn of(
        device: &Device,
        wanted: Wanted<'_>,
        mut graph: Graph,
        inputs: Vec<Edge>,
        part: Option<Ends>,
    ) -> Result<Plan> {
        let mut notes = fuse::all(&mut graph)?;
        if let Wanted::Each(formats) = wanted
            && formats.each.len() != graph.nodes.len()
        {
            let (given, nodes) = (formats.each.len(), graph.nodes.len());
            return Err(Error::Invalid(format!("{given} formats were given for a model of {nodes} nodes")));
        }
        let mut planner = Planner::new(device, wanted, &graph, &inputs)?;
        if part.is_none() {
            planner.rows_last_from_the_start()?;
        }
        for layers in fuse::side_by_side(&graph)? {
            notes.push(format!("{} linear layers of one input are one launch.", layers.nodes.len()));
            planner.side_by_side.push(Group { layers, place: None });
        }
        for node in &graph.nodes {
            planner.node(node)?;
        }
        let ends = part.unwrap_or(Ends::Planes);
        let ends = graph.outputs().iter().map(|output| planner.output(output, ends)).collect::<Result<Vec<_>>>()?;
        let (places, outputs): (Vec<Operand>, Vec<Edge>) = ends.into_iter().unzip();
        let Planner { launches, operands, unfused, f32, gemm_f32, .. } = planner;
        let schedule = Schedule::new(operands, places);
        Ok(Plan { mixed: wanted.is_mixed(), inputs, outputs, launches, schedule, notes, unfused, f32, gemm_f32 })
    }

    /// The shape of its first input.
    pub fn input_shape(&self) -> &[usize] {
        self.inputs.first().map_or(&[], Edge::shape)
    }

    /// The shapes of all of them.
    pub fn input_shapes(&self) -> impl Iterator<Item = &[usize]> {
        self.inputs.iter().map(Edge::shape)
    }

    /// Its inputs.
    pub fn inputs(&self) -> &[Edge] {
        &self.inputs
    }

    /// Its outputs.
    pub fn outputs(&self) -> &[Edge] {
        &self.outputs
    }

    /// The launches.
    pub fn launches(&self) -> &[Launch] {
        &self.launches
    }

    /// Error that the largest output may have, as a part of it, to first order: each product's weights, operand and result are rounded
    /// once, and layers keep the magnitude of their values, so that relative errors add up from product to product. In f32
    /// it is what every implementation of the course keeps to.
    pub fn error_bound(&self) -> f64 {
        self.roundings().map(|(times, one)| times * one).sum::<f64>().max(IN_F32)
    }

    /// Roundings on the way from the input to the output, where it is not in f32: three of each product; and of a sum over ranks, whose
    /// terms were rounded as results of products, the sum itself. How many, and the error of each.
    fn roundings(&self) -> impl Iterator<Item = (f64, f64)> {
        let rounded = |launch: &&Launch| launch.format != Arithmetic::F32;
        let of_launch = |launch: &Launch| match (launch.flops, &launch.work) {
            (Some(_), _) => Some((3.0, launch.format.round_off())),
            (None, Work::RankSum(_)) => Some((1.0, launch.format.round_off())),
            (None, Work::Kernel(_)) => None,
        };
        self.launches.iter().filter(rounded).filter_map(of_launch)
    }

    /// Error that the largest output is likely to have, as a part of it: roundings are as often up as down, so that n of them add up as
    /// √n of one (Higham and Mary, "A New Approach to Probabilistic Rounding Error Analysis", 2019), and none of 512 values is
    /// expected beyond four times that. tf32's cut of operands goes one way only; [`Plan::error_bound`] is for that too.
    pub fn likely_error(&self) -> f64 {
        let squares = self.roundings().map(|(times, one)| times * one * one).sum::<f64>();
        (4.0 * squares.sqrt()).max(IN_F32)
    }

    /// Bytes of device memory beside activations: parameters, Winograd's transforms of weights, and what kernels have asked for so far.
    pub fn bytes(&self) -> [u64; 3] {
        let [transformed, scratch] = self.unfused.scratch_bytes();
        let kernels = || self.launches.iter().filter_map(|launch| launch.work.kernel());
        let of_f32 = self.f32.as_ref().map_or(0, |conv| conv.workspace_bytes() as u64)
            + self.gemm_f32.as_ref().map_or(0, |gemm| gemm.workspace_bytes() as u64);
        let parameters = kernels().map(PlannedKernel::parameter_bytes).sum();
        [parameters, transformed + kernels().map(PlannedKernel::prepared_bytes).sum::<u64>(), scratch + of_f32]
    }

    /// Bytes that are summed over all ranks by each launch that does so: of a rank's values, in the order of the launches.
    pub fn sums(&self) -> impl Iterator<Item = u64> {
        self.launches.iter().filter(|launch| matches!(launch.work, Work::RankSum(_))).map(|launch| launch.form.bytes())
    }
}

/// The kernels in `slot`, which are loaded when they are used first.
fn loaded<K: Clone>(slot: &mut Option<K>, load: impl FnOnce() -> Result<K>) -> Result<K> {
    if let Some(kernels) = slot {
        return Ok(kernels.clone());
    }
    Ok(slot.insert(load()?).clone())
}

/// Kernels for tensor cores.
struct Cores {
    precision: Precision,
    conv: conv::Tuned,
    gemm: gemm::Tuned,
    convert: Convert,
    pointwise: Pointwise,
    layer_norm: LayerNorm,
    attention: attention::Kernels,
}

impl Cores {
    fn load(device: &Device, precision: Precision) -> Result<Cores> {
        device.load_ahead(conv::Tuned::sources().chain(gemm::Tuned::sources()));
        Ok(Cores {
            precision,
            conv: conv::Tuned::load(device)?,
            gemm: gemm::Tuned::load(device)?,
            convert: Convert::load(device)?,
            pointwise: Pointwise::load(device)?,
            layer_norm: LayerNorm::load(device)?,
            attention: match precision {
                Precision::Tf32 => attention::Kernels::Single(Attention::over_f32(device, Products::Tf32)?),
                _ => attention::Kernels::Tuned(Box::new(TunedAttention::load(device)?)),
            },
        })
    }

    /// Channels of a step along K.
    fn step(&self) -> usize {
        ROW_BYTES / self.precision.input().size()
    }

    /// This number of channels, filled up to whole steps.
    fn filled(&self, channels: usize) -> usize {
        channels.next_multiple_of(self.step())
    }

    /// Images channels last, with these channels.
    fn last(&self, [n, _, h, w]: [usize; 4], channels: usize) -> Form {
        Form::channels_last([n, channels, h, w], self.precision.input())
    }

    /// Rows as images of one pixel, with whole steps of channels.
    fn rows(&self, rows: usize, columns: usize) -> Form {
        self.last([rows, columns, 1, 1], self.filled(columns))
    }
}

struct Planner<'d> {
    device: &'d Device,
    unfused: Unfused,
    f32: Option<Arc<conv_f32::Tuned>>,
    gemm_f32: Option<gemm_f32::Tuned>,
    wanted: Wanted<'d>,
    /// For each precision that is wanted, where the GPU has it.
    cores: Vec<Rc<Cores>>,
    /// Why a node has none.
    no_cores: Refusal,
    launches: Vec<Launch>,
    /// Operands of each launch.
    operands: Vec<Operands>,
    inputs: Vec<PlacedValue>,
    nodes: Vec<PlacedValue>,
    /// Operands of attentions: their channels have to be as they are.
    attended: Vec<Source>,
    /// Attention in f32, if it was needed.
    attention_f32: Option<attention::Kernels>,
    /// Sums in planes, if they were needed.
    sums: Option<planes::Pointwise>,
    side_by_side: Vec<Group>,
    /// If convolutions are in bytes.
    in_bytes: Option<Rc<InBytes>>,
    /// Changes of type, if they were needed.
    recast: Option<Recast>,
}

impl<'d> Planner<'d> {
    /// With the kernels for tensor cores that a fused graph needs.
    fn new(device: &'d Device, wanted: Wanted<'d>, graph: &Graph, inputs: &[Edge]) -> Result<Planner<'d>> {
        let (mut cores, mut no_cores) = (Vec::new(), Refusal::WantedInF32);
        let nodes = 0..graph.nodes.len();
        for precision in [Precision::F16, Precision::Tf32] {
            if !nodes.clone().any(|node| wanted.format(node).on_tensor_cores() == Some(precision)) {
                continue;
            }
            match Cores::load(device, precision) {
                Ok(loaded) => cores.push(Rc::new(loaded)),
                Err(error) if error.is_unsupported() => no_cores = Refusal::NoTensorCores(error.to_string()),
                Err(error) => return Err(error),
            }
        }
        let in_bytes = |node: usize| wanted.format(node) == Arithmetic::Int8;
        let in_bytes = match wanted.scales() {
            Some(scales)
                if cores.iter().any(|cores| cores.precision == Precision::F16) && nodes.clone().any(in_bytes) =>
            {
                let wide = match wanted {
                    Wanted::Uniform(..) => int8::not_in_bytes(graph),
                    Wanted::Each(_) => int8::needed_wide(graph, in_bytes),
                };
                Some(Rc::new(InBytes { kernels: s8::ConvS8::load(device)?, scales: scales.clone(), wide }))
            }
            _ => None,
        };
        let attends =
            |node: &Node| matches!(node.operations[..], [Operation::Attention { .. }]).then_some(node.x.source);
        let given = |(number, edge)| PlacedValue::given(edge, LaunchSource::Input(number));
        Ok(Planner {
            device,
            unfused: Unfused::new(device),
            f32: None,
            gemm_f32: None,
            wanted,
            cores,
            no_cores,
            launches: Vec::new(),
            operands: Vec::new(),
            inputs: inputs.iter().enumerate().map(given).collect(),
            nodes: Vec::new(),
            attended: graph.nodes.iter().filter_map(attends).collect(),
            attention_f32: None,
            sums: None,
            side_by_side: Vec::new(),
            in_bytes,
            recast: None,
        })
    }

    fn value(&mut self, source: Source) -> &mut PlacedValue {
        match source {
            Source::Input(number) => &mut self.inputs[number],
            Source::Node(number) => &mut self.nodes[number],
        }
    }

    /// Adds a launch; the place of its result.
    fn push(
        &mut self,
        description: Description,
        kernel: impl PlannedKernel + 'static,
        x: LaunchOperand,
        with: Option<LaunchOperand>,
        form: Form,
    ) -> Place {
        self.push_work(description, Work::Kernel(Box::new(kernel)), x, with, form)
    }

    fn push_work(
        &mut self,
        description: Description,
        work: Work,
        x: LaunchOperand,
        with: Option<LaunchOperand>,
        form: Form,
    ) -> Place {
        let Description { layers, why, kind, flops } = description;
        let kernel = work.kernel();
        let columns = kernel.and_then(PlannedKernel::columns_read);
        let all = |operand: &LaunchOperand| operand.shape.iter().product::<usize>();
        let of_with = with.as_ref().map_or(0, |with| {
            let values = columns.map_or_else(|| all(with), |columns| with.shape[0] * columns);
            values * self.size_of(with.source)
        });
        let parameters = kernel.map_or(0, PlannedKernel::parameter_bytes);
        let bytes = (all(&x) * self.size_of(x.source) + of_with) as u64 + form.bytes() + parameters;
        let (kernel, node, format) = (work.name(), self.nodes.len(), self.format());
        let place = Place { form: form.clone(), source: LaunchSource::Launch(self.launches.len()) };
        self.launches.push(Launch { layers, kernel, why, bytes, flops, format, node, kind, form, work });
        self.operands.push(Operands { x: x.into(), with: with.map(Operand::from) });
        place
    }

    /// The format that the node is wanted in that is next.
    fn format(&self) -> Arithmetic {
        self.wanted.format(self.nodes.len())
    }

    /// Kernels of a precision.
    fn cores_of(&self, precision: Precision) -> Option<Rc<Cores>> {
        self.cores.iter().find(|cores| cores.precision == precision).cloned()
    }

    /// Kernels for tensor cores of the node that is next; `None` if it is in f32.
    fn cores(&self) -> Option<Rc<Cores>> {
        self.cores_of(self.format().on_tensor_cores()?)
    }

    /// Bytes of a value that a launch reads.
    fn size_of(&self, source: LaunchSource) -> usize {
        match source {
            // The first place of an input is where the caller has put it.
            LaunchSource::Input(number) => self.inputs[number].places[0].form.element.size(),
            LaunchSource::Launch(launch) => self.launches[launch].form.element.size(),
        }
    }

    fn node(&mut self, node: &Node) -> Result<()> {
        let value = match self.part_of_a_group(node)? {
            Some(part) => part,
            None => self.launches_of(node)?,
        };
        self.nodes.push(value);
        Ok(())
    }

    fn launches_of(&mut self, node: &Node) -> Result<PlacedValue> {
        let ranks = |(at, operation): (usize, &Operation)| match operation {
            Operation::AllReduce { ranks } => Some((at, *ranks)),
            _ => None,
        };
        if let Some((at, ranks)) = node.operations.iter().enumerate().find_map(ranks) {
            return self.rank_sum(node, at, ranks);
        }
        let choice = match (&node.operations[..], self.cores()) {
            ([Operation::Attention { .. }], cores) => self.attention(cores.as_deref(), node),
            (_, None) if self.format() == Arithmetic::F32 => Err(Refusal::WantedInF32.into()),
            (_, None) => Err(self.no_cores.clone().into()),
            ([Operation::Conv2d { .. }, ..], Some(cores)) => match self.in_bytes(&cores, node)? {
                Some(value) => Ok(value),
                None => self.conv(&cores, node),
            },
            ([Operation::Linear { .. }, ..], Some(cores)) => self.linear_on(&cores, node),
            ([Operation::Transpose], Some(cores)) => self.transpose(&cores, node),
            ([Operation::LayerNorm { .. }], Some(cores)) => self.layer_norm(&cores, node),
            ([Operation::BatchNorm { .. }, ..] | [Operation::Add | Operation::AddChannel], Some(cores)) => {
                self.pointwise(&cores, node)
            }
            ([Operation::Concatenate | Operation::Upsample { .. }], Some(cores)) => self.join(&cores, node),
            ([Operation::MaxPool(_) | Operation::AveragePool], Some(cores)) => self.pool(&cores, node),
            _ => Err(Refusal::NoKernel.into()),
        };
        self.or_single(node, choice)
    }

    /// Sees to it that an output exists as it is wanted: its place, in the shape of its form, and how it lies.
    fn output(&mut self, output: &Operand, ends: Ends) -> Result<(Operand, Edge)> {
        let value = self.value(output.source);
        let (rows, as_made) = (value.rows, value.last().filter(|_| ends == Ends::AsMade));
        let (source, edge) = match as_made {
            Some(Place { form, source }) => (source, Edge { shape: output.shape.clone(), rows, form }),
            None => (self.planes(output)?.source, Edge::planes(&output.shape)),
        };
        Ok((LaunchOperand { source, shape: edge.form.shape.clone() }.into(), edge))
    }
}
