//! Output or picture of the `ptx-sim` command, for the pages that explain it.
//!
//! The command runs in the workspace's root, so that paths in its arguments and in its output are relative and the same
//! everywhere. Two things are left out: the occupancy, whose registers are only known where there is a `ptxas`, and all but the
//! first values of a long buffer.

use std::{
    env,
    ffi::OsString,
    io,
    path::Path,
    process::{Command, Output},
};

use crate::content::{Content, Picture};

/// Number of values shown of a buffer with more than [`LONG`].
const SHOWN: usize = 8;
/// Maximum number of values of a buffer that is shown in full.
const LONG: usize = 32;

/// Maximum characters of a command before it continues in the next line.
const WIDTH: usize = 100;

/// Why there is no output to show.
#[derive(Debug, thiserror::Error)]
pub enum SimulatorError {
    /// A quotation that is not closed in the arguments.
    #[error("a {0} without its partner")]
    Unquoted(char),
    /// Cargo could not be started.
    #[error("cannot run cargo: {0}")]
    Start(#[from] io::Error),
    /// The command failed for another reason than finding what it was told to look for.
    #[error("`ptx-sim {arguments}` failed ({status}):\n{stderr}")]
    Failed {
        /// Arguments in the page.
        arguments: String,
        /// The exit status.
        status: String,
        /// Standard error.
        stderr: String,
    },
    /// The output is not text.
    #[error("`ptx-sim {0}` printed something else than UTF-8")]
    NotText(String),
}

/// Result of `ptx-sim ARGUMENTS`: a picture, or else the command and its output.
///
/// # Errors
/// See [`SimulatorError`].
pub fn content(workspace: &Path, arguments: &str) -> Result<Content, SimulatorError> {
    let words = split(arguments)?;
    let output = output(workspace, &words)?;
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).map_err(|_| SimulatorError::NotText(arguments.to_owned()));
    let Output { status, stdout, stderr } = output;
    let (stdout, stderr) = (text(stdout)?, text(stderr)?);
    let has = |options: &[&str]| words.iter().any(|word| options.contains(&word.as_str()));
    let sanitised = has(&["--sanitize", "--sanitise"]);
    // Findings are what a page asks for, and the status 1 with them.
    let found = sanitised && status.code() == Some(1) && stderr.lines().next_back().is_some_and(is_summary);
    if !status.success() && !found {
        let (arguments, status) = (arguments.to_owned(), status.to_string());
        return Err(SimulatorError::Failed { arguments, status, stderr: stderr.trim_end().to_owned() });
    }
    let stderr = if sanitised || has(&["--watch"]) { stderr } else { String::new() };
    if stdout.starts_with("<svg") {
        return Ok(Content::Picture(picture(stdout, arguments, &words)));
    }
    Ok(Content::Text(listing(arguments, &stdout, &stderr)))
}

/// Standard output of `ptx-sim ARGUMENTS`, if it succeeds.
///
/// # Errors
/// See [`SimulatorError`].
pub(crate) fn printed(workspace: &Path, arguments: &str) -> Result<String, SimulatorError> {
    let Output { status, stdout, stderr } = output(workspace, &split(arguments)?)?;
    if !status.success() {
        let (arguments, stderr) = (arguments.to_owned(), String::from_utf8_lossy(&stderr).trim_end().to_owned());
        return Err(SimulatorError::Failed { arguments, status: status.to_string(), stderr });
    }
    String::from_utf8(stdout).map_err(|_| SimulatorError::NotText(arguments.to_owned()))
}

/// Runs the command in the workspace's root: by `--bin`, so that it has the features of the whole workspace and is not built twice.
fn output(workspace: &Path, words: &[String]) -> io::Result<Output> {
    let cargo = env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo"));
    Command::new(cargo).args(["run", "--quiet", "--bin", "ptx-sim", "--"]).args(words).current_dir(workspace).output()
}

/// Whether a line is the sanitiser's `2 findings: …`.
fn is_summary(line: &str) -> bool {
    line.split_once(" finding").is_some_and(|(count, _)| count.parse::<u64>().is_ok())
}

/// The command and its output.
fn listing(arguments: &str, stdout: &str, stderr: &str) -> String {
    let occupancy = |line: &&str| !line.starts_with("occupancy on ");
    let lines: Vec<String> = stdout.lines().filter(occupancy).map(shortened).collect();
    let parts = [lines.join("\n"), stderr.to_owned()];
    let printed: Vec<&str> = parts.iter().map(|part| part.trim_end()).filter(|part| !part.is_empty()).collect();
    format!("```text\n$ {}\n{}\n```", command(arguments), printed.join("\n"))
}

/// The picture, with the command below it, which writes a file: without `-o` a reader's terminal would show the SVG's text.
fn picture(svg: String, arguments: &str, words: &[String]) -> Picture {
    let name = name(words);
    let command =
        command(&format!("{arguments} -o {name}.svg")).replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    Picture { name, class: "trace", svg, caption: format!("<code>{command}</code>"), folded: None }
}

/// A file's name for a picture: the kernel's file and the arguments after it up to the buffers, without the options' names.
fn name(words: &[String]) -> String {
    let told = words.iter().skip(1).take_while(|word| !word.contains(':')).filter(|word| !word.starts_with("--"));
    let part = |word: &String| {
        let file = word.rsplit('/').next().unwrap_or_default();
        let plain = |c: char| if c.is_ascii_alphanumeric() || c == '_' { c } else { '-' };
        file.strip_suffix(".ptx").unwrap_or(file).chars().map(plain).collect::<String>()
    };
    told.map(part).collect::<Vec<_>>().join("-")
}

/// The command to type, in lines of about [`WIDTH`] that are broken between words.
pub(crate) fn command(arguments: &str) -> String {
    let mut text = String::from("ptx-sim");
    let (mut width, mut quote) = (text.len(), None);
    for part in arguments.split_whitespace() {
        // Within quotation marks a line break would be a part of the word.
        if quote.is_none() && width + part.len() >= WIDTH {
            text.push_str(" \\\n   ");
            width = 3;
        }
        text.push(' ');
        text.push_str(part);
        width += 1 + part.len();
        for c in part.chars() {
            match quote {
                Some(mark) if c == mark => quote = None,
                None if c == '\'' || c == '"' => quote = Some(c),
                _ => {}
            }
        }
    }
    text
}

/// A line of many values, cut to the first of them.
fn shortened(line: &str) -> String {
    let values: Vec<&str> = line.split(',').collect();
    if values.len() <= LONG || values.iter().any(|value| value.contains(char::is_whitespace)) {
        return line.to_owned();
    }
    format!("{},… ({} values)", values[..SHOWN].join(","), values.len())
}

/// Splits arguments as a shell does, with both kinds of quotation marks but no escapes or variables.
///
/// # Errors
/// [`SimulatorError::Unquoted`].
pub fn split(arguments: &str) -> Result<Vec<String>, SimulatorError> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    for c in arguments.chars() {
        match quote {
            Some(mark) if c == mark => quote = None,
            Some(_) => word.get_or_insert_default().push(c),
            None if c == '\'' || c == '"' => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            None if c.is_whitespace() => words.extend(word.take()),
            None => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    quote.map_or(Ok(words), |mark| Err(SimulatorError::Unquoted(mark)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_split_as_in_a_shell() {
        let cases: [(&str, &[&str]); 5] = [
            ("", &[]),
            (" run  a.ptx ", &["run", "a.ptx"]),
            ("--watch 'line 16' %r1", &["--watch", "line 16", "%r1"]),
            ("a\"b 'c\"'d\"e'", &["ab 'cd\"e"]),
            ("'' x", &["", "x"]),
        ];
        for (arguments, words) in cases {
            assert_eq!(split(arguments).unwrap(), words, "{arguments}");
        }
        assert!(matches!(split("run 'a b"), Err(SimulatorError::Unquoted('\''))));
    }

    #[test]
    fn a_listing_has_long_buffers_cut_and_no_occupancy() {
        let (short, long) = (["1"; LONG].join(","), ["2"; LONG + 1].join(","));
        let text = listing("run k", &format!("{short}\n{long}\noccupancy on sm_90: 50%\n"), "told\n");
        assert_eq!(text, format!("```text\n$ ptx-sim run k\n{short}\n2,2,2,2,2,2,2,2,… (33 values)\ntold\n```"));
    }

    #[test]
    fn a_long_command_is_broken_between_words() {
        let (long, quoted) = ("x".repeat(WIDTH), "y".repeat(WIDTH));
        assert_eq!(
            command(&format!("run {long} 'a {quoted} b' c")),
            format!("ptx-sim run \\\n    {long} \\\n    'a {quoted} b' \\\n    c")
        );
    }

    #[test]
    fn a_picture_is_called_after_what_it_shows() {
        let arguments = "trace a/ptx/gemm_06.ptx --kernel gemm_nn --block 32,8 --show banks out:f32:16 s32:1";
        let picture = picture("<svg/>".to_owned(), arguments, &split(arguments).unwrap());
        assert_eq!(picture.name, "gemm_06-gemm_nn-32-8-banks");
        let words = ["trace".to_owned(), "a.ptx".to_owned()];
        let escaped = super::picture(String::new(), "trace a.ptx --kernel a<b>", &words).caption;
        assert_eq!(escaped, "<code>ptx-sim trace a.ptx --kernel a&lt;b&gt; -o a.svg</code>");
    }

    #[test]
    fn a_command_that_fails_says_why() {
        let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let error = content(workspace, "run no-such-file.ptx --kernel k").unwrap_err().to_string();
        assert!(error.contains("no-such-file.ptx --kernel k` failed") && error.contains("cannot read"), "{error}");
    }
}
