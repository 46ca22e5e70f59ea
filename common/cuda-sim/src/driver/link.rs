//! Linking PTX texts into one module.

use std::ffi::{c_char, c_int, c_uint, c_void};
use std::sync::Mutex;

use crate::abi::{Code, Handle, Outcome};
use crate::api::{exported, put, put_if_wanted, slice, text};
use crate::state::{Link, context, locked, state};

/// `CU_JIT_INPUT_PTX`; all others hold machine code.
const PTX: c_int = 1;

/// First bytes of a linked image, which only this library loads: the texts follow, each with a zero byte behind it, and an empty one.
pub(super) const MAGIC: &[u8; 8] = b"cuda-sim";

/// The texts of a linked image.
///
/// # Safety
/// `image` begins with [`MAGIC`], and was made by [`cuLinkComplete`].
pub(super) unsafe fn texts<'t>(image: *const c_void) -> Outcome<Vec<&'t str>> {
    let mut texts = Vec::new();
    // SAFETY: the caller's image is longer than its first bytes.
    let mut at = unsafe { image.cast::<u8>().add(MAGIC.len()) };
    loop {
        // SAFETY: texts end in a zero byte, and an empty one ends the list.
        let found = unsafe { text(at.cast())? };
        if found.is_empty() {
            return Ok(texts);
        }
        texts.push(found);
        // SAFETY: as above.
        at = unsafe { at.add(found.len() + 1) };
    }
}

fn add(link: Handle, kind: c_int, bytes: &[u8]) -> Outcome {
    if kind != PTX {
        return Err(Code::NO_BINARY_FOR_GPU);
    }
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    let link = state()?.links.get(link)?;
    let mut image = locked(&link.0);
    image.pop(); // the empty text that ended the list
    image.extend_from_slice(&bytes[..end]);
    image.extend_from_slice(&[0, 0]);
    Ok(())
}

exported! {
    fn cuLinkCreate_v2(_count: c_uint, _options: *const c_int, _values: *const *mut c_void, link: *mut Handle) {
        context()?;
        let empty = [MAGIC.as_slice(), &[0]].concat();
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
