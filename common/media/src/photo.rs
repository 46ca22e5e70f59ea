//! From a photo file to the input of an ImageNet network, prepared as by torchvision for ResNet18: shorter side 256
//! (bilinear, antialiased), the central 224 × 224, values in [0, 1], then per channel (value − mean) / standard deviation.
//!
//! From the same pixels, each value is torchvision's for a PIL image. A JPEG's pixels differ by a level here and there between
//! decoders (in the photo of the repository, 1.2 % of them).
//!
//! Every photo becomes 8-bit red, green and blue first:
//! - grey is repeated; transparency is dropped, as Pillow's `convert("RGB")` drops it: the colour below it shows, no background;
//! - of 16 bits the nearest of 8 is taken. Pillow keeps the high byte of colours, and clips 16-bit grey to white above 255;
//! - CMYK and YCCK JPEGs are taken to be Adobe's, with inverted inks, as nearly all are; no colour profile is applied;
//! - a camera's note of how it was held (EXIF orientation) is followed, so that the network sees the photo upright. torchvision's
//!   image folders do not, unless a transform calls Pillow's `exif_transpose`.

use std::borrow::Cow;
use std::fs;
use std::io::Cursor;
use std::path::Path;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use common::files;
use common::prelude::*;
use image::imageops;
use image::{DynamicImage, ImageDecoder, ImageFormat, ImageReader, Limits, RgbImage};
use rayon::prelude::*;

use crate::{Error, Result};

/// Length of the shorter side after the resize, in pixels.
const SHORTER_SIDE: u32 = 256;
/// Side of the square that the network sees, in pixels.
const CROP: u32 = 224;
/// Red, green, blue.
const CHANNELS: usize = 3;
/// Means of ImageNet's images, in [0, 1], for red, green, blue (torchvision's values).
pub const MEAN: [f32; 3] = [0.485, 0.456, 0.406];
/// Standard deviations, in the order of [`MEAN`].
pub const STANDARD_DEVIATION: [f32; 3] = [0.229, 0.224, 0.225];
/// A longer strip than this would be blown up to gigabytes for the sake of a square in its middle.
const MAX_ASPECT: u32 = 64;

/// Maximum bytes of photo files in memory at any time, and so the limit for one file.
static FILES: Budget = Budget::new(512 << 20);
/// Maximum bytes of decoded pixels in memory at any time, and so the limit for one photo. Photos that are opened at the same time
/// wait for each other rather than exceed it. A decoder's own tables come on top.
static PIXELS: Budget = Budget::new(1 << 30);

/// The photo in the repository; `assets/README.md` has its author and licence.
static CHINA: &[u8] = include_bytes!("../assets/china.jpg");

/// A photo as the network sees it, 150 kB. Its own pixels are gone as soon as it is open: those of a hundred photos from a camera
/// would take gigabytes.
#[derive(Clone, Debug)]
pub struct Photo {
    name: String,
    /// Before the resize.
    size: (u32, u32),
    /// 224 × 224.
    middle: RgbImage,
}

impl Photo {
    /// The photo that comes with the course.
    pub fn built_in() -> Photo {
        let image =
            header(CHINA).and_then(pixels).expect("the photo in the repository is a JPEG, which a test decodes");
        Photo::new("china.jpg".to_owned(), &image)
    }

    /// Reads a JPEG or PNG file; its content decides the format, not its name.
    ///
    /// # Errors
    /// [`Error::Photo`] if the file is not a regular one or cannot be read, is no image, is truncated, has no pixels or too many, or
    /// is a strip too long to resize.
    pub fn open(path: &Path) -> Result<Photo> {
        let fail = |reason: String| Error::Photo { path: path.to_owned(), reason };
        let unreadable = |error: std::io::Error| fail(error.to_string());
        let length = fs::metadata(path).map_err(unreadable)?.len();
        let _share = FILES.take(length.min(FILES.total));
        let bytes = files::read(path, FILES.total).map_err(unreadable)?;
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let bytes = without_profile(&bytes);
        let decoder = header(&bytes).map_err(fail)?;
        let _share = PIXELS.take(decoding_bytes(&decoder));
        Ok(Photo::new(name, &pixels(decoder).map_err(fail)?))
    }

    fn new(name: String, image: &RgbImage) -> Photo {
        Photo { name, size: image.dimensions(), middle: crop(&resize(image)) }
    }

    /// The file's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Width and height of the photo in pixels.
    pub fn size(&self) -> (u32, u32) {
        self.size
    }

    /// The network's input: \[1, 3, 224, 224\], red, green, blue.
    pub fn to_tensor(&self) -> Tensor {
        normalise(&self.middle)
    }

    /// The network's view as a picture: \[3, 224, 224\], red, green, blue from 0 to 1.
    pub fn colours(&self) -> Tensor {
        let side = CROP as usize;
        Tensor::from_fn(&[CHANNELS, side, side], |at| {
            // Inside the image, so both fit u32.
            f32::from(self.middle.get_pixel(at[2] as u32, at[1] as u32).0[at[0]]) / 255.0
        })
    }
}

/// The network's input for several photos: \[photos, 3, 224, 224\].
///
/// # Errors
/// Errors of [`Tensor::from_vec`].
pub fn batch(photos: &[Photo]) -> common::Result<Tensor> {
    let each = photos.par_iter().map(|photo| photo.to_tensor().into_vec()).collect::<common::Result<Vec<_>>>()?;
    let side = CROP as usize;
    Tensor::from_vec(&[photos.len(), CHANNELS, side, side], each.concat())
}

/// A number of bytes that several threads share: a thread waits until enough of them are free.
struct Budget {
    total: u64,
    taken: Mutex<u64>,
    returned: Condvar,
}

/// Bytes of a [`Budget`], given back when dropped.
struct Share<'a> {
    budget: &'a Budget,
    bytes: u64,
}

impl Budget {
    const fn new(total: u64) -> Budget {
        Budget { total, taken: Mutex::new(0), returned: Condvar::new() }
    }

    /// Waits until `bytes`, which must not be more than the total, are free.
    fn take(&self, bytes: u64) -> Share<'_> {
        let full = |taken: &mut u64| *taken + bytes > self.total;
        let free = self.returned.wait_while(self.taken(), full);
        *free.unwrap_or_else(PoisonError::into_inner) += bytes;
        Share { budget: self, bytes }
    }

    fn taken(&self) -> MutexGuard<'_, u64> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Share<'_> {
    fn drop(&mut self) {
        *self.budget.taken() -= self.bytes;
        self.budget.returned.notify_all();
    }
}

/// Reads the header of a photo that may be decoded.
fn header(bytes: &[u8]) -> Result<impl ImageDecoder + '_, String> {
    if bytes.is_empty() {
        return Err("the file is empty".to_owned());
    }
    // From memory there is nothing to fail but the format.
    let mut reader = ImageReader::new(Cursor::new(bytes)).with_guessed_format().map_err(|error| error.to_string())?;
    let mut limits = Limits::default();
    limits.max_alloc = Some(PIXELS.total);
    reader.limits(limits);
    match reader.format() {
        Some(ImageFormat::Jpeg) if !jpeg_ends(bytes) => {
            return Err("it is truncated: the image does not end".to_owned());
        }
        Some(ImageFormat::Jpeg | ImageFormat::Png) => {}
        Some(other) => return Err(format!("it is a {other:?} image; JPEG and PNG are read")),
        None => return Err("it is neither a JPEG nor a PNG image".to_owned()),
    }
    let decoder = reader.into_decoder().map_err(undecodable)?;
    let (width, height) = decoder.dimensions();
    if width == 0 || height == 0 {
        return Err(format!("it is {width} × {height} pixels"));
    }
    if width.max(height) / width.min(height) > MAX_ASPECT {
        return Err(format!("it is {width} × {height} pixels, one side more than {MAX_ASPECT} times the other"));
    }
    // A small file may claim to hold a giant picture.
    let (need, limit) = (decoding_bytes(&decoder), PIXELS.total);
    if need > limit {
        return Err(format!(
            "it is {width} × {height} pixels, and decoding them takes {}; the limit is {}",
            files::bytes(need),
            files::bytes(limit)
        ));
    }
    Ok(decoder)
}

/// Bytes of the pixels as the file has them, and of a copy in 8-bit red, green and blue, which a conversion or a turn makes.
fn decoding_bytes(decoder: &impl ImageDecoder) -> u64 {
    let (width, height) = decoder.dimensions();
    let copy = CHANNELS as u64 * u64::from(width) * u64::from(height);
    decoder.total_bytes().saturating_add(copy)
}

/// The photo upright, in 8-bit red, green and blue.
fn pixels(mut decoder: impl ImageDecoder) -> Result<RgbImage, String> {
    let orientation = decoder.orientation().map_err(undecodable)?;
    let image = DynamicImage::from_decoder(decoder).map_err(undecodable)?.into_rgb8();
    let mut upright = DynamicImage::ImageRgb8(image);
    upright.apply_orientation(orientation);
    Ok(upright.into_rgb8())
}

fn undecodable(error: image::ImageError) -> String {
    format!("it cannot be decoded: {error}")
}

/// A PNG without its colour profiles, which nothing here uses and which a decoder would unpack to any size; other bytes unchanged.
fn without_profile(bytes: &[u8]) -> Cow<'_, [u8]> {
    /// Bytes of a chunk besides its data: length, kind and checksum.
    const FRAME: usize = 12;
    let Some(mut rest) = bytes.strip_prefix(b"\x89PNG\r\n\x1a\n") else { return Cow::Borrowed(bytes) };
    if !bytes.windows(4).any(|kind| kind == b"iCCP") {
        return Cow::Borrowed(bytes);
    }
    let mut kept = bytes[..bytes.len() - rest.len()].to_vec();
    while let Some((&length, _)) = rest.split_first_chunk() {
        let length = (u32::from_be_bytes(length) as usize).saturating_add(FRAME).min(rest.len());
        let (chunk, after) = rest.split_at(length);
        if chunk.get(4..8) != Some(b"iCCP") {
            kept.extend_from_slice(chunk);
        }
        rest = after;
    }
    kept.extend_from_slice(rest);
    Cow::Owned(kept)
}

/// Whether the markers of a JPEG lead to the one that ends it. The decoder silently fills missing parts with grey.
fn jpeg_ends(bytes: &[u8]) -> bool {
    const END: u8 = 0xD9;
    // In compressed data, 0xFF stands before 0 or the number of a restart; before a marker it may be repeated.
    let is_marker = |pair: &[u8]| pair[0] == 0xFF && !matches!(pair[1], 0x00 | 0xD0..=0xD7 | 0xFF);
    let mut rest = bytes.get(2..).unwrap_or_default();
    while let Some(at) = rest.windows(2).position(is_marker) {
        let marker = rest[at + 1];
        rest = &rest[at + 2..];
        if marker == END {
            return true;
        }
        // A segment's length counts its own two bytes. An EXIF segment may hold a small picture, with an end of its own.
        let length = rest.first_chunk().map_or(0, |&length| u16::from_be_bytes(length));
        rest = rest.get(usize::from(length)..).unwrap_or_default();
    }
    false
}

/// The shorter side becomes 256; the longer follows, rounded down. Rows first, then columns, each rounded to whole levels.
fn resize(image: &RgbImage) -> RgbImage {
    let (width, height) = image.dimensions();
    let shorter = u64::from(width.min(height));
    // At most 64 · 256, by the aspect that `decode` allows.
    let scaled = |side: u32| (u64::from(SHORTER_SIDE) * u64::from(side) / shorter) as u32;
    let (across, down) = (scaled(width), scaled(height));
    let narrow = resample(image.as_raw(), width as usize, across as usize, CHANNELS);
    let small = resample(&narrow, height as usize, down as usize, across as usize * CHANNELS);
    RgbImage::from_raw(across, down, small).expect("each pass makes one side what it is to be")
}

/// `pixels` \[…, from, inner\] as \[…, to, inner\]: each value is the mean of those below a triangle around its position,
/// weighted by its height. The triangle reaches to the adjacent input values or, when downscaling, to the adjacent output values,
/// which is what "antialiased" means. Weights are in fixed point as in Pillow, and so every value equals Pillow's.
fn resample(pixels: &[u8], from: usize, to: usize, inner: usize) -> Vec<u8> {
    const BITS: u32 = 22;
    let scale = from as f64 / to as f64;
    let reach = scale.max(1.0);
    let triangle = |at: usize| {
        let centre = (at as f64 + 0.5) * scale;
        let first = (centre - reach + 0.5).max(0.0) as usize;
        let last = ((centre + reach + 0.5) as usize).min(from);
        let heights = (first..last).map(|other| (1.0 - ((other as f64 + 0.5 - centre) / reach).abs()).max(0.0));
        let sum: f64 = heights.clone().sum();
        let weights: Vec<i32> = heights.map(|height| (height / sum * f64::from(1 << BITS) + 0.5) as i32).collect();
        (first, weights)
    };
    let triangles: Vec<_> = (0..to).map(triangle).collect();
    let mut out = Vec::with_capacity(pixels.len() / from * to);
    let mut sums = vec![0; inner];
    for lines in pixels.chunks(from * inner) {
        for (first, weights) in &triangles {
            // At most 255 times the weights' sum, 2²²: fits 31 bits.
            sums.fill(1 << (BITS - 1));
            for (weight, line) in weights.iter().zip(lines[first * inner..].chunks(inner)) {
                sums.iter_mut().zip(line).for_each(|(sum, &value)| *sum += weight * i32::from(value));
            }
            out.extend(sums.iter().map(|sum| (sum >> BITS).min(255) as u8));
        }
    }
    out
}

/// Crops the middle; half a pixel goes to the even side, like Python's `round`.
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
        Photo::new("test".to_owned(), &image)
    }

    fn decode(bytes: &[u8]) -> Result<RgbImage, String> {
        header(bytes).and_then(pixels)
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

    fn encoded(image: &DynamicImage, format: ImageFormat) -> Vec<u8> {
        let mut bytes = Vec::new();
        image.write_to(&mut Cursor::new(&mut bytes), format).unwrap();
        bytes
    }

    /// The bytes with a segment of this marker after the start of the image.
    fn with_segment(jpeg: &[u8], marker: u8, content: &[u8]) -> Vec<u8> {
        let length = u16::try_from(content.len() + 2).unwrap().to_be_bytes();
        [&jpeg[..2], &[0xFF, marker], &length, content, &jpeg[2..]].concat()
    }

    /// A profile of a few bytes may unpack to gigabytes.
    #[test]
    fn a_colour_profile_is_never_unpacked() {
        let png = encoded(&RgbImage::new(8, 8).into(), ImageFormat::Png);
        let profile =
            |kind: &[u8; 4], length: u32, data: &[u8]| [&length.to_be_bytes(), &kind[..], data, &[0; 4]].concat();
        // After the signature and the header; the second one claims more than there is.
        let with = |chunk: &[u8]| [&png[..33], chunk, &png[33..]].concat();
        assert_eq!(&*without_profile(&with(&profile(b"iCCP", 5, b"name\0"))), png);
        assert_eq!(&*without_profile(&with(&profile(b"iCCP", u32::MAX, b""))), &png[..33]);
        let other = with(&profile(b"tEXt", 4, b"iCCP"));
        assert_eq!(&*without_profile(&other), other);
        assert_eq!(&*without_profile(b"iCCP"), b"iCCP");
        assert!(decode(&png).is_ok());
    }

    #[test]
    fn what_is_no_photo_is_refused_with_the_reason() {
        let small = encoded(&RgbImage::new(8, 8).into(), ImageFormat::Png);
        let strip = encoded(&RgbImage::new(1, 65).into(), ImageFormat::Png);
        // Width and height follow the signature (8 bytes) and the chunk's length and name; its checksum is corrected.
        let png_of = |width: u32, height: u32| {
            let mut bytes = small.clone();
            bytes[16..20].copy_from_slice(&width.to_be_bytes());
            bytes[20..24].copy_from_slice(&height.to_be_bytes());
            let checksum = crc32(&bytes[12..29]).to_be_bytes();
            bytes[29..33].copy_from_slice(&checksum);
            bytes
        };
        // Height and width follow the frame header's marker, its length and the precision.
        let jpeg_of = |width: u16, height: u16| {
            let mut bytes = CHINA.to_vec();
            let at = bytes.windows(2).position(|pair| pair == [0xFF, 0xC0]).unwrap() + 5;
            bytes[at..at + 2].copy_from_slice(&height.to_be_bytes());
            bytes[at + 2..at + 4].copy_from_slice(&width.to_be_bytes());
            bytes
        };
        for (bytes, says) in [
            (Vec::new(), "the file is empty"),
            (b"Dear reader, this is text.".to_vec(), "it is neither a JPEG nor a PNG image"),
            (b"GIF89a and so on".to_vec(), "it is a Gif image; JPEG and PNG are read"),
            (CHINA[..100].to_vec(), "it is truncated: the image does not end"),
            (CHINA[..CHINA.len() / 2].to_vec(), "it is truncated: the image does not end"),
            (small[..small.len() / 2].to_vec(), "it cannot be decoded: "),
            (strip, "it is 1 × 65 pixels, one side more than 64 times the other"),
            (png_of(0, 8), "it cannot be decoded: "),
            (jpeg_of(0, 8), "it cannot be decoded: "),
            (jpeg_of(8, 0), "it cannot be decoded: "),
            (png_of(60_000, 60_000), "it is 60000 × 60000 pixels, and decoding them takes 20 GiB; the limit is 1 GiB"),
            (jpeg_of(65_000, 65_000), "it is 65000 × 65000 pixels, and decoding them takes 23 GiB; the limit is 1 GiB"),
        ] {
            let error = decode(&bytes).unwrap_err();
            assert!(error.starts_with(says), "{error}, not {says}");
        }
        assert_eq!(png_of(8, 8), small);
        assert_eq!(decode(&jpeg_of(640, 427)).unwrap(), decode(CHINA).unwrap());
    }

    #[test]
    fn a_budget_makes_wait_who_would_exceed_it() {
        static BUDGET: Budget = Budget::new(10);
        let (first, second) = (BUDGET.take(6), BUDGET.take(4));
        let waits = std::thread::spawn(|| drop(BUDGET.take(5)));
        std::thread::sleep(std::time::Duration::from_millis(50));
        assert!(!waits.is_finished());
        drop(second);
        std::thread::sleep(std::time::Duration::from_millis(50));
        assert!(!waits.is_finished(), "4 are free, and 5 are wanted");
        drop(first);
        waits.join().unwrap();
        assert_eq!(*BUDGET.taken(), 0);
    }

    /// PNG's checksum (ISO 3309), bit by bit.
    fn crc32(bytes: &[u8]) -> u32 {
        let shift = |crc: u32| if crc & 1 == 1 { crc >> 1 ^ 0xEDB8_8320 } else { crc >> 1 };
        !bytes.iter().fold(u32::MAX, |crc, &byte| (0..8).fold(crc ^ u32::from(byte), |crc, _| shift(crc)))
    }

    #[test]
    fn a_jpegs_end_is_its_own() {
        assert!(jpeg_ends(CHINA));
        // Phones append videos; what follows the end does not matter.
        assert!(jpeg_ends(&[CHINA, b"and a film"].concat()));
        // A small picture in a segment ends within it.
        let preview = with_segment(CHINA, 0xE1, &[&b"Exif\0\0"[..], &[0xFF, 0xD8, 0xFF, 0xD9]].concat());
        assert!(jpeg_ends(&preview) && !jpeg_ends(&preview[..preview.len() - 2]));
        assert!(!jpeg_ends(&[0xFF, 0xD8]) && !jpeg_ends(&[0xFF]));
    }

    #[test]
    fn grey_transparent_and_16_bit_photos_become_8_bit_colours() {
        use image::{GrayAlphaImage, GrayImage, ImageBuffer, Luma, LumaA, Rgb, Rgba, RgbaImage};
        const SIDE: u32 = 20;
        let grey = GrayImage::from_pixel(SIDE, SIDE, Luma([100]));
        for (image, expected) in [
            (grey.clone().into(), [100; 3]),
            (GrayAlphaImage::from_pixel(SIDE, SIDE, LumaA([100, 0])).into(), [100; 3]),
            (RgbaImage::from_pixel(SIDE, SIDE, Rgba([10, 20, 30, 0])).into(), [10, 20, 30]),
            (RgbaImage::from_pixel(SIDE, SIDE, Rgba([10, 20, 30, 128])).into(), [10, 20, 30]),
            // 16 bits count to 65535 = 257 · 255: 25,700 is 100, 33,000 is 128.4, 200 is 0.8.
            (DynamicImage::ImageLuma16(ImageBuffer::from_pixel(SIDE, SIDE, Luma([25_700]))), [100; 3]),
            (DynamicImage::ImageLumaA16(ImageBuffer::from_pixel(SIDE, SIDE, LumaA([25_700, 9]))), [100; 3]),
            (DynamicImage::ImageRgb16(ImageBuffer::from_pixel(SIDE, SIDE, Rgb([33_000, 200, 65_535]))), [128, 1, 255]),
            (DynamicImage::ImageRgba16(ImageBuffer::from_pixel(SIDE, SIDE, Rgba([0, 33_000, 200, 0]))), [0, 128, 1]),
        ] {
            let read = decode(&encoded(&image, ImageFormat::Png)).unwrap();
            assert_eq!(read.dimensions(), (SIDE, SIDE));
            assert!(read.pixels().all(|pixel| pixel.0 == expected), "{:?}: {:?}", image.color(), read.get_pixel(0, 0));
        }
        let read = decode(&encoded(&grey.into(), ImageFormat::Jpeg)).unwrap();
        assert!(read.pixels().all(|pixel| pixel.0.iter().all(|value| value.abs_diff(100) <= 1)));
    }

    /// `tests/data/cmyk.py` made the files, and says what Pillow reads.
    #[test]
    fn four_inks_become_the_colours_that_pillow_makes_of_them() {
        let cmyk = include_bytes!("../tests/data/cmyk.jpg");
        let ycck = include_bytes!("../tests/data/ycck.jpg");
        for (bytes, expected) in [
            (cmyk.as_slice(), [[245, 24, 24], [124, 198, 235], [29, 135, 29], [255, 255, 255]]),
            (ycck.as_slice(), [[245, 24, 24], [125, 198, 234], [29, 135, 29], [255, 255, 255]]),
        ] {
            let image = decode(bytes).unwrap();
            assert_eq!(image.dimensions(), (64, 16));
            for (square, expected) in (0..).zip(expected) {
                let read = image.get_pixel(16 * square + 8, 8).0;
                let near = read.iter().zip(expected).all(|(value, expected)| value.abs_diff(expected) <= 2);
                assert!(near, "{read:?}, not {expected:?}");
            }
        }
    }

    #[test]
    fn a_turned_camera_is_turned_back() {
        // The left is dark, the right bright above and in between below.
        let image = RgbImage::from_fn(48, 32, |x, y| {
            image::Rgb(
                [if x < 24 {
                    0
                } else if y < 16 {
                    250
                } else {
                    120
                }; 3],
            )
        });
        let jpeg = encoded(&image.into(), ImageFormat::Jpeg);
        // One entry: tag 0x0112 (orientation), of type 3 (16 bits), one value (EXIF 2.32, section 4.6.4).
        let turned = |orientation: u8, big: bool| {
            let tiff: &[u8] = if big {
                &[b'M', b'M', 0, 42, 0, 0, 0, 8, 0, 1, 1, 0x12, 0, 3, 0, 0, 0, 1, 0, orientation, 0, 0, 0, 0, 0, 0]
            } else {
                &[b'I', b'I', 42, 0, 8, 0, 0, 0, 1, 0, 0x12, 1, 3, 0, 1, 0, 0, 0, orientation, 0, 0, 0, 0, 0, 0, 0]
            };
            decode(&with_segment(&jpeg, 0xE1, &[b"Exif\0\0", tiff].concat())).unwrap()
        };
        let corners = |image: &RgbImage| {
            let (right, bottom) = (image.width() - 4, image.height() - 4);
            [(4, 4), (right, 4), (4, bottom), (right, bottom)].map(|(x, y)| match image.get_pixel(x, y).0[0] {
                0..60 => 'd',
                60..180 => 'm',
                _ => 'b',
            })
        };
        // Top left, top right, bottom left, bottom right; what the eight values mean is EXIF's table.
        for (orientation, expected) in [
            (1, ['d', 'b', 'd', 'm']),
            (2, ['b', 'd', 'm', 'd']),
            (3, ['m', 'd', 'b', 'd']),
            (4, ['d', 'm', 'd', 'b']),
            (5, ['d', 'd', 'b', 'm']),
            (6, ['d', 'd', 'm', 'b']),
            (7, ['m', 'b', 'd', 'd']),
            (8, ['b', 'm', 'd', 'd']),
            (0, ['d', 'b', 'd', 'm']),
            (9, ['d', 'b', 'd', 'm']),
        ] {
            for big in [true, false] {
                let upright = turned(orientation, big);
                let size = if (5..=8).contains(&orientation) { (32, 48) } else { (48, 32) };
                assert_eq!((corners(&upright), upright.dimensions()), (expected, size), "{orientation}");
            }
        }
        // A note that says nothing is no reason to refuse a photo.
        assert_eq!(decode(&with_segment(&jpeg, 0xE1, b"Exif\0\0MM")).unwrap().dimensions(), (48, 32));
    }

    /// Against Pillow, whose resize torchvision uses; `tests/goldens/photo.py` made the file.
    #[test]
    fn the_whole_preparation_agrees_with_pillow() {
        #[derive(serde::Deserialize)]
        struct Goldens {
            patterns: Vec<Golden>,
            china: Golden,
        }
        #[derive(serde::Deserialize)]
        struct Golden {
            width: u32,
            height: u32,
            means: [f64; 3],
            samples: Vec<f64>,
        }
        // How far the samples are off, in levels of 1/255, at most and on average; and the means of all.
        let off = |photo: &Photo, golden: &Golden| {
            assert_eq!(photo.size(), (golden.width, golden.height));
            let tensor = photo.to_tensor();
            let values = tensor.as_slice().unwrap();
            let level = |c: usize| 1.0 / 255.0 / f64::from(STANDARD_DEVIATION[c]);
            let ours = values.chunks(224).step_by(16).flat_map(|row| row.iter().step_by(16));
            assert_eq!(golden.samples.len(), 3 * 14 * 14);
            let difference = |(i, (&ours, &theirs)): (usize, (&f32, &f64))| {
                let levels = (f64::from(ours) - theirs).abs() / level(i / (14 * 14));
                assert!(levels.is_finite());
                levels
            };
            let samples: Vec<f64> = ours.zip(&golden.samples).enumerate().map(difference).collect();
            let mean = |plane: &[f32]| plane.iter().copied().map(f64::from).sum::<f64>() / plane.len() as f64;
            let planes = values.chunks(224 * 224).zip(golden.means).enumerate();
            let of_means = planes.map(|(c, (plane, expected))| (mean(plane) - expected).abs() / level(c));
            let average = samples.iter().sum::<f64>() / samples.len() as f64;
            (samples.into_iter().fold(0.0, f64::max), average, of_means.fold(0.0, f64::max))
        };
        let goldens: Goldens = serde_json::from_str(include_str!("../tests/goldens/photo.json")).unwrap();
        assert_eq!(goldens.patterns.len(), 6);
        for golden in &goldens.patterns {
            let pattern = |x: u32, y: u32| [(7 * x + 3 * y) % 256, (x * y / 5) % 256, (x * x + 11 * y) / 9 % 256];
            let image = RgbImage::from_fn(golden.width, golden.height, |x, y| {
                image::Rgb(pattern(x, y).map(|value| value as u8))
            });
            // No pixel differs: what is left is the digits of the file, and those of f32.
            let (most, _, of_means) = off(&photo(image), golden);
            assert!(most < 1e-3 && of_means < 1e-3, "{}×{}: {most}, {of_means}", golden.width, golden.height);
        }
        let (most, average, of_means) = off(&Photo::built_in(), &goldens.china);
        assert!(most < 1.001 && average < 0.05 && of_means < 0.01, "{most}, {average}, {of_means}");
    }
}
