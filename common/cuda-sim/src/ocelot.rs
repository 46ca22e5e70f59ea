//! gpuocelot's one function, which tinygrad's mock GPUs call: PTX with arguments, where the memory of the device is that of the process.

use std::ffi::{c_char, c_int, c_void};
use std::sync::OnceLock;

use ptx_sim::{Arg, Device, DeviceConfig, LaunchConfig, Module, Observe};

use crate::abi::{Code, Outcome};
use crate::api::{call, slice, text};
use crate::queue::ended;
use crate::state::{initialise, state, tell_load_error};
use crate::tell::{refused, say};
use crate::work::FIRST_ADDRESS;

/// First address that a process may map.
const FIRST_PAGE: u64 = 4096;

/// The device, whose memory is all that a process can map: too much for a sanitiser, which knows no bounds here either.
///
/// # Safety
/// Its kernels access only memory that is valid for reads and writes.
unsafe fn device() -> Outcome<&'static Device> {
    static DEVICE: OnceLock<Device> = OnceLock::new();
    if let Some(device) = DEVICE.get() {
        return Ok(device);
    }
    let config = DeviceConfig { total_memory: u64::MAX, first_address: FIRST_ADDRESS, ..DeviceConfig::default() };
    let (device, memory) = (Device::new(config), std::ptr::with_exposed_provenance_mut(FIRST_PAGE as usize));
    // SAFETY: as the caller promises.
    unsafe { device.adopt(memory, FIRST_ADDRESS - FIRST_PAGE, "the program's memory") }
        .map_err(|error| refused(&error))?;
    Ok(DEVICE.get_or_init(|| device))
}

/// Runs the kernel of a PTX text to its end. Each of `args` is a value, as wide as a pointer or narrower. Faults and errors are
/// printed.
///
/// # Safety
/// `ptx` ends in a zero byte, `args` has `count` values, and the kernel accesses nothing but memory that is valid for reads and
/// writes: no bounds are known here, so a wild pointer of a kernel harms the program.
#[unsafe(no_mangle)]
unsafe extern "C" fn ptx_run(
    ptx: *const c_char,
    count: c_int,
    args: *const *const c_void,
    block_x: c_int,
    block_y: c_int,
    block_z: c_int,
    grid_x: c_int,
    grid_y: c_int,
    grid_z: c_int,
    shared_bytes: c_int,
) {
    let code = call("ptx_run", || {
        initialise()?;
        if state()?.options.sanitize || state()?.options.strict {
            say("ptx_run does not sanitise: the bounds of its memory are not known");
        }
        // SAFETY: as the caller promises.
        let (device, ptx, values) = unsafe { (device()?, text(ptx)?, slice(args, count.try_into().unwrap_or(0))?) };
        let loaded = Module::from_ptx(ptx, "PTX of the program").and_then(|module| {
            let name = module.kernels().next().map_or_else(String::new, |kernel| kernel.name.clone());
            device.load(&module)?.kernel(&name)
        });
        let kernel = loaded.map_err(|error| tell_load_error(&error))?;
        let argument = |(value, param): (&*const c_void, &ptx_sim::ParamInfo)| {
            let bytes = value.addr().to_le_bytes();
            bytes.get(..param.size as usize).map(Arg::from_bytes).ok_or(Code::INVALID_VALUE)
        };
        let args: Vec<Arg> = values.iter().zip(&kernel.info().params).map(argument).collect::<Outcome<_>>()?;
        let config = LaunchConfig {
            grid: [grid_x, grid_y, grid_z].map(|extent| extent as u32),
            block: [block_x, block_y, block_z].map(|extent| extent as u32),
            shared_bytes: shared_bytes as u32,
            ..LaunchConfig::default()
        };
        ended(state()?, device, kernel.observe(&config, &args, &Observe::default()))
    });
    if code != 0 {
        say(&format!("ptx_run: a kernel did not run to its end, error {code}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_work_on_memory_of_the_process() {
        const PTX: &std::ffi::CStr = c".version 8.0\n.target sm_80\n.address_size 64\n\
            .visible .entry scale(.param .u64 values, .param .u32 factor) {\n\
            .reg .b64 %rd<4>; .reg .b32 %r<5>;\n\
            ld.param.u64 %rd1, [values]; ld.param.u32 %r1, [factor];\n\
            mov.u32 %r2, %tid.x; mul.wide.u32 %rd2, %r2, 4; add.s64 %rd3, %rd1, %rd2;\n\
            ld.global.u32 %r3, [%rd3]; mul.lo.u32 %r4, %r3, %r1; st.global.u32 [%rd3], %r4; ret; }";
        let mut values = [1_u32, 2, 3, 4];
        let args = [values.as_mut_ptr().cast_const().cast(), std::ptr::without_provenance(10)];
        // SAFETY: the kernel writes the first three of the values.
        unsafe { ptx_run(PTX.as_ptr(), 2, args.as_ptr(), 3, 1, 1, 1, 1, 1, 0) };
        assert_eq!(values, [10, 20, 30, 4]);
    }
}
