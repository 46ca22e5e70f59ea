//! Modules that the driver has loaded, and their kernels.

use std::collections::HashMap;
use std::ffi::{CString, c_void};
use std::sync::{Arc, Mutex, PoisonError};

use cudarc::driver::sys::{self, CUdevice_attribute as Attribute, CUfunction_attribute as FunctionAttribute};
use cudarc::driver::{CudaContext, result};

use super::super::handle::Handle;
use super::super::high_water::HighWater;
use super::super::properties::KernelAttributes;
use super::driver::{describe, error};
use crate::compile::Compiled;
use crate::error::{Error, Result};

/// A loaded module; unloaded when the last kernel of it is gone.
#[derive(Clone)]
pub(crate) struct Module(Arc<Loaded>);

struct Loaded {
    module: sys::CUmodule,
    context: Arc<CudaContext>,
    /// For each kernel by name, the maximum dynamic shared memory requested from the driver. It is here because all handles
    /// of a kernel are the same one to the driver.
    dynamic_shared: Mutex<HashMap<String, Arc<HighWater>>>,
}

// SAFETY: the driver's handles may be used from any thread that has made the context current, which every use does first.
unsafe impl Send for Loaded {}
// SAFETY: as above; the driver locks internally.
unsafe impl Sync for Loaded {}

impl Drop for Loaded {
    fn drop(&mut self) {
        let context = &self.context;
        context.record_err(context.bind_to_thread());
        // SAFETY: loaded once, unloaded once, and no kernel of it is left.
        context.record_err(unsafe { result::module::unload(self.module) });
    }
}

/// A kernel of a loaded module.
#[derive(Clone)]
pub(crate) struct Function {
    pub(super) function: sys::CUfunction,
    module: Module,
    pub(super) static_shared: u32,
    dynamic_shared: Arc<HighWater>,
}

// SAFETY: as for `Loaded`, which it keeps alive.
unsafe impl Send for Function {}
// SAFETY: as for `Loaded`.
unsafe impl Sync for Function {}

impl Module {
    /// Loads a cubin, or PTX text for the driver to compile with its optimiser at `level`, 0 to 4 (its own choice is 4); the
    /// error is the loader's log. A driver that does not run that machine code, such as `cuda-sim`'s, gets the PTX too.
    pub(super) fn load(context: &Arc<CudaContext>, compiled: &Compiled, level: u32) -> Result<Module, String> {
        let loaded = compiled.cubin.as_ref().map(|cubin| Module::load_image(context, cubin, level));
        match loaded {
            Some(Ok(module)) => Ok(module),
            Some(Err((sys::CUresult::CUDA_ERROR_NO_BINARY_FOR_GPU, _))) | None => {
                Module::load_image(context, compiled.ptx.as_bytes(), level).map_err(|(_, message)| message)
            }
            Some(Err((_, message))) => Err(message),
        }
    }

    fn load_image(context: &Arc<CudaContext>, image: &[u8], level: u32) -> Result<Module, (sys::CUresult, String)> {
        // The driver reads PTX up to a zero byte; a cubin carries its own length, and one more byte does it no harm.
        let mut terminated = Vec::with_capacity(image.len() + 1);
        terminated.extend_from_slice(image);
        terminated.push(0);
        context.bind_to_thread().map_err(|error| (error.0, describe(error)))?;
        let mut log = vec![0u8; 16 << 10];
        let mut options = [
            sys::CUjit_option::CU_JIT_ERROR_LOG_BUFFER,
            sys::CUjit_option::CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES,
            sys::CUjit_option::CU_JIT_GENERATE_LINE_INFO,
            sys::CUjit_option::CU_JIT_OPTIMIZATION_LEVEL,
        ];
        // Each value is passed in the bits of a pointer.
        let mut values = [
            log.as_mut_ptr().cast::<c_void>(),
            std::ptr::without_provenance_mut(log.len()),
            std::ptr::without_provenance_mut(1),
            std::ptr::without_provenance_mut(level as usize),
        ];
        let mut module = std::ptr::null_mut();
        // SAFETY: the image ends with a zero byte, the log buffer outlives the call, and both arrays have four entries.
        let loaded = unsafe {
            sys::cuModuleLoadDataEx(
                &mut module,
                terminated.as_ptr().cast(),
                options.len() as u32,
                options.as_mut_ptr(),
                values.as_mut_ptr(),
            )
        };
        match loaded.result() {
            Ok(()) => {
                Ok(Module(Arc::new(Loaded { module, context: context.clone(), dynamic_shared: Mutex::default() })))
            }
            Err(error) => {
                let end = log.iter().position(|&byte| byte == 0).unwrap_or(log.len());
                let log = String::from_utf8_lossy(&log[..end]).trim().to_owned();
                let message = if log.is_empty() { describe(error) } else { format!("{}\n{log}", describe(error)) };
                Err((error.0, message))
            }
        }
    }

    /// The kernel of this name; `refused` makes an error of the loader's message.
    pub(crate) fn function<S>(
        &self,
        name: &str,
        refused: impl FnOnce(String) -> Error,
    ) -> Result<(Handle<Function, S>, KernelAttributes)> {
        let Loaded { module, context, dynamic_shared } = &*self.0;
        let find = || {
            context.bind_to_thread().map_err(describe)?;
            let name = CString::new(name).map_err(|_| "a name with a zero byte".to_owned())?;
            // SAFETY: the module is loaded, since `self` holds it.
            unsafe { result::module::get_function(*module, name) }.map_err(describe)
        };
        let function = find().map_err(refused)?;
        let get = |attribute| {
            // SAFETY: the function belongs to a loaded module, and its context is current.
            let value = unsafe { result::function::get_function_attribute(function, attribute) };
            value.map(|value| value.max(0) as u32).map_err(|e| error("reading a kernel's attribute", context, e))
        };
        let attributes = KernelAttributes {
            registers: Some(get(FunctionAttribute::CU_FUNC_ATTRIBUTE_NUM_REGS)?),
            local_bytes: Some(get(FunctionAttribute::CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES)?),
            static_shared: get(FunctionAttribute::CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES)?,
            max_threads_per_block: get(FunctionAttribute::CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK)?,
        };
        let mut limits = dynamic_shared.lock().unwrap_or_else(PoisonError::into_inner);
        let dynamic_shared = limits.entry(name.to_owned()).or_default().clone();
        let static_shared = attributes.static_shared;
        Ok((Handle::Cuda(Function { function, module: self.clone(), static_shared, dynamic_shared }), attributes))
    }
}

impl Function {
    pub(crate) fn raw(&self) -> sys::CUfunction {
        self.function
    }

    /// Blocks of this size that all SMs together hold at once.
    pub(crate) fn resident_blocks(&self, threads: u32, dynamic_shared: u32) -> Result<u32> {
        self.allow_dynamic_shared(dynamic_shared)?;
        let context = &self.module.0.context;
        let count = || {
            context.bind_to_thread()?;
            // SAFETY: the function belongs to a loaded module.
            let of_sm = unsafe {
                result::occupancy::max_active_block_per_multiprocessor(
                    self.function,
                    threads as i32,
                    dynamic_shared as usize,
                )
            }?;
            let sms = context.attribute(Attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?;
            Ok((of_sm * sms).max(0) as u32)
        };
        count().map_err(|e| error("counting the blocks that fit", context, e))
    }

    /// Lets launches use up to `bytes` of dynamic shared memory, which beyond 48 KiB must be asked for.
    pub(super) fn allow_dynamic_shared(&self, bytes: u32) -> Result<()> {
        let context = &self.module.0.context;
        let set = |bytes: u32| {
            context.bind_to_thread()?;
            let attribute = FunctionAttribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
            // SAFETY: the function belongs to a loaded module.
            unsafe { result::function::set_function_attribute(self.function, attribute, bytes as i32) }
        };
        self.dynamic_shared.raise(bytes, set).map_err(|e| error("asking for more shared memory", context, e))
    }
}
