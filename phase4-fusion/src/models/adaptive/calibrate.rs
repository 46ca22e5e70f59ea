//! The calibration: the error of each layer alone in each format, and the range of its values.

use common::prelude::*;
use common::reference::Conv2dParams;
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

/// Largest f16.
pub const LARGEST_F16: f32 = 65504.0;

/// A node of the fused graph.
#[derive(Clone, Debug)]
pub struct Layer {
    /// Operations of the layer, such as `3×3 BN ReLU`.
    pub name: String,
    /// The largest magnitude of its result.
    pub largest: f32,
    /// Formats that it can be computed in, in the order of [`FORMATS`]; empty where it follows its operand.
    pub candidates: Vec<Candidate>,
}

/// A format of a layer.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// The format.
    pub format: Arithmetic,
    /// The error at the model's output when only this layer has the format: ‖y − y in f32‖ / ‖y in f32‖, infinite where a value
    /// overflows. Or why it is not a candidate.
    pub error: Result<f64, String>,
    /// Index of its difference at the output.
    difference: Option<usize>,
}

impl Layer {
    /// The error in a format; `None` if it is not a candidate.
    pub fn error(&self, format: Arithmetic) -> Option<f64> {
        self.candidate(format)?.error.as_ref().ok().copied()
    }

    /// The candidate of a format; `None` if it is not a candidate.
    pub fn candidate(&self, format: Arithmetic) -> Option<&Candidate> {
        self.candidates.iter().find(|candidate| candidate.format == format)
    }

    /// Whether a format is chosen for it.
    pub fn is_chosen_for(&self) -> bool {
        !self.candidates.is_empty()
    }
}

/// The error of several layers together, by three models: ‖y − y in f32‖ / ‖y in f32‖ each.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Errors {
    /// Length of the sum of the layers' contributions to the output.
    pub sum: f64,
    /// Root of the sum of the squares of their lengths: right if they are perpendicular.
    pub squares: f64,
    /// Sum of their lengths: right if they point the same way.
    pub lengths: f64,
}

/// Result of a calibration run.
#[derive(Debug)]
pub struct Calibration {
    graph: Graph,
    inputs: Vec<Tensor>,
    exact: Vec<Tensor>,
    scales: Scales,
    layers: Vec<Layer>,
    /// Products of each pair of the differences that single layers cause at the output, in units of its length.
    products: Vec<Vec<f64>>,
}

impl Calibration {
    // ANCHOR: run
    /// Calibrates a recorded model with these inputs, on the host: once in f32, then once per layer and format from that layer
    /// on. `device` determines which kernels are available.
    ///
    /// # Errors
    /// Errors of the rewrites and of the layers on the CPU; [`Error::Invalid`] if the output in f32 is not finite, or zero.
    pub fn run(device: &Device, mut graph: Graph, inputs: &[&Tensor]) -> Result<Calibration> {
        fuse::all(&mut graph)?;
        let inputs = inputs.iter().map(|input| input.to_host()).collect::<Result<Vec<_>>>()?;
        let exact = evaluated(&graph, &inputs)?;
        let largest = |values: &[Tensor]| values.iter().map(int8::largest_of).collect::<Result<Vec<f32>>>();
        let results = largest(&exact)?;
        let scales = Scales::of_largest(&largest(&inputs)?, &results);
        let kernels = Kernels::load(device)?;
        let grouped: Vec<usize> = fuse::side_by_side(&graph)?.into_iter().flat_map(|group| group.nodes).collect();
        let output = exact.last().ok_or_else(|| Error::Invalid("a model has no layer".to_owned()))?.as_slice()?;
        let (mut layers, mut differences) = (Vec::with_capacity(graph.nodes.len()), Vec::<Vec<f32>>::new());
        for (at, node) in graph.nodes.iter().enumerate() {
            let emulator = Emulator { graph: &graph, inputs: &inputs, exact: &exact, scales: &scales };
            let mut alone = |format| -> Result<(f64, usize)> {
                let mut formats = vec![Arithmetic::F32; graph.nodes.len()];
                formats[at] = format;
                follow(&graph, &mut formats);
                let found = emulator.output(&formats)?;
                differences.push(found.as_slice()?.iter().zip(output).map(|(a, b)| a - b).collect());
                Ok((relative_error(found.as_slice()?, output)?, differences.len() - 1))
            };
            let mut candidate = |format| {
                let refused = if grouped.contains(&at) && format != Arithmetic::F32 {
                    Some("it is launched with others, in f32".to_owned())
                } else {
                    kernels.refuse(node, format)?
                };
                let (error, difference) = match (refused, format) {
                    (Some(reason), _) => (Err(reason), None),
                    (None, Arithmetic::F32) => (Ok(0.0), None),
                    (None, _) => alone(format).map(|(error, difference)| (Ok(error), Some(difference)))?,
                };
                Ok(Candidate { format, error, difference })
            };
            let formats = FORMATS.into_iter().filter(|_| is_product(node));
            let candidates = formats.map(&mut candidate).collect::<Result<_>>()?;
            layers.push(Layer { name: plan::names(&node.operations), largest: results[at], candidates });
        }
        let square = dot(output, output);
        let with_all = |a: &Vec<f32>| differences.iter().map(|b| dot(a, b) / square).collect();
        let products = differences.iter().map(with_all).collect();
        Ok(Calibration { graph, inputs, exact, scales, layers, products })
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

    /// Number of images, or rows, of the calibration's inputs.
    pub fn images(&self) -> usize {
        self.inputs.first().and_then(|input| input.shape().first()).copied().unwrap_or(0).max(1)
    }

    /// Output of the model for the calibration's inputs in f32.
    pub fn exact_output(&self) -> &[f32] {
        self.exact.last().and_then(|output| output.as_slice().ok()).unwrap_or_default()
    }

    // ANCHOR: predicted
    /// Predicted error of layers in these formats together.
    ///
    /// To first order what layers alone add to the output adds up, as vectors. Roundings to the nearest are as often up as down: those
    /// of different layers are as good as perpendicular, and the squares of their lengths add up. But tf32's operands are cut off, always
    /// towards zero, and those of different layers point the same way: so products between layers count too. What these take away by
    /// chance, other inputs need not, so that the prediction is never less than without them.
    pub fn predicted(&self, formats: &[Arithmetic]) -> f64 {
        let Errors { sum, squares, .. } = self.errors(formats);
        sum.max(squares)
    }
    // ANCHOR_END: predicted

    /// Predicts the error by three models of how errors of single layers add up.
    pub fn errors(&self, formats: &[Arithmetic]) -> Errors {
        let (mut length, mut differences) = (0.0, Vec::new());
        for (layer, &format) in self.layers.iter().zip(formats).filter(|(layer, _)| layer.is_chosen_for()) {
            length += layer.error(format).unwrap_or(f64::INFINITY);
            differences.extend(layer.candidate(format).and_then(|candidate| candidate.difference));
        }
        if !length.is_finite() {
            return Errors { sum: length, squares: length, lengths: length };
        }
        let (mut sum, mut squares) = (0.0f64, 0.0f64);
        for &a in &differences {
            sum += differences.iter().map(|&b| self.products[a][b]).sum::<f64>();
            squares += self.products[a][a];
        }
        Errors { sum: sum.max(0.0).sqrt(), squares: squares.sqrt(), lengths: length }
    }

    /// The error of these formats on the calibration's own inputs, emulated on the host.
    ///
    /// # Errors
    /// Errors of the layers on the CPU.
    pub fn emulated(&self, formats: &[Arithmetic]) -> Result<f64> {
        let Calibration { graph, inputs, exact, scales, .. } = self;
        let found = Emulator { graph, inputs, exact, scales }.output(formats)?;
        relative_error(found.as_slice()?, self.exact_output())
    }

    /// Each layer in `format`, where it is a candidate, otherwise in the next more exact one that its results can be stored in.
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

    /// Gives the nodes between products the format of their operand.
    pub fn follow(&self, formats: &mut [Arithmetic]) {
        follow(&self.graph, formats);
    }

    /// The products that work on a node's result, directly or through nodes that are not products.
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

    /// Formats for a plan.
    pub fn formats(&self, each: Vec<Arithmetic>) -> Formats {
        Formats { each, scales: self.scales.clone() }
    }
}

/// Whether a node is a product with its epilogue.
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
    let (cpu, mut results) = (Cpu::new(), Vec::with_capacity(graph.nodes.len()));
    int8::walk(graph, inputs, |node, x, with, _| {
        let y = on_cpu(&cpu, &node.operations, x.to_host()?, with)?;
        results.push(y.to_host()?);
        Ok(y)
    })?;
    Ok(results)
}

// ANCHOR: relative
/// ‖found − expected‖ / ‖expected‖, in f64; infinite if a found value is not finite.
///
/// # Errors
/// [`Error::Invalid`] if the expected values are not finite, or all are zero.
pub fn relative_error(found: &[f32], expected: &[f32]) -> Result<f64> {
    let length = dot(expected, expected).sqrt();
    if !length.is_finite() || length == 0.0 {
        return Err(Error::Invalid("an error is relative to an output of numbers that are not all zero".to_owned()));
    }
    let squares = found.iter().zip(expected).map(|(a, b)| (f64::from(*a) - f64::from(*b)).powi(2));
    let error = squares.sum::<f64>().sqrt() / length;
    Ok(if error.is_finite() { error } else { f64::INFINITY })
}
// ANCHOR_END: relative

fn dot(a: &[f32], b: &[f32]) -> f64 {
    a.iter().zip(b).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum()
}

/// Kernels that determine which products are supported.
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
                let [n, _, h, w] = Tensor::shape_only(&node.x.shape).dims4()?;
                let outputs = k.next_multiple_of(step);
                let refusal = |channels: usize| {
                    let ungrouped = Conv2dParams { groups: 1, ..*params };
                    let layer = conv::Size::new([n, channels, h, w], [outputs, channels, r, s], ungrouped)?;
                    Ok::<_, Error>(conv.explain(&layer, *params, precision).err())
                };
                Ok(if refusal(c)?.is_none() { None } else { refusal(c.next_multiple_of(step))? })
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
