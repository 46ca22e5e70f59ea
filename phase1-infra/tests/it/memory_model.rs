//! The kernels of the page on the memory model: the right ones are right on both devices, and the sanitiser tells them from the
//! others, whose values are right as well.

use common::check::{Tolerance, assert_close};
use common::device::SimOptions;
use common::device_test;
use common::prelude::*;
use phase1_infra::memory_model::{LAST_BLOCK, MESSAGE, SWAP, Writer, message, sum, swap};

const SIZES: [usize; 8] = [0, 1, 2, 31, 32, 33, 1000, 4097];

fn values(n: usize) -> Vec<f32> {
    Tensor::random(&[n], 1).into_vec().unwrap()
}

device_test! {
    fn a_message_arrives_whichever_block_writes_it(device) {
        for name in ["message_fenced", "message_released"] {
            let kernel = device.kernel(&MESSAGE, name)?;
            for writer in Writer::ALL {
                assert_eq!(message(&device.stream(), &kernel, 42.5, writer)?, 42.5, "{name}, {writer:?}");
            }
        }
        Ok(())
    }

    fn pairs_are_swapped_at_every_size(device) {
        let kernel = device.kernel(&SWAP, "swap_ordered")?;
        for n in SIZES {
            let x = values(n);
            let expected: Vec<f32> = (0..n).map(|i| x.get(i ^ 1).copied().unwrap_or(0.0)).collect();
            assert_eq!(swap(&device.stream(), &kernel, &x)?, expected, "n = {n}");
        }
        Ok(())
    }

    fn the_last_block_has_the_sum_at_every_size(device) {
        let kernel = device.kernel(&LAST_BLOCK, "sum_fenced")?;
        for n in SIZES {
            let x = values(n);
            let expected: f64 = x.iter().map(|&value| f64::from(value)).sum();
            let magnitude = x.iter().map(|&value| f64::from(value).abs()).sum();
            assert_close(&[sum(&device.stream(), &kernel, &x)?], &[expected], Tolerance::dot(n, magnitude));
        }
        Ok(())
    }
}

/// Kinds of the sanitiser's findings in `run`.
fn findings<T>(run: impl FnOnce(&Device) -> Result<T>) -> Vec<String> {
    match run(&Device::sim_with(SimOptions { sanitize: true, ..SimOptions::default() })).err() {
        None => Vec::new(),
        Some(Error::Findings { findings, .. }) => {
            findings.iter().map(|finding| finding.kind.name().to_owned()).collect()
        }
        Some(error) => panic!("not a finding: {error}"),
    }
}

#[test]
fn the_sanitiser_tells_the_pairs_apart() {
    let of_message =
        |name: &str| findings(|device| message(&device.stream(), &device.kernel(&MESSAGE, name)?, 1.0, Writer::First));
    assert_eq!(of_message("message_plain"), ["global-race", "global-race"]);
    assert_eq!(of_message("message_volatile"), ["global-race"]);
    assert_eq!(of_message("message_block"), ["global-race"]);
    let of_swap = |name: &str| findings(|device| swap(&device.stream(), &device.kernel(&SWAP, name)?, &[1.0, 2.0]));
    assert_eq!(of_swap("swap_hoped"), ["shared-race"]);
    let of_sum =
        |name: &str| findings(|device| sum(&device.stream(), &device.kernel(&LAST_BLOCK, name)?, &values(100)));
    assert_eq!(of_sum("sum_hoped"), ["global-race"]);
    for clean in
        [of_message("message_fenced"), of_message("message_released"), of_swap("swap_ordered"), of_sum("sum_fenced")]
    {
        assert_eq!(clean, [""; 0]);
    }
}

/// Without the sanitiser nothing of this shows: the simulator happens to run blocks and lanes in an order that does no harm. One
/// worker makes that certain: with two, the reader may come first, and its flag, read once, never changes.
#[test]
fn the_broken_ones_give_right_values_on_the_simulator() {
    let device = Device::sim_with(SimOptions { workers: 1, ..SimOptions::default() });
    let stream = device.stream();
    for name in ["message_plain", "message_volatile", "message_block"] {
        let kernel = device.kernel(&MESSAGE, name).unwrap();
        assert_eq!(message(&stream, &kernel, 7.0, Writer::First).unwrap(), 7.0, "{name}");
    }
    let kernel = device.kernel(&SWAP, "swap_hoped").unwrap();
    assert_eq!(swap(&stream, &kernel, &[1.0, 2.0, 3.0]).unwrap(), [2.0, 1.0, 0.0]);
    let kernel = device.kernel(&LAST_BLOCK, "sum_hoped").unwrap();
    assert_eq!(sum(&stream, &kernel, &[1.0; 100]).unwrap(), 100.0);
}
