//! The autoencoder in one kernel, on both devices, against the layers of phase 3 on the CPU.

use common::check::{Mismatch, Report, Tolerance, compare};
use common::device::SimOptions;
use common::device_test;
use common::prelude::*;
use common::testing::planted;
use phase3_all_layers::backends::{Cpu, OnHost};
use phase3_all_layers::models::autoencoder::{Autoencoder, Config};
use phase4_fusion::autoencoder::{Fused, OneKernel, plan};
use phase4_fusion::models::Arithmetic;
use phase4_fusion::models::runner::Runner;

const CONFIG: Config = Config::ORIGINAL;
/// Tolerance: a float at 32 has the spacing 3.8e-6.
const CLOSE: f64 = 5.7e-6;
/// Fewer than a block takes at once, as many, more, and more than all blocks of the simulator take at once.
const BATCHES: [usize; 5] = [1, 3, 9, 17, 70];

/// A pass over `batch` spectrograms into NaN, compared with the CPU's.
fn pass(device: &Device, model: &OneKernel, batch: usize) -> Result<Result<Report, Mismatch>> {
    let parameters = CONFIG.seeded(5);
    let cpu = Cpu::new();
    let x = CONFIG.slices(&Tensor::random(&[batch, CONFIG.inputs()], batch as u64))?;
    let expected = cpu.infer(&Autoencoder::load(&cpu, CONFIG, &parameters)?, &x)?;
    let mut y = Tensor::full(x.shape(), f32::NAN).to_device(device)?;
    model.launch(&device.stream(), &x.to_device(device)?, &mut y)?;
    Ok(compare(y.to_host()?.as_slice()?, expected.as_slice()?, Tolerance::absolute(CLOSE)))
}

device_test! {
    fn every_batch_is_right(device) {
        let loaded = OneKernel::load(&device, &CONFIG, &CONFIG.seeded(5));
        let Some(model) = planted::here(&device, loaded)? else { return Ok(()) };
        for batch in BATCHES {
            match pass(&device, &model, batch)? {
                Ok(report) => println!("{batch}: {report}"),
                Err(mismatch) => panic!("{batch}: {mismatch}"),
            }
        }
        Ok(())
    }
}

device_test! {
    fn passes_follow_one_another(device) {
        let loaded = OneKernel::load(&device, &CONFIG, &CONFIG.seeded(5));
        let Some(model) = planted::here(&device, loaded)? else { return Ok(()) };
        // Each pass reads what the last one wrote, which begins before that ends.
        let stream = device.stream();
        let mut x = Tensor::random(&[5 * 20, 64], 1).to_device(&device)?;
        let mut y = Tensor::full(&[5 * 20, 64], f32::NAN).to_device(&device)?;
        for _ in 0..3 {
            model.launch(&stream, &x, &mut y)?;
            std::mem::swap(&mut x, &mut y);
        }
        let cpu = Cpu::new();
        let on_cpu = Autoencoder::load(&cpu, CONFIG, &CONFIG.seeded(5))?;
        let mut expected = Tensor::random(&[5 * 20, 64], 1);
        for _ in 0..3 {
            expected = cpu.infer(&on_cpu, &expected)?;
        }
        let found = compare(x.to_host()?.as_slice()?, expected.as_slice()?, Tolerance::absolute(10.0 * CLOSE));
        assert!(found.is_ok(), "{}", found.unwrap_err());
        Ok(())
    }
}

/// Rows that begin at multiples of 16 bytes, and rows that do not, which tensor cores leave to phase 3.
const EVEN: Config = Config { n_mels: 12, frames: 3, latent: 8, slice_latent: 20 };
const ODD: Config = Config { n_mels: 7, frames: 2, latent: 5, slice_latent: 9 };

fn planned(device: &Device, config: Config, arithmetic: Arithmetic, batch: usize) -> Result<()> {
    let parameters = config.seeded(5);
    let cpu = Cpu::new();
    let x = config.slices(&Tensor::random(&[batch, config.inputs()], 3))?;
    let expected = cpu.infer(&Autoencoder::load(&cpu, config, &parameters)?, &x)?;
    let mut runner = Runner::new(device, plan(device, &config, &parameters, arithmetic, batch)?)?;
    let stream = device.stream();
    let y = runner.infer(&stream, &x)?;
    assert_eq!(y.shape(), x.shape());
    let tolerance = Tolerance::of_scale(runner.plan().error_bound(), expected.as_slice()?);
    let report = compare(y.as_slice()?, expected.as_slice()?, tolerance).unwrap_or_else(|wrong| panic!("{wrong}"));
    println!("{config:?} {arithmetic}, {batch}: {report}");
    // A second pass gives the same bits.
    assert_eq!(runner.infer(&stream, &x)?.as_slice()?, y.as_slice()?);
    Ok(())
}

device_test! {
    fn plans_of_every_kind_of_configuration_are_right(device) {
        for (config, batch) in [(EVEN, 5), (ODD, 3), (Config::MEDIUM, 2), (Config::ORIGINAL, 33)] {
            for arithmetic in Arithmetic::ALL {
                planned(&device, config, arithmetic, batch)?;
            }
        }
        Ok(())
    }
}

#[test]
fn weights_that_do_not_fit_are_a_plan_with_the_reason() {
    let device = Device::sim();
    let load = |config: Config| Fused::load(&device, &config, &config.seeded(5), Arithmetic::Tf32, 2).unwrap();
    assert!(matches!(load(Config::ORIGINAL), Fused::OneKernel { .. }));
    let Fused::Planned(runner, why) = load(Config::MEDIUM) else { panic!("medium in one kernel") };
    assert!(why.contains("its weights are 1600 KB, and a block has 227 KB of shared memory"), "{why}");
    let layers: Vec<&str> = runner.plan().launches().iter().map(|launch| &*launch.layers).collect();
    let expected =
        ["LayerNorm", "Linear 128→256 GELU", "Linear 2560→128", "LayerNorm", "Linear 128→128 GELU", "Linear 128→1280"];
    assert_eq!(layers, expected);
    // In f16 all between the two conversions is f16.
    let plan = plan(&device, &Config::MEDIUM, &Config::MEDIUM.seeded(5), Arithmetic::F16, 2).unwrap();
    let kernels: Vec<&str> = plan.launches().iter().map(|launch| &*launch.kernel).collect();
    let [first, norm, products @ .., last] = &kernels[..] else { panic!("{kernels:?}") };
    assert_eq!([*first, *norm, *last], ["convert", "channels last", "convert"]);
    assert_eq!(products.iter().filter(|kernel| kernel.starts_with("f16 ")).count(), 4, "{kernels:?}");
    assert_eq!(products.len(), 5);
}

#[test]
fn what_it_does_not_take_is_refused_with_the_reason() {
    let device = Device::sim();
    let medium = OneKernel::load(&device, &Config::MEDIUM, &Config::MEDIUM.seeded(5)).unwrap_err();
    assert!(medium.is_unsupported() && medium.to_string().contains("`original`"), "{medium}");
    let model = OneKernel::load(&device, &CONFIG, &CONFIG.seeded(5)).unwrap();
    let mut y = Tensor::empty_on(&device, &[5, 64]).unwrap();
    let x = Tensor::empty_on(&device, &[7, 64]).unwrap();
    let error = model.launch(&device.stream(), &x, &mut y).unwrap_err().to_string();
    assert!(error.contains("[5, 64]"), "{error}");
}

#[test]
fn no_rule_is_broken() {
    let device = Device::sim_with(SimOptions { sanitize: true, ..SimOptions::default() });
    let model = OneKernel::load(&device, &CONFIG, &CONFIG.seeded(5)).unwrap();
    for batch in [3, 37] {
        assert!(pass(&device, &model, batch).unwrap().is_ok());
    }
}

/// The kernel's text, and the mistake that replaces it.
const PLANTED: [(&str, &str); 7] = [
    // The variance of all but the mean's part.
    ("    x.x -= mean;\n", ""),
    // One warp's columns are left out.
    ("for (int from = 0; from < WARPS; from++)", "for (int from = 0; from < WARPS - 1; from++)"),
    // The bias is the encoder's.
    ("weights + DECODER, weights + DECODER_BIAS, sums", "weights + DECODER, weights + ENCODER_BIAS, sums"),
    // A row beyond the last one is written.
    ("            if (row_of_x + row < rows_of_x) {\n", "            {\n"),
    // The other warps' slices are not there yet.
    ("        __syncthreads();  // all slices are there\n", ""),
    ("        __syncthreads();  // all latent values are there\n", ""),
    // The basis is not there yet.
    ("        copy_groups_arrived<1>();\n", ""),
];

#[test]
fn planted_mistakes_are_found() {
    for (right, wrong) in PLANTED {
        planted::must_be_rejected(right, |device| {
            let source = planted::planted(&OneKernel::SOURCE, right, wrong);
            let model = OneKernel::load_from(device, &source, &CONFIG, &CONFIG.seeded(5))?;
            pass(device, &model, 3)
        });
    }
}
