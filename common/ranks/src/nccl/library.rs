//! NCCL's functions, opened at run time.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::OnceLock;

use cudarc::nccl::sys::{self, ncclDataType_t as DataType, ncclRedOp_t as RedOp};

use common::device::Device;
use common::error::{Error, Result};
use common::probe;

/// The oldest version whose functions and types are used here.
const OLDEST: c_int = 2_18_00;

/// Status of NCCL's functions: [`SUCCESS`], [`IN_PROGRESS`], or one of those that [`describe`] puts in words. A later version may
/// know more than cudarc's enum.
pub(super) type Status = c_int;

pub(super) const SUCCESS: Status = 0;
pub(super) const IN_PROGRESS: Status = 7;

/// Statuses reported without a call of NCCL: `ncclUnhandledCudaError`, `ncclInternalError`, `ncclInvalidUsage`.
pub(super) const CUDA_ERROR: Status = 1;
pub(super) const INTERNAL_ERROR: Status = 3;
pub(super) const INVALID_USAGE: Status = 5;

/// Declares the functions of NCCL that are called here, like cudarc's bindings. cudarc would look for a library called
/// `libnccl.so`, and the one that NVIDIA's package installs is `libnccl.so.2`; so they are found in the library that we opened.
macro_rules! functions {
    ($($name:ident = $symbol:literal: fn($($argument:ty),*) -> $returned:ty;)+) => {
        pub(super) struct Functions {
            $(pub(super) $name: unsafe extern "C" fn($($argument),*) -> $returned,)+
        }

        impl Functions {
            /// All functions; `Err` with the name of a missing one.
            fn of(library: &libloading::Library) -> std::result::Result<Functions, &'static str> {
                Ok(Functions {
                    $($name: {
                        // SAFETY: these are the functions' types in `nccl.h`; the library stays loaded until the program ends.
                        *unsafe { library.get::<unsafe extern "C" fn($($argument),*) -> $returned>($symbol.as_bytes()) }
                            .map_err(|_| $symbol)?
                    },)+
                })
            }
        }
    };
}

functions! {
    get_version = "ncclGetVersion": fn(*mut c_int) -> Status;
    get_unique_id = "ncclGetUniqueId": fn(*mut sys::ncclUniqueId) -> Status;
    comm_init_all = "ncclCommInitAll": fn(*mut sys::ncclComm_t, c_int, *const c_int) -> Status;
    comm_init_rank = "ncclCommInitRank": fn(*mut sys::ncclComm_t, c_int, sys::ncclUniqueId, c_int) -> Status;
    comm_get_async_error = "ncclCommGetAsyncError": fn(sys::ncclComm_t, *mut Status) -> Status;
    comm_destroy = "ncclCommDestroy": fn(sys::ncclComm_t) -> Status;
    comm_abort = "ncclCommAbort": fn(sys::ncclComm_t) -> Status;
    get_error_string = "ncclGetErrorString": fn(Status) -> *const c_char;
    get_last_error = "ncclGetLastError": fn(sys::ncclComm_t) -> *const c_char;
    all_reduce = "ncclAllReduce":
        fn(*const c_void, *mut c_void, usize, DataType, RedOp, sys::ncclComm_t, sys::cudaStream_t) -> Status;
    all_gather = "ncclAllGather": fn(*const c_void, *mut c_void, usize, DataType, sys::ncclComm_t, sys::cudaStream_t) -> Status;
    reduce_scatter = "ncclReduceScatter":
        fn(*const c_void, *mut c_void, usize, DataType, RedOp, sys::ncclComm_t, sys::cudaStream_t) -> Status;
    broadcast = "ncclBroadcast":
        fn(*const c_void, *mut c_void, usize, DataType, c_int, sys::ncclComm_t, sys::cudaStream_t) -> Status;
    send = "ncclSend": fn(*const c_void, usize, DataType, c_int, sys::ncclComm_t, sys::cudaStream_t) -> Status;
    recv = "ncclRecv": fn(*mut c_void, usize, DataType, c_int, sys::ncclComm_t, sys::cudaStream_t) -> Status;
    group_start = "ncclGroupStart": fn() -> Status;
    group_end = "ncclGroupEnd": fn() -> Status;
}

/// NCCL, once it has been found and is new enough.
pub(super) struct Library {
    pub(super) functions: Functions,
    version: c_int,
}

/// The version of NCCL that this device can use: `2.27.5`.
///
/// # Errors
/// [`Error::Unsupported`] if it is absent, too old, or if the device is no GPU.
pub(crate) fn version(device: &Device) -> Result<String> {
    open(device).map(|library| dotted(library.version))
}

pub(super) fn open(device: &Device) -> Result<&'static Library> {
    let refused = |reason: &str| Error::Unsupported {
        what: "NCCL".to_owned(),
        device: device.short_name(),
        reason: reason.to_owned(),
    };
    if device.is_sim() {
        return Err(refused("it runs on NVIDIA GPUs only"));
    }
    static FOUND: OnceLock<std::result::Result<Library, String>> = OnceLock::new();
    FOUND.get_or_init(find).as_ref().map_err(|reason| refused(reason))
}

fn find() -> std::result::Result<Library, String> {
    let remedy = probe::Library::Nccl.remedy();
    let opened = probe::Library::Nccl.open().map_err(|tried| format!("{tried}; install it with: {remedy}"))?;
    let path = opened.path.display();
    let missing =
        |name: &str| format!("{path} has no function {name}: it is too old, or not NCCL; install it with: {remedy}");
    let functions = Functions::of(&opened.library).map_err(missing)?;
    let mut version = 0;
    // SAFETY: it writes one int.
    match unsafe { (functions.get_version)(&mut version) } {
        SUCCESS => check_version(version).map(|()| Library { functions, version }),
        status => Err(format!("{path} does not say its version: status {status}")),
    }
}

fn check_version(version: c_int) -> std::result::Result<(), String> {
    if version >= OLDEST {
        return Ok(());
    }
    let (found, oldest) = (dotted(version), dotted(OLDEST));
    Err(format!(
        "NCCL {found} is too old: {oldest} or later is needed; install it with: {}",
        probe::Library::Nccl.remedy()
    ))
}

/// From 2.9 on a version is major · 10000 + minor · 100 + patch; before it was major · 1000.
fn dotted(version: c_int) -> String {
    let major = if version >= 10_000 { 10_000 } else { 1000 };
    format!("{}.{}.{}", version / major, version % major / 100, version % 100)
}

pub(super) fn driver_error(device: &Device, what: &str, error: cudarc::driver::DriverError) -> Error {
    Error::Cuda {
        operation: what.to_owned(),
        device: device.short_name(),
        code: Some(error.0 as u32),
        message: error.to_string(),
    }
}

pub(super) fn nccl_error(
    nccl: &Functions,
    device: &Device,
    what: &str,
    status: Status,
    comm: sys::ncclComm_t,
) -> Error {
    Error::Cuda {
        operation: format!("NCCL: {what}"),
        device: device.short_name(),
        code: None,
        message: describe(nccl, status, comm),
    }
}

/// `unhandled system error … (status 2): NCCL's last warning`.
pub(super) fn describe(nccl: &Functions, status: Status, comm: sys::ncclComm_t) -> String {
    // SAFETY: both return text of NCCL's that ends with a zero byte and stays, or null; the second takes a null communicator.
    let [text, last] = unsafe { [(nccl.get_error_string)(status), (nccl.get_last_error)(comm)] }.map(|text| {
        // SAFETY: as above.
        if text.is_null() { String::new() } else { unsafe { CStr::from_ptr(text) }.to_string_lossy().trim().to_owned() }
    });
    let last = if last.is_empty() { last } else { format!(": {last}") };
    format!("{text} (status {status}){last}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_that_is_too_old_is_a_sentence() {
        assert_eq!([2_804, 21_805, 22_705, 23_001].map(dotted), ["2.8.4", "2.18.5", "2.27.5", "2.30.1"]);
        assert_eq!(check_version(22_705), Ok(()));
        let error = check_version(2_804).unwrap_err();
        let remedy = probe::Library::Nccl.remedy();
        let expected = format!("NCCL 2.8.4 is too old: 2.18.0 or later is needed; install it with: {remedy}");
        assert_eq!(error, expected);
        assert!(remedy.ends_with("pip install nvidia-nccl-cu13"), "{remedy}");
    }

    #[test]
    fn the_simulator_has_no_nccl() {
        let error = version(&Device::sim()).unwrap_err();
        assert_eq!(error.to_string(), "NCCL is not possible on sim: it runs on NVIDIA GPUs only");
    }
}
