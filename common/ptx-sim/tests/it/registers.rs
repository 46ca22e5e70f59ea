//! `setmaxnreg`: warps trade registers, and wait for them; and waits that are known at once to be endless.

use ptx_sim::{Device, DeviceConfig, Fault, FaultKind, LaunchConfig, LaunchError, Module};

/// Launches one block of a kernel with that body.
fn launch(directive: &str, threads: u32, body: &str, budget: u64) -> Result<(), Box<Fault>> {
    let ptx = format!(
        ".version 8.6\n.target sm_90a\n.address_size 64\n.visible .entry k() {directive} {{\n\
         .reg .b32 %r<9>; .reg .pred %p<9>; .reg .b64 %rd<9>;\n.shared .align 8 .b64 full;\n\
         mov.u32 %r1, %tid.x; shr.u32 %r2, %r1, 7; mov.u32 %r3, full;\n{body}\nret;\n}}\n"
    );
    let device = Device::new(DeviceConfig::default());
    let module = device.load(&Module::from_ptx(&ptx, "k.ptx").unwrap()).unwrap();
    let config = LaunchConfig { block: [threads, 1, 1], budget: Some(budget), ..Default::default() };
    match module.kernel("k").unwrap().launch(&config, &[]) {
        Ok(_) => Ok(()),
        Err(LaunchError::Fault(fault)) => Err(fault),
        Err(other) => panic!("{other}"),
    }
}

/// Three warpgroups, of which the first releases `dec` registers and the others take `inc`.
fn trade(dec: u32, inc: u32) -> String {
    // The takers come first, and wait.
    format!(
        "setp.eq.u32 %p1, %r2, 0; @%p1 bra GIVE;\nsetmaxnreg.inc.sync.aligned.u32 {inc};\nbra END;\n
         GIVE: setmaxnreg.dec.sync.aligned.u32 {dec};\nEND: bar.sync 0;"
    )
}

#[test]
fn registers_that_are_there_are_handed_on() {
    // 168 for each of 384 threads: CUTLASS's cooperative kernels.
    for directive in ["", ".maxntid 384, 1, 1", ".maxnreg 168", ".maxntid 384, 1, 1 .minnctapersm 1 .maxnreg 168"] {
        assert!(launch(directive, 384, &trade(24, 240), 100_000).is_ok(), "{directive}");
        assert!(launch(directive, 384, &trade(40, 232), 100_000).is_ok(), "{directive}");
    }
    // One warp asks before the others have given anything up, and again after it has given up itself.
    let later = "setp.lt.u32 %p1, %r1, 32; @!%p1 bra GIVE;\nsetmaxnreg.inc.sync.aligned.u32 256; setmaxnreg.dec.sync.aligned.u32 24;
        setmaxnreg.inc.sync.aligned.u32 200; bra END;\nGIVE: mov.u32 %r5, 5000; L: sub.u32 %r5, %r5, 1; setp.ne.u32 %p2, %r5, 0; @%p2 bra L;
        setmaxnreg.dec.sync.aligned.u32 24;\nEND: bar.sync 0;";
    assert!(launch(".maxnreg 128", 128, later, 1_000_000).is_ok());
    // What warps held that have ended is there for the others.
    let ended = "setp.lt.u32 %p1, %r1, 32; @!%p1 ret; setmaxnreg.inc.sync.aligned.u32 256;";
    assert!(launch(".maxnreg 64", 256, ended, 1_000_000).is_ok());
}

#[test]
fn registers_that_nobody_gives_up_are_a_deadlock() {
    let deadlock = |directive: &str, threads: u32, body: &str| {
        let fault = launch(directive, threads, body, 1_000_000).expect_err(directive);
        assert_eq!(fault.kind, FaultKind::Deadlock, "{fault:?}");
        assert!(fault.instruction.starts_with("setmaxnreg.inc"), "{fault:?}");
        fault.notes[0].clone()
    };
    // Without `.maxnreg` 384 threads began with at most 168, which is less than an SM has; and 128 with at most 256.
    assert_eq!(deadlock("", 384, &trade(24, 248)), "the block's warps hold 58624 of 64512 registers");
    assert_eq!(deadlock("", 384, &trade(32, 240)), "the block's warps hold 57856 of 64512 registers");
    let more = "setp.lt.u32 %p1, %r2, 1; @%p1 bra GIVE;\nsetmaxnreg.inc.sync.aligned.u32 256; bra END;
        GIVE: setmaxnreg.dec.sync.aligned.u32 24; END: bar.sync 0;";
    assert!(launch("", 256, more, 100_000).is_ok());
    assert_eq!(deadlock("", 384, more), "the block's warps hold 60416 of 64512 registers");
    assert_eq!(deadlock(".maxnreg 168", 384, &trade(32, 240)), "the block's warps hold 63232 of 64512 registers");
    // Nobody gives up anything.
    let all = "setmaxnreg.inc.sync.aligned.u32 136; bar.sync 0;";
    assert_eq!(deadlock(".maxnreg 128", 128, all), "the block's warps hold 16384 of 16384 registers");
    // Who waits at a barrier gives up nothing either.
    let barrier = "setp.lt.u32 %p1, %r1, 128; @%p1 bra WAIT; setmaxnreg.inc.sync.aligned.u32 240; WAIT: bar.sync 0;";
    assert_eq!(deadlock(".maxnreg 168", 384, barrier), "the block's warps hold 64512 of 64512 registers");
}

#[test]
fn a_cluster_that_stands_still_is_noticed_at_once() {
    // Eight warps wait for an arrival that does not come: the thousands of questions that counted once do not fit the budget.
    let waits = |between: &str| {
        format!(
            "setp.ne.u32 %p1, %r1, 0; @%p1 bra GO; mbarrier.init.shared::cta.b64 [%r3], 1; GO: bar.sync 0; mov.u32 %r7, 0;
             AGAIN: {between} mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r3], 0; @!%p2 bra AGAIN;"
        )
    };
    for between in ["", "add.u32 %r6, %r1, 1;", "mbarrier.test_wait.parity.shared::cta.b64 %p3, [%r3], 0;"] {
        let fault = launch("", 256, &waits(between), 1_000).expect_err(between);
        assert_eq!(fault.kind, FaultKind::Deadlock, "{between}: {fault:?}");
    }
    // One that counts its questions may do something else after so many.
    let counts = "add.u32 %r7, %r7, 1; setp.gt.u32 %p4, %r7, 100; @%p4 ret;";
    assert_eq!(launch("", 256, &waits(counts), 1_000_000).map_err(|fault| fault.to_string()), Ok(()));
    let fault = launch("", 256, &waits("add.u32 %r7, %r7, 1;"), 1_000).unwrap_err();
    assert_eq!(fault.kind, FaultKind::Budget, "{fault:?}");
    let fault = launch("", 256, &waits("add.u32 %r7, %r7, 1;"), 1_000_000).unwrap_err();
    assert_eq!(fault.kind, FaultKind::Deadlock, "{fault:?}");
}
