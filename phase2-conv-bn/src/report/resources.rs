//! Resources of an SM that each kernel uses, from the compiler.

use bench::parts::{Part, Report};
use bench::resources;
use common::compile::KernelSource;
use common::prelude::*;

use crate::norm::{batch_norm, relu, statistics};
use crate::{conv, gemm, linear, patterns};

/// `cargo run -p phase2-conv-bn -- resources`.
pub const PART: Part = Part {
    name: "resources",
    about: "registers, shared memory and spills of every kernel, by ptxas",
    tables: &["resources"],
    by_default: false,
    run,
};

/// The kernel files of this phase.
pub fn sources() -> impl Iterator<Item = &'static KernelSource> {
    let gemm = gemm::LADDER.iter().chain(gemm::OTHERS).map(|step| &step.source);
    let conv = conv::LADDER.iter().map(|step| &step.source);
    let batch_norm = batch_norm::LADDER.iter().map(|step| &step.source);
    let relu = relu::LADDER.iter().map(|step| &step.source);
    let statistics = statistics::LADDER.iter().map(|step| &step.source);
    static BACKWARD: [KernelSource; 3] = [linear::backward::SOURCE, linear::written::MASK, linear::written::PRODUCT];
    let linear = linear::LADDER.iter().filter_map(linear::Step::source).chain(&BACKWARD);
    gemm.chain(conv).chain(linear).chain(batch_norm).chain(relu).chain(statistics).chain(patterns::sources())
}

/// The table, for the available GPU.
fn run(device: &Device) -> Result<Report> {
    Ok(resources::report(device, sources()))
}

#[cfg(test)]
mod tests {
    use common::compile::Origin;
    use common::device::Module;
    use common::testing::away_from_sources;
    use common::testing::planted::compiler;

    use super::*;

    #[test]
    fn away_from_their_sources_kernels_have_all_their_headers() {
        let device = Device::sim();
        for source in sources() {
            // The simulator takes the shipped PTX only if its hash is that of the text and the headers.
            let module = device.load(&away_from_sources(source)).unwrap();
            assert_eq!(module.origin(), &Origin::Shipped, "{}", source.name);
        }
        if !compiler(&device, "away_from_their_sources_kernels_have_all_their_headers") {
            return;
        }
        // A header that another header includes.
        let source = away_from_sources(sources().find(|source| source.name == "gemm_portable").unwrap());
        let names: Vec<&str> = source.headers.iter().map(|&(name, _)| name).collect();
        assert_eq!(names, ["epilogue.cuh", "gemm.cuh", "vectors.cuh"]);
        // Another device, since one knows a module by its source.
        let unshipped = Device::sim().load(&KernelSource { ptx: None, ..source.clone() }).unwrap();
        assert!(
            matches!(unshipped.origin(), Origin::Compiled { .. } | Origin::Cache { .. }),
            "{:?}",
            unshipped.origin()
        );
        let kernels = |module: Module| match module.kernel("none").unwrap_err() {
            Error::NoSuchKernel { available, .. } => available,
            other => panic!("{other}"),
        };
        assert_eq!(kernels(unshipped), kernels(device.load(&source).unwrap()));
    }
}
