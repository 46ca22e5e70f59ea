//! Pooling of images channels last.

use common::prelude::*;
use phase3_all_layers::backends::workspace::Intermediate;
use phase3_all_layers::nn::Operation;
use phase3_all_layers::nn::graph::Node;

use super::launch::{Call, Description, PlannedKernel};
use super::refusal::{Choice, Refusal};
use super::value::{Form, PlacedValue};
use super::{Cores, Planner};
use crate::models::runner::Flowing;
use crate::nhwc::{AveragePool, MaxPool};

impl PlannedKernel for MaxPool {
    fn name(&self) -> String {
        "channels last".to_owned()
    }

    fn run<'p>(&'p self, call: Call<'p>, x: Flowing<'p>, _: Option<Flowing<'p>>) -> Result<Intermediate> {
        call.into_new(|stream, y| self.launch(stream, &x, y))
    }
}

impl PlannedKernel for AveragePool {
    fn name(&self) -> String {
        "channels last".to_owned()
    }

    fn run<'p>(&'p self, call: Call<'p>, x: Flowing<'p>, _: Option<Flowing<'p>>) -> Result<Intermediate> {
        call.into_new(|stream, y| self.launch(stream, &x, y))
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
