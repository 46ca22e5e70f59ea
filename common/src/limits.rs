//! Counts that fit a kernel's 32 bits.

use crate::{Error, Result};

/// `value` as the 32-bit integer in which the kernels count; `None` stands for a product that overflows.
///
/// # Errors
/// [`Error::Shape`] with `operation`, and `what` as the name of the value, if it does not fit.
pub fn fits_i32(operation: &str, what: &str, value: Option<usize>) -> Result<i32> {
    value.and_then(|value| i32::try_from(value).ok()).ok_or_else(|| {
        let value = value.map_or("beyond 64 bits".to_owned(), |value| value.to_string());
        Error::shape(operation, format!("{what} is {value}, and the kernel counts in 32 bits (up to {})", i32::MAX))
    })
}
