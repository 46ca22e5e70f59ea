//! Clang: CUDA C to PTX, in a process of its own, where there is no NVRTC, as on macOS.
//!
//! Neither CUDA's headers nor a C library are used: clang has its own headers for the device, and [`PRELUDE`] adds what they expect
//! from CUDA's. NVIDIA's libdevice has the mathematics, so a kernel computes what it computes with NVRTC.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Component, Path, PathBuf};
use std::process::Command;

use super::edits::without_dots;
use super::nvrtc::Output;
use crate::probe::clang::Clang;

/// The text before each kernel.
const PRELUDE: &str = include_str!("clang.cuh");

/// A header of CUDA's that clang's include; the prelude has its functions.
const EMPTY_HEADER: &str = "crt/sm_70_rt.hpp";

/// PTX ISA of the output; the first that has `sm_90a`.
const PTX: &str = "+ptx80";

/// Everything that the output depends on besides the source and its options.
pub(super) fn identity(clang: &Clang) -> String {
    format!("clang {} {} {PTX} {PRELUDE}", clang.version, clang.libdevice.display())
}

/// Compiles `source`, named `name` in messages, with headers by their names in `#include` and NVRTC's options. `Err` is the
/// compiler's log.
pub(super) fn compile(
    clang: &Clang,
    source: &str,
    name: &str,
    headers: &BTreeMap<String, String>,
    options: &[String],
) -> Result<Output, String> {
    let Translated { defines, arguments } = translated(options)?;
    let cannot = |error: std::io::Error| format!("{} cannot be run: {error}", clang.path.display());
    let temporary = tempfile::tempdir().map_err(cannot)?;
    let folder = lay_out(temporary.path(), headers).map_err(cannot)?;
    let file = folder.join("kernel.cu");
    let quoted = name.replace('\\', "\\\\").replace('"', "\\\"");
    fs::write(&file, format!("#line 1 \"clang.cuh\"\n{PRELUDE}{defines}#line 1 \"{quoted}\"\n{source}"))
        .map_err(cannot)?;
    let output = Command::new(&clang.path)
        .args(["--no-default-config", "-x", "cuda", "--cuda-device-only", "-S", "-O3", "-w", "-o", "-"])
        // The same types on every machine.
        .args(["--target=x86_64-unknown-linux-gnu", "-nocudainc", "-nocudalib", "-nostdlibinc"])
        .arg(format!("--cuda-feature={PTX}"))
        .args(["-std=c++17", "-ffp-contract=fast"])
        .args(["-Xclang", "-mlink-builtin-bitcode", "-Xclang"])
        .arg(&clang.libdevice)
        .arg("-isystem")
        .arg(temporary.path())
        .args(arguments)
        .arg(&file)
        .output()
        .map_err(cannot)?;
    if !output.status.success() {
        let log = String::from_utf8_lossy(&output.stderr);
        return Err(match log.trim_end() {
            "" => format!("{} ended with {}", clang.path.display(), output.status),
            log => log.to_owned(),
        });
    }
    Ok(Output { ptx: String::from_utf8_lossy(&output.stdout).into_owned(), cubin: None })
}

/// Writes the headers below `root`, and returns the folder in which their names lead to them.
fn lay_out(root: &Path, headers: &BTreeMap<String, String>) -> std::io::Result<PathBuf> {
    let up = |name: &String| Path::new(name).components().filter(|part| *part == Component::ParentDir).count();
    let mut folder = root.join("kernels");
    folder.extend(vec!["below"; headers.keys().map(up).max().unwrap_or(0)]);
    fs::create_dir_all(&folder)?;
    let empty = root.join(EMPTY_HEADER);
    fs::create_dir_all(empty.parent().unwrap_or(root))?;
    fs::write(empty, "")?;
    // Clang finds one with an absolute path by itself.
    for (name, text) in headers.iter().filter(|(name, _)| Path::new(name).is_relative()) {
        let path = without_dots(&folder.join(name));
        fs::create_dir_all(path.parent().unwrap_or(root))?;
        fs::write(path, text)?;
    }
    Ok(folder)
}

/// Options for clang.
#[derive(Debug, Default, PartialEq, Eq)]
struct Translated {
    /// Lines of the text: a macro must not change the prelude.
    defines: String,
    arguments: Vec<String>,
}

/// Translates NVRTC's options. `Err` names one that clang has nothing for.
fn translated(options: &[String]) -> Result<Translated, String> {
    let mut all = Translated::default();
    for option in options {
        let (name, value) = option.split_once('=').map_or((option.as_str(), None), |(name, value)| (name, Some(value)));
        let defined = option.strip_prefix("-D").or_else(|| option.strip_prefix("--define-macro="));
        if let Some(defined) = defined {
            let (name, value) = defined.split_once('=').unwrap_or((defined, "1"));
            all.defines += &format!("#define {name} {value}\n");
            continue;
        }
        let arguments: &[&str] = match (name, value) {
            ("-lineinfo", None) => &["-gline-tables-only"],
            ("--use_fast_math", None) => &[
                "-fgpu-flush-denormals-to-zero",
                "-fgpu-approx-transcendentals",
                "-mllvm",
                "-nvptx-prec-divf32=0",
                "-mllvm",
                "-nvptx-prec-sqrtf32=0",
            ],
            ("--fmad", Some("false")) => &["-ffp-contract=off"],
            ("--ftz", Some("true")) => &["-fgpu-flush-denormals-to-zero"],
            ("--prec-div", Some("false")) => &["-mllvm", "-nvptx-prec-divf32=1"],
            ("--prec-sqrt", Some("false")) => &["-mllvm", "-nvptx-prec-sqrtf32=0"],
            // What clang does in any case.
            ("--fmad" | "--prec-div" | "--prec-sqrt", Some("true")) | ("--ftz", Some("false")) => &[],
            // They change how fast code is, or how fast it is made.
            ("--Ofast-compile" | "--maxrregcount", Some(_)) | ("--extra-device-vectorization" | "--restrict", None) => {
                &[]
            }
            ("--gpu-architecture", Some(architecture)) => {
                all.arguments.push(format!("--cuda-gpu-arch={}", architecture.replace("compute_", "sm_")));
                continue;
            }
            ("--std", Some(standard)) => {
                all.arguments.push(format!("-std={standard}"));
                continue;
            }
            ("--include-path", Some(folder)) => {
                all.arguments.extend(["-I".to_owned(), folder.to_owned()]);
                continue;
            }
            _ => return Err(format!("`{option}`: clang has no such option, so NVRTC has to compile this kernel")),
        };
        all.arguments.extend(arguments.iter().map(|&argument| argument.to_owned()));
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_of_nvrtc_are_translated_or_refused() {
        let translated = |options: &[&str]| translated(&options.iter().map(|&o| o.to_owned()).collect::<Vec<_>>());
        let all =
            translated(&["-lineinfo", "--gpu-architecture=compute_90a", "-DN=4", "-DON", "--fmad=false"]).unwrap();
        assert_eq!(all.defines, "#define N 4\n#define ON 1\n");
        assert_eq!(all.arguments, ["-gline-tables-only", "--cuda-gpu-arch=sm_90a", "-ffp-contract=off"]);
        assert_eq!(translated(&["--fmad=true", "--maxrregcount=32", "--ftz=false"]).unwrap(), Translated::default());
        for refused in ["--std", "--fmad=maybe", "--pre-include=/etc/passwd", "-Xclang", "@file"] {
            let refusal = translated(&[refused]).unwrap_err();
            assert!(refusal.contains(refused) && refusal.contains("NVRTC"), "{refusal}");
        }
    }

    #[test]
    fn headers_lie_where_their_names_lead_and_nowhere_else() {
        let root = tempfile::tempdir().unwrap();
        let outside = root.path().join("outside.cuh");
        let names = ["a.cuh", "../../two/kernels/b.cuh", outside.to_str().unwrap()];
        let headers = names.iter().map(|&name| (name.to_owned(), name.to_owned())).collect();
        let inside = root.path().join("inside");
        let folder = lay_out(&inside, &headers).unwrap();
        for name in &names[..2] {
            assert_eq!(fs::read_to_string(folder.join(name)).unwrap(), *name);
        }
        assert_eq!(fs::read_dir(root.path()).unwrap().count(), 1);
    }
}
