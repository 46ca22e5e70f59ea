//! Times each step of every ladder on the simulator: how long a reader without a GPU waits. Rates are in elements of the result,
//! so that the steps of a ladder compare.
//!
//! `cargo bench -p phase2-conv-bn --bench simulator`

use std::time::Duration;

use common::prelude::*;
use criterion::{Criterion, SamplingMode, Throughput, criterion_group, criterion_main};
use phase2_conv_bn::gemm::{self, Epilogue, Layout};
use phase2_conv_bn::norm::{relu, statistics};

fn ladders(criterion: &mut Criterion) {
    let device = Device::sim();
    let stream = device.stream();
    let on_device = |shape: &[usize], seed| Tensor::random(shape, seed).to_device(&device).expect("it fits");
    let empty = |shape: &[usize]| Tensor::empty_on(&device, shape).expect("it fits");

    const N: usize = 128;
    let mut group = criterion.benchmark_group("gemm 128x128x128");
    group.sampling_mode(SamplingMode::Flat).sample_size(10).measurement_time(Duration::from_secs(3));
    group.throughput(Throughput::Elements((N * N) as u64));
    let (a, b, mut c) = (on_device(&[N, N], 1), on_device(&[N, N], 2), empty(&[N, N]));
    for step in gemm::LADDER {
        let gemm = step.load(&device).expect("the kernels are shipped");
        group.bench_function(format!("{:02} {}", step.number, step.name), |bencher| {
            bencher.iter(|| {
                gemm.launch(&stream, &a, &b, Layout::RowMajor, &Epilogue::default(), &mut c).expect("it runs")
            });
        });
    }
    group.finish();

    let shape = [4, 16, 64, 64];
    let mut group = criterion.benchmark_group("ReLU and statistics 4x16x64x64");
    group.sampling_mode(SamplingMode::Flat).sample_size(10).measurement_time(Duration::from_secs(3));
    group.throughput(Throughput::Elements(shape.iter().product::<usize>() as u64));
    let (mut x, mut mean, mut variance) = (on_device(&shape, 3), empty(&[16]), empty(&[16]));
    for step in relu::LADDER {
        let relu = step.load(&device).expect("the kernels are shipped");
        group.bench_function(format!("ReLU {:02} {}", step.number, step.name), |bencher| {
            bencher.iter(|| relu.launch_in_place(&stream, &mut x).expect("it runs"));
        });
    }
    for step in statistics::LADDER {
        let mut statistics = step.load(&device).expect("the kernels are shipped");
        group.bench_function(format!("statistics {:02} {}", step.number, step.name), |bencher| {
            bencher.iter(|| statistics.launch(&stream, &x, &mut mean, &mut variance).expect("it runs"));
        });
    }
    group.finish();
}

criterion_group!(benches, ladders);
criterion_main!(benches);
