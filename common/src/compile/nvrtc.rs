//! NVRTC: CUDA C to PTX and cubin, inside this process.
//!
//! The eleven functions that compiling needs are bound by hand: so the library is the one that [`crate::probe`] found, works
//! without the `cuda` feature (compiling for the simulator needs no GPU), and is an error where it is absent.

use std::collections::BTreeMap;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::path::Path;
use std::sync::OnceLock;

use crate::probe;

/// A loaded NVRTC.
pub(crate) struct Nvrtc {
    /// (major, minor).
    pub(crate) version: (i32, i32),
    path: &'static Path,
    functions: Functions,
}

/// The result of a successful compilation.
pub(crate) struct Output {
    pub(crate) ptx: String,
    /// Machine code, if the architecture was a real one (`sm_90`).
    pub(crate) cubin: Option<Vec<u8>>,
}

type Program = *mut c_void;
type Status = c_int;

/// The C functions, with the signatures of `nvrtc.h`.
struct Functions {
    version: unsafe extern "C" fn(*mut c_int, *mut c_int) -> Status,
    error_string: unsafe extern "C" fn(Status) -> *const c_char,
    supported_count: unsafe extern "C" fn(*mut c_int) -> Status,
    supported: unsafe extern "C" fn(*mut c_int) -> Status,
    create: unsafe extern "C" fn(
        *mut Program,
        *const c_char,
        *const c_char,
        c_int,
        *const *const c_char,
        *const *const c_char,
    ) -> Status,
    destroy: unsafe extern "C" fn(*mut Program) -> Status,
    compile: unsafe extern "C" fn(Program, c_int, *const *const c_char) -> Status,
    log: Text,
    ptx: Text,
    cubin: Text,
}

/// A pair of functions that give the size of a text and copy it.
struct Text {
    size: unsafe extern "C" fn(Program, *mut usize) -> Status,
    copy: unsafe extern "C" fn(Program, *mut c_char) -> Status,
}

/// This machine's NVRTC, loaded once; `Err` lists the libraries that were tried and the problem with each.
pub(crate) fn nvrtc() -> Result<&'static Nvrtc, &'static str> {
    static NVRTC: OnceLock<Result<Nvrtc, String>> = OnceLock::new();
    NVRTC.get_or_init(Nvrtc::load).as_ref().map_err(String::as_str)
}

impl Nvrtc {
    fn load() -> Result<Nvrtc, String> {
        let opened = probe::Library::Nvrtc.open()?;
        macro_rules! symbol {
            ($name:literal) => {
                // SAFETY: the type of the field that receives it is the function's signature in `nvrtc.h`, and the library
                // is never unloaded.
                *unsafe { opened.library.get(concat!($name, "\0").as_bytes()) }
                    .map_err(|error| format!("{}: {}", opened.path.display(), probe::cause(&error)))?
            };
        }
        let functions = Functions {
            version: symbol!("nvrtcVersion"),
            error_string: symbol!("nvrtcGetErrorString"),
            supported_count: symbol!("nvrtcGetNumSupportedArchs"),
            supported: symbol!("nvrtcGetSupportedArchs"),
            create: symbol!("nvrtcCreateProgram"),
            destroy: symbol!("nvrtcDestroyProgram"),
            compile: symbol!("nvrtcCompileProgram"),
            log: Text { size: symbol!("nvrtcGetProgramLogSize"), copy: symbol!("nvrtcGetProgramLog") },
            ptx: Text { size: symbol!("nvrtcGetPTXSize"), copy: symbol!("nvrtcGetPTX") },
            cubin: Text { size: symbol!("nvrtcGetCUBINSize"), copy: symbol!("nvrtcGetCUBIN") },
        };
        let (mut major, mut minor) = (0, 0);
        // SAFETY: two out-parameters, as declared.
        unsafe { (functions.version)(&mut major, &mut minor) };
        Ok(Nvrtc { version: (major, minor), path: &opened.path, functions })
    }

    /// Architectures it can compile for, as 75, 80, …; ascending.
    pub(crate) fn architectures(&self) -> Vec<u32> {
        let mut count = 0;
        // SAFETY: one out-parameter, as declared.
        unsafe { (self.functions.supported_count)(&mut count) };
        let mut architectures = vec![0; count.max(0) as usize];
        // SAFETY: the array has the length that the library asked for.
        unsafe { (self.functions.supported)(architectures.as_mut_ptr()) };
        let mut architectures: Vec<u32> = architectures.into_iter().map(|a| a as u32).collect();
        architectures.sort_unstable();
        architectures
    }

    /// Compiles `source`, named `name` in messages, with headers by their names in `#include`. `Err` is the compiler's log.
    pub(crate) fn compile(
        &self,
        source: &str,
        name: &str,
        headers: &BTreeMap<String, String>,
        options: &[String],
    ) -> Result<Output, String> {
        let (source, name) = (c_string(source)?, c_string(name)?);
        let (_options, option_ptrs) = c_strings(options)?;
        let (_names, name_ptrs) = c_strings(headers.keys())?;
        let (_texts, text_ptrs) = c_strings(headers.values())?;

        let mut program = Owned { program: std::ptr::null_mut(), nvrtc: self };
        // SAFETY: the strings outlive the program, which is destroyed at the end of this function, and both arrays hold as many as
        // is said.
        let status = unsafe {
            (self.functions.create)(
                &mut program.program,
                source.as_ptr(),
                name.as_ptr(),
                headers.len() as c_int,
                text_ptrs.as_ptr(),
                name_ptrs.as_ptr(),
            )
        };
        self.check(status)?;
        // SAFETY: the program was created, and the array holds as many strings as is said.
        let status =
            unsafe { (self.functions.compile)(program.program, option_ptrs.len() as c_int, option_ptrs.as_ptr()) };
        if status != 0 {
            let log = program.text(&self.functions.log)?;
            let log = String::from_utf8_lossy(&log);
            let log = log.trim_end_matches(['\0', '\n']);
            return Err(match log {
                "" => self.message(status),
                _ => log.to_owned(),
            });
        }
        let mut ptx = program.text(&self.functions.ptx)?;
        ptx.truncate(ptx.iter().position(|&byte| byte == 0).unwrap_or(ptx.len()));
        let cubin = program.text(&self.functions.cubin)?;
        Ok(Output { ptx: String::from_utf8_lossy(&ptx).into_owned(), cubin: (!cubin.is_empty()).then_some(cubin) })
    }

    fn check(&self, status: Status) -> Result<(), String> {
        match status {
            0 => Ok(()),
            _ => Err(self.message(status)),
        }
    }

    fn message(&self, status: Status) -> String {
        // SAFETY: NVRTC returns a static string for every status.
        let text = unsafe { CStr::from_ptr((self.functions.error_string)(status)) };
        format!("{} ({})", text.to_string_lossy(), self.path.display())
    }
}

fn c_string(text: &str) -> Result<CString, String> {
    CString::new(text).map_err(|_| "a zero byte in the source, a header, their names or an option".to_owned())
}

/// The texts, which must outlive the pointers to them.
fn c_strings<'a>(texts: impl IntoIterator<Item = &'a String>) -> Result<(Vec<CString>, Vec<*const c_char>), String> {
    let texts = texts.into_iter().map(|text| c_string(text)).collect::<Result<Vec<_>, _>>()?;
    let pointers = texts.iter().map(|text| text.as_ptr()).collect();
    Ok((texts, pointers))
}

/// A program that destroys itself.
struct Owned<'a> {
    program: Program,
    nvrtc: &'a Nvrtc,
}

impl Owned<'_> {
    fn text(&self, text: &Text) -> Result<Vec<u8>, String> {
        let mut size = 0;
        // SAFETY: the program is alive.
        let status = unsafe { (text.size)(self.program, &mut size) };
        self.nvrtc.check(status)?;
        let mut bytes = vec![0u8; size];
        if size > 0 {
            // SAFETY: the buffer has the size that the library asked for.
            let status = unsafe { (text.copy)(self.program, bytes.as_mut_ptr().cast()) };
            self.nvrtc.check(status)?;
        }
        Ok(bytes)
    }
}

impl Drop for Owned<'_> {
    fn drop(&mut self) {
        if !self.program.is_null() {
            // SAFETY: created once, destroyed once.
            unsafe { (self.nvrtc.functions.destroy)(&mut self.program) };
        }
    }
}
