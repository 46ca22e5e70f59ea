//! Tests of `ptx-sim run`: buffers in and out, faults, files and usage.

use std::path::Path;
use std::process::Stdio;

use serde_json::{Value, json};

use super::{ADD, command, fails, json_of, kernels, prints, ptx_sim};

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
fn several_files_are_linked() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, format!(".version 8.0\n.target sm_80\n.address_size 64\n{text}")).unwrap();
        path.display().to_string()
    };
    let first = write(
        "first.ptx",
        ".extern .func f(.reg .b64 a);\n.visible .entry k(.param .u64 p) { .reg .b64 %rd<2>; ld.param.u64 %rd1, [p]; call f, (%rd1); ret; }",
    );
    let second = write("second.ptx", ".visible .func f(.reg .b64 a) { st.global.u32 [a], 7; ret; }");
    prints(&format!("run {first} --link {second} out:u32:1"), "7\n");
    fails(&format!("run {first} out:u32:1"), 1, "link error: kernel `k` calls `f`");
    // The other commands take the option too.
    let (code, stdout, _) = ptx_sim(&format!("check {first}"));
    assert!(code == 1 && stdout.contains("functions without a body: f"), "{stdout}");
    let (code, stdout, stderr) = ptx_sim(&format!("check {first} --link {second}"));
    assert!(code == 0 && !stdout.contains("without a body"), "{stdout}{stderr}");
    let case = folder.path().join("case.toml");
    let text = "ptx = \"first.ptx\"\nprint = [\"out\"]\n[buffer.out]\ntype = \"u32\"\nunwritten = 1\n[[launch]]\nargs = [\"ptr:out\"]\n";
    std::fs::write(&case, text).unwrap();
    prints(&format!("case {} --link {second}", case.display()), "out = 7\n");
    fails(&format!("case {}", case.display()), 1, "link error: kernel `k` calls `f`");
}

#[test]
fn struct_arguments_come_from_files() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, bytes: &[u8]| {
        let path = folder.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        path.display().to_string()
    };
    let ptx = write(
        "k.ptx",
        b".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k(.param .align 4 .b8 s[12], .param .u64 p) {\n\
          .reg .b32 %r<4>; .reg .b64 %rd<2>; ld.param.u32 %r1, [s]; ld.param.u32 %r2, [s+8]; ld.param.u64 %rd1, [p];\n\
          add.u32 %r3, %r1, %r2; st.global.u32 [%rd1], %r3; ret; }",
    );
    let numbers = write("s.bin", &[1u32, 2, 40].map(u32::to_le_bytes).concat());
    prints(&format!("run {ptx} u32:@{numbers} out:u32:1"), "41\n");
    let two = write("two.bin", &[5u32, 6].map(u32::to_le_bytes).concat());
    prints(&format!("run {ptx} struct:u32:@{two}/u32:7 out:u32:1"), "12\n");
}

#[test]
fn fidelity_names_the_instructions_that_ran_and_the_evidence() {
    const ADDS: &str = "run features.ptx --kernel adds --fidelity --block 2 in:f32:1,2 in:f32:3,4 out:f32:2 u32:2";
    let (status, stdout, stderr) = ptx_sim(ADDS);
    assert_eq!((status, stderr.as_str()), (0, ""));
    let sums = "4,6\nfidelity of `adds` to hardware\n";
    assert!(stdout.starts_with(sums) && stdout.contains("  exact: add.f32"), "{stdout}");
    let object = json_of(&format!("{ADDS} --json"));
    let of_sums =
        object["fidelity"].as_array().unwrap().iter().find(|rule| rule["instructions"].to_string().contains("add.f32"));
    assert_eq!(
        of_sums.map(|rule| (&rule["fidelity"], &rule["bound"])),
        Some((&json!("exact"), &Value::Null)),
        "{object}"
    );
    assert!(of_sums.unwrap()["evidence"].as_str().unwrap().contains("f32_add"), "{object}");
}
