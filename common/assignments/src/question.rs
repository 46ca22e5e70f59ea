//! Questions whose answers the simulator counts: `phaseN-*/questions/NAME.toml` beside `NAME.cu` and its shipped PTX.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use common::compile::ship;
use common::ptx_sim::{Arg, Device, DeviceConfig, LaunchConfig, Module, Observe};
use serde::Deserialize;

use crate::arithmetic;
use crate::run::BUDGET;

/// Contents of a question's file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Question {
    /// Name on the command line and on the page.
    pub id: String,
    /// The book's page that asks it.
    pub page: String,
    /// Text of the question, in Markdown.
    pub question: String,
    /// One kernel, whose count is the answer; or several, of which the one with the lowest count is the answer.
    pub kernels: Vec<String>,
    /// Threads of a block; there is one block.
    pub block: [u32; 3],
    /// The kernels' arguments.
    pub arguments: Vec<Argument>,
    /// Name of the counter in [`common::ptx_sim::Counters`].
    pub count: String,
    /// The explanation. Arithmetic in braces is worked out, and must come to the count of each kernel.
    pub because: String,
    /// `NAME.cu`.
    #[serde(skip)]
    pub file: PathBuf,
}

/// An argument of a kernel.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Argument {
    /// A pointer to a zeroed buffer of this many bytes.
    Bytes(u64),
    /// An `unsigned`.
    U32(u32),
}

/// Answer found by the simulator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The right answer: a number, or a kernel's name.
    pub right: String,
    /// The reason in Markdown, with its arithmetic worked out.
    pub because: String,
}

impl Answer {
    /// Whether the reader's answer is right.
    pub fn is(&self, said: &str) -> bool {
        said.trim().eq_ignore_ascii_case(&self.right)
    }
}

impl Question {
    /// Reads `NAME.toml`.
    ///
    /// # Errors
    /// If it is absent or malformed.
    pub fn read(path: &Path) -> Result<Question> {
        let text = fs::read_to_string(path).with_context(|| format!("{} cannot be read", path.display()))?;
        let mut question: Question =
            toml::from_str(&text).with_context(|| format!("{} is not valid", path.display()))?;
        ensure!(!question.kernels.is_empty(), "{}: no kernels", path.display());
        question.file = path.with_extension("cu");
        Ok(question)
    }

    /// The kernels' text, without the comment at its head.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn code(&self) -> Result<String> {
        let text = fs::read_to_string(&self.file).with_context(|| format!("{} cannot be read", self.file.display()))?;
        let lines = text.lines().skip_while(|line| line.starts_with("//") || line.trim().is_empty());
        Ok(lines.collect::<Vec<_>>().join("\n"))
    }

    /// Runs the kernels, and holds the reason against what they counted.
    ///
    /// # Errors
    /// If a kernel fails, two share the lowest count, or the reason comes to something else.
    pub fn answer(&self) -> Result<Answer> {
        let counted = self.kernels.iter().map(|kernel| self.counted(kernel)).collect::<Result<Vec<_>>>();
        let counted = counted.with_context(|| format!("question `{}`", self.id))?;
        let (because, results) = worked_out(&self.because).with_context(|| format!("question `{}`", self.id))?;
        for (kernel, count) in self.kernels.iter().zip(&counted) {
            ensure!(results.contains(count), "question `{}`: `{kernel}` counts {count}, not {results:?}", self.id);
        }
        let right = match (&self.kernels[..], &counted[..]) {
            ([_], [count]) => count.to_string(),
            (kernels, counted) => {
                let lowest = counted.iter().min().copied().unwrap_or_default();
                let mut best = kernels.iter().zip(counted).filter(|(_, count)| **count == lowest);
                let first = best.next().map(|(kernel, _)| kernel.clone()).unwrap_or_default();
                ensure!(best.next().is_none(), "question `{}`: two kernels count {lowest}", self.id);
                first
            }
        };
        Ok(Answer { right, because })
    }

    fn counted(&self, kernel: &str) -> Result<u64> {
        let ptx = ship::read(&self.file)?;
        let failed = |why: String| anyhow::anyhow!("`{kernel}`: {why}");
        let module = Module::from_ptx(&ptx, "the question").map_err(|error| failed(error.render(false)))?;
        let device = Device::new(DeviceConfig { workers: 1, sanitize: false, ..DeviceConfig::default() });
        let loaded = device.load(&module).and_then(|loaded| loaded.kernel(kernel));
        let loaded = loaded.map_err(|error| failed(error.render(false)))?;
        let mut args = Vec::new();
        for argument in &self.arguments {
            args.push(match *argument {
                Argument::Bytes(bytes) => {
                    let pointer = device.alloc(bytes, "the argument")?;
                    device.write(pointer, &vec![0; usize::try_from(bytes)?])?;
                    Arg::from(pointer)
                }
                Argument::U32(value) => Arg::from(value),
            });
        }
        let config = LaunchConfig { grid: [1; 3], block: self.block, budget: Some(BUDGET), ..LaunchConfig::default() };
        let observe = Observe { profile: true, ..Observe::default() };
        let seen = loaded.observe(&config, &args, &observe).map_err(|error| failed(error.to_string()))?;
        let counters = seen.profile.unwrap_or_default().counters.named();
        let counts: BTreeMap<&str, u64> = counters.into_iter().map(|(name, _, count)| (name, count)).collect();
        counts.get(&*self.count).copied().with_context(|| format!("there is no counter `{}`", self.count))
    }
}

/// Every question below a checkout, in the order of their files.
///
/// # Errors
/// If one cannot be read, or two share an id.
pub fn all(root: &Path) -> Result<Vec<Question>> {
    let list = |dir: &Path| -> Result<Vec<PathBuf>> {
        let entries = fs::read_dir(dir).with_context(|| format!("{} cannot be read", dir.display()))?;
        let mut paths = entries.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>>>()?;
        paths.sort();
        Ok(paths)
    };
    let mut found: Vec<Question> = Vec::new();
    let is_phase = |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("phase"));
    for phase in list(root)?.into_iter().filter(is_phase) {
        let questions = phase.join("questions");
        if !questions.is_dir() {
            continue;
        }
        for path in list(&questions)?.iter().filter(|path| path.extension().is_some_and(|end| end == "toml")) {
            let question = Question::read(path)?;
            let taken = found.iter().any(|other| other.id == question.id);
            ensure!(!taken, "two questions are called `{}`", question.id);
            found.push(question);
        }
    }
    Ok(found)
}

/// The question of that id, if there is one.
///
/// # Errors
/// Same as [`all`].
pub fn find(root: &Path, id: &str) -> Result<Option<Question>> {
    Ok(all(root)?.into_iter().find(|question| question.id == id))
}

/// Text with the arithmetic between braces worked out, and the results.
fn worked_out(text: &str) -> Result<(String, Vec<u64>)> {
    let (mut shown, mut results, mut rest) = (String::new(), Vec::new(), text);
    while let Some((before, after)) = rest.split_once('{') {
        let (term, tail) = after.split_once('}').with_context(|| format!("a brace without its partner in `{text}`"))?;
        // A division must come out even.
        let even = |a: u64, b: u64| (b > 0 && a.is_multiple_of(b)).then(|| a / b);
        let result = arithmetic::value(term, |_| None, even)?;
        shown.push_str(before);
        if term.trim().parse::<u64>().is_err() {
            let _ = write!(shown, "{} = ", term.trim().replace('*', "×").replace('/', "÷"));
        }
        let _ = write!(shown, "{result}");
        results.push(result);
        rest = tail;
    }
    shown.push_str(rest);
    Ok((shown, results))
}

#[cfg(test)]
mod tests {
    use super::worked_out;

    #[test]
    fn arithmetic_in_braces_is_worked_out() {
        let (text, results) = worked_out("So {128 / 32 + 1}, or {4 * 8 / 2}, not {0}.").unwrap();
        assert_eq!(text, "So 128 ÷ 32 + 1 = 5, or 4 × 8 ÷ 2 = 16, not 0.");
        assert_eq!(results, [5, 16, 0]);
        for bad in ["{}", "{1 +}", "{3 / 2}", "{1 / 0}", "{2 ^ 3}", "{x}", "{1"] {
            assert!(worked_out(bad).is_err(), "{bad}");
        }
    }
}
