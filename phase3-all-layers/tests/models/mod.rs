//! What every model is checked for.
#![allow(dead_code)] // No test needs all of it.

use common::check::{Tolerance, assert_close};
use common::prelude::*;
use phase3_all_layers::backends::{Planned, Unfused};
use phase3_all_layers::nn::Module;

/// Fails unless `values` have the expected shape and lie within 1e-5 of its largest magnitude (of 1 below that).
#[track_caller]
pub fn assert_last_layer(values: &Tensor, expected: &Tensor) {
    assert_eq!(values.shape(), expected.shape());
    let expected = expected.as_slice().unwrap();
    assert_close(values.as_slice().unwrap(), expected, Tolerance::of_scale(1e-5, expected));
}

/// Fails if the second pass of a plan allocates anything, or gives other bits than the first.
pub fn assert_no_allocation(
    planned: &mut Planned<'_, impl Module<Unfused>>,
    stream: &Stream,
    x: &Tensor,
) -> Result<()> {
    let device = stream.device();
    let first = planned.infer(stream, x)?.into_vec()?;
    let before = device.memory();
    device.reset_peak_memory();
    let second = planned.infer(stream, x)?.into_vec()?;
    assert_eq!(first, second);
    let after = device.memory();
    assert_eq!((after.peak, after.allocations), (before.in_use, before.allocations));
    Ok(())
}
