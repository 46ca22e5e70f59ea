//! [`Tensor`]: f32 values with a shape, in row-major order, on the host or on a device.

use crate::device::{Buffer, Device};
use crate::error::{Error, Result, ShapeError};

/// Values in row-major order: the last dimension is the one whose neighbours lie side by side. Images are NCHW.
#[derive(Debug)]
pub struct Tensor {
    shape: Vec<usize>,
    storage: Storage,
}

#[derive(Debug)]
enum Storage {
    Host(Vec<f32>),
    Device(Buffer<f32>),
    Nowhere,
}

impl Tensor {
    /// `values` in the given shape, on the host.
    ///
    /// # Errors
    /// [`Error::Shape`] if their number is not the product of the dimensions.
    pub fn from_vec(shape: &[usize], values: Vec<f32>) -> Result<Tensor> {
        expect_values("making a tensor", shape, values.len())?;
        Ok(Tensor { shape: shape.to_vec(), storage: Storage::Host(values) })
    }

    /// The same value everywhere, on the host.
    pub fn full(shape: &[usize], value: f32) -> Tensor {
        Tensor { shape: shape.to_vec(), storage: Storage::Host(vec![value; shape.iter().product()]) }
    }

    /// Zeros, on the host.
    pub fn zeros(shape: &[usize]) -> Tensor {
        Tensor::full(shape, 0.0)
    }

    /// The values of a function of the index, on the host.
    pub fn from_fn(shape: &[usize], mut value: impl FnMut(&[usize]) -> f32) -> Tensor {
        let mut index = vec![0; shape.len()];
        let values = (0..shape.iter().product())
            .map(|_| {
                let result = value(&index);
                // The next index: the last dimension runs fastest.
                for (i, &dim) in index.iter_mut().zip(shape).rev() {
                    *i += 1;
                    if *i < dim {
                        break;
                    }
                    *i = 0;
                }
                result
            })
            .collect();
        Tensor { shape: shape.to_vec(), storage: Storage::Host(values) }
    }

    /// Values in (−1, 1), on the host: evenly spaced, in an order that the seed decides, and none zero. No two are equal in a
    /// tensor of up to 2²³ values, so that a kernel that reads the wrong one is found out.
    pub fn random(shape: &[usize], seed: u64) -> Tensor {
        use rayon::prelude::*;
        let n: usize = shape.iter().product();
        let order = Permutation::new(n as u64, seed);
        let values = (0..n as u64)
            .into_par_iter()
            .map(|i| {
                // Odd numerators over 2n: the centres of n equal steps. An odd n would have one at zero; half a step moves it.
                let half = if n.is_multiple_of(2) { 1.0 } else { 1.5 };
                let centre = 2.0 * order.apply(i) as f64 + half;
                (centre / n as f64 - 1.0) as f32
            })
            .collect();
        Tensor { shape: shape.to_vec(), storage: Storage::Host(values) }
    }

    /// A tensor on `device` that a kernel is to fill; until then it holds NaN.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`], or what the driver reports.
    pub fn empty_on(device: &Device, shape: &[usize]) -> Result<Tensor> {
        let len = checked_len("making a tensor", shape)?;
        Ok(Tensor { shape: shape.to_vec(), storage: Storage::Device(device.stream().alloc_poisoned(len)?) })
    }

    /// A shape without values, with which memory is planned before any is taken; what needs values refuses it.
    pub fn shape_only(shape: &[usize]) -> Tensor {
        Tensor { shape: shape.to_vec(), storage: Storage::Nowhere }
    }

    /// The dimensions.
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// Number of values.
    pub fn len(&self) -> usize {
        self.shape.iter().product()
    }

    /// True if there is no value.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// N, C, H, W.
    ///
    /// # Errors
    /// [`Error::Shape`] unless there are 4 dimensions.
    pub fn dims4(&self) -> Result<[usize; 4]> {
        self.dims("reading N, C, H, W")
    }

    /// The dimensions, if there are D of them.
    ///
    /// # Errors
    /// [`Error::Shape`] in `operation` if there are more or fewer.
    pub fn dims<const D: usize>(&self, operation: &str) -> Result<[usize; D]> {
        let wrong = |_| Error::shape(operation, ShapeError::Rank { expected: D, got: self.shape.clone() });
        self.shape.as_slice().try_into().map_err(wrong)
    }

    /// The same values in another shape, without a copy.
    ///
    /// # Errors
    /// [`Error::Shape`] if the number of values differs.
    pub fn reshape(self, shape: &[usize]) -> Result<Tensor> {
        expect_values("reshape", shape, self.len())?;
        Ok(Tensor { shape: shape.to_vec(), storage: self.storage })
    }

    /// The memory of a tensor on a device for values of another shape, no more of them than it was made for. They are anything:
    /// NaN, or what a kernel left there.
    ///
    /// # Errors
    /// [`Error::Shape`] if there is not enough, [`Error::Invalid`] if the tensor is not on a device.
    pub fn recycle(mut self, shape: &[usize]) -> Result<Tensor> {
        let len = checked_len("recycling", shape)?;
        self.buffer_mut()?.set_len(len)?;
        Ok(Tensor { shape: shape.to_vec(), storage: self.storage })
    }

    /// Fails unless the shape is `expected`.
    ///
    /// # Errors
    /// [`Error::Shape`] with the operation and both shapes.
    pub fn expect_shape(&self, operation: &str, expected: &[usize]) -> Result<()> {
        if self.shape == expected {
            return Ok(());
        }
        Err(Error::shape(operation, ShapeError::mismatch(format!("{expected:?}"), &self.shape)))
    }

    /// True if the values are in device memory.
    pub fn is_on_device(&self) -> bool {
        self.device().is_some()
    }

    /// Where the values are; `None` for the host.
    pub fn device(&self) -> Option<&Device> {
        match &self.storage {
            Storage::Host(_) | Storage::Nowhere => None,
            Storage::Device(buffer) => Some(buffer.device()),
        }
    }

    /// A copy on `device`, from wherever the values are.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`], or what the driver reports.
    pub fn to_device(&self, device: &Device) -> Result<Tensor> {
        let stream = device.stream();
        let buffer = match &self.storage {
            Storage::Host(values) => stream.clone_htod(values)?,
            Storage::Device(buffer) if buffer.device() == device => stream.clone_dtod(buffer)?,
            Storage::Device(buffer) => stream.clone_htod(&buffer.device().stream().clone_dtoh(buffer)?)?,
            Storage::Nowhere => return Err(nowhere(&self.shape)),
        };
        Ok(Tensor { shape: self.shape.clone(), storage: Storage::Device(buffer) })
    }

    /// A copy on the host, complete when this returns.
    ///
    /// # Errors
    /// What earlier work on the device ran into.
    pub fn to_host(&self) -> Result<Tensor> {
        let values = match &self.storage {
            Storage::Host(values) => values.clone(),
            Storage::Device(buffer) => buffer.device().stream().clone_dtoh(buffer)?,
            Storage::Nowhere => return Err(nowhere(&self.shape)),
        };
        Ok(Tensor { shape: self.shape.clone(), storage: Storage::Host(values) })
    }

    /// The values of a tensor on the host.
    ///
    /// # Errors
    /// [`Error::Invalid`] if they are on a device: copying them is for the caller to decide.
    pub fn as_slice(&self) -> Result<&[f32]> {
        match &self.storage {
            Storage::Host(values) => Ok(values),
            Storage::Device(buffer) => Err(self.elsewhere(buffer.device())),
            Storage::Nowhere => Err(nowhere(&self.shape)),
        }
    }

    /// The values of a tensor on the host, for writing.
    ///
    /// # Errors
    /// As [`Tensor::as_slice`].
    pub fn as_mut_slice(&mut self) -> Result<&mut [f32]> {
        match &mut self.storage {
            Storage::Host(values) => Ok(values),
            Storage::Device(buffer) => Err(Error::Invalid(format!(
                "the tensor is on {}; copy it with to_host() first",
                buffer.device().short_name()
            ))),
            Storage::Nowhere => Err(nowhere(&self.shape)),
        }
    }

    /// The values, copied from the device if they are there.
    ///
    /// # Errors
    /// What earlier work on the device ran into.
    pub fn into_vec(self) -> Result<Vec<f32>> {
        match self.storage {
            Storage::Host(values) => Ok(values),
            Storage::Device(buffer) => buffer.device().stream().clone_dtoh(&buffer),
            Storage::Nowhere => Err(nowhere(&self.shape)),
        }
    }

    /// The device memory of a tensor on a device.
    ///
    /// # Errors
    /// [`Error::Invalid`] if it is on the host.
    pub fn buffer(&self) -> Result<&Buffer<f32>> {
        match &self.storage {
            Storage::Device(buffer) => Ok(buffer),
            Storage::Host(_) => Err(self.on_host()),
            Storage::Nowhere => Err(nowhere(&self.shape)),
        }
    }

    /// The device memory of a tensor on a device, for writing.
    ///
    /// # Errors
    /// [`Error::Invalid`] if it is on the host.
    pub fn buffer_mut(&mut self) -> Result<&mut Buffer<f32>> {
        match self.storage {
            Storage::Device(ref mut buffer) => Ok(buffer),
            Storage::Host(_) => Err(self.on_host()),
            Storage::Nowhere => Err(nowhere(&self.shape)),
        }
    }

    fn elsewhere(&self, device: &Device) -> Error {
        Error::Invalid(format!(
            "the tensor {:?} is on {}; copy it with to_host() first",
            self.shape,
            device.short_name()
        ))
    }

    fn on_host(&self) -> Error {
        Error::Invalid(format!("the tensor {:?} is on the host; copy it with to_device() first", self.shape))
    }
}

fn nowhere(shape: &[usize]) -> Error {
    Error::Invalid(format!("the tensor {shape:?} is a shape without values"))
}

/// The product of the dimensions, unless it overflows.
pub(crate) fn element_count(shape: &[usize]) -> Option<usize> {
    shape.iter().try_fold(1usize, |count, &dim| count.checked_mul(dim))
}

fn checked_len(operation: &str, shape: &[usize]) -> Result<usize> {
    element_count(shape).ok_or_else(|| Error::shape(operation, ShapeError::Overflow(shape.to_vec())))
}

/// Fails unless `values` values fill the shape.
fn expect_values(operation: &str, shape: &[usize], values: usize) -> Result<()> {
    let expected = element_count(shape);
    if expected == Some(values) {
        return Ok(());
    }
    Err(Error::shape(operation, ShapeError::Values { shape: shape.to_vec(), expected, got: values }))
}

/// A bijection of [0, n): a four-round Feistel network on the next even number of bits, walked until it lands below n (Black
/// and Rogaway, "Ciphers with Arbitrary Finite Domains", 2002). Each element is found without the others.
pub(crate) struct Permutation {
    n: u64,
    half_bits: u32,
    keys: [u64; 4],
}

impl Permutation {
    pub(crate) fn new(n: u64, seed: u64) -> Permutation {
        let bits = u64::BITS - n.saturating_sub(1).leading_zeros();
        let mut state = seed;
        Permutation {
            n,
            half_bits: bits.div_ceil(2).max(1),
            keys: std::array::from_fn(|_| {
                state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
                mix(state)
            }),
        }
    }

    pub(crate) fn apply(&self, i: u64) -> u64 {
        let mask = (1u64 << self.half_bits) - 1;
        let mut x = i;
        loop {
            let (mut left, mut right) = (x >> self.half_bits, x & mask);
            for key in self.keys {
                (left, right) = (right, left ^ (mix(right ^ key) & mask));
            }
            x = left << self.half_bits | right;
            if x < self.n {
                return x;
            }
        }
    }
}

/// The output function of splitmix64 (Steele, Lea, Flood, "Fast Splittable Pseudorandom Number Generators", 2014).
fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random_values_are_distinct_in_range_and_decided_by_the_seed() {
        for n in [1usize, 2, 3, 10, 1000, 65_537, 1 << 20] {
            let values = Tensor::random(&[n], 7).into_vec().unwrap();
            assert!(values.iter().all(|v| v.abs() < 1.0 && *v != 0.0), "n = {n}");
            let mut bits: Vec<u32> = values.iter().map(|v| v.to_bits()).collect();
            bits.sort_unstable();
            bits.dedup();
            assert_eq!(bits.len(), n);
            assert_eq!(values, Tensor::random(&[n], 7).into_vec().unwrap());
        }
        let other = Tensor::random(&[1000], 8).into_vec().unwrap();
        assert_ne!(other, Tensor::random(&[1000], 7).into_vec().unwrap());
        assert!(Tensor::random(&[0, 3], 1).is_empty());
    }

    #[test]
    fn random_values_have_no_order_left() {
        // Neighbours of a sequence without order differ by 2/3 on average.
        let values = Tensor::random(&[10_000], 3).into_vec().unwrap();
        let steps = values.windows(2).map(|w| f64::from((w[1] - w[0]).abs()));
        let mean = steps.sum::<f64>() / 9_999.0;
        assert!((mean - 2.0 / 3.0).abs() < 0.02, "mean step {mean}");
    }

    #[test]
    fn from_fn_counts_the_last_dimension_fastest() {
        let t = Tensor::from_fn(&[2, 1, 3], |i| (100 * i[0] + 10 * i[1] + i[2]) as f32);
        assert_eq!(t.as_slice().unwrap(), [0.0, 1.0, 2.0, 100.0, 101.0, 102.0]);
    }

    #[test]
    fn shape_errors_name_operation_and_both_shapes() {
        let message = |result: Result<()>| result.unwrap_err().to_string();
        assert_eq!(
            message(Tensor::from_vec(&[2, 3], vec![0.0; 5]).map(drop)),
            "making a tensor: the shape [2, 3] takes 6 values, got 5"
        );
        assert_eq!(
            message(Tensor::zeros(&[2, 3]).reshape(&[7]).map(drop)),
            "reshape: the shape [7] takes 7 values, got 6"
        );
        assert_eq!(
            message(Tensor::zeros(&[2, 3]).expect_shape("linear", &[3, 2])),
            "linear: expected the shape [3, 2], got [2, 3]"
        );
        assert_eq!(
            message(Tensor::zeros(&[2, 3]).dims4().map(drop)),
            "reading N, C, H, W: expected 4 dimensions, got shape [2, 3]"
        );
        assert_eq!(
            message(Tensor::zeros(&[2, 3]).dims::<1>("bias").map(drop)),
            "bias: expected 1 dimension, got shape [2, 3]"
        );
        assert_eq!(Tensor::zeros(&[2, 3]).dims("matmul").unwrap(), [2, 3]);
        let huge = [usize::MAX, 2];
        assert_eq!(
            message(Tensor::from_vec(&huge, vec![]).map(drop)),
            format!("making a tensor: the shape {huge:?} takes more values than 64 bits can count, got 0")
        );
        assert_eq!(
            message(Tensor::empty_on(&Device::sim(), &huge).map(drop)),
            format!("making a tensor: the shape {huge:?} has more values than 64 bits can count")
        );
    }
}
