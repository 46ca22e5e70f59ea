//! Data parallelism: every device has the whole model, and batches go to whichever is next.
//!
//! A device has places where a batch waits, travels and is computed, each with a stream of its own. With two of them one batch is computed
//! while the next is copied in and the one before copied out. The host fills a place again when its results have been taken, so the
//! batches never wait for each other, and the devices share nothing but the host's memory.

use common::prelude::*;

use super::feed::Feed;
use crate::models::plan::Plan;
use crate::models::runner::Runner;

/// A batch's buffers on a device for waiting, transfer and computation.
#[derive(Debug)]
struct Place<T: Feed> {
    stream: Stream,
    runner: Runner,
    inputs: Vec<(PinnedBuffer<T>, T::Way)>,
    output: PinnedBuffer<f32>,
    /// The batch in flight.
    batch: Option<usize>,
}

impl<T: Feed> Place<T> {
    fn new(device: &Device, plan: Plan) -> Result<Self> {
        let [output] = plan.outputs() else {
            return Err(Error::Invalid(format!("a model that is replicated has {} outputs", plan.outputs().len())));
        };
        let input = |shape: &[usize]| Ok((device.alloc_pinned(shape.iter().product())?, T::way(device, shape)?));
        let inputs = plan.input_shapes().map(input).collect::<Result<_>>()?;
        let output = device.alloc_pinned(output.shape().iter().product())?;
        Ok(Place { stream: device.new_stream()?, runner: Runner::new(device, plan)?, inputs, output, batch: None })
    }

    // ANCHOR: queue
    /// Queues the copies in, the pass, and the copy out.
    fn queue(&mut self) -> Result<()> {
        for (number, (input, way)) in self.inputs.iter_mut().enumerate() {
            T::copy(way, &self.stream, input, self.runner.input_mut(number)?)?;
        }
        self.runner.queue(&self.stream)?;
        let output = self.runner.outputs().next().ok_or_else(|| Error::Invalid("a pass has no output".to_owned()))?;
        self.stream.memcpy_dtoh(output.buffer()?, &mut self.output)
    }
    // ANCHOR_END: queue

    /// Waits for the batch in flight, and hands its results over.
    fn finish(&mut self, take: &mut impl FnMut(usize, &[f32]) -> Result<()>) -> Result<()> {
        match self.batch.take() {
            Some(batch) => take(batch, self.output.as_slice()?),
            None => Ok(()),
        }
    }
}

/// A model on each device of a group.
#[derive(Debug)]
pub struct Replicas<T: Feed = f32> {
    /// One place of each device in turn, then the next place of each.
    places: Vec<Place<T>>,
    devices: usize,
    /// Number of devices in use.
    used: usize,
}

impl<T: Feed> Replicas<T> {
    /// `places` copies of a model per device, each with a plan from `plan`: 2 where copies between host and device take a large
    /// part of the time of a pass.
    ///
    /// # Errors
    /// Errors of `plan`; same as [`Runner::new`]; [`Error::Invalid`] if the model has several outputs.
    pub fn new(group: &DeviceGroup, places: usize, mut plan: impl FnMut(&Device) -> Result<Plan>) -> Result<Self> {
        let devices = (0..places.max(1)).flat_map(|_| group.devices());
        let mut places = devices.map(|device| Place::new(device, plan(device)?)).collect::<Result<Vec<_>>>()?;
        // What the first pass loads and records is no part of the first batch.
        for place in &mut places {
            place.queue()?;
            place.stream.synchronize()?;
        }
        Ok(Replicas { places, devices: group.len(), used: group.len() })
    }

    /// Limits later runs to the first `devices`.
    pub fn limit(&mut self, devices: usize) {
        self.used = devices.clamp(1, self.devices);
    }

    // ANCHOR: run
    /// Runs `batches`: `fill` writes the inputs of each, in the format of [`Feed`], and `take` gets its results, in the order of
    /// the batches.
    ///
    /// # Errors
    /// The first of `fill`, `take` or a device.
    pub fn run(
        &mut self,
        batches: usize,
        mut fill: impl FnMut(usize, &mut [&mut PinnedBuffer<T>]) -> Result<()>,
        mut take: impl FnMut(usize, &[f32]) -> Result<()>,
    ) -> Result<()> {
        let (devices, used) = (self.devices, self.used);
        let mut places: Vec<&mut Place<T>> =
            self.places.iter_mut().enumerate().filter(|(at, _)| at % devices < used).map(|(_, place)| place).collect();
        let count = places.len();
        // A run that failed may have left some under way.
        places.iter_mut().for_each(|place| place.batch = None);
        for batch in 0..batches {
            let place = &mut places[batch % count];
            place.finish(&mut take)?;
            let mut inputs: Vec<&mut PinnedBuffer<T>> = place.inputs.iter_mut().map(|(input, _)| input).collect();
            fill(batch, &mut inputs)?;
            place.queue()?;
            place.batch = Some(batch);
        }
        (batches..batches + count).try_for_each(|next| places[next % count].finish(&mut take))
    }
    // ANCHOR_END: run

    /// Plan of each device.
    pub fn plan(&self) -> &Plan {
        self.places[0].runner.plan()
    }

    /// Bytes of a batch that cross the link between host and device, in and out.
    pub fn host_bytes(&self) -> u64 {
        let place = &self.places[0];
        let inputs = place.inputs.iter().map(|(input, _)| input.len()).sum::<usize>();
        (inputs * size_of::<T>() + place.output.len() * size_of::<f32>()) as u64
    }
}
