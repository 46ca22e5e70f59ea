//! Helpers for the tests of a gallery of broken kernels.

use crate::gallery::{Broken, Gallery, Version};
use common::compile::ptx::Param;
use common::prelude::*;

/// The text of a diagnostic without device addresses, which depend on the simulator's memory layout.
pub fn without_addresses(text: &str) -> String {
    let mut parts = text.split("0x7");
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        out.push_str("0x7…");
        out.push_str(part.trim_start_matches(|digit: char| digit.is_ascii_hexdigit()));
    }
    out
}

/// Checks that entries are numbered from 1, that the files of both versions are named after them and have the same kernels, and that
/// at most `lines` lines of the broken one differ. An entry whose bug is on the host has one file for both.
///
/// # Panics
/// If an entry breaks one of these rules.
pub fn check_versions(gallery: &Gallery, lines: usize) {
    for (i, entry) in gallery.entries.iter().enumerate() {
        assert_eq!(entry.number, format!("{:02}", i + 1));
        let [broken, repaired] = [Version::Broken, Version::Repaired].map(|version| entry.source(version));
        let suffix = format!("_{}_{}", entry.number, entry.name.replace('-', "_"));
        assert_eq!(broken.name, format!("{}{suffix}", gallery.command));
        assert_eq!(signatures(broken), signatures(repaired), "{}", entry.name);
        if broken.name == repaired.name {
            continue;
        }
        assert_eq!(repaired.name, format!("repaired{suffix}"));
        let kept = |line: &str| repaired.source.lines().any(|other| code(other) == code(line));
        let changed = broken.source.lines().filter(|line| !kept(line)).count();
        assert!(broken.source != repaired.source && changed <= lines, "{}: {changed} lines", entry.name);
    }
}

/// The line without what its head says of running that version.
fn code(line: &str) -> &str {
    line.split("// run:").next().unwrap_or_default().trim()
}

/// Each kernel of a file with its parameters.
fn signatures(source: &KernelSource) -> Vec<(String, Vec<Param>)> {
    let module = Device::sim().load(source).expect("shipped PTX loads");
    let signature =
        |name: &str| (name.to_owned(), module.kernel(name).expect("a kernel by its name").params().to_vec());
    module.kernel_names().map(signature).collect()
}

/// Checks that the sanitiser finds in the broken version, at the first size, exactly these kinds of fault, each at a line that
/// contains the text beside it.
///
/// # Panics
/// If it finds something else.
pub fn check_findings(device: &Device, entry: &Broken, expected: &[(&str, &str)]) {
    let outcome = entry.run(device, Version::Broken, entry.sizes[0]).expect("an outcome");
    let source = &entry.source(Version::Broken).source;
    let line =
        |number: Option<u32>| source.lines().nth(number.expect("a line") as usize - 1).expect("a line of the file");
    let places = outcome.places();
    assert_eq!(places.len(), expected.len(), "{}: {places:?}", entry.name);
    for ((kind, at), (expected, code)) in places.into_iter().zip(expected) {
        assert_eq!(kind, *expected, "{}", entry.name);
        assert!(line(at).contains(code), "{}: {}", entry.name, line(at));
    }
}
