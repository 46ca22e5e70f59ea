//! Processes that run kernels of others: nothing of them stays when the command that started them is gone.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::{Duration, Instant};

use assignments::bounded::{Bounds, Stopped, Task};
use assignments::child;
use assignments::exercise::{self, Exercise};
use assignments::grade::Grader;
use assignments::isolation::Isolation;
use assignments::job::Job;
use common::Device;
use common::testing::planted::compiler;
use sysinfo::{Pid, ProcessRefreshKind, ProcessStatus, ProcessesToUpdate, System};

/// Keeps the compiler busy for minutes, and takes gigabytes.
const ENDLESS: &str =
    "template <int A, int B> struct T { static constexpr int v = T<A - 1, B>::v + T<A - 1, B + (1 << (A % 30))>::v; };
template <int B> struct T<0, B> { static constexpr int v = B; };
extern \"C\" __global__ void vector_add(const float *a, const float *b, float *c, unsigned n) { c[0] = T<200, 0>::v; }
";

/// The job to compile it.
fn endless(guard: &Exercise) -> Job {
    Job {
        nonce: 0,
        task: guard.task.clone(),
        kernel: guard.kernel.clone(),
        source: ENDLESS.to_owned(),
        architecture: None,
        cases: guard.cases.clone(),
        counts: None,
        uses: Vec::new(),
        seed: 1,
        known: Vec::new(),
        show: None,
        gpu: None,
        compiler: None,
    }
}

/// Waits for `is_so`; false if that takes too long.
fn comes(seconds: u64, mut is_so: impl FnMut() -> bool) -> bool {
    let begin = Instant::now();
    while begin.elapsed() < Duration::from_secs(seconds) {
        if is_so() {
            return true;
        }
        thread::sleep(Duration::from_millis(20));
    }
    false
}

/// The processes that a process has started and that run.
fn children(of: &Child) -> Vec<Pid> {
    let mut system = System::new();
    system.refresh_processes_specifics(ProcessesToUpdate::All, true, ProcessRefreshKind::nothing());
    let own = |(_, process): &(&Pid, &sysinfo::Process)| process.parent() == Some(Pid::from_u32(of.id()));
    let found = system.processes().iter().filter(own).filter(|(_, process)| process.thread_kind().is_none());
    found.map(|(pid, _)| *pid).collect()
}

fn runs(pid: Pid) -> bool {
    let mut system = System::new();
    system.refresh_processes_specifics(ProcessesToUpdate::Some(&[pid]), true, ProcessRefreshKind::nothing());
    system.process(pid).is_some_and(|process| process.status() != ProcessStatus::Zombie)
}

fn entries(folder: &Path) -> usize {
    fs::read_dir(folder).unwrap().count()
}

#[test]
fn a_grader_that_is_killed_leaves_no_process_and_no_folder() {
    if !compiler(&Device::sim(), "a_grader_that_is_killed_leaves_no_process_and_no_folder") {
        return;
    }
    let (scratch, class) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let person = class.path().join("ada");
    fs::create_dir(&person).unwrap();
    fs::write(person.join("guard.cu"), ENDLESS).unwrap();
    let mut grader = Command::new(env!("CARGO_BIN_EXE_assignments"));
    grader.arg("submissions").arg(class.path()).envs(["TMPDIR", "TMP", "TEMP"].map(|name| (name, scratch.path())));
    let mut grader = grader.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let mut started = Vec::new();
    let begun = comes(60, || {
        started = children(&grader);
        !started.is_empty() && entries(scratch.path()) > 0
    });
    grader.kill().unwrap();
    grader.wait().unwrap();
    assert!(begun, "it started no process");
    assert!(comes(10, || !started.iter().any(|pid| runs(*pid))), "{started:?} still run");
    assert!(comes(10, || entries(scratch.path()) == 0), "its folder is still there");
}

/// As if the command that started it had been killed before it said what to do, or in the middle of that.
#[test]
fn a_process_without_a_whole_line_takes_its_folder_along() {
    for line in ["", "{\"nonce\": 1"] {
        let scratch = tempfile::tempdir().unwrap();
        let task = Task::new(Bounds { time: Duration::from_secs(60), memory: 8 << 30, output: 1 << 20 }).unwrap();
        fs::write(task.folder().join("left"), "").unwrap();
        let mut command = task.command(env!("CARGO_BIN_EXE_assignments"));
        command.arg(child::SUBCOMMAND).current_dir(scratch.path()).stderr(Stdio::null());
        let mut process = command.stdin(Stdio::piped()).spawn().unwrap();
        process.stdin.take().unwrap().write_all(line.as_bytes()).unwrap();
        assert!(!process.wait().unwrap().success());
        assert!(!task.folder().exists(), "{line:?}");
    }
}

/// Isolation, or `None` and the reason printed.
fn isolation(test: &str) -> Option<Isolation> {
    let isolation = Isolation::find();
    if let Err(error) = &isolation {
        println!("{test} is skipped: {error:#}");
    }
    isolation.ok()
}

#[cfg(unix)]
#[test]
fn an_isolated_process_has_no_network_and_writes_to_its_folder_alone() {
    let Some(isolation) = isolation("an_isolated_process_has_no_network_and_writes_to_its_folder_alone") else {
        return;
    };
    let (own, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let script = |command: &mut Command| {
        let script =
            "touch \"$1/file\"; touch \"$2/file\"; (exec 3<>/dev/tcp/127.0.0.1/$3) && touch \"$1/connected\"; true";
        command.args(["-c", script, "bash"]).args([own.path(), other.path()]).arg(port.to_string());
        assert!(command.stderr(Stdio::null()).status().unwrap().success());
        let exists = |folder: &Path, file| folder.join(file).exists();
        (exists(own.path(), "file"), exists(other.path(), "file"), exists(own.path(), "connected"))
    };
    assert_eq!(script(&mut isolation.command("/bin/bash", own.path())), (true, false, false));
    assert_eq!(script(&mut Command::new("/bin/bash")), (true, true, true));
}

#[test]
fn isolated_kernels_get_the_same_verdicts() {
    const NAME: &str = "isolated_kernels_get_the_same_verdicts";
    let Some(isolation) = isolation(NAME).filter(|_| compiler(&Device::sim(), NAME)) else { return };
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap();
    let guard = exercise::all(root).unwrap().swap_remove(0);
    let mut grader = Grader::new(env!("CARGO_BIN_EXE_assignments").into(), Some(1));
    let text = |file: &str| fs::read_to_string(guard.file(file)).unwrap();
    for text in [text("solution.cu"), text("wrong/twice.cu"), "__global__ nonsense".to_owned()] {
        grader.isolation = None;
        let bare = grader.judge(&guard, &text).unwrap().to_string();
        grader.isolation = Some(isolation.clone());
        assert_eq!(grader.judge(&guard, &text).unwrap().to_string(), bare);
    }
    // Where a tool stands between, the memory that counts is that of the process behind it.
    let task = Task::new(Bounds { time: Duration::from_secs(60), memory: 64 << 20, output: 1 << 20 }).unwrap();
    let task = task.isolated(Some(isolation));
    let mut command = task.command(env!("CARGO_BIN_EXE_assignments"));
    command.arg(child::SUBCOMMAND).env("WARP_CACHE_DIR", task.folder().join("cache"));
    let line = serde_json::to_string(&endless(&guard)).unwrap();
    assert_eq!(task.run(command, &line, &AtomicBool::new(false)).unwrap(), Err(Stopped::Memory(64 << 20)));
}

/// As if the command that started it were suspended, or came too late to look: only the process itself knows these bounds.
#[test]
fn a_process_that_nobody_ends_ends_by_its_bounds_and_says_which() {
    if !compiler(&Device::sim(), "a_process_that_nobody_ends_ends_by_its_bounds_and_says_which") {
        return;
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap();
    let guard = exercise::all(root).unwrap().swap_remove(0);
    let bounds = Bounds { time: Duration::from_secs(60), memory: 64 << 30, output: 1 << 20 };
    for (variable, value, stopped) in [
        ("WARP_BOUND_MS", 1000, Stopped::Time(bounds.time)),
        ("WARP_BOUND_BYTES", 64 << 20, Stopped::Memory(bounds.memory)),
    ] {
        let task = Task::new(bounds).unwrap();
        let mut command = task.command(env!("CARGO_BIN_EXE_assignments"));
        command.arg(child::SUBCOMMAND).env("WARP_CACHE_DIR", task.folder().join("cache"));
        command.env(variable, value.to_string());
        let line = serde_json::to_string(&endless(&guard)).unwrap();
        assert_eq!(task.run(command, &line, &AtomicBool::new(false)).unwrap(), Err(stopped), "{variable}");
    }
}

/// As the compiler does that a process starts.
#[test]
#[cfg(target_os = "linux")]
fn what_a_process_has_started_counts_as_a_part_of_it_and_ends_with_it() {
    let (time, memory) = (Duration::from_secs(2), 256 << 20);
    for (time, script, stopped) in [
        (time, "sleep 600 & echo $! > pid; wait", Stopped::Time(time)),
        // One line of a gigabyte, of which `tail` keeps the end: all of it.
        (
            Duration::from_secs(60),
            "head -c 1000000000 /dev/zero | tail -n 1 > kept & echo $! > pid; wait",
            Stopped::Memory(memory),
        ),
    ] {
        let task = Task::new(Bounds { time, memory, output: 1 << 20 }).unwrap();
        let mut command = task.command("sh");
        command.args(["-c", script]).current_dir(task.folder());
        assert_eq!(task.run(command, "", &AtomicBool::new(false)).unwrap(), Err(stopped), "{script}");
        let pid: Pid = fs::read_to_string(task.folder().join("pid")).unwrap().trim().parse().unwrap();
        assert!(comes(10, || !runs(pid)), "{script}: {pid} still runs");
    }
}
