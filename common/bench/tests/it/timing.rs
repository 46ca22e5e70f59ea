//! Measuring on both devices.

use bench::timing::{Bench, Clock};
use common::device_test;
use common::prelude::*;

const INCREMENT: KernelSource = kernel_source!("../tests/kernels", "scale_add");

device_test! {
    fn a_timing_carries_its_clock(device) {
        let stream = device.stream();
        let kernel = device.kernel(&INCREMENT, "increment")?;
        let mut values = stream.alloc_zeros::<u32>(1000)?;
        let bench = Bench { warm_up: 2, repeats: 5, ..Bench::default() };
        let mut runs = 0;
        let timing = bench.measure(&stream, || {
            runs += 1;
            // SAFETY: the kernel compares its index with n, the buffer's length.
            unsafe {
                stream
                    .launch_builder(&kernel)
                    .arg(&mut values)
                    .arg(&1000u32)
                    .launch(LaunchConfig::for_threads(1000))
            }
        })?;
        if device.is_sim() {
            assert_eq!((timing.clock(), timing.median_ms(), runs), (Clock::Counts, None, 1));
            assert_eq!(timing.counts().unwrap().launches, 1);
        } else {
            assert_eq!((timing.clock(), timing.repeats(), runs), (Clock::DeviceEvents, 5, 7));
            assert!(timing.median_ms().unwrap() > 0.0);
        }
        assert_eq!(stream.clone_dtoh(&values)?, vec![runs; 1000]);
        Ok(())
    }
}
