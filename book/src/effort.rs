//! Time that a page takes, by one rule: words of prose at 180 per minute, lines of code and rows of tables at 20, and for each
//! exercise ten minutes and two for each line that its solution adds.
//!
//! Folded parts and pictures are not counted. An exercise in host code is a section whose id begins with `host-exercise-`: its first
//! Rust code is the skeleton, and what is folded is the solution.

use std::ops::Add;

use assignments::exercise::Exercise;
use pulldown_cmark::{CodeBlockKind, Event, Parser, Tag, TagEnd};

use crate::{BookError, exercise, generated::Workshop, listing, outline::EXTENSIONS, read};

const WORDS_PER_MINUTE: usize = 180;
const LINES_PER_MINUTE: usize = 20;
const MINUTES_PER_EXERCISE: usize = 10;
const MINUTES_PER_LINE: usize = 2;
const HOST_EXERCISE: &str = "host-exercise-";

/// Parts of a page that take time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Effort {
    /// Words of prose.
    pub words: usize,
    /// Lines of code, and rows of tables.
    pub lines: usize,
    /// Minutes for exercises.
    pub exercises: usize,
}

impl Effort {
    /// Effort of a page with these exercises.
    ///
    /// # Errors
    /// [`BookError::Read`] for a listing's source or an exercise's solution.
    pub fn of(page: &str, markdown: &str, exercises: &[&Exercise], workshop: &Workshop) -> Result<Effort, BookError> {
        let mut effort = Effort::default();
        let (mut folds, mut in_code, mut in_row) = (0, false, false);
        // Of the exercise in host code whose section this is.
        let mut host_skeleton: Option<String> = None;
        for (event, range) in Parser::new_ext(markdown, EXTENSIONS).into_offset_iter() {
            match event {
                Event::Html(html) | Event::InlineHtml(html) => {
                    folds += html.matches("<details").count();
                    folds -= html.matches("</details").count().min(folds);
                }
                Event::Start(Tag::Heading { id, .. }) => {
                    host_skeleton = id.filter(|id| id.starts_with(HOST_EXERCISE)).map(|_| String::new());
                }
                Event::Start(Tag::CodeBlock(CodeBlockKind::Fenced(language))) if &*language == "rust" => {
                    in_code = folds == 0;
                    let code = listing::text(page, &markdown[range], workshop)?;
                    match &mut host_skeleton {
                        Some(skeleton) if folds > 0 => effort.exercises += minutes(skeleton, &code),
                        None if folds > 0 => {}
                        section => {
                            effort.lines += code.lines().count();
                            if let Some(skeleton) = section.as_mut().filter(|skeleton| skeleton.is_empty()) {
                                *skeleton = code;
                            }
                        }
                    }
                }
                _ if folds > 0 => {}
                Event::Start(Tag::CodeBlock(kind)) => {
                    in_code = true;
                    let block = &markdown[range];
                    effort.lines += match kind {
                        CodeBlockKind::Fenced(_) => listing::text(page, block, workshop)?.lines().count(),
                        CodeBlockKind::Indented => block.lines().count(),
                    };
                }
                Event::End(TagEnd::CodeBlock) => in_code = false,
                Event::Start(Tag::TableHead | Tag::TableRow) => {
                    in_row = true;
                    effort.lines += 1;
                }
                Event::End(TagEnd::TableHead | TagEnd::TableRow) => in_row = false,
                Event::Text(text) | Event::Code(text) if !in_code && !in_row => {
                    effort.words += text.split_whitespace().filter(|word| word.contains(char::is_alphanumeric)).count();
                }
                _ => {}
            }
        }
        for exercise in exercises {
            let solution = read(&exercise.file("solution.cu"))?;
            effort.exercises += minutes(exercise::skeleton(markdown, &exercise.id), &solution);
        }
        Ok(effort)
    }

    /// Minutes to read it.
    pub fn reading(&self) -> usize {
        rounded(self.words as f64 / WORDS_PER_MINUTE as f64 + self.lines as f64 / LINES_PER_MINUTE as f64)
    }

    /// Minutes to read it, and for its exercises.
    pub fn minutes(&self) -> usize {
        self.reading() + self.exercises
    }
}

impl Add for Effort {
    type Output = Effort;

    fn add(self, other: Effort) -> Effort {
        Effort {
            words: self.words + other.words,
            lines: self.lines + other.lines,
            exercises: self.exercises + other.exercises,
        }
    }
}

/// Minutes for an exercise with this beginning and end.
fn minutes(skeleton: &str, solution: &str) -> usize {
    let known: Vec<&str> = skeleton.lines().map(str::trim).collect();
    let added = solution.lines().map(str::trim).filter(|line| line.len() > 1 && !known.contains(line)).count();
    (MINUTES_PER_EXERCISE + MINUTES_PER_LINE * added).next_multiple_of(5)
}

/// A number of minutes, at least one.
fn rounded(minutes: f64) -> usize {
    (minutes.round() as usize).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_lines_and_rows_count_and_what_is_folded_does_not() {
        let page = "# Two words\n\nThree `more` words – [here too](x.md).\n\n<details><summary>No</summary>\n\nnot this\n\n\
            ```text\nnor this\n```\n\n</details>\n\n| a | b |\n| --- | --- |\n| 1 | 2 |\n\n```text\none\ntwo\n```\n\n\
            <!-- figure: x -->\n";
        let workshop = Workshop { generators: &[], workspace: ".".into(), pages: "pages".into(), made: None };
        let effort = Effort::of("page.md", page, &[], &workshop).unwrap();
        assert_eq!(effort, Effort { words: 7, lines: 4, exercises: 0 });
        assert_eq!(Effort { words: 900, lines: 100, exercises: 15 }.minutes(), 25);
    }

    #[test]
    fn an_exercise_in_host_code_is_what_its_section_says() {
        let page = "# Page\n\n### Exercise {#host-exercise-one}\n\n```rust\nfn f() {\n}\n```\n\n\
            <details><summary>A solution</summary>\n\n```rust\nfn f() {\n    a();\n    b();\n    c();\n}\n```\n\n</details>\n\n\
            ## Next\n\n<details>\n\n```rust\nfn g() {}\n```\n\n</details>\n";
        let workshop = Workshop { generators: &[], workspace: ".".into(), pages: "pages".into(), made: None };
        let effort = Effort::of("page.md", page, &[], &workshop).unwrap();
        assert_eq!(effort, Effort { words: 3, lines: 2, exercises: 20 });
    }

    #[test]
    fn an_exercise_takes_as_long_as_what_its_solution_adds_to_the_skeleton() {
        let page = "### Exercise: one {#exercise-one}\n\n```cpp\nfirst\n    // your code\n}\n```\n\n\
            ### Exercise: two {#exercise-two}\n\n```cpp\nother\n```\n";
        assert_eq!(exercise::skeleton(page, "one"), "first\n    // your code\n}");
        assert_eq!(exercise::skeleton(page, "three"), "");
        let solution = "first\n\n    a = 1;\n    b = 2;\n    c = 3;\n}\n";
        assert_eq!(minutes(exercise::skeleton(page, "one"), solution), 20);
        assert_eq!(minutes(exercise::skeleton(page, "one"), "first\n}\n"), 10);
    }
}
