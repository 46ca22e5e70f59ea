//! Calls: frames of functions, their arguments and results.

use crate::exec::state::launch::{Launch, ROW_BYTES};
use crate::exec::state::problem::Problem;
use crate::exec::state::rows::{Row, Shape};
use crate::exec::state::warp::{Frame, Split, Warp};
use crate::fault::FaultKind;
use crate::ir::*;
use crate::lanes::lanes;
use crate::limits::Use;
use crate::memory::plural;

/// Maximum depth of nested calls.
const MAX_DEPTH: usize = 1 << 12;

/// Alignment of frames and of the sizes of their variables.
const FRAME_ALIGN: u32 = 16;

/// Host memory for a frame.
pub(crate) fn take(launch: &Launch<'_>, lanes: u32, bytes: u64) -> Result<(), Box<Problem>> {
    if bytes == 0 || launch.account.take(Use::Blocks, bytes) {
        return Ok(());
    }
    let message = launch.account.out_of_memory().map_or_else(String::new, |reached| reached.message);
    Err(Problem::new(FaultKind::MemoryLimit, lanes, message))
}

/// The first argument or result of a call that is not what the function takes or returns.
fn mismatch(call: &Call, callee: &Function) -> Option<String> {
    let name = &callee.name;
    let (args, results) = ((&call.args, &callee.params), (&call.results, &callee.returns));
    // A file may declare a result of a function that another file defines without one: linkers do not compare, and the
    // caller finds what was there before.
    let sides =
        [("argument", args, args.0.len() != args.1.len()), ("result", results, results.0.len() < results.1.len())];
    sides.into_iter().find_map(|(what, (given, declared), is_another_number)| {
        if is_another_number {
            let (given, declared) = (given.len(), declared.len());
            return Some(format!("the number of {what}s of the call is {given}, where `{name}` declares {declared}"));
        }
        let bytes = |place: &Place| u64::from(place.bytes());
        // An array without a size takes any, and so does a result that nobody wants.
        let differs = |(given, declared): (&Place, &Place)| {
            let (given, declared) = (bytes(given), bytes(declared));
            given != 0 && declared != 0 && given != declared
        };
        let at = given.iter().zip(declared).position(differs)?;
        let (given, declared) = (plural(bytes(&given[at])), plural(bytes(&declared[at])));
        Some(format!("{what} {} of the call has {given}, where `{name}` declares {declared}", at + 1))
    })
}

impl Warp {
    /// First free rows for a frame of `function`, from `rows` on, such that no lanes elsewhere have another function's
    /// registers there: a wide register holds lanes 0 to 15 in one row and the rest in the next, so two functions that share
    /// rows would write into each other's lanes. Frames of one function at one place have the same layout, and share it.
    /// Also returns the number of frames examined.
    fn free_rows(&self, mut rows: u32, function: u32, count: u32, program: &Program) -> (u32, u64) {
        let elsewhere = self.splits.iter().map(|split| (&split.frame, &split.callers));
        let joins = self.joins.iter().flatten().map(|join| (&join.frame, &join.callers));
        let frames = elsewhere.chain(joins).flat_map(|(frame, callers)| callers.iter().chain([frame]));
        let mut in_the_way: Vec<(u32, u32, u32)> = frames
            .map(|frame| (frame.rows, frame.rows + program.functions[frame.function as usize].rows, frame.function))
            .filter(|(_, end, _)| *end > rows)
            .collect();
        // In order of where they begin, so that one pass is enough: room before a frame does not come back after it.
        in_the_way.sort_unstable();
        in_the_way.dedup();
        let mut shared = 0; // the end of a frame that could be shared from its start on
        let mut at = 0;
        while let Some((start, end, other)) = in_the_way.get(at).copied().filter(|(start, ..)| *start < rows + count) {
            at += 1;
            if (other, start) == (function, rows) {
                shared = end;
            } else if rows < end {
                rows = end.max(shared);
            }
        }
        (rows, in_the_way.len() as u64)
    }

    /// Enters `function` with the lanes of `split`. Returns the cost beyond one instruction: finding room among the frames
    /// of other lanes.
    pub(crate) fn call(
        &mut self,
        launch: &Launch<'_>,
        split: &mut Split,
        function: u32,
        call: &Call,
    ) -> Result<u64, Box<Problem>> {
        let program = launch.program;
        let caller = &program.functions[split.frame.function as usize];
        let callee = &program.functions[function as usize];
        let (free, frames) = self.free_rows(split.frame.rows + caller.rows, function, callee.rows, program);
        let (end, allocated) = self.end_of_frame(launch, split.frame, split.mask);
        let frame = Frame {
            function,
            back: split.pc + 1,
            rows: free,
            predicates: split.frame.predicates + caller.predicates,
            local: (end + allocated).next_multiple_of(FRAME_ALIGN),
        };
        let rows = (frame.rows + callee.rows) as usize;
        let local = u64::from(frame.local) + u64::from(callee.local_bytes);
        if split.callers.len() >= MAX_DEPTH || rows > MAX_ROWS || local > MAX_LOCAL {
            let message = format!("`{}` is called {} deep", callee.name, split.callers.len() + 1);
            return Err(Problem::new(FaultKind::StackOverflow, split.mask, message));
        }
        if let Some(message) = mismatch(call, callee) {
            return Err(Problem::new(FaultKind::InvalidCall, split.mask, message));
        }
        if self.rows.len() < rows + 1 {
            let capacity = (rows + 1).max(2 * self.rows.capacity()).min(MAX_ROWS + 1).max(rows + 1);
            let more = capacity - self.rows.capacity().min(capacity);
            take(launch, split.mask, more as u64 * ROW_BYTES)?;
            self.rows.reserve_exact(capacity - self.rows.len());
            self.shapes.reserve_exact(capacity - self.shapes.len());
            self.rows.resize(rows + 1, Row::default());
            self.shapes.resize(rows + 1, Shape::default());
        }
        let predicates = (frame.predicates + callee.predicates) as usize;
        if self.predicates.len() < predicates {
            self.predicates.resize(predicates, 0);
        }
        take(launch, split.mask, self.local.growth(local as u32))?;
        self.local.grow(local as u32);
        self.local.forget(split.mask, frame.local, callee.local_bytes);
        self.set_constants(launch, frame, split.mask);
        for (arg, param) in call.args.iter().zip(&callee.params) {
            self.copy_place((split.frame, *arg), (frame, *param), split.mask);
        }
        split.callers.push(split.frame);
        split.frame = frame;
        split.pc = callee.start;
        Ok(frames / 64)
    }

    /// Leaves the function that `split` is in.
    pub(crate) fn ret(&mut self, launch: &Launch<'_>, split: &mut Split) {
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
