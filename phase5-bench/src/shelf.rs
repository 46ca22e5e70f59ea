//! The recorded runs that tables show where this machine has no number: those that come with the course, and those that a reader
//! adopted. Of several, those of the nearest device are shown.
//!
//! Nearness is to the device of the run that was adopted last: it is the reader's own. The same device by name is nearest, then
//! one of the same compute capability, then one of the same architecture (its major number), then the others by the distance of
//! their compute capabilities. Of devices that are equally near, and where nothing was adopted, the newest run comes first.

use std::cmp::Reverse;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use bench::command;
use bench::record::Record;

use crate::{Error, Result, records};

/// The options of `phase5-bench adopt`.
#[derive(Clone, Debug, clap::Args)]
pub struct AdoptArgs {
    /// The run, which --save wrote
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

/// Directory of adopted runs: `WARP_RECORDS_DIR`, else `warp-by-warp/records` in the platform's data directory. `None` if no home
/// directory is known.
pub fn directory() -> Option<PathBuf> {
    directory_by(|name| std::env::var_os(name))
}

/// [`directory`], with the environment read through `var`.
fn directory_by(var: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    if let Some(dir) = var("WARP_RECORDS_DIR").filter(|dir| !dir.is_empty()) {
        return Some(dir.into());
    }
    let absolute = |name| var(name).map(PathBuf::from).filter(|dir| dir.is_absolute());
    let base = if cfg!(windows) {
        absolute("LOCALAPPDATA")
    } else if cfg!(target_os = "macos") {
        absolute("HOME").map(|home| home.join("Library/Application Support"))
    } else {
        absolute("XDG_DATA_HOME").or_else(|| absolute("HOME").map(|home| home.join(".local/share")))
    };
    Some(base?.join("warp-by-warp").join("records"))
}

/// Copies a run to the adopted ones, replacing an earlier one of the same device, and reports it.
///
/// # Errors
/// [`Error::Shelf`] if it is a simulator's or there is no directory for it; if it is not a run, or cannot be written.
pub fn command(AdoptArgs { file }: &AdoptArgs) -> Result<()> {
    let directory = directory().ok_or_else(|| Error::Shelf {
        path: file.clone(),
        reason: "no home directory is known to keep it in; WARP_RECORDS_DIR names one".to_owned(),
    })?;
    let kept = adopt(file, &directory)?;
    command::say("adopted", kept.display());
    Ok(())
}

/// Copies the run in `file` to `directory`, and returns its path.
fn adopt(file: &Path, directory: &Path) -> Result<PathBuf> {
    let refuse = |reason: &str| Err(Error::Shelf { path: file.to_owned(), reason: reason.to_owned() });
    let record = Record::open(file)?;
    if record.simulated {
        return refuse("it is a simulator's, which every machine has itself; a run on a GPU can be adopted");
    }
    if record.tables.is_empty() {
        return refuse("it has no tables");
    }
    fs::create_dir_all(directory).map_err(common::Error::io(directory))?;
    let path = directory.join(file_name(&record.device_name));
    record.save(&path)?;
    Ok(path)
}

/// `nvidia-h100-80gb-hbm3.json`: one for each device, whatever characters its name contains.
fn file_name(device: &str) -> String {
    let letters = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
    let words: String = device.chars().map(letters).collect();
    let words: Vec<&str> = words.split('-').filter(|word| !word.is_empty()).collect();
    format!("{}.json", if words.is_empty() { "gpu".to_owned() } else { words.join("-") })
}

/// The adopted runs, the newest first. One that cannot be read is left out with a warning.
fn adopted(directory: &Path) -> Vec<Record> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut files: Vec<PathBuf> = entries.filter(|path| path.extension().is_some_and(|end| end == "json")).collect();
    files.sort();
    let read = |path: &PathBuf| match Record::open(path) {
        Ok(record) => Some(record),
        Err(error) => {
            command::warn(format!("an adopted run is not shown: {error}"));
            None
        }
    };
    let mut records: Vec<Record> = files.iter().filter_map(read).collect();
    records.sort_by(|a, b| b.date.cmp(&a.date));
    records
}

/// Recorded runs.
#[derive(Clone, Debug, Default)]
pub struct Shelf {
    /// The nearest first.
    runs: Vec<Record>,
    /// Whether the first of them was adopted: the others are sorted by distance from its device.
    has_own: bool,
}

impl Shelf {
    /// Opens the adopted runs, and those that come with the course.
    ///
    /// # Errors
    /// If a file that comes with the course is not a run.
    pub fn open() -> Result<Shelf> {
        Ok(Shelf::of(directory().as_deref().map(adopted).unwrap_or_default(), records()?))
    }

    /// A shelf of adopted runs, newest first, and those of the course.
    fn of(adopted: Vec<Record>, of_course: Vec<Record>) -> Shelf {
        let own = adopted.first().cloned();
        let mut runs: Vec<Record> = adopted.into_iter().chain(of_course).collect();
        if let Some(own) = &own {
            runs.sort_by_key(|run| (distance(run, own), Reverse(run.date.clone())));
        }
        Shelf { runs, has_own: own.is_some() }
    }

    /// All runs, nearest first.
    pub fn runs(&self) -> &[Record] {
        &self.runs
    }

    /// The runs that have the table `name`, nearest first; equally near ones by the date of the table's measurement.
    pub fn with_table(&self, name: &str) -> Vec<&Record> {
        let mut runs: Vec<&Record> = self.runs.iter().filter(|run| run.table(name).is_some()).collect();
        let own = self.runs.first().filter(|_| self.has_own);
        runs.sort_by_key(|run| (own.map(|own| distance(run, own)), Reverse(run.date_of(name))));
        runs
    }
}

/// Distance between the devices of two runs: 0 is the same.
fn distance(record: &Record, own: &Record) -> u32 {
    if record.device_name == own.device_name {
        return 0;
    }
    match (record.compute_capability(), own.compute_capability()) {
        (Some(a), Some(b)) if a == b => 1,
        (Some((a, _)), Some((b, _))) if a == b => 2,
        (Some((a, x)), Some((b, y))) => 2 + (10 * a + x).abs_diff(10 * b + y),
        _ => u32::MAX,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A run of this device on this day.
    fn run(name: &str, capability: &str, date: &str) -> Record {
        let mut record = records().unwrap().remove(0);
        record.device_name = name.to_owned();
        record.device = format!("cuda:0 {name} ({capability})");
        record.date = format!("{date}T00:00:00Z");
        record
    }

    #[test]
    fn the_nearest_device_comes_first() {
        let of_course = || vec![run("NVIDIA H200", "sm_90", "2026-11-22"), run("NVIDIA A100", "sm_80", "2026-11-23")];
        let order = |adopted: Vec<Record>| -> Vec<String> {
            Shelf::of(adopted, of_course()).runs.into_iter().map(|run| run.device_name).collect()
        };
        assert_eq!(order(vec![]), ["NVIDIA H200", "NVIDIA A100"], "as the course has them");
        let h100 = || run("NVIDIA H100", "sm_90", "2026-12-01");
        assert_eq!(order(vec![h100()]), ["NVIDIA H100", "NVIDIA H200", "NVIDIA A100"]);
        let a10 = || run("NVIDIA A10", "sm_86", "2026-12-02");
        assert_eq!(order(vec![a10()]), ["NVIDIA A10", "NVIDIA A100", "NVIDIA H200"], "by architecture");
        assert_eq!(order(vec![a10(), h100()]), ["NVIDIA A10", "NVIDIA A100", "NVIDIA H100", "NVIDIA H200"]);
        // sm_75 is nearer to sm_80 than to sm_90.
        assert_eq!(order(vec![run("Tesla T4", "sm_75", "2026-12-01")]), ["Tesla T4", "NVIDIA A100", "NVIDIA H200"]);
        let own = run("NVIDIA H200", "sm_90", "2026-12-01");
        let shelf = Shelf::of(vec![own], of_course());
        assert_eq!(shelf.runs[0].date, "2026-12-01T00:00:00Z", "one's own before the course's");
    }

    #[test]
    fn of_runs_that_are_equally_near_the_newest_table_is_shown() {
        let shelf = Shelf::of(Vec::new(), records().unwrap());
        for table in crate::tables::TABLES {
            let dates: Vec<&str> = shelf.with_table(table.name).iter().map(|run| run.date_of(table.name)).collect();
            assert!(dates.is_sorted_by(|a, b| a >= b), "{}: {dates:?}", table.name);
        }
        // But never before a nearer one.
        let own = run("NVIDIA H100", "sm_90", "2020-01-01");
        assert_eq!(Shelf::of(vec![own.clone()], records().unwrap()).with_table("gemm")[0].date, own.date);
        assert!(Shelf::default().with_table("gemm").is_empty());
    }

    #[test]
    fn a_run_is_adopted_in_place_of_the_one_before_and_a_simulators_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let (file, shelf) = (dir.path().join("run.json"), dir.path().join("shelf/deeper"));
        let save = |record: &Record| record.save(&file).unwrap();
        save(&run("NVIDIA GeForce RTX 4090", "sm_89", "2026-12-01"));
        let kept = adopt(&file, &shelf).unwrap();
        assert_eq!(kept, shelf.join("nvidia-geforce-rtx-4090.json"));
        save(&run("NVIDIA GeForce RTX 4090", "sm_89", "2026-12-02"));
        adopt(&file, &shelf).unwrap();
        fs::write(shelf.join("broken.json"), "{}").unwrap();
        let all = adopted(&shelf);
        assert_eq!((all.len(), all[0].date.as_str()), (1, "2026-12-02T00:00:00Z"));
        let mut simulated = run("ptx-sim", "", "2026-12-01");
        simulated.simulated = true;
        save(&simulated);
        assert!(adopt(&file, &shelf).unwrap_err().to_string().contains("a simulator's"));
        let mut empty = run("NVIDIA L4", "sm_89", "2026-12-01");
        empty.tables.clear();
        save(&empty);
        assert!(adopt(&file, &shelf).unwrap_err().to_string().contains("no tables"));
        assert_eq!(adopted(Path::new("/no/such/directory")), []);
    }

    #[test]
    fn names_of_devices_become_names_of_files() {
        assert_eq!(file_name("NVIDIA H100 80GB HBM3"), "nvidia-h100-80gb-hbm3.json");
        assert_eq!(file_name("../../../etc/passwd"), "etc-passwd.json");
        assert_eq!(file_name("…"), "gpu.json");
    }

    #[test]
    fn the_directory_is_named_or_the_platforms() {
        let named = directory_by(|name| (name == "WARP_RECORDS_DIR").then(|| "here".into()));
        assert_eq!(named, Some("here".into()));
        assert_eq!(directory_by(|_| None), None);
        let home = std::env::temp_dir();
        let found = directory_by(|name| matches!(name, "HOME" | "LOCALAPPDATA").then(|| home.clone().into_os_string()));
        assert!(found.is_some_and(|found| found.starts_with(&home) && found.ends_with("warp-by-warp/records")));
    }
}
