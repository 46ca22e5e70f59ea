//! Bulk copies: data and times of arrival, in every order that PTX allows, and the sanitiser's findings in wrong kernels.

mod boxes;
mod copies;
mod wrong;

use ptx_sim::{
    Arg, Asynchrony, Device, DeviceConfig, DevicePtr, Fault, FaultKind, LaunchConfig, LaunchError, MemoryError, Module,
    TensorElement, TensorMap, TensorMapDescriptor,
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

/// Launches it with `input` (if it is empty, `in` has 4096 bytes that were never written) and a map, of `in` or `out`; returns
/// the bytes of `out`, which were 0xaa.
fn launch_with(
    run: Run,
    body: &str,
    input: &[u8],
    bytes_out: u64,
    map: impl FnOnce([DevicePtr; 2]) -> TensorMapDescriptor,
) -> Result<Vec<u8>, Vec<Fault>> {
    let device = Device::new(DeviceConfig { sanitize: run.sanitize, ..Default::default() });
    let module = device.load(&module(body)).expect("a module");
    let from = device.alloc(if input.is_empty() { 4096 } else { input.len() as u64 }, "in").expect("memory");
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
    match device.read(to, &mut out) {
        Err(MemoryError::Undefined(findings)) => Err(findings),
        read => Ok(read.map(|()| out).expect("in bounds")),
    }
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
    faults.iter().map(|fault| crate::unbroken(&fault.render(None, false)) + "\n").collect()
}

/// Expects a fault of that kind with that text, from a sanitiser.
#[track_caller]
fn finds(body: &str, kind: FaultKind, text: &str) -> Vec<Fault> {
    let faults = launch(WATCHED, body, &numbers(4096), 512).expect_err("the kernel is wrong");
    let all = rendered(&faults);
    assert!(faults[0].kind == kind && all.contains(text), "{all}");
    faults
}
