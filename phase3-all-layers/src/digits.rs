//! Accuracy on real images: a narrow ResNet over handwritten digits ([`crate::data::digits`]), trained in PyTorch by
//! `python/digits.py`.

use common::prelude::*;

use crate::backends::{Cpu, OnHost, Planned, Unfused, infer};
use crate::data::digits::{BATCH, CLASSES, Digits, Outcome, input};
use crate::models::resnet::{Config, ResNet};
use crate::nn::Parameters;

/// The network.
pub const CONFIG: Config = Config { widths: [8, 16, 32, 64], blocks: [2; 4], classes: CLASSES };

static WEIGHTS: &[u8] = include_bytes!("../assets/digits.safetensors");

/// The weights of the network, trained on other digits than those of [`Digits`].
///
/// # Errors
/// Same as [`Parameters::from_bytes`].
pub fn trained() -> Result<Parameters> {
    Parameters::from_bytes("digits.safetensors", WEIGHTS, &CONFIG.shapes())
}

/// The network over the test set, on the CPU.
///
/// # Errors
/// Same as [`Digits::built_in`], [`trained`] and [`OnHost::infer`].
pub fn evaluate_on_cpu() -> Result<Outcome> {
    let cpu = Cpu::new();
    let network = ResNet::load(&cpu, CONFIG, &trained()?)?;
    Digits::built_in()?.evaluate(|images| cpu.infer(&network, images))
}

/// The network over the test set, all layers on `device`.
///
/// # Errors
/// Same as [`Digits::built_in`], [`trained`], [`ResNet::load`] and [`Planned::infer`].
pub fn evaluate_on(device: &Device) -> Result<Outcome> {
    let (stream, network) = (device.stream(), ResNet::load(&Unfused::new(device), CONFIG, &trained()?)?);
    let mut planned = Planned::new(device, &network, &input(BATCH))?;
    Digits::built_in()?.evaluate(|images| match images.shape()[0] {
        BATCH => planned.infer(&stream, images),
        _ => infer(&stream, &network, images),
    })
}
