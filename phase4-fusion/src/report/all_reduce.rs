//! The ladder of all-reduces, on four simulated devices or all GPUs.

use bench::parts::{Part, Report};
use common::prelude::*;

use crate::all_reduce::measured::{sizes, table};

/// `cargo run -p phase4-fusion -- all-reduce`, on four simulated devices or all GPUs.
pub const PART: Part = Part {
    name: "all-reduce",
    about: "the sum of buffers of several devices: gather, ring, one and two shots, by events and by flags",
    tables: &["all-reduce"],
    by_default: false,
    run,
};

/// Simulated devices of the part.
const SIMULATED: u32 = 4;

fn run(device: &Device) -> Result<Report> {
    let group = match device {
        Device::Sim(_) => DeviceGroup::sim(SIMULATED),
        #[cfg(feature = "cuda")]
        Device::Cuda(_) => DeviceGroup::open(DeviceChoice::Cuda(0), None)?,
    };
    let (table, wrong) = table(&group, &[group.len()], sizes(&group))?;
    Ok(Report { tables: vec![table], wrong })
}
