//! Arguments and results of the functions that the simulator implements itself: `vprintf`, `malloc` …

use super::context::Context;
use crate::exec::watch::monitor::Monitor;
use crate::ir::{Call, Place};

/// A 64-bit argument of a call, in one lane.
pub(crate) fn argument<M: Monitor>(context: &mut Context<'_, '_, M>, call: &Call, at: usize, lane: usize) -> u64 {
    match call.args.get(at) {
        Some(Place::Memory((offset, bytes))) => {
            let mut raw = [0; 8];
            let from = context.frame_local() + offset;
            context.warp.local.read(lane, from, &mut raw[..(*bytes as usize).min(8)]);
            u64::from_le_bytes(raw)
        }
        Some(Place::Row { row, wide }) => context.rows().lane_of(*row, *wide, lane),
        _ => 0,
    }
}

/// Sets a call's result in one lane, as wide as its place.
pub(crate) fn set_result<M: Monitor>(context: &mut Context<'_, '_, M>, call: &Call, lane: usize, value: u64) {
    match call.results.first() {
        Some(Place::Memory((offset, bytes))) => {
            let to = context.frame_local() + offset;
            context.warp.local.write(lane, to, &value.to_le_bytes()[..(*bytes as usize).min(8)]);
        }
        Some(Place::Row { row, wide }) => context.rows().set_lane_of(*row, *wide, lane, value),
        _ => {}
    }
}
