//! Speed of the simulator, in lane-instructions per second: matrix products, a vector addition, reductions by shuffles, half
//! precision and tensor cores, on one worker and on all of them, and on one worker with a profiler and with a sanitiser.
//!
//! `cargo bench -p ptx-sim --bench tiled`

use std::hint::black_box;
use std::time::Duration;

use criterion::{Criterion, SamplingMode, Throughput, criterion_group, criterion_main};
use ptx_sim::{Arg, Device, DeviceConfig, DevicePtr, Kernel, LaunchConfig, LaunchReport, Module, Observe};

const PTX: &str = include_str!("kernels.ptx");
/// Rows and columns of the matrices.
const N: u32 = 256;
const TILE: u32 = 32;
/// Elements of the vectors.
const LENGTH: u32 = 1 << 20;

/// A kernel with its arguments.
struct Case {
    name: &'static str,
    kernel: Kernel,
    config: LaunchConfig,
    args: Vec<Arg>,
}

impl Case {
    fn launch(&self, observe: &Observe) -> LaunchReport {
        self.kernel.observe(&self.config, &self.args, observe).expect("the kernel is right").report
    }
}

/// A buffer of distinct small values.
fn buffer(device: &Device, elements: u32) -> DevicePtr {
    let bytes: Vec<u8> = (0..elements).flat_map(|at| ((at % 1021) as f32 / 64.0 - 7.0).to_le_bytes()).collect();
    let pointer = device.alloc(bytes.len() as u64, "buffer").expect("it fits");
    device.write(pointer, &bytes).expect("it was just allocated");
    pointer
}

fn cases(device: &Device) -> [Case; 7] {
    let module = Module::from_ptx(PTX, "kernels.ptx").expect("it is valid PTX");
    let module = device.load(&module).expect("it fits");
    let case = |name, elements, last: Arg, grid, block| {
        let mut args: Vec<Arg> = (0..3).map(|_| buffer(device, elements).into()).collect();
        args.push(last);
        let kernel = module.kernel(name).expect("the simulator knows its instructions");
        Case { name, kernel, config: LaunchConfig { grid, block, ..Default::default() }, args }
    };
    [
        case("tiled", N * N, (N as i32).into(), [N / TILE, N / TILE, 1], [TILE, TILE, 1]),
        case("vector_add", LENGTH, LENGTH.into(), [LENGTH / 256, 1, 1], [256, 1, 1]),
        case("naive", N * N, (N as i32).into(), [N / 16, N / 16, 1], [16, 16, 1]),
        case("registers", N * N, (N as i32).into(), [N / 64, N / 64, 1], [256, 1, 1]),
        case("softmax", N * N, (N as i32).into(), [N / 4, 1, 1], [128, 1, 1]),
        case("halves", N * N, (N * N).into(), [32, 1, 1], [256, 1, 1]),
        case("tensor", N * N, (N as i32).into(), [64, 1, 1], [32, 1, 1]),
    ]
}

fn rates(criterion: &mut Criterion) {
    for (name, workers, profile, sanitize) in [
        ("one worker", 1, false, false),
        ("all workers", 0, false, false),
        ("profiled", 1, true, false),
        ("sanitised", 1, false, true),
    ] {
        let device = Device::new(DeviceConfig { workers, sanitize, ..Default::default() });
        let observe = Observe { profile, ..Observe::default() };
        let mut group = criterion.benchmark_group(name);
        group.sampling_mode(SamplingMode::Flat);
        for case in &cases(&device) {
            group.throughput(Throughput::Elements(case.launch(&observe).lane_instructions));
            group.bench_function(case.name, |bencher| bencher.iter(|| black_box(case.launch(&observe))));
        }
        group.finish();
    }
}

criterion_group! {
    name = benches;
    config = Criterion::default().sample_size(15).warm_up_time(Duration::from_millis(500)).measurement_time(Duration::from_secs(3));
    targets = rates
}
criterion_main!(benches);
