//! Bulk copies: data and times of arrival, in every order that PTX allows, and the sanitiser's findings in wrong kernels.

use ptx_sim::{
    Arg, Asynchrony, Device, DeviceConfig, DevicePtr, Fault, FaultKind, LaunchConfig, LaunchError, Module, Observe,
    OutsideFill, Swizzle, TensorElement, TensorMap, TensorMapDescriptor, TensorWindow,
};

const ORDERS: [Asynchrony; 4] =
    [Asynchrony::Late, Asynchrony::Early, Asynchrony::Seeded(1), Asynchrony::Seeded(0xdead_beef)];

/// Settings of a launch.
#[derive(Clone, Copy)]
struct Run {
    asynchrony: Asynchrony,
    sanitize: bool,
    threads: u32,
    /// Blocks, of one cluster.
    cluster: u32,
}

const LATE: Run = Run { asynchrony: Asynchrony::Late, sanitize: false, threads: 32, cluster: 1 };

const WATCHED: Run = Run { sanitize: true, ..LATE };

/// A kernel of `body`, with the shared arrays `tile` (at 1024) and `full` (two mbarriers), its thread in `%r0`, the addresses of
/// `in` and `out` in `%rd1` and `%rd2`, and that of its map in `%rd3`.
fn module(body: &str) -> Module {
    let ptx = format!(
        ".version 8.6\n.target sm_90a\n.address_size 64
        .visible .entry k(.param .u64 a, .param .u64 b, .param .align 64 .b8 map[128]) {{
        .reg .pred %p<9>; .reg .b16 %h<9>; .reg .b32 %r<40>; .reg .f32 %f<9>; .reg .b64 %rd<20>;
        .shared .align 1024 .b8 tile[65536]; .shared .align 8 .b64 full[2];
        mov.u32 %r0, %tid.x; ld.param.u64 %rd1, [a]; ld.param.u64 %rd2, [b];
        cvta.to.global.u64 %rd1, %rd1; cvta.to.global.u64 %rd2, %rd2;
        mov.b64 %rd3, map; cvta.param.u64 %rd3, %rd3;
        mov.u32 %r1, tile; mov.u32 %r2, full; setp.eq.u32 %p1, %r0, 0;
        {body}
        ret; }}"
    );
    Module::from_ptx(&ptx, "bulk.ptx").unwrap_or_else(|error| panic!("{error}"))
}

/// Launches it with `input` and a map, of `in` or `out`; returns the bytes of `out`, which were 0xaa.
fn launch_with(
    run: Run,
    body: &str,
    input: &[u8],
    bytes_out: u64,
    map: impl FnOnce([DevicePtr; 2]) -> TensorMapDescriptor,
) -> Result<Vec<u8>, Vec<Fault>> {
    let device = Device::new(DeviceConfig { sanitize: run.sanitize, ..Default::default() });
    let module = device.load(&module(body)).expect("a module");
    let from = device.alloc(input.len() as u64, "in").expect("memory");
    device.write(from, input).expect("in bounds");
    let to = device.alloc(bytes_out, "out").expect("memory");
    device.fill(to, 0xaa, bytes_out).expect("in bounds");
    let map: TensorMap = map([from, to]).encode().unwrap_or_else(|error| panic!("{error}"));
    let config = LaunchConfig {
        grid: [run.cluster, 1, 1],
        cluster: Some([run.cluster, 1, 1]),
        block: [run.threads, 1, 1],
        asynchrony: run.asynchrony,
        budget: Some(3_000_000),
        ..Default::default()
    };
    let kernel = module.kernel("k").unwrap_or_else(|error| panic!("{error}"));
    match kernel.launch(&config, &[Arg::from(from), Arg::from(to), Arg::from(&map)]) {
        Ok(_) => {}
        Err(LaunchError::Fault(fault)) => return Err(vec![*fault]),
        Err(LaunchError::Findings(findings)) => return Err(findings),
        Err(other) => panic!("{other}"),
    }
    let mut out = vec![0; bytes_out as usize];
    device.read(to, &mut out).expect("in bounds");
    Ok(out)
}

fn some_map([address, _]: [DevicePtr; 2]) -> TensorMapDescriptor {
    TensorMapDescriptor::tiled(TensorElement::U8, address, &[16], &[16])
}

fn launch(run: Run, body: &str, input: &[u8], bytes_out: u64) -> Result<Vec<u8>, Vec<Fault>> {
    launch_with(run, body, input, bytes_out, some_map)
}

fn numbers(count: usize) -> Vec<u8> {
    (0..count).map(|at| (at * 7 + at / 256) as u8).collect()
}

/// Initialises `full[0]` for one arrival.
const INIT: &str = "@%p1 mbarrier.init.shared::cta.b64 [%r2], 1; @%p1 fence.mbarrier_init.release.cluster; bar.sync 0;";

/// Copies 512 bytes of `in` to `tile` and waits for them.
const LOAD: &str = "
    @%p1 mbarrier.arrive.expect_tx.release.cta.shared::cta.b64 _, [%r2], 512;
    @%p1 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%rd1], 512, [%r2];
    W0: mbarrier.try_wait.parity.acquire.cta.shared::cta.b64 %p2, [%r2], 0, 1000; @!%p2 bra W0;";

/// Each of 32 threads copies 16 bytes of `tile` to `out`.
const OUT: &str = "
    shl.b32 %r3, %r0, 4; add.u32 %r4, %r1, %r3; cvt.u64.u32 %rd4, %r3; add.u64 %rd5, %rd2, %rd4;
    ld.shared.v4.b32 {%r5, %r6, %r7, %r8}, [%r4]; st.global.v4.b32 [%rd5], {%r5, %r6, %r7, %r8};";

/// Each of 32 threads sets 16 bytes of `tile` to its number.
const FILL: &str = "
    shl.b32 %r3, %r0, 4; add.u32 %r4, %r1, %r3; st.shared.v4.b32 [%r4], {%r0, %r0, %r0, %r0};";

#[track_caller]
fn gives(body: &str, input: &[u8], expected: &[u8]) {
    for asynchrony in ORDERS {
        for sanitize in [false, true] {
            let run = Run { asynchrony, sanitize, ..LATE };
            match launch(run, body, input, expected.len() as u64) {
                Ok(found) => assert_eq!(found, expected, "{asynchrony:?}"),
                Err(faults) => panic!("{asynchrony:?}: {}", rendered(&faults)),
            }
        }
    }
}

fn rendered(faults: &[Fault]) -> String {
    faults.iter().map(|fault| fault.render(None, false)).collect()
}

/// Expects a fault of that kind with that text, from a sanitiser.
#[track_caller]
fn finds(body: &str, kind: FaultKind, text: &str) -> Vec<Fault> {
    let faults = launch(WATCHED, body, &numbers(4096), 512).expect_err("the kernel is wrong");
    let all = rendered(&faults);
    assert!(faults[0].kind == kind && all.contains(text), "{all}");
    faults
}

#[test]
fn a_copy_to_shared_memory_completes_on_its_barrier() {
    gives(&format!("{INIT}{LOAD}{OUT}"), &numbers(512), &numbers(512));
}

#[test]
fn a_kernel_that_does_not_wait_reads_what_was_there() {
    let body = format!(
        "{INIT}{FILL} fence.proxy.async.shared::cta; bar.sync 0;
        @%p1 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r2], 512;
        @%p1 cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [%r1], [%rd1], 512, [%r2];
        bar.sync 0;{OUT}"
    );
    let old: Vec<u8> = (0..32u32).flat_map(|lane| [lane; 4]).flat_map(u32::to_le_bytes).collect();
    assert_eq!(launch(LATE, &body, &numbers(512), 512), Ok(old));
    let early = Run { asynchrony: Asynchrony::Early, ..LATE };
    assert_eq!(launch(early, &body, &numbers(512), 512), Ok(numbers(512)));
    let faults = launch(WATCHED, &body, &numbers(512), 512).expect_err("it is wrong");
    let kinds: Vec<FaultKind> = faults.iter().map(|fault| fault.kind).collect();
    assert_eq!(kinds, [FaultKind::CopyInFlight, FaultKind::UnawaitedCopy], "{}", rendered(&faults));
    let other = faults[0].other.as_ref().expect("both sides are named");
    assert_eq!((other.what, other.thread), ("asynchronous copy", [0, 0, 0]));
}

#[test]
fn a_copy_to_global_memory_is_awaited_by_its_group() {
    let body = format!(
        "{FILL} fence.proxy.async.shared::cta; bar.sync 0;
        @!%p1 bra END;
        cp.async.bulk.global.shared::cta.bulk_group [%rd2], [%r1], 512; cp.async.bulk.commit_group;
        cp.async.bulk.wait_group.read 0; cp.async.bulk.wait_group 0;
        END:"
    );
    let expected: Vec<u8> = (0..32u32).flat_map(|lane| [lane; 4]).flat_map(u32::to_le_bytes).collect();
    gives(&body, &numbers(64), &expected);
}

#[test]
fn copies_within_shared_memory_and_reductions() {
    // `tile` gets `in`, then its second half the sum of both.
    let body = format!(
        "{INIT}
        @%p1 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r2], 1024;
        @%p1 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%rd1], 1024, [%r2];
        W0: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r2], 0; @!%p2 bra W0;
        add.u32 %r10, %r1, 512;
        @%p1 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r2], 512;
        @%p1 cp.reduce.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes.add.u32 [%r1], [%r10], 512, [%r2];
        W1: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r2], 1; @!%p2 bra W1;{OUT}"
    );
    let input = numbers(1024);
    let word = |at: usize| u32::from_le_bytes([input[at], input[at + 1], input[at + 2], input[at + 3]]);
    let sums: Vec<u8> =
        (0..512).step_by(4).flat_map(|at| word(at).wrapping_add(word(at + 512)).to_le_bytes()).collect();
    gives(&body, &input, &sums);
    for (operation, ty, expected) in [
        ("add", "u64", 0xaaaa_aaaa_aaaa_aaaa_u64.wrapping_add(0x0000_0007_0000_0007)),
        ("min", "s32", 0xaaaa_aaaa_aaaa_aaaa),
        ("max", "u32", 0xaaaa_aaaa_aaaa_aaaa),
        ("min", "u32", 0x0000_0007_0000_0007),
        ("xor", "b32", 0xaaaa_aaad_aaaa_aaad),
        ("and", "b64", 0x0000_0002_0000_0002),
        ("or", "b32", 0xaaaa_aaaf_aaaa_aaaf),
        ("inc", "u32", 0x0000_0000_0000_0000),
        ("dec", "u32", 0x0000_0007_0000_0007),
    ] {
        let body = format!(
            "shl.b32 %r3, %r0, 4; add.u32 %r4, %r1, %r3;
            mov.u32 %r9, 7; st.shared.v4.b32 [%r4], {{%r9, %r9, %r9, %r9}};
            fence.proxy.async; bar.sync 0; @!%p1 bra END;
            cp.reduce.async.bulk.global.shared::cta.bulk_group.{operation}.{ty} [%rd2], [%r1], 512;
            cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;
            END:"
        );
        let expected: Vec<u8> = (0..64).flat_map(|_| expected.to_le_bytes()).collect();
        gives(&body, &numbers(16), &expected);
    }
}

#[test]
fn groups_are_awaited_in_order() {
    // The second group is left; its copy is made when the block ends.
    let body = format!(
        "{FILL} fence.proxy.async.shared::cta; bar.sync 0;
        @!%p1 bra END; add.u64 %rd6, %rd2, 512;
        cp.async.bulk.global.shared::cta.bulk_group [%rd2], [%r1], 512; cp.async.bulk.commit_group;
        cp.async.bulk.global.shared::cta.bulk_group [%rd6], [%r1], 512; cp.async.bulk.commit_group;
        cp.async.bulk.wait_group 1; ld.global.b32 %r20, [%rd2+16]; ld.global.b32 %r21, [%rd6+16];
        cp.async.bulk.wait_group.read 0;
        st.global.b32 [%rd2+1024], %r20; st.global.b32 [%rd2+1028], %r21;
        END:"
    );
    let out = launch(LATE, &body, &numbers(16), 1032).expect("it runs");
    assert_eq!(&out[1024..], [1, 0, 0, 0, 0xaa, 0xaa, 0xaa, 0xaa]);
    assert_eq!(out[512 + 31 * 16], 31, "the end of the block makes what is left");
}

#[test]
fn transactions_are_counted() {
    // expect_tx and complete_tx by hand; the state of an arrival; test_wait of a state.
    let body = "
        @!%p1 bra END; mbarrier.init.shared::cta.b64 [%r2], 2;
        mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%r2], 48;
        mbarrier.arrive.shared::cta.b64 %rd6, [%r2];
        mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [%r2], 16;
        mbarrier.arrive_drop.expect_tx.release.cta.shared::cta.b64 _, [%r2], 16;
        mbarrier.test_wait.shared::cta.b64 %p2, [%r2], %rd6; selp.u32 %r20, 1, 0, %p2;
        mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [%r2], 32;
        mbarrier.test_wait.shared::cta.b64 %p2, [%r2], %rd6; selp.u32 %r21, 1, 0, %p2;
        mbarrier.complete_tx.relaxed.cluster.shared::cta.b64 [%r2], 16;
        mbarrier.test_wait.shared::cta.b64 %p2, [%r2], %rd6; selp.u32 %r22, 1, 0, %p2;
        mbarrier.arrive.shared::cta.b64 %rd7, [%r2]; mbarrier.pending_count.b64 %r23, %rd7;
        st.global.v4.b32 [%rd2], {%r20, %r21, %r22, %r23};
        END:";
    gives(body, &numbers(16), &[0u32, 0, 1, 1].map(u32::to_le_bytes).concat());
}

#[test]
fn wrong_sizes_and_addresses_are_faults() {
    let copy = |to: &str, from: &str, bytes: &str| {
        format!(
            "{INIT} @%p1 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r2], 64; mov.u32 %r9, {bytes}; add.u32 %r10, %r1, {to};
            add.u64 %rd6, %rd1, {from};
            @%p1 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r10], [%rd6], %r9, [%r2];"
        )
    };
    finds(&copy("0", "0", "40"), FaultKind::InvalidCopy, "not a multiple of 16");
    finds(&copy("8", "0", "64"), FaultKind::Misaligned, "8 bytes past a multiple of 16");
    finds(&copy("0", "4", "64"), FaultKind::Misaligned, "4 bytes past a multiple of 16");
    finds(&copy("65520", "0", "64"), FaultKind::OutOfBounds, "`tile`");
    finds(&copy("0", "4080", "64"), FaultKind::OutOfBounds, "4080 bytes into `in`");
    let body = "@%p1 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%rd1], 64, [%r2];";
    finds(body, FaultKind::InvalidMbarrier, "there is no mbarrier here");
    let body = format!("{INIT} @%p1 mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%r2], 1048576;");
    finds(&body, FaultKind::InvalidMbarrier, "1048576 bytes cannot be expected");
}

#[test]
fn memory_of_a_copy_under_way_is_left_alone() {
    let begin = format!(
        "{INIT} @%p1 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r2], 512;
        @%p1 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%rd1], 512, [%r2]; bar.sync 0;"
    );
    let wait = "W0: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r2], 0; @!%p2 bra W0;";
    let faults = finds(
        &format!("{begin} @%p1 st.shared.b32 [%r1+4], %r0; {wait}"),
        FaultKind::CopyInFlight,
        "write of shared memory while a bulk copy to it is under way",
    );
    assert!(
        rendered(&faults).contains("4 bytes into `tile`") && rendered(&faults).contains("4 bytes of the copy's 512")
    );
    finds(
        &format!("{begin} @%p1 st.global.b32 [%rd1+8], %r0; {wait}"),
        FaultKind::CopyInFlight,
        "write of global memory while a bulk copy from it is under way",
    );
    let store = format!(
        "{FILL} fence.proxy.async; bar.sync 0; @!%p1 bra END;
        cp.async.bulk.global.shared::cta.bulk_group [%rd2], [%r1], 512; cp.async.bulk.commit_group;"
    );
    finds(
        &format!("{store} st.shared.b32 [%r1], %r0; cp.async.bulk.wait_group 0; END:"),
        FaultKind::CopyInFlight,
        "write of shared memory while a bulk copy from it is under way",
    );
    finds(
        &format!("{store} ld.global.b32 %r9, [%rd2]; cp.async.bulk.wait_group 0; st.global.b32 [%rd1], %r9; END:"),
        FaultKind::CopyInFlight,
        "read of global memory while a bulk copy to it is under way",
    );
    finds(&format!("{store} END:"), FaultKind::UnawaitedCopy, "from its shared memory is under way");
    // A read of the source, and a write after .read, are right.
    let body = format!("{store} cp.async.bulk.wait_group.read 0; st.shared.b32 [%r1], %r0; END:");
    assert!(launch(WATCHED, &body, &numbers(16), 512).is_ok());
}

#[test]
fn ordinary_writes_need_a_fence_before_a_bulk_copy() {
    let store = |before: &str, after: &str| {
        format!(
            "{FILL} {before} bar.sync 0; {after} @!%p1 bra END;
            cp.async.bulk.global.shared::cta.bulk_group [%rd2], [%r1], 512; cp.async.bulk.commit_group;
            cp.async.bulk.wait_group 0; END:"
        )
    };
    let faults = finds(&store("", ""), FaultKind::MissingProxyFence, "512 bytes in common");
    assert_eq!(faults[0].other.as_ref().map(|other| other.what), Some("write"));
    for (before, after) in
        [("fence.proxy.async.shared::cta;", ""), ("fence.proxy.async;", ""), ("", "fence.proxy.async;")]
    {
        assert!(launch(WATCHED, &store(before, after), &numbers(16), 512).is_ok());
    }
    // Without a barrier it is a race.
    let body = format!(
        "{FILL} fence.proxy.async; @!%p1 bra END;
        cp.async.bulk.global.shared::cta.bulk_group [%rd2], [%r1], 512; cp.async.bulk.commit_group;
        cp.async.bulk.wait_group 0; END:"
    );
    let run = Run { threads: 32, ..WATCHED };
    let faults = launch(run, &body, &numbers(16), 512).expect_err("a race");
    assert_eq!(faults[0].kind, FaultKind::SharedRace, "{}", rendered(&faults));
    // Never written at all.
    let body = "@!%p1 bra END; cp.async.bulk.global.shared::cta.bulk_group [%rd2], [%r1], 512;
        cp.async.bulk.commit_group; cp.async.bulk.wait_group 0; END:";
    finds(body, FaultKind::UninitialisedRead, "bulk copy of 512 bytes of shared memory that were never written");
}

#[test]
fn a_buffer_is_used_again_after_its_readers_have_arrived() {
    // Two stages of one buffer; the second copy must wait for the readers of the first.
    let body = |arrive: &str| {
        format!(
            "@%p1 mbarrier.init.shared::cta.b64 [%r2], 1; @%p1 mbarrier.init.shared::cta.b64 [%r2+8], 32; bar.sync 0;
            {LOAD} shl.b32 %r3, %r0, 4; add.u32 %r4, %r1, %r3; ld.shared.b32 %r20, [%r4];
            {arrive}
            @%p1 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r2], 512;
            @%p1 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%rd1], 512, [%r2];
            W1: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r2], 1; @!%p2 bra W1;
            ld.shared.b32 %r21, [%r4]; add.u32 %r20, %r20, %r21; st.global.b32 [%rd2], %r20;"
        )
    };
    let right = "mbarrier.arrive.shared::cta.b64 _, [%r2+8];
        E: @%p1 mbarrier.try_wait.parity.shared::cta.b64 %p3, [%r2+8], 0; @!%p1 bra F; @!%p3 bra E; F:";
    let last = "setp.eq.u32 %p4, %r0, 31;";
    let store = |body: String| body.replace("st.global.b32 [%rd2]", &format!("{last} @%p4 st.global.b32 [%rd2]"));
    let run = |body: &str| launch(WATCHED, body, &numbers(512), 4);
    assert!(run(&store(body(right))).is_ok(), "{:?}", run(&store(body(right))));
    let faults = run(&store(body(""))).expect_err("the readers may not be done");
    assert_eq!(faults[0].kind, FaultKind::SharedRace, "{}", rendered(&faults));
}

#[test]
fn a_deadlock_is_told_soon() {
    // Fewer bytes come than are expected.
    let body = format!(
        "{INIT} @%p1 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r2], 528;
        @%p1 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%rd1], 512, [%r2];
        W0: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r2], 0; @!%p2 bra W0;"
    );
    for asynchrony in ORDERS {
        let run = Run { asynchrony, threads: 64, ..LATE };
        let faults = launch(run, &body, &numbers(512), 16).expect_err("it waits for ever");
        let text = rendered(&faults);
        assert!(faults[0].kind == FaultKind::Deadlock && text.contains("2 warps wait at mbarriers"), "{text}");
        assert!(text.contains("0 of 1 arrivals are missing, and 16 bytes have yet to come"), "{text}");
    }
    // Bytes in excess, one warp at another wait, without suspension.
    let body = "@%p1 mbarrier.init.shared::cta.b64 [%r2], 1; @%p1 mbarrier.init.shared::cta.b64 [%r2+8], 1; bar.sync 0;
        @%p1 mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [%r2], 64; @%p1 mbarrier.arrive.shared::cta.b64 _, [%r2];
        setp.lt.u32 %p3, %r0, 32; selp.u32 %r9, 0, 8, %p3; add.u32 %r9, %r9, %r2;
        W0: mbarrier.test_wait.parity.shared::cta.b64 %p2, [%r9], 0; @!%p2 bra W0;";
    let budget = Run { threads: 64, ..LATE };
    let faults = launch(budget, body, &numbers(16), 16).expect_err("it waits for ever");
    let text = rendered(&faults);
    assert!(
        text.contains("64 bytes more have come than were expected") && text.contains("1 of 1 arrivals is missing"),
        "{text}"
    );
    // One that only takes long is none.
    let body = format!(
        "{INIT} @%p1 bra SLOW;
        W0: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r2], 0; @!%p2 bra W0; bra END;
        SLOW: mov.u32 %r9, 0; L: add.u32 %r9, %r9, 1; setp.lt.u32 %p3, %r9, 300000; @%p3 bra L;
        mbarrier.arrive.shared::cta.b64 _, [%r2]; st.global.b32 [%rd2], %r9; END:"
    );
    let run = Run { threads: 64, ..LATE };
    assert_eq!(launch(run, &body, &numbers(16), 4), Ok(300_000_u32.to_le_bytes().to_vec()));
}

/// A tensor and a copy of one of its boxes.
struct Case {
    element: TensorElement,
    extents: Vec<u64>,
    /// Padding of each stride in bytes.
    padding: Vec<u64>,
    window: TensorWindow,
    element_strides: Vec<u32>,
    swizzle: Swizzle,
    fill: OutsideFill,
    coordinates: Vec<i32>,
    offsets: Vec<u16>,
}

impl Case {
    fn tile(element: TensorElement, extents: &[u64], sizes: &[u32], coordinates: &[i32]) -> Self {
        Self {
            element,
            extents: extents.to_vec(),
            padding: vec![0; extents.len()],
            window: TensorWindow::Tiled(sizes.to_vec()),
            element_strides: vec![1; extents.len()],
            swizzle: Swizzle::None,
            fill: OutsideFill::Zero,
            coordinates: coordinates.to_vec(),
            offsets: Vec::new(),
        }
    }

    fn strides(&self) -> Vec<u64> {
        let mut strides = vec![self.element.size()];
        for (extent, padding) in self.extents.iter().zip(&self.padding) {
            let next = (strides.last().expect("one") * extent + padding).next_multiple_of(16);
            strides.push(next);
        }
        strides
    }

    fn descriptor(&self, address: DevicePtr) -> TensorMapDescriptor {
        TensorMapDescriptor {
            strides: self.strides()[1..self.extents.len()].to_vec(),
            window: self.window.clone(),
            element_strides: self.element_strides.clone(),
            swizzle: self.swizzle,
            fill: self.fill,
            ..TensorMapDescriptor::tiled(self.element, address, &self.extents, &[])
        }
    }

    /// Coordinates of each element of the box, in the order of shared memory; written from the PTX ISA, element by element.
    fn elements(&self) -> Vec<Vec<i64>> {
        let mut all = Vec::new();
        match &self.window {
            TensorWindow::Tiled(sizes) => {
                let counts: Vec<u32> = sizes
                    .iter()
                    .zip(&self.element_strides)
                    .enumerate()
                    .map(|(at, (size, stride))| if at == 0 { *size } else { size.div_ceil(*stride) })
                    .collect();
                for number in 0..counts.iter().map(|count| u64::from(*count)).product::<u64>() {
                    let mut rest = number;
                    let mut place = Vec::new();
                    for (at, count) in counts.iter().enumerate() {
                        let stride = if at == 0 { 1 } else { self.element_strides[at] };
                        place.push(
                            i64::from(self.coordinates[at]) + (rest % u64::from(*count)) as i64 * i64::from(stride),
                        );
                        rest /= u64::from(*count);
                    }
                    all.push(place);
                }
            }
            TensorWindow::Im2col { lower, upper, channels, pixels } => {
                let last = self.extents.len() - 1;
                // All pixels of the bounding boxes of all images from the first coordinate's on, in order.
                let ranges: Vec<Vec<i64>> = (1..last)
                    .map(|at| {
                        let end = self.extents[at] as i64 - 1 + i64::from(upper[at - 1]);
                        (i64::from(lower[at - 1])..=end).step_by(self.element_strides[at] as usize).collect()
                    })
                    .collect();
                let mut visited = Vec::new();
                for image in 0..self.extents[last] as i64 + 3 {
                    let total: usize = ranges.iter().map(Vec::len).product();
                    for number in 0..total {
                        let mut rest = number;
                        let mut place = Vec::new();
                        for range in &ranges {
                            place.push(range[rest % range.len()]);
                            rest /= range.len();
                        }
                        place.push(image);
                        visited.push(place);
                    }
                }
                let start: Vec<i64> = self.coordinates[1..].iter().map(|at| i64::from(*at)).collect();
                let first = visited.iter().position(|place| *place == start).expect("it begins in the bounding box");
                for place in &visited[first..first + *pixels as usize] {
                    for channel in 0..i64::from(*channels) {
                        let mut at = vec![i64::from(self.coordinates[0]) + channel];
                        at.extend(place.iter().enumerate().map(|(dimension, pixel)| {
                            pixel + self.offsets.get(dimension).map_or(0, |offset| i64::from(*offset))
                        }));
                        all.push(at);
                    }
                }
            }
        }
        all
    }

    fn is_inside(&self, place: &[i64]) -> bool {
        place.iter().zip(&self.extents).all(|(at, extent)| (0..*extent as i64).contains(at))
    }

    /// Offset of an element in the tensor's bytes.
    fn offset(&self, place: &[i64]) -> usize {
        place.iter().zip(self.strides()).map(|(at, stride)| *at as usize * stride as usize).sum()
    }

    /// Offset of the byte in `tile`, which begins at a multiple of 1024.
    fn swizzled(&self, at: usize) -> usize {
        let (row, chunk) = (at / 128, at / 16 % 8);
        let chunk = match self.swizzle {
            Swizzle::None => chunk,
            Swizzle::Bytes32 => chunk ^ (row % 2),
            Swizzle::Bytes64 => chunk ^ (row % 4),
            Swizzle::Bytes128 => chunk ^ (row % 8),
        };
        row * 128 + chunk * 16 + at % 16
    }

    fn opcode(&self) -> (String, String, String) {
        let im2col = matches!(self.window, TensorWindow::Im2col { .. });
        let list = |values: Vec<String>| format!("{{{}}}", values.join(", "));
        let coordinates = list(self.coordinates.iter().map(i32::to_string).collect());
        let offsets = if im2col {
            format!(", {}", list(self.offsets.iter().map(u16::to_string).collect()))
        } else {
            String::new()
        };
        (format!("{}d", self.extents.len()), coordinates, offsets)
    }

    #[track_caller]
    fn check(&self) {
        let size = self.element.size() as usize;
        let elements = self.elements();
        let bytes = elements.len() * size;
        let total = self.strides()[self.extents.len()] as usize;
        let input: Vec<u8> = (0..total).map(|at| (at.wrapping_mul(2_654_435_761) >> 7) as u8).collect();
        let mut expected = vec![0; bytes];
        for (number, place) in elements.iter().enumerate() {
            for byte in 0..size {
                expected[self.swizzled(number * size + byte)] = match self.fill {
                    _ if self.is_inside(place) => input[self.offset(place) + byte],
                    OutsideFill::Zero => 0,
                    OutsideFill::Nan => [0xf7, 0x7f][byte % 2],
                };
            }
        }
        let (dimensions, coordinates, offsets) = self.opcode();
        let mode = if self.offsets.is_empty() { "tile" } else { "im2col" };
        // to shared memory by the map, and as it lies there to `out`
        let body = format!(
            "{INIT} @!%p1 bra END;
            mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r2], {bytes};
            cp.async.bulk.prefetch.tensor.{dimensions}.L2.global.{mode} [%rd3, {coordinates}]{offsets};
            cp.async.bulk.tensor.{dimensions}.shared::cluster.global.{mode}.mbarrier::complete_tx::bytes [%r1], [%rd3, {coordinates}], [%r2]{offsets};
            W0: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r2], 0; @!%p2 bra W0;
            cp.async.bulk.global.shared::cta.bulk_group [%rd2], [%r1], {bytes};
            cp.async.bulk.commit_group; cp.async.bulk.wait_group 0; END:"
        );
        for asynchrony in ORDERS {
            for sanitize in [false, true] {
                let run = Run { asynchrony, sanitize, ..LATE };
                let found = launch_with(run, &body, &input, bytes as u64, |[address, _]| self.descriptor(address));
                match found {
                    Ok(found) => assert_eq!(found, expected, "{asynchrony:?}"),
                    Err(faults) => panic!("{asynchrony:?}: {}", rendered(&faults)),
                }
            }
        }
        if !self.offsets.is_empty() {
            return;
        }
        // from `in` to shared memory as it is, and by the map to `out`
        let input: Vec<u8> = numbers(bytes);
        let mut expected = vec![0xaa; total];
        // The last 16 bytes of a row are written whole, also where it ends within them.
        let beside = |number: usize, place: &[i64]| {
            let same = elements[number * size / 16 * 16 / size..number].iter();
            place[0] >= self.extents[0] as i64
                && place[1..].iter().zip(&self.extents[1..]).all(|(at, extent)| (0..*extent as i64).contains(at))
                && self.offset(place) + size <= total
                && same.into_iter().any(|place| self.is_inside(place))
        };
        let written = |(number, place): &(usize, &Vec<i64>)| self.is_inside(place) || beside(*number, place);
        for (number, place) in elements.iter().enumerate().filter(written) {
            for byte in 0..size {
                expected[self.offset(place) + byte] = input[self.swizzled(number * size + byte)];
            }
        }
        let body = format!(
            "{INIT} @!%p1 bra END;
            mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r2], {bytes};
            cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%rd1], {bytes}, [%r2];
            W0: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r2], 0; @!%p2 bra W0;
            cp.async.bulk.tensor.{dimensions}.global.shared::cta.tile.bulk_group [%rd3, {coordinates}], [%r1];
            cp.async.bulk.commit_group; cp.async.bulk.wait_group 0; END:"
        );
        let starts_before = self.coordinates.iter().any(|&coordinate| coordinate < 0);
        for asynchrony in ORDERS {
            let run = Run { asynchrony, sanitize: true, ..LATE };
            match launch_with(run, &body, &input, total as u64, |[_, address]| self.descriptor(address)) {
                Ok(found) => {
                    assert!(!starts_before, "{asynchrony:?}: {:?} is taken", self.coordinates);
                    assert_eq!(found, expected, "{asynchrony:?}");
                }
                Err(faults) if starts_before => assert!(rendered(&faults).contains("but not start before it")),
                Err(faults) => panic!("{asynchrony:?}: {}", rendered(&faults)),
            }
        }
    }
}

#[test]
fn boxes_of_tensors_are_copied_both_ways() {
    use TensorElement::{Bf16, F16, F32, F64, S32, U8, U16, U64};
    Case::tile(U8, &[100], &[32], &[16]).check();
    Case::tile(F32, &[37, 21], &[8, 5], &[12, 3]).check();
    // ragged at the end, before the start, and wholly outside
    Case::tile(F16, &[37, 21], &[16, 8], &[24, 18]).check();
    Case::tile(F16, &[37, 21], &[16, 8], &[-8, -3]).check();
    Case::tile(Bf16, &[3, 2], &[64, 4], &[-32, -1]).check();
    Case::tile(S32, &[16, 4], &[4, 4], &[100, -50]).check();
    Case::tile(U16, &[21, 5, 7], &[8, 2, 3], &[16, 4, 5]).check();
    Case { padding: vec![48, 16, 0, 0], ..Case::tile(F64, &[5, 3, 4, 2], &[4, 2, 2, 2], &[2, -1, 3, 1]) }.check();
    Case::tile(U64, &[3, 3, 3, 3, 3], &[2, 2, 2, 2, 2], &[2, 1, 2, -1, 2]).check();
    Case { fill: OutsideFill::Nan, ..Case::tile(F16, &[37, 21], &[16, 8], &[24, 18]) }.check();
    Case { fill: OutsideFill::Nan, ..Case::tile(F64, &[7, 3], &[4, 4], &[-2, -2]) }.check();
    Case { element_strides: vec![1, 2, 3], ..Case::tile(F32, &[20, 17, 9], &[4, 7, 8], &[4, -2, 1]) }.check();
    Case { element_strides: vec![8, 8], ..Case::tile(U8, &[64, 64], &[32, 33], &[0, 5]) }.check();
}

#[test]
fn boxes_are_swizzled() {
    for (swizzle, bytes) in [(Swizzle::Bytes32, 32), (Swizzle::Bytes64, 64), (Swizzle::Bytes128, 128)] {
        for (element, size) in [(TensorElement::F16, 2), (TensorElement::F32, 4), (TensorElement::U8, 1)] {
            let whole = Case::tile(element, &[200, 40], &[bytes / size, 24], &[16, 3]);
            Case { swizzle, ..whole }.check();
            let ragged = Case::tile(element, &[197, 40], &[bytes / size, 24], &[192, -5]);
            Case { swizzle, ..ragged }.check();
        }
    }
    // narrower than the span
    Case { swizzle: Swizzle::Bytes128, ..Case::tile(TensorElement::F16, &[64, 64], &[32, 16], &[0, 0]) }.check();
}

#[test]
fn a_box_starts_at_16_bytes_of_a_row() {
    let map = |address| TensorMapDescriptor::tiled(TensorElement::F16, address, &[64, 4], &[16, 4]);
    let copies = [
        "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r2], 128;
        cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%r1], [%rd3, {X, 0}], [%r2];
        W0: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r2], 0; @!%p2 bra W0;",
        "cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%rd3, {X, 0}], [%r1];
        cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;",
    ];
    let before = [None, Some("coordinate 0 is -8")];
    for (copy, before) in copies.into_iter().zip(before) {
        for (start, bytes) in [(8, None), (-8, before), (4, Some("byte 8 ")), (-9, Some("byte -18 "))] {
            let body = format!("{INIT} @!%p1 bra END; {} END:", copy.replace('X', &start.to_string()));
            let found = launch_with(LATE, &body, &numbers(512), 512, |[address, _]| map(address));
            match (found, bytes) {
                (Ok(_), None) => {}
                (Err(faults), Some(text)) => assert!(rendered(&faults).contains(text), "{}", rendered(&faults)),
                (Ok(_), Some(_)) => panic!("{start} is taken"),
                (Err(faults), None) => panic!("{start}: {}", rendered(&faults)),
            }
        }
    }
}

#[test]
fn pixels_are_visited_as_a_convolution_does() {
    let case = |extents: &[u64], lower: &[i32], upper: &[i32], coordinates: &[i32], offsets: &[u16]| Case {
        window: TensorWindow::Im2col { lower: lower.to_vec(), upper: upper.to_vec(), channels: 16, pixels: 37 },
        offsets: offsets.to_vec(),
        ..Case::tile(TensorElement::F16, extents, &[], coordinates)
    };
    // a 3 × 3 filter with padding 1
    case(&[24, 9, 8, 3], &[-1, -1], &[-1, -1], &[0, -1, -1, 0], &[0, 0]).check();
    case(&[24, 9, 8, 3], &[-1, -1], &[-1, -1], &[8, 4, 3, 1], &[2, 1]).check();
    // to the last image and beyond
    case(&[24, 9, 8, 3], &[0, 0], &[0, 0], &[0, 7, 7, 2], &[0, 0]).check();
    case(&[16, 11, 4], &[-2], &[1], &[0, 3, 1], &[1]).check();
    case(&[16, 4, 5, 3, 2], &[-1, 0, -1], &[-1, 0, -1], &[0, 1, 2, 0, 0], &[1, 0, 2]).check();
    let strided = Case {
        element_strides: vec![1, 2, 2, 1],
        ..case(&[16, 9, 9, 3], &[-1, -1], &[-1, -1], &[0, 1, 1, 0], &[1, 1])
    };
    strided.check();
    Case { swizzle: Swizzle::Bytes32, ..case(&[24, 9, 8, 3], &[-1, -1], &[-1, -1], &[0, -1, -1, 0], &[1, 1]) }.check();
}

#[test]
fn a_copy_goes_to_several_blocks_of_a_cluster() {
    // Block 0 reads each half for itself and block 1, or for block 1 alone; block 1 writes what it has to `out`.
    let body = |copy: &str| {
        format!(
            "mov.u32 %r30, %cluster_ctarank; setp.eq.u32 %p5, %r30, 0; and.pred %p6, %p1, %p5;
            @%p1 mbarrier.init.shared::cta.b64 [%r2], 1; fence.mbarrier_init.release.cluster;
            barrier.cluster.arrive; barrier.cluster.wait;
            @%p1 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r2], 512;
            {copy}
            W0: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r2], 0; @!%p2 bra W0;
            barrier.cluster.arrive; barrier.cluster.wait;
            @%p5 bra END;{OUT} END:"
        )
    };
    let multicast =
        "mov.u16 %h1, 3; @%p6 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster
        [%r1], [%rd1], 512, [%r2], %h1;";
    let remote = "mapa.shared::cluster.u32 %r31, %r1, 1; mapa.shared::cluster.u32 %r32, %r2, 1;
        @%p6 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r31], [%rd1], 512, [%r32];
        @%p6 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%rd1], 512, [%r2];";
    let own = "mapa.shared::cluster.u32 %r31, %r1, 1; mapa.shared::cluster.u32 %r32, %r2, 1;
        @%p6 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%rd1], 512, [%r2];
        @!%p5 bra GO; W1: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r2], 0; @!%p2 bra W1;
        @%p6 cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%r31], [%r1], 512, [%r32]; GO:";
    for copy in [multicast, remote, own] {
        for asynchrony in ORDERS {
            for sanitize in [false, true] {
                let run = Run { asynchrony, sanitize, cluster: 2, ..LATE };
                match launch(run, &body(copy), &numbers(512), 512) {
                    Ok(found) => assert_eq!(found, numbers(512), "{asynchrony:?}: {copy}"),
                    Err(faults) => panic!("{asynchrony:?}: {copy}: {}", rendered(&faults)),
                }
            }
        }
    }
    let run = Run { cluster: 2, ..LATE };
    let wrong = [
        ("mov.u16 %h1, 3", "mov.u16 %h1, 7", "0x7 of a cluster of 2"),
        ("[%r2], %h1", "[%r2+8], %h1", "no mbarrier here"),
    ];
    for (right, wrong, text) in wrong {
        let faults = launch(run, &body(&multicast.replace(right, wrong)), &numbers(512), 512).expect_err(text);
        assert!(rendered(&faults).contains(text), "{}", rendered(&faults));
    }
    let mixed = remote.replace("[%r31], [%rd1], 512, [%r32]", "[%r31], [%rd1], 512, [%r2]");
    let faults = launch(run, &body(&mixed), &numbers(512), 512).expect_err("two blocks");
    assert!(rendered(&faults).contains("completes on the mbarrier of another"), "{}", rendered(&faults));
}

#[test]
fn a_profile_counts_bulk_copies() {
    let body = format!(
        "{INIT} @!%p1 bra END;
        mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r2], 512;
        cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%r1], [%rd3, {{4, 1}}], [%r2];
        W0: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r2], 0; @!%p2 bra W0;
        cp.async.bulk.global.shared::cta.bulk_group [%rd2], [%r1], 64;
        cp.async.bulk.commit_group; cp.async.bulk.wait_group 0; END:"
    );
    let device = Device::new(DeviceConfig::default());
    let module = device.load(&module(&body)).expect("a module");
    let [from, to] = ["in", "out"].map(|label| device.alloc(512, label).expect("memory"));
    // Rows of 8 floats, of which the box has the upper 4 of 3 rows, and what is outside.
    let map = TensorMapDescriptor::tiled(TensorElement::F32, from, &[8, 4], &[16, 8]).encode().expect("a map");
    let config = LaunchConfig { block: [32, 1, 1], ..Default::default() };
    let observe = Observe { profile: true, ..Default::default() };
    let args = [Arg::from(from), Arg::from(to), Arg::from(&map)];
    let observed = module.kernel("k").expect("it runs").observe(&config, &args, &observe).expect("no fault");
    let profile = observed.profile.expect("it was asked for");
    let counters = profile.counters;
    assert_eq!([counters.bulk_load_requests, counters.bulk_load_bytes, counters.bulk_load_sectors], [1, 48, 3]);
    assert_eq!([counters.bulk_store_requests, counters.bulk_store_bytes, counters.bulk_store_sectors], [1, 64, 2]);
    assert_eq!([counters.mbarrier_arrivals, counters.mbarrier_waits], [1, 1]);
    assert_eq!([profile.unique_load_bytes, profile.unique_store_bytes], [96, 64]);
}
