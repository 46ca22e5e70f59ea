//! A clip made by the project itself: shapes that move over a still photo, then the same with a pan over the photo.
//!
//! A frame has the four channels of latents: red, green and blue from −1 to 1, and their luma (ITU-R BT.601). A real encoder
//! would make latents of a picture; here the mean over a value's pixels takes its place.

use common::prelude::*;
use media::photo::Photo;
use phase3_all_layers::models::unet::LATENTS;

/// Number of moving shapes.
const SHAPES: usize = 3;
/// Smallest and largest radius of a shape, then its maximum movement per frame, in sides of a frame.
const RADIUS: [f32; 2] = [0.07, 0.14];
const SPEED: f32 = 0.02;
/// Weights of red, green and blue in the luma.
const LUMA: [f32; 3] = [0.299, 0.587, 0.114];

/// A disc or a square.
#[derive(Clone, Copy, Debug)]
struct Shape {
    is_disc: bool,
    radius: f32,
    /// Across and down, in sides of a frame, at the first frame; then in each later frame.
    start: [f32; 2],
    speed: [f32; 2],
    colour: [f32; 3],
}

impl Shape {
    /// Makes a shape from eight values in (−1, 1).
    fn of(number: usize, random: &[f32]) -> Shape {
        let of = |at: usize| random.get(at).copied().unwrap_or_default();
        let between = |low: f32, high: f32, value: f32| low + (high - low) * (value / 2.0 + 0.5);
        Shape {
            is_disc: number.is_multiple_of(2),
            radius: between(RADIUS[0], RADIUS[1], of(0)),
            start: [1, 2].map(|at| between(0.0, 1.0, of(at))),
            speed: [3, 4].map(|at| SPEED * of(at)),
            colour: [5, 6, 7].map(of),
        }
    }

    /// Whether it covers a point of a frame. Shapes turn back at the edges.
    fn covers(&self, frame: usize, place: [f32; 2]) -> bool {
        let reflected = |at: f32| {
            let at = at.rem_euclid(2.0);
            at.min(2.0 - at)
        };
        let centre = [0, 1].map(|axis| reflected(self.start[axis] + self.speed[axis] * frame as f32));
        let [x, y] = [0, 1].map(|axis| (place[axis] - centre[axis]).abs());
        if self.is_disc { x * x + y * y <= self.radius * self.radius } else { x.max(y) <= self.radius }
    }
}

/// Two frames by two of the built-in photo, \[3, 2·side, 2·side\] from −1 to 1: each value is the mean of the pixels that it
/// touches.
fn canvas(side: usize) -> Result<Tensor> {
    let photo = Photo::built_in().colours();
    let ([_, height, width], pixels) = (photo.dims("the photo")?, photo.as_slice()?);
    let range = |at: usize, pixels: usize| {
        let per = pixels as f32 / (2 * side) as f32;
        let first = (at as f32 * per) as usize;
        first..(((at + 1) as f32 * per).ceil() as usize).clamp(first + 1, pixels)
    };
    Ok(Tensor::from_fn(&[3, 2 * side, 2 * side], |at| {
        let (rows, columns) = (range(at[1], height), range(at[2], width));
        let count = (rows.len() * columns.len()) as f32;
        let row = |y: usize| columns.clone().map(|x| pixels[(at[0] * height + y) * width + x]).sum::<f32>();
        2.0 * rows.clone().map(row).sum::<f32>() / count - 1.0
    }))
}

/// The latents \[1, 4, side, side\] of a clip's frames. In the first half the photo stands still, in the second the view moves on it by
/// up to a frame's width to the right and half of one down.
///
/// # Errors
/// [`Error::Invalid`] if there are no frames or a frame has no pixels.
pub fn latents(frames: usize, side: usize, seed: u64) -> Result<Vec<Tensor>> {
    if frames == 0 || side == 0 {
        return Err(Error::Invalid(format!("a clip of {frames} frames of {side} × {side}")));
    }
    let (photo, random) = (canvas(side)?, Tensor::random(&[SHAPES, 8], seed));
    let photo = photo.as_slice()?;
    let shapes: Vec<Shape> =
        random.as_slice()?.chunks(8).enumerate().map(|(number, random)| Shape::of(number, random)).collect();
    let still = frames.div_ceil(2);
    let frame = |frame: usize| {
        let way = frame.saturating_sub(still - 1) as f32 / (frames - still).max(1) as f32 * side as f32;
        let [right, down] = [way, way / 2.0];
        // Between four values.
        let sample = |channel: usize, y: usize, x: usize| {
            let (top, left) = (y as f32 + down, x as f32 + right);
            let last = 2 * side - 1;
            let (y, x) = ((top as usize).min(last), (left as usize).min(last));
            let at = |y: usize, x: usize| photo[(channel * 2 * side + y.min(last)) * 2 * side + x.min(last)];
            let (v, u) = (top - y as f32, left - x as f32);
            (1.0 - v) * ((1.0 - u) * at(y, x) + u * at(y, x + 1))
                + v * ((1.0 - u) * at(y + 1, x) + u * at(y + 1, x + 1))
        };
        Tensor::from_fn(&[1, LATENTS, side, side], |at| {
            let &[_, channel, y, x] = at else { return 0.0 };
            let place = [x, y].map(|value| (value as f32 + 0.5) / side as f32);
            // The last is in front.
            let shape = shapes.iter().rev().find(|shape| shape.covers(frame, place));
            let colour = |channel: usize| shape.map_or_else(|| sample(channel, y, x), |shape| shape.colour[channel]);
            match channel {
                0..3 => colour(channel),
                _ => (0..3).map(|channel| LUMA[channel] * colour(channel)).sum(),
            }
        })
    };
    Ok((0..frames).map(frame).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Share of the values that differ between two frames.
    fn changed(a: &Tensor, b: &Tensor) -> f64 {
        let (a, b) = (a.as_slice().unwrap(), b.as_slice().unwrap());
        a.iter().zip(b).filter(|(a, b)| a != b).count() as f64 / a.len() as f64
    }

    #[test]
    fn shapes_move_and_then_the_photo_too() {
        let clip = latents(60, 64, 1).unwrap();
        assert_eq!((clip.len(), clip[0].shape()), (60, &[1, LATENTS, 64, 64][..]));
        let values = || clip.iter().flat_map(|frame| frame.as_slice().unwrap());
        assert!(values().all(|value| (-1.0..=1.0).contains(value)));
        let spread = values().fold(f32::INFINITY, |low, value| low.min(*value))
            ..values().fold(f32::NEG_INFINITY, |high, value| high.max(*value));
        assert!(spread.start < -0.7 && spread.end > 0.7, "{spread:?}");
        for pair in clip[..30].windows(2) {
            let part = changed(&pair[0], &pair[1]);
            assert!(part > 0.0 && part < 0.1, "{part}");
        }
        for pair in clip[29..].windows(2) {
            assert!(changed(&pair[0], &pair[1]) > 0.5);
        }
        // The same again, and another for another seed.
        assert_eq!(changed(&latents(2, 64, 1).unwrap()[0], &clip[0]), 0.0);
        assert!(changed(&latents(1, 64, 2).unwrap()[0], &clip[0]) > 0.01);
        // The luma of a frame.
        let frame = clip[45].as_slice().unwrap();
        let [r, g, b, luma] = [0, 1, 2, 3].map(|channel| frame[channel * 64 * 64 + 777]);
        assert!((0.299 * r + 0.587 * g + 0.114 * b - luma).abs() < 1e-6);
        assert!(latents(0, 8, 1).is_err() && latents(1, 0, 1).is_err());
        assert_eq!(latents(1, 8, 1).unwrap().len(), 1);
    }
}
