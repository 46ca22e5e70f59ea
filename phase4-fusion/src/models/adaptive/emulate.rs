//! Emulates on the host the result of a node whose operands are rounded to a format. Sums are f32, as on tensor cores; only their
//! order differs, which is negligible compared with the roundings.

use std::sync::Arc;

use common::prelude::*;
use half::f16;
use phase3_all_layers::backends::Cpu;
use phase3_all_layers::nn::graph::{Graph, Node, Operand, Source};
use phase3_all_layers::nn::{Backend, Operation, Value};

use super::super::int8::Scales;
use super::super::parameters::rounded;
use super::super::{Arithmetic, e4m3, int8};
use crate::gemm::Precision;

/// Evaluates a fused graph, with each node in its own format.
#[derive(Debug)]
pub struct Emulator<'a> {
    pub(super) graph: &'a Graph,
    pub(super) inputs: &'a [Tensor],
    /// Result of each node, with all nodes in f32.
    pub(super) exact: &'a [Tensor],
    pub(super) scales: &'a Scales,
}

impl Emulator<'_> {
    /// The output with these formats, one per node. Nodes that no rounding has reached are not computed again.
    ///
    /// # Errors
    /// Errors of the layers on the CPU.
    pub fn output(&self, formats: &[Arithmetic]) -> Result<Tensor> {
        let cpu = Cpu::new();
        let mut changed: Vec<Option<Tensor>> = Vec::with_capacity(self.graph.nodes.len());
        for (node, &format) in self.graph.nodes.iter().zip(formats) {
            let is_changed = |operand: &Operand| matches!(operand.source, Source::Node(at) if changed[at].is_some());
            let same = format == Arithmetic::F32 && !is_changed(&node.x) && !node.with.as_ref().is_some_and(is_changed);
            let made = if same { None } else { Some(self.node(&cpu, node, format, &changed)?) };
            changed.push(made);
        }
        let last = changed.pop().flatten().or(self.exact.last().map(Tensor::to_host).transpose()?);
        last.ok_or_else(|| Error::Invalid("a model has no layer".to_owned()))
    }

    fn node(&self, cpu: &Cpu, node: &Node, format: Arithmetic, changed: &[Option<Tensor>]) -> Result<Tensor> {
        let take = |operand: &Operand| {
            let value = match operand.source {
                Source::Input(input) => &self.inputs[input],
                Source::Node(at) => changed[at].as_ref().unwrap_or(&self.exact[at]),
            };
            value.to_host()?.reshape(&operand.shape)
        };
        let (mut x, mut with) = (take(&node.x)?, node.with.as_ref().map(take).transpose()?);
        // What is added to whole channels is f32 everywhere.
        let by_channel = node.operations.iter().any(|operation| matches!(operation, Operation::AddChannel));
        let in_bytes = format == Arithmetic::Int8;
        narrowed(&mut x, format, self.scales.of(node.x.source)?)?;
        if let (Some(with), Some(operand), false) = (&mut with, &node.with, by_channel) {
            let as_stored = if in_bytes { format } else { super::stored(format) };
            // Only a product's operands lose bits in tf32.
            if as_stored != Arithmetic::Tf32 {
                narrowed(with, as_stored, self.scales.of(operand.source)?)?;
            }
        }
        let mut operations = node.operations.clone();
        if let Some(first) = operations.first_mut() {
            *first = with_weights_in(first, format, self.scales.weights())?;
        }
        let mut y = on_cpu(cpu, &operations, x, with.as_ref())?;
        let attends = matches!(operations[..], [Operation::Attention { .. }]);
        match super::stored(format) {
            Arithmetic::F16 => narrowed(&mut y, Arithmetic::F16, 1.0)?,
            // It multiplies twice, and its weights between that lose bits too.
            Arithmetic::Tf32 if attends => narrowed(&mut y, Arithmetic::Tf32, 1.0)?,
            _ => {}
        }
        Ok(y)
    }
}

/// Operations on the CPU, in f32.
pub(in crate::models) fn on_cpu(
    cpu: &Cpu,
    operations: &[Operation],
    x: Tensor,
    with: Option<&Tensor>,
) -> Result<Tensor> {
    let mut y = x;
    for operation in operations {
        let layer = cpu.load(operation.clone())?;
        let second = with.filter(|_| operation.takes_two()).map(|with| Value::given(cpu, with));
        y = Cpu::run(&layer, Value::given(cpu, &y), second)?;
    }
    Ok(y)
}

/// Rounds values to those that tensor cores multiply, by the step of a byte: tf32 is cut off after ten bits, f16 overflows beyond
/// 65504, bytes and 8-bit floats are clamped to their largest.
fn narrowed(values: &mut Tensor, format: Arithmetic, step: f32) -> Result<()> {
    let each = |change: &dyn Fn(f32) -> f32, values: &mut [f32]| {
        values.iter_mut().for_each(|value| *value = change(*value));
    };
    let to_e4m3 = step * int8::LARGEST / e4m3::LARGEST;
    let values = values.as_mut_slice()?;
    match format {
        Arithmetic::F32 => {}
        Arithmetic::Tf32 => each(&|value| f32::from_bits(value.to_bits() & !0x1FFF), values),
        Arithmetic::F16 => each(&|value| f16::from_f32(value).to_f32(), values),
        Arithmetic::Int8 => each(&|value| (value / step).round_ties_even().clamp(-128.0, 127.0) * step, values),
        Arithmetic::Fp8 => each(&|value| e4m3::nearest(value / to_e4m3) * to_e4m3, values),
    }
    Ok(())
}

/// A product with its weights in a format; other operations unchanged.
fn with_weights_in(operation: &Operation, format: Arithmetic, of_bytes: int8::WeightSteps) -> Result<Operation> {
    let narrow = |weight: &Tensor| -> Result<Arc<Tensor>> {
        let steps = |units: Tensor, steps: &[f32]| super::super::parameters::scaled(&units, steps);
        Ok(Arc::new(match format {
            Arithmetic::F32 => weight.to_host()?,
            Arithmetic::Tf32 => rounded(weight, Precision::Tf32)?,
            Arithmetic::F16 => rounded(weight, Precision::F16)?.to_type(ElementType::F32)?,
            Arithmetic::Int8 => {
                let (units, of) = int8::units(weight, of_bytes)?;
                steps(units, &of)?
            }
            Arithmetic::Fp8 => {
                let parts = e4m3::quantized(weight)?;
                steps(parts.weight, &parts.steps)?
            }
        }))
    };
    Ok(match operation {
        _ if format == Arithmetic::F32 => operation.clone(),
        Operation::Conv2d { weight, bias, params } => {
            Operation::Conv2d { weight: narrow(weight)?, bias: bias.clone(), params: *params }
        }
        Operation::Linear { weight, bias } => Operation::Linear { weight: narrow(weight)?, bias: bias.clone() },
        other => other.clone(),
    })
}
