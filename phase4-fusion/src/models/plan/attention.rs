//! Attention whose scores are never in memory.

use super::prelude::*;
use crate::attention::{self, Products};

/// Attention in the type that values have.
#[derive(Clone, Debug)]
pub(super) enum Kernels {
    /// f16.
    Tuned(Box<attention::Tuned>),
    /// f32.
    Single(attention::Attention),
}

impl Kernels {
    /// The kernel for this size.
    fn explain(&self, size: &attention::Size) -> Result<String, String> {
        match self {
            Kernels::Tuned(tuned) => tuned.explain(size),
            Kernels::Single(step) => step.refuses(size).map_or_else(|| Ok(step.name().to_owned()), Err),
        }
    }

    fn launch(
        &self,
        stream: &Stream,
        inputs: attention::Inputs<'_>,
        y: &mut Tensor,
        log_sums: &mut Tensor,
    ) -> Result<()> {
        let options = attention::Options::default();
        match self {
            Kernels::Tuned(tuned) => tuned.launch(stream, inputs, options, y, log_sums),
            Kernels::Single(step) => step.launch(stream, inputs, options, y, log_sums),
        }
    }
}

/// Attention over queries, keys and values side by side.
#[derive(Debug)]
struct Attention {
    kernels: Kernels,
    heads: usize,
    element: ElementType,
    chosen: String,
}

impl PlannedKernel for Attention {
    fn name(&self) -> String {
        format!("{} {}", self.element, self.chosen)
    }

    fn run<'p>(&'p self, call: Call<'p>, x: Flowing<'p>, _: Option<Flowing<'p>>) -> Result<Intermediate> {
        let inputs = attention::Inputs::Joined { qkv: &x, heads: self.heads };
        let size = inputs.size()?;
        let mut y = call.result()?;
        let mut log_sums = call.scratch(&[size.images, size.heads, size.queries])?;
        call.queue(|stream| self.kernels.launch(stream, inputs, &mut y, &mut log_sums))?;
        Ok(y)
    }
}

impl Planner<'_> {
    /// Attention: on tensor cores where its rows lie for them, else over planes.
    pub(super) fn attention(&mut self, cores: Option<&Cores>, node: &Node) -> Choice<PlacedValue> {
        let [Operation::Attention { heads }] = node.operations[..] else { return Err(Refusal::NoKernel.into()) };
        let shape = node.operations[0].output_shape(&Tensor::shape_only(&node.x.shape), None)?;
        let &[images, tokens, channels] = &shape[..] else { return Err(Refusal::NoTokens.into()) };
        let place = cores.map_or(Ok(None), |cores| self.rows_last(cores, &node.x))?;
        let size = attention::Size { images, heads, queries: tokens, keys: tokens, head: channels / heads.max(1) };
        let kernels = match (cores, &place, &self.attention_f32) {
            (Some(cores), Some(_), _) => cores.attention.clone(),
            (.., Some(loaded)) => loaded.clone(),
            _ => {
                let step = attention::Attention::over_f32(self.device, Products::Parts)?;
                self.attention_f32.insert(Kernels::Single(step)).clone()
            }
        };
        let chosen = kernels.explain(&size).map_err(Refusal::ByKernel)?;
        let (x, form) = match place {
            Some(place) => {
                let &[n, columns, h, w] = &place.form.shape[..] else { return Err(Refusal::NoTokens.into()) };
                if [n, h * w, columns] != [images, tokens, 3 * channels] {
                    return Err(Refusal::TokensFilledUp.into());
                }
                (place.operand(), Form::channels_last([n, channels, h, w], place.form.element))
            }
            None => (self.planes(&node.x)?, Form::planes(&shape)),
        };
        let why = format!("{} heads of {}, {tokens} tokens", size.matrices(), size.head);
        let description = Description::of(&node.operations, why).with_flops(size.flops(false) as usize);
        let rows = form.format == MemoryFormat::Nhwc;
        let kernel = Attention { kernels, heads, element: form.element, chosen };
        let place = self.push(description, kernel, x, None, form);
        Ok(PlacedValue { rows, ..PlacedValue::image(shape, place) })
    }
}
