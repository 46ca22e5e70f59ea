//! Checks for every model.
#![allow(dead_code)] // No test needs all of it.

use common::check::{Tolerance, assert_close};
use common::prelude::*;
use phase3_all_layers::backends::{Planned, Unfused};
use phase3_all_layers::nn::Module;

/// Fails unless `values` have the expected shape and lie within 1e-5 of its largest magnitude (of 1 below that).
#[track_caller]
pub(crate) fn assert_last_layer(values: &Tensor, expected: &Tensor) {
    assert_eq!(values.shape(), expected.shape());
    let expected = expected.as_slice().unwrap();
    assert_close(values.as_slice().unwrap(), expected, Tolerance::of_scale(1e-5, expected));
}

/// Fails if a graph of the pass gives other bits than the pass itself, also on new input, or allocates anything.
pub(crate) fn assert_captured(
    planned: &mut Planned<'_, impl Module<Unfused>>,
    stream: &Stream,
    inputs: &[Tensor],
) -> Result<()> {
    let device = stream.device();
    let launches = || device.counts().map(|counts| counts.launches);
    let before = launches();
    let expected = inputs.iter().map(|x| planned.infer(stream, x)).collect::<Result<Vec<_>>>()?;
    let plain = launches().zip(before).map(|(after, before)| (after - before) / inputs.len() as u64);
    assert!(expected.windows(2).all(|pair| pair[0].as_slice().unwrap() != pair[1].as_slice().unwrap()));
    let mut captured = planned.capture(stream)?;
    let kernels = captured.graph().kernels() as u64;
    assert!(kernels > 0 && plain.is_none_or(|plain| plain == kernels), "{kernels} kernels for {plain:?} launches");
    assert_eq!(captured.graph().depth(), captured.graph().nodes().len(), "one stream is one chain");
    let before = device.memory();
    device.reset_peak_memory();
    for (x, expected) in inputs.iter().zip(&expected) {
        assert_eq!(captured.infer(stream, x)?.as_slice()?, expected.as_slice()?);
    }
    let after = device.memory();
    assert_eq!((after.peak, after.allocations), (before.in_use, before.allocations));
    Ok(())
}

/// Fails if the second pass of a plan allocates anything, or gives other bits than the first.
pub(crate) fn assert_no_allocation(
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
