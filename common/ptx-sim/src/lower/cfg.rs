//! Places where lanes that diverged at a branch reconverge.
//!
//! The place is the branch's immediate post-dominator: the first instruction that every path from it to the function's end
//! goes through. A branch to a block that does nothing but leave the kernel separates no lanes that would come back, so such
//! edges don't count: lanes that return early are gone at once, and no barrier waits for them.

use crate::ir::{Inst, Op};
use crate::limits::Allowance;

/// No place: the lanes do not reconverge before the function ends.
pub(crate) const NONE: u32 = u32::MAX;

/// For each instruction of `code` at which lanes may diverge, the index of the instruction where they reconverge, or
/// [`NONE`]. Targets inside `code` are indices into it. `lists` are those of `brx.idx`.
pub(crate) fn meeting_points(code: &[Inst], lists: &[Vec<u32>], allowance: &mut Allowance) -> Vec<(usize, u32)> {
    let blocks = Blocks::new(code, lists);
    // Bytes of a block in the vectors that follow, and of an edge.
    allowance.charge(blocks.starts.len() * 300 + lists.iter().map(|list| list.len() * 100).sum::<usize>());
    if allowance.check().is_err() {
        return Vec::new();
    }
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
            // A list is no place to meet: what follows it is.
            let mut dominator = dominators[block];
            while let Some(list) = dominator.filter(|at| (blocks.starts.len()..blocks.end()).contains(at)) {
                dominator = dominators[list];
            }
            let meet = match dominator {
                Some(at) if at < blocks.starts.len() && !blocks.leaves(code, at) => blocks.starts[at] as u32,
                _ => NONE,
            };
            points.push((last, meet));
        }
    }
    points
}

/// Basic blocks: `code[starts[i]..ends[i]]`, and after them in the graph a node for each list of `brx.idx`, which any number of
/// blocks may jump through.
struct Blocks<'l> {
    lists: &'l [Vec<u32>],
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

impl<'l> Blocks<'l> {
    fn new(code: &[Inst], lists: &'l [Vec<u32>]) -> Self {
        let mut leader = vec![false; code.len() + 1];
        leader[0] = true;
        for (at, inst) in code.iter().enumerate() {
            if let Op::Bra { target, .. } = &inst.op {
                leader[*target as usize] = true;
            }
            if ends_block(inst) {
                leader[at + 1] = true;
            }
        }
        lists.iter().flatten().for_each(|target| leader[*target as usize] = true);
        let starts: Vec<usize> = (0..code.len()).filter(|at| leader[*at]).collect();
        let ends = starts.iter().skip(1).copied().chain([code.len()]).collect();
        let mut block_at = vec![NONE; code.len() + 1];
        for (block, start) in starts.iter().enumerate() {
            block_at[*start] = block as u32;
        }
        Self { lists, starts, ends, block_at }
    }

    /// The node that stands for the function's end.
    fn end(&self) -> usize {
        self.starts.len() + self.lists.len()
    }

    /// Whether the block only leaves the kernel.
    fn leaves(&self, code: &[Inst], block: usize) -> bool {
        let Some(start) = self.starts.get(block) else { return false };
        let first = &code[*start];
        matches!(first.op, Op::Exit) && first.guard.predicate().is_none()
    }

    /// Nodes that may come next; `None` stands for the function's end.
    fn successors(&self, code: &[Inst], block: usize) -> Vec<Option<usize>> {
        let at = |index: usize| match self.block_at[index] {
            NONE => None,
            block => Some(block as usize),
        };
        if let Some(list) = block.checked_sub(self.starts.len()) {
            return self.lists[list].iter().map(|target| at(*target as usize)).collect();
        }
        let end = self.ends[block];
        let inst = &code[end - 1];
        match &inst.op {
            Op::Bra { target, .. } => {
                let mut next = vec![at(*target as usize)];
                if inst.guard.predicate().is_some() {
                    next.push(at(end));
                }
                next
            }
            Op::BrxIdx(brx) => vec![Some(self.starts.len() + brx.list as usize)],
            Op::Exit | Op::Ret | Op::Trap if inst.guard.predicate().is_none() => vec![None],
            _ => vec![at(end)],
        }
    }

    /// [`Self::successors`] of all nodes without the edges that only leave the kernel; the number of nodes stands for the
    /// function's end. A loop that ends the kernel when it ends keeps such an edge: without it, it would never end.
    fn staying(&self, code: &[Inst]) -> Vec<Vec<usize>> {
        let end = self.end();
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

    /// Immediate post-dominator of each node; the number of nodes stands for the function's end.
    fn post_dominators(&self, code: &[Inst]) -> Vec<Option<usize>> {
        let end = self.end();
        let mut successors = self.staying(code);
        let reversed = reversed(&successors);
        successors.push(Vec::new());
        let mut dominators = dominators(end, &reversed, &successors);
        dominators.truncate(end);
        dominators
    }
}

/// Immediate dominator of each node that `root` reaches: Lengauer and Tarjan, "A Fast Algorithm for Finding Dominators in a
/// Flowgraph", with simple path compression, so that the time is at most about the number of edges times its logarithm.
/// `next` are the edges, `previous` the reversed edges.
fn dominators(root: usize, next: &[Vec<usize>], previous: &[Vec<usize>]) -> Vec<Option<usize>> {
    const UNSEEN: usize = usize::MAX;
    // Nodes by number, in the order of a depth-first search, and the parent's number of each.
    let mut number = vec![UNSEEN; next.len()];
    let (mut order, mut parent) = (Vec::new(), Vec::new());
    let mut stack = vec![(root, 0)];
    while let Some((node, from)) = stack.pop() {
        if number[node] == UNSEEN {
            number[node] = order.len();
            stack.extend(next[node].iter().map(|child| (*child, order.len())));
            order.push(node);
            parent.push(from);
        }
    }
    let count = order.len();
    let mut semi: Vec<usize> = (0..count).collect();
    let mut best = semi.clone();
    let mut ancestor = vec![UNSEEN; count];
    let mut dominator = vec![0; count];
    let mut waiting = vec![Vec::new(); count];
    // The node of least `semi` on the way from `node` up to the root of its tree.
    let evaluate = |node: usize, semi: &[usize], best: &mut [usize], ancestor: &mut [usize]| {
        let mut path = Vec::new();
        let mut at = node;
        while ancestor[at] != UNSEEN && ancestor[ancestor[at]] != UNSEEN {
            path.push(at);
            at = ancestor[at];
        }
        while let Some(at) = path.pop() {
            let above = ancestor[at];
            if semi[best[above]] < semi[best[at]] {
                best[at] = best[above];
            }
            ancestor[at] = ancestor[above];
        }
        best[node]
    };
    for node in (1..count).rev() {
        for before in &previous[order[node]] {
            if number[*before] != UNSEEN {
                let found = evaluate(number[*before], &semi, &mut best, &mut ancestor);
                semi[node] = semi[node].min(semi[found]);
            }
        }
        waiting[semi[node]].push(node);
        ancestor[node] = parent[node];
        for of in std::mem::take(&mut waiting[parent[node]]) {
            let found = evaluate(of, &semi, &mut best, &mut ancestor);
            dominator[of] = if semi[found] < semi[of] { found } else { parent[node] };
        }
    }
    for node in 1..count {
        if dominator[node] != semi[node] {
            dominator[node] = dominator[dominator[node]];
        }
    }
    number.iter().map(|number| (*number != UNSEEN).then(|| order[dominator[*number]])).collect()
}

/// The graph with reversed edges; its last node, one more than the lists, is the end.
fn reversed(graph: &[Vec<usize>]) -> Vec<Vec<usize>> {
    let mut turned = vec![Vec::new(); graph.len() + 1];
    for (from, next) in graph.iter().enumerate() {
        next.iter().for_each(|to| turned[*to].push(from));
    }
    turned
}

/// Nodes reachable from `first` in post-order; without recursion.
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
