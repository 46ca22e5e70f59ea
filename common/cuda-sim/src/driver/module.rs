//! Modules and libraries: PTX, loaded into the device.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ffi::{c_char, c_int, c_uint, c_void};
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Arc, Mutex};

use ptx_sim::occupancy::{MAX_REGISTERS_PER_THREAD, REGISTERS};

use crate::abi::{Code, Handle, Outcome, Pointer, function_attribute as attribute, jit_option};
use crate::api::{exported, put, put_if_wanted, slice, text};
use crate::image::{ptx_at, ptx_in};
use crate::queue::{Wanted, finish};
use crate::state::{Module, context, locked, state, tell_load_error};
use crate::work::Function;

/// Dynamic shared memory that a launch may have without asking: 48 KiB with the kernel's own.
pub(crate) const SHARED_WITHOUT_ASKING: i32 = 48 << 10;

/// A function of `libcudadevrt.a`, for kernels that declare it: the handle of a graph's condition is the address of its value.
const SET_CONDITIONAL: &str = "
.version 7.0
.target sm_75
.address_size 64
.visible .func cudaGraphSetConditional(.param .b64 handle, .param .b32 value) {
    .reg .b64 %handle;
    .reg .b32 %value;
    ld.param.u64 %handle, [handle];
    ld.param.u32 %value, [value];
    st.global.u32 [%handle], %value;
    ret;
}";

/// Loads a module, with the reason of a failure in `log` too.
fn load(texts: &[Cow<'_, str>], log: &mut Option<&mut [u8]>) -> Outcome<Handle> {
    let state = state()?;
    let device_runtime = texts.iter().any(|text| text.contains("cudaGraphSetConditional")).then_some(SET_CONDITIONAL);
    let texts = texts.iter().map(|text| (text.as_ref(), "PTX of the program"));
    let texts: Vec<_> = texts.chain(device_runtime.map(|text| (text, "device runtime"))).collect();
    let linked = ptx_sim::Module::link_within(&texts, ptx_sim::LoadLimits::default());
    let loaded = linked.and_then(|module| state.device.load(&module));
    match loaded {
        Ok(loaded) => Ok(state.modules.add(Module { loaded, functions: Mutex::default() })),
        Err(error) => {
            if let Some(log) = log
                && let Some(room) = log.len().checked_sub(1)
            {
                let message = error.to_string();
                let length = message.len().min(room);
                log[..length].copy_from_slice(&message.as_bytes()[..length]);
                log[length] = 0;
            }
            Err(tell_load_error(&error))
        }
    }
}

/// Loads a module for another context.
pub(crate) fn load_again(module: Handle) -> Outcome<Handle> {
    let state = state()?;
    let loaded = state.modules.get(module)?.loaded.again().map_err(|error| tell_load_error(&error))?;
    Ok(state.modules.add(Module { loaded, functions: Mutex::default() }))
}

/// Loads an image in memory.
///
/// # Safety
/// `image` and `log` are as `cuModuleLoadDataEx` takes them.
pub(crate) unsafe fn load_image(image: *const c_void, log: &mut Option<&mut [u8]>) -> Outcome<Handle> {
    context()?;
    // SAFETY: as the caller promises.
    load(&unsafe { ptx_at(image, state()?.options.compute)? }, log)
}

/// The buffer for errors among the options of a compilation. This one and the one for remarks are emptied.
///
/// # Safety
/// As `cuModuleLoadDataEx` asks.
pub(crate) unsafe fn error_log<'t>(
    options: *const c_int,
    values: *const *mut c_void,
    count: c_uint,
) -> Outcome<Option<&'t mut [u8]>> {
    // SAFETY: as the caller promises.
    let (options, values) = unsafe { (slice(options, count as usize)?, slice(values, count as usize)?) };
    let value = |option| options.iter().position(|known| *known == option).map(|at| values[at]);
    let buffer = |buffer, bytes| {
        let (buffer, bytes) = (value(buffer)?, value(bytes)? as usize & 0xffff_ffff);
        // SAFETY: the caller's buffer has as many bytes as the option says.
        let buffer =
            (!buffer.is_null()).then(|| unsafe { std::slice::from_raw_parts_mut(buffer.cast::<u8>(), bytes) })?;
        *buffer.first_mut()? = 0;
        Some(buffer)
    };
    buffer(jit_option::INFO_LOG, jit_option::INFO_LOG_BYTES);
    Ok(buffer(jit_option::ERROR_LOG, jit_option::ERROR_LOG_BYTES))
}

/// The handle of a module's kernel.
pub(crate) fn function(module: Handle, name: &str) -> Outcome<Handle> {
    let state = state()?;
    let found = state.modules.get(module)?;
    let mut functions = locked(&found.functions);
    if let Some(known) = functions.get(name) {
        return Ok(*known);
    }
    let kernel = found.loaded.kernel(name).map_err(|error| match error {
        // Programs try names; the result code says enough.
        ptx_sim::LoadError::UnknownKernel { .. } => Code::NOT_FOUND,
        error => tell_load_error(&error),
    })?;
    let (dynamic_shared, carveout) = (AtomicI32::new(0), AtomicI32::new(-1));
    let handle = state.functions.add(Function { kernel, module, dynamic_shared, carveout, next: Mutex::default() });
    functions.insert(name.to_owned(), handle);
    Ok(handle)
}

pub(crate) fn unload(module: Handle) -> Outcome {
    finish(Wanted::All)?;
    let state = state()?;
    let unloaded = state.modules.remove(module)?;
    let functions: BTreeMap<String, Handle> = std::mem::take(&mut locked(&unloaded.functions));
    functions.values().try_for_each(|function| state.functions.remove(*function).map(|_| ()))
}

/// Address and bytes of a module's variable.
///
/// # Safety
/// The pointers are the caller's of `cuModuleGetGlobal`.
unsafe fn variable(address: *mut Pointer, bytes: *mut usize, module: Handle, name: *const c_char) -> Outcome {
    let module = state()?.modules.get(module)?;
    // SAFETY: as the caller promises.
    unsafe {
        let (pointer, length) = module.loaded.global(text(name)?).ok_or(Code::NOT_FOUND)?;
        put_if_wanted(address, pointer.0);
        put_if_wanted(bytes, length as usize);
    }
    Ok(())
}

pub(crate) fn attribute_of(function: &Function, id: c_int) -> Outcome<c_int> {
    let info = function.kernel.info();
    let compute = state()?.options.compute;
    let version = c_int::from(compute.major) * 10 + c_int::from(compute.minor);
    let threads = info.max_threads.unwrap_or(ptx_sim::MAX_THREADS);
    Ok(match id {
        attribute::MAX_THREADS_PER_BLOCK => threads as c_int,
        attribute::SHARED_SIZE => info.static_shared as c_int,
        attribute::CONST_SIZE => c_int::try_from(info.constant_bytes).unwrap_or(c_int::MAX),
        attribute::LOCAL_SIZE => info.local_bytes as c_int,
        attribute::PTX_VERSION | attribute::BINARY_VERSION => version,
        attribute::MAX_DYNAMIC_SHARED_SIZE => {
            function.dynamic_shared.load(Ordering::Relaxed).max(SHARED_WITHOUT_ASKING - info.static_shared as i32)
        }
        attribute::PREFERRED_CARVEOUT => function.carveout.load(Ordering::Relaxed),
        // ptxas' choice is unknown here. It has no more than this, or a block of that many threads could not be launched.
        attribute::REGISTERS => {
            let room = (REGISTERS / threads.max(1)).min(MAX_REGISTERS_PER_THREAD);
            info.max_registers.map_or(room, |registers| registers.min(room)) as c_int
        }
        _ if (0..attribute::END).contains(&id) => 0,
        _ => return Err(Code::INVALID_VALUE),
    })
}

fn set_attribute(function: &Function, id: c_int, value: c_int) -> Outcome {
    match id {
        attribute::MAX_DYNAMIC_SHARED_SIZE => {
            let most = state()?.options.compute.limits().shared_per_block() as i32;
            if value < 0 || value > most - function.kernel.info().static_shared as i32 {
                return Err(Code::INVALID_VALUE);
            }
            function.dynamic_shared.store(value, Ordering::Relaxed);
        }
        attribute::PREFERRED_CARVEOUT => function.carveout.store(value, Ordering::Relaxed),
        _ if (0..attribute::END).contains(&id) => {}
        _ => return Err(Code::INVALID_VALUE),
    }
    Ok(())
}

pub(crate) fn known(function: Handle) -> Outcome<Arc<Function>> {
    state()?.functions.get(function)
}

exported! {
    fn cuModuleLoad(module: *mut Handle, path: *const c_char) {
        // SAFETY: as the caller promises.
        let path = unsafe { text(path)? };
        let file = std::fs::read(path).map_err(|_| Code::FILE_NOT_FOUND)?;
        context()?;
        // SAFETY: a place of the caller's.
        unsafe { put(module, load(&ptx_in(&file, state()?.options.compute)?, &mut None)?) }
    }

    fn cuModuleLoadData(module: *mut Handle, image: *const c_void) {
        // SAFETY: as the caller promises.
        unsafe { put(module, load_image(image, &mut None)?) }
    }

    fn cuModuleLoadDataEx(
        module: *mut Handle,
        image: *const c_void,
        count: c_uint,
        options: *const c_int,
        values: *const *mut c_void,
    ) {
        // SAFETY: as the caller promises.
        unsafe {
            let mut log = error_log(options, values, count)?;
            put(module, load_image(image, &mut log)?)
        }
    }

    fn cuModuleLoadFatBinary(module: *mut Handle, image: *const c_void) {
        // SAFETY: as the caller promises.
        unsafe { put(module, load_image(image, &mut None)?) }
    }

    fn cuModuleUnload(module: Handle) {
        unload(module)
    }

    fn cuModuleGetFunction(function: *mut Handle, module: Handle, name: *const c_char) {
        // SAFETY: as the caller promises.
        unsafe { put(function, self::function(module, text(name)?)?) }
    }

    fn cuModuleGetGlobal_v2(address: *mut Pointer, bytes: *mut usize, module: Handle, name: *const c_char) {
        // SAFETY: as the caller promises.
        unsafe { variable(address, bytes, module, name) }
    }

    fn cuModuleGetLoadingMode(mode: *mut c_int) {
        // Eager.
        // SAFETY: a place of the caller's.
        unsafe { put(mode, 1) }
    }

    fn cuLibraryLoadData(
        library: *mut Handle,
        image: *const c_void,
        options: *const c_int,
        values: *const *mut c_void,
        count: c_uint,
        _library_options: *const c_int,
        _library_values: *const *mut c_void,
        _library_count: c_uint,
    ) {
        // SAFETY: as the caller promises.
        unsafe {
            let mut log = error_log(options, values, count)?;
            put(library, load_image(image, &mut log)?)
        }
    }

    fn cuLibraryUnload(library: Handle) {
        unload(library)
    }

    fn cuLibraryGetKernel(kernel: *mut Handle, library: Handle, name: *const c_char) {
        // SAFETY: as the caller promises.
        unsafe { put(kernel, function(library, text(name)?)?) }
    }

    fn cuLibraryGetModule(module: *mut Handle, library: Handle) {
        state()?.modules.get(library)?;
        // SAFETY: a place of the caller's.
        unsafe { put(module, library) }
    }

    fn cuLibraryGetGlobal(address: *mut Pointer, bytes: *mut usize, library: Handle, name: *const c_char) {
        // SAFETY: as the caller promises.
        unsafe { variable(address, bytes, library, name) }
    }

    fn cuKernelGetFunction(function: *mut Handle, kernel: Handle) {
        known(kernel)?;
        // SAFETY: a place of the caller's.
        unsafe { put(function, kernel) }
    }

    fn cuKernelGetAttribute(value: *mut c_int, id: c_int, kernel: Handle, _device: c_int) {
        // SAFETY: a place of the caller's.
        unsafe { put(value, attribute_of(&*known(kernel)?, id)?) }
    }

    fn cuKernelSetAttribute(id: c_int, value: c_int, kernel: Handle, _device: c_int) {
        set_attribute(&*known(kernel)?, id, value)
    }

    fn cuKernelSetCacheConfig(kernel: Handle, _config: c_int, _device: c_int) {
        known(kernel).map(|_| ())
    }

    fn cuFuncGetAttribute(value: *mut c_int, id: c_int, function: Handle) {
        // SAFETY: a place of the caller's.
        unsafe { put(value, attribute_of(&*known(function)?, id)?) }
    }

    fn cuFuncSetAttribute(function: Handle, id: c_int, value: c_int) {
        set_attribute(&*known(function)?, id, value)
    }

    fn cuFuncSetCacheConfig(function: Handle, _config: c_int) {
        known(function).map(|_| ())
    }

    fn cuFuncGetModule(module: *mut Handle, function: Handle) {
        // SAFETY: a place of the caller's.
        unsafe { put(module, known(function)?.module) }
    }
}
