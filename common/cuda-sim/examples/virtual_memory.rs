//! A program that maps memory to addresses of its choice: each line of its output is one part.
#![allow(missing_docs, clippy::unwrap_used)]

use std::ffi::{c_int, c_uint, c_void};
use std::process::ExitCode;

use driver::{Driver, Launch, Symbol, call, exit_code};

mod driver;

const PTX: &str = concat!(include_str!("../tests/kernels/client.ptx"), "\0");

/// `CUmemAllocationProp` of memory of the first device.
const PROPERTIES: [c_int; 8] = [1, 0, 1, 0, 0, 0, 0, 0];
/// `CUmemAccessDesc`: the first device reads and writes, or does not.
const REACH: [c_int; 3] = [1, 0, 3];
const NOTHING: [c_int; 3] = [1, 0, 0];

fn run() -> Result<(), String> {
    let driver = Driver::open()?;
    let (mut context, mut module, mut add) = (0_usize, 0_usize, 0_usize);
    call!(driver, "cuInit", 0)?;
    call!(driver, "cuCtxCreate_v2", &raw mut context, 0, 0)?;
    call!(driver, "cuModuleLoadData", &raw mut module, PTX.as_ptr())?;
    call!(driver, "cuModuleGetFunction", &raw mut add, module, c"add".as_ptr())?;
    let free = || {
        let (mut free, mut total) = (0_usize, 0_usize);
        call!(driver, "cuMemGetInfo_v2", &raw mut free, &raw mut total).map(|()| free)
    };
    let (mut unit, mut supported) = (0_usize, 0 as c_int);
    call!(driver, "cuMemGetAllocationGranularity", &raw mut unit, PROPERTIES.as_ptr(), 0)?;
    call!(driver, "cuDeviceGetAttribute", &raw mut supported, 102, 0)?;
    println!("supported {supported}, in units of {unit}");

    // Two memories side by side, which nothing reaches yet.
    let (before, mut start, mut memories) = (free()?, 0_u64, [0_usize; 2]);
    call!(driver, "cuMemAddressReserve", &raw mut start, 3 * unit, 0, 0, 0)?;
    for (at, memory) in memories.iter_mut().enumerate() {
        call!(driver, "cuMemCreate", std::ptr::from_mut(memory), unit, PROPERTIES.as_ptr(), 0)?;
        call!(driver, "cuMemMap", start + (at * unit) as u64, unit, 0, *memory, 0)?;
    }
    println!("taken {} units", (before - free()?) / unit);
    println!("twice: {}", call!(driver, "cuMemMap", start, unit, 0, memories[1], 0).unwrap_err());
    println!("out of reach: {}", call!(driver, "cuMemcpyHtoD_v2", start, &raw const unit, 1).unwrap_err());
    println!("not all mapped: {}", call!(driver, "cuMemSetAccess", start, 3 * unit, REACH.as_ptr(), 1).unwrap_err());
    call!(driver, "cuMemSetAccess", start, 2 * unit, REACH.as_ptr(), 1)?;
    let mut flags = 9_u64;
    call!(driver, "cuMemGetAccess", &raw mut flags, [1 as c_int, 0].as_ptr(), start + 5)?;

    // Copies, fills and kernels go across.
    let n = unit / 2 - 1;
    let middle = start + 4 * (unit / 4 - 32) as u64;
    let values: Vec<f32> = (0..64).map(|i| i as f32).collect();
    let mut back = [f32::NAN; 64];
    call!(driver, "cuMemsetD32_v2", start, 2.0_f32.to_bits(), n)?;
    call!(driver, "cuMemcpyHtoD_v2", middle, values.as_ptr(), 256)?;
    let count: c_int = 64;
    let (buffer, count) = ((&raw const middle).cast::<c_void>(), (&raw const count).cast());
    let params = [buffer, buffer, buffer, count];
    // SAFETY: the signature of `cuda.h`, a parameter for each of the kernel's.
    let launched = unsafe {
        let launch: Symbol<'_, Launch> = driver.0.get(b"cuLaunchKernel\0").unwrap();
        launch(add, 1, 1, 1, 64 as c_uint, 1, 1, 0, 0, params.as_ptr(), std::ptr::null())
    };
    call!(driver, "cuMemcpyDtoH_v2", back.as_mut_ptr(), middle, 256)?;
    let doubled = back.iter().zip(&values).all(|(back, value)| *back == 2.0 * value);
    call!(driver, "cuMemcpyDtoD_v2", start, middle, 256)?;
    call!(driver, "cuMemcpyDtoH_v2", back.as_mut_ptr(), start + 4 * 62, 12)?;
    println!("access {flags}, launch {launched}, doubled {doubled}, then {:?}", &back[..3]);

    // The second memory at the first's address, where it has what was written to it.
    let mut again = 0_usize;
    call!(driver, "cuMemRetainAllocationHandle", &raw mut again, start + unit as u64)?;
    println!("partly: {}", call!(driver, "cuMemUnmap", start, unit / 2).unwrap_err());
    println!("freed: {}", call!(driver, "cuMemFree_v2", start).unwrap_err());
    call!(driver, "cuMemUnmap", start, 2 * unit)?;
    call!(driver, "cuMemRelease", memories[0])?;
    call!(driver, "cuMemRelease", memories[1])?;
    println!("same {}, taken {} units", again == memories[1], (before - free()?) / unit);
    call!(driver, "cuMemMap", start, unit, 0, again, 0)?;
    call!(driver, "cuMemRelease", again)?;
    call!(driver, "cuMemSetAccess", start, unit, REACH.as_ptr(), 1)?;
    call!(driver, "cuMemcpyDtoH_v2", back.as_mut_ptr(), start, 12)?;
    println!("moved {:?}", &back[..3]);
    call!(driver, "cuMemSetAccess", start, unit, NOTHING.as_ptr(), 1)?;
    println!("closed: {}", call!(driver, "cuMemcpyDtoH_v2", back.as_mut_ptr(), start, 12).unwrap_err());
    println!("in use: {}", call!(driver, "cuMemAddressFree", start, 3 * unit).unwrap_err());
    call!(driver, "cuMemUnmap", start, unit)?;
    call!(driver, "cuMemAddressFree", start, 3 * unit)?;
    println!("taken {}", before - free()?);
    let mut memory = 0_usize;
    println!(
        "too much: {}",
        call!(driver, "cuMemCreate", &raw mut memory, 64_u64 << 40, PROPERTIES.as_ptr(), 0).unwrap_err()
    );
    call!(driver, "cuCtxDestroy_v2", context)
}

fn main() -> ExitCode {
    exit_code(run())
}
