//! Where lanes that a branch parts come together again.
//!
//! The place is the branch's immediate post-dominator: the first instruction that every path from it to the function's
//! end goes through. A branch to a block that does nothing but leave the kernel parts no lanes that would come back, so such
//! edges don't count: lanes that return early are gone at once, and no barrier waits for them.

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
        match &inst.op {
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
        }
    }

    /// [`Self::successors`] of all blocks without the edges that only leave the kernel; the number of blocks stands for the
    /// function's end. A loop that ends the kernel when it ends keeps such an edge: without it, it would never end.
    fn staying(&self, code: &[Inst]) -> Vec<Vec<usize>> {
        let end = self.starts.len();
        let all: Vec<Vec<usize>> = (0..end)
            .map(|block| self.successors(code, block).into_iter().map(|next| next.unwrap_or(end)).collect())
            .collect();
        let mut kept = all.clone();
        for next in kept.iter_mut().filter(|next| next.len() > 1) {
            let stays = |block: &usize| *block == end || !self.leaves(code, *block);
            if next.iter().any(stays) {
                next.retain(stays);
            }
        }
        let predecessors = reversed(&kept);
        let mut ends = vec![false; end + 1];
        let mark = |block: usize, ends: &mut Vec<bool>| {
            let mut stack = vec![block];
            while let Some(block) = stack.pop() {
                if !std::mem::replace(&mut ends[block], true) {
                    stack.extend(&predecessors[block]);
                }
            }
        };
        mark(end, &mut ends);
        // Blocks deep in the graph come first, so that a loop's own edge is put back and not one before the loop.
        for block in post_order(0, &kept) {
            if !ends[block] && kept[block].len() < all[block].len() {
                kept[block].clone_from(&all[block]);
                mark(block, &mut ends);
            }
        }
        kept
    }

    /// Immediate post-dominator of each block; the number of blocks stands for the function's end. The algorithm is
    /// Cooper, Harvey and Kennedy's "A Simple, Fast Dominance Algorithm", on the reversed graph.
    fn post_dominators(&self, code: &[Inst]) -> Vec<Option<usize>> {
        let count = self.starts.len();
        let end = count;
        let successors = self.staying(code);
        let order = post_order(end, &reversed(&successors));
        let mut number = vec![usize::MAX; count + 1];
        for (at, block) in order.iter().enumerate() {
            number[*block] = at;
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

/// The graph with its edges turned round; one node more than it has lists stands for the end.
fn reversed(graph: &[Vec<usize>]) -> Vec<Vec<usize>> {
    let mut turned = vec![Vec::new(); graph.len() + 1];
    for (from, next) in graph.iter().enumerate() {
        next.iter().for_each(|to| turned[*to].push(from));
    }
    turned
}

/// Nodes that `first` reaches, each after those it leads to; without recursion.
fn post_order(first: usize, graph: &[Vec<usize>]) -> Vec<usize> {
    let mut order = Vec::new();
    let mut seen = vec![false; graph.len() + 1];
    let mut stack = vec![(first, 0)];
    seen[first] = true;
    while let Some((node, child)) = stack.pop() {
        match graph.get(node).and_then(|next| next.get(child)) {
            Some(&next) => {
                stack.push((node, child + 1));
                if !std::mem::replace(&mut seen[next], true) {
                    stack.push((next, 0));
                }
            }
            None => order.push(node),
        }
    }
    order
}
