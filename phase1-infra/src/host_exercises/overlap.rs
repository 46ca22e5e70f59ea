//! Copies beside kernels, with less memory on the device than there is data.

use common::check::compare;
use common::device::{Schedule, SimOptions};
use common::prelude::*;

use super::Verdict;
use crate::step07_streams::{SOURCE, iterate_reference, iterate_tolerance};

/// Number of chunks.
pub const CHUNKS: usize = 8;
/// Rounds of [`crate::step07_streams::iterate`].
pub const ROUNDS: u32 = 4;
/// Values of a chunk: ragged.
const LEN: usize = 1001;
/// A chunk in each engine from the third unit on, and two units until the last chunk is out.
const POSSIBLE: usize = CHUNKS + 2;

/// A part of the data, page-locked on the host.
pub struct Chunk {
    /// Copied to the device.
    pub input: PinnedBuffer<f32>,
    /// Result of `iterate`.
    pub output: PinnedBuffer<f32>,
}

/// Runs the answer on a simulated device that sanitises, and says how many units its schedule takes. The answer has to compute each
/// chunk's output by way of three buffers on the device, and to let its first argument wait for all of it.
///
/// # Errors
/// Errors of the device outside of the answer.
pub fn judge(
    answer: impl FnOnce(&Stream, &Kernel, &mut [Chunk], &mut [Buffer<f32>; 3]) -> Result<()>,
) -> Result<Verdict> {
    let device = Device::sim_with(SimOptions { sanitize: true, ..SimOptions::default() });
    let main = device.stream();
    let kernel = device.kernel(&SOURCE, "iterate")?;
    let mut chunks = (0..CHUNKS as u64).map(|seed| chunk(&device, seed)).collect::<Result<Vec<_>>>()?;
    let poisoned = || main.alloc_poisoned::<f32>(LEN);
    let mut buffers = [poisoned()?, poisoned()?, poisoned()?];
    device.synchronize()?;

    let schedule = match device.schedule(|| answer(&main, &kernel, &mut chunks, &mut buffers)) {
        Ok(schedule) => schedule,
        Err(error) => return Ok(Verdict::wrong(String::new(), error)),
    };
    let seen = format!("{schedule}{} units; {POSSIBLE} are possible\n\n", schedule.units());
    // Work on `main` has to come after all that used the buffers.
    if let Err(error) = buffers.iter().try_for_each(|buffer| main.clone_dtoh(buffer).map(drop)) {
        return Ok(Verdict::wrong(seen, format!("{error}\n\nWork that `main` does next is not ordered with yours.")));
    }
    for (i, chunk) in chunks.iter().enumerate() {
        let expected = iterate_reference(chunk.input.as_slice()?, ROUNDS);
        if let Err(mismatch) = compare(chunk.output.as_slice()?, &expected, iterate_tolerance()) {
            return Ok(Verdict::wrong(seen, format!("The output of chunk {i} is wrong: {mismatch}")));
        }
    }
    Ok(match slower(&schedule) {
        Some(missing) => Verdict::wrong(seen, missing),
        None => Verdict::right(seen),
    })
}

fn chunk(device: &Device, seed: u64) -> Result<Chunk> {
    let mut input = device.alloc_pinned(LEN)?;
    input.as_mut_slice()?.copy_from_slice(Tensor::random(&[LEN], seed).as_slice()?);
    let mut output = device.alloc_pinned(LEN)?;
    output.as_mut_slice()?.fill(f32::NAN);
    Ok(Chunk { input, output })
}

fn slower(schedule: &Schedule) -> Option<String> {
    let (operations, units) = (schedule.operations().len(), schedule.units());
    if units <= POSSIBLE {
        return None;
    }
    Some(if units >= operations {
        "The results are right, but each operation waits for the one before it: nothing overlaps.".to_owned()
    } else {
        format!("The results are right, but engines stand idle for want of an order with fewer waits: {units} units.")
    })
}
