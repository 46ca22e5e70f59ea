//! Processes without network that can write to no more than one folder, by the system's own tool.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use common::probe;

/// The system's tool.
#[derive(Clone, Debug)]
pub enum Isolation {
    /// Linux: namespaces, by [bubblewrap](https://github.com/containers/bubblewrap).
    Bubblewrap(PathBuf),
    /// macOS: the kernel's sandbox, by `sandbox-exec`.
    Seatbelt(PathBuf),
}

impl Isolation {
    /// The tool of this system, which was tried.
    ///
    /// # Errors
    /// A sentence with what is missing, or what it says against it.
    pub fn find() -> Result<Isolation> {
        let isolation = if cfg!(target_os = "macos") {
            Isolation::Seatbelt("/usr/bin/sandbox-exec".into())
        } else if cfg!(target_os = "linux") {
            let found = probe::in_path("bwrap").next();
            Isolation::Bubblewrap(found.context("isolation needs bubblewrap: sudo apt install bubblewrap")?)
        } else {
            bail!("this system has no tool for isolation: use a container or WSL, where bubblewrap does it")
        };
        let folder = tempfile::tempdir()?;
        let tried = isolation.command("/usr/bin/true", folder.path()).stdin(Stdio::null()).output();
        let tried = tried.with_context(|| format!("{isolation:?} cannot be run"))?;
        if !tried.status.success() {
            bail!("isolation does not work here: {}", String::from_utf8_lossy(&tried.stderr).trim());
        }
        Ok(isolation)
    }

    /// A command for `program`, which can write to `folder` alone. It reads whatever this process can.
    pub fn command(&self, program: impl AsRef<OsStr>, folder: &Path) -> Command {
        match self {
            Isolation::Bubblewrap(tool) => {
                let mut command = Command::new(tool);
                command.args(["--unshare-all", "--die-with-parent", "--ro-bind", "/", "/", "--dev", "/dev"]);
                command.args(["--proc", "/proc", "--bind"]).args([folder, folder]).arg("--").arg(program);
                command
            }
            Isolation::Seatbelt(tool) => {
                const PROFILE: &str = "(version 1)(allow default)(deny network*)(deny file-write*)\
                                       (allow file-write* (subpath (param \"FOLDER\")) (literal \"/dev/null\"))";
                let mut named = std::ffi::OsString::from("FOLDER=");
                // Rules hold for paths without links, and temporary folders are behind one.
                named.push(folder.canonicalize().unwrap_or_else(|_| folder.to_owned()));
                let mut command = Command::new(tool);
                command.arg("-D").arg(named).args(["-p", PROFILE]).arg(program);
                command
            }
        }
    }
}
