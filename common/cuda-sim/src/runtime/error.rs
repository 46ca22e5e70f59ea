//! Errors: each thread remembers its last one.

use std::cell::Cell;
use std::ffi::{CStr, c_char, c_int};

use crate::abi::Code;

thread_local! {
    static LAST: Cell<c_int> = const { Cell::new(0) };
}

/// Result codes that only the runtime API has, with their names and sentences.
const OWN: [(Code, &CStr, &CStr); 5] = [
    (Code::INVALID_CONFIGURATION, c"cudaErrorInvalidConfiguration", c"invalid configuration argument"),
    (Code::INVALID_SYMBOL, c"cudaErrorInvalidSymbol", c"invalid device symbol"),
    (Code::INVALID_MEMCPY_DIRECTION, c"cudaErrorInvalidMemcpyDirection", c"invalid copy direction for memcpy"),
    (Code::MISSING_CONFIGURATION, c"cudaErrorMissingConfiguration", c"__global__ function call is not configured"),
    (Code::INVALID_DEVICE_FUNCTION, c"cudaErrorInvalidDeviceFunction", c"invalid device function"),
];

impl Code {
    pub(super) const INVALID_CONFIGURATION: Self = Self(9);
    pub(super) const INVALID_SYMBOL: Self = Self(13);
    pub(super) const INVALID_MEMCPY_DIRECTION: Self = Self(21);
    pub(super) const MISSING_CONFIGURATION: Self = Self(52);
    pub(super) const INVALID_DEVICE_FUNCTION: Self = Self(98);
}

/// Name and sentence of a result code.
fn describe(code: c_int) -> (&'static CStr, &'static CStr) {
    let own = OWN.iter().find(|(known, ..)| known.0 == code).map(|(_, name, text)| (*name, *text));
    let known = own.or_else(|| Code(code).describe().map(|known| (known.runtime, known.text)));
    known.unwrap_or((c"unrecognized error code", c"unrecognized error code"))
}

/// Keeps an error for `cudaGetLastError`. "Not ready" is an answer, and no error.
pub(super) fn remember(code: c_int) -> c_int {
    if code != 0 && code != Code::NOT_READY.0 {
        LAST.set(code);
    }
    code
}

#[unsafe(no_mangle)]
extern "C" fn cudaGetLastError() -> c_int {
    LAST.replace(0)
}

#[unsafe(no_mangle)]
extern "C" fn cudaPeekAtLastError() -> c_int {
    LAST.get()
}

#[unsafe(no_mangle)]
extern "C" fn cudaGetErrorName(code: c_int) -> *const c_char {
    describe(code).0.as_ptr()
}

#[unsafe(no_mangle)]
extern "C" fn cudaGetErrorString(code: c_int) -> *const c_char {
    describe(code).1.as_ptr()
}
