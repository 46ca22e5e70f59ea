//! Linear layers on tensor cores: over rows in planes, over the pixels of images channels last, and in 8-bit floats.

use super::prelude::*;
use crate::conv::s8;
use crate::gemm::{self, Layout, Precision};
use crate::models::fuse::SideBySide;
use crate::models::parameters::{filled_up, rounded};
use crate::models::{Arithmetic, e4m3, int8};

/// A linear layer with its epilogue.
#[derive(Debug)]
struct Linear {
    kernels: gemm::Tuned,
    precision: Precision,
    tile: String,
    product: Product,
}

impl PlannedKernel for Linear {
    fn name(&self) -> String {
        format!("{} {}", self.precision, self.tile)
    }

    fn run<'p>(&'p self, call: Call<'p>, x: Flowing<'p>, with: Option<Flowing<'p>>) -> Result<Intermediate> {
        let Linear { kernels, product, .. } = self;
        let epilogue = product.epilogue(with.as_deref());
        call.out_of_place(|stream, y| kernels.launch(stream, &x, &product.weight, Layout::Transposed, &epilogue, y))
    }

    fn parameter_bytes(&self) -> u64 {
        self.product.bytes()
    }
}

/// The rows that a linear layer multiplies.
enum Rows {
    /// In planes of f32, as tf32 where they are.
    Planes,
    /// Channels last.
    Pixels(Place),
    /// As 8-bit floats of this step.
    Narrow(f32),
}

/// Linear layers of one input, and the place of the result of all once they are launched.
pub(super) struct Group {
    pub(super) layers: SideBySide,
    pub(super) place: Option<Place>,
}

impl Planner<'_> {
    /// A linear layer that is launched with others of its input, or was.
    pub(super) fn part_of_a_group(&mut self, node: &Node) -> Result<Option<PlacedValue>> {
        let number = self.nodes.len();
        let Some(at) = self.side_by_side.iter().position(|group| group.layers.nodes.contains(&number)) else {
            return Ok(None);
        };
        let Group { layers, place } = &self.side_by_side[at];
        let column = layers.nodes.iter().zip(&layers.columns).find(|(node, _)| **node == number);
        let column = column.map(|(_, column)| *column);
        let place = match place {
            Some(place) => place.clone(),
            None => {
                let linear = Node { operations: vec![layers.linear.clone()], x: node.x.clone(), with: None };
                // In planes, in which its columns are taken.
                let value = match self.cores().filter(|_| self.wanted.is_mixed()) {
                    Some(cores) => {
                        let choice = self.linear(&cores, &linear, Rows::Planes);
                        self.or_single(&linear, choice)?
                    }
                    None => self.launches_of(&linear)?,
                };
                let place = value.in_planes();
                let place = place.ok_or_else(|| Error::Invalid("layers side by side are not in planes".to_owned()))?;
                self.side_by_side[at].place.insert(place).clone()
            }
        };
        let outputs = node.operations[0].output_shape(&Tensor::shape_only(&node.x.shape), None)?[1];
        let shape = vec![place.form.shape[0], outputs];
        Ok(Some(PlacedValue { column, ..PlacedValue::image(shape, place) }))
    }

    /// A linear layer on tensor cores. A uniform plan multiplies rows of f32 as they are; in a mixed one they become rows of the node's
    /// own format.
    pub(super) fn linear_on(&mut self, cores: &Cores, node: &Node) -> Choice<PlacedValue> {
        if self.wanted.is_mixed()
            && let Some(value) = self.in_bytes(cores, node)?
        {
            return Ok(value);
        }
        let scales = self.wanted.scales().filter(|_| self.format() == Arithmetic::Fp8);
        if let Some(scales) = scales {
            let step = scales.of(node.x.source)? * int8::LARGEST / e4m3::LARGEST;
            match self.linear(cores, node, Rows::Narrow(step)) {
                Err(Refused::Because(_)) => {}
                choice => return choice,
            }
        }
        let rows = match self.rows_last(cores, &node.x)? {
            Some(place) => Rows::Pixels(place),
            None if !self.wanted.is_mixed() || cores.precision == Precision::Tf32 => Rows::Planes,
            None => Rows::Pixels(self.rows_of_planes(cores, &node.x)?),
        };
        self.linear(cores, node, rows)
    }

    fn linear(&mut self, cores: &Cores, node: &Node, rows: Rows) -> Choice<PlacedValue> {
        let [Operation::Linear { weight, bias }, rest @ ..] = &node.operations[..] else {
            return Err(Refusal::NoKernel.into());
        };
        let spec = EpilogueSpec::of(rest).map_err(|_| Refusal::NoKernel)?;
        let (&[outputs, channels], &[count, columns]) = (weight.shape(), &node.x.shape[..]) else {
            return Err(Refusal::NoRows.into());
        };
        // Attention takes channels as they are.
        let attended = self.attended.contains(&Source::Node(self.nodes.len()));
        let filled = if attended { outputs } else { cores.filled(outputs) };
        let (precision, filled, inputs) = match &rows {
            Rows::Planes => (Precision::Tf32, outputs, columns),
            Rows::Pixels(place) => {
                let shape = pixels(place, [count, columns]);
                if [count, columns] != [shape[0] * shape[2] * shape[3], channels] {
                    return Err(Refusal::RowsAreNoPixels.into());
                }
                (cores.precision, filled, shape[1])
            }
            Rows::Narrow(_) => (Precision::E4M3, filled, channels.next_multiple_of(s8::CHANNELS)),
        };
        let tile = cores.gemm.explain([count, filled, inputs], precision, Layout::Transposed);
        let tile = tile.map_err(Refusal::ByKernel)?;
        let x = match &rows {
            Rows::Planes => self.planes(&node.x)?,
            Rows::Pixels(place) => LaunchOperand { source: place.source, shape: pixels(place, [count, columns]) },
            Rows::Narrow(step) => self.narrow(&node.x, ElementType::F8E4M3, *step)?,
        };
        let form = match (&rows, &x.shape[..]) {
            (Rows::Planes, _) => Form::planes(&[count, outputs]),
            (_, &[n, _, h, w]) => cores.last([n, filled, h, w], filled),
            _ => return Err(Refusal::NoRows.into()),
        };
        let with = match (&node.with, &rows) {
            (None, _) => None,
            (Some(with), Rows::Planes) => Some(self.planes(with)?),
            (Some(with), _) => {
                let place = self.rows_last(cores, with)?.filter(|place| place.form == form);
                Some(place.ok_or(Refusal::AddsOtherLayout)?.operand())
            }
        };
        let matrix = |weight: &Tensor| {
            let image = Tensor::from_vec(&[outputs, channels, 1, 1], weight.as_slice()?.to_vec())?;
            filled_up(&image, filled, inputs)?.reshape(&[filled, inputs])
        };
        let (weight, scale, alpha) = match rows {
            Rows::Planes | Rows::Pixels(_) => (rounded(&matrix(weight)?, precision)?, None, 1.0),
            Rows::Narrow(step) => {
                let parts = e4m3::quantized(weight)?;
                let scale = self.vector(&parts.steps, filled)?;
                (matrix(&parts.weight)?.to_type(ElementType::F8E4M3)?, Some(scale), step)
            }
        };
        let zeros = bias.as_slice()?.iter().all(|value| *value == 0.0);
        let shift = match rows {
            Rows::Planes if zeros => None,
            _ => Some(self.vector(bias.as_slice()?, filled)?),
        };
        let filled_up = if inputs > channels || filled > outputs { " +0" } else { "" };
        let why = match rows {
            Rows::Planes => format!("{count}×{filled} sums"),
            Rows::Pixels(_) => format!("{count}×{filled} sums, {} steps{filled_up}", inputs.div_ceil(cores.step())),
            Rows::Narrow(_) => format!("{count}×{filled} sums{filled_up}, to f16"),
        };
        let description = Description::of(&node.operations, why).with_flops(2 * count * outputs * channels);
        let (weight, activation) = (weight.to_device(self.device)?, spec.activation);
        let product = Product { weight, scale, shift, activation, added: Added::BeforeActivation, alpha };
        let kernel = Linear { kernels: cores.gemm.clone(), precision, tile, product };
        let place = self.push(description, kernel, x, with, form);
        Ok(match rows {
            Rows::Planes => PlacedValue::planes(place),
            Rows::Pixels(_) | Rows::Narrow(_) => PlacedValue::rows(vec![count, outputs], place),
        })
    }
}

/// The shape of rows that lie channels last. Images of one pixel are rows, and one after the other they are longer rows.
fn pixels(Place { form, .. }: &Place, [rows, columns]: [usize; 2]) -> Vec<usize> {
    match form.shape[..] {
        [n, c, 1, 1] if n * c == rows * columns => vec![rows, columns, 1, 1],
        _ => form.shape.clone(),
    }
}
