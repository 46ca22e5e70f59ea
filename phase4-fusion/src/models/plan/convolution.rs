//! Convolutions on tensor cores, with the epilogue of their chain.

use common::reference::Conv2dParams;

use super::pointwise::Pointwise;
use super::prelude::*;
use crate::conv;
use crate::models::parameters::{filled_up, rounded, scale_shift};

/// A convolution with its epilogue.
#[derive(Debug)]
struct Convolution {
    kernels: conv::Tuned,
    /// The kernel that they choose.
    chosen: String,
    params: Conv2dParams,
    product: Product,
}

impl PlannedKernel for Convolution {
    fn name(&self) -> String {
        format!("conv {}", self.chosen)
    }

    fn run<'p>(&'p self, call: Call<'p>, x: Flowing<'p>, with: Option<Flowing<'p>>) -> Result<Intermediate> {
        let Convolution { kernels, params, product, .. } = self;
        let epilogue = product.epilogue(with.as_deref());
        call.out_of_place(|stream, y| kernels.launch(stream, &x, &product.weight, *params, &epilogue, y))
    }

    fn parameter_bytes(&self) -> u64 {
        self.product.bytes()
    }

    fn columns_read(&self) -> Option<usize> {
        match self.product.added {
            Added::PerChannel(ColumnRange { count, .. }) => Some(count),
            Added::BeforeActivation | Added::AfterActivation => None,
        }
    }
}

impl Planner<'_> {
    /// A convolution with its epilogue on tensor cores.
    pub(super) fn conv(&mut self, cores: &Cores, node: &Node) -> Choice<PlacedValue> {
        let [Operation::Conv2d { weight, bias, params }, rest @ ..] = &node.operations[..] else {
            return Err(Refusal::NoKernel.into());
        };
        let spec = EpilogueSpec::of(rest).map_err(|_| Refusal::NoKernel)?;
        let [k, c, r, s] = weight.dims4()?;
        let image = Tensor::shape_only(&node.x.shape);
        let ([n, _, h, w], shape) = (image.dims4()?, params.output_shape(&image, weight)?);
        let outputs = cores.filled(k);
        let fits = |channels| -> Choice<_> {
            // Groups are the kernels' to refuse.
            let ungrouped = Conv2dParams { groups: 1, ..*params };
            let layer = conv::Size::new([n, channels, h, w], [outputs, channels, r, s], ungrouped)?;
            let choice = cores.conv.explain(&layer, *params, cores.precision).map_err(Refusal::ByKernel)?;
            Ok((layer, choice))
        };
        // As it is, if a kernel takes that; else filled up to whole steps.
        let (layer, choice) = match self.last(cores, &node.x)? {
            Some(place) => fits(place.form.shape[1]),
            None => fits(c).or_else(|_| fits(cores.filled(c))),
        }?;
        let inputs = layer.input[1];
        let (from, form) = (cores.last(layer.input, inputs), cores.last(layer.output, outputs));
        let x = self.channels_last(cores, &node.x, &from)?.ok_or(Refusal::OtherImage)?;
        let (with, range) = match (&node.with, spec.addition) {
            (None, _) => (None, None),
            (Some(with), Some(Addition::PerChannel)) => {
                let (with, range) = self.columns(with)?;
                (Some(with), Some(range))
            }
            (Some(with), _) => (Some(self.channels_last(cores, with, &form)?.ok_or(Refusal::AddsOtherChannels)?), None),
        };
        let norm = spec.norm.map(|norm| scale_shift(norm, bias.as_deref())).transpose()?.flatten();
        let [scale, shift] = self.scale_and_shift(norm, bias.as_deref(), outputs)?;
        let weight = rounded(&filled_up(weight, outputs, inputs)?, cores.precision)?;
        let weight = weight.to_format(MemoryFormat::Nhwc)?.to_device(self.device)?;
        let added = match (spec.addition, range) {
            (_, Some(range)) => Added::PerChannel(range),
            (Some(Addition::AfterActivation), None) => Added::AfterActivation,
            _ => Added::BeforeActivation,
        };
        // The kernel with few channels stores results as soon as they are activated: a sum after that is a launch of its own.
        let (operations, sum) = match (node.operations.split_last(), added) {
            (Some((sum, before)), Added::AfterActivation | Added::PerChannel(_)) if !choice.adds_after_activation() => {
                (before, Some(sum))
            }
            _ => (&node.operations[..], None),
        };
        let added = if sum.is_some() { Added::BeforeActivation } else { added };
        let zeros = if inputs > c || outputs > k { " +0" } else { "" };
        let description = Description::of(operations, format!("{}{zeros}", choice.why));
        let description = description.with_flops(2 * (shape.iter().product::<usize>() * c * r * s));
        let product = Product { weight, scale, shift, activation: spec.activation, added, alpha: 1.0 };
        let kernel = Convolution { kernels: cores.conv.clone(), chosen: choice.kernel, params: *params, product };
        let (before, after) = if sum.is_some() { (None, with) } else { (with, None) };
        let mut place = self.push(description, kernel, x, before, form.clone());
        if let Some(sum) = sum {
            let description = Description::of(std::slice::from_ref(sum), "it follows an activation");
            place = self.push(description, Pointwise::sum(cores, range), place.operand(), after, form);
        }
        Ok(PlacedValue::image(shape.to_vec(), place))
    }
}
