//! From latents to pictures, for a look at what the U-Net makes. A decoder of its own would turn latents into a real picture; here
//! the first three channels are taken as red, green and blue.

use std::path::{Path, PathBuf};

use common::prelude::*;
use image::{Rgb, RgbImage};

use crate::Error;

/// Pixels of a picture for a value of a latent, in each direction.
const SCALE: u32 = 4;

/// The picture of a latent \[C, H, W\] or \[1, C, H, W\] of three channels or more, on the host: −1 is 0 and 1 is 255, and each value
/// is a square of 4 × 4 pixels.
///
/// # Errors
/// [`common::Error::Shape`] if it has another shape, [`common::Error::Invalid`] if it is on a device or one of the values shown is NaN.
pub fn picture(latent: &Tensor) -> Result<RgbImage> {
    let (&[channels, height, width] | &[1, channels, height, width]) = latent.shape() else {
        return Err(no_picture(latent));
    };
    let sides = [width, height].map(|side| u32::try_from(side).ok().and_then(|side| side.checked_mul(SCALE)));
    let (3.., [Some(across), Some(down)]) = (channels, sides) else {
        return Err(no_picture(latent));
    };
    let values = &latent.as_slice()?[..3 * height * width];
    if let Some(at) = values.iter().position(|value| value.is_nan()) {
        return Err(common::Error::Invalid(format!("the latent holds NaN at place {at}")));
    }
    // In range after the clamp; infinities are the darkest and the brightest.
    let level = |value: f32| ((value.clamp(-1.0, 1.0) + 1.0) * 127.5).round() as u8;
    Ok(RgbImage::from_fn(across, down, |x, y| {
        let pixel = (y / SCALE) as usize * width + (x / SCALE) as usize;
        Rgb([0, 1, 2].map(|channel| level(values[channel * height * width + pixel])))
    }))
}

fn no_picture(latent: &Tensor) -> common::Error {
    common::Error::Shape {
        operation: "a picture of a latent".to_owned(),
        detail: format!("the shape {:?} is not [3 or more, height, width]", latent.shape()),
    }
}

/// Writes the pictures of latents as `frame-0000.png`, `frame-0001.png` … into `dir`, which is made if it is not there, and returns
/// their paths.
///
/// # Errors
/// As [`picture`]; [`Error::Write`] if a file cannot be written.
pub fn write_frames<'a>(dir: &Path, latents: impl IntoIterator<Item = &'a Tensor>) -> crate::Result<Vec<PathBuf>> {
    let fail = |path: &Path, reason: String| Error::Write { path: path.to_owned(), reason };
    std::fs::create_dir_all(dir).map_err(|error| fail(dir, error.to_string()))?;
    let write = |(number, latent)| {
        let path = dir.join(format!("frame-{number:04}.png"));
        picture(latent)?.save(&path).map_err(|error| fail(&path, error.to_string()))?;
        Ok(path)
    };
    latents.into_iter().enumerate().map(write).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn channels_are_colours_and_values_are_squares() {
        // Red runs with x, green with y, blue is beyond both ends, the fourth channel is NaN and not looked at.
        let latent = Tensor::from_fn(&[4, 3, 5], |index| match *index {
            [0, _, x] => x as f32 / 2.0 - 1.0,
            [1, y, _] => y as f32 - 1.0,
            [2, _, x] => {
                if x < 2 {
                    -1.5
                } else {
                    f32::INFINITY
                }
            }
            _ => f32::NAN,
        });
        let image = picture(&latent).unwrap();
        assert_eq!(image.dimensions(), (20, 12));
        for (x, y, pixel) in image.enumerate_pixels() {
            let red = [0, 64, 128, 191, 255][x as usize / 4];
            let green = [0, 128, 255][y as usize / 4];
            assert_eq!(pixel.0, [red, green, if x < 8 { 0 } else { 255 }], "{x}, {y}");
        }
        let one = latent.reshape(&[1, 4, 3, 5]).unwrap();
        assert_eq!(picture(&one).unwrap(), image);
    }

    #[test]
    fn what_is_no_picture_is_refused() {
        for shape in [&[2, 8, 8][..], &[8, 8], &[2, 4, 8, 8], &[]] {
            let error = picture(&Tensor::zeros(shape)).unwrap_err().to_string();
            assert!(error.starts_with("a picture of a latent: the shape "), "{error}");
        }
        let nan = Tensor::from_fn(&[3, 2, 2], |index| if index == [1, 0, 1] { f32::NAN } else { 0.0 });
        assert!(picture(&nan).unwrap_err().to_string().contains("NaN at place 5"));
    }

    #[test]
    fn frames_are_files_in_order() {
        let dir = tempfile::tempdir().unwrap();
        let latents: Vec<Tensor> = (1..=3).map(|seed| Tensor::random(&[4, 64, 64], seed)).collect();
        let paths = write_frames(&dir.path().join("video"), &latents).unwrap();
        let names: Vec<_> = paths.iter().map(|path| path.file_name().unwrap().to_str().unwrap()).collect();
        assert_eq!(names, ["frame-0000.png", "frame-0001.png", "frame-0002.png"]);
        for (path, latent) in paths.iter().zip(&latents) {
            let read = image::open(path).unwrap().into_rgb8();
            assert_eq!((read.dimensions(), &read), ((256, 256), &picture(latent).unwrap()));
        }
        std::fs::write(dir.path().join("file"), "").unwrap();
        let error = write_frames(&dir.path().join("file"), &latents).unwrap_err().to_string();
        assert!(error.starts_with("cannot write "), "{error}");
    }
}
