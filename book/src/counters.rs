//! Nsight Compute's counts of a launch, next to the simulator's counts of the same launch.
//!
//! ```text
//! counters "LAUNCH" ARGUMENTS
//! ```
//! `LAUNCH` is one of those in `common/tests/counters/nvidia-h200.json`, whose test says how they were recorded, and `ARGUMENTS` makes
//! `ptx-sim` launch the same.

use std::{collections::BTreeMap, fmt::Write, fs, path::Path};

use common::ptx_sim::Counters;
use serde::Deserialize;

use crate::simulator::{self, SimulatorError};

/// Path below the workspace.
const RECORD: &str = "common/tests/counters/nvidia-h200.json";

/// The recorded content.
#[derive(Debug, Deserialize)]
struct Recorded {
    device: String,
    date: String,
    commit: String,
    tool: String,
    /// By launch and the simulator's name of the counter.
    cases: BTreeMap<String, BTreeMap<String, u64>>,
}

/// Output of `ptx-sim --profile --json`, from which counters are read by name.
#[derive(Debug, Deserialize)]
struct Printed {
    profile: serde_json::Map<String, serde_json::Value>,
}

/// Why the two can't be shown.
#[derive(Debug, thiserror::Error)]
pub enum CountersError {
    /// The marker's argument does not begin with a name in quotation marks.
    #[error("write counters \"LAUNCH\" ARGUMENTS")]
    Syntax,
    /// The record can't be read.
    #[error("{RECORD}: {0}")]
    Read(std::io::Error),
    /// The file is not a record of counters.
    #[error("{RECORD}: {0}")]
    Record(serde_json::Error),
    /// It has no such launch.
    #[error("{RECORD} has no launch `{0}`")]
    Absent(String),
    /// The simulator printed something else.
    #[error("what ptx-sim printed: {0}")]
    Printed(serde_json::Error),
    /// The simulator failed.
    #[error(transparent)]
    Simulator(#[from] SimulatorError),
}

/// The table, with the command that makes the simulator's side of it.
///
/// # Errors
/// See [`CountersError`].
pub fn table(workspace: &Path, argument: &str) -> Result<String, CountersError> {
    let (launch, arguments) =
        argument.strip_prefix('"').and_then(|rest| rest.split_once('"')).ok_or(CountersError::Syntax)?;
    let json = fs::read_to_string(workspace.join(RECORD)).map_err(CountersError::Read)?;
    let recorded: Recorded = serde_json::from_str(&json).map_err(CountersError::Record)?;
    let theirs = recorded.cases.get(launch).ok_or_else(|| CountersError::Absent(launch.to_owned()))?;
    let arguments = format!("{} --profile", arguments.trim());
    let printed = simulator::printed(workspace, &format!("{arguments} --json"))?;
    let ours: Printed = serde_json::from_str(&printed).map_err(CountersError::Printed)?;
    let command = simulator::command(&arguments);
    let mut text = format!("<figure class=\"record\">\n\n```text\n$ {command}\n```\n\n");
    text.push_str("| counter | Nsight Compute's name | simulator | GPU | simulator ÷ GPU |\n");
    text.push_str("| --- | --- | ---: | ---: | ---: |\n");
    for (name, metric, _) in Counters::default().named() {
        let Some((metric, theirs)) = metric.zip(theirs.get(name)) else { continue };
        let ours = ours.profile.get(name).and_then(serde_json::Value::as_u64).unwrap_or(0);
        if ours == 0 && *theirs == 0 {
            continue;
        }
        let ratio = match theirs {
            0 => "–".to_owned(),
            theirs if *theirs == ours => "equal".to_owned(),
            theirs => format!("{:.2}", ours as f64 / *theirs as f64),
        };
        let _ = writeln!(text, "| {name} | `{metric}` | {ours} | {theirs} | {ratio} |");
    }
    let Recorded { device, date, commit, tool, .. } = &recorded;
    let _ = write!(
        text,
        "\n<figcaption>GPU: recorded by {tool} on an {device}, {date}, commit {commit}. Simulator: counted by the command \
         above.</figcaption>\n</figure>"
    );
    Ok(text)
}
