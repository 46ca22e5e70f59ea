//! `malloc` and `free` of a kernel, which `new` and `delete` are too.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Arc, Mutex};

use super::builtin::{argument, set_result};
use super::lanes::lanes;
use super::warp::Context;
use super::{Launch, Monitor, Problem, access, lock};
use crate::fault::{Fault, FaultKind};
use crate::heap::{BadFree, Heap};
use crate::ir::Call;
use crate::memory::{Allocation, Origin};

/// The device's heap as a launch uses it.
pub(crate) struct LaunchHeap<'a> {
    pub heap: &'a Heap,
    /// The instructions that blocks come from.
    places: Mutex<HashMap<usize, Place>>,
}

#[derive(Clone)]
struct Place {
    /// What diagnostics call its blocks.
    label: Arc<str>,
    /// The finding that one becomes if nobody frees it.
    leak: Arc<Fault>,
}

impl<'a> LaunchHeap<'a> {
    pub(crate) fn new(heap: &'a Heap) -> Self {
        Self { heap, places: Mutex::default() }
    }

    /// The live block that holds `address`.
    #[cold]
    #[inline(never)]
    pub(super) fn find(&self, address: u64) -> Option<Arc<Allocation>> {
        self.heap.live_block(address)
    }

    fn place(&self, launch: &Launch<'_>, pc: usize) -> Place {
        let mut places = lock(&self.places);
        let place = match places.entry(pc) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => {
                let leak = launch.fault(*Problem::new(FaultKind::Leak, 1, ""), pc, [0; 3], 0);
                let (file, line) = leak.place();
                new.insert(Place { label: format!("malloc at {file}:{line}").into(), leak: Arc::new(leak) })
            }
        };
        place.clone()
    }
}

/// `malloc(bytes)`, and with an alignment `__cuda_syscall_aligned_malloc(bytes, align)`, for each lane in turn; 0 where the
/// heap has no room.
#[inline(never)]
pub(crate) fn malloc<M: Monitor>(context: &mut Context<'_, '_, M>, call: &Call, mask: u32) {
    let launch = context.launch;
    let Place { label, leak } = launch.heap.place(launch, context.pc);
    for lane in lanes(mask) {
        let bytes = argument(context, call, 0, lane);
        let align = if call.args.len() > 1 { argument(context, call, 1, lane) } else { 1 };
        let thread = launch.thread_index(context.warp.number * 32 + lane as u32);
        let origin = Origin { leak: Arc::clone(&leak), block: context.block.index, thread };
        let address = launch.heap.heap.alloc(bytes, align, &label, origin).unwrap_or(0);
        set_result(context, call, lane, address);
    }
}

/// `free(address)`, for each lane in turn.
#[inline(never)]
pub(crate) fn free<M: Monitor>(context: &mut Context<'_, '_, M>, call: &Call, mask: u32) -> Result<(), Box<Problem>> {
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
                    sanitiser.freed(address);
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
        let note = access::whereabouts(context.launch, address);
        context.report(Problem::new(FaultKind::InvalidFree, lanes, message).at(address).note(note))?;
    }
    Ok(())
}
