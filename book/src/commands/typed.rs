//! Finds the commands that a page tells its readers to type, and the parts of their output that it shows.

use std::{ops::Range, time::Duration};

use crate::generated;

/// A command on a page.
#[derive(Clone, Debug)]
pub struct Typed {
    /// The page, relative to the pages' folder, or the README.
    pub page: String,
    /// 1-based line of the command, or of the first of its lines.
    pub line: usize,
    /// The command in one line, without its comment.
    pub text: String,
    /// Time that its comment states.
    pub takes: Option<Duration>,
    /// Parts of its output that pages show, with their places.
    pub shown: Vec<(String, Shown)>,
}

/// Output of a command shown on a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Shown {
    /// Lines, each of which must be in the output.
    Lines(Vec<String>),
    /// A table counted on the simulator: its name, and the cells of the rows shown.
    Table(String, Vec<Vec<String>>),
}

/// Start and end of a code block.
const FENCE: &str = "```";
/// Languages of code blocks that hold commands.
const SHELL: [&str; 2] = ["sh", "console"];

/// The commands of a page in order: of shell blocks, of text blocks that begin with a prompt, and `cargo …` in sentences.
/// Generated parts are left out: the build makes them.
pub fn commands(page: &str, markdown: &str) -> Vec<Typed> {
    let regions = generated::regions(markdown).unwrap_or_default();
    let in_lines = regions.iter().filter(|region| !region.is_inline());
    let bodies: Vec<Range<usize>> = in_lines
        .map(|region| region.line + 1..region.line + 1 + markdown[region.body.clone()].lines().count())
        .collect();
    let all = (1..).zip(markdown.lines().map(str::trim));
    let mut lines = all.filter(|(line, _)| !bodies.iter().any(|body| body.contains(line)));
    let mut found = Vec::new();
    // Those of the section's last shell block.
    let mut last = 0..0;
    while let Some((line, text)) = lines.next() {
        if let Some(language) = text.strip_prefix(FENCE) {
            let block: Vec<(usize, &str)> = lines.by_ref().take_while(|(_, text)| !text.starts_with(FENCE)).collect();
            if SHELL.contains(&language.trim()) {
                let begin = found.len();
                found.extend(of_block(page, &block));
                last = begin..found.len();
            } else if let Some((line, command)) =
                block.first().and_then(|(n, text)| Some((*n, text.strip_prefix("$ ")?)))
            {
                let shown = Shown::Lines(block[1..].iter().map(|(_, text)| (*text).to_owned()).collect());
                let typed = one(page, line, command);
                found.push(Typed { shown: vec![(format!("{page}:{line}"), shown)], ..typed });
            }
        } else if text.starts_with('#') {
            last = 0..0;
        } else if let Some(region) = regions.iter().find(|region| region.line == line && region.name == "record") {
            show(&mut found[last.clone()], region.argument, &markdown[region.body.clone()]);
        } else {
            let mut rest = text;
            while let Some((arguments, after)) = rest.split_once("`cargo ").and_then(|(_, rest)| rest.split_once('`')) {
                found.push(one(page, line, &format!("cargo {arguments}")));
                rest = after;
            }
        }
    }
    found
}

/// The commands of a shell block; a line that ends in a backslash continues in the next.
fn of_block(page: &str, block: &[(usize, &str)]) -> Vec<Typed> {
    let (mut found, mut begun) = (Vec::new(), None);
    for (line, text) in block {
        let (first, before) = begun.take().unwrap_or((*line, String::new()));
        match text.strip_suffix('\\') {
            Some(part) => begun = Some((first, format!("{before}{} ", part.trim_end()))),
            None => found.push(one(page, first, &(before + text))),
        }
    }
    found.retain(|typed| !typed.text.is_empty() && !typed.text.starts_with('#'));
    found
}

fn one(page: &str, line: usize, command: &str) -> Typed {
    let (text, comment) = command.split_once(" # ").unwrap_or((command, ""));
    Typed { page: page.to_owned(), line, text: text.trim().to_owned(), takes: duration(comment), shown: Vec::new() }
}

/// Gives the commands that print it a table counted on the simulator: `PACKAGE/TABLE@sim …` in Markdown.
fn show(commands: &mut [Typed], record: &str, markdown: &str) {
    let name = record.split_whitespace().next().and_then(|name| name.strip_suffix("@sim"));
    let Some((package, table)) = name.and_then(|name| name.split_once('/')) else { return };
    // The head and the line below it are no rows.
    let rows: Vec<_> = markdown.lines().filter(|line| line.starts_with('|')).skip(2).map(cells).collect();
    for command in
        commands.iter_mut().filter(|command| format!("{} ", command.text).contains(&format!(" -p {package} ")))
    {
        if !rows.is_empty() {
            let place = format!("{}:{}", command.page, command.line);
            command.shown.push((place, Shown::Table(table.to_owned(), rows.clone())));
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
    let words: Vec<&str> = comment.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()).collect();
    words.windows(2).find_map(|pair| {
        let number = match pair[0] {
            "a" | "one" => 1,
            "two" => 2,
            "three" => 3,
            digits => digits.parse().ok()?,
        };
        let unit = ["second", "seconds", "minute", "minutes"].iter().position(|unit| *unit == pair[1])?;
        Some(Duration::from_secs(if unit < 2 { number } else { 60 * number }))
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
        assert_eq!(found[2].shown, [("page.md:4".into(), Shown::Table("one".into(), vec![row]))]);
        assert_eq!(found[2].takes, Some(Duration::from_secs(120)));
        assert_eq!(found[5].shown, [("page.md:23".into(), Shown::Lines(vec!["error: so it says".into()]))]);
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
