//! The video U-Net as a plan: its results, its memory, its launches.

use std::collections::HashMap;

use common::check::{Tolerance, compare};
use common::device_test;
use common::prelude::*;
use phase3_all_layers::backends::{Cpu, OnHost, Planned};
use phase3_all_layers::commands::video::{Options, generate_by, peak_signal_to_noise};
use phase3_all_layers::models::unet::{Config, INPUTS, UNet};
use phase3_all_layers::nn::Parameters;
use phase3_all_layers::nn::graph::{Graph, Source};
use phase4_fusion::commands::unet::plan;
use phase4_fusion::models::Arithmetic;
use phase4_fusion::models::plan::{Edge, Ends, Plan, WithInputs};
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
    Ok(())
}

device_test! {
    fn f32_is_within_the_bound(device) {
        check(&device, Arithmetic::F32, &[700.0])
    }

    fn tf32_is_within_the_bound(device) {
        check(&device, Arithmetic::Tf32, &[700.0])
    }

    /// Two images at different steps.
    fn f16_is_within_the_bound(device) {
        check(&device, Arithmetic::F16, &[10.0, 700.0])
    }

    /// Cut where values lie channels last, and where they are rows, in planes, side by side.
    fn parts_do_what_the_whole_does(device) {
        let latents = [1, INPUTS, 8, 8];
        let graph = NARROW.graph(&NARROW.seeded(8), &latents)?;
        let (count, inputs) = (graph.nodes.len(), [Tensor::random(&latents, 1), Tensor::full(&[1], 700.0)]);
        for (arithmetic, cuts) in [(Arithmetic::F32, vec![0, 40, 210, count]), (Arithmetic::F16, vec![0, 3, 37, 122, count])] {
            let whole = plan(&device, NARROW, &NARROW.seeded(8), arithmetic, &latents)?;
            let bound = whole.likely_error();
            let expected = Runner::new(&device, whole)?.infer_all(&device.stream(), &inputs.each_ref())?;
            let expected = expected.as_slice()?;
            let cut = run_in_parts(&device, arithmetic, &graph, &cuts, &inputs)?;
            let report = compare(&cut, expected, Tolerance::of_scale(bound, expected));
            println!("{arithmetic}: {}", report.unwrap_or_else(|wrong| panic!("{wrong}")));
        }
        Ok(())
    }

    fn a_second_pass_allocates_nothing_and_gives_the_same_bits(device) {
        let inputs = [Tensor::random(&[1, INPUTS, 8, 8], 1), Tensor::full(&[1], 700.0)];
        for arithmetic in Arithmetic::ALL {
            let plan = plan(&device, NARROW, &NARROW.seeded(8), arithmetic, inputs[0].shape())?;
            let (mut runner, stream) = (Runner::new(&device, plan)?, device.stream());
            let noise = runner.infer_all(&stream, &inputs.each_ref())?;
            let before = device.memory();
            device.reset_peak_memory();
            assert_eq!(runner.infer_all(&stream, &inputs.each_ref())?.as_slice()?, noise.as_slice()?);
            let after = device.memory();
            assert_eq!((after.peak, after.allocations), (before.in_use, before.allocations));
        }
        Ok(())
    }

    fn a_plan_is_captured_as_other_models_are(device) {
        let plan = plan(&device, NARROW, &NARROW.seeded(8), Arithmetic::F16, &[1, INPUTS, 8, 8])?;
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

/// Runs parts between these nodes one after the other, each with its own runner; their results stay on the device.
fn run_in_parts(
    device: &Device,
    arithmetic: Arithmetic,
    graph: &Graph,
    cuts: &[usize],
    inputs: &[Tensor],
) -> Result<Vec<f32>> {
    let stream = device.stream();
    let mut values: HashMap<Source, (Edge, Tensor)> = HashMap::new();
    for (number, input) in inputs.iter().enumerate() {
        values.insert(Source::Input(number), (Edge::planes(input.shape()), input.to_device(device)?));
    }
    for pair in cuts.windows(2) {
        let part = graph.part(pair[0]..pair[1])?;
        let edges = part.inputs.iter().map(|input| values[&input.source].0.clone()).collect();
        let ends = if pair[1] == graph.nodes.len() { Ends::Planes } else { Ends::AsMade };
        let mut runner = Runner::new(device, Plan::of_part(device, arithmetic, part.graph, edges, ends)?)?;
        for (number, input) in part.inputs.iter().enumerate() {
            values[&input.source].1.copy_to(&stream, runner.input_mut(number)?)?;
        }
        runner.queue(&stream)?;
        if device.is_cuda() {
            // As a graph.
            runner.queue(&stream)?;
        }
        for ((output, edge), made) in part.outputs.iter().zip(runner.plan().outputs()).zip(runner.outputs()) {
            let mut kept = edge.allocate(device)?;
            made.copy_to(&stream, &mut kept)?;
            values.insert(output.source, (edge.clone(), kept));
        }
    }
    values[&graph.outputs()[0].source].1.to_host()?.into_vec()
}

/// Two frames in an arithmetic, by a network of these weights.
fn clip(device: &Device, parameters: &Parameters, [side, steps]: [usize; 2], arithmetic: Arithmetic) -> Vec<Tensor> {
    let options = Options { frames: 2, steps, side, seed: 1 };
    let plan = plan(device, NARROW, parameters, arithmetic, &[1, INPUTS, side, side]).unwrap();
    generate_by(&plan, device, NARROW, parameters, &options, || ()).unwrap()
}

const NARROW: Config = Config { channels: 8, heads: 2 };

/// A clip in f16 is as near to the one in f32 as its roundings allow. How near that is, no formula says: a network that was not trained
/// enlarges a difference in each step, and where x − √(1−ᾱ)·ε is about zero, dividing by √ᾱ sends a value to the other end, −1 or 1. But
/// f32 can say it: a clip in f32 whose *weights* were rounded to f16 has one of the three roundings that a product in f16 has. Three
/// independent ones of this size add up to three times the mean square, 4.8 dB; and 3 dB are for luck, since of a few thousand values a
/// few dozen change ends. A network that computes something else is as far as another clip is: the same frames in another order must be
/// farther by 6 dB, four times the mean square.
fn clips_agree(device: &Device, size: [usize; 2]) {
    const ROUNDINGS: f64 = 3.0;
    const LUCK: f64 = 3.0;
    let parameters = NARROW.seeded(8);
    let as_f16 = |tensor: &Tensor| tensor.to_type(ElementType::F16)?.to_type(ElementType::F32);
    let rounded = Parameters::new(parameters.iter().map(|(name, value)| (name.to_owned(), as_f16(value).unwrap())));
    let exact = clip(device, &parameters, size, Arithmetic::F32);
    let to_exact = |clip: &[Tensor]| peak_signal_to_noise(clip, &exact).unwrap();
    let decibels = to_exact(&clip(device, &parameters, size, Arithmetic::F16));
    let of_weights = to_exact(&clip(device, &rounded, size, Arithmetic::F32));
    let turned: Vec<Tensor> = exact.iter().rev().map(|frame| frame.to_host().unwrap()).collect();
    let others = to_exact(&turned);
    println!("f16: {decibels:.1} dB; weights alone: {of_weights:.1} dB; the frames in another order: {others:.1} dB");
    assert!(decibels >= of_weights - 10.0 * ROUNDINGS.log10() - LUCK, "{decibels} {of_weights}");
    assert!(decibels.is_finite() && decibels > others + 6.0, "{decibels} {others}");
}

/// A few steps, without the sanitiser, which sees each of these kernels in the passes above; the table `video` has 20.
#[test]
fn a_clip_in_f16_is_the_one_in_f32_sim() {
    clips_agree(&Device::sim(), [8, 2]);
}

#[test]
fn a_clip_in_f16_is_the_one_in_f32_cuda() {
    if let Some(device) = common::private::cuda_for_test("clips") {
        clips_agree(&device, [16, 10]);
    }
}

#[test]
fn every_launch_has_a_kernel_of_this_phase_and_says_why() {
    let (residuals, attentions) = (2 * 4 + 2 + 3 * 4, 2 * 4 + 3 + 3 * 4);
    for arithmetic in [Arithmetic::F16, Arithmetic::Tf32] {
        let plan = planned(&Device::sim(), arithmetic, &[2, INPUTS, 8, 8]).unwrap();
        // The 22 linear layers of the embedding are one, and the first convolution of each block adds its columns. Of the
        // residual blocks 14 have a shortcut, whose convolution takes the sum; in those without the second convolution does.
        let expected = [
            ("3×3 BN SiLU Add", residuals + residuals - 14),
            ("3×3 BN SiLU", 14),
            ("1×1 Add", 14),
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
        assert!(text.lines().all(|line| line.chars().count() <= bench::table::WIDTH), "{text}");
    }
}

/// Number of launches that do these, whatever their sizes.
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

/// Heads of 160 values, as in the largest configuration, and of more than any kernel takes: then phase 3 attends, and the plan
/// says why.
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
