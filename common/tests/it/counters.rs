//! The simulator's counters against those of a GPU: the same PTX, launched once each under Nsight Compute and profiled on the
//! simulator. `counters/nvidia-h200.json` holds the counts of Nsight Compute; requests, sectors and wavefronts must be equal,
//! instructions nearly equal, since the driver translates PTX.
//!
//! To record, on a machine with a GPU and Nsight Compute, with `T` the test's executable (`cargo test --no-run` names it):
//! ```sh
//! ncu --csv --page raw --print-units base --clock-control none --metrics "$(T --exact --nocapture metrics | grep -o 'smsp__inst.*')" \
//!     T --exact launches_cuda > ncu.csv
//! WARP_NCU_CSV=ncu.csv WARP_COMMIT=… T --exact record_from_nsight_compute --nocapture
//! ```

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use common::compile::ship;
use ptx_sim::{Arg, Observe, Profile};
use serde_json::{Value, json};

const PROFILE: &str = include_str!("../../ptx-sim/tests/kernels/profile.ptx");
const TILED: &str = include_str!("../../ptx-sim/benches/kernels.ptx");

/// The PTX shipped for a kernel of the course.
fn shipped(kernel: &str) -> String {
    ship::read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(kernel)).unwrap()
}

/// An argument of a case.
#[derive(Clone, Copy)]
enum Input {
    /// A buffer of that many small floats, none of them -1.0.
    Buffer(usize),
    /// A buffer of these words.
    Words([i32; 32]),
    Int(i32),
    Float(f32),
}

use Input::{Buffer, Float, Int, Words};

/// One launch.
struct Case {
    name: String,
    ptx: String,
    kernel: &'static str,
    grid: [u32; 3],
    block: [u32; 3],
    inputs: Vec<Input>,
}

fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    let mut add = |name: &str, ptx: &str, kernel, grid: [u32; 2], block: [u32; 2], inputs: &[Input]| {
        let ([gx, gy], [bx, by]) = (grid, block);
        let (grid, block, inputs) = ([gx, gy, 1], [bx, by, 1], inputs.to_vec());
        cases.push(Case { name: name.to_owned(), ptx: ptx.to_owned(), kernel, grid, block, inputs });
    };
    let mut warp = |name: &str, kernel, inputs: &[Input]| add(name, PROFILE, kernel, [1, 1], [32, 1], inputs);
    let big = Buffer(1 << 14);
    for kernel in ["global_load_4", "global_load_8", "global_load_16", "global_load_nc", "generic_load"] {
        for (what, stride, offset, lanes) in [
            ("coalesced", 1, 0, 32),
            ("one further", 1, 1, 32),
            ("every other", 2, 0, 32),
            ("broadcast", 0, 0, 32),
            ("stride 32", 32, 0, 32),
            ("half a warp", 1, 0, 16),
            ("five lanes", 3, 2, 5),
        ] {
            warp(&format!("{kernel}, {what}"), kernel, &[big, Buffer(1), Int(stride), Int(offset), Int(lanes)]);
        }
    }
    for (what, stride, offset) in [("coalesced", 1, 0), ("one further", 1, 1), ("stride 5", 5, 0), ("broadcast", 0, 3)]
    {
        let inputs = [big, Buffer(2), Int(stride), Int(offset)];
        warp(&format!("global_load_f64, {what}"), "global_load_f64", &inputs);
    }
    for kernel in ["global_store_1", "global_store_4", "global_store_8", "global_store_16"] {
        for (what, stride, offset, lanes) in
            [("coalesced", 1, 0, 32), ("one further", 1, 1, 32), ("stride 3", 3, 0, 32), ("ten lanes", 1, 7, 10)]
        {
            warp(&format!("{kernel}, {what}"), kernel, &[big, Int(stride), Int(offset), Int(lanes)]);
        }
    }
    warp("column_walk", "column_walk", &[big, big, Int(32)]);
    for kernel in ["shared_load_1", "shared_load_4", "shared_load_8", "shared_load_16"] {
        for stride in [0, 1, 2, 3, 4, 8, 16, 32, 33] {
            warp(&format!("{kernel}, stride {stride}"), kernel, &[Buffer(1), Int(stride), Int(32)]);
        }
        warp(&format!("{kernel}, nine lanes"), kernel, &[Buffer(1), Int(1), Int(9)]);
    }
    for kernel in ["shared_store_4", "shared_store_8", "shared_store_16"] {
        for stride in [0, 1, 2, 3, 4, 8, 16, 32, 33] {
            warp(&format!("{kernel}, stride {stride}"), kernel, &[Float(2.0), Int(stride), Int(32)]);
        }
        warp(&format!("{kernel}, nine lanes"), kernel, &[Float(2.0), Int(1), Int(9)]);
    }
    // Patterns that show how the lanes of wide accesses share a pass; each word is a multiple of 4.
    type Pattern = (&'static str, fn(i32) -> i32);
    let patterns: [Pattern; 8] = [
        ("halves alike", |lane| lane % 16 * 4),
        ("quarters alike", |lane| lane % 8 * 4),
        ("neighbours alike", |lane| lane / 2 * 4),
        ("four alike", |lane| lane / 4 * 4),
        ("two words", |lane| lane % 2 * 128),
        ("two words of two banks", |lane| lane % 2 * 132),
        ("reversed", |lane| (31 - lane) * 4),
        ("scattered", |lane| lane * lane * 7 % 61 * 4),
    ];
    for kernel in ["shared_gather_4", "shared_gather_8", "shared_gather_16"] {
        for (what, pattern) in patterns {
            let words = std::array::from_fn(|lane| pattern(lane as i32));
            warp(&format!("{kernel}, {what}"), kernel, &[Words(words), Buffer(1)]);
        }
    }
    for pitch in [16, 32, 48, 64, 80, 128, 144] {
        warp(&format!("ldmatrix_x4, pitch {pitch}"), "ldmatrix_x4", &[Buffer(1), Int(pitch)]);
    }
    for pitch in [16, 64, 128, 144] {
        warp(&format!("ldmatrix_x1, pitch {pitch}"), "ldmatrix_x1", &[Buffer(1), Int(pitch)]);
    }
    for distinct in [1, 2, 8, 32] {
        let what = |kernel: &str| format!("{kernel}, {distinct} addresses");
        warp(&what("global_reduction"), "global_reduction", &[Buffer(32), Int(distinct)]);
        warp(&what("global_atomic"), "global_atomic", &[Buffer(32), Buffer(1), Int(distinct)]);
    }
    for kernel in ["async_copy_4", "async_copy_8", "async_copy_16"] {
        for (what, stride) in [("dense", kernel[11..].parse().unwrap_or(4)), ("apart", 64)] {
            warp(&format!("{kernel}, {what}"), kernel, &[big, Buffer(1), Int(stride)]);
        }
    }
    warp("barriers", "barriers", &[Int(5)]);
    for (n, kernel) in [("transpose", "transpose"), ("transpose, padded", "transpose_padded")] {
        add(n, PROFILE, kernel, [2, 2], [32, 32], &[Buffer(4096), Buffer(4096), Int(64)]);
    }
    let square = Buffer(128 * 128);
    add("tiled product, 128 × 128", TILED, "tiled", [4, 4], [32, 32], &[square, square, square, Int(128)]);
    let vector = Buffer(1000);
    let vector_add = shipped("phase1-infra/kernels/01_vector_add.cu");
    add("vector_add, 1000", &vector_add, "vector_add", [4, 1], [256, 1], &[vector, vector, vector, Int(1000)]);
    let relu = shipped("phase2-conv-bn/kernels/relu_01_naive.cu");
    add("relu, 1000", &relu, "relu", [4, 1], [256, 1], &[vector, Int(1000)]);
    let channel = Buffer(8);
    let (eps, channels, plane, n) = (Float(1e-5), Int(8), Int(63), Int(1008));
    let (x, y) = (Buffer(1008), Buffer(1008));
    let inputs = [x, channel, channel, channel, channel, y, eps, channels, plane, n];
    let batch_norm = shipped("phase2-conv-bn/kernels/norm_01_batch_norm.cu");
    add("batch_norm, 2 × 8 × 63", &batch_norm, "batch_norm", [4, 1], [256, 1], &inputs);
    cases
}

/// The PTX for a GPU: `cp.async` and others need a newer target than the compiler's.
#[cfg(feature = "cuda")]
fn for_gpu(ptx: &str) -> String {
    ptx.replace(".target sm_75", ".target sm_90")
}

fn bytes_of(words: usize) -> Vec<u8> {
    (0..words).flat_map(|at| ((at % 251) as f32 * 0.25 + 0.5).to_le_bytes()).collect()
}

fn profiled(case: &Case) -> Profile {
    let device = ptx_sim::Device::new(Default::default());
    let module = device.load(&ptx_sim::Module::from_ptx(&case.ptx, "case.ptx").unwrap()).unwrap();
    let args: Vec<Arg> = case
        .inputs
        .iter()
        .map(|input| {
            let bytes = match input {
                Buffer(words) => bytes_of(*words),
                Words(words) => words.iter().flat_map(|word| word.to_le_bytes()).collect(),
                Int(value) => return Arg::from(*value),
                Float(value) => return Arg::from(*value),
            };
            let pointer = device.alloc(bytes.len() as u64, "buffer").unwrap();
            device.write(pointer, &bytes).unwrap();
            Arg::from(pointer)
        })
        .collect();
    let config = ptx_sim::LaunchConfig { grid: case.grid, block: case.block, ..Default::default() };
    let observed =
        module.kernel(case.kernel).unwrap().observe(&config, &args, &Observe { profile: true, ..Observe::default() });
    observed.unwrap_or_else(|error| panic!("{}: {error}", case.name)).profile.expect("it was asked for")
}

/// Counters that must be equal: they depend only on addresses, which no compiler changes.
const EQUAL: [&str; 13] = [
    "global_load_requests",
    "global_load_sectors",
    "global_store_requests",
    "global_store_sectors",
    "global_atomic_requests",
    "global_atomic_sectors",
    "global_reduction_requests",
    "global_reduction_sectors",
    "async_copy_requests",
    "async_copy_sectors",
    "shared_load_wavefronts",
    "shared_store_wavefronts",
    "shared_load_conflicts",
];

/// Cases in which the driver's compiler merges several loads into a wide one: the product's rows of `a` are read 16 bytes at a
/// time, so the GPU needs fewer passes than the PTX.
const MERGED: [(&str, &str); 1] = [("tiled product, 128 × 128", "shared_load_wavefronts")];

/// Counters that are recorded but not compared.
const SHOWN: [&str; 3] = ["warp_instructions", "shared_store_conflicts", "barriers"];

/// Our name and Nsight Compute's of each counter to record.
fn metrics_of(profile: &Profile) -> Vec<(&'static str, &'static str, u64)> {
    let named = profile.counters.named().into_iter();
    let wanted = |name: &str| EQUAL.contains(&name) || SHOWN.contains(&name);
    named.filter(|(name, ..)| wanted(name)).filter_map(|(name, metric, value)| Some((name, metric?, value))).collect()
}

fn record_path() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/counters/nvidia-h200.json")
}

#[test]
fn the_counters_are_those_of_the_gpu_sim() {
    let path = record_path();
    let text = std::fs::read_to_string(&path)
        .unwrap_or_else(|error| panic!("{}: {error}; the head of this test says how to record one", path.display()));
    let record: Value = serde_json::from_str(&text).unwrap();
    let mut failures = Vec::new();
    let cases = cases();
    for case in &cases {
        let recorded = &record["cases"][&case.name];
        for (name, _, ours) in metrics_of(&profiled(case)) {
            let theirs = recorded[name].as_u64();
            let holds = match theirs {
                Some(theirs) if MERGED.contains(&(&case.name, name)) => theirs < ours,
                theirs => theirs == Some(ours),
            };
            if EQUAL.contains(&name) && !holds {
                failures.push(format!("{}: {name} is {ours} here and {theirs:?} on the GPU", case.name));
            }
        }
    }
    assert_eq!(record["cases"].as_object().map(serde_json::Map::len), Some(cases.len()), "record again");
    assert!(failures.is_empty(), "{}\n{} differences", failures.join("\n"), failures.len());
}

/// The metrics for Nsight Compute's command line.
#[test]
fn metrics() {
    let all: Vec<&str> = metrics_of(&profiled(&cases()[0])).iter().map(|(_, metric, _)| *metric).collect();
    println!("{}", all.join(","));
    assert!(all.len() >= EQUAL.len());
}

/// Runs each case once, in order, for Nsight Compute to profile.
#[cfg(feature = "cuda")]
#[test]
fn launches_cuda() -> common::Result<()> {
    use common::prelude::*;
    let Some(device) = common::private::cuda_for_test("launches") else { return Ok(()) };
    let stream = device.stream();
    for case in cases() {
        let kernel = device.load_ptx(&for_gpu(&case.ptx), "case.ptx")?.kernel(case.kernel)?;
        let mut buffers: Vec<Option<common::device::Buffer<u8>>> = Vec::new();
        for input in &case.inputs {
            buffers.push(match input {
                Buffer(words) => Some(stream.clone_htod(&bytes_of(*words))?),
                Words(words) => Some(stream.clone_htod(bytemuck::cast_slice::<_, u8>(words))?),
                _ => None,
            });
        }
        let mut launch = stream.launch_builder(&kernel);
        for (input, buffer) in case.inputs.iter().zip(&mut buffers) {
            match (input, buffer) {
                (Int(value), _) => launch.arg_bytes(&value.to_le_bytes()),
                (Float(value), _) => launch.arg_bytes(&value.to_le_bytes()),
                (_, Some(buffer)) => launch.arg(buffer),
                (_, None) => unreachable!("a buffer was made for it"),
            };
        }
        let ([gx, gy, gz], [bx, by, bz]) = (case.grid, case.block);
        // SAFETY: the simulator, which checks every access, runs each case without findings.
        unsafe {
            launch.launch(LaunchConfig { grid_dim: (gx, gy, gz), block_dim: (bx, by, bz), shared_mem_bytes: 0 })?;
        }
        stream.synchronize()?;
    }
    Ok(())
}

/// Makes the record from `WARP_NCU_CSV`.
#[test]
fn record_from_nsight_compute() {
    let Some(path) = std::env::var_os("WARP_NCU_CSV") else { return };
    let text = std::fs::read_to_string(path).unwrap();
    let rows: Vec<Vec<String>> = text.lines().filter(|line| line.starts_with('"')).map(fields).collect();
    let (head, rows) = rows.split_first().expect("Nsight Compute wrote a head");
    // The second line holds the units; it has no kernel.
    let find = |name: &str| head.iter().position(|field| field == name);
    let column = |name: &str| find(name).unwrap_or_else(|| panic!("no column {name}"));
    let kernel = column("Kernel Name");
    let launches: Vec<&Vec<String>> = rows.iter().filter(|row| !row[kernel].is_empty()).collect();
    let cases = cases();
    assert_eq!(launches.len(), cases.len(), "one launch a case");
    let device = launches[0][column("device__attribute_display_name")].clone();
    let mut all = BTreeMap::new();
    let mut ratios = Vec::new();
    for (case, launch) in cases.iter().zip(launches) {
        assert!(launch[kernel].starts_with(case.kernel), "{} is {}", case.name, launch[kernel]);
        let counted: BTreeMap<&str, u64> = metrics_of(&profiled(case))
            .iter()
            .filter_map(|(name, metric, ours)| {
                let theirs = launch[find(metric)?].replace(',', "").parse::<f64>().unwrap() as u64;
                if *name == "warp_instructions" {
                    ratios.push(*ours as f64 / theirs as f64);
                } else if theirs != *ours {
                    println!("{}: {name} {ours} here, {theirs} there", case.name);
                }
                Some((*name, theirs))
            })
            .collect();
        all.insert(&case.name, counted);
    }
    ratios.sort_by(f64::total_cmp);
    println!("instructions here ÷ there: {:.2} to {:.2}", ratios[0], ratios[ratios.len() - 1]);
    let record = json!({
        "device": device,
        "date": std::env::var("WARP_DATE").unwrap_or_default(),
        "commit": std::env::var("WARP_COMMIT").unwrap_or_default(),
        "tool": "Nsight Compute",
        "cases": all,
    });
    std::fs::write(record_path(), serde_json::to_string_pretty(&record).unwrap() + "\n").unwrap();
}

/// The fields of a CSV line in which every field is quoted.
fn fields(line: &str) -> Vec<String> {
    line.trim_matches('"').split("\",\"").map(str::to_owned).collect()
}
