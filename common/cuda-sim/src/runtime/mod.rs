//! The runtime API, by the chapters of its manual: what programs of `nvcc -cudart shared` load as `libcudart.so.13`.
//!
//! Programs of CUDA 11 and 12 find their names, `cudaGetDeviceProperties_v2` among them, as far as those differ; where a name has other
//! parameters since CUDA 13, they are those of 13.
//!
//! Each function is a thin layer on the driver API's, as it is in NVIDIA's own library. What is added: the primary context of a
//! thread's device becomes current by itself, symbols of the host stand for kernels and variables, and errors are remembered.

mod array;
mod device;
mod error;
mod event;
mod execution;
mod graph;
mod library;
mod memory;
mod occupancy;
mod registration;
mod stream;
mod unsupported;

use std::cell::Cell;
use std::ffi::c_int;

use crate::abi::{Code, DeviceId, Handle, Outcome};
use crate::{api, state};

thread_local! {
    /// The device that `cudaSetDevice` chose.
    static DEVICE: Cell<DeviceId> = const { Cell::new(0) };
}

/// Exports functions of the runtime API. Each body is an [`Outcome`]. Names after `also` are mostly those for programs whose
/// default stream is one per thread: all work is done when it is queued, so that makes no difference.
macro_rules! runtime {
    ($(fn $name:ident $arguments:tt $(also $($other:ident)+)? $body:block)*) => {
        $(
            #[allow(non_snake_case)]
            #[unsafe(no_mangle)]
            unsafe extern "C" fn $name $arguments -> std::ffi::c_int {
                $crate::runtime::call(stringify!($name), || $body)
            }
            $($(
                #[allow(non_snake_case)]
                #[unsafe(no_mangle)]
                unsafe extern "C" fn $other $arguments -> std::ffi::c_int {
                    $crate::runtime::call(stringify!($other), || $body)
                }
            )+)?
        )*
    };
}
use runtime;

/// Exports functions of the runtime API that are the driver's under another name.
macro_rules! same_as_driver {
    ($(fn $name:ident($($argument:ident: $ty:ty),* $(,)?) $(also $($other:ident)+)? = $target:path;)*) => {
        $crate::runtime::runtime! {
            $(fn $name($($argument: $ty),*) $(also $($other)+)? {
                // SAFETY: the contract is the same.
                $crate::runtime::outcome(unsafe { $target($($argument),*) })
            })*
        }
    };
}
use same_as_driver;

/// Runs a function's body with a current context, and remembers its error.
fn call(name: &str, body: impl FnOnce() -> Outcome) -> c_int {
    error::remember(api::call(name, || {
        begin()?;
        body()
    }))
}

/// Makes a context current, if none is.
fn begin() -> Outcome {
    state::initialise()?;
    if state::current().is_none() {
        state::set_current(state::state()?.primary(DEVICE.get())?);
    }
    Ok(())
}

/// The result of a function of the driver API.
fn outcome(code: c_int) -> Outcome {
    if code == 0 { Ok(()) } else { Err(Code(code)) }
}

/// The context that is current, whether it works or not.
fn current() -> Outcome<Handle> {
    state::current().ok_or(Code::INVALID_CONTEXT)
}

/// Ordinal of the device whose context is current.
fn current_device() -> Outcome<DeviceId> {
    Ok(state::state()?.contexts.get(current()?)?.ordinal)
}
