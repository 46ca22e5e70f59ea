//! Work of a GPU while a program runs, by Nsight Systems, for the book's page on profilers. Nothing here records by itself.
//!
//! To record, on a machine with a GPU and Nsight Systems, once for each program:
//! ```sh
//! nsys profile --trace=cuda --cuda-graph-trace=node --output 1 target/release/phase3-all-layers video --device cuda
//! nsys stats --report cuda_gpu_trace --format csv 1.nsys-rep > 1.csv
//! ```
//! and then, with `T` this test's executable (`cargo test -p phase4-fusion --test it timeline:: --no-run` names it):
//! ```sh
//! WARP_NSYS_CSV="phase 3=1.csv,phase 4=2.csv" WARP_NSYS_TOOL="Nsight Systems 2025.3" WARP_DATE=2026-11-26 WARP_COMMIT=… \
//!     T --ignored --exact record_from_nsight_systems
//! ```
//! The last writes `records/nvidia-h200-timeline.csv`, or that of another GPU: for each program how long kernels ran, copies, both at
//! once, or nothing, from its first piece of work on the GPU to the end of its last.
use std::env;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

/// The time from the first piece of work to the end of the last, by kind of work.
#[derive(Debug, Default, PartialEq)]
struct Timeline {
    kernel_alone_ns: u64,
    copy_alone_ns: u64,
    both_ns: u64,
    nothing_ns: u64,
    kernels: usize,
}

/// A piece of work on the GPU: its beginning, its end, and whether it is a kernel.
fn pieces(trace: &str) -> Vec<(u64, u64, bool)> {
    let mut lines = trace.lines().skip_while(|line| !line.starts_with("Start (ns),Duration (ns)"));
    let head: Vec<&str> = lines.next().expect("a trace has a head").split(',').collect();
    let grid = head.iter().position(|field| *field == "GrdX").unwrap();
    let piece = |line: &str| {
        let fields: Vec<&str> = line.split(',').collect();
        let (start, duration): (u64, u64) = (fields[0].parse().unwrap(), fields[1].parse().unwrap());
        // Only kernels have a grid; memsets count as copies.
        (start, start + duration, !fields[grid].is_empty())
    };
    lines.filter(|line| !line.is_empty()).map(piece).collect()
}

fn timeline(trace: &str) -> Timeline {
    let pieces = pieces(trace);
    // Changes in the number of kernels and of copies that run, in order of time.
    let mut changes: Vec<(u64, i32, i32)> = Vec::new();
    for &(start, end, is_kernel) in &pieces {
        let (kernels, copies) = (i32::from(is_kernel), i32::from(!is_kernel));
        changes.extend([(start, kernels, copies), (end, -kernels, -copies)]);
    }
    changes.sort_unstable_by_key(|change| change.0);
    let mut found = Timeline { kernels: pieces.iter().filter(|piece| piece.2).count(), ..Timeline::default() };
    let (mut kernels, mut copies) = (0, 0);
    for (at, &(now, kernel, copy)) in changes.iter().enumerate() {
        kernels += kernel;
        copies += copy;
        let until = changes.get(at + 1).map_or(now, |next| next.0);
        *match (kernels > 0, copies > 0) {
            (true, false) => &mut found.kernel_alone_ns,
            (false, true) => &mut found.copy_alone_ns,
            (true, true) => &mut found.both_ns,
            (false, false) => &mut found.nothing_ns,
        } += until - now;
    }
    found
}

/// The GPU that a trace names, without its number.
fn gpu(trace: &str) -> String {
    let field = trace.split([',', '\n']).find(|field| field.starts_with("NVIDIA ")).expect("a trace names the GPU");
    field.split(" (").next().unwrap_or(field).to_owned()
}

/// The record of programs, each with its trace.
fn recorded(programs: &[(String, String)], tool: &str, date: &str, commit: &str) -> String {
    let device = gpu(&programs[0].1);
    assert!(programs.iter().all(|(_, trace)| gpu(trace) == device), "all of one GPU");
    let mut text = format!(
        "# device: {device}\n# date: {date}\n# commit: {commit}\n# tool: {tool}\n\
         # command: see phase4-fusion/tests/it/timeline.rs\n\
         \"program\",\"kernels\",\"all\",\"kernel alone\",\"copy alone\",\"both\",\"nothing\"\n\
         \"\",\"\",\"ms\",\"%\",\"%\",\"%\",\"%\"\n"
    );
    for (program, trace) in programs {
        let Timeline { kernel_alone_ns, copy_alone_ns, both_ns, nothing_ns, kernels } = timeline(trace);
        let parts = [kernel_alone_ns, copy_alone_ns, both_ns, nothing_ns];
        let all: u64 = parts.iter().sum();
        let shares = parts.map(|ns| format!("{:.1}", ns as f64 / all as f64 * 100.0)).join("\",\"");
        writeln!(text, "\"{program}\",\"{kernels}\",\"{:.2}\",\"{shares}\"", all as f64 / 1e6).unwrap();
    }
    text
}

/// Makes the record from `WARP_NSYS_CSV`.
#[test]
#[ignore = "writes a record"]
fn record_from_nsight_systems() {
    let asked = |name: &str| env::var(name).unwrap_or_else(|_| panic!("{name} is not set"));
    let (csv, tool, date, commit) =
        (asked("WARP_NSYS_CSV"), asked("WARP_NSYS_TOOL"), asked("WARP_DATE"), asked("WARP_COMMIT"));
    let program = |part: &str| {
        let (program, path) = part.split_once('=').expect("PROGRAM=FILE");
        (program.to_owned(), fs::read_to_string(path).unwrap())
    };
    let programs: Vec<_> = csv.split(',').map(program).collect();
    let device = gpu(&programs[0].1);
    let machine =
        ["H200", "H100"].into_iter().find(|name| device.contains(name)).expect("the book knows the GPU").to_lowercase();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("records/nvidia-{machine}-timeline.csv"));
    fs::write(path, recorded(&programs, &tool, &date, &commit)).unwrap();
}

/// A copy of 1 ms and a kernel that begins in its middle; a gap of 0.5 ms; two kernels at once; a fill.
const TRACE: &str = "Processing\n\
    Start (ns),Duration (ns),CorrId,GrdX,Bytes (MB),Device,Name\n\
    10000000,1000000,1,,8.4,NVIDIA H200 (0),[CUDA memcpy Host-to-Device]\n\
    10500000,1500000,2,64,,NVIDIA H200 (0),first\n\
    12500000,400000,3,64,,NVIDIA H200 (0),second\n\
    12600000,400000,4,64,,NVIDIA H200 (0),third\n\
    13000000,500000,5,,8.4,NVIDIA H200 (0),[CUDA memset]\n";

#[test]
fn each_nanosecond_counts_once() {
    let expected = Timeline {
        kernel_alone_ns: 1_000_000 + 500_000,
        copy_alone_ns: 500_000 + 500_000,
        both_ns: 500_000,
        nothing_ns: 500_000,
        kernels: 3,
    };
    assert_eq!(timeline(TRACE), expected);
}

#[test]
fn a_record_has_a_row_for_each_program() {
    let record = recorded(&[("it".to_owned(), TRACE.to_owned())], "Nsight Systems", "2026-11-26", "abc");
    assert!(record.starts_with("# device: NVIDIA H200\n# date: 2026-11-26\n"), "{record}");
    assert!(record.ends_with("\"it\",\"3\",\"3.50\",\"42.9\",\"28.6\",\"14.3\",\"14.3\"\n"), "{record}");
}
