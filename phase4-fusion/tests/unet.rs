//! The video U-Net as a plan: what it computes, in which memory, by which launches.
#![allow(clippy::unwrap_used)]

use common::check::{Tolerance, compare};
use common::device_test;
use common::prelude::*;
use phase3_all_layers::backends::{Cpu, OnHost};
use phase3_all_layers::models::unet::{Config, INPUTS, UNet};
use phase4_fusion::commands::unet::plan;
use phase4_fusion::models::Arithmetic;
use phase4_fusion::models::plan::Plan;
use phase4_fusion::models::runner::Runner;

const TINY: Config = Config::TINY;

fn planned(device: &Device, arithmetic: Arithmetic, latents: &[usize]) -> Result<Plan> {
    plan(device, TINY, &TINY.seeded(8), arithmetic, latents)
}

fn check(device: &Device, arithmetic: Arithmetic) -> Result<()> {
    let (x, steps) = (Tensor::random(&[2, INPUTS, 8, 8], 1), Tensor::from_vec(&[2], vec![10.0, 700.0])?);
    let cpu = Cpu::new();
    let expected = cpu.infer(&UNet::load(&cpu, TINY, &TINY.seeded(8))?.at(steps.to_host()?), &x)?;
    let mut runner = Runner::new(device, planned(device, arithmetic, x.shape())?)?;
    let stream = device.stream();
    let noise = runner.infer_all(&stream, &[&x, &steps])?;
    assert_eq!(noise.shape(), expected.shape());
    let tolerance = Tolerance::of_scale(runner.plan().error_bound(), expected.as_slice()?);
    let report = compare(noise.as_slice()?, expected.as_slice()?, tolerance).unwrap_or_else(|wrong| panic!("{wrong}"));
    println!("{arithmetic}: {report}, scale {}", common::check::scale(expected.as_slice()?));
    // A second pass allocates nothing, and gives the same bits.
    let before = device.memory();
    device.reset_peak_memory();
    assert_eq!(runner.infer_all(&stream, &[&x, &steps])?.as_slice()?, noise.as_slice()?);
    let after = device.memory();
    assert_eq!((after.peak, after.allocations), (before.in_use, before.allocations));
    Ok(())
}

device_test! {
    fn f32_is_within_the_bound(device) {
        check(&device, Arithmetic::F32)
    }

    fn tf32_is_within_the_bound(device) {
        check(&device, Arithmetic::Tf32)
    }

    fn f16_is_within_the_bound(device) {
        check(&device, Arithmetic::F16)
    }
}
