//! Tests of `ptx-sim case`: launches listed in a file.

use std::process::Output;

use serde_json::{Value, json};

use super::{case_of, command};

/// A case in a folder of its own, beside the PTX of the tests.
fn case(text: &str, args: &str) -> (i32, String, String) {
    case_of("session.ptx", text, args)
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

/// A count that no memory has, and files that have no end or never begin.
#[test]
fn what_cannot_be_read_or_held_is_refused() {
    for count in ["4611686018427387904", "2305843009213693951", "1099511627776"] {
        let zeros = TWO_LAUNCHES.replace("unwritten = 4", &format!("zeros = {count}"));
        let (code, _, stderr) = case(&zeros, "--memory-limit 64MiB");
        assert!(code != 0 && stderr.starts_with("error: "), "{count}: {code} {stderr}");
    }
    let zeros = TWO_LAUNCHES.replace("values = [100]", "zeros = 1");
    assert!(case(&zeros, "").1.contains("total = 4\n"));
    if cfg!(unix) {
        let (code, _, stderr) = case(&TWO_LAUNCHES.replace("three.bin", "/dev/zero"), "");
        assert!(code == 2 && stderr.contains("cannot read `/dev/zero`: it is no regular file"), "{code} {stderr}");
    }
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
