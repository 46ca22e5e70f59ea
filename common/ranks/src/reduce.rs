//! Combining the values of several ranks on the host, in the order of the ranks: the same bits in every run.

use half::{bf16, f16};

use super::call::ReduceOp;
use common::device::DeviceElement;

/// A value that ranks can add and compare: f32, f64, f16, bf16, and integers of 8, 32 and 64 bits.
///
/// Sums are rounded to the type after each addition, like NCCL's; sums of integers wrap around. Of a NaN and a number, `Min` and
/// `Max` take the number, like `fminf` and `fmaxf`.
pub trait Reducible: DeviceElement + Sealed {
    /// Name in messages: `f32`.
    const NAME: &'static str;

    /// Combines two values.
    #[doc(hidden)]
    fn combine(op: ReduceOp, a: Self, b: Self) -> Self;
}

/// Only this module's types.
#[doc(hidden)]
pub trait Sealed {}

macro_rules! reducible {
    ($($type:ident: $add:expr, $min:expr, $max:expr;)+) => {
        $(
            impl Sealed for $type {}

            impl Reducible for $type {
                const NAME: &'static str = stringify!($type);

                fn combine(op: ReduceOp, a: $type, b: $type) -> $type {
                    match op {
                        ReduceOp::Sum => $add(a, b),
                        ReduceOp::Min => $min(a, b),
                        ReduceOp::Max => $max(a, b),
                    }
                }
            }
        )+

        /// Combines the values of all ranks, in their bytes; `None` for a type that is not [`Reducible`], or unequal lengths.
        pub(super) fn reduce(element: &str, op: ReduceOp, parts: &[&[u8]]) -> Option<Vec<u8>> {
            match element {
                $(stringify!($type) => reduce_as::<$type>(op, parts),)+
                _ => None,
            }
        }
    };
}

reducible! {
    f32: |a, b| a + b, f32::min, f32::max;
    f64: |a, b| a + b, f64::min, f64::max;
    f16: |a, b| a + b, f16::min, f16::max;
    bf16: |a, b| a + b, bf16::min, bf16::max;
    i8: i8::wrapping_add, Ord::min, Ord::max;
    u8: u8::wrapping_add, Ord::min, Ord::max;
    i32: i32::wrapping_add, Ord::min, Ord::max;
    u32: u32::wrapping_add, Ord::min, Ord::max;
    i64: i64::wrapping_add, Ord::min, Ord::max;
    u64: u64::wrapping_add, Ord::min, Ord::max;
}

fn reduce_as<T: Reducible>(op: ReduceOp, parts: &[&[u8]]) -> Option<Vec<u8>> {
    let (first, rest) = parts.split_first()?;
    if first.len() % size_of::<T>() != 0 || rest.iter().any(|part| part.len() != first.len()) {
        return None;
    }
    // Bytes from another process lie anywhere.
    let mut all: Vec<T> = bytemuck::pod_collect_to_vec(first);
    for part in rest {
        for (value, bytes) in all.iter_mut().zip(part.chunks_exact(size_of::<T>())) {
            *value = T::combine(op, *value, bytemuck::pod_read_unaligned(bytes));
        }
    }
    Some(bytemuck::cast_slice(&all).to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reduced<T: Reducible>(op: ReduceOp, parts: &[&[T]]) -> Vec<T> {
        let bytes: Vec<&[u8]> = parts.iter().map(|part| bytemuck::cast_slice(part)).collect();
        bytemuck::pod_collect_to_vec(&reduce(T::NAME, op, &bytes).unwrap())
    }

    #[test]
    fn sums_take_the_order_of_the_ranks_and_extremes_none() {
        // In another order the 1 would survive.
        assert_eq!(reduced(ReduceOp::Sum, &[&[1.0f32], &[1e8], &[-1e8]]), [0.0]);
        assert_eq!(reduced(ReduceOp::Sum, &[&[1e8f32], &[-1e8], &[1.0]]), [1.0]);
        assert_eq!(reduced(ReduceOp::Sum, &[&[250u8, 1], &[10, 2]]), [4, 3]);
        assert_eq!(reduced(ReduceOp::Sum, &[&[i32::MAX], &[1]]), [i32::MIN]);
        assert_eq!(reduced(ReduceOp::Min, &[&[2i8, -3], &[-2, 3]]), [-2, -3]);
        assert_eq!(
            reduced(ReduceOp::Max, &[&[f16::from_f32(2.0), f16::NAN], &[f16::from_f32(-2.0), f16::ONE]])[1],
            f16::ONE
        );
        assert!(reduced::<f32>(ReduceOp::Max, &[&[], &[]]).is_empty());
    }

    #[test]
    fn other_types_and_lengths_are_none() {
        assert_eq!(reduce("(f32, f32)", ReduceOp::Sum, &[&[0; 8]]), None);
        assert_eq!(reduce("f32", ReduceOp::Sum, &[&[0; 8], &[0; 4]]), None);
        assert_eq!(reduce("f32", ReduceOp::Sum, &[&[0; 7], &[0; 7]]), None);
        assert_eq!(reduce("f32", ReduceOp::Sum, &[]), None);
    }
}
