//! Options that the launcher hands to the library through the environment.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Parser};
use ptx_sim::Asynchrony;

/// The variable that holds options, as on a command line.
pub const VARIABLE: &str = "CUDA_SIM";

/// How programs are run.
#[derive(Args, Clone, Debug, Default)]
pub struct Options {
    /// Find uses of memory that was never written, races, and other broken rules
    #[arg(long)]
    pub sanitize: bool,
    /// Sanitise to the letter of the PTX memory model
    #[arg(long)]
    pub strict: bool,
    /// Count what each kernel asks of the hardware
    #[arg(long)]
    pub profile: bool,
    /// Do the work of streams as late as CUDA allows, when the program waits for it: a missing wait shows in its values
    #[arg(long)]
    pub late: bool,
    /// When kernels' asynchronous copies are made: late, early, or seed=N (at pseudo-random turns)
    #[arg(long = "async", value_name = "WHEN", default_value_t)]
    pub asynchrony: Asynchrony,
    /// Number of simulated GPUs
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=16))]
    pub devices: u8,
    /// Memory of each simulated GPU, as programs see it: 512MiB, 8GiB, or a number of bytes
    #[arg(long, value_name = "SIZE", default_value = "16GiB", value_parser = ptx_sim::parse_size)]
    pub memory: u64,
    /// Longest time of a kernel, in seconds
    #[arg(long, value_name = "SECONDS")]
    pub time_limit: Option<u32>,
    /// Memory of the host for all that kernels and buffers take: 512MiB, 8GiB, or a number of bytes
    #[arg(long, value_name = "SIZE", value_parser = ptx_sim::parse_size)]
    pub memory_limit: Option<u64>,
    /// Compute capability of the simulated GPUs
    #[arg(long, value_name = "X.Y", default_value = "9.0")]
    pub compute: Compute,
    /// File that findings and profiles are written to, a JSON object per line
    #[arg(long, value_name = "FILE")]
    pub log: Option<PathBuf>,
}

#[derive(Parser)]
#[command(name = VARIABLE, no_binary_name = true)]
struct FromEnvironment {
    #[command(flatten)]
    options: Options,
}

impl Options {
    /// The options in [`VARIABLE`], or the sentence that says what is wrong with them.
    ///
    /// # Errors
    /// If they are no options of [`Options`].
    pub fn from_environment() -> Result<Self, String> {
        let text = std::env::var(VARIABLE).unwrap_or_default();
        let parsed = FromEnvironment::try_parse_from(text.split('\u{1f}').filter(|word| !word.is_empty()));
        parsed.map(|parsed| parsed.options).map_err(|error| format!("{VARIABLE}: {error}"))
    }

    /// The value of [`VARIABLE`] from which [`Self::from_environment`] makes these options. Words are separated by the unit
    /// separator, because paths may have spaces.
    #[must_use]
    pub fn to_environment(&self) -> OsString {
        let mut words: Vec<OsString> = Vec::new();
        let Options {
            sanitize,
            strict,
            profile,
            late,
            asynchrony,
            devices,
            memory,
            time_limit,
            memory_limit,
            compute,
            log,
        } = self;
        words.extend(sanitize.then(|| "--sanitize".into()));
        words.extend(strict.then(|| "--strict".into()));
        words.extend(profile.then(|| "--profile".into()));
        words.extend(late.then(|| "--late".into()));
        words.push(format!("--async={asynchrony}").into());
        words.push(format!("--devices={devices}").into());
        words.push(format!("--memory={memory}").into());
        words.extend(time_limit.map(|seconds| format!("--time-limit={seconds}").into()));
        words.extend(memory_limit.map(|bytes| format!("--memory-limit={bytes}").into()));
        words.push(format!("--compute={}.{}", compute.major, compute.minor).into());
        words.extend(log.as_ref().map(|log| {
            let mut word = OsString::from("--log=");
            word.push(log);
            word
        }));
        words.join(std::ffi::OsStr::new("\u{1f}"))
    }
}

/// A compute capability that the simulator runs PTX of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Compute {
    /// 9 of 9.0.
    pub major: u8,
    /// 0 of 9.0.
    pub minor: u8,
}

impl Default for Compute {
    fn default() -> Self {
        Self { major: 9, minor: 0 }
    }
}

impl Compute {
    /// Resources of an SM of this capability.
    #[must_use]
    pub fn limits(self) -> ptx_sim::Limits {
        ptx_sim::Limits::of(&format!("sm_{}{}", self.major, self.minor)).unwrap_or_else(|| Self::default().limits())
    }
}

impl std::str::FromStr for Compute {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let refused = || format!("expected a compute capability from 7.5 to 10.0, such as 8.0, got `{text}`");
        let (major, minor) = text.split_once('.').ok_or_else(refused)?;
        let (major, minor) = (major.parse().map_err(|_| refused())?, minor.parse().map_err(|_| refused())?);
        match (major, minor) {
            (7, 5) | (8, 0 | 6 | 7 | 9) | (9 | 10, 0) => Ok(Self { major, minor }),
            _ => Err(refused()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_go_through_the_environment_unchanged() {
        let log = Some(PathBuf::from("/a folder/log"));
        let options = Options {
            sanitize: true,
            profile: true,
            late: true,
            asynchrony: Asynchrony::Seeded(7),
            devices: 3,
            memory: 3 << 20,
            time_limit: Some(5),
            memory_limit: Some(1 << 30),
            compute: Compute { major: 8, minor: 6 },
            log,
            ..Options::default()
        };
        let text = options.to_environment().into_string().unwrap();
        let words = text.split('\u{1f}').filter(|word| !word.is_empty());
        let read = FromEnvironment::try_parse_from(words).unwrap().options;
        assert_eq!(format!("{options:?}"), format!("{read:?}"));
    }

    #[test]
    fn other_compute_capabilities_are_refused_in_a_sentence() {
        for text in ["7.0", "11.0", "8", "8.x"] {
            assert!(text.parse::<Compute>().unwrap_err().contains("from 7.5 to 10.0"), "{text}");
        }
    }
}
