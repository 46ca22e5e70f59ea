//! Hardware resources of a kernel, from `ptxas -v` if it is installed: the simulator has as many registers as PTX names.

use std::path::PathBuf;
use std::process::Command;

/// Resources that the compiler gave a kernel for one architecture.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Resources {
    /// The kernel's name.
    pub kernel: String,
    /// Registers per thread.
    pub registers: u32,
    /// Bytes of shared memory per block, declared in the source.
    pub shared: u32,
    /// Bytes of local memory per thread: its arrays, and what did not fit in registers.
    pub stack: u32,
    /// Bytes of registers that are written to local memory for want of registers, added up over the code.
    pub spill_stores: u32,
    /// Bytes that are read back.
    pub spill_loads: u32,
    /// Remarks of ptxas on its code, by number: `(C7510) Potential Performance Loss: wgmma.mma_async instructions are
    /// serialized due to …`.
    pub remarks: Vec<String>,
}

/// The resources of every kernel in the text `ptx`, in its order, when it is compiled for `arch`, such as `sm_90`.
///
/// # Errors
/// A sentence with the reason why they are not known.
pub fn resources(ptx: &str, arch: &str) -> Result<Vec<Resources>, String> {
    let ptxas = tool("ptxas")?;
    // What it compiles is not wanted, only what it says. In a folder of our own: in the shared one somebody might have put a
    // link where we write.
    let folder = tempfile::Builder::new().prefix("ptx-sim-").tempdir();
    let folder = folder.map_err(|error| format!("no temporary folder for ptxas: {error}"))?;
    let (file, out) = (folder.path().join("kernels.ptx"), folder.path().join("kernels.cubin"));
    std::fs::write(&file, ptx).map_err(|error| format!("cannot write `{}`: {error}", file.display()))?;
    let output = Command::new(&ptxas).arg("-v").arg(format!("-arch={arch}")).arg("-o").arg(&out).arg(file).output();
    let output = output.map_err(|error| format!("cannot run `{}`: {error}", ptxas.display()))?;
    let said = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    if !output.status.success() {
        return Err(format!("ptxas: {}", said.lines().next().unwrap_or("it failed without a word")));
    }
    Ok(of_kernels(&said))
}

/// Resources of all kernels in the output of `ptxas -v`.
fn of_kernels(said: &str) -> Vec<Resources> {
    // It works off the kernels in the opposite order, and remarks on their code before.
    let mut all: Vec<Resources> = said.split("Compiling entry function").skip(1).filter_map(of_kernel).collect();
    all.reverse();
    for remark in said.lines().filter_map(|line| line.split_once(": (C").map(|(_, rest)| format!("(C{rest}"))) {
        // `… in function 'scale'`; one that names no kernel goes to the first.
        let named = all.iter().position(|kernel| remark.ends_with(&format!("'{}'", kernel.kernel)));
        if let Some(kernel) = all.get_mut(named.unwrap_or(0)) {
            kernel.remarks.push(remark);
        }
    }
    all
}

/// Resources of one kernel in the output of `ptxas -v`.
fn of_kernel(said: &str) -> Option<Resources> {
    let before = |unit: &str| {
        let number = said.split_once(unit)?.0.rsplit([' ', '\n']).next()?;
        number.parse().ok()
    };
    Some(Resources {
        kernel: said.split('\'').nth(1)?.to_owned(),
        registers: before(" registers")?,
        shared: before(" bytes smem").unwrap_or(0),
        stack: before(" bytes stack frame").unwrap_or(0),
        spill_stores: before(" bytes spill stores").unwrap_or(0),
        spill_loads: before(" bytes spill loads").unwrap_or(0),
        remarks: Vec::new(),
    })
}

/// Registers per thread of `kernel`.
///
/// # Errors
/// Same as [`resources`], and if there is no such kernel.
pub fn registers(ptx: &str, arch: &str, kernel: &str) -> Result<u32, String> {
    let all = resources(ptx, arch)?;
    let found = all.iter().find(|resources| resources.kernel == kernel);
    found.map(|resources| resources.registers).ok_or_else(|| format!("ptxas says nothing of `{kernel}`"))
}

/// The compiler's version: `13.0.88`.
///
/// # Errors
/// Same as [`resources`].
pub fn version() -> Result<String, String> {
    let ptxas = tool("ptxas")?;
    let output = Command::new(&ptxas).arg("--version").output();
    let output = output.map_err(|error| format!("cannot run `{}`: {error}", ptxas.display()))?;
    let said = String::from_utf8_lossy(&output.stdout);
    of_release(&said).map(str::to_owned).ok_or_else(|| "ptxas does not say its version".to_owned())
}

/// `13.0.88` out of `Cuda compilation tools, release 13.0, V13.0.88`.
fn of_release(said: &str) -> Option<&str> {
    said.lines().find_map(|line| line.split_once(", release ")?.1.split_once(", V")).map(|(_, version)| version.trim())
}

/// A program of the CUDA toolkit: on PATH, in CUDA_PATH or CUDA_HOME, or in a Python environment.
///
/// # Errors
/// A sentence that lists the searched places.
pub fn tool(name: &str) -> Result<PathBuf, String> {
    let found = candidates(name).into_iter().find(|path| path.is_file());
    found.ok_or_else(|| format!("no {name} found on PATH, in CUDA_PATH, CUDA_HOME or a Python environment"))
}

fn candidates(name: &str) -> Vec<PathBuf> {
    let name = format!("{name}{}", std::env::consts::EXE_SUFFIX);
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
    // What lies in the working directory is not run.
    folders.into_iter().filter(|folder| folder.is_absolute()).map(|folder| folder.join(&name)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_read_as_it_is_printed() {
        let said =
            "ptxas: NVIDIA (R) Ptx optimizing assembler\nCuda compilation tools, release 13.0, V13.0.88\nBuild 3\n";
        assert_eq!(of_release(said), Some("13.0.88"));
        assert_eq!(of_release("ptxas"), None);
    }

    #[test]
    fn each_kernel_has_resources_of_its_own() {
        let said = "\
ptxas info    : (C7518) Potential Performance Loss: wgmma.mma_async instructions are serialized in the function 'scale'
ptxas info    : (C7517) warpgroup.wait is injected in around line 17 in function 'scale'
ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'scale2' for 'sm_90'
ptxas info    : Function properties for scale2
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 12 registers, used 0 barriers, 360 bytes cmem[0]
ptxas info    : Compiling entry function 'scale' for 'sm_90'
ptxas info    : Function properties for scale
    264 bytes stack frame, 8 bytes spill stores, 16 bytes spill loads
ptxas info    : Used 40 registers, used 1 barriers, 264 bytes cumulative stack size, 4096 bytes smem
";
        let small = Resources { kernel: "scale2".to_owned(), registers: 12, ..Resources::default() };
        let large = Resources {
            kernel: "scale".to_owned(),
            registers: 40,
            shared: 4096,
            stack: 264,
            spill_stores: 8,
            spill_loads: 16,
            remarks: vec![
                "(C7518) Potential Performance Loss: wgmma.mma_async instructions are serialized in the function 'scale'"
                    .to_owned(),
                "(C7517) warpgroup.wait is injected in around line 17 in function 'scale'".to_owned(),
            ],
        };
        assert_eq!(of_kernels(said), [large, small]);
    }
}
