//! A model over a number of devices, checked and measured.

use bench::timing::Bench;
use common::check::scale;
use common::prelude::*;
use phase3_all_layers::nn::graph::Graph;

use super::ranks::{Ranks, Sums};
use crate::models::Arithmetic;

/// One pass of a model over several devices.
#[derive(Clone, Debug)]
pub struct Measured {
    /// Number of them.
    pub devices: usize,
    /// Number per device.
    pub launches: usize,
    /// Number of launches that are sums over all devices.
    pub sums: usize,
    /// Bytes that each device receives from the others.
    pub link_bytes: u64,
    /// Time from the inputs on the first device to the end of all ranks, on GPUs.
    pub ms: Option<f64>,
    /// The same without the sums, so that no rank waits for another: its results are wrong.
    pub ms_without_sums: Option<f64>,
    /// Largest difference from the expected output, relative to the largest value.
    pub difference: f64,
    /// Maximum of the difference.
    pub bound: f64,
    /// Whether all ranks have the same bits.
    pub alike: bool,
}

impl Measured {
    /// Errors in the results, if any.
    pub fn wrong(&self) -> Option<String> {
        // NaN is no difference that is allowed.
        let near = self.difference <= self.bound;
        match (near, self.alike) {
            (true, true) => None,
            (false, _) => Some(format!(
                "{} devices: the results are off by {:.2e} of the largest, {:.2e} is allowed",
                self.devices, self.difference, self.bound
            )),
            (true, false) => Some(format!("{} devices: the ranks' results differ", self.devices)),
        }
    }
}

/// Runs a recorded model on all devices of a group, compares its first output with `expected`, and times it on GPUs.
///
/// # Errors
/// Same as [`Ranks::new`] and [`Ranks::infer`].
pub fn measure(
    group: &DeviceGroup,
    arithmetic: Arithmetic,
    graph: &Graph,
    inputs: &[&Tensor],
    expected: &Tensor,
) -> Result<Measured> {
    let shapes: Vec<&[usize]> = inputs.iter().map(|input| input.shape()).collect();
    let bench = |ranks: &mut Ranks| {
        if group.is_sim() {
            return Ok(None);
        }
        let stream = ranks.stream().clone();
        Bench::default().measure(&stream, || ranks.queue()).map(|timing| timing.median_ms())
    };
    let mut ranks = Ranks::new(group, arithmetic, graph, &shapes, Sums::Chosen)?;
    let found = ranks.infer(inputs)?;
    let mut alike = true;
    for rank in 1..group.len() {
        alike &= ranks.output(rank)?.as_slice()? == found.as_slice()?;
    }
    let (found, expected) = (found.as_slice()?, expected.as_slice()?);
    let differences = found.iter().zip(expected).map(|(a, b)| f64::from((a - b).abs()));
    // A NaN stays: `max` would drop it.
    let largest =
        differences.fold(0.0, |largest: f64, difference| if difference <= largest { largest } else { difference });
    let ms = bench(&mut ranks)?;
    let link_bytes = ranks.link_bytes();
    let plan = ranks.first_plan();
    let (launches, sums, bound) = (plan.launches().len(), plan.sums().count(), plan.error_bound());
    let ms_without_sums = if ms.is_some() && sums > 0 {
        // Two of them may not fit.
        drop(ranks);
        let mut without = Ranks::new(group, arithmetic, graph, &shapes, Sums::LeftOut)?;
        without.infer(inputs)?;
        bench(&mut without)?
    } else {
        None
    };
    Ok(Measured {
        devices: group.len(),
        launches,
        sums,
        link_bytes,
        ms,
        ms_without_sums,
        difference: largest / scale(expected),
        bound,
        alike,
    })
}
