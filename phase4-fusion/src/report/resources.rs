//! Resources of an SM that each kernel uses, from the compiler.

use bench::parts::{Part, Report};
use bench::resources;
use common::prelude::*;

use crate::autoencoder::OneKernel;
use crate::ptx::PAIRS;
use crate::{attention, conv, gemm};

/// `cargo run -p phase4-fusion -- resources`.
pub const PART: Part = Part {
    name: "resources",
    about: "registers, shared memory and spills of every kernel of the ladders and pairs, by ptxas",
    tables: &["resources"],
    by_default: false,
    run,
};

/// The kernel files of the ladders on tensor cores and of fused models, then those of Blackwell and of the pairs.
pub fn sources() -> impl Iterator<Item = &'static KernelSource> {
    ladders()
        .chain(gemm::BLACKWELL.iter().map(|step| &step.source))
        .chain(PAIRS.iter().flat_map(|pair| pair.versions).map(|version| &version.source))
}

/// Only those of the ladders and models.
pub fn ladders() -> impl Iterator<Item = &'static KernelSource> {
    let products = gemm::LADDER.iter().chain(gemm::OTHERS).map(|step| &step.source);
    let products = products.chain(conv::LADDER.iter().map(|step| &step.source)).chain([&conv::s8::SOURCE]);
    products.chain(attention::LADDER.iter().map(|step| &step.source)).chain([&OneKernel::SOURCE])
}

/// The table, for the available GPU.
fn run(device: &Device) -> Result<Report> {
    Ok(resources::report(device, sources()))
}
