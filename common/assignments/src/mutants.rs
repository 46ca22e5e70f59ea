//! Mutants of a solution: the same text with one statement dropped, one relation or start value changed, one guard opened or one
//! barrier moved. The grader should give each less than full points; one that survives is an idea that an exercise does not ask for,
//! or no mistake, and `exercise.toml` says why.

/// A changed solution.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mutant {
    /// Rule and changed line: `drop: __syncthreads();`, with a number if a line occurs again.
    pub name: String,
    /// The whole file.
    pub text: String,
}

/// Texts that are replaced wherever they stand, one at a time, and by what.
const REPLACED: [(&str, &str); 15] = [
    (" < ", " <= "),
    (" <= ", " < "),
    (" > ", " >= "),
    (" >= ", " > "),
    (" == ", " != "),
    (" != ", " == "),
    ("-INFINITY", "0.0f"),
    (" = 0.0f", " = 1.0f"),
    (" = 0;", " = 1;"),
    (" = {}", ""),
    ("fmaxf(", "fminf("),
    ("fminf(", "fmaxf("),
    ("max(", "min("),
    ("min(", "max("),
    ("__syncwarp()", ""),
];

/// Beginnings of lines that declare something: without them nothing compiles.
const DECLARES: [&str; 14] = [
    "float",
    "int ",
    "unsigned",
    "const",
    "__shared__",
    "bool ",
    "half",
    "__half",
    "double",
    "size_t",
    "auto ",
    "extern",
    "long",
    "char",
];

/// All mutants of a solution, in the order of its lines.
pub fn all(solution: &str) -> Vec<Mutant> {
    let lines: Vec<&str> = solution.lines().collect();
    let mut mutants: Vec<Mutant> = Vec::new();
    let mut add = |rule: &str, line: &str, changed: Vec<String>| {
        let name = format!("{rule}: {}", code(line).trim());
        let again =
            mutants.iter().filter(|other| other.name == name || other.name.starts_with(&format!("{name} ("))).count();
        let name = if again == 0 { name } else { format!("{name} ({})", again + 1) };
        mutants.push(Mutant { name, text: changed.join("\n") + "\n" });
    };
    let with = |at: usize, line: &str| -> Vec<String> {
        let replaced = lines.iter().enumerate().map(|(i, other)| if i == at { line } else { other });
        replaced.map(|line| (*line).to_owned()).collect()
    };
    for (at, line) in lines.iter().enumerate() {
        let statement = code(line);
        let trimmed = statement.trim();
        if trimmed.is_empty() || trimmed.starts_with('#') || trimmed.contains("__global__") {
            continue;
        }
        let ends = trimmed.ends_with(';');
        if ends && !DECLARES.iter().any(|word| trimmed.starts_with(word)) && !trimmed.starts_with("for ") {
            add("drop", line, with(at, ""));
        }
        for (from, to) in REPLACED {
            for (place, _) in statement.match_indices(from) {
                let is_part = statement[..place].ends_with(|c: char| c.is_ascii_alphanumeric() || c == '_');
                if is_part && from.starts_with(|c: char| c.is_ascii_alphabetic()) {
                    continue;
                }
                let changed = format!("{}{to}{}", &statement[..place], &statement[place + from.len()..]);
                add(&format!("{} for {}", word(to), word(from)), line, with(at, &changed));
            }
        }
        if let Some((before, after)) = statement.split_once("if (") {
            let mut depth = 1;
            let end = after.char_indices().find(|(_, c)| {
                depth += i32::from(*c == '(') - i32::from(*c == ')');
                depth == 0
            });
            if let Some((end, _)) = end {
                add("no guard", line, with(at, &format!("{before}if (true{}", &after[end..])));
            }
        }
        if trimmed.starts_with("__syncthreads()") {
            let is_code = |i: &usize| !code(lines[*i]).trim().is_empty();
            for (rule, other) in
                [("earlier", (0..at).rev().find(is_code)), ("later", (at + 1..lines.len()).find(is_code))]
            {
                if let Some(other) = other {
                    let mut moved: Vec<String> = lines.iter().map(|line| (*line).to_owned()).collect();
                    moved.swap(at, other);
                    add(rule, line, moved);
                }
            }
        }
    }
    mutants
}

/// A replaced text in a name.
fn word(text: &str) -> &str {
    if text.is_empty() { "nothing" } else { text.trim().trim_end_matches([';', '(']) }
}

/// The line without its comment.
fn code(line: &str) -> &str {
    line.split("//").next().unwrap_or(line).trim_end()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_mutant_changes_one_thing_and_has_a_name_of_its_own() {
        let solution = "extern \"C\" __global__ void f(float *x, int n) {\n    __shared__ float s[32];\n    int i = threadIdx.x;\n    \
                        s[i] = i < n ? x[i] : 0.0f;\n    __syncthreads();  // all\n    if (i < n) {\n        x[i] = fmaxf(s[i], 1.0f);\n    \
                        }\n    __syncthreads();\n}\n";
        let mutants = all(solution);
        let names: Vec<&str> = mutants.iter().map(|mutant| mutant.name.as_str()).collect();
        assert_eq!(
            names,
            [
                "drop: s[i] = i < n ? x[i] : 0.0f;",
                "<= for <: s[i] = i < n ? x[i] : 0.0f;",
                "drop: __syncthreads();",
                "earlier: __syncthreads();",
                "later: __syncthreads();",
                "<= for <: if (i < n) {",
                "no guard: if (i < n) {",
                "drop: x[i] = fmaxf(s[i], 1.0f);",
                "fminf for fmaxf: x[i] = fmaxf(s[i], 1.0f);",
                "drop: __syncthreads(); (2)",
                "earlier: __syncthreads(); (2)",
                "later: __syncthreads(); (2)",
            ]
        );
        assert!(mutants.iter().all(|mutant| mutant.text != solution));
        assert!(
            mutants[6].text.contains("    if (true) {\n")
                && mutants[4].text.contains("if (i < n) {\n    __syncthreads();  // all\n")
        );
    }
}
