//! A narrow network over a folder of labelled photos.

use std::num::NonZeroUsize;
use std::path::Path;

use bench::table::WIDTH;
use common::device_test;
use common::prelude::*;
use image::RgbImage;
use media::photo::Photo;
use phase3_all_layers::Error;
use phase3_all_layers::backends::{Cpu, OnHost, Unfused};
use phase3_all_layers::commands::classifier::OnDevice;
use phase3_all_layers::commands::classify::logits;
use phase3_all_layers::commands::evaluate::{Evaluation, Options, evaluate};
use phase3_all_layers::models::resnet::{Config, ResNet};
use phase3_all_layers::nn::Parameters;
use safetensors::tensor::{Dtype, TensorView};

const NARROW: Config = Config { widths: [4, 4, 6, 8], blocks: [1; 4], classes: 7 };
const SEED: u64 = 1;

fn options(batch: usize, limit: Option<usize>) -> Options {
    Options { batch: NonZeroUsize::new(batch).unwrap(), limit: limit.and_then(NonZeroUsize::new) }
}

/// The classes of a photo, the likeliest first, according to the CPU.
fn classes_on_the_cpu(path: &Path) -> Vec<usize> {
    let cpu = Cpu::new();
    let network = ResNet::load(&cpu, NARROW, &NARROW.seeded(SEED)).unwrap();
    let logits = cpu.infer(&network, &Photo::open(path).unwrap().to_tensor()).unwrap();
    let logits = logits.as_slice().unwrap();
    let mut classes: Vec<usize> = (0..NARROW.classes).collect();
    classes.sort_by(|&a, &b| logits[b].total_cmp(&logits[a]));
    classes
}

/// Seven folders with five photos, whose class is the CPU's 1st, 1st, 3rd, 5th and 6th, and a file that is not a photo.
fn folder() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let class = |number: usize| dir.path().join(format!("class {number}"));
    (0..NARROW.classes).for_each(|number| std::fs::create_dir(class(number)).unwrap());
    for (i, place) in (0u32..).zip([0, 0, 2, 4, 5]) {
        let pattern = |x: u32, y: u32| [x * (i + 1), y * (5 - i), x * y / (i + 3)].map(|value| (value % 256) as u8);
        let path = dir.path().join(format!("{i}.png"));
        RgbImage::from_fn(240 + i, 230, |x, y| image::Rgb(pattern(x, y))).save(&path).unwrap();
        let number = classes_on_the_cpu(&path)[place];
        std::fs::rename(&path, class(number).join(format!("{i}.png"))).unwrap();
    }
    std::fs::write(class(3).join("broken.JPEG"), "not a photo").unwrap();
    dir
}

device_test! {
    fn right_answers_are_counted_and_unreadable_photos_left_out(device) {
        let (dir, parameters) = (folder(), NARROW.seeded(SEED));
        for batch in [4, 100] {
            let found = evaluate(&device, NARROW, &parameters, dir.path(), options(batch, None)).unwrap();
            assert_eq!((found.photos, found.top1, found.top5), (5, 2, 4), "batches of {batch}");
            assert!(found.unreadable[0].contains("broken.JPEG") && found.unreadable.len() == 1, "{:?}", found.unreadable);
            let table = found.table("narrow");
            let shown = table.to_text();
            assert!(shown.contains("40.000") && shown.contains("80.000") && shown.contains("broken.JPEG"), "{shown}");
            assert!(shown.lines().all(|line| line.chars().count() <= WIDTH || line.contains("broken.JPEG")), "{shown}");
        }
        Ok(())
    }
}

#[test]
fn a_limit_takes_photos_from_the_whole_list() {
    let (device, parameters, dir) = (Device::sim(), NARROW.seeded(SEED), tempfile::tempdir().unwrap());
    for class in 0..NARROW.classes {
        let class = dir.path().join(format!("{class}"));
        std::fs::create_dir(&class).unwrap();
        // Unreadable, so that the list of what was left out says what was taken.
        (0..10).for_each(|i| std::fs::write(class.join(format!("{i}.jpg")), "").unwrap());
    }
    let error = evaluate(&device, NARROW, &parameters, dir.path(), options(4, Some(7))).unwrap_err().to_string();
    assert!(error.contains("none of its photos can be read") && error.contains("0.jpg"), "{error}");
    RgbImage::new(9, 9).save(dir.path().join("6").join("0.png")).unwrap();
    let taken =
        |limit| -> Evaluation { evaluate(&device, NARROW, &parameters, dir.path(), options(4, Some(limit))).unwrap() };
    // 71 files. Of 1000, all; of 71, all; and the photo is the 61st.
    for limit in [1000, 71] {
        assert_eq!((taken(limit).photos, taken(limit).unreadable.len()), (1, 70));
    }
    let found = taken(70);
    assert_eq!((found.photos, found.unreadable.len()), (1, 69));
    let classes: Vec<String> =
        (0..7).map(|class| format!("{}", dir.path().join(class.to_string()).display())).collect();
    for class in classes {
        assert!(found.unreadable.iter().any(|what| what.contains(&class)), "{class}");
    }
}

/// The narrow network's weights in a `.safetensors` file, with `value` everywhere in one tensor.
fn weights_with(path: &Path, changed: &str, value: f32) -> Parameters {
    let bytes_of = |values: &[f32]| values.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<u8>>();
    let parameters = NARROW.seeded(SEED);
    assert!(parameters.iter().any(|(name, _)| name == changed));
    let tensors: Vec<(String, Vec<usize>, Vec<u8>)> = parameters
        .iter()
        .map(|(name, tensor)| {
            let values = if name == changed { &vec![value; tensor.len()] } else { tensor.as_slice().unwrap() };
            (name.to_owned(), tensor.shape().to_vec(), bytes_of(values))
        })
        .collect();
    let views = tensors
        .iter()
        .map(|(name, shape, bytes)| (name.as_str(), TensorView::new(Dtype::F32, shape.clone(), bytes).unwrap()));
    safetensors::serialize_to_file(views, None, path).unwrap();
    Parameters::open(path, &NARROW.shapes()).unwrap()
}

/// A negative variance has no root, and sums of large products overflow; the network would call every photo class 0. Both happen in
/// the middle of a block.
#[test]
fn weights_that_give_nan_are_an_error_with_the_layer() {
    let (device, dir, weights) = (Device::sim(), folder(), tempfile::tempdir().unwrap());
    let of_photos = |parameters: &Parameters| {
        let network = ResNet::load(&Unfused::new(&device), NARROW, parameters).unwrap();
        logits(&mut OnDevice::new(&device, &network), NARROW, parameters, &[Photo::built_in()])
    };
    for (tensor, value, layer) in [
        ("layer2.0.bn1.running_var", -1.0, "layer2.0.bn1"),
        ("layer3.0.conv2.weight", 3e38, "layer3.0.conv2"),
        ("layer4.0.downsample.1.running_var", -1.0, "layer4.0.downsample.1"),
    ] {
        let broken = weights_with(&weights.path().join("broken.safetensors"), tensor, value);
        let is_named = |error: Error| {
            let says = format!("computed on the CPU, `{layer}` is the first layer whose output holds ");
            assert!(matches!(error, Error::NonFinite { .. }) && error.to_string().contains(&says), "{error}");
        };
        is_named(evaluate(&device, NARROW, &broken, dir.path(), options(2, None)).unwrap_err());
        is_named(of_photos(&broken).unwrap_err());
    }
    assert!(of_photos(&NARROW.seeded(SEED)).is_ok());
}

#[test]
fn every_layer_is_observed_by_its_name_in_its_order() {
    let cpu = Cpu::new();
    let network = ResNet::load(&cpu, NARROW, &NARROW.seeded(SEED)).unwrap();
    let (images, mut seen) = (Tensor::random(&[1, 3, 32, 32], 1), Vec::new());
    let logits = cpu.observe_layers(&network, &images, |name, _| seen.push(name.to_owned())).unwrap();
    assert_eq!(logits.as_slice().unwrap(), cpu.infer(&network, &images).unwrap().as_slice().unwrap());
    let names =
        |scope: &str, names: &str| -> Vec<String> { names.split(' ').map(|name| format!("{scope}{name}")).collect() };
    let smaller = "conv1 bn1 relu conv2 bn2 downsample.0 downsample.1 add relu";
    let expected = [
        names("", "conv1 bn1 relu maxpool"),
        names("layer1.0.", "conv1 bn1 relu conv2 bn2 add relu"),
        names("layer2.0.", smaller),
        names("layer3.0.", smaller),
        names("layer4.0.", smaller),
        names("", "avgpool fc"),
    ];
    assert_eq!(seen, expected.concat());
}

#[test]
fn folders_that_cannot_be_used_are_refused() {
    let (device, parameters, dir) = (Device::sim(), NARROW.seeded(SEED), tempfile::tempdir().unwrap());
    let refused = |says: &str| match evaluate(&device, NARROW, &parameters, dir.path(), options(4, None)) {
        Err(error @ Error::Folder { .. }) => assert!(error.to_string().contains(says), "{error}"),
        other => panic!("{other:?}"),
    };
    refused("it has 0 folders and the network has 7 classes");
    (0..7).for_each(|class| std::fs::create_dir(dir.path().join(format!("{class}"))).unwrap());
    refused("its folders hold no JPEG or PNG file");
    std::fs::write(dir.path().join("3").join("a.jpg"), "text").unwrap();
    refused("none of its photos can be read");
    std::fs::create_dir(dir.path().join("one more")).unwrap();
    refused("it has 8 folders");
}
