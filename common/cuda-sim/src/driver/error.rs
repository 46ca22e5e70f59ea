//! Initialisation, versions, errors, and the address of any function.

use std::ffi::{c_char, c_int, c_uint, c_void};
use std::sync::Once;

use crate::abi::{Code, Outcome};
use crate::api::{exported, put, put_if_wanted, text};
use crate::state::initialise;
use crate::tell::say;

/// CUDA 13.0, as `cuDriverGetVersion` says it.
pub(crate) const VERSION: c_int = 13000;

/// `CU_GET_PROC_ADDRESS_SUCCESS` and `CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND`.
const FOUND: c_int = 0;
const NOT_FOUND: c_int = 1;

/// Looks a function up by name, for a version of CUDA, and stores its address or null.
///
/// # Safety
/// As `cuGetProcAddress` asks.
pub(crate) unsafe fn look_up(
    symbol: *const c_char,
    function: *mut *const c_void,
    version: c_int,
    status: *mut c_int,
) -> Outcome {
    // SAFETY: the caller's strings and places.
    unsafe {
        let found = super::find(text(symbol)?, version);
        put_if_wanted(status, if found.is_some() { FOUND } else { NOT_FOUND });
        put(function, found.map_or(std::ptr::null(), |address| address.0.cast()))?;
        found.map(|_| ()).ok_or(Code::NOT_FOUND)
    }
}

exported! {
    fn cuInit(flags: c_uint) {
        if flags != 0 {
            return Err(Code::INVALID_VALUE);
        }
        initialise()
    }

    fn cuDriverGetVersion(version: *mut c_int) {
        // SAFETY: a place of the caller's.
        unsafe { put(version, VERSION) }
    }

    fn cuGetErrorName(error: c_int, name: *mut *const c_char) {
        let found = Code(error).describe();
        // SAFETY: a place of the caller's; the text lives for ever.
        unsafe { put(name, found.map_or(std::ptr::null(), |found| found.name.as_ptr()))? };
        found.map(|_| ()).ok_or(Code::INVALID_VALUE)
    }

    fn cuGetErrorString(error: c_int, sentence: *mut *const c_char) {
        let found = Code(error).describe();
        // SAFETY: a place of the caller's; the text lives for ever.
        unsafe { put(sentence, found.map_or(std::ptr::null(), |found| found.text.as_ptr()))? };
        found.map(|_| ()).ok_or(Code::INVALID_VALUE)
    }

    fn cuGetProcAddress(symbol: *const c_char, function: *mut *const c_void, version: c_int, _flags: u64) {
        // SAFETY: as the caller promises.
        unsafe { look_up(symbol, function, version, std::ptr::null_mut()) }
    }

    fn cuGetProcAddress_v2(
        symbol: *const c_char,
        function: *mut *const c_void,
        version: c_int,
        _flags: u64,
        status: *mut c_int,
    ) {
        // SAFETY: as the caller promises.
        unsafe { look_up(symbol, function, version, status) }
    }

    fn cuGetExportTable(_table: *mut *const c_void, _id: *const c_void) {
        // What follows tells whether the program can do without.
        static ONCE: Once = Once::new();
        ONCE.call_once(|| {
            say(
                "the program asks for tables of the driver that NVIDIA does not document, as its runtime in `libcudart_static.a` \
                 and in cuBLAS does; if it ends now, link it with `nvcc -cudart shared`",
            );
        });
        Err(Code::NOT_SUPPORTED)
    }

    fn cuProfilerStart() {
        Ok(())
    }

    fn cuProfilerStop() {
        Ok(())
    }
}
