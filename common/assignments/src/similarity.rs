//! Likeness of hand-ins to each other and to the solution: a hint at whom to talk to, never points.
//!
//! Compared is what a person added to the file that was handed out, as tokens: comments, white space and the names of variables do
//! not count. Short additions are all alike, so they are left out.

use std::collections::HashMap;
use std::fmt;

use rayon::prelude::*;
use serde::Serialize;
use similar::{Algorithm, DiffOp, capture_diff_slices, get_diff_ratio};

/// Minimum number of added tokens: some six lines.
const MIN_TOKENS: usize = 60;
/// Minimum likeness that is told, from 0 to 1.
const MIN_LIKENESS: f32 = 0.8;

/// A hand-in that is like another one.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Likeness {
    /// The exercise.
    pub exercise: String,
    /// The other person, or `solution`.
    pub to: String,
    /// Share of the added tokens that both have, in the same order, in per cent.
    pub percent: u32,
}

impl fmt::Display for Likeness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} % {}: {}", self.percent, self.to, self.exercise)
    }
}

/// Hand-ins to one exercise.
pub(crate) struct HandIns<'a> {
    /// Id of the exercise.
    pub(crate) exercise: &'a str,
    /// File that was handed out, if it is known.
    pub(crate) skeleton: Option<&'a str>,
    /// Solution, if it is there.
    pub(crate) solution: Option<String>,
    /// Each person's place in the class, and text.
    pub(crate) texts: Vec<(usize, &'a str)>,
}

/// Likenesses of each of these people's hand-ins, the strongest first.
pub(crate) fn likenesses(names: &[&str], exercises: &[HandIns<'_>]) -> Vec<Vec<Likeness>> {
    let mut all: Vec<Vec<Likeness>> = vec![Vec::new(); names.len()];
    for (exercise, pairs) in exercises.iter().zip(exercises.par_iter().map(HandIns::pairs).collect::<Vec<_>>()) {
        for (person, other, likeness) in pairs {
            let to = other.map_or("solution", |other| names[other]).to_owned();
            let percent = (100.0 * likeness) as u32;
            all[person].push(Likeness { exercise: exercise.exercise.to_owned(), to, percent });
            if let Some(other) = other {
                let to = names[person].to_owned();
                all[other].push(Likeness { exercise: exercise.exercise.to_owned(), to, percent });
            }
        }
    }
    all.iter_mut().for_each(|likenesses| likenesses.sort_by_key(|likeness| std::cmp::Reverse(likeness.percent)));
    all
}

impl HandIns<'_> {
    /// Pairs that are alike: a person, another or the solution, and how much.
    fn pairs(&self) -> Vec<(usize, Option<usize>, f32)> {
        let mut numbers = HashMap::new();
        let skeleton = numbered(&mut numbers, self.skeleton.unwrap_or_default());
        let mut added = |text: &str| Added::new(&skeleton, numbered(&mut numbers, text));
        let solution = self.solution.as_deref().and_then(&mut added);
        let people: Vec<(usize, Added)> =
            self.texts.iter().filter_map(|&(person, text)| Some((person, added(text)?))).collect();
        let pairs = people.par_iter().enumerate().flat_map_iter(|(at, (person, own))| {
            let to_solution = solution.iter().map(|solution| (None, own.likeness(solution)));
            let others = people[at + 1..].iter().map(|(other, theirs)| (Some(*other), own.likeness(theirs)));
            to_solution.chain(others).map(|(other, likeness)| (*person, other, likeness))
        });
        pairs.filter(|&(_, _, likeness)| likeness >= MIN_LIKENESS).collect()
    }
}

/// Tokens that a person added.
struct Added {
    tokens: Vec<u32>,
    /// The same, in ascending order.
    sorted: Vec<u32>,
}

impl Added {
    /// `None` if there are too few of them.
    fn new(skeleton: &[u32], text: Vec<u32>) -> Option<Added> {
        let changes = capture_diff_slices(Algorithm::Myers, skeleton, &text);
        let new = changes.iter().filter(|change| !matches!(change, DiffOp::Equal { .. }));
        let tokens: Vec<u32> = new.flat_map(|change| text[change.new_range()].iter().copied()).collect();
        let mut sorted = tokens.clone();
        sorted.sort_unstable();
        (tokens.len() >= MIN_TOKENS).then_some(Added { tokens, sorted })
    }

    /// Share of tokens that both have in the same order; 0 if it is certain to be too small to be told.
    fn likeness(&self, other: &Added) -> f32 {
        let all = (self.tokens.len() + other.tokens.len()) as f32;
        // In any order, which is no less and soon counted.
        if 2.0 * (common(&self.sorted, &other.sorted) as f32) < MIN_LIKENESS * all {
            return 0.0;
        }
        let changes = capture_diff_slices(Algorithm::Myers, &self.tokens, &other.tokens);
        get_diff_ratio(&changes, self.tokens.len(), other.tokens.len())
    }
}

/// Number of elements that two ascending lists have in common.
fn common(a: &[u32], b: &[u32]) -> usize {
    let (mut i, mut j, mut count) = (0, 0, 0);
    while let (Some(x), Some(y)) = (a.get(i), b.get(j)) {
        count += usize::from(x == y);
        i += usize::from(x <= y);
        j += usize::from(y <= x);
    }
    count
}

/// Tokens of a text, each as a number of its own.
fn numbered<'a>(numbers: &mut HashMap<String, u32>, text: &'a str) -> Vec<u32> {
    let mut number = |token: &'a str| {
        let next = numbers.len() as u32;
        *numbers.entry(token.to_owned()).or_insert(next)
    };
    tokens(text).into_iter().map(&mut number).collect()
}

/// Tokens of CUDA C without comments. A name that is called, a member or CUDA's own stays; the others all become `name`.
fn tokens(text: &str) -> Vec<&str> {
    const KEPT: [&str; 30] = [
        "blockDim",
        "blockIdx",
        "bool",
        "break",
        "char",
        "const",
        "continue",
        "do",
        "double",
        "else",
        "false",
        "float",
        "for",
        "goto",
        "gridDim",
        "half",
        "if",
        "int",
        "long",
        "return",
        "short",
        "sizeof",
        "static",
        "struct",
        "threadIdx",
        "true",
        "unsigned",
        "void",
        "volatile",
        "while",
    ];
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let mut tokens: Vec<&str> = Vec::new();
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        let end = |end: &str| rest.find(end).map_or(rest.len(), |at| at + end.len());
        let length = match () {
            () if rest.starts_with("//") => end("\n"),
            () if rest.starts_with("/*") => end("*/"),
            () if is_word(first) => rest.find(|c| !is_word(c)).unwrap_or(rest.len()),
            () => first.len_utf8(),
        };
        let (token, after) = rest.split_at(length);
        rest = after.trim_start();
        let is_comment = token.starts_with("//") || token.starts_with("/*");
        let is_variable = is_word(first)
            && !first.is_ascii_digit()
            && !rest.starts_with('(')
            && !token.starts_with("__")
            && tokens.last() != Some(&".")
            && !KEPT.contains(&token);
        if !is_comment {
            tokens.push(if is_variable { "name" } else { token });
        }
    }
    tokens
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_know_no_comments_and_no_names_of_variables() {
        let text = "// a\nfloat x = __shfl_down_sync(0xffffffff, y, 1); /* b\n */ x += a[threadIdx.x]; // end";
        let expected = "float name = __shfl_down_sync ( 0xffffffff , name , 1 ) ; name + = name [ threadIdx . x ] ;";
        assert_eq!(tokens(text).join(" "), expected);
        assert_eq!(tokens("/* never closed"), [""; 0]);
    }

    #[test]
    fn copies_with_other_names_are_found_and_what_was_handed_out_counts_for_nobody() {
        let skeleton = "__global__ void f(float *y, unsigned n) {\n    // TODO\n}\n".repeat(20);
        let sum = "for (int i = 0; i < n; i++) { sum += x[i] * x[i]; if (i % 32 == lane) y[i] = sqrtf(sum) / float(n); } \
                   y[n - 1] = __shfl_sync(0xffffffff, sum, 0);";
        let other = "int k = n; while (k > 0) { k = k - 1; float v = x[k]; total = total + v * v; __syncwarp(); \
                     y[k] = rsqrtf(total); } if (lane == 0) { atomicAdd(&y[0], total); }";
        let answer = |text: &str| skeleton.replacen("// TODO", text, 1);
        let texts = [
            answer(sum),
            answer(&sum.replace('i', "j").replace("jf", "if").replace("jnt", "int").replace("lane", "l /* mine */")),
            answer(other),
            answer("y[0] = 1;"),
            answer("y[0] = 1;"),
        ];
        let texts = texts.iter().enumerate().map(|(person, text)| (person, text.as_str())).collect();
        let hand_ins = HandIns { exercise: "f", skeleton: Some(&skeleton), solution: Some(answer(other)), texts };
        let found = likenesses(&["ann", "ben", "cem", "dan", "eva"], &[hand_ins]);
        let of = |to: &str| vec![Likeness { exercise: "f".into(), to: to.into(), percent: 100 }];
        assert_eq!(found, [of("ben"), of("ann"), of("solution"), vec![], vec![]]);
    }
}
