//! Products of warpgroups: the results of each kernel of `kernels/wgmma.cu`, and the sanitiser's findings in it.

use ptx_sim::{Arg, Asynchrony, Device, DeviceConfig, Fault, FaultKind, LaunchConfig, LaunchError, Module};

const PTX: &str = include_str!("../kernels/wgmma.ptx");
const CU: &str = include_str!("../kernels/wgmma.cu");

/// Elements of A and B: small integers, so that sums are exact.
fn element(seed: usize, at: usize) -> i32 {
    ((at * 7 + seed * 3) % 11) as i32 - 5
}

/// The bits of a small integer in f16.
fn half(value: i32) -> u16 {
    if value == 0 {
        return 0;
    }
    let exponent = value.unsigned_abs().ilog2();
    let fraction = (value.unsigned_abs() << (10 - exponent)) & 0x3ff;
    (u16::from(value < 0) << 15) | (((exponent + 15) << 10) | fraction) as u16
}

/// A (64 × k) · Bᵀ (8 × k), columns `from` to `until` of k.
fn product(k: usize, from: usize, until: usize) -> Vec<f32> {
    let sum = |row: usize, column: usize| -> i32 {
        (from..until).map(|at| element(1, row * k + at) * element(2, column * k + at)).sum()
    };
    (0..64 * 8).map(|at| sum(at / 8, at % 8) as f32).collect()
}

/// Launches a kernel with A and B of `k` columns, and returns the contents of `out`, or the error.
fn launch(kernel: &str, threads: u32, k: usize, more: &[u32], sanitize: bool) -> Result<Vec<f32>, Vec<Fault>> {
    launch_when(Asynchrony::Late, kernel, threads, k, more, sanitize)
}

fn launch_when(
    asynchrony: Asynchrony,
    kernel: &str,
    threads: u32,
    k: usize,
    more: &[u32],
    sanitize: bool,
) -> Result<Vec<f32>, Vec<Fault>> {
    let device = Device::new(DeviceConfig { sanitize, ..Default::default() });
    let module = device.load(&Module::from_ptx(PTX, "wgmma.ptx").unwrap()).unwrap();
    let mut args = Vec::new();
    for (seed, rows) in [(1, 64), (2, 8)] {
        let pointer = device.alloc((rows * k * 2) as u64, "operand").unwrap();
        let bytes: Vec<u8> = (0..rows * k).flat_map(|at| half(element(seed, at)).to_le_bytes()).collect();
        device.write(pointer, &bytes).unwrap();
        args.push(Arg::from(pointer));
    }
    let out = device.alloc(64 * 8 * 4, "out").unwrap();
    device.write(out, &[0; 64 * 8 * 4]).unwrap();
    args.push(Arg::from(out));
    args.extend(more.iter().map(|value| Arg::from(*value)));
    let config = LaunchConfig { block: [threads, 1, 1], budget: Some(20_000_000), asynchrony, ..Default::default() };
    match module.kernel(kernel).unwrap().launch(&config, &args) {
        Ok(_) => {
            let mut bytes = vec![0; 64 * 8 * 4];
            device.read(out, &mut bytes).unwrap();
            Ok(bytes.chunks_exact(4).map(|word| f32::from_le_bytes(word.try_into().unwrap())).collect())
        }
        Err(LaunchError::Findings(findings)) => Err(findings),
        Err(LaunchError::Fault(fault)) => Err(vec![*fault]),
        Err(other) => panic!("{kernel}: {other}"),
    }
}

#[track_caller]
fn computes(kernel: &str, threads: u32, k: usize, more: &[u32], expected: &[f32]) {
    let late = [false, true].map(|sanitize| (Asynchrony::Late, sanitize));
    let sooner = [Asynchrony::Early, Asynchrony::Seeded(1), Asynchrony::Seeded(2)].map(|order| (order, true));
    for (order, sanitize) in late.into_iter().chain(sooner) {
        match launch_when(order, kernel, threads, k, more, sanitize) {
            Ok(found) => assert_eq!(found, expected, "{kernel}, {order:?}, sanitised: {sanitize}"),
            Err(faults) => panic!("{}", faults.iter().map(|fault| fault.render(Some(CU), false)).collect::<String>()),
        }
    }
}

/// Kinds of the sanitiser's findings, and their lines of the source, in order.
fn findings(kernel: &str, threads: u32) -> Vec<(FaultKind, &'static str)> {
    let faults = launch(kernel, threads, 16, &[], true).expect_err(kernel);
    let line = |fault: &Fault| CU.lines().nth(fault.line.unwrap() as usize - 1).unwrap().trim();
    faults.iter().map(|fault| (fault.kind, line(fault))).collect()
}

#[test]
fn right_kernels_are_right() {
    let whole = product(16, 0, 16);
    computes("right", 128, 16, &[], &whole);
    computes("takes_a_from_registers", 128, 16, &[], &whole);
    computes("one_thread_tells", 160, 16, &[], &whole);
    computes("renames_in_flight", 128, 16, &[], &whole.iter().map(|sum| 2.0 * sum).collect::<Vec<_>>());
    let halves = [product(32, 0, 16), product(32, 16, 32)];
    let sums: Vec<f32> = halves[0].iter().zip(&halves[1]).map(|(first, second)| 2.0 * first + second).collect();
    computes("waits_for_one_of_two", 128, 32, &[], &sums);
    computes("keeps_one_under_way", 128, 80, &[5], &product(80, 0, 80));
}

/// Without a wait, or a group to wait for, the accumulators keep their old values: each time.
#[test]
fn what_nobody_waited_for_has_not_happened() {
    for kernel in ["does_not_wait", "does_not_commit"] {
        assert_eq!(launch(kernel, 128, 16, &[], false).unwrap(), vec![0.0; 64 * 8], "{kernel}");
    }
    let overwritten = launch("overwrites_its_tile", 128, 16, &[], false).unwrap();
    let whole = product(16, 0, 16);
    let first_column = |sums: &[f32]| sums.iter().step_by(8).copied().collect::<Vec<_>>();
    assert_ne!(first_column(&overwritten), first_column(&whole));
    assert_eq!(overwritten[1..8], whole[1..8]);
    assert_ne!(launch("overwrites_a", 128, 16, &[], false).unwrap(), whole);
}

/// If products are done at once, the result is there before its wait, in the warp that asks last; the sanitiser still
/// reports it.
#[test]
fn products_may_happen_at_once() {
    let early = launch_when(Asynchrony::Early, "does_not_wait", 128, 16, &[], false).unwrap();
    assert_eq!(early[48 * 8..], product(16, 0, 16)[48 * 8..]);
    let found = launch_when(Asynchrony::Early, "does_not_wait", 128, 16, &[], true).unwrap_err();
    assert_eq!(found[0].kind, FaultKind::RegisterInFlight);
}

#[test]
fn mistakes_with_registers_are_found() {
    assert_eq!(findings("does_not_wait", 128), [(FaultKind::RegisterInFlight, "store(out, d); // too early")]);
    assert_eq!(findings("does_not_commit", 128), [(FaultKind::RegisterInFlight, "store(out, d);")]);
    let writes = "asm volatile(\"cvt.rn.f32.s32 %0, 7;\" : \"+f\"(d[1]));";
    assert_eq!(findings("writes_an_accumulator", 128), [(FaultKind::RegisterInFlight, writes)]);
    let first = findings("does_not_fence", 128);
    assert_eq!(first, [(FaultKind::MissingWgmmaFence, "MULTIPLY(d, at, bt);")]);
    let second = findings("fences_only_once", 128);
    assert_eq!(second, [(FaultKind::MissingWgmmaFence, "MULTIPLY(d, at, bt); // without a fence")]);
    assert_eq!(findings("overwrites_a", 128)[0].0, FaultKind::RegisterInFlight);
}

#[test]
fn mistakes_with_tiles_are_found() {
    let writes = "if (threadIdx.x < 8) tiles[0].b[threadIdx.x] = 0; // it may be read yet";
    // Warp 0 has written when the other warps ask for the product.
    let product = (FaultKind::SharedRace, "MULTIPLY(d, at, bt);");
    assert_eq!(findings("overwrites_its_tile", 128), [(FaultKind::TileInFlight, writes), product]);
    let product = "MULTIPLY(d, at, shifted | 1ull << 62);";
    assert_eq!(findings("begins_within_a_pattern", 128), [(FaultKind::DescriptorAlignment, product)]);
    let product = "MULTIPLY(d, at, bt); // not fenced";
    assert_eq!(findings("does_not_fence_the_proxy", 128), [(FaultKind::MissingProxyFence, product)]);
    let product = "MULTIPLY(d, at, bt); // no barrier";
    // Warp 0 asks for it before the others have written; the others see what they may not.
    let found = findings("does_not_meet_at_a_barrier", 128);
    for kind in [FaultKind::UninitialisedRead, FaultKind::SharedRace] {
        assert!(found.contains(&(kind, product)), "{found:?}");
    }
    let faults = launch("leaves_shared_memory", 128, 16, &[], false).unwrap_err();
    assert_eq!(faults[0].kind, FaultKind::OutOfBounds);
    assert!(faults[0].message.contains("B outside shared memory: column 0, k = 0"), "{}", faults[0]);
}

#[test]
fn a_warpgroup_executes_wgmma_alike() {
    for (kernel, threads, says) in [
        ("warps_differ", 256, "the warps of a warpgroup give a wgmma.mma_async different descriptors of A"),
        ("lanes_differ", 128, "the descriptor of B is not the same in all lanes"),
        ("one_warp_alone", 128, "a wait for wgmma.mma_async that other warps of the warpgroup never execute"),
        ("right", 96, "wgmma in a warpgroup that is not whole: the block has 96 threads"),
        ("right", 120, "wgmma in a warpgroup that is not whole: the block has 120 threads"),
    ] {
        let faults = launch(kernel, threads, 16, &[], false).expect_err(kernel);
        assert_eq!(faults[0].kind, FaultKind::InvalidWgmma, "{}", faults[0]);
        assert!(faults[0].message.starts_with(says), "{}", faults[0]);
    }
}

/// Endless work is stopped: products that are never waited for, and waits without end.
#[test]
fn endless_products_are_stopped() {
    let names = (0..128).map(|at| format!("%f{at}")).collect::<Vec<_>>().join(", ");
    for (after, expected) in [
        ("", FaultKind::InvalidWgmma),
        ("wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;", FaultKind::Budget),
    ] {
        let ptx = format!(
            ".version 8.4\n.target sm_90a\n.address_size 64\n.visible .entry k() {{\n.reg .f32 %f<128>; .reg .b64 %rd<2>;\n\
             .shared .align 1024 .b8 tile[16384];\nmov.u64 %rd1, tile;\nshr.u64 %rd1, %rd1, 4;\nwgmma.fence.sync.aligned;\n\
             again:\nwgmma.mma_async.sync.aligned.m64n256k16.f32.f16.f16 {{{names}}}, %rd1, %rd1, 1, 1, 1, 0, 0;\n{after}\n\
             bra again;\n}}\n"
        );
        let device = Device::new(Default::default());
        let module = device.load(&Module::from_ptx(&ptx, "k.ptx").unwrap()).unwrap();
        let config =
            LaunchConfig { grid: [64, 1, 1], block: [1024, 1, 1], budget: Some(200_000), ..Default::default() };
        match module.kernel("k").unwrap().launch(&config, &[]) {
            Err(LaunchError::Fault(fault)) => assert_eq!(fault.kind, expected, "{fault}"),
            other => panic!("{other:?}"),
        }
    }
}

/// A warpgroup multiplies, and another warp writes to the tile afterwards; `tells` is the warpgroup's code after the product,
/// `asks` the warp's code before its write.
fn reuse(tells: &str, asks: &str) -> Vec<Fault> {
    let ptx = format!(
        ".version 8.6\n.target sm_90a\n.address_size 64\n.visible .entry k() {{\n\
         .reg .b32 %r<9>; .reg .f32 %f<4>; .reg .pred %p<9>; .reg .b64 %rd<3>;\n\
         .shared .align 1024 .b8 tile[4096]; .shared .align 8 .b64 empty;\n\
         mov.u32 %r1, %tid.x; mov.u32 %r2, tile; mov.u32 %r3, empty; shl.b32 %r4, %r1, 4; add.u32 %r4, %r2, %r4;\n\
         setp.ne.u32 %p1, %r1, 0; @%p1 bra FILL; mbarrier.init.shared::cta.b64 [%r3], 1;\n\
         FILL: mov.b32 %r5, 0; st.shared.v4.b32 [%r4], {{%r5, %r5, %r5, %r5}}; fence.proxy.async.shared::cta; bar.sync 0;\n\
         setp.ge.u32 %p2, %r1, 128; @%p2 bra OTHER;\n\
         cvt.u64.u32 %rd1, %r2; shr.u64 %rd1, %rd1, 4; or.b64 %rd1, %rd1, 0x1000080000;\n\
         mov.f32 %f0, 0f00000000; mov.f32 %f1, 0f00000000; mov.f32 %f2, 0f00000000; mov.f32 %f3, 0f00000000;\n\
         wgmma.fence.sync.aligned;\n\
         wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {{%f0, %f1, %f2, %f3}}, %rd1, %rd1, 0, 1, 1, 0, 0;\n\
         wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;\n{tells}\nret;\n\
         OTHER: mov.u32 %r6, 3000; LATER: sub.u32 %r6, %r6, 1; setp.ne.u32 %p3, %r6, 0; @%p3 bra LATER;\n{asks}\n\
         sub.u32 %r4, %r4, 2048; st.shared.b32 [%r4], %r1;\nret;\n}}\n"
    );
    let device = Device::new(DeviceConfig { sanitize: true, ..Default::default() });
    let module = device.load(&Module::from_ptx(&ptx, "k.ptx").unwrap()).unwrap();
    let config = LaunchConfig { block: [160, 1, 1], budget: Some(1_000_000), ..Default::default() };
    match module.kernel("k").unwrap().launch(&config, &[]) {
        Ok(_) => Vec::new(),
        Err(LaunchError::Findings(findings)) => findings,
        Err(other) => panic!("{other}"),
    }
}

#[test]
fn what_a_product_has_read_is_written_again_when_told_so() {
    let asks = "W: mbarrier.try_wait.parity.shared::cta.b64 %p4, [%r3], 0; @!%p4 bra W;";
    // Any thread of the warpgroup may tell, of any of its warps.
    for teller in [0, 5, 37, 127] {
        let tells = format!("setp.eq.u32 %p5, %r1, {teller}; @%p5 mbarrier.arrive.shared::cta.b64 _, [%r3];");
        let findings = reuse(&tells, asks);
        assert!(findings.is_empty(), "{findings:?}");
    }
    let meets = reuse("bar.sync 1, 160;", "bar.sync 1, 160;");
    assert!(meets.is_empty(), "{meets:?}");
    // Its own threads have waited for it.
    let own = reuse("st.shared.b32 [%r4], %r1;", "ret;");
    assert!(own.is_empty(), "{own:?}");
    // Nobody told the other warp.
    let findings = reuse("", "");
    assert_eq!(findings.len(), 1, "{findings:?}");
    assert_eq!(findings[0].kind, FaultKind::SharedRace);
    assert_eq!(findings[0].other.as_ref().unwrap().what, "wgmma.mma_async");
}
