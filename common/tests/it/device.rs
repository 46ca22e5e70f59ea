//! Memory, copies, streams and events, on both devices.

use common::device::{DeviceChoice, DeviceElement, SimOptions};
use common::prelude::*;
use common::{device_test, probe};
use half::{bf16, f16};

const INCREMENT: KernelSource = kernel_source!("tests/kernels", "scale_add");

fn round_trip<T: DeviceElement + PartialEq + std::fmt::Debug>(
    stream: &Stream,
    value: impl Fn(usize) -> T,
) -> Result<()> {
    for len in [0, 1, 3, 1000] {
        let values: Vec<T> = (0..len).map(&value).collect();
        let buffer = stream.clone_htod(&values)?;
        assert_eq!((buffer.len(), buffer.is_empty()), (len, len == 0));
        assert_eq!(buffer.num_bytes(), len * size_of::<T>());
        assert_eq!(stream.clone_dtoh(&buffer)?, values);
        let copy = stream.clone_dtod(&buffer)?;
        drop(buffer);
        assert_eq!(stream.clone_dtoh(&copy)?, values);
    }
    Ok(())
}

device_test! {
    fn values_of_every_type_come_back(device) {
        let stream = device.stream();
        round_trip(&stream, |i| i as u8)?;
        round_trip(&stream, |i| -(i as i16))?;
        round_trip(&stream, |i| i as u32 * 1_000_003)?;
        round_trip(&stream, |i| i as i64 - (1 << 40))?;
        round_trip(&stream, |i| i as f32 + 0.5)?;
        round_trip(&stream, |i| i as f64 * 1e300)?;
        round_trip(&stream, |i| f16::from_f32(i as f32))?;
        round_trip(&stream, |i| bf16::from_f32(i as f32))?;
        round_trip(&stream, |i| [i as f32, -1.0, 2.0, 3.0])
    }

    fn poison_is_nan_in_floats_and_zeros_are_zero(device) {
        let stream = device.stream();
        assert!(stream.clone_dtoh(&stream.alloc_poisoned::<f32>(100)?)?.iter().all(|v| v.is_nan()));
        assert!(stream.clone_dtoh(&stream.alloc_poisoned::<f64>(100)?)?.iter().all(|v| v.is_nan()));
        assert!(stream.clone_dtoh(&stream.alloc_poisoned::<f16>(100)?)?.iter().all(|v| v.is_nan()));
        assert!(stream.clone_dtoh(&stream.alloc_poisoned::<bf16>(100)?)?.iter().all(|v| v.is_nan()));
        assert_eq!(stream.clone_dtoh(&stream.alloc_poisoned::<i32>(3)?)?, [-1; 3]);
        let mut zeros = stream.alloc_zeros::<f32>(100)?;
        assert_eq!(stream.clone_dtoh(&zeros)?, [0.0; 100]);
        stream.poison(&mut zeros.slice_mut(10..20))?;
        let values = stream.clone_dtoh(&zeros)?;
        for (i, value) in values.iter().enumerate() {
            assert_eq!(value.is_nan(), (10..20).contains(&i), "at {i}");
        }
        Ok(())
    }

    fn views_address_their_part_of_a_buffer(device) {
        let stream = device.stream();
        let numbers: Vec<u32> = (0..100).collect();
        let mut buffer = stream.clone_htod(&numbers)?;
        assert_eq!(stream.clone_dtoh(&buffer.slice(90..))?, numbers[90..]);
        assert_eq!(stream.clone_dtoh(&buffer.slice(5..=5))?, [5]);
        assert!(stream.clone_dtoh(&buffer.slice(100..))?.is_empty());
        let other = stream.clone_htod(&[7u32, 8, 9])?;
        stream.memcpy_dtod(&other.slice(1..), &mut buffer.slice_mut(10..12))?;
        stream.memcpy_htod(&[1000u32], &mut buffer.slice_mut(99..))?;
        stream.memset_zeros(&mut buffer.slice_mut(..3))?;
        let mut expected = numbers;
        expected[..3].fill(0);
        expected[10..12].copy_from_slice(&[8, 9]);
        expected[99] = 1000;
        assert_eq!(stream.clone_dtoh(&buffer)?, expected);
        Ok(())
    }

    fn pinned_memory_waits_for_its_copies(device) {
        let stream = device.stream();
        let n = 1 << 20;
        let mut pinned = device.alloc_pinned::<f32>(n)?;
        assert!(pinned.as_slice()?.iter().all(|&v| v == 0.0));
        for (i, value) in pinned.as_mut_slice()?.iter_mut().enumerate() {
            *value = i as f32;
        }
        let buffer = stream.clone_htod(&pinned)?;
        // Waits until the copy has read the old values.
        pinned.as_mut_slice()?.fill(-1.0);
        let mut back = device.alloc_pinned::<f32>(n)?;
        stream.memcpy_dtoh(&buffer, &mut back)?;
        // Waits until the copy has arrived.
        for (i, &value) in back.as_slice()?.iter().enumerate() {
            assert_eq!(value, i as f32);
        }
        let empty = device.alloc_pinned::<f64>(0)?;
        assert!(empty.is_empty() && stream.clone_htod(&empty)?.is_empty());
        Ok(())
    }

    fn lengths_must_agree(device) {
        let stream = device.stream();
        let mut buffer = stream.alloc_zeros::<f32>(4)?;
        let error = stream.memcpy_htod(&[1.0f32; 5], &mut buffer).unwrap_err();
        assert_eq!(
            error.to_string(),
            "copying to the device: the source holds 5 elements, the destination 4"
        );
        assert!(matches!(stream.memcpy_dtoh(&buffer, &mut [0.0f32; 3]), Err(Error::Length { .. })));
        let other = stream.alloc_zeros::<f32>(5)?;
        assert!(matches!(stream.memcpy_dtod(&other, &mut buffer), Err(Error::Length { .. })));
        Ok(())
    }

    fn a_buffer_of_another_device_is_refused(device) {
        let stream = device.stream();
        let elsewhere = Device::sim();
        let mut foreign = elsewhere.stream().clone_htod(&[1.0f32; 4])?;
        let mut own = stream.clone_htod(&[2.0f32; 4])?;
        for error in [
            stream.clone_dtoh(&foreign).map(drop).unwrap_err(),
            stream.memcpy_htod(&[0.0f32; 4], &mut foreign).unwrap_err(),
            stream.memcpy_dtod(&foreign, &mut own).unwrap_err(),
            stream.memcpy_dtod(&own, &mut foreign).unwrap_err(),
            stream.memset_zeros(&mut foreign).unwrap_err(),
            elsewhere.stream().clone_dtoh(&own).map(drop).unwrap_err(),
            elsewhere.stream().wait(&stream.record_event()?).unwrap_err(),
        ] {
            assert!(matches!(error, Error::WrongDevice { .. }), "{error}");
        }
        // Nothing was touched.
        assert_eq!(stream.clone_dtoh(&own)?, [2.0; 4]);
        assert_eq!(elsewhere.stream().clone_dtoh(&foreign)?, [1.0; 4]);
        Ok(())
    }

    fn running_out_of_memory_says_how_much_was_there(device) {
        let stream = device.stream();
        let total = device.memory().total;
        let kept = stream.alloc_zeros::<u8>(1000)?;
        let error = stream.alloc_uninit::<u8>(total as usize * 2).unwrap_err();
        let Error::OutOfMemory { requested, free, total: told, in_use, .. } = &error else {
            panic!("{error}")
        };
        assert_eq!((*requested, *told, *in_use), (total * 2, total, 1000));
        assert!(*free > 0 && *free < total);
        let text = error.to_string();
        assert!(text.contains(&format!("{requested} bytes")) && text.contains(&free.to_string()), "{text}");
        // The device is as usable as before.
        assert_eq!(stream.clone_dtoh(&stream.clone_htod(&[1u8, 2, 3])?)?, [1, 2, 3]);
        assert_eq!(stream.clone_dtoh(&kept)?, [0; 1000]);
        assert!(stream.alloc_uninit::<u64>(usize::MAX / 4).is_err());
        Ok(())
    }

    fn memory_is_counted_by_the_allocator(device) {
        let stream = device.stream();
        assert_eq!((device.memory().in_use, device.memory().allocations), (0, 0));
        let a = stream.alloc_zeros::<f32>(1000)?;
        let b = stream.alloc_zeros::<u8>(7)?;
        assert_eq!((device.memory().in_use, device.memory().allocations), (4007, 2));
        drop(a);
        assert_eq!((device.memory().in_use, device.memory().peak), (7, 4007));
        device.reset_peak_memory();
        assert_eq!(device.memory().peak, 7);
        // Another thread, which has never used the device, may be the one that drops it.
        std::thread::spawn(move || drop(b)).join().unwrap();
        device.synchronize()?;
        let memory = device.memory();
        assert_eq!((memory.in_use, memory.allocations), (0, 0));
        assert!(memory.free > 0 && memory.free <= memory.total);
        Ok(())
    }

    fn a_stream_waits_for_the_event_of_another(device) {
        let kernel = device.kernel(&INCREMENT, "increment")?;
        let (first, second) = (device.new_stream()?, device.new_stream()?);
        let n = 1u32 << 16;
        let mut values = first.alloc_zeros::<u32>(n as usize)?;
        for round in 0..20 {
            let stream = if round % 2 == 0 { &first } else { &second };
            let other = if round % 2 == 0 { &second } else { &first };
            // SAFETY: the kernel compares its index with n, the buffer's length.
            unsafe {
                stream
                    .launch_builder(&kernel)
                    .arg(&mut values)
                    .arg(&n)
                    .launch(LaunchConfig::for_threads(n))?;
            }
            other.wait(&stream.record_event()?)?;
        }
        assert_eq!(first.clone_dtoh(&values)?, vec![20; n as usize]);
        second.join(&first)?;
        second.synchronize()
    }

    fn the_default_stream_comes_after_the_work_of_a_stream_that_was_dropped(device) {
        // The simulator does not order what CUDA would not, and says so.
        if device.is_sim() {
            return Ok(());
        }
        let kernel = device.kernel(&INCREMENT, "increment")?;
        let n = 1u32 << 16;
        let mut values = device.stream().alloc_zeros::<u32>(n as usize)?;
        for _ in 0..10 {
            for stream in [device.new_stream()?, device.stream()] {
                // SAFETY: the kernel compares its index with n, the buffer's length.
                unsafe {
                    stream
                        .launch_builder(&kernel)
                        .arg(&mut values)
                        .arg(&n)
                        .launch(LaunchConfig::for_threads(n))?;
                }
                drop(stream);
            }
        }
        assert_eq!(device.stream().clone_dtoh(&values)?, vec![20; n as usize]);
        Ok(())
    }

    fn a_device_has_one_default_stream(device) {
        let stream = device.stream();
        assert_eq!(stream, device.stream());
        assert_eq!(stream, device.clone().stream());
        let (first, second) = (device.new_stream()?, device.new_stream()?);
        assert!(stream != first && stream != second && first != second);
        assert_eq!(first, first.clone());
        assert_ne!(stream, Device::sim().stream());
        #[cfg(feature = "cuda")]
        if let Some(stream) = stream.as_cuda() {
            assert!(!stream.cu_stream().is_null(), "a graph cannot capture the null stream");
        }
        Ok(())
    }

    fn events_measure_what_the_device_can(device) {
        let stream = device.stream();
        let kernel = device.kernel(&INCREMENT, "increment")?;
        let mut values = stream.alloc_zeros::<u32>(1000)?;
        let start = stream.record_event()?;
        // SAFETY: the kernel compares its index with n, the buffer's length.
        unsafe {
            stream
                .launch_builder(&kernel)
                .arg(&mut values)
                .arg(&1000u32)
                .launch(LaunchConfig::for_threads(1000))?;
        }
        let end = stream.record_event()?;
        end.synchronize()?;
        if device.is_sim() {
            let error = start.elapsed_ms(&end).unwrap_err();
            assert!(error.is_unsupported(), "{error}");
            let counts = start.counts_until(&end).unwrap();
            assert_eq!(counts.launches, 1);
            // 4 blocks of 8 warps; the last has 232 elements, so 7 full warps and one of 8.
            assert!(counts.warp_instructions >= 32 && counts.lane_instructions >= 1000);
            assert!(counts.lane_instructions <= counts.warp_instructions * 32);
        } else {
            let ms = start.elapsed_ms(&end)?;
            assert!(ms > 0.0 && ms < 1000.0, "{ms} ms");
            assert_eq!(start.counts_until(&end), None);
        }
        Ok(())
    }

    fn tensors_move_and_know_where_they_are(device) {
        let host = Tensor::random(&[2, 3, 5, 7], 11);
        assert!(!host.is_on_device() && host.device().is_none());
        let there = host.to_device(&device)?;
        assert!(there.is_on_device());
        assert_eq!((there.device(), there.shape()), (Some(&device), [2, 3, 5, 7].as_slice()));
        assert!(there.as_slice().unwrap_err().to_string().contains("to_host()"));
        assert!(host.buffer().unwrap_err().to_string().contains("to_device()"));
        let second = there.to_device(&Device::sim())?.to_device(&device)?;
        assert_eq!(second.reshape(&[210])?.to_host()?.as_slice()?, host.as_slice()?);
        assert_eq!(there.to_host()?.into_vec()?, host.into_vec()?);
        let empty = Tensor::empty_on(&device, &[2, 0, 3])?;
        assert!(empty.to_host()?.as_slice()?.is_empty());
        let poisoned = Tensor::empty_on(&device, &[4])?;
        assert!(poisoned.into_vec()?.iter().all(|v| v.is_nan()));
        Ok(())
    }

    fn properties_are_plausible(device) {
        let properties = device.properties();
        assert_eq!(properties.warp_size, 32);
        assert_eq!(properties.max_threads_per_block, 1024);
        assert!(properties.total_memory >= 1 << 30);
        assert!(properties.shared_per_block >= 48 << 10);
        assert!(properties.shared_per_block_optin >= properties.shared_per_block);
        assert_eq!(properties.multiprocessors.is_some(), device.is_cuda());
        assert_eq!(properties.compute_capability.is_some(), device.is_cuda());
        assert!(device.describe().starts_with(&device.short_name()));
        if device.is_cuda() {
            assert!(probe::Library::Driver.is_present());
        }
        Ok(())
    }
}

#[test]
fn a_small_simulator_runs_out_at_its_size() {
    let device = Device::sim_with(SimOptions { memory: 1 << 20, ..SimOptions::default() });
    let stream = device.stream();
    let kept = stream.alloc_zeros::<f32>(200_000).unwrap();
    assert_eq!(
        stream.alloc_zeros::<f32>(100_000).unwrap_err().to_string(),
        "out of memory on sim: 400000 bytes requested, 248576 of 1048576 are free (800000 are in our own buffers)"
    );
    drop(kept);
    assert!(stream.alloc_zeros::<f32>(200_000).is_ok());
}

#[test]
fn a_gpu_that_is_not_there_is_an_error_with_the_reason() {
    let error = Device::open(DeviceChoice::Cuda(999)).unwrap_err();
    let Error::NoDevice { device, reason } = &error else { panic!("{error}") };
    assert_eq!(device, "cuda:999");
    assert!(!reason.is_empty());
    assert_eq!(error.to_string(), format!("cuda:999 cannot be used: {reason}"));
}

#[test]
fn auto_always_gives_a_device_and_says_which() {
    let device = Device::open(DeviceChoice::Auto).unwrap();
    let describe = device.describe();
    match Device::cuda(0) {
        Ok(_) => assert!(describe.starts_with("cuda:0 "), "{describe}"),
        Err(Error::NoDevice { reason, .. }) => assert_eq!(describe, format!("sim ({reason})")),
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn undefined_values_are_reported_once_at_their_line_and_then_read() {
    let device = Device::sim_with(SimOptions { sanitize: true, ..SimOptions::default() });
    let stream = device.stream();
    let kernel = device.kernel(&INCREMENT, "increment").unwrap();
    let mut values = stream.alloc_uninit::<u32>(8).unwrap();
    // SAFETY: the kernel compares its index with 5, and there are 8 values.
    unsafe { stream.launch_builder(&kernel).arg(&mut values).arg(&5u32).launch(LaunchConfig::linear(5, 5)) }.unwrap();
    let Error::Findings { findings, rendered } = stream.clone_dtoh(&values).unwrap_err() else { panic!("no findings") };
    assert_eq!(findings.len(), 1, "{rendered}");
    assert_eq!((findings[0].kind.name(), findings[0].count), ("uninitialised-read", 5));
    assert!(rendered.contains("values[i] += 1;") && rendered.contains("the host reads it"), "{rendered}");
    assert_eq!(stream.clone_dtoh(&values).unwrap()[..5], [1; 5]);
}
