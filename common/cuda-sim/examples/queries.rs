//! A program of the driver API that asks what there is: kernels of modules, their resources, pointers, streams, versions of functions.
//! Each line of its output is one part.
#![allow(missing_docs, clippy::unwrap_used)]

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::process::ExitCode;

use driver::{Driver, Symbol, call, exit_code};

mod driver;

/// A kernel that may have 24 registers and is launched in clusters of 4 blocks, and one that has 1,000 bytes of shared memory.
const PTX: &str = "
.version 7.8
.target sm_90
.address_size 64
.global .u32 own;
.global .attribute(.managed) .u32 both;
.visible .entry clustered(.param .u64 target, .param .u32 step) .maxnreg 24 .reqnctapercluster 4, 1, 1 { ret; }
.visible .entry shares(.param .u8 flag, .param .align 16 .b8 all[48]) {
    .shared .b8 tile[1000];
    st.shared.u8 [tile], 1;
    ret;
}
\0";

/// `CUlaunchConfig`
#[repr(C)]
struct Config {
    grid: [c_uint; 3],
    block: [c_uint; 3],
    shared_bytes: c_uint,
    stream: usize,
    attributes: *const Attribute,
    count: c_uint,
}

/// `CUlaunchAttribute`
#[repr(C)]
struct Attribute {
    id: c_int,
    pad: c_int,
    value: [u32; 16],
}

fn name(driver: &Driver, function: usize) -> Result<String, String> {
    let mut name: *const c_char = std::ptr::null();
    call!(driver, "cuFuncGetName", &raw mut name, function)?;
    // SAFETY: the driver's text, which lives as long as the module.
    Ok(unsafe { CStr::from_ptr(name) }.to_str().unwrap().to_owned())
}

fn registers(driver: &Driver, function: usize) -> Result<c_int, String> {
    let mut registers: c_int = 0;
    call!(driver, "cuFuncGetAttribute", &raw mut registers, 4, function)?;
    Ok(registers)
}

fn modules(driver: &Driver, file: &std::path::Path) -> Result<(), String> {
    let mut path = file.to_str().unwrap().as_bytes().to_vec();
    path.push(0);
    std::fs::write(file, PTX).unwrap();
    let (mut library, mut module, mut count) = (0_usize, 0_usize, 0 as c_uint);
    call!(driver, "cuLibraryLoadFromFile", &raw mut library, path.as_ptr(), 0, 0, 0, 0, 0, 0)?;
    let mut kernels = [0_usize; 3];
    call!(driver, "cuLibraryGetKernelCount", &raw mut count, library)?;
    call!(driver, "cuLibraryEnumerateKernels", kernels.as_mut_ptr(), 3, library)?;
    println!("{count} kernels: {} {} {}", name(driver, kernels[0])?, name(driver, kernels[1])?, kernels[2]);
    let (mut same, mut loaded, mut text) = (0_usize, 0 as c_int, 0_usize);
    call!(driver, "cuKernelGetLibrary", &raw mut same, kernels[1])?;
    call!(driver, "cuFuncIsLoaded", &raw mut loaded, kernels[1])?;
    call!(driver, "cuFuncLoad", kernels[1])?;
    call!(driver, "cuKernelGetName", &raw mut text, kernels[1])?;
    // SAFETY: as in `name`.
    let text = unsafe { CStr::from_ptr(text as *const c_char) };
    println!("of its library {}, loaded {loaded}, {}", same == library, text.to_str().unwrap());
    let (mut offset, mut bytes) = (0_usize, 0_usize);
    call!(driver, "cuFuncGetParamInfo", kernels[1], 1, &raw mut offset, &raw mut bytes)?;
    let none = call!(driver, "cuKernelGetParamInfo", kernels[1], 2, &raw mut offset, 0).unwrap_err();
    println!("parameter at {offset}, {bytes} bytes; {none}");

    let (mut both, mut own) = (0_u64, 0_u64);
    call!(driver, "cuLibraryGetManaged", &raw mut both, &raw mut bytes, library, c"both".as_ptr())?;
    call!(driver, "cuLibraryGetGlobal", &raw mut own, 0, library, c"own".as_ptr())?;
    let other = call!(driver, "cuLibraryGetManaged", &raw mut own, 0, library, c"own".as_ptr()).unwrap_err();
    // SAFETY: a managed variable, which no kernel uses.
    unsafe { (both as *mut u32).write(7) };
    println!("managed {bytes} bytes; {other}");

    // At most as many registers as the kernel and whoever loads it allow.
    let (option, value) = (0 as c_int, 20_usize);
    call!(driver, "cuModuleLoadDataEx", &raw mut module, PTX.as_ptr(), 1, &raw const option, &raw const value)?;
    call!(driver, "cuModuleGetFunctionCount", &raw mut count, module)?;
    let mut functions = [0_usize; 2];
    call!(driver, "cuModuleEnumerateFunctions", functions.as_mut_ptr(), 2, module)?;
    let most = [kernels[0], kernels[1], functions[0], functions[1]].map(|function| registers(driver, function));
    println!("{count} functions, registers {most:?}");

    let (mut link, mut image) = (0_usize, 0_usize);
    call!(driver, "cuLinkCreate_v2", 1, &raw const option, &raw const value, &raw mut link)?;
    call!(driver, "cuLinkAddData_v2", link, 1, PTX.as_ptr(), PTX.len(), 0, 0, 0, 0)?;
    call!(driver, "cuLinkComplete", link, &raw mut image, 0)?;
    let (mut linked, mut function) = (0_usize, 0_usize);
    call!(driver, "cuModuleLoadData", &raw mut linked, image)?;
    call!(driver, "cuModuleGetFunction", &raw mut function, linked, c"shares".as_ptr())?;
    println!("linked with {} registers", registers(driver, function)?);

    let mut shared = [0_usize; 3];
    for (blocks, bytes) in [1, 2, 1000].into_iter().zip(&mut shared) {
        let room = std::ptr::from_mut(bytes);
        call!(driver, "cuOccupancyAvailableDynamicSMemPerBlock", room, functions[1], blocks, 128)?;
    }
    println!("shared memory left {shared:?}");
    let mut value = [0; 16];
    value[..3].copy_from_slice(&[2, 2, 1]);
    let attribute = Attribute { id: 4, pad: 0, value };
    let grid = [8; 3];
    let config =
        Config { grid, block: [1024, 1, 1], shared_bytes: 0, stream: 0, attributes: &raw const attribute, count: 1 };
    let (mut size, mut clusters, mut width) = (0 as c_int, [0 as c_int; 2], 0 as c_int);
    call!(driver, "cuOccupancyMaxPotentialClusterSize", &raw mut size, functions[1], &raw const config)?;
    for (function, clusters) in functions.into_iter().zip(&mut clusters) {
        call!(driver, "cuOccupancyMaxActiveClusters", std::ptr::from_mut(clusters), function, &raw const config)?;
    }
    call!(driver, "cuFuncGetAttribute", &raw mut width, 11, functions[0])?;
    println!("clusters of {size} at most, {clusters:?} of 4, {width} along x");
    let mut allowed: c_int = 0;
    call!(driver, "cuFuncSetAttribute", functions[1], 14, 1)?;
    call!(driver, "cuFuncGetAttribute", &raw mut allowed, 14, functions[1])?;
    call!(driver, "cuOccupancyMaxPotentialClusterSize", &raw mut size, functions[1], &raw const config)?;
    println!("clusters of {size} if that is allowed: {allowed}");
    call!(driver, "cuModuleUnload", module)?;
    call!(driver, "cuLibraryUnload", library)
}

fn pointers(driver: &Driver) -> Result<(), String> {
    let mut memory = 0_u64;
    call!(driver, "cuMemAlloc_v2", &raw mut memory, 1000)?;
    // Kind of memory, whether it is managed, where it begins, its size, device.
    let attributes: [c_int; 5] = [2, 8, 11, 12, 9];
    let here = 0_u32;
    for pointer in [memory + 500, &raw const here as u64] {
        let (mut kind, mut managed, mut start, mut bytes, mut device) = (9_u32, 9_u32, 9_u64, 9_usize, 9 as c_int);
        let values: [*mut c_void; 5] = [
            (&raw mut kind).cast(),
            (&raw mut managed).cast(),
            (&raw mut start).cast(),
            (&raw mut bytes).cast(),
            (&raw mut device).cast(),
        ];
        call!(driver, "cuPointerGetAttributes", 5, attributes.as_ptr(), values.as_ptr(), pointer)?;
        println!("pointer {kind} {managed} {} {bytes} {device}", start == memory);
    }
    let (wanted, mut told) = (1 as c_int, [9 as c_int; 2]);
    call!(driver, "cuPointerGetAttribute", &raw mut told[0], 6, memory)?;
    call!(driver, "cuPointerSetAttribute", &raw const wanted, 6, memory + 500)?;
    call!(driver, "cuPointerGetAttribute", &raw mut told[1], 6, memory)?;
    let other = call!(driver, "cuPointerSetAttribute", &raw const wanted, 8, memory);
    println!("synchronous {told:?}; {}", other.unwrap_err());

    // Two planes of two rows, to rows of another pitch.
    let side =
        |memory_type: u64, host: u64, device: u64, pitch: u64| [0, 0, 0, 0, memory_type, host, device, 0, 0, pitch, 2];
    let values: Vec<u8> = (0..32).collect();
    let mut back = [0_u8; 16];
    let (from, to) = (side(1, values.as_ptr() as u64, 0, 8), side(2, 0, memory, 4));
    let copy: Vec<u64> = from.into_iter().chain(to).chain([4, 2, 2]).collect();
    call!(driver, "cuMemcpy3DPeer", copy.as_ptr())?;
    call!(driver, "cuMemcpyDtoH_v2", back.as_mut_ptr(), memory, 16)?;
    println!("planes {back:?}");
    call!(driver, "cuMemFree_v2", memory)
}

fn streams(driver: &Driver, context: usize) -> Result<(), String> {
    let (mut stream, mut own, mut green, mut id) = (0_usize, 0_usize, 1_usize, [0_u64; 2]);
    call!(driver, "cuStreamCreate", &raw mut stream, 0)?;
    call!(driver, "cuStreamGetCtx_v2", stream, &raw mut own, &raw mut green)?;
    call!(driver, "cuCtxGetId", context, &raw mut id[0])?;
    call!(driver, "cuCtxGetId", 0, &raw mut id[1])?;
    let (mut capturing, mut graph, mut device) = (9 as c_int, 0_usize, 9 as c_int);
    call!(driver, "cuStreamBeginCapture_v2", stream, 0)?;
    call!(driver, "cuStreamGetCaptureInfo", stream, &raw mut capturing, 0)?;
    call!(driver, "cuStreamEndCapture", stream, &raw mut graph)?;
    call!(driver, "cuCtxGetDevice_v2", &raw mut device, context)?;
    call!(driver, "cuCtxSynchronize_v2", 0)?;
    println!("context {} {green} {} {device}, capturing {capturing}", own == context, id[0] == id[1]);

    // What a stream was told, and what a device's memory comes from.
    let (mut given, mut told, mut other) = ([0_u32; 16], [9_u32; 16], [9_u32; 16]);
    given[0] = 2;
    call!(driver, "cuStreamSetAttribute", stream, 3, &raw const given)?;
    call!(driver, "cuStreamCopyAttributes", 0, stream)?;
    call!(driver, "cuStreamGetAttribute", stream, 3, &raw mut told)?;
    call!(driver, "cuStreamGetAttribute", stream, 1, &raw mut other)?;
    let (mut first, mut pool, mut now) = (0_usize, 0_usize, 0_usize);
    let device: [c_int; 2] = [1, 0];
    let mut properties = [0_u64; 11];
    properties[..2].copy_from_slice(&[1, 1]);
    call!(driver, "cuMemGetDefaultMemPool", &raw mut first, device.as_ptr(), 1)?;
    call!(driver, "cuMemPoolCreate", &raw mut pool, properties.as_ptr())?;
    call!(driver, "cuMemSetMemPool", device.as_ptr(), 1, pool)?;
    call!(driver, "cuMemGetMemPool", &raw mut now, device.as_ptr(), 1)?;
    call!(driver, "cuMemPrefetchBatchAsync", &raw mut own, 0, 0, 0, 0, 0, 0, stream)?;
    call!(driver, "cuMemDiscardBatchAsync", &raw mut own, 0, 0, 0, stream)?;
    call!(driver, "cuMemDiscardAndPrefetchBatchAsync", &raw mut own, 0, 0, 0, 0, 0, 0, stream)?;
    println!("attribute {} {}, pool {} {}", told == given, other[0], now == pool, first != pool);

    // Values for other streams.
    let (mut place, mut value) = (0_u64, 0_u64);
    call!(driver, "cuMemAlloc_v2", &raw mut place, 8)?;
    call!(driver, "cuStreamWriteValue64_v2", stream, place, 0x1_0000_0003_u64, 0)?;
    call!(driver, "cuStreamWaitValue32", 0, place, 2, 0)?;
    call!(driver, "cuStreamWaitValue64", 0, place, 0x1_0000_0003_u64, 1)?;
    let never = call!(driver, "cuStreamWaitValue32_v2", 0, place, 4, 2).unwrap_err();
    call!(driver, "cuStreamWriteValue32", stream, place + 4, 2, 0)?;
    let batch = [[2, place, 5, 0, 0, 0], [1, place, 5, 1, 0, 0_u64], [6, 0, 0, 0, 0, 0]];
    call!(driver, "cuStreamBatchMemOp_v2", stream, 3, batch.as_ptr(), 0)?;
    call!(driver, "cuStreamSynchronize", stream)?;
    call!(driver, "cuMemcpyDtoH_v2", &raw mut value, place, 8)?;
    println!("value {value:#x}; {never}");
    call!(driver, "cuStreamDestroy_v2", stream)
}

/// A function as a program of each version of CUDA finds it.
fn versions(driver: &Driver) -> Result<(), String> {
    for (name, exports) in [
        (c"cuCtxSynchronize", [&b"cuCtxSynchronize\0"[..], b"cuCtxSynchronize_v2\0"]),
        (c"cuStreamGetCaptureInfo", [b"cuStreamGetCaptureInfo_v2\0", b"cuStreamGetCaptureInfo_v3\0"]),
        (c"cuMemAlloc", [b"cuMemAlloc_v2\0", b"cuMemAlloc_v2\0"]),
    ] {
        let mut right = [false; 2];
        for ((version, export), right) in [12000, 13000].into_iter().zip(exports).zip(&mut right) {
            let mut found = 0_usize;
            call!(driver, "cuGetProcAddress_v2", name.as_ptr(), &raw mut found, version, 0, 0)?;
            // SAFETY: only the address is taken.
            let export: Symbol<'_, unsafe extern "C" fn()> = unsafe { driver.0.get(export).unwrap() };
            *right = *export as usize == found;
        }
        println!("{} {right:?}", name.to_str().unwrap());
    }
    Ok(())
}

fn run() -> Result<(), String> {
    let driver = Driver::open()?;
    let (mut context, mut device) = (0_usize, 9 as c_int);
    call!(driver, "cuInit", 0)?;
    for id in [c"0000:01:00.0", c"01:00", c"2:00.0"] {
        let found = call!(driver, "cuDeviceGetByPCIBusId", &raw mut device, id.as_ptr());
        println!("device {:?}", found.map(|()| device));
    }
    call!(driver, "cuCtxCreate_v3", &raw mut context, 0, 0, 0, 0)?;
    let (mut memory, mut total, mut pointer) = (0_usize, 0_usize, 0_u64);
    call!(driver, "cuDeviceTotalMem_v2", &raw mut memory, 0)?;
    call!(driver, "cuMemGetInfo_v2", 0, &raw mut total)?;
    let full = call!(driver, "cuMemAlloc_v2", &raw mut pointer, memory + 1).unwrap_err();
    println!("memory {memory} {}; {full}", memory == total);
    let file = std::env::temp_dir().join(format!("cuda-sim-queries-{}.ptx", std::process::id()));
    let done = modules(&driver, &file);
    std::fs::remove_file(file).unwrap();
    done?;
    pointers(&driver)?;
    streams(&driver, context)?;
    versions(&driver)?;
    call!(driver, "cuCtxDestroy_v2", context)
}

fn main() -> ExitCode {
    exit_code(run())
}
