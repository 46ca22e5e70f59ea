//! The command under `--time-limit` and `--memory-limit`: no input file takes more than a tenth beyond either.
//!
//! By hand with the limits of a grader: `PTX_SIM_TIME_LIMIT=10 PTX_SIM_MEMORY_LIMIT=1GiB cargo test -p ptx-sim --test it limits::`.

use crate::threads;

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use threads::kernel_of_threads;

const HEAD: &str = ".version 8.0\n.target sm_80\n.address_size 64\n";

/// Memory of the command itself, besides that of its kernel: its code, its threads' stacks.
const OWN_MEMORY: u64 = 24 << 20;

/// Delay with which a busy machine may notice.
const OWN_TIME: Duration = Duration::from_millis(1500);

/// Peak memory of the process so far; `None` if the system does not report it.
fn peak_memory(process: u32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().trim_end_matches(" kB").trim().parse::<u64>().ok().map(|kib| kib << 10)
}

fn setting(name: &str, default: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| default.to_owned())
}

fn bytes_of(text: &str) -> u64 {
    match text.strip_suffix("GiB") {
        Some(count) => count.parse::<u64>().expect("a number of GiB") << 30,
        None => text.trim_end_matches("MiB").parse::<u64>().expect("a number of MiB") << 20,
    }
}

/// Runs `ptx-sim` on a file with that text, within the limits, and returns its JSON and exit status.
fn run(name: &str, text: &str, args: &str) -> (Value, i32) {
    let (time, memory) = (setting("PTX_SIM_TIME_LIMIT", "1"), setting("PTX_SIM_MEMORY_LIMIT", "128MiB"));
    let folder = tempfile::tempdir().expect("there is a temporary folder");
    let file = folder.path().join("attack.ptx");
    std::fs::write(&file, format!("{HEAD}{text}")).expect("it can be written to");
    let (subcommand, args) = args.split_once(' ').unwrap_or((args, ""));
    let printed = std::fs::File::create(folder.path().join("out")).expect("it can be written to");
    let begun = Instant::now();
    let mut child = Command::new(assert_cmd::cargo::cargo_bin!("ptx-sim"))
        .arg(subcommand)
        .arg(&file)
        .args(["--time-limit", &time, "--memory-limit", &memory])
        // Larger than what a fast machine gets through in ten seconds.
        .args((subcommand == "run").then_some(["--budget", "1000000000000"]).into_iter().flatten())
        .args(args.split_whitespace())
        .stdout(printed)
        .stderr(Stdio::null())
        .spawn()
        .expect("the command can be started");
    let mut peak = 0;
    let status = loop {
        peak = peak.max(peak_memory(child.id()).unwrap_or(0));
        match child.try_wait().expect("it is ours") {
            Some(status) => break status,
            None => std::thread::sleep(Duration::from_millis(5)),
        }
    };
    let took = begun.elapsed();
    println!("{name}: {took:.2?}, {} MiB", peak >> 20);
    let time = Duration::from_secs_f64(time.parse().expect("a number of seconds"));
    let most = time + time / 10 + OWN_TIME;
    assert!(took < most, "{name} takes {took:?}, more than {most:?}: on a busy machine, set PTX_SIM_TIME_LIMIT=10");
    assert!(peak < bytes_of(&memory) / 10 * 11 + OWN_MEMORY, "{name} takes {} MiB", peak >> 20);
    let json = std::fs::read(folder.path().join("out")).expect("it was written");
    (serde_json::from_slice(&json).unwrap_or_default(), status.code().expect("it ends by itself"))
}

/// The command fails with a fault of one of these kinds.
fn stopped(name: &str, text: &str, args: &str, kinds: &[&str]) {
    let (json, status) = run(name, text, args);
    let fault = json.get("fault").or_else(|| {
        json.get("findings")?.as_array()?.iter().find(|finding| kinds.contains(&finding["kind"].as_str().unwrap_or("")))
    });
    let kind = fault.and_then(|fault| fault["kind"].as_str()).unwrap_or_default();
    assert!(kinds.contains(&kind) && status == 1, "{name}: status {status}, {json}");
    assert!(!fault.is_none_or(|fault| fault["message"].as_str().is_none_or(str::is_empty)), "{name}: {json}");
}

const TIME: &[&str] = &["time-limit"];
const MEMORY: &[&str] = &["memory-limit"];
const EITHER: &[&str] = &["time-limit", "memory-limit"];

#[test]
fn endless_kernels_are_stopped_in_time() {
    let endless = ".visible .entry k() {\n$L: bra $L;\n}";
    stopped("a loop", endless, "run --kernel k --json", TIME);
    stopped("a loop of many threads", endless, "run --kernel k --grid 1000 --block 1024 --json", TIME);
    stopped("a sanitised loop", endless, "run --kernel k --block 64 --sanitize --json", TIME);
    stopped("a profiled loop", endless, "run --kernel k --block 64 --profile --json", TIME);
    let watched = ".visible .entry k() {\n.reg .f32 %f<2>;\n$L: mov.f32 %f1, 0f7FC00000;\nbra $L;\n}";
    stopped("a watched loop", watched, "run --kernel k --block 32 --warp 0 --watch %f1 --json", TIME);
    stopped("many short blocks", ".visible .entry k() { ret; }", "run --kernel k --grid 2147483647 --json", TIME);
    let barriers = ".visible .entry k() {\n$L: bar.sync 0;\nbra $L;\n}";
    stopped("barriers", barriers, "run --kernel k --block 1024 --grid 64 --json", TIME);
    let sleeps = ".visible .entry k() {\n$L: nanosleep.u32 1;\nbra $L;\n}";
    stopped("sleeps", sleeps, "run --kernel k --block 1024 --json", TIME);
    let (_, status) = run("a traced loop", endless, "trace --kernel k --list");
    assert_eq!(status, 1);
}

/// A line of the profile has some hundred numbers.
#[test]
fn a_profile_of_many_lines_is_written_within_the_limits() {
    let lines: String = (0..20_000).map(|line| format!(".loc 1 {} 0\nadd.u32 %r1, %r1, 1;\n", line + 1)).collect();
    let text = format!(".file 1 \"a.cu\"\n.visible .entry k() {{\n.reg .b32 %r<2>;\nmov.u32 %r1, 0;\n{lines}ret;\n}}");
    let (json, status) = run("a profile of many lines", &text, "run --kernel k --profile --json");
    let written = json["profile"]["lines"].as_array().map_or(0, Vec::len);
    assert!(status == 1 || written >= 20_000, "status {status}, {written} lines");
}

/// Built-in functions that do much at each call.
#[test]
fn expensive_calls_are_stopped_in_time() {
    // "%999999999d%s…", with the format itself as each string.
    let mut format = "%999999999d".repeat(100) + &"%s".repeat(1000);
    format.push('\0');
    let format: Vec<String> = format.bytes().map(|byte| byte.to_string()).collect();
    let printf = format!(
        ".extern .func (.param .b32 r) vprintf (.param .b64 a, .param .b64 b);
        .global .b8 format[] = {{{}}};
        .visible .entry k() {{
            .reg .b64 %rd<9>; .reg .b32 %r<4>; .reg .pred %p<2>;
            .local .align 8 .b8 stack[8800];
            mov.u64 %rd1, format;
            mov.u64 %rd2, stack;
            mov.u32 %r1, 0;
            $F: cvt.u64.u32 %rd3, %r1;
            add.u64 %rd3, %rd3, %rd2;
            st.local.u64 [%rd3], %rd1;
            add.u32 %r1, %r1, 8; setp.lt.u32 %p1, %r1, 8800;
            @%p1 bra $F;
            cvta.local.u64 %rd2, %rd2;
            $L: {{ .param .b64 a; .param .b64 b; .param .b32 r;
              st.param.b64 [a], %rd1; st.param.b64 [b], %rd2;
              call.uni (r), vprintf, (a, b); }}
            bra $L;
        }}",
        format.join(",")
    );
    stopped("printf", &printf, "run --kernel k --block 1024 --grid 8 --json", TIME);
    let heap = "
        .extern .func (.param .b64 r) malloc (.param .b64 a);
        .extern .func free (.param .b64 a);
        .visible .entry k() {
            .reg .b64 %rd<3>;
            $L: mov.u64 %rd1, 1;
            { .param .b64 a; .param .b64 r; st.param.b64 [a], %rd1; call.uni (r), malloc, (a); ld.param.b64 %rd2, [r]; }
            FREE
            bra $L;
        }";
    let free = "{ .param .b64 a; st.param.b64 [a], %rd2; call.uni free, (a); }";
    stopped("malloc", &heap.replace("FREE", ""), "run --kernel k --block 1024 --json", EITHER);
    stopped("malloc and free", &heap.replace("FREE", free), "run --kernel k --block 512 --json", TIME);
    let copies = "
        .visible .entry k(.param .u64 data) {
            .reg .b64 %rd<3>; .reg .b32 %r<3>; .reg .pred %p<2>;
            .shared .align 16 .b8 tile[16];
            ld.param.u64 %rd1, [data]; mov.u32 %r1, tile; mov.u32 %r2, 0;
            $L: cp.async.ca.shared.global [%r1], [%rd1], 4;
            cp.async.commit_group;
            add.u32 %r2, %r2, 1; setp.lt.u32 %p1, %r2, 2000;
            @%p1 bra $L;
            $M: cp.async.wait_group 100000;
            bra $M;
        }";
    stopped("waits", copies, "run --kernel k --block 1024 --json in:u32:1,2,3,4", EITHER);
    let arrivals = "
        .visible .entry k(.param .u64 data) {
            .reg .b64 %rd<3>; .reg .b32 %r<4>; .reg .pred %p<3>;
            .shared .align 16 .b8 tile[16]; .shared .align 8 .b64 bar[2];
            ld.param.u64 %rd1, [data]; mov.u32 %r1, tile; mov.u32 %r2, bar; mov.u32 %r3, 0;
            mbarrier.init.shared.b64 [%r2], 1000;
            mbarrier.init.shared.b64 [%r2+8], 1000;
            $L: cp.async.ca.shared.global [%r1], [%rd1], 4;
            cp.async.mbarrier.arrive.noinc.shared.b64 [%r2];
            add.u32 %r3, %r3, 1; setp.lt.u32 %p1, %r3, COUNT;
            @%p1 bra $L;
            $M: mbarrier.test_wait.parity.shared.b64 %p2, [%r2+8], 0;
            bra $M;
        }";
    for (name, count) in [("arrivals", "4000000000"), ("waits for arrivals", "500")] {
        let text = arrivals.replace("COUNT", count);
        stopped(name, &text, "run --kernel k --block 1024 --json in:u32:1,2,3,4", EITHER);
    }
}

#[test]
fn memory_of_begun_blocks_is_limited() {
    let local = ".visible .entry k() {\n.local .b8 x[524288];\n.reg .b32 %r<2>;\nmov.u32 %r1, x;\n$L: bra $L;\n}";
    stopped("local memory", local, "run --kernel k --grid 1024 --block 1024 --json", EITHER);
    stopped("some local memory", local, "run --kernel k --grid 1024 --block 32 --json", TIME);
    stopped("sanitised local memory", local, "run --kernel k --grid 1024 --block 64 --sanitize --json", EITHER);
    let adds: String = (1..20_000).map(|at| format!("add.u64 %rd{at}, %rd0, 1;\n")).collect();
    let registers = format!(".visible .entry k() {{\n.reg .b64 %rd<30000>;\n$L: {adds} bra $L;\n}}");
    stopped("registers", &registers, "run --kernel k --grid 1024 --block 1024 --json", EITHER);
    let recursion = "
        .func f() { .local .b8 y[1000]; .reg .b32 %r<2>; mov.u32 %r1, y; call f; ret; }
        .visible .entry k() { call f; ret; }";
    stopped(
        "a recursion",
        recursion,
        "run --kernel k --grid 64 --block 1024 --json",
        &["stack-overflow", "memory-limit"],
    );
    // Each lane leaves the others at another depth, with a call stack of its own.
    let apart = "
        .func f(.param .b32 depth) {
            .reg .b32 %r<4>; .reg .pred %p<2>;
            ld.param.b32 %r1, [depth]; add.u32 %r1, %r1, 1;
            mov.u32 %r2, %laneid; shl.b32 %r2, %r2, 6;
            setp.gt.u32 %p1, %r1, %r2;
            @%p1 bra $M;
            { .param .b32 a; st.param.b32 [a], %r1; call f, (a); }
            bra $N;
            $M: { .param .b32 a; st.param.b32 [a], %r1; call f, (a); }
            $N: ret;
        }
        .visible .entry k() {
            { .param .b32 a; st.param.b32 [a], 0; call f, (a); }
            ret;
        }";
    stopped(
        "a recursion of lanes apart",
        apart,
        "run --kernel k --grid 64 --block 1024 --json",
        &["stack-overflow", "memory-limit", "time-limit"],
    );
}

#[test]
fn what_is_remembered_is_limited() {
    let bytes = kernel_of_threads(
        "cvt.u64.u32 %rd2, %r1;
         add.u64 %rd1, %rd1, %rd2;
         st.global.u8 [%rd1], %r1;",
    );
    stopped("a shadow", &bytes, "run --kernel k --grid 32768 --block 1024 --sanitize --json out:u8:33554432", EITHER);
    let scattered = bytes.replace("cvt.u64.u32 %rd2, %r1;", "mul.wide.u32 %rd2, %r1, 512;");
    // What is touched of a buffer of a quarter of the limit needs more than all of it.
    let limit = bytes_of(&setting("PTX_SIM_MEMORY_LIMIT", "128MiB"));
    let (blocks, size) = (limit >> 21, limit / 4);
    stopped(
        "a scattered shadow",
        &scattered,
        &format!("run --kernel k --grid {blocks} --block 1024 --sanitize --json out:u8:{size}"),
        EITHER,
    );
    // Each thread lets the others know through ever other words, and takes over what they did.
    let handovers = kernel_of_threads(
        "$L: mad.lo.u32 %r1, %r1, 1664525, 1013904223;
         shr.u32 %r2, %r1, 12;
         mul.wide.u32 %rd2, %r2, 4;
         add.u64 %rd2, %rd1, %rd2;
         atom.acq_rel.gpu.global.exch.b32 %r3, [%rd2], %r1;
         bra $L;",
    );
    stopped("handovers", &handovers, "run --kernel k --grid 64 --block 256 --sanitize --json out:u32:1048576", EITHER);
    let unwritten = "
        .visible .entry k(.param .u64 data) {
            .reg .b64 %rd<2>; .reg .b32 %r<2000>;
            ld.param.u64 %rd1, [data];
            LOADS
            $L: bra $L;
        }";
    let loads: String = (0..2000).map(|at| format!("ld.global.u32 %r{at}, [%rd1];\n")).collect();
    stopped(
        "values that nobody set",
        &unwritten.replace("LOADS", &loads),
        "run --kernel k --grid 1024 --block 1024 --sanitize --json out:u32:16",
        EITHER,
    );
    let (_, status) = run(
        "a long trace",
        ".visible .entry k(.param .u64 a) {\n.reg .b64 %rd<3>;\nld.param.u64 %rd1, [a];\n$L: ld.global.u64 %rd2, [%rd1];\nbra $L;\n}",
        "trace --kernel k --block 32 --max-steps 1000000000 --list in:u64:0",
    );
    assert_eq!(status, 1);
    stopped("a large variable", ".global .b8 x[1000000000000];\n.entry k() { ret; }", "run --kernel k --json", MEMORY);
    stopped("a variable", ".global .b8 x[2000000000];\n.entry k() { ret; }", "run --kernel k --json", MEMORY);
}

#[test]
fn loading_stays_within_the_limits() {
    let within = |name: &str, text: &str| {
        let (json, status) = run(name, text, "check --json");
        let kind = json["fault"]["kind"].as_str();
        assert!(kind.is_none_or(|kind| EITHER.contains(&kind)) && (0..=1).contains(&status), "{name}: {status}");
        kind.map(str::to_owned)
    };
    let empty = "{}, ".repeat(2000);
    assert_eq!(within("initialisers", &format!(".global .b8 x[2001][100000000] = {{ {empty} {{1}} }};")), None);
    let many: String = (0..2000).map(|at| format!(".global .b8 x{at}[4000000000] = {{1}};\n")).collect();
    assert_eq!(within("many initialisers", &many), None);
    let instructions = "ret;".repeat(4_000_000);
    assert!(within("instructions", &format!(".entry k() {{ {instructions} }}")).is_some());
    within("numbers", &format!(".global .b8 x[] = {{ {} 0 }};", "0,".repeat(8_000_000)));
    let unknown = "shfl.down;".repeat(50_000);
    let kernels: String = (0..50_000).map(|at| format!(".entry k{at}() {{ call f; shfl.down; }}\n")).collect();
    assert!(within("unknown instructions", &format!(".func f() {{ {unknown} }}\n{kernels}")).is_some());
    let long = "[1]".repeat(30_000);
    within("a long type", &format!(".entry k(.param .b8 x{long}) {{ ret; }}"));
    let line = "ret ".repeat(2_000_000);
    within("a long line", &format!(".entry k() {{ {line} }}"));
}
