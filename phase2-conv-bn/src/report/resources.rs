//! What each kernel takes of a multiprocessor, as the compiler says.

use common::compile::KernelSource;
use common::compile::ship::shipped_path;
use common::parts::{Part, Report};
use common::prelude::*;
use common::ptx_sim::ptxas;
use common::table::{ColumnSpec, TableBuilder};

use crate::norm::{batch_norm, relu, statistics};
use crate::{Step, conv, gemm, linear};

/// `cargo run -p phase2-conv-bn -- resources`.
pub const PART: Part = Part {
    name: "resources",
    about: "registers, shared memory and spills of every kernel, by ptxas",
    tables: &["resources"],
    by_default: false,
    run,
};

/// What the shipped PTX is compiled for where there is no GPU: an H100 or H200.
const ARCHITECTURE: &str = "sm_90";

const KERNEL: ColumnSpec = ColumnSpec::text("kernel", "kernel");
const REGISTERS: ColumnSpec = ColumnSpec::number("registers", "registers", 0);
const SHARED: ColumnSpec = ColumnSpec::number("shared bytes", "shared bytes", 0);
const STACK: ColumnSpec = ColumnSpec::number("stack bytes", "stack bytes", 0);
const SPILLED: ColumnSpec = ColumnSpec::number("spilled bytes", "spilled bytes", 0);
const READ_BACK: ColumnSpec = ColumnSpec::number("read back", "read back", 0);

/// The kernel files of this phase.
fn sources() -> impl Iterator<Item = &'static KernelSource> {
    let gemm = gemm::LADDER.iter().map(gemm::Step::source);
    let conv = conv::LADDER.iter().map(conv::Step::source);
    let batch_norm = batch_norm::LADDER.iter().map(Step::source);
    let relu = relu::LADDER.iter().map(Step::source);
    let statistics = statistics::LADDER.iter().map(Step::source);
    static BACKWARD: KernelSource = linear::backward::SOURCE;
    let linear = linear::LADDER.iter().filter_map(linear::Step::source).chain([&BACKWARD]);
    gemm.chain(conv).chain(linear).chain(batch_norm).chain(relu).chain(statistics)
}

/// The table, for the GPU at hand.
fn run(device: &Device) -> Result<Report> {
    let architecture = match device.properties().compute_capability {
        Some((major, minor)) => format!("sm_{major}{minor}"),
        None => ARCHITECTURE.to_owned(),
    };
    let columns = [KERNEL, REGISTERS, SHARED, STACK, SPILLED, READ_BACK];
    let mut table = TableBuilder::of(format!("resources of each kernel, compiled for {architecture}"), columns);
    for source in sources() {
        let path = source.path().map(|path| shipped_path(&path)).unwrap_or_default();
        match ptxas::resources(&path, &architecture) {
            Ok(kernels) => kernels.iter().for_each(|kernel| {
                let numbers = [
                    (REGISTERS, kernel.registers),
                    (SHARED, kernel.shared),
                    (STACK, kernel.stack),
                    (SPILLED, kernel.spill_stores),
                    (READ_BACK, kernel.spill_loads),
                ];
                let row = table.row().set(KERNEL, format!("{}: {}", source.name, kernel.kernel));
                row.set_all(numbers.map(|(column, number)| (column, u64::from(number).into()))).complete();
            }),
            Err(reason) => table.row().set(KERNEL, &*source.name).finish(&reason),
        }
    }
    table.note(
        "registers, stack, spilled and read back: of a thread; shared: of a block, as the source declares it, where some kernels \
         ask for their tiles at the launch. The stack holds arrays that the code indexes by what is known at run time only, and \
         what had no place in registers (spilled, with the bytes stored and read back in the code).",
    );
    if let Ok(version) = ptxas::version() {
        table.note(format!("By ptxas {version} for {architecture}, of the PTX shipped beside each kernel."));
    }
    Ok(Report { tables: vec![table.finish()], wrong: Vec::new() })
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
        let source = away_from_sources(sources().find(|source| source.name == "gemm_03_shared_tile").unwrap());
        let names: Vec<&str> = source.headers.iter().map(|&(name, _)| name).collect();
        assert_eq!(names, ["epilogue.cuh", "gemm.cuh"]);
        // Another device, since one knows a module by its source.
        let unshipped = Device::sim().load(&KernelSource { ptx: None, ..source.clone() }).unwrap();
        assert!(matches!(unshipped.origin(), Origin::Nvrtc { .. } | Origin::Cache { .. }), "{:?}", unshipped.origin());
        let kernels = |module: Module| match module.kernel("none").unwrap_err() {
            Error::NoSuchKernel { available, .. } => available,
            other => panic!("{other}"),
        };
        assert_eq!(kernels(unshipped), kernels(device.load(&source).unwrap()));
    }
}
