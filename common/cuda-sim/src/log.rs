//! The log: the library appends findings and profiles to a file, a JSON object per line, and the launcher sums them up.

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::Path;

use ptx_sim::{Fault, Profile, kernel_name};
use serde::{Deserialize, Serialize};
use tabled::builder::Builder;
use tabled::settings::object::Columns;
use tabled::settings::{Alignment, Style};

/// A finding or a fault of a kernel.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq, Eq)]
pub struct Entry {
    /// Name of the kind: `global-race`.
    pub kind: String,
    /// The kernel, as PTX names it.
    pub kernel: String,
    /// File of the line at fault: the CUDA source if the PTX names it.
    pub file: String,
    /// The line, from 1.
    pub line: u32,
    /// One sentence.
    pub message: String,
    /// Identifier of the process.
    pub process: u32,
}

impl From<&Fault> for Entry {
    fn from(fault: &Fault) -> Self {
        let (file, line) = fault.place();
        Self {
            kind: fault.kind.name().to_owned(),
            kernel: fault.kernel.clone(),
            file: file.to_owned(),
            line,
            message: fault.message.clone(),
            process: std::process::id(),
        }
    }
}

/// A launch of a kernel that was profiled.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq, Eq)]
pub struct Launch {
    /// The kernel, as PTX names it.
    pub kernel: String,
    /// Counters by the names of [`ptx_sim::Counters`], with `flops` and the bytes of distinct sectors.
    pub counters: BTreeMap<String, u64>,
    /// Identifier of the process.
    pub process: u32,
}

impl From<&Profile> for Launch {
    fn from(profile: &Profile) -> Self {
        let named = profile.counters.named().into_iter().map(|(name, _, value)| (name, value));
        let more = [
            ("flops", profile.flops),
            ("unique_load_bytes", profile.unique_load_bytes),
            ("unique_store_bytes", profile.unique_store_bytes),
        ];
        let counters = named.chain(more).map(|(name, value)| (name.to_owned(), value)).collect();
        Self { kernel: profile.kernel.clone(), counters, process: std::process::id() }
    }
}

/// A line of the log.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq, Eq)]
#[serde(untagged)]
pub enum Line {
    /// A mistake of a kernel.
    Finding(Entry),
    /// A profiled launch.
    Launch(Launch),
}

impl Line {
    /// Appends the line to a file, in one write, so that several processes may share it.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn append(&self, path: &Path) -> io::Result<()> {
        let mut line = serde_json::to_string(self)?;
        line.push('\n');
        OpenOptions::new().append(true).create(true).open(path)?.write_all(line.as_bytes())
    }
}

/// All of a log, in order.
#[derive(Clone, Debug, Default)]
pub struct Log {
    /// Mistakes of kernels.
    pub findings: Vec<Entry>,
    /// Launches, if they were profiled.
    pub launches: Vec<Launch>,
}

impl Log {
    /// Reads a file.
    ///
    /// # Errors
    /// If the file cannot be read, or is no log.
    pub fn read(path: &Path) -> io::Result<Self> {
        let mut log = Self::default();
        for line in std::fs::read_to_string(path)?.lines() {
            match serde_json::from_str(line)? {
                Line::Finding(entry) => log.findings.push(entry),
                Line::Launch(launch) => log.launches.push(launch),
            }
        }
        Ok(log)
    }

    /// A row for each kernel, the one with most instructions first. Ratios are those of [`ptx_sim`]'s profile: sectors that a
    /// warp's accesses touched to those that the same bytes would fill, and passes through shared memory to accesses.
    #[must_use]
    pub fn kernels(&self) -> String {
        let mut kernels: BTreeMap<&str, (u64, BTreeMap<&str, u64>)> = BTreeMap::new();
        for launch in &self.launches {
            let (launches, sums) = kernels.entry(&launch.kernel).or_default();
            *launches += 1;
            for (name, value) in &launch.counters {
                *sums.entry(name).or_default() += value;
            }
        }
        let mut rows: Vec<_> = kernels.into_iter().collect();
        rows.sort_by_key(|(_, (_, sums))| std::cmp::Reverse(sums.get("warp_instructions").copied()));
        let mut table = Builder::default();
        table.push_record(HEADINGS);
        for (kernel, (launches, sums)) in rows {
            let sum = |names: &[&str]| names.iter().filter_map(|name| sums.get(name)).sum::<u64>();
            let ratio = |above: &[&str], below: &[&str]| match (sum(above), sum(below)) {
                (_, 0) => "-".to_owned(),
                (above, below) => format!("{:.2}", above as f64 / below as f64),
            };
            table.push_record([
                kernel_name(kernel),
                launches.to_string(),
                sum(&["warp_instructions"]).to_string(),
                ratio(&["lane_instructions"], &["warp_instructions"]),
                sum(&["unique_load_bytes"]).to_string(),
                ratio(&["global_load_sectors"], &["global_load_sectors_ideal"]),
                sum(&["unique_store_bytes"]).to_string(),
                ratio(&["global_store_sectors"], &["global_store_sectors_ideal"]),
                ratio(
                    &["shared_load_wavefronts", "shared_store_wavefronts"],
                    &["shared_load_requests", "shared_store_requests"],
                ),
                ratio(&["flops"], &["unique_load_bytes", "unique_store_bytes"]),
            ]);
        }
        table.build().with(Style::markdown()).modify(Columns::new(1..), Alignment::right()).to_string()
    }
}

const HEADINGS: [&str; 10] = [
    "kernel",
    "launches",
    "warp instructions",
    "lanes",
    "bytes read",
    "sectors ÷ ideal",
    "bytes written",
    "sectors ÷ ideal",
    "passes ÷ shared access",
    "FLOP/byte",
];

/// One line for each kind: how many lines of code have it.
#[must_use]
pub fn summary(entries: &[Entry]) -> String {
    let mut kinds: BTreeMap<&str, usize> = BTreeMap::new();
    for entry in entries {
        *kinds.entry(&entry.kind).or_default() += 1;
    }
    let kinds: Vec<String> = kinds.iter().map(|(kind, count)| format!("{count} {kind}")).collect();
    match entries.len() {
        0 => "no findings".to_owned(),
        1 => format!("1 finding: {}", kinds.join(", ")),
        count => format!("{count} findings: {}", kinds.join(", ")),
    }
}
