//! Tests of kernels that use bulk copies wrongly: sizes, memory under way, missing fences, deadlocks.

use ptx_sim::FaultKind;

use super::{FILL, INIT, LATE, LOAD, ORDERS, Run, WATCHED, finds, launch, launch_with, numbers, rendered, some_map};

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
}

/// Expects that a copy from and to memory, of which `shared` and `global` are not written, brings undefined values that are used.
#[track_caller]
fn brings_undefined(body: &str, says: &str) {
    for asynchrony in ORDERS {
        let faults = launch_with(Run { asynchrony, ..WATCHED }, body, &[], 512, some_map);
        let faults = faults.expect_err("undefined values are used");
        assert_eq!(faults.len(), 1, "{}", rendered(&faults));
        assert_eq!(faults[0].kind, FaultKind::UninitialisedRead);
        assert!(faults[0].message.contains(says), "{}", rendered(&faults));
        assert!(faults[0].instruction.contains("cp."), "{}", rendered(&faults));
    }
}

#[test]
fn bulk_copies_take_undefined_bytes_along() {
    // Of what comes to shared memory, a branch uses the first word.
    let load = |fill: &str, used: &str| {
        format!(
            "{INIT} {fill} fence.proxy.async; bar.sync 0; {LOAD} @!%p1 bra END; ld.shared.b32 %r9, [%r1+{used}];
            setp.eq.u32 %p3, %r9, 7; @%p3 bra END; st.shared.b32 [%r2+8], 1; END:"
        )
    };
    let some = "@%p1 st.global.b32 [%rd1+4], 9;";
    brings_undefined(&load(some, "0"), "bulk copy of 508 bytes of global memory that were never written");
    for (fill, used) in [
        (some, "4"),
        (
            "shl.b32 %r3, %r0, 4; cvt.u64.u32 %rd4, %r3; add.u64 %rd4, %rd1, %rd4; st.global.v4.b32 [%rd4], {%r0, %r0, %r0, %r0};",
            "0",
        ),
    ] {
        let found = launch_with(WATCHED, &load(fill, used), &[], 512, some_map);
        assert!(found.is_ok(), "{found:?}");
    }
    // What a copy brings to global memory the host uses, but for padding: 16 bytes are copied as one.
    let store = |fill: &str, copy: &str| {
        format!(
            "{fill} fence.proxy.async; bar.sync 0; @!%p1 bra END; {copy}; cp.async.bulk.commit_group;
            cp.async.bulk.wait_group.read 0; st.shared.v4.b32 [%r1], {{%r0, %r0, %r0, %r0}}; cp.async.bulk.wait_group 0; END:"
        )
    };
    let copy = "cp.async.bulk.global.shared::cta.bulk_group [%rd2], [%r1], 512";
    brings_undefined(&store("", copy), "bulk copy of 512 bytes of shared memory that were never written");
    let padded = "shl.b32 %r3, %r0, 4; add.u32 %r4, %r1, %r3; st.shared.b32 [%r4], %r0; st.shared.b64 [%r4+8], %rd1;";
    assert!(launch(WATCHED, &store(padded, copy), &[0; 16], 512).is_ok());
    // A sum uses all of its operands.
    let add = "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%rd2], [%r1], 512";
    brings_undefined(&store(padded, add), "bulk copy of 128 bytes of shared memory that were never written");
    let full = launch(WATCHED, &store(FILL, add), &[0; 16], 512);
    assert!(full.is_ok(), "{full:?}");
    // From one block of a cluster to another.
    let body = "mov.u32 %r12, %cluster_ctarank; setp.eq.u32 %p4, %r12, 1; and.pred %p5, %p1, %p4; not.pred %p6, %p4;
        @%p5 mbarrier.init.shared::cta.b64 [%r2], 1; @%p5 fence.mbarrier_init.release.cluster;
        barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
        mapa.shared::cluster.u32 %r10, %r1, 1; mapa.shared::cluster.u32 %r11, %r2, 1; and.pred %p7, %p1, %p6;
        @%p7 cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%r10], [%r1], 512, [%r11];
        @!%p5 bra END; mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r2], 512;
        W0: mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %p2, [%r2], 0, 1000; @!%p2 bra W0;
        ld.shared.b32 %r9, [%r1]; st.global.b32 [%rd2], %r9;
        END: barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;";
    let faults = launch(Run { cluster: 2, ..WATCHED }, body, &[0; 16], 512).expect_err("the host reads it");
    assert!(faults[0].message.contains("bulk copy of 512 bytes of shared memory"), "{}", rendered(&faults));
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
