//! Runs one command like a reader without a GPU, and compares its output with the pages.

use std::{
    ffi::OsString,
    fs,
    io::{self, Read},
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
use crate::simulator;

/// Result of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It ended as expected; the number of pages' parts found in its output.
    Ran {
        /// Time taken.
        time: Duration,
        /// Number of tables and listings of pages that were compared.
        compared: usize,
    },
    /// Cargo's tests cover it.
    Tested,
    /// It was not run, for this reason.
    Elsewhere(&'static str),
    /// It took too long, ended otherwise or printed something else.
    Failed {
        /// Time taken.
        time: Duration,
        /// The errors, one per line.
        reasons: Vec<String>,
    },
}

impl Outcome {
    /// The label of a command whose output was compared.
    pub const COMPARED: &'static str = "compared";
    /// The label of one that was not run.
    pub const ELSEWHERE: &'static str = "not run";
    /// The label of one that failed.
    pub const FAILED: &'static str = "FAILED";

    /// In a word.
    pub fn label(&self) -> &'static str {
        match self {
            Outcome::Ran { compared: 0, .. } => "ran",
            Outcome::Ran { .. } => Outcome::COMPARED,
            Outcome::Tested => "tested",
            Outcome::Elsewhere(_) => Outcome::ELSEWHERE,
            Outcome::Failed { .. } => Outcome::FAILED,
        }
    }

    /// In seconds, if it ran.
    pub fn time(&self) -> String {
        match self {
            Outcome::Ran { time, .. } | Outcome::Failed { time, .. } => format!("{:6.1} s", time.as_secs_f64()),
            Outcome::Tested | Outcome::Elsewhere(_) => " ".repeat(8),
        }
    }

    /// The errors.
    pub fn details(&self) -> &[String] {
        match self {
            Outcome::Failed { reasons, .. } => reasons,
            _ => &[],
        }
    }
}

/// Replacements for words that a reader replaces by existing files: names in capitals, and the pages' placeholder files.
const READERS_FILES: [(&str, &str); 7] = [
    ("PHOTO…", "photo.jpg"),
    ("cat.jpg", "photo.jpg"),
    ("dog.png", "photo.jpg"),
    ("SOUND.wav", "sound.wav"),
    ("FILE.wav", "sound.wav"),
    ("sound.wav", "sound.wav"),
    ("HANDED-IN", "handed-in"),
];

/// Words for a folder that does not exist yet.
const NEW_FOLDERS: [&str; 1] = ["CLASS"];

/// Tables that a page shows next to a command that does not print them, or prints them launch by launch.
const BESIDE: [&str; 2] = ["occupancy-limits", "plan-unet"];

/// Options whose value is a file or folder that the command writes.
const WRITES: [&str; 5] = ["-o", "--out", "--plot", "--reports", "--save"];

/// Factor by which a command may exceed its time before it is ended: so that its own output is reported.
const PATIENCE: u32 = 4;

/// Where commands run: in the workspace, if they name its files, otherwise in their own folder, where their output goes.
#[derive(Clone, Debug)]
pub struct Place<'a> {
    workspace: &'a Path,
    programs: &'a Path,
    folder: &'a Path,
}

impl<'a> Place<'a> {
    /// Puts the files that readers supply into `folder`.
    ///
    /// # Errors
    /// If one can't be written.
    pub fn prepare(workspace: &'a Path, programs: &'a Path, folder: &'a Path) -> io::Result<Place<'a>> {
        fs::copy(workspace.join("common/media/assets/china.jpg"), folder.join("photo.jpg"))?;
        fs::write(folder.join("sound.wav"), tone())?;
        let student = folder.join("handed-in").join("ada");
        fs::create_dir_all(&student)?;
        fs::copy(workspace.join("phase1-infra/exercises/01-guard/solution.cu"), student.join("guard.cu"))?;
        Ok(Place { workspace, programs, folder })
    }

    /// Runs a command, or looks for its test.
    ///
    /// # Errors
    /// If its program can't be started.
    pub fn run(&self, found: &Found, way: &Way) -> io::Result<Outcome> {
        let text = &found.typed.text;
        let status = match way {
            Way::Elsewhere(reason) => return Ok(Outcome::Elsewhere(reason)),
            Way::Tests => return Ok(self.tested(text)),
            Way::Succeeds | Way::InClass(0) => 0,
            Way::Fails => 1,
            Way::InClass(status) => *status,
        };
        // What two commands write must not meet.
        let own = self.folder.join(format!("{}-{}", found.typed.page.replace('/', "-"), found.typed.line));
        fs::create_dir_all(&own)?;
        // Only commands that name files of the workspace run there: others may write where they are.
        let names_file = |word: &str| word.contains('/') && self.workspace.join(word).exists();
        let at = match way {
            Way::InClass(_) => self.class()?,
            _ if text.split_whitespace().any(names_file) => self.workspace.to_owned(),
            _ => own.clone(),
        };
        let (program, mut arguments) = match self.translated(text, &own) {
            Ok(command) => command,
            Err(reason) => return Ok(Outcome::Failed { time: Duration::ZERO, reasons: vec![reason] }),
        };
        // In Markdown the cells are as on the page: a terminal's table breaks long ones.
        let is_printed = |shown: &Shown| !matches!(shown, Shown::Table(name, _) if BESIDE.contains(&name.as_str()));
        let shown: Vec<&(String, Shown)> = found.shown.iter().filter(|(_, shown)| is_printed(shown)).collect();
        if shown.iter().any(|(_, shown)| matches!(shown, Shown::Table(..))) {
            arguments.extend(["--format".into(), "markdown".into()]);
        }
        let allowed = found.typed.takes.unwrap_or(SHORT);
        let ended = run(&program, &arguments, &at, allowed * PATIENCE)?;
        let mut reasons = Vec::new();
        match ended.status {
            None => reasons.push(format!("was ended after {} s", (allowed * PATIENCE).as_secs())),
            Some(got) if got != status => {
                reasons.push(format!("ended with status {got} instead of {status}"));
                reasons.extend(
                    ended.output.lines().rev().take(5).map(str::to_owned).collect::<Vec<_>>().into_iter().rev(),
                );
            }
            Some(_) if ended.time > allowed => {
                let said = found.typed.takes.map_or("a page must say how long it takes", |_| "its page says less");
                reasons.push(format!("took more than {} s: {said}", allowed.as_secs()));
            }
            Some(_) => {}
        }
        if reasons.is_empty() {
            reasons.extend(shown.iter().flat_map(|(place, shown)| missing(place, shown, &ended.output)));
        }
        let time = ended.time;
        Ok(if reasons.is_empty() {
            Outcome::Ran { time, compared: shown.len() }
        } else {
            Outcome::Failed { time, reasons }
        })
    }

    /// The program and arguments of `cargo run -p PACKAGE -- …` or `ptx-sim …`, which write into the folder `own`.
    fn translated(&self, text: &str, own: &Path) -> Result<(PathBuf, Vec<OsString>), String> {
        // Where the shell puts what it prints.
        let text = text.split_once(" > ").map_or(text, |(command, _)| command);
        let words = simulator::split(text).map_err(|error| error.to_string())?;
        let (program, rest) = match way::package(text) {
            Some(package) => {
                let from = words.iter().position(|word| word == "--").map_or(words.len(), |at| at + 1);
                (package, &words[from..])
            }
            None => (words.first().map_or("", String::as_str), words.get(1..).unwrap_or_default()),
        };
        let path = self.programs.join(format!("{program}{}", std::env::consts::EXE_SUFFIX));
        if !path.is_file() {
            return Err(format!("`{program}` is no program of the course: mend the page, or add a reason to `way.rs`"));
        }
        let mut writes = false;
        let arguments = rest.iter().map(|word| {
            let written = std::mem::replace(&mut writes, WRITES.contains(&word.as_str()));
            let file = READERS_FILES.iter().find(|(name, _)| name == word).map(|(_, file)| *file);
            match file {
                _ if written || NEW_FOLDERS.contains(&word.as_str()) => own.join(word).into_os_string(),
                Some(file) => self.folder.join(file).into_os_string(),
                None => word.into(),
            }
        });
        Ok((path, arguments.collect()))
    }

    /// A class's repository: exercises whose state is not a reader's.
    fn class(&self) -> io::Result<PathBuf> {
        // Inside the workspace's `target` if it can be written to, since NVRTC is looked for from the current folder upwards.
        let class = self.folder.join("class");
        if !class.is_dir() {
            let program = self.programs.join(format!("assignments{}", std::env::consts::EXE_SUFFIX));
            let arguments = ["export".into(), class.clone().into_os_string()];
            run(&program, &arguments, self.workspace, SHORT)?;
        }
        Ok(class)
    }

    /// Whether the tests that a command names exist: the file of `--test`, and in it a name with the filter's word.
    fn tested(&self, text: &str) -> Outcome {
        let words: Vec<&str> = text.split_whitespace().collect();
        let folder = |package: &str| {
            let within = [self.workspace.join(package), self.workspace.join("common").join(package)];
            within.into_iter().find(|folder| folder.is_dir())
        };
        let Some(folder) = way::package(text).and_then(folder) else {
            return failed(format!("`{text}` names no package"));
        };
        let mut sources = Vec::new();
        let mut filter = None;
        let mut rest = words.iter().skip(2);
        while let Some(word) = rest.next() {
            match *word {
                "-p" => _ = rest.next(),
                "--test" => match rest.next() {
                    Some(name) => {
                        let file = folder.join("tests").join(format!("{name}.rs"));
                        match fs::read_to_string(&file) {
                            Ok(source) => sources.push(source),
                            Err(error) => return failed(format!("{}: {error}", file.display())),
                        }
                    }
                    None => return failed("no name after --test".to_owned()),
                },
                "--lib" => {
                    let files = crate::check::files_below(&folder.join("src")).unwrap_or_default();
                    let rust = files.iter().filter(|file| file.ends_with(".rs"));
                    // A module's name is a part of its tests'.
                    sources.extend(rust.filter_map(|file| {
                        Some(format!("fn {file}\n{}", fs::read_to_string(folder.join("src").join(file)).ok()?))
                    }));
                }
                "--" => break,
                option if option.starts_with('-') => {}
                word => filter = Some(word),
            }
        }
        let named = |source: &String| {
            let filter = filter.map(|word| word.trim_end_matches("_sim").trim_end_matches("_cuda")).unwrap_or("");
            let mut lines = source.lines();
            lines.any(|line| {
                line.trim_start().trim_start_matches("device_test! { ").contains("fn ") && line.contains(filter)
            })
        };
        if sources.iter().any(named) {
            Outcome::Tested
        } else {
            failed(format!("no test is called `{}`", filter.unwrap_or("…")))
        }
    }
}

fn failed(reason: String) -> Outcome {
    Outcome::Failed { time: Duration::ZERO, reasons: vec![reason] }
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
    let begun = Instant::now();
    let mut child = Command::new(program)
        .args(arguments)
        .current_dir(at)
        // `auto` would take a GPU, if there is one.
        .env("WARP_DEVICE", "sim")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    let stdout = child.stdout.take().map(|pipe| thread::spawn(|| everything(pipe)));
    let stderr = child.stderr.take().map(|pipe| thread::spawn(|| everything(pipe)));
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
    let time = begun.elapsed();
    let text =
        |reader: Option<thread::JoinHandle<String>>| reader.and_then(|reader| reader.join().ok()).unwrap_or_default();
    Ok(Ended { status, time, output: text(stdout) + &text(stderr) })
}

fn everything(mut pipe: impl Read) -> String {
    let mut bytes = Vec::new();
    // What came before an error is what there is to compare.
    let _ = pipe.read_to_end(&mut bytes);
    String::from_utf8_lossy(&bytes).into_owned()
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
            let has = |line: &Vec<String>, row: &[String]| row.iter().all(|cell| line.contains(cell));
            let absent = rows.iter().filter(|row| !printed.iter().any(|line| has(line, row)));
            absent
                .map(|row| format!("{place} shows a row of `{name}` that it does not print: {}", row.join(" | ")))
                .collect()
        }
    }
}

/// A second of 440 Hz as a WAV file of 16-bit samples, 16,000 per second.
fn tone() -> Vec<u8> {
    const RATE: u32 = 16_000;
    let samples = (0..RATE).map(|at| {
        let phase = f64::from(at) * 440.0 * std::f64::consts::TAU / f64::from(RATE);
        (phase.sin() * 10_000.0) as i16
    });
    let data: Vec<u8> = samples.flat_map(i16::to_le_bytes).collect();
    let mut file = Vec::with_capacity(44 + data.len());
    file.extend(b"RIFF");
    file.extend((36 + data.len() as u32).to_le_bytes());
    file.extend(b"WAVEfmt ");
    file.extend(16u32.to_le_bytes());
    // PCM, one channel.
    file.extend([1u16, 1].map(u16::to_le_bytes).concat());
    file.extend([RATE, RATE * 2].map(u32::to_le_bytes).concat());
    // Bytes and bits of a sample.
    file.extend([2u16, 16].map(u16::to_le_bytes).concat());
    file.extend(b"data");
    file.extend((data.len() as u32).to_le_bytes());
    file.extend(data);
    file
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
