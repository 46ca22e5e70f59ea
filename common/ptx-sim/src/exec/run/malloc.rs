//! `malloc` and `free` of a kernel, also called by `new` and `delete`.

use std::sync::Arc;

use super::builtin::{argument, set_result};
use super::check::whereabouts;
use super::context::Context;
use crate::exec::state::launch::HeapPlace;
use crate::exec::state::problem::Problem;
use crate::exec::watch::monitor::Monitor;
use crate::fault::FaultKind;
use crate::ir::Call;
use crate::lanes::lanes;
use crate::memory::{BadFree, Origin};

/// Cost of `malloc` or `free` for each lane, in instructions.
const COST: u64 = 16;

/// `malloc(bytes)`, and with an alignment `__cuda_syscall_aligned_malloc(bytes, align)`, for each lane in turn; 0 where the
/// heap has no room.
#[inline(never)]
pub(crate) fn malloc<M: Monitor>(context: &mut Context<'_, '_, M>, call: &Call, mask: u32) -> Result<(), Box<Problem>> {
    let launch = context.launch;
    context.block.charged += COST * u64::from(mask.count_ones());
    let HeapPlace { label, leak } = launch.heap.place(launch, context.pc);
    for lane in lanes(mask) {
        let bytes = argument(context, call, 0, lane);
        let align = if call.args.len() > 1 { argument(context, call, 1, lane) } else { 1 };
        let thread = launch.thread_index(context.warp.number * 32 + lane as u32);
        let origin = Origin { leak: Arc::clone(&leak), block: context.block.index.at, thread };
        let address = launch.heap.heap.alloc(bytes, align, &label, origin).unwrap_or(0);
        set_result(context, call, lane, address);
    }
    launch.check_time(mask)
}

/// `free(address)`, for each lane in turn.
#[inline(never)]
pub(crate) fn free<M: Monitor>(context: &mut Context<'_, '_, M>, call: &Call, mask: u32) -> Result<(), Box<Problem>> {
    context.block.charged += COST * u64::from(mask.count_ones());
    context.launch.check_time(mask)?;
    let mut addresses = [0; 32];
    let (mut freed, mut strange) = (0u32, 0u32);
    for lane in lanes(mask) {
        let address = argument(context, call, 0, lane);
        addresses[lane] = address;
        if address == 0 {
            continue;
        }
        match context.launch.heap.heap.free(address) {
            Ok(()) => {
                if let Some(sanitiser) = context.monitor.sanitiser() {
                    sanitiser.freed(context.launch, address);
                }
            }
            Err(BadFree::Freed) => freed |= 1 << lane,
            Err(BadFree::NoBlock) => strange |= 1 << lane,
        }
    }
    let problems = [
        (freed, "`free` of memory that has been freed already"),
        (strange, "`free` of an address that `malloc` did not return"),
    ];
    for (lanes, message) in problems.into_iter().filter(|(lanes, _)| *lanes != 0) {
        let address = addresses[lanes.trailing_zeros() as usize];
        let note = whereabouts(context.launch, address);
        context.report(Problem::new(FaultKind::InvalidFree, lanes, message).at(address).note(note))?;
    }
    Ok(())
}
