//! GPUs other than the one that the book measures on: figures from their data sheets, values derived from them, and the kernels
//! of the course that they run.

use std::{fmt::Write, fs, path::Path};

use common::{compile::KernelSource, ptx_sim::Limits};

use crate::content::Produced;

/// A GPU, as described by NVIDIA: peaks without sparsity.
struct Gpu {
    name: &'static str,
    /// Major and minor.
    capability: (u32, u32),
    multiprocessors: u32,
    /// In GB.
    memory: u32,
    /// In GB/s.
    bandwidth: u32,
    /// In TFLOP/s.
    f32: f64,
    /// On tensor cores, with sums in f32, in TFLOP/s.
    f16: f64,
    /// Peak of 8-bit numbers on tensor cores: the format and TFLOP/s or TOP/s.
    eight_bits: (&'static str, f64),
    /// In MB.
    l2: u32,
    /// Source of these figures: a title and an address.
    source: (&'static str, &'static str),
}

/// From the oldest. H100 and H200 in their SXM form.
const GPUS: [Gpu; 5] = [
    Gpu {
        name: "T4",
        capability: (7, 5),
        multiprocessors: 40,
        memory: 16,
        bandwidth: 320,
        f32: 8.1,
        f16: 65.0,
        eight_bits: ("int8", 130.0),
        l2: 4,
        source: ("T4 data sheet", "https://www.nvidia.com/en-us/data-center/tesla-t4/"),
    },
    Gpu {
        name: "A100 80 GB",
        capability: (8, 0),
        multiprocessors: 108,
        memory: 80,
        bandwidth: 2039,
        f32: 19.5,
        f16: 312.0,
        eight_bits: ("int8", 624.0),
        l2: 40,
        source: ("A100 data sheet", "https://www.nvidia.com/en-us/data-center/a100/"),
    },
    Gpu {
        name: "RTX 4090",
        capability: (8, 9),
        multiprocessors: 128,
        memory: 24,
        bandwidth: 1008,
        f32: 82.6,
        f16: 165.2,
        eight_bits: ("fp8", 330.3),
        l2: 72,
        source: (
            "Ada architecture",
            "https://images.nvidia.com/aem-dam/Solutions/geforce/ada/nvidia-ada-gpu-architecture.pdf",
        ),
    },
    Gpu {
        name: "H100",
        capability: (9, 0),
        multiprocessors: 132,
        memory: 80,
        bandwidth: 3350,
        f32: 67.0,
        f16: 989.0,
        eight_bits: ("fp8", 1979.0),
        l2: 50,
        source: ("H100 data sheet", "https://www.nvidia.com/en-us/data-center/h100/"),
    },
    Gpu {
        name: "H200",
        capability: (9, 0),
        multiprocessors: 132,
        memory: 141,
        bandwidth: 4800,
        f32: 67.0,
        f16: 989.0,
        eight_bits: ("fp8", 1979.0),
        l2: 50,
        source: ("H200 data sheet", "https://www.nvidia.com/en-us/data-center/h200/"),
    },
];

impl Gpu {
    fn limits(&self) -> Result<Limits, String> {
        let (major, minor) = self.capability;
        let name = format!("sm_{major}{minor}");
        Limits::of(&name).ok_or_else(|| format!("the limits of {name} are not known"))
    }

    /// Operations of f32 for each byte that memory moves in the same time.
    fn balance(&self, tera: f64) -> f64 {
        tera * 1e3 / f64::from(self.bandwidth)
    }
}

/// A table of the GPUs: data sheets, limits of their SMs, and derived values.
pub fn table() -> Produced {
    let mut text = row("", GPUS.iter().map(|gpu| Ok(gpu.name.to_owned())))?;
    let _ = writeln!(text, "| --- |{}", " ---: |".repeat(GPUS.len()));
    type Figure = fn(&Gpu) -> Result<String, String>;
    let rows: [(&str, Figure); 14] = [
        ("compute capability", |gpu| Ok(format!("{}.{}", gpu.capability.0, gpu.capability.1))),
        ("multiprocessors (SM)", |gpu| Ok(gpu.multiprocessors.to_string())),
        ("memory", |gpu| Ok(format!("{} GB", gpu.memory))),
        ("memory bandwidth", |gpu| Ok(format!("{} GB/s", gpu.bandwidth))),
        ("L2 cache", |gpu| Ok(format!("{} MB", gpu.l2))),
        ("f32", |gpu| Ok(format!("{:.1} TFLOP/s", gpu.f32))),
        ("f16, tensor cores", |gpu| Ok(format!("{:.0} TFLOP/s", gpu.f16))),
        ("8 bits, tensor cores", |gpu| Ok(format!("{} {:.0} T/s", gpu.eight_bits.0, gpu.eight_bits.1))),
        ("threads per SM", |gpu| Ok(gpu.limits()?.threads.to_string())),
        ("threads in flight", |gpu| Ok((gpu.multiprocessors * gpu.limits()?.threads).to_string())),
        ("shared memory per block", |gpu| Ok(format!("{} KiB", gpu.limits()?.shared_per_block() >> 10))),
        ("f32 FLOP per byte", |gpu| Ok(format!("{:.0}", gpu.balance(gpu.f32)))),
        ("f16 FLOP per byte", |gpu| Ok(format!("{:.0}", gpu.balance(gpu.f16)))),
        ("source", |gpu| Ok(format!("[{}]({})", gpu.source.0, gpu.source.1))),
    ];
    for (name, figure) in rows {
        text.push_str(&row(name, GPUS.iter().map(figure))?);
    }
    Ok(text.into())
}

/// Kernel files that a reader meets together: their name, their package, and the prefixes of their names.
const FAMILIES: [(&str, &str, &[&str]); 12] = [
    ("phase 1", "phase1-infra", &[""]),
    ("GEMM in f32", "phase2-conv-bn", &["gemm_"]),
    ("convolution in f32", "phase2-conv-bn", &["conv_"]),
    ("Linear + ReLU, fused", "phase2-conv-bn", &["linear_"]),
    ("BatchNorm, ReLU, statistics", "phase2-conv-bn", &["norm_", "relu_", "stats_"]),
    (
        "classic patterns",
        "phase2-conv-bn",
        &["histogram_", "radix_", "reduce_", "scan_", "spmv_", "stencil_", "topk_", "transpose_"],
    ),
    ("layers of phase 3", "phase3-all-layers", &[""]),
    ("GEMM on tensor cores", "phase4-fusion", &["gemm_"]),
    ("convolution on tensor cores", "phase4-fusion", &["conv_"]),
    ("attention in one kernel", "phase4-fusion", &["attention_"]),
    ("PTX by hand", "phase4-fusion", &["ptx_"]),
    ("a network as a queue", "phase4-fusion", &["executor_"]),
];

/// Compute capabilities of the columns: those of the GPUs, and one later.
const CAPABILITIES: [((u32, u32), &str); 5] =
    [((7, 5), "7.5, T4"), ((8, 0), "8.0, A100"), ((8, 9), "8.9, RTX 4090"), ((9, 0), "9.0, H100"), ((10, 0), "10.0")];

/// Which kernel files each compute capability runs, by their own `// nvrtc:` lines.
pub fn kernels(workspace: &Path) -> Produced {
    let mut text = row("kernels", CAPABILITIES.iter().map(|(_, title)| Ok((*title).to_owned())))?;
    let _ = writeln!(text, "| --- |{}", " --- |".repeat(CAPABILITIES.len()));
    for (name, package, begins) in FAMILIES {
        let files = files(&workspace.join(package).join("kernels"), begins)?;
        if files.is_empty() {
            return Err(format!("no kernel of `{package}` begins with {begins:?}").into());
        }
        let cell = |capability| {
            let runs = |(_, source): &&(String, KernelSource)| source.runs_on(capability).unwrap_or(false);
            let there: Vec<&str> = files.iter().filter(runs).map(|(name, _)| name.as_str()).collect();
            Ok(match there.len() {
                0 => "–".to_owned(),
                all if all == files.len() => format!("all {all}"),
                some => match begins {
                    [begin] if !begin.is_empty() => numbers(&there, begin),
                    _ => format!("{some} of {}", files.len()),
                },
            })
        };
        text.push_str(&row(name, CAPABILITIES.iter().map(|(capability, _)| cell(*capability)))?);
    }
    Ok(text.into())
}

/// The kernel files of a folder whose names begin in one of these ways, by name.
fn files(
    folder: &Path,
    begins: &[&str],
) -> Result<Vec<(String, KernelSource)>, Box<dyn std::error::Error + Send + Sync>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).map_err(|error| format!("{}: {error}", folder.display()))? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        // A gallery's repaired kernel needs what its broken one needs.
        let is_kernel = name.ends_with(".cu") && !name.starts_with("repaired_");
        if is_kernel && begins.iter().any(|begin| name.starts_with(begin)) {
            let source = KernelSource::from_file(&path)?;
            // What a line cannot say is told here, not in a cell.
            source.runs_on((9, 0))?;
            found.push((name, source));
        }
    }
    found.sort_by(|a, b| a.0.cmp(&b.0));
    Ok(found)
}

/// The numbers after the prefix of sorted names, in ranges: `1–8, 18`.
fn numbers(names: &[&str], begin: &str) -> String {
    let number = |name: &&str| {
        let rest = name.strip_prefix(begin)?;
        rest.split(|c: char| !c.is_ascii_digit()).next()?.parse::<u32>().ok()
    };
    let mut ranges: Vec<(u32, u32)> = Vec::new();
    for at in names.iter().filter_map(number) {
        match ranges.last_mut() {
            Some((_, last)) if *last == at || *last + 1 == at => *last = at,
            _ => ranges.push((at, at)),
        }
    }
    let said =
        |&(first, last): &(u32, u32)| if first == last { first.to_string() } else { format!("{first}–{last}") };
    ranges.iter().map(said).collect::<Vec<_>>().join(", ")
}

fn row(name: &str, cells: impl Iterator<Item = Result<String, String>>) -> Result<String, String> {
    let cells = cells.collect::<Result<Vec<_>, _>>()?;
    Ok(format!("| {name} | {} |\n", cells.join(" | ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_told_in_ranges() {
        let names = ["k_01_a.cu", "k_02_b.cu", "k_02_c.cu", "k_05_d.cu", "k_odd.cu"];
        assert_eq!(numbers(&names, "k_"), "1–2, 5");
    }

    #[test]
    fn the_limits_of_every_gpu_are_known() {
        for gpu in &GPUS {
            assert!(gpu.limits().is_ok(), "{}", gpu.name);
            assert!(CAPABILITIES.iter().any(|(capability, _)| *capability == gpu.capability), "{}", gpu.name);
        }
    }
}
