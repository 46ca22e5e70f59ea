//! A program of the runtime API for the tests: it does by hand what nvcc's compilations do before `main` and at `<<<…>>>`.
//!
//! Registers the fat binary of `client.cu`, scales 1,000 values in blocks of 256, and prints what comes of it.
#![allow(missing_docs, clippy::unwrap_used)]

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::process::ExitCode;

use libloading::Library;

static FATBIN: &[u8] = include_bytes!("../tests/kernels/client_zstd.fatbin");
const N: usize = 1000;

/// `__fatBinC_Wrapper_t`
#[repr(C)]
struct Wrapper {
    magic: u32,
    version: u32,
    fatbin: *const u8,
    unused: *const c_void,
}

/// `dim3`
#[derive(Clone, Copy)]
#[repr(C)]
struct Dim3(c_uint, c_uint, c_uint);

/// Calls a function of the runtime, and names it if it fails.
macro_rules! call {
    ($library:expr, $name:ident($($argument:expr => $ty:ty),*)) => {{
        // SAFETY: the signature of CUDA's headers, by the types at the call.
        let result = unsafe {
            let name = concat!(stringify!($name), "\0");
            let function = $library.get::<unsafe extern "C" fn($($ty),*) -> c_int>(name.as_bytes()).unwrap();
            function($($argument),*)
        };
        if result == 0 { Ok(()) } else { Err(format!("{} failed with {result}", stringify!($name))) }
    }};
}

/// Registers the kernel and the variables, as code before `main` does. The addresses of these statics stand for them.
fn register(library: &Library, wrapper: *const Wrapper) -> *const c_void {
    type Register =
        unsafe extern "C" fn(*const c_void, *const c_void, *const c_char, *const c_char, c_int, usize, c_int, c_int);
    // SAFETY: the signatures of `crt/host_runtime.h`; all that is pointed to lives as long as the program.
    unsafe {
        let open = library.get::<unsafe extern "C" fn(*const Wrapper) -> *const c_void>(b"__cudaRegisterFatBinary\0");
        let image = open.unwrap()(wrapper);
        type RegisterFunction = unsafe extern "C" fn(
            *const c_void,
            *const c_void,
            *const c_char,
            *const c_char,
            c_int,
            *const c_void,
            *const c_void,
            *const c_void,
            *const c_void,
            *const c_void,
        );
        let function = library.get::<RegisterFunction>(b"__cudaRegisterFunction\0").unwrap();
        let (none, scaled) = (std::ptr::null(), c"scaled".as_ptr());
        function(image, (&raw const SCALED).cast(), scaled, scaled, -1, none, none, none, none, none);
        let variable = library.get::<Register>(b"__cudaRegisterVar\0").unwrap();
        variable(image, (&raw const SCALE).cast(), c"scale".as_ptr(), c"scale".as_ptr(), 0, 4, 1, 0);
        let managed = library.get::<Register>(b"__cudaRegisterManagedVar\0").unwrap();
        managed(image, (&raw const COUNT).cast(), c"count".as_ptr(), c"count".as_ptr(), 0, 4, 0, 0);
        let end = library.get::<unsafe extern "C" fn(*const c_void)>(b"__cudaRegisterFatBinaryEnd\0").unwrap();
        end(image);
        image
    }
}

static SCALED: u8 = 0;
static SCALE: f32 = 0.0;
/// Where the address of the managed variable is kept.
static mut COUNT: *mut c_int = std::ptr::null_mut();

/// `scaled<<<4, 256>>>(buffer, N)`, and the wait for it.
fn launch(library: &Library, buffer: *mut c_void) -> Result<(), String> {
    call!(library, __cudaPushCallConfiguration(
        Dim3(4, 1, 1) => Dim3, Dim3(256, 1, 1) => Dim3, 0 => usize, std::ptr::null() => *const c_void))?;
    let (mut grid, mut block, mut shared, mut stream) = (Dim3(0, 0, 0), Dim3(0, 0, 0), 0_usize, std::ptr::null());
    call!(library, __cudaPopCallConfiguration(
        &raw mut grid => *mut Dim3, &raw mut block => *mut Dim3, &raw mut shared => *mut usize,
        &raw mut stream => *mut *const c_void))?;
    let n = N as c_int;
    let params = [(&raw const buffer).cast::<c_void>(), (&raw const n).cast()];
    call!(library, cudaLaunchKernel(
        (&raw const SCALED).cast() => *const c_void, grid => Dim3, block => Dim3,
        params.as_ptr() => *const *const c_void, shared => usize, stream => *const c_void))?;
    call!(library, cudaDeviceSynchronize())
}

fn run() -> Result<(), String> {
    let name = if cfg!(windows) {
        "cudart64_13.dll"
    } else if cfg!(target_os = "macos") {
        "libcudart.dylib"
    } else {
        "libcudart.so.13"
    };
    // SAFETY: the library has no harmful initialiser.
    let library = unsafe { Library::new(name) }.map_err(|error| error.to_string())?;
    let wrapper = Wrapper { magic: 0x4662_43b1, version: 1, fatbin: FATBIN.as_ptr(), unused: std::ptr::null() };
    let image = register(&library, &raw const wrapper);
    call!(library, cudaSetDevice(0 => c_int))?;
    // SAFETY: the signature of `crt/host_runtime.h`.
    unsafe {
        library.get::<unsafe extern "C" fn(*const c_void) -> c_char>(b"__cudaInitModule\0").unwrap()(image);
        assert_eq!(*COUNT, 0);
        *COUNT = 7;
    }

    let bytes = N * size_of::<f32>();
    let mut values: Vec<f32> = (0..N).map(|i| i as f32).collect();
    let (mut buffer, scale) = (std::ptr::null_mut::<c_void>(), 3.0_f32);
    call!(library, cudaMalloc(&raw mut buffer => *mut *mut c_void, bytes => usize))?;
    let (host_to_device, device_to_host) = (1, 2);
    call!(library, cudaMemcpy(
        buffer => *mut c_void, values.as_ptr().cast() => *const c_void, bytes => usize, host_to_device => c_int))?;
    call!(library, cudaMemcpyToSymbol(
        (&raw const SCALE).cast() => *const c_void, (&raw const scale).cast() => *const c_void, 4 => usize, 0 => usize,
        host_to_device => c_int))?;

    launch(&library, buffer)?;
    values.fill(f32::NAN);
    call!(library, cudaMemcpy(
        values.as_mut_ptr().cast() => *mut c_void, buffer => *const c_void, bytes => usize, device_to_host => c_int))?;
    // SAFETY: the address that the library stored, of a variable that lives as long as its module.
    let count = unsafe { *COUNT };
    println!("values {} {} {}, count {count}", values[0], values[1], values[N - 1]);

    // Another GPU has a factor of its own, which is 0, and the same count.
    call!(library, cudaSetDevice(1 => c_int))?;
    launch(&library, buffer)?;
    call!(library, cudaMemcpy(
        values.as_mut_ptr().cast() => *mut c_void, buffer => *const c_void, bytes => usize, device_to_host => c_int))?;
    // SAFETY: as above.
    let count = unsafe { *COUNT };
    println!("device 1: value {}, count {count}", values[N - 1]);

    // Errors: what fails is remembered until it is asked for.
    let failed = call!(library, cudaMemcpy(
        buffer => *mut c_void, values.as_ptr().cast() => *const c_void, bytes + 1 => usize, host_to_device => c_int));
    // SAFETY: the signatures of CUDA's headers.
    unsafe {
        let last = library.get::<unsafe extern "C" fn() -> c_int>(b"cudaGetLastError\0").unwrap();
        let name = library.get::<unsafe extern "C" fn(c_int) -> *const c_char>(b"cudaGetErrorName\0").unwrap();
        let name = CStr::from_ptr(name(last())).to_str().unwrap();
        println!("{}, {name}, then {}", failed.unwrap_err(), last());
    }
    call!(library, cudaFree(buffer => *mut c_void))
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("{message}");
            ExitCode::from(3)
        }
    }
}
