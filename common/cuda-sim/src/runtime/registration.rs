//! Registration: what compiled programs tell before `main`, so that addresses of the host stand for kernels and variables.

use std::collections::BTreeMap;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::sync::Mutex;

use crate::abi::{Code, Handle, Outcome, Pointer};
use crate::api::put;
use crate::driver::module::{JitOptions, function, load_again, load_image, unload};
use crate::state::state;
use crate::tell::locked;

/// Address of a fat binary's wrapper in the program, which is its handle too.
type Image = usize;

/// All that the programs and libraries of this process have registered.
#[derive(Default)]
struct Registry {
    images: BTreeMap<Image, Registered>,
    /// Image, and name in its PTX, of what an address of the host stands for.
    symbols: BTreeMap<usize, (Image, CString)>,
}

/// A fat binary.
#[derive(Default)]
struct Registered {
    /// The module in each context, or why it could not be loaded.
    modules: BTreeMap<Handle, Outcome<Handle>>,
    /// Pointers of the program that lead to managed variables, once a module is loaded, with the variables' names.
    managed: Vec<(usize, CString)>,
}

static REGISTRY: Mutex<Registry> = Mutex::new(Registry { images: BTreeMap::new(), symbols: BTreeMap::new() });

/// The module of an image in the current context, which is loaded when it is first needed. Managed variables are the same in all.
fn module(image: Image) -> Outcome<Handle> {
    let context = super::current()?;
    let mut registry = locked(&REGISTRY);
    let registered = registry.images.get_mut(&image).ok_or(Code::INVALID_SYMBOL)?;
    if let Some(known) = registered.modules.get(&context) {
        return *known;
    }
    let loaded = match registered.modules.values().find_map(|known| known.ok()) {
        Some(first) => load_again(first),
        // SAFETY: the wrapper that the program registered.
        None => unsafe { load_image(image as *const c_void, JitOptions::default()) },
    };
    registered.modules.insert(context, loaded);
    for (pointer, name) in &registered.managed {
        let (address, _) = global(loaded?, name)?;
        // SAFETY: the program registered the pointer for this.
        unsafe { (*pointer as *mut Pointer).write(address) };
    }
    loaded
}

fn global(module: Handle, name: &CStr) -> Outcome<(Pointer, usize)> {
    let found = state()?.modules.get(module)?.loaded.global(&name.to_string_lossy());
    found.map(|(address, bytes)| (address.0, bytes as usize)).ok_or(Code::INVALID_SYMBOL)
}

/// The module and the name that an address of the host stands for.
fn symbol(address: *const c_void) -> Option<(Image, CString)> {
    locked(&REGISTRY).symbols.get(&(address as usize)).cloned()
}

/// Address and bytes of the variable that an address of the host stands for.
pub(super) fn variable(symbol: *const c_void) -> Outcome<(Pointer, usize)> {
    let (image, name) = self::symbol(symbol).ok_or(Code::INVALID_SYMBOL)?;
    global(module(image)?, &name)
}

/// The kernel that an address of the host stands for, or that has this handle.
pub(super) fn kernel(address: *const c_void) -> Outcome<Handle> {
    match symbol(address) {
        Some((image, name)) => function(module(image)?, &name.to_string_lossy()),
        None => {
            let handle = address as Handle;
            state()?.functions.get(handle).map(|_| handle).map_err(|_| Code::INVALID_DEVICE_FUNCTION)
        }
    }
    .map_err(|code| if code == Code::NOT_FOUND { Code::INVALID_DEVICE_FUNCTION } else { code })
}

/// The address that stands for a kernel, or its handle if none does.
pub(super) fn symbol_of(function: Handle) -> Outcome<*const c_void> {
    let known = state()?.functions.get(function)?;
    let registry = locked(&REGISTRY);
    let is_it = |(image, name): &(Image, CString)| {
        let mut modules = registry.images.get(image).into_iter().flat_map(|image| image.modules.values());
        name.to_bytes() == known.kernel.info().name.as_bytes() && modules.any(|module| *module == Ok(known.module))
    };
    let found = registry.symbols.iter().find(|(_, symbol)| is_it(symbol));
    Ok(found.map_or(function, |(address, _)| *address) as *const c_void)
}

/// Unloads the modules of a context.
pub(super) fn forget(context: Handle) {
    let modules: Vec<Handle> = {
        let mut registry = locked(&REGISTRY);
        registry.images.values_mut().filter_map(|image| image.modules.remove(&context)?.ok()).collect()
    };
    for module in modules {
        let _ = unload(module); // it is gone if the program has unloaded it by its handle
    }
}

/// # Safety
/// `name` ends in a zero byte.
unsafe fn register(image: Image, host: usize, name: *const c_char) {
    // SAFETY: as the caller promises.
    let name = unsafe { CStr::from_ptr(name) }.to_owned();
    locked(&REGISTRY).symbols.insert(host, (image, name));
}

#[unsafe(no_mangle)]
extern "C" fn __cudaRegisterFatBinary(wrapper: Image) -> Image {
    locked(&REGISTRY).images.insert(wrapper, Registered::default());
    wrapper
}

#[unsafe(no_mangle)]
extern "C" fn __cudaRegisterFatBinaryEnd(_image: Image) {}

#[unsafe(no_mangle)]
extern "C" fn __cudaUnregisterFatBinary(image: Image) {
    let mut registry = locked(&REGISTRY);
    registry.symbols.retain(|_, (own, _)| *own != image);
    registry.images.remove(&image);
}

#[unsafe(no_mangle)]
unsafe extern "C" fn __cudaRegisterFunction(
    image: Image,
    host: usize,
    _device: *const c_char,
    name: *const c_char,
    _thread_limit: c_int,
    _thread: *const c_void,
    _block: *const c_void,
    _block_extents: *const c_void,
    _grid_extents: *const c_void,
    _warp_size: *const c_int,
) {
    // SAFETY: names end in a zero byte.
    unsafe { register(image, host, name) };
}

#[unsafe(no_mangle)]
unsafe extern "C" fn __cudaRegisterVar(
    image: Image,
    host: usize,
    _device: *const c_char,
    name: *const c_char,
    _external: c_int,
    _bytes: usize,
    _constant: c_int,
    _global: c_int,
) {
    // SAFETY: names end in a zero byte.
    unsafe { register(image, host, name) };
}

/// `host` is where the program keeps the pointer to the variable; the pointer itself stands for it, as it is an address of both.
#[unsafe(no_mangle)]
unsafe extern "C" fn __cudaRegisterManagedVar(
    image: Image,
    host: usize,
    _device: *const c_char,
    name: *const c_char,
    _external: c_int,
    _bytes: usize,
    _constant: c_int,
    _global: c_int,
) {
    // SAFETY: names end in a zero byte.
    unsafe { register(image, host, name) };
    let mut registry = locked(&REGISTRY);
    if let Some((_, name)) = registry.symbols.get(&host).cloned()
        && let Some(registered) = registry.images.get_mut(&image)
    {
        registered.managed.push((host, name));
    }
}

#[unsafe(no_mangle)]
extern "C" fn __cudaInitModule(image: Image) -> c_char {
    super::call("__cudaInitModule", || module(image).map(|_| ()));
    1
}

super::runtime! {
    fn __cudaGetKernel(kernel: *mut *const c_void, host: *const c_void) {
        // The program keeps it for all devices, so it is the address that stands for the kernel on each.
        // SAFETY: a place of the caller's.
        unsafe { put(kernel, host) }
    }

    fn cudaGetKernel(kernel: *mut Handle, host: *const c_void) {
        // SAFETY: a place of the caller's.
        unsafe { put(kernel, self::kernel(host)?) }
    }

    fn cudaGetFuncBySymbol(function: *mut Handle, host: *const c_void) {
        // SAFETY: a place of the caller's.
        unsafe { put(function, kernel(host)?) }
    }

    fn cudaGetSymbolAddress(address: *mut Pointer, symbol: *const c_void) {
        // SAFETY: a place of the caller's.
        unsafe { put(address, variable(symbol)?.0) }
    }

    fn cudaGetSymbolSize(bytes: *mut usize, symbol: *const c_void) {
        // SAFETY: a place of the caller's.
        unsafe { put(bytes, variable(symbol)?.1) }
    }
}
