//! Launches: results, and the errors of wrong ones, on both devices.

use common::check::assert_close;
use common::device_test;
use common::prelude::*;
use common::reference;

const SCALE_ADD: KernelSource = kernel_source!("tests/kernels", "scale_add");
const ARGUMENTS: KernelSource = kernel_source!("tests/kernels", "arguments");
const SHARED: KernelSource = kernel_source!("tests/kernels", "shared");
const FAULTY: KernelSource = kernel_source!("tests/kernels", "faulty");

/// out[0] = 1 if `pointer` is null, else 0.
const IS_NULL: &str = "
    .version 7.0
    .target sm_70
    .address_size 64
    .visible .entry is_null(.param .u64 out, .param .u64 pointer) {
        .reg .pred %p<2>;
        .reg .b32 %r<2>;
        .reg .b64 %rd<3>;
        ld.param.u64 %rd1, [out];
        ld.param.u64 %rd2, [pointer];
        setp.eq.u64 %p1, %rd2, 0;
        selp.u32 %r1, 1, 0, %p1;
        st.global.u32 [%rd1], %r1;
        ret;
    }";

/// The struct of `arguments.cu`.
#[derive(Clone, Copy)]
#[repr(C)]
struct Mixed {
    a: i32,
    b: f32,
    c: f64,
    d: i8,
    padding: [u8; 7],
}

// SAFETY: `repr(C)`, any bit pattern is valid, and the padding is spelled out.
unsafe impl bytemuck::Zeroable for Mixed {}
// SAFETY: as above.
unsafe impl bytemuck::Pod for Mixed {}

const DEPENDENT: KernelSource = kernel_source!("tests/kernels", "dependent");

device_test! {
    /// All SMs hold the same number; half the threads, and more shared memory, change it.
    fn resident_blocks_are_those_of_all_multiprocessors(device) {
        let kernel = device.kernel(&SCALE_ADD, "scale_add")?;
        let Some(multiprocessors) = device.properties().multiprocessors else {
            assert_eq!(kernel.resident_blocks(256, 0)?, None);
            return Ok(());
        };
        let of_sm = |threads, shared| Ok::<_, Error>(kernel.resident_blocks(threads, shared)?.unwrap() / multiprocessors);
        assert_eq!(kernel.resident_blocks(1024, 0)?.unwrap() % multiprocessors, 0);
        assert!(of_sm(1024, 0)? >= 1 && of_sm(512, 0)? >= 2 * of_sm(1024, 0)?);
        assert!(of_sm(64, 40 << 10)? < of_sm(64, 0)?);
        Ok(())
    }
}

device_test! {
    /// Each launch reverses the previous one's result.
    fn dependent_launches_come_in_their_order(device) {
        let kernel = match device.kernel(&DEPENDENT, "reverse_add_one") {
            Err(error) if error.is_unsupported() => {
                println!("skipped: {error}");
                return Ok(());
            }
            kernel => kernel?,
        };
        let stream = device.stream();
        let (count, launches) = (if device.is_sim() { 3_000u32 } else { 3_000_000 }, 51);
        let start: Vec<u32> = (0..count).collect();
        let (mut from, mut to) = (stream.clone_htod(&start)?, stream.clone_htod(&start)?);
        for _ in 0..launches {
            let mut launch = stream.launch_builder(&kernel);
            launch.arg(&from).arg(&mut to).arg(&count).dependent();
            // SAFETY: the kernel reads and writes `count` elements, and waits before it does.
            unsafe { launch.launch(LaunchConfig::for_threads(count))? };
            std::mem::swap(&mut from, &mut to);
        }
        let expected: Vec<u32> = start.iter().rev().map(|value| value + launches).collect();
        assert_eq!(stream.clone_dtoh(&from)?, expected);
        Ok(())
    }

    fn ragged_sizes_are_computed_and_nothing_else_is_written(device) {
        let stream = device.stream();
        let kernel = device.kernel(&SCALE_ADD, "scale_add")?;
        for n in [0usize, 1, 255, 256, 257, 1000] {
            let x = Tensor::random(&[n], 1).into_vec()?;
            let y = Tensor::random(&[n], 2).into_vec()?;
            let (x_dev, y_dev) = (stream.clone_htod(&x)?, stream.clone_htod(&y)?);
            let mut out = stream.alloc_poisoned::<f32>(n + 1)?;
            // SAFETY: the kernel compares its index with n; all buffers hold at least n values.
            unsafe {
                stream
                    .launch_builder(&kernel)
                    .arg(&x_dev)
                    .arg(&y_dev)
                    .arg(&mut out)
                    .arg(&1.0f32)
                    .arg(&(n as u32))
                    .launch(LaunchConfig::for_threads(n as u32))?;
            }
            let out = stream.clone_dtoh(&out)?;
            let expected = reference::vector_add(&x, &y)?;
            assert_close(&out[..n], &expected.values, expected.tolerance());
            assert!(out[n].is_nan(), "written past the end for n = {n}");
        }
        Ok(())
    }

    fn a_buffer_given_again_is_read_and_written_in_place(device) {
        let stream = device.stream();
        let kernel = device.kernel(&SCALE_ADD, "scale_add")?;
        let x = Tensor::random(&[300], 1).into_vec()?;
        let y = Tensor::random(&[300], 2).into_vec()?;
        let (x_dev, mut y_dev) = (stream.clone_htod(&x)?, stream.clone_htod(&y)?);
        let mut launch = stream.launch_builder(&kernel);
        launch.arg(&x_dev).arg(&mut y_dev).arg_again(1).arg(&1.0f32).arg(&300u32);
        // SAFETY: the kernel compares its index with 300; a thread writes only the value it has read.
        unsafe { launch.launch(LaunchConfig::for_threads(300))? };
        let expected = reference::vector_add(&x, &y)?;
        assert_close(&stream.clone_dtoh(&y_dev)?, &expected.values, expected.tolerance());
        Ok(())
    }

    fn launches_on_a_stream_run_in_order_and_views_are_arguments(device) {
        let stream = device.stream();
        let kernel = device.kernel(&SCALE_ADD, "increment")?;
        let mut values = stream.alloc_zeros::<u32>(100)?;
        for _ in 0..10 {
            let mut middle = values.slice_mut(20..50);
            // SAFETY: the kernel compares its index with 30, the view's length.
            unsafe {
                stream
                    .launch_builder(&kernel)
                    .arg(&mut middle)
                    .arg(&30u32)
                    .launch(LaunchConfig::linear(30, 8))?;
            }
        }
        for (i, value) in stream.clone_dtoh(&values)?.into_iter().enumerate() {
            assert_eq!(value, if (20..50).contains(&i) { 10 } else { 0 }, "at {i}");
        }
        Ok(())
    }

    fn every_kind_of_argument_arrives(device) {
        let stream = device.stream();
        let kernel = device.kernel(&ARGUMENTS, "arguments")?;
        let types: Vec<_> = kernel.params().iter().map(|param| param.bytes).collect();
        assert_eq!(types, [8, 1, 2, 4, 8, 4, 8, 24]);
        let mut out = stream.alloc_poisoned::<f64>(10)?;
        let mixed = Mixed { a: -7, b: 0.25, c: 1e100, d: -128, padding: [0; 7] };
        let one = LaunchConfig::linear(1, 1);
        // SAFETY: the kernel writes ten values, and its parameters are as given here.
        unsafe {
            stream
                .launch_builder(&kernel)
                .arg(&mut out)
                .arg(&-3i8)
                .arg(&65_535u16)
                .arg(&-100_000i32)
                .arg(&(1i64 << 50))
                .arg(&1.5f32)
                .arg(&-2.5f64)
                .arg(&mixed)
                .launch(one)?;
        }
        let expected = [-3.0, 65_535.0, -1e5, (1u64 << 50) as f64, 1.5, -2.5, -7.0, 0.25, 1e100, -128.0];
        assert_eq!(stream.clone_dtoh(&out)?, expected);
        Ok(())
    }

    fn an_absent_buffer_is_a_null_pointer(device) {
        let stream = device.stream();
        let kernel = device.load_ptx(IS_NULL, "is_null.ptx")?.kernel("is_null")?;
        let values = stream.clone_htod(&[7u32])?;
        let mut out = stream.alloc_poisoned::<u32>(1)?;
        for (buffer, expected) in [(None, 1), (Some(&values), 0)] {
            let mut launch = stream.launch_builder(&kernel);
            launch.arg(Some(&mut out)).arg(buffer);
            // SAFETY: the kernel writes one value to its first argument and compares the second with null.
            unsafe { launch.launch(LaunchConfig::linear(1, 1))? };
            assert_eq!(stream.clone_dtoh(&out)?, [expected]);
        }
        let increment = device.kernel(&SCALE_ADD, "increment")?;
        let mut launch = stream.launch_builder(&increment);
        launch.arg(&mut out).arg(None::<&Buffer<u32>>);
        // SAFETY: rejected before it runs.
        let error = unsafe { launch.launch(LaunchConfig::linear(1, 1)) }.unwrap_err();
        assert_eq!(
            error.to_string(),
            "kernel `increment`: argument 2 is a null pointer of 8 bytes, the parameter has 4; it takes (u64, u32)"
        );
        Ok(())
    }

    fn wrong_arguments_are_refused_before_anything_runs(device) {
        let stream = device.stream();
        let kernel = device.kernel(&SCALE_ADD, "increment")?;
        let mut values = stream.alloc_zeros::<u32>(4)?;
        let config = LaunchConfig::linear(4, 32);
        // SAFETY: rejected before it runs.
        let few = unsafe { stream.launch_builder(&kernel).arg(&mut values).launch(config) };
        assert_eq!(
            few.unwrap_err().to_string(),
            "kernel `increment`: 1 argument given for 2 parameters; it takes (u64, u32)"
        );
        // SAFETY: rejected before it runs.
        let many = unsafe {
            stream.launch_builder(&kernel).arg(&mut values).arg(&4u32).arg(&4u32).launch(config)
        };
        assert_eq!(
            many.unwrap_err().to_string(),
            "kernel `increment`: 3 arguments given for 2 parameters; it takes (u64, u32)"
        );
        // SAFETY: rejected before it runs.
        let wide = unsafe { stream.launch_builder(&kernel).arg(&mut values).arg(&4u64).launch(config) };
        assert_eq!(
            wide.unwrap_err().to_string(),
            "kernel `increment`: argument 2 is a value of 8 bytes, the parameter has 4; it takes (u64, u32)"
        );
        let mut second = stream.alloc_zeros::<u32>(4)?;
        // SAFETY: rejected before it runs.
        let buffer = unsafe {
            stream.launch_builder(&kernel).arg(&mut values).arg(&mut second).launch(config)
        };
        assert_eq!(
            buffer.unwrap_err().to_string(),
            "kernel `increment`: argument 2 is a buffer's address of 8 bytes, the parameter has 4; it takes (u64, u32)"
        );
        assert_eq!(stream.clone_dtoh(&values)?, [0; 4]);
        Ok(())
    }

    fn impossible_geometries_are_refused_with_the_limit(device) {
        let stream = device.stream();
        let kernel = device.kernel(&SHARED, "bounded")?;
        let mut counter = stream.alloc_zeros::<u32>(1)?;
        let mut attempt = |grid_dim, block_dim, shared_mem_bytes| {
            let config = LaunchConfig { grid_dim, block_dim, shared_mem_bytes };
            // SAFETY: the kernel only adds to the one value it is given.
            let launched = unsafe { stream.launch_builder(&kernel).arg(&mut counter).launch(config) };
            launched.map_err(|error| {
                assert!(matches!(error, Error::LaunchConfig { .. }), "{error}");
                error.to_string()
            })
        };
        let one = (1, 1, 1);
        let refused = "kernel `bounded` cannot be launched: ";
        for (grid, block, shared, reason) in [
            ((0, 1, 1), one, 0, "the grid is [0, 1, 1], and no dimension may be 0"),
            (one, (32, 0, 1), 0, "the block is [32, 0, 1], and no dimension may be 0"),
            ((1, 65_536, 1), one, 0, "the grid is [1, 65536, 1], at most [2147483647, 65535, 65535] is possible"),
            (one, (1, 1, 65), 0, "the block is [1, 1, 65], at most [1024, 1024, 64] is possible"),
            (one, (1024, 2, 1), 0, "a block of [1024, 2, 1] has 2048 threads, the device allows 1024"),
            (one, (129, 1, 1), 0, "a block of [129, 1, 1] has 129 threads, this kernel allows 128"),
            (one, (32, 1, 1), 1 << 20, "a block needs 1048576 bytes of shared memory (0 static, 1048576 dynamic), the device has "),
        ] {
            let error = attempt(grid, block, shared).unwrap_err();
            assert!(error.starts_with(&format!("{refused}{reason}")), "{error}");
        }
        attempt((2, 1, 1), (128, 1, 1), 0).unwrap();
        assert_eq!(stream.clone_dtoh(&counter)?, [256]);
        Ok(())
    }

    fn shared_memory_beyond_48_kib_is_asked_for(device) {
        let stream = device.stream();
        let kernel = device.kernel(&SHARED, "reverse")?;
        let most = device.properties().shared_per_block_optin;
        // The large one first, so that the small one does not pass only because of it.
        for bytes in [most, 40 << 10, most, 4] {
            let n = bytes / 4;
            let values: Vec<f32> = (0..n).map(|i| i as f32).collect();
            let mut buffer = stream.clone_htod(&values)?;
            let config = LaunchConfig {
                grid_dim: (1, 1, 1),
                block_dim: (256, 1, 1),
                shared_mem_bytes: n * 4,
            };
            // SAFETY: the kernel touches n values of the buffer and of shared memory.
            unsafe { stream.launch_builder(&kernel).arg(&mut buffer).arg(&n).launch(config)? };
            let reversed = stream.clone_dtoh(&buffer)?;
            assert!(reversed.iter().rev().eq(values.iter()), "{n} values");
        }
        Ok(())
    }

    fn threads_and_handles_share_what_shared_memory_a_kernel_asked_for(device) {
        let most = device.properties().shared_per_block_optin;
        let run = |kernel: &Kernel, stream: &Stream, bytes: u32| {
            let n = bytes / 4;
            let values: Vec<f32> = (0..n).map(|i| i as f32).collect();
            let mut buffer = stream.clone_htod(&values)?;
            let config = LaunchConfig { grid_dim: (1, 1, 1), block_dim: (256, 1, 1), shared_mem_bytes: n * 4 };
            // SAFETY: the kernel touches n values of the buffer and of shared memory.
            unsafe { stream.launch_builder(kernel).arg(&mut buffer).arg(&n).launch(config)? };
            assert!(stream.clone_dtoh(&buffer)?.iter().rev().eq(values.iter()), "{n} values");
            Ok::<_, Error>(())
        };
        // The second handle asks for less, which must not take from the first what it asked for.
        let (first, second) = (device.kernel(&SHARED, "reverse")?, device.kernel(&SHARED, "reverse")?);
        for (kernel, bytes) in [(&first, most), (&second, 60 << 10), (&first, most)] {
            run(kernel, &device.stream(), bytes)?;
        }
        for round in 0..8 {
            // A module of its own has asked for nothing yet.
            let module = device.load_ptx(&SHARED.shipped_ptx().unwrap(), &format!("shared {round}"))?;
            let kernel = module.kernel("reverse")?;
            std::thread::scope(|scope| {
                let threads = [60 << 10, most, 100 << 10, 80 << 10].map(|bytes| {
                    let (kernel, device, run) = (&kernel, &device, &run);
                    scope.spawn(move || run(kernel, &device.new_stream()?, bytes))
                });
                threads.into_iter().try_for_each(|thread| thread.join().unwrap())
            })?;
        }
        Ok(())
    }

    fn kernels_and_buffers_of_another_device_are_refused(device) {
        let other = Device::sim();
        let kernel = device.kernel(&SCALE_ADD, "increment")?;
        let foreign_kernel = other.kernel(&SCALE_ADD, "increment")?;
        let stream = device.stream();
        let mut own = stream.alloc_zeros::<u32>(1)?;
        let mut foreign = other.stream().alloc_zeros::<u32>(1)?;
        let config = LaunchConfig::linear(1, 1);
        // SAFETY: rejected before it runs.
        let error = unsafe { stream.launch_builder(&foreign_kernel).arg(&mut own).arg(&1u32).launch(config) };
        assert!(matches!(error, Err(Error::WrongDevice { what: "kernel", .. })), "{error:?}");
        // SAFETY: rejected before it runs.
        let error = unsafe { stream.launch_builder(&kernel).arg(&mut foreign).arg(&1u32).launch(config) };
        assert!(matches!(error, Err(Error::WrongDevice { what: "buffer", .. })), "{error:?}");
        Ok(())
    }

    fn a_kernel_that_is_not_there_is_an_error_with_those_that_are(device) {
        let error = device.kernel(&SCALE_ADD, "scale_ad").unwrap_err();
        assert_eq!(
            error.to_string(),
            "`common/tests/kernels/scale_add.cu` has no kernel `scale_ad`; it has `scale_add`, `increment`"
        );
        Ok(())
    }

    fn ptx_that_is_garbage_or_truncated_is_an_error(device) {
        let ptx = SCALE_ADD.shipped_ptx().unwrap();
        // Cut in the middle of an instruction.
        let truncated = &ptx[..ptx.find("st.global").unwrap() + 5];
        for (name, text) in [("garbage.ptx", "this is no PTX"), ("truncated.ptx", truncated)] {
            let error = device.load_ptx(text, name).unwrap_err();
            assert!(matches!(error, Error::Load { .. }), "{error}");
            let text = error.to_string();
            assert!(text.starts_with(&format!("cannot load `{name}` on {}: ", device.short_name())), "{text}");
        }
        // The device is still usable.
        let module = device.load_ptx(&ptx, "scale_add.ptx")?;
        assert_eq!(module.kernel_names().collect::<Vec<_>>(), ["scale_add", "increment"]);
        assert_eq!(module.kernel("increment")?.name(), "increment");
        Ok(())
    }
}

#[test]
fn the_simulator_names_the_line_of_an_access_out_of_bounds() {
    let device = Device::sim();
    let stream = device.stream();
    let kernel = device.kernel(&FAULTY, "out_of_bounds").unwrap();
    let mut values = stream.alloc_zeros::<f32>(100).unwrap();
    // SAFETY: the simulator stops the stray write.
    let launched =
        unsafe { stream.launch_builder(&kernel).arg(&mut values).arg(&100u32).launch(LaunchConfig::for_threads(100)) };
    let error = launched.unwrap_err();
    let Error::Fault { fault, rendered } = &error else { panic!("{error}") };
    assert_eq!((fault.kernel.as_str(), fault.line), ("out_of_bounds", Some(5)));
    assert_eq!((fault.block, fault.thread), ([0, 0, 0], [100, 0, 0]));
    assert!(rendered.contains("values[i] = 1.0f;"), "{rendered}");
    assert!(rendered.contains("faulty.cu"), "{rendered}");
}

#[test]
fn the_simulator_stops_a_kernel_that_never_ends() {
    let device = Device::sim_with(common::device::SimOptions { budget: Some(100_000), ..Default::default() });
    let stream = device.stream();
    let kernel = device.kernel(&FAULTY, "endless").unwrap();
    let mut flag = stream.alloc_zeros::<u32>(1).unwrap();
    // SAFETY: the kernel only reads the value it is given.
    let launched = unsafe { stream.launch_builder(&kernel).arg(&mut flag).launch(LaunchConfig::linear(1, 1)) };
    let error = launched.unwrap_err();
    assert!(matches!(error, Error::Fault { .. }), "{error}");
    assert!(error.to_string().contains("endless"), "{error}");
    // The device is still usable.
    assert_eq!(stream.clone_dtoh(&flag).unwrap(), [0]);
}
