//! Finds the commands that a page tells its readers to type, and the parts of their output that it shows.

use std::time::Duration;

use crate::generated;

/// A command on a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Typed {
    /// The page, relative to the pages' folder, or the README.
    pub page: String,
    /// 1-based line of the command, or of the first of its lines.
    pub line: usize,
    /// The command in one line, without its comment.
    pub text: String,
    /// Time that its comment states.
    pub takes: Option<Duration>,
    /// Parts of its output that the page shows.
    pub shown: Vec<Shown>,
    /// Whether the build makes the shown parts.
    pub is_generated: bool,
}

/// Output of a command shown on a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Shown {
    /// Lines, each of which must be in the output.
    Lines(Vec<String>),
    /// A table counted on the simulator: its name, and the cells of the rows shown.
    Table(String, Vec<Vec<String>>),
}

/// Languages of code blocks that hold commands.
const SHELL: [&str; 2] = ["sh", "console"];
/// Prompt before a command in a block that shows its output too.
const PROMPT: &str = "$ ";
/// Start of a command within a sentence.
const WITHIN: &str = "`cargo ";

/// The commands of a page in order: of shell blocks, of text blocks that begin with a prompt, and `cargo …` in sentences.
/// Generated parts are left out: the build runs and compares them.
pub fn commands(page: &str, markdown: &str) -> Vec<Typed> {
    let lines: Vec<&str> = markdown.lines().collect();
    let generated = generated::regions(markdown).unwrap_or_default();
    let offsets: Vec<usize> =
        markdown.split_inclusive('\n').scan(0, |at, line| Some(std::mem::replace(at, *at + line.len()))).collect();
    let is_generated =
        |line: usize| generated.iter().any(|region| !region.is_inline() && region.body.contains(&offsets[line]));
    let mut found = Vec::new();
    let mut at = 0;
    while at < lines.len() {
        let text = lines[at].trim();
        let Some(language) = text.strip_prefix("```") else {
            if !is_generated(at) {
                within(page, at + 1, text, &mut found);
            }
            at += 1;
            continue;
        };
        let length = lines[at + 1..].iter().take_while(|line| !line.trim().starts_with("```")).count();
        let block = &lines[at + 1..at + 1 + length];
        let end = at + length + 2;
        if !is_generated(at) {
            if SHELL.contains(&language.trim()) {
                let first = found.len();
                of_block(page, at + 2, block, &mut found);
                follow(&lines, end, &mut found[first..]);
            } else if let Some(command) = block.first().and_then(|line| line.trim().strip_prefix(PROMPT)) {
                let mut typed = one(page, at + 2, command);
                typed.shown.push(Shown::Lines(block[1..].iter().map(|line| line.trim().to_owned()).collect()));
                found.push(typed);
            }
        }
        at = end;
    }
    found
}

/// The commands in a sentence's code, without placeholders such as `…`.
fn within(page: &str, line: usize, text: &str, found: &mut Vec<Typed>) {
    let mut rest = text;
    while let Some(begin) = rest.find(WITHIN) {
        rest = &rest[begin + 1..];
        let Some(end) = rest.find('`') else { return };
        found.push(one(page, line, &rest[..end]));
        rest = &rest[end + 1..];
    }
}

/// The commands of a shell block whose first line is `line`; a line that ends in a backslash continues in the next.
fn of_block(page: &str, line: usize, block: &[&str], found: &mut Vec<Typed>) {
    let mut begun: Option<(usize, String)> = None;
    for (at, text) in (line..).zip(block) {
        let text = text.trim();
        let (first, mut command) = begun.take().unwrap_or((at, String::new()));
        match text.strip_suffix('\\') {
            Some(part) => {
                command.push_str(part.trim_end());
                command.push(' ');
                begun = Some((first, command));
            }
            None => {
                command.push_str(text);
                if !command.is_empty() && !command.starts_with('#') {
                    found.push(one(page, first, &command));
                }
            }
        }
    }
}

fn one(page: &str, line: usize, command: &str) -> Typed {
    let (text, comment) = command.split_once(" # ").unwrap_or((command, ""));
    let (page, text) = (page.to_owned(), text.trim().to_owned());
    Typed { page, line, text, takes: duration(comment), shown: Vec::new(), is_generated: false }
}

/// Gives each command the tables of the simulator that its section shows, up to the next block of commands or heading.
fn follow(lines: &[&str], from: usize, commands: &mut [Typed]) {
    let is_end = |line: &&&str| {
        line.starts_with('#') || SHELL.iter().any(|shell| line.trim().strip_prefix("```") == Some(*shell))
    };
    let section: Vec<&str> =
        lines.get(from..).unwrap_or_default().iter().take_while(|line| !is_end(line)).copied().collect();
    let mut at = 0;
    while at < section.len() {
        let named = generated::begun(section[at]).and_then(|begun| begun.strip_prefix("record "));
        at += 1;
        let Some(name) = named.and_then(|named| named.split_whitespace().next()) else { continue };
        let Some((package, table)) = name.strip_suffix("@sim").and_then(|name| name.split_once('/')) else { continue };
        let body = section[at..].iter().take_while(|line| !line.starts_with("<!-- END"));
        // The head and the line below it are no rows.
        let rows: Vec<Vec<String>> =
            body.filter(|line| line.starts_with('|')).skip(2).map(|line| cells(line)).collect();
        let asked = format!(" -p {package} ");
        for command in commands.iter_mut().filter(|command| format!("{} ", command.text).contains(&asked)) {
            command.is_generated = true;
            if !rows.is_empty() {
                command.shown.push(Shown::Table(table.to_owned(), rows.clone()));
            }
        }
    }
}

/// The cells of a line of a Markdown table.
pub fn cells(line: &str) -> Vec<String> {
    let inner = line.trim().trim_start_matches('|').trim_end_matches('|').replace("\\|", "\u{1}");
    inner.split('|').map(|cell| cell.trim().replace('\u{1}', "|")).collect()
}

/// Time that a comment states: `two minutes`, `90 seconds`.
fn duration(comment: &str) -> Option<Duration> {
    const NUMBERS: [&str; 11] = ["no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"];
    let words: Vec<&str> = comment.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()).collect();
    words.windows(2).find_map(|pair| {
        let unit = match pair[1] {
            "second" | "seconds" => 1,
            "minute" | "minutes" => 60,
            _ => return None,
        };
        let spelt = || NUMBERS.iter().position(|number| *number == pair[0]).map(|number| number as u64);
        let number = if pair[0] == "a" { Some(1) } else { pair[0].parse().ok().or_else(spelt) };
        number.map(|number| Duration::from_secs(number * unit))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "\
Run `cargo run -p a` or `cargo run -p b -- x`, then `ls`.

```sh
cargo run -p a -- one --device sim   # counts, in two minutes
ptx-sim run \\
    k.ptx        # a kernel
# a remark

cargo run -p other
```

<!-- BEGIN generated: record a/one@sim columns \"n\" -->
<figure class=\"record\">

| n | what \\| why |
| ---: | --- |
| 1 | x \\| y |

</figure>
<!-- END generated: record -->

```text
$ cargo run -p a -- fails
error: so it says
```

<!-- BEGIN generated: ptx-sim run x -->
```text
$ ptx-sim run x
1
```
<!-- END generated: ptx-sim -->

## Later

<!-- BEGIN generated: record a/two@sim -->
| m |
| --- |
| 2 |
<!-- END generated: record -->
";

    #[test]
    fn commands_are_found_with_what_is_shown_of_them() {
        let found = commands("page.md", PAGE);
        let texts: Vec<(usize, &str)> = found.iter().map(|typed| (typed.line, typed.text.as_str())).collect();
        let expected = [
            (1, "cargo run -p a"),
            (1, "cargo run -p b -- x"),
            (4, "cargo run -p a -- one --device sim"),
            (5, "ptx-sim run k.ptx"),
            (9, "cargo run -p other"),
            (23, "cargo run -p a -- fails"),
        ];
        assert_eq!(texts, expected);
        let row = vec!["1".to_owned(), "x | y".to_owned()];
        assert_eq!(found[2].shown, [Shown::Table("one".into(), vec![row])]);
        assert!(found[2].is_generated && !found[4].is_generated);
        assert_eq!(found[2].takes, Some(Duration::from_secs(120)));
        assert_eq!(found[5].shown, [Shown::Lines(vec!["error: so it says".into()])]);
        assert!([0, 1, 3, 4].iter().all(|at| found[*at].shown.is_empty()));
    }

    #[test]
    fn a_comment_says_how_long_something_takes() {
        let seconds = |comment: &str| duration(comment).map(|time| time.as_secs());
        assert_eq!(seconds("all of them: about 3 minutes"), Some(180));
        assert_eq!(seconds("counts; a minute"), Some(60));
        assert_eq!(seconds("ninety seconds"), None);
        assert_eq!(seconds("two of them"), None);
    }
}
