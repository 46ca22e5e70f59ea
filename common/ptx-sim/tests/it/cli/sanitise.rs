//! Tests of `--sanitize`: findings as text and as JSON.

use serde_json::{Value, json};

use super::{json_of, prints, ptx_sim};

#[test]
fn the_sanitiser_reports_all_findings_and_prints_what_was_computed() {
    const SUM: &str = "run sanitise.ptx --kernel poisoned_sum --block 32 --sanitize in:f32:1,2,3";
    prints(&format!("{SUM} inout:f32:0.5 s32:3"), "6.5\n");
    let (status, stdout, stderr) = ptx_sim(&format!("{SUM} out:f32:1 s32:4"));
    assert_eq!((status, stdout.as_str()), (1, "6\n"), "{stderr}");
    for expected in [
        "error[out-of-bounds]",
        "error[uninitialised-read]",
        "if (i < n) atomicAdd(sum, in[i]);",
        "help:",
        "2 findings: out-of-bounds (1), uninitialised-read (4)",
    ] {
        assert!(stderr.contains(expected), "{expected}: {stderr}");
    }
    let (status, stdout, _) = ptx_sim(&format!("{SUM} out:f32:1 s32:3 --json"));
    let object: Value = serde_json::from_str(&stdout).unwrap();
    assert_eq!((status, &object["buffers"]), (1, &json!([[6.0]])));
    let finding = &object["findings"][0];
    let line = include_str!("../../kernels/sanitise.cu")
        .lines()
        .position(|line| line.contains("atomicAdd(sum, in[i])"))
        .unwrap()
        + 1;
    for (key, expected) in [
        ("kind", json!("uninitialised-read")),
        ("file", json!("sanitise.cu")),
        ("line", json!(line)),
        ("block", json!([0, 0, 0])),
        ("thread", json!([0, 0, 0])),
        ("count", json!(3)),
    ] {
        assert_eq!(finding[key], expected, "{key}");
    }
    assert!(finding["address"].is_u64() && finding["message"].is_string());
    assert_eq!(json_of(&format!("{SUM} inout:f32:0.5 s32:3 --json"))["findings"], json!([]));
}

#[test]
fn the_sanitiser_names_the_other_access_of_a_race() {
    let args = "run sanitise.ptx --kernel adds_without_atomic --grid 3 --sanitize --json inout:f32:0";
    let (status, stdout, stderr) = ptx_sim(args);
    let finding = &serde_json::from_str::<Value>(&stdout).unwrap()["findings"][0];
    assert_eq!((status, &finding["kind"], &finding["count"]), (1, &json!("global-race"), &json!(4)));
    assert_eq!((&finding["block"], &finding["other"]["block"]), (&json!([1, 0, 0]), &json!([0, 0, 0])));
    assert!(stderr.contains("earlier: write by block (0, 0, 0), thread (0, 0, 0)"), "{stderr}");
}

#[test]
fn the_sanitiser_finds_what_a_kernel_never_frees() {
    const KEEPS: &str = "run heap.ptx --kernel keeps_some --grid 2 --block 3 out:s32:3";
    prints(KEEPS, "0,2,4\n");
    let (status, stdout, stderr) = ptx_sim(&format!("{KEEPS} --sanitize"));
    assert_eq!((status, stdout.as_str()), (1, "0,2,4\n"));
    insta::assert_snapshot!("leak", stderr);
    let (status, stdout, stderr_with_json) = ptx_sim(&format!("{KEEPS} --sanitize --json"));
    assert_eq!((status, stderr_with_json), (1, stderr));
    let findings = &serde_json::from_str::<Value>(&stdout).unwrap()["findings"];
    let finding = &findings[0];
    let line = include_str!("../../kernels/heap.cu").lines().position(|line| line.contains("malloc(2 * ")).unwrap() + 1;
    for (key, expected) in [
        ("kind", json!("leak")),
        ("message", json!("8 bytes of the heap never freed")),
        ("kernel", json!("keeps_some")),
        ("file", json!("heap.cu")),
        ("line", json!(line)),
        ("block", json!([0, 0, 0])),
        ("thread", json!([0, 0, 0])),
        ("count", json!(4)),
    ] {
        assert_eq!(finding[key], expected, "{key}");
    }
    assert!(finding["address"].is_u64() && findings.as_array().unwrap().len() == 1);
    let clean = "run heap.ptx --kernel round_trip --block 3 --sanitize --json out:s32:3 s32:4";
    assert_eq!(json_of(clean)["findings"], json!([]));
}

#[test]
fn the_sanitiser_ends_what_never_ends() {
    let args = "run sanitise.ptx --kernel lock --sanitize --budget 100000 inout:s32:1 inout:f32:0";
    let (status, stdout, stderr) = ptx_sim(args);
    assert_eq!((status, stdout.as_str()), (1, "1\n0\n"), "{stderr}");
    assert!(
        stderr.contains("error[deadlock]") && stderr.contains("it finds 1: the wait ends once that is 0"),
        "{stderr}"
    );
}

#[test]
fn a_strict_sanitiser_reports_more() {
    const POLL: &str =
        "run wild.ptx --kernel warp_sum_volatile --block 32 --sanitize inout:s32:1 inout:s32:1 inout:s32:1 out:s32:1";
    let args = POLL.replacen("inout:s32:1", &format!("in:s32:{}", ["1"; 32].join(",")), 1);
    prints(&args, "1\n1\n32\n");
    let (status, _, stderr) = ptx_sim(&format!("{args} --strict"));
    assert!(status == 1 && stderr.contains("error[shared-race]") && stderr.contains("__syncwarp()"), "{stderr}");
    assert_eq!(ptx_sim(&args.replace("--sanitize", "--strict")).0, 2, "it says how to sanitise, not whether");
}
