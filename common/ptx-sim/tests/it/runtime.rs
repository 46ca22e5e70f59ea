//! The library on kernels that are correct but hard, and on launches and copies that are wrong.

use ptx_sim::{
    Arg, Device, DeviceConfig, DevicePtr, FaultKind, Kernel, LaunchConfig, LaunchError, LoadError, MemoryError, Module,
};

const FEATURES: &str = include_str!("../kernels/features.ptx");

fn device(workers: usize) -> Device {
    Device::new(DeviceConfig { workers, ..Default::default() })
}

fn kernel(device: &Device, name: &str) -> Kernel {
    let module = Module::from_ptx(FEATURES, "features.ptx").expect("it is valid PTX");
    device.load(&module).expect("it fits").kernel(name).expect("the simulator knows its instructions")
}

fn shape(grid: u32, block: u32) -> LaunchConfig {
    LaunchConfig { grid: [grid, 1, 1], block: [block, 1, 1], ..Default::default() }
}

fn words(device: &Device, pointer: DevicePtr, count: usize) -> Vec<i32> {
    let mut bytes = vec![0; count * 4];
    device.read(pointer, &mut bytes).expect("it is there");
    bytes.chunks_exact(4).map(|word| i32::from_le_bytes(word.try_into().expect("4 bytes"))).collect()
}

/// Launches with a buffer of zeros behind each count and returns the buffers.
fn run(device: &Device, name: &str, config: LaunchConfig, counts: &[usize], scalars: &[i32]) -> Vec<Vec<i32>> {
    let buffers: Vec<DevicePtr> =
        counts.iter().map(|count| device.alloc(*count as u64 * 4, "buffer").expect("it fits")).collect();
    let pointers = buffers.iter().map(|pointer| Arg::from(*pointer));
    let args: Vec<Arg> = pointers.chain(scalars.iter().map(|value| Arg::from(*value))).collect();
    kernel(device, name).launch(&config, &args).unwrap_or_else(|error| panic!("{name}: {error}"));
    buffers.iter().zip(counts).map(|(pointer, count)| words(device, *pointer, *count)).collect()
}

#[test]
fn printf_knows_every_conversion() {
    let device = device(1);
    run(&device, "prints", shape(1, 1), &[], &[42]);
    // What glibc's printf gives for the same calls.
    let expected = "\
42|   42|42   |00042|+42| 42|-42
42 2a 2A 52 0x2a 052 c text %
-1234567890123 1234567890123 abcdef0123 42
1.500000 2.35      3.142 2.5       | 1.234568e+04 1.200E-04 0.0001 1e+10 1E-10 0x1p+0
    42 2.5    right|left    |cu
inf -inf nan  -0.0
no arguments
";
    assert_eq!(device.take_output(), expected);
    assert_eq!(device.take_output(), "", "what has been taken is gone");
}

#[test]
fn printf_comes_from_every_thread_and_returns_its_count() {
    let device = device(1);
    assert_eq!(run(&device, "prints_by_thread", shape(2, 32), &[2], &[]), [[2, 2]]);
    let lines = ["thread 0 of block 0", "thread 16 of block 0", "thread 0 of block 1", "thread 16 of block 1"];
    assert_eq!(device.take_output().lines().collect::<Vec<_>>(), lines);
}

#[test]
fn lanes_recurse_to_different_depths() {
    let fibonacci = [0, 1, 1, 2, 3, 5, 8, 13, 21, 34, 55, 89];
    let expected: Vec<i32> = (0..64).map(|thread| fibonacci[thread % 12]).collect();
    assert_eq!(run(&device(1), "recurses", shape(1, 64), &[64], &[]), [expected]);
}

#[test]
fn lanes_call_different_functions_through_one_pointer() {
    let expected: Vec<i32> = (0..64).map(|x| [2 * x, x * x, -x][x as usize % 3]).collect();
    assert_eq!(run(&device(1), "calls_indirectly", shape(1, 64), &[64], &[]), [expected]);
}

/// More blocks than workers, each waiting for the one that starts after it.
#[test]
fn blocks_that_wait_for_later_blocks_all_move() {
    for workers in [1, 2, 5] {
        let expected: Vec<i32> = (0..12).rev().collect();
        let buffers = run(&device(workers), "chain", shape(12, 32), &[1, 12], &[]);
        assert_eq!(buffers, [vec![12], expected], "{workers} workers");
    }
}

#[test]
fn lanes_of_a_warp_take_a_lock_from_each_other() {
    for workers in [1, 2] {
        assert_eq!(run(&device(workers), "lock", shape(3, 64), &[1, 1], &[]), [[0], [3 * 64]], "{workers} workers");
    }
    assert_eq!(run(&device(1), "lane_waits_for_lane", shape(1, 32), &[1, 1], &[]), [[1], [7]]);
}

#[test]
fn threads_that_have_exited_do_not_count_at_a_barrier() {
    for live in [1, 31, 32, 33, 64, 95] {
        let mut expected: Vec<i32> = (0..96).map(|thread| if thread < live { live } else { 0 }).collect();
        expected[0] = 100 + live;
        assert_eq!(run(&device(1), "early_exit", shape(1, 96), &[96], &[live]), [expected], "{live} stay");
    }
}

#[test]
fn structures_and_small_scalars_are_passed_by_value() {
    let device = device(1);
    let out = device.alloc(64 * 8, "out").unwrap();
    let mut point = [0; 24];
    point[..4].copy_from_slice(&1.5f32.to_le_bytes());
    point[8..16].copy_from_slice(&0.25f64.to_le_bytes());
    point[16] = 3;
    let args = [Arg::from_bytes(&point), Arg::from(2u8), Arg::from(out)];
    kernel(&device, "takes_a_struct").launch(&shape(1, 64), &args).unwrap();
    let mut bytes = [0; 8];
    device.read(out, &mut bytes).unwrap();
    assert_eq!(f64::from_le_bytes(bytes), 1.5 * 2.0 + 0.25 + 3.0);
}

/// The lowest wrong block is named, whichever reaches its fault first.
#[test]
fn the_same_fault_is_named_every_time() {
    for round in 0..5 {
        let device = device(4);
        let out = device.alloc(16, "out").unwrap();
        let args = [Arg::from(out), Arg::from(1_000_000)];
        let error = kernel(&device, "first_block_fails_last").launch(&shape(16, 1), &args).unwrap_err();
        let LaunchError::Fault(fault) = error else { panic!("a fault is expected, not {error}") };
        assert_eq!((fault.kind, fault.block), (FaultKind::OutOfBounds, [0, 0, 0]), "round {round}");
    }
}

#[test]
fn counts_do_not_depend_on_the_number_of_workers() {
    let reports: Vec<_> = [1, 2, 5]
        .iter()
        .map(|workers| {
            let device = device(*workers);
            let buffers: Vec<Arg> = (0..3).map(|_| Arg::from(device.alloc(4000, "buffer").unwrap())).collect();
            let args = [&buffers[..], &[Arg::from(1000u32)]].concat();
            kernel(&device, "adds").launch(&shape(8, 128), &args).unwrap()
        })
        .collect();
    assert!(reports.windows(2).all(|pair| pair[0] == pair[1]), "{reports:?}");
    let report = reports[0];
    assert!(
        report.lane_instructions > report.warp_instructions
            && report.lane_instructions <= 32 * report.warp_instructions
    );
}

#[test]
fn launches_that_no_device_can_do_are_refused() {
    let device = device(1);
    let out = device.alloc(64 * 8, "out").unwrap();
    let refused = |name: &str, config: LaunchConfig, args: &[Arg]| {
        kernel(&device, name).launch(&config, args).expect_err("it is wrong").to_string()
    };
    let two = [Arg::from(out), Arg::from(out)];
    for (config, reason) in [
        (LaunchConfig { block: [1025, 1, 1], ..Default::default() }, "1025 along x"),
        (LaunchConfig { block: [32, 33, 1], ..Default::default() }, "1056 threads, where 1024 are possible"),
        (LaunchConfig { block: [1, 1, 65], ..Default::default() }, "65 along z"),
        (LaunchConfig { grid: [1, 65536, 1], ..Default::default() }, "65536 along y"),
        (LaunchConfig { grid: [0, 1, 1], ..Default::default() }, "0 along x"),
        (LaunchConfig { block: [1, 0, 1], ..Default::default() }, "0 along y"),
        (LaunchConfig { shared_bytes: 300_000, ..Default::default() }, "300000 bytes of shared memory"),
        (LaunchConfig { shared_bytes: u32::MAX, ..Default::default() }, "4294967295 bytes of shared memory"),
    ] {
        let message = refused("sums_dynamic_shared", config, &two);
        assert!(message.contains(reason) && message.contains("sums_dynamic_shared"), "{message}");
    }
    let structure = [Arg::from_bytes(&[0; 24]), Arg::from(1u8), Arg::from(out)];
    let message = refused("takes_a_struct", shape(1, 65), &structure);
    assert!(message.contains("65 threads") && message.contains("__launch_bounds__"), "{message}");
    for (args, reason) in [
        (&two[..1], "1 argument is given, where it takes 2 (u64, u64)"),
        (&[], "0 arguments are given"),
        (&[two[0].clone(), Arg::from(5u32)], "argument 2 has 4 bytes"),
        (&[Arg::from_bytes(&[0; 9]), two[1].clone()], "argument 1 has 9 bytes"),
    ] {
        let message = refused("sums_dynamic_shared", shape(1, 1), args);
        assert!(message.contains(reason), "{message}");
    }
}

#[test]
fn memory_is_accounted_for_and_guarded() {
    let device = Device::new(DeviceConfig { total_memory: 1 << 20, workers: 1, ..Default::default() });
    let a = device.alloc(1 << 19, "a").unwrap();
    assert_eq!(a.0 % 256, 0);
    let b = device.alloc(100, "b").unwrap();
    assert_eq!((device.memory().in_use, device.memory().allocations), ((1 << 19) + 100, 2));
    assert_eq!(
        device.alloc(1 << 19, "c"),
        Err(MemoryError::OutOfMemory { requested: 1 << 19, in_use: (1 << 19) + 100, total: 1 << 20 })
    );
    assert!(matches!(device.alloc(u64::MAX, "d"), Err(MemoryError::OutOfMemory { .. })));

    // the end is no place to read from, but an empty range may stand there
    assert_eq!(device.read(b.offset(100), &mut []), Ok(()));
    assert!(matches!(device.read(b.offset(97), &mut [0; 4]), Err(MemoryError::OutOfBounds { available: 3, .. })));
    assert!(matches!(device.write(b, &[0; 101]), Err(MemoryError::OutOfBounds { available: 100, .. })));
    assert!(matches!(device.fill(b.offset(1), 0, 100), Err(MemoryError::OutOfBounds { .. })));
    assert!(matches!(device.fill(b, 0, u64::MAX), Err(MemoryError::OutOfBounds { .. })));
    assert!(matches!(device.copy(a, b, 101), Err(MemoryError::OutOfBounds { .. })));
    assert!(matches!(device.read(DevicePtr(0), &mut [0; 4]), Err(MemoryError::InvalidPointer { address: 0 })));
    assert!(matches!(device.free(b.offset(4)), Err(MemoryError::NotAStart { .. })));

    // unaligned and overlapping
    let bytes: Vec<u8> = (0..100).collect();
    device.write(b, &bytes).unwrap();
    device.copy(b.offset(3), b, 90).unwrap();
    let mut read = [0; 100];
    device.read(b, &mut read).unwrap();
    assert_eq!(read[..3], bytes[..3]);
    assert_eq!(read[3..93], bytes[..90]);
    assert_eq!(read[93..], bytes[93..]);
    device.fill(b.offset(1), 7, 5).unwrap();
    device.read(b, &mut read).unwrap();
    assert_eq!(read[..8], [0, 7, 7, 7, 7, 7, 3, 4]);

    device.free(a).unwrap();
    assert!(matches!(device.free(a), Err(MemoryError::UseAfterFree { .. })), "freed twice");
    assert!(matches!(device.read(a, &mut [0]), Err(MemoryError::UseAfterFree { .. })));
    let memory = device.memory();
    assert_eq!((memory.in_use, memory.peak, memory.allocations), (100, (1 << 19) + 100, 1));
    assert_ne!(device.alloc(1 << 19, "e").unwrap(), a, "an address is never given out again");
    assert!(device.alloc(0, "empty").is_ok());
}

#[test]
fn a_module_gives_its_variables_back() {
    let device = device(1);
    let module = Module::from_ptx(FEATURES, "features.ptx").unwrap();
    let loaded = device.load(&module).unwrap();
    assert!(device.memory().in_use > 0);
    let (pointer, bytes) = loaded.global("operations").expect("the table of functions is a variable");
    assert_eq!(bytes, 24);
    assert!(device.read(pointer, &mut [0; 24]).is_ok());
    assert!(loaded.global("nothing").is_none());
    drop(loaded);
    assert_eq!(device.memory().in_use, 0);
    let small = Device::new(DeviceConfig { total_memory: 8, workers: 1, ..Default::default() });
    assert!(matches!(small.load(&module), Err(LoadError::Memory { .. })));
}

#[test]
fn one_device_serves_many_threads() {
    let device = device(2);
    let adds = kernel(&device, "adds");
    std::thread::scope(|scope| {
        for number in 1..=4u32 {
            let (device, adds) = (&device, &adds);
            scope.spawn(move || {
                let buffers: Vec<DevicePtr> = (0..3).map(|_| device.alloc(4096, "buffer").unwrap()).collect();
                let value = number as f32;
                let bytes: Vec<u8> = (0..1024).flat_map(|_| value.to_le_bytes()).collect();
                device.write(buffers[0], &bytes).unwrap();
                device.write(buffers[1], &bytes).unwrap();
                for _ in 0..20 {
                    let args =
                        [Arg::from(buffers[0]), Arg::from(buffers[1]), Arg::from(buffers[2]), Arg::from(1024u32)];
                    adds.launch(&shape(8, 128), &args).unwrap();
                }
                let mut out = vec![0; 4096];
                device.read(buffers[2], &mut out).unwrap();
                assert!(out.chunks_exact(4).all(|word| f32::from_le_bytes(word.try_into().unwrap()) == 2.0 * value));
            });
        }
    });
}

/// Among thousands of freed ones.
#[test]
fn freed_allocations_are_recognised_and_live_ones_found() {
    let device = device(1);
    let mut live = Vec::new();
    let mut freed = Vec::new();
    for number in 0..10_000_u32 {
        let pointer = device.alloc(4, "word").unwrap();
        device.write(pointer, &number.to_le_bytes()).unwrap();
        if number % 100 == 0 {
            live.push((number, pointer));
        } else {
            device.free(pointer).unwrap();
            freed.push(pointer);
        }
    }
    for (number, pointer) in live {
        assert_eq!(words(&device, pointer, 1), [number as i32]);
    }
    assert!(matches!(device.free(freed[0]), Err(MemoryError::InvalidPointer { .. })), "forgotten");
    for pointer in &freed[freed.len() - 4096..] {
        assert!(matches!(device.free(*pointer), Err(MemoryError::UseAfterFree { .. })));
    }
}

#[test]
fn copies_move_all_bytes_at_any_offset() {
    const BYTES: usize = 10_000;
    for sanitize in [false, true] {
        let device = Device::new(DeviceConfig { sanitize, ..Default::default() });
        let buffer = device.alloc(BYTES as u64, "buffer").unwrap();
        let mut expected: Vec<u8> = (0..BYTES).map(|at| (at * at % 251) as u8).collect();
        device.write(buffer, &expected).unwrap();
        for (to, from, bytes) in [(3, 0, 9000), (0, 5, 9001), (8, 0, 9000), (4097, 1, 4096), (9, 2, 5), (7, 7, 4098)] {
            device.copy(buffer.offset(to), buffer.offset(from), bytes).unwrap();
            expected.copy_within(from as usize..(from + bytes) as usize, to as usize);
            let mut found = vec![0; BYTES];
            device.read(buffer, &mut found).unwrap();
            assert!(found == expected, "{bytes} bytes from {from} to {to}");
        }
        for (at, bytes) in [(0, 0), (1, 6), (1, 7), (1, 30), (8, 8), (13, 4000)] {
            let part = vec![at as u8; bytes];
            device.write(buffer.offset(at), &part).unwrap();
            expected[at as usize..][..bytes].copy_from_slice(&part);
            let mut found = vec![0; bytes + 3];
            device.read(buffer.offset(at), &mut found).unwrap();
            assert!(found == expected[at as usize..][..bytes + 3], "{bytes} bytes at {at}");
        }
    }
}

#[test]
fn an_asynchronous_copy_reads_only_what_its_source_has() {
    let device = Device::new(DeviceConfig::default());
    let module = Module::from_ptx(include_str!("../kernels/cp_async_ragged.ptx"), "cp_async_ragged.ptx").unwrap();
    let kernel = device.load(&module).unwrap().kernel("last_bytes").unwrap();
    let words: Vec<u8> = (11..17u32).flat_map(u32::to_le_bytes).collect();
    let input = device.alloc(24, "input").unwrap();
    let output = device.alloc(32, "output").unwrap();
    device.write(input, &words).unwrap();
    device.fill(output, 0xff, 32).unwrap();
    let config = LaunchConfig { block: [2, 1, 1], ..LaunchConfig::default() };
    kernel.launch(&config, &[input.into(), output.into()]).unwrap();
    let mut found = [0; 32];
    device.read(output, &mut found).unwrap();
    assert_eq!(found[..24], words);
    assert_eq!(found[24..], [0; 8]);
    // One word less, and the second thread's eight bytes are not all there.
    let short = device.alloc(20, "short").unwrap();
    let error = kernel.launch(&config, &[short.into(), output.into()]).unwrap_err().to_string();
    assert!(error.contains("out-of-bounds read of 8 bytes"), "{error}");
}

const COOPERATIVE: &str = include_str!("../kernels/cooperative.ptx");

/// Returns the contents of the last buffer of a kernel of `cooperative.cu`.
fn cooperative(kernel: &str, config: &LaunchConfig, buffers: &[&[u32]], values: &[u32], sanitize: bool) -> Vec<u32> {
    let device = Device::new(DeviceConfig { sanitize, ..Default::default() });
    let module = device
        .load(&Module::from_ptx(COOPERATIVE, "cooperative.ptx").expect("the kernel and its buffers are ours"))
        .expect("the kernel and its buffers are ours");
    let mut args = Vec::new();
    let mut last = None;
    for words in buffers {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let pointer = device.alloc(bytes.len() as u64, "words").expect("the kernel and its buffers are ours");
        device.write(pointer, &bytes).expect("the kernel and its buffers are ours");
        args.push(Arg::from(pointer));
        last = Some((pointer, bytes.len()));
    }
    args.extend(values.iter().map(|value| Arg::from(*value)));
    module
        .kernel(kernel)
        .expect("the kernel and its buffers are ours")
        .launch(config, &args)
        .unwrap_or_else(|error| panic!("{kernel}: {error}"));
    let (pointer, length) = last.expect("the kernel and its buffers are ours");
    let mut bytes = vec![0; length];
    device.read(pointer, &mut bytes).expect("the kernel and its buffers are ours");
    bytes
        .chunks(4)
        .map(|word| u32::from_le_bytes(word.try_into().expect("the kernel and its buffers are ours")))
        .collect()
}

/// `grid.sync()`, tiles of two warps and `cuda::barrier`, in the form of CUDA's headers.
#[test]
fn barriers_of_cuda_headers_hold() {
    for sanitize in [false, true] {
        let (blocks, threads, rounds) = (12, 64, 3);
        let start: Vec<u32> = (0..blocks * threads).map(|at| at * at % 101).collect();
        let mut expected = start.clone();
        for _ in 0..rounds {
            let before = expected.clone();
            for (at, value) in expected.iter_mut().enumerate() {
                *value += before[(at + threads as usize) % before.len()];
            }
        }
        let config = LaunchConfig { cooperative: true, ..shape(blocks, threads) };
        assert_eq!(cooperative("grid_rounds", &config, &[&start], &[rounds], sanitize), expected);

        let tiles: Vec<u32> = (0..128).map(|at| (at / 64 * 64 + (at + 40) % 64) * 3 + at / 64 * 1000).collect();
        assert_eq!(cooperative("wide_tiles", &shape(1, 128), &[&[0; 128]], &[], sanitize), tiles);

        let input: Vec<u32> = (0..64 * 5).map(|at| at * 7 % 1000).collect();
        let sums: Vec<u32> = (0..64).map(|at| (0..5).map(|k| input[k * 64 + (at + 33) % 64]).sum()).collect();
        assert_eq!(cooperative("staged_sum", &shape(1, 64), &[&input, &[0; 64]], &[5], sanitize), sums);
    }
}

#[test]
fn a_cooperative_launch_has_to_fit() {
    let device = Device::new(Default::default());
    let module = device.load(&Module::from_ptx(COOPERATIVE, "cooperative.ptx").unwrap()).unwrap();
    let kernel = module.kernel("grid_rounds").unwrap();
    let config = LaunchConfig { cooperative: true, ..shape(500, 1024) };
    let error = kernel.launch(&config, &[Arg::from(0u64), Arg::from(0u32)]).unwrap_err().to_string();
    assert!(error.contains("500 blocks, where 264 of this shape fit the device at once"), "{error}");

    // More than begin in a launch of another kind. Every value takes that of the next block in.
    let (blocks, threads) = (1100, 32);
    let start: Vec<u32> = (0..blocks * threads).collect();
    let expected: Vec<u32> = start.iter().map(|at| at + (at + threads) % (blocks * threads)).collect();
    let config = LaunchConfig { cooperative: true, ..shape(blocks, threads) };
    assert!(cooperative("grid_rounds", &config, &[&start], &[1], false) == expected);
}
