//! One runner for every ladder: step × shape × device.
//!
//! A step's result is checked before it is timed, into an output full of NaN. A step that does not support a shape or a device
//! returns [`Error::Unsupported`], which is an answer here and no failure:
//!
//! ```
//! use bench::ladder::{self, Expected, Outcome};
//! use common::prelude::*;
//! use common::reference;
//! use bench::timing::Bench;
//!
//! # fn main() -> Result<()> {
//! let device = Device::sim();
//! let stream = device.stream();
//! let x = Tensor::random(&[1000], 1);
//! let on_device = x.to_device(&device)?;
//! let mut y = Tensor::empty_on(&device, x.shape())?;
//! let expected = Expected::all(reference::vector_add(x.as_slice()?, &[0.0; 1000])?);
//! let outcome = ladder::run(&stream, &Bench::default(), &mut y, &expected, |y| {
//!     stream.memcpy_dtod(on_device.buffer()?, y.buffer_mut()?)
//! })?;
//! assert!(matches!(outcome, Outcome::Ran { report, .. } if report.max_abs == 0.0));
//! # Ok(())
//! # }
//! ```

use crate::timing::{Bench, Timing};
use common::Tensor;
use common::check::{Mismatch, Report, Tolerance, compare};
use common::device::Stream;
use common::error::{Error, Result};
use common::reference::{self, Conv2dParams, Gemm, Reference, TensorGemm};
use common::tensor::Permutation;

mod step;
mod table;

pub use step::{Method, Step};

pub use table::{
    Contest, Cost, ELSEWHERE, LadderTable, LoadedStep, NO_COUNTS, Patience, Peak, StepResult, StepRun, columns,
    if_supported, load_steps, milliseconds, verdict,
};

/// Maximum number of products for which all outputs are compared with the f64 reference, which then takes less than a
/// second.
const PRODUCTS: usize = 1 << 27;

/// Outputs of a sample: two in each row of the largest matrices that are measured.
const SAMPLE: usize = 1 << 14;

/// Expected outputs of a step: all of them, or those of a sample if a whole f64 reference would take too long.
#[derive(Clone, Debug)]
pub struct Expected {
    len: usize,
    /// Indices of the outputs in the reference, ascending; `None` for all.
    sample: Option<Vec<usize>>,
    reference: Reference,
    /// Overrides the reference's own tolerance.
    tolerance: Option<Tolerance>,
}

/// The outcome of a step.
#[derive(Clone, Debug)]
pub enum Outcome {
    /// It is right.
    Ran {
        /// Time taken.
        timing: Timing,
        /// Differences from the reference.
        report: Report,
    },
    /// It does not support this shape or this device, for this reason.
    Unsupported(String),
    /// It is wrong, and so was not timed.
    Wrong(Mismatch),
}

impl Expected {
    /// Every output, in order.
    pub fn all(reference: Reference) -> Expected {
        Expected { len: reference.values.len(), sample: None, reference, tolerance: None }
    }

    /// Outputs of `sample`, out of `len`: `reference` has a value for each.
    ///
    /// # Errors
    /// [`Error::Invalid`] if the numbers of values differ, or an index is not below `len`.
    pub fn sample(len: usize, sample: Vec<usize>, reference: Reference) -> Result<Expected> {
        if sample.len() != reference.values.len() || sample.iter().any(|&index| index >= len) {
            return Err(Error::Invalid(format!(
                "{} values were computed for a sample of {} out of {len} outputs",
                reference.values.len(),
                sample.len()
            )));
        }
        Ok(Expected { len, sample: Some(sample), reference, tolerance: None })
    }

    /// Expected outputs of a matrix product: all, or a sample if there are many.
    ///
    /// # Errors
    /// Errors of [`Gemm::all`].
    pub fn gemm(gemm: &Gemm<'_>, seed: u64) -> Result<Expected> {
        let len = gemm.m.saturating_mul(gemm.n);
        Expected::of(len, len.saturating_mul(gemm.k), seed, |sample| match sample {
            None => gemm.all(),
            Some(sample) => gemm.at(sample),
        })
    }

    /// Expected outputs of a product on tensor cores: all, or a sample if there are many.
    ///
    /// # Errors
    /// Errors of [`TensorGemm::all`].
    pub fn tensor_gemm(gemm: &TensorGemm<'_>, seed: u64) -> Result<Expected> {
        let len = gemm.product.m.saturating_mul(gemm.product.n);
        let mut tolerance = None;
        let expected = Expected::of(len, len.saturating_mul(gemm.product.k), seed, |sample| {
            let (reference, allowed) = match sample {
                None => gemm.all(),
                Some(sample) => gemm.at(sample),
            }?;
            tolerance = Some(allowed);
            Ok(reference)
        })?;
        Ok(Expected { tolerance, ..expected })
    }

    /// Expected outputs of a convolution: all, or a sample if there are many. All tensors are on the host.
    ///
    /// # Errors
    /// Errors of [`reference::conv2d`].
    pub fn conv2d(
        input: &Tensor,
        weight: &Tensor,
        bias: Option<&Tensor>,
        params: Conv2dParams,
        seed: u64,
    ) -> Result<Expected> {
        let len: usize = params.output_shape(input, weight)?.iter().product();
        let window: usize = weight.shape()[1..].iter().product();
        Expected::of(len, len.saturating_mul(window), seed, |sample| match sample {
            None => reference::conv2d(input, weight, bias, params),
            Some(sample) => reference::conv2d_at(input, weight, bias, params, sample),
        })
    }

    fn of(
        len: usize,
        products: usize,
        seed: u64,
        mut compute: impl FnMut(Option<&[usize]>) -> Result<Reference>,
    ) -> Result<Expected> {
        if products <= PRODUCTS {
            return compute(None).map(Expected::all);
        }
        let sample = positions(len, SAMPLE, seed);
        let reference = compute(Some(&sample))?;
        Expected::sample(len, sample, reference)
    }

    /// The same with another tolerance than that of f32 arithmetic.
    pub fn within(self, tolerance: Tolerance) -> Expected {
        Expected { tolerance: Some(tolerance), ..self }
    }

    /// Number of compared outputs, and of all.
    pub fn compared(&self) -> (usize, usize) {
        (self.reference.values.len(), self.len)
    }

    /// Tolerance for rounding.
    pub fn tolerance(&self) -> Tolerance {
        self.tolerance.unwrap_or_else(|| self.reference.tolerance())
    }

    /// The reference, in the order of the sample.
    pub fn reference(&self) -> &Reference {
        &self.reference
    }

    /// Compares. All outputs must be finite, also those outside the sample: otherwise poison is left there.
    ///
    /// # Errors
    /// [`Mismatch`], with indices in the output.
    pub fn check<A: Copy + Into<f64>>(&self, output: &[A]) -> Result<Report, Mismatch> {
        let Some(sample) = &self.sample else {
            return compare(output, &self.reference.values, self.tolerance());
        };
        if output.len() != self.len {
            return Err(Mismatch::Length { actual: output.len(), expected: self.len });
        }
        let not_finite = |&value: &A| !value.into().is_finite();
        if let Some(first) = output.iter().position(not_finite) {
            let wrong = output.iter().filter(|value| not_finite(value)).count();
            return Err(Mismatch::NotFinite { wrong, count: self.len, first, actual: output[first].into() });
        }
        let found: Vec<A> = sample.iter().map(|&index| output[index]).collect();
        // From places in the sample to places in the output.
        let place = |report: Report| Report {
            max_abs_index: sample.get(report.max_abs_index).copied().unwrap_or(0),
            max_rel_index: sample.get(report.max_rel_index).copied().unwrap_or(0),
            ..report
        };
        match compare(&found, &self.reference.values, self.tolerance()) {
            Ok(report) => Ok(place(report)),
            Err(Mismatch::Values { wrong, first, actual, expected, allowed, report }) => {
                Err(Mismatch::Values { wrong, first: sample[first], actual, expected, allowed, report: place(report) })
            }
            Err(other) => Err(other),
        }
    }
}

/// At most `count` distinct indices below `len`, ascending: the first and the last, and one chosen by the seed in each of
/// equal parts, so that no stretch of the output goes unseen.
pub fn positions(len: usize, count: usize, seed: u64) -> Vec<usize> {
    if len <= count {
        return (0..len).collect();
    }
    let parts = count.max(2) - 1;
    let part = len.div_ceil(parts);
    let order = Permutation::new(part as u64, seed);
    // Another place in each part, until all have been used.
    let places = (1..parts).map(|i| i * part + order.apply((i % part) as u64) as usize);
    let last = len - 1;
    [0].into_iter().chain(places.filter(|&place| place < last)).chain([last]).collect()
}

/// Runs a step: poisons `output`, lets `launch` fill it, checks it, then times `launch`.
///
/// Inputs are the caller's: `launch` may read others from call to call, if `expected` belongs to the first call. A step that
/// reads its output (beta·C) has to fill it in `launch`.
///
/// # Errors
/// Errors of the device. [`Error::Unsupported`] and [`Error::OutOfMemory`] become [`Outcome::Unsupported`], a wrong result
/// becomes [`Outcome::Wrong`].
pub fn run(
    stream: &Stream,
    bench: &Bench,
    output: &mut Tensor,
    expected: &Expected,
    launch: impl FnMut(&mut Tensor) -> Result<()>,
) -> Result<Outcome> {
    output.poison(stream)?;
    run_with(stream, bench, output, launch, |output| Ok(expected.check(&output.to_f64()?)))
}

/// [`run`] for a step that works in place: `x` begins as a copy of `input`, both on the device. Later runs continue with the
/// result of the previous one.
///
/// # Errors
/// Errors of [`run`]; [`Error::Shape`] if `x` has another shape.
pub fn run_in_place(
    stream: &Stream,
    bench: &Bench,
    input: &Tensor,
    x: &mut Tensor,
    expected: &Expected,
    launch: impl FnMut(&mut Tensor) -> Result<()>,
) -> Result<Outcome> {
    x.expect_shape("what is changed in place", input.shape())?;
    stream.memcpy_dtod(input.buffer()?, x.buffer_mut()?)?;
    run_with(stream, bench, x, launch, |x| Ok(expected.check(x.to_host()?.as_slice()?)))
}

/// [`run`] for steps with outputs of another kind, which the caller has poisoned: `check` compares them after the first launch.
///
/// # Errors
/// Errors of [`run`] and `check`.
pub fn run_with<T>(
    stream: &Stream,
    bench: &Bench,
    outputs: &mut T,
    mut launch: impl FnMut(&mut T) -> Result<()>,
    check: impl FnOnce(&T) -> Result<Result<Report, Mismatch>>,
) -> Result<Outcome> {
    let attempt = || -> Result<Outcome> {
        // A simulated run counts the same each time: the checked one is the counted one.
        let counted = if stream.device().is_sim() {
            Some(bench.measure(stream, || launch(outputs))?)
        } else {
            launch(outputs).map(|()| None)?
        };
        let report = match check(outputs)? {
            Ok(report) => report,
            Err(mismatch) => return Ok(Outcome::Wrong(mismatch)),
        };
        let timing = match counted {
            Some(timing) => timing,
            None => bench.measure(stream, || launch(outputs))?,
        };
        Ok(Outcome::Ran { timing, report })
    };
    match attempt() {
        Err(error @ (Error::Unsupported { .. } | Error::OutOfMemory { .. })) => {
            Ok(Outcome::Unsupported(error.to_string()))
        }
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use common::Device;

    /// y = x by a copy, modified by `spoil`.
    fn copied(n: usize, spoil: impl Fn(&mut Vec<f32>)) -> Outcome {
        let device = Device::sim();
        let stream = device.stream();
        let x = Tensor::random(&[n], 3);
        let mut values = x.as_slice().unwrap().to_vec();
        spoil(&mut values);
        let mut y = Tensor::empty_on(&device, &[n]).unwrap();
        let sample = positions(n, 64, 1);
        let picked: Vec<f64> = sample.iter().map(|&i| x.as_slice().unwrap()[i].into()).collect();
        let expected = Expected::sample(n, sample, Reference { values: picked, terms: 0, magnitude: 0.0 }).unwrap();
        run(&stream, &Bench::default(), &mut y, &expected, |y| {
            // Only as many as there are: the rest stays as it was.
            stream.memcpy_htod(&values, &mut y.buffer_mut()?.slice_mut(..values.len()))
        })
        .unwrap()
    }

    #[test]
    fn what_nobody_wrote_and_what_is_wrong_is_found_and_not_timed() {
        let Outcome::Ran { report, .. } = copied(1000, |_| ()) else { panic!("what is right did not pass") };
        assert_eq!((report.count, report.max_abs), (positions(1000, 64, 1).len(), 0.0));
        // One value that no sample looks at.
        let unseen = (0..1000).rfind(|i| !positions(1000, 64, 1).contains(i)).unwrap();
        let Outcome::Wrong(mismatch) = copied(1000, |values| values.truncate(unseen)) else { panic!("poison passed") };
        let poison = format!("{} of 1000 values are not finite, the first at {unseen}: NaN", 1000 - unseen);
        assert_eq!(mismatch.to_string(), poison);
        let Outcome::Wrong(mismatch) = copied(1000, |values| values[999] += 0.5) else {
            panic!("a wrong value passed")
        };
        assert!(matches!(mismatch, Mismatch::Values { wrong: 1, first: 999, .. }), "{mismatch}");
    }

    #[test]
    fn what_a_step_does_not_take_is_an_answer_and_what_goes_wrong_an_error() {
        let device = Device::sim();
        let stream = device.stream();
        let mut y = Tensor::empty_on(&device, &[4]).unwrap();
        let expected = Expected::all(Reference { values: vec![0.0; 4], terms: 0, magnitude: 0.0 });
        let mut with = |error: fn() -> Error| run(&stream, &Bench::default(), &mut y, &expected, |_| Err(error()));
        let unsupported = with(|| Error::Unsupported {
            what: "a matrix without columns".to_owned(),
            device: "sim".to_owned(),
            reason: "a reason".to_owned(),
        });
        let Ok(Outcome::Unsupported(reason)) = unsupported else { panic!("{unsupported:?}") };
        assert_eq!(reason, "a matrix without columns is not possible on sim: a reason");
        assert!(with(|| Error::Invalid("broken".to_owned())).is_err());
    }

    #[test]
    fn in_place_the_first_run_begins_with_the_input_and_the_others_go_on() {
        let device = Device::sim();
        let stream = device.stream();
        let x = Tensor::random(&[8], 1).to_device(&device).unwrap();
        let expected = Expected::all(Reference { values: vec![0.0; 8], terms: 0, magnitude: 0.0 });
        let mut y = Tensor::empty_on(&device, &[8]).unwrap();
        let mut run = |launch: &mut dyn FnMut(&mut Tensor) -> Result<()>| {
            run_in_place(&stream, &Bench::default(), &x, &mut y, &expected, launch).unwrap()
        };
        let zeros = run(&mut |y| stream.memset_zeros(y.buffer_mut()?));
        assert!(matches!(zeros, Outcome::Ran { .. }), "{zeros:?}");
        // Nothing is left of the run before.
        let Outcome::Wrong(mismatch) = run(&mut |_| Ok(())) else { panic!("the input passed as the output") };
        assert!(matches!(mismatch, Mismatch::Values { wrong: 8, .. }), "{mismatch}");
    }

    #[test]
    fn positions_are_distinct_and_leave_no_gap() {
        for (len, count) in [(0, 4), (1, 4), (7, 4), (64, 64), (1000, 64), (1 << 20, 1 << 14), (12_345_679, 1 << 14)] {
            let places = positions(len, count, 5);
            assert!(places.len() <= count.max(2) && places.windows(2).all(|pair| pair[0] < pair[1]), "{len}, {count}");
            let gap = places.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap_or(0);
            assert!(gap < 2 * len.div_ceil(count - 1).max(1), "a gap of {gap} in {len}");
            if len > 0 {
                assert_eq!((places.first(), places.last()), (Some(&0), Some(&(len - 1))));
            }
        }
        // No stride of a matrix is walked along: columns differ from row to row.
        let mut columns: Vec<usize> = positions(1 << 20, 1 << 10, 5).iter().map(|place| place % 1024).collect();
        columns.sort_unstable();
        columns.dedup();
        assert!(columns.len() > 600, "{}", columns.len());
    }

    #[test]
    fn a_sample_of_a_product_is_that_of_the_whole() {
        let (m, n, k) = (13, 9, 21);
        let parts = [m * k, k * n, m * n, n].map(|len| Tensor::random(&[len], len as u64));
        let [a, b, c, bias] = parts.each_ref().map(|part| part.as_slice().unwrap());
        for transposed in [false, true] {
            for relu in [false, true] {
                let plain = Gemm { transposed, relu, ..Gemm::new(a, b, m, n, k) };
                let full = Gemm { alpha: 0.5, beta: -2.0, c: Some(c), bias: Some(bias), ..plain };
                for gemm in [plain, full] {
                    let (all, places) = (gemm.all().unwrap(), positions(m * n, 20, 1));
                    let some = gemm.at(&places).unwrap();
                    let expected: Vec<f64> = places.iter().map(|&place| all.values[place]).collect();
                    assert_eq!(some.values, expected);
                    assert!(some.terms == all.terms && some.magnitude <= all.magnitude);
                }
            }
        }
    }
}
