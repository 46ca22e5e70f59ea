//! Types of a tensor's values, and their order in memory. [`crate::tensor`] re-exports them.
//!
//! This module is below errors and devices, which both use it.

mod f8;

use std::fmt;

use half::{bf16, f16};

pub use f8::F8E4M3;

use crate::parallel;

/// A type of values: at run time an [`ElementType`].
pub trait Element: bytemuck::Pod + Send + Sync + fmt::Debug + PartialEq {
    /// The type at run time.
    const TYPE: ElementType;

    /// The value, exactly.
    fn to_f64(self) -> f64;

    /// The nearest value, ties to even; for the value of any other element type the result is rounded once. Too large values
    /// become infinity in `f32`, `f16` and `bf16`, and the largest value of their sign in the others. NaN becomes 0 in
    /// integers.
    fn from_f64(x: f64) -> Self;

    /// The slice, if it is of this type.
    #[doc(hidden)]
    fn slice(values: &HostValues) -> Option<&[Self]>;

    #[doc(hidden)]
    fn slice_mut(values: &mut HostValues) -> Option<&mut [Self]>;

    #[doc(hidden)]
    fn into_vec(values: HostValues) -> Option<Vec<Self>>;

    #[doc(hidden)]
    fn wrap(values: Vec<Self>) -> HostValues;
}

macro_rules! elements {
    ($($(#[$doc:meta])+ $variant:ident: $type:ty, $name:literal, $to:expr, $from:expr;)+) => {
        /// The type of a tensor's values.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum ElementType {
            $($(#[$doc])+ $variant,)+
        }

        impl ElementType {
            /// All of them.
            pub const ALL: &[ElementType] = &[$(ElementType::$variant),+];

            /// Bytes of one value.
            pub fn size(self) -> usize {
                match self {
                    $(ElementType::$variant => size_of::<$type>(),)+
                }
            }
        }

        impl fmt::Display for ElementType {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(match self {
                    $(ElementType::$variant => $name,)+
                })
            }
        }

        /// Values in host memory.
        #[doc(hidden)]
        #[derive(Clone, Debug)]
        pub enum HostValues {
            $($variant(Vec<$type>),)+
        }

        $(impl Element for $type {
            const TYPE: ElementType = ElementType::$variant;

            fn to_f64(self) -> f64 {
                $to(self)
            }

            fn from_f64(x: f64) -> Self {
                $from(x)
            }

            fn slice(values: &HostValues) -> Option<&[Self]> {
                if let HostValues::$variant(values) = values { Some(values) } else { None }
            }

            fn slice_mut(values: &mut HostValues) -> Option<&mut [Self]> {
                if let HostValues::$variant(values) = values { Some(values) } else { None }
            }

            fn into_vec(values: HostValues) -> Option<Vec<Self>> {
                if let HostValues::$variant(values) = values { Some(values) } else { None }
            }

            fn wrap(values: Vec<Self>) -> HostValues {
                HostValues::$variant(values)
            }
        })+
    };
}

elements! {
    /// IEEE binary32.
    F32: f32, "f32", f64::from, |x| x as f32;
    /// IEEE binary16.
    F16: f16, "f16", |x: f16| f64::from(x.to_f32()), |x| f16::from_f32(to_odd(x));
    /// The upper half of an `f32`.
    BF16: bf16, "bf16", |x: bf16| f64::from(x.to_f32()), |x| bf16::from_f32(to_odd(x));
    /// Eight bits, 4 of them exponent: [`F8E4M3`].
    F8E4M3: F8E4M3, "f8e4m3", F8E4M3::to_f64, F8E4M3::from_f64;
    /// Signed 8-bit integers.
    I8: i8, "i8", f64::from, |x: f64| x.round_ties_even() as i8;
    /// Signed 32-bit integers.
    I32: i32, "i32", f64::from, |x: f64| x.round_ties_even() as i32;
}

/// `x` as f32, with the last bit set if it lies between two of them: so rounding the result to fewer bits, which looks at that
/// bit, gives the same as rounding `x` at once. (`half` drops the lower half of an f64.)
fn to_odd(x: f64) -> f32 {
    let nearest = x as f32;
    if f64::from(nearest) == x || x.is_nan() {
        return nearest;
    }
    let beyond = f64::from(nearest).abs() > x.abs();
    f32::from_bits((nearest.to_bits() - u32::from(beyond)) | 1)
}

/// Expands to `$body` with the type `$T` of an [`ElementType`].
macro_rules! with_element {
    ($element:expr, $T:ident => $body:expr) => {
        with_element!(@ $element, $T => $body; F32 f32, F16 half::f16, BF16 half::bf16, F8E4M3 F8E4M3, I8 i8, I32 i32)
    };
    (@ $element:expr, $T:ident => $body:expr; $($variant:ident $type:ty),+) => {
        match $element {
            $(ElementType::$variant => {
                type $T = $type;
                $body
            })+
        }
    };
}
pub(crate) use with_element;

/// Expands to `$body` with the vector `$values` in its own type.
macro_rules! with_values {
    ($host:expr, $values:ident => $body:expr) => {
        match $host {
            HostValues::F32($values) => $body,
            HostValues::F16($values) => $body,
            HostValues::BF16($values) => $body,
            HostValues::F8E4M3($values) => $body,
            HostValues::I8($values) => $body,
            HostValues::I32($values) => $body,
        }
    };
}
pub(crate) use with_values;

impl HostValues {
    pub(crate) fn element(&self) -> ElementType {
        fn of<T: Element>(_: &[T]) -> ElementType {
            T::TYPE
        }
        with_values!(self, values => of(values))
    }

    /// The same values in another type, rounded like [`Element::from_f64`].
    pub(crate) fn convert(&self, element: ElementType) -> HostValues {
        /// Values that one thread converts at a time.
        const PART: usize = 1 << 14;
        // The threads' code is built for each result, not for each pair.
        fn in_parts<U: Element>(len: usize, convert: &(dyn Fn(usize, &mut [U]) + Sync)) -> HostValues {
            let mut converted = vec![U::zeroed(); len];
            parallel::change_chunks(&mut converted, PART, &|part, to| convert(part * PART, to));
            U::wrap(converted)
        }
        fn convert<T: Element, U: Element>(values: &[T]) -> HostValues {
            in_parts(values.len(), &|start, to: &mut [U]| {
                to.iter_mut().zip(&values[start..]).for_each(|(to, from)| *to = U::from_f64(from.to_f64()));
            })
        }
        if element == self.element() {
            return self.clone();
        }
        with_values!(self, values => with_element!(element, T => convert::<_, T>(values)))
    }

    /// Each matrix \[rows, columns\] transposed.
    pub(crate) fn transpose_each(&self, rows: usize, columns: usize) -> HostValues {
        fn transpose<T: Element>(values: &[T], rows: usize, columns: usize) -> HostValues {
            let mut transposed = vec![T::zeroed(); values.len()];
            parallel::change_chunks(&mut transposed, rows, &|column, to| {
                let matrix = &values[column / columns * rows * columns..];
                let from = matrix[column % columns..].iter().step_by(columns);
                to.iter_mut().zip(from).for_each(|(to, from)| *to = *from);
            });
            T::wrap(transposed)
        }
        with_values!(self, values => transpose(values, rows, columns))
    }
}

/// The order of the values of an image tensor \[N, C, H, W\] in memory. Its shape is written in this order whatever the format;
/// PyTorch calls the formats `contiguous_format` and `channels_last`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum MemoryFormat {
    /// Row-major: a channel's pixels side by side. The only one for tensors without exactly 4 dimensions.
    #[default]
    Nchw,
    /// A pixel's channels side by side.
    Nhwc,
}

impl fmt::Display for MemoryFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            MemoryFormat::Nchw => "NCHW",
            MemoryFormat::Nhwc => "NHWC",
        })
    }
}
