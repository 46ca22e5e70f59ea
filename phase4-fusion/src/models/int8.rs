//! ResNet18 in 8-bit integers: the number that a byte stands for, on the host.
//!
//! A byte b of a value stands for step · b, with one step for a whole image's values and one for each filter's weights:
//!
//! ```text
//! y ≈ scale_k · Σ x·w + shift_k      with sums of bytes in i32
//! scale_k = step of w_k · step of x · γ_k / √(variance_k + ε) / step of y
//! ```
//!
//! A filter's step is its largest weight over 127, so no weight is cut off. A value's step comes from [`Scales::calibrate`]: the
//! largest value that the network in f32 has there for some images; larger values of other images are cut off.

use common::prelude::*;
use common::reference;
use half::f16;
use phase3_all_layers::backends::Cpu;
use phase3_all_layers::models::resnet::{Config, ResNet};
use phase3_all_layers::nn::graph::{Graph, Node, Operand, Recorder, Source};
use phase3_all_layers::nn::schedule::Step;
use phase3_all_layers::nn::{Operation, Parameters, Value};

use super::adaptive::emulate::on_cpu;
use super::fuse::{self, Addition, EpilogueSpec};
use super::parameters::{ScaleShift, scale_shift};
use crate::gemm::Activation;

/// Largest byte in use: steps are the same on both sides of 0.
pub(super) const LARGEST: f32 = 127.0;

/// The steps of a model's inputs and of the result of each node.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Scales {
    inputs: Vec<f32>,
    nodes: Vec<f32>,
    weights: WeightSteps,
}

/// Weights that share a step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WeightSteps {
    /// Each filter has its own.
    #[default]
    PerFilter,
    /// All filters of a layer share one, that of the largest weight.
    PerTensor,
}

impl Scales {
    // ANCHOR: calibrate
    /// Calibrates a network with these parameters by its values for `images` on the CPU in f32.
    ///
    /// # Errors
    /// Same as [`ResNet::load`], and errors of the layers on the CPU.
    pub fn calibrate(config: Config, parameters: &Parameters, images: &Tensor) -> Result<Scales> {
        let graph = fused(config, parameters, images.shape())?;
        let mut largest = Vec::with_capacity(graph.nodes.len());
        let cpu = Cpu::new();
        walk(&graph, std::slice::from_ref(images), |node, x, with, _| {
            let y = on_cpu(&cpu, &node.operations, x.to_host()?, with)?;
            largest.push(largest_of(&y)?);
            Ok(y)
        })?;
        Ok(Scales::of_largest(&[largest_of(images)?], &largest))
    }
    // ANCHOR_END: calibrate

    /// Scales for the largest magnitudes of a model's inputs and of its nodes' results.
    pub fn of_largest(inputs: &[f32], nodes: &[f32]) -> Scales {
        let step = |&largest: &f32| if largest > 0.0 { largest / LARGEST } else { 1.0 };
        let (inputs, nodes) = (inputs.iter().map(step).collect(), nodes.iter().map(step).collect());
        Scales { inputs, nodes, weights: WeightSteps::default() }
    }

    /// The same with steps of weights like these.
    #[must_use]
    pub fn with_weights(self, weights: WeightSteps) -> Scales {
        Scales { weights, ..self }
    }

    /// Weights that share a step.
    pub fn weights(&self) -> WeightSteps {
        self.weights
    }

    /// The step of a node's result.
    ///
    /// # Errors
    /// [`Error::Invalid`] if the scales belong to another network.
    pub fn step(&self, node: usize) -> Result<f32> {
        self.of(Source::Node(node))
    }

    /// The step of an input or of a node's result.
    ///
    /// # Errors
    /// Same as [`Scales::step`].
    pub fn of(&self, source: Source) -> Result<f32> {
        let step = match source {
            Source::Input(input) => self.inputs.get(input),
            Source::Node(node) => self.nodes.get(node),
        };
        let (inputs, nodes) = (self.inputs.len(), self.nodes.len());
        let none =
            || Error::Invalid(format!("{inputs} inputs and {nodes} launches were calibrated: none is {source:?}"));
        step.copied().ok_or_else(none)
    }
}

/// The largest magnitude; NaN is larger than all.
pub(super) fn largest_of(values: &Tensor) -> Result<f32> {
    let larger = |most: f32, value: &f32| if value.is_nan() { f32::INFINITY } else { most.max(value.abs()) };
    Ok(values.as_slice()?.iter().fold(0.0, larger))
}

/// Error of other models for int8.
pub(crate) fn only_resnet18(device: &Device) -> Error {
    Error::Unsupported {
        what: "this model in int8".to_owned(),
        device: device.short_name(),
        reason: "steps of bytes come from a calibration, which ResNet18 alone has".to_owned(),
    }
}

/// The network with the operations of one launch in one node, numbered as in its plan.
fn fused(config: Config, parameters: &Parameters, images: &[usize]) -> Result<Graph> {
    let mut graph = Graph::record(&ResNet::load(&Recorder, config, parameters)?, images)?;
    fuse::epilogues(&mut graph);
    Ok(graph)
}

/// The nodes whose results are used by operations other than convolutions: they are not in bytes.
pub(super) fn not_in_bytes(graph: &Graph) -> Vec<usize> {
    needed_wide(graph, |user| matches!(graph.nodes[user].operations[..], [Operation::Conv2d { .. }, ..]))
}

/// Why no kernel of bytes does all operations of a node, if none does.
pub fn refuses(node: &Node) -> Option<&'static str> {
    match &node.operations[..] {
        [Operation::Conv2d { params, .. }, ..] if params.groups != 1 || params.dilation != [1, 1] => {
            Some("the kernels have one group and no dilation")
        }
        [Operation::Conv2d { .. } | Operation::Linear { .. }, rest @ ..] => {
            let EpilogueSpec { activation, addition, .. } = EpilogueSpec::of(rest).unwrap_or_default();
            match (activation, addition) {
                (Activation::Gelu | Activation::Silu, _) => Some("the epilogue of bytes has no activation but ReLU"),
                (_, None | Some(Addition::BeforeActivation)) => None,
                _ => Some("the epilogue of bytes adds images before an activation"),
            }
        }
        _ => Some("it is no product"),
    }
}

/// Nodes whose results are used by anything but a product in bytes, or by one that reads them as other rows.
pub(super) fn needed_wide(graph: &Graph, in_bytes: impl Fn(usize) -> bool) -> Vec<usize> {
    let narrow = |user: usize| in_bytes(user) && refuses(&graph.nodes[user]).is_none();
    let operands = |user: &Node| [Some(user.x.clone()), user.with.clone()].into_iter().flatten();
    let as_made = |operand: &Operand, at: usize| match &graph.nodes[at].operations[0] {
        Operation::Conv2d { weight, .. } => operand.shape.len() == 4 && operand.shape[1] == weight.shape()[0],
        Operation::Linear { weight, .. } => operand.shape.len() == 2 && operand.shape[1] == weight.shape()[0],
        _ => false,
    };
    let needed = |&at: &usize| {
        let wide = |user: usize| {
            operands(&graph.nodes[user])
                .any(|operand| operand.source == Source::Node(at) && !(narrow(user) && as_made(&operand, at)))
        };
        graph.is_output(at) || (0..graph.nodes.len()).any(wide)
    };
    (0..graph.nodes.len()).filter(needed).collect()
}

/// Operations that begin with a product, with a convolution over images of one pixel in place of a linear layer.
pub(super) fn as_convolution(operations: &[Operation]) -> Result<Vec<Operation>> {
    let mut operations = operations.to_vec();
    if let [Operation::Linear { weight, bias }, ..] = &operations[..] {
        let [outputs, inputs] = weight.dims("a linear layer")?;
        let weight = Tensor::from_vec(&[outputs, inputs, 1, 1], weight.as_slice()?.to_vec())?;
        let params = reference::Conv2dParams::new(1, 0);
        operations[0] = Operation::Conv2d { weight: weight.into(), bias: Some(bias.clone()), params };
    }
    Ok(operations)
}

/// A convolution's parameters as bytes, and the epilogue of its sums.
#[derive(Debug)]
pub(super) struct Quantized {
    /// Whole numbers from −127 to 127, \[K, C, R, S\].
    pub(super) weight: Tensor,
    /// Per channel.
    pub(super) scale: Vec<f32>,
    /// Per channel.
    pub(super) shift: Vec<f32>,
}

// ANCHOR: quantized
/// Quantizes a convolution with the BatchNorm after it, if there is one, for an image and a result of these steps. Computed in
/// f64.
///
/// # Errors
/// [`Error::Invalid`] if it is not a convolution, or a parameter is not on the host.
pub(super) fn quantized(operations: &[Operation], x: f32, y: f32, steps: WeightSteps) -> Result<Quantized> {
    let [Operation::Conv2d { weight, bias, .. }, rest @ ..] = operations else {
        return Err(Error::Invalid("only convolutions are in bytes".to_owned()));
    };
    let norm = rest.first().map(|norm| scale_shift(norm, bias.as_deref())).transpose()?.flatten();
    let filters = weight.shape()[0];
    let ScaleShift { scale, shift } = match (norm, bias) {
        (Some(norm), _) => norm,
        (None, Some(bias)) => ScaleShift { scale: vec![1.0; filters], shift: bias.as_slice()?.to_vec() },
        (None, None) => ScaleShift { scale: vec![1.0; filters], shift: vec![0.0; filters] },
    };
    let (weight, steps) = units(weight, steps)?;
    let times =
        |(step, scale): (&f32, &f32)| (f64::from(*step) * f64::from(x) * f64::from(*scale) / f64::from(y)) as f32;
    let scale = steps.iter().zip(&scale).map(times).collect();
    let shift = shift.iter().map(|shift| (f64::from(*shift) / f64::from(y)) as f32).collect();
    Ok(Quantized { weight, scale, shift })
}

/// A weight \[K, …\] in units of its filters' steps, and the steps.
pub(super) fn units(weight: &Tensor, steps: WeightSteps) -> Result<(Tensor, Vec<f32>)> {
    let (filters, values) = (weight.shape().first().copied().unwrap_or(0), weight.as_slice()?);
    let largest = |weights: &[f32]| weights.iter().fold(0.0f32, |most, weight| most.max(weight.abs()));
    let (mut bytes, mut of_filters) = (Vec::with_capacity(values.len()), Vec::with_capacity(filters));
    for filter in values.chunks((values.len() / filters.max(1)).max(1)) {
        let largest = largest(if steps == WeightSteps::PerFilter { filter } else { values });
        let step = if largest > 0.0 { largest / LARGEST } else { 1.0 };
        bytes.extend(filter.iter().map(|weight| (weight / step).round_ties_even()));
        of_filters.push(step);
    }
    Ok((Tensor::from_vec(weight.shape(), bytes)?, of_filters))
}
// ANCHOR_END: quantized

/// Evaluates a graph on the host: `run` is given a node, its operands and its number. The first output.
pub(super) fn walk(
    graph: &Graph,
    inputs: &[Tensor],
    mut run: impl FnMut(&Node, &Tensor, Option<&Tensor>, usize) -> Result<Tensor>,
) -> Result<Tensor> {
    let (cpu, schedule) = (Cpu::new(), graph.schedule());
    let inputs = inputs.iter().map(|input| Value::given(&cpu, input)).collect();
    let outputs = schedule.run(inputs, |Step { number, x, with }| {
        let y = run(&graph.nodes[number], &x, with.as_deref(), number)?;
        Ok(Value::<Cpu>::result(&cpu, y))
    })?;
    let output = outputs.into_iter().next().ok_or_else(|| Error::Invalid("a network has no output".to_owned()))?;
    output.own()
}

/// Computes on the host what a plan in bytes computes: the same roundings, with exact sums. Values in f16 there are in f32 here,
/// rounded to f16 where a byte is made of them.
///
/// # Errors
/// Same as [`Scales::calibrate`].
pub fn on_host(config: Config, parameters: &Parameters, scales: &Scales, images: &Tensor) -> Result<Tensor> {
    let graph = fused(config, parameters, images.shape())?;
    let (wide, cpu) = (not_in_bytes(&graph), Cpu::new());
    let is_conv = |node: &Node| matches!(node.operations[..], [Operation::Conv2d { .. }, ..]);
    // Images of few channels, and what is not made by a convolution in bytes, are numbers.
    let in_bytes = |at: usize| {
        is_conv(&graph.nodes[at]) && matches!(graph.nodes[at].x.source, Source::Node(_)) && !wide.contains(&at)
    };
    walk(&graph, std::slice::from_ref(images), |node, x, with, number| {
        let (true, Source::Node(before)) = (is_conv(node), node.x.source) else {
            return on_cpu(&cpu, &node.operations, x.to_host()?, with);
        };
        // Bytes as they are, and of numbers the nearest byte.
        let bytes = |value: &Tensor, from: usize| -> Result<Tensor> {
            let times = 1.0 / scales.step(from)?;
            let nearest = |value: &f32| (f16::from_f32(*value).to_f32() * times).round_ties_even().clamp(-128.0, 127.0);
            if in_bytes(from) {
                return value.to_host();
            }
            Tensor::from_vec(value.shape(), value.as_slice()?.iter().map(nearest).collect())
        };
        let y_step = if in_bytes(number) { scales.step(number)? } else { 1.0 };
        let parts = quantized(&node.operations, scales.step(before)?, y_step, scales.weights)?;
        let Operation::Conv2d { params, .. } = &node.operations[0] else { return x.to_host() };
        let sums = reference::conv2d(&bytes(x, before)?, &parts.weight, None, *params)?;
        let shape = params.output_shape(x, &parts.weight)?;
        let added = match (with, node.with.as_ref().map(|with| with.source)) {
            (Some(with), Some(Source::Node(from))) => Some((bytes(with, from)?, scales.step(from)? / y_step)),
            _ => None,
        };
        let relu = node.operations.iter().any(|operation| matches!(operation, Operation::Relu));
        let plane = shape[2] * shape[3];
        let value = |(at, sum): (usize, &f64)| {
            let channel = at / plane % shape[1];
            let mut value = (*sum as f32).mul_add(parts.scale[channel], parts.shift[channel]);
            if let Some((with, scale)) = &added {
                value = with.as_slice()?[at].mul_add(*scale, value);
            }
            let value = if relu { value.max(0.0) } else { value };
            let byte = value.round_ties_even().clamp(-128.0, 127.0);
            Ok(if in_bytes(number) { byte } else { f16::from_f32(value).to_f32() })
        };
        Tensor::from_vec(&shape, sums.values.iter().enumerate().map(value).collect::<Result<_>>()?)
    })
}
