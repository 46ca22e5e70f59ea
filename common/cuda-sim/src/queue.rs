//! Doing work in the order in which it is queued, or recording it for a graph.

use std::sync::atomic::Ordering;

use ptx_sim::{Arg, DevicePtr, LaunchConfig, LaunchError, MemoryError, Observe};

use crate::abi::{Code, Handle, Outcome, Pointer};
use crate::state::{State, code_of, context, locked, say, state};
use crate::work::{Function, Host, Place, Work};

/// Queues work in a stream, that is, does it, or records it if the stream is being captured.
pub(crate) fn submit(stream: Handle, work: Work) -> Outcome {
    let context = context()?;
    let state = state()?;
    if let Some(capture) = state.capture(stream)? {
        locked(&capture).get_or_insert_default().push(work);
        return Ok(());
    }
    let done = run(&work, state);
    if let Err(code) = done
        && matches!(code.0, 700..=799)
        && code != Code::LAUNCH_OUT_OF_RESOURCES
        && code != Code::COOPERATIVE_LAUNCH_TOO_LARGE
    {
        // Reported by whatever is called next, as on hardware: the launch itself was queued.
        context.broken.store(code.0, Ordering::Relaxed);
        return Ok(());
    }
    done
}

/// Does the work now.
fn run(work: &Work, state: &State) -> Outcome {
    match work {
        Work::Launch { function, config, args } => launch(state, function, config, args),
        Work::Copy { to, from, bytes, rows, to_pitch, from_pitch } => {
            (0..*rows).try_for_each(|row| copy(state, to.offset(row * to_pitch), from.offset(row * from_pitch), *bytes))
        }
        Work::Fill { target, value, element_bytes, width, rows, pitch } => (0..*rows)
            .try_for_each(|row| fill(state, target.wrapping_add((row * pitch) as u64), *value, *element_bytes, *width)),
        Work::Call { function, data } => {
            // SAFETY: the program gave us the function to be called with this argument.
            unsafe { function(data.0.cast()) };
            Ok(())
        }
        Work::Sequence(works) => works.iter().try_for_each(|work| run(work, state)),
    }
}

fn launch(state: &State, function: &Function, config: &LaunchConfig, args: &[Arg]) -> Outcome {
    let observed = function.kernel.observe(config, args, &Observe::default());
    state.flush();
    match observed {
        Ok(observation) => {
            state.tell(&observation.findings);
            Ok(())
        }
        Err(LaunchError::Fault(fault)) => {
            state.tell(std::slice::from_ref(&fault));
            Err(code_of(fault.kind))
        }
        Err(LaunchError::Findings(findings)) => {
            state.tell(&findings);
            let limit = findings.iter().find(|finding| finding.kind.is_limit());
            limit.map_or(Ok(()), |finding| Err(code_of(finding.kind)))
        }
        Err(error) => {
            say(&error.to_string());
            Err(Code::INVALID_VALUE)
        }
    }
}

fn copy(state: &State, to: Place, from: Place, bytes: usize) -> Outcome {
    let device = &state.device;
    if bytes == 0 {
        return Ok(());
    }
    match (to, from) {
        (Place::Device(to), Place::Device(from)) => {
            device.copy(DevicePtr(to), DevicePtr(from), bytes as u64).map_err(|error| refused(&error))
        }
        (Place::Device(to), Place::Host(Host(from))) => {
            if from.is_null() {
                return Err(Code::INVALID_VALUE);
            }
            // SAFETY: the program promises `bytes` readable bytes there.
            let bytes = unsafe { std::slice::from_raw_parts(from, bytes) };
            device.write(DevicePtr(to), bytes).map_err(|error| refused(&error))
        }
        (Place::Host(Host(to)), Place::Device(from)) => {
            if to.is_null() {
                return Err(Code::INVALID_VALUE);
            }
            // SAFETY: the program promises `bytes` writable bytes there, which nobody else uses meanwhile.
            let target = unsafe { std::slice::from_raw_parts_mut(to, bytes) };
            match device.read(DevicePtr(from), target) {
                Err(MemoryError::Undefined(findings)) => {
                    state.tell(&findings);
                    device.define(DevicePtr(from), bytes as u64).map_err(|error| refused(&error))
                }
                read => read.map_err(|error| refused(&error)),
            }
        }
        (Place::Host(Host(to)), Place::Host(Host(from))) => {
            if to.is_null() || from.is_null() {
                return Err(Code::INVALID_VALUE);
            }
            // SAFETY: the program promises both; the ranges may overlap.
            unsafe { std::ptr::copy(from, to, bytes) };
            Ok(())
        }
    }
}

fn fill(state: &State, target: Pointer, value: u32, element_bytes: usize, count: usize) -> Outcome {
    let bytes = value.to_le_bytes();
    let element = &bytes[..element_bytes];
    let done = if element.iter().all(|byte| *byte == element[0]) {
        state.device.fill(DevicePtr(target), element[0], (count * element_bytes) as u64)
    } else {
        state.device.write(DevicePtr(target), &element.repeat(count))
    };
    done.map_err(|error| refused(&error))
}

/// Prints why the device does not take a copy or a fill.
pub(crate) fn refused(error: &MemoryError) -> Code {
    say(&error.to_string());
    match error {
        MemoryError::OutOfMemory { .. } | MemoryError::HostOutOfMemory { .. } | MemoryError::Limit { .. } => {
            Code::OUT_OF_MEMORY
        }
        _ => Code::INVALID_VALUE,
    }
}
