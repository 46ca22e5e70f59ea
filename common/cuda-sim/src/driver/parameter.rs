//! Launches as before CUDA 4: a function keeps the block's shape and the parameters of its next launch.

use std::ffi::{c_int, c_uint, c_void};

use super::function::known;
use super::launch::Launch;
use crate::abi::{Code, Handle, Outcome, extra};
use crate::api::{exported, slice};
use crate::queue::submit;
use crate::tell::locked;

/// Bytes that the parameters of a kernel may have.
const MOST_PARAMETER_BYTES: usize = 32764;

fn set(function: Handle, offset: c_int, bytes: &[u8]) -> Outcome {
    let start = usize::try_from(offset).map_err(|_| Code::INVALID_VALUE)?;
    let end = start.checked_add(bytes.len()).filter(|end| *end <= MOST_PARAMETER_BYTES).ok_or(Code::INVALID_VALUE)?;
    let function = known(function)?;
    let mut next = locked(&function.next);
    if next.params.len() < end {
        next.params.resize(end, 0);
    }
    next.params[start..end].copy_from_slice(bytes);
    Ok(())
}

fn launch(handle: Handle, grid: [c_int; 2], stream: Handle) -> Outcome {
    let function = known(handle)?;
    let next = locked(&function.next);
    let launch = Launch::new(handle, [grid[0] as c_uint, grid[1] as c_uint, 1], next.block, next.shared_bytes)?;
    let bytes = next.params.len();
    let extra = [
        extra::BUFFER as *const c_void,
        next.params.as_ptr().cast(),
        extra::BUFFER_SIZE as *const c_void,
        (&raw const bytes).cast(),
        extra::END as *const c_void,
    ];
    // SAFETY: the list ends, and names the parameters and their size.
    submit(stream, unsafe { launch.work(std::ptr::null(), extra.as_ptr())? })
}

exported! {
    fn cuFuncSetBlockShape(function: Handle, x: c_int, y: c_int, z: c_int) {
        locked(&known(function)?.next).block = [x as c_uint, y as c_uint, z as c_uint];
        Ok(())
    }

    fn cuFuncSetSharedSize(function: Handle, bytes: c_uint) {
        locked(&known(function)?.next).shared_bytes = bytes;
        Ok(())
    }

    fn cuParamSetSize(function: Handle, bytes: c_uint) {
        let bytes = Some(bytes as usize).filter(|bytes| *bytes <= MOST_PARAMETER_BYTES).ok_or(Code::INVALID_VALUE)?;
        locked(&known(function)?.next).params.resize(bytes, 0);
        Ok(())
    }

    fn cuParamSeti(function: Handle, offset: c_int, value: c_uint) {
        set(function, offset, &value.to_ne_bytes())
    }

    fn cuParamSetf(function: Handle, offset: c_int, value: f32) {
        set(function, offset, &value.to_ne_bytes())
    }

    fn cuParamSetv(function: Handle, offset: c_int, value: *const c_void, bytes: c_uint) {
        // SAFETY: as the caller promises.
        set(function, offset, unsafe { slice(value.cast(), bytes as usize)? })
    }

    fn cuLaunch(function: Handle) {
        launch(function, [1, 1], 0)
    }

    fn cuLaunchGrid(function: Handle, width: c_int, height: c_int) {
        launch(function, [width, height], 0)
    }

    fn cuLaunchGridAsync(function: Handle, width: c_int, height: c_int, stream: Handle) {
        launch(function, [width, height], stream)
    }
}
