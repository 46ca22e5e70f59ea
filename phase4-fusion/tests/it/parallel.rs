//! One model over several devices: its batches divided, and its layers.

use common::check::{Tolerance, compare};
use common::group_test;
use common::prelude::*;
use phase3_all_layers::models::resnet;
use phase3_all_layers::models::resnet::ResNet;
use phase3_all_layers::models::unet::{self, INPUTS};
use phase3_all_layers::nn::graph::{Graph, Recorder};
use phase4_fusion::commands::resnet18;
use phase4_fusion::models::Arithmetic;
use phase4_fusion::models::plan::Plan;
use phase4_fusion::models::runner::Runner;
use phase4_fusion::parallel::feed::{Feed, normalised};
use phase4_fusion::parallel::pipeline::{Pipeline, balanced};
use phase4_fusion::parallel::replicas::Replicas;

const RESNET: resnet::Config = resnet::Config { widths: [8, 8, 16, 16], blocks: [1, 1, 1, 1], classes: 5 };
const UNET: unet::Config = unet::Config { channels: 8, heads: 2 };
const SIDE: usize = 32;
/// Number per device.
const PLACES: usize = 2;

/// The images of a batch, different for each.
fn images(batch: usize) -> Tensor {
    Tensor::random(&[1, 3, SIDE, SIDE], 100 + batch as u64)
}

group_test! {
    /// Each batch gives the same bits as on one device, and they come in order. There are more batches than places.
    fn replicas_do_what_one_device_does(group, 2) {
        let parameters = RESNET.seeded(3);
        let plan = |device: &Device| resnet18::plan(device, RESNET, &parameters, Arithmetic::F32, &[1, 3, SIDE, SIDE]);
        let one = &group.devices()[0];
        let mut alone = Runner::new(one, plan(one)?)?;
        let mut replicas = Replicas::new(&group, PLACES, plan)?;
        let batches = PLACES * group.len() + 2;
        let mut found = Vec::new();
        let fill = |batch: usize, inputs: &mut [&mut PinnedBuffer<f32>]| {
            inputs[0].as_mut_slice()?.copy_from_slice(images(batch).as_slice()?);
            Ok(())
        };
        replicas.run(batches, fill, |batch, logits| {
            found.push((batch, logits.to_vec()));
            Ok(())
        })?;
        // Then two more on the first device.
        replicas.limit(1);
        replicas.run(2, fill, |batch, logits| {
            assert_eq!(logits, found[batch].1);
            Ok(())
        })?;
        let expected = (0..batches)
            .map(|batch| Ok((batch, alone.infer(&one.stream(), &images(batch))?.into_vec()?)))
            .collect::<Result<Vec<_>>>()?;
        assert_eq!(found, expected);
        assert_eq!(replicas.host_bytes(), 4 * (3 * SIDE * SIDE + RESNET.classes) as u64);
        Ok(())
    }

    /// A failure of the caller ends the run and leaves the replicas usable.
    fn what_the_caller_cannot_fill_ends_the_run(group, 2) {
        let parameters = RESNET.seeded(3);
        let plan = |device: &Device| resnet18::plan(device, RESNET, &parameters, Arithmetic::F32, &[1, 3, SIDE, SIDE]);
        let mut replicas = Replicas::new(&group, PLACES, plan)?;
        let broken = |batch: usize, _: &mut [&mut PinnedBuffer<f32>]| match batch {
            3 => Err(Error::Invalid("photo 3 cannot be read".to_owned())),
            _ => Ok(()),
        };
        let error = replicas.run(9, broken, |_, _| Ok(())).unwrap_err();
        assert_eq!(error.to_string(), "photo 3 cannot be read");
        let mut batches = Vec::new();
        replicas.run(2, |_, _| Ok(()), |batch, _| {
            batches.push(batch);
            Ok(())
        })?;
        assert_eq!(batches, [0, 1]);
        Ok(())
    }

    /// The layers on two devices give the same results as on one. Residual sums reach over the cut.
    fn a_pipeline_does_what_one_device_does(group, 2) {
        pipeline_equals_one_device(&group, Arithmetic::F16, 2)
    }

    /// With three stages there are more batches than mailbox places, and values that skip a stage.
    fn batches_wait_between_three_stages(group, 3) {
        pipeline_equals_one_device(&group, Arithmetic::F32, 6)
    }
}

/// Runs micro-batches through a pipeline. All have the same inputs, and each must give the result of one device.
fn pipeline_equals_one_device(group: &DeviceGroup, arithmetic: Arithmetic, batches: usize) -> Result<()> {
    let x = images(0);
    let graph = Graph::record(&ResNet::load(&Recorder, RESNET, &RESNET.seeded(3))?, x.shape())?;
    let one = &group.devices()[0];
    let whole = Plan::new(one, arithmetic, graph.clone(), &[x.shape()])?;
    let bound = whole.likely_error();
    let expected = Runner::new(one, whole)?.infer(&one.stream(), &x)?;
    let expected = expected.as_slice()?;

    let mut pipeline = Pipeline::new(group, arithmetic, &graph, &[x.shape()])?;
    assert_eq!(pipeline.cuts(), balanced(&graph, group.len())?);
    assert!(pipeline.link_bytes() > 0);
    pipeline.set_inputs(&[&x])?;
    group.synchronize()?;
    let mut outputs = Vec::new();
    pipeline.run(batches, |batch, stream, output| {
        let mut kept = stream.device().alloc_pinned(output.len())?;
        stream.memcpy_dtoh(output.buffer()?, &mut kept)?;
        outputs.push((batch, kept));
        Ok(())
    })?;
    pipeline.synchronize()?;
    for (number, (batch, output)) in outputs.iter().enumerate() {
        assert_eq!(*batch, number);
        compare(output.as_slice()?, expected, Tolerance::of_scale(bound, expected))
            .unwrap_or_else(|wrong| panic!("{wrong}"));
    }
    assert_eq!(outputs.len(), batches);
    Ok(())
}

#[test]
fn cuts_balance_the_work() {
    let graph = UNET.graph(&UNET.seeded(8), &[1, INPUTS, 8, 8]).unwrap();
    let count = graph.nodes.len();
    assert_eq!(balanced(&graph, 1).unwrap(), [0, count]);
    for parts in 2..=4 {
        let cuts = balanced(&graph, parts).unwrap();
        assert_eq!((cuts.len(), cuts[0], cuts[parts]), (parts + 1, 0, count));
        assert!(cuts.windows(2).all(|pair| pair[0] < pair[1]), "{cuts:?}");
    }
    assert!(balanced(&graph, 0).is_err() && balanced(&graph, count + 1).is_err());
}

common::device_test! {
    /// Pixels are widened as on the host, in planes whose sides are multiples of four and others.
    fn pixels_become_what_a_network_sees(device) {
        for (count, height, width) in [(1, 1, 1), (2, 3, 5), (1, 8, 4), (3, 33, 31), (2, 32, 32)] {
            let shape = [count, 3, height, width];
            let pixels: Vec<u8> = (0..shape.iter().product()).map(|i: usize| (i * 37 % 256) as u8).collect();
            let mut pinned = device.alloc_pinned(pixels.len())?;
            pinned.as_mut_slice()?.copy_from_slice(&pixels);
            let mut way = u8::way(&device, &shape)?;
            let mut values = Tensor::empty_on(&device, &shape)?;
            u8::copy(&mut way, &device.stream(), &pinned, &mut values)?;
            let expected = normalised(&shape, &pixels)?;
            assert_eq!(values.to_host()?.as_slice()?, expected.as_slice()?, "{shape:?}");
        }
        // torchvision's own way, to rounding: (b / 255 − mean) / deviation of white in red.
        let white = normalised(&[1, 3, 1, 1], &[255, 0, 128])?;
        assert!((f64::from(white.as_slice()?[0]) - (1.0 - 0.485) / 0.229).abs() < 1e-6);
        assert!(u8::way(&device, &[1, 4, 8, 8]).is_err() && normalised(&[1, 1, 2, 2], &[0; 4]).is_err());
        Ok(())
    }
}
