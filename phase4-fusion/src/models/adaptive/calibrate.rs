//! The calibration: the error that each layer alone causes in each format, and the range of its values.

use common::prelude::*;
use phase3_all_layers::backends::Cpu;
use phase3_all_layers::nn::Operation;
use phase3_all_layers::nn::graph::{Graph, Node, Operand, Source};

use super::super::int8::{self, Scales};
use super::super::plan::{self, Formats};
use super::super::{Arithmetic, fuse};
use super::emulate::{Emulator, on_cpu};
use super::{FORMATS, stored};
use crate::conv;
use crate::gemm::{self, Layout, Precision, ROW_BYTES};

/// The largest f16.
pub const LARGEST_F16: f32 = 65504.0;

/// A node of the fused graph.
#[derive(Clone, Debug)]
pub struct Layer {
    /// What it does, such as `3×3 BN ReLU`.
    pub name: String,
    /// The largest magnitude of its result.
    pub largest: f32,
    /// What it can be computed in, [`FORMATS`] one by one; empty where it follows its operand.
    pub candidates: Vec<Candidate>,
}

/// A format of a layer.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// The format.
    pub format: Arithmetic,
    /// The error at the model's output when this layer alone has it: ‖y − y in f32‖ / ‖y in f32‖, infinite where a value overflows. Or why
    /// it is no candidate.
    pub error: Result<f64, String>,
}

impl Layer {
    /// The error in a format; `None` if it is no candidate.
    pub fn error(&self, format: Arithmetic) -> Option<f64> {
        let candidate = self.candidates.iter().find(|candidate| candidate.format == format)?;
        candidate.error.as_ref().ok().copied()
    }

    /// Whether a format is chosen for it.
    pub fn is_chosen_for(&self) -> bool {
        !self.candidates.is_empty()
    }
}

/// What a calibration run has found.
#[derive(Debug)]
pub struct Calibration {
    graph: Graph,
    inputs: Vec<Tensor>,
    exact: Vec<Tensor>,
    scales: Scales,
    layers: Vec<Layer>,
}

impl Calibration {
    // ANCHOR: run
    /// For a recorded model with these inputs, on the host: once in f32, then once per layer and format from that layer on. `device` says
    /// which kernels there are.
    ///
    /// # Errors
    /// Those of the rewrites and of the layers on the CPU; [`Error::Invalid`] if the output in f32 is no number, or zero.
    pub fn run(device: &Device, mut graph: Graph, inputs: &[&Tensor]) -> Result<Calibration> {
        fuse::all(&mut graph)?;
        let inputs = inputs.iter().map(|input| input.to_host()).collect::<Result<Vec<_>>>()?;
        let exact = evaluated(&graph, &inputs)?;
        let largest = |values: &[Tensor]| values.iter().map(int8::largest_of).collect::<Result<Vec<f32>>>();
        let results = largest(&exact)?;
        let scales = Scales::of_largest(&largest(&inputs)?, &results);
        let kernels = Kernels::load(device)?;
        let grouped: Vec<usize> = fuse::side_by_side(&graph)?.into_iter().flat_map(|group| group.nodes).collect();
        let mut layers = Vec::with_capacity(graph.nodes.len());
        for (at, node) in graph.nodes.iter().enumerate() {
            let emulator = Emulator { graph: &graph, inputs: &inputs, exact: &exact, scales: &scales };
            let alone = |format| {
                let mut formats = vec![Arithmetic::F32; graph.nodes.len()];
                formats[at] = format;
                follow(&graph, &mut formats);
                relative(&emulator.output(&formats)?, exact.last())
            };
            let candidate = |format| {
                let refused = match grouped.contains(&at) && stored(format) == Arithmetic::F16 {
                    true => Some("it is launched with others, in f32".to_owned()),
                    false => kernels.refuse(node, format)?,
                };
                let error = match (refused, format) {
                    (Some(reason), _) => Err(reason),
                    (None, Arithmetic::F32) => Ok(0.0),
                    (None, _) => Ok(alone(format)?),
                };
                Ok(Candidate { format, error })
            };
            let candidates = match is_product(node) {
                true => FORMATS.into_iter().map(candidate).collect::<Result<_>>()?,
                false => Vec::new(),
            };
            layers.push(Layer { name: plan::names(&node.operations), largest: results[at], candidates });
        }
        Ok(Calibration { graph, inputs, exact, scales, layers })
    }
    // ANCHOR_END: run

    /// The nodes of the fused graph.
    pub fn layers(&self) -> &[Layer] {
        &self.layers
    }

    /// The fused graph.
    pub fn graph(&self) -> &Graph {
        &self.graph
    }

    /// What the model makes of the calibration's inputs in f32.
    pub fn exact_output(&self) -> &[f32] {
        self.exact.last().and_then(|output| output.as_slice().ok()).unwrap_or_default()
    }

    // ANCHOR: predicted
    /// The error that layers in these formats are predicted to cause together.
    ///
    /// Roundings to the nearest are as often up as down: those of different layers have nothing to do with one another, and their squares
    /// add up. tf32's operands are cut off, always towards zero: each layer takes a little of all that comes through it, these errors
    /// point the same way, and so they add up themselves.
    pub fn predicted(&self, formats: &[Arithmetic]) -> f64 {
        let sum_of = |cut: bool, power: i32| -> f64 {
            let errors = self.errors(formats).filter(|(format, _)| (*format == Arithmetic::Tf32) == cut);
            errors.map(|(_, error)| error.powi(power)).sum()
        };
        (sum_of(true, 1).powi(2) + sum_of(false, 2)).sqrt()
    }
    // ANCHOR_END: predicted

    /// Two other models, to compare with: the root of the sum of all squares, and the sum.
    pub fn other_models(&self, formats: &[Arithmetic]) -> [f64; 2] {
        let power = |power: i32| self.errors(formats).map(|(_, error)| error.powi(power)).sum::<f64>();
        [power(2).sqrt(), power(1)]
    }

    fn errors(&self, formats: &[Arithmetic]) -> impl Iterator<Item = (Arithmetic, f64)> {
        let error = |(layer, &format): (&Layer, &Arithmetic)| (format, layer.error(format).unwrap_or(f64::INFINITY));
        self.layers.iter().zip(formats).filter(|(layer, _)| layer.is_chosen_for()).map(error)
    }

    /// The error of these formats on the calibration's own inputs, emulated on the host.
    ///
    /// # Errors
    /// Those of the layers on the CPU.
    pub fn emulated(&self, formats: &[Arithmetic]) -> Result<f64> {
        let Calibration { graph, inputs, exact, scales, .. } = self;
        relative(&Emulator { graph, inputs, exact, scales }.output(formats)?, exact.last())
    }

    /// Each layer in `format`, where it is a candidate, else in the next more exact one that its results can be stored in.
    pub fn uniform(&self, format: Arithmetic) -> Vec<Arithmetic> {
        let instead = [format, stored(format), Arithmetic::Tf32, Arithmetic::F32];
        let of = |layer: &Layer| {
            let is_there = |format: &Arithmetic| layer.error(*format).is_some();
            instead.into_iter().find(is_there).unwrap_or_default()
        };
        let mut formats: Vec<Arithmetic> = self.layers.iter().map(of).collect();
        self.follow(&mut formats);
        formats
    }

    /// Gives what lies between products the format in which its operand lies.
    pub fn follow(&self, formats: &mut [Arithmetic]) {
        follow(&self.graph, formats);
    }

    /// The products that work on a node's result, or on what follows it without another product.
    pub fn products_after(&self, node: usize) -> Vec<usize> {
        let mut reached = vec![node];
        let mut products = Vec::new();
        for (at, user) in self.graph.nodes.iter().enumerate().skip(node + 1) {
            let takes = |operand: &Operand| matches!(operand.source, Source::Node(of) if reached.contains(&of));
            if takes(&user.x) || user.with.as_ref().is_some_and(takes) {
                if is_product(user) { products.push(at) } else { reached.push(at) }
            }
        }
        products
    }

    /// What a plan takes.
    pub fn formats(&self, each: Vec<Arithmetic>) -> Formats {
        Formats { each, scales: self.scales.clone() }
    }
}

/// Whether a node is a product with what its epilogue does.
pub(super) fn is_product(node: &Node) -> bool {
    matches!(node.operations[..], [Operation::Conv2d { .. } | Operation::Linear { .. }, ..])
}

fn follow(graph: &Graph, formats: &mut [Arithmetic]) {
    for (at, node) in graph.nodes.iter().enumerate() {
        if !is_product(node) {
            formats[at] = match node.x.source {
                Source::Input(_) => Arithmetic::F32,
                Source::Node(before) => stored(formats[before]),
            };
        }
    }
}

/// Every node's result on the CPU, in f32.
fn evaluated(graph: &Graph, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
    let cpu = Cpu::new();
    let mut made: Vec<Tensor> = Vec::with_capacity(graph.nodes.len());
    for node in &graph.nodes {
        let take = |operand: &Operand| match operand.source {
            Source::Input(input) => {
                let none = || Error::Invalid(format!("a model was calibrated without its input {input}"));
                inputs.get(input).ok_or_else(none)?.to_host()?.reshape(&operand.shape)
            }
            Source::Node(at) => made[at].to_host()?.reshape(&operand.shape),
        };
        let y = on_cpu(&cpu, &node.operations, take(&node.x)?, node.with.as_ref().map(take).transpose()?.as_ref())?;
        made.push(y);
    }
    Ok(made)
}

// ANCHOR: relative
/// ‖found − expected‖ / ‖expected‖, in f64; infinite if something found is no number.
///
/// # Errors
/// [`Error::Invalid`] if the expected values are no numbers, or all are zero.
pub fn relative_error(found: &[f32], expected: &[f32]) -> Result<f64> {
    let squares = |values: &mut dyn Iterator<Item = f64>| values.map(|value| value * value).sum::<f64>();
    let length = squares(&mut expected.iter().map(|value| f64::from(*value))).sqrt();
    if !length.is_finite() || length == 0.0 {
        return Err(Error::Invalid("an error is relative to an output of numbers that are not all zero".to_owned()));
    }
    let pairs = found.iter().zip(expected);
    let error = squares(&mut pairs.map(|(a, b)| f64::from(*a) - f64::from(*b))).sqrt() / length;
    Ok(if error.is_finite() { error } else { f64::INFINITY })
}
// ANCHOR_END: relative

fn relative(found: &Tensor, expected: Option<&Tensor>) -> Result<f64> {
    let expected = expected.ok_or_else(|| Error::Invalid("a model has no layer".to_owned()))?;
    relative_error(found.as_slice()?, expected.as_slice()?)
}

/// What says which products there are kernels for.
struct Kernels(Result<(conv::Tuned, gemm::Tuned), String>);

impl Kernels {
    fn load(device: &Device) -> Result<Kernels> {
        let both = conv::Tuned::load(device).and_then(|conv| Ok((conv, gemm::Tuned::load(device)?)));
        match both {
            Ok(both) => Ok(Kernels(Ok(both))),
            Err(error) if error.is_unsupported() => Ok(Kernels(Err(error.to_string()))),
            Err(error) => Err(error),
        }
    }

    /// Why no kernel computes a product in a format, if none does.
    fn refuse(&self, node: &Node, format: Arithmetic) -> Result<Option<String>> {
        let (precision, (conv, gemm)) = match (format, &self.0) {
            (Arithmetic::F32, _) => return Ok(None),
            (_, Err(reason)) => return Ok(Some(reason.clone())),
            (Arithmetic::Int8, _) => return Ok(int8::refuses(node).map(str::to_owned)),
            (Arithmetic::Fp8, Ok(kernels)) => (Precision::E4M3, kernels),
            (Arithmetic::Tf32, Ok(kernels)) => (Precision::Tf32, kernels),
            (Arithmetic::F16, Ok(kernels)) => (Precision::F16, kernels),
        };
        let step = ROW_BYTES / stored_in(format).size();
        match &node.operations[0] {
            Operation::Conv2d { .. } if format == Arithmetic::Fp8 => {
                Ok(Some("no convolution of 8-bit floats".to_owned()))
            }
            Operation::Conv2d { weight, params, .. } => {
                let [k, c, r, s] = weight.dims4()?;
                let ([n, _, h, w], [_, _, p, q]) = {
                    let x = Tensor::shape_only(&node.x.shape);
                    (x.dims4()?, params.output_shape(&x, weight)?)
                };
                let outputs = k.next_multiple_of(step);
                let with = |channels: usize| {
                    let layer = conv::Layer {
                        input: [n, channels, h, w],
                        filter: [outputs, channels, r, s],
                        output: [n, outputs, p, q],
                        stride: params.stride[0],
                        padding: params.padding[0],
                    };
                    conv.explain(&layer, *params, precision).err()
                };
                Ok(with(c).and_then(|_| with(c.next_multiple_of(step))))
            }
            Operation::Linear { weight, .. } => {
                let &[outputs, inputs] = weight.shape() else { return Ok(Some("it has no rows".to_owned())) };
                let (outputs, inputs) = match format {
                    Arithmetic::Tf32 => (outputs, inputs),
                    _ => (outputs.next_multiple_of(step), inputs.next_multiple_of(step)),
                };
                Ok(gemm.explain([node.x.shape[0], outputs, inputs], precision, Layout::Transposed).err())
            }
            _ => Ok(Some("it is no product".to_owned())),
        }
    }
}

/// The type of values channels last.
fn stored_in(format: Arithmetic) -> ElementType {
    if format == Arithmetic::Tf32 { ElementType::F32 } else { ElementType::F16 }
}
