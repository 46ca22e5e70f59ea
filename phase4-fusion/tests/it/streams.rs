//! The chain of tiny kernels, by every method.

use common::device_test;
use common::prelude::*;
use phase4_fusion::streams::{Chain, Way};

device_test! {
    fn every_way_runs_all_steps_in_their_order(device) {
        let stream = device.stream();
        for way in Way::ALL {
            let mut chain = match Chain::new(&stream, way, 6) {
                Err(error) if error.is_unsupported() => {
                    println!("{} skipped: {error}", way.name());
                    continue;
                }
                chain => chain?,
            };
            chain.check(&stream, 0)?;
            for run in 1..=3 {
                chain.queue(&stream)?;
                chain.check(&stream, run)?;
            }
            assert!(chain.check(&stream, 2).is_err(), "{}: a chain that ran once less must be found", way.name());
        }
        assert!(Chain::new(&stream, Way::Launches, 3).is_err());
        Ok(())
    }
}

#[test]
fn the_kernels_break_no_rule_that_the_sanitiser_knows() {
    let device = Device::sim_with(common::device::SimOptions { sanitize: true, ..Default::default() });
    let stream = device.stream();
    for way in Way::ALL {
        let mut chain = Chain::new(&stream, way, 2).unwrap();
        chain.queue(&stream).unwrap();
        chain.check(&stream, 1).unwrap();
    }
}
