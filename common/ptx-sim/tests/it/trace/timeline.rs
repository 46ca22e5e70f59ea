//! Tests of the timeline: who waits for whom, and what is under way.

use ptx_sim::{AsyncEvent, Grouped, Pick, StepEvent, TraceRequest};

use super::{alone, marked, observe, pipeline, shows, titles, trace};

#[test]
fn a_timeline_shows_who_waits_for_whom() {
    let rounds = trace("rounds", [128, 1, 1], 1, &[3]);
    assert_eq!(rounds.releases.len(), 6);
    assert!(rounds.releases.iter().all(|release| release.warps.len() == 4));
    let exits = rounds.steps.iter().filter(|step| step.event == StepEvent::Exit).count();
    assert_eq!((exits, rounds.missed), (4, 0));
    let svg = rounds.timeline().unwrap();
    shows(&svg, "4 warps. ");
    shows(&svg, "6 barriers");
    // Warps 1 to 3 wait for warp 0 in each of three rounds, at the first barrier of two.
    let legend = 1;
    assert_eq!(marked(&svg, "rect", "wait"), 9 + legend);
    assert_eq!(marked(&svg, "path", "stop"), 6);
    assert_eq!(marked(&svg, "rect", "stop-text"), 3 + legend);
    // In each round both sides of the branch run by themselves.
    assert!(marked(&svg, "rect", "warn") >= 2 * 3 * 4);
    // Without barriers and branches there is nothing of the kind; a warp need not be full.
    let svg = trace("copies_by_four", [40, 1, 1], 2, &[]).timeline().unwrap();
    shows(&svg, "2 warps. ");
    assert_eq!((marked(&svg, "rect", "warn"), marked(&svg, "path", "stop")), (0, 0));
    // Long ones are drawn with several steps a column, and many warps in lower rows.
    shows(&trace("rounds", [128, 1, 1], 1, &[60]).timeline().unwrap(), "120 barriers");
    shows(&trace("transposes", [32, 32, 1], 2, &[]).timeline().unwrap(), "32 warps");
}

#[test]
fn a_trace_has_an_end() {
    let request = TraceRequest { max_steps: 100, ..Default::default() };
    let cut = observe("rounds", [128, 1, 1], 1, &[3], request).unwrap();
    let whole = trace("rounds", [128, 1, 1], 1, &[3]);
    assert_eq!((cut.steps.len(), cut.steps.len() as u64 + cut.missed), (100, whole.steps.len() as u64));
    assert_eq!(cut.steps, whole.steps[..100]);
    let svg = cut.timeline().unwrap();
    shows(&svg, "Truncated:");
    let error = cut.banks(&Pick { line: Some(1), ..Pick::default() }).unwrap_err();
    assert!(error.to_string().contains("the trace ends"), "{error}");
    // One warp only.
    let request = TraceRequest { warp: Some(2), ..Default::default() };
    let one = observe("rounds", [128, 1, 1], 1, &[3], request).unwrap();
    assert!(one.steps.iter().all(|step| step.warp == 2) && one.steps.len() < whole.steps.len());
    shows(&one.timeline().unwrap(), "1 warp. ");
}

#[test]
fn a_timeline_shows_copies_and_products_under_way() {
    let trace = pipeline(true, TraceRequest::default());
    let loads = trace.asynchronous.iter().filter(|step| matches!(step.event, AsyncEvent::Loads { .. })).count();
    let begins = |work| trace.asynchronous.iter().filter(|step| step.event == AsyncEvent::Begins(work)).count();
    // Two copies for each of four tiles; four products of a tile, by each of four warps.
    assert_eq!((loads, begins(Grouped::Products), begins(Grouped::Copies)), (8, 64, 0));
    let svg = trace.timeline().unwrap();
    shows(&svg, "5 warps. ");
    let legend = 1;
    assert_eq!(marked(&svg, "rect", "good"), 8 + legend);
    // A group for each tile and warp.
    assert_eq!(marked(&svg, "rect", "product"), 16 + legend);
    // The warp that copies waits for the first stage of two to be empty, and for the second.
    assert_eq!(marked(&svg, "rect", "r1"), 2 + legend);
    let titles = titles(&svg);
    let waits: Vec<_> =
        titles.iter().filter(|title| title.starts_with("waits for") && title.contains("empty")).collect();
    assert!(
        waits[0].ends_with("at phase 0 of empty + 0") && waits[1].ends_with("at phase 0 of empty + 8"),
        "{waits:?}"
    );
    let copies: Vec<_> = titles.iter().filter(|title| title.contains("bulk copy of 8192 bytes")).collect();
    assert_eq!(copies.len(), 4);
    assert!(copies[3].starts_with("line 71: ") && copies[3].contains("phase 1 of full + 8"), "{copies:?}");
    // Questions in vain are no steps of the model: each warp that multiplies has as many.
    let svg = pipeline(false, TraceRequest::default()).timeline().unwrap();
    assert_eq!(marked(&svg, "rect", "good"), 8 + legend);
}

/// The steps at which each flight of the picture begins and ends.
fn flights(svg: &str, what: &str) -> Vec<[usize; 2]> {
    let of = |title: String| {
        let (_, steps) = title.split_once(&format!("{what}, steps "))?;
        let (from, to) = steps.split_once(" to ")?;
        Some([from.parse().ok()?, to.parse().ok()?])
    };
    titles(svg).into_iter().filter_map(of).collect()
}

#[test]
fn groups_are_under_way_up_to_the_wait_that_names_them() {
    // Steps 0 to 2 set up.
    let copies = alone(
        "cp.async.ca.shared.global [%r1], [%rd1], 16;\ncp.async.commit_group;\ncp.async.commit_group;\n
         cp.async.ca.shared.global [%r1+16], [%rd1], 16;\ncp.async.commit_group;\ncp.async.ca.shared.global [%r1+32], [%rd1], 16;\n
         cp.async.wait_group 2;\ncp.async.wait_group 1;\ncp.async.wait_all;",
    );
    let svg = copies.timeline().unwrap();
    // The first group leaves two behind it, of which one is empty; the last copies belong to none.
    assert_eq!(flights(&svg, "group of cp.async"), [[3, 10], [6, 12], [8, 12]]);
    let stores = alone(
        "st.shared.b32 [%r1], %r2;\ncp.async.bulk.global.shared::cta.bulk_group [%rd1], [%r1], 16;\ncp.async.bulk.commit_group;\n
         cp.async.bulk.global.shared::cta.bulk_group [%rd1+16], [%r1], 16;\ncp.async.bulk.commit_group;\n
         cp.async.bulk.wait_group.read 1;\ncp.async.bulk.wait_group 0;",
    );
    assert_eq!(flights(&stores.timeline().unwrap(), "group of bulk stores"), [[4, 9], [6, 10]]);
    // Nobody waits for what is under way at the end.
    let left = alone("cp.async.ca.shared.global [%r1], [%rd1], 16;");
    assert_eq!(flights(&left.timeline().unwrap(), "group of cp.async"), [[3, 5]]);
    let arrives = alone(
        "mbarrier.init.shared::cta.b64 [%r2], 1;\ncp.async.ca.shared.global [%r1], [%rd1], 16;\n
         cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%r2];\n
         W0: mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r2], 0; @!%p1 bra W0;",
    );
    assert_eq!(flights(&arrives.timeline().unwrap(), "group of cp.async"), [[4, 7]]);
}
