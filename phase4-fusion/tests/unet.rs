//! The video U-Net as a plan: what it computes, in which memory, by which launches.
#![allow(clippy::unwrap_used)]

use common::check::{Tolerance, compare};
use common::device_test;
use common::prelude::*;
use phase3_all_layers::backends::{Cpu, OnHost, Planned};
use phase3_all_layers::commands::video::{Options, generate_by, peak_signal_to_noise};
use phase3_all_layers::models::unet::{Config, INPUTS, UNet};
use phase4_fusion::commands::unet::plan;
use phase4_fusion::models::Arithmetic;
use phase4_fusion::models::plan::{Plan, WithInputs};
use phase4_fusion::models::runner::Runner;

const TINY: Config = Config::TINY;

fn planned(device: &Device, arithmetic: Arithmetic, latents: &[usize]) -> Result<Plan> {
    plan(device, TINY, &TINY.seeded(8), arithmetic, latents)
}

fn check(device: &Device, arithmetic: Arithmetic, steps: &[f32]) -> Result<()> {
    let (x, steps) =
        (Tensor::random(&[steps.len(), INPUTS, 8, 8], 1), Tensor::from_vec(&[steps.len()], steps.to_vec())?);
    let cpu = Cpu::new();
    let expected = cpu.infer(&UNet::load(&cpu, TINY, &TINY.seeded(8))?.at(steps.to_host()?), &x)?;
    let mut runner = Runner::new(device, planned(device, arithmetic, x.shape())?)?;
    let stream = device.stream();
    let noise = runner.infer_all(&stream, &[&x, &steps])?;
    assert_eq!(noise.shape(), expected.shape());
    let plan = runner.plan();
    for bound in [plan.error_bound(), plan.likely_error()] {
        let tolerance = Tolerance::of_scale(bound, expected.as_slice()?);
        let report = compare(noise.as_slice()?, expected.as_slice()?, tolerance);
        println!("{arithmetic}: {}", report.unwrap_or_else(|wrong| panic!("{wrong}")));
    }
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
        check(&device, Arithmetic::F32, &[700.0])
    }

    fn tf32_is_within_the_bound(device) {
        check(&device, Arithmetic::Tf32, &[700.0])
    }

    /// Two images at steps of their own.
    fn f16_is_within_the_bound(device) {
        check(&device, Arithmetic::F16, &[10.0, 700.0])
    }

    fn a_plan_is_captured_as_other_models_are(device) {
        let plan = planned(&device, Arithmetic::F16, &[1, INPUTS, 8, 8])?;
        let (stream, x) = (device.stream(), Tensor::random(&[1, INPUTS, 8, 8], 4));
        let module = WithInputs { plan: &plan, inputs: vec![Tensor::full(&[1], 250.0).to_device(&device)?] };
        let mut planned = Planned::new(&device, &module, x.shape())?;
        let plain = planned.infer(&stream, &x)?.into_vec()?;
        let mut captured = planned.capture(&stream)?;
        let before = device.memory().allocations;
        assert_eq!(captured.infer(&stream, &x)?.into_vec()?, plain);
        assert_eq!(device.memory().allocations, before);
        Ok(())
    }
}

/// Two frames in an arithmetic.
fn clip(device: &Device, config: Config, steps: usize, arithmetic: Arithmetic) -> Vec<Tensor> {
    let (options, parameters) = (Options { frames: 2, steps, side: 8, seed: 1 }, config.seeded(8));
    let plan = plan(device, config, &parameters, arithmetic, &[1, INPUTS, 8, 8]).unwrap();
    generate_by(&plan, device, config, &parameters, &options, || ()).unwrap()
}

/// A network that was not trained enlarges differences from step to step: a clip is another one to 10 dB, the same one to 20.
fn clips_agree(device: &Device, config: Config, steps: usize) {
    let exact = clip(device, config, steps, Arithmetic::F32);
    let decibels = peak_signal_to_noise(&clip(device, config, steps, Arithmetic::F16), &exact).unwrap();
    let [first, second] = exact.try_into().unwrap();
    let turned = [second.to_host().unwrap(), first.to_host().unwrap()];
    let others = peak_signal_to_noise(&turned, &[first, second]).unwrap();
    println!("f16 to f32: {decibels:.1} dB; the frames in another order: {others:.1} dB");
    assert!(decibels.is_finite() && decibels > 20.0 && others < 10.0, "{decibels} {others}");
}

/// A few steps, without the sanitiser, which sees each of these kernels in the passes above; the table `video` has 20.
#[test]
fn a_clip_in_f16_is_the_one_in_f32_sim() {
    clips_agree(&Device::sim(), Config { channels: 8, heads: 2 }, 2);
}

#[test]
fn a_clip_in_f16_is_the_one_in_f32_cuda() {
    if let Some(device) = common::private::cuda_for_test("clips") {
        clips_agree(&device, Config { channels: 8, heads: 2 }, 10);
    }
}

#[test]
fn every_launch_has_a_kernel_of_this_phase_and_says_why() {
    let (residuals, attentions) = (2 * 4 + 2 + 3 * 4, 2 * 4 + 3 + 3 * 4);
    for arithmetic in [Arithmetic::F16, Arithmetic::Tf32] {
        let plan = planned(&Device::sim(), arithmetic, &[2, INPUTS, 8, 8]).unwrap();
        // The 22 linear layers of the embedding are one. Of the residual blocks 14 have a shortcut, whose convolution takes the sum; those without have a launch for it, and all
        // have one for the embedding.
        let expected = [
            ("3×3 BN SiLU", 2 * residuals),
            ("1×1 Add", 14),
            ("Add", residuals + residuals - 14),
            ("3×3", 1 + 3 + 1),
            ("3×3/2", 3),
            ("BN SiLU", 1),
            ("LayerNorm", 2 * attentions),
            ("Linear GELU", attentions),
            ("Linear Add", 2 * attentions),
            ("Linear", attentions + 2),
            ("Linear SiLU", 1),
            ("Attention", attentions),
            ("Concat", 12),
            ("Upsample", 3),
            ("Embedding", 1),
            ("layout", 2),
        ];
        for (layers, launches) in expected {
            assert_eq!(count(&plan, layers), launches, "{arithmetic}: {layers}");
        }
        assert_eq!(plan.launches().len(), expected.iter().map(|(_, launches)| launches).sum::<usize>());
        assert!(plan.launches().iter().all(|launch| !launch.why.is_empty()));
        let unfused: Vec<&str> =
            plan.launches().iter().filter(|launch| launch.kernel == "phase 3").map(|launch| &*launch.layers).collect();
        assert_eq!(unfused, ["Embedding"], "{arithmetic}");
        let text = plan.table("The U-Net", None).to_text();
        assert!(text.lines().all(|line| line.chars().count() <= common::table::WIDTH), "{text}");
    }
}

/// How many launches do these, whatever their sizes.
fn count(plan: &Plan, layers: &str) -> usize {
    let without_sizes = |text: &str| text.split(' ').filter(|word| !word.contains('→')).collect::<Vec<_>>().join(" ");
    plan.launches().iter().filter(|launch| without_sizes(&launch.layers) == layers).count()
}

#[test]
fn in_f32_products_add_what_follows_them() {
    let plan = planned(&Device::sim(), Arithmetic::F32, &[2, INPUTS, 8, 8]).unwrap();
    // Sums after an activation are one pass with it; the 22 linear layers of the embedding are one.
    for (layers, launches) in
        [("Linear Add", 46), ("1×1 Add", 14), ("SiLU Add", 22 + 8), ("Add", 0), ("Linear", 23 + 23 + 2 + 1)]
    {
        assert_eq!(count(&plan, layers), launches, "{layers}");
    }
    let products = plan.launches().iter().filter(|launch| launch.flops.is_some());
    assert!(products.clone().all(|launch| launch.kernel != "phase 3" && launch.why.contains("tiles of")
        || launch.layers == "Attention"));
}

/// Heads of 160 values, as the largest configuration has, and of more than any kernel takes: then phase 3 attends, and the plan says
/// why.
#[test]
fn heads_that_no_kernel_takes_are_left_to_phase_3() {
    for (channels, kernel, word) in [(40, "f16 mma", "heads of 160"), (48, "phase 3", "up to 160")] {
        let config = Config { channels, heads: 1 };
        let parameters = config.seeded(1);
        let plan = plan(&Device::sim(), config, &parameters, Arithmetic::F16, &[1, INPUTS, 8, 8]).unwrap();
        let attentions = plan.launches().iter().filter(|launch| launch.layers == "Attention");
        assert!(attentions.clone().any(|launch| launch.kernel == kernel && launch.why.contains(word)));
        // Of 23, those of four times the channels: two levels of two and of three, and the middle.
        assert_eq!((attentions.clone().count(), attentions.filter(|launch| launch.kernel == kernel).count()), (23, 13));
    }
}
