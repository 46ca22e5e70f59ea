//! Step 6: what does a launch cost if the kernel does nothing?
//!
//! **Hypothesis.** A launch is a message to the GPU. Sending it costs the host a few microseconds, and waiting for the answer
//! several more. But if the next message is sent while the GPU works on the previous one, the wait disappears.
//!
//! **Change.** The same empty kernel: waited for after each launch, and launched many times with one wait at the end.
//!
//! **Look at** the ratio of the two, and at what the call alone costs. A kernel that takes less time than that is hidden behind
//! the next launch. That is why small kernels are fused, inputs are batched, and (in phase 4) launches are recorded in a graph,
//! which sends many as one message. The simulator has no such cost; it shows that the launches ran, and that an empty kernel is
//! one instruction: `ret`.

use std::time::Instant;

use bench::table::{Cell, ColumnSpec, Table, TableBuilder};
use bench::timing::{Bench, Clock, Timing, si};
use common::prelude::*;

use crate::{NO_CLOCK, NO_COUNTS};

/// `kernels/03_empty.cu`.
pub const SOURCE: KernelSource = kernel_source!("03_empty");

/// Launches `kernel`, which has no parameters and does nothing, with one warp.
///
/// # Errors
/// Errors of the launch.
pub fn empty(stream: &Stream, kernel: &Kernel) -> Result<()> {
    // SAFETY: the kernel touches no memory.
    unsafe { stream.launch_builder(kernel).launch(LaunchConfig::linear(32, 32)) }
}

/// A way to launch many times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Wait after each launch.
    Synchronised,
    /// Wait once, after the last.
    Pipelined,
    /// [`Way::Pipelined`] without the wait: how long the calls themselves take.
    CallsAlone,
    /// [`Way::Pipelined`] between two events: how close together the GPU runs them.
    BetweenEvents,
}

impl Way {
    /// All of them.
    pub const ALL: [Way; 4] = [Way::Synchronised, Way::Pipelined, Way::CallsAlone, Way::BetweenEvents];

    /// Name in the table, with its clock.
    pub fn name(self) -> &'static str {
        match self {
            Way::Synchronised => "launch, wait, launch, wait, … (host clock)",
            Way::Pipelined => "launch, launch, …, wait (host clock)",
            Way::CallsAlone => "the calls alone (host clock)",
            Way::BetweenEvents => "launch, launch, … (between events)",
        }
    }
}

/// The total for `launches` launches in this way: times on a GPU, counts on the simulator.
///
/// # Errors
/// Errors of the device.
pub fn measure(stream: &Stream, kernel: &Kernel, way: Way, launches: usize) -> Result<Timing> {
    let bench = Bench::default();
    let synchronised = || {
        // ANCHOR: synchronised
        for _ in 0..launches {
            empty(stream, kernel)?;
            stream.synchronize()?;
        }
        // ANCHOR_END: synchronised
        Ok(())
    };
    let queue = || {
        // ANCHOR: pipelined
        for _ in 0..launches {
            empty(stream, kernel)?; // returns before the kernel has run
        }
        // ANCHOR_END: pipelined
        Ok(())
    };
    match way {
        Way::Synchronised if stream.device().is_sim() => bench.measure(stream, synchronised),
        _ if stream.device().is_sim() => bench.measure(stream, queue),
        Way::Synchronised => bench.measure_host(synchronised),
        Way::Pipelined => bench.measure_host(|| queue().and_then(|()| stream.synchronize())),
        Way::BetweenEvents => bench.measure(stream, queue),
        Way::CallsAlone => {
            let once = || -> Result<f64> {
                let start = Instant::now();
                queue()?;
                let ms = start.elapsed().as_secs_f64() * 1e3;
                stream.synchronize()?;
                Ok(ms)
            };
            once()?;
            Timing::from_samples(Clock::HostMonotonic, (0..bench.repeats).map(|_| once()).collect::<Result<_>>()?)
        }
    }
}

const WAY: ColumnSpec = ColumnSpec::text("way", "way");
const LAUNCHES: ColumnSpec = ColumnSpec::identity("launches", "launches");
const MEDIAN: ColumnSpec = ColumnSpec::number("µs per launch", "µs per launch", 2);
const LOW: ColumnSpec = ColumnSpec::number("quartile 1", "quartile 1", 2);
const HIGH: ColumnSpec = ColumnSpec::number("quartile 3", "quartile 3", 2);
const INSTRUCTIONS: ColumnSpec = ColumnSpec::number("instructions per launch", "instructions per launch", 0);

/// Every way.
///
/// # Errors
/// Same as [`measure`].
pub fn run(device: &Device) -> Result<Vec<Table>> {
    // Fewer than a GPU's queue holds (about a thousand), or calls would wait for space in it.
    let launches = 500;
    let columns = [WAY, LAUNCHES, MEDIAN, LOW, HIGH, INSTRUCTIONS];
    let mut table = TableBuilder::on(device, "launch-overhead", &columns);
    let stream = device.stream();
    let kernel = device.kernel(&SOURCE, "empty")?;
    for way in Way::ALL {
        let timing = measure(&stream, &kernel, way, launches)?;
        let one = |ms: f64| ms * 1e3 / launches as f64;
        let median = timing.median_ms().map(one);
        let quartiles = timing.quartiles_ms();
        let counts = timing.counts().map(|counts| counts.warp_instructions as f64 / counts.launches as f64);
        // The clock on a second line, or the table is too wide.
        let row = table.row().set(WAY, way.name().replace(" (", "\n(")).set(LAUNCHES, launches);
        row.set(MEDIAN, Cell::or_absent(median, NO_CLOCK))
            .set(LOW, Cell::or_absent(quartiles.map(|(low, _)| one(low)), NO_CLOCK))
            .set(HIGH, Cell::or_absent(quartiles.map(|(_, high)| one(high)), NO_CLOCK))
            .set(INSTRUCTIONS, Cell::or_absent(counts, NO_COUNTS))
            .complete();
        if let (Way::Pipelined, Some(us), Some(bandwidth)) = (way, median, device.properties().memory_bandwidth()) {
            let bytes = si(us * 1e-6 * bandwidth);
            table.note(format!("In the {us:.1} µs of a pipelined launch this GPU's memory could move {bytes}B."));
        }
    }
    Ok(vec![table.finish()])
}
