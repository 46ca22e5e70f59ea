//! Times the CPU's versions: the naive loops on one thread, as the story's baseline has them, against the careful implementation
//! on every core. Sizes are small, so that the naive loops finish.
//!
//! `cargo bench -p phase2-conv-bn --bench cpu`

use std::hint::black_box;
use std::time::Duration;

use common::prelude::*;
use common::reference::{self, BatchNorm, Conv2dParams};
use common::{Result, cpu};
use criterion::{Criterion, SamplingMode, Throughput, criterion_group, criterion_main};

/// A group with a naive row on one thread and a fast row on all of them; `operations` of one run give the rate.
fn compare<T>(
    criterion: &mut Criterion,
    name: &str,
    operations: usize,
    naive: impl Fn() -> Result<Tensor> + Sync,
    mut fast: impl FnMut() -> Result<T>,
) {
    let one = rayon::ThreadPoolBuilder::new().num_threads(1).build().expect("a thread");
    let mut group = criterion.benchmark_group(name);
    group.sampling_mode(SamplingMode::Flat).sample_size(10);
    group.warm_up_time(Duration::from_millis(500)).measurement_time(Duration::from_secs(3));
    group.throughput(Throughput::Elements(operations as u64));
    group.bench_function("naive, one thread", |bencher| {
        one.install(|| bencher.iter(|| black_box(naive().expect("the shapes fit"))));
    });
    group.bench_function("fast", |bencher| bencher.iter(|| black_box(fast().expect("the shapes fit"))));
    group.finish();
}

fn layers(criterion: &mut Criterion) {
    let [batch, inputs, outputs] = [256, 256, 512];
    let (x, weight) = (Tensor::random(&[batch, inputs], 1), Tensor::random(&[outputs, inputs], 2));
    let bias = Tensor::random(&[outputs], 3);
    compare(
        criterion,
        "linear_relu 256x256x512",
        2 * batch * inputs * outputs,
        || reference::linear_relu_f32(&x, &weight, &bias),
        || cpu::linear_relu(&x, &weight, &bias),
    );

    let (image, window) = (Tensor::random(&[1, 32, 56, 56], 4), Tensor::random(&[32, 32, 3, 3], 5));
    let params = Conv2dParams::new(1, 1);
    compare(
        criterion,
        "conv2d 3x3, 32 to 32 channels at 56x56",
        2 * image.len() * window.len() / 32,
        || reference::conv2d_f32(&image, &window, None, params),
        || cpu::conv2d(&image, &window, None, params),
    );

    let planes = Tensor::random(&[4, 64, 56, 56], 6);
    let [gamma, beta, mean] = [7, 8, 9].map(|seed| Tensor::random(&[64], seed));
    let variance = Tensor::full(&[64], 2.0);
    let norm = BatchNorm { weight: &gamma, bias: &beta, mean: &mean, variance: &variance, eps: 1e-5 };
    compare(
        criterion,
        "batch_norm 4x64x56x56",
        2 * planes.len(),
        || reference::batch_norm_f32(&planes, &norm),
        || cpu::batch_norm(&planes, &norm),
    );
    // In place: all runs but the first clip what is clipped already, by the same reads and writes.
    let mut clipped = planes.to_host().expect("it is on the host");
    let relu = || cpu::relu_in_place(&mut clipped);
    compare(criterion, "relu 4x64x56x56", planes.len(), || reference::relu_f32(&planes), relu);
}

criterion_group!(benches, layers);
criterion_main!(benches);
