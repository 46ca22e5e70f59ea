//! Findings of the sanitising simulator for work on several streams: wrong programs are found, correct ones pass.

use common::device::SimOptions;
use common::prelude::*;

const KERNELS: KernelSource = kernel_source!("tests/kernels", "scale_add");

const N: usize = 300;

fn sanitising() -> Device {
    Device::sim_with(SimOptions { sanitize: true, ..SimOptions::default() })
}

/// Two streams, a kernel that adds one to each value, and values.
struct Case {
    first: Stream,
    second: Stream,
    kernel: Kernel,
    values: Buffer<u32>,
    device: Device,
}

impl Case {
    fn new() -> Case {
        let device = sanitising();
        let (first, second) = (device.new_stream().unwrap(), device.new_stream().unwrap());
        let kernel = device.kernel(&KERNELS, "increment").unwrap();
        let values = first.alloc_zeros(N).unwrap();
        first.synchronize().unwrap();
        Case { first, second, kernel, values, device }
    }
}

fn increment(stream: &Stream, kernel: &Kernel, values: &mut Buffer<u32>) -> Result<()> {
    let n = values.len() as u32;
    let mut launch = stream.launch_builder(kernel);
    launch.arg(values).arg(&n);
    // SAFETY: the kernel compares its index with n, the buffer's length.
    unsafe { launch.launch(LaunchConfig::for_threads(n)) }
}

/// Increments only the first `n` values.
fn increment_some(stream: &Stream, kernel: &Kernel, values: &mut Buffer<u32>, n: u32) -> Result<()> {
    let mut launch = stream.launch_builder(kernel);
    launch.arg(values).arg(&n);
    // SAFETY: n is at most the buffer's length.
    unsafe { launch.launch(LaunchConfig::for_threads(n)) }
}

#[track_caller]
fn unordered<T: std::fmt::Debug>(result: Result<T>) -> String {
    let error = result.unwrap_err();
    assert!(matches!(&error, Error::UnorderedStreams { findings, .. } if !findings.is_empty()), "{error}");
    error.to_string()
}

#[test]
fn two_kernels_at_the_same_bytes_need_an_event() {
    let Case { first, second, kernel, mut values, .. } = Case::new();
    increment(&first, &kernel, &mut values).unwrap();
    assert_eq!(
        unordered(increment(&second, &kernel, &mut values)),
        "error[unordered-streams]: kernel `increment` on stream 2 reads what kernel `increment` on stream 1 writes, and nothing \
         orders the two\n  = memory: `buffer of 300 u32`, bytes 0 to 1200\n  = help: let the second stream wait for an event \
         recorded after the first operation (`second.join(&first)`), or synchronise in between"
    );
    // An event recorded too early orders nothing.
    let Case { first, second, kernel, mut values, .. } = Case::new();
    let early = first.record_event().unwrap();
    increment(&first, &kernel, &mut values).unwrap();
    second.wait(&early).unwrap();
    unordered(increment(&second, &kernel, &mut values));
}

#[test]
fn events_and_synchronisation_order() {
    for way in 0..6 {
        let Case { first, second, kernel, mut values, device } = Case::new();
        for _ in 0..3 {
            increment(&first, &kernel, &mut values).unwrap();
            match way {
                0 => second.join(&first).unwrap(),
                1 => first.synchronize().unwrap(),
                2 => device.synchronize().unwrap(),
                3 => first.record_event().unwrap().synchronize().unwrap(),
                // A copy into ordinary memory is finished when it returns.
                4 => drop(first.clone_dtoh(&values).unwrap()),
                // By way of a third stream.
                _ => {
                    let third = first.fork().unwrap();
                    second.join(&third).unwrap();
                }
            }
            increment(&second, &kernel, &mut values).unwrap();
            first.join(&second).unwrap();
        }
        assert_eq!(first.clone_dtoh(&values).unwrap(), [6; N]);
    }
}

#[test]
fn copies_and_fills_are_ordered_too() {
    let Case { first, second, kernel, mut values, device } = Case::new();
    let mut pinned = device.alloc_pinned::<u32>(N).unwrap();
    first.memcpy_htod(&pinned, &mut values).unwrap();
    let text = unordered(increment(&second, &kernel, &mut values));
    assert!(
        text.contains("kernel `increment` on stream 2 reads what the copy to the device on stream 1 writes"),
        "{text}"
    );

    let Case { first, second, kernel, mut values, .. } = Case::new();
    increment(&first, &kernel, &mut values).unwrap();
    let text = unordered(second.memset_zeros(&mut values.slice_mut(10..20)));
    assert!(text.contains("the fill on stream 2 writes what kernel `increment` on stream 1 reads"), "{text}");
    assert!(text.contains("bytes 40 to 80"), "{text}");

    let Case { first, second, values, device, .. } = Case::new();
    let mut other = first.alloc_zeros::<u32>(N).unwrap();
    first.memcpy_dtod(&values, &mut other).unwrap();
    let text = unordered(second.clone_dtoh(&other));
    assert!(
        text.contains("the copy from the device on stream 2 reads what the copy inside the device on stream 1"),
        "{text}"
    );
    drop(device);

    // A pinned copy is waited for by whoever looks at its memory.
    let Case { first, second, kernel, mut values, device } = Case::new();
    increment(&first, &kernel, &mut values).unwrap();
    pinned = device.alloc_pinned(N).unwrap();
    first.memcpy_dtoh(&values, &mut pinned).unwrap();
    assert_eq!(pinned.as_slice().unwrap(), [1; N]);
    increment(&second, &kernel, &mut values).unwrap();
}

#[test]
fn what_does_not_meet_needs_no_order() {
    // Different bytes of one buffer, also where a kernel is given all of it.
    let Case { first, second, kernel, mut values, .. } = Case::new();
    increment_some(&first, &kernel, &mut values, 77).unwrap();
    second.memset_zeros(&mut values.slice_mut(77..)).unwrap();
    unordered(second.memset_zeros(&mut values.slice_mut(76..)));
    // Readers.
    let Case { first, second, values, .. } = Case::new();
    let mut copies = [first.alloc_uninit::<u32>(N).unwrap(), first.alloc_uninit::<u32>(N).unwrap()];
    first.memcpy_dtod(&values, &mut copies[0]).unwrap();
    second.memcpy_dtod(&values, &mut copies[1]).unwrap();
    // What was there before the second stream.
    let device = sanitising();
    let mut values = device.stream().alloc_zeros::<u32>(N).unwrap();
    device.new_stream().unwrap().memset_zeros(&mut values).unwrap();
}

#[test]
fn graphs_are_ordered_by_their_edges_and_by_their_stream() {
    let Case { first, second, kernel, mut values, .. } = Case::new();
    let mut other = first.alloc_zeros::<u32>(N).unwrap();
    // A fork and a join, on different buffers, then on what both wrote.
    let right = first
        .capture(|stream| {
            let fork = stream.fork()?;
            increment(stream, &kernel, &mut values)?;
            increment(&fork, &kernel, &mut other)?;
            stream.join(&fork)?;
            stream.memcpy_dtod(&other, &mut values)
        })
        .unwrap()
        .instantiate()
        .unwrap();
    for _ in 0..3 {
        right.launch(&first).unwrap();
        increment(&first, &kernel, &mut values).unwrap();
    }
    second.join(&first).unwrap();
    right.launch(&second).unwrap();
    let text = unordered(increment(&first, &kernel, &mut other));
    assert!(text.contains("and nothing orders the two"), "{text}");
    // The same without the join before the use.
    let Case { first, kernel, mut values, .. } = Case::new();
    let wrong = first
        .capture(|stream| {
            let fork = stream.fork()?;
            increment(stream, &kernel, &mut values)?;
            increment(&fork, &kernel, &mut values)?;
            stream.join(&fork)
        })
        .unwrap()
        .instantiate()
        .unwrap();
    let text = unordered(wrong.launch(&first));
    assert!(text.contains("kernel `increment` on stream 3 reads what kernel `increment` on stream 1 writes"), "{text}");
}
