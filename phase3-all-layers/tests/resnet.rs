//! A narrow ResNet on both devices against the CPU.
#![allow(clippy::unwrap_used)]

use common::device_test;
use common::prelude::*;
use phase3_all_layers::parameters::Parameters;
use phase3_all_layers::photo::Photo;
use phase3_all_layers::resnet::{Config, ResNet, forward_on_cpu};
use phase3_all_layers::workspace::Workspace;

/// The same code as ResNet18's, with few channels.
const NARROW: Config = Config { widths: [8, 12, 16, 20], blocks: [2, 1, 2, 1], classes: 10 };

/// The largest difference, relative to the largest magnitude (or to 1 below that).
fn difference(a: &Tensor, b: &Tensor) -> f32 {
    let (a, b) = (a.as_slice().unwrap(), b.as_slice().unwrap());
    let largest = b.iter().fold(1.0f32, |most, value| most.max(value.abs()));
    // NaN must not vanish in a maximum.
    let worst =
        a.iter().zip(b).map(|(a, b)| (a - b).abs()).fold(0.0, |most, next| if next <= most { most } else { next });
    worst / largest
}

device_test! {
    fn a_network_says_the_same_on_the_device_and_on_the_cpu(device) {
        let parameters = NARROW.seeded(1);
        let network = ResNet::load(&device, NARROW, &parameters)?;
        let (stream, mut workspace) = (device.stream(), Workspace::new(&device));
        for (seed, shape) in (2..).zip([[1, 3, 64, 64], [2, 3, 41, 50]]) {
            let images = Tensor::random(&shape, seed);
            let expected = forward_on_cpu(&NARROW, &parameters, &images)?;
            let logits = network.forward(&stream, &images.to_device(&device)?, &mut workspace)?.to_host()?;
            assert_eq!(logits.shape(), [shape[0], 10]);
            let off = difference(&logits, &expected);
            assert!(off <= 1e-5, "{off:e} for {shape:?}: {logits:?} against {expected:?}");
        }
        Ok(())
    }

    fn resnet18_on_a_photo_says_the_same_on_the_device_and_on_the_cpu(device) {
        let (config, images) = (Config::RESNET18, Photo::built_in().to_tensor());
        let parameters = config.seeded(5);
        let expected = forward_on_cpu(&config, &parameters, &images)?;
        let network = ResNet::load(&device, config, &parameters)?;
        let mut workspace = Workspace::new(&device);
        let logits = network.forward(&device.stream(), &images.to_device(&device)?, &mut workspace)?.to_host()?;
        let off = difference(&logits, &expected);
        assert!(off <= 1e-5, "{off:e}");
        // The activations of one image: conv1's output is 3.2 MB, and no two layers need more than three of its size.
        assert!(workspace.bytes() < 16_000_000, "{}", workspace.bytes());
        Ok(())
    }

    fn a_second_pass_allocates_nothing_and_gives_the_same_bits(device) {
        let network = ResNet::load(&device, NARROW, &NARROW.seeded(3))?;
        let (stream, mut workspace) = (device.stream(), Workspace::new(&device));
        let images = Tensor::random(&[1, 3, 40, 40], 4).to_device(&device)?;
        let first = network.forward(&stream, &images, &mut workspace)?;
        let (bytes, values) = (workspace.bytes(), first.to_host()?.into_vec()?);
        workspace.give(first);
        let second = network.forward(&stream, &images, &mut workspace)?;
        assert_eq!((workspace.bytes(), second.to_host()?.into_vec()?), (bytes, values));
        Ok(())
    }
}

#[test]
fn parameters_that_are_missing_or_misshapen_are_named() {
    let device = common::private::sim_for_test();
    let all = NARROW.seeded(1);
    let without = |name: &str| {
        let copy = |tensor: &Tensor| Tensor::from_vec(tensor.shape(), tensor.as_slice().unwrap().to_vec()).unwrap();
        let tensors = all.iter().filter(|(other, _)| *other != name);
        Parameters::new(tensors.map(|(name, tensor)| (name.to_owned(), copy(tensor))))
    };
    let error = ResNet::load(&device, NARROW, &without("layer2.0.bn1.running_var")).unwrap_err().to_string();
    assert!(error.contains("no `layer2.0.bn1.running_var`"), "{error}");
    let wider = Config { classes: 11, ..NARROW };
    let error = ResNet::load(&device, wider, &all).unwrap_err().to_string();
    assert!(error.contains("fc.weight: expected the shape [11, 20], got [10, 20]"), "{error}");
}
