//! Kernels between two products, channels last: a BatchNorm or a sum that no product takes, and LayerNorm.

use super::prelude::*;
use crate::gemm::Activation;
use crate::models::parameters::scale_shift;
use crate::nhwc::{self, Terms};

/// y = activation(scale · x + shift) + the second operand.
#[derive(Debug)]
pub(super) struct Pointwise {
    kernels: nhwc::Pointwise,
    scale: Option<Tensor>,
    shift: Option<Tensor>,
    activation: Activation,
    /// The columns of the second operand, if it has a value per image and channel.
    range: Option<ColumnRange>,
}

impl Pointwise {
    /// A sum alone.
    pub(super) fn sum(cores: &Cores, range: Option<ColumnRange>) -> Pointwise {
        let kernels = cores.pointwise.clone();
        Pointwise { kernels, scale: None, shift: None, activation: Activation::None, range }
    }
}

impl PlannedKernel for Pointwise {
    fn name(&self) -> String {
        "channels last".to_owned()
    }

    fn run<'p>(&'p self, call: Call<'p>, x: Flowing<'p>, with: Option<Flowing<'p>>) -> Result<Intermediate> {
        let (channels, image) = ColumnRange::split(with.as_deref(), self.range);
        let (scale, shift, activation) = (self.scale.as_ref(), self.shift.as_ref(), self.activation);
        let terms = Terms { scale, shift, activation, channels, image };
        call.out_of_place(|stream, y| self.kernels.launch(stream, &x, &terms, y))
    }

    fn parameter_bytes(&self) -> u64 {
        bytes_of([&self.scale, &self.shift].into_iter().flatten())
    }

    fn columns_read(&self) -> Option<usize> {
        self.range.map(|range| range.count)
    }
}

/// LayerNorm with its parameters.
#[derive(Debug)]
struct LayerNorm {
    kernels: nhwc::LayerNorm,
    weight: Tensor,
    bias: Tensor,
    eps: f32,
}

impl PlannedKernel for LayerNorm {
    fn name(&self) -> String {
        "channels last".to_owned()
    }

    fn run<'p>(&'p self, call: Call<'p>, x: Flowing<'p>, _: Option<Flowing<'p>>) -> Result<Intermediate> {
        let LayerNorm { kernels, weight, bias, eps } = self;
        call.out_of_place(|stream, y| kernels.launch(stream, &x, [weight, bias], *eps, y))
    }

    fn parameter_bytes(&self) -> u64 {
        bytes_of([&self.weight, &self.bias])
    }
}

impl Planner<'_> {
    /// A BatchNorm that no product takes, or a sum.
    pub(super) fn pointwise(&mut self, cores: &Cores, node: &Node) -> Choice<PlacedValue> {
        let place = self.last(cores, &node.x)?.ok_or(Refusal::ImageInPlanes)?;
        let PlacedValue { shape, rows, .. } = self.value(node.x.source).clone();
        let (kernel, with, why) = match (&node.operations[..], &node.with) {
            ([norm @ Operation::BatchNorm { .. }, rest @ ..], None) if !rows => {
                let parts = scale_shift(norm, None)?;
                let [scale, shift] = self.scale_and_shift(parts, None, place.form.shape[1])?;
                let EpilogueSpec { activation, .. } = EpilogueSpec::of(rest).map_err(|_| Refusal::NoKernel)?;
                (Pointwise { scale, shift, activation, ..Pointwise::sum(cores, None) }, None, "no product before it")
            }
            ([Operation::AddChannel], Some(with)) if !rows => {
                let (with, range) = self.columns(with)?;
                (Pointwise::sum(cores, Some(range)), Some(with), "it follows an activation")
            }
            ([Operation::Add], Some(with)) => match self.last(cores, with)? {
                Some(other) if other.form == place.form && self.value(with.source).rows == rows => {
                    (Pointwise::sum(cores, None), Some(other.operand()), "it follows an activation")
                }
                _ => return Err(Refusal::AddsOtherLayout.into()),
            },
            _ => return Err(Refusal::NoKernel.into()),
        };
        let description = Description::of(&node.operations, why);
        let place = self.push(description, kernel, place.operand(), with, place.form);
        Ok(PlacedValue { rows, ..PlacedValue::image(shape, place) })
    }

    /// LayerNorm of the pixels of an image.
    pub(super) fn layer_norm(&mut self, cores: &Cores, node: &Node) -> Choice<PlacedValue> {
        let [Operation::LayerNorm { weight, bias, eps }] = &node.operations[..] else {
            return Err(Refusal::NoKernel.into());
        };
        let place = self.rows_last(cores, &node.x)?.ok_or(Refusal::RowsInF32)?;
        if let Some(reason) = cores.layer_norm.refuses(place.form.shape[1], place.form.element) {
            return Err(Refusal::ByKernel(reason).into());
        }
        let (weight, bias) = (weight.to_device(self.device)?, bias.to_device(self.device)?);
        let kernel = LayerNorm { kernels: cores.layer_norm.clone(), weight, bias, eps: *eps };
        let description = Description::of(&node.operations, "registers, one read");
        let place = self.push(description, kernel, place.operand(), None, place.form);
        Ok(PlacedValue::rows(node.x.shape.clone(), place))
    }
}
