//! From a failing program to a small one that fails in the same way: delta debugging on the tree.

use crate::random_programs::tree::{Program, Stmt, size};

/// The smallest program found for which `fails` still holds; it must hold for `program`.
pub(super) fn shrink(program: Program, fails: &mut dyn FnMut(&Program) -> bool) -> Program {
    let mut best = program;
    loop {
        let before = weight(&best);
        for (grid, block) in [([1, 1], best.block), (best.grid, [32, 1]), (best.grid, [2, 1]), (best.grid, [1, 1])] {
            let candidate = Program { grid, block, ..best.clone() };
            attempt(&mut best, candidate, fails);
        }
        remove_ranges(&mut best, statements, without_statements, fails);
        unwrap(&mut best, fails);
        let candidate = Program { checksums: false, ..best.clone() };
        attempt(&mut best, candidate, fails);
        remove_ranges(&mut best, |program| program.outputs.len(), without_outputs, fails);
        if weight(&best) == before {
            break;
        }
    }
    remove_ranges(&mut best, |program| program.input.len() / 32, without_input, fails);
    best
}

/// The size that each round must reduce.
fn weight(program: &Program) -> [usize; 5] {
    let input = program.input.iter().filter(|byte| **byte != 0).count();
    let checksums = usize::from(program.checksums);
    [program.threads() as usize, program.size(), checksums, program.outputs.len(), input]
}

fn attempt(best: &mut Program, candidate: Program, fails: &mut dyn FnMut(&Program) -> bool) -> bool {
    let smaller = weight(&candidate) < weight(best) && fails(&candidate);
    if smaller {
        *best = candidate;
    }
    smaller
}

/// Removes ranges of the things that `count` counts: halves first, single ones last.
fn remove_ranges(
    best: &mut Program,
    count: impl Fn(&Program) -> usize,
    without: impl Fn(&Program, std::ops::Range<usize>) -> Program,
    fails: &mut dyn FnMut(&Program) -> bool,
) {
    let mut length = count(best);
    while length > 0 {
        // From the end, so that removals do not shift what is still to be tried.
        let mut end = count(best);
        while end > 0 {
            let start = end.saturating_sub(length);
            attempt(best, without(best, start..end), fails);
            end = start.min(count(best));
        }
        length /= 2;
    }
}

fn without_outputs(program: &Program, range: std::ops::Range<usize>) -> Program {
    let mut smaller = program.clone();
    smaller.outputs.drain(range);
    smaller
}

/// The program with zeros for pieces of 32 bytes of the input.
fn without_input(program: &Program, range: std::ops::Range<usize>) -> Program {
    let mut smaller = program.clone();
    smaller.input[32 * range.start..32 * range.end].fill(0);
    smaller
}

/// The program without the statements whose numbers, counted in order of the text, are in `range`, including nested
/// ones.
fn without_statements(program: &Program, range: std::ops::Range<usize>) -> Program {
    fn filter(block: &mut Vec<Stmt>, next: &mut usize, range: &std::ops::Range<usize>) {
        block.retain_mut(|stmt| {
            if range.contains(next) {
                *next += stmt.size();
                return false;
            }
            *next += 1;
            stmt.blocks_mut().into_iter().for_each(|block| filter(block, next, range));
            true
        });
    }
    let mut smaller = program.clone();
    let mut next = 0;
    blocks_of(&mut smaller).into_iter().for_each(|block| filter(block, &mut next, &range));
    smaller
}

/// Number of statements reached by [`blocks_of`].
fn statements(program: &Program) -> usize {
    size(&program.body) + program.functions.iter().map(|body| size(body)).sum::<usize>()
}

fn blocks_of(program: &mut Program) -> Vec<&mut Vec<Stmt>> {
    program.functions.iter_mut().chain([&mut program.body]).collect()
}

/// Replaces a branch, loop, switch or function by its contents.
fn unwrap(best: &mut Program, fails: &mut dyn FnMut(&Program) -> bool) {
    let mut number = 0;
    while number < statements(best) {
        let mut candidate = best.clone();
        let mut next = 0;
        let functions = &best.functions;
        let found = blocks_of(&mut candidate).into_iter().any(|block| unwrap_in(block, functions, &mut next, number));
        // If it is smaller, another statement has this number now.
        if !(found && attempt(best, candidate, fails)) {
            number += 1;
        }
    }
}

fn unwrap_in(block: &mut Vec<Stmt>, functions: &[Vec<Stmt>], next: &mut usize, number: usize) -> bool {
    for at in 0..block.len() {
        if *next == number {
            let inside: Vec<Stmt> = match &block[at] {
                Stmt::Call { function, .. } => functions[*function].clone(),
                stmt => stmt.blocks().into_iter().flatten().cloned().collect(),
            };
            // A `break` out of this loop would become one out of the enclosing loop.
            let inside = inside.into_iter().filter(|stmt| !matches!(stmt, Stmt::Leave(_)));
            let compound = !matches!(block[at], Stmt::Unit(_) | Stmt::Leave(_));
            *next += 1;
            if compound {
                block.splice(at..=at, inside);
            }
            return compound;
        }
        *next += 1;
        for inner in block[at].blocks_mut() {
            let past = *next + size(inner);
            if number < past {
                return unwrap_in(inner, functions, next, number);
            }
            *next = past;
        }
    }
    false
}
