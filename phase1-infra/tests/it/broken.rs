//! The gallery of broken kernels: every repaired version is right, and the simulator finds every bug and nothing else.
//!
//! `cargo insta review` (or `INSTA_UPDATE=always cargo test -p phase1-infra --test it broken::`) accepts changed diagnostics.

use std::path::Path;
use std::process::Output;

use assert_cmd::Command;
use bench::gallery::compare::{NO_GPU, compare};
use bench::gallery::testing::{check_findings, check_versions, without_addresses};
use bench::gallery::{Broken, Outcome, Version, counters, simulator};
use bench::record::Record;
use bench::table::Cell;
use common::check::Mismatch;
use common::device_test;
use common::prelude::*;
use phase1_infra::broken::{BROKEN, GALLERY};

fn entry(name: &str) -> &'static Broken {
    GALLERY.find(name).unwrap()
}

device_test! {
    fn every_repaired_kernel_is_right_at_every_size(device) {
        for entry in &BROKEN {
            for &size in entry.sizes {
                let outcome = entry.run(&device, Version::Repaired, size)?;
                assert!(outcome.is_right(), "{}, size {size}: {outcome}", entry.name);
            }
        }
        Ok(())
    }

    /// The bugs of the slow kernels cost time and nothing else.
    fn the_slow_kernels_are_right_at_every_size(device) {
        for entry in BROKEN.iter().filter(|entry| entry.slow) {
            for &size in entry.sizes {
                let outcome = entry.run(&device, Version::Broken, size)?;
                assert!(outcome.is_right(), "{}, size {size}: {outcome}", entry.name);
            }
            assert_eq!(counters(&device, entry)?.is_some(), device.is_sim());
        }
        Ok(())
    }

    /// Sizes at which a bug does no harm on any device, which is how it gets through a test.
    fn some_mistakes_wait_for_a_size(device) {
        for (name, sizes) in [("scale", [0, 4, 1024]), ("warp-sum", [0, 32, 1024]), ("ring-walk", [0, 257, 34_748])] {
            for size in sizes {
                let outcome = entry(name).run(&device, Version::Broken, size)?;
                assert!(outcome.is_right(), "{name}, size {size}: {outcome}");
            }
        }
        Ok(())
    }
}

/// Expected findings of the sanitiser in each broken kernel: the kinds, each with a part of the line.
fn expected(name: &str) -> &'static [(&'static str, &'static str)] {
    match name {
        "difference" => &[("shared-race", "row[column - 1]")],
        "scale" => &[("out-of-bounds", "y[i] = factor * x[i]")],
        "column-sums" => &[("uninitialised-read", "sums[column] +=")],
        // Their values are right and no rule is broken: the bug shows in their counters.
        "transpose" | "scale-rows" => &[],
        "block-sum" => &[("barrier-divergence", "__syncthreads();")],
        "warp-sum" => &[("invalid-mask", "__shfl_down_sync")],
        "rank-of" => &[
            ("shared-race", "tile[1 - now][thread] ="),
            ("shared-race", "smaller += tile[now][k]"),
            ("uninitialised-read", "smaller += tile[now][k]"),
        ],
        "ring-walk" => &[("out-of-bounds", "y[i] = x[at]")],
        "frame" => &[("misaligned", "reinterpret_cast<const float4 *>(x + start)")],
        "add-rows" => &[("use-after-free", "sum += table[row][column]")],
        "count-above" => &[("global-race", "*count += above")],
        _ => panic!("{name} is not in the gallery"),
    }
}

#[test]
fn the_simulator_finds_each_mistake_at_its_line_and_no_other() {
    for entry in &BROKEN {
        check_findings(&simulator(), entry, expected(entry.name));
    }
}

/// The report for each entry, as a reader sees it. For the slow ones it shows counters.
#[test]
fn what_the_command_says_of_each_broken_kernel() {
    for entry in &BROKEN {
        let (outcome, report) = entry.report(&simulator(), Version::Broken).unwrap();
        assert_eq!(outcome.is_right(), entry.slow, "{}: {outcome}", entry.name);
        let name = format!("{}_{}", entry.number, entry.name);
        insta::assert_snapshot!(name, without_addresses(&report));
    }
}

/// A bug need not show in the values. Whether it does on the simulator is luck too, but the same in each run.
#[test]
fn the_sanitiser_finds_mistakes_behind_right_values() {
    for name in ["difference", "scale", "column-sums", "count-above"] {
        let entry = entry(name);
        let outcome = entry.run(&simulator(), Version::Broken, entry.sizes[0]).unwrap();
        assert!(matches!(outcome, Outcome::Found { values: Ok(_), .. }), "{name}: {outcome}");
    }
}

/// Warps take turns on the simulator, so one reads the next tile before the others have filled it.
#[test]
fn the_simulator_does_not_hide_a_buffer_that_is_used_too_soon() {
    let entry = entry("rank-of");
    let outcome = entry.run(&Device::sim(), Version::Broken, entry.sizes[0]).unwrap();
    assert!(matches!(outcome, Outcome::Wrong(_)), "{outcome}");
}

/// Without the sanitiser, the first invalid access ends the launch.
#[test]
fn a_plain_simulator_stops_at_the_first_fault() {
    let entry = entry("scale");
    let outcome = entry.run(&Device::sim(), Version::Broken, entry.sizes[0]).unwrap();
    assert!(matches!(outcome, Outcome::Stopped(Error::Fault { .. })), "{outcome}");
    assert_eq!((outcome.to_string(), outcome.kinds()), ("stopped: out-of-bounds".to_owned(), vec!["out-of-bounds"]));
    assert!(outcome.diagnostics().unwrap().contains("phase1-infra/kernels/broken_02_scale.cu:"));
}

#[test]
fn the_two_versions_of_a_kernel_are_called_alike_and_differ_in_few_lines() {
    // At most the head and the three lines that turn the loops of scale-rows round.
    check_versions(&GALLERY, 4);
    let one_file = |entry: &&Broken| entry.source(Version::Broken).name == entry.source(Version::Repaired).name;
    assert_eq!(BROKEN.iter().filter(one_file).map(|entry| entry.number).collect::<Vec<_>>(), ["11"]);
}

#[test]
fn entries_are_found_by_number_and_by_name() {
    for entry in &BROKEN {
        for key in entry.keys() {
            assert_eq!(GALLERY.find(key).map(|found| found.name), Some(entry.name), "{key}");
        }
    }
    assert!(["", "0", "00", "13", "warp", "Scale"].iter().all(|wanted| GALLERY.find(wanted).is_none()));
}

/// The list asks questions without giving away the answers.
#[test]
fn the_list_does_not_name_the_mistakes() {
    let text = GALLERY.list().to_text();
    for entry in &BROKEN {
        assert!(text.contains(entry.question) && !text.contains(entry.title), "{}", entry.name);
    }
}

#[test]
fn a_padded_tile_costs_no_instruction_so_that_only_banks_tell_it_apart() {
    let table = counters(&Device::sim(), entry("transpose")).unwrap().unwrap();
    assert_eq!(table.rows().len(), 2);
    let [broken, repaired] = [0, 1].map(|version| &table.rows()[version][1..]);
    assert_eq!(broken[..3], repaired[..3]);
    assert!(matches!(broken[3], Cell::Number(wavefronts) if wavefronts > 10.0));
    assert_eq!(repaired[3], Cell::Number(1.0));
}

#[test]
fn outcomes_are_said_in_a_sentence() {
    let compared = |values: &[f32]| common::check::compare(values, &[1.0, 2.0], common::check::Tolerance::exact());
    let right = Outcome::Right(compared(&[1.0, 2.0]).unwrap());
    assert_eq!((right.to_string(), right.is_right()), ("right: 2 values".to_owned(), true));
    let wrong = Outcome::Wrong(compared(&[1.0, f32::NAN]).unwrap_err());
    assert!(wrong.to_string().starts_with("wrong: 1 of 2 values are wrong, the first at 1: NaN"), "{wrong}");
    assert!(!wrong.is_right());
    let lost = Outcome::Wrong(Mismatch::Length { actual: 1, expected: 2 });
    assert_eq!(lost.to_string(), "wrong: 1 values, expected 2");
}

fn phase1(args: &[&str]) -> Output {
    let mut command = Command::cargo_bin("phase1-infra").unwrap();
    command.env("WARP_DEVICE", "sim").arg("broken").args(args).output().unwrap()
}

fn stdout(output: &Output) -> &str {
    std::str::from_utf8(&output.stdout).unwrap()
}

#[test]
fn the_command_fails_for_a_broken_kernel_and_succeeds_for_its_repair() {
    let output = phase1(&["02"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stdout(&output).starts_with("error[out-of-bounds]: kernel `scale`"), "{}", stdout(&output));
    assert!(
        stdout(&output).ends_with("\n\n02 scale, broken: found out-of-bounds; the values are right\n"),
        "{}",
        stdout(&output)
    );

    let output = phase1(&["scale", "--repaired"]);
    assert_eq!((output.status.code(), stdout(&output)), (Some(0), "02 scale, repaired: right: 1001 values\n"));

    let output = phase1(&["4", "--repaired"]);
    assert_eq!(output.status.code(), Some(0));
    assert!(stdout(&output).contains("transpose on the simulator"), "{}", stdout(&output));
}

#[test]
fn the_command_lists_the_gallery_and_answers_an_unknown_name_with_it() {
    let output = phase1(&[]);
    assert_eq!((output.status.code(), stdout(&output)), (Some(0), GALLERY.list().to_text().as_str()));
    let output = phase1(&["13"]);
    assert_eq!(output.status.code(), Some(2));
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(BROKEN.iter().all(|entry| error.contains(entry.number)), "{error}");
    // `--repaired` makes no sense for the list.
    assert_eq!(phase1(&["--repaired"]).status.code(), Some(2));
}

#[test]
fn the_device_may_be_named_before_the_subcommand_and_what_belongs_to_the_steps_may_not() {
    let run = |args: &[&str]| Command::cargo_bin("phase1-infra").unwrap().args(args).output().unwrap();
    let output = run(&["--device", "sim", "broken", "scale", "--repaired"]);
    assert_eq!((output.status.code(), stdout(&output)), (Some(0), "02 scale, repaired: right: 1001 values\n"));
    for args in [&["--list", "broken"][..], &["--save", "run.json", "broken", "02"]] {
        let output = run(args);
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(2) && error.contains("do not go before `broken`"), "{args:?}: {error}");
    }
}

#[test]
fn the_comparison_is_printed_and_kept() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("compared.json");
    let output = phase1(&["--compare", "--save", path.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(0));
    assert!(stdout(&output).starts_with("which tool found what on the simulator"), "{}", stdout(&output));
    let record = Record::open(&path).unwrap();
    let table = record.table(GALLERY.command).unwrap();
    assert_eq!(table.rows().len(), BROKEN.len());
    assert!(stdout(&output).contains(&table.to_text()));
}

#[test]
fn the_simulator_fills_its_own_column_and_says_what_the_others_take() {
    let table = compare(&GALLERY, &simulator(), Path::new("not run")).unwrap();
    assert_eq!(table.rows().len(), BROKEN.len());
    for (row, entry) in table.rows().iter().zip(&BROKEN) {
        assert_eq!(row[..2], [entry.number.into(), entry.title.into()]);
        assert_eq!(row[2..4], [Cell::absent(NO_GPU), Cell::absent(NO_GPU)]);
        assert!(!matches!(row[4], Cell::Absent(_)), "{}", entry.name);
    }
    let text = table.to_text();
    assert!(text.lines().all(|line| line.chars().count() <= bench::table::WIDTH), "{text}");
}
