//! Choice of the device that a command runs on: `--device` and `WARP_DEVICE`.

use std::fmt;
use std::num::NonZero;
use std::str::FromStr;

use super::{Device, DeviceGroup, SimOptions};
use crate::error::{Error, Result};

/// Maximum simulated GPUs of one host.
const MAX_SIMS: u32 = 64;

/// A device by name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DeviceChoice {
    /// The first GPU if there is one, else the simulator.
    #[default]
    Auto,
    /// The simulator.
    Sim,
    /// This number of simulated GPUs of one host ([`super::DeviceGroup`]); a program for one device takes the first.
    Sims(NonZero<u32>),
    /// The GPU of this number.
    Cuda(usize),
}

impl FromStr for DeviceChoice {
    type Err = Error;

    fn from_str(name: &str) -> Result<DeviceChoice> {
        match name {
            "auto" => Ok(DeviceChoice::Auto),
            "sim" => Ok(DeviceChoice::Sim),
            "cuda" => Ok(DeviceChoice::Cuda(0)),
            _ => {
                let ordinal = name.strip_prefix("cuda:").and_then(|ordinal| ordinal.parse().ok());
                let count =
                    || name.strip_prefix("sim:")?.parse().ok().filter(|count: &NonZero<u32>| count.get() <= MAX_SIMS);
                let choice = ordinal.map(DeviceChoice::Cuda).or_else(|| count().map(DeviceChoice::Sims));
                choice.ok_or_else(|| Error::DeviceName(name.to_owned()))
            }
        }
    }
}

/// The choice of this name. No name stands for `auto`: an empty `WARP_DEVICE` counts as unset.
pub(super) fn parse(name: &str) -> Result<DeviceChoice> {
    if name.is_empty() { Ok(DeviceChoice::Auto) } else { name.parse() }
}

impl fmt::Display for DeviceChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DeviceChoice::Auto => f.write_str("auto"),
            DeviceChoice::Sim => f.write_str("sim"),
            DeviceChoice::Sims(count) => write!(f, "sim:{count}"),
            DeviceChoice::Cuda(ordinal) => write!(f, "cuda:{ordinal}"),
        }
    }
}

/// The `--device` option of every command, for `#[command(flatten)]`.
#[derive(Clone, Copy, Debug, Default, clap::Args)]
pub struct DeviceArgs {
    /// Where kernels run: auto (a GPU if there is one), sim, sim:N (N simulated GPUs), cuda or cuda:N (GPU number N)
    #[arg(long, env = "WARP_DEVICE", default_value_t, value_name = "DEVICE", value_parser = parse, global = true)]
    pub device: DeviceChoice,
    /// Check simulated kernels for races, reads of unwritten memory, mismatched barriers and more (implies sim)
    #[arg(long, visible_alias = "sanitise", global = true)]
    pub sanitize: bool,
}

impl DeviceArgs {
    /// Opens the chosen device.
    ///
    /// # Errors
    /// Errors of [`Device::open`]; [`Error::Unsupported`] if a GPU is asked to sanitise.
    pub fn open(&self) -> Result<Device> {
        let (choice, options) = self.checked()?;
        Device::open_with(choice, options)
    }

    /// Opens the chosen devices: for `sim:N` N of them, for a GPU that one and all with higher numbers; `limit` of them at
    /// most.
    ///
    /// # Errors
    /// Errors of [`DeviceGroup::open`] and [`DeviceArgs::open`].
    pub fn open_group(&self, limit: Option<usize>) -> Result<DeviceGroup> {
        let (choice, options) = self.checked()?;
        DeviceGroup::open_with(choice, limit, options)
    }

    /// The choice, which is the simulator's if that has to sanitise.
    fn checked(&self) -> Result<(DeviceChoice, SimOptions)> {
        let options = SimOptions { sanitize: self.sanitize, prints: true, ..SimOptions::default() };
        match self.device {
            choice @ (DeviceChoice::Sim | DeviceChoice::Sims(_)) => Ok((choice, options)),
            choice if !self.sanitize => Ok((choice, options)),
            DeviceChoice::Auto => Ok((DeviceChoice::Sim, options)),
            DeviceChoice::Cuda(_) => Err(Error::Unsupported {
                what: "--sanitize".to_owned(),
                device: self.device.to_string(),
                reason: "it is the simulator's; on a GPU run the command under compute-sanitizer".to_owned(),
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip_and_others_are_refused() {
        for name in ["auto", "sim", "sim:1", "sim:64", "cuda:0", "cuda:12"] {
            assert_eq!(name.parse::<DeviceChoice>().unwrap().to_string(), name);
        }
        assert_eq!("cuda".parse::<DeviceChoice>().unwrap(), DeviceChoice::Cuda(0));
        for name in ["", "gpu", "cuda:", "cuda:-1", "cuda:x", "Sim", "sim:", "sim:0", "sim:65", "sim:x"] {
            let error = name.parse::<DeviceChoice>().unwrap_err().to_string();
            assert_eq!(error, format!("no such device: `{name}` (use auto, sim, sim:N, cuda or cuda:N)"));
        }
    }

    #[test]
    fn the_option_takes_a_name_and_explains_a_wrong_one() {
        use clap::Parser;
        #[derive(Parser)]
        struct Command {
            #[command(flatten)]
            device: DeviceArgs,
        }
        let parse = |name| Command::try_parse_from(["command", "--device", name]).map(|c| c.device.device);
        assert_eq!(parse("cuda:1").unwrap(), DeviceChoice::Cuda(1));
        assert!(parse("sim").is_ok_and(|choice| Device::open(choice).is_ok_and(|device| device.is_sim())));
        // As clap passes an empty `WARP_DEVICE` on.
        assert_eq!(parse("").unwrap(), DeviceChoice::Auto);
        let error = parse("gpu").unwrap_err().to_string();
        assert!(error.contains("no such device: `gpu` (use auto, sim, sim:N, cuda or cuda:N)"), "{error}");
    }
}
