//! `evaluate`: how often a network names the right class of labelled photos, first or among its first five.
//!
//! The photos are in one folder per class, as for torchvision's `ImageFolder`: the folders' names, sorted, give the classes' numbers.
//! ImageNet's validation set so sorted has 1000 folders of 50 photos, on which torchvision's ResNet18 (`IMAGENET1K_V1`) is stated
//! to have 69.758 % and 89.078 %.

use std::fmt::Display;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use bench::table::{ColumnSpec, Table, TableBuilder};
use common::prelude::*;
use common::progress::Progress;
use media::photo::{self, Photo};
use rayon::prelude::*;

use crate::backends::{Cpu, OnHost, Unfused};
use crate::commands::classifier::{Classifier, OnDevice};
use crate::commands::finite::require_finite;
use crate::models::resnet::{Config, ResNet};
use crate::nn::Parameters;
use crate::{Error, Result};

/// A class among this many of the most likely counts as found.
const TOP: usize = 5;
/// Maximum number of unreadable files that a note names; each is printed when it is met.
const NAMED: usize = 3;

/// Input of `evaluate`, and its limits.
#[derive(Clone, Debug, clap::Args)]
pub struct EvaluateArgs {
    /// Folder with one folder per class (1000), numbered in the order of their names
    pub folder: PathBuf,
    /// torchvision's ResNet18 as .safetensors, in f32, f16 or bf16
    #[arg(long, value_name = "FILE")]
    weights: PathBuf,
    /// Photos per forward pass
    #[arg(long, default_value = "32")]
    batch: NonZeroUsize,
    /// Maximum number of photos, spread over the classes
    #[arg(long, value_name = "PHOTOS")]
    limit: Option<NonZeroUsize>,
}

impl EvaluateArgs {
    /// ResNet18's weights, read.
    ///
    /// # Errors
    /// Same as [`Parameters::open`].
    pub fn parameters(&self) -> Result<Parameters> {
        Ok(Parameters::open(&self.weights, &Config::RESNET18.shapes())?)
    }

    /// How much is evaluated.
    pub fn options(&self) -> Options {
        Options { batch: self.batch, limit: self.limit }
    }

    /// The title of the table, naming the device.
    pub fn title(&self, by: impl Display) -> String {
        format!("ResNet18 on {by}, {}", self.folder.display())
    }
}

/// Limits of an evaluation, and its batch size.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Photos in a forward pass.
    pub batch: NonZeroUsize,
    /// Maximum number of photos, at even distances in the list of all, so that no class is left out.
    pub limit: Option<NonZeroUsize>,
}

/// Result of an evaluation.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Evaluation {
    /// Photos that the network saw.
    pub photos: usize,
    /// Photos whose most likely class is right.
    pub top1: usize,
    /// Photos whose class is among the five most likely.
    pub top5: usize,
    /// Files that could not be read, with the reason; they count nowhere else.
    pub unreadable: Vec<String>,
    /// Names of folders without a photo.
    pub empty: Vec<String>,
    /// Time from the first photo to the last, decoding included.
    pub time: Duration,
}

impl Evaluation {
    /// A table of one row.
    pub fn table(&self, title: impl Into<String>) -> Table {
        const PHOTOS: ColumnSpec = ColumnSpec::number("photos", "photos", 0);
        const UNREADABLE: ColumnSpec = ColumnSpec::number("unreadable", "unreadable", 0);
        const TOP_1: ColumnSpec = ColumnSpec::number("top-1 %", "top-1 %", 3);
        const TOP_5: ColumnSpec = ColumnSpec::number("top-5 %", "top-5 %", 3);
        const RATE: ColumnSpec = ColumnSpec::number("images/s", "images/s", 1);
        let mut table = TableBuilder::of(title, [PHOTOS, UNREADABLE, TOP_1, TOP_5, RATE]);
        let rate = self.photos as f64 / self.time.as_secs_f64();
        let row = table.row().set(PHOTOS, self.photos).set(UNREADABLE, self.unreadable.len());
        let row = row.set(TOP_1, self.percent(self.top1)).set(TOP_5, self.percent(self.top5));
        row.set(RATE, rate).complete();
        table.note("images/s: with reading, decoding and resizing on the CPU.");
        for what in self.unreadable.iter().take(NAMED) {
            table.note(format!("Left out: {what}"));
        }
        if self.unreadable.len() > NAMED {
            table.note(format!("Left out as well: {} more.", self.unreadable.len() - NAMED));
        }
        if let Some(first) = self.empty.first() {
            table.note(format!("Folders without a photo: {}, `{first}` the first.", self.empty.len()));
        }
        table.finish()
    }

    fn percent(&self, count: usize) -> f64 {
        100.0 * count as f64 / self.photos as f64
    }
}

/// The network over the photos of `folder`, all layers on `device`.
///
/// # Errors
/// Same as [`evaluate_by`] and [`ResNet::load`].
pub fn evaluate(
    device: &Device,
    config: Config,
    parameters: &Parameters,
    folder: &Path,
    options: Options,
) -> Result<Evaluation> {
    let network = ResNet::load(&Unfused::new(device), config, parameters)?;
    evaluate_by(&mut OnDevice::new(device, &network), config, parameters, folder, options)
}

/// Result of `classifier`, a network with these parameters, for the photos of `folder`.
///
/// # Errors
/// [`Error::Folder`] if it cannot be read, does not have one folder per class of the network, or has no readable photo;
/// [`Error::NonFinite`] if the network answers NaN or an infinity; otherwise same as [`Classifier::logits`].
pub fn evaluate_by(
    classifier: &mut impl Classifier,
    config: Config,
    parameters: &Parameters,
    folder: &Path,
    options: Options,
) -> Result<Evaluation> {
    let fail = |reason| Error::Folder { path: folder.to_owned(), reason };
    let Labelled { mut photos, empty } = Labelled::list(folder, config.classes).map_err(fail)?;
    if let Some(limit) = options.limit.map(NonZeroUsize::get).filter(|&limit| limit < photos.len()) {
        photos = (0..limit).map(|at| photos[at * photos.len() / limit].clone()).collect();
    }
    let mut found = Evaluation { empty, ..Evaluation::default() };
    let progress = Progress::new(photos.len() as u64, "the first batch");
    let start = Instant::now();
    // The next batch is read while the network looks at one.
    let evaluated = std::thread::scope(|scope| {
        let (ahead, batches) = std::sync::mpsc::sync_channel(1);
        scope.spawn(|| {
            let ahead = ahead; // closed with the last batch
            for batch in photos.chunks(options.batch.get()) {
                if ahead.send(Batch::read(batch)).is_err() {
                    break;
                }
            }
        });
        for batch in batches {
            let Batch { images, classes, unreadable } = batch?;
            progress.inc((classes.len() + unreadable.len()) as u64);
            for reason in unreadable {
                progress.println(format!("left out: {reason}"));
                found.unreadable.push(reason);
            }
            let Some(images) = images else { continue };
            let logits = classifier.logits(&images)?;
            require_finite("the network", &logits, |first| {
                let cpu = Cpu::new();
                cpu.observe_layers(&ResNet::load(&cpu, config, parameters)?, &images, |layer, output| {
                    first.see(layer, output)
                })
            })?;
            for (class, logits) in classes.into_iter().zip(logits.chunks(config.classes)) {
                let place = place(logits, class);
                found.photos += 1;
                found.top1 += usize::from(place == 0);
                found.top5 += usize::from(place < TOP);
            }
            let [top1, top5] = [found.top1, found.top5].map(|count| found.percent(count));
            progress.set_message(format!("top-1 {top1:.2} %, top-5 {top5:.2} %"));
        }
        Ok::<_, Error>(())
    });
    evaluated?;
    found.time = start.elapsed();
    progress.finish();
    match (found.photos, found.unreadable.first()) {
        (0, Some(first)) => Err(fail(format!("none of its photos can be read: {first}"))),
        (0, None) => Err(fail("its folders hold no JPEG or PNG file".to_owned())),
        _ => Ok(found),
    }
}

/// Photos of a forward pass.
struct Batch {
    /// \[N, 3, 224, 224\]; none if no file could be read.
    images: Option<Tensor>,
    /// Classes of the readable photos.
    classes: Vec<usize>,
    /// Reasons why the others could not be read.
    unreadable: Vec<String>,
}

impl Batch {
    /// Reads and decodes the files on all threads.
    fn read(files: &[(PathBuf, usize)]) -> Result<Batch> {
        let read: Vec<_> = files.par_iter().map(|(path, class)| (Photo::open(path), *class)).collect();
        let (mut photos, mut classes, mut unreadable) = (Vec::new(), Vec::new(), Vec::new());
        for (photo, class) in read {
            match photo {
                Ok(photo) => {
                    photos.push(photo);
                    classes.push(class);
                }
                Err(error) => unreadable.push(error.to_string()),
            }
        }
        let images = if photos.is_empty() { None } else { Some(photo::batch(&photos)?) };
        Ok(Batch { images, classes, unreadable })
    }
}

/// Number of classes that are likelier than this one: greater, equal with a smaller number, or NaN.
fn place(logits: &[f32], class: usize) -> usize {
    let own = logits[class];
    let before = |&(at, &other): &(usize, &f32)| at != class && !(other < own || other == own && at > class);
    logits.iter().enumerate().filter(before).count()
}

/// Photos with their classes.
#[derive(Debug)]
struct Labelled {
    /// By class, then by name.
    photos: Vec<(PathBuf, usize)>,
    /// Names of folders without a photo.
    empty: Vec<String>,
}

impl Labelled {
    fn list(folder: &Path, classes: usize) -> Result<Labelled, String> {
        let folders = sorted(folder, Path::is_dir)?;
        if folders.len() != classes {
            return Err(format!(
                "it has {} folders and the network has {classes} classes; each class needs a folder of its own, even an empty \
                 one, since the folders' sorted names give the classes' numbers",
                folders.len()
            ));
        }
        let (mut photos, mut empty) = (Vec::new(), Vec::new());
        for (class, folder) in folders.iter().enumerate() {
            let files = sorted(folder, is_photo)?;
            if files.is_empty() {
                empty.push(folder.file_name().unwrap_or_default().to_string_lossy().into_owned());
            }
            photos.extend(files.into_iter().map(|path| (path, class)));
        }
        Ok(Labelled { photos, empty })
    }
}

/// Whether it is a photo by its extension, as torchvision selects files.
fn is_photo(path: &Path) -> bool {
    let ending = path.extension().unwrap_or_default();
    ["jpg", "jpeg", "png"].iter().any(|known| ending.eq_ignore_ascii_case(known))
}

/// Entries of one kind in a folder, sorted by name.
fn sorted(folder: &Path, kind: fn(&Path) -> bool) -> Result<Vec<PathBuf>, String> {
    let unreadable = |error| format!("{} cannot be read: {error}", folder.display());
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(unreadable)? {
        let path = entry.map_err(unreadable)?.path();
        if kind(&path) {
            found.push(path);
        }
    }
    found.sort_unstable();
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_place_of_a_class_counts_what_stands_before_it() {
        let logits = [0.5, 3.0, -1.0, 3.0, 2.0];
        assert_eq!([0, 1, 2, 3, 4].map(|class| place(&logits, class)), [3, 0, 4, 1, 2]);
        // A network that says the same of all classes is right about the first only.
        assert_eq!([0, 1, 2].map(|class| place(&[0.0; 3], class)), [0, 1, 2]);
        // One that says nothing is never right.
        assert_eq!([0, 1, 2].map(|class| place(&[f32::NAN; 3], class)), [2, 2, 2]);
        assert_eq!([0, 1].map(|class| place(&[1.0, f32::NAN], class)), [1, 1]);
    }

    #[test]
    fn folders_in_order_give_the_numbers_and_their_photos_are_listed() {
        let dir = tempfile::tempdir().unwrap();
        for (folder, files) in [
            ("n10", vec!["b.JPEG", "a.png", "c.txt"]),
            ("N3", vec!["x.Jpg"]),
            ("n1", vec![]),
            ("n2", vec!["y.jpeg", "y.jpeg.part"]),
        ] {
            std::fs::create_dir(dir.path().join(folder)).unwrap();
            files.iter().for_each(|file| std::fs::write(dir.path().join(folder).join(file), "").unwrap());
        }
        std::fs::write(dir.path().join("a.jpg"), "beside the folders").unwrap();
        let listed = Labelled::list(dir.path(), 4).unwrap();
        let names = |(path, class): &(PathBuf, usize)| {
            (
                path.strip_prefix(dir.path()).unwrap().iter().map(|part| part.to_str().unwrap().to_owned()).collect(),
                *class,
            )
        };
        let photos: Vec<(Vec<String>, usize)> = listed.photos.iter().map(names).collect();
        let expected = [(["N3", "x.Jpg"], 0), (["n10", "a.png"], 2), (["n10", "b.JPEG"], 2), (["n2", "y.jpeg"], 3)];
        assert_eq!(photos, expected.map(|(path, class)| (path.map(str::to_owned).to_vec(), class)));
        assert_eq!(listed.empty, ["n1"]);
        let error = Labelled::list(dir.path(), 1000).unwrap_err();
        assert!(error.starts_with("it has 4 folders and the network has 1000 classes; "), "{error}");
        assert!(Labelled::list(&dir.path().join("none"), 4).unwrap_err().contains("cannot be read"));
    }
}
