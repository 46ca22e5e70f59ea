//! A model as a list of launches: each with its kernel, and why that one.

use std::fmt::Write;
use std::rc::Rc;
use std::sync::Arc;

use bench::table::{Cell, ColumnSpec, Table, TableBuilder};
use common::prelude::*;
use common::reference::Conv2dParams;
use phase2_conv_bn::{conv as conv_f32, gemm as gemm_f32};
use phase3_all_layers::backends::Unfused;
use phase3_all_layers::backends::workspace::Activation as WorkspaceActivation;
use phase3_all_layers::commands::video::Denoiser;
use phase3_all_layers::layers::kinds;
use phase3_all_layers::nn::graph::{Graph, Node, Operand, Source, taken};
use phase3_all_layers::nn::{Backend, Module, Operation, second};

use super::Arithmetic;
use super::e4m3;
use super::fuse::{self, SideBySide};
use super::int8::{self, Scales};
use super::parameters::{ScaleShift, filled_up, folded, rounded, scale_shift, vector};
use super::runner::{Flow, Flowing};
use crate::attention::{self, Products};
use crate::conv::{self, s8};
use crate::gemm::{self, Activation, Epilogue, Later, Layout, Precision, ROW_BYTES};
use crate::nhwc::{AveragePool, Columns, Concatenate, Convert, LayerNorm, MaxPool, Pointwise, Terms, Upsample};
use crate::planes;
use crate::recast::Recast;

/// What every implementation of the course keeps to in f32.
const IN_F32: f64 = 1e-5;
/// The kind of launches that change a layout or a type.
const CONVERSION: &str = "Layout";
/// Channels that a change of type takes at once.
const EIGHT: usize = 8;

/// Launches in their order, each after those whose results it takes.
#[derive(Debug)]
pub struct Plan {
    /// Whether its launches differ in what they compute with.
    mixed: bool,
    inputs: Vec<Edge>,
    outputs: Vec<Edge>,
    /// Where the outputs are when all launches are done, in the shapes of their forms.
    made: Vec<Operand>,
    launches: Vec<Launch>,
    /// What rewrites did before launches were chosen.
    notes: Vec<String>,
    /// The launch that needs each one's result last, if no caller needs it.
    last_use: Vec<Option<usize>>,
    /// Phase 3's kernels, and what they have asked for.
    unfused: Unfused,
    /// Phase 2's convolutions and products, if one was needed.
    f32: Option<Arc<conv_f32::Tuned>>,
    gemm_f32: Option<gemm_f32::Tuned>,
}

/// A kernel, what it works on, and why it was chosen.
#[derive(Debug)]
pub struct Launch {
    /// What it does, such as `3×3 BN Add ReLU`.
    pub layers: String,
    /// With what.
    pub kernel: String,
    /// What led to that.
    pub why: String,
    /// Bytes that it reads and writes, each value once.
    pub bytes: u64,
    /// Multiplications and additions of a product; `None` if it is none.
    pub flops: Option<u64>,
    /// What it was to compute with. The kernel says what it does where there is none for that.
    pub format: Arithmetic,
    /// The node of the fused graph ([`fuse::all`]) that it belongs to: of a conversion, the one that needs it.
    pub node: usize,
    kind: &'static str,
    x: Operand,
    with: Option<Operand>,
    made: Form,
    work: Work,
}

/// How a value lies in memory.
#[derive(Clone, Debug, PartialEq)]
struct Form {
    /// With the channels that are zeros.
    shape: Vec<usize>,
    element: ElementType,
    format: MemoryFormat,
}

impl Form {
    /// f32, a plane per channel, as phase 3 has it.
    fn planes(shape: &[usize]) -> Form {
        Form { shape: shape.to_vec(), element: ElementType::F32, format: MemoryFormat::Nchw }
    }

    fn bytes(&self) -> u64 {
        (self.shape.iter().product::<usize>() * self.element.size()) as u64
    }
}

/// A value that a plan takes or makes: what it is in the graph, and how it lies in memory.
#[derive(Clone, Debug, PartialEq)]
pub struct Edge {
    shape: Vec<usize>,
    rows: bool,
    form: Form,
}

impl Edge {
    /// In f32, a plane per channel, as the host has it.
    pub fn planes(shape: &[usize]) -> Edge {
        Edge { shape: shape.to_vec(), rows: false, form: Form::planes(shape) }
    }

    /// Its shape in the graph.
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// Bytes of memory, with channels that are zeros.
    pub fn bytes(&self) -> u64 {
        self.form.bytes()
    }

    /// Memory for it, poisoned with NaN.
    ///
    /// # Errors
    /// As [`Tensor::empty_of`].
    pub fn allocate(&self, device: &Device) -> Result<Tensor> {
        Tensor::empty_of(device, &self.form.shape, self.form.element, self.form.format)
    }

    /// Its shape in memory, without memory.
    ///
    /// # Errors
    /// As [`Tensor::shape_only_of`].
    pub(crate) fn shape_only(&self) -> Result<Tensor> {
        Tensor::shape_only_of(&self.form.shape, self.form.element, self.form.format)
    }
}

#[derive(Debug)]
enum Work {
    /// As phase 3 does it; with the bytes of its parameters.
    Plain(Box<<Unfused as Backend>::Layer>, u64),
    ToChannelsLast(Convert),
    ToChannelsFirst(Convert),
    Conv(Box<Product<conv::Tuned>>, Conv2dParams),
    /// Phase 2's, whose result lies where what it adds was.
    ConvF32(Box<ConvF32>),
    Linear(Box<Product<gemm::Tuned>>),
    /// Phase 2's, whose result lies where what it adds was.
    LinearF32(Box<LinearF32>),
    MaxPool(MaxPool),
    AveragePool(AveragePool),
    Pointwise(Box<Between>),
    /// In planes of f32.
    Planes(planes::Pointwise, Activation, Option<[usize; 2]>),
    Concatenate(Concatenate),
    Upsample(Upsample),
    LayerNorm(Box<Norm>),
    Attention(Box<Attends>, usize),
    /// To bytes of this step.
    Quantize(s8::ConvS8, f32),
    /// To another type, each value times this.
    Recast(Recast, f32),
    ConvS8(Box<Bytes>),
    /// The sum over ranks: who runs their plans queues it.
    AllReduce(Box<Finish>),
}

/// A convolution of bytes with its epilogue.
#[derive(Debug)]
struct Bytes {
    kernels: s8::ConvS8,
    weight: Tensor,
    scale: Tensor,
    shift: Tensor,
    /// Step of what is added over that of the result.
    residual_scale: f32,
    relu: bool,
    params: Conv2dParams,
}

/// What a plan in bytes has beside the others.
#[derive(Debug)]
struct InBytes {
    kernels: s8::ConvS8,
    scales: Scales,
    /// Nodes whose results are in f16.
    wide: Vec<usize>,
}

/// What is done to each value between two products.
#[derive(Debug)]
struct Between {
    kernels: Pointwise,
    scale: Option<Tensor>,
    shift: Option<Tensor>,
    activation: Activation,
    /// The first column of the second operand and their number, if it has a value per image and channel.
    by_channel: Option<[usize; 2]>,
}

/// The two ways to add a second operand.
fn added<'a>(with: Option<&'a Tensor>, by_channel: Option<[usize; 2]>) -> (Option<Columns<'a>>, Option<&'a Tensor>) {
    match (with, by_channel) {
        (Some(values), Some([first, count])) => (Some(Columns { values, first, count }), None),
        (with, _) => (None, with),
    }
}

/// LayerNorm with its parameters.
#[derive(Debug)]
struct Norm {
    kernels: LayerNorm,
    weight: Tensor,
    bias: Tensor,
    eps: f32,
}

/// Attention in the type that values have.
#[derive(Clone, Debug)]
enum Attends {
    /// f16.
    Tuned(attention::Tuned),
    /// f32.
    Single(attention::Attention),
}

impl Attends {
    fn explain(&self, size: &attention::Size) -> Result<String, String> {
        match self {
            Attends::Tuned(tuned) => tuned.explain(size),
            Attends::Single(step) => step.refuses(size).map_or_else(|| Ok(step.name().to_owned()), Err),
        }
    }

    fn queue(&self, stream: &Stream, inputs: attention::Inputs<'_>, y: &mut Tensor, lse: &mut Tensor) -> Result<()> {
        let options = attention::Options::default();
        match self {
            Attends::Tuned(tuned) => tuned.launch(stream, inputs, options, y, lse),
            Attends::Single(step) => step.launch(stream, inputs, options, y, lse),
        }
    }
}

/// A convolution in f32 planes with its epilogue.
#[derive(Debug)]
struct ConvF32 {
    kernels: Arc<conv_f32::Tuned>,
    weight: Tensor,
    /// Winograd's transform of the weight, if that is what it is launched with.
    prepared: Option<conv_f32::Prepared>,
    bias: Option<Tensor>,
    relu: bool,
    params: Conv2dParams,
}

impl ConvF32 {
    /// Adds to what `y` holds if `added`.
    fn queue(&self, stream: &Stream, x: &Tensor, added: bool, y: &mut Tensor) -> Result<()> {
        let beta = if added { 1.0 } else { 0.0 };
        let epilogue = gemm_f32::Epilogue { alpha: 1.0, beta, bias: self.bias.as_ref(), relu: self.relu };
        self.kernels.launch_prepared(stream, x, &self.weight, self.prepared.as_ref(), &epilogue, self.params, y)
    }
}

/// A linear layer in f32 with its epilogue.
#[derive(Debug)]
struct LinearF32 {
    kernels: gemm_f32::Tuned,
    weight: Tensor,
    bias: Tensor,
    relu: bool,
}

impl LinearF32 {
    /// Adds to what `y` holds if `added`.
    fn queue(&self, stream: &Stream, x: &Tensor, added: bool, y: &mut Tensor) -> Result<()> {
        let beta = if added { 1.0 } else { 0.0 };
        let epilogue = gemm_f32::Epilogue { alpha: 1.0, beta, bias: Some(&self.bias), relu: self.relu };
        self.kernels.launch(stream, x, &self.weight, gemm_f32::Layout::Transposed, &epilogue, y)
    }
}

/// A product with its epilogue.
#[derive(Debug)]
struct Product<K> {
    kernels: K,
    weight: Tensor,
    scale: Option<Tensor>,
    shift: Option<Tensor>,
    activation: Activation,
    /// How a second operand is added, if not before the activation.
    later: Option<AddedLater>,
    /// Step of the first operand, if it is in 8-bit floats.
    alpha: f32,
}

/// What is added after an activation.
#[derive(Clone, Copy, Debug)]
enum AddedLater {
    Image,
    /// The first column of an image's channels, and their number.
    Channels([usize; 2]),
}

impl<K> Product<K> {
    fn epilogue<'a>(&'a self, with: Option<&'a Tensor>) -> Epilogue<'a> {
        let (scale, shift, activation) = (self.scale.as_ref(), self.shift.as_ref(), self.activation);
        let (residual, later) = match self.later {
            None => (with, Later::default()),
            Some(AddedLater::Image) => (None, Later { image: with, channels: None }),
            Some(AddedLater::Channels(columns)) => {
                (None, Later { image: None, channels: added(with, Some(columns)).0 })
            }
        };
        Epilogue { alpha: self.alpha, scale, shift, residual, activation, later }
    }

    fn bytes(&self) -> u64 {
        let parts = [Some(&self.weight), self.scale.as_ref(), self.shift.as_ref()];
        parts.into_iter().flatten().map(|tensor| tensor.num_bytes() as u64).sum()
    }
}

impl Work {
    fn queue(&self, stream: &Stream, x: &Tensor, with: Option<&Tensor>, y: &mut Tensor) -> Result<()> {
        match self {
            Work::Plain(..) | Work::ConvF32(_) | Work::LinearF32(_) | Work::Attention(..) | Work::AllReduce(_) => {
                Err(Error::Invalid("a launch has a place of its own".to_owned()))
            }
            Work::ToChannelsLast(convert) => convert.to_channels_last(stream, x, y),
            Work::ToChannelsFirst(convert) => convert.to_channels_first(stream, x, y),
            Work::Conv(product, params) => {
                product.kernels.launch(stream, x, &product.weight, *params, &product.epilogue(with), y)
            }
            Work::Linear(product) => {
                product.kernels.launch(stream, x, &product.weight, Layout::Transposed, &product.epilogue(with), y)
            }
            Work::Quantize(kernels, step) => kernels.quantize(stream, x, *step, y),
            Work::Recast(kernels, times) => kernels.launch(stream, x, *times, y),
            Work::ConvS8(conv) => {
                let residual = with.map(|with| (with, conv.residual_scale));
                let finish = s8::Finish { scale: &conv.scale, shift: &conv.shift, residual, relu: conv.relu };
                conv.kernels.launch(stream, [x, &conv.weight], conv.params, &finish, y)
            }
            Work::MaxPool(pool) => pool.launch(stream, x, y),
            Work::AveragePool(pool) => pool.launch(stream, x, y),
            Work::Pointwise(between) => {
                let Between { kernels, scale, shift, activation, by_channel } = &**between;
                let (channels, image) = added(with, *by_channel);
                let (scale, shift) = (scale.as_ref(), shift.as_ref());
                kernels.launch(stream, x, &Terms { scale, shift, activation: *activation, channels, image }, y)
            }
            Work::Planes(kernels, activation, by_channel) => {
                let (channels, image) = added(with, *by_channel);
                kernels.launch(stream, x, &planes::Terms { activation: *activation, channels, image }, y)
            }
            Work::Concatenate(join) => join.launch(stream, x, second(with)?, y),
            Work::Upsample(upsample) => upsample.launch(stream, x, y),
            Work::LayerNorm(norm) => norm.kernels.launch(stream, x, [&norm.weight, &norm.bias], norm.eps, y),
        }
    }

    /// Bytes of parameters.
    fn bytes(&self) -> u64 {
        match self {
            Work::Conv(product, _) => product.bytes(),
            Work::Linear(product) => product.bytes(),
            Work::ConvS8(conv) => {
                [&conv.weight, &conv.scale, &conv.shift].into_iter().map(|part| part.num_bytes() as u64).sum()
            }
            Work::ConvF32(conv) => {
                [Some(&conv.weight), conv.bias.as_ref()].into_iter().flatten().map(|part| part.num_bytes() as u64).sum()
            }
            Work::LinearF32(linear) => (linear.weight.num_bytes() + linear.bias.num_bytes()) as u64,
            Work::Plain(_, bytes) => *bytes,
            Work::Pointwise(between) => {
                let parts = [between.scale.as_ref(), between.shift.as_ref()];
                parts.into_iter().flatten().map(|part| part.num_bytes() as u64).sum()
            }
            Work::LayerNorm(norm) => (norm.weight.num_bytes() + norm.bias.num_bytes()) as u64,
            _ => 0,
        }
    }
}

impl Work {
    /// Values of its second operand that it reads, if not all of them.
    fn columns(&self) -> Option<usize> {
        match self {
            Work::Pointwise(between) => between.by_channel.map(|[_, count]| count),
            Work::Planes(_, _, by_channel) => by_channel.map(|[_, count]| count),
            Work::Conv(product, _) => match product.later {
                Some(AddedLater::Channels([_, count])) => Some(count),
                _ => None,
            },
            _ => None,
        }
    }
}

impl Launch {
    /// Whether it changes a layout or a type and nothing else.
    pub fn is_conversion(&self) -> bool {
        self.kind == CONVERSION
    }

    fn run<'p>(&'p self, pass: &'p Flow, x: Flowing<'p>, with: Option<Flowing<'p>>) -> Result<Flowing<'p>> {
        if let Work::Plain(layer, _) = &self.work {
            return Ok(Flowing::made(pass, Unfused::run(layer, x, with)?));
        }
        if let Work::ConvF32(_) | Work::LinearF32(_) = &self.work {
            let added = with.is_some();
            let place = |value: Flowing<'p>| value.own();
            let mut y = with.map_or_else(|| pass.activation(&self.made.shape), place)?;
            pass.queue(self.kind, |stream| match &self.work {
                Work::ConvF32(conv) => conv.queue(stream, &x, added, &mut y),
                Work::LinearF32(linear) => linear.queue(stream, &x, added, &mut y),
                _ => Ok(()),
            })?;
            return Ok(Flowing::made(pass, y));
        }
        let mut y = pass.activation_of(&self.made.shape, self.made.element, self.made.format)?;
        if let Work::Attention(kernels, heads) = &self.work {
            let inputs = attention::Inputs::Joined { qkv: &x, heads: *heads };
            let size = inputs.size()?;
            let mut lse = pass.activation(&[size.images, size.heads, size.queries])?;
            pass.queue(self.kind, |stream| kernels.queue(stream, inputs, &mut y, &mut lse))?;
            return Ok(Flowing::made(pass, y));
        }
        pass.queue(self.kind, |stream| self.work.queue(stream, &x, with.as_deref(), &mut y))?;
        Ok(Flowing::made(pass, y))
    }
}

/// What each node of a fused graph is computed with.
#[derive(Clone, Debug, PartialEq)]
pub struct Formats {
    /// One per node of [`fuse::all`]. Where no kernel computes a node with it, phase 3 does in f32.
    pub each: Vec<Arithmetic>,
    /// By which bytes and 8-bit floats have their steps.
    pub scales: Scales,
}

/// What a plan is asked for.
#[derive(Clone, Copy)]
enum Wanted<'a> {
    /// The same for all nodes; in bytes with these steps.
    Uniform(Arithmetic, Option<&'a Scales>),
    Each(&'a Formats),
}

impl Wanted<'_> {
    fn of(&self, node: usize) -> Arithmetic {
        match self {
            Wanted::Uniform(arithmetic, _) => *arithmetic,
            Wanted::Each(formats) => formats.each.get(node).copied().unwrap_or_default(),
        }
    }

    /// Whether nodes have formats of their own.
    fn is_mixed(&self) -> bool {
        matches!(self, Wanted::Each(_))
    }

    fn scales(&self) -> Option<&Scales> {
        match self {
            Wanted::Uniform(_, scales) => *scales,
            Wanted::Each(formats) => Some(&formats.scales),
        }
    }
}

impl Plan {
    /// For a recorded model with inputs of these shapes: fuses, chooses and loads. Where the GPU has no tensor cores of the kind that
    /// the kernels need, everything is in f32.
    ///
    /// # Errors
    /// What copies and kernels report; [`Error::Shape`].
    pub fn new(device: &Device, arithmetic: Arithmetic, graph: Graph, inputs: &[&[usize]]) -> Result<Plan> {
        if arithmetic == Arithmetic::Int8 {
            return Err(int8::only_resnet18(device));
        }
        Plan::of(device, Wanted::Uniform(arithmetic, None), graph, planes(inputs), None)
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
        Plan::of(device, Wanted::Uniform(Arithmetic::Int8, Some(scales)), graph, planes(inputs), None)
    }

    /// [`Plan::new`] with a format for each node, and conversions where two of them differ.
    ///
    /// # Errors
    /// As [`Plan::new`]; [`Error::Invalid`] if the formats are those of another model.
    pub fn mixed(device: &Device, graph: Graph, inputs: &[&[usize]], formats: &Formats) -> Result<Plan> {
        Plan::of(device, Wanted::Each(formats), graph, planes(inputs), None)
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
        let (mut cores, mut reason) = (Vec::new(), "f32".to_owned());
        for precision in [Precision::F16, Precision::Tf32] {
            if !(0..graph.nodes.len()).any(|node| wanted.of(node).on_tensor_cores() == Some(precision)) {
                continue;
            }
            match Cores::load(device, precision) {
                Ok(loaded) => cores.push(Rc::new(loaded)),
                Err(error) if error.is_unsupported() => reason = error.to_string(),
                Err(error) => return Err(error),
            }
        }
        let mut planner = Planner {
            device,
            unfused: Unfused::new(device),
            f32: None,
            gemm_f32: None,
            wanted,
            cores,
            without: reason,
            launches: Vec::new(),
            inputs: inputs.iter().enumerate().map(|(number, edge)| Made::given(edge, Source::Input(number))).collect(),
            nodes: Vec::new(),
            attended: Vec::new(),
            attention_f32: None,
            sums: None,
            side_by_side: Vec::new(),
            in_bytes: None,
            recast: None,
        };
        if part.is_none() {
            planner.rows_last_from_the_start()?;
        }
        let in_bytes = |node: usize| wanted.of(node) == Arithmetic::Int8;
        if let (Some(scales), Some(_)) = (wanted.scales(), planner.cores_of(Precision::F16))
            && (0..graph.nodes.len()).any(in_bytes)
        {
            let (kernels, scales) = (s8::ConvS8::load(device)?, scales.clone());
            let wide = match wanted {
                Wanted::Uniform(..) => int8::not_in_bytes(&graph),
                Wanted::Each(_) => int8::needed_wide(&graph, in_bytes),
            };
            planner.in_bytes = Some(Rc::new(InBytes { kernels, scales, wide }));
        }
        let attends =
            |node: &Node| matches!(node.operations[..], [Operation::Attention { .. }]).then_some(node.x.source);
        planner.attended = graph.nodes.iter().filter_map(attends).collect();
        for group in fuse::side_by_side(&graph)? {
            notes.push(format!("{} linear layers of one input are one launch.", group.nodes.len()));
            planner.side_by_side.push((group, None));
        }
        for node in &graph.nodes {
            planner.node(node)?;
        }
        let ends = part.unwrap_or(Ends::Planes);
        let ends = graph.outputs().iter().map(|output| planner.output(output, ends)).collect::<Result<Vec<_>>>()?;
        let (made, outputs): (Vec<Operand>, Vec<Edge>) = ends.into_iter().unzip();
        let Planner { launches, unfused, f32, gemm_f32, .. } = planner;
        let takes = |launch: &Launch, made| {
            let operands = [Some(&launch.x), launch.with.as_ref()];
            operands.into_iter().flatten().any(|operand| operand.source == Source::Node(made))
        };
        let is_output = |launch| made.iter().any(|output| output.source == Source::Node(launch));
        let last_use = |made| launches.iter().rposition(|launch| takes(launch, made)).filter(|_| !is_output(made));
        let last_use = (0..launches.len()).map(last_use).collect();
        Ok(Plan { mixed: wanted.is_mixed(), inputs, outputs, made, launches, notes, last_use, unfused, f32, gemm_f32 })
    }

    /// The shape of its first input.
    pub fn input_shape(&self) -> &[usize] {
        self.inputs.first().map_or(&[], Edge::shape)
    }

    /// The shapes of all of them.
    pub fn input_shapes(&self) -> impl Iterator<Item = &[usize]> {
        self.inputs.iter().map(Edge::shape)
    }

    /// What it takes.
    pub fn inputs(&self) -> &[Edge] {
        &self.inputs
    }

    /// What it makes.
    pub fn outputs(&self) -> &[Edge] {
        &self.outputs
    }

    /// The launches.
    pub fn launches(&self) -> &[Launch] {
        &self.launches
    }

    /// What the largest output may be off by, as a part of it, to first order: each product's weights, operand and result are rounded
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
            (None, Work::AllReduce(_)) => Some((1.0, launch.format.round_off())),
            _ => None,
        };
        self.launches.iter().filter(rounded).filter_map(of_launch)
    }

    /// What the largest output is likely to be off by, as a part of it: roundings are as often up as down, so that n of them add up as
    /// √n of one (Higham and Mary, "A New Approach to Probabilistic Rounding Error Analysis", 2019), and none of 512 values is
    /// expected beyond four times that. tf32's cut of operands goes one way only; [`Plan::error_bound`] is for that too.
    pub fn likely_error(&self) -> f64 {
        let squares = self.roundings().map(|(times, one)| times * one * one).sum::<f64>();
        (4.0 * squares.sqrt()).max(IN_F32)
    }

    /// Bytes of device memory beside activations: parameters, Winograd's transforms of weights, and what kernels have asked for so far.
    pub fn bytes(&self) -> [u64; 3] {
        let [transformed, scratch] = self.unfused.scratch_bytes();
        let prepared = |launch: &Launch| match &launch.work {
            Work::ConvF32(conv) => conv.prepared.as_ref().map_or(0, |prepared| prepared.num_bytes() as u64),
            _ => 0,
        };
        let of_f32 = self.f32.as_ref().map_or(0, |conv| conv.workspace_bytes() as u64)
            + self.gemm_f32.as_ref().map_or(0, |gemm| gemm.workspace_bytes() as u64);
        let parameters = self.launches.iter().map(|launch| launch.work.bytes()).sum();
        [parameters, transformed + self.launches.iter().map(prepared).sum::<u64>(), scratch + of_f32]
    }

    /// Queues all launches of a plan with one output.
    ///
    /// # Errors
    /// Those of the launches; [`Error::Invalid`] if it has another number of outputs.
    fn forward<'p>(&'p self, pass: &'p Flow, inputs: &[Flowing<'p>]) -> Result<Flowing<'p>> {
        let outputs: [Flowing<'p>; 1] = self
            .run(pass, inputs, |_, _| Ok(()))?
            .try_into()
            .map_err(|outputs: Vec<_>| Error::Invalid(format!("a plan with one output has {}", outputs.len())))?;
        let [output] = outputs;
        Ok(output)
    }

    /// Bytes that are summed over all ranks by each launch that does so: of a rank's values, in the order of the launches.
    pub fn sums(&self) -> impl Iterator<Item = u64> {
        self.launches
            .iter()
            .filter(|launch| matches!(launch.work, Work::AllReduce(_)))
            .map(|launch| launch.made.bytes())
    }

    /// Queues all launches on values that lie as [`Plan::inputs`] says, and gives the outputs; `note` is told of each launch when it is
    /// queued.
    ///
    /// # Errors
    /// Those of the launches.
    pub fn run<'p>(
        &'p self,
        pass: &'p Flow,
        inputs: &[Flowing<'p>],
        mut note: impl FnMut(usize, &Stream) -> Result<()>,
    ) -> Result<Vec<Flowing<'p>>> {
        let mut running = self.start(pass, inputs.to_vec());
        match running.to_next_sum(&mut note)? {
            None => running.outputs(),
            Some(_) => Err(Error::Invalid("a plan of one of several ranks runs with those of the others".to_owned())),
        }
    }

    /// A pass over such values that has queued nothing yet.
    pub fn start<'p>(&'p self, pass: &'p Flow, inputs: Vec<Flowing<'p>>) -> Running<'p> {
        Running { plan: self, pass, inputs, made: Vec::with_capacity(self.launches.len()), read_by_others: None }
    }
}

/// A sum over ranks that a rank's pass has come to: all ranks' terms are added, finished and stored on each.
#[derive(Debug)]
pub struct RankSum<'p> {
    /// This rank's.
    pub terms: WorkspaceActivation,
    /// Added last, of the shape of `terms`; a rank's own.
    pub image: Option<Flowing<'p>>,
    /// Where the result goes, of the shape and type of `terms`.
    pub y: WorkspaceActivation,
    /// Done to each sum before.
    pub finish: &'p Finish,
}

/// What is done to each sum over ranks before it is stored: activation(scale · sum + shift).
#[derive(Debug, Default)]
pub struct Finish {
    /// \[C'\] of f32, times each channel.
    pub scale: Option<Tensor>,
    /// \[C'\] of f32, added to each channel.
    pub shift: Option<Tensor>,
    /// Applied to that.
    pub activation: Activation,
}

/// A pass of a plan up to some launch. It stops where values are summed over all ranks: then every rank's pass has to get there.
#[derive(Debug)]
pub struct Running<'p> {
    plan: &'p Plan,
    pass: &'p Flow,
    inputs: Vec<Flowing<'p>>,
    /// Of each launch so far, if a later one needs it.
    made: Vec<Option<Flowing<'p>>>,
    /// Terms that other ranks may still read, until all ranks have come to the next sum.
    read_by_others: Option<WorkspaceActivation>,
}

impl<'p> Running<'p> {
    /// Queues launches up to the next sum over ranks, which is to be queued for all of them and handed back by [`Running::summed`].
    /// `None` when all launches are queued. `note` is told of each.
    ///
    /// # Errors
    /// Those of the launches.
    pub fn to_next_sum(&mut self, note: &mut impl FnMut(usize, &Stream) -> Result<()>) -> Result<Option<RankSum<'p>>> {
        let (plan, pass) = (self.plan, self.pass);
        let Running { inputs, made, .. } = self;
        while let Some(launch) = plan.launches.get(made.len()) {
            let number = made.len();
            // A result is moved into the launch that needs it last, and there into the operand that is taken last.
            let mut take = |operand: &Operand, moves: bool| {
                let value = match operand.source {
                    Source::Input(input) => inputs.get(input).cloned(),
                    Source::Node(node) if moves && plan.last_use[node] == Some(number) => made[node].take(),
                    Source::Node(node) => made[node].clone(),
                };
                let missing = || Error::Invalid(format!("launch {number} of a plan lacks an operand"));
                value.ok_or_else(missing)?.reshape(&operand.shape)
            };
            let with = launch.with.as_ref().map(|with| take(with, with.source != launch.x.source)).transpose()?;
            let x = take(&launch.x, true)?;
            if let Work::AllReduce(finish) = &launch.work {
                let terms = x.own()?;
                let y = pass.activation_of(terms.shape(), terms.element_type(), terms.format())?;
                return Ok(Some(RankSum { terms, image: with, y, finish }));
            }
            made.push(Some(launch.run(pass, x, with)?));
            pass.queue(launch.kind, |stream| note(number, stream))?;
        }
        Ok(None)
    }

    /// The pass goes on with the result of the sum that [`Running::to_next_sum`] came to.
    pub fn summed(&mut self, sum: RankSum<'p>) {
        self.read_by_others = Some(sum.terms);
        self.made.push(Some(Flowing::made(self.pass, sum.y)));
    }

    /// The outputs of a pass whose launches are all queued.
    ///
    /// # Errors
    /// [`Error::Invalid`] if they are not.
    pub fn outputs(self) -> Result<Vec<Flowing<'p>>> {
        taken(self.made, &self.inputs, &self.plan.made)
    }
}

/// A plan with its second and further inputs, as phase 3's workspaces and graphs run it.
#[derive(Debug)]
pub struct WithInputs<'a> {
    /// The plan.
    pub plan: &'a Plan,
    /// On the device, in their planned shapes.
    pub inputs: Vec<Tensor>,
}

impl Module<Unfused> for WithInputs<'_> {
    fn forward<'p>(&'p self, x: Flowing<'p>) -> Result<Flowing<'p>> {
        let mut inputs: Vec<Flowing<'p>> = self.inputs.iter().map(|input| x.beside(input)).collect();
        let pass = x.pass();
        inputs.insert(0, x);
        self.plan.forward(pass, &inputs)
    }
}

impl Denoiser for Plan {
    fn noise<'p>(&'p self, x: Flowing<'p>, steps: Flowing<'p>) -> Result<Flowing<'p>> {
        let pass = x.pass();
        self.forward(pass, &[x, steps])
    }
}

/// How a plan leaves its outputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ends {
    /// In planes of f32, for the host.
    Planes,
    /// As its launches make them, for another plan.
    AsMade,
}

fn planes(inputs: &[&[usize]]) -> Vec<Edge> {
    inputs.iter().map(|shape| Edge::planes(shape)).collect()
}

/// Kernels for tensor cores.
struct Cores {
    precision: Precision,
    conv: conv::Tuned,
    gemm: gemm::Tuned,
    convert: Convert,
    pointwise: Pointwise,
    layer_norm: LayerNorm,
    attention: Attends,
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
                Precision::Tf32 => Attends::Single(attention::Attention::over_f32(device, Products::Tf32)?),
                _ => Attends::Tuned(attention::Tuned::load(device)?),
            },
        })
    }

    /// Channels of a step along K.
    fn step(&self) -> usize {
        ROW_BYTES / self.precision.input().size()
    }

    /// Images channels last, with these channels.
    fn last(&self, [n, _, h, w]: [usize; 4], channels: usize) -> Form {
        Form { shape: vec![n, channels, h, w], element: self.precision.input(), format: MemoryFormat::Nhwc }
    }
}

/// A value of the graph, and in which forms it is there.
#[derive(Clone)]
struct Made {
    /// As the graph has it.
    shape: Vec<usize>,
    /// Whether its last dimension are the channels of what lies channels last: then it is the rows of an image's pixels.
    rows: bool,
    places: Vec<(Form, Source)>,
    /// The first of its columns in the places, where these are wider.
    column: Option<usize>,
}

impl Made {
    /// In f32, as the graph has it.
    fn planes(shape: &[usize], source: Source) -> Made {
        Made { shape: shape.to_vec(), rows: false, places: vec![(Form::planes(shape), source)], column: None }
    }

    /// What the caller gives.
    fn given(Edge { shape, rows, form }: &Edge, source: Source) -> Made {
        Made { shape: shape.clone(), rows: *rows, places: vec![(form.clone(), source)], column: None }
    }

    /// An image with its pixels' channels side by side, or, for linear layers, their rows.
    fn channels_last(shape: Vec<usize>, rows: bool, form: Form, source: Source) -> Made {
        Made { shape, rows, places: vec![(form, source)], column: None }
    }

    fn place(&self, is: impl Fn(&Form) -> bool) -> Option<(Form, Source)> {
        self.places.iter().find(|(form, _)| is(form)).cloned()
    }

    /// Where it lies channels last, in a type that every kernel reads.
    fn last(&self) -> Option<(Form, Source)> {
        self.last_in(ElementType::F16).or_else(|| self.last_in(ElementType::F32))
    }

    /// Where it lies channels last in this type.
    fn last_in(&self, element: ElementType) -> Option<(Form, Source)> {
        self.place(|form| form.format == MemoryFormat::Nhwc && form.element == element)
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
    without: String,
    launches: Vec<Launch>,
    inputs: Vec<Made>,
    nodes: Vec<Made>,
    /// What attentions take: its channels have to be as they are.
    attended: Vec<Source>,
    /// Attention in f32, if it was needed.
    attention_f32: Option<Attends>,
    /// Sums in planes, if they were needed.
    sums: Option<planes::Pointwise>,
    /// Linear layers side by side, and where the result of those is that were launched.
    side_by_side: Vec<(SideBySide, Option<(Form, Source)>)>,
    /// If convolutions are in bytes.
    in_bytes: Option<Rc<InBytes>>,
    /// Changes of type, if they were needed.
    recast: Option<Recast>,
}

/// What a launch says of itself.
struct Words {
    layers: String,
    kernel: String,
    why: String,
    kind: &'static str,
    flops: Option<u64>,
}

impl Planner<'_> {
    fn made(&mut self, source: Source) -> &mut Made {
        match source {
            Source::Input(number) => &mut self.inputs[number],
            Source::Node(number) => &mut self.nodes[number],
        }
    }

    /// Adds a launch, and says where its result is.
    fn push(&mut self, words: Words, x: Operand, with: Option<Operand>, made: Form, work: Work) -> Source {
        let Words { layers, kernel, why, kind, flops } = words;
        let of = |operand: &Operand| (operand.shape.iter().product::<usize>() * self.size_of(operand.source)) as u64;
        let of_with = with.as_ref().map_or(0, |with| match work.columns() {
            Some(count) => (with.shape[0] * count * self.size_of(with.source)) as u64,
            None => of(with),
        });
        let bytes = of(&x) + of_with + made.bytes() + work.bytes();
        let node = self.nodes.len();
        let format = self.wanted.of(node);
        self.launches.push(Launch { layers, kernel, why, bytes, flops, format, node, kind, x, with, made, work });
        Source::Node(self.launches.len() - 1)
    }

    /// Kernels that multiply this.
    fn cores_of(&self, precision: Precision) -> Option<Rc<Cores>> {
        self.cores.iter().find(|cores| cores.precision == precision).cloned()
    }

    /// Those of the node that is next; `None` if it is in f32.
    fn cores(&self) -> Option<Rc<Cores>> {
        self.cores_of(self.wanted.of(self.nodes.len()).on_tensor_cores()?)
    }

    /// Bytes of a value that a launch reads.
    fn size_of(&self, source: Source) -> usize {
        match source {
            // The first place of an input is where the caller has put it.
            Source::Input(number) => self.inputs[number].places[0].0.element.size(),
            Source::Node(launch) => self.launches[launch].made.element.size(),
        }
    }

    fn node(&mut self, node: &Node) -> Result<()> {
        let made = match self.part_of_a_group(node)? {
            Some(part) => part,
            None => self.launches_of(node)?,
        };
        self.nodes.push(made);
        Ok(())
    }

    /// A linear layer that is launched with others of its input, or was.
    fn part_of_a_group(&mut self, node: &Node) -> Result<Option<Made>> {
        let number = self.nodes.len();
        let is_here = |(group, _): &(SideBySide, _)| group.nodes.contains(&number);
        let Some(at) = self.side_by_side.iter().position(is_here) else { return Ok(None) };
        let (group, there) = &self.side_by_side[at];
        let first = group.nodes.iter().zip(&group.columns).find(|(node, _)| **node == number).map(|(_, first)| *first);
        let (form, source) = match there {
            Some(there) => there.clone(),
            None => {
                let (operations, x) = (vec![group.linear.clone()], node.x.clone());
                let linear = Node { operations, x, with: None };
                // In planes, in which its columns are taken.
                let made =
                    match self.cores().filter(|_| self.wanted.is_mixed()).map(|cores| self.linear(&cores, &linear)) {
                        Some(made) => made?.or_else(|reason| self.plain(&linear, &reason))?,
                        None => self.launches_of(&linear)?,
                    };
                let there = made.place(|form| form.format == MemoryFormat::Nchw);
                let there = there.ok_or_else(|| Error::Invalid("layers side by side are not in planes".to_owned()))?;
                self.side_by_side[at].1.insert(there).clone()
            }
        };
        let shape = vec![form.shape[0], node.operations[0].output_shape(&Tensor::shape_only(&node.x.shape), None)?[1]];
        Ok(Some(Made { shape, rows: false, places: vec![(form, source)], column: first }))
    }

    /// A value per image and channel in f32: where it is, its first column and how many there are.
    fn columns(&mut self, operand: &Operand) -> Result<(Operand, [usize; 2])> {
        let made = self.made(operand.source);
        let count = made.shape.last().copied().unwrap_or(0);
        match (made.column, made.places.first().cloned()) {
            (Some(first), Some((form, source))) => Ok((Operand { source, shape: form.shape }, [first, count])),
            _ => Ok((self.planes(operand)?, [0, count])),
        }
    }

    /// A sum over ranks of what the operations before it make, and what follows it: in the same launch, where values lie channels last.
    fn all_reduce(&mut self, node: &Node, at: usize, ranks: usize) -> Result<Made> {
        let (first, rest) = (&node.operations[..at], &node.operations[at + 1..]);
        let taken_by =
            |operations: &[Operation]| node.with.clone().filter(|_| operations.iter().any(Operation::takes_two));
        let terms = match first {
            [] => self.made(node.x.source).clone(),
            first => {
                self.launches_of(&Node { operations: first.to_vec(), x: node.x.clone(), with: taken_by(first) })?
            }
        };
        let there = terms.last().or_else(|| terms.places.first().cloned());
        let (form, source) = there.ok_or_else(|| Error::Invalid("a value of a plan is nowhere".to_owned()))?;
        let (finish, with, done) = self.finish_of(rest, &form, taken_by(rest))?;
        let words = Words {
            layers: names(&node.operations[at..][..1 + done]),
            kernel: "sum of ranks".to_owned(),
            why: format!("{ranks} ranks' terms"),
            kind: kinds::ALL_REDUCE,
            flops: None,
        };
        let x = Operand { source, shape: form.shape.clone() };
        let source = self.push(words, x, with, form.clone(), Work::AllReduce(Box::new(finish)));
        let sum = Made { places: vec![(form, source)], ..terms };
        if done == rest.len() {
            return Ok(sum);
        }
        // Planned as if the sum were an input.
        let x = Operand { source: Source::Input(self.inputs.len()), shape: sum.shape.clone() };
        self.inputs.push(sum);
        let made = self.launches_of(&Node { operations: rest.to_vec(), x, with: taken_by(rest) });
        self.inputs.pop();
        made
    }

    /// What the launch of a sum over ranks does of the operations that follow it, with the operand that it adds, and their number: all of
    /// them or none.
    fn finish_of(
        &mut self,
        rest: &[Operation],
        form: &Form,
        with: Option<Operand>,
    ) -> Result<(Finish, Option<Operand>, usize)> {
        let nothing = (Finish::default(), None, 0);
        let (norm, after) = match rest {
            [norm @ Operation::BatchNorm { .. }, after @ ..] if form.format == MemoryFormat::Nhwc => (norm, after),
            _ => return Ok(nothing),
        };
        let image = match (after, with) {
            ([_], None) => None,
            ([_, Operation::Add], Some(with)) => {
                let Some(cores) = self.cores() else { return Ok(nothing) };
                match self.image_last(&cores, &with)? {
                    Some((there, source)) if there == *form => Some(Operand { source, shape: there.shape }),
                    _ => return Ok(nothing),
                }
            }
            _ => return Ok(nothing),
        };
        let (Some(activation), Some(ScaleShift { scale, shift })) =
            (fuse::activation(&after[0]), scale_shift(norm, None)?)
        else {
            return Ok(nothing);
        };
        let there = |values: &[f32]| vector(values, form.shape[1])?.to_device(self.device);
        let finish = Finish { scale: Some(there(&scale)?), shift: Some(there(&shift)?), activation };
        Ok((finish, image, rest.len()))
    }

    fn launches_of(&mut self, node: &Node) -> Result<Made> {
        let ranks = |operation: &Operation| match operation {
            Operation::AllReduce { ranks } => Some(*ranks),
            _ => None,
        };
        if let Some(at) = node.operations.iter().position(|operation| ranks(operation).is_some()) {
            return self.all_reduce(node, at, ranks(&node.operations[at]).unwrap_or(1));
        }
        let fused = match (&node.operations[..], self.cores()) {
            ([Operation::Attention { .. }], cores) => self.attention(cores.as_deref(), node)?,
            (_, None) => {
                Err(if self.wanted.of(self.nodes.len()) == Arithmetic::F32 { "f32" } else { &self.without }.to_owned())
            }
            ([Operation::Conv2d { .. }, ..], Some(cores)) => match self.in_bytes(&cores, node)? {
                Some(made) => Ok(made),
                None => self.conv(&cores, node)?,
            },
            ([Operation::Linear { .. }, ..], Some(cores)) => self.linear_on(&cores, node)?,
            ([Operation::Transpose], Some(cores)) => self.transpose(&cores, node)?,
            ([Operation::LayerNorm { .. }], Some(cores)) => self.layer_norm(&cores, node)?,
            ([Operation::BatchNorm { .. }, ..] | [Operation::Add | Operation::AddChannel], Some(cores)) => {
                self.pointwise(&cores, node)?
            }
            ([Operation::Concatenate | Operation::Upsample { .. }], Some(cores)) => self.join(&cores, node)?,
            ([Operation::MaxPool(_) | Operation::AveragePool], Some(cores)) => self.pool(&cores, node)?,
            _ => Err("no kernel of this phase".to_owned()),
        };
        match fused {
            Ok(made) => Ok(made),
            Err(reason) => self.plain(node, &reason),
        }
    }

    /// A network of rows in f16: its input becomes images of one pixel, and so does all that follows.
    fn rows_last_from_the_start(&mut self) -> Result<()> {
        let cores = self.cores_of(Precision::F16).filter(|_| !self.wanted.is_mixed());
        let (Some(cores), [input]) = (cores, &self.inputs[..]) else { return Ok(()) };
        let (&[rows, columns], None) = (&input.shape[..], input.last()) else { return Ok(()) };
        let form = cores.last([rows, columns, 1, 1], columns.next_multiple_of(cores.step()));
        let from = Operand { source: Source::Input(0), shape: input.shape.clone() };
        let work = Work::ToChannelsLast(cores.convert.clone());
        let source = self.push(conversion("for tensor cores"), from, None, form.clone(), work);
        self.inputs[0].places.push((form, source));
        self.inputs[0].rows = true;
        Ok(())
    }

    /// The value in planes of f32, as phase 3 wants it.
    fn planes(&mut self, operand: &Operand) -> Result<Operand> {
        if self.made(operand.source).column.is_some() {
            return Err(Error::Invalid("a value of a plan is a part of another".to_owned()));
        }
        let shape = self.made(operand.source).shape.clone();
        let there = self.made(operand.source).place(|form| form.format == MemoryFormat::Nchw);
        let source = match (there, self.made(operand.source).last(), self.cores.first().cloned()) {
            (Some((_, source)), ..) => source,
            (None, Some((form, source)), Some(cores)) => {
                let work = Work::ToChannelsFirst(cores.convert.clone());
                // What was transposed back is an image, whatever its height and width are called.
                let image = |form: &Form| vec![form.shape[0], shape[1], form.shape[2], form.shape[3]];
                let planes = if self.made(operand.source).rows || shape.len() == 4 { shape } else { image(&form) };
                let (from, made) = (Operand { source, shape: form.shape }, Form::planes(&planes));
                let source = self.push(conversion("what follows takes f32 planes"), from, None, made.clone(), work);
                self.made(operand.source).places.push((made, source));
                source
            }
            _ => return Err(Error::Invalid("a value of a plan is nowhere".to_owned())),
        };
        Ok(Operand { source, shape: operand.shape.clone() })
    }

    /// The value channels last with this number of them; `None` if it is there with another.
    fn channels_last(&mut self, cores: &Cores, operand: &Operand, form: &Form) -> Result<Option<Operand>> {
        let source = match self.image_last(cores, operand)? {
            Some((there, source)) if there == *form => source,
            None if self.made(operand.source).shape == operand.shape && operand.shape.len() == 4 => {
                let work = Work::ToChannelsLast(cores.convert.clone());
                let from = self.planes(operand)?;
                let source = self.push(conversion("for tensor cores"), from, None, form.clone(), work);
                self.made(operand.source).places.push((form.clone(), source));
                source
            }
            _ => return Ok(None),
        };
        Ok(Some(Operand { source, shape: form.shape.clone() }))
    }

    /// Where the value lies channels last in the type of `cores`. What lies there in another type alone is brought into this one.
    fn last(&mut self, cores: &Cores, operand: &Operand) -> Result<Option<(Form, Source)>> {
        let element = cores.precision.input();
        let made = self.made(operand.source);
        if let Some(there) = made.last_in(element) {
            return Ok(Some(there));
        }
        let Some((form, from)) = made.last().filter(|(form, _)| form.shape[1].is_multiple_of(EIGHT)) else {
            return Ok(None);
        };
        let &[n, channels, h, w] = &form.shape[..] else { return Ok(None) };
        // The channels that are no zeros: of rows the last dimension, of images the second.
        let of_value = if made.rows { made.shape.last() } else { made.shape.get(1) }.copied().unwrap_or(channels);
        let made = cores.last([n, channels, h, w], of_value.next_multiple_of(cores.step()));
        let source = self.recast(Operand { source: from, shape: form.shape }, &made, 1.0)?;
        self.made(operand.source).places.push((made.clone(), source));
        Ok(Some((made, source)))
    }

    /// What `from` has, in the type and with the channels of `form`, each value times `times`.
    fn recast(&mut self, from: Operand, form: &Form, times: f32) -> Result<Source> {
        let kernels = match &self.recast {
            Some(there) => there.clone(),
            None => self.recast.insert(Recast::load(self.device)?).clone(),
        };
        let words = conversion(&format!("to {}", form.element));
        Ok(self.push(words, from, None, form.clone(), Work::Recast(kernels, times)))
    }

    /// A convolution with its epilogue on tensor cores, or why not.
    fn conv(&mut self, cores: &Cores, node: &Node) -> Result<Result<Made, String>> {
        let (precision, step) = (cores.precision, cores.step());
        let (operations, sum) = fuse::sum_after_activation(&node.operations);
        let [Operation::Conv2d { weight, bias, params }, rest @ ..] = operations else {
            return Ok(Err("it is no convolution".to_owned()));
        };
        let [k, c, r, s] = weight.dims4()?;
        let shape = params.output_shape(&Tensor::shape_only(&node.x.shape), weight)?;
        let outputs = k.next_multiple_of(step);
        let there = self.last(cores, &node.x)?.map(|(form, _)| form.shape[1]);
        // As it is, if a kernel takes that; else filled up to whole steps.
        let candidates = there.map_or_else(|| vec![c, c.next_multiple_of(step)], |there| vec![there]);
        let mut chosen = Err(String::new());
        for channels in candidates {
            let [n, _, h, w] = Tensor::shape_only(&node.x.shape).dims4()?;
            let layer = conv::Layer {
                input: [n, channels, h, w],
                filter: [outputs, channels, r, s],
                output: [n, outputs, shape[2], shape[3]],
                stride: params.stride[0],
                padding: params.padding[0],
            };
            chosen = cores.conv.explain(&layer, *params, precision).map(|choice| (layer, choice));
            if chosen.is_ok() {
                break;
            }
        }
        let (layer, choice) = match chosen {
            Ok(chosen) => chosen,
            Err(reason) => return Ok(Err(reason)),
        };
        let (from, made) = (cores.last(layer.input, layer.input[1]), cores.last(layer.output, outputs));
        let kernels = cores.conv.clone();
        let Some(x) = self.channels_last(cores, &node.x, &from)? else {
            return Ok(Err("its image is no image, or has other channels".to_owned()));
        };
        let (with, by_channel) = match (&node.with, sum) {
            (None, _) => (None, None),
            (Some(with), Some(Operation::AddChannel)) => {
                let (with, by_channel) = self.columns(with)?;
                (Some(with), Some(by_channel))
            }
            (Some(with), _) => match self.channels_last(cores, with, &made)? {
                None => return Ok(Err("what it adds has other channels".to_owned())),
                with => (with, None),
            },
        };
        let norm = rest.first().map(|norm| scale_shift(norm, bias.as_deref())).transpose()?.flatten();
        let there = |values: &[f32]| vector(values, outputs)?.to_device(self.device);
        let (scale, shift) = match (norm, bias) {
            (Some(ScaleShift { scale, shift }), _) => (Some(there(&scale)?), Some(there(&shift)?)),
            (None, Some(bias)) => (None, Some(there(bias.as_slice()?)?)),
            (None, None) => (None, None),
        };
        let weight = rounded(&filled_up(weight, outputs, layer.input[1])?, precision)?;
        let weight = weight.to_format(MemoryFormat::Nhwc)?.to_device(self.device)?;
        let activation = rest.last().and_then(fuse::activation).unwrap_or_default();
        // The kernel with few channels stores what is activated.
        let apart = sum.filter(|_| choice.kernel == conv::FEW_CHANNELS);
        let later = match (sum, by_channel) {
            (Some(_), Some(columns)) if apart.is_none() => Some(AddedLater::Channels(columns)),
            (Some(_), None) if apart.is_none() => Some(AddedLater::Image),
            _ => None,
        };
        let work =
            Work::Conv(Box::new(Product { kernels, weight, scale, shift, activation, later, alpha: 1.0 }), *params);
        let mut why = choice.why;
        if layer.input[1] > c || outputs > k {
            why.push_str(" +0");
        }
        let words = Words {
            layers: names(if apart.is_some() { operations } else { &node.operations }),
            kernel: format!("conv {}", choice.kernel),
            why,
            kind: node.operations[0].kind(),
            flops: Some(2 * (shape.iter().product::<usize>() * c * r * s) as u64),
        };
        let (before, after) = if apart.is_some() { (None, with) } else { (with, None) };
        let mut source = self.push(words, x, before, made.clone(), work);
        if let Some(sum) = apart {
            let between_them = Between {
                kernels: cores.pointwise.clone(),
                scale: None,
                shift: None,
                activation: Activation::None,
                by_channel,
            };
            let words = between(names(std::slice::from_ref(sum)), "it follows an activation", sum.kind());
            let x = Operand { source, shape: made.shape.clone() };
            source = self.push(words, x, after, made.clone(), Work::Pointwise(Box::new(between_them)));
        }
        Ok(Ok(Made::channels_last(shape.to_vec(), false, made, source)))
    }

    /// A product of bytes, if the node is to be in bytes and its kernel does all that the node does.
    fn in_bytes(&mut self, cores: &Cores, node: &Node) -> Result<Option<Made>> {
        let number = self.nodes.len();
        let wanted = self.wanted.of(number) == Arithmetic::Int8 && int8::refuses(node).is_none();
        let Some(in_bytes) = self.in_bytes.clone().filter(|_| wanted) else { return Ok(None) };
        // In a uniform plan the images that come in are of few channels, which a kernel of f16 takes as they are.
        if !self.wanted.is_mixed() && matches!(node.x.source, Source::Input(_)) {
            return Ok(None);
        }
        let (operations, rows) = (int8::as_convolution(&node.operations)?, node.x.shape.len() == 2);
        let [Operation::Conv2d { weight, params, .. }, rest @ ..] = &operations[..] else { return Ok(None) };
        let [k, c, r, s] = weight.dims4()?;
        let x_step = in_bytes.scales.of(node.x.source)?;
        let x = self.narrow(&node.x, ElementType::I8, x_step)?;
        let with = match &node.with {
            None => None,
            Some(with) => {
                let step = in_bytes.scales.of(with.source)?;
                Some((self.narrow(with, ElementType::I8, step)?, step))
            }
        };
        let outputs = with.as_ref().map_or_else(|| k.next_multiple_of(s8::CHANNELS), |(with, _)| with.shape[1]);
        let &[n, inputs, h, w] = &x.shape[..] else { return Ok(None) };
        let [_, _, p, q] =
            params.output_shape(&Tensor::shape_only(&x.shape), &Tensor::shape_only(&[k, inputs, r, s]))?;
        let layer = conv::Layer {
            input: [n, inputs, h, w],
            filter: [outputs, inputs, r, s],
            output: [n, outputs, p, q],
            stride: params.stride[0],
            padding: params.padding[0],
        };
        let tile = in_bytes.kernels.explain(&layer, *params).map_err(Error::Invalid)?;
        let wide = in_bytes.wide.contains(&number);
        let y_step = if wide { 1.0 } else { in_bytes.scales.of(Source::Node(number))? };
        let parts = int8::quantized(&operations, x_step, y_step, in_bytes.scales.weights())?;
        let weight = filled_up(&parts.weight, outputs, inputs)?.to_type(ElementType::I8)?;
        let there = |values: &[f32]| vector(values, outputs)?.to_device(self.device);
        let work = Bytes {
            kernels: in_bytes.kernels.clone(),
            weight: weight.to_format(MemoryFormat::Nhwc)?.to_device(self.device)?,
            scale: there(&parts.scale)?,
            shift: there(&parts.shift)?,
            residual_scale: with.as_ref().map_or(0.0, |(_, step)| step / y_step),
            relu: rest.iter().any(|operation| matches!(operation, Operation::Relu)),
            params: *params,
        };
        let zeros = if inputs > c || outputs > k { " +0" } else { "" };
        let to = if wide { ", to f16" } else { "" };
        let words = Words {
            layers: names(&node.operations),
            kernel: format!("{} i8 {tile}", if rows { "product" } else { "conv" }),
            why: format!("{}×{outputs} sums{zeros}{to}", n * p * q),
            kind: node.operations[0].kind(),
            flops: Some(2 * (n * p * q * k * c * r * s) as u64),
        };
        let element = if wide { cores.precision.input() } else { ElementType::I8 };
        let made = Form { element, ..cores.last(layer.output, outputs) };
        let source = self.push(words, x, with.map(|(with, _)| with), made.clone(), Work::ConvS8(Box::new(work)));
        let shape = if rows { vec![node.x.shape[0], k] } else { vec![n, k, p, q] };
        Ok(Some(Made::channels_last(shape, rows, made, source)))
    }

    /// The value in bytes or 8-bit floats, channels last, in units of `step`: an image, or rows as images of one pixel.
    fn narrow(&mut self, operand: &Operand, element: ElementType, step: f32) -> Result<Operand> {
        let in_mixed = self.wanted.is_mixed();
        let made = self.made(operand.source);
        let channels =
            if operand.shape.len() == 2 { operand.shape[1] } else { operand.shape.get(1).copied().unwrap_or(0) };
        // Rows lie as pixels do, unless they are another view of the value.
        let as_it_is = made.shape == operand.shape || made.rows && made.shape.last() == Some(&channels);
        if let Some((form, source)) = made.last_in(element).filter(|_| as_it_is) {
            return Ok(Operand { source, shape: form.shape });
        }
        let there = made.last().filter(|(form, _)| as_it_is && form.shape[1].is_multiple_of(EIGHT));
        let filled = channels.next_multiple_of(s8::CHANNELS);
        let of = |shape: [usize; 4], element| Form { shape: shape.to_vec(), element, format: MemoryFormat::Nhwc };
        let (from, form) = match there {
            Some((form, source)) => {
                let &[n, there, h, w] = &form.shape[..] else { return Err(Error::shape("bytes", "no image")) };
                // A uniform plan keeps the zeros that it has.
                let filled = if in_mixed { filled } else { there };
                (Operand { source, shape: form.shape.clone() }, of([n, filled, h, w], element))
            }
            None => {
                let x = self.planes(operand)?;
                let image = match x.shape[..] {
                    [n, c, h, w] => [n, c, h, w],
                    [rows, c] => [rows, c, 1, 1],
                    _ => return Err(Error::shape("bytes", format!("neither rows nor an image: {:?}", x.shape))),
                };
                let [n, c, h, w] = image;
                let form = of([n, filled, h, w], element);
                if x.shape.len() == 2 && c.is_multiple_of(EIGHT) {
                    (x, form)
                } else {
                    let wide = of([n, filled, h, w], ElementType::F32);
                    let convert = self.cores.first().map(|cores| cores.convert.clone());
                    let convert = convert.ok_or_else(|| Error::Invalid("bytes without tensor cores".to_owned()))?;
                    let work = Work::ToChannelsLast(convert);
                    let source = self.push(conversion("for tensor cores"), x, None, wide.clone(), work);
                    (Operand { source, shape: wide.shape }, form)
                }
            }
        };
        let is_f16 =
            matches!(from.source, Source::Node(launch) if self.launches[launch].made.element == ElementType::F16);
        let source = match &self.in_bytes {
            Some(in_bytes) if element == ElementType::I8 && is_f16 && from.shape == form.shape => {
                let words = Words {
                    layers: "quantise".to_owned(),
                    kernel: "convert".to_owned(),
                    why: "f16 to bytes, one step for all".to_owned(),
                    kind: CONVERSION,
                    flops: None,
                };
                let work = Work::Quantize(in_bytes.kernels.clone(), step);
                self.push(words, from, None, form.clone(), work)
            }
            _ => self.recast(from, &form, 1.0 / step)?,
        };
        if as_it_is {
            self.made(operand.source).places.push((form.clone(), source));
        }
        Ok(Operand { source, shape: form.shape })
    }

    /// A linear layer on tensor cores, or why not. A uniform plan multiplies rows of f32 as they are; in a mixed one they become rows of
    /// the node's own format.
    fn linear_on(&mut self, cores: &Cores, node: &Node) -> Result<Result<Made, String>> {
        if self.wanted.is_mixed()
            && let Some(made) = self.in_bytes(cores, node)?
        {
            return Ok(Ok(made));
        }
        if self.wanted.of(self.nodes.len()) == Arithmetic::Fp8
            && let Ok(made) = self.linear_e4m3(cores, node)?
        {
            return Ok(Ok(made));
        }
        match self.rows_last(cores, &node.x)? {
            Some(there) => self.linear_last(cores, node, there),
            None if !self.wanted.is_mixed() || cores.precision == Precision::Tf32 => self.linear(cores, node),
            None => match self.rows_of_planes(cores, &node.x)? {
                Some(there) => self.linear_last(cores, node, there),
                None => Ok(Err("it has no rows".to_owned())),
            },
        }
    }

    /// Rows of planes, channels last: as images of one pixel.
    fn rows_of_planes(&mut self, cores: &Cores, operand: &Operand) -> Result<Option<(Form, Source)>> {
        let &[rows, columns] = &operand.shape[..] else { return Ok(None) };
        let (from, form) =
            (self.planes(operand)?, cores.last([rows, columns, 1, 1], columns.next_multiple_of(cores.step())));
        let work = Work::ToChannelsLast(cores.convert.clone());
        let source = self.push(conversion("for tensor cores"), from, None, form.clone(), work);
        Ok(Some((form, source)))
    }

    /// A linear layer of 8-bit floats, to f16, or why not.
    fn linear_e4m3(&mut self, cores: &Cores, node: &Node) -> Result<Result<Made, String>> {
        let ([Operation::Linear { weight, bias }, rest @ ..], Some(scales)) =
            (&node.operations[..], self.wanted.scales())
        else {
            return Ok(Err("it is no linear layer".to_owned()));
        };
        let &[outputs, channels] = weight.shape() else { return Ok(Err("it has no rows".to_owned())) };
        let step = scales.of(node.x.source)? * int8::LARGEST / e4m3::LARGEST;
        let attended = self.attended.contains(&Source::Node(self.nodes.len()));
        let filled = if attended { outputs } else { outputs.next_multiple_of(cores.step()) };
        let (rows, inputs) = (node.x.shape[0], channels.next_multiple_of(s8::CHANNELS));
        let tile = match cores.gemm.explain([rows, filled, inputs], Precision::E4M3, Layout::Transposed) {
            Ok(tile) => tile,
            Err(reason) => return Ok(Err(reason)),
        };
        let x = self.narrow(&node.x, ElementType::F8E4M3, step)?;
        let &[n, _, h, w] = &x.shape[..] else { return Ok(Err("it has no rows".to_owned())) };
        let made = cores.last([n, filled, h, w], filled);
        let with = match &node.with {
            None => None,
            Some(with) => match self.rows_last(cores, with)? {
                Some((form, source)) if form == made => Some(Operand { source, shape: form.shape }),
                _ => return Ok(Err("what it adds lies in another way".to_owned())),
            },
        };
        let parts = e4m3::quantized(weight)?;
        let matrix = parts.weight.reshape(&[outputs, channels, 1, 1])?;
        let matrix = filled_up(&matrix, filled, inputs)?.reshape(&[filled, inputs])?;
        let product = Product {
            kernels: cores.gemm.clone(),
            weight: matrix.to_type(ElementType::F8E4M3)?.to_device(self.device)?,
            scale: Some(vector(&parts.steps, filled)?.to_device(self.device)?),
            shift: Some(vector(bias.as_slice()?, filled)?.to_device(self.device)?),
            activation: rest.last().and_then(fuse::activation).unwrap_or_default(),
            later: None,
            alpha: step,
        };
        let zeros = if inputs > channels || filled > outputs { " +0" } else { "" };
        let words = Words {
            layers: names(&node.operations),
            kernel: format!("{} {tile}", Precision::E4M3),
            why: format!("{rows}×{filled} sums{zeros}, to f16"),
            kind: node.operations[0].kind(),
            flops: Some(2 * (rows * outputs * channels) as u64),
        };
        let source = self.push(words, x, with, made.clone(), Work::Linear(Box::new(product)));
        Ok(Ok(Made::channels_last(vec![rows, outputs], true, made, source)))
    }

    /// A linear layer over rows of f32 on tensor cores, or why not.
    fn linear(&mut self, cores: &Cores, node: &Node) -> Result<Result<Made, String>> {
        let [Operation::Linear { weight, bias }, rest @ ..] = &node.operations[..] else {
            return Ok(Err("it is no linear layer".to_owned()));
        };
        let (&[rows, inputs], outputs) = (&node.x.shape[..], weight.shape()[0]) else {
            return Ok(Err("it has no rows".to_owned()));
        };
        let tile = match cores.gemm.explain([rows, outputs, inputs], Precision::Tf32, Layout::Transposed) {
            Ok(tile) => tile,
            Err(reason) => return Ok(Err(reason)),
        };
        let kernels = cores.gemm.clone();
        let x = self.planes(&node.x)?;
        let with = node.with.as_ref().map(|with| self.planes(with)).transpose()?;
        let activation = rest.last().and_then(fuse::activation).unwrap_or_default();
        let weight = rounded(weight, Precision::Tf32)?.to_device(self.device)?;
        let shift = match bias.as_slice()?.iter().all(|value| *value == 0.0) {
            true => None,
            false => Some(bias.to_device(self.device)?),
        };
        let product = Product { kernels, weight, scale: None, shift, activation, later: None, alpha: 1.0 };
        let work = Work::Linear(Box::new(product));
        let made = Form::planes(&[rows, outputs]);
        let words = Words {
            layers: names(&node.operations),
            kernel: format!("tf32 {tile}"),
            why: format!("{rows}×{outputs} sums"),
            kind: node.operations[0].kind(),
            flops: Some(2 * (rows * outputs * inputs) as u64),
        };
        let source = self.push(words, x, with, made.clone(), work);
        Ok(Ok(Made::planes(&[rows, outputs], source)))
    }

    /// Pooling of an image that lies channels last, or why not.
    fn pool(&mut self, cores: &Cores, node: &Node) -> Result<Result<Made, String>> {
        let operation = &node.operations[0];
        let Some((form, source)) = self.last(cores, &node.x)? else {
            return Ok(Err("its image is in planes".to_owned()));
        };
        let shape = operation.output_shape(&Tensor::shape_only(&node.x.shape), None)?;
        let (work, made, why) = match operation {
            Operation::MaxPool(pool) => {
                let stored = pool.output_shape(&Tensor::shape_only(&form.shape))?.to_vec();
                let why = "16-byte vectors";
                (Work::MaxPool(MaxPool::load(self.device, *pool)?), Form { shape: stored, ..form.clone() }, why)
            }
            _ => {
                let why = "16-byte vectors, to f32";
                (Work::AveragePool(AveragePool::load(self.device)?), Form::planes(&shape), why)
            }
        };
        let words = Words {
            layers: operation.kind().to_owned(),
            kernel: "channels last".to_owned(),
            why: why.to_owned(),
            kind: operation.kind(),
            flops: None,
        };
        let source = self.push(words, Operand { source, shape: form.shape }, None, made.clone(), work);
        Ok(Ok(Made { shape, rows: false, places: vec![(made, source)], column: None }))
    }

    /// Where the rows of an image's pixels lie, with their channels side by side.
    fn rows_last(&mut self, cores: &Cores, operand: &Operand) -> Result<Option<(Form, Source)>> {
        if self.made(operand.source).rows { self.last(cores, operand) } else { Ok(None) }
    }

    /// Where an image lies channels last.
    fn image_last(&mut self, cores: &Cores, operand: &Operand) -> Result<Option<(Form, Source)>> {
        if self.made(operand.source).rows { Ok(None) } else { self.last(cores, operand) }
    }

    /// Channels last, an image's pixels are the rows of its tokens: nothing is to be done.
    fn transpose(&mut self, cores: &Cores, node: &Node) -> Result<Result<Made, String>> {
        let Some((form, source)) = self.last(cores, &node.x)? else {
            return Ok(Err("its image is in planes".to_owned()));
        };
        let shape = Operation::Transpose.output_shape(&Tensor::shape_only(&node.x.shape), None)?;
        let rows = !self.made(node.x.source).rows;
        // Rows that were brought here from planes are images of one pixel.
        let tokens = if rows { shape[1] } else { shape.last().copied().unwrap_or(0) };
        if [form.shape[0], form.shape[2] * form.shape[3]] != [shape[0], tokens] {
            return Ok(Err("its rows are not the pixels of images".to_owned()));
        }
        Ok(Ok(Made::channels_last(shape, rows, form, source)))
    }

    /// A linear layer over the pixels of an image channels last, or why not.
    fn linear_last(&mut self, cores: &Cores, node: &Node, (from, x): (Form, Source)) -> Result<Result<Made, String>> {
        let [Operation::Linear { weight, bias }, rest @ ..] = &node.operations[..] else {
            return Ok(Err("it is no linear layer".to_owned()));
        };
        // Images of one pixel are rows, and one after the other they are longer rows.
        let from = match (&from.shape[..], &node.x.shape[..]) {
            (&[n, c, 1, 1], &[rows, columns]) if n * c == rows * columns => {
                Form { shape: vec![rows, columns, 1, 1], ..from }
            }
            _ => from,
        };
        let (&[n, inputs, h, w], &[outputs, channels]) = (&from.shape[..], weight.shape()) else {
            return Ok(Err("it has no rows".to_owned()));
        };
        let rows = n * h * w;
        if node.x.shape != [rows, channels] {
            return Ok(Err("its rows are no pixels".to_owned()));
        }
        let attended = self.attended.contains(&Source::Node(self.nodes.len()));
        let filled = if attended { outputs } else { outputs.next_multiple_of(cores.step()) };
        let tile = match cores.gemm.explain([rows, filled, inputs], cores.precision, Layout::Transposed) {
            Ok(tile) => tile,
            Err(reason) => return Ok(Err(reason)),
        };
        let made = cores.last([n, filled, h, w], filled);
        let with = match &node.with {
            None => None,
            Some(with) => match self.rows_last(cores, with)? {
                Some((form, source)) if form == made => Some(Operand { source, shape: form.shape }),
                _ => return Ok(Err("what it adds lies in another way".to_owned())),
            },
        };
        let matrix = Tensor::from_vec(&[outputs, channels, 1, 1], weight.as_slice()?.to_vec())?;
        let matrix = filled_up(&matrix, filled, inputs)?.reshape(&[filled, inputs])?;
        let product = Product {
            kernels: cores.gemm.clone(),
            weight: rounded(&matrix, cores.precision)?.to_device(self.device)?,
            scale: None,
            shift: Some(vector(bias.as_slice()?, filled)?.to_device(self.device)?),
            activation: rest.last().and_then(fuse::activation).unwrap_or_default(),
            later: None,
            alpha: 1.0,
        };
        let mut why = format!("{rows}×{filled} sums, {} steps", inputs.div_ceil(cores.step()));
        if inputs > channels || filled > outputs {
            why.push_str(" +0");
        }
        let words = Words {
            layers: names(&node.operations),
            kernel: format!("{} {tile}", cores.precision),
            why,
            kind: node.operations[0].kind(),
            flops: Some(2 * (rows * outputs * channels) as u64),
        };
        let work = Work::Linear(Box::new(product));
        let source = self.push(words, Operand { source: x, shape: from.shape }, with, made.clone(), work);
        Ok(Ok(Made::channels_last(vec![rows, outputs], true, made, source)))
    }

    /// LayerNorm of the pixels of an image channels last, or why not.
    fn layer_norm(&mut self, cores: &Cores, node: &Node) -> Result<Result<Made, String>> {
        let [Operation::LayerNorm { weight, bias, eps }] = &node.operations[..] else {
            return Ok(Err("it is no LayerNorm".to_owned()));
        };
        let Some((form, source)) = self.rows_last(cores, &node.x)? else {
            return Ok(Err("its rows are in f32".to_owned()));
        };
        if let Some(reason) = cores.layer_norm.refuses(form.shape[1], form.element) {
            return Ok(Err(reason));
        }
        let there = |part: &Tensor| part.to_device(self.device);
        let norm = Norm { kernels: cores.layer_norm.clone(), weight: there(weight)?, bias: there(bias)?, eps: *eps };
        let words = between(names(&node.operations), "registers, one read", node.operations[0].kind());
        let x = Operand { source, shape: form.shape.clone() };
        let source = self.push(words, x, None, form.clone(), Work::LayerNorm(Box::new(norm)));
        Ok(Ok(Made::channels_last(node.x.shape.clone(), true, form, source)))
    }

    /// Attention whose scores are never in memory, or why not.
    fn attention(&mut self, cores: Option<&Cores>, node: &Node) -> Result<Result<Made, String>> {
        let [Operation::Attention { heads }] = node.operations[..] else {
            return Ok(Err("it is no attention".to_owned()));
        };
        let shape = node.operations[0].output_shape(&Tensor::shape_only(&node.x.shape), None)?;
        let &[images, tokens, channels] = &shape[..] else { return Ok(Err("it has no tokens".to_owned())) };
        let there = cores.map_or(Ok(None), |cores| self.rows_last(cores, &node.x))?;
        let size = attention::Size { images, heads, queries: tokens, keys: tokens, head: channels / heads.max(1) };
        let kernels = match (cores, &there, &self.attention_f32) {
            (Some(cores), Some(_), _) => cores.attention.clone(),
            (.., Some(loaded)) => loaded.clone(),
            _ => {
                let step = attention::Attention::over_f32(self.device, Products::Parts)?;
                self.attention_f32.insert(Attends::Single(step)).clone()
            }
        };
        let choice = match kernels.explain(&size) {
            Ok(choice) => choice,
            Err(reason) => return Ok(Err(reason)),
        };
        let (x, made) = match there {
            Some((form, source)) => {
                let &[n, columns, h, w] = &form.shape[..] else { return Ok(Err("it has no tokens".to_owned())) };
                if [n, h * w, columns] != [images, tokens, 3 * channels] {
                    return Ok(Err("its tokens are filled up".to_owned()));
                }
                let made = Form { shape: vec![n, channels, h, w], ..form.clone() };
                (Operand { source, shape: form.shape }, made)
            }
            None => (self.planes(&node.x)?, Form::planes(&shape)),
        };
        let words = Words {
            layers: names(&node.operations),
            kernel: format!("{} {choice}", made.element),
            why: format!("{} heads of {}, {tokens} tokens", size.matrices(), size.head),
            kind: node.operations[0].kind(),
            flops: Some(size.flops(false) as u64),
        };
        let rows = made.format == MemoryFormat::Nhwc;
        let source = self.push(words, x, None, made.clone(), Work::Attention(Box::new(kernels), heads));
        Ok(Ok(Made { shape, rows, places: vec![(made, source)], column: None }))
    }

    /// A BatchNorm that no product takes, or a sum, channels last; or why not.
    fn pointwise(&mut self, cores: &Cores, node: &Node) -> Result<Result<Made, String>> {
        let Some((form, source)) = self.last(cores, &node.x)? else {
            return Ok(Err("its image is in planes".to_owned()));
        };
        let rows = self.made(node.x.source).rows;
        let channels = form.shape[1];
        let mut between_them = Between {
            kernels: cores.pointwise.clone(),
            scale: None,
            shift: None,
            activation: Activation::None,
            by_channel: None,
        };
        let (with, why) = match (&node.operations[..], &node.with) {
            ([norm @ Operation::BatchNorm { .. }, rest @ ..], None) if !rows => {
                let Some(ScaleShift { scale, shift }) = scale_shift(norm, None)? else {
                    return Ok(Err("it is no BatchNorm".to_owned()));
                };
                let there = |values: &[f32]| vector(values, channels)?.to_device(self.device);
                between_them.scale = Some(there(&scale)?);
                between_them.shift = Some(there(&shift)?);
                between_them.activation = rest.last().and_then(fuse::activation).unwrap_or_default();
                (None, "no product before it")
            }
            ([Operation::AddChannel], Some(with)) if !rows => {
                let (with, by_channel) = self.columns(with)?;
                between_them.by_channel = Some(by_channel);
                (Some(with), "it follows an activation")
            }
            ([Operation::Add], Some(with)) => match self.last(cores, with)? {
                Some((there, source)) if there == form && self.made(with.source).rows == rows => {
                    (Some(Operand { source, shape: there.shape }), "it follows an activation")
                }
                _ => return Ok(Err("what it adds lies in another way".to_owned())),
            },
            _ => return Ok(Err("no kernel of this phase".to_owned())),
        };
        let words = between(names(&node.operations), why, node.operations[0].kind());
        let x = Operand { source, shape: form.shape.clone() };
        let shape = self.made(node.x.source).shape.clone();
        let source = self.push(words, x, with, form.clone(), Work::Pointwise(Box::new(between_them)));
        Ok(Ok(Made::channels_last(shape, rows, form, source)))
    }

    /// Two images joined, or one enlarged, channels last; or why not.
    fn join(&mut self, cores: &Cores, node: &Node) -> Result<Result<Made, String>> {
        let operation = &node.operations[0];
        let Some((form, source)) = self.image_last(cores, &node.x)? else {
            return Ok(Err("its image is in planes".to_owned()));
        };
        let of = |operand: &Operand| Tensor::shape_only(&operand.shape);
        let shape = operation.output_shape(&of(&node.x), node.with.as_ref().map(of).as_ref())?;
        let &[n, channels, h, w] = &shape[..] else { return Ok(Err("it is no image".to_owned())) };
        let (with, made, work) = match (operation, &node.with) {
            (Operation::Concatenate, Some(with)) => {
                let parts = [node.x.shape[1], with.shape[1]];
                if parts.iter().any(|part| !(part * form.element.size()).is_multiple_of(16)) {
                    return Ok(Err("its parts are no whole vectors of 16 bytes".to_owned()));
                }
                let Some((other, of_other)) = self.image_last(cores, with)? else {
                    return Ok(Err("what is joined is in planes".to_owned()));
                };
                let made = cores.last([n, channels, h, w], channels.next_multiple_of(cores.step()));
                let with = Operand { source: of_other, shape: other.shape };
                (Some(with), made, Work::Concatenate(Concatenate::load(self.device, parts)?))
            }
            (Operation::Upsample { factor }, None) => {
                let made = cores.last([n, channels, h, w], form.shape[1]);
                (None, made, Work::Upsample(Upsample::load(self.device, *factor)?))
            }
            _ => return Ok(Err("no kernel of this phase".to_owned())),
        };
        let words = between(names(&node.operations), "16-byte vectors", operation.kind());
        let source = self.push(words, Operand { source, shape: form.shape }, with, made.clone(), work);
        Ok(Ok(Made::channels_last(shape, false, made, source)))
    }

    /// In f32 planes: a convolution or a linear layer with what phase 2's epilogue does, the rest one by one, as phase 3 does it. A BatchNorm after a
    /// convolution folds into its weights.
    fn plain(&mut self, node: &Node, reason: &str) -> Result<Made> {
        let mut x = self.planes(&node.x)?;
        let adds_channels = node.operations.iter().any(|operation| matches!(operation, Operation::AddChannel));
        let (with, by_channel) = match &node.with {
            Some(with) if adds_channels => {
                let (with, by_channel) = self.columns(with)?;
                (Some(with), Some(by_channel))
            }
            Some(with) => (Some(self.planes(with)?), None),
            None => (None, None),
        };
        let mut operations = node.operations.clone();
        let mut why = reason.to_owned();
        if let [conv, norm, ..] = &operations[..]
            && let Some(folded) = folded(conv, norm)?
        {
            operations.splice(..2, [folded]);
            why = "BatchNorm is in the weights".to_owned();
        }
        let mut made = Form::planes(&x.shape);
        let fused = match &operations[..] {
            [Operation::Conv2d { .. } | Operation::Linear { .. }, Operation::Add, Operation::Relu, ..] => 3,
            [Operation::Conv2d { .. } | Operation::Linear { .. }, Operation::Add | Operation::Relu, ..] => 2,
            [Operation::Conv2d { .. } | Operation::Linear { .. }, ..] => 1,
            _ => 0,
        };
        // With the BatchNorm that was folded.
        let layers = names(&node.operations[..fused + node.operations.len() - operations.len()]);
        if fused > 0 {
            let product = match operations[0] {
                Operation::Linear { .. } => self.linear_f32(&operations[..fused], layers, &x, with.as_ref())?,
                _ => self.conv_f32(&operations[..fused], layers, &x, with.as_ref())?,
            };
            if let Some((source, form)) = product {
                operations.drain(..fused);
                x = Operand { source, shape: form.shape.clone() };
                made = form;
            }
        }
        let activated = operations.first().and_then(fuse::activation);
        if let ([Operation::AddChannel], _) | ([_, Operation::Add | Operation::AddChannel], Some(_)) =
            (&operations[..], activated)
        {
            let kernels = match &self.sums {
                Some(there) => there.clone(),
                None => self.sums.insert(planes::Pointwise::load(self.device)?).clone(),
            };
            let words = Words {
                layers: names(&operations),
                kernel: "planes".to_owned(),
                why: "one pass".to_owned(),
                kind: operations[operations.len() - 1].kind(),
                flops: None,
            };
            let work = Work::Planes(kernels, activated.unwrap_or_default(), by_channel);
            x.source = self.push(words, x.clone(), with, made.clone(), work);
            return Ok(Made::planes(&made.shape, x.source));
        }
        for operation in operations {
            let with = with.clone().filter(|_| operation.takes_two());
            let of = |operand: &Operand| Tensor::shape_only(&operand.shape);
            let shape = operation.output_shape(&of(&x), with.as_ref().map(of).as_ref())?;
            made = Form::planes(&shape);
            let words = Words {
                layers: names(std::slice::from_ref(&operation)),
                kernel: "phase 3".to_owned(),
                why: std::mem::replace(&mut why, "not in that epilogue".to_owned()),
                kind: operation.kind(),
                flops: flops(&operation, &shape),
            };
            let bytes = parameters(&operation);
            let layer = Work::Plain(Box::new(self.unfused.load(operation)?), bytes);
            let source = self.push(words, x, with, made.clone(), layer);
            x = Operand { source, shape };
        }
        Ok(Made::planes(&made.shape, x.source))
    }

    /// A convolution in f32 with the operations that follow it, on what `x` and `with` are; `None` if only a step without an epilogue
    /// takes it.
    fn conv_f32(
        &mut self,
        operations: &[Operation],
        layers: String,
        x: &Operand,
        with: Option<&Operand>,
    ) -> Result<Option<(Source, Form)>> {
        let [Operation::Conv2d { weight, bias, params }, rest @ ..] = operations else { return Ok(None) };
        let kernels = match &self.f32 {
            Some(there) => there.clone(),
            None => self.f32.insert(Arc::new(conv_f32::Tuned::load(self.device)?)).clone(),
        };
        let (stream, image) = (self.device.stream(), Tensor::shape_only(&x.shape));
        let choice = match kernels.choice(&stream, &image, weight, *params, true) {
            Ok(choice) => choice,
            Err(error) if error.is_unsupported() => return Ok(None),
            Err(error) => return Err(error),
        };
        let relu = rest.iter().any(|operation| matches!(operation, Operation::Relu));
        let with = with.filter(|_| rest.iter().any(|operation| operation.takes_two())).cloned();
        let shape = params.output_shape(&image, weight)?;
        let there = weight.to_device(self.device)?;
        // Other steps multiply the weights as they are.
        let prepared = match choice.step.number == conv_f32::step17_winograd::STEP.number {
            true => kernels.prepare(&stream, &there, *params)?,
            false => None,
        };
        let bias = bias.as_ref().map(|bias| bias.to_device(self.device)).transpose()?;
        let mut why = format!("tiles of {}", choice.tile.unwrap_or("64x32"));
        if choice.cuts > 1 {
            let _ = write!(why, ", {} cuts", choice.cuts);
        }
        let words = Words {
            layers,
            kernel: format!("conv {}", choice.step.name),
            why,
            kind: operations[0].kind(),
            flops: flops(&operations[0], &shape),
        };
        let work = ConvF32 { kernels, weight: there, prepared, bias, relu, params: *params };
        let form = Form::planes(&shape);
        let source = self.push(words, x.clone(), with, form.clone(), Work::ConvF32(Box::new(work)));
        Ok(Some((source, form)))
    }

    /// A linear layer in f32 with the operations that follow it, on what `x` and `with` are.
    fn linear_f32(
        &mut self,
        operations: &[Operation],
        layers: String,
        x: &Operand,
        with: Option<&Operand>,
    ) -> Result<Option<(Source, Form)>> {
        let [Operation::Linear { weight, bias }, rest @ ..] = operations else { return Ok(None) };
        let (&[rows, inputs], outputs) = (&x.shape[..], weight.shape()[0]) else { return Ok(None) };
        let kernels = match &self.gemm_f32 {
            Some(there) => there.clone(),
            None => self.gemm_f32.insert(gemm_f32::Tuned::load(self.device)?).clone(),
        };
        let form = Form::planes(&[rows, outputs]);
        let words = Words {
            layers,
            kernel: "product".to_owned(),
            why: kernels.explain([rows, outputs, inputs], gemm_f32::Layout::Transposed),
            kind: operations[0].kind(),
            flops: flops(&operations[0], &form.shape),
        };
        let work = LinearF32 {
            kernels,
            weight: weight.to_device(self.device)?,
            bias: bias.to_device(self.device)?,
            relu: rest.iter().any(|operation| matches!(operation, Operation::Relu)),
        };
        let with = with.filter(|_| rest.iter().any(|operation| operation.takes_two())).cloned();
        let source = self.push(words, x.clone(), with, form.clone(), Work::LinearF32(Box::new(work)));
        Ok(Some((source, form)))
    }

    /// Sees to it that an output is there as it is wanted: where, in the shape of its form, and how it lies.
    fn output(&mut self, output: &Operand, ends: Ends) -> Result<(Operand, Edge)> {
        let there = match ends {
            Ends::Planes => None,
            Ends::AsMade => self.made(output.source).last(),
        };
        let (source, edge) = match there {
            Some((form, source)) => {
                let rows = self.made(output.source).rows;
                (source, Edge { shape: output.shape.clone(), rows, form })
            }
            None => (self.planes(output)?.source, Edge::planes(&output.shape)),
        };
        Ok((Operand { source, shape: edge.form.shape.clone() }, edge))
    }
}

/// Of a launch between two products, channels last.
fn between(layers: String, why: &str, kind: &'static str) -> Words {
    Words { layers, kernel: "channels last".to_owned(), why: why.to_owned(), kind, flops: None }
}

fn conversion(why: &str) -> Words {
    Words {
        layers: "layout".to_owned(),
        kernel: "convert".to_owned(),
        why: why.to_owned(),
        kind: CONVERSION,
        flops: None,
    }
}

/// Bytes of an operation's parameters in f32.
fn parameters(operation: &Operation) -> u64 {
    let tensors: &[&Tensor] = match operation {
        Operation::Conv2d { weight, bias: Some(bias), .. } | Operation::Linear { weight, bias } => &[weight, bias],
        Operation::Conv2d { weight, .. } => &[weight],
        Operation::LayerNorm { weight, bias, .. } => &[weight, bias],
        Operation::BatchNorm { weight, bias, mean, variance, .. } => &[weight, bias, mean, variance],
        Operation::Basis { rows, .. } => &[rows],
        _ => &[],
    };
    tensors.iter().map(|tensor| tensor.num_bytes() as u64).sum()
}

/// Multiplications and additions of a product, by the shape of its result.
fn flops(operation: &Operation, shape: &[usize]) -> Option<u64> {
    let terms = match operation {
        Operation::Conv2d { weight, .. } | Operation::Linear { weight, .. } => weight.len() / weight.shape()[0].max(1),
        _ => return None,
    };
    Some(2 * (shape.iter().product::<usize>() * terms) as u64)
}

/// What a launch does, in short.
pub(super) fn names(operations: &[Operation]) -> String {
    let name = |operation: &Operation| match operation {
        Operation::Conv2d { weight, params, .. } => {
            let (window, stride) = (&weight.shape()[2..], params.stride[0]);
            let stride = if stride == 1 { String::new() } else { format!("/{stride}") };
            format!("{}×{}{stride}", window[0], window[1])
        }
        Operation::BatchNorm { .. } => "BN".to_owned(),
        Operation::Linear { weight, .. } => format!("{} {}→{}", operation.kind(), weight.shape()[1], weight.shape()[0]),
        other => other.kind().to_owned(),
    };
    operations.iter().map(name).collect::<Vec<_>>().join(" ")
}

const NUMBER: ColumnSpec = ColumnSpec::identity("launch", "#");
const LAYERS: ColumnSpec = ColumnSpec::text("layers", "layers");
const KERNEL: ColumnSpec = ColumnSpec::text("kernel", "kernel");
const MIB: ColumnSpec = ColumnSpec::number("mib", "MiB", 2);
const MFLOP: ColumnSpec = ColumnSpec::number("mflop", "MFLOP", 1);
const MICROSECONDS: ColumnSpec = ColumnSpec::number("us", "µs", 1);
const WHY: ColumnSpec = ColumnSpec::text("why", "why");

const FORMAT: ColumnSpec = ColumnSpec::text("format", "format");

const LAUNCHES: ColumnSpec = ColumnSpec::number("launches", "launches", 0);

impl Plan {
    /// A row for launches that do the same, whatever their sizes: for plans of hundreds. The kernel is what all of them have in common,
    /// or how many there are.
    pub fn summary(&self, title: impl Into<String>) -> Table {
        let without_sizes = |launch: &Launch| {
            let words: Vec<&str> = launch.layers.split(' ').filter(|word| !word.contains('→')).collect();
            words.join(" ")
        };
        let mut kinds: Vec<(String, Vec<&Launch>)> = Vec::new();
        for launch in &self.launches {
            let layers = without_sizes(launch);
            match kinds.iter_mut().find(|(kind, _)| *kind == layers) {
                Some((_, launches)) => launches.push(launch),
                None => kinds.push((layers, vec![launch])),
            }
        }
        let mut table = TableBuilder::of(title, [LAYERS, LAUNCHES, KERNEL, MIB, MFLOP]);
        for (layers, launches) in kinds {
            let mut kernels: Vec<&str> = launches.iter().map(|launch| &*launch.kernel).collect();
            kernels.sort_unstable();
            kernels.dedup();
            let kernel = match kernels[..] {
                [one] => one.to_owned(),
                [first, ..] => format!("{first} and {} more", kernels.len() - 1),
                [] => String::new(),
            };
            let row = table.row().set(LAYERS, layers).set(LAUNCHES, launches.len()).set(KERNEL, kernel);
            let bytes = launches.iter().map(|launch| launch.bytes).sum::<u64>();
            let flops: Option<u64> = launches.iter().map(|launch| launch.flops).sum();
            let flops = flops.map(|flops| flops as f64 / 1e6);
            row.set(MIB, bytes as f64 / f64::from(1 << 20))
                .set(MFLOP, Cell::or_absent(flops, "only products are counted"))
                .complete();
        }
        table.note(format!("{} launches in all.", self.launches.len()));
        table.finish()
    }

    /// A row per launch, with what each one takes where that was measured.
    pub fn table(&self, title: impl Into<String>, milliseconds: Option<&[f64]>) -> Table {
        let measured = milliseconds.map(|_| MICROSECONDS);
        let format = self.mixed.then_some(FORMAT);
        let first = [NUMBER].into_iter().chain(format).chain([LAYERS, KERNEL, MIB, MFLOP]);
        let columns = first.chain(measured).chain([WHY]);
        let mut table = TableBuilder::of(title, columns);
        for (number, launch) in self.launches.iter().enumerate() {
            let row = table.row().set(NUMBER, number).set(LAYERS, &*launch.layers).set(KERNEL, &*launch.kernel);
            let row = row.set(MIB, launch.bytes as f64 / f64::from(1 << 20)).set(WHY, &*launch.why);
            let flops = launch.flops.map(|flops| flops as f64 / 1e6);
            let row = row.set(MFLOP, Cell::or_absent(flops, "only products are counted"));
            let row = if self.mixed { row.set(FORMAT, launch.format.to_string()) } else { row };
            match milliseconds.and_then(|all| all.get(number)) {
                Some(ms) => row.set(MICROSECONDS, 1e3 * ms).complete(),
                None => row.complete(),
            }
        }
        table.note(
            "layers: R×S/stride for a convolution, then what its launch does to a sum before it is stored; BN: BatchNorm. MiB: \
             read and written, each value once. sums: rows × columns of the product that a convolution is; steps: along K; +0: \
             channels are filled up with zeros.",
        );
        self.notes.iter().for_each(|note| table.note(note));
        table.finish()
    }
}
