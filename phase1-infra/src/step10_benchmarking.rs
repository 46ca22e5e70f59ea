//! Step 10: one kernel, one size, and six figures for how fast it is.
//!
//! **Hypothesis.** A time is a time: whatever clock is read around a kernel, the figure is about the same.
//!
//! **Change.** Vector addition is timed as the course times everything, and then with one mistake at a time: inputs that the last
//! run left in the L2 cache, a host clock, a host clock that waits for nothing, a first call, and a launch that does a tenth
//! of the work, which no one checks.
//!
//! **Look at** the column of GB/s. Some mistakes make the kernel faster than the memory can be, which gives them away. Others
//! give a figure that anyone would believe. The simulator has no clock, so it cannot be fooled by these; what it counts shows the
//! one mistake that is not about clocks.

use bench::table::{Cell, ColumnSpec, Table, TableBuilder};
use bench::timing::{Bench, Queue, Timing};
use common::check::compare;
use common::prelude::*;
use common::reference;

use crate::step04_vector_add::{BYTES_PER_ELEMENT, SOURCE, vector_add};
use crate::{NO_CLOCK, NO_COUNTS};

/// A way to take the time of a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// The first call after the kernel has been loaded, once.
    FirstCall,
    /// As the course does it: warmed up, queued behind a fill that empties the L2, between events, repeated.
    Cold,
    /// The same, with inputs left in the L2 by the previous run.
    Warm,
    /// The host's clock, around a launch and a wait for its end.
    HostClock,
    /// The host's clock, around the launch alone.
    NoWait,
    /// [`Way::Cold`] for a launch with a tenth of the blocks.
    TenthOfTheWork,
}

impl Way {
    /// All of them, the first call first.
    pub const ALL: [Way; 6] = [Way::FirstCall, Way::Cold, Way::Warm, Way::HostClock, Way::NoWait, Way::TenthOfTheWork];

    /// Name in the table.
    pub fn name(self) -> &'static str {
        match self {
            Way::FirstCall => "the first call, once",
            Way::Cold => "events, inputs from memory",
            Way::Warm => "events, inputs in the L2",
            Way::HostClock => "host clock, launch and wait",
            Way::NoWait => "host clock, launch alone",
            Way::TenthOfTheWork => "a tenth of the blocks",
        }
    }

    /// Number of repetitions, and what precedes each one.
    fn bench(self) -> Bench {
        match self {
            Way::FirstCall => Bench { warm_up: 0, repeats: 1, ..Bench::default() },
            Way::Cold | Way::TenthOfTheWork => Bench { queue: Queue::Cold, ..Bench::default() },
            Way::Warm => Bench { queue: Queue::Warm, ..Bench::default() },
            Way::HostClock | Way::NoWait => Bench::default(),
        }
    }
}

/// The timing of vector addition of `n` elements in this way, and what the kernel left in c, which held NaN before.
///
/// # Errors
/// Same as [`vector_add`], and errors of copying.
pub fn measure(stream: &Stream, kernel: &Kernel, way: Way, a: &[f32], b: &[f32]) -> Result<(Timing, Vec<f32>)> {
    let (a, b) = (stream.clone_htod(a)?, stream.clone_htod(b)?);
    let mut c = stream.alloc_poisoned::<f32>(a.len())?;
    let bench = way.bench();
    // ANCHOR: ways
    let timing = match way {
        Way::TenthOfTheWork => bench.measure(stream, || tenth(stream, kernel, &a, &b, &mut c))?,
        // A simulated device has no clock to read; its counts are the same for each of these.
        _ if stream.device().is_sim() => bench.measure(stream, || vector_add(stream, kernel, &a, &b, &mut c))?,
        Way::HostClock => bench.measure_host(|| {
            vector_add(stream, kernel, &a, &b, &mut c)?;
            stream.synchronize()
        })?,
        Way::NoWait => bench.measure_host(|| vector_add(stream, kernel, &a, &b, &mut c))?,
        Way::FirstCall | Way::Cold | Way::Warm => {
            bench.measure(stream, || vector_add(stream, kernel, &a, &b, &mut c))?
        }
    };
    // ANCHOR_END: ways
    Ok((timing, stream.clone_dtoh(&c)?))
}

/// A launch with a tenth of the blocks that [`vector_add`] has, at least one.
fn tenth(stream: &Stream, kernel: &Kernel, a: &Buffer<f32>, b: &Buffer<f32>, c: &mut Buffer<f32>) -> Result<()> {
    let n = crate::common_length("vector_add", &[a.len(), b.len(), c.len()])?;
    // SAFETY: the kernel compares its index with n, and all three buffers hold n elements.
    unsafe { stream.launch_builder(kernel).arg(a).arg(b).arg(c).arg(&n).launch(LaunchConfig::for_threads(n / 10)) }
}

const WAY: ColumnSpec = ColumnSpec::text("way", "how the time was taken");
const MICROSECONDS: ColumnSpec = ColumnSpec::number("us", "µs", 1);
const LOW: ColumnSpec = ColumnSpec::number("quartile_1", "quartile 1", 1);
const HIGH: ColumnSpec = ColumnSpec::number("quartile_3", "quartile 3", 1);
const RATE: ColumnSpec = ColumnSpec::number("gbps", "GB/s", 0);
const INSTRUCTIONS: ColumnSpec = ColumnSpec::number("lane_instructions", "lane instructions", 0);
const CHECK: ColumnSpec = ColumnSpec::text("check", "result");

/// Every way, at one size.
///
/// # Errors
/// Same as [`measure`]; [`Error::Invalid`] if a sum that should be right is wrong.
pub fn run(device: &Device) -> Result<Vec<Table>> {
    // 50 MB in three vectors on a GPU: more than the launch takes, and most of it fits in a large L2.
    let n: usize = if device.is_sim() { 10_240 } else { 1 << 22 };
    let columns = [WAY, MICROSECONDS, LOW, HIGH, RATE, INSTRUCTIONS, CHECK];
    let mut table = TableBuilder::on(device, "benchmarking", &columns);
    let stream = device.stream();
    let kernel = device.kernel(&SOURCE, "vector_add")?;
    let host = [1, 2].map(|seed| Tensor::random(&[n], seed));
    let (a, b) = (host[0].as_slice()?, host[1].as_slice()?);
    let expected = reference::vector_add(a, b)?;
    for way in Way::ALL {
        let (timing, c) = measure(&stream, &kernel, way, a, b)?;
        let compared = compare(&c, &expected.values, expected.tolerance());
        if let (Err(mismatch), true) = (&compared, way != Way::TenthOfTheWork) {
            return Err(Error::Invalid(format!("benchmarking, {}: {mismatch}", way.name())));
        }
        let number = |ms: Option<f64>| Cell::or_absent(ms.map(|ms| ms * 1e3), NO_CLOCK);
        let quartiles = timing.quartiles_ms();
        let rate = timing.rate((BYTES_PER_ELEMENT * n) as f64).map(|rate| rate / 1e9);
        let instructions = timing.counts().map(|counts| counts.lane_instructions as f64);
        table
            .row()
            .set(WAY, way.name())
            .set(MICROSECONDS, number(timing.median_ms()))
            .set(LOW, number(quartiles.map(|(low, _)| low)))
            .set(HIGH, number(quartiles.map(|(_, high)| high)))
            .set(RATE, Cell::or_absent(rate, NO_CLOCK))
            .set(INSTRUCTIONS, Cell::or_absent(instructions, NO_COUNTS))
            .set(CHECK, if compared.is_ok() { "right" } else { "wrong" })
            .complete();
    }
    table.note(format!("c = a + b with n = {n}; GB/s count three vectors of n floats, whatever was moved."));
    if let Some(bandwidth) = device.properties().memory_bandwidth() {
        table.note(format!("This GPU's memory moves at most {:.0} GB/s.", bandwidth / 1e9));
    }
    Ok(vec![table.finish()])
}
