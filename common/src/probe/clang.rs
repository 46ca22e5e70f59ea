//! Clang on this machine, and NVIDIA's libdevice for it.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use super::{Component, in_path, roots};

/// The oldest version whose headers and code the course is tested with.
const OLDEST: u32 = 19;

/// The one command that installs it. On macOS, pip has to be told to take the wheel for Linux; libdevice is the same everywhere.
pub(crate) const REMEDY: &str = if cfg!(target_os = "macos") {
    "brew install llvm@19 && python3 -m pip install --target ~/.local/lib/python3/site-packages \
     --platform manylinux2014_x86_64 --only-binary=:all: --no-deps \"nvidia-nvvm==13.0.*\""
} else if cfg!(windows) {
    "winget install LLVM.LLVM; py -m venv .venv; .venv\\Scripts\\activate; pip install \"nvidia-nvvm==13.0.*\""
} else {
    "sudo apt install clang-19 && python3 -m venv .venv && . .venv/bin/activate && pip install \"nvidia-nvvm==13.0.*\""
};

/// A clang that makes PTX.
#[derive(Debug)]
pub(crate) struct Clang {
    pub(crate) path: PathBuf,
    /// `19.1.7`.
    pub(crate) version: String,
    /// The mathematics, as bitcode.
    pub(crate) libdevice: PathBuf,
}

/// This machine's clang, looked for once; `Err` lists those that were tried and the problem with each.
pub(crate) fn clang() -> Result<&'static Clang, &'static str> {
    static CLANG: OnceLock<Result<Clang, String>> = OnceLock::new();
    CLANG.get_or_init(Clang::find).as_ref().map_err(String::as_str)
}

impl Clang {
    fn find() -> Result<Clang, String> {
        let mut failures = Vec::new();
        for path in candidates() {
            match version(&path) {
                Ok(version) => {
                    let mut all = roots().into_iter().map(|root| root.join("nvvm/libdevice/libdevice.10.bc"));
                    let libdevice = all.find(|file| file.is_file()).ok_or("NVIDIA's libdevice.10.bc not found")?;
                    return Ok(Clang { path, version, libdevice });
                }
                Err(reason) => failures.push(format!("{}: {reason}", path.display())),
            }
        }
        Err(if failures.is_empty() { "clang not found".to_owned() } else { failures.join("; ") })
    }
}

/// The row of `doctor`.
pub(super) fn component() -> Component {
    let found = clang();
    Component {
        name: "clang",
        present: found.is_ok(),
        version: found.ok().map(|clang| clang.version.clone()),
        path: found.ok().map(|clang| clang.path.clone()),
        detail: found.err().map(str::to_owned),
        without: "kernels cannot be compiled where NVRTC is absent",
        remedy: REMEDY,
    }
}

/// Where a clang may be: what `WARP_CLANG` names, and nothing else if it is set; else those that PATH leads to, and Homebrew's.
fn candidates() -> Vec<PathBuf> {
    if let Some(path) = env::var_os("WARP_CLANG").filter(|path| !path.is_empty()) {
        return vec![path.into()];
    }
    let tested = format!("clang-{OLDEST}");
    let homebrew = [format!("llvm@{OLDEST}"), "llvm".to_owned()].into_iter().flat_map(|formula| {
        ["/opt/homebrew/opt", "/usr/local/opt"].map(|opt| Path::new(opt).join(&formula).join("bin/clang"))
    });
    in_path(&tested).chain(homebrew.filter(|path| path.is_file())).chain(in_path("clang")).collect()
}

/// The version of the clang at `path`, if it is one that will do.
fn version(path: &Path) -> Result<String, String> {
    if !path.is_absolute() {
        return Err("not an absolute path".to_owned());
    }
    let ask = |argument: &str| {
        let output = Command::new(path).arg(argument).output().map_err(|error| error.to_string())?;
        Ok::<_, String>(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    let version = ask("-dumpversion")?;
    let major = version.split('.').next().and_then(|major| major.parse::<u32>().ok());
    let major = major.ok_or("it does not say its version, so it is not clang")?;
    if major < OLDEST {
        return Err(format!("it is version {version}, and {OLDEST} is the oldest that will do"));
    }
    // Apple's has none.
    if !ask("--print-targets")?.contains("nvptx64") {
        return Err("it cannot make code for NVIDIA's GPUs".to_owned());
    }
    Ok(version)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(unix)]
    fn a_clang_is_asked_whether_it_will_do() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let clang = folder.path().join("clang");
        for (said, targets, outcome) in [
            ("19.1.7", "nvptx64", Ok("19.1.7")),
            ("16.0.0", "nvptx64", Err("19 is the oldest")),
            ("21.0.0", "arm64", Err("cannot make code")),
            ("gcc", "nvptx64", Err("not clang")),
        ] {
            std::fs::write(&clang, format!("#!/bin/sh\ncase $1 in -d*) echo {said};; *) echo {targets};; esac\n"))
                .unwrap();
            std::fs::set_permissions(&clang, std::fs::Permissions::from_mode(0o755)).unwrap();
            let mut found = version(&clang);
            // A process that another test starts may hold the script open for writing for a moment.
            while found.as_ref().is_err_and(|reason| reason.contains("busy")) {
                found = version(&clang);
            }
            match (found, outcome) {
                (Ok(found), Ok(expected)) => assert_eq!(found, expected),
                (Err(reason), Err(expected)) => assert!(reason.contains(expected), "{reason}"),
                (found, _) => panic!("{said}: {found:?}"),
            }
        }
        assert!(version(Path::new("clang")).unwrap_err().contains("absolute"));
    }
}
