//! A new exercise: a small one that works, to be edited.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

use crate::exercise::{self, Exercise};
use crate::question;

/// Folder of exercises that are not the course's own.
pub const FOLDER: &str = "phase9-own";

/// Description of the template, an exercise called `scale-rows`.
const DESCRIPTION: (&str, &str) =
    ("exercise.toml", concat!(include_str!("new/exercise.toml"), include_str!("new/task.toml")));

/// Its kernels.
const KERNELS: [(&str, &str); 7] = [
    ("exercise.cu", include_str!("new/exercise.cu")),
    ("reference.cu", include_str!("new/reference.cu")),
    ("solution.cu", include_str!("new/solution.cu")),
    ("wrong/by_columns.cu", include_str!("new/wrong/by_columns.cu")),
    ("wrong/factor_of_column.cu", include_str!("new/wrong/factor_of_column.cu")),
    ("wrong/first_blocks.cu", include_str!("new/wrong/first_blocks.cu")),
    ("wrong/no_guard.cu", include_str!("new/wrong/no_guard.cu")),
];

/// Keys of `exercise.toml` that every exercise says in its own words.
const KEYS: [&str; 3] = ["title", "goal", "hints"];

/// Writes the exercise `name` below `root`, as the next one in the folder `phase`, and returns its folder.
///
/// # Errors
/// If a name is malformed or taken, or a file cannot be written.
pub fn write(root: &Path, phase: &str, name: &str) -> Result<PathBuf> {
    let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    let is_kebab = |name: &str| {
        name.starts_with(|c: char| c.is_ascii_lowercase())
            && name.split('-').all(|word| !word.is_empty() && word.chars().all(is_plain))
    };
    ensure!(is_kebab(name), "`{name}` should be lower-case words with hyphens between them, as warp-max");
    ensure!(
        is_kebab(phase) && phase.starts_with("phase"),
        "`{phase}` should be called as phase2-conv-bn or {FOLDER} are"
    );
    let is_taken = exercise::all(root)?.iter().any(|exercise| exercise.is_called(name));
    ensure!(!is_taken && question::find(root, name)?.is_none(), "there is `{name}` already");
    let exercises = root.join(phase).join("exercises");
    let cannot = |path: &Path| format!("{} cannot be written", path.display());
    std::fs::create_dir_all(&exercises).with_context(|| cannot(&exercises))?;
    let mut last = 0;
    for entry in std::fs::read_dir(&exercises)? {
        let folder = entry?.file_name().to_string_lossy().into_owned();
        last = last.max(folder.split('-').next().and_then(|number| number.parse().ok()).unwrap_or(0));
    }
    let folder = exercises.join(format!("{:02}-{name}", last + 1));
    std::fs::create_dir_all(folder.join("wrong")).with_context(|| cannot(&folder))?;
    for (file, template) in KERNELS.into_iter().chain([DESCRIPTION]) {
        let path = folder.join(file);
        std::fs::write(&path, called(template, name)).with_context(|| cannot(&path))?;
    }
    Ok(folder)
}

/// Keys and files of an exercise that are still the template's.
///
/// # Errors
/// If `exercise.toml` cannot be read.
pub fn left_to_do(exercise: &Exercise) -> Result<Vec<&'static str>> {
    let table = |text: &str| toml::from_str::<toml::Table>(&called(text, &exercise.id));
    let own = std::fs::read_to_string(exercise.file(DESCRIPTION.0))?;
    let (template, own) = (table(DESCRIPTION.1)?, table(&own)?);
    let keys = KEYS.into_iter().filter(|key| own.get(*key) == template.get(*key));
    let is_untouched = |(file, template): &(&str, &str)| {
        let text = std::fs::read_to_string(exercise.file(file));
        text.is_ok_and(|text| text.replace("\r\n", "\n") == called(template, &exercise.id))
    };
    Ok(keys.chain(KERNELS.into_iter().filter(is_untouched).map(|(file, _)| file)).collect())
}

/// The template's text for an exercise of this name.
fn called(template: &str, name: &str) -> String {
    template.replace("scale-rows", name).replace("scale_rows", &name.replace('-', "_"))
}
