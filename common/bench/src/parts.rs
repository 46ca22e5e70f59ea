//! A phase's command that shows its ladders: parts by name, each of which makes tables and reports the errors in them.

use clap::builder::{PossibleValue, PossibleValuesParser};

use crate::command::Shell;
use crate::record::{Record, merge};
use crate::table::Table;
use common::device::{Device, DeviceArgs, SimOptions};
use common::error::Result;

/// A part of a phase's report, named on the command line.
#[derive(Clone, Copy, Debug)]
pub struct Part {
    /// Name on the command line.
    pub name: &'static str,
    /// Contents of the part.
    pub about: &'static str,
    /// The names of its tables in a record, in the order in which `run` returns them.
    pub tables: &'static [&'static str],
    /// Whether it is part of a run without names.
    pub by_default: bool,
    /// Makes the tables.
    pub run: fn(&Device) -> Result<Report>,
}

/// Tables, and the errors in them.
#[derive(Debug, Default)]
pub struct Report {
    /// Tables, named by [`Part::tables`].
    pub tables: Vec<Table>,
    /// One sentence for each result that is out of tolerance.
    pub wrong: Vec<String>,
}

/// The simulator's options for a report: it also counts the launches' use of memory.
pub fn simulator() -> SimOptions {
    SimOptions { profile: true, ..SimOptions::default() }
}

/// The names of parts, for clap.
pub fn names(parts: &[Part]) -> PossibleValuesParser {
    parts.iter().map(|part| PossibleValue::new(part.name).help(part.about)).into()
}

/// Help text of the command's parts: `Parts to run [default: all but resources and sass]`.
pub fn help(parts: &[Part]) -> String {
    let left_out: Vec<&str> = parts.iter().filter(|part| !part.by_default).map(|part| part.name).collect();
    let by_default = match left_out.as_slice() {
        [] => "all".to_owned(),
        [one] => format!("all but {one}"),
        [most @ .., last] => format!("all but {} and {last}", most.join(", ")),
    };
    format!("Parts to run [default: {by_default}]")
}

/// Runs the parts with these names, or those that run by default, and prints their tables as they come, then their errors. On the
/// simulator, a GPU's numbers from `records` stand beside its counts.
///
/// # Errors
/// Errors of the device; [`common::Error::Record`] from `records`.
pub fn run(
    parts: &[Part],
    names: &[String],
    device: &DeviceArgs,
    records: impl FnOnce() -> Result<Vec<Record>>,
    shell: &mut Shell,
) -> Result<()> {
    let chosen: Vec<&Part> = if names.is_empty() {
        parts.iter().filter(|part| part.by_default).collect()
    } else {
        names.iter().filter_map(|name| parts.iter().find(|part| part.name == name)).collect()
    };
    let device = shell.open(device, simulator())?;
    let recorded = if device.is_sim() { records()? } else { Vec::new() };
    let mut record = Record::begin(&device);
    for part in chosen {
        let made = (part.run)(&device)?;
        made.wrong.iter().for_each(|wrong| shell.fail(wrong));
        for (name, table) in part.tables.iter().zip(made.tables) {
            shell.table(&merge(&table, name, &recorded))?;
            record.push(*name, table);
        }
    }
    shell.save(&record)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_help_names_what_is_left_out_by_default() {
        let part = |name, by_default| Part { name, about: "", tables: &[], by_default, run: |_| Ok(Report::default()) };
        let [gemm, conv, sass, resources] =
            [part("gemm", true), part("conv", false), part("sass", false), part("resources", false)];
        assert_eq!(help(&[gemm]), "Parts to run [default: all]");
        assert_eq!(help(&[gemm, conv]), "Parts to run [default: all but conv]");
        assert_eq!(help(&[conv, gemm, sass, resources]), "Parts to run [default: all but conv, sass and resources]");
    }
}
