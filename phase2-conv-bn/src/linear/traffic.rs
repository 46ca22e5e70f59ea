//! The bytes that a version moves, counted by the simulator's profiler, next to those that the problem needs.

use common::device::SimOptions;
use common::prelude::*;
use common::ptx_sim::Profile;

use super::Step;

/// Bytes that a launch, or all of a step's launches, moved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Bytes requested by lanes: each value as often as it is fetched or stored.
    pub requested: u64,
    /// Bytes of the sectors touched by their accesses: what the L1 cache and the levels below it must move. Each sector has 32
    /// bytes.
    pub sectors: u64,
    /// Bytes of the distinct sectors of each launch: what an unlimited cache would have to move from and to memory.
    pub unique: u64,
    /// Floating-point operations.
    pub flops: u64,
}

impl Traffic {
    /// Minimum bytes for y = relu(x·Wᵀ + bias): each input read once, each output written once, 4 bytes each.
    pub fn ideal(batch: usize, inputs: usize, outputs: usize) -> u64 {
        4 * (batch * inputs + outputs * inputs + outputs + batch * outputs) as u64
    }

    /// Bytes that a second pass over y \[batch, out\] adds: y is read and written once more.
    pub fn second_pass(batch: usize, outputs: usize) -> u64 {
        2 * 4 * (batch * outputs) as u64
    }

    /// Minimum bytes for the gradients of x, W and bias from `dy` and `y`: two products that each read both, one more matrix, and
    /// write their own; with `separate`, a kernel of its own reads both and writes the masked gradient, which the products read.
    pub fn gradients(batch: usize, inputs: usize, outputs: usize, separate: bool) -> u64 {
        let (y, x, weight) = (batch * outputs, batch * inputs, outputs * inputs);
        let masked = if separate { 3 * y + 2 * y } else { 4 * y };
        4 * (2 * weight + 2 * x + outputs + masked) as u64
    }

    /// Sum over several launches.
    pub fn of(profiles: &[Profile]) -> Traffic {
        let mut traffic = Traffic::default();
        for profile in profiles {
            let counters = &profile.counters;
            traffic.requested += counters.global_load_bytes + counters.global_store_bytes + counters.async_copy_bytes;
            traffic.sectors +=
                32 * (counters.global_load_sectors + counters.global_store_sectors + counters.async_copy_sectors);
            traffic.unique += profile.unique_load_bytes + profile.unique_store_bytes;
            traffic.flops += profile.flops;
        }
        traffic
    }

    /// Bytes that `step` moves for x \[batch, in\] and W \[out, in\], on its own simulator.
    ///
    /// # Errors
    /// Same as [`Step::load`], [`Error::Unsupported`] for a step that does not run on the simulator.
    pub fn measure(step: &Step, batch: usize, inputs: usize, outputs: usize) -> Result<Traffic> {
        let device = Device::sim_with(SimOptions { profile: true, ..SimOptions::default() });
        let linear = step.load(&device)?;
        let [x, weight, bias] = [&[batch, inputs][..], &[outputs, inputs], &[outputs]]
            .map(|shape| Tensor::random(shape, shape.len() as u64).to_device(&device));
        let mut y = Tensor::empty_on(&device, &[batch, outputs])?;
        linear.launch(&device.stream(), &x?, &weight?, &bias?, &mut y)?;
        let profiles = device.as_sim().map(|sim| sim.take_profiles()).unwrap_or_default();
        Ok(Traffic::of(&profiles))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_those_of_the_tensors() {
        // x 6, W 12, bias 4, y 8 values.
        assert_eq!(Traffic::ideal(2, 3, 4), 4 * 30);
        assert_eq!(Traffic::second_pass(2, 4), 4 * 16);
        // W in, dx out, x in, dW out, dbias out; dy and y twice.
        assert_eq!(Traffic::gradients(2, 3, 4, false), 4 * (12 + 6 + 6 + 12 + 4 + 32));
        assert_eq!(Traffic::gradients(2, 3, 4, true), 4 * (12 + 6 + 6 + 12 + 4 + 40));
    }
}
