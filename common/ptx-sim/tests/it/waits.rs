//! Lanes, warps and blocks that wait for each other: who meets whom, and what is said of a wait that never ends.

use std::time::Duration;

use ptx_sim::{Device, DeviceConfig, Fault, FaultKind, LaunchConfig, LaunchError, Module};

use crate::threads::kernel_of_threads;

const SANITISED: [bool; 2] = [false, true];

/// Registers that all bodies here may use, and the address of the thread's own word of `data` in `%rd2`.
const REGISTERS: &str = ".reg .pred %p<6>; .reg .b32 %v<12>; .reg .f32 %f<9>;
    mul.wide.u32 %rd2, %r1, 4; add.u64 %rd2, %rd1, %rd2; mov.u32 %v1, %tid.x;";

/// Launches a kernel of that body, with a buffer of 64 zeros as `data`. Returns the buffer and the findings.
fn launch(sanitize: bool, [grid, block]: [u32; 2], body: &str) -> Result<(Vec<u32>, Vec<Fault>), Vec<Fault>> {
    let config =
        LaunchConfig { grid: [grid, 1, 1], block: [block, 1, 1], budget: Some(5_000_000), ..Default::default() };
    launch_as(sanitize, &config, body)
}

fn launch_as(sanitize: bool, config: &LaunchConfig, body: &str) -> Result<(Vec<u32>, Vec<Fault>), Vec<Fault>> {
    let kernel = kernel_of_threads(&format!("{REGISTERS}\n{body}"));
    let text = format!(".version 8.0\n.target sm_80\n.address_size 64\n{kernel}");
    let device = Device::new(DeviceConfig { sanitize, workers: 2, ..Default::default() });
    let module = device.load(&Module::from_ptx(&text, "k.ptx").unwrap()).unwrap();
    let data = device.alloc(256, "data").unwrap();
    device.write(data, &[0; 256]).unwrap();
    let observed = module.kernel("k").unwrap().observe(config, &[data.into()], &Default::default());
    let mut bytes = [0; 256];
    device.read(data, &mut bytes).unwrap();
    let words = bytes.chunks_exact(4).map(|word| u32::from_le_bytes(word.try_into().unwrap())).collect();
    match observed {
        Ok(observation) => Ok((words, observation.findings)),
        Err(LaunchError::Fault(fault)) => Err(vec![*fault]),
        Err(LaunchError::Findings(findings)) => Err(findings),
        Err(other) => panic!("{other}"),
    }
}

/// The values of a launch without findings.
#[track_caller]
fn values(sanitize: bool, shape: [u32; 2], body: &str) -> Vec<u32> {
    let (words, findings) = launch(sanitize, shape, body).unwrap();
    assert_eq!(findings, []);
    words
}

/// The only finding of a sanitised launch, and the values.
#[track_caller]
fn finding(shape: [u32; 2], body: &str) -> (Fault, Vec<u32>) {
    let (words, mut findings) = launch(true, shape, body).unwrap();
    assert_eq!(findings.len(), 1, "{findings:?}");
    (findings.remove(0), words)
}

/// The fault that ends a launch.
#[track_caller]
fn fault(sanitize: bool, shape: [u32; 2], body: &str) -> Fault {
    match launch(sanitize, shape, body) {
        Err(mut faults) => faults.remove(0),
        Ok((_, mut findings)) => findings.remove(0),
    }
}

/// Even lanes execute `even` and odd ones `odd`; each stores `%v4`.
fn parted(even: &str, odd: &str) -> String {
    format!(
        "and.b32 %v2, %v1, 1; setp.ne.u32 %p1, %v2, 0; mov.u32 %v8, 1; mov.u32 %v9, 31; add.u32 %v5, %v1, 100; add.u32 %v6, %v1, 200;
         @%p1 bra ODD; {even} bra END; ODD: {odd} mov.u32 %v4, %v7; END: st.global.u32 [%rd2], %v4;"
    )
}

/// An H100 gives these values too.
#[test]
fn lanes_meet_by_mask_and_not_by_place() {
    for sanitize in SANITISED {
        let exchanged = |even: &str, odd: &str| values(sanitize, [1, 32], &parted(even, odd))[..32].to_vec();
        // One operand may be a register that is another one at the other place.
        let neighbours: Vec<u32> = (0..32).map(|lane| (lane ^ 1) + if lane % 2 == 0 { 200 } else { 100 }).collect();
        let shuffled =
            exchanged("shfl.sync.bfly.b32 %v4, %v5, 1, 31, -1;", "shfl.sync.bfly.b32 %v7|%p2, %v6, %v8, %v9, -1;");
        assert_eq!(shuffled, neighbours);
        let shuffled =
            exchanged("shfl.sync.idx.b32 %v4, %v1, %v1, 31, -1;", "shfl.sync.idx.b32 %v7, %v6, %v8, %v9, -1;");
        let expected: Vec<u32> = (0..32).map(|lane| if lane % 2 == 0 { lane } else { 201 }).collect();
        assert_eq!(shuffled, expected);
        let voted = exchanged("vote.sync.ballot.b32 %v4, !%p1, -1;", "vote.sync.ballot.b32 %v7, %p1, -1;");
        assert_eq!(voted, [u32::MAX; 32]);
        let fours: Vec<u32> = (0..32).map(|lane| 0xf << (lane & !3)).collect();
        let matched = exchanged(
            "shr.u32 %v5, %v1, 2; match.any.sync.b32 %v4, %v5, -1;",
            "shr.u32 %v6, %v1, 2; match.any.sync.b32 %v7, %v6, -1;",
        );
        assert_eq!(matched, fours);
        let all = exchanged("match.all.sync.b32 %v4, %v8, -1;", "match.all.sync.b32 %v7|%p2, %v8, -1;");
        assert_eq!(all, [u32::MAX; 32]);
        let sum = exchanged("redux.sync.add.u32 %v4, %v5, -1;", "redux.sync.add.u32 %v7, %v6, -1;");
        assert_eq!(sum, [16 * 300 + 496; 32]);
    }
}

/// Lanes at one place with masks of their own do not wait for each other.
#[test]
fn each_mask_is_complete_by_itself() {
    // Odd lanes come to their second vote only after lanes 0 and 2 have left the first.
    let body = "setp.lt.u32 %p1, %v1, 4; selp.b32 %v2, 0xf, 0xfffffff0, %p1; setp.eq.u32 %p2, %v1, 31; @%p2 bra LAST;
        vote.sync.ballot.b32 %v4, %p1, %v2; st.volatile.global.u32 [%rd1+128], 1; bra END;
        LAST: ld.volatile.global.u32 %v3, [%rd1+128]; setp.eq.u32 %p3, %v3, 0; @%p3 bra LAST;
        vote.sync.ballot.b32 %v4, %p1, %v2; END: st.global.u32 [%rd2], %v4;";
    for sanitize in SANITISED {
        let found = values(sanitize, [1, 32], body);
        assert_eq!((&found[..4], &found[4..32]), (&[0xf; 4][..], &[0; 28][..]));
    }
}

#[test]
fn other_qualifiers_and_other_masks_do_not_meet() {
    for sanitize in SANITISED {
        let body = parted(
            "shfl.sync.bfly.b32 %v4, %v5, 1, 31, -1; bar.warp.sync -1;",
            "shfl.sync.down.b32 %v7, %v6, 1, 31, -1; bar.warp.sync -1;",
        );
        let fault = fault(sanitize, [1, 32], &body);
        assert_eq!(fault.kind, FaultKind::InvalidMask, "{fault}");
        assert!(fault.message.contains("names lanes that never reach it: 0x"), "{fault}");
    }
    let body = parted("vote.sync.ballot.b32 %v4, %p1, -1;", "vote.sync.ballot.b32 %v7, %p1, 0xaaaaaaaa;");
    let (other_mask, _) = finding([1, 32], &body);
    assert!(other_mask.message.contains("names lanes 0xaaaaaaaa, which have gone past it"), "{other_mask}");
    let (at_one_place, _) =
        finding([1, 32], "setp.lt.u32 %p1, %v1, 8; selp.b32 %v2, 0xffff, -1, %p1; vote.sync.any.pred %p2, %p1, %v2;");
    assert!(at_one_place.message.contains("lane 8, and that lane has another mask"), "{at_one_place}");
}

/// An H100 gives 10.
#[test]
fn lanes_may_end_while_others_wait_for_them() {
    let body = ".shared .align 4 .b8 s[16]; .reg .b32 %s<4>;
        mov.u32 %s1, s; shl.b32 %v2, %v1, 2; add.u32 %s2, %s1, %v2; add.u32 %v3, %v1, 1; setp.lt.u32 %p1, %v1, 4;
        @%p1 st.shared.u32 [%s2], %v3; bar.sync 0; setp.ge.u32 %p2, %v1, 2; @%p2 bra REST;
        ld.shared.u32 %v4, [%s2]; ld.shared.u32 %v5, [%s2+8]; add.u32 %v4, %v4, %v5; st.shared.u32 [%s2], %v4; bar.warp.sync -1;
        REST: setp.ne.u32 %p3, %v1, 0; @%p3 bra END;
        ld.shared.u32 %v6, [%s1]; ld.shared.u32 %v7, [%s1+4]; add.u32 %v6, %v6, %v7; st.global.u32 [%rd1], %v6; END:";
    assert_eq!(values(false, [1, 32], body)[0], 10);
    let (finding, found) = finding([1, 32], body);
    assert_eq!((finding.kind, found[0]), (FaultKind::InvalidMask, 10));
    assert!(finding.message.contains("names lanes 0xfffffffc, which have gone past it and exited"), "{finding}");
}

#[test]
fn a_sum_and_a_product_lack_lanes_that_have_returned() {
    let early = |op: &str| format!("setp.ge.u32 %p1, %v1, 20; @%p1 ret; {op} st.global.u32 [%rd2], %v4;");
    let product = "mov.u32 %v2, 0; mov.f32 %f1, 0f00000000; mov.u32 %v4, 1;
        mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%f1, %f2, %f3, %f4}, {%v2, %v2}, {%v2}, {%f1, %f1, %f1, %f1};";
    for op in ["redux.sync.add.u32 %v4, %v1, -1;", product] {
        let (finding, _) = finding([1, 32], &early(op));
        assert_eq!(finding.kind, FaultKind::InvalidMask, "{op}");
        assert!(finding.message.contains("lanes 0xfff00000, which have exited or never were"), "{finding}");
    }
    // Votes and matches are of those that are left.
    for op in [
        "vote.sync.ballot.b32 %v4, !%p1, -1;",
        "match.any.sync.b32 %v4, 7, -1;",
        "bar.warp.sync -1; mov.u32 %v4, 0xfffff;",
    ] {
        assert_eq!(values(true, [1, 32], &early(op))[..20], [0xfffff; 20], "{op}");
    }
}

#[test]
fn a_match_does_not_order_memory() {
    let body = |between: &str| {
        format!(
            ".shared .b32 s; setp.eq.u32 %p1, %v1, 3; @%p1 st.shared.u32 [s], 5; {between}
             ld.shared.u32 %v4, [s]; st.global.u32 [%rd2], %v4;"
        )
    };
    assert_eq!(values(true, [1, 32], &body("bar.warp.sync -1;"))[..32], [5; 32]);
    let (race, _) = finding([1, 32], &body("match.any.sync.b32 %v2, %v1, -1;"));
    assert_eq!(race.kind, FaultKind::SharedRace);
}

/// The winner stands behind the loop in which the others wait for it. An H100 counts right.
#[test]
fn a_lock_may_be_taken_in_turn_by_lanes_of_a_warp() {
    for pause in ["", "nanosleep.u32 20;"] {
        let body = format!(
            "TAKE: {pause} atom.global.cas.b32 %v2, [%rd1], 0, 1; setp.ne.u32 %p1, %v2, 0; @%p1 bra TAKE;
             membar.gl; ld.global.u32 %v3, [%rd1+4]; add.u32 %v3, %v3, 1; st.global.u32 [%rd1+4], %v3;
             membar.gl; atom.global.exch.b32 %v4, [%rd1], 0;"
        );
        for sanitize in SANITISED {
            assert_eq!(values(sanitize, [2, 64], &body)[..2], [0, 128]);
        }
    }
    let shared = ".shared .b32 lock; .shared .b32 count;
        setp.eq.u32 %p2, %v1, 0; @%p2 st.shared.u32 [lock], 0; @%p2 st.shared.u32 [count], 0; bar.sync 0;
        TAKE: atom.shared.cas.b32 %v2, [lock], 0, 1; setp.ne.u32 %p1, %v2, 0; @%p1 bra TAKE;
        membar.cta; ld.shared.u32 %v3, [count]; add.u32 %v3, %v3, 1; st.shared.u32 [count], %v3;
        membar.cta; atom.shared.exch.b32 %v4, [lock], 0;
        bar.sync 0; ld.shared.u32 %v3, [count]; st.global.u32 [%rd2], %v3;";
    for sanitize in SANITISED {
        assert_eq!(values(sanitize, [1, 64], shared), [64; 64]);
    }
}

/// Some lanes wait for what others do after they have met.
#[test]
fn lanes_that_ask_do_not_keep_others_from_meeting() {
    for ask in
        ["ld.volatile.global.u32 %v3, [%rd1];", "ld.volatile.global.u32 %v3, [%rd1]; st.global.u32 [%rd2+128], %v3;"]
    {
        let body = format!(
            "setp.lt.u32 %p1, %v1, 16; @%p1 bra ASK; and.b32 %v2, %v1, 1; setp.ne.u32 %p2, %v2, 0; @%p2 bra ODD;
             bar.warp.sync 0xffff0000; bra MET; ODD: bar.warp.sync 0xffff0000; MET: setp.eq.u32 %p3, %v1, 16;
             @%p3 st.volatile.global.u32 [%rd1], 7; bra END;
             ASK: {ask} setp.eq.u32 %p4, %v3, 0; @%p4 bra ASK; END:"
        );
        for sanitize in SANITISED {
            assert_eq!(values(sanitize, [1, 32], &body)[0], 7);
        }
    }
}

#[test]
fn a_wait_that_nobody_is_left_to_end_is_a_deadlock() {
    // Block 1 says 1 and is gone; block 0 waits for 2.
    let body = |pause: &str| {
        format!(
            "mov.u32 %v2, %ctaid.x; setp.eq.u32 %p1, %v2, 0; @%p1 bra ASK; st.volatile.global.u32 [%rd1+4], 1; bra END;
             ASK: {pause} ld.volatile.global.u32 %v3, [%rd1+4]; setp.ne.u32 %p2, %v3, 2; @%p2 bra ASK; END:"
        )
    };
    for (sanitize, pause) in [(false, ""), (true, ""), (false, "nanosleep.u32 100;"), (true, "add.u32 %v5, %v2, 3;")] {
        let fault = fault(sanitize, [2, 1], &body(pause));
        assert_eq!(fault.kind, FaultKind::Deadlock, "{fault}");
        assert_eq!(fault.message, "the wait for `data` never ends: no thread is left that could end it");
        let notes = fault.notes.join("\n");
        for note in [
            "asks again and again for 4 bytes, 4 bytes into `data`",
            "it finds 1: the wait ends once that is 2",
            "block (1, 0, 0) has exited",
        ] {
            assert!(notes.contains(note), "{notes}");
        }
        let last = "block (1, 0, 0), thread (0, 0, 0) wrote it last, at k.ptx:";
        assert_eq!(notes.contains(last), sanitize, "{notes}");
    }
    // A warp waits for the one that waits for it at a barrier.
    let body = ".shared .b32 ready; setp.ne.u32 %p1, %v1, 0; @!%p1 st.shared.u32 [ready], 0; bar.sync 0;
        setp.lt.u32 %p2, %v1, 64; @%p2 bra AT;
        ASK: ld.volatile.shared.u32 %v3, [ready]; setp.eq.u32 %p3, %v3, 0; @%p3 bra ASK; bra END;
        AT: bar.sync 0; st.volatile.shared.u32 [ready], 1; END:";
    for sanitize in SANITISED {
        let fault = fault(sanitize, [1, 96], body);
        let notes = fault.notes.join("\n");
        assert_eq!(fault.kind, FaultKind::Deadlock, "{fault}");
        assert_eq!(
            fault.message,
            "the wait for `ready` in shared memory never ends: no thread is left that could end it"
        );
        assert!(notes.contains("for barrier 0, which 64 of 96 threads have reached"), "{notes}");
        assert!(notes.contains("it finds 0: the wait ends once that is not 0"), "{notes}");
    }
    // Lanes that hold a lock and wait for all others.
    let body = "TAKE: atom.global.cas.b32 %v2, [%rd1], 0, 1; setp.ne.u32 %p1, %v2, 0; @%p1 bra TAKE;
        bar.warp.sync -1; atom.global.exch.b32 %v4, [%rd1], 0;";
    let fault = fault(false, [1, 32], body);
    assert_eq!(fault.kind, FaultKind::Deadlock, "{fault}");
    assert!(fault.notes[0].contains("it finds 1: the wait ends once that is 0"), "{fault}");
}

#[test]
fn what_only_takes_long_is_no_deadlock() {
    // Another block writes late; and a thread that counts its questions gives up.
    let late = "mov.u32 %v2, %ctaid.x; setp.eq.u32 %p1, %v2, 0; @%p1 bra ASK; mov.u32 %v4, 0;
        SLOW: add.u32 %v4, %v4, 1; setp.lt.u32 %p3, %v4, 300000; @%p3 bra SLOW; st.volatile.global.u32 [%rd1], %v4; bra END;
        ASK: ld.volatile.global.u32 %v3, [%rd1]; setp.eq.u32 %p2, %v3, 0; @%p2 bra ASK; END:";
    let counts =
        "mov.u32 %v4, 0; ASK: ld.volatile.global.u32 %v3, [%rd1+4]; add.u32 %v4, %v4, 1; setp.lt.u32 %p3, %v4, 300000;
        setp.eq.and.u32 %p2, %v3, 0, %p3; @%p2 bra ASK; st.global.u32 [%rd1], %v4;";
    for sanitize in SANITISED {
        assert_eq!(values(sanitize, [2, 1], late)[0], 300_000);
        assert_eq!(values(sanitize, [1, 1], counts)[0], 300_000);
    }
}

#[test]
fn a_limit_says_how_far_the_launch_came() {
    let config = LaunchConfig { grid: [1 << 20, 1, 1], budget: Some(100_000), ..Default::default() };
    for sanitize in SANITISED {
        let faults = launch_as(sanitize, &config, "").expect_err("it did not end");
        let fault = faults.last().unwrap();
        assert_eq!(fault.kind, FaultKind::Budget);
        assert!(fault.message.contains(", in block ") && fault.message.ends_with(" of 1,048,576"), "{fault}");
    }
    // What waits is told where nothing says that it waits in vain: another thread goes on.
    let body = "setp.lt.u32 %p1, %v1, 32; @%p1 bra ASK; MORE: st.global.u32 [%rd1+4], %v1; bra MORE;
        ASK: ld.volatile.global.u32 %v3, [%rd1]; setp.eq.u32 %p2, %v3, 0; @%p2 bra ASK;";
    let block = LaunchConfig { block: [64, 1, 1], ..Default::default() };
    let (budget, time) = (Some(300_000), Some(Duration::from_millis(100)));
    for sanitize in SANITISED {
        let stopped = |config: LaunchConfig, kind: FaultKind| {
            let faults = launch_as(sanitize, &config, body).expect_err("it did not end");
            faults.into_iter().find(|fault| fault.kind == kind).expect("a limit is an error")
        };
        let fault = stopped(LaunchConfig { budget, ..block }, FaultKind::Budget);
        assert!(fault.notes.join("\n").contains("it finds 0: the wait ends once that is not 0"), "{fault}");
        stopped(LaunchConfig { time_limit: time, ..block }, FaultKind::TimeLimit);
    }
}

/// `while (__syncthreads_or(left > 0)) { …; if (--left == 0) { out[t] = rounds; return; } } out[t] = rounds;`, where a compiler has
/// made one store of the two. On an H200 threads that have returned count as arrived, as the CUDA C++ Programming Guide
/// says of "non-exited threads".
#[test]
fn threads_that_returned_from_a_loop_count_as_arrived() {
    let reduced = |reduction: &str| {
        format!(
            "rem.u32 %v2, %v1, 5; mov.u32 %v3, 0;
             AGAIN: setp.gt.s32 %p1, %v2, 0; {reduction} @!%p2 bra OVER; sub.u32 %v2, %v2, 1; add.u32 %v3, %v3, 1;
             setp.eq.u32 %p3, %v2, 0; @%p3 bra END; bra AGAIN;
             OVER: add.u32 %v3, %v3, 100; END: st.global.u32 [%rd2], %v3;"
        )
    };
    // Of five threads the first goes on until the last has returned.
    let expected: Vec<u32> = (0..64).map(|thread| [104, 1, 2, 3, 4][thread % 5]).collect();
    for sanitize in SANITISED {
        for reduction in [
            "bar.red.or.pred %p2, 0, %p1;",
            "bar.red.popc.u32 %v4, 0, %p1; setp.ne.u32 %p2, %v4, 0;",
            "bar.red.and.pred %p2, 0, !%p1; not.pred %p2, %p2;",
        ] {
            assert_eq!(values(sanitize, [1, 64], &reduced(reduction)), expected, "{reduction}");
        }
        // Without a loop the barrier is one that not all threads of a warp reach, and in one, none of those that left may
        // meet the others at another barrier.
        let branch =
            "setp.lt.u32 %p1, %v1, 16; @!%p1 bra END; bar.red.or.pred %p2, 0, %p1; END: st.global.u32 [%rd2], %v1;";
        assert_eq!(fault(sanitize, [1, 32], branch).kind, FaultKind::BarrierDivergence);
    }
    let another = reduced("bar.red.or.pred %p2, 0, %p1;") + "bar.sync 0; st.global.u32 [%rd2], %v1;";
    assert_eq!(fault(true, [1, 64], &another).kind, FaultKind::BarrierDivergence);
}
