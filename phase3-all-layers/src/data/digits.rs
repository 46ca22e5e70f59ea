//! Real, labelled images: handwritten digits, and what a network says of them. They come with the course, from `python/digits.py`;
//! `assets/README.md` has their authors and licence. [`crate::digits`] has the network that was trained for them.

use common::prelude::*;
use safetensors::tensor::TensorView;
use safetensors::{Dtype, SafeTensors};

/// 0 to 9.
pub const CLASSES: usize = 10;
/// Images of a forward pass; the last one has those that are left.
pub const BATCH: usize = 64;

/// Side of an image in the file, in pixels.
const SIDE: usize = 8;
/// Each pixel becomes a square of this side.
const ENLARGED: usize = 4;
/// The brightest a pixel can be.
const WHITE: f32 = 16.0;

static TEST: &[u8] = include_bytes!("../../assets/digits-test.safetensors");

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
    /// [`Error::Invalid`] if the file is not what it should be.
    pub fn built_in() -> Result<Digits> {
        let wrong = |what: String| Error::Invalid(format!("digits-test.safetensors: {what}"));
        let file = SafeTensors::deserialize(TEST).map_err(|error| wrong(error.to_string()))?;
        let tensor = |name: &str, dtype: Dtype, rest: &[usize]| -> Result<TensorView<'_>> {
            let view = file.tensor(name).map_err(|error| wrong(error.to_string()))?;
            match view.shape().split_first() {
                Some((_, dims)) if dims == rest && view.dtype() == dtype => Ok(view),
                _ => Err(wrong(format!("`{name}` is {:?} of the shape {:?}", view.dtype(), view.shape()))),
            }
        };
        let images = tensor("images", Dtype::U8, &[SIDE, SIDE])?.data().to_vec();
        let labels = tensor("labels", Dtype::U8, &[])?.data().to_vec();
        let logits = tensor("logits", Dtype::F32, &[CLASSES])?;
        let logits: Vec<f32> = logits.data().as_chunks().0.iter().map(|&bytes| f32::from_le_bytes(bytes)).collect();
        if images.len() != labels.len() * SIDE * SIDE || logits.len() != labels.len() * CLASSES {
            return Err(wrong("it does not have as many images and logits as labels".to_owned()));
        }
        Ok(Digits { images, labels, logits })
    }

    /// The first of them alone.
    #[must_use]
    pub fn first(mut self, count: usize) -> Digits {
        self.images.truncate(count * SIDE * SIDE);
        self.labels.truncate(count);
        self.logits.truncate(count * CLASSES);
        self
    }

    /// What the images show, 0 to 9.
    pub fn labels(&self) -> &[u8] {
        &self.labels
    }

    /// PyTorch's logits of the network that was trained for them, \[N, 10\].
    pub fn pytorchs_logits(&self) -> &[f32] {
        &self.logits
    }

    /// What the network sees of the images, [`BATCH`] at a time: values / 16, enlarged, in three equal channels,
    /// \[n, 3, 32, 32\].
    fn batches(&self) -> impl Iterator<Item = Tensor> + '_ {
        self.images.chunks(BATCH * SIDE * SIDE).map(|images| {
            Tensor::from_fn(&input(images.len() / (SIDE * SIDE)), |at| {
                let (row, column) = (at[2] / ENLARGED, at[3] / ENLARGED);
                f32::from(images[(at[0] * SIDE + row) * SIDE + column]) / WHITE
            })
        })
    }

    /// What a forward pass, from what the network sees to logits \[n, 10\], says of all images.
    ///
    /// # Errors
    /// Those of the pass.
    pub fn evaluate(&self, mut forward: impl FnMut(&Tensor) -> Result<Tensor>) -> Result<Outcome> {
        let mut logits = Vec::new();
        for images in self.batches() {
            logits.extend(forward(&images)?.into_vec()?);
        }
        Ok(Outcome::new(logits, &self.labels))
    }
}

// ANCHOR: drawn
/// Digits that a program draws, as the network sees them, \[count, 3, 32, 32\]: for calibrations, which may not look at the test set. 0 to 9
/// in turn, by the pixels of a font of 6 × 8, moved by up to a pixel, more or less bright.
///
/// # Errors
/// None: the values are on the host.
pub fn drawn(count: usize, seed: u64) -> Result<Tensor> {
    let chance = Tensor::random(&[count, 3], seed);
    let (chance, mut values) = (chance.as_slice()?, Vec::with_capacity(count * SIDE * SIDE));
    for (image, chance) in chance.chunks(3).enumerate() {
        let rows = FONT[image % CLASSES];
        // The font's pixel, 0 outside; column 0 of the image is empty.
        let lit = |y: i32, x: i32| {
            let row = usize::try_from(y).ok().and_then(|y| rows.get(y)).copied().unwrap_or(0);
            let column = u32::try_from(6 - x).ok().filter(|column| *column < 6);
            column.map_or(0.0, |column| f32::from(row >> column & 1))
        };
        for pixel in 0..SIDE * SIDE {
            // Half a pixel at most in each direction, between the four that are nearest.
            let (y, x) = ((pixel / SIDE) as f32 + 0.5 * chance[0], (pixel % SIDE) as f32 + 0.5 * chance[1]);
            let (top, left) = (y.floor(), x.floor());
            let (down, right) = (y - top, x - left);
            let at = |dy: i32, dx: i32| lit(top as i32 + dy, left as i32 + dx);
            let upper = (1.0 - right) * at(0, 0) + right * at(0, 1);
            let lower = (1.0 - right) * at(1, 0) + right * at(1, 1);
            let bright = ((1.0 - down) * upper + down * lower) * (1.0 + 0.25 * chance[2]) * WHITE;
            values.push(bright.round().min(WHITE) / WHITE);
        }
    }
    Ok(Tensor::from_fn(&input(count), |at| values[(at[0] * SIDE + at[2] / ENLARGED) * SIDE + at[3] / ENLARGED]))
}
// ANCHOR_END: drawn

/// A font of 6 × 8: a row of pixels per byte, the leftmost the highest bit of six.
#[rustfmt::skip]
const FONT: [[u8; SIDE]; CLASSES] = [
    [0b011100, 0b110110, 0b100010, 0b100010, 0b100010, 0b100010, 0b110110, 0b011100],
    [0b001100, 0b011100, 0b111100, 0b001100, 0b001100, 0b001100, 0b001100, 0b001100],
    [0b011100, 0b110110, 0b000010, 0b000110, 0b001100, 0b011000, 0b110000, 0b111110],
    [0b111100, 0b000110, 0b000110, 0b011100, 0b000110, 0b000010, 0b000110, 0b111100],
    [0b000110, 0b001100, 0b011000, 0b110100, 0b110100, 0b111111, 0b000100, 0b000100],
    [0b111110, 0b110000, 0b110000, 0b111100, 0b000110, 0b000010, 0b000110, 0b111100],
    [0b001100, 0b011000, 0b110000, 0b111100, 0b110110, 0b100010, 0b110110, 0b011100],
    [0b111110, 0b000110, 0b000110, 0b001100, 0b111110, 0b011000, 0b011000, 0b110000],
    [0b011100, 0b110110, 0b110110, 0b011100, 0b110110, 0b100010, 0b110110, 0b011100],
    [0b011100, 0b110110, 0b100010, 0b110110, 0b011110, 0b000110, 0b001100, 0b011000],
];

/// The shape of what the network sees of `count` images.
pub fn input(count: usize) -> [usize; 4] {
    [count, 3, SIDE * ENLARGED, SIDE * ENLARGED]
}

/// What a network says of the test set.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// \[N, 10\].
    pub logits: Vec<f32>,
    /// For each image the class of the largest logit, the first among equals.
    pub predictions: Vec<u8>,
    /// Part of the images whose prediction is the label, 0 to 1.
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

/// As PyTorch's `argmax`, for which NaN is larger than every number.
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

    /// Drawn digits are not those of the test set, and yet like them: the trained network knows what most of them are.
    #[test]
    fn drawn_digits_are_digits() {
        use crate::backends::{Cpu, OnHost};
        let images = drawn(60, 1).unwrap();
        assert_eq!(images.shape(), [60, 3, 32, 32]);
        assert!(images.as_slice().unwrap().iter().all(|value| (0.0..=1.0).contains(value)));
        let cpu = Cpu::new();
        let parameters = crate::digits::trained().unwrap();
        let network = crate::models::resnet::ResNet::load(&cpu, crate::digits::CONFIG, &parameters).unwrap();
        let labels: Vec<u8> = (0..60).map(|image| image % 10).collect();
        let outcome = Outcome::new(cpu.infer(&network, &images).unwrap().into_vec().unwrap(), &labels);
        assert!(outcome.accuracy >= 0.9, "{:?}", outcome.predictions);
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
