//! Streams, and the recording of their work as a graph.

use std::collections::BTreeMap;
use std::ffi::{c_int, c_uint, c_void};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

use crate::abi::{Code, Handle, Outcome};
use crate::api::{exported, put, put_if_wanted, slice};
use crate::graph::Graph;
use crate::queue::{Wanted, finish, submit, wait_for};
use crate::state::{self, Stream, context, context_of, state};
use crate::tell::locked;
use crate::work::{Capture, Captured, Work};

/// `CUstreamCaptureStatus`.
const NOT_CAPTURING: c_int = 0;
const CAPTURING: c_int = 1;

fn create(flags: c_uint, priority: c_int) -> Outcome<Handle> {
    context()?;
    let context = state::current().ok_or(Code::INVALID_CONTEXT)?;
    Ok(state()?.streams.add(Stream {
        context,
        flags,
        priority,
        attributes: Mutex::default(),
        capture: Mutex::default(),
    }))
}

fn context_handle(stream: Handle) -> Outcome<Handle> {
    let stream = state()?.stream(stream)?;
    stream.map(|stream| stream.context).or_else(state::current).ok_or(Code::INVALID_CONTEXT)
}

/// Waits for the work of a stream so far.
fn wait(stream: Handle) -> Outcome {
    context_of(stream)?;
    finish(Wanted::Stream(stream))?;
    context_of(stream).map(|_| ())
}

fn status(stream: Handle) -> Outcome<c_int> {
    Ok(if state()?.capture(stream)?.is_some() { CAPTURING } else { NOT_CAPTURING })
}

/// Tells whether a stream is captured, into which graph, and after which nodes its next work comes.
///
/// # Safety
/// The places are the caller's of `cuStreamGetCaptureInfo`.
unsafe fn capture_info(
    stream: Handle,
    capturing: *mut c_int,
    id: *mut u64,
    graph: *mut Handle,
    dependencies: *mut *const Handle,
    count: *mut usize,
) -> Outcome {
    let stream = state()?.stream(stream)?;
    let captured = stream.as_ref().map(|stream| locked(&stream.capture));
    let captured = captured.as_ref().and_then(|captured| captured.as_ref()).filter(|captured| captured.is_going_on());
    let found = captured.map_or(0, |captured| captured.capture.graph);
    // SAFETY: as the caller promises. The list stays as it is until the stream records the next work.
    unsafe {
        put(capturing, if found == 0 { NOT_CAPTURING } else { CAPTURING })?;
        put_if_wanted(id, found as u64);
        put_if_wanted(graph, found);
        put_if_wanted(dependencies, captured.map_or(std::ptr::null(), |captured| captured.after.as_ptr()));
        put_if_wanted(count, captured.map_or(0, |captured| captured.after.len()));
    }
    Ok(())
}

/// Begins to record the work of a stream in a graph, after these nodes.
fn capture(stream: Handle, graph: Handle, after: &[Handle]) -> Outcome {
    let state = state()?;
    if state.capture(stream)?.is_some() {
        return Err(Code::INVALID_VALUE);
    }
    let capture = Arc::new(Capture { graph, ..Capture::default() });
    state.set_capture(stream, Captured { capture, after: after.to_vec() })
}

/// Adds nodes to those that a stream's next work comes after, or puts them in their place.
///
/// # Safety
/// `nodes` has `count` handles.
unsafe fn come_after(stream: Handle, nodes: *mut Handle, count: usize, flags: c_uint) -> Outcome {
    const SET: c_uint = 1;
    let state = state()?;
    let Captured { capture, after } = state.capture(stream)?.ok_or(Code::ILLEGAL_STATE)?;
    // SAFETY: as the caller promises.
    let nodes = unsafe { slice(nodes.cast_const(), count)? };
    let mut after = if flags & SET != 0 { Vec::new() } else { after };
    after.extend(nodes);
    state.set_capture(stream, Captured { capture, after })
}

exported! {
    fn cuStreamCreate(stream: *mut Handle, flags: c_uint) {
        // SAFETY: a place of the caller's.
        unsafe { put(stream, create(flags, 0)?) }
    }

    fn cuStreamCreateWithPriority(stream: *mut Handle, flags: c_uint, priority: c_int) {
        // SAFETY: a place of the caller's.
        unsafe { put(stream, create(flags, priority.clamp(-5, 0))?) }
    }

    fn cuStreamDestroy_v2(stream: Handle) also cuStreamDestroy {
        finish(Wanted::Stream(stream))?;
        state()?.streams.remove(stream).map(|_| ())
    }

    fn cuStreamSynchronize(stream: Handle) {
        wait(stream)
    }

    fn cuStreamQuery(stream: Handle) {
        wait(stream)
    }

    fn cuStreamWaitEvent(stream: Handle, handle: Handle, flags: c_uint) {
        const EXTERNAL: c_uint = 1;
        context_of(stream)?;
        let state = state()?;
        let event = state.events.get(handle)?;
        let own = state.capture(stream)?;
        if own.is_some() && flags & EXTERNAL != 0 {
            return submit(stream, Work::Wait(handle, event));
        }
        let of_event = locked(&event.capture).clone().filter(Captured::is_going_on);
        let Some(Captured { capture, mut after }) = of_event else { return wait_for(&event, stream) };
        let known = own.map_or(Vec::new(), |own| own.after);
        after.extend(known.into_iter().filter(|node| !after.contains(node)).collect::<Vec<_>>());
        state.set_capture(stream, Captured { capture, after })
    }

    fn cuStreamGetFlags(stream: Handle, flags: *mut c_uint) {
        let stream = state()?.stream(stream)?;
        // SAFETY: a place of the caller's.
        unsafe { put(flags, stream.map_or(0, |stream| stream.flags)) }
    }

    fn cuStreamGetPriority(stream: Handle, priority: *mut c_int) {
        let stream = state()?.stream(stream)?;
        // SAFETY: a place of the caller's.
        unsafe { put(priority, stream.map_or(0, |stream| stream.priority)) }
    }

    fn cuStreamGetCtx(stream: Handle, context: *mut Handle) {
        // SAFETY: a place of the caller's.
        unsafe { put(context, context_handle(stream)?) }
    }

    fn cuStreamGetCtx_v2(stream: Handle, context: *mut Handle, green: *mut Handle) {
        // SAFETY: null or places of the caller's.
        unsafe {
            put_if_wanted(green, 0);
            put(context, context_handle(stream)?)
        }
    }

    fn cuStreamGetId(stream: Handle, id: *mut u64) {
        state()?.stream(stream)?;
        // SAFETY: a place of the caller's.
        unsafe { put(id, stream as u64) }
    }

    fn cuStreamGetDevice(stream: Handle, device: *mut c_int) {
        // SAFETY: a place of the caller's.
        unsafe { put(device, context_of(stream)?.ordinal) }
    }

    // Attributes of streams are hints, which change no result.
    fn cuStreamCopyAttributes(to: Handle, from: Handle) {
        let all = state()?.stream(from)?.map_or_else(BTreeMap::new, |from| locked(&from.attributes).clone());
        if let Some(to) = state()?.stream(to)? {
            locked(&to.attributes).extend(all);
        }
        Ok(())
    }

    fn cuStreamSetAttribute(stream: Handle, attribute: c_int, value: *const [u32; 16]) {
        // SAFETY: null or valid.
        let value = unsafe { value.as_ref() }.ok_or(Code::INVALID_VALUE)?;
        if let Some(stream) = state()?.stream(stream)? {
            locked(&stream.attributes).insert(attribute, *value);
        }
        Ok(())
    }

    fn cuStreamGetAttribute(stream: Handle, attribute: c_int, value: *mut [u32; 16]) {
        let known = state()?.stream(stream)?.and_then(|stream| locked(&stream.attributes).get(&attribute).copied());
        // SAFETY: a place of the caller's.
        unsafe { put(value, known.unwrap_or_default()) }
    }

    fn cuStreamAddCallback(
        stream: Handle,
        callback: unsafe extern "C" fn(Handle, c_int, *mut c_void),
        data: *mut c_void,
        _flags: c_uint,
    ) {
        wait(stream)?;
        if status(stream)? == CAPTURING {
            return Err(Code::STREAM_CAPTURE_UNSUPPORTED);
        }
        // SAFETY: the program gave us the function to be called with these arguments.
        unsafe { callback(stream, 0, data) };
        Ok(())
    }

    fn cuStreamAttachMemAsync(stream: Handle, _pointer: u64, _bytes: usize, _flags: c_uint) {
        wait(stream)
    }

    fn cuStreamBeginCapture_v2(stream: Handle, _mode: c_int) {
        capture(stream, state()?.graphs.add(Graph::default()), &[])
    }

    fn cuStreamBeginCaptureToGraph(
        stream: Handle,
        graph: Handle,
        dependencies: *const Handle,
        _edges: *const c_void,
        count: usize,
        _mode: c_int,
    ) {
        state()?.graphs.get(graph)?;
        // SAFETY: as the caller promises.
        capture(stream, graph, unsafe { slice(dependencies, count)? })
    }

    fn cuStreamEndCapture(stream: Handle, graph: *mut Handle) {
        let Captured { capture, .. } = state()?.capture(stream)?.ok_or(Code::INVALID_VALUE)?;
        capture.ended.store(true, Ordering::Relaxed);
        // SAFETY: null or a place of the caller's.
        unsafe { put_if_wanted(graph, capture.graph) };
        Ok(())
    }

    fn cuStreamUpdateCaptureDependencies(stream: Handle, nodes: *mut Handle, count: usize, flags: c_uint) {
        // SAFETY: as the caller promises.
        unsafe { come_after(stream, nodes, count, flags) }
    }

    fn cuStreamUpdateCaptureDependencies_v2(
        stream: Handle,
        nodes: *mut Handle,
        _edges: *const c_void,
        count: usize,
        flags: c_uint,
    ) {
        // SAFETY: as the caller promises.
        unsafe { come_after(stream, nodes, count, flags) }
    }

    fn cuStreamIsCapturing(stream: Handle, capturing: *mut c_int) {
        // SAFETY: a place of the caller's.
        unsafe { put(capturing, status(stream)?) }
    }

    fn cuStreamGetCaptureInfo(stream: Handle, capturing: *mut c_int, id: *mut u64) {
        let (graph, dependencies, count) = (std::ptr::null_mut(), std::ptr::null_mut(), std::ptr::null_mut());
        // SAFETY: places of the caller's.
        unsafe { capture_info(stream, capturing, id, graph, dependencies, count) }
    }

    fn cuStreamGetCaptureInfo_v2(
        stream: Handle,
        capturing: *mut c_int,
        id: *mut u64,
        graph: *mut Handle,
        dependencies: *mut *const Handle,
        count: *mut usize,
    ) {
        // SAFETY: places of the caller's.
        unsafe { capture_info(stream, capturing, id, graph, dependencies, count) }
    }

    fn cuStreamGetCaptureInfo_v3(
        stream: Handle,
        capturing: *mut c_int,
        id: *mut u64,
        graph: *mut Handle,
        dependencies: *mut *const Handle,
        edges: *mut *const c_void,
        count: *mut usize,
    ) {
        // SAFETY: places of the caller's.
        unsafe {
            put_if_wanted(edges, std::ptr::null());
            capture_info(stream, capturing, id, graph, dependencies, count)
        }
    }

    fn cuThreadExchangeStreamCaptureMode(_mode: *mut c_int) {
        Ok(())
    }
}
