//! The driver's library, as the tests' programs see it.

use std::ffi::{c_int, c_uint, c_void};
use std::process::ExitCode;

use libloading::Library;
pub(crate) use libloading::Symbol;

/// The driver: `call!(driver, "cuInit", 0)` with the arguments as C has them.
pub(crate) struct Driver(pub(crate) Library);

impl Driver {
    /// The library by the name that programs know.
    pub(crate) fn open() -> Result<Self, String> {
        let name = if cfg!(windows) {
            "nvcuda.dll"
        } else if cfg!(target_os = "macos") {
            "libcuda.dylib"
        } else {
            "libcuda.so.1"
        };
        // SAFETY: the driver's library has no harmful initialiser.
        unsafe { Library::new(name) }.map(Self).map_err(|error| error.to_string())
    }
}

/// `cuLaunchKernel`
#[allow(dead_code)] // not all programs call it themselves
pub(crate) type Launch = unsafe extern "C" fn(
    usize,
    c_uint,
    c_uint,
    c_uint,
    c_uint,
    c_uint,
    c_uint,
    c_uint,
    usize,
    *const *const c_void,
    *const *const c_void,
) -> c_int;

/// Says why a program failed.
pub(crate) fn exit_code(result: Result<(), String>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("{message}");
            ExitCode::from(3)
        }
    }
}

/// Calls a function of the driver with arguments that fit registers: numbers and addresses.
macro_rules! call {
    ($driver:expr, $name:literal $(, $argument:expr)*) => {{
        // SAFETY: the arguments are those of `cuda.h`, passed as machine words.
        let result = unsafe {
            let function: Symbol<'_, unsafe extern "C" fn($(call!(@word $argument)),*) -> c_int> =
                $driver.0.get(concat!($name, "\0").as_bytes()).unwrap();
            function($($argument as usize),*)
        };
        if result == 0 { Ok(()) } else { Err(format!("{} failed with {result}", $name)) }
    }};
    (@word $argument:expr) => { usize };
}
pub(crate) use call;
