//! Resources of an SM that kernels take: the PTX shipped beside their sources, compiled by ptxas.

use std::collections::BTreeSet;

use ptx_sim::ptxas::{self, Resources};
use rayon::prelude::*;
use sha2::{Digest, Sha256};

use crate::parts::Report;
use crate::table::{ColumnSpec, Table, TableBuilder};
use common::compile::KernelSource;
use common::device::Device;

/// Architecture for shipped PTX if there is no GPU: an H100 or H200.
const ARCHITECTURE: &str = "sm_90";

/// `FILE: NAME`.
pub const KERNEL: ColumnSpec = ColumnSpec::text("kernel", "kernel");
/// Registers per thread.
pub const REGISTERS: ColumnSpec = ColumnSpec::number("registers", "registers", 0);
/// Bytes of shared memory per block declared in the source.
pub const SHARED: ColumnSpec = ColumnSpec::number("shared bytes", "shared bytes", 0);
/// Bytes of local memory per thread.
pub const STACK: ColumnSpec = ColumnSpec::number("stack bytes", "stack bytes", 0);
/// Bytes of registers that are stored to local memory.
pub const SPILLED: ColumnSpec = ColumnSpec::number("spilled bytes", "spilled bytes", 0);
/// Bytes of them that are loaded again.
pub const READ_BACK: ColumnSpec = ColumnSpec::number("read back", "read back", 0);

/// Output of ptxas for a kernel file.
#[derive(Clone, Debug)]
pub struct Compiled {
    /// The file.
    pub source: KernelSource,
    /// Architecture: `sm_90`.
    pub architecture: String,
    /// Its kernels, or why they are not known.
    pub kernels: Result<Vec<Resources>, String>,
}

/// The architecture of this device, or of an H100 if it has none: `sm_90`.
pub fn architecture(device: &Device) -> String {
    match device.properties().compute_capability {
        Some((major, minor)) => format!("sm_{major}{minor}"),
        None => ARCHITECTURE.to_owned(),
    }
}

/// Architecture to compile the shipped PTX of `source` for to run on `architecture`: the same, unless the PTX uses features of
/// one architecture only (`.target sm_90a`).
pub fn architecture_of(source: &KernelSource, architecture: &str) -> String {
    let ptx = source.shipped_ptx().unwrap_or_default();
    target(&ptx).filter(|target| target.ends_with(['a', 'f'])).unwrap_or(architecture).to_owned()
}

/// `sm_90a` of `.target sm_90a`.
fn target(ptx: &str) -> Option<&str> {
    let names = ptx.lines().find_map(|line| line.trim_start().strip_prefix(".target "))?;
    names.split([',', ' ']).find(|name| !name.is_empty())
}

/// Compiles the PTX of kernel files for this device, or for an H100 if it has no architecture; in their order.
pub fn compile<'s>(device: &Device, sources: impl IntoIterator<Item = &'s KernelSource>) -> Vec<Compiled> {
    let wanted = architecture(device);
    let sources: Vec<&KernelSource> = sources.into_iter().collect();
    let compiled = sources.par_iter().map(|&source| {
        let architecture = architecture_of(source, &wanted);
        let kernels = ptxas::resources(&source.shipped_ptx().unwrap_or_default(), &architecture);
        Compiled { source: source.clone(), architecture, kernels }
    });
    compiled.collect()
}

/// The note of a table that rests on these: "By ptxas 13.0.88 for sm_90, of the PTX shipped beside each kernel (sha256 …)."
/// `None` without ptxas.
pub fn origin(compiled: &[Compiled]) -> Option<String> {
    let version = ptxas::version().ok()?;
    let (architectures, digest) = (architectures(compiled), digest(compiled.iter().map(|file| &file.source)));
    Some(format!("By ptxas {version} for {architectures}, of {SHIPPED} (sha256 {digest})."))
}

const SHIPPED: &str = "the PTX shipped beside each kernel";

/// Whether [`origin`] says in a kept table that it is of the PTX that is shipped with these files now.
pub fn is_of_shipped<'s>(kept: &Table, sources: impl IntoIterator<Item = &'s KernelSource>) -> bool {
    let ending = format!("of {SHIPPED} (sha256 {}).", digest(sources));
    kept.notes.iter().any(|note| note.ends_with(&ending))
}

/// The first digits of the hash of all that ptxas compiles in these files: comments and line numbers are no part of it.
fn digest<'s>(sources: impl IntoIterator<Item = &'s KernelSource>) -> String {
    let counts = |line: &&str| !["//", ".loc", ".file"].iter().any(|start| line.trim_start().starts_with(start));
    let mut hasher = Sha256::new();
    for source in sources {
        let ptx = source.shipped_ptx().unwrap_or_default();
        ptx.lines().filter(counts).for_each(|line| hasher.update(line));
    }
    hasher.finalize().iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}

fn architectures(compiled: &[Compiled]) -> String {
    let names: BTreeSet<&str> = compiled.iter().map(|file| file.architecture.as_str()).collect();
    names.into_iter().collect::<Vec<_>>().join(" and ")
}

/// A row for each kernel; remarks of ptxas stand below.
pub fn table(compiled: &[Compiled]) -> Table {
    let architectures = architectures(compiled);
    let columns = [KERNEL, REGISTERS, SHARED, STACK, SPILLED, READ_BACK];
    let mut table = TableBuilder::of(format!("resources of each kernel, compiled for {architectures}"), columns);
    for Compiled { source, kernels, .. } in compiled {
        match kernels {
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
            Err(reason) => table.row().set(KERNEL, &*source.name).finish(reason),
        }
    }
    table.note(
        "registers, stack, spilled and read back: of a thread; shared: of a block, as the source declares it, where some kernels \
         ask for their tiles at the launch. The stack holds arrays that the code indexes by what is known at run time only, and \
         what had no place in registers (spilled, with the bytes stored and read back in the code).",
    );
    for Compiled { source, kernels, .. } in compiled {
        for remark in kernels.iter().flatten().flat_map(|kernel| &kernel.remarks) {
            table.note(format!("ptxas on {}: {remark}", source.name));
        }
    }
    origin(compiled).into_iter().for_each(|origin| table.note(origin));
    table.finish()
}

/// The table of these kernel files, for a part of a report.
pub fn report<'s>(device: &Device, sources: impl IntoIterator<Item = &'s KernelSource>) -> Report {
    Report { tables: vec![table(&compile(device, sources))], wrong: Vec::new() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use common::compile::ship;

    #[test]
    fn ptx_of_one_architecture_is_compiled_for_that() {
        let of = |ptx: &str| {
            let ptx = ship::compress(ptx).unwrap();
            let source = KernelSource { ptx: Some(ptx.into()), ..KernelSource::from_text("k", "") };
            architecture_of(&source, "sm_90")
        };
        assert_eq!(of(".version 9.0\n.target sm_90a\n"), "sm_90a");
        assert_eq!(of(".version 9.0\n.target sm_100f, debug\n"), "sm_100f");
        assert_eq!(of(".version 9.0\n.target sm_80\n"), "sm_90");
        assert_eq!(architecture_of(&KernelSource::from_text("k", ""), "sm_75"), "sm_75");
    }

    #[test]
    fn remarks_stand_below_the_table_and_name_their_file() {
        let kernel = Resources {
            kernel: "scale".to_owned(),
            registers: 40,
            remarks: vec!["(C7510) wgmma is serialized in function 'scale'".to_owned()],
            ..Resources::default()
        };
        let file = |name: &str, architecture: &str, kernels| Compiled {
            source: KernelSource::from_text(name.to_owned(), ""),
            architecture: architecture.to_owned(),
            kernels,
        };
        let compiled = [file("a", "sm_90a", Ok(vec![kernel])), file("b", "sm_90", Err("no ptxas found".to_owned()))];
        let table = table(&compiled);
        assert_eq!(table.title, "resources of each kernel, compiled for sm_90 and sm_90a");
        assert_eq!(table.notes[1], "ptxas on a: (C7510) wgmma is serialized in function 'scale'");
        let names: Vec<_> = table.iter().map(|row| row.text(KERNEL).unwrap().to_owned()).collect();
        assert_eq!(names, ["a: scale", "b"]);
        assert_eq!(table.iter().next().unwrap().number(REGISTERS).unwrap(), Some(40.0));
    }
}
