//! The tiny U-Net on both devices against the CPU.

use crate::models;

use common::device_test;
use common::prelude::*;
use phase3_all_layers::backends::{Cpu, OnHost, Planned, Unfused, infer};
use phase3_all_layers::models::unet::{Config, UNet};
use phase3_all_layers::nn::Parameters;

use models::{assert_captured, assert_last_layer, assert_no_allocation};

const TINY: Config = Config::TINY;

fn steps(values: &[f32]) -> Tensor {
    Tensor::from_vec(&[values.len()], values.to_vec()).unwrap()
}

device_test! {
    fn the_network_says_the_same_on_the_device_and_on_the_cpu(device) {
        let parameters = TINY.seeded(8);
        let network = UNet::load(&Unfused::new(&device), TINY, &parameters)?;
        for (seed, shape, at) in [(1, [2, 8, 16, 16], &[10.0, 700.0][..]), (2, [1, 8, 8, 24], &[999.0])] {
            let x = Tensor::random(&shape, seed);
            let cpu = Cpu::new();
            let expected = cpu.infer(&UNet::load(&cpu, TINY, &parameters)?.at(steps(at)), &x)?;
            let noise = infer(&device.stream(), &network.at(steps(at).to_device(&device)?), &x)?;
            assert_eq!(noise.shape(), [shape[0], 4, shape[2], shape[3]]);
            assert_last_layer(&noise, &expected);
        }
        Ok(())
    }

    fn a_planned_pass_allocates_nothing_and_gives_the_same_bits(device) {
        let network = UNet::load(&Unfused::new(&device), TINY, &TINY.seeded(8))?;
        let x = Tensor::random(&[1, 8, 8, 8], 4);
        let module = network.at(steps(&[250.0]).to_device(&device)?);
        assert_no_allocation(&mut Planned::new(&device, &module, x.shape())?, &device.stream(), &x)
    }

    fn a_pass_as_a_graph_gives_the_same_bits_and_allocates_nothing(device) {
        let network = UNet::load(&Unfused::new(&device), TINY, &TINY.seeded(8))?;
        let inputs = [Tensor::random(&[1, 8, 8, 8], 4)];
        let module = network.at(steps(&[250.0]).to_device(&device)?);
        assert_captured(&mut Planned::new(&device, &module, inputs[0].shape())?, &device.stream(), &inputs)
    }

    fn shares_of_a_pass_name_each_kind_of_layer(device) {
        let network = UNet::load(&Unfused::new(&device), TINY, &TINY.seeded(8))?;
        let module = network.at(steps(&[250.0]).to_device(&device)?);
        let mut planned = Planned::new(&device, &module, &[1, 8, 8, 8])?;
        planned.infer(&device.stream(), &Tensor::random(&[1, 8, 8, 8], 1))?;
        let shares = planned.profile(&device.stream())?;
        let launches = |kind: &str| shares.iter().find(|share| share.kind == kind).map(|share| share.launches);
        let (residual, attention) = (2 * 4 + 2 + 3 * 4, 2 * 4 + 3 + 3 * 4);
        // Input and output, three levels each way, and the shortcuts: two on the way down and all twelve on the way up.
        for (kind, expected) in [
            ("Embedding", 1),
            ("Conv2D", 2 + 3 + 3 + 2 * residual + 2 + 12),
            ("BatchNorm", 2 * residual + 1),
            ("SiLU", 2 * residual + 2),
            ("Add", 2 * residual + 2 * attention),
            ("Linear", 2 + residual + 4 * attention),
            ("LayerNorm", 2 * attention),
            ("Attention", attention),
            ("GELU", attention),
            ("Transpose", 2 * attention),
            ("Upsample", 3),
            ("Concat", 12),
        ] {
            assert_eq!(launches(kind), Some(expected), "{kind}");
        }
        assert_eq!(shares.len(), 12);
        Ok(())
    }

    fn planned_memory_is_near_what_lives_at_one_time(device) {
        let network = UNet::load(&Unfused::new(&device), TINY, &TINY.seeded(8))?;
        let module = network.at(steps(&[1.0, 2.0]).to_device(&device)?);
        let planned = Planned::new(&device, &module, &[2, 8, 16, 16])?;
        let workspace = planned.workspace();
        // The scores of full resolution, 2 × 8 heads of 256 × 256, and what lives at the same time.
        let scores = 4 * 2 * 8 * 256 * 256;
        assert!((scores..scores * 5 / 4).contains(&workspace.floor_bytes()), "{}", workspace.floor_bytes());
        assert!(workspace.bytes() <= workspace.floor_bytes() * 21 / 20, "{}", workspace.bytes());
        Ok(())
    }

    fn wrong_shapes_are_refused(device) {
        let parameters = TINY.seeded(8);
        let network = UNet::load(&Unfused::new(&device), TINY, &parameters)?;
        let module = network.at(steps(&[1.0]).to_device(&device)?);
        let (cpu, on_cpu) = (Cpu::new(), UNet::load(&Cpu::new(), TINY, &parameters)?);
        for shape in [&[1, 8, 12, 8][..], &[1, 8, 8, 0], &[1, 4, 8, 8], &[2, 8, 8, 8], &[8, 8, 8]] {
            let on_device = Planned::new(&device, &module, shape).unwrap_err().to_string();
            let x = Tensor::zeros(shape);
            let on_cpu = cpu.infer(&on_cpu.at(steps(&[1.0])), &x).unwrap_err().to_string();
            assert_eq!(on_device, on_cpu);
        }
        let error = Planned::new(&device, &module, &[1, 8, 12, 8]).unwrap_err().to_string();
        assert_eq!(
            error,
            "the U-Net's input: expected the shape [N, 8, H, W] with H and W multiples of 8, got [1, 8, 12, 8]"
        );
        Ok(())
    }
}

#[test]
fn parameters_that_are_missing_or_misshapen_are_named() {
    let device = common::private::sim_for_test();
    let all = TINY.seeded(1);
    let without = |name: &str| {
        let copy = |tensor: &Tensor| Tensor::from_vec(tensor.shape(), tensor.as_slice().unwrap().to_vec()).unwrap();
        let tensors = all.iter().filter(|(other, _)| *other != name);
        Parameters::new(tensors.map(|(name, tensor)| (name.to_owned(), copy(tensor))))
    };
    let error =
        UNet::load(&Unfused::new(&device), TINY, &without("up.2.1.attention.fc1.bias")).unwrap_err().to_string();
    assert!(error.contains("no `up.2.1.attention.fc1.bias`"), "{error}");
    let error = UNet::load(&Unfused::new(&device), Config::SMALL, &all).unwrap_err().to_string();
    assert!(error.contains("time.0.weight: expected the shape [320, 80], got [64, 16]"), "{error}");
}
