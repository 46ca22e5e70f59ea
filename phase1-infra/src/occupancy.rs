//! `cargo run -p phase1-infra -- occupancy`: how many blocks of a kernel an SM holds, what limits them, and what would
//! admit one more. The arithmetic is [`common::ptx_sim::occupancy`]; the book's page has the same in a form, by
//! `book/occupancy.js`, with the limits that [`limits_table`] puts on the page.

use bench::command::{CommandArgs, Shell};
use bench::resources;
use bench::table::{Cell, ColumnSpec, Table, TableBuilder};
use common::device::SimOptions;
use common::prelude::*;
use common::ptx_sim::occupancy::{
    Bound, MAX_REGISTERS_PER_THREAD, MAX_THREADS_PER_BLOCK, OneMore, PARTITIONS, REGISTER_GRANULARITY, REGISTERS,
};
use common::ptx_sim::{Limiter, Limits, Occupancy};

/// Resources that a kernel uses, from the command line.
#[derive(Clone, Debug, clap::Args)]
pub struct OccupancyArgs {
    /// Threads per block
    #[arg(long, value_name = "N", default_value_t = 256, value_parser = clap::value_parser!(u32).range(1..=i64::from(MAX_THREADS_PER_BLOCK)))]
    pub threads: u32,
    /// Registers per thread
    #[arg(long, value_name = "N", default_value_t = 32, value_parser = clap::value_parser!(u32).range(1..=i64::from(MAX_REGISTERS_PER_THREAD)))]
    pub registers: u32,
    /// Bytes of shared memory per block
    #[arg(long, value_name = "BYTES", default_value_t = 0)]
    pub shared: u32,
    /// Compute capability, such as 8.6 [default: the device's, or 9.0 on the simulator]
    #[arg(long, value_name = "X.Y")]
    pub capability: Option<String>,
}

impl OccupancyArgs {
    /// Prints the table.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a compute capability whose limits are not known, or errors of opening the device.
    pub fn run(&self, common: &CommandArgs, shell: &mut Shell) -> Result<()> {
        let architecture = match &self.capability {
            Some(capability) => format!("sm_{}", capability.trim_start_matches("sm_").replace('.', "")),
            None => resources::architecture(&shell.open(&common.device, SimOptions::default())?),
        };
        let limits = limits(&architecture)?;
        shell.table(&table(&capability_of(&architecture), &limits, self.threads, self.shared, self.registers))
    }
}

/// Limits of an architecture such as `sm_90`.
///
/// # Errors
/// [`Error::Invalid`], which lists the known architectures.
pub fn limits(architecture: &str) -> Result<Limits> {
    Limits::of(architecture).ok_or_else(|| {
        let known: Vec<String> = Limits::known().iter().map(|name| capability_of(name)).collect();
        let wanted = capability_of(architecture);
        Error::Invalid(format!(
            "the limits of compute capability {wanted} are not known; known are {}",
            known.join(", ")
        ))
    })
}

/// `9.0` of `sm_90`, `12.0` of `sm_120`.
fn capability_of(architecture: &str) -> String {
    let digits = architecture.trim_start_matches("sm_").trim_end_matches(['a', 'f']);
    match digits.len().checked_sub(1).and_then(|at| digits.split_at_checked(at)) {
        Some((major, minor)) if !major.is_empty() => format!("{major}.{minor}"),
        _ => digits.to_owned(),
    }
}

const RESOURCE: ColumnSpec = ColumnSpec::text("resource", "resource");
const TAKES: ColumnSpec = ColumnSpec::number("takes", "a block takes", 0);
const HAS: ColumnSpec = ColumnSpec::number("has", "an SM has", 0);
const BLOCKS: ColumnSpec = ColumnSpec::number("blocks", "blocks that fit", 0);

/// Shown next to a dash where a resource limits nothing.
const ANY: &str = "enough for any number of blocks";

/// Blocks that each resource allows; below the table the result, and what would admit one more block.
fn table(capability: &str, limits: &Limits, threads: u32, shared: u32, registers: u32) -> Table {
    let title = format!(
        "occupancy on {capability}: {threads} threads, {registers} registers per thread, {shared} bytes of shared memory"
    );
    let mut table = TableBuilder::of(title, [RESOURCE, TAKES, HAS, BLOCKS]);
    for Bound { limiter, takes, has, blocks } in Occupancy::bounds(limits, threads, shared, Some(registers)) {
        let row = table.row().set(RESOURCE, limiter.name()).set(HAS, u64::from(has));
        let [takes, blocks] = [takes, blocks].map(|number| Cell::or_absent(number.map(f64::from), ANY));
        row.set(TAKES, takes).set(BLOCKS, blocks).complete();
    }
    for sentence in sentences(limits, threads, shared, registers) {
        table.note(sentence);
    }
    table.finish()
}

/// The result, and what would admit one more block.
pub fn sentences(limits: &Limits, threads: u32, shared: u32, registers: u32) -> Vec<String> {
    let occupancy = Occupancy::of(limits, threads, shared, Some(registers));
    let Occupancy { blocks, warps, max_warps, limiter } = occupancy;
    let noun = if blocks == 1 { "block" } else { "blocks" };
    let share = (100.0 * occupancy.share()).round();
    let result = if blocks == 0 {
        format!("Not even one block fits: it needs more {} than an SM has.", limiter.name())
    } else {
        format!("{blocks} {noun}, {warps} of {max_warps} warps ({share} %), limited by {}.", limiter.name())
    };
    let more = Occupancy::one_more(limits, threads, shared, Some(registers));
    let needs: Option<Vec<String>> = more.iter().map(need).collect();
    let more = match needs {
        _ if warps == max_warps => {
            "The SM is full: more blocks would have to be smaller, and would bring no more warps.".to_owned()
        }
        Some(needs) => format!("One more block fits with {}.", needs.join(" and ")),
        None if more.iter().any(|more| more.limiter == Limiter::Blocks) => {
            "No SM holds more blocks: larger blocks would bring more warps.".to_owned()
        }
        None => "Nothing but smaller blocks admits one more.".to_owned(),
    };
    vec![result, more]
}

/// `at most 80 registers per thread`.
fn need(more: &OneMore) -> Option<String> {
    let most = more.at_most?;
    Some(match more.limiter {
        Limiter::Threads => format!("at most {most} threads per block"),
        Limiter::SharedMemory => format!("at most {most} bytes of shared memory"),
        Limiter::Registers => format!("at most {most} registers per thread"),
        Limiter::Blocks => return None,
    })
}

const CAPABILITY: ColumnSpec = ColumnSpec::text("compute capability", "compute capability");
/// The quantities of [`limits_table`], which `book/occupancy.js` reads by these headings.
const QUANTITIES: [ColumnSpec; 8] = [
    ColumnSpec::number("threads", "threads", 0),
    ColumnSpec::number("blocks", "blocks", 0),
    ColumnSpec::number("shared bytes", "shared bytes", 0),
    ColumnSpec::number("reserved per block", "reserved per block", 0),
    ColumnSpec::number("shared in units of", "shared in units of", 0),
    ColumnSpec::number("registers", "registers", 0),
    ColumnSpec::number("per warp in units of", "per warp in units of", 0),
    ColumnSpec::number("partitions", "partitions", 0),
];

/// Limits of an SM of each compute capability.
pub fn limits_table() -> Table {
    let mut table = TableBuilder::of(
        "limits: what an SM has, by compute capability",
        std::iter::once(CAPABILITY).chain(QUANTITIES),
    );
    for name in Limits::known() {
        let Some(limits) = Limits::of(&name) else { continue };
        let numbers = [
            limits.threads,
            limits.blocks,
            limits.shared_bytes,
            limits.reserved_bytes,
            limits.shared_granularity,
            REGISTERS,
            REGISTER_GRANULARITY,
            PARTITIONS,
        ];
        let cells = QUANTITIES.into_iter().zip(numbers.map(|number| Cell::from(u64::from(number))));
        table.row().set(CAPABILITY, capability_of(&name)).set_all(cells).complete();
    }
    table.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sentences_say_what_limits_and_what_would_admit_one_more() {
        let said = |threads, shared, registers| sentences(&Limits::of("sm_90").unwrap(), threads, shared, registers);
        assert_eq!(
            said(256, 33792, 128),
            [
                "2 blocks, 16 of 64 warps (25 %), limited by registers.",
                "One more block fits with at most 80 registers per thread."
            ]
        );
        assert_eq!(said(256, 100 << 10, 64)[1], "One more block fits with at most 76800 bytes of shared memory.");
        assert!(said(256, 0, 32)[1].starts_with("The SM is full"));
        assert!(said(32, 0, 32)[1].starts_with("No SM holds more blocks"));
        assert_eq!(said(1024, 0, 128)[0], "Not even one block fits: it needs more registers than an SM has.");
    }

    #[test]
    fn capabilities_are_named_as_nvidia_does() {
        for (architecture, capability) in
            [("sm_90a", "9.0"), ("sm_120", "12.0"), ("sm_75", "7.5"), ("sm_", ""), ("x", "x")]
        {
            assert_eq!(capability_of(architecture), capability);
        }
        let error = limits("sm_61").unwrap_err().to_string();
        assert!(error.contains("compute capability 6.1 are not known; known are 7.5, 8.0"), "{error}");
    }
}
