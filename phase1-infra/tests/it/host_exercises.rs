//! The judges of `examples/`, judged by right and wrong answers.

use common::device::Graph;
use common::prelude::*;
use phase1_infra::host_exercises::Verdict;
use phase1_infra::host_exercises::benchmark::{self, INPUTS, PretendGpu};
use phase1_infra::host_exercises::graph::{self, Kernels, Memory};
use phase1_infra::host_exercises::occupancy;
use phase1_infra::host_exercises::overlap::{self, Chunk, ROUNDS};
use phase1_infra::step04_vector_add::vector_add;
use phase1_infra::step07_streams::iterate;

/// Fails unless the answer is wrong for a reason that holds these words.
fn wrong(verdict: Verdict, words: &str) {
    let missing = verdict.missing.expect("the answer is wrong");
    assert!(missing.contains(words), "`{words}` is not in: {missing}");
}

// ANCHOR: overlap
fn a_stream_for_each_buffer(
    main: &Stream,
    kernel: &Kernel,
    chunks: &mut [Chunk],
    buffers: &mut [Buffer<f32>; 3],
) -> Result<()> {
    let streams = [main.fork()?, main.fork()?, main.fork()?];
    for (i, chunk) in chunks.iter_mut().enumerate() {
        // A buffer is used again on its own stream, so after the copy out of what it held.
        let (stream, buffer) = (&streams[i % 3], &mut buffers[i % 3]);
        stream.memcpy_htod(&chunk.input, buffer)?;
        iterate(stream, kernel, buffer, ROUNDS)?;
        stream.memcpy_dtoh(buffer, &mut chunk.output)?;
    }
    streams.iter().try_for_each(|stream| main.join(stream))
}
// ANCHOR_END: overlap

#[derive(Clone, Copy, Default)]
struct Omissions {
    copied: bool,
    computed: bool,
    reused: bool,
    joined: bool,
}

/// A stream for each engine, and events between them, but for the omitted ones.
fn a_stream_for_each_engine(
    main: &Stream,
    kernel: &Kernel,
    chunks: &mut [Chunk],
    buffers: &mut [Buffer<f32>; 3],
    omitted: Omissions,
) -> Result<()> {
    let [copy_in, compute, copy_out] = [main.fork()?, main.fork()?, main.fork()?];
    let mut free = Vec::new();
    for (i, chunk) in chunks.iter_mut().enumerate() {
        let buffer = &mut buffers[i % 3];
        if i >= 3 && !omitted.reused {
            copy_in.wait(&free[i - 3])?;
        }
        copy_in.memcpy_htod(&chunk.input, buffer)?;
        if !omitted.copied {
            compute.join(&copy_in)?;
        }
        iterate(&compute, kernel, buffer, ROUNDS)?;
        if !omitted.computed {
            copy_out.join(&compute)?;
        }
        copy_out.memcpy_dtoh(buffer, &mut chunk.output)?;
        free.push(copy_out.record_event()?);
    }
    if !omitted.joined {
        main.join(&copy_out)?;
    }
    Ok(())
}

#[test]
fn overlap_takes_three_streams_and_their_events() {
    assert_eq!(overlap::judge(a_stream_for_each_buffer).unwrap().missing, None);
    let engines = |omitted| {
        overlap::judge(|main, kernel, chunks, buffers| a_stream_for_each_engine(main, kernel, chunks, buffers, omitted))
            .unwrap()
    };
    let right = engines(Omissions::default());
    assert_eq!(
        right.to_string(),
        "copy in  01234567··\nkernel   ·01234567·\ncopy out ··01234567\n10 units; 10 are possible\n\nRight.\n"
    );
    wrong(
        engines(Omissions { copied: true, ..Omissions::default() }),
        "what the copy to the device on stream 1 writes",
    );
    wrong(engines(Omissions { computed: true, ..Omissions::default() }), "what kernel `iterate` on stream 2 writes");
    wrong(engines(Omissions { reused: true, ..Omissions::default() }), "the copy to the device on stream 1 writes");
    wrong(engines(Omissions { joined: true, ..Omissions::default() }), "Work that `main` does next is not ordered");
}

#[test]
fn overlap_is_not_had_by_one_stream_or_by_waiting() {
    let one_stream = overlap::judge(|main, kernel, chunks, [first, ..]| {
        for chunk in chunks {
            main.memcpy_htod(&chunk.input, first)?;
            iterate(main, kernel, first, ROUNDS)?;
            main.memcpy_dtoh(first, &mut chunk.output)?;
        }
        Ok(())
    });
    assert_eq!(one_stream.unwrap().to_string(), include_str!("host_exercises/overlap.txt"));
    let host_waits = overlap::judge(|main, kernel, chunks, buffers| {
        chunks.chunks_mut(1).try_for_each(|chunk| {
            a_stream_for_each_buffer(main, kernel, chunk, buffers)?;
            main.synchronize()
        })
    });
    wrong(host_waits.unwrap(), "nothing overlaps");
    let two_streams = overlap::judge(|main, kernel, chunks, buffers| {
        let streams = [main.fork()?, main.fork()?];
        for (i, chunk) in chunks.iter_mut().enumerate() {
            let (stream, buffer) = (&streams[i % 2], &mut buffers[i % 2]);
            stream.memcpy_htod(&chunk.input, buffer)?;
            iterate(stream, kernel, buffer, ROUNDS)?;
            stream.memcpy_dtoh(buffer, &mut chunk.output)?;
        }
        streams.iter().try_for_each(|stream| main.join(stream))
    });
    wrong(two_streams.unwrap(), "engines stand idle");
    let nothing = overlap::judge(|_, _, _, _| Ok(()));
    wrong(nothing.unwrap(), "chunk 0 is wrong");
}

// ANCHOR: graph
fn a_branch_for_each_part(stream: &Stream, kernels: &Kernels, memory: &mut Memory) -> Result<Graph> {
    let Memory { parts, pairs, total } = memory;
    stream.capture(|stream| {
        let branches = [stream.fork()?, stream.fork()?, stream.fork()?, stream.fork()?];
        for (branch, part) in branches.iter().zip(&mut *parts) {
            iterate(branch, &kernels.iterate, part, ROUNDS)?;
        }
        branches[0].join(&branches[1])?;
        vector_add(&branches[0], &kernels.add, &parts[0], &parts[1], &mut pairs[0])?;
        branches[2].join(&branches[3])?;
        vector_add(&branches[2], &kernels.add, &parts[2], &parts[3], &mut pairs[1])?;
        stream.join(&branches[0])?;
        stream.join(&branches[2])?;
        vector_add(stream, &kernels.add, &pairs[0], &pairs[1], total)
    })
}
// ANCHOR_END: graph

#[test]
fn graphs_need_their_branches_and_joins() {
    let right = graph::judge(a_branch_for_each_part).unwrap();
    assert_eq!(right.to_string(), "7 kernels, at most 3 one after another\n\nRight.\n");

    // Each way leaves out one thing.
    let with = |forks: usize, pair: bool, total: bool| {
        graph::judge(|stream, kernels, Memory { parts, pairs, total: sum }| {
            stream.capture(|stream| {
                let forked = (0..forks).map(|_| stream.fork()).collect::<Result<Vec<_>>>()?;
                let branch = |i: usize| forked.get(i).unwrap_or(stream);
                for (i, part) in parts.iter_mut().enumerate() {
                    iterate(branch(i), &kernels.iterate, part, ROUNDS)?;
                }
                for (i, sums) in pairs.iter_mut().enumerate() {
                    if pair {
                        branch(2 * i).join(branch(2 * i + 1))?;
                    }
                    vector_add(branch(2 * i), &kernels.add, &parts[2 * i], &parts[2 * i + 1], sums)?;
                }
                if total {
                    forked.iter().try_for_each(|branch| stream.join(branch))?;
                }
                vector_add(stream, &kernels.add, &pairs[0], &pairs[1], sum)
            })
        })
        .unwrap()
    };
    assert_eq!(with(4, true, true).missing, None);
    assert_eq!(with(0, true, true).to_string(), include_str!("host_exercises/graph.txt"));
    wrong(with(4, false, true), "nothing orders the two");
    wrong(with(4, true, false), "was not joined");
    let half = graph::judge(|stream, kernels, memory| {
        stream.capture(|stream| iterate(stream, &kernels.iterate, &mut memory.parts[0], ROUNDS))
    });
    wrong(half.unwrap(), "Launch 1 leaves a wrong total");
    let copies = graph::judge(|stream, _, memory| {
        stream.capture(|stream| stream.memcpy_htod(&[0.0; 1001][..], &mut memory.parts[0]))
    });
    wrong(copies.unwrap(), "the graph would copy whenever it is launched");
}

// ANCHOR: benchmark
fn marks_between_queued_launches(gpu: &mut PretendGpu) -> f64 {
    // The clocks rise, and the queue is never empty from here on: a launch takes the host 3 µs, the GPU longer.
    (0..20).for_each(|run| gpu.launch(run));
    let mut marks = vec![gpu.record_event()];
    for run in 0..100 {
        gpu.launch(run); // another input each time: none is still in the L2
        marks.push(gpu.record_event());
    }
    gpu.synchronize();
    let mut times: Vec<f64> = marks.windows(2).map(|pair| gpu.elapsed_us(pair[0], pair[1])).collect();
    times.sort_by(f64::total_cmp);
    times[times.len() / 2] // the median: disturbances are rare
}
// ANCHOR_END: benchmark

#[test]
fn benchmarks_have_to_avoid_each_mistake() {
    let right = benchmark::judge(marks_between_queued_launches);
    assert_eq!(right.missing, None, "{}", right.seen);

    let measure = |warm_up: usize, runs: usize, inputs: usize, waits: bool, mean: bool| {
        benchmark::judge(|gpu| {
            (0..warm_up).for_each(|run| gpu.launch(run % inputs));
            let mut times: Vec<f64> = Vec::new();
            let mut marks = vec![gpu.record_event()];
            for run in 0..runs {
                gpu.launch(run % inputs);
                marks.push(gpu.record_event());
                if waits {
                    gpu.synchronize();
                    marks.push(gpu.record_event());
                }
            }
            gpu.synchronize();
            let step = if waits { 2 } else { 1 };
            times.extend(marks.windows(2).step_by(step).map(|pair| gpu.elapsed_us(pair[0], pair[1])));
            times.sort_by(f64::total_cmp);
            if mean { times.iter().sum::<f64>() / times.len() as f64 } else { times[times.len() / 2] }
        })
    };
    assert_eq!(measure(20, 101, INPUTS, false, false).missing, None);
    wrong(measure(0, 9, INPUTS, false, false), "12.5 µs");
    wrong(measure(20, 101, 1, false, false), "12.5 µs");
    wrong(measure(20, 101, 2, false, false), "12.5 µs");
    wrong(measure(20, 101, INPUTS, true, false), "12.5 µs");
    wrong(measure(20, 101, INPUTS, false, true), "12.5 µs");
    let host_clock = |waits: bool| {
        benchmark::judge(|gpu| {
            (0..20).for_each(|run| gpu.launch(run));
            gpu.synchronize();
            let start = gpu.now_us();
            gpu.launch(0);
            if waits {
                gpu.synchronize();
            }
            gpu.now_us() - start
        })
    };
    wrong(host_clock(false), "12.5 µs");
    wrong(host_clock(true), "12.5 µs");
    let skeleton = benchmark::judge(|gpu| {
        let start = gpu.now_us();
        gpu.launch(0);
        gpu.now_us() - start
    });
    assert_eq!(skeleton.to_string(), include_str!("host_exercises/benchmark.txt"));
    let too_early = benchmark::judge(|gpu| {
        let start = gpu.record_event();
        gpu.launch(0);
        let end = gpu.record_event();
        gpu.elapsed_us(start, end)
    });
    wrong(too_early, "before the GPU had reached them");
}

// ANCHOR: occupancy
fn blocks_per_sm(threads: u32, registers: u32, shared: u32) -> u32 {
    let warps = threads.div_ceil(32);
    let of_warp = (32 * registers).next_multiple_of(256);
    let by_registers = 16_384 / of_warp * 4 / warps;
    let by_shared = 228 * 1024 / (shared + 1024);
    (64 / warps).min(32).min(by_registers).min(by_shared)
}
// ANCHOR_END: occupancy

#[test]
fn occupancy_takes_every_limit_and_its_rounding() {
    assert_eq!(occupancy::judge(blocks_per_sm).unwrap().missing, None);
    let skeleton = occupancy::judge(|threads, _, _| 64 / threads.div_ceil(32)).unwrap();
    assert_eq!(skeleton.to_string(), include_str!("host_exercises/occupancy.txt"));

    // Each way leaves one thing out.
    let with = |unit: u32, partitions: u32, reserved: u32| {
        occupancy::judge(|threads, registers, shared| {
            let warps = threads.div_ceil(32);
            let of_warp = (32 * registers).next_multiple_of(unit);
            let by_registers = 65_536 / partitions / of_warp * partitions / warps;
            (64 / warps).min(32).min(by_registers).min((228 * 1024_u32).checked_div(shared + reserved).unwrap_or(32))
        })
        .unwrap()
    };
    assert_eq!(with(256, 4, 1024).missing, None);
    wrong(with(32, 4, 1024), "units of 256");
    wrong(with(256, 1, 1024), "four partitions");
    wrong(with(256, 4, 0), "1 KiB of shared memory");
}
