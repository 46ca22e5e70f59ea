//! Kernels in planes of f32: phase 2's products with their epilogue, sums in one pass, and phase 3's kernels for the rest.

use std::fmt::Write;
use std::sync::Arc;

use common::reference::Conv2dParams;
use phase2_conv_bn::{conv, gemm};
use phase3_all_layers::backends::Unfused;
use phase3_all_layers::nn::Backend;

use super::prelude::*;
use crate::gemm::Activation;
use crate::models::fuse;
use crate::models::parameters::folded;
use crate::planes;

/// A layer of phase 3.
#[derive(Debug)]
struct Plain {
    layer: <Unfused as Backend>::Layer,
    parameter_bytes: u64,
}

impl PlannedKernel for Plain {
    fn name(&self) -> String {
        "phase 3".to_owned()
    }

    fn run<'p>(&'p self, _: Call<'p>, x: Flowing<'p>, with: Option<Flowing<'p>>) -> Result<Intermediate> {
        Unfused::run(&self.layer, x, with)
    }

    fn parameter_bytes(&self) -> u64 {
        self.parameter_bytes
    }
}

/// The result of a product that is added to its second operand where that lies: its memory, and the factor of what it holds.
fn onto<'p>(call: &Call<'p>, with: Option<Flowing<'p>>) -> Result<(Intermediate, f32)> {
    match with {
        Some(with) => Ok((with.own()?, 1.0)),
        None => Ok((call.result()?, 0.0)),
    }
}

/// A convolution with its epilogue.
#[derive(Debug)]
struct Convolution {
    kernels: Arc<conv::Tuned>,
    step: &'static str,
    weight: Tensor,
    /// Winograd's transform of the weight, if that is what it is launched with.
    prepared: Option<conv::Prepared>,
    bias: Option<Tensor>,
    relu: bool,
    params: Conv2dParams,
}

impl PlannedKernel for Convolution {
    fn name(&self) -> String {
        format!("conv {}", self.step)
    }

    fn run<'p>(&'p self, call: Call<'p>, x: Flowing<'p>, with: Option<Flowing<'p>>) -> Result<Intermediate> {
        let Convolution { kernels, weight, prepared, bias, relu, params, .. } = self;
        let (mut y, beta) = onto(&call, with)?;
        let epilogue = gemm::Epilogue { alpha: 1.0, beta, bias: bias.as_ref(), relu: *relu };
        call.queue(|stream| {
            kernels.launch_prepared(stream, &x, weight, prepared.as_ref(), &epilogue, *params, &mut y)
        })?;
        Ok(y)
    }

    fn parameter_bytes(&self) -> u64 {
        bytes_of([Some(&self.weight), self.bias.as_ref()].into_iter().flatten())
    }

    fn prepared_bytes(&self) -> u64 {
        self.prepared.as_ref().map_or(0, |prepared| prepared.num_bytes() as u64)
    }
}

/// A linear layer with its epilogue.
#[derive(Debug)]
struct Linear {
    kernels: gemm::Tuned,
    weight: Tensor,
    bias: Tensor,
    relu: bool,
}

impl PlannedKernel for Linear {
    fn name(&self) -> String {
        "product".to_owned()
    }

    fn run<'p>(&'p self, call: Call<'p>, x: Flowing<'p>, with: Option<Flowing<'p>>) -> Result<Intermediate> {
        let Linear { kernels, weight, bias, relu } = self;
        let (mut y, beta) = onto(&call, with)?;
        let epilogue = gemm::Epilogue { alpha: 1.0, beta, bias: Some(bias), relu: *relu };
        call.queue(|stream| kernels.launch(stream, &x, weight, gemm::Layout::Transposed, &epilogue, &mut y))?;
        Ok(y)
    }

    fn parameter_bytes(&self) -> u64 {
        bytes_of([&self.weight, &self.bias])
    }
}

/// An activation and the sum that follows it, in one pass.
#[derive(Debug)]
struct Sum {
    kernels: planes::Pointwise,
    activation: Activation,
    /// The columns of the second operand, if it has a value per image and channel.
    range: Option<ColumnRange>,
}

impl PlannedKernel for Sum {
    fn name(&self) -> String {
        "planes".to_owned()
    }

    fn run<'p>(&'p self, call: Call<'p>, x: Flowing<'p>, with: Option<Flowing<'p>>) -> Result<Intermediate> {
        let (channels, image) = ColumnRange::split(with.as_deref(), self.range);
        let terms = planes::Terms { activation: self.activation, channels, image };
        call.out_of_place(|stream, y| self.kernels.launch(stream, &x, &terms, y))
    }

    fn columns_read(&self) -> Option<usize> {
        self.range.map(|range| range.count)
    }
}

/// Operations that one of phase 2's products does together.
struct Chain<'n> {
    operations: &'n [Operation],
    /// Their names, with those of operations that were folded.
    layers: String,
    x: &'n LaunchOperand,
    with: Option<LaunchOperand>,
}

impl Chain<'_> {
    fn describe(&self, why: String, shape: &[usize]) -> Description {
        let flops = flops(&self.operations[0], shape);
        Description { layers: self.layers.clone(), flops, ..Description::of(&self.operations[..1], why) }
    }

    fn has_relu(&self) -> bool {
        self.operations.iter().any(|operation| matches!(operation, Operation::Relu))
    }
}

impl Planner<'_> {
    /// The kernel that was chosen for a node, or those in planes of f32 with the reason for that.
    pub(super) fn or_single(&mut self, node: &Node, choice: Choice<PlacedValue>) -> Result<PlacedValue> {
        match choice {
            Ok(value) => Ok(value),
            Err(Refused::Because(reason)) => self.single(node, &reason),
            Err(Refused::Failed(error)) => Err(error),
        }
    }

    /// A convolution or a linear layer with what phase 2's epilogue does, the rest one by one, as phase 3 does it. A BatchNorm after a
    /// convolution folds into its weights.
    fn single(&mut self, node: &Node, reason: &Refusal) -> Result<PlacedValue> {
        let mut x = self.planes(&node.x)?;
        let adds_channels = node.operations.iter().any(|operation| matches!(operation, Operation::AddChannel));
        let (with, range) = match &node.with {
            Some(with) if adds_channels => {
                let (with, range) = self.columns(with)?;
                (Some(with), Some(range))
            }
            Some(with) => (Some(self.planes(with)?), None),
            None => (None, None),
        };
        let mut operations = node.operations.clone();
        let mut why = reason.to_string();
        if let [conv, norm, ..] = &operations[..]
            && let Some(folded) = folded(conv, norm)?
        {
            operations.splice(..2, [folded]);
            why = "BatchNorm is in the weights".to_owned();
        }
        let fused = match &operations[..] {
            [Operation::Conv2d { .. } | Operation::Linear { .. }, Operation::Add, Operation::Relu, ..] => 3,
            [Operation::Conv2d { .. } | Operation::Linear { .. }, Operation::Add | Operation::Relu, ..] => 2,
            [Operation::Conv2d { .. } | Operation::Linear { .. }, ..] => 1,
            _ => 0,
        };
        let mut shape = x.shape.clone();
        if fused > 0 {
            let together = &operations[..fused];
            let layers = names(&node.operations[..fused + node.operations.len() - operations.len()]);
            let with = with.clone().filter(|_| together.iter().any(Operation::takes_two));
            let chain = Chain { operations: together, layers, x: &x, with };
            let place = match together[0] {
                Operation::Linear { .. } => self.linear_f32(chain)?,
                _ => self.conv_f32(chain)?,
            };
            if let Some(place) = place {
                operations.drain(..fused);
                x = place.operand();
                shape = place.form.shape;
            }
        }
        let activated = operations.first().and_then(fuse::activation);
        if let ([Operation::AddChannel], _) | ([_, Operation::Add | Operation::AddChannel], Some(_)) =
            (&operations[..], activated)
        {
            let kernels = loaded(&mut self.sums, || planes::Pointwise::load(self.device))?;
            let kind = operations[operations.len() - 1].kind();
            let description = Description { kind, ..Description::of(&operations, "one pass") };
            let kernel = Sum { kernels, activation: activated.unwrap_or_default(), range };
            return Ok(PlacedValue::planes(self.push(description, kernel, x, with, Form::planes(&shape))));
        }
        for operation in operations {
            let with = with.clone().filter(|_| operation.takes_two());
            let shape_only = |operand: &LaunchOperand| Tensor::shape_only(&operand.shape);
            shape = operation.output_shape(&shape_only(&x), with.as_ref().map(shape_only).as_ref())?;
            let why = std::mem::replace(&mut why, "not in that epilogue".to_owned());
            let flops = flops(&operation, &shape);
            let description = Description { flops, ..Description::of(std::slice::from_ref(&operation), why) };
            let parameter_bytes = bytes_of(parameters(&operation));
            let kernel = Plain { layer: self.unfused.load(operation)?, parameter_bytes };
            x = self.push(description, kernel, x, with, Form::planes(&shape)).operand();
        }
        Ok(PlacedValue::planes(Place { form: Form::planes(&shape), source: x.source }))
    }

    /// A convolution with the operations that follow it; `None` if only a step without an epilogue takes it.
    fn conv_f32(&mut self, chain: Chain<'_>) -> Result<Option<Place>> {
        let Operation::Conv2d { weight, bias, params } = &chain.operations[0] else { return Ok(None) };
        let kernels = loaded(&mut self.f32, || Ok(Arc::new(conv::Tuned::load(self.device)?)))?;
        let (stream, image) = (self.device.stream(), Tensor::shape_only(&chain.x.shape));
        let choice = match kernels.choice(&stream, &image, weight, *params, true) {
            Ok(choice) => choice,
            Err(error) if error.is_unsupported() => return Ok(None),
            Err(error) => return Err(error),
        };
        let form = Form::planes(&params.output_shape(&image, weight)?);
        let on_device = weight.to_device(self.device)?;
        // Other steps multiply the weights as they are.
        let prepared = match choice.kernel {
            conv::ChosenKernel::Winograd => kernels.prepare(&stream, &on_device, *params)?,
            _ => None,
        };
        let bias = bias.as_ref().map(|bias| bias.to_device(self.device)).transpose()?;
        let mut why = format!("tiles of {}", choice.tile.unwrap_or("64x32"));
        if choice.cuts > 1 {
            let _ = write!(why, ", {} cuts", choice.cuts);
        }
        let description = chain.describe(why, &form.shape);
        let (step, relu) = (choice.step().name, chain.has_relu());
        let kernel = Convolution { kernels, step, weight: on_device, prepared, bias, relu, params: *params };
        Ok(Some(self.push(description, kernel, chain.x.clone(), chain.with, form)))
    }

    /// A linear layer with the operations that follow it.
    fn linear_f32(&mut self, chain: Chain<'_>) -> Result<Option<Place>> {
        let Operation::Linear { weight, bias } = &chain.operations[0] else { return Ok(None) };
        let (&[rows, inputs], outputs) = (&chain.x.shape[..], weight.shape()[0]) else { return Ok(None) };
        let kernels = loaded(&mut self.gemm_f32, || gemm::Tuned::load(self.device))?;
        let form = Form::planes(&[rows, outputs]);
        let why = kernels.explain([rows, outputs, inputs], gemm::Layout::Transposed);
        let description = chain.describe(why, &form.shape);
        let (weight, bias) = (weight.to_device(self.device)?, bias.to_device(self.device)?);
        let kernel = Linear { kernels, weight, bias, relu: chain.has_relu() };
        Ok(Some(self.push(description, kernel, chain.x.clone(), chain.with, form)))
    }
}

/// An operation's parameters.
fn parameters(operation: &Operation) -> Vec<&Tensor> {
    match operation {
        Operation::Conv2d { weight, bias: Some(bias), .. } | Operation::Linear { weight, bias } => vec![weight, bias],
        Operation::Conv2d { weight, .. } => vec![weight],
        Operation::LayerNorm { weight, bias, .. } => vec![weight, bias],
        Operation::BatchNorm { weight, bias, mean, variance, .. } => vec![weight, bias, mean, variance],
        Operation::Basis { rows, .. } => vec![rows],
        _ => Vec::new(),
    }
}

/// Multiplications and additions of a product, by the shape of its result.
fn flops(operation: &Operation, shape: &[usize]) -> Option<u64> {
    let terms = match operation {
        Operation::Conv2d { weight, .. } | Operation::Linear { weight, .. } => weight.len() / weight.shape()[0].max(1),
        _ => return None,
    };
    Some(2 * (shape.iter().product::<usize>() * terms) as u64)
}
