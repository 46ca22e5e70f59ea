//! What kernels can count.

use common::{Error, Result};

/// `value` as the 32-bit integer that the kernels count in.
pub(crate) fn fits_i32(operation: &'static str, what: &str, value: Option<usize>) -> Result<i32> {
    value.and_then(|value| i32::try_from(value).ok()).ok_or_else(|| Error::Shape {
        operation: operation.to_owned(),
        detail: match value {
            Some(value) => format!("{what} is {value}, and the kernel counts in 32 bits (up to {})", i32::MAX),
            None => format!("{what} is beyond 64 bits, and the kernel counts in 32 (up to {})", i32::MAX),
        },
    })
}
