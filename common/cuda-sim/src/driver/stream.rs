//! Streams, and the recording of their work as a graph.

use std::ffi::{c_int, c_uint, c_void};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

use crate::abi::{Code, Handle, Outcome};
use crate::api::{exported, put, put_if_wanted};
use crate::queue::{Wanted, finish, wait_for};
use crate::state::{self, Capture, Graph, Stream, context, locked, state};

/// `CUstreamCaptureStatus`.
const NOT_CAPTURING: c_int = 0;
const CAPTURING: c_int = 1;

fn create(flags: c_uint, priority: c_int) -> Outcome<Handle> {
    context()?;
    let context = state::current().ok_or(Code::INVALID_CONTEXT)?;
    Ok(state()?.streams.add(Stream { context, flags, priority, capture: Mutex::default() }))
}

/// Waits for the work of a stream so far.
fn wait(stream: Handle) -> Outcome {
    context()?;
    state()?.stream(stream)?;
    finish(Wanted::Stream(stream))?;
    context().map(|_| ())
}

fn status(stream: Handle) -> Outcome<c_int> {
    Ok(if state()?.capture(stream)?.is_some() { CAPTURING } else { NOT_CAPTURING })
}

/// Tells whether a stream is captured, and into which graph. The work that the next comes after is not told: it comes after all.
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
    let found = state()?.capture(stream)?.map_or(0, |capture| capture.graph);
    // SAFETY: as the caller promises.
    unsafe {
        put(capturing, if found == 0 { NOT_CAPTURING } else { CAPTURING })?;
        put_if_wanted(id, found as u64);
        put_if_wanted(graph, found);
        put_if_wanted(dependencies, std::ptr::null());
        put_if_wanted(count, 0);
    }
    Ok(())
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

    fn cuStreamDestroy_v2(stream: Handle) {
        finish(Wanted::Stream(stream))?;
        state()?.streams.remove(stream).map(|_| ())
    }

    fn cuStreamSynchronize(stream: Handle) {
        wait(stream)
    }

    fn cuStreamQuery(stream: Handle) {
        wait(stream)
    }

    fn cuStreamWaitEvent(stream: Handle, event: Handle, _flags: c_uint) {
        context()?;
        let state = state()?;
        let event = state.events.get(event)?;
        let capture = locked(&event.capture).clone().filter(|capture| !capture.ended.load(Ordering::Relaxed));
        if let Some(capture) = capture {
            let stream = state.stream(stream)?.ok_or(Code::STREAM_CAPTURE_UNSUPPORTED)?;
            *locked(&stream.capture) = Some(capture);
            return Ok(());
        }
        let item = *locked(&event.item);
        item.map_or(Ok(()), |item| wait_for(item, stream))
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
        let stream = state()?.stream(stream)?;
        let own = stream.map(|stream| stream.context).or_else(state::current).ok_or(Code::INVALID_CONTEXT)?;
        // SAFETY: a place of the caller's.
        unsafe { put(context, own) }
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
        let state = state()?;
        if state.capture(stream)?.is_some() {
            return Err(Code::INVALID_VALUE);
        }
        let stream = state.stream(stream)?.ok_or(Code::STREAM_CAPTURE_UNSUPPORTED)?;
        *locked(&stream.capture) = Some(Arc::new(Capture { graph: state.graphs.add(Graph::default()), ..Capture::default() }));
        Ok(())
    }

    fn cuStreamEndCapture(stream: Handle, graph: *mut Handle) {
        let state = state()?;
        let capture = state.capture(stream)?.ok_or(Code::INVALID_VALUE)?;
        capture.ended.store(true, Ordering::Relaxed);
        // SAFETY: a place of the caller's.
        unsafe { put(graph, capture.graph) }
    }

    fn cuStreamIsCapturing(stream: Handle, capturing: *mut c_int) {
        // SAFETY: a place of the caller's.
        unsafe { put(capturing, status(stream)?) }
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
