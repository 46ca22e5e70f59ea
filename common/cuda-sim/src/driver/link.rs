//! Linking PTX texts into one module.

use std::ffi::{c_char, c_int, c_uint, c_void};
use std::sync::Mutex;

use super::module::jit_options;
use crate::abi::{Code, Handle, Outcome};
use crate::api::{exported, put, put_if_wanted, slice, text};
use crate::image::{DEVICE_RUNTIME, LINKED, ptx_in};
use crate::state::{Link, context, state};
use crate::tell::locked;

/// `CU_JIT_INPUT_PTX` and `CU_JIT_INPUT_FATBINARY`; the others hold machine code.
const PTX: c_int = 1;
const FAT_BINARY: c_int = 2;
/// `CU_JIT_INPUT_LIBRARY`: `libcudadevrt.a`. What no text defines is told when the link is loaded.
const LIBRARY: c_int = 4;

fn add(link: Handle, kind: c_int, bytes: &[u8]) -> Outcome {
    let state = state()?;
    let link = state.links.get(link)?;
    let texts = match kind {
        PTX | FAT_BINARY => ptx_in(bytes, state.options.compute)?,
        LIBRARY => vec![DEVICE_RUNTIME.into()],
        _ => return Err(Code::NO_BINARY_FOR_GPU),
    };
    let mut image = locked(&link.0);
    for text in texts {
        image.pop(); // the empty text that ended the list
        image.extend_from_slice(text.as_bytes());
        image.extend_from_slice(&[0, 0]);
    }
    Ok(())
}

exported! {
    fn cuLinkCreate_v2(count: c_uint, options: *const c_int, values: *const *mut c_void, link: *mut Handle) {
        context()?;
        // What does not fit together is told when the link is loaded.
        // SAFETY: as the caller promises.
        let max_registers = unsafe { jit_options(options, values, count)? }.max_registers;
        let max_registers = max_registers.map_or(String::new(), |registers| registers.to_string());
        let empty = [LINKED.as_slice(), max_registers.as_bytes(), &[0, 0]].concat();
        // SAFETY: a place of the caller's.
        unsafe { put(link, state()?.links.add(Link(Mutex::new(empty)))) }
    }

    fn cuLinkAddData_v2(
        link: Handle,
        kind: c_int,
        data: *const c_void,
        bytes: usize,
        _name: *const c_char,
        _count: c_uint,
        _options: *const c_int,
        _values: *const *mut c_void,
    ) {
        // SAFETY: as the caller promises.
        add(link, kind, unsafe { slice(data.cast::<u8>(), bytes)? })
    }

    fn cuLinkAddFile_v2(
        link: Handle,
        kind: c_int,
        path: *const c_char,
        _count: c_uint,
        _options: *const c_int,
        _values: *const *mut c_void,
    ) {
        // SAFETY: as the caller promises.
        let file = std::fs::read(unsafe { text(path)? }).map_err(|_| Code::FILE_NOT_FOUND)?;
        add(link, kind, &file)
    }

    fn cuLinkComplete(link: Handle, image: *mut *const c_void, bytes: *mut usize) {
        let link = state()?.links.get(link)?;
        let linked = locked(&link.0);
        // SAFETY: places of the caller's; the image lives until the link is destroyed.
        unsafe {
            put_if_wanted(bytes, linked.len());
            put(image, linked.as_ptr().cast())
        }
    }

    fn cuLinkDestroy(link: Handle) {
        state()?.links.remove(link).map(|_| ())
    }
}
