//! The gallery of asynchronous mistakes: every repaired version is right whenever copies are made, and the simulator finds every
//! bug and nothing else.
//!
//! `cargo insta review` (or `INSTA_UPDATE=always cargo test -p phase4-fusion --test it broken::`) accepts changed diagnostics.

use std::path::Path;
use std::process::Output;

use assert_cmd::Command;
use bench::gallery::compare::{NO_GPU, compare};
use bench::gallery::orders::{ALL, ORDERS, orders, unchecked};
use bench::gallery::testing::{check_findings, check_versions, without_addresses};
use bench::gallery::{Version, sanitising, simulator};
use bench::record::Record;
use bench::table::Cell;
use common::device::SimOptions;
use common::device_test;
use common::prelude::*;
use common::ptx_sim::Asynchrony;
use common::testing::planted::here;
use phase4_fusion::broken::{BROKEN, GALLERY};
use phase4_fusion::report;

device_test! {
    fn every_repaired_kernel_is_right_at_every_size(device) {
        for entry in &BROKEN {
            // Hopper's instructions, and for some of them Hopper itself.
            if here(&device, device.load(entry.source(Version::Repaired)))?.is_none() {
                continue;
            }
            for &size in entry.sizes {
                let outcome = entry.run(&device, Version::Repaired, size)?;
                assert!(outcome.is_right(), "{}, size {size}: {outcome}", entry.name);
            }
        }
        Ok(())
    }
}

/// The sanitiser makes copies late, whatever was requested.
#[test]
fn repaired_kernels_are_right_whenever_copies_are_made() {
    for asynchrony in ORDERS.into_iter().chain([2, 3, 4].map(Asynchrony::Seeded)) {
        let device = Device::sim_with(unchecked(asynchrony));
        for entry in &BROKEN {
            for &size in entry.sizes {
                let outcome = entry.run(&device, Version::Repaired, size).unwrap();
                assert!(outcome.is_right(), "{}, size {size}, {asynchrony}: {outcome}", entry.name);
            }
        }
    }
}

/// Expected findings of the sanitiser in each broken kernel: the kinds, each with a part of the line.
fn expected(name: &str) -> &'static [(&'static str, &'static str)] {
    match name {
        "reverse" => &[
            ("copy-in-flight", "run[255 - thread]"),
            ("unawaited-copy", "copy_run(run, x + first"),
            ("uninitialised-read", "run[255 - thread]"),
        ],
        "smooth" => {
            &[("shared-race", "float sum = ring[above % 4]"), ("uninitialised-read", "float sum = ring[above % 4]")]
        }
        "add" => &[("deadlock", "barrier_wait(full, 0)")],
        "transpose" => &[
            ("uninitialised-read", "barrier_wait(full, 0)"),
            ("invalid-mbarrier", "barrier_wait(full, 0)"),
            ("shared-race", "barrier_init(full, 1)"),
            ("shared-race", "copy_box_to("),
            ("shared-race", "barrier_wait(full, 0)"),
            ("uninitialised-read", "= tile[threadIdx.x][threadIdx.y]"),
        ],
        "sum-frames" => &[
            ("copy-in-flight", "sum += ring[frame % 2]"),
            ("invalid-mbarrier", "barrier_expect("),
            ("copy-in-flight", "copy_run(ring[next % 2]"),
            ("unawaited-copy", "copy_run(ring[next % 2]"),
            ("uninitialised-read", "sum += ring[frame % 2]"),
        ],
        "interleave" => &[("missing-proxy-fence", "store_run(image")],
        "outer-product" => &[("copy-in-flight", "run[thread] = left[row]")],
        "histogram" => &[("unawaited-copy", "add_run(counts, mine")],
        "matvec" => &[("shared-race", "copy_run(ring[stage]")],
        "scores" => &[("register-in-flight", "write(scores, second")],
        "fading-sum" => &[("missing-wgmma-fence", "wgmma<false>(BF16(), sums")],
        "row-sums" => &[("block-exit", "peer_value(&sum, block)")],
        _ => panic!("{name} is not in the gallery"),
    }
}

#[test]
fn the_simulator_finds_each_mistake_at_its_line_and_no_other() {
    for entry in &BROKEN {
        check_findings(&simulator(), entry, expected(entry.name));
    }
}

/// Without device addresses, and without lines of headers and of PTX, which change with every edit of a header.
fn stable(report: &str) -> String {
    let mut text = without_addresses(report);
    for file in [".cuh:", ".ptx:"] {
        let mut parts = text.split(file);
        let mut out = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            out = out + file + "…" + part.trim_start_matches(|digit: char| digit.is_ascii_digit());
        }
        text = out;
    }
    text
}

/// The report for each entry, as a reader sees it.
#[test]
fn what_the_command_says_of_each_broken_kernel() {
    for entry in &BROKEN {
        let (outcome, report) = entry.report(&simulator(), Version::Broken).unwrap();
        assert!(!outcome.is_right(), "{}: {outcome}", entry.name);
        insta::assert_snapshot!(format!("{}_{}", entry.number, entry.name), stable(&report));
    }
}

#[test]
fn a_ragged_last_run_is_all_that_shows_a_wrong_count_of_bytes() {
    let entry = GALLERY.find("add").unwrap();
    for size in [64, 128] {
        let outcome = entry.run(&simulator(), Version::Broken, size).unwrap();
        assert!(outcome.is_right(), "{outcome}");
    }
}

/// The page's claim: copies that are made at once hide most mistakes, and late copies show some of them. Only rules show all of
/// them.
#[test]
fn early_copies_hide_most_mistakes_and_late_ones_some() {
    let table = orders(&GALLERY).unwrap();
    let [kernels @ .., all] = table.rows() else { panic!("no rows") };
    assert_eq!((kernels.len(), &all[0]), (BROKEN.len(), &ALL.into()));
    let right = |column: usize| kernels.iter().filter(|row| row[column] == "right".into()).count();
    let counts @ [early, seeded, late, checked] = [2, 3, 4, 5].map(right);
    assert!(early >= 9 && early > seeded && seeded >= late && late >= 5, "{counts:?}");
    assert_eq!((checked, &all[2..]), (0, &counts.map(|count| Cell::Number(count as f64))[..]));
    for (row, entry) in kernels.iter().zip(&BROKEN) {
        let mut kinds: Vec<&str> = expected(entry.name).iter().map(|(kind, _)| *kind).collect();
        kinds.sort_unstable();
        kinds.dedup();
        let Cell::Text(found) = &row[5] else { panic!("{}: {:?}", entry.name, row[5]) };
        let mut found: Vec<&str> = found.split('\n').collect();
        found.sort_unstable();
        assert_eq!(found, kinds, "{}", entry.name);
    }
}

/// A launch's result does not depend on how many blocks run at a time, so that the table is the same everywhere.
#[test]
fn pseudo_random_times_are_the_same_in_each_run() {
    let entry = GALLERY.find("outer-product").unwrap();
    let run = |workers, seed| {
        let options = SimOptions { workers, ..unchecked(Asynchrony::Seeded(seed)) };
        entry.run(&Device::sim_with(options), Version::Broken, entry.sizes[0]).unwrap().to_string()
    };
    assert_eq!(run(1, 1), run(2, 1));
    assert_ne!(run(1, 1), run(1, 2));
}

#[test]
fn the_two_versions_of_a_kernel_differ_only_by_the_bug() {
    check_versions(&GALLERY, 1);
    for entry in &BROKEN {
        let [broken, repaired] = [Version::Broken, Version::Repaired].map(|version| &entry.source(version).source);
        // What is not between the markers of the repair stands in the broken file too, in this order.
        let mut repairing = false;
        let mut left = broken.lines();
        for line in repaired.lines() {
            match line.trim() {
                "// ANCHOR: repair" => repairing = true,
                "// ANCHOR_END: repair" => repairing = false,
                _ if repairing => {}
                // The heads say how each version is run.
                _ => {
                    let code = line.split("// run:").next();
                    assert!(left.any(|other| other.split("// run:").next() == code), "{}: `{line}`", entry.name);
                }
            }
        }
    }
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
fn the_comparison_has_a_row_for_each_kernel_and_so_has_its_record() {
    let table = compare(&GALLERY, &simulator(), Path::new("not run")).unwrap();
    for (row, entry) in table.rows().iter().zip(&BROKEN) {
        assert_eq!(row[..2], [entry.number.into(), entry.title.into()]);
        assert_eq!(row[2..4], [Cell::absent(NO_GPU), Cell::absent(NO_GPU)]);
    }
    let text = table.to_text();
    assert!(text.lines().all(|line| line.chars().count() <= bench::table::WIDTH), "{text}");
    let records = report::records().unwrap();
    for recorded in records.iter().filter_map(|record| record.table(GALLERY.command)) {
        assert_eq!(recorded.rows().len(), table.rows().len());
        for (recorded, row) in recorded.rows().iter().zip(table.rows()) {
            // What the GPU's columns hold was measured; the rest is as it is now.
            assert_eq!((&recorded[..2], &recorded[4]), (&row[..2], &row[4]));
        }
    }
}

fn phase4(args: &[&str]) -> Output {
    let mut command = Command::cargo_bin("phase4-fusion").unwrap();
    command.env("WARP_DEVICE", "sim").args(args).output().unwrap()
}

fn stdout(output: &Output) -> &str {
    std::str::from_utf8(&output.stdout).unwrap()
}

#[test]
fn the_command_fails_for_a_broken_kernel_and_succeeds_for_its_repair() {
    let output = phase4(&["broken", "06"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stdout(&output).starts_with("error[missing-proxy-fence]: kernel `interleave`"), "{}", stdout(&output));
    let verdict = "\n\n06 interleave, broken: found missing-proxy-fence; the values are right\n";
    assert!(stdout(&output).ends_with(verdict), "{}", stdout(&output));
    let output = phase4(&["broken", "interleave", "--repaired"]);
    assert_eq!((output.status.code(), stdout(&output)), (Some(0), "06 interleave, repaired: right: 1920 values\n"));
}

#[test]
fn the_command_makes_copies_when_it_is_told_to_and_checks_nothing_else() {
    let run = |order: &str| {
        let output = phase4(&["broken", "outer-product", "--async", order]);
        (output.status.code(), stdout(&output).to_owned())
    };
    assert_eq!(run("early"), (Some(0), "07 outer-product, broken: right: 4608 values\n".to_owned()));
    for order in ["late", "seed=1"] {
        let (status, said) = run(order);
        assert!(status == Some(1) && said.starts_with("07 outer-product, broken: wrong: "), "{order}: {said}");
    }
    assert_eq!(run("soon").0, Some(2));
    let early = ["broken", "outer-product", "--async", "early"];
    for args in [&["--sanitize"][..], &["--orders"], &["--compare"]] {
        assert_eq!(phase4(&[&early[..], args].concat()).status.code(), Some(2), "{args:?}");
    }
    assert_eq!(phase4(&["broken", "--async", "early"]).status.code(), Some(2));
}

#[test]
fn the_command_prints_what_it_lists_and_compares() {
    let output = phase4(&["broken"]);
    assert_eq!((output.status.code(), stdout(&output)), (Some(0), GALLERY.list().to_text().as_str()));
    let output = phase4(&["broken", "--orders"]);
    assert_eq!((output.status.code(), stdout(&output)), (Some(0), orders(&GALLERY).unwrap().to_text().as_str()));
    for args in [&["--save", "run.json", "broken", "02"][..], &["broken", "13"], &["broken", "--repaired"]] {
        assert_eq!(phase4(args).status.code(), Some(2), "{args:?}");
    }
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("compared.json");
    let output = phase4(&["broken", "--compare", "--save", path.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(0));
    let record = Record::open(&path).unwrap();
    assert!(stdout(&output).contains(&record.table(GALLERY.command).unwrap().to_text()));
}

/// Every sanitised launch makes its copies late: its findings do not depend on the requested order.
#[test]
fn findings_do_not_depend_on_the_order() {
    for entry in &BROKEN {
        let places = ORDERS.map(|asynchrony| {
            let device = Device::sim_with(SimOptions { asynchrony, ..sanitising() });
            entry.run(&device, Version::Broken, entry.sizes[0]).unwrap().places()
        });
        assert!(places.iter().all(|found| *found == places[0]), "{}: {places:?}", entry.name);
    }
}
