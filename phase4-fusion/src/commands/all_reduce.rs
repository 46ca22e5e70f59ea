//! `all-reduce`: the ladder over the requested devices and sizes.

use std::num::NonZeroUsize;

use bench::command::{SaveArgs, Shell, say};
use bench::record::Record;
use common::device::DeviceArgs;
use common::prelude::*;

use crate::all_reduce::measured::{sizes, table};

/// The options of `all-reduce`.
#[derive(Clone, Debug, clap::Args)]
pub struct AllReduceArgs {
    /// Number of GPUs, or of the devices of --device sim:N; several, as in 2,4, are measured one after the other [default: all]
    #[arg(long, value_name = "N", value_delimiter = ',')]
    gpus: Vec<NonZeroUsize>,
    /// Bytes of the values of each device, a multiple of 4 [default: 1 KiB to 1 GiB, or two sizes on the simulator]
    #[arg(long, value_name = "BYTES", value_delimiter = ',')]
    bytes: Vec<usize>,
    /// Where the run is kept.
    #[command(flatten)]
    pub save: SaveArgs,
}

/// Checks and measures all steps, and prints the table.
///
/// # Errors
/// Errors of the devices, and [`Shell::save`].
pub fn all_reduce(device: &DeviceArgs, args: &AllReduceArgs, shell: &mut Shell) -> Result<()> {
    let mut counts: Vec<usize> = args.gpus.iter().copied().map(NonZeroUsize::get).collect();
    let group = device.open_group(counts.iter().copied().max())?;
    if counts.is_empty() {
        counts.push(group.len());
    }
    counts.sort_unstable();
    counts.dedup();
    say("device", group.describe());
    let bytes = if args.bytes.is_empty() { sizes(&group) } else { &args.bytes };
    if bytes.iter().any(|bytes| *bytes == 0 || !bytes.is_multiple_of(size_of::<f32>())) {
        return Err(Error::Invalid(format!("--bytes {bytes:?}: each must be a multiple of 4, and not 0")));
    }
    let mut record = Record::begin(&group.devices()[0]);
    let (table, wrong) = table(&group, &counts, bytes)?;
    wrong.iter().for_each(|wrong| shell.fail(wrong));
    shell.table(&table)?;
    record.push("all-reduce", table);
    shell.save(&record)
}
