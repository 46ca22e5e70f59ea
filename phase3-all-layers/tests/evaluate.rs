//! A narrow network over a folder of labelled photos.
#![allow(clippy::unwrap_used)]

use std::num::NonZeroUsize;
use std::path::Path;

use common::device_test;
use common::prelude::*;
use common::progress::Progress;
use common::table::WIDTH;
use image::RgbImage;
use media::photo::Photo;
use phase3_all_layers::Error;
use phase3_all_layers::backends::{Cpu, OnHost};
use phase3_all_layers::commands::classify::logits;
use phase3_all_layers::commands::evaluate::{Evaluation, Options, evaluate};
use phase3_all_layers::models::resnet::{Config, ResNet};
use phase3_all_layers::nn::Parameters;

const NARROW: Config = Config { widths: [4, 4, 6, 8], blocks: [1; 4], classes: 7 };
const SEED: u64 = 1;

fn options(batch: usize, limit: Option<usize>) -> Options {
    Options { batch: NonZeroUsize::new(batch).unwrap(), limit: limit.and_then(NonZeroUsize::new) }
}

/// The classes of a photo, the likeliest first, as the CPU has it.
fn classes_on_the_cpu(path: &Path) -> Vec<usize> {
    let cpu = Cpu::new();
    let network = ResNet::load(&cpu, NARROW, &NARROW.seeded(SEED)).unwrap();
    let logits = cpu.infer(&network, &Photo::open(path).unwrap().to_tensor()).unwrap();
    let logits = logits.as_slice().unwrap();
    let mut classes: Vec<usize> = (0..NARROW.classes).collect();
    classes.sort_by(|&a, &b| logits[b].total_cmp(&logits[a]));
    classes
}

/// Seven folders with five photos, whose class is the CPU's 1st, 1st, 3rd, 5th and 6th, and a file that is none.
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
        for batch in [1, 4, 100] {
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

/// A negative variance has no root; the network would call every photo class 0.
#[test]
fn weights_that_give_nan_are_an_error_with_the_layer() {
    let (device, dir) = (Device::sim(), folder());
    let sound = NARROW.seeded(SEED);
    let broken = sound.iter().map(|(name, tensor)| {
        let values = match name {
            "layer2.0.bn1.running_var" => vec![-1.0; tensor.len()],
            _ => tensor.as_slice().unwrap().to_vec(),
        };
        (name.to_owned(), Tensor::from_vec(tensor.shape(), values).unwrap())
    });
    let broken = Parameters::new(broken.collect::<Vec<_>>());
    let is_named = |error: Error| {
        let says = "computed on the CPU, `layer2.0` is the first layer whose output holds NaN";
        assert!(matches!(error, Error::NonFinite { .. }) && error.to_string().ends_with(says), "{error}");
    };
    is_named(evaluate(&device, NARROW, &broken, dir.path(), options(2, None)).unwrap_err());
    let photos = [Photo::built_in()];
    is_named(logits(&device, NARROW, &broken, &photos, &Progress::new(3, "")).unwrap_err());
    assert!(logits(&device, NARROW, &sound, &photos, &Progress::new(3, "")).is_ok());
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
