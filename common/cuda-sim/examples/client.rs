//! A CUDA program for the tests: it opens the driver's library, as any program does, and knows nothing of a simulator.
//!
//! `client add`, `client reverse_race`, `client overrun`, `client greet`: launches that kernel, prints what comes of it. A file after
//! the name has the module in another form.
#![allow(missing_docs, clippy::unwrap_used)]

use std::ffi::{CString, c_int, c_uint, c_void};
use std::process::ExitCode;

use driver::{Driver, Launch, Symbol, call, exit_code};

mod driver;

const PTX: &str = include_str!("../tests/kernels/client.ptx");
const N: usize = 64;

fn run(kernel: &str, mut image: Vec<u8>) -> Result<(), String> {
    let driver = Driver::open()?;
    let (mut context, mut module, mut function) = (0_usize, 0_usize, 0_usize);
    call!(driver, "cuInit", 0)?;
    call!(driver, "cuCtxCreate_v2", &raw mut context, 0, 0)?;
    let kernel_name = CString::new(kernel).unwrap();
    image.push(0);
    call!(driver, "cuModuleLoadData", &raw mut module, image.as_ptr())?;
    call!(driver, "cuModuleGetFunction", &raw mut function, module, kernel_name.as_ptr())?;

    let bytes = N * size_of::<f32>();
    let mut values: Vec<f32> = (0..N).map(|i| i as f32).collect();
    let mut buffers = [0_u64; 2];
    for buffer in &mut buffers {
        call!(driver, "cuMemAlloc_v2", std::ptr::from_mut(buffer), bytes)?;
        call!(driver, "cuMemcpyHtoD_v2", *buffer, values.as_ptr(), bytes)?;
    }
    let n = N as c_int;
    let [first, second] = buffers.each_ref().map(|buffer| std::ptr::from_ref(buffer).cast::<c_void>());
    let count = (&raw const n).cast::<c_void>();
    let params: Vec<*const c_void> = match kernel {
        "add" => vec![first, second, first, count],
        "reverse_race" => vec![first],
        _ => vec![first, count],
    };
    // SAFETY: the signature of `cuda.h`, a parameter for each of the kernel's.
    let launched = unsafe {
        let launch: Symbol<'_, Launch> = driver.0.get(b"cuLaunchKernel\0").unwrap();
        launch(function, 1, 1, 1, N as c_uint, 1, 1, 0, 0, params.as_ptr(), std::ptr::null())
    };
    if launched != 0 {
        return Err(format!("cuLaunchKernel failed with {launched}"));
    }
    call!(driver, "cuCtxSynchronize")?;
    call!(driver, "cuMemcpyDtoH_v2", values.as_mut_ptr(), buffers[0], bytes)?;
    for buffer in buffers {
        call!(driver, "cuMemFree_v2", buffer)?;
    }
    call!(driver, "cuCtxDestroy_v2", context)?;
    println!("values {} {} {}", values[0], values[1], values[N - 1]);
    Ok(())
}

fn main() -> ExitCode {
    let kernel = std::env::args().nth(1).unwrap_or_else(|| "add".to_owned());
    let image = std::env::args().nth(2).map_or_else(|| PTX.into(), |file| std::fs::read(file).unwrap());
    exit_code(run(&kernel, image))
}
