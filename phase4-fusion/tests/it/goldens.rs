//! Phase 4's models against PyTorch's results, which `phase3-all-layers/python/goldens.py` made.

#[path = "../../../phase3-all-layers/tests/it/golden/mod.rs"]
mod golden;

use common::check::{Tolerance, assert_close};
use common::prelude::*;
use common::testing::cuda_for_test;
use phase3_all_layers::models::{autoencoder, resnet, unet};
use phase4_fusion::autoencoder::{OneKernel, plan as autoencoder_plan};
use phase4_fusion::commands::{resnet18, unet as unet_command};
use phase4_fusion::models::Arithmetic;
use phase4_fusion::models::runner::Runner;

/// A pass of ResNet18 in this arithmetic gives PyTorch's logits, within the plan's bound.
fn resnet18_agrees(device: &Device, arithmetic: Arithmetic) {
    let (config, images) = (resnet::Config::RESNET18, Tensor::random(&[1, 3, 224, 224], 1));
    let plan = resnet18::plan(device, config, &config.seeded(18), arithmetic, images.shape()).unwrap();
    let mut runner = Runner::new(device, plan).unwrap();
    let bound = runner.plan().error_bound();
    let logits = runner.infer(&device.stream(), &images).unwrap();
    golden::assert_output_within(bound, "resnet18", "logits", &logits);
}

#[test]
fn resnet18_gives_what_pytorch_gives_cuda() {
    let Some(device) = cuda_for_test("resnet18_gives_what_pytorch_gives_cuda") else { return };
    for arithmetic in Arithmetic::ALL {
        resnet18_agrees(&device, arithmetic);
    }
}

/// Only in f16, which is the fastest on the simulator; without the sanitiser, which sees the same kernels in smaller networks.
#[test]
fn resnet18_gives_what_pytorch_gives_sim() {
    resnet18_agrees(&Device::sim(), Arithmetic::F16);
}

/// On a GPU only: the attentions over 4096 pixels take the simulator minutes.
#[test]
fn the_tiny_unet_gives_what_pytorch_gives_cuda() {
    let Some(device) = cuda_for_test("the_tiny_unet_gives_what_pytorch_gives_cuda") else { return };
    let (config, x) = (unet::Config::TINY, Tensor::random(&[2, 8, 64, 64], 1));
    let steps = Tensor::from_vec(&[2], vec![10.0, 700.0]).unwrap();
    for arithmetic in Arithmetic::ALL {
        let plan = unet_command::plan(&device, config, &config.seeded(8), arithmetic, x.shape()).unwrap();
        let mut runner = Runner::new(&device, plan).unwrap();
        let bound = runner.plan().error_bound();
        let output = runner.infer_all(&device.stream(), &[&x, &steps]).unwrap();
        golden::assert_output_within(bound, "unet-tiny", "output", &output);
    }
}

/// Seed of the autoencoders' parameters; python/seeded.py has it too.
const SEED: u64 = 5;

/// The last stage of each configuration, by plans and in one kernel; of large ones PyTorch's side has the first values.
fn autoencoders_agree(device: &Device) {
    for (name, config) in autoencoder::Config::ALL {
        let (parameters, batch) = (config.seeded(SEED), 3);
        let x = Tensor::random(&[batch, config.inputs()], 1);
        let agrees = |y: &Tensor, bound: f64| {
            let values = y.as_slice().unwrap();
            let key = if values.len() > 4096 { format!("{name}.5.first") } else { format!("{name}.5") };
            let expected = golden::tensor("autoencoder", &key);
            let expected = expected.as_slice().unwrap();
            println!("{key}");
            assert_close(&values[..expected.len()], expected, Tolerance::of_scale(bound, expected));
        };
        let slices = config.slices(&x).unwrap();
        for arithmetic in Arithmetic::ALL {
            let plan = autoencoder_plan(device, &config, &parameters, arithmetic, batch).unwrap();
            let mut runner = Runner::new(device, plan).unwrap();
            let bound = runner.plan().error_bound();
            agrees(&runner.infer(&device.stream(), &slices).unwrap(), bound);
        }
        match OneKernel::load(device, &config, &parameters) {
            Ok(one_kernel) => {
                let mut y = Tensor::full(slices.shape(), f32::NAN).to_device(device).unwrap();
                one_kernel.launch(&device.stream(), &slices.to_device(device).unwrap(), &mut y).unwrap();
                agrees(&y.to_host().unwrap(), 1e-5);
            }
            Err(error) => assert!(error.is_unsupported(), "{error}"),
        }
    }
}

#[test]
fn autoencoders_give_what_pytorch_gives_sim() {
    autoencoders_agree(&Device::sim());
}

#[test]
fn autoencoders_give_what_pytorch_gives_cuda() {
    let Some(device) = cuda_for_test("autoencoders_give_what_pytorch_gives_cuda") else { return };
    autoencoders_agree(&device);
}
