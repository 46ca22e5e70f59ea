//! The sampler of video frames on both devices, step by step against the CPU.

use common::check::{Tolerance, assert_close};
use common::cpu;
use common::device_test;
use common::prelude::*;
use common::reference::DiffusionParams;
use phase3_all_layers::backends::{Cpu, OnHost, Unfused};
use phase3_all_layers::commands::video::{Options, Sampler, generate};
use phase3_all_layers::models::unet::{Config, UNet};

const TINY: Config = Config::TINY;

/// The cosine schedule.
fn alpha_bar(t: f64) -> f32 {
    let angle = |t: f64| (t / 1000.0 + 0.008) / 1.008 * std::f64::consts::FRAC_PI_2;
    ((angle(t).cos() / angle(0.0).cos()).powi(2)) as f32
}

device_test! {
    fn frames_are_what_the_cpu_makes(device) {
        let parameters = TINY.seeded(8);
        let network = UNet::load(&Unfused::new(&device), TINY, &parameters)?;
        let backend = Cpu::new();
        let on_cpu = UNet::load(&backend, TINY, &parameters)?;
        let mut sampler = Sampler::new(&device, &network, 8, 2)?;
        let mut previous = Tensor::zeros(&[1, 4, 8, 8]);
        let mut blended = 0;
        for (frame, weight) in [(0, 1.0), (1, 0.7)] {
            let noise = Tensor::random(&[1, 4, 8, 8], 5 + frame);
            let mut x = noise.to_host()?;
            for (t, next) in [(750.0, alpha_bar(250.0)), (250.0, 1.0)] {
                let joined = cpu::concatenate(&x, &previous)?;
                let time = Tensor::full(&[1], t as f32);
                let predicted = backend.infer(&on_cpu.at(time), &joined)?;
                let params = DiffusionParams { alpha_bar: alpha_bar(t), weight, threshold: 0.5 };
                let clean = cpu::diffusion_step(&x, &predicted, &previous, params)?;
                let alone = cpu::diffusion_step(&x, &predicted, &previous, DiffusionParams { weight: 1.0, ..params })?;
                blended += clean.as_slice()?.iter().zip(alone.as_slice()?).filter(|(a, b)| a != b).count();
                x = cpu::add_noise(&clean, &predicted, next)?;
            }
            let mut steps = 0;
            let found = sampler.frame(&noise, || steps += 1)?;
            assert_eq!(steps, 2);
            let values = x.as_slice()?.iter().map(|&value| f64::from(value)).collect::<Vec<_>>();
            // What rounding there is in the noise is divided by √ᾱ, 0.38 at the first step.
            assert_close(found.as_slice()?, &values, Tolerance::absolute(5e-5));
            previous = x;
        }
        assert!(blended > 20, "{blended}");
        Ok(())
    }

    fn the_seed_decides_a_video(device) {
        let parameters = TINY.seeded(8);
        let options = Options { frames: 2, steps: 1, side: 8, seed: 3 };
        let bits = |options: &Options| -> Result<Vec<Vec<f32>>> {
            let frames = generate(&device, TINY, &parameters, options, || ()).unwrap();
            frames.into_iter().map(Tensor::into_vec).collect()
        };
        let first = bits(&options)?;
        assert_eq!(first.len(), 2);
        assert_eq!(bits(&options)?, first);
        assert!(bits(&Options { seed: 4, ..options })?[0] != first[0]);
        assert!(first.iter().flatten().all(|value| (-1.0..=1.0).contains(value)));
        Ok(())
    }

    fn what_cannot_be_sampled_is_refused(device) {
        let network = UNet::load(&Unfused::new(&device), TINY, &TINY.seeded(8))?;
        let error = |side, steps| Sampler::new(&device, &network, side, steps).unwrap_err().to_string();
        assert_eq!(error(8, 0), "a frame takes one step or more");
        assert!(error(12, 1).contains("multiples of 8, got [1, 8, 12, 12]"), "{}", error(12, 1));
        let noise = Tensor::zeros(&[1, 4, 16, 16]);
        assert!(Sampler::new(&device, &network, 8, 1)?.frame(&noise, || ()).is_err());
        Ok(())
    }
}
