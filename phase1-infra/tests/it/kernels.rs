//! The kernels against f64 references, on both devices, at sizes around a warp's, a block's and a grid's.

use std::path::Path;

use common::check::{Tolerance, assert_close};
use common::device_test;
use common::prelude::*;
use common::reference;
use phase1_infra::step04_vector_add::{self, vector_add};
use phase1_infra::step05_grid_stride::{self, grid_stride_add};
use phase1_infra::step06_launch_overhead::{self, empty};
use phase1_infra::step07_streams::{self, iterate, iterate_reference, iterate_tolerance};
use phase1_infra::step11_latency_hiding::{
    self as latency_hiding, PER_THREAD, Residency, add_up, add_up_reference, multiply_add, multiply_add_reference,
};

const SIZES: [usize; 9] = [0, 1, 31, 32, 33, 255, 256, 257, 100_003];

/// Two vectors of distinct values.
fn operands(n: usize) -> Result<(Vec<f32>, Vec<f32>)> {
    Ok((Tensor::random(&[n], 1).into_vec()?, Tensor::random(&[n], 2).into_vec()?))
}

device_test! {
    fn vector_add_is_right_at_every_size(device) {
        for n in SIZES {
            let (a, b) = operands(n)?;
            let expected = reference::vector_add(&a, &b)?;
            assert_close(&step04_vector_add::add_on(&device, &a, &b)?, &expected.values, expected.tolerance());
        }
        Ok(())
    }

    fn grid_stride_add_is_right_for_any_grid(device) {
        let stream = device.stream();
        let kernel = device.kernel(&step05_grid_stride::SOURCE, "grid_stride_add")?;
        for n in SIZES {
            let (a, b) = operands(n)?;
            let expected = reference::vector_add(&a, &b)?;
            let (a, b) = (stream.clone_htod(&a)?, stream.clone_htod(&b)?);
            // One block, a few counts that do not divide n, and more than there is work for.
            for blocks in [1, 3, 7, u32::MAX] {
                let mut c = stream.alloc_poisoned::<f32>(n)?;
                grid_stride_add(&stream, &kernel, blocks, &a, &b, &mut c)?;
                assert_close(&stream.clone_dtoh(&c)?, &expected.values, expected.tolerance());
            }
        }
        Ok(())
    }

    /// Factors with which every step changes every chain: x ↦ 0.75·x + 0.5 shrinks errors, so the total is less than four times a
    /// step's error, which is half a unit in the last place of at most 1100.
    fn chains_do_the_steps_that_they_are_told(device) {
        let stream = device.stream();
        for chains in PER_THREAD {
            let kernel = device.kernel(&latency_hiding::CHAINS, &format!("chains_{chains}"))?;
            for (blocks, threads, rounds) in [(1, 1, 0), (1, 1, 1), (3, 33, 2), (2, 128, 3)] {
                let config = LaunchConfig { grid_dim: (blocks, 1, 1), block_dim: (threads, 1, 1), shared_mem_bytes: 0 };
                let mut out = stream.alloc_poisoned::<f32>((blocks * threads) as usize)?;
                multiply_add(&stream, &kernel, config, [0.75, 0.5], rounds, &mut out)?;
                let expected = multiply_add_reference(threads, chains, [0.75, 0.5], rounds).repeat(blocks as usize);
                // Errors of each chain, and of the sum of all.
                let terms = (4 * chains + chains * chains) as usize;
                assert_close(&stream.clone_dtoh(&out)?, &expected, Tolerance::elementwise(terms, 1100.0));
                let error = multiply_add(&stream, &kernel, LaunchConfig::linear(7, 1), [1.0; 2], 1, &mut out);
                assert!(error.unwrap_err().to_string().contains("7 threads and"));
            }
        }
        Ok(())
    }

    fn loads_add_up_every_element_once(device) {
        let stream = device.stream();
        for loads in PER_THREAD {
            let kernel = device.kernel(&latency_hiding::LOADS, &format!("loads_{loads}"))?;
            for n in SIZES {
                // Whole numbers, whose sums are exact: at most 7 · 100 003 < 2²⁴.
                let x: Vec<f32> = (0..n).map(|i| ((i * 5 + i / 7) % 8) as f32).collect();
                let x_dev = stream.clone_htod(&x)?;
                for (blocks, threads) in [(1, 1), (1, 33), (3, 128)] {
                    let config = LaunchConfig { grid_dim: (blocks, 1, 1), block_dim: (threads, 1, 1), shared_mem_bytes: 0 };
                    let mut out = stream.alloc_poisoned::<f32>((blocks * threads) as usize)?;
                    add_up(&stream, &kernel, config, loads, &x_dev, &mut out)?;
                    let expected = add_up_reference((blocks * threads) as usize, &x);
                    assert_close(&stream.clone_dtoh(&out)?, &expected, Tolerance::exact());
                }
            }
        }
        Ok(())
    }

    /// The kernels take n from the buffers, so the guard element has to lie after a view; the launch is written out by hand.
    fn nothing_is_written_behind_the_end(device) {
        let stream = device.stream();
        let sources = [(&step04_vector_add::SOURCE, "vector_add"), (&step05_grid_stride::SOURCE, "grid_stride_add")];
        for (source, name) in sources {
            let kernel = device.kernel(source, name)?;
            for n in SIZES {
                let zeros = stream.alloc_zeros::<f32>(n)?;
                let mut c = stream.alloc_poisoned::<f32>(n + 300)?;
                let count = n as u32;
                // SAFETY: the kernel compares its index with n; the buffers hold n elements or more.
                unsafe {
                    stream
                        .launch_builder(&kernel)
                        .arg(&zeros)
                        .arg(&zeros)
                        .arg(&mut c)
                        .arg(&count)
                        .launch(LaunchConfig::for_threads(count))?;
                }
                let c = stream.clone_dtoh(&c)?;
                assert!(c[..n].iter().all(|&value| value == 0.0), "{name}, n = {n}");
                assert!(c[n..].iter().all(|value| value.is_nan()), "{name} wrote behind n = {n}");
            }
        }
        Ok(())
    }

    fn iterate_does_the_rounds_it_is_told(device) {
        let stream = device.stream();
        let kernel = device.kernel(&step07_streams::SOURCE, "iterate")?;
        for n in SIZES {
            let x = Tensor::random(&[n], 3).into_vec()?;
            for rounds in [0, 1, 2, 5, 64] {
                let mut values = stream.clone_htod(&x)?;
                iterate(&stream, &kernel, &mut values, rounds)?;
                assert_close(&stream.clone_dtoh(&values)?, &iterate_reference(&x, rounds), iterate_tolerance());
            }
        }
        Ok(())
    }

    fn the_empty_kernel_runs(device) {
        let stream = device.stream();
        empty(&stream, &device.kernel(&step06_launch_overhead::SOURCE, "empty")?)?;
        stream.synchronize()?;
        if let Some(counts) = device.counts() {
            assert_eq!((counts.launches, counts.warp_instructions), (1, 1));
        }
        Ok(())
    }

    fn lengths_that_differ_and_grids_without_blocks_are_refused(device) {
        let stream = device.stream();
        let kernel = device.kernel(&step04_vector_add::SOURCE, "vector_add")?;
        let four = stream.alloc_zeros::<f32>(4)?;
        let mut five = stream.alloc_zeros::<f32>(5)?;
        let error = vector_add(&stream, &kernel, &four, &four, &mut five).unwrap_err();
        assert_eq!(error.to_string(), "vector_add: buffers of [4, 4, 5] elements, all must be equal");

        let kernel = device.kernel(&step05_grid_stride::SOURCE, "grid_stride_add")?;
        let mut c = stream.alloc_zeros::<f32>(4)?;
        let error = grid_stride_add(&stream, &kernel, 0, &four, &four, &mut c).unwrap_err();
        assert!(matches!(error, Error::LaunchConfig { .. }), "{error}");
        Ok(())
    }
}

/// Values of −1 to 1 in an iteration with the factor −½: if a round were skipped, the difference would far exceed the
/// tolerance.
#[test]
fn the_tolerance_of_iterate_tells_rounds_apart() {
    let x = [1.0f32, -0.5];
    for rounds in 0..6 {
        let (now, next) = (iterate_reference(&x, rounds), iterate_reference(&x, rounds + 1));
        assert!(common::check::compare(&now, &next, iterate_tolerance()).is_err(), "{rounds}");
    }
}

/// On every architecture: as many blocks as are launched fit, and shared memory is why no more do.
#[test]
fn shared_memory_sets_the_number_of_warps() {
    use common::ptx_sim::{Limiter, Limits, Occupancy};
    for name in Limits::known() {
        let limits = Limits::of(&name).unwrap();
        for warps in latency_hiding::WARPS {
            let Some(Residency { threads, blocks, shared_bytes }) = Residency::of(&limits, warps) else {
                assert!(32 * warps > limits.threads, "{name}, {warps}");
                continue;
            };
            assert_eq!(threads * blocks, 32 * warps);
            let found = Occupancy::of(&limits, threads, shared_bytes, Some(32));
            assert_eq!((found.blocks, found.warps), (blocks, warps), "{name}");
            let is_full = warps * 32 == limits.threads || blocks == limits.blocks;
            assert!(is_full || found.limiter == Limiter::SharedMemory, "{name}, {warps}: {found:?}");
        }
    }
}

/// `cuda/vector_add.cu` is the same program as step 4, as others write it.
#[test]
fn the_program_in_cuda_has_the_kernel_of_the_course() {
    let kernel = |file: &str| {
        let text = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(file)).unwrap();
        let kernel = text.split("// ANCHOR: kernel\n").nth(1).and_then(|rest| rest.split("// ANCHOR_END").next());
        let lines = kernel.unwrap().replace("extern \"C\" ", "");
        let code = lines.lines().map(|line| line.split(" //").next().unwrap_or_default().to_owned());
        code.collect::<Vec<_>>()
    };
    assert_eq!(kernel("cuda/vector_add.cu"), kernel("kernels/01_vector_add.cu"));
}
