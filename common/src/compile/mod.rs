//! Turns a `.cu` file into code that a device loads.
//!
//! [`kernel_source!`](crate::kernel_source) embeds a kernel's CUDA C and its headers, and in a build with `--release` the PTX
//! shipped beside it, so that such a program works away from its sources. If the file is on disk, it and its headers win over the
//! embedded ones, so a reader edits the `.cu` and runs again; Cargo rebuilds nothing for it, unless the build is a release. An
//! edited copy in the folder that `WARP_KERNELS` names wins over both: the folder has the layout of the workspace, and only the
//! files that differ (`phase1-infra/kernels/01_vector_add.cu`).
//!
//! | device | with NVRTC | without |
//! | --- | --- | --- |
//! | GPU | compiled for this very GPU (cubin), kept in the [disk cache](directory) | the shipped PTX, if it matches the source |
//! | simulator | the shipped PTX if it matches the source, else compiled to PTX | the shipped PTX, if it matches the source |
//!
//! The [`head`] of the `.cu` says which options it is compiled with, what runs it and what checks it. Kernels are
//! `extern "C" __global__`.
//!
//! [`ship`] makes and checks shipped PTX; `cargo run -p common --bin ship-ptx` runs it.

mod cache;
mod edits;
pub mod head;
mod nvrtc;
pub mod ptx;
pub mod ship;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use sha2::{Digest, Sha256};

use crate::error::{Error, Result};
use crate::probe;
use crate::progress::Progress;
use nvrtc::{Nvrtc, Output};

pub use cache::{can_keep, directory};
pub use head::KernelHead;

/// The oldest architecture that the course supports; shipped PTX is compiled for it.
pub const DEFAULT_ARCHITECTURE: &str = "compute_75";

/// Passed to every compilation. `.loc` lines cost nothing at run time, and diagnostics and profilers name CUDA lines by them.
const BASE_OPTIONS: &[&str] = &["-lineinfo"];

/// A kernel file: its CUDA C, the PTX shipped with it, and the location of both.
#[derive(Clone, Debug)]
pub struct KernelSource {
    /// The file's name without `.cu`.
    pub name: Cow<'static, str>,
    /// The directory, relative to the crate: `kernels`.
    pub dir: Cow<'static, str>,
    /// The crate's directory when it was built.
    pub manifest_dir: Cow<'static, str>,
    /// The embedded CUDA C.
    pub source: Cow<'static, str>,
    /// The embedded headers that it includes with quotes: the name in the `#include`, and the text.
    pub headers: Cow<'static, [(&'static str, &'static str)]>,
    /// The embedded PTX, compressed; `None` in a build for development, which reads it from the checkout ([`KernelSource::shipped_ptx`]).
    pub ptx: Option<Cow<'static, [u8]>>,
}

/// Embeds `kernels/NAME.cu`, the headers that it includes and `kernels/ptx/NAME.ptx.gz` of the calling crate as a [`KernelSource`];
/// with two arguments the directory is the first.
///
/// A new kernel's PTX must exist before its crate builds with `--release`: `cargo run -p common --bin ship-ptx` makes it.
#[macro_export]
macro_rules! kernel_source {
    ($name:literal) => {
        $crate::kernel_source!("kernels", $name)
    };
    ($dir:literal, $name:literal) => {
        $crate::compile::KernelSource {
            name: ::std::borrow::Cow::Borrowed($name),
            dir: ::std::borrow::Cow::Borrowed($dir),
            manifest_dir: ::std::borrow::Cow::Borrowed(env!("CARGO_MANIFEST_DIR")),
            source: ::std::borrow::Cow::Borrowed($crate::private::kernel_text!($dir, $name, ".cu")),
            headers: ::std::borrow::Cow::Borrowed($crate::private::kernel_headers!($dir, $name)),
            ptx: $crate::embedded_ptx!($dir, $name),
        }
    };
}

/// The PTX that a program carries: 8 MB in all, which every crate, test and example of a build for development would hold.
#[cfg(debug_assertions)]
#[doc(hidden)]
#[macro_export]
macro_rules! embedded_ptx {
    ($dir:literal, $name:literal) => {
        ::std::option::Option::None
    };
}

#[cfg(not(debug_assertions))]
#[doc(hidden)]
#[macro_export]
macro_rules! embedded_ptx {
    ($dir:literal, $name:literal) => {
        ::std::option::Option::Some(::std::borrow::Cow::Borrowed(
            include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/", $dir, "/ptx/", $name, ".ptx.gz")).as_slice(),
        ))
    };
}

/// One hash of all inputs of a kernel's compilation: text, headers beside it, options.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Fingerprint(String);

/// Target of a compilation.
#[derive(Clone, Debug)]
#[cfg_attr(not(feature = "cuda"), allow(dead_code))]
pub(crate) enum Target {
    Simulator,
    Gpu { device: String, capability: (u32, u32) },
}

/// Code that a device can load.
#[derive(Clone, Debug)]
pub(crate) struct Compiled {
    /// Name in messages.
    pub(crate) name: String,
    /// Machine code, if it was compiled for a real architecture.
    #[cfg_attr(not(feature = "cuda"), allow(dead_code))]
    pub(crate) cubin: Option<Vec<u8>>,
    /// Always present: for the simulator, for a driver without a cubin, and for the kernels' parameter lists.
    pub(crate) ptx: String,
    pub(crate) origin: Origin,
    /// The CUDA C, for diagnostics.
    pub(crate) source: Option<Arc<str>>,
}

/// Origin of a module's code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Compiled just now.
    Nvrtc {
        /// NVRTC's version.
        version: (i32, i32),
        /// `sm_90`, `compute_75`.
        architecture: String,
    },
    /// Compiled by an earlier run, with the same NVRTC for the same architecture.
    Cache {
        /// `sm_90`, `compute_75`.
        architecture: String,
    },
    /// The PTX in the repository.
    Shipped,
    /// PTX text given as such.
    Text,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::Nvrtc { version: (major, minor), architecture } => {
                write!(f, "compiled by NVRTC {major}.{minor} for {architecture}")
            }
            Origin::Cache { architecture } => write!(f, "compiled earlier for {architecture}"),
            Origin::Shipped => f.write_str("shipped PTX"),
            Origin::Text => f.write_str("PTX text"),
        }
    }
}

impl Compiled {
    /// Name of the PTX in messages, as distinct from the CUDA C.
    pub(crate) fn ptx_name(&self) -> String {
        match self.origin {
            Origin::Text => self.name.clone(),
            Origin::Shipped => forward_slashes(&ship::shipped_path(Path::new(&self.name)).with_extension("")),
            Origin::Nvrtc { .. } | Origin::Cache { .. } => format!("the PTX of {}", self.name),
        }
    }

    pub(crate) fn from_ptx(ptx: &str, name: &str) -> Compiled {
        Compiled { name: name.to_owned(), cubin: None, ptx: ptx.to_owned(), origin: Origin::Text, source: None }
    }
}

impl KernelSource {
    /// A kernel that is written at run time and has no file.
    pub fn from_text(name: impl Into<String>, source: impl Into<String>) -> KernelSource {
        KernelSource {
            name: Cow::Owned(name.into()),
            dir: Cow::Borrowed(""),
            manifest_dir: Cow::Borrowed(""),
            source: Cow::Owned(source.into()),
            headers: Cow::Borrowed(&[]),
            ptx: None,
        }
    }

    /// A kernel file that did not exist at build time, such as a reader's own.
    ///
    /// # Errors
    /// [`Error::Io`] if it cannot be read.
    pub fn from_file(path: impl AsRef<Path>) -> Result<KernelSource> {
        let path = path.as_ref();
        let source = std::fs::read_to_string(path).map_err(Error::io(path))?;
        let absolute = std::path::absolute(path).map_err(Error::io(path))?;
        let parent = absolute.parent().unwrap_or(Path::new(""));
        Ok(KernelSource {
            name: Cow::Owned(path.file_stem().unwrap_or_default().to_string_lossy().into_owned()),
            dir: Cow::Borrowed(""),
            manifest_dir: Cow::Owned(parent.to_string_lossy().into_owned()),
            source: Cow::Owned(source),
            headers: Cow::Borrowed(&[]),
            ptx: None,
        })
    }

    /// Path where the `.cu` is expected; `None` for text without a file.
    pub fn path(&self) -> Option<PathBuf> {
        if self.manifest_dir.is_empty() {
            return None;
        }
        let dir = Path::new(&*self.manifest_dir).join(&*self.dir);
        Some(dir.join(format!("{}.cu", self.name)))
    }

    /// The current CUDA C: the edited copy's, else the file's, if it exists, else the embedded text.
    ///
    /// # Errors
    /// [`Error::Io`] if the file exists and cannot be read.
    pub fn text(&self) -> Result<String> {
        Ok(self.current()?.text)
    }

    /// Whether a GPU of this compute capability runs the kernel, by its `// nvrtc:` line: it has the instructions. Whether it has the
    /// shared memory that a launch asks for is another question.
    ///
    /// # Errors
    /// [`Error::Io`] if the file exists and cannot be read; [`Error::Invalid`] if the line names no architecture.
    pub fn runs_on(&self, (major, minor): (u32, u32)) -> Result<bool> {
        let current = self.current()?;
        let head = current.head();
        let (minimum, variant) = head.parsed_architecture(&self.label())?;
        Ok(runs(minimum, variant, major * 10 + minor))
    }

    /// The PTX for a simulator: the shipped one if it belongs to this text, else the compiler's.
    ///
    /// # Errors
    /// Errors of [`crate::Device::load`].
    pub fn simulator_ptx(&self) -> Result<String> {
        Ok(compile(self, &Target::Simulator)?.ptx)
    }

    /// Name of the kernel's file in messages: its path inside the repository.
    pub fn label(&self) -> String {
        match self.path() {
            None => format!("{}.cu", self.name),
            Some(path) => {
                let crate_dir = Path::new(&*self.manifest_dir);
                let root = ship::workspace_root(crate_dir).or_else(|| crate_dir.parent().map(Path::to_owned));
                let relative = root.and_then(|root| path.strip_prefix(root).ok().map(Path::to_owned));
                forward_slashes(&relative.unwrap_or(path))
            }
        }
    }

    pub(crate) fn fingerprint(&self) -> Result<Fingerprint> {
        let current = self.current()?;
        Ok(Fingerprint(format!("{} {}", self.label(), current.hash())))
    }

    /// Whether it is that file or includes it, directly or through others; `file` is relative to the workspace, with `/`.
    ///
    /// # Errors
    /// Errors of [`KernelSource::text`].
    pub fn is_made_from(&self, file: &str) -> Result<bool> {
        let label = self.label();
        let dir = Path::new(&label).parent().unwrap_or(Path::new(""));
        let header = |name: &String| forward_slashes(&edits::without_dots(&dir.join(name))) == file;
        Ok(label == file || self.current()?.headers.keys().any(header))
    }

    fn current(&self) -> Result<Current> {
        let Some(path) = self.path().filter(|path| path.is_file()) else { return Ok(self.embedded()) };
        let root = ship::workspace_root(Path::new(&*self.manifest_dir));
        match edits::folder().zip(root) {
            Some((edits, root)) => Current::edited(&path, &root, &edits),
            None => Current::read(&path),
        }
    }

    fn embedded(&self) -> Current {
        let headers = self.headers.iter().map(|&(name, text)| (name.to_owned(), unix_lines(text)));
        Current { text: unix_lines(&self.source), path: None, headers: headers.collect() }
    }

    /// The text of the shipped PTX. `None` if there is none or it is damaged.
    pub fn shipped_ptx(&self) -> Option<String> {
        ship::decompress(&self.shipped()?).ok()
    }

    /// The shipped PTX, compressed: the file's, if it exists, else what was embedded. `None` if neither is there.
    pub(crate) fn shipped(&self) -> Option<Cow<'static, [u8]>> {
        let on_disk = self.path().and_then(|path| std::fs::read(ship::shipped_path(&path)).ok());
        on_disk.map(Cow::Owned).or_else(|| self.ptx.clone())
    }
}

/// A kernel's current text and the headers that it includes with quotes.
pub(crate) struct Current {
    pub(crate) text: String,
    /// The file; `None` if the text and the headers were embedded.
    pub(crate) path: Option<PathBuf>,
    /// By the name in the `#include "…"`.
    pub(crate) headers: BTreeMap<String, String>,
}

impl Current {
    pub(crate) fn read(path: &Path) -> Result<Current> {
        let (text, headers) = Current::read_by(path, |path| std::fs::read_to_string(path))?;
        Ok(Current { text, path: Some(path.to_owned()), headers })
    }

    /// The text with the files of the folder `edits` in place of those of the workspace at `root`.
    fn edited(path: &Path, root: &Path, edits: &Path) -> Result<Current> {
        let mut has_edits = false;
        let (text, headers) = Current::read_by(path, |path| {
            let copy = edits::copy_of(path, root, edits);
            has_edits |= copy.is_some();
            std::fs::read_to_string(copy.as_deref().unwrap_or(path))
        })?;
        // Files of several folders have no common place: the compiler is given all of them.
        Ok(Current { text, path: (!has_edits).then(|| path.to_owned()), headers })
    }

    /// Text and headers.
    fn read_by(
        path: &Path,
        mut read: impl FnMut(&Path) -> std::io::Result<String>,
    ) -> Result<(String, BTreeMap<String, String>)> {
        let text = unix_lines(&read(path).map_err(Error::io(path))?);
        let dir = path.parent().unwrap_or(Path::new(""));
        let mut headers = BTreeMap::new();
        let mut wanted: Vec<String> = includes(&text, '"').map(str::to_owned).collect();
        while let Some(name) = wanted.pop() {
            // NVRTC reports a missing header.
            if let Ok(header) = read(&dir.join(&name))
                && !headers.contains_key(&name)
            {
                let header = unix_lines(&header);
                wanted.extend(includes(&header, '"').map(str::to_owned));
                headers.insert(name, header);
            }
        }
        Ok((text, headers))
    }

    /// The hash of all inputs of the PTX except the compiler. Line ends do not count, since git may change them.
    pub(crate) fn hash(&self) -> String {
        let mut hasher = Sha256::new();
        let mut add = |part: &str| {
            hasher.update((part.len() as u64).to_le_bytes());
            hasher.update(part);
        };
        add(&self.text);
        for (name, text) in &self.headers {
            add(name);
            add(text);
        }
        for option in BASE_OPTIONS {
            add(option);
        }
        hex(&hasher.finalize())
    }

    pub(crate) fn head(&self) -> KernelHead {
        KernelHead::read(&self.text)
    }

    /// NVRTC's options for this kernel.
    fn options(&self, architecture: &str) -> Vec<String> {
        let mut options: Vec<String> = BASE_OPTIONS.iter().map(|&option| option.into()).collect();
        options.push(format!("--gpu-architecture={architecture}"));
        options.extend(self.head().options);
        if let Some(dir) = self.path.as_deref().and_then(Path::parent)
            && !self.headers.is_empty()
        {
            options.push(format!("--include-path={}", dir.display()));
        }
        if self.needs_cuda_headers() {
            for dir in probe::include_dirs() {
                options.push(format!("--include-path={}", dir.display()));
            }
        }
        options
    }

    fn needs_cuda_headers(&self) -> bool {
        let texts = std::iter::once(&self.text).chain(self.headers.values());
        texts.into_iter().any(|text| includes(text, '<').next().is_some())
    }
}

impl KernelHead {
    /// The number and the variant of the architecture; `label` names the kernel in messages.
    fn parsed_architecture(&self, label: &str) -> Result<(u32, &str)> {
        parse_architecture(&self.architecture).ok_or_else(|| {
            Error::Invalid(format!(
                "{label}: `{}` is not an architecture (compute_75, compute_80, compute_90a, …)",
                self.architecture
            ))
        })
    }
}

/// Whether a kernel that asks for `minimum` runs on a GPU of `capability`, both times ten. A variant such as the `a` of 90a
/// stands for features that later architectures need not have: such a kernel runs on that architecture only.
fn runs(minimum: u32, variant: &str, capability: u32) -> bool {
    match variant {
        "" => capability >= minimum,
        _ => capability == minimum,
    }
}

/// The names in `#include "…"` or `#include <…>`.
fn includes(text: &str, open: char) -> impl Iterator<Item = &str> {
    let close = if open == '<' { '>' } else { open };
    text.lines().filter_map(move |line| {
        let line = line.trim_start().strip_prefix('#')?.trim_start();
        let name = line.strip_prefix("include")?.trim_start().strip_prefix(open)?;
        name.split_once(close).map(|(name, _)| name)
    })
}

/// `compute_90a` → (90, "a").
fn parse_architecture(architecture: &str) -> Option<(u32, &str)> {
    let number = architecture.strip_prefix("compute_").or_else(|| architecture.strip_prefix("sm_"))?;
    let digits = number.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    Some((digits.parse().ok()?, &number[digits.len()..]))
}

/// Compiles `source` for `target`, or finds it compiled.
pub(crate) fn compile(source: &KernelSource, target: &Target) -> Result<Compiled> {
    compile_with(source, target, nvrtc::nvrtc())
}

/// [`compile`] with a given NVRTC, or with the reason why there is none.
fn compile_with(source: &KernelSource, target: &Target, nvrtc: Result<&Nvrtc, &str>) -> Result<Compiled> {
    let current = source.current()?;
    let head = current.head();
    let label = source.label();
    let (minimum, variant) = head.parsed_architecture(&label)?;
    if let Target::Gpu { device, capability } = target {
        let capability = capability.0 * 10 + capability.1;
        if !runs(minimum, variant, capability) {
            return Err(Error::Unsupported {
                what: label,
                device: device.clone(),
                reason: format!(
                    "it needs {}, this GPU is sm_{capability}",
                    head.architecture.replace("compute_", "sm_")
                ),
            });
        }
    }

    let fresh = fresh_ptx(source, &current);
    let shipped = |ptx: String| Compiled {
        name: label.clone(),
        cubin: None,
        ptx,
        origin: Origin::Shipped,
        source: Some(current.text.as_str().into()),
    };
    match (nvrtc, fresh) {
        (_, Ok(ptx)) if matches!(target, Target::Simulator) => Ok(shipped(ptx)),
        (Err(_), Ok(ptx)) => Ok(shipped(ptx)),
        (Err(reason), Err(why)) => Err(Error::NvrtcMissing {
            file: label,
            why,
            reason: reason.to_owned(),
            remedy: probe::Library::Nvrtc.remedy().to_owned(),
        }),
        (Ok(nvrtc), _) => {
            let architecture = match target {
                Target::Simulator => head.architecture.clone(),
                Target::Gpu { capability, .. } => {
                    let wanted = capability.0 * 10 + capability.1;
                    let known = nvrtc.architectures();
                    match known.iter().rev().find(|&&known| known <= wanted) {
                        Some(&known) if known < wanted => format!("compute_{known}"),
                        _ => format!("sm_{wanted}{variant}"),
                    }
                }
            };
            let options = current.options(&architecture);
            let name = match &current.path {
                Some(path) => path.to_string_lossy().into_owned(),
                None => label.clone(),
            };
            let key = cache_key(&current, &name, &options, nvrtc);
            let (output, origin) = match cache::load(&key) {
                Some(output) => (output, Origin::Cache { architecture }),
                None => {
                    let _progress = Progress::spinner(format!("compiling {label} for {architecture}, this once"));
                    let output = run_nvrtc(nvrtc, &current, &label, &name, &options)?;
                    cache::store(&key, &output);
                    let version = nvrtc.version;
                    let origin = Origin::Nvrtc { version, architecture };
                    (output, origin)
                }
            };
            Ok(Compiled {
                name: label,
                cubin: output.cubin,
                ptx: output.ptx,
                origin,
                source: Some(current.text.into()),
            })
        }
    }
}

fn run_nvrtc(nvrtc: &Nvrtc, current: &Current, label: &str, name: &str, options: &[String]) -> Result<Output> {
    // Headers on disk are found there, so that diagnostics name their paths.
    let headers = if current.path.is_none() { &current.headers } else { &BTreeMap::new() };
    nvrtc.compile(&current.text, name, headers, options).map_err(|mut log| {
        if log.contains("not open source file") && current.needs_cuda_headers() {
            log.push_str("\nCUDA's headers come with:\n    ");
            log.push_str(probe::HEADERS_REMEDY);
        }
        Error::Compile { file: label.to_owned(), log }
    })
}

fn cache_key(current: &Current, name: &str, options: &[String], nvrtc: &Nvrtc) -> String {
    let mut hasher = Sha256::new();
    for part in [current.hash().as_str(), name, &options.join("\0"), &format!("{:?}", nvrtc.version)] {
        hasher.update((part.len() as u64).to_le_bytes());
        hasher.update(part);
    }
    hex(&hasher.finalize())
}

/// The shipped PTX if it was made from this very source and is whole; else the reason why it cannot be used.
fn fresh_ptx(source: &KernelSource, current: &Current) -> Result<String, String> {
    let shipped = source.shipped().ok_or_else(|| match source.path() {
        Some(path) if !path.is_file() => format!(
            "this program reads PTX from its checkout, and {} is not there; a build with --release carries it",
            path.display()
        ),
        _ => "no PTX is shipped with it".to_owned(),
    })?;
    let is_current = match ship::source_hash(&shipped) {
        Some(hash) => hash == current.hash(),
        None => return Err("the shipped PTX does not say which source it was made from".to_owned()),
    };
    if !is_current {
        return Err("the source has changed since its PTX was shipped".to_owned());
    }
    ship::decompress(&shipped).ok().filter(|ptx| ship::is_whole(ptx)).ok_or_else(|| {
        let path = forward_slashes(&ship::shipped_path(Path::new(&source.label())));
        format!("{path} is damaged; `git restore {path}` brings it back")
    })
}

fn unix_lines(text: &str) -> String {
    text.replace("\r\n", "\n")
}

fn forward_slashes(path: &Path) -> String {
    path.to_string_lossy().replace('\\', "/")
}

fn hex(bytes: &[u8]) -> String {
    use fmt::Write;
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::away_from_sources;

    const SCALE_ADD: KernelSource = crate::kernel_source!("tests/kernels", "scale_add");

    fn gpu(major: u32, minor: u32) -> Target {
        Target::Gpu { device: "cuda:0".to_owned(), capability: (major, minor) }
    }

    /// A kernel file of its own, with `ptx` shipped beside it.
    fn on_disk(source: &str, ptx: &str) -> (tempfile::TempDir, KernelSource) {
        let crate_dir = tempfile::tempdir().unwrap();
        let path = crate_dir.path().join("kernels/scale_add.cu");
        std::fs::create_dir_all(ship::shipped_path(&path).parent().unwrap()).unwrap();
        std::fs::write(&path, source).unwrap();
        std::fs::write(ship::shipped_path(&path), ship::compress(ptx).unwrap()).unwrap();
        let manifest_dir = crate_dir.path().to_string_lossy().into_owned().into();
        (crate_dir, KernelSource { manifest_dir, dir: "kernels".into(), ..SCALE_ADD })
    }

    #[test]
    fn without_nvrtc_only_ptx_of_this_very_source_is_used() {
        let ptx = SCALE_ADD.shipped_ptx().unwrap();
        for target in [Target::Simulator, gpu(9, 0)] {
            let compiled = compile_with(&SCALE_ADD, &target, Err("none")).unwrap();
            assert_eq!(compiled.origin, Origin::Shipped);
            assert_eq!((compiled.cubin.is_none(), &*compiled.ptx), (true, &*ptx));

            let edited = SCALE_ADD.source.replace("a * x[i]", "x[i]");
            let unsigned = ptx.replace("// sha256", "// sum");
            let (damaged, cut) = (ptx.replace("fma", "add"), &ptx[..ptx.len() - 10]);
            let unhashed = ptx.replace("// body", "// boby");
            assert!(damaged != *ptx && unhashed != *ptx);
            for (source, ptx, why) in [
                (&*edited, &*ptx, "the source has changed since its PTX was shipped"),
                (&SCALE_ADD.source, &unsigned, "the shipped PTX does not say which source it was made from"),
                (&SCALE_ADD.source, &damaged, "PTX is damaged; `git restore PTX` brings it back"),
                (&SCALE_ADD.source, cut, "PTX is damaged; `git restore PTX` brings it back"),
                (&SCALE_ADD.source, &unhashed, "PTX is damaged; `git restore PTX` brings it back"),
            ] {
                let (_dir, source) = on_disk(source, ptx);
                let error = compile_with(&source, &target, Err("libnvrtc.so.13: file too short")).unwrap_err();
                let ptx = source.label().replace("scale_add.cu", "ptx/scale_add.ptx.gz");
                assert_eq!(
                    error.to_string(),
                    format!(
                        "{} has to be compiled ({}), and NVRTC cannot be used: libnvrtc.so.13: file too short. \
                         Install it with:\n    {}",
                        source.label(),
                        why.replace("PTX is", &format!("{ptx} is")).replace("restore PTX", &format!("restore {ptx}")),
                        probe::Library::Nvrtc.remedy()
                    )
                );
            }
            let unshipped = KernelSource::from_text("new", SCALE_ADD.source.clone());
            let error = compile_with(&unshipped, &target, Err("none")).unwrap_err();
            assert!(error.to_string().starts_with("new.cu has to be compiled (no PTX is shipped with it)"), "{error}");
            let bare = KernelSource { ptx: None, ..away_from_sources(&SCALE_ADD) };
            let error = compile_with(&bare, &target, Err("none")).unwrap_err().to_string();
            assert!(error.contains("reads PTX from its checkout") && error.contains("--release"), "{error}");
        }
    }

    const HALF_OFFSET: KernelSource = crate::kernel_source!("tests/kernels", "half_offset");

    #[test]
    fn a_checkout_whose_lines_end_as_on_windows_takes_the_shipped_ptx() {
        let windows = |text: &str| text.replace('\n', "\r\n");
        let (_dir, source) = on_disk(&windows(&SCALE_ADD.source), &SCALE_ADD.shipped_ptx().unwrap());
        let compiled = compile_with(&source, &Target::Simulator, Err("none")).unwrap();
        assert_eq!(compiled.origin, Origin::Shipped);
        assert!(!compiled.ptx.contains('\r'));
    }

    #[test]
    fn away_from_its_sources_a_kernel_has_its_headers() {
        let source = away_from_sources(&HALF_OFFSET);
        let on_disk = Current::read(&HALF_OFFSET.path().unwrap()).unwrap();
        assert_eq!(source.current().unwrap().hash(), on_disk.hash());
        assert_eq!(on_disk.headers.keys().collect::<Vec<_>>(), ["offset.h"]);
        let compiled = compile_with(&source, &Target::Simulator, Err("none")).unwrap();
        assert_eq!(compiled.origin, Origin::Shipped);
        // Another header is another source.
        let headers = Cow::Borrowed(&[("offset.h", "#define OFFSET 0.25f\r\n")][..]);
        let error = compile_with(&KernelSource { headers, ..source }, &Target::Simulator, Err("none")).unwrap_err();
        assert!(error.to_string().contains("the source has changed since its PTX was shipped"), "{error}");
    }

    #[test]
    fn with_nvrtc_a_kernel_away_from_its_sources_is_compiled_with_the_embedded_headers() {
        let Ok(nvrtc) = nvrtc::nvrtc() else {
            println!("skipped: no NVRTC on this machine");
            return;
        };
        // The text without CUDA's own header, which a machine may lack.
        let text = "#include \"offset.h\"\nextern \"C\" __global__ void k(float *out) { *out = OFFSET; }\n";
        for (header, bits) in [("#define OFFSET 0.5f\n", "0f3F000000"), ("#define OFFSET 0.25f\n", "0f3E800000")] {
            // As `kernel_source!` makes it: names and texts that live as long as the program.
            let headers = Cow::Owned(vec![("offset.h", header)]);
            let source = KernelSource { source: text.into(), headers, ptx: None, ..away_from_sources(&HALF_OFFSET) };
            let compiled = compile_with(&source, &Target::Simulator, Ok(nvrtc)).unwrap();
            // NVRTC writes the value in the bits of an f32, or of an integer.
            let decimal = u32::from_str_radix(&bits[2..], 16).unwrap().to_string();
            assert!(compiled.ptx.contains(bits) || compiled.ptx.contains(&decimal), "{}", compiled.ptx);
        }
        let source = KernelSource {
            source: text.into(),
            headers: Cow::Borrowed(&[]),
            ptx: None,
            ..away_from_sources(&HALF_OFFSET)
        };
        let error = compile_with(&source, &Target::Simulator, Ok(nvrtc)).unwrap_err().to_string();
        assert!(error.contains("offset.h"), "{error}");
    }

    #[test]
    fn with_nvrtc_damaged_ptx_is_compiled_again() {
        let Ok(nvrtc) = nvrtc::nvrtc() else {
            println!("skipped: no NVRTC on this machine");
            return;
        };
        let damaged = SCALE_ADD.shipped_ptx().unwrap().replace("fma", "add");
        let (_dir, source) = on_disk(&SCALE_ADD.source, &damaged);
        let compiled = compile_with(&source, &Target::Simulator, Ok(nvrtc)).unwrap();
        assert!(compiled.ptx.contains("fma") && compiled.origin != Origin::Shipped);
    }

    #[test]
    fn with_nvrtc_a_gpu_gets_machine_code_of_its_own_and_a_newer_one_ptx() {
        let Ok(nvrtc) = nvrtc::nvrtc() else {
            println!("skipped: no NVRTC on this machine");
            return;
        };
        let compiled = compile_with(&SCALE_ADD, &gpu(9, 0), Ok(nvrtc)).unwrap();
        assert!(compiled.cubin.unwrap().starts_with(b"\x7fELF"));
        assert!(compiled.ptx.contains(".target sm_90"));
        assert_eq!(ptx::entries(&compiled.ptx), ptx::entries(&SCALE_ADD.shipped_ptx().unwrap()));

        let newest = nvrtc.architectures().pop().unwrap();
        let compiled = compile_with(&SCALE_ADD, &gpu(99, 0), Ok(nvrtc)).unwrap();
        assert!(compiled.cubin.is_none());
        assert!(compiled.ptx.contains(&format!(".target sm_{newest}")));
    }

    #[test]
    fn the_head_adds_options_and_sets_the_oldest_architecture() {
        let text = "// a kernel\n// nvrtc: --use_fast_math --gpu-architecture=compute_90a\n// nvrtc: -DN=4\nint x;\n";
        let current = Current { text: text.to_owned(), path: None, headers: BTreeMap::new() };
        let head = current.head();
        assert_eq!(head.architecture, "compute_90a");
        assert_eq!(head.options, ["--use_fast_math", "-DN=4"]);

        let source = KernelSource::from_text("variant", text);
        for (capability, runs) in [((8, 0), false), ((9, 0), true), ((10, 0), false)] {
            let target = gpu(capability.0, capability.1);
            let result = compile_with(&source, &target, Err("none"));
            let unsupported = matches!(result, Err(Error::Unsupported { .. }));
            assert_eq!(unsupported, !runs, "{capability:?}: {result:?}");
            assert_eq!(source.runs_on(capability).unwrap(), runs, "{capability:?}");
        }
        let unknown = KernelSource::from_text("unknown", "// nvrtc: -arch=sparc\n");
        assert!(unknown.runs_on((9, 0)).unwrap_err().to_string().contains("`sparc` is not an architecture"));
    }

    #[test]
    fn edited_copies_in_a_folder_of_their_own_stand_in_for_kernels_and_headers() {
        let root = tempfile::tempdir().unwrap();
        let (edits, kernels) = (root.path().join("edits"), root.path().join("one/kernels"));
        for dir in [&kernels, &root.path().join("two/kernels"), &edits.join("two/kernels")] {
            std::fs::create_dir_all(dir).unwrap();
        }
        let kernel = kernels.join("a.cu");
        std::fs::write(&kernel, "#include \"../../two/kernels/b.cuh\"\n").unwrap();
        std::fs::write(root.path().join("two/kernels/b.cuh"), "int b;\n").unwrap();
        let edited = || Current::edited(&kernel, root.path(), &edits).unwrap();
        // Without a copy it is the file.
        assert_eq!(edited().path.as_deref(), Some(&*kernel));
        assert_eq!(edited().hash(), Current::read(&kernel).unwrap().hash());
        std::fs::write(edits.join("two/kernels/b.cuh"), "int edited;\n").unwrap();
        let header = edited();
        assert_eq!(header.path, None);
        assert_eq!(header.headers["../../two/kernels/b.cuh"], "int edited;\n");
        std::fs::create_dir_all(edits.join("one/kernels")).unwrap();
        std::fs::write(edits.join("one/kernels/a.cu"), "int alone;\n").unwrap();
        assert_eq!((edited().text.as_str(), edited().headers.len()), ("int alone;\n", 0));
    }

    #[test]
    fn a_source_knows_the_files_that_it_is_made_from() {
        let label = "common/tests/kernels/half_offset.cu";
        assert!(HALF_OFFSET.is_made_from(label).unwrap() && !SCALE_ADD.is_made_from(label).unwrap());
        assert!(HALF_OFFSET.is_made_from("common/tests/kernels/offset.h").unwrap());
    }

    #[test]
    fn headers_beside_the_kernel_are_part_of_its_hash() {
        let dir = tempfile::tempdir().unwrap();
        let kernel = dir.path().join("a.cu");
        std::fs::write(&kernel, "#include <cuda_fp16.h>\n  # include \"b.h\"\n").unwrap();
        std::fs::write(dir.path().join("b.h"), "#include \"c.h\"\n#include \"b.h\"\n").unwrap();
        let before = Current::read(&kernel).unwrap();
        assert_eq!(before.headers.keys().collect::<Vec<_>>(), ["b.h"]);
        assert!(before.needs_cuda_headers());
        std::fs::write(dir.path().join("c.h"), "// new\n").unwrap();
        let after = Current::read(&kernel).unwrap();
        assert_eq!(after.headers.keys().collect::<Vec<_>>(), ["b.h", "c.h"]);
        assert_ne!(before.hash(), after.hash());
    }
}
