//! The gallery of published mistakes: every repaired version is right whenever copies are made, and the simulator finds what it can.

use std::path::Path;

use bench::gallery::compare::compare;
use bench::gallery::orders::{ALL, ORDERS, orders, unchecked};
use bench::gallery::testing::{check_findings, check_versions};
use bench::gallery::{Version, sanitising, simulator};
use common::device::SimOptions;
use common::device_test;
use common::prelude::*;
use common::ptx_sim::Asynchrony;
use common::testing::planted::here;
use phase4_fusion::published::{GALLERY, PUBLISHED};

device_test! {
    fn every_repaired_kernel_is_right_at_every_size(device) {
        for entry in &PUBLISHED {
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
fn repaired_kernels_are_right_and_clean_whenever_copies_are_made() {
    let devices = ORDERS.into_iter().chain([2, 3].map(Asynchrony::Seeded)).map(unchecked).map(Device::sim_with);
    for device in devices.chain([simulator()]) {
        for entry in &PUBLISHED {
            for &size in entry.sizes {
                let outcome = entry.run(&device, Version::Repaired, size).unwrap();
                assert!(outcome.is_right(), "{}, size {size}: {outcome}", entry.name);
            }
        }
    }
}

/// Expected findings of the sanitiser in each broken kernel: the kinds, each with a part of the line.
fn expected(name: &str) -> &'static [(&'static str, &'static str)] {
    match name {
        "combine" => &[],
        "states" => &[("missing-proxy-fence", "store_run(last")],
        "activate" => &[("missing-proxy-fence", "store_box(y")],
        "product" => &[("missing-proxy-fence", "multiply(sums, a_tile")],
        "steps" => &[
            ("tile-in-flight", "copy_box_to(0, shared_address(a_tile"),
            ("tile-in-flight", "copy_box_to(0, shared_address(b_tile"),
        ],
        "halves" => &[],
        "pairs" => &[
            ("copy-in-flight", "peer_value(&half[thread], 1)"),
            ("unawaited-copy", "copy_run(half"),
            ("uninitialised-read", "peer_value(&half[thread], 1)"),
        ],
        "dot" => &[("deadlock", "barrier_wait(empty")],
        "ring" => &[
            ("copy-in-flight", "sum += stages[stage]"),
            ("unawaited-copy", "copy_run(stages[stage]"),
            ("uninitialised-read", "sum += stages[stage]"),
        ],
        "reverse" => &[("shared-race", "barrier_arrive(all)"), ("shared-race", "barrier_wait(all, 0)")],
        _ => panic!("{name} is not in the gallery"),
    }
}

#[test]
fn the_simulator_finds_eight_of_ten_at_their_lines_and_nothing_else() {
    for entry in &PUBLISHED {
        check_findings(&simulator(), entry, expected(entry.name));
    }
    assert_eq!(PUBLISHED.iter().filter(|entry| expected(entry.name).is_empty()).count(), 2);
}

/// Most pipelines leave out the proxy fence between ordinary reads and a copy that writes, and the scope of an arrival.
#[test]
fn a_strict_simulator_finds_the_other_two() {
    let strict = Device::sim_with(SimOptions { strict: true, ..sanitising() });
    for (name, expected) in [
        ("combine", ("missing-proxy-fence", "copy_run(ring[stage]")),
        ("halves", ("shared-race", "peer_value(&half[thread], 1)")),
    ] {
        let entry = GALLERY.find(name).unwrap();
        check_findings(&strict, entry, &[expected]);
        assert!(entry.run(&strict, Version::Repaired, entry.sizes[0]).unwrap().is_right(), "{name}");
    }
}

/// Sizes at which a bug does no harm.
#[test]
fn some_mistakes_wait_for_a_size() {
    for (name, size) in [("states", 1), ("steps", 2), ("dot", 2), ("ring", 1)] {
        let outcome = GALLERY.find(name).unwrap().run(&simulator(), Version::Broken, size).unwrap();
        assert!(outcome.is_right(), "{name}, size {size}: {outcome}");
    }
}

/// The page's claim: early copies hide all mistakes but the hang, and late ones show three more.
#[test]
fn values_show_few_of_the_mistakes() {
    let table = orders(&GALLERY).unwrap();
    let [kernels @ .., all] = table.rows() else { panic!("no rows") };
    assert_eq!((kernels.len(), &all[0]), (PUBLISHED.len(), &ALL.into()));
    let wrong = |column: usize| {
        let shown = kernels.iter().zip(&PUBLISHED).filter(|(row, _)| row[column] != "right".into());
        shown.map(|(_, entry)| entry.name).collect::<Vec<_>>()
    };
    assert_eq!(wrong(2), ["dot"]);
    assert_eq!(wrong(4), ["steps", "pairs", "dot", "ring"]);
}

#[test]
fn the_two_versions_of_a_kernel_differ_only_by_the_bug() {
    check_versions(&GALLERY, 1);
}

#[test]
fn the_lists_and_the_comparison_have_all_kernels() {
    let text = GALLERY.list().to_text();
    let table = compare(&GALLERY, &simulator(), Path::new("not run")).unwrap();
    assert_eq!(table.rows().len(), PUBLISHED.len());
    for entry in &PUBLISHED {
        assert!(text.contains(entry.question) && !text.contains(entry.title), "{}", entry.name);
    }
    for text in [text, table.to_text()] {
        assert!(text.lines().all(|line| line.chars().count() <= bench::table::WIDTH), "{text}");
    }
}
