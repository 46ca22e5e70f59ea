//! Libraries: modules that a program loads by itself.

use std::ffi::{c_char, c_int, c_uint, c_void};

use super::same_as_driver;
use crate::abi::{Handle, Pointer};
use crate::driver::module::*;

same_as_driver! {
    fn cudaLibraryLoadData(
        library: *mut Handle,
        image: *const c_void,
        options: *const c_int,
        values: *const *mut c_void,
        count: c_uint,
        library_options: *const c_int,
        library_values: *const *mut c_void,
        library_count: c_uint,
    ) = cuLibraryLoadData;
    fn cudaLibraryLoadFromFile(
        library: *mut Handle,
        path: *const c_char,
        options: *const c_int,
        values: *const *mut c_void,
        count: c_uint,
        library_options: *const c_int,
        library_values: *const *mut c_void,
        library_count: c_uint,
    ) = cuLibraryLoadFromFile;
    fn cudaLibraryUnload(library: Handle) = cuLibraryUnload;
    fn cudaLibraryGetKernel(kernel: *mut Handle, library: Handle, name: *const c_char) = cuLibraryGetKernel;
    fn cudaLibraryGetGlobal(address: *mut Pointer, bytes: *mut usize, library: Handle, name: *const c_char) =
        cuLibraryGetGlobal;
    fn cudaLibraryGetManaged(address: *mut Pointer, bytes: *mut usize, library: Handle, name: *const c_char) =
        cuLibraryGetManaged;
    fn cudaLibraryGetKernelCount(number: *mut c_uint, library: Handle) = cuLibraryGetKernelCount;
    fn cudaLibraryEnumerateKernels(places: *mut Handle, count: c_uint, library: Handle) = cuLibraryEnumerateKernels;
}
