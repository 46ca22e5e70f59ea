//! Clocks, power, temperature and throttling of the GPU while a table is measured, read from its driver.
//!
//! The driver's library (NVML) is opened at run time. If it is missing or does not know the GPU, the result is a sentence and not
//! an error: tables are measured all the same.

use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use bench::record::{Conditions, Quantity, Slowed};
use common::Device;

/// Interval between readings. A power reading is itself an average over some 100 ms.
const INTERVAL: Duration = Duration::from_millis(100);

/// Quantities that are read, with their units.
const QUANTITIES: [(&str, &str); 4] =
    [("SM clock", "MHz"), ("memory clock", "MHz"), ("power", "W"), ("temperature", "°C")];

/// Values from the driver at one moment. A build without CUDA reads none.
#[derive(Clone, Debug, Default, PartialEq)]
#[cfg_attr(not(feature = "cuda"), allow(dead_code))]
struct Reading {
    /// In the order of [`QUANTITIES`]; `None` for values that the driver does not report.
    values: [Option<f64>; QUANTITIES.len()],
    /// Why clocks are lower than they could be.
    slowed: Vec<&'static str>,
}

/// Source of readings.
trait Gauge: Sync {
    fn read(&self) -> Reading;

    /// The driver and constant limits: `driver 580.159.04 (CUDA 13.0), power limit 700 W`.
    fn driver(&self) -> String;
}

/// Watches one GPU, if its driver allows it.
pub struct Watch(Result<Box<dyn Gauge>, String>);

impl Watch {
    /// Watches this device.
    pub fn of(device: &Device) -> Watch {
        Watch(gauge(device))
    }

    /// Runs the work and returns the GPU's conditions meanwhile; `None` if it cannot be watched.
    pub fn during<T>(&self, work: impl FnOnce() -> T) -> (T, Option<Conditions>) {
        match &self.0 {
            Ok(gauge) => {
                let (result, readings) = readings_during(gauge.as_ref(), INTERVAL, work);
                (result, Some(conditions(gauge.driver(), &readings)))
            }
            Err(_) => (work(), None),
        }
    }

    /// Why the device cannot be watched.
    pub fn absent(&self) -> Option<&str> {
        self.0.as_ref().err().map(String::as_str)
    }
}

/// A reading before the work, one at each interval, and one after it.
fn readings_during<T>(gauge: &dyn Gauge, interval: Duration, work: impl FnOnce() -> T) -> (T, Vec<Reading>) {
    let mut readings = vec![gauge.read()];
    let (stop, stopped) = mpsc::channel::<()>();
    let result = std::thread::scope(|scope| {
        let meanwhile = scope.spawn(move || {
            let mut meanwhile = Vec::new();
            while stopped.recv_timeout(interval) == Err(RecvTimeoutError::Timeout) {
                meanwhile.push(gauge.read());
            }
            meanwhile
        });
        let result = work();
        // Dropped too if the work panics: then the thread ends as well.
        drop(stop);
        readings.extend(meanwhile.join().unwrap_or_default());
        result
    });
    readings.push(gauge.read());
    (result, readings)
}

fn conditions(driver: String, readings: &[Reading]) -> Conditions {
    let quantity = |(at, (name, unit)): (usize, (&str, &str))| {
        let values: Vec<f64> = readings.iter().filter_map(|reading| reading.values[at]).collect();
        let (before, after) = (*values.first()?, *values.last()?);
        let mut sorted = values;
        sorted.sort_by(f64::total_cmp);
        let (least, median, most) = (sorted[0], sorted[sorted.len() / 2], sorted[sorted.len() - 1]);
        Some(Quantity { name: name.to_owned(), unit: unit.to_owned(), before, least, median, most, after })
    };
    let mut slowed: Vec<(&str, usize)> = Vec::new();
    for reason in readings.iter().flat_map(|reading| &reading.slowed) {
        match slowed.iter_mut().find(|(other, _)| other == reason) {
            Some((_, count)) => *count += 1,
            None => slowed.push((reason, 1)),
        }
    }
    let share = |count: usize| 100.0 * count as f64 / readings.len() as f64;
    Conditions {
        driver,
        readings: readings.len(),
        quantities: QUANTITIES.into_iter().enumerate().filter_map(quantity).collect(),
        slowed: slowed
            .into_iter()
            .map(|(reason, count)| Slowed { reason: reason.to_owned(), percent: share(count) })
            .collect(),
    }
}

#[cfg(not(feature = "cuda"))]
fn gauge(_: &Device) -> Result<Box<dyn Gauge>, String> {
    Err("this build has no CUDA".to_owned())
}

#[cfg(feature = "cuda")]
fn gauge(device: &Device) -> Result<Box<dyn Gauge>, String> {
    Ok(Box::new(nvml::Gpu::open(device)?))
}

#[cfg(feature = "cuda")]
mod nvml {
    use common::Device;
    use cudarc::driver::sys::CUdevice_attribute as Attribute;
    use nvml_wrapper::bitmasks::device::ThrottleReasons;
    use nvml_wrapper::enum_wrappers::device::{Clock, TemperatureSensor};
    use nvml_wrapper::error::NvmlError;
    use nvml_wrapper::{Nvml, cuda_driver_version_major, cuda_driver_version_minor};

    use super::{Gauge, Reading};

    /// Reasons of the driver that make times longer. An idle GPU, or fixed clocks, are not such reasons.
    const SLOWED: [(ThrottleReasons, &str); 6] = [
        (ThrottleReasons::SW_POWER_CAP, "the power cap"),
        (ThrottleReasons::SW_THERMAL_SLOWDOWN, "heat"),
        (ThrottleReasons::HW_THERMAL_SLOWDOWN, "heat, by the hardware"),
        (ThrottleReasons::HW_POWER_BRAKE_SLOWDOWN, "the power brake"),
        (ThrottleReasons::HW_SLOWDOWN, "the hardware"),
        (ThrottleReasons::SYNC_BOOST, "another GPU of its group"),
    ];

    /// A GPU in NVML.
    pub(super) struct Gpu {
        nvml: Nvml,
        /// Its address on the bus: CUDA's numbers differ from NVML's.
        place: String,
        driver: String,
    }

    impl Gpu {
        pub(super) fn open(device: &Device) -> Result<Gpu, String> {
            let Some(cuda) = device.as_cuda() else {
                return Err("a simulator has no clocks".to_owned());
            };
            let attribute = |attribute| {
                let value = cuda.context().attribute(attribute);
                value.map_err(|error| format!("the driver does not say where the GPU is: {error}"))
            };
            let domain = attribute(Attribute::CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID)?;
            let bus = attribute(Attribute::CU_DEVICE_ATTRIBUTE_PCI_BUS_ID)?;
            let slot = attribute(Attribute::CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID)?;
            let place = format!("{domain:08x}:{bus:02x}:{slot:02x}.0");
            let fail = |error: NvmlError| format!("NVML, the driver's library for clocks and power: {error}");
            let nvml = Nvml::init().map_err(fail)?;
            let driver = {
                let gpu = nvml.device_by_pci_bus_id(place.as_str()).map_err(fail)?;
                let version = nvml.sys_driver_version().map_err(fail)?;
                let cuda = nvml.sys_cuda_driver_version().map_err(fail)?;
                let (major, minor) = (cuda_driver_version_major(cuda), cuda_driver_version_minor(cuda));
                let mut driver = format!("driver {version} (CUDA {major}.{minor})");
                if let Ok(limit) = gpu.enforced_power_limit() {
                    driver += &format!(", power limit {} W", limit / 1000);
                }
                if let Ok(clock) = gpu.max_clock_info(Clock::SM) {
                    driver += &format!(", SM clock up to {clock} MHz");
                }
                driver
            };
            Ok(Gpu { nvml, place, driver })
        }
    }

    impl Gauge for Gpu {
        fn read(&self) -> Reading {
            // A GPU that fell off its bus says nothing more; the tables say that.
            let Ok(gpu) = self.nvml.device_by_pci_bus_id(self.place.as_str()) else { return Reading::default() };
            let number = |value: Result<u32, NvmlError>| value.ok().map(f64::from);
            let reasons = gpu.current_throttle_reasons().unwrap_or(ThrottleReasons::empty());
            Reading {
                values: [
                    number(gpu.clock_info(Clock::SM)),
                    number(gpu.clock_info(Clock::Memory)),
                    number(gpu.power_usage()).map(|milliwatts| milliwatts / 1e3),
                    number(gpu.temperature(TemperatureSensor::Gpu)),
                ],
                slowed: SLOWED
                    .into_iter()
                    .filter(|(reason, _)| reasons.contains(*reason))
                    .map(|(_, says)| says)
                    .collect(),
            }
        }

        fn driver(&self) -> String {
            self.driver.clone()
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    /// A GPU that warms up by a degree per reading, and is held down by heat from the third on.
    #[derive(Default)]
    struct Warming(AtomicU32);

    impl Gauge for Warming {
        fn read(&self) -> Reading {
            let at = self.0.fetch_add(1, Ordering::Relaxed);
            let slowed = if at >= 2 { vec!["heat"] } else { Vec::new() };
            Reading { values: [Some(1980.0), None, Some(100.0), Some(f64::from(40 + at))], slowed }
        }

        fn driver(&self) -> String {
            "driver 1".to_owned()
        }
    }

    #[test]
    fn readings_are_taken_before_while_and_after() {
        let gauge = Warming::default();
        // The work waits until it was watched twice, however slow the machine is.
        let work = || {
            while gauge.0.load(Ordering::Relaxed) < 3 {
                std::thread::sleep(Duration::from_millis(1));
            }
            "done"
        };
        let (result, readings) = readings_during(&gauge, Duration::from_millis(1), work);
        assert_eq!(result, "done");
        assert!(readings.len() >= 4, "{readings:?}");
        let found = conditions(gauge.driver(), &readings);
        assert_eq!((found.readings, &*found.driver), (readings.len(), "driver 1"));
        // What the driver does not say is left out.
        let names: Vec<&str> = found.quantities.iter().map(|quantity| &*quantity.name).collect();
        assert_eq!(names, ["SM clock", "power", "temperature"]);
        let temperature = &found.quantities[2];
        let last = f64::from(40 + readings.len() as u32 - 1);
        assert_eq!(
            (temperature.before, temperature.least, temperature.most, temperature.after),
            (40.0, 40.0, last, last)
        );
        let share = 100.0 * (readings.len() - 2) as f64 / readings.len() as f64;
        assert_eq!(found.slowed, [Slowed { reason: "heat".to_owned(), percent: share }]);
    }

    #[test]
    fn a_panic_of_the_work_ends_the_watch_and_goes_on() {
        let gauge = Warming::default();
        let watched = || readings_during(&gauge, Duration::from_millis(1), || -> () { panic!("wrong") });
        assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(watched)).is_err());
    }

    #[test]
    fn what_cannot_be_watched_is_measured_all_the_same() {
        let watch = Watch::of(&Device::sim());
        assert_eq!(watch.during(|| 7), (7, None));
        assert!(watch.absent().is_some_and(|reason| !reason.is_empty()));
    }
}
