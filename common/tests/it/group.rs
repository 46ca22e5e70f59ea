//! Several devices of one host: copies, memory that kernels reach, events and launches between them.

use common::device::{SimOptions, launch_together};
use common::group_test;
use common::prelude::*;

const KERNELS: KernelSource = kernel_source!("tests/kernels", "peers");

const N: usize = 301;

fn values(first: f32) -> Vec<f32> {
    (0..N).map(|i| first + i as f32).collect()
}

/// Queues out = own + other, with `other` on another device.
fn add_peer(stream: &Stream, own: &Buffer<f32>, other: &Buffer<f32>, out: &mut Buffer<f32>) -> Result<()> {
    let kernel = stream.device().kernel(&KERNELS, "add_peer")?;
    let n = out.len() as u32;
    let mut launch = stream.launch_builder(&kernel);
    launch.arg(own).peer(other).arg(out).arg(&n);
    // SAFETY: the kernel compares its index with n, the length of all three.
    unsafe { launch.launch(LaunchConfig::for_threads(n)) }
}

fn store_peer(stream: &Stream, other: &mut Buffer<f32>, value: f32) -> Result<()> {
    let kernel = stream.device().kernel(&KERNELS, "store_peer")?;
    let n = other.len() as u32;
    let mut launch = stream.launch_builder(&kernel);
    launch.peer_mut(other).arg(&value).arg(&n);
    // SAFETY: the kernel compares its index with n, the buffer's length.
    unsafe { launch.launch(LaunchConfig::for_threads(n)) }
}

/// Buffers of [`sum_all`] on each device.
struct Sums {
    values: Vec<Buffer<f32>>,
    flags: Vec<Buffer<u32>>,
    sums: Vec<Buffer<f32>>,
}

fn sum_all(group: &DeviceGroup) -> Result<Sums> {
    let streams: Vec<Stream> = group.devices().iter().map(Device::stream).collect();
    let mut all = Sums { values: Vec::new(), flags: Vec::new(), sums: Vec::new() };
    for stream in &streams {
        all.values.push(stream.alloc_poisoned(N)?);
        all.flags.push(stream.alloc_zeros(1)?);
        all.sums.push(stream.alloc_poisoned(N)?);
    }
    group.synchronize()?;
    for (stream, values) in streams.iter().zip(&mut all.values) {
        stream.poison(values)?;
    }
    let kernels: Vec<Kernel> =
        group.devices().iter().map(|device| device.kernel(&KERNELS, "sum_all")).collect::<Result<_>>()?;
    let (peers, flags) = (Peers::new(&mut all.values), Peers::new(&mut all.flags));
    let (n, ranks) = (N as u32, group.len() as u32);
    let numbers: Vec<u32> = (0..ranks).collect();
    let config = LaunchConfig { grid_dim: (1, 1, 1), block_dim: (64, 1, 1), shared_mem_bytes: 0 };
    let mut launches = Vec::new();
    for (((stream, kernel), rank), sum) in streams.iter().zip(&kernels).zip(&numbers).zip(&mut all.sums) {
        let mut launch = stream.launch_builder(kernel);
        launch.arg(&peers).arg(&flags).arg(sum).arg(&n).arg(rank).arg(&ranks);
        launches.push((launch, config));
    }
    // SAFETY: each buffer has n values, and each device counts itself in at all flags, which are 0 before.
    unsafe { launch_together(&mut launches)? };
    drop(launches);
    Ok(all)
}

group_test! {
    fn values_are_copied_between_devices(group, 2) {
        let [one, two] = [0, 1].map(|rank| group.devices()[rank].stream());
        let source = one.clone_htod(&values(1.0))?;
        let mut there = two.alloc_poisoned::<f32>(N)?;
        two.join(&one)?;
        two.memcpy_peer(&source, &mut there)?; // pulled
        assert_eq!(two.clone_dtoh(&there)?, values(1.0));
        let mut back = one.alloc_poisoned::<f32>(N)?;
        one.join(&two)?;
        two.join(&one)?;
        two.memcpy_peer(&there.slice(10..20), &mut back.slice_mut(30..40))?; // pushed
        one.join(&two)?;
        assert_eq!(one.clone_dtoh(&back.slice(30..40))?, values(11.0)[..10]);
        assert!(one.clone_dtoh(&back.slice(40..))?.iter().all(|value| value.is_nan()));
        let error = two.memcpy_peer(&there.slice(..3), &mut back).unwrap_err();
        assert!(matches!(error, Error::Length { .. }), "{error}");
        Ok(())
    }

    fn a_kernel_reads_and_writes_the_memory_of_another_device(group, 2) {
        let [one, two] = [0, 1].map(|rank| group.devices()[rank].stream());
        let (own, mut other) = (one.clone_htod(&values(1.0))?, two.clone_htod(&values(1000.0))?);
        let mut out = one.alloc_poisoned(N)?;
        one.join(&two)?;
        add_peer(&one, &own, &other, &mut out)?;
        let expected: Vec<f32> = values(1.0).iter().zip(values(1000.0)).map(|(a, b)| a + b).collect();
        assert_eq!(one.clone_dtoh(&out)?, expected);
        store_peer(&one, &mut other, 5.0)?;
        two.join(&one)?;
        assert_eq!(two.clone_dtoh(&other)?, [5.0; N]);
        // Its own memory it may reach the same way.
        store_peer(&one, &mut out, 7.0)?;
        assert_eq!(one.clone_dtoh(&out)?, [7.0; N]);
        Ok(())
    }

    fn memory_of_another_device_has_to_be_named_as_such(group, 2) {
        let [one, two] = [0, 1].map(|rank| group.devices()[rank].stream());
        let (own, other) = (one.clone_htod(&values(1.0))?, two.clone_htod(&values(2.0))?);
        let mut out = one.alloc_poisoned::<f32>(N)?;
        let kernel = one.device().kernel(&KERNELS, "add_peer")?;
        let n = N as u32;
        let mut launch = one.launch_builder(&kernel);
        launch.arg(&own).arg(&other).arg(&mut out).arg(&n);
        // SAFETY: refused before anything runs.
        let error = unsafe { launch.launch(LaunchConfig::for_threads(n)) }.unwrap_err().to_string();
        let [own_name, other_name] = [0, 1].map(|rank| group.devices()[rank].short_name());
        assert_eq!(
            error,
            format!("launching a kernel: the buffer belongs to {other_name}, but the stream is one of {own_name}")
        );
        Ok(())
    }

    fn kernels_of_all_devices_wait_for_each_other(group, 2) {
        let all = sum_all(&group)?;
        group.synchronize()?;
        for (device, sum) in group.devices().iter().zip(&all.sums) {
            assert_eq!(device.stream().clone_dtoh(sum)?, [3.0; N]);
        }
        Ok(())
    }

    fn four_devices_too(group, 4) {
        let all = sum_all(&group)?;
        group.synchronize()?;
        for (device, sum) in group.devices().iter().zip(&all.sums) {
            assert_eq!(device.stream().clone_dtoh(sum)?, [10.0; N]);
        }
        Ok(())
    }

    fn memory_is_counted_by_device(group, 2) {
        let [one, two] = [0, 1].map(|rank| group.devices()[rank].clone());
        let _buffer = two.stream().alloc_zeros::<u8>(1000)?;
        assert_eq!((one.memory().in_use, two.memory().in_use), (0, 1000));
        Ok(())
    }

    fn a_group_has_each_device_once(group, 2) {
        let one = group.devices()[0].clone();
        assert!(DeviceGroup::of(vec![one.clone(), one]).is_err());
        assert!(DeviceGroup::of(Vec::new()).is_err());
        assert_eq!(DeviceGroup::of(group.devices().to_vec())?, group);
        assert!(group.link(0, 1)?.peer_access);
        Ok(())
    }
}

/// A joint launch orders its devices only if its kernels wait for each other.
#[test]
fn a_joint_launch_has_to_wait_for_what_other_devices_did_before() -> Result<()> {
    let group = sanitising(2);
    let streams = [0, 1].map(|rank| group.devices()[rank].stream());
    let kernels = [0, 1].map(|rank| group.devices()[rank].kernel(&KERNELS, "add_peer"));
    let [first, second] = kernels;
    let kernels = [first?, second?];
    let n = N as u32;
    for waits in [true, false] {
        let values: Vec<Buffer<f32>> =
            streams.iter().map(|stream| stream.clone_htod(&values(1.0))).collect::<Result<_>>()?;
        // Work on the device, which the host does not wait for.
        let mut doubled = Vec::new();
        for ((stream, kernel), values) in streams.iter().zip(&kernels).zip(&values) {
            let mut out = stream.alloc_poisoned::<f32>(N)?;
            let mut launch = stream.launch_builder(kernel);
            launch.arg(values).arg(values).arg(&mut out).arg(&n);
            // SAFETY: the kernel compares its index with n, the length of all three.
            unsafe { launch.launch(LaunchConfig::for_threads(n))? };
            doubled.push(out);
        }
        if waits {
            let [one, two] = &streams;
            one.join(two)?;
            two.join(one)?;
        }
        let mut outs = streams.iter().map(|stream| stream.alloc_uninit::<f32>(N)).collect::<Result<Vec<_>>>()?;
        let mut launches = Vec::new();
        for (rank, out) in outs.iter_mut().enumerate() {
            let mut launch = streams[rank].launch_builder(&kernels[rank]);
            launch.arg(&doubled[rank]).peer(&doubled[1 - rank]).arg(out).arg(&n);
            launches.push((launch, LaunchConfig::for_threads(n)));
        }
        // SAFETY: as above, and the peer's values have as many.
        let launched = unsafe { launch_together(&mut launches) };
        drop(launches);
        if waits {
            launched?;
            let expected: Vec<f32> = self::values(1.0).iter().map(|value| 4.0 * value).collect();
            assert_eq!(streams[1].clone_dtoh(&outs[1])?, expected);
        } else {
            let error = launched.unwrap_err().to_string();
            let what = "this device reads what kernel `add_peer` on the default stream of sim:";
            for part in [what, "begin with a barrier of all devices"] {
                assert!(error.contains(part), "{error}");
            }
        }
    }
    Ok(())
}

/// Flags tell a device that another has come to the launch, and so hand over its earlier work: there are no findings.
#[test]
fn flags_hand_over_what_was_done_before_the_launch() -> Result<()> {
    let group = sanitising(3);
    // The values are poisoned by work that the host does not wait for; the flags are zeros for all.
    sum_all(&group).map(drop)
}

#[track_caller]
fn unordered<T: std::fmt::Debug>(result: Result<T>, text: &str) {
    let error = result.unwrap_err();
    assert!(matches!(error, Error::UnorderedStreams { .. }), "{error}");
    assert!(error.to_string().contains(text), "{error}");
}

fn sanitising(count: u32) -> DeviceGroup {
    DeviceGroup::sim_with(count, SimOptions { sanitize: true, ..SimOptions::default() })
}

/// Only events order the work of two devices.
#[test]
fn races_between_devices_are_found() -> Result<()> {
    let group = sanitising(2);
    let [one, two] = [0, 1].map(|rank| group.devices()[rank].stream());
    let kernel_writes = "kernel `store_peer` on the default stream of sim:0 writes";
    let mut values = two.alloc_zeros::<f32>(N)?;
    group.synchronize()?;
    store_peer(&one, &mut values, 1.0)?;
    unordered(two.clone_dtoh(&values), kernel_writes);

    let mut values = two.alloc_zeros::<f32>(N)?;
    unordered(store_peer(&one, &mut values, 1.0), "the fill on the default stream of sim:1 writes");

    let (source, mut there) = (one.clone_htod(&values_of_one())?, two.alloc_zeros::<f32>(N)?);
    unordered(one.memcpy_peer(&source, &mut there), "the fill on the default stream of sim:1");
    Ok(())
}

fn values_of_one() -> Vec<f32> {
    vec![1.0; N]
}

#[test]
fn a_device_that_is_full_says_which_and_the_others_have_room() -> Result<()> {
    let group = DeviceGroup::sim_with(2, SimOptions { memory: 4096, ..SimOptions::default() });
    let [one, two] = [0, 1].map(|rank| group.devices()[rank].stream());
    let _all = one.alloc_zeros::<u8>(4000)?;
    let error = one.alloc_zeros::<u8>(1000).unwrap_err().to_string();
    assert_eq!(
        error,
        "out of memory on sim:0: 1000 bytes requested, 96 of 4096 are free (4000 are in our own buffers)"
    );
    two.alloc_zeros::<u8>(1000).map(drop)
}

#[test]
fn devices_of_two_hosts_do_not_reach_each_other() -> Result<()> {
    let (one, two) = (DeviceGroup::sim(2), DeviceGroup::sim(2));
    let source = one.devices()[0].stream().clone_htod(&values(1.0))?;
    let stream = two.devices()[0].stream();
    let mut there = stream.alloc_poisoned::<f32>(N)?;
    for result in [stream.memcpy_peer(&source, &mut there), stream.join(&one.devices()[1].stream())] {
        assert!(matches!(result, Err(Error::WrongDevice { .. })), "{result:?}");
    }
    Ok(())
}

#[test]
fn groups_are_opened_by_name_and_number() -> Result<()> {
    let choice: DeviceChoice = "sim:4".parse()?;
    let group = DeviceGroup::open(choice, None)?;
    assert_eq!((group.len(), group.describe().as_str()), (4, "4 × sim"));
    assert_eq!(group.devices()[3].short_name(), "sim:3");
    assert_eq!(DeviceGroup::open(choice, Some(2))?.len(), 2);
    let error = DeviceGroup::open(choice, Some(5)).unwrap_err().to_string();
    assert_eq!(error, "5 devices of sim:4 cannot be used: there are 4; sim:5 is that many simulated ones");
    assert_eq!(DeviceGroup::open(DeviceChoice::Sim, None)?.len(), 1);
    assert_eq!(Device::open(choice)?.short_name(), "sim");
    Ok(())
}

#[test]
fn a_joint_launch_cannot_be_recorded_on_the_simulator() -> Result<()> {
    let group = DeviceGroup::sim(1);
    let stream = group.devices()[0].stream();
    let kernel = group.devices()[0].kernel(&KERNELS, "store_peer")?;
    let mut values = stream.alloc_zeros::<f32>(N)?;
    let (value, n) = (1.0f32, N as u32);
    let captured = stream.capture(|stream| {
        let mut launch = stream.launch_builder(&kernel);
        launch.peer_mut(&mut values).arg(&value).arg(&n);
        // SAFETY: the kernel compares its index with n, the buffer's length.
        unsafe { launch_together(&mut [(launch, LaunchConfig::for_threads(n))]) }
    });
    assert!(matches!(captured, Err(Error::Capture { .. })), "{captured:?}");
    Ok(())
}
