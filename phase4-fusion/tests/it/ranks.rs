//! `ranks`: processes that find each other, and the effect on all of them when one fails.

use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use bench::record::Record;
use bench::table::{Cell, Table};
use phase4_fusion::report::links;

/// The command, without the variables of a launcher.
fn command(args: &[&str]) -> Command {
    let mut command = Command::new(assert_cmd::cargo::cargo_bin!("phase4-fusion"));
    let launchers = ["RANK", "WORLD_SIZE", "LOCAL_RANK", "OMPI_COMM_WORLD_RANK", "SLURM_PROCID", "WARP_DEVICE"];
    for name in launchers {
        command.env_remove(name);
    }
    command.arg("ranks").args(args).env("WARP_RANK_TIMEOUT", "1.5").env_remove("RUST_BACKTRACE");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// How a process ended.
#[derive(Debug)]
struct Ended {
    /// `None` if a signal ended it.
    code: Option<i32>,
    stdout: String,
    stderr: String,
    seconds: f64,
}

fn ended(child: Child, begin: Instant) -> Ended {
    let output = child.wait_with_output().unwrap();
    let [stdout, stderr] = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
    Ended { code: output.status.code(), stdout, stderr, seconds: begin.elapsed().as_secs_f64() }
}

fn run(args: &[&str]) -> Ended {
    let begin = Instant::now();
    ended(command(args).spawn().unwrap(), begin)
}

fn free_port() -> u16 {
    // Below the ports that systems give to connections, which other tests make; and no two calls get the same.
    static CALLS: AtomicU16 = AtomicU16::new(0);
    let first = 20_000 + (std::process::id() % 100) as u16 * 100;
    let is_free = |port: &u16| TcpListener::bind(("127.0.0.1", *port)).is_ok();
    (0..100).map(|_| first + CALLS.fetch_add(1, Ordering::Relaxed)).find(is_free).unwrap()
}

/// A rank with torchrun's variables.
fn rank(rank: usize, size: usize, port: u16, args: &[&str]) -> Command {
    let mut command = command(args);
    command.args(["--device", "sim"]).env("MASTER_ADDR", "127.0.0.1").env("MASTER_PORT", port.to_string());
    for (name, number) in [("RANK", rank), ("LOCAL_RANK", rank), ("WORLD_SIZE", size)] {
        command.env(name, number.to_string());
    }
    command
}

/// All ranks of a world at once, without a launcher.
fn world(size: usize, args: &[&str]) -> Vec<Ended> {
    let (port, begin) = (free_port(), Instant::now());
    let children: Vec<Child> = (0..size).map(|it| rank(it, size, port, args).spawn().unwrap()).collect();
    // Each is waited for by itself, so that its time is its own.
    let threads: Vec<_> = children.into_iter().map(|child| thread::spawn(move || ended(child, begin))).collect();
    threads.into_iter().map(|thread| thread.join().unwrap()).collect()
}

fn all_ok(tables: &str) -> usize {
    let tables: Vec<Table> = serde_json::from_str(tables).unwrap();
    let check = tables[0].column("check").unwrap();
    assert!(tables[0].rows().iter().all(|row| row[check] == Cell::from("ok")), "{}", tables[0].to_text());
    tables[0].rows().len()
}

#[test]
fn eight_processes_check_every_operation_and_save_the_run() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("run.json");
    let save = path.to_str().unwrap();
    let ended = run(&["--processes", "8", "--device", "sim", "--format", "json", "--values", "257", "--save", save]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert_eq!(all_ok(&ended.stdout), 8);
    for rank in 0..8 {
        let line = format!("[rank {rank}] device: sim (chosen), rank {rank} of 8 by torchrun's variables");
        assert!(ended.stderr.contains(&line), "{}", ended.stderr);
    }
    assert!(Record::open(&path).unwrap().table("ranks").is_some());
}

#[test]
fn threads_and_launchers_of_clusters_give_the_same_table() {
    let table = |ended: &Ended| {
        assert_eq!(ended.code, Some(0), "{}", ended.stderr);
        assert_eq!(all_ok(&ended.stdout), 8);
        ended.stdout.clone()
    };
    let threads = run(&["--device", "sim:2", "--format", "json"]);
    // Among processes each device is the only one.
    let expected = table(&threads).replace("sim:0, sim:1", "sim, sim");
    let port = free_port().to_string();
    type Variables = [(&'static str, [&'static str; 2])];
    let slurm: &Variables = &[
        ("SLURM_PROCID", ["0", "1"]),
        ("SLURM_LOCALID", ["0", "1"]),
        ("SLURM_NTASKS", ["2"; 2]),
        ("SLURM_STEP_ID", ["0"; 2]),
        ("SLURM_JOB_ID", ["77"; 2]),
        ("SLURM_STEP_NODELIST", ["localhost"; 2]),
    ];
    let open_mpi: &Variables = &[
        ("OMPI_COMM_WORLD_RANK", ["0", "1"]),
        ("OMPI_COMM_WORLD_LOCAL_RANK", ["0", "1"]),
        ("OMPI_COMM_WORLD_SIZE", ["2"; 2]),
        ("OMPI_COMM_WORLD_LOCAL_SIZE", ["2"; 2]),
    ];
    for variables in [slurm, open_mpi] {
        let start = |rank: usize| {
            let mut command = command(&["--device", "sim", "--format", "json"]);
            command.envs(variables.iter().map(|(name, values)| (*name, values[rank]))).env("MASTER_PORT", &port);
            command.spawn().unwrap()
        };
        let (begin, children) = (Instant::now(), [start(0), start(1)]);
        let [first, second] = children.map(|child| ended(child, begin));
        assert_eq!(table(&first), expected);
        assert_eq!((second.code, second.stdout.as_str()), (Some(0), ""), "{}", second.stderr);
    }
}

/// A planned mistake of a rank: the message of all others, its time limit, and the exit code of the rank itself.
struct Case {
    fault: &'static str,
    rank: usize,
    code: Option<i32>,
    sentence: &'static str,
    within: f64,
}

/// The timeout is 1.5 s; a loaded machine gets 2.5 s more.
const SLACK: f64 = 2.5;

#[test]
fn every_fault_is_a_sentence_on_every_rank_and_nothing_is_half_written() {
    let aborted = if cfg!(unix) { None } else { Some(-1_073_740_791) };
    let case = |fault, rank, code, sentence, within| Case { fault, rank, code, sentence, within };
    let cases = [
        case("kill:2@3", 2, aborted, "the process of rank 2 of 3 ended before the run was over", 0.0),
        case("kill:0@5", 0, aborted, "the process of rank 0 ended before the run was over", 0.0),
        case("slow:1@2.4", 1, Some(1), "but rank 1 did not come within 1.5 s", 1.5),
        // One that would take for ever is ended by itself, after the same time once more.
        case("slow:2@60", 2, Some(1), "but rank 2 did not come within 1.5 s", 1.5),
        case("oom:1", 1, Some(1), "out of memory on sim: 8589934593 bytes requested", 0.0),
        case("mismatch:2", 2, Some(1), "rank 2 calls all_reduce(sum) of 1002 f32", 0.0),
        case("absent:1", 1, Some(0), "rank 1 of 3 did not come within 1.5 s", 1.5),
        case("absent:0", 0, Some(0), "rank 0 did not come to 127.0.0.1:", 1.5),
    ];
    let dir = tempfile::tempdir().unwrap();
    thread::scope(|scope| {
        for Case { fault, rank, code, sentence, within } in cases {
            let dir = &dir;
            scope.spawn(move || {
                let path = dir.path().join(fault.replace([':', '@', '.'], "-"));
                if fault.starts_with("oom") {
                    std::fs::write(&path, "an earlier run").unwrap();
                }
                let all = world(3, &["--fault", fault, "--save", path.to_str().unwrap()]);
                for (it, ended) in all.iter().enumerate() {
                    let expected = if it == rank { code } else { Some(1) };
                    assert_eq!(ended.code, expected, "{fault}, rank {it}: {ended:?}");
                    assert!(ended.stdout.is_empty(), "{fault}, rank {it}: {ended:?}");
                    if it != rank {
                        assert!(ended.stderr.contains(sentence), "{fault}, rank {it}: {ended:?}");
                        let range = within..within + SLACK;
                        assert!(range.contains(&ended.seconds), "{fault}, rank {it}: {} s", ended.seconds);
                    }
                }
                let kept = std::fs::read_to_string(&path).ok();
                assert_eq!(kept.as_deref(), fault.starts_with("oom").then_some("an earlier run"), "{fault}");
            });
        }
    });
    let left: Vec<_> = std::fs::read_dir(dir.path()).unwrap().collect();
    assert_eq!(left.len(), 1, "{left:?}");
}

#[test]
fn a_port_that_is_taken_and_a_stranger_at_it_are_sentences() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    let begin = Instant::now();
    let children = [0, 1].map(|it| rank(it, 2, port, &[]).spawn().unwrap());
    let [zero, one] = children.map(|child| ended(child, begin));
    let sentence =
        format!("rank 0 cannot listen at 127.0.0.1:{port}: port {port} is taken; end what has it, or set MASTER_PORT");
    assert!(zero.code == Some(1) && zero.stderr.contains(&sentence), "{zero:?}");
    let sentence = format!(
        "rank 0 did not come to 127.0.0.1:{port} within 1.5 s: what listens there is not rank 0 of this program"
    );
    assert!(one.code == Some(1) && one.stderr.contains(&sentence) && one.seconds < 1.5 + SLACK, "{one:?}");
}

/// Strangers may connect to rank 0's port before the others: the ranks work all the same.
#[test]
fn strangers_at_rank_0_change_nothing() {
    let port = free_port();
    let start = |it: usize| {
        let mut command = rank(it, 2, port, &["--format", "json"]);
        command.env("WARP_RANK_TIMEOUT", "5");
        (command.spawn().unwrap(), Instant::now())
    };
    let (zero, begin) = start(0);
    let knock = || loop {
        match TcpStream::connect(("127.0.0.1", port)) {
            Ok(stream) => break stream,
            Err(_) => thread::sleep(Duration::from_millis(5)),
        }
    };
    let silent = knock();
    let mut greeting = vec![1, 60, 0, 0, 0];
    greeting.extend(b"WARPRANK");
    greeting.extend([0xFF; 52]);
    for bytes in
        [&b"GET / HTTP/1.1\r\nHost: rank\r\n\r\n"[..], &[8, 255, 255, 255, 255], &[1, 0, 16, 0, 0, 7], &greeting]
    {
        let _ = knock().write_all(bytes);
    }
    let (one, _) = start(1);
    let [zero, one] = [zero, one].map(|child| ended(child, begin));
    assert_eq!((zero.code, one.code), (Some(0), Some(0)), "{}{}", zero.stderr, one.stderr);
    assert_eq!(all_ok(&zero.stdout), 8);
    drop(silent);
}

#[test]
fn ranks_of_another_world_or_program_are_refused() {
    for (other, sentence) in [
        (rank(1, 3, 0, &[]), "rank 1 counts 3 ranks, rank 0 counts 2"),
        (rank(1, 2, 0, &["--values", "7"]), "rank 1 runs another program than rank 0, or with other arguments"),
        (rank(0, 2, 0, &[]), "port"),
    ] {
        let (port, mut other) = (free_port(), other);
        other.env("MASTER_PORT", port.to_string());
        let (zero, begin) = (rank(0, 2, port, &[]).spawn().unwrap(), Instant::now());
        if sentence == "port" {
            // Both are rank 0: one of them has the port.
            let [a, b] = [zero, other.spawn().unwrap()].map(|child| ended(child, begin));
            assert!(a.code == Some(1) && b.code == Some(1), "{a:?}{b:?}");
            let said = a.stderr + &b.stderr;
            assert!(said.contains("is taken") && said.contains("rank 1 of 2 did not come within 1.5 s"), "{said}");
            continue;
        }
        for ended in [zero, other.spawn().unwrap()].map(|child| ended(child, begin)) {
            assert!(ended.code == Some(1) && ended.stderr.contains(sentence), "{ended:?}");
        }
    }
}

#[test]
fn wrong_variables_and_options_are_refused_with_their_names() {
    let mut command = rank(0, 2, 1, &[]);
    let refused = ended(command.env("RANK", "two").spawn().unwrap(), Instant::now());
    assert!(refused.code == Some(1) && refused.stderr.contains("RANK is `two`: a whole number"), "{refused:?}");
    let mut command = self::command(&["--device", "sim"]);
    let refused = ended(command.env("WARP_RANK_TIMEOUT", "soon").spawn().unwrap(), Instant::now());
    assert!(refused.code == Some(1) && refused.stderr.contains("WARP_RANK_TIMEOUT is `soon`"), "{refused:?}");
    let refused = run(&["--device", "sim", "--transport", "nccl"]);
    assert!(refused.code == Some(1) && refused.stderr.contains("it runs on NVIDIA GPUs only"), "{refused:?}");
    assert_eq!(run(&["--processes", "2", "--threads", "2"]).code, Some(2));
    assert_eq!(run(&["--fault", "nap:1"]).code, Some(2));
}

/// The launcher passes on the failures of its processes; a slow rank does not keep it.
#[test]
fn the_launcher_leaves_no_process_and_passes_on_what_all_say() {
    let begin = Instant::now();
    let (mark, mut command) = marked(&["--processes", "3", "--device", "sim", "--fault", "kill:1@3"]);
    let killed = ended(command.spawn().unwrap(), begin);
    assert_eq!(killed.code, Some(1), "{killed:?}");
    for rank in [0, 2] {
        let line = format!("[rank {rank}] error: the process of rank 1 of 3 ended before the run was over");
        assert!(killed.stderr.contains(&line), "{killed:?}");
    }
    assert!(killed.stderr.contains("of 3 failed (") && killed.stderr.contains("no process is left"), "{killed:?}");
    assert_none_left(&mark);
    let help =
        run(&["--processes", "2", "--", assert_cmd::cargo::cargo_bin!("phase4-fusion").to_str().unwrap(), "--help"]);
    assert_eq!(help.code, Some(0), "{help:?}");
    assert!(help.stdout.contains("\nUsage: ") && help.stdout.contains("[rank 1] Usage: "), "{}", help.stdout);
    let absent = run(&["--processes", "2", "--", "no/such/program"]);
    assert!(absent.code == Some(1) && absent.stderr.contains("no/such/program"), "{absent:?}");
}

/// However the launcher ends, so do its processes.
#[cfg(target_os = "linux")]
#[test]
fn processes_end_with_their_launcher() {
    let (mark, mut command) = marked(&["--processes", "2", "--device", "sim", "--fault", "slow:1@60"]);
    let mut launcher = command.env("WARP_RANK_TIMEOUT", "60").spawn().unwrap();
    let begin = Instant::now();
    while with_mark(&mark).len() < 3 {
        assert!(begin.elapsed() < Duration::from_secs(5), "the processes do not start");
        thread::sleep(Duration::from_millis(10));
    }
    // They look for the launcher from their first steps on.
    thread::sleep(Duration::from_millis(300));
    launcher.kill().unwrap();
    launcher.wait().unwrap();
    assert_none_left(&mark);
}

/// The page's model of links that no available machine has.
#[test]
fn the_kept_model_is_what_the_code_computes() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("records/links.json");
    let again = "cargo run -p phase4-fusion -- links --device sim --save phase4-fusion/records/links.json";
    assert_eq!(Record::open(&path).unwrap().table("links"), Some(&links::table()), "{again}");
}

/// A command whose processes can be found again.
fn marked(args: &[&str]) -> (String, Command) {
    let mark = format!("WARP_TEST_MARK={}-{}", std::process::id(), free_port());
    let mut command = command(args);
    let (name, value) = mark.split_once('=').unwrap();
    command.env(name, value);
    (mark, command)
}

/// Processes with this in their environment. Only on Linux.
fn with_mark(mark: &str) -> Vec<String> {
    let Ok(processes) = Path::new("/proc").read_dir() else { return Vec::new() };
    let name = |entry: std::io::Result<std::fs::DirEntry>| entry.ok()?.file_name().into_string().ok();
    let has = |pid: &String| {
        let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environment.split(|byte| *byte == 0).any(|variable| variable == mark.as_bytes())
    };
    processes.filter_map(name).filter(has).collect()
}

fn assert_none_left(mark: &str) {
    let begin = Instant::now();
    while !with_mark(mark).is_empty() {
        assert!(begin.elapsed() < Duration::from_secs(3), "left: {:?}", with_mark(mark));
        thread::sleep(Duration::from_millis(10));
    }
}

/// Two processes, a GPU each, by NCCL; and one that dies in the middle.
#[test]
fn processes_exchange_by_nccl_cuda() {
    const TEST: &str = "processes_exchange_by_nccl";
    let Some(_gpus) = common::private::gpus_for_test(TEST, 2) else { return };
    if let Err(tried) = common::probe::Library::Nccl.open() {
        println!("{TEST}: skipped, since NCCL is absent: {tried}");
        return;
    }
    let args =
        ["--processes", "2", "--device", "cuda", "--transport", "nccl", "--values", "100003", "--format", "json"];
    let patient = |more: &[&str]| {
        let mut command = command(&[&args[..], more].concat());
        ended(command.env("WARP_RANK_TIMEOUT", "20").spawn().unwrap(), Instant::now())
    };
    let well = patient(&[]);
    assert_eq!(well.code, Some(0), "{}", well.stderr);
    assert!(all_ok(&well.stdout) == 8 && well.stdout.contains("by NCCL"), "{}", well.stdout);
    let killed = patient(&["--fault", "kill:1@3"]);
    assert_eq!(killed.code, Some(1), "{}", killed.stderr);
    assert!(killed.stderr.contains("[rank 0] error: the process of rank 1 of 2 ended before"), "{}", killed.stderr);
}
