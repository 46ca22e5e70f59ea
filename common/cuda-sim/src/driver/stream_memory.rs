//! Values that streams write, and those that they wait for.

use std::ffi::c_uint;

use ptx_sim::DevicePtr;

use crate::abi::{Code, Handle, Outcome, Pointer};
use crate::api::{exported, slice};
use crate::queue::{Wanted, finish, submit};
use crate::state::{context_of, state};
use crate::tell::{refused, say};
use crate::work::Work;

/// `CUstreamWaitValue_flags`, without `FLUSH`.
mod condition {
    use std::ffi::c_uint;

    pub(super) const GREATER_OR_EQUAL: c_uint = 0;
    pub(super) const EQUAL: c_uint = 1;
    pub(super) const AND: c_uint = 2;
    pub(super) const NOR: c_uint = 3;
    pub(super) const FLUSH: c_uint = 1 << 30;
}

/// Checks that the value is there, once all work is done. Nothing here waits for what is queued later: that is refused.
fn wait(stream: Handle, address: Pointer, value: u64, bits: u32, flags: c_uint) -> Outcome {
    context_of(stream)?;
    let state = state()?;
    if state.capture(stream)?.is_some() {
        return Err(Code::STREAM_CAPTURE_UNSUPPORTED);
    }
    finish(Wanted::All)?;
    let mut bytes = [0; 8];
    let read = state.device.read(DevicePtr(address), &mut bytes[..bits as usize / 8]);
    read.map_err(|error| refused(&error))?;
    let there = u64::from_le_bytes(bytes);
    let (unused, mask) = (64 - bits, u64::MAX >> (64 - bits));
    let is_met = match flags & !condition::FLUSH {
        condition::GREATER_OR_EQUAL => (there.wrapping_sub(value) << unused) as i64 >= 0,
        condition::EQUAL => there == value,
        condition::AND => there & value != 0,
        condition::NOR => !(there | value) & mask != 0,
        _ => return Err(Code::INVALID_VALUE),
    };
    if is_met {
        return Ok(());
    }
    say("a stream waits for a value that nothing queued before it writes, which the simulator does not support");
    Err(Code::NOT_SUPPORTED)
}

/// `CUstreamBatchMemOpParams`, as all its operations have it.
#[repr(C)]
pub(crate) struct Operation {
    kind: c_uint,
    address: Pointer,
    value: u64,
    flags: c_uint,
    rest: [u64; 2],
}

/// `CUstreamBatchMemOpType`
mod operation {
    use std::ffi::c_uint;

    pub(super) const WAIT_32: c_uint = 1;
    pub(super) const WRITE_32: c_uint = 2;
    pub(super) const FLUSH: c_uint = 3;
    pub(super) const WAIT_64: c_uint = 4;
    pub(super) const WRITE_64: c_uint = 5;
    pub(super) const BARRIER: c_uint = 6;
}

impl Operation {
    fn submit(&self, stream: Handle) -> Outcome {
        let &Self { kind, address, value, flags, .. } = self;
        let word = value & u64::from(u32::MAX);
        match kind {
            operation::WAIT_32 => wait(stream, address, word, 32, flags),
            operation::WAIT_64 => wait(stream, address, value, 64, flags),
            operation::WRITE_32 => write(stream, address, word, 1),
            operation::WRITE_64 => write(stream, address, value, 2),
            operation::FLUSH | operation::BARRIER => Ok(()), // all work comes in its order
            _ => Err(Code::INVALID_VALUE),
        }
    }
}

/// The work that writes a value of one or two words.
fn write(stream: Handle, address: Pointer, value: u64, words: usize) -> Outcome {
    if !address.is_multiple_of(4 * words as u64) {
        return Err(Code::INVALID_VALUE);
    }
    let word = |at: usize| Work::Fill {
        target: address + 4 * at as u64,
        value: (value >> (32 * at)) as u32,
        element_bytes: 4,
        width: 1,
        rows: 1,
        pitch: 0,
    };
    (0..words).try_for_each(|at| submit(stream, word(at)))
}

exported! {
    fn cuStreamBatchMemOp_v2(
        stream: Handle,
        count: c_uint,
        operations: *const Operation,
        _flags: c_uint,
    ) also cuStreamBatchMemOp {
        // SAFETY: as the caller promises.
        unsafe { slice(operations, count as usize)? }.iter().try_for_each(|operation| operation.submit(stream))
    }

    fn cuStreamWaitValue32_v2(stream: Handle, address: Pointer, value: c_uint, flags: c_uint) also cuStreamWaitValue32 {
        wait(stream, address, value.into(), 32, flags)
    }

    fn cuStreamWaitValue64_v2(stream: Handle, address: Pointer, value: u64, flags: c_uint) also cuStreamWaitValue64 {
        wait(stream, address, value, 64, flags)
    }

    fn cuStreamWriteValue32_v2(stream: Handle, address: Pointer, value: c_uint, _flags: c_uint) also cuStreamWriteValue32 {
        write(stream, address, value.into(), 1)
    }

    fn cuStreamWriteValue64_v2(stream: Handle, address: Pointer, value: u64, _flags: c_uint) also cuStreamWriteValue64 {
        write(stream, address, value, 2)
    }
}

// Layouts that programs rely on, by `cuda.h` on a 64-bit machine.
const _: () = assert!(size_of::<Operation>() == 48);
