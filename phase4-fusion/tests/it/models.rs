//! Phase 3's models as plans of launches: their results and their memory.

use common::check::{Tolerance, compare};
use common::device_test;
use common::prelude::*;
use phase3_all_layers::backends::{Cpu, OnHost};
use phase3_all_layers::digits;
use phase3_all_layers::models::resnet::{Config, ResNet};
use phase4_fusion::commands::classifier;
use phase4_fusion::commands::resnet18::{plan, plan_in_bytes};
use phase4_fusion::models::Arithmetic;
use phase4_fusion::models::int8::{self, Scales};
use phase4_fusion::models::plan::Plan;
use phase4_fusion::models::runner::Runner;

/// Whole steps of channels, as ResNet18 has them.
const WIDE: Config = Config { widths: [64, 64, 128, 128], blocks: [2, 1, 1, 1], classes: 20 };
/// Padded channels, and a linear layer whose rows do not begin at multiples of 16 bytes.
const NARROW: Config = Config { widths: [8, 12, 16, 20], blocks: [1, 1, 2, 1], classes: 10 };

fn planned(device: &Device, config: Config, arithmetic: Arithmetic, images: &[usize]) -> Result<Plan> {
    plan(device, config, &config.seeded(1), arithmetic, images)
}

fn expected(config: Config, images: &Tensor) -> Tensor {
    let cpu = Cpu::new();
    cpu.infer(&ResNet::load(&cpu, config, &config.seeded(1)).unwrap(), images).unwrap()
}

fn check(device: &Device, config: Config, shape: &[usize], arithmetic: Arithmetic) -> Result<()> {
    let images = Tensor::random(shape, 2);
    let expected = expected(config, &images);
    let mut runner = Runner::new(device, planned(device, config, arithmetic, shape)?)?;
    let (stream, bound) = (device.stream(), runner.plan().error_bound());
    let logits = runner.infer(&stream, &images)?;
    assert_eq!(logits.shape(), expected.shape());
    let tolerance = Tolerance::of_scale(bound, expected.as_slice()?);
    let report = compare(logits.as_slice()?, expected.as_slice()?, tolerance).unwrap_or_else(|wrong| panic!("{wrong}"));
    println!("{arithmetic} {shape:?}: {report}");
    // A second pass allocates nothing, and gives the same bits.
    let before = device.memory();
    device.reset_peak_memory();
    assert_eq!(runner.infer(&stream, &images)?.as_slice()?, logits.as_slice()?);
    let after = device.memory();
    assert_eq!((after.peak, after.allocations), (before.in_use, before.allocations));
    Ok(())
}

device_test! {
    fn a_network_of_whole_steps_is_within_the_bound(device) {
        for arithmetic in Arithmetic::ALL {
            check(&device, WIDE, &[1, 3, 40, 32], arithmetic)?;
        }
        Ok(())
    }

    /// 36 pixels of three f16 are not a multiple of 16 bytes, so the image is padded too.
    fn a_network_of_few_channels_is_within_the_bound(device) {
        for arithmetic in Arithmetic::ALL {
            check(&device, NARROW, &[2, 3, 33, 36], arithmetic)?;
        }
        Ok(())
    }
}

device_test! {
    /// Compared with the CPU's network in f32 and, within one step of the logits, with a network on the host that rounds at the
    /// same places.
    fn a_network_in_bytes_is_what_the_host_makes_of_the_same_bytes(device) {
        let shape = [2, 3, 33, 36];
        check(&device, NARROW, &shape, Arithmetic::Int8)?;
        let (images, parameters) = (Tensor::random(&shape, 2), NARROW.seeded(1));
        let scales = Scales::calibrate(NARROW, &parameters, &images)?;
        let plan = plan_in_bytes(&device, NARROW, &parameters, &scales, &shape)?;
        let logits = Runner::new(&device, plan)?.infer(&device.stream(), &images)?;
        let expected = int8::on_host(NARROW, &parameters, &scales, &images)?;
        let tolerance = Tolerance::of_scale(1.0 / 127.0, expected.as_slice()?);
        let report = compare(logits.as_slice()?, expected.as_slice()?, tolerance).unwrap_or_else(|wrong| panic!("{wrong}"));
        println!("beside the host's bytes: {report}");
        Ok(())
    }
}

#[test]
fn the_plan_in_bytes_keeps_to_them_between_the_convolutions() {
    let plan = planned(&Device::sim(), Config::RESNET18, Arithmetic::Int8, &[1, 3, 64, 64]).unwrap();
    let of = |kernel: &str| plan.launches().iter().filter(|launch| launch.kernel.starts_with(kernel)).count();
    // The image to channels last, and bytes of what the pooling makes.
    assert_eq!((of("conv i8"), of("conv few"), of("convert"), plan.launches().len()), (19, 1, 2, 25));
    assert_eq!(plan.launches().iter().filter(|launch| launch.why.ends_with("to f16")).count(), 1);
    let text = plan.table("ResNet18", None).to_text();
    assert!(text.lines().all(|line| line.chars().count() <= bench::table::WIDTH), "{text}");
}

/// Without the sanitiser. Calibrated by the first 64 images, whose labels are not used.
fn digits_in_bytes(device: &Device, most: usize) {
    let (expected, found) = (digits::evaluate_on_cpu().unwrap(), classifier::digits(device, Arithmetic::Int8).unwrap());
    let others = found.predictions.iter().zip(&expected.predictions).filter(|(a, b)| a != b).count();
    println!("int8: {others} of 360 predictions differ; accuracy {} against {}", found.accuracy, expected.accuracy);
    assert!(
        others <= most && (found.accuracy - expected.accuracy).abs() <= 0.003,
        "{} {}",
        found.accuracy,
        expected.accuracy
    );
}

#[test]
fn digits_are_read_in_bytes_sim() {
    digits_in_bytes(&Device::sim(), 0);
}

#[test]
fn digits_are_read_in_bytes_cuda() {
    if let Some(device) = common::private::cuda_for_test("digits") {
        digits_in_bytes(&device, 1);
    }
}

/// Where two logits nearly agree, rounding may decide: f16 for one image of them all.
fn digits_agree(device: &Device, arithmetic: Arithmetic) {
    let expected = digits::evaluate_on_cpu().unwrap();
    let found = classifier::digits(device, arithmetic).unwrap();
    let others = found.predictions.iter().zip(&expected.predictions).filter(|(a, b)| a != b).count();
    println!("{arithmetic}: {others} of {} predictions differ", found.predictions.len());
    assert_eq!(found.predictions.len(), 360);
    assert!(others <= usize::from(arithmetic == Arithmetic::F16), "{arithmetic}: {others}");
}

/// Without the sanitiser, which sees each of these kernels in smaller networks; 360 images take long.
#[test]
fn digits_are_read_as_the_cpu_reads_them_sim() {
    digits_agree(&Device::sim(), Arithmetic::F16);
}

#[test]
fn digits_are_read_as_the_cpu_reads_them_cuda() {
    if let Some(device) = common::private::cuda_for_test("digits") {
        Arithmetic::ALL.into_iter().for_each(|arithmetic| digits_agree(&device, arithmetic));
    }
}

#[test]
fn the_plan_of_resnet18_has_a_launch_for_each_convolution_and_says_why() {
    for arithmetic in [Arithmetic::F16, Arithmetic::F32] {
        has_a_launch_for_each_convolution(arithmetic);
    }
}

fn has_a_launch_for_each_convolution(arithmetic: Arithmetic) {
    let plan = planned(&Device::sim(), Config::RESNET18, arithmetic, &[1, 3, 224, 224]).unwrap();
    let of = |layers: &str| plan.launches().iter().filter(|launch| launch.layers.ends_with(layers)).count();
    assert_eq!((of("BN ReLU"), of("BN Add ReLU"), of("BN")), (9, 8, 3));
    assert_eq!((of("MaxPool"), of("AvgPool"), of("Linear 512→1000")), (1, 1, 1));
    // The image is planes of f32 already.
    let layouts = usize::from(arithmetic != Arithmetic::F32);
    assert_eq!((of("layout"), plan.launches().len()), (layouts, 23 + layouts));
    let unfused = plan.launches().iter().filter(|launch| launch.kernel == "phase 3").count();
    // Both poolings.
    assert_eq!(unfused, if arithmetic == Arithmetic::F32 { 2 } else { 0 });
    assert!(plan.launches().iter().all(|launch| !launch.why.is_empty()));
    let flops: u64 = plan.launches().iter().filter_map(|launch| launch.flops).sum();
    assert_eq!(flops, 2 * 1_814_073_344);
    let text = plan.table("ResNet18", None).to_text();
    assert!(text.lines().all(|line| line.chars().count() <= bench::table::WIDTH), "{text}");
}
