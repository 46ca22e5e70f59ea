//! Idioms of cooperation that occur in practice: `kernels/idioms.cu` has each with a twin that is wrong. The sanitiser
//! passes the first and reports the second.

use super::findings_with_reads;
use ptx_sim::{Arg, Device, DeviceConfig, Fault, FaultKind, LaunchConfig, Module};

const PTX: &str = include_str!("../kernels/idioms.ptx");
const CU: &str = include_str!("../kernels/idioms.cu");

/// A kernel's arguments.
enum Input {
    /// That many 4-byte words: 1.5, 2.5, …, 250.5, and again.
    Floats(u64),
    /// That many 4-byte words: 0, 1, 2, …
    Numbers(u32),
    /// That many 4-byte words of zeros, written.
    Zeros(u64),
    /// That many unwritten 4-byte words.
    Unwritten(u64),
    Value(Arg),
}

use Input::{Floats, Numbers, Unwritten, Value, Zeros};

fn findings(kernel: &str, [grid, block]: [u32; 2], inputs: &[Input]) -> Vec<Fault> {
    let device = Device::new(DeviceConfig { sanitize: true, ..Default::default() });
    let module = device.load(&Module::from_ptx(PTX, "idioms.ptx").unwrap()).unwrap();
    let mut buffers = Vec::new();
    let args: Vec<Arg> = inputs
        .iter()
        .map(|input| {
            let (words, contents): (u64, Vec<[u8; 4]>) = match input {
                Floats(words) => (*words, (0..*words).map(|at| ((at % 250) as f32 + 1.5).to_le_bytes()).collect()),
                Numbers(words) => ((*words).into(), (0..*words).map(u32::to_le_bytes).collect()),
                Zeros(words) => (*words, vec![[0; 4]; *words as usize]),
                Unwritten(words) => (*words, Vec::new()),
                Value(value) => return value.clone(),
            };
            let pointer = device.alloc(words * 4, "buffer").unwrap();
            device.write(pointer, contents.as_flattened()).unwrap();
            buffers.push((pointer, words * 4));
            Arg::from(pointer)
        })
        .collect();
    let config =
        LaunchConfig { grid: [grid, 1, 1], block: [block, 1, 1], budget: Some(20_000_000), ..Default::default() };
    let launched = module.kernel(kernel).unwrap().launch(&config, &args);
    findings_with_reads(&device, launched, &buffers)
}

/// The text of the line that a finding names.
fn line(finding: &Fault) -> &'static str {
    CU.lines().nth(finding.line.expect("the PTX has line information") as usize - 1).expect("it is a line").trim()
}

#[track_caller]
fn finds(kernel: &str, shape: [u32; 2], inputs: &[Input], expected: &[(FaultKind, &str)]) {
    let findings = findings(kernel, shape, inputs);
    let text: String = findings.iter().map(|finding| finding.render(Some(CU), false) + "\n").collect();
    let found: Vec<(FaultKind, &str)> = findings.iter().map(|finding| (finding.kind, line(finding))).collect();
    assert_eq!(found, expected, "{kernel}:\n{text}");
}

#[track_caller]
fn passes(kernel: &str, shape: [u32; 2], inputs: &[Input]) {
    finds(kernel, shape, inputs, &[]);
}

fn int(value: i32) -> Input {
    Value(value.into())
}

#[test]
fn blocks_that_begin_with_a_barrier() {
    passes("barrier_first", [4, 64], &[Unwritten(256)]);
    finds(
        "barrier_first_only",
        [4, 64],
        &[Unwritten(256)],
        &[(FaultKind::SharedRace, "out[blockIdx.x * blockDim.x + threadIdx.x] = tile[blockIdx.x % 2];")],
    );
}

#[test]
fn locks() {
    let race = |line| [(FaultKind::GlobalRace, line)];
    passes("passes_a_turn", [5, 32], &[Zeros(1), Zeros(1)]);
    finds("passes_a_turn_without_fence", [5, 32], &[Zeros(1), Zeros(1)], &race("*value += 1.0f;"));
    passes("serial_split", [4, 64], &[Zeros(1), Unwritten(64)]);
    finds(
        "serial_split_signals_too_soon",
        [4, 64],
        &[Zeros(1), Unwritten(64)],
        &race("else sums[threadIdx.x] += 1.0f;"),
    );
    passes("ticket_lock", [3, 64], &[Zeros(1), Zeros(1), Zeros(1)]);
    finds("ticket_lock_without_fence", [3, 64], &[Zeros(1), Zeros(1), Zeros(1)], &race("*value += 1.0f;"));
    passes("histogram_by_locks", [8, 64], &[Floats(251), Zeros(16), Zeros(16), int(16)]);
    finds(
        "histogram_by_wrong_locks",
        [8, 64],
        &[Floats(251), Zeros(16), Zeros(16), int(16)],
        &race("bins[bin] += 1.0f;"),
    );
    passes("test_and_test_and_set", [6, 32], &[Zeros(1), Zeros(1)]);
    finds("lock_released_before_the_work", [6, 32], &[Zeros(1), Zeros(1)], &race("*value += 1.0f;"));
}

#[test]
fn compare_and_swap() {
    let race = |line| [(FaultKind::GlobalRace, line)];
    passes("add_by_swaps", [4, 64], &[Zeros(2), Value(1.5f64.into())]);
    // A swap that writes back what was there: the other lanes' succeed at the first try.
    passes("add_by_swaps", [4, 64], &[Zeros(2), Value(0f64.into())]);
    let (read, exchange) = (
        "unsigned long long old = *address;",
        "atomicExch(address, __double_as_longlong(value + __longlong_as_double(old)));",
    );
    let races = [(FaultKind::GlobalRace, read), (FaultKind::GlobalRace, exchange)];
    finds("add_by_exchange", [4, 64], &[Zeros(4), Value(1.5f64.into())], &races);
    passes("treiber_stack", [4, 32], &[Zeros(1), Unwritten(128), Unwritten(132)]);
    finds(
        "treiber_stack_without_fence",
        [4, 32],
        &[Zeros(1), Unwritten(128), Unwritten(132)],
        &race("sum += values[popped - 1];"),
    );
    passes("union_find", [4, 32], &[Numbers(100), int(100)]);
    let (store, find) =
        ("if (a != b) parent[max(a, b)] = min(a, b);", "int a = find_root(parent, x), b = find_root(parent, y);");
    let races = [(FaultKind::GlobalRace, store), (FaultKind::GlobalRace, find)];
    finds("union_find_by_stores", [4, 32], &[Numbers(100), int(100)], &races);
    passes("exchange_pairs", [4, 32], &[Zeros(4), Unwritten(512)]);
    finds("exchange_pairs_and_read", [4, 32], &[Zeros(4), Unwritten(512)], &race("ulonglong2 now = *pair;"));
}

#[test]
fn counters_of_the_whole_grid() {
    let race = |line| [(FaultKind::GlobalRace, line)];
    passes("sets_then_adds", [4, 64], &[Zeros(1), int(200)]);
    finds("sets_to_zero_then_adds", [4, 64], &[Unwritten(1), int(200)], &race("if (i < n) atomicAdd(count, 1);"));
    finds(
        "sets_to_zero_before_a_barrier",
        [4, 64],
        &[Unwritten(1), int(200)],
        &race("if (i < n) atomicAdd(count, 1);"),
    );
    passes("single_pass_sum", [5, 64], &[Floats(320), Unwritten(5), Zeros(1), Unwritten(1)]);
    finds(
        "single_pass_sum_without_fence",
        [5, 64],
        &[Floats(320), Unwritten(5), Zeros(1), Unwritten(1)],
        &race("for (int i = 0; i < gridDim.x; ++i) all += partial[i];"),
    );
    let scan = || [Numbers(512), Unwritten(512), Zeros(8), Unwritten(8), Unwritten(8), Zeros(1)];
    passes("look_back", [8, 64], &scan());
    finds("look_back_without_fence", [8, 64], &scan(), &race("sum = prefixes[at - 1];"));
    passes("compact_in_place", [8, 64], &[Numbers(512), Zeros(8)]);
    let over = "if (blockIdx.x > 0) data[(blockIdx.x - 1) * blockDim.x + threadIdx.x] = mine; // over what others may yet read";
    finds("shift_in_place_too_early", [8, 64], &[Numbers(512), Zeros(8)], &race(over));
    let read = "out[at] = blockIdx.x > 0 ? data[at - blockDim.x] : 0; // the other block's writes";
    finds("shift_in_place_and_read", [8, 64], &[Numbers(512), Unwritten(512), Zeros(8)], &race(read));
    passes("work_queue", [3, 64], &[Zeros(1), Zeros(9), Unwritten(576), int(9)]);
    let read = "float before = mine > 0 ? results[(mine - 1) * blockDim.x + (threadIdx.x + 1) % blockDim.x] : 0.0f;";
    finds("work_in_turn_without_barrier", [3, 64], &[Zeros(3), Unwritten(192)], &race(read));
    passes("hands_on_what_it_was_handed", [3, 64], &[Zeros(3), Unwritten(1)]);
    finds(
        "hands_on_within_the_block_only",
        [3, 64],
        &[Zeros(3), Unwritten(1)],
        &race("flags[blockIdx.x] = (int)*value;"),
    );
}

/// 256 locks among 16,384 threads: the knowledge that each thread takes over from earlier owners of its locks is
/// bounded.
#[test]
fn many_threads_and_many_locks() {
    passes("histogram_by_locks", [64, 256], &[Floats(251), Zeros(256), Zeros(256), int(256)]);
}

#[test]
fn barriers() {
    passes("many_ways_to_a_barrier", [1, 64], &[Numbers(64), Unwritten(64)]);
    passes("named_barriers", [2, 64], &[Floats(224), Unwritten(224), int(7)]);
    finds(
        "named_barriers_one_way",
        [1, 64],
        &[Floats(224), Unwritten(224), int(7)],
        &[(FaultKind::SharedRace, "tile[i % 2][lane] = in[i * 32 + lane];")],
    );
    passes("ragged_named_barrier", [1, 48], &[Unwritten(48)]);
}

#[test]
fn within_a_warp() {
    passes("warp_ballot_scan", [1, 32], &[Unwritten(32)]);
    finds(
        "warp_ballot_scan_without_barrier",
        [1, 32],
        &[Unwritten(32)],
        &[(FaultKind::SharedRace, "if (threadIdx.x < __popc(mask)) out[threadIdx.x] = kept[threadIdx.x];")],
    );
    passes("mask_of_lanes_that_left", [1, 32], &[Unwritten(32)]);
    finds(
        "shuffle_from_lanes_that_left",
        [1, 32],
        &[Unwritten(32)],
        &[(FaultKind::InvalidMask, "out[threadIdx.x] = __shfl_xor_sync(~0u, threadIdx.x, 16);")],
    );
    passes("half_warp_sum", [1, 32], &[Unwritten(1)]);
    finds(
        "half_warp_sum_from_outside",
        [1, 32],
        &[Unwritten(1)],
        &[(
            FaultKind::InvalidMask,
            "for (int offset = 16; offset > 0; offset /= 2) sum += __shfl_down_sync(0xffffu, sum, offset);",
        )],
    );
}

#[test]
fn values_that_nobody_uses() {
    passes("chosen_by_select", [1, 32], &[Numbers(32), Unwritten(32), int(5)]);
    let read = r#"asm volatile("ld.local.s32 %0, [%1];" : "=r"(read) : "l"(__cvta_generic_to_local(&values[at])) : "memory");"#;
    let inputs = [Numbers(32), Unwritten(32), int(5)];
    finds("chosen_by_wrong_select", [1, 32], &inputs, &[(FaultKind::UninitialisedRead, read)]);
}

#[test]
fn fragments_that_nobody_uses() {
    let uninitialised = |line| [(FaultKind::UninitialisedRead, line)];
    let inputs = || [Numbers(256), Unwritten(32), int(2)];
    passes("fragments_read_ahead", [1, 32], &inputs());
    let ahead = "load_fragments(tiles[step + 1], next);";
    finds("fragments_read_ahead_and_used", [1, 32], &inputs(), &uninitialised(ahead));
    let inputs = |lanes| [Numbers(16), Unwritten(32), int(lanes)];
    passes("half_a_matrix_by_rows", [1, 32], &inputs(16));
    passes("half_a_matrix_by_columns", [1, 32], &inputs(2));
    // The count is that of the words which the host reads: one lane's, or transposed those of eight lanes.
    for (kernel, lanes, thread, count) in [("half_a_matrix_by_rows", 17, 16, 1), ("half_a_matrix_by_columns", 3, 2, 8)]
    {
        let findings = findings(kernel, [1, 32], &inputs(lanes));
        let [finding] = &findings[..] else { panic!("{kernel}: {findings:?}") };
        let found = (finding.kind, finding.thread, finding.count);
        assert_eq!(found, (FaultKind::UninitialisedRead, [thread, 0, 0], count), "{kernel}");
    }
}

#[test]
fn copies_under_way() {
    passes("three_stages", [1, 64], &[Floats(320), Unwritten(64), int(5)]);
    let kinds: Vec<FaultKind> =
        findings("three_stages_waiting_for_too_few", [1, 64], &[Floats(320), Unwritten(64), int(5)])
            .iter()
            .map(|finding| finding.kind)
            .collect();
    assert_eq!(kinds, [FaultKind::SharedRace, FaultKind::UninitialisedRead]);
}
