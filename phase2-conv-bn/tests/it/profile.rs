//! Metrics of Nsight Compute for each step of the GEMM ladder, for the book's page on profilers. Nothing here runs by itself.
//!
//! To record, on a machine with a GPU and Nsight Compute, with `T` this test's executable
//! (`cargo test -p phase2-conv-bn --test it profile:: --no-run` names it):
//! ```sh
//! ncu --csv --page raw --print-units base --clock-control none --kernel-name regex:^gemm \
//!     --metrics "$(T --ignored --exact --nocapture metrics | grep -o 'gpu__time.*')" T --ignored --exact each_step_once > ncu.csv
//! WARP_NCU_CSV=ncu.csv WARP_NCU_TOOL="Nsight Compute 2025.3" WARP_DATE=2026-11-25 WARP_COMMIT=… \
//!     T --ignored --exact record_from_nsight_compute
//! ```
//! The last writes `records/nvidia-h100-ncu.csv`, or that of another card, without the names of machines and users that Nsight Compute adds.
use std::env;
use std::fs;
use std::path::Path;

use common::prelude::*;
use phase2_conv_bn::gemm::{Epilogue, LADDER, Layout, Step};

/// M, N and K, all whole tiles for every step.
const SIZE: usize = 4096;

/// Steps of one kernel each. The last cuts K, and adds up in a second one.
fn steps() -> impl Iterator<Item = &'static Step> {
    LADDER.iter().take(LADDER.len() - 1)
}

/// Metrics to request, by the headings of the record: the time, shares of the peaks, caches, resident warps, and by Nsight
/// Compute's names the warps' stall reasons: the average number of warps per issued instruction.
const METRICS: [(&str, &str); 15] = [
    ("time", "gpu__time_duration.sum"),
    ("arithmetic", "sm__throughput.avg.pct_of_peak_sustained_elapsed"),
    ("memory", "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed"),
    ("DRAM", "dram__bytes.sum"),
    ("L1 hits", "l1tex__t_sector_hit_rate.pct"),
    ("L2 hits", "lts__t_sector_hit_rate.pct"),
    ("warps", "sm__warps_active.avg.pct_of_peak_sustained_active"),
    ("issue slots", "smsp__issue_active.avg.pct_of_peak_sustained_active"),
    ("Long Scoreboard", "smsp__average_warps_issue_stalled_long_scoreboard_per_issue_active.ratio"),
    ("Short Scoreboard", "smsp__average_warps_issue_stalled_short_scoreboard_per_issue_active.ratio"),
    ("MIO Throttle", "smsp__average_warps_issue_stalled_mio_throttle_per_issue_active.ratio"),
    ("Math Pipe Throttle", "smsp__average_warps_issue_stalled_math_pipe_throttle_per_issue_active.ratio"),
    ("Wait", "smsp__average_warps_issue_stalled_wait_per_issue_active.ratio"),
    ("Barrier", "smsp__average_warps_issue_stalled_barrier_per_issue_active.ratio"),
    ("Not Selected", "smsp__average_warps_issue_stalled_not_selected_per_issue_active.ratio"),
];

/// The metrics for Nsight Compute's command line.
#[test]
#[ignore = "for Nsight Compute's command line"]
fn metrics() {
    println!("{}", METRICS.map(|(_, metric)| metric).join(","));
}

/// Launches each step once, in order.
#[test]
#[ignore = "for Nsight Compute to profile, on a GPU"]
fn each_step_once() {
    let device = Device::open("cuda".parse().unwrap()).unwrap();
    let stream = device.stream();
    let a = Tensor::random(&[SIZE, SIZE], 1).to_device(&device).unwrap();
    let b = Tensor::random(&[SIZE, SIZE], 2).to_device(&device).unwrap();
    let mut c = Tensor::full(&[SIZE, SIZE], f32::NAN).to_device(&device).unwrap();
    let epilogue = Epilogue { alpha: 1.0, beta: 0.0, bias: None, relu: false };
    for step in steps() {
        let gemm = step.load(&device).unwrap();
        gemm.launch(&stream, &a, &b, Layout::RowMajor, &epilogue, &mut c).unwrap();
        stream.synchronize().unwrap();
    }
}

/// Makes the record from `WARP_NCU_CSV`.
#[test]
#[ignore = "writes a record"]
fn record_from_nsight_compute() {
    let asked = |name: &str| env::var(name).unwrap_or_else(|_| panic!("{name} is not set"));
    let (csv, tool, date, commit) =
        (asked("WARP_NCU_CSV"), asked("WARP_NCU_TOOL"), asked("WARP_DATE"), asked("WARP_COMMIT"));
    let record = recorded(&fs::read_to_string(csv).unwrap(), &tool, &date, &commit);
    let asked = |name: &str| record.lines().next().is_some_and(|device| device.contains(name));
    let machine = ["H200", "H100"].into_iter().find(|name| asked(name)).expect("the book knows the GPU").to_lowercase();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("records/nvidia-{machine}-ncu.csv"));
    fs::write(path, record).unwrap();
}

/// A session in the book's format: its origin, then the steps with their metrics and units.
fn recorded(csv: &str, tool: &str, date: &str, commit: &str) -> String {
    let rows: Vec<Vec<String>> = csv.lines().filter(|line| line.starts_with('"')).map(fields).collect();
    let (head, rows) = rows.split_first().expect("Nsight Compute wrote a head");
    let find = |name: &str| head.iter().position(|field| field == name);
    let column = |name: &str| find(name).unwrap_or_else(|| panic!("no column {name}"));
    let kernel = column("Kernel Name");
    // The second line holds the units; it has no kernel.
    let (units, launches): (Vec<_>, Vec<_>) = rows.iter().partition(|row| row[kernel].is_empty());
    assert_eq!(launches.len(), steps().count(), "one launch a step");
    let device = find("device__attribute_display_name").map_or("NVIDIA H200", |at| &launches[0][at]);
    let mut text = format!(
        "# device: {device}\n# date: {date}\n# commit: {commit}\n# tool: {tool}\n\
         # command: each step once at M = N = K = {SIZE}, see phase2-conv-bn/tests/it/profile.rs\n"
    );
    let places: Vec<usize> = METRICS.iter().map(|(_, metric)| column(metric)).collect();
    let of = |row: &[String]| places.iter().map(|&at| row[at].clone()).collect::<Vec<_>>();
    text += &quoted("step", &METRICS.map(|(heading, _)| heading.to_owned()));
    if let Some(units) = units.first() {
        // A ratio of warps to instructions says no more by its unit.
        let unit = |unit: String| if unit == "inst" { String::new() } else { unit };
        text += &quoted("", &of(units).into_iter().map(unit).collect::<Vec<_>>());
    }
    for (step, launch) in steps().zip(launches) {
        text += &quoted(&step.title(), &of(launch));
    }
    text
}

/// A line of CSV in which every field is quoted.
fn quoted(first: &str, cells: &[String]) -> String {
    format!("\"{first}\",\"{}\"\n", cells.join("\",\""))
}

/// The fields of a CSV line in which every field is quoted.
fn fields(line: &str) -> Vec<String> {
    let inner = line.strip_prefix('"').and_then(|line| line.strip_suffix('"')).unwrap_or(line);
    inner.split("\",\"").map(str::to_owned).collect()
}

#[test]
fn a_record_names_steps_and_no_machines() {
    let all = |first: &str, host: &str, kernel: &str, rest: Option<&str>| {
        let metrics = METRICS.map(|(_, metric)| rest.unwrap_or(metric).to_owned());
        quoted(first, &[vec![host.to_owned(), kernel.to_owned()], metrics.to_vec()].concat())
    };
    let mut csv = "==PROF== Connected\n".to_owned() + &all("ID", "Host Name", "Kernel Name", None);
    csv += &all("", "", "", Some("%"));
    for at in 0..steps().count() {
        csv += &all(&at.to_string(), "somebody's", "gemm", Some("1,234.5"));
    }
    let record = recorded(&csv, "Nsight Compute", "2026-11-25", "abc");
    let lines: Vec<&str> = record.lines().filter(|line| !line.starts_with('#')).collect();
    assert_eq!(lines.len(), steps().count() + 2);
    assert!(lines[0].starts_with("\"step\",\"time\""), "{record}");
    assert!(lines[2].starts_with("\"1 uncoalesced\",\"1,234.5\""), "{record}");
    assert!(!record.contains("somebody"));
}
