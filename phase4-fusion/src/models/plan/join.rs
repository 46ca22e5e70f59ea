//! Two images joined, and one enlarged, channels last.

use phase3_all_layers::nn::second;

use super::prelude::*;
use crate::nhwc::{Concatenate, Upsample};

impl PlannedKernel for Concatenate {
    fn name(&self) -> String {
        "channels last".to_owned()
    }

    fn run<'p>(&'p self, call: Call<'p>, x: Flowing<'p>, with: Option<Flowing<'p>>) -> Result<Intermediate> {
        let with = second(with)?;
        call.out_of_place(|stream, y| self.launch(stream, &x, &with, y))
    }
}

impl PlannedKernel for Upsample {
    fn name(&self) -> String {
        "channels last".to_owned()
    }

    fn run<'p>(&'p self, call: Call<'p>, x: Flowing<'p>, _: Option<Flowing<'p>>) -> Result<Intermediate> {
        call.out_of_place(|stream, y| self.launch(stream, &x, y))
    }
}

impl Planner<'_> {
    /// Two images joined, or one enlarged.
    pub(super) fn join(&mut self, cores: &Cores, node: &Node) -> Choice<PlacedValue> {
        let operation = &node.operations[0];
        let from = self.image_last(cores, &node.x)?.ok_or(Refusal::ImageInPlanes)?;
        let shape_only = |operand| Tensor::shape_only(operand);
        let with_shape = node.with.as_ref().map(|with| shape_only(&with.shape));
        let shape = operation.output_shape(&shape_only(&node.x.shape), with_shape.as_ref())?;
        let &[n, channels, h, w] = &shape[..] else { return Err(Refusal::NoKernel.into()) };
        let description = Description::of(&node.operations, "16-byte vectors");
        let place = match (operation, &node.with) {
            (Operation::Concatenate, Some(with)) => {
                let parts = [node.x.shape[1], with.shape[1]];
                if parts.iter().any(|part| !(part * from.form.element.size()).is_multiple_of(16)) {
                    return Err(Refusal::PartsAreNoVectors.into());
                }
                let other = self.image_last(cores, with)?.ok_or(Refusal::JoinedInPlanes)?;
                let form = cores.last([n, channels, h, w], cores.filled(channels));
                let kernel = Concatenate::load(self.device, parts)?;
                self.push(description, kernel, from.operand(), Some(other.operand()), form)
            }
            (Operation::Upsample { factor }, None) => {
                let form = cores.last([n, channels, h, w], from.form.shape[1]);
                self.push(description, Upsample::load(self.device, *factor)?, from.operand(), None, form)
            }
            _ => return Err(Refusal::NoKernel.into()),
        };
        Ok(PlacedValue::image(shape, place))
    }
}
