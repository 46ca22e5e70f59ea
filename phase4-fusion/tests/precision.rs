//! A format for each layer of a model: what single layers cost, what a plan of several formats computes, and what is chosen.
#![allow(clippy::unwrap_used)]

use common::check::{Tolerance, compare};
use common::device_test;
use common::prelude::*;
use common::tensor::F8E4M3;
use phase3_all_layers::models::resnet::{self, ResNet};
use phase3_all_layers::nn::graph::{Graph, Recorder};
use phase4_fusion::models::Arithmetic;
use phase4_fusion::models::adaptive::calibrate::relative_error;
use phase4_fusion::models::adaptive::cost::Limits;
use phase4_fusion::models::adaptive::{Calibration, Costs, FORMATS, choose};
use phase4_fusion::models::plan::Plan;
use phase4_fusion::models::runner::Runner;
use phase4_fusion::recast::Recast;

/// Channels that are filled up, and a linear layer whose rows do not begin at 16 bytes.
const NARROW: resnet::Config = resnet::Config { widths: [8, 12, 16, 20], blocks: [1, 1, 2, 1], classes: 10 };

fn narrow(images: &[usize]) -> Graph {
    Graph::record(&ResNet::load(&Recorder, NARROW, &NARROW.seeded(1)).unwrap(), images).unwrap()
}

/// Formats that differ from layer to layer, by a seed.
fn shuffled(calibration: &Calibration, seed: usize) -> Vec<Arithmetic> {
    let mut formats = calibration.uniform(Arithmetic::F32);
    for (at, layer) in calibration.layers().iter().enumerate() {
        let able: Vec<Arithmetic> = FORMATS.into_iter().filter(|format| layer.error(*format).is_some()).collect();
        if !able.is_empty() {
            formats[at] = able[(seed + at * (at + seed)) % able.len()];
        }
    }
    calibration.follow(&mut formats);
    formats
}

device_test! {
    /// Each value is rounded once, with zeros beyond the channels that there are.
    fn types_are_changed_between_numbers_of_channels(device) {
        let Some(recast) = common::testing::planted::here(&device, Recast::load(&device))? else { return Ok(()) };
        let stream = device.stream();
        for (from, to) in Recast::PAIRS {
            for (pixels, channels, filled) in [(1, 8, 8), (35, 24, 64), (35, 64, 24), (301, 16, 32)] {
                let x = Tensor::random(&[pixels, channels, 1, 1], 3).to_type(from)?;
                let values = x.to_f64()?;
                let times = if to == ElementType::F16 || to == ElementType::F32 { 1.0 } else { 150.0 };
                let expected: Vec<f64> = (0..pixels * filled).map(|at| {
                    let (pixel, channel) = (at / filled, at % filled);
                    let value = if channel < channels { values[pixel * channels + channel] as f32 * times } else { 0.0 };
                    match to {
                        ElementType::F16 => f64::from(half::f16::from_f32(value)),
                        ElementType::I8 => f64::from(value.round_ties_even().clamp(-128.0, 127.0)),
                        ElementType::F8E4M3 => F8E4M3::from_f64(f64::from(value)).to_f64(),
                        _ => f64::from(value),
                    }
                }).collect();
                let there = x.to_format(MemoryFormat::Nhwc)?.to_device(&device)?;
                let mut y = Tensor::empty_of(&device, &[pixels, filled, 1, 1], to, MemoryFormat::Nhwc)?;
                y.poison(&stream)?;
                recast.launch(&stream, &there, times, &mut y)?;
                // In the order of memory.
                let found = y.to_f64()?;
                let report = compare(&found, &expected, Tolerance::exact());
                report.unwrap_or_else(|wrong| panic!("{from} to {to}, {pixels} × {channels} to {filled}: {wrong}"));
            }
        }
        Ok(())
    }
}

device_test! {
    /// Whatever each layer is computed in: what the device makes is what the host says that roundings make.
    fn a_plan_of_many_formats_errs_as_the_host_says(device) {
        let shape = [2, 3, 33, 36];
        let images = Tensor::random(&shape, 2);
        let calibration = Calibration::run(&device, narrow(&shape), &[&images])?;
        for layer in calibration.layers() {
            println!("{} {} {:?}", layer.name, layer.largest, layer.candidates);
        }
        let exact = calibration.exact_output().to_vec();
        for seed in 0..5 {
            let formats = shuffled(&calibration, seed);
            let plan = Plan::mixed(&device, narrow(&shape), &[&shape], &calibration.formats(formats.clone()))?;
            for launch in plan.launches() {
                println!("   {} {} {} {}", launch.node, launch.format, launch.layers, launch.kernel);
            }
            let found = Runner::new(&device, plan)?.infer(&device.stream(), &images)?;
            let (error, emulated) = (relative_error(found.as_slice()?, &exact)?, calibration.emulated(&formats)?);
            println!("{seed}: {error:.3e}, emulated {emulated:.3e}, predicted {:.3e}, others {:?}", calibration.predicted(&formats), calibration.errors(&formats));
            assert!(error <= 1.5 * emulated + 1e-5 && emulated <= 1.5 * error + 1e-5, "{error} {emulated}");
        }
        Ok(())
    }
}

#[test]
fn budgets_sim() {
    let device = Device::sim();
    let shape = [2, 3, 33, 36];
    let images = Tensor::random(&shape, 2);
    let calibration = Calibration::run(&device, narrow(&shape), &[&images]).unwrap();
    let costs = Costs::floor(&calibration, Limits::H200, 2000.0);
    for budget in [1e-6, 1e-4, 5e-4, 1e-3, 1e-2, 0.1] {
        let chosen = choose(&calibration, &costs, budget);
        println!("{budget}: {:.3e} {:.5} {:?}", chosen.predicted, chosen.ms, chosen.formats.each);
        assert!(chosen.predicted <= budget);
    }
    for format in FORMATS {
        println!("{format}: {:.5}", costs.total(&calibration.uniform(format)));
    }
}
