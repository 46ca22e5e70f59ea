//! `classify`: the five most likely classes of each photo.

use std::path::{Path, PathBuf};

use bench::table::{ColumnSpec, Table, TableBuilder};
use common::prelude::*;
use common::progress::Progress;
use media::photo::{self, Photo};

use crate::backends::{Cpu, OnHost, Unfused};
use crate::commands::classifier::{Classifier, OnDevice};
use crate::commands::finite::require_finite;
use crate::data::imagenet;
use crate::models::resnet::{Config, ResNet};
use crate::nn::Parameters;

/// Rows per photo.
const TOP: usize = 5;
/// Seed of the untrained parameters.
const SEED: u64 = 18;
/// Maximum length of a photo's name in the table, in characters.
const NAME: usize = 32;

/// Input of `classify`.
#[derive(Clone, Debug, clap::Args)]
pub struct ClassifyArgs {
    /// JPEG or PNG files [default: a photo that comes with the course]
    #[arg(value_name = "PHOTO")]
    photos: Vec<PathBuf>,
    /// torchvision's ResNet18 as .safetensors, in f32, f16 or bf16 [default: untrained weights]
    #[arg(long, value_name = "FILE")]
    pub weights: Option<PathBuf>,
}

impl ClassifyArgs {
    /// The photos, read.
    ///
    /// # Errors
    /// Same as [`Photo::open`].
    pub fn photos(&self) -> crate::Result<Vec<Photo>> {
        match self.photos.as_slice() {
            [] => Ok(vec![Photo::built_in()]),
            paths => Ok(paths.iter().map(|path| Photo::open(path)).collect::<Result<_, _>>()?),
        }
    }
}

/// ResNet18 over `photos`, one batch, with the weights of a `.safetensors` file or, without one, untrained; all layers on
/// `device`.
///
/// # Errors
/// Same as [`parameters`], [`ResNet::load`] and [`classify_by`].
pub fn classify(device: &Device, photos: &[Photo], weights: Option<&Path>) -> crate::Result<Table> {
    let parameters = parameters(weights)?;
    let network = ResNet::load(&Unfused::new(device), Config::RESNET18, &parameters)?;
    let title = format!("ResNet18 on {}", device.short_name());
    classify_by(&mut OnDevice::new(device, &network), &parameters, photos, title, weights.is_some())
}

/// ResNet18's weights, from a `.safetensors` file or, without one, untrained.
///
/// # Errors
/// Same as [`Parameters::open`].
pub fn parameters(weights: Option<&Path>) -> crate::Result<Parameters> {
    let config = Config::RESNET18;
    Ok(match weights {
        Some(path) => Parameters::open(path, &config.shapes())?,
        None => config.seeded(SEED),
    })
}

/// Result of `classifier`, ResNet18 with these parameters, for `photos`, one batch.
///
/// # Errors
/// Same as [`logits`].
pub fn classify_by(
    classifier: &mut impl Classifier,
    parameters: &Parameters,
    photos: &[Photo],
    title: String,
    trained: bool,
) -> crate::Result<Table> {
    let config = Config::RESNET18;
    let progress = Progress::new(1, format!("a forward pass, {} of 224 × 224", photos.len()));
    let logits = logits(classifier, config, parameters, photos)?;
    progress.finish();

    const PHOTO: ColumnSpec = ColumnSpec::text("photo", "photo");
    const RANK: ColumnSpec = ColumnSpec::identity("rank", "rank");
    const CLASS: ColumnSpec = ColumnSpec::text("class", "class");
    const NUMBER: ColumnSpec = ColumnSpec::number("number", "number", 0);
    const PERCENT: ColumnSpec = ColumnSpec::number("%", "%", 2);
    let columns = [PHOTO, RANK, CLASS, NUMBER, PERCENT];
    let mut table = TableBuilder::of(title, columns);
    for (photo, logits) in photos.iter().zip(logits.chunks(config.classes)) {
        for (rank, (class, probability)) in (1usize..).zip(likeliest(logits)) {
            let row = table.row().set(PHOTO, shortened(photo.name(), NAME)).set(RANK, rank);
            let row = row.set(CLASS, imagenet::NAMES[class]).set(NUMBER, class);
            row.set(PERCENT, 100.0 * probability).complete();
        }
    }
    table.note("class and number: ImageNet's, counted from 0 in torchvision's order.");
    if !trained {
        table.note("The weights are untrained, so the classes mean nothing. `--weights FILE` takes torchvision's, which two lines of \
             Python write: book/pages/phase3/index.md.");
    }
    Ok(table.finish())
}

/// The logits of `photos`, in their order, by a network with these parameters.
///
/// # Errors
/// Same as [`Classifier::logits`] and [`require_finite`].
pub fn logits(
    classifier: &mut impl Classifier,
    config: Config,
    parameters: &Parameters,
    photos: &[Photo],
) -> crate::Result<Vec<f32>> {
    let images = photo::batch(photos)?;
    let logits = classifier.logits(&images)?;
    require_finite("ResNet", &logits, |first| {
        let cpu = Cpu::new();
        cpu.observe_layers(&ResNet::load(&cpu, config, parameters)?, &images, |layer, output| first.see(layer, output))
    })?;
    Ok(logits)
}

/// The text, or its beginning and its end if it has more than `most` characters.
fn shortened(text: &str, most: usize) -> String {
    let characters: Vec<char> = text.chars().collect();
    if characters.len() <= most {
        return text.to_owned();
    }
    let (first, last) = ((most - 1) / 2, most / 2);
    let ends = [&characters[..first], &['…'], &characters[characters.len() - last..]];
    ends.into_iter().flatten().collect()
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

    #[test]
    fn long_names_keep_both_ends() {
        assert_eq!(shortened("cat.jpg", 7), "cat.jpg");
        assert_eq!(shortened("a cat.jpg", 8), "a c….jpg");
        assert_eq!(shortened("Kätzchen über Bord.jpg", 9), "Kätz….jpg");
    }
}
