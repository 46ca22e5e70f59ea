//! From a photo file to what an ImageNet network takes, as torchvision prepares it for ResNet18: shorter side 256 (bilinear,
//! antialiased), the central 224 × 224, values in [0, 1], then per channel (value − mean) / standard deviation.

use std::io::Cursor;
use std::path::Path;

use common::prelude::*;
use image::imageops::{self, FilterType};
use image::{ImageReader, RgbImage};

use crate::{Error, Result};

/// Length of the shorter side after the resize, in pixels.
const SHORTER_SIDE: u32 = 256;
/// Side of the square that the network sees, in pixels.
const CROP: u32 = 224;
/// Of ImageNet's images, in [0, 1], for red, green, blue (torchvision's values).
const MEAN: [f32; 3] = [0.485, 0.456, 0.406];
/// As [`MEAN`].
const STANDARD_DEVIATION: [f32; 3] = [0.229, 0.224, 0.225];
/// A longer strip than this would be blown up to gigabytes for the sake of a square in its middle.
const MAX_ASPECT: u32 = 64;

/// The photo in the repository; `assets/README.md` has its author and licence.
static CHINA: &[u8] = include_bytes!("../assets/china.jpg");

/// A decoded photo.
#[derive(Clone, Debug)]
pub struct Photo {
    name: String,
    image: RgbImage,
}

impl Photo {
    /// The photo that comes with the course.
    pub fn built_in() -> Photo {
        let image = decode(CHINA).expect("the photo in the repository is a JPEG, which a test decodes");
        Photo { name: "china.jpg".to_owned(), image }
    }

    /// Reads a JPEG or PNG file; what it is, its content says, not its name. A note in the file that the camera was turned
    /// is not heeded, as torchvision does not.
    ///
    /// # Errors
    /// [`Error::Photo`] if the file cannot be read, is no image, or is a strip too long to resize.
    pub fn open(path: &Path) -> Result<Photo> {
        let fail = |reason| Error::Photo { path: path.to_owned(), reason };
        let bytes = std::fs::read(path).map_err(|error| fail(error.to_string()))?;
        let image = decode(&bytes).map_err(fail)?;
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        Ok(Photo { name, image })
    }

    /// The file's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Width and height in pixels.
    pub fn size(&self) -> (u32, u32) {
        self.image.dimensions()
    }

    /// The network's input: \[1, 3, 224, 224\], red, green, blue.
    pub fn to_tensor(&self) -> Tensor {
        normalise(&crop(&resize(&self.image)))
    }
}

fn decode(bytes: &[u8]) -> Result<RgbImage, String> {
    if bytes.is_empty() {
        return Err("the file is empty".to_owned());
    }
    // From memory there is nothing to fail but the format. The decoders' own limits guard against a small file that claims
    // to hold a giant picture.
    let reader = ImageReader::new(Cursor::new(bytes)).with_guessed_format().map_err(|error| error.to_string())?;
    if reader.format().is_none() {
        return Err("it is neither a JPEG nor a PNG image".to_owned());
    }
    let image = reader.decode().map_err(|error| format!("it cannot be decoded: {error}"))?.into_rgb8();
    let (width, height) = image.dimensions();
    if width == 0 || height == 0 {
        return Err(format!("it is {width} × {height} pixels"));
    }
    if width.max(height) / width.min(height) > MAX_ASPECT {
        return Err(format!("it is {width} × {height} pixels, one side more than {MAX_ASPECT} times the other"));
    }
    Ok(image)
}

/// The shorter side becomes 256; the longer follows, rounded down.
fn resize(image: &RgbImage) -> RgbImage {
    let (width, height) = image.dimensions();
    let shorter = u64::from(width.min(height));
    // At most 64 · 256, by the aspect that `decode` allows.
    let scaled = |side: u32| (u64::from(SHORTER_SIDE) * u64::from(side) / shorter) as u32;
    // Its triangle grows with the reduction, which is what "antialiased bilinear" means.
    imageops::resize(image, scaled(width), scaled(height), FilterType::Triangle)
}

/// The middle; half a pixel goes to the even side, as Python's `round` has it.
fn crop(image: &RgbImage) -> RgbImage {
    let start = |side: u32| (f64::from(side - CROP) / 2.0).round_ties_even() as u32;
    imageops::crop_imm(image, start(image.width()), start(image.height()), CROP, CROP).to_image()
}

fn normalise(image: &RgbImage) -> Tensor {
    let (width, height) = (image.width() as usize, image.height() as usize);
    Tensor::from_fn(&[1, 3, height, width], |index| {
        let [_, c, y, x] = [index[0], index[1], index[2], index[3]];
        // Inside the image, so both fit u32.
        let value = f32::from(image.get_pixel(x as u32, y as u32).0[c]) / 255.0;
        (value - MEAN[c]) / STANDARD_DEVIATION[c]
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn photo(image: RgbImage) -> Photo {
        Photo { name: "test".to_owned(), image }
    }

    #[test]
    fn the_shorter_side_becomes_256_and_the_longer_is_rounded_down() {
        for (from, to) in [
            ((640, 427), (383, 256)),
            ((427, 640), (256, 383)),
            ((256, 256), (256, 256)),
            ((1, 1), (256, 256)),
            ((10, 64), (256, 1638)),
            ((3000, 2999), (256, 256)),
        ] {
            assert_eq!(resize(&RgbImage::new(from.0, from.1)).dimensions(), to, "{from:?}");
        }
    }

    #[test]
    fn the_crop_is_the_middle_and_half_pixels_go_to_the_even_side() {
        // Red is the column, green the row. (383 − 224) / 2 = 79.5 → 80; (381 − 224) / 2 = 78.5 → 78; (256 − 224) / 2 = 16.
        for (width, first) in [(383, 80), (381, 78)] {
            let image = RgbImage::from_fn(width, 256, |x, y| image::Rgb([(x % 256) as u8, y as u8, 0]));
            let middle = crop(&image);
            assert_eq!(middle.dimensions(), (224, 224));
            assert_eq!(middle.get_pixel(0, 0).0, [first, 16, 0]);
            assert_eq!(middle.get_pixel(5, 223).0, [first + 5, 239, 0]);
        }
    }

    #[test]
    fn one_colour_is_normalised_channel_by_channel() {
        let tensor = photo(RgbImage::from_pixel(300, 280, image::Rgb([255, 0, 102]))).to_tensor();
        assert_eq!(tensor.shape(), [1, 3, 224, 224]);
        let planes: Vec<&[f32]> = tensor.as_slice().unwrap().chunks(224 * 224).collect();
        let expected = [(1.0 - 0.485) / 0.229, (0.0 - 0.456) / 0.224, (0.4 - 0.406) / 0.225];
        for (plane, expected) in planes.iter().zip(expected) {
            assert!(plane.iter().all(|value| (value - expected).abs() < 1e-6), "{} is not {expected}", plane[0]);
        }
    }

    #[test]
    fn a_gradient_keeps_its_mean_and_its_direction() {
        let tensor =
            photo(RgbImage::from_fn(512, 512, |x, y| image::Rgb([(x / 2) as u8, (y / 2) as u8, 100]))).to_tensor();
        let values = tensor.as_slice().unwrap();
        let level = |i: usize| f64::from(values[i]) * f64::from(STANDARD_DEVIATION[i / (224 * 224)]);
        for (channel, mean_of_all) in MEAN.into_iter().enumerate().take(2) {
            let plane = channel * 224 * 224;
            let sum: f64 = (plane..plane + 224 * 224).map(level).sum();
            let mean = sum / (224.0 * 224.0) + f64::from(mean_of_all);
            // From 16 to 239 of 255, within half a level.
            assert!((mean - 127.5 / 255.0).abs() < 0.5 / 255.0, "{mean}");
        }
        // Red runs with x, green with y.
        assert!(level(223) - level(0) > 0.8 && (level(223 * 224) - level(0)).abs() < 0.01);
        let green = 224 * 224;
        assert!(level(green + 223 * 224) - level(green) > 0.8 && (level(green + 223) - level(green)).abs() < 0.01);
    }

    #[test]
    fn the_photo_in_the_repository_decodes() {
        let photo = Photo::built_in();
        assert_eq!((photo.name(), photo.size()), ("china.jpg", (640, 427)));
        let values = photo.to_tensor().into_vec().unwrap();
        // A photo is no single colour, and stays in the range that black and white have.
        assert!(values.iter().all(|value| (-2.2..2.7).contains(value)));
        assert!(values.iter().any(|&value| value < -1.0) && values.iter().any(|&value| value > 1.0));
    }

    #[test]
    fn what_is_no_photo_is_refused_with_the_reason() {
        assert_eq!(decode(b"").unwrap_err(), "the file is empty");
        assert_eq!(decode(b"Dear reader, this is text.").unwrap_err(), "it is neither a JPEG nor a PNG image");
        let truncated = decode(&CHINA[..100]).unwrap_err();
        assert!(truncated.starts_with("it cannot be decoded: "), "{truncated}");
        let mut strip = Vec::new();
        RgbImage::new(1, 65).write_to(&mut Cursor::new(&mut strip), image::ImageFormat::Png).unwrap();
        assert_eq!(decode(&strip).unwrap_err(), "it is 1 × 65 pixels, one side more than 64 times the other");
    }

    /// Against Pillow, whose resize torchvision uses; `tests/goldens/photo.py` made the file.
    #[test]
    fn the_whole_preparation_agrees_with_pillow() {
        #[derive(serde::Deserialize)]
        struct Golden {
            width: u32,
            height: u32,
            means: [f64; 3],
            samples: Vec<f64>,
        }
        let goldens: Vec<Golden> = serde_json::from_str(include_str!("../tests/goldens/photo.json")).unwrap();
        assert!(goldens.len() >= 3);
        for Golden { width, height, means, samples } in goldens {
            let pattern = |x: u32, y: u32| [(7 * x + 3 * y) % 256, (x * y / 5) % 256, (x * x + 11 * y) / 9 % 256];
            let image = RgbImage::from_fn(width, height, |x, y| image::Rgb(pattern(x, y).map(|value| value as u8)));
            let tensor = photo(image).to_tensor();
            let values = tensor.as_slice().unwrap();
            // Pillow rounds to whole levels between its two passes, this resize only at the end: one level apart at most.
            let level = |c: usize| 1.0 / 255.0 / f64::from(STANDARD_DEVIATION[c]);
            let ours = values.chunks(224).step_by(16).flat_map(|row| row.iter().step_by(16));
            assert_eq!(samples.len(), 3 * 14 * 14);
            for (i, (&ours, theirs)) in ours.zip(&samples).enumerate() {
                let allowed = 1.001 * level(i / (14 * 14));
                assert!((f64::from(ours) - theirs).abs() <= allowed, "{width}×{height}, {i}: {ours} and {theirs}");
            }
            for (c, (plane, expected)) in values.chunks(224 * 224).zip(means).enumerate() {
                let mean = plane.iter().copied().map(f64::from).sum::<f64>() / (224.0 * 224.0);
                assert!((mean - expected).abs() < 0.1 * level(c), "{width}×{height}: {mean} and {expected}");
            }
        }
    }
}
