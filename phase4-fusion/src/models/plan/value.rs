//! Where a plan's values lie: [`Form`], the edges of a plan, and the places of each value of the graph.

use common::prelude::*;
use phase3_all_layers::nn::graph::{Operand, Source};

/// A value's shape, type and layout in memory.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Form {
    /// With the channels that are zeros.
    pub(super) shape: Vec<usize>,
    pub(super) element: ElementType,
    pub(super) format: MemoryFormat,
}

impl Form {
    /// f32, a plane per channel, as phase 3 has it.
    pub(super) fn planes(shape: &[usize]) -> Form {
        Form { shape: shape.to_vec(), element: ElementType::F32, format: MemoryFormat::Nchw }
    }

    /// An image with its pixels' channels side by side.
    pub(super) fn channels_last(shape: [usize; 4], element: ElementType) -> Form {
        Form { shape: shape.to_vec(), element, format: MemoryFormat::Nhwc }
    }

    /// Bytes of memory.
    pub(super) fn bytes(&self) -> u64 {
        (self.shape.iter().product::<usize>() * self.element.size()) as u64
    }
}

/// An input or output of a plan: its shape in the graph and its form in memory.
#[derive(Clone, Debug, PartialEq)]
pub struct Edge {
    pub(super) shape: Vec<usize>,
    pub(super) rows: bool,
    pub(super) form: Form,
}

impl Edge {
    /// In f32, a plane per channel, as the host has it.
    pub fn planes(shape: &[usize]) -> Edge {
        Edge { shape: shape.to_vec(), rows: false, form: Form::planes(shape) }
    }

    /// Its shape in the graph.
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// Bytes of memory, with channels that are zeros.
    pub fn bytes(&self) -> u64 {
        self.form.bytes()
    }

    /// Memory for it, poisoned with NaN.
    ///
    /// # Errors
    /// As [`Tensor::empty_of`].
    pub fn allocate(&self, device: &Device) -> Result<Tensor> {
        Tensor::empty_of(device, &self.form.shape, self.form.element, self.form.format)
    }

    /// Its shape in memory, without memory.
    ///
    /// # Errors
    /// As [`Tensor::shape_only_of`].
    pub(crate) fn shape_only(&self) -> Result<Tensor> {
        Tensor::shape_only_of(&self.form.shape, self.form.element, self.form.format)
    }
}

/// Where a launch finds an operand. A [`Source`] names a value of the graph; this, a place in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LaunchSource {
    Input(usize),
    /// The result of an earlier launch.
    Launch(usize),
}

/// An operand of a launch, seen in a shape.
#[derive(Clone, Debug)]
pub(super) struct LaunchOperand {
    pub(super) source: LaunchSource,
    pub(super) shape: Vec<usize>,
}

impl From<LaunchOperand> for Operand {
    /// As an operand of a step, where each launch is one.
    fn from(LaunchOperand { source, shape }: LaunchOperand) -> Operand {
        let source = match source {
            LaunchSource::Input(number) => Source::Input(number),
            LaunchSource::Launch(number) => Source::Node(number),
        };
        Operand { source, shape }
    }
}

/// One of the forms in which a value exists, and the input or launch that it comes from.
#[derive(Clone, Debug)]
pub(super) struct Place {
    pub(super) form: Form,
    pub(super) source: LaunchSource,
}

impl Place {
    /// All of it, as it lies.
    pub(super) fn operand(&self) -> LaunchOperand {
        LaunchOperand { source: self.source, shape: self.form.shape.clone() }
    }
}

/// A value of the graph, with all places where it lies.
#[derive(Clone, Debug)]
pub(super) struct PlacedValue {
    /// As the graph has it.
    pub(super) shape: Vec<usize>,
    /// Whether its last dimension are the channels of what lies channels last: then it is the rows of an image's pixels.
    pub(super) rows: bool,
    pub(super) places: Vec<Place>,
    /// The first of its columns in the places, where these are wider.
    pub(super) column: Option<usize>,
}

impl PlacedValue {
    /// In f32, as the graph has it.
    pub(super) fn planes(place: Place) -> PlacedValue {
        PlacedValue::image(place.form.shape.clone(), place)
    }

    /// The caller's.
    pub(super) fn given(Edge { shape, rows, form }: &Edge, source: LaunchSource) -> PlacedValue {
        let place = Place { form: form.clone(), source };
        PlacedValue { shape: shape.clone(), rows: *rows, places: vec![place], column: None }
    }

    /// An image, or a value in planes, of this shape in the graph.
    pub(super) fn image(shape: Vec<usize>, place: Place) -> PlacedValue {
        PlacedValue { shape, rows: false, places: vec![place], column: None }
    }

    /// The rows of an image's pixels.
    pub(super) fn rows(shape: Vec<usize>, place: Place) -> PlacedValue {
        PlacedValue { rows: true, ..PlacedValue::image(shape, place) }
    }

    fn place(&self, fits: impl Fn(&Form) -> bool) -> Option<Place> {
        self.places.iter().find(|place| fits(&place.form)).cloned()
    }

    /// Where it lies in planes.
    pub(super) fn in_planes(&self) -> Option<Place> {
        self.place(|form| form.format == MemoryFormat::Nchw)
    }

    /// Where it lies channels last, in a type that every kernel reads.
    pub(super) fn last(&self) -> Option<Place> {
        self.last_in(ElementType::F16).or_else(|| self.last_in(ElementType::F32))
    }

    /// Where it lies channels last in this type.
    pub(super) fn last_in(&self, element: ElementType) -> Option<Place> {
        self.place(|form| form.format == MemoryFormat::Nhwc && form.element == element)
    }
}
