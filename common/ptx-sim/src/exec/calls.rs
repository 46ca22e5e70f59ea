//! Calls: frames of functions, their arguments and results.

use super::launch::Launch;
use super::problem::Problem;
use super::rows::{Row, Shape};
use super::warp::{Frame, Split, Warp};
use crate::fault::FaultKind;
use crate::ir::*;
use crate::lanes::lanes;

/// Calls that may be nested.
const MAX_DEPTH: usize = 1 << 12;

impl Warp {
    /// Where the frame of `function` may begin, from `rows` on, so that no lanes elsewhere have another function's registers
    /// there: a wide register holds lanes 0 to 15 in one row and the rest in the next, so two functions that share rows
    /// would write into each other's lanes. Frames of one function at one place have the same layout, and share it.
    fn free_rows(&self, mut rows: u32, function: u32, count: u32, program: &Program) -> u32 {
        let elsewhere = self.splits.iter().map(|split| (&split.frame, &split.callers));
        let joins = self.joins.iter().flatten().map(|join| (&join.frame, &join.callers));
        let frames: Vec<Frame> =
            elsewhere.chain(joins).flat_map(|(frame, callers)| callers.iter().chain([frame]).copied()).collect();
        let in_the_way = |frame: &&Frame, rows: u32| {
            let end = frame.rows + program.functions[frame.function as usize].rows;
            frame.rows < rows + count && rows < end && (frame.function, frame.rows) != (function, rows)
        };
        while let Some(frame) = frames.iter().find(|frame| in_the_way(frame, rows)) {
            rows = frame.rows + program.functions[frame.function as usize].rows;
        }
        rows
    }

    /// Enters `function` with the lanes of `split`.
    pub(super) fn call(
        &mut self,
        launch: &Launch<'_>,
        split: &mut Split,
        function: u32,
        call: &Call,
    ) -> Result<(), Box<Problem>> {
        let program = launch.program;
        let caller = &program.functions[split.frame.function as usize];
        let callee = &program.functions[function as usize];
        let frame = Frame {
            function,
            back: split.pc + 1,
            rows: self.free_rows(split.frame.rows + caller.rows, function, callee.rows, program),
            predicates: split.frame.predicates + caller.predicates,
            local: split.frame.local + caller.local_bytes,
        };
        let rows = (frame.rows + callee.rows) as usize;
        let local = u64::from(frame.local) + u64::from(callee.local_bytes);
        if split.callers.len() >= MAX_DEPTH || rows > MAX_ROWS || local > MAX_LOCAL {
            let message = format!("`{}` is called {} deep", callee.name, split.callers.len() + 1);
            return Err(Problem::new(FaultKind::StackOverflow, split.mask, message));
        }
        if call.args.len() != callee.params.len() || call.results.len() != callee.returns.len() {
            let message = format!("`{}` is called with another number of arguments than it takes", callee.name);
            return Err(Problem::new(FaultKind::InvalidCall, split.mask, message));
        }
        if self.rows.len() < rows + 1 {
            self.rows.resize(rows + 1, Row::default());
            self.shapes.resize(rows + 1, Shape::default());
        }
        let predicates = (frame.predicates + callee.predicates) as usize;
        if self.predicates.len() < predicates {
            self.predicates.resize(predicates, 0);
        }
        self.local.grow(local as u32);
        self.local.forget(split.mask, frame.local, callee.local_bytes);
        self.set_constants(launch, frame, split.mask);
        for (arg, param) in call.args.iter().zip(&callee.params) {
            self.copy_place((split.frame, *arg), (frame, *param), split.mask);
        }
        split.callers.push(split.frame);
        split.frame = frame;
        split.pc = callee.start;
        Ok(())
    }

    /// Leaves the function that `split` is in.
    pub(super) fn ret(&mut self, launch: &Launch<'_>, split: &mut Split) {
        let Some(caller) = split.callers.pop() else { return };
        let frame = split.frame;
        let call = &launch.program.code[frame.back as usize - 1].op;
        if let Op::Call(call) = call {
            let returns = &launch.program.functions[frame.function as usize].returns;
            for (from, to) in returns.iter().zip(&call.results) {
                self.copy_place((frame, *from), (caller, *to), split.mask);
            }
        }
        split.frame = caller;
        split.pc = frame.back;
    }

    /// Copies an argument or a result from one frame to another, in the lanes of `mask`.
    fn copy_place(&mut self, from: (Frame, Place), to: (Frame, Place), mask: u32) {
        match (from.1, to.1) {
            (Place::Predicate(a), Place::Predicate(d)) => {
                let bits = self.predicates[(from.0.predicates + a) as usize];
                let to = &mut self.predicates[(to.0.predicates + d) as usize];
                *to = *to & !mask | bits & mask;
            }
            (from_place, to_place) => {
                let (from_rows, to_rows) = (self.frame_rows(from.0), self.frame_rows(to.0));
                for lane in lanes(mask) {
                    let mut bytes = [0; 8];
                    let from_slot = match from_place {
                        Place::Row { row, wide } => {
                            bytes = from_rows.lane_of(row, wide, lane).to_le_bytes();
                            None
                        }
                        Place::Memory((offset, length)) => Some((from.0.local + offset, length)),
                        Place::Predicate(_) => continue,
                    };
                    match (from_slot, to_place) {
                        (Some((from_at, length)), Place::Memory((offset, room))) => {
                            self.local.copy(lane, from_at, to.0.local + offset, length.min(room));
                        }
                        (None, Place::Memory((offset, room))) => {
                            self.local.write(lane, to.0.local + offset, &bytes[..(room as usize).min(8)]);
                        }
                        (slot, Place::Row { row, wide }) => {
                            if let Some((at, length)) = slot {
                                self.local.read(lane, at, &mut bytes[..(length as usize).min(8)]);
                            }
                            to_rows.set_lane_of(row, wide, lane, u64::from_le_bytes(bytes));
                        }
                        (_, Place::Predicate(_)) => {}
                    }
                }
            }
        }
    }
}
