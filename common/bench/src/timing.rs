//! Measurements that keep their clock, so that no table shows one as another.

use std::fmt;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use common::device::{Buffer, Counts, Stream};
use common::error::{Error, Result};

pub use common::device::NO_CLOCK;

/// The clock of a [`Timing`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Clock {
    /// Events in a GPU's stream: the GPU's time, without the host's.
    DeviceEvents,
    /// The host's monotonic clock.
    HostMonotonic,
    /// The simulator's instruction counts; there is no time.
    Counts,
}

/// Repeated measurements of one thing.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Timing {
    clock: Clock,
    /// Milliseconds, ascending; empty for counts.
    samples_ms: Vec<f64>,
    counts: Option<Counts>,
}

/// State of a GPU when a measured run begins.
// ANCHOR: queue
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Queue {
    /// Idle: it waits for the host to launch, and the measurement includes that wait. This is the time of a program that needs
    /// each result before it continues.
    #[default]
    Empty,
    /// A long fill of memory, then an unmeasured run, both queued together with the measured one: the device alone, with the
    /// caches in the state that one run leaves for the next.
    Warm,
    /// A fill of more memory than the L2 cache holds: the device alone, with every input read from memory.
    Cold,
}
// ANCHOR_END: queue

/// Settings of a measurement: warm-up runs, which are not measured, then repetitions, which are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bench {
    /// Runs before the measurement, to load code, warm caches and raise clocks.
    pub warm_up: usize,
    /// Measured runs, each timed separately.
    pub repeats: usize,
    /// No repetition starts after this time.
    pub limit: Duration,
    /// The state of the GPU before each repetition of [`Bench::measure`].
    pub queue: Queue,
}

impl Default for Bench {
    /// 3 warm-up runs, 20 repetitions, 10 seconds, an empty queue.
    fn default() -> Bench {
        Bench { warm_up: 3, repeats: 20, limit: Duration::from_secs(10), queue: Queue::Empty }
    }
}

impl Bench {
    /// Measures the work that `work` queues on `stream`: with events on a GPU; with counts on the simulator, for one run,
    /// since every run has the same counts.
    ///
    /// # Errors
    /// The first error of `work` or of the device.
    pub fn measure(&self, stream: &Stream, mut work: impl FnMut() -> Result<()>) -> Result<Timing> {
        self.measure_queued(stream, &mut work)
    }

    /// Not generic: there are over a hundred measured closures, and this would be built for each.
    fn measure_queued(&self, stream: &Stream, work: &mut dyn FnMut() -> Result<()>) -> Result<Timing> {
        if stream.device().is_sim() {
            let start = stream.record_event()?;
            work()?;
            let counts = start.counts_until(&stream.record_event()?);
            return Ok(counts.map_or_else(|| Timing::from_counts(Counts::default()), Timing::from_counts));
        }
        // ANCHOR: measure
        for _ in 0..self.warm_up {
            work()?;
        }
        let mut filler = match self.queue {
            Queue::Empty => None,
            Queue::Warm | Queue::Cold => Some(Filler::new(stream)?),
        };
        stream.synchronize()?;
        self.repeat(Clock::DeviceEvents, &mut || {
            if let Some(filler) = &mut filler {
                filler.fill(stream)?;
            }
            if self.queue == Queue::Warm {
                work()?;
            }
            let start = stream.record_event()?;
            work()?;
            let end = stream.record_event()?;
            Ok(f64::from(start.elapsed_ms(&end)?))
        })
        // ANCHOR_END: measure
    }

    /// Measures the time that `work` takes on the host, by the monotonic clock. Work on a device must be synchronised inside
    /// `work`.
    ///
    /// # Errors
    /// The first error of `work`.
    pub fn measure_host(&self, mut work: impl FnMut() -> Result<()>) -> Result<Timing> {
        for _ in 0..self.warm_up {
            work()?;
        }
        self.repeat(Clock::HostMonotonic, &mut || {
            let start = Instant::now();
            work()?;
            Ok(start.elapsed().as_secs_f64() * 1e3)
        })
    }

    // ANCHOR: repeat
    fn repeat(&self, clock: Clock, once: &mut dyn FnMut() -> Result<f64>) -> Result<Timing> {
        let begin = Instant::now();
        let mut samples_ms = Vec::with_capacity(self.repeats);
        while samples_ms.len() < self.repeats.max(1) && (samples_ms.is_empty() || begin.elapsed() < self.limit) {
            samples_ms.push(once()?);
        }
        Timing::from_samples(clock, samples_ms)
    }
    // ANCHOR_END: repeat
}

/// Memory that is filled to keep a GPU busy while the host queues the measured work.
#[derive(Debug)]
pub struct Filler(Buffer<u8>);

impl Filler {
    /// Filling 512 MB takes the fastest memory 0.1 ms, as long as several launches, and is ten times the largest L2 cache.
    const BYTES: u64 = 512 << 20;

    /// Allocates the memory, at most a quarter of the free memory.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`], or errors of the driver.
    pub fn new(stream: &Stream) -> Result<Filler> {
        let bytes = Filler::BYTES.min(stream.device().memory().free / 4);
        Ok(Filler(stream.alloc_uninit(bytes as usize)?))
    }

    /// Queues the fill.
    ///
    /// # Errors
    /// Errors of the driver.
    pub fn fill(&mut self, stream: &Stream) -> Result<()> {
        stream.poison(&mut self.0)
    }
}

impl Timing {
    /// A timing from samples in milliseconds.
    ///
    /// # Errors
    /// [`Error::Invalid`] if there are none, or one is not finite.
    pub fn from_samples(clock: Clock, mut samples_ms: Vec<f64>) -> Result<Timing> {
        if samples_ms.is_empty() || samples_ms.iter().any(|sample| !sample.is_finite()) {
            return Err(Error::Invalid("a timing needs finite samples".to_owned()));
        }
        samples_ms.sort_by(f64::total_cmp);
        Ok(Timing { clock, samples_ms, counts: None })
    }

    /// A timing from counts of simulated devices, where [`Bench::measure`] has no single stream to look at.
    pub fn from_counts(counts: Counts) -> Timing {
        Timing { clock: Clock::Counts, samples_ms: Vec::new(), counts: Some(counts) }
    }

    /// The clock it was measured with.
    pub fn clock(&self) -> Clock {
        self.clock
    }

    /// The simulator's counts; `None` for times.
    pub fn counts(&self) -> Option<Counts> {
        self.counts
    }

    /// Number of repetitions; 0 for counts.
    pub fn repeats(&self) -> usize {
        self.samples_ms.len()
    }

    /// Median in milliseconds; `None` for counts.
    pub fn median_ms(&self) -> Option<f64> {
        self.quantile(0.5)
    }

    /// First and third quartile in milliseconds; `None` for counts.
    pub fn quartiles_ms(&self) -> Option<(f64, f64)> {
        Some((self.quantile(0.25)?, self.quantile(0.75)?))
    }

    /// Shortest repetition in milliseconds; `None` for counts.
    pub fn min_ms(&self) -> Option<f64> {
        self.samples_ms.first().copied()
    }

    /// `amount` (bytes, operations) per second, at the median; `None` for counts.
    pub fn rate(&self, amount: f64) -> Option<f64> {
        Some(amount / (self.median_ms()? * 1e-3))
    }

    /// Interpolates linearly between neighbouring samples, like NumPy's default.
    fn quantile(&self, q: f64) -> Option<f64> {
        let last = self.samples_ms.len().checked_sub(1)?;
        let at = q * last as f64;
        let (below, above) = (at.floor() as usize, at.ceil() as usize);
        let part = at - below as f64;
        Some(self.samples_ms[below] * (1.0 - part) + self.samples_ms[above] * part)
    }
}

impl fmt::Display for Timing {
    /// `1.234 ms (1.230–1.250)`, or `5.1 M lane instructions`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.median_ms(), self.quartiles_ms(), self.counts) {
            (Some(median), Some((low, high)), _) => {
                write!(f, "{median:.4} ms ({low:.4}–{high:.4})")
            }
            (_, _, Some(counts)) => write!(f, "{} lane instructions", si(counts.lane_instructions as f64)),
            _ => f.write_str("nothing measured"),
        }
    }
}

/// A number with three or four digits and an SI prefix: `5.12 M`.
pub fn si(value: f64) -> String {
    const PREFIXES: [&str; 6] = ["", " k", " M", " G", " T", " P"];
    let mut scaled = value;
    let mut prefix = 0;
    while scaled.abs() >= 1000.0 && prefix + 1 < PREFIXES.len() {
        scaled /= 1000.0;
        prefix += 1;
    }
    match prefix {
        0 if value.fract() == 0.0 => format!("{value}"),
        _ => format!("{scaled:.2}{}", PREFIXES[prefix]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn median_and_quartiles_by_hand() {
        let timing = Timing::from_samples(Clock::HostMonotonic, vec![4.0, 1.0, 2.0, 3.0]).unwrap();
        assert_eq!(timing.median_ms(), Some(2.5));
        assert_eq!(timing.quartiles_ms(), Some((1.75, 3.25)));
        assert_eq!(timing.min_ms(), Some(1.0));
        assert_eq!(timing.rate(5.0), Some(2000.0));
        assert_eq!(timing.to_string(), "2.5000 ms (1.7500–3.2500)");
        assert!(Timing::from_samples(Clock::HostMonotonic, vec![]).is_err());
        assert!(Timing::from_samples(Clock::HostMonotonic, vec![f64::NAN]).is_err());
    }

    #[test]
    fn the_host_clock_measures_what_work_takes() {
        let bench = Bench { warm_up: 1, repeats: 3, ..Bench::default() };
        let mut runs = 0;
        let timing = bench
            .measure_host(|| {
                runs += 1;
                std::thread::sleep(Duration::from_millis(5));
                Ok(())
            })
            .unwrap();
        assert_eq!((runs, timing.repeats(), timing.clock()), (4, 3, Clock::HostMonotonic));
        assert!(timing.min_ms().unwrap() >= 5.0);
    }

    #[test]
    fn large_numbers_are_shortened() {
        assert_eq!(si(0.0), "0");
        assert_eq!(si(999.0), "999");
        assert_eq!(si(1234.0), "1.23 k");
        assert_eq!(si(5.12e9), "5.12 G");
    }
}
