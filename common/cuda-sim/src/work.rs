//! What a stream queues: launches, copies, fills, calls of the host.

use std::ffi::c_void;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use ptx_sim::{Arg, DevicePtr, LaunchConfig, LaunchError, MemoryError, Observe};

use crate::abi::{Code, Handle, Outcome, Pointer};
use crate::state::{FIRST_ADDRESS, Function, State, code_of, context, locked, say, state};

/// Memory of the host that a program gave us the address of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Host(pub(crate) *mut u8);

// SAFETY: the program promises, by the API's contract, that the memory is valid until the work is done.
unsafe impl Send for Host {}
// SAFETY: as above.
unsafe impl Sync for Host {}

/// One side of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// Address on the device.
    Device(Pointer),
    /// Address on the host.
    Host(Host),
}

impl Place {
    pub(crate) fn host(address: *const c_void) -> Self {
        Self::Host(Host(address.cast_mut().cast()))
    }

    /// The side that an address of the unified space belongs to.
    pub(crate) fn of(address: Pointer) -> Self {
        if is_device(address) { Self::Device(address) } else { Self::host(address as *const c_void) }
    }

    /// The place `bytes` bytes further on.
    pub(crate) fn offset(self, bytes: usize) -> Self {
        match self {
            Self::Device(address) => Self::Device(address.wrapping_add(bytes as u64)),
            Self::Host(Host(address)) => Self::Host(Host(address.wrapping_add(bytes))),
        }
    }
}

/// Whether an address is one of the device's.
pub(crate) fn is_device(address: Pointer) -> bool {
    address >= FIRST_ADDRESS
}

/// One piece of work.
#[derive(Clone, Debug)]
pub(crate) enum Work {
    /// A launch of a kernel.
    Launch { function: Arc<Function>, config: LaunchConfig, args: Vec<Arg> },
    /// A copy of rows, each `bytes` long and so far from the next.
    Copy { to: Place, from: Place, bytes: usize, rows: usize, to_pitch: usize, from_pitch: usize },
    /// A fill of rows with a value of 1, 2 or 4 bytes.
    Fill { target: Pointer, value: u32, element_bytes: usize, width: usize, rows: usize, pitch: usize },
    /// A call of a function of the program.
    Call { function: unsafe extern "C" fn(*mut c_void), data: Host },
}

/// Queues work in a stream, that is, does it, or records it if the stream is being captured.
pub(crate) fn submit(stream: Handle, work: Work) -> Outcome {
    let context = context()?;
    let state = state()?;
    if let Some(stream) = state.stream(stream)?
        && let Some(captured) = &mut *locked(&stream.capture)
    {
        captured.push(work);
        return Ok(());
    }
    let done = work.run(state);
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

impl Work {
    /// Does the work now.
    pub(crate) fn run(&self, state: &State) -> Outcome {
        match self {
            Self::Launch { function, config, args } => launch(state, function, config, args),
            Self::Copy { to, from, bytes, rows, to_pitch, from_pitch } => (0..*rows)
                .try_for_each(|row| copy(state, to.offset(row * to_pitch), from.offset(row * from_pitch), *bytes)),
            Self::Fill { target, value, element_bytes, width, rows, pitch } => (0..*rows).try_for_each(|row| {
                fill(state, target.wrapping_add((row * pitch) as u64), *value, *element_bytes, *width)
            }),
            Self::Call { function, data } => {
                // SAFETY: the program gave us the function to be called with this argument.
                unsafe { function(data.0.cast()) };
                Ok(())
            }
        }
    }

    /// A copy of one run of bytes.
    pub(crate) fn copy(to: Place, from: Place, bytes: usize) -> Self {
        Self::Copy { to, from, bytes, rows: 1, to_pitch: 0, from_pitch: 0 }
    }

    /// A fill of one run of `count` values.
    pub(crate) fn fill(target: Pointer, value: u32, element_bytes: usize, count: usize) -> Self {
        Self::Fill { target, value, element_bytes, width: count, rows: 1, pitch: 0 }
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
