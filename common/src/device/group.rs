//! Several devices of one host: GPUs, or simulated ones that reach each other's memory like GPUs.
//!
//! One thread of the host can drive them all: each device has its own streams, and work queued on different devices runs at the
//! same time. Between them there are
//!
//! | what | how |
//! | --- | --- |
//! | copies | [`Stream::memcpy_peer`](super::Stream::memcpy_peer) |
//! | memory that a kernel of one device reaches on another | [`LaunchArgs::peer`], [`Peers`](super::Peers) |
//! | order | events: [`Stream::wait`](super::Stream::wait) and [`Stream::join`](super::Stream::join) take those of any device |
//! | kernels that wait for each other by flags in memory | [`launch_together`] |

use super::handle::Handle;
use super::kernel::LAUNCH;
use super::launch::LaunchArgs;
use super::launch_config::LaunchConfig;
use super::properties::Link;
use super::{Device, DeviceChoice, SimDevice, SimOptions, sim};
use crate::error::{Error, Result};

/// Devices of one kind and one host, the first of which is rank 0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceGroup {
    devices: Vec<Device>,
}

impl DeviceGroup {
    /// The chosen devices, `limit` of them at most: all simulated ones of `sim:N`; a GPU and all with higher numbers; for `auto` all
    /// GPUs, or one simulated device if there is none.
    ///
    /// # Errors
    /// Errors of [`Device::open`]; [`Error::NoDevice`] if there are fewer than `limit` of them.
    pub fn open(choice: DeviceChoice, limit: Option<usize>) -> Result<DeviceGroup> {
        DeviceGroup::open_with(choice, limit, SimOptions::default())
    }

    /// [`DeviceGroup::open`], with `options` for simulated devices.
    ///
    /// # Errors
    /// Same as [`DeviceGroup::open`].
    pub fn open_with(choice: DeviceChoice, limit: Option<usize>, options: SimOptions) -> Result<DeviceGroup> {
        let mut devices = match choice {
            DeviceChoice::Sims(count) => DeviceGroup::sim_with(count.get(), options).devices,
            DeviceChoice::Sim => vec![Device::open_with(choice, options)?],
            DeviceChoice::Cuda(first) => gpus_from(first)?,
            DeviceChoice::Auto => match gpus_from(0) {
                Ok(devices) => devices,
                Err(_) => vec![Device::open_with(choice, options)?],
            },
        };
        if let Some(limit) = limit {
            if devices.len() < limit {
                let there = devices.len();
                return Err(Error::NoDevice {
                    device: format!("{limit} devices of {choice}"),
                    reason: format!(
                        "there {} {there}; sim:{limit} is that many simulated ones",
                        if there == 1 { "is" } else { "are" }
                    ),
                });
            }
            devices.truncate(limit);
        }
        Ok(DeviceGroup { devices })
    }

    /// `count` simulated devices of one host.
    pub fn sim(count: u32) -> DeviceGroup {
        DeviceGroup::sim_with(count, SimOptions::default())
    }

    /// [`DeviceGroup::sim`] with options for each of them.
    pub fn sim_with(count: u32, options: SimOptions) -> DeviceGroup {
        DeviceGroup { devices: SimDevice::several(options, count, "chosen").into_iter().map(Device::Sim).collect() }
    }

    /// A group of these devices.
    ///
    /// # Errors
    /// [`Error::Invalid`] if there is none, or one occurs twice.
    pub fn of(devices: Vec<Device>) -> Result<DeviceGroup> {
        let twice = devices.iter().enumerate().any(|(at, device)| devices[..at].contains(device));
        if devices.is_empty() || twice {
            Err(Error::Invalid(format!("a group has one device at least, and each once: {devices:?}")))
        } else {
            Ok(DeviceGroup { devices })
        }
    }

    /// Devices, by rank.
    pub fn devices(&self) -> &[Device] {
        &self.devices
    }

    /// Their number.
    #[expect(clippy::len_without_is_empty, reason = "there is one at least")]
    pub fn len(&self) -> usize {
        self.devices.len()
    }

    /// The first `count` devices.
    #[must_use]
    pub fn first(&self, count: usize) -> DeviceGroup {
        DeviceGroup { devices: self.devices[..count.clamp(1, self.len())].to_vec() }
    }

    /// True for simulated devices.
    pub fn is_sim(&self) -> bool {
        self.devices.iter().all(Device::is_sim)
    }

    /// Waits for all work on all devices.
    ///
    /// # Errors
    /// Same as [`Device::synchronize`].
    pub fn synchronize(&self) -> Result<()> {
        self.devices.iter().try_for_each(Device::synchronize)
    }

    /// `4 × NVIDIA H200 (sm_90)`, or `4 × sim`.
    pub fn describe(&self) -> String {
        let first = &self.devices[0];
        match (self.len(), first.is_sim()) {
            (1, _) => first.describe(),
            (count, true) => format!("{count} × sim"),
            (count, false) => {
                let name = first.describe();
                let name = name.split_once(' ').map_or(name.as_str(), |(_, name)| name);
                format!("{count} × {name}")
            }
        }
    }

    /// Link between the devices of two ranks.
    ///
    /// # Errors
    /// Errors of the driver.
    pub fn link(&self, from: usize, to: usize) -> Result<Link> {
        match (&self.devices[from], &self.devices[to]) {
            #[cfg(feature = "cuda")]
            (Device::Cuda(from), Device::Cuda(to)) => from.link(to),
            _ => Ok(Link { peer_access: true, native_atomics: true, rank: 0 }),
        }
    }
}

/// The GPU of this number and all after it.
fn gpus_from(first: usize) -> Result<Vec<Device>> {
    let mut devices = vec![Device::cuda(first)?];
    while let Ok(device) = Device::cuda(first + devices.len()) {
        devices.push(device);
    }
    Ok(devices)
}

/// Queues one launch per device, all of one kernel and one geometry, whose blocks wait for each other by flags in memory. GPUs
/// run them at the same time as soon as each has room for all its blocks; the simulator runs them here, in turns.
///
/// # Safety
/// Same as [`LaunchArgs::launch`]. The flags and fences between the kernels must order their concurrent writes.
///
/// # Errors
/// Same as [`LaunchArgs::launch`]; [`Error::LaunchConfig`] if the geometries differ, [`Error::Capture`] on simulated streams that
/// record.
pub unsafe fn launch_together(launches: &mut [(LaunchArgs<'_>, LaunchConfig)]) -> Result<()> {
    let mut simulated = Vec::new();
    let geometry = launches.first().map(|(_, config)| *config);
    // All before the first is queued, which would wait for the others for ever.
    for (args, config) in &*launches {
        if Some(*config) != geometry {
            let detail = "launches that wait for each other have one geometry".to_owned();
            return Err(Error::LaunchConfig { kernel: args.arguments.kernel.name().to_owned(), detail });
        }
        args.check(config)?;
    }
    for (args, config) in launches {
        let (stream, kernel, config) = (args.stream, args.arguments.kernel, *config);
        match &stream.queue {
            Handle::Sim(queue) => {
                const REASON: &str =
                    "the simulator runs the launches of one graph before those of the next, which these wait for";
                stream.refuse_in_capture(LAUNCH, REASON)?;
                simulated.push((queue, kernel.on(queue)?, &mut args.arguments, config));
            }
            // SAFETY: the caller's promise.
            Handle::Cuda(_) => unsafe { args.launch(config)? },
        }
    }
    sim::Queue::launch_together(&mut simulated)
}
