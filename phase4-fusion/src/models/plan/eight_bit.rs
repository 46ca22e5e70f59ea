//! Products of bytes, with sums in i32.

use common::reference::Conv2dParams;

use super::prelude::*;
use crate::conv::{self, s8};
use crate::models::Arithmetic;
use crate::models::int8::{self, Scales};
use crate::models::parameters::filled_up;

/// A product of bytes with its epilogue.
#[derive(Debug)]
struct ProductOfBytes {
    kernels: s8::ConvS8,
    /// `conv`, or `product` of rows, which are images of one pixel.
    over: &'static str,
    tile: String,
    weight: Tensor,
    scale: Tensor,
    shift: Tensor,
    /// Step of the second operand over that of the result.
    residual_scale: f32,
    relu: bool,
    params: Conv2dParams,
}

impl PlannedKernel for ProductOfBytes {
    fn name(&self) -> String {
        format!("{} i8 {}", self.over, self.tile)
    }

    fn run<'p>(&'p self, call: Call<'p>, x: Flowing<'p>, with: Option<Flowing<'p>>) -> Result<Intermediate> {
        let ProductOfBytes { kernels, weight, scale, shift, residual_scale, relu, params, .. } = self;
        let residual = with.as_deref().map(|with| (with, *residual_scale));
        let finish = s8::Finish { scale, shift, residual, relu: *relu };
        call.out_of_place(|stream, y| kernels.launch(stream, [&x, weight], *params, &finish, y))
    }

    fn parameter_bytes(&self) -> u64 {
        bytes_of([&self.weight, &self.scale, &self.shift])
    }
}

/// Kernels and steps of a plan in bytes.
#[derive(Debug)]
pub(super) struct InBytes {
    pub(super) kernels: s8::ConvS8,
    pub(super) scales: Scales,
    /// Nodes whose results are in f16.
    pub(super) wide: Vec<usize>,
}

impl Planner<'_> {
    /// A product of bytes, if the node is to be in bytes and the kernel does all that the node does.
    pub(super) fn in_bytes(&mut self, cores: &Cores, node: &Node) -> Result<Option<PlacedValue>> {
        let number = self.nodes.len();
        let wanted = self.format() == Arithmetic::Int8 && int8::refuses(node).is_none();
        let Some(in_bytes) = self.in_bytes.clone().filter(|_| wanted) else { return Ok(None) };
        // In a uniform plan the images that come in are of few channels, which a kernel of f16 takes as they are.
        if !self.wanted.is_mixed() && matches!(node.x.source, Source::Input(_)) {
            return Ok(None);
        }
        let (operations, rows) = (int8::as_convolution(&node.operations)?, node.x.shape.len() == 2);
        let [Operation::Conv2d { weight, params, .. }, rest @ ..] = &operations[..] else { return Ok(None) };
        let [k, c, r, s] = weight.dims4()?;
        let x_step = in_bytes.scales.of(node.x.source)?;
        let x = self.narrow(&node.x, ElementType::I8, x_step)?;
        let with = match &node.with {
            None => None,
            Some(with) => {
                let step = in_bytes.scales.of(with.source)?;
                Some((self.narrow(with, ElementType::I8, step)?, step))
            }
        };
        let outputs = with.as_ref().map_or_else(|| k.next_multiple_of(s8::CHANNELS), |(with, _)| with.shape[1]);
        let &[n, inputs, h, w] = &x.shape[..] else { return Ok(None) };
        let layer = conv::Size::new([n, inputs, h, w], [outputs, inputs, r, s], *params)?;
        let [.., p, q] = layer.output;
        let tile = in_bytes.kernels.explain(&layer, *params).map_err(Error::Invalid)?;
        let wide = in_bytes.wide.contains(&number);
        let y_step = if wide { 1.0 } else { in_bytes.scales.of(Source::Node(number))? };
        let parts = int8::quantized(&operations, x_step, y_step, in_bytes.scales.weights())?;
        let weight = filled_up(&parts.weight, outputs, inputs)?.to_type(ElementType::I8)?;
        let kernel = ProductOfBytes {
            kernels: in_bytes.kernels.clone(),
            over: if rows { "product" } else { "conv" },
            tile,
            weight: weight.to_format(MemoryFormat::Nhwc)?.to_device(self.device)?,
            scale: self.vector(&parts.scale, outputs)?,
            shift: self.vector(&parts.shift, outputs)?,
            residual_scale: with.as_ref().map_or(0.0, |(_, step)| step / y_step),
            relu: rest.iter().any(|operation| matches!(operation, Operation::Relu)),
            params: *params,
        };
        let zeros = if inputs > c || outputs > k { " +0" } else { "" };
        let to = if wide { ", to f16" } else { "" };
        let description = Description::of(&node.operations, format!("{}×{outputs} sums{zeros}{to}", n * p * q));
        let description = description.with_flops(2 * (n * p * q * k * c * r * s));
        let element = if wide { cores.precision.input() } else { ElementType::I8 };
        let form = Form::channels_last(layer.output, element);
        let place = self.push(description, kernel, x, with.map(|(with, _)| with), form);
        let shape = if rows { vec![node.x.shape[0], k] } else { vec![n, k, p, q] };
        Ok(Some(PlacedValue { rows, ..PlacedValue::image(shape, place) }))
    }
}
