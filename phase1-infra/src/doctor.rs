//! Lists what is installed on this machine, what each missing component means, and the one command that installs it.
//!
//! Only Rust is needed: a missing component costs a row in some table, never the course. So this never fails.

use bench::table::{ColumnSpec, Table, TableBuilder, wrap};
use common::Result;
use common::compile;
use common::device::{Device, DeviceChoice};
use common::probe::{Component, report};

/// Width of the widest column in characters, with which the table has 100.
const WIDTH: usize = 70;

/// The parts of a path or a command in lines of that width. A shell goes on to the next line after `&&`.
fn lines<'a>(parts: impl Iterator<Item = &'a str>) -> String {
    let mut lines = vec![String::new()];
    for part in parts {
        match lines.last_mut() {
            Some(line) if line.chars().count() + part.trim_end().chars().count() <= WIDTH => line.push_str(part),
            _ => lines.push(format!("  {part}")),
        }
    }
    lines.iter().map(|line| line.trim_end()).collect::<Vec<_>>().join("\n")
}

/// The report as a table.
///
/// # Errors
/// None.
pub fn run() -> Result<Vec<Table>> {
    Ok(vec![with_notes(&report())])
}

/// The report on these components, which may be more than [`report`] has, with notes on the machine.
pub fn with_notes(components: &[Component]) -> Table {
    let mut table = table(components);
    table.note(match Device::open(DeviceChoice::Auto) {
        Ok(device) => format!("--device auto takes {}.", device.describe()),
        Err(error) => format!("--device auto fails: {error}."),
    });
    table.note(match compile::directory() {
        Some(directory) if compile::can_keep(&directory) => {
            format!("Compiled kernels are kept in {}.", directory.display())
        }
        Some(directory) => format!(
            "Compiled kernels are not kept: {} cannot be written to; WARP_CACHE_DIR can name another folder.",
            directory.display()
        ),
        None => "Compiled kernels are not kept: no home directory is known, and WARP_CACHE_DIR is not set.".to_owned(),
    });
    table
}

/// One row per component: the file if it is installed, otherwise how to install it.
pub fn table(components: &[Component]) -> Table {
    const COMPONENT: ColumnSpec = ColumnSpec::text("component", "component");
    const VERSION: ColumnSpec = ColumnSpec::text("version", "version");
    const ADVICE: &str = "where; or what you lose without it, and the command that installs it";
    const PLACE: ColumnSpec = ColumnSpec::text(ADVICE, ADVICE);
    let mut table = TableBuilder::of("doctor", [COMPONENT, VERSION, PLACE]);
    for component in components {
        let version = match (component.present, &component.version) {
            (true, Some(version)) => version.clone(),
            (true, None) => "present".to_owned(),
            (false, _) => "absent".to_owned(),
        };
        let place = match &component.path {
            Some(path) => lines(path.display().to_string().split_inclusive(std::path::MAIN_SEPARATOR)),
            None => {
                let remedy = format!("$ {}", component.remedy);
                let mut advice = vec![wrap(component.without, WIDTH), lines(remedy.split_inclusive(" && "))];
                // Of all the places that were tried, the first is the most specific.
                if let Some(tried) = component.detail.as_deref().and_then(|detail| detail.split("; ").next()) {
                    advice.push(wrap(&format!("({tried})"), WIDTH));
                }
                advice.join("\n")
            }
        };
        table.row().set(COMPONENT, component.name).set(VERSION, version).set(PLACE, place).complete();
    }
    table.finish()
}
