//! [`Tensor`]: values with a shape, on the host or on a device.
//!
//! The type of the values and, for images, their order in memory are known at run time, as in PyTorch and candle. Most of the
//! course computes in f32 and NCHW, the defaults of the methods without a type ([`Tensor::from_vec`], [`Tensor::as_slice`],
//! [`Tensor::buffer`] …); those with one ([`Tensor::of`], [`Tensor::values`], [`Tensor::buffer_of`] …) take any. A reader of
//! memory states the type and format it expects, and gets an error if the tensor has another.

#[cfg(feature = "cuda")]
use cudarc::driver::CudaSlice;

use crate::device::{Buffer, Device, DeviceElement, RawBuffer, Stream};
use crate::element::{HostValues, with_element, with_values};
use crate::error::{Error, Result, ShapeError};

pub use crate::element::{Element, ElementType, F8E4M3, MemoryFormat};
pub use half::{bf16, f16};

/// Values in row-major order: the last dimension is the one whose neighbours lie side by side. An image \[N, C, H, W\] may also
/// lie in memory as [`MemoryFormat::Nhwc`].
#[derive(Debug)]
pub struct Tensor {
    shape: Vec<usize>,
    format: MemoryFormat,
    storage: Storage,
}

#[derive(Debug)]
enum Storage {
    Host(HostValues),
    Device(RawBuffer, ElementType),
    Nowhere(ElementType),
}

impl Tensor {
    /// `values` in the given shape, on the host.
    ///
    /// # Errors
    /// [`Error::Shape`] if their number is not the product of the dimensions.
    pub fn from_vec(shape: &[usize], values: Vec<f32>) -> Result<Tensor> {
        Tensor::of(shape, values)
    }

    /// [`Tensor::from_vec`] for values of any element type.
    ///
    /// # Errors
    /// Errors of [`Tensor::from_vec`].
    pub fn of<T: Element>(shape: &[usize], values: Vec<T>) -> Result<Tensor> {
        expect_values("making a tensor", shape, values.len())?;
        Ok(Tensor::on_host(shape, values))
    }

    fn on_host<T: Element>(shape: &[usize], values: Vec<T>) -> Tensor {
        Tensor { shape: shape.to_vec(), format: MemoryFormat::Nchw, storage: Storage::Host(T::wrap(values)) }
    }

    /// The same value everywhere, on the host.
    pub fn full(shape: &[usize], value: f32) -> Tensor {
        Tensor::on_host(shape, vec![value; shape.iter().product()])
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
        Tensor::on_host::<f32>(shape, values)
    }

    /// Values in (−1, 1), on the host: evenly spaced, in an order chosen by the seed, and none zero. No two are equal in a
    /// tensor of up to 2²³ values, so that a kernel that reads the wrong one is caught.
    pub fn random(shape: &[usize], seed: u64) -> Tensor {
        let n: usize = shape.iter().product();
        let order = Permutation::new(n as u64, seed);
        let values = crate::parallel::collect(n, &|i| {
            // Odd numerators over 2n: the centres of n equal steps. An odd n would have one at zero; half a step moves it.
            let half = if n.is_multiple_of(2) { 1.0 } else { 1.5 };
            let centre = 2.0 * order.apply(i as u64) as f64 + half;
            (centre / n as f64 - 1.0) as f32
        });
        Tensor::on_host::<f32>(shape, values)
    }

    /// A tensor on `device` for a kernel to fill; until then it holds NaN.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`], or errors of the driver.
    pub fn empty_on(device: &Device, shape: &[usize]) -> Result<Tensor> {
        Tensor::empty_of(device, shape, ElementType::F32, MemoryFormat::Nchw)
    }

    /// [`Tensor::empty_on`] for any element type and format; integers are −1 until they are written.
    ///
    /// # Errors
    /// Errors of [`Tensor::empty_on`]; [`Error::Shape`] if the format is NHWC and there are not exactly 4 dimensions.
    pub fn empty_of(device: &Device, shape: &[usize], element: ElementType, format: MemoryFormat) -> Result<Tensor> {
        check_format(shape, format)?;
        let len = checked_len("making a tensor", shape)?;
        let stream = device.stream();
        let memory = with_element!(element, T => stream.alloc_poisoned::<T>(len)?.into_raw());
        Ok(Tensor { shape: shape.to_vec(), format, storage: Storage::Device(memory, element) })
    }

    /// A shape without values, for planning memory before any is allocated; operations that need values refuse it.
    pub fn shape_only(shape: &[usize]) -> Tensor {
        let storage = Storage::Nowhere(ElementType::F32);
        Tensor { shape: shape.to_vec(), format: MemoryFormat::Nchw, storage }
    }

    /// [`Tensor::shape_only`] for any element type and format.
    ///
    /// # Errors
    /// [`Error::Shape`] if the format is NHWC and there are not exactly 4 dimensions.
    pub fn shape_only_of(shape: &[usize], element: ElementType, format: MemoryFormat) -> Result<Tensor> {
        check_format(shape, format)?;
        Ok(Tensor { shape: shape.to_vec(), format, storage: Storage::Nowhere(element) })
    }

    /// The dimensions; for an image N, C, H, W, whatever its format.
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

    /// The type of the values.
    pub fn element_type(&self) -> ElementType {
        match &self.storage {
            Storage::Host(values) => values.element(),
            Storage::Device(_, element) | Storage::Nowhere(element) => *element,
        }
    }

    /// The order of the values in memory.
    pub fn format(&self) -> MemoryFormat {
        self.format
    }

    /// Size of the values in bytes.
    pub fn num_bytes(&self) -> usize {
        self.len() * self.element_type().size()
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
    /// [`Error::Shape`] if the number of values differs, [`Error::MemoryFormat`] if the format is NHWC, whose order has no
    /// meaning for another shape; but images of one pixel are rows of their channels, and can be other rows.
    pub fn reshape(self, shape: &[usize]) -> Result<Tensor> {
        expect_values("reshape", shape, self.len())?;
        let rows = |shape: &[usize]| matches!(shape, [_, _, 1, 1]);
        if !(rows(&self.shape) && rows(shape)) {
            self.expect_format(MemoryFormat::Nchw)?;
        }
        Ok(Tensor { shape: shape.to_vec(), ..self })
    }

    /// The memory of a tensor on a device, for another shape that fits into it. The values are unspecified: NaN, or a kernel's
    /// old ones.
    ///
    /// # Errors
    /// [`Error::Shape`] if there is not enough, [`Error::Invalid`] if the tensor is not on a device.
    pub fn recycle(self, shape: &[usize]) -> Result<Tensor> {
        let (element, format) = (self.element_type(), self.format);
        self.recycle_of(shape, element, format)
    }

    /// [`Tensor::recycle`] for values of any element type and format that fit into the memory.
    ///
    /// # Errors
    /// Same as [`Tensor::recycle`].
    pub fn recycle_of(self, shape: &[usize], element: ElementType, format: MemoryFormat) -> Result<Tensor> {
        check_format(shape, format)?;
        let bytes = checked_len("recycling", shape)?.checked_mul(element.size());
        let bytes = bytes.ok_or_else(|| Error::shape("recycling", ShapeError::Overflow(shape.to_vec())))?;
        match self.storage {
            Storage::Device(mut memory, _) => {
                memory.set_bytes(bytes)?;
                Ok(Tensor { shape: shape.to_vec(), format, storage: Storage::Device(memory, element) })
            }
            Storage::Host(_) => Err(on_host(&self.shape)),
            Storage::Nowhere(_) => Err(nowhere(&self.shape)),
        }
    }

    /// A tensor on the host with the same values in another type, each rounded once, to the nearest, ties to even;
    /// see [`Element::from_f64`] for values beyond its range.
    ///
    /// # Errors
    /// [`Error::Invalid`] if the values are not on the host.
    pub fn to_type(&self, element: ElementType) -> Result<Tensor> {
        let storage = Storage::Host(self.host()?.convert(element));
        Ok(Tensor { shape: self.shape.clone(), format: self.format, storage })
    }

    /// The values in row-major order of the format, each exactly; copied from the device if they are there.
    ///
    /// # Errors
    /// Errors of earlier work on the device.
    pub fn to_f64(&self) -> Result<Vec<f64>> {
        fn widen<T: Element>(values: &[T]) -> Vec<f64> {
            values.iter().map(|&value| value.to_f64()).collect()
        }
        let copied = self.to_host()?;
        Ok(with_values!(copied.host()?, values => widen(values)))
    }

    /// Queues a fill of all values of a tensor on the device with NaN, integers −1.
    ///
    /// # Errors
    /// [`Error::Invalid`] if it is on the host; errors of [`Stream::poison`].
    pub fn poison(&mut self, stream: &Stream) -> Result<()> {
        let format = self.format;
        with_element!(self.element_type(), T => stream.poison(self.buffer_of_mut::<T>(format)?))
    }

    /// A tensor on the host with the same values in another order in memory.
    ///
    /// # Errors
    /// [`Error::Invalid`] if the values are not on the host, [`Error::Shape`] if there are not 4 dimensions.
    pub fn to_format(&self, format: MemoryFormat) -> Result<Tensor> {
        let [_, channels, height, width] = self.dims("changing the memory format")?;
        let values = self.host()?;
        let pixels = height * width;
        let values = match (self.format, format) {
            (MemoryFormat::Nchw, MemoryFormat::Nhwc) => values.transpose_each(channels, pixels),
            (MemoryFormat::Nhwc, MemoryFormat::Nchw) => values.transpose_each(pixels, channels),
            _ => values.clone(),
        };
        Ok(Tensor { shape: self.shape.clone(), format, storage: Storage::Host(values) })
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

    /// Device of the values; `None` for the host.
    pub fn device(&self) -> Option<&Device> {
        match &self.storage {
            Storage::Device(memory, _) => Some(memory.device()),
            Storage::Host(_) | Storage::Nowhere(_) => None,
        }
    }

    /// A copy on `device`, from the host or any device.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`], or errors of the driver.
    pub fn to_device(&self, device: &Device) -> Result<Tensor> {
        fn copy<T: DeviceElement>(from: &Buffer<T>, to: &Stream) -> Result<Buffer<T>> {
            if from.device() == to.device() {
                to.clone_dtod(from)
            } else {
                to.clone_htod(&from.device().stream().clone_dtoh(from)?)
            }
        }
        let stream = device.stream();
        let memory = match &self.storage {
            Storage::Host(values) => with_values!(values, values => stream.clone_htod(values)?.into_raw()),
            Storage::Device(memory, element) => {
                with_element!(*element, T => copy(Buffer::<T>::of_raw(memory), &stream)?.into_raw())
            }
            Storage::Nowhere(_) => return Err(nowhere(&self.shape)),
        };
        let storage = Storage::Device(memory, self.element_type());
        Ok(Tensor { shape: self.shape.clone(), format: self.format, storage })
    }

    /// A copy on the host, complete when this returns.
    ///
    /// # Errors
    /// Errors of earlier work on the device.
    pub fn to_host(&self) -> Result<Tensor> {
        fn copy<T: Element>(memory: &RawBuffer) -> Result<HostValues> {
            Ok(T::wrap(memory.device().stream().clone_dtoh(Buffer::<T>::of_raw(memory))?))
        }
        let values = match &self.storage {
            Storage::Host(values) => values.clone(),
            Storage::Device(memory, element) => with_element!(*element, T => copy::<T>(memory)?),
            Storage::Nowhere(_) => return Err(nowhere(&self.shape)),
        };
        Ok(Tensor { shape: self.shape.clone(), format: self.format, storage: Storage::Host(values) })
    }

    /// Queues a copy of the values to `to`, of the same shape, element type and format; both are on the device of `stream`, or one of
    /// them on another of its host, see [`Stream::memcpy_peer`].
    ///
    /// # Errors
    /// [`Error::Shape`], [`Error::ElementType`], [`Error::MemoryFormat`], [`Error::WrongDevice`]; [`Error::Invalid`] if one of them
    /// is on the host.
    pub fn copy_to(&self, stream: &Stream, to: &mut Tensor) -> Result<()> {
        to.expect_shape("copying a tensor", &self.shape)?;
        let format = self.format;
        with_element!(self.element_type(), T => {
            let (from, to) = (self.buffer_of::<T>(format)?, to.buffer_of_mut::<T>(format)?);
            if from.device() == to.device() { stream.memcpy_dtod(from, to) } else { stream.memcpy_peer(from, to) }
        })
    }

    /// The f32 values of a tensor on the host, in row-major order.
    ///
    /// # Errors
    /// Same as [`Tensor::values`].
    pub fn as_slice(&self) -> Result<&[f32]> {
        self.values(MemoryFormat::Nchw)
    }

    /// The f32 values of a tensor on the host, in row-major order, for writing.
    ///
    /// # Errors
    /// Same as [`Tensor::values`].
    pub fn as_mut_slice(&mut self) -> Result<&mut [f32]> {
        self.values_mut(MemoryFormat::Nchw)
    }

    /// The f32 values in row-major order, copied from the device if they are there.
    ///
    /// # Errors
    /// Same as [`Tensor::into_values`].
    pub fn into_vec(self) -> Result<Vec<f32>> {
        self.into_values(MemoryFormat::Nchw)
    }

    /// The f32 device memory of a tensor in row-major order.
    ///
    /// # Errors
    /// Same as [`Tensor::buffer_of`].
    pub fn buffer(&self) -> Result<&Buffer<f32>> {
        self.buffer_of(MemoryFormat::Nchw)
    }

    /// The f32 device memory of a tensor in row-major order, for writing.
    ///
    /// # Errors
    /// Same as [`Tensor::buffer_of`].
    pub fn buffer_mut(&mut self) -> Result<&mut Buffer<f32>> {
        self.buffer_of_mut(MemoryFormat::Nchw)
    }

    /// The values of a tensor on the host, expected to be of type `T` and in this format.
    ///
    /// # Errors
    /// [`Error::ElementType`], [`Error::MemoryFormat`]; [`Error::Invalid`] if they are on a device: copying them is for the
    /// caller to decide.
    pub fn values<T: Element>(&self, format: MemoryFormat) -> Result<&[T]> {
        self.expect::<T>(format)?;
        T::slice(self.host()?).ok_or_else(|| self.unexpected::<T>())
    }

    /// [`Tensor::values`], for writing.
    ///
    /// # Errors
    /// Same as [`Tensor::values`].
    pub fn values_mut<T: Element>(&mut self, format: MemoryFormat) -> Result<&mut [T]> {
        self.expect::<T>(format)?;
        let unexpected = self.unexpected::<T>();
        match &mut self.storage {
            Storage::Host(values) => T::slice_mut(values).ok_or(unexpected),
            Storage::Device(memory, _) => Err(on_device(&self.shape, memory.device())),
            Storage::Nowhere(_) => Err(nowhere(&self.shape)),
        }
    }

    /// The values, expected to be of type `T` and in this format; copied from the device if they are there.
    ///
    /// # Errors
    /// [`Error::ElementType`], [`Error::MemoryFormat`], or errors of earlier work on the device.
    pub fn into_values<T: Element>(self, format: MemoryFormat) -> Result<Vec<T>> {
        self.expect::<T>(format)?;
        let unexpected = self.unexpected::<T>();
        match self.storage {
            Storage::Host(values) => T::into_vec(values).ok_or(unexpected),
            Storage::Device(memory, _) => memory.device().stream().clone_dtoh(Buffer::<T>::of_raw(&memory)),
            Storage::Nowhere(_) => Err(nowhere(&self.shape)),
        }
    }

    /// The device memory of a tensor, expected to hold values of type `T` in this format.
    ///
    /// # Errors
    /// [`Error::ElementType`], [`Error::MemoryFormat`]; [`Error::Invalid`] if it is on the host.
    pub fn buffer_of<T: Element>(&self, format: MemoryFormat) -> Result<&Buffer<T>> {
        self.expect::<T>(format)?;
        match &self.storage {
            Storage::Device(memory, _) => Ok(Buffer::of_raw(memory)),
            Storage::Host(_) => Err(on_host(&self.shape)),
            Storage::Nowhere(_) => Err(nowhere(&self.shape)),
        }
    }

    /// [`Tensor::buffer_of`], for writing.
    ///
    /// # Errors
    /// Same as [`Tensor::buffer_of`].
    pub fn buffer_of_mut<T: Element>(&mut self, format: MemoryFormat) -> Result<&mut Buffer<T>> {
        self.expect::<T>(format)?;
        match &mut self.storage {
            Storage::Device(memory, _) => Ok(Buffer::of_raw_mut(memory)),
            Storage::Host(_) => Err(on_host(&self.shape)),
            Storage::Nowhere(_) => Err(nowhere(&self.shape)),
        }
    }

    /// The bytes on the device of `stream` as cudarc holds them, for its bindings of libraries, whatever their type is.
    ///
    /// # Errors
    /// [`Error::Invalid`] if they are not in the memory of a GPU; [`Error::WrongDevice`] if it is another one.
    #[cfg(feature = "cuda")]
    pub fn as_cuda(&self, stream: &Stream) -> Result<&CudaSlice<u8>> {
        with_element!(self.element_type(), T => {
            let buffer = self.buffer_of::<T>(self.format)?;
            stream.expect_own("a library call", buffer)?;
            buffer.as_cuda().ok_or_else(|| Error::Invalid(format!("{buffer:?} is not in the memory of a GPU")))
        })
    }

    /// [`Tensor::as_cuda`], for writing.
    ///
    /// # Errors
    /// Same as [`Tensor::as_cuda`].
    #[cfg(feature = "cuda")]
    pub fn as_cuda_mut(&mut self, stream: &Stream) -> Result<&mut CudaSlice<u8>> {
        let format = self.format;
        with_element!(self.element_type(), T => {
            let buffer = self.buffer_of_mut::<T>(format)?;
            stream.expect_own("a library call", &*buffer)?;
            buffer.as_cuda_mut().ok_or_else(|| Error::Invalid("the tensor is not in the memory of a GPU".to_owned()))
        })
    }

    /// Check of every access to memory: the type and the format have to be those that the caller expects.
    fn expect<T: Element>(&self, format: MemoryFormat) -> Result<()> {
        if self.element_type() != T::TYPE { Err(self.unexpected::<T>()) } else { self.expect_format(format) }
    }

    fn expect_format(&self, expected: MemoryFormat) -> Result<()> {
        if self.format == expected {
            return Ok(());
        }
        Err(Error::MemoryFormat { shape: self.shape.clone(), expected, got: self.format })
    }

    fn unexpected<T: Element>(&self) -> Error {
        Error::ElementType { shape: self.shape.clone(), expected: T::TYPE, got: self.element_type() }
    }

    fn host(&self) -> Result<&HostValues> {
        match &self.storage {
            Storage::Host(values) => Ok(values),
            Storage::Device(memory, _) => Err(on_device(&self.shape, memory.device())),
            Storage::Nowhere(_) => Err(nowhere(&self.shape)),
        }
    }
}

fn on_device(shape: &[usize], device: &Device) -> Error {
    Error::Invalid(format!("the tensor {shape:?} is on {}; copy it with to_host() first", device.short_name()))
}

fn on_host(shape: &[usize]) -> Error {
    Error::Invalid(format!("the tensor {shape:?} is on the host; copy it with to_device() first"))
}

fn nowhere(shape: &[usize]) -> Error {
    Error::Invalid(format!("the tensor {shape:?} is a shape without values"))
}

/// Fails if the format is NHWC and there are not exactly 4 dimensions.
fn check_format(shape: &[usize], format: MemoryFormat) -> Result<()> {
    if format == MemoryFormat::Nchw || shape.len() == 4 {
        return Ok(());
    }
    Err(Error::shape("a tensor in NHWC", ShapeError::Rank { expected: 4, got: shape.to_vec() }))
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
pub struct Permutation {
    n: u64,
    half_bits: u32,
    keys: [u64; 4],
}

impl Permutation {
    /// The permutation of [0, `n`) that this seed stands for.
    pub fn new(n: u64, seed: u64) -> Permutation {
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

    /// The place of `i`, which is below `n`.
    pub fn apply(&self, i: u64) -> u64 {
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
