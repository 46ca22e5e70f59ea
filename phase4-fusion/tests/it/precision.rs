//! A format for each layer of a model: the errors of single layers, plans of several formats, and the choice.

use common::device_test;
use common::prelude::*;
use common::testing::planted;
use phase3_all_layers::data::digits::{BATCH, Digits};
use phase3_all_layers::digits;
use phase3_all_layers::models::autoencoder::{self, Autoencoder, Stage};
use phase3_all_layers::models::resnet::{self, ResNet};
use phase3_all_layers::models::unet;
use phase3_all_layers::nn::graph::{Graph, Recorder};
use phase4_fusion::commands::precision::{Model, Subject};
use phase4_fusion::models::Arithmetic;
use phase4_fusion::models::adaptive::calibrate::{LARGEST_F16, relative_error};
use phase4_fusion::models::adaptive::cost::Limits;
use phase4_fusion::models::adaptive::{Calibration, Costs, FORMATS, choose};
use phase4_fusion::models::int8::WeightSteps;
use phase4_fusion::models::plan::{Formats, Plan};
use phase4_fusion::models::runner::Runner;
use phase4_fusion::recast::{Recast, SOURCE};
use phase4_fusion::trials::recast_right;

/// Padded channels, and a linear layer whose rows do not begin at multiples of 16 bytes.
const NARROW: resnet::Config = resnet::Config { widths: [8, 12, 16, 20], blocks: [1, 1, 2, 1], classes: 10 };

fn narrow(images: &[usize]) -> Graph {
    Graph::record(&ResNet::load(&Recorder, NARROW, &NARROW.seeded(1)).unwrap(), images).unwrap()
}

/// Linear layers with or without a GELU, and rows that are normalised.
fn rows(batch: usize) -> (Graph, Vec<usize>) {
    let config = autoencoder::Config { n_mels: 64, frames: 3, latent: 32, slice_latent: 48 };
    let shape = Stage::SliceEncoding.input_shape(&config, batch).to_vec();
    let model = Autoencoder::load(&Recorder, config, &config.seeded(5)).unwrap();
    (Graph::record(&model, &shape).unwrap(), shape)
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
    /// Each value is rounded once, with zeros beyond the existing channels.
    fn types_are_changed_between_numbers_of_channels(device) {
        let Some(recast) = planted::here(&device, Recast::load(&device))? else { return Ok(()) };
        for pair in Recast::PAIRS {
            for size in [[0, 8, 8], [1, 8, 8], [35, 24, 64], [35, 64, 24], [301, 16, 32]] {
                let right = recast_right(&device, &recast, pair, size)?;
                right.unwrap_or_else(|wrong| panic!("{pair:?} {size:?}: {wrong}"));
            }
        }
        let mut y = Tensor::empty_of(&device, &[3, 12, 1, 1], ElementType::F16, MemoryFormat::Nhwc)?;
        let x = Tensor::zeros(&[3, 8]).to_device(&device)?;
        let error = recast.launch(&device.stream(), &x, 1.0, &mut y).unwrap_err().to_string();
        assert!(error.contains("no multiples of 8"), "{error}");
        Ok(())
    }
}

#[test]
fn planted_mistakes_in_changes_of_type_are_found() {
    let device = Device::sim();
    for (right, wrong) in [
        ("if (channel < pixels.from) {", "if (true) {"),
        ("* pixels.groups) * 8", "* pixels.groups) * 4"),
        ("cvt.rni.sat.s8.f32 %0, %1;\" : \"=r\"(high)", "cvt.rzi.sat.s8.f32 %0, %1;\" : \"=r\"(high)"),
    ] {
        let recast = Recast::load_from(&device, &planted::planted(&SOURCE, right, wrong)).unwrap();
        let found = recast_right(&device, &recast, (ElementType::F16, ElementType::I8), [35, 24, 64]);
        assert!(!matches!(found, Ok(Ok(_))), "{wrong}");
    }
}

/// Result of the device for `formats`, with the bits of a second pass.
fn made(device: &Device, plan: Plan, inputs: &[&Tensor]) -> Vec<f32> {
    let mut runner = Runner::new(device, plan).unwrap();
    let found = runner.infer_all(&device.stream(), inputs).unwrap().into_vec().unwrap();
    assert_eq!(runner.infer_all(&device.stream(), inputs).unwrap().into_vec().unwrap(), found);
    found
}

/// Whatever each layer is computed in, the device errs as the host predicts: a factor of 1.5 allows for sums in another order,
/// which round some values to their other neighbour.
fn errs_as_the_host_says(device: &Device, graph: impl Fn() -> Graph, inputs: &[&Tensor], seeds: usize) {
    let calibration = Calibration::run(device, graph(), inputs).unwrap();
    let shapes: Vec<&[usize]> = inputs.iter().map(|input| input.shape()).collect();
    let mut seen = Vec::new();
    for seed in 0..seeds {
        let formats = shuffled(&calibration, seed);
        let plan = Plan::mixed(device, graph(), &shapes, &calibration.formats(formats.clone())).unwrap();
        assert!(plan.launches().iter().all(|launch| !launch.why.is_empty()));
        seen.extend(plan.launches().iter().map(|launch| launch.kernel.clone()));
        let error = relative_error(&made(device, plan, inputs), calibration.exact_output()).unwrap();
        let (emulated, predicted) = (calibration.emulated(&formats).unwrap(), calibration.predicted(&formats));
        println!(
            "{seed}: {error:.2e}, emulated {emulated:.2e}, predicted {predicted:.2e} {:?}",
            calibration.errors(&formats)
        );
        assert!(error <= 1.5 * emulated + 1e-5 && emulated <= 1.5 * error + 1e-5, "{error} {emulated}");
    }
    // On a GPU without these tensor cores everything is in f32.
    if calibration.layers().iter().any(|layer| layer.error(Arithmetic::Int8).is_some()) {
        assert!(seen.iter().any(|kernel| kernel.contains("i8")), "{seen:?}");
    }
}

device_test! {
    fn a_network_of_many_formats_errs_as_the_host_says(device) {
        let shape = [2, 3, 33, 36];
        errs_as_the_host_says(&device, || narrow(&shape), &[&Tensor::random(&shape, 2)], 3);
        Ok(())
    }

    fn rows_of_many_formats_err_as_the_host_says(device) {
        let shape = rows(5).1;
        errs_as_the_host_says(&device, || rows(5).0, &[&Tensor::random(&shape, 2)], 6);
        Ok(())
    }
}

/// The U-Net: images that become tokens and back, attention, sums by channel, linear layers side by side. Without the sanitiser, which sees
/// each kernel elsewhere.
fn a_unet_of_many_formats(device: &Device) {
    let (config, latents) = (unet::Config { channels: 8, heads: 2 }, [1, unet::INPUTS, 8, 8]);
    let parameters = config.seeded(8);
    let inputs = [Tensor::random(&latents, 1), Tensor::full(&[1], 250.0)];
    let graph = || config.graph(&parameters, &latents).unwrap();
    let formats = |seed: usize, nodes: usize| (0..nodes).map(|at| FORMATS[(at * 7 + at / 5 + seed) % 4]).collect();
    let nodes = {
        let mut graph = graph();
        phase4_fusion::models::fuse::all(&mut graph).unwrap();
        graph.nodes.len()
    };
    let scales = phase4_fusion::models::int8::Scales::of_largest(&[1.0, 250.0], &vec![8.0; nodes]);
    let run = |each: Vec<Arithmetic>| {
        let formats = Formats { each, scales: scales.clone() };
        let plan = Plan::mixed(device, graph(), &[&latents, &[1]], &formats).unwrap();
        let bound = plan.error_bound();
        (made(device, plan, &[&inputs[0], &inputs[1]]), bound)
    };
    let (exact, _) = run(vec![Arithmetic::F32; nodes]);
    for seed in 0..2 {
        let (found, bound) = run(formats(seed, nodes));
        let error = relative_error(&found, &exact).unwrap();
        println!("{seed}: {error:.2e}, bound {bound:.2e}");
        assert!(error > 1e-6 && error <= bound.min(0.3), "{error} {bound}");
    }
}

#[test]
fn a_unet_of_many_formats_is_planned_sim() {
    a_unet_of_many_formats(&Device::sim());
}

#[test]
fn a_unet_of_many_formats_is_planned_cuda() {
    if let Some(device) = common::private::cuda_for_test("precision") {
        a_unet_of_many_formats(&device);
    }
}

/// Factor by which a plan may exceed its budget, over inputs that it was not calibrated with.
const MARGIN: f64 = 1.5;

device_test! {
    /// Calibrated over some images, measured over others.
    fn fresh_inputs_keep_to_the_budget(device) {
        // Of three images bytes would get too small a range: what is beyond it in others is cut off.
        let (calibrated, fresh) = ([16, 3, 33, 36], [2, 3, 33, 36]);
        let calibration = Calibration::run(&device, narrow(&calibrated), &[&Tensor::random(&calibrated, 2)])?;
        let images = Tensor::random(&fresh, 77);
        let plan = |formats: &Formats| Plan::mixed(&device, narrow(&fresh), &[&fresh], formats);
        let exact = made(&device, plan(&calibration.formats(calibration.uniform(Arithmetic::F32)))?, &[&images]);
        let costs = Costs::floor(&calibration, Limits::H200, 1000.0);
        let mut before = f64::INFINITY;
        for budget in [5e-4, 1e-3, 3e-2] {
            let chosen = choose(&calibration, &costs, budget);
            assert_eq!(choose(&calibration, &costs, budget).formats, chosen.formats);
            let error = relative_error(&made(&device, plan(&chosen.formats)?, &[&images]), &exact)?;
            println!("{budget:e}: predicted {:.2e}, measured {error:.2e}, {:.4} ms", chosen.predicted, chosen.ms);
            assert!(chosen.predicted <= budget && error <= MARGIN * budget, "{budget}: {} {error}", chosen.predicted);
            // The prediction is no more than a few times too large either.
            assert!(chosen.predicted <= 4.0 * error + 1e-5, "{} {error}", chosen.predicted);
            assert!(chosen.ms <= before, "a larger budget costs no more");
            before = chosen.ms;
        }
        Ok(())
    }
}

/// Compared with all possible plans: four products of up to five formats.
#[test]
fn the_choice_is_the_best_of_all() {
    let device = Device::sim();
    let (graph, shape) = rows(7);
    let calibration = Calibration::run(&device, graph, &[&Tensor::random(&shape, 2)]).unwrap();
    // A GPU on which products are dear.
    let limits = Limits { flops: 2e12, flops_f16: 30e12, ..Limits::H200 };
    let costs = Costs::floor(&calibration, limits, 50_000.0);
    let mut all = vec![calibration.uniform(Arithmetic::F32)];
    for (at, layer) in calibration.layers().iter().enumerate().filter(|(_, layer)| layer.is_chosen_for()) {
        let able: Vec<Arithmetic> = FORMATS.into_iter().filter(|format| layer.error(*format).is_some()).collect();
        let with = |formats: &Vec<Arithmetic>| {
            able.iter().map(|format| [&formats[..at], &[*format], &formats[at + 1..]].concat()).collect::<Vec<_>>()
        };
        all = all.iter().flat_map(with).collect();
    }
    all.iter_mut().for_each(|formats| calibration.follow(formats));
    assert!(all.len() >= 100, "{}", all.len());
    for budget in [1e-5, 1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2, 1e-1] {
        let chosen = choose(&calibration, &costs, budget);
        let within = all.iter().filter(|formats| calibration.predicted(formats) <= budget);
        let best = within.map(|formats| costs.total(formats)).fold(f64::INFINITY, f64::min);
        println!("{budget:e}: {:.4} ms, the best {best:.4}; {:?}", chosen.ms, chosen.formats.each);
        assert!(chosen.ms <= best * (1.0 + 1e-9), "{budget}: {} ms, and {best} ms is possible", chosen.ms);
    }
}

/// Accuracy that a plan may lose.
const LOST: f64 = 0.003;

/// Calibrated with images of the training set, each layer in bytes; a filter that is 1024 times as large as the others of its
/// layer changes nothing, unless all filters have one step.
fn digits_in_bytes(device: &Device, digits_held_out: &Digits) {
    let f32 = digits::evaluate_on_cpu().unwrap();
    let in_f32 = {
        let count = digits_held_out.labels().len();
        let right = f32.predictions.iter().zip(digits_held_out.labels()).filter(|(a, b)| a == b).count();
        right as f64 / count as f64
    };
    let subject = Subject::new(device, Model::DigitsOutlier).unwrap();
    let calibration = subject.calibrate(device).unwrap();
    let formats = calibration.formats(calibration.uniform(Arithmetic::Int8));
    let of = |formats: &Formats| subject.answers(device, formats, digits_held_out).unwrap().accuracy;
    let one_step = Formats { scales: formats.scales.clone().with_weights(WeightSteps::PerTensor), ..formats.clone() };
    let (per_filter, per_tensor) = (of(&formats), of(&one_step));
    println!("f32 {in_f32}, int8 {per_filter}, with one step {per_tensor}");
    let in_bytes = formats.each.iter().filter(|format| **format == Arithmetic::Int8).count();
    if device.is_sim() {
        assert_eq!(in_bytes, 21);
    }
    if in_bytes > 0 {
        assert!((per_filter - in_f32).abs() <= LOST && per_tensor < 0.5 * in_f32, "{in_f32} {per_filter} {per_tensor}");
    }
}

#[test]
fn a_batch_of_digits_in_bytes_is_read_as_in_f32_sim() {
    digits_in_bytes(&Device::sim(), &Digits::built_in().unwrap().first(BATCH));
}

#[test]
#[ignore = "the simulator takes half a minute for all 360 digits; a GPU reads them in the test below"]
fn all_digits_in_bytes_are_read_as_in_f32_sim() {
    digits_in_bytes(&Device::sim(), &Digits::built_in().unwrap());
}

#[test]
fn all_digits_in_bytes_are_read_as_in_f32_cuda() {
    if let Some(device) = common::private::cuda_for_test("precision") {
        digits_in_bytes(&device, &Digits::built_in().unwrap());
    }
}

/// A layer whose values are beyond f16's: f16 everywhere gives values that are not finite, and the calibration names the layer.
fn beyond_f16(device: &Device) {
    let subject = Subject::new(device, Model::DigitsRange).unwrap();
    let calibration = subject.calibrate(device).unwrap();
    let large: Vec<_> = calibration.layers().iter().filter(|layer| layer.largest > LARGEST_F16).collect();
    let [layer] = large[..] else { panic!("{large:?}") };
    let there = calibration.layers().iter().position(|other| other.largest == layer.largest).unwrap();
    assert_eq!(layer.name, "3×3/2 BN ReLU");
    let Some(error) = layer.error(Arithmetic::F16) else { return }; // a GPU without these kernels
    assert!(error.is_infinite() && layer.error(Arithmetic::Tf32).unwrap() < 1e-3);
    let expected = subject.expected().unwrap();
    let measure = |formats: &Formats| subject.measure(device, formats, &expected).unwrap().0;
    let f16 = calibration.formats(calibration.uniform(Arithmetic::F16));
    assert!(calibration.predicted(&f16.each).is_infinite() && measure(&f16).is_infinite());
    let budget = 1e-3;
    let chosen = choose(&calibration, &Costs::floor(&calibration, Limits::H200, 40.0), budget);
    let error = measure(&chosen.formats);
    println!("{:?}: {error:.2e}", chosen.formats.each);
    assert!(error <= MARGIN * budget, "{error}");
    assert!(matches!(chosen.formats.each[there], Arithmetic::F32 | Arithmetic::Tf32));
    assert!(chosen.why[there].ends_with("beyond its range"), "{}", chosen.why[there]);
    assert!(chosen.formats.each.contains(&Arithmetic::F16), "the others are in f16");
}

#[test]
fn a_layer_beyond_f16_is_kept_out_of_it_sim() {
    beyond_f16(&Device::sim());
}

#[test]
fn a_layer_beyond_f16_is_kept_out_of_it_cuda() {
    if let Some(device) = common::private::cuda_for_test("precision") {
        beyond_f16(&device);
    }
}

#[test]
fn formats_of_another_model_are_refused() {
    let device = Device::sim();
    let formats = Formats { each: vec![Arithmetic::F16; 3], scales: Default::default() };
    let error = Plan::mixed(&device, narrow(&[1, 3, 32, 32]), &[&[1, 3, 32, 32]], &formats).unwrap_err();
    assert_eq!(error.to_string(), "3 formats were given for a model of 17 nodes");
}
