//! A program that waits for too little: it reads memory before the copy to it has been waited for, and a stream reads what
//! another one writes. Which values it sees depends on when the work of streams is done.
#![allow(missing_docs, clippy::unwrap_used)]

use std::ffi::{c_int, c_uint, c_void};
use std::process::ExitCode;

use driver::{Driver, Launch, Symbol, call, exit_code};

mod driver;

const PTX: &str = concat!(include_str!("../tests/kernels/client.ptx"), "\0");
const N: usize = 64;
const NON_BLOCKING: usize = 1;

fn run() -> Result<(), String> {
    let driver = Driver::open()?;
    let (mut context, mut module, mut function) = (0_usize, 0_usize, 0_usize);
    call!(driver, "cuInit", 0)?;
    call!(driver, "cuCtxCreate_v2", &raw mut context, 0, 0)?;
    call!(driver, "cuModuleLoadData", &raw mut module, PTX.as_ptr())?;
    call!(driver, "cuModuleGetFunction", &raw mut function, module, c"add".as_ptr())?;
    let bytes = N * size_of::<f32>();
    let (mut values, mut out, mut host) = (0_u64, 0_u64, std::ptr::null_mut::<f32>());
    call!(driver, "cuMemAlloc_v2", &raw mut values, bytes)?;
    call!(driver, "cuMemAlloc_v2", &raw mut out, bytes)?;
    call!(driver, "cuMemHostAlloc", &raw mut host, bytes, 0)?;
    let (mut first, mut second, mut third) = (0_usize, 0_usize, 0_usize);
    for stream in [&mut first, &mut second, &mut third] {
        call!(driver, "cuStreamCreate", std::ptr::from_mut(stream), NON_BLOCKING)?;
    }
    let mut events = [0_usize; 2];
    for event in &mut events {
        call!(driver, "cuEventCreate", std::ptr::from_mut(event), 0)?;
    }
    let add = |a: &u64, out: &u64| {
        let n = N as c_int;
        let [a, out] = [a, out].map(|buffer| std::ptr::from_ref(buffer).cast::<c_void>());
        let params = [a, a, out, (&raw const n).cast()];
        // SAFETY: the signature of `cuda.h`, a parameter for each of the kernel's.
        let launched = unsafe {
            let launch: Symbol<'_, Launch> = driver.0.get(b"cuLaunchKernel\0").unwrap();
            launch(function, 1, 1, 1, N as c_uint, 1, 1, 0, first, params.as_ptr(), std::ptr::null())
        };
        if launched == 0 { Ok(()) } else { Err(format!("cuLaunchKernel failed with {launched}")) }
    };
    // SAFETY: N values of pinned memory, which lives as long as the context.
    let read = || unsafe { host.read_volatile() };

    // SAFETY: as above; nothing has been queued.
    unsafe { std::slice::from_raw_parts_mut(host, N).fill(0.0) };
    call!(driver, "cuMemsetD32_v2", values, 1.0_f32.to_bits(), N)?;
    call!(driver, "cuCtxSynchronize")?;
    call!(driver, "cuEventRecord", events[0], first)?;
    add(&values, &out)?;
    call!(driver, "cuEventRecord", events[1], first)?;
    call!(driver, "cuStreamWaitEvent", second, events[1], 0)?;
    call!(driver, "cuMemcpyDtoHAsync_v2", host, out, bytes, second)?;
    let early = read();
    let mut milliseconds = 0.0_f32;
    let unfinished = call!(driver, "cuEventElapsedTime", &raw mut milliseconds, events[0], events[1]);
    call!(driver, "cuStreamSynchronize", second)?;
    println!("read at once: {early}, after waiting: {}", read());
    println!("times at once: {}", unfinished.err().unwrap_or_else(|| "known".to_owned()));
    call!(driver, "cuEventElapsedTime", &raw mut milliseconds, events[0], events[1])?;

    // The first stream doubles what the third copies.
    add(&out, &out)?;
    call!(driver, "cuMemcpyDtoHAsync_v2", host, out, bytes, third)?;
    call!(driver, "cuStreamSynchronize", third)?;
    print!("beside the kernel: {}", read());
    call!(driver, "cuCtxSynchronize")?;
    call!(driver, "cuMemcpyDtoH_v2", host, out, bytes)?;
    println!(", after it: {}", read());

    // The default stream comes after those that block, and the end of an allocation after its uses.
    let mut blocking = 0_usize;
    call!(driver, "cuStreamCreate", &raw mut blocking, 0)?;
    call!(driver, "cuMemsetD32Async", out, 8.0_f32.to_bits(), N, blocking)?;
    call!(driver, "cuMemcpyDtoH_v2", host, out, bytes)?;
    println!("behind a stream that blocks: {}", read());
    call!(driver, "cuMemFreeAsync", out, blocking)?;
    call!(driver, "cuMemFree_v2", values)?;
    call!(driver, "cuCtxDestroy_v2", context)
}

fn main() -> ExitCode {
    exit_code(run())
}
