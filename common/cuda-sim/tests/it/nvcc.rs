//! Programs of nvcc. They need it and a host compiler; without them the tests say so and pass, unless `REQUIRE_NVCC=1`.

use std::path::{Path, PathBuf};
use std::process::{Command as Process, Output};

use assert_cmd::Command;

use crate::text;

/// Compiles a program of nvcc to `target`, or returns what nvcc says.
fn compile(nvcc: &Path, source: &Path, target: &Path) -> Result<(), String> {
    let folder = target.parent().unwrap();
    // Beside nvcc, wheels have no name without a version.
    let libraries = nvcc.parent().and_then(Path::parent).unwrap().join("lib");
    let (versioned, link) = (libraries.join("libcudart.so.13"), folder.join("libcudart.so"));
    if versioned.is_file() && !link.exists() {
        std::os::unix::fs::symlink(versioned, link).unwrap();
    }
    let compiled = Process::new(nvcc)
        .args(["-cudart", "shared", "-lineinfo", "-gencode", "arch=compute_75,code=compute_75"])
        .args([Path::new("-L"), folder, Path::new("-L"), &libraries, Path::new("-o"), target, source])
        .output();
    match compiled {
        Ok(Output { status, .. }) if status.success() => Ok(()),
        Ok(Output { stdout, stderr, .. }) => {
            Err(format!("{}{}", String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr)))
        }
        Err(error) => Err(format!("{}: {error}", nvcc.display())),
    }
}

/// An nvcc that compiles an empty program. A toolkit may be there in part, or of parts that do not fit.
fn nvcc(folder: &Path) -> Result<PathBuf, String> {
    let nvcc = ptx_sim::ptxas::tool("nvcc")?;
    let source = folder.join("probe.cu");
    std::fs::write(&source, "__global__ void probe() {} int main() { probe<<<1, 1>>>(); }").unwrap();
    compile(&nvcc, &source, &folder.join("probe")).map(|()| nvcc)
}

/// As [`nvcc`], or says that a test is skipped.
fn nvcc_for(test: &str, folder: &Path) -> Option<PathBuf> {
    nvcc(folder)
        .inspect_err(|reason| {
            assert!(std::env::var("REQUIRE_NVCC").is_err(), "REQUIRE_NVCC is set, but {reason}");
            println!("{test}: skipped, since {reason}");
        })
        .ok()
}

/// The program and the output that the book's page about CI shows.
#[test]
fn the_pages_program_is_right_and_fails_all_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let Some(nvcc) = nvcc_for("the_pages_program_is_right_and_fails_all_the_same", folder.path()) else { return };
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("ci");
    let (source, program) = (folder.path().join("sum.cu"), folder.path().join("sum"));
    std::fs::copy(page.join("sum.cu"), &source).unwrap();
    compile(&nvcc, &source, &program).unwrap();
    let run = |options: &[&str]| {
        let mut run = Command::cargo_bin("cuda-sim").unwrap();
        run.args(options).arg(&program).current_dir(folder.path()).output().unwrap()
    };
    let Output { status, stdout, .. } = run(&[]);
    assert!(status.success());
    assert_eq!(text(&stdout), "right\n");
    let Output { status, stdout, stderr } = run(&["--sanitize"]);
    assert_eq!((status.code(), text(&stdout)), (Some(1), "right\n"));
    let shown = std::fs::read_to_string(page.join("sum.txt")).unwrap();
    // What nvcc makes of it is its own matter.
    let lines = |text: &str| {
        text.lines().filter(|line| !line.contains("the instruction is")).map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(lines(&text(&stderr).replace(&format!("{}/", folder.path().display()), "")), lines(&shown));
}

#[test]
fn a_program_of_nvcc_runs_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let Some(nvcc) = nvcc_for("a_program_of_nvcc_runs_as_it_is", folder.path()) else { return };
    let program = folder.path().join("program");
    compile(&nvcc, &Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/program.cu"), &program).unwrap();
    for options in [[].as_slice(), &["--sanitize"]] {
        let mut run = Command::cargo_bin("cuda-sim").unwrap();
        let Output { status, stdout, stderr } = run.args(options).arg(&program).output().unwrap();
        let (stdout, stderr) = (text(&stdout), text(&stderr));
        assert!(status.success(), "{stdout}{stderr}");
        let expected = "\
launch 1 1
managed 87 1
host memory 1 0 1000
rows 99 999 1
capture 3 nodes, 2 1001
graph 1 1
cooperative 1 0, 2 blocks
attribute 1, pool 1
textures 0.5 9 68.5, 0.5 609.5
objects 1 1, 100 x 10 of 32 bits, 0
function 1024 threads, 8 constant, 0 local, at most 64 registers
_Z7add_onePfi 8 4, device 0, 528 clusters
errors cudaSuccess cudaErrorInvalidConfiguration cudaErrorInvalidConfiguration cudaSuccess
direction cudaErrorInvalidValue
device 9.0, warps of 32, 232448 bytes, cluster 1, reserved 0
";
        assert_eq!(stdout, expected);
        assert!(!stderr.contains("no version information"), "{stderr}");
        assert!(stderr.ends_with("cuda-sim: no findings\n"), "{stderr}");
    }
}
