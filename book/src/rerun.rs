//! The command that runs a kernel again after an edit: one table, by package and by how the file's name begins.

/// What runs the kernels of a family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// The package's program, with these arguments.
    Run(&'static str),
    /// Its program's gallery, with the number in the file's name.
    Gallery,
    /// The same, its repaired version.
    Repaired,
    /// A file of its tests.
    Test(&'static str),
}

use Way::{Gallery, Repaired, Run, Test};

/// By package: how the name of a file in `kernels` begins, and what runs such a kernel. The longest beginning decides.
const FAMILIES: [(&str, &[(&str, Way)]); 5] = [
    (
        "phase1-infra",
        &[
            ("01_vector_add", Run("vector-add")),
            ("02_grid_stride", Run("grid-stride")),
            ("03_empty", Run("launch-overhead")),
            ("04_iterate", Run("streams")),
            ("05_mistakes", Run("errors")),
            ("06_message", Test("memory_model")),
            ("07_swap", Test("memory_model")),
            ("08_last_block", Test("memory_model")),
            ("09_chains", Run("latency-hiding")),
            ("10_loads", Run("latency-hiding")),
            ("broken", Gallery),
            ("repaired", Repaired),
        ],
    ),
    (
        "phase2-conv-bn",
        &[
            ("conv", Run("conv")),
            ("cp_async", Run("gemm")),
            ("epilogue", Run("gemm")),
            ("fetch", Run("conv")),
            ("gemm", Run("gemm")),
            ("gemm_00", Test("gemm_plain")),
            ("histogram", Run("histogram")),
            ("in_flight", Run("norm")),
            ("lanes", Run("gemm")),
            ("linear", Run("linear")),
            ("linear_04", Test("linear")),
            ("linear_05", Test("linear")),
            ("norm", Run("norm")),
            ("radix", Run("radix-sort")),
            ("reduce", Run("reduction")),
            ("relu", Run("norm")),
            ("scan", Run("scan")),
            ("spmv", Run("spmv")),
            ("stats", Run("norm")),
            ("stencil", Run("stencil")),
            ("topk", Run("top-k")),
            ("transpose", Run("transpose")),
            ("vectors", Run("gemm")),
        ],
    ),
    (
        "phase3-all-layers",
        &[
            ("add_", Test("layers")),
            ("add_channel", Test("elementwise")),
            ("add_noise", Test("elementwise")),
            ("attention", Test("sequence")),
            ("average_pool", Test("layers")),
            ("bias_rows", Test("layers")),
            ("concatenate", Test("elementwise")),
            ("diffusion", Test("elementwise")),
            ("gelu", Test("elementwise")),
            ("layer_norm", Test("sequence")),
            ("max_pool", Test("layers")),
            ("row", Test("sequence")),
            ("row_norm", Test("autoencoder")),
            ("silu", Test("elementwise")),
            ("softmax", Test("sequence")),
            ("timestep", Test("elementwise")),
            ("transpose", Test("sequence")),
            ("upsample", Test("elementwise")),
        ],
    ),
    (
        "phase4-fusion",
        &[
            ("activation", Run("gemm")),
            ("all_reduce", Run("all-reduce")),
            ("attention", Run("attention")),
            ("autoencoder", Test("autoencoder")),
            ("broken", Gallery),
            ("conv", Run("conv")),
            ("conv_05", Test("conv_s8")),
            ("copies", Run("gemm")),
            ("cp_async", Run("gemm")),
            ("elements", Run("gemm")),
            ("epilogue", Run("gemm")),
            ("executor", Run("queue")),
            ("fusion", Test("fusion")),
            ("gemm", Run("gemm")),
            ("hopper", Run("gemm")),
            ("images", Test("nhwc")),
            ("mma", Run("gemm")),
            ("nhwc", Test("nhwc")),
            ("nhwc_07", Test("precision")),
            ("planes", Test("nhwc")),
            ("ptx", Run("ptx")),
            ("repaired", Repaired),
            ("shapes", Run("gemm")),
            ("slices", Run("gemm")),
            ("streams", Run("streams")),
            ("swizzled", Run("gemm")),
            ("temporal", Test("temporal")),
            ("tensor_parallel", Test("tensor_parallel")),
            ("wgmma", Run("gemm")),
            ("wmma", Run("gemm")),
        ],
    ),
    ("phase5-bench", &[("fma_peak", Run("gemm"))]),
];

/// What runs one kernel.
pub(crate) struct Rerun<'a> {
    /// The package that has it.
    pub package: &'static str,
    /// How.
    pub way: Way,
    /// For a gallery, the number in the file's name.
    pub number: &'a str,
}

impl Rerun<'_> {
    /// The command that one types.
    pub(crate) fn command(&self) -> String {
        let Rerun { package, way, number } = self;
        match way {
            Run(arguments) => format!("cargo run -p {package} -- {arguments}"),
            Gallery => format!("cargo run -p {package} -- broken {number}"),
            Repaired => format!("cargo run -p {package} -- broken {number} --repaired"),
            Test(test) => format!("cargo test -p {package} --test {test}"),
        }
    }
}

/// What runs a kernel, named as `PACKAGE/kernels/NAME.cu`; `Ok(None)` if the file is no kernel of a package of this table.
///
/// # Errors
/// The file, if its package is in the table but no family takes it.
pub(crate) fn of(file: &str) -> Result<Option<Rerun<'_>>, String> {
    let Some((package, name)) = file.split_once("/kernels/") else { return Ok(None) };
    let Some((package, families)) = FAMILIES.iter().find(|(known, _)| *known == package) else { return Ok(None) };
    let Some(stem) = name.strip_suffix(".cu").or_else(|| name.strip_suffix(".cuh")) else { return Ok(None) };
    let family = families.iter().filter(|(begins, _)| stem.starts_with(begins)).max_by_key(|(begins, _)| begins.len());
    let &(begins, way) = family.ok_or_else(|| file.to_owned())?;
    let number = stem[begins.len()..].trim_start_matches('_').split('_').next().unwrap_or_default();
    Ok(Some(Rerun { package, way, number }))
}

/// The command that runs a kernel, named as `PACKAGE/kernels/NAME.cu`; `Ok(None)` if the file is no kernel of the course's packages.
///
/// # Errors
/// The file, if its package is known but no way to run it.
pub fn command(file: &str) -> Result<Option<String>, String> {
    Ok(of(file)?.map(|rerun| rerun.command()))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn the_longest_beginning_decides() {
        let of = |file: &str| command(file).ok().flatten().unwrap_or_default();
        assert_eq!(of("phase3-all-layers/kernels/add_01.cu"), "cargo test -p phase3-all-layers --test layers");
        assert_eq!(
            of("phase3-all-layers/kernels/add_noise_01.cu"),
            "cargo test -p phase3-all-layers --test elementwise"
        );
        assert_eq!(
            of("phase1-infra/kernels/repaired_04_transpose.cu"),
            "cargo run -p phase1-infra -- broken 04 --repaired"
        );
        assert_eq!(command("phase2-conv-bn/kernels/mystery.cuh"), Err("phase2-conv-bn/kernels/mystery.cuh".to_owned()));
        assert_eq!(command("phase2-conv-bn/src/lib.rs"), Ok(None));
    }

    /// Parts, steps and files of tests that the table names are there.
    #[test]
    fn commands_exist() {
        let parts = |package: &str| -> Vec<&str> {
            match package {
                "phase1-infra" => phase1_infra::STEPS.iter().map(|step| step.name).collect(),
                "phase2-conv-bn" => phase2_conv_bn::report::PARTS.iter().map(|part| part.name).collect(),
                "phase4-fusion" => phase4_fusion::report::PARTS.iter().map(|part| part.name).collect(),
                "phase5-bench" => phase5_bench::tables::TABLES.iter().map(|table| table.name).collect(),
                _ => Vec::new(),
            }
        };
        let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        for (package, families) in FAMILIES {
            for (begins, way) in families {
                let is_there = match way {
                    Run(part) => parts(package).contains(part),
                    Gallery | Repaired => workspace.join(package).join("src/broken.rs").is_file(),
                    Test(test) => workspace.join(package).join("tests").join(format!("{test}.rs")).is_file(),
                };
                assert!(is_there, "{package}: {begins}: {way:?}");
            }
        }
    }
}
