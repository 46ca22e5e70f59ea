//! Submissions that attack the grader: each ends in a sentence and no points, and costs no one else theirs.

use std::fs;
use std::path::Path;
use std::time::Duration;

use assignments::exercise;
use assignments::grade::Grader;
use assignments::submissions::{self, Person, Set};
use bench::table::Format;
use common::Device;
use common::testing::planted::compiler;

/// The body of the kernel, and the lines before it.
const BODIES: [(&str, &str, &str); 22] = [
    ("endless", "", "for (;;) { c[0] = a[0]; }"),
    ("endless_volatile", "", "volatile int x = 1; while (x) {}"),
    (
        "recursion",
        "__device__ int f(volatile int n) { volatile int x[64]; x[n % 64] = n; return f(n + 1) + x[0]; }",
        "c[0] = f(n);",
    ),
    ("allocates", "", "for (;;) { char *p = (char *)malloc(1 << 20); p[0] = 1; }"),
    ("trap", "", "__trap();"),
    ("sleeps", "", "for (;;) __nanosleep(1000000000);"),
    ("initialiser", "__device__ int big[1 << 28] = {1};", "c[0] = big[n];"),
    ("frame", "", "volatile char big[1 << 28]; big[n] = 1; c[0] = big[0];"),
    ("registers", "", "asm volatile(\"{ .reg .b32 x<2000000000>; mov.u32 x1, 0; }\");"),
    ("null", "", "*(volatile int *)0 = 1;"),
    ("wild", "", "for (unsigned long long p = 0x7f0000000000; ; p += 4) { c[0] = *(volatile float *)p; }"),
    ("shared", "__shared__ float big[1 << 20];", "big[threadIdx.x] = a[0]; c[0] = big[n];"),
    ("asm_garbage", "", "asm volatile(\"} .visible .entry other() { ret;\");"),
    (
        "asm_file",
        "",
        "asm volatile(\".file 1 \\\"/etc/passwd\\\"\\n.loc 1 1 0\\nld.global.u32 %0, [0];\" : \"=r\"(*(unsigned *)c));",
    ),
    ("asm_include", "", "asm volatile(\".include \\\"/etc/passwd\\\";\");"),
    ("asm_bytes", "", "asm volatile(\".incbin \\\"/etc/passwd\\\";\");"),
    ("asm_text", "", "asm volatile(\"this is no instruction;\");"),
    (
        "prints",
        "extern \"C\" __device__ int printf(const char *, ...);",
        "for (;;) { printf(\"0000000000000000 {}\\n\"); }",
    ),
    ("barriers", "", "if (threadIdx.x) { __syncthreads(); } else { for (;;) __syncthreads(); }"),
    ("writes_inputs", "", "((float *)a)[0] = ((float *)b)[0] = 0.0f; c[0] = 0.0f;"),
    (
        "templates",
        "template <int A, int B> struct T { static constexpr int v = T<A - 1, B>::v + T<A - 1, B + (1 << (A % 30))>::v; };\ntemplate <int B> struct T<0, B> { static constexpr int v = B; };",
        "c[0] = T<200, 0>::v;",
    ),
    (
        "constexpr",
        "__device__ constexpr int f() { int x = 0; for (long i = 0; i < 1000000000000; ++i) { x ^= 1; } return x; }\n__device__ constexpr int v = f();",
        "c[0] = v;",
    ),
];

/// Lines placed before a solution.
const FILES: [(&str, &str); 28] = [
    ("include", "#include \"/etc/passwd\"\n"),
    ("include_spliced", "#incl\\\nude </etc/passwd>\n"),
    ("include_spliced_with_blanks", "#incl\\ \t\nude </etc/passwd>\n"),
    ("include_digraph", "%:include \"/etc/passwd\"\n"),
    ("include_digraph_spliced", "%\\\n:include \"/etc/passwd\"\n"),
    ("include_digraph_spliced_with_blanks", "%\\ \n:include \"/etc/passwd\"\n"),
    ("include_trigraph", "??=include \"/etc/passwd\"\n"),
    ("include_in_raw_string", "__device__ const char *s = R\"(\" /*)\";\n#include \"/etc/passwd\"\n/* */\n"),
    ("include_after_separator", "__device__ int i = 1'0; // '\n#include \"/etc/passwd\"\n"),
    ("include_after_comment", "/*\n*/ #include \"/etc/passwd\"\n"),
    ("include_form_feed", "\x0c#include \"/etc/passwd\"\n"),
    ("include_carriage_return", "int i;\r#include \"/etc/passwd\"\r"),
    ("include_mark", "\u{feff}#include \"/etc/passwd\"\n"),
    ("include_option", "// nvrtc: --pre-include=/etc/passwd\n"),
    ("include_macro", "#define F \"/etc/passwd\"\n#include F\n"),
    ("include_itself", "#include __FILE__\n"),
    ("include_up", "#include <../../../../../../../../../../../../etc/passwd>\n"),
    ("include_next", "#include_next </etc/passwd>\n"),
    ("module", "#pragma clang module import passwd\n"),
    ("import", "import \"/etc/passwd\";\n"),
    ("embed", "__device__ const char s[] = {\n#embed \"/etc/passwd\"\n};\n"),
    ("asks_for_file", "#if __has_include(\"/etc/passwd\")\n#error root: is there\n#endif\n"),
    ("line", "#line 1 \"/etc/passwd\"\nnot C\n"),
    ("pragma", "_Pragma(\"GCC dependency \\\"/etc/passwd\\\"\")\n"),
    ("escapes", "\x1b]0;root:\x07\n"),
    ("empty", ""),
    ("two_kernels", "extern \"C\" __global__ void other() {}\n"),
    ("pasted", "#define G __attribute__((global))\nextern \"C\" G void other() {}\n"),
];

const SIGNATURE: &str = "extern \"C\" __global__ void vector_add(const float *a, const float *b, float *c, unsigned n)";

#[test]
fn hostile_submissions_get_no_points_and_the_board_is_complete() {
    if !compiler(&Device::sim(), "hostile_submissions_get_no_points_and_the_board_is_complete") {
        return;
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap();
    let exercises = exercise::all(root).unwrap();
    let guard = &exercises[..1];
    assert_eq!(guard[0].id, "guard");
    let mut grader = Grader::new(env!("CARGO_BIN_EXE_assignments").into(), Some(7));
    grader.time = Duration::from_secs(4);
    let dir = tempfile::tempdir().unwrap();
    let hand_in = |name: &str, text: &[u8]| {
        let folder = dir.path().join(name);
        fs::create_dir(&folder).unwrap();
        fs::write(folder.join("guard.cu"), text).unwrap();
    };
    let solution = fs::read_to_string(guard[0].file("solution.cu")).unwrap();
    for (name, before, body) in BODIES {
        hand_in(name, format!("{before}\n{SIGNATURE} {{ {body} }}\n").as_bytes());
    }
    for (name, text) in FILES {
        let kernel = if name == "empty" { "" } else { &solution };
        hand_in(name, format!("{text}{kernel}").as_bytes());
    }
    let nested = format!("{SIGNATURE} {{ c[0] = {}a[0]{}; }}", "(".repeat(30_000), ")".repeat(30_000));
    hand_in("nested", nested.as_bytes());
    hand_in("large", solution.repeat(40_000).as_bytes());
    hand_in("bytes", &[0xff; 1000]);
    hand_in("nul", b"\0\0\0");
    fs::create_dir_all(dir.path().join("folder/guard.cu")).unwrap();
    fs::create_dir(dir.path().join("absent")).unwrap();
    #[cfg(unix)]
    {
        fs::create_dir(dir.path().join("link")).unwrap();
        std::os::unix::fs::symlink(guard[0].file("solution.cu"), dir.path().join("link/guard.cu")).unwrap();
        std::os::unix::fs::symlink(dir.path(), dir.path().join("linked_folder")).unwrap();
        fs::create_dir(dir.path().join("pipe")).unwrap();
        let made = std::process::Command::new("mkfifo").arg(dir.path().join("pipe/guard.cu")).status();
        assert!(made.unwrap().success());
    }
    // Behaves at every size but the one that is counted.
    let careless = solution.replace("b[i];", "b[i];\n        if (n == 2048 && i == 0) *(volatile float *)(a + n);");
    hand_in("careless_where_counted", careless.as_bytes());
    hand_in("honest", solution.as_bytes());

    let board =
        submissions::grade(&grader, &[Set { exercise: &guard[0], skeleton: None }], &exercises, dir.path()).unwrap();
    assert_eq!(board.people.len(), BODIES.len() + FILES.len() + 8 + 3 * usize::from(cfg!(unix)));
    for Person { name, verdicts, .. } in &board.people {
        let verdict = &verdicts[0];
        println!("{name}: {verdict}");
        if name == "honest" {
            assert!(verdict.passed(), "{verdict}");
        } else if name == "careless_where_counted" {
            assert_eq!(verdict.points(), guard[0].points.correct, "{verdict}");
        } else {
            assert_eq!(verdict.points(), 0, "{name}: {verdict}");
            assert!(!verdict.parts[0].detail.is_empty(), "{name}: {verdict}");
            assert!(!verdict.to_string().contains("root:"), "{name}: {verdict}");
        }
    }
    assert_eq!(board.render(Format::Csv).lines().count(), 1 + board.people.len());
}
