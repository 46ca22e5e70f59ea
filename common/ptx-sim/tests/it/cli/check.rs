//! Tests of `ptx-sim check`, refusals and the help.

use serde_json::{Value, json};

use super::ptx_sim;

#[test]
fn check_lists_kernels() {
    let (code, stdout, stderr) = ptx_sim("check features.ptx");
    assert_eq!((code, stderr.as_str()), (0, ""));
    let expected = "\
kernel takes_a_struct
  parameter 1: b8[24]  takes_a_struct_param_0  offset 0
  parameter 2: u8      takes_a_struct_param_1  offset 24
  parameter 3: u64     takes_a_struct_param_2  offset 32
  static shared memory: 512 bytes
  launch bounds: at most 64 threads per block
  unsupported instructions: none
";
    assert!(stdout.contains(expected), "{stdout}");

    let (code, stdout, _) = ptx_sim("check unsupported.ptx");
    assert_eq!(code, 1);
    let expected = "  unsupported instructions: 5\n    line 8: multimem.fence; (the instruction multimem)\n";
    assert!(stdout.contains(expected), "{stdout}");

    let (code, stdout, _) = ptx_sim("check unsupported.ptx --json");
    assert_eq!(code, 1);
    let result: Value = serde_json::from_str(&stdout).unwrap();
    let first = &result["kernels"][0];
    assert_eq!(first["params"], json!([{ "name": "out", "type": "u64", "offset": 0, "size": 8 }]));
    let lines: Vec<u64> =
        first["unsupported"].as_array().unwrap().iter().map(|item| item["line"].as_u64().unwrap()).collect();
    assert_eq!(lines, [8, 9, 18, 19, 20]);
    assert_eq!(result["kernels"][1]["unsupported"], json!([]));
}

/// With `--json` a refusal is an object on stdout as well as text on stderr.
#[test]
fn a_refusal_is_json_too() {
    let refused = |args: &str| {
        let (code, stdout, stderr) = ptx_sim(args);
        assert_eq!(code, 1, "{args}: {stderr}");
        let result: Value = serde_json::from_str(&stdout).expect("one JSON object");
        (result["refused"].clone(), stderr)
    };
    let (tiles, stderr) = refused("run refused.ptx --kernel tiles --json u64:0");
    assert_eq!((&tiles["kind"], &tiles["kernel"]), (&json!("unsupported"), &json!("tiles")));
    let tile = &tiles["forms"][1];
    assert_eq!(
        (&tile["reason"], &tile["count"], &tile["lines"]),
        (&json!("the instruction multimem"), &json!(2), &json!([37, 38]))
    );
    assert_eq!(tiles["instructions"].as_array().unwrap().len(), 5);
    assert!(
        stderr.contains("limit of the simulator") && stderr.contains(", 2 times: the instruction multimem"),
        "{stderr}"
    );
    let (unknown, _) = refused("run refused.ptx --kernel nobody --json");
    assert_eq!((&unknown["kind"], &unknown["kernels"][0]), (&json!("unknown-kernel"), &json!("runs")));
    let (syntax, _) = refused("check faults.cu --json");
    assert_eq!((&syntax["kind"], &syntax["line"]), (&json!("syntax"), &json!(3)));

    let (code, stdout, _) = ptx_sim("check refused.ptx");
    assert_eq!(code, 1);
    let listed = "multimem.cp.sync (the instruction multimem), 2 times\n";
    assert!(stdout.contains(listed) && stdout.contains("line 19: "), "{stdout}");
    let (_, stdout, _) = ptx_sim("check refused.ptx --json");
    let result: Value = serde_json::from_str(&stdout).unwrap();
    assert_eq!(result["kernels"][0]["unsupported_forms"], json!([]));
    assert_eq!(result["kernels"][3]["unsupported_forms"][1]["count"], json!(2));
}

/// The README's tables equal the output of `check --list`.
#[test]
fn the_readme_says_what_is_supported() {
    let (code, listed, _) = ptx_sim("check --list");
    assert_eq!(code, 0);
    let readme = include_str!("../../../README.md").replace("\r\n", "\n");
    let (_, after) = readme.split_once("<!-- ptx-sim check --list -->\n").expect("the mark of the list");
    let (shown, _) = after.split_once("<!-- end -->").expect("its end");
    assert_eq!(shown, listed, "replace what stands between the marks by what `ptx-sim check --list` prints");
    assert!(
        listed.contains("`mbarrier`")
            && listed.contains("| `tcgen05.mma.ws.cta_group::1.kind::f16` | the modifier .ws |")
    );
}

#[test]
fn help_is_enough_to_use_it() {
    for args in ["--help", "run --help", "case --help", "check --help", "--version"] {
        assert_eq!(ptx_sim(args).0, 0, "{args}");
    }
    let (_, help, _) = ptx_sim("run --help");
    for part in ["inout:TYPE:LIST", "@FILE", "bf16", "Exit status", "Examples:", "nan", "--profile", "metrics"] {
        assert!(help.contains(part), "{part}: {help}");
    }
}
