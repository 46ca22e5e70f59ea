//! Findings of the sanitiser, and correct code without any: every kernel of `kernels/sanitise.cu`.

use super::findings_with_reads;
use ptx_sim::{Arg, Device, DeviceConfig, Fault, FaultKind, LaunchConfig, LaunchError, Module};

const PTX: &str = include_str!("../kernels/sanitise.ptx");
const CU: &str = include_str!("../kernels/sanitise.cu");

/// A kernel's arguments.
enum Input {
    /// That many 4-byte words, distinct small floats.
    Words(u64),
    /// That many words of zeros, written.
    Zeros(u64),
    /// That many unwritten words.
    Unwritten(u64),
    Value(i32),
}

use Input::{Unwritten, Value, Words, Zeros};

fn device() -> Device {
    Device::new(DeviceConfig { sanitize: true, ..Default::default() })
}

fn findings(kernel: &str, grid: u32, block: u32, inputs: &[Input]) -> Vec<Fault> {
    let device = device();
    let module = device.load(&Module::from_ptx(PTX, "sanitise.ptx").unwrap()).unwrap();
    let mut buffers = Vec::new();
    let args: Vec<Arg> = inputs
        .iter()
        .zip(["first", "second", "third"])
        .map(|(input, label)| {
            let (words, contents) = match input {
                Words(words) => (*words, (0..*words).map(|at| (at % 251) as f32 + 0.5).collect()),
                Zeros(words) => (*words, vec![0.0; *words as usize]),
                Unwritten(words) => (*words, Vec::new()),
                Value(value) => return Arg::from(*value),
            };
            let pointer = device.alloc(words * 4, label).unwrap();
            device.write(pointer, &contents.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<u8>>()).unwrap();
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
    CU.lines()
        .nth(finding.line.expect("the PTX has line information") as usize - 1)
        .expect("it is a line of the file")
        .trim()
}

#[track_caller]
fn finds(kernel: &str, grid: u32, block: u32, inputs: &[Input], expected: &[(FaultKind, &str, u64)]) {
    let findings = findings(kernel, grid, block, inputs);
    let text: String = findings.iter().map(|finding| finding.render(Some(CU), false)).collect();
    let found: Vec<(FaultKind, &str, u64)> =
        findings.iter().map(|finding| (finding.kind, line(finding), finding.count)).collect();
    assert_eq!(found, expected, "{kernel}:\n{text}");
}

#[track_caller]
fn passes(kernel: &str, grid: u32, block: u32, inputs: &[Input]) {
    finds(kernel, grid, block, inputs, &[]);
}

#[test]
fn races_in_shared_memory() {
    let (write, read) = ("tile[threadIdx.x] = threadIdx.x;", "out[threadIdx.x] = tile[63 - threadIdx.x];");
    // Warp 0 reads what warp 1 has yet to write; then warp 1 writes it, and reads what warp 0 wrote.
    finds(
        "missing_barrier",
        1,
        64,
        &[Unwritten(64)],
        &[
            (FaultKind::SharedRace, write, 32),
            (FaultKind::SharedRace, read, 32),
            (FaultKind::UninitialisedRead, read, 32),
        ],
    );
    let read = "out[threadIdx.x] = tile[31 - threadIdx.x];";
    finds("missing_warp_barrier", 1, 32, &[Unwritten(32)], &[(FaultKind::SharedRace, read, 32)]);
    let write = "tile[threadIdx.x] = in[i * 64 + threadIdx.x];";
    let found = findings("buffer_reused_too_soon", 1, 64, &[Words(256), Unwritten(64), Value(4)]);
    assert!(found.iter().any(|finding| finding.kind == FaultKind::SharedRace && line(finding) == write), "{found:?}");
    let read = "out[threadIdx.x] = tile[63 - threadIdx.x];";
    let found = findings("copy_not_waited_for", 1, 64, &[Words(64), Unwritten(64)]);
    assert!(found.iter().any(|finding| finding.kind == FaultKind::SharedRace && line(finding) == read), "{found:?}");
}

#[test]
fn races_in_global_memory() {
    let at = "extern \"C\" __global__ void adds_without_atomic(float* sum) { *sum += 1.0f; }";
    finds("adds_without_atomic", 2, 1, &[Zeros(1)], &[(FaultKind::GlobalRace, at, 2)]);
    let at = "extern \"C\" __global__ void writes_different_values(int* out) { out[0] = blockIdx.x; }";
    finds("writes_different_values", 3, 1, &[Unwritten(1)], &[(FaultKind::GlobalRace, at, 2)]);
    let at = "for (int i = 0; i < gridDim.x; ++i) all += ((volatile float*)partial)[i];";
    finds("last_block_without_fence", 4, 32, &[Unwritten(4), Zeros(1), Zeros(1)], &[(FaultKind::GlobalRace, at, 3)]);
}

#[test]
fn a_race_names_both_accesses() {
    let found = findings("adds_without_atomic", 2, 1, &[Zeros(1)]);
    let other = found[0].other.as_ref().expect("a race has two sides");
    assert_eq!((found[0].block, other.block, other.thread), ([1, 0, 0], [0, 0, 0], [0, 0, 0]));
    assert_eq!((other.what, other.line), ("write", found[0].line));
}

#[test]
fn the_help_for_a_race_depends_on_who_races() {
    let help = |grid, block| {
        let found = findings("adds_without_atomic", grid, block, &[Zeros(1)]);
        crate::unbroken(found[0].render(Some(CU), false).split("help:").nth(1).unwrap())
    };
    let (blocks, threads) = (help(2, 1), help(1, 64));
    assert!(blocks.starts_with("nothing orders threads of different blocks"), "{blocks}");
    assert!(threads.starts_with("both threads are of one block") && !threads.contains("different"), "{threads}");
}

#[test]
fn reads_of_what_nobody_wrote() {
    let at = "if (i < n) atomicAdd(sum, in[i]);";
    finds("poisoned_sum", 2, 64, &[Words(100), Unwritten(1), Value(100)], &[(FaultKind::UninitialisedRead, at, 32)]);
    passes("poisoned_sum", 2, 64, &[Words(100), Zeros(1), Value(100)]);
    let at = "out[threadIdx.x] = tile[threadIdx.x];";
    finds("shared_never_written", 1, 64, &[Unwritten(64)], &[(FaultKind::UninitialisedRead, at, 1)]);
    let at = "for (int i = 0; i < n; ++i) sum += values[(i * 3) % 8];";
    finds("local_never_written", 1, 5, &[Unwritten(5), Value(8)], &[(FaultKind::UninitialisedRead, at, 5)]);
}

#[test]
fn shared_variables_stand_apart() {
    let at = "out[threadIdx.x] = first[threadIdx.x + 1] + second[threadIdx.x];";
    finds("into_the_neighbour", 1, 32, &[Unwritten(32)], &[(FaultKind::OutOfBounds, at, 1)]);
    let found = findings("into_the_neighbour", 1, 32, &[Unwritten(32)]);
    assert_eq!(found[0].notes, ["the address is just past the end of `first` (128 bytes of shared memory)"]);
}

#[test]
fn barriers_that_not_all_reach() {
    let at = "if (threadIdx.x < 16) __syncthreads();";
    finds("barrier_in_a_branch", 1, 32, &[Unwritten(32)], &[(FaultKind::BarrierDivergence, at, 16)]);
    finds("different_barriers", 1, 64, &[Unwritten(64)], &[(FaultKind::BarrierDivergence, "__syncthreads();", 32)]);
}

#[test]
fn shuffles_from_lanes_that_are_not_there() {
    let at = "for (int offset = 16; offset > 0; offset /= 2) sum += __shfl_down_sync(0xffffffff, sum, offset);";
    finds("shuffle_from_nobody", 1, 20, &[Unwritten(20)], &[(FaultKind::InvalidMask, at, 27)]);
    passes("shuffle_from_nobody", 1, 64, &[Unwritten(64)]);
}

#[test]
fn values_that_nobody_set_are_followed_through_shuffles() {
    let read = "float sum = tile[threadIdx.x];";
    // Only lane 0 stores, and what it read itself was written. The host reads one word.
    let inputs = |written| [Words(32), Unwritten(1), Value(written)];
    finds("shuffle_of_unwritten", 1, 32, &inputs(8), &[(FaultKind::UninitialisedRead, read, 1)]);
    let found = findings("shuffle_of_unwritten", 1, 32, &inputs(31));
    assert_eq!(found[0].threads, 1);
    passes("shuffle_of_unwritten", 1, 32, &inputs(32));
}

#[test]
fn all_findings_of_a_launch_are_collected() {
    let (read, write) = ("float value = in[i];", "if (i <= n) out[i] = value;");
    finds(
        "two_mistakes",
        2,
        32,
        &[Words(60), Unwritten(60), Value(60)],
        &[(FaultKind::OutOfBounds, read, 1), (FaultKind::OutOfBounds, write, 1)],
    );
}

#[test]
fn correct_kernels_stay_clean() {
    passes("warp_sums", 3, 96, &[Words(250), Unwritten(3), Value(250)]);
    passes("double_buffer", 1, 64, &[Words(320), Unwritten(64), Value(5)]);
    passes("async_double_buffer", 1, 64, &[Words(320), Unwritten(64), Value(5)]);
    passes("histogram", 3, 96, &[Words(250), Zeros(256), Value(1000)]);
    passes("some_leave_early", 2, 64, &[Words(100), Unwritten(100), Value(100)]);
    passes("warp_barriers", 1, 64, &[Unwritten(64)]);
    passes("half_warps", 1, 32, &[Unwritten(32)]);
    passes("last_block", 5, 64, &[Unwritten(5), Zeros(1), Zeros(1)]);
    passes("last_block_of_many_writers", 5, 64, &[Unwritten(320), Zeros(1), Zeros(1)]);
    passes("chain", 6, 32, &[Zeros(1), Zeros(1)]);
    passes("lock", 6, 32, &[Zeros(1), Zeros(1)]);
    passes("grid_barrier", 4, 64, &[Zeros(1), Words(512), Value(5)]);
    passes("everybody_sets_the_flag", 3, 64, &[Unwritten(1)]);
    passes("producer_and_consumer", 1, 64, &[Words(160), Unwritten(160), Value(5)]);
    passes("flag_in_shared_memory", 1, 64, &[Unwritten(32)]);
    passes("bytes_of_words", 1, 128, &[Unwritten(128)]);
    passes("in_place_neighbours", 1, 64, &[Words(64), Value(64)]);
}

#[test]
fn a_kernel_that_is_sanitised_gives_the_same_results() {
    let run = |sanitize| {
        let device = Device::new(DeviceConfig { sanitize, ..Default::default() });
        let module = device.load(&Module::from_ptx(PTX, "sanitise.ptx").unwrap()).unwrap();
        let (input, out) = (device.alloc(1280, "in").unwrap(), device.alloc(256, "out").unwrap());
        let bytes: Vec<u8> = (0..320).flat_map(|at| (at as f32 * 0.75).to_le_bytes()).collect();
        device.write(input, &bytes).unwrap();
        let config = LaunchConfig { block: [64, 1, 1], ..Default::default() };
        let report = module
            .kernel("async_double_buffer")
            .unwrap()
            .launch(&config, &[input.into(), out.into(), 5.into()])
            .unwrap();
        let mut sums = [0; 256];
        device.read(out, &mut sums).unwrap();
        (report, sums)
    };
    assert_eq!(run(true), run(false));
}

#[test]
fn what_was_never_freed_leaks() {
    let device = device();
    let (kept, freed) = (device.alloc(12, "kept").unwrap(), device.alloc(8, "freed").unwrap());
    device.free(freed).unwrap();
    let leaks = device.leaks();
    assert_eq!(leaks.iter().map(|leak| (leak.pointer, leak.bytes)).collect::<Vec<_>>(), [(kept, 12)]);
    assert!(leaks[0].to_string().contains("`kept` (12 bytes"));
}

/// An mbarrier orders threads' work before they arrived with others' work after they waited, and nothing else.
#[test]
fn an_mbarrier_orders_arrivals_and_waits() {
    let kernel = |wait: &str, arrive: &str| {
        format!(
            r"
            .version 7.8
            .target sm_80
            .address_size 64
            .visible .entry k(.param .u64 out)
            {{
                .reg .u32 i, s, t;  .reg .u64 p;  .reg .b64 state;  .reg .pred first, done;
                .shared .align 8 .b64 bar;
                .shared .align 4 .b32 tile[64];
                mov.u32 i, %tid.x;
                setp.eq.u32 first, i, 0;
                @first mbarrier.init.shared.b64 [bar], 64;
                bar.sync 0;
                mov.u32 s, tile;  mad.lo.u32 t, i, 4, s;
                st.shared.u32 [t], i;
                {arrive}
                again:
                {wait}
                @!done bra again;
                add.u32 t, i, 33;  and.b32 t, t, 63;  mad.lo.u32 t, t, 4, s;
                ld.shared.u32 t, [t];
                ld.param.u64 p, [out];  mad.wide.u32 p, i, 4, p;  st.global.u32 [p], t;
                ret;
            }}"
        )
    };
    let found = |wait: &str, arrive: &str| {
        let device = Device::new(DeviceConfig { sanitize: true, ..Default::default() });
        let module = Module::from_ptx(&kernel(wait, arrive), "k.ptx").expect("it is valid PTX");
        let kernel = device.load(&module).expect("it fits").kernel("k").expect("its instructions are known");
        let out = device.alloc(256, "out").expect("it fits");
        let config = LaunchConfig { block: [64, 1, 1], ..Default::default() };
        match kernel.launch(&config, &[Arg::from(out)]) {
            Ok(_) => Vec::new(),
            Err(LaunchError::Findings(findings)) => findings.iter().map(|finding| finding.kind).collect(),
            Err(error) => panic!("{error}"),
        }
    };
    let wait = "mbarrier.test_wait.shared.b64 done, [bar], state;";
    let arrive = "mbarrier.arrive.shared.b64 state, [bar];";
    assert_eq!(found(wait, arrive), []);
    // Who only arrives knows nothing of the others.
    assert!(found("setp.eq.u32 done, i, i;", arrive).contains(&FaultKind::SharedRace));
    // One arrival too many, and none where there is no object.
    let twice = format!("{arrive} {arrive}");
    assert!(
        found("setp.eq.u32 done, i, i;", &twice.replace(arrive, "mbarrier.arrive.noComplete.shared.b64 _, [bar], 60;"))
            .contains(&FaultKind::InvalidMbarrier)
    );
    assert!(
        found("setp.eq.u32 done, i, i;", "mbarrier.arrive.shared.b64 _, [tile];").contains(&FaultKind::InvalidMbarrier)
    );
}

/// Like libcu++ leaving a pipeline: the lanes of a warp elect one by a match, and the last of these ends the barrier for
/// all.
#[test]
fn a_lane_speaks_for_others_that_it_has_met() {
    let kernel = |elect: &str| {
        format!(
            ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k() {{\n\
             .reg .b32 %r<12>; .reg .pred %p<5>; .reg .b64 %rd<3>;\n\
             .shared .align 8 .b64 bar; .shared .align 4 .b32 count;\n\
             mov.u32 %r1, %tid.x; mov.u32 %r2, bar; mov.u32 %r3, count; setp.ne.u32 %p1, %r1, 0; @%p1 bra GO;\n\
             mbarrier.init.shared.b64 [%r2], 64; st.shared.u32 [%r3], 2; GO: bar.sync 0;\n\
             mbarrier.arrive.shared.b64 %rd1, [%r2];\n\
             W: mbarrier.test_wait.shared.b64 %p2, [%r2], %rd1; @!%p2 bra W;\n\
             mov.u32 %r5, %laneid; {elect} setp.ne.u32 %p3, %r5, 0; @%p3 bra END;\n\
             membar.cta; atom.shared.add.u32 %r6, [%r3], -1; membar.cta; setp.ne.u32 %p4, %r6, 1; @%p4 bra END;\n\
             mbarrier.inval.shared.b64 [%r2]; END: ret;\n}}\n"
        )
    };
    let findings = |elect: &str| {
        let device = Device::new(DeviceConfig { sanitize: true, ..Default::default() });
        let module = device.load(&Module::from_ptx(&kernel(elect), "k.ptx").unwrap()).unwrap();
        let config = LaunchConfig { block: [64, 1, 1], ..Default::default() };
        match module.kernel("k").unwrap().launch(&config, &[]) {
            Ok(_) => Vec::new(),
            Err(LaunchError::Findings(findings)) => findings,
            Err(other) => panic!("{other}"),
        }
    };
    assert_eq!(findings("bar.warp.sync -1;"), []);
    for elect in ["", "match.any.sync.b32 %r7, %r3, -1;", "match.all.sync.b32 %r7, %r3, -1;"] {
        let found = findings(elect);
        assert_eq!(found.first().map(|finding| finding.kind), Some(FaultKind::SharedRace), "{elect}: {found:?}");
    }
}

/// Between shared variables there are bytes that no access may touch, enough of them to keep tiles for `wgmma` aligned.
#[test]
fn shared_variables_keep_their_alignment() {
    let ptx = r"
        .version 8.0
        .target sm_90
        .address_size 64
        .visible .entry k(.param .u64 out) {
            .reg .u64 %rd1, %rd2;
            .shared .align 8 .b64 bar;
            .shared .align 1024 .b8 first[2048];
            .shared .align 1024 .b8 second[2048];
            ld.param.u64 %rd1, [out];
            mov.u64 %rd2, bar;
            st.global.u64 [%rd1], %rd2;
            mov.u64 %rd2, first;
            st.global.u64 [%rd1+8], %rd2;
            mov.u64 %rd2, second;
            st.global.u64 [%rd1+16], %rd2;
        }";
    let places = |sanitize| {
        let device = Device::new(DeviceConfig { sanitize, ..Default::default() });
        let kernel = device.load(&Module::from_ptx(ptx, "k.ptx").unwrap()).unwrap().kernel("k").unwrap();
        let out = device.alloc(24, "out").unwrap();
        kernel.launch(&LaunchConfig::default(), &[out.into()]).unwrap();
        let mut places = [0; 24];
        device.read(out, &mut places).unwrap();
        [0, 8, 16].map(|at| u64::from_le_bytes(places[at..at + 8].try_into().unwrap()))
    };
    assert_eq!(places(false), [0, 1024, 3072]);
    let [bar, first, second] = places(true);
    assert!(bar.is_multiple_of(8) && first.is_multiple_of(1024) && second.is_multiple_of(1024));
    assert!(first >= bar + 8 + 1024 && second >= first + 2048 + 1024, "{first} {second}");
}

/// A barrier waits for the threads that have not exited, and orders the work of those that came to it: not the writes of a thread
/// that left before.
#[test]
fn a_barrier_does_not_order_writes_of_threads_that_left_before() {
    // Two warps write their words. The last one does `last` and exits; the first comes to a barrier, and does `after`.
    let findings = |last: &str, after: &str| {
        let ptx = format!(
            ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k() {{\n\
             .reg .b32 %r<6>; .reg .pred %p<2>; .shared .align 4 .b8 tile[256];\n\
             mov.u32 %r1, %tid.x; mov.u32 %r2, tile; shl.b32 %r3, %r1, 2; add.u32 %r3, %r2, %r3;\n\
             st.shared.u32 [%r3], %r1; setp.lt.u32 %p1, %r1, 32; @%p1 bra STAY; {last} exit;\n\
             STAY: bar.sync 0; {after} exit;\n}}\n"
        );
        let device = device();
        let kernel = device.load(&Module::from_ptx(&ptx, "k.ptx").unwrap()).unwrap().kernel("k").unwrap();
        match kernel.launch(&LaunchConfig { block: [64, 1, 1], ..Default::default() }, &[]) {
            Ok(_) => Vec::new(),
            Err(LaunchError::Findings(findings)) => findings,
            Err(other) => panic!("{other}"),
        }
    };
    let reads_the_last = "ld.shared.u32 %r4, [tile+252];";
    let found = findings("", reads_the_last);
    let [race] = &found[..] else { panic!("{found:?}") };
    assert_eq!((race.kind, race.other.as_ref().map(|other| other.thread)), (FaultKind::SharedRace, Some([63, 0, 0])));
    assert!(race.notes.iter().any(|note| note.contains("exited without coming to the barrier")), "{:?}", race.notes);
    assert_eq!(
        findings("", "st.shared.u32 [tile+252], %r1;").first().map(|race| race.kind),
        Some(FaultKind::SharedRace)
    );
    // It came to the barrier; what it left is not touched; it has only read.
    assert!(findings("bar.sync 0;", reads_the_last).is_empty());
    assert!(findings("", "ld.shared.u32 %r4, [%r3];").is_empty());
    let found = findings("bar.sync 0; ld.shared.u32 %r4, [tile];", "bar.sync 0; st.shared.u32 [%r3], %r2;");
    assert!(found.is_empty(), "{found:?}");
    // Two barriers later it is a race still, and so is what it wrote after a barrier that it came to.
    let reads_later = format!("bar.sync 0; {reads_the_last}");
    assert_eq!(findings("", &reads_later).len(), 1);
    assert_eq!(findings("bar.sync 0; st.shared.u32 [%r3], %r2;", &reads_later).len(), 1);
}

#[test]
fn a_call_overwrites_the_register_of_its_result() {
    let findings = |call: &str| {
        let ptx = format!(
            ".version 8.0\n.target sm_80\n.address_size 64\n\
             .func (.reg .u32 %out) five() {{ mov.u32 %out, 5; ret; }}\n\
             .visible .entry k() {{\n.reg .b32 %r<3>; .reg .b64 %rd<2>; .reg .pred %p<2>; .shared .align 4 .b8 tile[8];\n\
             P: .callprototype (.reg .u32 _) _ ();\n\
             ld.shared.u32 %r1, [tile]; {call} setp.eq.u32 %p1, %r1, 5; @%p1 st.shared.u32 [tile+4], %r1; ret;\n}}\n"
        );
        let device = device();
        let kernel = device.load(&Module::from_ptx(&ptx, "k.ptx").unwrap()).unwrap().kernel("k").unwrap();
        match kernel.launch(&LaunchConfig::default(), &[]) {
            Ok(_) => Vec::new(),
            Err(LaunchError::Findings(findings)) => findings,
            Err(other) => panic!("{other}"),
        }
    };
    assert_eq!(findings("").iter().map(|found| found.kind).collect::<Vec<_>>(), [FaultKind::UninitialisedRead]);
    assert!(findings("call (%r1), five;").is_empty());
    assert!(findings("mov.u64 %rd1, five; call (%r1), %rd1, P;").is_empty());
}
