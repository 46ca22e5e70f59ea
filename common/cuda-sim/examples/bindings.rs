//! Needs of Python's bindings beside launches and copies: blocks that wait for each other by `libcudadevrt.a`, user objects of
//! graphs, and an error in a forked process.
#![allow(missing_docs, clippy::unwrap_used)]

use std::ffi::{c_int, c_uint, c_void};
use std::process::ExitCode;
use std::sync::atomic::{AtomicU32, Ordering};

use driver::{Driver, Launch, Symbol, call, exit_code};

mod driver;

const PTX: &[u8] = include_bytes!("../tests/kernels/grid.ptx");
/// `CU_JIT_INPUT_PTX`, `CU_JIT_INPUT_LIBRARY`
const INPUTS: [(usize, &[u8]); 2] = [(1, PTX), (4, b"!<arch>\n")];
const BLOCKS: usize = 5;
const BLOCK: [c_uint; 3] = [8, 5, 1];
const THREADS: usize = 40;

/// `cuLaunchCooperativeKernel`
type LaunchCooperative = unsafe extern "C" fn(
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
) -> c_int;

static ENDED: AtomicU32 = AtomicU32::new(0);

unsafe extern "C" fn end(count: *mut c_void) {
    ENDED.fetch_add(count as usize as u32, Ordering::Relaxed);
}

fn grids(driver: &Driver) -> Result<(), String> {
    let (mut link, mut image, mut module, mut function) = (0_usize, 0_usize, 0_usize, 0_usize);
    call!(driver, "cuLinkCreate_v2", 0, 0, 0, &raw mut link)?;
    for (kind, input) in INPUTS {
        call!(driver, "cuLinkAddData_v2", link, kind, input.as_ptr(), input.len(), 0, 0, 0, 0)?;
    }
    call!(driver, "cuLinkComplete", link, &raw mut image, 0)?;
    call!(driver, "cuModuleLoadData", &raw mut module, image)?;
    call!(driver, "cuLinkDestroy", link)?;
    call!(driver, "cuModuleGetFunction", &raw mut function, module, c"exchange".as_ptr())?;
    let mut rows = 0_u64;
    call!(driver, "cuMemAlloc_v2", &raw mut rows, 4 * BLOCKS * THREADS)?;
    let params = [(&raw const rows).cast::<c_void>()];
    let params = params.as_ptr();
    let [x, y, z] = BLOCK;
    let values = || {
        let mut values = [0_u32; BLOCKS * THREADS];
        call!(driver, "cuMemcpyDtoH_v2", values.as_mut_ptr(), rows, size_of_val(&values))?;
        Ok::<_, String>(values)
    };
    // SAFETY: the signatures of `cuda.h`, a parameter for each of the kernel's.
    unsafe {
        let launch: Symbol<'_, Launch> = driver.0.get(b"cuLaunchKernel\0").unwrap();
        let cooperative: Symbol<'_, LaunchCooperative> = driver.0.get(b"cuLaunchCooperativeKernel\0").unwrap();
        assert_eq!(cooperative(function, BLOCKS as c_uint, 1, 1, x, y, z, 0, 0, params), 0);
        let values_of_next =
            |(at, value): (usize, &u32)| *value as usize == (at / THREADS + 1) % BLOCKS * 1000 + at % THREADS;
        println!("blocks that wait: {}", values()?.iter().enumerate().all(values_of_next));
        assert_eq!(launch(function, BLOCKS as c_uint, 1, 1, x, y, z, 0, 0, params, std::ptr::null()), 0);
        println!("in a launch of another kind: error {}", values()?[0] / 1_000_000);
        println!("too many: error {}", cooperative(function, 100_000, 1, 1, x, y, z, 0, 0, params));
    }
    Ok(())
}

/// A user object with a reference that moves to a graph, and from there to what is made of it.
fn user_objects(driver: &Driver) -> Result<(), String> {
    let (mut object, mut graph, mut executable) = (0_usize, 0_usize, 0_usize);
    call!(driver, "cuUserObjectCreate", &raw mut object, 1, end as *const c_void, 2, 1)?;
    call!(driver, "cuGraphCreate", &raw mut graph, 0)?;
    call!(driver, "cuGraphRetainUserObject", graph, object, 2, 1)?;
    call!(driver, "cuGraphInstantiateWithFlags", &raw mut executable, graph, 0)?;
    call!(driver, "cuGraphReleaseUserObject", graph, object, 1)?;
    call!(driver, "cuGraphDestroy", graph)?;
    let before = ENDED.load(Ordering::Relaxed);
    call!(driver, "cuGraphExecDestroy", executable)?;
    println!("user objects: {before} ended, then {}", ENDED.load(Ordering::Relaxed));
    Ok(())
}

/// Prints the result of a call in a process that this one forks.
#[cfg(unix)]
fn fork(driver: &Driver) {
    let own = libloading::os::unix::Library::this();
    // SAFETY: the signatures of the C library. The child calls one function and ends without the parent's destructors.
    let status = unsafe {
        let fork = own.get::<unsafe extern "C" fn() -> c_int>(b"fork\0").unwrap();
        let exit = own.get::<unsafe extern "C" fn(c_int) -> !>(b"_exit\0").unwrap();
        let wait = own.get::<unsafe extern "C" fn(c_int, *mut c_int, c_int) -> c_int>(b"waitpid\0").unwrap();
        let synchronise: Symbol<'_, unsafe extern "C" fn() -> c_int> = driver.0.get(b"cuCtxSynchronize\0").unwrap();
        let child = fork();
        if child == 0 {
            exit(synchronise());
        }
        let mut status = 0;
        wait(child, &raw mut status, 0);
        status
    };
    println!("in a forked process: error {}", status >> 8 & 0xff);
}

fn run() -> Result<(), String> {
    let driver = Driver::open()?;
    let mut context = 0_usize;
    call!(driver, "cuInit", 0)?;
    call!(driver, "cuCtxCreate_v2", &raw mut context, 0, 0)?;
    grids(&driver)?;
    user_objects(&driver)?;
    #[cfg(unix)]
    fork(&driver);
    Ok(())
}

fn main() -> ExitCode {
    exit_code(run())
}
