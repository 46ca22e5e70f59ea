//! `phase5-bench doctor`: what tables cannot measure on this machine, why, and how to fix it.
//!
//! Components are those of phase 1's doctor, and PyTorch. Tables declare what they use ([`crate::spec::TableSpec::uses`]); the
//! machine is probed once.

use bench::command::Shell;
use bench::table::{ColumnSpec, Table, TableBuilder};
use common::device::{DeviceArgs, DeviceChoice, DeviceGroup};
use common::probe::{Component, Library, report};

use crate::spec::{Need, TableSpec};
use crate::tables::TABLES;
use crate::{Result, shelf, torch};

/// Characters of a line of a cell.
const LINE: u16 = 40;

const TABLE: ColumnSpec = ColumnSpec::text("table", "table");
const LACKS: ColumnSpec = ColumnSpec::text("lacks", "not measured here");
const NEED: ColumnSpec = ColumnSpec::text("need", "missing");
const WHY: ColumnSpec = ColumnSpec::text("why", "why").in_lines_of(LINE);
const MEND: ColumnSpec = ColumnSpec::text("mend", "what would mend it").in_lines_of(LINE);

/// All needs, starting with those without which the others are useless.
const NEEDS: [Need; 8] =
    [Need::Gpu, Need::SecondGpu, Need::Hopper, Need::Cublas, Need::CublasLt, Need::Cudnn, Need::Nccl, Need::PyTorch];

/// Probed components of this machine.
struct Machine {
    /// GPUs from the chosen one on: their number, their name, and the compute capability of the first; or why there is none.
    gpus: std::result::Result<Gpus, String>,
    components: Vec<Component>,
}

struct Gpus {
    count: usize,
    name: String,
    capability: (u32, u32),
}

/// A need that is not met.
struct Lack {
    need: Need,
    why: String,
    mend: String,
}

impl Need {
    /// Name.
    fn name(self) -> &'static str {
        match self {
            Need::Gpu => "GPU",
            Need::SecondGpu => "second GPU",
            Need::Hopper => "Hopper GPU",
            Need::Cublas => Library::Cublas.name(),
            Need::CublasLt => Library::CublasLt.name(),
            Need::Cudnn => Library::Cudnn.name(),
            Need::Nccl => Library::Nccl.name(),
            Need::PyTorch => PYTORCH,
        }
    }

    /// The numbers that a table lacks without it.
    fn numbers(self) -> &'static str {
        match self {
            Need::Gpu => "times",
            Need::SecondGpu => "rows of 2 GPUs and more",
            Need::Hopper => "steps with wgmma and TMA",
            Need::Cublas => "cuBLAS",
            Need::CublasLt => "cuBLASLt",
            Need::Cudnn => "cuDNN",
            Need::Nccl => "NCCL",
            Need::PyTorch => "PyTorch",
        }
    }
}

const PYTORCH: &str = "PyTorch";

/// PyTorch, described like the libraries in phase 1's doctor.
fn pytorch() -> Component {
    let (found, detail) = match torch::installed() {
        Ok(found) => (Some(found), None),
        Err(reason) => (None, Some(reason)),
    };
    let (path, version) = found.unzip();
    Component {
        name: PYTORCH,
        present: path.is_some(),
        version,
        path,
        detail,
        without: "no PyTorch rows to compare models and operations with",
        remedy: "pip install torch --index-url https://download.pytorch.org/whl/cu130",
    }
}

impl Machine {
    /// Probes this machine for a command with these options.
    fn probe(device: &DeviceArgs) -> Machine {
        let mut components = report();
        components.push(pytorch());
        Machine { gpus: gpus(device), components }
    }

    /// Why a need is not met, and how to meet it; `None` if it is met.
    fn lack(&self, need: Need) -> Option<Lack> {
        let lack = |why: String, mend: &str| Some(Lack { need, why, mend: mend.to_owned() });
        match (need, &self.gpus) {
            (Need::Gpu, Err(why)) => {
                lack(why.clone(), "an NVIDIA GPU of compute capability 7.5 or later, and its driver")
            }
            (Need::Gpu, Ok(_)) => None,
            (Need::SecondGpu, Ok(gpus)) if gpus.count > 1 => None,
            (Need::SecondGpu, Ok(gpus)) => lack(format!("one GPU answers, {}", gpus.name), "a host with several GPUs"),
            (Need::SecondGpu, Err(_)) => lack(
                "there is no GPU".to_owned(),
                "a host with several GPUs; `--device sim:4` checks all without times",
            ),
            (Need::Hopper, Ok(Gpus { capability: (9, 0), .. })) => None,
            (Need::Hopper, Ok(Gpus { capability: (major, minor), .. })) => {
                lack(format!("the GPU has compute capability {major}.{minor}, not 9.0"), "an H100, H200 or GH200")
            }
            (Need::Hopper, Err(_)) => {
                lack("there is no GPU".to_owned(), "an H100, H200 or GH200; the simulator runs these steps")
            }
            (Need::Cublas | Need::CublasLt | Need::Cudnn | Need::Nccl | Need::PyTorch, _) => {
                let component = self.components.iter().find(|component| component.name == need.name())?;
                let why =
                    component.detail.as_deref().and_then(|detail| detail.split("; ").next()).unwrap_or("not found");
                if component.present { None } else { lack(why.to_owned(), component.remedy) }
            }
        }
    }
}

fn gpus(args: &DeviceArgs) -> std::result::Result<Gpus, String> {
    let choice = match args.device {
        DeviceChoice::Sim | DeviceChoice::Sims(_) => {
            return Err(format!("`--device {}`, or WARP_DEVICE, asks for the simulator", args.device));
        }
        DeviceChoice::Auto => DeviceChoice::Cuda(0),
        chosen @ DeviceChoice::Cuda(_) => chosen,
    };
    let group = DeviceGroup::open(choice, None).map_err(|error| error.to_string())?;
    let first = group.devices().first().ok_or_else(|| "no GPU answers".to_owned())?;
    let properties = first.properties();
    Ok(Gpus {
        count: group.len(),
        name: properties.name.clone(),
        capability: properties.compute_capability.unwrap_or_default(),
    })
}

/// Needs of a table; for a derived one, those of its source tables.
fn uses(spec: &TableSpec) -> Vec<Need> {
    let tables = TABLES.iter().filter(|table| table.name == spec.name || spec.needs().contains(&table.name));
    let used: Vec<Need> = tables.flat_map(|table| table.uses).copied().collect();
    NEEDS.into_iter().filter(|need| used.contains(need)).collect()
}

/// Numbers that each table cannot measure.
fn by_table(lacks: &[Lack]) -> Table {
    let mut table = TableBuilder::of("what each table does not measure here", [TABLE, LACKS]);
    for spec in TABLES {
        let used = uses(spec);
        let missing = lacks.iter().filter(|lack| used.contains(&lack.need));
        let missing: Vec<&str> = missing.map(|lack| lack.need.numbers()).collect();
        let lacks = if missing.is_empty() { "nothing is missing".to_owned() } else { missing.join(", ") };
        table.row().set(TABLE, spec.name).set(LACKS, lacks).complete();
    }
    if lacks.iter().any(|lack| lack.need == Need::Gpu) {
        table.note("Where there are no times, tables show counts, and times of a recorded run, which say so.");
    }
    table.finish()
}

/// The reasons, and how to fix them.
fn by_need(lacks: &[Lack]) -> Table {
    let mut table = TableBuilder::of("why, and what would mend it", [NEED, WHY, MEND]);
    for Lack { need, why, mend } in lacks {
        table.row().set(NEED, need.name()).set(WHY, why.as_str()).set(MEND, mend.as_str()).complete();
    }
    if lacks.is_empty() {
        table.note("Nothing is missing: every number can be measured here.");
    }
    match shelf::directory() {
        Some(directory) => {
            table.note(format!("Runs that `adopt` keeps are in {}.", directory.display()));
        }
        None => {
            table.note("`adopt` keeps no runs: no home directory is known, and WARP_RECORDS_DIR is not set.");
        }
    }
    table.finish()
}

/// Prints the report.
///
/// # Errors
/// Only if it cannot be printed.
pub fn run(device: &DeviceArgs, shell: &mut Shell) -> Result<()> {
    let machine = Machine::probe(device);
    let lacks: Vec<Lack> = NEEDS.into_iter().filter_map(|need| machine.lack(need)).collect();
    shell.table(&phase1_infra::doctor::with_notes(&machine.components))?;
    shell.table(&by_table(&lacks))?;
    Ok(shell.table(&by_need(&lacks))?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn component(name: &'static str, present: bool) -> Component {
        let detail = (!present).then(|| format!("lib{name}.so not found; and more"));
        Component {
            name,
            present,
            version: None,
            path: present.then(|| name.into()),
            detail,
            without: "",
            remedy: "pip install it",
        }
    }

    fn machine(gpus: std::result::Result<Gpus, String>, present: &[Need]) -> Machine {
        let needs = NEEDS.into_iter().skip_while(|need| *need != Need::Cublas);
        Machine { gpus, components: needs.map(|need| component(need.name(), present.contains(&need))).collect() }
    }

    fn gpus(count: usize, capability: (u32, u32)) -> std::result::Result<Gpus, String> {
        Ok(Gpus { count, name: "NVIDIA X".to_owned(), capability })
    }

    fn lacks(machine: &Machine) -> Vec<Lack> {
        NEEDS.into_iter().filter_map(|need| machine.lack(need)).collect()
    }

    fn row<'t>(table: &'t Table, name: &str) -> &'t str {
        let row = table.iter().find(|row| row.text(TABLE).unwrap() == name).unwrap();
        row.text(LACKS).unwrap()
    }

    #[test]
    fn each_missing_thing_is_told_with_its_reason_and_remedy() {
        let found = lacks(&machine(Err("no driver".to_owned()), &[Need::Cudnn]));
        let names: Vec<&str> = found.iter().map(|lack| lack.need.name()).collect();
        assert_eq!(names, ["GPU", "second GPU", "Hopper GPU", "cuBLAS", "cuBLASLt", "NCCL", "PyTorch"]);
        assert!(found.iter().all(|lack| !lack.why.is_empty() && !lack.mend.is_empty()));
        assert_eq!((found[0].why.as_str(), found[3].why.as_str()), ("no driver", "libcuBLAS.so not found"));
        let tables = by_table(&found);
        assert_eq!(row(&tables, "gemm"), "times, cuBLAS, cuBLASLt, PyTorch");
        assert_eq!(row(&tables, "conv"), "times, PyTorch", "cuDNN is there");
        assert_eq!(row(&tables, "memory"), "nothing is missing");
        let claims = row(&tables, "claims");
        assert!(claims.contains("cuBLAS") && claims.contains("PyTorch"), "{claims}: what its tables use");
        assert_eq!(by_need(&found).rows().len(), found.len());
    }

    #[test]
    fn a_gpu_of_another_architecture_and_a_single_one_lack_what_they_cannot_do() {
        let all = &NEEDS;
        let found = lacks(&machine(gpus(1, (8, 9)), all));
        let names: Vec<&str> = found.iter().map(|lack| lack.need.name()).collect();
        assert_eq!(names, ["second GPU", "Hopper GPU"]);
        assert!(found[1].why.contains("8.9"), "{}", found[1].why);
        assert_eq!(row(&by_table(&found), "tensor-cores"), "steps with wgmma and TMA");
        assert_eq!(row(&by_table(&found), "multi-gpu"), "rows of 2 GPUs and more");
        let found = lacks(&machine(gpus(2, (9, 0)), all));
        assert!(found.is_empty());
        assert!(by_need(&found).notes[0].starts_with("Nothing is missing"));
    }

    #[test]
    fn the_simulator_is_told_from_a_machine_without_a_gpu() {
        let args = DeviceArgs { device: DeviceChoice::Sim, sanitize: false };
        assert!(super::gpus(&args).is_err_and(|why| why.contains("asks for the simulator")));
    }
}
