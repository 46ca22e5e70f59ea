//! A narrow ResNet on both devices against the CPU.

use crate::models;

use common::device_test;
use common::prelude::*;
use media::photo::Photo;
use phase3_all_layers::backends::{ConvOnDevice, Cpu, OnHost, Planned, RoundTrip, Unfused, infer};
use phase3_all_layers::models::resnet::{Config, ResNet};
use phase3_all_layers::nn::Parameters;

use models::{assert_captured, assert_last_layer, assert_no_allocation};

/// The same code as ResNet18's, with few channels.
const NARROW: Config = Config { widths: [8, 12, 16, 20], blocks: [2, 1, 2, 1], classes: 10 };

/// The logits of the narrow network by a backend whose inputs and outputs are on the host.
fn on_host(backend: &impl OnHost, parameters: &Parameters, images: &Tensor) -> Result<Tensor> {
    backend.infer(&ResNet::load(backend, NARROW, parameters)?, images)
}

device_test! {
    fn a_network_says_the_same_on_the_device_and_on_the_cpu(device) {
        let parameters = NARROW.seeded(1);
        let network = ResNet::load(&Unfused::new(&device), NARROW, &parameters)?;
        for (seed, shape) in (2..).zip([[1, 3, 64, 64], [2, 3, 41, 50]]) {
            let images = Tensor::random(&shape, seed);
            let expected = on_host(&Cpu::new(), &parameters, &images)?;
            let logits = infer(&device.stream(), &network, &images)?;
            assert_eq!(logits.shape(), [shape[0], 10]);
            assert_last_layer(&logits, &expected);
        }
        Ok(())
    }

    fn tensors_that_travel_are_the_same_and_convolutions_on_the_device_nearly_so(device) {
        let parameters = NARROW.seeded(6);
        let images = Tensor::random(&[1, 3, 40, 40], 7);
        let mut seen = Vec::new();
        let cpu = Cpu::new();
        let network = ResNet::load(&cpu, NARROW, &parameters)?;
        let expected = cpu.observe(&network, &images, |name, _| seen.push(name.to_owned()))?;
        assert_eq!(seen, ["layer1.0", "layer1.1", "layer2.0", "layer3.0", "layer3.1", "layer4.0"]);
        let timed: Vec<&str> = cpu.times_ms().into_iter().map(|(kind, _)| kind).collect();
        assert_eq!(timed, ["Conv2D", "BatchNorm", "ReLU", "MaxPool", "Add", "AvgPool", "Linear"]);
        let plain = on_host(&Cpu::plain()?, &parameters, &images)?;
        assert_ne!(plain.as_slice()?, expected.as_slice()?);
        assert_last_layer(&plain, &expected);
        let travelled = on_host(&RoundTrip::new(&device), &parameters, &images)?;
        assert_eq!(travelled.as_slice()?, expected.as_slice()?);
        let by_device = ConvOnDevice::new(&device);
        let network = ResNet::load(&by_device, NARROW, &parameters)?;
        for _ in 0..2 {
            let logits = by_device.infer(&network, &images)?;
            assert_ne!(logits.as_slice()?, expected.as_slice()?);
            assert_last_layer(&logits, &expected);
        }
        Ok(())
    }

    fn resnet18_on_a_photo_says_the_same_on_the_device_and_on_the_cpu(device) {
        let (config, images) = (Config::RESNET18, Photo::built_in().to_tensor());
        let parameters = config.seeded(5);
        let cpu = Cpu::new();
        let expected = cpu.infer(&ResNet::load(&cpu, config, &parameters)?, &images)?;
        let network = ResNet::load(&Unfused::new(&device), config, &parameters)?;
        let mut planned = Planned::new(&device, &network, images.shape())?;
        // conv1's output is 3.2 MB; after it three of 0.8 MB are alive at a time.
        let workspace = planned.workspace();
        assert_eq!(workspace.floor_bytes(), 4 * (64 * 112 * 112 + 64 * 56 * 56));
        assert!(workspace.bytes() <= workspace.floor_bytes() * 5 / 4, "{}", workspace.bytes());
        assert_last_layer(&planned.infer(&device.stream(), &images)?, &expected);
        Ok(())
    }

    fn a_planned_pass_allocates_nothing_and_gives_the_same_bits(device) {
        let network = ResNet::load(&Unfused::new(&device), NARROW, &NARROW.seeded(3))?;
        let images = Tensor::random(&[2, 3, 40, 40], 4);
        assert_no_allocation(&mut Planned::new(&device, &network, images.shape())?, &device.stream(), &images)
    }

    fn a_pass_as_a_graph_gives_the_same_bits_and_allocates_nothing(device) {
        let network = ResNet::load(&Unfused::new(&device), NARROW, &NARROW.seeded(3))?;
        let inputs = [4, 5].map(|seed| Tensor::random(&[2, 3, 40, 40], seed));
        let mut planned = Planned::new(&device, &network, inputs[0].shape())?;
        assert_captured(&mut planned, &device.stream(), &inputs)
    }

    fn shares_of_a_pass_name_each_kind_of_layer(device) {
        let network = ResNet::load(&Unfused::new(&device), NARROW, &NARROW.seeded(3))?;
        let mut planned = Planned::new(&device, &network, &[1, 3, 40, 40])?;
        planned.infer(&device.stream(), &Tensor::random(&[1, 3, 40, 40], 1))?;
        let shares = planned.profile(&device.stream())?;
        let launches: Vec<_> = shares.iter().map(|share| (share.kind, share.launches)).collect();
        let [conv, relu] = [1 + 2 * 6 + 3, 1 + 2 * 6];
        let rest = [("Add", 6), ("AvgPool", 1), ("Linear", 1)];
        assert_eq!(launches[..4], [("Conv2D", conv), ("BatchNorm", conv), ("ReLU", relu), ("MaxPool", 1)]);
        assert_eq!(launches[4..], rest);
        for share in shares {
            assert!(share.ms.is_some_and(|ms| ms > 0.0) || share.lane_instructions.is_some_and(|n| n > 0), "{share:?}");
        }
        Ok(())
    }
}

#[test]
fn a_batch_too_large_for_the_device_is_refused_and_the_next_pass_works() {
    let device = common::private::sim_for_test();
    let network = ResNet::load(&Unfused::new(&device), NARROW, &NARROW.seeded(3)).unwrap();
    let before = device.memory().in_use;
    let error = Planned::new(&device, &network, &[1 << 20, 3, 224, 224]).unwrap_err();
    let common::Error::OutOfMemory { requested, free, .. } = error else { panic!("{error}") };
    assert!(requested > free && free > 0, "{requested} {free}");
    assert_eq!(device.memory().in_use, before);
    infer(&device.stream(), &network, &Tensor::random(&[1, 3, 40, 40], 1)).unwrap();
    // A batch of none has no logits.
    let none = infer(&device.stream(), &network, &Tensor::random(&[0, 3, 40, 40], 1)).unwrap();
    assert_eq!(none.shape(), [0, 10]);
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
    let error =
        ResNet::load(&Unfused::new(&device), NARROW, &without("layer2.0.bn1.running_var")).unwrap_err().to_string();
    assert!(error.contains("no `layer2.0.bn1.running_var`"), "{error}");
    let wider = Config { classes: 11, ..NARROW };
    let error = ResNet::load(&Unfused::new(&device), wider, &all).unwrap_err().to_string();
    assert!(error.contains("fc.weight: expected the shape [11, 20], got [10, 20]"), "{error}");
}
