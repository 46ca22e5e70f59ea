//! Registers of a kernel, from `ptxas -v` where there is one: the simulator has as many as PTX names.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Registers a thread of `kernel` when `ptx` is compiled for `arch`. The error says why they are not known.
pub(crate) fn registers(ptx: &Path, arch: &str, kernel: &str) -> Result<u32, String> {
    let candidates = candidates();
    let found = candidates.iter().find(|path| path.is_file());
    let ptxas = found.ok_or("no ptxas found on PATH, in CUDA_PATH, CUDA_HOME or a Python environment")?;
    // what it compiles is not wanted, only what it says
    let folder = std::env::temp_dir();
    let out = folder.join(format!("ptx-sim-{}.cubin", std::process::id()));
    let output = Command::new(ptxas).arg("-v").arg(format!("-arch={arch}")).arg("-o").arg(&out).arg(ptx).output();
    let _ = std::fs::remove_file(&out); // there is none if it failed
    let output = output.map_err(|error| format!("cannot run `{}`: {error}", ptxas.display()))?;
    let said = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    if !output.status.success() {
        return Err(format!("ptxas: {}", said.lines().next().unwrap_or("it failed without a word")));
    }
    used(&said, kernel).ok_or_else(|| format!("ptxas says nothing of `{kernel}`"))
}

/// Of what `ptxas -v` says of all kernels, that one's "Used 24 registers".
fn used(said: &str, kernel: &str) -> Option<u32> {
    let about =
        said.split("Compiling entry function").find(|part| part.trim_start().starts_with(&format!("'{kernel}'")))?;
    about.split_once("Used ")?.1.split_once(" registers")?.0.parse().ok()
}

fn candidates() -> Vec<PathBuf> {
    let name = format!("ptxas{}", std::env::consts::EXE_SUFFIX);
    let var = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let mut folders: Vec<PathBuf> =
        std::env::var_os("PATH").map(|path| std::env::split_paths(&path).collect()).unwrap_or_default();
    let environments: Vec<PathBuf> = ["VIRTUAL_ENV", "CONDA_PREFIX"].into_iter().filter_map(var).collect();
    folders.extend(["CUDA_PATH", "CUDA_HOME", "CONDA_PREFIX"].into_iter().filter_map(var).map(|root| root.join("bin")));
    for environment in environments {
        // lib/python3.12/site-packages on Unix, Lib\site-packages on Windows
        let versions =
            std::fs::read_dir(environment.join("lib")).into_iter().flatten().flatten().map(|entry| entry.path());
        for library in versions.chain([environment.join("Lib")]) {
            let nvidia = library.join("site-packages").join("nvidia");
            folders.extend(["cu13", "cuda_nvcc"].map(|package| nvidia.join(package).join("bin")));
        }
    }
    folders.into_iter().map(|folder| folder.join(&name)).collect()
}

#[cfg(test)]
mod tests {
    #[test]
    fn each_kernel_has_registers_of_its_own() {
        let said = "\
ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'scale2' for 'sm_90'
ptxas info    : Function properties for scale2
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 12 registers, used 0 barriers, 360 bytes cmem[0]
ptxas info    : Compiling entry function 'scale' for 'sm_90'
ptxas info    : Used 40 registers, used 1 barriers
";
        assert_eq!(super::used(said, "scale"), Some(40));
        assert_eq!(super::used(said, "scale2"), Some(12));
        assert_eq!(super::used(said, "sca"), None);
    }
}
