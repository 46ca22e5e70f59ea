//! Pooling of images channels last.

use super::prelude::*;
use crate::nhwc::{AveragePool, MaxPool};

impl PlannedKernel for MaxPool {
    fn name(&self) -> String {
        "channels last".to_owned()
    }

    fn run<'p>(&'p self, call: Call<'p>, x: Flowing<'p>, _: Option<Flowing<'p>>) -> Result<Intermediate> {
        call.out_of_place(|stream, y| self.launch(stream, &x, y))
    }
}

impl PlannedKernel for AveragePool {
    fn name(&self) -> String {
        "channels last".to_owned()
    }

    fn run<'p>(&'p self, call: Call<'p>, x: Flowing<'p>, _: Option<Flowing<'p>>) -> Result<Intermediate> {
        call.out_of_place(|stream, y| self.launch(stream, &x, y))
    }
}

impl Planner<'_> {
    /// Pooling of an image that lies channels last.
    pub(super) fn pool(&mut self, cores: &Cores, node: &Node) -> Choice<PlacedValue> {
        let from = self.last(cores, &node.x)?.ok_or(Refusal::ImageInPlanes)?;
        let operation = &node.operations[0];
        let shape = operation.output_shape(&Tensor::shape_only(&node.x.shape), None)?;
        let description = |why: &str| Description::of(&node.operations[..1], why);
        let place = match operation {
            Operation::MaxPool(pool) => {
                let stored = pool.output_shape(&Tensor::shape_only(&from.form.shape))?.to_vec();
                let (kernel, form) = (MaxPool::load(self.device, *pool)?, Form { shape: stored, ..from.form.clone() });
                self.push(description("16-byte vectors"), kernel, from.operand(), None, form)
            }
            _ => {
                let (kernel, form) = (AveragePool::load(self.device)?, Form::planes(&shape));
                self.push(description("16-byte vectors, to f32"), kernel, from.operand(), None, form)
            }
        };
        Ok(PlacedValue::image(shape, place))
    }
}
