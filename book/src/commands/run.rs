//! Runs one command like a reader without a GPU, and compares its output with the pages.

use std::{
    env::consts::EXE_SUFFIX,
    ffi::OsString,
    fs::{self, File},
    io::{self, Read, Seek},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use super::{
    Found, SHORT,
    typed::{Shown, cells},
    way::{self, Way},
};
use crate::{check, simulator};

/// Result of a command.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    /// Time taken, if it was run.
    pub time: Option<Duration>,
    /// Number of tables and listings of pages that were compared.
    pub compared: usize,
    /// The errors, one per line: it took too long, ended otherwise or printed something else.
    pub errors: Vec<String>,
}

impl Outcome {
    fn failed(error: String) -> Outcome {
        Outcome { time: Some(Duration::ZERO), compared: 0, errors: vec![error] }
    }
}

/// Words that a reader replaces by existing files, and their replacements: names in capitals, and the pages' placeholder files.
const READERS_FILES: [(&str, &[&str]); 3] = [
    ("photo.jpg", &["PHOTO…", "cat.jpg", "dog.png"]),
    ("sound.wav", &["SOUND.wav", "FILE.wav", "sound.wav"]),
    ("handed-in", &["HANDED-IN"]),
];

/// Word for a folder that does not exist yet.
const NEW_FOLDER: &str = "CLASS";

/// Tables that a page shows next to a command that does not print them, or prints them launch by launch.
const BESIDE: [&str; 2] = ["occupancy-limits", "plan-unet"];

/// Options whose value is a file or folder that the command writes.
const WRITES: [&str; 5] = ["-o", "--out", "--plot", "--reports", "--save"];

/// Factor by which a command may exceed its time before it is ended: so that its own output is reported.
const PATIENCE: u32 = 4;

/// Where commands run: in the workspace, if they name its files, otherwise in their own folder, where their output goes.
pub(super) struct Place<'a> {
    workspace: &'a Path,
    programs: &'a Path,
    folder: &'a Path,
}

impl<'a> Place<'a> {
    /// Puts the files that readers supply into `folder`.
    ///
    /// # Errors
    /// If one can't be written.
    pub(super) fn prepare(workspace: &'a Path, programs: &'a Path, folder: &'a Path) -> io::Result<Place<'a>> {
        fs::copy(workspace.join("common/media/assets/china.jpg"), folder.join("photo.jpg"))?;
        fs::write(folder.join("sound.wav"), tone())?;
        let student = folder.join("handed-in/ada");
        fs::create_dir_all(&student)?;
        fs::copy(workspace.join("phase1-infra/exercises/01-guard/solution.cu"), student.join("guard.cu"))?;
        Ok(Place { workspace, programs, folder })
    }

    /// Runs a command, or looks for its test.
    ///
    /// # Errors
    /// If its program can't be started.
    pub(super) fn run(&self, found: &Found) -> io::Result<Outcome> {
        let text = &found.typed.text;
        let status = match found.way {
            Way::Elsewhere(_) => return Ok(Outcome::default()),
            Way::Tests => return Ok(self.tested(text)),
            Way::Succeeds => 0,
            Way::Fails => 1,
            Way::InClass(status) => status,
        };
        // What two commands write must not meet.
        let own = self.folder.join(format!("{}-{}", found.typed.page.replace('/', "-"), found.typed.line));
        fs::create_dir_all(&own)?;
        // Only commands that name files of the workspace run there: others may write where they are.
        let names_file = |word: &str| word.contains('/') && self.workspace.join(word).exists();
        let at = match found.way {
            Way::InClass(_) => self.class()?,
            _ if text.split_whitespace().any(names_file) => self.workspace.to_owned(),
            _ => own.clone(),
        };
        let (program, mut arguments) = match self.translated(text, &own) {
            Ok(command) => command,
            Err(error) => return Ok(Outcome::failed(error)),
        };
        // In Markdown the cells are as on the page: a terminal's table breaks long ones.
        let is_printed = |shown: &Shown| !matches!(shown, Shown::Table(name, _) if BESIDE.contains(&name.as_str()));
        let shown: Vec<_> = found.typed.shown.iter().filter(|(_, shown)| is_printed(shown)).collect();
        if shown.iter().any(|(_, shown)| matches!(shown, Shown::Table(..))) {
            arguments.extend(["--format".into(), "markdown".into()]);
        }
        let allowed = found.typed.takes.unwrap_or(SHORT);
        let ended = run(&program, &arguments, &at, allowed * PATIENCE)?;
        let mut errors = Vec::new();
        match ended.status {
            None => errors.push(format!("was ended after {} s", (allowed * PATIENCE).as_secs())),
            Some(got) if got != status => {
                errors.push(format!("ended with status {got} instead of {status}"));
                let lines: Vec<&str> = ended.output.lines().collect();
                errors.extend(lines[lines.len().saturating_sub(5)..].iter().map(|&line| line.to_owned()));
            }
            Some(_) if ended.time > allowed => {
                let said = found.typed.takes.map_or("a page must say how long it takes", |_| "its page says less");
                errors.push(format!("took more than {} s: {said}", allowed.as_secs()));
            }
            Some(_) => errors.extend(shown.iter().flat_map(|(place, shown)| missing(place, shown, &ended.output))),
        }
        Ok(Outcome { time: Some(ended.time), compared: shown.len(), errors })
    }

    fn program(&self, name: &str) -> PathBuf {
        self.programs.join(format!("{name}{EXE_SUFFIX}"))
    }

    /// The program and arguments of `cargo run -p PACKAGE -- …` or `ptx-sim …`, which write into the folder `own`.
    fn translated(&self, text: &str, own: &Path) -> Result<(PathBuf, Vec<OsString>), String> {
        // Where the shell puts what it prints.
        let text = text.split_once(" > ").map_or(text, |(command, _)| command);
        let mut words = simulator::split(text).map_err(|error| error.to_string())?.into_iter();
        let program = match way::package(text) {
            Some(package) => {
                words.find(|word| word == "--");
                package.to_owned()
            }
            None => words.next().unwrap_or_default(),
        };
        let path = self.program(&program);
        if !path.is_file() {
            return Err(format!("`{program}` is no program of the course: mend the page, or add a reason to `way.rs`"));
        }
        let mut writes = false;
        let arguments = words.map(|word| {
            let is_written = std::mem::replace(&mut writes, WRITES.contains(&word.as_str())) || word == NEW_FOLDER;
            let file = READERS_FILES.iter().find(|(_, names)| names.contains(&word.as_str()));
            match file {
                _ if is_written => own.join(word).into(),
                Some((file, _)) => self.folder.join(file).into(),
                None => word.into(),
            }
        });
        Ok((path, arguments.collect()))
    }

    /// A class's repository: exercises whose state is not a reader's.
    fn class(&self) -> io::Result<PathBuf> {
        let class = self.folder.join("class");
        if !class.is_dir() {
            run(&self.program("assignments"), &["export".into(), class.clone().into()], self.workspace, SHORT)?;
        }
        Ok(class)
    }

    /// Whether sources of the package have each part of the names that `cargo test -p PACKAGE … NAME` asks for.
    fn tested(&self, text: &str) -> Outcome {
        let folders = |package| [self.workspace.join(package), self.workspace.join("common").join(package)];
        let folder = way::package(text).and_then(|package| folders(package).into_iter().find(|folder| folder.is_dir()));
        let Some(folder) = folder else { return Outcome::failed(format!("`{text}` names no package")) };
        let files = check::files_below(&folder).unwrap_or_default().into_iter().filter(|file| file.ends_with(".rs"));
        // A module's name is that of its file.
        let source = |file: String| fs::read_to_string(folder.join(&file)).unwrap_or_default() + &file;
        let sources: String = files.map(source).collect();
        let mut names = text.split_whitespace().skip(4).filter(|word| !word.starts_with('-'));
        let is_known = |part: &str| sources.contains(part.trim_end_matches("_sim").trim_end_matches("_cuda"));
        match names.find(|name| !name.split("::").all(is_known)) {
            Some(name) => Outcome::failed(format!("no test is called `{name}`")),
            None => Outcome::default(),
        }
    }
}

/// How a program ended.
struct Ended {
    /// `None` if it was ended.
    status: Option<i32>,
    time: Duration,
    /// Standard output, followed by standard error.
    output: String,
}

/// Runs a program on the simulator, for at most `limit`.
fn run(program: &Path, arguments: &[OsString], at: &Path, limit: Duration) -> io::Result<Ended> {
    let [mut stdout, mut stderr] = [tempfile::tempfile()?, tempfile::tempfile()?];
    let begun = Instant::now();
    let mut command = Command::new(program);
    // `auto` would take a GPU, if there is one.
    command.args(arguments).current_dir(at).env("WARP_DEVICE", "sim").stdin(Stdio::null());
    let mut child = command.stdout(stdout.try_clone()?).stderr(stderr.try_clone()?).spawn()?;
    let status = loop {
        if let Some(status) = child.try_wait()? {
            // Without a code, a signal ended it.
            break Some(status.code().unwrap_or(-1));
        }
        if begun.elapsed() > limit {
            child.kill()?;
            child.wait()?;
            break None;
        }
        thread::sleep(Duration::from_millis(10));
    };
    Ok(Ended { status, time: begun.elapsed(), output: text(&mut stdout)? + &text(&mut stderr)? })
}

fn text(file: &mut File) -> io::Result<String> {
    let mut bytes = Vec::new();
    file.rewind()?;
    file.read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Lines or rows of a page's part that are not in the output.
fn missing(place: &str, shown: &Shown, output: &str) -> Vec<String> {
    match shown {
        Shown::Lines(lines) => {
            let is_there = |wanted: &str| output.lines().any(|line| line.trim() == wanted);
            let absent = lines.iter().filter(|line| !line.is_empty() && *line != "…" && !is_there(line));
            absent.map(|line| format!("{place} shows a line that it does not print: {line}")).collect()
        }
        Shown::Table(name, rows) => {
            let printed: Vec<Vec<String>> = output.lines().filter(|line| line.starts_with('|')).map(cells).collect();
            // A page shows some of the columns, in an order of its own.
            let is_there = |row: &[String]| printed.iter().any(|line| row.iter().all(|cell| line.contains(cell)));
            let absent = rows.iter().filter(|row| !is_there(row)).map(|row| row.join(" | "));
            absent.map(|row| format!("{place} shows a row of `{name}` that it does not print: {row}")).collect()
        }
    }
}

/// A second of 440 Hz as a WAV file of 16-bit samples, 16,000 per second.
fn tone() -> Vec<u8> {
    const RATE: u32 = 16_000;
    let sample = |at| ((f64::from(at) * 440.0 * std::f64::consts::TAU / f64::from(RATE)).sin() * 10_000.0) as i16;
    let word = u32::from_le_bytes;
    let riff = [word(*b"RIFF"), 36 + 2 * RATE, word(*b"WAVE")];
    // PCM, one channel; bytes and bits of a sample.
    let format = [word(*b"fmt "), 16, 1 | 1 << 16, RATE, 2 * RATE, 2 | 16 << 16];
    let head = [&riff[..], &format, &[word(*b"data"), 2 * RATE]].concat();
    head.into_iter().flat_map(u32::to_le_bytes).chain((0..RATE).map(sample).flat_map(i16::to_le_bytes)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_compared_whatever_columns_a_page_leaves_out() {
        let output = "# title\n\n| n | time | why |\n| ---: | ---: | --- |\n| 1 | 2.5 | a \\| b |\n| 2 | 3.5 | c |\n";
        let row = |cells: &[&str]| cells.iter().map(|cell| (*cell).to_owned()).collect::<Vec<_>>();
        let of = |rows: Vec<Vec<String>>| missing("p.md:1", &Shown::Table("t".into(), rows), output);
        assert_eq!(of(vec![row(&["a | b", "1"]), row(&["2", "c"])]), Vec::<String>::new());
        assert_eq!(of(vec![row(&["1", "3.5"])]), ["p.md:1 shows a row of `t` that it does not print: 1 | 3.5"]);
        let lines = Shown::Lines(vec!["| 1 | 2.5 | a \\| b |".into(), "…".into(), "no".into()]);
        assert_eq!(missing("p.md:1", &lines, output), ["p.md:1 shows a line that it does not print: no"]);
    }

    #[test]
    fn the_tone_is_a_second_of_sound() {
        let file = tone();
        assert_eq!((&file[..4], &file[8..12], file.len()), (&b"RIFF"[..], &b"WAVE"[..], 44 + 32_000));
    }
}
