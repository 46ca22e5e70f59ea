//! Profiler counts for every kernel of `kernels/profile.cu`. The expected values are worked out by hand from the rules of
//! the hardware; the reason stands beside them.

use std::path::Path;
use std::process::{Command, Output};

use ptx_sim::{Arg, Class, Device, DeviceConfig, LaunchConfig, LaunchError, LineProfile, Module, Observe, Profile};
use serde_json::Value as Json;

const PTX: &str = include_str!("../kernels/profile.ptx");
const CU: &str = include_str!("../kernels/profile.cu");

/// A word for each lane.
type Word = fn(i32) -> i32;

/// A kernel's arguments.
#[derive(Clone, Copy)]
enum Input {
    /// A buffer of zeros, larger than any kernel here needs.
    Buffer,
    /// A buffer of 32-bit integers: this function of the lane.
    Words(Word),
    Value(i32),
}

use Input::{Buffer, Value, Words};

fn profile_on(device: &Device, kernel: &str, grid: [u32; 3], block: [u32; 3], inputs: &[Input]) -> Profile {
    let module = device.load(&Module::from_ptx(PTX, "profile.ptx").expect("it is PTX")).expect("it fits");
    let buffer = |bytes: &[u8]| {
        let pointer = device.alloc(bytes.len() as u64, "buffer").expect("it fits");
        device.write(pointer, bytes).expect("it was just allocated");
        Arg::from(pointer)
    };
    let args: Vec<Arg> = inputs
        .iter()
        .map(|input| match input {
            Buffer => buffer(&[0; 1 << 16]),
            Words(word) => buffer(&(0..32).flat_map(|lane| word(lane).to_le_bytes()).collect::<Vec<u8>>()),
            Value(value) => Arg::from(*value),
        })
        .collect();
    let config = LaunchConfig { grid, block, ..Default::default() };
    let observe = Observe { profile: true, ..Observe::default() };
    let observation =
        module.kernel(kernel).expect("it is there").observe(&config, &args, &observe).expect("it is right");
    let profile = observation.profile.expect("it was asked for");
    // what holds for every profile
    let report = observation.report;
    let counters = profile.counters;
    assert_eq!(
        (counters.warp_instructions, counters.lane_instructions),
        (report.warp_instructions, report.lane_instructions)
    );
    let sum = |of: fn(&LineProfile) -> u64| profile.lines.iter().map(of).sum::<u64>();
    assert_eq!(sum(|line| line.counters.warp_instructions), counters.warp_instructions);
    assert_eq!(sum(|line| line.flops), profile.flops);
    assert_eq!(profile.classes.iter().map(|class| class.warp).sum::<u64>(), counters.warp_instructions);
    let warps = u64::from(grid.iter().product::<u32>() * block.iter().product::<u32>().div_ceil(32));
    assert!((counters.warp_instructions.div_ceil(warps)..=counters.warp_instructions).contains(&profile.longest_warp));
    profile
}

/// One block of `threads` threads.
fn profile(kernel: &str, threads: u32, inputs: &[Input]) -> Profile {
    profile_on(&Device::new(Default::default()), kernel, [1; 3], [threads, 1, 1], inputs)
}

fn counter(profile: &Profile, name: &str) -> u64 {
    let named = profile.counters.named();
    named.into_iter().find(|(known, ..)| *known == name).unwrap_or_else(|| panic!("there is no counter `{name}`")).2
}

#[track_caller]
fn counts(profile: &Profile, expected: &[(&str, u64)], why: &str) {
    for (name, value) in expected {
        assert_eq!(counter(profile, name), *value, "{name} of {}: {why}", profile.kernel);
    }
}

#[test]
fn global_loads_and_stores_touch_sectors() {
    // [stride and offset in elements, lanes] → [sectors, fewest sectors]
    for (kernel, [stride, offset, lanes], [sectors, ideal], why) in [
        ("load_4", [1, 0, 32], [4, 4], "128 bytes in a row"),
        ("load_4", [2, 0, 32], [8, 4], "every second word: half of each sector is wasted"),
        ("load_4", [8, 0, 32], [32, 4], "a sector a lane"),
        ("load_4", [32, 0, 32], [32, 4], "a sector a lane, and a line too"),
        ("load_4", [1, 1, 32], [5, 4], "the last word is in a fifth sector"),
        ("load_4", [1, 8, 32], [4, 4], "off a line of 128 bytes, but on a sector"),
        ("load_4", [0, 5, 32], [1, 1], "everybody's word is the same"),
        ("load_4", [1, 0, 16], [2, 2], "half of the lanes"),
        ("load_4", [1, 0, 1], [1, 1], "one lane still takes a sector"),
        ("load_8", [1, 0, 32], [8, 8], "256 bytes in a row"),
        ("load_8", [1, 1, 32], [9, 8], "the last lane is in a ninth sector"),
        ("load_8", [2, 0, 32], [16, 8], "half of each sector is wasted"),
        ("load_8", [0, 0, 32], [1, 1], "everybody's 8 bytes are the same"),
        ("load_16", [1, 0, 32], [16, 16], "512 bytes in a row"),
        ("load_16", [1, 1, 32], [17, 16], "half a sector at each end"),
        ("load_16", [2, 0, 32], [32, 16], "half of each sector is wasted"),
        ("load_16", [0, 0, 32], [1, 1], "everybody's 16 bytes are the same"),
        ("load_nc", [1, 1, 32], [5, 4], "the read-only path counts the same"),
        ("store_1", [1, 0, 32], [1, 1], "32 bytes in a row"),
        ("store_1", [1, 31, 32], [2, 1], "across the end of a sector"),
        ("store_4", [1, 0, 32], [4, 4], "128 bytes in a row"),
        ("store_4", [1, 1, 32], [5, 4], "the last word is in a fifth sector"),
        ("store_4", [32, 0, 32], [32, 4], "a sector a lane"),
        ("store_8", [1, 0, 32], [8, 8], "256 bytes in a row"),
        ("store_16", [1, 0, 32], [16, 16], "512 bytes in a row"),
        ("store_16", [2, 0, 8], [8, 4], "eight lanes, a sector each"),
    ] {
        let load = kernel.starts_with("load");
        let values = [stride, offset, lanes].map(Value);
        let inputs: &[Input] = if load { &[Buffer, Buffer] } else { &[Buffer] };
        let profile = profile(&format!("global_{kernel}"), 32, &[inputs, &values].concat());
        let way = if load { "load" } else { "store" };
        let [requests, found, least] =
            ["requests", "sectors", "sectors_ideal"].map(|what| format!("global_{way}_{what}"));
        let why = format!("{why} (stride {stride}, offset {offset}, {lanes} lanes)");
        counts(&profile, &[(&requests, 1), (&found, sectors), (&least, ideal)], &why);
        // each sector is touched once, so that DRAM sees as many
        let [read, written] = [profile.unique_load_bytes, profile.unique_store_bytes];
        assert_eq!(if load { [read, written] } else { [written, read] }, [sectors * 32, 0], "{why}");
    }
}

#[test]
fn requests_are_counted_by_the_space_they_reach() {
    let strided = profile("global_load_f64", 32, &[Buffer, Buffer, Value(4), Value(0)]);
    counts(&strided, &[("global_load_sectors", 32), ("global_load_sectors_ideal", 8)], "8 of every 32 bytes");
    let none = profile("global_load_4", 32, &[Buffer, Buffer, Value(1), Value(0), Value(0)]);
    counts(&none, &[("global_load_requests", 0), ("global_load_sectors", 0)], "no lane is active");
    let two = profile("global_load_4", 64, &[Buffer, Buffer, Value(1), Value(0), Value(33)]);
    counts(&two, &[("global_load_requests", 2), ("global_load_sectors", 5)], "the second warp has one lane");
    let generic = profile("generic_load", 32, &[Buffer, Buffer, Value(1), Value(0), Value(32)]);
    counts(&generic, &[("global_load_requests", 1), ("global_load_sectors", 4)], "the generic address is a global one");
    let constant = profile("constant_load", 32, &[Buffer, Value(1)]);
    counts(
        &constant,
        &[("constant_load_requests", 1), ("global_load_requests", 0)],
        "constants have a cache of their own",
    );
    let local = profile("local_array", 32, &[Buffer, Value(3)]);
    let expected = [
        ("local_store_requests", 8),
        ("local_store_sectors", 32),
        ("local_load_requests", 1),
        ("local_load_sectors", 4),
    ];
    counts(&local, &expected, "the threads' words are interleaved: 128 bytes per request");
    let walk = profile("column_walk", 32, &[Buffer, Buffer, Value(32)]);
    let expected = [
        ("global_load_requests", 32),
        ("global_load_sectors", 32 * 32),
        ("global_load_sectors_ideal", 32 * 4),
        ("global_load_bytes", 32 * 128),
        ("global_store_sectors", 32 * 4),
    ];
    counts(&walk, &expected, "a column is a sector a lane");
    assert_eq!([walk.unique_load_bytes, walk.unique_store_bytes], [4096, 4096], "each sector is read eight times");
}

#[test]
fn shared_accesses_take_a_wavefront_for_each_word_of_the_busiest_bank() {
    // The wavefronts of strides 0, 1, 2, 4, 8, 16, 32 and 33 elements.
    let strides = [0, 1, 2, 4, 8, 16, 32, 33];
    for (bytes, wavefronts, least) in [
        // stride s: 32 / s banks, each asked for s words
        (4, [1, 1, 2, 4, 8, 16, 32, 1], 1),
        // two halves; stride s of 8 bytes: 16 lanes, s of them in each bank, at most 16
        (8, [2, 2, 4, 8, 16, 32, 32, 2], 2),
        // four quarters; stride s of 16 bytes: 8 lanes, s of them in each bank, at most 8
        (16, [4, 4, 8, 16, 32, 32, 32, 4], 4),
    ] {
        for (stride, wavefronts) in strides.into_iter().zip(wavefronts) {
            let why = format!("stride {stride}");
            let load = profile(&format!("shared_load_{bytes}"), 32, &[Buffer, Value(stride), Value(32)]);
            // Where all lanes read the same, two groups go as one.
            let (read, read_least) =
                if stride == 0 && bytes > 4 { (wavefronts / 2, least / 2) } else { (wavefronts, least) };
            let expected = [
                ("shared_load_requests", 1),
                ("shared_load_wavefronts", read),
                ("shared_load_conflicts", read - read_least),
                ("shared_store_requests", 0),
            ];
            counts(&load, &expected, &why);
            let store = profile(&format!("shared_store_{bytes}"), 32, &[Value(0), Value(stride), Value(32)]);
            let expected = [
                ("shared_store_requests", 1),
                ("shared_store_wavefronts", wavefronts),
                ("shared_store_conflicts", wavefronts - least),
                ("shared_load_requests", 0),
            ];
            counts(&store, &expected, &why);
        }
    }
    for (kernel, stride, lanes, wavefronts, why) in [
        ("shared_load_1", 1, 32, 1, "four lanes in each word"),
        ("shared_load_1", 4, 32, 1, "a lane in each word"),
        ("shared_load_1", 8, 32, 2, "every second bank"),
        ("shared_load_4", 2, 16, 1, "16 lanes in 16 banks"),
        ("shared_load_8", 1, 16, 1, "the second half is free"),
        ("shared_load_16", 1, 8, 1, "three quarters are free"),
        ("shared_load_16", 1, 9, 2, "the ninth lane takes a second quarter"),
    ] {
        let profile = profile(kernel, 32, &[Buffer, Value(stride), Value(lanes)]);
        counts(&profile, &[("shared_load_wavefronts", wavefronts)], why);
    }
    let cases: [(&str, Word, u64, &str); 11] = [
        ("shared_gather_4", |lane| lane / 2, 1, "pairs share a word"),
        ("shared_gather_4", |lane| lane % 2 * 32, 2, "two words of one bank"),
        ("shared_gather_4", |lane| 31 - lane, 1, "any order"),
        ("shared_gather_4", |lane| lane + 7, 1, "any 32 words in a row"),
        ("shared_gather_4", |lane| lane * 32 % 96, 3, "three words of one bank, many times"),
        ("shared_gather_8", |lane| lane % 16 * 2, 2, "both halves read the same words"),
        ("shared_gather_16", |lane| lane % 8 * 4, 4, "all quarters read the same words"),
        ("shared_gather_8", |lane| lane / 2 * 2, 1, "neighbours read the same: both halves go as one"),
        ("shared_gather_8", |lane| lane % 2 * 128, 2, "every other lane reads the same: one, with two words of a bank"),
        ("shared_gather_16", |lane| lane / 2 * 4, 2, "neighbours read the same: two quarters go as one"),
        ("shared_gather_16", |lane| lane % 2 * 132, 2, "every other lane reads the same"),
    ];
    for (kernel, words, wavefronts, why) in cases {
        let profile = profile(kernel, 32, &[Words(words), Buffer]);
        counts(&profile, &[("shared_load_requests", 1), ("shared_load_wavefronts", wavefronts)], why);
    }
}

#[test]
fn padding_takes_the_conflicts_out_of_a_transposition() {
    for (kernel, ways) in [("transpose", 32), ("transpose_padded", 1)] {
        let device = Device::new(Default::default());
        let profile = profile_on(&device, kernel, [2, 2, 1], [32, 32, 1], &[Buffer, Buffer, Value(64)]);
        let expected = [
            ("global_load_requests", 128), // 4 blocks of 32 warps
            ("global_load_sectors", 512),
            ("global_store_sectors", 512),
            ("shared_store_requests", 128),
            ("shared_store_wavefronts", 128),
            ("shared_load_requests", 128),
            ("shared_load_wavefronts", 128 * ways),
            ("shared_load_conflicts", 128 * (ways - 1)),
            ("barriers", 128),
        ];
        counts(&profile, &expected, "a column of 32 words is in one bank, or with padding in all");
        assert_eq!(profile.counters.conflict_ways(), Some((128.0 + 128.0 * ways as f64) / 256.0));
    }
}

#[test]
fn ldmatrix_takes_a_wavefront_a_matrix() {
    for (pitch, ways, why) in [
        (16, 1, "eight rows of 16 bytes fill the banks"),
        (32, 2, "every second 16 bytes"),
        (64, 4, "every fourth"),
        (128, 8, "all rows begin in bank 0"),
        (144, 1, "padded by a row's 16 bytes"),
        (80, 1, "any odd number of 16 bytes"),
    ] {
        let four = profile("ldmatrix_x4", 32, &[Buffer, Value(pitch)]);
        let expected = [
            ("matrix_load_requests", 1),
            ("shared_load_requests", 1),
            ("shared_load_wavefronts", 4 * ways),
            ("shared_load_conflicts", 4 * (ways - 1)),
        ];
        counts(&four, &expected, why);
        let one = profile("ldmatrix_x1", 32, &[Buffer, Value(pitch)]);
        counts(&one, &[("shared_load_wavefronts", ways), ("shared_load_conflicts", ways - 1)], why);
    }
}

#[test]
fn atomics_collide_at_one_address() {
    // Lanes that share an address take turns; each turn touches its sectors.
    for (distinct, collisions, sectors, unique) in [(1, 31, 32, 1), (4, 28, 8, 1), (32, 0, 4, 4)] {
        let both = [("atomics", 1), ("atomic_collisions", collisions)];
        let reduction = profile("global_reduction", 32, &[Buffer, Value(distinct)]);
        counts(&reduction, &both, "lanes less different addresses");
        let expected =
            [("global_reduction_requests", 1), ("global_reduction_sectors", sectors), ("global_atomic_requests", 0)];
        counts(&reduction, &expected, "no instruction reads the old value");
        let atomic = profile("global_atomic", 32, &[Buffer, Buffer, Value(distinct)]);
        counts(&atomic, &both, "lanes less different addresses");
        let expected =
            [("global_atomic_requests", 1), ("global_atomic_sectors", sectors), ("global_reduction_requests", 0)];
        counts(&atomic, &expected, "the old value is read");
        assert_eq!([atomic.unique_load_bytes, atomic.unique_store_bytes], [unique * 32; 2]);
        let shared = profile("shared_atomic", 32, &[Buffer, Value(distinct)]);
        counts(&shared, &both, "lanes less different addresses");
        counts(&shared, &[("shared_atomic_requests", 1), ("barriers", 2)], "");
    }
}

#[test]
fn lanes_that_leave_a_loop_early_diverge() {
    let divergent = profile("divergent_loop", 32, &[Buffer]);
    counts(&divergent, &[("branches", 33), ("divergent_branches", 31)], "a lane leaves each time; the last is alone");
    counts(&divergent, &[("global_store_requests", 32)], "one each time round");
    assert!(divergent.counters.active_lanes() < 20.0, "{}", divergent.counters.active_lanes());
    let uniform = profile("uniform_loop", 32, &[Buffer, Value(5)]);
    counts(&uniform, &[("branches", 6), ("divergent_branches", 0)], "the loop is entered at all, and five rounds");
    assert_eq!(uniform.counters.active_lanes(), 32.0);
    let one = profile("divergent_loop", 1, &[Buffer]);
    assert_eq!(one.counters.active_lanes(), 1.0);
}

#[test]
fn each_warp_arrives_at_a_barrier() {
    let three = profile("barriers", 96, &[Value(5)]);
    counts(&three, &[("barriers", 15)], "three warps, five times");
    let ragged = profile("barriers", 33, &[Value(1)]);
    counts(&ragged, &[("barriers", 2)], "the second warp has one lane");
}

#[test]
fn asynchronous_copies_are_loads_with_counters_of_their_own() {
    for (bytes, stride, [sectors, ideal], wavefronts, why) in [
        (4, 4, [4, 4], 1, "128 bytes in a row"),
        (8, 8, [8, 8], 2, "256 bytes, written in two halves"),
        (16, 16, [16, 16], 4, "512 bytes, written in four quarters"),
        (16, 32, [32, 16], 4, "half of each sector is wasted"),
    ] {
        let profile = profile(&format!("async_copy_{bytes}"), 32, &[Buffer, Buffer, Value(stride)]);
        let expected = [
            ("async_copy_requests", 1),
            ("async_copy_sectors", sectors),
            ("async_copy_sectors_ideal", ideal),
            ("async_copy_bytes", 32 * bytes),
            ("async_copy_wavefronts", wavefronts),
            ("async_copy_drains", 1),
            ("global_load_requests", 1),
            ("global_load_sectors", sectors),
            ("shared_store_requests", 0),
        ];
        counts(&profile, &expected, why);
        assert_eq!(profile.unique_load_bytes, sectors * 32);
        let stores = ["global_store_requests", "global_store_sectors"].map(|name| counter(&profile, name));
        assert_eq!(profile.counters.global()[..2], [1 + stores[0], sectors + stores[1]], "each copy once");
    }
}

#[test]
fn a_wait_drains_if_it_leaves_no_copy_under_way() {
    let groups = profile("copies_in_two_groups", 64, &[Buffer, Buffer]);
    counts(&groups, &[("async_copy_requests", 4), ("async_copy_drains", 2)], "of three waits of each warp one");
}

#[test]
fn floating_point_operations_make_the_intensity() {
    let profile = profile("flops", 64, &[Buffer, Value(10)]);
    assert_eq!(profile.flops, 64 * (10 * 2 + 1 + 1));
    assert_eq!(profile.flops_per_requested_byte(), Some(22.0 / 4.0));
    assert_eq!(profile.flops_per_unique_byte(), Some(22.0 / 4.0));
    let f32s = profile.classes[Class::F32 as usize];
    assert_eq!((f32s.warp, f32s.lane), (2 * 12, 64 * 12));
}

/// 1-based number of a line of the CUDA source.
fn line_number(text: &str) -> u32 {
    CU.lines().position(|line| line.trim() == text).expect("it is a line of the file") as u32 + 1
}

/// Instructions that no compiler of the tests writes: [matrix products, a fragment's load, a jump table].
const BY_HAND: &str = r"
.version 8.0
.target sm_80
.address_size 64
.visible .entry by_hand() {
    .reg .b32 %r<24>;
    .reg .f32 %f<8>;
    .shared .align 16 .b8 tile[512];
    targets: .branchtargets even, odd;
    mov.u32 %r20, tile;
    wmma.load.a.sync.aligned.row.m16n16k16.shared.f16 {%r1, %r2, %r3, %r4, %r5, %r6, %r7, %r8}, [%r20], 16;
    mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f0, %f1, %f2, %f3}, {%r1, %r2, %r3, %r4}, {%r1, %r2}, {%f4, %f5, %f6, %f7};
    mov.u32 %r21, %tid.x;
    and.b32 %r21, %r21, 1;
    brx.idx %r21, targets;
even:
odd:
    ret;
}";

#[test]
fn fragments_and_jump_tables_are_counted_too() {
    let device = Device::new(Default::default());
    let module = device.load(&Module::from_ptx(BY_HAND, "by_hand.ptx").unwrap()).unwrap();
    let kernel = module.kernel("by_hand").unwrap();
    for (threads, divergent) in [(32, 1), (64, 2)] {
        let config = LaunchConfig { block: [threads, 1, 1], ..Default::default() };
        let observation = kernel.observe(&config, &[], &Observe { profile: true, ..Observe::default() }).unwrap();
        let profile = observation.profile.unwrap();
        let warps = u64::from(threads / 32);
        let expected = [
            ("shared_load_requests", 4 * warps),   // of eight registers, four are copies
            ("shared_load_wavefronts", 8 * warps), // 8 rows of 32 bytes, 16 of each asked for: rows 0 and 4 share banks
            ("branches", warps),
            ("divergent_branches", divergent),
        ];
        counts(&profile, &expected, "by hand");
        assert_eq!(profile.flops, warps * 2 * 16 * 8 * 16);
        assert_eq!(profile.classes[Class::Tensor as usize].warp, warps);
        // without line information the lines are those of the PTX
        assert!(profile.lines.iter().all(|line| line.file == "by_hand.ptx" && line.line > 8));
    }
}

#[test]
fn lines_have_counters_of_their_own() {
    let profile = profile("shared_atomic", 32, &[Buffer, Value(4)]);
    let line = |text: &str| {
        let number = line_number(text);
        let found = profile.lines.iter().find(|line| line.line == number);
        found.unwrap_or_else(|| panic!("line {number} was not counted")).counters
    };
    assert_eq!(line("atomicAdd(&counts[threadIdx.x % distinct], 1);").shared_atomic_requests, 1);
    assert_eq!(line("counts[threadIdx.x] = 0;").shared_store_requests, 1);
    let last = line("out[threadIdx.x] = counts[threadIdx.x];");
    assert_eq!((last.shared_load_requests, last.global_store_requests, last.atomics), (1, 1, 0));
    assert!(profile.lines.iter().all(|line| line.file.ends_with("profile.cu")));
    assert!(profile.by_cost().is_sorted_by(|a, b| a.cost() >= b.cost()));
}

#[test]
fn counts_do_not_depend_on_who_runs_the_blocks() {
    let run = |workers, sanitize| {
        let device = Device::new(DeviceConfig { workers, sanitize, ..Default::default() });
        profile_on(&device, "transpose_padded", [2, 2, 1], [32, 32, 1], &[Buffer, Buffer, Value(64)])
    };
    let one = run(1, false);
    assert_eq!(one, run(4, false));
    assert_eq!(one, run(1, true));
}

/// Addresses outside all memory reach the profiler before they become a fault.
#[test]
fn a_fault_is_a_fault_with_a_profiler_too() {
    let device = Device::new(Default::default());
    let module = device.load(&Module::from_ptx(PTX, "profile.ptx").unwrap()).unwrap();
    let config = LaunchConfig { block: [32, 1, 1], ..Default::default() };
    for (kernel, args) in [
        ("shared_load_4", vec![Arg::from(0u64), Arg::from(-1i32), Arg::from(32i32)]),
        ("shared_load_16", vec![Arg::from(0u64), Arg::from(-1i32), Arg::from(32i32)]),
        ("global_load_16", vec![u64::MAX.into(), Arg::from(0u64), (-7i32).into(), 3i32.into(), 32i32.into()]),
        ("local_array", vec![Arg::from(0u64), Arg::from(-5i32)]),
    ] {
        let launched =
            module.kernel(kernel).unwrap().observe(&config, &args, &Observe { profile: true, ..Observe::default() });
        assert!(matches!(launched, Err(LaunchError::Fault(_))), "{kernel}: {launched:?}");
    }
}

/// Exit status, stdout and stderr of `ptx-sim` among the kernels, where no ptxas can be found.
fn ptx_sim(args: &str) -> (i32, String, String) {
    let mut command = Command::new(assert_cmd::cargo::cargo_bin!("ptx-sim"));
    command.current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join("kernels"));
    ["PATH", "VIRTUAL_ENV", "CONDA_PREFIX", "CUDA_PATH", "CUDA_HOME"].iter().for_each(|name| {
        command.env_remove(name);
    });
    let Output { status, stdout, stderr } =
        command.args(args.split_whitespace()).output().expect("the command can be started");
    let text = |bytes| String::from_utf8(bytes).expect("output is text");
    (status.code().expect("the command ends by itself"), text(stdout), text(stderr))
}

const RUN: &str = "run profile.ptx --kernel shared_atomic --block 32";

#[test]
fn the_command_reports_after_the_buffers() {
    let (code, stdout, stderr) = ptx_sim(&format!("{RUN} --profile out:s32:32 s32:16"));
    assert_eq!((code, stderr.as_str()), (0, ""));
    let (buffer, report) = stdout.split_once('\n').unwrap();
    let squeezed: Vec<String> =
        report.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    assert!(buffer.starts_with("2,2,2,") && report.starts_with("profile of `shared_atomic`\n"), "{stdout}");
    let (add, write) = ("atomicAdd(&counts[threadIdx.x % distinct], 1);", "out[threadIdx.x] = counts[threadIdx.x];");
    for line in [
        "barriers 2",
        "global_store_requests 1 l1tex__t_requests_pipe_lsu_mem_global_op_st.sum",
        "lines by cost, 7 of 7",
        &format!("{} 4 21.1% 32.0 - - - {add}", line_number(add)),
        &format!("{} 3 15.8% 32.0 4.0 (4.0) 1.0 - {write}", line_number(write)),
        "occupancy on sm_90: 50.0% (32 of 64 warps in 32 blocks, limited by blocks; registers unknown: no ptxas \
         found on PATH, in CUDA_PATH, CUDA_HOME or a Python environment)",
    ] {
        assert!(squeezed.iter().any(|shown| shown == line), "{line:?}: {report}");
    }
}

#[test]
fn json_has_the_profile() {
    let (code, stdout, stderr) = ptx_sim(&format!("{RUN} --profile --json --arch sm_86 out:s32:32 s32:16"));
    assert_eq!((code, stderr.as_str()), (0, ""));
    let result: Json = serde_json::from_str(&stdout).unwrap();
    let profile = &result["profile"];
    for (name, value) in [
        ("global_load_requests", 0),
        ("global_load_sectors", 0),
        ("global_store_requests", 1),
        ("global_store_sectors", 4),
        ("shared_load_requests", 1),
        ("shared_load_wavefronts", 1),
        ("shared_store_requests", 1),
        ("shared_store_wavefronts", 1),
        ("branches", 0),
        ("divergent_branches", 0),
        ("barriers", 2),
        ("atomics", 1),
        ("atomic_collisions", 16),
    ] {
        assert_eq!(profile[name], value, "{name}");
    }
    assert_eq!(profile["warp_instructions"], result["instructions"]);
    assert_eq!(profile["lane_instructions"], result["lane_instructions"]);
    assert_eq!(profile["metrics"]["smsp__inst_executed.sum"], result["instructions"]);
    assert_eq!(profile["metrics"]["l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum"], 4);
    let lines = profile["lines"].as_array().unwrap();
    assert_eq!(lines.iter().map(|line| line["barriers"].as_u64().unwrap()).sum::<u64>(), 2);
    assert!(lines.iter().all(|line| line["file"] == "profile.cu" && line["line"].as_u64() > Some(100)), "{lines:?}");
    let occupancy = &profile["occupancy"];
    assert_eq!((&occupancy["blocks"], &occupancy["limiter"]), (&16.into(), &"blocks".into()));
    assert!(occupancy["registers"].is_null() && occupancy["registers_unknown"].is_string(), "{occupancy}");

    let (_, stdout, _) = ptx_sim(&format!("{RUN} --json out:s32:32 s32:16"));
    assert!(serde_json::from_str::<Json>(&stdout).unwrap().get("profile").is_none(), "it was not asked for");
}

#[test]
fn an_architecture_has_to_be_known() {
    let (code, _, stderr) = ptx_sim(&format!("{RUN} --profile --arch sm_42 out:s32:32 s32:16"));
    assert!(code == 2 && stderr.contains("the architectures are sm_75, sm_80"), "{stderr}");
    let (code, _, stderr) = ptx_sim(&format!("{RUN} --arch sm_80 out:s32:32 s32:16"));
    assert!(code == 2 && stderr.contains("--profile"), "{stderr}");
}

/// The kernels of `kernels/async.cu` on an H200, as counted by Nsight Compute.
#[test]
fn asynchronous_traffic_is_what_an_h200_counts() {
    let load = "l1tex__m_xbar2l1tex_read_bytes_mem_global_op_tma_ld.sum";
    let store = "l1tex__m_l1tex2xbar_write_bytes_mem_global_op_tma_st.sum";
    let reduction = "l1tex__m_l1tex2xbar_write_bytes_mem_global_op_tma_red.sum";
    let product = "sm__inst_executed_pipe_tensor_op_gmma.sum";
    // Kernel, blocks, and whether it takes an input; then the four counts in this order.
    for (kernel, grid, input, expected) in [
        ("loads", 2, true, [1024, 0, 0, 0]),
        ("stores", 2, true, [0, 1024, 0, 0]),
        ("reduces", 3, true, [0, 0, 1536, 0]),
        ("pipelined", 1, true, [3072, 0, 0, 0]),
        ("multicasts", 2, true, [1024, 0, 0, 0]),
        ("multiplies", 1, false, [0, 0, 0, 4]),
        ("multiplies_on", 1, false, [0, 0, 0, 12]),
    ] {
        let device = Device::new(DeviceConfig::default());
        let module = Module::from_ptx(include_str!("../kernels/async.ptx"), "async.ptx").expect("it is PTX");
        let module = device.load(&module).expect("it fits");
        let buffer = |label| Arg::from(device.alloc(1 << 14, label).expect("it fits"));
        let args: Vec<Arg> = input.then(|| buffer("in")).into_iter().chain([buffer("out")]).collect();
        let config = LaunchConfig { grid: [grid, 1, 1], block: [128, 1, 1], ..Default::default() };
        let observe = Observe { profile: true, ..Observe::default() };
        let observed =
            module.kernel(kernel).expect("it is there").observe(&config, &args, &observe).expect("it is right");
        let profile = observed.profile.expect("it was asked for");
        let metric = |name: &str| profile.metrics().find(|(known, _)| *known == name).expect("it has a counter").1;
        assert_eq!([load, store, reduction, product].map(metric), expected, "{kernel}");
        // What comes from global memory comes once, however many blocks get it.
        let multicast = kernel == "multicasts";
        let counters = profile.counters;
        assert_eq!(counters.bulk_multicast_requests, if multicast { 2 } else { 0 }, "{kernel}");
        assert_eq!(counters.bulk_load_bytes, expected[0] / if multicast { 2 } else { 1 }, "{kernel}");
    }
}

/// In each block, the first of three warps goes round ten times and the others not at all.
#[test]
fn the_longest_warp_is_that_of_one_block() {
    const UNEVEN: &str = ".version 7.0\n.target sm_75\n.address_size 64\n.visible .entry uneven()\n{\n    .reg .pred %p;\n    \
        .reg .b32 %r, %n;\n    mov.u32 %r, %tid.x;\n    setp.ge.u32 %p, %r, 32;\n    mov.u32 %n, 10;\n    @%p bra done;\nagain:\n    \
        sub.u32 %n, %n, 1;\n    setp.ne.u32 %p, %n, 0;\n    @%p bra again;\ndone:\n    ret;\n}\n";
    let device = Device::new(DeviceConfig::default());
    let module = device.load(&Module::from_ptx(UNEVEN, "uneven.ptx").expect("it is PTX")).expect("it fits");
    let config = LaunchConfig { grid: [4, 1, 1], block: [96, 1, 1], ..Default::default() };
    let report = module.kernel("uneven").expect("it is there").launch(&config, &[]).expect("it is right");
    assert_eq!((report.longest_warp, report.warp_instructions), (4 + 10 * 3 + 1, 4 * (35 + 5 + 5)));
}
