//! A program of the driver API's arrays, textures and surfaces: each line of its output is one part.
#![allow(missing_docs, clippy::unwrap_used)]

use std::ffi::{c_int, c_uint, c_void};
use std::process::ExitCode;

use driver::{Driver, Launch, Symbol, call, exit_code};

mod driver;

/// Writes to the surface what the texture has half-way between a texel and the next.
const PTX: &str = "
.version 7.0
.target sm_75
.address_size 64
.visible .entry between(.param .u64 texture, .param .u64 surface) {
    .reg .b64 %texture, %surface;
    .reg .b32 %x, %y;
    .reg .f32 %fx, %fy, %a, %b, %c, %d;
    ld.param.u64 %texture, [texture];
    ld.param.u64 %surface, [surface];
    mov.u32 %x, %tid.x;
    mov.u32 %y, %tid.y;
    cvt.rn.f32.u32 %fx, %x;
    cvt.rn.f32.u32 %fy, %y;
    add.f32 %fx, %fx, 0f3F800000;
    add.f32 %fy, %fy, 0f3F000000;
    tex.2d.v4.f32.f32 {%a, %b, %c, %d}, [%texture, {%fx, %fy}];
    shl.b32 %x, %x, 2;
    sust.b.2d.b32.trap [%surface, {%x, %y}], {%a};
    ret;
}
\0";

const WIDTH: usize = 10;
const HEIGHT: usize = 7;
const FLOAT: c_int = 0x20;
const UNSIGNED_INT8: c_int = 1;
const LINEAR: c_int = 1;
const CUBEMAP: c_uint = 4;
const HOST: c_uint = 1;
const ARRAY: c_uint = 3;

/// `CUDA_ARRAY3D_DESCRIPTOR`
#[derive(Debug, Default, PartialEq)]
#[repr(C)]
struct Descriptor {
    size: [usize; 3],
    format: c_int,
    channels: c_uint,
    flags: c_uint,
}

/// One side of a `CUDA_MEMCPY3D`.
#[repr(C)]
#[derive(Default)]
struct Side {
    x_bytes: usize,
    y: usize,
    z: usize,
    lod: usize,
    memory_type: c_uint,
    host: usize,
    device: u64,
    array: usize,
    reserved: usize,
    pitch: usize,
    height: usize,
}

/// `CUDA_MEMCPY3D`
#[repr(C)]
struct Copy {
    from: Side,
    to: Side,
    width_bytes: usize,
    height: usize,
    depth: usize,
}

/// `CUDA_RESOURCE_DESC` of an array.
#[repr(C)]
struct Resource {
    resource_type: c_int,
    array: usize,
    rest: [u64; 16],
}

/// `CUDA_TEXTURE_DESC`
#[repr(C)]
#[derive(Default)]
struct Sampling {
    address: [c_int; 3],
    filter: c_int,
    flags: c_uint,
    rest: [u32; 21],
}

fn array(driver: &Driver, size: [usize; 3], format: c_int, flags: c_uint) -> Result<usize, String> {
    let (mut array, mut told) = (0_usize, Descriptor::default());
    let wanted = Descriptor { size, format, channels: 1, flags };
    call!(driver, "cuArray3DCreate_v2", &raw mut array, &raw const wanted)?;
    call!(driver, "cuArray3DGetDescriptor_v2", &raw mut told, array)?;
    if told == wanted { Ok(array) } else { Err(format!("{told:?} is not {wanted:?}")) }
}

/// Copies rows between an array's slice and the host.
fn copy<T>(driver: &Driver, array: (usize, usize), host: &[T], to_array: bool) -> Result<(), String> {
    let there = Side { memory_type: ARRAY, array: array.0, z: array.1, ..Side::default() };
    let width_bytes = WIDTH * size_of::<T>();
    let here = Side { memory_type: HOST, host: host.as_ptr() as usize, pitch: width_bytes, ..Side::default() };
    let (to, from) = if to_array { (there, here) } else { (here, there) };
    let copy = Copy { from, to, width_bytes, height: HEIGHT, depth: 1 };
    call!(driver, "cuMemcpy3D_v2", &raw const copy)
}

fn run() -> Result<(), String> {
    let driver = Driver::open()?;
    let (mut context, mut module, mut function) = (0_usize, 0_usize, 0_usize);
    call!(driver, "cuInit", 0)?;
    call!(driver, "cuCtxCreate_v2", &raw mut context, 0, 0)?;
    call!(driver, "cuModuleLoadData", &raw mut module, PTX.as_ptr())?;
    call!(driver, "cuModuleGetFunction", &raw mut function, module, c"between".as_ptr())?;

    let floats: Vec<f32> = (0..WIDTH * HEIGHT).map(|i| i as f32).collect();
    let bytes: Vec<u8> = (0..WIDTH * HEIGHT).map(|i| 3 * i as u8).collect();
    let of_floats = array(&driver, [WIDTH, HEIGHT, 0], FLOAT, 0)?;
    let of_bytes = array(&driver, [WIDTH, HEIGHT, 0], UNSIGNED_INT8, 0)?;
    let target = array(&driver, [WIDTH, HEIGHT, 0], FLOAT, 2)?;
    copy(&driver, (of_floats, 0), &floats, true)?;
    copy(&driver, (of_bytes, 0), &bytes, true)?;

    // Integers of 8 bits are read as floats from 0 to 1, if no flag says otherwise.
    for source in [of_floats, of_bytes] {
        let (mut texture, mut surface) = (0_u64, 0_u64);
        let resource = |array| Resource { resource_type: 0, array, rest: [0; 16] };
        let (from, to) = (resource(source), resource(target));
        let sampling = Sampling { address: [1; 3], filter: LINEAR, ..Sampling::default() };
        call!(driver, "cuTexObjectCreate", &raw mut texture, &raw const from, &raw const sampling, 0)?;
        call!(driver, "cuSurfObjectCreate", &raw mut surface, &raw const to)?;
        let params = [(&raw const texture).cast::<c_void>(), (&raw const surface).cast()];
        // SAFETY: the signature of `cuda.h`, a parameter for each of the kernel's.
        let launched = unsafe {
            let launch: Symbol<'_, Launch> = driver.0.get(b"cuLaunchKernel\0").unwrap();
            let (width, height) = (WIDTH as c_uint, HEIGHT as c_uint);
            launch(function, 1, 1, 1, width, height, 1, 0, 0, params.as_ptr(), std::ptr::null())
        };
        let between = vec![f32::NAN; WIDTH * HEIGHT];
        copy(&driver, (target, 0), &between, false)?;
        println!("launch {launched}: {} {} {:.4}", between[0], between[WIDTH - 1], between[WIDTH * HEIGHT - 2]);
        let (mut of_texture, mut of_surface, mut told) = (resource(0), resource(0), Sampling::default());
        call!(driver, "cuTexObjectGetResourceDesc", &raw mut of_texture, texture)?;
        call!(driver, "cuTexObjectGetTextureDesc", &raw mut told, texture)?;
        call!(driver, "cuSurfObjectGetResourceDesc", &raw mut of_surface, surface)?;
        assert_eq!((of_texture.array, of_surface.array), (source, target));
        assert_eq!((told.address, told.filter, told.flags), (sampling.address, sampling.filter, sampling.flags));
        assert!(call!(driver, "cuTexObjectGetResourceViewDesc", &raw mut told, texture).is_err());
        call!(driver, "cuTexObjectDestroy", texture)?;
        assert!(call!(driver, "cuTexObjectGetTextureDesc", &raw mut told, texture).is_err());
        call!(driver, "cuSurfObjectDestroy", surface)?;
    }

    // Bytes of an array of one dimension: from the host, to another array, and back by way of the device.
    let (first, second) = (array(&driver, [WIDTH, 0, 0], FLOAT, 0)?, array(&driver, [WIDTH, 0, 0], FLOAT, 0)?);
    let (mut device, mut back) = (0_u64, [f32::NAN; 3]);
    call!(driver, "cuMemAlloc_v2", &raw mut device, 12)?;
    call!(driver, "cuMemcpyHtoA_v2", first, 8, floats.as_ptr(), 32)?;
    call!(driver, "cuMemcpyAtoA_v2", second, 0, first, 16, 12)?;
    call!(driver, "cuMemcpyAtoD_v2", device, second, 0, 12)?;
    call!(driver, "cuMemcpyDtoA_v2", second, 28, device, 12)?;
    call!(driver, "cuMemcpyAtoH_v2", back.as_mut_ptr(), second, 28, 12)?;
    println!("bytes {back:?}");
    let here = floats.as_ptr() as u64;
    let (to, from, sizes) = ([device, device + 8], [here + 16, here], [8_usize, 4]);
    call!(driver, "cuMemcpyBatchAsync_v2", to.as_ptr(), from.as_ptr(), sizes.as_ptr(), 2, 0, 0, 0, 0)?;
    call!(driver, "cuMemcpyDtoH_v2", back.as_mut_ptr(), device, 12)?;
    println!("batch {back:?}");
    // Two floats of an array by way of the device, in one batch. An operand: kind, place, shape; then the extent, order and flags.
    let batch = |array_at: u64, from_array: bool| {
        let (memory, elements) = ([1, device, 0, 0, 0], [2, second as u64, array_at, 0, 0]);
        let (from, to) = if from_array { (elements, memory) } else { (memory, elements) };
        from.into_iter().chain(to).chain([2, 1, 1, 1]).collect::<Vec<u64>>()
    };
    let copies: Vec<u64> = [batch(7, true), batch(1, false)].concat();
    call!(driver, "cuMemcpy3DBatchAsync_v2", 2, copies.as_ptr(), 0, 0)?;
    call!(driver, "cuMemcpyAtoH_v2", back.as_mut_ptr(), second, 4, 8)?;
    println!("batch of an array {:?}", &back[..2]);
    let beyond = batch(WIDTH as u64 - 1, false);
    println!("beyond it: {}", call!(driver, "cuMemcpy3DBatchAsync", 1, beyond.as_ptr(), 0, 0, 0).unwrap_err());

    // Layers; then a copy that does not fit.
    let layers = array(&driver, [WIDTH, HEIGHT, 3], FLOAT, 1)?;
    copy(&driver, (layers, 2), &floats, true)?;
    let layer = vec![f32::NAN; WIDTH * HEIGHT];
    for at in [1, 2] {
        copy(&driver, (layers, at), &layer, false)?;
        println!("layer {at}: {}", layer[WIDTH * HEIGHT - 1]);
    }
    println!("layer 3: {}", copy(&driver, (layers, 3), &layer, false).unwrap_err());
    let cube = array(&driver, [WIDTH, WIDTH, 6], FLOAT, CUBEMAP)?;
    println!("five faces: {}", array(&driver, [WIDTH, WIDTH, 5], FLOAT, CUBEMAP).unwrap_err());
    for array in [of_floats, of_bytes, target, first, second, layers, cube] {
        call!(driver, "cuArrayDestroy", array)?;
    }
    call!(driver, "cuCtxDestroy_v2", context)
}

fn main() -> ExitCode {
    exit_code(run())
}
