//! The frame around each function of the API: its exported symbol, its result code, and its name in the table that
//! `cuGetProcAddress` looks in.

use std::ffi::{CStr, c_char, c_int};
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::abi::{Code, Outcome};

/// Exports functions of the API. Each body is an [`Outcome`]; a panic in it becomes `CUDA_ERROR_UNKNOWN`, because none may cross
/// into C. A name after `also` is that of an earlier version.
macro_rules! exported {
    ($(fn $name:ident $arguments:tt $(also $other:ident)? $body:block)*) => {
        $(
            #[allow(non_snake_case)]
            #[unsafe(no_mangle)]
            pub(crate) unsafe extern "C" fn $name $arguments -> std::ffi::c_int {
                $crate::api::call(stringify!($name), || $body)
            }
            $(
                #[allow(non_snake_case)]
                #[unsafe(no_mangle)]
                unsafe extern "C" fn $other $arguments -> std::ffi::c_int {
                    $crate::api::call(stringify!($other), || $body)
                }
            )?
        )*

        /// The functions of this chapter, by name.
        pub(crate) const FUNCTIONS: &[(&str, $crate::api::Address)] = &[$(
            (stringify!($name), $crate::api::Address($name as *const ())),
            $((stringify!($other), $crate::api::Address($other as *const ())),)?
        )*];
    };
}
pub(crate) use exported;

/// Exports functions that the simulator does not have. Each says so, once in words.
macro_rules! unsupported {
    ($($name:ident)*) => {
        $(
            #[allow(non_snake_case)]
            #[unsafe(no_mangle)]
            extern "C" fn $name() -> std::ffi::c_int {
                $crate::tell::say(concat!(stringify!($name), " is not supported"));
                $crate::abi::Code::NOT_SUPPORTED.0
            }
        )*

        /// The functions of this chapter, by name.
        #[allow(dead_code)] // those of the runtime are found by the linker alone
        pub(crate) const FUNCTIONS: &[(&str, $crate::api::Address)] =
            &[$((stringify!($name), $crate::api::Address($name as *const ()))),*];
    };
}
pub(crate) use unsupported;

/// Address of a function.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Address(pub(crate) *const ());

// SAFETY: the address of code, which nobody writes.
unsafe impl Sync for Address {}

/// Runs a function's body.
pub(crate) fn call(name: &str, body: impl FnOnce() -> Outcome) -> c_int {
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(())) => 0,
        Ok(Err(Code(code))) => code,
        Err(_) => {
            eprintln!("cuda-sim: {name} failed in the simulator; this is a mistake of cuda-sim, please report it");
            Code::UNKNOWN.0
        }
    }
}

/// Stores a result where the caller wants it.
///
/// # Safety
/// `target` is null or valid for a write.
pub(crate) unsafe fn put<T>(target: *mut T, value: T) -> Outcome {
    if target.is_null() {
        return Err(Code::INVALID_VALUE);
    }
    // SAFETY: as the caller promises.
    unsafe { target.write(value) };
    Ok(())
}

/// [`put`] for results that may be left out with a null pointer.
///
/// # Safety
/// Same as [`put`].
pub(crate) unsafe fn put_if_wanted<T>(target: *mut T, value: T) {
    // SAFETY: as the caller promises.
    let _ = unsafe { put(target, value) };
}

/// The text of a C string.
///
/// # Safety
/// `text` is null or ends in a zero byte.
pub(crate) unsafe fn text<'t>(text: *const c_char) -> Outcome<&'t str> {
    if text.is_null() {
        return Err(Code::INVALID_VALUE);
    }
    // SAFETY: as the caller promises.
    unsafe { CStr::from_ptr(text) }.to_str().map_err(|_| Code::INVALID_VALUE)
}

/// A slice of `count` values; empty if there are none, whatever the pointer.
///
/// # Safety
/// `values` is valid for reads of `count` values.
pub(crate) unsafe fn slice<'t, T>(values: *const T, count: usize) -> Outcome<&'t [T]> {
    match (count, values.is_null()) {
        (0, _) => Ok(&[]),
        (_, true) => Err(Code::INVALID_VALUE),
        // SAFETY: as the caller promises.
        (_, false) => Ok(unsafe { std::slice::from_raw_parts(values, count) }),
    }
}
