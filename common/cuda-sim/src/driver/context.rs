//! Contexts: one is current on each thread.

use std::ffi::{c_int, c_uint, c_void};
use std::sync::atomic::Ordering;

use crate::abi::{Code, DeviceId, Handle, Outcome};
use crate::api::{exported, put, put_if_wanted};
use crate::queue::{Wanted, finish};
use crate::state::{self, Context, context, pop_current, push_current, set_current, state, working};

/// Limits that can be asked for and set without effect, by `CUlimit`: the stack, printf's buffer, the heap …
const LIMITS: std::ops::Range<c_int> = 0..9;

/// `CU_SHARED_MEM_CONFIG_FOUR_BYTE_BANK_SIZE`.
const FOUR_BYTE_BANKS: c_int = 1;

/// A context, which becomes current.
fn create(flags: c_uint, device: DeviceId) -> Outcome<Handle> {
    let state = state()?;
    state.primary(device)?;
    let created = Context::new(device);
    created.flags.store(flags, Ordering::Relaxed);
    let handle = state.contexts.add(created);
    push_current(handle);
    Ok(handle)
}

fn destroy(handle: Handle) -> Outcome {
    finish(Wanted::All)?;
    let state = state()?;
    state.contexts.remove(handle).map_err(|_| Code::INVALID_CONTEXT)?;
    state.streams.retain(|stream| stream.context != handle);
    if state::current() == Some(handle) {
        pop_current();
    }
    Ok(())
}

exported! {
    fn cuCtxCreate_v2(context: *mut Handle, flags: c_uint, device: DeviceId) {
        // SAFETY: a place of the caller's.
        unsafe { put(context, create(flags, device)?) }
    }

    fn cuCtxCreate_v3(context: *mut Handle, _affinities: *const c_void, count: c_int, flags: c_uint, device: DeviceId) {
        if count != 0 {
            return Err(Code::NOT_SUPPORTED); // a part of the multiprocessors
        }
        // SAFETY: a place of the caller's.
        unsafe { put(context, create(flags, device)?) }
    }

    fn cuCtxCreate_v4(context: *mut Handle, params: *const [u64; 3], flags: c_uint, device: DeviceId) {
        // SAFETY: null or valid.
        if unsafe { params.as_ref() }.is_some_and(|params| *params != [0; 3]) {
            return Err(Code::NOT_SUPPORTED); // a part of the multiprocessors, or graphics
        }
        // SAFETY: a place of the caller's.
        unsafe { put(context, create(flags, device)?) }
    }

    fn cuCtxDestroy_v2(handle: Handle) also cuCtxDestroy {
        destroy(handle)
    }

    // Nothing attaches, so the one that detaches is the last.
    fn cuCtxDetach(handle: Handle) {
        destroy(handle)
    }

    fn cuCtxGetSharedMemConfig(config: *mut c_int) {
        context()?;
        // SAFETY: a place of the caller's.
        unsafe { put(config, FOUR_BYTE_BANKS) }
    }

    fn cuCtxSetSharedMemConfig(_config: c_int) {
        context().map(|_| ())
    }

    fn cuCtxGetCurrent(handle: *mut Handle) {
        state()?;
        // SAFETY: a place of the caller's.
        unsafe { put(handle, state::current().unwrap_or(0)) }
    }

    fn cuCtxSetCurrent(handle: Handle) {
        if handle != 0 {
            state()?.contexts.get(handle).map_err(|_| Code::INVALID_CONTEXT)?;
        }
        set_current(handle);
        Ok(())
    }

    fn cuCtxPushCurrent_v2(handle: Handle) also cuCtxPushCurrent {
        state()?.contexts.get(handle).map_err(|_| Code::INVALID_CONTEXT)?;
        push_current(handle);
        Ok(())
    }

    fn cuCtxPopCurrent_v2(handle: *mut Handle) also cuCtxPopCurrent {
        let popped = pop_current().ok_or(Code::INVALID_CONTEXT)?;
        // SAFETY: null or a place of the caller's.
        unsafe { put_if_wanted(handle, popped) };
        Ok(())
    }

    fn cuCtxGetDevice(device: *mut DeviceId) {
        // SAFETY: a place of the caller's.
        unsafe { put(device, context()?.ordinal) }
    }

    fn cuCtxSynchronize() {
        context()?;
        finish(Wanted::All)?;
        context().map(|_| ())
    }

    fn cuCtxGetDevice_v2(device: *mut DeviceId, handle: Handle) {
        let context = if handle == 0 { context()? } else { working(handle)? };
        // SAFETY: a place of the caller's.
        unsafe { put(device, context.ordinal) }
    }

    fn cuCtxSynchronize_v2(handle: Handle) {
        let handle = if handle == 0 { state::current().ok_or(Code::INVALID_CONTEXT)? } else { handle };
        working(handle)?;
        finish(Wanted::All)?;
        working(handle).map(|_| ())
    }

    fn cuCtxGetId(handle: Handle, id: *mut u64) {
        let handle = if handle == 0 { state::current().ok_or(Code::INVALID_CONTEXT)? } else { handle };
        state()?.contexts.get(handle).map_err(|_| Code::INVALID_CONTEXT)?;
        // SAFETY: a place of the caller's.
        unsafe { put(id, handle as u64) }
    }

    fn cuCtxResetPersistingL2Cache() {
        context().map(|_| ())
    }

    fn cuCtxGetApiVersion(handle: Handle, version: *mut c_uint) {
        state()?.contexts.get(handle).map_err(|_| Code::INVALID_CONTEXT)?;
        // SAFETY: a place of the caller's.
        unsafe { put(version, 3020) }
    }

    fn cuCtxGetFlags(flags: *mut c_uint) {
        // SAFETY: a place of the caller's.
        unsafe { put(flags, context()?.flags.load(Ordering::Relaxed)) }
    }

    fn cuCtxSetFlags(flags: c_uint) {
        context()?.flags.store(flags, Ordering::Relaxed);
        Ok(())
    }

    fn cuCtxGetLimit(value: *mut usize, limit: c_int) {
        context()?;
        let known = match limit {
            0 => 1024,
            1 => 1 << 20,
            2 => ptx_sim::HEAP_BYTES as usize,
            _ if LIMITS.contains(&limit) => 0,
            _ => return Err(Code::INVALID_VALUE),
        };
        // SAFETY: a place of the caller's.
        unsafe { put(value, known) }
    }

    fn cuCtxSetLimit(limit: c_int, _value: usize) {
        context()?;
        if LIMITS.contains(&limit) { Ok(()) } else { Err(Code::INVALID_VALUE) }
    }

    fn cuCtxGetCacheConfig(config: *mut c_int) {
        context()?;
        // SAFETY: a place of the caller's.
        unsafe { put(config, 0) }
    }

    fn cuCtxSetCacheConfig(_config: c_int) {
        context().map(|_| ())
    }

    fn cuCtxGetStreamPriorityRange(least: *mut c_int, greatest: *mut c_int) {
        context()?;
        // SAFETY: null or places of the caller's.
        unsafe {
            put_if_wanted(least, 0);
            put_if_wanted(greatest, -5);
        }
        Ok(())
    }

    fn cuCtxEnablePeerAccess(peer: Handle, _flags: c_uint) {
        let own = context()?;
        let peer = state()?.contexts.get(peer).map_err(|_| Code::INVALID_CONTEXT)?;
        // All devices lie in one memory, so access is there before it is asked for.
        if peer.ordinal == own.ordinal { Err(Code::INVALID_DEVICE) } else { Ok(()) }
    }

    fn cuCtxDisablePeerAccess(peer: Handle) {
        context()?;
        state()?.contexts.get(peer).map(|_| ()).map_err(|_| Code::INVALID_CONTEXT)
    }
}
