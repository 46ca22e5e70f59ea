//! Modules and libraries: PTX, loaded into the device.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ffi::{CString, c_char, c_int, c_uint, c_void};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicI32};

use ptx_sim::KernelInfo;

use crate::abi::{Code, Handle, Outcome, Pointer, jit_option};
use crate::api::{exported, put, put_if_wanted, slice, text};
use crate::image::{max_registers_at, ptx_at, ptx_in};
use crate::queue::{Wanted, finish};
use crate::state::{Module, context, state, tell_load_error};
use crate::tell::locked;
use crate::work::{FIRST_ADDRESS, Function};

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

/// Options of a compilation that have an effect.
#[derive(Default)]
pub(crate) struct JitOptions<'t> {
    /// Buffer for the reason of a failure.
    error_log: Option<&'t mut [u8]>,
    pub(super) max_registers: Option<u32>,
}

/// Loads a module.
fn load(texts: &[Cow<'_, str>], options: JitOptions<'_>) -> Outcome<Handle> {
    let state = state()?;
    let device_runtime = texts.iter().any(|text| text.contains("cudaGraphSetConditional")).then_some(SET_CONDITIONAL);
    let texts = texts.iter().map(|text| (text.as_ref(), "PTX of the program"));
    let texts: Vec<_> = texts.chain(device_runtime.map(|text| (text, "device runtime"))).collect();
    let linked = ptx_sim::Module::link_within(&texts, ptx_sim::LoadLimits::default());
    let loaded = linked.and_then(|module| state.device.load(&module));
    match loaded {
        Ok(loaded) => {
            let max_registers = options.max_registers;
            Ok(state.modules.add(Module { loaded, max_registers, functions: Mutex::default() }))
        }
        Err(error) => {
            if let Some(log) = options.error_log
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
    let first = state.modules.get(module)?;
    let (loaded, max_registers) = (first.loaded.again().map_err(|error| tell_load_error(&error))?, first.max_registers);
    Ok(state.modules.add(Module { loaded, max_registers, functions: Mutex::default() }))
}

/// Loads an image in memory.
///
/// # Safety
/// `image` is as `cuModuleLoadDataEx` takes it.
pub(crate) unsafe fn load_image(image: *const c_void, options: JitOptions<'_>) -> Outcome<Handle> {
    context()?;
    // SAFETY: as the caller promises.
    let (texts, linked) = unsafe { (ptx_at(image, state()?.options.compute)?, max_registers_at(image)) };
    load(&texts, JitOptions { max_registers: options.max_registers.or(linked), ..options })
}

/// Loads a file.
///
/// # Safety
/// `path` is null or ends in a zero byte.
unsafe fn load_file(path: *const c_char, options: JitOptions<'_>) -> Outcome<Handle> {
    // SAFETY: as the caller promises.
    let file = std::fs::read(unsafe { text(path)? }).map_err(|_| Code::FILE_NOT_FOUND)?;
    context()?;
    load(&ptx_in(&file, state()?.options.compute)?, options)
}

/// The options of a compilation. Buffers for errors and for remarks are emptied.
///
/// # Safety
/// As `cuModuleLoadDataEx` asks.
pub(crate) unsafe fn jit_options<'t>(
    options: *const c_int,
    values: *const *mut c_void,
    count: c_uint,
) -> Outcome<JitOptions<'t>> {
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
    let max_registers = value(jit_option::MAX_REGISTERS).map(|value| value as usize as u32).filter(|value| *value > 0);
    Ok(JitOptions { error_log: buffer(jit_option::ERROR_LOG, jit_option::ERROR_LOG_BYTES), max_registers })
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
    let function = Function {
        kernel,
        name: CString::new(name).map_err(|_| Code::NOT_FOUND)?,
        module,
        max_registers: found.max_registers,
        dynamic_shared: AtomicI32::new(0),
        non_portable_cluster: AtomicBool::new(false),
        carveout: AtomicI32::new(-1),
        next: Mutex::default(),
    };
    let handle = state.functions.add(function);
    functions.insert(name.to_owned(), handle);
    Ok(handle)
}

/// Stores the handles of a module's kernels, up to `count`.
///
/// # Safety
/// `places` has `count` places.
unsafe fn functions(places: *mut Handle, count: c_uint, module: Handle) -> Outcome {
    let found = state()?.modules.get(module)?;
    // SAFETY: as the caller promises.
    let store = |(at, kernel): (usize, &KernelInfo)| unsafe { put(places.add(at), function(module, &kernel.name)?) };
    found.loaded.kernels().take(count as usize).enumerate().try_for_each(store)
}

/// # Safety
/// `count` is null or valid.
unsafe fn count(count: *mut c_uint, module: Handle) -> Outcome {
    // SAFETY: as the caller promises.
    unsafe { put(count, state()?.modules.get(module)?.loaded.kernels().count() as c_uint) }
}

pub(crate) fn unload(module: Handle) -> Outcome {
    finish(Wanted::All)?;
    let state = state()?;
    let unloaded = state.modules.remove(module)?;
    let functions: BTreeMap<String, Handle> = std::mem::take(&mut locked(&unloaded.functions));
    functions.values().try_for_each(|function| state.functions.remove(*function).map(|_| ()))
}

/// Address and bytes of a module's variable, if it is one of those wanted.
///
/// # Safety
/// The pointers are the caller's of `cuModuleGetGlobal`.
unsafe fn variable(
    address: *mut Pointer,
    bytes: *mut usize,
    module: Handle,
    name: *const c_char,
    wanted: impl FnOnce(Pointer) -> bool,
) -> Outcome {
    let module = state()?.modules.get(module)?;
    // SAFETY: as the caller promises.
    unsafe {
        let (pointer, length) =
            module.loaded.global(text(name)?).filter(|found| wanted(found.0.0)).ok_or(Code::NOT_FOUND)?;
        put_if_wanted(address, pointer.0);
        put_if_wanted(bytes, length as usize);
    }
    Ok(())
}

exported! {
    fn cuModuleLoad(module: *mut Handle, path: *const c_char) {
        // SAFETY: as the caller promises.
        unsafe { put(module, load_file(path, JitOptions::default())?) }
    }

    fn cuModuleLoadData(module: *mut Handle, image: *const c_void) {
        // SAFETY: as the caller promises.
        unsafe { put(module, load_image(image, JitOptions::default())?) }
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
            put(module, load_image(image, jit_options(options, values, count)?)?)
        }
    }

    fn cuModuleLoadFatBinary(module: *mut Handle, image: *const c_void) {
        // SAFETY: as the caller promises.
        unsafe { put(module, load_image(image, JitOptions::default())?) }
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
        unsafe { variable(address, bytes, module, name, |_| true) }
    }

    fn cuModuleGetFunctionCount(number: *mut c_uint, module: Handle) {
        // SAFETY: a place of the caller's.
        unsafe { count(number, module) }
    }

    fn cuModuleEnumerateFunctions(places: *mut Handle, count: c_uint, module: Handle) {
        // SAFETY: as the caller promises.
        unsafe { functions(places, count, module) }
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
            put(library, load_image(image, jit_options(options, values, count)?)?)
        }
    }

    fn cuLibraryLoadFromFile(
        library: *mut Handle,
        path: *const c_char,
        options: *const c_int,
        values: *const *mut c_void,
        count: c_uint,
        _library_options: *const c_int,
        _library_values: *const *mut c_void,
        _library_count: c_uint,
    ) {
        // SAFETY: as the caller promises.
        unsafe { put(library, load_file(path, jit_options(options, values, count)?)?) }
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

    fn cuLibraryGetKernelCount(number: *mut c_uint, library: Handle) {
        // SAFETY: a place of the caller's.
        unsafe { count(number, library) }
    }

    fn cuLibraryEnumerateKernels(places: *mut Handle, count: c_uint, library: Handle) {
        // SAFETY: as the caller promises.
        unsafe { functions(places, count, library) }
    }

    fn cuLibraryGetManaged(address: *mut Pointer, bytes: *mut usize, library: Handle, name: *const c_char) {
        // SAFETY: as the caller promises.
        unsafe { variable(address, bytes, library, name, |pointer| pointer < FIRST_ADDRESS) }
    }

    fn cuLibraryGetGlobal(address: *mut Pointer, bytes: *mut usize, library: Handle, name: *const c_char) {
        // SAFETY: as the caller promises.
        unsafe { variable(address, bytes, library, name, |_| true) }
    }
}
