//! Events. Their times are those of the simulator on its host, and say nothing of a GPU.

use std::ffi::c_uint;
use std::sync::Mutex;

use crate::abi::{Code, Handle, Outcome};
use crate::api::{exported, put};
use crate::queue::{self, Wanted, finish, submit};
use crate::state::{self, context, context_of, state, working};
use crate::tell::locked;
use crate::work::{Captured, Event, Work};

/// `CU_EVENT_DISABLE_TIMING`.
const WITHOUT_TIMES: c_uint = 2;

/// `CU_EVENT_RECORD_EXTERNAL`: a capture has a node for it.
const EXTERNAL: c_uint = 1;

fn record(handle: Handle, stream: Handle, flags: c_uint) -> Outcome {
    context_of(stream)?;
    let state = state()?;
    let event = state.events.get(handle)?;
    let capture = state.capture(stream)?;
    if capture.is_some() && flags & EXTERNAL != 0 {
        return submit(stream, Work::Record(handle, event));
    }
    if capture.is_none() {
        queue::record(handle, &event, stream)?;
    }
    *locked(&event.capture) = capture;
    Ok(())
}

/// Waits for the last recording of an event. The thread need not have a context.
fn wait(event: Handle) -> Outcome {
    let event = state()?.events.get(event)?;
    working(event.context)?;
    if locked(&event.capture).as_ref().is_some_and(Captured::is_going_on) {
        return Err(Code::CAPTURED_EVENT);
    }
    let item = *locked(&event.item);
    item.map_or(Ok(()), |item| finish(Wanted::Item(item)))?;
    working(event.context).map(|_| ())
}

/// # Safety
/// `milliseconds` is null or valid.
unsafe fn elapsed(milliseconds: *mut f32, start: Handle, end: Handle) -> Outcome {
    let state = state()?;
    let recorded = |event: Handle| {
        let event = state.events.get(event)?;
        let missing = if locked(&event.item).is_some() { Code::NOT_READY } else { Code::INVALID_HANDLE };
        if event.times { locked(&event.recorded).ok_or(missing) } else { Err(Code::INVALID_HANDLE) }
    };
    let (start, end) = (recorded(start)?, recorded(end)?);
    let forward =
        end.saturating_duration_since(start).as_secs_f64() - start.saturating_duration_since(end).as_secs_f64();
    // SAFETY: as the caller promises.
    unsafe { put(milliseconds, (forward * 1e3) as f32) }
}

exported! {
    fn cuEventCreate(event: *mut Handle, flags: c_uint) {
        context()?;
        let created = Event {
            context: state::current().ok_or(Code::INVALID_CONTEXT)?,
            recorded: Mutex::default(),
            item: Mutex::default(),
            capture: Mutex::default(),
            times: flags & WITHOUT_TIMES == 0,
        };
        // SAFETY: a place of the caller's.
        unsafe { put(event, state()?.events.add(created)) }
    }

    fn cuEventDestroy_v2(event: Handle) also cuEventDestroy {
        state()?.events.remove(event).map(|_| ())
    }

    fn cuEventRecord(event: Handle, stream: Handle) {
        record(event, stream, 0)
    }

    fn cuEventRecordWithFlags(event: Handle, stream: Handle, flags: c_uint) {
        record(event, stream, flags)
    }

    fn cuEventSynchronize(event: Handle) {
        wait(event)
    }

    fn cuEventQuery(event: Handle) {
        wait(event)
    }

    fn cuEventElapsedTime(milliseconds: *mut f32, start: Handle, end: Handle) {
        // SAFETY: as the caller promises.
        unsafe { elapsed(milliseconds, start, end) }
    }

    fn cuEventElapsedTime_v2(milliseconds: *mut f32, start: Handle, end: Handle) {
        // SAFETY: as the caller promises.
        unsafe { elapsed(milliseconds, start, end) }
    }
}
