//! Data parallelism: every device has the whole model, and batches go to whichever is next.
//!
//! A device has places where a batch waits, travels and is computed, each with a stream of its own. With two of them one batch is computed
//! while the next is copied in and the one before copied out. The host fills a place again when its results have been taken, so the
//! batches never wait for each other, and the devices share nothing but the host's memory.

use common::prelude::*;

use crate::models::plan::Plan;
use crate::models::runner::Runner;

/// Where a batch waits, travels and is computed.
#[derive(Debug)]
struct Place {
    stream: Stream,
    runner: Runner,
    inputs: Vec<PinnedBuffer<f32>>,
    output: PinnedBuffer<f32>,
    /// The batch that is under way.
    batch: Option<usize>,
}

impl Place {
    fn new(device: &Device, plan: Plan) -> Result<Place> {
        let [output] = plan.outputs() else {
            return Err(Error::Invalid(format!("a model that is replicated has {} outputs", plan.outputs().len())));
        };
        let values = |shape: &[usize]| device.alloc_pinned(shape.iter().product());
        let inputs = plan.input_shapes().map(values).collect::<Result<_>>()?;
        let output = values(output.shape())?;
        Ok(Place { stream: device.new_stream()?, runner: Runner::new(device, plan)?, inputs, output, batch: None })
    }

    // ANCHOR: queue
    /// Queues the copies in, the pass, and the copy out.
    fn queue(&mut self) -> Result<()> {
        for (number, input) in self.inputs.iter().enumerate() {
            self.stream.memcpy_htod(input, self.runner.input_mut(number)?.buffer_mut()?)?;
        }
        self.runner.queue(&self.stream)?;
        let output = self.runner.outputs().next().ok_or_else(|| Error::Invalid("a pass has no output".to_owned()))?;
        self.stream.memcpy_dtoh(output.buffer()?, &mut self.output)
    }
    // ANCHOR_END: queue

    /// Waits for the batch that is under way, and hands its results over.
    fn finish(&mut self, take: &mut impl FnMut(usize, &[f32]) -> Result<()>) -> Result<()> {
        match self.batch.take() {
            Some(batch) => take(batch, self.output.as_slice()?),
            None => Ok(()),
        }
    }
}

/// A model on each device of a group.
#[derive(Debug)]
pub struct Replicas {
    /// Of all devices in turn, then of all devices again.
    places: Vec<Place>,
    devices: usize,
    /// How many of the devices are used.
    used: usize,
}

impl Replicas {
    /// `places` copies of a model per device, each with a plan that `plan` makes for it: 2 where copies between host and device take
    /// a good part of the time of a pass.
    ///
    /// # Errors
    /// Those of `plan`; as [`Runner::new`]; [`Error::Invalid`] if the model has several outputs.
    pub fn new(group: &DeviceGroup, places: usize, mut plan: impl FnMut(&Device) -> Result<Plan>) -> Result<Replicas> {
        let devices = (0..places.max(1)).flat_map(|_| group.devices());
        let mut places = devices.map(|device| Place::new(device, plan(device)?)).collect::<Result<Vec<_>>>()?;
        // What the first pass loads and records is no part of the first batch.
        for place in &mut places {
            place.queue()?;
            place.stream.synchronize()?;
        }
        Ok(Replicas { places, devices: group.len(), used: group.len() })
    }

    /// Lets later runs use the first `devices` alone.
    pub fn limit(&mut self, devices: usize) {
        self.used = devices.clamp(1, self.devices);
    }

    // ANCHOR: run
    /// Runs `batches`: `fill` writes the inputs of each, and `take` gets its results, in the order of the batches.
    ///
    /// # Errors
    /// The first of `fill`, `take` or a device.
    pub fn run(
        &mut self,
        batches: usize,
        mut fill: impl FnMut(usize, &mut [PinnedBuffer<f32>]) -> Result<()>,
        mut take: impl FnMut(usize, &[f32]) -> Result<()>,
    ) -> Result<()> {
        let (devices, used) = (self.devices, self.used);
        let mut places: Vec<&mut Place> =
            self.places.iter_mut().enumerate().filter(|(at, _)| at % devices < used).map(|(_, place)| place).collect();
        let count = places.len();
        // A run that failed may have left some under way.
        places.iter_mut().for_each(|place| place.batch = None);
        for batch in 0..batches {
            let place = &mut places[batch % count];
            place.finish(&mut take)?;
            fill(batch, &mut place.inputs)?;
            place.queue()?;
            place.batch = Some(batch);
        }
        (batches..batches + count).try_for_each(|next| places[next % count].finish(&mut take))
    }
    // ANCHOR_END: run

    /// What each device runs.
    pub fn plan(&self) -> &Plan {
        self.places[0].runner.plan()
    }

    /// Bytes of a batch that cross the link between host and device, in and out.
    pub fn host_bytes(&self) -> u64 {
        let place = &self.places[0];
        let values = place.inputs.iter().map(PinnedBuffer::len).sum::<usize>() + place.output.len();
        (values * size_of::<f32>()) as u64
    }
}
