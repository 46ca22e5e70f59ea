//! Memory of the models' plans: a change of a model or of the planner must not make one of them larger.

use common::prelude::*;
use phase3_all_layers::backends::{Planned, Reliable, Unfused};
use phase3_all_layers::models::autoencoder::{self, Autoencoder};
use phase3_all_layers::models::{resnet, unet};
use phase3_all_layers::nn::Module;

/// Fails if the plan for inputs of this shape has more bytes than `bytes`, or fewer: then the number here must be updated.
#[track_caller]
fn assert_bytes(device: &Device, module: &impl Module<Unfused>, input: &[usize], bytes: u64) {
    assert_eq!(Planned::new(device, module, input).unwrap().workspace().bytes(), bytes, "{input:?}");
}

#[test]
fn plans_take_what_they_took() {
    let device = common::private::sim_for_test();
    let backend = Unfused::new(&device);
    let config = resnet::Config { widths: [8, 12, 16, 20], blocks: [2, 1, 2, 1], classes: 10 };
    let network = resnet::ResNet::load(&backend, config, &config.seeded(1)).unwrap();
    assert_bytes(&device, &network, &[1, 3, 64, 64], 49_152);
    assert_bytes(&device, &network, &[2, 3, 41, 50], 51_904);

    let [rows, mels] = autoencoder::Stage::SliceEncoding.input_shape(&autoencoder::Config::ORIGINAL, 32);
    let config = autoencoder::Config::ORIGINAL;
    let parameters = config.seeded(1);
    let model = Autoencoder::load(&backend, config, &parameters).unwrap();
    assert_bytes(&device, &model, &[rows, mels], 81_920);
    // Here each stage's input lives as long as the stage, for the CPU.
    let model = Reliable::load(&backend, config, &parameters).unwrap();
    assert_bytes(&device, &model, &[rows, mels], 86_016);

    let config = unet::Config::TINY;
    let network = unet::UNet::load(&backend, config, &config.seeded(1)).unwrap();
    let at = |steps: usize| network.at(Tensor::full(&[steps], 1.0).to_device(&device).unwrap());
    assert_bytes(&device, &at(1), &[1, 8, 8, 8], 168_480);
    assert_bytes(&device, &at(2), &[2, 8, 16, 16], 4_493_824);
    assert_bytes(&device, &at(1), &[1, 8, 8, 24], 1_292_032);
}
