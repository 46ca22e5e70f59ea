//! Which device a command runs on: `--device` and `WARP_DEVICE`.

use std::fmt;
use std::str::FromStr;

use super::{Device, SimOptions};
use crate::error::{Error, Result};

/// A device by name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DeviceChoice {
    /// The first GPU if there is one, else the simulator.
    #[default]
    Auto,
    /// The simulator.
    Sim,
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
            _ => name
                .strip_prefix("cuda:")
                .and_then(|ordinal| ordinal.parse().ok())
                .map(DeviceChoice::Cuda)
                .ok_or_else(|| Error::DeviceName(name.to_owned())),
        }
    }
}

/// The choice of this name. None stands for `auto`: an empty `WARP_DEVICE` counts as unset.
pub(super) fn parse(name: &str) -> Result<DeviceChoice> {
    if name.is_empty() { Ok(DeviceChoice::Auto) } else { name.parse() }
}

impl fmt::Display for DeviceChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DeviceChoice::Auto => f.write_str("auto"),
            DeviceChoice::Sim => f.write_str("sim"),
            DeviceChoice::Cuda(ordinal) => write!(f, "cuda:{ordinal}"),
        }
    }
}

/// The `--device` option of every command, for `#[command(flatten)]`.
#[derive(Clone, Copy, Debug, Default, clap::Args)]
pub struct DeviceArgs {
    /// Where kernels run: auto (a GPU if there is one), sim, cuda or cuda:N
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
    /// As [`Device::open`]; [`Error::Unsupported`] if a GPU is asked to sanitise.
    pub fn open(&self) -> Result<Device> {
        match self.device {
            choice if !self.sanitize => Device::open(choice),
            DeviceChoice::Cuda(_) => Err(Error::Unsupported {
                what: "--sanitize".to_owned(),
                device: self.device.to_string(),
                reason: "it is the simulator's; on a GPU run the command under compute-sanitizer".to_owned(),
            }),
            _ => Device::open_with(DeviceChoice::Sim, SimOptions { sanitize: true, ..SimOptions::default() }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip_and_others_are_refused() {
        for name in ["auto", "sim", "cuda:0", "cuda:12"] {
            assert_eq!(name.parse::<DeviceChoice>().unwrap().to_string(), name);
        }
        assert_eq!("cuda".parse::<DeviceChoice>().unwrap(), DeviceChoice::Cuda(0));
        for name in ["", "gpu", "cuda:", "cuda:-1", "cuda:x", "Sim"] {
            let error = name.parse::<DeviceChoice>().unwrap_err().to_string();
            assert_eq!(error, format!("no such device: `{name}` (use auto, sim, cuda or cuda:N)"));
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
        assert!(error.contains("no such device: `gpu` (use auto, sim, cuda or cuda:N)"), "{error}");
    }
}
