//! [`Product`]: parameters of a product on tensor cores with its epilogue, whichever kernel multiplies.

use super::prelude::*;
use crate::gemm::{Activation, Columns, Epilogue, Later};
use crate::models::parameters::{ScaleShift, vector};

/// A value per image and channel among the columns of a wider matrix.
#[derive(Clone, Copy, Debug)]
pub(super) struct ColumnRange {
    /// The first.
    first: usize,
    pub(super) count: usize,
}

impl ColumnRange {
    /// These columns of the matrix.
    pub(super) fn of(self, values: &Tensor) -> Columns<'_> {
        Columns { values, first: self.first, count: self.count }
    }

    /// A second operand as the two ways to add it: per channel if this is given, else as an image.
    pub(super) fn split(with: Option<&Tensor>, range: Option<ColumnRange>) -> (Option<Columns<'_>>, Option<&Tensor>) {
        match range {
            Some(range) => (with.map(|values| range.of(values)), None),
            None => (None, with),
        }
    }
}

/// When a second operand is added.
#[derive(Clone, Copy, Debug)]
pub(super) enum Added {
    BeforeActivation,
    AfterActivation,
    PerChannel(ColumnRange),
}

/// Parameters of a product with its epilogue.
#[derive(Debug)]
pub(super) struct Product {
    pub(super) weight: Tensor,
    pub(super) scale: Option<Tensor>,
    pub(super) shift: Option<Tensor>,
    pub(super) activation: Activation,
    /// Used if there is a second operand.
    pub(super) added: Added,
    /// Step of the first operand, if it is in 8-bit floats.
    pub(super) alpha: f32,
}

impl Product {
    pub(super) fn epilogue<'a>(&'a self, with: Option<&'a Tensor>) -> Epilogue<'a> {
        let (scale, shift, activation) = (self.scale.as_ref(), self.shift.as_ref(), self.activation);
        let (residual, later) = match self.added {
            Added::BeforeActivation => (with, Later::default()),
            Added::AfterActivation => (None, Later { image: with, channels: None }),
            Added::PerChannel(range) => (None, Later { image: None, channels: with.map(|values| range.of(values)) }),
        };
        Epilogue { blocks: None, alpha: self.alpha, scale, shift, residual, activation, later }
    }

    pub(super) fn bytes(&self) -> u64 {
        bytes_of([Some(&self.weight), self.scale.as_ref(), self.shift.as_ref()].into_iter().flatten())
    }
}

impl Planner<'_> {
    /// A value per image and channel in f32, and its columns.
    pub(super) fn columns(&mut self, operand: &Operand) -> Result<(LaunchOperand, ColumnRange)> {
        let value = self.value(operand.source);
        let count = value.shape.last().copied().unwrap_or(0);
        match (value.column, value.places.first()) {
            (Some(first), Some(place)) => Ok((place.operand(), ColumnRange { first, count })),
            _ => Ok((self.planes(operand)?, ColumnRange { first: 0, count })),
        }
    }

    /// A channel's values on the device, with zeros up to `channels`.
    pub(super) fn vector(&self, values: &[f32], channels: usize) -> Result<Tensor> {
        vector(values, channels)?.to_device(self.device)
    }

    /// Scale and shift of each channel on the device, of a BatchNorm or a bias.
    pub(super) fn scale_and_shift(
        &self,
        norm: Option<ScaleShift>,
        bias: Option<&Tensor>,
        channels: usize,
    ) -> Result<[Option<Tensor>; 2]> {
        Ok(match (norm, bias) {
            (Some(ScaleShift { scale, shift }), _) => {
                [Some(self.vector(&scale, channels)?), Some(self.vector(&shift, channels)?)]
            }
            (None, Some(bias)) => [None, Some(self.vector(bias.as_slice()?, channels)?)],
            (None, None) => [None, None],
        })
    }
}
