//! Where lanes that a branch parts come together again.
//!
//! The place is the branch's immediate post-dominator: the first instruction that every path from it to the function's
//! end goes through. A branch to a block that does nothing but leave the kernel parts nobody who would come back, so such
//! edges don't count: lanes that return early are gone at once, and nobody waits for them at a barrier.

use crate::ir::{Inst, Op};

/// No place: the lanes do not meet before the function ends.
pub(crate) const NONE: u32 = u32::MAX;

/// For each instruction of `code` that may part lanes, the index of the instruction where they meet, or [`NONE`].
/// Targets inside `code` are indices into it.
pub(crate) fn meeting_points(code: &[Inst]) -> Vec<(usize, u32)> {
    let blocks = Blocks::new(code);
    let dominators = blocks.post_dominators(code);
    let mut points = Vec::new();
    for (block, &end) in blocks.ends.iter().enumerate() {
        let last = end - 1;
        let parts = match &code[last].op {
            Op::Bra { .. } => code[last].guard.predicate().is_some(),
            Op::BrxIdx(_) => true,
            _ => false,
        };
        if parts {
            let meet = match dominators[block] {
                Some(at) if at < blocks.starts.len() && !blocks.leaves(code, at) => blocks.starts[at] as u32,
                _ => NONE,
            };
            points.push((last, meet));
        }
    }
    points
}

/// Basic blocks: `code[starts[i]..ends[i]]`.
struct Blocks {
    starts: Vec<usize>,
    ends: Vec<usize>,
    /// Block of each instruction that begins one.
    block_at: Vec<u32>,
}

fn ends_block(inst: &Inst) -> bool {
    match inst.op {
        Op::Bra { .. } | Op::BrxIdx(_) => true,
        Op::Exit | Op::Ret | Op::Trap => inst.guard.predicate().is_none(),
        _ => false,
    }
}

impl Blocks {
    fn new(code: &[Inst]) -> Self {
        let mut leader = vec![false; code.len() + 1];
        leader[0] = true;
        for (at, inst) in code.iter().enumerate() {
            match &inst.op {
                Op::Bra { target, .. } => leader[*target as usize] = true,
                Op::BrxIdx(brx) => brx.targets.iter().for_each(|target| leader[*target as usize] = true),
                _ => {}
            }
            if ends_block(inst) {
                leader[at + 1] = true;
            }
        }
        let starts: Vec<usize> = (0..code.len()).filter(|at| leader[*at]).collect();
        let ends = starts.iter().skip(1).copied().chain([code.len()]).collect();
        let mut block_at = vec![NONE; code.len() + 1];
        for (block, start) in starts.iter().enumerate() {
            block_at[*start] = block as u32;
        }
        Self { starts, ends, block_at }
    }

    /// Whether the block only leaves the kernel.
    fn leaves(&self, code: &[Inst], block: usize) -> bool {
        let first = &code[self.starts[block]];
        matches!(first.op, Op::Exit) && first.guard.predicate().is_none()
    }

    /// Blocks that may run next; `None` stands for the function's end.
    fn successors(&self, code: &[Inst], block: usize) -> Vec<Option<usize>> {
        let end = self.ends[block];
        let inst = &code[end - 1];
        let at = |index: usize| match self.block_at[index] {
            NONE => None,
            block => Some(block as usize),
        };
        let mut next = match &inst.op {
            Op::Bra { target, .. } => {
                let mut next = vec![at(*target as usize)];
                if inst.guard.predicate().is_some() {
                    next.push(at(end));
                }
                next
            }
            Op::BrxIdx(brx) => brx.targets.iter().map(|target| at(*target as usize)).collect(),
            Op::Exit | Op::Ret | Op::Trap if inst.guard.predicate().is_none() => vec![None],
            _ => vec![at(end)],
        };
        if next.len() > 1 {
            let stays = |next: &Option<usize>| next.is_none_or(|block| !self.leaves(code, block));
            if next.iter().any(stays) {
                next.retain(stays);
            }
        }
        next
    }

    /// Immediate post-dominator of each block; the number of blocks stands for the function's end. The algorithm is
    /// Cooper, Harvey and Kennedy's "A Simple, Fast Dominance Algorithm", on the reversed graph.
    fn post_dominators(&self, code: &[Inst]) -> Vec<Option<usize>> {
        let count = self.starts.len();
        let end = count;
        let successors: Vec<Vec<usize>> = (0..count)
            .map(|block| self.successors(code, block).into_iter().map(|next| next.unwrap_or(end)).collect())
            .collect();
        let mut predecessors = vec![Vec::new(); count + 1];
        for (block, next) in successors.iter().enumerate() {
            next.iter().for_each(|next| predecessors[*next].push(block));
        }
        // Post-order of the reversed graph from the end, without recursion.
        let mut order = Vec::with_capacity(count + 1);
        let mut number = vec![usize::MAX; count + 1];
        let mut seen = vec![false; count + 1];
        let mut stack = vec![(end, 0)];
        seen[end] = true;
        while let Some((block, child)) = stack.pop() {
            match predecessors[block].get(child) {
                Some(&next) => {
                    stack.push((block, child + 1));
                    if !std::mem::replace(&mut seen[next], true) {
                        stack.push((next, 0));
                    }
                }
                None => {
                    number[block] = order.len();
                    order.push(block);
                }
            }
        }
        let mut dominator = vec![None; count + 1];
        dominator[end] = Some(end);
        let mut changed = true;
        while changed {
            changed = false;
            for &block in order.iter().rev().filter(|block| **block != end) {
                let mut new: Option<usize> = None;
                for &next in &successors[block] {
                    if dominator[next].is_none() {
                        continue;
                    }
                    new = Some(match new {
                        None => next,
                        Some(mut left) => {
                            let mut right = next;
                            while left != right {
                                while number[left] < number[right] {
                                    left = dominator[left].unwrap_or(end);
                                }
                                while number[right] < number[left] {
                                    right = dominator[right].unwrap_or(end);
                                }
                            }
                            left
                        }
                    });
                }
                if new != dominator[block] {
                    dominator[block] = new;
                    changed = true;
                }
            }
        }
        dominator.truncate(count);
        dominator
    }
}
