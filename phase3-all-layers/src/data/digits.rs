//! Real, labelled images: handwritten digits, and a network's results on them. They come with the course, from
//! `python/digits.py`; `assets/README.md` has their authors and licence. [`crate::digits`] has the network that was trained for
//! them.

use std::ops::Range;

use common::prelude::*;
use safetensors::tensor::TensorView;
use safetensors::{Dtype, SafeTensors};

/// The digits 0 to 9.
pub const CLASSES: usize = 10;
/// Images per forward pass; the last one has the remaining ones.
pub const BATCH: usize = 64;

/// Side of an image in the file, in pixels.
const SIDE: usize = 8;
/// Each pixel becomes a square of this side.
const ENLARGED: usize = 4;
/// The brightest a pixel can be.
const WHITE: f32 = 16.0;

static TEST: &[u8] = include_bytes!("../../assets/digits-test.safetensors");
static TRAINING: &[u8] = include_bytes!("../../assets/digits-train.safetensors");

/// The test set.
#[derive(Clone, Debug)]
pub struct Digits {
    /// \[N, 8, 8\], 0 to 16.
    images: Vec<u8>,
    labels: Vec<u8>,
    logits: Vec<f32>,
}

impl Digits {
    /// The digits that come with the course.
    ///
    /// # Errors
    /// [`Error::File`] if the file is not what it should be.
    pub fn built_in() -> Result<Digits> {
        const NAME: &str = "digits-test.safetensors";
        let wrong = |reason: String| Error::File { name: NAME.to_owned(), reason };
        let images = u8s(TEST, NAME, "images", &[SIDE, SIDE])?;
        let labels = u8s(TEST, NAME, "labels", &[])?;
        let file = SafeTensors::deserialize(TEST).map_err(|error| wrong(error.to_string()))?;
        let logits = checked(&file, NAME, "logits", Dtype::F32, &[CLASSES])?;
        let logits: Vec<f32> = logits.data().as_chunks().0.iter().map(|&bytes| f32::from_le_bytes(bytes)).collect();
        if images.len() != labels.len() * SIDE * SIDE || logits.len() != labels.len() * CLASSES {
            return Err(wrong("it does not have as many images and logits as labels".to_owned()));
        }
        Ok(Digits { images, labels, logits })
    }

    /// Keeps only the first `count` images.
    #[must_use]
    pub fn first(mut self, count: usize) -> Digits {
        self.images.truncate(count * SIDE * SIDE);
        self.labels.truncate(count);
        self.logits.truncate(count * CLASSES);
        self
    }

    /// Digits that the images show, 0 to 9.
    pub fn labels(&self) -> &[u8] {
        &self.labels
    }

    /// PyTorch's logits of the network that was trained for them, \[N, 10\].
    pub fn pytorchs_logits(&self) -> &[f32] {
        &self.logits
    }

    /// Inputs of the network for the images, [`BATCH`] at a time.
    fn batches(&self) -> impl Iterator<Item = Tensor> + '_ {
        self.images.chunks(BATCH * SIDE * SIDE).map(seen)
    }

    /// Outcome of a forward pass, from the network's input to logits \[n, 10\], over all images.
    ///
    /// # Errors
    /// Errors of the pass.
    pub fn evaluate(&self, mut forward: impl FnMut(&Tensor) -> Result<Tensor>) -> Result<Outcome> {
        let mut logits = Vec::new();
        for images in self.batches() {
            logits.extend(forward(&images)?.into_vec()?);
        }
        Ok(Outcome::new(logits, &self.labels))
    }
}

// ANCHOR: training
/// Some of the 320 images of the training set that come with the course, as the network's input, \[n, 3, 32, 32\]: for
/// calibrations, which must not look at the test set.
///
/// # Errors
/// [`Error::Invalid`] if there are not as many, [`Error::File`] if the file is not what it should be.
pub fn training(chosen: Range<usize>) -> Result<Tensor> {
    const NAME: &str = "digits-train.safetensors";
    let images = u8s(TRAINING, NAME, "images", &[SIDE, SIDE])?;
    let bytes = images.get(chosen.start * SIDE * SIDE..chosen.end * SIDE * SIDE);
    let missing = || Error::Invalid(format!("{NAME} has {} images, not {chosen:?}", images.len() / (SIDE * SIDE)));
    Ok(seen(bytes.ok_or_else(missing)?))
}
// ANCHOR_END: training

/// A tensor of bytes in a file.
fn u8s(file: &[u8], name: &str, tensor: &str, rest: &[usize]) -> Result<Vec<u8>> {
    let wrong = |reason: String| Error::File { name: name.to_owned(), reason };
    let file = SafeTensors::deserialize(file).map_err(|error| wrong(error.to_string()))?;
    Ok(checked(&file, name, tensor, Dtype::U8, rest)?.data().to_vec())
}

/// A tensor of a file, of this type and with a shape that ends like this.
fn checked<'f>(
    file: &SafeTensors<'f>,
    name: &str,
    tensor: &str,
    dtype: Dtype,
    rest: &[usize],
) -> Result<TensorView<'f>> {
    let wrong = |reason: String| Error::File { name: name.to_owned(), reason };
    let view = file.tensor(tensor).map_err(|error| wrong(error.to_string()))?;
    match view.shape().split_first() {
        Some((_, dims)) if dims == rest && view.dtype() == dtype => Ok(view),
        _ => Err(wrong(format!("`{tensor}` is {:?} of the shape {:?}", view.dtype(), view.shape()))),
    }
}

/// Network input for images: values / 16, enlarged, in three equal channels, \[n, 3, 32, 32\].
fn seen(images: &[u8]) -> Tensor {
    Tensor::from_fn(&input(images.len() / (SIDE * SIDE)), |at| {
        let (row, column) = (at[2] / ENLARGED, at[3] / ENLARGED);
        f32::from(images[(at[0] * SIDE + row) * SIDE + column]) / WHITE
    })
}

/// Shape of the network's input for `count` images.
pub fn input(count: usize) -> [usize; 4] {
    [count, 3, SIDE * ENLARGED, SIDE * ENLARGED]
}

/// Result of a network on the test set.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// \[N, 10\].
    pub logits: Vec<f32>,
    /// For each image the class of the largest logit, the first among equals.
    pub predictions: Vec<u8>,
    /// Fraction of the images whose prediction is the label, 0 to 1.
    pub accuracy: f64,
}

impl Outcome {
    /// The outcome of these logits.
    pub fn new(logits: Vec<f32>, labels: &[u8]) -> Outcome {
        let predictions: Vec<u8> = logits.chunks(CLASSES).map(likeliest).collect();
        let right = predictions.iter().zip(labels).filter(|(prediction, label)| prediction == label).count();
        Outcome { accuracy: right as f64 / labels.len() as f64, predictions, logits }
    }
}

/// Index of the largest logit, as PyTorch's `argmax`, for which NaN is larger than every number.
fn likeliest(logits: &[f32]) -> u8 {
    let mut best = (0, f32::NEG_INFINITY);
    for (class, &value) in (0..).zip(logits) {
        if value > best.1 || (value.is_nan() && !best.1.is_nan()) {
            best = (class, value);
        }
    }
    best.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_is_enlarged_in_three_equal_channels() {
        let digits = Digits::built_in().unwrap();
        let batches: Vec<Tensor> = digits.batches().collect();
        let counts: Vec<usize> = batches.iter().map(|batch| batch.shape()[0]).collect();
        assert_eq!(counts, [64, 64, 64, 64, 64, 40]);
        let (pixels, seen) = (&digits.images[64..128], batches[0].as_slice().unwrap());
        for (row, column) in [(0, 3), (1, 5), (7, 4)] {
            let expected = f32::from(pixels[row * 8 + column]) / 16.0;
            for channel in 3..6 {
                for (y, x) in [(0, 0), (3, 0), (0, 3), (3, 3)] {
                    assert_eq!(seen[(channel * 32 + row * 4 + y) * 32 + column * 4 + x], expected);
                }
            }
        }
    }

    /// Images of the training set are not in the test set, and are all different.
    #[test]
    fn images_for_calibrations_are_not_those_of_the_test_set() {
        let tested: Vec<f32> =
            Digits::built_in().unwrap().batches().flat_map(|batch| batch.into_vec().unwrap()).collect();
        let each = input(1).iter().product();
        let images = training(0..320).unwrap();
        assert_eq!(images.shape(), input(320));
        for image in images.as_slice().unwrap().chunks(each) {
            assert!(!tested.chunks(each).any(|tested| tested == image));
            assert_eq!(images.as_slice().unwrap().chunks(each).filter(|other| *other == image).count(), 1);
        }
        assert!(training(300..321).is_err());
    }

    #[test]
    fn the_first_of_the_largest_logits_is_the_prediction() {
        let mut logits = vec![0.0; 20];
        logits[3] = 1.0;
        logits[7] = 1.0;
        logits[19] = 0.5;
        let outcome = Outcome::new(logits.clone(), &[3, 8]);
        assert_eq!((outcome.predictions, outcome.accuracy), (vec![3, 9], 0.5));
        logits[16] = f32::NAN;
        assert_eq!(Outcome::new(logits, &[3, 8]).predictions, [3, 6]);
    }
}
