//! Costs of a plan: each layer in each format, and the conversions between layers whose formats differ.

use common::prelude::*;
use phase3_all_layers::nn::Operation;
use phase3_all_layers::nn::graph::{Graph, Node, Operand, Source};

use super::super::Arithmetic;
use super::super::plan::Plan;
use super::super::runner::Runner;
use super::calibrate::{Calibration, is_product};
use super::{FORMATS, stored};

/// Limits of a GPU for the floor of a plan's time.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Bytes per second of memory, read and written.
    pub bytes_per_second: f64,
    /// Floating-point operations per second in f32, outside tensor cores.
    pub flops: f64,
    /// The same of tensor cores in f16; half for tf32, twice for bytes and 8-bit floats.
    pub flops_f16: f64,
    /// Seconds from one launch to the next.
    pub launch: f64,
}

impl Limits {
    /// An H200 by its data sheet, with the bandwidth of a copy and the distance of dependent launches as measured in this course.
    pub const H200: Limits = Limits { bytes_per_second: 4.3e12, flops: 67e12, flops_f16: 989e12, launch: 2e-6 };

    fn flops_in(&self, format: Arithmetic) -> f64 {
        match format {
            Arithmetic::F32 => self.flops,
            Arithmetic::Tf32 => self.flops_f16 / 2.0,
            Arithmetic::F16 => self.flops_f16,
            Arithmetic::Fp8 | Arithmetic::Int8 => self.flops_f16 * 2.0,
        }
    }
}

/// Milliseconds of a model's layers and conversions.
#[derive(Clone, Debug)]
pub struct Costs {
    /// By node, in the order of [`FORMATS`]; formats that are not candidates are unused.
    nodes: Vec<[f64; FORMATS.len()]>,
    /// Milliseconds of a launch that does nothing.
    launch: f64,
    /// Milliseconds of a conversion, per byte of the calibration's values.
    per_byte: f64,
    values: Vec<Value>,
    /// Whether they were measured, or come from a model.
    pub measured: bool,
}

/// An input or a node's result, for conversions.
#[derive(Clone, Debug)]
struct Value {
    /// Number of f32 values.
    count: usize,
    /// Whether it is rows, whose layout is the same in f32 and channels last.
    rows: bool,
    /// The node that makes it, if its layout follows that node's format; otherwise it is in planes.
    made: Option<usize>,
    /// The nodes that use it, and how.
    users: Vec<(usize, Use)>,
    is_output: bool,
}

/// How a node uses a value.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Use {
    Image,
    /// As rows of a linear layer, which tf32 multiplies in place.
    Rows,
    /// A value per channel, always in planes.
    PerChannel,
}

/// Layout of a value in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Place {
    Planes,
    LastF32,
    LastF16,
    Bytes,
    Floats8,
}

impl Place {
    fn size(self) -> usize {
        match self {
            Place::Planes | Place::LastF32 => 4,
            Place::LastF16 => 2,
            Place::Bytes | Place::Floats8 => 1,
        }
    }
}

impl Costs {
    /// The floor of a model's time on a GPU with these limits: for each layer the time of its bytes or of its operations,
    /// whichever is longer, and a launch. For `batches` times the inputs of the calibration.
    pub fn floor(calibration: &Calibration, limits: Limits, batches: f64) -> Costs {
        let graph = calibration.graph();
        let ms = |node: &Node| {
            FORMATS.map(|format| {
                let (read, written) = match format {
                    Arithmetic::F32 | Arithmetic::Tf32 => (4, 4),
                    Arithmetic::F16 => (2, 2),
                    Arithmetic::Fp8 | Arithmetic::Int8 => (1, 2),
                };
                let size = |shape: &[usize]| shape.iter().product::<usize>();
                let operands = size(&node.x.shape) + node.with.as_ref().map_or(0, |with| size(&with.shape));
                let (weights, flops, result) = product(node);
                let values = (operands * read + result.unwrap_or(operands) * written) as f64;
                let bytes = batches * values + (weights * read) as f64;
                let took = (bytes / limits.bytes_per_second).max(batches * flops / limits.flops_in(format));
                1e3 * (limits.launch + took)
            })
        };
        let nodes = graph.nodes.iter().map(ms).collect();
        let per_byte = batches * 1e3 / limits.bytes_per_second;
        Costs { nodes, launch: 1e3 * limits.launch, per_byte, values: values(graph), measured: false }
    }

    /// Measured on a GPU, launch by launch: a plan for each format, of `graph` with inputs of these shapes. `None` on the simulator, which
    /// has no clock.
    ///
    /// # Errors
    /// Same as [`Plan::mixed`] and [`Runner::milliseconds`].
    pub fn measured(
        device: &Device,
        graph: impl Fn() -> Result<Graph>,
        inputs: &[&[usize]],
        calibration: &Calibration,
    ) -> Result<Option<Costs>> {
        if device.is_sim() {
            return Ok(None);
        }
        let mut nodes = vec![[f64::INFINITY; FORMATS.len()]; calibration.layers().len()];
        let (mut launch, mut fastest) = (f64::INFINITY, 0.0f64);
        for (place, format) in FORMATS.into_iter().enumerate() {
            let formats = calibration.uniform(format);
            let plan = Plan::mixed(device, graph()?, inputs, &calibration.formats(formats.clone()))?;
            let mut runner = Runner::new(device, plan)?;
            let stream = device.stream();
            // The first pass loads code.
            runner.queue(&stream)?;
            let Some(ms) = runner.milliseconds(&stream)? else { return Ok(None) };
            nodes.iter_mut().for_each(|node| node[place] = 0.0);
            for (made, ms) in runner.plan().launches().iter().zip(ms) {
                launch = launch.min(ms);
                fastest = fastest.max(made.bytes as f64 / ms);
                // The conversion at the end belongs to no node.
                if let (false, Some(node)) = (made.is_conversion(), nodes.get_mut(made.node)) {
                    node[place] += ms;
                }
            }
        }
        // The plan's values are larger than the calibration's as its batch is.
        let images = |inputs: Option<&usize>| inputs.copied().unwrap_or(1).max(1) as f64;
        let batches = images(inputs.first().and_then(|shape| shape.first())) / calibration.images() as f64;
        let values = values(calibration.graph());
        Ok(Some(Costs { nodes, launch, per_byte: batches / fastest, values, measured: true }))
    }

    /// Milliseconds of a node in a format.
    pub fn node(&self, node: usize, format: Arithmetic) -> f64 {
        let place = FORMATS.iter().position(|other| *other == format).unwrap_or(0);
        self.nodes[node][place]
    }

    /// Milliseconds of a plan with these formats.
    pub fn total(&self, formats: &[Arithmetic]) -> f64 {
        let nodes: f64 = formats.iter().enumerate().map(|(node, format)| self.node(node, *format)).sum();
        nodes + self.values.iter().map(|value| self.conversions(value, formats)).sum::<f64>()
    }

    /// Cost of converting a value to all requested forms.
    fn conversions(&self, value: &Value, formats: &[Arithmetic]) -> f64 {
        let in_bytes = |&(user, how): &(usize, Use)| formats[user] == Arithmetic::Int8 && how != Use::PerChannel;
        let last = |format| match stored(format) {
            Arithmetic::F32 => Place::Planes,
            Arithmetic::Tf32 => Place::LastF32,
            _ => Place::LastF16,
        };
        let made = match value.made {
            None => Place::Planes,
            Some(node) if formats[node] == Arithmetic::Int8 && !value.is_output && value.users.iter().all(in_bytes) => {
                Place::Bytes
            }
            Some(node) => last(formats[node]),
        };
        let mut wanted: Vec<Place> = value
            .users
            .iter()
            .map(|&(user, how)| match (formats[user], how) {
                (_, Use::PerChannel) => Place::Planes,
                (Arithmetic::Int8, _) => Place::Bytes,
                (Arithmetic::Fp8, _) => Place::Floats8,
                // As they lie.
                (Arithmetic::Tf32, Use::Rows) if matches!(made, Place::Planes | Place::LastF32) => made,
                (format, _) => last(format),
            })
            .chain(value.is_output.then_some(Place::Planes))
            .filter(|place| *place != made)
            .collect();
        wanted.sort_unstable();
        wanted.dedup();
        wanted.into_iter().map(|place| self.conversion(value, made, place)).sum()
    }

    fn conversion(&self, value: &Value, from: Place, to: Place) -> f64 {
        let step =
            |from: Place, to: Place| self.launch + self.per_byte * (value.count * (from.size() + to.size())) as f64;
        match (from, to) {
            (Place::Planes, Place::Bytes | Place::Floats8) if !value.rows => {
                step(Place::Planes, Place::LastF32) + step(Place::LastF32, to)
            }
            _ => step(from, to),
        }
    }
}

/// Number of weights of a product, its operations, and the number of values of its result.
fn product(node: &Node) -> (usize, f64, Option<usize>) {
    let (weight, result) = match &node.operations[0] {
        Operation::Conv2d { weight, params, .. } => {
            let shape = params.output_shape(&Tensor::shape_only(&node.x.shape), weight);
            (weight, shape.map_or(0, |shape| shape.iter().product()))
        }
        Operation::Linear { weight, .. } => (weight, node.x.shape[0] * weight.shape()[0]),
        _ => return (0, 0.0, None),
    };
    let terms = weight.len() / weight.shape()[0].max(1);
    (weight.len(), 2.0 * (result * terms) as f64, Some(result))
}

/// All values of a graph, with their users.
fn values(graph: &Graph) -> Vec<Value> {
    let mut values: Vec<(Source, Value)> = Vec::new();
    let blank = |made, is_output| Value { count: 0, rows: false, made, users: Vec::new(), is_output };
    for (at, node) in graph.nodes.iter().enumerate() {
        let made = match &node.operations[..] {
            [Operation::AveragePool | Operation::TimestepEmbedding { .. }] => None,
            _ => Some(at),
        };
        values.push((Source::Node(at), blank(made, at + 1 == graph.nodes.len())));
        // The output has no user that says how large it is.
        let (_, _, result) = product(node);
        if let Some((_, value)) = values.last_mut() {
            value.count = result.unwrap_or_else(|| node.x.shape.iter().product());
        }
        let linear = matches!(node.operations[..], [Operation::Linear { .. }, ..]) && is_product(node);
        let by_channel = node.operations.iter().any(|operation| matches!(operation, Operation::AddChannel));
        let first = if linear { Use::Rows } else { Use::Image };
        let second = if by_channel { Use::PerChannel } else { first };
        for (operand, how) in [(Some(&node.x), first), (node.with.as_ref(), second)] {
            let Some(Operand { source, shape }) = operand else { continue };
            let value = match values.iter().position(|(of, _)| of == source) {
                Some(there) => &mut values[there].1,
                None => {
                    values.push((*source, blank(None, false)));
                    let last = values.len() - 1;
                    &mut values[last].1
                }
            };
            value.count = shape.iter().product();
            value.rows |= shape.len() == 2;
            value.users.push((at, how));
        }
    }
    values.into_iter().map(|(_, value)| value).collect()
}
