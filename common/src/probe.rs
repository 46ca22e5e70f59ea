//! NVIDIA's libraries on this machine, and clang.
//!
//! Each is opened by absolute path if that is known: from the `nvidia-*` wheels of the active Python environment, of the one that
//! this program was installed in or of one in the course's checkout, from `CUDA_PATH`/`CUDA_HOME`, from `/usr/local/cuda`; then by the system's own search. Never from the
//! working directory or a folder above it: a folder of hand-ins holds what strangers put there, and loading a library runs
//! its code. A library that is open is found again by its name, so cudarc (which searches by name alone, and panics if it
//! finds nothing) then finds it too. Nothing here panics, and nothing needs the `cuda` feature.

use std::ffi::c_int;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use libloading::Library as Handle;

/// File name of the driver's library.
pub(crate) const DRIVER_LIBRARY: &str = if cfg!(windows) { "nvcuda.dll" } else { "libcuda.so.1" };

macro_rules! compiler_wheels {
    () => {
        r#""cuda-toolkit[nvrtc,cudart,crt,cccl]==13.0.*""#
    };
}

/// Arguments of `pip install` for all that editing kernels takes: NVRTC, and CUDA's headers.
pub const COMPILER_WHEELS: &str = compiler_wheels!();

/// A library that the course uses if it is present.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Library {
    /// The GPU driver.
    Driver,
    /// The run-time compiler of CUDA C.
    Nvrtc,
    /// Dense linear algebra.
    Cublas,
    /// Matrix products with fused epilogues.
    CublasLt,
    /// Neural network layers.
    Cudnn,
    /// Communication between GPUs.
    Nccl,
}

/// A loaded library; it stays loaded until the program ends.
pub struct Opened {
    /// Handle for looking up symbols.
    pub library: Handle,
    /// The file, or its bare name if the system found it by itself.
    pub path: PathBuf,
}

/// One row of `doctor`: whether a component is present, and how to install it.
#[derive(Clone, Debug)]
pub struct Component {
    /// Name of the component: `NVRTC`.
    pub name: &'static str,
    /// Whether it could be opened.
    pub present: bool,
    /// The version that it reports.
    pub version: Option<String>,
    /// The file.
    pub path: Option<PathBuf>,
    /// If it is absent: the searched places, or the error.
    pub detail: Option<String>,
    /// Features that need it.
    pub without: &'static str,
    /// The one command that installs it.
    pub remedy: &'static str,
}

/// Installs a Python package in an environment, and activates it. Systems refuse packages outside of a virtual environment.
macro_rules! in_environment {
    ($package:expr) => {
        if cfg!(windows) {
            concat!("py -m venv .venv; .venv\\Scripts\\activate; pip install ", $package)
        } else {
            concat!("python3 -m venv .venv && . .venv/bin/activate && pip install ", $package)
        }
    };
}

pub(crate) mod clang;

impl Library {
    /// All of them, each after those that it builds on.
    pub const ALL: [Library; 6] =
        [Library::Driver, Library::Nvrtc, Library::Cublas, Library::CublasLt, Library::Cudnn, Library::Nccl];

    /// Name.
    pub fn name(self) -> &'static str {
        match self {
            Library::Driver => "NVIDIA driver",
            Library::Nvrtc => "NVRTC",
            Library::Cublas => "cuBLAS",
            Library::CublasLt => "cuBLASLt",
            Library::Cudnn => "cuDNN",
            Library::Nccl => "NCCL",
        }
    }

    /// Features that need it.
    pub fn without(self) -> &'static str {
        match self {
            Library::Driver => "no GPU: everything runs on the simulator, with counts instead of times",
            Library::Nvrtc => "edited kernels cannot be compiled; unedited ones run from the PTX shipped with them",
            Library::Cublas => "no cuBLAS row to compare matrix products with",
            Library::CublasLt => "no cuBLASLt row to compare fused linear layers with",
            Library::Cudnn => "no cuDNN row to compare convolutions with",
            Library::Nccl => "several GPUs exchange data by plain copies",
        }
    }

    /// The one command that installs it.
    pub fn remedy(self) -> &'static str {
        match self {
            Library::Driver if cfg!(windows) => "start https://www.nvidia.com/drivers",
            Library::Driver => "sudo apt install nvidia-driver-580  # if there is an NVIDIA GPU",
            // It is not made for macOS.
            Library::Nvrtc if cfg!(target_os = "macos") => clang::REMEDY,
            Library::Nvrtc => in_environment!(compiler_wheels!()),
            Library::Cublas | Library::CublasLt => in_environment!("\"nvidia-cublas==13.0.*\""),
            Library::Cudnn => in_environment!("nvidia-cudnn-cu13"),
            Library::Nccl => in_environment!("nvidia-nccl-cu13"),
        }
    }

    /// Opens it, once for the whole program; `Err` lists the attempts.
    ///
    /// # Errors
    /// A sentence with the places searched.
    pub fn open(self) -> Result<&'static Opened, String> {
        static OPENED: [OnceLock<Result<Opened, String>>; 6] = [const { OnceLock::new() }; 6];
        OPENED[self as usize].get_or_init(|| self.find()).as_ref().map_err(String::clone)
    }

    /// True if it can be opened.
    pub fn is_present(self) -> bool {
        self.open().is_ok()
    }

    /// Whether a file of this name is the library.
    fn is_file(self, name: &str) -> bool {
        self != Library::Driver && is_library(name, self.stem())
    }

    fn stem(self) -> &'static str {
        match self {
            Library::Driver => "cuda",
            Library::Nvrtc => "nvrtc",
            Library::Cublas => "cublas",
            Library::CublasLt => "cublasLt",
            Library::Cudnn => "cudnn",
            Library::Nccl => "nccl",
        }
    }

    /// Names by which the system may find it.
    fn system_names(self) -> Vec<String> {
        let versions: &[u32] = match self {
            Library::Driver => return vec![DRIVER_LIBRARY.to_owned()],
            Library::Cudnn => &[9],
            Library::Nccl => &[2],
            _ => &[13, 12],
        };
        let stem = self.stem();
        let name = |version: &u32| match (cfg!(windows), self) {
            (true, Library::Nvrtc) => format!("nvrtc64_{version}0_0.dll"),
            (true, _) => format!("{stem}64_{version}.dll"),
            (false, _) => format!("lib{stem}.so.{version}"),
        };
        versions.iter().map(name).collect()
    }

    fn find(self) -> Result<Opened, String> {
        let mut failures = Vec::new();
        for dir in library_dirs() {
            for name in file_names(dir).into_iter().filter(|name| self.is_file(name)) {
                let path = dir.join(name);
                self.open_companions(dir);
                match open(&path) {
                    Ok(library) => return Ok(Opened { library, path }),
                    Err(error) => failures.push(format!("{}: {}", path.display(), cause(&error))),
                }
            }
        }
        let names = self.system_names();
        for path in names.iter().map(PathBuf::from) {
            match open(&path) {
                Ok(library) => return Ok(Opened { library, path }),
                Err(error) if is_absent(&path, &cause(&error)) => {}
                Err(error) => failures.push(format!("{}: {}", path.display(), cause(&error))),
            }
        }
        Err(if failures.is_empty() { format!("{} not found", names.join(", ")) } else { failures.join("; ") })
    }

    /// Opens the libraries that this one later opens by bare name, without finding them itself.
    fn open_companions(self, dir: &Path) {
        let stem = match self {
            Library::Nvrtc => "nvrtc-builtins",
            Library::Cublas => "cublasLt",
            _ => return,
        };
        for name in file_names(dir) {
            if is_library(&name, stem)
                && let Ok(companion) = open(&dir.join(name))
            {
                // Kept open for the rest of the program.
                std::mem::forget(companion);
            }
        }
    }

    fn version(self, opened: &Opened) -> Option<String> {
        let library = &opened.library;
        let one = |symbol: &[u8]| {
            let mut version: c_int = 0;
            // SAFETY: cuDriverGetVersion and ncclGetVersion both take one `int *` and return a status.
            let status = unsafe {
                let get = library.get::<unsafe extern "C" fn(*mut c_int) -> c_int>(symbol).ok()?;
                get(&mut version)
            };
            (status == 0).then_some(version)
        };
        let long = |symbol: &[u8]| {
            // SAFETY: cublasLtGetVersion and cudnnGetVersion take nothing and return a `size_t`.
            Some(unsafe { library.get::<unsafe extern "C" fn() -> usize>(symbol).ok()?() })
        };
        Some(match self {
            Library::Driver => {
                let version = one(b"cuDriverGetVersion\0")?;
                let cuda = format!("CUDA {}.{}", version / 1000, version % 1000 / 10);
                match kernel_driver_version() {
                    Some(driver) => format!("{driver} ({cuda})"),
                    None => cuda,
                }
            }
            Library::Nvrtc => {
                let (mut major, mut minor): (c_int, c_int) = (0, 0);
                // SAFETY: nvrtcVersion takes two `int *`.
                unsafe {
                    let get =
                        library.get::<unsafe extern "C" fn(*mut c_int, *mut c_int) -> c_int>(b"nvrtcVersion\0").ok()?;
                    get(&mut major, &mut minor);
                }
                format!("{major}.{minor}")
            }
            Library::Cublas => {
                // SAFETY: cublasGetProperty takes a libraryPropertyType (0 major, 1 minor, 2 patch) and an `int *`.
                let get = unsafe {
                    library.get::<unsafe extern "C" fn(c_int, *mut c_int) -> c_int>(b"cublasGetProperty\0").ok()?
                };
                let property = |which| {
                    let mut value = 0;
                    // SAFETY: as above.
                    unsafe { get(which, &mut value) };
                    value
                };
                format!("{}.{}.{}", property(0), property(1), property(2))
            }
            Library::CublasLt => {
                let version = long(b"cublasLtGetVersion\0")?;
                match version {
                    // 130002 = 13.0.2; from 100000 on it is major · 10000 + minor · 100 + patch.
                    100_000.. => dotted([version / 10_000, version / 100 % 100, version % 100]),
                    _ => dotted([version / 1000, version / 100 % 10, version % 100]),
                }
            }
            Library::Cudnn => {
                let version = long(b"cudnnGetVersion\0")?;
                match version {
                    // 91002 = 9.10.2; before cuDNN 9 it was major · 1000.
                    10_000.. => dotted([version / 10_000, version / 100 % 100, version % 100]),
                    _ => dotted([version / 1000, version / 100 % 10, version % 100]),
                }
            }
            Library::Nccl => {
                let version = one(b"ncclGetVersion\0")? as usize;
                dotted([version / 10_000, version / 100 % 100, version % 100])
            }
        })
    }
}

/// Components of this machine: one row per [`Library`], and one each for CUDA's headers and clang.
pub fn report() -> Vec<Component> {
    let mut components: Vec<Component> = Library::ALL.map(component).into();
    let headers = include_dirs().first();
    components.push(Component {
        name: "CUDA headers",
        present: headers.is_some(),
        version: None,
        path: headers.cloned(),
        detail: headers.is_none().then(|| "no directory with cuda_fp16.h".to_owned()),
        without: "kernels that include cuda_fp16.h or mma.h cannot be recompiled",
        remedy: Library::Nvrtc.remedy(),
    });
    components.push(clang::component());
    components
}

fn component(library: Library) -> Component {
    let answers = library.open().and_then(|opened| match library.version(opened) {
        Some(version) => Ok((version, opened.path.clone())),
        None => Err(format!("{}: it does not say its version, so it is not {}", opened.path.display(), library.name())),
    });
    let (found, detail) = match answers {
        Ok(found) => (Some(found), None),
        Err(detail) => (None, Some(detail)),
    };
    let (version, path) = found.unzip();
    Component {
        name: library.name(),
        present: path.is_some(),
        version,
        path,
        detail,
        without: library.without(),
        remedy: library.remedy(),
    }
}

fn dotted(parts: [usize; 3]) -> String {
    parts.map(|part| part.to_string()).join(".")
}

/// `580.65.06`, from the driver's kernel module on Linux.
fn kernel_driver_version() -> Option<String> {
    let text = fs::read_to_string("/sys/module/nvidia/version").ok()?;
    Some(text.trim().to_owned())
}

/// `libNAME.so`, `libNAME.so.13`, `NAME64_13.dll`, `NAME.dll`; not `libNAMELt.so`, `libNAME-builtins.so`, `libNAME.alt.so`.
fn is_library(name: &str, stem: &str) -> bool {
    let after = |prefix: &str| name.strip_prefix(prefix)?.strip_prefix(stem);
    if cfg!(windows) {
        let version = after("").and_then(|rest| rest.strip_suffix(".dll"));
        version.is_some_and(|rest| rest.is_empty() || rest.starts_with("64_"))
    } else {
        after("lib").is_some_and(|rest| rest == ".so" || rest.starts_with(".so."))
    }
}

fn open(path: &Path) -> Result<Handle, libloading::Error> {
    #[cfg(unix)]
    {
        use libloading::os::unix::{Library, RTLD_GLOBAL, RTLD_NOW};
        // SAFETY: NVIDIA's libraries may be loaded at any time, in any order. Global, because NVRTC and cuDNN look their parts
        // up by name.
        unsafe { Library::open(Some(path), RTLD_NOW | RTLD_GLOBAL) }.map(Handle::from)
    }
    #[cfg(windows)]
    {
        use libloading::os::windows::{LOAD_LIBRARY_SEARCH_DEFAULT_DIRS, LOAD_LIBRARY_SEARCH_DLL_LOAD_DIR, Library};
        let its_directory = if path.is_absolute() { LOAD_LIBRARY_SEARCH_DLL_LOAD_DIR } else { 0 };
        // Without flags, Windows would look in the working directory too.
        let flags = LOAD_LIBRARY_SEARCH_DEFAULT_DIRS | its_directory;
        // SAFETY: NVIDIA's libraries may be loaded at any time, in any order.
        unsafe { Library::load_with_flags(path, flags) }.map(Handle::from)
    }
}

/// True if the loader reports that there is no such file, rather than that the file is broken.
fn is_absent(path: &Path, cause: &str) -> bool {
    let cause = cause.to_lowercase();
    // The second is Windows: ERROR_MOD_NOT_FOUND.
    (cause.contains("no such file") && cause.contains(&path.to_string_lossy().to_lowercase()))
        || cause.contains("os error 126")
}

/// The loader's message; libloading's own message says only which call failed.
pub(crate) fn cause(error: &libloading::Error) -> String {
    match std::error::Error::source(error) {
        Some(source) => source.to_string(),
        None => error.to_string(),
    }
}

/// Sorted; empty for a directory that cannot be read.
fn file_names(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

fn directories(dir: &Path) -> Vec<PathBuf> {
    let names = file_names(dir).into_iter().map(|name| dir.join(name));
    names.filter(|path| path.is_dir()).collect()
}

/// Directories that may hold NVIDIA's libraries, the most specific first.
fn library_dirs() -> &'static [PathBuf] {
    static DIRS: OnceLock<Vec<PathBuf>> = OnceLock::new();
    DIRS.get_or_init(|| {
        let parts = ["lib", "lib64", "bin", "bin/x86_64", "bin/x64", "lib/x64"];
        let in_roots = roots().into_iter().flat_map(|root| parts.map(|part| root.join(part)));
        // Where Windows has its libraries; other systems have a search path for them.
        let path = std::env::var_os("PATH").filter(|_| cfg!(windows)).unwrap_or_default();
        existing(in_roots.chain(std::env::split_paths(&path).filter(|dir| dir.is_absolute())))
    })
}

/// Directories with CUDA's headers: that of `cuda_fp16.h`, and CCCL's beside it.
pub(crate) fn include_dirs() -> &'static [PathBuf] {
    static DIRS: OnceLock<Vec<PathBuf>> = OnceLock::new();
    DIRS.get_or_init(|| {
        let mut bases = roots().into_iter().map(|root| root.join("include"));
        let base = bases.find(|dir| dir.join("cuda_fp16.h").is_file());
        existing(base.iter().flat_map(|dir| [dir.clone(), dir.join("cccl")]))
    })
}

/// Files of a program's name in the absolute folders of PATH: a relative one would lead into the working directory.
pub fn in_path(program: &str) -> impl Iterator<Item = PathBuf> {
    let file = format!("{program}{}", std::env::consts::EXE_SUFFIX);
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders: Vec<PathBuf> = std::env::split_paths(&path).filter(|folder| folder.is_absolute()).collect();
    folders.into_iter().map(move |folder| folder.join(&file)).filter(|file| file.is_file())
}

fn existing(dirs: impl Iterator<Item = PathBuf>) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = Vec::new();
    for dir in dirs {
        if dir.is_dir() && !found.contains(&dir) {
            found.push(dir);
        }
    }
    found
}

/// Directories that contain `lib` and `include`: the parts of wheels, then toolkits.
fn roots() -> Vec<PathBuf> {
    // A relative path would lead into the working directory.
    let var = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let mut environments: Vec<PathBuf> = ["VIRTUAL_ENV", "CONDA_PREFIX"].into_iter().filter_map(var).collect();
    // A program that pip installed is in the `bin` or `Scripts` of its environment, active or not.
    let own = std::env::current_exe().and_then(fs::canonicalize).ok();
    environments.extend(own.as_deref().and_then(|file| file.ancestors().nth(2)).map(Path::to_owned));
    let checkout = Path::new(env!("CARGO_MANIFEST_DIR")).parent();
    environments
        .extend(checkout.into_iter().flat_map(|dir| [".venv", "venv", "target/venv"].map(|name| dir.join(name))));
    environments.extend(var("HOME").map(|home| home.join(".local")));
    environments.extend(["/usr/local", "/usr"].map(PathBuf::from));

    let mut roots = Vec::new();
    for environment in environments {
        // lib/python3.12/site-packages on Unix, Lib\site-packages on Windows, dist-packages on Debian.
        let mut libraries = vec![environment.join("Lib")];
        libraries.extend(
            directories(&environment.join("lib"))
                .into_iter()
                .filter(|dir| dir.file_name().is_some_and(|name| name.to_string_lossy().starts_with("python3"))),
        );
        for library in libraries {
            for packages in ["site-packages", "dist-packages"] {
                roots.extend(directories(&library.join(packages).join("nvidia")));
            }
        }
    }
    roots.extend(["CUDA_PATH", "CUDA_HOME", "CONDA_PREFIX"].into_iter().filter_map(var));
    roots.push("/usr/local/cuda".into());
    roots
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(not(windows))]
    fn a_library_is_told_from_its_companions() {
        assert!(Library::Nvrtc.is_file("libnvrtc.so.13"));
        assert!(Library::Nvrtc.is_file("libnvrtc.so"));
        assert!(!Library::Nvrtc.is_file("libnvrtc-builtins.so.13.0"));
        assert!(!Library::Nvrtc.is_file("libnvrtc.alt.so.13"));
        assert!(!Library::Nvrtc.is_file("libnvrtc_static.a"));
        assert!(Library::Cublas.is_file("libcublas.so.13"));
        assert!(!Library::Cublas.is_file("libcublasLt.so.13"));
        assert!(Library::CublasLt.is_file("libcublasLt.so.13"));
        assert!(Library::Cudnn.is_file("libcudnn.so.9"));
        assert!(!Library::Cudnn.is_file("libcudnn_ops.so.9"));
    }

    #[test]
    fn the_report_has_a_row_for_everything_and_never_panics() {
        let report = report();
        assert_eq!(report.len(), Library::ALL.len() + 2);
        for row in report {
            assert_eq!(row.present, row.path.is_some(), "{}", row.name);
            assert_eq!(row.present, row.detail.is_none(), "{}", row.name);
        }
    }
}
