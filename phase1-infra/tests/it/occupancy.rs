//! The occupancy calculator: the command, and that the book's script says the same.

use std::io::ErrorKind;
use std::process::{Command, Output};

use bench::table::{Cell, Table};
use common::ptx_sim::{Limits, Occupancy};
use phase1_infra::occupancy::{limits_table, sentences};

fn occupancy(args: &[&str]) -> Output {
    let mut command = Command::new(assert_cmd::cargo::cargo_bin!("phase1-infra"));
    command.env_remove("WARP_DEVICE").arg("occupancy").args(args).output().unwrap()
}

#[test]
fn the_command_says_what_fits_and_what_would_admit_one_more() {
    let output = occupancy(&["--registers", "128", "--threads", "256", "--shared", "33792", "--device", "sim"]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success() && text.starts_with("occupancy on 9.0: 256 threads"), "{text}");
    assert!(text.contains("2 blocks, 16 of 64 warps (25 %), limited by registers."), "{text}");
    assert!(text.contains("One more block fits with at most 80 registers per thread."), "{text}");
    // A capability that is named needs no device.
    let output = occupancy(&["--capability", "8.6", "--threads", "64", "--format", "json", "--device", "cuda:99"]);
    let tables: Vec<Table> = serde_json::from_slice(&output.stdout).unwrap();
    assert!(
        tables[0].notes[0].starts_with("16 blocks, 32 of 48 warps (67 %), limited by blocks."),
        "{:?}",
        tables[0].notes
    );
}

#[test]
fn what_no_kernel_can_take_is_refused() {
    for (args, reason) in [
        (["--capability", "6.1"], "compute capability 6.1 are not known"),
        (["--registers", "256"], "256 is not in 1..=255"),
        (["--threads", "0"], "0 is not in 1..=1024"),
        (["--shared", "-1"], "unexpected argument"),
    ] {
        let output = occupancy(&args);
        let error = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success() && error.contains(reason), "{error}");
    }
}

/// The script's results for blocks of many kinds, from node.js, are those of Rust; its limits are those of the table that is on its
/// page.
#[test]
fn the_books_script_says_the_same() {
    let limits = limits_table();
    let headings: Vec<&str> = limits.columns.iter().map(|column| column.heading.as_str()).collect();
    let mut known = serde_json::Map::new();
    for row in limits.rows() {
        let Cell::Text(capability) = &row[0] else { panic!("{row:?}") };
        let numbers = row.iter().zip(&headings).skip(1).map(|(cell, heading)| {
            let Cell::Number(number) = cell else { panic!("{cell:?}") };
            ((*heading).to_owned(), serde_json::Value::from(*number))
        });
        known.insert(capability.clone(), serde_json::Value::Object(numbers.collect()));
    }
    let mut blocks = Vec::new();
    let mut expected = Vec::new();
    for name in Limits::known() {
        let limits = Limits::of(&name).unwrap();
        let digits = name.trim_start_matches("sm_");
        let capability = format!("{}.{}", &digits[..digits.len() - 1], &digits[digits.len() - 1..]);
        for threads in [1, 32, 33, 96, 128, 256, 384, 768, 1024] {
            for shared in [0, 1, 1024, 16 << 10, 33_792, 48 << 10, 99 << 10, limits.shared_per_block(), 1 << 20] {
                for registers in [1, 16, 32, 33, 40, 64, 128, 168, 255] {
                    blocks.push(serde_json::json!([capability, { "threads": threads, "shared": shared, "registers": registers }]));
                    let Occupancy { blocks, warps, max_warps, limiter } =
                        Occupancy::of(&limits, threads, shared, Some(registers));
                    let more = Occupancy::one_more(&limits, threads, shared, Some(registers));
                    let more: Vec<_> = more.iter().map(|more| (more.limiter.name(), more.at_most)).collect();
                    expected.push(serde_json::json!([
                        { "blocks": blocks, "warps": warps, "maxWarps": max_warps, "limiter": limiter.name(), "oneMore": more },
                        sentences(&limits, threads, shared, registers),
                    ]));
                }
            }
        }
    }
    let source = include_str!("../../../book/occupancy.js");
    let program = format!(
        "{source}\nconst known = {};\nconst blocks = {};\nconsole.log(JSON.stringify(blocks.map(([capability, block]) => \
         [occupancy.residence(known[capability], block), occupancy.sentences(known[capability], block)])));",
        serde_json::Value::Object(known),
        serde_json::Value::Array(blocks.clone()),
    );
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("occupancy.js");
    std::fs::write(&file, program).unwrap();
    let output = match Command::new("node").arg(&file).output() {
        Ok(output) => output,
        Err(error) if error.kind() == ErrorKind::NotFound => {
            println!("skipped: no node.js here to run the script");
            return;
        }
        Err(error) => panic!("cannot run node: {error}"),
    };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let found: Vec<serde_json::Value> = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(found.len(), expected.len());
    for ((block, found), expected) in blocks.iter().zip(found).zip(expected) {
        assert_eq!(found, expected, "{block}");
    }
}
