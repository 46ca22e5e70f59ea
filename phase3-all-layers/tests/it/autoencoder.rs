//! The autoencoder on both devices: each stage alone and the whole, against f64 and against the CPU; what happens where a device
//! fails. `large` only in small batches and `xlarge` only on the CPU, since they would keep the simulator busy for long.

use crate::golden;
use crate::models;
use common::check::{Report, Tolerance, assert_close, compare};
use common::device_test;
use common::prelude::*;
use common::testing::planted;
use phase3_all_layers::backends::{Cpu, OnHost, Planned, Reliable, Sources, Unfused, infer};
use phase3_all_layers::layers::{Gelu, LayerNorm, RowNorm};
use phase3_all_layers::models::autoencoder::{Autoencoder, Config, Stage};
use phase3_all_layers::nn::Parameters;

use models::{assert_captured, assert_no_allocation};

const SEED: u64 = 5;
/// Tolerance of any value of a whole pass.
const TOLERANCE: f64 = 2e-6;
/// Tolerance of the mean error.
const MEAN: f64 = 2e-7;
/// Tolerance of any value of a stage. It is larger, since sums of the first two, of up to 10,240 terms, are averaged later.
const OF_STAGE: f64 = 5.7e-6;

/// Sizes that no tile, vector or warp divides.
const ODD: Config = Config { n_mels: 13, frames: 3, latent: 5, slice_latent: 7 };
/// Configurations that run on devices, in batches of these sizes.
const CASES: [(Config, &[usize]); 4] =
    [(ODD, &[1, 3, 33]), (Config::ORIGINAL, &[1, 3, 33]), (Config::MEDIUM, &[1, 3, 33]), (Config::LARGE, &[1])];

/// The model in f64, one loop per dimension.
struct InF64<'a> {
    config: Config,
    parameters: &'a Parameters,
}

impl InF64<'_> {
    fn values(&self, name: &str) -> Vec<f64> {
        let (_, tensor) = self.parameters.iter().find(|(other, _)| *other == name).unwrap();
        tensor.as_slice().unwrap().iter().map(|&value| f64::from(value)).collect()
    }

    fn layer_norm(&self, x: &[f64], name: &str) -> Vec<f64> {
        let (weight, bias) = (self.values(&format!("{name}.weight")), self.values(&format!("{name}.bias")));
        let rows = x.chunks(weight.len()).flat_map(|row| {
            let mean = row.iter().sum::<f64>() / row.len() as f64;
            let variance = row.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / row.len() as f64;
            let scale = 1.0 / (variance + f64::from(1e-5f32)).sqrt();
            row.iter().zip(&weight).zip(&bias).map(|((x, w), b)| (x - mean) * scale * w + b).collect::<Vec<_>>()
        });
        rows.collect()
    }

    /// x·Wᵀ of rows of `inputs`.
    fn product(x: &[f64], weight: &[f64], inputs: usize) -> Vec<f64> {
        let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum();
        let rows = x.chunks(inputs).flat_map(|row| weight.chunks(inputs).map(move |of_w| dot(row, of_w)));
        rows.collect()
    }

    fn linear(&self, x: &[f64], name: &str, inputs: usize) -> Vec<f64> {
        let bias = self.values(&format!("{name}.bias"));
        let mut y = Self::product(x, &self.values(&format!("{name}.weight")), inputs);
        y.iter_mut().enumerate().for_each(|(i, y)| *y += bias[i % bias.len()]);
        y
    }

    /// G, \[L, C\].
    fn basis(&self) -> Vec<f64> {
        let rows = self.values("basis");
        let rows = rows.chunks(self.config.combined()).flat_map(|row| {
            let norm = row.iter().map(|x| x * x).sum::<f64>().sqrt().max(1e-12);
            row.iter().map(move |x| x / norm)
        });
        rows.collect()
    }

    fn stage(&self, stage: Stage, x: &[f64]) -> Vec<f64> {
        let Config { n_mels, latent, slice_latent, .. } = self.config;
        let gelu = |x: &f64| 0.5 * x * libm::erfc(-x / 2f64.sqrt());
        match stage {
            Stage::SliceEncoding => {
                let x = self.layer_norm(x, "slice_norm");
                self.linear(&x, "slice_encoder", n_mels).iter().map(gelu).collect()
            }
            Stage::Projection => Self::product(x, &self.basis(), self.config.combined()),
            Stage::Bottleneck => {
                let x = self.layer_norm(x, "bottleneck_norm");
                self.linear(&x, "bottleneck", latent).iter().map(gelu).collect()
            }
            Stage::Reconstruction => {
                let (basis, combined) = (self.basis(), self.config.combined());
                let transposed: Vec<f64> =
                    (0..basis.len()).map(|i| basis[i % latent * combined + i / latent]).collect();
                Self::product(x, &transposed, latent)
            }
            Stage::SliceDecoding => self.linear(x, "slice_decoder", slice_latent),
        }
    }

    fn all(&self, x: &Tensor) -> Vec<f64> {
        Stage::ALL.iter().fold(wide(x), |x, &stage| self.stage(stage, &x))
    }
}

fn wide(x: &Tensor) -> Vec<f64> {
    x.as_slice().unwrap().iter().map(|&x| f64::from(x)).collect()
}

fn close_within(tolerance: f64, found: &Tensor, expected: &[f64]) -> Report {
    let compared = compare(found.as_slice().unwrap(), expected, Tolerance::absolute(tolerance));
    compared.unwrap_or_else(|mismatch| panic!("{mismatch}"))
}

/// The result of a whole pass.
fn close(found: &Tensor, expected: &[f64]) {
    let report = close_within(TOLERANCE, found, expected);
    assert!(report.mean_abs <= MEAN, "{report}");
}

/// The reconstruction \[B, F·M\] of `x` \[B, F·M\] by the CPU, which calls `observe` with the output of each stage.
fn on_cpu(
    config: Config,
    parameters: &Parameters,
    x: &Tensor,
    mut observe: impl FnMut(Stage, &Tensor) + Send,
) -> Tensor {
    let cpu = Cpu::new();
    let model = Autoencoder::load(&cpu, config, parameters).unwrap();
    let mut stages = Stage::ALL.into_iter();
    let y = cpu.observe(&model, &config.slices(x).unwrap(), |name, y| {
        let stage = stages.next().unwrap();
        assert_eq!(name, stage.name());
        observe(stage, y);
    });
    assert_eq!(stages.next(), None);
    y.unwrap().reshape(x.shape()).unwrap()
}

#[test]
fn every_configuration_on_the_cpu_is_close_to_f64_stage_by_stage() {
    for (seed, (_, config)) in (1..).zip([("odd", ODD)].into_iter().chain(Config::ALL)) {
        let parameters = config.seeded(SEED);
        let in_f64 = InF64 { config, parameters: &parameters };
        let x = Tensor::random(&[3, config.inputs()], seed);
        let mut before = wide(&x);
        let y = on_cpu(config, &parameters, &x, |stage, y| {
            close_within(OF_STAGE, y, &in_f64.stage(stage, &before));
            before = wide(y);
        });
        assert_eq!(y.shape(), x.shape());
        close(&y, &in_f64.all(&x));
    }
}

/// Compares a stage's output for a batch of 3 with PyTorch's: all of it, or of a long one the beginning and the summary.
fn as_in_pytorch(name: &str, stage: Stage, y: &Tensor) {
    let key = format!("{name}.{}", stage as usize + 1);
    let values = y.as_slice().unwrap();
    let first = if values.len() > 4096 { format!("{key}.first") } else { key.clone() };
    let expected = golden::tensor("autoencoder", &first);
    let expected = expected.as_slice().unwrap();
    println!("{key}");
    assert_close(&values[..expected.len()], expected, Tolerance::absolute(OF_STAGE));
    if values.len() > 4096 {
        golden::assert_summary("autoencoder", &format!("{key}.summary"), values);
    } else {
        assert_eq!(expected.len(), values.len(), "{key}");
    }
}

#[test]
fn every_stage_on_the_cpu_gives_what_pytorch_gives() {
    for (name, config) in Config::ALL {
        let parameters = config.seeded(SEED);
        golden::assert_digest(&format!("autoencoder {name}"), &parameters);
        let x = Tensor::random(&[3, config.inputs()], 1);
        on_cpu(config, &parameters, &x, |stage, y| as_in_pytorch(name, stage, y));
    }
}

device_test! {
    fn every_stage_gives_what_pytorch_gives(device) {
        for (name, config) in Config::ALL.into_iter().take(3) {
            let parameters = config.seeded(SEED);
            let model = Reliable::load(&Unfused::new(&device), config, &parameters)?;
            let mut y = Tensor::random(&[3, config.inputs()], 1);
            for stage in Stage::ALL {
                let x = y.reshape(&stage.input_shape(&config, 3))?;
                y = infer(&device.stream(), &model.only(stage), &x)?;
                as_in_pytorch(name, stage, &y);
            }
            assert!(model.warnings().is_empty(), "{:?}", model.warnings());
        }
        Ok(())
    }

    fn each_stage_alone_is_close_to_f64(device) {
        for (config, batches) in CASES {
            let parameters = config.seeded(SEED);
            let model = Reliable::load(&Unfused::new(&device), config, &parameters)?;
            let in_f64 = InF64 { config, parameters: &parameters };
            let cpu = Cpu::new();
            let on_cpu = Autoencoder::load(&cpu, config, &parameters)?;
            for &batch in batches {
                // What the stage before makes of noise is what a stage meets.
                let mut x = Tensor::random(&[batch, config.inputs()], 1);
                for stage in Stage::ALL {
                    x = x.reshape(&stage.input_shape(&config, batch))?;
                    let y = infer(&device.stream(), &model.only(stage), &x)?;
                    assert_eq!(y.shape(), stage.output_shape(&config, batch), "{stage}");
                    close_within(OF_STAGE, &y, &in_f64.stage(stage, &wide(&x)));
                    x = cpu.infer(on_cpu.only(stage), &x)?;
                }
            }
            assert!(model.warnings().is_empty(), "{:?}", model.warnings());
        }
        Ok(())
    }

    fn the_whole_is_close_to_f64_and_to_the_cpu(device) {
        for (config, batches) in CASES {
            let parameters = config.seeded(SEED);
            let model = Reliable::load(&Unfused::new(&device), config, &parameters)?;
            for &batch in batches {
                let x = Tensor::random(&[batch, config.inputs()], 1);
                let y = model.reconstruct(&device.stream(), &x)?;
                assert_eq!(y.shape(), x.shape());
                close(&y, &InF64 { config, parameters: &parameters }.all(&x));
                close(&y, &wide(&on_cpu(config, &parameters, &x, |_, _| ())));
            }
            assert!(model.warnings().is_empty(), "{:?}", model.warnings());
        }
        Ok(())
    }

    fn a_batch_of_none_is_none_and_a_nan_stays_in_its_spectrogram(device) {
        let parameters = ODD.seeded(SEED);
        let model = Reliable::load(&Unfused::new(&device), ODD, &parameters)?;
        assert!(model.reconstruct(&device.stream(), &Tensor::zeros(&[0, ODD.inputs()]))?.is_empty());
        let mut x = Tensor::random(&[2, ODD.inputs()], 1).into_vec()?;
        x[0] = f32::NAN;
        let x = Tensor::from_vec(&[2, ODD.inputs()], x)?;
        let y = model.reconstruct(&device.stream(), &x)?.into_vec()?;
        let (first, second) = y.split_at(ODD.inputs());
        assert!(first.iter().all(|value| value.is_nan()) && second.iter().all(|value| value.is_finite()));
        assert!(model.warnings().is_empty());
        Ok(())
    }

    fn a_pass_allocates_nothing_and_wrong_shapes_are_refused(device) {
        let parameters = Config::ORIGINAL.seeded(SEED);
        let model = Reliable::load(&Unfused::new(&device), Config::ORIGINAL, &parameters)?;
        let slices = Tensor::random(&[5 * 4, 64], 1);
        let mut planned = model.plan(&device, 4)?;
        assert_no_allocation(&mut planned, &device.stream(), &slices)?;
        let kinds: Vec<_> = planned.profile(&device.stream())?.iter().map(|share| (share.kind, share.launches)).collect();
        assert_eq!(kinds, [("LayerNorm", 2), ("Linear", 5), ("GELU", 2)]);
        let message = |result: Result<Tensor>| result.unwrap_err().to_string();
        assert_eq!(
            message(model.reconstruct(&device.stream(), &slices)),
            "the autoencoder: expected the shape [B, 320], got [20, 64]"
        );
        assert_eq!(
            message(infer(&device.stream(), &model.only(Stage::Bottleneck), &slices)),
            "the autoencoder's bottleneck: expected the shape [B, 32], got [20, 64]"
        );
        assert!(model.warnings().is_empty());
        Ok(())
    }

    fn a_pass_as_a_graph_gives_the_same_bits_and_allocates_nothing(device) {
        let config = Config::ORIGINAL;
        let model = Autoencoder::load(&Unfused::new(&device), config, &config.seeded(SEED))?;
        let inputs = [1, 2].map(|seed| Tensor::random(&[5 * 4, 64], seed));
        assert_captured(&mut Planned::new(&device, &model, inputs[0].shape())?, &device.stream(), &inputs)
    }

    /// Kernels that are missing: a stage that needs one runs on the CPU, the other stages on the device.
    fn a_stage_that_cannot_be_loaded_runs_on_the_cpu(device) {
        let parameters = ODD.seeded(SEED);
        let x = Tensor::random(&[3, ODD.inputs()], 1);
        let expected = InF64 { config: ODD, parameters: &parameters }.all(&x);
        // A file of another layer, in which no kernel has the name that is looked for.
        let no_gelu = Sources { gelu: RowNorm::SOURCE, ..Sources::default() };
        let no_row_norm = Sources { row_norm: Gelu::SOURCE, ..Sources::default() };
        for (sources, fallen) in
            [(no_gelu, ["slice encoding", "bottleneck"]), (no_row_norm, ["projection", "reconstruction"])]
        {
            let model = Reliable::load(&Unfused::with_sources(&device, sources), ODD, &parameters)?;
            let mut planned = model.plan(&device, 3)?;
            assert!(model.warnings().is_empty(), "planning runs nothing");
            for _ in 0..2 {
                let slices = Tensor::from_vec(&[9, 13], x.as_slice()?.to_vec())?;
                close(&planned.infer(&device.stream(), &slices)?, &expected);
            }
            let warnings = model.warnings();
            assert_eq!(warnings.len(), 2, "{warnings:?}");
            for (warning, stage) in warnings.iter().zip(fallen) {
                let begin = format!("the autoencoder's {stage} runs on the CPU, since the device failed: ");
                assert!(warning.starts_with(&begin), "{warning}");
            }
            let shares = planned.profile(&device.stream())?;
            let on_cpu = shares.iter().find(|share| share.kind == "on the CPU").map(|share| share.launches);
            assert_eq!(on_cpu, Some(2));
        }
        Ok(())
    }
}

/// A kernel that faults while it runs, on the simulator, where that ends nothing else. It needs the compiler.
#[test]
fn a_stage_whose_kernel_faults_runs_on_the_cpu() {
    let device = common::private::sim_for_test();
    if !planted::compiler(&device, "a_stage_whose_kernel_faults_runs_on_the_cpu") {
        return;
    }
    let parameters = ODD.seeded(SEED);
    let faulty = planted::planted(&Gelu::SOURCE, "return 0.5f", "__trap(); return 0.5f");
    let model = Reliable::load(
        &Unfused::with_sources(&device, Sources { gelu: faulty, ..Sources::default() }),
        ODD,
        &parameters,
    )
    .unwrap();
    let x = Tensor::random(&[2, ODD.inputs()], 1);
    close(&model.reconstruct(&device.stream(), &x).unwrap(), &InF64 { config: ODD, parameters: &parameters }.all(&x));
    assert_eq!(model.warnings().len(), 2, "{:?}", model.warnings());
}

/// Mistakes in the kernels that the check of a stage must find; they need the compiler.
#[test]
fn planted_mistakes_are_found() {
    let device = common::private::sim_for_test();
    if !planted::compiler(&device, "planted_mistakes_are_found") {
        return;
    }
    let parameters = ODD.seeded(SEED);
    let plain = Sources::default;
    for (stage, sources) in [
        (
            Stage::SliceEncoding,
            Sources { gelu: planted::planted(&Gelu::SOURCE, "1.0f + erff(", "1.0f + tanhf("), ..plain() },
        ),
        (
            Stage::Bottleneck,
            Sources {
                layer_norm: planted::planted(&LayerNorm::SOURCE, "/ columns + eps", "/ (columns - 1) + eps"),
                ..plain()
            },
        ),
        (
            Stage::Projection,
            Sources { row_norm: planted::planted(&RowNorm::SOURCE, "sqrtf(sum_across", "(sum_across"), ..plain() },
        ),
    ] {
        let model = Reliable::load(&Unfused::with_sources(&device, sources), ODD, &parameters).unwrap();
        let x = Tensor::random(&stage.input_shape(&ODD, 3), 1);
        let y = infer(&device.stream(), &model.only(stage), &x).unwrap().into_vec().unwrap();
        let expected = InF64 { config: ODD, parameters: &parameters }.stage(stage, &wide(&x));
        assert!(model.warnings().is_empty(), "{:?}", model.warnings());
        let wrong = compare(&y, &expected, Tolerance::absolute(OF_STAGE));
        assert!(wrong.is_err(), "the mistake in {stage} passes: {wrong:?}");
    }
}
