//! Capture, instantiation, update and replay of graphs, on both devices.

use common::device::{GraphOperation, LaunchArgs};
use common::device_test;
use common::prelude::*;

const KERNELS: KernelSource = kernel_source!("tests/kernels", "scale_add");

const DEPENDENT: KernelSource = kernel_source!("tests/kernels", "dependent");

/// Ragged: the last block has threads to spare.
const N: usize = 1000;

/// Queues out = a·x + y.
fn scale_add(
    stream: &Stream,
    kernel: &Kernel,
    x: &Buffer<f32>,
    y: &Buffer<f32>,
    out: &mut Buffer<f32>,
    a: f32,
) -> Result<()> {
    let n = out.len() as u32;
    let mut launch = stream.launch_builder(kernel);
    launch.arg(x).arg(y).arg(out).arg(&a).arg(&n);
    // SAFETY: the kernel compares its index with n, the length of all three buffers.
    unsafe { launch.launch(LaunchConfig::for_threads(n)) }
}

/// Queues one more for each of the values.
fn increment(stream: &Stream, kernel: &Kernel, values: &mut Buffer<u32>) -> Result<()> {
    let n = values.len() as u32;
    let mut launch: LaunchArgs<'_> = stream.launch_builder(kernel);
    launch.arg(values).arg(&n);
    // SAFETY: the kernel compares its index with n, the buffer's length.
    unsafe { launch.launch(LaunchConfig::for_threads(n)) }
}

fn numbers(seed: u64) -> Vec<f32> {
    Tensor::random(&[N], seed).as_slice().unwrap().to_vec()
}

/// (a·x + y)·b + y, rounded like the kernel's result: with one fused operation each.
fn expected(x: &[f32], y: &[f32], a: f32, b: f32) -> Vec<f32> {
    x.iter().zip(y).map(|(x, y)| b.mul_add(a.mul_add(*x, *y), *y)).collect()
}

device_test! {
    fn a_graph_runs_on_what_its_buffers_contain_at_the_launch(device) {
        let stream = device.stream();
        let kernel = device.kernel(&KERNELS, "scale_add")?;
        let (x1, x2, y) = (numbers(1), numbers(2), numbers(3));
        let mut x = stream.clone_htod(&x1)?;
        let dy = stream.clone_htod(&y)?;
        let (mut t, mut out) = (stream.alloc_poisoned::<f32>(N)?, stream.alloc_poisoned::<f32>(N)?);
        let mut copy = stream.alloc_poisoned::<f32>(N)?;
        let graph = stream.capture(|stream| {
            scale_add(stream, &kernel, &x, &dy, &mut t, 2.0)?;
            scale_add(stream, &kernel, &t, &dy, &mut out, -0.5)?;
            stream.memcpy_dtod(&out, &mut copy)?;
            stream.memset_zeros(&mut t)
        })?;
        // Nothing has run.
        assert!(stream.clone_dtoh(&out)?.iter().all(|value| value.is_nan()));
        let names: Vec<_> = graph.nodes().iter().map(|node| (node.name.as_str(), node.after.clone())).collect();
        assert_eq!(names, [("scale_add", vec![]), ("scale_add", vec![0]), ("copy", vec![1]), ("fill", vec![2])]);
        assert_eq!((graph.kernels(), graph.depth()), (2, 4));
        let exec = graph.instantiate()?;
        drop(graph);
        let memory = device.memory();
        for input in [&x1, &x2, &x1] {
            stream.memcpy_htod(input, &mut x)?;
            stream.poison(&mut out)?;
            stream.poison(&mut copy)?;
            exec.launch(&stream)?;
            assert_eq!(stream.clone_dtoh(&out)?, expected(input, &y, 2.0, -0.5));
            assert_eq!(stream.clone_dtoh(&copy)?, expected(input, &y, 2.0, -0.5));
            assert_eq!(stream.clone_dtoh(&t)?, [0.0; N]);
        }
        let after = device.memory();
        assert_eq!((after.in_use, after.peak), (memory.in_use, memory.peak), "a launch allocates nothing");
        Ok(())
    }

    fn launches_of_a_graph_keep_the_order_of_the_stream(device) {
        let stream = device.stream();
        let kernel = device.kernel(&KERNELS, "increment")?;
        let mut values = stream.alloc_zeros::<u32>(N)?;
        let graph = stream.capture(|stream| (0..5).try_for_each(|_| increment(stream, &kernel, &mut values)))?;
        let exec = graph.instantiate()?;
        for _ in 0..20 {
            exec.launch(&stream)?;
            increment(&stream, &kernel, &mut values)?;
        }
        assert_eq!(stream.clone_dtoh(&values)?, vec![20 * 6; N]);
        // On another stream, ordered by events.
        let other = stream.fork()?;
        exec.launch(&other)?;
        stream.join(&other)?;
        assert_eq!(stream.clone_dtoh(&values)?, vec![20 * 6 + 5; N]);
        Ok(())
    }

    fn a_fork_and_a_join_become_edges(device) {
        let stream = device.stream();
        let kernel = device.kernel(&KERNELS, "scale_add")?;
        let (x, y) = (numbers(4), numbers(5));
        let (dx, dy) = (stream.clone_htod(&x)?, stream.clone_htod(&y)?);
        let of = || stream.alloc_poisoned::<f32>(N);
        let (mut first, mut left, mut right, mut sum) = (of()?, of()?, of()?, of()?);
        let graph = stream.capture(|stream| {
            scale_add(stream, &kernel, &dx, &dy, &mut first, 1.0)?;
            let other = stream.fork()?;
            assert_ne!(&other, stream);
            scale_add(stream, &kernel, &first, &dy, &mut left, 2.0)?;
            scale_add(&other, &kernel, &first, &dy, &mut right, 3.0)?;
            stream.join(&other)?;
            scale_add(stream, &kernel, &left, &right, &mut sum, 1.0)
        })?;
        let after: Vec<_> = graph.nodes().iter().map(|node| node.after.clone()).collect();
        assert_eq!(after, [vec![], vec![0], vec![0], vec![1, 2]]);
        assert_eq!(graph.depth(), 3);
        let exec = graph.instantiate()?;
        for _ in 0..3 {
            stream.poison(&mut sum)?;
            exec.launch(&stream)?;
            let expected: Vec<f32> = x.iter().zip(&y).map(|(x, y)| {
                let first = x + y;
                2.0f32.mul_add(first, *y) + 3.0f32.mul_add(first, *y)
            }).collect();
            assert_eq!(stream.clone_dtoh(&sum)?, expected);
        }
        Ok(())
    }

    fn a_graph_is_updated_with_another_of_the_same_structure(device) {
        let stream = device.stream();
        let kernel = device.kernel(&KERNELS, "scale_add")?;
        let (x, y) = (numbers(6), numbers(7));
        let (dx, dy) = (stream.clone_htod(&x)?, stream.clone_htod(&y)?);
        let (mut one, mut other) = (stream.alloc_poisoned::<f32>(N)?, stream.alloc_poisoned::<f32>(N)?);
        let mut t = stream.alloc_poisoned::<f32>(N)?;
        let mut capture = |out: &mut Buffer<f32>, a: f32| stream.capture(|stream| {
            scale_add(stream, &kernel, &dx, &dy, &mut t, a)?;
            scale_add(stream, &kernel, &t, &dy, out, 0.25)
        });
        let (first, second) = (capture(&mut one, 2.0)?, capture(&mut other, 4.0)?);
        let longer = stream.capture(|stream| stream.memset_zeros(&mut t))?;
        let mut exec = first.instantiate()?;
        exec.launch(&stream)?;
        exec.update(&second)?;
        drop((first, second));
        exec.launch(&stream)?;
        assert_eq!(stream.clone_dtoh(&one)?, expected(&x, &y, 2.0, 0.25));
        assert_eq!(stream.clone_dtoh(&other)?, expected(&x, &y, 4.0, 0.25));
        let error = exec.update(&longer).unwrap_err().to_string();
        assert_eq!(error, "a graph of 2 nodes cannot be updated to one of 1 node");
        let apart = stream.capture(|stream| {
            let fork = stream.fork()?;
            scale_add(stream, &kernel, &dx, &dy, &mut t, 1.0)?;
            scale_add(&fork, &kernel, &dx, &dy, &mut one, 1.0)?;
            stream.join(&fork)
        })?;
        let error = exec.update(&apart).unwrap_err().to_string();
        assert!(error.contains("node 1 is `scale_add` after [0], and would be `scale_add` after []"), "{error}");
        Ok(())
    }

    fn a_graph_keeps_the_memory_that_it_uses(device) {
        let stream = device.stream();
        let (x, y) = (numbers(8), numbers(9));
        let before = device.memory();
        let mut out = stream.alloc_poisoned::<f32>(N)?;
        let exec = {
            let kernel = device.load_ptx(&KERNELS.shipped_ptx().unwrap(), "scale_add")?.kernel("scale_add")?;
            let (dx, dy) = (stream.clone_htod(&x)?, stream.clone_htod(&y)?);
            stream.capture(|stream| scale_add(stream, &kernel, &dx, &dy, &mut out, 3.0))?.instantiate()?
        };
        assert_eq!(device.memory().in_use - before.in_use, 3 * 4 * N as u64, "the dropped buffers are still there");
        // What might have taken their place.
        let _other = [stream.alloc_poisoned::<f32>(N)?, stream.alloc_poisoned::<f32>(N)?];
        exec.launch(&stream)?;
        let expected: Vec<f32> = x.iter().zip(&y).map(|(x, y)| 3.0f32.mul_add(*x, *y)).collect();
        assert_eq!(stream.clone_dtoh(&out)?, expected);
        drop((exec, _other));
        assert_eq!(device.memory().in_use - before.in_use, 4 * N as u64, "they went with the graph");
        Ok(())
    }

    fn what_a_graph_cannot_hold_is_refused_with_the_reason(device) {
        let stream = device.stream();
        let mut values = stream.alloc_zeros::<u32>(N)?;
        let event = stream.record_event()?;
        let mut inside = None;
        let mut escaped = None;
        let graph = stream.capture(|capturing| {
            for (error, words) in [
                (capturing.alloc_uninit::<f32>(1).map(drop), "allocating memory"),
                (capturing.clone_htod(&[1.0f32]).map(drop), "allocating memory"),
                (capturing.memcpy_htod(&[0u32; N], &mut values), "copying to the device"),
                (capturing.clone_dtoh(&values).map(drop), "copying from the device"),
                (capturing.synchronize(), "waiting for a stream"),
                (capturing.capture(|_| Ok(())).map(drop), "capturing another graph"),
                (capturing.wait(&event), "recorded outside of it"),
                (capturing.record_event()?.synchronize(), "nothing is running yet"),
                (capturing.record_event()?.elapsed_ms(&event).map(drop), "nothing is running yet"),
                (stream.wait(&capturing.record_event()?), "make one with `fork`"),
            ] {
                let error = error.unwrap_err();
                assert!(matches!(error, Error::Capture { .. }), "{error}");
                assert!(error.to_string().contains(words), "{error}");
            }
            inside = Some(capturing.record_event()?);
            escaped = Some(capturing.clone());
            // Nothing of that got into the graph; other streams work as ever.
            assert_eq!(stream.clone_dtoh(&values)?, [0; N]);
            capturing.memset_zeros(&mut values)
        })?;
        assert_eq!(graph.nodes().len(), 1);
        assert_eq!(graph.nodes()[0].operation, GraphOperation::Fill);
        let error = escaped.unwrap().memset_zeros(&mut values).unwrap_err().to_string();
        assert!(error.contains("the capture has ended"), "{error}");
        let error = stream.capture(|other| other.wait(inside.as_ref().unwrap())).unwrap_err().to_string();
        assert!(error.contains("recorded in another capture"), "{error}");
        let exec = graph.instantiate()?;
        assert!(stream.capture(|stream| exec.launch(stream)).unwrap_err().to_string().contains("launching a graph"));
        let loose = stream.capture(|stream| stream.fork()?.memset_zeros(&mut values)).unwrap_err().to_string();
        assert!(loose.contains("node 0 (`fill`) is on a forked stream that was not joined"), "{loose}");
        let elsewhere = Device::sim();
        assert!(matches!(exec.launch(&elsewhere.stream()), Err(Error::WrongDevice { .. })));
        // An error of the closure is that of the capture.
        assert!(matches!(stream.capture(|_| Err(Error::Invalid("so".to_owned()))), Err(Error::Invalid(_))));
        stream.synchronize()
    }

    fn dependent_launches_keep_their_order_in_a_graph(device) {
        let kernel = match device.kernel(&DEPENDENT, "reverse_add_one") {
            Err(error) if error.is_unsupported() => {
                println!("skipped: {error}");
                return Ok(());
            }
            kernel => kernel?,
        };
        let stream = device.stream();
        let (count, launches) = (if device.is_sim() { 1_000u32 } else { 3_000_000 }, 10);
        let start: Vec<u32> = (0..count).collect();
        let (mut from, mut to) = (stream.clone_htod(&start)?, stream.clone_htod(&start)?);
        let graph = stream.capture(|stream| {
            (0..launches).try_for_each(|_| {
                let mut launch = stream.launch_builder(&kernel);
                launch.arg(&from).arg(&mut to).arg(&count).dependent();
                // SAFETY: the kernel reads and writes `count` elements, and waits before it does.
                unsafe { launch.launch(LaunchConfig::for_threads(count))? };
                std::mem::swap(&mut from, &mut to);
                Ok(())
            })
        })?;
        let exec = graph.instantiate()?;
        for _ in 0..3 {
            exec.launch(&stream)?;
        }
        let expected: Vec<u32> = start.iter().map(|value| value + 3 * launches).collect();
        assert_eq!(stream.clone_dtoh(&from)?, expected);
        Ok(())
    }

    fn an_empty_graph_does_nothing(device) {
        let stream = device.stream();
        let mut empty = stream.alloc_zeros::<u32>(0)?;
        let graph = stream.capture(|stream| stream.memset_zeros(&mut empty))?;
        assert_eq!((graph.nodes().len(), graph.depth()), (0, 0));
        graph.instantiate()?.launch(&stream)?;
        stream.synchronize()
    }

    fn graphs_are_captured_and_launched_by_many_threads_at_once(device) {
        let kernel = device.kernel(&KERNELS, "increment")?;
        std::thread::scope(|scope| {
            let run = || -> Result<()> {
                let stream = device.new_stream()?;
                for _ in 0..8 {
                    let mut values = stream.alloc_zeros::<u32>(N)?;
                    let graph = stream.capture(|stream| (0..3).try_for_each(|_| increment(stream, &kernel, &mut values)))?;
                    let exec = graph.instantiate()?;
                    exec.launch(&stream)?;
                    exec.launch(&stream)?;
                    assert_eq!(stream.clone_dtoh(&values)?, vec![6; N]);
                }
                Ok(())
            };
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(run)).collect();
            threads.into_iter().try_for_each(|thread| thread.join().unwrap())
        })
    }
}

#[test]
fn a_fault_in_a_graph_is_told_as_in_a_launch() {
    let device = Device::sim();
    let stream = device.stream();
    let kernel = device.kernel(&KERNELS, "increment").unwrap();
    let mut values = stream.alloc_zeros::<u32>(10).unwrap();
    let graph = stream.capture(|stream| {
        let mut launch = stream.launch_builder(&kernel);
        launch.arg(&mut values).arg(&100u32);
        // SAFETY: the simulator watches every access.
        unsafe { launch.launch(LaunchConfig::for_threads(100)) }
    });
    let error = graph.unwrap().instantiate().unwrap().launch(&stream).unwrap_err();
    assert!(matches!(&error, Error::Fault { .. }), "{error}");
    assert!(error.to_string().contains("scale_add.cu"), "{error}");
}
