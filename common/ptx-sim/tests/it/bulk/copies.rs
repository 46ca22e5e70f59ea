//! Tests of bulk copies of plain bytes: between spaces and blocks, in groups and on barriers.

use ptx_sim::{
    Arg, Asynchrony, Device, DeviceConfig, FaultKind, LaunchConfig, Observe, TensorElement, TensorMapDescriptor,
};

use super::{FILL, INIT, LATE, LOAD, ORDERS, OUT, Run, WATCHED, gives, launch, launch_with, module, numbers, rendered};

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

/// Each block of two pairs copies a quarter by a multicast to its own and the other pair. The first block's mbarrier counts what both of a
/// pair get: that block tells the second when it is there, and may exit before it.
#[test]
fn multicasts_of_a_pair_complete_on_the_barrier_of_one_block() {
    let body = "
        mov.u32 %r30, %cluster_ctarank; and.b32 %r34, %r30, 1; setp.eq.u32 %p5, %r34, 0; and.pred %p6, %p1, %p5;
        @%p1 mbarrier.init.shared::cta.b64 [%r2], 1; fence.mbarrier_init.release.cluster;
        barrier.cluster.arrive; barrier.cluster.wait; @!%p1 bra END;
        @%p6 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r2], 64;
        shl.b32 %r32, 5, %r34; cvt.u16.u32 %h1, %r32; xor.b32 %r35, %r30, 2; shl.b32 %r33, %r35, 4;
        and.b32 %r31, %r2, 0xfeffffff; shr.u32 %r36, %r30, 1; mad.lo.u32 %r37, %r36, 128, %r1;
        cp.async.bulk.tensor.1d.cta_group::2.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster
            [%r37], [%rd3, {%r33}], [%r31], %h1;
        W0: mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %p2, [%r2], 0; @!%p2 bra W0;
        or.b32 %r34, %r30, 1; mapa.shared::cluster.u32 %r34, %r2, %r34;
        @%p6 mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r34];
        shl.b32 %r33, %r30, 4; cvt.u64.u32 %rd4, %r33; add.u64 %rd5, %rd2, %rd4;
        xor.b32 %r36, %r36, 1; mad.lo.u32 %r37, %r36, 128, %r1;
        ld.shared.v4.b32 {%r5, %r6, %r7, %r8}, [%r37]; st.global.v4.b32 [%rd5], {%r5, %r6, %r7, %r8}; END:";
    for asynchrony in ORDERS {
        for sanitize in [false, true] {
            let run = Run { asynchrony, sanitize, cluster: 4, ..LATE };
            let map = |[address, _]: [_; 2]| TensorMapDescriptor::tiled(TensorElement::U8, address, &[64], &[16]);
            let found = launch_with(run, body, &numbers(64), 64, map);
            assert_eq!(found.unwrap_or_else(|faults| panic!("{}", rendered(&faults))), numbers(64), "{asynchrony:?}");
        }
    }
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
