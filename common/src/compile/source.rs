//! A kernel file as a program holds it: embedded, on disk, or edited.

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use super::architecture::runs;
use super::current::Current;
use super::{Target, compile, edits, forward_slashes, ship, unix_lines};
use crate::error::{Error, Result};

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

    pub(super) fn current(&self) -> Result<Current> {
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
