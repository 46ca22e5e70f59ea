//! The command in a student's hands, on a copy of the exercises.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use assignments::{exercise, store};
use common::Device;
use common::testing::planted::compiler;
use tempfile::TempDir;

const FIRST: &str = "phase1-infra/exercises/01-guard";

/// A checkout with two untouched exercises, whatever a reader has done in this one.
fn checkout() -> TempDir {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap();
    let dir = tempfile::tempdir().unwrap();
    for exercise in
        exercise::all(root).unwrap().iter().filter(|exercise| ["guard", "transpose"].contains(&&*exercise.id))
    {
        let to = dir.path().join(exercise.dir.strip_prefix(root).unwrap());
        fs::create_dir_all(&to).unwrap();
        for name in ["exercise.toml", "solution.cu"] {
            fs::copy(exercise.file(name), to.join(name)).unwrap();
        }
        fs::write(to.join("exercise.cu"), store::skeleton(exercise).unwrap()).unwrap();
    }
    dir
}

/// A process that ends with the test, however that ends.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

fn command(dir: &TempDir, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_assignments"));
    command.args(args).current_dir(dir.path()).env_remove("WARP_DEVICE");
    // A repository around the temporary folder is not this one.
    command.env("GIT_CEILING_DIRECTORIES", std::env::temp_dir());
    command
}

/// Exit status and output.
fn run(dir: &TempDir, args: &[&str]) -> (i32, String) {
    let Output { status, stdout, stderr } = command(dir, args).output().unwrap();
    let text = format!("{}{}", String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
    println!("$ assignments {}\n{text}", args.join(" "));
    (status.code().unwrap(), text)
}

fn file(dir: &TempDir, name: &str) -> PathBuf {
    dir.path().join(FIRST).join(name)
}

fn solve(dir: &TempDir) {
    fs::copy(file(dir, "solution.cu"), file(dir, "exercise.cu")).unwrap();
}

#[test]
fn a_student_goes_from_one_exercise_to_the_next() {
    if !compiler(&Device::sim(), "a_student_goes_from_one_exercise_to_the_next") {
        return;
    }
    let dir = checkout();
    let (status, text) = run(&dir, &["list"]);
    assert_eq!(status, 0);
    assert!(text.contains("0 of 2 exercises passed"), "{text}");
    let (_, text) = run(&dir, &["list", "phase2"]);
    assert!(text.contains("transpose") && !text.contains("guard"), "{text}");
    let (_, text) = run(&dir, &["next"]);
    assert!(text.starts_with("guard: ") && text.contains("exercise.cu"), "{text}");
    let (status, text) = run(&dir, &["check"]);
    assert_eq!(status, 1);
    assert!(text.contains("guard: not yet"), "{text}");
    let (status, text) = run(&dir, &["solution", "guard"]);
    assert_eq!(status, 1);
    assert!(text.contains("--i-give-up"), "{text}");
    solve(&dir);
    let (status, text) = run(&dir, &["check"]);
    assert_eq!(status, 0);
    assert!(text.contains("guard: passed") && text.contains("Next: transpose"), "{text}");
    let (_, text) = run(&dir, &["list"]);
    assert!(text.contains("1 of 2 exercises passed"), "{text}");
    assert_eq!(run(&dir, &["solution", "guard"]).1, fs::read_to_string(file(&dir, "solution.cu")).unwrap());
    assert_eq!(run(&dir, &["check", "nothing"]).0, 2);
}

/// Without a terminal, as here, `watch` prints and goes on.
#[test]
fn watch_judges_a_file_when_it_is_saved() {
    if !compiler(&Device::sim(), "watch_judges_a_file_when_it_is_saved") {
        return;
    }
    let dir = checkout();
    let watch = command(&dir, &["watch", "guard"]).stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
    let mut watch = Running(watch);
    let (sender, lines) = mpsc::channel();
    let stdout = BufReader::new(watch.0.stdout.take().unwrap());
    std::thread::spawn(move || stdout.lines().map_while(Result::ok).try_for_each(|line| sender.send(line)));
    let expect = |what: &str| loop {
        let line = lines.recv_timeout(Duration::from_secs(30)).expect(what);
        if line.contains(what) {
            break;
        }
    };
    expect("guard: not yet");
    expect("checked in");
    // As many editors save: another file, renamed. Then in place.
    let beside = file(&dir, "exercise.cu~");
    fs::copy(file(&dir, "solution.cu"), &beside).unwrap();
    let start = Instant::now();
    fs::rename(&beside, file(&dir, "exercise.cu")).unwrap();
    expect("guard: passed");
    println!("{:.2} s from saving to the verdict", start.elapsed().as_secs_f64());
    fs::write(file(&dir, "exercise.cu"), "nothing").unwrap();
    expect("guard: not yet");
}

#[test]
fn show_counts_by_line_and_draws_what_is_worst() {
    if !compiler(&Device::sim(), "show_counts_by_line_and_draws_what_is_worst") {
        return;
    }
    let dir = checkout();
    let transpose = dir.path().join("phase2-conv-bn/exercises/01-transpose");
    let solution = fs::read_to_string(transpose.join("solution.cu")).unwrap();
    assert!(solution.contains("[33]"));
    fs::write(transpose.join("exercise.cu"), solution.replace("[33]", "[32]")).unwrap();
    let (status, text) = run(&dir, &["show", "transpose", "--no-open"]);
    assert_eq!(status, 0);
    assert!(text.contains("too many") && text.contains("32.0") && text.contains("occupancy on sm_90"), "{text}");
    let picture = || fs::read_to_string(dir.path().join("target/assignments/transpose.svg")).unwrap();
    assert!(picture().contains("32-way bank conflict"), "{}", picture());
    run(&dir, &["show", "transpose", "--no-open", "--picture", "timeline", "--case", "1"]);
    assert!(picture().contains("1 barrier"), "{}", picture());
    fs::write(transpose.join("exercise.cu"), "extern \"C\" __global__ void transpose(float *x) { x[1 << 30] = 0; }")
        .unwrap();
    let (status, text) = run(&dir, &["show", "transpose", "--no-open"]);
    assert_eq!(status, 1);
    assert!(text.contains("nothing to show"), "{text}");
}

/// Wrong values as those of a known mistake, in other words than its own.
#[test]
fn a_known_mistake_is_asked_about_and_show_draws_the_case_that_fails() {
    if !compiler(&Device::sim(), "a_known_mistake_is_asked_about_and_show_draws_the_case_that_fails") {
        return;
    }
    let dir = checkout();
    let solution = fs::read_to_string(file(&dir, "solution.cu")).unwrap();
    fs::write(file(&dir, "exercise.cu"), solution.replace("i < n", "(int)i < (int)n - 1")).unwrap();
    // As in a class, whose folders have no wrong submissions.
    let (_, text) = run(&dir, &["check", "guard"]);
    assert!(
        text.contains("\n  - correct  0/6  n = 256: 1 of 256 values of c is wrong, at element 255 (the last): "),
        "{text}"
    );
    assert!(!text.contains("\n      ? "), "{text}");
    fs::create_dir(file(&dir, "wrong")).unwrap();
    for name in ["off_by_one.cu", "one_block.cu"] {
        let here = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap().join(FIRST).join("wrong");
        fs::copy(here.join(name), file(&dir, "wrong").join(name)).unwrap();
    }
    let (_, text) = run(&dir, &["check", "guard"]);
    assert!(text.contains("\n      ? Which thread has the last element"), "{text}");
    let (_, text) = run(&dir, &["show", "guard", "--no-open"]);
    assert!(text.contains("\npicture at n = 256, where it fails: "), "{text}");
    let (_, text) = run(&dir, &["show", "guard", "--no-open", "--case", "3"]);
    assert!(text.contains("\npicture at n = 257: "), "{text}");
    // Another mistake, which is wrong at other places.
    fs::write(file(&dir, "exercise.cu"), solution.replace("i < n", "i < n && i != 5")).unwrap();
    let (_, text) = run(&dir, &["check", "guard"]);
    assert!(text.contains("at element 5: ") && !text.contains("\n      ? "), "{text}");
    solve(&dir);
    let (_, text) = run(&dir, &["show", "guard", "--no-open"]);
    assert!(text.contains("\npicture at n = 256: "), "{text}");
}

/// A terminal's colours are ours; what a kernel prints has none, and clears no screen.
#[test]
fn a_verdict_is_coloured_and_fits_the_terminal() {
    if !compiler(&Device::sim(), "a_verdict_is_coloured_and_fits_the_terminal") {
        return;
    }
    let dir = checkout();
    let solution = fs::read_to_string(file(&dir, "solution.cu")).unwrap();
    let prints = "if (i == 0) printf(\"\\x1b[2J\\n\");\n    if (i + 1 < n) {";
    fs::write(file(&dir, "exercise.cu"), solution.replace("if (i < n) {", prints)).unwrap();
    let check = |variable: &str| {
        let mut command = command(&dir, &["check", "guard"]);
        command.env_remove("NO_COLOR").env_remove("CLICOLOR_FORCE").env(variable, "1").env("COLUMNS", "60");
        String::from_utf8(command.output().unwrap().stdout).unwrap()
    };
    let colored = check("CLICOLOR_FORCE");
    assert!(colored.contains("\u{1b}[31m  - correct") && colored.contains("\u{1b}[33mnot yet\u{1b}[0m"), "{colored}");
    assert!(!colored.contains("\u{1b}[2J") && colored.contains("\\u{1b}[2J"), "{colored}");
    let plain = check("NO_COLOR");
    assert!(!plain.contains('\u{1b}') && plain.contains("\n  - correct"), "{plain}");
    let (verdict, _) = plain.split_once("  printed with").unwrap();
    assert!(verdict.lines().all(|line| line.chars().count() <= 60), "{verdict}");
}

#[test]
fn without_a_gpu_a_benchmark_counts_and_a_check_on_one_says_so() {
    if !compiler(&Device::sim(), "without_a_gpu_a_benchmark_counts_and_a_check_on_one_says_so") {
        return;
    }
    let dir = checkout();
    solve(&dir);
    let (status, text) = run(&dir, &["bench", "guard", "--device", "sim"]);
    assert_eq!(status, 0);
    assert!(text.contains("sectors") && text.contains("counts in place of times"), "{text}");
    assert_eq!(run(&dir, &["check", "guard", "--device", "sim"]).0, 0);
    assert_eq!(run(&dir, &["check", "guard", "--device", "cuda:99"]).0, 2);
}

#[test]
fn what_a_kernel_prints_stands_below_the_verdict() {
    if !compiler(&Device::sim(), "what_a_kernel_prints_stands_below_the_verdict") {
        return;
    }
    let dir = checkout();
    let solution = fs::read_to_string(file(&dir, "solution.cu")).unwrap();
    let (head, body) = solution.split_once(") {\n").unwrap();
    let print = "if (blockIdx.x + threadIdx.x == 0) printf(\"hello from %d of %d\\n\", 0, blockDim.x);";
    fs::write(file(&dir, "exercise.cu"), format!("{head}) {{\n{print}\n{body}")).unwrap();
    let (_, text) = run(&dir, &["check", "guard"]);
    assert!(text.contains("\n  printed with n = ") && text.contains(":\n      hello from 0 of 256\n"), "{text}");
}

#[test]
fn a_changed_head_of_the_kernel_is_named_and_so_is_every_number_of_a_case() {
    if !compiler(&Device::sim(), "a_changed_head_of_the_kernel_is_named_and_so_is_every_number_of_a_case") {
        return;
    }
    let dir = checkout();
    let check = |head: &str, body: &str| {
        fs::write(file(&dir, "exercise.cu"), format!("{head} {{\n{body}\n}}\n")).unwrap();
        run(&dir, &["check", "guard"])
    };
    let (_, text) =
        check("__global__ void vector_add(const float *a, const float *b, float *c, unsigned n)", "c[0] = 1;");
    assert!(text.contains("Without `extern \"C\"` before"), "{text}");
    let (_, text) =
        check("extern \"C\" __global__ void vector_add(const float *a, const float *b, float *c)", "c[0] = 1;");
    assert!(text.contains("must stay as they were") && text.contains("4 arguments given for 3"), "{text}");
    let (_, text) = check(
        "extern \"C\" __global__ void vector_add(const float *a, const float *b, float *c, unsigned count)",
        "if (threadIdx.x < count) c[0] = 1;",
    );
    assert!(text.contains("n = 256, count = 256: "), "{text}");
}

#[test]
fn hints_come_one_after_the_other() {
    let dir = checkout();
    let said: Vec<String> = (0..5).map(|_| run(&dir, &["hint", "transpose"]).1).collect();
    assert!(said[0].contains("hint 1 of 4") && said[3].contains("hint 4 of 4"), "{said:?}");
    assert!(said[4].contains("no more hints"), "{said:?}");
    assert_eq!(run(&dir, &["hint", "transpose", "2"]).1.matches("transpose, hint ").count(), 2);
}

#[test]
fn a_misspelt_exercise_is_answered_with_the_nearest_one() {
    let dir = checkout();
    let (status, text) = run(&dir, &["hint", "gard"]);
    assert!(
        status == 2 && text.contains("there is no exercise `gard`; `list` shows what there is; did you mean `guard`?"),
        "{text}"
    );
    assert!(!run(&dir, &["hint", "gemm"]).1.contains("did you mean"));
}

#[test]
fn reset_restores_the_skeleton_and_keeps_the_students_file() {
    let dir = checkout();
    let skeleton = fs::read(file(&dir, "exercise.cu")).unwrap();
    assert!(run(&dir, &["reset", "guard"]).1.contains("is as it was"));
    solve(&dir);
    let (status, text) = run(&dir, &["reset", "guard"]);
    assert_eq!(status, 0, "{text}");
    assert_eq!(fs::read(file(&dir, "exercise.cu")).unwrap(), skeleton);
    let kept = dir.path().join("target/assignments/guard.before-reset-1.cu");
    assert_eq!(fs::read(kept).unwrap(), fs::read(file(&dir, "solution.cu")).unwrap());
}

/// A student has committed an edited file before the command ever ran.
#[test]
fn reset_finds_the_skeleton_in_the_history() {
    let dir = checkout();
    let git = |args: &[&str]| {
        let mut git = Command::new("git");
        git.args(["-c", "user.name=a", "-c", "user.email=a@example.com", "-c", "commit.gpgsign=false"]).args(args);
        git.current_dir(dir.path()).output().is_ok_and(|output| output.status.success())
    };
    let commit = || git(&["add", "."]) && git(&["commit", "-qm", "more"]);
    if !git(&["init", "-q"]) || !commit() {
        return println!("skipped: no git");
    }
    let skeleton = fs::read(file(&dir, "exercise.cu")).unwrap();
    solve(&dir);
    assert!(commit());
    let (status, text) = run(&dir, &["reset", "guard"]);
    assert_eq!(status, 0, "{text}");
    assert_eq!(fs::read(file(&dir, "exercise.cu")).unwrap(), skeleton);
}

/// A compiler may be anywhere that the system searches, so this is for machines that have it in an environment only.
#[test]
fn without_a_compiler_the_command_says_what_to_install() {
    let dir = checkout();
    let bare = |args: &[&str]| {
        let mut command = command(&dir, args);
        for name in ["VIRTUAL_ENV", "CONDA_PREFIX", "CUDA_PATH", "CUDA_HOME", "LD_LIBRARY_PATH"] {
            command.env_remove(name);
        }
        let output = command.env("PATH", "").env("HOME", dir.path()).output().unwrap();
        (output.status.code().unwrap(), String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned())
    };
    let (status, text) = bare(&["check", "guard"]);
    if !text.contains("cannot be used") {
        return println!("skipped: a compiler is installed system-wide");
    }
    assert_eq!(status, 2);
    assert!(text.contains("exercises have to be compiled, and ") && text.contains("pip install"), "{text}");
    let (status, text) = bare(&["list"]);
    assert_eq!(status, 0);
    assert!(text.contains("transpose") && text.contains("pip install"), "{text}");
    let (status, text) = bare(&["next"]);
    assert_eq!(status, 0);
    assert!(text.contains("guard: ") && text.contains("exercise.cu") && text.contains("pip install"), "{text}");
    assert!(bare(&["hint", "guard"]).1.contains("hint 1 of"));
}
