//! Inputs of a pair, and their expected outputs.

use bench::ladder::{Step, positions};
use common::check::{Mismatch, Report, Tolerance, compare};
use common::prelude::*;

use super::{LoadedVersion, Size, Version};

/// Up to this many operations a reference is computed for every output; beyond it, for a sample.
const OPERATIONS: usize = 1 << 24;

/// Number of outputs of a sample.
const SAMPLE: usize = 1 << 14;

/// Expected outputs, computed in f64: all, or a sample where that would take too long.
#[derive(Clone, Debug)]
pub struct Wanted {
    len: usize,
    /// Indices of the outputs that have a value here, ascending.
    places: Vec<usize>,
    values: Vec<f64>,
    tolerance: Tolerance,
}

impl Wanted {
    /// The values of `at` for `len` outputs, each of which takes `operations`.
    pub fn new(len: usize, operations: usize, tolerance: Tolerance, at: impl Fn(usize) -> f64) -> Wanted {
        let count = if len.saturating_mul(operations.max(1)) <= OPERATIONS { len } else { SAMPLE };
        let places = positions(len, count, 7);
        Wanted { len, values: places.iter().map(|&place| at(place)).collect(), places, tolerance }
    }

    /// Compares `output`, on the host. All values must be finite, including those outside the sample.
    fn check(&self, output: &[f32]) -> Result<Report, Mismatch> {
        if output.len() != self.len {
            return Err(Mismatch::Length { actual: output.len(), expected: self.len });
        }
        if let Some(first) = output.iter().position(|value| !value.is_finite()) {
            let wrong = output.iter().filter(|value| !value.is_finite()).count();
            return Err(Mismatch::NotFinite { wrong, count: self.len, first, actual: output[first].into() });
        }
        let found: Vec<f32> = self.places.iter().map(|&place| output[place]).collect();
        compare(&found, &self.values, self.tolerance)
    }
}

/// A pair's problem of one size.
#[derive(Debug)]
pub struct Problem {
    /// Size.
    pub size: Size,
    /// Inputs of the kernels, on the host, in the order of their parameters.
    pub inputs: Vec<Tensor>,
    /// Shape and type of the output.
    pub output: (Vec<usize>, ElementType),
    /// Expected output.
    pub wanted: Wanted,
}

impl Problem {
    /// The inputs on a device.
    pub(super) fn on(&self, device: &Device) -> Result<Vec<Tensor>> {
        self.inputs.iter().map(|input| input.to_device(device)).collect()
    }

    /// A poisoned output on a device.
    pub(super) fn output_on(&self, device: &Device) -> Result<Tensor> {
        let (shape, element) = &self.output;
        Tensor::empty_of(device, shape, *element, MemoryFormat::Nchw)
    }

    /// Makes an output NaN, or −1 if it is of integers.
    pub(super) fn poison(&self, stream: &Stream, output: &mut Tensor) -> Result<()> {
        match output.element_type() {
            ElementType::F16 => stream.poison(output.buffer_of_mut::<half::f16>(MemoryFormat::Nchw)?),
            ElementType::I32 => stream.poison(output.buffer_of_mut::<i32>(MemoryFormat::Nchw)?),
            _ => stream.poison(output.buffer_mut()?),
        }
    }

    /// Compares an output with the reference.
    pub(super) fn check(&self, output: &Tensor) -> Result<Result<Report, Mismatch>> {
        // Every integer that a problem makes is one of f32 too.
        let output = output.to_host()?.to_type(ElementType::F32)?;
        Ok(self.wanted.check(output.as_slice()?))
    }

    /// Runs one version, possibly with a planted mistake, and compares.
    ///
    /// # Errors
    /// Errors of the device; [`Error::Unsupported`] if it does not have the version's instructions.
    pub fn try_version(&self, device: &Device, step: &Step<Version>) -> Result<Result<Report, Mismatch>> {
        let loaded: LoadedVersion = step.load(device)?;
        let inputs = self.on(device)?;
        let mut output = self.output_on(device)?;
        loaded.launch(&device.stream(), self.size, &inputs, &mut output)?;
        self.check(&output)
    }
}
