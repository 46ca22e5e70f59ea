//! The command from its user's side: output, exit status, and a sentence for every error.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};

fn kernels() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join("kernels")
}

fn command(args: &str) -> Command {
    let mut command = Command::new(assert_cmd::cargo::cargo_bin!("ptx-sim"));
    command.current_dir(kernels()).args(args.split_whitespace());
    command
}

/// Exit status, stdout and stderr.
fn ptx_sim(args: &str) -> (i32, String, String) {
    let Output { status, stdout, stderr } = command(args).output().expect("the command can be started");
    let text = |bytes| String::from_utf8(bytes).expect("output is text");
    (status.code().expect("the command ends by itself"), text(stdout), text(stderr))
}

/// Expects this output, and no findings under the sanitiser.
fn prints(args: &str, expected: &str) {
    let said = if args.contains("--sanitize") { "the sanitiser found nothing\n" } else { "" };
    assert_eq!(ptx_sim(args), (0, expected.into(), said.into()), "{args}");
}

fn fails(args: &str, code: i32, reason: &str) {
    let (status, stdout, stderr) = ptx_sim(args);
    assert_eq!(status, code, "{args}: {stderr}");
    assert!(stderr.contains(reason), "{args}: {stderr}");
    assert!(stdout.is_empty(), "{args}: {stdout}");
    assert!(!stderr.contains("panicked") && !stderr.contains('\u{1b}'), "{args}: {stderr}");
}

fn json_of(args: &str) -> Value {
    let (status, stdout, stderr) = ptx_sim(args);
    assert_eq!(status, 0, "{args}: {stderr}");
    serde_json::from_str(&stdout).expect("one JSON object")
}

const ADD: &str = "run features.ptx --kernel adds";

#[test]
fn buffers_are_printed_in_order() {
    prints(&format!("{ADD} --block 4 in:f32:1,2,3,4 in:f32:10,20,30,40.5 out:f32:4 u32:4"), "11,22,33,44.5\n");
    prints(
        &format!("{ADD} --grid 2 --block 2 inout:f32:1,2,3 in:f32:-1,1e-3,nan out:f32:4 u32:3"),
        "1,2,3\n0,2.001,nan,0\n",
    );
    prints(&format!("{ADD} in:f32:0x3f800000 in:f32:-inf out:b32:1 u32:1"), "0xff800000\n");
    prints(&format!("{ADD} in:f32:0f3F800000 in:f32:1 out:f32:0 u32:0"), "\n");
    prints("run features.ptx --kernel sums_dynamic_shared --block 4 --shared 16 in:u32:1,2,3,0xa out:s32:1", "16\n");
    prints("run features.ptx --kernel recurses --block 8 out:s32:8", "0,1,1,2,3,5,8,13\n");
}

#[test]
fn lists_are_read_from_files() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("values.bin");
    std::fs::write(&path, [1.5f32, 2.5].map(f32::to_le_bytes).concat()).unwrap();
    let at = |path: &Path| format!("@{}", path.display());
    let run = |list: &str| {
        let mut command = command(&format!("{ADD} --block 2"));
        let output = command.args([&format!("in:f32:{list}"), "in:f32:1,1", "out:f32:2", "u32:2"]).output().unwrap();
        (
            output.status.code().unwrap(),
            String::from_utf8(output.stdout).unwrap(),
            String::from_utf8(output.stderr).unwrap(),
        )
    };
    assert_eq!(run(&at(&path)), (0, "2.5,3.5\n".into(), String::new()));
    std::fs::write(&path, [0; 7]).unwrap();
    let (code, _, stderr) = run(&at(&path));
    assert!(code == 2 && stderr.contains("7 bytes, not a multiple of the 4 of a f32"), "{stderr}");
    let (code, _, stderr) = run(&at(&folder.path().join("absent.bin")));
    assert!(code == 2 && stderr.contains("cannot read"), "{stderr}");
}

#[test]
fn json_has_buffers_and_counts() {
    let result = json_of(&format!("{ADD} --json --block 32 inout:f32:1,nan,0.1 in:f32:1,1,-inf out:f32:3 u32:3"));
    assert_eq!(result["buffers"], json!([[1.0, "nan", 0.1], [2.0, "nan", "-inf"]]));
    let (warp, lane) = (result["instructions"].as_u64().unwrap(), result["lane_instructions"].as_u64().unwrap());
    assert!(warp > 5 && lane > warp && lane <= 32 * warp, "{result}");
    assert!(result.get("output").is_none());
    let result = json_of(
        "run features.ptx --kernel sums_dynamic_shared --json --block 2 --shared 8 in:u32:1,4294967295 out:b32:1",
    );
    assert_eq!(result["buffers"], json!([[0]]));
}

#[test]
fn what_a_kernel_prints_comes_first() {
    let run = "run features.ptx --kernel prints_by_thread --block 17 out:s32:2";
    prints(run, "thread 0 of block 0\nthread 16 of block 0\n2,2\n");
    assert_eq!(json_of(&format!("{run} --json"))["output"], "thread 0 of block 0\nthread 16 of block 0\n");
}

#[test]
fn a_fault_is_drawn_and_exits_1() {
    let run = "run faults.ptx --kernel read_past_the_end --block 4 in:f32:1,2,3 out:f32:4 s32:4";
    let (code, stdout, stderr) = ptx_sim(run);
    assert_eq!((code, stdout.as_str()), (1, ""));
    // the .cu beside the .ptx is found, and its line shown
    assert!(stderr.starts_with("error[out-of-bounds]: kernel `read_past_the_end`"), "{stderr}");
    for part in ["faults.cu:5", "out[i % n] = in[i] * 2.0f;", "thread (3, 0, 0)", "`argument 1` (12 bytes"] {
        assert!(stderr.contains(part), "{part}: {stderr}");
    }
    let (code, stdout, _) = ptx_sim(&format!("{run} --json"));
    let result: Value = serde_json::from_str(&stdout).unwrap();
    assert_eq!(code, 1);
    assert_eq!(result["fault"]["kind"], "out-of-bounds");
    assert_eq!((&result["fault"]["line"], &result["fault"]["thread"]), (&json!(5), &json!([3, 0, 0])));
    assert!(result.get("buffers").is_none());

    fails("run faults.ptx --kernel endless --budget 1000 in:s32:0", 1, "error[budget]");
    fails("run faults.ptx --kernel traps in:s32:-1", 1, "error[trap]");
    // found from another folder too
    let output = command("")
        .current_dir(std::env::temp_dir())
        .arg("run")
        .arg(kernels().join("faults.ptx"))
        .args(["--kernel", "traps", "in:s32:-1"])
        .output()
        .unwrap();
    assert!(String::from_utf8_lossy(&output.stderr).contains("if (sizes[threadIdx.x] < 0) __trap();"));
}

#[test]
fn files_that_cannot_be_loaded_exit_1() {
    fails("run absent.ptx --kernel k", 1, "cannot read `absent.ptx`");
    fails("check absent.ptx", 1, "cannot read `absent.ptx`");
    fails("check .", 1, "cannot read `.`");
    fails("run features.ptx --kernel nothing", 1, "there is no kernel `nothing` in features.ptx; it has prints,");
    fails("run unsupported.ptx --kernel first u64:0", 1, "limit of the simulator");
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file.ptx");
    let features = std::fs::read(kernels().join("features.ptx")).unwrap();
    let middle = features.len() / 2;
    for (contents, reason) in [
        (&b"\x7fELF\x02\x01\x00\xff\xfe"[..], "is not text: byte 7 is not UTF-8"),
        (b"int main() {}", "not valid PTX"),
        (b"", "not valid PTX"),
        (&features[..middle], "not valid PTX"),
    ] {
        std::fs::write(&path, contents).unwrap();
        for args in [&["check"][..], &["run", "--kernel", "k"]] {
            let output = command("").args(args).arg(&path).output().unwrap();
            let stderr = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.code() == Some(1) && stderr.contains(reason), "{stderr}");
        }
    }
}

#[test]
fn compressed_ptx_is_run_by_either_name() {
    let ptx = std::fs::File::open(kernels().join("faults.ptx")).unwrap();
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let mut encoder = flate2::read::GzEncoder::new(ptx, flate2::Compression::best());
    std::io::copy(&mut encoder, &mut std::fs::File::create(folder.path().join("faults.ptx.gz")).unwrap()).unwrap();
    std::fs::copy(kernels().join("faults.cu"), folder.path().join("faults.cu")).unwrap();
    for name in ["faults.ptx", "faults.ptx.gz"] {
        let (code, _, stderr) =
            ptx_sim(&format!("run {} --kernel traps in:s32:-1", folder.path().join(name).display()));
        // The source's line, from the file beside it.
        assert!(code == 1 && stderr.contains("if (sizes[threadIdx.x] < 0) __trap();"), "{stderr}");
        assert!(stderr.contains("faults.ptx:") && !stderr.contains(".gz"), "{stderr}");
    }
}

#[test]
fn bad_usage_exits_2_with_the_reason() {
    let args = "in:f32:1 in:f32:1 out:f32:1 u32:1";
    for (line, reason) in [
        (String::new(), "Usage: ptx-sim"),
        ("frobnicate".into(), "unrecognized subcommand"),
        ("run features.ptx".into(), "choose one with --kernel: "),
        ("run session.ptx --kernel fill out:s32:1 s32:1".into(), "`fill` may be any of "),
        (format!("{ADD} in:f32:1 ptr:y out:f32:1 u32:1"), "no buffer or variable `y`; there are operations"),
        (format!("{ADD} x=in:f32:1 x=in:f32:1 out:f32:1 u32:1"), "two buffers `x`"),
        (format!("{ADD} x=in:f32:1 ptr:x+5 out:f32:1 u32:1"), "`x` has 4 bytes, which 5 + 0 exceeds"),
        (format!("{ADD} --save 4=x {args}"), "no buffer or variable `4`"),
        (format!("{ADD} --set x=f32:1 {args}"), "no buffer or variable `x`"),
        ("run --kernel adds".into(), "FILE.ptx"),
        (format!("{ADD} --grid 0 {args}"), "an extent is at least 1"),
        (format!("{ADD} --grid 1,1,1,1 {args}"), "three axes"),
        (format!("{ADD} --grid 1,70000 {args}"), "the grid has 70000 along y"),
        (format!("{ADD} --block x {args}"), "`x` is not a 32-bit whole number"),
        (format!("{ADD} --block 2000 {args}"), "the block has 2000 along x"),
        (format!("{ADD} --block 64,64 {args}"), "4096 threads, where 1024 are possible"),
        (format!("{ADD} --shared -1 {args}"), "--shared"),
        (format!("{ADD} --shared 300000 {args}"), "300000 bytes of shared memory"),
        (format!("{ADD} --budget 0 {args}"), "--budget"),
        (format!("{ADD} in:f32:1 in:f32:1 out:f32:1"), "3 arguments are given, where it takes 4 (u64, u64, u64, u32)"),
        (format!("{ADD} {args} u32:1"), "5 arguments are given, where it takes 4"),
        (format!("{ADD} in:f32:1 in:f32:1 out:f32:1 u64:1"), "argument 4 has 8 bytes"),
        (format!("{ADD} in:f32:1 in:f32:1 out:f32:1 out:f32:1"), "argument 4 has 8 bytes"),
        (format!("{ADD} in:f33:1 in:f32:1 out:f32:1 u32:1"), "`f33` is not a type; the types are u8"),
        (format!("{ADD} in:f32:1,x in:f32:1 out:f32:1 u32:1"), "`x` is not a number"),
        (format!("{ADD} in:f32 in:f32:1 out:f32:1 u32:1"), "an argument is TYPE:VALUE"),
        (format!("{ADD} in:f32:1 in:f32:1 out:f32:many u32:1"), "`many` is not a number of elements"),
        (format!("{ADD} in:f32:1 in:f32:1 out:f32:1 u32:4294967296"), "0 to 4294967295"),
        (format!("{ADD} in:f32:1 in:f32:1 out:f32:1 u32:-1"), "0 to 4294967295"),
        (format!("{ADD} in:f32:1 in:f32:1 out:f32:1 1"), "an argument is TYPE:VALUE"),
    ] {
        fails(&line, 2, reason);
    }
    fails(&format!("{ADD} in:f32:1 in:f32:1 out:f32:100000000000 u32:1"), 1, "argument 3: out of memory");
}

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
    let expected =
        "  unsupported instructions: 5\n    line 8: tcgen05.fence::before_thread_sync; (the instruction tcgen05)\n";
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
        (&json!("the instruction tcgen05"), &json!(2), &json!([37, 38]))
    );
    assert_eq!(tiles["instructions"].as_array().unwrap().len(), 5);
    assert!(
        stderr.contains("limit of the simulator") && stderr.contains(", 2 times: the instruction tcgen05"),
        "{stderr}"
    );
    let (unknown, _) = refused("run refused.ptx --kernel nobody --json");
    assert_eq!((&unknown["kind"], &unknown["kernels"][0]), (&json!("unknown-kernel"), &json!("runs")));
    let (syntax, _) = refused("check faults.cu --json");
    assert_eq!((&syntax["kind"], &syntax["line"]), (&json!("syntax"), &json!(3)));

    let (code, stdout, _) = ptx_sim("check refused.ptx");
    assert_eq!(code, 1);
    let listed = "tcgen05.cp.cta_group::1.128x256b (the instruction tcgen05), 2 times\n";
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
    let readme = include_str!("../../README.md").replace("\r\n", "\n");
    let (_, after) = readme.split_once("<!-- ptx-sim check --list -->\n").expect("the mark of the list");
    let (shown, _) = after.split_once("<!-- end -->").expect("its end");
    assert_eq!(shown, listed, "replace what stands between the marks by what `ptx-sim check --list` prints");
    assert!(
        listed.contains("`mbarrier`")
            && listed.contains("| `tcgen05.fence::before_thread_sync` | the instruction tcgen05 |")
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

/// `ptx-sim … | head -1`
#[test]
fn a_reader_that_stops_is_no_error() {
    let mut child = command("run features.ptx --kernel early_exit --block 1 out:s32:2000000 s32:0")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    assert!(output.status.success());
}

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
    let line =
        include_str!("../kernels/sanitise.cu").lines().position(|line| line.contains("atomicAdd(sum, in[i])")).unwrap()
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
    let line = include_str!("../kernels/heap.cu").lines().position(|line| line.contains("malloc(2 * ")).unwrap() + 1;
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
    assert!(stderr.contains("error[budget]"), "{stderr}");
}

#[test]
fn structs_variables_and_addresses_are_arguments() {
    // float* at 0, unsigned char at 8, int at 12, double at 16
    let view = "struct:ptr:x+4/u8:1/s32:3/f64:0.5";
    prints(
        &format!("run session.ptx --kernel scaled --block 4 --buffer x=in:f32:1,2,3,4,5,6 {view} out:f32:4"),
        "1.5,2,2.5,0\n",
    );
    let weigh = "run session.ptx --kernel weigh --block 4 --set weights=f32:1,10,100,1000";
    prints(&format!("{weigh} in:f32:1,2,3,4 out:f32:4 ptr:null"), "1,20,300,4000\n");
    // one buffer for three parameters, and an offset into it
    prints(&format!("{weigh} x=inout:f32:1,2,3,4,5 ptr:x ptr:x"), "2,22,303,4004,5\n");
    let one = weigh.replace("--block 4", "--block 1");
    prints(&format!("{one} x=inout:f32:1,2,3,4,5 ptr:x+4 ptr:null"), "1,1,3,4,5\n");
}

#[test]
fn buffers_and_variables_are_saved() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name);
    let shown = |name: &str| file(name).display().to_string();
    let mut command =
        command("run session.ptx --kernel weigh --block 4 --set weights=f32:1,1,1,1 in:f32:1,2,3,4 out:f32:4 ptr:null");
    for saved in ["2", "total"] {
        command.args(["--save", &format!("{saved}={}", shown(saved))]);
    }
    assert!(command.output().unwrap().status.success());
    assert_eq!(std::fs::read(file("2")).unwrap(), [1f32, 2., 3., 4.].map(f32::to_le_bytes).concat());
    assert_eq!(std::fs::read(file("total")).unwrap(), 4i32.to_le_bytes());
}

#[test]
fn kernels_are_called_by_their_names_in_the_source() {
    prints("run session.ptx --kernel fill<int> --block 2 out:s32:2 s32:7", "7,7\n");
    prints("run session.ptx --kernel _Z4fillIfEvPT_S0_ --block 2 out:f32:2 f32:7", "7,7\n");
    let (_, stdout, _) = ptx_sim("check session.ptx");
    assert!(stdout.contains("= scaled(View, float*)"), "{stdout}");
}

#[test]
fn textures_and_surfaces_are_arguments() {
    const PAINT: &str = "run textures.ptx --block 3";
    prints(&format!("{PAINT} tex:3x2:f32:1,2,3,4,5,6 surf:3x2:f32:0,0,0,0,0,0 u32:1"), "0,0,0,4,5,6\n");
    prints(
        &format!("{PAINT} tex:2x2/mirror/normalised-float:u8:0,51,102,255 canvas=surf:3x1:f32:0,0,0 u32:0"),
        "0,0.2,0.2\n",
    );
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("canvas.bin");
    prints(&format!("{PAINT} tex:1x1:f32:7 surf:3x1:f32:0,0,0 u32:0 --save 2={}", file.display()), "7,7,7\n");
    assert_eq!(std::fs::read(&file).unwrap(), 7f32.to_le_bytes().repeat(3));
    for (args, status, reason) in [
        ("tex:3x2:f32:1 surf:3x2:f32:0,0,0,0,0,0 u32:0", 2, "4 bytes for `argument 1`, which has 24"),
        ("tex:3x2/linear:u32:1,2,3,4,5,6 surf:1:f32:0 u32:0", 2, "only floats"),
        ("tex:3/wrap:f32 surf:1:f32:0 u32:0", 2, "a texture is tex:EXTENT"),
        ("tex:1x1:f32:7 surf:2x1:f32:0,0 u32:0", 1, "4 bytes at byte 8 of row 0 of the surface `argument 2`"),
        ("u64:5 surf:3x1:f32:0,0,0 u32:0", 1, "0x5 is no handle of a texture or surface"),
        ("a=tex:1x1:f32:7 ptr:a+4 u32:0", 2, "nothing lies behind its handle"),
    ] {
        fails(&format!("{PAINT} {args}"), status, reason);
    }
}

#[test]
fn a_case_has_textures_and_surfaces() {
    const PAINT: &str = r#"
        print = ["canvas"]
        texture.photo = { type = "u8", extent = [3, 1], values = [0, 255, 0], sampling = { normalised_float = true, filter = "linear" } }
        surface.canvas = { type = "f32", extent = [3, 1], values = [9, 9, 9] }
        launch = [{ block = [3], args = ["ptr:photo", "ptr:canvas", "u32:0"] }]
        compare = [{ buffer = "canvas", values = [0, 1, 0] }]
    "#;
    let (status, stdout, stderr) = case_of("textures.ptx", PAINT, "");
    assert_eq!((status, stderr.as_str()), (0, ""), "{stdout}");
    assert!(stdout.contains("0,1,0"), "{stdout}");
    for (from, to, reason) in [
        ("values = [9, 9, 9] }", "values = [9, 9, 9], sampling = {} }", "surface `canvas`: a surface is not sampled"),
        (
            "extent = [3, 1], values = [0",
            "extent = [3, 1, 1, 1], values = [0",
            "texture `photo`: an extent has one to three",
        ),
        ("\"linear\"", "\"cubic\"", "unknown variant `cubic`"),
        ("values = [0, 255, 0]", "values = [0]", "1 bytes for `photo`, which has 3"),
    ] {
        assert!(PAINT.contains(from));
        let (status, _, stderr) = case_of("textures.ptx", &PAINT.replace(from, to), "");
        assert!(status == 2 && stderr.contains(reason), "{to}: {stderr}");
    }
}

/// A case in a folder of its own, beside the PTX of the tests.
fn case(text: &str, args: &str) -> (i32, String, String) {
    case_of("session.ptx", text, args)
}

fn case_of(ptx: &str, text: &str, args: &str) -> (i32, String, String) {
    let folder = tempfile::tempdir().expect("the folder is ours");
    std::fs::copy(kernels().join(ptx), folder.path().join(ptx)).expect("the folder is ours");
    std::fs::write(folder.path().join("three.bin"), 3f32.to_le_bytes().repeat(4)).expect("the folder is ours");
    let path = folder.path().join("case.toml");
    std::fs::write(&path, format!("ptx = \"{ptx}\"\n{text}")).expect("the folder is ours");
    let Output { status, stdout, stderr } =
        command("case").arg(&path).args(args.split_whitespace()).output().expect("the folder is ours");
    let text = |bytes| String::from_utf8(bytes).expect("output is text");
    (status.code().expect("the command ends by itself"), text(stdout), text(stderr))
}

const TWO_LAUNCHES: &str = r#"
print = ["y", "total"]

[buffer.x]
type = "f32"
values = [1, 2.5, "inf", -4]

[buffer.y]
type = "f32"
unwritten = 4

[variable.weights]
type = "f32"
file = "three.bin"

[variable.total]
type = "s32"
values = [100]

[[launch]]
kernel = "fill<float>"
block = [4]
args = ["ptr:y", "f32:0.5"]

[[launch]]
kernel = "weigh"
block = [4]
args = ["ptr:x", "ptr:y", "ptr:y"]

[[compare]]
buffer = "y"
values = [3.5, 8, "inf", -11.5]
"#;

#[test]
fn a_case_runs_its_launches_in_order() {
    let printed = "y = 3.5,8,inf,-11.5\ntotal = 104\ny: all 4 elements are equal\n";
    assert_eq!(case(TWO_LAUNCHES, ""), (0, printed.into(), String::new()));
    assert_eq!(case(TWO_LAUNCHES, "--sanitize").0, 0);
    let (code, stdout, _) = case(TWO_LAUNCHES, "--json");
    let found: Value = serde_json::from_str(&stdout).unwrap();
    assert_eq!((code, &found["buffers"]), (0, &json!({ "y": [3.5, 8.0, "inf", -11.5], "total": [104] })));
    assert_eq!(found["compared"][0]["different"], 0);
}

#[test]
fn a_case_says_what_differs() {
    let wrong = TWO_LAUNCHES.replace("[3.5, 8, \"inf\", -11.5]", "[3.5, 8.25, 1, -11.5]");
    let (code, stdout, stderr) = case(&wrong, "");
    let told = "y: 2 of 4 elements differ; the first is element 1: 8, expected 8.25; largest difference inf\n";
    assert!(
        code == 1 && stdout.contains(told) && stdout.contains("--sanitize") && stderr.is_empty(),
        "{stdout}{stderr}"
    );
    let within = wrong.replace("8.25, 1,", "8.25, \"inf\",") + "absolute = 0.05\nrelative = 0.03\n";
    let (code, stdout, _) = case(&within, "");
    assert!(code == 0 && stdout.contains("within tolerance; largest difference 2.5e-1"), "{stdout}");
    let close = within.replace("relative = 0.03", "relative = 0.02");
    assert_eq!(case(&close, "").0, 1);
    // What nobody wrote is found, and told once.
    let unwritten =
        TWO_LAUNCHES.replace("kernel = \"fill<float>\"\nblock = [4]", "kernel = \"fill<float>\"\nblock = [3]");
    let (code, _, stderr) = case(&unwritten, "--sanitize");
    assert!(code == 1 && stderr.contains("1 finding: uninitialised-read"), "{stderr}");
}

#[test]
fn a_case_that_is_wrong_exits_2_with_the_reason() {
    for (from, to, reason) in [
        ("print =", "prints =", "unknown field `prints`"),
        ("type = \"s32\"", "type = \"s33\"", "variable `total`: `s33` is not a type"),
        ("values = [100]", "values = [true]", "variable `total`: `true` is not a number"),
        ("values = [100]", "zeros = 1\nvalues = [1]", "variable `total`: it needs one of"),
        ("values = [100]", "values = [1, 2]", "`total` has 4 bytes, which 0 + 8 exceeds"),
        ("file = \"three.bin\"", "file = \"four.bin\"", "variable `weights`: cannot read"),
        ("file = \"three.bin\"", "unwritten = 4", "variable `weights`: a variable is always written"),
        ("\"f32:0.5\"", "\"in:f32:0.5\"", "launch 1: `in:f32:0.5` is not TYPE:VALUE"),
        ("\"ptr:x\"", "\"ptr:z\"", "no buffer or variable `z`; there are x, y, weights, total"),
        ("block = [4]", "block = [4, 0]", "launch 1: an extent is at least 1"),
        ("block = [4]", "block = [2000]", "the block has 2000 along x"),
        ("[3.5, 8, \"inf\", -11.5]", "[3.5, 8]", "compare `y`: 8 bytes are expected of its 16"),
    ] {
        let text = TWO_LAUNCHES.replacen(from, to, 1);
        assert_ne!(text, TWO_LAUNCHES, "{from}");
        let (code, stdout, stderr) = case(&text, "");
        assert!(code == 2 && stdout.is_empty() && stderr.contains(reason), "{to}: {code} {stderr}");
    }
}

/// A kernel `k` that prints "hello" and then runs that body, in a folder of its own, and a case that launches it twice.
fn launched_twice(body: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("the folder is ours");
    let ptx = format!(
        ".version 8.0
        .target sm_80
        .address_size 64
        .extern .func (.param .b32 r) vprintf (.param .b64 a, .param .b64 b);
        .global .b8 text[6] = {{104, 101, 108, 108, 111, 0}};
        .visible .entry k() {{
            .reg .b64 %rd<4>;
            .reg .b32 %r<2>;
            mov.u64 %rd1, text;
            mov.u64 %rd2, 0;
            {{ .param .b64 a; .param .b64 b; .param .b32 r; st.param.b64 [a], %rd1; st.param.b64 [b], %rd2;
              call.uni (r), vprintf, (a, b); }}
            {body}
            ret;
        }}"
    );
    std::fs::write(folder.path().join("k.ptx"), ptx).expect("the folder is ours");
    let case = "ptx = \"k.ptx\"\nprint = [\"y\"]\n[buffer.y]\ntype = \"u8\"\nzeros = 200000\n[[launch]]\n[[launch]]\n";
    std::fs::write(folder.path().join("case.toml"), case).expect("the folder is ours");
    folder
}

/// Exit status, stdout and stderr of a subcommand on a file in the folder.
fn in_folder(folder: &tempfile::TempDir, subcommand: &str, file: &str, args: &str) -> (i32, String, String) {
    let mut command = command(subcommand);
    let command = command.arg(folder.path().join(file)).args(args.split_whitespace());
    let Output { status, stdout, stderr } = command.output().expect("the command can be started");
    let text = |bytes| String::from_utf8(bytes).expect("output is text");
    (status.code().expect("the command ends by itself"), text(stdout), text(stderr))
}

#[test]
fn a_case_tells_a_fault_as_run_does() {
    let folder = launched_twice("st.global.u64 [%rd2], %rd2;");
    let both = |args: &str| {
        let of_case = in_folder(&folder, "case", "case.toml", args);
        assert_eq!(of_case, in_folder(&folder, "run", "k.ptx", args), "{args}");
        of_case
    };
    let (code, stdout, stderr) = both("");
    assert!(code == 1 && stdout == "hello\n" && stderr.contains("null pointer"), "{code} {stdout}{stderr}");
    let (code, stdout, _) = both("--json");
    let found: Value = serde_json::from_str(&stdout).expect("it is JSON");
    assert_eq!((code, &found["output"], &found["fault"]["kind"]), (1, &json!("hello"), &json!("out-of-bounds")));
}

#[test]
fn a_case_has_the_limits_of_run() {
    let folder = launched_twice("$L: bra $L;");
    for (limit, kind) in [("--time-limit 0.2", "time-limit"), ("--memory-limit 64KiB", "memory-limit")] {
        for sanitize in ["", "--sanitize"] {
            let (code, stdout, stderr) = in_folder(&folder, "case", "case.toml", &format!("--json {limit} {sanitize}"));
            let found: Value = serde_json::from_str(&stdout).expect("it is JSON");
            assert_eq!((code, &found["fault"]["kind"]), (1, &json!(kind)), "{stdout}");
            assert!(found.get("buffers").is_none() && stderr.contains(kind.split('-').next().unwrap()), "{stderr}");
            // The limit is told once: no other launch follows.
            assert!(kind == "memory-limit" || found["output"] == json!("hello"), "{stdout}");
        }
    }
    let long = format!("# {}", "x".repeat(70_000));
    std::fs::write(folder.path().join("long.toml"), long).expect("the folder is ours");
    let (code, stdout, _) = in_folder(&folder, "case", "long.toml", "--json --memory-limit 64KiB");
    let found: Value = serde_json::from_str(&stdout).expect("it is JSON");
    assert_eq!((code, &found["fault"]["kind"]), (1, &json!("memory-limit")));
    let (code, _, stderr) = in_folder(&folder, "case", "case.toml", "--time-limit 0");
    assert!(code == 2 && stderr.contains("not a number of seconds"), "{stderr}");
}

#[test]
fn a_case_shows_sources_of_other_folders_only_if_asked() {
    let folder = launched_twice(".loc 1 2 0\nst.global.u64 [%rd2], %rd2;");
    let sources = tempfile::tempdir().expect("the folder is ours");
    std::fs::write(sources.path().join("k.cu"), "// first\n*null = 0; // second\n").expect("the folder is ours");
    let ptx = folder.path().join("k.ptx");
    let with_file = std::fs::read_to_string(&ptx).expect("it was written") + "\n.file 1 \"/elsewhere/k.cu\"\n";
    std::fs::write(&ptx, with_file).expect("the folder is ours");
    let root = format!("--source-root {}", sources.path().display());
    for (args, shown) in [("", false), (&*root, true)] {
        let (_, _, stderr) = in_folder(&folder, "case", "case.toml", args);
        assert_eq!(stderr.contains("*null = 0; // second"), shown, "{stderr}");
    }
}

/// A tensor of 6 × 3 floats, in rows of 8.
const TILES: &str = r#"
    print = ["out"]
    [buffer.x]
    type = "f32"
    values = [0, 1, 2, 3, 4, 5, -1, -1, 10, 11, 12, 13, 14, 15, -1, -1, 20, 21, 22, 23, 24, 25, -1, -1]
    [buffer.out]
    type = "f32"
    unwritten = 8
    [tensormap.rows]
    buffer = "x"
    type = "f32"
    extents = [6, 3]
    strides = [32]
    box = [4, 2]
    [[launch]]
    args = ["tmap:rows", "s32:4", "s32:1", "ptr:out"]
    [[compare]]
    buffer = "out"
    values = [14, 15, 0, 0, 24, 25, 0, 0]
"#;

#[test]
fn tensor_maps_are_arguments() {
    let run = "run tiles.ptx --buffer x=in:f32:0,1,2,3,4,5,-1,-1,10,11,12,13,14,15,-1,-1,20,21,22,23,24,25,-1,-1";
    let tensor = "tmap:x/f32/6x3/strides=32/box=4x2";
    for order in ["late", "early", "seed=5"] {
        let args = format!("{run} --async {order} --sanitize {tensor} s32:4 s32:1 out:f32:8");
        prints(&args, "14,15,0,0,24,25,0,0\n");
    }
    prints(&format!("{run} {tensor}/nan s32:4 s32:1 out:f32:8"), "14,15,nan,nan,24,25,nan,nan\n");
    fails(&format!("{run} {tensor}/swizzle=16 s32:0 s32:0 out:f32:8"), 2, "32, 64 or 128");
    fails(&format!("{run} tmap:x+4/f32/4x3/strides=32/box=4x2 s32:0 s32:0 out:f32:8"), 2, "not a multiple of 16");
    fails(&format!("{run} tmap:tiles s32:0 s32:0 out:f32:8"), 2, "no tensor map `tiles`");
    fails(&format!("{run} --async soon {tensor} s32:0 s32:0 out:f32:8"), 2, "late, early or seed=N");
    let (status, stdout, stderr) = case_of("tiles.ptx", TILES, "--sanitize --async early");
    assert_eq!((status, stderr.as_str()), (0, ""), "{stdout}");
    assert!(stdout.contains("out = 14,15,0,0,24,25,0,0\n"), "{stdout}");
    for (from, to, reason) in [
        ("box = [4, 2]", "box = [4]", "1 sizes of the box"),
        ("box = [4, 2]", "pixels = 4", "lower, upper, channels and pixels"),
        ("buffer = \"x\"", "buffer = \"z\"", "no buffer or variable `z`"),
        ("tmap:rows", "tmap:columns", "no tensor map `columns`"),
    ] {
        let (status, _, stderr) = case_of("tiles.ptx", &TILES.replacen(from, to, 1), "");
        assert!(status == 2 && stderr.contains(reason), "{to}: {status}: {stderr}");
    }
}
