//! `classify`: the five classes that a network finds likeliest for each photo.

use std::path::Path;

use common::prelude::*;
use common::progress::Progress;
use common::table::{Column, Table};

use crate::module::infer;
use crate::parameters::Parameters;
use crate::photo::Photo;
use crate::resnet::{Config, ResNet};

/// Rows for each photo.
const TOP: usize = 5;
/// Of the untrained parameters.
const SEED: u64 = 18;

/// ResNet18 over `photos`, one batch, with the weights of a `.safetensors` file or, without, untrained ones.
///
/// # Errors
/// As [`Parameters::open`], [`ResNet::load`] and [`ResNet::forward`].
pub fn classify(device: &Device, photos: &[Photo], weights: Option<&Path>) -> crate::Result<Table> {
    let config = Config::RESNET18;
    let progress = Progress::new(3, "weights");
    let parameters = match weights {
        Some(path) => Parameters::open(path, &config.shapes())?,
        None => config.seeded(SEED),
    };
    progress.inc(1);
    progress.set_message(format!("copying ResNet18 to {}", device.short_name()));
    let network = ResNet::load(device, config, &parameters)?;
    progress.inc(1);
    progress.set_message(format!("a forward pass, {} of 224 × 224", photos.len()));
    let images: Vec<f32> =
        photos.iter().map(|photo| photo.to_tensor().into_vec()).collect::<common::Result<Vec<_>>>()?.concat();
    let images = Tensor::from_vec(&[photos.len(), 3, 224, 224], images)?;
    let logits = infer(&device.stream(), &network, &images)?.into_vec()?;
    progress.finish();

    let columns =
        [Column::text("photo"), Column::number("rank", 0), Column::number("class", 0), Column::number("%", 2)];
    let mut table = Table::new(format!("ResNet18 on {}", device.short_name()), columns);
    for (photo, logits) in photos.iter().zip(logits.chunks(config.classes)) {
        for (rank, (class, probability)) in (1..).zip(likeliest(logits)) {
            table.row([
                photo.name().into(),
                f64::from(rank).into(),
                (class as f64).into(),
                (100.0 * probability).into(),
            ]);
        }
    }
    table.note("class: ImageNet's, counted from 0.");
    if weights.is_none() {
        table.note("The weights are untrained, so what it says of a photo means nothing. `--weights FILE` takes torchvision's.");
    }
    Ok(table)
}

/// Class and probability of the [`TOP`] largest logits, largest first.
fn likeliest(logits: &[f32]) -> Vec<(usize, f64)> {
    let largest = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let powers: Vec<f64> = logits.iter().map(|&logit| f64::from(logit - largest).exp()).collect();
    let sum: f64 = powers.iter().sum();
    let mut classes: Vec<(usize, f64)> = powers.into_iter().map(|power| power / sum).enumerate().collect();
    classes.sort_by(|(_, a), (_, b)| b.total_cmp(a));
    classes.truncate(TOP);
    classes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_likeliest_come_first_and_large_logits_do_not_overflow() {
        let logits = [990.0, 1000.0, -5.0, 999.0, 0.0, 985.0, 998.0];
        let found = likeliest(&logits);
        assert_eq!(found.iter().map(|(class, _)| *class).collect::<Vec<_>>(), [1, 3, 6, 0, 5]);
        let e = 1f64.exp();
        assert!((found[0].1 - 1.0 / (1.0 + 1.0 / e + 1.0 / (e * e))).abs() < 1e-4, "{found:?}");
    }
}
