//! The stack: its limit, and `alloca`, `stacksave` and `stackrestore`, which move the end of a frame's local memory.

use super::calls::take;
use super::context::Context;
use crate::exec::state::launch::{Launch, ROW_BYTES};
use crate::exec::state::problem::Problem;
use crate::exec::state::rows::Rows;
use crate::exec::state::warp::{Frame, Split, Warp};
use crate::exec::watch::monitor::Monitor;
use crate::fault::FaultKind;
use crate::ir::*;
use crate::lanes::{each, lanes, lanes_where};

/// Reports a recursive call whose frames take more of a thread's stack than it has. Without recursion the compiler knows
/// how much that is, and the driver provides it.
#[inline]
pub(super) fn check_stack<M: Monitor>(context: &mut Context<'_, '_, M>, split: &Split) -> Result<(), Box<Problem>> {
    let bytes = split.frame.local + context.launch.program.functions[split.frame.function as usize].local_bytes;
    let limit = context.launch.stack.unwrap_or(u32::MAX);
    if bytes > context.block.counts.stack_bytes.min(limit) { too_deep(context, split, bytes, limit) } else { Ok(()) }
}

#[inline(never)]
fn too_deep<M: Monitor>(
    context: &mut Context<'_, '_, M>,
    split: &Split,
    bytes: u32,
    limit: u32,
) -> Result<(), Box<Problem>> {
    if !split.callers.iter().rev().any(|caller| caller.function == split.frame.function) {
        return Ok(());
    }
    let most = &mut context.block.counts.stack_bytes;
    *most = bytes.max(*most);
    if bytes <= limit {
        return Ok(());
    }
    let name = &context.launch.program.functions[split.frame.function as usize].name;
    let depth = split.callers.len();
    let message =
        format!("`{name}` is called {depth} deep: the frames take {bytes} bytes, and a thread's stack has {limit}");
    let mut problem = Problem::new(FaultKind::StackOverflow, split.mask, message);
    if context.launch.default_stack {
        let note = "that is the driver's default: `cudaDeviceSetLimit(cudaLimitStackSize, …)` sets it, and `--stack BYTES` here";
        problem = problem.note(note);
    }
    context.report(problem)
}

impl Warp {
    /// End of the frame's variables, and the maximum that threads of `mask` have allocated behind them.
    pub(crate) fn end_of_frame(&mut self, launch: &Launch<'_>, frame: Frame, mask: u32) -> (u32, u32) {
        let function = &launch.program.functions[frame.function as usize];
        let allocated = match function.stack {
            None => 0,
            Some(row) => {
                let allocated = self.frame_rows(frame).get(row);
                lanes(mask).map(|lane| allocated[lane]).max().unwrap_or(0)
            }
        };
        (frame.local + function.local_bytes, allocated)
    }

    /// Runs an instruction of the stack. Returns the cost beyond one instruction: looking at memory.
    pub(crate) fn stack(
        &mut self,
        launch: &Launch<'_>,
        frame: Frame,
        stack: Stack,
        mask: u32,
    ) -> Result<u64, Box<Problem>> {
        let (base, _) = self.end_of_frame(launch, frame, mask);
        let function = &launch.program.functions[frame.function as usize];
        let (Some(end), rows) = (function.stack, self.frame_rows(frame)) else { return Ok(0) };
        let allocated = rows.get(end);
        let set = |rows: Rows, d: R, values: [u32; 32]| {
            if stack.wide {
                rows.set64(d, mask, each(|lane| u64::from(values[lane])));
            } else {
                rows.set(d, mask, values);
            }
        };
        match stack.op {
            StackOp::Alloca { d, size, align } => {
                let sizes: [u64; 32] = each(|lane| rows.lane_of(size, stack.wide, lane));
                let starts: [u64; 32] =
                    each(|lane| (u64::from(base) + u64::from(allocated[lane])).next_multiple_of(align.into()));
                let ends: [u64; 32] = each(|lane| starts[lane].saturating_add(sizes[lane]));
                let too_much = lanes_where(mask, |lane| ends[lane] > MAX_LOCAL);
                if too_much != 0 {
                    let bytes = sizes[too_much.trailing_zeros() as usize];
                    let message = format!("alloca of {bytes} bytes: a thread has {MAX_LOCAL} bytes of local memory");
                    return Err(Problem::new(FaultKind::StackOverflow, too_much, message));
                }
                let all = lanes(mask).map(|lane| ends[lane]).max().unwrap_or(0) as u32;
                let more = self.local.growth(all);
                take(launch, mask, more)?;
                self.local.grow(all);
                for lane in lanes(mask) {
                    self.local.forget(1 << lane, starts[lane] as u32, sizes[lane] as u32);
                }
                rows.set(end, mask, each(|lane| (ends[lane] as u32).wrapping_sub(base)));
                set(rows, d, each(|lane| starts[lane] as u32));
                let looked_at: u64 = lanes(mask).map(|lane| sizes[lane]).sum();
                Ok((more + if launch.sanitised { looked_at } else { 0 }) / ROW_BYTES)
            }
            StackOp::Save { d } => {
                set(rows, d, each(|lane| base + allocated[lane]));
                Ok(0)
            }
            StackOp::Restore { a } => {
                let saved: [u64; 32] = each(|lane| rows.lane_of(a, stack.wide, lane).wrapping_sub(base.into()));
                let elsewhere = lanes_where(mask, |lane| saved[lane] > allocated[lane].into());
                if elsewhere != 0 {
                    let address = rows.lane_of(a, stack.wide, elsewhere.trailing_zeros() as usize);
                    let message = format!("stackrestore to {address:#x}, where the function's stack has not been");
                    return Err(Problem::new(FaultKind::OutOfBounds, elsewhere, message).at(address));
                }
                let mut freed = 0;
                for lane in lanes(mask) {
                    let (from, bytes) = (base + saved[lane] as u32, allocated[lane] - saved[lane] as u32);
                    self.local.forget(1 << lane, from, bytes);
                    freed += u64::from(bytes);
                }
                rows.set(end, mask, each(|lane| saved[lane] as u32));
                Ok(if launch.sanitised { freed / ROW_BYTES } else { 0 })
            }
        }
    }
}
