//! The PTX in the repository: made once with NVRTC and checked against its source from then on.
//!
//! Beside `kernels/NAME.cu` lies `kernels/ptx/NAME.ptx.gz`, whose text has a head that says which source it was made from. It runs
//! where there is no NVRTC. It is the same text on every machine, since paths are relative to the workspace.

use std::fs;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::read::{GzDecoder, GzEncoder};
use sha2::{Digest, Sha256};

use super::compiler::{Compiler, CompilerName};
use super::{Current, forward_slashes, run};
use crate::error::{Error, Result};
use crate::{probe, replace};

/// Whether a kernel's shipped PTX fits its source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// Made from this source.
    Fresh,
    /// There is no shipped PTX.
    Missing,
    /// The source has changed since.
    Stale,
    /// The head names this source, but the rest is not the shipped text.
    Damaged,
    /// The head names this source, but the same compiler produces another text from it.
    Differs,
}

impl Status {
    /// One word for a table.
    pub fn as_str(self) -> &'static str {
        match self {
            Status::Fresh => "fresh",
            Status::Missing => "missing",
            Status::Stale => "stale",
            Status::Damaged => "damaged",
            Status::Differs => "differs",
        }
    }
}

/// The nearest directory from `start` upwards whose `Cargo.toml` is a workspace's.
pub fn workspace_root(start: &Path) -> Option<PathBuf> {
    start
        .ancestors()
        .find(|dir| {
            fs::read_to_string(dir.join("Cargo.toml"))
                .is_ok_and(|text| text.lines().any(|line| line.trim() == "[workspace]"))
        })
        .map(Path::to_owned)
}

/// Where the PTX of a kernel file is shipped: `kernels/ptx/NAME.ptx.gz` for `kernels/NAME.cu`.
pub fn shipped_path(kernel: &Path) -> PathBuf {
    let name = Path::new(kernel.file_stem().unwrap_or_default()).with_extension("ptx.gz");
    kernel.with_file_name("ptx").join(name)
}

/// Every `.cu` in a directory called `kernels` or `questions` below `root`, in order, except those with their `.ptx` right beside
/// them, which have a script of their own.
///
/// # Errors
/// [`Error::Io`] if a directory cannot be read.
pub fn kernels(root: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut pending = vec![root.to_owned()];
    while let Some(dir) = pending.pop() {
        for entry in fs::read_dir(&dir).map_err(Error::io(&dir))? {
            let entry = entry.map_err(Error::io(&dir))?;
            let path = entry.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            // Not followed if it is a link, which could lead back here.
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                if !name.starts_with('.') && name != "target" {
                    pending.push(path);
                }
            } else if path.extension().is_some_and(|extension| extension == "cu")
                && dir.file_name().is_some_and(|name| name == "kernels" || name == "questions")
                && !path.with_extension("ptx").exists()
            {
                found.push(path);
            }
        }
    }
    found.sort();
    Ok(found)
}

/// Bytes to ship for a text: gzip without a time or a name, so the same on every machine.
///
/// # Errors
/// None in practice: memory takes all that is written.
pub fn compress(ptx: &str) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    GzEncoder::new(ptx.as_bytes(), Compression::best()).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Text of shipped bytes.
pub(crate) fn decompress(shipped: &[u8]) -> io::Result<String> {
    let mut ptx = String::new();
    GzDecoder::new(shipped).read_to_string(&mut ptx)?;
    Ok(ptx)
}

/// Text of the PTX that is shipped for `kernel`.
///
/// # Errors
/// [`Error::Io`] if there is none or it is damaged.
pub fn read(kernel: &Path) -> Result<String> {
    let path = shipped_path(kernel);
    fs::read(&path).and_then(|shipped| decompress(&shipped)).map_err(Error::io(&path))
}

/// The hash of the source that shipped PTX was made from, as its head says; no more than the head is decompressed.
pub(crate) fn source_hash(shipped: &[u8]) -> Option<String> {
    let lines = BufReader::new(GzDecoder::new(shipped)).lines().map_while(io::Result::ok);
    let mut head = lines.take_while(|line| line.starts_with("//"));
    head.find_map(|line| Some(line.strip_prefix("// sha256: ")?.trim().to_owned()))
}

/// Prefix of the line of the head with the hash of the rest.
const BODY_HASH: &str = "// body sha256: ";

/// True if the text after the head is the text that was shipped.
pub(crate) fn is_whole(ptx: &str) -> bool {
    let mut rest = ptx;
    while let Some((line, body)) = rest.split_once('\n')
        && line.starts_with("//")
    {
        if let Some(hash) = line.strip_prefix(BODY_HASH) {
            return hash == hash_of(body);
        }
        rest = body;
    }
    false
}

fn hash_of(text: &str) -> String {
    super::hex(&Sha256::digest(text))
}

/// The PTX text to ship for `kernel`, a file inside the workspace at `root`.
///
/// # Errors
/// [`Error::CompilerMissing`], [`Error::Compile`], [`Error::Io`].
pub fn generate(kernel: &Path, root: &Path) -> Result<String> {
    let nvrtc = Compiler::find(CompilerName::Nvrtc).map_err(|missing| Error::CompilerMissing {
        file: kernel.display().to_string(),
        why: "its PTX is to be shipped".to_owned(),
        missing,
    })?;
    generate_with(nvrtc, kernel, root)
}

fn generate_with(nvrtc: Compiler, kernel: &Path, root: &Path) -> Result<String> {
    let current = Current::read(kernel)?;
    let head = current.head();
    let label = forward_slashes(kernel.strip_prefix(root).unwrap_or(kernel));
    let options = current.options(&head.architecture, &label)?;
    // By its relative name, so that `__FILE__` in an assertion is the same on every machine.
    let output = run(nvrtc, &current, &label, &label, &options)?;
    let shown: Vec<_> =
        options.iter().filter(|option| !option.starts_with("--include-path")).map(String::as_str).collect();
    let bases: Vec<&Path> = probe::include_dirs().iter().map(PathBuf::as_path).chain([root]).collect();
    let body = compact(&relative_files(&output.ptx, &label, &bases));
    Ok(format!(
        "// {label}, compiled by `cargo run -p common --bin ship-ptx`. Edit the .cu, not this.\n\
         // sha256: {}\n\
         // compiler: {nvrtc} {}\n\
         {BODY_HASH}{}\n{body}",
        current.hash(),
        shown.join(" "),
        hash_of(&body),
    ))
}

/// Compilations of a kernel that may differ from what is shipped. NVRTC makes either of two texts from the largest kernel, with other
/// numbers of registers in a tenth of its runs.
const COMPILATIONS: usize = 4;

/// Compares the shipped PTX of `kernel` with its source and, if this machine's NVRTC is the version that made it, with a new
/// compilation.
///
/// # Errors
/// [`Error::Compile`], [`Error::Io`].
pub fn check(kernel: &Path, root: &Path) -> Result<Status> {
    let Ok(shipped) = fs::read(shipped_path(kernel)) else {
        return Ok(Status::Missing);
    };
    if source_hash(&shipped) != Some(Current::read(kernel)?.hash()) {
        return Ok(Status::Stale);
    }
    let Some(shipped) = decompress(&shipped).ok().filter(|ptx| is_whole(ptx)) else {
        return Ok(Status::Damaged);
    };
    let maker = |text: &str| build_line(text).map(str::to_owned);
    match Compiler::find(CompilerName::Nvrtc) {
        Err(_) => Ok(Status::Fresh),
        Ok(nvrtc) => {
            for _ in 0..COMPILATIONS {
                let made = generate_with(nvrtc, kernel, root)?;
                if made == shipped || maker(&made) != maker(&shipped) {
                    return Ok(Status::Fresh);
                }
            }
            Ok(Status::Differs)
        }
    }
}

/// `Cuda compilation tools, release 13.0, V13.0.88`.
fn build_line(ptx: &str) -> Option<&str> {
    ptx.lines().find(|line| line.starts_with("// Cuda compilation tools"))
}

/// Writes `text` as the PTX of `kernel`; true if that changed the file.
///
/// # Errors
/// [`Error::Io`].
pub fn write(kernel: &Path, text: &str) -> Result<bool> {
    if read(kernel).is_ok_and(|present| present == text) {
        return Ok(false);
    }
    let path = shipped_path(kernel);
    let dir = path.parent().unwrap_or(&path);
    fs::create_dir_all(dir).map_err(Error::io(dir))?;
    compress(text).and_then(|bytes| replace::write(&path, &bytes)).map_err(Error::io(&path))?;
    Ok(true)
}

/// The same program in fewer bytes: without empty lines and the body's comments, with one space after an opcode, and with a short
/// name for the label that each inlined `.loc` names. Diagnostics need the `.loc` lines, so they stay.
fn compact(ptx: &str) -> String {
    let mut out = String::with_capacity(ptx.len());
    let mut in_head = true;
    for line in ptx.lines().map(str::trim_end).filter(|line| !line.is_empty()) {
        in_head &= line.starts_with("//");
        if in_head || !line.trim_start().starts_with("//") {
            out.push_str(&line.replace(" \t", " ").replace("$L__info_string", "$F"));
            out.push('\n');
        }
    }
    out
}

/// Makes the paths of `.file` lines relative: the kernel's own is its label, a header's is relative to the first of `bases` that
/// holds it, and any other is a bare name. CUDA's headers may lie inside the workspace (`target/venv`), so they come before it.
fn relative_files(ptx: &str, label: &str, bases: &[&Path]) -> String {
    let bases: Vec<String> =
        bases.iter().map(|dir| format!("{}/", forward_slashes(dir).trim_end_matches('/'))).collect();
    // NVRTC puts the current directory before the label.
    let own = format!("/{label}");
    let mut out = String::with_capacity(ptx.len());
    for line in ptx.lines() {
        let parts = line
            .trim_start()
            .strip_prefix(".file")
            .and_then(|rest| rest.split_once('"'))
            .and_then(|(index, rest)| Some((index.trim(), rest.rsplit_once('"')?)));
        match parts {
            Some((index, (path, rest))) => {
                let path = path.replace("\\\\", "/").replace('\\', "/");
                let in_base = || bases.iter().find_map(|base| path.strip_prefix(base.as_str()));
                let relative = if path.ends_with(&own) {
                    label
                } else {
                    in_base().unwrap_or_else(|| path.rsplit('/').next().unwrap_or(&path))
                };
                out.push_str(&format!("\t.file\t{index} \"{relative}\"{rest}\n"));
            }
            None => {
                out.push_str(line);
                out.push('\n');
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_paths_become_relative_and_other_lines_stay() {
        let bases = ["/home/someone/warp/target/venv/include", "/home/someone/warp"].map(Path::new);
        let ptx = "\tmov.u32 %r1, \"a/b\";\n\
                   \t.file\t1 \"/somewhere/else/phase1/kernels/a.cu\"\n\
                   \t.file\t2 \"/home/someone/warp/phase1/kernels/a.h\"\n\
                   \t.file\t3 \"C:\\\\x\\\\b.h\", 1, 2\n\
                   \t.file\t4 \"/home/someone/warp/target/venv/include/crt/mma.hpp\"\n";
        assert_eq!(
            relative_files(ptx, "phase1/kernels/a.cu", &bases),
            "\tmov.u32 %r1, \"a/b\";\n\
             \t.file\t1 \"phase1/kernels/a.cu\"\n\
             \t.file\t2 \"phase1/kernels/a.h\"\n\
             \t.file\t3 \"b.h\", 1, 2\n\
             \t.file\t4 \"crt/mma.hpp\"\n"
        );
    }

    #[test]
    fn compaction_keeps_the_program_and_its_lines() {
        let ptx = "//\n// Cuda compilation tools\n//\n\n.version 9.0\n\t// .globl\tk\n\tadd.s32 \t%r1, %r2, 1;\n\
                   $L__BB0_1:                  // the loop\n\
                   \t.loc\t1 2 3, function_name $L__info_string18, inlined_at 1 9 5\n$L__info_string18:\n";
        assert_eq!(
            compact(ptx),
            "//\n// Cuda compilation tools\n//\n.version 9.0\n\tadd.s32 %r1, %r2, 1;\n\
             $L__BB0_1:                  // the loop\n\
             \t.loc\t1 2 3, function_name $F18, inlined_at 1 9 5\n$F18:\n"
        );
    }

    #[test]
    fn the_body_has_a_hash_of_its_own() {
        let body = ".version 9.0\n";
        let ptx = format!("// a.cu\n// sha256: 12ab\n{BODY_HASH}{}\n{body}", hash_of(body));
        assert!(is_whole(&ptx));
        for damaged in [ptx.replace("9.0", "9.1"), ptx.replace(BODY_HASH, "// sha257: "), ptx + "\n", String::new()] {
            assert!(!is_whole(&damaged), "{damaged}");
        }
    }

    #[test]
    fn the_hash_is_read_from_the_head_alone() {
        let hash = |ptx: &str| source_hash(&compress(ptx).unwrap());
        assert_eq!(hash("// a.cu\n// sha256: 12ab \n.version 9.0").as_deref(), Some("12ab"));
        assert_eq!(hash(".version 9.0\n// sha256: 12ab\n"), None);
        // What follows may be cut off, or be no gzip at all.
        let long = format!("// sha256: 12ab\n{}", (0..99_999).map(|line| format!("{line}\n")).collect::<String>());
        let bytes = compress(&long).unwrap();
        assert_eq!(source_hash(&bytes[..bytes.len() / 2]).as_deref(), Some("12ab"));
        assert_eq!((source_hash(b"// sha256: 12ab\n"), decompress(&bytes).unwrap()), (None, long));
    }
}
