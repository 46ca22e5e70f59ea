//! Changes of layout and type, where a value is wanted in a form that it does not have yet.

use super::prelude::*;
use crate::conv::s8;
use crate::gemm::Precision;
use crate::nhwc::Convert;
use crate::recast::Recast;

/// Channels that a change of type takes at once.
const EIGHT: usize = 8;

/// A change of layout or type.
#[derive(Debug)]
enum Conversion {
    /// From planes, or rows, to channels last.
    ChannelsLast(Convert),
    /// From channels last to planes, or rows.
    Planes(Convert),
    /// To another type channels last, each value times a factor.
    Type(Recast, f32),
    /// From f16 to bytes of one step.
    Bytes(s8::ConvS8, f32),
}

impl PlannedKernel for Conversion {
    fn name(&self) -> String {
        "convert".to_owned()
    }

    fn run<'p>(&'p self, call: Call<'p>, x: Flowing<'p>, _: Option<Flowing<'p>>) -> Result<Intermediate> {
        call.out_of_place(|stream, y| match self {
            Conversion::ChannelsLast(kernels) => kernels.to_channels_last(stream, &x, y),
            Conversion::Planes(kernels) => kernels.to_channels_first(stream, &x, y),
            Conversion::Type(kernels, factor) => kernels.launch(stream, &x, *factor, y),
            Conversion::Bytes(kernels, step) => kernels.quantize(stream, &x, *step, y),
        })
    }
}

impl Planner<'_> {
    /// A network of rows in f16: its input becomes images of one pixel, and so does all that follows.
    pub(super) fn rows_last_from_the_start(&mut self) -> Result<()> {
        let cores = self.cores_of(Precision::F16).filter(|_| !self.wanted.is_mixed());
        let (Some(cores), [input]) = (cores, &self.inputs[..]) else { return Ok(()) };
        let (&[rows, columns], None) = (&input.shape[..], input.last()) else { return Ok(()) };
        let from = LaunchOperand { source: LaunchSource::Input(0), shape: input.shape.clone() };
        let place = self.push_channels_last(&cores, from, cores.rows(rows, columns));
        self.inputs[0].places.push(place);
        self.inputs[0].rows = true;
        Ok(())
    }

    fn push_channels_last(&mut self, cores: &Cores, from: LaunchOperand, form: Form) -> Place {
        let kernel = Conversion::ChannelsLast(cores.convert.clone());
        self.push(Description::conversion("for tensor cores"), kernel, from, None, form)
    }

    /// The value in planes of f32, as phase 3 wants it.
    pub(super) fn planes(&mut self, operand: &Operand) -> Result<LaunchOperand> {
        let value = self.value(operand.source);
        if value.column.is_some() {
            return Err(Error::Invalid("a value of a plan is a part of another".to_owned()));
        }
        let PlacedValue { shape, rows, .. } = value.clone();
        let (in_planes, last) = (value.in_planes(), value.last());
        let source = match (in_planes, last, self.cores.first().cloned()) {
            (Some(place), ..) => place.source,
            (None, Some(from), Some(cores)) => {
                // A value that was transposed back is an image, whatever its height and width are called.
                let planes = match from.form.shape[..] {
                    [n, _, h, w] if !rows && shape.len() != 4 => vec![n, shape[1], h, w],
                    _ => shape,
                };
                let description = Description::conversion("what follows takes f32 planes");
                let kernel = Conversion::Planes(cores.convert.clone());
                let place = self.push(description, kernel, from.operand(), None, Form::planes(&planes));
                let source = place.source;
                self.value(operand.source).places.push(place);
                source
            }
            _ => return Err(nowhere()),
        };
        Ok(LaunchOperand { source, shape: operand.shape.clone() })
    }

    /// The value channels last in this form; `None` if it is there with other channels.
    pub(super) fn channels_last(
        &mut self,
        cores: &Cores,
        operand: &Operand,
        form: &Form,
    ) -> Result<Option<LaunchOperand>> {
        let place = match self.image_last(cores, operand)? {
            Some(place) if place.form == *form => place,
            None if self.value(operand.source).shape == operand.shape && operand.shape.len() == 4 => {
                let from = self.planes(operand)?;
                let place = self.push_channels_last(cores, from, form.clone());
                self.value(operand.source).places.push(place.clone());
                place
            }
            _ => return Ok(None),
        };
        Ok(Some(place.operand()))
    }

    /// Where the value lies channels last in the type of `cores`. A value that lies there in another type alone is brought into this one.
    pub(super) fn last(&mut self, cores: &Cores, operand: &Operand) -> Result<Option<Place>> {
        let element = cores.precision.input();
        let value = self.value(operand.source);
        if let Some(place) = value.last_in(element) {
            return Ok(Some(place));
        }
        let Some(from) = value.last().filter(|place| place.form.shape[1].is_multiple_of(EIGHT)) else {
            return Ok(None);
        };
        let &[n, channels, h, w] = &from.form.shape[..] else { return Ok(None) };
        // The channels that are no zeros: of rows the last dimension, of images the second.
        let of_value = if value.rows { value.shape.last() } else { value.shape.get(1) }.copied().unwrap_or(channels);
        let form = cores.last([n, channels, h, w], cores.filled(of_value));
        let place = self.recast(from.operand(), form, 1.0)?;
        self.value(operand.source).places.push(place.clone());
        Ok(Some(place))
    }

    /// Where the rows of an image's pixels lie, with their channels side by side.
    pub(super) fn rows_last(&mut self, cores: &Cores, operand: &Operand) -> Result<Option<Place>> {
        if self.value(operand.source).rows { self.last(cores, operand) } else { Ok(None) }
    }

    /// Where an image lies channels last.
    pub(super) fn image_last(&mut self, cores: &Cores, operand: &Operand) -> Result<Option<Place>> {
        if self.value(operand.source).rows { Ok(None) } else { self.last(cores, operand) }
    }

    /// Rows of planes, channels last: as images of one pixel.
    pub(super) fn rows_of_planes(&mut self, cores: &Cores, operand: &Operand) -> Choice<Place> {
        let &[rows, columns] = &operand.shape[..] else { return Err(Refusal::NoRows.into()) };
        let from = self.planes(operand)?;
        Ok(self.push_channels_last(cores, from, cores.rows(rows, columns)))
    }

    /// `from` in the type and with the channels of `form`, each value times `factor`.
    fn recast(&mut self, from: LaunchOperand, form: Form, factor: f32) -> Result<Place> {
        let kernels = loaded(&mut self.recast, || Recast::load(self.device))?;
        let description = Description::conversion(format!("to {}", form.element));
        Ok(self.push(description, Conversion::Type(kernels, factor), from, None, form))
    }

    /// The value in bytes or 8-bit floats, channels last, in units of `step`: an image, or rows as images of one pixel.
    pub(super) fn narrow(&mut self, operand: &Operand, element: ElementType, step: f32) -> Result<LaunchOperand> {
        let in_mixed = self.wanted.is_mixed();
        let value = self.value(operand.source);
        let channels = operand.shape.get(1).copied().unwrap_or(0);
        // Rows lie as pixels do, unless they are another view of the value.
        let as_it_is = value.shape == operand.shape || value.rows && value.shape.last() == Some(&channels);
        if let Some(place) = value.last_in(element).filter(|_| as_it_is) {
            return Ok(place.operand());
        }
        let last = value.last().filter(|place| as_it_is && place.form.shape[1].is_multiple_of(EIGHT));
        let filled = channels.next_multiple_of(s8::CHANNELS);
        let (from, form) = match last {
            Some(place) => {
                let &[n, stored, h, w] = &place.form.shape[..] else { return Err(Error::shape("bytes", "no image")) };
                // A uniform plan keeps the zeros that it has.
                let filled = if in_mixed { filled } else { stored };
                (place.operand(), Form::channels_last([n, filled, h, w], element))
            }
            None => {
                let x = self.planes(operand)?;
                let [n, c, h, w] = match x.shape[..] {
                    [n, c, h, w] => [n, c, h, w],
                    [rows, c] => [rows, c, 1, 1],
                    _ => return Err(Error::shape("bytes", format!("neither rows nor an image: {:?}", x.shape))),
                };
                let form = Form::channels_last([n, filled, h, w], element);
                if x.shape.len() == 2 && c.is_multiple_of(EIGHT) {
                    (x, form)
                } else {
                    let cores = self.cores.first().cloned();
                    let cores = cores.ok_or_else(|| Error::Invalid("bytes without tensor cores".to_owned()))?;
                    let wide = Form::channels_last([n, filled, h, w], ElementType::F32);
                    (self.push_channels_last(&cores, x, wide).operand(), form)
                }
            }
        };
        let is_f16 = matches!(from.source, LaunchSource::Launch(launch) if self.launches[launch].form.element == ElementType::F16);
        let place = match &self.in_bytes {
            Some(in_bytes) if element == ElementType::I8 && is_f16 && from.shape == form.shape => {
                let kernel = Conversion::Bytes(in_bytes.kernels.clone(), step);
                let description = Description::conversion("f16 to bytes, one step for all");
                self.push(Description { layers: "quantise".to_owned(), ..description }, kernel, from, None, form)
            }
            _ => self.recast(from, form, 1.0 / step)?,
        };
        if as_it_is {
            self.value(operand.source).places.push(place.clone());
        }
        Ok(place.operand())
    }

    /// Channels last, an image's pixels are the rows of its tokens: a transposition launches nothing.
    pub(super) fn transpose(&mut self, cores: &Cores, node: &Node) -> Choice<PlacedValue> {
        let place = self.last(cores, &node.x)?.ok_or(Refusal::ImageInPlanes)?;
        let shape = node.operations[0].output_shape(&Tensor::shape_only(&node.x.shape), None)?;
        let rows = !self.value(node.x.source).rows;
        // Rows that were brought here from planes are images of one pixel.
        let tokens = if rows { shape[1] } else { shape.last().copied().unwrap_or(0) };
        let stored = &place.form.shape;
        if [stored[0], stored[2] * stored[3]] != [shape[0], tokens] {
            return Err(Refusal::RowsOfOtherImages.into());
        }
        Ok(PlacedValue { rows, ..PlacedValue::image(shape, place) })
    }
}

/// The planner's mistake if a value of the graph has no place.
pub(super) fn nowhere() -> Error {
    Error::Invalid("a value of a plan is nowhere".to_owned())
}
