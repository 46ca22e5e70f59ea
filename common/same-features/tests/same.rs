//! `cargo test -p MEMBER`, and `cargo run -p MEMBER` where there is something to run, find what `cargo test --workspace` has built:
//! every dependency has the same features in all three. A dependency that differs belongs into this crate's `Cargo.toml` or, if it
//! differs in a run too, into `common`'s. (On Linux: other systems have other dependencies.)
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used)]

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

/// Package and version, and the sets of features with which it is built: one, or one for this machine and one for build scripts and
/// macros.
type Features = BTreeMap<String, BTreeSet<String>>;

/// What `cargo tree` says with these arguments.
fn features(args: &[&str]) -> Features {
    let cargo = Command::new(env!("CARGO"))
        .args(["tree", "--locked", "--offline", "--prefix", "none", "--no-dedupe", "--format", "{p}|{f}"])
        .args(args)
        .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")))
        .output()
        .unwrap();
    assert!(cargo.status.success(), "{}", String::from_utf8_lossy(&cargo.stderr));
    let mut features = Features::new();
    for line in String::from_utf8(cargo.stdout).unwrap().lines() {
        if let Some((package, set)) = line.split_once('|') {
            features.entry(package.to_owned()).or_default().insert(set.to_owned());
        }
    }
    features
}

/// Lines on what of `alone` is built with other features than in the workspace.
fn differences(command: &str, alone: &Features, workspace: &Features) -> Vec<String> {
    let differs = |(package, sets): &(&String, &BTreeSet<String>)| !sets.is_subset(&workspace[*package]);
    let line = |(package, sets): (&String, &BTreeSet<String>)| {
        format!("{command}: {package} has {sets:?}, in the workspace {:?}", workspace[package])
    };
    alone.iter().filter(differs).map(line).collect()
}

#[test]
fn each_crate_alone_has_the_features_of_the_workspace() {
    let workspace = features(&["--workspace", "--edges", "normal,build,dev"]);
    let members: Vec<String> = features(&["--workspace", "--depth", "0"])
        .into_keys()
        .map(|package| package.split(' ').next().unwrap().to_owned())
        .collect();
    assert!(members.len() >= 9, "{members:?}");
    let mut found = Vec::new();
    for member in &members {
        // These have no tests of their own, or next to nothing to build.
        if ["instruction-cases", "kernel-headers", "same-features"].contains(&member.as_str()) {
            continue;
        }
        let test = features(&["--package", member, "--edges", "normal,build,dev"]);
        found.extend(differences(&format!("cargo test -p {member}"), &test, &workspace));
        // `media` has nothing to run.
        if member != "media" {
            let run = features(&["--package", member, "--edges", "normal,build"]);
            found.extend(differences(&format!("cargo run -p {member}"), &run, &workspace));
        }
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}
